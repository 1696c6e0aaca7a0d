"""A small network whose layers go to two bits one by one, and then with the layers wide that a function chose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.exercises.lab04.choose_bits import CHOOSE, HIGH, choose_bits
from lplab.exercises.student_figures import NotReady, as_array, read_results

if TYPE_CHECKING:
    from torch import nn

    from lplab.training import Recipe

TASK, STEPS = "digits_resnet", 120
SHARE = 0.125  # of all products may stay wide
LAYERS = 10
EVERYWHERE, ENDS, TABLE, YOURS = "2 bits everywhere", "first and last wide", "best by the table", "yours"
CHOICES = 4
Chooser = Callable[[list[int], list[int], float], list[int]]


@dataclass(frozen=True)
class Trial:
    """The results so far.

    Attributes:
        message: the current step, or the result.
        names, products, weight_errors: of the layers: multiplications for one image; squared error of the weights at
            2 bits, as a share of their power.
        plain: percent of the test images that the network in float32 gets wrong.
        harm: thousandths of a bit of test loss more if this layer alone has 2-bit weights, as far as measured.
        alone: percent of the test images wrong then.
        wide: layers that the latest choice keeps wide.
        wrong: percent of the test images, by choice.
        together: thousandths of a bit of test loss more with all layers at 2 bits, once it is measured.
        problem: why there is no choice of yours.
    """

    message: str = "Not started yet"
    names: tuple[str, ...] = ()
    products: tuple[int, ...] = ()
    weight_errors: tuple[float, ...] = ()
    plain: float = 0.0
    harm: tuple[int, ...] = ()
    alone: tuple[float, ...] = ()
    wide: tuple[int, ...] = ()
    wrong: tuple[tuple[str, float], ...] = ()
    together: int | None = None
    problem: str = ""


def layer_trial(choose: Chooser, steps: int = STEPS, seed: int = 0) -> Iterator[Trial]:
    """Train, round each layer alone, then all layers but those that stay wide; a Trial after each piece of work.

    Args:
        choose: a function of (products, harm, share) that returns the bits of each layer; it runs in a process of its
            own. One that is not written yet is left out, and the last Trial says so.
        steps: of the training.
        seed: of the first weights and the batches.
    """
    from lplab.training.thread_counts import torch_threads

    with torch_threads(1):  # beside a browser that draws, two threads wait for each other
        yield from _trained_and_rounded(choose, steps, seed)


def _trained_and_rounded(choose: Chooser, steps: int, seed: int) -> Iterator[Trial]:
    from lplab.training import dequantize_model, tasks

    task = tasks.get(TASK)
    trainer = task.trainer("fp32", seed)
    trainer.schedule = lambda step: 0.5 * (1 + math.cos(math.pi * step / steps))
    for number, record in enumerate(trainer.steps(steps), 1):
        yield Trial(f"Training: loss {record.loss:.2f} after {number} of {steps} steps")
    model, data = dequantize_model(trainer.model).eval(), task.test()
    plain, trial = _loss(model, data), replace(_measured_weights(model, data[0]), plain=_wrong(model, data))
    for i, name in enumerate(trial.names):
        others = {other: "fp32" for other in trial.names if other != name}
        rounded = _rounded(model, others)
        harm, wrong = round(1000 * (_loss(rounded, data) - plain)), _wrong(rounded, data)
        message = f"{i + 1} of {len(trial.names)} layers rounded alone"
        trial = replace(trial, harm=(*trial.harm, harm), alone=(*trial.alone, wrong), message=message)
        yield trial
    together = round(1000 * (_loss(_rounded(model, {}), data) - plain))
    yield from _with_choices(model, data, replace(trial, together=together), choose)


def _with_choices(model: nn.Module, data: Any, trial: Trial, choose: Chooser) -> Iterator[Trial]:
    shares: tuple[str, ...] = ()
    for name, wide in _choices(trial, choose):
        wrong = _wrong(_rounded(model, {trial.names[i]: eight_bits() for i in wide}), data)
        results = (*trial.wrong, (name, wrong))
        share = 100 * sum(trial.products[i] for i in wide) / sum(trial.products)
        if name != EVERYWHERE:
            shares = (*shares, f"{name} {share:.1f} %")
        message = _together(trial) + (f". Products that stay wide: {', '.join(shares)}" if shares else "")
        trial = replace(trial, wide=wide, wrong=results, message=message)
        yield trial
    if len(trial.wrong) < CHOICES:
        yield replace(trial, problem=_problem(trial, choose))


def _together(trial: Trial) -> str:
    """What all layers at 2 bits cost, beside the sum of what each costs alone."""
    return f"All layers together: {trial.together:,} millibits. The bars add up to {sum(trial.harm):,}"


def two_bits() -> Recipe:
    """Weights of 2 bits under SAWB's clip, and nothing else rounded."""
    from lplab.quantizers import SAWB
    from lplab.training import QuantSpec, Recipe

    return Recipe(name="weights of 2 bits", weight=QuantSpec(quantizer=SAWB(2)))


def eight_bits() -> Recipe:
    """Weights of 8 bits up to the largest magnitude, and nothing else rounded."""
    from lplab.quantizers import Amax
    from lplab.training import QuantSpec, Recipe

    return Recipe(name="weights of 8 bits", weight=QuantSpec("int8", scaling=Amax()))


def products_of(model: nn.Module, inputs: Any) -> dict[str, int]:
    """Multiplications of each convolution and linear layer for one example, in the order of the layers.

    >>> import torch
    >>> products_of(torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten()), torch.zeros(1, 1, 4, 4))
    {'0': 72}
    """
    import torch

    layers = {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)}
    products: dict[str, int] = {}

    def record(name: str, module: Any, _: Any, out: Any) -> None:
        products[name] = module.weight[0].numel() * out[0].numel()

    hooks = [module.register_forward_hook(partial(record, name)) for name, module in layers.items()]
    with torch.no_grad():
        model(inputs[:1])
    for hook in hooks:
        hook.remove()
    return {name: products[name] for name in layers}


def _measured_weights(model: nn.Module, inputs: Any) -> Trial:
    products, sawb = products_of(model, inputs), two_bits().weight.quantizer
    weights = [np.asarray(model.get_submodule(name).weight.detach(), np.float64) for name in products]
    errors = [float(((sawb.quantize(w) - w) ** 2).sum() / (w**2).sum()) for w in weights]
    return Trial(names=tuple(products), products=tuple(products.values()), weight_errors=tuple(errors))


def _rounded(model: nn.Module, overrides: Any) -> nn.Module:
    from lplab.training import quantize_model

    return quantize_model(model, two_bits(), overrides=overrides).eval()


def _choices(trial: Trial, choose: Chooser) -> Iterator[tuple[str, tuple[int, ...]]]:
    table = list(trial.products), list(trial.harm), SHARE
    yield EVERYWHERE, ()
    yield ENDS, (0, len(trial.names) - 1)
    yield TABLE, _wide(choose_bits(*table))
    try:
        yield YOURS, read_results(choose, [table], CHOOSE.form, _wide)[0]
    except NotReady:
        return  # _problem says why, after all else is drawn


def _problem(trial: Trial, choose: Chooser) -> str:
    try:
        read_results(choose, [(list(trial.products), list(trial.harm), SHARE)], CHOOSE.form, _wide)
    except NotReady as problem:
        name = getattr(choose, "__name__", "function")
        return f"Your {name} is not drawn: {problem}. Once it is written, run this cell again."
    return ""


def _wide(bits: Sequence[float]) -> tuple[int, ...]:
    return tuple(i for i, value in enumerate(as_array(bits)) if value == HIGH)


def _loss(model: nn.Module, data: Any) -> float:
    import torch

    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(model(data[0]), data[1])) / math.log(2)


def _wrong(model: nn.Module, data: Any) -> float:
    import torch

    with torch.no_grad():
        return 100 * float((model(data[0]).argmax(1) != data[1]).float().mean())


def try_layers(choose: Chooser, *, steps: int = STEPS, seed: int = 0, start: bool = True) -> Any:
    """The trial of a function, live.

    Args:
        choose: as for :func:`layer_trial`.
        steps: of the training.
        seed: of the first weights and the batches.
        start: whether to start at once.
    """
    from lplab import figures, widgets  # drawn in a notebook only

    def draw(got: Sequence[Trial]) -> Any:
        at = got[-1] if got else Trial()
        harm = [*at.harm, *[math.nan] * (LAYERS - len(at.harm))]
        names = at.names or tuple(f"layer {i}" for i in range(LAYERS))
        errors, plain = at.weight_errors or [math.nan] * LAYERS, at.plain if at.names else math.nan
        wrong = {"float32": plain} | dict.fromkeys((EVERYWHERE, ENDS, TABLE, YOURS), math.nan) | dict(at.wrong)
        unit = "millibits of loss"
        return figures.layer_sensitivity(names, harm, errors, at.wide, unit=unit, wrong=wrong, title=at.message)

    def remark(got: Sequence[Trial]) -> Sequence[str]:
        return [got[-1].problem] if got and got[-1].problem else []

    name = f"Try layers with {getattr(choose, '__name__', 'your choice')}"
    run = partial(layer_trial, choose, steps, seed)
    return widgets.LiveRun(run, draw, total=steps + LAYERS + CHOICES, name=name, start=start, remark=remark)
