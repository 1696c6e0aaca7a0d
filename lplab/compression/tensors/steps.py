"""The generators of the compressors with tensors: the same requests, messages and states as with numpy.

Each function here is the twin of a compressor's :meth:`~lplab.compression.compressor.Compressor.steps`, whose docstring
describes the algorithm. A new one is a new row of :data:`TENSOR_STEPS`.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.compression import lowrank, signs
from lplab.compression.adacomp import AdaComp
from lplab.compression.compressor import (
    CORRECTED,
    AllGather,
    AllReduce,
    Broadcast,
    Compressor,
    Context,
    Steps,
    all_finite,
    ensure_finite,
)
from lplab.compression.dense import Dense
from lplab.compression.dgc import DGC
from lplab.compression.lowrank import PowerSGD
from lplab.compression.scalecom import ScaleCom
from lplab.compression.signs import EFSign, OneBit, SignSGD
from lplab.compression.sparse import RandomK, TopK, selected_count
from lplab.compression.state import LayerState
from lplab.compression.tensors import messages
from lplab.compression.tensors.selection import (
    adacomp_select,
    certain_sum,
    divided,
    largest_per_chunk,
    top_k_indices,
)
from lplab.compression.tensors.state import TensorState, as_device_tensor
from lplab.compression.unbiased import QSGD, TernGrad
from lplab.compression.wire import scalecom_wire
from lplab.compression.wrappers import DenseIfSmall, LocalMomentum, WarmUp

Finish = Callable[[Sequence[Any]], Any]


def tensor_steps(compressor: Compressor, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    """Average a gradient with those of the other learners, on its own device.

    Args:
        compressor: of the layer. One that is not in :data:`TENSOR_STEPS` runs on the host.
        gradient: float32, of the state's shape, finite; not changed, unless ``context.overwrite``.
        state: of this layer, of :func:`~lplab.compression.tensors.state.tensor_state`, on the gradient's device.
        context: the learner and the step.

    Yields:
        Requests with tensors; with arrays, where the compressor runs on the host.

    Returns:
        The average, float32, of the gradient's shape and on its device.

    Raises:
        ValueError: (when it runs) another shape than the state's, or another dtype.
        NotFiniteError: (when it runs) a value that is not finite.
    """
    return TENSOR_STEPS.get(type(compressor), on_host)(compressor, gradient, state, context)


def has_tensor_steps(compressor: Compressor) -> bool:
    """Whether a compressor has operations for tensors of its own, so that its gradient stays on the device.

    >>> from lplab.compression import Lossless, TopK
    >>> has_tensor_steps(TopK()), has_tensor_steps(Lossless())
    (True, False)
    """
    return type(compressor) in TENSOR_STEPS


def on_host(compressor: Compressor, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    """The numpy generator, with copies of the gradient and the state on the host."""
    host = LayerState(state.shape, **state.arrays())
    average = yield from compressor.steps(gradient.cpu().numpy().copy(), host, context)
    state.propose(**{name: as_device_tensor(array, gradient) for name, array in host.proposed().items()})
    return as_device_tensor(average, gradient)


# ---- what the generators share ---------------------------------------------------------------------------------------


def _flat(gradient: Tensor, state: TensorState) -> Tensor:
    """A checked gradient, flat."""
    return ensure_finite(_shaped(gradient, state))


def _shaped(gradient: Tensor, state: TensorState) -> Tensor:
    """A gradient whose shape and dtype are checked, flat."""
    if tuple(gradient.shape) != state.shape:
        raise ValueError(f"the gradient has shape {tuple(gradient.shape)}, its state {state.shape}")
    if gradient.dtype != torch.float32:
        raise ValueError(f"the gradient must be float32, got {str(gradient.dtype).removeprefix('torch.')}")
    return gradient.detach().reshape(-1)


def _corrected(gradient: Tensor, state: TensorState) -> Tensor:
    """The checked sum of a gradient and of the residual, if there is one: a new flat tensor."""
    flat = _shaped(gradient, state)
    if "residual" not in state:
        return ensure_finite(flat).clone()
    return ensure_finite(state["residual"] + flat, CORRECTED)


def _mean(numel: int, device: Any, add: Callable[[Tensor, Tensor], object]) -> Finish:
    """The ``finish`` of an all-gather: the mean of all messages, each of which ``add`` adds to the total."""

    def finish(payloads: Sequence[Any]) -> Tensor:
        total = torch.zeros(numel, device=device)
        for payload in payloads:
            add(total, messages.as_payload(payload, device))
        return divided(total, len(payloads))

    return finish


def _mean_of_dense(numel: int, device: Any, decode: Callable[[Tensor, int], Tensor]) -> Finish:
    return _mean(numel, device, lambda total, payload: total.add_(decode(payload, numel)))


def _mean_of_sparse(numel: int, device: Any, decode: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Finish:
    def add(total: Tensor, payload: Tensor) -> None:
        indices, values = decode(payload)
        total[indices] += values  # no index occurs twice in a message: the order of additions is that of the learners

    return _mean(numel, device, add)


def _mean_at(indices: Tensor, numel: int, world: int, total: Any) -> Tensor:
    average = torch.zeros(numel, device=indices.device)
    average[indices] = divided(torch.as_tensor(total, device=indices.device), world)
    return average


def _random(context: Context, like: Tensor) -> Tensor:
    """The uniform float32 numbers of this learner, which numpy's generator draws on the host."""
    return torch.from_numpy(context.rank_rng().random(like.numel(), np.float32)).to(like.device)


# ---- the algorithms --------------------------------------------------------------------------------------------------


def _dense(compressor: Dense, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    values = messages.round_to_wire(_flat(gradient, state), compressor.wire)
    average = yield AllReduce(values, compressor.wire, lambda total: divided(total, context.world))
    return average.view(gradient.shape)


def _scalecom(compressor: ScaleCom, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    chunk, m, numel, device = compressor._chunk(), compressor.m, gradient.numel(), gradient.device
    flat, residual = _shaped(gradient, state), state["residual"]
    corrected = torch.add(residual, flat, out=flat if context.overwrite else state.blank("residual"))
    ensure_finite(corrected, CORRECTED)
    payload = None
    if context.rank == context.leader:
        payload = messages.encode_scalecom(largest_per_chunk(corrected, chunk, m), chunk)
    decode = partial(messages.decode_scalecom, numel=numel, chunk=chunk, m=m, device=device)
    nbytes = scalecom_wire.size_of(numel, chunk, m)
    indices = yield Broadcast(payload, context.leader, nbytes, decode, device=device)
    selected = corrected[indices]
    sent = messages.round_to_wire(selected, compressor.wire)
    corrected[indices] = 0 if compressor.wire == "fp32" else selected - sent
    if compressor.beta != 1:
        corrected *= float(np.float32(compressor.beta))
        corrected += residual * float(np.float32(1 - compressor.beta))
    state.propose(residual=corrected)
    average = yield AllReduce(sent, compressor.wire, partial(_mean_at, indices, numel, context.world))
    return average.view(gradient.shape)


def _adacomp(compressor: AdaComp, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    bin, numel = compressor._bin(), gradient.numel()
    found = adacomp_select(state["residual"], _flat(gradient, state), compressor, bin, state.blank("residual"))
    ensure_finite(np.array([found.scale]), CORRECTED)
    if compressor.sign_of == "H":
        ensure_finite(found.residual, "the new residual")
    state.propose(residual=found.residual)
    payload = messages.encode_adacomp(found.scale, found.indices, found.negative, numel, bin)
    decode = partial(messages.decode_adacomp, numel=numel, bin=bin)
    average = yield AllGather(payload, _mean_of_sparse(numel, gradient.device, decode))
    return average.view(gradient.shape)


def _send_sparse(indices: Tensor, values: Tensor, wire: str, gradient: Tensor) -> Steps:
    """The all-gather of TopK and DGC."""
    decode = partial(messages.decode_sparse, numel=gradient.numel(), wire=wire)
    payload = messages.encode_sparse(indices, values, wire)
    average = yield AllGather(payload, _mean_of_sparse(gradient.numel(), gradient.device, decode))
    return average.view(gradient.shape)


def _top_k(compressor: TopK, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    corrected = _corrected(gradient, state)
    indices = top_k_indices(corrected, selected_count(compressor.density, corrected.numel()))
    sent = messages.round_to_wire(corrected[indices], compressor.wire)
    if compressor.error_feedback:
        corrected[indices] -= sent
        state.propose(residual=corrected)
    return (yield from _send_sparse(indices, sent, compressor.wire, gradient))


def _random_k(compressor: RandomK, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    corrected, numel = _corrected(gradient, state), gradient.numel()
    k = selected_count(compressor.density, numel)
    drawn = np.sort(context.shared_rng().choice(numel, k, replace=False, shuffle=False))
    indices = as_device_tensor(drawn, gradient)
    values = corrected[indices]
    if not compressor.error_feedback:
        values *= float(np.float32(numel / k))
    sent = messages.round_to_wire(values, compressor.wire)
    if compressor.error_feedback:
        corrected[indices] -= sent
        state.propose(residual=corrected)
    average = yield AllReduce(sent, compressor.wire, partial(_mean_at, indices, numel, context.world))
    return average.view(gradient.shape)


def _dgc(compressor: DGC, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    g, mu = _flat(gradient, state), float(np.float32(compressor.momentum))
    if compressor.clip is not None:
        g = _clipped(compressor, g, context.world)
    u = (state["velocity"] + g) * mu if compressor.nesterov else state["velocity"] * mu + g
    v = state["residual"] + u
    if compressor.nesterov:
        v += g
    ensure_finite(v, "the sum of velocities")
    indices = top_k_indices(v, selected_count(compressor.density_at(context.step), v.numel()))
    sent = messages.round_to_wire(v[indices], compressor.wire)
    v[indices] -= sent
    if compressor.masking:
        u[indices] = 0
    state.propose(velocity=u, residual=v)
    return (yield from _send_sparse(indices, sent, compressor.wire, gradient))


def _clipped(compressor: DGC, g: Tensor, world: int) -> Tensor:
    """The gradient with a norm of at most clip / √learners: by a factor that falls with the sum of squares."""
    assert compressor.clip is not None  # its caller asks
    limit = compressor.clip / np.sqrt(world)

    def factor(total: Any) -> Any:
        norm = np.sqrt(float(total))
        return torch.tensor(1.0 if norm <= limit else np.float32(limit / norm), device=g.device)

    def reference(squares: np.ndarray) -> np.ndarray:
        return factor(np.add.reduce(squares)).cpu().numpy()

    return g * certain_sum(g.double() ** 2, factor, reference)


def _one_bit(compressor: OneBit, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    columns, corrected, numel = signs._columns(gradient.shape), _corrected(gradient, state), gradient.numel()
    negative = corrected < 0
    means = _mean_by_sign(corrected.view(columns, -1), negative.view(columns, -1))
    state.propose(residual=corrected - messages.values_of_signs(means, negative))
    payload = torch.cat([messages.float_bytes(means), messages.pack_signs(negative)])
    decode = partial(messages.decode_columns, columns=columns)
    average = yield AllGather(payload, _mean_of_dense(numel, gradient.device, decode))
    return average.view(gradient.shape)


def _mean_by_sign(values: Tensor, negative: Tensor) -> Tensor:
    means = []
    for sign, side in enumerate((~negative, negative)):
        counts = side.sum(1).clamp(min=1).double()
        finish = lambda total, counts=counts: (total / counts).float()  # noqa: E731
        reference = lambda kept, sign=sign: signs._mean_by_sign(  # noqa: E731
            kept, messages.host(negative)
        )[:, sign]
        means.append(certain_sum(torch.where(side, values, 0), finish, reference))
    return torch.stack(means, dim=1)


def _ef_sign(compressor: EFSign, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    corrected, numel = _corrected(gradient, state), gradient.numel()
    negative = corrected < 0
    scale = certain_sum(
        corrected.abs(),
        lambda total: divided(total, numel).float(),
        lambda array: np.float32(np.add.reduce(array, dtype=np.float64) / numel),
    )
    if compressor.error_feedback:
        state.propose(residual=corrected - torch.where(negative, -scale, scale))
    payload = torch.cat([messages.float_bytes(scale), messages.pack_signs(negative)])
    average = yield AllGather(payload, _mean_of_dense(numel, gradient.device, messages.decode_signs))
    return average.view(gradient.shape)


def _sign_sgd(compressor: SignSGD, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    v, numel, device = _flat(gradient, state), gradient.numel(), gradient.device
    if compressor.momentum:
        kept, new = (float(np.float32(share)) for share in (compressor.momentum, 1 - compressor.momentum))
        v = state["velocity"] * kept + v * new
        state.propose(velocity=v)

    def majority(payloads: Sequence[Any]) -> Tensor:
        votes = [messages.unpack_signs(messages.as_payload(payload, device), numel).long() for payload in payloads]
        vote = torch.sign(len(votes) - 2 * sum(votes)).float()
        return torch.where(vote == 0, 1.0, vote) if compressor.ties == "positive" else vote

    vote = yield AllGather(messages.pack_signs(v < 0), majority)
    return vote.view(gradient.shape)


def _tern_grad(compressor: TernGrad, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    g, numel = _flat(gradient, state), gradient.numel()
    if compressor.clip is not None:
        clip = compressor.clip
        limit = certain_sum(
            g.double() ** 2,
            lambda total: (torch.sqrt(divided(total, numel)) * clip).float(),
            lambda squares: np.float32(clip * np.sqrt(np.mean(squares))),
        )
        g = g.clamp(-limit, limit)
    scale = g.abs().amax()
    symbols = g.sign().to(torch.int8) * (_random(context, g) * scale < g.abs())
    payload = torch.cat([messages.float_bytes(scale), messages.pack_trits(symbols)])
    average = yield AllGather(payload, _mean_of_dense(numel, gradient.device, messages.decode_ternary))
    return average.view(gradient.shape)


def _qsgd(compressor: QSGD, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    g, numel = _flat(gradient, state), gradient.numel()
    squares = torch.nn.functional.pad(g.double() ** 2, (0, -numel % compressor.bucket)).view(-1, compressor.bucket)

    def reference(rows: np.ndarray) -> np.ndarray:
        starts = np.arange(0, numel, compressor.bucket)
        return np.sqrt(np.add.reduceat(rows.reshape(-1)[:numel], starts)).astype(np.float32)

    norms = certain_sum(squares, lambda total: torch.sqrt(total).float(), reference)
    ensure_finite(norms, "the norms of the buckets")
    each = norms.repeat_interleave(compressor.bucket)[:numel]
    ratio = torch.where(each > 0, g.abs() / each, 0) * float(compressor.levels)
    level = torch.floor(ratio + _random(context, g)).clamp(max=compressor.levels).long()
    fields = messages.pack_fields(level << 1 | (g < 0).long(), compressor.width)
    decode = partial(messages.decode_qsgd, settings=compressor)
    payload = torch.cat([messages.float_bytes(norms), fields])
    average = yield AllGather(payload, _mean_of_dense(numel, gradient.device, decode))
    return average.view(gradient.shape)


def _power_sgd(compressor: PowerSGD, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    shape, rank = lowrank._matrix(gradient.shape), compressor._rank(gradient.shape)
    matrix = _corrected(gradient, state).view(shape)
    q = state["q"] if compressor.warm_start else matrix.new_zeros(shape[1], rank)
    if bool((q == 0).all(0).any()):
        q = as_device_tensor(lowrank._without_zero_columns(messages.host(q), context), gradient)
    p = yield AllReduce(_product(matrix, q).reshape(-1))
    # p is as small as the message that brought it; the host's Gram-Schmidt has the same bits on all learners.
    p = as_device_tensor(lowrank.orthonormal(messages.host(p.view(shape[0], rank))), gradient)
    own = _product(matrix.T, p)
    residual = (matrix - _product(p, own.T)).reshape(-1) if compressor.error_feedback else state["residual"]
    if not all_finite(residual):
        own = torch.full_like(own, torch.nan)  # so that the sum tells all learners
    total = yield AllReduce(own.reshape(-1))
    mean = divided(total, context.world).view(shape[1], rank)
    state.propose(residual=residual, q=mean)
    return _product(p, mean.T).view(gradient.shape)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """A matrix product: on CPUs numpy's, on shared memory, because no two libraries have the same bits."""
    return a @ b if a.is_cuda else torch.from_numpy(a.numpy() @ b.numpy())


def _warm_up(compressor: WarmUp, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    current = Dense() if context.step < compressor.dense_steps else compressor.compressor
    return (yield from tensor_steps(current, gradient, state, context))


def _wrapped(compressor: DenseIfSmall, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    return (yield from tensor_steps(compressor.compressor, gradient, state, context))


def _local_momentum(compressor: LocalMomentum, gradient: Tensor, state: TensorState, context: Context) -> Steps:
    u = state["velocity"] * float(np.float32(compressor.momentum)) + _flat(gradient, state)
    average = yield from tensor_steps(compressor.compressor, u.clone().view(gradient.shape), state, context)
    if compressor.clear and "residual" in state:
        u[average.reshape(-1) != 0] = 0
    state.propose(velocity=u)
    return average


TENSOR_STEPS: dict[type[Compressor], Callable[..., Steps]] = {
    Dense: _dense,
    AdaComp: _adacomp,
    ScaleCom: _scalecom,
    TopK: _top_k,
    RandomK: _random_k,
    DGC: _dgc,
    OneBit: _one_bit,
    SignSGD: _sign_sgd,
    EFSign: _ef_sign,
    TernGrad: _tern_grad,
    QSGD: _qsgd,
    PowerSGD: _power_sgd,
    WarmUp: _warm_up,
    DenseIfSmall: _wrapped,
    LocalMomentum: _local_momentum,
}
"""The operations of each compressor on tensors, by its class; classes derived from one run on the host."""
