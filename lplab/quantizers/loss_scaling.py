"""Loss scaling: one factor for all gradients, so that small ones do not underflow in a narrow format.

Multiply the loss by ``scale``; back-propagation multiplies every gradient by it; divide the gradients before they are
clipped, decayed or applied. If one of them is not finite, skip the step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lplab.checks import check_int, check_positive
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs


@dataclass(frozen=True)
class ConstantLossScale(NamedSettings):
    """A constant factor, as in Wang et al. 2018 (1000 for all models, according to later code).

    >>> scaler = ConstantLossScale(1000.0)
    >>> scaler.unscale([0.5, -2.0]), scaler.update(finite=False)
    (array([ 0.0005, -0.002 ]), False)
    """

    scale: float = 1000.0

    def __post_init__(self) -> None:
        check_positive("scale", self.scale)

    def unscale(self, gradient: Any) -> Any:
        """Gradient / scale, in the kind and dtype of the gradient."""
        return unscale(gradient, self.scale)

    def update(self, finite: bool) -> bool:
        """Whether to take the step: whether all gradients were finite."""
        return bool(finite)


class DynamicLossScale(NamedSettings):
    """A factor as large as the format allows, found by trial (APEX; torch.amp.GradScaler has the same rule).

    After a step with NaN or infinity: scale · backoff, and the step is skipped. After ``interval`` good steps in a
    row: scale · growth. The scale stays within ``min_scale`` and ``max_scale``.

    Args:
        scale: the first factor.
        growth, backoff: factors above 1 and below 1.
        interval: good steps before the scale grows, 1 to 10^9.
        min_scale, max_scale: bounds of the scale.

    Raises:
        ValueError: a number out of range.

    >>> scaler = DynamicLossScale(scale=1024.0, interval=2)
    >>> [(scaler.update(finite), scaler.scale) for finite in (True, False, True, True)]
    [(True, 1024.0), (False, 512.0), (True, 512.0), (True, 1024.0)]
    """

    def __init__(
        self,
        scale: float = 2.0**16,
        *,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        min_scale: float = 1.0,
        max_scale: float = 2.0**32,
    ) -> None:
        self.growth, self.backoff = check_positive("growth", growth), check_positive("backoff", backoff)
        if self.growth <= 1 or self.backoff >= 1:
            raise ValueError(f"growth must be above 1 and backoff below 1, got {growth!r} and {backoff!r}")
        self.interval = check_int("interval", interval, 1, 10**9)
        self.min_scale, self.max_scale = check_positive("min_scale", min_scale), check_positive("max_scale", max_scale)
        self.scale = check_positive("scale", scale)
        if not self.min_scale <= self.scale <= self.max_scale:
            allowed = f"from {min_scale!r} (min_scale) to {max_scale!r} (max_scale)"
            raise ValueError(f"scale must be {allowed}, got {scale!r}")
        self.good_steps = 0

    def unscale(self, gradient: Any) -> Any:
        """Gradient / scale, in the kind and dtype of the gradient."""
        return unscale(gradient, self.scale)

    def update(self, finite: bool) -> bool:
        """End a step: adapt the scale, and return whether to take the step (whether all gradients were finite)."""
        if not finite:
            self.scale, self.good_steps = max(self.scale * self.backoff, self.min_scale), 0
            return False
        self.good_steps += 1
        if self.good_steps == self.interval:
            self.scale, self.good_steps = min(self.scale * self.growth, self.max_scale), 0
        return True

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"scale": self.scale, "good_steps": self.good_steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of :meth:`state_dict`."""
        self.scale, self.good_steps = float(state["scale"]), int(state["good_steps"])

    def __repr__(self) -> str:
        return f"DynamicLossScale(scale={self.scale!r}, good_steps={self.good_steps}, interval={self.interval})"


@array_inputs.no_torch_compile
def unscale(gradient: Any, scale: float) -> Any:
    """Gradient / scale as one division, in the kind and dtype of the gradient.

    >>> unscale([3.0, 6.0], 3.0)
    array([1., 2.])
    """
    xp, array, close = array_inputs.to_working_array(gradient)
    return close(array / array_inputs.number_like(xp, array, scale))


@array_inputs.no_torch_compile
def all_finite(gradients: Iterable[Any]) -> bool:
    """Whether no gradient holds NaN or infinity; None (no gradient) counts as finite, and so does an empty one.

    >>> all_finite([[1.0, 2.0], None]), all_finite([[1.0], [float("inf")]])
    (True, False)
    """
    for gradient in gradients:
        if gradient is not None:
            xp, array, _ = array_inputs.to_working_array(gradient)
            if not bool(xp.isfinite(array).all()):
                return False
    return True
