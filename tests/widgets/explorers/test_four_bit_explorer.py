"""The explorer of four-bit gradients: every control over its whole range, and the numbers are the library's."""

import numpy as np
import pytest

from lplab.datasets import captured
from lplab.quantizers import grid_effect
from lplab.quantizers.gradscale import first_scale
from lplab.widgets import FourBitExplorer
from lplab.widgets.explorers import four_bit_explorer as fb


@pytest.fixture(scope="module")
def explorer():
    return FourBitExplorer()


def test_the_first_figure_makes_the_point():
    shown = FourBitExplorer()
    assert shown.figures["grids"].layout.meta["title"] == "One scale 2¹⁴: radix 2 zeroes 76.4 %, radix 4 12.0 %"
    assert "radix 4 at 7, radix 2 at 1, INT4 at 0 scales" in shown.figures["errors"].layout.meta["title"]
    assert "With a scale of its own, a layer gets 2¹⁴ to 2¹⁹." in shown.summary.value


@pytest.mark.parametrize("name", ["grid", "scale", "moment", "layer", "measure"])
def test_every_position_of_every_control_changes_the_figure(explorer, name):
    explorer.reset()
    control = explorer.controls[name]
    seen = set()
    for value in [v[1] if isinstance(v, tuple) else v for v in control.options]:
        control.value = value
        assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
        seen.add((explorer.figures["grids"].alt, explorer.figures["errors"].alt))
    assert len(seen) == len(control.options)
    explorer.reset()
    assert control.value == getattr(fb.FourBitState(), name)


def test_presets_put_the_controls_there(explorer):
    for name, button in explorer.preset_buttons.items():
        button.click()
        for field, value in fb.PRESETS[name].items():
            assert getattr(explorer.position, field) == value == explorer.controls[field].value
    explorer.reset_button.click()
    assert explorer.position == fb.FourBitState()


def test_another_network_has_other_layers(explorer):
    explorer.set(layer="blocks.1.mlp.up")
    explorer.controls["moment"].value = "resnet, step 30"
    assert explorer.position.layer == fb.ALL and "stem" in explorer.controls["layer"].options
    explorer.set(layer="stem")
    explorer.set(moment="resnet, step 200")
    assert explorer.position.layer == "stem" == explorer.controls["layer"].value
    explorer.reset()


@pytest.mark.parametrize("scale", [12, fb.PER_LAYER])
def test_the_table_is_the_mean_of_the_layers(scale):
    state = fb.FourBitState(scale=scale)
    layers = fb.gradients(state.moment)
    scales = [first_scale(np.abs(x).max()) if scale == fb.PER_LAYER else 2.0**scale for x in layers.values()]
    each = [grid_effect(x, "radix2", s) for x, s in zip(layers.values(), scales, strict=True)]
    assert fb.table(state)["radix2"].zeroed == pytest.approx(np.mean([e.zeroed for e in each]))
    assert fb.measured(state, "radix2", scale) == max(e.error for e in each)


@pytest.mark.parametrize("position", [{}, {"scale": fb.PER_LAYER, "layer": "head", "grid": "luq"}])
def test_copied_code_runs_and_gives_numbers_close_to_the_picture(explorer, position, capsys):
    explorer.reset()
    explorer.set(**position)
    explorer.copy_button.click()
    assert (
        explorer._control_group.clipboard["text"] == explorer.copied_code(explorer.position)
        and explorer.code_line.value
    )
    exec(explorer.copied_code(explorer.position), {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(explorer.position.layers)
    zeroed = np.mean([float(line.partition("zeroed=")[2].partition(",")[0]) for line in printed])
    assert zeroed == pytest.approx(fb.table(explorer.position)[explorer.position.grid].zeroed, abs=0.02)  # of a sample
    explorer.reset()
    assert "radix2" in explorer.code_line.value, "the code on the page follows the controls"


def test_the_key_and_the_line_tell_the_same_share_beyond_64():
    state = fb.FourBitState(scale=24)
    assert "73.1 % lie beyond 64" in fb.summary(state) and "mean of the layers" in fb.summary(state)
    assert "beyond 64 (73.1 %)" in fb.grids_figure(state).layout.meta["subtitle"]
    assert "mean of" not in fb.summary(fb.FourBitState(layer="head"))


def test_what_is_looked_at_holds_the_largest_gradient():
    for layer, x in fb.gradients("transformer, step 50").items():
        whole = captured()[f"transformer/step50/{layer}/gradient"]
        assert len(x) <= fb.ELEMENTS and np.abs(x).max() == np.abs(whole).max()


@pytest.mark.parametrize(("wrong", "message"), [
    ({"grid": "fp4"}, "unknown grid 'fp4'; allowed: int4"),
    ({"scale": 5}, "unknown scale 5; allowed: 6, 7"),
    ({"moment": "resnet"}, "unknown moment 'resnet'; allowed: transformer, step 0"),
    ({"layer": "stem"}, "no layer 'stem'; allowed: all layers, token_embedding"),
    ({"measure": "loss"}, "unknown measure 'loss'; allowed: worst"),
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        FourBitExplorer(**wrong)
