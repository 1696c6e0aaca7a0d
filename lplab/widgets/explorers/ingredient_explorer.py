"""The recipes of 2025 taken apart, live: what each ingredient costs in loss, recorded, and in time, modelled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from lplab import figures
from lplab.formats import get
from lplab.hardware import compute
from lplab.hardware.layer_times import LayerTimes
from lplab.hardware.precisions import Precision
from lplab.number_text import MINUS
from lplab.recordings.ingredient_runs import (
    COMBINATIONS,
    FORMATS,
    HELPERS,
    LATE_SHARE,
    MXFP4_2025,
    MXFP8_2025,
    NVFP4_2025,
    PLAIN,
    SWITCH_AT,
    Ingredients,
    ingredient_branches,
)
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Checkbox, Choice, ExplorerState, control

CHIPS = {"B200": "b200", "H100": "h100", "128 × 128 cells": "systolic"}
WORKLOAD, BATCH = "gpt3", 16  # the step whose time is modelled: so many sequences of 2,048 tokens
BLOCK_FORMATS = {"mxfp8": "mxfp8_e4m3", "nvfp4": "nvfp4", "mxfp4": "mxfp4"}
PEAKS = {"bf16": ("bf16", "fp16"), "mxfp8": ("fp8",), "nvfp4": ("fp4",), "mxfp4": ("fp4",)}
LANDMARKS = {"plain MXFP4": PLAIN["mxfp4"], "MXFP8 (2025)": MXFP8_2025}
LIMITS = (-0.01, 0.07)  # of the upper figure, in bits
THIS = "this recipe"


@dataclass(frozen=True)
class IngredientState(ExplorerState):
    """The value of every control.

    Attributes:
        forward, backward, hadamard, stochastic, tiles, late, switch: as in `lplab.recordings.Ingredients`.
        chip: the name of the chip whose step is modelled.

    Raises:
        ValueError: a value that is not allowed, or an ingredient that changes nothing beside these formats.

    >>> IngredientState().ingredients.name
    'forward NVFP4, backward NVFP4'
    """

    forward: str = control("nvfp4", Choice("forward", {label: name for name, label in FORMATS.items()}))
    backward: str = control("nvfp4", Choice("backward", {label: name for name, label in FORMATS.items()}))
    hadamard: bool = control(False, Checkbox("Hadamard transform"))
    stochastic: bool = control(False, Checkbox("stochastic rounding"))
    tiles: bool = control(False, Checkbox("16 × 16 weight tiles"))
    late: bool = control(False, Checkbox("wide late layers"))
    switch: bool = control(False, Checkbox("BF16 forward from 82 %"))
    chip: str = control("b200", Choice("chip", CHIPS))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ingredients  # noqa: B018  # it raises for what changes nothing

    @property
    def ingredients(self) -> Ingredients:
        """Formats and helpers of the recipe."""
        return Ingredients(self.forward, self.backward, **{name: getattr(self, name) for name in HELPERS})

    def changed(self, **changes: Any) -> IngredientState:
        """The state after changes; with another format, helpers that change nothing beside it go off.

        >>> IngredientState(tiles=True, late=True).changed(forward="bf16").ingredients.helpers
        ('late',)
        """
        moved = {name: changes.get(name, getattr(self, name)) for name in ("forward", "backward")}
        if all(format in list(FORMATS) for format in moved.values()):
            kept = Ingredients.possible(**moved, **{name: getattr(self, name) for name in HELPERS})
            changes = {name: getattr(kept, name) for name in HELPERS} | changes
        return replace(self, **changes)

    @property
    def code(self) -> str:
        """Python that trains the branches of this recipe and says how far each ends above float32, in bits."""
        helpers = (f"{name}=True" for name in self.ingredients.helpers)
        given = ", ".join([repr(self.forward), repr(self.backward), *helpers])
        recorded = ingredient_branches()
        return (
            f"recipe = recipe_of(Ingredients({given}), switch_at={recorded.switch_step})\n"
            f"plan = BranchPlan(before={recorded.before}, steps={recorded.steps})\n"
            f'made = branches(branch_transformer(), {{"mine": recipe}}, {recorded.seeds}, plan)\n'
            'made.differences("mine")'
        )


PRESETS: dict[str, dict[str, Any]] = {
    name: {field: getattr(chosen, field) for field in ("forward", "backward", *HELPERS)}
    for name, chosen in {
        "Plain NVFP4": PLAIN["nvfp4"],
        "NVFP4 (2025)": NVFP4_2025,
        "MXFP4 backward (2025)": MXFP4_2025,
        "MXFP8 (2025)": MXFP8_2025,
    }.items()
}


# ---- the time of a step ----------------------------------------------------------------------------------------------


def bits_of(kind: str, tiles: bool = False) -> float:
    """Bits of a number of an operand, its part of the shared scale included.

    >>> bits_of("nvfp4"), bits_of("nvfp4", tiles=True), bits_of("bf16")
    (4.5, 4.03125, 16.0)
    """
    if kind == "bf16":
        return float(get("bf16").bits)
    format = get(BLOCK_FORMATS[kind])
    return float((replace(format, block_size=(16, 16)) if tiles else format).bits)


def average_bits(chosen: Ingredients) -> float:
    """Bits of a number, mean of the six operands of an ordinary layer's three products, scales included.

    With the switch, a mean of both phases, weighted by their length.

    >>> average_bits(PLAIN["nvfp4"]), average_bits(Ingredients("bf16", "mxfp4"))
    (4.5, 8.166666666666666)
    """
    if chosen.switch:
        phases = (chosen.without("switch"), _after_switch(chosen))
        return float(np.dot([SWITCH_AT, 1 - SWITCH_AT], [average_bits(phase) for phase in phases]))
    weights = [bits_of(kind, chosen.tiles) for kind in (chosen.forward, chosen.backward)]
    others = [bits_of(kind) for kind in (chosen.forward, *[chosen.backward] * 3)]
    return sum([*weights, *others]) / 6


def precision_of(chosen: Ingredients) -> Precision:
    """Bits and peaks of the formats for lab 11's model; neither late layers nor the switch are in it.

    Weights and activations have the bits of the forward pass. Where the backward pass has another format, its copies
    of them are not counted.
    """
    return Precision(
        name="ingredients",
        label=chosen.name,
        weight_bits=bits_of(chosen.forward, chosen.tiles),
        activation_bits=bits_of(chosen.forward),
        gradient_bits=bits_of(chosen.backward),
        forward_peaks=PEAKS[chosen.forward],
        dx_peaks=PEAKS[chosen.backward],
        weight_wire_bits=16,
        gradient_wire_bits=16,
        keep=("last", "embedding", "product"),
        source="lab 14",
    )


@lru_cache(maxsize=256)
def parts_of(chosen: Ingredients, chip: str) -> dict[str, float]:
    """Seconds of a step by part (`lplab.hardware.layer_times.PARTS`), mean over a training.

    Late layers take the time that they take in BF16. With the switch, a mean of both phases, weighted by their length.
    Transforms and random numbers are not counted: the model has operations of products and bytes.
    """
    times = _times(chosen.without("late", "switch"), chip)
    by_layer = times.parts_by_layer()
    if chosen.late:
        wide, late = _times(PLAIN["bf16"], chip).parts_by_layer(), late_layers(times)
        by_layer = {part: np.where(late, wide[part], seconds) for part, seconds in by_layer.items()}
    parts = {part: float(seconds.sum()) for part, seconds in by_layer.items()}
    if not chosen.switch:
        return parts
    after = parts_of(_after_switch(chosen), chip)
    return {part: SWITCH_AT * seconds + (1 - SWITCH_AT) * after[part] for part, seconds in parts.items()}


def _after_switch(chosen: Ingredients) -> Ingredients:
    """What runs behind the switch: a forward pass in BF16."""
    helpers = {name: getattr(chosen, name) for name in HELPERS if name != "switch"}
    return Ingredients.possible("bf16", chosen.backward, **helpers)


@lru_cache(maxsize=64)
def _times(chosen: Ingredients, chip: str) -> LayerTimes:
    utilization = "array" if chip == "systolic" else 1.0
    return compute.layer_times(
        WORKLOAD, chip, precision_of(chosen), BATCH, utilization=utilization, fused=True, fall_back=True
    )


def late_layers(times: LayerTimes) -> np.ndarray:
    """Which layers are among the last 15 % of those with weights in a product, rounded up: bool [layers]."""
    columns = times.workload.columns
    with_weights = np.flatnonzero((columns["m"] > 0) & (columns["kind"] != "attention"))
    late = np.zeros(len(columns["m"]), bool)
    late[with_weights[-math.ceil(LATE_SHARE * len(with_weights)) :]] = True
    return late


def speed(state: IngredientState) -> float:
    """How many times as fast a step is as in BF16."""
    wide, narrow = (sum(parts_of(each, state.chip).values()) for each in (PLAIN["bf16"], state.ingredients))
    return wide / narrow


# ---- figures and words -----------------------------------------------------------------------------------------------


def is_recorded(chosen: Ingredients) -> bool:
    """Whether there are branches of a combination."""
    return chosen in COMBINATIONS


def bits_text(bits: float) -> str:
    """A difference in bits with its sign, three digits behind the point.

    >>> bits_text(0.0312), bits_text(-0.0004)
    ('+0.031', '0.000')
    """
    text = f"{bits:+.3f}".replace("-", MINUS)
    return text[1:] if float(text[1:]) == 0 else text


def losses_figure(state: IngredientState) -> Any:
    """The upper figure: the recorded branches of the recipe between those of two landmarks."""
    recorded, chosen = ingredient_branches(), state.ingredients
    curves = {"float32": recorded.losses[None], THIS: recorded.losses.get(chosen)}
    curves |= {name: recorded.losses[each] for name, each in LANDMARKS.items()}
    title = "This combination was not recorded"
    if is_recorded(chosen):
        gap = recorded.gap(chosen)
        count = f"{int((gap > 0).sum())} of {len(gap)} seeds"
        title = f"A gap of {bits_text(gap.mean())} bits of test loss at the end, above zero on {count}"
    return figures.branched_losses(curves, before=recorded.before, limits=LIMITS, title=title, height=300)


def time_figure(state: IngredientState, height: int = 230) -> Any:
    """The lower figure: where the time of a step goes, beside BF16 and MXFP8."""
    rows = {"BF16": PLAIN["bf16"], "MXFP8": MXFP8_2025, THIS: state.ingredients}
    parts = {name: parts_of(each, state.chip) for name, each in rows.items()}
    chip = next(label for label, name in CHIPS.items() if name == state.chip)
    bits = average_bits(state.ingredients)
    title = f"{chip}: a step {speed(state):.2f} × as fast as in BF16, {bits:.2f} bits a number"
    return figures.time_parts(parts, THIS, title=title, height=height)


def figure(state: IngredientState) -> Any:
    """The two figures as one."""
    return figures.stacked([losses_figure(state)], [time_figure(state)], left=112, right=24)


def summary(state: IngredientState) -> str:
    """What the recipe is, and how its branches end."""
    chosen = state.ingredients
    name = f"{chosen.name[:1].upper()}{chosen.name[1:]}"
    if not is_recorded(chosen):
        return f"{name}. This combination was not recorded. In lab 14, a button below the figures trains it."
    gap, share = ingredient_branches().gap(chosen), ingredient_branches().share(chosen)
    each = ", ".join(bits_text(value) for value in gap)
    percent = f"{100 * share:.1f}".replace("-", MINUS)
    end = f"At the end its gap to float32 is {bits_text(gap.mean())} bits of test loss, {percent} % of it"
    return f"{name}. {end} (seeds: {each})."


class IngredientExplorer(Explorer):
    """The ingredients of the recipes of 2025 behind switches: what each costs in loss and in time.

    Args:
        **position: fields of `IngredientState`: ``forward``, ``backward``, ``hadamard``, ``stochastic``, ``tiles``,
            ``late``, ``switch``, ``chip``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> IngredientExplorer(forward="bf16").position.ingredients.name
    'forward BF16, backward NVFP4'
    """

    imports = (
        "from lplab.claims import BranchPlan, branches",
        "from lplab.claims.framework.models import branch_transformer",
        "from lplab.recordings import Ingredients",
        "from lplab.training.recipe.ingredient_recipes import recipe_of",
    )
    state_class, preset_fields = IngredientState, PRESETS
    side: ClassVar = {
        "Recipes": ("presets",),
        "Formats of the operands": ("forward", "backward"),
        "Helpers": tuple(HELPERS),
        "Time": ("chip",),
    }

    def _off(self, state: IngredientState) -> dict[str, str]:
        """Switches that change nothing beside these formats."""
        return {helper: why for helper, why in state.ingredients.impossible().items() if why}

    figure_names: ClassVar = {"losses": "The recorded branches of three seeds", "time": "Where the time of a step goes"}

    def _figures(self, state: IngredientState) -> dict[str, Any]:
        return {"figure": figure(state)}

    def _panels(self, state: IngredientState) -> dict[str, Any]:
        drawn = {"losses": losses_figure(state), "time": time_figure(state, height=290)}
        return {name: figures.stacked([panel], left=112, right=24) for name, panel in drawn.items()}

    def _summary(self, state: IngredientState) -> str:
        return summary(state)
