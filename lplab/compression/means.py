"""How a collective ends: with the mean over the learners, a dense vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Add = Callable[[np.ndarray, np.ndarray], None]  # (total, payload): add what the message says to the total


def mean_of_messages(numel: int, add: Add) -> Callable[[Sequence[np.ndarray]], np.ndarray]:
    """A function of all payloads that returns their mean: float32 [numel].

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
    """The same where ``decode(payload, numel)`` gives a whole vector."""

    def add(total: np.ndarray, payload: np.ndarray) -> None:
        total += decode(payload, numel)

    return mean_of_messages(numel, add)


def mean_at(indices: np.ndarray, numel: int, world: int, total: np.ndarray) -> np.ndarray:
    """Sums of some elements as a dense vector of means: float32 [numel], zero elsewhere.

    >>> mean_at(np.array([1]), 3, 2, np.array([5], np.float32)).tolist()
    [0.0, 2.5, 0.0]
    """
    average = np.zeros(numel, np.float32)
    average[indices] = total / np.float32(world)
    return average
