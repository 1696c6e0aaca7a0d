"""The recipes of the field: published ones as they are in the library, and plain MXFP4 to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from lplab.training.recipe import recipes
from lplab.training.recipe.recipe import BACKWARD_OPERANDS, LayerRules, Recipe
from lplab.training.recipe.recipe_data import OPERANDS, data_from_recipe, recipe_from_data

PLAIN = "plain MXFP4"


def plain_mxfp4() -> Recipe:
    """MXFP4 for all six operands of every ordinary layer, rounded to nearest, with no helper at all.

    >>> plain_mxfp4().output_gradient_dx
    QuantSpec('mxfp4', axis='contraction')
    """
    wide = dict.fromkeys(("last", "product"), "bf16") | {"embedding": {"weight": "bf16"}}
    return recipe_from_data({"name": PLAIN, **dict.fromkeys(OPERANDS, "mxfp4"), "exceptions": wide})


RECIPES: Mapping[str, Callable[[], Recipe]] = MappingProxyType(
    {
        "FP8 tiles (2024)": lambda: recipes.get("deepseek_2024"),
        "MXFP8 (2025)": lambda: recipes.get("mxfp8_2025"),
        "MXFP4 backward (2025)": lambda: recipes.get("mxfp4_2025"),
        "Quartet (2025)": lambda: recipes.get("quartet_2025"),
        "NVFP4 (2025)": lambda: recipes.get("nvfp4_2025"),
        PLAIN: plain_mxfp4,
    }
)
"""The published recipes of the field by the name that figures use, and plain MXFP4 to compare with."""


def data_of(name: str) -> dict[str, Any]:
    """A recipe of the field as data, to start from.

    Raises:
        ValueError: there is none of this name.

    >>> data_of("plain MXFP4")["weight"]
    'mxfp4'
    """
    if name not in RECIPES:
        raise ValueError(f"the field has no {name!r}; it has {', '.join(RECIPES)}")
    return data_from_recipe(RECIPES[name]()) | {"name": name}


def is_published(recipe: Recipe, steps: int = 100) -> bool:
    """Whether this does what a recipe of the field does, whatever its names are, and whatever in it changes nothing.

    Args:
        recipe: one's own.
        steps: of the training, in which a switch may come too late.

    >>> is_published(recipes.get("nvfp4_2025").replace(name="mine")), is_published(recipes.get("nvfp4_2025", late=0.1))
    (True, False)
    >>> is_published(recipe_from_data(data_of(PLAIN) | {"switch": {"at": 0.5, "to": {"name": "the same"}}}))
    True
    """
    return bool(published_name(recipe, steps))


def published_name(recipe: Recipe, steps: int = 100) -> str:
    """The name of the recipe of the field that does the same in so many steps; "" if none does.

    >>> published_name(recipe_from_data(data_of(PLAIN) | {"name": "mine"}))
    'plain MXFP4'
    """
    wanted = what_it_does(recipe, steps)
    return next((name for name, make in RECIPES.items() if wanted == what_it_does(make(), steps)), "")


def what_it_does(recipe: Recipe, steps: int) -> list[Any]:
    """The data of a recipe by the layers of the Transformer that is trained, without what changes nothing in it.

    Left out are names, rules of operands that a layer does not have, exceptions for layers that the model does not
    have, and a switch to the same or after the last step.

    Returns:
        The rules of each kind of layer, the share of late layers if they differ from others; then, if the recipe
        switches, the step and the same of the other recipe.

    >>> what_it_does(recipe_from_data({"weight": "bf16", "exceptions": {"first": "fp32"}}), 100)[0]["ordinary"]
    {'weight': 'bf16'}
    """
    layers = {kind: _rules(recipe.rules_for(kinds), kind) for kind, kinds in _KINDS.items()}
    late = _rules(recipe.rules_for({"late"}), "late")
    done: list[Any] = [layers, []]
    if recipe.late_share and late != layers["ordinary"]:
        done[1] = [recipe.late_share, late, _rules(recipe.rules_for({"last", "late"}), "last")]
    if recipe.switch is not None and (step := recipe.switch.step(steps)) < steps:
        other = what_it_does(recipe.switch.to, steps)
        if other != done:
            done += [step, other]
    return done


_KINDS = {"ordinary": (), "last": ("last",), "product": ("product",), "embedding": ("embedding",)}
_UNUSED = {"product": ("weight", "weight_dx"), "embedding": tuple(role for role in OPERANDS if role != "weight")}


def _rules(rules: LayerRules, kind: str) -> dict[str, Any]:
    """The data of the operands that a layer of this kind has."""
    again = {role: None for role, forward in BACKWARD_OPERANDS.items() if _is_as_forward(rules, role, forward)}
    roles = {role: rule for role in OPERANDS if (rule := getattr(replace(rules, **again), role)) is not None}
    data = _without_names(data_from_recipe(Recipe(**roles)))
    return {role: rule for role, rule in data.items() if role not in _UNUSED.get(kind, ())}


def _is_as_forward(rules: LayerRules, role: str, forward: str) -> bool:
    """Whether an operand of the backward pass has a rule under which it is what the forward product has already."""
    rule = getattr(rules, role)
    return rule is not None and rule == getattr(rules, forward) and rule.axis is None and not rule.is_random


def _without_names(data: Any) -> Any:
    """The data without any name."""
    if not isinstance(data, dict):
        return data
    return {key: _without_names(value) for key, value in data.items() if key != "name"}
