"""A small network with batch norms, rounded to several formats: tuned by the library and by a student, trained on.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from lplab import models
from lplab.claims.framework.trainings import one_thread, train
from lplab.exercises.model.forms import Form
from lplab.exercises.student_figures import NotReady, read_results
from lplab.training import Trainer, compare, dequantize_model, quantize_for_inference, retune_batchnorm, tasks

STEPS, BATCHES = 150, 4
RETRAIN_STEPS = 40  # steps of the rounded network, at a tenth of the learning rate
FORMATS = {"1-4-3 (8 bits)": "hfp8_forward", "1-5-2 (8 bits)": "hfp8_backward", "E3M2 (6 bits)": "e3m2", "int4": "int4"}


@cache
def trained() -> nn.Module:
    """A depthwise-separable network on 8×8 digits, trained in float32 for some seconds, then re-tuned."""
    task = tasks.get("digits_resnet", model=lambda seed: models.depthwise_net((8, 16), 3, channels=1, seed=seed))
    model = dequantize_model(train(task, "fp32", STEPS).trainer.model).eval()
    with one_thread():
        retune_batchnorm(model, inputs())
    return model


@cache
def inputs() -> list[torch.Tensor]:
    """Batches of training digits, from which statistics are estimated."""
    task = tasks.get("digits_resnet")
    data = task.data(task.batch, 0)
    return [data(step)[0] for step in range(BATCHES)]


@torch.no_grad()
def error_of(model: nn.Module) -> float:
    """Test error in percent."""
    x, y = tasks.get("digits_resnet").test()
    return 100 * float((model.eval()(x).argmax(-1) != y).float().mean())


def norms_of(model: nn.Module) -> dict[str, nn.BatchNorm2d]:
    """The batch norms by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}


@torch.no_grad()
def norm_inputs(model: nn.Module) -> dict[str, list[np.ndarray]]:
    """The inputs of every batch norm while all use the statistics of the batch: float32 [n, c, h, w] each.

    This changes the model's statistics.
    """
    recorded: dict[str, list[np.ndarray]] = {name: [] for name in norms_of(model)}
    hooks = []
    for name, norm in norms_of(model.eval()).items():
        norm.train()
        hooks.append(norm.register_forward_pre_hook(lambda _, x, name=name: recorded[name].append(x[0].numpy().copy())))
    for batch in inputs():
        model(batch)
    for hook in hooks:
        hook.remove()
    model.eval()
    return recorded


def retuned_by(function: Callable[..., Any], form: Form, model: nn.Module) -> nn.Module:
    """The model with statistics, of a form, that a function estimates for each batch norm.

    Raises:
        NotReady: with one line, if the function is not written yet, fails, or returns something else.
    """
    recorded, norms = norm_inputs(model), norms_of(model)
    results = read_results(function, [(batches,) for batches in recorded.values()], form, float32)
    for name, statistics in zip(recorded, results, strict=True):
        if statistics.shape != (2, norms[name].num_features):
            raise NotReady("it does not return a mean and a variance for each channel")
        norms[name].running_mean.copy_(torch.from_numpy(statistics[0]))
        norms[name].running_var.copy_(torch.from_numpy(statistics[1]))
    return model


def float32(statistics: Any) -> np.ndarray:
    """Means and variances as the network holds them; ValueError or TypeError if they are no array."""
    return np.asarray(statistics, np.float32)


def draw(function: Callable[..., Any], form: Form) -> Any:
    """A figure of test errors: rounded, re-tuned by the library and by the student's function, and retrained.

    Args:
        function: takes a list of batches [n, channels, height, width]; returns means and variances.
        form: that of its result.

    Raises:
        NotReady: as `retuned_by`; before anything is trained if the function is not written yet, fails, or returns no
            arrays.
    """
    from lplab import figures  # drawn in a notebook only

    read_results(function, [([np.arange(8.0, dtype=np.float32).reshape(1, 2, 2, 2)],)], form, float32)
    with one_thread():
        yours = [error_of(retuned_by(function, form, quantize_for_inference(trained(), f))) for f in FORMATS.values()]
        rows = compare(trained(), FORMATS.values(), inputs(), error_of, retrain=retrain)
    direct, retuned, retrained = zip(*((r.direct, r.retuned, r.retrained) for r in rows), strict=True)
    return figures.retuned_errors(list(FORMATS), direct, retuned, rows[0].float32, yours, retrained=retrained)


def retrain(model: nn.Module) -> None:
    """Train a rounded network on for some steps, in place: with labels, unlike re-tuning."""
    task = tasks.get("digits_resnet")
    data, options = task.data(task.batch, 1), dict(task.options)
    Trainer(model, data, optimizer=task.optimizer, lr=task.lr / 10, **options).run(RETRAIN_STEPS, progress=False)
