"""Scores of recipes on a tiny plan: what they are made of, seeds, divergence, the field; and points."""

import dataclasses
import json
import math

import numpy as np
import pytest

from lplab.claims.framework.branches import BranchPlan, branch
from lplab.claims.framework.models import branch_transformer
from lplab.exercises import capstone
from lplab.exercises.capstone import score_process, scoring, stored_field
from lplab.exercises.capstone.costs import BUDGET, Costs, costs_of
from lplab.exercises.capstone.points import AT_BEST, FOR_BUDGET, MAX_POINTS, marking_of, pareto_front
from lplab.exercises.capstone.published_recipes import PLAIN, RECIPES, data_of, is_published, plain_mxfp4
from lplab.exercises.capstone.scores import HELD_BACK_SEEDS, PRACTICE_SEEDS, Score
from lplab.exercises.capstone.scoring import PLAN, checked_recipe, score
from lplab.training import DivergedError, recipes
from lplab.training.loop.diagnosis import Diagnosis
from lplab.training.recipe.recipe_data import OPERANDS, recipe_from_data

TINY = BranchPlan(before=3, steps=4)
NARROW = {"name": "narrow", **dict.fromkeys(OPERANDS[:4], "e2m1")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints of the tests of this module."""
    return tmp_path_factory.mktemp("checkpoints")


def test_a_score_is_the_difference_of_the_branch_protocol(folder):
    found = capstone.score(NARROW, (0, 5), TINY, folder)
    for seed, gap in zip((0, 5), found.gaps, strict=True):
        task = branch_transformer()
        losses = [
            branch(task, recipe, seed, TINY, folder=folder).losses for recipe in (recipe_from_data(NARROW), "fp32")
        ]
        narrow, base = (sum(some[2:]) / 2 / math.log(2) for some in losses)  # the last half of four steps, in bits
        assert gap == pytest.approx(narrow - base, abs=1e-6)
    assert (found.name, found.seeds, found.is_done, found.diverged) == ("narrow", (0, 5), True, 0)
    assert found.gap == pytest.approx(np.mean(found.gaps))
    assert found.costs == costs_of(recipe_from_data(NARROW))


def test_scores_come_step_by_step(tmp_path):
    """Also where float32 is known already: then its steps take no time, and the bar goes on all the same."""
    for _ in range(2):
        found = list(capstone.score_steps(NARROW, (0, 5), TINY, tmp_path))
        one = TINY.before + 2 * TINY.steps + 1
        assert [len(each.gaps) for each in found] == [0] * one + [1] * one + [2]
        assert len(found) == scoring.steps_of((0, 5), TINY)
        assert math.isnan(found[0].gap) and not found[0].is_done


def test_float32_has_no_gap_and_known_losses_are_taken(folder):
    plain = {"name": "float32"}
    assert capstone.score(plain, (0,), TINY, folder).gaps == (0.0,)
    loss = scoring.float32_loss(0, TINY, folder)
    assert capstone.score(plain, (0,), TINY, folder, {0: loss - 0.5}).gaps == (0.5,)


def test_a_switch_is_at_a_share_of_the_branch(folder):
    """Of four steps the first three are float32: the branch with a switch at 3/4 is one of four steps less."""
    late = {"switch": {"at": 0.75, "to": NARROW}}
    gaps = [capstone.score(data, (0,), TINY, folder).gaps[0] for data in ({}, late, NARROW)]
    assert gaps[0] == 0 and abs(gaps[1]) < abs(gaps[2]) and gaps[1] != 0
    steps = [
        scoring._at_step(recipe_from_data({"switch": {"at": share, "to": NARROW}}), TINY).switch.at
        for share in (0.25, 0.5, 0.75)
    ]
    assert steps == [3 + 1, 3 + 2, 3 + 3]


def test_a_training_that_diverges_counts_as_guessing(monkeypatch, folder):
    """Of 75 characters; the diverged trainings are counted."""
    base = scoring.float32_loss(0, TINY, folder)

    class Diverging:
        def __init__(self, trainer):
            self.trainer = trainer

        def steps(self, count):
            yield from self.trainer.steps(count - 1)
            raise DivergedError(
                "the loss is not finite", Diagnosis(4, "", "", 0.0, 0.0, 0.0, "rounding shows no cause")
            )

    made = scoring.branch_trainer
    monkeypatch.setattr(scoring, "branch_trainer", lambda *some, **more: Diverging(made(*some, **more)))
    found = capstone.score(NARROW, (0,), TINY, folder, {0: base})
    assert found.gap == pytest.approx(math.log2(75) - base, abs=1e-6) and found.diverged == 1


@pytest.mark.parametrize("seeds", [(), (1, 1), (-1,), tuple(range(11)), (2**40,)])
def test_seeds_that_make_no_sense_are_refused(seeds, folder):
    with pytest.raises(ValueError, match="one to 10 different seeds from 0 up are needed"):
        capstone.score(NARROW, seeds, TINY, folder)


@pytest.mark.slow
def test_a_process_of_its_own_finds_the_same(folder):
    base = {0: scoring.float32_loss(0, TINY, folder)}
    assert score_process.score_apart(NARROW, base, TINY, folder) == capstone.score(NARROW, (0,), TINY, folder)


@pytest.mark.slow
def test_a_process_of_its_own_trains_float32(folder):
    assert score_process.baselines((0,), TINY, folder) == {0: scoring.float32_loss(0, TINY, folder)}


def test_a_process_that_takes_too_long_is_ended(folder):
    with pytest.raises(score_process.NotScoredError, match="took more than 0.01 s"):
        score_process.score_apart(NARROW, {0: 1.0}, TINY, folder, limit_seconds=0.01)


@pytest.mark.slow
def test_a_process_that_fails_says_why(folder):
    file = folder / "file"
    file.write_text("no folder")
    with pytest.raises(score_process.NotScoredError, match="its process failed: ValueError: cannot write"):
        score_process.score_apart(NARROW, {0: 1.0}, TINY, file / "below")


# ---- the field -------------------------------------------------------------------------------------------------------


def test_the_stored_field_has_the_costs_of_the_model_as_it_is():
    for seeds in (PRACTICE_SEEDS, HELD_BACK_SEEDS):
        for one in capstone.field(seeds):
            wanted = costs_of(RECIPES[one.name]())
            assert one.costs.bits == pytest.approx(wanted.bits, abs=1e-5), one.name
            assert one.costs.seconds == pytest.approx(wanted.seconds, abs=1e-8), one.name
            assert len(one.gaps) == len(seeds) and one.is_published


def test_the_field_says_where_it_is_from():
    stored = json.loads(stored_field.default_path().read_text("utf-8"))
    assert stored["session"]["command"] == "lplab capstone --measure-field"
    assert stored["session"]["points"] == len(RECIPES) * 6
    assert {"torch", "numpy", "lplab"} <= set(stored["session"]["versions"])
    assert BranchPlan(**stored["plan"]) == PLAN


def test_a_field_that_cannot_be_used_says_why(tmp_path):
    stored = json.loads(stored_field.default_path().read_text("utf-8"))
    path = tmp_path / "field.json"
    with pytest.raises(ValueError, match="field.json cannot be used"):
        stored_field.field(path=path)
    path.write_text(json.dumps({**stored, "plan": {"before": 1, "steps": 1}}))
    with pytest.raises(ValueError, match="holds another plan"):
        stored_field.field(path=path)
    path.write_text(json.dumps({**stored, "recipes": stored["recipes"][1:]}))
    with pytest.raises(ValueError, match="no seed or recipe"):
        stored_field.field(path=path)
    path.write_text("{")
    with pytest.raises(ValueError, match="cannot be used"):
        stored_field.field(path=path)
    with pytest.raises(ValueError, match="no seed or recipe '77'"):
        stored_field.field((77,))


@pytest.mark.slow
def test_the_stored_gaps_come_again():
    """One recipe on one seed, in full length; other machines round sums otherwise, so a tenth of the gap is allowed."""
    stored = next(one for one in capstone.field((0,)) if one.name == PLAIN)
    found = capstone.score(data_of(PLAIN), (0,))
    assert found.gap == pytest.approx(stored.gap, rel=0.1)


@pytest.mark.slow
def test_spending_bits_on_the_forward_pass_beats_the_published_recipes():
    """What the lab leads to, at full length: MXFP8 forward and NVFP4 backward keep the budget, and halve the gap."""
    recipe = recipes.get("nvfp4_2025", late=0.0, forward="mxfp8_e4m3")
    from lplab.training.recipe.recipe_data import data_from_recipe

    found = capstone.score(data_from_recipe(recipe))
    marking = marking_of(capstone.field())
    assert found.keeps_budget and found.gap < marking.best
    assert marking.points(found) > AT_BEST


def test_plain_mxfp4_is_the_published_recipe_without_its_helpers():
    bare = recipes.get("mxfp4_2025", rounding="nearest_even", hadamard=0, pre_scale=1, forward="mxfp4")
    plain = plain_mxfp4()
    assert plain.layers == bare.layers
    assert plain.exceptions["embedding"] == bare.exceptions["embedding"]


def test_a_recipe_of_the_field_is_known_by_what_it_does():
    renamed = data_of("NVFP4 (2025)") | {"name": "all my own"}
    renamed["weight"] = {**renamed["weight"], "format": {**renamed["weight"]["format"], "name": "tiles"}}
    assert is_published(recipe_from_data(renamed))
    assert not is_published(recipe_from_data({**renamed, "activation": "mxfp8_e4m3"}))
    with pytest.raises(ValueError, match="the field has no 'NVFP5'"):
        data_of("NVFP5")


def with_exceptions(name, **more):
    data = data_of(name)
    return {**data, "exceptions": {**data["exceptions"], **more}}


ORDINARY = {role: rule for role, rule in data_of(PLAIN).items() if role in OPERANDS}
KEPT = data_of(PLAIN)["exceptions"]
CHANGES_NOTHING = {
    "a name": {**data_of(PLAIN), "name": "mine"},
    "the default rounding": {**data_of(PLAIN), "weight": {"format": "mxfp4", "rounding": "nearest_even"}},
    "the first layer, which is none": with_exceptions(PLAIN, first="bf16"),
    "late layers like all others": with_exceptions(PLAIN, late=ORDINARY) | {"late_share": 0.3},
    "an activation of an embedding": with_exceptions(PLAIN, embedding={"weight": "bf16", "activation": "int8"}),
    "a weight of a product": with_exceptions(PLAIN, product={**dict.fromkeys(OPERANDS[:4], "bf16"), "weight": "int8"}),
    "backward operands as forward": with_exceptions(PLAIN, last=dict.fromkeys(OPERANDS, "bf16")),
    "a switch to the same": {**data_of(PLAIN), "switch": {"at": 0.5, "to": {}}},
    "a switch after the end": {**data_of(PLAIN), "switch": {"at": 0.9999, "to": {"weight": "bf16"}}},
    "parts that do not count": {**data_of(PLAIN), "exceptions": {**KEPT, "first": {}, "embedding": KEPT["embedding"]}},
}
CHANGES_SOMETHING = {
    "a rounding": {**data_of(PLAIN), "weight": {"format": "mxfp4", "rounding": "toward_zero"}},
    "the last layer": with_exceptions(PLAIN, last="mxfp4"),
    "late layers": with_exceptions(PLAIN, late="bf16") | {"late_share": 0.3},
    "the weight of an embedding": with_exceptions(PLAIN, embedding="mxfp4"),
    "an activation of a product": with_exceptions(PLAIN, product={}),
    "no own backward operand": {key: rule for key, rule in data_of(PLAIN).items() if key != "weight_dx"},
    "a switch in time": {**data_of(PLAIN), "switch": {"at": 0.5, "to": {"weight": "bf16"}}},
}


@pytest.mark.parametrize("what", CHANGES_NOTHING)
def test_a_key_that_changes_nothing_makes_no_recipe_of_ones_own(what, tmp_path):
    assert is_published(checked_recipe(CHANGES_NOTHING[what])), what


@pytest.mark.parametrize("what", CHANGES_SOMETHING)
def test_a_key_that_changes_something_does(what):
    assert not is_published(checked_recipe(CHANGES_SOMETHING[what])), what


def test_what_counts_as_nothing_leaves_every_gap_as_it_is(folder):
    wanted = score(data_of(PLAIN), [31], TINY, folder).gaps
    for what, data in CHANGES_NOTHING.items():
        found = score(data, [31], TINY, folder)
        assert found.gaps == wanted and found.is_published, what
    assert score(CHANGES_SOMETHING["a rounding"], [31], TINY, folder).gaps != wanted


def test_equal_gaps_on_every_seed_are_those_of_a_published_recipe():
    """Whatever makes no difference to a training, its gaps show it."""
    marking = marking_of(FIELD)
    assert marking.points(made(0.03)) == 0
    assert marking.reason(made(0.03)).startswith("It is a recipe of the field as it is.")
    assert marking.points(made(0.030001)) == 8.5


# ---- points ----------------------------------------------------------------------------------------------------------


def made(gap=0.02, bits=5.0, seconds=0.55, name="mine", **more):
    return Score(name, Costs(bits, seconds), (0, 1), (gap, gap), **more)


FIELD = (made(0.05, name=PLAIN), made(0.03, name="NVFP4"), made(0.001, bits=9.0, name="MXFP8"))


def test_points_follow_the_gap():
    marking = marking_of(FIELD)
    assert (marking.plain, marking.best, marking.best_name) == (0.05, 0.03, "NVFP4")  # MXFP8 does not keep the budget
    marking = dataclasses.replace(marking, gaps=())  # the line alone: gaps of the field earn nothing
    gaps = np.array([0.9, 0.05, 0.045, 0.04, 0.03, 0.0225, 0.015, 0.0, -0.01])
    wanted = [FOR_BUDGET, 3, 4.5, 6, AT_BEST, 10.5, MAX_POINTS, 12, 12]
    assert [marking.points(made(gap)) for gap in gaps] == wanted
    assert marking.points(made(0.0449)) == 4.5  # half points, rounded down


NO_POINTS = {
    "over the bits": (made(bits=BUDGET.bits + 0.01), "costs more than the budget"),
    "over the seconds": (made(seconds=BUDGET.seconds + 0.001), "costs more than the budget"),
    "diverged": (made(diverged=1), "diverged on 1 of 2 seeds"),
    "published": (made(is_published=True), "a recipe of the field as it is"),
    "not scored": (dataclasses.replace(made(), gaps=(0.01,)), "not scored"),
}


@pytest.mark.parametrize("name", NO_POINTS)
def test_no_points(name):
    score, words = NO_POINTS[name]
    marking = marking_of(FIELD)
    assert marking.points(score) == 0 and words in marking.reason(score)


def test_the_budget_may_be_used_up_to_its_end():
    exact = made(bits=BUDGET.bits, seconds=BUDGET.seconds)
    assert marking_of(FIELD).points(exact) > 0
    assert "12 at half of that" in marking_of(FIELD).reason(exact)


@pytest.mark.parametrize(
    "field",
    [
        FIELD[1:],  # no plain MXFP4
        (FIELD[0], FIELD[2]),  # nothing else keeps the budget
        (FIELD[0], made(0.06, name="worse")),
        (FIELD[0], made(-0.01, name="below float32")),
        (FIELD[0], made(0.03, name="diverged", diverged=1)),
    ],
)
def test_a_field_without_a_scale_is_refused(field):
    with pytest.raises(ValueError):
        marking_of(field)


def test_the_stored_field_gives_a_scale_on_both_kinds_of_seeds():
    for seeds in (PRACTICE_SEEDS, HELD_BACK_SEEDS):
        marking = marking_of(capstone.field(seeds))
        assert 0 < marking.best < marking.plain


def test_the_front_has_what_nothing_is_better_than():
    generator = np.random.default_rng(0)
    costs, gaps = generator.integers(0, 6, 40), generator.integers(0, 6, 40)
    front = pareto_front(costs, gaps)
    for place in range(40):
        beaten = any(
            (costs[other] <= costs[place] and gaps[other] < gaps[place])
            or (costs[other] < costs[place] and gaps[other] <= gaps[place])
            for other in range(40)
        )
        same = any(costs[place] == costs[at] and gaps[place] == gaps[at] for at in front)
        assert same == (not beaten)
    assert pareto_front([], []) == []
