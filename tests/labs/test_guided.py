"""Guided questions: controls are driven to where a question asks; its answer is true there and can be read there."""

import importlib
import pkgutil
import re

import pytest

from lplab import labs
from lplab.labs.guided import GuidedQuestion, emphasized, guided
from lplab.widgets import BillExplorer, EdgeExplorer, FormatExplorer
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

ALL_VIEWS = [
    pytest.param(make, questions, id=f"{module.__name__[-5:]}-{place}")
    for module in MODULES
    for place, (make, questions) in enumerate(module.GUIDED)
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


@pytest.mark.parametrize(("make", "questions"), ALL_VIEWS)
def test_questions_are_few_and_name_few_controls_and_a_figure(make, questions, shown):
    """Four questions for an explorer; three controls beside a preset; what is shown is what the question names."""
    view = shown(make)
    assert len(questions) <= 4
    for number, asked in enumerate(questions):
        view.ask(number)
        assert asked.controls and sum(name not in ("preset", "presets") for name in asked.controls) <= 3
        wanted = [widget for name in asked.controls for widget in view.explorer.parts[name]]
        assert list(view.screen.shown.children) == wanted
        folded = {name for name, frame in view.screen.frames.items() if "lp-folded" in frame._dom_classes}
        assert folded == set(view.explorer.figures) - {asked.figure}


def test_every_question_is_asked_once():
    texts = [question.text for module in MODULES for _, questions in module.GUIDED for question in questions]
    assert len(texts) == len(set(texts))


# ---- the widget ------------------------------------------------------------------------------------------------------


def question(text="How many operations?", more=None, **position):
    answer, true = lambda state: f"{state.epochs} *epochs*.", lambda state: state.epochs > 0
    return GuidedQuestion(text, position, answer, true, **(more or {}))


def test_questions_come_one_at_a_time():
    view = guided(EdgeExplorer(), [question("One < two?", epochs=7), question("Last?", epochs=9)])
    assert "Question 1 of 2." in view.question_line.value and "One &lt; two?" in view.question_line.value
    assert view.previous_button.disabled and not view.next_button.disabled
    view.answer_button.click()
    assert view.answer_line.value == "7 <em>epochs</em>." and view.answer_button.description == "Hide the answer"
    assert view.explorer.position.epochs == 7, "an answer speaks of what is seen"
    view.answer_button.click()
    assert not view.answer_line.value and view.explorer.position.epochs == 7, "a hidden answer moves nothing"
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


def test_a_guess_moves_controls_and_figure_to_what_the_answer_speaks_of():
    view = guided(EdgeExplorer(epochs=3), [question(more={"guess": ("few", "many")}, epochs=20), question("Last?")])
    before = view.explorer.figure.alt
    view.explorer.set(device="laptop")
    view.guess_fields[0][0].value = "many"
    there = view.explorer.state_at(epochs=20)
    assert view.explorer.position == there and view.explorer.controls["epochs"].value == 20
    assert view.explorer.figure.alt == EdgeExplorer(epochs=20).figure.alt != before
    view.ask(1)
    assert view.explorer.position == there, "the next question begins where the reader is"


def test_titles_wait_for_the_answer():
    view = guided(EdgeExplorer(), [question(more={"controls": ("epochs",)}, epochs=9), question("Last?")])
    figure, named = view.explorer.figure, EdgeExplorer.figure_names["figure"]
    title = figure.layout.meta["title"]
    assert figure._heading["title"] == named != title
    view.explorer.set(epochs=7)
    assert figure._heading["title"] == named, "a new position answers nothing either"
    view.answer_button.click()
    assert figure._heading["title"] == figure.layout.meta["title"] != title
    view.next_button.click()
    assert figure._heading["title"] == named


def test_a_choice_is_locked_at_a_click_and_stays():
    view = guided(EdgeExplorer(), [question(more={"guess": ("few", "many")}), question("Last?")])
    (choices,) = view.guess_fields[0]
    choices.value = "many"
    assert view.answer_line.value == "You said: many. 5 <em>epochs</em>." and choices.disabled
    view.lock("few")
    assert view.guesses == {0: "many"}
    view.ask(1)
    assert view.guess_fields[1] == [] and not view.answer_line.value
    view.ask(0)
    assert not view.answer_line.value and choices.disabled and choices.value == "many"
    view.answer_button.click()
    assert view.answer_line.value.startswith("You said: many.")


def test_a_number_is_locked_with_its_unit_and_what_is_none_is_refused():
    view = guided(EdgeExplorer(), [question(more={"guess": "%"})])
    box, _, button = view.guess_fields[0]
    box.value = "much"
    button.click()
    assert "'much' is no number" in view.error_line.value.replace("&#x27;", "'") and not view.guesses
    box.value = "12.5"
    button.click()
    assert view.guesses == {0: "12.5 %"} and view.answer_line.value.startswith("You said: 12.5 %. ")
    assert box.disabled and not view.error_line.value


def test_what_is_folded_opens_below():
    asked = GuidedQuestion("Where?", {}, lambda state: state.place, lambda state: True, ("place",), "places")
    view = guided(BillExplorer(), [asked])
    screen = view.screen
    assert "lp-folded" in screen.more._dom_classes and "lp-folded" in screen.frames["parts"]._dom_classes
    screen.controls_button.click()
    screen.figures_button.click()
    assert "lp-folded" not in screen.more._dom_classes and "lp-folded" not in screen.frames["parts"]._dom_classes
    assert "lp-later" in screen.frames["parts"]._dom_classes, "it comes below the figure of the question"
    assert "lp-folded" in screen.words._dom_classes, "the sentence would answer"
    view.answer_button.click()
    assert "lp-folded" not in screen.words._dom_classes
    both = [*screen.shown.children, *screen.more.children]
    assert all(control in both for control in view.explorer.controls.values())


def test_panels_that_are_taken_apart_follow_the_controls():
    whole, apart = FormatExplorer(), FormatExplorer()
    apart.take_apart()
    assert list(apart.figures) == ["line", "error", "histogram"] and list(whole.figures) == ["figure"]
    before = {name: figure.alt for name, figure in apart.figures.items()}
    for explorer in (whole, apart):
        explorer.set(mantissa_bits=2)
    assert all(figure.alt != before[name] for name, figure in apart.figures.items())
    assert " ".join(figure.alt for figure in apart.figures.values()) == whole.figure.alt
    apart.take_apart()
    assert len(apart.figures) == 3, "a second time changes nothing"


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="at least one question is needed"):
        guided(EdgeExplorer(), [])
    with pytest.raises(ValueError, match="epochs must be a whole number from 1 to 20, got 0"):
        guided(EdgeExplorer(), [question(epochs=0)])
    with pytest.raises(ValueError, match="no control 'weather'; there are: presets, network, epochs"):
        guided(EdgeExplorer(), [question(), question(more={"controls": ("weather",)})])
    with pytest.raises(ValueError, match="no figure 'map'; there are: figure"):
        guided(EdgeExplorer(), [question(more={"figure": "map"})])


def test_a_state_is_asked_for_without_moving_anything():
    explorer = BillExplorer()
    first = explorer.position
    assert explorer.state_at() == first and explorer.position is first
