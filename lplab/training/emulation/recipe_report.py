"""What a recipe does to a model, as a table: one row for each product and each tensor that goes in or comes out.

This module needs PyTorch; a data frame needs pandas.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from lplab.formats import BlockFormat
from lplab.quantizers import LUQ, SAWB, PreScaled, Quantizer
from lplab.training.emulation.checkpoint_state import quantized_modules
from lplab.training.emulation.layer_kinds import is_called, with_tensor_kinds
from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.quantized_op import QuantizedOp
from lplab.training.emulation.trained_clips import ALPHA, has_clip, quantizer_without_clip
from lplab.training.emulation.unseen_products import unseen_products
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules

if TYPE_CHECKING:
    import pandas as pd

PRODUCTS: dict[str, tuple[str, ...]] = {
    "forward": ("activation", "weight", "output"),
    "dx": ("output_gradient_dx", "weight", "input_gradient"),
    "dw": ("output_gradient_dw", "activation", "weight_gradient"),
}
"""The products of a layer, each with the roles of its operands and of its result. Where the rules round an operand of
the backward pass anew, it is in the place of that of the forward pass."""
ACTIVATIONS_ALONE: dict[str, tuple[str, ...]] = {
    "forward": ("activation", "output"),
    "dx": ("output_gradient_dx", "activation", "input_gradient"),
    "dw": ("output_gradient_dw", "activation", "weight_gradient"),
}
_NORMALIZATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


@dataclass(frozen=True)
class ReportRow:
    """How one tensor of one product is rounded.

    Attributes:
        layer: name of the module, with the product's number where a module computes several.
        kind: what the layer is (``lplab.training.recipe.recipe.KINDS``), "" for an ordinary one.
        product: "forward", "dx" (the gradient of the input) or "dw" (of the weight); "backward of F" for a product
            that the recipe does not see, in the gradient of a function F.
        role: of the tensor, as in a recipe; the name of the operator for a product that the recipe does not see.
        format: the grid; "float32" where nothing is rounded.
        rounding, scale: how; "" where nothing is rounded.
        accumulator: what the sums of the product are carried out in; "" where there is no product.
        because: why nothing is rounded; "" where something is.
    """

    layer: str
    kind: str
    product: str
    role: str
    format: str
    rounding: str
    scale: str
    accumulator: str
    because: str

    @property
    def rounded_to(self) -> str:
        """Format, rounding and scale in one text, or why there are none."""
        if self.because:
            return ", ".join(filter(None, [self.format, f"because {self.because}"]))
        return ", ".join(filter(None, [self.format, self.rounding, f"scale: {self.scale}" if self.scale else ""]))


@dataclass(frozen=True, repr=False)
class RecipeReport:
    """What a recipe does to a model; ``print`` shows a table.

    Attributes:
        recipe: its name; of several quantized parts the names.
        rows: in the order of the modules.
        has_run: whether the model has run; if not, products that ``forward`` computes itself are not known.
    """

    recipe: str
    rows: tuple[ReportRow, ...]
    has_run: bool

    def to_frame(self) -> pd.DataFrame:
        """One row for each product and role, columns as in :class:`ReportRow`; needs pandas."""
        import pandas as pd

        return pd.DataFrame([asdict(row) for row in self.rows], columns=list(ReportRow.__dataclass_fields__))

    def __str__(self) -> str:
        """The table as text, where roles that are rounded alike share a line."""
        lines = [("layer", "product", "role", "rounded to")]
        for layer, of_layer in groupby(self.rows, lambda row: row.layer):
            rows = list(of_layer)
            label = f"{layer} ({rows[0].kind})" if rows[0].kind else layer
            for product, roles, text in _lines_of_layer(rows):
                lines.append((label, product, roles, text))
                label = ""
        widths = [max(len(line[column]) for line in lines) for column in range(3)]
        table = ["  ".join([*map(str.ljust, line[:3], widths), line[3]]).rstrip() for line in lines]
        rounded = sum(not row.because for row in self.rows)
        title = f"{self.recipe}: {rounded} of {len(self.rows)} tensors are rounded"
        hint = "The model has not run: products that its forward computes itself (x @ w, attention) are not listed yet."
        return "\n".join([title, *table, *([] if self.has_run else [hint])])

    __repr__ = __str__


def _lines_of_layer(rows: list[ReportRow]) -> Iterator[tuple[str, str, str]]:
    """Product, roles and text of each line; one line for a layer that is in float32 for one reason."""
    if rows[0].because and len({row.rounded_to for row in rows}) == 1:
        yield ", ".join(dict.fromkeys(row.product for row in rows)), "all" if rows[0].role else "", rows[0].rounded_to
        return
    for product, of_product in groupby(rows, lambda row: row.product):
        alike: dict[str, list[ReportRow]] = {}
        for row in of_product:
            alike.setdefault(row.rounded_to, []).append(row)
        for number, (text, same) in enumerate(alike.items()):
            sums = f", sums {same[0].accumulator}" if same[0].accumulator else ""
            yield "" if number else product + sums, ", ".join(row.role for row in same), text


def recipe_report(model: nn.Module, *inputs: Any) -> RecipeReport:
    """How each tensor of each product of a quantized model is rounded, or why it is not.

    Modules of PyTorch are known at once. What a ``forward`` computes itself, with ``x @ w`` or attention, is known
    after it has run: call the model first, or pass inputs. A product that the recipe does not see, such as one inside
    ``torch.jit.script``, then has a row, too, with PyTorch's name of the operator ("aten.mm") as its role. Scales and
    clips are those of now. How the optimizer rounds stored weights and its state belongs to the recipe, not to a
    product: ``print(recipe)`` shows it.

    Args:
        model: a quantized model, a part of one, or a model with quantized parts; it is not changed.
        inputs: of the model; a copy of it is run on them.

    Returns:
        A table: ``print`` it, or take ``to_frame()``.

    Raises:
        ValueError: nothing in the model is quantized.

    >>> from lplab.training import quantize_model
    >>> model = quantize_model(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), "hfp8_2019", first=None)
    >>> report = recipe_report(model)
    >>> [(row.role, row.rounded_to) for row in report.rows if row.layer == "0" and row.product == "forward"]
    [('activation', 'hfp8_forward, nearest even'), ('weight', 'hfp8_forward, nearest even'),
     ('output', 'float32, because hfp8_2019 rounds no output')]
    >>> report.rows[9].layer, report.rows[9].kind, report.rows[9].format
    ('1', 'last', 'dlfloat16')
    """
    modules = quantized_modules(model)
    probe = modules
    if inputs:
        copied = copy.deepcopy(model)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            copied(*inputs)
        probe = quantized_modules(copied)
    rows: list[ReportRow] = []
    for (name, module, hook), (_, _, ran) in zip(modules, probe, strict=True):
        ops = _ops(hook.emulation, ran.emulation, hook.name, module)
        for op in ops:
            rows += _rows(name + op.name[len(hook.name) :], op, hook.emulation, hook.name, module)
        for product in dict.fromkeys((*unseen_products(hook.emulation), *unseen_products(ran.emulation))):
            if product.layer == hook.name:
                rows.append(
                    ReportRow(name, "", product.where, product.operator, "float32", "", "", "", product.because)
                )
        if not ops and hook.name in hook.emulation.kinds and is_called(module):
            because = "it has not run" if ran.emulation.ops else "its products are known once the model has run"
            rows.append(ReportRow(name, _kind(hook.emulation.kinds[hook.name]), "", "", "", "", "", "", because))
    recipes = dict.fromkeys(hook.emulation.recipe.name or "recipe" for _, _, hook in modules)
    return RecipeReport(" and ".join(recipes), tuple(rows), any(hook.emulation.ops for _, _, hook in probe))


def _ops(emulation: Emulation, ran: Emulation, name: str, module: nn.Module) -> list[QuantizedOp]:
    """The ops of a module: those that follow from its class, then those that ran, each with the state of now."""
    ops = {op.name: op for op in _expected_ops(emulation, name, module)}
    ops |= {op.name: QuantizedOp(op.name, op.kinds, op.rules) for op in ran.ops_of(name).values()}
    ops |= {op.name: op for op in emulation.ops_of(name).values()}
    return list(ops.values())


def _expected_ops(emulation: Emulation, name: str, module: nn.Module) -> Iterator[QuantizedOp]:
    """The ops that a module of PyTorch will have when it runs, named as when it runs."""
    if not is_called(module):
        return
    kinds, names = emulation.kinds.get(name, frozenset()), [name]
    if isinstance(module, _NORMALIZATIONS):
        kinds, names = frozenset({"normalization"}), [f"{name}/normalization"]
    elif isinstance(module, nn.LSTM | nn.GRU):
        ends = ("", "_reverse") if module.bidirectional else ("",)
        parts = ("input", "recurrent", "projection") if module.proj_size else ("input", "recurrent")
        names = [f"{name}/{part}_l{i}{end}" for i in range(module.num_layers) for end in ends for part in parts]
    elif isinstance(module, nn.LSTMCell | nn.GRUCell):
        names = [f"{name}/input", f"{name}/recurrent"]
    elif not isinstance(module, nn.Linear | nn.modules.conv._ConvNd | nn.Embedding):
        return
    kinds = with_tensor_kinds(module, kinds)
    for op_name in names:
        yield QuantizedOp(op_name, kinds, emulation.rules_of(name, kinds))


def _rows(layer: str, op: QuantizedOp, emulation: Emulation, name: str, module: nn.Module) -> Iterator[ReportRow]:
    """The rows of one op."""
    rules = op.rules
    is_product = not op.kinds & {"embedding", "normalization"}
    products = _products(rules, "product" in op.kinds)
    if not is_product:  # one rule decides on the gradient of the result, as in op_handlers
        gradients = ["output_gradient_dw", "output_gradient_dx"]
        rounded = [role for role in gradients if not getattr(rules, role).is_identity]
        is_lookup = "embedding" in op.kinds
        gradient = rounded[0] if rounded else gradients[0 if is_lookup else 1]
        products = {"forward": ("output",), "dx": (gradient,)}
        if is_lookup:
            products = {"forward": ("weight", "output"), "dw": (gradient, "weight_gradient")}
    accumulator = "" if not is_product else _accumulator(rules.accumulator)
    for product, roles in products.items():
        for role in roles:
            rule = getattr(rules, role)
            cells = ("float32", "", "") if rule.is_identity else _cells(rule, op, module)
            because = _because(emulation, name, op.kinds, role) if rule.is_identity else ""
            yield ReportRow(layer, _kind(op.kinds), product, role, *cells, accumulator, because)


def _products(rules: LayerRules, of_activations: bool) -> dict[str, tuple[str, ...]]:
    """The products with the roles that the rules give their operands."""
    again = {"weight": "weight_dx", "activation": "activation_dw"}
    again = {role: other for role, other in again.items() if getattr(rules, other) is not None}
    table = ACTIVATIONS_ALONE if of_activations else PRODUCTS
    backward = {name: tuple(again.get(role, role) for role in table[name]) for name in ("dx", "dw")}
    return {"forward": table["forward"], **backward}


def _kind(kinds: frozenset[str]) -> str:
    return "/".join(sorted(kinds))


def _accumulator(accumulator: Any) -> str:
    if accumulator is None:
        return "float32"
    chunks = f" in chunks of {accumulator.chunk}" if accumulator.chunk else ""
    return f"{accumulator.format.label}, {_mode(accumulator.rounding)}{chunks}"


def _mode(rounding: Any) -> str:
    """A rounding in words.

    >>> from lplab.formats import Rounding
    >>> _mode(Rounding("nearest_even")), _mode(Rounding("stochastic", random_bits=14))
    ('nearest even', 'stochastic, 14 bits')
    """
    bits = f", {rounding.random_bits} bits" if rounding.is_stochastic else ""
    return rounding.mode.replace("_", " ") + bits


def _cells(rule: QuantSpec, op: QuantizedOp, module: nn.Module) -> tuple[str, str, str]:
    """Format, rounding and scale of a rule that rounds; where blocks lie, and what is transformed before."""
    format, rounding, scale = _own_cells(rule, op, module)
    scale += " along the sum" if rule.axis == "contraction" else ""
    if rule.transform is not None:
        signs = " with signs" if rule.transform.signs is not None else ""
        scale += f", after a Hadamard transform of {rule.transform.size}{signs}"
    return format, rounding, scale


def _own_cells(rule: QuantSpec, op: QuantizedOp, module: nn.Module) -> tuple[str, str, str]:
    quantizer: Any = rule.quantizer
    if rule.learned and not has_clip(op, module):
        quantizer = quantizer_without_clip(rule.learned.bits)
    elif rule.learned:
        sign = {True: "int", False: "uint", None: "int or uint"}[op.clip_signed]
        clip = f"trained clip {getattr(module, ALPHA).item():.4g}"
        is_set = op.clip_signed is not None
        return f"{sign}{rule.learned.bits}", "nearest even", clip if is_set else "trained clip, not set yet"
    if isinstance(quantizer, SAWB):
        return quantizer.label, "nearest even", f"SAWB's clip of each tensor{_axis(quantizer.axis)}"
    if isinstance(quantizer, LUQ):
        mode = "nearest" if quantizer.nearest else f"stochastic, {quantizer.random_bits} bits"
        samples = f", mean of {quantizer.samples}" if quantizer.samples > 1 else ""
        return quantizer.label, mode + samples, "largest magnitude of each tensor"
    if isinstance(quantizer, PreScaled):
        return quantizer.label, _mode(quantizer.rounding), _block_scale(quantizer.format)
    if isinstance(quantizer, Quantizer):
        rule = QuantSpec(quantizer.format, quantizer.rounding, quantizer.scaling, quantizer.axis)
    elif quantizer is not None:
        return rule.grid, "as the quantizer does", "as the quantizer does"
    if rule.per_layer:
        now = f"2^{math.log2(op.scale.scale):g}" if op.scale is not None and op.scale.is_set else "not set yet"
        return rule.format.label, _mode(rule.rounding), f"GradScale, {now}"
    if isinstance(rule.format, BlockFormat):
        return rule.format.label, _mode(rule.rounding), _block_scale(rule.format)
    scale = f"{rule.scaling!r} of each tensor{_axis(rule.axis)}" if rule.scaling is not None else ""
    return rule.format.label, _mode(rule.rounding), scale


def _block_scale(format: BlockFormat) -> str:
    """The scale that a block shares.

    >>> from lplab.formats import get
    >>> _block_scale(get("mxfp4")), _block_scale(get("nvfp4"))
    ('e8m0 for each 32', 'e4m3fn for each 16, one for the tensor')
    """
    shared: Any = format.scale
    rows, columns = format.tile
    size = f"{columns}" if rows == 1 else f"{rows} × {columns}"
    return f"{shared.label} for each {size}" + (", one for the tensor" * format.tensor_scale)


def _axis(axis: int | str | None) -> str:
    return "" if axis is None else f" along axis {axis}"


def _because(emulation: Emulation, name: str, kinds: frozenset[str], role: str) -> str:
    """Why a tensor is not rounded."""
    pattern, recipe = emulation.recipe_of(name)
    who = recipe.name or "the recipe"
    if recipe.is_identity and not recipe.exceptions:
        return f"{who} rounds nothing" + (f" (skipped or overridden by {pattern!r})" if pattern is not None else "")
    kind = recipe.exception_for(kinds)
    if kind is None and "normalization" in kinds:
        return f"{who} leaves normalization in float32"
    if kind is not None and recipe.exceptions[kind].is_identity:
        return f"{who} leaves layers of the kind {kind!r} in float32"
    tensor = role.replace("_", " ").removesuffix(" dx").removesuffix(" dw")
    return f"{who} rounds no {tensor}" + (f" of the kind {kind!r}" if kind is not None else "")
