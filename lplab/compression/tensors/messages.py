"""The message formats of :mod:`lplab.compression.wire` in operations of PyTorch: the same bytes, on any device.

Each ``encode`` returns and each ``decode`` takes a flat uint8 tensor. A decoder that finds damage passes the message to
the reference, which raises the error. Bytes are computed by arithmetic where their order could depend on the machine.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab import formats
from lplab.compression import signs, sparse, unbiased
from lplab.compression.wire import adacomp_wire, bits, scalecom_wire, values
from lplab.compression.wire.values import bytes_per_value

SHARED = {"cpu"}  # devices whose tensors are arrays without a copy: the reference's loops are faster there
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def host(tensor: Tensor) -> np.ndarray:
    """A tensor as a numpy array on the host."""
    return tensor.cpu().numpy()


def as_payload(payload: Any, device: Any) -> Tensor:
    """A message on a device, contiguous memory of its own or of the message."""
    return torch.as_tensor(payload, device=device).contiguous()


def _refuse(reference: Callable[..., Any], *arguments: Any) -> None:
    """Raise the error of the reference's decoder for a damaged message."""
    reference(*arguments)
    raise ValueError("this message is damaged")  # should the two ever disagree, the message is still refused


# ---- values ----------------------------------------------------------------------------------------------------------


def round_to_wire(x: Tensor, wire: str) -> Tensor:
    """:func:`lplab.compression.wire.values.round_to_wire` of a float32 tensor.

    >>> round_to_wire(torch.tensor([1.001, 1e6]), "fp16").tolist()
    [1.0009765625, 65504.0]
    """
    if values.check_wire(wire) == "fp32":
        return x
    most = float(formats.get(wire).max)
    return x.clamp(-most, most).to(DTYPES[wire]).float()


def to_bytes(x: Tensor, wire: str) -> Tensor:
    """Values that :func:`round_to_wire` returned, as uint8.

    >>> to_bytes(torch.tensor([1.0]), "bf16").tolist()
    [128, 63]
    """
    return x.to(DTYPES[values.check_wire(wire)]).contiguous().view(torch.uint8)


def from_bytes(payload: Tensor, wire: str, count: int) -> Tensor:
    """The inverse of :func:`to_bytes`, float32.

    Raises:
        ValueError: the length is not that of ``count`` values.
    """
    if payload.numel() != count * bytes_per_value(wire):
        _refuse(values.from_bytes, host(payload), wire, count)
    return payload.clone().view(DTYPES[wire]).float()  # a clone: a view needs an aligned beginning


def float_bytes(x: Tensor) -> Tensor:
    """Scales at the beginning of a message: float32 as uint8."""
    return x.reshape(-1).contiguous().view(torch.uint8)


def _unsigned(payload: Tensor, width: int) -> Tensor:
    """Little-endian unsigned integers of ``width`` bytes, as int64."""
    each = payload.view(-1, width).long()
    return sum((each[:, i] << 8 * i for i in range(1, width)), start=each[:, 0])


def _unsigned_bytes(x: Tensor, width: int) -> Tensor:
    """The inverse of :func:`_unsigned`."""
    return torch.stack([x >> 8 * i & 255 for i in range(width)], dim=1).reshape(-1).to(torch.uint8)


# ---- indices ---------------------------------------------------------------------------------------------------------


def encode_scalecom(indices: Tensor, chunk: int) -> Tensor:
    """:func:`lplab.compression.wire.scalecom_wire.encode` of ascending indices, int64."""
    if indices.device.type in SHARED:
        return torch.from_numpy(scalecom_wire.encode(host(indices), chunk))
    return _unsigned_bytes(indices % chunk, scalecom_wire.position_type(chunk).itemsize)


def decode_scalecom(payload: Any, numel: int, chunk: int, m: int, device: Any) -> Tensor:
    """:func:`lplab.compression.wire.scalecom_wire.decode`: int64."""
    payload = as_payload(payload, device)
    if payload.numel() != scalecom_wire.size_of(numel, chunk, m):
        _refuse(scalecom_wire.decode, host(payload), numel, chunk, m)
    positions = _unsigned(payload, scalecom_wire.position_type(chunk).itemsize)
    indices = positions + torch.arange(positions.numel(), device=device).div(m, rounding_mode="floor") * chunk
    if bool((positions >= chunk).any() | (indices >= numel).any() | (indices.diff() <= 0).any()):
        _refuse(scalecom_wire.decode, host(payload), numel, chunk, m)
    return indices


def encode_sparse(indices: Tensor, x: Tensor, wire: str) -> Tensor:
    """:func:`lplab.compression.sparse.encode`: indices, then values."""
    return torch.cat([_unsigned_bytes(indices, sparse.INDEX_BYTES), to_bytes(x, wire)])


def decode_sparse(payload: Tensor, numel: int, wire: str) -> tuple[Tensor, Tensor]:
    """:func:`lplab.compression.sparse.decode`: indices, int64, and values, float32."""
    each = sparse.INDEX_BYTES + bytes_per_value(wire)
    if not payload.numel() or payload.numel() % each:
        _refuse(sparse.decode, host(payload), numel, wire)
    count = payload.numel() // each
    indices = _unsigned(payload[: sparse.INDEX_BYTES * count], sparse.INDEX_BYTES)
    if bool((indices[-1] >= numel) | (indices.diff() <= 0).any()):
        _refuse(sparse.decode, host(payload), numel, wire)
    return indices, from_bytes(payload[sparse.INDEX_BYTES * count :], wire, count)


def encode_adacomp(scale: np.float32, indices: Tensor, negative: Tensor, numel: int, bin: int) -> Tensor:
    """:func:`lplab.compression.wire.adacomp_wire.encode`."""
    if indices.device.type in SHARED:
        return torch.from_numpy(adacomp_wire.encode(scale, host(indices), host(negative), numel, bin))
    device, bins = indices.device, -(-numel // bin)
    of_bin = indices.div(bin, rounding_mode="floor")
    sent = torch.zeros(bins, dtype=torch.int64, device=device).index_add_(0, of_bin, torch.ones_like(of_bin))
    last = torch.ones_like(negative)
    last[:-1] = of_bin[1:] != of_bin[:-1]
    codes = (indices - of_bin * bin) << 2 | last.long() << 1 | negative.long()
    empty_before = (sent == 0).long().cumsum(0)[of_bin]  # each empty bin has one code, in its place
    stream = codes.new_full((codes.numel() + int((sent == 0).sum()),), adacomp_wire.empty_code(bin))
    stream[torch.arange(codes.numel(), device=device) + empty_before] = codes
    header = torch.from_numpy(np.array([scale], "<f4").view(np.uint8)).to(device)
    return torch.cat([header, _unsigned_bytes(stream, adacomp_wire.code_type(bin).itemsize)])


def decode_adacomp(payload: Tensor, numel: int, bin: int) -> tuple[Tensor, Tensor]:
    """:func:`lplab.compression.wire.adacomp_wire.decode`: indices, int64, and values, float32."""
    width, header = adacomp_wire.code_type(bin).itemsize, adacomp_wire.HEADER
    if payload.numel() <= header or (payload.numel() - header) % width:
        _refuse(adacomp_wire.decode, host(payload), numel, bin)
    scale = from_bytes(payload[:header], "fp32", 1)
    codes = _unsigned(payload[header:], width)
    last = codes & 2 != 0
    of_bin = last.long().cumsum(0) - last.long()
    filled = codes != adacomp_wire.empty_code(bin)
    position = codes >> 2
    indices = of_bin * bin + position
    same = of_bin.diff() == 0  # a code and the one after it belong to one bin
    damaged = (last.sum() != -(-numel // bin)) | ~last[-1] | ~torch.isfinite(scale[0]) | torch.signbit(scale[0])
    damaged |= (filled & ((position >= min(bin, numel)) | (indices >= numel))).any()
    damaged |= (same & ((indices.diff() <= 0) | ~filled[1:] | ~filled[:-1])).any()
    if bool(damaged):
        _refuse(adacomp_wire.decode, host(payload), numel, bin)
    return indices[filled], torch.where(codes[filled] & 1 != 0, -scale, scale)


# ---- signs, ternary symbols, bit fields ------------------------------------------------------------------------------


def pack_signs(negative: Tensor) -> Tensor:
    """:func:`lplab.compression.wire.bits.pack_signs`: bools, eight to a byte.

    >>> pack_signs(torch.tensor([True, False, True])).tolist()
    [5]
    """
    padded = torch.nn.functional.pad(negative.to(torch.uint8), (0, -negative.numel() % 8)).view(-1, 8)
    return (padded << torch.arange(8, dtype=torch.uint8, device=padded.device)).sum(1, dtype=torch.uint8)


def unpack_signs(payload: Tensor, count: int) -> Tensor:
    """:func:`lplab.compression.wire.bits.unpack_signs`: bool."""
    if payload.numel() != -(-count // 8):
        _refuse(bits.unpack_signs, host(payload), count)
    each = (payload[:, None] >> torch.arange(8, dtype=torch.uint8, device=payload.device) & 1).reshape(-1)
    if bool(each[count:].any()):
        _refuse(bits.unpack_signs, host(payload), count)
    return each[:count].bool()


def pack_trits(symbols: Tensor) -> Tensor:
    """:func:`lplab.compression.wire.bits.pack_trits`: symbols −1, 0, 1, five to a byte.

    >>> pack_trits(torch.tensor([1, -1])).tolist()
    [119]
    """
    padded = torch.nn.functional.pad(symbols.to(torch.uint8) + 1, (0, -symbols.numel() % 5), value=1).view(-1, 5)
    weights = torch.from_numpy(bits.TRITS).to(padded.device)
    return (padded * weights).sum(1, dtype=torch.uint8)


def unpack_trits(payload: Tensor, count: int) -> Tensor:
    """:func:`lplab.compression.wire.bits.unpack_trits`: int8."""
    if payload.numel() != -(-count // 5):
        _refuse(bits.unpack_trits, host(payload), count)
    weights = torch.from_numpy(bits.TRITS).to(payload.device)
    symbols = payload[:, None].div(weights, rounding_mode="floor").remainder(3).reshape(-1).to(torch.int8) - 1
    if bool((payload >= 243).any() | symbols[count:].any()):
        _refuse(bits.unpack_trits, host(payload), count)
    return symbols[:count]


def pack_fields(x: Tensor, width: int) -> Tensor:
    """:func:`lplab.compression.wire.bits.pack_fields`: integers of ``width`` bits each, without gaps."""
    return pack_signs((x[:, None] >> torch.arange(width, device=x.device) & 1).reshape(-1))


def unpack_fields(payload: Tensor, width: int, count: int) -> Tensor:
    """:func:`lplab.compression.wire.bits.unpack_fields`: int64."""
    each = unpack_signs(payload, count * width).view(count, width).long()
    return (each << torch.arange(width, device=payload.device)).sum(1)


def decode_columns(payload: Tensor, numel: int, columns: int) -> Tensor:
    """:func:`lplab.compression.signs.decode_columns`: float32, flat."""
    means = _header(payload, 2 * columns, signs.decode_columns, numel, columns).view(columns, 2)
    return values_of_signs(means, unpack_signs(payload[8 * columns :], numel))


def values_of_signs(means: Tensor, negative: Tensor) -> Tensor:
    """The values of OneBit: of each column its second mean where negative, else its first; flat."""
    return torch.where(negative.view(means.shape[0], -1), means[:, 1:], means[:, :1]).reshape(-1)


def decode_signs(payload: Tensor, numel: int) -> Tensor:
    """:func:`lplab.compression.signs.decode_signs`: float32, flat."""
    scale = _header(payload, 1, signs.decode_signs, numel)
    return torch.where(unpack_signs(payload[4:], numel), -scale, scale)


def decode_ternary(payload: Tensor, numel: int) -> Tensor:
    """:func:`lplab.compression.unbiased.decode_ternary`: float32, flat."""
    scale = _header(payload, 1, unbiased.decode_ternary, numel, signed=False)
    return unpack_trits(payload[4:], numel) * scale


def decode_qsgd(payload: Tensor, numel: int, settings: unbiased.QSGD) -> Tensor:
    """:meth:`lplab.compression.unbiased.QSGD.decode`: float32, flat."""
    buckets = -(-numel // settings.bucket)
    norms = _header(payload, buckets, settings.decode, numel, signed=False)
    fields = unpack_fields(payload[4 * buckets :], settings.width, numel)
    if bool((fields >> 1 > settings.levels).any()):
        _refuse(settings.decode, host(payload), numel)
    parts = (np.arange(settings.levels + 1) / np.float32(settings.levels)).astype(np.float32)
    magnitudes = (
        norms.repeat_interleave(settings.bucket)[:numel] * torch.from_numpy(parts).to(norms.device)[fields >> 1]
    )
    return torch.where(fields & 1 != 0, -magnitudes, magnitudes)


def _header(payload: Tensor, count: int, reference: Callable[..., Any], *arguments: Any, signed: bool = True) -> Tensor:
    """The float32 scales at the start of a message, finite; ``signed``: whether they may be negative."""
    if payload.numel() < 4 * count:
        _refuse(reference, host(payload), *arguments)
    scales = from_bytes(payload[: 4 * count], "fp32", count)
    good = torch.isfinite(scales) if signed else torch.isfinite(scales) & (scales >= 0)
    if not bool(good.all()):
        _refuse(reference, host(payload), *arguments)
    return scales
