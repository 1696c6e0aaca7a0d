"""All-reduce algorithms as data: sequential messages, bytes on the slowest path, bytes sent, bytes reduced.

Sources: Thakur, Rabenseifner and Gropp 2005 (ring, halving-doubling, binomial trees); nccl-tests (factors of bytes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lplab.checks import check_at_least, check_numbers
from lplab.hardware.network.links import Floats, Link

RankFormula = Callable[[np.ndarray], np.ndarray]  # of the number of ranks


@dataclass(frozen=True)
class Collective:
    """An algorithm of a collective over p ranks and a buffer of n bytes.

    Attributes:
        name: in code.
        label: for people.
        steps: messages that follow one another.
        path: bytes that pass one after the other on the slowest path, in multiples of n.
        sent: bytes that a rank sends, in multiples of n (the busiest rank, where they differ).
        reduced: bytes that are summed on the slowest path, in multiples of n.
        source: where the formula is from.
    """

    name: str
    label: str
    steps: RankFormula
    path: RankFormula
    sent: RankFormula
    reduced: RankFormula
    source: str

    def seconds(self, ranks: Floats, nbytes: Floats, link: Link, reduce_seconds_per_byte: Floats = 0.0) -> Any:
        """Time of one collective, seconds; 0 for a single rank."""
        p, n = checked_ranks(ranks), checked_bytes(nbytes)
        [add] = check_at_least(0, reduce_seconds_per_byte=reduce_seconds_per_byte)
        moved = self.path(p) / np.asarray(link.bytes_per_second) + self.reduced(p) * add
        return unwrap_scalar(np.where(p > 1, self.steps(p) * np.asarray(link.latency_seconds) + moved * n, 0.0))


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


def _twice(p: np.ndarray) -> np.ndarray:
    return np.full_like(p, 2)


def _zero(p: np.ndarray) -> np.ndarray:
    return np.zeros_like(p)


def _folded(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Halving-doubling: the largest power of two within p, and 1 where ranks are left over, else 0."""
    power = np.ldexp(1.0, log2_floor(p).astype(int))
    return power, (power < p).astype(float)


def _halving_steps(p: np.ndarray) -> np.ndarray:
    return 2 * log2_floor(p) + 2 * _folded(p)[1]


def _halving_path(p: np.ndarray) -> np.ndarray:
    power, left = _folded(p)
    return 2 * _others(power) + 2 * left


def _halving_sent(p: np.ndarray) -> np.ndarray:
    power, left = _folded(p)
    return 2 * _others(power) + left  # it receives a left-over rank's buffer, and returns the sum


_THAKUR = "Thakur, Rabenseifner, Gropp 2005"
_ROWS = (
    Collective(
        "ring",
        "ring",
        lambda p: 2 * (p - 1),
        lambda p: 2 * _others(p),
        lambda p: 2 * _others(p),
        _others,
        "nccl-tests; ASTRA-sim",
    ),
    Collective(
        "tree",
        "binomial tree: reduce, then broadcast",
        lambda p: 2 * log2_ceil(p),
        lambda p: 2 * log2_ceil(p),
        log2_ceil,
        log2_ceil,
        _THAKUR,
    ),
    Collective(
        "double_tree",
        "two pipelined trees (NCCL)",
        lambda p: 2 * log2_ceil(p),
        _twice,
        _twice,
        np.ones_like,
        "recalled: Sanders, Speck, Träff 2009",
    ),
    Collective(
        "halving_doubling",
        "recursive halving and doubling",
        _halving_steps,
        _halving_path,
        _halving_sent,
        lambda p: _others(_folded(p)[0]) + _folded(p)[1],
        _THAKUR + "; left-over ranks fold in as in MPICH",
    ),
    Collective(
        "recursive_doubling",
        "recursive doubling",
        lambda p: log2_floor(p) + 2 * _folded(p)[1],
        lambda p: log2_floor(p) + 2 * _folded(p)[1],
        lambda p: log2_floor(p) + _folded(p)[1],
        lambda p: log2_floor(p) + _folded(p)[1],
        _THAKUR,
    ),
    Collective(
        "gloo_ring",
        "Gloo's ring: whole buffers go round",
        lambda p: p - 1,
        lambda p: p - 1,
        lambda p: p - 1,
        lambda p: p - 1,
        "Gloo, docs/algorithms.md",
    ),
    Collective(
        "gloo_ring_chunked",
        "Gloo's chunked ring",
        lambda p: 4 * p,
        _twice,
        _twice,
        np.ones_like,
        "Gloo, docs/algorithms.md",
    ),
    Collective("in_network", "sums in the switch", _twice, np.ones_like, np.ones_like, _zero, "nccl-tests"),
    Collective(
        "parameter_server",
        "one parameter server",
        _twice,
        lambda p: 2 * p,
        np.ones_like,
        lambda p: p,
        "ours: the server's link carries every worker's buffer twice",
    ),
    Collective(
        "sharded_server",
        "as many servers as workers",
        _twice,
        _twice,
        _twice,
        np.ones_like,
        "ours: each server sums one part of the buffer",
    ),
)
ALL_REDUCE: dict[str, Collective] = {row.name: row for row in _ROWS}
"""Algorithms of all-reduce, by name."""


MOST_RANKS = 2.0**53  # the next whole number is none of float64


def checked_ranks(ranks: Floats, name: str = "the number of devices") -> np.ndarray:
    """Ranks as float64; ValueError with their name unless each is a whole number from 1 to 2^53.

    >>> checked_ranks(0)
    Traceback (most recent call last):
    ValueError: the number of devices must be a whole number, 1 or more, got 0
    """
    p = check_numbers(name, ranks)
    wrong = ~((p >= 1) & (p == np.floor(p)) & np.isfinite(p))
    if wrong.any():
        raise ValueError(f"{name} must be a whole number, 1 or more, got {p[wrong][0]:g}")
    if (p > MOST_RANKS).any():
        raise ValueError(f"{name} must be at most 2^53, got {p.max():g}")
    return p


def checked_straggler(straggler: Floats) -> np.ndarray:
    """The share by which the slowest device is slower, float64; ValueError for a negative, infinite or no number."""
    slower = check_numbers("straggler", straggler)
    wrong = ~((slower >= 0) & np.isfinite(slower))
    if wrong.any():
        raise ValueError(f"straggler must be 0 or more, got {slower[wrong][0]:g}")
    return slower


def checked_bytes(nbytes: Floats) -> np.ndarray:
    """Bytes as float64; ValueError if one is negative, infinite or no number."""
    n = check_numbers("the bytes of a message", nbytes)
    wrong = ~((n >= 0) & (n < np.inf))
    if wrong.any():
        raise ValueError(f"a message must have 0 bytes or more, got {n[wrong][0]:g}")
    return n


def unwrap_scalar(values: np.ndarray) -> Any:
    """An array as it is, and a float instead of an array without dimensions."""
    return float(values) if np.ndim(values) == 0 else values
