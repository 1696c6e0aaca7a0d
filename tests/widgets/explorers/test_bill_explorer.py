"""The bill and the edge: every control over its whole range, the code that is copied, the numbers of the library."""

import numpy as np
import pytest

from lplab.hardware import footprint
from lplab.hardware.footprint import Job, runs
from lplab.widgets import BillExplorer, EdgeExplorer
from lplab.widgets.explorers import bill_explorer as bs
from lplab.widgets.explorers import edge_explorer as es


@pytest.fixture(scope="module")
def explorer():
    return BillExplorer()


@pytest.fixture(scope="module")
def edge():
    return EdgeExplorer()


def values_of(control):
    options = [v[1] if isinstance(v, tuple) else v for v in getattr(control, "options", ())]
    return options or [control.min, control.max]


def test_the_first_figure_makes_the_point(explorer):
    explorer.reset()
    assert explorer.figures["parts"].layout.meta["title"] == "4 bits: 58 % of the energy of plain 16 bits"
    assert "25.5 times; the precision: up to 1.7 times" in explorer.figures["places"].layout.meta["title"]


@pytest.mark.parametrize("name", ["job", "precision", "waiting", "compression", "place", "pue", "price"])
def test_every_control_reaches_its_ends(explorer, name):
    explorer.reset()
    control, seen = explorer.controls[name], set()
    for value in values_of(control):
        control.value = value
        assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
        seen.add((explorer.summary.value, explorer.figures["parts"].alt, explorer.figures["places"].alt))
    assert len(seen) > 1, "it changes what is shown"
    explorer.reset()
    assert control.value == getattr(bs.BillState(), name)


@pytest.mark.parametrize("preset", bs.PRESETS)
def test_presets_and_copied_code_give_the_bill(explorer, preset):
    explorer.reset()
    explorer.preset_buttons[preset].click()
    state = explorer.position
    assert all(getattr(state, name) == value for name, value in bs.PRESETS[preset].items())
    *lines, last = state.code.splitlines()
    known = {"footprint": footprint}
    exec("\n".join(lines), known)
    assert eval(last, known).kilograms == pytest.approx(state.bill.kilograms)
    explorer.copy_code()
    assert "footprint.bill_of" in explorer.code_line.value
    explorer.reset()


def test_axes_stay_where_they_are(explorer):
    explorer.reset()
    ranges = [tuple(fig.layout.xaxis.range) for fig in explorer.figures.values()]
    explorer.set(precision="16 bits", compression=100, place="iceland", pue=2.0)
    assert [tuple(fig.layout.xaxis.range) for fig in explorer.figures.values()] == ranges
    explorer.reset()


@pytest.mark.parametrize("job", bs.JOBS)
def test_everything_stays_on_the_axis(job):
    for waiting in bs.WAITING:
        for precision in bs.PRECISIONS:
            fig = bs.parts_figure(bs.BillState(job=job, precision=precision, waiting=waiting))
            widest = np.sum([trace.x for trace in fig.data[:4]], axis=0).max()
            assert 0.5 < widest / fig.layout.xaxis.range[1] < 0.84, "the sum stands behind the bar"
        for compression in (1, 400):
            for pue in bs.PUES:
                state = bs.BillState(job=job, waiting=waiting, compression=compression, pue=pue)
                fig = bs.carbon_figure(state)
                low, high = fig.layout.xaxis.range
                assert all(low <= x <= high for trace in fig.data[1:] if trace.visible is not False for x in trace.x)


def test_bytes_cost_energy_where_nobody_waits(explorer):
    explorer.reset()
    before = bs.steps(explorer.position)["4 bits"].network
    explorer.set(waiting=0.0)
    assert bs.steps(explorer.position)["4 bits"].network == before > 0
    explorer.reset()


def test_four_bits_change_next_to_nothing_on_chips_without_them(explorer):
    explorer.preset_buttons["GPT-3 (2020)"].click()
    explorer.set(precision="4 bits")
    assert explorer.figures["parts"].layout.meta["title"] == "4 bits: 99 % of the energy of plain 16 bits"
    explorer.reset()


def test_presets_come_with_their_place_and_trainings_with_their_network(explorer):
    explorer.preset_buttons["GPT-3 (2020)"].click()
    explorer.preset_buttons["4 bits (2020)"].click()
    assert explorer.position == bs.BillState()
    explorer.set(compression=100, place="iceland")
    explorer.controls["job"].value = "GPT-3, 10,000 V100"
    state = explorer.position
    assert (state.waiting, state.compression, state.place) == (0.0, 1, "iceland")
    assert explorer.controls["waiting"].value == 0
    explorer.reset()


def test_the_published_diamond_stands_where_it_was_published(explorer):
    explorer.preset_buttons["GPT-3 (2020)"].click()
    fig = explorer.figures["places"]
    diamond = fig.data[-1]
    assert diamond.visible and 10 ** diamond.x[0] == pytest.approx(runs.get("gpt3").published_kilograms)
    assert "published" in fig.layout.meta["subtitle"] and "modelled" in fig.layout.meta["subtitle"]
    explorer.reset()
    assert not explorer.figures["places"].data[-1].visible


def test_the_reference_is_16_bits_without_compression():
    state = bs.BillState(precision="16 bits", compression=1)
    assert bs.reference(state).joules == bs.steps(state)["16 bits"].joules
    packed = bs.BillState(precision="16 bits", compression=100)
    assert bs.reference(packed).joules == bs.reference(state).joules


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"job": "GPT-5"}, "unknown job 'GPT-5'; allowed: ResNet-50"),
        ({"compression": 3}, "unknown compression 3"),
        ({"pue": 0.5}, "pue must be from 1 to 2.2, got 0.5"),
        ({"waiting": float("nan")}, "waiting must be from 0 to 0.8, got nan"),
        ({"place": "atlantis"}, "there is no region 'atlantis'"),
    ],
)
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        BillExplorer(**wrong)


@pytest.mark.parametrize("name", ["network", "epochs", "device", "radio"])
def test_every_control_of_the_edge_reaches_its_ends(edge, name):
    edge.reset()
    control, seen = edge.controls[name], set()
    for value in values_of(control):
        control.value = value
        assert getattr(edge.position, name) == value and edge.error_line.value == ""
        seen.add(edge.figure.alt)
    assert len(seen) == len(values_of(control))
    edge.reset()


def test_the_axis_of_the_edge_stays_while_epochs_and_radio_change(edge):
    edge.reset()
    before = tuple(edge.figure.layout.xaxis.range)
    for epochs, radio in ((1, "wifi"), (20, "lte")):
        edge.set(epochs=epochs, radio=radio)
        assert tuple(edge.figure.layout.xaxis.range) == before
        assert sum(trace.x[0] for trace in edge.figure.data[:3]) < before[1]
    edge.reset()


@pytest.mark.parametrize("preset", es.PRESETS)
def test_copied_code_of_the_edge_gives_the_round(edge, preset):
    edge.preset_buttons[preset].click()
    first, second = edge.position.code.splitlines()
    known = {"footprint": footprint}
    exec(first, known)
    count = es.NETWORKS[edge.position.network][0]
    assert known["sent"] == 4 * count
    assert eval(second, known).joules == pytest.approx(es.rounds(edge.position)["32 bits"].joules)
    edge.reset()


def test_jobs_of_the_widget_are_jobs_of_the_library():
    assert all(isinstance(job, Job) for job in bs.JOBS.values())
    with pytest.raises(ValueError, match="unknown device 'toaster'"):
        EdgeExplorer(device="toaster")
