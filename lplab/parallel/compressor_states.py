"""The compressors of a model's layers and their states on one learner: checkpoints and merging.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from lplab.compression import Compressor, LayerInfo, TrafficLog, exchange
from lplab.compression.compressor import all_finite, sum_of_ranks
from lplab.compression.layer_state import LayerStates
from lplab.compression.module_layers import counted_positions, module_infos
from lplab.compression.tensors import tensor_state
from lplab.training.loop.train_eval_mode import eval_mode

VERSION = 1


def layer_infos(model: nn.Module, example: Any = None) -> dict[str, LayerInfo]:
    """A :class:`~lplab.compression.LayerInfo` for each trainable parameter, by its name, in the model's order.

    Args:
        model: any module. A shared parameter counts where it occurs first, one without elements not at all.
        example: an input for one forward pass, which counts how often each convolution uses a weight; without it every
            weight counts as used once.

    >>> [info.kind for info in layer_infos(nn.Sequential(nn.Conv2d(1, 8, 3), nn.Linear(8, 2))).values()]
    ['convolution', 'small', 'dense', 'small']
    """
    with counted_positions(model) as positions:
        if example is not None:
            with torch.no_grad(), eval_mode(model):
                model(example)
    return module_infos(model, positions)


class CompressorStates:
    """The compressor of each layer and its state, of one learner, by parameter name.

    Args:
        compressor: makes the compressor of each layer.
        infos: the layers.
        devices: of the layers whose state is on a device, as tensors; the others have numpy arrays.

    Attributes:
        compressors: of the layers.
        states: of the layers.
        commit, rollback: make all proposed arrays the current ones, or discard them.

    Raises:
        TypeError: not a compressor, for example the name of one.

    >>> from lplab.compression import EFSign
    >>> state = CompressorStates(EFSign(), {"w": LayerInfo("w", (2, 3))})
    >>> state.states["w"]["residual"].shape
    (6,)
    """

    def __init__(
        self, compressor: Compressor, infos: Mapping[str, LayerInfo], devices: Mapping[str, Any] | None = None
    ) -> None:
        if not isinstance(compressor, Compressor):
            raise TypeError(f"a compressor is needed, as lplab.compression.get makes one of a name, got {compressor!r}")
        self.compressor = compressor
        self.compressors = {name: compressor.for_layer(info) for name, info in infos.items()}
        self.states = LayerStates({name: c.init(infos[name].shape) for name, c in self.compressors.items()})
        for name, device in (devices or {}).items():
            self.states[name] = tensor_state(self.compressors[name], infos[name].shape, device)
        self.commit, self.rollback = self.states.commit, self.states.rollback

    def state_dict(self) -> dict[str, Any]:
        """The state to resume from: numpy arrays by layer and name, and the compressor they belong to."""
        return {"version": VERSION, "compressor": repr(self.compressor), "layers": self.states.arrays()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Resume from :meth:`state_dict`, or from the mean of several (:func:`merge_ranks`).

        Raises:
            ValueError: another version, another compressor or other layers; then nothing has changed.
        """
        if saved["version"] != VERSION:
            raise ValueError(f"the checkpoint is of version {saved['version']}, this lplab reads version {VERSION}")
        if saved["compressor"] != repr(self.compressor):
            raise ValueError(f"the checkpoint is of {saved['compressor']}, this run compresses by {self.compressor!r}")
        self.states.load(saved["layers"])


def average_updates(
    states: Mapping[int, CompressorStates], updates: Mapping[int, Mapping[str, np.ndarray]], step: int, seed: int
) -> tuple[dict[str, np.ndarray], TrafficLog]:
    """The averages of what some learners send, by layer, and the log of their messages. The caller commits the states.

    Args:
        states: of these learners, by their numbers.
        updates: float32, by learner and layer; all learners send the same layers.
        step, seed: of the context.

    Raises:
        NotFiniteError: an update, or what is made of it, is not finite; the caller rolls all states back.

    >>> from lplab.compression import Dense
    >>> state = CompressorStates(Dense(), {"w": LayerInfo("w", (2,))})
    >>> updates = {3: {"w": np.array([1, 2], np.float32)}, 5: {"w": np.array([3, 6], np.float32)}}
    >>> averages, sent = average_updates({3: state, 5: state}, updates, step=0, seed=0)
    >>> averages["w"].tolist(), sent.total(rank=5)
    ([2.0, 4.0], 8)
    """
    learners, ledger = list(updates), TrafficLog()
    first = states[learners[0]]
    averages = {
        name: exchange(
            compressor,
            [updates[learner][name] for learner in learners],
            [states[learner].states[name] for learner in learners],
            step=step,
            layer=name,
            seed=seed,
            ledger=ledger,
        )
        for name, compressor in first.compressors.items()
        if name in updates[learners[0]]
    }
    return averages, TrafficLog([entry._replace(rank=learners[entry.rank]) for entry in ledger.entries])


def merge_ranks(saved: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the states of all learners into one for any number of learners: their mean.

    The part of the update still to be applied is the mean of the residuals, which is preserved if each of m learners
    gets the mean of the n before. A run resumed from it is not bit for bit the uninterrupted one.

    Args:
        saved: :meth:`CompressorStates.state_dict` of each learner, or :meth:`hook.HookState.state_dict` of each rank,
            in the order of ranks.

    >>> from lplab.compression import EFSign
    >>> state = CompressorStates(EFSign(), {"w": LayerInfo("w", (2,))})
    >>> one = state.state_dict() | {"layers": {"w": {"residual": np.array([2, 4], np.float32)}}}
    >>> merge_ranks([state.state_dict(), one])["layers"]["w"]["residual"].tolist()
    [1.0, 2.0]
    """
    first = saved[0]
    layers = {
        name: {key: _mean([one["layers"][name][key] for one in saved]) for key in arrays}
        for name, arrays in first["layers"].items()
    }
    no_rank = {key: None for key in ("world", "rank") if key in first}
    return {**first, **no_rank, "layers": layers}


@np.errstate(over="ignore", invalid="ignore")
def _mean(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The mean; where the sum overflows, that of the quotients."""
    count = np.float32(len(arrays))
    total = sum_of_ranks(map(np.asarray, arrays))
    return total / count if all_finite(total) else sum_of_ranks(np.asarray(array) / count for array in arrays)


def as_tensors(saved: Mapping[str, Any]) -> dict[str, Any]:
    """:meth:`CompressorStates.state_dict` with tensors in place of arrays; they share memory.

    >>> as_tensors({"layers": {"w": {"residual": np.zeros(2, np.float32)}}})["layers"]["w"]["residual"]
    tensor([0., 0.])
    """
    return {**saved, "layers": {n: {k: torch.from_numpy(a) for k, a in of.items()} for n, of in _layers(saved)}}


def as_arrays(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of :func:`as_tensors`; tensors may be on any device, and arrays are accepted.

    >>> as_arrays({"layers": {"w": {"residual": torch.ones(2)}}})["layers"]["w"]["residual"]
    array([1., 1.], dtype=float32)
    """
    return {**saved, "layers": {n: {k: _array(a) for k, a in of.items()} for n, of in _layers(saved)}}


def _array(values: Any) -> np.ndarray:
    return values.cpu().numpy() if isinstance(values, torch.Tensor) else values


def _layers(saved: Mapping[str, Any]) -> Any:
    return saved["layers"].items()
