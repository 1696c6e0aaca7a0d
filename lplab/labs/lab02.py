"""Lab 02, Sixteen bits and a coin: its tables, and the questions about its explorer."""

from __future__ import annotations

from functools import cache

import numpy as np

from lplab import claims, figures, widgets
from lplab.figures.training_error import error_text
from lplab.formats import FixedFormat
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.number_text import percent
from lplab.training import FixedPointConfig, train_fixed_point
from lplab.training.fixed_point.convert import Rounding
from lplab.widgets import LiveRun, TrainingExplorer
from lplab.widgets.explorers.training_explorer import TrainingState

ONE_FORMAT = "one format"  # the setting of the claim in which every number has the same 16 bits
LEARNED = 10.0  # percent of wrong answers below which a training has learned


@cache
def stored() -> claims.Results:
    """The stored trainings of Gupta's claim.

    >>> round(stored().median("test_error", setting="floating point"), 2)
    1.76
    """
    claim = claims.get("gupta_2015")
    return claims.stored(claim).results(claim)


def median(number: str, state: TrainingState) -> float:
    """The median over the seeds of one number of the training that the explorer's state names."""
    return stored().median(number, **state.point)


def splits() -> figures.DataTable:
    """Three ways to split 16 bits between the step and the range.

    >>> splits().columns["step"]
    [0.015625, 0.0009765625, 6.103515625e-05]
    """
    formats = [FixedFormat(16 - bits, bits) for bits in (6, 10, 14)]
    return figures.DataTable(
        {
            "format": [f"⟨{fmt.integer_bits}, {fmt.fraction_bits}⟩" for fmt in formats],
            "step": [fmt.smallest_subnormal for fmt in formats],
            "smallest number": [fmt.min for fmt in formats],
            "largest number": [fmt.max for fmt in formats],
        },
        caption="Three ways to split 16 bits: a finer step costs range.",
        formats={"step": ".6f", "smallest number": ",.0f", "largest number": ",.4f"},
    )


def errors() -> figures.DataTable:
    """What the rounding does to the training, for six lengths of the fraction: medians over five seeds.

    >>> errors().columns["nearest: wrong (%)"][1] > 50 > errors().columns["coin: wrong (%)"][1]
    True
    """
    bits = (4, 6, 8, 11, 12, 14)
    columns: dict[str, list[object]] = {"format": [f"⟨{16 - b}, {b}⟩" for b in bits]}
    for name, rule in (("nearest", "nearest_down"), ("coin", "stochastic")):
        states = [TrainingState(ONE_FORMAT, rule=rule, fraction_bits=b) for b in bits]
        columns[f"{name}: wrong (%)"] = [median("test_error", state) for state in states]
        columns[f"{name}: weights moved"] = [median("updates_made", state) for state in states]
    columns["outputs saturated"] = [median("outputs_saturated", state) for state in states]
    return figures.DataTable(
        columns,
        caption="Wrong answers, weights that move in one step, and outputs that saturate (with the coin).",
        formats={
            name: ".1f" if "wrong" in name else ".3%" if "moved" in name else ".0%"
            for name in columns
            if name != "format"
        },
    )


def ties() -> figures.DataTable:
    """Three roundings with ties that are rare, and with the gradient rounded first, where ties are frequent.

    >>> ties().columns["rounding"][1]
    'floor(x + ½)'
    """
    rules = {"nearest (ties to even)": "nearest_even", "floor(x + ½)": "nearest_up", "coin": "stochastic"}
    settings = {"update rounded once": "wide outputs", "gradient rounded first": "gradient first"}
    states = [TrainingState(s, rule=r, fraction_bits=8) for s in settings.values() for r in rules.values()]
    return figures.DataTable(
        {
            "arithmetic": [name for name in settings for _ in rules],
            "rounding": [*rules, *rules],
            "ties": [median("ties", state) for state in states],
            "drift (steps)": [round(median("drift", state), 3) + 0.0 for state in states],
            "wrong (%)": [median("test_error", state) for state in states],
        },
        caption="8 fraction bits, outputs ⟨6, 10⟩: share of ties, mean error of an update, and wrong answers.",
        formats={"ties": ".2%", "drift (steps)": "+.3f", "wrong (%)": ".1f"},
    )


def one_draw(x: np.ndarray, fraction_bits: int, rng: np.random.Generator) -> np.ndarray:
    """Stochastic rounding with a single random number for the whole array: each mean is right, and all err together.

    >>> one_draw(np.array([0.5, 0.5]), 0, np.random.default_rng(2))
    array([1., 1.])
    """
    steps = x * 2.0**fraction_bits
    low = np.floor(steps)
    return (low + (rng.random() < steps - low)) * 2.0**-fraction_bits


def trained_now(epochs: int = 10) -> figures.DataTable:
    """Three short trainings at 6 fraction bits that run when this is called, seed 0.

    >>> trained_now(1).columns["rounding"]
    ['nearest', 'coin', 'one draw for the whole array']
    """
    rules: dict[str, Rounding] = {
        "nearest": "nearest_down",
        "coin": "stochastic",
        "one draw for the whole array": one_draw,
    }
    runs = [train_fixed_point(FixedPointConfig(6, rounding=rule, epochs=epochs)) for rule in rules.values()]
    return figures.DataTable(
        {
            "rounding": list(rules),
            "wrong (%)": [run.test_error for run in runs],
            "weights moved": [run.counts.shares()["updates_made"] for run in runs],
        },
        caption=f"Format ⟨10, 6⟩, {epochs} epochs, seed 0, trained just now.",
        formats={"wrong (%)": ".1f", "weights moved": ".3%"},
    )


def explorer() -> TrainingExplorer:
    """The stored trainings where the prediction asks: 6 fraction bits, rounded to nearest."""
    return TrainingExplorer(rules=("stochastic", "nearest_down"), rule="nearest_down", fraction_bits=6)


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


def live_rules() -> LiveRun:
    """A button that trains all four rules and floating point at 6 fraction bits."""
    return widgets.TrainingExplorer(fraction_bits=6).live()


def most_bits(state: TrainingState) -> int:
    """The most fraction bits with which a training of this setting and rule still learns.

    >>> most_bits(TrainingState("one format", rule="stochastic"))
    11
    """
    where = {"setting": state.setting, "rounding": state.rule}
    measured = stored().along("fraction_bits", **where)
    return max(b for b in measured if stored().median("test_error", fraction_bits=b, **where) < LEARNED)


def _six_bits(state: TrainingState) -> str:
    coin = state.changed(rule="stochastic")
    return (
        f"With nearest {percent(median('updates_lost', state))} of the updates are lost, so {percent(median('updates_made', state))} "
        f"of the weights move in a step, and {error_text(median('test_error', state))} of the answers are wrong. With "
        f"stochastic {percent(median('updates_lost', coin))} are lost and {percent(median('updates_made', coin))} of the weights move, and only "
        f"{error_text(median('test_error', coin))} are wrong. So few are enough, because they are other weights in "
        "each step."
    )


def _too_many_bits(state: TrainingState) -> str:
    fmt, eleven, nearest = state.run.weight_format, state.changed(fraction_bits=11), state.changed(rule="nearest_down")
    assert fmt is not None  # a point of a setting is fixed point
    return (
        f"Outputs saturated. With 11 fraction bits {percent(median('outputs_saturated', eleven))} of the layer "
        f"outputs saturate, with 14 it is {percent(median('outputs_saturated', state))}. The range now ends at "
        f"{fmt.min:.0f} and just below {-fmt.min:.0f}, and most outputs lie outside it. Another rounding does "
        f"not help: {error_text(median('test_error', nearest))} "
        f"of the answers are wrong with nearest, {error_text(median('test_error', state))} with stochastic.".replace(
            "-", "−"
        )
    )


def _longer_words(state: TrainingState) -> str:
    short, long = most_bits(state.changed(setting=ONE_FORMAT)), most_bits(state)
    return (
        f"The network still learns with {short} fraction bits in words of 16 bits, and with {long} in words of 20 "
        f"bits ({error_text(median('test_error', state))} wrong). The edge moved by {long - short} places, which is "
        f"exactly the number of bits that the words gained. In both cases {16 - short} bits are left before the "
        "point. The outputs need that many."
    )


def _wide_outputs(state: TrainingState) -> str:
    return (
        f"Nothing fails at 14 fraction bits any more: {error_text(median('test_error', state))} of the answers are "
        f"wrong. {percent(median('outputs_saturated', state))} of the outputs saturate, because ⟨6, 10⟩ reaches from "
        "−32 to just below 32. The weights keep the fine step of ⟨2, 14⟩. They are small and do not need the range."
    )


QUESTIONS = (
    GuidedQuestion(
        "These are the 6 fraction bits of your guess, with *nearest (ties down)*. Which share of the updates "
        "is lost there? Then choose *stochastic* and compare.",
        {},
        _six_bits,
        lambda state: (
            median("test_error", state) > 50
            and median("test_error", state.changed(rule="stochastic")) < LEARNED
            and median("updates_made", state) < median("updates_made", state.changed(rule="stochastic")) < 0.05
        ),
        controls=("rule", "fraction_bits"),
        figure="losses",
        guess="%",
    ),
    GuidedQuestion(
        "Choose *stochastic* and set *fraction bits* to 14. The step is now 256 times finer than with 6 bits,"
        " and still the training fails. Which curve tells you why?",
        {"fraction_bits": 14, "rule": "stochastic"},
        _too_many_bits,
        lambda state: (
            median("outputs_saturated", state.changed(fraction_bits=11))
            < 0.001
            < 0.5
            < median("outputs_saturated", state)
            and min(median("test_error", state.changed(rule=rule)) for rule in ("nearest_down", "stochastic")) > 50
        ),
        controls=("rule", "fraction_bits"),
        figure="losses",
        guess=("updates lost", "outputs saturated"),
    ),
    GuidedQuestion(
        "Choose the arithmetic *20 bits, one format* and *stochastic*. The edge on the right is where the "
        "errors jump up. With 16 bits it was at 11. What are the most fraction bits with which the network "
        "learns now?",
        {"setting": "20 bits", "rule": "stochastic", "fraction_bits": 15},
        _longer_words,
        lambda state: most_bits(state) - most_bits(state.changed(setting=ONE_FORMAT)) == 4 and most_bits(state) == 15,
        controls=("setting", "rule", "fraction_bits"),
        figure="errors",
        guess="fraction bits",
    ),
    GuidedQuestion(
        "Choose the arithmetic *16 bits, outputs ⟨6, 10⟩*, and 14 fraction bits. Now the layer outputs have a"
        " format of their own, whatever the weights have. Which share of the answers is wrong?",
        {"setting": "wide outputs", "rule": "stochastic", "fraction_bits": 14},
        _wide_outputs,
        lambda state: (
            median("outputs_saturated", state) < 0.001
            and most_bits(state) == 14
            and median("test_error", state) < median("test_error", state.changed(setting=ONE_FORMAT))
        ),
        controls=("setting", "rule", "fraction_bits"),
        figure="errors",
        guess="%",
    ),
)

GUIDED = ((explorer, QUESTIONS),)
