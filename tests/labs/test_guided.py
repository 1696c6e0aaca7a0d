"""Guided questions: controls are driven to where a question asks; its answer is true there and can be read there."""

import importlib
import pkgutil
import re

import pytest

from lplab import labs
from lplab.labs.guided import GuidedQuestion, emphasized, guided
from lplab.widgets import BillExplorer, EdgeExplorer
from lplab.widgets.explorer_base import Explorer

NUMBER = r"\d[\d,]*(?:\.\d+)?"

MODULES = [
    importlib.import_module(f"lplab.labs.{found.name}")
    for found in pkgutil.iter_modules(labs.__path__)
    if re.fullmatch(r"lab\d\d", found.name)
]
ALL = [
    pytest.param(make, number, id=f"{module.__name__[-5:]}-{place}-{number + 1}")
    for module in MODULES
    for place, (make, questions) in enumerate(module.GUIDED)
    for number in range(len(questions))
]


def numbers(text: str) -> set[str]:
    """The numbers in a text, without commas and superfluous zeros."""
    return {f"{float(found.replace(',', '')):g}" for found in re.findall(NUMBER, text)}


def visible(explorer: Explorer) -> str:
    """What can be read in an explorer: its sentence, its table, and the texts of its figures."""
    parts = [explorer.summary.value, explorer.table.value if explorer.table_heads else ""]
    for figure in explorer.figures.values():
        layout = figure.layout
        parts += [str(layout.meta or ""), str(layout.title.text or "")]
        parts += [str(note.text) for note in layout.annotations]
        parts += [str(trace.name) for trace in figure.data]
    return re.sub(r"<[^>]+>", "", " ".join(parts))


@pytest.fixture(scope="module")
def shown():
    """The guided explorers, each made once."""
    made = {}

    def explorer_of(make):
        if make not in made:
            made[make] = guided(make(), next(asked for module in MODULES for by, asked in module.GUIDED if by is make))
        return made[make]

    return explorer_of


@pytest.mark.parametrize(("make", "number"), ALL)
def test_an_answer_is_true_where_the_question_asks(make, number, shown):
    view = shown(make)
    view.ask(number)
    question = view.question
    assert not view.answer_line.value
    view.go_button.click()
    assert not view.explorer.error_line.value and not view.error_line.value
    state = view.explorer.position
    assert question.true(state), f"the answer's words do not hold: {question.answer(state)}"
    view.answer_button.click()
    answer = question.answer(state)
    assert view.answer_line.value == emphasized(answer) and len(answer.split()) >= 4
    computed = numbers(answer) - numbers(question.text)
    assert computed, f"the answer has no number of its own: {answer}"
    assert computed & numbers(visible(view.explorer)), f"none of {computed} is shown: {visible(view.explorer)}"
    view.answer_button.click()
    assert not view.answer_line.value, "the answer is hidden again"


def test_every_question_is_asked_once():
    texts = [question.text for module in MODULES for _, questions in module.GUIDED for question in questions]
    assert len(texts) == len(set(texts))


# ---- the widget ------------------------------------------------------------------------------------------------------


def question(text="How many operations?", **position):
    return GuidedQuestion(text, position, lambda state: f"{state.epochs} *epochs*.", lambda state: state.epochs > 0)


def test_questions_come_one_at_a_time():
    view = guided(EdgeExplorer(), [question("One < two?", epochs=7), question("Last?", epochs=9)])
    assert "Question 1 of 2." in view.question_line.value and "One &lt; two?" in view.question_line.value
    assert view.previous_button.disabled and not view.next_button.disabled
    view.answer_button.click()
    assert view.answer_line.value == "7 <em>epochs</em>." and view.answer_button.description == "Hide the answer"
    assert view.explorer.position.epochs == 5, "an answer moves nothing"
    view.next_button.click()
    assert "Last?" in view.question_line.value and view.next_button.disabled
    assert not view.answer_line.value and view.answer_button.description == "Show the answer"
    view.previous_button.click()
    assert view.number == 0


def test_the_controls_go_where_the_question_asks_and_all_others_back():
    view = guided(EdgeExplorer(epochs=3), [question(device="laptop")])
    view.explorer.set(epochs=20)
    view.go_button.click()
    assert (view.explorer.position.device, view.explorer.position.epochs) == ("laptop", 3)
    assert view.explorer.controls["device"].value == "laptop"


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="at least one question is needed"):
        guided(EdgeExplorer(), [])
    with pytest.raises(ValueError, match="epochs must be a whole number from 1 to 20, got 0"):
        guided(EdgeExplorer(), [question(epochs=0)])


def test_a_state_is_asked_for_without_moving_anything():
    explorer = BillExplorer()
    first = explorer.position
    assert explorer.state_at() == first and explorer.position is first
