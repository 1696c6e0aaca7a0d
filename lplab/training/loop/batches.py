"""Batches as a function of the step: they have no state, so a training can continue from any step, bit for bit.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.checks import check_int

Batch = tuple[Tensor, Tensor]


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))


@dataclass(eq=False)
class Batches:
    """Examples in batches, shuffled in every epoch; an incomplete last batch is left out.

    Args:
        inputs, targets: numpy arrays or tensors with an example in each row.
        batch: examples a batch.
        seed: of the order.

    Raises:
        ValueError: no two equally long arrays, or fewer examples than a batch.

    >>> data = Batches(np.arange(10.0), np.arange(10), batch=4)
    >>> data.per_epoch, len(data(0)[0]), torch.equal(data(3)[1], data(3)[1])
    (2, 4, True)
    """

    inputs: Any
    targets: Any
    batch: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        self.inputs, self.targets = _tensor(self.inputs), _tensor(self.targets)
        if len(self.inputs) != len(self.targets):
            raise ValueError(f"there are {len(self.inputs)} inputs and {len(self.targets)} targets")
        check_int("batch", self.batch, 1, max(len(self.inputs), 1))
        self._order: tuple[int, np.ndarray] | None = None

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch."""
        return len(self.inputs) // self.batch

    def __call__(self, step: int) -> Batch:
        """The batch of a step, counted from 0."""
        epoch, index = divmod(step, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng((self.seed, epoch)).permutation(len(self.inputs))
        rows = torch.from_numpy(self._order[1][index * self.batch : (index + 1) * self.batch])
        return self.inputs[rows], self.targets[rows]


@dataclass(eq=False)
class SequenceBatches:
    """Batches of windows of a long sequence of symbols; the target of each symbol is the next one.

    Args:
        ids: integers [length].
        length: symbols a window.
        batch: windows a batch, drawn for every step.
        seed: of the drawing.
        starts: where windows may begin; by default everywhere.

    Raises:
        ValueError: a window that would begin before the sequence or end behind it.

    >>> x, y = SequenceBatches(np.arange(100), length=8, batch=2)(0)
    >>> x.shape, bool((y == x + 1).all())
    (torch.Size([2, 8]), True)
    >>> SequenceBatches(np.arange(100), length=8, batch=3, starts=[20, 30])(0)[0][:, 0].tolist()
    [30, 30, 30]
    """

    ids: Any
    length: int = 64
    batch: int = 16
    seed: int = 0
    starts: Any = None

    def __post_init__(self) -> None:
        self.ids = _tensor(np.asarray(self.ids, np.int64))
        check_int("length", self.length, 1, max(len(self.ids) - 1, 1))
        check_int("batch", self.batch, 1, 2**20)
        if self.starts is not None:
            self.starts = np.asarray(self.starts, np.int64)
            last = len(self.ids) - self.length - 1
            if not self.starts.size or self.starts.min() < 0 or self.starts.max() > last:
                raise ValueError(
                    f"starts must name places from 0 to {last:,}, where a window has {self.length} targets"
                )

    def __call__(self, step: int) -> Batch:
        """The windows of a step."""
        rng, places = np.random.default_rng((self.seed, step)), self.starts
        count = len(self.ids) - self.length if places is None else len(places)
        starts = rng.integers(0, count, self.batch)
        starts = starts if places is None else places[starts]
        positions = torch.from_numpy(starts)[:, None] + torch.arange(self.length + 1)
        windows = self.ids[positions]
        return windows[:, :-1], windows[:, 1:]


class LoaderAdapter:
    """Batches by the number of the step, of any data that can be iterated over repeatedly.

    Args:
        data: such as a ``DataLoader``. It has no random access: to continue from a later step, batches are skipped. Two
            trainings are equal only if two iterations over the data are.

    >>> batches = LoaderAdapter([(1, 2), (3, 4)])
    >>> batches(0), batches(3), batches(4)
    ((1, 2), (3, 4), (1, 2))
    """

    def __init__(self, data: Any) -> None:
        self.data = data
        self._next = 0
        self._iterator: Iterator[Any] = self._endless()

    def __call__(self, step: int) -> Any:
        """The batch of a step."""
        if step < self._next:
            self._next, self._iterator = 0, self._endless()
        while True:
            batch = next(self._iterator)
            self._next += 1
            if self._next > step:
                return batch

    def _endless(self) -> Iterator[Any]:
        while True:
            empty = True
            for batch in self.data:
                empty = False
                yield batch
            if empty:
                raise ValueError("the data are empty")
