"""The inputs of a layer in few bits, with the three published repairs of outliers: split, smooth, rotate.

Split: channels with a value above 6 stay as they are (LLM.int8(), Dettmers et al. 2022, arXiv:2208.07339). Smooth:
:mod:`lplab.quantizers.smoothing`. Rotate: a Hadamard transform of neighbours just before rounding, "online" (QuaRot,
Ashkboos et al. 2024, arXiv:2404.00456).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.checks import check_int, check_number, check_positive
from lplab.quantizers import array_inputs
from lplab.quantizers.hadamard import Hadamard

PER = {"token": "a scale for each row of channels", "tensor": "one scale for all"}
OUTLIER = 6.0
"""The magnitude from which on LLM.int8() multiplies an input channel in 16 bits."""


@dataclass(frozen=True, eq=False)
class LayerInput:
    """Activations on symmetric integers −h … h, h = 2^(bits − 1) − 1; scales from the numbers themselves.

    The weights must be made to fit: their columns multiplied by ``factors``, their rows transformed by ``hadamard``.

    Args:
        bits: 2 to 16; None for no rounding, where only the repairs are of interest.
        per: a key of :data:`PER`.
        clip: the share of the largest magnitude that becomes the largest value, above 0, at most 1.
        outlier: leave channels with a magnitude above it out of the rounding and of the scales; None for no split.
        factors: [channels] to divide by before rounding, or None.
        hadamard: a transform before rounding, or None.

    Raises:
        ValueError: a number out of range, or an unknown ``per``.

    >>> x = np.array([[0.5, 0.25, 100.0], [0.5, -1.0, 3.0]])
    >>> LayerInput(4).quantize(x).round(2)
    array([[  0.  ,   0.  , 100.  ],
           [  0.43,  -0.86,   3.  ]])
    >>> LayerInput(4, "tensor", outlier=6.0).quantize(x).round(2)
    array([[  0.57,   0.29, 100.  ],
           [  0.57,  -1.  ,   3.  ]])
    """

    bits: int | None = 8
    per: str = "token"
    clip: float = 1.0
    outlier: float | None = None
    factors: Any = None
    hadamard: Hadamard | None = None

    def __post_init__(self) -> None:
        if self.bits is not None:
            check_int("bits", self.bits, 2, 16)
        if self.per not in PER:
            raise ValueError(f"per must be {' or '.join(map(repr, PER))}, got {self.per!r}")
        if not 0 < check_number("clip", self.clip) <= 1:
            raise ValueError(f"clip must be above 0 and at most 1, got {self.clip}")
        if self.outlier is not None:
            check_positive("outlier", self.outlier)

    @property
    def label(self) -> str:
        """The rule in a few words, for tables."""
        parts = ["float32"] if self.bits is None else [f"int{self.bits}", PER[self.per]]
        parts += [f"channels above {self.outlier:g} as they are"] if self.outlier is not None else []
        parts += ["smoothed"] if self.factors is not None else []
        parts += [f"after a Hadamard transform of {self.hadamard.size}"] if self.hadamard is not None else []
        return ", ".join(parts)

    @array_inputs.no_torch_compile
    def quantize(self, x: Any) -> Any:
        """[..., channels] in the kind and dtype of x; divided by the factors and transformed, where there are such.

        Raises:
            ValueError: there are factors for another number of channels.
        """
        xp, array, close = array_inputs.to_working_array(x)
        if self.factors is not None:
            if len(self.factors) != array.shape[-1]:
                raise ValueError(f"there are factors for {len(self.factors)} channels, x has {array.shape[-1]}")
            factors: Any = self.factors if xp is not np else np.asarray(self.factors)
            array = array / (factors.astype(array.dtype) if xp is np else factors.to(array))
        if self.hadamard is not None:
            array = self.hadamard.apply(array)
        if 0 in array.shape:
            return close(array)
        if self.bits is None:
            return close(array)
        wide = split_channels(xp, array, self.outlier) if self.outlier is not None else None
        rounded = array if wide is None else xp.where(wide, xp.zeros_like(array), array)
        magnitudes = xp.abs(rounded)
        top = magnitudes.max() if self.per == "tensor" else xp.amax(magnitudes, -1)[..., None]
        half = 2 ** (self.bits - 1) - 1
        step = top * (self.clip / half)
        step = xp.where(step > 0, step, xp.ones_like(step))
        values = xp.clip(xp.round(rounded / step), -half, half) * step + 0.0  # integers have no −0
        return close(values if wide is None else xp.where(wide, array, values))


def split_channels(xp: Any, x: Any, outlier: float = OUTLIER) -> Any:
    """Which channels (last axis) have a magnitude above ``outlier`` anywhere: bool [channels].

    >>> split_channels(np, np.array([[1.0, 7.0], [2.0, 0.0]])).tolist()
    [False, True]
    """
    return xp.amax(xp.abs(x).reshape(-1, x.shape[-1]), 0) > outlier


def llm_int8(x: Any, w: Any, outlier: float = OUTLIER) -> Any:
    """The product x · wᵀ as LLM.int8() computes it: a scale for each row of x and of w, outlier channels in full.

    Args:
        x: array or tensor [..., inputs].
        w: matrix [outputs, inputs].
        outlier: channels of x with a larger magnitude are multiplied as they are, with the weights as they are.

    Returns:
        [..., outputs], the kind and dtype of x.

    >>> x, w = np.array([[1.0, 20.0, 0.3]]), np.array([[0.5, 0.123, 0.2]])
    >>> round(float(abs(llm_int8(x, w) - x @ w.T)[0, 0]), 4)
    0.0001
    """
    xp, array, close = array_inputs.to_working_array(x)
    matrix = array_inputs.to_working_array(w).x
    wide = split_channels(xp, array, outlier)
    narrow = [xp.where(wide, xp.zeros_like(each), each) for each in (array, matrix)]
    left, right = (LayerInput(8).quantize(each) for each in narrow)
    product = left @ right.T + xp.where(wide, array, xp.zeros_like(array)) @ matrix.T
    return close(product)
