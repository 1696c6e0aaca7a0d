"""A clip over a real tensor, live: tensor, bits, rule, and the clip itself."""

from dataclasses import replace
from typing import Any

import ipywidgets
import numpy as np

from lplab import figures
from lplab.figures.light import light

from . import clip_state as cs
from .controls import line, say
from .live_figure import LiveFigure
from .positioned import PositionedExplorer, offer

_CLIP_ENDS = (1, 110)


class ClipExplorer(PositionedExplorer):
    """A tensor under a grid of few bits, behind five controls: preset, tensor, bits, rule and clip.

    Args:
        own: an array or tensor of your own, which is then in the list of tensors as "yours", and chosen.
        **position: fields of `ClipPosition`; Reset comes back to them.

    >>> explorer = ClipExplorer(rule="least error")
    >>> explorer.statement.value[:41]
    '4 levels from 0 to 2.48 in steps of 0.827'
    """

    _copies = "Python that quantizes so"

    def __init__(self, own: Any = None, **position: Any) -> None:
        self._own = None if own is None else cs.Look(_as_array(own))
        if own is not None:
            position = {"tensor": cs.OWN, **position}
        first = cs.ClipPosition(**position)
        if first.tensor == cs.OWN and self._own is None:
            raise ValueError('the tensor "yours" must be given: ClipExplorer(own=array)')
        super().__init__(self.look(first).settled(first))

    # -- what a notebook may use ------------------------------------------------------------------------------------

    def look(self, at: cs.ClipPosition | None = None) -> cs.Look:
        """The tensor at a position, looked at: its rules, clips and errors."""
        name = (at or self.position).tensor
        return self._own if name == cs.OWN and self._own is not None else cs.look_at(name)

    def set(self, **position: Any) -> None:
        """Move controls by name: the fields of `ClipPosition`, or ``preset``."""
        if "preset" in position:
            name = position.pop("preset")
            if name not in cs.PRESETS:
                raise ValueError(f"unknown preset {name!r}; allowed: {', '.join(cs.PRESETS)}")
            base = cs.PRESETS[name]
        else:
            base = self.position
        wanted = replace(base, **position)
        self.position = self.look(wanted).settled(wanted)

    # -- display ------------------------------------------------------------------------------------------------------

    def _build(self, at: cs.ClipPosition) -> tuple[list[ipywidgets.Widget], list[ipywidgets.Widget]]:
        w = ipywidgets
        own = () if self._own is None else (cs.OWN,)
        self.controls = {
            "preset": w.Dropdown(options=[cs.NO_PRESET, *cs.PRESETS], description="preset"),
            "tensor": w.Dropdown(options=[*own, *cs.TENSORS], description="tensor"),
            "bits": w.IntSlider(min=cs.BITS[0], max=cs.BITS[1], description="bits"),
            "rule": w.Dropdown(options=[*self.look(at).rules, cs.HAND], description="rule"),
            "percent": w.IntSlider(
                min=_CLIP_ENDS[0],
                max=_CLIP_ENDS[1],
                description="clip (% max)",
                tooltip="α in percent of the largest magnitude",
            ),
        }
        self.figure = LiveFigure(cs.picture(self.look(at), at))
        self.statement = line(cs.statement(self.look(at), at), "lp-quiet", "lp-live")
        preset, tensor, bits, rule, percent = self.controls.values()
        heads = [line(text, "lp-heading") for text in ("The tensor", "The grid")]
        return [heads[0], preset, tensor, heads[1], bits, rule, percent], [self.figure, self.statement]

    def _moved(self, **position: Any) -> None:
        """A clip that is moved is a clip by hand; "own setting" is what presets show then, and sets nothing."""
        if position.get("preset") == cs.NO_PRESET:
            return
        if "percent" in position:
            position["rule"] = cs.HAND
        elif position.get("rule") == cs.HAND:
            position["percent"] = self.controls["percent"].value
        super()._moved(**position)

    def _fit(self, at: cs.ClipPosition) -> None:
        offer(self.controls["rule"], [*self.look(at).rules, cs.HAND])

    def _values(self, at: cs.ClipPosition) -> dict[str, Any]:
        look = self.look(at)
        share = round(100 * look.clip(at) / (look.magnitudes.largest or 1.0))
        percent = min(max(share, _CLIP_ENDS[0]), _CLIP_ENDS[1])
        return {"preset": cs.preset_of(at), "tensor": at.tensor, "bits": at.bits, "rule": at.rule, "percent": percent}

    def _code(self, at: cs.ClipPosition) -> str:
        return cs.code(self.look(at), at)

    def _draw(self, at: cs.ClipPosition) -> None:
        look = self.look(at)
        say(self.statement, cs.statement(look, at))
        with light():
            figures.update(self.figure, cs.picture(look, at))


def _as_array(own: Any) -> np.ndarray:
    """A tensor or array of one's own as float64.

    Raises:
        ValueError: no finite real numbers in it.
    """
    own = own.detach().cpu().float().numpy() if hasattr(own, "detach") else own
    array = np.asarray(own)
    if array.dtype.kind not in "fiu" or not np.isfinite(array).any():
        raise ValueError(f"own must hold finite real numbers, got {array.size} elements of dtype {array.dtype}")
    return array.astype(np.float64)
