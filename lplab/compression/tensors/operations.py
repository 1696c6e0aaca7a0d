"""The operations of :mod:`lplab.compression.arrays` on tensors of any device: the same functions, the same bits.

The same bits on each device need operations that promise them. Integers, comparisons, ``argmax`` and stable sorts do.
A float32 value is computed by single additions, products, quotients and roots, which IEEE 754 rounds exactly; no
kernel fuses two of them. Sums of many values have no fixed order, so :func:`rounded_sums` uses one only where every
order gives the same float32 result. Matrix products have numpy's bits on CPUs alone. Bytes are computed by arithmetic
where their order could depend on the machine.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import (  # noqa: F401  # the same names and meanings in both libraries
    Tensor,
    abs,
    clip,
    concatenate,
    empty_like,
    floor,
    isfinite,
    ones_like,
    round,
    searchsorted,
    sign,
    signbit,
    sqrt,
    stack,
    where,
)
from torch.nn.functional import pad

from lplab import formats

BLOCK = 2**62  # all elements are processed together: each call of an operation costs a device much time
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


# ---- memory ----------------------------------------------------------------------------------------------------------


def device(x: Tensor) -> Any:
    """Where a message to the owner of ``x`` is read, as a tensor."""
    return x.device


def dtype_name(x: Tensor) -> str:
    """The name of the elements' type."""
    return str(x.dtype).removeprefix("torch.")


def flat(x: Tensor) -> Tensor:
    """The elements in a row: a view where that is possible."""
    return x.detach().reshape(-1)


def copy(x: Tensor) -> Tensor:
    """A copy in memory of its own."""
    return x.clone()


def host(x: Tensor) -> np.ndarray:
    """A numpy array on the host with the elements of a tensor."""
    return x.cpu().numpy()


def from_host(array: np.ndarray, like: Tensor) -> Tensor:
    """A copy of an array on the device of a tensor."""
    return torch.from_numpy(np.array(array)).to(like.device)


def zeros(count: int, like: Tensor) -> Tensor:
    """float32 zeros where ``like`` is."""
    return torch.zeros(count, device=like.device)


def arange(count: int, like: Tensor) -> Tensor:
    """0 … count − 1 where ``like`` is: int64."""
    return torch.arange(count, device=like.device)


def cast(x: Tensor, name: str) -> Tensor:
    """Elements of another type, by its name."""
    return x.to(getattr(torch, name))


def rows(x: Tensor, width: int, fill: float) -> Tensor:
    """A flat tensor in rows of ``width``, the last one filled up."""
    return pad(x, (0, -len(x) % width), value=fill).view(-1, width)


# ---- elements --------------------------------------------------------------------------------------------------------


def take(x: Tensor, indices: Tensor) -> Tensor:
    """The elements at some places of the last dimension."""
    return x[..., indices]


def take_sent(x: Tensor, indices: Tensor) -> Tensor:
    """Take the elements at some places of the last dimension, and leave zeros there."""
    sent = take(x, indices)
    x[..., indices] = 0
    return sent


def nonzero(x: Tensor) -> Tensor:
    """The places of a flat tensor that are not zero: int64, ascending."""
    return x.nonzero()[:, 0]


def count(mask: Tensor) -> int:
    """How many elements are not zero."""
    return int(mask.count_nonzero())


def insert(x: Tensor, places: Tensor, value: int) -> Tensor:
    """A flat tensor with a value inserted before each of these places, which ascend."""
    filled = x.new_full((len(x) + len(places),), value)
    old = torch.ones(len(filled), dtype=torch.bool, device=x.device)
    old[places + arange(len(places), x)] = False
    filled[old] = x
    return filled


def bincount(numbers: Tensor, bins: int) -> Tensor:
    """How often each number of 0 … bins − 1 occurs."""
    counts = torch.zeros(bins, dtype=torch.int64, device=numbers.device)
    return counts.index_add_(0, numbers, torch.ones_like(numbers))


def repeat(x: Tensor, times: int) -> Tensor:
    """Each element ``times`` times in a row."""
    return x.repeat_interleave(times)


def argsort_descending(x: Tensor) -> Tensor:
    """Places in each row from the largest element to the smallest; of equal ones the first before the others."""
    return x.argsort(dim=1, descending=True, stable=True)


def sort_rows(x: Tensor) -> Tensor:
    """Each row in ascending order."""
    return x.sort(dim=1).values


def bin_maxima(x: Tensor, bin: int) -> Tensor:
    """max |x| of each bin of a flat tensor; the last one may be short."""
    return rows(x.abs(), bin, 0).amax(1)


def kth_largest(x: Tensor, k: int) -> Tensor:
    """The k-th largest element of a flat tensor."""
    return x.topk(k, sorted=False).values.min()


# ---- numbers ---------------------------------------------------------------------------------------------------------


def is_finite(x: Tensor) -> bool:
    """Whether no element is NaN or infinite."""
    if not x.numel():
        return True
    # Both are NaN if a value is NaN. On CPUs aminmax() takes a tenth of the time of isfinite().
    low, high = x.aminmax()
    return bool(low.isfinite() & high.isfinite())


def add_finite(residual: Tensor, gradient: Tensor, total: Tensor) -> bool:
    """Write residual + gradient to ``total``; whether all sums are finite, which those of a NaN or infinity are not."""
    return is_finite(torch.add(residual, gradient, out=total))


def compiles(x: Tensor) -> bool:
    """Whether compiled loops of the host pay off: never on a device."""
    return False


def divided(x: Tensor, divisor: float) -> Tensor:
    """Quotients, each rounded once to the type of ``x``.

    The divisor becomes a tensor: by a Python number CUDA multiplies with a rounded reciprocal.

    >>> divided(torch.tensor([1.0]), 3).item() == float(np.float32(1) / np.float32(3))
    True
    """
    return x / torch.full((), divisor, dtype=x.dtype, device=x.device)


def rounded_sums(x: Tensor, finish: Callable[[Tensor], Tensor]) -> Tensor:
    """A rounded function of sums along the last dimension: numpy's bits, whatever the order of additions.

    Two orders of n additions in float64 differ by at most 2·(n − 1)·2⁻⁵³ of the sum, if no two values have opposite
    signs. If ``finish`` has the same value at both ends of that interval, numpy's sum has it, too. If not, which for a
    sum of a million values happens about once in a hundred times, numpy adds the values of this sum on the host.

    >>> rounded_sums(torch.ones(3), torch.Tensor.float)
    tensor(3.)
    """
    return _certain(x, finish, lambda rows, _: np.add.reduce(rows, axis=-1, dtype=np.float64))


def rounded_bucket_sums(x: Tensor, bucket: int, finish: Callable[[Tensor], Tensor]) -> Tensor:
    """:func:`rounded_sums` of each ``bucket`` elements of flat float64; the last may be fewer."""

    def add(uncertain: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        lengths = np.minimum(bucket, len(x) - bucket * numbers)
        return np.array([np.add.reduceat(row[:length], [0])[0] for row, length in zip(uncertain, lengths, strict=True)])

    return _certain(rows(x, bucket, 0), finish, add)


def _certain(
    x: Tensor, finish: Callable[[Tensor], Tensor], add: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Tensor:
    """A function of sums along the last dimension; ``add`` gets the rows of uncertain sums, and their numbers."""
    total = x.sum(-1, dtype=torch.float64)
    margin = 3 * (x.shape[-1] + 1) * 2.0**-53
    low, high = finish(total * (1 - margin)), finish(total * (1 + margin))
    if torch.equal(low, high):
        return low
    uncertain = low.ne(high)
    numbers = nonzero(uncertain.reshape(-1))
    total[uncertain] = from_host(add(host(x[uncertain]), host(numbers)), total)
    return finish(total)


def product(a: Tensor, b: Tensor) -> Tensor:
    """The product of two matrices: on CPUs numpy's, on shared memory, because no two libraries have the same bits."""
    return a @ b if a.is_cuda else torch.from_numpy(a.numpy() @ b.numpy())


# ---- bytes -----------------------------------------------------------------------------------------------------------


def round_to_wire(x: Tensor, wire: str) -> Tensor:
    """The float32 values that arrive: rounded to nearest even, and clipped to the largest number of the format."""
    if wire == "fp32":
        return x
    most = float(formats.get(wire).max)
    return x.clamp(-most, most).to(DTYPES[wire]).float()


def float_bytes(x: Tensor, wire: str = "fp32") -> Tensor:
    """Numbers that have been rounded to a format as little-endian bytes.

    >>> float_bytes(torch.tensor([1.0]), "bf16").tolist()
    [128, 63]
    """
    return x.reshape(-1).to(DTYPES[wire]).contiguous().view(torch.uint8)


def floats(payload: Tensor, wire: str = "fp32") -> Tensor:
    """The inverse of :func:`float_bytes`, float32."""
    # A view as another type needs an aligned beginning, which the clone has.
    return payload.clone().view(DTYPES[wire]).float()


def narrow(x: Tensor, width: int) -> Tensor:
    """Integers as int64: few operations of PyTorch take unsigned ones of several bytes."""
    return x.long()


def unsigned_bytes(x: Tensor, width: int) -> Tensor:
    """Integers as little-endian ones of ``width`` bytes each: uint8."""
    return torch.stack([x >> 8 * i & 255 for i in range(width)], dim=1).reshape(-1).to(torch.uint8)


def unsigned(payload: Tensor, width: int) -> Tensor:
    """The inverse of :func:`unsigned_bytes`, int64."""
    digits = payload.reshape(-1, width).long()
    return sum((digits[:, i] << 8 * i for i in range(1, width)), start=digits[:, 0])


def pack_bits(mask: Tensor) -> Tensor:
    """Bools, eight to a byte, the first in the lowest bit; the last byte is filled with 0."""
    bits = rows(mask.to(torch.uint8), 8, 0) << torch.arange(8, dtype=torch.uint8, device=mask.device)
    return bits.sum(1, dtype=torch.uint8)


def unpack_bits(payload: Tensor) -> Tensor:
    """The inverse of :func:`pack_bits`, eight bools for each byte."""
    places = torch.arange(8, dtype=torch.uint8, device=payload.device)
    return (payload[:, None] >> places & 1).reshape(-1).bool()
