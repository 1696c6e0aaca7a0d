"""``lplab train --learners``: simulated and real runs from a terminal."""

import json
import signal
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

torch = pytest.importorskip("torch")

from lplab.cli import main, train_learners  # noqa: E402
from lplab.parallel import Learners  # noqa: E402

MLP = ["train", "--model", "mlp", "--steps", "3", "--learners", "2"]


def refused(words, capsys):
    """What is printed to stderr by a command whose input is bad."""
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    return capsys.readouterr().err


SCALECOM = [*MLP, "--compressor", "scalecom:chunk=50", "--json"]


@pytest.fixture(scope="module")
def distributed():
    """What a real run prints to stdout and stderr on a machine with a single processor."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        patch.setattr(train_learners, "processors", lambda: 1)
        assert main([*SCALECOM, "--distributed"]) == 0
    return out.getvalue(), err.getvalue()


def test_a_simulated_run_and_a_real_one_end_with_the_same_weights(distributed, capsys):
    assert main(SCALECOM) == 0
    simulated, real = json.loads(capsys.readouterr().out), json.loads(distributed[0])
    assert simulated["weights"] == real["weights"] and simulated["payload_bytes"] == real["payload_bytes"] > 0


def test_what_is_printed(capsys):
    assert main([*MLP, "--compressor", "adacomp:bin=50"]) == 0
    output = capsys.readouterr().out
    assert "2 simulated learners, adacomp:bin=50: 3 steps" in output
    assert "test error" in output and "bytes a learner and step" in output


def test_one_learner_is_one(capsys):
    assert main([*MLP[:-1], "1"]) == 0
    assert "1 simulated learner, dense" in capsys.readouterr().out


@pytest.mark.parametrize("compressor", ["scalecom:chunk=50,beta=0.3", "signsgd:momentum=0.9", "dense"])
def test_a_checkpoint_is_continued_bit_for_bit(compressor, tmp_path, capsys):
    words, results = [*MLP, "--compressor", compressor, "--lr", "0.003", "--json"], []
    path = str(tmp_path / "run.pt")
    parts = ["--steps", "5"], ["--steps", "3", "--save", path], ["--steps", "2", "--resume", path, "--save", path]
    for more in parts:
        assert main([*words, *more]) == 0
        results.append(json.loads(capsys.readouterr().out))
    whole, first, second = results
    assert first["losses"] + second["losses"] == whole["losses"] and second["weights"] == whole["weights"]
    assert torch.load(path, weights_only=True)["learners"]["step"] == 5


@pytest.mark.parametrize(("words", "message"), [
    (["--learners", "3"], "the checkpoint is of learners 2, this run's is 3"),
    (["--compressor", "topk"], "the checkpoint is of compressor Dense(wire='fp32'), this run's is TopK("),
    (["--lr", "0.5"], "the checkpoint is of lr 0.05, this run's is 0.5"),
    (["--seed", "1"], "the checkpoint is of seed 0, this run's is 1"),
    (["--batch", "8"], "the checkpoint is of batch 25, this run's is 4"),
    (["--model", "lstm"], "the checkpoint is of model mlp, this run's is lstm"),
])  # fmt: skip
def test_a_checkpoint_of_other_settings_is_refused_in_one_line(words, message, checkpoint, capsys):
    output = refused([*MLP, *words, "--resume", str(checkpoint)], capsys)
    assert message in output and len(output.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Of two learners that have made three steps."""
    path = tmp_path_factory.mktemp("learners") / "run.pt"
    assert main([*MLP, "--save", str(path), "--json"]) == 0
    return path


def test_a_file_of_something_else_is_refused_in_one_line(tmp_path, capsys):
    for name, content in (("notes.pt", b"not a checkpoint"), ("single.pt", None)):
        path = tmp_path / name
        if content is None:
            assert main(["train", "--model", "mlp", "--steps", "1", "--save", str(path)]) == 0
        else:
            path.write_bytes(content)
        capsys.readouterr()
        output = refused([*MLP, "--resume", str(path)], capsys)
        assert f"{name} is no checkpoint of several learners" in output and len(output.strip().splitlines()) == 1


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_for_the_end_of_the_step_unless_it_comes_twice(times, tmp_path, capsys, monkeypatch):
    path, apply = tmp_path / "run.pt", Learners._apply

    def interrupted(run, gradients):
        for _ in range(times if run.step == 1 else 0):
            signal.raise_signal(signal.SIGINT)
        return apply(run, gradients)

    monkeypatch.setattr(Learners, "_apply", interrupted)
    assert main([*MLP, "--save", str(path), "--json"]) == 130
    result = json.loads(capsys.readouterr().out)
    assert path.exists() is (times == 1) and len(result["losses"]) == 3 - times
    assert result["stopped"] == ("stopped by Ctrl-C" if times == 1 else "stopped by Ctrl-C in the middle of a step")
    monkeypatch.undo()
    if times == 1:
        assert main([*MLP, "--steps", "1", "--resume", str(path), "--json"]) == 0
        rest = json.loads(capsys.readouterr().out)
        assert main([*MLP, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["weights"] == rest["weights"]


def test_a_training_that_diverges_leaves_no_checkpoint(tmp_path, capsys):
    assert main([*MLP, "--lr", "1e8", "--save", str(tmp_path / "run.pt")]) == 1
    assert "diverged" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_training_that_diverges_ends_with_code_1_as_of_one_learner_and_its_json_is_strict(capsys):
    assert main([*MLP, "--lr", "1e8", "--json"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out, parse_constant=pytest.fail)["losses"][-1] is None
    assert "diverged: the loss is no number from step 3 on" in output.err


def test_more_processes_than_processors_are_warned_of(distributed, capsys, monkeypatch):
    assert "2 processes share a single processor" in distributed[1]
    monkeypatch.setattr(train_learners, "processors", lambda: 1)
    assert main(MLP) == 0
    assert "share" not in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["--compressor", "zip"], "unknown compressor 'zip'"),
    (["--learners", "0"], "learners"),
    (["--learners", "2", "--recipe", "fp8_2018"], "leave out --recipe"),
    (["--learners", "2", "--record", "x.npz"], "leave out --record"),
    (["--learners", "2", "--save", "/no/such/folder/x.pt"], "there is no folder /no/such/folder"),
    (["--learners", "2", "--save", "."], ". is a folder; name a file in it"),
    (["--learners", "2", "--resume", "no.pt"], "there is no file no.pt"),
    (["--distributed", "--save", "x.pt"], "--save and --resume need simulated learners"),
    (["--learners", "2", "--model", "mpl"], "there is no model 'mpl'"),
    (["--learners", "3", "--batch", "2"], "--batch 2 is less than an example for each of 3 learners"),
    (["--learners", "2", "--batch", "0"], "--batch 0 is less than an example for each of 2 learners"),
    (["--learners", "2", "--lr", "nan"], "lr must be a positive finite number, got nan"),
    (["--learners", "2", "--lr", "-1"], "lr must be a positive finite number, got -1"),
    (["--compressor", "topk:density=2"], "density must be"),
    (["--compressor", "signsgd:ties=random"], "ties must be 'zero' or 'positive', got 'random'"),
    (["--compressor", "scalecom:chunk=abc"], "chunk of ScaleCom takes a whole number or None, got 'abc'"),
])  # fmt: skip
def test_bad_input_is_one_line(words, message, capsys):
    output = refused(["train", *words], capsys)
    assert message in output and len(output.strip().splitlines()) == 1
