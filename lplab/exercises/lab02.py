"""Lab 02, Sixteen bits and a coin: fixed point, stochastic rounding, what is lost, and a drift that nobody ordered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab import formats as F

from .exercise import Args, Example, Exercise, Finding, Property, Variant, mutant
from .forms import Like, Number, Numbers
from .grids import boundary_values, kind, reason
from .isolation import Seeded
from .numbers import decimal

# ---- 02.1 fixed point --------------------------------------------------------------------------------------------------


def fixed_point(x, integer_bits, fraction_bits):
    """x in Gupta's format <IL, FL>, to nearest, ties down; x is an array of floats."""
    step = 2.0**-fraction_bits
    top = 2.0 ** (integer_bits - 1)
    rounded = np.ceil(x / step - 0.5) * step
    return np.clip(rounded, -top, top - step)


SPLITS = ((2, 2), (4, 4), (1, 5), (5, 0), (3, 8))  # integer bits, fraction bits


def fixed(args: Args) -> F.FixedFormat:
    """The format that the arguments of `fixed_point` name."""
    return F.FixedFormat(integer_bits=args[1], fraction_bits=args[2])


def ring_of_splits() -> list[Args]:
    """Every number, midpoint and neighbour of five formats, and values beyond both ends."""
    extremes = [math.inf, -math.inf, 1e6, -1e6, 5e-324, -5e-324]
    formats = [fixed((None, *split)) for split in SPLITS]
    return [
        (np.concatenate([boundary_values(fmt, specials=False), extremes]), fmt.integer_bits, fmt.fraction_bits)
        for fmt in formats
    ]


def why_fixed(args: Args, expected: float) -> str:
    """What is special about this element."""
    text = reason(fixed(args), args[0], expected)
    return text + (
        " Gupta's rule sends it down, toward minus infinity." if kind(fixed(args), args[0]) == "ties" else ""
    )


NEAREST = "np.ceil(x / step - 0.5) * step"
CLIP = "np.clip(rounded, -top, top - step)"

FIXED = Exercise(
    id="02.1",
    version=1,
    title="A fixed-point quantizer",
    goal="Goal 1: put a tensor into fixed point",
    minutes=10,
    difficulty=1,
    statement=r"""
        Write `fixed_point(x, integer_bits, fraction_bits)` for an array `x`. The numbers of ⟨IL, FL⟩ are the multiples of $\varepsilon=2^{-FL}$ from $-2^{IL-1}$ to $2^{IL-1}-\varepsilon$; the sign is one of the IL bits. Round to
        nearest; a value exactly in the middle goes **down**, toward −∞, as Gupta defines it. What lies beyond an end becomes that end.
    """,
    stub='''
        def fixed_point(x, integer_bits, fraction_bits):
            """x in Gupta's format <IL, FL>, to nearest, ties down; x is an array of floats."""
            raise NotImplementedError
    ''',
    reference=fixed_point,
    form=Like(0),
    elements=0,
    signed_zero=False,
    examples=(
        Example((np.array([0.3, -0.3]), 4, 12), "0.3 is 1228.8 steps of 2⁻¹²: 1229 steps; −0.3 mirrors it."),
        Example((np.array([0.5, 1.5]) * 2**-12, 4, 12), "Half a step goes down to 0, one and a half go down to one."),
        Example((np.array([-0.5, -1.5]) * 2**-12, 4, 12), "Down is toward −∞: half a step below zero becomes −1 step."),
        Example((np.array([7.9999, 8.0, 100.0]), 4, 12), "The largest number is one step below 8; beyond it nothing wraps around."),
        Example((np.array([-8.0, -9.0]), 4, 12), "The smallest number is −8 itself: two's complement has one more on this side."),
        Example((np.array([[1.0, 2.26], [-0.13, 0.0]]), 3, 2), "Any shape: here two by two."),
    ),
    boundary=ring_of_splits,
    line=fixed,
    kind=lambda args: kind(fixed(args), args[0]),
    why=why_fixed,
    mutants=(
        mutant("ties go up, as floor(x + 0.5) sends them", NEAREST, "np.floor(x / step + 0.5) * step"),
        mutant("ties go to even, as np.round sends them", NEAREST, "np.round(x / step) * step"),
        mutant("ties go away from zero", NEAREST, "np.copysign(np.floor(abs(x) / step + 0.5), x) * step"),
        mutant("ties go toward zero", NEAREST, "np.copysign(np.ceil(abs(x) / step - 0.5), x) * step"),
        mutant("rounding down instead of to nearest", NEAREST, "np.floor(x / step) * step"),
        mutant("digits are cut off, toward zero", NEAREST, "np.trunc(x / step) * step"),
        mutant("the range is symmetric", CLIP, "np.clip(rounded, step - top, top - step)"),
        mutant("the upper end belongs to the range", CLIP, "np.clip(rounded, -top, top)"),
        mutant("overflow wraps around", CLIP, "np.where(np.isfinite(x), (rounded + top) % (2 * top) - top, np.clip(rounded, -top, top - step))"),
        mutant("nothing is clipped", CLIP, "rounded"),
        mutant("the sign is not counted among the integer bits", "(integer_bits - 1)", "integer_bits"),
        mutant("the step is twice too large", "-fraction_bits", "(1 - fraction_bits)"),
        mutant("the two widths are swapped", "step =", "integer_bits, fraction_bits = fraction_bits, integer_bits\n    step ="),
        mutant("the result is left in steps", NEAREST, "np.ceil(x / step - 0.5)"),
        mutant("the input is clipped first, the result rounded", "    rounded", "    x = np.clip(x, -top, top - step)\n    rounded", equivalent="both ends are numbers of the format, so rounding leaves them where they are"),
    ),
    hints=(
        "Count in steps: x / 2**-FL. There you need whole numbers, and rounding has nothing more to do with the format.",
        "Nearest with ties down: half a step less, then up to the next whole number, np.ceil(steps − 0.5). The ends in steps of the format: −2^(IL−1) and 2^(IL−1) − ε; np.clip does the rest.",
        "The skeleton: step = 2.0**-fraction_bits; top = 2.0**(integer_bits − 1); rounded = np.ceil(x / step − 0.5) × step; return np.clip(rounded, −top, top − step).",
    ),
)  # fmt: skip


# ---- 02.2 stochastic rounding ------------------------------------------------------------------------------------------


def stochastic_round(x, fraction_bits, rng):
    """x on the grid of step 2**-fraction_bits, up with a probability equal to the fraction cut off."""
    steps = x * 2.0**fraction_bits
    low = np.floor(steps)
    up = rng.random(x.shape) < steps - low
    return (low + up) * 2.0**-fraction_bits


DRAWS = 20_000
DEVIATIONS = 6  # of a mean; a right answer exceeds it with a probability of 2e-9, and the seeds are fixed


def on_a_neighbour(args: Args, result: Any) -> str:
    """Whether every element went to one of its two neighbours; "" if so."""
    x, fraction_bits, _ = args
    step = 2.0**-fraction_bits
    low, result = np.floor(x / step) * step, np.asarray(result, dtype=float)
    good = (result == low) | ((result == low + step) & (x != low))
    if good.all():
        return ""
    i = int(np.flatnonzero(~good.ravel())[0])
    value, yours, below = float(x.ravel()[i]), float(result.ravel()[i]), float(low.ravel()[i])
    if value == below:
        return f"{decimal(value)} is a multiple of {decimal(step)} already and must stay, whatever the coin says; yours is {decimal(yours)}."
    return f"{decimal(value)} lies between {decimal(below)} and {decimal(below + step)}; yours is {decimal(yours)}, neither of the two."


def sampled(fractions: Sequence[float], look: Callable[[float, np.ndarray], str]) -> Callable[..., Finding | None]:
    """A look at many draws for each of a few numbers of steps (in quarters, fraction_bits = 2)."""

    def look_at_all(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
        for fraction, args, result in zip(fractions, calls, results, strict=True):
            sentence = look(fraction, np.asarray(result, dtype=float))
            if sentence:
                return Finding(sentence, args[:0], None)
        return None

    return look_at_all


FRACTIONS = (0.5, 0.1, 0.9, -0.3, 0.02, 5.75, -2.5)


def draws(seed: int = 1) -> list[Args]:
    """Many equal values for each fraction: their mean tells whether the coin is fair."""
    return [(np.full((DRAWS // 100, 100), fraction / 4), 2, Seeded(seed)) for fraction in FRACTIONS]


def mean_is_right(fraction: float, result: np.ndarray) -> str:
    """Whether the mean over all draws is the value, to within six standard errors."""
    share = fraction - math.floor(fraction)
    error = DEVIATIONS * math.sqrt(share * (1 - share) / result.size) / 4
    mean = float(result.mean())
    if abs(mean - fraction / 4) <= error:
        return ""
    return (
        f"The mean of {DRAWS:,} results for x = {decimal(fraction / 4)} with 2 fraction bits is {decimal(round(mean, 5))}; an unbiased coin gives {decimal(fraction / 4)} "
        f"± {error:.5f} (six standard errors)."
    )


def elements_are_independent(fraction: float, result: np.ndarray) -> str:
    """Whether the means of rows and of columns scatter as those of independent draws: chi-squared, six deviations."""
    share = fraction - math.floor(fraction)
    for axis, name in ((0, "columns"), (1, "rows")):
        means = (result.mean(axis) - fraction / 4) * 4
        scatter = float((means**2).sum() / (share * (1 - share) / result.shape[axis]))
        if abs(scatter - means.size) > DEVIATIONS * math.sqrt(2 * means.size):
            return f"Equal elements share their luck: the means of the {name} of one array scatter {scatter / means.size:.2f} times as much as independent draws would. Every element needs a draw of its own."
    return ""


def two_seeds() -> list[Args]:
    """The same values with one seed twice, and with another."""
    x = np.linspace(-2, 2, 1001)
    return [(x, 3, Seeded(5)), (x, 3, Seeded(5)), (x, 3, Seeded(6))]


def uses_the_generator(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Same generator, same result; another one, another result."""
    first, again, other = results
    if not np.array_equal(first, again):
        return Finding(
            "The same generator gave two different results: draw from `rng`.", mistake="the global generator of numpy"
        )
    if np.array_equal(first, other):
        return Finding("Two different generators gave the same result: the coin is not drawn from `rng`.")
    return None


LINE = np.concatenate([np.arange(-12, 13) / 4, np.arange(-12, 13) / 4 + 0.1, [1e-9, -1e-9, 0.24999, -0.24999]])

COIN = Exercise(
    id="02.2",
    version=1,
    title="Stochastic rounding",
    goal="Goal 2: round with a coin, without a bias",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `stochastic_round(x, fraction_bits, rng)` for an array `x`: every element goes to the multiple of $2^{-FL}$ below it or above it, up with a probability equal to the fraction that is cut off. Multiples stay. Each
        element needs a draw of its own; take it from `rng`, a `numpy.random.Generator`: `rng.random(x.shape)` is uniform in [0, 1). No saturation here.
    """,
    stub='''
        def stochastic_round(x, fraction_bits, rng):
            """x on the grid of step 2**-fraction_bits, up with a probability equal to the fraction cut off."""
            raise NotImplementedError
    ''',
    reference=stochastic_round,
    form=Like(0),
    accept=on_a_neighbour,
    examples=(
        Example((np.array([0.25, -1.5, 3.0]), 2, Seeded(1)), "Multiples of the step stay, whatever the coin says."),
        Example((np.array([0.3, 0.3, 0.3, 0.3]), 2, Seeded(2)), "0.3 lies between 0.25 and 0.5."),
        Example((np.array([-0.3, -0.3, -0.3]), 2, Seeded(3)), "Below zero: −0.3 lies between −0.5 and −0.25."),
        Example((np.array([[0.1], [0.9]]), 0, Seeded(4)), "Whole numbers: a step of 1; any shape."),
        Example((np.zeros(4), 3, Seeded(5)), "Zero is a multiple of every step."),
    ),
    boundary=lambda: [(LINE, bits, Seeded(seed)) for bits in (0, 2, 5) for seed in (7, 8)],
    properties=(
        Property("the mean is right: no bias", draws, sampled(FRACTIONS, mean_is_right)),
        Property("every element has a draw of its own", lambda: draws(2), sampled(FRACTIONS, elements_are_independent)),
        Property("the coin comes from the generator that was given", two_seeds, uses_the_generator),
    ),
    conventions=(
        Variant("up when the draw is below the fraction"),
        mutant("the draw is added, and the sum rounded down", "up = rng.random(x.shape) < steps - low", "low, up = np.floor(steps + rng.random(x.shape)), 0"),
    ),
    mutants=(
        mutant("up and down are exchanged", "< steps - low", "> steps - low"),
        mutant("a coin that knows only heads and tails: half up, half down", "< steps - low", "< 0.5 * (steps > low)"),
        mutant("to nearest: there is no coin", "rng.random(x.shape) < steps - low", "steps - low > 0.5"),
        mutant("one draw for the whole array", "rng.random(x.shape)", "rng.random()"),
        mutant("one draw for each row", "rng.random(x.shape)", "rng.random(x.shape[:1] + (1,) * (x.ndim - 1))"),
        mutant("cut off toward zero instead of down", "np.floor(steps)", "np.trunc(steps)"),
        mutant("noise of one step is added and the sum rounded to nearest: two steps away is possible", "up = rng.random(x.shape) < steps - low", "low, up = np.round(steps + rng.random(x.shape) * 2 - 1), 0"),
        mutant("noise from 0 to 1 is added and the sum rounded to nearest: a bias of half a step", "up = rng.random(x.shape) < steps - low", "low, up = np.round(steps + rng.random(x.shape)), 0"),
        mutant("a generator of one's own, with a fixed seed", "rng.random(x.shape)", "np.random.default_rng(0).random(x.shape)"),
        mutant("the global generator of numpy", "rng.random(x.shape)", "np.random.rand(*x.shape)"),
        mutant("only two random bits", "rng.random(x.shape)", "rng.integers(0, 4, x.shape) / 4"),
        mutant("the result is left in steps", "(low + up) * 2.0**-fraction_bits", "(low + up)"),
        mutant("always up unless exact", "rng.random(x.shape) < steps - low", "steps > low"),
        mutant("normal noise instead of uniform", "rng.random(x.shape)", "abs(rng.normal(size=x.shape))"),
        mutant("a draw equal to the fraction goes up", "< steps - low", "<= (steps - low) - (steps == low)", equivalent="a draw equals the fraction with probability 2⁻⁵³"),
    ),
    hints=(
        "In units of the step: np.floor gives the lower neighbour, what is left is a fraction f in [0, 1). The upper neighbour must come with probability f.",
        "A uniform draw u in [0, 1) is below f with probability exactly f. So `u < f` is the coin, one u for every element. Compare, add the result (True counts as 1), and go back from steps to numbers.",
        "The skeleton: steps = x × 2**FL; low = np.floor(steps); up = rng.random(x.shape) < steps − low; return (low + up) × 2**−FL.",
    ),
)  # fmt: skip


# ---- 02.3 what is lost -------------------------------------------------------------------------------------------------


def count_losses(x, integer_bits, fraction_bits):
    """How many elements of x saturate in <IL, FL>, and how many non-zero ones become zero (to nearest, ties down)."""
    step = 2.0**-fraction_bits
    top = 2.0 ** (integer_bits - 1)
    saturated = (x > top - step) | (x < -top)
    lost = (x != 0) & (x > -step / 2) & (x <= step / 2)
    return int(saturated.sum()), int(lost.sum())


def loss_cases() -> list[Args]:
    """One element at a time: every number, midpoint and neighbour of three formats, and values beyond both ends."""
    formats = [fixed((None, *split)) for split in ((2, 2), (1, 4), (3, 1))]
    edges = np.array([0.0, -0.0, 5e-324, -5e-324, 1e6, -1e6, math.inf, -math.inf])
    return [
        (np.array([value]), fmt.integer_bits, fmt.fraction_bits)
        for fmt in formats
        for value in [*boundary_values(fmt, specials=False), *edges]
    ]


def why_lost(args: Args, expected: Any) -> str:
    """What becomes of the element, in words."""
    x, integer_bits, fraction_bits = args
    if len(x) != 1:
        return ""
    value, step, top = float(x[0]), 2.0**-fraction_bits, 2.0 ** (integer_bits - 1)
    ends = f"The range is {decimal(-top)} to {decimal(top - step)}, both included; the step is {decimal(step)}"
    fate = {(1, 0): "saturates", (0, 1): "becomes zero though it was none", (0, 0): "is neither saturated nor lost"}[
        tuple(expected)
    ]
    return f"{ends}: {decimal(value)} {fate}."


LOSSES = Exercise(
    id="02.3",
    version=1,
    title="Count what is lost",
    goal="Goal 3: explain why both ends of the curve fail",
    minutes=10,
    difficulty=2,
    statement=r"""
        Too few fraction bits: small updates become zero. Too many, at sixteen in all: large values saturate. Write `count_losses(x, integer_bits, fraction_bits)` that returns two counts for an array: the elements outside the range of ⟨IL, FL⟩ (its ends
        belong to it), and the elements that are **not** zero but become zero when rounded to nearest, ties down.
    """,
    stub='''
        def count_losses(x, integer_bits, fraction_bits):
            """How many elements of x saturate in <IL, FL>, and how many non-zero ones become zero."""
            raise NotImplementedError
    ''',
    reference=count_losses,
    form=Numbers(count=2),
    examples=(
        Example((np.array([9.0, -9.0, 1.0]), 4, 12), "9 and −9 lie outside −8 … 8 − 2⁻¹²."),
        Example((np.array([0.0, 1e-5, 1e-4, -1e-5]), 4, 12), "10⁻⁵ and −10⁻⁵ are nearer to 0 than to 2⁻¹²; the zero was zero before."),
        Example((np.array([-8.0, 8.0 - 2**-12]), 4, 12), "The two ends are numbers of the format: nothing is lost."),
        Example((np.array([0.5, -0.5]) * 2**-12, 4, 12), "Half a step goes down: to 0 from above, to −1 step from below."),
        Example((np.zeros((3, 4)), 4, 12), "Zeros are not lost: they were zero before. Any shape."),
    ),
    boundary=loss_cases,
    why=why_lost,
    mutants=(
        mutant("zeros count as lost", "(x != 0) & ", ""),
        mutant("the ends count as saturated", "(x > top - step) | (x < -top)", "(x >= top - step) | (x <= -top)"),
        mutant("the upper end is top itself", "(x > top - step)", "(x >= top)"),
        mutant("the range is symmetric", "(x < -top)", "(x < step - top)"),
        mutant("only positive values saturate", " | (x < -top)", ""),
        mutant("everything below one step is lost", "(x > -step / 2) & (x <= step / 2)", "(abs(x) < step)"),
        mutant("ties are taken to even: half a step is lost on both sides", "(x > -step / 2)", "(x >= -step / 2)"),
        mutant("half a step is not lost on either side", "(x <= step / 2)", "(x < step / 2)"),
        mutant("ties go up: half a step is lost below zero instead of above", "(x > -step / 2) & (x <= step / 2)", "(x >= -step / 2) & (x < step / 2)"),
        mutant("only positive updates are lost", "(x > -step / 2)", "(x > 0)"),
        mutant("shares instead of counts", "int(saturated.sum()), int(lost.sum())", "float(saturated.mean()), float(lost.mean())"),
        mutant("the two counts are swapped", "int(saturated.sum()), int(lost.sum())", "int(lost.sum()), int(saturated.sum())"),
        mutant("the sign is not counted among the integer bits", "(integer_bits - 1)", "integer_bits"),
        mutant("every value that changes counts as lost", "(x != 0) & (x > -step / 2) & (x <= step / 2)", "(x / step) % 1 != 0"),
    ),
    hints=(
        "Draw the line around zero: which values does round-to-nearest with ties down send to 0? Is −ε/2 among them? Is +ε/2?",
        "Lost: x ≠ 0 and −ε/2 < x ≤ ε/2. Saturated: x above the largest number or below the smallest; mind that the largest is 2^(IL−1) − ε.",
        "Two masks, two sums: saturated = (x > top − step) | (x < −top); lost = (x != 0) & (x > −step/2) & (x <= step/2).",
    ),
)  # fmt: skip


# ---- 02.4 the drift ----------------------------------------------------------------------------------------------------


def drift(extra_bits, updates):
    """Mean drift, in steps, of a sum of `updates` values rounded by floor(x + 0.5) that had `extra_bits` more bits."""
    if extra_bits == 0:
        return 0.0
    return updates * 0.5 / 2**extra_bits


DRIFT = Exercise(
    id="02.4",
    version=1,
    title="The drift of floor(x + 0.5)",
    goal="Goal 2: tell a bias from noise",
    minutes=10,
    difficulty=3,
    statement=r"""
        `floor(x + 0.5)` sends every tie up. Values with $k$ fraction bits more than the grid keeps have $2^k$ equally likely fractions $0, 1/2^k, \dots, (2^k-1)/2^k$ of a step. What is the mean error of one rounding? And of a sum of $n$ of them?
        Write `drift(extra_bits, updates)`: the mean drift of the sum, in steps, with its sign (result minus truth). Try it out for $k=1$ and $k=2$ by hand first.
    """,
    stub='''
        def drift(extra_bits, updates):
            """Mean drift, in steps, of a sum of `updates` values rounded by floor(x + 0.5)."""
            raise NotImplementedError
    ''',
    reference=drift,
    form=Number(),
    examples=(
        Example((1, 1), "Fractions 0 and ½: the errors are 0 and +½, a quarter on average."),
        Example((2, 1), "Fractions 0, ¼, ½, ¾: the errors are 0, −¼, +½, +¼, an eighth on average."),
        Example((1, 1000), "Every update adds a quarter: after a thousand, 250 steps."),
        Example((0, 1000), "Nothing is cut off, so nothing drifts."),
        Example((16, 65536), "With 16 bits cut off ties are rare: half a step in 65,536 updates."),
    ),
    boundary=lambda: [(bits, n) for bits in range(25) for n in (0, 1, 7, 1000, 10**6)],
    why=lambda args, expected: f"Of {2 ** args[0]:,} equally likely fractions one is the tie, and it alone has no opposite: +½ step in {2 ** args[0]:,}." if args[0] else "No bits are cut off: every value is on the grid.",
    mutants=(
        mutant("without extra bits there is a tie, too", "    if extra_bits == 0:\n        return 0.0\n", ""),
        mutant("nearest rounding has no bias", "updates * 0.5 / 2**extra_bits", "0.0"),
        mutant("the drift goes down", "updates * 0.5", "-updates * 0.5"),
        mutant("a tie costs a whole step", "updates * 0.5 / 2**extra_bits", "updates / 2**extra_bits"),
        mutant("every second value is a tie", "updates * 0.5 / 2**extra_bits", "updates * 0.25"),
        mutant("the drift of truncation", "updates * 0.5 / 2**extra_bits", "-updates * (0.5 - 0.5 / 2**extra_bits)"),
        mutant("the drift does not grow with the number of updates", "updates * 0.5 / 2**extra_bits", "0.5 / 2**extra_bits"),
        mutant("the drift grows like the square root, as noise does", "updates * 0.5", "math.sqrt(updates) * 0.5"),
        mutant("one bit is counted too many", "2**extra_bits", "2 ** (extra_bits + 1)"),
        mutant("linear in the number of bits", "2**extra_bits", "(2 * extra_bits)"),
    ),
    hints=(
        "Write the errors for k = 2 in a row: 0, −¼, +½, +¼. Which of them cancel?",
        "Fractions f and 1 − f have opposite errors; only f = ½ has no partner. Its error is +½ step and it is one of 2^k.",
        "The mean of one rounding is ½ / 2^k, and means add up: updates × ½ / 2^k. And if k = 0?",
    ),
)  # fmt: skip


QUESTIONS = ()
EXERCISES = (FIXED, COIN, LOSSES, DRIFT)
