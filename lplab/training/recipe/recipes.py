"""The recipes by name, from 2015 to today. A new recipe is a new function in ``RECIPES``.

Every switch of a recipe is a keyword of its function; :func:`get` passes them on. Every recipe has
``accumulator``: None adds in native float32, which is fast; "chunked" adds in the 1-6-9 of 2018 to 2020, chunks of 64,
rounded after every addition, which takes several times as long; "promoted" in that of DeepSeek-V3, a float32 sum of
chunks of 128 that are added with 14 bits; or any ``Accumulator`` of :mod:`lplab.arithmetic`.

>>> from lplab.training.recipe import recipes
>>> recipes.get("hfp8_2019").output_gradient_dx
QuantSpec('hfp8_backward')
>>> recipes.get("int4_fp4_2020", phases="single").output_gradient_dw == recipes.get("int4_fp4_2020").output_gradient_dx
True
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lplab import formats
from lplab.lookup import canonical_name
from lplab.training.recipe.published_4bit import int4_fp4_2020, luq_2022, pact_sawb_2019
from lplab.training.recipe.published_8bit import bf16, fixed16_2015, fp8_2018, fp16_mixed, fp32, hfp8_2019
from lplab.training.recipe.published_blocks import deepseek_2024, mxfp4_2025, mxfp8_2025, nvfp4_2025, quartet_2025
from lplab.training.recipe.recipe import Recipe

RECIPES: dict[str, Callable[..., Recipe]] = {
    recipe.__name__: recipe
    for recipe in (
        *(fp32, bf16, fp16_mixed, fixed16_2015, fp8_2018, pact_sawb_2019, hfp8_2019, int4_fp4_2020, luq_2022),
        *(deepseek_2024, mxfp4_2025, quartet_2025, mxfp8_2025, nvfp4_2025),
    )
}
"""The recipes by name, in historical order."""


def names() -> list[str]:
    """The names of the recipes.

    >>> names()[:3]
    ['fp32', 'bf16', 'fp16_mixed']
    """
    return list(RECIPES)


def get(name: str, **switches: Any) -> Recipe:
    """The recipe with this name; its switches are keywords.

    Raises:
        ValueError: no such recipe or switch; the message names the closest, or all; of a format it says how it is used.

    >>> get("pact_sawb_2019", bits=4).weight
    QuantSpec(quantizer=SAWB(bits=4, row=None, axis=None, gradient='everywhere'))
    >>> get("hfp8")
    Traceback (most recent call last):
    ...
    ValueError: there is no recipe 'hfp8'; did you mean hfp8_2019 or fp8_2018 or fp32?
    >>> get("nvfp4")
    Traceback (most recent call last):
    ...
    ValueError: there is no recipe 'nvfp4'; did you mean nvfp4_2025 ...? (nvfp4 is a format: Recipe(weight='nvfp4', ...)
    """
    try:
        name = canonical_name(RECIPES, name, "recipe")
    except ValueError as error:
        if name not in formats.names():
            raise
        how = f"Recipe(weight={name!r}, activation={name!r}), or quantize_for_inference(model, {name!r})"
        raise ValueError(f"{error} ({name} is a format: {how})") from None
    allowed = switches_of(name)
    for switch in switches:
        if switch not in allowed:
            raise ValueError(f"{name} has no switch {switch!r}; allowed: {', '.join(allowed)}")
    return RECIPES[name](**switches)


def switches_of(name: str) -> dict[str, Any]:
    """The switches of a recipe with their defaults.

    >>> switches_of("luq_2022")
    {'samples': 1, 'bits': 4, 'sawb': None, 'first_last': 'fp32', 'accumulator': None}
    """
    return {p.name: p.default for p in inspect.signature(RECIPES[name]).parameters.values()}
