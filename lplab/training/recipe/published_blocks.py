"""The published recipes of 2024 and 2025, whose numbers share scales in blocks and tiles.

Each operand of each product is rounded along the axis that the product sums over. All papers keep tables of vectors,
the last layer, normalization and the products of attention in wider formats: ``wide`` names it, "bf16" by default.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lplab.formats import BlockFormat, FloatFormat, get
from lplab.quantizers import NVFP4_SIGNS, Hadamard, PreScaled
from lplab.training.recipe.published_8bit import fields_of, layer_of, rule_of
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import BACKWARD_OPERANDS, LayerRules, Recipe, Switch


def deepseek_2024(
    tile: int = 128,
    weight_tile: int | None = 128,
    gradients: str = "e4m3fn",
    power_of_two: bool = False,
    wide: str = "bf16",
    accumulator: Any = None,
) -> Recipe:
    """E4M3 everywhere; tiles of 1 × 128 for activations and gradients, 128 × 128 for weights (DeepSeek-V3, 2024).

    Args:
        tile: numbers of activations and gradients that share a scale, along the axis of each product's sum.
        weight_tile: rows and columns of the weights that share one; None for blocks as those of activations.
        gradients: the format of output gradients; "e5m2" is that of older recipes.
        power_of_two: scales that are powers of two, rounded up, instead of float32 numbers. The paper has them for some
            activations.
        wide: the format of the last layer, of tables of vectors and of products of activations.
        accumulator: "promoted" is the paper's: a float32 sum of partial sums of 128 products, which the tensor core
            adds with about 14 bits.
    """
    weights = rows = _blocks("e4m3fn", tile, power_of_two)
    if weight_tile is not None:
        weights = _blocks("e4m3fn", (weight_tile, weight_tile), power_of_two)
    gradient = rows if gradients == "e4m3fn" else _blocks(gradients, tile, power_of_two)
    rules = LayerRules(
        weight=_along(weights),
        activation=_along(rows),
        output_gradient_dx=_along(gradient),
        output_gradient_dw=_along(gradient),
        weight_dx=None if weight_tile is not None else _along(weights),
        activation_dw=_along(rows),
        accumulator=accumulator,
    )
    source = (
        "DeepSeek-V3 2024, arXiv 2412.19437; readings: the scale is amax / 448 in float32; "
        "sums of dequantized numbers are rounded towards zero to 14 bits; moments of the optimizer stay in float32"
    )
    return _recipe("deepseek_2024", rules, wide, source)


def mxfp8_2025(
    scale_rule: str = "rceil", gradients: str = "e4m3fn", forward: str = "", wide: str = "bf16", accumulator: Any = None
) -> Recipe:
    """MXFP8 for all operands: E4M3 in blocks of 32, the scale rounded up (Mishra et al. 2025).

    Args:
        scale_rule: of the E8M0 scales, one of ``lplab.formats.SCALE_RULES``; "floor" is that of OCP, which may diverge.
        gradients: the element of output gradients; "e5m2" is the older choice.
        forward: a format for the operands of the forward product instead, such as "bf16".
        wide: the format of the last layer, of tables of vectors and of products of activations.
        accumulator: as in every recipe.
    """
    operand, gradient = (
        _along(BlockFormat(_element(element), scale_rule=scale_rule, name=f"mxfp8 {element}, {scale_rule}"))
        for element in ("e4m3fn", gradients)
    )
    rules = LayerRules(**_six(operand, gradient), accumulator=accumulator)
    source = "Mishra et al. 2025, arXiv 2506.08027; reading: blocks of each product along its own sum"
    return _recipe("mxfp8_2025", rules, wide, source, forward)


def mxfp4_2025(
    rounding: str = "stochastic",
    hadamard: int = 64,
    signs: bool = True,
    pre_scale: float = 0.75,
    scale_rule: str = "floor",
    forward: str = "bf16",
    wide: str = "bf16",
    accumulator: Any = None,
) -> Recipe:
    """MXFP4 in the backward pass, unbiased; the forward pass in BF16 (Tseng et al. 2025).

    Args:
        rounding: of all operands of the backward pass; "nearest_even" is the ablation.
        hadamard: how many neighbours along the axis of the sum are transformed together; 0 for none.
        signs: random signs in the transform; False for a fixed one.
        pre_scale: what numbers are multiplied with before rounding, so that none is clipped; 1 for the plain format.
        scale_rule: of the E8M0 scales, one of ``lplab.formats.SCALE_RULES``; "floor" is that of OCP.
        forward: the format of the forward product's operands: "bf16", "mxfp8_e4m3" or "mxfp4".
        wide: the format of the last layer, of tables of vectors and of products of activations.
        accumulator: as in every recipe.
    """
    format = _mxfp4_with(scale_rule)
    backward = _mxfp4(format, rounding, pre_scale, _transform(hadamard, 0 if signs else None))
    rules = LayerRules(**_six(backward, backward), accumulator=accumulator)
    source = "Tseng et al. 2025, arXiv 2502.20586; readings: one vector of signs for all products and steps"
    return _recipe("mxfp4_2025", rules, wide, source, forward)


def nvfp4_2025(
    hadamard: int = 16,
    signs: bool = True,
    rounding: str = "stochastic",
    forward_rounding: str = "nearest_even",
    weight_tile: int | None = 16,
    late: float = 0.15,
    forward: str = "",
    switch: float | None = None,
    wide: str = "bf16",
    accumulator: Any = None,
) -> Recipe:
    """NVFP4 for all operands, with four helpers (NVIDIA 2025, 12B parameters, 10T tokens).

    Args:
        hadamard: how many tokens are transformed together in both operands of dW; 0 for none.
        signs: the signs of Transformer Engine in the transform; False for none.
        rounding: of output gradients; "nearest_even" is the ablation.
        forward_rounding: of weights and activations; "stochastic" is the ablation that diverges.
        weight_tile: rows and columns of weights that share a scale, so that both passes have one weight; None for
            blocks of 16, each pass along its own sum.
        late: the share of the last layers in the wide format; 0 for none.
        forward: a format for the operands of the forward product instead, such as "bf16".
        switch: from this share of the training on (or from this step on, an integer) the forward pass is in the wide
            format; 0.82 in the paper.
        wide: the format of late layers, the last one, of tables of vectors and of products of activations.
        accumulator: as in every recipe.
    """
    transform = _transform(hadamard, NVFP4_SIGNS if hadamard == 16 else 0) if signs else _transform(hadamard, None)
    tiles = get("nvfp4")
    if weight_tile:
        name = f"nvfp4 {weight_tile} × {weight_tile}"
        tiles = replace(tiles, block_size=(weight_tile, weight_tile), name=name)
    weight, activation = _along(tiles, forward_rounding), _along("nvfp4", forward_rounding)
    rules = LayerRules(
        weight=weight,
        activation=activation,
        output_gradient_dx=_along("nvfp4", rounding),
        output_gradient_dw=_along("nvfp4", rounding, transform),
        weight_dx=None if weight_tile else weight,
        activation_dw=_along("nvfp4", forward_rounding, transform),
        accumulator=accumulator,
    )
    source = (
        "NVIDIA 2025, arXiv 2509.25149; readings: the late layers are the last 15 % in the order of registration; "
        "one vector of signs for all products and steps; results of products stay in float32"
    )
    recipe = _recipe("nvfp4_2025", rules, wide, source, forward, late)
    if switch is None:
        return recipe
    late_part = recipe.with_forward(layer_of(wide, accumulator))
    return recipe.replace(switch=Switch(switch, late_part.replace(name=f"nvfp4_2025, forward in {wide}")))


def quartet_2025(
    hadamard: int = 32,
    forward_hadamard: bool = True,
    rounding: str = "stochastic",
    pre_scale: float = 0.75,
    forward: str = "",
    wide: str = "bf16",
    accumulator: Any = None,
) -> Recipe:
    """MXFP4 in all three products: nearest forward, stochastic backward, a Hadamard transform in each (Quartet, 2025).

    Args:
        hadamard: how many neighbours along the axis of the sum are transformed together; 0 for none.
        forward_hadamard: whether the operands of the forward product are transformed, too.
        rounding: of the backward pass; "nearest_even" is the ablation.
        pre_scale: of the backward pass, as in :func:`mxfp4_2025`.
        forward: a format for the operands of the forward product instead, such as "bf16".
        wide: the format of the last layer, of tables of vectors and of products of activations.
        accumulator: as in every recipe.
    """
    ahead = _along(_mxfp4_with("nearest"), transform=_transform(hadamard if forward_hadamard else 0, None))
    back = _mxfp4(get("mxfp4"), rounding, pre_scale, _transform(hadamard, 0))
    rules = LayerRules(**_six(back, back) | {"weight": ahead, "activation": ahead}, accumulator=accumulator)
    source = (
        "Castro et al. 2025, arXiv 2505.14669, read at second hand; readings: the forward scale is the power of two "
        "nearest to amax / 6, not the one of least squared error; the backward pass rounds the unrounded tensors; "
        "clipped numbers have their gradient"
    )
    return _recipe("quartet_2025", rules, wide, source, forward)


def _recipe(name: str, rules: LayerRules, wide: str, source: str, forward: str = "", late: float = 0.0) -> Recipe:
    """The recipe with its wide layers; with ``forward`` the operands of the forward product have another format."""
    edges = layer_of(wide, rules.accumulator)
    exceptions = {"last": edges, "product": edges, "embedding": LayerRules(weight=edges.weight)}
    recipe = Recipe(
        name=name,
        **fields_of(rules),
        **{role: getattr(rules, role) for role in BACKWARD_OPERANDS},
        exceptions=exceptions | ({"late": edges} if late else {}),
        late_share=late,
        source=source,
    )
    if not forward:
        return recipe
    operand = _along(forward) if isinstance(get(forward), BlockFormat) else rule_of(forward)
    return recipe.with_forward(LayerRules(weight=operand, activation=operand))


def _along(format: Any, rounding: str = "nearest_even", transform: Hadamard | None = None) -> QuantSpec:
    """A rule for blocks along the axis of the product's sum."""
    return QuantSpec(format, rounding, axis="contraction", transform=transform)


def _six(operand: QuantSpec, gradient: QuantSpec) -> dict[str, QuantSpec]:
    """Every operand of every product rounded on its own."""
    operands = dict.fromkeys(("weight", "activation", "weight_dx", "activation_dw"), operand)
    return operands | dict.fromkeys(("output_gradient_dx", "output_gradient_dw"), gradient)


def _blocks(element: str, size: Any, power_of_two: bool) -> BlockFormat:
    """FP8 blocks or tiles with float32 scales, or with powers of two that clip nothing."""
    name = f"{element} {size[0]} × {size[1]}" if isinstance(size, tuple) else f"{element} 1 × {size}"
    if power_of_two:
        return BlockFormat(_element(element), block_size=size, scale_rule="rceil", name=f"{name}, 2^k")
    return BlockFormat(_element(element), scale=get("fp32"), block_size=size, name=name)


def _element(name: str) -> FloatFormat:
    """An element of blocks: it saturates."""
    return replace(get(name), saturating=True)


def _mxfp4_with(scale_rule: str) -> BlockFormat:
    """MXFP4 under a rule for its scales; the OCP rule is that of the catalogue."""
    format = get("mxfp4")
    return format if scale_rule == "floor" else replace(format, scale_rule=scale_rule, name=f"mxfp4, {scale_rule}")


def _mxfp4(format: BlockFormat, rounding: str, pre_scale: float, transform: Hadamard | None) -> QuantSpec:
    if pre_scale == 1:
        return _along(format, rounding, transform)
    return QuantSpec(quantizer=PreScaled(format, pre_scale, rounding), axis="contraction", transform=transform)


def _transform(size: int, signs: Any) -> Hadamard | None:
    return Hadamard(size, signs) if size else None
