"""The test after the cells of a lab (tests/labs/unsolved.py) can fail."""

from types import SimpleNamespace

import pytest

from lplab import exercises
from tests.labs.unsolved import LABS, Lab, complaints


@pytest.fixture
def cells():
    """The exercise cells of lab 00 after a run, as nbval keeps them."""

    def cell(exercise):
        text = f"{exercise.id}: not yet" if not exercise.is_repair else "1 of 2 right"
        name = "exercise-" + exercise.id.replace(".", "-")
        return SimpleNamespace(
            cell={"id": name, "cell_type": "code", "source": exercise.cell},
            test_outputs=[{"data": {"text/plain": text}}],
        )

    return [cell(exercise) for exercise in exercises.of_lab("00")]


def test_polite_checks_pass(cells):
    assert complaints("00", cells) == []


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (None, "no output was seen"),
        ([], "no output was seen"),
        ([{"output_type": "stream", "text": "not yet"}], "no output was seen"),
        ([{"data": {"text/plain": "passes all checks"}}], "passes all checks"),
        ([{"data": {"text/plain": "NotImplementedError\nnot yet"}}], "NotImplementedError"),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_other_outputs_are_complained_of(cells, number, outputs, message):
    cells[number].test_outputs = outputs
    (complaint,) = complaints("00", cells)
    assert complaint.startswith(f"00.{number + 1}:") and message in complaint


def test_a_missing_exercise_is_complained_of(cells):
    assert len(complaints("00", cells[1:])) == 1


def test_a_solved_lab_is_skipped(cells):
    cells[1].cell["source"] = exercises.get("00.2").solution
    with pytest.raises(pytest.skip.Exception, match="solve"):
        complaints("00", cells)


def test_every_lab_has_the_test(request):
    for path in LABS.glob("*.ipynb"):
        (book,) = request.config.hook.pytest_collect_file(file_path=path, parent=request.session)
        assert isinstance(book, Lab)
        assert [item.name for item in book.collect()][-1] == "unsolved"
