"""The functions that labs call: checks are recorded, hints open in order, a solution needs a pass or a request."""

import json
import subprocess
import sys

import pytest

from lplab import exercises, figures
from lplab.exercises import draw_rounding, progress, student_figures
from lplab.exercises.display import CheckView, code_html
from lplab.exercises.model.questions import Question


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))


def midpoint(low, high):
    return (low + high) / 2


def broken(low, high):
    return low


def round_e4m3(x):
    raise NotImplementedError


def test_checks_are_noted():
    assert not exercises.check("00.1", broken).passed
    assert exercises.check("00.1", midpoint).passed
    record = progress.default_progress().of("00.1")
    assert record.attempts == 2 and record.passed
    assert exercises.progress_of("00").done == 1


def test_an_unknown_exercise_is_a_clear_error():
    with pytest.raises(ValueError, match=r"there is no exercise '01.22'; did you mean"):
        exercises.check("01.22", midpoint)
    with pytest.raises(ValueError, match=r"there is no question '01.z'"):
        exercises.predict("01.z")
    with pytest.raises(ValueError, match="lab '77' has no exercises"):
        exercises.of_lab("77")


LOADED = """
import json, sys
from lplab import exercises
call = {call}
print(json.dumps(sorted({{name.split(".")[2] for name in sys.modules if name.startswith("lplab.exercises.lab")}})))
"""


@pytest.mark.parametrize(
    "call",
    ['exercises.get("04.2").lab', 'exercises.of_lab("04")', 'exercises.check("04.2", abs)', 'exercises.hint("04.1")'],
)
def test_a_lab_does_not_load_the_others(call):
    """All labs have 150 modules, which took most of the time of a first check."""
    done = subprocess.run([sys.executable, "-c", LOADED.format(call=call)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == ["lab04"]


def test_what_is_no_function_gets_a_verdict_and_no_traceback():
    verdict = exercises.check("00.1", 3)
    assert verdict.ring == "form" and 'without parentheses behind its name: `check("00.1", midpoint)`' in verdict.text


def test_hints_open_in_order_and_come_again():
    texts = [str(exercises.hint("01.1")) for _ in range(4)]
    assert [text[:11] for text in texts[:3]] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
    assert texts[3].splitlines() == texts[:3]
    assert progress.hints_opened("01.1") == 3


def test_a_solution_waits_for_a_pass_or_a_request():
    assert "not passed yet" in str(exercises.solution("00.1"))
    assert not progress.default_progress().of("00.1").solution_at
    assert "return (low + high) / 2" in str(exercises.solution("00.1", anyway=True))
    exercises.check("00.1", midpoint)
    assert "return (low + high) / 2" in str(exercises.solution("00.1"))


def test_a_guess_is_kept_and_shown_again():
    widget = exercises.predict("01.a")
    assert widget.guess is None
    widget.lock("12")
    assert progress.prediction("01.a") == 12
    again = exercises.predict("01.a")
    assert again.guess == 12 and again.truth == 55
    assert progress.default_progress().state.predictions["01.a"].truth == 55


@pytest.mark.parametrize("wrong", ["1.a", "01.1", "a.01"])
def test_a_question_has_a_lab_and_a_letter(wrong):
    with pytest.raises(ValueError, match="lab and letter"):
        Question(wrong, "?", lambda: 1)


def test_a_drawing_waits_until_the_function_works():
    assert "it is not written yet" in str(draw_rounding(round_e4m3, "e4m3fn"))
    figure = draw_rounding(round, "e4m3fn", low=-4, high=4)
    assert "results differ" in figure.layout.meta["title"]
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        student_figures.results_of(lambda x: x / 0, [(1.0,)])


def test_buttons_open_hints_and_the_solution():
    view = CheckView(exercises.check("01.2", abs))
    assert view.figure is not None  # −2.9 on the line of E4M3
    for number in (1, 2, 3):
        view.hint_button.click()
        assert f"Hint {number} of 3" in view.opened.value
    assert view.hint_button.disabled and progress.hints_opened("01.2") == 3
    view.solution_button.click()  # asks first, as solution() does
    assert "Hint 3 of 3" in view.opened.value and "not passed yet" in view.opened.value
    assert "return" not in view.opened.value and not progress.default_progress().of("01.2").solution_at
    assert view.solution_button.description == "Show it anyway"
    view.solution_button.click()
    assert "math.frexp(size)[1] - 1" in view.opened.value and progress.default_progress().of("01.2").solution_at


def test_the_solution_of_a_passed_exercise_opens_at_once():
    view = CheckView(exercises.check("00.1", lambda low, high: (low + high) / 2))
    view.solution_button.click()
    assert "def midpoint" in view.opened.value


def test_text_of_students_stays_text():
    assert code_html("<b>`a<b`</b>") == "&lt;b&gt;<code>a&lt;b</code>&lt;/b&gt;"


def a_table():
    return figures.DataTable({"codes": [55]})


@pytest.mark.parametrize("how", ["lock", "skip"])
def test_veils_are_lifted_together_and_stay_lifted(how):
    first, second, other = (exercises.after_guess(name, a_table()) for name in ("01.a", "01.a", "02.a"))
    assert not first.is_lifted and not second.is_lifted
    prediction = exercises.predict("01.a")
    prediction.lock("12") if how == "lock" else prediction.skip()
    assert first.is_lifted and second.is_lifted and not other.is_lifted
    assert exercises.after_guess("01.a", a_table()).is_lifted, "a cell that runs again, or after a restart"
    again = exercises.predict("01.a")
    assert again.is_revealed and again.guess == (12 if how == "lock" else None)


def test_the_button_of_a_veil_skips_the_question_everywhere():
    prediction = exercises.predict("01.a")
    first, second = (exercises.after_guess("01.a", a_table) for _ in range(2))
    first.button.click()
    assert first.is_lifted and second.is_lifted and prediction.is_revealed and prediction.outcome is None
    assert progress.has_skipped("01.a", prediction.question)
    assert not progress.has_skipped("01.a", "another wording"), "which is asked again"


def test_a_page_to_be_printed_shows_all_answers_and_keeps_no_progress(monkeypatch):
    monkeypatch.setenv("LPLAB_ANSWERS", "show")
    prediction, veil = exercises.predict("01.a"), exercises.after_guess("01.a", a_table)
    assert veil.is_lifted and prediction.is_revealed and prediction.guess is None
    assert "It is: 55" in prediction.result.value and not progress.has_skipped("01.a", prediction.question)
    monkeypatch.delenv("LPLAB_ANSWERS")
    assert not exercises.after_guess("01.a", a_table).is_lifted


def test_a_veil_that_fails_keeps_no_other_down_and_can_be_tried_again():
    results = [OSError("no such file"), a_table(), a_table()]

    def content():
        if isinstance(found := results.pop(0), OSError):
            raise found
        return found

    prediction = exercises.predict("01.a")
    veils = [exercises.after_guess("01.a", content) for _ in range(2)]
    with pytest.raises(OSError, match="no such file"):
        prediction.lock("12")
    assert sorted(veil.is_lifted for veil in veils) == [False, True] and progress.prediction("01.a") == 12
    for veil in veils:
        veil.button.click()
    assert all(veil.is_lifted for veil in veils) and results == []


def test_an_unknown_question_has_no_veil():
    with pytest.raises(ValueError, match=r"there is no question '01.z'"):
        exercises.after_guess("01.z", a_table())
