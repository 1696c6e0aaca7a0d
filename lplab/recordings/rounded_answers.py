"""What SmolLM2 writes, and what it loses, with rounded weights, rounded inputs of its layers, or a rounded cache."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

import numpy as np

from lplab.datasets import data_folder
from lplab.quantizers.kv_cache import AXES

QUESTION = "What is the capital of France, and what can you see there?"
"""What the model is asked, in the template of chats that it was trained with."""
TOKENS = 40
"""The most tokens of an answer."""
CALIBRATION_TOKENS = 1_024
"""From the first half of the novel, for methods that look at data; the widest layers have 1,536 inputs."""
NOTHING = "w16a16"
"""The recipe that rounds nothing."""
WEIGHT_BITS, CACHE_BITS, INPUT_BITS = (3, 2), (4, 2), (8, 4)
GROUPS = ("32", "row")
"""Neighbours in a row of a matrix that share a scale."""
ROUNDINGS = ("rtn", "gptq")
REPAIRS = ("", "llmint8", "smoothquant", "hadamard")
SCALES = ("token", "tensor")
"""What has one scale for the inputs of a layer."""


def weights_recipe(bits: int, group: str, rounding: str) -> str:
    """The recipe that rounds weights alone.

    >>> weights_recipe(3, "32", "gptq")
    'w3a16_gptq:group=32'
    """
    return f"w{bits}a16_{rounding}:group={group}"


def inputs_recipe(bits: int, repair: str, per: str) -> str:
    """The recipe that rounds weights and the inputs of layers to as many bits.

    Weights of 8 bits have a scale for each row, as published; those of 4 bits a scale and a zero for groups of 32.

    >>> inputs_recipe(8, "llmint8", "tensor")
    'w8a8_llmint8:group=row,kind=symmetric,per=tensor'
    """
    grid = "group=row,kind=symmetric" if bits == 8 else "group=32,kind=asymmetric"
    return f"w{bits}a{bits}{'_' if repair else ''}{repair}:{grid},per={per}"


def cache_recipe(bits: int, keys: str, values: str) -> str:
    """The name of a cache in few bits, groups of 32 numbers, all positions rounded.

    >>> cache_recipe(2, "channel", "token")
    'cache of 2 bits: keys by channel, values by token'
    """
    return f"cache of {bits} bits: keys by {keys}, values by {values}"


CACHES = MappingProxyType(
    {cache_recipe(bits, keys, values): (bits, keys, values) for bits in CACHE_BITS for keys in AXES for values in AXES}
)
"""Bits, axis of keys and axis of values of each rounded cache, by its name."""
RECIPES = (
    NOTHING,
    *(inputs_recipe(bits, repair, per) for bits in INPUT_BITS for repair in REPAIRS for per in SCALES),
    *CACHES,
    *(weights_recipe(bits, group, how) for how in ROUNDINGS for group in GROUPS for bits in WEIGHT_BITS),
)
"""Every recipe that is recorded."""


@dataclass(frozen=True, eq=False)
class RoundedAnswer:
    """What came of one recipe.

    Attributes:
        text: what the model writes, the likeliest token each time; it ends with the model's own end, or after
            :data:`TOKENS` tokens.
        losses: float64 [passages], the loss on each passage of the novel, in bits a token.
        bits_a_weight: of the rounded matrices, with scales and zeros; 16 where nothing is rounded.
    """

    text: str
    losses: np.ndarray
    bits_a_weight: float

    @property
    def loss(self) -> float:
        """The mean of the passages, in bits a token."""
        return float(self.losses.mean())


@cache
def rounded_answers() -> MappingProxyType[str, RoundedAnswer]:
    """The answers by recipe (``data/record_rounded_answers.py`` makes them again).

    >>> "Paris" in rounded_answers()["w16a16"].text
    True
    """
    stored = json.loads((data_folder() / "language_model" / "rounded_answers.json").read_text("utf-8"))
    return MappingProxyType(
        {
            recipe: RoundedAnswer(found["text"], np.array(found["losses"]), float(found["bits_a_weight"]))
            for recipe, found in stored.items()
        }
    )
