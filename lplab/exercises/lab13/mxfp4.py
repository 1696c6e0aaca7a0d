"""Exercise 13.1: a block of MXFP4, its scale rounded down or up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab import datasets
from lplab.exercises.checks.numbers import decimal, sequence_text, with_power
from lplab.exercises.lab13.rounding_fp4 import mxfp4_format, to_e2m1
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure
from lplab.formats import get

GRADIENT = "transformer/step1000/blocks.1.mlp.up/gradient"
RULES = {False: "floor", True: "rceil"}


def mxfp4(block, up):
    """A block in MXFP4: its scale by the rule of 2023 (up=False), or the smallest that clips nothing (up=True)."""
    fraction, exponent = math.frexp(np.abs(block).max())
    scale = 2.0 ** (exponent - 3 + (up and fraction > 0.75))
    return scale * to_e2m1(block / scale)


AMAX, FREXP = "np.abs(block).max()", "fraction, exponent = math.frexp(np.abs(block).max())"
UP, SCALE = "(up and fraction > 0.75)", "2.0 ** (exponent - 3 + (up and fraction > 0.75))"
LOGARITHM = """amax = np.abs(block).max() or 1.0
    exponent = int(np.floor(np.log2(amax))) + 1
    fraction = amax / 2.0**exponent"""


def block(*values: float) -> np.ndarray:
    """A block as float64."""
    return np.array(values, np.float64)


def cases() -> list[Args]:
    """Largest magnitudes at powers of two, at 6 times one, and the float64 next to each; small ones at all sizes."""
    found: list[Args] = []
    for k in (-60, -9, 0, 1, 45):
        for middle in (1.0, 1.25, 1.5, 1.75):
            for largest in (middle, np.nextafter(middle, 0), np.nextafter(middle, 2)):
                scaled = block(-largest, 0.7, 0.3, -0.15, 0.1, 0.05, 0.0) * 2.0**k
                found += [(scaled, up) for up in (False, True)]
    rng = np.random.default_rng(13)
    for size in (1, 16, 32):
        x = rng.standard_normal(size) * 2.0 ** rng.integers(-4, 5, size)
        found += [(x, False), (x, True), (-np.abs(x), True)]
    return found


@cache
def gradient() -> np.ndarray:
    """The gradient of a layer of the trained Transformer, in blocks of 32 neighbours: float64 [256, 32]."""
    return datasets.captured()[GRADIENT].reshape(-1, 32).astype(np.float64)


def real_calls() -> list[Args]:
    """Every eighth block of a real gradient, by both rules."""
    return [(x, up) for x in gradient()[::8] for up in (False, True)]


def agrees_with_the_library(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether every block is that of the library's MXFP4, by the same rule."""
    for args, yours in zip(calls, results, strict=True):
        x, up = args
        expected = mxfp4_format(32, RULES[up]).quantize(x)
        wrong = np.flatnonzero(np.asarray(yours, np.float64) != expected)
        if wrong.size:
            i = int(wrong[0])
            theirs = f"yours is {decimal(float(yours[i]))}, the library's {decimal(float(expected[i]))}"
            return Finding(f"In a block of a real gradient {decimal(float(x[i]))} is rounded otherwise: {theirs}.", args, yours)
    return None


def show_block(args: Args) -> str:
    """A short block in full."""
    x, up = args
    text = "[" + ", ".join(map(decimal, x.tolist())) + "]" if x.size <= 7 else sequence_text(x)
    return f"block = {text}, up = {up}"


def why_scale(args: Args, expected: Any) -> str:
    """The scale of the block, and what it makes of the largest magnitude."""
    x, up = args
    largest = float(np.abs(x).max())
    if not largest:
        return "A block of zeros stays zeros, whatever its scale."
    codes = mxfp4_format(max(2, x.size), RULES[up]).encode(np.append(x, 0.0))
    scale = float(np.max(get("e8m0").decode(codes.scales)))
    told = f"The largest magnitude is {with_power(largest)}, the scale is {with_power(scale)}, and their quotient is {decimal(largest / scale)}."
    by_logarithm = math.ceil(math.log2(largest / 6)) if up else math.floor(math.log2(largest)) - 2
    return told if 2.0**by_logarithm == scale else f"{told} Logarithms are rounded, too, and miss this scale. Use math.frexp."


MXFP4 = Exercise(
    id="13.1",
    version=1,
    title="A block of MXFP4",
    goal="Goal 1: find the scale of a block",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `mxfp4(block, up)` for an array `block` of finite numbers. It returns the rounded array. Let $A$ be the largest magnitude of the block. The scale $X$ is a power of two:

        - With `up=False` it is the rule of 2023, $X=2^{\lfloor\log_2A\rfloor-2}$. So $A/X$ is at least 4 and below 8.
        - With `up=True` it is the **smallest** power of two with $A/X\le6$.

        Take $X$ from `f, e = math.frexp(A)`, with $A=f\cdot2^e$ and $\frac12\le f<1$. A logarithm is rounded, and can miss $X$.

        Divide each number by $X$, round it to E2M1, and multiply by $X$ again. `to_e2m1` rounds for you, and makes 6 of everything beyond. A block of zeros stays zeros.
    """,
    provided=(to_e2m1,),
    reference=mxfp4,
    form=SameShape(0),
    signed_zero=False,
    show=show_block,
    why=why_scale,
    examples=(
        Example((block(0.7, -0.1, 0.02, 3.5), False), "3.5 lies between 2 and 4, so the scale is 2¹⁻² = ½. 3.5 is 7 halves. E2M1 ends at 6 of them, so 3.5 is clipped to 3."),
        Example((block(0.7, -0.1, 0.02, 3.5), True), "With ½ only 3 would fit, so the scale is 1. 3.5 lies halfway between 3 and 4, and becomes 4, whose code is even."),
        Example((block(3.0, 1.0, 0.3, -0.2), True), "3 is exactly 6 halves. It fits, so the scale stays ½."),
        Example((block(-4.5, 0.4), True), "Magnitudes count. 4.5 is at most 6 times 1, so the scale is 1 by both rules."),
        Example((block(2.0, 0.2, -0.7), False), "2 = 2¹ is a power of two: the scale is 2¹⁻² = ½, and 2 becomes 4 halves."),
        Example((block(0.0, 0.0, 0.0), False), "Zeros stay zeros."),
        Example((block(64.0, *[1.0] * 15), False), "An outlier of 64 makes the scale 16. 1 is a sixteenth of it, and all fifteen ones become zero."),
        Example((block(7e-6, -1e-6, 3e-7), True), "Gradients are small. Scales of blocks can be smaller still."),
    ),
    boundary=cases,
    properties=(Property("blocks of a real gradient are those of the library's MXFP4", real_calls, agrees_with_the_library),),
    mistakes=(
        mistake("a logarithm, which rounds away the last step below a power of two", FREXP, LOGARITHM),
        mistake("the largest number is scaled to the octave from 1 to 2: E2M1's own exponent 2 is forgotten", "exponent - 3", "exponent - 1"),
        mistake("the exponent of frexp is taken for ⌊log₂ A⌋, but it is one more", "exponent - 3", "exponent - 2"),
        mistake("up=True makes exactly 6 of the largest magnitude: its scale is no power of two", SCALE, "((np.abs(block).max() or 6) / 6 if up else 2.0 ** (exponent - 3))"),
        mistake("E2M1 is taken to reach 8", "exponent - 3", "exponent - 4"),
        mistake("the scale is never rounded up", UP, "0"),
        mistake("the scale is always rounded up where needed, also by the rule of 2023", "up and fraction", "fraction"),
        mistake("up=True always adds an octave, also where the largest number fits", UP, "up"),
        mistake("up=True rounds the logarithm of the largest magnitude up, although 6 would hold half of an octave more", "fraction > 0.75", "fraction > 0.5"),
        mistake("a largest magnitude of exactly 6 scales is taken not to fit", "fraction > 0.75", "fraction >= 0.75"),
        mistake("signs are not taken off before the largest is looked for", AMAX, "block.max()"),
        mistake("the scale fits the smallest magnitude", AMAX, "np.abs(block).min()"),
        mistake("the scale fits the mean magnitude", AMAX, "np.abs(block).mean()"),
        mistake("each number has a scale of its own", FREXP, "fraction, exponent = np.frexp(np.abs(block))"),
        mistake("the largest magnitude becomes exactly 6: the scale is no power of two", SCALE, "(np.abs(block).max() or 6) / 6"),
        mistake("the result is not multiplied by the scale again", "scale * to_e2m1", "to_e2m1"),
        mistake("multiplied by the scale before rounding, divided by it afterwards", "scale * to_e2m1(block / scale)", "to_e2m1(block * scale) / scale"),
        mistake("the sign is lost", "to_e2m1(block / scale)", "to_e2m1(np.abs(block) / scale)"),
    ),
    hints=(
        "Take the largest magnitude 3.5. math.frexp(3.5) gives (0.875, 2), because 3.5 = 0.875 · 2². So ⌊log₂ 3.5⌋ is 1, one less than the exponent of frexp.",
        "The scale of 2023 is 2 to the exponent of frexp less 3. The largest magnitude divided by it is 8 times the fraction. Which fractions make this more than 6? Logarithms go wrong next to a power of two.",
        "Three lines: fraction and exponent of the largest magnitude; the scale, which needs one octave more where up is True and the fraction is too large; scale times to_e2m1 of block / scale.",
    ),
)


SHOWN = 2  # every second block of the gradient is drawn: figures stay fast with up to 600 marks


@student_figure("Here your {name} will round the blocks of a real gradient by both rules")
def draw_scales(function: Callable[..., Any]) -> Any:
    """A live figure: what becomes of the largest number of each block of a gradient, by both rules.

    Args:
        function: takes a block and whether its scale is rounded up; returns the rounded block.
    """
    from lplab import figures

    blocks = gradient()[np.abs(gradient()).max(1) > 0][::SHOWN]
    calls = [(x, up) for up in (False, True) for x in blocks]
    results = read_results(function, calls, MXFP4.form, as_array)
    if any(result.shape != blocks[0].shape for result in results):
        raise NotReady("it does not return one number for each number of a block")
    expected = [mxfp4_format(32, RULES[up]).quantize(x) for x, up in calls]
    same = sum(bool(np.array_equal(yours, theirs)) for yours, theirs in zip(results, expected, strict=True))
    where = np.abs(blocks).argmax(1)
    largest = blocks[np.arange(len(blocks)), where]
    each = np.array([result[i] for result, i in zip(results, np.tile(where, 2), strict=True)]).reshape(2, -1)
    return figures.scale_rules(np.abs(largest), *(np.abs(each) / np.abs(largest) - 1), agreed=(same, len(calls)))
