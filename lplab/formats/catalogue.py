"""The catalogue: published formats by name. A new format is a new row."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from lplab.formats.block_format import E8M0, BlockFormat
from lplab.formats.codebook import CodebookFormat
from lplab.formats.fixed import FixedFormat
from lplab.formats.floating import FloatFormat
from lplab.formats.integer import IntFormat
from lplab.formats.logarithmic import LogFormat
from lplab.formats.posit import PositFormat
from lplab.lookup import closest_names


def _float(name: str, exponent_bits: int, mantissa_bits: int, **more: Any) -> FloatFormat:
    return FloatFormat(exponent_bits, mantissa_bits, name=name, **more)


_E4M3FN = _float("e4m3fn", 4, 3, specials="fn")
_E5M2 = _float("e5m2", 5, 2)
_E3M2 = _float("e3m2", 3, 2, specials="none")
_E2M3 = _float("e2m3", 2, 3, specials="none")
_E2M1 = _float("e2m1", 2, 1, specials="none")

# QLoRA (Dettmers et al. 2023), appendix E: quantiles of a normal distribution over their largest, seven below zero,
# zero and eight above; in float32
_NF4 = (
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
    *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)

_ROWS = (
    # IEEE 754 and its relatives
    _float("fp32", 8, 23),
    _float("tf32", 8, 10),
    _float("bf16", 8, 7),
    _float("fp16", 5, 10),
    # IBM: DLFloat16 (2019); FP8 of 2018 and the hybrid pair of 2019, read as saturating formats without infinity
    _float("dlfloat16", 6, 9, bias=31, specials="dlfloat", subnormals=False),
    _float("fp8_152", 5, 2, saturating=True),
    _float("hfp8_forward", 4, 3, bias=11, specials="fnuz"),
    _float("hfp8_backward", 5, 2, saturating=True),
    # Sun et al. 2020: ±4^(e − 4), and half of it
    _float("radix4_fp4_even", 3, 0, bias=4, radix=4, subnormals=False, specials="none"),
    _float("radix4_fp4_odd", 3, 0, bias=4.5, radix=4, subnormals=False, specials="none"),
    # OCP FP8 and its variants
    _E4M3FN,
    _E5M2,
    _float("e4m3fnuz", 4, 3, specials="fnuz"),
    _float("e5m2fnuz", 5, 2, specials="fnuz"),
    _float("e4m3b11fnuz", 4, 3, bias=11, specials="fnuz"),
    _float("e4m3", 4, 3),
    _float("e3m4", 3, 4),
    # OCP MX elements and scale
    _E3M2,
    _E2M3,
    _E2M1,
    E8M0,
    # IEEE P3109, signed and extended
    _float("binary8p3", 5, 2, specials="p3109"),
    _float("binary8p4", 4, 3, specials="p3109"),
    _float("binary8p5", 3, 4, specials="p3109"),
    # integers and fixed point
    IntFormat(2, name="int2"),
    IntFormat(4, name="int4"),
    IntFormat(8, name="int8"),
    FixedFormat(4, 12),
    # values of a table
    CodebookFormat(_NF4, name="nf4"),
    # posits and logarithmic numbers
    PositFormat(8, 1),
    PositFormat(16, 1),
    PositFormat(8, 2),
    PositFormat(16, 2),
    LogFormat(8, 3, name="lns8"),
    # blocks
    BlockFormat(_E4M3FN, name="mxfp8_e4m3"),
    BlockFormat(FloatFormat(5, 2, saturating=True, name="e5m2"), name="mxfp8_e5m2"),
    BlockFormat(_E3M2, name="mxfp6_e3m2"),
    BlockFormat(_E2M3, name="mxfp6_e2m3"),
    BlockFormat(_E2M1, name="mxfp4"),
    BlockFormat(IntFormat(8, symmetric=True, scale=2.0**-6), name="mxint8"),
    BlockFormat(_E2M1, scale=_E4M3FN, block_size=16, tensor_scale=True, name="nvfp4"),
)
_CATALOGUE = {row.name: row for row in _ROWS}
_ALIASES = {  # what numpy, PyTorch and ml_dtypes call some of them
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e3m4": "e3m4",
    "float8_e4m3": "e4m3",
    "float8_e4m3fn": "e4m3fn",
    "float8_e4m3b11fnuz": "e4m3b11fnuz",
    "float8_e5m2": "e5m2",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2fnuz": "e5m2fnuz",
    "float8_e8m0fnu": "e8m0",
    "float6_e2m3fn": "e2m3",
    "float6_e3m2fn": "e3m2",
    "float4_e2m1fn": "e2m1",
}
_KINDS = {  # what people call several of them, or one that has a longer name
    "fp8": ("e4m3fn", "e5m2"),
    "fp6": ("e2m3", "e3m2"),
    "fp4": ("e2m1", "nvfp4", "mxfp4"),
    "mx": ("mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "mxint8"),
    "mxfp8": ("mxfp8_e4m3", "mxfp8_e5m2"),
    "mxfp6": ("mxfp6_e2m3", "mxfp6_e3m2"),
    "hfp8": ("hfp8_forward", "hfp8_backward"),
    "radix4": ("radix4_fp4_even", "radix4_fp4_odd"),
    "posit8": ("posit8_1", "posit8_2"),
    "posit16": ("posit16_1", "posit16_2"),
    "lns": ("lns8",),
    "half": ("fp16",),
    "single": ("fp32",),
}


def names() -> list[str]:
    """The names of the catalogue, in the order of its rows; ``get`` also knows every qI.F and P3109 format.

    >>> names()[:4]
    ['fp32', 'tf32', 'bf16', 'fp16']
    """
    return list(_CATALOGUE)


@lru_cache(maxsize=1024)  # formats keep what they have prepared, also those that are no rows
def get(name: str) -> Any:
    """The format with this name, or with the name that numpy, PyTorch and ml_dtypes have for it.

    Besides the catalogue: qI.F is fixed point, and binaryKpP with "se", "sf", "ue" or "uf" the format of IEEE P3109
    with K bits and P significant ones, signed or unsigned, extended (with infinity) or finite. Its saturation mode is
    the field ``saturating`` of :class:`FloatFormat`.

    Raises:
        ValueError: no such name; the message has the closest ones. Or P3109 has no format of these widths.

    >>> get("bf16")
    FloatFormat(exponent_bits=8, mantissa_bits=7, bias=127, saturating=False, name='bf16')
    >>> get("bfloat16") is get("bf16")
    True
    >>> get("q8.8").max, get("binary8p4uf").max, get("Binary8p3se") == get("binary8p3")
    (127.99609375, 57344.0, True)
    >>> get("e4m3nf")
    Traceback (most recent call last):
    ...
    ValueError: unknown format 'e4m3nf'; closest: e4m3fn, e4m3, e4m3fnuz; the command `lplab formats` lists all
    """
    name = _ALIASES.get(name, name)
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    fixed = re.fullmatch(r"q(\d+)\.(\d+)", str(name))
    if fixed:
        return FixedFormat(int(fixed[1]), int(fixed[2]))
    p3109 = re.fullmatch(r"[Bb]inary(\d+)p(\d+)([su])([ef])", str(name))
    if p3109:
        return _p3109(int(p3109[1]), int(p3109[2]), p3109[3] == "s", p3109[4] == "e")
    kind = str(name).lower().replace("float", "fp")
    close = _KINDS.get(kind) or closest_names(name, _CATALOGUE)
    hint = f"; closest: {', '.join(close)}" if close else ""
    raise ValueError(f"unknown format {name!r}{hint}; the command `lplab formats` lists all")


def _p3109(width: int, precision: int, signed: bool, extended: bool) -> Any:
    """The format of IEEE P3109's interim report with these parameters; some stand in the catalogue."""
    name = f"binary{width}p{precision}{'s' if signed else 'u'}{'e' if extended else 'f'}"
    short = name.removesuffix("se")
    if short in _CATALOGUE:
        return _CATALOGUE[short]
    most = width - signed
    if width < 3 or not 1 <= precision <= most:
        allowed = f"from 1 to {most}" if width >= 3 else "3 bits and more"
        raise ValueError(f"P3109 has no format {name!r}; allowed: {allowed}")
    specials = "p3109" if extended else "p3109_finite"
    return FloatFormat(most + 1 - precision, precision - 1, specials=specials, name=name, signed=signed)
