"""Random bits from a counter: element i of a tensor always gets the same bits from the same seed.

A generator with a state would make results depend on the order of the work, that is on threads, blocks and the device.
Here the bits of element i are a hash of (seed, i), so every path can compute any element by itself: two rounds
of multiply and xorshift (the constants of Wellons' ``lowbias32``, in the public domain, chosen by search for the least
bias) with one half of the seed's key before each round.
"""

from __future__ import annotations

import operator
import secrets
from typing import Any

import numpy as np

from lplab.formats import words

MULTIPLY_1 = 0x7FEB352D
MULTIPLY_2 = 0x846CA68B
MIN_VECTORIZED_SEEDS = 16  # for fewer seeds numpy is not faster than computing the keys one by one
_WORD = 0xFFFFFFFF
_LONG = 0xFFFFFFFFFFFFFFFF


def _split_mix(value: Any) -> Any:
    """The output function of SplitMix64 (Steele, Lea, Flood 2014): 64 well-mixed bits from 64 bits.

    ``value`` is an int, or a uint64 array (which wraps around).
    """
    value = (value + 0x9E3779B97F4A7C15) & _LONG
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _LONG
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _LONG
    return value ^ (value >> 31)


def seed_to_int(seed: Any) -> int:
    """The seed as an integer: an integer unchanged, one draw from a numpy Generator, fresh entropy for None.

    >>> seed_to_int(7)
    7
    """
    if type(seed) is int:
        return seed
    if seed is None:
        return secrets.randbits(64)
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**64, dtype=np.uint64))
    try:
        return operator.index(seed)
    except TypeError:
        raise TypeError(f"seed must be an integer, a numpy Generator or None, got {type(seed).__name__}") from None


def keys(seed: int, stretch: Any = 0) -> tuple[Any, Any]:
    """Two 32-bit keys for the elements stretch·2^32 … (stretch + 1)·2^32 − 1 of a tensor.

    ``stretch`` is an int, or a uint64 array, which gives two arrays of keys.

    >>> keys(0) == keys(0), keys(0) == keys(1), keys(0) == keys(0, stretch=1)
    (True, False, False)
    """
    mixed = _split_mix(_split_mix(seed & _LONG) ^ ((seed >> 64) & _LONG) ^ stretch)
    return mixed & _WORD, mixed >> 32


def many_keys(seeds: list[int]) -> list[tuple[int, int]]:
    """:func:`keys` of seeds below 2^64, computed together where that is faster.

    >>> many_keys(list(range(20))) == [keys(seed) for seed in range(20)]
    True
    """
    if len(seeds) < MIN_VECTORIZED_SEEDS:
        return [keys(seed) for seed in seeds]
    mixed = _split_mix(_split_mix(np.array(seeds, np.uint64)))
    return list(zip((mixed & _WORD).tolist(), (mixed >> 32).tolist(), strict=True))


def random_bits(xp: Any, key: tuple[int, int], first: int, count: int, bits: int, device: Any = None) -> Any:
    """Uniform integers below 2**bits for elements first … first + count − 1, as an int32 array of numpy or torch.

    The hash is :func:`lplab.formats.words.random_bits`: both libraries wrap int32 sums and products around.

    >>> random_bits(np, keys(1), 0, 3, 8).tolist() == random_bits(np, keys(1), 1, 2, 8).tolist()
    False
    >>> random_bits(np, keys(1), 0, 3, 8).tolist()[1:] == random_bits(np, keys(1), 1, 2, 8).tolist()
    True
    """
    where = {} if device is None else {"device": device}
    index = _as_int32(xp, xp.arange(first, first + count, dtype=xp.int64, **where))
    return _hash(index, signed(key[0]), signed(key[1]), 32 - bits, (1 << bits) - 1)


def signed(word: int) -> int:
    """The int32 with these 32 bits.

    >>> signed(0xFFFFFFFF), signed(1)
    (-1, 1)
    """
    return word - 2**32 if word >= 2**31 else word


def _as_int32(xp: Any, words: Any) -> Any:
    """The low 32 bits of int64 words as int32 (a plain cast of a value out of range is undefined in C)."""
    low = words & _WORD
    low = low - ((low >> 31) << 32)
    return low.astype(np.int32) if xp is np else low.to(xp.int32)


_hash = words.bound(
    {"MULTIPLY_1": MULTIPLY_1, "MULTIPLY_2": signed(MULTIPLY_2)}, functions={"random_bits": words.random_bits}
)["random_bits"]
