"""The field of lab 16: published ways to meet, with constants of their papers where our 240 steps have room for them.

The papers meet once in 15 to 500 steps of trainings that are a hundred times longer. Here, FedAvg and DiLoCo meet every
60 steps, and what sends few numbers every 15, as SparseLoCo's first code does. DeMo sends in each step, and its rate is
that of our inner optimizer's steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lplab.compression import AdaComp, DeMo, LowBit, SparseLoCo
from lplab.exercises.capstone.meeting_recipe import MeetingRecipe, data_from_recipe

RATE, MOMENTUM = 0.7, 0.9  # of DiLoCo's outer step
SELDOM = 15
# About as many bytes a meeting as SparseLoCo, as in the claim on it.
ADACOMP = AdaComp(bin=63, scale_factor=1.6, small="compressed")
RECIPES: Mapping[str, MeetingRecipe] = MappingProxyType(
    {
        "FedAvg (2017)": MeetingRecipe(every=60),
        "DiLoCo (2023)": MeetingRecipe(every=60, rate=RATE, momentum=MOMENTUM),
        "Streaming (2025)": MeetingRecipe(
            every=24, rate=RATE, momentum=MOMENTUM, compressor=LowBit("e3m0"), fragments=2, delay=1
        ),
        "DeMo (2024)": MeetingRecipe(every=1, rate=1e-3, compressor=DeMo()),
        "SparseLoCo (2025)": MeetingRecipe(compressor=SparseLoCo(), every=SELDOM),
        "AdaComp (2018)": MeetingRecipe(compressor=ADACOMP, every=SELDOM),
    }
)
"""The ways to meet of the field by the name that figures use."""


def data_of(name: str) -> dict[str, Any]:
    """A recipe of the field as data, to start from.

    Raises:
        ValueError: there is none of this name.

    >>> data_of("FedAvg (2017)")["every"]
    60
    """
    if name not in RECIPES:
        raise ValueError(f"the field has no {name!r}; it has {', '.join(RECIPES)}")
    return {"name": name} | data_from_recipe(RECIPES[name])


def is_published(recipe: MeetingRecipe) -> bool:
    """Whether this does what a recipe of the field does, whatever its name is, and whatever in it changes nothing.

    >>> is_published(MeetingRecipe("mine", every=60, nesterov=False)), is_published(MeetingRecipe("mine", every=48))
    (True, False)
    """
    return bool(published_name(recipe))


def published_name(recipe: MeetingRecipe) -> str:
    """The name of the recipe of the field that does the same; "" if none does.

    >>> published_name(MeetingRecipe("mine", every=60, nesterov=False))
    'FedAvg (2017)'
    """
    wanted = recipe.what_it_does()
    return next((name for name, each in RECIPES.items() if each.what_it_does() == wanted), "")
