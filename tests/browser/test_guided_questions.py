"""Every guided question on a laptop: it stands with its controls, its figure and its open answer on one screen."""

import pytest

from tests.browser.conftest import opening
from tests.labs.test_guided import MODULES

pytestmark = pytest.mark.browser

BY_DEFAULT = "lab03"
LAPTOP, PANE = {"width": 1366, "height": 768}, 647  # pixels; what JupyterLab's bars leave of it
LOWEST_PANEL, NARROWEST_PANEL, MOST_CONTROLS = 160, 160, 3
PRESETS = ("preset", "presets")
PHONE = {"width": 390, "height": 844}

CASES = [
    pytest.param(
        (module.__name__[-5:], place), id=f"{module.__name__[-5:]}-{place}",
        marks=() if (module.__name__[-5:], place) == (BY_DEFAULT, 0) else pytest.mark.slow,
    )
    for module in MODULES for place in range(len(module.GUIDED))
]  # fmt: skip

PLACES = """() => {
  const seen = selector => [...document.querySelectorAll(selector)]
    .filter(each => each.offsetParent && each.clientHeight);
  const top = document.querySelector('.lp-guided').getBoundingClientRect().top;
  const bottom = each => each.getBoundingClientRect().bottom - top;
  const figure = seen('.lp-main > :not(.lp-later) .lp-fig')[0];
  return {
    others: seen('.lp-one-screen .lp-fig').length - 1, at: figure.getBoundingClientRect().top - top,
    needs: Math.max(...seen('.lp-guided, .lp-guided-controls, .lp-guided-answer').map(bottom), bottom(figure)),
    panels: Object.values(figure._fullLayout._plots).map(plot => plot.yaxis).filter(axis => axis.visible)
      .map(axis => axis._length),
    wide: Object.values(figure._fullLayout._plots).map(plot => plot.xaxis).filter(axis => axis.visible)
      .map(axis => axis._length),
    named: [...figure.querySelectorAll('.ytick text')].filter(text => text.checkVisibility({visibilityProperty: true})
      && text.getBoundingClientRect().width).map(text => text.textContent),
    ticks: [...figure.querySelectorAll('.xtick text')].filter(text => text.checkVisibility()).length,
    titles: [...figure.querySelectorAll('.lp-fig-title')].map(title => title.textContent),
    open: seen('.lp-disclosure').map(button => button.getAttribute('aria-expanded')),
    drawn: figure.clientWidth - figure._fullLayout.width,
    answers: seen('.lp-guided-answer').length,
  };
}"""
SETTLED = "() => document.querySelectorAll('.lp-one-screen .lp-main > :not(.lp-folded) .plot-container').length > 0"


@pytest.fixture(scope="module", params=CASES)
def asked(window, request):
    """A guided explorer alone in a notebook, on a laptop."""
    name, place = request.param
    made = f"explorer, questions = {name}.GUIDED[{place}]\nview = guided(explorer(), questions); view"
    cells = [f"from lplab.labs import {name}\nfrom lplab.labs.guided import guided", made]
    with opening(window, request.session) as open_:
        notebook = open_(cells, 60)
        notebook.page.set_viewport_size(LAPTOP)
        notebook.sees(SETTLED, True)
        yield notebook


def settled(notebook):
    """Where everything stands, once nothing moves any more."""
    before = None
    for _ in range(40):
        notebook.page.wait_for_timeout(250)
        now = notebook.page.evaluate(PLACES)
        if now == before:
            return now
        before = now
    raise AssertionError(f"the page does not come to rest: {now}")


@pytest.fixture(scope="module")
def on_a_laptop(asked):
    """Of each question: the name of its figure, its controls, and the page with its answer closed and opened."""
    asked.python("view.explorer.reset()")
    found = []
    for number in range(asked.python("len(view.questions)")):
        asked.python(f"view.ask({number})")
        controls = asked.python("list(view.question.controls)")
        named = asked.python("view.explorer.figure_names[view.question.figure]")
        closed = settled(asked)
        asked.python("view.toggle_answer()")
        asked.sees(PLACES.replace("return {", "return seen('.lp-guided-answer').length; return {"), 1)
        found.append((named, controls, closed, settled(asked)))
        assert asked.python("view.explorer.position == view.explorer.state_at(**view.question.position)")
    return found


def test_question_controls_figure_and_answer_are_on_one_screen(on_a_laptop):
    """The figure stays where it is when the answer opens and moves the controls; its title says nothing before."""
    for number, (named, controls, closed, opened) in enumerate(on_a_laptop):
        assert len([name for name in controls if name not in PRESETS]) <= MOST_CONTROLS
        assert closed["titles"] == [named] and not closed["answers"], closed
        assert opened["titles"] != [named] and opened["titles"], opened
        assert opened["at"] == closed["at"], f"question {number + 1}: the figure moved"
        assert opened["needs"] <= PANE, f"question {number + 1}: {opened}"
        assert min(opened["panels"]) >= LOWEST_PANEL, f"question {number + 1}: {opened}"
        assert not opened["others"] and set(opened["open"]) == {"false"} and abs(opened["drawn"]) <= 1, opened


def test_what_is_folded_opens_below_with_the_keyboard_alone(asked):
    asked.python("view.ask(0)")
    closed = settled(asked)
    for place in range(len(closed["open"])):
        asked.page.locator(".lp-disclosure").nth(place).focus()
        asked.page.keyboard.press("Enter")
        asked.sees(PLACES.replace("return {", "return seen('.lp-disclosure').map(each => each.ariaExpanded)"
                   f"[{place}]; return {{"), "true")  # fmt: skip
    asked.python("view.toggle_answer()")
    opened = settled(asked)
    assert opened["at"] == closed["at"]
    assert opened["others"] == asked.python("len(view.explorer.figures)") - 1
    for place in range(len(closed["open"])):
        asked.page.locator(".lp-disclosure").nth(place).click()
    asked.python("view.toggle_answer()")
    assert settled(asked)["others"] == 0


def test_on_a_phone_the_answer_opens_below_the_figure(asked):
    asked.python("view.ask(0)")
    asked.page.set_viewport_size(PHONE)
    try:
        closed = settled(asked)
        asked.python("view.toggle_answer()")
        opened = settled(asked)
        assert opened["at"] == closed["at"] and opened["answers"] == 1
    finally:
        asked.python("view.ask(0)")
        asked.page.set_viewport_size(LAPTOP)


def test_on_a_phone_no_plot_is_squeezed_between_names_and_numbers(asked, on_a_laptop):
    """Names stand above their rows there, all of them; back on a laptop each figure is as it was."""
    figures = {named: number for number, (named, *_) in enumerate(on_a_laptop)}
    for width, numbers in ((PHONE, range(len(on_a_laptop))), (LAPTOP, figures.values())):
        asked.page.set_viewport_size(width)
        for number in numbers:
            asked.python(f"view.ask({number})")
            asked.python("view.set_controls()")
            seen, before = settled(asked), on_a_laptop[number][-1]
            if width is PHONE:
                assert min(seen["wide"]) >= NARROWEST_PANEL, f"question {number + 1}: {seen}"
                assert seen["named"] == before["named"] and seen["ticks"] >= 2, f"question {number + 1}: {seen}"
            else:
                compared = ("wide", "panels", "named")
                assert [seen[name] for name in compared] == [before[name] for name in compared], (number, seen, before)
