"""A small network with batch norms, rounded to several formats: tuned by the library and by a student, trained on.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from lplab.training.inference import Comparison

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


def live(function: Callable[..., Any], form: Form) -> Any:
    """A button that rounds and tunes a network, format by format, and draws its test errors as they come.

    Args:
        function: takes a list of batches [n, channels, height, width]; returns means and variances.
        form: that of its result.

    Returns:
        A `lplab.widgets.LiveRun`. Its first step trains the network, if that was not done yet.

    Raises:
        NotReady: before anything is trained if the function is not written yet, fails, or returns no arrays.
    """
    from lplab import figures, widgets  # shown in a notebook only

    read_results(function, [([np.arange(8.0, dtype=np.float32).reshape(1, 2, 2, 2)],)], form, float32)
    labels = list(FORMATS)

    def steps() -> Iterator[tuple[Comparison, float] | None]:
        with one_thread():
            trained()
            yield None
            for format in FORMATS.values():
                (row,) = compare(trained(), [format], inputs(), error_of, retrain=retrain)
                yield row, _own_error(function, form, format)

    def show(results: tuple[tuple[Comparison, float] | None, ...]) -> Any:
        rows = [result for result in results if result is not None]
        missing = [np.nan] * (len(labels) - len(rows))
        direct, retuned, retrained = (
            [*(getattr(row, name) for row, _ in rows), *missing] for name in ("direct", "retuned", "retrained")
        )
        yours = [*(error for _, error in rows), *missing]
        float32_error = rows[0][0].float32 if rows else np.nan
        return figures.retuned_errors(labels, direct, retuned, float32_error, yours, retrained=retrained)

    return widgets.LiveRun(steps, show, total=1 + len(labels), name="Round and re-tune a network")


def _own_error(function: Callable[..., Any], form: Form, format: str) -> float:
    """The test error with the student's statistics; what is wrong with them is shown as "not yet"."""
    try:
        return error_of(retuned_by(function, form, quantize_for_inference(trained(), format)))
    except NotReady as problem:
        raise NotImplementedError(str(problem)) from problem


def retrain(model: nn.Module) -> None:
    """Train a rounded network on for some steps, in place: with labels, unlike re-tuning."""
    task = tasks.get("digits_resnet")
    data, options = task.data(task.batch, 1), dict(task.options)
    Trainer(model, data, optimizer=task.optimizer, lr=task.lr / 10, **options).run(RETRAIN_STEPS, progress=False)
