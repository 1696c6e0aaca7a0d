"""LUQ: four bits for gradients with powers of two and no bias (Chmiel et al., ICLR 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lplab.checks import check_int, check_positive
from lplab.formats import FloatFormat, Rounding
from lplab.formats.counter_rng import seed_to_int
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs
from lplab.quantizers.quantizer import as_scale, quantize_scaled
from lplab.quantizers.reductions import finite_row_maxima
from lplab.quantizers.scaling import bounded


@dataclass(frozen=True)
class LUQ(NamedSettings):
    """Logarithmic unbiased quantization: sign and exponent only, rounded stochastically, also below the smallest value.

    The magnitudes are α·2^0 … α·2^6 (seven of them with three exponent bits). Between two of them x is rounded
    up with a probability equal to its relative position; below α it becomes α with probability |x|/α, else 0. So the
    expectation is x everywhere. The paper has three different α; we take max|x| / 2^6, so the largest value is max|x|.

    Args:
        samples: number of independent roundings to average ("SMP"); the variance is divided by it.
        exponent_bits: 1 to 4.
        random_bits: per element and sample, 1 to 24. The probability is exact to 2^−(random_bits + 1).
        nearest: round to the nearest power of two instead (the paper's RDNP, 2^⌊log2(4/3·x)⌋, zero below ¾·α), for
            comparison: biased, with less variance.

    NaN stays NaN and infinity saturates; both are ignored in the maximum. An empty or zero tensor is unchanged.

    Raises:
        ValueError: a field out of range.

    >>> x = np.array([64.0, 3.0, 0.3])
    >>> LUQ().quantize(x, seed=6), LUQ(nearest=True).quantize(x)
    (array([64.,  2.,  1.]), array([64.,  4.,  0.]))
    """

    samples: int = 1
    exponent_bits: int = 3
    random_bits: int = 16
    nearest: bool = False

    def __post_init__(self) -> None:
        check_int("samples", self.samples, 1, 1024)
        check_int("exponent_bits", self.exponent_bits, 1, 4)
        Rounding("stochastic", self.random_bits)

    @property
    def label(self) -> str:
        """The grid in a few words, for tables: a sign and exponent bits."""
        return f"LUQ {1 + self.exponent_bits} bits"

    @cached_property
    def format(self) -> FloatFormat:
        """1, 2, 4, … in units of α; with ``subnormals`` zero is the lower neighbour of the smallest value."""
        return FloatFormat(self.exponent_bits, 0, bias=1, subnormals=not self.nearest, specials="none")

    @property
    def _alpha_share(self) -> float:
        """The smallest magnitude, as a share of the largest."""
        return 2.0 ** (2 - 2**self.exponent_bits)

    @array_inputs.no_torch_compile
    def alpha(self, x: Any, amax: float | None = None) -> float:
        """The smallest magnitude: max|x| (or ``amax``) / 2^(2^exponent_bits − 2).

        >>> LUQ().alpha([-64.0, 3.0])
        1.0
        """
        xp, array, _ = array_inputs.to_working_array(x)
        return float(self._alpha(xp, array, amax)[0])

    def alpha_of(self, largest: float) -> float:
        """The smallest magnitude of a tensor whose largest finite one is known; 1 if that is 0."""
        return bounded(largest * self._alpha_share) if largest > 0 else 1.0

    @array_inputs.no_torch_compile
    def quantize(self, x: Any, seed: Any = None, amax: float | None = None) -> Any:
        """The values of x on the grid; the kind, shape, dtype and device of x.

        Args:
            x: numpy array, torch tensor, number or list. A tensor that requires a gradient gets it straight through.
            seed: an integer, a numpy Generator or None for fresh entropy. Sample 0 is the same for any ``samples``.
            amax: use this instead of max|x|, such as a running mean over earlier steps; larger magnitudes saturate.
                None and 0 mean max|x|.
        """
        xp, array, close = array_inputs.to_working_array(x)
        alpha = self._alpha(xp, array, amax)
        if self.nearest:
            values = quantize_scaled(xp, array, alpha, None, self.format, "nearest_away", None)
            return array_inputs.straight_through(x, close(values))
        rounding = Rounding("stochastic", self.random_bits)
        total = None
        for number in sample_seeds(seed, self.samples):
            values = quantize_scaled(xp, array, alpha, None, self.format, rounding, number)
            total = values if total is None else total + values
        if self.samples > 1:
            total = total / xp.full_like(alpha, self.samples).reshape(())
        return array_inputs.straight_through(x, close(total))

    def _alpha(self, xp: Any, x: Any, amax: float | None) -> Any:
        if amax:
            return as_scale(xp, x, check_positive("amax", amax) * self._alpha_share, None)
        return as_scale(xp, x, self.alpha_of(float(finite_row_maxima(xp, x.reshape(1, -1))[0])), None)


def sample_seeds(seed: Any, samples: int) -> list[int]:
    """A seed for each sample: the first is the seed itself, the others are derived by ``SeedSequence``.

    >>> sample_seeds(7, 1), len(set(sample_seeds(7, 3) + sample_seeds(8, 3)))
    ([7], 6)
    """
    first = seed_to_int(seed)
    others = [np.random.SeedSequence((first % 2**64, k)).generate_state(1, np.uint64)[0] for k in range(1, samples)]
    return [first, *map(int, others)]
