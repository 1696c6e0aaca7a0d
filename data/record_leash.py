"""Let four learners with two weights walk over the loss of a linear model, and record their paths.

    python data/record_leash.py            (needs PyTorch; ten seconds on one core)

writes data/leash/paths.npz: a model guesses a pixel of a digit from two others. Each learner has digits of its own. It
takes 32 steps of SGD, in rounds of 1 to 32 steps, with an outer Nesterov momentum of 0 to 0.9.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from lplab.parallel import LocalSteps
from lplab.widgets.mechanisms import leash

FILE = Path(__file__).parent / "leash" / "paths.npz"
BATCH, RATE = 8, 0.05
SHARDS = ((0, 1), (2, 3, 4), (5, 6, 7), (8, 9))  # the digits that each learner has


def batches(step: int, learner: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The inputs and targets of a learner's step."""
    inputs, targets, labels = leash.pixels()
    own = np.flatnonzero(np.isin(labels, SHARDS[learner]))
    rows = np.random.default_rng([step, learner]).choice(own, BATCH)
    return torch.from_numpy(inputs[rows]), torch.from_numpy(targets[rows])


class Trail:
    """Keeps the weights after each inner step, in the place of a schedule."""

    def __init__(self, kept: list[np.ndarray], optimizer: torch.optim.Optimizer) -> None:
        self.kept, self.weights = kept, optimizer.param_groups[0]["params"][0]

    def step(self) -> None:
        """Keep them."""
        self.kept.append(self.weights.detach().numpy()[0].copy())


def run(every: int, momentum: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Weights of each learner after each step [4, 32, 2]; the shared ones after 0 to 32 steps [33, 2]; bytes."""
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([leash.START]))
    kept: list[np.ndarray] = []
    learners = len(SHARDS)
    training = LocalSteps(
        model,
        batches,
        learners=learners,
        every=every,
        inner=partial(torch.optim.SGD, lr=RATE),
        outer=partial(torch.optim.SGD, lr=leash.OUTER_RATE, momentum=momentum, nesterov=momentum > 0),
        schedule=partial(Trail, kept),
        loss=nn.functional.mse_loss,
    )
    shared = [np.float32(leash.START)] * every
    for _ in training.rounds(leash.STEPS // every):
        shared += [model.weight.detach().numpy()[0].copy()] * every
    paths = np.array(kept).reshape(-1, learners, every, 2).swapaxes(0, 1).reshape(learners, leash.STEPS, 2)
    return paths, np.array(shared[: leash.STEPS + 1]), training.ledger.total(step=0, rank=0)


def record() -> dict[str, Any]:
    """The arrays of the file."""
    runs = [[run(every, momentum) for momentum in leash.MOMENTA] for every in leash.EVERY]
    paths, shared, sizes = (np.array([[each[part] for each in row] for row in runs]) for part in range(3))
    return {"learners": np.float32(paths), "shared": np.float32(shared), "message_bytes": np.int64(sizes.max())}


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **record())
    print(f"{FILE}: {FILE.stat().st_size / 1e3:.0f} kB")
