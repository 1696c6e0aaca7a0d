"""The state of a compressor as tensors on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.compression.compressor import Compressor
from lplab.compression.state import LayerState


class TensorState(LayerState):
    """A :class:`~lplab.compression.state.LayerState` whose arrays are tensors on one device.

    :meth:`arrays` and :meth:`load` take numpy arrays, so checkpoints are the same as those of the numpy path.

    Args:
        shape: of the layer's gradient.
        device: of the tensors.
        **arrays: initial values, as numpy arrays.

    >>> state = TensorState((2,), "cpu", residual=np.ones(2, np.float32))
    >>> state["residual"], state.arrays()
    (tensor([1., 1.]), {'residual': array([1., 1.], dtype=float32)})
    """

    def __init__(self, shape: Sequence[int], device: Any, **arrays: np.ndarray) -> None:
        self.device = torch.device(device)
        super().__init__(shape, **{name: self._tensor(array) for name, array in arrays.items()})

    def _tensor(self, array: np.ndarray) -> Any:
        """A copy on the device; Any, because what the parent class annotates as an array is a tensor here."""
        return torch.from_numpy(np.array(array)).to(self.device)

    def blank(self, name: str) -> Any:
        """An uninitialized tensor for a proposal: the one that the last commit replaced."""
        replaced = self._replaced.pop(name, None)
        tensor: Any = self._arrays[name]
        return torch.empty_like(tensor) if replaced is None else replaced

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the current tensors as numpy arrays, by name, for a checkpoint."""
        tensors: Mapping[str, Any] = self._arrays
        return {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load copies of the arrays of a checkpoint.

        Raises:
            ValueError: as for :meth:`check`.
        """
        checked = LayerState(self.shape, **self.arrays())
        checked.load(arrays)
        self._arrays = {name: self._tensor(array) for name, array in checked.arrays().items()}
        self._proposed, self._replaced = {}, {}

    def check(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Whether :meth:`load` takes the arrays.

        Raises:
            ValueError: the names, shapes or dtypes differ from those of this state.
        """
        LayerState(self.shape, **self.arrays()).check(arrays)


def tensor_state(compressor: Compressor, shape: Sequence[int], device: Any) -> TensorState:
    """The state of one layer before the first step, on a device: the values of :meth:`Compressor.init`.

    >>> from lplab.compression import EFSign
    >>> tensor_state(EFSign(), (2, 2), "cpu")["residual"]
    tensor([0., 0., 0., 0.])
    """
    return TensorState(shape, device, **compressor.init(shape).arrays())


def as_device_tensor(array: np.ndarray, like: Tensor) -> Tensor:
    """A numpy array as a tensor on the device of another one."""
    return torch.from_numpy(np.array(array)).to(like.device)
