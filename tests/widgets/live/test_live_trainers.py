"""Trainings of any model, live: side by side, a diverged one explained while the others go on."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from lplab.training import Batches, Trainer
from lplab.widgets import LiveTrainers, live_trainers

SECONDS = 60  # patience with a loaded machine; nothing here takes that long


def trainer(recipe="fp32", lr=0.1, data=None, **options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    data = data or Batches(torch.randn(64, 4), torch.arange(64) % 2, batch=16)
    return Trainer(model, data, recipe, lr=lr, **options)


def poisoned_from(step):
    """Batches that hold an infinity from a step on."""
    data = Batches(torch.randn(64, 4), torch.arange(64) % 2, batch=16)
    return lambda number: data(number) if number < step else (data(number)[0] * torch.inf, data(number)[1])


def finished(run):
    run.start()
    run.wait(SECONDS)
    return run


def test_results_are_those_of_the_trainers_alone():
    run = finished(live_trainers({"fp32": trainer, "fp8": lambda: trainer("fp8_2018")}, steps=5))
    assert isinstance(run, LiveTrainers) and run.state == "finished" and run.diverged == {}
    assert run.losses["fp32"] == [step.loss for step in trainer().steps(5)]
    assert run.losses["fp8"] == [step.loss for step in trainer("fp8_2018").steps(5)]
    assert run.losses["fp8"] != run.losses["fp32"]
    assert [trace.name for trace in run.figure.data] == ["fp8", "fp32", "diverged"]
    assert run.trainers["fp8"].step == 5 and run.trainers["fp8"].recipe.name == "fp8_2018"
    assert run.status.value == "Finished: 5 of 5 steps." and run.time_left_line.value == ""


def test_one_that_diverges_is_explained_and_the_others_go_on():
    bad = poisoned_from(2)
    run = finished(live_trainers({"good": trainer, "bad": lambda: trainer("hfp8_2019", data=bad)}, steps=6))
    assert run.state == "finished" and len(run.losses["good"]) == 6 and len(run.losses["bad"]) == 2
    error = run.diverged["bad"]
    assert list(run.diverged) == ["bad"] and error.diagnosis.step == 2 and error.diagnosis.layer == "0"
    assert run.remark_line.value == f"bad diverged. Step 2: {str(error).split(': ', 1)[1]}."
    assert "the input of 0" in run.remark_line.value
    crosses = run.figure.data[-1]
    assert crosses.visible and list(crosses.x) == [2] and list(crosses.text) == ["bad"]
    assert "bad diverged after 2" in run.figure.alt
    assert len(finished(run).losses["bad"]) == 2, "a second start begins again"


def test_it_ends_when_all_have_diverged():
    run = finished(live_trainers({"bad": lambda: trainer(data=poisoned_from(1))}, steps=50))
    assert run.state == "finished" and run.status.value == "Finished: 2 of 50 steps."
    assert run.losses == {"bad": run.losses["bad"]} and len(run.losses["bad"]) == 1


def test_stop_works_while_it_trains():
    gate, data = threading.Event(), Batches(torch.randn(64, 4), torch.arange(64) % 2, batch=16)

    def waiting(step):
        assert step < 3 or gate.wait(SECONDS)
        return data(step)

    run = live_trainers({"slow": lambda: trainer(data=waiting)}, steps=1000, start=True)
    run.stop_button.click()
    gate.set()
    run.wait(SECONDS)
    assert run.state == "stopped" and 1 <= len(run.losses["slow"]) <= 4


def test_it_computes_with_the_threads_that_it_was_told_and_gives_them_back():
    before, during = torch.get_num_threads(), []
    data = Batches(torch.randn(64, 4), torch.arange(64) % 2, batch=16)

    def counted(step):
        during.append(torch.get_num_threads())
        return data(step)

    finished(live_trainers({"a": lambda: trainer(data=counted)}, steps=2))
    finished(live_trainers({"a": lambda: trainer(data=counted)}, steps=1, threads=3, loss_range=(0, 1)))
    assert during == [1, 1, 3] and torch.get_num_threads() == before


def test_losses_in_bits_are_drawn_and_the_numbers_stay_nats():
    nats = finished(live_trainers({"fp32": trainer}, steps=3))
    bits = finished(live_trainers({"fp32": trainer}, steps=3, bits=True))
    assert bits.losses == nats.losses
    drawn, natural = (run.figure.data[0].y for run in (bits, nats))
    assert drawn == pytest.approx(natural / np.log(2))
    assert bits.figure.layout.yaxis.title.text == "loss (bits)"
    named = live_trainers({"fp32": trainer}, steps=3, bits=True, unit="bits a character")
    assert named.figure.layout.yaxis.title.text == "loss (bits a character)"


def test_before_the_start_there_is_nothing():
    run = live_trainers({"fp8": lambda: trainer("fp8_2018")}, steps=5)
    assert run.losses == {"fp8": []} and run.trainers == {} and run.diverged == {}
    assert run.figure.layout.meta["title"] == "Not started yet"


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one function"):
        live_trainers({}, steps=5)
    with pytest.raises(TypeError, match=r"trainers\['a'\] must be a function without arguments .* got Trainer"):
        live_trainers({"a": trainer()}, steps=5)
    with pytest.raises(ValueError, match="at most 4 curves"):
        live_trainers(dict.fromkeys("abcde", trainer), steps=5)
    with pytest.raises(ValueError, match="threads"):
        live_trainers({"a": trainer}, steps=5, threads=0)
    failed = finished(live_trainers({"a": lambda: trainer("fp9")}, steps=5))
    assert failed.state == "failed" and "there is no recipe" in failed.error_line.value
