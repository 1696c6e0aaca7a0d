"""Gradients of many learners that are computed when they are read: together they need no memory but one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any

import numpy as np

BLOCK_BYTES = 2**21  # gradients computed together: they are still in the cache when they are read


class ComputedGradients(Sequence[np.ndarray]):
    """The gradients of a layer, one for each learner, computed a block of learners at a time.

    An array that is read stays valid until one of another block is read. So it must not be kept.

    Args:
        compute: a function of the first learner and the one behind the last; returns float32 [learners, *shape] in
            memory that the next call may overwrite.
        learners: how many there are.
        shape: of one gradient.

    >>> blocks = []
    >>> def compute(first, last):
    ...     blocks.append((first, last))
    ...     return np.arange(first, last, dtype=np.float32)[:, None] * np.ones(2**18, np.float32)
    >>> gradients = ComputedGradients(compute, 5, (2**18,))
    >>> [float(gradient[0]) for gradient in gradients], blocks
    ([0.0, 1.0, 2.0, 3.0, 4.0], [(0, 2), (2, 4), (4, 5)])
    """

    def __init__(self, compute: Callable[[int, int], np.ndarray], learners: int, shape: Sequence[int]) -> None:
        self.compute, self.learners, self.shape = compute, learners, tuple(shape)
        self.per_block = learners_in_block(self.shape)
        self._ranks, self._block = range(0), np.zeros(0, np.float32)

    def __len__(self) -> int:
        return self.learners

    def __getitem__(self, rank: Any) -> Any:
        rank = range(self.learners)[index(rank)]
        if rank not in self._ranks:
            # In case that the computation fails, no block is there.
            self._ranks = range(0)
            ranks = self.block_of(rank)
            self._block = self.compute(ranks.start, ranks.stop)
            self._ranks = ranks
        return self._block[rank - self._ranks.start]

    def block_of(self, rank: int) -> range:
        """The learners whose gradients are computed together with that of ``rank``.

        >>> ComputedGradients(lambda first, last: np.zeros((last - first, 2**18)), 5, (2**18,)).block_of(3)
        range(2, 4)
        """
        first = rank - rank % self.per_block
        return range(first, min(first + self.per_block, self.learners))

    def arrays(self) -> np.ndarray:
        """All gradients in memory of their own: float32 [learners, *shape]."""
        return np.stack([gradient.copy() for gradient in self])


def fit_a_block(nbytes: int) -> bool:
    """Whether the gradients of all learners are small enough to be dealt with together.

    >>> fit_a_block(64 * 4 * 128), fit_a_block(64 * 4 * 128 * 784)
    (True, False)
    """
    return nbytes <= BLOCK_BYTES


def learners_in_block(shape: Sequence[int]) -> int:
    """How many gradients of this shape are computed together, 1 or more.

    >>> learners_in_block((128, 784)), learners_in_block((4096, 4096))
    (5, 1)
    """
    return max(BLOCK_BYTES // (4 * int(np.prod(shape, dtype=np.int64)) or 1), 1)
