"""What was sent and what stayed: four learners under AdaComp, layer by layer, recorded for many lengths of the bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from lplab.compression import Transfer, rates
from lplab.compression.adacomp import BINS
from lplab.compression.adacomp_wire import HEADER, code_type
from lplab.datasets import data_folder

LEARNERS = 4
BIN = 500  # of layers that are no convolutions, where the layer decides


def bin_of(layer: str, bin: int | None) -> int:
    """Elements of a bin of a layer: ``bin``, or AdaComp's own choice where that is None.

    >>> bin_of("convolution", None), bin_of("dense", None), bin_of("dense", 20)
    (50, 500, 20)
    """
    return bin or BINS.get(layer, BIN)


@dataclass(frozen=True)
class Counted:
    """How many times smaller than float32 a message is, counted in four ways.

    Attributes:
        paper: 8 or 16 bits for each element sent and nothing else; infinite if nothing is sent.
        payload: all bytes of a message that can be decoded: the scale, and codes for empty bins, too.
        wire: bytes that a learner puts on the wire, against those of a dense ring all-reduce.
        bound: what no code can beat that knows only how many elements are sent.
    """

    paper: float
    payload: float
    wire: float
    bound: float


@dataclass(frozen=True, eq=False)
class Course:
    """A layer over the recorded steps, each number a mean over the learners, float32 [points].

    Attributes:
        steps: from 0.
        sent: elements sent.
        empty: bins that send nothing.
        residue, gradient: Euclidean lengths; the residue after the step.
        scale: S.
        agreeing: elements sent whose gradient of that step has the sign that is sent.
        size: elements of the layer.
        bin: elements of a bin.
    """

    steps: np.ndarray
    sent: np.ndarray
    empty: np.ndarray
    residue: np.ndarray
    gradient: np.ndarray
    scale: np.ndarray
    agreeing: np.ndarray
    size: int
    bin: int

    @property
    def share(self) -> np.ndarray:
        """Elements sent, of all: float32 [points]."""
        return self.sent / self.size

    def counted(self, at: int | None = None, learners: int = LEARNERS) -> Counted:
        """The rates of one recorded point, or of all points together.

        >>> found = residue_recording().course("convolution").counted()
        >>> round(found.paper), round(found.payload), round(found.wire), round(found.bound)
        (65, 62, 31, 81)
        """
        sent, empty = (float(np.mean(x) if at is None else x[at]) for x in (self.sent, self.empty))
        width = code_type(self.bin).itemsize
        message = Transfer("gather", HEADER + (sent + empty) * width, sent * width)  # type: ignore[arg-type]  # means
        found, bound = rates.rates([message], self.size, learners), rates.entropy_bound(sent / self.size)
        return Counted(found.paper, found.payload, found.wire, 32 / bound if bound else np.inf)

    @property
    def held(self) -> np.ndarray:
        """The residue in gradients of that step: the ratio of their lengths, [points]."""
        return self.residue / self.gradient


@dataclass(frozen=True, eq=False)
class BinWindow:
    """The first elements of a layer at one moment, seen by learner 0 before the step.

    Attributes:
        residue, gradient: float64 [500], kept in half precision.
        sent: bool [500]: which elements are sent, exactly.
        limit: max|G| of each element's bin, float64 [500].
        scale: S.
        bin: elements of a bin.
    """

    residue: np.ndarray
    gradient: np.ndarray
    sent: np.ndarray
    limit: np.ndarray
    scale: float
    bin: int

    @property
    def total(self) -> np.ndarray:
        """G = residue + gradient."""
        return self.residue + self.gradient


@dataclass(frozen=True, eq=False)
class ResidueRecording:
    """Trainings that differ in the length of the bins and in the factor s of the soft threshold.

    Attributes:
        runs: (bin, factor) of each; bin None is 50 for convolutions and 500 for other layers.
        layers: names of those that are compressed.
        sizes: their elements.
        total: parameters of the whole net.
        steps: that were recorded, int64 [points].
        moments: steps of which a window of elements is kept.
        others: compressors of which only losses are kept.
    """

    runs: tuple[tuple[int | None, float], ...]
    layers: tuple[str, ...]
    sizes: tuple[int, ...]
    total: int
    steps: np.ndarray
    moments: tuple[int, ...]
    others: tuple[str, ...]
    _parts: dict[str, np.ndarray]

    def course(self, layer: str, bin: int | None = None, factor: float = 2.0) -> Course:
        """One layer of one run.

        Raises:
            ValueError: no such layer or run.

        >>> residue_recording().course("dense").share.shape
        (80,)
        """
        i, at = self._run(bin, factor), self._layer(layer)
        sent, empty, residue, gradient, scale, agreeing = self._parts["points"][i, :, at].T
        size, length = self.sizes[at], bin_of(layer, bin)
        return Course(self.steps, sent, empty, residue, gradient, scale, agreeing, size, length)

    def window(self, layer: str, moment: int, bin: int | None = None, factor: float = 2.0) -> BinWindow:
        """The first 500 elements of a layer at a moment.

        Raises:
            ValueError: no such layer, moment or run.

        >>> int(residue_recording().window("convolution", 30).sent.sum()) > 0
        True
        """
        if moment not in self.moments:
            raise ValueError(f"no moment {moment!r}; there are: {', '.join(map(str, self.moments))}")
        where = self._run(bin, factor), self.moments.index(moment), self._layer(layer)
        part = {name: self._parts[name][where] for name in ("residue", "gradient", "unit", "sent", "last")}
        r, g = (part[name].astype(np.float64) * float(part["unit"]) for name in ("residue", "gradient"))
        length = bin_of(layer, bin)
        maxima = np.maximum.reduceat(np.abs(r + g), np.arange(0, r.size, length))
        maxima[-1] = part["last"]  # its bin may go on beyond the window
        sent = np.unpackbits(part["sent"], count=r.size).astype(bool)
        scale = float(self._parts["window_scale"][where])
        return BinWindow(r, g, sent, np.repeat(maxima, length)[: r.size], scale, length)

    def losses(self, bin: int | None = None, factor: float = 2.0) -> np.ndarray:
        """Training losses, mean over the learners, of every step: float32 [steps]."""
        return self._parts["losses"][self._run(bin, factor)]

    def error(self, bin: int | None = None, factor: float = 2.0) -> float:
        """Share of the test digits that are wrong after the last step."""
        return float(self._parts["error"][self._run(bin, factor)])

    def other(self, name: str = "dense") -> tuple[np.ndarray, float]:
        """Losses of every step and the test error of the same training with another compressor.

        Args:
            name: "dense", without compression; "top 1 %", the largest of each layer; or "top 1 %, no residue".

        Raises:
            ValueError: none of these.

        >>> len(residue_recording().other("top 1 %")[0])
        240
        """
        if name not in self.others:
            raise ValueError(f"no run {name!r}; there are: {'; '.join(self.others)}")
        i = self.others.index(name)
        return self._parts["other_losses"][i], float(self._parts["other_errors"][i])

    def _run(self, bin: int | None, factor: float) -> int:
        if (bin, factor) not in self.runs:
            bins = ", ".join(dict.fromkeys(str(known) for known, _ in self.runs))
            raise ValueError(f"no run with bin {bin!r} and factor {factor!r}; bins: {bins}; factors: 1 and 2")
        return self.runs.index((bin, factor))

    def _layer(self, layer: str) -> int:
        if layer not in self.layers:
            raise ValueError(f"no layer {layer!r}; there are: {'; '.join(self.layers)}")
        return self.layers.index(layer)


@cache
def residue_recording() -> ResidueRecording:
    """240 steps of a small net on the digits under 20 settings (``data/record_residues.py`` makes them again).

    >>> residue_recording().layers
    ('convolution', 'LSTM, from the rows', 'LSTM, from its state', 'dense')
    """
    with np.load(data_folder() / "residues" / "row_reader.npz", allow_pickle=False) as stored:
        parts = {name: stored[name] for name in stored.files}
    for array in parts.values():
        array.setflags(write=False)
    pairs = zip(parts.pop("bins").tolist(), parts.pop("factors").tolist(), strict=True)
    return ResidueRecording(
        tuple((bin or None, factor) for bin, factor in pairs),
        tuple(map(str, parts.pop("layers"))),
        tuple(parts.pop("sizes").tolist()),
        int(parts.pop("total")),
        parts.pop("steps"),
        tuple(parts.pop("moments").tolist()),
        tuple(map(str, parts.pop("others"))),
        parts,
    )
