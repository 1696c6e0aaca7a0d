"""A test after the cells of each lab: what its checks say as long as nobody has solved the exercises.

nbval runs the cells; this plugin reads the outputs that it keeps, so that no lab runs twice.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

LABS = Path(__file__).parents[2] / "labs"


class Lab(IPyNbFile):
    """A notebook of labs/: its cells, then the test of its exercises."""

    def collect(self) -> Iterator[pytest.Item]:
        """Tests in the order in which they run."""
        self.cells = list(super().collect())
        yield from self.cells
        yield Unsolved.from_parent(self, name="unsolved")


class Unsolved(pytest.Item):
    """Every check of an exercise has answered, and politely."""

    def runtest(self) -> None:
        """Read what the cells above have said."""
        if wrong := complaints(self.path.name[:2], self.parent.cells):
            pytest.fail("\n".join(wrong), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """What the report calls this test."""
        return self.path, None, f"{self.path.name}: the unsolved exercises"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Give the notebooks of labs/ their last test."""
    found: Any = yield
    if file_path.parent == LABS and any(isinstance(each, IPyNbFile) for each in found):
        return [Lab.from_parent(parent, path=file_path)]
    return found


def what_checks_say(cells: Sequence[IPyNbCell]) -> dict[str, str]:
    """The plain text under each exercise, by its id; empty where there is none."""
    from tests.labs.notebooks import place

    said = {}
    for cell in cells:
        found = place(cell.cell)
        if found and found[0] == "exercise":
            outputs = cell.test_outputs or [{}]
            said[found[1]] = outputs[-1].get("data", {}).get("text/plain", "")
    return said


def complaints(lab: str, cells: Sequence[IPyNbCell]) -> list[str]:
    """What is wrong with the outputs of an unsolved lab, one line for each exercise; skips a lab that is solved."""
    from lplab import exercises
    from tests.labs.notebooks import place, source, text_of

    if any(found and source(cell.cell) != text_of(*found) for cell in cells if (found := place(cell.cell))):
        pytest.skip("somebody has begun to solve this lab")
    said = what_checks_say(cells)
    wrong = []
    for exercise in exercises.of_lab(lab):
        text = said.get(exercise.id, "")
        if not text:
            wrong.append(f"{exercise.id}: no output was seen; this test needs all cells of the notebook to run before")
        elif ("right" if exercise.starts_broken else "not yet") not in text.splitlines()[0]:
            wrong.append(f"{exercise.id}: {text}")
    return wrong
