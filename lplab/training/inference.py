"""8-bit inference without retraining: a trained float32 model in any format, with batch norms re-tuned.

Sun et al. 2019 round weights and activations of a trained network to 1-4-3 and re-estimate the statistics of its batch
norms, by forward passes over training data; nothing is trained. The paper does not state the number of batches;
we take the plain mean over 100. For a fair comparison, re-tune the float32 model first: running means lag behind the
weights.

This module needs PyTorch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from lplab.training.emulation.conversion import emulation_of, quantize_model
from lplab.training.emulation.layer_kinds import kinds_of
from lplab.training.few_bits import in_few_bits
from lplab.training.few_bits_rule import is_few_bits
from lplab.training.recipe.published_8bit import with_integer_scale
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules, Recipe

BATCHES = 100
Evaluate = Callable[[nn.Module], float]
_NORMS = (nn.modules.batchnorm._BatchNorm,)


def inference_recipe(format: Any, activation: Any = None, *, scaling: Any = "auto", ends: Any = "same") -> Recipe:
    """A recipe that rounds weights and activations, and nothing else.

    Args:
        format: of weights, and of activations unless ``activation`` says otherwise: a format, its name
            or a ``QuantSpec``.
        activation: another one for activations.
        scaling: "auto" scales integers so that the largest magnitude of a tensor becomes the largest value (an integer
            grid without a scale would be useless) and leaves floating-point formats as they are; None never scales; or
            a rule such as ``Amax()`` for all.
        ends: the format of the first and the last layer: "same", or for example "fp32".

    >>> inference_recipe("hfp8_forward").weight, inference_recipe("int8").weight
    (QuantSpec('hfp8_forward'), QuantSpec('int8', scaling=Amax(power_of_two=False)))
    """
    rules = [_rule(each, scaling) for each in (format, format if activation is None else activation)]
    exceptions = {} if ends == "same" else dict.fromkeys(("first", "last"), LayerRules(*[_rule(ends, scaling)] * 2))
    name = f"inference in {rules[0].label}"
    return Recipe(name=name, weight=rules[0], activation=rules[1], exceptions=exceptions, source="Sun et al. 2019")


def _rule(format: Any, scaling: Any) -> QuantSpec:
    if isinstance(format, QuantSpec):
        return format
    if scaling == "auto":
        return with_integer_scale(QuantSpec(format))
    rule = QuantSpec(format)
    return rule if scaling is None or rule.is_identity else QuantSpec(rule.format, scaling=scaling)


def quantize_for_inference(model: nn.Module, format: Any = "hfp8_forward", **options: Any) -> nn.Module:
    """A copy of a trained model, in evaluation mode, its products computed from rounded operands.

    Args:
        model: trained; any module that :func:`quantize_model` takes. It is not changed.
        format: a format, its name, a ``QuantSpec`` or a whole ``Recipe``. Or a method for language models, as in
            "w4a16_gptq:group=64": bits of weights and of activations (16: not rounded), methods, options; see
            :class:`~lplab.training.FewBits`. :func:`bits_report` then says what the weights take.
        options: of :func:`inference_recipe`; of a method ``calibration``, batches of inputs, and ``layers``, see
            :func:`~lplab.training.few_bits.in_few_bits`.

    >>> quantize_for_inference(nn.Linear(2, 2), "int8").training
    False
    >>> net, batches = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), [torch.randn(16, 8)]
    >>> quantize_for_inference(net, "w4a16_gptq:group=8", calibration=batches)[0].weight.unique().numel() <= 16 * 8
    True
    """
    if is_few_bits(format):
        return in_few_bits(model, format, **options)
    recipe = format if isinstance(format, Recipe) else inference_recipe(format, **options)
    return quantize_model(model, recipe).eval()


@torch.no_grad()
def retune_batchnorm(model: nn.Module, inputs: Iterable[Any], batches: int = BATCHES) -> int:
    """Re-estimate running means and variances of all batch norms; weights, γ and β do not change.

    As ``update_bn`` of ``torch.optim.swa_utils``, for rounded models, too.

    Args:
        model: as it will be used, quantized or not; its modes do not change.
        inputs: batches of inputs (of tuples the first part is taken), such as a ``DataLoader`` or a list.
        batches: at most so many. All count the same: the mean over them, not a running one.

    Returns:
        The number of batches used; 0 if the model has no batch norm.

    Raises:
        ValueError: there are no inputs.

    >>> net = nn.BatchNorm1d(1)
    >>> retune_batchnorm(net, [torch.tensor([[1.0], [3.0]])]), net.running_mean.item()
    (1, 2.0)
    """
    norms = [module for module in model.modules() if isinstance(module, _NORMS) and module.track_running_stats]
    if not norms:
        return 0
    modes, momenta = {module: module.training for module in model.modules()}, {n: n.momentum for n in norms}
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a cumulative mean
        norm.train()
    used = 0
    try:
        for batch in inputs:
            if used == batches:
                break
            model(batch[0] if isinstance(batch, tuple | list) else batch)
            used += 1
    finally:
        for norm, momentum in momenta.items():
            norm.momentum = momentum
        for module, training in modes.items():
            module.training = training
    if not used:
        raise ValueError("there are no inputs to estimate the statistics from")
    return used


@dataclass(frozen=True)
class Comparison:
    """The effect of a format on a trained model, in the user's own measure.

    Attributes:
        label: of the format.
        float32: of the model as it was.
        direct: with rounded operands.
        retuned: the same with batch norms re-tuned; equal to ``direct`` where there are none.
        retrained: after further training of the rounded model; None without it.
    """

    label: str
    float32: float
    direct: float
    retuned: float
    retrained: float | None = None

    @property
    def recovered(self) -> float | None:
        """The share of the loss of quality that re-tuning takes back; None where there was none."""
        return None if self.direct == self.float32 else (self.direct - self.retuned) / (self.direct - self.float32)


def compare(
    model: nn.Module,
    formats: Iterable[Any],
    inputs: Iterable[Any],
    evaluate: Evaluate,
    *,
    retrain: Callable[[nn.Module], Any] | None = None,
    **options: Any,
) -> list[Comparison]:
    """A trained model in several formats: rounded, with batch norms re-tuned, and, with ``retrain``, trained further.

    Args:
        model: trained.
        formats: each a format, its name, a ``QuantSpec`` or a ``Recipe``; one name alone will do.
        inputs: batches of training inputs, as for :func:`retune_batchnorm`; iterated over once for each format.
        evaluate: gives the value of interest of a model in evaluation mode, such as its test error.
        retrain: trains the model that it is given, in place, such as ``lambda net: Trainer(net, data).run(100)``; it
            gets a new rounded copy in training mode, with straight-through gradients.
        options: of :func:`inference_recipe`.

    >>> net = nn.Linear(1, 1)
    >>> bias_of, retrain = lambda model: model.bias.item(), lambda model: nn.init.constant_(model.bias, 9)
    >>> compare(net, ["int4"], [], bias_of, retrain=retrain)[0].retrained
    9.0
    """
    inputs, formats = list(inputs), [formats] if isinstance(formats, str) else formats
    float32 = evaluate(copy.deepcopy(model).eval())
    rows = []
    for format in formats:
        quantized = quantize_for_inference(model, format, **options)
        direct = evaluate(quantized)
        retune_batchnorm(quantized, inputs)
        label = emulation_of(quantized).recipe.weight.label
        retuned = evaluate(quantized)
        rows.append(Comparison(label, float32, direct, retuned, _retrained(model, format, evaluate, retrain, options)))
    return rows


def _retrained(model: nn.Module, format: Any, evaluate: Evaluate, retrain: Any, options: dict[str, Any]) -> Any:
    if retrain is None:
        return None
    quantized = quantize_for_inference(model, format, **options).train()
    retrain(quantized)
    return evaluate(quantized.eval())


def sensitivity(model: nn.Module, format: Any, evaluate: Evaluate, **options: Any) -> dict[str, float]:
    """The result when only one layer is rounded: layer → value of ``evaluate``, in the order of the layers.

    Args:
        model, format, evaluate, options: as for :func:`compare`.

    Layers are the modules that own weights; products inside other modules (such as attention) stay in float32.
    """
    recipe = format if isinstance(format, Recipe) else inference_recipe(format, **options)
    results = {}
    for name in kinds_of(model):
        alone = quantize_model(model, Recipe(name="float32 but for one layer"), overrides={name or "*": recipe})
        results[name] = evaluate(alone.eval())
    return results
