"""Recorded trainings with AdaComp: what four learners sent and kept as residual, by layer and for many bin sizes.

The paper, and the stored files, say "residue" for the residual of error feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from lplab.compression import Transfer, compression_ratios
from lplab.compression.adacomp import BIN_BY_KIND
from lplab.compression.ratios import entropy_bound
from lplab.compression.wire.adacomp_wire import HEADER, code_type
from lplab.datasets import data_folder

LEARNERS = 4
DEFAULT_BIN = 500  # of layers that are no convolutions, where the layer decides


def bin_size(layer: str, bin: int | None) -> int:
    """Elements of a bin of a layer: ``bin``, or AdaComp's own choice where that is None.

    >>> bin_size("convolution", None), bin_size("dense", None), bin_size("dense", 20)
    (50, 500, 20)
    """
    return bin or BIN_BY_KIND.get(layer, DEFAULT_BIN)


@dataclass(frozen=True)
class RecordedRatios:
    """Compression ratio of a message against float32, counted in four ways.

    Attributes:
        paper: 8 or 16 bits for each element sent and nothing else; infinite if nothing is sent.
        payload: all bytes of a decodable message, with the scale and the codes of empty bins.
        wire: bytes that a learner puts on the wire, against those of a dense ring all-reduce.
        bound: upper bound of every code that knows only how many elements are sent.
    """

    paper: float
    payload: float
    wire: float
    bound: float


@dataclass(frozen=True, eq=False)
class LayerHistory:
    """One layer over the recorded steps: means over the learners, float32 [points].

    Attributes:
        steps: from 0.
        sent: elements sent.
        empty: bins that send nothing.
        residual, gradient: Euclidean norms; the residual after the step.
        scale: S.
        agreeing: elements sent whose gradient in that step has the sign that is sent.
        size: elements of the layer.
        bin: elements of a bin.
    """

    steps: np.ndarray
    sent: np.ndarray
    empty: np.ndarray
    residual: np.ndarray
    gradient: np.ndarray
    scale: np.ndarray
    agreeing: np.ndarray
    size: int
    bin: int

    @property
    def share(self) -> np.ndarray:
        """Elements sent, of all: float32 [points]."""
        return self.sent / self.size

    def compression_ratios(self, at: int | None = None, learners: int = LEARNERS) -> RecordedRatios:
        """The compression ratios at one recorded point, or of all points together.

        >>> found = adacomp_recording().history("convolution").compression_ratios()
        >>> round(found.paper), round(found.payload), round(found.wire), round(found.bound)
        (65, 62, 31, 81)
        """
        sent, empty = (float(np.mean(x) if at is None else x[at]) for x in (self.sent, self.empty))
        width = code_type(self.bin).itemsize
        message = Transfer("all_gather", HEADER + (sent + empty) * width, sent * width)  # type: ignore[arg-type]  # means
        found, bound = (
            compression_ratios([message], self.size, learners),
            entropy_bound(sent / self.size),
        )
        return RecordedRatios(found.paper, found.payload, found.wire, 32 / bound if bound else np.inf)

    @property
    def residual_ratio(self) -> np.ndarray:
        """Norm of the residual over the norm of that step's gradient, [points]."""
        return self.residual / self.gradient


@dataclass(frozen=True, eq=False)
class BinWindow:
    """The first elements of a layer at one step, of learner 0, before the exchange.

    Attributes:
        residual, gradient: float64 [500], stored in half precision.
        sent: bool [500]: which elements are sent, exactly.
        limit: max|G| of each element's bin, float64 [500].
        scale: S.
        bin: elements of a bin.
    """

    residual: np.ndarray
    gradient: np.ndarray
    sent: np.ndarray
    limit: np.ndarray
    scale: float
    bin: int

    @property
    def total(self) -> np.ndarray:
        """G = residual + gradient."""
        return self.residual + self.gradient


@dataclass(frozen=True, eq=False)
class AdaCompRecording:
    """Trainings that differ in the bin size and in the factor s of the soft threshold.

    Attributes:
        runs: (bin, factor) of each; bin None is 50 for convolutions and 500 for other layers.
        layers: names of those that are compressed.
        sizes: their elements.
        total: parameters of the whole net.
        steps: that were recorded, int64 [points].
        moments: steps with a stored window of elements.
        others: compressors of which only losses are stored.
    """

    runs: tuple[tuple[int | None, float], ...]
    layers: tuple[str, ...]
    sizes: tuple[int, ...]
    total: int
    steps: np.ndarray
    moments: tuple[int, ...]
    others: tuple[str, ...]
    _parts: dict[str, np.ndarray]

    def history(self, layer: str, bin: int | None = None, factor: float = 2.0) -> LayerHistory:
        """One layer of one run.

        Raises:
            ValueError: no such layer or run.

        >>> adacomp_recording().history("dense").share.shape
        (80,)
        """
        i, at = self._run(bin, factor), self._layer(layer)
        sent, empty, residual, gradient, scale, agreeing = self._parts["points"][i, :, at].T
        size, length = self.sizes[at], bin_size(layer, bin)
        return LayerHistory(self.steps, sent, empty, residual, gradient, scale, agreeing, size, length)

    def window(self, layer: str, moment: int, bin: int | None = None, factor: float = 2.0) -> BinWindow:
        """The first 500 elements of a layer at a moment.

        Raises:
            ValueError: no such layer, moment or run.

        >>> int(adacomp_recording().window("convolution", 30).sent.sum()) > 0
        True
        """
        if moment not in self.moments:
            raise ValueError(f"no moment {moment!r}; there are: {', '.join(map(str, self.moments))}")
        where = self._run(bin, factor), self.moments.index(moment), self._layer(layer)
        part = {name: self._parts[name][where] for name in ("residue", "gradient", "unit", "sent", "last")}
        r, g = (part[name].astype(np.float64) * float(part["unit"]) for name in ("residue", "gradient"))
        length = bin_size(layer, bin)
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

        >>> len(adacomp_recording().other("top 1 %")[0])
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
def adacomp_recording() -> AdaCompRecording:
    """240 steps of a small net on the digits under 20 settings (``data/record_adacomp.py`` makes them again).

    >>> adacomp_recording().layers
    ('convolution', 'LSTM, from the rows', 'LSTM, from its state', 'dense')
    """
    with np.load(data_folder() / "residues" / "row_reader.npz", allow_pickle=False) as stored:
        parts = {name: stored[name] for name in stored.files}
    for array in parts.values():
        array.setflags(write=False)
    pairs = zip(parts.pop("bins").tolist(), parts.pop("factors").tolist(), strict=True)
    return AdaCompRecording(
        tuple((bin or None, factor) for bin, factor in pairs),
        tuple(map(str, parts.pop("layers"))),
        tuple(parts.pop("sizes").tolist()),
        int(parts.pop("total")),
        parts.pop("steps"),
        tuple(parts.pop("moments").tolist()),
        tuple(map(str, parts.pop("others"))),
        parts,
    )
