"""Operations of torch as layers: the layers that one recorded operation adds to a workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lplab.hardware.workloads.layer import Layer

if TYPE_CHECKING:
    import torch

_ELEMENTWISE = {  # words in the names of operations, and the kind of layer that they make
    "softmax": "softmax",
    "norm": "norm",
    "embedding": "embedding",
    "pool": "pool",
    "mean": "pool",
    **dict.fromkeys(("relu", "gelu", "silu", "tanh", "sigmoid", "hardtanh", "elu"), "activation"),
    **dict.fromkeys(("add", "sub", "mul", "div"), "add"),
}


def layer_from_op(
    operation: str, args: Any, out: Any, name: str, parameters: dict[int, Any], batch: int
) -> list[tuple[Layer, int]]:
    """The layers of an operation, each with the address of its weights (0 for none)."""
    import torch

    result = out[0] if isinstance(out, tuple) else out
    if not isinstance(result, torch.Tensor) or not result.is_floating_point():
        return []
    here = _Operation(name, args, result, parameters, batch)
    if operation == "convolution":
        return [here.convolution()]
    if operation in ("mm", "addmm"):
        return [here.dense()]
    if operation in ("bmm", "baddbmm"):
        return [here.batched()]
    if "scaled_dot_product" in operation:
        return [(layer, 0) for layer in _attention(name, *args[:3])]
    kind = next((kind for word, kind in _ELEMENTWISE.items() if word in operation), "")
    return [here.elementwise(kind)] if kind else []


@dataclass(frozen=True)
class _Operation:
    """An operation that ran: its arguments and result, and what of them are parameters, by address."""

    name: str
    args: Any
    result: torch.Tensor
    parameters: dict[int, Any]
    batch: int

    def convolution(self) -> tuple[Layer, int]:
        kernel, groups = self.args[1], self.args[8]
        filters = kernel.shape[0]
        depthwise = groups > 1 and groups == self.args[0].shape[1]
        word = "depthwise" if depthwise else "shortcut" if _is_shortcut(self.name, kernel.shape) else ""
        sizes: dict[str, Any] = {
            "m": self.result[0, 0].numel(),
            "n": filters // groups,
            "k": kernel[0].numel(),
            "groups": groups,
        }
        return Layer(self.name, "conv", **sizes, weights=self._weights, exception=word, **self._about), self._of(kernel)

    def dense(self) -> tuple[Layer, int]:
        a, b = self.args[-2:]
        weight = self._of(b) or self._of(a)
        sizes = {"m": max(1, a.shape[0] // self.batch), "n": b.shape[1], "k": a.shape[1]}
        kind = "linear" if weight else "attention"
        return Layer(self.name, kind, **sizes, weights=self._weights, **self._about), weight

    def batched(self) -> tuple[Layer, int]:
        a, b = self.args[-2:]
        sizes = {"m": a.shape[1], "n": b.shape[2], "k": a.shape[2], "groups": max(1, a.shape[0] // self.batch)}
        return Layer(self.name, "attention", **sizes, **self._about), 0

    def elementwise(self, kind: str) -> tuple[Layer, int]:
        exception = "embedding" if kind == "embedding" else ""
        layer = Layer(self.name, kind, weights=self._weights, exception=exception, **self._about)
        return layer, min(self._own, default=0)

    def _of(self, tensor: Any) -> int:
        """The address of a parameter; 0 for everything else."""
        storage = getattr(tensor, "untyped_storage", None)
        address = 0 if storage is None else storage().data_ptr()
        return address if address in self.parameters else 0

    @property
    def _own(self) -> set[int]:
        return {self._of(argument) for argument in self.args} - {0}

    @property
    def _weights(self) -> int:
        return sum(self.parameters[address].numel() for address in self._own)

    @property
    def _about(self) -> dict[str, Any]:
        """Elements that are read and written, of one example."""
        read = [a for a in self.args if hasattr(a, "numel") and not self._of(a)]
        return {"inputs": sum(a.numel() // self.batch for a in read), "outputs": self.result.numel() // self.batch}


def _attention(name: str, q: Any, k: Any, v: Any) -> list[Layer]:
    _, heads, queries, width = q.shape
    keys, scores = k.shape[2], heads * queries * k.shape[2]
    first = {"m": queries, "n": keys, "k": width, "inputs": heads * width * (queries + keys), "outputs": scores}
    second = {"m": queries, "n": v.shape[3], "k": keys, "inputs": scores + heads * keys * v.shape[3]}
    return [
        Layer(f"{name}.scores", "attention", groups=heads, **first),
        Layer(f"{name}.softmax", "softmax", inputs=scores, outputs=scores),
        Layer(f"{name}.mix", "attention", groups=heads, outputs=heads * queries * v.shape[3], **second),
    ]


def _is_shortcut(name: str, shape: Any) -> bool:
    """As :mod:`lplab.training` has it: a 1 × 1 convolution in a module called shortcut or downsample."""
    return all(side == 1 for side in shape[2:]) and any(word in name.lower() for word in ("shortcut", "downsample"))
