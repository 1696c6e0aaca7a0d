"""Collectives on an α–β link: steps, bytes and seconds of all-reduce and its relatives.

Algorithms are rows of :mod:`lplab.hardware.network.all_reduce_algorithms`. Time is

    steps · latency + path · n / bandwidth + reduced · n · (seconds per byte added)

Every argument may be an array; shapes broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.checks import check_at_least
from lplab.hardware.network.all_reduce_algorithms import (
    ALL_REDUCE,
    Collective,
    checked_bytes,
    checked_ranks,
    log2_ceil,
    unwrap_scalar,
)
from lplab.hardware.network.links import Floats, Link
from lplab.hardware.network.links import get as link_of
from lplab.lookup import lookup

_FASTEST = ("ring", "tree", "halving_doubling", "double_tree")  # what "auto" chooses from


def names() -> tuple[str, ...]:
    """The names of all algorithms of all-reduce; "auto" takes the fastest at each point.

    >>> names()[:3]
    ('ring', 'tree', 'double_tree')
    """
    return (*ALL_REDUCE, "auto")


def all_reduce_seconds(
    algorithm: str, ranks: Floats, nbytes: Floats, link: str | Link, reduce_seconds_per_byte: Floats = 0.0
) -> Any:
    """Time of an all-reduce, seconds: float64 of the shape to which the arguments broadcast, or a float.

    Args:
        algorithm: one of :func:`names`.
        ranks: p, 1 or more; a single rank takes no time.
        nbytes: of the buffer on each rank.
        link: its name, or a :class:`Link`.
        reduce_seconds_per_byte: time to add one byte of the buffer to another.

    Raises:
        ValueError: an unknown algorithm or link, no ranks, negative bytes.

    >>> all_reduce_seconds("ring", 4, 1e6, Link(1e-6, 1e9))
    0.001506
    >>> all_reduce_seconds("ring", np.array([1, 2, 4]), 1e6, Link(0.0, 1e9)).tolist()
    [0.0, 0.001, 0.0015]
    """
    collectives = [ALL_REDUCE[name] for name in _FASTEST] if algorithm == "auto" else [algorithm_of(algorithm)]
    link = link_of(link)
    times = [collective.seconds(ranks, nbytes, link, reduce_seconds_per_byte) for collective in collectives]
    return unwrap_scalar(np.minimum.reduce(times)) if len(times) > 1 else times[0]


def algorithm_of(name: str) -> Collective:
    """An algorithm by its name; ValueError with the closest names if there is none."""
    return lookup(ALL_REDUCE, name, "all-reduce")


def steps(algorithm: str, ranks: Floats) -> Any:
    """How many messages follow one another.

    >>> steps("ring", 8), steps("halving_doubling", 8)
    (14.0, 6.0)
    """
    p = checked_ranks(ranks)
    return unwrap_scalar(np.where(p > 1, algorithm_of(algorithm).steps(p), 0.0))


def sent_bytes(algorithm: str, ranks: Floats, nbytes: Floats) -> Any:
    """Bytes that a rank sends (the busiest one).

    >>> sent_bytes("ring", 4, 1000)
    1500.0
    """
    p = checked_ranks(ranks)
    return unwrap_scalar(np.where(p > 1, algorithm_of(algorithm).sent(p) * checked_bytes(nbytes), 0.0))


def all_gather_seconds(ranks: Floats, payload_bytes: Floats, link: str | Link) -> Any:
    """Time until every rank has the payload of all, around a ring: (p − 1)·(latency + payload / bandwidth).

    With a payload of k values and k indices this is the exchange of sparse gradients, which grows with the ranks.

    Args:
        ranks: p.
        payload_bytes: of one rank (nccl-tests counts p times that).
        link: its name, or a :class:`Link`.

    >>> all_gather_seconds(8, 1000, Link(0.0, 1e9))
    7e-06
    """
    p = checked_ranks(ranks)
    return unwrap_scalar((p - 1) * link_of(link).seconds(checked_bytes(payload_bytes)))


def reduce_scatter_seconds(
    ranks: Floats, nbytes: Floats, link: str | Link, reduce_seconds_per_byte: Floats = 0.0
) -> Any:
    """Time until every rank has the sum of its own part, around a ring: half of the ring's all-reduce, and the sums.

    >>> reduce_scatter_seconds(4, 4000, Link(0.0, 1e9))
    3e-06
    """
    p, [add] = checked_ranks(ranks), check_at_least(0, reduce_seconds_per_byte=reduce_seconds_per_byte)
    part = checked_bytes(nbytes) / p
    return unwrap_scalar((p - 1) * (link_of(link).seconds(part) + part * add))


def broadcast_seconds(ranks: Floats, nbytes: Floats, link: str | Link) -> Any:
    """Time until all have the buffer of one: a binomial tree, or scatter and all-gather where that is faster.

    >>> broadcast_seconds(8, 1000, Link(1e-6, 1e9))
    6e-06
    """
    p, n, link = checked_ranks(ranks), checked_bytes(nbytes), link_of(link)
    tree = log2_ceil(p) * link.seconds(n)
    steps = log2_ceil(p) + p - 1
    scattered = steps * np.asarray(link.latency_seconds) + 2 * (p - 1) / p * n / np.asarray(link.bytes_per_second)
    return unwrap_scalar(np.minimum(tree, scattered))
