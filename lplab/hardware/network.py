"""Collectives on an α–β link: steps, bytes and seconds of all-reduce and its relatives.

Each algorithm is a row of data: how many messages follow one another, how many bytes pass one after the other on the
slowest path, how many a rank sends, how many it adds up; all but the steps in multiples of the buffer. Time is

    steps · latency + path · n / bandwidth + reduced · n · (seconds per byte added)

Sources: Thakur, Rabenseifner and Gropp 2005 (ring, halving-doubling, binomial trees); nccl-tests (factors of bytes);
Cho et al. 2017 and 2019 (several dimensions). Every argument may be an array; shapes broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.hardware.choices import chosen
from lplab.hardware.links import Floats, Link
from lplab.hardware.links import get as link_of

Of = Callable[[np.ndarray], np.ndarray]  # of the number of ranks


@dataclass(frozen=True)
class Collective:
    """An algorithm of a collective over p ranks and a buffer of n bytes.

    Attributes:
        name: as it is typed.
        label: for people.
        steps: messages that follow one another.
        path: bytes that pass one after the other on the slowest path, in multiples of n.
        sent: bytes that a rank sends, in multiples of n (the busiest rank, where they differ).
        reduced: bytes that a rank adds up on the slowest path, in multiples of n.
        source: where the formula is from.
    """

    name: str
    label: str
    steps: Of
    path: Of
    sent: Of
    reduced: Of
    source: str

    def seconds(self, ranks: Floats, nbytes: Floats, link: Link, reduce_seconds_per_byte: Floats = 0.0) -> Any:
        """Time of one collective, seconds; 0 for a single rank."""
        p, n = checked_ranks(ranks), checked_bytes(nbytes)
        moved = self.path(p) / np.asarray(link.bytes_per_second) + self.reduced(p) * reduce_seconds_per_byte
        return plain(np.where(p > 1, self.steps(p) * np.asarray(link.latency_seconds) + moved * n, 0.0))


def log2_floor(p: np.ndarray) -> np.ndarray:
    """floor(log2 p), exact for every integer below 2^53.

    >>> log2_floor(np.array([1.0, 3.0, 1024.0])).tolist()
    [0.0, 1.0, 10.0]
    """
    return np.frexp(p)[1] - 1.0


def log2_ceil(p: np.ndarray) -> np.ndarray:
    """ceil(log2 p), exact for every integer below 2^53."""
    floor = log2_floor(p)
    return floor + (np.ldexp(1.0, floor.astype(int)) < p)


def _others(p: np.ndarray) -> np.ndarray:
    return (p - 1) / p


def _zero(p: np.ndarray) -> np.ndarray:
    return np.zeros_like(p)


def _folded(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Halving-doubling: the largest power of two within p, and 1 where ranks are left over, else 0."""
    power = np.ldexp(1.0, log2_floor(p).astype(int))
    return power, (power < p).astype(float)


def _halving_steps(p: np.ndarray) -> np.ndarray:
    return 2 * log2_floor(p) + 2 * _folded(p)[1]


def _halving_bytes(p: np.ndarray) -> np.ndarray:
    power, left = _folded(p)
    return 2 * _others(power) + 2 * left


_THAKUR = "Thakur, Rabenseifner, Gropp 2005"
_ROWS = (
    Collective("ring", "ring", lambda p: 2 * (p - 1), lambda p: 2 * _others(p), lambda p: 2 * _others(p), _others,
               "nccl-tests; ASTRA-sim"),
    Collective("tree", "binomial tree: reduce, then broadcast", lambda p: 2 * log2_ceil(p), lambda p: 2 * log2_ceil(p),
               lambda p: log2_ceil(p), log2_ceil, _THAKUR),
    Collective("double_tree", "two pipelined trees (NCCL)", lambda p: 2 * log2_ceil(p), lambda p: 2 * np.ones_like(p),
               lambda p: 2 * np.ones_like(p), np.ones_like, "recalled: Sanders, Speck, Träff 2009"),
    Collective("halving_doubling", "recursive halving and doubling", _halving_steps, _halving_bytes, _halving_bytes,
               lambda p: _others(_folded(p)[0]) + _folded(p)[1], _THAKUR + "; left-over ranks fold in as in MPICH"),
    Collective("recursive_doubling", "recursive doubling", lambda p: log2_floor(p) + 2 * _folded(p)[1],
               lambda p: log2_floor(p) + 2 * _folded(p)[1], lambda p: log2_floor(p) + _folded(p)[1],
               lambda p: log2_floor(p) + _folded(p)[1], _THAKUR),
    Collective("gloo_ring", "Gloo's ring: whole buffers go round", lambda p: p - 1, lambda p: p - 1, lambda p: p - 1,
               lambda p: p - 1, "Gloo, docs/algorithms.md"),
    Collective("gloo_ring_chunked", "Gloo's chunked ring", lambda p: 4 * p, lambda p: 2 * np.ones_like(p),
               lambda p: 2 * np.ones_like(p), np.ones_like, "Gloo, docs/algorithms.md"),
    Collective("in_network", "sums in the switch", lambda p: 2 * np.ones_like(p), np.ones_like, np.ones_like, _zero,
               "nccl-tests"),
    Collective("parameter_server", "one parameter server", lambda p: 2 * np.ones_like(p), lambda p: 2 * p,
               np.ones_like, lambda p: p, "ours: the server's link carries every worker's buffer twice"),
    Collective("sharded_server", "as many servers as workers", lambda p: 2 * np.ones_like(p),
               lambda p: 2 * np.ones_like(p), lambda p: 2 * np.ones_like(p), np.ones_like, "ours: each server sums one part of the buffer"),
)  # fmt: skip
ALL_REDUCE: dict[str, Collective] = {row.name: row for row in _ROWS}
"""Algorithms of all-reduce, by name."""

_FASTEST = ("ring", "tree", "halving_doubling", "double_tree")  # what "auto" chooses from


def names() -> tuple[str, ...]:
    """The names of all algorithms of all-reduce; "auto" takes the fastest at each point.

    >>> names()[:3]
    ('ring', 'tree', 'double_tree')
    """
    return (*ALL_REDUCE, "auto")


def checked_ranks(ranks: Floats) -> np.ndarray:
    """Ranks as float64; ValueError unless each is a whole number, 1 or more.

    >>> checked_ranks(0)
    Traceback (most recent call last):
    ValueError: the number of devices must be a whole number, 1 or more, got 0
    """
    p = np.asarray(ranks, np.float64)
    wrong = ~((p >= 1) & (p == np.floor(p)) & np.isfinite(p))
    if wrong.any():
        raise ValueError(f"the number of devices must be a whole number, 1 or more, got {p[wrong][0]:g}")
    return p


def checked_bytes(nbytes: Floats) -> np.ndarray:
    """Bytes as float64; ValueError if one is negative or no number."""
    n = np.asarray(nbytes, np.float64)
    if not (n >= 0).all():
        raise ValueError(f"a message must have 0 bytes or more, got {n[~(n >= 0)][0]:g}")
    return n


def plain(values: np.ndarray) -> Any:
    """An array as it is, and a float instead of an array without dimensions."""
    return float(values) if np.ndim(values) == 0 else values


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
    each = [ALL_REDUCE[name] for name in _FASTEST] if algorithm == "auto" else [algorithm_of(algorithm)]
    link = link_of(link)
    times = [collective.seconds(ranks, nbytes, link, reduce_seconds_per_byte) for collective in each]
    return plain(np.minimum.reduce(times)) if len(times) > 1 else times[0]


def algorithm_of(name: str) -> Collective:
    """An algorithm by its name; ValueError with the closest names if there is none."""
    return chosen(ALL_REDUCE, name, "all-reduce")


def steps(algorithm: str, ranks: Floats) -> Any:
    """How many messages follow one another.

    >>> steps("ring", 8), steps("halving_doubling", 8)
    (14.0, 6.0)
    """
    p = checked_ranks(ranks)
    return plain(np.where(p > 1, algorithm_of(algorithm).steps(p), 0.0))


def sent_bytes(algorithm: str, ranks: Floats, nbytes: Floats) -> Any:
    """Bytes that a rank sends (the busiest one).

    >>> sent_bytes("ring", 4, 1000)
    1500.0
    """
    p = checked_ranks(ranks)
    return plain(np.where(p > 1, algorithm_of(algorithm).sent(p) * checked_bytes(nbytes), 0.0))


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
    return plain((p - 1) * link_of(link).seconds(checked_bytes(payload_bytes)))


def reduce_scatter_seconds(
    ranks: Floats, nbytes: Floats, link: str | Link, reduce_seconds_per_byte: Floats = 0.0
) -> Any:
    """Time until every rank has the sum of its own part, around a ring: half of the ring's all-reduce, and the sums.

    >>> reduce_scatter_seconds(4, 4000, Link(0.0, 1e9))
    3e-06
    """
    p = checked_ranks(ranks)
    part = checked_bytes(nbytes) / p
    return plain((p - 1) * (link_of(link).seconds(part) + part * reduce_seconds_per_byte))


def broadcast_seconds(ranks: Floats, nbytes: Floats, link: str | Link) -> Any:
    """Time until all have the buffer of one: a binomial tree, or scatter and all-gather where that is faster.

    >>> broadcast_seconds(8, 1000, Link(1e-6, 1e9))
    6e-06
    """
    p, n, link = checked_ranks(ranks), checked_bytes(nbytes), link_of(link)
    tree = log2_ceil(p) * link.seconds(n)
    steps = log2_ceil(p) + p - 1
    scattered = steps * np.asarray(link.latency_seconds) + 2 * _others(p) * n / np.asarray(link.bytes_per_second)
    return plain(np.minimum(tree, scattered))


def multidimensional_seconds(
    sizes: Sequence[Floats], nbytes: Floats, links: Sequence[str | Link], reduce_seconds_per_byte: Floats = 0.0
) -> Any:
    """All-reduce over a grid of ranks, as DDL and BlueConnect do it.

    Reduce-scatter along the first dimension, then the next with what is left of the buffer, and all-gathers in the
    reverse order: the sum over d of 2(p_d − 1)·latency_d + 2(p_d − 1)/p_d · n/(p_1…p_(d−1)) / bandwidth_d.

    Args:
        sizes: ranks along each dimension, the fastest links first.
        nbytes: of the buffer on each rank.
        links: one for each dimension, as a rank sees it (:meth:`Link.shared`).
        reduce_seconds_per_byte: time to add one byte to another.

    Raises:
        ValueError: another number of links than of sizes.

    >>> round(multidimensional_seconds([4, 64], 102.2e6, [Link(0, 32e9), Link(0, 3.125e9)]), 6)
    0.020887
    """
    if len(sizes) != len(links):
        raise ValueError(f"a grid needs one link for each dimension, got {len(sizes)} sizes and {len(links)} links")
    total, left = np.zeros(()), checked_bytes(nbytes)
    for size, link in zip(sizes, links, strict=True):
        p = checked_ranks(size)
        total = total + ALL_REDUCE["ring"].seconds(p, left, link_of(link), reduce_seconds_per_byte)
        left = left / p
    return plain(total)
