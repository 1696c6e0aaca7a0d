"""The answers in the cells of a notebook: one for each call of ``check``, and notes on what is missing or unusual."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lplab.exercises.capstone.exercise import as_answer
from lplab.exercises.grading.cells import CHECK_LINE, Cell
from lplab.exercises.grading.slicing import CellPosition, Definitions, SlicedAnswer
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import catalogue

MAX_RECIPES = 3  # of the capstone that are scored of one notebook, the last ones


@dataclass(frozen=True)
class Call:
    """One call: the exercise, the name of the function ("" if it is not given by name), and the position."""

    exercise: str
    function: str
    at: CellPosition


def calls_of(cells: Sequence[Cell]) -> Iterator[Call]:
    """All calls such as ``check("01.2", f)`` in cells that can be read, under any name of ``check``; none is run."""
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


def _is_own_recipe(node: ast.expr) -> bool:
    return getattr(node, "id", "") == "own_recipe" or getattr(node, "attr", "") == "own_recipe"


def _recipe(node: ast.expr, values: Mapping[str, ast.expr]) -> Answer | None:
    """The dictionary of an expression, or of the name that it is, as an answer; None if it is none."""
    if isinstance(node, ast.Name):
        node = values.get(node.id, node)
    try:
        data = ast.literal_eval(node)
        return as_answer(data) if isinstance(data, dict) else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):  # whatever literal_eval and json meet
        return None


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
            if call.exercise not in catalogue.names():
                self.note(f"{where}: there is no exercise {call.exercise}")
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
            self.answers.setdefault(exercise, {}).setdefault(one.answer, where)
            imported = {name for d in one.used if d.is_import for name in d.names}
            for name in sorted(one.needs & set(self.definitions.changes) - imported):
                cells = " and ".join(map(str, sorted({at[0] for at in self.definitions.changes[name]})))
                self.note(f"{exercise} uses {name}, which code cell {cells} changes; grading does not run that")
        return bool(found)

    def unreadable(self, exercise: str, function: str, where: str) -> None:
        """Add an answer defined in a cell with a syntax error: the check will name the error."""
        cell = next((c for c in self.cells if c.tree is None and re.search(rf"\bdef {function}\b", c.text)), None)
        if cell is None or exercise not in catalogue.names() or keyword.iskeyword(function):
            self.note(f"{where} checks {function}, which no cell defines")
            return
        text = CHECK_LINE.sub("", cell.text)
        self.answers.setdefault(exercise, {}).setdefault(Answer(text, function), cell.where)

    def find_unchecked_functions(self) -> None:
        """Add answers to exercises that no cell checks, found by the name of the exercise's function."""
        names = {key: catalogue.get(key).name for key in catalogue.names()}
        labs = {exercise[:2] for exercise in self.answers} or set(catalogue.LABS)
        for exercise, name in names.items():
            if exercise not in self.answers and exercise[:2] in labs and list(names.values()).count(name) == 1:
                found = self.definitions.answers(name, (len(self.cells) + 1, 0))
                if self.add(exercise, found, "no check"):
                    self.note(f"{exercise}: no cell checks {name}; graded all the same")

    def find_recipes(self) -> None:
        """Add the recipes with which cells call ``own_recipe``: the last ones, as each takes a training."""
        found: dict[Answer, str] = {}
        values: dict[str, ast.expr] = {}
        for cell in self.cells:
            for statement in cell.tree.body if cell.tree else ():
                for node in ast.walk(statement):
                    if not isinstance(node, ast.Call) or not _is_own_recipe(node.func):
                        continue
                    answer = _recipe(node.args[0], values) if len(node.args) == 1 else None
                    if answer is None:
                        self.note(f"{cell.where}: own_recipe(…) is not given a dictionary that is written out")
                    else:
                        found[answer] = cell.where
                if isinstance(statement, ast.Assign):
                    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
                    values |= dict.fromkeys(names, statement.value)
        if found:
            self.answers[catalogue.CAPSTONE] = dict(list(found.items())[-MAX_RECIPES:])

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)
