"""Recordings as files: what was saved is read, what is none is refused, those that ship can be made again."""

import json
import zipfile
from dataclasses import fields

import numpy as np
import pytest
import torch

from lplab.cli import main
from lplab.recordings import magnitudes
from lplab.recordings.magnitudes import BINS, NUMBERS, Recording, recorded
from lplab.training import Record, Recorder, tasks
from tests.datasets.scripts import script

KEYS = ((0, "a", "weight"), (0, "b", "weight"), (5, "a", "weight"))


def made(keys=KEYS, **parts):
    """A small recording: the n-th record has n + 1 elements in the n-th octave from 2^−96 on, and as many zeros."""
    count = len(keys)
    histograms = np.zeros((count, BINS), int)
    histograms[np.arange(count), np.arange(count)] = np.arange(count) + 1
    numbers = np.zeros((count, len(NUMBERS)))
    numbers[:, NUMBERS.index("zeros")], numbers[:, NUMBERS.index("largest")] = 0.5, 2.0 ** (np.arange(count) - 96.0)
    return Recording(**{"keys": keys, "numbers": numbers, "histograms": histograms, **parts})


def test_the_numbers_of_a_file_are_the_fields_of_a_record_in_their_order():
    beside = [field.name for field in fields(Record) if field.name not in ("step", "layer", "role", "histogram")]
    assert list(NUMBERS) == beside


def test_magnitudes_of_one_layer_and_of_all():
    recording = made()
    one, both = recording.magnitudes("b", "weight", 0), recording.magnitudes(None, "weight", 0)
    assert (one.total, one.zeros, one.largest) == (2, 2, 2.0**-95)
    assert (both.total, both.zeros, both.largest) == (3, 3, 2.0**-95)
    assert both.counts[:3].tolist() == [1, 2, 0]
    assert recording.steps == (0, 5) and recording.layers("weight") == ("a", "b")
    absent = recording.magnitudes("b", "weight", 5)
    assert (absent.total, absent.zeros, absent.largest) == (0, 0, 0.0)


def test_zeros_are_counted_right_beside_nan():
    """Eight elements: four in the histogram, two zeros, two NaN."""
    histograms, numbers = np.zeros((1, BINS), int), np.zeros((1, len(NUMBERS)))
    histograms[0, 0] = 4
    numbers[0, NUMBERS.index("zeros")] = numbers[0, NUMBERS.index("not_finite")] = 0.25
    found = made(keys=KEYS[:1], numbers=numbers, histograms=histograms).magnitudes("a", "weight", 0)
    assert (found.total, found.zeros) == (4, 2)


def test_a_tensor_met_twice_in_a_step_counts_as_one():
    twice = made(keys=((0, "a", "weight"), (0, "a", "weight")))
    assert twice.magnitudes("a", "weight", 0).total == 3


@pytest.mark.parametrize(("asked", "message"), [
    (("c", "weight", 0), "layers are: a, b"),
    (("a", "output", 0), "there are: weight"),
    (("a", "weight", 3), "steps are 0 to 5"),
])  # fmt: skip
def test_what_was_not_recorded_is_said(asked, message):
    with pytest.raises(ValueError, match=message):
        made().magnitudes(*asked)


@pytest.mark.parametrize(("parts", "message"), [
    ({"keys": (), "numbers": np.zeros((0, 8)), "histograms": np.zeros((0, BINS))}, "at least one record"),
    ({"keys": ((0, "a", "weight"), (-1, "a", "weight"), (0, "", "x"))}, "named by its step, layer and role"),
    ({"numbers": np.zeros((3, 7))}, r"numbers must be numbers of shape \(3, 8\)"),
    ({"histograms": np.zeros((3, 12), int)}, r"histograms must be numbers of shape \(3, 160\)"),
    ({"histograms": np.full((3, BINS), -1)}, "negative count"),
    ({"histograms": np.full((3, BINS), "x")}, "histograms must be numbers"),
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        made(**parts)


def test_files_come_back_as_they_were(tmp_path):
    path = made(about="mine").save(tmp_path / "mine.npz")
    back = Recording.load(path)
    assert back.keys == KEYS and back.about == "mine" and repr(back).startswith("Recording(mine: 3 records")
    np.testing.assert_array_equal(back.histograms, made().histograms)
    np.testing.assert_array_equal(back.numbers, made().numbers)
    with pytest.raises(ValueError, match="read-only"):
        back.histograms[0, 0] = 1


def test_a_recorder_is_read_in_all_its_forms(tmp_path):
    seen = Recorder(every=1)
    tasks.get("mlp").trainer("hfp8_2019", recorder=seen).run(2, progress=False)
    direct, through = Recording.of(seen), Recording.load(seen.save(tmp_path / "r.npz"))
    assert direct.keys == through.keys and direct.steps == (0, 1)
    np.testing.assert_array_equal(direct.histograms, through.histograms)
    layer, role = seen.names()[0]
    series = seen.series(layer, role)
    assert direct.magnitudes(layer, role, 1).counts.tolist() == series["histogram"][1].tolist()
    assert len(Recorder.load(direct.save(tmp_path / "s.npz")).records) == len(seen.records)


def test_the_command_writes_what_can_be_read(tmp_path, capsys):
    path = tmp_path / "mine.npz"
    assert main(["train", "--model", "mlp", "--recipe", "fp32", "--steps", "11", "--record", str(path)]) == 0
    recording = Recording.load(path)
    assert recording.steps == (0, 10) and recording.about == "mlp under fp32, seed 0"
    assert "output_gradient_dx" in recording.roles


def test_what_is_no_recording_is_refused(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"there is no file gone\.npz"):
        Recording.load(tmp_path / "gone.npz")
    text, other, hostile, short = (tmp_path / name for name in ("t.npz", "o.npz", "h.npz", "s.npz"))
    text.write_text("nothing")
    np.savez(other, x=np.zeros(3))
    np.savez(hostile, keys=np.array([object()], object), numbers=np.zeros(1), histograms=np.zeros(1))
    np.savez(short, keys=json.dumps([[0, "a", "weight"]] * 2), numbers=np.zeros((1, 8)), histograms=np.zeros((1, BINS)))
    for path, message in ((text, "zip"), (other, "lacks keys"), (hostile, "allow_pickle"), (short, "shape")):
        with pytest.raises(ValueError, match=f"{path.name} is no recording: .*{message}.*lplab train --record"):
            Recording.load(path)
    np.savez(short, keys=json.dumps({"a": 1}), numbers=np.zeros((1, 8)), histograms=np.zeros((1, BINS)))
    with pytest.raises(ValueError, match="no list of step, layer and role"):
        Recording.load(short)
    monkeypatch.setattr(magnitudes, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match="allowed are 100"):
        Recording.load(made().save(tmp_path / "large.npz"))
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    with pytest.raises(ValueError, match="lacks keys, numbers, histograms"):
        Recording.load(tmp_path / "empty.npz")


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="transformer, digits_resnet"):
        recorded("mlp")


@pytest.mark.parametrize("name", magnitudes.SHIPPED)
def test_the_first_step_of_what_ships_can_be_made_again(name):
    module = script("record")
    run = next(run for run in module.RUNS if run.task == name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        again = module.record(module.Run(name, run.about, every=1, times=1))
    finally:
        torch.set_num_threads(threads)
    shipped = recorded(name)
    assert len(shipped.steps) == run.times and shipped.about == run.about
    assert shipped.steps[1] == run.every and set(again.roles) == set(module.ROLES)
    for role in shipped.roles:
        for layer in shipped.layers(role):
            ours, theirs = again.magnitudes(layer, role, 0), shipped.magnitudes(layer, role, 0)
            assert ours.total + ours.zeros == theirs.total + theirs.zeros
            moved = np.abs(ours.counts - theirs.counts).sum() / max(theirs.total, 1)
            assert moved < 0.01, (layer, role)  # another processor rounds otherwise, and moves a few over an edge
            np.testing.assert_allclose(ours.largest, theirs.largest, rtol=1e-4)
