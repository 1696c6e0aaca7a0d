"""Lab 01, Few bits, many decisions: decode, round, choose a format, and find the inputs that expose wrong roundings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lplab import formats as F

from .exercise import Example, Exercise, Property, mutant, wrong
from .forms import Number, Numbers
from .grids import boundary_values, kind, reason
from .numbers import decimal
from .questions import Question
from .rules import agrees_at_random, is_monotone, is_odd, stays_on_grid
from .variants import compiled

# ---- 01.1 decode -------------------------------------------------------------------------------------------------------


def decode(code, exponent_bits, mantissa_bits, bias):
    """Value of an IEEE code: decode(0b0_0111_100, 4, 3, 7) is 1.5."""
    field = (code >> mantissa_bits) & (2**exponent_bits - 1)
    fraction = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    if field == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    if field == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (field - bias)


SPLITS = ((4, 3, 7), (5, 2, 15), (3, 4, 3), (2, 1, 1), (4, 3, 11), (3, 2, 3))  # exponent bits, mantissa bits, bias


def show_code(args: Any) -> str:
    """The arguments of ``decode``, the code in bits."""
    code, exponent_bits, mantissa_bits, bias = args
    text = f"{code:0{1 + exponent_bits + mantissa_bits}b}"
    fields = f"{text[0]} {text[1 : 1 + exponent_bits]} {text[1 + exponent_bits :]}"
    return f"code = {code} (bits {fields}), exponent_bits = {exponent_bits}, mantissa_bits = {mantissa_bits}, bias = {bias}"


def kind_of_code(args: Any) -> str:
    """Which of the four kinds of code this is."""
    code, exponent_bits, mantissa_bits, _ = args
    field = (code >> mantissa_bits) % 2**exponent_bits
    if field == 2**exponent_bits - 1:
        return "NaNs" if code % 2**mantissa_bits else "infinities"
    if field == 0:
        return "subnormal values" if code % 2**mantissa_bits else "zeros"
    return "negative values" if code >> (exponent_bits + mantissa_bits) else "normal values"


CODE_REASONS = {
    "NaNs": "The exponent field is all ones and the mantissa is not zero: not a number.",
    "infinities": "The exponent field is all ones and the mantissa is zero: infinity, with its sign.",
    "subnormal values": "The exponent field is 0: there is no leading 1, and the exponent is 1 − bias, the same as for field 1.",
    "zeros": "All bits but the sign are 0: zero, with its sign.",
    "negative values": "The leading bit is the sign.",
    "normal values": "An ordinary number: a leading 1, the mantissa behind the point, the exponent field less the bias.",
}

DECODE = Exercise(
    id="01.1",
    version=1,
    title="Decode",
    goal="Goal 1: decode any floating-point number",
    minutes=10,
    difficulty=1,
    statement=r"""
        Write `decode(code, exponent_bits, mantissa_bits, bias)`: the value of a code as IEEE 754 reads it, for any split of the bits. `code` is an integer, its highest bit is the sign, then
        comes the exponent field $e$, then the mantissa field $f$. The formula above holds for the ordinary codes. Three kinds are not ordinary: exponent field all zeros (zero and the subnormals, $2^{1-\text{bias}}\cdot f/2^m$),
        exponent field all ones with $f=0$ (infinity) and with $f\neq0$ (NaN). Zero and infinity have signs, too.
    """,
    stub='''
        import math


        def decode(code, exponent_bits, mantissa_bits, bias):
            """Value of an IEEE code: decode(0b0_0111_100, 4, 3, 7) is 1.5."""
            raise NotImplementedError
    ''',
    reference=decode,
    form=Number(),
    examples=(
        Example((0b0_0111_000, 4, 3, 7), "The exponent field equals the bias and the mantissa is 0: this is 1."),
        Example((0b0_0111_100, 4, 3, 7), "The highest mantissa bit is worth one half: 1.5."),
        Example((0b1_1000_010, 4, 3, 7), "The sign is 1, the exponent 1, the mantissa 2/8: −1.25 × 2."),
        Example((0b0_0000_001, 4, 3, 7), "The smallest subnormal: no leading 1, one eighth of 2⁻⁶."),
        Example((0b0_0001_000, 4, 3, 7), "The smallest normal number, 2⁻⁶: the subnormals end just below it, in equal steps."),
        Example((0b0_11110_11, 5, 2, 15), "The largest finite number of E5M2: 1.75 × 2¹⁵."),
        Example((0b1_11111_00, 5, 2, 15), CODE_REASONS["infinities"]),
        Example((0b0_11111_10, 5, 2, 15), CODE_REASONS["NaNs"]),
    ),
    boundary=lambda: [(code, e, m, bias) for e, m, bias in SPLITS for code in range(2 ** (1 + e + m))],
    show=show_code,
    kind=kind_of_code,
    why=lambda args, expected: CODE_REASONS[kind_of_code(args)],
    mutants=(
        mutant("every code has a leading 1, also the subnormals", "    if field == 0:\n        return sign * fraction * 2.0 ** (1 - bias)\n", ""),
        mutant("subnormals have the exponent −bias instead of 1 − bias", "2.0 ** (1 - bias)", "2.0 ** (-bias)"),
        mutant("subnormals are zero", "sign * fraction * 2.0 ** (1 - bias)", "sign * 0.0"),
        mutant("the bias is one too large", "(field - bias)", "(field - bias - 1)"),
        mutant("the bias is added", "(field - bias)", "(field + bias)"),
        mutant("the bias is always 2^(e−1) − 1, whatever is asked for", "    field =", "    bias = 2 ** (exponent_bits - 1) - 1\n    field ="),
        mutant("the sign is ignored", "-1.0 if", "1.0 if"),
        mutant("zero has no sign", "return sign * fraction *", "return 0.0 if fraction == 0 else sign * fraction *"),
        mutant("infinity has no sign", "sign * math.inf", "math.inf"),
        mutant("the exponent field of all ones is an ordinary one", "    if field == 2**exponent_bits - 1:\n        return math.nan if fraction else sign * math.inf\n", ""),
        mutant("every code with an exponent field of all ones is NaN", "math.nan if fraction else sign * math.inf", "math.nan"),
        mutant("every code with an exponent field of all ones is infinite", "math.nan if fraction else sign * math.inf", "sign * math.inf"),
        mutant("only the last code is NaN, as in E4M3", "math.nan if fraction else sign * math.inf", "math.nan if fraction == 1 - 2.0**-mantissa_bits else sign * (1 + fraction) * 2.0 ** (field - bias)"),
        mutant("the mantissa is read as an integer, not as a fraction", "/ 2**mantissa_bits", "/ 1"),
        mutant("the exponent field is read as two's complement", "(field - bias)", "(field - 2**exponent_bits if field >= 2 ** (exponent_bits - 1) else field)"),
    ),
    hints=(
        "Look at the smallest code that is missed and at its exponent field: all zeros, all ones, or between? Each of the three is read by a rule of its own.",
        "Cut the code into three integers first: `code >> mantissa_bits` drops the mantissa; `& (2**exponent_bits - 1)` keeps the exponent field. Then the cases: `field == 0`, `field == 2**exponent_bits - 1`, all others.",
        "The skeleton: field, fraction = f / 2**m, sign = ±1.0. If the field is all ones: NaN if fraction else sign × inf. If the field is 0: sign × fraction × 2^(1 − bias). Else: sign × (1 + fraction) × 2^(field − bias).",
    ),
)  # fmt: skip


# ---- 01.2 round to nearest, ties to even -------------------------------------------------------------------------------


def round_e4m3(x):
    """The number of E4M3 nearest to the float x: round_e4m3(0.3) is 0.3125."""
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
        Write `round_e4m3(x)`: the number of E4M3 (4 exponent bits, 3 mantissa bits, bias 7) nearest to a float. A tie goes to the neighbour whose code ends in 0. Beyond 448 the function saturates; subnormals
        reach down to $2^{-9}$; zero keeps its sign, NaN stays NaN. Use nothing but Python and `math`: `math.frexp(x)` gives `(m, e)` with $x = m\cdot2^e$ and $\tfrac12\le|m|<1$, exactly.
    """,
    stub='''
        import math


        def round_e4m3(x):
            """The number of E4M3 nearest to the float x: round_e4m3(0.3) is 0.3125."""
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
        Example((-0.0,), "Zero keeps its sign: −0 is a number of its own."),
    ),
    boundary=lambda: [(x,) for x in boundary_values(E4M3).tolist()],
    properties=(agrees_at_random(E4M3), is_odd(E4M3), is_monotone(E4M3), stays_on_grid(E4M3)),
    kind=lambda args: kind(E4M3, args[0]),
    why=why_rounded,
    line=lambda args: E4M3,
    mutants=(
        mutant("ties go away from zero", TIE, "math.floor(size / step + 0.5)"),
        mutant("ties go up, toward plus infinity", "math.copysign(round(size / step) * step, x)", "math.copysign((math.floor(size / step + 0.5) if x > 0 else math.ceil(size / step - 0.5)) * step, x)"),
        mutant("ties go toward zero", TIE, "math.ceil(size / step - 0.5)"),
        mutant("ties go to the odd code", TIE, "(math.floor(size / step) + (size / step % 1 > 0.5 or (size / step % 1 == 0.5 and size / step % 2 < 1)))"),
        mutant("digits are cut off instead of rounded", TIE, "math.floor(size / step)"),
        mutant("rounding up never carries into the next octave", TIE, "(round(size / step) if octave == -6 else min(round(size / step), 15))"),
        mutant("the octave is found by rounding log2 instead of taking it down", "math.frexp(size)[1] - 1", "(round(math.log2(size)) if size else -99)"),
        mutant("the octave is found by the float32 logarithm", "math.frexp(size)[1] - 1", "(int(np.floor(np.log2(np.float32(size)))) if np.float32(size) else -99)", equivalent="the logarithm goes wrong only just below a power of two, where the value rounds up to that power on either grid"),
        mutant("the bias is 8 instead of 7", "math.frexp(size)[1] - 1, -6", "math.frexp(size)[1] - 1, -7"),
        mutant("the bias is 6 instead of 7", "math.frexp(size)[1] - 1, -6", "math.frexp(size)[1] - 1, -5"),
        mutant("subnormals are flushed to zero", "    return math", "    if round(size / step) * step < 2.0**-6:\n        return math.copysign(0.0, x)\n    return math"),
        mutant("the largest number is 480, whose code is NaN", "448.0", "480.0"),
        mutant("the largest number is 240, as if the whole last octave were special", "448.0", "240.0"),
        mutant("numbers beyond 448 become infinite", "    size = min(abs(x), 448.0)", "    if abs(x) >= 464:\n        return math.copysign(math.inf, x)\n    size = min(abs(x), 448.0)"),
        mutant("numbers beyond 448 become NaN", "    size = min(abs(x), 448.0)", "    if abs(x) >= 464:\n        return math.nan\n    size = min(abs(x), 448.0)"),
        mutant("zero loses its sign", "    return math", "    if round(size / step) == 0:\n        return 0.0\n    return math"),
        mutant("NaN becomes zero", "        return x", "        return 0.0"),
        mutant("NaN becomes the largest number", "        return x", "        return 448.0"),
    ),
    hints=(
        "Find the step at the missed number: how far apart are its two neighbours? In the octave [2^k, 2^(k+1)) it is 2^(k−3), below 2⁻⁶ it stays 2⁻⁹. Then x is a number of steps, and only that number is rounded.",
        "Python's own `round` takes ties to the even integer, which is the code that ends in 0. What is left: find the octave with `math.frexp` (mind its off-by-one: frexp(1.0) is (0.5, 1)), do not let it sink below −6, cut at 448, and give the sign back with `math.copysign`.",
        "The skeleton: NaN first. size = min(abs(x), 448). octave = max(frexp exponent − 1, −6). step = 2.0 ** (octave − 3). Return copysign(round(size / step) × step, x).",
    ),
)  # fmt: skip


# ---- 01.3 where one format beats the other -----------------------------------------------------------------------------


def duel():
    """A number at which fp16 is closer than bf16, and one at which bf16 is closer than fp16."""
    return 1 / 3, 1e6


HALF, BRAIN = F.get("fp16"), F.get("bf16")


def loser(x: float) -> tuple[float, float]:
    """Errors of fp16 and of bf16 at x."""
    return abs(float(HALF.quantize(x)) - x), abs(float(BRAIN.quantize(x)) - x)


def judge_duel(args: Any, result: Any) -> str:
    """What is wrong with a pair of inputs; "" if each format wins once."""
    first, second = map(float, result)
    for x in (first, second):
        if not math.isfinite(x):
            return f"{decimal(x)} is no number to compare errors at: choose finite ones."
    for x, better, worse, order in ((first, "fp16", "bf16", 1), (second, "bf16", "fp16", -1)):
        ours, theirs = loser(x)[::order]
        values = f"At {decimal(x)} fp16 gives {decimal(float(HALF.quantize(x)))} and bf16 gives {decimal(float(BRAIN.quantize(x)))}"
        if ours == theirs == 0:
            return f"{values}: both are exact, so neither beats the other."
        if ours >= theirs:
            return f"{values}: {better} is not closer there; {'they are equally far' if ours == theirs else worse + ' is'}."
    return ""


DUEL = Exercise(
    id="01.3",
    version=1,
    title="Where fp16 beats bf16, and the reverse",
    goal="Goal 3: choose between range and precision",
    minutes=5,
    difficulty=1,
    statement="""
        Both have sixteen bits. Find two finite numbers: the first one at which fp16 (1-5-10) is closer to the truth than bf16 (1-8-7), the second one at which bf16 is closer. Return both. There are many right answers.
    """,
    stub='''
        def duel():
            """A number at which fp16 is closer than bf16, and one at which bf16 is closer than fp16."""
            raise NotImplementedError
    ''',
    reference=duel,
    form=Numbers(count=2),
    examples=(Example((), "What decides is the range for one and the number of mantissa bits for the other."),),
    accept=judge_duel,
    mutants=(
        wrong("the pair is the wrong way round", "def duel():\n    return 1e6, 1 / 3"),
        wrong("both formats are exact at powers of two", "def duel():\n    return 0.5, 1e6"),
        wrong("65504 is the largest number of fp16, not beyond it", "def duel():\n    return 0.1, 65504.0"),
        wrong("small numbers always favour bf16, also those that fp16 still holds", "def duel():\n    return 0.1, 1.1e-4"),
        wrong("at the end of their range both overflow", "def duel():\n    return 0.1, 1e39"),
        wrong("fp16 is the more precise everywhere, also beyond its range", "def duel():\n    return 1e5, 1e-8"),
        wrong("numbers that both flush to zero", "def duel():\n    return 0.1, 1e-45"),
        wrong("infinity is a number to compare at", "def duel():\n    return 0.1, float('inf')"),
        wrong("NaN is a number to compare at", "def duel():\n    return float('nan'), 1e6"),
        wrong("integers are exact in both formats", "def duel():\n    return 256, 1e6"),
    ),
    hints=(
        "Type both formats into the explorer above and compare: which one reaches farther, which one has finer steps where both reach?",
        "Three mantissa bits more make fp16 closer nearly everywhere in its range; beyond 65,504 it has only infinity, and below 2⁻²⁵ only zero. bf16 goes on to 3.4 × 10³⁸ and 10⁻⁴⁰.",
        "For the first take any number near 1 with many digits, such as a third. For the second take one that fp16 cannot reach but bf16 can, such as a million.",
    ),
)  # fmt: skip


# ---- 01.4 inputs that kill ---------------------------------------------------------------------------------------------


def killers():
    """At most three inputs that expose the roundings away, flush and wide."""
    return [1.0625, 2.0**-9, 500.0]


SUSPECTS = {
    "away": "ties go away from zero",
    "flush": "subnormals are flushed to zero",
    "wide": "the largest number is 480, whose code is NaN",
}
BUGGY = {name: next(m for m in ROUND.mutants if m.name == text) for name, text in SUSPECTS.items()}


def judge_killers(args: Any, result: Any) -> str:
    """Which suspects survive a list of inputs; "" if none does."""
    inputs = [float(x) for x in result]
    survivors = [name for name, suspect in BUGGY.items() if not _exposed(suspect, inputs)]
    if not survivors:
        return ""
    killed = ", ".join(name for name in BUGGY if name not in survivors)
    return f"Still alive: {', '.join(survivors)}" + (f" (exposed: {killed})." if killed else ".")


def _exposed(suspect: Any, inputs: list[float]) -> bool:
    buggy = compiled(suspect.apply(ROUND.solution), "round_e4m3")
    return any(not _equal(buggy(x), round_e4m3(x)) for x in inputs)


def _equal(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


KILL = Exercise(
    id="01.4",
    version=1,
    title="Inputs that expose three wrong roundings",
    goal="Goal 2: name what goes wrong",
    minutes=10,
    difficulty=2,
    statement="""
        Three colleagues wrote `round_e4m3`, and all three pass a thousand random tests. **away** sends ties away from zero; **flush** has no subnormals: results below 2⁻⁶ become zero; **wide** takes 480 for the largest
        number. Return a list of at most three inputs that exposes all three: for each colleague at least one input at which the answer differs from the right one.
    """,
    stub='''
        def killers():
            """At most three inputs that expose the roundings away, flush and wide."""
            raise NotImplementedError
    ''',
    reference=killers,
    form=Numbers(most=3),
    examples=(Example((), "A random number hardly ever hits a tie; these inputs must be chosen."),),
    accept=judge_killers,
    mutants=(
        wrong("three random numbers", "def killers():\n    return [0.3, -1.7, 12.4]"),
        wrong("a tie whose even neighbour lies outward exposes nothing", "def killers():\n    return [1.1875, 2.0**-9, 500.0]"),
        wrong("a normal number is not flushed", "def killers():\n    return [1.0625, 2.0**-6, 500.0]"),
        wrong("what rounds to zero anyway is no proof of flushing", "def killers():\n    return [1.0625, 2.0**-11, 500.0]"),
        wrong("between 448 and 464 both saturate at 448", "def killers():\n    return [1.0625, 2.0**-9, 460.0]"),
        wrong("exactly representable numbers", "def killers():\n    return [1.0, 0.5, 448.0]"),
        wrong("zeros and NaN", "def killers():\n    return [0.0, -0.0, float('nan')]"),
        wrong("only overflow", "def killers():\n    return [500.0, 1e6, float('inf')]"),
        wrong("only ties", "def killers():\n    return [1.0625, 1.3125, 2.125]"),
    ),
    hints=(
        "Take the colleagues one by one. Where does the rule of *away* differ from ties to even? Only on ties, and only on those whose even neighbour is the inner one.",
        "*flush* is exposed by any number that rounds to something between 0 and 2⁻⁶. *wide* is exposed where the right answer is 448 but 480 is nearer.",
        "1.0625 is a tie between 1 and 1.125. 2⁻⁹ is the smallest subnormal. Any number above 464 is nearer to 480 than to 448.",
    ),
)  # fmt: skip

# ---- what is asked before it is seen ------------------------------------------------------------------------------------


def codes_between(low: float, high: float) -> int:
    """How many codes of E4M3 stand for a number strictly between two."""
    values = E4M3.codebook()
    return int(np.sum((values > low) & (values < high)))


QUESTIONS = (
    Question("01.a", "How many of E4M3's 256 codes lie strictly between 0 and 1?", lambda: codes_between(0, 1), unit="codes", because="Codes are spread evenly over octaves, not over numbers."),
)  # fmt: skip
EXERCISES = (DECODE, ROUND, DUEL, KILL)
