"""The explorer of ingredients: recorded gaps, modelled times, switches that change nothing go off or are refused."""

import numpy as np
import pytest

from lplab.hardware import compute
from lplab.recordings.ingredient_runs import (
    COMBINATIONS,
    HELPERS,
    MXFP8_2025,
    NVFP4_2025,
    PLAIN,
    SWITCHED,
    Ingredients,
    ingredient_branches,
)
from lplab.widgets import IngredientExplorer
from lplab.widgets.explorers import ingredient_explorer as board
from lplab.widgets.explorers.ingredient_explorer import IngredientState


@pytest.fixture(scope="module")
def explorer():
    return IngredientExplorer()


def state_of(chosen, chip="b200"):
    return IngredientState(chosen.forward, chosen.backward, **{n: getattr(chosen, n) for n in HELPERS}, chip=chip)


def test_it_opens_with_four_bits_and_no_helper(explorer):
    assert explorer.position == IngredientState() and explorer.position.ingredients == PLAIN["nvfp4"]
    gap = ingredient_branches().gap(PLAIN["nvfp4"]).mean()
    assert (
        f"A gap of {board.bits_text(gap)} bits of test loss at the end, above zero on 3 of 3 seeds"
        in explorer.figure.layout.meta["title"]
    )


def test_every_control_answers_over_its_whole_range(explorer):
    explorer.reset()
    for name, control in explorer.controls.items():
        options = getattr(control, "options", None)
        values = (
            [option[1] if isinstance(option, tuple) else option for option in options] if options else [True, False]
        )
        seen = set()
        for value in values:
            control.value = value
            assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
            seen.add(explorer.figure.layout.meta["alt"] + explorer.summary.value)
        assert len(seen) == len(values), name
        explorer.reset()


@pytest.mark.parametrize("chosen", COMBINATIONS, ids=lambda each: each.name)
def test_a_recorded_combination_shows_its_own_branches(chosen):
    state, recorded = state_of(chosen), ingredient_branches()
    curve = next(trace for trace in board.losses_figure(state).data if trace.name == board.THIS)
    raw = (recorded.losses[chosen] - recorded.losses[None]).mean(axis=0)
    assert curve.y[-1] == pytest.approx(raw[-10:].mean(), abs=1e-6)
    assert board.bits_text(recorded.gap(chosen).mean()) in board.summary(state)


def test_a_combination_that_was_not_recorded_says_so_and_shows_no_curve(explorer):
    explorer.set(forward="mxfp8", backward="bf16")
    assert explorer.figure.layout.meta["title"] == "This combination was not recorded"
    assert "In lab 14, a button below the figures trains it" in explorer.summary.value
    curve = next(trace for trace in explorer.figure.data if trace.name == board.THIS)
    assert np.isnan(np.asarray(curve.y, float)).all() and f"{board.THIS} was not measured" in explorer.figure.alt
    explorer.reset()


def test_helpers_that_change_nothing_go_off_with_a_format_and_are_refused_by_hand(explorer):
    explorer.preset_buttons["NVFP4 (2025)"].click()
    explorer.set(switch=True)
    explorer.controls["forward"].value = "bf16"
    assert explorer.position.ingredients.helpers == ("hadamard", "stochastic", "late")
    assert not explorer.controls["tiles"].value and not explorer.controls["switch"].value
    grey = {name: control.tooltip for name, control in explorer.controls.items() if control.disabled}
    assert list(grey) == ["tiles", "switch"]
    assert grey["tiles"] == "16 × 16 tiles need NVFP4 in both passes, got forward BF16, backward NVFP4"
    with pytest.raises(ValueError, match="Hadamard transform needs four bits in the backward pass"):
        explorer.set(backward="mxfp8", hadamard=True)
    explorer.reset()
    assert not any(control.disabled for control in explorer.controls.values())


def test_bits_count_the_scales():
    assert board.bits_of("mxfp8") == 8.25 and board.bits_of("mxfp4") == 4.25 and board.bits_of("nvfp4") == 4.5
    assert board.average_bits(PLAIN["bf16"]) == 16
    assert board.average_bits(NVFP4_2025) == pytest.approx((2 * (4 + 8 / 256) + 4 * 4.5) / 6)
    switched = 0.82 * board.average_bits(NVFP4_2025) + 0.18 * (2 * 16 + 4 * 4.5) / 6  # no tiles: no weight is shared
    assert board.average_bits(SWITCHED) == pytest.approx(switched), "a wider forward pass costs bits as it costs time"


@pytest.mark.parametrize(
    ("chosen", "precision"),
    [(PLAIN["bf16"], "bf16"), (MXFP8_2025, "mxfp8_2025"), (NVFP4_2025.without("late"), "nvfp4_2025")],
)
@pytest.mark.parametrize("chip", ["b200", "h100"])
def test_times_are_those_of_the_precisions_of_lab_11(chosen, precision, chip):
    times = compute.layer_times(board.WORKLOAD, chip, precision, board.BATCH, fused=True, fall_back=True)
    assert sum(board.parts_of(chosen, chip).values()) == pytest.approx(times.step_seconds)


def test_late_layers_and_the_switch_cost_time():
    plain, late, switched = (
        sum(board.parts_of(each, "b200").values())
        for each in (
            PLAIN["nvfp4"],
            Ingredients(late=True),
            Ingredients(switch=True),
        )
    )
    wide, forward = (
        sum(board.parts_of(each, "b200").values()) for each in (PLAIN["bf16"], Ingredients("bf16", "nvfp4"))
    )
    assert plain < late < plain + 0.2 * (wide - plain)
    assert switched == pytest.approx(0.82 * plain + 0.18 * forward)


def test_four_bits_bring_nothing_over_eight_where_there_is_no_fp4():
    fast, slow = (board.speed(state_of(PLAIN["nvfp4"], chip)) for chip in ("b200", "h100"))
    assert fast > 1.3 * board.speed(state_of(MXFP8_2025, "b200"))
    assert slow == pytest.approx(board.speed(state_of(MXFP8_2025, "h100")), rel=0.05)


def test_copied_code_makes_the_branches_of_this_recipe(monkeypatch, tmp_path):
    """With a shorter plan: the plan, the recipe and the seeds are those that it names."""
    from lplab import claims

    monkeypatch.setenv("LPLAB_CHECKPOINTS", str(tmp_path))
    asked = []

    def branches(task, recipes, seeds, plan):
        asked.append((recipes, seeds, plan))
        return claims.framework.branches.Branches(plan, seeds, {}, {"float32": [], "mine": []})

    monkeypatch.setattr(claims, "branches", branches)
    code = state_of(NVFP4_2025).changed(switch=True).code
    exec("\n".join([*IngredientExplorer.imports, code]), {})
    ((recipes, seeds, plan),) = asked
    assert recipes["mine"].switch.at == 582 and recipes["mine"].late_share == 0.15
    assert (seeds, plan.before, plan.steps) == ((0, 1, 2), 500, 100)
