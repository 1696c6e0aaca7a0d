"""Rounded tensors in the types of other libraries: ``ml_dtypes``, ``torch.float8_…``, and torchao's block layouts.

The bits are those of ``encode``; nothing is rounded a second time. The other library is imported at the call.

>>> to_ml_dtypes([0.3, 1000.0], "e4m3fn").dtype.name
'float8_e4m3fn'
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from lplab.formats.block_format import E8M0, BlockFormat
from lplab.formats.catalogue import get, names
from lplab.formats.coding import BlockCodes
from lplab.formats.floating import FloatFormat
from lplab.formats.inputs import is_torch
from lplab.formats.integer import IntFormat
from lplab.formats.rounding import Rounding

_FLOAT_TYPES = {  # exponent bits, mantissa bits, bias, special codes
    (4, 3, 7, "fn"): "float8_e4m3fn",
    (5, 2, 15, "ieee"): "float8_e5m2",
    (4, 3, 8, "fnuz"): "float8_e4m3fnuz",
    (5, 2, 16, "fnuz"): "float8_e5m2fnuz",
    (4, 3, 8, "p3109_finite"): "float8_e4m3fnuz",
    (5, 2, 16, "p3109_finite"): "float8_e5m2fnuz",
    (4, 3, 11, "fnuz"): "float8_e4m3b11fnuz",
    (4, 3, 7, "ieee"): "float8_e4m3",
    (3, 4, 3, "ieee"): "float8_e3m4",
    (2, 3, 1, "none"): "float6_e2m3fn",
    (3, 2, 3, "none"): "float6_e3m2fn",
    (2, 1, 1, "none"): "float4_e2m1fn",
    (8, 7, 127, "ieee"): "bfloat16",
    (5, 10, 15, "ieee"): "float16",
    (8, 23, 127, "ieee"): "float32",
}
_MX_ELEMENTS = ("float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")


class TorchaoBlocks(NamedTuple):
    """A tensor in a block format as torchao stores it: arguments of its ``MXTensor`` and ``NVFP4Tensor``.

    Attributes:
        qdata: the elements: 8-bit floats in their torch type and in the shape of the tensor; 6-bit codes as uint8, one
            in a byte; 4-bit codes as uint8, two in a byte, so that the last axis has half the length. Of two, the
            element with the even index lies in the low four bits.
        scale: the blocks' scales, float8_e8m0fnu (MX) or float8_e4m3fn (NVFP4) [..., last axis / block size]; swizzled
            [..., 32·⌈rows / 128⌉, 16·⌈blocks / 4⌉], as the matrix units of NVIDIA's Blackwell read them.
        per_tensor_scale: float32 [] of NVFP4; None in MX.
        is_swizzled: whether the scales are swizzled.
    """

    qdata: Any
    scale: Any
    per_tensor_scale: Any
    is_swizzled: bool


def dtype_name(format: Any) -> str | None:
    """The name of a format's type in ml_dtypes, numpy and torch; None where they have no such type.

    Formats that differ only in what overflow becomes have the same type.

    >>> dtype_name("hfp8_backward"), dtype_name("e2m1"), dtype_name("int4"), dtype_name("posit8_1")
    ('float8_e5m2', 'float4_e2m1fn', 'int4', None)
    """
    format = get(format) if isinstance(format, str) else format
    if isinstance(format, FloatFormat) and format.radix == 2 and format.subnormals and format.signed:
        return _FLOAT_TYPES.get((format.exponent_bits, format.mantissa_bits, int(format.bias or 0), format.specials))
    if isinstance(format, IntFormat) and format.scale == 1 and not format.zero_point and format.bits in (2, 4, 8, 16):
        return f"{'' if format.signed else 'u'}int{format.bits}"
    return "float8_e8m0fnu" if format == E8M0 else None


def to_ml_dtypes(x: Any, format: Any, rounding: str | Rounding = "nearest_even", seed: Any = None) -> np.ndarray:
    """Round x to a format, as a numpy array of the type that ml_dtypes (or numpy) has for it.

    Args:
        x: as for :meth:`~lplab.formats.Format.quantize`: numpy array, torch tensor, number or list.
        format: a format or its name.
        rounding, seed: as for :meth:`~lplab.formats.Format.quantize`.

    Returns:
        An array of the shape of x. Its bits are the codes of ``format.encode(x)``.

    Raises:
        ValueError: there is no such type, or x holds NaN that the format has no code for. ImportError: ml_dtypes is
        needed and missing.

    >>> to_ml_dtypes([1.4, -9.0], "int4").tolist()
    [1, -8]
    >>> to_ml_dtypes([1.0], "posit8_1")
    Traceback (most recent call last):
    ...
    ValueError: ml_dtypes has no type for posit8_1; it has: fp32, bf16, fp16, ...
    """
    format = get(format) if isinstance(format, str) else format
    name = dtype_name(format)
    if name is None:
        raise ValueError(_no_type("ml_dtypes", format, lambda other: dtype_name(other) is not None))
    codes = format.encode(x, rounding, seed)
    codes = np.asarray(codes.cpu().numpy() if is_torch(codes) else codes)
    if name.startswith(("int", "uint")):  # ml_dtypes stores narrow integers with their sign
        return np.asarray(format.decode(codes)).astype(_numpy_type(name))
    return codes.astype(f"uint{max(format.bits, 8)}" if format.bits in (8, 16, 32) else np.uint8).view(
        _numpy_type(name)
    )


def _numpy_type(name: str) -> np.dtype:
    if name in ("float16", "float32", "int8", "uint8", "int16", "uint16"):
        return np.dtype(name)
    return np.dtype(getattr(_library("ml_dtypes"), name))


def to_torch(x: Any, format: Any, rounding: str | Rounding = "nearest_even", seed: Any = None) -> Any:
    """Round x to a format, as a torch tensor of the type that torch has for it, such as ``torch.float8_e4m3fn``.

    Args:
        x: as for :meth:`~lplab.formats.Format.quantize`; a torch tensor stays on its device.
        format: a format or its name.
        rounding, seed: as for :meth:`~lplab.formats.Format.quantize`.

    Returns:
        A tensor of the shape of x. Its bits are the codes of ``format.encode(x)``. E2M1 gives
        ``torch.float4_e2m1fn_x2``, two numbers in a byte: the last axis has half the length, and of two numbers the
        one with the even index lies in the low four bits.

    Raises:
        ValueError: there is no such type; NaN that the format has no code for; an odd last axis of E2M1.
        ImportError: torch is missing.

    >>> to_torch([0.75, 1.0], "e4m3fn")
    tensor([0.7500, 1.0000], dtype=torch.float8_e4m3fn)
    """
    torch = _library("torch")
    format = get(format) if isinstance(format, str) else format
    dtype = _torch_type(torch, format)
    if dtype is None:
        raise ValueError(_no_type("torch", format, lambda other: _torch_type(torch, other) is not None))
    codes = format.encode(x, rounding, seed)
    codes = codes if is_torch(codes) else torch.from_numpy(np.asarray(codes).astype(np.int64))
    if format.bits == 4:
        return _packed(codes.to(torch.uint8), format).view(dtype)
    return codes.to({8: torch.uint8, 16: torch.int16, 32: torch.int32}[format.bits]).view(dtype)


def _torch_type(torch: ModuleType, format: Any) -> Any:
    name = dtype_name(format)
    if name == "float4_e2m1fn":
        return getattr(torch, "float4_e2m1fn_x2", None)
    dtype = getattr(torch, name, None) if name else None
    return None if dtype is None or format.bits < 8 else dtype  # torch.int4 and below are names without arithmetic


def to_torchao(
    x: Any, format: Any, rounding: str | Rounding = "nearest_even", seed: Any = None, *, swizzled: bool = False
) -> TorchaoBlocks:
    """Round x to a block format along its last axis, in the layout of torchao (0.18).

    ``MXTensor(blocks.qdata, blocks.scale, element_type, 32, torch.float32, kernel_preference, None, swizzled)`` and
    ``NVFP4Tensor(blocks.qdata, blocks.scale, 16, torch.float32, blocks.per_tensor_scale, is_swizzled_scales=swizzled)``
    of ``torchao.prototype.mx_formats`` wrap it; torchao is not needed here.

    Args:
        x: numpy array or torch tensor; its last axis is a multiple of the block size.
        format: an MX format with floating-point elements, or NVFP4; or the name of one.
        rounding, seed: of the elements, as for :meth:`BlockFormat.quantize`.
        swizzled: lay the scales out for the matrix units; needs two axes or more.

    Raises:
        ValueError: torchao has no such format; the shape does not fit. ImportError: torch is missing.

    >>> import torch
    >>> blocks = to_torchao(torch.ones(2, 64), "mxfp4")
    >>> blocks.qdata.shape, blocks.scale.shape, blocks.scale.dtype
    (torch.Size([2, 32]), torch.Size([2, 2]), torch.float8_e8m0fnu)
    """
    torch = _library("torch")
    format = get(format) if isinstance(format, str) else format
    _check_torchao(format)
    x = x if is_torch(x) else torch.from_numpy(np.array(x))
    if x.ndim < (2 if swizzled else 1) or x.shape[-1] % format.block_size:
        axes = "two axes or more, the last one" if swizzled else "a last axis that is"
        raise ValueError(f"torchao needs {axes} a multiple of {format.block_size}, got the shape {tuple(x.shape)}")
    codes = format.encode(x, rounding, seed)
    elements = codes.elements
    if format.element.bits == 4:
        elements = _packed(elements, format)
    elif format.element.bits == 8:
        elements = elements.view(_torch_type(torch, format.element))
    scales = _swizzled(torch, codes.scales) if swizzled else codes.scales
    tensor_scale = torch.tensor(codes.tensor_scale, device=x.device) if format.tensor_scale else None
    return TorchaoBlocks(elements, scales.view(_torch_type(torch, format.scale)), tensor_scale, swizzled)


def from_torchao(blocks: TorchaoBlocks, format: Any) -> BlockCodes:
    """The codes of a tensor in torchao's layout; ``format.decode`` makes them numbers. Undoes :func:`to_torchao`.

    Args:
        blocks: of :func:`to_torchao`, or made from the attributes of a tensor of torchao.
        format: the block format or its name.

    Raises:
        ValueError: torchao has no such format, or the shapes do not belong together.

    >>> from lplab.formats import get
    >>> x = np.linspace(-3, 3, 64, dtype=np.float32)
    >>> mxfp4 = get("mxfp4")
    >>> values = mxfp4.decode(from_torchao(to_torchao(x, mxfp4), mxfp4))
    >>> bool((values.numpy() == mxfp4.quantize(x)).all())
    True
    """
    torch = _library("torch")
    format = get(format) if isinstance(format, str) else format
    _check_torchao(format)
    elements, scales = blocks.qdata.view(torch.uint8), blocks.scale.view(torch.uint8)
    if format.element.bits == 4:
        elements = torch.stack([elements & 15, elements >> 4], -1).flatten(-2)
    shape = (*elements.shape[:-1], elements.shape[-1] // format.block_size)
    if blocks.is_swizzled:
        scales = _unswizzled(torch, scales, shape)
    if elements.shape[-1] % format.block_size or tuple(scales.shape) != shape:
        found = f"{tuple(elements.shape)} elements and {tuple(scales.shape)} scales"
        raise ValueError(f"{found} do not belong together in {format.label}, {format.block_size} elements a scale")
    return BlockCodes(elements, scales, 1.0 if blocks.per_tensor_scale is None else float(blocks.per_tensor_scale))


def _check_torchao(format: Any) -> None:
    """Whether torchao has this block format: MX of 32 with floating-point elements, or NVFP4."""
    if isinstance(format, BlockFormat):
        element = dtype_name(format.element)
        scale = dtype_name(format.scale)
        if scale == "float8_e8m0fnu" and format.block_size == 32 and element in _MX_ELEMENTS:
            return
        nvfp4_scale = scale == "float8_e4m3fn"
        if format.tensor_scale and format.block_size == 16 and element == "float4_e2m1fn" and nvfp4_scale:
            return
    allowed = "mxfp8_e4m3, mxfp8_e5m2, mxfp6_e3m2, mxfp6_e2m3, mxfp4, nvfp4"
    raise ValueError(f"torchao has no block format like {format.label}; it has: {allowed}")


def _packed(codes: Any, format: Any) -> Any:
    """4-bit codes, two in a byte, the first in the low bits."""
    if codes.ndim == 0 or codes.shape[-1] % 2:
        raise ValueError(f"{format.label} is packed in pairs: the last axis must be even, got {tuple(codes.shape)}")
    return codes[..., ::2] | codes[..., 1::2] << 4


def _swizzled(torch: ModuleType, scales: Any) -> Any:
    """Scales [..., rows, blocks] in tiles of 128 × 4, each of them 32 × 16: rows r, r + 32, r + 64, r + 96 in a line.

    This is the layout that cuBLAS documents for block scales. Rows of all leading axes follow each other, as in
    torchao, so rows must be a multiple of 128 where there is more than one matrix.
    """
    *leading, rows, columns = scales.shape
    down, across = -(-rows // 128), -(-columns // 4)
    if rows % 128 and int(np.prod(leading)) > 1:
        raise ValueError(f"torchao swizzles a stack of matrices only with a multiple of 128 rows, got {rows}")
    padded = torch.nn.functional.pad(scales, (0, 4 * across - columns, 0, 128 * down - rows))
    tiles = padded.reshape(-1, 128, across, 4).transpose(1, 2).reshape(-1, 4, 32, 4)
    return tiles.transpose(1, 2).reshape(*leading, 32 * down, 16 * across)


def _unswizzled(torch: ModuleType, scales: Any, shape: tuple[int, ...]) -> Any:
    """Undo :func:`_swizzled` for scales of this shape."""
    *leading, rows, columns = shape
    down, across = -(-rows // 128), -(-columns // 4)
    if tuple(scales.shape) != (*leading, 32 * down, 16 * across):
        raise ValueError(f"swizzled scales of {shape} have the shape {(*leading, 32 * down, 16 * across)}")
    tiles = scales.reshape(-1, 32, 4, 4).transpose(1, 2).reshape(-1, across, 128, 4)
    return tiles.transpose(1, 2).reshape(*leading, 128 * down, 4 * across)[..., :rows, :columns]


def _no_type(library: str, format: Any, has_type: Any) -> str:
    return f"{library} has no type for {format.label}; it has: {', '.join(n for n in names() if has_type(get(n)))}"


def _library(name: str) -> ModuleType:
    try:
        return __import__(name)
    except ImportError:
        raise ImportError(f"this needs {name}: pip install 'lplab[export]'") from None
