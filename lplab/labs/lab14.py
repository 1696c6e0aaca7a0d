"""Lab 14, four bits again: its tables and figures, the switchboard with its questions, and the live branch below it."""

from __future__ import annotations

from typing import Any

import ipywidgets
import numpy as np
import plotly.graph_objects as go

from lplab import figures, widgets
from lplab.exercises.lab14 import left_with_a_wide_forward_pass
from lplab.exercises.lab14.hadamard_pair import library_errors
from lplab.exercises.lab14.one_weight import library_differences
from lplab.exercises.lab14.slope import DRAWS, ROUNDINGS, roundings, slope_and_error
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.recordings.ingredient_runs import (
    HELPERS,
    MXFP4_2025,
    MXFP8_2025,
    NVFP4_2025,
    PLAIN,
    SWITCHED,
    Ingredients,
    ingredient_branches,
)
from lplab.training.recipe.recipe_data import BLOCK_KEYS, RECIPE_KEYS, RULE_KEYS
from lplab.widgets.explorers import ingredient_explorer as board
from lplab.widgets.explorers.ingredient_explorer import IngredientState, bits_text

RECIPES = {
    "MXFP8 (2025)": MXFP8_2025,
    "plain NVFP4": PLAIN["nvfp4"],
    "NVFP4 (2025)": NVFP4_2025,
    "NVFP4 (2025), BF16 forward from 82 %": SWITCHED,
    "plain MXFP4": PLAIN["mxfp4"],
    "MXFP4 backward (2025)": MXFP4_2025,
}


# ---- tables and figures ----------------------------------------------------------------------------------------------


def gaps(recipes: dict[str, Ingredients], caption: str) -> figures.DataTable:
    """The gaps of some recipes: test loss above float32's after the branch, mean and ends of the seeds, share of it."""
    recorded = ingredient_branches()
    found = [recorded.gap(chosen) for chosen in recipes.values()]
    columns: dict[str, list[Any]] = {
        "recipe": list(recipes),
        "gap (bits)": [float(gap.mean()) for gap in found],
        "least": [float(gap.min()) for gap in found],
        "most": [float(gap.max()) for gap in found],
        "share of float32's loss": [recorded.share(chosen) for chosen in recipes.values()],
        "bits a number": [board.average_bits(chosen) for chosen in recipes.values()],
    }
    formats: dict[str, Any] = dict.fromkeys(list(columns)[1:4], bits_text)
    return figures.DataTable(columns, caption, formats | {"share of float32's loss": ".1%", "bits a number": ".2f"})


def recipes_compared() -> figures.DataTable:
    """The published recipes and the plain formats."""
    seeds = len(ingredient_branches().seeds)
    return gaps(RECIPES, f"Gaps at the end of the branch, test loss, mean and ends of {seeds} seeds")


def one_pass() -> figures.DataTable:
    """Plain formats in both passes, in the forward pass alone, in the backward pass alone."""
    rows = {
        f"{label}, {where}": Ingredients(*passes)
        for kind, label in (("nvfp4", "NVFP4"), ("mxfp4", "MXFP4"))
        for where, passes in (
            ("both passes", (kind, kind)),
            ("forward alone", (kind, "bf16")),
            ("backward alone", ("bf16", kind)),
        )
    }
    return gaps(rows, "Gaps of plain formats in both passes, and in one pass with the other in BF16")


def helpers_taken_out() -> figures.DataTable:
    """The recipe of NVFP4 with single helpers taken out, each beside the whole recipe, seed by seed."""
    recorded = ingredient_branches()
    found = {HELPERS[name]: recorded.gap(NVFP4_2025.without(name), NVFP4_2025) for name in NVFP4_2025.helpers}
    columns: dict[str, list[Any]] = {
        "without": list(found),
        "the gap grows by (bits)": [float(gap.mean()) for gap in found.values()],
        "least": [float(gap.min()) for gap in found.values()],
        "most": [float(gap.max()) for gap in found.values()],
    }
    formats = dict.fromkeys(list(columns)[1:], bits_text)
    return figures.DataTable(
        columns, "NVFP4 (2025) with one helper taken out, against the whole recipe, mean and ends of the seeds", formats
    )


def within_noise(helper: str) -> bool:
    """Whether the seeds do not agree what taking out a helper of NVFP4 does: on some the gap grows, on others it falls."""
    gap = ingredient_branches().gap(NVFP4_2025.without(helper), NVFP4_2025)
    return bool(gap.min() < 0 < gap.max())


def four_numbers() -> figures.DataTable:
    """Two columns of four numbers, before and after the transform, and their products.

    >>> four_numbers().columns["transformed x"]
    [5.0, -1.0, -2.0, 0.0]
    """
    signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    dy, x = np.array([8.0, 0.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0, 4.0])
    columns = {"dy": dy, "x": x, "transformed dy": signs @ dy, "transformed x": signs @ x}
    products = (
        f"Four numbers of each operand. dy · x is {dy @ x:g}, and after both transforms {(signs @ dy) @ (signs @ x):g}."
    )
    return figures.DataTable(
        {name: list(map(float, each)) for name, each in columns.items()}, products, dict.fromkeys(columns, "g")
    )


def step_times() -> figures.DataTable:
    """How many times as fast as in BF16 a modelled step of GPT-3 is, on chips with and without FP4."""
    columns: dict[str, list[Any]] = {"recipe": list(RECIPES)}
    for label, chip in board.CHIPS.items():
        wide = sum(board.parts_of(PLAIN["bf16"], chip).values())
        columns[label] = [wide / sum(board.parts_of(chosen, chip).values()) for chosen in RECIPES.values()]
    formats: dict[str, Any] = dict.fromkeys(board.CHIPS, "{:.2f} ×".format)
    return figures.DataTable(
        columns, "How many times as fast as in BF16 a step of GPT-3 is, by the model of lab 11", formats
    )


def slopes() -> figures.DataTable:
    """Slope and error of the mean of 1, 8 and 32 roundings of a real gradient to MXFP4."""
    gradient, made = roundings()
    counts = (DRAWS[0], DRAWS[3], DRAWS[-1])
    columns: dict[str, list[Any]] = {"rounding": list(ROUNDINGS)}
    for count in counts:
        both = [slope_and_error(gradient, made[name][:count]) for name in ROUNDINGS]
        columns[f"slope, {count} draws" if count > 1 else "slope, 1 draw"] = [float(slope) for slope, _ in both]
        columns[f"error, {count}" if count > 1 else "error, 1"] = [float(error) for _, error in both]
    return figures.DataTable(
        columns,
        "Slope and error of the mean of several roundings of one real gradient to MXFP4",
        dict.fromkeys(list(columns)[1:], ".1%"),
    )


def recipe_keys() -> Folded:
    """Every key of a recipe with its meaning, as the code that reads recipes has them."""
    parts = {"the recipe": RECIPE_KEYS, "an operand": RULE_KEYS, "blocks": BLOCK_KEYS}
    rows = [(where, key, meaning) for where, keys in parts.items() for key, meaning in keys.items()]
    where, keys, meanings = map(list, zip(*rows, strict=True))
    caption = "What a recipe, the dictionary of an operand and the dictionary of blocks may say"
    return Folded(
        figures.DataTable({"in": where, "key": keys, "meaning": meanings}, caption), line="All keys of a recipe"
    )


def branches_figure() -> go.Figure:
    """The recorded branches of four recipes."""
    recorded = ingredient_branches()
    shown = ("MXFP8 (2025)", "NVFP4 (2025)", "plain MXFP4", "MXFP4 backward (2025)")
    curves = {"float32": recorded.losses[None]} | {name: recorded.losses[RECIPES[name]] for name in shown}
    return figures.branched_losses(
        curves, before=recorded.before, limits=board.LIMITS, title="Four recipes of 2025, three seeds"
    )


# ---- the switchboard -------------------------------------------------------------------------------------------------


def explorer() -> widgets.IngredientExplorer:
    """The explorer where the prediction asks: NVFP4 in the backward pass alone."""
    return widgets.IngredientExplorer(forward="bf16")


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def switchboard() -> ipywidgets.VBox:
    """The explorer below its questions, and a button that trains the combination that it shows."""
    view = guided_explorer()
    return ipywidgets.VBox([view, live_branch(view.explorer)])


def live_branch(shown: Any) -> widgets.LiveBranch:
    """A button that branches what an explorer shows, on a seed that is not among the recorded ones.

    Args:
        shown: an `IngredientExplorer`; its position counts when the button is pressed.
    """
    from lplab.claims import BranchPlan  # these load torch: not with the lab
    from lplab.claims.framework.models import branch_transformer
    from lplab.training.recipe.ingredient_recipes import recipe_of

    recorded = ingredient_branches()
    return widgets.live_branch(
        branch_transformer(),
        lambda: recipe_of(shown.position.ingredients, recorded.switch_step),
        plan=BranchPlan(recorded.before, recorded.steps),
        seed=max(recorded.seeds) + 1,
        name="Train this recipe",
    )


def _gap(state: IngredientState) -> float:
    return float(ingredient_branches().gap(state.ingredients).mean())


def _without_backward(state: IngredientState) -> str:
    return (
        f"The gap is {bits_text(_gap(state))} bits. With four bits in both passes it was {bits_text(_gap(state.changed(backward='nvfp4')))}. "
        "Exact gradients help next to nothing, as long as the forward pass computes with rounded numbers."
    )


def _mxfp4(state: IngredientState) -> str:
    nvfp4 = _gap(IngredientState())
    return (
        f"The gap of MXFP4 is {bits_text(_gap(state))} bits and that of NVFP4 {bits_text(nvfp4)}, so it is {_gap(state) / nvfp4:.1f} times as large. The blocks of MXFP4 are twice "
        "as long, and their scales are powers of two, so the largest number of a block seldom meets the largest of the format."
    )


def _switch(state: IngredientState) -> str:
    before = _gap(state.changed(switch=False))
    return (
        f"The gap falls from {bits_text(before)} to {bits_text(_gap(state))} bits, so {100 * _gap(state) / before:.0f} % of it stays. Look at the last 18 steps of "
        "the curve. The weights soon fit a forward pass in 16 bits, sooner than it looks, as each point is a mean of ten steps. NVIDIA gets from 1.5 % to 0.5 % in this way."
    )


def _chips(state: IngredientState) -> str:
    fast = board.speed(state.changed(chip="b200"))
    return (
        f"On a B200 a step is {fast:.2f} times as fast as in BF16, and on an H100 {board.speed(state):.2f} times. The H100 has no FP4 "
        f"products, so four-bit numbers are multiplied in FP8. MXFP8 is {board.speed(state.changed(**board.PRESETS['MXFP8 (2025)'])):.2f} times as fast there."
    )


QUESTIONS = (
    GuidedQuestion(
        "This is your guess: the forward pass in BF16. Now set *forward* to NVFP4 and *backward* to BF16. How"
        " large is the gap to float32?",
        {"forward": "nvfp4", "backward": "bf16"},
        _without_backward,
        lambda state: _gap(state) > 0.75 * _gap(state.changed(backward="nvfp4")),
        controls=("forward", "backward"),
        figure="losses",
        guess="bits",
    ),
    GuidedQuestion(
        "Set both passes to MXFP4. How many times as large as NVFP4's is the gap?",
        {"forward": "mxfp4", "backward": "mxfp4"},
        _mxfp4,
        lambda state: _gap(state) > 1.2 * _gap(IngredientState()),
        controls=("forward", "backward"),
        figure="losses",
        guess="times",
    ),
    GuidedQuestion(
        "Press *NVFP4 (2025)*, which has the first four helpers, and let the forward pass go back to BF16 "
        "from 82 % on. Which share of the gap stays?",
        {**board.PRESETS["NVFP4 (2025)"], "switch": True},
        _switch,
        lambda state: 0 < _gap(state) < 0.7 * _gap(state.changed(switch=False)),
        controls=("presets", "switch"),
        figure="losses",
        guess="%",
    ),
    GuidedQuestion(
        "Press *NVFP4 (2025)*. How many times as fast as in BF16 is a step on a B200? Then choose the H100, a chip of 2022.",
        {**board.PRESETS["NVFP4 (2025)"], "chip": "h100"},
        _chips,
        lambda state: board.speed(state) < board.speed(state.changed(chip="b200")),
        controls=("presets", "chip"),
        figure="time",
        guess="times as fast",
    ),
)
GUIDED = ((explorer, QUESTIONS),)


# ---- what the tests compare ------------------------------------------------------------------------------------------


def facts() -> figures.DataTable:
    """The numbers that the text of the lab gives and that stand in no table."""
    off, apart = library_errors(), next(iter(library_differences().values()))
    rows: dict[str, float] = {
        "of the gap left with a BF16 forward pass (%)": left_with_a_wide_forward_pass(),
        **{f"error of dW in FP4, {name}, mean of the layers (%)": float(each.mean()) for name, each in off.items()},
        "weights that differ between the passes (%), least": float(apart.min()),
        "weights that differ between the passes (%), most": float(apart.max()),
        "steps in float32": float(ingredient_branches().before),
        "steps of a branch": float(ingredient_branches().steps),
    }
    columns: dict[str, list[Any]] = {"what": list(rows), "number": list(rows.values())}
    return figures.DataTable(columns, "What the text says in numbers", {"number": ",.4g"})


def checked_numbers() -> Folded:
    """What the tests of the course compare: the tables behind the veil, and the numbers of the text."""
    return Folded(recipes_compared(), one_pass(), helpers_taken_out(), facts(), line="The numbers of this lab")


def checked_answers() -> Folded:
    """What the tests of the course compare: the answers to the questions above the explorer."""
    shown = explorer()
    answers = [question.answer(shown.state_at(**question.position)) for question in QUESTIONS]
    return Folded("\n".join(answers), line="The answers to the questions above the explorer")
