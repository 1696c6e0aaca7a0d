"""LSTM and GRU step by step, so that every product is rounded: all inputs at once, the hidden states one by one.

Gates are computed in float32, as PyTorch documents them. Packed sequences, several layers, both directions, dropout and
projections work as in ``nn.LSTM`` and ``nn.GRU``. Where a recipe rounds nothing, PyTorch's own fused function computes;
if a watcher is set, the steps are computed in addition, so that it sees them (:func:`with_shadow_steps`).

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lplab.training.emulation.gemms import Linear
from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.quantized_op import QuantizedOp, round_with_ste

State = tuple[Tensor, ...]  # (h,) or (h, c)


def lstm_gates(inputs: Tensor, hidden: Tensor, state: State) -> State:
    """(h, c) from the two products; gates in PyTorch's order: input, forget, cell, output."""
    i, f, g, o = (inputs + hidden).chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_gates(inputs: Tensor, hidden: Tensor, state: State) -> State:
    """(h,) from the two products; gates in PyTorch's order: reset, update, new."""
    (r, z, n), (hr, hz, hn) = inputs.chunk(3, -1), hidden.chunk(3, -1)
    r, z = (r + hr).sigmoid(), (z + hz).sigmoid()
    n = (n + r * hn).tanh()
    return (n + z * (state[0] - n),)


Gates = Callable[[Tensor, Tensor, State], State]


def _weights(emulation: Emulation, tensors: list[Any], has_bias: bool, suffix: str) -> dict[str, Any]:
    """The weights of one layer and direction, each rounded once, with its op and bias."""
    tensors = list(tensors)
    names = ("input", "recurrent")
    biases = tensors[2:4] if has_bias else [None, None]
    projection = tensors[4:] if has_bias else tensors[2:]
    parts = [*zip(names, tensors[:2], biases, strict=True), *(("projection", w, None) for w in projection)]
    parts_by_name = {}
    for name, weight, bias in parts:
        op = emulation.op(f"{name}{suffix}", own=False)
        parts_by_name[name] = (round_with_ste(weight, op, "weight"), bias, op)
    return parts_by_name


def _linear(emulation: Emulation, x: Tensor, part: tuple[Tensor, Tensor | None, QuantizedOp]) -> Tensor:
    weight, bias, op = part
    if op.rules.is_identity and op.watch is None:
        return functional.linear(x, weight, bias)
    return Linear.apply(emulation.clipped(x, op), weight, bias, op, True)


def _one_way(
    emulation: Emulation, x: Tensor, sizes: list[int], state: State, weights: dict, gates: Gates, reverse: bool
) -> tuple[Tensor, State]:
    """One layer in one direction over rows that are grouped by time: ``sizes[t]`` sequences reach time t."""
    steps = list(_linear(emulation, x, weights["input"]).split(sizes))
    outputs: list[Any] = [None] * len(sizes)
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        size = sizes[t]
        active = tuple(part[:size] for part in state)
        new = gates(steps[t], _linear(emulation, active[0], weights["recurrent"]), active)
        if "projection" in weights:
            new = (_linear(emulation, new[0], weights["projection"]), *new[1:])
        outputs[t] = new[0]
        state = tuple(
            part if size == len(old) else torch.cat([part, old[size:]]) for part, old in zip(new, state, strict=True)
        )
    return torch.cat(outputs), state


def _layers(
    emulation: Emulation, x: Tensor, sizes: list[int], state: State, flat: Any, gates: Gates, options: tuple
) -> tuple[Tensor, State]:
    """All layers and directions; ``state`` is [layers · directions, batch, size] as in PyTorch."""
    has_bias, layers, dropout, training, both_ways = options
    ways = 2 if both_ways else 1
    each = len(flat) // (layers * ways)
    last: list[State] = []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            index = layer * ways + way
            suffix = f"_l{layer}{'_reverse' if way else ''}"
            weights = _weights(emulation, flat[index * each : (index + 1) * each], has_bias, suffix)
            start = tuple(part[index] for part in state)
            y, end = _one_way(emulation, x, sizes, start, weights, gates, reverse=way == 1)
            outputs.append(y)
            last.append(end)
        x = torch.cat(outputs, -1) if both_ways else outputs[0]
        if dropout and training and layer + 1 < layers:
            x = functional.dropout(x, dropout)
    return x, tuple(torch.stack(parts) for parts in zip(*last, strict=True))


def _run(emulation: Emulation, func: Any, args: tuple, gates: Gates) -> Any:
    """``torch.lstm`` and ``torch.gru``."""
    if emulation.rules_of(emulation.name, _kinds(emulation)).is_identity:
        return with_shadow_steps(emulation, func, args, {}, lambda *again: _stepwise(emulation, again, gates))
    return _stepwise(emulation, args, gates)


def _stepwise(emulation: Emulation, args: tuple, gates: Gates) -> State:
    """The output and the last states: of rows packed with batch sizes, of [time, batch, size], or batch first."""
    if isinstance(args[3], list | tuple):  # packed
        rows, sizes, state, flat, *options = args
        state = (state,) if isinstance(state, Tensor) else tuple(state)
        y, end = _layers(emulation, rows, sizes.tolist(), state, flat, gates, tuple(options))
        return y, *end
    x, state, flat, *options, batch_first = args
    state = (state,) if isinstance(state, Tensor) else tuple(state)
    x = x.transpose(0, 1) if batch_first else x
    time, batch = x.shape[:2]
    if not time:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")  # as PyTorch says it
    y, end = _layers(
        emulation, x.reshape(time * batch, x.shape[-1]), [batch] * time, state, flat, gates, tuple(options)
    )
    y = y.reshape(time, batch, y.shape[-1])
    return y.transpose(0, 1) if batch_first else y, *end


def _kinds(emulation: Emulation) -> frozenset[str]:
    return emulation.kinds.get(emulation.name, frozenset())


def lstm(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.LSTM``."""
    return _run(emulation, func, args, lstm_gates)


def gru(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.GRU``."""
    return _run(emulation, func, args, gru_gates)


def _cell(emulation: Emulation, args: tuple, state: State, gates: Gates) -> State:
    x, _, *tensors = args
    has_bias = tensors[2:3] != [None] and len(tensors) > 2
    weights = _weights(emulation, tensors[:2] + (tensors[2:] if has_bias else []), has_bias, "")
    return gates(_linear(emulation, x, weights["input"]), _linear(emulation, state[0], weights["recurrent"]), state)


def lstm_cell(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.LSTMCell``."""
    if emulation.rules_of(emulation.name, _kinds(emulation)).is_identity:
        return with_shadow_steps(emulation, func, args, kwargs, lambda *a: _cell(emulation, a, tuple(a[1]), lstm_gates))
    return _cell(emulation, args, tuple(args[1]), lstm_gates)


def gru_cell(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.GRUCell``."""
    if emulation.rules_of(emulation.name, _kinds(emulation)).is_identity:
        return with_shadow_steps(emulation, func, args, kwargs, lambda *a: _cell(emulation, a, (a[1],), gru_gates))
    return _cell(emulation, args, (args[1],), gru_gates)[0]


# ---- watching a fused function ---------------------------------------------------------------------------------------


def with_shadow_steps(emulation: Emulation, func: Any, args: tuple, kwargs: dict, again: Callable[..., State]) -> Any:
    """The result of a fused function, bit for bit; a watcher sees the same computation step by step.

    Args:
        emulation: the one with the watcher.
        func, args, kwargs: the fused function and its arguments.
        again: computes the same from ``args``, in steps; its results do not reach the model.
    """
    if emulation.watch is None:
        return func(*args, **kwargs)
    leaves: list[Tensor] = []
    copies = _leaves(args, leaves)
    with torch.random.fork_rng(devices=[]):  # before the function itself: both draw the same random bits for dropout
        shadow = again(*copies)
    result = func(*args, **kwargs)
    # A cell's h is computed from its c: a view of c receives only the gradient from outside the cell.
    y, *states = (result,) if isinstance(result, Tensor) else result
    outputs = (y, *(state.view_as(state) for state in states))

    def show(gradients: Sequence[Tensor | None]) -> None:
        known = [(y, dy) for y, dy in zip(shadow, gradients, strict=True) if dy is not None]
        with torch.enable_grad():
            ys, dys = zip(*known, strict=True)
            torch.autograd.grad(ys, leaves, dys, retain_graph=True, allow_unused=True)

    if all(output.requires_grad for output in outputs):
        torch.autograd.graph.register_multi_grad_hook(outputs, show)
    return y if isinstance(result, Tensor) else outputs


def _leaves(value: Any, leaves: list[Tensor]) -> Any:
    """Copies of the arguments; ``leaves`` collects the tensors that need gradients."""
    if isinstance(value, list | tuple):
        return type(value)(_leaves(each, leaves) for each in value)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    copy = value.detach()
    if value.requires_grad and torch.is_grad_enabled():
        leaves.append(copy.requires_grad_())
    return copy
