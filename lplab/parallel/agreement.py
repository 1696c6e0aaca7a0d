"""How much learners agree while they train: the elements they select, their union, the similarity of residuals.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from torch import Tensor

from lplab.checks import check_int
from lplab.compression import Compressor, ScaleCom, TopK, TrafficLog
from lplab.compression.module_layers import trainable_parameters
from lplab.compression.scalecom import largest_per_chunk
from lplab.compression.sparse import selected_count, top_k_indices
from lplab.parallel.learner_gradients import LearnerGradients
from lplab.parallel.learners import Learners


@dataclass(frozen=True)
class Agreement:
    """One step, over all layers that are compressed.

    Attributes:
        union: fraction of the elements that at least one learner sends.
        density: fraction that one learner sends.
        cosine: mean cosine distance of the learners' residuals before the step, over all pairs; NaN while all are zero.
        hamming_distance: d/k between the leader's selection and that from the sum of all learners, two sets of k
            elements: the fraction of the leader's selection that is not in the other.

    >>> Agreement(union=0.04, density=0.01, cosine=0.3, hamming_distance=0.5).growth
    4.0
    """

    union: float
    density: float
    cosine: float
    hamming_distance: float

    @property
    def growth(self) -> float:
        """Elements in the union over elements that one learner sends."""
        return self.union / self.density


class InstrumentedLearners(Learners):
    """:class:`Learners` that measure their agreement. Arguments as there; TopK or ScaleCom only.

    Args:
        every: measure before each step whose number (from 1) is a multiple of this.

    Attributes:
        agreements: one for each measured step, except steps skipped for a gradient that is not finite.

    Raises:
        ValueError: a compressor that does not select elements, or compresses no layer; ``every`` below 1.

    >>> import torch
    >>> from lplab.parallel.learners import shards
    >>> x, y = torch.randn(64, 400), torch.randint(0, 10, (64,))
    >>> batches = shards(lambda step: (x, y), learners=8)
    >>> model, loss = torch.nn.Linear(400, 10), torch.nn.CrossEntropyLoss()
    >>> run = InstrumentedLearners(model, loss, batches, TopK(0.01), learners=8)
    >>> _ = run.one_step()
    >>> run.agreements[0].density, 0.01 < run.agreements[0].union <= 0.08
    (0.01, True)
    """

    def __init__(self, *arguments: Any, every: int = 1, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.every = check_int("every", every, 1, 2**31 - 1)
        if not isinstance(self.compressor, TopK | ScaleCom):
            raise ValueError(f"only TopK and ScaleCom select elements, got {type(self.compressor).__name__}")
        if not any(self._is_sparse(name, p.ndim) for name, p in trainable_parameters(self.model).items()):
            raise ValueError(f"{self.compressor!r} compresses no matrix of this model: there is nothing to measure")
        self.agreements: list[Agreement] = []

    def _computes_when_read(self, name: str, nbytes: int) -> bool:
        # All gradients are measured before they are exchanged.
        return False

    def _exchange(self, results: LearnerGradients, ledger: TrafficLog) -> None:
        measured = [self._measure(results.gradients)] if (self.step + 1) % self.every == 0 else []
        super()._exchange(results, ledger)
        self.agreements += measured

    def _measure(self, gradients: dict[str, Tensor]) -> Agreement:
        """The agreement over all sparse layers, from the gradients of this step and the residuals before it."""
        residuals: list[np.ndarray] = []
        # Elements of the union, of one learner, and of the leader's that are not in the selection from the sum.
        union = sent = different = 0
        for name, gradient in gradients.items():
            if not self._is_sparse(name, gradient.ndim - 1):
                continue
            compressor = self.states[0].compressors[name]
            residuals.append(self.residuals(name))
            corrected = residuals[-1] + gradient.numpy().reshape(self.world, -1)
            sets = [selected_indices(compressor, row) for row in corrected]
            leaders = sets[self.step % self.world]
            best = selected_indices(compressor, corrected.sum(axis=0))
            union += union_size(sets if isinstance(compressor, TopK) else [leaders])
            sent += len(leaders)
            different += len(best) - np.intersect1d(leaders, best, assume_unique=True).size
        all_residuals = np.concatenate(residuals, axis=1)
        cosine = cosine_distance(all_residuals) if self.world > 1 else float("nan")
        numel = all_residuals.shape[1]
        return Agreement(union / numel, sent / numel, cosine, different / sent)

    def _is_sparse(self, name: str, dimensions: int) -> bool:
        """Whether elements of this layer are selected: not for biases and layers that are sent dense."""
        return dimensions > 1 and isinstance(self.states[0].compressors[name], TopK | ScaleCom)


def selected_indices(compressor: Compressor, values: np.ndarray) -> np.ndarray:
    """Indices of the elements that a compressor selects from residual plus gradient of one learner, ascending.

    Raises:
        ValueError: a compressor that does not select elements, or a ScaleCom without a chunk.

    >>> x = np.array([3, 1, -2, 0.5], np.float32)
    >>> selected_indices(TopK(0.5), x).tolist(), selected_indices(ScaleCom(chunk=3), x).tolist()
    ([0, 2], [0, 3])
    """
    if isinstance(compressor, TopK):
        return top_k_indices(values, selected_count(compressor.density, values.size))
    if isinstance(compressor, ScaleCom) and compressor.chunk is not None:
        return largest_per_chunk(values, compressor.chunk, compressor.m)
    raise ValueError(f"only TopK, and ScaleCom with a chunk, select elements, got {compressor!r}")


def union_size(sets: Sequence[np.ndarray]) -> int:
    """The number of elements in at least one of the sets.

    >>> union_size([np.array([1, 2]), np.array([2, 5])])
    3
    """
    return int(np.unique(np.concatenate(list(sets))).size)


def cosine_distance(residuals: np.ndarray) -> float:
    """1 − cosine, the mean over all pairs of learners; 0: parallel, 1: orthogonal, NaN: all zero.

    Args:
        residuals: [learners, numel], two learners or more.

    Raises:
        ValueError: fewer than two learners.

    >>> cosine_distance(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])).__round__(4)
    0.6667
    """
    _at_least_two(residuals)
    unit = residuals.astype(np.float64)
    norms = np.sqrt((unit**2).sum(axis=1))
    unit, n = unit[norms > 0] / norms[norms > 0, None], np.count_nonzero(norms)
    if n < 2:
        return float("nan")
    # The mean over pairs, from the sum of all.
    cosines = ((unit.sum(axis=0) ** 2).sum() - n) / (n * (n - 1))
    return float(1 - cosines)


def hamming_distance(values: np.ndarray, k: int) -> float:
    """The fraction of a learner's k largest elements that are not among another's, the mean over all pairs.

    Args:
        values: [learners, numel].
        k: number of elements that each would send.

    Raises:
        ValueError: fewer than two learners, or k not from 1 to numel.

    >>> hamming_distance(np.array([[3.0, 2.0, 1.0], [3.0, 0.0, 1.0]]), k=2)
    0.5
    """
    _at_least_two(values)
    if not 1 <= k <= values.shape[1]:
        raise ValueError(f"k must be from 1 to {values.shape[1]}, got {k}")
    sets = [top_k_indices(row, k) for row in values]
    missing = [k - np.intersect1d(a, b, assume_unique=True).size for a, b in combinations(sets, 2)]
    return float(np.mean(missing) / k)


def _at_least_two(values: np.ndarray) -> None:
    if values.ndim != 2 or len(values) < 2:
        raise ValueError(f"values must have shape [learners, numel] with two learners or more, got {values.shape}")
