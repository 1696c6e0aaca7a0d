"""How much learners agree while they train: what they choose, how much of it in all, how alike their memories are.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from lplab.compression import Compressor, Ledger, ScaleCom, TopK
from lplab.compression.local import largest_of_chunks
from lplab.compression.sparse import chosen, largest
from lplab.formats.base import whole
from lplab.parallel.gradients import trained
from lplab.parallel.learners import Learners
from lplab.parallel.similarity import cosine_distance


@dataclass(frozen=True)
class Agreement:
    """One step, over all layers that are compressed.

    Attributes:
        union: share of the elements that at least one learner sends.
        density: share that one learner sends.
        cosine: mean cosine distance of the learners' memories before the step, pair by pair; NaN while they are empty.
        missed: of what the leader chooses, the share that the sum of all learners would not have chosen in the same
            way: the Hamming distance d/k of two sets of equal size.

    >>> Agreement(union=0.04, density=0.01, cosine=0.3, missed=0.5).growth
    4.0
    """

    union: float
    density: float
    cosine: float
    missed: float

    @property
    def growth(self) -> float:
        """How many times what one learner sends the sum of all holds."""
        return self.union / self.density


class WatchedLearners(Learners):
    """:class:`Learners` that are measured while they train. Arguments as there; TopK or ScaleCom only.

    Args:
        every: measure each so many-th step, before it is made; the first time after so many less one.

    Attributes:
        agreements: one for each step that was measured, unless a gradient was not finite.

    Raises:
        ValueError: a compressor that does not choose elements, or of no layer; ``every`` below 1.

    >>> import torch
    >>> from lplab.parallel.learners import shards
    >>> x, y = torch.randn(64, 400), torch.randint(0, 10, (64,))
    >>> batches = shards(lambda step: (x, y), learners=8)
    >>> run = WatchedLearners(torch.nn.Linear(400, 10), torch.nn.CrossEntropyLoss(), batches, TopK(0.01), learners=8)
    >>> _ = run.one_step()
    >>> run.agreements[0].density, 0.01 < run.agreements[0].union <= 0.08
    (0.01, True)
    """

    def __init__(self, *arguments: Any, every: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.every = whole("every", every, 1, 2**31 - 1)
        if not isinstance(self.compressor, TopK | ScaleCom):
            raise ValueError(f"only TopK and ScaleCom choose elements, got {type(self.compressor).__name__}")
        if not any(self._chooses(name, p.ndim) for name, p in trained(self.model).items()):
            raise ValueError(f"{self.compressor!r} compresses no matrix of this model: there is nothing to watch")
        self.agreements: list[Agreement] = []

    def _exchange(self, gradients: dict[str, Tensor], ledger: Ledger) -> None:
        seen = [self._look(gradients)] if (self.step + 1) % self.every == 0 else []
        super()._exchange(gradients, ledger)
        self.agreements += seen

    def _look(self, gradients: dict[str, Tensor]) -> Agreement:
        """Of the layers that hold chosen elements: which ones each learner would take, and whose are taken."""
        memories: list[np.ndarray] = []
        union = one = missed = 0  # elements that anybody sends, that one learner sends, and of those not the best
        for name, gradient in gradients.items():
            if not self._chooses(name, gradient.ndim - 1):
                continue
            compressor = self.memories[0].compressors[name]
            memories.append(self.residues(name))
            wanted = memories[-1] + gradient.numpy().reshape(self.world, -1)
            sets = [choice(compressor, row) for row in wanted]
            led = sets[self.step % self.world]
            best = choice(compressor, wanted.sum(axis=0))
            union += union_of(sets if isinstance(compressor, TopK) else [led])
            one += len(led)
            missed += len(best) - np.intersect1d(led, best, assume_unique=True).size
        memory = np.concatenate(memories, axis=1)
        cosine = cosine_distance(memory) if self.world > 1 else float("nan")
        return Agreement(union / memory.shape[1], one / memory.shape[1], cosine, missed / one)

    def _chooses(self, name: str, dimensions: int) -> bool:
        """Whether elements of this layer are chosen: not of biases, nor of layers that go dense."""
        return dimensions > 1 and isinstance(self.memories[0].compressors[name], TopK | ScaleCom)


def choice(compressor: Compressor, values: np.ndarray) -> np.ndarray:
    """Indices of the elements that a compressor would choose of one learner's memory and gradient, rising.

    Raises:
        ValueError: a compressor that does not choose elements, or a ScaleCom without a chunk.

    >>> x = np.array([3, 1, -2, 0.5], np.float32)
    >>> choice(TopK(0.5), x).tolist(), choice(ScaleCom(chunk=3), x).tolist()
    ([0, 2], [0, 3])
    """
    if isinstance(compressor, TopK):
        return largest(values, chosen(compressor.density, values.size))
    if isinstance(compressor, ScaleCom) and compressor.chunk is not None:
        return largest_of_chunks(values, compressor.chunk, compressor.m)
    raise ValueError(f"only TopK, and ScaleCom with a chunk, choose elements, got {compressor!r}")


def union_of(sets: Sequence[np.ndarray]) -> int:
    """How many elements are in at least one of the sets.

    >>> union_of([np.array([1, 2]), np.array([2, 5])])
    3
    """
    return int(np.unique(np.concatenate(list(sets))).size)
