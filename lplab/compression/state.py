"""What a compressor remembers of one layer: residues and the like, with commit and roll back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


class LayerState:
    """Arrays by name that belong to one layer of one learner.

    A step proposes new arrays; nothing changes until :meth:`commit`. If any learner meets NaN, all of them
    :meth:`rollback`, and the step has not happened. What ``state[name]`` gives may be written over in the step after
    the next (see :meth:`blank`): whoever keeps it longer takes :meth:`arrays`.

    Args:
        shape: of the layer's gradient.
        **arrays: what is remembered; float32 for residues.

    >>> state = LayerState((2,), residue=np.zeros(2, np.float32))
    >>> state.propose(residue=np.ones(2, np.float32))
    >>> state["residue"].tolist()
    [0.0, 0.0]
    >>> state.commit()
    >>> state["residue"].tolist()
    [1.0, 1.0]
    """

    def __init__(self, shape: Sequence[int], **arrays: np.ndarray) -> None:
        self.shape = tuple(shape)
        self._arrays = arrays
        self._proposed: dict[str, np.ndarray] = {}
        self._replaced: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def __repr__(self) -> str:
        return f"LayerState(shape={self.shape}, {', '.join(self._arrays) or 'nothing remembered'})"

    def propose(self, **arrays: np.ndarray) -> None:
        """What the arrays shall be once the step is sure; they must not be changed afterwards.

        Raises:
            KeyError: a name that this state does not have.
        """
        unknown = set(arrays) - set(self._arrays)
        if unknown:
            raise KeyError(f"this state has no {', '.join(sorted(unknown))}; it has {', '.join(self._arrays)}")
        self._proposed |= arrays

    def blank(self, name: str) -> np.ndarray:
        """An array to write a proposal into: the one that the last commit replaced, since new memory is slow.

        >>> LayerState((2,), residue=np.zeros(2, np.float32)).blank("residue").shape
        (2,)
        """
        replaced = self._replaced.pop(name, None)
        return np.empty_like(self._arrays[name]) if replaced is None else replaced

    def commit(self) -> None:
        """Make the proposed arrays the current ones."""
        self._replaced = {name: self._arrays[name] for name in self._proposed}
        self._arrays |= self._proposed
        self._proposed = {}

    def rollback(self) -> None:
        """Forget what was proposed."""
        self._proposed = {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of the current arrays, by name: what a checkpoint holds."""
        return {name: array.copy() for name, array in self._arrays.items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take arrays from a checkpoint (copied).

        Raises:
            ValueError: other names, shapes or dtypes than this state has.
        """
        if set(arrays) != set(self._arrays):
            raise ValueError(f"the checkpoint holds {sorted(arrays)}, this state {sorted(self._arrays)}")
        for name, array in arrays.items():
            old = self._arrays[name]
            if array.shape != old.shape or array.dtype != old.dtype:
                raise ValueError(
                    f"{name}: the checkpoint holds {array.dtype} {array.shape}, this state {old.dtype} {old.shape}"
                )
        self._arrays = {name: array.copy() for name, array in arrays.items()}
        self._proposed, self._replaced = {}, {}
