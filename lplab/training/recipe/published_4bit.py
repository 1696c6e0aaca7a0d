"""The published recipes of 2 and 4 bits."""

from __future__ import annotations

from typing import Any

from lplab.formats import FloatFormat
from lplab.quantizers import LUQ, SAWB
from lplab.training.recipe.published_8bit import fields_of, first_and_last, layer_of, rule_of
from lplab.training.recipe.quant_spec import LearnedClip, PerLayerGradScale, QuantSpec
from lplab.training.recipe.recipe import LayerRules, Recipe


def pact_sawb_2019(
    bits: int = 2, sawb: str | None = None, first_last: str = "fp32", shortcuts: str = "fp32", accumulator: Any = None
) -> Recipe:
    """Weights clipped by statistics (SAWB), activations by a trained bound (PACT); gradients stay float32.

    Args:
        bits: 2 or 4 of both weights and activations. 2-bit weights are ±α and ±α/3, 4-bit ones the integers −7 … 7.
        sawb: a row of ``lplab.quantizers.SAWB_ROWS`` for the weights, such as "4bit" (16 levels without zero) or
            "403_16" (the integers −8 … 7); by default that of ``bits``.
        first_last, shortcuts: the format of these layers (according to the paper "int8" suffices for first and last).
        accumulator: as in every recipe.
    """
    if bits not in (2, 4):
        raise ValueError(f"bits must be 2 or 4, got {bits!r}")
    wide, shortcut = (
        LayerRules(weight=rule_of(format), activation=rule_of(format), accumulator=accumulator)
        for format in (first_last, shortcuts)
    )
    return Recipe(
        name="pact_sawb_2019",
        weight=QuantSpec(quantizer=SAWB(bits, sawb)),
        activation=QuantSpec(scaling=LearnedClip(bits)),
        accumulator=accumulator,
        exceptions={"first": wide, "last": wide, "shortcut": shortcut, "embedding": LayerRules()},
        source="Choi et al. 2018 and 2019; readings: uncentred statistics, gradients pass everywhere through SAWB",
    )


def int4_fp4_2020(
    gradients: str = "fp4",
    phases: str = "two",
    scale: str | float = "layer",
    radix: int = 4,
    dw: str = "fp4",
    pointwise: str = "fp4",
    bits: int = 4,
    sawb: str | None = None,
    first_last: str = "dlfloat16",
    accumulator: Any = None,
) -> Recipe:
    """INT4 weights and activations, FP4 gradients in two phases with a scale for each layer (Sun et al. 2020).

    Args:
        gradients: "fp4"; "fp32" rounds only the forward pass, to INT4.
        phases: "two" rounds dy in the even phase for dx and in the odd one for dW; "swapped" the other way round;
            "single" in the even phase for both.
        scale: "layer" (GradScale), or one number for the whole network: a loss scale. For the small
            Transformer 2**14 lies in the middle of the window that works.
        radix: 4, or 2 for 1-3-0 with the magnitudes 1 … 64 (there is only the even phase).
        dw: "fp8" rounds dy to 1-5-2 for the update product, FP4 only for dx.
        pointwise: "fp8" gives all 1 × 1 convolutions FP8 gradients, "reducing_fp8" those that have fewer output than
            input channels (our reading of the paper's "bottom").
        bits: of weights and activations, 4 or 2.
        sawb: a row of ``lplab.quantizers.SAWB_ROWS`` for the weights; by default that of ``bits``.
        first_last: the format of first, last, depthwise, embedding and shortcut layers.
        accumulator: as in every recipe; the paper's is 1-6-9.
    """
    _check(gradients=(gradients, "fp4", "fp32"), phases=(phases, "two", "single", "swapped"), dw=(dw, "fp4", "fp8"))
    _check(pointwise=(pointwise, "fp4", "fp8", "reducing_fp8"), radix=(radix, 4, 2), bits=(bits, 2, 4))
    dx_rule, dw_rule = _fp4_pair(phases, scale, radix)
    fp8 = QuantSpec("hfp8_backward", scaling=PerLayerGradScale(maximum=2.0**15) if scale == "layer" else None)
    rules = LayerRules(
        weight=QuantSpec(quantizer=SAWB(bits, sawb)),
        activation=QuantSpec(scaling=LearnedClip(bits)),
        accumulator=accumulator,
    )
    eights = LayerRules(**fields_of(rules) | {"output_gradient_dx": fp8, "output_gradient_dw": fp8})
    wide = layer_of(first_last, accumulator)
    exceptions = first_and_last(first_last, accumulator) | {"depthwise": wide, "shortcut": wide}
    if gradients == "fp4":
        dw_rule = fp8 if dw == "fp8" else dw_rule
        rules = LayerRules(**fields_of(rules) | {"output_gradient_dx": dx_rule, "output_gradient_dw": dw_rule})
        kind = {"fp8": "pointwise", "reducing_fp8": "reducing"}.get(pointwise)
        exceptions |= {kind: eights} if kind else {}
    return Recipe(
        name="int4_fp4_2020",
        **fields_of(rules),
        exceptions=exceptions,
        loss_scale=1.0 if scale == "layer" else float(scale),
        source="Sun et al. 2020; readings: Fig. 2c for ties and underflow, SAWB on −7 … 7, GradScale halves late",
    )


def luq_2022(
    samples: int = 1, bits: int = 4, sawb: str | None = None, first_last: str = "fp32", accumulator: Any = None
) -> Recipe:
    """INT4 forward, gradients in powers of two without bias (LUQ, Chmiel et al., ICLR 2023).

    Args:
        samples: average so many roundings of dy for the update product ("SMP").
        bits: of weights and activations, 4 or 2; both are clipped by SAWB.
        sawb: a row of ``lplab.quantizers.SAWB_ROWS`` for both, such as "luq"; by default that of ``bits``.
        first_last: the format of first, last and embedding layers.
        accumulator: as in every recipe.
    """
    wide = layer_of(first_last, accumulator)
    return Recipe(
        name="luq_2022",
        weight=QuantSpec(quantizer=SAWB(bits, sawb)),
        activation=QuantSpec(quantizer=SAWB(bits, sawb)),
        output_gradient_dx=QuantSpec(quantizer=LUQ()),
        output_gradient_dw=QuantSpec(quantizer=LUQ(samples=samples)),
        accumulator=accumulator,
        exceptions={"first": wide, "last": wide, "embedding": LayerRules()},
        source="Chmiel et al. 2023; reading: the largest of seven magnitudes is max|dy|",
    )


def _fp4_pair(phases: str, scale: str | float, radix: int) -> tuple[QuantSpec, QuantSpec]:
    """How dy is rounded for dx and for dW."""
    if scale != "layer" and (isinstance(scale, bool | str) or not scale > 0):
        raise ValueError(f"scale must be 'layer' or a positive number, got {scale!r}")
    scaling = PerLayerGradScale() if scale == "layer" else None
    if radix == 2:
        if phases != "single":
            raise ValueError("radix 2 has one phase; pass phases='single'")
        rule = QuantSpec(FloatFormat(3, 0, bias=1, subnormals=False, specials="none"), "nearest_away", scaling)
        return rule, rule
    even, odd = (QuantSpec(f"radix4_fp4_{phase}", "nearest_away", scaling) for phase in ("even", "odd"))
    return {"two": (even, odd), "swapped": (odd, even), "single": (even, even)}[phases]


def _check(**choices: tuple[Any, ...]) -> None:
    for switch, (value, *allowed) in choices.items():
        if value not in allowed:
            raise ValueError(f"{switch} must be {' or '.join(map(repr, allowed))}, got {value!r}")
