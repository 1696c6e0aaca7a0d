"""The answers in the cells of a notebook: one for each call of ``check``, and notes on what is missing or unusual."""

from __future__ import annotations

import keyword
import re

from lplab.exercises.grading.calls import calls_of
from lplab.exercises.grading.cells import CHECK_LINE, Cell
from lplab.exercises.grading.slicing import Definitions, SlicedAnswer
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import catalogue


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

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)
