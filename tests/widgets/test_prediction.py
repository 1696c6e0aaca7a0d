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


@pytest.mark.parametrize("guess", ["150", "-5", "nan", "inf"])
def test_what_cannot_be_is_not_locked(guess):
    prediction = Prediction("How much?", answer=58, unit="%", limits=(0, 100))
    prediction.lock(guess)
    assert prediction.outcome is None and not prediction.box.disabled
    assert "this can only be from 0 % to 100 %: guess again" in prediction.result.value
    for end in ("0", "100"):
        again = Prediction("How much?", answer=58, unit="%", limits=(0, 100))
        again.lock(end)
        assert again.guess == float(end)


def test_an_earlier_guess_that_cannot_be_is_asked_again():
    prediction = Prediction("How much?", answer=58, unit="%", limits=(0, 100), guess=150)
    assert prediction.outcome is None and "does not fit this question any more" in prediction.result.value


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


def test_guess_and_truth_are_drawn_once_the_guess_is_locked():
    prediction = Prediction("Which?", ["a", "b"], answer="b")
    assert prediction.figure is None
    prediction.lock("a")
    assert prediction.figure in prediction.children
    assert prediction.figure.alt == "Of the answers a, b, you chose a; it is b."
    number = Prediction("How many?", answer=55, unit="codes")
    number.lock("12")
    assert number.figure.alt.startswith("You said 12 codes; it is 55 codes")
    assert 100 <= number.figure.layout.height <= 160


@pytest.mark.parametrize(
    ("choices", "answer", "guess"), [(None, 2, 12), (None, 2, "12"), (None, 2, "inf"), (("a", "b"), "b", "a")]
)
def test_earlier_guess_is_restored_and_is_no_new_one(choices, answer, guess):
    seen, news = [], []
    prediction = Prediction("Which?", choices, answer=answer, guess=guess, on_reveal=lambda *pair: seen.append(pair))
    prediction.observe(news.append, "outcome")
    fresh = Prediction("Which?", choices, answer=answer)
    fresh.lock(guess)
    assert prediction.outcome == fresh.outcome
    assert prediction.result.value == fresh.result.value
    assert prediction.box.value == fresh.box.value
    assert prediction.figure.alt == fresh.figure.alt
    assert prediction.box.disabled
    assert prediction.button.disabled
    assert seen == [(fresh.guess, fresh.truth)], "a figure that draws both has them"
    prediction.lock("1" if choices is None else "b")
    assert prediction.outcome == fresh.outcome
    assert news == []


@pytest.mark.parametrize(("choices", "answer", "guess"), [(("a", "b"), "b", "c"), (None, 2, "much"), (None, 2, [1])])
def test_earlier_guess_that_does_not_fit_is_named_and_asked_again(choices, answer, guess):
    prediction = Prediction("Which?", choices, answer=answer, guess=guess)
    assert prediction.outcome is None
    assert f"Your earlier guess, {guess}, does not fit" in prediction.result.value
    prediction.lock(answer)
    assert prediction.guess == answer
    assert "does not fit" not in prediction.result.value


def test_answer_out_of_the_choices_is_seen_and_nothing_is_locked():
    prediction = Prediction("Which?", ["a", "b"], answer=lambda: "c")
    prediction.box.value = "a"
    prediction.button.click()
    assert "among the choices" in prediction.error_line.value
    assert prediction.outcome is None
    assert not prediction.button.disabled


def test_a_question_can_be_skipped():
    prediction = Prediction("How much?", answer=lambda: 5.88, unit="%", because="So it is.")
    prediction.skip_button.click()
    assert prediction.is_revealed and prediction.outcome is None and prediction.truth is None
    assert prediction.result.value == "You did not guess. It is: 5.88 %. So it is."
    assert prediction.box.disabled and prediction.button.disabled and prediction.skip_button.disabled
    prediction.lock("5")
    assert prediction.outcome is None, "who has seen the truth cannot guess any more"


def test_a_guess_reveals_and_cannot_be_skipped_after_it():
    prediction = Prediction("Which?", ["a", "b"], answer="b")
    prediction.lock("a")
    assert prediction.is_revealed and prediction.skip_button.disabled
    text = prediction.result.value
    prediction.skip()
    assert prediction.result.value == text


def test_a_question_that_was_skipped_earlier_begins_with_the_truth():
    prediction = Prediction("Which?", ["a", "b"], answer="b", skipped=True)
    assert prediction.is_revealed and "It is: b" in prediction.result.value


def test_enter_in_the_box_locks_the_guess():
    prediction = Prediction("How many?", answer=2)
    prediction.box.value = "12"
    prediction.box._handle_custom_msg({"event": "blur"}, [])
    assert not prediction.is_revealed
    prediction.box._handle_custom_msg({"event": "submit"}, [])
    assert prediction.guess == 12 and prediction.box.disabled
    prediction.box._handle_custom_msg({"event": "submit"}, [])
    assert prediction.error_line.value == "", "a second Enter changes nothing"


def test_enter_with_no_number_says_so():
    prediction = Prediction("How many?", answer=2)
    prediction.box._handle_custom_msg({"event": "submit"}, [])
    assert not prediction.is_revealed and prediction.result.value
