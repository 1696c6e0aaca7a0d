"""What AdaComp sends and what stays, in JupyterLab: every control moved by hand, and a live run that Stop ends."""

import os

import pytest

from lplab.widgets.explorers import residual_explorer as rs
from tests.browser.lab import COUNT_NEW_DRAWINGS

pytestmark = pytest.mark.browser

CELLS = (
    "from lplab.widgets import ResidualExplorer, live_adacomp",
    "explorer = ResidualExplorer(); explorer",
    "live = live_adacomp(steps=2000, name='Train them'); live",
)
TITLES = "() => [...document.querySelectorAll('.lp-fig .lp-fig-title')].map(e => e.textContent)"
SEEN = """() => {
  const words = element => element.textContent.trim();
  const plots = [...document.querySelectorAll('.lp-columns .js-plotly-plot')];
  return {
    statement: words(document.querySelector('.lp-columns .lp-quiet.lp-live')),
    table: [...document.querySelectorAll('.lp-columns table tr')].slice(1).map(row => [...row.children].map(words)),
    titles: plots.map(plot => words(plot.querySelector('.lp-fig-title'))),
    alts: plots.map(plot => plot.getAttribute('aria-label')),
  };
}"""


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.wait_for_function("() => document.querySelectorAll('.lp-fig .lp-fig-title').length === 3")
    return notebook


# A figure that is out of sight is drawn a moment later; who counts drawings must not count that one.
DRAWN = "() => [...document.querySelectorAll('.lp-columns .js-plotly-plot')].every(plot => !plot.lpShow)"


@pytest.fixture
def page(notebook):
    notebook.python("explorer.reset()")
    shows(notebook)
    notebook.page.wait_for_function(DRAWN)
    return notebook.page


def shows(notebook, **position):
    """Sentence, table and both figures on the page are those of a position, worked out here."""
    at = rs.ResidualState(**position)
    drawn = [draw(at).layout.meta for draw in (rs.history_figure, rs.bins_figure)]
    message = {"statement": rs.summary(at), "table": [list(row) for row in rs.table(at)]}
    message |= {"titles": [meta["title"] for meta in drawn], "alts": [meta["alt"] for meta in drawn]}
    notebook.sees(SEEN, message)
    assert notebook.python("vars(explorer.position)") == vars(at)


def test_sliders_answer_to_keys(notebook, page):
    page.get_by_role("slider", name="bin").focus()
    page.keyboard.press("End")
    shows(notebook, bin=5000)
    page.get_by_role("slider", name="step").focus()
    page.keyboard.press("ArrowRight")
    shows(notebook, bin=5000, moment=120)
    readouts = "() => [...document.querySelectorAll('.lp-columns .widget-readout')].map(e => e.textContent)"
    notebook.sees(readouts, ["5,000", "120"])


AXIS_TITLE = (
    "() => document.querySelectorAll('.lp-columns .js-plotly-plot')[1].querySelector('text.xtitle').textContent"
)


# The range of the lower figure's x axis, the labels of its ticks, and the lines that are more than one path.
TICKS = """() => {
  const plot = document.querySelectorAll('.lp-columns .js-plotly-plot')[1];
  const labels = [...plot.querySelectorAll('.xtick text')].map(e => e.textContent);
  const pieces = [...plot.querySelectorAll('g.lines')].filter(e => e.querySelectorAll('path.js-line').length > 1);
  return [plot.layout.xaxis.range, labels, pieces.length];
}"""


LINES_BY_PLOTLY = """() => {
  const { _module: scatter } = document.querySelector('.lp-columns .js-plotly-plot')._fullData[0];
  const { plot } = scatter;
  window.lpLines = [];
  scatter.plot = (gd, subplot, points, ...rest) => {
    for (const [{ trace }] of points) if (trace.mode === 'lines') lpLines.push(trace.name);
    return plot(gd, subplot, points, ...rest);
  };
  window.lpRestore = () => (scatter.plot = plot);
}"""


def test_lines_change_without_plotly(notebook, page):
    """plotly sets every style of a line again when it draws one, which takes longer than anything else of a step."""
    page.evaluate(LINES_BY_PLOTLY)
    try:
        page.get_by_role("slider", name="step").focus()
        for moment in (120, 237):
            page.keyboard.press("ArrowRight")
            shows(notebook, moment=moment)
        assert page.evaluate("() => window.lpLines") == []
    finally:
        page.evaluate("() => window.lpRestore()")


def test_what_leaves_the_axes_as_they_are_is_drawn_without_them(notebook, page):
    """plotly draws a whole figure where an axis changes, which takes three times as long: not for steps, or a title."""
    page.evaluate(
        "() => { window.lpDrawn = 0; for (const plot of document.querySelectorAll('.lp-columns .js-plotly-plot'))"
        " plot.on('plotly_afterplot', () => window.lpDrawn++); }"
    )
    page.get_by_role("slider", name="step").focus()
    for moment in (120, 237):
        page.keyboard.press("ArrowRight")
        shows(notebook, moment=moment)
    assert page.evaluate("() => window.lpDrawn") == 0
    page.get_by_role("slider", name="bin").focus()
    page.keyboard.press("End")
    shows(notebook, moment=237, bin=5000)
    notebook.sees(AXIS_TITLE, rs.bins_figure(rs.ResidualState(moment=237, bin=5000)).layout.xaxis.title.text)
    page.keyboard.press("ArrowLeft")
    two = rs.ResidualState(moment=237, bin=1000)
    shows(notebook, moment=237, bin=two.bin)
    notebook.sees(AXIS_TITLE, rs.bins_figure(two).layout.xaxis.title.text)


def test_a_step_that_moves_an_axis_draws_its_ticks_and_not_the_figure_anew(notebook, page):
    """With other bins both axes of the lower figure move: plotly would draw all of it, twice where a margin grows."""
    page.evaluate(COUNT_NEW_DRAWINGS)
    page.get_by_role("slider", name="bin").focus()
    for key, bin in (("End", 5000), ("Home", rs.BY_KIND), ("ArrowRight", 1), ("ArrowLeft", rs.BY_KIND)):
        page.keyboard.press(key)
        shows(notebook, bin=bin)
        x = rs.bins_figure(rs.ResidualState(bin=bin)).layout.xaxis
        notebook.sees(TICKS, [list(x.range), list(x.ticktext), 0])
    assert page.evaluate("() => window.lpDrawnAnew") == 0
    # plotly's Python half empties what it was told; this is what it has before it is told anything
    assert notebook.python("explorer.figures['bins']._js2py_update") == {}


def test_lists_answer_to_the_mouse(notebook, page):
    page.get_by_label("layer", exact=True).select_option("dense")
    shows(notebook, layer="dense")
    page.get_by_label("threshold", exact=True).select_option("hard: maxima only (s = 1)")
    shows(notebook, layer="dense", factor=1.0)


FIRST, *OTHERS = rs.PRESETS


@pytest.mark.parametrize("preset", [FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_presets_and_reset_answer_to_the_mouse(notebook, page, preset):
    notebook.python("explorer.set(bin=5, factor=1.0, layer='dense')")
    shows(notebook, bin=5, factor=1.0, layer="dense")
    page.get_by_role("button", name=preset, exact=True).click()
    shows(notebook, layer="dense", **rs.PRESETS[preset])
    page.get_by_role("button", name="Reset", exact=True).click()
    shows(notebook)


def test_the_code_is_shown_and_follows(notebook, page):
    page.get_by_role("button", name="Copy as code").click()
    code = "() => document.querySelector('.lp-columns .lp-code').innerText"
    copied = rs.ResidualExplorer().copied_code  # with its imports: it runs in a new notebook
    notebook.sees(code, copied(rs.ResidualState()))
    page.get_by_role("button", name="Bins of 1", exact=True).click()
    notebook.sees(code, copied(rs.ResidualState(bin=1)))


@pytest.mark.slow  # test_live_run has a run that is stopped, and a training
def test_a_live_run_draws_and_stops(notebook):
    page = notebook.page
    page.get_by_role("button", name="Train them", exact=True).click()
    page.wait_for_function(f"() => ({TITLES})().some(title => /^Step \\d+ of 2000: loss 2\\.\\d/.test(title))")
    if folder := os.environ.get("LPLAB_SHOTS"):
        page.wait_for_timeout(6000)
        page.screenshot(path=f"{folder}/live.png")
    page.get_by_role("button", name="Stop", exact=True).click()
    notebook.becomes("live.state", "stopped")
    assert 1 <= notebook.python("len(live.result())") < 2000
