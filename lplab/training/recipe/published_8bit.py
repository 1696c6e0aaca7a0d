"""The published recipes of 16 and 8 bits, and the helpers of all recipes."""

from __future__ import annotations

from typing import Any

from lplab.checks import check_int
from lplab.formats import FixedFormat, IntFormat, Rounding
from lplab.quantizers import Amax
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import ROLES, LayerRules, Recipe, Update

STOCHASTIC_14 = Rounding("stochastic", random_bits=14)  # all bits that 1-6-9 drops of a float32
DLFLOAT = QuantSpec("dlfloat16", "nearest_away")


def fp32(accumulator: Any = None) -> Recipe:
    """Nothing is rounded: training is bit for bit that of plain PyTorch."""
    return Recipe(name="fp32", accumulator=accumulator, source="the baseline")


def bf16(accumulator: Any = None, master_weights: bool = True) -> Recipe:
    """Operands and results of all products in bfloat16, sums in float32; normalization and softmax in float32.

    ``master_weights=False`` stores weights in bfloat16, too, without a copy that has more bits.
    """
    rule = QuantSpec("bf16")
    update = Update(weight=rule if not master_weights else None)
    return Recipe(name="bf16", **everywhere(rule), accumulator=accumulator, update=update, source="mixed precision")


def fp16_mixed(accumulator: Any = None, loss_scale: float | str = "dynamic") -> Recipe:
    """Operands and results of all products in IEEE float16, float32 master weights, loss scaling.

    Overflow gives infinity, as float16 does: the dynamic loss scale then leaves the step out.
    """
    source = "Micikevicius et al. 2018, Mixed Precision Training"
    rules = everywhere(QuantSpec("fp16"))
    return Recipe(name="fp16_mixed", **rules, accumulator=accumulator, loss_scale=loss_scale, source=source)


def fixed16_2015(
    fraction_bits: int = 12,
    rounding: str = "stochastic",
    outputs: str | FixedFormat = "q6.10",
    word_length: int = 16,
    accumulator: Any = None,
) -> Recipe:
    """16-bit fixed point for everything, without master weights (Gupta et al. 2015).

    Args:
        fraction_bits, word_length: weights and updates are ⟨word_length − fraction_bits, fraction_bits⟩.
        rounding: of every conversion; "nearest_down" is the paper's nearest.
        outputs: the format of layer outputs and back-propagated errors.
        accumulator: as in every recipe. The paper adds exactly and rounds once.

    The error that is rounded is p − onehot, not its mean over the batch: gradients are sums (``loss_scale="batch"``),
    the mean is taken in the update. Softmax is computed in float32. Normalization, which the paper does not have, is
    computed in float32 from fixed-point numbers, and its result rounded.
    """
    check_int("word_length", word_length, 2, 32)
    check_int("fraction_bits", fraction_bits, 0, word_length - 1)
    weight = QuantSpec(FixedFormat(word_length - fraction_bits, fraction_bits), rounding)
    error = QuantSpec(outputs, rounding)
    rules = LayerRules(
        weight=weight,
        activation=error,
        output_gradient_dx=error,
        output_gradient_dw=error,
        output=error,
        input_gradient=error,
        accumulator=accumulator,
    )
    embedding = LayerRules(weight=weight, output_gradient_dw=error)
    normalization = LayerRules(output=error, output_gradient_dx=error)
    return Recipe(
        name="fixed16_2015",
        **fields_of(rules),
        exceptions={"embedding": embedding, "normalization": normalization},
        update=Update(weight=weight, momentum=weight, order="velocity"),
        loss_scale="batch",
        source="Gupta et al. 2015; reading: velocity and weights share a format, weight decay is part of the gradient",
    )


def fp8_2018(
    rounding: str = "stochastic",
    first_last: str = "dlfloat16",
    loss_scale: float | str = 1000.0,
    accumulator: Any = None,
) -> Recipe:
    """FP8 1-5-2 for all operands, 1-6-9 for weights and their update (Wang et al. 2018).

    Args:
        rounding: of the three steps of the update; "nearest_even" is the ablation that loses accuracy.
        first_last: the format of the first and the last layer; "fp8_152" is the ablation.
        loss_scale: 1000 for all models, according to later code.
        accumulator: as in every recipe; the paper's is 1-6-9 in chunks of 64.
    """
    rule = QuantSpec("fp8_152")
    state = QuantSpec("dlfloat16", STOCHASTIC_14 if rounding == "stochastic" else rounding)
    return Recipe(
        name="fp8_2018",
        **operands(rule),
        weight_gradient=DLFLOAT,
        accumulator=accumulator,
        exceptions=first_and_last(first_last, accumulator),
        update=Update(weight=state, momentum=state, gradient=DLFLOAT),
        loss_scale=loss_scale,
        source="Wang et al. 2018; readings: bias 15 with subnormals, largest value 57344; 1-6-9 rounds ties away",
    )


def hfp8_2019(
    forward: str = "hfp8_forward",
    backward: str = "hfp8_backward",
    first_last: str = "dlfloat16",
    update: str = "dlfloat16",
    loss_scale: float | str = "dynamic",
    accumulator: Any = None,
) -> Recipe:
    """Hybrid FP8: 1-4-3 forward, 1-5-2 for gradients (Sun et al. 2019).

    Args:
        forward, backward: the two formats; ``backward="hfp8_forward"`` and ``forward="fp8_152"`` are ablations.
        first_last: the format of first, last, depthwise and embedding layers.
        update: the format of weights and momentum, rounded stochastically; "fp32" for none.
        loss_scale: automatic in the paper.
        accumulator: as in every recipe; the paper's is 1-6-9.
    """
    state = QuantSpec(update, STOCHASTIC_14) if update != "fp32" else QuantSpec()
    gradient = QuantSpec(backward)
    wide = layer_of(first_last, accumulator)
    return Recipe(
        name="hfp8_2019",
        weight=forward,
        activation=forward,
        output_gradient_dx=gradient,
        output_gradient_dw=gradient,
        accumulator=accumulator,
        exceptions=first_and_last(first_last, accumulator) | {"depthwise": wide},
        update=Update(weight=state, momentum=state),
        loss_scale=loss_scale,
        source="Sun et al. 2019; readings: exponent bias 11, subnormals, saturation; updates as in Wang et al. 2018",
    )


def operands(rule: Any) -> dict[str, Any]:
    """One rule for everything that goes into a product."""
    return dict.fromkeys(ROLES[:4], rule)


def everywhere(rule: Any) -> dict[str, Any]:
    """One rule for everything that goes into a product or comes out of it."""
    return dict.fromkeys(ROLES, rule)


def layer_of(format: str, accumulator: Any) -> LayerRules:
    """A layer whose operands have one format."""
    return LayerRules(**operands(rule_of(format)), accumulator=accumulator)


def rule_of(format: str) -> QuantSpec:
    """The rule for a format by name: 1-6-9 rounds ties away, as the chips do; integers get a scale, else most are 0.

    >>> rule_of("int8"), rule_of("bf16")
    (QuantSpec('int8', scaling=Amax(power_of_two=False)), QuantSpec('bf16'))
    """
    return DLFLOAT if format == "dlfloat16" else with_integer_scale(QuantSpec(format))


def with_integer_scale(rule: QuantSpec) -> QuantSpec:
    """A rule whose format is an integer with one float32 scale for each tensor; other rules as they are."""
    is_integer = isinstance(rule.format, IntFormat) and not isinstance(rule.format, FixedFormat)
    return QuantSpec(rule.format, scaling=Amax()) if is_integer else rule


def first_and_last(format: str, accumulator: Any) -> dict[str, LayerRules]:
    """First, last and embedding layers in a wider format."""
    wide = layer_of(format, accumulator)
    return {"first": wide, "last": wide, "embedding": LayerRules(weight=wide.weight)}


def fields_of(rules: LayerRules) -> dict[str, Any]:
    """The rules of a layer by role, as keywords."""
    return {role: getattr(rules, role) for role in (*ROLES, "accumulator")}
