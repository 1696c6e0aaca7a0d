"""A rule of a recipe as QuantizeLinear and DequantizeLinear.

A tensor known at export is stored as codes. A scale that follows an activation (``Amax``) is computed in the graph.

This module needs PyTorch and onnx.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor

from lplab.formats import IntFormat, Rounding
from lplab.quantizers import Amax
from lplab.quantizers.quantizer import saturating
from lplab.quantizers.scaling import MAX_SCALE, MIN_SCALE, symmetric_max
from lplab.training.emulation.rounders import rounder_of
from lplab.training.onnx_export.graph import ONNXGraph, Value
from lplab.training.onnx_export.onnx_types import ONNXType, exportable, onnx_type
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import LayerRules


def rounded(
    graph: ONNXGraph, value: Value, rules: LayerRules, role: str, matmul_axes: tuple[int | None, ...] | None = None
) -> Value:
    """The value, rounded by the rule of its role; the value itself where nothing is rounded.

    Args:
        graph: gets the nodes.
        value: a tensor known at export or the name of a value.
        rules: of the layer.
        role: "weight", "activation" or "output".
        matmul_axes: for a weight of a MatMul, the axes along which it may have scales where integers are multiplied;
            None among them is one scale. None for other operators.

    Raises:
        ExportError: the rule has no ONNX form.
    """
    rule = getattr(rules, role)
    if rule.is_identity:
        return value
    graph.roundings[graph.module, role] += 1
    kind = _checked_type(graph, rule, role)
    graph.opset = max(graph.opset, kind.opset)
    if isinstance(value, Tensor):
        other = None if rules.activation.is_identity else onnx_type(rules.activation.format)
        if matmul_axes is not None and (other is None or other.name not in ("INT8", "UINT8")):
            matmul_axes = ()
        return _stored_codes(graph, value, rule, kind, matmul_axes)
    if rule.rounding != Rounding():
        mode = rule.rounding.mode
        raise graph.refuse(f"QuantizeLinear rounds to nearest even; the {role} is rounded by {mode!r}")
    if (value, rule) not in graph.dequantized:  # layers with the same input share its rounding
        graph.dequantized[value, rule] = _in_the_graph(graph, value, rule, kind, role)
    return graph.dequantized[value, rule]


def _checked_type(graph: ONNXGraph, rule: QuantSpec, role: str) -> ONNXType:
    """The ONNX type of a rule, which must have one."""
    if rule.quantizer is not None:
        raise graph.refuse(
            f"the {role} is rounded by a rule of its own ({getattr(rule.quantizer, 'label', rule.label)}): its values "
            "are kept, not the codes with scales and zeros that a file needs; rules that are a format are exported, as "
            f"in quantize_for_inference(model, 'int8'): {', '.join(exportable())}"
        )
    kind = None if rule.learned or rule.per_layer else onnx_type(rule.format)
    if kind is None:
        raise graph.refuse(
            f"the {role} is rounded to {rule.label}, which has no ONNX type; these have one: {', '.join(exportable())}"
        )
    if rule.rounding.is_stochastic:
        raise graph.refuse(f"the {role} is rounded at random, which no ONNX file can repeat")
    if rule.scaling is not None and not _is_power_of_two(kind.scale):
        raise graph.refuse(f"the {role} has a scale of {rule.scaling!r} on top of that of {rule.format.label}")
    return kind


def _is_power_of_two(scale: float) -> bool:
    return bool(np.frexp(scale)[0] == 0.5)


# ---- tensors known at export -----------------------------------------------------------------------------------------


def _stored_codes(
    graph: ONNXGraph, x: Tensor, rule: QuantSpec, kind: ONNXType, matmul_axes: tuple[int | None, ...] | None
) -> str:
    """The codes of a tensor, stored once for each rule, and the nodes that make them numbers.

    onnxruntime (1.32, from the optimization level "extended" on) multiplies dequantized integers in a MatMul as
    integers. That is right where the activations have 8 bits and each column of the weight has a scale. Other scales
    make it fail or its results wrong; activations in float32 it rounds to 8 bits. And it may fail where several
    operators share the integers of a weight. There a Mul of their own applies the scales, which it leaves alone; the
    numbers are the same.
    """
    axis = None if rule.scaling is None or rule.axis is None else rule.axis % x.ndim
    key = (x.data_ptr(), x.shape, x.stride(), rule)
    if key not in graph.codes:
        graph.codes[key] = *_encoded(graph, x, rule, kind, axis), x  # kept, so that no other tensor gets its address
    name, scales, _ = graph.codes[key]
    is_shared = graph.uses[x.data_ptr()] > 1
    apart = "INT" in kind.name and (is_shared or (matmul_axes is not None and axis not in matmul_axes))
    if (key, apart) not in graph.dequantized:
        whole = np.float32(1) if apart else scales.reshape(() if axis is None else -1)
        attributes = {} if axis is None or apart else {"axis": axis}
        result = graph.add("DequantizeLinear", name, whole, _zero_point(graph, kind, whole.shape), **attributes)
        graph.dequantized[key, apart] = graph.add("Mul", result, scales) if apart else result
    return graph.dequantized[key, apart]


def _encoded(graph: ONNXGraph, x: Tensor, rule: QuantSpec, kind: ONNXType, axis: int | None) -> tuple[str, Tensor]:
    """The name of a tensor's stored codes, and its scales in the shape that multiplies the integers."""
    x = x.detach().cpu()
    with torch.no_grad():
        values, scale, _ = rounder_of(rule)(x, 0, 1.0)
    scales = torch.as_tensor(scale, dtype=torch.float32)
    along_axis = scales if axis is None else scales.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    format = saturating(rule.format) if rule.scaling is not None else rule.format
    codes = np.asarray(format.encode((x / along_axis).numpy(), rule.rounding))
    units = format.decode(codes) / kind.scale
    units = torch.as_tensor(np.rint(units) if "INT" in kind.name else units, dtype=torch.float32)
    along_axis = along_axis * kind.scale
    if not torch.equal(units * along_axis, values):
        raise graph.refuse("the stored codes are not those of the rounded tensor; is it finite?")
    return graph.store_proto(_proto(codes, kind), f"codes_{len(graph.codes)}"), along_axis


def _proto(codes: np.ndarray, kind: ONNXType) -> Any:
    """Codes as an ``onnx.TensorProto``; below 8 bits several share a byte, the first in the low bits."""
    bits, flat = kind.bits, codes.reshape(-1) & (1 << kind.bits) - 1
    if bits < 8:
        count = 8 // bits
        flat = np.append(flat, np.zeros(-len(flat) % count, np.uint8)).reshape(-1, count)
        flat = np.bitwise_or.reduce(flat.astype(np.uint8) << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    data = flat.astype(f"<u{max(bits, 8) // 8}").tobytes()
    return TensorProto(data_type=TensorProto.DataType.Value(kind.name), dims=codes.shape, raw_data=data)


def _zero_point(graph: ONNXGraph, kind: ONNXType, shape: tuple[int, ...]) -> str:
    """The zero point, which also says the type; of a float it is the number 0."""
    return graph.store_proto(_proto(np.full(shape, kind.zero_point), kind), f"zero_{len(graph.stored)}")


# ---- tensors computed in the graph -----------------------------------------------------------------------------------


def _in_the_graph(graph: ONNXGraph, x: str, rule: QuantSpec, kind: ONNXType, role: str) -> str:
    format = rule.format
    if rule.scaling is None:
        scale: Value = np.float32(kind.scale)
        if isinstance(format, IntFormat) and format.symmetric:  # ONNX would use the most negative integer too
            x = limited(graph, x, format.min, format.max)
    else:
        if rule.scaling != Amax():
            raise graph.refuse(f"the scale of the {role} is {rule.scaling!r}; in the graph only Amax() is computed")
        if rule.axis is not None:
            raise graph.refuse(f"the {role} has a scale for each index of axis {rule.axis}; a weight may have")
        scale = _amax_scale(graph, x, symmetric_max(saturating(format)))
        scale = scale if kind.scale == 1 else graph.add("Mul", scale, np.float32(kind.scale))
    graph.has_relu &= kind.name in ("INT8", "UINT8")
    saturate = int(kind.saturate or rule.scaling is not None)
    zero = _zero_point(graph, kind, ())
    codes = graph.add("QuantizeLinear", x, scale, zero, saturate=saturate)
    return graph.add("DequantizeLinear", codes, scale, zero)


def limited(graph: ONNXGraph, x: str, low: float | None, high: float | None) -> str:
    """The value within limits. It is no Clip, which onnxruntime (1.32) cannot read before an 8-bit float."""
    x = x if low is None else graph.add("Max", x, float(low))
    return x if high is None else graph.add("Min", x, float(high))


def _amax_scale(graph: ONNXGraph, x: str, largest: float) -> str:
    """The largest magnitude divided by the largest value, within the limits of scales; 1 for a tensor of zeros."""
    amax = graph.add("ReduceMax", graph.add("Abs", x), keepdims=0)
    scale = limited(graph, graph.add("Div", amax, np.float32(largest)), MIN_SCALE, MAX_SCALE)
    return graph.add("Where", graph.add("Greater", amax, np.float32(0)), scale, np.float32(1))
