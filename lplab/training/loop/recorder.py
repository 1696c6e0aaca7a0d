"""The recorder: what rounding does to every tensor of a training, by layer, role and step.

This module needs PyTorch; what the records are numpy only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from lplab.checks import check_int
from lplab.recordings.magnitudes import BINS, LOWEST, NUMBERS
from lplab.training.emulation.conversion import emulation_of
from lplab.training.emulation.quantized_op import QuantizedOp
from lplab.training.emulation.rounders import Rounded
from lplab.training.loop.tensorboard_events import open_writer, write_events
from lplab.training.recipe.recipe import BACKWARD_OPERANDS, ROLES

RUNNING_MEAN = "running_mean"


@dataclass(frozen=True, eq=False)
class Record:
    """The statistics of one tensor in one step.

    Attributes:
        step, layer, role: of the tensor. Roles are those of a recipe, and "running_mean" for batch norms.
        histogram: int64 [160]: how many magnitudes lay in [2^e, 2^(e + 1)), from e = −96 on, before rounding.
        zeros, not_finite: shares of the elements.
        underflowed: share of the elements other than zero that rounding made zero.
        saturated: share of the elements beyond the largest value of the grid.
        relative_error: ‖rounded − x‖ / ‖x‖ (0 where all is zero).
        bias: mean of (rounded − x)·sign(x), divided by mean |x|: below zero where rounding shrinks.
        largest: the largest finite magnitude before rounding, in the sample.
        scale: the value of one unit of the grid, 1 where there is no scale.
    """

    step: int
    layer: str
    role: str
    histogram: np.ndarray
    zeros: float
    not_finite: float
    underflowed: float
    saturated: float
    relative_error: float
    bias: float
    largest: float
    scale: float


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of one rounding, stored until its step ends: numbers before and after, the limit and the scale."""

    before: np.ndarray
    after: np.ndarray
    limit: float
    scale: float

    @classmethod
    def take(cls, before: Tensor, rounded: Rounded, size: int) -> Sample:
        """Take at most ``size`` elements, evenly spread."""
        flat, values = before.detach().reshape(-1), rounded.values.detach().reshape(-1)
        stride = max(1, -(-flat.numel() // size))
        x, q = (np.array(t[::stride].float().cpu().numpy()) for t in (flat, values))  # copies: relu_() may follow
        scale = rounded.scale
        return cls(
            x,
            q,
            np.inf if rounded.limit is None else float(rounded.limit),
            float(scale if isinstance(scale, float | int) else scale.mean()),
        )


def describe(step: int, layer: str, role: str, before: Tensor, rounded: Rounded, sample: int) -> Record:
    """A record of one rounding, from at most ``sample`` evenly spread elements.

    >>> import torch
    >>> from lplab.training.emulation.rounders import rounder_of
    >>> from lplab.training.recipe.quant_spec import QuantSpec
    >>> x = torch.tensor([1e-9, 0.3, 1000.0, 0.0])
    >>> record = describe(0, "head", "weight", x, rounder_of(QuantSpec("e4m3fn"))(x, 0, 1.0), 100)
    >>> record.zeros, round(record.underflowed, 3), record.saturated
    (0.25, 0.333, 0.25)
    """
    return merge_samples(step, layer, role, [Sample.take(before, rounded, sample)])


def merge_samples(step: int, layer: str, role: str, samples: list[Sample]) -> Record:
    """One record of all roundings of a tensor in a step: of a layer that is used twice, of all times of an LSTM."""
    x, q = (np.concatenate([getattr(part, name) for part in samples]) for name in ("before", "after"))
    limit = np.repeat([part.limit for part in samples], [len(part.before) for part in samples])
    finite = np.isfinite(x)
    if not finite.all():
        x, q, limit = x[finite], q[finite], limit[finite]
    size = np.abs(x)
    nonzero = size > 0
    with np.errstate(over="ignore", invalid="ignore"):
        error = (q - x).astype(np.float64)
        norm = float(np.sqrt(np.square(size, dtype=np.float64).sum()))
        relative = float(np.sqrt(np.square(error).sum())) / norm if norm else 0.0
        bias = float((error * np.sign(x)).sum()) / float(size.sum(dtype=np.float64)) if norm else 0.0
    exponents = np.clip((size[nonzero].view(np.int32) >> 23) - 127 - LOWEST, 0, BINS - 1)
    count, alive = max(len(finite), 1), max(int(nonzero.sum()), 1)
    return Record(
        step=step,
        layer=layer,
        role=role,
        histogram=np.bincount(exponents, minlength=BINS),
        zeros=float((~nonzero).sum()) / count,
        not_finite=float((~finite).sum()) / count,
        underflowed=float((nonzero & (q == 0)).sum()) / alive,
        saturated=float((size > limit).sum()) / count,
        relative_error=relative,
        bias=bias,
        largest=float(size.max()) if size.size else 0.0,
        scale=float(np.mean([part.scale for part in samples])),
    )


class Recorder:
    """Records every ``every``-th step of a training.

    It records operands, output and gradients of every product, under "fp32" as well: one record of each in a step,
    however often the layer was used. Of an LSTM or GRU, "input_l0" and "recurrent_l0" are products of all time steps;
    where nothing is rounded, they are computed again to be recorded, and such a step takes about ten times as long.
    Of ``functional.scaled_dot_product_attention`` it records, where nothing is rounded, only the query, the
    output and its gradient; of a normalization, the running means and what a recipe rounds.

    Args:
        every: 1 records each step and takes about as long as the step itself; with 10 the cost is small.
        sample: at most so many elements of a tensor are used each time, evenly spread.
        roles: which roles; None for all.
        layers: a pattern of names, as in ``"blocks.0.*"``.
        tensorboard: a folder that gets TensorBoard events as well, after each recorded step; None writes none.
            :meth:`write_tensorboard` writes them afterwards.

    Attributes:
        records: a list of :class:`Record`, in the order in which the tensors were first rounded.
        seconds: how long recording has taken so far.

    >>> Recorder(every=5).every
    5
    """

    def __init__(
        self,
        every: int = 10,
        *,
        sample: int = 2**13,
        roles: tuple[str, ...] | None = None,
        layers: str = "*",
        tensorboard: str | Path | None = None,
    ) -> None:
        self.every, self.sample = check_int("every", every, 1, 10**9), check_int("sample", sample, 16, 2**24)
        for role in roles or ():
            allowed = (*ROLES, *BACKWARD_OPERANDS, RUNNING_MEAN)
            if role not in allowed:
                raise ValueError(f"unknown role {role!r}; allowed: {', '.join(allowed)}")
        self.roles, self.layers = roles, layers
        self.records: list[Record] = []
        self.seconds = 0.0
        self._events = None if tensorboard is None else open_writer(tensorboard)

    @contextmanager
    def watching(self, model: nn.Module, step: int) -> Iterator[None]:
        """Record what a quantized model computes within the block, in every ``every``-th step.

        Raises:
            ValueError: the model is not quantized; recipe "fp32" makes one that is plain PyTorch.
        """
        emulation = emulation_of(model)
        if step % self.every:
            yield
            return
        samples: dict[tuple[str, str], list[Sample]] = {}

        def watch(op: QuantizedOp, role: str, before: Tensor, rounded: Rounded) -> None:
            start = time.perf_counter()
            if self._wants(op.name, role):
                samples.setdefault((op.name, role), []).append(Sample.take(before, rounded, self.sample))
            self.seconds += time.perf_counter() - start

        emulation.watch = watch
        try:
            yield
        finally:
            emulation.watch = None
            for op in emulation.ops.values():
                op.watch = None
        start, before = time.perf_counter(), len(self.records)
        self.records += [merge_samples(step, layer, role, parts) for (layer, role), parts in samples.items()]
        self._running_means(model, step)
        if self._events is not None:
            write_events(self._events, self.records[before:])
        self.seconds += time.perf_counter() - start

    def _wants(self, layer: str, role: str) -> bool:
        return (self.roles is None or role in self.roles) and fnmatchcase(layer, self.layers)

    def _running_means(self, model: nn.Module, step: int) -> None:
        for name, module in model.named_modules():
            mean = getattr(module, RUNNING_MEAN, None)
            if isinstance(mean, Tensor) and self._wants(name, RUNNING_MEAN):
                self.records.append(describe(step, name, RUNNING_MEAN, mean, Rounded(mean), self.sample))

    # -- what was recorded ------------------------------------------------------------------------------------

    def names(self) -> list[tuple[str, str]]:
        """Layer and role of everything that was recorded, in the order of their first appearance."""
        return list(dict.fromkeys((record.layer, record.role) for record in self.records))

    def series(self, layer: str, role: str) -> dict[str, np.ndarray]:
        """Everything of one tensor over time: "step" int64 [n], "histogram" int64 [n, 160], the numbers float64 [n].

        There is one entry for each recorded step, of all roundings in it (a layer may be used twice).

        Raises:
            KeyError: nothing of this name was recorded.
        """
        matching = [record for record in self.records if (record.layer, record.role) == (layer, role)]
        if not matching:
            raise KeyError(f"nothing was recorded of {layer!r}, {role!r}; names() lists what was")
        numbers = {name: np.array([getattr(record, name) for record in matching]) for name in NUMBERS}
        steps = np.array([record.step for record in matching])
        return {"step": steps, "histogram": np.stack([record.histogram for record in matching]), **numbers}

    def save(self, path: str | Path) -> Path:
        """Write everything to a .npz file; :meth:`load` reads it."""
        keys = [[record.step, record.layer, record.role] for record in self.records]
        numbers = np.array([[getattr(record, name) for name in NUMBERS] for record in self.records])
        histograms = np.array([record.histogram for record in self.records], np.uint32)
        path = Path(path)
        with path.open("wb") as file:
            np.savez_compressed(file, keys=json.dumps(keys), numbers=numbers, histograms=histograms)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Recorder:
        """Read what :meth:`save` wrote."""
        recorder = cls()
        with np.load(path, allow_pickle=False) as stored:
            parts = json.loads(str(stored["keys"])), stored["numbers"], stored["histograms"]
            for (step, layer, role), numbers, histogram in zip(*parts, strict=True):
                named: dict[str, Any] = dict(zip(NUMBERS, map(float, numbers), strict=True))
                recorder.records.append(Record(step, layer, role, histogram.astype(np.int64), **named))
        return recorder

    def write_tensorboard(self, folder: str | Path) -> Path:
        """Write everything as TensorBoard events into a folder: ``tensorboard --logdir FOLDER`` draws it.

        The tags are ``layer/role/number`` for the numbers of a :class:`Record`, and ``layer/role/log2_magnitude`` for
        the histogram. Needs tensorboard (``pip install "lplab[export]"``).

        Returns:
            The folder.

        Raises:
            ImportError: tensorboard is missing.
        """
        writer = open_writer(folder)
        write_events(writer, self.records)
        writer.close()
        return Path(folder)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and files of a recorder write no events: a writer has an open file and a thread."""
        return {**self.__dict__, "_events": None}

    def __repr__(self) -> str:
        steps = len({record.step for record in self.records})
        return f"Recorder(every={self.every}, {len(self.records)} records of {steps} steps, {self.seconds:.2f} s)"
