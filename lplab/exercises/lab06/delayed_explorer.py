"""Delayed scaling over 400 recorded steps, live: a student's scales beside the library's, for any history and margin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lplab import figures
from lplab.exercises.lab06.delayed_ranges import LENGTHS, MARGINS, clipping, library_ends, recorded_amax
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import ExplorerState, Steps, control


@dataclass(frozen=True)
class DelayedState(ExplorerState):
    """The value of both sliders.

    Attributes:
        length: steps of the history, one of `LENGTHS`.
        margin: octaves of room above the history, one of `MARGINS`.

    >>> print(DelayedState(margin=1).code)
    history = quantizers.AmaxHistory(16)
    quantizers.DelayedScaling("e4m3fn", history, margin=1)
    """

    length: int = control(16, Steps("history, steps", {f"{n}": n for n in LENGTHS}))
    margin: int = control(0, Steps("margin, octaves", {f"{n}": n for n in MARGINS}))

    @property
    def code(self) -> str:
        """Python that scales in this way."""
        history = f"history = quantizers.AmaxHistory({self.length})"
        return f'{history}\nquantizers.DelayedScaling("e4m3fn", history, margin={self.margin})'


class DelayedExplorer(Explorer):
    """What the scales of each step can hold, with sliders for the history and the margin.

    Args:
        yours: by length and margin, the largest number that somebody's own scales can hold in each step [steps].
        layer: a layer of `lplab.recordings.gradient_maxima`.
        format: whose largest number counts.
        **position: ``length`` and ``margin``. Reset comes back to them.

    >>> from itertools import product
    >>> own = {setting: library_ends(*setting) for setting in product(LENGTHS, MARGINS)}
    >>> DelayedExplorer(own).figure.layout.meta["title"]
    'Clipped in 37 of 400 steps; 1.0 octaves unused in the others; yours agrees in 400'
    """

    state_class = DelayedState
    side: ClassVar = {"Delayed scaling": ("length", "margin")}
    _copy_tooltip = "Python that scales in this way"

    def __init__(
        self,
        yours: Mapping[tuple[int, int], np.ndarray],
        layer: str = "blocks.0.attention.qkv",
        format: str = "e4m3fn",
        **position: Any,
    ) -> None:
        self._yours, self._layer, self._format = yours, layer, format
        super().__init__(**position)

    def _ends(self, state: DelayedState) -> np.ndarray:
        return library_ends(state.length, state.margin, self._layer, self._format)

    def _figures(self, state: DelayedState) -> dict[str, Any]:
        amax = recorded_amax(self._layer)
        return {"figure": figures.delayed_ranges(amax, self._ends(state), self._yours[state.length, state.margin])}

    def _summary(self, state: DelayedState) -> str:
        amax = recorded_amax(self._layer)
        clipped, beyond, unused = clipping(amax, self._ends(state))
        far = "less than 0.1" if beyond < 0.05 else f"{beyond:.1f}"  # "0.0 octaves beyond" would say that it fits
        which = "It" if clipped == 1 else "The worst of them"
        worst = f" {which} lies {far} octaves beyond the end." if clipped else ""
        text = f"{clipped} of {len(amax)} steps {'is' if clipped == 1 else 'are'} clipped.{worst}"
        return f"{text} In the other steps {unused:.1f} octaves at the upper end are unused, on average."
