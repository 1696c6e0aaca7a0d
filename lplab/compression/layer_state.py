"""The state of a compressor for one layer, such as its residual, and those of all layers: commit, rollback, loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from lplab.compression import arrays as operations


class LayerState:
    """Arrays, or tensors of one device, by name that belong to one layer of one learner.

    The residual of error feedback, the memory of what was not sent, is one of them.

    A step proposes new arrays; nothing changes until :meth:`commit`. If the gradient of any learner is not finite, all
    learners :meth:`rollback`, as if the step had not been made. An array from ``state[name]`` may be overwritten in the
    step after the next (see :meth:`blank`). :meth:`arrays` and :meth:`load` copy; they have numpy arrays in any case.

    Args:
        shape: of the layer's gradient.
        **arrays: initial values; float32 for residuals.

    Attributes:
        learner_axes: 0; 1 where a gradient is of several learners (:class:`StackedState`).

    >>> state = LayerState((2,), residual=np.zeros(2, np.float32))
    >>> state.propose(residual=np.ones(2, np.float32))
    >>> state["residual"].tolist()
    [0.0, 0.0]
    >>> state.commit()
    >>> state["residual"].tolist()
    [1.0, 1.0]
    """

    learner_axes: ClassVar[int] = 0

    def __init__(self, shape: Sequence[int], **arrays: Any) -> None:
        self.shape = tuple(shape)
        self._arrays = dict(arrays)
        self._proposed: dict[str, Any] = {}
        self._replaced: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __repr__(self) -> str:
        return f"LayerState(shape={self.shape}, {', '.join(self._arrays) or 'empty'})"

    def propose(self, **arrays: Any) -> None:
        """Propose new arrays, which take effect at :meth:`commit`; they must not be changed afterwards.

        Raises:
            KeyError: a name that this state does not have.
        """
        if not arrays.keys() <= self._arrays.keys():
            unknown = set(arrays) - set(self._arrays)
            raise KeyError(f"this state has no {', '.join(sorted(unknown))}; it has {', '.join(self._arrays)}")
        self._proposed |= arrays

    def blank(self, name: str) -> Any:
        """An uninitialized array for a proposal: the one that the last commit replaced, which saves an allocation.

        >>> LayerState((2,), residual=np.zeros(2, np.float32)).blank("residual").shape
        (2,)
        """
        replaced = self._replaced.pop(name, None)
        if replaced is not None:
            return replaced
        array = self._arrays[name]
        return operations.of(array).empty_like(array)

    def proposed(self) -> dict[str, Any]:
        """The proposed arrays by name, not copied."""
        return dict(self._proposed)

    def commit(self) -> None:
        """Make the proposed arrays the current ones."""
        if not self._proposed and not self._replaced:
            return
        self._replaced = {name: self._arrays[name] for name in self._proposed}
        self._arrays |= self._proposed
        self._proposed = {}

    def rollback(self) -> None:
        """Discard the proposed arrays."""
        self._proposed = {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the current arrays as numpy arrays, by name, for a checkpoint."""
        return {name: operations.of(array).host(array).copy() for name, array in self._arrays.items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load copies of the arrays of a checkpoint.

        Raises:
            ValueError: as for :meth:`check`.
        """
        self.check(arrays)
        old = self._arrays
        self._arrays = {
            name: operations.of(old[name]).from_host(array.copy(), old[name]) for name, array in arrays.items()
        }
        self._proposed, self._replaced = {}, {}

    def check(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Whether :meth:`load` takes the arrays.

        Raises:
            ValueError: the names, shapes or dtypes differ from those of this state.

        >>> LayerState((2,), residual=np.zeros(2, np.float32)).check({"residual": np.ones(2, np.float32)})
        """
        if set(arrays) != set(self._arrays):
            raise ValueError(f"the checkpoint holds {sorted(arrays)}, this state {sorted(self._arrays)}")
        for name, array in arrays.items():
            old = self._arrays[name]
            shape, dtype = tuple(old.shape), operations.of(old).dtype_name(old)
            if array.shape != shape or array.dtype != dtype:
                raise ValueError(
                    f"{name}: the checkpoint holds {array.dtype} {array.shape}, this state {dtype} {shape}"
                )


class StackedState(LayerState):
    """The states of several learners as one, whose arrays are [learners, …]: their gradients are one array, too.

    Args:
        states: with numpy arrays, one for each learner. They get what is proposed.

    >>> states = [LayerState((2,), residual=np.full(2, value, np.float32)) for value in (1, 2)]
    >>> StackedState(states)["residual"].tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """

    learner_axes: ClassVar[int] = 1

    def __init__(self, states: Sequence[LayerState]) -> None:
        super().__init__(states[0].shape)
        self._states = states

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = np.stack([state[name] for state in self._states])
        return self._arrays[name]

    def blank(self, name: str) -> np.ndarray:
        """An uninitialized array for a proposal."""
        return np.empty_like(self[name])

    def propose(self, **arrays: np.ndarray) -> None:
        """Propose to each state its part."""
        for name, rows in arrays.items():
            for state, row in zip(self._states, rows, strict=True):
                state.propose(**{name: row})


class LayerStates(dict[str, LayerState]):
    """The states of all layers of one learner, by the name of the layer.

    >>> states = LayerStates(w=LayerState((2,), residual=np.zeros(2, np.float32)))
    >>> states["w"].propose(residual=np.ones(2, np.float32))
    >>> states.commit()
    >>> states.arrays()
    {'w': {'residual': array([1., 1.], dtype=float32)}}
    """

    def commit(self) -> None:
        """Make all proposed arrays the current ones."""
        for state in self.values():
            state.commit()

    def rollback(self) -> None:
        """Discard all proposed arrays."""
        for state in self.values():
            state.rollback()

    def arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """Copies of the current arrays as numpy arrays, by layer and name, for a checkpoint."""
        return {name: state.arrays() for name, state in self.items()}

    def load(self, layers: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Load copies of what :meth:`arrays` gives.

        Raises:
            ValueError: other layers, or arrays that do not fit; then nothing has changed.
        """
        if set(layers) != set(self):
            raise ValueError(f"the checkpoint has the layers {sorted(layers)}, this run {sorted(self)}")
        for name, arrays in layers.items():
            self[name].check(arrays)
        for name, arrays in layers.items():
            self[name].load(arrays)
