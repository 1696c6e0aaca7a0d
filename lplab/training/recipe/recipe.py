"""A recipe is data: the grid of each tensor role, the layers that are exceptions, the update of weights.

The three products of a layer, and the roles of their operands and results::

    forward    y  = x · Wᵀ     activation x, weight, output y
    backward   dx = dy · W     output_gradient_dx, the weight as rounded for the forward product, input_gradient dx
    update     dW = dyᵀ · x    output_gradient_dw, the activation as rounded, weight_gradient dW

Biases are added before the output is rounded; their gradients are sums of the unrounded dy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from lplab.arithmetic.accumulator import Accumulator
from lplab.training.recipe.quant_spec import FLOAT32, LearnedClip, PerLayerGradScale, QuantSpec

ROLES = (
    "weight",
    "activation",
    "output_gradient_dx",
    "output_gradient_dw",
    "weight_gradient",
    "output",
    "input_gradient",
)
KINDS = {
    "first": "the first layer with weights; where that is an embedding, there is no first layer",
    "last": "the last layer with weights, in the order in which the model's modules are registered",
    "depthwise": "a convolution with as many groups as input channels",
    "shortcut": "a 1 × 1 convolution in a module called shortcut or downsample",
    "reducing": "a 1 × 1 convolution with fewer output than input channels",
    "pointwise": "any 1 × 1 convolution",
    "product": "a product of two activations, as in attention",
    "embedding": "a table of vectors",
    "normalization": "batch, layer, group, instance or RMS normalization: only output and output_gradient_dx are used",
}
"""Kinds of layers that a recipe may treat as exceptions; of several kinds of a layer, the first one decides."""
UPDATE_ROLES = ("weight", "momentum", "variance", "gradient")
CHUNKED = Accumulator("dlfloat16", chunk=64, rounding="nearest_away")
ORDERS = ("axpy", "velocity")


@dataclass(frozen=True)
class LayerRules:
    """How the tensors of one layer are rounded, role by role.

    Args:
        weight, activation, output_gradient_dx, output_gradient_dw, weight_gradient, output, input_gradient: a rule
            for each role, or the name of a format, or None for float32.
        accumulator: how the sums of all three products are carried out: an ``Accumulator`` of
            :mod:`lplab.arithmetic`; "chunked" for that of Wang et al. 2018, 1-6-9 in chunks of 64; or None for the
            native float32 sums.

    Raises:
        TypeError, ValueError: not a rule; a rule that does not fit the role.

    >>> LayerRules(weight="int4").weight
    QuantSpec('int4')
    """

    weight: Any = FLOAT32
    activation: Any = FLOAT32
    output_gradient_dx: Any = FLOAT32
    output_gradient_dw: Any = FLOAT32
    weight_gradient: Any = FLOAT32
    output: Any = FLOAT32
    input_gradient: Any = FLOAT32
    accumulator: Any = None

    def __post_init__(self) -> None:
        for role in ROLES:
            rule = as_rule(getattr(self, role), role)
            if isinstance(rule.scaling, LearnedClip) and role != "activation":
                raise ValueError(f"LearnedClip() clips are for activations, not for {role}")
            if isinstance(rule.scaling, PerLayerGradScale) and not role.startswith("output_gradient"):
                raise ValueError(f"PerLayerGradScale() scales are for output gradients, not for {role}")
            object.__setattr__(self, role, rule)
        if self.accumulator == "chunked":
            object.__setattr__(self, "accumulator", CHUNKED)
        if self.accumulator is not None and not isinstance(self.accumulator, Accumulator):
            raise TypeError(
                f"accumulator must be a lplab.arithmetic.Accumulator, 'chunked' or None, got {self.accumulator!r}"
            )

    @property
    def is_identity(self) -> bool:
        """Whether a layer under these rules is a plain PyTorch layer."""
        return self.accumulator is None and all(getattr(self, role).is_identity for role in ROLES)

    @property
    def summary(self) -> str:
        """The grids of a layer in short.

        >>> LayerRules(weight="int4", activation="int8", output_gradient_dx="e5m2", accumulator="chunked").summary
        'weight int4, activation int8, gradients e5m2, sums dlfloat16'
        >>> LayerRules(**dict.fromkeys(ROLES[:4], "e4m3fn")).summary, LayerRules().summary
        ('operands e4m3fn', 'float32')
        """
        grids = {role: getattr(self, role).grid for role in ROLES if not getattr(self, role).is_identity}
        parts = []
        if set(ROLES[:4]) <= set(grids) and len({grids[role] for role in ROLES[:4]}) == 1:
            parts.append(f"operands {grids['weight']}")
        else:
            parts += [f"{role} {grids[role]}" for role in ROLES[:2] if role in grids]
            gradients = dict.fromkeys(grids[role] for role in ROLES[2:4] if role in grids)
            parts += [f"gradients {' and '.join(gradients)}"] if gradients else []
        parts += [f"{role.replace('_', ' ')} {grids[role]}" for role in ROLES[4:] if role in grids]
        parts += [f"sums {self.accumulator.format.label}"] if self.accumulator else []
        return ", ".join(parts) or "float32"


def as_rule(value: Any, role: str) -> QuantSpec:
    """A rule as it is, one made from a format or its name, float32 for None; TypeError for anything else.

    >>> as_rule("bf16", "weight"), as_rule(None, "weight")
    (QuantSpec('bf16'), QuantSpec())
    """
    if value is None or isinstance(value, QuantSpec):
        return value or FLOAT32
    try:
        return QuantSpec(value)
    except TypeError:
        raise TypeError(f"{role} must be a QuantSpec, a format, its name or None, got {value!r}") from None


@dataclass(frozen=True)
class Update:
    """How weights are updated, and what their state is rounded to.

    Args:
        weight: what a stored weight is rounded to after each step.
        momentum: what momentum (of Adam the first moment) is rounded to.
        variance: what Adam's second moment is rounded to; it spans twice as many octaves as the gradient.
        gradient: what a gradient is rounded to first of all, after division by the loss scale.
        master_weight: None: weights are stored as ``weight`` says, there is no other copy. A rule: the optimizer keeps
            a copy of each weight rounded to this (``QuantSpec()`` for float32), ``weight`` is what the model uses.
        order: of SGD's arithmetic. "axpy": g ← g + λw, v ← μv + g, w ← w − ηv, each rounded (Wang et al. 2018).
            "velocity": v ← μv − η(g + λw), w ← w + v, each rounded (our reading of Gupta et al. 2015).

    >>> Update(weight="dlfloat16").weight
    QuantSpec('dlfloat16')
    """

    weight: Any = FLOAT32
    momentum: Any = FLOAT32
    variance: Any = FLOAT32
    gradient: Any = FLOAT32
    master_weight: Any = None
    order: str = "axpy"

    def __post_init__(self) -> None:
        for role in UPDATE_ROLES:
            object.__setattr__(self, role, as_rule(getattr(self, role), role))
        if self.master_weight is not None:
            object.__setattr__(self, "master_weight", as_rule(self.master_weight, "master_weight"))
        for rule in self.rules:
            if isinstance(rule.scaling, LearnedClip | PerLayerGradScale):
                raise ValueError(f"an update has no layer, so no scale of a layer; got {rule!r}")
        if self.order not in ORDERS:
            raise ValueError(f"order must be {' or '.join(map(repr, ORDERS))}, got {self.order!r}")

    @property
    def is_identity(self) -> bool:
        """Whether the update is that of PyTorch."""
        return all(rule.is_identity for rule in self.rules) and self.order == "axpy"

    @property
    def rules(self) -> tuple[QuantSpec, ...]:
        """All rules, that of the master weights included."""
        return (*(getattr(self, role) for role in UPDATE_ROLES), self.master_weight or FLOAT32)


@dataclass(frozen=True, repr=False)
class Recipe(LayerRules):
    """How a network is trained with few bits.

    The roles inherited from :class:`LayerRules` are those of an ordinary layer. All formats are emulated: the rounded
    numbers are stored in the model's float32, so memory and time are not those of hardware for the format.

    Args:
        name: shown in tables.
        exceptions: the rules of layers of a kind (:data:`KINDS`).
        update: how weights are updated.
        loss_scale: the factor of the loss: a positive number; "dynamic"; or "batch", the number of examples
            that the loss is a mean of, so that gradients are sums.
        source: the paper, and the readings taken where it is silent.

    >>> Recipe(activation="e4m3fn", weight="e4m3fn", exceptions={"last": LayerRules()}, name="mine")
    Recipe(name='mine', weight=QuantSpec('e4m3fn'), activation=QuantSpec('e4m3fn'), exceptions={'last': float32})
    """

    name: str = ""
    exceptions: Mapping[str, LayerRules] = field(default_factory=dict)
    update: Update = field(default_factory=Update)
    loss_scale: float | str = 1.0
    source: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind, rules in self.exceptions.items():
            if kind not in KINDS:
                raise ValueError(f"unknown kind of layer {kind!r}; allowed: {', '.join(KINDS)}")
            if not isinstance(rules, LayerRules):
                raise TypeError(f"the exception {kind!r} must be LayerRules, got {rules!r}")
        object.__setattr__(self, "exceptions", MappingProxyType(dict(self.exceptions)))
        if not isinstance(self.update, Update):
            raise TypeError(f"update must be an Update, got {self.update!r}")
        if self.loss_scale in ("dynamic", "batch"):
            return
        scale = self.loss_scale
        if isinstance(scale, bool | str) or not isinstance(scale, int | float) or not 0 < scale < math.inf:
            raise ValueError(f"loss_scale must be a positive number, 'dynamic' or 'batch', got {self.loss_scale!r}")

    @property
    def layers(self) -> LayerRules:
        """The rules of an ordinary layer."""
        return LayerRules(**{f.name: getattr(self, f.name) for f in fields(LayerRules)})

    def rules_for(self, kinds: frozenset[str] | set[str] | tuple[str, ...] = ()) -> LayerRules:
        """The rules of a layer that is of these kinds.

        >>> recipe = Recipe(weight="int4", exceptions={"first": LayerRules(weight="int8")})
        >>> recipe.rules_for({"first", "pointwise"}).weight, recipe.rules_for().weight
        (QuantSpec('int8'), QuantSpec('int4'))
        """
        kind = self.exception_for(kinds)
        if kind is not None:
            return self.exceptions[kind]
        return LayerRules() if "normalization" in kinds else self.layers

    def exception_for(self, kinds: frozenset[str] | set[str] | tuple[str, ...]) -> str | None:
        """Of the kinds of a layer the one whose exception decides; None where it is an ordinary layer.

        >>> Recipe(exceptions={"last": LayerRules(), "first": LayerRules()}).exception_for({"last", "first"})
        'first'
        """
        return next((kind for kind in KINDS if kind in kinds and kind in self.exceptions), None)

    def replace(self, **changes: Any) -> Recipe:
        """The recipe with some fields changed; roles inside exceptions do not change.

        >>> Recipe(weight="int4").replace(weight="int8").weight
        QuantSpec('int8')
        """
        return replace(self, **changes)

    def __reduce__(self) -> Any:
        """Pickle with a plain dict: MappingProxyType cannot be pickled."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _rebuild, (values | {"exceptions": dict(self.exceptions)},)

    def __repr__(self) -> str:
        shown = [f"name={self.name!r}"] if self.name else []
        shown += [f"{role}={getattr(self, role)!r}" for role in ROLES if not getattr(self, role).is_identity]
        shown += [f"accumulator={self.accumulator!r}"] if self.accumulator else []
        exceptions = (f"{kind!r}: {_short(rules)}" for kind, rules in self.exceptions.items())
        shown += [f"exceptions={{{', '.join(exceptions)}}}"] if self.exceptions else []
        shown += [f"update={self.update!r}"] if not self.update.is_identity else []
        shown += [f"loss_scale={self.loss_scale!r}"] if self.loss_scale != 1.0 else []
        return f"Recipe({', '.join(shown)})"

    def __str__(self) -> str:
        """One line for each role, for people."""
        rows = [(role, getattr(self, role).label) for role in ROLES if not getattr(self, role).is_identity]
        rows += [("accumulator", repr(self.accumulator) if self.accumulator else "float32")]
        rows += [(f"except {kind}", _short(rules)) for kind, rules in self.exceptions.items()]
        update = self.update
        if not update.is_identity:
            rows += [(f"stored {name}", getattr(update, name).label) for name in UPDATE_ROLES]
            rows += [("master weight", update.master_weight.label if update.master_weight else "none")]
        rows += [("loss scale", f"{self.loss_scale}")]
        return "\n".join([self.name or "recipe", *(f"  {name:<20}{value}" for name, value in rows)])


def _rebuild(values: dict[str, Any]) -> Recipe:
    return Recipe(**values)


def _short(rules: LayerRules) -> str:
    """The rules of an exception in a few words: one label where all rounded roles agree."""
    labels = {role: getattr(rules, role).label for role in ROLES if not getattr(rules, role).is_identity}
    if len(set(labels.values())) <= 1:
        return next(iter(labels.values()), "float32")
    return ", ".join(f"{role} {label}" for role, label in labels.items())
