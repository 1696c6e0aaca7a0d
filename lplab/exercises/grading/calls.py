"""The ``check("01.2", f)`` calls of a notebook, under any name that it was imported or assigned to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lplab.exercises.grading.cells import Cell
from lplab.exercises.grading.slicing import CellPosition


@dataclass(frozen=True)
class Call:
    """One call: the exercise, the name of the function ("" if it is not given by name), and the position."""

    exercise: str
    function: str
    at: CellPosition


def calls_of(cells: Sequence[Cell]) -> Iterator[Call]:
    """All calls of ``check`` in cells that can be read, in their order; none is run."""
    known = _names_of_check(cells)
    for cell in cells:
        for place, statement in enumerate(cell.tree.body if cell.tree else ()):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and _is_check(node.func, known):
                    yield from _call(node, (cell.number, place))


def _names_of_check(cells: Sequence[Cell]) -> set[str]:
    """``check``, and what it was renamed to: ``from lplab.exercises import check as c``, ``test = exercises.check``."""
    known = {"check"}
    for cell in cells:
        for node in ast.walk(cell.tree) if cell.tree else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lplab"):
                known |= {alias.asname for alias in node.names if alias.name == "check" and alias.asname}
            elif isinstance(node, ast.Assign) and _is_check(node.value, known):
                known |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return known


def _is_check(node: ast.expr, known: set[str]) -> bool:
    """Whether this names the check: by one of its names, or as an attribute such as ``exercises.check``."""
    if isinstance(node, ast.Name):
        return node.id in known
    return isinstance(node, ast.Attribute) and node.attr == "check"


def _call(node: ast.Call, at: CellPosition) -> Iterator[Call]:
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    ids = [value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    names = [value.id for value in values if isinstance(value, ast.Name)]
    if len(ids) == 1 and re.fullmatch(r"\d\d\.\d", ids[0].strip()):
        yield Call(ids[0].strip(), names[0] if len(names) == 1 else "", at)
