"""The answers in the cells of a notebook: one for each call of ``check``, and notes on what is missing or unusual."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lplab.exercises.grading.notebook_cells import CHECK_LINE, Cell
from lplab.exercises.grading.slicing import CellPosition, Definitions, SlicedAnswer
from lplab.exercises.grading.written_recipes import written_recipes
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue


@dataclass(frozen=True)
class Call:
    """One call: the exercise, the name of the function ("" if it is not given by name), and the position."""

    exercise: str
    function: str
    at: CellPosition


def calls_of(cells: Sequence[Cell]) -> Iterator[Call]:
    """All calls such as ``check("01.2", f)`` in cells that can be read, under any name of ``check``; none is run."""
    check_names = _names_of_check(cells)
    for cell in cells:
        for place, statement in enumerate(cell.tree.body if cell.tree else ()):
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and _is_check(node.func, check_names):
                    yield from _call(node, (cell.number, place))


def _names_of_check(cells: Sequence[Cell]) -> set[str]:
    """``check``, and what it was renamed to: ``from lplab.exercises import check as c``, ``test = exercises.check``."""
    names = {"check"}
    for cell in cells:
        for node in ast.walk(cell.tree) if cell.tree else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lplab"):
                names |= {alias.asname for alias in node.names if alias.name == "check" and alias.asname}
            elif isinstance(node, ast.Assign) and _is_check(node.value, names):
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


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


class CollectedAnswers:
    """The answers collected from the cells of one notebook: by exercise, each with its location."""

    def __init__(self, cells: list[Cell]) -> None:
        self.cells = cells
        self.definitions = Definitions(cells)
        self.answers: dict[str, dict[Answer, str]] = {}
        self.notes: list[str] = []

    def collect(self) -> None:
        """Go through all cells: calls of check, cells that are no Python, functions whose call of check is missing."""
        for call in calls_of(self.cells):
            where = f"code cell {call.at[0]}"
            if call.exercise not in exercise_catalogue.names():
                self.note(f"{where}: there is no exercise {call.exercise}")
            elif self.definitions.is_spent:
                self.note("the answers of this notebook are too long together: the last ones were not read")
            elif not call.function:
                self.note(f"{where}: check({call.exercise!r}, …) is not given a function by its name")
            elif not self.add(call.exercise, self.definitions.answers(call.function, call.at), where):
                self.unreadable(call.exercise, call.function, where)
        for cell in self.cells:
            if cell.note and ("check(" in cell.text or "def " in cell.text):
                self.note(cell.note)
            if cell.tree is None:
                for exercise, function in cell.checks_by_pattern():
                    self.unreadable(exercise, function, cell.where)
        self.find_unchecked_functions()
        self.find_recipes()

    def add(self, exercise: str, found: list[SlicedAnswer], where: str) -> bool:
        """Add these answers; whether there are any."""
        for one in found:
            self._add(exercise, one.answer, where)
            for module, cell in sorted(one.foreign):
                self.note(
                    f"code cell {cell} uses {module}, which may change what {exercise} uses; grading does not run that"
                )
        return bool(found)

    def unreadable(self, exercise: str, function: str, where: str) -> None:
        """Add an answer defined in a cell with a syntax error: the check will name the error."""
        cell = next((c for c in self.cells if c.tree is None and re.search(rf"\bdef {function}\b", c.text)), None)
        if cell is None or exercise not in exercise_catalogue.names() or keyword.iskeyword(function):
            self.note(f"{where} checks {function}, which no cell defines")
            return
        text = CHECK_LINE.sub("", cell.text)
        self._add(exercise, Answer(text, function), cell.where)

    def find_unchecked_functions(self) -> None:
        """Add answers to exercises that no cell checks, found by the name of the exercise's function."""
        names = {key: exercise_catalogue.get(key).name for key in exercise_catalogue.names()}
        labs = {exercise[:2] for exercise in self.answers} or set(exercise_catalogue.LABS)
        for exercise, name in names.items():
            if exercise not in self.answers and exercise[:2] in labs and list(names.values()).count(name) == 1:
                found = self.definitions.answers(name, (len(self.cells) + 1, 0))
                if self.add(exercise, found, "no check"):
                    self.note(f"{exercise}: no cell checks {name}; graded all the same")

    def find_recipes(self) -> None:
        """Add the recipes with which cells call the functions of the capstones."""
        for capstone in exercise_catalogue.capstones():
            for found in written_recipes(self.cells, capstone):
                if found.note:
                    self.note(f"{found.where}: {found.note}")
                if found.answer is not None:
                    self._add(capstone.id, found.answer, found.where)

    def _add(self, exercise: str, answer: Answer, where: str) -> None:
        """Add an answer as the newest one; one that was there before keeps the place where it was found first."""
        known = self.answers.setdefault(exercise, {})
        known[answer] = known.pop(answer, where)

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)
