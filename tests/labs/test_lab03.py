"""Lab 03: its live run shows at its default length what the text beside it promises."""

import math

import numpy as np
import pytest

from lplab.labs import lab03


def test_a_click_is_answered_at_once():
    run = lab03.train_three()
    assert run.state == "ready" and run.progress.max == lab03.LIVE_STEPS == 200
    run.start()
    said = run.status.value
    run.stop()
    run.wait(60)
    assert "Preparing" in said or "Running" in said
    assert run.state == "stopped"


@pytest.mark.slow
def test_the_loss_with_small_gradients_turns_and_climbs_in_the_second_half():
    run = lab03.train_three()
    run.start()
    run.wait(600)
    bits = {name: np.array(losses) / math.log(2) for name, losses in run.losses.items()}
    assert {name: len(losses) for name, losses in bits.items()} == dict.fromkeys(bits, 200)
    smooth = np.convolve(bits["256 × smaller"], np.ones(10) / 10, "valid")
    lowest = int(np.argmin(smooth))
    assert lowest < 150, "it falls at first, and turns before the end"
    assert smooth[-1] > smooth[lowest] + 0.4, "it climbs so far that it can be seen"
    at_the_end = {name: losses[-20:].mean() for name, losses in bits.items()}
    assert at_the_end["dynamic scale"] == pytest.approx(at_the_end["fp32"], abs=0.05)
    assert at_the_end["256 × smaller"] > at_the_end["fp32"] + 0.6
