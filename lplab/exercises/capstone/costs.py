"""What a recipe costs: average bits of the numbers that are multiplied, and modelled seconds of a training step.

Both are those of a large model on a chip that multiplies 4-bit floats (:func:`workload`, :data:`CHIP`): in the small
Transformer that the gap is measured with, the last layer alone is a large part of all products.

Not counted: the scale of a tensor, Hadamard transforms, random bits, and the second rounding of weights and activations
for the backward pass. The seconds are those of :mod:`lplab.hardware.compute`, an upper bound of speed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from lplab.exercises.capstone.scores import CostAxis
from lplab.formats import BlockFormat, FixedFormat, FloatFormat, IntFormat
from lplab.hardware import workloads
from lplab.hardware.compute import layer_times
from lplab.hardware.precisions import Precision
from lplab.hardware.workloads import Workload
from lplab.quantizers import PreScaled
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules, Recipe

CHIP = "b200"
BATCH = 8  # sequences in a step
FLOATS = ((4, "fp4"), (8, "fp8"), (16, "bf16"), (19, "tf32"), (32, "fp32"))
INTEGERS = ((4, "int4"), (8, "int8"))
PASSES = ("forward", "dx", "dW")


@cache
def workload() -> Workload:
    """A GPT of the shape of the 13-billion one in Brown et al. 2020 (table 2.1), its width a multiple of 128."""
    return workloads.gpt(40, 5120, sequence=2048, name="gpt_13b", label="GPT of 13 billion parameters")


@dataclass(frozen=True)
class Budget:
    """What a recipe may cost at most: average bits of a number, and modelled seconds of a step."""

    bits: float
    seconds: float

    def allows(self, costs: Costs) -> bool:
        """Whether a recipe with these costs keeps the budget.

        >>> BUDGET.allows(Costs(bits=16.0, seconds=0.5))
        False
        """
        return costs.bits <= self.bits and costs.seconds <= self.seconds


BUDGET = Budget(bits=7.0, seconds=0.62)
"""Fixed from the costs of the published recipes alone, before any gap was measured: NVFP4 as published keeps it."""


@dataclass(frozen=True)
class Costs:
    """What a recipe costs.

    Attributes:
        bits: average bits of a number that goes into a multiplication, its share of a block's scale included.
        seconds: of a training step of :func:`workload`, :data:`BATCH` sequences on :data:`CHIP`.

    >>> Costs.read(Costs(bits=5.25, seconds=0.5485).line)
    Costs(bits=5.25, seconds=0.5485)
    """

    AXES: ClassVar[tuple[CostAxis, ...]] = (
        CostAxis("average bits of a number", "bits a number", 2, BUDGET.bits),
        CostAxis("modelled ms of a step", "ms a step", 0, 1e3 * BUDGET.seconds),
    )

    bits: float
    seconds: float

    @property
    def keeps_budget(self) -> bool:
        """Whether the costs are within :data:`BUDGET`."""
        return BUDGET.allows(self)

    @property
    def on_axes(self) -> tuple[float, float]:
        """Bits and milliseconds."""
        return self.bits, 1e3 * self.seconds

    @property
    def text(self) -> str:
        """The costs in words."""
        return f"{self.bits:.2f} bits a number and {1e3 * self.seconds:.0f} ms a step"

    @property
    def over(self) -> str:
        """A line with budget and costs where the costs are above; "" if they are not."""
        limits = f"{BUDGET.bits:g} bits and {1e3 * BUDGET.seconds:.0f} ms"
        return "" if self.keeps_budget else f"Over the budget of {limits}: {self.text}."

    @property
    def line(self) -> str:
        """The costs with the digits that the marks of a class keep."""
        return f"{self.bits:.4f} bits a number and {1e3 * self.seconds:.3f} ms a step"

    @classmethod
    def read(cls, line: str) -> Costs | None:
        """The costs of a :attr:`line`; None if it is none."""
        found = re.fullmatch(r"([\d.]+) bits a number and ([\d.]+) ms a step", line)
        return found and cls(float(found[1]), float(found[2]) / 1e3)


def costs_of(recipe: Recipe) -> Costs:
    """The costs of a recipe; where it switches, those of both parts by their shares of the training.

    Raises:
        ValueError: a format that no chip of the table multiplies; a switch at a step in place of a share.

    >>> from lplab.training import recipes
    >>> round(costs_of(recipes.get("mxfp8_2025")).bits, 2)
    8.87
    """
    if recipe.switch is None:
        return Costs(average_bits(recipe), step_seconds(recipe))
    share = recipe.switch.at
    if not isinstance(share, float):
        raise ValueError(f"switch: at must be a share of the training above 0 and below 1, got {share!r}")
    first, second = costs_of(recipe.replace(switch=None)), costs_of(recipe.switch.to)
    return Costs(
        share * first.bits + (1 - share) * second.bits,
        share * first.seconds + (1 - share) * second.seconds,
    )


def average_bits(recipe: Recipe) -> float:
    """The mean of the bits of both operands, over all multiplications of a step.

    >>> from lplab.training import recipes
    >>> average_bits(recipes.get("fp32")), average_bits(Recipe(weight="bf16", activation="bf16"))
    (32.0, 21.333333333333332)
    """
    flops = workload().gemms(1).flops
    bits = np.zeros_like(flops)
    for layer, rules in enumerate(rules_of_layers(recipe)):
        for number, pair in enumerate(operands(rules, _is_attention(layer))):
            bits[number, layer] = sum(map(bits_of, pair)) / 2
    return float((flops * bits).sum() / flops.sum())


def step_seconds(recipe: Recipe) -> float:
    """Modelled seconds of a training step, each product at the peak of the wider of its two operands.

    >>> from lplab.training import recipes
    >>> step_seconds(recipes.get("nvfp4_2025")) < step_seconds(recipes.get("mxfp8_2025"))
    True
    """
    rules = rules_of_layers(recipe)
    seconds = np.zeros((len(PASSES), len(workload())))
    update = 0.0
    for number in range(len(PASSES)):
        for distinct in dict.fromkeys(rules):
            times = layer_times(workload(), CHIP, _precision(distinct, number), BATCH, fall_back=True)
            for layer, own in enumerate(rules):
                if own == distinct:
                    seconds[number, layer] = times.seconds[number, layer]
            update = float(times.update_seconds.sum())  # of float32 weights and state, whatever the recipe
    return float(seconds.sum() + update)


def rules_of_layers(recipe: Recipe) -> list[LayerRules]:
    """The rules of each layer of the workload, in its order, as the emulation finds them in a model.

    >>> kept = Recipe(weight="int4", exceptions={"late": LayerRules()}, late_share=0.5)
    >>> [rules.weight.grid for rules in rules_of_layers(kept)][::150]
    ['int4', 'int4', 'int4', 'float32']
    """
    layers = workload().layers
    weighted = [number for number, layer in enumerate(layers) if layer.kind in ("linear", "conv", "embedding")]
    late = set(weighted[len(weighted) - math.ceil(round(recipe.late_share * len(weighted), 9)) :])
    found = []
    for number, layer in enumerate(layers):
        kinds = {layer.exception} - {""} | ({"late"} if number in late else set())
        found.append(recipe.rules_for(kinds | ({"product"} if layer.kind == "attention" else set())))
    return found


def operands(rules: LayerRules, both_activations: bool = False) -> tuple[tuple[QuantSpec, QuantSpec], ...]:
    """The rules of the two operands of each product: forward, dx, dW.

    Args:
        rules: of the layer.
        both_activations: whether it multiplies two activations, as attention does.
    """
    activation = rules.activation_dw or rules.activation
    forward = (rules.activation, rules.activation if both_activations else rules.weight)
    weight = activation if both_activations else rules.weight_dx or rules.weight
    return forward, (rules.output_gradient_dx, weight), (rules.output_gradient_dw, activation)


def bits_of(rule: QuantSpec) -> float:
    """Bits of a number under a rule, its share of the scale of a block included.

    >>> bits_of(QuantSpec("nvfp4", axis="contraction")), bits_of(QuantSpec())
    (4.5, 32)
    """
    return _format_of(rule).bits


def peak_of(left: QuantSpec, right: QuantSpec) -> str:
    """The peak at which a chip multiplies numbers under two rules: the narrowest that holds both.

    Raises:
        ValueError: numbers of a kind that no chip of the table multiplies.

    >>> peak_of(QuantSpec("e2m1"), QuantSpec("e4m3fn")), peak_of(QuantSpec("int8"), QuantSpec("e4m3fn"))
    ('fp8', 'bf16')
    """
    elements = [_element_of(rule) for rule in (left, right)]
    widest = max(element.bits for element in elements)
    integers = [isinstance(element, IntFormat) for element in elements]
    if all(integers) and widest <= INTEGERS[-1][0]:
        return next(name for bits, name in INTEGERS if widest <= bits)
    # An integer and a float, or integers of more than 8 bits, are multiplied as floats of at least 16 bits.
    least = 16 if any(integers) else 0
    return next(name for bits, name in FLOATS if max(widest, least) <= bits)


def _format_of(rule: QuantSpec) -> BlockFormat | FloatFormat | IntFormat:
    format = rule.format
    if rule.quantizer is not None:
        if not isinstance(rule.quantizer, PreScaled):
            raise ValueError(f"the bits of {rule.label} are not known")
        format = rule.quantizer.format
    if not isinstance(format, BlockFormat | FloatFormat | IntFormat) or isinstance(format, FixedFormat):
        raise ValueError(f"no chip of the table multiplies {format.label}; choose floats, integers or blocks of them")
    return format


def _element_of(rule: QuantSpec) -> FloatFormat | IntFormat:
    format = _format_of(rule)
    element = format.element if isinstance(format, BlockFormat) else format
    assert isinstance(element, FloatFormat | IntFormat)  # BlockFormat takes no other element
    return element


def _precision(rules: LayerRules, number: int) -> Precision:
    """The bits and peaks of one of the three products, for the model of hardware."""
    forward, dx, dw = operands(rules)
    peak = peak_of(*(forward, dx, dw)[number])
    return Precision(
        "own",
        "a recipe of one's own",
        weight_bits=bits_of((forward, dx, forward)[number][1]),
        activation_bits=bits_of((forward[0], forward[0], dw[1])[number]),
        gradient_bits=bits_of((dx, dx, dw)[number][0]),
        forward_peaks=(peak,),
        weight_wire_bits=16,
        gradient_wire_bits=16,
    )


def _is_attention(layer: int) -> bool:
    return workload().layers[layer].kind == "attention"
