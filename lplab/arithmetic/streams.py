"""Random bits for sums: which element of the result, which addition, which kind of rounding.

:mod:`lplab.formats.counter` gives every element of a tensor bits of its own. A sum rounds each element many times, so
every step takes its own pair of keys; the order in which threads and blocks come by does not matter.
"""

from __future__ import annotations

import numpy as np

from lplab.formats import counter

ADDITION, PRODUCT, TOTAL, EXTRA = range(4)  # a step of Kahan's sum uses all four for its four roundings
STREAMS = 4
NO_KEYS = np.zeros((0, 2), np.uint32)


def keys(seed: int, stream: int, steps: int) -> np.ndarray:
    """The two keys of steps 0 … steps − 1 of a stream, as uint32 [steps, 2]: ``counter.keys``, many at once.

    >>> tuple(keys(7, ADDITION, 3)[2].tolist()) == counter.keys(7, stretch=2 * STREAMS)
    True
    """
    word = 2**64 - 1
    start = _split_mix(np.array([seed & word], np.uint64)) ^ np.uint64((seed >> 64) & word)
    mixed = _split_mix(start ^ (np.arange(steps, dtype=np.uint64) * np.uint64(STREAMS) + np.uint64(stream)))
    return np.stack([mixed & np.uint64(0xFFFFFFFF), mixed >> np.uint64(32)], axis=1).astype(np.uint32)


def draw(seed: int, step: int, stream: int, element: int, bits: int) -> int:
    """The random integer below 2**bits for one rounding of one element.

    >>> 0 <= draw(7, 0, ADDITION, 3, bits=8) < 256
    True
    """
    return int(counter.draws(np, counter.keys(seed, STREAMS * step + stream), element, 1, bits)[0])


def _split_mix(value: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64, as in :mod:`lplab.formats.counter`; uint64 products wrap around."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
