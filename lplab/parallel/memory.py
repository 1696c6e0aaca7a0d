"""What all learners remember of all layers: commit and roll back together, checkpoints, and a change of their number.

This module needs no PyTorch: states are numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lplab.compression import Compressor, LayerInfo, LayerState

VERSION = 1


class Memory:
    """The states of one learner, keyed by the name of the parameter.

    Args:
        compressor: decides for each layer how it is compressed.
        infos: the layers.

    Raises:
        TypeError: no compressor, as its name.

    >>> from lplab.compression import EFSign
    >>> memory = Memory(EFSign(), {"w": LayerInfo("w", (2, 3))})
    >>> memory.states["w"]["residue"].shape
    (6,)
    """

    def __init__(self, compressor: Compressor, infos: Mapping[str, LayerInfo]) -> None:
        if not isinstance(compressor, Compressor):
            raise TypeError(f"a compressor is needed, as lplab.compression.get makes one of a name, got {compressor!r}")
        self.compressor = compressor
        self.compressors = {name: compressor.for_layer(info) for name, info in infos.items()}
        self.states: dict[str, LayerState] = {n: c.init(infos[n].shape) for n, c in self.compressors.items()}

    def commit(self) -> None:
        """What all states proposed is now what they remember."""
        for state in self.states.values():
            state.commit()

    def rollback(self) -> None:
        """What all states proposed is forgotten."""
        for state in self.states.values():
            state.rollback()

    def state_dict(self) -> dict[str, Any]:
        """Everything to go on with: numpy arrays by layer and name, and the settings they belong to."""
        layers = {name: state.arrays() for name, state in self.states.items()}
        return {"version": VERSION, "compressor": repr(self.compressor), "layers": layers}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from :meth:`state_dict`, or from the mean of several (:func:`portable`).

        Raises:
            ValueError: another version, another compressor or other layers.
        """
        if saved["version"] != VERSION:
            raise ValueError(f"the checkpoint is of version {saved['version']}, this lplab reads version {VERSION}")
        if saved["compressor"] != repr(self.compressor):
            raise ValueError(f"the checkpoint is of {saved['compressor']}, this run compresses by {self.compressor!r}")
        if set(saved["layers"]) != set(self.states):
            raise ValueError(f"the checkpoint has the layers {sorted(saved['layers'])}, this run {sorted(self.states)}")
        for name, arrays in saved["layers"].items():
            self.states[name].load(arrays)


def portable(saved: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One state for any number of learners: the mean of what each of them remembers.

    What is still to be applied is the mean of the residues: if each of m learners holds the mean of the n before,
    that stays so. From here on a run is no longer bit for bit the one that went on.

    Args:
        saved: :meth:`Memory.state_dict` of each learner, or :meth:`HookState.state_dict` of each rank, in the order of
            ranks.

    >>> from lplab.compression import EFSign
    >>> memory = Memory(EFSign(), {"w": LayerInfo("w", (2,))})
    >>> one = memory.state_dict() | {"layers": {"w": {"residue": np.array([2, 4], np.float32)}}}
    >>> portable([memory.state_dict(), one])["layers"]["w"]["residue"].tolist()
    [1.0, 2.0]
    """
    first = saved[0]
    layers = {
        name: {key: _mean([one["layers"][name][key] for one in saved]) for key in arrays}
        for name, arrays in first["layers"].items()
    }
    nobodys = {key: None for key in ("world", "rank") if key in first}
    return {**first, **nobodys, "layers": layers}


def _mean(arrays: Sequence[np.ndarray]) -> np.ndarray:
    total = np.asarray(arrays[0]).copy()
    for array in arrays[1:]:
        total += np.asarray(array)
    return total / np.float32(len(arrays))
