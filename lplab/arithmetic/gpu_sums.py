"""Products of tensors on a GPU with every addition rounded, by a kernel that Triton compiles.

The plan of the loops of the CPU says in which word the sums are formed, and how they are rounded. This module imports
Triton and torch, so other modules import it inside the functions that need it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
from torch import Tensor

from lplab.arithmetic import accumulation, compiled_sums, gpu_kernels, rng_streams
from lplab.arithmetic.accumulator import Accumulator
from lplab.arithmetic.exactness import BitRange, bit_range_of, products_are_exact
from lplab.formats import get, words
from lplab.formats.gpu import compiler, launch
from lplab.formats.paths.rules import Rule, grid_rule
from lplab.formats.rounding_spec import Grid

TILES = {"float32": 64, "float64": 32}  # rows and columns of the results of a program
UNROUNDED = Rule("", (), ())
MAX_ODD_BITS = 21  # mantissa bits of a format to which sums of float32 that were rounded to odd are rounded right


def matmul(a: Tensor, b: Tensor, accumulator: Accumulator, seed: int) -> Tensor | None:
    """[batch, rows, length] times [batch, length, columns], as float32 or float64; None where no kernel serves.

    The operands are float32 or float64 tensors with any strides, on a device that :func:`lplab.formats.gpu.serves`.
    """
    batch, rows, length = a.shape
    columns = b.shape[2]
    if batch * rows * columns * length == 0 or max(rows, columns, length) >= 2**31 or batch >= 2**16:
        return None
    plan = _plan(bit_range_of(a).times(bit_range_of(b)), accumulator, length)
    if plan is None:
        return None
    real, stages, exact = plan
    names, constants = _kernel(real, stages, exact, a.device)
    out = torch.empty((batch, rows, columns), dtype=getattr(torch, real), device=a.device)
    tile, chunk = TILES[real], accumulator.chunk or length
    grid = triton.cdiv(rows, tile), triton.cdiv(columns, tile), batch
    sizes, keys = (rows, columns, length, chunk), _keys(accumulator, seed, length, a.device)
    draws = compiled_sums._shift_and_mask(accumulator.rounding)
    operands = a.transpose(1, 2).contiguous(), b.contiguous()
    arguments = *operands, out, *sizes, *constants, *keys, *map(int, draws)
    launch.launch(names["products"], grid, *arguments, fuses=True, ROWS=tile, COLUMNS=tile)
    return out


Stages = tuple[Rule, Rule | None, Rule | None]
"""How sums, sums over chunks (None without chunks) and products (None where they are exact) are rounded."""


def _plan(products: BitRange, accumulator: Accumulator, length: int) -> tuple[str, Stages, tuple[bool, bool]] | None:
    """The word, the roundings, and whether sums and those over chunks recover what an addition of the word loses."""
    in_float32 = accumulator.format == get("fp32") and accumulator.fma and accumulator.rounding.mode == "nearest_even"
    if in_float32 and products_are_exact(products, "float32"):  # the addition of the word rounds as it has to
        spec, outer = accumulator.outer_format.rounding_spec, None
        if accumulator.chunk and isinstance(spec, Grid) and spec.mantissa_bits <= MAX_ODD_BITS and spec.step == 1:
            outer = grid_rule(spec, accumulator.rounding, "float32")
        elif accumulator.chunk and accumulator.outer_format == accumulator.format:
            outer = UNROUNDED
        if outer is not None or not accumulator.chunk:
            return "float32", (UNROUNDED, outer, None), (False, outer is not UNROUNDED)
    plan = compiled_sums.plan_loop(products, accumulator, length)
    if plan is None:
        return None
    return plan.real, (plan.inner, plan.outer, plan.product), (plan.exact_sums, plan.exact_sums)


@lru_cache(maxsize=256)
def _kernel(
    real: str, stages: Stages, exact: tuple[bool, bool], device: torch.device
) -> tuple[dict[str, Any], list[Tensor]]:
    """The kernels by name, and the constants of the three roundings on the device."""
    inner, outer, product = stages
    names = names_for(real, inner, product, exact[0])
    collect = names_for(real, outer or inner, None, exact[1])["add_rounded"]
    flags = {"IN_CHUNKS": outer is not None, "DRAWS": inner.random_bits > 0, "ROUNDS_PRODUCTS": product is not None}
    names = {**names, **compiler.known(collect=collect, **flags)}
    compiler.bind(gpu_kernels, names)
    return names, [launch.on_device((rule or inner).constants or (0,), real, device) for rule in stages]


def names_for(real: str, rule: Rule, product: Rule | None, exact_sums: bool) -> dict[str, Any]:
    """The functions of :mod:`lplab.arithmetic.accumulation` for Triton, with those of words, by name."""
    names = {
        **compiler.namespace(real),
        "rounded": _rounder(real, rule),
        "round_product": _rounder(real, product or rule),
        **compiler.known(
            TOP_BIT=31 if real == "float32" else 63,
            EXACT_SUMS=exact_sums,
            ROUNDS_PRODUCTS=product is not None,
        ),
    }
    functions = {name: getattr(accumulation, name) for name in accumulation.WORDS}
    return words.bound(names, compiler.compiled, functions)


def _rounder(real: str, rule: Rule) -> Any:
    return compiler.namespace(real, WORD=rule.word, **dict(rule.flags))["rounded_number"]


def _keys(accumulator: Accumulator, seed: int, length: int, device: torch.device) -> list[Tensor]:
    """The keys of additions, of totals over chunks and of products: int32 [steps, 2]."""
    keys = compiled_sums._keys(accumulator, seed, length)
    return [torch.from_numpy(each if len(each) else rng_streams.keys(0, 0, 1)).to(device) for each in keys]
