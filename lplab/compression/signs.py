"""One bit per element: 1-bit SGD (Seide 2014), signSGD (Bernstein 2018) and EF-signSGD (Karimireddy 2019)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from lplab.compression import arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    AllGather,
    Compressor,
    Context,
    Steps,
    Transfer,
    corrected_gradient,
    dense_mean,
    element_count,
    flat_gradient,
)
from lplab.compression.layer_state import LayerState
from lplab.compression.wire.bits import pack_signs, unpack_signs
from lplab.compression.wire.values import scales


@dataclass(frozen=True)
class OneBit(Compressor):
    """1-bit SGD: the sign of gradient plus residual; each column has one value for each sign, the mean of its elements.

    A column belongs to one output of a layer: a row of torch's weight (first dimension). Vectors are one column. The
    average is not quantized again here: every learner gathers all messages and takes the mean.

    Message: for each column the mean of its values of 0 or more and that of its negative ones, float32 little-endian;
    then the signs, eight to a byte.

    >>> OneBit().plan((10, 800))
    (Transfer(kind='all_gather', payload_bytes=1080),)
    """

    takes_tensors: ClassVar[bool] = True
    state_names = ("residual",)

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        xp, columns = arrays.of(gradient), _columns(gradient.shape)
        corrected = corrected_gradient(gradient, state)
        negative = corrected < 0
        means = _mean_by_sign(corrected.reshape(columns, -1), negative.reshape(columns, -1))
        state.propose(residual=corrected - _values(means, negative))
        payload = xp.concatenate([xp.float_bytes(means), pack_signs(negative)])
        average = yield AllGather(payload, dense_mean(len(corrected), partial(decode_columns, columns=columns)))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """Eight bytes per column and one bit per element."""
        return (Transfer("all_gather", 8 * _columns(shape) + -(-element_count(shape) // 8)),)


def decode_columns(payload: Any, numel: int, columns: int) -> Any:
    """Decode a message of :class:`OneBit`: float32, flat.

    Raises:
        ValueError: a message of the wrong length, or a mean that is not finite.
    """
    means = scales(payload, 2 * columns).reshape(columns, 2)
    return _values(means, unpack_signs(payload[8 * columns :], numel))


@dataclass(frozen=True)
class SignSGD(Compressor):
    """signSGD with majority vote (Bernstein et al., ICML 2018, arXiv 1802.04434; ICLR 2019, arXiv 1810.05291).

    v ← β·v + (1 − β)·g; each learner sends the signs of its v, and the update is the sign of their sum: +1 or −1 for
    every element. An optimizer's step is then its learning rate, which is much smaller than for gradients (the authors
    use 1e-4), and SGD should have no momentum. Nothing is remembered of the magnitudes, so training need not converge.
    With β above 0 the papers call it Signum.

    Zero is sent as positive, as in the authors' code: one bit has no third value. Elements whose gradient is zero at
    all learners are therefore updated, too. In the papers the server broadcasts the result, one bit per element; here
    every learner gathers all messages and counts, with the same result.

    Args:
        momentum: β, from 0 to below 1; the authors use 0.9.
        ties: the result where as many learners are for + as for −, with an even number of them: "zero", the papers'
            formula sign(0) = 0; or "positive", as in the authors' code, where the result has only one bit.

    Message: the signs, eight to a byte.

    Raises:
        ValueError: a value out of range.

    >>> SignSGD().plan((1000,))
    (Transfer(kind='all_gather', payload_bytes=125),)
    """

    takes_tensors: ClassVar[bool] = True

    momentum: float = 0.0
    ties: str = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be from 0 to below 1, got {self.momentum}")
        if self.ties not in ("zero", "positive"):
            raise ValueError(f"ties must be 'zero' or 'positive', got {self.ties!r}")

    @property
    def state_names(self) -> tuple[str, ...]:
        """The velocity, if there is momentum."""
        return ("velocity",) if self.momentum else ()

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        v = flat_gradient(gradient, state)
        if self.momentum:
            v = state["velocity"] * single(self.momentum) + v * single(1 - self.momentum)
            state.propose(velocity=v)
        vote = yield AllGather(pack_signs(v < 0), majority_vote(len(v), self.ties))
        return vote.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """One all-gather of a bit per element."""
        return (Transfer("all_gather", -(-element_count(shape) // 8)),)


def majority_vote(numel: int, ties: str = "zero") -> Callable[[Sequence[Any]], Any]:
    """Make a function of all payloads of :class:`SignSGD` that returns the sign of each sum, float32 [numel].

    Args:
        numel: elements of the layer.
        ties: as for :class:`SignSGD`.

    Raises:
        ValueError: (when called) a damaged message.

    >>> import numpy as np
    >>> payloads = [pack_signs(np.array(negative)) for negative in ([False, True], [True, True])]
    >>> majority_vote(2)(payloads).tolist(), majority_vote(2, ties="positive")(payloads).tolist()
    ([0.0, -1.0], [1.0, -1.0])
    """

    def finish(payloads: Sequence[Any]) -> Any:
        xp = arrays.of(payloads[0])
        negative = sum(xp.cast(unpack_signs(payload, numel), "int64") for payload in payloads)
        vote = xp.cast(xp.sign(len(payloads) - 2 * negative), "float32")
        if ties == "positive":
            vote[vote == 0] = 1
        return vote

    return finish


@dataclass(frozen=True)
class EFSign(Compressor):
    """Sign compression with error feedback: sign(p)·mean|p|, p the gradient plus the residual.

    The residual is in units of the gradient; the learning rate is applied after averaging. Zero counts as positive.

    Args:
        error_feedback: False: signs with a scale and no residual, which need not converge.

    Message: mean|p|, float32 little-endian; then the signs, eight to a byte.

    >>> EFSign().plan((1000,))
    (Transfer(kind='all_gather', payload_bytes=129),)
    """

    takes_tensors: ClassVar[bool] = True

    error_feedback: bool = True

    @property
    def state_names(self) -> tuple[str, ...]:
        """The residual, if there is error feedback."""
        return ("residual",) if self.error_feedback else ()

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of messages."""
        xp, numel = arrays.of(gradient), element_count(gradient.shape)
        corrected = (corrected_gradient if self.error_feedback else flat_gradient)(gradient, state)
        negative = corrected < 0
        scale = xp.rounded_sums(abs(corrected), lambda total: xp.cast(xp.divided(total, numel), "float32"))
        if self.error_feedback:
            state.propose(residual=corrected - xp.where(negative, -scale, scale))
        payload = xp.concatenate([xp.float_bytes(scale), pack_signs(negative)])
        average = yield AllGather(payload, dense_mean(numel, decode_signs))
        return average.reshape(gradient.shape)

    def plan(self, shape: Sequence[int], activity: None = None) -> tuple[Transfer, ...]:
        """One all-gather of four bytes and a bit per element."""
        return (Transfer("all_gather", 4 + -(-element_count(shape) // 8)),)


def decode_signs(payload: Any, numel: int) -> Any:
    """Decode a message of :class:`EFSign`: float32, flat.

    Raises:
        ValueError: a message of the wrong length, or a scale that is not finite.
    """
    scale = scales(payload, 1)[0]
    return arrays.of(payload).where(unpack_signs(payload[4:], numel), -scale, scale)


def _columns(shape: Sequence[int]) -> int:
    return shape[0] if len(shape) > 1 else 1


def _mean_by_sign(values: Any, negative: Any) -> Any:
    """[columns, 2]: mean of the values of 0 or more, mean of the negative ones; 0 where there are none."""
    xp, means = arrays.of(values), []
    for side in (~negative, negative):
        count = side.sum(1).clip(min=1)
        finish = lambda total, count=count: xp.cast(total / count, "float32")  # noqa: E731
        means.append(xp.rounded_sums(xp.where(side, values, 0), finish))
    return xp.stack(means, axis=1)


def _values(means: Any, negative: Any) -> Any:
    signs = negative.reshape(means.shape[0], -1)
    return arrays.of(means).where(signs, means[:, 1:], means[:, :1]).reshape(-1)
