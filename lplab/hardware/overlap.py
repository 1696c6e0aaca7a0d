"""Overlap of communication with the backward pass: buckets of layers, when each is ready, exposed transfer time.

The backward pass goes from the last layer to the first. A layer's gradient joins the open bucket; once that holds
enough bytes it is sent, one bucket after the other. A bucket that is ready at t and needs d seconds ends at
max(t, end of the one before) + d, so the last one ends at the maximum over k of t_k + d_k + d_(k+1) + …: no loop is
needed, and buckets × thousands of design points are one array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.checks import check_number, check_numbers
from lplab.hardware.network.all_reduce_algorithms import unwrap_scalar
from lplab.hardware.network.links import Floats

BUCKET_BYTES = 25 * 2**20  # of PyTorch's DistributedDataParallel


def buckets(layer_bytes: np.ndarray, bucket_bytes: float = BUCKET_BYTES) -> np.ndarray:
    """The bucket of each layer, counted in the order of sending: int64 [layers], 0 for the last layers.

    Args:
        layer_bytes: bytes of each layer's gradient in the order of the forward pass, [layers].
        bucket_bytes: a bucket is full from here; 0: each layer for itself; infinity: all together.

    Raises:
        ValueError: a negative size.

    >>> buckets(np.array([10, 10, 30, 10]), 30).tolist()
    [1, 1, 0, 0]
    """
    if not check_number("bucket_bytes", bucket_bytes) >= 0:
        raise ValueError(f"bucket_bytes must be 0 or more, got {bucket_bytes}")
    found, current, filled = np.zeros(len(layer_bytes), np.int64), 0, 0.0
    for i in reversed(range(len(layer_bytes))):
        found[i] = current
        filled += layer_bytes[i]
        if filled >= bucket_bytes and filled > 0:
            current, filled = current + 1, 0.0
    return found


def ready_seconds(layer_backward: np.ndarray, bucket: np.ndarray) -> np.ndarray:
    """When each bucket is complete, counted from the start of the backward pass: float64 [buckets, ...].

    Args:
        layer_backward: time of each layer's backward pass, [layers, ...].
        bucket: of each layer, as :func:`buckets` gives it.

    >>> ready_seconds(np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0])).tolist()
    [3.0, 6.0]
    """
    done = np.cumsum(layer_backward[::-1], axis=0)[::-1]  # when this layer's own gradient is there
    first = np.array([np.flatnonzero(bucket == k).min() for k in range(bucket.max() + 1)])
    return done[first]


def exposed_seconds(ready: np.ndarray, durations: np.ndarray, backward_seconds: Floats, overlap: Floats = 1.0) -> Any:
    """Seconds that the network is busy after the end of the backward pass.

    Args:
        ready: when each bucket is complete, [buckets, ...].
        durations: of each bucket's transfer, [buckets, ...].
        backward_seconds: length of the backward pass.
        overlap: how fast the network goes while devices compute, as a share of its speed: 1, undisturbed; 0, not at
            all, as if nothing were sent before the end.

    Raises:
        ValueError: an overlap outside 0 … 1.

    >>> ready, durations = np.array([1.0, 3.0]), np.array([4.0, 1.0])
    >>> [exposed_seconds(ready, durations, 3.0, overlap) for overlap in (0.0, 0.5, 1.0)]
    [5.0, 4.0, 3.0]
    """
    share = check_numbers("overlap", overlap)
    wrong = ~((share >= 0) & (share <= 1))
    if wrong.any():
        raise ValueError(f"overlap must be from 0 to 1, got {share[wrong][0]:g}")
    remaining = np.cumsum(durations[::-1], axis=0)[::-1]  # of this bucket and all behind it
    late = remaining - share * (np.asarray(backward_seconds) - ready)
    return unwrap_scalar(np.maximum(late.max(axis=0), 0.0)) if len(ready) else 0.0


def transfers(
    ready: np.ndarray, durations: np.ndarray, backward_seconds: float, overlap: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """When each bucket's transfer starts and ends, counted from the start of the backward pass: float64 [buckets] each.

    The loop that :func:`exposed_seconds` does without; both give the same end.

    >>> [t.tolist() for t in transfers(np.array([1.0, 3.0]), np.array([4.0, 1.0]), 3.0)]
    [[1.0, 5.0], [5.0, 6.0]]
    """
    starts, ends, free = np.zeros(len(ready)), np.zeros(len(ready)), 0.0
    for k, (there, duration) in enumerate(zip(ready, durations, strict=True)):
        begun = max(overlap * there, free)  # in seconds of an undisturbed network
        free = begun + duration
        starts[k] = max(_elapsed_seconds(begun, backward_seconds, overlap), there)
        ends[k] = _elapsed_seconds(free, backward_seconds, overlap)
    return starts, ends


def _elapsed_seconds(work: float, backward_seconds: float, overlap: float) -> float:
    """Time at which a network, slowed down by ``overlap`` in the backward pass, has done ``work`` seconds of work."""
    if work <= overlap * backward_seconds and overlap > 0:
        return work / overlap
    return backward_seconds + work - overlap * backward_seconds
