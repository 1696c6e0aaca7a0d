"""Lab 03: its live run shows at its default length what the text beside it promises."""

import math

import numpy as np
import pytest
import torch

from lplab.labs import lab03
from lplab.training import recipes, tasks


def test_a_click_is_answered_at_once():
    run = lab03.train_four()
    assert run.state == "ready" and run.progress.max == lab03.LIVE_STEPS == 200
    run.start()
    said = run.status.value
    run.stop()
    run.wait(60)
    assert "Preparing" in said or "Running" in said
    assert run.state == "stopped"


@pytest.mark.slow
def test_the_loss_with_small_gradients_turns_and_climbs_in_the_second_half():
    run = lab03.train_four()
    run.start()
    run.wait(600)
    bits = {name: np.array(losses) / math.log(2) for name, losses in run.losses.items()}
    assert {name: len(losses) for name, losses in bits.items()} == dict.fromkeys(bits, 200)
    smooth = np.convolve(bits["256 × smaller"], np.ones(10) / 10, "valid")
    lowest = int(np.argmin(smooth))
    assert lowest < 150, "it falls at first, and turns before the end"
    assert smooth[-1] > smooth[lowest] + 0.4, "it climbs so far that it can be seen"
    at_the_end = {name: losses[-20:].mean() for name, losses in bits.items()}
    for same in ("dynamic scale", "no scale"):
        assert at_the_end[same] == pytest.approx(at_the_end["fp32"], abs=0.05)
    assert at_the_end["256 × smaller"] > at_the_end["fp32"] + 0.6


@pytest.mark.slow
def test_when_the_loss_climbs_only_the_last_layer_has_a_gradient_that_points_the_right_way():
    small, true = (
        tasks.get("transformer").trainer(recipe) for recipe in (recipes.get("fp16_mixed", loss_scale=2.0**-8), "fp32")
    )
    small.run(150, progress=False)
    true.model.load_state_dict(small.model.state_dict())
    true.step = small.step  # the same batch
    for trainer in (small, true):
        trainer.one_step()
    right = dict(true.model.named_parameters())
    kept, angle = {}, {}
    for name, weight in small.model.named_parameters():
        if weight.dim() == 2:
            kept[name] = float(weight.grad.norm() / right[name].grad.norm())
            angle[name] = float(torch.cosine_similarity(weight.grad.flatten(), right[name].grad.flatten(), dim=0))
    assert kept.pop("head.weight") > 0.9 and angle.pop("head.weight") > 0.8
    assert np.median(list(kept.values())) < 0.5 and max(angle.values()) < 0.2
