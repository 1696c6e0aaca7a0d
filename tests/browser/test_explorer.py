"""The format explorer in JupyterLab: with the mouse, with the keyboard alone, in both themes, on narrow screens."""

import re

import pytest

from tests.browser.lab import COUNT_NEW_DRAWINGS

pytestmark = pytest.mark.browser

CELLS = (
    "from lplab.widgets import FormatExplorer",
    "explorer = FormatExplorer('weights', preset='e4m3fn'); explorer",
)


FITS = """() => {
  const controls = document.querySelector('.lp-controls'), outer = controls.clientWidth;
  const plots = [...document.querySelectorAll('.js-plotly-plot .main-svg')];
  const widths = plots.map(plot => plot.getBoundingClientRect().width);
  return {
    'controls inside': controls.scrollWidth <= outer + 1,
    'plots inside': Math.max(...widths) <= outer,
    'plots of some width': Math.min(...widths) >= Math.min(240, outer / 2),
  };
}"""
DRAWN = "() => document.querySelectorAll('.js-plotly-plot .subplot').length >= 4"  # three panels, and the texts
NAME_OF_FOCUS = "() => document.activeElement.closest('.widget-inline-hbox, button')?.innerText.split('\\n')[0] ?? ''"
REACHED = (
    "preset",
    "exponent bits",
    "mantissa bits",
    "2",
    "subnormals",
    "specials",
    "rounding",
    "Reset",
    "Copy as code",
)


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.wait_for_function(DRAWN)
    notebook.page.locator("[role=slider][aria-label='exponent bits']").wait_for()
    return notebook


@pytest.fixture
def page(notebook):
    notebook.python("explorer.reset()")
    notebook.page.locator(".lp-summary", has_text="e4m3fn: 8 bits").wait_for()
    return notebook.page


def bars(page):
    """The outline of all bars of the histogram."""
    paths = page.locator(".js-plotly-plot .bars path")
    return paths.evaluate_all("all => all.map(e => e.getAttribute('d')).join()")


def test_slider_by_keyboard_changes_all_panels(notebook, page):
    plot = page.locator(".js-plotly-plot")
    label, before, sentences = plot.get_attribute("aria-label"), bars(page), page.locator(".lp-statements").inner_text()
    page.locator("[aria-label='mantissa bits']").focus()
    page.keyboard.press("ArrowLeft")
    page.locator(".lp-summary", has_text="1-4-2 (bias 7): 7 bits").wait_for()
    notebook.becomes("explorer.state.mantissa_bits", 2)
    page.wait_for_function("([e, old]) => e.getAttribute('aria-label') !== old", arg=[plot.element_handle(), label])
    assert page.locator(".lp-fig-panel", has_text="1-4-2").count() >= 3, "the titles of the panels"
    assert bars(page) != before
    after = page.locator(".lp-statements").inner_text()
    assert after != sentences
    assert after.count("1-4-2") >= 3


# How many lines of the number line are a path for each tick, and whether the area below the error is filled.
LINES = """() => {
  const lines = [...document.querySelectorAll('.js-plotly-plot .lines')];
  const fills = [...document.querySelectorAll('.js-plotly-plot .x2y2 path.js-fill')];
  return [lines.filter(e => e.querySelectorAll('path.js-line').length > 1).length,
    fills.some(e => e.getAttribute('d')?.length > 9)];
}"""


def test_steps_between_ticks_and_ribbons_draw_the_figure_anew_only_the_first_time(notebook, page):
    """From 6 mantissa bits on the values are ribbons and the error is an area: other traces are shown, and hidden."""
    slider = page.locator("[aria-label='mantissa bits']")
    slider.focus()
    for turn in range(2):
        for key, bits in (("ArrowRight", 4), ("ArrowRight", 5), ("ArrowRight", 6), ("ArrowLeft", 5), ("ArrowLeft", 4)):
            page.keyboard.press(key)
            page.locator(".lp-fig-panel", has_text=f"1-4-{bits} (bias 7) spans").wait_for()
            notebook.sees(LINES, [0, bits == 6])
        page.keyboard.press("ArrowLeft")
        page.locator(".lp-summary", has_text="e4m3fn: 8 bits").wait_for()
        if not turn:
            page.evaluate(COUNT_NEW_DRAWINGS)
    assert page.evaluate("() => window.lpDrawnAnew") == 0


def test_slider_by_mouse(notebook, page):
    row = page.locator(".widget-inline-hbox", has=page.locator("[aria-label='exponent bits']"))
    box = row.locator(".noUi-target").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.99, box["y"] + box["height"] / 2)
    notebook.becomes("explorer.state.exponent_bits", 8)


def test_every_control_is_reached_by_tab_and_keeps_its_keys(notebook, page):
    seen = []
    page.locator(".lp-controls select").first.focus()
    for _ in range(25):
        seen.append(page.evaluate(NAME_OF_FOCUS))
        page.keyboard.press("Tab")
    missing = {name for name in REACHED if not any(name in text for text in seen)}
    assert not missing, seen
    cells = page.locator(".jp-Cell").count()
    rounding = page.get_by_label("rounding", exact=True)
    rounding.focus()
    page.keyboard.press("ArrowDown")
    notebook.becomes("explorer.state.rounding", "nearest_away")
    page.keyboard.type("b")  # "b" alone would insert a cell
    page.get_by_label("preset", exact=True).focus()
    page.keyboard.press("End")
    notebook.becomes("explorer.state.other", "nvfp4")
    assert page.locator(".jp-Cell").count() == cells


def test_preset_checkbox_and_buttons_by_mouse(notebook, page):
    page.get_by_label("preset", exact=True).select_option("e5m2")
    notebook.becomes("explorer.format.label", "e5m2")
    page.get_by_role("checkbox", name="subnormals").click()
    notebook.becomes("explorer.state.subnormals", False)
    page.locator(".lp-controls").get_by_role("button", name="4", exact=True).click()
    notebook.becomes("explorer.state.radix", 4)
    page.get_by_role("button", name="Reset").click()
    notebook.becomes("explorer.format.label", "e4m3fn")


def test_a_half_bias_does_not_come_back_after_a_preset(notebook, page):
    notebook.python("explorer.set(radix=4, bias_shift=-8.5)")
    notebook.sees(
        "() => document.querySelector(\".lp-side [aria-label^='bias']\").getAttribute('aria-valuenow')", "-8.5"
    )
    page.get_by_label("preset", exact=True).select_option("fp32")
    notebook.becomes("explorer.format.label", "fp32")
    page.wait_for_timeout(500)  # what the browser would send back
    assert notebook.python("(explorer.format.label, explorer.state.bias_shift)") == ("fp32", 0.0)


def test_impossible_combination_is_said_and_nothing_dies(notebook, page):
    page.get_by_label("specials", exact=True).select_option("dlfloat")
    message = page.locator(".lp-summary.lp-error", has_text="Not possible")
    message.wait_for()
    stale = page.locator(".lp-main.lp-stale")
    stale.wait_for()  # the message and the class come one after the other
    assert stale.count() == 1
    page.get_by_role("checkbox", name="subnormals").click()
    message.wait_for(state="detached")
    notebook.becomes("explorer.state.subnormals", False)
    stale.wait_for(state="detached")


def test_tensor_changes_the_histogram(notebook, page):
    before = bars(page)
    page.get_by_label("role", exact=True).select_option("gradient")
    notebook.becomes("explorer.state.tensor", "resnet/step200/layer2.conv1/gradient")
    page.locator(".js-plotly-plot[aria-label*='|gradient|']").wait_for()
    assert bars(page) != before


def test_own_file_that_is_not_there(notebook, page):
    box = page.get_by_label("your file", exact=True)
    box.fill("nowhere.npz")
    box.press("Enter")
    message = page.locator(".lp-side .lp-error", has_text=re.compile("nowhere.npz"))
    message.wait_for()
    assert "Traceback" not in message.inner_text()
    assert notebook.python("explorer.state.tensor") == "resnet/step200/layer2.conv1/weight", "the tensor stays"


def test_code_is_shown(notebook, page):
    page.get_by_role("button", name="Copy as code").click()
    code = page.locator(".lp-code", has_text='F.get("e4m3fn")')
    code.wait_for()
    assert code.inner_text() == notebook.python("explorer.code")


@pytest.mark.parametrize("width", [1440, 820, 390])
def test_nothing_is_cut_off(notebook, page, width):
    page.set_viewport_size({"width": width, "height": 900})
    try:
        notebook.sees(FITS, {"controls inside": True, "plots inside": True, "plots of some width": True})
    finally:
        page.set_viewport_size({"width": 1440, "height": 1000})


def test_dark_theme_has_light_ink(notebook, page):
    notebook.theme("Dark")
    ink = page.locator(".xtitle").first.evaluate("e => getComputedStyle(e).fill")
    background = page.locator(".main-svg").first.evaluate("e => getComputedStyle(e).backgroundColor")
    notebook.theme("Light")
    assert min(int(v) for v in re.findall(r"\d+", ink)[:3]) > 180
    assert background == "rgba(0, 0, 0, 0)"


def test_page_loaded_anew_shows_the_figures_as_they_are_now(notebook, page):
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    notebook.python("explorer.set(mantissa_bits=1)")
    page.locator(".textpoint", has_text="1-4-1").first.wait_for()
    notebook.load_anew()
    page.wait_for_function(DRAWN)
    titles = page.locator(".lp-fig-panel", has_text="1-4-1")
    titles.first.wait_for()
    assert titles.count() >= 3
    page.locator("[aria-label='mantissa bits']").focus()
    page.keyboard.press("ArrowRight")
    page.locator(".textpoint", has_text="1-4-2").first.wait_for()
