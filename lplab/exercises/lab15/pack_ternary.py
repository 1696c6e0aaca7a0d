"""Exercise 15.6: weights of three levels, five of them in a byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from lplab.exercises.checks.close import TOLERANCE
from lplab.exercises.checks.numbers import decimal, sequence_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import describe_value, is_number
from lplab.exercises.student_figures import as_array, read_results, student_figure
from lplab.formats import IntFormat


def pack_ternary(w):
    """The scale of a row of weights that become -1, 0 or 1 times it, and the bytes that hold five of them each."""
    scale = np.abs(w).mean()
    digits = np.clip(np.round(w / scale), -1, 1) + 1
    digits = np.append(digits, np.ones(-len(w) % 5))
    return scale, (digits.reshape(-1, 5) @ [1, 3, 9, 27, 81]).astype(np.uint8)


SCALE, DIGITS = "np.abs(w).mean()", "np.clip(np.round(w / scale), -1, 1) + 1"
FILLED, PACKED = "np.append(digits, np.ones(-len(w) % 5))", "digits.reshape(-1, 5) @ [1, 3, 9, 27, 81]"
RETURNED = "return scale, "


@dataclass(frozen=True)
class ScaleAndBytes:
    """A number, and an array or list of whole numbers from 0 to 255, in a tuple or list."""

    names: ClassVar[tuple[str, ...]] = ("scale", "bytes")

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with the form of a result; "" if it is right.

        >>> ScaleAndBytes().problem((), (0.5, np.array([121, 300])))
        'returns 300 among its bytes: a byte is a whole number from 0 to 255'
        >>> ScaleAndBytes().problem((), np.array([0.5, 121.0]))
        'returns an array of shape (2,) and dtype float64: return a scale and an array of bytes'
        """
        pair = list(result) if isinstance(result, list | tuple) else []
        if len(pair) != 2 or not is_number(pair[0]) or np.ndim(pair[1]) != 1:
            return f"returns {describe_value(result)}: return {self.describe()}"
        odd = next((each for each in np.asarray(pair[1]).tolist() if not is_number(each) or not 0 <= each <= 255 or each != int(each)), None)
        return "" if odd is None else f"returns {decimal(odd)} among its bytes: a byte is a whole number from 0 to 255"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "a scale and an array of bytes"


def row(*values: float) -> tuple[np.ndarray]:
    """A call with a row of weights: float64."""
    return (np.array(values, np.float64),)


def weights(seed: int, size: int) -> tuple[np.ndarray]:
    """A call with weights none of which lies near a border between levels, nor near that by another statistic."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=size) * np.exp2(rng.integers(-3, 4))
    border = np.abs(w).mean() / 2
    return (np.where(np.abs(np.abs(w) - border) < 1e-6 * border, 0.0, w),)


def cases() -> list[Args]:
    """One to sixteen weights and more, so that the last byte is full and is not; all of one sign; rows with ties."""
    found = [weights(seed, size) for seed, size in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 33, 100))]
    found += [(np.abs(weights(20, 8)[0]),), (-np.abs(weights(21, 9)[0]),)]
    return [*found, row(0.5, -0.5, 1.5, 1.5), row(1, 3, -1, 3, 2), row(0, 0, 0, 0, 8), row(-2, -2, -2, -2, -2, -2, -2)]


def all_bytes() -> list[Args]:
    """Each of the 243 patterns of five levels once, as one row of 1,215 weights, and the same row backward."""
    digits = np.arange(243)[:, None] // 3 ** np.arange(5) % 3 - 1.0
    return [(1.5 * digits.ravel(),), (1.5 * digits[::-1].ravel(),)]


def unpacked(scale: float, packed: Any, size: int) -> np.ndarray:
    """The weights that a scale and bytes stand for: float64 [size]."""
    return float(scale) * ((np.asarray(packed, np.int64)[:, None] // 3 ** np.arange(5) % 3).ravel()[:size] - 1.0)


def comes_back(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether each pattern of five levels has a byte of its own, from which it comes back."""
    for args, (scale, packed) in zip(calls, results, strict=True):
        (w,) = args
        if len(packed) != -(-w.size // 5):
            return Finding(f"{w.size:,} weights take {len(packed):,} bytes. Five in a byte take {-(-w.size // 5):,}.", args)
        wrong = int((np.sign(unpacked(scale, packed, w.size)) != np.sign(w)).sum())
        if wrong:
            return Finding(f"Unpacked again, {wrong:,} of {w.size:,} weights have another sign than before.", args)
    return None


def show(args: Args) -> str:
    """Short rows in full."""
    (w,) = args
    return f"w = {'(' + ', '.join(map(decimal, w.tolist())) + ')' if w.size <= 10 else sequence_text(w)}"


def why(args: Args, expected: Any) -> str:
    """The scale and the levels."""
    (w,), (scale, _) = args, expected
    levels = np.clip(np.round(w / scale), -1, 1).astype(int).tolist()
    told = f" The levels are {sequence_text(levels)}." if len(levels) <= 6 else ""
    filled = f" The last byte has {w.size % 5} of them, and zeros behind." if w.size % 5 else ""
    return f"The mean magnitude is {decimal(float(f'{scale:.6g}'))}.{told}{filled}"


PACK_TERNARY = Exercise(
    id="15.6",
    version=1,
    title="Five weights in a byte",
    goal="Goal 4: pack three levels",
    minutes=15,
    difficulty=2,
    statement=r"""
        BitNet's weights are −1, 0 or 1 times a scale. As $3^5=243$ is below 256, five of them fit into a byte. Write `pack_ternary(w)` for a row `w` of weights, not all zero. It returns the scale and an array of bytes.

        1. The scale is the mean magnitude of the row.
        2. The level of a weight is the weight divided by the scale, rounded to a whole number (halfway to the even one), and limited to −1, 0 and 1.
        3. A byte holds five neighbours. It is a number with five digits in base 3, and each digit is a level plus 1. The **first** of the five weights is the digit for ones, the second that for threes, and so on. If the last byte has fewer weights, weights of level **0** fill it up.
    """,
    reference=pack_ternary,
    form=ScaleAndBytes(),
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example(row(2, -2, 2, -2, 2), "All have the mean magnitude 2, so the levels are 1, −1, 1, −1, 1 and the digits 2, 0, 2, 0, 2. The byte is 2 + 2 · 9 + 2 · 81 = 182."),
        Example(row(1, 1, 1, 1, -1), "The digits are 2, 2, 2, 2, 0. The first weight is the digit for ones, so the byte is 2 + 6 + 18 + 54 = 80."),
        Example(row(4, 0, 0, 0, 1), "The mean magnitude is 1. 4 is limited to 1, and the zeros have the digit 1. The byte is 2 + 3 + 9 + 27 + 2 · 81 = 203."),
        Example(row(3, -3), "Two weights are the digits 2 and 0. Three of level 0, whose digit is 1, fill the byte: 2 + 0 + 9 + 27 + 81 = 119."),
        Example(row(2, 2, 2, 2, 2, -2), "Six weights need two bytes. All digits of the first are 2. The second has 0, and four digits 1."),
        Example(row(1, -1, 3, -3, 2), "The mean magnitude is 2. ±1 lie halfway between two levels, and the even one is 0."),
        Example(row(-1, -1, -1, -1, -5), "The mean magnitude is 1.8, although the mean is −1.8. All levels are −1, so the byte is 0."),
    ),
    boundary=cases,
    properties=(Property("all 243 patterns of five levels come back from their bytes", all_bytes, comes_back),),
    mistakes=(
        mistake("the largest magnitude is the scale", SCALE, "np.abs(w).max()"),
        mistake("the root mean square is the scale", SCALE, "np.sqrt((w**2).mean())"),
        mistake("the median magnitude is the scale", SCALE, "np.median(np.abs(w)) + 1e-300"),
        mistake("the mean is the scale, not the mean magnitude", SCALE, "abs(w.mean()) + 1e-300"),
        mistake("only the sign counts: no weight but zero becomes 0", DIGITS, "np.sign(w) + 1"),
        mistake("levels are cut off toward zero, not rounded", DIGITS, "np.clip(np.trunc(w / scale), -1, 1) + 1"),
        mistake("halfway, the level goes away from zero", DIGITS, "np.clip(np.sign(w) * np.floor(np.abs(w) / scale + 0.5), -1, 1) + 1"),
        mistake("levels are not limited to −1, 0 and 1", DIGITS, "np.round(w / scale) + 1", PACKED, "np.abs(digits.reshape(-1, 5) @ [1, 3, 9, 27, 81]) % 256"),
        mistake("−1 gets the digit 2, and 0 and 1 stay as they are", DIGITS, "np.clip(np.round(w / scale), -1, 1) % 3", FILLED, "np.append(digits, np.zeros(-len(w) % 5))"),
        mistake("the byte is filled up with the digit 0, which is the level −1", FILLED, "np.append(digits, np.zeros(-len(w) % 5))"),
        mistake("the last weights that fill no byte are left out", FILLED, "digits[: len(w) // 5 * 5]"),
        mistake("the byte is filled up in front, not behind", FILLED, "np.append(np.ones(-len(w) % 5), digits)"),
        mistake("the first weight is the digit for 81, not for ones", PACKED, "digits.reshape(-1, 5) @ [81, 27, 9, 3, 1]"),
        mistake("digits have base 4, and four fit into a byte", FILLED, "np.append(digits, np.ones(-len(w) % 4))", PACKED, "digits.reshape(-1, 4) @ [1, 4, 16, 64]"),
        mistake("weights that lie apart share a byte, not neighbours", PACKED, "digits.reshape(5, -1).T @ [1, 3, 9, 27, 81]"),
        mistake("a byte for each weight", FILLED, "digits", PACKED, "digits"),
        mistake("the scale is not returned: it is 1", RETURNED, "return 1.0, "),
        mistake("the sum of the magnitudes is the scale", SCALE, "np.abs(w).sum()"),
    ),
    hints=(
        "Take w = (3, −3). The mean magnitude is 3, so the levels are 1 and −1, and the digits 2 and 0. Three digits 1 fill the byte. In base 3, its value is 2 · 1 + 0 · 3 + 1 · 9 + 1 · 27 + 1 · 81.",
        "np.round takes the even number halfway, and np.clip limits. A reshape to five columns puts five neighbours into a row. The powers of 3 as a vector turn each row into a number.",
        "Four steps: the scale, the digits, the digits that fill the last byte, the bytes. How many digits are missing? -n % 5 is 0 where 5 divides n. Which power of 3 belongs to the first column?",
    ),
)


# ---- matrices of a trained network -----------------------------------------------------------------------------------

LAYERS = {
    "qkv 0": "blocks.0.attention.qkv",
    "project 1": "blocks.1.attention.project",
    "up 1": "blocks.1.mlp.up",
    "down 2": "blocks.2.mlp.down",
    "head": "head",
}
SHARING = {"64 weights share a scale": 64, "16 weights share a scale": 16}
ROWS = 8


@student_figure("Here the error of five layers in three levels, as your {name} packs them, will be drawn")
def draw_ternary(function: Callable[..., Any]) -> Any:
    """A live figure of how far trained weights are from their three levels, unpacked from a function's bytes.

    Args:
        function: takes a row of weights, and returns a scale and bytes.
    """
    from lplab import figures

    calls = [(w,) for size in SHARING.values() for layer in LAYERS.values() for w in trained(layer, size)]
    results = read_results(function, calls, PACK_TERNARY.form, scale_and_bytes)
    yours = iter(unpacked(*pair, w.size) for pair, (w,) in zip(results, calls, strict=True))
    own = {name: np.array([error(layer, size, [next(yours) for _ in trained(layer, size)]) for layer in LAYERS.values()]) for name, size in SHARING.items()}
    return figures.compared_curves(
        list(LAYERS),
        expected_errors(),
        own,
        what="error of the weights (%)",
        name="Three levels",
    )


@cache
def trained(layer: str, size: int) -> np.ndarray:
    """Weights of a layer of the captured Transformer at step 1000: float64 [rows, size]."""
    from lplab.datasets import captured

    w = captured()[f"transformer/step1000/{layer}/weight"][:ROWS, :64].astype(np.float64)
    return w.reshape(-1, size)


def scale_and_bytes(result: Any) -> tuple[float, np.ndarray]:
    """Scale and bytes of a result; ValueError if there are not two parts."""
    scale, packed = result
    return float(scale), as_array(packed)


def error(layer: str, size: int, found: Sequence[np.ndarray]) -> float:
    """How far the rows of a layer are from others, in percent of their norm; NaN where one has not as many weights."""
    w = trained(layer, size)
    if any(each.shape != (size,) for each in found):
        return np.nan
    return 100 * float(np.linalg.norm(np.array(found) - w) / np.linalg.norm(w))


@cache
def expected_errors() -> dict[str, np.ndarray]:
    """The errors with the library's integers −1, 0 and 1 in units of the mean magnitude: float64 [layers], by name."""
    levels, found = IntFormat(2, symmetric=True), {}
    for name, size in SHARING.items():
        scales = [np.abs(trained(layer, size)).mean(1, keepdims=True) for layer in LAYERS.values()]
        rounded = [scale * levels.quantize(trained(layer, size) / scale) for layer, scale in zip(LAYERS.values(), scales, strict=True)]
        found[name] = np.array([error(layer, size, list(rows)) for layer, rows in zip(LAYERS.values(), rounded, strict=True)])
    return found
