"""The loops that round blocks under a shared scale, with their constants bound.

numba is imported only when a loop is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lplab.formats.paths import array_kernels, block_rounding
from lplab.formats.paths.addresses import addresses
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import BlockSpec

SCALES_PER_STEP = 2**15  # scales that are computed together stay in the cache
_ONE = np.float32(1)
BlockKernel = Callable[..., np.ndarray | None]
"""(addresses of float32 x and out, blocks, keys of the random bits) → the blocks that it cannot round, if any."""


def block_kernel_key(spec: BlockSpec, rounding: Rounding, real: str) -> tuple | None:
    """The arguments of :func:`numba_kernels.grid_loop` for blocks; None where no loop serves."""
    if real != "float32" or spec.element.mantissa_bits == 0 or spec.element_exponent < 0:
        return None
    # Elements saturate and are never flushed, hence plain=True.
    return real, rounding.code, "scaled", False, True, "shift" if spec.scale is None else "factor", spec.size


def power_of_two_kernel(key: tuple, spec: BlockSpec, rounding: Rounding) -> BlockKernel:
    """The loops for blocks with power-of-two scales (MX)."""
    from lplab.formats.paths import numba_kernels

    round_blocks, find_exponents = numba_kernels.grid_loop(*key), numba_kernels.exponent_loop()
    c = array_kernels.constants(spec.element, rounding, "float32")
    c = replace(c, from_integer=2.0**-107)  # a subnormal x is far below the spacing in all blocks that the loop does
    table = numba_kernels.grid_constants(c, rounding.random_bits if rounding.is_stochastic else 0, "float32")
    address, size = table.ctypes.data, spec.size
    add = 1 << (22 - spec.mantissa_bits) if spec.rule == "even" else 0
    nearest, threshold = spec.nearest_threshold
    limits = {"ceil": 0, "rceil": int((spec.element_fraction - 1) * 2.0**23)}
    limits["nearest"] = int((threshold - 1) * 2.0**23) - 1  # the loop asks for more than the limit
    limit = limits.get(spec.rule, 2**23)
    element_exponent = nearest if spec.rule == "nearest" else spec.element_exponent
    # Scales near the ends of float32, and blocks with NaN or infinity, are left to the array path.
    least = -100 - spec.element.min_exponent + spec.element.mantissa_bits
    most = 123 - spec.element_exponent
    rule = add, limit, element_exponent, least, most

    def call(x: int, out: int, blocks: int, keys: tuple[int, int] = (0, 0)) -> np.ndarray | None:
        exponents = np.empty(blocks, np.int32)
        (shifts,) = addresses(exponents)
        is_hard = find_exponents(x, shifts, blocks, size, *rule)
        round_blocks(x, out, blocks, size, address, 0, *keys, shifts, 0, 0, _ONE)
        return np.flatnonzero((exponents < least) | (exponents > most)) if is_hard else None

    call.table = table  # type: ignore[attr-defined]  # keeps the address valid
    return call


def rounded_scale_kernel(
    key: tuple, spec: BlockSpec, rounding: Rounding, round_scales: Callable[..., None]
) -> BlockKernel:
    """The loops for blocks whose scales are rounded under one scale of the tensor (NVFP4).

    Args:
        key: of :func:`block_kernel_key`.
        spec, rounding: of the blocks.
        round_scales: the loop that rounds to ``spec.scale``: addresses of x and out, elements.
    """
    from lplab.formats.paths import numba_kernels

    assert spec.scale is not None
    round_blocks, find_largest = numba_kernels.grid_loop(*key), numba_kernels.largest_loop()
    find_targets, find_factors = numba_kernels.target_loop(), numba_kernels.factor_loop()
    c = array_kernels.constants(spec.element, rounding, "float32")
    table = numba_kernels.grid_constants(c, rounding.random_bits if rounding.is_stochastic else 0, "float32")
    address, size, highest = table.ctypes.data, spec.size, spec.scale.highest

    def call(x: int, out: int, blocks: int, keys: tuple[int, int] = (0, 0)) -> None:
        scratch = np.empty((3, blocks), np.float32)
        (largest,) = addresses(scratch)
        scales, factors = largest + 4 * blocks, largest + 8 * blocks
        amax = np.int32(find_largest(x, largest, blocks, size)).view(np.float32)
        tensor_scale = block_rounding.tensor_scale_of(amax, spec)
        per_element = float(block_rounding.scale_per_element(tensor_scale, spec))
        decode = tensor_scale[1]
        for first in range(0, blocks, SCALES_PER_STEP):
            at, count = 4 * first, min(SCALES_PER_STEP, blocks - first)
            find_targets(largest + at, factors + at, count, per_element, highest)
            round_scales(factors + at, scales + at, count)
            find_factors(largest + at, scales + at, factors + at, count, float(decode))
        round_blocks(x, out, blocks, size, address, 0, *keys, 0, factors, scales, decode)

    call.table = table  # type: ignore[attr-defined]  # keeps the address valid
    return call
