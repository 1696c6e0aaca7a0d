"""The format explorer without a browser: every control over its whole range, alone and in combination."""

import itertools
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from lplab import formats as F
from lplab.widgets import FormatExplorer, FormatState
from lplab.widgets.explorers import format_explorer as module
from lplab.widgets.explorers import format_state as st
from lplab.widgets.explorers.format_view import View, octaves_of, view_of
from lplab.widgets.tensor_library import SHORT_NAMES, SYNTHETIC, TensorLibrary

SPECIALS, ROUNDINGS = list(F.SPECIALS), list(F.ROUNDINGS)
RANGES = {
    "exponent_bits": range(st.EXPONENT_BITS[0], st.EXPONENT_BITS[1] + 1),
    "mantissa_bits": range(st.MANTISSA_BITS[0], st.MANTISSA_BITS[1] + 1),
    "bias_shift": np.arange(st.BIAS_SHIFT[0], st.BIAS_SHIFT[1] + 1).tolist(),
    "radix": st.RADICES,
    "subnormals": (True, False),
    "specials": SPECIALS,
    "rounding": ROUNDINGS,
    "random_bits": range(st.RANDOM_BITS[0], st.RANDOM_BITS[1] + 1),
    "line": st.LINES,
    "preset": [st.OWN_FORMAT, *F.names()],
    "tensor": [*SYNTHETIC, *SHORT_NAMES.values()],
}


@pytest.fixture(scope="module")
def library():
    return TensorLibrary()


def assert_sound(view):
    """Either figures with finite axes and sentences, or a problem that says what is allowed."""
    if view.problem:
        assert view == View(problem=view.problem)
        assert len(view.problem) > 15
        return
    for shown in (view.line, view.error, view.histogram):
        assert shown.description.count(".") >= 1
        assert np.isfinite(shown.figure.layout.xaxis.range).all()
        points = sum(len(t.x) for t in shown.figure.data if t.visible and t.type == "scatter" and t.mode == "markers")
        assert points <= 600
    namespace = {"x": np.ones(3, np.float32), "F": F}
    exec(view.code, namespace)
    assert namespace["rounded"].shape == (3,)


@pytest.mark.parametrize("control", RANGES)
def test_every_position_of_every_control(control, library):
    start = FormatState()
    kinds = set()
    for value in RANGES[control]:
        state = st.changed(start, control, value)
        view = view_of(state, library)
        assert_sound(view)
        if not view.problem:
            kinds.add(tuple((t.type, t.name, t.xaxis, t.yaxis) for t in view.figure.data))
    assert len(kinds) == 1, "a live figure cannot change its traces, and is slow when it changes their names"


def test_every_combination_has_a_format_or_a_clear_line():
    """The 8 × 24 × 5 × 2 × 2 × 7 combinations of the format's controls; figures are made for a few of them below."""
    impossible = set()
    count = 0
    for e, m, shift, radix, subnormals, specials in itertools.product(
        RANGES["exponent_bits"], RANGES["mantissa_bits"], (-16.0, -1.0, 0.0, 0.5, 16.0), (2, 4), (True, False), SPECIALS
    ):
        state = st.changed(
            FormatState(e, m, radix=radix, subnormals=subnormals, specials=specials), "bias_shift", shift
        )
        count += 1
        try:
            fmt = st.format_of(state)
        except ValueError as error:
            impossible.add(str(error))
        else:
            assert (fmt.exponent_bits, fmt.mantissa_bits, fmt.radix) == (e, m, radix)
            assert fmt.bias == st.bias(state)
    assert count == 8 * 24 * 5 * 2 * 2 * 7
    assert impossible
    assert all("specials" in text or "radix 4" in text for text in impossible), impossible


def test_random_combinations_are_drawn(library):
    rng = np.random.default_rng(0)
    drawn = 0
    for _ in range(60):
        state = FormatState()
        for control in (
            "exponent_bits",
            "mantissa_bits",
            "bias_shift",
            "radix",
            "subnormals",
            "specials",
            "rounding",
            "line",
        ):
            values = list(RANGES[control])
            state = st.changed(state, control, values[rng.integers(len(values))])
        view = view_of(state, library)
        assert_sound(view)
        drawn += not view.problem
    assert drawn >= 25


@pytest.mark.parametrize("name", F.names())
def test_presets_come_back_as_themselves(name):
    state = st.with_preset(FormatState(rounding="up"), name)
    assert (state.other or st.preset_of(state)) == name
    assert st.format_of(state) == F.get(name)
    assert state.rounding == "up"
    assert name in st.code_of(state)


def test_code_makes_the_same_format():
    for e, m, specials, shift in itertools.product((2, 5), (0, 3), SPECIALS, (0.0, 3.0)):
        state = FormatState(e, m, shift, specials=specials, subnormals=specials != "dlfloat")
        namespace = {"x": np.ones(1), "F": F}
        exec(st.code_of(state), namespace)
        assert replace(namespace["fmt"], name="") == replace(st.format_of(state), name="")


def test_no_control_of_the_format_moves_an_axis(library):
    ranges = set()
    for e, m in itertools.product((2, 5, 8), (0, 3, 10)):
        view = view_of(FormatState(e, m, tensor="synthetic/normal"), library)
        ranges.add((tuple(view.error.figure.layout.xaxis.range), tuple(view.histogram.figure.layout.xaxis.range)))
        ranges.add((tuple(view.line.figure.layout.xaxis.range),) * 2)
    assert len(ranges) == 1


@pytest.mark.parametrize(
    "tensor", [np.zeros(4), np.full(3, np.nan), np.array([np.inf, 1.0]), np.array([1e-100, 1e100])]
)
def test_odd_tensors_are_shown(tensor):
    low, high = octaves_of(tensor)
    assert low < high
    explorer = FormatExplorer(tensor)
    explorer.set(mantissa_bits=1, rounding="stochastic", random_bits=2)
    assert explorer.figure.alt.endswith(".")


# ---- the widget ------------------------------------------------------------------------------------------------------


@pytest.fixture
def explorer():
    return FormatExplorer("weights", preset="e4m3fn")


def test_every_widget_over_its_whole_range(explorer):
    """Move the widgets themselves, as a hand would."""
    for name, control in explorer.controls.items():
        positions = RANGES[name] if name != "preset" else [st.OWN_FORMAT, "mxfp4", "int8", "posit8_1", "fp32", "e4m3fn"]
        for value in positions:
            control.value = value
            assert getattr(explorer.state, name, None) == value or name == "preset"
            assert not explorer.error_line.value
        explorer.reset()
        assert explorer.state == FormatState(preset="e4m3fn", tensor=SHORT_NAMES["weights"])
        assert control.value == ("e4m3fn" if name == "preset" else getattr(FormatState(), name))


def test_figures_sentences_and_summary_follow(explorer):
    before = explorer.descriptions.value.split("<br>")
    explorer.controls["mantissa_bits"].value = 1
    after = explorer.descriptions.value.split("<br>")
    assert len(before) == len(after) == 3
    assert not set(before) & set(after)
    assert all("1-4-1" in sentence for sentence in after)
    assert explorer.figure.alt.count("1-4-1") >= 3
    assert explorer.summary.value.startswith("1-4-1 (bias 7): 6 bits")
    assert explorer.controls["preset"].value == st.OWN_FORMAT


def test_slider_finds_the_published_format(explorer):
    explorer.controls["specials"].value = "ieee"
    explorer.controls["exponent_bits"].value = 5
    explorer.controls["mantissa_bits"].value = 10
    assert explorer.controls["preset"].value == "fp16"
    assert explorer.format == F.get("fp16")


def test_impossible_combination_is_said_and_left_again(explorer):
    explorer.controls["specials"].value = "dlfloat"
    assert explorer.summary.value.startswith("Not possible: ")
    assert "lp-error" in explorer.summary._dom_classes
    alt = explorer.figure.alt
    explorer.controls["subnormals"].value = False
    assert "lp-error" not in explorer.summary._dom_classes
    assert explorer.figure.alt != alt
    with pytest.raises(ValueError, match="no subnormals"):
        FormatExplorer("weights", specials="dlfloat")


def test_random_bits_show_with_stochastic_rounding_alone(explorer):
    assert explorer.controls["random_bits"].layout.display == "none"
    explorer.controls["rounding"].value = "stochastic"
    assert explorer.controls["random_bits"].layout.display is None
    explorer.controls["random_bits"].value = 3
    assert "3 random bits" in explorer.figure.alt


def test_tensor_chooser_moves_the_histogram_alone(explorer):
    before = explorer.descriptions.value.split("<br>")
    explorer.chooser.parts["role"].value = "gradient"
    assert explorer.state.tensor == SHORT_NAMES["gradients"]
    assert "|gradient|" in explorer.figure.alt
    assert explorer.descriptions.value.split("<br>")[0] == before[0]
    for source in explorer.chooser.source.options:
        explorer.chooser.source.value = source
        assert explorer.state.tensor.startswith(source)


def test_own_file_and_its_errors(explorer, tmp_path):
    np.savez(tmp_path / "mine.npz", a=np.float32([1, 2]), b=np.ones(30_000, np.float32))
    explorer.chooser.path.value = str(tmp_path / "mine.npz")
    assert explorer.state.tensor == "own/a"
    explorer.chooser.other_tensors.value = "b"
    sentences = explorer.descriptions.value.split("<br>")
    assert "20,000" not in sentences[0]
    assert "An even sample of 19,968 of 30,000 elements is shown." in sentences[2]
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    explorer.chooser.path.value = str(tmp_path / "bad.npy")
    assert "bad.npy" in explorer.chooser.message.value
    explorer.chooser.load_file(str(tmp_path / "absent.npy"))
    assert explorer.chooser.message.value
    assert explorer.state.tensor == "own/b"


def test_copy_as_code_shows_and_copies(explorer):
    assert not explorer.code_line.value
    explorer.copy_button.click()
    assert "F.get(&quot;e4m3fn&quot;)" in explorer.code_line.value
    assert explorer._control_group.clipboard["text"] == explorer.code
    explorer._control_group.copied = {"count": 1, "done": False}
    assert explorer.copy_button.description == "Select it below"


def test_error_in_a_callback_is_shown_and_raised(explorer, monkeypatch):
    def broken(*_):
        raise RuntimeError("out of <paper>")

    monkeypatch.setattr(module, "view_of", broken)
    with pytest.raises(RuntimeError):
        explorer.controls["mantissa_bits"].value = 2
    assert explorer.error_line.value == "RuntimeError: out of &lt;paper&gt;"
    monkeypatch.undo()
    explorer.controls["mantissa_bits"].value = 1
    assert not explorer.error_line.value
    assert explorer.summary.value.startswith("1-4-1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tensor": "gradiants"}, r"no captured tensor 'gradiants'; closest: .*; captured\(\).names\(\) lists all$"),
        ({"tensor": "e5m2"}, r"no captured tensor 'e5m2'.*; did you mean preset='e5m2'\?$"),
        ({"tensor": "stochastic"}, r"no captured tensor 'stochastic'.*; did you mean rounding='stochastic'\?$"),
        ({"preset": "e4m3fm"}, "e4m3"),
        ({"tensor": np.array(["a"])}, "real numbers are needed"),
        ({"tensor": np.empty(0)}, "real numbers are needed"),
    ],
)
def test_bad_arguments_have_one_clear_line(arguments, message):
    with pytest.raises(ValueError, match=message):
        FormatExplorer(**arguments)


def test_quick_figures_are_valid_ones(library):
    """The live figures are made without plotly's checks: so check them here."""
    for state in (
        FormatState(),
        FormatState(radix=4, line="linear"),
        FormatState(mantissa_bits=20, exponent_bits=8),
    ):
        view = view_of(state, library)
        for figure in (view.line.figure, view.error.figure, view.histogram.figure, view.figure):
            made = figure.to_plotly_json()
            assert go.Figure(made).to_plotly_json().keys() == made.keys()


def test_reset_forgets_the_file_its_error_and_the_code(tmp_path):
    explorer = FormatExplorer("weights")
    chooser = explorer.chooser
    chooser.path.value = str(tmp_path / "nofile.npy")
    assert f"no file nofile.npy in {tmp_path}" in chooser.message.value
    explorer.copy_code()
    explorer.reset()
    assert not chooser.path.value and not chooser.message.value and not explorer.code_line.value
    chooser.path.value = str(tmp_path / "other.npy")
    explorer.set(tensor="gradients")
    assert not chooser.message.value


def test_the_bias_is_told_against_the_standard_one():
    explorer = FormatExplorer("weights", preset="hfp8_forward")
    assert explorer.controls["bias_shift"].description == "bias 11 (+4)"
    assert "nearest even" in explorer.descriptions.value and "nearest_even" not in explorer.descriptions.value
