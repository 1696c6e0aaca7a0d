"""The signature of a checkpoint: resuming needs the same recipe, optimizer and seed, else it is not bit for bit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lplab.training.recipe.recipe import Recipe


def checkpoint_signature(recipe: Recipe, optimizer: Any, seed: int) -> dict[str, Any]:
    """What must be the same for a training to continue, as it is stored in a checkpoint.

    >>> checkpoint_signature(Recipe(name="mine", weight="int4"), None, 3)["rules"]
    "Recipe(name='mine', weight=QuantSpec('int4'))"
    """
    rules = re.sub(" at 0x[0-9a-fA-F]+", "", repr(recipe))  # of a user's quantizer without a repr
    return {"recipe": recipe.name, "rules": rules, "sort": type(optimizer).__name__, "seed": seed}


def check_signature(state: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse the state of another training. What a state does not hold counts as the same.

    Args:
        state: a checkpoint.
        expected: of the trainer that is to continue, from :func:`checkpoint_signature`.

    Raises:
        ValueError: another recipe, other switches of it, another optimizer or another seed.

    >>> check_signature({"recipe": "fp32", "seed": 1}, checkpoint_signature(Recipe(name="fp32"), None, 2))
    Traceback (most recent call last):
    ...
    ValueError: the checkpoint is of seed 1, this trainer's is 2
    """
    for name, word in (("recipe", "recipe"), ("sort", "optimizer"), ("seed", "seed")):
        if state.get(name, expected[name]) != expected[name]:
            raise ValueError(f"the checkpoint is of {word} {state[name]!r}, this trainer's is {expected[name]!r}")
    if state.get("rules", expected["rules"]) != expected["rules"]:
        switches = f"{state['rules']}, this trainer's are {expected['rules']}"
        raise ValueError(f"the checkpoint's switches of the recipe are {switches}")
