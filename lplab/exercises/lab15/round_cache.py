"""Exercise 15.3: keys and values in two bits, each along its own axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE
from lplab.exercises.checks.numbers import table_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShapes
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure
from lplab.quantizers import KIVI


def two_bits(x):
    """The numbers of each row of x on four levels, from the smallest to the largest of the row."""
    low, step = x.min(axis=1, keepdims=True), np.ptp(x, axis=1, keepdims=True) / 3
    return low + step * np.round((x - low) / np.where(step > 0, step, 1))


def round_cache(keys, values, group):
    """Keys and values [tokens, channels] in two bits: keys by channel, values by token, group numbers share a scale."""
    keys, values = keys.copy(), values.copy()
    full = len(keys) // group * group
    for start in range(0, full, group):
        part = slice(start, start + group)
        keys[part] = two_bits(keys[part].T).T
    for start in range(0, values.shape[1], group):
        part = slice(start, start + group)
        values[:, part] = two_bits(values[:, part])
    return keys, values


FULL, TURNS, KEYS = "len(keys) // group * group", "range(0, full, group)", "keys[part] = two_bits(keys[part].T).T"
CHANNELS, VALUES = "range(0, values.shape[1], group)", "values[:, part] = two_bits(values[:, part])"
TOKEN_TURNS, TOKEN_KEYS = "range(0, keys.shape[1], group)", "keys[:, part] = two_bits(keys[:, part])"
CHANNEL_TURNS, CHANNEL_VALUES = "range(0, len(values) // group * group, group)", "values[part] = two_bits(values[part].T).T"


def matrix(*rows: Sequence[float]) -> np.ndarray:
    """A matrix as float64."""
    return np.array(rows, np.float64)


def cache_of(seed: int, tokens: int, channels: int, alike: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Keys with channels that are large at every token, and values without: multiples of 1/16, float64."""
    rng = np.random.default_rng(seed)
    size = rng.choice([1.0, 1.0, 8.0], channels)
    keys, values = (np.round(16 * rng.normal(size=(tokens, channels))) / 16 for _ in range(2))
    return size * (keys + alike * rng.integers(-2, 3, channels)), values


def cases() -> list[Args]:
    """Tokens that fill groups, and such that do not; as many tokens as channels; equal numbers in a group."""
    shapes = ((1, 2, 2), (2, 2, 2), (3, 4, 2), (4, 4, 4), (7, 6, 3), (8, 8, 2), (9, 4, 4), (12, 4, 4), (16, 32, 8))
    found: list[Args] = [(*cache_of(seed, tokens, channels, alike), group) for seed, (tokens, channels, group) in enumerate(shapes) for alike in (0.0, 2.0)]
    keys, values = cache_of(50, 6, 4)
    return [*found, (np.full((4, 4), 3.0), np.full((4, 4), -0.5), 2), (keys, values, 1), (keys, 0 * values, 4)]


@cache
def recorded() -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Queries, keys and values of the three heads of block 12 of SmolLM2: float64 [3 · 256, 64], twice [256, 64]."""
    from lplab.recordings import language_model_recording

    made = language_model_recording()
    queries = made.queries.reshape(len(made.keys), -1, made.queries.shape[-1])
    return [(q.astype(np.float64), k.astype(np.float64), v.astype(np.float64)) for q, k, v in zip(queries, made.keys, made.values, strict=True)]


def real_calls() -> list[Args]:
    """Heads of a language model, with tokens that fill the last group and with such that do not."""
    return [(k[:tokens], v[:tokens], 32) for tokens in (64, 75) for _, k, v in recorded()]


def agrees_with_the_library(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether keys and values are those of the library's cache."""
    for args, result in zip(calls, results, strict=True):
        cache_2, tokens = KIVI(bits=2, group=args[2], window=0), len(args[0])
        for name, axis, exact, yours in zip(("keys", "values"), ("channel", "token"), args, result, strict=False):
            ready, expected = cache_2.ready(axis, tokens), exact.copy()
            expected[:ready] = cache_2.rounded(exact[:ready], axis)
            wrong = int((np.abs(yours - expected) > 1e-9 * np.abs(exact).max()).sum())
            if wrong:
                return Finding(f"Of {tokens} tokens of a language model, {wrong:,} of {exact.size:,} {name} are not the library's.", args)
    return None


def show(args: Args) -> str:
    """Small caches in full."""
    keys, values, group = args
    if keys.size > 12:
        return f"keys and values of {keys.shape[0]} tokens and {keys.shape[1]} channels, group = {group}"
    return f"keys = {table_text(keys)}, values = {table_text(values)}, group = {group}"


def why(args: Args, expected: Any) -> str:
    """Which groups there are."""
    keys, _, group = args
    tokens, channels = keys.shape
    left = tokens % group
    waits = {0: "", 1: " The newest key fills no group and stays."}.get(left, f" The newest {left} keys fill no group and stay.")
    told = [f"{n} group" if n == 1 else f"{n} groups" for n in (tokens // group, channels // group)]
    return f"Each channel has {told[0]} of {group} keys.{waits} Each token has {told[1]} of {group} values."


FLAT = np.full((3, 3), 5.0)

ROUND_CACHE = Exercise(
    id="15.3",
    version=1,
    title="The axes of a cache",
    goal="Goal 3: choose the axis of the scales for each half of a cache",
    minutes=10,
    difficulty=2,
    statement=r"""
        `keys` and `values` are arrays [tokens, channels]. Write `round_cache(keys, values, group)` that returns both in two bits, as new arrays. The helper `two_bits` rounds a matrix whose **rows** share a scale each.

        - In **keys**, some channels are large at every token. So each channel has scales of its own, one for `group` neighbouring tokens, from the first token on. The newest tokens that do not fill a group stay as they are.
        - In **values**, each token has scales of its own, one for `group` neighbouring channels. The number of channels is a multiple of `group`.
    """,
    provided=(two_bits,),
    reference=round_cache,
    form=SameShapes((("keys", 0), ("values", 1))),
    signed_zero=False,
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((matrix((0, 300, 3), (1.25, 400, 5), (3, 600, 9)), FLAT, 3), "In keys, each channel has four levels of its own. Channel 0 has 0, 1, 2 and 3, so 1.25 becomes 1. Channel 1 has 300, 400, 500 and 600, and its numbers stay."),
        Example((FLAT, matrix((0, 1.25, 3), (300, 400, 600), (3, 5, 9)), 3), "In values, each token has four levels of its own. Token 0 has 0, 1, 2 and 3, so 1.25 becomes 1. Token 1 has 300, 400, 500 and 600, and its numbers stay."),
        Example((matrix((0, 6, 0), (4, 6, 1), (9, 7, 9)), matrix((0, 4, 9), (6, 6, 7), (0, 1, 9)), 3), "The levels from 0 to 9 are 0, 3, 6 and 9. So 4 becomes 3, and 1 becomes 0, in channels of the keys and in tokens of the values."),
        Example((matrix((0, 9), (1, 0), (2, 3), (9, 5)), matrix((1, 2), (3, 4), (5, 6), (7, 8)), 2), "Four keys of a channel are two groups, tokens 0 and 1, and tokens 2 and 3. A pair is its own smallest and largest, so it is kept exactly."),
        Example((matrix((1, 2, 3, 4)), matrix((0, 1, 8, 9)), 2), "Four values of a token are two groups, channels 0 and 1, and channels 2 and 3. Each pair is kept exactly. One key does not fill a group of two."),
        Example((matrix((0, 4, 0), (1, 4, 2), (9, 5, 9), (2, 8, 4)), matrix((0, 1, 3), (1, 1, 1), (2, 3, 5), (0, 4, 9)), 3), "Three tokens fill a group of keys. The fourth waits and stays. Its values do not wait, so 4 becomes 3."),
        Example((matrix((0, 4, 0, 1), (4, 4, 2, 1), (9, 5, 9, 2)), matrix((0, 1, 2, 9), (0, 3, 6, 9), (1, 1, 1, 1)), 4), "Three keys do not fill a group of four, so all of them stay. The values are rounded at once."),
    ),
    boundary=cases,
    properties=(Property("keys and values of a language model are those of the library's cache", real_calls, agrees_with_the_library),),
    mistakes=(
        mistake("the axes are exchanged: keys by token, values by channel", TURNS, TOKEN_TURNS, KEYS, TOKEN_KEYS, CHANNELS, CHANNEL_TURNS, VALUES, CHANNEL_VALUES),
        mistake("keys by token, as values are", TURNS, TOKEN_TURNS, KEYS, TOKEN_KEYS),
        mistake("values by channel, as keys are", CHANNELS, CHANNEL_TURNS, VALUES, CHANNEL_VALUES),
        mistake("the keys are not turned for two_bits: all channels of a token share a scale", KEYS, "keys[part] = two_bits(keys[part])"),
        mistake("reshape in place of a transpose: in keys, neighbouring channels of a token share a scale", KEYS, "keys[part] = two_bits(keys[part].reshape(-1, group)).reshape(group, -1)"),
        mistake("all tokens of a channel share one scale in keys, not only group of them", KEYS, "keys[:full] = two_bits(keys[:full].T).T"),
        mistake("all channels of a token share one scale in values, not only group of them", VALUES, "values[:] = two_bits(values)"),
        mistake("group is not used: all tokens of a channel share a scale in keys, and all channels of a token in values", FULL, "len(keys)", KEYS, "keys[:] = two_bits(keys.T).T", VALUES, "values[:] = two_bits(values)"),
        mistake("all channels of group tokens share one scale in keys", KEYS, "keys[part] = two_bits(keys[part].reshape(1, -1)).reshape(group, -1)"),
        mistake("all tokens share one scale in values", VALUES, "values[:, part] = two_bits(values[:, part].reshape(1, -1)).reshape(len(values), -1)"),
        mistake("keys that fill no group are rounded, too", FULL, "len(keys)"),
        mistake("keys that fill no group are lost", "return keys, values", "keys[full:] = 0\n    return keys, values"),
        mistake("groups of keys are counted from the newest token back, so that the oldest wait", TURNS, "range(len(keys) - full, len(keys), group)"),
        mistake("a full group of keys waits, too, until the next one is full", TURNS, "range(0, full - group, group)"),
        mistake("the newest values wait, as the keys do", VALUES, "values[:full, part] = two_bits(values[:full, part])"),
        mistake("tokens that lie apart share a scale in keys, not neighbours", TURNS, "range(full // group)", KEYS, "keys[start : full : full // group] = two_bits(keys[start : full : full // group].T).T"),
        mistake("the values are not rounded", CHANNELS, "range(0)"),
        mistake("the keys are not rounded", TURNS, "range(0)"),
        mistake("values first, keys second", "return keys, values", "return values, keys"),
        mistake("the arrays that were given are changed, not copies of them", "keys.copy(), values.copy()", "np.asarray(keys), np.asarray(values)"),
    ),
    hints=(
        "Take keys of two tokens, (0, 30) and (1, 40). Channel 0 has the numbers 0 and 1, and channel 1 has 30 and 40. Each channel has a scale of its own, so the two rows for two_bits are (0, 1) and (30, 40).",
        "A token is a row of both arrays, and a channel is a column. two_bits lets each row of its matrix share a scale. For keys, cut out group tokens, turn this part with .T, round it, and turn it back. Do values need to be turned?",
        "There are two loops. One goes through the tokens of the keys in steps of group, as long as a whole group is left. The other goes through the channels of the values in steps of group. Which slice of the array does each of them round? What happens with the copy of the keys behind the last whole group?",
    ),
)


# ---- attention with a rounded cache ----------------------------------------------------------------------------------

GROUP = 32
AXES = {  # of keys and values
    "keys by channel, values by token": ("channel", "token"),
    "both by channel": ("channel", "channel"),
    "both by token": ("token", "token"),
}


@student_figure("Here the error of nine heads' attention, with your {name} and with other axes, will be drawn")
def draw_axes(function: Callable[..., Any]) -> Any:
    """A live figure of the error of attention with a cache in two bits, for both axes of keys and of values.

    The axes are exchanged by giving the function matrices [channels, tokens].

    Args:
        function: takes keys, values and the size of a group, and returns both in two bits.
    """
    from lplab import figures

    heads = recorded()
    calls = [(k, v, GROUP) for _, k, v in heads] + [(k.T, v.T, GROUP) for _, k, v in heads]
    results = read_results(function, calls, ROUND_CACHE.form, lambda pair: (as_array(pair[0]), as_array(pair[1])))
    if any((k.shape, v.shape) != (args[0].shape, args[1].shape) for (k, v), args in zip(results, calls, strict=True)):
        raise NotReady("it does not return keys and values shaped like those that it gets")
    right, turned = results[: len(heads)], results[len(heads) :]
    keys = {"channel": [k for k, _ in right], "token": [k.T for k, _ in turned]}
    values = {"token": [v for _, v in right], "channel": [v.T for _, v in turned]}
    return figures.compared_curves(
        [str(head) for head in range(len(heads) * 3)],
        library_errors(),
        {name: errors(keys[k], values[v]) for name, (k, v) in AXES.items()},
        what="error of attention (%)",
        name="A cache in 2 bits",
        along="head",
    )


def errors(keys: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> np.ndarray:
    """How far the outputs of nine heads are off with other keys and values, in percent of their norm; three share a cache."""
    found = []
    for (queries, k, v), rounded_k, rounded_v in zip(recorded(), keys, values, strict=True):
        for q in np.split(queries, 3):
            exact = attention(q, k, v)
            found.append(100 * float(np.linalg.norm(attention(q, rounded_k, rounded_v) - exact) / np.linalg.norm(exact)))
    return np.array(found)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The output of a head [tokens, channels], in which a token sees itself and those before it."""
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights @ v / weights.sum(1, keepdims=True)


@cache
def library_errors() -> dict[str, np.ndarray]:
    """The errors with the library's cache: float64 [heads], by the names of the axes."""
    kivi = KIVI(bits=2, group=GROUP, window=0)
    keys, values = ({axis: [kivi.rounded(head[place], axis) for head in recorded()] for axis in ("channel", "token")} for place in (1, 2))
    return {name: errors(keys[k], values[v]) for name, (k, v) in AXES.items()}
