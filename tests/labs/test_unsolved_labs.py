"""The test after the cells of a lab (tests/labs/unsolved.py) can fail."""

from types import SimpleNamespace

import pytest

from lplab import exercises
from tests.labs.unsolved import BY_DEFAULT, LABS, Lab, Unsolved, complaints, pytest_collection_modifyitems


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


def test_a_third_of_the_labs_run_by_default_and_those_that_are_named(request, monkeypatch):
    def not_slow(*named):
        monkeypatch.setattr(request.config, "args", [*named])
        books = [Lab.from_parent(request.session, path=path) for path in sorted(LABS.glob("*.ipynb"))]
        items = [Unsolved.from_parent(book, name="unsolved") for book in books]
        pytest_collection_modifyitems(request.config, items)
        return [item.path.name[:2] for item in items if item.get_closest_marker("slow") is None]

    assert not_slow("tests", "labs") == list(BY_DEFAULT) and len(BY_DEFAULT) >= len(list(LABS.glob("*.ipynb"))) / 3
    assert not_slow("labs/03_the_range_of_gradients.ipynb::Cell 3") == sorted((*BY_DEFAULT, "03"))


def test_every_lab_has_the_test(request):
    for path in LABS.glob("*.ipynb"):
        (book,) = request.config.hook.pytest_collect_file(file_path=path, parent=request.session)
        assert isinstance(book, Lab)
        assert [item.name for item in book.collect()][-1] == "unsolved"
