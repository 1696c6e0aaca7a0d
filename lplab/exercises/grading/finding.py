"""The answers in the cells of a notebook: one for each call of ``check``, and what is lost or odd."""

from __future__ import annotations

import keyword
import re

from lplab.exercises import catalogue
from lplab.exercises.grading.calls import calls_of
from lplab.exercises.grading.cells import CHECK_LINE, Cell
from lplab.exercises.grading.slicing import Definitions, Found
from lplab.exercises.isolation.answers import Answer


class Finds:
    """The answers found in the cells of one notebook so far: by exercise, each with its place."""

    def __init__(self, cells: list[Cell]) -> None:
        self.cells = cells
        self.definitions = Definitions(cells)
        self.answers: dict[str, dict[Answer, str]] = {}
        self.notes: list[str] = []

    def look(self) -> None:
        """Go through all cells: calls of check, cells that are no Python, functions whose check is gone."""
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
                for exercise, function in cell.checks_by_eye():
                    self.unreadable(exercise, function, cell.where)
        self.look_for_lost_checks()

    def add(self, exercise: str, found: list[Found], where: str) -> bool:
        """Keep what was found; says whether there was anything."""
        for one in found:
            self.answers.setdefault(exercise, {}).setdefault(one.answer, where)
            imported = {name for d in one.used if d.is_import for name in d.names}
            for name in sorted(one.needs & set(self.definitions.changes) - imported):
                cells = " and ".join(map(str, sorted({at[0] for at in self.definitions.changes[name]})))
                self.note(f"{exercise} uses {name}, which code cell {cells} changes; grading does not run that")
        return bool(found)

    def unreadable(self, exercise: str, function: str, where: str) -> None:
        """An answer that only a cell with a syntax error defines: the check will say which error."""
        cell = next((c for c in self.cells if c.tree is None and re.search(rf"\bdef {function}\b", c.text)), None)
        if cell is None or exercise not in catalogue.names() or keyword.iskeyword(function):
            self.note(f"{where} checks {function}, which no cell defines")
            return
        text = CHECK_LINE.sub("", cell.text)
        self.answers.setdefault(exercise, {}).setdefault(Answer(text, function), cell.where)

    def look_for_lost_checks(self) -> None:
        """Answers to exercises that no cell checks any more, found by the name that the exercise gives its function."""
        names = {key: catalogue.get(key).name for key in catalogue.names()}
        labs = {exercise[:2] for exercise in self.answers} or set(catalogue.LABS)
        for exercise, name in names.items():
            if exercise not in self.answers and exercise[:2] in labs and list(names.values()).count(name) == 1:
                found = self.definitions.answers(name, (len(self.cells) + 1, 0))
                if self.add(exercise, found, "no check"):
                    self.note(f"{exercise}: no cell checks {name}; graded all the same")

    def note(self, text: str) -> None:
        """Keep a note, once."""
        if text not in self.notes:
            self.notes.append(text)
