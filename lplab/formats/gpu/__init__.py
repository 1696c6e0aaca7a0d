"""Rounding on a GPU: the word functions of :mod:`lplab.formats.words`, compiled by Triton, in one pass over memory.

``names`` and ``compiler`` bind word functions to Triton, ``shells`` has the kernels, which know memory alone, and
``dispatch`` chooses a kernel and runs it. Triton is imported with the first tensor on a GPU. Where Triton is not
installed, or ``LPLAB_NO_TRITON=1`` was set at the import, PyTorch's own operations compute the same bits.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

DEVICES = ("cuda",)
LEAST_CAPABILITY = 8, 0  # of NVIDIA's GPUs, as Triton's documentation says; older ones have no bfloat16 either
_is_available = find_spec("triton") is not None and os.environ.get("LPLAB_NO_TRITON", "") in ("", "0")


@lru_cache(maxsize=64)
def serves(device: Any) -> bool:
    """Whether Triton's kernels round the tensors of a ``torch.device``.

    >>> import torch
    >>> serves(torch.device("cpu"))
    False
    """
    if not _is_available or device.type not in DEVICES:
        return False
    import torch

    is_nvidia = device.type == "cuda" and torch.version.hip is None
    return not is_nvidia or torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY
