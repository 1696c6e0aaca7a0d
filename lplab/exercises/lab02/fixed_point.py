"""Exercise 02.1: a fixed-point quantizer, as Gupta defines it."""

from __future__ import annotations

import math

import numpy as np

from lplab import formats as F
from lplab.exercises.checks.grids import boundary_values, kind, reason
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import SameShape


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


def boundary_of_splits() -> list[Args]:
    """Every number, midpoint and neighbour of five formats, and values beyond both ends."""
    extremes = [math.inf, -math.inf, 1e6, -1e6, 5e-324, -5e-324]
    formats = [fixed((None, *split)) for split in SPLITS]
    return [
        (np.concatenate([boundary_values(fmt, specials=False, dtype=np.float32), extremes]), fmt.integer_bits, fmt.fraction_bits) for fmt in formats
    ]


def why_fixed(args: Args, expected: float) -> str:
    """What is special about this element."""
    text = reason(fixed(args), args[0], expected)
    return text + (" Gupta's rule sends it down, toward minus infinity." if kind(fixed(args), args[0]) == "ties" else "")


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
        Write `fixed_point(x, integer_bits, fraction_bits)` for an array `x`. The numbers of ⟨IL, FL⟩ are the multiples of $\varepsilon=2^{-FL}$ from $-2^{IL-1}$ to $2^{IL-1}-\varepsilon$. The sign is one of the IL bits.

        Round to nearest. A value exactly in the middle goes **down**, toward −∞, as Gupta defines it. What lies beyond an end becomes that end.
    """,
    reference=fixed_point,
    form=SameShape(0),
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
    boundary=boundary_of_splits,
    number_line_format=fixed,
    kind=lambda args: kind(fixed(args), args[0]),
    why=why_fixed,
    mistakes=(
        mistake("ties go up, as floor(x + 0.5) sends them", NEAREST, "np.floor(x / step + 0.5) * step"),
        mistake("ties go to even, as np.round sends them", NEAREST, "np.round(x / step) * step"),
        mistake("ties go away from zero", NEAREST, "np.copysign(np.floor(abs(x) / step + 0.5), x) * step"),
        mistake("ties go toward zero", NEAREST, "np.copysign(np.ceil(abs(x) / step - 0.5), x) * step"),
        mistake("rounding down instead of to nearest", NEAREST, "np.floor(x / step) * step"),
        mistake("digits are cut off, toward zero", NEAREST, "np.trunc(x / step) * step"),
        mistake("the range is symmetric", CLIP, "np.clip(rounded, step - top, top - step)"),
        mistake("the upper end belongs to the range", CLIP, "np.clip(rounded, -top, top)"),
        mistake("overflow wraps around", CLIP, "np.where(np.isfinite(x), (rounded + top) % (2 * top) - top, np.clip(rounded, -top, top - step))"),
        mistake("nothing is clipped", CLIP, "rounded"),
        mistake("the sign is not counted among the integer bits", "(integer_bits - 1)", "integer_bits"),
        mistake("the step is twice too large", "-fraction_bits", "(1 - fraction_bits)"),
        mistake("the two widths are swapped", "step =", "integer_bits, fraction_bits = fraction_bits, integer_bits\n    step ="),
        mistake("the result is left in steps", NEAREST, "np.ceil(x / step - 0.5)"),
        mistake("the input is clipped first, the result rounded", "    rounded", "    x = np.clip(x, -top, top - step)\n    rounded", equivalent="both ends are numbers of the format, so rounding leaves them where they are"),
    ),
    hints=(
        "Count in steps: x / 2**-FL. There you need whole numbers, and rounding has nothing more to do with the format.",
        "Nearest with ties down: half a step less, then up to the next whole number, np.ceil(steps − 0.5). The ends in steps of the format: −2^(IL−1) and 2^(IL−1) − ε; np.clip does the rest.",
        "The skeleton: step = 2.0**-fraction_bits; top = 2.0**(integer_bits − 1); rounded = np.ceil(x / step − 0.5) × step; return np.clip(rounded, −top, top − step).",
    ),
)
