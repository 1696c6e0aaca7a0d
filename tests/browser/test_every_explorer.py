"""What holds for every explorer in JupyterLab: it fits on the screen, sliders say values, what moves is right."""

import re
import time

import pytest

from benchmarks.explorers import EXPLORERS
from tests.browser.conftest import opening

pytestmark = pytest.mark.browser

BY_DEFAULT = ("BillExplorer",)
SIZES = {"phone": (390, 844), "laptop": (1366, 768), "tablet": (820, 1180), "desktop": (1440, 1000)}
SIDE_BY_SIDE = ("laptop", "desktop", "tablet")
WIDTHS = ("phone", "tablet", "laptop")
STEPPER = 90  # pixels that a question above the explorer takes
MAX_FIGURE = 560
# Sliders get their names a little later; an explorer may have none.
NAMED = "() => [...document.querySelectorAll('[role=slider]')].every(each => each.hasAttribute('aria-valuetext'))"


@pytest.fixture(
    scope="module", params=[pytest.param(n, marks=() if n in BY_DEFAULT else pytest.mark.slow) for n in EXPLORERS]
)
def explorer(window, request):
    """An explorer alone in a notebook, and a box below it for its figures drawn anew."""
    made = f"explorer = widgets.{request.param}({EXPLORERS[request.param]}); explorer"
    cells = ["from lplab import widgets", made, "import ipywidgets; again = ipywidgets.VBox(); again"]
    with opening(window, request.session) as open_:
        notebook = open_(cells, 60)
        drawn = "() => document.querySelectorAll('.lp-columns .js-plotly-plot .main-svg .subplot').length > 0"
        notebook.sees(drawn, True)
        notebook.sees("() => document.querySelectorAll('.lp-fig > .plot-container').length", len_figures(notebook))
        notebook.page.wait_for_function(NAMED)
        notebook.page.wait_for_timeout(800)  # sliders get their names
        yield notebook


def len_figures(notebook):
    return notebook.python("len(explorer.figures)")


PLACES = """() => {
  const box = element => {
    const {top, bottom, left, right} = element.getBoundingClientRect();
    return {top, bottom, left, right};
  };
  const seen = selector => [...document.querySelectorAll(selector)].filter(each => each.checkVisibility());
  const columns = document.querySelector('.lp-columns'), first = columns.querySelector('.js-plotly-plot');
  return {
    pane: document.querySelector('.jp-WindowedPanel-outer, .jp-Notebook').clientHeight,
    lists: seen('.lp-controls select').map(list => Math.round(list.getBoundingClientRect().height)),
    tracks: seen('.lp-side .widget-hslider:not(.lp-long-slider) .slider-container')
      .map(track => Math.round(track.getBoundingClientRect().width)),
    root: box(columns.closest('.lp-controls')), side: box(columns.querySelector('.lp-side')), figure: box(first),
    texts: [...columns.querySelectorAll('.lp-fig')].map(figure => ({
      figure: box(figure),
      titles: [...figure.querySelectorAll('.lp-fig-title, .lp-fig-subtitle')]
        .map(text => [text.textContent, box(text), text.scrollWidth - text.clientWidth]),
      plots: Object.values(figure._fullLayout._plots).map(({xaxis, yaxis}) => [xaxis, yaxis])
        .filter(axes => axes.every(axis => axis.visible)).map(([x, y]) => {
          const {left, top} = box(figure.querySelector('.main-svg'));
          return {left: left + x._offset, right: left + x._offset + x._length,
            top: top + y._offset, bottom: top + y._offset + y._length};
        }),
      words: [...figure.querySelectorAll('text')]
        .filter(text => text.checkVisibility({visibilityProperty: true}) && text.textContent.trim())
        .map(text => [text.textContent, box(text)]),
      inside: [...figure.querySelectorAll('.subplot')].filter(plot => plot.querySelector('[clip-path]'))
        .flatMap(plot => {
          const name = plot.classList[1], all = [...plot.querySelectorAll('.textpoint text')];
          const area = all.length && box(figure.querySelector(`.nsewdrag[data-subplot=${name}]`));
          return all.filter(text => text.textContent.trim()).map(text => [text.textContent, box(text), area]);
        }),
    })),
  };
}"""


def places_at(explorer, size):
    """Where everything stands in a window of this size, once figures have followed their width."""
    width, height = SIZES[size]
    explorer.page.set_viewport_size({"width": width, "height": height})
    explorer.page.wait_for_timeout(500)
    before, now = None, explorer.page.evaluate(PLACES)
    end = time.monotonic() + 20
    while now != before and time.monotonic() < end:  # figures are drawn anew, slowly on a busy machine
        explorer.page.wait_for_timeout(300)
        before, now = now, explorer.page.evaluate(PLACES)
    return now


@pytest.fixture(scope="module")
def places(explorer):
    """Where everything stands in each window, and once more in the first: the tests below only look at it."""
    return {size: places_at(explorer, size) for size in SIZES} | {"phone again": places_at(explorer, "phone")}


@pytest.mark.parametrize("size", SIDE_BY_SIDE)
def test_controls_and_first_figure_are_visible_together(places, size):
    at = places[size]
    ends = max(at["side"]["bottom"], at["figure"]["bottom"]) - at["root"]["top"]
    assert ends + STEPPER <= at["pane"], at
    assert at["figure"]["bottom"] - at["figure"]["top"] <= MAX_FIGURE + 40  # a title of three lines
    assert at["figure"]["right"] <= SIZES[size][0]


def overlap(a, b):
    """How far two boxes lie over one another, in pixels of the smaller way."""
    wide = min(a["right"], b["right"]) - max(a["left"], b["left"])
    high = min(a["bottom"], b["bottom"]) - max(a["top"], b["top"])
    return min(wide, high)


@pytest.mark.parametrize("size", WIDTHS)
def test_no_words_lie_over_others(places, size):
    over = []
    for figure in places[size]["texts"]:
        words = figure["words"]
        for i, (text, place) in enumerate(words):
            over += [(text, other) for other, there in words[i + 1 :] if overlap(place, there) > 4]
            over += [(text, title) for title, there, _ in figure["titles"] if overlap(place, there) > 4]
    assert not over


@pytest.mark.parametrize("size", WIDTHS)
def test_titles_and_words_are_within_their_figures(places, size):
    for figure in places[size]["texts"]:
        edge = figure["figure"]
        assert figure["plots"], "a blank figure"
        assert edge["right"] <= SIZES[size][0]
        for title, at, cut in figure["titles"]:
            assert cut <= 0 and edge["left"] - 1 <= at["left"] and at["right"] <= edge["right"] + 1, title
            assert all(overlap(at, plot) <= 2 for plot in figure["plots"]), f"over the plot: {title}"
        beyond = [
            text for text, at in figure["words"] if at["left"] < edge["left"] - 2 or at["right"] > edge["right"] + 2
        ]
        assert not beyond
        assert all(plot["bottom"] <= edge["bottom"] for plot in figure["plots"])


def test_figures_keep_their_heights_when_the_window_changes(places):
    boxes = [[figure["figure"] for figure in places[size]["texts"]] for size in ("phone", "phone again")]
    first, last = ([round(box["bottom"] - box["top"]) for box in each] for each in boxes)
    assert first == last


@pytest.mark.parametrize("size", SIDE_BY_SIDE)
def test_no_words_are_cut_by_the_edge_of_a_plot(places, size):
    inside = [words for figure in places[size]["texts"] for words in figure["inside"]]
    room = 2  # pixels above and below the letters
    cut = [text for text, at, area in inside if at["top"] + room < area["top"] or at["bottom"] - room > area["bottom"]]
    assert not cut


def test_lists_are_high_enough_for_their_words(places):
    """A list with its label above it takes no height from its row."""
    assert min((height for size in SIDE_BY_SIDE for height in places[size]["lists"]), default=28) >= 26


def test_tracks_of_sliders_are_of_one_length(places):
    """Also beside a readout for "65,536", and of a slider that has none."""
    for size in SIZES:
        assert len(set(places[size]["tracks"])) <= 1, size


# Of each subplot whose traces have boxes: its name, and places of marks and along lines within it.
MARKS = """() => [...document.querySelectorAll('.lp-columns .js-plotly-plot')].flatMap((figure, k) => {
  const plots = new Map();
  for (const [{ trace }] of figure.calcdata) {
    if (trace.visible !== true || !trace.hovertemplate) continue;
    const name = trace.xaxis + trace.yaxis;
    plots.set(name, [...(plots.get(name) ?? []), trace]);
  }
  return [...plots.keys()].map(name => {
    const plot = figure._fullLayout._plots[name], all = plot.plot.node();
    const marks = [...all.querySelectorAll('.point path, path.point, .hm image')]
      .map(mark => mark.getBoundingClientRect())
      .map(({ left, right, top, bottom }) => [(left + right) / 2, (top + bottom) / 2]);
    const along = [...all.querySelectorAll('.js-line')].flatMap(line => [0.1, 0.3, 0.5, 0.7, 0.9].map(share => {
      const { x, y } = line.getPointAtLength(share * line.getTotalLength()).matrixTransform(line.getScreenCTM());
      return [x, y];
    }));
    const area = figure.querySelector(`.nsewdrag[data-subplot="${name}"]`).getBoundingClientRect();
    const middle = [...marks, ...along]
      .filter(([x, y]) => x > area.left && x < area.right && y > area.top && y < area.bottom);
    return [`figure ${k}, ${name}`, middle];
  }).filter(([, middle]) => middle.length);
})"""
BOXES = "() => document.querySelectorAll('.hoverlayer .hovertext').length"


def test_the_pointer_over_a_mark_shows_its_box(explorer):
    """Of stacked figures it did not: the rectangle of their texts lay over all panels."""
    explorer.page.set_viewport_size({"width": 1440, "height": 1500})  # all figures are on the screen
    explorer.python("explorer.reset()")
    explorer.page.wait_for_timeout(1000)
    subplots = explorer.page.evaluate(MARKS)
    assert subplots
    silent = []
    for name, places in subplots:
        for x, y in places[:: max(len(places) // 12, 1)]:
            explorer.page.mouse.move(x, y)
            explorer.page.wait_for_timeout(100)
            if explorer.page.evaluate(BOXES):
                break
        else:
            silent.append(name)
    explorer.page.mouse.move(0, 0)
    assert not silent


def sliders(notebook):
    return [each for each in notebook.page.locator(".lp-controls [role=slider]").all() if each.is_visible()]


SHOWN = """element => {
  const readout = element.closest('.widget-inline-hbox').querySelector('.widget-readout');
  return readout && readout.style.display !== 'none' ? readout.textContent : '';
}"""


def test_sliders_say_their_values_and_up_is_more(explorer):
    """The readout and a unit instead of the number of the entry; where readouts are numbers, up makes them larger."""
    explorer.python("explorer.reset()")
    for slider in sliders(explorer):
        slider.focus()
        explorer.page.wait_for_timeout(100)
        before, shown = slider.get_attribute("aria-valuetext"), slider.evaluate(SHOWN)
        if shown:
            assert before.startswith(shown), before
        explorer.page.keyboard.press("ArrowUp")
        explorer.page.wait_for_timeout(300)
        after = slider.evaluate(SHOWN)
        if shown and after != shown:
            assert slider.get_attribute("aria-valuetext").startswith(after)
            low, high = (re.fullmatch(r"(-?[\d.,]+)[ ×%]*", text) for text in (shown, after))
            if low and high:
                assert float(low[1].replace(",", "")) < float(high[1].replace(",", "")), slider.get_attribute(
                    "aria-label"
                )
    explorer.python("explorer.reset()")


# What a plot shows: outlines and words with their places.
DRAWN = """k => {
  const plot = document.querySelectorAll('.js-plotly-plot')[k];
  if (!plot?.querySelector('.main-svg')) return null;
  const place = e => ['transform', 'x', 'y'].map(name => e.getAttribute(name) ?? '').join(' ');
  const seen = e => e.style.display !== 'none' && e.getAttribute('d') !== 'M0,0Z';
  const round = text => text.replace(/-?\\d+\\.\\d+/g, number => Math.round(Number(number) * 10) / 10);
  const traces = '.scatterlayer > g, .barlayer > g, .shapelayer';
  const look = e => round(e.getAttribute('d') + place(e) + e.style.fill.replace(/#[^"]*/, '') + e.style.stroke);
  return { // traces in their order: later ones lie over earlier ones
    outlines: [...plot.querySelectorAll(traces)].map(trace => [...trace.querySelectorAll('path')].filter(seen))
      .filter(paths => paths.length).map(paths => paths.map(look).sort()),
    words: [...plot.querySelectorAll('.cartesianlayer text')].filter(e => e.textContent).map(e => e.textContent).sort(),
    label: plot.getAttribute('aria-label'), heading: plot.querySelector('.lp-fig-heading')?.textContent,
  };
}"""


def test_what_sliders_leave_is_what_a_new_drawing_shows(explorer):
    """A change draws only what it changes; the same figure drawn anew has every outline and every word of it."""
    explorer.page.set_viewport_size({"width": 1440, "height": 1000})
    explorer.python("explorer.reset()")
    count = explorer.python("len(explorer.figures)")
    flex = explorer.python("explorer._columns.children[1].layout.flex")
    # both of one width, and that before anything moves: another width is a new drawing
    explorer.python("setattr(explorer._columns.children[1].layout, 'flex', '0 0 700px')")
    explorer.page.wait_for_timeout(1500)
    for slider in sliders(explorer):
        slider.focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowLeft", "Home", "ArrowRight"):
            explorer.page.keyboard.press(key)
            explorer.page.wait_for_timeout(120)
        explorer.page.wait_for_timeout(500)
    explorer.python("setattr(again, 'children', list(explorer.figures.values()))")
    explorer.python("setattr(again.layout, 'width', '700px')")
    explorer.sees("() => document.querySelectorAll('.js-plotly-plot .main-svg .subplot').length > 0", True)
    explorer.page.wait_for_timeout(1500)
    for k in range(count):
        explorer.sees(DRAWN, explorer.page.evaluate(DRAWN, count + k), k, seconds=10)
    explorer.python("setattr(again, 'children', [])")
    explorer.python(f"setattr(explorer._columns.children[1].layout, 'flex', {flex!r})")
    explorer.python("explorer.reset()")
