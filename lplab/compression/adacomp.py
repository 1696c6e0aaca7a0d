"""AdaComp: a threshold for each bin of a layer (Chen et al., AAAI 2018, arXiv 1712.02679).

The steps, for one layer with residual r (the paper writes "residue") and gradient g: G = r + g; H = r + s·g; the bins
are consecutive elements of G; in each bin m = max |G|; the layer's scale S is the mean of the m; the elements with
|H| ≥ m are sent as sign(G)·S; the new residual is G minus what was sent. Our notes on the paper are second-hand; each
doubtful point is a switch.

Where numba is installed, the selection from large arrays takes the loops of ``adacomp_loops.py``: fewer passes over
memory, the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from lplab.compression import adacomp_words, arrays
from lplab.compression.arrays import single
from lplab.compression.compressor import (
    CORRECTED,
    AllGather,
    Compressor,
    Context,
    Dense,
    Steps,
    Transfer,
    element_count,
    ensure_finite,
    flat_gradient,
    mean_of_messages,
)
from lplab.compression.layer_info import LayerInfo
from lplab.compression.layer_state import LayerState
from lplab.compression.scalecom import largest_per_chunk
from lplab.compression.wire import adacomp_wire
from lplab.formats import gpu, words

BIN_BY_KIND = {"convolution": 50}  # elements in a bin; 500 for all other layers
MAX_BIN = 2**14 - 1


@dataclass(frozen=True)
class AdaComp(Compressor):
    """Adaptive residual gradient compression.

    Args:
        bin: elements in a bin, 1 to 16,383; None: 50 for convolutions and 500 for other layers.
        scale_factor: s; the paper uses 2 and says that 1.5 to 3 work. 1 sends only the maximum of each bin ("local
            selection").
        sign_of: whose sign is sent: "G", or "H" for the other reading.
        scale_over: whose maxima the scale averages: "all" bins, or the "nonzero" ones.
        always_one: whether a bin whose maximum does not reach the threshold sends it anyway.
        zero_bins: what a bin sends in which G is zero everywhere: "nothing", or "all" elements as +S, which follows
            from |0| ≥ 0 if zero is not an exception (A2 of our notes).
        small: "dense" or "compressed": how biases, normalization and tensors below 1,024 elements are sent.

    Raises:
        ValueError: a setting out of range.

    >>> AdaComp().for_layer(LayerInfo("conv", (64, 64, 3, 3), "convolution")).bin
    50
    """

    takes_tensors: ClassVar[bool] = True
    state_names = ("residual",)

    bin: int | None = None
    scale_factor: float = 2.0
    sign_of: str = "G"
    scale_over: str = "all"
    always_one: bool = False
    zero_bins: str = "nothing"
    small: str = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bin is not None and not 1 <= self.bin <= MAX_BIN:
            raise ValueError(f"bin must be from 1 to {MAX_BIN:,} elements, got {self.bin}")
        if not 1 <= self.scale_factor < np.inf:
            raise ValueError(f"scale_factor must be 1 or more, got {self.scale_factor}")
        allowed = {
            "sign_of": ("G", "H"),
            "scale_over": ("all", "nonzero"),
            "zero_bins": ("nothing", "all"),
            "small": ("dense", "compressed"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise ValueError(f"{name} must be {' or '.join(map(repr, values))}, got {getattr(self, name)!r}")

    def for_layer(self, layer: LayerInfo) -> Compressor:
        """The compressor with the bin of the layer's kind; dense for small tensors unless ``small="compressed"``."""
        if layer.is_small and self.small == "dense":
            return Dense()
        return self if self.bin is not None else replace(self, bin=BIN_BY_KIND.get(layer.kind, 500))

    def steps(self, gradient: Any, state: LayerState, context: Context) -> Steps:
        """Average with one all-gather of packed symbols."""
        length = self._bin()
        selected = self._select(flat_gradient(gradient, state), state, context)
        # The scale is the mean of the largest sums: it is finite if they are.
        ensure_finite(selected.scale, CORRECTED)
        # The sign of H may add the scale to an element from which the sign of G would subtract it.
        if self.sign_of == "H":
            ensure_finite(selected.residual, "the new residual")
        state.propose(residual=selected.residual)
        numel = element_count(gradient.shape)
        payload = adacomp_wire.encode(selected.scale, selected.indices, selected.negative, numel, length)

        def add(total: Any, payload: Any) -> None:
            message = adacomp_wire.decode(payload, numel, length)
            total[message.indices] += message.values()

        average = yield AllGather(payload, mean_of_messages(numel, add))
        return average.reshape(gradient.shape)

    def _select(self, gradient: Any, state: LayerState, context: Context) -> Selection:
        """The elements of a flat gradient that a learner sends, and its new residual."""
        return adacomp_select(state["residual"], gradient, self, self._bin(), out=state.blank("residual"))

    def plan(self, shape: Sequence[int], activity: adacomp_wire.SentCounts | None = None) -> tuple[Transfer, ...]:
        """One all-gather; without ``activity``, five elements from each bin, the paper's own example."""
        bins = -(-element_count(shape) // self._bin())
        activity = activity or adacomp_wire.SentCounts(min(5 * bins, element_count(shape)), 0)
        counted = activity.sent * adacomp_wire.code_type(self._bin()).itemsize
        return (Transfer("all_gather", adacomp_wire.size_of(activity, self._bin()), counted),)

    def _bin(self) -> int:
        if self.bin is None:
            raise ValueError("AdaComp's bin depends on the layer: use AdaComp(...).for_layer(info), or give bin=")
        return self.bin


@dataclass(frozen=True, eq=False)
class Selection:
    """The elements of a layer that AdaComp sends: arrays or tensors.

    Attributes:
        scale: S, float32.
        indices: ascending, int64.
        negative: bool, one for each index.
        residual: after the step, float32.
    """

    scale: Any
    indices: Any
    negative: Any
    residual: Any


def adacomp_select(residual: Any, gradient: Any, settings: AdaComp, bin: int, out: Any = None) -> Selection:
    """AdaComp's steps 1 to 8 for one layer.

    Args:
        residual, gradient: flat float32, not changed.
        settings: an AdaComp.
        bin: elements in a bin.
        out: flat float32 that receives the new residual; None: new memory.
    """
    if arrays.of(gradient).compiles(gradient):
        return adacomp_select_compiled(residual, gradient, settings, bin, out)
    return adacomp_select_arrays(residual, gradient, settings, bin, out)


def adacomp_select_arrays(residual: Any, gradient: Any, settings: AdaComp, bin: int, out: Any = None) -> Selection:
    """:func:`adacomp_select` by operations on whole arrays or tensors; on a GPU a kernel does those on bins."""
    xp, extra = arrays.of(gradient), single(settings.scale_factor - 1)
    total = xp.empty_like(gradient) if out is None else out
    words = _words_for(xp, settings.sign_of == "G", settings.zero_bins == "all")
    found = _select_on_gpu(residual, gradient, settings, extra, bin, total)
    maxima, sent = found or _select_in_bins(xp, words, residual, gradient, extra, bin, settings.always_one, total)
    scale = mean_maximum(maxima, settings.scale_over)
    indices = xp.nonzero(sent)
    signs = total[indices]
    if settings.sign_of == "H":
        signs = words["boosted"](signs, gradient[indices], extra)
    negative = signs < 0
    total[indices] -= xp.where(negative, -scale, scale)
    return Selection(scale, indices, negative, total)


def _select_in_bins(
    xp: Any, words: Any, residual: Any, gradient: Any, extra: float, bin: int, always_one: bool, total: Any
) -> tuple[Any, Any]:
    """Write the sums G to ``total``; the largest |G| of each bin, and which elements are sent."""
    total[:] = residual + gradient
    maxima = xp.bin_maxima(total, bin)
    sent = words["is_sent"](total, words["boosted"](total, gradient, extra), xp.repeat(maxima, bin)[: len(gradient)])
    # The first largest element of each bin that sends nothing and is not all zero.
    if always_one:
        silent = (xp.bincount(xp.nonzero(sent) // bin, len(maxima)) == 0) & (maxima > 0)
        sent[largest_per_chunk(total, bin)[silent]] = True
    return maxima, sent


def _select_on_gpu(
    residual: Any, gradient: Any, settings: AdaComp, extra: float, bin: int, total: Any
) -> tuple[Any, Any] | None:
    """:func:`_select_in_bins` by a kernel, which reads and writes memory once; None where no kernel serves."""
    if isinstance(gradient, np.ndarray) or not gpu.serves(gradient.device):
        return None
    from lplab.compression import gpu_selection

    flags = settings.sign_of == "G", settings.zero_bins == "all", settings.always_one
    return gpu_selection.select(residual, gradient, extra, bin, flags, total)


@cache
def _words_for(xp: Any, sign_of_g: bool, zeros: bool) -> dict[str, Any]:
    """The functions of :mod:`lplab.compression.adacomp_words` for arrays or tensors."""
    names = {"where": xp.where, "abs": abs, "SIGN_OF_G": sign_of_g, "ZEROS": zeros}
    return words.bound(names, functions={name: getattr(adacomp_words, name) for name in adacomp_words.WORDS})


def adacomp_select_compiled(
    residual: np.ndarray, gradient: np.ndarray, settings: AdaComp, bin: int, out: np.ndarray | None = None
) -> Selection:
    """:func:`adacomp_select` by compiled loops, in one pass; needs numba."""
    from lplab.compression import adacomp_loops

    bins = -(-gradient.size // bin)
    maxima = np.empty(bins, np.float32)
    new = np.empty(gradient.size, np.float32) if out is None else out
    indices = np.empty(max(bins, gradient.size // 8), np.int64)
    negative = np.empty(indices.size, np.bool_)
    extra = np.float32(settings.scale_factor - 1)
    switches = settings.sign_of == "G", settings.always_one, settings.zero_bins == "all"
    arguments = residual, gradient, extra, bin, *switches, new, maxima
    sent = adacomp_loops.select(*arguments, indices, negative)
    # More than one element in eight is sent: the needed size is known only now.
    if sent > indices.size:
        indices, negative = np.empty(sent, np.int64), np.empty(sent, np.bool_)
        adacomp_loops.select(*arguments, indices, negative)
    indices, negative = indices[:sent], negative[:sent]
    scale = mean_maximum(maxima, settings.scale_over)
    adacomp_loops.subtract_sent(new, indices, negative, scale)
    return Selection(scale, indices, negative, new)


def mean_maximum(maxima: Any, over: str = "all") -> Any:
    """The mean of the maxima of all bins or of the nonzero ones: summed in float64, rounded once to float32.

    >>> float(mean_maximum(np.array([3, 0], np.float32))), float(mean_maximum(np.array([3, 0], np.float32), "nonzero"))
    (1.5, 3.0)
    """
    xp = arrays.of(maxima)
    counted = len(maxima) if over == "all" else xp.count(maxima)
    return xp.rounded_sums(maxima, lambda total: xp.cast(xp.divided(total, max(counted, 1)), "float32"))
