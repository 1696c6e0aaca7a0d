"""An ONNX graph while it is built: nodes, stored tensors, and the value of each node of the exported PyTorch graph.

This module needs PyTorch and onnx.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from lplab.training.emulation.model_state import Emulation
from lplab.training.emulation.weight_lineage import Lineage
from lplab.training.onnx_export.onnx_types import OPSET

DTYPES = {
    torch.float32: TensorProto.FLOAT,
    torch.float64: TensorProto.DOUBLE,
    torch.int64: TensorProto.INT64,
    torch.int32: TensorProto.INT32,
    torch.bool: TensorProto.BOOL,
}
Value = Any
"""A tensor known at export, the name of a value of the ONNX graph, a number, or a list of these."""


class ExportError(ValueError):
    """The model has no ONNX form; the message names the module and says why."""


class ONNXGraph:
    """Nodes and stored tensors of an ONNX graph, in the order in which they were added.

    Args:
        emulation: of the model: it knows the rules of each layer.
        lineage: which tensors are weights.

    Attributes:
        roundings: how often each (module, role) was rounded.
        opset: the lowest operator set that has all types used.
        where: the module and the operator that is being translated, for messages.
        module: the name of that module.
        has_relu: False if every Relu must be written as a maximum: onnxruntime (1.32, from the optimization level
            "extended" on) leaves out a Relu whose result is quantized to a type other than 8-bit integers.
        uses: how many operators take a stored tensor, by its address.
        codes: of tensors known at export, by tensor and rule: the name of the codes, the scales, and the tensor.
        dequantized: what was rounded, by codes or name and by rule.
    """

    def __init__(self, emulation: Emulation, lineage: Lineage) -> None:
        self.emulation, self.lineage = emulation, lineage
        self.nodes: list[Any] = []
        self.stored: dict[str, Any] = {}
        self.roundings: Counter[tuple[str, str]] = Counter()
        self.opset = OPSET
        self.where = self.module = ""
        self.has_relu = True
        self.uses: Counter[int] = Counter()
        self.codes: dict[Any, tuple[str, Tensor, Tensor]] = {}
        self.dequantized: dict[Any, str] = {}
        self._names: dict[Any, tuple[str, Any]] = {}
        self._symbols: dict[str, str] = {}

    def add(self, op_type: str, *inputs: Value, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; returns the name of its output, or a list of names where it has several.

        Inputs that are tensors are stored; None is an optional input that is left out. The node is named after the
        module that it belongs to.
        """
        names = [f"{op_type.lower()}_{len(self.nodes)}" + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        given = ["" if value is None else value if isinstance(value, str) else self.store(value) for value in inputs]
        label = f"{self.module}/{names[0]}" if self.module else names[0]
        self.nodes.append(helper.make_node(op_type, given, names, name=label, **attributes))
        return names[0] if outputs == 1 else names

    def store(self, value: Any, name: str = "") -> str:
        """Store a tensor, an array or a number (float32, int64 or bool) in the file; returns its name."""
        if isinstance(value, Tensor):
            key = (value.data_ptr(), value.shape, value.stride(), value.dtype)
            if key not in self._names:  # the tensor is kept, so that no other one gets its address
                self._names[key] = self._add_stored(value.detach().cpu().contiguous().numpy(), name), value
            return self._names[key][0]
        return self._add_stored(np.array(value, np.float32 if isinstance(value, float) else None), name)

    def store_proto(self, proto: Any, name: str) -> str:
        """Store a tensor of a type that numpy has not."""
        proto.name = self._free(name)
        self.stored[proto.name] = proto
        return proto.name

    def _add_stored(self, array: np.ndarray, name: str) -> str:
        name = self._free(name or f"constant_{len(self.stored)}")
        self.stored[name] = numpy_helper.from_array(array, name)
        return name

    def _free(self, name: str) -> str:
        while name in self.stored:
            name += "_"
        return name

    def value_info(self, name: str, meta: Tensor) -> Any:
        """The ``onnx.ValueInfoProto`` of an input or output. A free length is called batch; another one batch_2."""
        if meta.dtype not in DTYPES:
            self.where = name
            raise self.refuse(f"{str(meta.dtype).removeprefix('torch.')} is not exported; use float32")
        shape = [size if isinstance(size, int) else self._symbol(str(size)) for size in meta.shape]
        return helper.make_tensor_value_info(name, DTYPES[meta.dtype], shape)

    def _symbol(self, symbol: str) -> str:
        count = len(self._symbols)
        return self._symbols.setdefault(symbol, f"batch_{count + 1}" if count else "batch")

    def refuse(self, why: str) -> ExportError:
        """An error that names the place."""
        return ExportError(f"{self.where}: {why}")

    def model(self, inputs: list[Any], outputs: list[Any]) -> Any:
        """The finished ``onnx.ModelProto``.

        Args:
            inputs, outputs: ``onnx.ValueInfoProto`` of each.
        """
        for node in self.nodes:
            if node.op_type == "Relu" and not self.has_relu:
                node.op_type = "Max"
                node.input.append(self.store(0.0))
        graph = helper.make_graph(self.nodes, "lplab", inputs, outputs, list(self.stored.values()))
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="lplab")
        model.ir_version = helper.find_min_ir_version_for(opsets)
        onnx.checker.check_model(model)
        return model
