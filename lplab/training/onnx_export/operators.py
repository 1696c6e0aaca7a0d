"""The operators of PyTorch in terms of those of ONNX; operands of products are rounded as the rules say.

A converter takes the graph, the node of the exported PyTorch graph and its arguments as values of the ONNX graph. Sizes
that are known only when the file is run are names of int64 tensors with one element.

This module needs PyTorch and onnx.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from lplab.training.emulation.convolutions import convolution_arguments, convolution_kinds, per_dimension
from lplab.training.emulation.quantized_op import PRODUCT
from lplab.training.onnx_export.graph import DTYPES, ONNXGraph, Value
from lplab.training.onnx_export.quantize_nodes import limited, rounded
from lplab.training.recipe.recipe import LayerRules

aten: Any = torch.ops.aten
Converter = Callable[..., Value]


def shape_of(node: Any) -> tuple[Any, ...]:
    """The shape of a node's tensor; sizes that depend on the input are symbols."""
    return tuple(node.meta["val"].shape)


def _sizes(graph: ONNXGraph, sizes: list[Value]) -> Value:
    """An int64 tensor of sizes, each a number or a name."""
    if all(isinstance(size, int) for size in sizes):
        return np.array(sizes, np.int64)
    return graph.add("Concat", *(size if isinstance(size, str) else np.array([size]) for size in sizes), axis=0)


def _axes(axes: Any) -> np.ndarray:
    return np.array([axes] if isinstance(axes, int) else list(axes), np.int64)


# ---- products --------------------------------------------------------------------------------------------------------


def _rules(graph: ONNXGraph, kinds: frozenset[str]) -> LayerRules:
    """The rules of a product in the current module, chosen as ``Emulation.op`` does."""
    own = frozenset() if "product" in kinds else graph.emulation.kinds.get(graph.module, frozenset())
    rules = graph.emulation.rules_of(graph.module, kinds | own)
    if rules.accumulator is not None:
        raise graph.refuse(f"ONNX has no sums in {rules.accumulator!r}; leave the accumulator out of the recipe")
    return rules


def _factors(graph: ONNXGraph, a: Value, b: Value, is_matmul: bool = True) -> tuple[Value, Value, LayerRules]:
    """Both factors of a product, rounded as weight or activation, and the rules."""
    left, right = (isinstance(x, Tensor) and graph.lineage.is_weight(x) for x in (a, b))
    rules = _rules(graph, frozenset() if left or right else PRODUCT)
    columns = (None, 1) if right and b.ndim == 2 else (None,)
    a = rounded(graph, a, rules, "weight" if left and not right else "activation", (None,) if is_matmul else None)
    return a, rounded(graph, b, rules, "weight" if right else "activation", columns if is_matmul else None), rules


def linear(graph: ONNXGraph, node: fx.Node, x: Value, weight: Value, bias: Value = None) -> Value:
    """``functional.linear``."""
    rules = _rules(graph, frozenset())
    x = rounded(graph, x, rules, "activation")
    if len(shape_of(node.args[0])) == 2:
        weight = rounded(graph, weight, rules, "weight")
        return rounded(graph, graph.add("Gemm", x, weight, bias, transB=1), rules, "output")
    weight = rounded(graph, weight, rules, "weight", (None, 0))
    y = graph.add("MatMul", x, graph.add("Transpose", weight, perm=[1, 0]))
    return rounded(graph, y if bias is None else graph.add("Add", y, bias), rules, "output")


def convolution(dims: int, transposed: bool) -> Converter:
    """A convolution in ``dims`` dimensions."""

    def convolve(graph: ONNXGraph, node: fx.Node, *args: Any, **named: Any) -> Value:
        if len(shape_of(node.args[0])) != dims + 2:
            raise graph.refuse("ONNX convolves batches only; give the input an axis of examples")
        given, shape = convolution_arguments(transposed, args, named), shape_of(node.args[1])
        rules = _rules(graph, convolution_kinds(torch.empty(shape, device="meta"), given.groups, transposed))
        dilation = per_dimension(given.dilation, dims)
        more: dict[str, Any] = {"output_padding": per_dimension(given.output_padding, dims)} if transposed else {}
        y = graph.add(
            "ConvTranspose" if transposed else "Conv",
            rounded(graph, given.input, rules, "activation"),
            rounded(graph, given.weight, rules, "weight"),
            given.bias,
            strides=per_dimension(given.stride, dims),
            dilations=dilation,
            pads=_pads(given.padding, dilation, shape[2:]),
            group=given.groups,
            **more,
        )
        return rounded(graph, y, rules, "output")

    return convolve


def _pads(padding: Any, dilation: list[int], kernel: tuple[int, ...]) -> list[int]:
    """ONNX's pads: all that come before, then all that come after."""
    if padding == "same":
        totals = [d * (size - 1) for d, size in zip(dilation, kernel, strict=True)]
        return [total // 2 for total in totals] + [total - total // 2 for total in totals]
    return per_dimension(0 if padding == "valid" else padding, len(kernel)) * 2


def matmul(graph: ONNXGraph, node: fx.Node, a: Value, b: Value) -> Value:
    """``a @ b`` in all its spellings."""
    a, b, rules = _factors(graph, a, b)
    return rounded(graph, graph.add("MatMul", a, b), rules, "output")


def addmm(graph: ONNXGraph, node: fx.Node, c: Value, a: Value, b: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    """β·c + α·(a @ b)."""
    y = matmul(graph, node, a, b)
    y = y if alpha == 1 else graph.add("Mul", y, float(alpha))
    c = c if beta == 1 else graph.add("Mul", c, float(beta))
    return y if beta == 0 else graph.add("Add", y, c)


def einsum(graph: ONNXGraph, node: fx.Node, equation: str, tensors: list[Value], **named: Any) -> Value:
    """``torch.einsum`` of two tensors."""
    if len(tensors) != 2:
        raise graph.refuse("only an einsum of two tensors is exported")
    a, b, rules = _factors(graph, tensors[0], tensors[1], is_matmul=False)
    return rounded(graph, graph.add("Einsum", a, b, equation=equation), rules, "output")


def embedding(graph: ONNXGraph, node: fx.Node, table: Value, ids: Value, *rest: Any) -> Value:
    """A lookup in a rounded table."""
    rules = _rules(graph, frozenset({"embedding"}))
    table = rounded(graph, table, rules, "weight")
    return rounded(graph, graph.add("Gather", table, ids), rules, "output")


def attention(
    graph: ONNXGraph,
    node: fx.Node,
    query: Value,
    key: Value,
    value: Value,
    mask: Value = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """``functional.scaled_dot_product_attention`` as two products, each with its own rounding."""
    shape, keys = shape_of(node.args[0]), shape_of(node.args[1])
    if enable_gqa:
        raise graph.refuse("attention with fewer heads of keys than of queries is not exported")
    if is_causal and not (isinstance(shape[-2], int) and isinstance(keys[-2], int)):
        raise graph.refuse("causal attention needs a fixed length; let only the batch size vary")
    rules = _rules(graph, PRODUCT)
    query, key = rounded(graph, query, rules, "activation"), rounded(graph, key, rules, "activation")
    last = len(shape) - 1
    scores = graph.add("MatMul", query, graph.add("Transpose", key, perm=[*range(last - 1), last, last - 1]))
    scores = rounded(graph, scores, rules, "output")
    scores = graph.add("Mul", scores, np.float32(1 / math.sqrt(shape[-1]) if scale is None else scale))
    if is_causal:
        scores = graph.add("Where", np.triu(np.ones((shape[-2], keys[-2]), bool), 1), -math.inf, scores)
    dead = None
    if mask is not None:
        if node.args[3].meta["val"].dtype == torch.bool:
            scores = graph.add("Where", mask, scores, -math.inf)
        else:
            scores = graph.add("Add", scores, mask)
        dead = graph.add("Equal", graph.add("ReduceMax", scores, _axes(-1)), -math.inf)  # no position is left to see
        scores = graph.add("Where", dead, 0.0, scores)
    weights = graph.add("Softmax", scores, axis=-1)
    weights = weights if dead is None else graph.add("Where", dead, 0.0, weights)
    weights, value = rounded(graph, weights, rules, "activation"), rounded(graph, value, rules, "activation")
    return rounded(graph, graph.add("MatMul", weights, value), rules, "output")


# ---- normalization ---------------------------------------------------------------------------------------------------


def _normalized(graph: ONNXGraph, y: Value) -> Value:
    return rounded(graph, y, _rules(graph, frozenset({"normalization"})), "output")


def batch_norm(
    graph: ONNXGraph,
    node: fx.Node,
    x: Value,
    weight: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    training: bool,
    momentum: float,
    eps: float,
    cudnn: bool = False,
) -> Value:
    """Batch normalization with the statistics of training."""
    if training or mean is None:
        raise graph.refuse("batch norm without running statistics depends on the batch; track_running_stats=True")
    weight = torch.ones_like(mean) if weight is None else weight
    bias = torch.zeros_like(mean) if bias is None else bias
    return _normalized(graph, graph.add("BatchNormalization", x, weight, bias, mean, variance, epsilon=eps))


def layer_norm(
    graph: ONNXGraph,
    node: fx.Node,
    x: Value,
    shape: list[int],
    weight: Value = None,
    bias: Value = None,
    eps: float = 1e-5,
    cudnn: bool = False,
) -> Value:
    """Layer normalization."""
    weight = np.ones(shape, np.float32) if weight is None else weight
    y = graph.add("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=eps)
    return _normalized(graph, y)


def group_norm(
    graph: ONNXGraph,
    node: fx.Node,
    x: Value,
    groups: int,
    weight: Value = None,
    bias: Value = None,
    eps: float = 1e-5,
    cudnn: bool = False,
) -> Value:
    """Group normalization."""
    channels = shape_of(node.args[0])[1]
    weight = np.ones(channels, np.float32) if weight is None else weight
    bias = np.zeros(channels, np.float32) if bias is None else bias
    return _normalized(graph, graph.add("GroupNormalization", x, weight, bias, num_groups=groups, epsilon=eps))


def rms_norm(
    graph: ONNXGraph, node: fx.Node, x: Value, shape: list[int], weight: Value = None, eps: float | None = None
) -> Value:
    """RMS normalization."""
    square = graph.add("ReduceMean", graph.add("Mul", x, x), _axes(range(-len(shape), 0)))
    square = graph.add("Add", square, float(torch.finfo(torch.float32).eps if eps is None else eps))
    y = graph.add("Div", x, graph.add("Sqrt", square))
    return _normalized(graph, y if weight is None else graph.add("Mul", y, weight))


# ---- element by element ----------------------------------------------------------------------------------------------


def unary(op_type: str, **attributes: Any) -> Converter:
    """A function of one tensor that ONNX has too."""

    def convert(graph: ONNXGraph, node: fx.Node, x: Value, *rest: Any, **named: Any) -> Value:
        if rest or named:
            raise graph.refuse("only its default arguments are exported")
        return graph.add(op_type, x, **attributes)

    return convert


def binary(op_type: str) -> Converter:
    """A function of two tensors or of a tensor and a number, in the dtype that PyTorch computes it in."""

    def convert(graph: ONNXGraph, node: fx.Node, a: Value, b: Value, *, alpha: float = 1, **named: Any) -> Value:
        if named.get("rounding_mode"):
            raise graph.refuse(f"a division with rounding_mode={named['rounding_mode']!r} is not exported")
        metas = [x.meta["val"] if isinstance(x, fx.Node) else x for x in node.args[:2]]
        dtype = torch.result_type(*metas)
        dtype = torch.float32 if op_type == "Div" and not dtype.is_floating_point else dtype
        a, b = (_as_dtype(graph, x, meta, dtype) for x, meta in zip((a, b), metas, strict=True))
        return graph.add(op_type, a, b if alpha == 1 else graph.add("Mul", b, torch.tensor(alpha, dtype=dtype)))

    return convert


def _as_dtype(graph: ONNXGraph, x: Value, meta: Any, dtype: torch.dtype) -> Value:
    if not isinstance(meta, Tensor):  # a number, or a size
        return graph.add("Cast", x, to=DTYPES[dtype]) if isinstance(x, str) else torch.tensor(x, dtype=dtype)
    if isinstance(x, Tensor):
        return x.to(dtype)
    return x if meta.dtype == dtype else graph.add("Cast", x, to=DTYPES[dtype])


def reversed_sub(graph: ONNXGraph, node: fx.Node, a: Value, b: Value) -> Value:
    """``b − a``."""
    return graph.add("Sub", b if isinstance(b, str | Tensor) else float(b), a)


def within(low: float | None = None, high: float | None = None) -> Converter:
    """A function that keeps numbers within two limits, which are these by default."""
    return lambda graph, node, x, least=low, most=high: limited(graph, x, least, most)


def masked_fill(graph: ONNXGraph, node: fx.Node, x: Value, mask: Value, value: Value) -> Value:
    """``x.masked_fill(mask, value)``."""
    fill = value.to(torch.float32) if isinstance(value, Tensor) else value if isinstance(value, str) else float(value)
    return graph.add("Where", mask, fill, x)


def where(graph: ONNXGraph, node: fx.Node, condition: Value, a: Value, b: Value) -> Value:
    """``torch.where``."""
    return graph.add("Where", condition, *(x if isinstance(x, str | Tensor) else float(x) for x in (a, b)))


def identity(graph: ONNXGraph, node: fx.Node, x: Value, *rest: Any, **named: Any) -> Value:
    """Nothing to do, such as a copy."""
    return x


def dropout(graph: ONNXGraph, node: fx.Node, x: Value, share: float, training: bool) -> Value:
    """Dropout in evaluation mode: nothing."""
    if training:
        raise graph.refuse("dropout that is active in evaluation mode is random; pass training=self.training")
    return x


def to_dtype(graph: ONNXGraph, node: fx.Node, x: Value, *rest: Any, **named: Any) -> Value:
    """A change of dtype."""
    before, after = node.args[0].meta["val"].dtype, node.meta["val"].dtype
    return x if before == after else graph.add("Cast", x, to=DTYPES[after])


# ---- reductions and pooling ------------------------------------------------------------------------------------------


def reduction(op_type: str) -> Converter:
    """A sum, mean or maximum over axes."""

    def convert(graph: ONNXGraph, node: fx.Node, x: Value, axes: Any = None, keep: bool = False, **named: Any) -> Value:
        given = [x] if axes is None or axes == [] else [x, _axes(axes)]
        return graph.add(op_type, *given, keepdims=int(keep))

    return convert


def argmax(graph: ONNXGraph, node: fx.Node, x: Value, axis: int | None = None, keep: bool = False) -> Value:
    """``torch.argmax`` along an axis."""
    if axis is None:
        x, axis = graph.add("Reshape", x, np.array([-1])), 0
    return graph.add("ArgMax", x, axis=axis, keepdims=int(keep))


def pool(op_type: str, dims: int, options_of: Callable[..., dict[str, Any]]) -> Converter:
    """Max or average pooling; ``options_of`` takes the graph, ``dims`` and the arguments after the padding."""

    def convert(
        graph: ONNXGraph, node: fx.Node, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, *rest: Any
    ) -> Value:
        kernel = per_dimension(kernel, dims)
        strides = per_dimension(stride, dims) if stride else kernel
        pads, options = per_dimension(padding, dims) * 2, options_of(graph, dims, *rest)
        return graph.add(op_type, x, kernel_shape=kernel, strides=strides, pads=pads, **options)

    return convert


def _max_pool_options(graph: ONNXGraph, dims: int, dilation: Any = 1, ceil: bool = False) -> dict[str, Any]:
    return {"dilations": per_dimension(dilation, dims), "ceil_mode": int(ceil)}


def _average_pool_options(
    graph: ONNXGraph, dims: int, ceil: bool = False, include_padding: bool = True, divisor: int | None = None
) -> dict[str, Any]:
    if ceil or divisor is not None:
        raise graph.refuse("average pooling with ceil_mode or divisor_override is not exported")
    return {"count_include_pad": int(include_padding)}


def adaptive_average_pool(graph: ONNXGraph, node: fx.Node, x: Value, size: Any) -> Value:
    """Average pooling to a size: the mean of everything, or of blocks of equal size."""
    shape = shape_of(node.args[0])[2:]
    if all(n == 1 for n in size):
        return graph.add("ReduceMean", x, _axes(range(2, 2 + len(shape))), keepdims=1)
    if any(not isinstance(n, int) or n % wanted for n, wanted in zip(shape, size, strict=True)):
        raise graph.refuse(f"adaptive pooling of {shape} to {tuple(size)} has windows of different sizes")
    kernel = [n // wanted for n, wanted in zip(shape, size, strict=True)]
    return graph.add("AveragePool", x, kernel_shape=kernel, strides=kernel)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def size_of(graph: ONNXGraph, node: fx.Node, x: Value, axis: int) -> Value:
    """One size of a tensor."""
    axis %= len(shape_of(node.args[0]))
    return graph.add("Shape", x, start=axis, end=axis + 1)


def size_arithmetic(op_type: str, function: Callable[[int, int], int]) -> Converter:
    """Arithmetic with sizes."""

    def convert(graph: ONNXGraph, node: fx.Node, a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return function(a, b)
        return graph.add(op_type, *(x if isinstance(x, str) else np.array([x]) for x in (a, b)))

    return convert


def reshape(graph: ONNXGraph, node: fx.Node, x: Value, sizes: list[Value]) -> Value:
    """``view`` and ``reshape``."""
    return graph.add("Reshape", x, _sizes(graph, sizes), allowzero=int(0 in sizes))


def flatten(graph: ONNXGraph, node: fx.Node, x: Value, start: int = 0, end: int = -1) -> Value:
    """``flatten``, also of a few axes."""
    shape = shape_of(node.args[0])
    start, end = start % len(shape), end % len(shape)
    kept = [_size(graph, x, shape, axis) for axis in range(start)]
    kept_after = [_size(graph, x, shape, axis) for axis in range(end + 1, len(shape))]
    return reshape(graph, node, x, [*kept, -1, *kept_after])


def unflatten(graph: ONNXGraph, node: fx.Node, x: Value, axis: int, sizes: list[Value]) -> Value:
    """``unflatten``."""
    shape = shape_of(node.args[0])
    axis %= len(shape)
    own = [_size(graph, x, shape, i) for i in range(len(shape))]
    return reshape(graph, node, x, [*own[:axis], *sizes, *own[axis + 1 :]])


def _size(graph: ONNXGraph, x: Value, shape: tuple[Any, ...], axis: int) -> Value:
    return shape[axis] if isinstance(shape[axis], int) else graph.add("Shape", x, start=axis, end=axis + 1)


def transpose(graph: ONNXGraph, node: fx.Node, x: Value, first: int = -1, second: int = -2) -> Value:
    """Two axes exchanged."""
    axes = list(range(len(shape_of(node))))
    if not axes:
        return x
    axes[first], axes[second] = axes[second], axes[first]
    return graph.add("Transpose", x, perm=axes)


def squeeze(graph: ONNXGraph, node: fx.Node, x: Value, axes: Any) -> Value:
    """``squeeze`` of given axes; those that are longer than 1 stay."""
    shape = shape_of(node.args[0])
    ones = [axis for axis in _axes(axes).tolist() if isinstance(shape[axis], int) and shape[axis] == 1]
    return graph.add("Squeeze", x, _axes(ones)) if ones else x


def expand(graph: ONNXGraph, node: fx.Node, x: Value, sizes: list[Value], **named: Any) -> Value:
    """``expand``: −1 leaves an axis as it is, which a 1 does in ONNX."""
    return graph.add("Expand", x, _sizes(graph, [1 if size == -1 else size for size in sizes]))


def stack(graph: ONNXGraph, node: fx.Node, tensors: list[Value], axis: int = 0) -> Value:
    """``torch.stack``."""
    return graph.add("Concat", *(graph.add("Unsqueeze", x, _axes(axis)) for x in tensors), axis=axis)


def split(graph: ONNXGraph, node: fx.Node, x: Value, sizes: Any, axis: int = 0) -> Value:
    """``split``, ``split_with_sizes`` and ``chunk`` of an axis with a fixed length."""
    lengths = [part.shape[axis] for part in node.meta["val"]]
    if not all(isinstance(n, int) for n in lengths):
        raise graph.refuse("the axis that is split has no fixed length; let only the batch size vary")
    parts = graph.add("Split", x, np.array(lengths), axis=axis, outputs=len(lengths))
    return [parts] if isinstance(parts, str) else parts


def unbind(graph: ONNXGraph, node: fx.Node, x: Value, axis: int = 0) -> Value:
    """``unbind``: a tensor for each index."""
    return [graph.add("Gather", x, np.int64(i), axis=axis) for i in range(len(node.meta["val"]))]


def slice_axis(
    graph: ONNXGraph, node: fx.Node, x: Value, axis: int = 0, start: Value = None, end: Value = None, step: int = 1
) -> Value:
    """A slice of one axis."""
    if start in (None, 0) and (end is None or (isinstance(end, int) and end >= 2**31)) and step == 1:
        return x
    limits = (0 if start is None else start, 2**31 - 1 if end is None else end)
    given = (limit if isinstance(limit, str) else np.array([limit], np.int64) for limit in limits)
    return graph.add("Slice", x, *given, _axes(axis), _axes(step))


PRODUCTS: dict[Any, Converter] = {
    aten.linear.default: linear,
    **{getattr(aten, f"conv{n}d").default: convolution(n, False) for n in (1, 2, 3)},
    **{getattr(aten, f"conv{n}d").padding: convolution(n, False) for n in (1, 2, 3)},
    aten.conv_transpose1d.default: convolution(1, True),
    aten.conv_transpose2d.input: convolution(2, True),
    aten.conv_transpose3d.input: convolution(3, True),
    **dict.fromkeys((aten.matmul.default, aten.mm.default, aten.bmm.default, aten.mv.default), matmul),
    **dict.fromkeys((aten.addmm.default, aten.baddbmm.default), addmm),
    aten.einsum.default: einsum,
    aten.embedding.default: embedding,
    aten.scaled_dot_product_attention.default: attention,
    aten.batch_norm.default: batch_norm,
    aten.layer_norm.default: layer_norm,
    aten.group_norm.default: group_norm,
    aten.rms_norm.default: rms_norm,
}
"""Operators with rules: they are translated even where all their operands are known at export."""
_UNARY = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt"}
_UNARY |= {"neg": "Neg", "abs": "Abs", "erf": "Erf", "sin": "Sin", "cos": "Cos", "logical_not": "Not"}
_UNARY |= {"reciprocal": "Reciprocal", "floor": "Floor", "hardswish": "HardSwish"}
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
_COMPARISONS = {"eq": "Equal", "gt": "Greater", "lt": "Less", "ge": "GreaterOrEqual", "le": "LessOrEqual"}
OTHERS: dict[Any, Converter] = {
    **{getattr(aten, name).default: unary(op_type) for name, op_type in _UNARY.items()},
    aten.elu.default: unary("Elu"),
    aten.softplus.default: unary("Softplus"),
    aten.hardsigmoid.default: unary("HardSigmoid", alpha=1 / 6, beta=0.5),
    **{getattr(aten, name).Tensor: binary(op_type) for name, op_type in (_BINARY | _COMPARISONS).items()},
    **{getattr(aten, name).Scalar: binary(op_type) for name, op_type in (_BINARY | _COMPARISONS).items()},
    aten.maximum.default: binary("Max"),
    aten.minimum.default: binary("Min"),
    aten.rsub.Scalar: reversed_sub,
    aten.pow.Tensor_Scalar: lambda graph, node, x, exponent: graph.add("Pow", x, float(exponent)),
    **dict.fromkeys((aten.clamp.default, aten.clamp_min.default), within()),
    aten.relu6.default: within(0.0, 6.0),
    aten.hardtanh.default: within(-1.0, 1.0),
    aten.silu.default: lambda graph, node, x: graph.add("Mul", x, graph.add("Sigmoid", x)),
    aten.gelu.default: lambda graph, node, x, *, approximate="none": graph.add("Gelu", x, approximate=approximate),
    aten.leaky_relu.default: lambda graph, node, x, slope=0.01: graph.add("LeakyRelu", x, alpha=float(slope)),
    **dict.fromkeys((aten.masked_fill.Scalar, aten.masked_fill.Tensor), masked_fill),
    **dict.fromkeys((aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.Scalar), where),
    **dict.fromkeys((aten.dropout.default, aten.feature_dropout.default), dropout),
    **dict.fromkeys((aten.contiguous.default, aten.clone.default, aten.detach.default, aten.alias.default), identity),
    **dict.fromkeys((aten.to.dtype, aten.to.device, aten._to_copy.default, aten.type_as.default), to_dtype),
    aten.mean.dim: reduction("ReduceMean"),
    aten.mean.default: reduction("ReduceMean"),
    aten.sum.dim_IntList: reduction("ReduceSum"),
    aten.sum.default: reduction("ReduceSum"),
    aten.amax.default: reduction("ReduceMax"),
    aten.amin.default: reduction("ReduceMin"),
    aten.softmax.int: lambda graph, node, x, axis, *rest: graph.add("Softmax", x, axis=axis),
    aten.log_softmax.int: lambda graph, node, x, axis, *rest: graph.add("LogSoftmax", x, axis=axis),
    aten.argmax.default: argmax,
    **{getattr(aten, f"max_pool{n}d").default: pool("MaxPool", n, _max_pool_options) for n in (1, 2, 3)},
    **{getattr(aten, f"avg_pool{n}d").default: pool("AveragePool", n, _average_pool_options) for n in (1, 2, 3)},
    **{getattr(aten, f"adaptive_avg_pool{n}d").default: adaptive_average_pool for n in (1, 2, 3)},
    aten.sym_size.int: size_of,
    operator.mul: size_arithmetic("Mul", operator.mul),
    operator.add: size_arithmetic("Add", operator.add),
    operator.sub: size_arithmetic("Sub", operator.sub),
    operator.floordiv: size_arithmetic("Div", operator.floordiv),
    **dict.fromkeys((aten.view.default, aten.reshape.default, aten._unsafe_view.default), reshape),
    aten.flatten.using_ints: flatten,
    aten.unflatten.int: unflatten,
    aten.permute.default: lambda graph, node, x, axes: graph.add("Transpose", x, perm=[a % len(axes) for a in axes]),
    **dict.fromkeys((aten.transpose.int, aten.t.default, aten.mT.default, aten.numpy_T.default), transpose),
    **dict.fromkeys((aten.squeeze.dim, aten.squeeze.dims), squeeze),
    aten.unsqueeze.default: lambda graph, node, x, axis: graph.add("Unsqueeze", x, _axes(axis)),
    aten.expand.default: expand,
    aten.cat.default: lambda graph, node, tensors, axis=0: graph.add("Concat", *tensors, axis=axis),
    aten.stack.default: stack,
    **dict.fromkeys((aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default), split),
    aten.unbind.int: unbind,
    aten.select.int: lambda graph, node, x, axis, index: graph.add("Gather", x, np.int64(index), axis=axis),
    aten.slice.Tensor: slice_axis,
    operator.getitem: lambda graph, node, values, index: values[index],
}
"""Operators without rules: where all their operands are known at export, so is the result."""
