"""A recipe is data: the grid of each tensor role, the layers that are exceptions, the update of weights.

The three products of a layer, and the roles of their operands and results::

    forward    y  = x · Wᵀ     activation x, weight, output y
    backward   dx = dy · W     output_gradient_dx, weight_dx, input_gradient dx
    update     dW = dyᵀ · x    output_gradient_dw, activation_dw, weight_gradient dW

``weight_dx`` and ``activation_dw`` are rounded from the unrounded tensors; None, the default, takes the weight and the
activation as they were rounded for the forward product. In a product of two activations both other factors of the
backward pass are rounded as ``activation_dw``.

Biases are added before the output is rounded; their gradients are sums of the unrounded dy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lplab.arithmetic.accumulator import Accumulator
from lplab.formats import BlockFormat, FloatFormat
from lplab.lookup import refuse_wrong_attributes
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
BACKWARD_OPERANDS = {"weight_dx": "weight", "activation_dw": "activation"}
"""Roles of the backward pass that may be None: then the operand is the forward product's, rounded by the other role."""
PAIRS = {
    "y": ("activation", "weight"),
    "dx": ("output_gradient_dx", "weight_dx"),
    "dW": ("output_gradient_dw", "activation_dw"),
}
"""The operands of the three products."""
RESULTS = ("output", "input_gradient", "weight_gradient")
KINDS = {
    "first": "the first layer with weights; where that is an embedding, there is no first layer",
    "last": "the last layer with weights, in the order in which the model's modules are registered",
    "late": "one of the last layers with weights, as many as the recipe's late_share says",
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
FOURTEEN_BITS = FloatFormat(8, 13, name="14 bits")
PROMOTED = Accumulator(FOURTEEN_BITS, chunk=128, outer="fp32", rounding="toward_zero")
ACCUMULATORS = {"chunked": CHUNKED, "promoted": PROMOTED}
ORDERS = ("axpy", "velocity")


@dataclass(frozen=True)
class LayerRules:
    """How the tensors of one layer are rounded, role by role.

    Args:
        weight, activation, output_gradient_dx, output_gradient_dw, weight_gradient, output, input_gradient: a rule
            for each role, or the name of a format, or None for float32.
        accumulator: how the sums of all three products are carried out: an ``Accumulator`` of
            :mod:`lplab.arithmetic`; "chunked" for that of Wang et al. 2018, 1-6-9 in chunks of 64; "promoted" for that
            of DeepSeek-V3, where every 128 products are added with 14 significant bits, as its authors found in the
            tensor cores of Hopper, then added to a float32 sum; or None for the native float32 sums.
        weight_dx, activation_dw: a rule for the weight in the product for dx, and for the activation in the product for
            dW, each rounded from the unrounded tensor; None to use the forward product's rounded operand again.

    Raises:
        TypeError, ValueError: not a rule; a rule that does not fit the role; a transform of one operand of a product
            alone.

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
    weight_dx: Any = None
    activation_dw: Any = None

    def __post_init__(self) -> None:
        for role in (*ROLES, *BACKWARD_OPERANDS):
            if role in BACKWARD_OPERANDS and getattr(self, role) is None:
                continue
            rule = as_rule(getattr(self, role), role)
            if isinstance(rule.scaling, LearnedClip) and role != "activation":
                raise ValueError(f"LearnedClip() clips are for activations, not for {role}")
            if isinstance(rule.scaling, PerLayerGradScale) and not role.startswith("output_gradient"):
                raise ValueError(f"PerLayerGradScale() scales are for output gradients, not for {role}")
            if rule.axis == "contraction" and role in RESULTS:
                raise ValueError(f"axis='contraction' is for operands of products, not for {role}")
            object.__setattr__(self, role, rule)
        if isinstance(self.accumulator, str) and self.accumulator in ACCUMULATORS:
            object.__setattr__(self, "accumulator", ACCUMULATORS[self.accumulator])
        if self.accumulator is not None and not isinstance(self.accumulator, Accumulator):
            raise TypeError(
                "accumulator must be a lplab.arithmetic.Accumulator, 'chunked', 'promoted' or None, "
                f"got {self.accumulator!r}"
            )
        if self.activation.learned and self.activation_dw is not None:
            raise ValueError("LearnedClip() rounds an activation once for all products; activation_dw must be None")
        self._check_transforms()
        self._check_axes()

    def _check_transforms(self) -> None:
        """A transform cancels only where both operands of a product have it."""
        for role, forward in BACKWARD_OPERANDS.items():
            transform = getattr(self, forward).transform
            if getattr(self, role) is None and transform is not None:
                raise ValueError(f"{forward} has {transform!r}, so {role} needs a rule of its own")
        for product, (left, right) in PAIRS.items():
            found = [getattr(getattr(self, role), "transform", None) for role in (left, right)]
            if found[0] != found[1]:
                raise ValueError(
                    f"a transform cancels only on both operands of a product; for {product}, "
                    f"{left} has {found[0]!r} and {right} has {found[1]!r}"
                )

    def _check_axes(self) -> None:
        """Where each product rounds its own operands, they lie in other ways: only the axis of its sums is clear."""
        for role in (*ROLES[:4], *BACKWARD_OPERANDS) if self.rounds_each_product else ():
            rule = getattr(self, role)
            if rule is None or rule.is_identity or rule.axis == "contraction":
                continue
            axis = rule.axis if rule.quantizer is None else getattr(rule.quantizer, "axis", None)
            if axis is not None or isinstance(rule.format, BlockFormat):
                needs = "axis='contraction', or no axis"
                raise ValueError(f"{role}: each product rounds its own operands here, so {rule!r} needs {needs}")

    @cached_property
    def is_identity(self) -> bool:
        """Whether a layer under these rules is a plain PyTorch layer."""
        return self.accumulator is None and not self._rounded

    @cached_property
    def _rounded(self) -> dict[str, QuantSpec]:
        """The rules that round, by role."""
        rules = {role: getattr(self, role) for role in (*ROLES, *BACKWARD_OPERANDS)}
        return {role: rule for role, rule in rules.items() if rule is not None and not rule.is_identity}

    @cached_property
    def rounds_each_product(self) -> bool:
        """Whether each product rounds its own operands: an unrounded tensor is rounded again, or an axis has a meaning.

        >>> LayerRules(weight="int4", weight_dx="int4").rounds_each_product, LayerRules().rounds_each_product
        (True, False)
        """
        given = any(getattr(self, role) is not None for role in BACKWARD_OPERANDS)
        return given or any(rule.axis == "contraction" for rule in self._rounded.values())

    @property
    def summary(self) -> str:
        """The grids of a layer in short.

        >>> LayerRules(weight="int4", activation="int8", output_gradient_dx="e5m2", accumulator="chunked").summary
        'weight int4, activation int8, gradients e5m2, sums dlfloat16'
        >>> LayerRules(**dict.fromkeys(ROLES[:4], "e4m3fn")).summary, LayerRules().summary
        ('operands e4m3fn', 'float32')
        """
        grids = {role: rule.grid for role, rule in self._rounded.items()}
        parts = []
        if set(ROLES[:4]) <= set(grids) and len({grids[role] for role in ROLES[:4]}) == 1:
            parts.append(f"operands {grids['weight']}")
        else:
            parts += [f"{role} {grids[role]}" for role in ROLES[:2] if role in grids]
            gradients = dict.fromkeys(grids[role] for role in ROLES[2:4] if role in grids)
            parts += [f"gradients {' and '.join(gradients)}"] if gradients else []
        again = [role for role, forward in BACKWARD_OPERANDS.items() if grids.get(role) != grids.get(forward)]
        parts += [f"{role.replace('_', ' ')} {grids[role]}" for role in (*ROLES[4:], *again) if role in grids]
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
            if rule.axis == "contraction":
                raise ValueError(f"an update is no product, so it sums over no axis; got {rule!r}")
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


@dataclass(frozen=True)
class Switch:
    """Another recipe from some step of a training on.

    Args:
        at: the number of the first step under the other recipe, counted from 0; or the share of the training that comes
            before it, above 0 and below 1.
        to: the other recipe.

    >>> Switch(0.55, Recipe(name="wide")).step(100), Switch(7, Recipe()).step(None)
    (55, 7)
    """

    at: int | float
    to: Recipe

    def __post_init__(self) -> None:
        is_step = isinstance(self.at, int) and not isinstance(self.at, bool) and self.at >= 0
        if not is_step and not (isinstance(self.at, float) and 0 < self.at < 1):
            raise ValueError(f"at must be the number of a step or a share above 0 and below 1, got {self.at!r}")
        if not isinstance(self.to, Recipe):
            raise TypeError(f"to must be a Recipe, got {self.to!r}")
        if self.to.switch is not None:
            raise ValueError("a recipe that a training switches to cannot switch again")

    def step(self, total: int | None) -> int:
        """The first step under the other recipe, of a training of ``total`` steps.

        Raises:
            ValueError: the switch is at a share of the training, and its length is not known.
        """
        if isinstance(self.at, int):
            return self.at
        if total is None:
            raise ValueError(f"the recipe switches after {self.at:.0%} of the training; pass total_steps to Trainer")
        return math.ceil(round(self.at * total, 9))  # 0.55 · 100 is a little more than 55

    @property
    def words(self) -> str:
        """When it happens, for tables.

        >>> Switch(7, Recipe()).words, Switch(0.5, Recipe()).words
        ('step 7', '50% on')
        """
        return f"step {self.at}" if isinstance(self.at, int) else f"{self.at:.0%} on"


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
        late_share: of the layers with weights (tables of vectors are counted), the share at the end, in the order of
            registration, that is of the kind "late", rounded up; needs an exception of this kind.
        switch: a :class:`Switch` to another recipe in the course of a training.

    >>> Recipe(activation="e4m3fn", weight="e4m3fn", exceptions={"last": LayerRules()}, name="mine")
    Recipe(name='mine', weight=QuantSpec('e4m3fn'), activation=QuantSpec('e4m3fn'), exceptions={'last': float32})
    """

    if not TYPE_CHECKING:
        __getattr__ = refuse_wrong_attributes("lplab.training.Recipe")

    name: str = ""
    exceptions: Mapping[str, LayerRules] = field(default_factory=dict)
    update: Update = field(default_factory=Update)
    loss_scale: float | str = 1.0
    source: str = ""
    late_share: float = 0.0
    switch: Switch | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.late_share, bool | str) or not 0 <= self.late_share <= 1:
            raise ValueError(f"late_share must be from 0 to 1, got {self.late_share!r}")
        if bool(self.late_share) != ("late" in self.exceptions):
            raise ValueError("late_share and an exception of the kind 'late' belong together")
        if self.switch is not None and not isinstance(self.switch, Switch):
            raise TypeError(f"switch must be a Switch or None, got {self.switch!r}")
        if self.switch is not None and (self.switch.to.update, self.switch.to.loss_scale) != (
            self.update,
            self.loss_scale,
        ):
            raise ValueError("a switch changes neither the update of weights nor the loss scale")
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
        """The kind whose exception decides, of the kinds of a layer; None where it is an ordinary layer.

        >>> Recipe(exceptions={"last": LayerRules(), "first": LayerRules()}).exception_for({"last", "first"})
        'first'
        """
        return next((kind for kind in KINDS if kind in kinds and kind in self.exceptions), None)

    def with_forward(self, other: LayerRules) -> Recipe:
        """The recipe whose forward product has the operands and the output of other rules; its backward pass stays.

        Operands of the backward pass that were those of the forward product are rounded by the rules of this recipe
        still. Exceptions stay as they are. Rules with blocks or an axis need ``axis="contraction"``.

        >>> Recipe(weight="int4", output_gradient_dx="int8").with_forward(LayerRules(weight="bf16")).weight_dx
        QuantSpec('int4')
        """
        backward = {role: getattr(self, role) or getattr(self, rule) for role, rule in BACKWARD_OPERANDS.items()}
        return self.replace(weight=other.weight, activation=other.activation, output=other.output, **backward)

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
        shown += [f"{role}={getattr(self, role)!r}" for role in BACKWARD_OPERANDS if getattr(self, role) is not None]
        shown += [f"accumulator={self.accumulator!r}"] if self.accumulator else []
        exceptions = (f"{kind!r}: {_short(rules)}" for kind, rules in self.exceptions.items())
        shown += [f"exceptions={{{', '.join(exceptions)}}}"] if self.exceptions else []
        shown += [f"update={self.update!r}"] if not self.update.is_identity else []
        shown += [f"loss_scale={self.loss_scale!r}"] if self.loss_scale != 1.0 else []
        shown += [f"late_share={self.late_share!r}"] if self.late_share else []
        shown += [f"switch={self.switch!r}"] if self.switch else []
        return f"Recipe({', '.join(shown)})"

    def __str__(self) -> str:
        """One line for each role, for people."""
        rows = [(role, getattr(self, role).label) for role in ROLES if not getattr(self, role).is_identity]
        rows += [(role, getattr(self, role).label) for role in BACKWARD_OPERANDS if getattr(self, role) is not None]
        rows += [("accumulator", repr(self.accumulator) if self.accumulator else "float32")]
        rows += [(f"except {kind}", _short(rules)) for kind, rules in self.exceptions.items()]
        update = self.update
        if not update.is_identity:
            rows += [(f"stored {name}", getattr(update, name).label) for name in UPDATE_ROLES]
            rows += [("master weight", update.master_weight.label if update.master_weight else "none")]
        rows += [("loss scale", f"{self.loss_scale}")]
        rows += [("late layers", f"the last {self.late_share:.0%}")] if self.late_share else []
        rows += [(f"from {self.switch.words}", self.switch.to.layers.summary)] if self.switch else []
        return "\n".join([self.name or "recipe", *(f"  {name:<20}{value}" for name, value in rows)])


def _rebuild(values: dict[str, Any]) -> Recipe:
    return Recipe(**values)


def _short(rules: LayerRules) -> str:
    """The rules of an exception in a few words: one label where all rounded roles agree."""
    labels = {role: rule.label for role, rule in rules._rounded.items()}
    if len(set(labels.values())) <= 1:
        return next(iter(labels.values()), "float32")
    return ", ".join(f"{role} {label}" for role, label in labels.items())
