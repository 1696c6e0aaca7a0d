"""Which functions of PyTorch are computed under a recipe, and how: the table that :class:`Eye` looks up.

A handler takes the emulation, the function and its arguments. ``nn.Linear`` and ``functional.linear``, ``a @ b`` and
``torch.matmul`` come to the same one. Where the rules of a place change nothing, the function itself is called, so that
float32 stays bit for bit what PyTorch computes.

This module needs PyTorch.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lplab.training.attention import attention
from lplab.training.emulation import Emulation, Eye
from lplab.training.gemms import Bilinear, Linear, Product, stacked
from lplab.training.site import Site, operand, rounded_gradient
from lplab.training.untouched import plain

PRODUCT = frozenset({"product"})
Handler = Callable[[Emulation, Any, tuple, dict], Any]


def is_weight(x: Tensor) -> bool:
    """Whether a tensor is a parameter or a view of one, such as its transpose."""
    base = x._base if x._base is not None else x
    return isinstance(base, nn.Parameter)


def linear(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``functional.linear``, that is ``nn.Linear`` too."""
    x, weight, bias = _linear_arguments(*args, **kwargs)
    site = emulation.site("linear")
    if site.rules.is_identity:
        return plain(site, func, args, kwargs, ("activation", x), ("weight", weight))
    return Linear.apply(emulation.clipped(x, site), weight, bias, site)


def _linear_arguments(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple:
    return input, weight, bias


def matmul(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``a @ b`` and all its spellings; vectors and broadcasting as in PyTorch."""
    a, b = _two(*args, **kwargs)
    if not (isinstance(a, Tensor) and isinstance(b, Tensor) and a.is_floating_point() and a.ndim and b.ndim):
        return func(*args, **kwargs)
    if not a.layout == b.layout == torch.strided:
        return SPARSE(emulation, func, args, kwargs)
    site, left = _product_site(emulation, "matmul", a, b)
    if site.rules.is_identity:
        return plain(site, func, args, kwargs, *_roles(site, a, b, left))
    rows, columns = a.ndim == 1, b.ndim == 1
    a, b = (a[None] if rows else a), (b[:, None] if columns else b)
    if site.rules.activation.learned is not None:
        a, b = stacked(a), stacked(b)  # one copy of a view here, instead of one for each look at it
    y = Product.apply(*_clipped(emulation, site, a, b, left), site, left)
    y = y.squeeze(-1) if columns else y
    return y.squeeze(-1 if columns else -2) if rows else y


def _two(*tensors: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The two factors, whatever they are called."""
    if "out" in kwargs:
        raise ValueError("a product under a recipe cannot write into out=; assign its result")
    both = (
        *tensors,
        *(kwargs[name] for name in ("self", "input", "other", "mat2", "tensor2", "vec") if name in kwargs),
    )
    return both[0], both[1]


def rmatmul(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``a @ b`` as b sees it."""
    return matmul(emulation, torch.matmul, (args[1], args[0]), {})


def _product_site(emulation: Emulation, sort: str, a: Tensor, b: Tensor) -> tuple[Site, bool]:
    """The site of a product, and whether the weight (if there is one) is the left factor."""
    left, right = is_weight(a), is_weight(b)
    if left or right:
        return emulation.site(sort), left and not right
    return emulation.site(sort, PRODUCT, own=False), False


def _roles(site: Site, a: Tensor, b: Tensor, weight_left: bool) -> tuple[tuple[str, Tensor], tuple[str, Tensor]]:
    """Both factors with their roles, in the order of the call."""
    if "product" in site.kinds:
        return ("activation", a), ("activation", b)
    return (("weight", a), ("activation", b)) if weight_left else (("activation", a), ("weight", b))


def _clipped(emulation: Emulation, site: Site, a: Tensor, b: Tensor, weight_left: bool) -> tuple[Tensor, Tensor]:
    """Both factors, those that are activations under the clip that trains, where there is one."""
    if site.rules.activation.learned is None:
        return a, b
    if "product" in site.kinds:
        return emulation.clipped(a, site), emulation.clipped(b, site)
    return (a, emulation.clipped(b, site)) if weight_left else (emulation.clipped(a, site), b)


def addmm(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """β·c + α·(a @ b): ``addmm``, ``addmv``, ``baddbmm``."""
    kwargs = dict(kwargs)
    beta, alpha = kwargs.pop("beta", 1), kwargs.pop("alpha", 1)
    named = [kwargs[n] for n in ("input", "mat1", "batch1", "mat", "mat2", "batch2", "vec") if n in kwargs]
    c, a, b = (*args, *named)
    y = matmul(emulation, torch.matmul, (a, b), {})
    y = y if alpha == 1 else y * alpha
    return y if beta == 0 else y + (c if beta == 1 else c * beta)


class Einsum:
    """An einsum of two tensors as a function of them."""

    def __init__(self, equation: str) -> None:
        self.equation = equation
        self.label = f"einsum {equation!r}"

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Compute it."""
        return torch.einsum(self.equation, a, b)


def einsum(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.einsum`` of two tensors; of one it is no product."""
    equation, *tensors = args
    tensors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    if len(tensors) < 2:
        return func(*args, **kwargs)
    if len(tensors) > 2 or not isinstance(equation, str):
        raise NotImplementedError(
            f"{emulation.place}: an einsum of {len(tensors)} tensors has no quantized form; write it as products of two"
        )
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


def tensordot(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """``torch.tensordot``."""
    a, b, *rest = args
    return bilinear(emulation, Tensordot(kwargs.get("dims", rest[0] if rest else 2)), func, args, kwargs, a, b)


def bilinear(emulation: Emulation, compute: Any, func: Any, args: tuple, kwargs: dict, a: Tensor, b: Tensor) -> Tensor:
    """A product of two tensors in any notation; of integers and complex numbers as it is."""
    if not (a.is_floating_point() and b.is_floating_point()):
        return func(*args, **kwargs)
    site, left = _product_site(emulation, "einsum", a, b)
    if site.rules.is_identity:
        return plain(site, func, args, kwargs, *_roles(site, a, b, left))
    return Bilinear.apply(*_clipped(emulation, site, a, b, left), site, left, compute)


def embedding(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """A lookup: the table (or, without a scale, the vectors that were looked up) and its gradient are rounded."""
    ids, table, *rest = (*args, *(kwargs.pop(name) for name in ("input", "weight") if name in kwargs))
    site = emulation.site("embedding", frozenset({"embedding"}))
    if site.rules.is_identity:
        return plain(site, func, (ids, table, *rest), kwargs, ("weight", table), open=False)
    if kwargs.get("sparse") or (len(rest) > 4 and rest[4]):
        raise NotImplementedError(f"{emulation.place}: sparse gradients cannot be rounded; pass sparse=False")
    if not site.rules.weight_gradient.is_identity:
        table = rounded_gradient(table.view_as(table), site, "weight_gradient")
    whole = site.rules.weight.scaling is not None or site.rules.weight.quantizer is not None
    if whole:
        return _with_gradient(func(ids, operand(table, site, "weight"), *rest, **kwargs), site)
    return _with_gradient(operand(func(ids, table, *rest, **kwargs), site, "weight"), site)


def _with_gradient(y: Tensor, site: Site) -> Tensor:
    """The gradient that arrives at y rounded, where a rule says so; y rounded as an output."""
    if not site.rules.output.is_identity:
        y = operand(y, site, "output")
    for role in ("output_gradient_dw", "output_gradient_dx"):
        if not getattr(site.rules, role).is_identity:
            return rounded_gradient(y, site, role)
    return y


def normalization(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Tensor:
    """Batch, layer, group, instance and RMS normalization: computed in float32, the result rounded."""
    site = emulation.site("normalization", frozenset({"normalization"}))
    y = func(*args, **kwargs)
    return y if site.rules.is_identity else _with_gradient(y, site)


def multi_head_attention(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
    """``nn.MultiheadAttention``: PyTorch's own function once more, with the eye open for the products inside."""
    with Eye(emulation):
        return _OPEN_ATTENTION(*args, **kwargs)


def _opened(function: Any) -> Any:
    """A function of PyTorch that does not ask whether somebody else wants to compute it."""
    scope = {**function.__globals__, "has_torch_function": lambda *_: False}
    opened = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


_OPEN_ATTENTION = _opened(functional.multi_head_attention_forward)


def refused(what: str, advice: str) -> Handler:
    """A handler for what has no quantized form."""

    def refuse(emulation: Emulation, func: Any, args: tuple, kwargs: dict) -> Any:
        if emulation.rules_of(emulation.name, frozenset()).is_identity:
            return func(*args, **kwargs)
        raise NotImplementedError(f"{emulation.place}: {what} has no quantized form; {advice}")

    return refuse


SKIP = "name the module in skip=[…] to leave it in float32"
SPARSE = refused("a product with a sparse matrix", f"make it dense, or {SKIP}")


def _table() -> dict[Any, Handler]:
    from lplab.training.convolutions import convolutions
    from lplab.training.recurrent import gru, gru_cell, lstm, lstm_cell

    tensor = torch.Tensor
    products = (torch.matmul, torch.mm, torch.bmm, torch.mv, torch.dot, torch.vdot, torch.linalg.matmul)
    methods = (tensor.matmul, tensor.mm, tensor.bmm, tensor.mv, tensor.dot, tensor.vdot, tensor.__matmul__)
    sums = (torch.addmm, torch.baddbmm, torch.addmv, tensor.addmm, tensor.baddbmm, tensor.addmv)
    normalizations = ("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm")
    in_place = (tensor.addmm_, tensor.addmv_, tensor.baddbmm_, tensor.addbmm_)
    return {
        functional.linear: linear,
        **dict.fromkeys((*products, *methods), matmul),
        tensor.__rmatmul__: rmatmul,
        **dict.fromkeys(sums, addmm),
        torch.einsum: einsum,
        torch.tensordot: tensordot,
        **dict.fromkeys((torch.inner, tensor.inner), inner),
        functional.embedding: embedding,
        functional.scaled_dot_product_attention: attention,
        functional.multi_head_attention_forward: multi_head_attention,
        **{getattr(functional, name): normalization for name in normalizations},
        **convolutions(),
        torch.lstm: lstm,
        torch.gru: gru,
        torch.lstm_cell: lstm_cell,
        torch.gru_cell: gru_cell,
        **dict.fromkeys(
            (torch.rnn_tanh, torch.rnn_relu, torch.rnn_tanh_cell, torch.rnn_relu_cell),
            refused("a plain recurrent net (nn.RNN)", f"use nn.GRU or nn.LSTM, or {SKIP}"),
        ),
        functional.bilinear: refused(
            "functional.bilinear", f"write it with torch.einsum, two tensors at a time, or {SKIP}"
        ),
        functional.embedding_bag: refused("an embedding bag", f"use nn.Embedding and a sum, or {SKIP}"),
        torch.chain_matmul: refused("torch.chain_matmul", "write it with @"),
        torch.linalg.multi_dot: refused("torch.linalg.multi_dot", "write it with @"),
        **dict.fromkeys((torch.addbmm, tensor.addbmm), refused("torch.addbmm", "write it with torch.bmm and sum")),
        **dict.fromkeys(in_place, refused("a product that is added in place", "use torch.addmm, addmv or baddbmm")),
        torch.linalg.vecdot: refused("torch.linalg.vecdot", "write it with torch.einsum"),
        torch.convolution: refused("torch.convolution", "use functional.conv1d, conv2d or conv3d"),
        **dict.fromkeys((torch.sparse.mm, torch.smm, torch.hspmm, torch.sspaddmm), SPARSE),
    }


HANDLERS: dict[Any, Handler] = _table()
