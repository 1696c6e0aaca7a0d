"""Exercise 03.3: updates that are lost without a master copy of the weight."""

from __future__ import annotations

import math
from typing import Any

from lplab.exercises.checks.numbers import with_power
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers


def to_bits(x, bits):
    """x rounded to so many significant bits, ties to even: 11 for float16, 8 for bfloat16."""
    m, e = math.frexp(x)
    return math.ldexp(round(m * 2**bits), e - bits)


def two_copies(w, update, steps, bits):
    """The weight that is kept in few bits, the one that has a master copy, and the updates that the first one lost."""
    narrow, master, lost = w, w, 0
    for _ in range(steps):
        new = to_bits(narrow + update, bits)
        lost += new == narrow
        narrow = new
        master = master + update
    return narrow, to_bits(master, bits), lost


NEW, LOST, MASTER = "to_bits(narrow + update, bits)", "lost += new == narrow", "master = master + update"
RESULT = "return narrow, to_bits(master, bits), lost"


def cases() -> list[Args]:
    """Weights at and inside octaves with updates around half a step of both octaves, both signs, few and many steps."""
    parts = (0.125, 0.25, 0.375, 0.5, 0.5625, 0.625, 0.75, 1.0, 1.5)  # of a step
    return [
        (w, sign * part * 2.0 ** (math.frexp(w)[1] - bits), steps, bits)
        for w in (1.0, 1.5, -1.0, 0.25, 48.0, -1.25)
        for part in parts
        for sign in (1, -1)
        for bits, steps in ((8, 1), (8, 2), (8, 7), (11, 40), (4, 30))
    ] + [(w, sign * a_little_more(w, bits), 2, bits) for w in (1.0, 1.5, -1.25) for sign in (1, -1) for bits in (4, 8, 11)]


def a_little_more(w: float, bits: int) -> float:
    """A quarter of a step around ``w`` and a little more: one significant bit too many for the narrow format.

    Two of these are more than half a step, and a tie if the update itself is rounded.
    """
    return (2**bits + 1) * math.ldexp(1.0, math.frexp(w)[1] - 2 * bits - 2)


def why(args: Args, expected: Any) -> str:
    """The update in units of the step around the weight, and the history of the first copy, which never recovers a lost update."""
    w, update, steps, bits = args
    narrow, moves = w, 0
    while moves < steps and to_bits(narrow + update, bits) != narrow:
        narrow, moves = to_bits(narrow + update, bits), moves + 1
    text = f"From w on the numbers with {bits} significant bits lie {with_power(spacing(w, update, bits))} apart: an update is {abs(update) / spacing(w, update, bits):g} of such a step."
    if moves == steps:
        return f"{text} It arrives every time, and the first copy ends at {with_power(narrow)}."
    if moves == 0:
        return f"{text} It is lost every time."
    there = abs(update) / spacing(narrow, update, bits)
    return f"{text} The first copy moves {moves} time{'s' * (moves != 1)}, to {with_power(narrow)}. There an update is {there:g} of a step, and the last {steps - moves} of {steps} are lost."


def spacing(w: float, update: float, bits: int) -> float:
    """How far the next number of the narrow format lies from ``w``, in the direction of the update."""
    fraction, exponent = math.frexp(w)
    inward = abs(fraction) == 0.5 and (w > 0) != (update > 0)  # a power of two: below it the steps are half as long
    return math.ldexp(1.0, exponent - bits - inward)


def show(args: Args) -> str:
    """The arguments in decimal and as powers of two."""
    w, update, steps, bits = args
    return f"w = {with_power(w)}, update = {with_power(update)}, steps = {steps}, bits = {bits}"


MASTER_COPY = Exercise(
    id="03.3",
    version=2,
    title="An update that is lost",
    goal="Goal 3: say why weights need a master copy",
    minutes=10,
    difficulty=2,
    statement=r"""
        A weight gets `steps` equal updates, $w \leftarrow w + update$. Write `two_copies(w, update, steps, bits)`, which follows two copies of this weight.

        - The first copy has `bits` significant bits. It is rounded after **each** update.
        - The second copy has a master copy in full precision, which takes every update as it is. It is rounded **once**, at the end.

        Return three numbers: the first copy, the second copy, and how many updates left the first copy exactly where it was. The function `to_bits` rounds for you, and `w` already fits into `bits` bits.
    """,
    provided=(to_bits,),
    reference=two_copies,
    form=Numbers(count=3),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((1.0, 2.0**-10, 100, 11), "float16 goes in steps of 2⁻¹⁰ here: every update arrives in both."),
        Example((1.0, 2.0**-12, 100, 11), "A quarter of a step, a hundred times: the first copy never moves, the second goes 25 steps."),
        Example((1.0, 2.0**-11, 6, 11), "Half a step is a tie, and 1 is even: lost every time."),
        Example((1.0, 1.25 * 2.0**-11, 4, 11), "A little more than half a step: rounded up to a whole one, every time. The first copy goes too far."),
        Example((1.0, -(2.0**-12), 8, 11), "Below 1 the steps are half as long: a tie again, but 1 is even."),
        Example((1.0, -1.25 * 2.0**-12, 8, 11), "Downward the same size arrives: half a step of the octave below is enough."),
        Example((1.0, 257 * 2.0**-17, 2, 8), "An update may have more bits than the format. Two of them are a little more than half a step: the master copy takes them in full, and rounds up."),
        Example((2.0, -3 * 2.0**-9, 3, 8), "bfloat16 with its eight bits: steps of 2⁻⁶ above 2, of 2⁻⁷ below it."),
    ),
    boundary=cases,
    mistakes=(
        mistake("the master copy is rounded after each update, too", MASTER, "master = to_bits(master + update, bits)"),
        mistake("the update is rounded before the master copy takes it", MASTER, "master = master + to_bits(update, bits)"),
        mistake("the first copy is rounded only at the end", NEW, "narrow + update", RESULT, "return to_bits(narrow, bits), to_bits(master, bits), lost"),
        mistake("the update is rounded, not the sum", NEW, "narrow + to_bits(update, bits)"),
        mistake("the forward pass sees the master copy in full", RESULT, "return narrow, master, lost"),
        mistake("the master copy takes an update only if the narrow one moves", f"narrow = new\n        {MASTER}", "master = master + update * (new != narrow)\n        narrow = new"),
        mistake("the updates that arrive are counted", "new == narrow", "new != narrow"),
        mistake("compared with the weight at the beginning, not with the one before the update", "new == narrow", "new == w"),
        mistake("whoever lost one update lost them all", RESULT, "return narrow, to_bits(master, bits), steps * (lost > 0)"),
        mistake("updates that are not exact are counted, not those that change nothing", "new == narrow", "new != narrow + update"),
        mistake("updates are lost below a whole step, not half of one", NEW, "narrow if abs(update) < 2.0 ** (math.frexp(narrow)[1] - bits) else to_bits(narrow + update, bits)"),
        mistake("one step too few", "range(steps)", "range(steps - 1)"),
        mistake("the updates are subtracted", NEW, "to_bits(narrow - update, bits)", MASTER, "master = master - update"),
        mistake("digits are cut off instead of rounded", "round(m * 2**bits)", "int(m * 2**bits)"),
        mistake("ties go up", "round(m * 2**bits)", "math.floor(m * 2**bits + 0.5)"),
        mistake("the leading 1 is not counted among the bits", "round(m * 2**bits), e - bits", "round(m * 2 ** (bits + 1)), e - bits - 1"),
    ),
    hints=(
        "With 11 bits and w = 1 the neighbours are 1 − 2⁻¹¹ and 1 + 2⁻¹⁰. Where does 1 + 2⁻¹² go? And from there, the next one?",
        "One loop, two variables: narrow = to_bits(narrow + update, bits), and master = master + update without rounding. Before narrow takes its new value, compare: equal means lost.",
        "Both copies begin at w, and the count at 0. In the loop only the first copy is rounded, and the count grows where `to_bits(narrow + update, bits) == narrow`. After the loop the master copy is rounded, once.",
    ),
)
