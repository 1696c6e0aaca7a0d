"""The protocol of compressors: an algorithm for one layer's gradient that requests collectives and performs none.

The algorithm is a generator. It yields requests (:class:`Broadcast`, :class:`AllReduce`, :class:`AllGather`), is sent
the results and returns the averaged gradient. Its caller runs many learners in one process (``lockstep.py``) or passes
the requests to a network: the same code runs in both, so the bits are the same.

The algorithm is written once for arrays of numpy and for tensors of PyTorch on any device: what the two libraries do
not write alike, it calls through :func:`lplab.compression.arrays.of`. A generator that only takes arrays is run on the
host where gradients are tensors.

:class:`Dense`, which compresses nothing, is the shortest example; others send small layers by it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import numpy as np

from lplab.compression import arrays
from lplab.compression.layer_info import LayerInfo
from lplab.compression.layer_state import LayerState
from lplab.compression.settings_check import check_settings
from lplab.compression.wire.values import bytes_per_value, check_wire
from lplab.lookup import NamedSettings, refuse_wrong_attributes

Payload = np.ndarray  # a message: uint8, one-dimensional
NOT_FINITE = "{} holds NaN or infinity; all learners must skip this step together"
CORRECTED = "the gradient plus the residual"


@dataclass(frozen=True)
class Context:
    """The learner and the step.

    Args:
        rank: this learner, from 0.
        world: how many learners there are.
        step: the shared step counter, from 0.
        layer: name of the parameter.
        seed: of the run; all random numbers are derived from seed, step, layer and rank.
        overwrite: whether an algorithm may keep the gradient's memory for its state: the caller does not use it again.
        in_place: whether an algorithm may change its state at once, and overwrite the gradient: the caller has made
            sure that all gradients of the step are finite and no sum overflows, and does not roll back.
        learners: how many learners the gradient is of, from ``rank`` on; more than one for a class with
            ``takes_stacks`` alone.

    Raises:
        ValueError: rank not in 0 … world − 1, or a negative step.

    >>> context = Context(rank=1, world=4, step=6)
    >>> context.leader, context.leads
    (2, False)
    """

    rank: int = 0
    world: int = 1
    step: int = 0
    layer: str = ""
    seed: int = 0
    overwrite: bool = False
    in_place: bool = False
    learners: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank must be from 0 to {self.world - 1} in a world of {self.world}, got {self.rank}")
        if self.step < 0:
            raise ValueError(f"step must be 0 or more, got {self.step}")

    @property
    def leader(self) -> int:
        """The leading rank of this step: step mod world, the same for all layers."""
        return self.step % self.world

    @property
    def leads(self) -> bool:
        """Whether the gradient is that of the leader, or the leader's is among those of several learners."""
        return 0 <= self.leader - self.rank < self.learners

    def rank_rng(self) -> np.random.Generator:
        """A generator of its own for each learner."""
        return np.random.default_rng([self.seed, self.step, crc32(self.layer.encode()), 1 + self.rank])

    def shared_rng(self) -> np.random.Generator:
        """A generator that is the same on all learners, so no indices need to be sent."""
        return np.random.default_rng([self.seed, self.step, crc32(self.layer.encode()), 0])


def identity(result: Any) -> Any:
    """The ``finish`` of a request whose result is used as it is."""
    return result


@dataclass(eq=False)
class Broadcast:
    """One learner's bytes to all; the result is ``finish`` of that payload.

    Attributes:
        payload: uint8; None on the other ranks.
        source: rank of the sender.
        nbytes: length of the payload, known to all.
        finish: pure function, the same for all learners; where they share a process it runs only once.
        device: where ``finish`` takes the payload as a tensor; None: as a numpy array.
    """

    kind: ClassVar[str] = "broadcast"

    payload: Payload | None
    source: int
    nbytes: int
    finish: Callable[[Payload], Any] = identity
    device: Any = None


@dataclass(eq=False)
class AllReduce:
    """Values to be summed; the result is ``finish`` of their sum over all learners, float32.

    Attributes:
        values: float32 [n], already rounded to the wire's format; of several learners [learners, n].
        wire: "fp32", "fp16" or "bf16": the format of a value in the message.
        finish: as for a broadcast.
    """

    kind: ClassVar[str] = "all_reduce"

    values: np.ndarray
    wire: str = "fp32"
    finish: Callable[[np.ndarray], np.ndarray] = identity


@dataclass(eq=False)
class AllGather:
    """Every learner's bytes to all; the result is ``finish`` of all payloads in the order of ranks.

    Attributes:
        payload: uint8, any length.
        finish: as for a broadcast.
    """

    kind: ClassVar[str] = "all_gather"

    payload: Payload
    finish: Callable[[Sequence[Payload]], np.ndarray]


def sum_of_ranks(values: Iterable[Any]) -> Any:
    """The sum of what the learners reduce, arrays or tensors, added in the order of ranks.

    >>> sum_of_ranks([np.float32([1, 2]), np.float32([3, 4])]).tolist()
    [4.0, 6.0]
    """
    ranks = iter(values)
    first = next(ranks)
    total = arrays.of(first).copy(first)
    for addend in ranks:
        total += addend
    return total


Request = Broadcast | AllReduce | AllGather
Steps = Generator[Request, Any, np.ndarray]


@dataclass(frozen=True)
class Transfer:
    """The payload of one learner in a collective.

    Attributes:
        kind: "broadcast" (by the leader only), "all_reduce" or "all_gather".
        payload_bytes: size of the whole message.
        paper_bytes: the bytes of it that the algorithm's paper counts; None: all.
    """

    kind: str
    payload_bytes: int
    paper_bytes: int | None = field(default=None, compare=False, repr=False)


class Compressor(NamedSettings, ABC):
    """The settings of an algorithm, without state: subclasses are frozen dataclasses.

    Attributes:
        takes_tensors: whether :meth:`steps` takes tensors, too, because it calls what numpy and PyTorch do not write
            alike through :func:`lplab.compression.arrays.of`.
        takes_stacks: whether :meth:`steps` takes the gradients of several learners at once, too: an array
            ``[learners, *shape]`` and a :class:`~lplab.compression.layer_state.StackedState`. Such a class requests
            sums, perhaps after a broadcast by the leader, and does not read its gradient after it has requested a sum.
    """

    takes_tensors: ClassVar[bool] = False
    takes_stacks: ClassVar[bool] = False

    if not TYPE_CHECKING:
        __getattr__ = refuse_wrong_attributes("lplab.compression.Compressor")

    def __post_init__(self) -> None:
        """Refuse settings of the wrong type; subclasses call this first and then check the values."""
        check_settings(self)

    def __init_subclass__(cls) -> None:
        """A derived class takes tensors and stacks only if it says so itself: it may override a part that does not."""
        super().__init_subclass__()
        for attribute in ("takes_tensors", "takes_stacks"):
            if attribute not in cls.__dict__:
                setattr(cls, attribute, False)

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The compressor for one layer: itself, unless its settings depend on the layer."""
        return self

    @property
    def state_names(self) -> tuple[str, ...]:
        """The arrays of a layer's state, float32 [numel], which are zeros before the first step."""
        return ()

    def init(self, shape: Sequence[int]) -> LayerState:
        """The state of one layer of one learner before the first step."""
        return LayerState(shape, **{name: np.zeros(element_count(shape), np.float32) for name in self.state_names})

    @abstractmethod
    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """Average a gradient with those of the other learners.

        Args:
            gradient: float32, of the state's shape, finite; not changed, unless ``context.overwrite``. An array; a
                tensor only if the class has ``takes_tensors``, and several gradients only if it has ``takes_stacks``.
            state: of this layer, of the gradient's kind; changes are proposed, and take effect when they are committed.
            context: the learner and the step.

        Yields:
            Requests; each is sent its result.

        Returns:
            The average, float32, of the gradient's shape: equal on all learners.

        Raises:
            NotFiniteError: the gradient, or what is made of it, is not finite. Only before the first request, since the
                other learners go on otherwise. What overflows later is sent as NaN in a sum, which tells all learners.
        """

    @abstractmethod
    def plan(self, shape: Sequence[int], activity: Any = None) -> tuple[Transfer, ...]:
        """The transfers of one learner and step for a tensor of this shape, without overhead of the collective.

        Args:
            shape: of the tensor.
            activity: how much was sent, for algorithms whose message size varies from step to step (see the class).
        """


class NotFiniteError(ValueError):
    """A gradient, or what was made of it, holds NaN or infinity: all learners must skip the step together.

    Attributes:
        layer: whose gradient it is; None: not known.
    """

    layer: str | None = None


def all_finite(values: Any) -> bool:
    """Whether no value of a contiguous float32 array, or of a tensor, is NaN or infinite.

    >>> all_finite(np.ones((2, 2), np.float32)), all_finite(np.array([1, np.inf], np.float32))
    (True, False)
    """
    return arrays.of(values).is_finite(values)


def ensure_finite(values: Any, what: str = "the gradient") -> Any:
    """Return an array or a tensor, as :func:`all_finite` takes it.

    Raises:
        NotFiniteError: a value that is not finite; ``what`` names the values.
    """
    if not all_finite(values):
        raise NotFiniteError(NOT_FINITE.format(what))
    return values


def flat_gradient(gradient: Any, state: LayerState) -> Any:
    """Check a gradient and flatten it: every algorithm calls this or :func:`corrected_gradient` first.

    Args:
        gradient, state: as for :meth:`Compressor.steps`; or of several learners, see
            :class:`~lplab.compression.layer_state.StackedState`.

    Returns:
        float32 [numel]; of several learners [learners, numel].

    Raises:
        ValueError: another shape than the state's, or another dtype.
        NotFiniteError: a value that is not finite.

    >>> from lplab.compression.layer_state import StackedState
    >>> flat_gradient(np.ones((2, 3, 1), np.float32), StackedState([LayerState((3, 1))] * 2)).shape
    (2, 3)
    """
    return _in_rows(ensure_finite(_checked(gradient, state)), state)


def corrected_gradient(gradient: Any, state: LayerState, out: Any = None) -> Any:
    """The state's residual plus a gradient, checked as by :func:`flat_gradient`; in one pass over memory.

    Args:
        gradient, state: as for :func:`flat_gradient`.
        out: float32 that receives the sum: flat, or the gradient itself; None: new memory.

    Returns:
        The sum: float32 [numel]; of several learners [learners, numel].

    Raises:
        ValueError: another shape than the state's, or another dtype.
        NotFiniteError: a sum that is not finite, because the gradient is not or because it overflows.

    >>> corrected_gradient(np.ones(2, np.float32), LayerState((2,), residual=np.array([2, 3], np.float32)))
    array([3., 4.], dtype=float32)
    """
    xp, flat = arrays.of(gradient), _checked(gradient, state)
    total = xp.empty_like(flat) if out is None else flat if out is gradient else out.reshape(-1)
    if not xp.add_finite(state["residual"].reshape(-1), flat, total):
        raise NotFiniteError(NOT_FINITE.format(CORRECTED))
    return _in_rows(total, state)


def _checked(gradient: Any, state: LayerState) -> Any:
    """A gradient of the state's shape and of float32, flat; of several learners one behind the other."""
    xp, shape = arrays.of(gradient), tuple(gradient.shape[state.learner_axes :])
    if shape != state.shape:
        raise ValueError(f"the gradient has shape {shape}, its state {state.shape}")
    if xp.dtype_name(gradient) != "float32":
        raise ValueError(f"the gradient must be float32, got {xp.dtype_name(gradient)}")
    return xp.flat(gradient)


def _in_rows(flat: Any, state: LayerState) -> Any:
    return flat.reshape(-1, element_count(state.shape)) if state.learner_axes else flat


def element_count(shape: Sequence[int]) -> int:
    """The number of elements of a tensor of this shape; 1 for a scalar.

    >>> element_count((3, 4)), element_count(())
    (12, 1)
    """
    return prod(shape)


# ---- the mean over the learners: the last step of each collective ----------------------------------------------------


def mean_of_messages(numel: int, add: Callable[[Any, Any], object]) -> Callable[[Sequence[Any]], Any]:
    """Make the ``finish`` of an all-gather: a function of all payloads that returns their mean, float32 [numel].

    Args:
        numel: elements of the layer.
        add: a function of the sum so far and a payload, arrays or tensors: decodes the payload and adds it to the sum.

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

    >>> divided(np.array([5], np.float32), 2)
    array([2.5], dtype=float32)
    """
    return arrays.of(total).divided(total, divisor)


def mean_at(indices: Any, numel: int, world: int, total: Any) -> Any:
    """The means of some elements from their sums, as a dense vector: float32 [numel], zero elsewhere.

    >>> mean_at(np.array([1]), 3, 2, np.array([5], np.float32)).tolist()
    [0.0, 2.5, 0.0]
    """
    average = arrays.of(total).zeros(numel, total)
    average[indices] = divided(total, world)
    return average


# ---- the baseline: no compression ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dense(Compressor):
    """The whole gradient, each value in ``wire``: "fp32" (lossless), "fp16" or "bf16".

    Values that overflow in half precision are clipped to its largest number. A simulation sums them in float32, and so
    does ``ddp_hook(..., ordered=True)``. Otherwise the back end of a process group sums them in half precision, which
    rounds each partial sum.

    Raises:
        ValueError: an unknown format.

    >>> Dense("fp16").plan((10,))
    (Transfer(kind='all_reduce', payload_bytes=20),)
    """

    takes_tensors: ClassVar[bool] = True
    takes_stacks: ClassVar[bool] = True

    wire: str = "fp32"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_wire(self.wire)

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-reduce of all values."""
        values = arrays.of(gradient).round_to_wire(flat_gradient(gradient, state), self.wire)
        average = yield AllReduce(values, self.wire, partial(divided, divisor=context.world))
        return average.reshape(state.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """One all-reduce of all values."""
        return (Transfer("all_reduce", element_count(shape) * bytes_per_value(self.wire)),)
