"""The projection of rounded gradients on the true ones: how much of them is left in each weight.

This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn import functional

from lplab.training.emulation.conversion import quantize_model
from lplab.training.recipe.recipe import Recipe


def gradients_only(recipe: Recipe) -> Recipe:
    """The recipe's rounding of output gradients in every layer; everything else is float32.

    >>> from lplab.training.recipe import recipes
    >>> gradients_only(recipes.get("luq_2022")).weight
    QuantSpec()
    """
    rules = {role: getattr(recipe, role) for role in ("output_gradient_dx", "output_gradient_dw")}
    return Recipe(name=f"{recipe.name}, gradients only", loss_scale=recipe.loss_scale, **rules)


def gradient_projection(model: nn.Module, recipe: str | Recipe, inputs: Any, targets: Any) -> dict[str, float]:
    """⟨g′, g⟩ / ⟨g, g⟩ of each weight matrix: 1 where rounding keeps the gradient's length along its true direction.

    g is the gradient in float32, g′ the one under the recipe, of the same cross entropy of the same batch. What dx
    loses in one layer is lost in all layers before it as well.

    Args:
        model: gives scores [..., classes]; it is not changed.
        recipe: a recipe, or its name.
        inputs, targets: one batch; targets are class numbers [...].

    Returns:
        the gain by the name of the parameter, from the input to the loss, for parameters of two and more dimensions
        whose gradient is not zero.

    >>> import torch
    >>> from lplab.training import tasks
    >>> mlp = tasks.get("mlp")
    >>> gains = gradient_projection(mlp.model(0), "fp32", *mlp.data(20, 0)(0))
    >>> set(gains.values())
    {1.0}
    """
    true, rounded = (_gradients(model, wanted, inputs, targets) for wanted in ("fp32", recipe))
    gains = {}
    for name, g in true.items():
        length = float((g.double() ** 2).sum())
        if length and g.ndim > 1:
            gains[name] = float((rounded[name].double() * g.double()).sum()) / length
    return gains


def _gradients(model: nn.Module, recipe: str | Recipe, inputs: Any, targets: Any) -> dict[str, Any]:
    copy = quantize_model(model, recipe)
    copy.zero_grad()
    scores = copy(inputs)
    functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1)).backward()
    return {name: p.grad for name, p in copy.named_parameters() if p.grad is not None}
