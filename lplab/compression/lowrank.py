"""PowerSGD: two low-rank factors instead of a matrix (Vogels, Karimireddy, Jaggi, NeurIPS 2019, arXiv 1905.13727)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lplab.compression import arrays
from lplab.compression.compressor import (
    AllReduce,
    Compressor,
    Context,
    Dense,
    Steps,
    Transfer,
    all_finite,
    corrected_gradient,
    divided,
    element_count,
)
from lplab.compression.layer_info import LayerInfo
from lplab.compression.layer_state import LayerState


@dataclass(frozen=True)
class PowerSGD(Compressor):
    """One step of power iteration: P = M·Q, summed, made orthonormal; Q = Mᵀ·P, summed; the average is P·Qᵀ.

    M is the gradient plus the residual, first dimension × all others; Q starts from its value in the step before. The
    residual is the error of this learner's own factors, M − P·(Mᵀ·P)ᵀ, so that average and residuals together are
    lossless. Vectors are sent dense.

    Args:
        rank: columns of the factors.
        warm_start: whether Q is kept; else it is drawn anew, the same on all learners. So are columns of Q that are
            zero after a matrix of lower rank.
        error_feedback: whether the residual is added to the next gradient.

    Raises:
        ValueError: a rank below 1.

    >>> PowerSGD(rank=2).plan((100, 50))
    (Transfer(kind='all_reduce', payload_bytes=800), Transfer(kind='all_reduce', payload_bytes=400))
    """

    takes_tensors: ClassVar[bool] = True

    rank: int = 1
    warm_start: bool = True
    error_feedback: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank < 1:
            raise ValueError(f"rank must be 1 or more, got {self.rank}")

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """Dense for vectors and where the two factors would not be smaller than the matrix."""
        rows, columns = layer.shape[0] if layer.shape else 1, layer.numel // (layer.shape[0] if layer.shape else 1)
        return Dense() if len(layer.shape) < 2 or self.rank * (rows + columns) >= layer.numel else self

    def init(self, shape: Sequence[int]) -> LayerState:
        """A residual of zeros, and an initial Q that all learners share."""
        rows, columns = _matrix(shape)
        q = np.random.default_rng(element_count(shape)).standard_normal((columns, self._rank(shape)))
        return LayerState(shape, residual=np.zeros(rows * columns, np.float32), q=q.astype(np.float32))

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-reduce for each of the two factors."""
        xp, shape, rank = arrays.of(gradient), _matrix(gradient.shape), self._rank(gradient.shape)
        matrix = corrected_gradient(gradient, state).reshape(shape)
        q = state["q"] if self.warm_start else xp.zeros(shape[1] * rank, gradient).reshape(shape[1], rank)
        q = _without_zero_columns(q, context)
        p = yield AllReduce(xp.product(matrix, q).reshape(-1))
        # p is as small as the message that brought it; the host's Gram-Schmidt has the same bits on all learners.
        p = xp.from_host(orthonormal(xp.host(p.reshape(shape[0], rank))), gradient)
        own = xp.product(matrix.T, p)
        residual = (matrix - xp.product(p, own.T)).reshape(-1) if self.error_feedback else state["residual"]
        if not all_finite(residual):
            # The sum then tells all learners.
            own[:] = np.nan
        total = yield AllReduce(own.reshape(-1))
        mean = divided(total, context.world).reshape(shape[1], rank)
        state.propose(residual=residual, q=mean)
        return xp.product(p, mean.T).reshape(gradient.shape)

    def _rank(self, shape: Sequence[int]) -> int:
        return min(self.rank, *_matrix(shape))

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Two all-reduces, of the factors in float32."""
        rows, columns = _matrix(shape)
        return (
            Transfer("all_reduce", 4 * rows * self._rank(shape)),
            Transfer("all_reduce", 4 * columns * self._rank(shape)),
        )


def orthonormal(p: np.ndarray) -> np.ndarray:
    """Gram-Schmidt in float64; a column that depends linearly on those before it becomes zero.

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


def _without_zero_columns(q: Any, context: Context) -> Any:
    """Q with random columns in place of zero columns, the same on all learners.

    A matrix of lower rank, such as a zero gradient, leaves columns of zeros, which would stay zero in all later steps.
    """
    xp, missing = arrays.of(q), ~(q != 0).any(0)
    if not missing.any():
        return q
    replacement = context.shared_rng().standard_normal((len(q), xp.count(missing)), np.float32)
    q = xp.copy(q)
    q[:, missing] = xp.from_host(replacement, q)
    return q


def _matrix(shape: Sequence[int]) -> tuple[int, int]:
    rows = shape[0] if len(shape) > 1 else 1
    return rows, element_count(shape) // rows
