"""A quantizer: a format, a scaling rule, a rounding and an axis."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.formats import BlockFormat, CodebookFormat, FloatFormat, Format, IntFormat, PositFormat, Rounding, get
from lplab.formats.rounding import as_rounding
from lplab.lookup import NamedSettings, refuse_wrong_attributes
from lplab.quantizers import array_inputs
from lplab.quantizers.scaling import MAX_SCALE, MIN_SCALE, Scaling


@dataclass(frozen=True)
class Quantizer(NamedSettings):
    """Scale a tensor, round it to a format, scale it back ("fake quantization").

    Args:
        format: a format of :mod:`lplab.formats` or its name in the catalogue.
        scaling: how the scale is chosen: :class:`~lplab.quantizers.Amax`, :class:`~lplab.quantizers.Percentile`,
            :class:`~lplab.quantizers.MinMSE`, or None for no scale at all. With a scale the format always
            saturates: infinity becomes the largest value times the scale. Block formats have their own scales and
            need None.
        rounding: a name from ``lplab.formats.ROUNDINGS`` or a ``Rounding``.
        axis: None: one scale for the tensor; an axis: one scale for each index along it ("per channel": 0 for
            the weights of torch's Linear and Conv layers). For block formats the axis of the blocks.
        clip_gradient: for torch tensors: no gradient where a value was clipped.

    NaN stays NaN and is ignored in scales. Minus infinity becomes the lowest value times the scale; but where all
    values of the format are positive (E8M0), negative numbers become NaN. Without a scale infinity becomes what the
    format says: see ``saturating`` there; a block with infinity becomes NaN. See
    :class:`~lplab.quantizers.scaling.Scaling` for empty and zero tensors.

    Raises:
        ValueError, TypeError: unknown names, a rule for a block format, an axis without a rule.

    >>> from lplab.quantizers import Amax
    >>> weights = np.array([[1.0, -0.3], [100.0, 30.0]], np.float32)
    >>> Quantizer("int4", Amax(), axis=0).quantize(weights)
    array([[  1.        ,  -0.2857143],
           [100.        ,  28.571428 ]], dtype=float32)
    """

    if not TYPE_CHECKING:
        __getattr__ = refuse_wrong_attributes("lplab.quantizers.Quantizer")

    format: Any
    scaling: Scaling | None = None
    rounding: Any = "nearest_even"
    axis: int | None = None
    clip_gradient: bool = False

    def __post_init__(self) -> None:
        format = get(self.format) if isinstance(self.format, str) else self.format
        if not isinstance(format, Format | BlockFormat):
            raise TypeError(f"format must be a format of lplab.formats or its name, got {type(format).__name__}")
        if self.scaling is not None and not isinstance(self.scaling, Scaling):
            raise TypeError(f"scaling must be a rule such as Amax() or None, got {self.scaling!r}")
        if self.scaling is not None and isinstance(format, BlockFormat):
            raise ValueError(f"{format.label} brings scales of its own; scaling must be None")
        if self.axis is not None and self.scaling is None and not isinstance(format, BlockFormat):
            raise ValueError("axis needs a scaling rule: without one there is no scale to have for each channel")
        if self.axis is not None:
            object.__setattr__(self, "axis", operator.index(self.axis))
        object.__setattr__(self, "format", saturating(format) if self.scaling else format)
        object.__setattr__(self, "rounding", as_rounding(self.rounding))

    @array_inputs.no_torch_compile
    def scale(self, x: Any) -> Any:
        """The scale: a Python float per tensor; with an axis an array [channels] of the kind of x.

        Computed in the working dtype of x (float32 for half precision), which the array has too.

        Raises:
            ValueError: the quantizer has no scaling rule, or x lacks the axis.
        """
        if self.scaling is None:
            raise ValueError(f"this quantizer has no scaling rule: {self.format.label} is taken as it is")
        xp, array, _ = array_inputs.to_working_array(x)
        scales = self._scales(xp, array, None)
        return float(scales[0]) if self.axis is None else array_inputs.to_kind_of(x, scales)

    def _scales(self, xp: Any, x: Any, scale: Any) -> Any:
        """The scales of a working array, [1] or [channels]: the rule's, or the given one."""
        if scale is not None:
            return as_scale(xp, x, scale, self.axis)
        assert self.scaling is not None
        return self.scaling.scales(xp, array_inputs.as_rows(x, self.axis), self.format)

    @array_inputs.no_torch_compile
    def quantize(self, x: Any, seed: Any = None, scale: Any = None) -> Any:
        """The values of x on the grid; the kind, shape, dtype and device of x.

        Args:
            x: numpy array, torch tensor, number or list. A tensor that requires a gradient gets it straight through.
            seed: for stochastic rounding; see ``Format.quantize``.
            scale: use this scale instead of the rule's: a positive number, or [channels] of them with an axis. It is
                rounded to the working dtype and kept within 2^−100 … 2^100.
        """
        return self.quantize_with_scale(x, seed, scale)[0]

    @array_inputs.no_torch_compile
    def quantize_with_scale(self, x: Any, seed: Any = None, scale: Any = None) -> tuple[Any, Any]:
        """The values and the scale that was used (1.0 where there is none).

        >>> from lplab.quantizers import Amax
        >>> Quantizer("int8", Amax(power_of_two=True)).quantize_with_scale([1.0, 0.3])
        (array([1.      , 0.296875]), 0.015625)
        """
        if self.scaling is None and scale is None:
            return self._cast(x, seed), 1.0
        if isinstance(self.format, BlockFormat):
            raise ValueError(f"{self.format.label} brings scales of its own; scale must be None")
        xp, array, close = array_inputs.to_working_array(x)
        scales = self._scales(xp, array, scale)
        values = close(quantize_scaled(xp, array, scales, self.axis, saturating(self.format), self.rounding, seed))
        inside = (lambda: self._inside(xp, array, scales)) if self.clip_gradient else None
        used = float(scales[0]) if self.axis is None else array_inputs.to_kind_of(x, scales)
        return array_inputs.straight_through(x, values, inside), used

    def _cast(self, x: Any, seed: Any) -> Any:
        block = {"axis": -1 if self.axis is None else self.axis} if isinstance(self.format, BlockFormat) else {}
        if not self.clip_gradient or not array_inputs.requires_gradient(x):
            return self.format.quantize(x, self.rounding, seed, **block)
        values = self.format.quantize(x.detach(), self.rounding, seed, **block)
        return array_inputs.straight_through(x, values, lambda: (x >= self.format.min) & (x <= self.format.max))

    def _inside(self, xp: Any, x: Any, scales: Any) -> Any:
        scale = array_inputs.broadcast_scale(scales, x, self.axis)
        return (x >= scale * self.format.min) & (x <= scale * self.format.max)


def saturating(format: Any) -> Any:
    """The format with overflow and infinity to its largest value instead of infinity or NaN.

    >>> saturating(get("e5m2")).quantize(1e6), saturating(get("int8")) is get("int8")
    (57344.0, True)
    """
    if isinstance(format, FloatFormat | PositFormat) and format.saturating is not True:
        return replace(format, saturating=True)
    if isinstance(format, CodebookFormat) and format.beyond is not None:
        return replace(format, beyond=None)
    return format


def as_scale(xp: Any, x: Any, scale: Any, axis: int | None) -> Any:
    """Convert a given scale to [1] or [channels], in the library, dtype and device of x.

    Raises:
        ValueError: not positive and finite, or not one for each channel.
    """
    count = 1 if axis is None else x.shape[axis]
    given = xp.asarray(scale, dtype=x.dtype) if xp is np else xp.as_tensor(scale, dtype=x.dtype, device=x.device)
    if tuple(given.shape) not in ({(), (1,)} if axis is None else {(count,)}):
        allowed = "one number" if axis is None else f"{count} numbers, one for each channel"
        raise ValueError(f"scale must be {allowed}, got the shape {tuple(given.shape)}")
    if not bool(((given > 0) & xp.isfinite(given)).all()):
        raise ValueError(f"a scale must be positive and finite, got {scale!r}")
    return xp.clip(given.reshape(-1), MIN_SCALE, MAX_SCALE)


def quantize_scaled(
    xp: Any, x: Any, scales: Any, axis: int | None, format: Any, rounding: str | Rounding, seed: Any
) -> Any:
    """scale · format.quantize(x / scale) for a working array, with a scale for each index along ``axis``.

    The division and the product are single operations in the dtype of x. Integers with one scale are an ``IntFormat``
    with that scale, which does the same in one pass over the memory.
    """
    if axis is None and isinstance(format, IntFormat) and format.scale == 1.0:
        return replace(format, scale=float(scales[0]), name="").quantize(x, rounding, seed)
    scale = array_inputs.broadcast_scale(scales, x, axis)
    with np.errstate(over="ignore", under="ignore"):  # overflow saturates in the format
        values = xp.asarray(x / scale)
        format.quantize(values, rounding, seed, out=values)
        return xp.multiply(values, scale, out=values)
