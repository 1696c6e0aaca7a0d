"""The compiled loops of :mod:`lplab.formats`, prepared once for a format and called without looking around.

``Format.quantize`` takes any input and decides each time what to do with it: some fifty microseconds, which a small
network pays a hundred times a step. Training rounds float32 tensors to the same few formats for ever, so the decision
is taken once. The results are those of ``Format.quantize``, bit for bit; where no compiled loop serves, it is called.

This module needs PyTorch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.arithmetic.threads import share_out
from lplab.formats import Format, Rounding, arrays, counter, kernels
from lplab.formats.arrays import WORDS
from lplab.formats.plan import Grid, Table
from lplab.formats.rounding import LEAST_FRACTION

WORTH_IT = 2**18  # elements after which a loop is loaded: milliseconds from disk, half a second the very first time
BLOCK = 2**12  # elements that are fetched before they are rounded
SHARED = 2**17  # elements that are worth waking another thread for
_WORD = WORDS["float32"]
_NO_SHIFTS = np.zeros(0, np.int32)
_ONE = np.ones(1, np.float32)
_seen: Counter[Any] = Counter()  # elements that each loop could have rounded so far; only speed depends on it
Loop = Callable[[int, int, int, int, float], None]  # addresses of x and out, elements, seed, scale


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
        self._sort = _sort_of_loop(format.plan, rounding, step)
        self._loop: Loop | None = None

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Tensor:
        """Round a tensor (without gradient) into a new one."""
        loop = self._loop or self._prepare(x.numel())
        fits = x.dtype == torch.float32 and x.is_cpu and not x.is_neg() and 0 < x.numel() < 2**31
        if loop is None or not fits:
            return self._slow(x, seed, scale)
        if self.rounding.is_stochastic:
            x = x.contiguous()  # coins are numbered in this order
        out = torch.empty_like(x)  # in the order of x where x is dense, such as a transposed matrix
        if not x.is_contiguous() and x.stride() != out.stride():
            x = torch.empty_like(out).copy_(x)
        loop(x.data_ptr(), out.data_ptr(), x.numel(), seed, scale)
        return out

    def _prepare(self, size: int) -> Loop | None:
        if self._sort is None:
            return None
        if _seen[self._sort] < WORTH_IT:
            _seen[self._sort] += size
        if _seen[self._sort] >= WORTH_IT and kernels.available():
            self._loop = self._make()
            self._sort = self._sort if self._loop else None
        return self._loop

    def _slow(self, x: Tensor, seed: int, scale: float) -> Tensor:
        if not self.step:
            return self.format.quantize(x, self.rounding, seed)
        divisor = x.new_full((), scale)
        return self.format.quantize(x / divisor, self.rounding, seed).mul_(divisor)

    def _make(self) -> Loop | None:
        if isinstance(self.format.plan, Grid):
            return _grid_loop(self._sort, self.format.plan, self.rounding)
        loop = kernels.table_loop(self.format.plan, self.rounding)
        return loop and (lambda x, out, count, seed, scale: loop(x, out, count))


def _sort_of_loop(plan: Any, rounding: Rounding, step: bool) -> Any:
    """Which compiled loop serves; None for none."""
    if isinstance(plan, Table):
        return None if step or rounding.is_stochastic else ("table", plan.values.size)
    if not isinstance(plan, Grid) or plan.step != 1 or arrays.kind_of(plan, _WORD) == "wide":
        return None
    kind, plain = arrays.kind_of(plan, _WORD), kernels._is_plain(arrays.constants(plan, rounding, "float32"))
    kind = "even" if kind == "scaled" and kernels._has_one_spacing(plan) else kind
    return "float32", rounding.code, kind, plan.mantissa_bits == 0, plain, "step" if step else "", 0


def _grid_loop(sort: Any, plan: Grid, rounding: Rounding) -> Loop:
    """As :mod:`lplab.formats.kernels` calls the same loop, with everything that does not change put together."""
    from lplab.formats import compiled

    loop, random, step = compiled.grid_loop(*sort), rounding.is_stochastic, sort[5] == "step"
    table = compiled.grid_constants(
        arrays.constants(plan, rounding, "float32"), rounding.random_bits if random else 0, "float32"
    )
    if step:  # the loop uses this number as the least quotient that is not zero
        table[compiled.SMALLEST] = _WORD.pattern(LEAST_FRACTION)

    def run(x: int, out: int, count: int, seed: int, scale: float) -> None:
        key = counter.keys(seed) if random else (0, 0)
        factors = np.array([scale], np.float32) if step else _ONE
        tail = (*key, _NO_SHIFTS, factors, factors, factors[0])

        def part(first: int, last: int) -> None:
            loop(x + 4 * BLOCK * first, out + 4 * BLOCK * first, last - first, BLOCK, table, BLOCK * first, *tail)

        blocks, rest = divmod(count, BLOCK)
        share_out(part, blocks, torch.get_num_threads() if count >= SHARED else 1)
        if rest:
            done = count - rest
            loop(x + 4 * done, out + 4 * done, 1, rest, table, done, *tail)

    return run


@lru_cache(maxsize=512)
def prepared(format: Format, rounding: Rounding, step: bool = False) -> Prepared:
    """The one :class:`Prepared` of a format and a rounding."""
    return Prepared(format, rounding, step)
