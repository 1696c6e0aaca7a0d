"""A trained model in few bits by the published methods of language models: ``w4a16_gptq:group=64``.

Only linear layers are rounded. The last layer and one that shares its weights with an embedding stay, as published.
Everything is emulated: rounded numbers are stored in float32. This module needs PyTorch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from lplab.quantizers import Hadamard
from lplab.quantizers.awq import awq_clipped, awq_scales
from lplab.quantizers.gptq import gptq_round, input_hessian
from lplab.quantizers.layer_inputs import LayerInput
from lplab.quantizers.smoothing import smoothing_factors
from lplab.training.calibration import change_in_order
from lplab.training.emulation.conversion import emulations, quantize_model
from lplab.training.emulation.layer_kinds import kinds_of
from lplab.training.few_bits_rule import WIDE, FewBits
from lplab.training.recipe.quant_spec import FLOAT32, QuantSpec
from lplab.training.recipe.recipe import Recipe
from lplab.training.weight_bits import STAYS, BitsReport, BitsRow

ATTRIBUTE = "_lplab_bits"
REST_BITS = 16  # of a number that stays; files have those in half precision


@dataclass(frozen=True)
class RoundedBefore:
    """The rule of weights that were rounded before the model was put under a recipe: they stay."""

    label: str

    def quantize(self, w: Any) -> Any:
        """The weights as they are."""
        return w


@torch.no_grad()
def in_few_bits(
    model: nn.Module, rule: str | FewBits, calibration: Any = None, layers: Iterable[str] | None = None
) -> nn.Module:
    """A copy of a trained model whose linear layers have rounded weights, and inputs that are rounded as they come.

    Args:
        model: trained; it is not changed.
        rule: a name or a :class:`FewBits`.
        calibration: batches of inputs (:func:`~lplab.training.calibration.calibration_batch`), for methods that look
            at them. Take them from the training data.
        layers: names or patterns of the linear layers to round; None for all but the last, and but those that share
            their weights with an embedding.

    Raises:
        ValueError: calibration is missing, a layer is no linear one, a group does not divide the inputs of a layer.

    >>> net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> print(bits_report(in_few_bits(net, "w4a16:group=8")))
    w4a16:group=8: 6.50 bits per rounded weight, 9.24 of the whole model, 0.00 MB
                 64 numbers in    1 tensors   6.500 bits  int4 asymmetric, a scale for groups of 8
                 26 numbers in    3 tensors  16.000 bits  not rounded
    """
    rule = FewBits.from_name(rule) if isinstance(rule, str) else rule
    if calibration is None and rule.needs_data:
        raise ValueError(f"{rule.name or rule} looks at the inputs of layers: pass calibration=batches of them")
    if emulations(model):
        raise ValueError("the model is quantized already; pass the plain model, or dequantize_model(model)")
    copied = copy.deepcopy(model).eval()
    names = linear_layers(copied, layers)
    weights: dict[str, Tensor] = {}
    overrides: dict[str, Recipe] = {}
    factor_bits: dict[str, float] = {}

    def change(group: tuple[str, ...], x: Tensor | None) -> None:
        owners: list[Any] = [copied.get_submodule(name) for name in group]
        try:
            rounded, shown, given = _rounded(rule, [owner.weight for owner in owners], x)
        except ValueError as problem:
            raise ValueError(f"{group[0]}: {problem}") from None
        for name, owner, final, now in zip(group, owners, rounded, shown, strict=True):
            owner.weight.copy_(now)  # as it acts on inputs that are not changed: for the layers to come
            weights[name] = final
            overrides[name] = _recipe(rule, given)
        has_factors = given.factors is not None or rule.repair == "awq"
        factor_bits[group[0]] = REST_BITS * owners[0].in_features if has_factors else 0

    if rule.needs_data:
        change_in_order(copied, calibration, names, change)
    else:
        for name in names:
            change((name,), None)
    for name, weight in weights.items():
        owner: Any = copied.get_submodule(name)
        owner.weight.copy_(weight)
    recipe = Recipe(name=rule.name or "few bits", source="published methods for language models")
    quantized = quantize_model(copied, recipe, overrides=overrides, inplace=True)
    setattr(quantized, ATTRIBUTE, _bits(quantized, rule, weights, factor_bits))
    return quantized.eval()


def linear_layers(model: nn.Module, layers: Iterable[str] | None = None) -> list[str]:
    """The names of the linear layers to round, in the order of registration; see :func:`in_few_bits`.

    >>> linear_layers(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    ['0']
    """
    kinds = kinds_of(model)
    linear = [name for name in kinds if isinstance(model.get_submodule(name), nn.Linear)]
    if layers is not None:
        patterns = [layers] if isinstance(layers, str) else list(layers)
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in linear):
                raise ValueError(f"no linear layer is called {pattern!r}; there are: {', '.join(linear)}")
        return [name for name in linear if any(fnmatchcase(name, pattern) for pattern in patterns)]
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    ours = [
        name
        for name in linear
        if "last" not in kinds[name] and id(getattr(model.get_submodule(name), "weight", None)) not in tables
    ]
    if not ours:
        raise ValueError("the model has no linear layer but its last: name the layers, as layers=['*']")
    return ours


def _rounded(rule: FewBits, weights: list[Tensor], x: Any) -> tuple[list[Tensor], list[Tensor], LayerInput]:
    """Weights of layers that share an input x: as they are to be stored, as they act on x itself; the rule of x."""
    given, scales = rule.layer_input(), None
    stacked = torch.cat([weight.detach() for weight in weights])
    back = lambda w: w  # noqa: E731
    if rule.repair == "hadamard":
        if stacked.shape[1] % rule.size:
            raise ValueError(f"size={rule.size} does not divide the {stacked.shape[1]} inputs; pass a divisor")
        transform = Hadamard(rule.size)
        stacked, back = transform.apply(stacked), transform.invert
        x = None if x is None else transform.apply(x)
    elif rule.repair == "smoothquant":
        factors = smoothing_factors(x.abs().amax(0), stacked.abs().amax(0), rule.alpha).to(stacked.dtype)
        given = rule.layer_input(factors)
        stacked, x, back = stacked * factors, x / factors, lambda w: w / factors
    elif rule.repair == "awq" and rule.weight_bits < WIDE:
        scales = awq_scales(stacked, x, rule.grid).to(stacked.dtype)
        stacked, x = stacked * scales, x / scales
        stacked = awq_clipped(stacked, x, rule.grid) if rule.awq_clip else stacked
    rows = [len(weight) for weight in weights]
    if rule.weight_bits < WIDE:
        if rule.rounding == "gptq":
            options = {"by_activation": rule.by_activation, "static_groups": rule.static_groups}
            stacked = gptq_round(stacked, input_hessian(x), rule.grid, damping=rule.damping, **options)
        else:
            stacked = rule.grid.quantize(stacked)
    if scales is not None:
        stacked = stacked / scales  # the input is not changed
    return list(stacked.split(rows)), list(back(stacked).split(rows)), given


def _recipe(rule: FewBits, given: LayerInput) -> Recipe:
    """The recipe of one layer."""
    changed = given.factors is not None or given.hadamard is not None
    activation = QuantSpec(quantizer=given) if rule.activation_bits < WIDE or changed else FLOAT32
    method = f"{rule.grid.label}, by {' and '.join(filter(None, [rule.repair, rule.rounding]))}"
    weight = QuantSpec(quantizer=RoundedBefore(method)) if rule.weight_bits < WIDE else FLOAT32
    return Recipe(name=rule.name or "few bits", weight=weight, activation=activation)


def _bits(model: nn.Module, rule: FewBits, rounded: Iterable[str], factor_bits: dict[str, float]) -> BitsReport:
    matrices = {f"{name}.weight": name for name in rounded if rule.weight_bits < WIDE}
    rows = []
    for name, parameter in model.named_parameters():
        count = parameter.numel()
        if name in matrices:
            bits = count * rule.grid.bits_per_weight(parameter.shape[1]) + factor_bits.get(matrices[name], 0)
            rows.append(BitsRow(name, count, bits, rule.grid.label))
        else:
            rows.append(BitsRow(name, count, count * REST_BITS, STAYS))
    return BitsReport(rule.name or "few bits", tuple(rows))


def bits_report(model: nn.Module) -> BitsReport:
    """What the weights of a model take that :func:`lplab.training.quantize_for_inference` put into few bits.

    Counted are the bits of each weight with its share of scales (16 bits) and zeros (as many as a weight), factors of
    smoothing and of AWQ (16 bits an input), and 16 bits for every number that is not rounded.

    Raises:
        ValueError: the model was not made so.
    """
    found = getattr(model, ATTRIBUTE, None)
    if found is None:
        raise ValueError("bits are known of models from quantize_for_inference(model, 'w4a16_gptq:group=64', …) alone")
    return found
