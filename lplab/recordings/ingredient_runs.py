"""Recorded branches of the recipes of 2025 with single ingredients taken out: how far each ends above float32."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from lplab.datasets import data_folder

FORMATS = {"bf16": "BF16", "mxfp8": "MXFP8", "nvfp4": "NVFP4", "mxfp4": "MXFP4"}
"""Formats of the operands of products, and their labels, from wide to narrow."""
HELPERS = {
    "hadamard": "Hadamard",
    "stochastic": "stochastic rounding",
    "tiles": "16 × 16 tiles",
    "late": "wide late layers",
    "switch": "BF16 forward from 82 %",
}
"""The ingredients beside the formats, by the name of their field."""
LATE_SHARE = 0.15  # of the layers, the last ones, that are wide (NVIDIA 2025)
SWITCH_AT = 0.82  # of the training, before the forward pass gets wide (NVIDIA 2025)


@dataclass(frozen=True)
class Ingredients:
    """What a recipe of 2025 is made of. Where two published recipes have an ingredient in two ways, the format decides.

    Attributes:
        forward: of the operands of y = x · Wᵀ, a key of :data:`FORMATS`.
        backward: of the operands of dx and dW.
        hadamard: a Hadamard transform before rounding. NVFP4: of 16 tokens, both operands of dW. MXFP4: of 64
            neighbours, both operands of dx and of dW.
        stochastic: stochastic rounding. NVFP4: of output gradients. MXFP4: of all operands of the backward pass, made
            smaller by 3/4 so that none is clipped.
        tiles: 16 × 16 weights share a scale, so that both passes have one quantized weight. NVFP4 in both passes alone.
        late: the last 15 % of the layers in BF16.
        switch: the forward pass in BF16 from 82 % of the training on.

    Raises:
        ValueError: an unknown format, or an ingredient that changes nothing beside these formats.

    >>> Ingredients("bf16", "mxfp4", hadamard=True).name
    'forward BF16, backward MXFP4, Hadamard'
    >>> Ingredients("mxfp4", "mxfp4", tiles=True)
    Traceback (most recent call last):
    ...
    ValueError: 16 × 16 tiles need NVFP4 in both passes, got forward MXFP4, backward MXFP4
    """

    forward: str = "nvfp4"
    backward: str = "nvfp4"
    hadamard: bool = False
    stochastic: bool = False
    tiles: bool = False
    late: bool = False
    switch: bool = False

    def __post_init__(self) -> None:
        for name in ("forward", "backward"):
            if getattr(self, name) not in FORMATS:
                raise ValueError(f"unknown {name} {getattr(self, name)!r}; allowed: {', '.join(FORMATS)}")
        for name in HELPERS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if problem := next((each for name in HELPERS if getattr(self, name) and (each := self._useless(name))), ""):
            raise ValueError(problem)

    def _useless(self, helper: str) -> str:
        """Why an ingredient changes nothing beside these formats, or ""."""
        formats = f"forward {FORMATS[self.forward]}, backward {FORMATS[self.backward]}"
        narrow = self.backward in ("nvfp4", "mxfp4")
        needed = {
            "hadamard": (narrow, "a Hadamard transform needs four bits in the backward pass"),
            "stochastic": (narrow, "stochastic rounding needs four bits in the backward pass"),
            "tiles": (self.forward == self.backward == "nvfp4", "16 × 16 tiles need NVFP4 in both passes"),
            "late": ({self.forward, self.backward} != {"bf16"}, "wide late layers need narrow ones before them"),
            "switch": (self.forward != "bf16", "a switch to a BF16 forward pass needs a narrow one before it"),
        }
        there, words = needed[helper]
        return "" if there else f"{words}, got {formats}"

    @classmethod
    def possible(cls, forward: str, backward: str, **helpers: bool) -> Ingredients:
        """The ingredients with these formats, without the helpers that change nothing beside them.

        >>> Ingredients.possible("bf16", "nvfp4", tiles=True, late=True).name
        'forward BF16, backward NVFP4, wide late layers'
        """
        plain = cls(forward, backward)
        return cls(forward, backward, **{name: on and not plain._useless(name) for name, on in helpers.items()})

    def impossible(self) -> dict[str, str]:
        """Why each helper would change nothing beside these formats, or "", by the name of its field.

        >>> [name for name, why in Ingredients("bf16", "mxfp4").impossible().items() if why]
        ['tiles', 'switch']
        """
        return {name: self._useless(name) for name in HELPERS}

    @property
    def helpers(self) -> tuple[str, ...]:
        """The fields of the helpers that are on, in the order of :data:`HELPERS`."""
        return tuple(name for name in HELPERS if getattr(self, name))

    @property
    def name(self) -> str:
        """Formats and helpers in words; the key of the combination in the file."""
        formats = [f"forward {FORMATS[self.forward]}", f"backward {FORMATS[self.backward]}"]
        return ", ".join([*formats, *(HELPERS[name] for name in self.helpers)])

    def without(self, *helpers: str) -> Ingredients:
        """The recipe without some helpers.

        >>> NVFP4_2025.without("hadamard").helpers
        ('stochastic', 'tiles', 'late')
        """
        changes: dict[str, Any] = dict.fromkeys(helpers, False)
        return replace(self, **changes)


PLAIN = {kind: Ingredients(kind, kind) for kind in FORMATS}
"""Each format in both passes, without helpers."""
MXFP8_2025 = PLAIN["mxfp8"]
NVFP4_2025 = Ingredients("nvfp4", "nvfp4", hadamard=True, stochastic=True, tiles=True, late=True)
MXFP4_2025 = Ingredients("bf16", "mxfp4", hadamard=True, stochastic=True)
SWITCHED = replace(NVFP4_2025, switch=True)
COMBINATIONS: tuple[Ingredients, ...] = (
    *PLAIN.values(),
    *(NVFP4_2025, SWITCHED, MXFP4_2025),
    *(NVFP4_2025.without(helper) for helper in NVFP4_2025.helpers),
    *(MXFP4_2025.without(*helpers) for helpers in (("hadamard",), ("stochastic",), ("hadamard", "stochastic"))),
    *(Ingredients(kind, "bf16") for kind in ("nvfp4", "mxfp4")),
    Ingredients("bf16", "nvfp4"),
    Ingredients("bf16", "nvfp4", hadamard=True, stochastic=True),
    Ingredients("mxfp4", "mxfp4", hadamard=True, stochastic=True),
    Ingredients("mxfp8", "mxfp4", hadamard=True, stochastic=True),
)
"""The combinations that are recorded: the published recipes, each without single ingredients, and one pass alone."""


@dataclass(frozen=True, eq=False)
class IngredientBranches:
    """Branches of the character Transformer from float32 checkpoints, in pairs: same seed, same batches.

    Attributes:
        before: steps in float32 before each branch.
        seeds: in the order of the rows.
        losses: training loss of each step in bits a character, by combination: float32 [seeds, steps]; float32's own
            under None. NaN after a divergence.
        test: loss of 32,768 other characters at the end of the branch, in bits: float32 [seeds].
    """

    before: int
    seeds: tuple[int, ...]
    losses: dict[Ingredients | None, np.ndarray]
    test: dict[Ingredients | None, np.ndarray]

    @property
    def steps(self) -> int:
        """Steps of a branch."""
        return self.losses[None].shape[1]

    @property
    def switch_step(self) -> int:
        """The first step with a BF16 forward pass, in branches that switch: a share of the branch, not of all steps."""
        return self.before + round(SWITCH_AT * self.steps)

    def gap(self, chosen: Ingredients, other: Ingredients | None = None) -> np.ndarray:
        """Test loss above float32's, or above that of another combination, seed by seed: float64 [seeds], in bits.

        Raises:
            ValueError: a combination that is not recorded.

        >>> bool((ingredient_branches().gap(PLAIN["mxfp4"]) > 0).all())
        True
        """
        for each in (chosen, other):
            if each not in self.test:
                raise ValueError(f"not recorded: {each.name if each else each}; there are {len(COMBINATIONS)} others")
        return self.test[chosen].astype(np.float64) - self.test[other]

    def share(self, chosen: Ingredients) -> float:
        """The mean gap as a share of float32's test loss."""
        return float(self.gap(chosen).mean() / self.test[None].mean())


@cache
def ingredient_branches() -> IngredientBranches:
    """Branches under 20 recipes on three seeds (``data/record_ingredients.py`` makes them again).

    >>> recorded = ingredient_branches()
    >>> len(recorded.losses), recorded.losses[NVFP4_2025].shape == (len(recorded.seeds), 100)
    (21, True)
    """
    with np.load(data_folder() / "ingredients" / "transformer.npz", allow_pickle=False) as stored:
        columns: dict[str, Any] = {name: stored[name] for name in stored.files}
    of_name = {each.name: each for each in COMBINATIONS} | {"float32": None}
    for column in ("losses", "test"):
        columns[column].setflags(write=False)
    keys = [of_name[str(name)] for name in columns["names"]]
    return IngredientBranches(
        before=int(columns["before"]),
        seeds=tuple(int(seed) for seed in columns["seeds"]),
        losses=dict(zip(keys, columns["losses"], strict=True)),
        test=dict(zip(keys, columns["test"], strict=True)),
    )
