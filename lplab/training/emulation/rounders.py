"""The function that rounds tensors by a rule; it is chosen once for each rule.

This module needs PyTorch.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lplab.formats import BlockFormat, FloatFormat, Rounding
from lplab.quantizers import Luq, Quantizer, Sawb
from lplab.quantizers.luq import sample_seeds
from lplab.quantizers.reductions import largest, largest_at, sawb_at
from lplab.quantizers.sawb import clip_for_row, integers_of
from lplab.quantizers.scaling import MAX_SCALE, MIN_SCALE
from lplab.training.emulation.prepared_rounding import (
    MIN_ELEMENTS_TO_SHARE,
    DualRounding,
    Prepared,
    prepared,
)
from lplab.training.recipe.quant_spec import QuantSpec


class Rounded(NamedTuple):
    """A rounded tensor, with its scale and the largest magnitude of its grid.

    Attributes:
        values: the numbers on the grid.
        scale: what was divided out before and multiplied back after rounding.
        limit: the largest magnitude of the grid; None where it is not known or differs from channel to channel.
    """

    values: Tensor
    scale: float | Tensor = 1.0
    limit: float | None = None


Rounder = Callable[[Tensor, int, float], Rounded]
"""(tensor without gradient, seed of the random bits, the layer's gradient scale) → rounded."""
RounderAt = Callable[[int, int, int, int], bool]
"""(address of contiguous float32, address of the results elsewhere, how many, seed of the random bits) → whether they
are rounded. If not, nothing was written, and the :data:`Rounder` has to do it with the same seed."""
MAX_SHAPES_OF_ZEROS = 16


@lru_cache(maxsize=1024)
def rounder_of(rule: QuantSpec) -> Rounder:
    """The function that rounds by a rule.

    >>> import torch
    >>> rounder_of(QuantSpec("int4"))(torch.tensor([1.4, 99.0]), 0, 1.0).values
    tensor([1., 7.])
    """
    if isinstance(rule.quantizer, Sawb):
        return _sawb(rule.quantizer)
    if isinstance(rule.quantizer, Luq) and not rule.quantizer.nearest:
        return _luq(rule.quantizer)
    if rule.quantizer is not None:
        return _from_quantizer(rule.quantizer)
    if rule.per_layer:
        return _per_layer(rule)
    if rule.scaling is not None:
        axis = rule.axis if isinstance(rule.axis, int) else None  # "contraction" is for block formats
        quantizer = Quantizer(rule.format, rule.scaling, rule.rounding, axis)
        top = rule.format.max

        def scaled(x: Tensor, seed: int, scale: float) -> Rounded:
            values, used = quantizer.quantize_with_scale(x, seed)
            return Rounded(values, used, top * used if isinstance(used, float) else None)

        return scaled
    return _plain(rule)


def rounder_at(rule: QuantSpec) -> RounderAt | None:
    """The function that rounds by a rule from one address to another; None where there is none.

    Small tensors are rounded so in half the time that the function of :func:`rounder_of` needs.

    >>> x, out = torch.tensor([1.4, 99.0]), torch.empty(2)
    >>> is_done = rounder_at(QuantSpec("int4"))(x.data_ptr(), out.data_ptr(), 2, 0)
    >>> not is_done or out.tolist() == [1.0, 7.0]  # not before loops are worth loading
    True
    """
    if isinstance(rule.quantizer, Sawb):
        return _sawb_at(rule.quantizer)
    if isinstance(rule.quantizer, Luq) and not rule.quantizer.nearest:
        return _luq_at(rule.quantizer)
    ready = None if rule.is_identity else prepared_of(rule)
    return None if ready is None else ready.round_at


def _sawb_at(quantizer: Sawb) -> RounderAt | None:
    row = quantizer.coefficients
    if not _has_integers(quantizer):
        return None
    c1, c2, half = float(row.c1), float(row.c2), (row.levels - 1) // 2
    return lambda x, out, count, seed: count < MIN_ELEMENTS_TO_SHARE and sawb_at(x, out, count, c1, c2, half) > 0


def _has_integers(quantizer: Sawb) -> bool:
    row = quantizer.coefficients
    return not row.extra_negative_level and quantizer.axis is None and integers_of(row.levels) is not None


def _plain(rule: QuantSpec) -> Rounder:
    ready = prepared_of(rule)
    if ready is None:
        axis = rule.axis if isinstance(rule.axis, int) else -1  # the axis of a product's sum is the last one here
        return lambda x, seed, scale: Rounded(rule.format.quantize(x, rule.rounding, seed, axis=axis), 1.0)
    top = rule.format.max
    return lambda x, seed, scale: Rounded(ready(x, seed), 1.0, top)


def prepared_of(rule: QuantSpec) -> Prepared | None:
    """The rounding of a rule that needs no scale, no blocks and no quantizer; else None."""
    is_elementwise = rule.quantizer is None and rule.scaling is None and not isinstance(rule.format, BlockFormat)
    return prepared(rule.format, rule.rounding) if is_elementwise else None


def _from_quantizer(quantizer: Any) -> Rounder:
    """A quantizer object, with or without a seed, with or without ``quantize_with_scale``."""
    with_scale = getattr(quantizer, "quantize_with_scale", None)
    method = with_scale or quantizer.quantize
    seeded = "seed" in inspect.signature(method).parameters

    def rounder(x: Tensor, seed: int, scale: float) -> Rounded:
        result = method(x, seed=seed) if seeded else method(x)
        if not with_scale:
            return Rounded(result)
        values, used = result
        return Rounded(values, used, used if isinstance(used, float) else None)

    return rounder


def _sawb(quantizer: Sawb) -> Rounder:
    """SAWB whose levels are integers times a step: the clip in one pass, rounding in another; the same bits."""
    fallback, row = _from_quantizer(quantizer), quantizer.coefficients
    integers = integers_of(row.levels)
    if integers is None or not _has_integers(quantizer):
        return fallback
    ready, half = prepared(integers, Rounding(), step=True), (row.levels - 1) // 2
    c1, c2, divisor = float(row.c1), float(row.c2), np.float32(half)
    zeros: dict[torch.Size, Rounded] = {}  # a recurrent layer begins each sequence with zeros, which have no clip

    def of_zeros(x: Tensor) -> Rounded:
        known = zeros.get(x.shape)
        if known is None:
            if len(zeros) >= MAX_SHAPES_OF_ZEROS:
                zeros.clear()
            known = zeros[x.shape] = fallback(x, 0, 1.0)
        return known._replace(values=known.values.clone())

    def rounder(x: Tensor, seed: int, scale: float) -> Rounded:
        if x.dtype != torch.float32 or not x.is_cpu or x.is_neg():
            return fallback(x, seed, scale)
        count = x.numel()
        if count < MIN_ELEMENTS_TO_SHARE and x.is_contiguous():
            values = torch.empty_like(x)
            alpha = sawb_at(x.data_ptr(), values.data_ptr(), count, c1, c2, half)
            if alpha:
                return Rounded(values, alpha, alpha)
            if not x.numpy().view(np.int32).any():  # all are +0
                return of_zeros(x)
        clip = clip_for_row(x.contiguous().numpy().reshape(-1), row)  # numpy reshapes faster than PyTorch
        alpha = float(clip)
        if not alpha:
            return fallback(x, seed, scale)
        step = min(max(float(clip / divisor), MIN_SCALE), MAX_SCALE)
        return Rounded(ready(x, scale=step), alpha, alpha)

    return rounder


def _luq(quantizer: Luq) -> Rounder:
    """LUQ with random bits: the largest magnitude in one pass, each sample in another; the same bits."""
    fallback = _from_quantizer(quantizer)
    ready = prepared(quantizer.format, Rounding("stochastic", quantizer.random_bits), step=True)
    octaves = 2**quantizer.exponent_bits - 2

    def rounder(x: Tensor, seed: int, scale: float) -> Rounded:
        if x.dtype != torch.float32 or not x.is_cpu or x.is_neg():
            return fallback(x, seed, scale)
        x = x.contiguous()  # once for all passes; random bits are numbered in this order
        top = largest(x.numpy())
        if not 0 < top < math.inf:  # nothing to round, or numbers that do not count in the maximum
            return fallback(x, seed, scale)
        alpha = _luq_alpha(top, octaves)
        first, *others = sample_seeds(seed, quantizer.samples)
        values = ready(x, first, alpha)
        for number in others:
            values += ready(x, number, alpha)
        return Rounded(values / quantizer.samples if others else values)

    return rounder


def _luq_at(quantizer: Luq) -> RounderAt | None:
    if quantizer.samples > 1:
        return None
    ready = prepared(quantizer.format, Rounding("stochastic", quantizer.random_bits), step=True)
    octaves = 2**quantizer.exponent_bits - 2

    def at(x: int, out: int, count: int, seed: int) -> bool:
        if count >= MIN_ELEMENTS_TO_SHARE:
            return False
        top = largest_at(x, count)
        return 0 < top < math.inf and ready.round_at(x, out, count, seed, _luq_alpha(top, octaves))

    return at


def _luq_alpha(largest: float, octaves: int) -> float:
    return min(max(float(np.float32(largest) * np.float32(2.0**-octaves)), MIN_SCALE), MAX_SCALE)


def _per_layer(rule: QuantSpec) -> Rounder:
    """Round(x · s) / s with s a power of two. A float format is shifted by its bias instead: one pass, same bits."""
    top = rule.format.max
    known: dict[float, Any] = {}

    def ready(scale: float) -> Any:
        shifted = _shifted(rule.format, scale)
        return None if shifted is None else prepared(shifted, rule.rounding)

    def rounder(x: Tensor, seed: int, scale: float) -> Rounded:
        if scale not in known:
            known[scale] = ready(scale)
        if known[scale] is not None:
            return Rounded(known[scale](x, seed), 1 / scale, top / scale)
        values = rule.format.quantize(x * scale, rule.rounding, seed)
        return Rounded(values.div_(scale), 1 / scale, top / scale)

    return rounder


@lru_cache(maxsize=256)
def _shifted(format: Any, scale: float) -> FloatFormat | None:
    """The format with all values divided by a power of two; None where no bias gives it or float32 cannot hold it.

    A scale that is no power of two is rounded down to one.
    """
    if not isinstance(format, FloatFormat):
        return None
    octaves = math.frexp(scale)[1] - 1
    bias = (format.bias or 0) + octaves / (2 if format.radix == 4 else 1)
    shifted = replace(format, bias=bias if format.radix == 4 else int(bias), name="")
    fits = shifted.smallest_subnormal >= 2.0**-126 and shifted.max < 2.0**127
    return shifted if fits else None


@lru_cache(maxsize=512)
def dual_rounding(first: QuantSpec, second: QuantSpec, scale: float) -> DualRounding | None:
    """The rounding by two rules in one pass; None where they differ in more than the format.

    Args:
        first, second: rules with a scale for each layer.
        scale: of the layer.
    """
    if not (first.per_layer and second.per_layer) or first.rounding != second.rounding or first.is_random:
        return None
    a, b = _shifted(first.format, scale), _shifted(second.format, scale)
    return None if a is None or b is None or a == b else DualRounding(a, b, first.rounding)
