"""The mean over the learners as a dense vector: the last step of each collective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lplab.compression import arrays

Add = Callable[[Any, Any], object]  # (total, payload): decode the payload and add it to the total


def mean_of_messages(numel: int, add: Add) -> Callable[[Sequence[Any]], Any]:
    """Make a function of all payloads, arrays or tensors, that returns their mean, float32 [numel].

    >>> import numpy as np
    >>> def add(total, payload):
    ...     total += payload
    >>> mean_of_messages(2, add)([np.array([1, 2], np.uint8), np.array([3, 2], np.uint8)])
    array([2., 2.], dtype=float32)
    """

    def finish(payloads: Sequence[Any]) -> Any:
        total = arrays.of(payloads[0]).zeros(numel, payloads[0])
        for payload in payloads:
            add(total, payload)
        return divided(total, len(payloads))

    return finish


def dense_mean(numel: int, decode: Callable[[Any, int], Any]) -> Callable[[Sequence[Any]], Any]:
    """:func:`mean_of_messages` where ``decode(payload, numel)`` returns a dense vector."""

    def add(total: Any, payload: Any) -> None:
        total += decode(payload, numel)

    return mean_of_messages(numel, add)


def divided(total: Any, divisor: float) -> Any:
    """A sum over the learners divided by their number.

    >>> import numpy as np
    >>> divided(np.array([5], np.float32), 2)
    array([2.5], dtype=float32)
    """
    return arrays.of(total).divided(total, divisor)


def mean_at(indices: Any, numel: int, world: int, total: Any) -> Any:
    """The means of some elements from their sums, as a dense vector: float32 [numel], zero elsewhere.

    >>> import numpy as np
    >>> mean_at(np.array([1]), 3, 2, np.array([5], np.float32)).tolist()
    [0.0, 2.5, 0.0]
    """
    average = arrays.of(total).zeros(numel, total)
    average[indices] = divided(total, world)
    return average
