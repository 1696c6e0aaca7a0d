"""What a compressor is: an algorithm for one layer's gradient that asks for collectives and never performs one.

The algorithm is a generator. It yields requests (:class:`Broadcast`, :class:`Sum`, :class:`Gather`), is sent the
answers and returns the averaged gradient. Whoever drives it may run many learners in one process (``exchange.py``) or
hand the requests to a network: the same lines run in both, so the bits are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod
from typing import Any
from zlib import crc32

import numpy as np

from lplab.compression.layer import LayerInfo
from lplab.compression.settings import check_settings
from lplab.compression.state import LayerState

Payload = np.ndarray  # bytes on their way: uint8, one-dimensional


@dataclass(frozen=True)
class Context:
    """Who computes, and when.

    Args:
        rank: this learner, from 0.
        world: how many learners there are.
        step: the shared step counter, from 0.
        layer: name of the parameter.
        seed: of the run; all random numbers follow from seed, step, layer and rank.

    Raises:
        ValueError: rank not in 0 … world − 1, or a negative step.

    >>> Context(rank=1, world=4, step=6).leader
    2
    """

    rank: int = 0
    world: int = 1
    step: int = 0
    layer: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank must be from 0 to {self.world - 1} in a world of {self.world}, got {self.rank}")
        if self.step < 0:
            raise ValueError(f"step must be 0 or more, got {self.step}")

    @property
    def leader(self) -> int:
        """The learner whose turn it is: step mod world, the same for all layers."""
        return self.step % self.world

    def own_coin(self) -> np.random.Generator:
        """Random numbers of this learner alone."""
        return np.random.default_rng([self.seed, self.step, crc32(self.layer.encode()), 1 + self.rank])

    def shared_coin(self) -> np.random.Generator:
        """Random numbers on which all learners agree without sending a byte."""
        return np.random.default_rng([self.seed, self.step, crc32(self.layer.encode()), 0])


def as_it_is(answer: Any) -> Any:
    """The ``finish`` of a request that has nothing to add."""
    return answer


@dataclass(frozen=True, eq=False)
class Broadcast:
    """One learner's bytes for everybody; the answer is ``finish`` of that payload.

    Attributes:
        payload: uint8; None at the others.
        source: rank of the sender.
        nbytes: length, which everybody knows beforehand.
        finish: pure function, the same for all learners: where many share a process, it runs once for all.
    """

    payload: Payload | None
    source: int
    nbytes: int
    finish: Callable[[Payload], Any] = as_it_is


@dataclass(frozen=True, eq=False)
class Sum:
    """Numbers to be added up; the answer is ``finish`` of their sum over all learners, float32.

    Attributes:
        values: float32, already rounded to the wire's format.
        wire: "fp32", "fp16" or "bf16": what a value is sent as.
        finish: as for a broadcast.
    """

    values: np.ndarray
    wire: str = "fp32"
    finish: Callable[[np.ndarray], np.ndarray] = as_it_is


@dataclass(frozen=True, eq=False)
class Gather:
    """Every learner's bytes for everybody; the answer is ``finish`` of all payloads in the order of ranks.

    Attributes:
        payload: uint8, any length.
        finish: as for a broadcast.
    """

    payload: Payload
    finish: Callable[[Sequence[Payload]], np.ndarray]


Request = Broadcast | Sum | Gather
Steps = Generator[Request, Any, np.ndarray]


@dataclass(frozen=True)
class Transfer:
    """What one learner puts into a collective.

    Attributes:
        kind: "broadcast" (the leader alone), "sum" or "gather".
        payload_bytes: all that is needed to decode the message.
        paper_bytes: what the algorithm's paper counts of them; None for all of them.
    """

    kind: str
    payload_bytes: int
    paper_bytes: int | None = field(default=None, compare=False, repr=False)


class Compressor(ABC):
    """A description of an algorithm, without state: subclasses are frozen dataclasses."""

    def __post_init__(self) -> None:
        """Refuse settings of the wrong kind; subclasses call this first and then look at the values."""
        check_settings(self)

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The compressor for one layer: itself, unless its settings depend on the layer."""
        return self

    def init(self, shape: Sequence[int]) -> LayerState:
        """The state of one layer of one learner before the first step."""
        return LayerState(shape)

    @abstractmethod
    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Average a gradient with those of the other learners.

        Args:
            gradient: float32, of the state's shape, finite; not changed.
            state: of this layer; what changes is proposed, and stands once it is committed.
            context: who computes.

        Yields:
            Requests; each is sent its answer.

        Returns:
            The average, float32, of the gradient's shape: equal on all learners.
        """

    @abstractmethod
    def plan(self, shape: Sequence[int], activity: Any = None) -> tuple[Transfer, ...]:
        """What a learner sends in one step for a tensor of this shape, before any overhead of the collective.

        Args:
            shape: of the tensor.
            activity: for algorithms that send more or less from step to step: what was sent (see the class).
        """


class NotFiniteError(ValueError):
    """A gradient holds NaN or infinity: all learners must leave the step out together."""


def checked(gradient: np.ndarray, state: LayerState) -> np.ndarray:
    """The gradient, flat and float32: the first thing that every algorithm asks for.

    Raises:
        ValueError: another shape than the state's, or another dtype.
        NotFiniteError: a value that is not finite.
    """
    if gradient.shape != state.shape:
        raise ValueError(f"the gradient has shape {gradient.shape}, its state {state.shape}")
    if gradient.dtype != np.float32:
        raise ValueError(f"the gradient must be float32, got {gradient.dtype}")
    flat = np.ascontiguousarray(gradient).reshape(-1)
    if flat.size and not (isfinite(flat.max()) and isfinite(flat.min())):  # NaN is both the largest and the smallest
        raise NotFiniteError("the gradient holds NaN or infinity; all learners must leave this step out together")
    return flat


def size_of(shape: Sequence[int]) -> int:
    """How many elements a tensor of this shape has: 1 for a scalar.

    >>> size_of((3, 4)), size_of(())
    (12, 1)
    """
    return prod(shape)
