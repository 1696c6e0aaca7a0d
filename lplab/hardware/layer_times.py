"""The result of :func:`lplab.hardware.compute.layer_times`: seconds by layer, pass and part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.hardware.accelerators import Accelerator
from lplab.hardware.precisions import Precision
from lplab.hardware.workloads import Workload
from lplab.hardware.workloads.workload import PASSES

if TYPE_CHECKING:
    import pandas as pd

PARTS = {
    "compute": "products, as fast as the multipliers are",
    "memory": "products that wait for memory",
    "between": "norms, activations, additions",
    "conversion": "rounding to fewer bits",
    "update": "update of the weights",
}
"""Where the time goes, in the order of a stacked bar."""


@dataclass(frozen=True)
class LayerTimes:
    """Seconds of one step; arrays are [..., 3, layers] (forward, dx, dW), ... the shape of the batch.

    Attributes:
        workload, accelerator, precision, batch: what was simulated, as given to ``layer_times``.
        peak_names, rates: the peak that each product runs at, by name and in operations per second, [3, layers].
        flops, nbytes: operations of the products, and bytes of their operands and results.
        compute_seconds, memory_seconds: time of the products if only computing, or only memory, took time.
        elementwise_seconds: layers without a product.
        conversion_seconds: rounding to fewer bits in a separate pass.
        update_seconds: update of the weights, [layers].
    """

    workload: Workload
    accelerator: Accelerator
    precision: Precision
    batch: Any
    peak_names: np.ndarray
    rates: np.ndarray
    flops: np.ndarray
    nbytes: np.ndarray
    compute_seconds: np.ndarray
    memory_seconds: np.ndarray
    elementwise_seconds: np.ndarray
    conversion_seconds: np.ndarray
    update_seconds: np.ndarray

    @property
    def compute_bound(self) -> np.ndarray:
        """Whether a product waits for its multiplications (True) or for memory; bool [..., 3, layers]."""
        return self.compute_seconds >= self.memory_seconds

    @property
    def product_seconds(self) -> np.ndarray:
        """Seconds of the products alone, float64 [..., 3, layers]: the longer of computing and of moving bytes."""
        return np.maximum(self.compute_seconds, self.memory_seconds)

    @property
    def seconds(self) -> np.ndarray:
        """Seconds of every pass and layer without the update, float64 [..., 3, layers]."""
        return self.product_seconds + self.elementwise_seconds + self.conversion_seconds

    @property
    def forward_seconds(self) -> np.ndarray:
        """Seconds of each layer in the forward pass, float64 [..., layers]."""
        return self.seconds[..., 0, :]

    @property
    def dx_seconds(self) -> np.ndarray:
        """Seconds of each layer for the gradients of the inputs, float64 [..., layers]."""
        return self.seconds[..., 1, :]

    @property
    def dw_seconds(self) -> np.ndarray:
        """Seconds of each layer for the gradients of the weights, float64 [..., layers]."""
        return self.seconds[..., 2, :]

    @property
    def step_seconds(self) -> Any:
        """Seconds of the whole step, update included: a float, or float64 of the batch's shape."""
        total = self.seconds.sum((-1, -2)) + self.update_seconds.sum(-1)
        return float(total) if np.ndim(total) == 0 else total

    @property
    def intensity(self) -> np.ndarray:
        """Operations per byte of each product, float64 [..., 3, layers]; NaN where a layer has no product."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.nbytes > 0, self.flops / self.nbytes, np.nan)

    @property
    def sustained_ops_per_second(self) -> Any:
        """Operations of all products per second of the whole step: a float, or float64 of the batch's shape."""
        return self.flops.sum((-1, -2)) / self.step_seconds

    @property
    def share_of_peak(self) -> Any:
        """Sustained operations per second as a share (0 to 1) of the highest peak that the recipe uses on this chip."""
        share = self.sustained_ops_per_second / self.rates.max()
        return float(share) if np.ndim(share) == 0 else share

    def part(self, name: str) -> Any:
        """Seconds of a part of the step, over all layers: one of :data:`PARTS`, or "products" for the first two."""
        return self._part_by_layer(name).sum(-1)

    def parts(self) -> dict[str, Any]:
        """Seconds of every part of the step, by the names of :data:`PARTS`; their sum is the step."""
        return {name: float(s) if np.ndim(s := self.part(name)) == 0 else s for name in PARTS}

    def parts_by_layer(self) -> dict[str, np.ndarray]:
        """Seconds of every part of the step by layer, float64 [..., layers], by the names of :data:`PARTS`."""
        return {name: self._part_by_layer(name) for name in PARTS}

    def _part_by_layer(self, name: str) -> np.ndarray:
        if name == "update":
            return np.broadcast_to(self.update_seconds, self.seconds.shape[:-2] + self.update_seconds.shape)
        seconds = {
            "products": self.product_seconds,
            "compute": np.where(self.compute_bound, self.product_seconds, 0),
            "memory": np.where(self.compute_bound, 0, self.product_seconds),
            "between": self.elementwise_seconds,
            "conversion": self.conversion_seconds,
        }
        if name not in seconds:
            raise ValueError(f"unknown part {name!r}; allowed: products, {', '.join(PARTS)}")
        return seconds[name].sum(-2)

    def to_frame(self) -> pd.DataFrame:
        """The times as a table with a row for each layer and pass, of one batch; needs pandas.

        Raises:
            ValueError: the times of several batches.
        """
        import pandas as pd

        if self.seconds.ndim != 2:
            raise ValueError("a table holds one batch; choose one before")
        layers = self.workload.layers
        return pd.concat(
            pd.DataFrame(
                {
                    "layer": [layer.name for layer in layers],
                    "kind": [layer.kind for layer in layers],
                    "pass": word,
                    "seconds": self.seconds[i],
                    "flops": self.flops[i],
                    "bytes": self.nbytes[i],
                    "intensity": self.intensity[i],
                    "rate": self.peak_names[i],
                    "bound": np.where(self.flops[i] == 0, "", np.where(self.compute_bound[i], "compute", "memory")),
                }
            )
            for i, word in enumerate(PASSES)
        ).reset_index(drop=True)
