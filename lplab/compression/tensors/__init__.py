"""The compressors on tensors: ``operations.py`` is what numpy and PyTorch do not share, on the device of the gradient.

A tensor on the CPU is an array without a copy: there numpy's faster operations and compiled loops serve it. A
compressor whose class does not say ``takes_tensors`` runs on the host, with copies of the gradient and the state.

This package needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from lplab.compression.compressor import Compressor, Context, Steps
from lplab.compression.layer_state import LayerState
from lplab.compression.tensors.operations import dtype_name, from_host

SHARED = {"cpu"}  # devices whose tensors are arrays without a copy


def tensor_state(compressor: Compressor, shape: Sequence[int], device: Any) -> LayerState:
    """The state of one layer before the first step, on a device: the values of :meth:`Compressor.init`.

    >>> from lplab.compression import EFSign
    >>> tensor_state(EFSign(), (2, 2), "cpu")["residual"]
    tensor([0., 0., 0., 0.])
    """
    like = torch.empty(0, device=device)
    return LayerState(
        shape, **{name: from_host(array, like) for name, array in compressor.init(shape).arrays().items()}
    )


def tensor_steps(compressor: Compressor, gradient: Tensor, state: LayerState, context: Context) -> Steps:
    """Average a gradient with those of the other learners, on its own device.

    Args:
        compressor: of the layer.
        gradient: float32, of the state's shape, finite; not changed, unless ``context.overwrite``.
        state: of this layer, of :func:`tensor_state`, on the gradient's device.
        context: the learner and the step.

    Yields:
        Requests with tensors; with arrays, where the gradient or the compressor is on the host.

    Returns:
        The average, float32, of the gradient's shape and on its device.

    Raises:
        ValueError: (when it runs) another shape than the state's, or another dtype.
        NotFiniteError: (when it runs) a value that is not finite.
    """
    if not compressor.takes_tensors:
        return _on_host(compressor, gradient, state, context)
    if gradient.device.type in SHARED:
        return _on_shared_memory(compressor, gradient, state, context)
    return compressor.steps(gradient, state, context)


def _on_host(compressor: Compressor, gradient: Tensor, state: LayerState, context: Context) -> Steps:
    """The generator for arrays, with copies of the gradient and the state on the host."""
    host = LayerState(state.shape, **state.arrays())
    average = yield from compressor.steps(gradient.cpu().numpy().copy(), host, context)
    state.propose(**{name: from_host(array, gradient) for name, array in host.proposed().items()})
    return from_host(average, gradient)


def _on_shared_memory(compressor: Compressor, gradient: Tensor, state: LayerState, context: Context) -> Steps:
    """The generator for arrays that are the memory of the gradient and of the state."""
    # numpy has not every type of PyTorch.
    if gradient.dtype != torch.float32:
        raise ValueError(f"the gradient must be float32, got {dtype_name(gradient)}")
    return torch.from_numpy((yield from compressor.steps(gradient.detach().numpy(), _SharedState(state), context)))


class _SharedState(LayerState):
    """A state of tensors on the CPU as one of arrays, which are their memory."""

    def __init__(self, state: LayerState) -> None:
        super().__init__(state.shape)
        self._state = state

    def __getitem__(self, name: str) -> Any:
        return self._state[name].numpy()

    def __contains__(self, name: str) -> bool:
        return name in self._state

    def blank(self, name: str) -> Any:
        return self._state.blank(name).numpy()

    def propose(self, **arrays: Any) -> None:
        self._state.propose(**{name: torch.from_numpy(array) for name, array in arrays.items()})
