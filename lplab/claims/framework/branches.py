"""Branches: recipes that continue from one float32 checkpoint, with the same batches and random numbers, in pairs.

Short trainings from scratch hide a recipe behind the seeds: weights and batches of another seed move the loss by more
than a format does. So float32 trains once for each seed, and every recipe continues from there, as in NVIDIA's ablation
of NVFP4 (arXiv 2509.25149, recalled). Recipe and float32 are then compared seed by seed (:func:`surely_above`).
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.framework.portable import instructions
from lplab.claims.framework.results import CheckResult
from lplab.claims.framework.trainings import TrainingResult, cosine, one_thread, run_steps

if TYPE_CHECKING:
    from torch import nn

    from lplab.claims.framework.results import Point, Results
    from lplab.training import Recipe, Recorder, Trainer
    from lplab.training.loop.tasks import Task

FLOAT32 = "float32"  # the name of the branch that all others are compared with
LAST_SHARE = 0.5  # the training loss of a branch is the mean over this share of its steps, the last ones
# The one-sided 5 % points of Student's t with pairs − 1 degrees of freedom, for 2 to 10 pairs (any table of it).
STUDENT_5_PERCENT = {2: 6.314, 3: 2.920, 4: 2.353, 5: 2.132, 6: 2.015, 7: 1.943, 8: 1.895, 9: 1.860, 10: 1.833}
SEEDS = 1_000_000  # that a task may have: the random bits of another draw are those of a seed above them
_LAYOUT = 2  # of a checkpoint: of its file and of the arithmetic that trains it; part of the name


@dataclass(frozen=True)
class BranchPlan:
    """How far float32 trains before the branches, and how long a branch is.

    Args:
        before: steps in float32, at the task's own constant learning rate.
        steps: of each branch; its learning rate begins at the task's own and falls to zero along a cosine.
    """

    before: int = 500
    steps: int = 100


def branch(
    task: Task,
    recipe: str | Recipe,
    seed: int,
    plan: BranchPlan,
    *,
    draw: int = 0,
    recorder: Recorder | None = None,
    folder: str | Path | None = None,
) -> TrainingResult:
    """One branch: weights, the optimizer's state and random numbers of the float32 checkpoint, then a recipe.

    Every branch of a seed sees the same batches in the same order, and the same dropout. What a recipe stores in few
    bits (weights without a master copy) is rounded at once.

    Args:
        task: a task of :mod:`~lplab.training.loop.tasks`, or one made of it.
        recipe: a recipe or its name. If it switches at some step, the float32 steps count.
        seed: of weights, batches and random bits.
        plan: the lengths.
        draw: of the random bits of stochastic rounding. Another number gives other bits and the same batches, so that
            two branches of one recipe show what chance alone does.
        recorder: of the branch.
        folder: where checkpoints are kept; by default :func:`checkpoint_folder`.

    Returns:
        The branch alone: the losses of its own steps. ``train_loss`` of its numbers is the mean of their last half.

    Raises:
        ValueError: an unknown recipe; a checkpoint that cannot be read or written.

    >>> import tempfile
    >>> from lplab.training import tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = branch(tasks.get("mlp"), "fp8_2018", 0, BranchPlan(before=4, steps=3), folder=folder)
    >>> done.trainer.step, len(done.losses)
    (7, 3)
    """
    trainer = branch_trainer(task, recipe, seed, plan, draw=draw, recorder=recorder, folder=folder)
    losses, reason = run_steps(trainer, plan.steps)
    return TrainingResult(task, trainer, losses, reason, LAST_SHARE)


def branch_trainer(
    task: Task,
    recipe: str | Recipe,
    seed: int,
    plan: BranchPlan,
    *,
    draw: int = 0,
    recorder: Recorder | None = None,
    folder: str | Path | None = None,
) -> Trainer:
    """The trainer of a branch before its first step, for who watches the branch step by step; as :func:`branch`.

    >>> import tempfile
    >>> from lplab.training import tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trainer = branch_trainer(tasks.get("mlp"), "fp8_2018", 0, BranchPlan(before=4, steps=3), folder=folder)
    >>> trainer.step
    4
    """
    saved = checkpoint(task, seed, plan.before, folder)

    def model_of_checkpoint(_: int) -> nn.Module:
        model = task.model(seed)
        model.load_state_dict(saved["model"])
        return model

    def same_batches(batch: int, _: int) -> Any:
        return task.data(batch, seed)

    falling = cosine(plan.steps)
    with one_thread():
        branched = replace(task, model=model_of_checkpoint, data=same_batches)
        trainer = branched.trainer(recipe, seed + SEEDS * draw, recorder=recorder)
        trainer.schedule = lambda number: falling(number - plan.before)
        trainer.total_steps = plan.before + plan.steps  # for a recipe that switches after a share of them
        parameters = dict(trainer.model.named_parameters())
        for name, state in saved["optimizer"].items():
            trainer.optimizer.state[parameters[name]] = state
        trainer.load_state_dict(trainer.state_dict() | saved["progress"])
    return trainer


def branches(
    task: Task,
    recipes: Mapping[str, str | Recipe],
    seeds: Sequence[int],
    plan: BranchPlan,
    *,
    folder: str | Path | None = None,
) -> Branches:
    """All branches of a comparison: each recipe on each seed, and float32 beside them.

    Args:
        task: as for :func:`branch`.
        recipes: recipes or their names, by the name that the figure uses; "float32" is added.
        seeds: one checkpoint each.
        plan, folder: as for :func:`branch`.

    Raises:
        ValueError: no recipe or no seed; a recipe of its own is called "float32".

    >>> import tempfile
    >>> from lplab.training import tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = branches(tasks.get("mlp"), {"FP8": "fp8_2018"}, (0, 1), BranchPlan(4, 3), folder=folder)
    >>> list(made.losses), made.losses["FP8"].shape, made.differences("FP8").shape
    (['float32', 'FP8'], (2, 3), (2,))
    """
    if not recipes or not seeds:
        raise ValueError("branches need at least one recipe and one seed")
    if FLOAT32 in recipes:
        raise ValueError(f"{FLOAT32!r} is the branch that others are compared with; give the recipe another name")
    losses, numbers = {}, {}
    for name, recipe in {FLOAT32: "fp32", **recipes}.items():
        done = [branch(task, recipe, seed, plan, folder=folder) for seed in seeds]
        curves = np.full((len(seeds), plan.steps), np.nan)
        for curve, result in zip(curves, done, strict=True):
            curve[: len(result.losses)] = np.array(result.losses) / np.log(2)
        losses[name] = curves
        numbers[name] = [result.numbers() for result in done]
    return Branches(plan, tuple(seeds), losses, numbers)


@dataclass(frozen=True, eq=False)
class Branches:
    """The branches of a comparison.

    Attributes:
        plan: the lengths.
        seeds: in the order of the rows.
        losses: by name, the training loss of each step in bits, float64 [seeds, steps]; NaN after a divergence.
        numbers: by name, those of :meth:`TrainingResult.numbers`, one dictionary a seed.
    """

    plan: BranchPlan
    seeds: tuple[int, ...]
    losses: dict[str, np.ndarray]
    numbers: dict[str, list[dict[str, float]]]

    def differences(self, name: str, number: str = "loss", baseline: str = FLOAT32) -> np.ndarray:
        """A number of a branch minus that of the baseline, seed by seed: float64 [seeds].

        Raises:
            ValueError: a name that is not there.
        """
        for asked in (name, baseline):
            if asked not in self.numbers:
                raise ValueError(f"there is no branch {asked!r}; there are {', '.join(self.numbers)}")
        pairs = zip(self.numbers[name], self.numbers[baseline], strict=True)
        return np.array([ours[number] - theirs[number] for ours, theirs in pairs])


# ---- the checkpoint --------------------------------------------------------------------------------------------------


def checkpoint_folder() -> Path:
    """Where checkpoints of float32 are kept: LPLAB_CHECKPOINTS, or a folder among the user's caches."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lplab" / "checkpoints"
    return Path(os.environ.get("LPLAB_CHECKPOINTS") or default)


def checkpoint(task: Task, seed: int, steps: int, folder: str | Path | None = None) -> dict[str, Any]:
    """The float32 training of a task after some steps: read where it is kept, else trained and kept.

    The name of the file holds what the training depends on, so that another task, another length or another version of
    PyTorch never gets it. A checkpoint can be deleted at any time: training again gives the same bits.

    Returns:
        ``model``: the state of the plain model. ``optimizer``: the state of each parameter by its name. ``progress``:
        what a :class:`~lplab.training.Trainer` needs to go on (step, random numbers, first loss).

    Raises:
        ValueError: the file cannot be read, or the folder not be written; the float32 training diverged.
    """
    import torch

    for _ in checkpoint_steps(task, seed, steps, folder):
        pass
    path = _path_of(task, seed, steps, folder)
    # What was just trained is read back, too: a branch from a kept checkpoint and one from a new one start alike.
    try:
        return dict(torch.load(path, weights_only=True, map_location="cpu"))
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} is no checkpoint ({reason}); delete it to train anew") from None


def checkpoint_steps(task: Task, seed: int, steps: int, folder: str | Path | None = None) -> Iterator[float]:
    """Train a checkpoint that is not kept yet, and keep it: yields the loss of each step, in nats.

    Where it is kept there is nothing to do, and nothing is yielded. A training that is not followed to its end keeps
    nothing.

    Raises:
        ValueError: as :func:`checkpoint`.

    >>> import tempfile
    >>> from lplab.training import tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [len(list(checkpoint_steps(tasks.get("mlp"), 0, 4, folder))) for _ in range(2)]
    [4, 0]
    """
    from lplab.training.loop.trainer import write_checkpoint

    path = _path_of(task, seed, steps, folder)
    if path.is_file():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        state = yield from _train_float32(task, seed, steps)
        # The part is the process's own: two that train the same checkpoint at once do not disturb each other.
        part = path.with_name(f"{path.stem}-{os.getpid()}.pt")
        write_checkpoint(state, part).replace(path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}; set LPLAB_CHECKPOINTS to a folder") from None


def _train_float32(task: Task, seed: int, steps: int) -> Generator[float, None, dict[str, Any]]:
    from lplab.training import DivergedError, dequantize_model

    with one_thread():
        trainer = task.trainer("fp32", seed)
        try:
            for step in trainer.steps(steps):
                yield step.loss
        except DivergedError as error:
            raise ValueError(f"{task.name} diverges in float32, so that nothing can branch from it: {error}") from None
    state = trainer.state_dict()
    return {
        "model": dequantize_model(trainer.model).state_dict(),
        "optimizer": {name: dict(trainer.optimizer.state[p]) for name, p in trainer.model.named_parameters()},
        "progress": {name: state[name] for name in ("random", "step", "first_loss")},
    }


def _path_of(task: Task, seed: int, steps: int, folder: str | Path | None) -> Path:
    """The file of a checkpoint; its name has a digest of the first weights, first and last batch, and settings."""
    import torch

    data = task.data(task.batch, seed)
    tensors = [*task.model(seed).state_dict().values(), *data(0), *data(max(steps - 1, 0))]
    settings = (
        _LAYOUT,
        torch.__version__,
        instructions(),
        task.optimizer,
        task.lr,
        task.options,
        task.batch,
        seed,
        steps,
    )
    digest = hashlib.sha256(repr(settings).encode())
    for tensor in tensors:
        digest.update(tensor.numpy().tobytes())
    return Path(folder or checkpoint_folder()) / f"{task.name}-{steps}-{seed}-{digest.hexdigest()[:16]}.pt"


# ---- paired comparisons ----------------------------------------------------------------------------------------------


def surely_above(differences: np.ndarray, bound: float = 0.0) -> bool:
    """Whether paired differences are above a bound: each of them is, and so is their mean by Student's test at 5 %.

    Args:
        differences: of each seed, [2 to 10].
        bound: in the same unit.

    Raises:
        ValueError: fewer than two or more than ten pairs.

    >>> surely_above(np.array([0.012, 0.013, 0.010])), surely_above(np.array([0.001, 0.030, 0.002]))
    (True, False)
    """
    count = len(differences)
    if count not in STUDENT_5_PERCENT:
        raise ValueError(f"two to ten pairs are needed, got {count}")
    standard_error = float(np.std(differences, ddof=1)) / np.sqrt(count)
    margin = STUDENT_5_PERCENT[count] * standard_error
    return bool(differences.min() > bound and float(np.mean(differences)) - margin > bound)


def surely_within(differences: np.ndarray, bound: float) -> bool:
    """Whether paired differences are surely below a bound (:func:`surely_above` turned around): noise does not help.

    >>> surely_within(np.array([0.003, 0.004, 0.003]), 0.028), surely_within(np.array([-0.05, 0.05, 0.0]), 0.028)
    (True, False)
    """
    return surely_above(-differences, -bound)


def worse_in_pairs(train: np.ndarray, test: np.ndarray) -> bool:
    """When a branch is worse than another: surely so in the training loss, and on every seed in the test loss.

    The training loss decides, as it is the mean over most text or pictures; the test loss must agree in its sign.

    Args:
        train, test: differences of the two losses, one a seed, [2 to 10].

    >>> worse_in_pairs(np.array([0.009, 0.008, 0.009]), np.array([0.010, 0.002, 0.004]))
    True
    """
    return surely_above(train) and bool(test.min() > 0)


@dataclass(frozen=True)
class PairedCondition:
    """What paired differences must do, with the three answers that they can give: yes, no, and not sure.

    Attributes:
        differences: of each seed, [2 to 10].
        bound: which they must be above.
        sure: whether the mean must be above by Student's test, too (:func:`surely_above`).
    """

    differences: np.ndarray
    bound: float = 0.0
    sure: bool = True

    @property
    def agree(self) -> bool:
        """Whether every difference is above the bound."""
        return bool(self.differences.min() > self.bound)

    @property
    def holds(self) -> bool:
        """Whether the condition is met."""
        return surely_above(self.differences, self.bound) if self.sure else self.agree

    @property
    def refuted(self) -> bool:
        """Whether its opposite is, as surely."""
        return surely_within(self.differences, self.bound) if self.sure else bool(self.differences.max() <= self.bound)


def above(differences: np.ndarray, bound: float = 0.0) -> PairedCondition:
    """The condition of :func:`surely_above`."""
    return PairedCondition(differences, bound)


def within(differences: np.ndarray, bound: float) -> PairedCondition:
    """The condition of :func:`surely_within`."""
    return PairedCondition(-differences, -bound)


def worse(train: np.ndarray, test: np.ndarray) -> tuple[PairedCondition, PairedCondition]:
    """The two conditions of :func:`worse_in_pairs`."""
    return PairedCondition(train), PairedCondition(test, sure=False)


def paired_result(sentence: str, *conditions: PairedCondition) -> CheckResult:
    """What some conditions together say: they hold if each does, and are undecided if none is refuted.

    A reader who sees that all pairs agree, and that the check does not hold, is told why.

    >>> paired_result("Worse by 0.6 bits.", above(np.array([0.97, 0.46, 0.30])))  # doctest: +NORMALIZE_WHITESPACE
    CheckResult(holds=False, sentence='Worse by 0.6 bits. Every pair says so, but these 3 differ too much to be sure.',
        statement='', undecided=True)
    """
    holds = all(condition.holds for condition in conditions)
    undecided = not holds and not any(condition.refuted for condition in conditions)
    if undecided and all(condition.agree for condition in conditions):
        pairs = min(len(condition.differences) for condition in conditions if not condition.holds)
        sentence = f"{sentence} Every pair says so, but these {pairs} differ too much to be sure."
    return CheckResult(holds, sentence, undecided=undecided)


def paired_text(differences: np.ndarray, digits: int = 4) -> str:
    """Mean of paired differences and, in brackets, the smallest and the largest, with their signs.

    >>> paired_text(np.array([0.0036, 0.0040]))
    '+0.0038 (+0.0036 to +0.0040)'
    """
    mean, low, high = (f"{value:+.{digits}f}" for value in (differences.mean(), differences.min(), differences.max()))
    return f"{mean} ({low} to {high})".replace("-", "−")


def loss_gaps(results: Results, point: Point, other: Point) -> tuple[np.ndarray, np.ndarray]:
    """How far the losses of one branch lie above those of another, seed by seed, as :func:`worse_in_pairs` takes them.

    Args:
        results: of a claim whose measurements are branches.
        point, other: parameters that select one branch each.

    Returns:
        Differences of the training losses and of the test losses (bits), float64 [seeds] each.

    Raises:
        ValueError: as :meth:`~lplab.claims.framework.claim.Results.values`.

    >>> from lplab.claims.framework.results import Results
    >>> rows = [({"recipe": "float32"}, 0, {"train_loss": 2.0, "loss": 2.5})]
    >>> rows += [({"recipe": "fp4"}, 0, {"train_loss": 2.25, "loss": 3.0})]
    >>> loss_gaps(Results(rows), {"recipe": "fp4"}, {"recipe": "float32"})
    (array([0.25]), array([0.5]))
    """
    train, test = (
        results.values(number, **point) - results.values(number, **other) for number in ("train_loss", "loss")
    )
    return train, test


def loss_gaps_text(gaps: tuple[np.ndarray, np.ndarray]) -> str:
    """The two gaps of :func:`loss_gaps` in words.

    >>> loss_gaps_text((np.array([0.25]), np.array([0.5])))
    '+0.2500 (+0.2500 to +0.2500) bits in training, +0.5000 (+0.5000 to +0.5000) in the test'
    """
    return f"{paired_text(gaps[0])} bits in training, {paired_text(gaps[1])} in the test"
