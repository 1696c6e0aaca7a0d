"""The recipes of the field: published ones as they are in the library, and plain MXFP4 to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lplab.training.recipe import recipes
from lplab.training.recipe.recipe import Recipe
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


def is_published(recipe: Recipe) -> bool:
    """Whether this is a recipe of the field as it is, whatever names it and its formats have.

    >>> is_published(recipes.get("nvfp4_2025").replace(name="mine")), is_published(recipes.get("nvfp4_2025", late=0.1))
    (True, False)
    """
    return _nameless(data_from_recipe(recipe)) in [_nameless(data_from_recipe(make())) for make in RECIPES.values()]


def _nameless(data: Any) -> Any:
    """The data without any name."""
    if not isinstance(data, dict):
        return data
    return {key: _nameless(value) for key, value in data.items() if key != "name"}
