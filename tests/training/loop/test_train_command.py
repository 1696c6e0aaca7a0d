"""``lplab train`` as a user types it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from lplab import cli
from lplab.training import Recorder, Trainer, recipes, tasks


def train(*words):
    return cli.main(["train", *words])


def test_a_short_training_prints_losses_and_shows_a_bar(capsys):
    assert train("--recipe", "fp8_2018", "--model", "mlp", "--steps", "60") == 0
    output = capsys.readouterr()
    assert "mlp under fp8_2018, 60 steps in" in output.out and "test error" in output.out
    assert "60/60" in output.err and "loss" in output.err


def test_json_is_strict_and_the_same_for_the_same_seed(capsys):
    results = []
    for seed in ("1", "1", "2"):
        assert train("--recipe", "luq_2022", "--model", "mlp", "--steps", "5", "--seed", seed, "--json") == 0
        results.append(json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name)))
    assert results[0]["losses"] == results[1]["losses"] != results[2]["losses"]
    assert results[0]["steps"] == 5 and set(results[0]["test"]) == {"loss", "error"}


def test_a_checkpoint_is_continued_bit_for_bit(tmp_path, capsys):
    common = ["--recipe", "hfp8_2019", "--model", "digits_resnet", "--json"]
    path = str(tmp_path / "run.pt")
    train(*common, "--steps", "6")
    whole = json.loads(capsys.readouterr().out)["losses"]
    train(*common, "--steps", "4", "--save", path)
    first = json.loads(capsys.readouterr().out)["losses"]
    train(*common, "--steps", "2", "--resume", path)
    assert first + json.loads(capsys.readouterr().out)["losses"] == whole


def test_switches_and_recording(tmp_path, capsys):
    path = tmp_path / "record.npz"
    words = ["--recipe", "int4_fp4_2020", "--set", "phases=single", "--model", "mlp", "--steps", "11"]
    assert train(*words, "--record", str(path)) == 0
    recorder = Recorder.load(path)
    assert recorder.series("layers.1", "weight")["step"].tolist() == [0, 10]


def test_the_report_says_what_was_rounded(capsys):
    words = ["--recipe", "int4_fp4_2020", "--set", "phases=single", "--model", "mlp", "--steps", "3", "--report"]
    assert train(*words) == 0
    lines = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert lines[0].startswith("int4_fp4_2020: ") and lines[0].endswith(" tensors are rounded")
    weights = [line for line in lines if "SAWB 15 levels" in line]
    assert weights and sum("radix4_fp4_even" in line for line in lines) == len(weights)
    assert train(*words, "--json") == 0
    rows = json.loads(capsys.readouterr().out)["report"]
    assert {row["product"] for row in rows} == {"forward", "dx", "dw"}
    assert {row["format"] for row in rows if row["layer"] == "layers.1" and row["role"] == "weight"} == {
        "SAWB 15 levels"
    }
    assert all(bool(row["because"]) == (row["format"] == "float32") for row in rows)


def test_divergence_ends_with_code_1_and_a_diagnosis(capsys):
    assert train("--recipe", "hfp8_2019", "--model", "mlp", "--steps", "40", "--lr", "1e4") == 1
    assert "step " in (output := capsys.readouterr().out) and "layers." in output


@pytest.mark.parametrize(("words", "message"), [
    (["--recipe", "hfp9"], "there is no recipe 'hfp9'; did you mean hfp8_2019"),
    (["--recipe", ""], "there is no recipe ''; there are: "),
    (["--recipe", "luq_2022", "--set", "bits=4", "--set", "bits=3"], "--set gives bits twice: 4 and 3"),
    (["--model", "transfomer"], "did you mean transformer"),
    (["--steps", "0"], "--steps must be at least 1"),
    (["--model", "mlp", "--set", "bits"], "--set takes SWITCH=VALUE"),
    (["--model", "mlp", "--set", "bits=3"], "hfp8_2019 has no switch 'bits'; allowed: forward, backward"),
    (["--model", "mlp", "--recipe", "luq_2022", "--set", "bits=6"], "SAWB has coefficients for"),
    (["--model", "mlp", "--lr", "-1"], "lr must be a positive finite number"),
    (["--model", "mlp", "--batch", "0"], "batch must be an integer from 1"),
    (["--model", "mlp", "--seed", "-1"], "--seed must be from 0 to"),
    (["--model", "mlp", "--resume", "no.pt"], "there is no file no.pt"),
    (["--model", "mlp", "--save", "/no/such/folder/x.pt"], "there is no folder"),
    (["--model", "mlp", "--save", "."], ". is a folder; name a file in it"),
    (["--model", "mlp", "--learners", "2", "--report"], "--report is about a recipe, and several learners train in"),
    (["--model", "mlp", "--record", "."], ". is a folder; name a file in it"),
])  # fmt: skip
def test_bad_input_gets_one_line_and_code_2(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        train(*words)
    output = capsys.readouterr()
    assert stop.value.code == 2 and message in output.err and output.err.count("\n") == 1 and output.out == ""


@pytest.mark.skipif(os.name == "nt", reason="Windows calls such a file missing")
@pytest.mark.parametrize("words", [
    ["--save", "x" * 300], ["--record", "x" * 300], ["--save", "x" * 251],  # until it is whole, one ends in .part
    ["--save", "x" * 300 + "/run.pt"], ["--resume", "x" * 300],
])  # fmt: skip
def test_a_name_that_no_file_can_have_is_refused_before_the_training(words, capsys):
    with pytest.raises(SystemExit) as stop:
        train("--model", "mlp", "--steps", "1000000000", *words)
    output = capsys.readouterr()
    assert stop.value.code == 2 and "xxx" in output.err and output.err.count("\n") == 1 and output.out == ""


def test_a_checkpoint_of_another_model_is_refused(tmp_path, capsys):
    path = str(tmp_path / "run.pt")
    train("--recipe", "bf16", "--model", "mlp", "--steps", "1", "--save", path)
    for words, message in ((["--recipe", "bf16", "--model", "cnn"], "is no checkpoint of this model"),
                        (["--recipe", "fp32", "--model", "mlp"], "checkpoint is of recipe 'bf16'")):  # fmt: skip
        with pytest.raises(SystemExit):
            train(*words, "--resume", path)
        assert message in capsys.readouterr().err


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("a picture of a checkpoint")
    with pytest.raises(SystemExit) as stop:
        train("--model", "mlp", "--resume", str(tmp_path / "notes.txt"))
    output = capsys.readouterr().err
    assert stop.value.code == 2 and "notes.txt is no checkpoint of this model" in output and output.count("\n") == 1


def test_ctrl_c_before_the_first_step_is_one_line_too(monkeypatch, capsys):
    def interrupted(name):
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "get", interrupted)
    assert train("--model", "mlp") == 130 and "train: stopped by Ctrl-C" in capsys.readouterr().err


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_for_the_end_of_the_step_unless_it_comes_twice(times, tmp_path, capsys, monkeypatch):
    """In the middle of an update: a checkpoint of half of it would not go on bit for bit, so there is none of it."""
    common, path, update = ["--recipe", "hfp8_2019", "--model", "mlp", "--json"], tmp_path / "run.pt", Trainer._update
    train(*common, "--steps", "6")
    whole = json.loads(capsys.readouterr().out)["losses"]

    def interrupted(trainer, number):
        for _ in range(times if number == 3 else 0):
            signal.raise_signal(signal.SIGINT)
        update(trainer, number)

    monkeypatch.setattr(Trainer, "_update", interrupted)
    assert train(*common, "--steps", "6", "--save", str(path)) == 130
    first = json.loads(capsys.readouterr().out)
    assert path.exists() is (times == 1) and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if times == 2:
        assert first["stopped"] == "stopped by Ctrl-C in the middle of a step"
        return
    monkeypatch.undo()
    train(*common, "--steps", "2", "--resume", str(path))
    assert first["stopped"] == "stopped by Ctrl-C" and len(first["losses"]) == 4
    assert first["losses"] + json.loads(capsys.readouterr().out)["losses"] == whole


def test_the_list_names_everything(capsys):
    assert train("--list") == 0
    output = capsys.readouterr().out
    assert all(name in output for name in (*recipes.names(), *tasks.names())) and "phases=two" in output
    assert train("--list", "--json") == 0
    assert json.loads(capsys.readouterr().out)["recipes"]["luq_2022"]["samples"] == 1


@pytest.mark.parametrize("name", tasks.names())
def test_every_task_runs(name):
    if name == "detector":
        pytest.importorskip("faster_coco_eval")
    task = tasks.get(name)
    run = task.trainer("fp32", batch=4)
    assert len(list(run.steps(2))) == 2
    x, y = task.test()
    assert run.evaluate(x[:50], y[:50])["loss"] > 0


def test_importing_the_recipes_needs_no_torch():
    imports = "from lplab.training import recipes, QuantSpec"
    code = f"import sys; sys.modules['torch'] = None; {imports}; recipes.get('luq_2022')"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    code = "import sys; sys.modules['torch'] = None; from lplab.training import Trainer"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "lplab.training.Trainer needs PyTorch: pip install 'lplab[torch]'" in run.stderr
