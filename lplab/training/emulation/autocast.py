"""``torch.autocast`` does not act on what a recipe computes: the recipe decides formats, the rest stays in float32.

The same holds around a quantized model, inside its ``forward`` and in the backward pass. A model that rounds nothing
is plain PyTorch, with autocast.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from lplab.formats.torch_privates import autocast_devices


@contextmanager
def autocast_off() -> Iterator[None]:
    """Switch autocast off for all devices within the block.

    >>> with torch.autocast("cpu", dtype=torch.bfloat16), autocast_off():
    ...     torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype
    torch.float32
    """
    devices = [device for device in autocast_devices() if torch.is_autocast_enabled(device)]
    for device in devices:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in devices:
            torch.set_autocast_enabled(device, True)


def in_float32(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments of a call; tensors of 16 bits, which autocast would take together with others, in float32."""

    def widened(x: Any) -> Any:
        return x.float() if isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x

    return tree_map(widened, (args, kwargs))
