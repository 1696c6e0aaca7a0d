"""The capstone of lab 16: what a recipe may say, its bytes and gap on a tiny plan, and that cheating does not pay."""

import dataclasses
import json
import math
import re

import pytest
import torch

from lplab import figures
from lplab.claims.framework import local_trainings
from lplab.claims.framework.branches import BranchPlan
from lplab.claims.framework.local_trainings import ARMS, BATCH, LEARNERS, STEPS, Arm, learners_of
from lplab.claims.framework.models import branch_transformer
from lplab.compression import Dense
from lplab.compression.compressor import AllReduce
from lplab.exercises.capstone import meeting_scoring, score_process, stored_field
from lplab.exercises.capstone.capstone_exercise import CapstoneJudge, score_in, verdict_of
from lplab.exercises.capstone.meeting_costs import BUDGET, MeetingTraffic
from lplab.exercises.capstone.meeting_recipe import (
    COMPRESSORS,
    SETTINGS,
    MeetingRecipe,
    data_from_recipe,
    recipe_from_data,
)
from lplab.exercises.capstone.meeting_scoring import gap_of, score_steps
from lplab.exercises.capstone.meetings import MEETINGS
from lplab.exercises.capstone.points import MAX_POINTS
from lplab.exercises.capstone.published_meetings import RECIPES, data_of, is_published
from lplab.exercises.capstone.scores import HELD_BACK_SEEDS, PRACTICE_SEEDS, Score
from lplab.labs import lab16
from tests.exercises.in_process import judge_here

TINY = BranchPlan(before=3, steps=12)
WIRE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
SPARSE = {"name": "mine", "every": 6, "compressor": {"name": "sparseloco", "k": 32}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints of the tests of this module."""
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(autouse=True, scope="module")
def short_test():
    """The loss is that of four sequences."""
    whole, patch = local_trainings.test_loss, pytest.MonkeyPatch()
    patch.setattr(
        local_trainings, "test_loss", lambda model, test: whole(model, lambda: tuple(part[:4] for part in test()))
    )
    yield
    patch.undo()


# ---- a recipe as data ------------------------------------------------------------------------------------------------

WRONG = {
    "no dictionary": ([], "the recipe: a dictionary is needed"),
    "an unknown key": ({"evry": 30}, "the recipe: unknown key 'evry'; closest: every"),
    "no divisor": ({"every": 7}, "every must divide the 240 steps"),
    "more than all steps": ({"every": 480}, "every must be an integer from 1 to 240"),
    "no whole number": ({"every": 12.0}, "every must be an integer"),
    "true": ({"every": True}, "every must be an integer"),
    "no step": ({"rate": 0}, "rate must be above 0 and at most 2, got 0"),
    "NaN": ({"rate": math.nan}, "rate must be above 0 and at most 2"),
    "a rate beyond all bounds": ({"rate": 1e300}, "rate must be above 0 and at most 2"),
    "momentum 1": ({"momentum": 1.0}, "momentum must be from 0 to 0.95"),
    "a word": ({"momentum": "much"}, "momentum must be a number"),
    "a number for true": ({"nesterov": 1}, "nesterov must be true or false"),
    "fragments that do not divide": (
        {"every": 30, "fragments": 4},
        "every must be a multiple of the number of fragments",
    ),
    "a late delay": ({"every": 30, "delay": 30}, "delay must be less than every / fragments"),
    "what no key changes": ({"learning_rate": 0.1}, "no key changes the learning rate of a learner's own steps"),
    "many fragments": ({"every": 12, "fragments": 9}, "fragments must be at most 6, the blocks of the model, got 9"),
    "more fragments than blocks": ({"every": 240, "fragments": 8}, "fragments must be at most 6"),
    "an unknown pattern": ({"pattern": "woven"}, "pattern must be strided or consecutive"),
    "an unknown compressor": (
        {"compressor": "sparsloco"},
        "compressor: unknown compressor 'sparsloco'; closest: sparse",
    ),
    "one that is not offered": ({"compressor": "lossless"}, "compressor: unknown compressor 'lossless'"),
    "no compressor": ({"compressor": 3}, "compressor: unknown compressor 3"),
    "an unknown setting": ({"compressor": {"name": "demo", "bits": 2}}, "compressor: unknown key 'bits'"),
    "a setting out of range": ({"compressor": {"name": "sparseloco", "k": 0}}, "compressor: k must be"),
    "a setting of another type": (
        {"compressor": {"name": "sparseloco", "bits": "2"}},
        "compressor: bits of SparseLoCo",
    ),
    "a long name": ({"name": "x" * 100}, "name must be a text of at most 60"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_one_line(what):
    data, words = WRONG[what]
    with pytest.raises(ValueError) as error:
        MEETINGS.checked(data)
    assert words in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 250


def test_the_table_of_keys_has_every_setting_with_its_default():
    (table,) = lab16.meeting_keys().parts
    rows = {(where, key): default for where, key, default, _ in zip(*table.columns.values(), strict=True)}
    for name, kind in COMPRESSORS.items():
        assert set(SETTINGS[name]) == {each.name for each in dataclasses.fields(kind)}
        own = {key: (value, getattr(kind(), key)) for (where, key), value in rows.items() if where == name}
        read = {key: text if isinstance(value, str) else json.loads(text) for key, (text, value) in own.items()}
        assert recipe_from_data({"compressor": {"name": name, **read}}).compressor == kind()
    assert (rows["recipe", "nesterov"], rows["scalecom", "chunk"]) == ("true", "null")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_of_the_field_is_the_same_through_json(name):
    assert recipe_from_data(json.loads(json.dumps(data_of(name)))) == dataclasses.replace(RECIPES[name], name=name)
    assert "every" in data_from_recipe(RECIPES[name])


def test_what_changes_nothing_makes_no_recipe_of_ones_own():
    start = data_of("SparseLoCo (2025)")
    for same in ({"name": "mine"}, {"nesterov": False}, {"pattern": "consecutive"}, {"compressor": "sparseloco"}):
        assert is_published(recipe_from_data(start | same)), same
    for other in ({"every": 16}, {"rate": 0.9}, {"alpha": 0.1}, {"delay": 1}):
        assert not is_published(recipe_from_data(start | other)), other


# ---- bytes and gaps --------------------------------------------------------------------------------------------------


def test_the_gap_is_the_share_of_the_way_and_the_loss_that_of_the_shared_weights(folder):
    found = MEETINGS.score(SPARSE, (0,), TINY, folder)
    losses = {}
    mine = Arm(every=6, outer="mean", compressor="sparseloco:k=32")
    for name, arm in {"alone": ARMS["alone"], "together": ARMS["synchronous"], "mine": mine}.items():
        run = learners_of(arm, 0, TINY.before, TINY.steps, folder)
        made = list(run.rounds(TINY.steps // arm.every))
        losses[name] = local_trainings.test_loss(run.model, branch_transformer().test)
    assert found.losses == (losses["mine"],)
    wanted = (losses["mine"] - losses["together"]) / (losses["alone"] - losses["together"])
    assert found.gap == pytest.approx(wanted, abs=1e-6) and gap_of(losses["alone"], (losses["alone"], 1.0)) == 1
    assert found.costs.sent == sum(each.payload_bytes for each in made) / LEARNERS and found.costs.meetings == 2
    assert (found.name, found.is_done, found.diverged, found.is_published) == ("mine", True, 0, False)


def test_scores_come_step_by_step_and_costs_with_the_first_meeting(folder):
    found = list(score_steps(SPARSE, (0,), TINY, folder))
    assert len(found) == meeting_scoring.steps_of((0,), TINY)
    first = next(place for place, each in enumerate(found) if each.costs.sent)
    assert first == len(found) - 1 - TINY.steps and found[first].costs == found[-1].costs
    known = {0: [found[-1].losses[0] + 1, found[-1].losses[0] - 1]}
    assert MEETINGS.score(SPARSE, (0,), TINY, folder, known).gaps == (0.5,)


def sent_by(recipe, folder, plan, seed=0):
    """What the score counts, and what the compressors' generators hand out themselves: bytes a learner."""
    handed = []

    def watched(kind):
        steps = kind.steps

        def run(self, gradient, state, context):
            made, answer = steps(self, gradient, state, context), None
            while True:
                try:
                    request = made.send(answer)
                except StopIteration as end:
                    return end.value
                if isinstance(request, AllReduce):
                    handed.append(request.values.size * WIRE_BYTES[request.wire])
                elif request.payload is not None:  # of a broadcast, the leader's alone is sent
                    handed.append(request.payload.nbytes)
                answer = yield request

        return run

    with pytest.MonkeyPatch.context() as patch:
        for kind in {type(recipe.compressor), Dense}:  # small layers of some compressors are sent dense
            patch.setattr(kind, "steps", watched(kind))
        followed = meeting_scoring._training_steps(recipe.arm(), seed, plan, folder)
        while True:
            try:
                next(followed)
            except StopIteration as end:
                return end.value[0], sum(handed) / LEARNERS


@pytest.mark.parametrize("name", COMPRESSORS)
def test_every_byte_that_is_sent_is_counted(name, folder):
    """The first cheat: bytes that nobody counts, be it of small layers, tables, indices or a leader's choice."""
    traffic, handed = sent_by(recipe_from_data({"every": 1, "compressor": name}), folder, BranchPlan(3, 2))
    assert traffic.sent == handed > 0 and traffic.meetings == 2 and 0 <= traffic.positions < traffic.sent


def test_fragments_in_turn_and_a_delay_send_all_their_bytes(folder):
    for more in ({}, {"delay": 1}, {"delay": 1, "alpha": 0.5}):
        recipe = recipe_from_data({"every": 6, "fragments": 3, "compressor": "lowbit", **more})
        traffic, handed = sent_by(recipe, folder, TINY)
        whole, _ = sent_by(recipe_from_data({"every": 6, "compressor": "lowbit"}), folder, TINY)
        assert traffic.sent == handed == whole.sent and traffic.meetings == 3 * whole.meetings


def test_the_budget_is_a_thousandth_of_data_parallelism():
    shapes = [parameter.shape for parameter in branch_transformer().model(0).parameters()]
    each_step = sum(transfer.payload_bytes for shape in shapes for transfer in Dense().plan(shape))
    assert int(each_step * STEPS / 1000) == BUDGET


OVER = {
    "places and values": (
        MeetingTraffic(200_000.0, 120_000.0, 20),
        ("by 83 %", "6,000 for places and 4,000 for values."),
    ),
    "values alone": (
        MeetingTraffic(4 * BUDGET, 0.0, 4),
        ("by 300 %", "4 meetings of 109,312 bytes."),
    ),
    "one message": (MeetingTraffic(455_468.0, 0.0, 1), ("1 meeting of 455,468 bytes.",)),
}


@pytest.mark.parametrize("what", OVER)
def test_a_recipe_over_the_budget_is_told_by_how_much_and_of_what(what):
    traffic, words = OVER[what]
    assert not traffic.keeps_budget and all(each in traffic.over for each in words)
    assert MeetingTraffic(BUDGET).over == "" and MeetingTraffic.read("much") is None


ADVICE = {
    "the next divisor": (
        {"every": 12},
        5_762,
        ("most 5,465 bytes", "is 15, which makes 16", "But that is Sparse"),
    ),
    "of two fragments": ({"every": 8, "fragments": 2}, 2_800, ("next every that is allowed is 16, which makes 30",)),
    "of five fragments": ({"every": 5, "fragments": 5}, 1_000, ("next every that is allowed is 15, which makes 80",)),
    "none": ({"every": 240}, 455_468, ("most 109,312 bytes", "no number of meetings keeps it")),
}


@pytest.mark.parametrize("what", ADVICE)
def test_the_advice_over_the_budget_can_be_followed(what):
    """The next `every` that it names is one that a recipe may have, and with the same messages it keeps the budget."""
    data, each, words = ADVICE[what]
    data = {"compressor": "sparseloco"} | data
    meetings = STEPS // data["every"] * data.get("fragments", 1)
    told = MEETINGS.over(data, MeetingTraffic(each * meetings, 0.0, meetings))
    assert all(word in told for word in words), told
    if named := re.search(r"allowed is (\d+)", told):
        recipe = MEETINGS.checked(data | {"every": int(named[1])})
        assert STEPS // recipe.every * recipe.fragments * each <= BUDGET
    assert MEETINGS.over(data, MeetingTraffic(BUDGET, 0.0, meetings)) == ""


def test_a_recipe_over_the_budget_is_trained_on_one_seed_and_its_gap_is_told(folder, monkeypatch):
    monkeypatch.setattr("lplab.exercises.capstone.meeting_costs.BUDGET", 10)
    known = {seed: [4.0, 3.0] for seed in (0, 1)}
    found = MEETINGS.score(SPARSE, (0, 1), TINY, folder, known)
    assert len(found.gaps) == 1 and not found.is_done and not found.keeps_budget
    marking = MEETINGS.marking(dataclasses.replace(one, costs=MeetingTraffic(1.0)) for one in FIELD)
    assert marking.points(found) == 0 and f"gap is {found.gap:+.4f} of the gain, on seed 0 alone" in marking.reason(
        found
    )


# ---- what does not pay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["learners", "steps", "batch", "lr", "inner", "clip", "schedule", "seed", "seeds", "together"]
)
def test_no_key_changes_tokens_inner_optimizer_or_seed(key):
    with pytest.raises(ValueError, match=f"unknown key '{key}'"):
        MEETINGS.checked(SPARSE | {key: 1})
    for name in COMPRESSORS:
        with pytest.raises(ValueError, match=f"compressor: unknown key '{key}'"):
            MEETINGS.checked({"compressor": {"name": name, key: 1}})


EXTREMES = (
    {"every": 1},
    {"every": 12, "fragments": 6, "delay": 1, "alpha": 0.9},
    {"every": 12, "rate": 2, "momentum": 0.95},
)


@pytest.mark.parametrize("data", EXTREMES)
def test_each_learner_takes_the_same_steps_with_as_many_tokens_at_the_same_rates(data, folder, monkeypatch):
    """The second cheat: more tokens than others. The third: an outer step that changes the inner learning rate."""
    runs, seen = [], []

    def watched(*some):
        run = learners_of(*some)
        batches, runs[:] = run.batches, [run]

        def counted(step, learner):
            found = batches(step, learner)
            rates = [group["lr"] for group in run.inner[learner].param_groups]
            seen.append((step, learner, found[0].shape, *rates))
            return found

        run.batches = counted
        return run

    monkeypatch.setattr(meeting_scoring, "learners_of", watched)
    arm = recipe_from_data(data).arm()
    list(meeting_scoring._training_steps(arm, 0, TINY, folder))
    rates = [2e-3 * (0.55 + 0.45 * math.cos(math.pi * step / TINY.steps)) for step in range(TINY.steps)]
    wanted = [(step, n, (BATCH, 64), pytest.approx(rates[step])) for n in range(LEARNERS) for step in range(TINY.steps)]
    assert sorted(seen, key=lambda each: (each[1], each[0])) == wanted
    tested = {name: value.clone() for name, value in runs[0].model.named_parameters()}
    assert all(torch.equal(tested[name], shared) for name, shared in runs[0].shared.weights.items())


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "momentum"), [(0.7, 0.9), (1.5, 0.0)])
def test_an_outer_step_without_the_others_gains_nothing(rate, momentum):
    """At full length: the outer rate is no learning rate in disguise, as one learner alone ends no better with it."""
    plain, mine = (
        ARMS["alone"],
        dataclasses.replace(MeetingRecipe(every=12, rate=rate, momentum=momentum).arm(), learners=1),
    )
    alone, own = (meeting_scoring._ending(arm, 0, MEETINGS.plan, None).loss for arm in (plain, mine))
    assert own > alone - 0.005


def test_a_learner_that_is_left_out_is_no_saving(folder, monkeypatch):
    """A weight that is not finite makes its learner send nothing in that round: such a training has diverged."""

    def broken(*some):
        run = learners_of(*some)
        met = run._meet
        run._meet = lambda deltas: met({learner: delta for learner, delta in deltas.items() if learner})
        one_round = run.one_round
        run.one_round = lambda: dataclasses.replace(one_round(), took_part=(1, 2, 3))
        return run

    monkeypatch.setattr(meeting_scoring, "learners_of", broken)
    found = MEETINGS.score(SPARSE, (0,), TINY, folder, {0: [4.0, 3.0]})
    assert found.diverged == 1 and MEETINGS.marking(FIELD).points(found) == 0


def test_held_back_seeds_are_the_graders_whatever_the_practice(folder):
    """The fourth: gaps of one's own report. The judge trains again, on its seeds, and other seeds give other gaps."""
    scores = {seed: MEETINGS.score(SPARSE, (seed,), TINY, folder) for seed in (0, 7)}
    assert scores[0].losses != scores[7].losses
    judge = CapstoneJudge(judge_here, {7: [4.0, 3.0]}, FIELD, TINY, str(folder), capstone=MEETINGS)

    def apart(data, known, plan, folder, capstone):
        return capstone.score(data, tuple(known), plan, folder, known)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lplab.exercises.capstone.capstone_exercise.score_apart", apart)
        verdict = judge(MEETINGS.exercise, MEETINGS.as_answer(SPARSE))
    costs, gaps = score_in(verdict.lines, MEETINGS)
    assert costs == scores[7].costs and gaps == (pytest.approx(scores[7].losses[0] - 3.0, abs=1e-6),)
    wrong = judge(MEETINGS.exercise, MEETINGS.as_answer({**SPARSE, "seed": 0}))
    assert wrong.ring == "form" and "unknown key 'seed'" in wrong.text


def test_a_score_does_not_depend_on_the_threads(folder):
    before, known = torch.get_num_threads(), {0: [4.0, 3.0]}
    found = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(MEETINGS.score(SPARSE, (0,), TINY, folder, known))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_process_of_its_own_finds_the_same(folder):
    known = {0: [4.0, 3.0]}
    data = {"every": 6, "compressor": "lowbit"}
    apart = score_process.score_apart(data, known, TINY, folder, capstone=MEETINGS)
    here = MEETINGS.score(data, (0,), TINY, folder, known)
    assert apart.costs == here.costs and apart.seeds == here.seeds and apart.gaps != ()


# ---- the field and the points ----------------------------------------------------------------------------------------


def made(gap, sent=90_000.0, name="mine", **more):
    return Score(name, MeetingTraffic(sent, 0.0, 16.0), (0, 1), (gap, gap), losses=(2.3 + gap / 10,) * 2, **more)


FIELD = (
    made(0.65, 2e6, "FedAvg"),
    made(0.7, name="SparseLoCo (2025)", is_published=True),
    made(0.4, 2e6, "DeMo (2024)"),
)


def test_points_follow_the_gap_and_the_budget():
    marking = MEETINGS.marking(FIELD)
    gaps = (1.2, 1.0, 0.85, 0.699999, 0.525, 0.35, -0.1)
    assert [marking.points(made(gap)) for gap in gaps] == [3, 3, 6, 9, 10.5, MAX_POINTS, 12]
    assert marking.points(made(0.2, sent=BUDGET + 1)) == 0 and "costs more than the budget" in marking.reason(
        made(0.2, 1e6)
    )
    assert "+0.5250 of the gain" in marking.reason(
        made(0.525)
    ) and "+1.0000 of the gain (one learner alone)" in marking.reason(made(0.525))
    verdict = verdict_of(made(0.35), marking, MEETINGS)
    assert verdict.passed and verdict.exercise == "16.5" and score_in(verdict.lines, MEETINGS)[1] == (0.35, 0.35)


def stored_seeds():
    """Those of practice always; those held back where they are measured."""
    assert stored_field.has(PRACTICE_SEEDS, MEETINGS)
    return [PRACTICE_SEEDS, *([HELD_BACK_SEEDS] if stored_field.has(HELD_BACK_SEEDS, MEETINGS) else [])]


def test_the_stored_field_has_the_bytes_of_its_messages():
    shapes = [parameter.shape for parameter in branch_transformer().model(0).parameters()]
    for seeds in stored_seeds():
        for one in stored_field.field(seeds, capstone=MEETINGS):
            recipe = RECIPES[one.name]
            rounds = STEPS // recipe.every
            assert one.costs.meetings == rounds * recipe.fragments and len(one.gaps) == len(one.losses) == len(seeds)
            if one.name.startswith(("AdaComp", "ScaleCom")):  # they depend on the numbers, and on how a layer is used
                continue
            each = sum(t.payload_bytes for shape in shapes for t in recipe.compressor.plan(shape))
            assert one.costs.sent == pytest.approx(rounds * each, rel=1e-9), one.name


def test_the_stored_field_gives_a_scale():
    for seeds in stored_seeds():
        marking = MEETINGS.marking(stored_field.field(seeds, capstone=MEETINGS))
        assert 0 < marking.best < marking.plain == 1 and marking.best_name == "SparseLoCo (2025)"


@pytest.mark.slow
def test_cheaper_places_and_a_longer_step_beat_the_published_recipes():
    """What the lab leads to, on one seed at full length: positions of 8 bits instead of 12 leave room for values."""
    recipe = {"every": 24, "compressor": {"name": "sparseloco", "chunk": 256, "k": 16}}
    found, marking = MEETINGS.score(recipe, (0,)), MEETINGS.marking(stored_field.field((0,), capstone=MEETINGS))
    assert found.keeps_budget and found.gap < 0.8 * marking.best and marking.points(found) > 9


def test_the_plane_shows_the_budget_the_field_and_ones_own_as_soon_as_it_is_known():
    field = FIELD
    unknown, sent = made(0.5), dataclasses.replace(made(0.5), gaps=(), losses=())
    for found in ([], [dataclasses.replace(sent, costs=MeetingTraffic())], [sent], [unknown]):
        fig = MEETINGS.figure(field, found)
        names = [trace.name for trace in fig.data]
        assert names == [trace.name for trace in figures_of_nothing(field).data], "a live figure keeps its traces"
        mine = next(trace for trace in fig.data if trace.name == "yours")
        assert len(mine.x) == (found == [unknown])
    assert fig.layout.meta["title"] == "Yours: 90 kB, 2.350 bits a character, gap 0.50"
    kept = MEETINGS.figure(field, [dataclasses.replace(unknown, losses=())])
    assert kept.layout.meta == fig.layout.meta, "a score that was kept has gaps alone"
    assert "budget, 109 kB" in fig.layout.meta["subtitle"]
    assert "one learner alone 2.400, a gradient in each step 2.300" in fig.layout.meta["alt"]
    waiting = MEETINGS.figure(field, [sent]).layout
    assert len(waiting.shapes) == 2, "the budget, and the bytes of one's own"
    assert "bytes of yours" in waiting.meta["subtitle"] and "bytes of yours" not in fig.layout.meta["subtitle"]


def figures_of_nothing(field):
    points = {one.name: (one.costs.sent, one.losses[0]) for one in field}
    return figures.byte_loss_plane(points, None, {"alone": 2.4, "each": 2.3}, name="yours")
