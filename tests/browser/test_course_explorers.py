"""The explorers of labs 08 and 10 to 13 in JupyterLab: slider, preset and Reset, with the mouse and with keys alone.

What the page shows is compared with what the state's own functions say of the position, here in the test's process.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from lplab.widgets.explorers import (
    bill_explorer,
    cluster_explorer,
    learners_explorer,
    roofline_explorer,
    scale_explorer,
)

pytestmark = pytest.mark.browser


@dataclass(frozen=True)
class Case:
    """An explorer and what is done to it.

    Attributes:
        state: the module of its positions, presets and sentences.
        start: where the controls stand at first.
        figures: functions of a position, one for each figure.
        slider: its label, the field that it moves, and the key that moves it.
        moved: the field's value after that key, and what then stands beside the slider.
        preset: its name, of a button or, where ``listed``, in a list that it is the last of.
    """

    state: Any
    start: Any
    figures: tuple[Any, ...]
    slider: tuple[str, str, str]
    moved: tuple[Any, str]
    preset: str
    listed: bool = False


CASES = {
    "LearnersExplorer": Case(
        learners_explorer,
        learners_explorer.LearnersState(),
        (learners_explorer.figure,),
        ("learners", "learners", "ArrowLeft"),
        (32, "32"),
        "ResNet18, 8 learners, 1 of 112",
    ),
    "ClusterExplorer": Case(
        cluster_explorer,
        cluster_explorer.ClusterState(),
        (cluster_explorer.figure,),
        ("devices", "devices", "ArrowRight"),
        (128, "128"),
        "1,024 H100",
        listed=True,
    ),
    "RooflineExplorer": Case(
        roofline_explorer,
        roofline_explorer.RooflineState(),
        (roofline_explorer.figure,),
        ("batch", "batch", "ArrowRight"),
        (1024, "1,024"),
        "4 bits (2020)",
    ),
    "BillExplorer": Case(
        bill_explorer,
        bill_explorer.BillState(),
        (bill_explorer.parts_figure, bill_explorer.carbon_figure),
        ("fewer bytes", "compression", "ArrowRight"),
        (2, "2 ×"),
        "ScaleCom (2020)",
    ),
    "ScaleExplorer": Case(
        scale_explorer,
        scale_explorer.ScaleState(),
        (scale_explorer.map_figure, scale_explorer.curves_figure),
        ("shared by", "shared", "ArrowLeft"),
        ("128×128", "128×128"),
        "NVFP4",
    ),
}
SEEN = """([place, titles]) => {
  const columns = document.querySelectorAll('.lp-columns')[place];
  const plots = [...(columns?.querySelectorAll('.js-plotly-plot') ?? [])];
  return {
    statement: columns?.querySelector('.lp-quiet.lp-live')?.textContent.trim(),
    alts: plots.map(plot => plot.getAttribute('aria-label')),
    titles: titles.filter(title => plots.some(plot => plot.textContent.includes(title))),
  };
}"""
HAS_FOCUS = "element => element === document.activeElement"


class Explorer:
    """One of the explorers on the page."""

    def __init__(self, notebook: Any, name: str) -> None:
        self.notebook, self.page, self.name, self.case = notebook, notebook.page, name, CASES[name]
        self.place = list(CASES).index(name)
        self.root = self.page.locator(".lp-controls").nth(self.place)
        row = self.root.locator(".widget-inline-hbox")
        self.slider_row = row.filter(has=self.page.get_by_text(self.case.slider[0], exact=True))
        self.slider = self.slider_row.get_by_role("slider")
        self.reset = self.root.get_by_role("button", name="Reset", exact=True)
        self.preset = (
            self.root.get_by_label("preset", exact=True)
            if self.case.listed
            else self.root.get_by_role("button", name=self.case.preset, exact=True)
        )

    def shows(self, state: Any) -> None:
        """Kernel and page come to a position: the sentence, the alt texts and the titles of the figures are its own."""
        self.notebook.becomes(f"vars({self.name}.position)", vars(state))
        drawn = [draw(state).layout.meta for draw in self.case.figures]
        titles = [meta["title"] for meta in drawn]
        message = {
            "statement": self.case.state.summary(state),
            "alts": [meta["alt"] for meta in drawn],
            "titles": titles,
        }
        self.notebook.sees(SEEN, message, [self.place, titles])
        assert self.notebook.python(f"{self.name}.error_line.value") == ""

    def reads(self, text: str) -> None:
        """Beside the slider stands this text."""
        self.slider_row.locator(".widget-readout").get_by_text(text, exact=True).wait_for()


@pytest.fixture(scope="module")
def notebook(open_notebook):
    cells = [f"{name} = widgets.{name}(); {name}" for name in CASES]
    return open_notebook("from lplab import widgets", *cells)


# By default one whose presets are buttons and that has two figures, and one whose presets are a list.
BY_DEFAULT = ("BillExplorer", "ClusterExplorer")


@pytest.fixture(params=[pytest.param(name, marks=() if name in BY_DEFAULT else pytest.mark.slow) for name in CASES])
def explorer(notebook, request):
    explorer = Explorer(notebook, request.param)
    notebook.python(f"{request.param}.reset()")
    explorer.shows(explorer.case.start)
    return explorer


def test_slider_preset_and_reset_by_mouse(explorer):
    case, page = explorer.case, explorer.page
    track = explorer.slider_row.locator(".noUi-target")
    track.scroll_into_view_if_needed()
    box = track.bounding_box()
    page.mouse.click(box["x"] + 1, box["y"] + box["height"] / 2)
    first = explorer.notebook.python(f"{explorer.name}.controls[{case.slider[1]!r}].options[0]")
    label, value = first if isinstance(first, tuple) else (str(first), first)
    explorer.shows(replace(case.start, **{case.slider[1]: value}))
    explorer.reads(label)
    if case.listed:
        explorer.preset.select_option(case.preset)
    else:
        explorer.preset.click()
    there = replace(case.start, **{case.slider[1]: value} | case.state.PRESETS[case.preset])
    assert there != case.start
    explorer.shows(there)
    explorer.reset.click()
    explorer.shows(case.start)


def test_slider_preset_and_reset_by_keyboard_alone(explorer):
    case, page = explorer.case, explorer.page
    cells = page.locator(".jp-Cell").count()
    field, (value, text) = case.slider[1], case.moved
    explorer.slider.focus()
    explorer.root.get_by_role("slider", name=case.slider[0], exact=True).wait_for()  # the name that is read out
    page.keyboard.press(case.slider[2])
    moved = replace(case.start, **{field: value})
    explorer.shows(moved)
    explorer.reads(text)
    explorer.preset.focus()
    page.keyboard.press("End" if case.listed else "Enter")
    explorer.shows(replace(moved, **case.state.PRESETS[case.preset]))
    for _ in range(25):
        page.keyboard.press("Tab")
        if explorer.reset.evaluate(HAS_FOCUS):
            break
    assert explorer.reset.evaluate(HAS_FOCUS), "Tab comes to Reset"
    page.keyboard.press("Space")
    explorer.shows(case.start)
    assert page.locator(".jp-Cell").count() == cells, "no key went to the notebook"
