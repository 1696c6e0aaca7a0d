"""Random bits for sums, by element of the result, step of the sum and kind of rounding (stream).

:mod:`lplab.formats.counter_rng` gives every element of a tensor its own bits. A sum rounds each element many times, so
every step has its own pair of keys. The order in which threads and blocks run does not matter.
"""

from __future__ import annotations

import numpy as np

from lplab.formats import counter_rng

ADDITION, PRODUCT, TOTAL, EXTRA = range(4)  # the four roundings of a step of Kahan's sum use all four
STREAMS = 4
NO_KEYS = np.zeros((0, 2), np.int32)


def keys(seed: int, stream: int, steps: int) -> np.ndarray:
    """The two keys of steps 0 … steps − 1 of a stream, as int32 [steps, 2].

    >>> tuple(keys(7, ADDITION, 3)[2].view(np.uint32).tolist()) == counter_rng.keys(7, stretch=2 * STREAMS)
    True
    """
    low, high = counter_rng.keys(seed, STREAMS * np.arange(steps, dtype=np.uint64) + np.uint64(stream))
    return np.stack([low, high], axis=1).astype(np.uint32).view(np.int32)


def random_bits(seed: int, step: int, stream: int, element: int, bits: int) -> int:
    """The random integer below 2**bits for one rounding of one element.

    >>> 0 <= random_bits(7, 0, ADDITION, 3, bits=8) < 256
    True
    """
    return int(counter_rng.random_bits(np, counter_rng.keys(seed, STREAMS * step + stream), element, 1, bits)[0])
