"""Clocks of this machine: they measure something, and refuse what cannot be measured."""

import json

import pytest
import torch

from lplab import cli
from lplab.hardware import accelerators, matmul_benchmark, memory_bandwidth
from lplab.training.step_time import step_seconds


def test_a_step_takes_time_and_trains():
    model = torch.nn.Linear(8, 3)
    before = model.weight.detach().clone()
    assert step_seconds(model, torch.ones(4, 8), repeats=2) > 0
    assert not torch.equal(model.weight, before)
    with pytest.raises(ValueError, match="repeats must be"):
        step_seconds(model, torch.ones(4, 8), repeats=0)


def test_memory_is_measured_with_its_spread():
    found = memory_bandwidth.measure_memory(length=10_000, repeats=5)
    assert 0 < found["low"] <= found["bytes_per_second"] <= found["high"] and "12 bytes" in found["method"]
    with pytest.raises(ValueError, match="repeats"):
        memory_bandwidth.measure_memory(length=1000, repeats=1)


def test_doctor_measures_this_machine_and_keeps_it(tmp_path, monkeypatch, capsys):
    small = matmul_benchmark.measure
    monkeypatch.setattr(matmul_benchmark, "measure", lambda *a, **k: small("cpu", sizes=(64,), repeats=3))
    monkeypatch.setenv("LPLAB_MACHINE", str(tmp_path / "deep" / "machine.json"))
    assert cli.main(["doctor", "--measure"]) == 0
    output = capsys.readouterr().out
    assert "your machine" in output and "GB a second" in output and "machine.json" in output
    mine = accelerators.local_machine()
    assert mine.label.startswith("your machine") and mine.peaks["fp32"] > 0 and mine.memory_bytes_per_second > 0
    assert cli.main(["doctor", "--measure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["bytes_per_second"] > 0


def test_doctor_says_before_it_measures_that_the_result_cannot_be_kept(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setattr(matmul_benchmark, "measure", lambda *a, **k: pytest.fail("it measured"))
    monkeypatch.setenv("LPLAB_MACHINE", str(tmp_path / "file" / "machine.json"))
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", "--measure"])
    output = capsys.readouterr().err
    assert stop.value.code == 2 and "file: " in output and output.count("\n") == 1
