"""Of which training a checkpoint is: only the same one goes on bit for bit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lplab.training.recipe import Recipe


def kind_of(recipe: Recipe, optimizer: Any, seed: int) -> dict[str, Any]:
    """What must be the same for a training to go on, as a checkpoint keeps it.

    >>> kind_of(Recipe(name="mine", weight="int4"), None, 3)["rules"]
    "Recipe(name='mine', weight=Rule('int4'))"
    """
    rules = re.sub(" at 0x[0-9a-fA-F]+", "", repr(recipe))  # of a quantizer of one's own that has no repr
    return {"recipe": recipe.name, "rules": rules, "sort": type(optimizer).__name__, "seed": seed}


def check_kind(state: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    """Refuse the state of another training; what an older checkpoint does not say is taken for the same.

    Args:
        state: a checkpoint.
        mine: of the trainer that is to go on, from :func:`kind_of`.

    Raises:
        ValueError: another recipe, other switches of it, another optimizer or another seed.

    >>> check_kind({"recipe": "fp32", "seed": 1}, kind_of(Recipe(name="fp32"), None, 2))
    Traceback (most recent call last):
    ...
    ValueError: the checkpoint is of seed 1, this trainer's is 2
    """
    for name, word in (("recipe", "recipe"), ("sort", "optimizer"), ("seed", "seed")):
        if state.get(name, mine[name]) != mine[name]:
            raise ValueError(f"the checkpoint is of {word} {state[name]!r}, this trainer's is {mine[name]!r}")
    if state.get("rules", mine["rules"]) != mine["rules"]:
        switches = f"{state['rules']}, this trainer's are {mine['rules']}"
        raise ValueError(f"the checkpoint's switches of the recipe are {switches}")
