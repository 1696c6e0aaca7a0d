"""Where the tensors of a running module come from: from the example, from which parameters, with a gradient or not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Origin:
    """What is known of a tensor.

    Attributes:
        from_example: whether it depends on the example, or is as long as the batch.
        parameters: names of those that it is, or is computed from; none for what depends on the example.
        has_gradient: whether the backward pass computes its gradient.
        repeated: whether it is there once for each example, though it does not depend on it, as expanded queries are.
    """

    from_example: bool
    parameters: frozenset[str]
    has_gradient: bool
    repeated: bool = False


class Origins:
    """The origins of all tensors while a module runs, by storage: views have the origin of what they view.

    A tensor that was made without operators of PyTorch (from numpy, say) counts as an activation if one of its
    dimensions is as long as the batch, and else as a constant.
    """

    def __init__(self, model: torch.nn.Module, inputs: Iterable[torch.Tensor], batch: int) -> None:
        self._batch = batch
        self._sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
        self._parameters: dict[int, list[tuple[int, str]]] = {}  # those of a storage, by their offset
        for name, parameter in model.named_parameters():
            self._parameters.setdefault(_storage(parameter)[0], []).append((_offset(parameter), name))
        for held in self._parameters.values():
            held.sort()
        self._buffers = {_storage(buffer)[0] for buffer in model.buffers()} - {0}
        self._known: dict[int, tuple[Any, Origin]] = {}
        for tensor in inputs:
            self._note(tensor, Origin(True, frozenset(), tensor.requires_grad))

    def of(self, tensor: torch.Tensor) -> Origin:
        """The origin of an operand of an operator that runs now."""
        key, _ = _storage(tensor)
        if key in self._parameters:
            held = self._parameters[key]  # one parameter, or many in one storage
            name = next((name for first, name in reversed(held) if first <= _offset(tensor)), held[0][1])
            return Origin(False, frozenset([name]), self._has_gradient(tensor, False), self._is_expanded(tensor))
        if key in self._known:
            origin = self._known[key][1]
            gradient = self._has_gradient(tensor, origin.has_gradient)
            repeated = origin.repeated or self._is_expanded(tensor)
            return Origin(origin.from_example, origin.parameters, gradient, repeated)
        is_activation = key not in self._buffers and self._batch in tensor.shape
        return Origin(is_activation, frozenset(), self._has_gradient(tensor, False), self._is_expanded(tensor))

    def is_buffer(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a buffer of the module, or a view of one."""
        return _storage(tensor)[0] in self._buffers

    def part(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Which part of a parameter a tensor views; () for one that is computed."""
        return (_offset(tensor), tensor.numel()) if _storage(tensor)[0] in self._parameters else ()

    def elements(self, parameters: Iterable[str]) -> int:
        """How many elements parameters have together."""
        return sum(self._sizes[name] for name in parameters)

    def follow(self, operands: Iterable[Origin], results: Iterable[torch.Tensor], repeated: bool = False) -> None:
        """Note where the results of an operator come from, and whether it repeats its operand for each example."""
        sources = list(operands)
        from_example = any(source.from_example for source in sources)
        names = frozenset().union(*[source.parameters for source in sources])
        inside = any(source.has_gradient for source in sources)
        repeated |= any(source.repeated for source in sources)
        for tensor in results:
            example = from_example or (not sources and self._batch in tensor.shape)
            self._note(tensor, Origin(example, frozenset() if example else names, inside, repeated))

    def _note(self, tensor: torch.Tensor, origin: Origin) -> None:
        key, hold = _storage(tensor)
        if key and key not in self._parameters:
            self._known[key] = (hold, origin)

    def _is_expanded(self, tensor: torch.Tensor) -> bool:
        """Whether a view repeats its elements for each example."""
        import torch

        if self._batch == 1 or tensor.layout != torch.strided or tensor.is_nested:
            return False
        return any(n == self._batch and not step for n, step in zip(tensor.shape, tensor.stride(), strict=True))

    def _has_gradient(self, tensor: torch.Tensor, inside: bool) -> bool:
        """Within an autograd.Function, operands do not require gradients, but the function has a backward pass."""
        import torch

        if torch.is_grad_enabled():
            return tensor.requires_grad
        return (tensor.requires_grad or inside) and _runs_in_function()


def _storage(tensor: torch.Tensor) -> tuple[int, Any]:
    """The identity of a tensor's storage, and what keeps another storage from getting the same; 0 without a storage."""
    from torch.multiprocessing.reductions import StorageWeakRef

    try:
        storage = tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse tensors, and classes of tensors that hold others
        return 0, None
    return storage._cdata, StorageWeakRef(storage)


def _offset(tensor: torch.Tensor) -> int:
    return 0 if _storage(tensor)[0] == 0 else tensor.storage_offset()


def _runs_in_function() -> bool:
    """Whether the forward pass of an autograd.Function runs, as in reentrant checkpoints."""
    from torch.autograd import Function

    code, frame = Function.apply.__func__.__code__, sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None
