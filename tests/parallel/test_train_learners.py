"""``lplab train --learners``: simulated and real runs from a terminal."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

pytest.importorskip("torch")

from lplab.cli import learners, main

MLP = ["train", "--model", "mlp", "--steps", "3", "--learners", "2"]


SCALECOM = [*MLP, "--compressor", "scalecom:chunk=50", "--json"]


@pytest.fixture(scope="module")
def distributed():
    """What a real run prints to stdout and stderr on a machine with a single processor."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        patch.setattr(learners, "processors", lambda: 1)
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


def test_a_training_that_diverges_ends_with_code_1_as_of_one_learner_and_its_json_is_strict(capsys):
    assert main([*MLP, "--lr", "1e8", "--json"]) == 1
    output = capsys.readouterr()
    assert json.loads(output.out, parse_constant=pytest.fail)["losses"][-1] is None
    assert "diverged: the loss is no number from step 3 on" in output.err


def test_more_processes_than_processors_are_warned_of(distributed, capsys, monkeypatch):
    assert "2 processes share a single processor" in distributed[1]
    monkeypatch.setattr(learners, "processors", lambda: 1)
    assert main(MLP) == 0
    assert "share" not in capsys.readouterr().err


@pytest.mark.parametrize(("words", "message"), [
    (["--compressor", "zip"], "unknown compressor 'zip'"),
    (["--learners", "0"], "learners"),
    (["--learners", "2", "--recipe", "fp8_2018"], "leave out --recipe"),
    (["--learners", "2", "--save", "x.pt"], "leave out --save"),
    (["--learners", "2", "--model", "mpl"], "unknown model 'mpl'"),
    (["--learners", "3", "--batch", "2"], "--batch 2 is less than an example for each of 3 learners"),
    (["--learners", "2", "--batch", "0"], "--batch 0 is less than an example for each of 2 learners"),
    (["--learners", "2", "--lr", "nan"], "lr must be a positive finite number, got nan"),
    (["--learners", "2", "--lr", "-1"], "lr must be a positive finite number, got -1"),
    (["--compressor", "topk:density=2"], "density must be"),
    (["--compressor", "scalecom:chunk=abc"], "chunk of ScaleCom takes a whole number or None, got 'abc'"),
])  # fmt: skip
def test_bad_input_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as end:
        raise SystemExit(main(["train", *words]))
    output = capsys.readouterr().err
    assert end.value.code == 2 and message in output and len(output.strip().splitlines()) == 1
