"""Solved labs: every check passes, the facts stay as they are, and the exported figures are written."""

import json

import pytest

from lplab import exercises
from tests.labs import notebooks, warm
from tests.labs.unsolved import check_messages

LABS = sorted((warm.PROJECT / "labs").glob("*.ipynb"))
BY_DEFAULT = "01"
FLOORS = [f"lplab.{name}" for name in ("claims", "training", "figures", "widgets", "exercises", "cli.doctor")]


@pytest.fixture(scope="module")
def kernels():
    with warm.kernel_server(*FLOORS) as server:
        yield server


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.name[:2] == BY_DEFAULT else pytest.mark.slow, id=path.stem) for path in LABS],
)
def test_a_solved_lab_passes_all_checks_and_is_taken_along(path, tmp_path, kernels, request):
    lab = path.name[:2]
    book = notebooks.solved(json.loads(path.read_text("utf-8")))
    exporting = [cell for cell in book["cells"] if "take_along = False" in notebooks.source(cell)]
    for cell in exporting:
        cell["source"] = notebooks.source(cell).replace("take_along = False", "take_along = True")
    (tmp_path / path.name).write_text(json.dumps(book), "utf-8")

    cells = warm.cells_of(tmp_path / path.name, kernels.start(tmp_path), request.session)
    for cell in cells:
        assert not (message := warm.failure_message(cell)), message
    messages = check_messages(cells)
    assert {exercise.id for exercise in exercises.of_lab(lab)} == set(messages)
    for text in messages.values():
        assert "passes all checks" in text, text

    assert len(exporting) == (lab != "00"), "every lab but the first has figures to take along"
    for kind in ("html", "csv") if exporting else ():
        assert (tmp_path / f"lab{lab}.{kind}").stat().st_size > 100
