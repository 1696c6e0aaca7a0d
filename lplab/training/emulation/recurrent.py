"""LSTM and GRU step by step, so that every product is rounded: all inputs at once, the hidden states one by one.

Gates are computed in float32, as PyTorch documents them. An LSTM whose sequences are equally long has the steps of a
layer in one node of the graph (:class:`LSTMSequence`), which is faster and gives the same bits. Packed sequences,
several layers, both directions, dropout and projections work as in ``nn.LSTM`` and ``nn.GRU``. Where a recipe rounds
nothing, PyTorch's own fused function computes; if a watcher is set, the steps are computed in addition, so that it sees
them (:func:`with_shadow_steps`).

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from lplab.formats.paths import kernel_selection
from lplab.formats.recorded import is_tracing
from lplab.training.emulation import contraction_gemms, trained_clips
from lplab.training.emulation.gemms import Linear
from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.prepared_rounding import is_plain
from lplab.training.emulation.quantized_op import QuantizedOp, first_derivative, round_with_ste

State = tuple[Tensor, ...]  # (h,) or (h, c)
OPTIONS = ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
CELL = ("input", "hx", "w_ih", "w_hh", "b_ih", "b_hh")
LINE = 64  # bytes: memory that PyTorch allocates begins at multiples of it
FLOATS_IN_LINE = LINE // 4
MIN_ELEMENTS_THAT_PYTORCH_SHARES = 2**15  # at::internal::GRAIN_SIZE: threads cut larger tensors, also within rows


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


class RecurrentProduct(NamedTuple):
    """A product of a recurrent layer; the weight is rounded already, unless each product rounds its own operands."""

    weight: Tensor
    bias: Tensor | None
    op: QuantizedOp


def _products(emulation: Emulation, tensors: list[Any], has_bias: bool, suffix: str) -> dict[str, RecurrentProduct]:
    """The products of one layer and direction by name: input, recurrent and, where there is one, projection."""
    names = ("input", "recurrent")
    biases = tensors[2:4] if has_bias else [None, None]
    projection = tensors[4:] if has_bias else tensors[2:]
    parts = [*zip(names, tensors[:2], biases, strict=True), *(("projection", w, None) for w in projection)]
    products = {}
    for name, weight, bias in parts:
        op = emulation.op(f"{name}{suffix}", own=False)
        rounded = weight if op.rules.rounds_each_product else round_with_ste(weight, op, "weight")
        products[name] = RecurrentProduct(rounded, bias, op)
    return products


def _linear(emulation: Emulation, x: Tensor, product: RecurrentProduct) -> Tensor:
    weight, bias, op = product
    if op.rules.is_identity and op.watch is None:
        return functional.linear(x, weight, bias)
    if op.rules.rounds_each_product:
        return contraction_gemms.linear(emulation.clipped(x, op), weight, bias, op)
    return Linear.apply(emulation.clipped(x, op), weight, bias, op, True)


def _one_way(
    emulation: Emulation,
    x: Tensor,
    sizes: list[int],
    state: State,
    products: dict[str, RecurrentProduct],
    gates: Gates,
    reverse: bool,
) -> tuple[Tensor, State]:
    """One layer in one direction over rows that are grouped by time: ``sizes[t]`` sequences reach time t."""
    inputs = _linear(emulation, x, products["input"])
    order = range(len(sizes))[::-1] if reverse else range(len(sizes))
    is_alone = emulation.watch is None and not is_tracing()  # a watcher, and a trace, need the steps one by one
    in_one_node = is_alone and not products["recurrent"].op.rules.rounds_each_product
    if gates is lstm_gates and in_one_node and "projection" not in products and len(set(sizes)) == 1:
        y, *end = LSTMSequence.apply(inputs, *state, *products["recurrent"], emulation, order)
        return y, tuple(end)
    steps = list(inputs.split(sizes))
    outputs: list[Any] = [None] * len(sizes)
    for t in order:
        size = sizes[t]
        active = tuple(part[:size] for part in state)
        new = gates(steps[t], _linear(emulation, active[0], products["recurrent"]), active)
        if "projection" in products:
            new = (_linear(emulation, new[0], products["projection"]), *new[1:])
        outputs[t] = new[0]
        state = tuple(
            part if size == len(old) else torch.cat([part, old[size:]]) for part, old in zip(new, state, strict=True)
        )
    return torch.cat(outputs), state


class LSTMSequence(torch.autograd.Function):
    """The steps of one layer in one direction, for sequences of equal length: the hidden products and the gates.

    It does what :func:`lstm_gates`, :class:`Linear` and autograd do step by step, with the same operations in the same
    order, so that every bit is the same. Autograd would keep some thirty nodes for each step.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        h: Tensor,
        c: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        op: QuantizedOp,
        emulation: Emulation,
        order: Sequence[int],
    ) -> State:
        """(h of all times [time · batch, size], the last h, the last c).

        Args:
            ctx: of autograd.
            inputs: the products of the inputs [time · batch, 4 · size].
            h, c: the states before the first step [batch, size].
            weight: of the hidden product, rounded [4 · size, size].
            bias: [4 · size].
            op: of the hidden product.
            emulation: of the model.
            order: the times, in the order of the steps.
        """
        time, (batch, size) = len(order), c.shape
        gates = inputs.new_empty(time, batch, 4 * size)
        cells, tanh_cells, hidden = (inputs.new_empty(time, batch, size) for _ in range(3))
        step_of_gates = gates_forward(inputs.view_as(gates), c, gates, cells, tanh_cells, hidden)
        factors, h_of_steps, first_c = [h] * time, hidden.unbind(), c
        memory, rounded_h = _apart(hidden).unbind(), _rounder_of_hidden(emulation, op)
        is_rounded = not op.rules.activation.is_identity
        for t, earlier in zip(order, [None, *order[:-1]], strict=True):
            factors[t] = rounded_h(h, memory[t])
            if op.rules.accumulator is None:
                y = functional.linear(factors[t], weight, bias)
            else:
                y = op.matmul(factors[t], weight.t())
                y = y if bias is None else y + bias
            step_of_gates(t, earlier, op.round("output", y))
            h = h_of_steps[t] if is_rounded else _aligned(h_of_steps[t])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gates, cells, tanh_cells, first_c, weight, *factors)
        ctx.op, ctx.order = op, order
        c = cells[order[-1]]
        return hidden.reshape(time * batch, size).clone(), h.clone(), c.clone()  # the user may change them in place

    @staticmethod
    @first_derivative
    def backward(ctx: Any, dy: Tensor | None, dh: Tensor | None, dc: Tensor | None) -> Any:
        """Gradients of the inputs, of the first states, of the weight and of the bias."""
        gates, cells, tanh_cells, first_c, weight, *factors = ctx.saved_tensors
        op, order, into = ctx.op, ctx.order, (torch.empty_like(gates[0]), torch.empty_like(gates[0]))
        dy, dh, dc = (None if x is None else x.resolve_neg() for x in (dy, dh, dc))
        _, for_h, _, for_weight, for_bias = ctx.needs_input_grad[:5]
        d_gates = torch.empty_like(gates)
        total: dict[str, Tensor] = {}
        step_of_gates = gates_backward(gates, cells, tanh_cells, first_c, d_gates)
        d_steps, rows = d_gates.unbind(), [None] * len(order) if dy is None else dy.view_as(cells).unbind()
        for t, earlier in zip(order[::-1], [*order[-2::-1], None], strict=True):
            if rows[t] is None and dh is None:  # only the last c is used
                dh = torch.zeros_like(first_c)
            dc = step_of_gates(t, earlier, rows[t], dh, dc)
            d_step = _aligned(d_steps[t])
            if for_bias:
                _add(total, "bias", d_step.sum(0))
            dy_dx, dy_dw = op.gradients(d_step, for_h or earlier is not None, for_weight, into)
            dh = None if dy_dx is None else op.round("input_gradient", op.matmul(dy_dx, weight))
            if dy_dw is not None:
                _add(total, "weight", op.round("weight_gradient", op.matmul(dy_dw.t(), factors[t])))
        d_inputs = d_gates.view(-1, d_gates.shape[-1])
        return d_inputs, dh, dc, total.get("weight"), total.get("bias"), None, None, None


def _rounder_of_hidden(emulation: Emulation, op: QuantizedOp) -> Callable[[Tensor, Tensor], Tensor]:
    """The rounding of the factor h, as :func:`_linear` does it: (h, memory that may be used) → rounded."""
    learned = op.rules.activation.learned
    if learned is None:
        return lambda h, memory: op.activation(h, memory)
    if trained_clips.has_clip(op, emulation.module):
        return lambda h, memory: emulation.clipped(h, op)
    rounder = trained_clips.rounder_without_clip(learned.bits)
    return lambda h, memory: op.round_into("activation", h, memory, rounder)


def gates_forward(
    inputs: Tensor, first_c: Tensor, gates: Tensor, cells: Tensor, tanh_cells: Tensor, hidden: Tensor
) -> Callable[[int, int | None, Tensor], None]:
    """The gates of one step; with compiled loops, or in PyTorch's operations with the same bits.

    PyTorch's sigmoid rounds some numbers otherwise at the end of a row than inside it, where it takes many at a time.
    So it is computed in rows of one gate, as in :func:`lstm_gates`: two gates side by side would be one longer row.

    Args:
        inputs: the products of the inputs [time, batch, 4 · size].
        first_c: before the first step [batch, size].
        gates: receives the gates after their functions [time, batch, 4 · size].
        cells, tanh_cells, hidden: receive c, tanh(c) and h of all times [time, batch, size].

    Returns:
        A function of the time, the time before (None for ``first_c``) and the product of the h before.
    """
    if _has_loops("lstm gates, forward", inputs, first_c, gates):
        from lplab.training.emulation.lstm_loops import add_loop, cell_loop, output_loop

        add, cell, output, (batch, size) = add_loop(), cell_loop(), output_loop(), first_c.shape
        # one step at a time: views of all steps would cost more than copies
        rows = size // FLOATS_IN_LINE * FLOATS_IN_LINE + FLOATS_IN_LINE  # with a gap after each row
        work, (new_c, tanh_c) = gates.new_empty(4, batch, rows), gates.new_empty(2, batch, size).unbind()
        i, f, o, g = work[..., :size].unbind()
        sigmoids = (work[:3, :, :size],) if 3 * first_c.numel() < MIN_ELEMENTS_THAT_PYTORCH_SHARES else (i, f, o)
        step_bytes = first_c.element_size() * first_c.numel()
        inputs_at, first_c_at, gates_at, c_at = (x.data_ptr() for x in (inputs, first_c, gates, cells))
        all_tanh_at, h_at = tanh_cells.data_ptr(), hidden.data_ptr()
        work_at, new_c_at, tanh_at = (x.data_ptr() for x in (work, new_c, tanh_c))

        def in_loops(t: int, earlier: int | None, y: Tensor) -> None:
            y, at = y.contiguous(), t * step_bytes
            add(inputs_at + 4 * at, y.data_ptr(), work_at, batch, size, rows)
            for part in sigmoids:
                part.sigmoid_()
            g.tanh_()
            before = first_c_at if earlier is None else c_at + earlier * step_bytes
            cell(work_at, before, gates_at + 4 * at, c_at + at, new_c_at, batch, size, rows)
            torch.tanh(new_c, out=tanh_c)
            output(work_at, tanh_at, all_tanh_at + at, h_at + at, batch, size, rows)

        return in_loops

    views, product = _by_time(inputs, gates, *_split(gates), cells, tanh_cells, hidden), torch.empty_like(cells[0])

    def by_operations(t: int, earlier: int | None, y: Tensor) -> None:
        row, step, i, f, g, o, _, new_c, tanh_c, new_h = views[t]
        torch.add(row, y, out=step)
        i.sigmoid_()
        f.sigmoid_()
        g.tanh_()
        o.sigmoid_()
        c = first_c if earlier is None else cells[earlier]
        torch.mul(f, c, out=new_c).add_(torch.mul(i, g, out=product))
        torch.mul(o, torch.tanh(new_c, out=tanh_c), out=new_h)

    return by_operations


def gates_backward(
    gates: Tensor, cells: Tensor, tanh_cells: Tensor, first_c: Tensor, d_gates: Tensor
) -> Callable[[int, int | None, Tensor | None, Tensor | None, Tensor | None], Tensor]:
    """The backward pass of the gates of one step; compiled, or in PyTorch's operations with the same bits.

    Args:
        gates: after their functions [time, batch, 4 · size].
        cells, tanh_cells: c and tanh(c) of all times [time, batch, size].
        first_c: before the first step [batch, size].
        d_gates: receives the gradients of the gates before their functions.

    Returns:
        A function of the time, the time before (None for ``first_c``), the gradient of h from the output, that of h
        from the step after, and that of c from the step after; one of the first two, and the third, may be None. It
        returns the gradient of the c before, which holds until the next but one call.
    """
    sigmoid_backward, tanh_backward = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
    if _has_loops("lstm gates", gates, cells, tanh_cells, first_c):
        from lplab.training.emulation.lstm_loops import gates_backward_loop

        loop, (batch, size) = gates_backward_loop(), first_c.shape
        ones = torch.ones_like(tanh_cells)
        slopes = tanh_backward(ones, tanh_cells), tanh_backward(ones, _split(gates)[2])  # 1 − y², as PyTorch rounds it
        step_bytes = first_c.element_size() * first_c.numel()
        gates_at, c_at, tanh_at, d_at = (x.data_ptr() for x in (gates, cells, tanh_cells, d_gates))
        first_c_at, slope_at, g_slope_at = (x.data_ptr() for x in (first_c, *slopes))
        results = [torch.empty_like(first_c), torch.empty_like(first_c)]

        def in_one_loop(
            t: int, earlier: int | None, row: Tensor | None, dh: Tensor | None, dc: Tensor | None
        ) -> Tensor:
            row_at = 0 if row is None else (row := row.contiguous()).data_ptr()
            dh_at = 0 if dh is None else (dh := dh.contiguous()).data_ptr()
            dc_at = 0 if dc is None else (dc := dc.contiguous()).data_ptr()
            at, new_dc = t * step_bytes, results[0]
            before = first_c_at if earlier is None else c_at + earlier * step_bytes
            places = gates_at + 4 * at, tanh_at + at, slope_at + at, g_slope_at + at, before, d_at + 4 * at
            loop(row_at, dh_at, dc_at, *places, new_dc.data_ptr(), batch, size)
            results.reverse()
            return new_dc

        in_one_loop.slopes = slopes  # type: ignore[attr-defined]  # keeps the addresses valid
        return in_one_loop

    views = _by_time(*_split(gates), tanh_cells, *_split(d_gates))

    def by_operations(t: int, earlier: int | None, row: Tensor | None, dh: Tensor | None, dc: Tensor | None) -> Tensor:
        i, f, g, o, i_f, tanh_c, d_i, d_f, d_g, d_o, d_i_f = views[t]
        both: Any = row if dh is None else dh if row is None else dh + row
        new_dc = tanh_backward(both * o, tanh_c)
        torch.mul(both, tanh_c, out=d_o)
        dc = new_dc if dc is None else new_dc.add_(dc)
        torch.mul(dc, g, out=d_i)
        torch.mul(dc, first_c if earlier is None else cells[earlier], out=d_f)
        torch.mul(dc, i, out=d_g)
        sigmoid_backward.grad_input(d_i_f, i_f, grad_input=d_i_f)
        tanh_backward.grad_input(d_g, g, grad_input=d_g)
        sigmoid_backward.grad_input(d_o, o, grad_input=d_o)
        return dc * f

    return by_operations


def _apart(x: Tensor) -> Tensor:
    """Memory like x [time, batch, size], in which each time begins where a tensor of its own would; see _aligned."""
    _, batch, size = x.shape
    lines = -(-batch * size // FLOATS_IN_LINE)
    return torch.empty_strided(x.shape, (lines * FLOATS_IN_LINE, size, 1), dtype=x.dtype, device=x.device)


def _aligned(x: Tensor) -> Tensor:
    """A factor of a product where PyTorch would have put a tensor of its own.

    The last bits of PyTorch's products depend on where in memory a factor begins: its libraries sum in another order
    where that is no multiple of 16 bytes. PyTorch's own tensors begin at multiples of 64.
    """
    return x if x.data_ptr() % LINE == 0 else x.clone()


def _has_loops(name: str, *sources: Tensor) -> bool:
    """Whether compiled loops serve these tensors, and are worth loading for the size of the first."""
    fits = all(is_plain(x) and x.numel() > 0 for x in sources)
    return fits and kernel_selection.available() and kernel_selection.loading_pays_off(name, sources[0].numel())


def _split(gates: Tensor) -> tuple[Tensor, ...]:
    """The four gates [..., 4 · size] one by one, and the first two together."""
    size = gates.shape[-1] // 4
    return *gates.split(size, -1), gates[..., : 2 * size]


def _by_time(*tensors: Tensor) -> list[tuple[Tensor, ...]]:
    """For each time its parts of all tensors [time, ...]."""
    return list(zip(*(tensor.unbind() for tensor in tensors), strict=True))


def _add(total: dict[str, Tensor], name: str, part: Tensor) -> None:
    """Add in place."""
    total[name] = total[name].add_(part) if name in total else part


def _layers(
    emulation: Emulation, x: Tensor, sizes: list[int], state: State, flat: Any, gates: Gates, options: tuple
) -> tuple[Tensor, State]:
    """All layers and directions; ``state`` is [layers · directions, batch, size] as in PyTorch."""
    has_bias, layers, dropout, training, both_ways = options
    ways = 2 if both_ways else 1
    count = len(flat) // (layers * ways)  # tensors of a layer and direction
    last: list[State] = []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            index = layer * ways + way
            suffix = f"_l{layer}{'_reverse' if way else ''}"
            products = _products(emulation, flat[index * count : (index + 1) * count], has_bias, suffix)
            start = tuple(part[index] for part in state)
            y, end = _one_way(emulation, x, sizes, start, products, gates, reverse=way == 1)
            outputs.append(y)
            last.append(end)
        x = torch.cat(outputs, -1) if both_ways else outputs[0]
        if dropout and training and layer + 1 < layers:
            x = functional.dropout(x, dropout)
    return x, tuple(torch.stack(parts) for parts in zip(*last, strict=True))


def _run(emulation: Emulation, func: Any, args: tuple, kwargs: dict, gates: Gates) -> Any:
    """``torch.lstm`` and ``torch.gru``."""
    is_packed = "batch_sizes" in kwargs or (len(args) > 1 and torch.is_tensor(args[1]) and args[1].dtype == torch.int64)
    names = (("data", "batch_sizes") if is_packed else ("input",)) + OPTIONS + (() if is_packed else ("batch_first",))
    args = _by_position(names, args, kwargs)
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
    return _run(emulation, func, args, kwargs, lstm_gates)


def gru(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.GRU``."""
    return _run(emulation, func, args, kwargs, gru_gates)


def _by_position(names: tuple[str, ...], args: tuple, kwargs: dict) -> tuple:
    """All arguments by position, of which some were given by name; those at the end may be missing."""
    return *args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)


def _cell(emulation: Emulation, args: tuple, state: State, gates: Gates) -> State:
    x, _, *tensors = args
    products = _products(emulation, [*tensors, None, None][:4], True, "")
    return gates(_linear(emulation, x, products["input"]), _linear(emulation, state[0], products["recurrent"]), state)


def lstm_cell(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.LSTMCell``."""
    args, kwargs = _by_position(CELL, args, kwargs), {}
    if emulation.rules_of(emulation.name, _kinds(emulation)).is_identity:
        return with_shadow_steps(emulation, func, args, kwargs, lambda *a: _cell(emulation, a, tuple(a[1]), lstm_gates))
    return _cell(emulation, args, tuple(args[1]), lstm_gates)


def gru_cell(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.GRUCell``."""
    args, kwargs = _by_position(CELL, args, kwargs), {}
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
        used = [(y, dy) for y, dy in zip(shadow, gradients, strict=True) if dy is not None]
        with torch.enable_grad():
            ys, dys = zip(*used, strict=True)
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
