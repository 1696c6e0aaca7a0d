"""Numbers in the messages of a check: exact decimals, powers of two, minus signs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.compare import same
from lplab.number_text import MINUS, SUPERSCRIPTS

MAX_TABLE_SIZE = 8  # numbers of a table that is shown as a whole


def decimal(value: Any) -> str:
    """A number exactly, as Python would print it, without a needless ".0".

    >>> decimal(0.0029296875), decimal(-448.0), decimal(-0.0), decimal(float("nan")), decimal(7)
    ('0.0029296875', '−448', '−0', 'NaN', '7')
    """
    value = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return sequence_text(value) if isinstance(value, list | tuple | np.ndarray) else repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else MINUS + "inf"
    text = repr(value).removesuffix(".0")
    return text.replace("-", MINUS)


def sequence_text(values: Any) -> str:
    """A sequence of numbers, shortened beyond six.

    >>> sequence_text((1.0, 2.5)), sequence_text(np.arange(10))
    ('(1, 2.5)', '(0, 1, 2, 3, 4, 5, … 10 values)')
    """
    values = np.ravel(values).tolist()
    if len(values) == 1:
        return decimal(values[0])
    shown = [decimal(value) for value in values[:6]]
    return "(" + ", ".join([*shown, f"… {len(values)} values"] if len(values) > 6 else shown) + ")"


def differing_parts(yours: Any, expected: Any, tolerance: float = 0.0, names: Sequence[str] = ()) -> tuple[str, str]:
    """Two results as text.

    Long sequences begin shortly before the place where they differ first. Of large tables it is the row of this place,
    of several tables the one with it, of parts with different shapes the part with it.

    Args:
        yours, expected: the results.
        tolerance: up to where rows, tables and parts count as equal, as a share of their largest magnitude.
        names: of several tables or parts.

    >>> differing_parts(range(10), [0, 1, 2, 3, 4, 5, 6, 8, 8, 9])
    ('(… from number 7 of 10: 6, 7, 8, 9)', '(… from number 7 of 10: 6, 8, 8, 9)')
    >>> differing_parts(0.5, (1, 2))
    ('0.5', '(1, 2)')
    >>> differing_parts(np.eye(2), np.ones((2, 2)))
    ('[(1, 0); (0, 1)]', '[(1, 1); (1, 1)]')
    >>> differing_parts(np.eye(4), np.eye(4) + [[0], [0], [0], [1]])
    ('(0, 0, 0, 1) in row 3', '(1, 1, 1, 2) in row 3')
    >>> differing_parts(np.zeros((2, 1, 4)), np.array([[[0.0] * 4], [[1.0] * 4]]))
    ('[(0, 0, 0, 0)] in matrix 1', '[(1, 1, 1, 1)] in matrix 1')
    >>> differing_parts((0.5, np.ones(2)), (0.5, np.zeros(2)), names=("scale", "codes"))
    ('(1, 1) in codes', '(0, 0) in codes')
    >>> differing_parts((np.ones((1, 2)), np.zeros((3, 3))), (np.ones((1, 2)), np.eye(3)), names=("x", "w"))
    ('(0, 0, 0) in row 0 of w', '(1, 0, 0) in row 0 of w')
    """
    if not all(isinstance(value, list | tuple | range | np.ndarray) for value in (yours, expected)):
        return decimal(yours), decimal(expected)
    if isinstance(expected, list | tuple) and len({np.shape(part) for part in expected}) > 1:
        return _of_part(yours, expected, "part", tolerance, names)
    if all(np.ndim(value) == 2 and np.size(value) <= MAX_TABLE_SIZE for value in (yours, expected)):
        return table_text(yours), table_text(expected)
    if np.ndim(yours) == 2 and np.shape(yours) == np.shape(expected):
        return _of_part(yours, expected, "row", tolerance)
    if np.ndim(yours) == 3 and np.shape(yours) == np.shape(expected):
        return _of_part(yours, expected, "matrix", tolerance, names)
    each = [np.ravel(value).tolist() for value in (yours, expected)]
    shortest = min(map(len, each))
    first = next((i for i in range(shortest) if each[0][i] != each[1][i]), shortest)
    if max(map(len, each)) <= 6 or first < 6:
        return sequence_text(each[0]), sequence_text(each[1])
    start = first - 1
    shown = [[*map(decimal, values[start : start + 6]), *(["…"] if len(values) > start + 6 else [])] for values in each]
    texts = [f"(… from number {start + 1} of {len(v)}: {', '.join(s)})" for v, s in zip(each, shown, strict=True)]
    return texts[0], texts[1]


def without_noise(value: Any) -> Any:
    """Numbers rounded to 13 digits, for results that may differ by rounding; sequences stay sequences.

    >>> without_noise((0.1 + 0.2, [0.7 + 0.1, 400])), without_noise(np.array([0.1 + 0.2])).tolist()
    ((0.3, [0.8, 400]), [0.3])
    """
    if isinstance(value, list | tuple):
        return type(value)(map(without_noise, value))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.array([float(f"{x:.13g}") for x in value.ravel().tolist()]).reshape(value.shape)
    return float(f"{float(value):.13g}") if isinstance(value, float | np.floating) else value


def _of_part(yours: Any, expected: Any, what: str, tolerance: float, names: Sequence[str] = ()) -> tuple[str, str]:
    """The first row, table or part that differs, as text with its name or number."""
    pairs = enumerate(zip(yours, expected, strict=True))
    first = next((i for i, pair in pairs if not same(*pair, signed_zero=False, tolerance=tolerance)), 0)
    where = names[first] if names else f"{what} {first}"
    texts = differing_parts(yours[first], expected[first], tolerance)
    own, other = (f"{text} {'of' if ' in row ' in text else 'in'} {where}" for text in texts)
    return own, other


def table_text(values: Any) -> str:
    """A small table, row by row.

    >>> table_text([[1.0, 2.0], [0.5, -1.0]])
    '[(1, 2); (0.5, −1)]'
    """
    return f"[{'; '.join(map(sequence_text, values))}]"


def with_power(value: Any) -> str:
    """A number with its form m × 2ᵉ, where that is short and says more than the decimals.

    >>> with_power(0.0029296875), with_power(1.5), with_power(2.0**-10), with_power(0.1)
    ('0.0029296875 (1.5 × 2⁻⁹)', '1.5', '0.0009765625 (2⁻¹⁰)', '0.1')
    """
    text = decimal(value)
    if not isinstance(value, float) or not math.isfinite(value) or len(text) < 7:
        return text
    fraction, exponent = math.frexp(value)
    mantissa = decimal(2 * fraction)
    if len(mantissa) > 8:
        return text
    power = "2" + str(exponent - 1).translate(SUPERSCRIPTS)
    times = {"1": "", MINUS + "1": MINUS}.get(mantissa, f"{mantissa} × ")
    return f"{text} ({times}{power})"


def count_text(number: int) -> str:
    """A count with its thousands apart.

    >>> count_text(1284)
    '1,284'
    """
    return f"{number:,}"
