"""PowerSGD: two thin factors instead of a matrix (Vogels, Karimireddy, Jaggi, NeurIPS 2019, arXiv 1905.13727)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lplab.compression.dense import Dense
from lplab.compression.layer import LayerInfo
from lplab.compression.protocol import Compressor, Context, Steps, Sum, Transfer, checked, size_of
from lplab.compression.state import LayerState


@dataclass(frozen=True)
class PowerSGD(Compressor):
    """One step of power iteration: P = M·Q, summed, made orthonormal; Q = Mᵀ·P, summed; the average is P·Qᵀ.

    M is the gradient plus the residue, first dimension × rest; Q starts where it ended in the step before. The
    residue is what this learner's own factors miss, M − P·(Mᵀ·P)ᵀ, so that average and residues together lose
    nothing. Vectors go dense.

    Args:
        rank: columns of the factors.
        warm_start: whether Q is kept; else it is drawn anew, the same on all learners. So are columns of Q that a
            matrix of low rank has left empty.
        error_feedback: whether what is missed is added to the next gradient.

    Raises:
        ValueError: a rank below 1.

    >>> PowerSGD(rank=2).plan((100, 50))
    (Transfer(kind='sum', payload_bytes=800), Transfer(kind='sum', payload_bytes=400))
    """

    rank: int = 1
    warm_start: bool = True
    error_feedback: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise ValueError(f"rank must be 1 or more, got {self.rank}")

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """Dense for vectors and where two factors would be no smaller than the matrix."""
        rows, columns = layer.shape[0] if layer.shape else 1, layer.numel // (layer.shape[0] if layer.shape else 1)
        return Dense() if len(layer.shape) < 2 or self.rank * (rows + columns) >= layer.numel else self

    def init(self, shape: Sequence[int]) -> LayerState:
        """A residue of zeros, and a start for Q that all learners share."""
        rows, columns = _matrix(shape)
        q = np.random.default_rng(size_of(shape)).standard_normal((columns, self._rank(shape)))
        return LayerState(shape, residue=np.zeros(rows * columns, np.float32), q=q.astype(np.float32))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Two sums."""
        shape, rank = _matrix(gradient.shape), self._rank(gradient.shape)
        matrix = (checked(gradient, state) + state["residue"]).reshape(shape)
        q = _with_every_column(state["q"] if self.warm_start else np.zeros((shape[1], rank), np.float32), context)
        p = yield Sum((matrix @ q).reshape(-1))
        p = orthonormal(p.reshape(shape[0], rank))
        own = matrix.T @ p
        total = yield Sum(own.reshape(-1))
        mean = (total / np.float32(context.world)).reshape(shape[1], rank)
        left = (matrix - p @ own.T).reshape(-1) if self.error_feedback else state["residue"]
        state.propose(residue=left, q=mean)
        return (p @ mean.T).reshape(gradient.shape)

    def _rank(self, shape: Sequence[int]) -> int:
        return min(self.rank, *_matrix(shape))

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """The two factors, float32."""
        rows, columns = _matrix(shape)
        return (
            Transfer("sum", 4 * rows * self._rank(shape)),
            Transfer("sum", 4 * columns * self._rank(shape)),
        )


def orthonormal(p: np.ndarray) -> np.ndarray:
    """Columns made orthonormal by Gram and Schmidt, float64 inside; a column that depends on those before becomes zero.

    >>> orthonormal(np.array([[3, 3], [4, 4]], np.float32)).round(6).tolist()
    [[0.6000000238418579, 0.0], [0.800000011920929, 0.0]]
    """
    work = p.astype(np.float64)
    for j in range(work.shape[1]):
        column = work[:, j]
        before = np.sqrt(column @ column)
        column -= work[:, :j] @ (work[:, :j].T @ column)
        norm = np.sqrt(column @ column)
        column[:] = column / norm if norm > 1e-6 * before else 0
    return work.astype(np.float32)


def _with_every_column(q: np.ndarray, context: Context) -> np.ndarray:
    """Q with random columns in place of zeros, the same on all learners.

    A step whose matrix has too low a rank, as of a gradient that is zero, leaves columns of zeros; from them no later
    step would ever come back.
    """
    missing = ~q.any(axis=0)
    if not missing.any():
        return q
    drawn = context.shared_coin().standard_normal((len(q), np.count_nonzero(missing)), np.float32)
    q = q.copy()
    q[:, missing] = drawn
    return q


def _matrix(shape: Sequence[int]) -> tuple[int, int]:
    rows = shape[0] if len(shape) > 1 else 1
    return rows, size_of(shape) // rows
