"""Deep Gradient Compression: momentum before the selection (Lin et al., ICLR 2018, arXiv 1712.01887)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    ensure_finite,
    flat_gradient,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.sparse import TopK, check_density, encode, mean_of_sparse, selected_count, top_k_indices
from lplab.compression.wire.values import check_wire


@dataclass(frozen=True)
class DGC(Compressor):
    """Deep Gradient Compression.

    u ← μ·u + g; v ← v + u; the largest |v| are sent; where they are sent, v and (with masking) u become zero. The
    optimizer must have **no** momentum. Selection is exact here; the authors' code estimates a threshold from a sample.

    Args:
        density: share of the elements after the warm-up.
        momentum: μ.
        warm_up: densities of the first steps: (0.25,) * 100 + (0.0625,) * 100 …
        masking: whether u is set to zero where v was sent ("momentum factor masking").
        nesterov: u ← μ·(u + g); v ← v + u + g.
        clip: the local gradient of this layer is scaled down to a norm of at most clip / √learners; None: no clipping.
        wire: "fp32", "fp16" or "bf16" for the values.

    Raises:
        ValueError: a value out of range.

    >>> DGC(0.001, warm_up=(0.25, 0.0625)).density_at(1)
    0.0625
    """

    takes_tensors: ClassVar[bool] = True
    state_names = ("velocity", "residual")

    density: float = 0.001
    momentum: float = 0.9
    warm_up: tuple[float, ...] = ()
    masking: bool = True
    nesterov: bool = False
    clip: float | None = None
    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        for density in (self.density, *self.warm_up):
            check_density(density)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be from 0 to below 1, got {self.momentum}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be above 0, got {self.clip}")
        check_wire(self.wire)

    def density_at(self, step: int) -> float:
        """The share of the elements that is sent in a step."""
        return self.warm_up[step] if step < len(self.warm_up) else self.density

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of indices and values."""
        g, mu = self._clipped(flat_gradient(gradient, state), context.world), single(self.momentum)
        u = (state["velocity"] + g) * mu if self.nesterov else state["velocity"] * mu + g
        v = state["residual"] + u + g if self.nesterov else state["residual"] + u
        ensure_finite(v, "the sum of velocities")
        indices = top_k_indices(v, selected_count(self.density_at(context.step), len(v)))
        sent = arrays.of(v).round_to_wire(v[indices], self.wire)
        v[indices] -= sent
        if self.masking:
            u[indices] = 0
        state.propose(velocity=u, residual=v)
        average = yield AllGather(encode(indices, sent, self.wire), mean_of_sparse(len(v), self.wire))
        return average.reshape(gradient.shape)

    def _clipped(self, g: Any, world: int) -> Any:
        """The gradient times a factor, 1 or less, that falls with the sum of squares."""
        if self.clip is None:
            return g
        xp, limit = arrays.of(g), self.clip / np.sqrt(world)

        def factor(total: Any) -> Any:
            norm = np.sqrt(float(total))
            return xp.from_host(np.float32(1 if norm <= limit else limit / norm), g)

        return g * xp.rounded_sums(xp.cast(g, "float64") ** 2, factor)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Index and value of each element sent, after the warm-up."""
        return TopK(self.density, wire=self.wire).plan(shape)
