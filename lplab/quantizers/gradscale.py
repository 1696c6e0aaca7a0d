"""GradScale: a scale for each layer that follows its gradient by factors of two (Sun et al. 2020, section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from lplab.checks import check_positive
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs
from lplab.quantizers.radix4 import two_phase
from lplab.quantizers.reductions import row_maxima

RADIX4_MAX = 2.0**6  # the largest value of radix-4 FP4
MIN_SCALE, MAX_SCALE = 2.0**-20, 2.0**40  # our choice: tiny gradients would raise the scale without limit


class GradScale(NamedSettings):
    """The gradient scale of one layer. Each step it doubles, stays or halves.

    With m = max|scale · dy|, measured before anything is clipped, every worker votes

    ====================  ====
    m ≤ MAX/2             +1
    MAX/2 < m ≤ MAX        0
    m > MAX               −1
    ====================  ====

    and the sign of the sum of all votes decides. A step uses the scale from before its measurement; otherwise an
    overflow could never occur. Where the main text of the paper is silent we take: an all-zero or empty gradient votes
    0; NaN or infinity votes −1 and asks to skip the step (:attr:`skip`); the scale stays within ``min_scale`` and
    ``max_scale``; the first gradient sets the first scale, to 2^⌊log2(MAX/max|dy|)⌋, unless ``scale`` is given (the
    paper's example starts at 1 and needs some twenty steps).

    Args:
        scale: the first scale, or None.
        maximum: MAX, 64 for radix-4 FP4.
        min_scale, max_scale: bounds of the scale.

    Raises:
        ValueError: a number that is not positive, or bounds in the wrong order.

    >>> layer = GradScale()
    >>> even, odd = layer.two_phase(np.array([3e-5, -1e-6], np.float32))
    >>> layer.update(), even[0] * layer.scale, odd[0] * layer.scale
    (2097152.0, np.float32(64.0), np.float32(32.0))
    """

    def __init__(
        self,
        scale: float | None = None,
        *,
        maximum: float = RADIX4_MAX,
        min_scale: float = MIN_SCALE,
        max_scale: float = MAX_SCALE,
    ) -> None:
        self.maximum, self.min_scale = check_positive("maximum", maximum), check_positive("min_scale", min_scale)
        self.max_scale = check_positive("max_scale", max_scale)
        if self.min_scale > self.max_scale:
            raise ValueError(f"min_scale must not exceed max_scale, got {min_scale!r} and {max_scale!r}")
        self._scale = None if scale is None else self._bounded(check_positive("scale", scale))
        self.votes: list[int] = []
        self.skip = False

    @property
    def scale(self) -> float:
        """The factor of this step's gradients; 1 before the first gradient if none was given."""
        return 1.0 if self._scale is None else self._scale

    @property
    def is_set(self) -> bool:
        """Whether there is a scale; if not, the first gradient sets it."""
        return self._scale is not None

    @array_inputs.no_torch_compile
    def vote(self, dy: Any) -> int:
        """Measure a gradient and record its vote for the end of the step; the scale does not change.

        Call it once for each worker or micro-batch. The first gradient of all sets the first scale.
        """
        xp, array, _ = array_inputs.to_working_array(dy)
        with np.errstate(invalid="ignore"):
            return self.vote_for(float(row_maxima(xp, array.reshape(1, -1))[0]))

    def vote_for(self, largest: float) -> int:
        """Vote as :meth:`vote`, for a gradient whose largest magnitude is known; NaN where an element is NaN.

        >>> layer = GradScale(scale=1.0)
        >>> layer.vote_for(32.0), layer.vote_for(33.0), layer.vote_for(65.0)
        (1, 0, -1)
        """
        if self._scale is None and 0 < largest < math.inf:
            self._scale = self._bounded(first_scale(largest, self.maximum))
        scaled = self.scale * largest
        if not math.isfinite(largest):
            self.skip, vote = True, -1
        elif largest == 0:
            vote = 0
        else:
            vote = -1 if scaled > self.maximum else 1 if scaled <= self.maximum / 2 else 0
        self.votes.append(vote)
        return vote

    @array_inputs.no_torch_compile
    def two_phase(self, dy: Any, **readings: str) -> tuple[Any, Any]:
        """Vote, then round dy in both phases with the scale of this step: (even, odd), scaled back.

        Hardware scales the results of the two GEMMs back instead; for a power of two that gives the same.
        """
        self.vote(dy)
        return two_phase(dy, self.scale, **readings)

    def update(self, votes: Iterable[int] = ()) -> float:
        """End the step: change the scale by the sign of the sum of all votes; return the new scale.

        Args:
            votes: of other workers, added to the recorded ones.

        Raises:
            ValueError: a vote that is not −1, 0 or 1.
        """
        others = list(votes)
        if any(vote not in (-1, 0, 1) for vote in others):
            raise ValueError(f"a vote must be -1, 0 or 1, got {others!r}")
        total = sum(self.votes) + sum(others)
        if total:
            self._scale = self._bounded(self.scale * (2.0 if total > 0 else 0.5))
        self.votes, self.skip = [], False
        return self.scale

    def _bounded(self, scale: float) -> float:
        return min(max(scale, self.min_scale), self.max_scale)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"scale": self._scale, "votes": list(self.votes), "skip": self.skip}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of :meth:`state_dict`."""
        self._scale, self.votes, self.skip = state["scale"], list(state["votes"]), bool(state["skip"])

    def __repr__(self) -> str:
        return f"GradScale(scale={self._scale!r}, maximum={self.maximum!r})"


def scales_of(largest: Any, scale: float | None = 1.0, **settings: float) -> np.ndarray:
    """The scale at each step of a recorded run, for one layer and one worker.

    Args:
        largest: max|dy| of each step, unscaled, [steps].
        scale: the first one; None lets the first gradient set it.
        **settings: of :class:`GradScale`.

    Returns:
        float64 [steps].

    >>> scales_of([3.0, 3.0, 100.0, 100.0])
    array([1., 2., 4., 2.])
    """
    layer, scales = GradScale(scale, **settings), []
    for value in np.asarray(largest, np.float64):
        layer.vote(value)
        scales.append(layer.scale)
        layer.update()
    return np.array(scales)


def first_scale(largest: float, maximum: float = RADIX4_MAX) -> float:
    """The power of two 2^⌊log2(maximum / largest)⌋, computed exactly: logarithms are wrong next to powers of two.

    >>> first_scale(3e-5) == 2.0**21, first_scale(1.0), first_scale(1.0001)
    (True, 64.0, 32.0)
    """
    scale = math.ldexp(1.0, math.frexp(maximum)[1] - math.frexp(largest)[1])
    return scale if scale * largest <= maximum else scale / 2
