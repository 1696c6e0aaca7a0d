"""LUQ: four bits for gradients with powers of two and no bias (Chmiel et al., ICLR 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lplab.formats import FloatFormat, Rounding
from lplab.formats.base import whole
from lplab.formats.counter import seed_number
from lplab.quantizers import kinds
from lplab.quantizers.quantizer import as_scale, scaled
from lplab.quantizers.radix4 import positive
from lplab.quantizers.scaling import GREATEST_SCALE, LEAST_SCALE


@dataclass(frozen=True)
class Luq:
    """Logarithmic unbiased quantization: sign and exponent alone, rounded stochastically, below the smallest value too.

    The magnitudes are α·2^0 … α·2^6 (seven of them with three exponent bits). Between two of them x goes up with
    the probability of its place in the interval; below α it becomes α with probability |x|/α, else 0. So the mean is x
    everywhere. The paper prints three different α; we take max|x| / 2^6, so that the largest value is max|x|.

    Args:
        samples: average so many independent roundings ("SMP"): the variance of the rounding falls in proportion.
        exponent_bits: 1 to 4.
        random_bits: an element and sample, 1 to 24. The probability is met to 2^−(random_bits + 1).
        nearest: round to the nearest power of two instead (the paper's RDNP, 2^⌊log2(4/3·x)⌋, zero below ¾·α), for
            comparison: biased, with less variance.

    NaN stays NaN and infinity saturates; neither counts for the maximum. An empty or zero tensor comes back as it is.

    Raises:
        ValueError: a field out of range.

    >>> x = np.array([64.0, 3.0, 0.3])
    >>> Luq().quantize(x, seed=6), Luq(nearest=True).quantize(x)
    (array([64.,  2.,  1.]), array([64.,  4.,  0.]))
    """

    samples: int = 1
    exponent_bits: int = 3
    random_bits: int = 16
    nearest: bool = False

    def __post_init__(self) -> None:
        whole("samples", self.samples, 1, 1024)
        whole("exponent_bits", self.exponent_bits, 1, 4)
        Rounding("stochastic", self.random_bits)

    @cached_property
    def format(self) -> FloatFormat:
        """1, 2, 4, … in units of α; with ``subnormals`` rounding knows zero as the neighbour of the smallest."""
        return FloatFormat(self.exponent_bits, 0, bias=1, subnormals=not self.nearest, specials="none")

    @kinds.eager
    def alpha(self, x: Any, amax: float | None = None) -> float:
        """The smallest magnitude: max|x| (or ``amax``) / 2^(2^exponent_bits − 2).

        >>> Luq().alpha([-64.0, 3.0])
        1.0
        """
        xp, array, _ = kinds.open_input(x)
        return float(self._alpha(xp, array, amax)[0])

    @kinds.eager
    def quantize(self, x: Any, seed: Any = None, amax: float | None = None) -> Any:
        """The values of x on the grid; the kind, shape, dtype and device of x.

        Args:
            x: numpy array, torch tensor, number or list. A tensor that requires a gradient gets it straight through.
            seed: an integer, a numpy Generator or None for fresh entropy. Sample 0 is the same for any ``samples``.
            amax: use this instead of max|x|, for example :class:`~lplab.quantizers.Hindsight`'s; larger magnitudes
                saturate. None and 0 mean max|x|.
        """
        xp, array, close = kinds.open_input(x)
        alpha = self._alpha(xp, array, amax)
        if self.nearest:
            return kinds.straight_through(x, close(scaled(xp, array, alpha, None, self.format, "nearest_away", None)))
        rounding = Rounding("stochastic", self.random_bits)
        total = None
        for number in sample_seeds(seed, self.samples):
            values = scaled(xp, array, alpha, None, self.format, rounding, number)
            total = values if total is None else total + values
        if self.samples > 1:
            total = total / xp.full_like(alpha, self.samples).reshape(())
        return kinds.straight_through(x, close(total))

    def _alpha(self, xp: Any, x: Any, amax: float | None) -> Any:
        octaves = 2**self.exponent_bits - 2
        if amax:
            return as_scale(xp, x, positive("amax", amax) / 2**octaves, None)
        largest = kinds.largest_finite(xp, x.reshape(1, -1))
        alpha = xp.clip(largest * 2.0**-octaves, LEAST_SCALE, GREATEST_SCALE)
        return xp.where(largest > 0, alpha, xp.ones_like(alpha))


def sample_seeds(seed: Any, samples: int) -> list[int]:
    """A seed for each sample: the first is the seed itself, the others are far away from it and from its neighbours.

    >>> sample_seeds(7, 1), len(set(sample_seeds(7, 3) + sample_seeds(8, 3)))
    ([7], 6)
    """
    first = seed_number(seed)
    others = [np.random.SeedSequence((first % 2**64, k)).generate_state(1, np.uint64)[0] for k in range(1, samples)]
    return [first, *map(int, others)]
