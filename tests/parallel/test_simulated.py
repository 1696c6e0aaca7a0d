"""The simulator reports what real processes report, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from lplab.parallel import RunSettings, SimulatedRun, count_differences
from lplab.parallel.launch import DistributedRun


def test_two_processes_and_the_simulator_agree_in_every_bit(real_run):
    real, reports = real_run
    simulated = SimulatedRun(real.settings)
    expected = list(simulated)
    assert count_differences(real.weights, simulated.weights) == (0, 26_122)
    assert reports == expected, "losses, bytes, test error, fingerprint"
    assert len(reports) == 5


def saved_weights(run):
    with np.load(run.settings.save) as stored:
        return {name: stored[name] for name in stored.files}


def test_a_file_for_the_weights_is_kept(real_run):
    run, _ = real_run
    assert count_differences(saved_weights(run), run.weights) == (0, 26_122)


@pytest.mark.slow
def test_one_process_keeps_the_file_too(tmp_path):
    run = DistributedRun(RunSettings("mlp", "dense", learners=1, steps=2, save=str(tmp_path / "weights.npz")))
    list(run)
    assert count_differences(saved_weights(run), run.weights) == (0, 26_122)


def test_a_stop_ends_it_and_a_second_start_begins_anew():
    run = SimulatedRun(RunSettings("mlp", learners=2, steps=50))
    seen = []
    for report in run:
        seen.append(report["step"])
        if len(seen) == 3:
            run.stop()
    assert seen == [0, 1, 2] and run.weights == {}
    assert next(iter(run))["step"] == 0


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_run_is_continued_from_its_state_bit_for_bit(engine):
    settings = RunSettings("mlp", "adacomp:bin=50", learners=3, steps=4, batch=4)
    half, whole = replace(settings, steps=2), SimulatedRun(settings, engine)
    first = SimulatedRun(half, engine)
    with pytest.raises(ValueError, match="the run has not begun"):
        first.state_dict()
    expected = list(whole)
    losses = [report["loss"] for report in first if "loss" in report]
    second_half = SimulatedRun(half, engine, state=first.state_dict())
    rest = list(second_half)
    assert losses + [report["loss"] for report in rest if "loss" in report] == [r["loss"] for r in expected[:-1]]
    assert rest[-1] == expected[-1] and count_differences(second_half.weights, whole.weights) == (0, 26_122)
    with pytest.raises(ValueError, match="the checkpoint is of seed 0, this run's is 1"):
        SimulatedRun(replace(half, seed=1), engine, state=first.state_dict())


def test_both_engines_report_alike():
    settings = RunSettings("mlp", "topk:density=0.02", learners=4, steps=3, batch=4)
    loop, stacked = (list(SimulatedRun(settings, engine)) for engine in ("loop", "stacked"))
    assert [r["payload_bytes"] for r in loop[:-1]] == [r["payload_bytes"] for r in stacked[:-1]]
    assert [r["loss"] for r in loop[:-1]] == pytest.approx([r["loss"] for r in stacked[:-1]], rel=1e-4)


def test_differing_sees_one_bit():
    x = {"w": np.array([1.0, 0.0], np.float32)}
    assert count_differences(x, {"w": np.array([1.0, -0.0], np.float32)}) == (1, 2)
    assert count_differences(x, {"w": np.nextafter(x["w"], np.float32(2))}) == (2, 2)
    with pytest.raises(ValueError, match="different models"):
        count_differences(x, {"w": np.zeros(3, np.float32)})
