"""Exercise 04.3: SAWB's two coefficients by regression."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.close import distinct_texts, float32_hint
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers
from lplab.quantizers import SAWB_ROWS
from lplab.quantizers.clipping import Magnitudes
from lplab.quantizers.distributions import QUANTILES, magnitudes


def fit_sawb(samples, clips):
    """The c1 and c2 of clip = c1 * rms - c2 * mean |w|, fitted to the best clips of the rows of samples."""
    mean = np.abs(samples).mean(axis=1)
    rms = np.sqrt((samples**2).mean(axis=1))
    slope, offset = np.polyfit(rms / mean, clips / mean, 1)
    return slope, -offset


MEAN, RMS, LINE = "np.abs(samples).mean(axis=1)", "np.sqrt((samples**2).mean(axis=1))", "np.polyfit(rms / mean, clips / mean, 1)"
COUNT, MANY = 200, 4000  # of a sample
SHAPES = np.array([[1.0, 1, 1, 1], [0, 0, 0, 4], [2, 2, 0, 0], [1, 2, 3, 2]])


def rows_on_a_line(c1: float, c2: float, scales: Sequence[float] = (1, 1, 1, 1)) -> Args:
    """Four samples, and clips that lie exactly on a line."""
    samples = SHAPES * np.array([[1, -1, -1, 1]]) * np.array(scales)[:, None]
    return samples, c1 * np.sqrt((samples**2).mean(1)) - c2 * np.abs(samples).mean(1)


@cache
def distributions(levels: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of the six distributions with both signs, [6, count], and their best clips for a number of levels."""
    halves = [magnitudes(name, count // 2) for name in QUANTILES]
    samples = np.stack([np.concatenate([-half[::-1], half]) for half in halves])
    return samples, np.array([Magnitudes(row).best_clip(levels, 1e-6) for row in samples])


def published(levels: int, scales: Sequence[float] = (1, 1, 1, 1, 1, 1), count: int = COUNT) -> Args:
    """The six distributions, each in a unit of its own."""
    samples, clips = distributions(levels, count)
    return samples * np.array(scales)[:, None], clips * np.array(scales)


def cases() -> list[Args]:
    """Distributions and pieces of them, in different units, with means that are not zero, few and many."""
    found = [published(levels) for levels in (3, 4, 8, 15)]
    found += [published(levels, (0.01, 3, 1, 100, 0.5, 7)) for levels in (4, 15)]
    rng = np.random.default_rng(2019)
    for rows in (2, 3, 9):
        samples = rng.normal(rng.uniform(-1, 1, (rows, 1)), rng.uniform(0.1, 3, (rows, 1)), (rows, 50))
        samples[0] = np.abs(samples[0]) ** 2
        found.append((samples, np.abs(samples).max(axis=1) * rng.uniform(0.3, 0.9, rows)))
    return found


def tolerance(args: Args) -> float:
    """What rounding in float64 can do to c1 and c2 by any stable way, normal equations among them.

    Normal equations lose the square of the condition number; 64 times the unit roundoff for each sum of n terms.
    """
    samples, clips = args
    mean = np.abs(samples).mean(axis=1)
    matrix = np.stack([np.sqrt((samples**2).mean(axis=1)) / mean, np.ones(len(mean))], axis=1)
    size = float(np.linalg.norm(clips / mean)) / float(np.linalg.svd(matrix, compute_uv=False)[-1])
    return 64 * len(mean) * float(np.finfo(float).eps) * float(np.linalg.cond(matrix)) ** 2 * max(size, 1.0)


def close_enough(args: Args, result: Any) -> str:
    """Whether both coefficients are those of the regression."""
    wanted, allowed = fit_sawb(*args), tolerance(args)
    for name, yours, expected in zip(("c1", "c2"), result, wanted, strict=True):
        if not abs(float(yours) - float(expected)) <= allowed:
            texts = distinct_texts(yours, expected)
            return f"The {name} is {texts[0]}, expected {texts[1]}{float32_hint(yours, expected)}."
    return ""


def near_the_published(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """With six distributions and four levels the coefficients of the published code come out to 1 %."""
    row = SAWB_ROWS["2bit"]
    for args, (c1, c2) in zip(calls, results, strict=True):
        if abs(c1 / row.c1 - 1) > 0.01 or abs(c2 / row.c2 - 1) > 0.01:
            text = f"c1 = {decimal(round(float(c1), 3))}, c2 = {decimal(round(float(c2), 3))}"
            return Finding(f"Six distributions and four levels: {text}; published are {row.c1} and {row.c2}.", args, (c1, c2))
    return None


def show(args: Args) -> str:
    """How many samples of what length, and the clips."""
    samples, clips = args
    listed = ", ".join(decimal(round(float(clip), 3)) for clip in clips[:6])
    return f"{len(samples)} samples of {samples.shape[1]} weights, best clips {listed}"


SAWB_FIT = Exercise(
    id="04.3",
    version=1,
    title="Two numbers that know the clip",
    goal="Goal 3: choose a clip from statistics",
    minutes=15,
    difficulty=2,
    statement=r"""
        SAWB finds the clip of a weight tensor without a search: $\alpha = c_1\sqrt{E[w^2]} - c_2\,E|w|$. Write `fit_sawb(samples, clips)` that returns $c_1$ and $c_2$. Each row of the array `samples` holds the weights of one distribution, `clips` has their best clips. Divide the formula by $E|w|$: then
        $\alpha/E|w|$ is a straight line in $\sqrt{E[w^2]}/E|w|$, whatever the unit of the weights. Fit this line by least squares, as the published code does. `np.polyfit(x, y, 1)` returns slope and offset.
    """,
    reference=fit_sawb,
    form=Numbers(count=2),
    accept=close_enough,
    tolerance=1e-9,  # for known mistakes: the tolerance is a case's own
    show=show,
    examples=(
        Example(rows_on_a_line(3.0, 2.0), "Four samples whose clips lie on the line 3·rms − 2·mean, exactly."),
        Example(rows_on_a_line(2.0, -0.5), "A line with a negative c2: mind the sign in the formula."),
        Example((np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([1.0, 1.5])), "Two samples fix the line: rms/mean is 1 and √2."),
        Example(rows_on_a_line(3.0, 2.0, (1, 10, 100, 0.1)), "The same four in other units: the line does not change."),
        Example((SHAPES + 2.0, np.array([2.0, 5.0, 3.0, 4.0])), "Weights whose mean is not zero: E[w²] is not the variance."),
        Example(published(4), "Six distributions, four levels: two bits."),
        Example(published(4, (1, 2, 4, 8, 16, 32)), "The same in six units; every distribution counts the same."),
    ),
    boundary=cases,
    properties=(Property("the published coefficients for two bits come out to 1 %", lambda: [published(4, count=MANY), published(4, (5, 1, 1, 2, 1, 3), MANY)], near_the_published),),
    mistakes=(
        mistake("the sign of c2: the formula subtracts", "return slope, -offset", "return slope, offset"),
        mistake("c1 and c2 are exchanged", "return slope, -offset", "return -offset, slope"),
        mistake("the standard deviation about the mean instead of the root of E[w²]", RMS, "samples.std(axis=1)"),
        mistake("E[w²] without the root", RMS, "(samples**2).mean(axis=1)"),
        mistake("the squares are summed, not averaged", RMS, "np.sqrt((samples**2).sum(axis=1))"),
        mistake("the variance with n − 1", RMS, "np.sqrt((samples**2).sum(axis=1) / (samples.shape[1] - 1))"),
        mistake("the mean of w instead of that of |w|", MEAN, "samples.mean(axis=1) + 1e-9"),
        mistake("the median of |w| instead of its mean", MEAN, "np.median(np.abs(samples), axis=1) + 1e-9"),
        mistake("max |w| is taken for the best clip", LINE, "np.polyfit(rms / mean, np.abs(samples).max(axis=1) / mean, 1)"),
        mistake("the formula is fitted undivided: large units count more", LINE, "np.linalg.lstsq(np.stack([rms, mean], 1), clips, rcond=None)[0]"),
        mistake("divided by the root of E[w²] instead of by E|w|", LINE, "np.polyfit(mean / rms, clips / rms, 1)[::-1]"),
        mistake("clip against rms, not divided at all, with a constant", LINE, "np.polyfit(rms, clips, 1)"),
        mistake("the line is fitted the other way round", LINE, "(lambda p: (1 / p[0], -p[1] / p[0]))(np.polyfit(clips / mean, rms / mean, 1))"),
        mistake("a line through the first and the last distribution", LINE, "np.polyfit((rms / mean)[[0, -1]], (clips / mean)[[0, -1]], 1)"),
        mistake("relative errors are made least instead of absolute ones", LINE, "np.polyfit(rms / mean, clips / mean, 1, w=mean / clips)"),
    ),
    hints=(
        "Take the two samples [1, 1] and [0, 2] with clips 1 and 1.5. E|w| is 1 in both; the roots of E[w²] are 1 and √2. Which line runs through (1, 1) and (√2, 1.5)?",
        "A mean for each row: axis=1. The slope of the line is c1; its offset is −c2, as the formula subtracts c2.",
        "The skeleton: mean = np.abs(samples).mean(axis=1); rms = np.sqrt((samples**2).mean(axis=1)); slope, offset = np.polyfit(rms / mean, clips / mean, 1); return slope, −offset.",
    ),
)
