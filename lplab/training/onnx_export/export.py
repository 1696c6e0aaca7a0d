"""A model quantized for inference as an ONNX file.

This module needs PyTorch and onnx.
"""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, fx, nn

from lplab.training.emulation.conversion import dequantize_model, emulation_of
from lplab.training.emulation.weight_lineage import Lineage
from lplab.training.onnx_export.graph import DTYPES, ExportError, ONNXGraph, Value
from lplab.training.onnx_export.operators import OTHERS, PRODUCTS
from lplab.training.recipe.quant_spec import QuantSpec

_NOTHING = ("_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range_for_size", "sym_constrain_range")


def export_onnx(model: nn.Module, example: Any, path: str | Path) -> Path:
    """Write a quantized model as an ONNX file, which computes in evaluation mode what the model computes.

    A weight is stored as the codes of its format, with a DequantizeLinear behind it; the scales of an integer weight
    are a Mul behind that where onnxruntime would multiply its codes with others wrongly. An activation runs through
    QuantizeLinear and DequantizeLinear; a scale that follows it (``Amax()``) is computed in the graph, from the tensor
    at hand. Everything else, sums included, is float32. So onnxruntime and the model agree up to the order in which
    float32 sums are added: for a product of n terms, 2n·2^−24·Σ|x·w|. A number that lies within this error of the
    middle between two values of a format may be rounded to the other one by the next layer.

    onnxruntime 1.32 on the CPU has no QuantizeLinear for e2m1 (``onnx.reference.ReferenceEvaluator`` has). It turns
    some int8 products into integer products, whose sums overflow on x86 processors without VNNI unless
    ``options.add_session_config_entry("session.x64quantprecision", "1")`` is set.

    These formats have an ONNX type: int2, int4, int8 and int16, signed or not, e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e2m1,
    and those that differ from one of them in bias or overflow, such as hfp8_forward; float32 is left as it is. Rounding
    is to nearest even, for weights to any rule without chance. Numbers are finite.

    Args:
        model: from :func:`~lplab.training.quantize_for_inference` or :func:`~lplab.training.quantize_model`; it is not
            changed.
        example: an input, or a tuple of inputs. The first axis of each may have any length in the file if it has 2 or
            more here; all other sizes are fixed.
        path: of the file; one that exists is replaced.

    Returns:
        The path. The inputs of the file have the names of the arguments of ``forward``; outputs are output_0, ….

    Raises:
        ValueError: the model is not quantized; a format without an ONNX type; an operator that is not exported (the
            message names the layer). ImportError: onnx is missing.

    >>> import tempfile
    >>> from lplab.training import quantize_for_inference
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = export_onnx(quantize_for_inference(nn.Linear(4, 2), "int8"), torch.zeros(2, 4), f"{folder}/net.onnx")
    ...     [node.op_type for node in onnx.load(path).graph.node if "Linear" in node.op_type]
    ['QuantizeLinear', 'DequantizeLinear', 'DequantizeLinear']
    """
    emulation = emulation_of(model)
    wrong = {str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.dtype != torch.float32}
    if wrong:
        raise ExportError(f"the model has parameters of {', '.join(sorted(wrong))}; only float32 is exported")
    inputs = example if isinstance(example, tuple) else (example,)
    plain = dequantize_model(model).eval()
    graph = ONNXGraph(emulation, Lineage(plain))
    program = _exported(plain, inputs)
    values, onnx_inputs = _stored_and_inputs(graph, program)
    for node in program.graph.nodes:
        if node.op == "call_function":
            values[node] = _translated(graph, node, values)
    results = next(iter(program.graph.find_nodes(op="output"))).args[0]
    outputs = [_output(graph, result, values, i) for i, result in enumerate(results)]
    _check_roundings(graph, model, inputs)
    onnx.save(graph.model(onnx_inputs, outputs), path)
    return Path(path)


def _exported(model: nn.Module, inputs: tuple[Any, ...]) -> Any:
    """The plain model as a graph of PyTorch operators; the length of the first axis of its inputs is a symbol."""
    free = tuple({0: torch.export.Dim.AUTO} if isinstance(x, Tensor) and x.ndim else None for x in inputs)
    try:
        with torch.no_grad():
            return torch.export.export(model, inputs, dynamic_shapes=free, strict=False)
    except Exception as error:  # whatever the model's own code provokes while it is traced
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise ExportError(f"torch.export cannot trace the model: {reason}") from error


def _stored_and_inputs(graph: ONNXGraph, program: Any) -> tuple[dict[fx.Node, Value], list[Any]]:
    """The values of the graph's placeholders: parameters and constants as tensors, inputs as names."""
    signature, values, inputs = program.graph_signature, {}, []
    stored = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    constants = signature.inputs_to_lifted_tensor_constants
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in stored or node.name in constants:
            name = stored.get(node.name) or constants[node.name]
            value = values[node] = program.state_dict[name] if name in program.state_dict else program.constants[name]
            if not isinstance(value, nn.Parameter):
                graph.lineage.add(value, is_weight=False)
            graph.uses[value.data_ptr()] += len(node.users)
        elif isinstance(node.meta["val"], Tensor):
            values[node] = node.name
            inputs.append(graph.value_info(node.name, node.meta["val"]))
        else:
            values[node] = node.meta["val"]
    return values, inputs


def _translated(graph: ONNXGraph, node: fx.Node, values: dict[fx.Node, Value]) -> Value:
    """The value of a node: computed here where everything is known, else the name of what the file computes."""
    module = list(node.meta.get("nn_module_stack", {"": ("", None)}).values())[-1]
    graph.module = str(module[0]).partition("@")[0]  # "@1" marks the second call of a module
    operator_name = str(node.target).removesuffix(".default").removeprefix("aten.")
    graph.where = f"{graph.module or 'the model'} ({operator_name})"
    meta = node.meta.get("val")
    if isinstance(meta, Tensor) and meta.dtype not in DTYPES:
        raise graph.refuse(f"{str(meta.dtype).removeprefix('torch.')} is not exported; use float32")
    args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
    target = _functional(graph, node)
    converter = PRODUCTS.get(target)
    if converter is None and not any(isinstance(value, str) for value in _used(node, values)):
        with torch.no_grad():
            result = node.target(*args, **kwargs)
        graph.lineage.follow(node.target, args, kwargs, result)
        return result
    converter = converter or OTHERS.get(target)
    if converter is not None:
        return converter(graph, node, *args, **kwargs)
    if any(name in str(node.target) for name in _NOTHING):
        return None
    raise graph.refuse("this operator is not exported; quantize a model without it, or compute it outside of the file")


def _used(node: fx.Node, values: dict[fx.Node, Value]) -> list[Value]:
    """The values that a node takes, those in lists included."""
    return [
        part
        for source in node.all_input_nodes
        for part in (values[source] if isinstance(values[source], list) else [values[source]])
    ]


def _functional(graph: ONNXGraph, node: fx.Node) -> Any:
    """The operator of a node; of one that works in place the one that does not, as ``relu`` for ``relu_``.

    Later nodes take the result of an in-place operator. Those that see the change through a view do not, so a view must
    not be changed.
    """
    target: Any = node.target
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return target
    changed = node.args[0]
    others = [user for user in changed.users if user is not node]
    if any(_is_view(each) for each in (changed, *others)):
        raise graph.refuse("an in-place change of a view is not exported; write it without the underscore")
    packet, overload = str(target).removeprefix("aten.").split(".")
    functional = getattr(torch.ops.aten, packet.removesuffix("_"), None)
    return getattr(functional, overload, target)


def _is_view(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)


def _output(graph: ONNXGraph, result: Any, values: dict[fx.Node, Value], index: int) -> Any:
    name = f"output_{index}"
    graph.add("Identity", values[result])
    graph.nodes[-1].output[0] = name
    return graph.value_info(name, result.meta["val"])


def _check_roundings(graph: ONNXGraph, model: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Whether the file rounds as often as the model, role by role; nothing may be left in float32 silently.

    Raises:
        ExportError: it does not.
    """
    counted: Counter[tuple[str, str]] = Counter()

    def watch(op: Any, role: str, before: Tensor, rounded: Any) -> None:
        rule: QuantSpec = getattr(op.rules, role)
        counted[op.name.partition("/")[0], role] += not rule.is_identity

    watched = copy.deepcopy(model).eval()
    emulation_of(watched).watch = watch
    with torch.no_grad():
        watched(*inputs)
    for module, role in {*counted, *graph.roundings}:
        ours, theirs = counted[module, role], graph.roundings[module, role]
        if ours != theirs:
            raise ExportError(
                f"{module or 'the model'}: the model rounds its {role} {ours} times, the file would {theirs} times; "
                "this layer cannot be exported"
            )
