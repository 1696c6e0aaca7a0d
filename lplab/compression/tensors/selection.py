"""Local selection in operations of PyTorch: the elements that :mod:`lplab.compression.selection` selects.

A tensor on the CPU is an array without a copy, so that there the faster loops of the reference select.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from lplab.compression import selection, sparse
from lplab.compression.selection import SelectionSettings
from lplab.compression.tensors.messages import SHARED, host


def divided(x: Tensor, divisor: float) -> Tensor:
    """float32 quotients, each rounded once.

    The divisor becomes a tensor: by a Python number CUDA multiplies with a rounded reciprocal.

    >>> divided(torch.tensor([1.0]), 3).item() == float(np.float32(1) / np.float32(3))
    True
    """
    return x / torch.full((), divisor, dtype=x.dtype, device=x.device)


def certain_sum(
    x: Tensor, finish: Callable[[Tensor], Tensor], reference: Callable[[np.ndarray], np.ndarray | np.floating]
) -> Tensor:
    """A rounded function of sums along the last dimension: the bits of the reference, whatever the order of additions.

    Two orders of n additions in float64 differ by at most 2·(n − 1)·2⁻⁵³ of the sum, if no two values have opposite
    signs. If ``finish`` has the same value at both ends of that interval, the reference has it, too. If not, which for
    a million values happens about once in a hundred times, the reference computes it on the host.

    Args:
        x: float32 or float64 [..., n], all of one sign along the last dimension.
        finish: a monotone function, applied to float64 sums; the result is rounded much more coarsely than float64.
        reference: the result from ``x`` as a numpy array.

    >>> certain_sum(torch.ones(3), torch.Tensor.float, lambda x: x.sum())
    tensor(3.)
    """
    total = x.sum(-1, dtype=torch.float64)
    margin = 3 * (x.shape[-1] + 1) * 2.0**-53
    low, high = finish(total * (1 - margin)), finish(total * (1 + margin))
    if torch.equal(low, high):
        return low
    return torch.from_numpy(np.asarray(reference(host(x)))).to(x.device)


@dataclass(frozen=True, eq=False)
class TensorSelection:
    """The elements of a layer that AdaComp sends: :class:`lplab.compression.selection.Selection` on a device.

    Attributes:
        scale: S, float32, on the host.
        indices: ascending, int64.
        negative: bool, one for each index.
        residual: after the step, float32.
    """

    scale: np.float32
    indices: Tensor
    negative: Tensor
    residual: Tensor


def adacomp_select(
    residual: Tensor, gradient: Tensor, settings: SelectionSettings, bin: int, out: Tensor
) -> TensorSelection:
    """:func:`lplab.compression.selection.adacomp_select`; ``out`` receives the new residual."""
    if gradient.device.type in SHARED:
        found = selection.adacomp_select(host(residual), host(gradient), settings, bin, host(out))
        return TensorSelection(found.scale, torch.from_numpy(found.indices), torch.from_numpy(found.negative), out)
    numel = gradient.numel()
    fill = -numel % bin
    total = torch.add(residual, gradient, out=out)
    boosted = total + gradient * float(np.float32(settings.scale_factor - 1))
    rows = pad(total.abs(), (0, fill)).view(-1, bin)
    maxima = rows.amax(1)
    scale = _mean_maximum(maxima, settings.scale_over)
    limit = maxima.repeat_interleave(bin)[:numel]
    signs = total if settings.sign_of == "G" else boosted
    sent = (boosted.abs() >= limit) & torch.where(limit > 0, signs != 0, settings.zero_bins == "all")
    if settings.always_one:
        of_bin = pad(sent, (0, fill)).view(-1, bin)
        silent = ~of_bin.any(1) & (maxima > 0)
        first = rows.argmax(1, keepdim=True)
        sent = of_bin.scatter(1, first, of_bin.gather(1, first) | silent[:, None]).view(-1)[:numel]
    indices = sent.nonzero()[:, 0]
    negative = signs[indices] < 0
    total[indices] -= _signed(negative, scale)
    return TensorSelection(scale, indices, negative, total)


def _signed(negative: Tensor, scale: np.float32) -> Tensor:
    """−scale or scale, float32."""
    value = torch.full((), float(scale), device=negative.device)
    return torch.where(negative, -value, value)


def _mean_maximum(maxima: Tensor, over: str) -> np.float32:
    """:func:`lplab.compression.selection.mean_maximum`."""
    counted = maxima.numel() if over == "all" else int(maxima.count_nonzero())
    finish = lambda total: divided(total, max(counted, 1)).float()  # noqa: E731
    scale = certain_sum(maxima, finish, lambda array: selection.mean_maximum(array, over))
    return np.float32(scale.item())


def largest_per_chunk(x: Tensor, chunk: int, m: int = 1) -> Tensor:
    """:func:`lplab.compression.selection.largest_per_chunk` of a flat tensor.

    >>> largest_per_chunk(torch.tensor([1.0, -5, 5, 2, 7]), chunk=3, m=2).tolist()
    [1, 2, 3, 4]
    """
    if x.device.type in SHARED:
        return torch.from_numpy(selection.largest_per_chunk(host(x), chunk, m))
    numel = x.numel()
    rows = pad(x.abs(), (0, -numel % chunk), value=-1.0).view(-1, chunk)  # the filling is smaller than any magnitude
    if m == 1:
        columns = rows.argmax(1, keepdim=True)  # of equal values the first, as its documentation promises
    else:
        columns = rows.sort(dim=1, descending=True, stable=True).indices[:, :m].sort(1).values
    indices = (columns + torch.arange(len(rows), device=x.device)[:, None] * chunk).reshape(-1)
    return indices if numel % chunk == 0 or m == 1 else indices[indices < numel]


def top_k_indices(x: Tensor, k: int) -> Tensor:
    """:func:`lplab.compression.sparse.top_k_indices` of a flat tensor.

    >>> top_k_indices(torch.tensor([2.0, -3, 2, 2]), 2).tolist()
    [0, 1]
    """
    if x.device.type in SHARED:
        return torch.from_numpy(sparse.top_k_indices(host(x), k))
    magnitudes = x.abs()
    limit = magnitudes.topk(k, sorted=False).values.min()
    above, ties = magnitudes > limit, magnitudes == limit
    first = ties & (ties.cumsum(0) <= k - above.count_nonzero())  # topk itself would take any of them
    return (above | first).nonzero()[:, 0]
