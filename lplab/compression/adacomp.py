"""AdaComp: each bin decides by itself what is worth sending (Chen et al., AAAI 2018, arXiv 1712.02679).

The steps, for one layer with residue r and gradient g: G = r + g; H = r + s·g; the bins are consecutive elements of
G; in each bin m = max |G|; the layer's scale S is the mean of the m; sent are the elements with |H| ≥ m, as
sign(G)·S; the residue keeps G minus what was sent. Our notes on the paper are second-hand; each reading of a doubtful
point is a switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lplab.compression import adacomp_wire, local
from lplab.compression.dense import Dense
from lplab.compression.layer import LayerInfo
from lplab.compression.means import mean_of_messages
from lplab.compression.protocol import Compressor, Context, Gather, Steps, Transfer, checked, size_of
from lplab.compression.state import LayerState

BINS = {"convolution": 50}  # elements a bin; 500 for all other layers
LARGEST_BIN = 2**14 - 1


@dataclass(frozen=True)
class AdaComp(Compressor):
    """Adaptive residual gradient compression.

    Args:
        bin: elements a bin, 1 to 16,383; None: 50 for convolutions and 500 for other layers.
        scale_factor: s; the paper takes 2 and calls 1.5 to 3 fit. 1 sends the maximum of each bin alone ("local
            selection").
        sign_of: "G", or "H" for the other reading: the sign that is sent.
        scale_over: "all" bins or the "nonzero" ones: which maxima the scale is the mean of.
        always_one: whether a bin whose maximum does not pass is made to send it.
        zero_bins: what a bin sends in which G is zero everywhere: "nothing", or "all" of it as +S, as |0| ≥ 0 says
            where nobody minds (A2 of our notes).
        small: "dense" or "compressed": biases, normalization and tensors below 1,024 elements.

    Raises:
        ValueError: a value that is not allowed.

    >>> AdaComp().for_layer(LayerInfo("conv", (64, 64, 3, 3), "convolution")).bin
    50
    """

    bin: int | None = None
    scale_factor: float = 2.0
    sign_of: str = "G"
    scale_over: str = "all"
    always_one: bool = False
    zero_bins: str = "nothing"
    small: str = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bin is not None and not 1 <= self.bin <= LARGEST_BIN:
            raise ValueError(f"bin must be from 1 to {LARGEST_BIN:,} elements, got {self.bin}")
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
        """With the bin of the layer's kind; small tensors go dense unless told otherwise."""
        if layer.is_small and self.small == "dense":
            return Dense()
        return self if self.bin is not None else replace(self, bin=BINS.get(layer.kind, 500))

    def init(self, shape: Sequence[int]) -> LayerState:
        """A residue of zeros."""
        return LayerState(shape, residue=np.zeros(size_of(shape), np.float32))

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        """One gather of packed symbols."""
        length = self._bin()
        found = self._select(checked(gradient, state), state, context)
        state.propose(residue=found.residue)
        payload = adacomp_wire.encode(found.scale, found.indices, found.negative, gradient.size, length)

        def add(total: np.ndarray, each: np.ndarray) -> None:
            message = adacomp_wire.decode(each, gradient.size, length)
            total[message.indices] += message.values()

        average = yield Gather(payload, mean_of_messages(gradient.size, add))
        return average.reshape(gradient.shape)

    def _select(self, gradient: np.ndarray, state: LayerState, context: Context) -> local.Selected:
        """What a learner sends of a flat gradient, and its residue afterwards."""
        return local.adacomp_select(state["residue"], gradient, self, self._bin(), out=state.blank("residue"))

    def plan(self, shape: Sequence[int], activity: adacomp_wire.Activity | None = None) -> tuple[Transfer, ...]:
        """One gather; without ``activity`` as if five elements of each bin were sent, the paper's own example."""
        bins = -(-size_of(shape) // self._bin())
        activity = activity or adacomp_wire.Activity(min(5 * bins, size_of(shape)), 0)
        counted = activity.sent * adacomp_wire.code_type(self._bin()).itemsize
        return (Transfer("gather", adacomp_wire.size_of(activity, self._bin()), counted),)

    def _bin(self) -> int:
        if self.bin is None:
            raise ValueError("AdaComp's bin depends on the layer: take AdaComp(...).for_layer(info), or give bin=")
        return self.bin
