"""A trained model in few bits by the published methods of language models: ``w4a16_gptq:group=64``.

Only linear layers are rounded. The last layer and one that shares its weights with an embedding stay, as published.
Everything is emulated: rounded numbers are stored in float32. This module needs PyTorch.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from lplab.checks import check_at_least, check_int
from lplab.lookup import canonical_name
from lplab.quantizers import Hadamard
from lplab.quantizers.awq import awq_clipped, awq_scales
from lplab.quantizers.gptq import gptq_round, input_hessian
from lplab.quantizers.layer_inputs import OUTLIER, LayerInput
from lplab.quantizers.smoothing import smoothing_factors
from lplab.quantizers.weight_grid import WeightGrid
from lplab.training.calibration import change_in_order
from lplab.training.emulation.conversion import emulations, quantize_model
from lplab.training.emulation.layer_kinds import kinds_of
from lplab.training.recipe.quant_spec import FLOAT32, QuantSpec
from lplab.training.recipe.recipe import Recipe

PATTERN = re.compile(r"w(\d+)a(\d+)((?:_[a-z0-9]+)*)(?::(.*))?")
WORDS = {
    "rtn": "each weight to the nearest value, the default",
    "gptq": "column by column, errors passed on to the columns to come",
    "awq": "weights of large inputs scaled up before rounding",
    "smoothquant": "outliers of the inputs moved into the weights",
    "llmint8": "input channels above 6 not rounded",
    "hadamard": "inputs and weights transformed in blocks before rounding",
}
"""The methods in a name. One of rtn and gptq may stand beside one of the others."""
ROUNDINGS = ("rtn", "gptq")
DEFAULTS: dict[str, dict[str, Any]] = {
    "awq": {"kind": "asymmetric_awq"},
    "smoothquant": {"kind": "symmetric", "group": None},
    "llmint8": {"kind": "symmetric", "group": None},
}
"""Other defaults of a method, as published."""
WIDE = 16  # bits that count as not rounded
REST_BITS = 16  # of a number that stays; files have those in half precision


@dataclass(frozen=True)
class FewBits:
    """How weights and inputs of linear layers are rounded.

    Args:
        weight_bits, activation_bits: 16 leaves the numbers as they are.
        rounding: "rtn" or "gptq".
        repair: "", "awq", "smoothquant", "llmint8" or "hadamard".
        group, kind, search: of the :class:`~lplab.quantizers.WeightGrid`.
        per, clip: of the :class:`~lplab.quantizers.LayerInput`.
        damping, by_activation, static_groups: of :func:`~lplab.quantizers.gptq_round`.
        alpha: of :func:`~lplab.quantizers.smoothing_factors`.
        size: of the Hadamard transform.

    >>> FewBits.from_name("w4a16_gptq:group=64").group
    64
    >>> FewBits.from_name("w4a4_hadamard_gptq:per=tensor").name
    'w4a4_hadamard_gptq:per=tensor'
    """

    weight_bits: int
    activation_bits: int
    rounding: str = "rtn"
    repair: str = ""
    group: int | None = 128
    kind: str = "asymmetric"
    search: int = 0
    per: str = "token"
    clip: float = 1.0
    damping: float = 0.01
    by_activation: bool = False
    static_groups: bool = False
    alpha: float = 0.5
    size: int = 64
    name: str = ""

    def __post_init__(self) -> None:
        for name in ("weight_bits", "activation_bits"):
            bits = check_int(name, getattr(self, name), 2, WIDE)
            if name == "weight_bits" and 8 < bits < WIDE:
                raise ValueError(f"weights have 2 to 8 bits, or 16 for none, got {bits}")
        self.grid, self.layer_input()  # they check their numbers
        check_at_least(0, damping=self.damping)
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must be from 0 to 1, got {self.alpha}")

    @classmethod
    def from_name(cls, text: str) -> FewBits:
        """The rule that a name says: bits, methods and, after a colon, options.

        Raises:
            ValueError: no such name, method or option; the message says what is allowed.
        """
        match = PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f"a name is like 'w4a16_gptq:group=64', got {text!r}")
        words = [canonical_name(WORDS, word, "method") for word in match[3].split("_")[1:]]
        roundings, repairs = [w for w in words if w in ROUNDINGS], [w for w in words if w not in ROUNDINGS]
        if len(roundings) > 1 or len(repairs) > 1:
            raise ValueError(f"{text!r} has two methods of one kind: name one of {' and '.join(ROUNDINGS)}, one other")
        repair = repairs[0] if repairs else ""
        options: dict[str, Any] = dict(DEFAULTS.get(repair, {}))
        for part in filter(None, (match[4] or "").split(",")):
            key, sign, value = part.partition("=")
            key = canonical_name(_OPTIONS, key.strip(), "option")
            if not sign:
                raise ValueError(f"options are like group=64, got {part!r}")
            options[key] = _parsed(key, value.strip())
        rounding = roundings[0] if roundings else "rtn"
        return cls(int(match[1]), int(match[2]), rounding, repair, name=text, **options)

    @property
    def grid(self) -> WeightGrid:
        """What weights are rounded to; 8 bits stand for weights that are not rounded."""
        return WeightGrid(min(self.weight_bits, 8), self.group, self.kind, self.search)

    @property
    def needs_data(self) -> bool:
        """Whether weights depend on the inputs of their layers."""
        return self.repair in ("awq", "smoothquant") or (self.rounding == "gptq" and self.weight_bits < WIDE)

    def layer_input(self, factors: Any = None) -> LayerInput:
        """How the inputs of a layer are changed and rounded, with these factors."""
        outlier = OUTLIER if self.repair == "llmint8" else None
        hadamard = Hadamard(self.size) if self.repair == "hadamard" else None
        bits = self.activation_bits if self.activation_bits < WIDE else None
        return LayerInput(bits, self.per, self.clip, outlier, factors, hadamard)


def _parsed(key: str, value: str) -> Any:
    """The value of an option in a name."""
    kind = _OPTIONS[key]
    if key == "group" and value in ("row", "none"):
        return None
    if kind is bool:
        if value not in ("True", "False"):
            raise ValueError(f"{key} must be True or False, got {value!r}")
        return value == "True"
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{key} must be {'a whole number' if kind is int else 'a number'}, got {value!r}") from None


_OPTIONS: dict[str, type] = {
    **dict.fromkeys(("group", "search", "size"), int),
    **dict.fromkeys(("clip", "damping", "alpha"), float),
    **dict.fromkeys(("by_activation", "static_groups"), bool),
    **dict.fromkeys(("kind", "per"), str),
}


@dataclass(frozen=True)
class BitsRow:
    """What one parameter takes.

    Attributes:
        name: of the parameter; shared weights have the first of their names.
        numbers: how many it holds.
        bits: of all of it, with scales and zeros.
        how: in words.
    """

    name: str
    numbers: int
    bits: float
    how: str


@dataclass(frozen=True)
class BitsReport:
    """What the weights of a model take, with scales, zeros, and all that stays as it is.

    Attributes:
        name: of the method.
        rows: one for each parameter.

    Numbers that are not rounded count 16 bits each, though they are float32 here.
    """

    name: str
    rows: tuple[BitsRow, ...]

    @property
    def rounded(self) -> float:
        """Bits per weight of the rounded matrices alone: what papers state."""
        rows = [row for row in self.rows if row.how != STAYS]
        return sum(row.bits for row in rows) / max(sum(row.numbers for row in rows), 1)

    @property
    def whole(self) -> float:
        """Bits per weight of the whole model: what a file has."""
        return sum(row.bits for row in self.rows) / max(sum(row.numbers for row in self.rows), 1)

    @property
    def megabytes(self) -> float:
        """The size of a file with these weights, in 10^6 bytes."""
        return sum(row.bits for row in self.rows) / 8e6

    def __str__(self) -> str:
        """Two totals and a line for each kind of parameter."""
        kinds: dict[str, list[BitsRow]] = {}
        for row in self.rows:
            kinds.setdefault(row.how, []).append(row)
        lines = [
            f"{self.name}: {self.rounded:.2f} bits per rounded weight, {self.whole:.2f} of the whole model, "
            f"{self.megabytes:,.2f} MB"
        ]
        for how, rows in kinds.items():
            numbers = sum(row.numbers for row in rows)
            bits = sum(row.bits for row in rows) / numbers
            lines.append(f"  {numbers:>13,} numbers in {len(rows):>4} tensors  {bits:6.3f} bits  {how}")
        return "\n".join(lines)


STAYS = "not rounded"
ATTRIBUTE = "_lplab_bits"


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


def _rounded(rule: FewBits, weights: list[Tensor], x: Tensor | None) -> tuple[list[Tensor], list[Tensor], LayerInput]:
    """Weights of layers that share an input x: as they are to be stored, as they act on x itself; the rule of x."""
    given, scales = rule.layer_input(), None
    stacked = torch.cat([weight.detach() for weight in weights])
    back = lambda w: w  # noqa: E731
    if rule.repair == "hadamard":
        if stacked.shape[1] % rule.size:
            raise ValueError(f"size={rule.size} does not divide the {stacked.shape[1]} inputs; pass a divisor")
        stacked, back = given.hadamard.apply(stacked), given.hadamard.invert
        x = None if x is None else given.hadamard.apply(x)
    elif rule.repair == "smoothquant":
        factors = smoothing_factors(x.abs().amax(0), stacked.abs().amax(0), rule.alpha).to(stacked.dtype)
        given = rule.layer_input(factors)
        stacked, x, back = stacked * factors, x / factors, lambda w: w / factors
    elif rule.repair == "awq" and rule.weight_bits < WIDE:
        scales = awq_scales(stacked, x, rule.grid).to(stacked.dtype)
        stacked, x = awq_clipped(stacked * scales, x / scales, rule.grid), x / scales
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


def is_few_bits(format: Any) -> bool:
    """Whether a format is a name or a value of this module.

    >>> is_few_bits("w4a16_gptq:group=64"), is_few_bits("int8")
    (True, False)
    """
    return isinstance(format, FewBits) or (isinstance(format, str) and re.match(r"w\d+a\d+", format) is not None)
