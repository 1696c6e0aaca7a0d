"""The operands of the products of a trained network: what a layer gets, its weight, the gradient of its output."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.claims.framework.branches import checkpoint
from lplab.claims.framework.trainings import one_thread

if TYPE_CHECKING:
    from lplab.training.loop.tasks import Task


@dataclass(frozen=True, eq=False)
class Operands:
    """The operands of the three products of a linear layer, float32.

    Attributes:
        activation: x, the input of the layer: [tokens, inputs].
        weight: W: [outputs, inputs].
        gradient: dy, that of the mean loss with respect to the layer's output: [tokens, outputs].
    """

    activation: np.ndarray
    weight: np.ndarray
    gradient: np.ndarray

    def products(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Both operands of each product, the axis that it sums over last: y = x · Wᵀ, dx = dy · W, dW = dyᵀ · x.

        >>> x, w, dy = np.ones((5, 3)), np.ones((2, 3)), np.ones((5, 2))
        >>> {name: (a @ b.T).shape for name, (a, b) in Operands(x, w, dy).products().items()}
        {'y': (5, 2), 'dx': (5, 3), 'dW': (2, 3)}
        """
        x, w, dy = self.activation, self.weight, self.gradient
        pairs = {"y": (x, w), "dx": (dy, w.T), "dW": (dy.T, x.T)}
        return {name: (np.ascontiguousarray(a), np.ascontiguousarray(b)) for name, (a, b) in pairs.items()}


def operands(
    task: Task,
    seed: int,
    before: int,
    batches: int = 1,
    *,
    skip: tuple[str, ...] = (),
    folder: str | Path | None = None,
) -> dict[str, Operands]:
    """The operands of all linear layers at the float32 checkpoint of a task, by the name of the layer.

    Args:
        task: of :mod:`~lplab.training.loop.tasks`, or one made of it.
        seed: of the checkpoint.
        before: steps in float32.
        batches: how many batches, those that the training would see next, their tokens one after the other.
        skip: names of layers to leave out.
        folder: as for :func:`~lplab.claims.framework.branches.checkpoint`.

    >>> import tempfile
    >>> from lplab.training import tasks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     by_layer = operands(tasks.get("mlp"), 0, before=2, batches=3, folder=folder)
    >>> [(name, parts.activation.shape, parts.gradient.shape) for name, parts in by_layer.items()][-1]
    ('layers.2', (150, 128), (150, 10))
    """
    from torch import nn
    from torch.nn import functional

    model = task.model(seed)
    model.load_state_dict(checkpoint(task, seed, before, folder)["model"])
    layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear) and n not in skip}
    inputs: dict[str, list[Any]] = {name: [] for name in layers}
    gradients: dict[str, list[Any]] = {name: [] for name in layers}

    def keep(name: str) -> Any:
        def hook(module: Any, given: Any, output: Any) -> None:
            inputs[name].append(given[0].detach().flatten(0, -2).numpy())
            output.register_hook(lambda gradient: gradients[name].append(gradient.flatten(0, -2).numpy()))

        return hook

    handles = [layer.register_forward_hook(keep(name)) for name, layer in layers.items()]
    data = task.data(task.batch, seed)
    with one_thread():
        for number in range(before, before + batches):
            given, targets = data(number)
            functional.cross_entropy(model(given).flatten(0, -2), targets.flatten()).backward()
    for handle in handles:
        handle.remove()
    return {
        name: Operands(np.concatenate(inputs[name]), layer.weight.detach().numpy(), np.concatenate(gradients[name]))
        for name, layer in layers.items()
    }
