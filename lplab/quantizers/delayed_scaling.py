"""Delayed scaling: the scale of a tensor from the magnitudes of earlier steps, which saves a pass over the tensor.

Immediate scaling (:class:`~lplab.quantizers.Amax`) measures a tensor, then rounds it: two passes. Delayed scaling, as
in NVIDIA's Transformer Engine, rounds with a scale from earlier steps and measures in the same pass. The cost shows at
a spike: it is clipped, and as long as it is in the history, later tensors are rounded too coarsely.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.lookup import NamedSettings
from lplab.quantizers import array_inputs
from lplab.quantizers.quantizer import Quantizer
from lplab.quantizers.reductions import finite_row_maxima
from lplab.quantizers.scaling import Amax

REDUCTIONS = ("max", "latest")


class AmaxHistory(NamedSettings):
    """The largest magnitudes of the last tensors, as in Transformer Engine.

    Args:
        length: number of tensors in the history, 1 to 2^20.
        reduce: "max" of all of them, or the "latest".

    NaN and infinity are ignored; an empty or zero tensor counts as 0.

    >>> history = AmaxHistory(length=2)
    >>> [(history.observe([m]), history.amax)[1] for m in (3.0, 100.0, 2.0, 1.0)]
    [3.0, 100.0, 100.0, 2.0]
    """

    def __init__(self, length: int = 16, reduce: str = "max") -> None:
        if reduce not in REDUCTIONS:
            raise ValueError(f"reduce must be {' or '.join(map(repr, REDUCTIONS))}, got {reduce!r}")
        self.reduce = reduce
        self.values: deque[float] = deque(maxlen=check_int("length", length, 1, 2**20))

    @property
    def amax(self) -> float | None:
        """The estimate; None while the history is empty."""
        if not self.values:
            return None
        return max(self.values) if self.reduce == "max" else self.values[-1]

    def observe(self, x: Any) -> float:
        """Add the largest finite magnitude of a tensor to the history and return it."""
        self.values.append(largest_finite(x))
        return self.values[-1]

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"values": list(self.values)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of :meth:`state_dict`."""
        self.values = deque(state["values"], self.values.maxlen)


class DelayedScaling(NamedSettings):
    """Round a tensor with a scale from earlier tensors.

    Scale = amax · 2^margin / (largest value of the format), amax from the ``history``. An estimate of zero leaves the
    scale unchanged (as in Transformer Engine). The first tensor sets its own scale, unless ``scale`` is given
    (Transformer Engine starts at 1).

    Args:
        format: a format of :mod:`lplab.formats`, not a block format, or its name.
        history: of the magnitudes; None takes ``AmaxHistory()``.
        rounding: as for :class:`~lplab.quantizers.Quantizer`.
        margin: headroom above amax in octaves, −32 to 32.
        power_of_two: round scales up to powers of two.
        scale: the first scale, or None.

    >>> delayed = DelayedScaling("int8", AmaxHistory(length=2))
    >>> [float(delayed.quantize(np.array([m]))[0]) for m in (127.0, 1270.0, 1.0)]
    [127.0, 127.0, 0.0]
    """

    def __init__(
        self,
        format: Any,
        history: AmaxHistory | None = None,
        rounding: Any = "nearest_even",
        *,
        margin: int = 0,
        power_of_two: bool = False,
        scale: float | None = None,
    ) -> None:
        if history is not None and not isinstance(history, AmaxHistory):
            raise TypeError(f"history must be an AmaxHistory, such as AmaxHistory(length=16), got {history!r}")
        self.quantizer = Quantizer(format, Amax(power_of_two), rounding)
        self.history = AmaxHistory() if history is None else history
        self.margin = check_int("margin", margin, -32, 32)
        self.scale = scale

    @array_inputs.no_torch_compile
    def quantize(self, x: Any, seed: Any = None, observe: bool = True) -> Any:
        """Round x with the scale of earlier steps, then record its magnitude.

        Args:
            x, seed: as :meth:`Quantizer.quantize`.
            observe: False changes no state, for evaluation.
        """
        scale = self.scale
        if scale is None:
            scale = self._scale_for(largest_finite(x))
        values = self.quantizer.quantize(x, seed, scale)
        if observe:
            self.history.observe(x)
            amax = self.history.amax
            self.scale = self._scale_for(amax) if amax else scale
        return values

    def _scale_for(self, amax: float) -> float:
        """The scale at which ``amax`` becomes the largest value, margin and powers of two included."""
        return self.quantizer.scale(np.array([amax * 2.0**self.margin]))

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"scale": self.scale, "history": self.history.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of :meth:`state_dict`."""
        self.scale = state["scale"]
        self.history.load_state_dict(state["history"])


@array_inputs.no_torch_compile
def largest_finite(x: Any) -> float:
    """The largest finite magnitude, 0 where there is none.

    >>> largest_finite([-3.0, float("nan"), float("inf")])
    3.0
    """
    xp, array, _ = array_inputs.to_working_array(x)
    return float(finite_row_maxima(xp, array.reshape(1, -1))[0])
