"""Lab 05, FP8, and why sums break first: its tables and figures, and the questions above its explorer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from lplab import arithmetic, claims, figures, widgets
from lplab import formats as F
from lplab.claims.framework.results import Results
from lplab.claims.papers.wang_2018 import CHUNKS, COUNT, FORMAT, numbers
from lplab.claims.papers.wang_2018_chunks import ONE_SIGN, best, best_of_each_seed, curve
from lplab.exercises.lab05.best_chunk import best_chunk
from lplab.figures.running_sum import grouped
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.labs.needing import needing
from lplab.number_text import percent
from lplab.widgets.explorers.sum_explorer import (
    PRESETS,
    SumState,
    largest_addend,
    register_and_true_sums,
)

REGISTER = F.get(FORMAT)  # 1-6-9
LISTED_CHUNKS = (1, 8, 16, 32, 64, 256, 1024, 2048, 4096, 8192, COUNT)
UPDATES, UPDATE, WEIGHTS = 3000, 0.01, 500


# ---- tables and figures ----------------------------------------------------------------------------------------------


@cache
def stored_of(name: str) -> Results:
    """The stored measurements of a claim: of "wang_2018" the sums of 65,536 numbers, for every chunk and five seeds."""
    claim = claims.get(name)
    return claims.stored(claim).results(claim)


def sums_by_chunk() -> figures.DataTable:
    """The sum for every listed chunk, its largest error over five seeds, and the bound of the error."""
    columns: dict[str, list[Any]] = {
        "numbers in a chunk": list(LISTED_CHUNKS),
        "sum (first of five runs)": [float(_stored("sum_65536", chunk)[0]) for chunk in LISTED_CHUNKS],
        "largest error of five runs": [float(_stored("error", chunk).max()) for chunk in LISTED_CHUNKS],
        "bound": [bound(chunk) for chunk in LISTED_CHUNKS],
    }
    formats = {"sum (first of five runs)": ",.0f", "largest error of five runs": ".2%", "bound": ",.0%"}
    return figures.DataTable(columns, caption="65,536 numbers of mean 1, summed in 1-6-9", formats=formats)


def bound(chunk: int, count: int = COUNT) -> float:
    """The largest relative error that the additions of a sum in chunks allow, for numbers of one sign.

    >>> bound(256), round(bound(1))
    (0.5, 64)
    """
    return (chunk + -(-count // chunk)) * 2.0 ** -(REGISTER.mantissa_bits + 1)


def _stored(number: str, chunk: int, rounding: str = "nearest_even") -> np.ndarray:
    """A stored number for every seed."""
    return stored_of("wang_2018").values(number, rounding=rounding, chunk=chunk)


def error_figure() -> Any:
    """The error of the sum against the length of its chunks: the first of the stored runs."""
    errors = [float(_stored("error", chunk)[0]) for chunk in CHUNKS]
    return figures.chunk_error(CHUNKS, errors, name="Sum of 65,536", names=("one run", ""))


def exact_products() -> figures.DataTable:
    """How many products of two positive numbers of FP8 1-5-2 are numbers of 1-6-9.

    >>> exact_products().columns["exact in 1-6-9"]
    [15126, 0]
    """
    values = F.get("e5m2").codebook()
    values = values[np.isfinite(values) & (values > 0)]
    products = np.multiply.outer(values, values)
    exact, small = REGISTER.quantize(products) == products, products <= 2.0**-31
    columns: dict[str, list[Any]] = {
        "product of two positive numbers of FP8": ["larger than 2⁻³¹", "2⁻³¹ or smaller"],
        "how many": [int((~small).sum()), int(small.sum())],
        "exact in 1-6-9": [int((exact & ~small).sum()), int((exact & small).sum())],
    }
    return figures.DataTable(columns, caption="Are products of FP8 numbers exact in the register?")


def updated_weights() -> figures.DataTable:
    """Weights of 1 after 3,000 updates of 0.01, in two formats, rounded to nearest and with a coin."""
    columns: dict[str, list[Any]] = {"format of the weight": [], "rounding": [], "mean weight": [], "scatter": []}
    for name, label in (("e5m2", "FP8 1-5-2"), (FORMAT, "1-6-9")):
        for rounding, word in (("nearest_even", "to nearest"), ("stochastic", "with a coin")):
            weights, rng = np.ones(WEIGHTS), np.random.default_rng(2018)
            for _ in range(UPDATES):
                weights = F.get(name).quantize(weights + UPDATE, rounding, seed=rng)
            row = (label, word, float(weights.mean()), float(weights.std()))
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    caption = f"{UPDATES:,} updates of {UPDATE} to {WEIGHTS} weights of 1; all should end at 31"
    return figures.DataTable(columns, caption=caption, formats={"mean weight": ".2f", "scatter": ".2f"})


def wider_registers() -> figures.DataTable:
    """The sum in registers of more and more mantissa bits, without chunks and with chunks of 64."""
    x, bits = numbers(), (7, 9, 11, 13, 15)
    columns: dict[str, list[Any]] = {"mantissa bits": list(bits)}
    for label, chunk in (("no chunks", 1), ("chunks of 64", 64)):
        sums = [float(arithmetic.sum(x, F.FloatFormat(6, m), chunk=chunk)) for m in bits]
        columns |= {label: sums, f"error, {label}": [abs(made / float(x.sum()) - 1) for made in sums]}
    formats = {name: ".2%" if name.startswith("error") else ",.0f" for name in list(columns)[1:]}
    return figures.DataTable(columns, caption="The same 65,536 numbers in wider registers", formats=formats)


def ways_to_sum() -> figures.DataTable:
    """Five ways to sum the same numbers in 1-6-9, and what each of them needs."""
    x = numbers()
    sums = {
        "one after the other": (arithmetic.sum(x, FORMAT), "nothing"),
        "chunks of 64": (arithmetic.sum(x, FORMAT, chunk=64), "a second register"),
        "in pairs": (arithmetic.pairwise_sum(x, FORMAT), "a register for each of 16 levels"),
        "Kahan": (arithmetic.kahan_sum(x, FORMAT), "a second register, four operations instead of one"),
        "with a coin": (arithmetic.sum(x, FORMAT, rounding="stochastic", seed=0), "random bits"),
    }
    columns: dict[str, list[Any]] = {
        "how": list(sums),
        "sum": [float(made) for made, _ in sums.values()],
        "error": [abs(float(made) / float(x.sum()) - 1) for made, _ in sums.values()],
        "what it needs": [needs for _, needs in sums.values()],
    }
    caption = f"The true sum is {x.sum():,.0f}"
    return figures.DataTable(columns, caption=caption, formats={"sum": ",.0f", "error": ".2%"})


def equal_numbers() -> figures.DataTable:
    """Where sums of equal numbers stop in 1-6-9, and after how many additions.

    >>> equal_numbers().columns["stops at"]
    [1024.0, 2048.0, 2048.0, 2048.0]
    """
    columns: dict[str, list[Any]] = {"number": [1.0, 1.01, 1.5, 1.9], "stops at": [], "after additions": []}
    for number in columns["number"]:
        x = REGISTER.quantize(np.full(1, number))
        total, count = 0.0, 0
        while (after := float(REGISTER.quantize(total + x)[0])) != total:
            total, count = after, count + 1
        columns["stops at"].append(total)
        columns["after additions"].append(count)
    return figures.DataTable(columns, caption="Sums of equal numbers in 1-6-9", formats={"stops at": ",.0f"})


def facts() -> figures.DataTable:
    """The numbers that the text of the lab gives and that stand in no table.

    >>> facts().rows()[3]
    ['1,025 rounded to 1-6-9', '1,024']
    """
    x, fp8, large, ones = numbers(), F.get("e5m2"), np.array([4096.0]), np.ones(1000)
    good = [chunk for chunk in CHUNKS if 64 <= chunk <= 2048]
    gradient = stored_of("wang_2018_chunks")
    errors = curve(gradient)
    rows: dict[str, float] = {
        "smallest number": float(x.min()),
        "largest number": float(x.max()),
        "largest number of 1-6-9, in billions": REGISTER.max / 1e9,
        "1,025 rounded to 1-6-9": float(REGISTER.quantize(1025.0)),
        "largest error with chunks of 64 to 2,048 (%)": 100 * max(_stored("error", chunk).max() for chunk in good),
        "the chunk where it happens": max(good, key=lambda chunk: _stored("error", chunk).max()),
        "median error with chunks of 256 (%)": 100 * float(np.median(_stored("error", 256))),
        "chunk with the smallest bound": best_chunk(COUNT, REGISTER.mantissa_bits)[0],
        "1.01 rounded to FP8 1-5-2": float(fp8.quantize(1.01)),
        "its neighbour above": float(fp8.quantize(1.01, "up")),
        "a step of 1-6-9 at 16": float(REGISTER.quantize(16.001, "up")) - 16,
        "4,096 and then a thousand ones": float(arithmetic.sum(np.concatenate([large, ones]), FORMAT)),
        "a thousand ones and then 4,096": float(arithmetic.sum(np.concatenate([ones, large]), FORMAT)),
        "weight gradient: seeds with their least error at 32": int((best_of_each_seed(gradient) == 32).sum()),
        "weight gradient: chunk with the least median error": best(errors),
        "weight gradient: error at 256, in errors at 64": float(np.median(errors[256]) / np.median(errors[64])),
        "weight gradient without signs: chunk with the least error": best(curve(gradient, ONE_SIGN)),
    }
    columns: dict[str, list[Any]] = {"what": list(rows), "number": list(rows.values())}
    return figures.DataTable(columns, caption="What the text says in numbers", formats={"number": ",.6g"})


def measure_one_seed() -> widgets.LiveRun:
    """A button that sums the numbers again for every chunk: circles agree with the stored errors, crosses do not."""
    claim = claims.get("wang_2018")
    points = [{"rounding": "nearest_even", "chunk": chunk} for chunk in CHUNKS]
    stored = [float(_stored("error", chunk)[0]) for chunk in CHUNKS]

    def figure(found: Any) -> Any:
        own = [*found, *[np.nan] * (len(CHUNKS) - len(found))] if len(found) else None
        return figures.chunk_error(CHUNKS, stored, own, name="Sum of 65,536", names=("stored run", "new run"))

    return widgets.LiveRun(
        lambda: (claims.measure(claim, point, seed=0)["error"] for point in points),
        figure,
        total=len(points),
        name="Measure one run",
        unit="length",
    )


# ---- guided questions ------------------------------------------------------------------------------------------------


def _end(state: SumState) -> float:
    """The sum in the register at the end."""
    return float(register_and_true_sums(state)[0][-1])


def _true(state: SumState) -> float:
    """The exact sum."""
    return float(register_and_true_sums(state)[1][-1])


def _error(state: SumState) -> float:
    """The relative error of the sum at the end."""
    return abs(_end(state) / _true(state) - 1)


def _step(state: SumState) -> float:
    """The step of the register where the sum ends."""
    return float(2.0 ** (np.floor(np.log2(_end(state))) - F.get(PRESETS[state.preset][0]).mantissa_bits))


def _above_two() -> float:
    """The share of the numbers that are larger than 2."""
    return float((numbers() > 2).mean())


def _mixed(state: SumState) -> str:
    step, largest = _step(state), largest_addend(state)
    return (
        f"It stops at {grouped(_end(state))}, where the step of the register becomes {step:g}. A number must be larger than half "
        f"of it, {step / 2:g}, but the largest is only {largest:.3g}. Before, between 2,048 and 4,096, the step is 4: only the "
        f"{100 * _above_two():.0f} % of the numbers that are above 2 count, and each of them adds 4."
    )


def _first_chunk(state: SumState) -> str:
    shorter = state.changed(chunk=state.chunk // 2)
    return (
        f"Chunks of {state.chunk} hold. The sum ends at {grouped(_end(state))}, which is {percent(_error(state))} off. "
        f"With chunks of {shorter.chunk} it stops at {grouped(_end(shorter))}, half of the true sum. The total now adds "
        f"numbers near {state.chunk} instead of numbers near 1, so it can go on for longer."
    )


def _long_chunk(state: SumState) -> str:
    before, after = (state.changed(chunk=chunk) for chunk in (state.chunk // 2, 2 * state.chunk))
    return (
        f"Chunks of {before.chunk:,} are still good ({percent(_error(before))} off), but with chunks of "
        f"{state.chunk:,} the sum ends at {grouped(_end(state))}, {percent(_error(state))} off. A chunk of this length "
        f"is a long sum itself, and its own register begins to lose numbers. With chunks of {after.chunk:,} half of the "
        "sum is lost."
    )


def _no_mean(state: SumState) -> str:
    one = state.changed(mean=1.0)
    return (
        f"It does not stop. Positive and negative numbers cancel, so the true sum is only {grouped(_true(state))}. The "
        f"register stays small, and so does its step, which is {_step(state):g} at the end. It ends at "
        f"{grouped(_end(state))}, which is {abs(_end(state) - _true(state)):.1f} off. This is {percent(_error(state))} "
        f"of a small sum, but with mean 1 the register lost {grouped(_true(one) - _end(one))}. "
        f"Products of weights and activations often have both signs, as here. Outputs of a ReLU "
        "are never negative, so sums of them behave like the numbers of mean 1."
    )


QUESTIONS = (
    GuidedQuestion(
        "These are the numbers of your guess, between −0.73 and 2.73. Look at where the sum stops: how large must a number "
        "be there, at least, to move the register?",
        {},
        _mixed,
        lambda state: _end(state) == 4096 and largest_addend(state) < _step(state) / 2,
        ("chunk", "spread"),
        "figure",
        "or more",
    ),
    GuidedQuestion(
        "Move *chunk* to the right, step by step. Which is the first length with which the sum holds to the end?",
        {"chunk": 32},
        _first_chunk,
        lambda state: _error(state) < 0.01 and 0.45 < _error(state.changed(chunk=16)) < 0.55,
        ("chunk",),
        "figure",
        "numbers in a chunk",
    ),
    GuidedQuestion(
        "Move *chunk* further to the right. From which length on is the sum more than 5 % off again?",
        {"chunk": 4096},
        _long_chunk,
        lambda state: (
            _error(state.changed(chunk=2048)) < 0.01 < 0.05 < _error(state)
            and 0.45 < _error(state.changed(chunk=8192)) < 0.55
        ),
        ("chunk",),
        "figure",
        "numbers in a chunk",
    ),
    GuidedQuestion(
        "Go back to *chunk* 1 and set *mean* to 0. Does the sum still stop?",
        {"mean": 0.0},
        _no_mean,
        lambda state: np.unique(register_and_true_sums(state)[0][-8:]).size > 4 and abs(_true(state)) < 100,
        ("chunk", "mean"),
        "figure",
        ("it stops", "it goes on"),
    ),
)


def explorer() -> widgets.SumExplorer:
    """The explorer where the first prediction asks: numbers around 1, without chunks."""
    return widgets.SumExplorer(spread=1.0)


def guided_explorer() -> GuidedExplorer:
    """The explorer below its questions."""
    return guided(explorer(), QUESTIONS)


GUIDED = ((explorer, QUESTIONS),)


@needing("numba", " to take seconds in place of minutes")
def checked_numbers() -> Folded:
    """What the tests of the course compare: the tables behind the veil, the answers, and the numbers of the text."""
    shown = explorer()
    answers = "\n".join(question.answer(shown.state_at(**question.position)) for question in QUESTIONS)
    return Folded(sums_by_chunk(), wider_registers(), ways_to_sum(), facts(), answers, line="The numbers of this lab")
