"""Measured energy: a clear line without codecarbon, its kilowatt hours as joules with it."""

import sys
from types import SimpleNamespace

import pytest

from lplab.hardware.footprint import bill_of
from lplab.hardware.footprint.measured import measure


class FakeTracker:
    """Speaks like codecarbon's tracker."""

    result: SimpleNamespace | None = SimpleNamespace(cpu_energy=2e-6, gpu_energy=5e-6, ram_energy=1e-6, duration=4.0)

    def __init__(self, **settings):
        assert settings["save_to_file"] is False and settings["measure_power_secs"] == 1.0
        self.calls = []

    def start(self):
        self.calls.append("start")

    def stop(self):
        assert self.calls == ["start"]
        self.final_emissions_data = self.result


@pytest.fixture
def codecarbon(monkeypatch):
    fake = SimpleNamespace(OfflineEmissionsTracker=FakeTracker, __version__="9.9")
    monkeypatch.setitem(sys.modules, "codecarbon", fake)


def test_without_codecarbon_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with (
        pytest.raises(RuntimeError, match=r"measuring energy needs codecarbon: pip install \"lplab\[energy\]\""),
        measure(),
    ):
        pass


def test_kilowatt_hours_become_joules(codecarbon):
    with measure() as used:
        assert used.joules != used.joules, "nothing is known while the block runs"
    assert (used.processor, used.gpu, used.memory) == pytest.approx((7.2, 18.0, 3.6))
    assert used.seconds == 4.0 and used.by == "codecarbon 9.9"
    assert bill_of(used.kwh, pue=1.0, region=500).kilograms == pytest.approx(4e-6)


def test_an_error_in_the_block_is_the_block_s(codecarbon):
    with pytest.raises(ZeroDivisionError), measure() as used:
        raise ZeroDivisionError
    assert used.joules == pytest.approx(28.8)


def test_a_tracker_that_failed_is_told(codecarbon, monkeypatch):
    monkeypatch.setattr(FakeTracker, "result", None)
    with pytest.raises(RuntimeError, match="gave no result"), measure():
        pass


def test_the_real_one_counts_something():
    pytest.importorskip("codecarbon")
    with measure() as used:
        sum(i * i for i in range(10**6))
    assert used.joules >= 0 and used.seconds > 0
