"""Every value in a format of 4 or 8 bits, with one scale for each layer: the outer gradients of Streaming DiLoCo.

Streaming DiLoCo (Douillard et al. 2025, arXiv 2501.18512) sends outer gradients as a sign and three exponent bits, and
adds them in float32. Others send them in 8 bits. There is no residual.

Message: the scale, float32 little-endian; then the codes of the format, packed without gaps, lowest bit first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lplab import formats
from lplab.compression import arrays
from lplab.compression.compressor import (
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    dense_mean,
    element_count,
    flat_gradient,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.wire.bits import pack_fields, unpack_fields
from lplab.compression.wire.values import scales

E3M0 = formats.FloatFormat(exponent_bits=3, mantissa_bits=0, specials="none", name="e3m0")
"""A sign and three exponent bits: zero, and the powers of two from 1/4 to 16."""
FORMATS = {E3M0.name: E3M0} | {name: formats.get(name) for name in ("e2m1", "int4", "e4m3fn", "e5m2", "int8")}


@dataclass(frozen=True)
class LowBit(Compressor):
    """All values in few bits, rounded to nearest, without a residual.

    The largest magnitude of a layer becomes the largest number of the format.

    Args:
        format: "e3m0", "e2m1" or "int4", which have 4 bits, or "e4m3fn", "e5m2" or "int8", which have 8.

    Raises:
        ValueError: another format.

    >>> LowBit("e3m0").plan((1000,))
    (Transfer(kind='all_gather', payload_bytes=504),)
    """

    format: str = "e3m0"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format not in FORMATS:
            raise ValueError(f"unknown format {self.format!r}; allowed: {', '.join(FORMATS)}")

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        xp, fmt, g = arrays.of(gradient), FORMATS[self.format], flat_gradient(gradient, state)
        scale = xp.divided(abs(g).max(), float(fmt.max))
        codes = pack_fields(fmt.encode(in_units(g, scale, fmt)), fmt.bits)
        payload = xp.concatenate([xp.float_bytes(scale), codes])
        average = yield AllGather(payload, dense_mean(len(g), self.decode))
        return average.reshape(gradient.shape)

    def decode(self, payload: Any, numel: int) -> Any:
        """Decode a message: float32, flat.

        Raises:
            ValueError: a damaged message.
        """
        xp, fmt, scale = arrays.of(payload), FORMATS[self.format], scales(payload, 1, signed=False)[0]
        values = xp.cast(fmt.decode(xp.cast(unpack_fields(payload[4:], fmt.bits, numel), "uint8")), "float32")
        if not xp.isfinite(values).all():
            raise ValueError("this message is damaged: a value is not finite")
        return values * scale

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """A scale and a code for each element."""
        return (Transfer("all_gather", 4 + -(-element_count(shape) * FORMATS[self.format].bits // 8)),)


def in_units(x: Any, scale: Any, fmt: Any) -> Any:
    """Numbers divided by their scale, as far as the format reaches; a scale that is 0 or NaN counts as 1.

    Args:
        x: float32, an array or a tensor.
        scale: float32, broadcast against x.
        fmt: the format.

    >>> import numpy as np
    >>> in_units(np.float32([3, 15]), np.float32(2), FORMATS["int4"]).tolist()
    [1.5, 7.0]
    """
    xp, most = arrays.of(x), float(fmt.max)
    # The quotient by a scale that is rounded, or subnormal, can be a little larger than the largest number.
    return xp.clip(x / xp.where(scale > 0, scale, 1), -most, most)
