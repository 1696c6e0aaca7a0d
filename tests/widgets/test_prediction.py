"""Predictions: locked first, then the truth."""

import pytest

from lplab.widgets import Prediction


def test_choice_is_locked_before_the_truth_is_shown():
    seen = []
    prediction = Prediction(
        "Which?", ["a", "b"], answer="b", because="It is so.", on_reveal=lambda *pair: seen.append(pair)
    )
    assert prediction.truth is None
    prediction.button.click()
    assert prediction.outcome is None
    assert "choose one" in prediction.result.value
    prediction.box.value = "a"
    prediction.button.click()
    assert (prediction.guess, prediction.truth) == ("a", "b")
    assert prediction.result.value == "You said: a. It is: b. It is so."
    assert prediction.box.disabled
    assert prediction.button.disabled
    prediction.lock("b")
    assert prediction.guess == "a"
    prediction.on_reveal(lambda *pair: seen.append(pair))
    assert seen == [("a", "b"), ("a", "b")]


def test_number_with_bad_text_first():
    prediction = Prediction("How much?", answer=lambda: 5.88, unit="%")
    prediction.box.value = "much"
    prediction.button.click()
    assert "is no number" in prediction.result.value
    assert "lp-error" in prediction.result._dom_classes
    prediction.box.value = "1/4"
    prediction.button.click()
    assert prediction.result.value == "You said 0.25 %. It is 5.88 %: you were 23.5 times too low."
    assert "lp-error" not in prediction.result._dom_classes


@pytest.mark.parametrize(
    ("guess", "end"),
    [
        ("2", "So it is."),
        ("1.9", "It is 2, you were close."),
        ("-2", "It is 2."),
        ("0", "It is 2."),
        ("inf", "It is 2."),
    ],
)
def test_sentences(guess, end):
    prediction = Prediction("How many?", answer=2)
    prediction.lock(guess)
    assert prediction.outcome.sentence().endswith(end)


def test_answer_that_fails_is_seen():
    prediction = Prediction("How many?", answer=lambda: 1 / 0)
    prediction.box.value = "2"
    prediction.button.click()  # ipywidgets logs what a button's callback raises
    assert prediction.error_line.value == "ZeroDivisionError: division by zero"
    assert prediction.outcome is None
    with pytest.raises(ZeroDivisionError):
        prediction.lock("2")


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="one of the choices"):
        Prediction("Which?", ["a", "b"], answer="c")
    with pytest.raises(ValueError, match="must be a number"):
        Prediction("How many?", answer="two")
