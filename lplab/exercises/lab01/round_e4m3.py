"""Exercise 01.2: round to nearest, ties to even."""

from __future__ import annotations

import math
from typing import Any

from lplab import formats as F
from lplab.exercises.checks.grids import boundary_values, kind, reason
from lplab.exercises.checks.rounding_properties import agrees_at_random, is_monotone, is_odd, stays_on_grid
from lplab.exercises.model.exercise import Example, Exercise, mistake
from lplab.exercises.model.forms import Number


def round_e4m3(x):
    """The number of E4M3 nearest to the float x; 0.3 becomes 0.3125."""
    if math.isnan(x):
        return x
    size = min(abs(x), 448.0)
    octave = max(math.frexp(size)[1] - 1, -6)
    step = 2.0 ** (octave - 3)
    return math.copysign(round(size / step) * step, x)


E4M3 = F.get("e4m3fn")
TIE = "round(size / step)"


def why_rounded(args: Any, expected: float) -> str:
    """What is special about this number, and for a tie, which code is the even one."""
    text = reason(E4M3, args[0], expected)
    return text + (" The code whose last bit is 0 is the one to take." if kind(E4M3, args[0]) == "ties" else "")


ROUND = Exercise(
    id="01.2",
    version=1,
    title="Round to nearest, ties to even",
    goal="Goal 2: round by hand, ties and all",
    minutes=20,
    difficulty=2,
    statement=r"""
        Write `round_e4m3(x)`. It returns the number of E4M3 (4 exponent bits, 3 mantissa bits, bias 7) nearest to the float `x`.

        - A tie goes to the neighbour whose code ends in 0.
        - Beyond 448 the function saturates, at infinity, too.
        - Subnormals reach down to $2^{-9}$.
        - Zero keeps the sign of `x`, and NaN stays NaN.

        Use only Python and `math`. `math.frexp(x)` gives `(m, e)` with $x = m\cdot2^e$ and $\tfrac12\le|m|<1$, exactly.
    """,
    stub='''
        import math


        def round_e4m3(x):
            """The number of E4M3 nearest to the float x; 0.3 becomes 0.3125."""
            raise NotImplementedError
    ''',
    reference=round_e4m3,
    form=Number(),
    examples=(
        Example((0.3,), "Between 0.28125 and 0.3125, nearer to the second."),
        Example((1.0625,), "Halfway between 1 (0 0111 000) and 1.125 (0 0111 001): the code that ends in 0 is 1."),
        Example((1.1875,), "Halfway between 1.125 (0 0111 001) and 1.25 (0 0111 010): here the even one is the upper."),
        Example((-2.9,), "Negative numbers mirror the positive ones: −2.9 is nearest to −3."),
        Example((1.97,), "Nearest to 2: rounding up may carry into the next octave."),
        Example((464.0,), "464 lies halfway between 448 and the missing 480; the function saturates at 448."),
        Example((2.0**-10,), "Half of the smallest subnormal 2⁻⁹: a tie between 0 and 2⁻⁹, and 0 is even."),
        Example((-0.0005,), "Less than half of the smallest subnormal: it becomes −0, because the sign stays."),
        Example((-0.0,), "Zero keeps its sign: −0 is a number of its own."),
    ),
    boundary=lambda: [(x,) for x in boundary_values(E4M3).tolist()],
    properties=(agrees_at_random(E4M3), is_odd(E4M3), is_monotone(E4M3), stays_on_grid(E4M3)),
    kind=lambda args: kind(E4M3, args[0]),
    why=why_rounded,
    number_line_format=lambda args: E4M3,
    mistakes=(
        mistake("ties go away from zero", TIE, "math.floor(size / step + 0.5)"),
        mistake("ties go up, toward plus infinity", "math.copysign(round(size / step) * step, x)", "math.copysign((math.floor(size / step + 0.5) if x > 0 else math.ceil(size / step - 0.5)) * step, x)"),
        mistake("ties go toward zero", TIE, "math.ceil(size / step - 0.5)"),
        mistake("ties go to the odd code", TIE, "(math.floor(size / step) + (size / step % 1 > 0.5 or (size / step % 1 == 0.5 and size / step % 2 < 1)))"),
        mistake("digits are cut off instead of rounded", TIE, "math.floor(size / step)"),
        mistake("rounding up never carries into the next octave", TIE, "(round(size / step) if octave == -6 else min(round(size / step), 15))"),
        mistake("the octave is found by rounding log2 instead of taking it down", "math.frexp(size)[1] - 1", "(round(math.log2(size)) if size else -99)"),
        mistake("the octave is found by the float32 logarithm", "math.frexp(size)[1] - 1", "(int(np.floor(np.log2(np.float32(size)))) if np.float32(size) else -99)", equivalent="the logarithm goes wrong only just below a power of two, where the value rounds up to that power on either grid"),
        mistake("the bias is 8 instead of 7", "math.frexp(size)[1] - 1, -6", "math.frexp(size)[1] - 1, -7"),
        mistake("the bias is 6 instead of 7", "math.frexp(size)[1] - 1, -6", "math.frexp(size)[1] - 1, -5"),
        mistake("the steps go on shrinking below 2⁻⁶, as if there were smaller exponents", "max(math.frexp(size)[1] - 1, -6)", "math.frexp(size)[1] - 1", raises="ZeroDivisionError"),
        mistake("subnormals are flushed to zero", "    return math", "    if round(size / step) * step < 2.0**-6:\n        return math.copysign(0.0, x)\n    return math"),
        mistake("the largest number is 480, whose code is NaN", "448.0", "480.0"),
        mistake("the largest number is 240, as if the whole last octave were special", "448.0", "240.0"),
        mistake("numbers beyond 448 become infinite", "    size = min(abs(x), 448.0)", "    if abs(x) >= 464:\n        return math.copysign(math.inf, x)\n    size = min(abs(x), 448.0)"),
        mistake("numbers beyond 448 become NaN", "    size = min(abs(x), 448.0)", "    if abs(x) >= 464:\n        return math.nan\n    size = min(abs(x), 448.0)"),
        mistake("zero loses its sign", "    return math", "    if round(size / step) == 0:\n        return 0.0\n    return math"),
        mistake("NaN becomes zero", "        return x", "        return 0.0"),
        mistake("NaN becomes the largest number", "        return x", "        return 448.0"),
    ),
    hints=(
        "Find the step at the missed number: how far apart are its two neighbours? In the octave [2^k, 2^(k+1)) it is 2^(k−3), below 2⁻⁶ it stays 2⁻⁹. Then x is a number of steps, and only that number is rounded.",
        "Python's own `round` takes ties to the even integer, which is the code that ends in 0. What is left: find the octave with `math.frexp` (mind its off-by-one: frexp(1.0) is (0.5, 1)), do not let it sink below −6, cut at 448, and give the sign back with `math.copysign`.",
        "Follow 0.3 on paper: frexp gives the exponent −1, so the octave begins at 2^−2, the step is 2^−5, and 0.3 is 9.6 steps. What becomes of 9.6? Then follow 0.001, whose octave is far below 2^−6, and 500: at which of these lines must each be cut, before the step is known or after it?",
    ),
)
