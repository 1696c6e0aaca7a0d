"""Exercise 15.7: the longer a model was trained, the more its rounding costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.close import rounded_text
from lplab.exercises.checks.numbers import sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import read_results, student_figure


def growth(steps, plain, rounded):
    """Exponent of the power law of what rounding costs, the cost at twice the longest training, best steps."""
    cost = rounded - plain
    there = cost > 0
    exponent, offset = np.polyfit(np.log(steps[there]), np.log(cost[there]), 1)
    predicted = np.exp(offset) * (2 * steps.max()) ** exponent
    return exponent, predicted, steps[rounded.argmin()]


COST, THERE = "rounded - plain", "cost > 0"
FIT, PREDICTED, BEST = "np.polyfit(np.log(steps[there]), np.log(cost[there]), 1)", "np.exp(offset) * (2 * steps.max()) ** exponent", "steps[rounded.argmin()]"
ALL_OF_THEM = """(
        np.cov(np.log(steps), np.log(cost), bias=True)[0, 1] / np.log(steps).var(),
        np.log(cost).mean() - np.cov(np.log(steps), np.log(cost), bias=True)[0, 1] / np.log(steps).var() * np.log(steps).mean(),
    )"""  # np.polyfit raises with NaN, or not, depending on the processor
TOLERANCE = 1e-10  # of the largest number, the steps: far below the exponents, far above what a fit in float64 loses


def numbers(*values: float) -> np.ndarray:
    """A row of numbers: float64."""
    return np.array(values, np.float64)


def law(exponent: float, factor: float, steps: Sequence[float], plain: Sequence[float]) -> Args:
    """Trainings whose rounding costs follow a power law exactly, up to rounding."""
    lengths = numbers(*steps)
    return lengths, numbers(*plain), numbers(*plain) + factor * lengths**exponent


def cases() -> list[Args]:
    """Two to eight trainings in any order, costs near a law and far from it, some of them zero or below."""
    rng = np.random.default_rng(2025)
    found: list[Args] = []
    for count in (2, 3, 4, 5, 8):
        for noise in (0.02, 0.3, 1.0):
            steps = np.sort(rng.choice(np.arange(1, 40), count, replace=False)) * 50.0
            plain = 6 * steps**-0.15
            cost = rng.uniform(0.001, 0.01) * steps ** rng.uniform(0.2, 1.2) * np.exp(noise * rng.normal(size=count))
            found.append((steps, plain, plain + cost))
            if count > 3:
                turned = np.where(np.arange(count) == rng.integers(count), -cost / 50, cost)
                found += [(steps, plain, plain + turned), (steps[::-1].copy(), plain[::-1].copy(), (plain + cost)[::-1].copy())]
    steps, plain, rounded = found[-3]
    return [*found, (steps, plain, np.where(steps == steps.min(), plain, rounded)), (steps, plain, np.where(steps == steps.max(), plain, rounded))]


WAYS = {"to nearest": "nearest", "GPTQ": "gptq"}
BITS = (4, 3, 2)


@cache
def recorded(way: str, bits: int) -> Args:
    """Steps, losses in float32 and losses after rounding of the stored claim on longer trainings, means over its seeds."""
    from lplab import claims
    from lplab.claims.papers.kumar_2025 import STEPS

    claim = claims.get("kumar_2025")
    results = claims.stored(claim).results(claim)
    plain, rounded = (numbers(*(results.values(number, steps=steps).mean() for steps in STEPS)) for number in ("float", f"{way}_{bits}"))
    return numbers(*STEPS), plain, rounded


def real_calls() -> list[Args]:
    """The trainings of the stored claim, rounded in each way."""
    return [recorded(way, bits) for way in WAYS.values() for bits in BITS]


def is_least_squares(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether each fit is that of least squares, by the normal equations of numpy's own solver."""
    for args, (exponent, predicted, best) in zip(calls, results, strict=True):
        steps, plain, rounded = args
        logarithms = np.stack([np.log(steps), np.ones(len(steps))], axis=1)
        (slope, offset), *_ = np.linalg.lstsq(logarithms, np.log(rounded - plain), rcond=None)
        right = slope, np.exp(offset + slope * np.log(2 * steps.max())), steps[rounded.argmin()]
        for what, yours, expected in zip(("exponent", "predicted cost", "best number of steps"), (exponent, predicted, best), right, strict=True):
            if not abs(float(yours) - expected) <= 1e-6 * abs(expected):
                return Finding(f"In our trainings the {what} is {rounded_text(expected)}, yours is {rounded_text(float(yours))}.", args, (exponent, predicted, best))
    return None


def show(args: Args) -> str:
    """The trainings."""
    steps, plain, rounded = (sequence_text([float(f"{value:.6g}") for value in part]) for part in args)
    return f"steps = {steps}, plain = {plain}, rounded = {rounded}"


def why(args: Args, expected: Any) -> str:
    """The costs, and how many of them count."""
    _, plain, rounded = args
    cost = rounded - plain
    told = f"Rounding costs {sequence_text([float(f'{value:.4g}') for value in cost])}."
    left = int((cost <= 0).sum())
    return told + (f" Where it costs nothing, {'a training is' if left == 1 else f'{left} trainings are'} left out of the fit." if left else "")


GROWTH = Exercise(
    id="15.7",
    version=1,
    title="Trained longer, rounded worse",
    goal="Goal 4: see what a longer training does",
    minutes=15,
    difficulty=2,
    statement=r"""
        The same model was trained for several numbers of `steps`. After each training, its loss was measured (`plain`), and once more with rounded weights (`rounded`). Rounding costs the difference. By Kumar and others, $\text{cost}=C\cdot\text{steps}^{\gamma}$. So the logarithm of the cost is a straight line in the logarithm of the steps. Write `growth(steps, plain, rounded)` for three arrays. It returns three numbers:

        1. the exponent $\gamma$, by a fit of this line with least squares (`np.polyfit(x, y, 1)` returns slope and offset). Chance can make a small cost zero or negative, which has no logarithm. Leave these trainings out of the fit;
        2. the cost that the law predicts at **twice** the largest of `steps`;
        3. the number of steps, among those given, after which the **rounded** model has the least loss.
    """,
    reference=growth,
    form=Numbers(count=3),
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example(law(1.0, 0.001, (100, 200, 400), (3, 2.5, 2)), "The cost is 0.1, 0.2 and 0.4. It doubles with the steps, so the exponent is 1, and 800 steps cost 0.8."),
        Example(law(0.5, 0.01, (100, 400, 1600), (3, 2.5, 2)), "The cost is 0.1, 0.2 and 0.4, while the steps grow four times. The exponent is ½."),
        Example(law(2.0, 1e-6, (100, 200, 400, 800), (3, 2.5, 2.2, 2)), "The exponent is 2. After 800 steps, rounding costs 0.64, so the rounded model was better after 400."),
        Example((numbers(100, 200, 400), numbers(3, 2.5, 2), numbers(3.1, 2.7, 2.3)), "0.1, 0.2 and 0.3 lie on no power law. The fit is a compromise."),
        Example((numbers(100, 200, 400, 800), numbers(3, 2.5, 2.2, 2), numbers(3.1, 2.7, 2.19, 2.8)), "After 400 steps rounding seems to help, by chance. A negative cost has no logarithm, so three trainings are left for the fit. The rounded model of 400 steps is still the best one."),
        Example((numbers(100, 200, 400), numbers(3, 2.5, 2), numbers(3.5, 3.0, 2.5)), "Rounding costs 0.5 everywhere. The exponent is 0, and 800 steps cost 0.5, too."),
        Example(law(1.0, 0.001, (400, 100, 200), (2, 3, 2.5)), "The trainings can stand in any order. The longest has 400 steps."),
    ),
    boundary=cases,
    properties=(Property("the fits of our own trainings are those of least squares", real_calls, is_least_squares),),
    mistakes=(
        mistake("the cost is a quotient of the losses, not a difference", COST, "rounded / plain"),
        mistake("the loss of the rounded model itself is fitted, not what rounding costs", COST, "rounded"),
        mistake("a line through the costs themselves, without logarithms", FIT, "np.polyfit(steps, cost, 1)", PREDICTED, "exponent * 2 * steps.max() + offset"),
        mistake("only the cost has a logarithm: that is exponential growth", FIT, "np.polyfit(steps[there], np.log(cost[there]), 1)", PREDICTED, "np.exp(offset + exponent * 2 * steps.max())"),
        mistake("the line is fitted the other way round, steps against cost", FIT, "np.polyfit(np.log(cost[there]), np.log(steps[there]), 1)"),
        mistake("a line through the first and the last training alone", FIT, "np.polyfit(np.log(steps[there][[0, -1]]), np.log(cost[there][[0, -1]]), 1)"),
        mistake("trainings without a cost are not left out: they have no logarithm", THERE, "cost == cost", FIT, ALL_OF_THEM),
        mistake("the magnitude of a negative cost is taken", COST, "np.abs(rounded - plain)"),
        mistake("a cost that is not positive counts as a small one, not as none", COST, "np.maximum(rounded - plain, 1e-6)"),
        mistake("the predicted cost is that of the longest training, not of twice as long a one", PREDICTED, "np.exp(offset) * steps.max() ** exponent"),
        mistake("the prediction starts from the last measured cost, not from the fitted line", PREDICTED, "cost[-1] * 2**exponent"),
        mistake("the prediction doubles the cost, not the steps", PREDICTED, "2 * np.exp(offset) * steps.max() ** exponent"),
        mistake("trainings without a cost are left out of the best steps and of the longest training, too", PREDICTED, "np.exp(offset) * (2 * steps[there].max()) ** exponent", BEST, "steps[there][rounded[there].argmin()]"),
        mistake("logarithms of base 10, but powers of e", FIT, "np.polyfit(np.log10(steps[there]), np.log10(cost[there]), 1)"),
        mistake("twice the last of the steps, not the largest", PREDICTED, "np.exp(offset) * (2 * steps[-1]) ** exponent"),
        mistake("the best steps are looked for among the trainings of the fit alone", BEST, "steps[there][rounded[there].argmin()]"),
        mistake("the best steps are those of the model that is not rounded", BEST, "steps[plain.argmin()]"),
        mistake("the best steps are those where rounding costs least", BEST, "steps[cost.argmin()]"),
        mistake("the least loss, not the steps after which it is reached", BEST, "rounded.min()"),
        mistake("the position of the best training, not its steps", BEST, "rounded.argmin()"),
    ),
    hints=(
        "Take the costs 0.1, 0.2 and 0.4 after 100, 200 and 400 steps. Each doubling of the steps doubles the cost, so the exponent is 1. The next doubling leads to 800 steps and to a cost of 0.8.",
        "The logarithm of the law is log(cost) = log(C) + γ · log(steps), a line with the slope γ. A mask such as cost > 0 picks elements of an array, and it must pick from both arrays. np.exp turns a logarithm back.",
        "First the costs, and the mask of those above zero. Then a line through the two logarithms. Which of its two numbers is γ, and what must be done with the other one to get C? For the third result, argmin says where an array is least, and the steps stand at the same place.",
    ),
)


# ---- trainings of our own --------------------------------------------------------------------------------------------


@student_figure("Here the exponents of our own trainings, as your {name} finds them, will be drawn")
def draw_growth(function: Callable[..., Any]) -> Any:
    """A live figure of the exponent with which the cost of rounding grows, for three numbers of bits and two ways.

    Args:
        function: takes steps and two rows of losses, and returns exponent, predicted cost and best steps.
    """
    from lplab import figures

    calls = [recorded(way, bits) for way in WAYS.values() for bits in BITS]
    yours = np.array(read_results(function, calls, GROWTH.form, first_of_three)).reshape(len(WAYS), -1)
    return figures.compared_curves(
        [f"{bits} bits" for bits in BITS],
        exponents(),
        dict(zip(WAYS, yours, strict=True)),
        what="exponent of the cost",
        name="Trained longer",
    )


def exponents() -> dict[str, np.ndarray]:
    """The exponents of the stored claim's trainings: float64 [bits], by the way of rounding."""
    found = {}
    for name, way in WAYS.items():
        lines = [np.polyfit(np.log(steps), np.log(rounded - plain), 1) for steps, plain, rounded in (recorded(way, bits) for bits in BITS)]
        found[name] = np.array([slope for slope, _ in lines])
    return found


def first_of_three(result: Any) -> float:
    """The exponent of a result; ValueError if there are not three numbers."""
    exponent, *_ = (float(value) for value in result)
    return exponent
