"""The roofline explorer: every control over its whole range, presets, recipes that a chip cannot run, own machine."""

import json

import pytest

from lplab.hardware import compute, decoding_step
from lplab.widgets import RooflineExplorer
from lplab.widgets.explorers import roofline_explorer as rs


@pytest.fixture(scope="module")
def explorer():
    return RooflineExplorer()


def test_the_default_makes_the_point(explorer):
    state = explorer.position
    assert (
        state == rs.RooflineState() and state.times.share_of_peak < 0.13
    )  # the least that IBM published is 102 of 768
    assert "the step does 11 % of what FP8 multipliers could" in explorer.figure.layout.meta["alt"]
    assert "2 × the rate of 16 bits" in explorer.figure.layout.meta["alt"]


def test_every_control_answers_over_its_whole_range(explorer):
    explorer.reset()
    for name, control in explorer.controls.items():
        seen = set()
        for option in control.options:
            control.value = option[1] if isinstance(option, tuple) else option
            assert getattr(explorer.position, name) == control.value and explorer.error_line.value == ""
            seen.add(explorer.figure.layout.meta["alt"] + explorer.summary.value)
        assert len(seen) == len(control.options), name  # every position shows something else
        explorer.reset()


def test_presets_are_where_they_say_and_reset_comes_back(explorer):
    for name, button in explorer.preset_buttons.items():
        explorer.set(fused=True, view=rs.LAYER_ROWS, batch=8)  # whatever it was before
        button.click()
        assert explorer.position == rs.RooflineState(**rs.PRESETS[name])
        assert rs.PRESETS[name].keys() == vars(explorer.position).keys()
    explorer.reset()
    assert explorer.position == rs.RooflineState() and explorer.controls["precision"].value == "hfp8_2019"


def test_a_recipe_that_the_chip_cannot_run_becomes_the_16_bit_one(explorer):
    explorer.set(chip="a100", precision="fp32")
    explorer.set(chip="tpu-v4")
    assert explorer.position.precision == "bf16"
    assert "FP32" not in dict(explorer.controls["precision"].options)
    with pytest.raises(ValueError, match="ResNet-50 on Google TPU v4 has no step in fp32; it has one in bf16"):
        explorer.set(precision="fp32")
    explorer.reset()
    assert "FP32" not in dict(explorer.controls["precision"].options)  # RaPiD has none either
    with pytest.raises(ValueError, match="unknown batch 3; allowed: 1, 2, 4"):
        explorer.set(batch=3)


def test_a_network_that_writes_has_weights_of_four_bits_and_no_recipe_of_training(explorer):
    explorer.reset()
    explorer.set(workload="llama2_7b_writing", chip="a100")
    assert explorer.position.precision == "bf16"
    assert [name for _, name in explorer.controls["precision"].options] == ["fp32", "bf16", "w4a16"]
    explorer.set(precision="w4a16")
    with pytest.raises(
        ValueError, match=r"Llama 2 7B, writing on NVIDIA A100.* has no step in hfp8_2019; it has one in"
    ):
        explorer.set(precision="hfp8_2019")
    explorer.set(workload="resnet50")
    assert (
        explorer.position.precision == "bf16" and "w4a16" not in dict(explorer.controls["precision"].options).values()
    )
    explorer.reset()


def test_four_bits_write_three_times_as_fast_alone_and_hardly_faster_with_64_others():
    """As the count of bytes has it; the products besides read and write what goes in and out, which is little."""
    alone = rs.RooflineState(**rs.PRESETS["Llama 2 writes"])
    for batch in (1, 64):
        state = alone.changed(batch=batch)
        gain = state.changed(precision="bf16").times.step_seconds / state.times.step_seconds
        wide, few = (
            decoding_step("llama-2-7b", "a100", weight_bits=bits, batch=batch).seconds for bits in (16, 4 + 20 / 128)
        )
        assert gain == pytest.approx(float(wide / few), rel=0.06)
        assert f"1 × the rate of 16 bits, {gain:.2f} × the speed" in rs.parts_figure(state).layout.meta["alt"]
    assert not alone.times.compute_bound[alone.times.flops > 0].any()


def test_a_missing_unit_is_named():
    state = rs.RooflineState(chip="a100", precision="hfp8_2019")
    assert "This chip has no FP8 products: they run at the rate of FP16." in rs.summary(state)
    assert "This chip has" not in rs.summary(rs.RooflineState(chip="h100"))


def test_a_network_that_does_not_fit_says_so():
    message = rs.summary(rs.RooflineState(**rs.PRESETS["GPT-3 on B200"]))
    assert message.endswith("weights and their state alone are 698 GB, the chip has 180 GB.")
    assert "It would need many chips: " in message
    assert "It would need many" not in rs.summary(rs.RooflineState(chip="h100"))
    writes = rs.RooflineState(**rs.PRESETS["Llama 2 writes"])
    assert "It would need many" not in rs.summary(writes), "27 GB in FP32, and the chip has 80"


@pytest.mark.parametrize("name", rs.PRESETS)
def test_readout_and_alternative_text_count_the_same_products(name):
    state = rs.RooflineState(**rs.PRESETS[name])
    waiting = int((~state.times.compute_bound & (state.times.flops > 0)).sum())
    every = int((state.times.flops > 0).sum())
    assert f"{waiting:,} of {every:,} products wait" in rs.summary(state)
    assert f"{waiting:,} of {every:,} modelled products wait" in rs.roofline_figure(state).layout.meta["alt"]


def test_copied_code_gives_the_numbers_that_are_shown():
    state = rs.RooflineState(chip="systolic", precision="int4_fp4_2020", batch=64, fused=True)
    *setup, last = state.code.splitlines()
    exec("\n".join(rs.RooflineExplorer.imports), space := {})
    exec("\n".join(setup), space)
    seconds, share, parts = eval(last, space)
    assert seconds == state.times.step_seconds and share == state.times.share_of_peak
    assert parts.keys() == state.times.parts().keys()


def test_the_published_range_belongs_to_its_chip_alone():
    shown = {
        chip: rs.roofline_figure(rs.RooflineState(chip=chip)).data[5].visible for chip in ("ibm-rapid-training", "h100")
    }
    assert shown == {"ibm-rapid-training": True, "h100": False}


def test_my_machine_carries_its_measured_products(tmp_path, monkeypatch):
    rates = [{"format": "fp32", "size": 64, "tera": 0.05}, {"format": "bf16", "size": 64, "tera": 0.1}]
    table = {"processor": "P", "threads": 1, "date": "2026-01-01", "rates": rates, "memory": {"bytes_per_second": 1e10}}
    (tmp_path / "machine.json").write_text(json.dumps(table), "utf-8")
    monkeypatch.setenv("LPLAB_MACHINE", str(tmp_path / "machine.json"))
    for kept in (rs._times, rs.products, rs.runs_on):
        kept.cache_clear()
    try:
        measured = rs.roofline_figure(rs.RooflineState(chip="mine", precision="fp32")).data[6]
        assert measured.name == "measured" and measured.y[[0, 2]].tolist() == [0.05e12, 0.1e12] and measured.visible
        assert compute.ridge("mine", "fp32") == pytest.approx(5)
    finally:
        for kept in (rs._times, rs.products, rs.runs_on):
            kept.cache_clear()
