"""A trained network in eight bits without training again."""

import numpy as np
import pytest
import torch
from torch import nn

from lplab import formats
from lplab.training import Trainer, tasks
from lplab.training.emulation.conversion import emulation_of
from lplab.training.inference import (
    compare,
    inference_recipe,
    quantize_for_inference,
    retune_batchnorm,
    sensitivity,
)


@pytest.fixture(scope="module")
def trained():
    """A residual net that has learned the digits, some training batches, and its test loss."""
    task = tasks.get("digits_resnet")
    run = task.trainer("fp32", seed=0)
    run.run(60, progress=False)
    x, y = task.test()

    @torch.no_grad()
    def loss(model):
        return float(nn.functional.cross_entropy(model(x), y))

    from lplab.training import dequantize_model

    batches = [task.data(50, 0)(step)[0] for step in range(12)]
    model = dequantize_model(run.model).eval()
    retune_batchnorm(model, batches)
    return model, batches, loss


def test_retuning_takes_the_mean_over_all_batches_and_leaves_everything_else():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    batches = [torch.randn(20, 3) + i for i in range(5)]
    assert retune_batchnorm(model, [(b, None) for b in batches], batches=4) == 4
    with torch.no_grad():
        outputs = [model[0](b) for b in batches[:4]]
    assert torch.allclose(model[1].running_mean, torch.stack([o.mean(0) for o in outputs]).mean(0), atol=1e-6)
    assert torch.allclose(model[1].running_var, torch.stack([o.var(0) for o in outputs]).mean(0), rtol=1e-5)
    assert not model.training and not model[1].training and model[1].momentum == 0.1
    changed = {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}


def test_retuning_undoes_wrong_statistics(trained):
    model, batches, loss = trained
    import copy

    spoiled = copy.deepcopy(model)
    for module in spoiled.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean += 1.0
    assert loss(spoiled) > 2 * loss(model)
    retune_batchnorm(spoiled, batches)
    assert loss(spoiled) < 1.2 * loss(model) + 0.02


def test_fewer_bits_cost_more_and_retuning_helps_where_it_hurts(trained):
    model, batches, loss = trained
    coarse = formats.FloatFormat(4, 1, bias=11, specials="none")
    rows = compare(model, ["hfp8_forward", "fp8_152", coarse, "int8"], batches, loss)
    by_label = {row.label.split(",")[0]: row for row in rows}
    wide, narrow = by_label["hfp8_forward"], rows[2]
    assert all(row.float32 == loss(model) for row in rows)
    assert abs(wide.direct - wide.float32) < abs(narrow.direct - narrow.float32)
    assert narrow.retuned < narrow.direct and narrow.recovered > 0
    assert abs(by_label["int8"].direct - wide.float32) < 0.05


def test_training_on_under_the_rounding_helps_and_leaves_the_model_alone(trained):
    """A grid of three bits hurts; thirty steps of training through it take most of that back."""
    model, batches, loss = trained
    before, data, given = loss(model), tasks.get("digits_resnet").data(50, 0), []

    def retrain(rounded):
        given.append((rounded, rounded.training, emulation_of(rounded).recipe.weight.format.bits))
        Trainer(rounded, data, lr=0.02).run(30, progress=False)

    (row,) = compare(model, [formats.IntFormat(3)], batches, loss, retrain=retrain)
    assert row.retrained < row.direct and row.retrained < row.retuned
    assert [found[1:] for found in given] == [(True, 3)] and given[0][0] is not model and not given[0][0].training
    assert loss(model) == before == row.float32
    assert compare(model, "int8", batches[:2], loss)[0].retrained is None


def test_the_model_is_left_alone(trained):
    model, batches, loss = trained
    before = loss(model)
    compare(model, ["fp8_152"], batches[:2], loss)
    sensitivity(model, "int8", loss)
    assert loss(model) == before and not model.training


def test_sensitivity_rounds_one_layer_at_a_time(trained):
    model, _, loss = trained
    coarse = formats.IntFormat(3)
    found = sensitivity(model, coarse, loss)
    assert next(iter(found)) == "stem" and list(found)[-1] == "head" and len(found) == 10
    assert max(found.values()) > loss(model) and len(set(found.values())) > 5
    assert max(abs(v - loss(model)) for v in sensitivity(model, "fp32", loss).values()) == 0


def test_recipes_for_inference():
    assert inference_recipe("int8", "hfp8_forward").activation.label == "hfp8_forward"
    assert inference_recipe("q4.4").weight.scaling is None
    ends = inference_recipe("int4", ends="fp32").exceptions
    assert set(ends) == {"first", "last"} and all(rules.is_identity for rules in ends.values())
    assert inference_recipe("int4", scaling=None).weight.scaling is None


def test_models_without_batch_norm_and_without_inputs():
    assert retune_batchnorm(nn.Linear(2, 2), []) == 0
    with pytest.raises(ValueError, match="no inputs to estimate"):
        retune_batchnorm(nn.BatchNorm1d(2), [])


def test_operands_are_on_the_grid_and_gradients_are_not_touched():
    model = quantize_for_inference(nn.Linear(4, 3, bias=False), "e4m3fn")
    x = torch.randn(2, 4)
    y = model(x)
    q = formats.get("e4m3fn").quantize
    with torch.no_grad():
        assert torch.equal(y, nn.functional.linear(q(x), q(model.weight.detach())))
    assert emulation_of(model).recipe.output_gradient_dx.is_identity and np.isfinite(y.detach().numpy()).all()
