"""The parts of a recipe: the grid that a tensor is rounded to, and how. Plain data; torch is not needed.

>>> QuantSpec("hfp8_forward")
QuantSpec('hfp8_forward')
>>> QuantSpec("int4", scaling=PerLayerGradScale()).format.label
'int4'
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lplab.checks import check_int, check_positive
from lplab.formats import BlockFormat, Format, Rounding, get
from lplab.formats.rounding import as_rounding
from lplab.quantizers import Hadamard, Scaling


@dataclass(frozen=True)
class PerLayerGradScale:
    """A scale for each layer that follows its gradient in factors of two: ``GradScale`` of Sun et al. 2020.

    Args:
        maximum: the magnitude that the scaled gradient should just not exceed; 64 for radix-4 FP4.
        scale: the first scale, or None to take it from the first gradient.
    """

    maximum: float = 64.0
    scale: float | None = None

    def __post_init__(self) -> None:
        check_positive("maximum", self.maximum)
        if self.scale is not None:
            check_positive("scale", self.scale)


@dataclass(frozen=True)
class LearnedClip:
    """A clip α for each layer that is trained with the weights: PACT (Choi et al. 2018).

    The values are spread evenly over 0 … α, 2^bits of them, where a layer's input has no negative number, else over
    −α … α with 2^bits − 1 of them (our choice: the paper has only ReLU networks). Products of two activations belong
    to no layer with an α; they use SAWB's clip of the same number of bits.

    Args:
        bits: 2 to 8.
        initial: the first α; None takes the 99.9 % quantile of the first input, unless α was set before that.
        least: α never falls below.
    """

    bits: int = 4
    initial: float | None = None
    least: float = 1e-3

    def __post_init__(self) -> None:
        check_int("bits", self.bits, 2, 8)
        check_positive("least", self.least)
        if self.initial is not None:
            check_positive("initial", self.initial)


@dataclass(frozen=True, repr=False)
class QuantSpec:
    """How one tensor role is rounded.

    Args:
        format: a format of :mod:`lplab.formats` or its name. "fp32", the default, leaves the tensor as it is, in
            whatever type the model computes.
        rounding: a name of ``lplab.formats.ROUNDINGS`` or a ``Rounding``.
        scaling: None to round the numbers as they are; a rule of :mod:`lplab.quantizers` such as ``Amax()``;
            :class:`PerLayerGradScale` for gradients; :class:`LearnedClip` for activations, which ignores the format.
        axis: for a scaling rule, a scale for each index along it; for a block format where blocks lie (−1). Or
            "contraction", for a block format or a quantizer that rounds along the last axis: the axis that the product
            sums over, the tokens of a batch one after the other (:mod:`lplab.training.emulation.contraction_gemms`).
        transform: a :class:`~lplab.quantizers.Hadamard` of the numbers along the contraction axis, before they are
            rounded. Both operands of a product must have the same, so that it cancels. Needs ``axis="contraction"``.
        quantizer: an object with ``quantize(x)`` or ``quantize(x, seed=…)`` that replaces all of these, such as
            ``SAWB(bits=2)`` or ``LUQ(samples=2)`` of :mod:`lplab.quantizers`, or your own.

    Rounding is emulated: the rounded numbers are stored in the model's float32.

    Raises:
        ValueError, TypeError: unknown names or a scaling that does not fit.

    >>> QuantSpec().is_identity, QuantSpec("e4m3nf")
    Traceback (most recent call last):
    ...
    ValueError: unknown format 'e4m3nf'; closest: e4m3fn, e4m3, e4m3fnuz; ...
    """

    format: Any = "fp32"
    rounding: Any = "nearest_even"
    scaling: Any = None
    axis: int | str | None = None
    quantizer: Any = None
    transform: Any = None

    def __post_init__(self) -> None:
        format = get(self.format) if isinstance(self.format, str) else self.format
        if not isinstance(format, Format | BlockFormat):
            raise TypeError(f"format must be a format of lplab.formats or its name, got {type(format).__name__}")
        object.__setattr__(self, "format", format)
        object.__setattr__(self, "rounding", as_rounding(self.rounding))
        if self.scaling is not None and not isinstance(self.scaling, Scaling | PerLayerGradScale | LearnedClip):
            raise TypeError(
                "scaling must be None, PerLayerGradScale(), LearnedClip() or a rule such as Amax(), "
                f"got {self.scaling!r}"
            )
        if self.scaling is not None and isinstance(format, BlockFormat):
            raise ValueError(f"{format.label} has scales of its own; scaling must be None")
        if isinstance(self.axis, str) and self.axis != "contraction":
            raise ValueError(f"axis must be a number, 'contraction' or None, got {self.axis!r}")
        if self.axis == "contraction" and self.quantizer is None and not isinstance(format, BlockFormat):
            raise ValueError(f"axis='contraction' needs a block format or a quantizer, got {format.label}")
        if self.transform is not None and not isinstance(self.transform, Hadamard):
            raise TypeError(f"transform must be a lplab.quantizers.Hadamard or None, got {self.transform!r}")
        if self.transform is not None and self.axis != "contraction":
            raise ValueError("a transform cancels along the axis that the product sums over; pass axis='contraction'")
        if self.quantizer is not None and not callable(getattr(self.quantizer, "quantize", None)):
            raise TypeError(f"quantizer must have a method quantize(x), got {self.quantizer!r}")
        if hasattr(self.quantizer, "state_dict"):
            kind = type(self.quantizer).__name__
            raise TypeError(
                f"quantizer must not have state, as {kind} has: all layers would share it; "
                "use scaling=Amax(), or PerLayerGradScale() for gradients"
            )
        if self.quantizer is not None and type(self.quantizer).__hash__ is None:
            raise TypeError(f"quantizer must be hashable (a frozen dataclass is), got {self.quantizer!r}")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:  # needed a hundred times a step, to find the function that rounds
        return hash((self.format, self.rounding, self.scaling, self.axis, self.quantizer, self.transform))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_hash"}  # hashes differ between processes

    @cached_property
    def is_identity(self) -> bool:
        """Whether nothing is rounded."""
        return self.quantizer is None and self.scaling is None and self.format.label == "fp32"

    @cached_property
    def is_random(self) -> bool:
        """Whether rounding may be random. It is assumed of every quantizer object."""
        return self.quantizer is not None or self.rounding.is_stochastic

    @cached_property
    def learned(self) -> LearnedClip | None:
        """The trained clip, where there is one."""
        return self.scaling if isinstance(self.scaling, LearnedClip) and self.quantizer is None else None

    @cached_property
    def per_layer(self) -> PerLayerGradScale | None:
        """The scale that follows the gradient, where there is one."""
        return self.scaling if isinstance(self.scaling, PerLayerGradScale) and self.quantizer is None else None

    @property
    def grid(self) -> str:
        """The name of the grid alone: of the format, or of the quantizer.

        >>> from lplab.quantizers import LUQ, SAWB
        >>> QuantSpec(quantizer=SAWB(2)).grid, QuantSpec(quantizer=LUQ()).grid, QuantSpec(scaling=LearnedClip(4)).grid
        ('SAWB 4 levels', 'LUQ 4 bits', 'PACT 4 bits')
        """
        if self.quantizer is not None:
            return getattr(self.quantizer, "label", type(self.quantizer).__name__)
        if self.learned:
            return f"PACT {self.learned.bits} bits"
        return "float32" if self.is_identity else self.format.label

    @property
    def label(self) -> str:
        """The rule in a few words.

        >>> QuantSpec("dlfloat16", "stochastic").label, QuantSpec(scaling=LearnedClip(2)).label, QuantSpec().label
        ('dlfloat16, stochastic', 'PACT, 2 bits', 'float32')
        """
        if self.quantizer is not None:
            return repr(self.quantizer) + self._transform_label
        if self.learned:
            return f"PACT, {self.learned.bits} bits"
        parts = ["float32" if self.is_identity else self.format.label]
        parts += [self.rounding.mode.replace("_", " ")] if self.rounding != Rounding() else []
        parts += ["a scale for each layer"] if self.per_layer else [repr(self.scaling)] if self.scaling else []
        return ", ".join(parts) + self._transform_label

    @property
    def _transform_label(self) -> str:
        return f" after {self.transform!r}" if self.transform is not None else ""

    def __repr__(self) -> str:
        name = getattr(self.format, "name", "")
        known = name and _is_row(self.format, name)
        arguments = [] if self.format.label == "fp32" else [repr(name) if known else repr(self.format)]
        if self.rounding != Rounding():
            plain = self.rounding == Rounding(self.rounding.mode)
            arguments.append(f"rounding={(self.rounding.mode if plain else self.rounding)!r}")
        for field in ("scaling", "axis", "quantizer", "transform"):
            if getattr(self, field) is not None:
                arguments.append(f"{field}={getattr(self, field)!r}")
        return f"QuantSpec({', '.join(arguments)})"


def _is_row(format: Any, name: str) -> bool:
    """Whether the name is that of this very format in the catalogue."""
    try:
        return get(name) == format
    except ValueError:
        return False


FLOAT32 = QuantSpec()
