"""The explorer of shared scales: every control over its whole range, and the numbers are those of their definition."""

import numpy as np
import pytest

from lplab import datasets
from lplab import formats as F
from lplab.widgets import ScaleExplorer
from lplab.widgets.explorers import scale_explorer as sc
from lplab.widgets.explorers.scale_explorer import PRESETS, ScaleState

E2M1 = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


@pytest.fixture(scope="module")
def explorer():
    return ScaleExplorer()


def by_definition(x, size, scale):
    """E2M1 in blocks along the rows, number by number: nearest, ties to even codes. Also what is clipped."""
    q, clipped = np.zeros(x.shape), np.zeros(x.shape, bool)
    for row in range(x.shape[0]):
        for start in range(0, x.shape[1], size):
            block = x[row, start : start + size].astype(np.float64)
            amax = np.abs(block).max()
            if not amax:
                continue
            factor = 2.0 ** (np.frexp(amax)[1] - 1 - 2) if scale == "E8M0 down" else amax / 6
            for i, value in enumerate(block):
                size_of = abs(value) / factor
                distance = np.abs(E2M1 - size_of)
                nearest = np.flatnonzero(distance == distance.min())
                code = next(c for c in nearest if len(nearest) == 1 or c % 2 == 0)
                q[row, start + i] = np.sign(value) * E2M1[code] * factor
                clipped[row, start + i] = size_of > 6 * (1 + 1e-6)
    return q, clipped


@pytest.mark.parametrize("scale", ["E8M0 down", "float32"])
def test_numbers_are_those_of_the_definition(scale):
    found = sc.result(ScaleState(tensor="gradient", shared="1×32", scale=scale))
    x = sc.matrix("gradient")
    q, clipped = by_definition(x, 32, scale)
    np.testing.assert_allclose(found.q, q, rtol=1e-5)
    np.testing.assert_array_equal(found.clipped, clipped)
    assert found.zeroed == np.mean((q == 0) & (x != 0))
    assert found.decibels == pytest.approx(10 * np.log10((x.astype(float) ** 2).sum() / ((q - x) ** 2).sum()), abs=1e-3)


def test_the_first_figure_is_away_from_the_answer():
    shown = ScaleExplorer()
    assert shown.position.tensor == "weight" and shown.position.shared == sc.WHOLE
    assert shown.figures["map"].layout.meta["title"].startswith("E2M1, a float32 scale for the tensor: 16.9 dB")


@pytest.mark.parametrize("name", list(ScaleState.controls()))
@pytest.mark.parametrize("start", [{}, {"tensor": "gradient", **PRESETS["NVFP4"]}], ids=["first", "NVFP4"])
def test_every_position_of_every_control_changes_the_page(explorer, name, start):
    explorer.reset()
    explorer.set(shared="1×16", **{k: v for k, v in start.items() if k != "shared"})
    control = explorer.controls[name]
    values = [v[1] if isinstance(v, tuple) else v for v in getattr(control, "options", (False, True))]
    seen = set()
    for value in values:
        explorer.set(**{name: value})
        assert control.value == value == getattr(explorer.position, name) and explorer.error_line.value == ""
        figures = explorer.figures.values()
        seen.add((explorer.summary.value, *(figure.alt for figure in figures)))
    assert len(seen) == len(values)
    explorer.reset()


def test_the_best_of_all_states_is_on_the_axis():
    best = ScaleState(tensor="activation", element="INT8", shared="1×16", scale=sc.DOWN, hadamard=True)
    assert 45 < sc.result(best).decibels < 50
    assert max(np.asarray(sc.curves_figure(best).data[0].y)) == pytest.approx(sc.result(best).decibels)


def test_presets_are_the_published_formats():
    published = {"MXFP8": F.get("mxfp8_e4m3"), "MXFP4": F.get("mxfp4"), "NVFP4": F.get("nvfp4")}
    x = sc.matrix("gradient")
    for name, expected in published.items():
        made = ScaleState(tensor="gradient", **PRESETS[name])
        np.testing.assert_array_equal(made.number_format.quantize(x), expected.quantize(x))
        assert made.bits == expected.bits
    tiles = ScaleState(**PRESETS["DeepSeek"]).number_format
    assert tiles.tile == (1, 128) and tiles.scale is F.get("fp32") and tiles.element.max == 448


def test_copied_code_makes_the_formats_that_are_drawn(capsys):
    for element, text in sc.ELEMENTS.items():
        assert eval(text, {"F": F}) == sc.FORMATS[element]
    for changes in (
        {},
        {"tensor": "gradient", "axis": sc.COLUMN, "shared": sc.WHOLE, "element": "INT4"},
        {"tensor": "activation", "hadamard": True, **{k: v for k, v in PRESETS["NVFP4"].items() if k != "hadamard"}},
        {"tensor": "activation", "shared": "128×128", "scale": "E8M0 nearest", "axis": sc.COLUMN, "hadamard": True},
    ):
        state = ScaleState().changed(**changes)
        exec("\n".join([*sc.ScaleExplorer.imports, state.code]), {})
        assert float(capsys.readouterr().out) == pytest.approx(sc.result(state).decibels, abs=1e-4)


def test_integers_have_no_float32_scale(explorer):
    explorer.reset()
    explorer.controls["element"].value = "INT8"
    assert explorer.position.scale == sc.UP and sc.FLOAT32 not in explorer.controls["scale"].options
    with pytest.raises(ValueError, match="unknown scale 'float32'; allowed: E8M0 down"):
        explorer.set(scale=sc.FLOAT32)
    explorer.controls["element"].value = "E4M3"
    assert explorer.position.scale == sc.UP and sc.FLOAT32 in explorer.controls["scale"].options
    explorer.reset()


def test_names_of_blocks_and_the_legend_follow_what_is_drawn(explorer):
    explorer.reset()
    explorer.set(axis=sc.COLUMN, shared="1×32")
    slider = explorer.controls["shared"]
    assert (slider.label, slider.value) == ("32×1", "1×32") and "32×1" in explorer.figures["map"].layout.meta["title"]
    explorer.set(element="INT4")
    assert "float32" not in sc.curves_figure(explorer.position).layout.meta["subtitle"]
    explorer.reset()
    assert slider.label == "tensor" and "float32" in sc.curves_figure(explorer.position).layout.meta["subtitle"]


def test_rounding_a_scale_up_clips_nothing():
    for tensor in sc.TENSORS:
        for element in sc.ELEMENTS:
            assert not sc.result(ScaleState(tensor=tensor, element=element, scale=sc.UP)).clipped.any()
    assert sc.result(ScaleState(tensor="gradient", **PRESETS["MXFP4"])).clipped.any()


def test_the_offered_tensors_have_the_outliers_that_are_told():
    """The comment above ``TENSORS``: sizes of rows and columns as multiples of the median one."""
    found = {}
    for name in sc.TENSORS:
        x = sc.matrix(name).astype(np.float64)
        rms = [np.sqrt(np.mean(x**2, axis=axis)) for axis in (1, 0)]
        found[name] = [float(each.max() / np.median(each)) for each in rms]
    assert max(found["weight"]) < 1.6 and 6.5 < found["activation"][1] < 7.5
    assert all(5.5 < ratio < 6.5 for ratio in found["gradient"])


def test_a_matrix_is_the_captured_tensor_and_cannot_be_changed():
    x = sc.matrix("activation")
    np.testing.assert_array_equal(x.ravel(), datasets.captured()[sc.TENSORS["activation"].name].ravel())
    with pytest.raises(ValueError, match="read-only"):
        x[0, 0] = 1


def test_hadamard_helps_power_of_two_scales_and_hurts_nvfp4():
    gain = {}
    for name in ("MXFP4", "NVFP4"):
        state = ScaleState(tensor="gradient", **PRESETS[name])
        gain[name] = sc.result(state.changed(hadamard=True)).decibels - sc.result(state).decibels
    assert gain["MXFP4"] > 2 and gain["NVFP4"] < -1


def test_the_map_shows_what_is_rounded():
    state = ScaleState(tensor="gradient", **PRESETS["MXFP4"])
    for each in (state, state.changed(hadamard=True)):
        shown = np.asarray(sc.map_figure(each).data[0].z)
        assert np.mean(shown == 100) == pytest.approx(sc.result(each).zeroed)
        assert np.mean(shown < 0) == np.mean(sc.result(each).clipped) > 0
    transformed = sc.result(state.changed(hadamard=True))
    assert np.linalg.norm(transformed.before) == pytest.approx(np.linalg.norm(sc.matrix("gradient")), rel=1e-5)
    error = np.linalg.norm(transformed.rounded - transformed.before)
    assert error == pytest.approx(np.linalg.norm(transformed.q - sc.matrix("gradient")), rel=1e-5)


@pytest.mark.parametrize("tensor", sc.TENSORS)
def test_a_whole_tensor_has_one_scale_in_both_directions(tensor):
    one, other = (sc.result(ScaleState(tensor=tensor, axis=axis)).q for axis in (sc.ROW, sc.COLUMN))
    np.testing.assert_array_equal(one, other)
    x = sc.matrix(tensor).astype(np.float64)
    scale = np.abs(x).max() / 6
    assert np.isin(np.round(np.abs(one) / scale, 4), E2M1).all()
