"""From a rule to a function that rounds tensors: chosen once for each rule, called thousands of times.

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
from lplab.quantizers import Quantizer, Sawb
from lplab.quantizers.sawb import clip_of, integers_of
from lplab.quantizers.scaling import GREATEST_SCALE, LEAST_SCALE
from lplab.training.fast import Both, Prepared, prepared
from lplab.training.rules import Rule


class Rounded(NamedTuple):
    """A rounded tensor, and what is known of how it was rounded.

    Attributes:
        values: the numbers on the grid.
        scale: what was divided out before and multiplied back after rounding.
        limit: the largest magnitude of the grid; None where it is not known or differs from channel to channel.
    """

    values: Tensor
    scale: float | Tensor = 1.0
    limit: float | None = None


Rounder = Callable[[Tensor, int, float], Rounded]
"""(tensor without gradient, seed of the coins, the layer's gradient scale) → rounded."""


@lru_cache(maxsize=1024)
def rounder_of(rule: Rule) -> Rounder:
    """The function that carries a rule out.

    >>> import torch
    >>> rounder_of(Rule("int4"))(torch.tensor([1.4, 99.0]), 0, 1.0).values
    tensor([1., 7.])
    """
    if isinstance(rule.quantizer, Sawb):
        return _sawb(rule.quantizer)
    if rule.quantizer is not None:
        return _own(rule.quantizer)
    if rule.per_layer:
        return _per_layer(rule)
    if rule.scaling is not None:
        quantizer = Quantizer(rule.format, rule.scaling, rule.rounding, rule.axis)
        top = rule.format.max

        def scaled(x: Tensor, seed: int, scale: float) -> Rounded:
            values, used = quantizer.quantize_with_scale(x, seed)
            return Rounded(values, used, top * used if isinstance(used, float) else None)

        return scaled
    return _plain(rule)


def _plain(rule: Rule) -> Rounder:
    ready = prepared_of(rule)
    if ready is None:
        axis = -1 if rule.axis is None else rule.axis
        return lambda x, seed, scale: Rounded(rule.format.quantize(x, rule.rounding, seed, axis=axis), 1.0)
    top = rule.format.max
    return lambda x, seed, scale: Rounded(ready(x, seed), 1.0, top)


def prepared_of(rule: Rule) -> Prepared | None:
    """What rounds each number alone, as it is; None where a rule asks for more: a scale, blocks, another quantizer."""
    alone = rule.quantizer is None and rule.scaling is None and not isinstance(rule.format, BlockFormat)
    return prepared(rule.format, rule.rounding) if alone else None


def _own(quantizer: Any) -> Rounder:
    """A quantizer object, with or without coins, with or without telling its scale."""
    telling = getattr(quantizer, "quantize_with_scale", None)
    method = telling or quantizer.quantize
    seeded = "seed" in inspect.signature(method).parameters

    def rounder(x: Tensor, seed: int, scale: float) -> Rounded:
        result = method(x, seed=seed) if seeded else method(x)
        if not telling:
            return Rounded(result)
        values, used = result
        return Rounded(values, used, used if isinstance(used, float) else None)

    return rounder


def _sawb(quantizer: Sawb) -> Rounder:
    """SAWB whose levels are integers times a step: the clip in one pass, rounding in another; the same bits."""
    own, row = _own(quantizer), quantizer.coefficients
    integers = None if row.one_below or quantizer.axis is not None else integers_of(row.levels)
    if integers is None:
        return own
    ready, half = prepared(integers, Rounding(), step=True), np.float32((row.levels - 1) / 2)

    def rounder(x: Tensor, seed: int, scale: float) -> Rounded:
        if x.dtype != torch.float32 or not x.is_cpu or x.is_neg():
            return own(x, seed, scale)
        alpha = float(clip_of(x.contiguous().reshape(-1).numpy(), row))
        if not alpha:
            return own(x, seed, scale)
        step = min(max(float(np.float32(alpha) / half), LEAST_SCALE), GREATEST_SCALE)
        return Rounded(ready(x, scale=step), alpha, alpha)

    return rounder


def _per_layer(rule: Rule) -> Rounder:
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
    """The format with all values divided by a power of two; None where no bias says so or float32 could not hold them.

    The scale is rounded down to a power of two where it is none.
    """
    if not isinstance(format, FloatFormat):
        return None
    octaves = math.frexp(scale)[1] - 1
    bias = (format.bias or 0) + octaves / (2 if format.radix == 4 else 1)
    shifted = replace(format, bias=bias if format.radix == 4 else int(bias), name="")
    fits = shifted.smallest_subnormal >= 2.0**-126 and shifted.max < 2.0**127
    return shifted if fits else None


@lru_cache(maxsize=512)
def both_of(first: Rule, second: Rule, scale: float) -> Both | None:
    """What rounds numbers under two rules in one pass; None where they differ in more than the format.

    Args:
        first, second: rules with a scale for each layer.
        scale: of the layer.
    """
    if not (first.per_layer and second.per_layer) or first.rounding != second.rounding or first.is_random:
        return None
    a, b = _shifted(first.format, scale), _shifted(second.format, scale)
    return None if a is None or b is None or a == b else Both(a, b, first.rounding)
