"""MX blocks whose numbers are made smaller before they are rounded, so that none is clipped (Tseng et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lplab.checks import check_positive
from lplab.formats import BlockFormat, counter_rng, get, names
from lplab.formats.counter_rng import seed_to_int
from lplab.formats.inputs import is_torch
from lplab.formats.paths import array_kernels, block_rounding
from lplab.formats.rounding import as_rounding
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs
from lplab.quantizers.hadamard import Hadamard


@dataclass(frozen=True, repr=False)
class PreScaled(NamedSettings):
    """Block by block along the last axis: element = round(factor · x / X), value = element · X / factor.

    X is the block's scale by the rule of the format, found from x as it is. Under the OCP rule |x| / X of MXFP4 is
    below 8, but the largest element is 6: numbers above are clipped, and no rounding of them is without bias. With the
    factor 3/4 nothing is clipped, so stochastic rounding has the expectation x. The paper divides the product of two
    such operands by (3/4)²; here each operand is divided by 3/4.

    Args:
        format: a format with power-of-two scales of blocks, or its name.
        factor: above 0 and at most 1.
        rounding: of the elements.

    Raises:
        TypeError, ValueError: another format, or a factor out of range.

    >>> x = np.array([7.9, 1.0, -0.4, 0.0])  # X is 1
    >>> blocks = BlockFormat(get("e2m1"), block_size=4)
    >>> blocks.quantize(x)  # 7.9 is clipped
    array([ 6. ,  1. , -0.5,  0. ])
    >>> PreScaled(blocks).quantize(x)
    array([ 8.        ,  1.33333333, -0.66666667,  0.        ])
    """

    format: Any
    factor: float = 0.75
    rounding: Any = "nearest_even"

    def __post_init__(self) -> None:
        format = get(self.format) if isinstance(self.format, str) else self.format
        if not isinstance(format, BlockFormat):
            raise TypeError(f"format must be a block format, got {getattr(format, 'label', format)!r}")
        if format.rounding_spec.scale is not None or format.tile[0] > 1:
            raise ValueError(f"{format.label} has no power-of-two scale for each block along an axis")
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "rounding", as_rounding(self.rounding))
        if check_positive("factor", self.factor) > 1:
            raise ValueError(f"factor must be at most 1, got {self.factor!r}")

    @property
    def label(self) -> str:
        """The grid in a few words, for tables.

        >>> PreScaled("mxfp4").label
        'mxfp4 of 0.75 x'
        """
        return f"{self.format.label} of {self.factor:g} x"

    def __repr__(self) -> str:
        """The constructor call, with the format by name where the catalogue has it."""
        known = self.format.name in names() and get(self.format.name) == self.format
        rounding = self.rounding.mode if self.rounding == as_rounding(self.rounding.mode) else self.rounding
        return f"PreScaled({self.format.name if known else self.format!r}, {self.factor!r}, {rounding!r})"

    @array_inputs.no_torch_compile
    def quantize(self, x: Any, seed: Any = None) -> Any:
        """The values of x; the kind, shape, dtype and device of x. A tensor that requires a gradient gets it straight.

        Args:
            x: numpy array, torch tensor or list of floats, of at least one axis; blocks lie along the last one.
            seed: for stochastic rounding; see ``Format.quantize``.
        """
        xp, array, close = array_inputs.to_working_array(x)
        if not array.ndim:
            raise ValueError("blocks need at least one axis, got a number")
        number = seed_to_int(seed) if self.rounding.is_stochastic else 0
        if is_torch(x):
            from lplab.quantizers.transformed_rounding import in_one_pass

            spec = self.format.rounding_spec
            found = in_one_pass((), spec, self.rounding, x.detach(), number, -1, self.factor)
            if found is not None:
                return array_inputs.straight_through(x, found)
        rows = array.reshape(-1, array.shape[-1]) if all(array.shape) else array.reshape(0, 0)
        values = self._by_rounding_up(rows, number) if xp is np and self._rounds_up else None
        if values is None:
            values = self._by_definition(xp, rows, number)
        return array_inputs.straight_through(x, close(values.reshape(array.shape)))

    def quantize_transformed(self, transform: Hadamard, x: Any, seed: int) -> Any:
        """The values of the transform of a tensor without gradient: ``quantize(transform.apply(x), seed)``.

        On a GPU one kernel does both.
        """
        from lplab.quantizers.transformed_rounding import in_one_pass

        number, spec = seed if self.rounding.is_stochastic else 0, self.format.rounding_spec
        found = in_one_pass(transform.sign_numbers, spec, self.rounding, x, number, -1, self.factor)
        return self.quantize(transform.apply(x), seed) if found is None else found

    @cached_property
    def _rounds_up(self) -> bool:
        """Whether the scale is that of factor · x by the rule "rceil", unless amax is a power of two.

        Let amax = m · 2^e with 1 ≤ m < 2, and the largest element be f · 2^E. With factor = f / 2, factor · amax / X =
        m · f / 2 · 2^E lies from f/2 to f times 2^E: X is the smallest scale that clips nothing, but for m = 1, where
        half of it would do, too.
        """
        spec = self.format.rounding_spec
        return spec.rule == "floor" and self.factor == spec.element_fraction / 2

    @cached_property
    def _round_up_format(self) -> BlockFormat:
        return BlockFormat(self.format.element, block_size=self.format.block_size, scale_rule="rceil")

    def _by_definition(self, xp: Any, rows: Any, seed: int) -> Any:
        """The definition, for rows of blocks."""
        if not rows.shape[0]:
            return rows
        split = block_rounding.in_blocks(xp, rows, self.format.block_size)
        values = self._round_blocks(xp, split, self._draws(xp, split, seed))
        return values.reshape(rows.shape[0], -1)[:, : rows.shape[1]]

    def _draws(self, xp: Any, split: Any, seed: int) -> Any:
        """The random integers of all numbers of all blocks; None where rounding needs none."""
        if not self.rounding.is_stochastic:
            return None
        count, device = int(np.prod(split.shape)), None if xp is np else split.device
        return counter_rng.random_bits(xp, counter_rng.keys(seed), 0, count, self.rounding.random_bits, device)

    def _round_blocks(self, xp: Any, split: Any, draws: Any) -> Any:
        spec = self.format.rounding_spec
        # A tensor, as torch on CUDA multiplies by the inverse of a number where it should divide.
        where = {} if xp is np else {"device": split.device}
        factor = xp.full((), self.factor, dtype=split.dtype, **where)
        _, (scales,) = block_rounding.scaled_blocks(xp, split, spec)
        smaller = array_kernels.widen(xp, (split * factor).reshape(-1)).reshape(split.shape)
        scaled = xp.where(xp.isfinite(split).all(-1)[..., None], smaller / scales, np.nan)
        elements = array_kernels.quantize(xp, scaled.reshape(-1), spec.element, self.rounding, draws)
        return array_kernels.narrow(xp, elements.reshape(split.shape) * scales, split) / factor

    def _by_rounding_up(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """Rounding in a pass of the format's loops, and by definition the few blocks whose amax is a power of two."""
        factor = rows.dtype.type(self.factor)
        with np.errstate(invalid="ignore", over="ignore"):
            values = self._round_up_format.quantize(rows * factor, self.rounding, seed) / factor
        if not rows.size:
            return values
        split = block_rounding.in_blocks(np, rows, self.format.block_size)
        mantissas = np.frexp(np.abs(split).max(-1))[0]
        hard = np.nonzero(mantissas == 0.5)
        if hard[0].size:
            draws = self._draws(np, split, seed)
            draws = None if draws is None else draws.reshape(split.shape)[hard].reshape(-1)
            filled = block_rounding.in_blocks(np, values, self.format.block_size)
            filled[hard] = self._round_blocks(np, split[hard], draws)
            values = filled.reshape(rows.shape[0], -1)[:, : rows.shape[1]]
        return values
