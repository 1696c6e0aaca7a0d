"""A clip over a real tensor, live: tensor, bits, rule, and the clip itself."""

from dataclasses import replace
from typing import Any

import ipywidgets
import numpy as np

from lplab import figures
from lplab.figures.lazy_figure import as_dicts
from lplab.widgets.controls import line, set_text
from lplab.widgets.explorer_base import Explorer, set_options
from lplab.widgets.live.live_figure import LiveFigure

from . import clip_state as cs

_CLIP_ENDS = (1, 110)


class ClipExplorer(Explorer):
    """A tensor under a grid of few bits, behind five controls: preset, tensor, bits, rule and clip.

    Args:
        own: an array or tensor of your own, which is then in the list of tensors as "yours", and chosen.
        **position: fields of `ClipState`; Reset returns to them.

    >>> explorer = ClipExplorer(rule="least error")
    >>> explorer.summary.value[:41]
    '4 levels from 0 to 2.48 in steps of 0.827'
    """

    _copy_tooltip = "Python that quantizes so"

    def __init__(self, own: Any = None, **position: Any) -> None:
        self._own = None if own is None else cs.TensorAnalysis(_as_array(own))
        if own is not None:
            position = {"tensor": cs.OWN, **position}
        first = cs.ClipState(**position)
        if first.tensor == cs.OWN and self._own is None:
            raise ValueError('the tensor "yours" must be given: ClipExplorer(own=array)')
        super().__init__(self.analysis(first).make_consistent(first))

    # -- what a notebook may use ------------------------------------------------------------------------------------

    def analysis(self, state: cs.ClipState | None = None) -> cs.TensorAnalysis:
        """The rules, clips and errors of a state's tensor, by default of the current state."""
        name = (state or self.position).tensor
        return self._own if name == cs.OWN and self._own is not None else cs.analyze(name)

    look = analysis  # its earlier name

    def set(self, **position: Any) -> None:
        """Set controls by name: the fields of `ClipState`, or ``preset``."""
        if "preset" in position:
            name = position.pop("preset")
            if name not in cs.PRESETS:
                raise ValueError(f"unknown preset {name!r}; allowed: {', '.join(cs.PRESETS)}")
            base = cs.PRESETS[name]
        else:
            base = self.position
        wanted = replace(base, **position)
        self.position = self.analysis(wanted).make_consistent(wanted)

    # -- display ------------------------------------------------------------------------------------------------------

    def _build(self, state: cs.ClipState) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        own = () if self._own is None else (cs.OWN,)
        self.controls = {
            "preset": w.Dropdown(options=[cs.NO_PRESET, *cs.PRESETS], description="preset"),
            "tensor": w.Dropdown(options=[*own, *cs.TENSORS], description="tensor"),
            "bits": w.IntSlider(min=cs.BITS[0], max=cs.BITS[1], description="bits"),
            "rule": w.Dropdown(options=[*self.analysis(state).rules, cs.MANUAL], description="rule"),
            "percent": w.IntSlider(
                min=_CLIP_ENDS[0],
                max=_CLIP_ENDS[1],
                description="clip (% max)",
                tooltip="α in percent of the largest magnitude",
            ),
        }
        self.figure = LiveFigure(cs.figure(self.analysis(state), state))
        self.summary = line(cs.summary(self.analysis(state), state), "lp-quiet", "lp-live")
        preset, tensor, bits, rule, percent = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("The tensor", "The grid")]
        return [heads[0], preset, tensor, heads[1], bits, rule, percent], [self.figure, self.summary]

    def _on_control_change(self, **position: Any) -> None:
        """Moving the clip selects the rule "by hand"; choosing "own setting" among the presets changes nothing."""
        if position.get("preset") == cs.NO_PRESET:
            return
        if "percent" in position:
            position["rule"] = cs.MANUAL
        elif position.get("rule") == cs.MANUAL:
            position["percent"] = self.controls["percent"].value
        super()._on_control_change(**position)

    def _update_options(self, state: cs.ClipState) -> None:
        set_options(self.controls["rule"], [*self.analysis(state).rules, cs.MANUAL])

    def _control_values(self, state: cs.ClipState) -> dict[str, Any]:
        analysis = self.analysis(state)
        share = round(100 * analysis.clip(state) / (analysis.magnitudes.largest or 1.0))
        percent = min(max(share, _CLIP_ENDS[0]), _CLIP_ENDS[1])
        return {
            **{name: getattr(state, name) for name in ("tensor", "bits", "rule")},
            "preset": cs.preset_of(state),
            "percent": percent,
        }

    def _code(self, state: cs.ClipState) -> str:
        return cs.code(self.analysis(state), state)

    def _draw(self, state: cs.ClipState) -> None:
        analysis = self.analysis(state)
        set_text(self.summary, cs.summary(analysis, state))
        with as_dicts():
            figures.update(self.figure, cs.figure(analysis, state))


def _as_array(own: Any) -> np.ndarray:
    """The user's tensor or array as float64.

    Raises:
        ValueError: no finite real numbers in it.
    """
    own = own.detach().cpu().float().numpy() if hasattr(own, "detach") else own
    array = np.asarray(own)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).any():
        raise ValueError(f"own must hold finite real numbers, got {array.size} elements of dtype {array.dtype}")
    return array.astype(np.float64)
