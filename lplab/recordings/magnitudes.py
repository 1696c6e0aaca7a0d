"""Recordings of trainings as files: the magnitudes of every tensor, layer by layer and role by role, over the steps.

A :class:`~lplab.training.Recorder` makes them during a training (``lplab train --record FILE``); reading
them needs no PyTorch. Two ship with lplab, see :func:`recorded`.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lplab.datasets import data_folder

LOWEST, BINS = -96, 160
"""A histogram has a bin for each power of two from 2^−96 to 2^63; magnitudes beyond count in the outermost bins."""
NUMBERS = ("zeros", "not_finite", "underflowed", "saturated", "relative_error", "bias", "largest", "scale")
"""Stored beside the histogram: fields of :class:`~lplab.training.Record`, in this order."""
SHIPPED = ("transformer", "digits_resnet")
MAX_BYTES = 512 << 20  # of a file, unpacked
_PARTS = ("keys", "numbers", "histograms")
_WRITTEN_BY = "recordings are .npz files, written by lplab train --record FILE or Recorder.save"


@dataclass(frozen=True, eq=False)
class MagnitudeCounts:
    """Magnitudes of the elements of a tensor in one step.

    Attributes:
        counts: int64 [160]: elements with magnitudes in [2^e, 2^(e + 1)), from e = −96 on.
        zeros: elements that are zero.
        largest: the largest finite magnitude.
    """

    counts: np.ndarray
    zeros: int
    largest: float

    @property
    def total(self) -> int:
        """Elements that are not zero (and finite)."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """Magnitudes recorded in a training.

    Args:
        keys: step, layer and role of each record, in the order in which the tensors appeared.
        numbers: float64 [records, 8]: ``NUMBERS`` of each.
        histograms: int64 [records, 160], see :class:`MagnitudeCounts`.
        about: what was trained, and how, in a few words.

    Raises:
        ValueError: parts that do not fit together; the message says what is wrong.

    >>> recording = recorded("transformer")
    >>> recording.steps[:3], "head" in recording.layers("output_gradient_dx")
    ((0, 50, 100), True)
    """

    keys: tuple[tuple[int, str, str], ...]
    numbers: np.ndarray
    histograms: np.ndarray
    about: str = ""

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("a recording needs at least one record, got none")
        for key in self.keys:
            if not (len(key) == 3 and isinstance(key[0], int) and key[0] >= 0 and all(map(_text, key[1:]))):
                raise ValueError(f"a record is named by its step, layer and role, got {key!r}")
        wanted = {"numbers": (len(self.keys), len(NUMBERS)), "histograms": (len(self.keys), BINS)}
        for name, shape in wanted.items():
            array = np.asarray(getattr(self, name))
            if array.shape != shape or array.dtype.kind not in "iuf":
                raise ValueError(f"{name} must be numbers of shape {shape}, got {array.dtype} of shape {array.shape}")
            array = array.astype(np.float64 if name == "numbers" else np.int64)
            if name == "histograms" and (array < 0).any():
                raise ValueError("histograms must count from 0 up, got a negative count")
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    # -- what there is ----------------------------------------------------------------------------------------

    @cached_property
    def _rows(self) -> dict[tuple[int, str, str], list[int]]:
        rows: dict[tuple[int, str, str], list[int]] = {}
        for row, key in enumerate(self.keys):
            rows.setdefault(key, []).append(row)
        return rows

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The recorded steps, ascending."""
        return tuple(sorted({step for step, _, _ in self.keys}))

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The recorded roles, such as "weight" and "output_gradient_dx", in the order of their first appearance."""
        return tuple(dict.fromkeys(role for _, _, role in self.keys))

    def layers(self, role: str) -> tuple[str, ...]:
        """The layers of which this role was recorded, from the input to the loss.

        Raises:
            ValueError: no such role.
        """
        if role not in self.roles:
            raise ValueError(f"no role {role!r} was recorded; there are: {', '.join(self.roles)}")
        return self._layers[role]

    @cached_property
    def _layers(self) -> dict[str, tuple[str, ...]]:
        forward = list(dict.fromkeys(layer for _, layer, _ in self.keys))
        there = {(layer, role) for _, layer, role in self.keys}
        return {role: tuple(layer for layer in forward if (layer, role) in there) for role in self.roles}

    # -- what was seen ----------------------------------------------------------------------------------------

    def magnitudes(self, layer: str | None, role: str, step: int) -> MagnitudeCounts:
        """The magnitudes of one tensor in one step; of all layers together for ``layer=None``.

        A tensor that was met several times in a step (a layer that is used twice) counts as one.

        Raises:
            ValueError: no such layer, role or step.

        >>> recorded("transformer").magnitudes("head", "weight", 0).total
        4800
        """
        known = self.layers(role)
        if step not in self.steps:
            raise ValueError(f"step {step!r} was not recorded; steps are {self.steps[0]} to {self.steps[-1]}")
        if layer is not None and layer not in known:
            raise ValueError(f"no {role} of layer {layer!r} was recorded; layers are: {', '.join(known)}")
        wanted = known if layer is None else (layer,)
        rows = [row for name in wanted for row in self._rows.get((step, name, role), ())]
        counts, numbers = self.histograms[rows], self.numbers[rows]
        zero, odd = numbers[:, NUMBERS.index("zeros")], numbers[:, NUMBERS.index("not_finite")]
        alive = np.maximum(1 - zero - odd, 1e-12)
        zeros = np.where(counts.sum(1) > 0, counts.sum(1) * zero / alive, 0)
        largest = numbers[:, NUMBERS.index("largest")]
        return MagnitudeCounts(counts.sum(0), round(float(zeros.sum())), float(largest.max(initial=0.0)))

    def __repr__(self) -> str:
        what = f"{len(self.keys):,} records, steps {self.steps[0]} to {self.steps[-1]}"
        return f"Recording({self.about + ': ' if self.about else ''}{what}; roles: {', '.join(self.roles)})"

    # -- files ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write a .npz file; :meth:`load` reads it. The folder must exist.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = recorded("digits_resnet").save(Path(folder, "mine.npz"))
        ...     Recording.load(path).steps == recorded("digits_resnet").steps
        True
        """
        path = Path(path)
        parts: dict[str, Any] = {"keys": json.dumps(self.keys), "about": self.about}
        with path.open("wb") as file:
            np.savez_compressed(file, **parts, numbers=self.numbers, histograms=self.histograms.astype(np.uint32))
        return path

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a file of :meth:`save` or of ``Recorder.save``; nothing in it is executed.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no recording; the message says why.
        """
        path = Path(path).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path.name} in {path.absolute().parent}")
        try:
            return cls(**_read(path))
        except (ValueError, TypeError, KeyError, OSError, EOFError, zipfile.BadZipFile) as problem:
            why = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise ValueError(f"{path.name} is no recording: {why}; {_WRITTEN_BY}") from None

    @classmethod
    def of(cls, recorder: Any, about: str = "") -> Recording:
        """The records of a :class:`~lplab.training.Recorder` so far."""
        records = recorder.records
        keys = tuple((record.step, record.layer, record.role) for record in records)
        numbers = np.array([[getattr(record, name) for name in NUMBERS] for record in records], np.float64)
        return cls(keys, numbers, np.array([record.histogram for record in records], np.int64), about)


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200


def _read(path: Path) -> dict[str, Any]:
    """The parts of a file, as arguments of :class:`Recording`."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MAX_BYTES:
        raise ValueError(f"it holds {size:,} bytes, allowed are {MAX_BYTES:,}")
    with np.load(path, allow_pickle=False) as stored:
        missing = [name for name in _PARTS if name not in stored]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
        keys, about = json.loads(str(stored["keys"])), str(stored["about"]) if "about" in stored else ""
        parts = {name: stored[name] for name in _PARTS[1:]}
    if not isinstance(keys, list) or not all(isinstance(key, list) for key in keys):
        raise ValueError("its keys are no list of step, layer and role")
    return {"keys": tuple(map(tuple, keys)), "about": about, **parts}


@cache
def recorded(name: str) -> Recording:
    """A recording that ships with lplab: "transformer" or "digits_resnet", in float32 (``data/record.py`` makes them).

    Raises:
        ValueError: no such recording.

    >>> recorded("transformer").about
    'character Transformer in float32, Adam, 16 × 64 characters a step'
    """
    if name not in SHIPPED:
        raise ValueError(f"no recording {name!r} ships with lplab; there are: {', '.join(SHIPPED)}")
    return Recording.load(data_folder() / "recordings" / f"{name}.npz")
