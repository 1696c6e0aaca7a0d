"""The bit panel in JupyterLab, with the mouse, with the keyboard alone, and its decoder against Python."""

import base64

import numpy as np
import pytest

import lplab.widgets.bit_panel as module
from lplab import formats as F

pytestmark = pytest.mark.browser

CELLS = (
    "from lplab.widgets import BitPanel\nfrom lplab import formats as F",
    "panel = BitPanel('e4m3fn', pattern=0x38); panel",
    "wide = BitPanel('fp32', pattern=0x3f800000); wide",
    "import ipywidgets; later = ipywidgets.VBox(); later",
)


AT_ONCE = """() => {
  const timeout = (window.lpTimeout = AbortSignal.timeout);
  AbortSignal.timeout = ms => timeout.call(AbortSignal, ms === 2000 ? 0 : ms);
}"""


@pytest.fixture(scope="module")
def notebook(open_notebook):
    notebook = open_notebook(*CELLS)
    notebook.page.locator(".lp-bits").nth(1).wait_for()
    return notebook


@pytest.fixture
def panel(notebook):
    """The first panel, put back to 1.0 in e4m3fn."""
    notebook.python("panel.set_trait('format', F.get('e4m3fn'))")
    notebook.python("panel.set_trait('pattern', 0x38)")
    element = notebook.page.locator(".lp-bits").first
    element.locator(".lp-bits-value", has_text="1").wait_for()
    return element


def test_a_panel_that_took_long_to_begin_hears_python(notebook):
    """anywidget gives up after two seconds and passes nothing on to such a model: here after none."""
    page = notebook.page
    page.evaluate(AT_ONCE)
    notebook.python("later.set_trait('children', [BitPanel('e4m3fn', pattern=0x38)])")
    panel = page.locator(".lp-bits").nth(2)
    panel.locator(".lp-bits-value", has_text="1").wait_for()
    notebook.python("later.children[0].set_trait('pattern', 0x40)")
    panel.locator(".lp-bits-value", has_text="2").wait_for()
    notebook.python("later.set_trait('children', [])")
    page.evaluate("() => { AbortSignal.timeout = lpTimeout; }")


def value(panel):
    return panel.locator(".lp-bits-value").inner_text()


def test_names_and_states_are_told(panel):
    assert panel.get_attribute("aria-label") == "bits of e4m3fn"
    groups = panel.get_by_role("group").all()
    assert [group.get_attribute("aria-label") for group in groups] == [
        "sign, 1 bit",
        "exponent, 4 bits",
        "mantissa, 3 bits",
    ]
    switches = panel.get_by_role("switch")
    assert switches.evaluate_all("all => all.map(e => e.getAttribute('aria-checked') === 'true')") == [
        bit == "1" for bit in "00111000"
    ]
    assert panel.get_by_role("switch", name="exponent bit 3").count() == 1
    assert switches.evaluate_all("all => all.filter(e => e.tabIndex === 0).length") == 1


def test_click_toggles_a_bit_here_and_in_python(notebook, panel):
    panel.get_by_role("switch", name="mantissa bit 2").click()
    assert value(panel) == "1.5"
    assert panel.locator(".lp-bits-formula").inner_text().replace("\n", "") == "= (−1)0 × 27 − 7 × 1.5"
    notebook.becomes("panel.pattern", 0x3C)
    panel.get_by_role("switch", name="sign bit").click()
    assert value(panel) == "−1.5"
    notebook.becomes("panel.value", -1.5)


def test_keyboard_alone(notebook, panel):
    keys = notebook.page.keyboard
    panel.locator("[role=switch][tabindex='0']").focus()
    keys.press("Home")
    for key in ("ArrowRight", "ArrowRight", "0", "End", "1", "ArrowLeft", "Space"):
        keys.press(key)
    notebook.becomes("panel.pattern", 0b00011011)
    keys.press("Space")
    keys.press("1")
    keys.press("1")
    keys.press("0")
    keys.press("0")  # 0 0 would restart the kernel if JupyterLab had taken it
    notebook.becomes("panel.pattern", 0b00011001)
    keys.press("Tab")  # from the row to the button of the next value below
    keys.press("Enter")
    notebook.becomes("panel.pattern", 0b00011000)
    keys.press("Tab")
    keys.press("Space")
    notebook.becomes("panel.pattern", 0b00011001)
    assert panel.locator("[aria-live]").inner_text() == "0.0703125, normal"


def test_typed_value_is_encoded_by_python(notebook, panel):
    box = panel.get_by_label("Type a value")
    box.fill("0.3")
    box.press("Enter")
    panel.get_by_text("0.3 is stored as 0.3125, error +4.2 %").wait_for()
    notebook.becomes("panel.pattern", 42)
    assert value(panel) == "0.3125"
    box.fill("three")
    panel.get_by_role("button", name="Encode").click()
    panel.get_by_text("'three' is no number").wait_for()
    assert box.get_attribute("aria-invalid") == "true"
    assert notebook.python("panel.pattern") == 42
    panel.get_by_role("switch", name="sign bit").click()
    assert panel.locator(".lp-bits-note").inner_text() == ""


def test_neighbours_at_the_end(notebook, panel):
    notebook.python("panel.set_trait('pattern', 0x7e)")
    panel.get_by_role("button", name="no value above").wait_for()
    assert panel.get_by_role("button", name="no value above").is_disabled()
    panel.get_by_role("button", name="below: 416, gap 32").click()
    notebook.becomes("panel.pattern", 0x7D)


def test_format_changes_live(notebook, panel):
    notebook.python("panel.set_trait('format', F.get('posit16_1'))")
    panel.get_by_role("group", name="regime, exponent, fraction, 15 bits").wait_for()
    assert value(panel) == "1"
    assert panel.get_by_role("switch").count() == 16


def test_wide_format_wraps_on_a_narrow_screen(notebook):
    wide = notebook.page.locator(".lp-bits").nth(1)
    notebook.page.set_viewport_size({"width": 390, "height": 844})
    notebook.page.wait_for_function("e => e.clientWidth <= 390", arg=wide.element_handle())
    edges = wide.evaluate("e => [e.scrollWidth, e.clientWidth]")
    tops = wide.get_by_role("switch").evaluate_all("all => new Set(all.map(e => e.offsetTop)).size")
    notebook.page.set_viewport_size({"width": 1440, "height": 1000})
    assert edges[0] <= edges[1]
    assert tops >= 4


def contrast(page, selector):
    """Contrast ratio between the text and the fill of an element that is filled (WCAG)."""
    ink, fill = page.eval_on_selector(selector, "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]")

    def luminance(rgb):
        parts = np.array([int(v) for v in rgb[rgb.index("(") + 1 : -1].split(",")[:3]]) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]

    low, high = sorted((luminance(ink), luminance(fill)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_in_both_themes(notebook, panel):
    notebook.python("panel.set_trait('pattern', 0xff)")
    panel.get_by_role("switch", name="sign bit", checked=True).wait_for()
    for theme in ("Dark", "Light"):
        notebook.theme(theme)
        for family in ("sign", "exponent", "mantissa"):
            assert contrast(notebook.page, f"[data-family={family}] .lp-bit[aria-checked=true]") >= 4.5


@pytest.fixture
def touch(notebook):
    """The page on a screen that is touched, with the few colours that its user has chosen."""
    device = notebook.page.context.new_cdp_session(notebook.page)
    device.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    notebook.page.emulate_media(forced_colors="active")
    yield
    notebook.page.emulate_media(forced_colors="none")
    device.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    device.detach()


def test_touch_and_forced_colours(notebook, panel, touch):
    for query in ("(pointer: coarse)", "(forced-colors: active)"):
        assert notebook.page.evaluate("query => matchMedia(query).matches", query), query
    bit = notebook.page.locator(".lp-bit").first
    bit.wait_for()
    box = bit.bounding_box()
    assert box["height"] >= 44
    assert box["width"] >= 44
    fill = "e => getComputedStyle(e).backgroundColor"
    off, on = (
        notebook.page.locator(".lp-bit[aria-checked=false]").first,
        notebook.page.locator("[aria-checked=true]").first,
    )
    assert off.evaluate(fill) != on.evaluate(fill)


DECODE = """async ({source, jobs}) => {
  const url = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
  const {decode} = await import(url);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return jobs.map(({spec, table, codes}) => {
    const values = new Float64Array(bytes(table).buffer);
    const patterns = new Uint32Array(bytes(codes).buffer);
    const out = Float64Array.from(patterns, (code) => decode(spec, values, code));
    let text = '';
    for (const byte of new Uint8Array(out.buffer)) text += String.fromCharCode(byte);
    return btoa(text);
  });
}"""


def test_javascript_decodes_as_python_does(notebook):
    rng = np.random.default_rng(1)
    formats = {fmt.label: fmt for fmt in map(module.as_format, F.names())}
    sample = {
        name: np.arange(2**f.bits) if f.bits <= 8 else rng.integers(0, 2**f.bits, 100_000)
        for name, f in formats.items()
    }
    assert sum(f.bits > 8 for f in formats.values()) >= 8

    def text(array, dtype):
        return base64.b64encode(np.asarray(array, dtype).tobytes()).decode()

    jobs = [
        {
            "spec": module.spec_of(fmt),
            "table": base64.b64encode(module.table_of(fmt)).decode(),
            "codes": text(sample[name], "<u4"),
        }
        for name, fmt in formats.items()
    ]
    source = (module._STATIC / "bits.js").read_text(encoding="utf-8")
    answers = notebook.page.evaluate(DECODE, {"source": source, "jobs": jobs})
    for name, answer in zip(formats, answers, strict=True):
        got = np.frombuffer(base64.b64decode(answer), "<f8")
        expected = formats[name].decode(sample[name])
        np.testing.assert_array_equal(got, expected, err_msg=name)
        np.testing.assert_array_equal(np.signbit(got[got == got]), np.signbit(expected[got == got]), err_msg=name)
