"""Lab 10, ScaleCom: its tables, its guided questions, and its live runs of many learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lplab import figures, widgets
from lplab.compression.ratios import build_up
from lplab.exercises.lab10.next_memory import next_memory
from lplab.figures.many_learners import bytes_word
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedQuestion
from lplab.labs.needing import needing
from lplab.number_text import percent
from lplab.recordings import LearnerRun, LearnerSetting, many_learners
from lplab.widgets.explorers.learners_explorer import LearnersState

if TYPE_CHECKING:
    from lplab.parallel.launch import DistributedRun
    from lplab.parallel.simulated import SimulatedRun
    from lplab.widgets.live.live_learners import LiveLearners

CHUNK = 112  # one of so many elements is sent
RATE, SMALL_RATE = 1.0, 0.1  # with the first one the network of the recordings is well trained after 120 steps
STEPS = 120  # of the live run: after 60, the compressed trainings have not caught up yet


def recorded_run(
    compressor: str, learners: int = 64, chunk: int = CHUNK, beta: float = 1.0, learning_rate: float = RATE
) -> LearnerRun:
    """A recorded training; without compression ("dense") there is no chunk.

    >>> round(recorded_run("dense").test_error, 3)
    0.035
    """
    return many_learners(
        LearnerSetting(compressor, learners, 1 if compressor == "dense" else chunk, beta, learning_rate)
    )


# -- tables ------------------------------------------------------------------------------------------------------------


def sums_and_bytes() -> figures.DataTable:
    """What the sum of all messages holds, and what a learner sends, for 1 to 64 learners.

    >>> [round(share, 3) for share in sums_and_bytes().columns["own choices"]]
    [0.009, 0.032, 0.1, 0.221]
    """
    counts = (1, 4, 16, 64)
    own, one = ([recorded_run(kind, n) for n in counts] for kind in ("topk", "scalecom"))
    shares: dict[str, list[float]] = {
        "own choices": [float(run.union.mean()) for run in own],
        "if independent": [build_up(float(run.density.mean()), n) for run, n in zip(own, counts, strict=True)],
        "ScaleCom": [float(run.union.mean()) for run in one],
    }
    dense = [recorded_run("dense", n).sent_bytes for n in counts]
    sent = {
        "own sends": [run.sent_bytes for run in own],
        "ScaleCom sends": [run.sent_bytes for run in one],
        "no compression": dense,
    }
    return figures.DataTable(
        {"learners": list(counts), **shares, **sent},
        caption="The share of the weights that the sum of all messages holds, and what a learner sends in a step "
        "(mean of the recorded steps, one element of 112 sent)",
        formats=dict.fromkeys(shares, ".1%") | dict.fromkeys(sent, bytes_word),
    )


def choices() -> figures.DataTable:
    """How good own choices and the leader's choice are, with 64 learners.

    >>> [round(error, 3) for error in choices().columns["test error"]]
    [0.023, 0.02, 0.035]
    """
    own, one, dense = (recorded_run(kind) for kind in ("topk", "scalecom", "dense"))
    return figures.DataTable(
        {
            "64 learners": ["own choices", "the leader's choice", "no compression"],
            "missed": [percent(float(run.missed.mean())) for run in (own, one)] + [""],
            "a learner sends": [run.sent_bytes for run in (own, one, dense)],
            "test error": [run.test_error for run in (own, one, dense)],
        },
        caption="Missed is the share of one learner's choice that is not among the largest elements of the sum",
        formats={"a learner sends": bytes_word, "test error": ".1%"},
    )


def filters() -> figures.DataTable:
    """What the filter does to the residuals of 64 learners, and to the test error, at both learning rates.

    >>> [round(error, 3) for error in filters().columns["test error"]]
    [0.02, 0.033, 0.071, 0.209, 0.338, 0.557]
    """
    rows = [(rate, beta) for rate in (RATE, SMALL_RATE) for beta in (1.0, 0.3, 0.1)]
    runs = [recorded_run("scalecom", beta=beta, learning_rate=rate) for rate, beta in rows]
    distances = {
        f"distance at step {step}": [float(run.cosine[list(run.steps).index(step)]) for run in runs]
        for step in (60, 120)
    }
    return figures.DataTable(
        {
            "learning rate": [f"{rate:g}" for rate, _ in rows],
            "beta": [beta for _, beta in rows],
            "test error": [run.test_error for run in runs],  # before the distances, so that a phone shows it
        }
        | distances,
        caption="ScaleCom with 64 learners: test error after 120 steps, and cosine distance of the residuals",
        formats=dict.fromkeys(distances, ".2f") | {"test error": ".1%"},
    )


def momentum_placement() -> widgets.LiveFigure:
    """The figure of a single learner with momentum behind the average, or before what is sent; stored test losses.

    >>> momentum_placement().layout.meta["alt"].partition(",")[0]
    'Test loss in bits with momentum 0.9'
    """
    from lplab.claims.papers.scalecom_2020 import MOMENTUM, place_losses

    losses = place_losses()
    dense = losses.pop("dense")
    title = "Momentum overshoots with what has waited; at a lower rate it does not"
    return widgets.LiveFigure(figures.momentum_placement(losses, dense, momentum=MOMENTUM, title=title))


# -- live --------------------------------------------------------------------------------------------------------------


@needing("torch")
def three_ways(learning_rate: float = 0.5, momentum: float = 0.0) -> LiveLearners:
    """A button that trains 32 learners in this process: without compression, with own choices, with ScaleCom."""
    from lplab.parallel import RunSettings, SimulatedRun

    ways = {"dense": "dense", "own top-k": f"topk:density={1 / CHUNK}", "ScaleCom": f"scalecom:chunk={CHUNK}"}
    runs = {
        name: SimulatedRun(
            RunSettings("mlp", text, learners=32, steps=STEPS, batch=8, lr=learning_rate, momentum=momentum),
            engine="stacked",
        )
        for name, text in ways.items()
    }
    return widgets.live_learners(runs, name="Train 32 learners three ways", loss_range=(0, 3))


@needing("torch")
def processes_and_simulator(processes: int = 4) -> LiveLearners:
    """A button that trains with real processes, and with the simulator beside them."""
    from lplab.parallel import RunSettings, SimulatedRun
    from lplab.parallel.launch import DistributedRun

    settings = RunSettings("mlp", f"scalecom:chunk={CHUNK}", learners=processes, steps=60, lr=0.5, momentum=0)
    runs: dict[str, DistributedRun | SimulatedRun] = {
        f"{processes} processes": DistributedRun(settings),
        "simulator": SimulatedRun(settings),
    }
    return widgets.live_learners(runs, name=f"Train with {processes} processes", loss_range=(0, 3))


# -- guided questions --------------------------------------------------------------------------------------------------


def explorer() -> widgets.LearnersExplorer:
    """The explorer where the prediction asks: 64 learners, at the learning rate that trains the network well."""
    return widgets.LearnersExplorer(learners=64, learning_rate="ten times")


def _share(run: LearnerRun) -> float:
    return float(run.union.mean())


def _independent(state: LearnersState) -> float:
    return build_up(float(state.run("topk").density.mean()), state.learners)


def _grown(state: LearnersState) -> float:
    """How many times as much as one learner sends the sum of own choices holds."""
    run = state.run("topk")
    return _share(run) / float(run.density.mean())


def _errors(state: LearnersState) -> dict[str, float]:
    return {name: state.run(kind).test_error for name, kind in WAYS.items()}


def _distance(state: LearnersState, **changes: Any) -> float:
    """The cosine distance of the residuals at the last recorded step of ScaleCom."""
    return float(state.changed(**changes).run("scalecom").cosine[-1])


WAYS = {"ScaleCom": "scalecom", "own choices": "topk", "no compression": "dense"}
QUESTIONS = (
    GuidedQuestion(
        "These are the 64 learners of your guess, and the dashed curve shows independent choices, as if each learner "
        "chose by chance. Move *learners* down to 8. How many times as much as one learner sends does the sum of own "
        "choices hold?",
        {"learners": 8},
        lambda state: (
            f"{_grown(state):.1f} times, {percent(_share(state.run('topk')))} of the weights, so nearly every learner adds "
            f"elements of its own. Independent choices would fill {percent(_independent(state))}. With 64 learners own "
            f"choices are farther below that curve, at {_grown(state.changed(learners=64)):.0f} times: the more learners, the "
            "more of what one chooses is there already. With a leader the sum always holds what one learner sends, "
            f"{percent(_share(state.run('scalecom')))}."
        ),
        lambda state: (
            6 < _grown(state) < 8
            and _grown(state.changed(learners=64)) < 0.5 * 64
            and np.allclose(state.run("scalecom").union, state.run("scalecom").density)
        ),
        controls=("learners",),
        figure="shares",
        guess="times as much",
    ),
    GuidedQuestion(
        "Move *one sent of* to 25. A learner now sends one element of 25, and the green line is no "
        "compression. How many times as much as that does it send with own choices?",
        {"learners": 64, "chunk": 25},
        lambda state: (
            f"{bytes_word(state.run('topk').sent_bytes)} with own choices, and "
            f"{bytes_word(state.run('dense').sent_bytes)} without compression. The compressor sends "
            f"{state.run('topk').sent_bytes / state.run('dense').sent_bytes:.1f} times as much as no compressor at all. "
            f"(The curve of own choices bends down at 64 learners. There the sum swings from step to step, between "
            f"{percent(float(state.run('topk').union.min()))} and {percent(float(state.run('topk').union.max()))}.)"
        ),
        lambda state: state.run("topk").sent_bytes > 2 * state.run("dense").sent_bytes,
        controls=("learners", "chunk"),
        figure="bytes",
        guess="times as much",
    ),
    GuidedQuestion(
        "Back at one of 112: this figure shows how far apart the residuals of the learners are. So far the "
        "*learning rate* was *ten times* 0.1. Choose *standard*, which is 0.1. Are the residuals more alike "
        "at the end?",
        {"learners": 64, "learning_rate": "standard"},
        lambda state: (
            f"More alike: at the small rate the distance falls to {_distance(state):.2f}, and it is "
            f"{_distance(state, learning_rate='ten times'):.2f} at the larger one. There the weights move far between "
            "two steps, but training is also further on, so this figure cannot tell why."
        ),
        lambda state: _distance(state) < 0.5 * _distance(state, learning_rate="ten times"),
        controls=("chunk", "learning_rate"),
        figure="distance",
        guess=("more alike", "less alike"),
    ),
    GuidedQuestion(
        "Choose *ten times* again, and move *beta* down to 0.1. This is the filter of ScaleCom; own choices "
        "have none. What does it do to the residuals?",
        {"learners": 64, "beta": 0.1},
        lambda state: (
            f"The residuals are more alike, at a distance of {_distance(state):.2f} instead of "
            f"{_distance(state, beta=1.0):.2f}. But the test error of ScaleCom rises from "
            f"{percent(_errors(state.changed(beta=1.0))['ScaleCom'])} to {percent(_errors(state)['ScaleCom'])}."
        ),
        lambda state: (
            _distance(state) < _distance(state, beta=1.0)
            and _errors(state)["ScaleCom"] > 2 * _errors(state.changed(beta=1.0))["ScaleCom"]
        ),
        controls=("learning_rate", "beta"),
        figure="distance",
        guess=("more alike", "less alike"),
    ),
)
GUIDED = ((explorer, QUESTIONS),)


# -- checked -----------------------------------------------------------------------------------------------------------


def numbers_of_the_text() -> list[str]:
    """What the text says and no visible table has: one line for each fact."""
    own, one = (recorded_run(kind) for kind in ("topk", "scalecom"))
    counts = (1, 2, 4, 8, 16, 32, 64)
    failed, own_failed = ([n for n in counts if recorded_run(kind, n).test_error > 0.5] for kind in ("dense", "topk"))
    small = recorded_run("scalecom", learning_rate=SMALL_RATE)
    waits, sent = (next_memory(np.array([2.0]), np.array([4.0]), np.array(at, int), 0.5)[0] for at in ([], [0]))
    return [
        f"own choices send {own.sent_bytes / one.sent_bytes:.0f} times as many bytes as ScaleCom",
        f"an element is sent {STEPS * one.density.mean():.1f} times in {STEPS} steps",
        f"residual 2, gradient 4, beta 0.5: {waits:g} if it waits, {sent:g} if it is sent",
        f"beta 0.1: of a gradient that waited arrive {percent(_arriving(0.1, 1))} with the element's next sending, "
        f"{percent(_arriving(0.1, 2))} with two, {percent(_arriving(0.1, 100))} with a hundred",
        f"learning rate {SMALL_RATE:g}: the distance of the residuals falls from {small.cosine[0]:.2f} to "
        f"{small.cosine[-1]:.2f}",
        f"without compression, trainings fail with {failed} learners, with own choices with {own_failed}",
    ]


def _arriving(beta: float, sendings: int) -> float:
    """The share of a gradient of 1, not sent at first, that has arrived after so many sendings of its element.

    >>> _arriving(0.5, 1), _arriving(0.5, 2)
    (0.5, 0.75)
    """
    nothing, here = np.zeros(1), np.array([0])
    residual, arrived = next_memory(nothing, np.ones(1), here[:0], beta), 0.0
    for _ in range(sendings):
        arrived += float(residual[0])
        residual = next_memory(residual, nothing, here, beta)
    return arrived


@needing("torch")
def two_real_processes() -> str:
    """ScaleCom in two processes and in the simulator: bytes of a step, and how many weights differ."""
    from lplab.parallel import RunSettings, SimulatedRun, count_differences
    from lplab.parallel.launch import DistributedRun

    settings = RunSettings("mlp", f"scalecom:chunk={CHUNK},beta=0.3", learners=2, steps=5)
    real, simulated = DistributedRun(settings), SimulatedRun(settings)
    sent = [[report["payload_bytes"] for report in run if "step" in report] for run in (real, simulated)]
    differ, total = count_differences(real.weights, simulated.weights)
    return (
        f"two processes: {sent[0][0]:,} bytes a step, as simulated: {sent[0] == sent[1]}; "
        f"{differ} of {total:,} weights differ"
    )


def checked_numbers() -> Folded:
    """The numbers that answer the prediction or stand in the text, for the tests; runs two real processes."""
    return Folded(sums_and_bytes(), choices(), "\n".join([*numbers_of_the_text(), str(two_real_processes())]))
