"""The form of a result: one class for each form, with a one-line message for a result of another form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Form(Protocol):
    """Checks the form of a result, not its value."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """One clause that begins with a verb, such as "returns a list ...", or "" if the form is right."""

    def describe(self) -> str:
        """The form in words, for the documentation."""


def describe_value(value: Any) -> str:
    """The type of a value in a student's words.

    >>> describe_value([1, 2]), describe_value(np.zeros((2, 3))), describe_value(None)
    ('a list of 2', 'an array of shape (2, 3) and dtype float64', 'None')
    """
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    article = "an" if type(value).__name__[0] in "aeiou" else "a"
    return (
        f"{article} {type(value).__name__} ({value!r})"
        if isinstance(value, str | bool)
        else f"{article} {type(value).__name__}"
    )


def is_number(value: Any) -> bool:
    """Whether this is one real number: Python's, numpy's, or an array without dimensions."""
    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    return isinstance(value, int | float | np.integer | np.floating)


@dataclass(frozen=True)
class Number:
    """One real number; integers and numpy's scalars are accepted."""

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with a result that is no single number; "" if it is one.

        >>> Number().problem((), [0.5])
        'returns a list of 1: return one number'
        """
        return "" if is_number(result) else f"returns {describe_value(result)}: return one number"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "one number"


@dataclass(frozen=True)
class SameShape:
    """An array of floating-point numbers with the shape of one of the arguments.

    Args:
        argument: position of that argument.
        lists: whether a list or tuple of numbers will do for an array of one dimension.
    """

    argument: int = 0
    lists: bool = False

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with a result that is no array of the argument's shape; "" if it is one.

        >>> SameShape().problem((np.zeros(3),), np.zeros(2))
        'returns an array of shape (2,) and dtype float64: return one of shape (3,), like its input'
        >>> SameShape(lists=True).problem((np.zeros(2),), [1, 2.5])
        ''
        """
        wanted = np.shape(args[self.argument])
        if self.lists and isinstance(result, list | tuple) and all(map(is_number, result)):
            result = np.array(result, np.float64)
        if not isinstance(result, np.ndarray) and not (wanted == () and is_number(result)):
            return f"returns {describe_value(result)}: return a numpy array of shape {wanted}, like its input"
        if np.shape(result) != wanted:
            return f"returns {describe_value(result)}: return one of shape {wanted}, like its input"
        if np.asarray(result).dtype.kind != "f":
            return f"returns {describe_value(result)}: return floating-point numbers"
        return ""

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return "an array of floating-point numbers, shaped like the input"


@dataclass(frozen=True)
class Numbers:
    """A tuple, list or one-dimensional array of real numbers: exactly ``count`` of them, or 1 to ``most``."""

    count: int | None = None
    most: int | None = None

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with a result that is no such list of numbers; "" if it is one.

        >>> Numbers(count=2).problem((), 0.5)
        'returns a float: return 2 numbers'
        """
        values = list(result) if isinstance(result, list | tuple) or np.ndim(result) == 1 else None
        if values == []:
            return f"returns nothing in it: return {self.describe()}"
        if values is None or not self._fits(len(values)):
            return f"returns {describe_value(result)}: return {self.describe()}"
        odd = next((value for value in values if not is_number(value)), None)
        return (
            ""
            if odd is None and all(map(is_number, values))
            else f"returns {describe_value(odd)} among its values: return {self.describe()}"
        )

    def _fits(self, length: int) -> bool:
        return length == self.count if self.count is not None else 1 <= length <= (self.most or length)

    def describe(self) -> str:
        """The form in words, for the documentation."""
        if self.count is not None:
            return f"{self.count} numbers"
        return f"a list of at most {self.most} numbers" if self.most else "a list of numbers"


@dataclass(frozen=True)
class SameShapes:
    """Several arrays of floating-point numbers in a tuple or list, each with the shape of one of the arguments.

    Args:
        arguments: names of the arrays, with the positions of the arguments whose shapes they have.
    """

    arguments: tuple[tuple[str, int], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays."""
        return tuple(name for name, _ in self.arguments)

    def problem(self, args: tuple[Any, ...], result: Any) -> str:
        """What is wrong with a result that is no such arrays; "" if it is right.

        >>> form, args = SameShapes((("x", 0), ("w", 1))), (np.zeros((3, 2)), np.zeros((4, 2)))
        >>> form.problem(args, (np.zeros((3, 2)), np.zeros((2, 4))))
        'returns arrays of shapes (3, 2) and (2, 4): return x of shape (3, 2) and w of shape (4, 2)'
        >>> form.problem(args, np.zeros((3, 2)))
        'returns an array of shape (3, 2) and dtype float64: return x of shape (3, 2) and w of shape (4, 2)'
        """
        shapes = [np.shape(args[place]) for _, place in self.arguments]
        parts = list(result) if isinstance(result, list | tuple) or np.ndim(result) > 1 else []
        arrays = bool(parts) and all(isinstance(part, np.ndarray) for part in parts)
        if arrays and [part.shape for part in parts] == shapes and all(part.dtype.kind == "f" for part in parts):
            return ""
        apart = arrays and isinstance(result, list | tuple) and [part.shape for part in parts] != shapes
        got = f"arrays of shapes {_listed([str(part.shape) for part in parts])}" if apart else describe_value(result)
        wanted = [f"{name} of shape {shape}" for (name, _), shape in zip(self.arguments, shapes, strict=True)]
        kind = "" if apart or not arrays or len(parts) != len(shapes) else ", as floating-point numbers"
        return f"returns {got}: return {_listed(wanted)}{kind}"

    def describe(self) -> str:
        """The form in words, for the documentation."""
        return f"arrays of floating-point numbers: {_listed(list(self.names))}"


def _listed(words: list[str]) -> str:
    """Words with commas and an "and"."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
