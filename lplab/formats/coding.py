"""Codes: which bits stand for a value. Rounding first, then arithmetic or a search in float64."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from lplab.formats import apply, gpu
from lplab.formats.apply import PreparedRoundings
from lplab.formats.counter_rng import seed_to_int
from lplab.formats.inputs import as_float_array, as_rows, is_torch, plain_array, tensor_dtype, working_dtype
from lplab.formats.paths import array_kernels, block_rounding
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import BlockSpec, Grid, Table

LISTED_BITS = 20  # the widest format whose values lie in a table on a GPU


class Codec(Protocol):
    """What encoding and decoding ask of a format: how to round, and which code belongs to which value."""

    @property
    def bits(self) -> int:
        """Width of a code in bits."""

    @property
    def label(self) -> str:
        """The name for messages."""

    @property
    def has_nan(self) -> bool:
        """Whether a code stands for NaN."""

    @property
    def rounding_spec(self) -> Grid | Table:
        """What rounding needs to know."""

    @property
    def prepared_roundings(self) -> PreparedRoundings:
        """The roundings that the format has been asked for, ready to run."""

    def values_of(self, codes: np.ndarray) -> np.ndarray:
        """The float64 values of int64 codes."""

    def codes_of(self, values: np.ndarray) -> np.ndarray:
        """The int64 codes of float64 values of the format."""


class BlockCodes(NamedTuple):
    """A tensor in a block format, as codes.

    Attributes:
        elements: codes of the elements, in the shape of the tensor.
        scales: codes of the blocks' scales: the tensor's shape with the last axis divided by the block size, rounded
            up; of tiles, with both of their axes divided.
        tensor_scale: the factor of the whole tensor (NVFP4: amax / 2688 in float32), or 1.0.
    """

    elements: Any
    scales: Any
    tensor_scale: float


def bits_text(code: int, fmt: Any) -> str:
    """The bits of a code, a space between the fields.

    >>> from lplab import formats
    >>> bits_text(0x3C00, formats.get("fp16"))
    '0 01111 0000000000'
    """
    text, parts = f"{code:0{fmt.bits}b}", []
    for _, width in fmt.bit_fields():
        parts.append(text[:width])
        text = text[width:]
    return " ".join(parts)


def code_dtype(bits: int) -> np.dtype:
    """The smallest unsigned integer type for codes.

    >>> code_dtype(8), code_dtype(19)
    (dtype('uint8'), dtype('uint32'))
    """
    return np.dtype(next(f"uint{width}" for width in (8, 16, 32, 64) if bits <= width))


def encode(fmt: Codec, x: Any, rounding: Rounding, seed: Any) -> Any:
    """The work behind ``Format.encode``: see there."""
    if is_torch(x):
        found = _encode_on_gpu(fmt, x, rounding, seed) if gpu.serves(x.device) else None
        if found is None:
            return _codes_to_torch(encode(fmt, _from_torch(x), rounding, seed), fmt.bits, x.device)
        _check_codes(fmt, found[1])
        return found[0]
    is_number = not isinstance(x, np.ndarray | np.generic | list | tuple)
    array = plain_array(x) if isinstance(x, np.ndarray | np.generic) else as_float_array(x)
    exact = _exact(array, fmt.rounding_spec)
    values = apply.quantize(fmt.prepared_roundings, exact, rounding, seed).astype(np.float64)
    _check_codes(fmt, 0 if fmt.has_nan else int(np.isnan(values).sum()))
    with np.errstate(invalid="ignore"):
        codes = fmt.codes_of(values)
    return int(codes) if is_number else codes.astype(code_dtype(fmt.bits))


def _check_codes(fmt: Codec, unknown: int) -> None:
    if unknown:
        raise ValueError(f"{fmt.label} has no code for NaN, and {unknown} elements are NaN")


def _encode_on_gpu(fmt: Codec, x: Any, rounding: Rounding, seed: Any) -> Any:
    from lplab.formats.gpu import dispatch
    from lplab.formats.recorded import check_not_traced

    check_not_traced("encode")
    tensor_dtype(x)
    number = seed_to_int(seed) if rounding.is_stochastic else 0
    return dispatch.encode(fmt, x.detach().resolve_neg().contiguous(), rounding, number)


def _exact(x: np.ndarray, spec: Grid | Table) -> np.ndarray:
    """Float64, which holds all values of all formats; but x as it is if the format divides by a scale in its type."""
    work = np.ascontiguousarray(x, dtype=working_dtype(x.dtype.name)).reshape(x.shape)
    if isinstance(spec, Grid) and spec.step != 1:
        return work
    return array_kernels.widen(np, work.reshape(-1)).reshape(x.shape)


def decode(fmt: Codec, codes: Any) -> Any:
    """The work behind ``Format.decode``: see there."""
    if is_torch(codes):
        import torch

        from lplab.formats.recorded import check_not_traced

        check_not_traced("decode")
        if gpu.serves(codes.device) and fmt.bits <= LISTED_BITS and _are_integers(codes) and codes.numel():
            from lplab.formats.gpu import dispatch

            codes = codes.detach().contiguous()
            _check_range(fmt, *map(int, codes.aminmax()))
            return dispatch.decode(fmt, codes)
        return torch.from_numpy(decode(fmt, codes.detach().cpu().numpy())).to(codes.device)
    array = plain_array(codes) if isinstance(codes, np.ndarray) else np.asarray(codes)
    too_large = array.dtype == object and all(type(code) is int for code in array.flat)  # for numpy's integers
    if array.dtype.kind not in "iu" and array.size and not too_large:
        raise TypeError(f"codes must be integers, got {array.dtype}")
    if array.size:
        _check_range(fmt, array.min(), array.max())
    values = fmt.values_of(array.astype(np.int64))
    return float(values) if isinstance(codes, int) else values


def _check_range(fmt: Codec, least: int, most: int) -> None:
    if not 0 <= least <= most < 2**fmt.bits:
        raise ValueError(f"codes of {fmt.label} must be from 0 to {2**fmt.bits - 1}, got {least} to {most}")


def encode_blocks(
    element: Codec, scale: Codec, spec: BlockSpec, x: Any, rounding: Rounding, seed: Any, axis: int, label: str
) -> BlockCodes:
    """The work behind ``BlockFormat.encode``: see there."""
    xp: Any = np
    if is_torch(x) and gpu.serves(x.device):
        import torch

        from lplab.formats.recorded import check_not_traced

        check_not_traced("encode")
        tensor_dtype(x)
        xp = torch
        array = x.detach().resolve_neg()
        found = _encode_blocks_on_gpu(element, scale, spec, array, rounding, seed, axis, label)
        if found is not None:
            return found
        work = array.float() if array.element_size() == 2 else array
    elif is_torch(x):
        codes = encode_blocks(element, scale, spec, _from_torch(x), rounding, seed, axis, label)
        elements = _codes_to_torch(codes.elements, element.bits, x.device)
        return BlockCodes(elements, _codes_to_torch(codes.scales, scale.bits, x.device), codes.tensor_scale)
    else:
        array = plain_array(x) if isinstance(x, np.ndarray | np.generic) else as_float_array(x)
        work = array.astype(working_dtype(array.dtype.name))
    rows, undo = as_rows(xp, work, axis)
    split = block_rounding.in_blocks(xp, np.ascontiguousarray(rows) if xp is np else rows.contiguous(), spec.size)
    scaled, factors = block_rounding.scaled_blocks(xp, split, spec)
    bad = xp.isnan(scaled).any(-1)
    if not (spec.scale is None or element.has_nan):
        _check_blocks(int(bad.sum()), label)
    elements = encode(element, xp.where(bad[..., None], xp.zeros_like(scaled), scaled), rounding, seed)
    elements = elements.reshape(rows.shape[0], split.shape[1] * spec.size)[:, : rows.shape[1]]
    of_blocks = xp.where(bad, np.nan, factors[0][..., 0])
    if spec.scale is None:  # powers of two in float64; float32 has all of them, and its codes a kernel
        of_blocks = array_kernels.narrow(xp, of_blocks, xp.zeros(1, dtype=xp.float32))
    scales = encode(scale, of_blocks, Rounding(), None)
    # [rows, blocks] in the shape of x, with the blocks along the axis
    shape = xp.moveaxis(array if array.ndim else array.reshape(1), axis, -1).shape[:-1]
    scales = xp.moveaxis(scales.reshape(*shape, scales.shape[-1]), -1, axis)
    return BlockCodes(undo(elements), scales, factors[1].item() if spec.scale is not None else 1.0)


def _check_blocks(bad: int, label: str) -> None:
    if bad:
        raise ValueError(f"{label} has no code for NaN or infinity, and {bad} blocks hold one")


def _encode_blocks_on_gpu(
    element: Codec, scale: Codec, spec: BlockSpec, x: Any, rounding: Rounding, seed: Any, axis: int, label: str
) -> BlockCodes | None:
    from lplab.formats.gpu import dispatch

    number = seed_to_int(seed) if rounding.is_stochastic else 0
    found = dispatch.encode_blocks(element, scale, spec, x.contiguous(), rounding, number, axis)
    if found is None:
        return None
    elements, scales, tensor_scale, bad = found
    _check_blocks(bad, label)
    return BlockCodes(elements, scales, tensor_scale)


def decode_blocks(element: Codec, scale: Codec, spec: BlockSpec, codes: BlockCodes, axis: int) -> Any:
    """The work behind ``BlockFormat.decode``: see there."""
    xp: Any = np
    if is_torch(codes.elements):
        import torch

        from lplab.formats.recorded import check_not_traced

        check_not_traced("decode")
        xp = torch
        if not gpu.serves(codes.elements.device):
            host_codes = BlockCodes(codes.elements.cpu().numpy(), codes.scales.cpu().numpy(), codes.tensor_scale)
            return torch.from_numpy(decode_blocks(element, scale, spec, host_codes, axis)).to(codes.elements.device)
        found = _decode_blocks_on_gpu(element, scale, spec, codes, axis)
        if found is not None:
            return found
    rows, undo = as_rows(xp, xp.asarray(codes.elements), axis)
    scale_rows, _ = as_rows(xp, xp.asarray(codes.scales), axis)
    values = decode(element, rows) * decode(scale, scale_rows)[:, np.arange(rows.shape[1]) // spec.size]
    if spec.scale is not None:  # the product with the tensor's scale is a float32 operation
        values = array_kernels.cast(xp, values, xp.float32) * codes.tensor_scale
        values = array_kernels.cast(xp, values, xp.float64)
    return undo(values)


def _decode_blocks_on_gpu(element: Codec, scale: Codec, spec: BlockSpec, codes: BlockCodes, axis: int) -> Any:
    """The values; None where PyTorch's operations decode, which also say what is wrong with shapes."""
    from lplab.formats.gpu import dispatch

    elements, scales = codes.elements.detach().contiguous(), codes.scales.detach().contiguous()
    shape = list(elements.shape)
    if not (elements.numel() and -len(shape) <= axis < len(shape)) or max(element.bits, scale.bits) > LISTED_BITS:
        return None
    shape[axis] = -(-shape[axis] // spec.size)
    if list(scales.shape) != shape or scales.device != elements.device:
        return None
    for fmt, part in ((element, elements), (scale, scales)):
        if not _are_integers(part):
            return None
        _check_range(fmt, *map(int, part.aminmax()))
    return dispatch.decode_blocks(element, scale, spec, elements, scales, codes.tensor_scale, axis)


def _are_integers(codes: Any) -> bool:
    import torch

    return not (codes.dtype.is_floating_point or codes.dtype.is_complex or codes.dtype == torch.bool)


def _from_torch(x: Any) -> np.ndarray:
    from lplab.formats.recorded import check_not_traced

    check_not_traced("encode")
    tensor_dtype(x)
    x = x.detach().cpu().resolve_neg()
    return (x.float() if x.element_size() == 2 else x).numpy()


def _codes_to_torch(codes: Any, bits: int, device: Any) -> Any:
    import torch

    dtype = np.uint8 if bits <= 8 else np.int32 if bits <= 31 else np.int64
    return torch.from_numpy(np.asarray(codes).astype(dtype)).to(device)
