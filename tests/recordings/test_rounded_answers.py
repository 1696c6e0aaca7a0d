"""The recorded answers: one for each recipe, and what the lab says of them holds."""

import json

import numpy as np
import pytest

from lplab.datasets import data_folder, smollm2_file
from lplab.recordings.rounded_answers import (
    CACHES,
    NOTHING,
    RECIPES,
    cache_recipe,
    inputs_recipe,
    rounded_answers,
    weights_recipe,
)
from lplab.training.few_bits_rule import FewBits
from tests.datasets.scripts import script

FOUND = rounded_answers()


def cost(recipe):
    """By how much the loss rises on each passage."""
    return FOUND[recipe].losses - FOUND[NOTHING].losses


def test_each_recipe_has_an_answer_and_eight_losses():
    assert list(FOUND) == list(RECIPES)
    for answer in FOUND.values():
        assert answer.losses.shape == (8,) and np.isfinite(answer.losses).all() and answer.loss == answer.losses.mean()
    assert (data_folder() / "language_model" / "rounded_answers.json").stat().st_size < 50_000


def test_bits_a_weight_are_those_of_the_grid():
    """All matrices of the model have 576 or 1,536 inputs."""
    for recipe, answer in FOUND.items():
        if recipe == NOTHING or recipe in CACHES:
            assert answer.bits_a_weight == 16
            continue
        rule = FewBits.from_name(recipe)
        ends = sorted(rule.grid.bits_per_weight(inputs) for inputs in (576, 1536))
        factors = 0.1 * (rule.repair == "smoothquant")  # 16 bits an input, at most
        assert ends[0] - 1e-9 <= answer.bits_a_weight <= ends[1] + factors + 1e-9


def test_repairs_help_at_8_bits_with_one_scale_for_a_tensor():
    plain, split, smooth, rotate = (
        cost(inputs_recipe(8, repair, "tensor")) for repair in ("", "llmint8", "smoothquant", "hadamard")
    )
    assert (plain > 0.3).all()
    for repaired in (split, smooth, rotate):
        assert (repaired < plain).all()
    assert split.mean() < min(smooth.mean(), rotate.mean())


def test_rotating_is_best_at_4_bits():
    plain, smooth, rotate = (cost(inputs_recipe(4, repair, "token")) for repair in ("", "smoothquant", "hadamard"))
    assert (rotate < smooth).all() and (smooth < plain).all()


def test_keys_by_channel_and_values_by_token_cost_least():
    best = cost(cache_recipe(2, "channel", "token"))
    for keys, values in (("channel", "channel"), ("token", "token"), ("token", "channel")):
        assert (best < cost(cache_recipe(2, keys, values))).all()


def test_gptq_costs_less_on_every_passage_at_3_bits_and_nothing_writes_at_2():
    for group in ("32", "row"):
        gptq, nearest = (cost(weights_recipe(3, group, how)) for how in ("gptq", "rtn"))
        assert (gptq < nearest).all() and gptq.mean() < 0.75 * nearest.mean()
    assert min(FOUND[weights_recipe(2, group, how)].loss for group in ("32", "row") for how in ("rtn", "gptq")) > 12


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [NOTHING, cache_recipe(2, "channel", "token")])
def test_they_can_be_made_again(recipe):
    pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    try:
        smollm2_file()
    except (FileNotFoundError, ImportError) as problem:
        pytest.skip(str(problem))
    from lplab.models import smollm2

    made = script("record_rounded_answers").record(*smollm2(), recipe)
    stored = json.loads((data_folder() / "language_model" / "rounded_answers.json").read_text("utf-8"))[recipe]
    np.testing.assert_allclose(made["losses"], stored["losses"], atol=2e-3)
    assert made["text"][:40] == stored["text"][:40]
