"""Seconds a token when a language model writes: bytes of weights and of the cache against the memory's rate.

To write one token, every weight is read once for the whole batch, and each sequence's keys and values once. In 16 bits
a weight is two bytes. A batch of one uses each weight once, so reading takes longer than multiplying. By this model,
4-bit weights then write 3 to 4 times as fast. With many sequences the cache decides, which 4-bit weights leave as it
is, so the gain shrinks.

Published, with 3 bits, so with fewer bytes: 3.25 times on an A100 and 4.5 on an A6000 for OPT-175B against float16
(Frantar et al. 2022, arXiv:2210.17323, abstract). A kernel that stays near four times up to a batch of 16 to 32, less
at 64 to 128, and 2.8 times end to end (MARLIN, Frantar et al. 2024, arXiv:2408.11743, abstract). This model has no such
loss of kernels: its numbers are upper bounds. Weights are multiplied in 16 bits, whatever they are stored in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.checks import check_above
from lplab.hardware import accelerators
from lplab.hardware.accelerators import Accelerator
from lplab.hardware.compute import SIXTEEN_BIT_PEAKS, peak_ops_per_second
from lplab.hardware.language_models import LANGUAGE_MODELS, LanguageModel
from lplab.hardware.workloads.workload import checked_batch
from lplab.lookup import lookup

KEPT_BITS = 16
"""Bits of a number of the head, which reads the whole vocabulary at each token and is not rounded, as published."""


@dataclass(frozen=True)
class Decoding:
    """What one step costs that writes a token of each sequence; arrays of the shape of batch and context together.

    Attributes:
        batch: sequences.
        weight_bytes, cache_bytes: read in a step.
        memory_seconds, compute_seconds: of the bytes at the memory's rate, of the products at the chip's peak.
        stored_bytes: weights, tables and cache, all that must fit into memory.
        capacity: bytes of the chip's memory; None where unknown.
        operations: multiplications and additions of a step.
    """

    batch: np.ndarray
    weight_bytes: np.ndarray
    cache_bytes: np.ndarray
    memory_seconds: np.ndarray
    compute_seconds: np.ndarray
    stored_bytes: np.ndarray
    capacity: float | None
    operations: np.ndarray

    @property
    def seconds(self) -> np.ndarray:
        """Seconds of a step: the longer of memory and products."""
        return np.maximum(self.memory_seconds, self.compute_seconds)

    @property
    def tokens_per_second(self) -> np.ndarray:
        """Tokens of all sequences together in a second."""
        return self.batch / self.seconds

    @property
    def intensity(self) -> np.ndarray:
        """Operations per byte: the place on the roofline."""
        return self.operations / (self.weight_bytes + self.cache_bytes)

    @property
    def is_memory_bound(self) -> np.ndarray:
        """Whether the step waits for memory."""
        return self.memory_seconds >= self.compute_seconds

    @property
    def fits(self) -> np.ndarray:
        """Whether all that is stored fits into the chip's memory; True where that is unknown."""
        return np.asarray(self.stored_bytes <= (np.inf if self.capacity is None else self.capacity))


def decoding_step(
    model: str | LanguageModel,
    chip: str | Accelerator,
    *,
    weight_bits: Any = 16.0,
    cache_bits: Any = 16.0,
    batch: Any = 1,
    context: Any = 1024,
) -> Decoding:
    """One step of writing: a token of each of ``batch`` sequences, with ``context`` tokens before it.

    Args:
        model: a name of :data:`LANGUAGE_MODELS` or sizes of your own.
        chip: a name of :mod:`lplab.hardware.accelerators` or a chip; its memory rate must be known.
        weight_bits: of a weight in a linear layer with its share of scales, such as 4.16 (:func:`bits_per_weight
            <lplab.quantizers.bits_per_weight>`).
        cache_bits: of a key or a value with its share of scales.
        batch, context: numbers or arrays that broadcast.

    Raises:
        ValueError: an unknown name, bits that are not above 0, or a chip without a memory rate.

    >>> def gain(batch):
    ...     slow, fast = (decoding_step("llama-2-7b", "a100", weight_bits=b, batch=batch).seconds for b in (16, 4.16))
    ...     return round(float(slow / fast), 2)
    >>> gain(1), gain(64)
    (3.3, 1.25)
    """
    sizes = model if isinstance(model, LanguageModel) else lookup(LANGUAGE_MODELS, model, "language model")
    chip = accelerators.get(chip)
    if chip.memory_bytes_per_second is None:
        raise ValueError(f"the memory bandwidth of {chip.label} is unknown; writing needs it")
    weight_bits, cache_bits, context = check_above(0, weight_bits=weight_bits, cache_bits=cache_bits, context=context)
    sequences = checked_batch(batch)
    weights = sizes.linear * weight_bits / 8 + sizes.table * KEPT_BITS / 8
    cache = sequences * context * 2 * sizes.blocks * sizes.kv_width * cache_bits / 8
    products = sizes.linear + sizes.table + 2 * context * sizes.blocks * sizes.width
    operations = 2.0 * sequences * products
    peak = peak_ops_per_second(chip, SIXTEEN_BIT_PEAKS)[1]
    shape = np.broadcast_shapes(*map(np.shape, (sequences, weights, cache, operations)))
    everywhere = np.zeros(shape)
    rest = 0 if sizes.tied else sizes.table * KEPT_BITS / 8  # of the embedding a step reads one row a token
    return Decoding(
        batch=sequences + everywhere,
        weight_bytes=weights + everywhere,
        cache_bytes=cache + everywhere,
        memory_seconds=(weights + cache) / chip.memory_bytes_per_second + everywhere,
        compute_seconds=operations / peak + everywhere,
        stored_bytes=weights + rest + cache + everywhere,
        capacity=chip.memory_bytes,
        operations=operations + everywhere,
    )
