"""Exercise 06.1: the best exponent bias for a tensor, and what it costs at the other end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lplab import datasets, quantizers
from lplab.exercises.checks.numbers import decimal, with_power
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import NotReady, read_results, student_figure
from lplab.formats import FloatFormat, get


def best_bias(x, exponent_bits, mantissa_bits):
    """The largest bias at which nothing in x saturates, and the share of its nonzero elements that become zero."""
    size = np.abs(x[x != 0])
    fraction, exponent = math.frexp(size.max())
    full = 1 - 2.0 ** -(mantissa_bits + 1)
    bias = 2**exponent_bits - exponent - (fraction > full)
    smallest = 2.0 ** (1 - bias - mantissa_bits)
    return bias, np.mean(size <= smallest / 2)


SHAPES = ((4, 3), (5, 2), (3, 0), (2, 1))
BIAS, SMALLEST, SHARE = "2**exponent_bits - exponent - (fraction > full)", "2.0 ** (1 - bias - mantissa_bits)", "np.mean(size <= smallest / 2)"
TOLERANCE = 1e-13  # of the bias: a share, also as 1 minus another one, is off by less than 1e-15
BELOW, ABOVE = 1 - 2.0**-24, 1 + 2.0**-23  # to the next float32
LOGARITHM = "a logarithm, which rounds away what is too much"
REAL = ("blocks.0.attention.qkv/weight", "blocks.2.mlp.down/activation", "blocks.0.attention.qkv/gradient", "head/gradient")


def bias_cases() -> list[Args]:
    """Largest elements at, just below and just above the largest number and powers of two; small ones at the other end.

    Neighbours are a step of float32 away: a logarithm still tells them apart, so that each mistake is seen by itself.
    """
    cases = []
    for exponent_bits, mantissa_bits in SHAPES:
        for k in (-40, -9, 0, 7):
            top = (2 - 2.0**-mantissa_bits) * 2.0**k
            half_a_step = 2.0 ** (k - mantissa_bits - 1)
            for largest in (2.0**k, 1.5 * 2.0**k, top, top * BELOW, top * ABOVE, top + half_a_step / 2):
                bias, _ = best_bias(np.array([largest]), exponent_bits, mantissa_bits)
                end = 2.0 ** (1 - bias - mantissa_bits)
                small = np.array([end, end / 2, end / 2 * ABOVE, end / 2 * BELOW, 0.75 * end, end / 8, 0.0])
                cases.append((np.concatenate([[-largest], small]), exponent_bits, mantissa_bits))
                cases.append((np.array([largest, -largest / 64]), exponent_bits, mantissa_bits))
    return cases


def real_calls() -> list[Args]:
    """Weights, activations and gradients of the trained Transformer, for both formats of 2019."""
    stored = datasets.captured()
    return [(stored[f"transformer/step1000/{name}"], *shape) for name in REAL for shape in SHAPES[:2]]


def closest_calls() -> list[Args]:
    """The float64 next to the largest number, above and below, and those next to half of the smallest."""
    cases = []
    for exponent_bits, mantissa_bits in SHAPES:
        for k in (-40, -9, 7):
            top = (2 - 2.0**-mantissa_bits) * 2.0**k
            for largest in (top, np.nextafter(top, 0), np.nextafter(top, np.inf)):
                bias, _ = best_bias(np.array([largest]), exponent_bits, mantissa_bits)
                tie = 2.0 ** (-bias - mantissa_bits)
                small = [np.nextafter(tie, 1), tie, np.nextafter(tie, 0)]
                cases.append((np.array([largest, *small]), exponent_bits, mantissa_bits))
    return cases


def no_step_is_lost(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether magnitudes that no eye can tell from an end of the range fall on their own side of it."""
    for args, (bias, lost) in zip(calls, results, strict=True):
        expected, share = best_bias(*args)
        yours = f"Yours {decimal(bias)}, expected {decimal(expected)}"
        if bias != expected:
            x, end = args[0][0].item(), with_power((2 - 2.0 ** -args[2]) * 2.0 ** (2 ** args[1] - 2 - expected))
            if bias == expected + 1 and with_power(x) != end:
                text = f"{with_power(x)} is one rounding step above {end}, the largest number of bias {decimal(bias)}"
                advice = "log2 rounds the step away: compare with the number itself, or use frexp"
                return Finding(f"{text}; {advice}. {yours}.", args, (bias, lost), LOGARITHM)
            return Finding(f"The largest magnitude is {with_power(x)}. {yours}.", args, (bias, lost))
        if abs(lost - share) > TOLERANCE:
            text = "Half of the smallest number, and the float64 next to it on either side: only what is above survives"
            return Finding(f"{text}. The share is {share:.2f}, yours {lost:.2f}.", args, (bias, lost))
    return None


def the_format_agrees(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the format with this bias holds the tensor, the next one does not, and rounding zeroes the returned share."""
    for args, (bias, lost) in zip(calls, results, strict=True):
        x, exponent_bits, mantissa_bits = args
        fmt = FloatFormat(exponent_bits, mantissa_bits, bias=int(bias), specials="none")
        largest, ends = float(np.abs(x).max()), [fmt.max, replace(fmt, bias=int(bias) + 1).max]
        if not ends[1] < largest <= ends[0]:
            text = f"With bias {decimal(bias)} the largest number of 1-{exponent_bits}-{mantissa_bits} is {decimal(ends[0])}"
            return Finding(f"{text}, with one more {decimal(ends[1])}; the largest magnitude of the tensor is {decimal(largest)}.", args, (bias, lost))
        there = x != 0
        share = float(np.mean(fmt.quantize(x[there]) == 0))
        if abs(share - lost) > TOLERANCE:
            return Finding(f"Rounded with bias {decimal(bias)}, a share of {share:.4f} becomes zero; yours is {lost:.4f}.", args, (bias, lost))
    return None


def show_tensor(args: Args) -> str:
    """The arguments: short tensors in full."""
    x = np.ravel(args[0])
    text = "[" + ", ".join(map(with_power, x.tolist())) + "]" if x.size <= 8 else f"a tensor of {x.size:,} elements"
    return f"x = {text}, exponent_bits = {args[1]}, mantissa_bits = {args[2]}"


def why_bias(args: Args, expected: Any) -> str:
    """The two ends of the range at the expected bias."""
    bias, e, m = int(expected[0]), args[1], args[2]
    largest, smallest = 2.0 ** (2**e - 1 - bias) * (2 - 2.0**-m), 2.0 ** (1 - bias - m)
    return f"With bias {decimal(bias)} the format goes from {with_power(smallest)} to {with_power(largest)}; half of its smallest number, and less, becomes zero."


BIAS_EXERCISE = Exercise(
    id="06.1",
    version=3,
    title="The best bias for a tensor",
    goal="Goal 1: fit a format's range to a tensor",
    minutes=20,
    difficulty=2,
    statement=r"""
        A format has $e$ exponent bits, $m$ mantissa bits, bias $b$, and no codes for infinity or NaN. Its largest exponent is $E=2^e-1-b$. So its largest number is $(2-2^{-m})\cdot2^E$. Its smallest positive (subnormal) number is $2^{1-b-m}$. In 1-4-3 with bias 11, $E$ is 4, and these numbers are $1.875\cdot2^4=30$ and $2^{-13}$. (The table's 1-5-2 ends at 57,344, as its largest exponent stands for infinity and NaN.)

        Write `best_bias(x, exponent_bits, mantissa_bits)` for an array `x` with at least one nonzero element. It returns two numbers:

        1. the **largest** whole $b$, negative ones allowed, with which no magnitude in `x` is above the largest number, not even by one step of float64;
        2. the share of the **nonzero** elements that become zero with this bias. Rounding is to nearest, and a tie between zero and the smallest number goes to zero.
    """,
    reference=best_bias,
    form=Numbers(count=2),
    tolerance=TOLERANCE,
    show=show_tensor,
    why=why_bias,
    examples=(
        Example((np.array([30.0, 1.0, -0.5]), 4, 3), "30 is the largest number of HFP8's forward format: bias 11, that is 4 more than the usual 7."),
        Example((np.array([30.5, 1.0, -0.5]), 4, 3), "30.5 exceeds it: one less."),
        Example((np.array([0.25, -16.0]), 4, 3), "Magnitudes count: −16 lies in the octave that ends at 30, too."),
        Example((np.array([30.0, 2.0**-13, 2.0**-14, 1.5 * 2.0**-14, 0.0, 0.0]), 4, 3), "2⁻¹³ is the smallest number. 2⁻¹⁴ is the tie and becomes zero, 1.5 · 2⁻¹⁴ does not; the zeros do not count: one of four."),
        Example((np.array([[2.0**-8, -(2.0**-20)], [2.0**-30, 0.0]]), 4, 3), "A gradient: bias 23. Any shape."),
        Example((np.array([57344.0 * 2, 1.0]), 5, 2), "1-5-2 without reserved codes reaches 114,688 with its usual bias of 15."),
        Example((np.array([3000.0, 100.0]), 2, 1), "A negative bias: 1-2-1 reaches 3,072 with bias −8; 100 is less than half of its smallest number."),
    ),
    boundary=bias_cases,
    properties=(
        Property("the library's format with this bias holds real tensors, and rounds as many to zero", real_calls, the_format_agrees),
        Property("one rounding step above the largest number is too much", closest_calls, no_step_is_lost),
    ),
    mistakes=(
        mistake(LOGARITHM, BIAS, "int(np.floor(2**exponent_bits - 1 - np.log2(size.max() / (2 - 2.0**-mantissa_bits))))"),
        mistake("the distance from the usual bias instead of the bias: HFP8's \"bias 4\"", "return bias,", "return bias - 2 ** (exponent_bits - 1) + 1,"),
        mistake("only the octave is looked at, not the largest mantissa", " - (fraction > full)", ""),
        mistake("the range is taken to end at the uppermost power of two", "(fraction > full)", "(fraction > 0.5)"),
        mistake("one octave of room is always left", "(fraction > full)", "1"),
        mistake("a tensor that ends exactly at the largest number gets one less", "(fraction > full)", "(fraction >= full)"),
        mistake("what rounds down to the largest number is taken to fit", "(fraction > full)", "(fraction >= full + 2.0 ** -(mantissa_bits + 2))"),
        mistake("the uppermost exponent is reserved, as IEEE does", BIAS, f"{BIAS} - 1"),
        mistake("signs are not taken off", "np.abs(x[x != 0])", "x[x != 0]"),
        mistake("the range is fitted to the smallest magnitude", "math.frexp(size.max())", "math.frexp(size.min())"),
        mistake("the range is fitted to the mean magnitude", "math.frexp(size.max())", "math.frexp(size.mean())"),
        mistake("one percent of the elements may saturate", "math.frexp(size.max())", "math.frexp(np.percentile(size, 99))"),
        mistake("the scale's exponent, which has the other sign", "return bias,", "return -bias,"),
        mistake("zeros count among the elements", SHARE, "np.sum(size <= smallest / 2) / x.size"),
        mistake("everything below the smallest number is taken to become zero", "size <= smallest / 2", "size < smallest"),
        mistake("a tie goes up to the smallest number", "size <= smallest / 2", "size < smallest / 2"),
        mistake("subnormal numbers are forgotten", SMALLEST, "2.0 ** (1 - bias)"),
        mistake("subnormals are taken to have an exponent of their own", SMALLEST, "2.0 ** (-bias - mantissa_bits)"),
        mistake("a share of the sum instead of the number of elements", SHARE, "size[size <= smallest / 2].sum() / size.sum()"),
        mistake("the share that survives", SHARE, "np.mean(size > smallest / 2)"),
    ),
    hints=(
        "30 = 1.875 · 2⁴ has exponent 4 and the fullest mantissa of three bits. Which bias gives the uppermost exponent field, 15, the value 4? And what if the mantissa is fuller than 1.875?",
        "math.frexp(30) gives (0.9375, 5): a fraction from 1/2 to 1, and the exponent above the octave. The fullest fraction is 1 − 2^−(m+1). Zero is where the magnitude is at most half of 2^(1−b−m).",
        "Two steps. First the bias: 2**exponent_bits minus the exponent of frexp puts the octave of the largest magnitude at the upper end; which comparison with the fraction then takes one off? Second the share: compare np.abs(x[x != 0]) with half of the smallest number that this bias gives, and take the mean.",
    ),
)


MODEL, STEP = "transformer", 1000
GROUPS = {"weight": "weights", "activation": "activations", "gradient": "gradients"}
CHOSEN = "transformer/step1000/blocks.0.attention.qkv/gradient"


@student_figure("Here your {name} will place the window of 1-4-3 over 19 tensors")
def draw_biases(function: Callable[..., Any]) -> Any:
    """A live figure: the format 1-4-3 with the student's bias for every tensor of the trained Transformer.

    Args:
        function: takes an array, exponent bits and mantissa bits; returns the bias and the share that becomes zero.
    """
    from lplab import figures
    from lplab.widgets.explorers.plane_explorer import label_of

    stored, fmt = datasets.captured(), get("hfp8_forward")
    names = [name for role in GROUPS for name in stored.select(MODEL, STEP, role=role)]
    calls = [(stored[name], 4, 3) for name in names]
    biases = read_results(function, calls, BIAS_EXERCISE.form, lambda result: int(result[0]))
    if not all(-100 <= bias <= 100 for bias in biases):
        raise NotReady("its biases are beyond −100 to 100")
    rows, same = [], 0
    for name, bias in zip(names, biases, strict=True):
        _, _, layer, role = name.split("/")
        shift = bias - int(fmt.bias)
        rows.append(figures.tensor_row(stored[name], fmt, label=label_of(layer), group=GROUPS[role], shift=shift))
        same += 2.0**-shift == quantizers.Quantizer(fmt, quantizers.Amax(power_of_two=True)).scale(stored[name])
    sqnr = sorted(row.numbers.sqnr_db for row in rows)
    title = f"1-4-3, a bias for each tensor: {sqnr[0]:.0f} to {sqnr[-1]:.0f} dB; {same} of {len(rows)} as the library"
    return figures.range_precision(rows, fmt, chosen=names.index(CHOSEN), name="1-4-3 with your biases", title=title)
