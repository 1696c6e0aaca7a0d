"""The compiled loops of :mod:`lplab.formats`, prepared once for a format and called without looking around.

``Format.quantize`` takes any input and decides each time what to do with it: some fifty microseconds, which a small
network pays a hundred times a step. Training rounds float32 tensors to the same few formats for ever, so the decision
is taken once. The results are those of ``Format.quantize``, bit for bit; where no compiled loop serves, it is called.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.formats import Format, Rounding, arrays, counter, kernels
from lplab.formats.arrays import WORDS
from lplab.formats.plan import Grid, Table
from lplab.formats.rounding import LEAST_FRACTION

WORTH_IT = 2**18  # elements after which a loop is loaded: milliseconds from disk, half a second the very first time
_WORD = WORDS["float32"]
_NO_SHIFTS, _NOTHING = np.zeros(0, np.int32), np.zeros(0, np.float32)
_ONE = np.ones(1, np.float32)
Loop = Callable[[np.ndarray, np.ndarray, int, Any], None]  # patterns in, patterns out, seed, step


class Prepared:
    """A format and a rounding, ready for many tensors.

    Args:
        format: any format of :mod:`lplab.formats`.
        rounding: a ``Rounding``.
        step: whether each call brings a scale: then values are scale · format.quantize(x / scale).

    >>> from lplab.formats import IntFormat
    >>> Prepared(IntFormat(4), Rounding(), step=True)(torch.tensor([0.3, 9.0]), scale=0.5)
    tensor([0.5000, 3.5000])
    """

    def __init__(self, format: Any, rounding: Rounding, step: bool = False) -> None:
        self.format, self.rounding, self.step = format, rounding, step
        self._seen = 0
        self._loop: Loop | None = None

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Tensor:
        """Round a tensor (without gradient) into a new one."""
        fits = x.dtype == torch.float32 and x.device.type == "cpu" and not x.is_neg() and x.numel() < 2**31
        loop = self._prepare(x.numel()) if fits else None
        if loop is None:
            return self._slow(x, seed, scale)
        if self.rounding.is_stochastic:
            x = x.contiguous()  # coins are numbered in this order
        out = torch.empty_like(x)  # in the order of x where x is dense, such as a transposed matrix
        if x.stride() != out.stride():
            x = torch.empty_like(out).copy_(x)
        loop(_in_memory(x), _in_memory(out), seed, scale)
        return out

    def _prepare(self, size: int) -> Loop | None:
        if self._loop is None and self._seen < WORTH_IT:
            self._seen += size
            if self._seen >= WORTH_IT and kernels.available():
                self._loop = self._make()
        return self._loop

    def _slow(self, x: Tensor, seed: int, scale: float) -> Tensor:
        if not self.step:
            return self.format.quantize(x, self.rounding, seed)
        divisor = x.new_full((), scale)
        return self.format.quantize(x / divisor, self.rounding, seed).mul_(divisor)

    def _make(self) -> Loop | None:
        plan = self.format.plan
        if isinstance(plan, Table):
            lookup = None if self.step or self.rounding.is_stochastic else kernels._lookup(plan, self.rounding)
            return None if lookup is None else _table_loop(lookup)
        if not isinstance(plan, Grid) or plan.step != 1 or arrays.kind_of(plan, _WORD) == "wide":
            return None
        return _grid_loop(plan, self.rounding, self.step)


def _in_memory(x: Tensor) -> np.ndarray:
    """The patterns of a dense tensor, one after the other as they lie in memory."""
    return x.as_strided((x.numel(),), (1,)).numpy().view(np.int32)


def _table_loop(lookup: tuple) -> Loop:
    from lplab.formats import compiled

    loop = compiled.table_loop()
    return lambda x, out, seed, scale: loop(x, out, *lookup)


def _grid_loop(plan: Grid, rounding: Rounding, step: bool) -> Loop:
    """As :mod:`lplab.formats.kernels` calls the same loop, with everything that does not change put together."""
    from lplab.formats import compiled

    c = arrays.constants(plan, rounding, "float32")
    kind, plain = arrays.kind_of(plan, _WORD), kernels._is_plain(c)
    kind = "even" if kind == "scaled" and kernels._has_one_spacing(plan) else kind
    loop = compiled.grid_loop("float32", rounding.code, kind, plan.mantissa_bits == 0, plain, "step" if step else "", 0)
    smallest = _WORD.pattern(LEAST_FRACTION) if step else c.smallest
    after = (c.parity, c.highest, c.lowest, c.above, c.below, c.infinity, c.minus_infinity, smallest)
    fixed = (
        *compiled.scalars("float32", (c.cut, c.cap, c.least, c.shift, c.inverse)),
        np.float32(c.from_integer),
        *compiled.scalars("float32", after),
        c.negative_zero,
        np.int32(rounding.random_bits),
        np.uint32(0),
    )
    random = rounding.is_stochastic

    def run(x: np.ndarray, out: np.ndarray, seed: int, scale: float) -> None:
        first, second = counter.keys(seed) if random else (0, 0)
        factors = np.array([scale], np.float32) if step else _ONE
        tail = (np.uint32(first), np.uint32(second), _NO_SHIFTS, factors, factors, factors[0])
        loop(x.reshape(1, -1), out.reshape(1, -1), *fixed, *tail)

    return run


@lru_cache(maxsize=512)
def prepared(format: Format, rounding: Rounding, step: bool = False) -> Prepared:
    """The one :class:`Prepared` of a format and a rounding."""
    return Prepared(format, rounding, step)
