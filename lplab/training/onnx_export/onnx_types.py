"""The formats that ONNX has a type for.

>>> onnx_type(get("hfp8_forward"))  # 1-4-3 with bias 11 is ONNX's type with bias 8, divided by 8
ONNXType(name='FLOAT8E4M3FNUZ', bits=8, scale=0.125, zero_point=0, saturate=True)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lplab.formats import FixedFormat, FloatFormat, IntFormat, get, names

_FLOATS = {  # exponent bits, mantissa bits, special codes → name and bias
    (4, 3, "fn"): ("FLOAT8E4M3FN", 7),
    (5, 2, "ieee"): ("FLOAT8E5M2", 15),
    (4, 3, "fnuz"): ("FLOAT8E4M3FNUZ", 8),
    (5, 2, "fnuz"): ("FLOAT8E5M2FNUZ", 16),
    (2, 1, "none"): ("FLOAT4E2M1", 1),
}
_INTEGER_BITS = (2, 4, 8, 16)
_OPSETS = {"FLOAT4E2M1": 23, "INT2": 25, "UINT2": 25}
OPSET = 21
"""The operator set that has 4-bit integers; FLOAT4E2M1 needs 23, 2-bit integers 25."""


class ONNXType(NamedTuple):
    """An ONNX type and what makes its codes the values of a format: value = scale · (code − zero_point).

    Attributes:
        name: of ``onnx.TensorProto``.
        bits: of a code.
        scale: a power of two where only the bias differs; the scale of an integer.
        zero_point: of an integer.
        saturate: whether overflow becomes the largest value.
    """

    name: str
    bits: int
    scale: float
    zero_point: int
    saturate: bool

    @property
    def opset(self) -> int:
        """The lowest operator set with this type."""
        return _OPSETS.get(self.name, OPSET)


def onnx_type(format: Any) -> ONNXType | None:
    """The ONNX type whose codes are those of a format; None where there is none.

    >>> onnx_type(get("int4")), onnx_type(get("posit8_1"))
    (ONNXType(name='INT4', bits=4, scale=1.0, zero_point=0, saturate=True), None)
    """
    if isinstance(format, FloatFormat) and format.radix == 2 and format.subnormals:
        row = _FLOATS.get((format.exponent_bits, format.mantissa_bits, format.specials))
        return row and ONNXType(
            row[0], format.bits, 2.0 ** (row[1] - float(format.bias or 0)), 0, bool(format.saturating)
        )
    if isinstance(format, IntFormat) and format.bits in _INTEGER_BITS:
        name = f"{'' if format.signed else 'U'}INT{format.bits}"
        return ONNXType(name, format.bits, float(format.scale), format.zero_point, True)
    if isinstance(format, FixedFormat) and format.bits in _INTEGER_BITS:
        return ONNXType(f"INT{format.bits}", format.bits, 2.0**-format.fraction_bits, 0, True)
    return None


def exportable() -> list[str]:
    """The names of the formats in the catalogue that have an ONNX type.

    >>> exportable()[-4:]
    ['int2', 'int4', 'int8', 'q4.12']
    """
    return [name for name in names() if onnx_type(get(name))]
