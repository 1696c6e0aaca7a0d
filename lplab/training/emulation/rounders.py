"""The rounding of tensors by a rule of a recipe: one :class:`TensorRounder` for each rule, chosen once.

This module needs PyTorch.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lplab.formats import BlockFormat, FloatFormat, IntFormat, Rounding
from lplab.formats.paths.array_kernels import MIN_ELEMENTS_TO_SHARE
from lplab.formats.recorded import recorded
from lplab.quantizers import LUQ, SAWB, Hadamard, PreScaled, Quantizer
from lplab.quantizers.luq import sample_seeds
from lplab.quantizers.reductions import largest, largest_at
from lplab.quantizers.sawb import clips_of_rows, integers_of, sawb_at
from lplab.quantizers.scaling import bounded
from lplab.training.emulation.prepared_rounding import DualRounding, Prepared, prepared
from lplab.training.recipe.quant_spec import QuantSpec

MAX_SHAPES_OF_ZEROS = 16


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


class TensorRounder:
    """Rounds tensors without gradients by one rule.

    A subclass has ``__call__``. The other methods have the same bits; a subclass has one of its own where that is
    faster.

    Attributes:
        is_random: whether the values depend on the seed.
    """

    is_random = False

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor.

        Args:
            x: the tensor.
            seed: of the random bits.
            scale: the gradient scale of the layer, where the rule has one.
        """
        raise NotImplementedError

    def values(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Tensor:
        """The numbers on the grid alone."""
        return self(x, seed, scale).values

    def transformed(self, transform: Hadamard, x: Tensor, seed: int) -> Tensor:
        """The numbers on the grid of a transform along the last axis."""
        return self.values(transform.apply(x), seed)

    def round_at(self, x: int, out: int, count: int, seed: int) -> bool:
        """Round contiguous float32 from one address to another; small tensors are rounded so in half the time.

        Args:
            x, out: addresses of disjoint memory.
            count: how many numbers there are.
            seed: of the random bits.

        Returns:
            Whether the numbers are rounded. If not, nothing was written, and a call with the same seed has to do it.
        """
        return False

    def round_into(self, xs: list[Tensor], outs: list[Tensor], seeds: list[int]) -> None:
        """Round many tensors into the memory of others of the same shapes."""
        for x, out, seed in zip(xs, outs, seeds, strict=True):
            out.copy_(self.values(x, seed) if x.numel() else x)

    def recorded(self, x: Tensor, scale: float) -> Tensor:
        """The numbers on the grid by a call that PyTorch records; see :mod:`lplab.formats.recorded`."""
        return recorded(lambda y, s: self.values(y, 0, s), self, x, scale)


class ElementwiseRounder(TensorRounder):
    """A format without blocks, and no scale."""

    def __init__(self, rule: QuantSpec) -> None:
        ready = prepared(rule.format, rule.rounding)
        self.limit, self.is_random = rule.format.max, rule.rounding.is_stochastic
        self.values = ready  # type: ignore[method-assign]
        self.round_at, self.round_into = ready.round_at, ready.round_into  # type: ignore[method-assign]

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor."""
        return Rounded(self.values(x, seed), 1.0, self.limit)


class BlockRounder(TensorRounder):
    """A format whose numbers share scales; they lie along the last axis where the rule names none."""

    def __init__(self, rule: QuantSpec) -> None:
        self.format, self.rounding = rule.format, rule.rounding
        self.axis = rule.axis if isinstance(rule.axis, int) else -1  # the axis of a product's sum is the last one here
        self.is_random = rule.rounding.is_stochastic

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor."""
        return Rounded(self.format.quantize(x, self.rounding, seed, axis=self.axis))

    def transformed(self, transform: Hadamard, x: Tensor, seed: int) -> Tensor:
        """The numbers on the grid of a transform: on a GPU one kernel does both."""
        return transform.quantize(x, self.format, self.rounding, seed)


class QuantizerRounder(TensorRounder):
    """A quantizer object, with or without a seed, with or without ``quantize_with_scale``.

    Args:
        quantizer: the object.
        top: the largest magnitude of the grid in units of the scale.
    """

    def __init__(self, quantizer: Any, top: float = 1.0) -> None:
        self.with_scale = getattr(quantizer, "quantize_with_scale", None)
        self.method = self.with_scale or quantizer.quantize
        self.has_seed = "seed" in inspect.signature(self.method).parameters
        self.is_random = isinstance(quantizer, LUQ)
        self.top = top

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor."""
        result = self.method(x, seed=seed) if self.has_seed else self.method(x)
        if not self.with_scale:
            return Rounded(result)
        values, used = result
        return Rounded(values, used, self.top * used if isinstance(used, float) else None)


class PreScaledRounder(QuantizerRounder):
    """MX blocks whose numbers are made smaller before they are rounded."""

    def __init__(self, quantizer: PreScaled) -> None:
        super().__init__(quantizer)
        self.quantizer = quantizer

    def transformed(self, transform: Hadamard, x: Tensor, seed: int) -> Tensor:
        """The numbers on the grid of a transform: on a GPU one kernel does both."""
        return self.quantizer.quantize_transformed(transform, x, seed)


class SAWBRounder(QuantizerRounder):
    """SAWB whose levels are integers times a step: the clip in one pass, rounding in another; the same bits."""

    def __init__(self, quantizer: SAWB, integers: IntFormat) -> None:
        super().__init__(quantizer)
        self.row, self.ready = quantizer.coefficients, prepared(integers, Rounding(), step=True)
        self.half = np.float32((self.row.levels - 1) // 2)
        # a recurrent layer begins each sequence with zeros, which have no clip
        self.zeros: dict[torch.Size, Rounded] = {}

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor."""
        if x.dtype != torch.float32 or not x.is_cpu or x.is_neg():
            return super().__call__(x)
        if x.numel() < MIN_ELEMENTS_TO_SHARE and x.is_contiguous():
            values = torch.empty_like(x)
            alpha = sawb_at(x.data_ptr(), values.data_ptr(), x.numel(), self.row)
            if alpha:
                return Rounded(values, alpha, alpha)
            if not x.numpy().view(np.int32).any():  # all are +0
                return self._of_zeros(x)
        rows = x.contiguous().numpy().reshape(1, -1)  # numpy reshapes faster than PyTorch
        (clip,) = clips_of_rows(np, rows, self.row)
        if not clip:
            return super().__call__(x)
        return Rounded(self.ready(x, scale=bounded(float(clip / self.half))), float(clip), float(clip))

    def round_at(self, x: int, out: int, count: int, seed: int) -> bool:
        """Round from one address to another."""
        return count < MIN_ELEMENTS_TO_SHARE and sawb_at(x, out, count, self.row) > 0

    def _of_zeros(self, x: Tensor) -> Rounded:
        rounded = self.zeros.get(x.shape)
        if rounded is None:
            if len(self.zeros) >= MAX_SHAPES_OF_ZEROS:
                self.zeros.clear()
            rounded = self.zeros[x.shape] = super().__call__(x)
        return rounded._replace(values=rounded.values.clone())


class LUQRounder(QuantizerRounder):
    """LUQ with random bits: the largest magnitude in one pass, each sample in another; the same bits."""

    def __init__(self, quantizer: LUQ) -> None:
        super().__init__(quantizer)
        self.samples, self.alpha_of = quantizer.samples, quantizer.alpha_of
        self.ready = prepared(quantizer.format, Rounding("stochastic", quantizer.random_bits), step=True)

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor."""
        if x.dtype != torch.float32 or not x.is_cpu or x.is_neg():
            return super().__call__(x, seed)
        x = x.contiguous()  # once for all passes; random bits are numbered in this order
        top = largest(x.numpy())
        if not 0 < top < math.inf:  # nothing to round, or numbers that do not count in the maximum
            return super().__call__(x, seed)
        alpha = self.alpha_of(top)
        first, *others = sample_seeds(seed, self.samples)
        values = self.ready(x, first, alpha)
        for number in others:
            values += self.ready(x, number, alpha)
        return Rounded(values / self.samples if others else values)

    def round_at(self, x: int, out: int, count: int, seed: int) -> bool:
        """Round from one address to another."""
        if self.samples > 1 or count >= MIN_ELEMENTS_TO_SHARE:
            return False
        top = largest_at(x, count)
        return 0 < top < math.inf and self.ready.round_at(x, out, count, seed, self.alpha_of(top))


class PerLayerRounder(TensorRounder):
    """Round(x · s) / s with s a power of two. A float format is shifted by its bias instead: one pass, same bits."""

    def __init__(self, rule: QuantSpec) -> None:
        self.format, self.rounding, self.is_random = rule.format, rule.rounding, rule.rounding.is_stochastic
        self.ready: dict[float, Prepared | None] = {}  # by scale

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor."""
        if scale not in self.ready:
            shifted = _shifted(self.format, scale)
            self.ready[scale] = None if shifted is None else prepared(shifted, self.rounding)
        ready = self.ready[scale]
        values = self.format.quantize(x * scale, self.rounding, seed).div_(scale) if ready is None else ready(x, seed)
        return Rounded(values, 1 / scale, self.format.max / scale)


class ClipRounder(TensorRounder):
    """The nearest of 2^bits values over 0 … α, or of 2^bits − 1 over −α … α; the scale is α.

    >>> ClipRounder(4, signed=True).values(torch.tensor([6.6, -1.0]), scale=7.0)
    tensor([ 7., -1.])
    >>> ClipRounder(2, signed=False).values(torch.tensor([-1.0, 1.9]), scale=3.0)
    tensor([0., 2.])
    """

    def __init__(self, bits: int, signed: bool) -> None:
        self.steps = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
        self.ready = prepared(IntFormat(bits, symmetric=signed, signed=signed), Rounding(), step=True)

    def __call__(self, x: Tensor, seed: int = 0, scale: float = 1.0) -> Rounded:
        """The rounded tensor."""
        return Rounded(self.ready(x, scale=scale / self.steps), scale, scale)


@lru_cache(maxsize=1024)
def rounder_of(rule: QuantSpec) -> TensorRounder:
    """The rounder of a rule that rounds; a trained clip has a :class:`ClipRounder` instead.

    >>> rounder_of(QuantSpec("int4"))(torch.tensor([1.4, 99.0])).values
    tensor([1., 7.])
    """
    quantizer = rule.quantizer
    if isinstance(quantizer, SAWB):
        row, integers = quantizer.coefficients, integers_of(quantizer.coefficients.levels)
        if integers is None or row.extra_negative_level or quantizer.axis is not None:
            return QuantizerRounder(quantizer)
        return SAWBRounder(quantizer, integers)
    if isinstance(quantizer, LUQ) and not quantizer.nearest:
        return LUQRounder(quantizer)
    if quantizer is not None:
        return PreScaledRounder(quantizer) if isinstance(quantizer, PreScaled) else QuantizerRounder(quantizer)
    if rule.per_layer:
        return PerLayerRounder(rule)
    if rule.scaling is not None:
        axis = rule.axis if isinstance(rule.axis, int) else None  # "contraction" is for block formats
        rounder = QuantizerRounder(Quantizer(rule.format, rule.scaling, rule.rounding, axis), rule.format.max)
        rounder.is_random = rule.rounding.is_stochastic
        return rounder
    return BlockRounder(rule) if isinstance(rule.format, BlockFormat) else ElementwiseRounder(rule)


@lru_cache(maxsize=256)
def clip_rounder(bits: int, signed: bool) -> ClipRounder:
    """The one :class:`ClipRounder` of these arguments."""
    return ClipRounder(bits, signed)


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
