"""The table of handlers: how each function of PyTorch is computed under a recipe.

A handler takes the emulation, the function and its arguments. ``nn.Linear`` and ``functional.linear``, or ``a @ b`` and
``torch.matmul``, have the same handler. Where the rules round nothing, the handler calls the function itself, so that
float32 is bit for bit what PyTorch computes.

This module needs PyTorch.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops import flex_attention
from torch.nn import functional

from lplab.formats.torch_privates import set_tracing_state, tracing_state
from lplab.training.emulation import contraction_gemms
from lplab.training.emulation.argument_checks import LEFT_TO_PYTORCH, check_arguments, written_into
from lplab.training.emulation.attention import attention
from lplab.training.emulation.convolutions import convolutions
from lplab.training.emulation.gemms import Bilinear, Linear, as_matrix_stack, as_rows, factor_roles
from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.observed_ops import call_observed
from lplab.training.emulation.quantized_op import PRODUCT, QuantizedOp, round_with_ste, rounded_gradient
from lplab.training.emulation.recurrent import gru, gru_cell, lstm, lstm_cell

Handler = Callable[[Emulation, Any, tuple, dict], Any]


def linear(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``functional.linear``, that is ``nn.Linear`` too."""
    x, weight, bias = _linear_arguments(*args, **kwargs)
    op = emulation.op("linear")
    if op.rules.is_identity:
        return call_observed(op, func, args, kwargs, ("activation", x), ("weight", weight))
    if weight.ndim == 1 or (bias is not None and bias.ndim != 1):
        return _linear_of_rows(emulation, op, x, weight, bias)
    return _linear(emulation, op, x, weight, bias)


def _linear(emulation: Emulation, op: QuantizedOp, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if op.rules.rounds_each_product:
        return contraction_gemms.linear(emulation.clipped(x, op), weight, bias, op)
    return Linear.apply(emulation.clipped(x, op), weight, bias, op)


def _linear_of_rows(emulation: Emulation, op: QuantizedOp, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The layer with a weight of one axis, whose result has no last axis, or a bias for each row."""
    matrix, rows = weight if weight.ndim == 2 else weight[None], as_rows(x)
    shape, size = (*x.shape[:-1], *weight.shape[:-1]), (rows.shape[0], matrix.shape[0])
    if bias is not None:  # PyTorch adds it to the result, or to the rows of all batches
        bias = bias.expand(size) if bias.ndim > len(shape) else bias.expand(shape).reshape(size)
    return _linear(emulation, op, rows, matrix, bias).reshape(shape)


def _linear_arguments(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple:
    return input, weight, bias


def matmul(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``a @ b`` and all its spellings; vectors and broadcasting as in PyTorch."""
    a, b = _two(*args, **kwargs)
    op, left = _product_op(emulation, "matmul", a, b)
    if op.rules.is_identity:
        return call_observed(op, func, args, kwargs, *_roles(op, a, b, left))
    return _rounded_product(emulation, op, left, *_in_dtype(args, kwargs, a, b))


def _rounded_product(emulation: Emulation, op: QuantizedOp, left: bool, a: Tensor, b: Tensor) -> Tensor:
    rows, columns = a.ndim == 1, b.ndim == 1
    a, b = (a[None] if rows else a), (b[:, None] if columns else b)
    if op.rules.activation.learned is not None:
        a, b = as_matrix_stack(a), as_matrix_stack(b)  # one copy of a view here, instead of one in each pass over it
    y = contraction_gemms.product(*_clipped(emulation, op, a, b, left), op, left)
    y = y.squeeze(-1) if columns else y
    return y.squeeze(-1 if columns else -2) if rows else y


def _two(*tensors: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The two factors, given by position or by keyword."""
    names = ("self", "input", "other", "mat2", "tensor", "vec")
    factors = (*tensors, *(kwargs[name] for name in names if name in kwargs))
    return factors[0], factors[1]


def _in_dtype(args: tuple, kwargs: dict, *factors: Tensor) -> tuple[Tensor, ...]:
    """The factors of a product in its ``out_dtype``, where the call has one."""
    dtypes = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype)]
    return tuple(x.to(dtypes[0]) for x in factors) if dtypes else factors


def rmatmul(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``a @ b``, called as a method of b."""
    return matmul(emulation, torch.matmul, (args[1], args[0]), {})


def _product_op(emulation: Emulation, op_kind: str, a: Tensor, b: Tensor) -> tuple[QuantizedOp, bool]:
    """The op of a product, and whether the weight (if there is one) is the left factor."""
    lineage = emulation.thread.modes[-1].lineage
    left, right = lineage.is_weight(a), lineage.is_weight(b)
    if left or right:
        if lineage.is_static(a) and lineage.is_static(b):  # it computes a weight, as a spectral norm does
            return emulation.op("weight", own=False), left and not right
        return emulation.op(op_kind), left and not right
    return emulation.op(op_kind, PRODUCT, own=False), False


def _roles(op: QuantizedOp, a: Tensor, b: Tensor, weight_left: bool) -> tuple[tuple[str, Tensor], tuple[str, Tensor]]:
    """Both factors with their roles, in the order of the call."""
    left, right = factor_roles(op, weight_left)
    return (left.forward, a), (right.forward, b)


def _clipped(emulation: Emulation, op: QuantizedOp, a: Tensor, b: Tensor, weight_left: bool) -> tuple[Tensor, Tensor]:
    """Both factors; activations are rounded under the trained clip, where there is one."""
    if op.rules.activation.learned is None:
        return a, b
    factors = _roles(op, a, b, weight_left)
    a, b = (x if role == "weight" else emulation.clipped(x, op) for role, x in factors)
    return a, b


def addmm(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """β·c + α·(a @ b): ``addmm``, ``addmv``, ``baddbmm``; of two vectors β·c + α·(a · bᵀ): ``addr``."""
    beta, c, alpha, a, b = _sum_arguments(args, kwargs)
    op, left = _product_op(emulation, "matmul", a, b)
    if op.rules.is_identity:
        return call_observed(op, func, args, kwargs, *_roles(op, a, b, left))
    a, b = _in_dtype(args, kwargs, a, b)
    if a.ndim == b.ndim == 1:
        dtype = torch.result_type(c, a.new_empty(1, dtype=torch.promote_types(a.dtype, b.dtype)))
        a, b = a.to(dtype)[:, None], b.to(dtype)[None]
    y = _rounded_product(emulation, op, left, a, b)
    y = y if alpha == 1 else y * alpha
    if beta == 0:  # c is not read, though it gets a gradient of zeros; y + -0.0 is y
        return y + c.masked_fill(c.new_ones((), dtype=torch.bool), -0.0) if c.requires_grad else y
    return y + (c if beta == 1 else c * beta)


def _sum_arguments(args: tuple, kwargs: dict) -> tuple[Any, Tensor, Any, Tensor, Tensor]:
    """(β, c, α, a, b), by position or by keyword; in PyTorch's old order, β and α are among the tensors."""
    names = ("input", "self", "mat1", "batch1", "mat", "vec1", "mat2", "batch2", "vec", "vec2")
    c, a, b = (*(x for x in args if isinstance(x, Tensor)), *(kwargs[name] for name in names if name in kwargs))
    numbers = [x for x in args if not isinstance(x, Tensor | torch.dtype)]
    beta, alpha, *_ = *numbers, *(kwargs.get(name, 1) for name in ("beta", "alpha")[len(numbers) :])
    return beta, c, alpha, a, b


def matrix_power(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.matrix_power``: the products by squaring that PyTorch computes; each is rounded."""
    x, exponent = (*args, *(kwargs[name] for name in ("input", "self", "A", "n") if name in kwargs))
    if abs(exponent) < 2 or x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        return func(*args, **kwargs)  # no product, or PyTorch's error
    square = torch.linalg.inv(x) if exponent < 0 else x

    def times(a: Tensor, b: Tensor) -> Tensor:
        return matmul(emulation, torch.matmul, (a, b), {})

    if abs(exponent) == 3:
        return times(times(square, square), square)
    bits, power = abs(exponent), None
    while bits:
        if bits % 2:
            power = square if power is None else times(power, square)
        bits //= 2
        square = times(square, square) if bits else square
    return power


class Einsum:
    """An einsum of two tensors as a function of them."""

    def __init__(self, equation: str) -> None:
        self.equation = equation
        self.label = f"einsum {equation!r}"

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Compute it."""
        return torch.einsum(self.equation, a, b)

    def __repr__(self) -> str:  # torch.jit.trace compares two traces by their text
        return f"Einsum({self.equation!r})"


def einsum(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.einsum`` of two tensors; with one tensor there is no product."""
    equation, *tensors = args
    tensors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    if len(tensors) < 2:
        return func(*args, **kwargs)
    if len(tensors) > 2 or not isinstance(equation, str):
        refuse = Unsupported(f"an einsum of {len(tensors)} tensors", "write it as products of two")
        return refuse(emulation, func, args, kwargs)
    return bilinear(emulation, Einsum(equation), func, (*args,), kwargs, *tensors)


def inner(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.inner``: sums over the last axis of both."""
    a, b = _two(*args, **kwargs)
    if not (a.ndim and b.ndim):
        return func(*args, **kwargs)
    return bilinear(emulation, Tensordot(([-1], [-1])), func, args, kwargs, a, b)


class Tensordot:
    """A tensordot as a function of its two tensors."""

    label = "tensordot"

    def __init__(self, dims: Any) -> None:
        self.dims = dims

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Compute it."""
        return torch.tensordot(a, b, dims=self.dims)

    def __repr__(self) -> str:
        return f"Tensordot({self.dims!r})"


def tensordot(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.tensordot``."""
    a, b, *rest = args
    return bilinear(emulation, Tensordot(kwargs.get("dims", rest[0] if rest else 2)), func, args, kwargs, a, b)


def bilinear(emulation: Emulation, compute: Any, func: Any, args: tuple, kwargs: dict, a: Tensor, b: Tensor) -> Tensor:
    """A product of two tensors in any notation."""
    op, left = _product_op(emulation, "einsum", a, b)
    if op.rules.is_identity:
        return call_observed(op, func, args, kwargs, *_roles(op, a, b, left))
    if op.rules.rounds_each_product:
        is_einsum = isinstance(compute, Einsum)
        equation = compute.equation if is_einsum else contraction_gemms.tensordot_equation(a, b, compute.dims)
        return contraction_gemms.einsum(equation, *_clipped(emulation, op, a, b, left), op, left)
    return Bilinear.apply(*_clipped(emulation, op, a, b, left), op, left, compute)


def embedding(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """A lookup: the table (or, without a scale, the vectors that were looked up) and its gradient are rounded."""
    ids, table, *rest = (*args, *(kwargs.pop(name) for name in ("input", "weight") if name in kwargs))
    if not table.is_floating_point():
        return func(ids, table, *rest, **kwargs)
    op = emulation.op("embedding", frozenset({"embedding"}))
    if op.rules.is_identity:
        return call_observed(op, func, (ids, table, *rest), kwargs, ("weight", table), is_product=False)
    if kwargs.get("sparse") or (len(rest) > 4 and rest[4]):
        raise NotImplementedError(f"{emulation.location}: sparse gradients cannot be rounded; pass sparse=False")
    if not op.rules.weight_gradient.is_identity:
        table = rounded_gradient(table.view_as(table), op, "weight_gradient")
    needs_whole_table = op.rules.weight.scaling is not None or op.rules.weight.quantizer is not None
    if needs_whole_table:
        return _with_gradient(func(ids, round_with_ste(table, op, "weight"), *rest, **kwargs), op)
    return _with_gradient(round_with_ste(func(ids, table, *rest, **kwargs), op, "weight"), op)


def _with_gradient(y: Tensor, op: QuantizedOp) -> Tensor:
    """y rounded as an output; its gradient is rounded in the backward pass, where a rule says so."""
    if not op.rules.output.is_identity:
        y = round_with_ste(y, op, "output")
    for role in ("output_gradient_dw", "output_gradient_dx"):
        if not getattr(op.rules, role).is_identity:
            return rounded_gradient(y, op, role)
    return y


def normalization(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """Batch, layer, group, instance and RMS normalization: computed in float32, the result rounded."""
    op = emulation.op("normalization", frozenset({"normalization"}))
    y = func(*args, **kwargs)
    return y if op.rules.is_identity else _with_gradient(y, op)


def multi_head_attention(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.MultiheadAttention``: a copy of PyTorch's function, with the mode on for the products inside."""
    with emulation.thread.modes[-1].nested():
        return _ATTENTION_WITHOUT_CHECK(*args, **kwargs)


def _without_torch_function_check(function: Any) -> Any:
    """A copy of a function of PyTorch, with the ``__torch_function__`` check disabled."""
    scope = {**function.__globals__, "has_torch_function": lambda *_: False}
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


_ATTENTION_WITHOUT_CHECK = _without_torch_function_check(functional.multi_head_attention_forward)


@dataclass(frozen=True)
class Unsupported:
    """A handler for a function without a quantized form: it raises, unless the recipe rounds nothing."""

    what: str
    advice: str

    def __call__(self, emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
        """Call the function where nothing is rounded."""
        if emulation.rules_of(emulation.name, frozenset()).is_identity:
            return func(*args, **kwargs)
        raise NotImplementedError(f"{emulation.location}: {self.what} has no quantized form; {self.advice}")


def checked(handler: Handler, emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """Call the handler of a function, after PyTorch's own checks, and write its result into ``out=``.

    Integers and complex numbers are not rounded; PyTorch computes with them.
    """
    if emulation.is_identity and emulation.watch is None:
        if "out" in kwargs:
            return func(*args, **kwargs)
        try:
            return handler(emulation, func, args, kwargs)
        except (AttributeError, LookupError, TypeError, ValueError):  # a handler cannot read arguments of another kind
            return func(*args, **kwargs)
    if "out" in kwargs:
        kwargs = dict(kwargs)
        out = kwargs.pop("out")
        y = checked(handler, emulation, func, args, kwargs)
        return y if out is None else written_into(out, y, func, args, kwargs)
    what = _checked_once(func, args, kwargs)
    if what is LEFT_TO_PYTORCH:
        return func(*args, **kwargs)
    if what:
        handler = without_plain_tensors(what)
    return handler(emulation, func, args, kwargs)


MAX_CALLS = 10_000
_known_calls: dict[Any, str] = {}
"""What :func:`check_arguments` returned, by the function, its shapes, dtypes and other arguments."""


def _checked_once(func: Any, args: tuple, kwargs: dict) -> str:
    """What :func:`check_arguments` returns; PyTorch computes calls that are alike once."""
    state = tracing_state()
    if state is not None:  # a trace would record the sizes that are read here, and PyTorch's own computation
        set_tracing_state(None)
        try:
            return _checked_once(func, args, kwargs)
        finally:
            set_tracing_state(state)
    try:
        key = (func, *[_description(value) for value in args])
        if kwargs:
            key = *key, *kwargs, *[_description(value) for value in kwargs.values()]
        what = _known_calls.get(key)
    except (RuntimeError, TypeError):  # a nested tensor has no shape; some arguments have no hash
        return check_arguments(func, args, kwargs)
    if what is None:
        what = check_arguments(func, args, kwargs)
        if len(_known_calls) >= MAX_CALLS:
            _known_calls.clear()
        _known_calls[key] = what
    return what


def _description(value: Any) -> Any:
    """What PyTorch's checks of an argument depend on."""
    if isinstance(value, Tensor):
        return type(value), value.shape, value.dtype, value.layout
    if isinstance(value, list | tuple):
        return type(value), *map(_description, value)
    return type(value), value


def is_checked(handler: Handler) -> bool:
    """Whether a handler of the table computes its function in another way, after :func:`checked`."""
    return isinstance(handler, partial)


def without_plain_tensors(what: str) -> Handler:
    """The handler of a product with a tensor whose numbers cannot be rounded."""
    return Unsupported(f"a product with {what}", f"pass a plain, dense tensor, or {SKIP}")


def cdist(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.cdist``: PyTorch computes Euclidean distances of many rows by a product, others without one."""
    norm = kwargs.get("p", args[2] if len(args) > 2 else 2.0)
    mode = kwargs.get("compute_mode", args[3] if len(args) > 3 else None)
    if norm != 2 or mode == "donot_use_mm_for_euclid_dist":
        return func(*args, **kwargs)
    return EUCLIDEAN_DISTANCE(emulation, func, args, kwargs)


SKIP = "name the module in skip=[…] to leave it in float32"
SPARSE = Unsupported("a product with a sparse matrix", f"make it dense, or {SKIP}")

PYTORCH_COMPUTES = (embedding, normalization, multi_head_attention, cdist)
"""The handlers that call their function themselves, so that it checks its arguments."""

ALIKE = ("default", "input", "padding")
"""Overloads of operators that take their arguments as the function of PyTorch does."""
EUCLIDEAN_DISTANCE = Unsupported(
    "torch.cdist with p=2", f"pass compute_mode='donot_use_mm_for_euclid_dist', which needs no product, or {SKIP}"
)


def _table() -> dict[Any, Handler]:
    tensor = torch.Tensor
    products = (torch.matmul, torch.mm, torch.bmm, torch.mv, torch.dot, torch.vdot, torch.linalg.matmul)
    methods = (tensor.matmul, tensor.mm, tensor.bmm, tensor.mv, tensor.dot, tensor.vdot, tensor.__matmul__)
    sums = (torch.addmm, torch.baddbmm, torch.addmv, torch.addr)
    sum_methods = (tensor.addmm, tensor.baddbmm, tensor.addmv, tensor.addr)
    normalizations = ("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm")
    in_place = (tensor.addmm_, tensor.addmv_, tensor.baddbmm_, tensor.addbmm_, tensor.addr_)
    moments = (torch.cov, tensor.cov, torch.corrcoef, tensor.corrcoef)
    handlers: dict[Any, Handler] = {
        functional.linear: linear,
        **dict.fromkeys((*products, *methods), matmul),
        tensor.__rmatmul__: rmatmul,
        **dict.fromkeys((*sums, *sum_methods), addmm),
        **dict.fromkeys((torch.matrix_power, tensor.matrix_power, torch.linalg.matrix_power), matrix_power),
        torch.einsum: einsum,
        torch.tensordot: tensordot,
        **dict.fromkeys((torch.inner, tensor.inner), inner),
        functional.embedding: embedding,
        functional.scaled_dot_product_attention: attention,
        functional.multi_head_attention_forward: multi_head_attention,
        flex_attention: Unsupported("flex_attention", "use functional.scaled_dot_product_attention with a mask"),
        **{getattr(functional, name): normalization for name in normalizations},
        **convolutions(),
        torch.lstm: lstm,
        torch.gru: gru,
        torch.lstm_cell: lstm_cell,
        torch.gru_cell: gru_cell,
        **dict.fromkeys(
            (torch.rnn_tanh, torch.rnn_relu, torch.rnn_tanh_cell, torch.rnn_relu_cell),
            Unsupported("a plain recurrent net (nn.RNN)", f"use nn.GRU or nn.LSTM, or {SKIP}"),
        ),
        functional.bilinear: Unsupported(
            "functional.bilinear", f"write it with torch.einsum, two tensors at a time, or {SKIP}"
        ),
        functional.embedding_bag: Unsupported("an embedding bag", f"use nn.Embedding and a sum, or {SKIP}"),
        torch.chain_matmul: Unsupported("torch.chain_matmul", "write it with @"),
        torch.linalg.multi_dot: Unsupported("torch.linalg.multi_dot", "write it with @"),
        **dict.fromkeys((torch.addbmm, tensor.addbmm), Unsupported("torch.addbmm", "write it with torch.bmm and sum")),
        **dict.fromkeys(in_place, Unsupported("a product that is added in place", "use torch.addmm, addmv or baddbmm")),
        torch.linalg.vecdot: Unsupported("torch.linalg.vecdot", "write it with torch.einsum"),
        torch.convolution: Unsupported("torch.convolution", "use functional.conv1d, conv2d or conv3d"),
        **dict.fromkeys((torch.sparse.mm, torch.smm, torch.hspmm, torch.sspaddmm), SPARSE),
        torch.cdist: cdist,
        **dict.fromkeys(moments, Unsupported("a covariance", f"write it with @ and the means, or {SKIP}")),
        functional.linear_cross_entropy: Unsupported(
            "functional.linear_cross_entropy", "use functional.linear and functional.cross_entropy"
        ),
        torch._trilinear: Unsupported("torch._trilinear", "write it with torch.einsum, two tensors at a time"),
    }
    handlers = {
        function: handler
        if handler in PYTORCH_COMPUTES or isinstance(handler, Unsupported)
        else partial(checked, handler)
        for function, handler in handlers.items()
    }
    return handlers | _operators(handlers)


def _operators(handlers: dict[Any, Handler]) -> dict[Any, Handler]:
    """The handlers of operators that are called by name: ``torch.ops.aten.mm`` and ``torch.ops.aten.mm.default``."""
    functions = {
        name: getattr(torch, name)
        for name in (
            *("mm", "bmm", "mv", "dot", "vdot", "matmul", "inner", "einsum", "addmm", "baddbmm", "addmv", "addbmm"),
            *("addr", "matrix_power", "conv_tbc", "conv1d", "conv2d", "conv3d", "convolution", "cov", "corrcoef"),
            *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "_trilinear"),
        )
    }
    functions |= {name: getattr(torch.Tensor, name) for name in ("addmm_", "addmv_", "baddbmm_", "addbmm_", "addr_")}
    functions |= {"linear": functional.linear, "bilinear": functional.bilinear}
    functions |= {"scaled_dot_product_attention": functional.scaled_dot_product_attention}
    operators: dict[Any, Handler] = {}
    for name, function in functions.items():
        operator = getattr(torch.ops.aten, name)
        overloads = (getattr(operator, overload) for overload in operator.overloads() if overload in ALIKE)
        operators |= dict.fromkeys((operator, *overloads), handlers[function])
    return operators


HANDLERS: dict[Any, Handler] = _table()
WITHOUT_PLACES: frozenset[Handler] = frozenset(
    handler
    for handler in HANDLERS.values()
    if isinstance(handler, partial)
    and handler.args[0] in (matmul, rmatmul, addmm, matrix_power, einsum, inner, tensordot)
)
"""The products that have no place of their own for a weight; see :mod:`lplab.training.emulation.weight_lineage`."""
