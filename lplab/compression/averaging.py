"""The mean over the learners as a dense vector: the last step of each collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Add = Callable[[np.ndarray, np.ndarray], None]  # (total, payload): decode the payload and add it to the total


def mean_of_messages(numel: int, add: Add) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    """Make a function of all payloads that returns their mean, float32 [numel].

    >>> def add(total, payload):
    ...     total += payload
    >>> mean_of_messages(2, add)([np.array([1, 2], np.uint8), np.array([3, 2], np.uint8)])
    array([2., 2.], dtype=float32)
    """

    def finish(payloads: Sequence[np.ndarray]) -> np.ndarray:
        total = np.zeros(numel, np.float32)
        for payload in payloads:
            add(total, payload)
        return total / np.float32(len(payloads))

    return finish


def dense_mean(
    numel: int, decode: Callable[[np.ndarray, int], np.ndarray]
) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    """:func:`mean_of_messages` where ``decode(payload, numel)`` returns a dense vector."""

    def add(total: np.ndarray, payload: np.ndarray) -> None:
        total += decode(payload, numel)

    return mean_of_messages(numel, add)


def mean_at(indices: np.ndarray, numel: int, world: int, total: np.ndarray) -> np.ndarray:
    """The means of some elements from their sums, as a dense vector: float32 [numel], zero elsewhere.

    >>> mean_at(np.array([1]), 3, 2, np.array([5], np.float32)).tolist()
    [0.0, 2.5, 0.0]
    """
    average = np.zeros(numel, np.float32)
    average[indices] = total / np.float32(world)
    return average
