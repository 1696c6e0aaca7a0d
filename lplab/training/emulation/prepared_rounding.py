"""Rounding of the tensors of a training by the loops of :mod:`lplab.formats`, in memory of any order.

The results are those of ``Format.quantize``, bit for bit; without a compiled loop, that is called.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from lplab.formats import Format, Rounding, apply, counter_rng, gpu
from lplab.formats.paths import kernel_selection, table_rules


class Prepared:
    """A format and a rounding, ready for many tensors.

    Args:
        format: any format of :mod:`lplab.formats`, but for blocks.
        rounding: a ``Rounding``.
        step: whether each call has a scale: then values are scale · format.quantize(x / scale).

    Attributes:
        kernel: what :func:`lplab.formats.apply.prepare` gives.
        round_at: rounds contiguous memory into disjoint memory, given by addresses; False where no loop is ready.

    >>> from lplab.formats import IntFormat
    >>> Prepared(IntFormat(4), Rounding(), step=True)(torch.tensor([0.3, 9.0]), scale=0.5)
    tensor([0.5000, 3.5000])
    """

    def __init__(self, format: Any, rounding: Rounding, step: bool = False) -> None:
        self.format, self.rounding, self.step = format, rounding, step
        ready = format.prepared_roundings
        spec = ready.spec
        self.kernel = apply.prepare(spec, rounding, "float32", True) if step else ready.of(rounding, torch.float32)
        self.round_at = self.kernel.round_at

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Tensor:
        """Round a tensor (without gradient) into a new one.

        The result lies in memory in the order of x where x is dense, such as a transposed matrix.
        """
        if _fits(x) and self.kernel.loop_for(x.numel()) is not None:
            if self.kernel.is_stochastic:  # random bits are numbered in this order
                x = x.contiguous()
            out = torch.empty_like(x)
            x = _in_order(x, out)
            self.round_at(x.data_ptr(), out.data_ptr(), x.numel(), seed, scale if self.step else None)
            return out
        if not self.step:
            return self.format.quantize(x, self.rounding, seed)
        divisor = x.new_full((), scale)
        return self.format.quantize(x / divisor, self.rounding, seed).mul_(divisor)

    def round_into(self, xs: list[Tensor], outs: list[Tensor], seeds: list[int]) -> None:
        """Round many tensors into the memory of others of the same shapes, as if each were copied there."""
        loop, scale = self.kernel.loop_for(sum(x.numel() for x in xs)), self.kernel.scale
        keys = counter_rng.many_keys(seeds) if self.kernel.is_stochastic else [apply.NO_KEYS] * len(xs)
        for x, out, seed, key in zip(xs, outs, seeds, keys, strict=True):
            if loop and is_plain(x) and is_plain(out):
                loop(x.data_ptr(), out.data_ptr(), x.numel(), scale, 0, key)
            else:
                out.copy_(self(x, seed))
        torch.autograd.graph.increment_version(outs)

    def is_ready(self, size: int) -> bool:
        """Whether a compiled loop is loaded; it is loaded once enough elements were rounded, ``size`` included."""
        return self.kernel.loop_for(size) is not None


class DualRounding:
    """Two formats whose magnitudes are powers, ready to round the same numbers to both in one pass.

    Args:
        first, second: formats of one table each, such as the phases of radix-4 FP4.
        rounding: a ``Rounding`` that is not stochastic.

    >>> from lplab.formats import get
    >>> even, odd = get("radix4_fp4_even"), get("radix4_fp4_odd")
    >>> both = DualRounding(even, odd, Rounding("nearest_away"))(torch.full((100_000,), -30.0))
    >>> both is None or (both[0][0], both[1][0], both[2]) == (-16, -32, 30)  # None until loops are worth loading
    True
    """

    def __init__(self, first: Any, second: Any, rounding: Rounding) -> None:
        self._ready = prepared(first, rounding), prepared(second, rounding)
        rules = [table_rules.table_rule(format.rounding_spec, rounding) for format in (first, second)]
        self._specs, self._rounding = (first.rounding_spec, second.rounding_spec), rounding
        self._powers = [rule.constants for rule in rules if rule is not None and rule.word == "power"]
        self._is_loaded = False

    def __call__(self, x: Tensor, into: Any = None) -> tuple[Tensor, Tensor, float] | None:
        """A tensor (without gradient) rounded to both, and its largest magnitude, NaN where one is NaN.

        ``into``: two contiguous tensors of the shape of x, which receive the results; None to make new ones.

        None where no loop rounds to both: none is loaded yet, or the formats or numbers are of another kind.
        """
        count = x.numel()
        if gpu.serves(x.device) and x.dtype == torch.float32 and not x.is_neg() and len(self._powers) == 2:
            return self._on_gpu(x, into)
        if not self._is_loaded:  # both are asked: each counts the numbers that it could have rounded
            self._is_loaded = len(self._powers) == 2 and _fits(x) and all(r.is_ready(count) for r in self._ready)
        if not (self._is_loaded and kernel_selection.available() and _fits(x)):
            return None
        first, second = into or (torch.empty_like(x), torch.empty_like(x))
        x = _in_order(x, first)
        largest = _two_powers()(x.data_ptr(), first.data_ptr(), second.data_ptr(), count, *self._powers)
        return first, second, largest

    def _on_gpu(self, x: Tensor, into: Any) -> tuple[Tensor, Tensor, float] | None:
        from lplab.formats.gpu import dispatch

        first, second = into or (torch.empty_like(x), torch.empty_like(x))
        largest = dispatch.round_twice(self._specs, self._rounding, _in_order(x, first), first, second)
        return None if largest is None else (first, second, largest)


@cache
def _two_powers() -> Callable[..., float]:
    from lplab.formats.paths import numba_kernels

    return numba_kernels.two_powers_loop()


def _fits(x: Tensor) -> bool:
    """Whether a compiled loop can round it, once it is in memory order."""
    return x.dtype == torch.float32 and x.is_cpu and not x.is_neg() and 0 < x.numel() < 2**31


def _in_order(x: Tensor, out: Tensor) -> Tensor:
    """The numbers of x in the order of memory in which those of ``out = empty_like(x)`` lie."""
    return x if x.is_contiguous() or x.stride() == out.stride() else torch.empty_like(out).copy_(x)


def is_plain(x: Tensor) -> bool:
    """Whether the numbers lie in memory one after the other, as they are."""
    return x.is_contiguous() and x.dtype is torch.float32 and x.is_cpu and not x.is_neg()


@lru_cache(maxsize=512)
def prepared(format: Format, rounding: Rounding, step: bool = False) -> Prepared:
    """The one :class:`Prepared` of a format and a rounding."""
    return Prepared(format, rounding, step)
