"""Which kernel rounds a tensor, and its call.

This module imports Triton and torch, so other modules import it inside the functions that need it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from lplab.formats import counter_rng
from lplab.formats.gpu import compiler
from lplab.formats.paths import array_kernels, nearest_kernels
from lplab.formats.paths.array_kernels import FLOAT_LAYOUTS
from lplab.formats.rounding import Rounding
from lplab.formats.rounding_spec import Grid, Table

BLOCK = 1024  # numbers of a program
STRETCH = 2**30  # numbers of a launch: their indices fit 32 bits


def round_elements(spec: Grid | Table, rounding: Rounding, x: Tensor, out: Tensor, seed: int) -> bool:
    """Round a contiguous tensor of any float type into another; False where no kernel serves."""
    chosen = _chosen(spec, rounding, str(x.dtype), x.device)
    if chosen is None:
        return False
    kernel, constants = chosen
    x, out = x.reshape(-1), out.reshape(-1)
    for start in range(0, x.numel(), STRETCH):
        count = min(STRETCH, x.numel() - start)
        keys = _keys(rounding, seed, start // 2**32)
        _launch(kernel, -(-count // BLOCK), x[start:], out[start:], count, constants, _signed(start % 2**32), *keys, BLOCK=BLOCK)
    return True


def _launch(kernel: Any, programs: int, *arguments: Any, **more: Any) -> None:
    with torch.cuda.device_of(arguments[0]):
        kernel[(programs,)](*arguments, **more, enable_fp_fusion=False)


def _keys(rounding: Rounding, seed: int, stretch: int = 0) -> list[int]:
    return [_signed(key) for key in counter_rng.keys(seed, stretch)] if rounding.is_stochastic else [0, 0]


def _signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


@lru_cache(maxsize=1024)
def _chosen(spec: Grid | Table, rounding: Rounding, dtype: str, device: torch.device) -> tuple[Any, Tensor] | None:
    if not isinstance(spec, Grid) or spec.step != 1:
        return None
    real = "float64" if dtype == "torch.float64" else "float32"
    if array_kernels.rounding_strategy(spec, FLOAT_LAYOUTS[real]) == "wide":
        real = "float64"
    word = FLOAT_LAYOUTS[real]
    c = array_kernels.constants(spec, rounding, real)
    pattern = c.kind == "pattern"
    flags: dict[str, Any] = {"PATTERN": pattern, "RULE": "general", "CODE": rounding.code}
    key = nearest_kernels.nearest_kernel_key(spec, rounding) if real == "float32" else None
    if key is not None:
        flags = {"PATTERN": pattern, "RULE": "nearest", "AWAY": key[1], "SATURATES": key[3]}
    flags["NO_MANTISSA"] = c.no_mantissa
    flags["IS_STOCHASTIC"] = rounding.is_stochastic
    bits = rounding.random_bits
    from_integer = word.pattern(2.0**-c.cut if pattern else c.from_integer)
    values = [c.cut, c.cap, c.least, c.shift, c.inverse, from_integer, c.parity, c.highest, c.lowest, c.above, c.below]
    values += [c.infinity, c.minus_infinity, c.smallest, word.sign_bit if c.negative_zero else 0]
    values += [word.pattern(2.0**bits), 32 - bits, 2**bits - 1]
    constants = torch.tensor(values, dtype=getattr(torch, word.integer), device=device)
    return compiler.namespace(real, **flags)["elementwise"], constants
