"""The recorder's TensorBoard events, read back with TensorBoard's own reader."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from lplab.recordings.magnitudes import LOWEST, NUMBERS
from lplab.training import Batches, Recorder, Trainer

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def trained(recorder, steps=5):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    data = Batches(rng.standard_normal((40, 6), np.float32), rng.integers(0, 3, 40))
    return [step.loss for step in Trainer(net, data, "hfp8_2019", lr=0.05, recorder=recorder).steps(steps)]


def read(folder):
    events = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0})
    return events.Reload()


def check(events, recorder):
    """Every number and every histogram of every record is among the events, and nothing else is."""
    tags = {f"{layer}/{role}" for layer, role in recorder.names()}
    assert set(events.Tags()["scalars"]) == {f"{tag}/{name}" for tag in tags for name in NUMBERS}
    for layer, role in recorder.names():
        series = recorder.series(layer, role)
        for name in NUMBERS:
            found = events.Scalars(f"{layer}/{role}/{name}")
            assert [event.step for event in found] == series["step"].tolist()
            np.testing.assert_array_equal([event.value for event in found], series[name].astype(np.float32))
        steps = [step for step, counts in zip(series["step"], series["histogram"], strict=True) if counts.any()]
        found = events.Histograms(f"{layer}/{role}/log2_magnitude") if steps else []
        assert [event.step for event in found] == steps
        counts = {step: counts for step, counts in zip(series["step"], series["histogram"], strict=True)}
        for event in found:
            value, histogram = event.histogram_value, np.zeros(160, int)
            for limit, count in zip(value.bucket_limit, value.bucket, strict=True):
                histogram[int(limit) - 1 - LOWEST] = count  # the bucket of the octave that ends at 2^limit
            np.testing.assert_array_equal(histogram, counts[event.step])
            assert value.num == histogram.sum() and value.min == np.flatnonzero(histogram)[0] + LOWEST


def test_a_recording_written_afterwards_is_read_back(tmp_path):
    recorder = Recorder(every=2)
    trained(recorder)
    assert recorder.write_tensorboard(tmp_path / "runs") == tmp_path / "runs"
    check(read(tmp_path / "runs"), recorder)
    loaded = Recorder.load(recorder.save(tmp_path / "record.npz"))
    loaded.write_tensorboard(tmp_path / "loaded")
    check(read(tmp_path / "loaded"), recorder)


def test_events_appear_during_the_training_and_change_nothing(tmp_path):
    plain = trained(Recorder(every=2))
    recorder = Recorder(every=2, tensorboard=tmp_path)
    assert trained(recorder) == plain
    check(read(tmp_path), recorder)
    assert copy.deepcopy(recorder).names() == recorder.names()  # a copy, without the open file
    recorder.write_tensorboard(tmp_path / "again")
    check(read(tmp_path / "again"), recorder)


def test_a_tensor_of_zeros_has_numbers_and_no_histogram(tmp_path):
    recorder = Recorder(every=1, roles=("activation",))
    from lplab.training import quantize_model

    model = quantize_model(nn.Linear(4, 2), "fp8_2018")
    with recorder.watching(model, 0):
        model(torch.zeros(3, 4))
    events = read(recorder.write_tensorboard(tmp_path))
    assert events.Scalars("model/activation/zeros")[0].value == 1.0
    assert not events.Tags()["histograms"]


def test_without_tensorboard_one_line_says_what_to_install(tmp_path):
    code = """if 1:
        import sys
        sys.modules["tensorboard"] = None
        from lplab.training import Recorder
        try:
            Recorder(tensorboard="runs")
        except ImportError as error:
            print(error)
    """
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout == "TensorBoard events need tensorboard: pip install 'lplab[export]'\n"
    assert not (tmp_path / "runs").exists()
