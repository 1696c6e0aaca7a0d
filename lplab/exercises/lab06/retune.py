"""Exercise 06.3: the statistics of a batch norm, estimated anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.exercises.checks.close import distinct_texts, float32_hint
from lplab.exercises.checks.numbers import decimal
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import describe_value
from lplab.exercises.student_figures import student_figure


def retune(batches):
    """Running mean and variance of a batch norm, estimated anew from batches [n, channels, height, width]."""
    means, variances = [], []
    for x in batches:
        means.append(x.mean(axis=(0, 2, 3)))
        variances.append(x.var(axis=(0, 2, 3), ddof=1))
    return np.mean(means, axis=0), np.mean(variances, axis=0)


MEAN, VAR = "x.mean(axis=(0, 2, 3))", "x.var(axis=(0, 2, 3), ddof=1)"
LOOP, RETURN = "for x in batches:", "np.mean(means, axis=0), np.mean(variances, axis=0)"
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class TwoPerChannel:
    """Two arrays, or one of two rows, with a number for each channel of the first argument's batches."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> TwoPerChannel().problem(([np.zeros((2, 3, 1, 1))],), np.zeros(3))
        'returns an array of shape (3,) and dtype float64: return two arrays of shape (3,), the means and the variances'
        """
        channels = args[0][0].shape[1]
        wanted = f"return two arrays of shape ({channels},), the means and the variances"
        try:
            shape, kind = np.shape(result), np.asarray(result).dtype.kind
        except ValueError:  # parts of different shapes
            return f"returns parts of different shapes: {wanted}"
        return "" if shape == (2, channels) and kind == "f" else f"returns {describe_value(result)}: {wanted}"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "two arrays with a number for each channel"


def batch(seed: int, n: int, channels: int, height: int, width: int, offset: float = 0.0) -> np.ndarray:
    """Normal numbers whose mean and spread differ from channel to channel and from batch to batch: float64."""
    rng = np.random.default_rng(seed)
    centre, spread = rng.normal(offset, 2, (1, channels, 1, 1)), rng.uniform(0.2, 3, (1, channels, 1, 1))
    return centre + spread * rng.standard_normal((n, channels, height, width))


def retune_cases() -> list[Args]:
    """One batch and many, equal and unequal ones, one pixel and many, a constant channel, a mean far from zero."""
    equal = [batch(seed, 4, 3, 2, 2) for seed in range(6)]
    unequal = [batch(10 + n, n, 2, 3, 2) for n in (1, 2, 5, 20)]
    dense = [batch(20 + seed, 8, 5, 1, 1) for seed in range(3)]
    constant = [np.concatenate([batch(30 + s, 3, 1, 2, 2), np.full((3, 1, 2, 2), 7.0)], axis=1) for s in range(2)]
    far = [batch(40 + seed, 6, 2, 2, 2, offset=1e4) for seed in range(4)]
    return [(equal,), (equal[:1],), (unequal,), (dense,), (constant,), (far,)]


def close_enough(args: Args, result: Any) -> str:
    """Whether both statistics are right up to the rounding of sums in double precision; "" if so.

    A sum of n numbers is off by at most n·2⁻⁵³ of the sum of their magnitudes, in any order; the variance may be
    computed from squares, whose sum is then what counts. Twice that is allowed, and 8 operations more.
    """
    batches = args[0]
    expected, yours = np.asarray(retune(batches)), np.asarray(result, np.float64)
    count = sum(x.shape[0] * x.shape[2] * x.shape[3] for x in batches) + 8
    size = [max(float((np.abs(x) ** power).mean()) for x in batches) for power in (1, 2)]
    for row, name in enumerate(("mean", "variance")):
        wrong = np.flatnonzero(~(np.abs(yours[row] - expected[row]) <= 2 * count * EPS * size[row]))
        if len(wrong):
            c = int(wrong[0])
            mine, right = yours[row, c], expected[row, c]
            text = f"The {name} of channel {c} over {len(batches)} batch{'es' * (len(batches) > 1)} is"
            texts = distinct_texts(mine, right)
            return f"{text} {texts[1]}, yours is {texts[0]}{float32_hint(mine, right)}."
    return ""


def show_batches(args: Args) -> str:
    """The shapes, and the numbers where they are few."""
    batches = args[0]
    if sum(x.size for x in batches) <= 12:
        return "batches with the values " + " and ".join(
            "[" + ", ".join(map(decimal, x.ravel().tolist())) + f"] of shape {x.shape}" for x in batches
        )
    return f"{len(batches)} batches of shapes {', '.join(str(x.shape) for x in batches)}"


def pixels(*values: float) -> np.ndarray:
    """A batch of one channel, an element for each value."""
    return np.array(values).reshape(-1, 1, 1, 1)


RETUNE = Exercise(
    id="06.3",
    version=1,
    title="Re-tune a batch norm",
    goal="Goal 3: repair a rounded network without training it",
    minutes=10,
    difficulty=1,
    statement=r"""
        A batch norm in use divides by statistics that it collected in training, when the network was not rounded yet. Estimate these statistics anew from what the rounded network sends in.

        Write `retune(batches)` for a list of arrays of shape [examples, channels, height, width], the inputs of the batch norm. It returns two arrays with a number for each channel:

        1. the mean over all batches of the batch's **mean**;
        2. the mean over all batches of the batch's **unbiased variance**, the one that is divided by the number of values less one.

        Every batch counts the same, whatever its size. This is what PyTorch does with `momentum=None`.
    """,
    reference=retune,
    form=TwoPerChannel(),
    accept=close_enough,
    tolerance=1e-9,  # for known mistakes: the tolerance is a channel's own
    show=show_batches,
    examples=(
        Example(([pixels(1.0, 3.0)],), "One batch: mean 2; variance ((−1)² + 1²)/(2 − 1) = 2, as two values have one degree of freedom."),
        Example(([pixels(1.0, 3.0), pixels(10.0, 14.0)],), "Means 2 and 12 give 7; variances 2 and 8 give 5. The distance between the batches is no part of it."),
        Example(([pixels(0.0, 4.0), pixels(6.0, 6.0, 6.0, 6.0)],), "Batches of different size count the same: mean 4, variance 4."),
        Example(([np.arange(8.0).reshape(1, 2, 2, 2)],), "Two channels of four pixels: means 1.5 and 5.5, variances 5/3."),
        Example(([batch(1, 4, 3, 2, 2), batch(2, 4, 3, 2, 2), batch(3, 4, 3, 2, 2)],), "Three batches: the first counts as much as the last."),
    ),
    boundary=retune_cases,
    mistakes=(
        mistake("the biased variance, which batch norm uses in training", "ddof=1", "ddof=0"),
        mistake("the standard deviation instead of the variance", VAR, "x.std(axis=(0, 2, 3), ddof=1)"),
        mistake("an exponential mean with momentum 0.1, from 0 and 1 on", RETURN, "*(np.sum([0.1 * 0.9 ** (len(s) - 1 - i) * v for i, v in enumerate(s)], axis=0) + start * 0.9 ** len(s) for s, start in ((means, 0), (variances, 1))),"),
        mistake("the first batch starts an exponential mean", RETURN, "*(np.sum([(0.1 if i else 1) * 0.9 ** (len(s) - 1 - i) * v for i, v in enumerate(s)], axis=0) for s in (means, variances)),"),
        mistake("the last batch alone", RETURN, "means[-1], variances[-1]"),
        mistake("the first batch alone", RETURN, "means[0], variances[0]"),
        mistake("the old statistics, 0 and 1, count as a batch", RETURN, "np.mean([0 * means[0], *means], axis=0), np.mean([0 * means[0] + 1, *variances], axis=0)"),
        mistake("all values in one pool: large batches count more, and the variance contains that of the means", LOOP, "for x in [np.concatenate([b.transpose(0, 2, 3, 1).reshape(-1, b.shape[1], 1, 1) for b in batches])]:"),
        mistake("batches count by their size", RETURN, "np.average(means, axis=0, weights=[len(b) for b in batches]), np.average(variances, axis=0, weights=[len(b) for b in batches])"),
        mistake("the variance of the batch means", RETURN, "np.mean(means, axis=0), np.var(means, axis=0)"),
        mistake("the median over the batches", RETURN, "np.median(means, axis=0), np.median(variances, axis=0)"),
        mistake("a sum over the batches", RETURN, "np.sum(means, axis=0), np.sum(variances, axis=0)"),
        mistake("variance and mean are swapped", RETURN, "np.mean(variances, axis=0), np.mean(means, axis=0)"),
        mistake("pixels are not counted: divided by the number of examples less one", VAR, "x.var(axis=(0, 2, 3)) * x.shape[0] / max(x.shape[0] - 1, 1)"),
        mistake("one statistic for every pixel", MEAN, "x.mean(axis=0)", VAR, "x.var(axis=0, ddof=1)"),
        mistake("the mean is taken to be zero", VAR, "(x * x).sum(axis=(0, 2, 3)) / (x.size // x.shape[1] - 1)"),
    ),
    hints=(
        "Statistics of a batch norm are one number for each channel: over which axes of [examples, channels, height, width] do they run?",
        "x.mean(axis=(0, 2, 3)) and x.var(axis=(0, 2, 3), ddof=1) of each batch; then a plain mean over the batches.",
        "Keep two lists, and append a mean and a variance for each channel and batch. The last step is an average over the batches, the first axis of these lists. Do not put the batches into one large array.",
    ),
)


@student_figure("Here your {name} will tune a rounded network")
def draw_retuned(function: Callable[..., Any]) -> Any:
    """A button, and a live figure: a small network in several formats, tuned by the library and by the student.

    Args:
        function: takes a list of batches [n, channels, height, width]; returns means and variances.

    Raises:
        ImportError: PyTorch is missing.
    """
    from lplab.exercises.lab06.retuned_net import live  # needs PyTorch

    return live(function, RETUNE.form)
