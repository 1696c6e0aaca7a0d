"""A recipe made of chosen ingredients: formats of both passes, and the helpers of the papers of 2025."""

from __future__ import annotations

from lplab.recordings.ingredient_runs import LATE_SHARE, SWITCH_AT, Ingredients
from lplab.training.recipe.published_8bit import layer_of
from lplab.training.recipe.published_blocks import mxfp4_2025, mxfp8_2025, nvfp4_2025
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules, Recipe, Switch

HADAMARD = {"nvfp4": 16, "mxfp4": 64}  # numbers that the papers transform together
PRE_SCALE = 0.75  # of MXFP4 under stochastic rounding: Tseng et al. 2025


def recipe_of(chosen: Ingredients, switch_at: int | float = SWITCH_AT) -> Recipe:
    """The recipe of these ingredients, made of the published recipes and their switches.

    The last layer, tables of vectors and products of attention are in BF16, as in all of them.

    Args:
        chosen: formats and helpers.
        switch_at: when the forward pass gets wide, if it does: a share of the training, or the number of the step.

    >>> recipe_of(Ingredients("mxfp8", "mxfp8")).layers == mxfp8_2025().layers
    True
    >>> print(recipe_of(Ingredients("nvfp4", "bf16")).layers.summary)
    weight nvfp4, activation nvfp4, gradients bf16, weight dx bf16, activation dw bf16
    """
    recipe = _backward(chosen)
    if chosen.forward != chosen.backward:
        operand = _forward_rule(chosen.forward)
        recipe = recipe.with_forward(LayerRules(weight=operand, activation=operand))
    if chosen.late:
        late = {**recipe.exceptions, "late": layer_of("bf16", None)}
        recipe = recipe.replace(exceptions=late, late_share=LATE_SHARE)
    recipe = recipe.replace(name=chosen.name, source="")
    if not chosen.switch:
        return recipe
    wide = recipe.with_forward(layer_of("bf16", None)).replace(name=chosen.without("switch").name + ", forward in BF16")
    return recipe.replace(switch=Switch(switch_at, wide))


def _backward(chosen: Ingredients) -> Recipe:
    """The recipe of the backward pass, with the forward pass in the same format."""
    rounding = "stochastic" if chosen.stochastic else "nearest_even"
    hadamard = HADAMARD.get(chosen.backward, 0) if chosen.hadamard else 0
    if chosen.backward == "mxfp8":
        return mxfp8_2025()
    if chosen.backward == "mxfp4":
        scale = PRE_SCALE if chosen.stochastic else 1.0
        return mxfp4_2025(rounding=rounding, hadamard=hadamard, pre_scale=scale, forward="mxfp4")
    recipe = nvfp4_2025(rounding=rounding, hadamard=hadamard, weight_tile=16 if chosen.tiles else None, late=0.0)
    if chosen.backward == "nvfp4":
        return recipe
    wide = ("weight", "activation", "output_gradient_dx", "output_gradient_dw", "weight_dx", "activation_dw")
    return recipe.replace(**dict.fromkeys(wide, "bf16"))


def _forward_rule(kind: str) -> QuantSpec:
    """How the operands of the forward product are rounded."""
    if kind == "bf16":
        return QuantSpec("bf16")
    published = {"mxfp8": mxfp8_2025(), "nvfp4": nvfp4_2025(weight_tile=None), "mxfp4": mxfp4_2025(forward="mxfp4")}
    return published[kind].activation
