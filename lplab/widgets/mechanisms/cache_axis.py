"""Lab 15: which numbers of a cache share a scale, those of a token or those of a channel; keys and values differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.quantizers.kv_cache import AXES, KIVI
from lplab.recordings import language_model_recording

from .mechanism import Mechanism

GROUP = 32
RULE = KIVI(bits=2, group=GROUP, window=0)
HEAD, QUERIES = 0, slice(0, 3)  # the drawn head of keys and values, and the heads of queries that use it
TOKEN, CHANNEL = 64, 32  # where the drawn group begins


def cache() -> dict[str, np.ndarray]:
    """Keys and values of a head of block 12: [256 tokens, 64 channels]."""
    recorded = language_model_recording()
    return {"keys": recorded.keys[HEAD].astype(float), "values": recorded.values[HEAD].astype(float)}


def drawn(x: np.ndarray) -> np.ndarray:
    """The part that is drawn: 32 tokens and 32 channels, whole groups along both axes."""
    return x[TOKEN : TOKEN + GROUP, CHANNEL : CHANNEL + GROUP]


def scores(keys: np.ndarray) -> np.ndarray:
    """Query times key over √64, for each head of queries: [3, 256, 256]; a token sees no later one, so −∞ there."""
    products = language_model_recording().queries[QUERIES].astype(float) @ keys.T / np.sqrt(keys.shape[-1])
    return np.where(np.tril(np.ones(products.shape[1:], bool)), products, -np.inf)


def attention(scores: np.ndarray) -> np.ndarray:
    """The softmax of the scores: the shares A that each token takes of itself and of those before."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def data() -> dict[str, Any]:
    """A part of both caches, as it is and rounded along both axes; and what rounding does to scores and to A·V.

    >>> {name: [round(part["errors"][axis], 2) for axis in AXES] for name, part in data()["maps"].items()}
    {'keys': [0.17, 0.54], 'values': [0.54, 0.32]}
    """
    exact = scores(cache()["keys"])
    shares, past = attention(exact), np.isfinite(exact)
    results = {"keys": lambda keys: scores(keys)[past], "values": lambda values: shares @ values}
    maps = {}
    for name, x in cache().items():
        rounded = {axis: RULE.rounded(x, axis) for axis in AXES}
        right, part = results[name](x), drawn(x)
        maps[name] = {
            "numbers": part.round(3).tolist(),
            "rounded": {axis: drawn(values).round(3).tolist() for axis, values in rounded.items()},
            "levels": {axis: levels(part if axis == "token" else part.T).round(3).tolist() for axis in AXES},
            "errors": {
                axis: float(np.linalg.norm(results[name](values) - right) / np.linalg.norm(right))
                for axis, values in rounded.items()
            },
        }
    pieces = language_model_recording().pieces[TOKEN : TOKEN + GROUP]
    return {"maps": maps, "token": TOKEN, "channel": CHANNEL, "pieces": [piece.strip() for piece in pieces]}


def levels(groups: np.ndarray) -> np.ndarray:
    """The four levels of each row."""
    return np.linspace(groups.min(axis=1), groups.max(axis=1), 2**RULE.bits, axis=1)


MECHANISM = Mechanism(
    name="cache_axis",
    title="Keys and values of a cache, and what shares a scale",
    todo="Drag a *orange: strip* of numbers that share a scale. Then press *Keys by channel*.",
    alt="Two maps, of keys and of values, with a row for each of 32 tokens and a column for each of 32 channels. Keys "
    "have columns of large numbers, values have none. A strip of numbers that share four levels can be moved over each "
    "map. Below, errors of the scores and of A·V for both directions.",
    data=data,
)
