"""Seconds of every layer on one chip: matrix products under the roofline, and the layers without a product.

The model is an upper bound of speed. The time of a product is the longer of its operations at the chip's peak and its
bytes at the memory bandwidth; each operand is read once. Norms, activations and additions have no product: their time
is that of their bytes. Caches and the quality of kernels are not modelled; ``utilization`` accounts for them.

>>> times = layer_times("resnet50", "h100", "hfp8_2019", batch=256)
>>> round(times.step_seconds * 1e3), round(float(times.part("products")) * 1e3)  # milliseconds
(35, 7)
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from lplab.checks import check_numbers
from lplab.hardware import accelerators, precisions, systolic, workloads
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.layer_times import LayerTimes
from lplab.hardware.precisions import Precision
from lplab.hardware.workloads import GEMMs, Workload
from lplab.hardware.workloads.workload import PASSES, checked_batch

SIXTEEN_BIT_PEAKS = ("fp16", "bf16")
"""Peaks for layers that stay in 16 bits."""
WIDER = {"int2": ("int4", "int8"), "int4": ("int8",), "fp4": ("fp8",)}
"""Formats that hold every number of a narrower one, by the name of the narrower one; 16 bits hold all of them."""


def peak_ops_per_second(chip: str | Accelerator, peaks: Sequence[str], *, fall_back: bool = False) -> tuple[str, float]:
    """The peak that products run at: the first of ``peaks`` that the chip has, and its operations per second.

    Args:
        chip: name or chip.
        peaks: names of peaks, best first.
        fall_back: if the chip has none of them, use its fastest format that holds the same numbers: they are stored in
            the narrow format and multiplied in the wide one.

    Raises:
        ValueError: it has none; the message says which it has.

    >>> peak_ops_per_second("a100", ("fp8",), fall_back=True)
    ('fp16', 312000000000000.0)
    >>> peak_ops_per_second("v100", ("int4",), fall_back=True)  # its 8-bit integers are slower than its 16-bit products
    ('fp16', 125000000000000.0)
    """
    chip = accelerators.get(chip)
    for peak in peaks:
        if peak in chip.peaks:
            return peak, chip.peaks[peak]
    wider = [] if {"fp32", "tf32"} & set(peaks) else [*(w for p in peaks for w in WIDER.get(p, ())), *SIXTEEN_BIT_PEAKS]
    candidates = [peak for peak in wider if peak in chip.peaks and fall_back]
    if candidates:
        fastest = max(candidates, key=chip.peaks.__getitem__)
        return fastest, chip.peaks[fastest]
    raise ValueError(f"{chip.label} has no rate for {' or '.join(peaks)} products; it has {', '.join(chip.peaks)}")


def roofline(chip: str | Accelerator, peak: str, intensity: Any) -> np.ndarray:
    """Attainable operations per second at an intensity: min(peak, bandwidth · intensity) (Williams 2009).

    Returns float64 of the shape of ``intensity``, which is in operations per byte.

    >>> roofline("h100", "bf16", [1, 1000]) / 1e12
    array([  3.35, 989.  ])
    """
    chip = accelerators.get(chip)
    per_byte = check_numbers("intensity", intensity)
    if not np.all(per_byte >= 0):
        raise ValueError(f"intensity must be 0 operations per byte or more, got {intensity!r}")
    return np.minimum(peak_ops_per_second(chip, (peak,))[1], per_byte * _bandwidth(chip))


def ridge(chip: str | Accelerator, peak: str) -> float:
    """Operations per byte above which a product is compute-bound: where the two lines of the roofline meet.

    >>> round(ridge("h100", "bf16"))
    295
    """
    chip = accelerators.get(chip)
    return peak_ops_per_second(chip, (peak,))[1] / _bandwidth(chip)


def _bandwidth(chip: Accelerator) -> float:
    if chip.memory_bytes_per_second is None:
        raise ValueError(f"the memory bandwidth of {chip.label} is unknown; a roofline needs it")
    return chip.memory_bytes_per_second


def layer_times(
    workload: str | Workload,
    accelerator: str | Accelerator,
    precision: str | Precision,
    batch: Any = 1,
    *,
    utilization: float | str = 1.0,
    fused: bool = False,
    training: bool | None = None,
    fall_back: bool = False,
) -> LayerTimes:
    """Seconds of each layer for one step on one chip.

    Args:
        workload, accelerator, precision: names or objects.
        batch: examples in a step; an array gives arrays, one call for a whole sweep.
        utilization: the share of its peak that the chip reaches in products: a number up to 1, or "array" for what its
            systolic arrays reach on each product.
        fused: whether norms, activations and conversions are fused into the products, at no cost.
        training: whether there is a backward pass and an update; by default whether the precision is for training.
        fall_back: see :func:`peak_ops_per_second`.

    Returns:
        The times, with what bounds them.

    Raises:
        ValueError: an unknown name, a bad batch or utilization, or a chip without the rate.
    """
    workload, chip, bits = workloads.get(workload), accelerators.get(accelerator), precisions.get(precision)
    training = bits.trains if training is None else training
    if training and not bits.trains:
        raise ValueError(f"{bits.label} has no backward pass; pass training=False")
    products = workload.gemms(batch)
    names, rates = _rates(workload, chip, bits, fall_back, training)
    passes = np.array([1.0, training, training])[:, None]
    needed = np.stack([np.ones(len(workload)), *workload.gradients]) * passes
    computed = (products.repeats > 0) * passes
    traffic = _Traffic(workload, bits, checked_batch(batch), fused)
    nbytes = traffic.products() * computed
    bandwidth = chip.memory_bytes_per_second or np.inf
    return LayerTimes(
        workload=workload,
        accelerator=chip,
        precision=bits,
        batch=np.asarray(batch),
        peak_names=names,
        rates=rates,
        flops=products.flops * passes,
        nbytes=nbytes,
        compute_seconds=products.flops * passes / (rates * _reached_share(utilization, chip, products, rates)),
        memory_seconds=nbytes / bandwidth,
        elementwise_seconds=traffic.elementwise() * needed / bandwidth,
        conversion_seconds=traffic.conversions() * computed / bandwidth,
        update_seconds=traffic.update() * training / bandwidth,
    )


def is_16_bit_layer(workload: Workload, precision: Precision) -> np.ndarray:
    """Which layers the recipe leaves in 16 bits; bool [layers].

    >>> int(is_16_bit_layer(workloads.get("resnet50"), precisions.get("int4_fp4_2020")).sum())
    6
    """
    kept = np.isin(workload.columns["exception"], precision.keep)
    return kept | (workload.columns["kind"] == "attention") if "product" in precision.keep else kept


def _rates(
    workload: Workload, chip: Accelerator, bits: Precision, fall_back: bool, training: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The peak of every pass and layer: its name and its operations per second, [3, layers] each."""
    wide = is_16_bit_layer(workload, bits)
    forward = peak_ops_per_second(chip, bits.forward_peaks, fall_back=fall_back)
    backward = peak_ops_per_second(chip, bits.dx_peaks, fall_back=fall_back) if training else forward
    sixteen = peak_ops_per_second(chip, SIXTEEN_BIT_PEAKS) if wide.any() else forward
    names = np.stack([np.where(wide, sixteen[0], peak[0]) for peak in (forward, backward, backward)])
    values = np.stack([np.where(wide, sixteen[1], peak[1]) for peak in (forward, backward, backward)])
    return names, values


def _reached_share(utilization: float | str, chip: Accelerator, products: GEMMs, rates: np.ndarray) -> Any:
    """The share of their peak that products reach: one number, or that of the chip's arrays for each product."""
    if not isinstance(utilization, str):
        if isinstance(utilization, bool) or not isinstance(utilization, Real) or not 0 < utilization <= 1:
            raise ValueError(f"utilization must be above 0 and at most 1, or 'array', got {utilization!r}")
        return utilization
    if utilization != "array":
        raise ValueError(f"utilization must be a number up to 1 or 'array', got {utilization!r}")
    wide = max((chip.peaks[peak] for peak in SIXTEEN_BIT_PEAKS if peak in chip.peaks), default=float(rates.min()))
    return systolic.of_chip(chip, products.m, products.n, products.k, products.groups, rates / wide)


class _Traffic:
    """Bytes of every pass and layer, arrays [..., 3, layers]; every operand is read once, every result written once."""

    def __init__(self, workload: Workload, bits: Precision, batch: np.ndarray, fused: bool) -> None:
        c = workload.columns
        self._bits, self._fused = bits, fused
        self._count, self._has_product = c["count"], c["m"] > 0
        batch = np.where(c["per_step"], 1, batch[..., None])
        self._inputs, self._outputs = c["inputs"] * batch * self._count, c["outputs"] * batch * self._count
        self._own = c["kind"] == "attention"
        self._matrix = np.where(self._own | ~self._has_product, 0, c["groups"] * c["n"] * c["k"]) * self._count
        self._steps, self._is_embedding = c["steps"], c["kind"] == "embedding"
        self._trained = np.where(c["shared"], 0, c["weights"] * self._count)
        wide = is_16_bit_layer(workload, bits)
        self._w, self._a, self._g = (
            np.where(wide, np.maximum(16, b), b) / 8
            for b in (bits.weight_bits, bits.activation_bits, bits.gradient_bits)
        )
        self._out = bits.output_bits / 8

    def products(self) -> np.ndarray:
        """Bytes of the products: operands in the recipe's bits, results in those of its outputs."""
        x, y, w = self._inputs, self._outputs, self._matrix
        # dx of attention needs one of the two factors, and gives the gradient of the other one.
        half = np.where(self._own, 0.5, 1.0)
        factor = np.where(self._own, half * x * self._a, 0)
        forward = x * self._a + w * self._w * self._steps + y * self._out
        dx = y * self._g + w * self._w * self._steps + factor + half * x * self._out
        dw = half * x * self._a + y * self._g + np.where(self._own, half * x, w) * self._out
        return np.stack([forward, dx, dw], -2) * self._has_product

    def elementwise(self) -> np.ndarray:
        """Bytes of layers without a product, and of embedding tables."""
        if self._fused:
            forward = np.where(self._is_embedding, self._inputs + self._outputs, 0)
            back = np.zeros_like(forward)
        else:
            forward = self._inputs + self._outputs
            back = self._outputs + 2 * self._inputs  # the gradient, the saved input and the result
        back = np.where(self._is_embedding, 0, back)
        # Rows of the gradient of the table are read and written.
        rows = np.where(self._is_embedding, 2 * self._outputs, 0)
        return np.stack([forward, back, rows], -2) * self._out * ~self._has_product

    def conversions(self) -> np.ndarray:
        """Bytes of the separate pass that reads wide numbers and writes the narrow ones for the products."""
        if self._fused:
            return np.zeros((*self._inputs.shape[:-1], len(PASSES), self._inputs.shape[-1]))
        x, y, w = self._inputs, self._outputs, self._matrix
        master = max(self._bits.master_bits, self._bits.output_bits) / 8
        weights = np.where(self._w < master, w * (master + self._w), 0)
        activations = np.where(self._a < self._out, x * (self._out + self._a), 0)
        gradients = np.where(self._g < self._out, y * (self._out + self._g), 0)
        nothing = np.zeros_like(gradients)
        return np.stack([weights + activations, gradients, nothing], -2) * self._has_product

    def update(self) -> np.ndarray:
        """Bytes of the update: gradient and weights read, weights written, one number of state read and written."""
        weight = (self._bits.master_bits or self._bits.weight_bits) / 8
        return self._trained * (2 * weight + self._out + 2 * self._bits.optimizer_bits / 8)
