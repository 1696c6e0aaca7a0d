"""PyTorch's own checks of the arguments of a function that a recipe computes in another way.

What PyTorch takes, a recipe takes; what PyTorch refuses, it refuses with PyTorch's own error. So PyTorch computes the
call itself, and that result is dropped. :func:`lplab.training.emulation.op_handlers.checked` keeps what was found.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map_only

from lplab.formats.recorded import has_numbers
from lplab.formats.torch_privates import without_dispatch_modes, without_function_modes

LEFT_TO_PYTORCH = "left to PyTorch"
ROUNDED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_arguments(func: Any, args: tuple, kwargs: dict) -> str:
    """Raise what PyTorch raises for this call, if anything.

    Args:
        func, args, kwargs: the call, without ``out=``.

    Returns:
        "" where a recipe can round the operands; LEFT_TO_PYTORCH for integers and complex numbers; else what the first
        tensor is whose numbers it cannot round, such as "a sparse matrix".

    >>> check_arguments(torch.mm, (torch.ones(2, 3), torch.ones(3, 2)), {})
    ''
    >>> check_arguments(torch.mm, (torch.ones(2, 3), torch.ones(3, 2).to_sparse()), {})
    'a sparse matrix'
    >>> check_arguments(torch.mm, (torch.ones(2, 3), torch.ones(2)), {})
    Traceback (most recent call last):
    ...
    RuntimeError: mat2 must be a matrix
    """
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    y = _computed(func, args, kwargs, tensors)
    is_real = any(x.is_floating_point() for x in tensors) and not any(x.is_complex() for x in tensors)
    if y is NotImplemented or not is_real:
        return LEFT_TO_PYTORCH
    return next(filter(None, map(_unlike_plain_tensors, tensors)), "")


def _computed(func: Any, args: tuple, kwargs: dict, tensors: list[Tensor]) -> Any:
    """What PyTorch computes for a call, which no mode sees. The random state stays as it is."""
    cuda = sorted({x.device.index for x in tensors if x.is_cuda})
    # the fused attention of CPUs, and oneDNN's LSTM, which is for float32, read beyond the end where sizes do not fit
    dtypes = [x.dtype for x in tensors]
    if func is torch.lstm and dtypes[0] == torch.float32 and {*dtypes} <= {torch.float32, torch.int64}:
        args, kwargs = tree_map_only(Tensor, lambda x: x.double() if x.is_floating_point() else x, (args, kwargs))
    key, value = (kwargs.get(name, args[i] if len(args) > i else None) for i, name in enumerate(("key", "value"), 1))
    without_fusing = sdpa_kernel(SDPBackend.MATH) if _differ_in_length(key, value) else nullcontext()
    with torch.no_grad(), torch.random.fork_rng(cuda), _unseen(), without_fusing:
        return func(*args, **kwargs)


def _differ_in_length(key: Any, value: Any) -> bool:
    """Whether two tensors differ in a size other than the last."""
    if not (isinstance(key, Tensor) and isinstance(value, Tensor)) or key.is_nested or value.is_nested:
        return False
    return key.shape[:-1] != value.shape[:-1]


@contextmanager
def _unseen() -> Iterator[None]:
    """No mode and no subclass of tensors sees what is called within the block."""
    with without_function_modes(), without_dispatch_modes():
        yield


def _unlike_plain_tensors(x: Tensor) -> str:
    """What a tensor is if its memory does not hold its numbers one by one, or in no dtype that is rounded; else ""."""
    if x.is_nested:
        return "a nested tensor"
    if has_own_numbers(type(x)) and (x.is_meta or has_numbers(x)):
        return f"a {type(x).__name__}"
    if x.layout != torch.strided:
        return "a sparse matrix" if "sparse" in str(x.layout) else f"a tensor with layout {x.layout}"
    return f"a tensor of {x.dtype}" if x.is_floating_point() and x.dtype not in ROUNDED else ""


def has_own_numbers(kind: type) -> bool:
    """Whether tensors of a subclass say themselves what an operator computes, as nested and masked tensors do."""
    return kind.__torch_dispatch__ is not Tensor.__torch_dispatch__  # type: ignore[attr-defined]


def written_into(out: Any, y: Any, func: Any, args: tuple, kwargs: dict) -> Any:
    """``out`` with the numbers of y, in its size; PyTorch refuses what it refuses for ``out=`` of this call.

    The arguments must have been used before: ``out`` may be one of them.
    """
    with _unseen():
        func(*args, **kwargs, out=out)
    with torch.no_grad():
        return out.copy_(y)
