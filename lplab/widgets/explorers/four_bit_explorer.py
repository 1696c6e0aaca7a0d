"""Real gradients over grids of four bits, live: which grid, which scale, which layer, which moment."""

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np
import plotly.graph_objects as go

from lplab import figures
from lplab.datasets import captured
from lplab.figures.grid_errors import GOOD, good_scales
from lplab.number_text import percent, power, raised, signed_percent
from lplab.quantizers import GRADIENT_GRIDS, GridEffect, grid_effect
from lplab.quantizers.gradscale import first_scale
from lplab.recordings import gradients_at
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice, ExplorerState, Steps, control

ALL, PER_LAYER = "all layers", "one per layer"
SCALES = tuple(range(6, 25))  # exponents of two
CURVES = ("int4", "radix2", "luq", "radix4_even")
ELEMENTS = 4096  # elements of a layer in the sample, evenly spread
MEASURES: dict[str, tuple[str, str, tuple[float, float], str]] = {  # label, of one layer, axis, field of GridEffect
    "worst": ("error of the worst layer", "error", (0.0, 1.5), "error"),
    "error": ("mean error of the layers", "error", (0.0, 1.5), "error"),
    "zeroed": ("share that becomes zero", "share that becomes zero", (0.0, 1.0), "zeroed"),
    "bias": ("bias of the magnitudes", "bias of the magnitudes", (-1.0, 0.1), "bias"),
    "cosine": ("cosine with the gradient", "cosine with the gradient", (0.0, 1.0), "cosine"),
}


@cache
def moments() -> tuple[str, ...]:
    """The recorded moments: network and step, such as "transformer, step 50"."""
    c = captured()
    return tuple(f"{model}, step {step}" for model in reversed(c.models) for step in c.steps_of(model))


@cache
def gradients(moment: str) -> dict[str, np.ndarray]:
    """The output gradients of the layers at a moment, float64 [up to 4,096], by layer."""
    model, _, step = moment.partition(", step ")
    return gradients_at(model, int(step), ELEMENTS)


@dataclass(frozen=True)
class FourBitState(ExplorerState):
    """The value of every control.

    Attributes:
        grid: a name of ``lplab.quantizers.GRADIENT_GRIDS``.
        scale: exponent of the power of two that multiplies all gradients, 6 to 24, or "one per layer" (on the slider
            "own", as there is room for no more).
        moment: a name of `moments`.
        layer: "all layers", or a layer of this moment.
        measure: what the lower figure draws, a key of `MEASURES`.

    >>> FourBitState().grid, FourBitState().scale
    ('radix2', 14)
    """

    grid: str = control("radix2", Choice("grid", {grid.label: name for name, grid in GRADIENT_GRIDS.items()}))
    scale: int | str = control(14, Steps("scale", {raised(f"2^{k}"): k for k in SCALES} | {"own": PER_LAYER}))
    moment: str = control("transformer, step 50", Choice("gradients", lambda _: moments()))
    layer: str = control(
        ALL,
        Choice(
            "layer", lambda state: [ALL, *gradients(state.moment)], refusal="no layer {value!r}; allowed: {allowed}"
        ),
    )
    measure: str = control("worst", Choice("curve", {label: name for name, (label, *_) in MEASURES.items()}))

    def changed(self, **changes: Any) -> "FourBitState":
        """The state after changes. Another network has other layers: then all are shown."""
        moment = changes.get("moment", self.moment)
        if "layer" not in changes and moment in moments() and self.layer not in gradients(moment):
            changes["layer"] = ALL
        return replace(self, **changes)

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that are shown."""
        return tuple(gradients(self.moment)) if self.layer == ALL else (self.layer,)

    @property
    def code(self) -> str:
        """Python that gives the numbers of the chosen grid, layer by layer."""
        model, _, step = self.moment.partition(", step ")
        each = "" if self.layer == ALL else f", layer={self.layer!r}"
        own = self.scale == PER_LAYER
        scale = "first_scale(float(abs(c[name]).max()))" if own else f"2.0**{self.scale}"
        lines = [
            "c = datasets.captured()",
            f"for name in c.select(model={model!r}, step={step}, role='gradient'{each}):",
        ]
        lines.append(f"    print(name, quantizers.grid_effect(c[name], {self.grid!r}, {scale}))")
        return "\n".join(lines)


PRESETS: dict[str, dict[str, Any]] = {  # the name of the preset: fields of FourBitState
    "Loss scaling, radix 2": {"grid": "radix2", "scale": 14},
    "Loss scaling, radix 4": {"grid": "radix4_even", "scale": 14},
    "GradScale (Sun 2020)": {"grid": "radix4_even", "scale": PER_LAYER},
    "LUQ (2022)": {"grid": "luq", "scale": PER_LAYER},
}


def scale_of(layer: np.ndarray, scale: int | str) -> float:
    """The factor of one layer: the common one, or GradScale's initial one."""
    return first_scale(float(np.abs(layer).max())) if scale == PER_LAYER else 2.0 ** int(scale)


@lru_cache(maxsize=4096)
def effect_of(moment: str, layer: str, grid: str, scale: int | str) -> GridEffect:
    """What a grid does to one layer."""
    x = gradients(moment)[layer]
    return grid_effect(x, grid, scale_of(x, scale))


@lru_cache(maxsize=256)
def table(state: FourBitState) -> dict[str, GridEffect]:
    """What each grid does, on average over the layers shown."""
    return {
        grid: GridEffect.mean([effect_of(state.moment, layer, grid, state.scale) for layer in state.layers])
        for grid in GRADIENT_GRIDS
    }


def measured(state: FourBitState, grid: str, scale: int | str) -> float:
    """The number that the lower figure draws."""
    values = [
        getattr(effect_of(state.moment, layer, grid, scale), MEASURES[state.measure][3]) for layer in state.layers
    ]
    return max(values) if state.measure == "worst" else float(np.mean(values))


@lru_cache(maxsize=64)
def _curves(moment: str, layer: str, measure: str) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    state = FourBitState(moment=moment, layer=layer, measure=measure)
    curves = {grid: np.array([measured(state, grid, scale) for scale in SCALES]) for grid in CURVES}
    return curves, {grid: measured(state, grid, PER_LAYER) for grid in CURVES}


def scale_text(scale: int | str) -> str:
    """A scale in words.

    >>> scale_text(14), scale_text(PER_LAYER)
    ('One scale 2¹⁴', 'A scale per layer')
    """
    return "A scale per layer" if scale == PER_LAYER else f"One scale {raised(power(float(scale), plain=True))}"


def grids_figure(state: FourBitState) -> go.Figure:
    """The upper figure."""
    layers = gradients(state.moment)
    scaled = np.concatenate([layers[name] * scale_of(layers[name], state.scale) for name in state.layers])
    effects = table(state)
    zeroed = {grid: percent(effects[grid].zeroed) for grid in ("radix2", "radix4_even")}
    title = f"{scale_text(state.scale)}: radix 2 zeroes {zeroed['radix2']}, radix 4 {zeroed['radix4_even']}"
    return figures.gradient_grids(scaled, effects, state.grid, title=title)


def errors_figure(state: FourBitState) -> go.Figure:
    """The lower figure."""
    curves, own = _curves(state.moment, state.layer, state.measure)
    label, alone, limits, field = MEASURES[state.measure]
    good, which = (GOOD if field == "error" else None), (label if state.layer == ALL else alone)
    title = f"{which[:1].upper()}{which[1:]}"
    if good:
        named = {"radix4_even": "radix 4", "radix2": "radix 2", "int4": "INT4"}
        counts = [f"{short} at {len(good_scales(SCALES, curves[grid]))}" for grid, short in named.items()]
        title += f" ≤ 50 %: {', '.join(counts)} scales"
    mark = None if state.scale == PER_LAYER else int(state.scale)
    unit = "" if field == "cosine" else "%"
    return figures.grid_errors(
        SCALES, curves, own, what=which, unit=unit, limits=limits, at=mark, good=good, title=title
    )


def summary(state: FourBitState) -> str:
    """What the chosen grid does at this scale, and what scales the layers would choose, in one line."""
    effect = table(state)[state.grid]
    steps = [round(np.log2(first_scale(float(np.abs(gradients(state.moment)[name]).max())))) for name in state.layers]
    own = raised(f"2^{min(steps)}") + (f" to {raised(f'2^{max(steps)}')}" if max(steps) > min(steps) else "")
    name = GRADIENT_GRIDS[state.grid].label
    mean = ", mean of the layers" if len(state.layers) > 1 else ""
    outcomes = f"{percent(effect.zeroed)} of the gradients become zero, {percent(effect.saturated)} lie beyond 64"
    text = f"{name}{mean}: {outcomes}, "
    change = f"magnitudes change by {signed_percent(effect.bias, 2)}, the error is {percent(effect.error)}"
    return f"{text}{change}. With a scale of its own, a layer gets {own}."


class FourBitExplorer(Explorer):
    """Gradients of a real training behind five controls: grid, scale, moment, layer, what to draw against the scale.

    Args:
        **position: fields of `FourBitState`: ``grid``, ``scale``, ``moment``, ``layer``, ``measure``. Reset returns to
            them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = FourBitExplorer(grid="radix4_even")
    >>> explorer.figures["grids"].layout.meta["title"]
    'One scale 2¹⁴: radix 2 zeroes 76.4 %, radix 4 12.0 %'
    """

    imports = (
        "from lplab import datasets, quantizers",
        "from lplab.quantizers.gradscale import first_scale",
    )
    state_class, preset_fields = FourBitState, PRESETS
    side: ClassVar = {
        "Four bits": ("presets", "grid", "scale"),
        "Gradients": ("moment", "layer"),
        "Against the scale": ("measure",),
    }

    figure_names: ClassVar = {
        "grids": "The gradients and the values of both grids",
        "errors": "The error against the scale",
    }

    def _figures(self, state: FourBitState) -> dict[str, Any]:
        return {"grids": grids_figure(state), "errors": errors_figure(state)}

    def _summary(self, state: FourBitState) -> str:
        return summary(state)
