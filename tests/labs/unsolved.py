"""A test after the cells of each lab: the messages of its checks while the exercises are unsolved.

nbval runs the cells; this plugin reads their outputs, so that no lab runs twice. It also says which labs run by
default: a third of them, and those that are named, as in ``start.py test labs/03_the_range_of_gradients.ipynb``.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

LABS = Path(__file__).parents[2] / "labs"
BY_DEFAULT = ("00", "05", "09", "12", "13", "16")


class Lab(IPyNbFile):
    """A notebook of labs/: its cells, then the test of its exercises."""

    def collect(self) -> Iterator[pytest.Item]:
        """Tests in the order in which they run."""
        self.cells = list(super().collect())
        yield from self.cells
        yield Unsolved.from_parent(self, name="unsolved")


class Unsolved(pytest.Item):
    """Every check of an exercise has reported an unsolved stub, without an error."""

    def runtest(self) -> None:
        """Read the outputs of the cells above."""
        if wrong := complaints(self.path.name[:2], self.parent.cells):
            pytest.fail("\n".join(wrong), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The name of this test in the report."""
        return self.path, None, f"{self.path.name}: the unsolved exercises"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Iterator[None]:
    """Append this test to the notebooks of labs/."""
    found: Any = yield
    if file_path.parent == LABS and any(isinstance(each, IPyNbFile) for each in found):
        return [Lab.from_parent(parent, path=file_path)]
    return found


@pytest.hookimpl(tryfirst=True)  # before -m "not slow" is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Labs that do not run by default are slow tests, unless they are named."""
    named = {Path(arg.partition("::")[0]).name for arg in config.args}
    for item in items:
        if item.path.parent == LABS and item.path.name not in named and item.path.name[:2] not in BY_DEFAULT:
            item.add_marker(pytest.mark.slow)


def check_messages(cells: Sequence[IPyNbCell]) -> dict[str, str]:
    """The plain text under each exercise, by its id; empty where there is none."""
    from tests.labs.notebooks import exercise_part

    messages = {}
    for cell in cells:
        found = exercise_part(cell.cell)
        if found and found[0] == "exercise":
            outputs = cell.test_outputs or [{}]
            messages[found[1]] = outputs[-1].get("data", {}).get("text/plain", "")
    return messages


def complaints(lab: str, cells: Sequence[IPyNbCell]) -> list[str]:
    """What is wrong with the outputs of an unsolved lab, one line for each exercise; skips a lab that is solved."""
    from lplab import exercises
    from tests.labs.notebooks import exercise_part, source, text_of

    if any(found and source(cell.cell) != text_of(*found) for cell in cells if (found := exercise_part(cell.cell))):
        pytest.skip("somebody has begun to solve this lab")
    messages = check_messages(cells)
    wrong = []
    for exercise in exercises.of_lab(lab):
        text = messages.get(exercise.id, "")
        if not text:
            wrong.append(f"{exercise.id}: no output was seen; this test needs all cells of the notebook to run before")
        elif ("right" if exercise.is_repair else "not yet") not in text.splitlines()[0]:
            wrong.append(f"{exercise.id}: {text}")
    return wrong
