"""Which kernel rounds a tensor, and its call.

This module imports Triton and torch, so other modules import it inside the functions that need it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from torch import Tensor

from lplab.formats import counter_rng
from lplab.formats.gpu import compiler
from lplab.formats.inputs import checked_axis
from lplab.formats.paths import array_kernels, block_rounding, grid_rules, table_rules
from lplab.formats.rounding import MIN_FRACTION, Rounding
from lplab.formats.rounding_spec import BlockSpec, Grid, RoundingSpec, Table

BLOCK = 1024  # numbers of a program
MAX_ENCODED_BITS = 10  # of the fraction: codes are looked up by the upper bits, at most 2^19 of them
STRETCH = 2**30  # numbers of a launch: their indices fit 32 bits


def quantize(
    spec: RoundingSpec, rounding: Rounding, x: Tensor, out: Tensor, seed: int = 0, axis: int | None = None
) -> bool:
    """Round a contiguous tensor of any float type into another of its shape, or in place; False where no kernel serves.

    Args:
        spec, rounding: how.
        x, out: on a device that :func:`lplab.formats.gpu.serves`.
        seed: of random bits, which are numbered as :meth:`lplab.formats.Format.quantize` does.
        axis: along which the blocks of a ``BlockSpec`` lie; None is the last one.

    Raises:
        ValueError: x has no such axis.
    """
    if not isinstance(spec, BlockSpec):
        return round_elements(spec, rounding, x, out, seed)
    return round_blocks(spec, rounding, x, out, seed, *_length_and_inner(x, axis))


def quantize_transformed(
    spec: RoundingSpec,
    rounding: Rounding,
    signs: tuple[float, ...],
    x: Tensor,
    seed: int,
    axis: int | None,
    pre_scale: float = 1.0,
) -> Tensor | None:
    """Round the Hadamard transform of a contiguous tensor, whose numbers are read once; None where no kernel serves.

    Args:
        spec, rounding, x, seed, axis: as for :func:`quantize`; the transform runs along the axis, too.
        signs: of the transform, 1 or −1, as many as it has numbers: a power of two up to 1024. None of them: no
            transform.
        pre_scale: what numbers under power-of-two scales are multiplied with before rounding and divided by afterwards.

    Returns:
        The tensor, along the axis as long as the transform of x.
    """
    if not isinstance(spec, BlockSpec) or (signs and spec.size & (spec.size - 1)) or not x.ndim:
        return None
    length, inner = _length_and_inner(x, axis)
    shape = list(x.shape)
    shape[checked_axis(x, axis)] += -length % len(signs) if signs else 0
    out = x.new_empty(shape)
    return out if round_blocks(spec, rounding, x, out, seed, length, inner, signs, pre_scale) else None


def _length_and_inner(x: Tensor, axis: int | None) -> tuple[int, int]:
    """How long an axis is, and how many numbers lie between its neighbours in a contiguous tensor."""
    axis = checked_axis(x, axis)
    return (x.shape[axis], math.prod(x.shape[axis + 1 :])) if x.ndim else (1, 1)


def round_elements(spec: Grid | Table, rounding: Rounding, x: Tensor, out: Tensor, seed: int) -> bool:
    """Round a contiguous tensor of any float type into another; False where no kernel serves."""
    chosen = _elementwise(spec, rounding, x.dtype, x.device)
    if chosen is None:
        return False
    kernel, constants = chosen
    for first, *stretch in _stretches(x, out):
        launch(kernel, *stretch, constants, *_draws(rounding, seed, first), BLOCK=BLOCK)
    return True


def round_twice(
    specs: tuple[Table, Table], rounding: Rounding, x: Tensor, first: Tensor, second: Tensor
) -> float | None:
    """Round float32 to two tables in one pass; the largest magnitude, or NaN. None where no kernel serves.

    Args:
        specs, rounding: how; not stochastic.
        x, first, second: of one order of memory, less than 2^31 numbers.
    """
    found = _twice(*specs, rounding, x.device)
    if found is None or x.numel() >= 2**31:
        return None
    kernel, *constants = found
    largest = x.new_zeros(1, dtype=torch.int32)
    launch(kernel, -(-x.numel() // BLOCK), x, first, second, x.numel(), *constants, largest, BLOCK=BLOCK)
    return float(largest.view(torch.float32))


@lru_cache(maxsize=64)
def _twice(first: Table, second: Table, rounding: Rounding, device: torch.device) -> tuple[Any, Tensor, Tensor] | None:
    found, more_found = _table_rule(first, rounding), _table_rule(second, rounding)
    if found is None or more_found is None:
        return None
    (flags, constants), (more_flags, more_constants) = found, more_found
    again = compiler.namespace("float32", **more_flags)["applied"]
    kernel = compiler.namespace("float32", **flags, applied_again=again)["two_roundings"]
    return kernel, on_device(constants, "float32", device), on_device(more_constants, "float32", device)


def encode(fmt: Any, x: Tensor, rounding: Rounding, seed: int) -> tuple[Tensor, int] | None:
    """The codes of a contiguous tensor, and how many numbers have none; None where no kernel serves.

    Args:
        fmt: a format; it has ``rounding_spec``, ``codes_of``, ``bits`` and ``has_nan``.
        x: of any float type, on a device that :func:`lplab.formats.gpu.serves`.
        rounding, seed: how.
    """
    found = _encoded(fmt, rounding, x.dtype, x.device)
    if found is None:
        return None
    kernel, constants, codes = found
    out, unknown = x.new_empty(x.shape, dtype=_code_dtype(fmt)), x.new_zeros(1, dtype=torch.int32)
    for first, *stretch in _stretches(x, out):
        launch(kernel, *stretch, constants, codes, unknown, *_draws(rounding, seed, first), BLOCK=BLOCK)
    return out, 0 if fmt.has_nan else int(unknown)


def decode(fmt: Any, codes: Tensor) -> Tensor:
    """The float64 values of a contiguous tensor of codes: integers of 0 … 2**bits − 1."""
    kernel, values = compiler.namespace("float32")["decoded"], _values(fmt, codes.device)
    out = torch.empty(codes.shape, dtype=values.dtype, device=codes.device)
    for _, *stretch in _stretches(codes, out):
        launch(kernel, *stretch, values, BLOCK=BLOCK)
    return out


@lru_cache(maxsize=64)
def _values(fmt: Any, device: torch.device) -> Tensor:
    return torch.from_numpy(fmt.values_of(np.arange(2**fmt.bits, dtype=np.int64))).to(device)


def round_blocks(
    spec: BlockSpec,
    rounding: Rounding,
    x: Tensor,
    out: Tensor,
    seed: int,
    length: int,
    inner: int,
    signs: tuple[float, ...] = (),
    pre_scale: float = 1.0,
) -> bool:
    """Round blocks along the middle axis of contiguous [outer, length, inner] numbers; False where no kernel serves.

    With ``signs`` the numbers are transformed before, and ``out`` is as long as the transform; its size and that of the
    blocks are powers of two.
    """
    found = _blocks(spec, rounding, x.dtype, x.device, len(signs), pre_scale)
    layout = _layout(spec, x, length, inner, len(signs))
    if found is None or layout is None:
        return False
    if not layout.groups:
        return True
    names, constants, scale_constants = found
    signs_there = _signs(signs, x.device) if signs else constants  # not read without a transform
    rows, keys = (layout.groups, layout.length, layout.longer, inner, layout.per_row), _keys(rounding, seed)
    numbers = x, out, signs_there, *rows, constants, scale_constants
    if spec.scale is None:
        launch(names["power_of_two_blocks"], layout.programs, *numbers, *keys, **layout.tile)
    else:
        amax = _largest(spec, x, layout, inner, signs_there, len(signs))
        launch(names["rounded_scale_blocks"], layout.programs, *numbers, amax, *keys, **layout.tile)
    return True


@lru_cache(maxsize=64)
def _signs(signs: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(signs, dtype=torch.float32, device=device)


class Layout(NamedTuple):
    """How the blocks of a tensor are shared out among the programs of a kernel.

    Attributes:
        programs: how many.
        groups: blocks, or sequences of them whose numbers are transformed together.
        length: of the rows in memory.
        longer: of the rows once they are transformed.
        per_row: groups of a row, along its length.
        tile: rows and columns of what a program works on.
    """

    programs: int
    groups: int
    length: int
    longer: int
    per_row: int
    tile: dict[str, Any]


def _layout(spec: BlockSpec, x: Tensor, length: int, inner: int, transform: int = 0) -> Layout | None:
    """The layout for contiguous [outer, length, inner] numbers; None where their numbers do not fit 32 bits."""
    group = max(spec.size, transform)
    outer, longer = x.numel() // max(length * inner, 1), length + (-length % transform if transform else 0)
    if inner == 1 and length and length % group == 0:  # groups that follow one another are rows: no divisions by 1
        outer, length, longer = outer * (length // group), group, group
    per_row, width = -(-longer // group), triton.next_power_of_2(spec.size)
    groups, parts = outer * inner * per_row, group // spec.size
    height = max(BLOCK // width, parts)
    if max(groups * parts, longer + group) >= 2**31:
        return None
    return Layout(-(-groups * parts // height), groups, length, longer, per_row, {"BLOCKS": height, "WIDTH": width})


def _largest(spec: BlockSpec, x: Tensor, layout: Layout, inner: int, signs: Tensor, transform: int = 0) -> Tensor:
    """The pattern of the largest magnitude of all finite blocks, on the device; 0 without a scale of the tensor."""
    largest = torch.zeros(1, dtype=torch.int32, device=x.device)
    if spec.tensor_scale:
        kernel = compiler.namespace("float32", **_block_flags(spec.size, transform))["largest_of_blocks"]
        rows = layout.groups, layout.length, inner, layout.per_row
        launch(kernel, layout.programs, x, largest, signs, *rows, **layout.tile)
    return largest


def _block_flags(size: int, transform: int) -> dict[str, Any]:
    """What kernels know of blocks and of the transform of their numbers."""
    flags = {"SIZE": size, "PARTS": max(transform // size, 1), "ROUNDS": max(transform.bit_length() - 1, 0)}
    return flags | {"FACTOR": 1 / math.sqrt(max(transform, 1))}


def encode_blocks(
    element: Any, scale: Any, spec: BlockSpec, x: Tensor, rounding: Rounding, seed: int, axis: int
) -> tuple[Tensor, Tensor, float, int] | None:
    """The codes of blocks along an axis of a contiguous tensor, in one pass over memory; None where no kernel serves.

    Args:
        element, scale: formats, as for :func:`encode`.
        spec, rounding, x, seed, axis: as for :func:`quantize`.

    Returns:
        Codes of elements, codes of scales, the scale of the tensor or 1, and how many blocks hold NaN or infinity that
        have no code.
    """
    length, inner = _length_and_inner(x, axis)
    found, layout = _encoded_blocks(element, scale, spec, rounding, x.dtype, x.device), _layout(spec, x, length, inner)
    if found is None or layout is None or not (x.ndim and layout.groups) or x.numel() >= 2**31:
        return None
    kernel, constants, *tables = found
    shape = list(x.shape)
    shape[axis] = -(-length // spec.size)
    elements = x.new_empty(x.shape, dtype=_code_dtype(element))
    scales = x.new_empty(shape, dtype=_code_dtype(scale))
    rows, keys = (layout.groups, layout.length, inner, layout.per_row), _keys(rounding, seed)
    arguments = x, elements, scales, constants, *rows, constants, *tables
    if spec.scale is None:
        launch(kernel, layout.programs, *arguments, *keys, **layout.tile)
        return elements, scales, 1.0, 0
    amax, bad = _largest(spec, x, layout, inner, constants), torch.zeros(1, dtype=torch.int32, device=x.device)
    launch(kernel, layout.programs, *arguments, amax, bad, *keys, **layout.tile)
    words, top = array_kernels.words_for(torch, "float32"), block_rounding.scale_patterns(spec)[0]
    tensor_scale = float(words["tensor_scales"](amax, top)[1].view(torch.float32)) if spec.tensor_scale else 1.0
    return elements, scales, tensor_scale, 0 if element.has_nan else int(bad)


def _code_dtype(fmt: Any) -> torch.dtype:
    return torch.uint8 if fmt.bits <= 8 else torch.int32


@lru_cache(maxsize=256)
def _encoded_blocks(
    element: Any, scale: Any, spec: BlockSpec, rounding: Rounding, dtype: torch.dtype, device: torch.device
) -> tuple[Any, Tensor, Tensor, Tensor, Tensor] | None:
    """The kernel that encodes blocks, the constants of elements and of scales, and the codes of both."""
    listed, listed_scales = _codes_by_upper_bits(element), None
    flags: dict[str, Any] = {}
    if spec.scale is None:
        kernel = "encoded_power_of_two_blocks"
        scale_codes = scale.codes_of(np.append(2.0 ** np.arange(-127, 128), np.nan))
    else:
        kernel, listed_scales = "encoded_rounded_scale_blocks", _codes_by_upper_bits(scale)
        if listed_scales is None:
            return None
        dropped, scale_codes = listed_scales
        flags["code_of_scale"] = compiler.namespace("float32", DROPPED=dropped)["code_of"]
    found = None if listed is None else _blocks(spec, rounding, dtype, device, DROPPED=listed[0], **flags)
    if listed is None or found is None:
        return None
    names, constants, scale_constants = found
    tables = (on_device(each, "float32", device) for each in (listed[1], scale_codes))
    return names[kernel], constants, scale_constants, *tables


def decode_blocks(
    element: Any, scale: Any, spec: BlockSpec, elements: Tensor, scales: Tensor, tensor_scale: float, axis: int
) -> Tensor | None:
    """The float64 values of contiguous tensors of codes in one pass over memory; None where no kernel serves."""
    length, inner = _length_and_inner(elements, axis)
    layout = _layout(spec, elements, length, inner)
    if layout is None or not layout.groups:
        return None
    flags = _block_flags(spec.size, 0) | {"RESCALES": spec.scale is not None}
    kernel = compiler.namespace("float32", **flags)["decoded_blocks"]
    out = torch.empty(elements.shape, dtype=torch.float64, device=elements.device)
    factor = torch.full((1,), tensor_scale, device=elements.device)
    rows = layout.groups, layout.length, inner, layout.per_row
    values = _values(element, out.device), _values(scale, out.device)
    launch(kernel, layout.programs, elements, scales, out, *rows, *values, factor, **layout.tile)
    return out


def launch(
    kernel: Any, programs: int | tuple[int, ...], *arguments: Any, fuses: bool = False, **constants: Any
) -> None:
    """Run a kernel on the device of its first argument.

    Args:
        kernel: of :func:`lplab.formats.gpu.compiler.namespace`.
        programs: how many, along up to three axes.
        arguments: of the kernel.
        fuses: whether a product may be fused with the addition that follows, where no rounding lies in between.
        constants: arguments that are known when the kernel is compiled.
    """
    with torch.cuda.device_of(arguments[0]):
        grid = programs if isinstance(programs, tuple) else (programs,)
        kernel[grid](*arguments, **constants, enable_fp_fusion=fuses)


def _stretches(x: Tensor, out: Tensor) -> Iterator[tuple[int, int, Tensor, Tensor, int]]:
    """Contiguous tensors cut into launches: the number of the first element, programs, both parts, their length."""
    x, out = x.reshape(-1), out.reshape(-1)
    for start in range(0, x.numel(), STRETCH):
        count = min(STRETCH, x.numel() - start)
        yield start, -(-count // BLOCK), x[start:], out[start:], count


def _draws(rounding: Rounding, seed: int, first: int) -> tuple[int, int, int]:
    """What a kernel draws random bits from: the number of the first element in its stretch of keys, and the keys."""
    return counter_rng.signed(first % 2**32), *_keys(rounding, seed, first // 2**32)


def _keys(rounding: Rounding, seed: int, stretch: int = 0) -> tuple[int, int]:
    key_1, key_2 = counter_rng.keys(seed, stretch) if rounding.is_stochastic else (0, 0)
    return counter_rng.signed(key_1), counter_rng.signed(key_2)


@lru_cache(maxsize=1024)
def _elementwise(
    spec: Grid | Table, rounding: Rounding, dtype: torch.dtype, device: torch.device
) -> tuple[Any, Tensor] | None:
    """The kernel that rounds numbers one by one, and its constants on the device."""
    if isinstance(spec, Table):
        found = None if dtype == torch.float64 or rounding.is_stochastic else _table_rule(spec, rounding)
        real = "float32"
    else:
        real, found = _grid_rule(spec, rounding, dtype)
    if found is None:
        return None
    flags, constants = found
    return compiler.namespace(real, **flags)["elementwise"], on_device(constants, real, device)


def _grid_rule(spec: Grid, rounding: Rounding, dtype: torch.dtype) -> tuple[str, tuple[dict[str, Any], list] | None]:
    """The word, and how it is rounded to a grid: flags and constants."""
    real = "float64" if dtype == torch.float64 else "float32"
    rule = grid_rules.grid_rule(replace(spec, step=1.0), rounding, real)
    if rule is None and real == "float32" and spec.step == 1:
        real = "float64"
        rule = grid_rules.grid_rule(spec, rounding, real)
    if rule is None:
        return real, None
    word, bits = grid_rules.FLOAT_LAYOUTS[real], rule.random_bits
    after = word.pattern(spec.step), word.pattern(MIN_FRACTION), 32 - bits, 2**bits - 1
    flags = {"WORD": rule.word, "AFTER": len(rule.constants), "DRAWS": bits > 0, "STEP": spec.step != 1}
    return real, (dict(rule.flags) | flags, [*rule.constants, *after])


def _table_rule(spec: Table, rounding: Rounding) -> tuple[dict[str, Any], Any] | None:
    """How float32 is rounded to a table: flags and constants."""
    rule = table_rules.table_rule(spec, rounding)
    if rule is not None:
        flags, constants = {"WORD": rule.word, "DRAWS": False, "STEP": False, "AFTER": 0}, rule.constants
        if rule.word == "compared":  # thresholds that no magnitude reaches make all tables as long as the longest
            flags["COMPARISONS"], (negative_zero, steps) = table_rules.MAX_COMPARISONS, constants
            fill = table_rules.MAX_COMPARISONS - len(steps) // 2
            constants = (negative_zero, *steps, *[2**31 - 1, 0] * fill)
        return flags, constants
    found = _lookup(spec, rounding)
    return None if found is None else (found[0], found[1].reshape(-1))


def _lookup(spec: Table, rounding: Rounding) -> tuple[dict[str, Any], np.ndarray] | None:
    """The flags of a lookup, and int64 [entries, 3]: the threshold of the lower bits, the patterns on both sides."""
    found = table_rules.lookup_arguments(spec, rounding)
    if found is None:
        return None
    low_bits, cuts, results = found
    entries = np.column_stack([cuts.astype(np.int64), results.reshape(-1, 2)])
    return {"DRAWS": False, "STEP": False, "AFTER": 0, "WORD": "lookup", "LOW_BITS": int(low_bits)}, entries


@lru_cache(maxsize=1024)
def _blocks(
    spec: BlockSpec,
    rounding: Rounding,
    dtype: torch.dtype,
    device: torch.device,
    transform: int = 0,
    pre_scale: float = 1.0,
    **more: Any,
) -> tuple[dict[str, Any], Tensor, Tensor] | None:
    """The kernels that round blocks, by name, and the constants of elements and of scales on the device.

    Args:
        spec, rounding, dtype, device: of the numbers.
        transform: how many numbers are transformed together; 0 for none.
        pre_scale: as for :func:`quantize_transformed`.
        more: flags of the kernels.
    """
    real, element = _grid_rule(spec.element, rounding, torch.float32 if spec.scale is not None else dtype)
    if element is None:
        return None
    flags, constants = element
    if spec.scale is None:
        wide = compiler.namespace("float64")
        more |= {f"wide_{name}": wide[name] for name in ("as_real", "as_bits", "block_exponent")}
        scale_constants: Any = grid_rules.scale_constants(spec, grid_rules.FLOAT_LAYOUTS["float64"])
        scale_real = "float64"
    else:
        _, scale = _grid_rule(spec.scale, Rounding(), torch.float32)
        if scale is None or real != "float32":
            return None
        more |= {"rounded_as_scale": compiler.namespace("float32", **scale[0])["rounded"], "SCALE_AFTER": len(scale[1])}
        scale_constants, scale_real = [*scale[1], *block_rounding.scale_patterns(spec)], "float32"
    names = compiler.namespace(real, **flags, **more, **_block_flags(spec.size, transform), PRE_SCALE=pre_scale)
    return names, on_device(constants, real, device), on_device(scale_constants, scale_real, device)


@lru_cache(maxsize=256)
def _encoded(
    fmt: Any, rounding: Rounding, dtype: torch.dtype, device: torch.device
) -> tuple[Any, Tensor, Tensor] | None:
    """The kernel that encodes, its constants, and the codes of values by the upper bits of float32."""
    spec = fmt.rounding_spec
    if isinstance(spec, Table):
        found = None if dtype == torch.float64 or rounding.is_stochastic else _lookup(spec, rounding)
        if found is None:
            return None
        flags, entries = found
        low_bits = flags["LOW_BITS"]
        upper = np.arange(2 ** (32 - low_bits), dtype=np.int64) << low_bits
        for column, lower in ((1, 0), (2, np.minimum(entries[:, 0], 2**low_bits - 1))):
            patterns = (upper + lower).astype(np.uint32).view(np.float32)
            values = array_kernels.quantize(np, array_kernels.widen(np, patterns), spec, rounding)
            entries[:, column] = _codes_or_none(fmt, values)
        kernel = compiler.namespace("float32", **flags, CODES=False, DROPPED=0, COUNTS_UNKNOWN=not fmt.has_nan)[
            "encoded"
        ]
        constants = on_device(entries.reshape(-1), "float32", device)
        return kernel, constants, constants
    (real, rule), listed = _grid_rule(spec, rounding, dtype), _codes_by_upper_bits(fmt)
    if rule is None or listed is None:
        return None
    dropped, codes = listed
    names = compiler.namespace(real, **rule[0], CODES=True, DROPPED=dropped, COUNTS_UNKNOWN=not fmt.has_nan)
    return names["encoded"], on_device(rule[1], real, device), on_device(codes, "float32", device)


@lru_cache(maxsize=64)
def _codes_by_upper_bits(fmt: Any) -> tuple[int, np.ndarray] | None:
    """How many low bits of float32 a format on a grid leaves 0, and its codes by the others; None where many are left.

    The codes are those of :func:`_codes_or_none`.
    """
    spec = fmt.rounding_spec
    if not isinstance(spec, Grid) or spec.step != 1 or spec.mantissa_bits > MAX_ENCODED_BITS:
        return None
    if grid_rules.grid_rule(spec, Rounding(), "float32") is None:
        return None
    dropped = 23 - max(spec.mantissa_bits, 1)  # with no bit of the fraction NaN would be infinity
    patterns = (np.arange(2 ** (32 - dropped), dtype=np.uint32) << np.uint32(dropped)).view(np.float32)
    return dropped, _codes_or_none(fmt, array_kernels.widen(np, patterns))


def _codes_or_none(fmt: Any, values: np.ndarray) -> np.ndarray:
    """The codes of float64 values; −1 for NaN that has none, any code for what is no value of the format."""
    with np.errstate(all="ignore"):
        codes = fmt.codes_of(values)
    return codes if fmt.has_nan else np.where(np.isnan(values), -1, codes)


def on_device(constants: Any, real: str, device: torch.device) -> Tensor:
    """Integers of the width of a word, on a device."""
    integers = np.array(constants, np.int64).astype(grid_rules.FLOAT_LAYOUTS[real].integer)
    return torch.from_numpy(integers).to(device)
