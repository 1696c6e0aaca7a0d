"""Figures with many words in a narrow JupyterLab: lab 07's table of numbers, lab 08's ring, and panels side by side."""

from itertools import pairwise

import pytest

from tests.browser.test_every_explorer import PLACES, overlap

pytestmark = pytest.mark.browser

WIDTHS = (700, 820)  # JupyterLab of 820 pixels with its side bar open is about as wide as one of 700 without
PHONE = 390
CELLS = (
    "from lplab import widgets\nfrom lplab.exercises.lab08 import draw_ring, ring\n"
    "from lplab.labs.four_domains import four_domains",
    "four_domains('FP8 of 2018', 'hybrid FP8')",
    "explorer = widgets.FourBitExplorer(grid='luq', scale=6); explorer",  # an error of 1,749 %, in bold
    "draw_ring(ring.ring_messages)",
)
RING = """() => {
  const figure = [...document.querySelectorAll('.js-plotly-plot')].at(-1);
  const box = ({left, right, top, bottom}) => ({left, right, top, bottom});
  return {
    figure: box(figure.getBoundingClientRect()),
    words: [...figure.querySelectorAll('.heatmap-label text, .textpoint text')]
      .map(text => [text.textContent, box(text.getBoundingClientRect())]),
  };
}"""

PANELS = """() => {
  const figure = document.querySelector('.js-plotly-plot');
  const box = ({left, right, top, bottom}) => ({left, right, top, bottom});
  const boxes = (selector) =>
    [...figure.querySelectorAll(selector)].map(e => [e.textContent, box(e.getBoundingClientRect())]);
  const axes = Object.values(figure._fullLayout).filter(value => value?._id?.startsWith('x') && value._length);
  return {
    figure: box(figure.getBoundingClientRect()),
    titles: boxes('.infolayer [class^="g-x"] text'),
    axes: axes.map(({_id, _offset, _length, anchor}) => [_id, anchor, _offset, _offset + _length]),
  };
}"""


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.sees("() => document.querySelectorAll('.lp-columns .textpoint text').length >= 21", True)
    notebook.sees("() => document.querySelectorAll('.heatmap-label text').length", 11 * 36)
    return notebook


def at_width(notebook, width, script):
    notebook.page.set_viewport_size({"width": width, "height": 1180})
    before, now = None, notebook.page.evaluate(script)
    while now != before:  # figures follow their width
        notebook.page.wait_for_timeout(1000)
        before, now = now, notebook.page.evaluate(script)
    return now


def are_apart(figure, words, room):
    for i, (text, place) in enumerate(words):
        assert figure["left"] <= place["left"] and place["right"] <= figure["right"], text
        near = [other for other, there in words[i + 1 :] if overlap(place, there) > -room]
        assert not near, (text, near)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_columns_of_the_table_beside_the_grids_stay_apart(notebook, width):
    figure = at_width(notebook, width, PLACES)["texts"][0]
    words = [(text, place) for text, place, _ in figure["inside"]]
    assert "1,749" in [text for text, _ in words]
    are_apart(figure["figure"], words, room=2)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_numbers_of_a_ring_stay_apart(notebook, width):
    ring = at_width(notebook, width, RING)
    assert {text for text, _ in ring["words"]} >= {"1", "6", "start", "step 9"}
    are_apart(ring["figure"], ring["words"], room=2)


def test_panels_beside_each_other_keep_their_places_on_a_phone(notebook):
    seen = at_width(notebook, PHONE, PANELS)
    assert len(seen["axes"]) == len(seen["titles"]) == 5
    for row in {anchor for _, anchor, _, _ in seen["axes"]}:
        ends = sorted((start, end) for _, anchor, start, end in seen["axes"] if anchor == row)
        assert all(end < start for (_, end), (start, _) in pairwise(ends)), ends
    are_apart(seen["figure"], seen["titles"], room=2)
