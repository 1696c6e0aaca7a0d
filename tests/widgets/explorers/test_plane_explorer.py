"""The plane explorer: every control over its whole range, and the numbers are the library's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lplab import datasets, figures
from lplab import formats as F
from lplab.datasets import captured
from lplab.widgets import PlaneExplorer
from lplab.widgets.explorers import plane_explorer as ps


@pytest.fixture(scope="module")
def explorer():
    return PlaneExplorer()


def test_the_first_figure_makes_the_point():
    shown = PlaneExplorer()
    assert shown.figure.layout.meta["title"] == "1-4-3 loses: weights 0 %, activations 0 %, gradients 73 %"
    assert "72.9 % become zero" in shown.summary.value and "24.2 %" in shown.table.value
    assert shown.error_line.value == ""
    heads = next(trace for trace in shown.figure.data if trace.name == "names of the groups").text
    assert [text.partition("median row ")[2] for text in heads] == ["32 dB", "32 dB", "14 dB, 73 % lost"]


@pytest.mark.parametrize("name", ["format", "bias", "scaling", "network", "tensor"])
def test_every_control_reaches_its_ends(explorer, name):
    explorer.reset()
    control = explorer.controls[name]
    options = [o[1] if isinstance(o, tuple) else o for o in getattr(control, "options", ())]
    seen = set()
    for value in options or range(control.min, control.max + 1, 8):
        control.value = value
        assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
        seen.add(explorer.figure.layout.meta["alt"])
    assert len(seen) > 1, "it changes the figure"
    explorer.reset()
    assert control.value == getattr(ps.PlaneState(), name)


@pytest.mark.parametrize("scaling", ps.SCALINGS)
@pytest.mark.parametrize("bias", [None, 20])
@pytest.mark.parametrize("network", ps.NETWORKS)
def test_copied_code_gives_the_numbers_of_the_figure(explorer, scaling, bias, network):
    explorer.reset()
    explorer.set(network=network, scaling=scaling, bias=bias)
    *lines, last = explorer.position.code.splitlines()
    known = {"F": F, "figures": figures, "captured": captured, "replace": replace}
    exec("\n".join(lines), known)
    found = eval(last, known)
    row = next(r for name, r in zip(ps.tensors(network), ps.rows(explorer.position), strict=True)
               if name == explorer.position.tensor)  # fmt: skip
    assert (found.flushed, found.saturated) == (row.numbers.flushed, row.numbers.saturated)
    assert found.sqnr_db == pytest.approx(row.numbers.sqnr_db)


def test_no_gradient_saturates_at_one_loss_scale_and_twice_as_much_would():
    state = ps.PlaneState(format="HFP8 backward (1-5-2)", scaling=ps.LOSS)
    gradients = [r for r in ps.rows(state) if r.group == "gradients"]
    (shift,) = {r.shift for r in gradients}
    assert all(r.numbers.saturated == 0 for r in gradients)
    assert all(r.shift == 0 for r in ps.rows(state) if r.group != "gradients")
    largest = max(abs(datasets.captured()[f"transformer/step1000/{n}"]).max() for n in ps.tensors("Transformer")
                  if n.endswith("/gradient"))  # fmt: skip
    assert largest * 2.0**shift <= 57344 < largest * 2.0 ** (shift + 1)


def test_the_legend_of_the_rows_names_what_the_rows_show(explorer):
    explorer.reset()
    rows = explorer._panels(explorer.position)["tensors"].layout.meta["subtitle"]
    assert "the window" in rows and "another format" not in rows, "grey is the window, and no other format is drawn"
    assert "another format" in explorer.figure.layout.meta["subtitle"]


def test_another_format_brings_its_bias_and_another_network_its_tensors(explorer):
    explorer.reset()
    explorer.set(bias=24)
    assert "1-4-3 (bias 24)" in explorer.figure.layout.meta["title"]
    assert "(1&#8209;4&#8209;3), bias 24" in explorer.table.value, "the table follows the bias"
    beside = next(trace for trace in explorer.figure.data if trace.name == "names of the formats")
    assert list(beside.text) == ["1-4-3"], "the moved window stands beside where it was"
    explorer.set(format="OCP E4M3")
    assert explorer.position.bias == 7 == explorer.controls["bias"].value
    explorer.controls["network"].value = "residual net"
    assert explorer.position.tensor in ps.tensors("residual net")
    explorer.copy_button.click()
    assert explorer._control_group.clipboard["text"] == explorer.copied_code(explorer.position)
    explorer.reset()


@pytest.mark.parametrize(("wrong", "message"), [
    ({"format": "fp4"}, "unknown format 'fp4'; allowed: HFP8 forward"),
    ({"bias": 41}, "bias must be a whole number from 0 to 40, got 41"),
    ({"bias": True}, "bias must be a whole number"),
    ({"scaling": "some"}, "unknown scaling 'some'; allowed: none, one loss scale, one per tensor"),
    ({"network": "x"}, "unknown network 'x'; allowed: Transformer, residual net"),
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        PlaneExplorer(**wrong)
