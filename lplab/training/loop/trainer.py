"""The trainer: trains a model under a recipe, step by step; a training can be recorded, stopped, saved and resumed.

This module needs PyTorch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lplab.checks import check_int
from lplab.quantizers import ConstantLossScale, DynamicLossScale
from lplab.training.emulation.conversion import emulations, quantize_model, switch_recipe
from lplab.training.emulation.model_state import preserve_random_state
from lplab.training.loop.batches import LoaderAdapter
from lplab.training.loop.checkpoint_signature import check_signature, checkpoint_signature
from lplab.training.loop.diagnosis import DivergedError, diagnose
from lplab.training.loop.optimizers import make_optimizer
from lplab.training.loop.recorder import Recorder
from lplab.training.loop.train_eval_mode import ensure_train_mode, eval_mode
from lplab.training.recipe import recipes
from lplab.training.recipe.recipe import Recipe

MAX_SKIPPED_STEPS = 30  # steps in a row that a dynamic loss scale may leave out before the training counts as diverged


@dataclass(frozen=True)
class Step:
    """The result of a training step.

    Attributes:
        number: counted from 0.
        loss: of the batch, before the update.
        loss_scale: what the loss was multiplied with.
        skipped: whether the update was left out, because a gradient was not finite.
        seconds: how long the step took.
    """

    number: int
    loss: float
    loss_scale: float
    skipped: bool
    seconds: float


def default_loss(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy in nats for integer targets [...] and outputs [..., classes]; else the mean squared error.

    Raises:
        ValueError: float targets of another shape: broadcasting would compare each with all others.

    >>> default_loss(torch.zeros(2, 4, 8), torch.zeros(2, 4, dtype=torch.long)).item()
    2.07944...
    """
    if target.is_floating_point():
        if output.shape != target.shape:
            raise ValueError(f"targets {list(target.shape)} must have the shape of outputs {list(output.shape)}")
        return functional.mse_loss(output, target)
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


def default_error(output: Tensor, target: Tensor) -> float | None:
    """The share of wrong answers, 0 to 1, for integer targets; None for others, of which none is right or wrong.

    >>> default_error(torch.eye(4), torch.tensor([0, 1, 2, 0])), default_error(torch.zeros(2), torch.zeros(2))
    (0.25, None)
    """
    return None if target.is_floating_point() else float((output.argmax(-1) != target).float().mean())


class Trainer:
    """Trains a model under a recipe.

    Args:
        model: a plain model, which is quantized in place; or a quantized one, whose recipe is used.
        data: a function that gives (inputs, targets) of a step's number, such as :class:`~lplab.training.Batches` and
            :class:`~lplab.training.SequenceBatches`; or any data that can be iterated over repeatedly, such as a
            ``DataLoader``.
        recipe: a recipe or its name; for a quantized model None.
        optimizer: "sgd", "adam" or "adamw", rounded by the recipe; or an optimizer of ``torch.optim``, whose
            arithmetic is not changed.
        lr, options: of the optimizer, as in ``momentum=0.9``.
        schedule: of the learning rate: a function from the step's number to a factor.
        loss: a function of (output, target); see :func:`default_loss`.
        error: a function of (output, target) that gives a share, 0 to 1, or None; see :func:`default_error`.
        clip_norm: gradients are scaled down to this norm.
        seed: of dropout, stochastic rounding and everything else that is random.
        recorder: a :class:`~lplab.training.Recorder`.
        diverged_above: the loss, in multiples of the first one, from which the training counts as diverged.
        total_steps: how long the training is, for a recipe that switches after a share of it. By default it ends with
            the steps of the first call of :meth:`steps` or :meth:`run`.

    Raises:
        ValueError: an unknown recipe or optimizer.

    >>> from lplab.training.loop.batches import Batches
    >>> data = Batches(torch.randn(64, 4), torch.arange(64) % 2, batch=16)
    >>> trainer = Trainer(nn.Linear(4, 2), data, "fp8_2018", lr=0.1)
    >>> [step.number for step in trainer.steps(3)], trainer.step
    ([0, 1, 2], 3)
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        recipe: str | Recipe | None = None,
        *,
        optimizer: Any = "sgd",
        lr: float = 0.05,
        schedule: Callable[[int], float] | None = None,
        loss: Callable[[Any, Any], Tensor] = default_loss,
        error: Callable[[Any, Any], float | None] = default_error,
        clip_norm: float | None = None,
        seed: int = 0,
        recorder: Recorder | None = None,
        diverged_above: float = 10.0,
        total_steps: int | None = None,
        **options: Any,
    ) -> None:
        self.model, self.recipe = _prepared(model, recipe, seed)
        self.seed = check_int("seed", seed, 0, 2**31 - 1)
        if isinstance(optimizer, str):
            optimizer = make_optimizer(self.model, self.recipe, optimizer, lr=lr, seed=seed, **options)
        elif options:
            raise ValueError(f"options are for an optimizer given by name, got {', '.join(sorted(options))}")
        self.optimizer, self.schedule, self.loss, self.error = optimizer, schedule, loss, error
        self.clip_norm, self.recorder = clip_norm, recorder
        self.diverged_above = diverged_above
        self.total_steps = None if total_steps is None else check_int("total_steps", total_steps, 1, 2**31 - 1)
        self.step = 0
        self.scaler = _scaler(self.recipe.loss_scale)
        self._skipped, self._first_loss = 0, math.nan
        self._learning_rates = [group["lr"] for group in optimizer.param_groups]
        self._random = torch.Generator().manual_seed(self.seed).get_state()
        self._batch = data if callable(data) else LoaderAdapter(data)

    # -- training ---------------------------------------------------------------------------------------------

    def steps(self, count: int) -> Iterator[Step]:
        """Train ``count`` steps and yield after each, so that the caller can draw, save or stop.

        Raises:
            DivergedError: the loss is not finite or far above where it began; or gradients are not finite in many steps
                in a row. The error names the tensor and layer; the weights are those before the step.
        """
        count = check_int("count", count, 0, 2**31 - 1)
        if self.total_steps is None and self.recipe.switch is not None:
            self.total_steps = self.step + count
        for _ in range(count):
            yield self.one_step()

    def run(self, count: int, progress: bool = True) -> list[Step]:
        """Train ``count`` steps under a progress bar; all of them in a list."""
        from tqdm.auto import tqdm

        done = []
        with tqdm(total=count, unit="step", disable=not progress) as bar:
            for step in self.steps(count):
                done.append(step)
                bar.set_postfix_str(f"loss {step.loss:.4f}", refresh=False)
                bar.update()
        return done

    def one_step(self) -> Step:
        """Forward, backward, update. A single layer in evaluation mode (a frozen one) stays in it."""
        start, number = time.perf_counter(), self.step
        self._switch(number)
        inputs, targets = self._batch(number)
        ensure_train_mode(self.model)
        watching = self.recorder.watching(self.model, number) if self.recorder else nullcontext()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.random.fork_rng(devices=[]), watching:
            torch.set_rng_state(self._random)
            scale, loss = self._gradients(inputs, targets)
            random = torch.get_rng_state()
        value = loss.item()
        self._check_loss(value, number, inputs, targets)
        finite = self._unscale(scale)
        skipped = not finite and isinstance(self.scaler, DynamicLossScale)
        if not finite and (not skipped or self._skipped + 1 >= MAX_SKIPPED_STEPS):
            raise DivergedError("gradients are not finite", self._diagnosis(number, inputs, targets))
        if isinstance(self.scaler, DynamicLossScale):
            self.scaler.update(finite)
        self._skipped = self._skipped + 1 if skipped else 0
        if not skipped:
            self._update(number)
        self._random, self.step = random, number + 1
        return Step(number, value, scale, skipped, time.perf_counter() - start)

    def _switch(self, number: int) -> None:
        """Put the model under the recipe of this step, where the recipe switches."""
        if self.recipe.switch is None:
            return
        is_later = number >= self.recipe.switch.step(self.total_steps)
        recipe = self.recipe.switch.to if is_later else self.recipe
        if emulations(self.model)[0].recipe is not recipe:
            switch_recipe(self.model, recipe)

    def _gradients(self, inputs: Any, targets: Any) -> tuple[float, Tensor]:
        loss = self.loss(self.model(inputs), targets)
        scale = float(targets.numel()) if self.scaler is None else self.scaler.scale
        (loss * scale if scale != 1 else loss).backward()
        return scale, loss.detach()

    def _check_loss(self, value: float, number: int, inputs: Any, targets: Any) -> None:
        if math.isnan(self._first_loss):
            self._first_loss = value
        if not math.isfinite(value):
            raise DivergedError(f"the loss is {value}", self._diagnosis(number, inputs, targets))
        if value > self.diverged_above * max(self._first_loss, 1e-3):
            message = f"the loss is {value:.3g}, {value / self._first_loss:.0f} times the first one"
            raise DivergedError(message, self._diagnosis(number, inputs, targets))

    def _diagnosis(self, number: int, inputs: Any, targets: Any) -> Any:
        def recompute() -> None:
            self.optimizer.zero_grad(set_to_none=True)
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(self._random)
                self._gradients(inputs, targets)

        return diagnose(self.model, number, recompute)

    def _unscale(self, scale: float) -> bool:
        """Divide the loss scale out; whether all gradients are finite."""
        gradients = [p.grad for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not gradients:
            raise ValueError("no parameter has a gradient: does the loss depend on the model?")
        if scale != 1:
            torch._foreach_div_(gradients, scale)
        finite = _all_finite(gradients)
        if finite and self.clip_norm is not None:
            nn.utils.clip_grad_norm_([p for g in self.optimizer.param_groups for p in g["params"]], self.clip_norm)
        return finite

    def _update(self, number: int) -> None:
        if self.schedule is not None:
            factor = self.schedule(number)
            for group, learning_rate in zip(self.optimizer.param_groups, self._learning_rates, strict=True):
                group["lr"] = learning_rate * factor
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self, inputs: Any, targets: Any) -> dict[str, float]:
        """Loss and, where the task has one, the error (0 to 1), in evaluation mode under the recipe."""
        with eval_mode(self.model), preserve_random_state(emulations(self.model)):
            output = self.model(inputs)
        result = {"loss": float(self.loss(output, targets))}
        error = self.error(output, targets)
        return result if error is None else {**result, "error": error}

    # -- checkpoints ------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that the following steps depend on, except for the data."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict() if isinstance(self.scaler, DynamicLossScale) else None,
            "random": self._random,
            "step": self.step,
            "skipped": self._skipped,
            "first_loss": self._first_loss,
            **({} if self.total_steps is None else {"total_steps": self.total_steps}),
            **checkpoint_signature(self.recipe, self.optimizer, self.seed),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from :meth:`state_dict`: bit for bit as without interruption.

        Raises:
            ValueError: the state is of another recipe, other switches of it, another optimizer or seed.
        """
        check_signature(state, checkpoint_signature(self.recipe, self.optimizer, self.seed))
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if isinstance(self.scaler, DynamicLossScale):
            self.scaler.load_state_dict(state["scaler"])
        self._random, self.step = state["random"], state["step"]
        self._skipped, self._first_loss = state["skipped"], state["first_loss"]
        self.total_steps = state.get("total_steps", self.total_steps)
        if self.recipe.switch is not None and self.step:
            self._switch(self.step - 1)  # the model is evaluated under the recipe of its last step

    def save(self, path: str | Path) -> Path:
        """Write a checkpoint, by way of a temporary file, so that an interruption leaves the old checkpoint."""
        return write_checkpoint(self.state_dict(), path)

    def load(self, path: str | Path) -> None:
        """Resume from a checkpoint; only tensors and plain values are read from the file."""
        self.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))


def write_checkpoint(state: dict[str, Any], path: str | Path) -> Path:
    """Write a checkpoint, by way of a temporary file, so that an interruption leaves the old checkpoint; its path.

    Args:
        state: tensors and plain values, as ``state_dict()`` gives them.
        path: of the file.
    """
    path = Path(path)
    temporary = path.with_name(path.name + ".part")
    torch.save(state, temporary)
    return temporary.replace(path)


def _all_finite(tensors: list[Tensor]) -> bool:
    """Whether there is no NaN and no infinity. Sums of squares are fast; if they overflow, magnitudes decide."""
    return any(math.isfinite(torch.stack(torch._foreach_norm(tensors, order)).max().item()) for order in (2, math.inf))


def _prepared(model: nn.Module, recipe: Any, seed: int) -> tuple[nn.Module, Recipe]:
    present = emulations(model) if isinstance(model, nn.Module) else []  # quantize_model checks the type
    if present and recipe is not None:
        raise ValueError("the model is already quantized; pass recipe=None to keep its recipe")
    if not present:
        recipe = recipes.get(recipe or "fp32") if recipe is None or isinstance(recipe, str) else recipe
        return quantize_model(model, recipe, seed=seed, inplace=True), recipe
    return model, present[0].recipe


def _scaler(scale: float | str) -> ConstantLossScale | DynamicLossScale | None:
    """None stands for the number of targets in a batch."""
    if scale == "batch":
        return None
    return DynamicLossScale() if scale == "dynamic" else ConstantLossScale(float(scale))
