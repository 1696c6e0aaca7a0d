"""Lab 16, training across slow links: its tables, the explorer with its questions, and four learners that train live."""

from __future__ import annotations

import json
from dataclasses import fields
from math import comb, log2
from typing import TYPE_CHECKING

from lplab import figures, widgets
from lplab.compression import SparseLoCo
from lplab.exercises.capstone.meeting_recipe import COMPRESSORS, MEETING_KEYS, SETTINGS, MeetingRecipe
from lplab.figures.many_learners import bytes_word
from lplab.hardware import Cluster, compare_methods
from lplab.hardware.units import duration
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.labs.needing import needing
from lplab.number_text import percent
from lplab.recordings.recorded_meetings import (
    ALONE,
    DENSE,
    FEW,
    NESTEROV,
    SMALL,
    SYNCHRONOUS,
    MeetingSetting,
    meeting_runs,
)
from lplab.widgets.explorers import meeting_explorer as meet
from lplab.widgets.explorers.meeting_explorer import BATCH, CHIP, LINKS, MODEL, MeetingState

if TYPE_CHECKING:
    from lplab.widgets import LiveMeetings

LEARNERS = 4
SIDE = 4096  # of a square matrix whose message is counted


# ---- tables ----------------------------------------------------------------------------------------------------------


def links_table() -> figures.DataTable:
    """A step of data parallelism over each link: how long it takes, and the share of it that is computing."""
    rows = {}
    for label, link in reversed(LINKS.items()):
        (row,) = compare_methods(MODEL, Cluster(CHIP, LEARNERS, link), batch=BATCH, methods=("ddp",))
        rows[label] = row
    return figures.DataTable(
        {
            "link": list(rows),
            "a step": [row["step_seconds"] for row in rows.values()],
            "waiting": [row["exposed_seconds"] for row in rows.values()],
            "computing": [row["efficiency"] for row in rows.values()],
        },
        caption=f"Four H100 train a model of 124 million weights and add their gradients in each step, {BATCH} texts each, modelled",
        formats={"a step": _seconds, "waiting": _seconds, "computing": ".1%"},
    )


def _seconds(seconds: float) -> str:
    return duration(seconds, 3)


def what_you_saw() -> figures.DataTable:
    """Ways to train with four learners: the loss, the share of the way from alone to each step, and bytes."""
    runs = meeting_runs()
    named = {
        "one learner alone": ALONE,
        "plain mean, every 12 steps": MeetingSetting().name,
        "DiLoCo, every 12 steps": MeetingSetting(4, 12, *NESTEROV).name,
        "DiLoCo, every 60 steps": MeetingSetting(4, 60, *NESTEROV).name,
        "DiLoCo in 4 bits": MeetingSetting(4, 12, *NESTEROV, sends=SMALL).name,
        "SparseLoCo, one of 64": MeetingSetting(sends=FEW).name,
        "SparseLoCo, one of 16": MeetingSetting(sends=FEW, share=16).name,
        "a gradient in each step": SYNCHRONOUS,
    }
    rows = {label: runs[name] for label, name in named.items() if name in runs}
    return figures.DataTable(
        {
            "way": list(rows),
            "loss (bits a character)": [run.loss for run in rows.values()],
            "share of the gain": [gained(run.loss) for run in rows.values()],
            "a learner sends in a step": [run.bytes_a_step for run in rows.values()],
        },
        caption="240 steps from one checkpoint, four learners but for the first row, one seed. One learner alone has 0 % of the gain, and a gradient in each step 100 %.",
        formats={
            "loss (bits a character)": ".3f",
            "share of the gain": ".0%",
            "a learner sends in a step": bytes_word,
        },
    )


def gained(loss: float) -> float:
    """The share of the gap from one learner alone to a gradient in each step that a loss closes."""
    runs = meeting_runs()
    return (runs[ALONE].loss - loss) / (runs[ALONE].loss - runs[SYNCHRONOUS].loss)


def message_parts(k: int = 64, chunk: int = 4096, bits: int = 2) -> figures.DataTable:
    """What a message says of one chunk, in bits: positions, values; and the fewest bits that could say which.

    >>> message_parts().columns["bits"]
    [768.0, 128.0, 896.0, 471.0]
    """
    position = (chunk - 1).bit_length()
    positions, values = float(k * position), float(k * bits)
    least = round(log2(comb(chunk, k)))
    return figures.DataTable(
        {
            "part": [
                f"{k} positions of {position} bits",
                f"{k} values of {bits} bits",
                "together",
                "the fewest that could tell the positions",
            ],
            "bits": [positions, values, positions + values, float(least)],
            "share": [
                positions / (positions + values),
                values / (positions + values),
                1.0,
                least / (positions + values),
            ],
        },
        caption=f"A message of SparseLoCo about a chunk of {chunk:,} numbers. In 32 bits each, they take {32 * chunk:,} bits.",
        formats={"bits": ",.0f", "share": ".0%"},
    )


def memory_table() -> figures.DataTable:
    """SparseLoCo with and without memory of what it does not send, and with outer momentum on top."""
    runs = meeting_runs()
    named = {
        "SparseLoCo": MeetingSetting(sends=FEW).name,
        "without memory": MeetingSetting(sends=FEW, memory=False).name,
        "with outer momentum, too": MeetingSetting(4, 12, *NESTEROV, sends=FEW).name,
    }
    rows = {label: runs[name] for label, name in named.items() if name in runs}
    return figures.DataTable(
        {
            "way": list(rows),
            "loss (bits a character)": [run.loss for run in rows.values()],
            "share of the gain": [gained(run.loss) for run in rows.values()],
        },
        caption="What the residual of SparseLoCo does, four learners that meet every 12 steps, one seed. "
        f"The checkpoint has a loss of {runs[ALONE].losses[0]:.3f}. Below 0 % it is worse than one learner alone: in the "
        f"last row, by {-gained(runs[named['with outer momentum, too']].loss):.1f} times the whole gain.",
        formats={"loss (bits a character)": ".3f", "share of the gain": ".0%"},
    )


def methods_table(link: str = "home_100m") -> figures.DataTable:
    """The methods of the simulator: time of a step, bytes on average and in the largest meeting."""
    rows = compare_methods(MODEL, Cluster(CHIP, LEARNERS, link), batch=BATCH)
    return figures.DataTable(
        {
            "method": [row["label"] for row in rows],
            "meets every": [row["every"] for row in rows],
            "a step": [row["step_seconds"] for row in rows],
            "computing": [row["efficiency"] for row in rows],
            "sent a step": [row["sent_bytes"] for row in rows],
            "largest meeting": [row["peak_bytes"] for row in rows],
        },
        caption=f"Four H100, {next(name for name, value in LINKS.items() if value == link)}, a model of 124 million weights, modelled",
        formats={"a step": _seconds, "computing": ".1%", "sent a step": bytes_word, "largest meeting": bytes_word},
    )


# ---- the explorer ----------------------------------------------------------------------------------------------------


def explorer() -> widgets.MeetingExplorer:
    """The explorer where the story is: four learners, the plain mean every 12 steps, everything in 32 bits."""
    return widgets.MeetingExplorer()


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def _plain(state: MeetingState) -> MeetingState:
    return state.changed(rate=1.0, momentum=0.0)


def _overshoot(state: MeetingState) -> str:
    mean = _plain(state).run.loss
    return (
        f"Lower: {state.run.loss:.3f} bits instead of {mean:.3f}. The plain mean has {percent(gained(mean))} of the gain that a gradient in each step "
        f"brings over one learner alone, and the step that overshoots has {percent(gained(state.run.loss))}."
    )


def _seldom(state: MeetingState) -> str:
    often = state.changed(every=12)
    return (
        f"The loss rises from {often.run.loss:.3f} to {state.run.loss:.3f} bits, while a learner sends {bytes_word(state.run.bytes_a_step)} a step instead of "
        f"{bytes_word(often.run.bytes_a_step)}. In 60 steps the learners drift further apart, and there are only four meetings."
    )


def _fewer_bytes(state: MeetingState) -> float:
    return state.changed(sends=DENSE).run.bytes_a_step / state.run.bytes_a_step


def _few(state: MeetingState) -> str:
    mean = state.changed(sends=DENSE).run.loss
    return (
        f"{_fewer_bytes(state):.0f} times fewer: {bytes_word(state.run.bytes_a_step)} a step instead of {bytes_word(state.changed(sends=DENSE).run.bytes_a_step)}. "
        f"The loss is {state.run.loss:.3f} bits, and that of the plain mean of everything {mean:.3f}. What is not sent stays with its learner and is sent later."
    )


def _home(state: MeetingState) -> str:
    dense = state.changed(sends=DENSE)
    return (
        f"With everything sent every 12 steps, the learners compute {percent(meet.computing(dense))} of the time. With the largest alone they compute "
        f"{percent(meet.computing(state))} of it, and with a gradient in each step {percent(meet.computing(state, 'in each step'))}. "
        f"Over 100 Mb/s it is {percent(meet.computing(state.changed(link='home_100m')))} with the largest alone. Published runs meet every 30 steps or more, "
        "and their steps take longer."
    )


QUESTIONS = (
    GuidedQuestion(
        "Four learners meet every 12 steps, and take the plain mean: *outer rate* 1, *momentum* 0. Set the rate to 0.7 and"
        " the momentum to 0.9. Where does the loss end?",
        {"rate": NESTEROV[0], "momentum": NESTEROV[1]},
        _overshoot,
        lambda state: state.run.loss < _plain(state).run.loss,
        controls=("rate", "momentum"),
        figure="losses",
        guess=("lower", "as before", "higher"),
    ),
    GuidedQuestion(
        "Back to the plain mean. Let the learners meet every 60 steps, with a fifth of the bytes. Where does the loss end?",
        {"every": 60},
        _seldom,
        lambda state: state.run.loss > state.changed(every=12).run.loss,
        controls=("every",),
        figure="losses",
        guess=("lower", "as before", "higher"),
    ),
    GuidedQuestion(
        "Meet every 12 steps again, but send only *the largest*: one number of 64, in 2 bits. How many times fewer bytes"
        " does a learner send?",
        {"sends": FEW},
        _few,
        lambda state: (
            _fewer_bytes(state) > 50 and gained(state.run.loss) > 0.5 * gained(state.changed(sends=DENSE).run.loss)
        ),
        controls=("sends", "share", "bits"),
        figure="plane",
        guess="times fewer",
    ),
    GuidedQuestion(
        "The model is a larger one, and the link a home connection of 500 Mb/s, five times as fast. Learners send"
        " *the largest* alone. Which share of the time do they compute?",
        {"sends": FEW, "link": "home_500m"},
        _home,
        lambda state: (
            meet.computing(state)
            > 5 * meet.computing(state.changed(sends=DENSE))
            > 5 * meet.computing(state, "in each step")
        ),
        controls=("sends", "link"),
        figure="time",
        guess="%",
    ),
)
GUIDED = ((explorer, QUESTIONS),)


# ---- live ------------------------------------------------------------------------------------------------------------


@needing("torch")
def four_learners() -> LiveMeetings:
    """A button that trains four learners from one checkpoint: the plain mean, a step that overshoots, the largest alone."""
    from lplab.claims.framework.local_trainings import ARMS

    ways = {"plain mean": "mean", "overshoots (DiLoCo)": "nesterov", "the largest (SparseLoCo)": "sparse"}
    return widgets.live_meetings({name: ARMS[arm] for name, arm in ways.items()}, seed=0)


# ---- the capstone ----------------------------------------------------------------------------------------------------


def meeting_keys() -> Folded:
    """Every key of a way to meet, and every setting of a compressor, with defaults as a JSON file has them."""
    own = {each.name: each for each in fields(MeetingRecipe)}
    rows = [
        ("recipe", key, "dense" if key == "compressor" else _in_json(own[key].default), meaning)
        for key, meaning in MEETING_KEYS.items()
    ] + [
        (name, each.name, _in_json(getattr(kind(), each.name)), SETTINGS[name][each.name])
        for name, kind in COMPRESSORS.items()
        for each in fields(kind)  # type: ignore[arg-type]  # all of them are dataclasses
    ]
    where, keys, defaults, meanings = map(list, zip(*rows, strict=True))
    caption = (
        "What a recipe may say, then the settings of each compressor. A dictionary in this notebook has True, False and "
        "None, and a JSON file has true, false and null"
    )
    columns = {"in": where, "key": keys, "default": defaults, "meaning": meanings}
    return Folded(figures.DataTable(columns, caption), line="All keys of a recipe")


def _in_json(value: object) -> str:
    """A default as a JSON file has it, without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


# ---- what the tests compare ------------------------------------------------------------------------------------------


def facts() -> figures.DataTable:
    """The numbers of the text that stand in no table, each computed."""
    (ddp,) = compare_methods(MODEL, Cluster(CHIP, LEARNERS, "home_100m"), batch=BATCH, methods=("ddp",))
    (large,) = SparseLoCo().plan((SIDE, SIDE))
    whole = 4 * SIDE**2 / large.payload_bytes
    rate, momentum = NESTEROV
    first = rate * (1 + momentum)
    known = {
        "a learner sends in a step of data parallelism": bytes_word(ddp["sent_bytes"]),
        "it takes": duration(ddp["communication_seconds"], 3),
        "computing takes": duration(ddp["step_seconds"] - ddp["exposed_seconds"], 2),
        "the first outer step": f"{rate:g} · {1 + momentum:g} = {first:.2f} times the mean",
        "a message of SparseLoCo is shorter": f"{whole:.1f} times than in 32 bits, {whole / 2:.1f} times than in 16",
    }
    return figures.DataTable({"what": list(known), "value": list(known.values())}, caption="Numbers of the text.")


def checked_numbers() -> Folded:
    """What the tests of the course compare: the table behind the veil, and the numbers of the text."""
    return Folded(links_table(), what_you_saw(), message_parts(), facts(), line="The numbers of this lab")


def checked_answers() -> Folded:
    """What the tests of the course compare: the answers to the questions above the explorer."""
    shown = explorer()
    answers = [question.answer(shown.state_at(**question.position)) for question in QUESTIONS]
    return Folded("\n".join(answers), line="The answers to the questions above the explorer")
