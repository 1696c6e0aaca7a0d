"""What learners send each other for one step of a workload: bytes of each layer, as a compressor's own ``plan()`` says.

Without a compressor the gradient goes as the precision says: 32 or 16 bits a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from lplab import compression
from lplab.compression import Compressor, LayerInfo
from lplab.compression.layer_info import mark_first, parameter_info
from lplab.hardware.network.all_reduce_algorithms import checked_ranks
from lplab.hardware.network.links import Floats
from lplab.hardware.precisions import Precision
from lplab.hardware.workloads import Layer, Workload

KINDS = {"conv": "convolution", "linear": "dense", "embedding": "embedding"}  # ours, and LayerInfo's
PROBE = 2**16  # elements: the state of larger tensors is extrapolated


@dataclass(frozen=True)
class Traffic:
    """The requests of one step, layer by layer.

    Attributes:
        kinds: of each request, "all_reduce", "all_gather" or "broadcast"; a compressor makes up to two for a layer.
        payload_bytes: what a device puts into each: float64 [layers, requests].
        state_bytes: state of the compressor, mostly residuals: float64 [layers], on each device.
        compressed: whether a compressor works on the gradient at all.
    """

    kinds: tuple[str, ...]
    payload_bytes: np.ndarray
    state_bytes: np.ndarray
    compressed: bool

    def sent_bytes(self, devices: Floats, *, halved: bool = False) -> np.ndarray:
        """Bytes that a device sends in a step on average, as rings send them: float64, of the shape of ``devices``.

        The same factors as in :func:`lplab.compression.ratios.wire_bytes`. ``halved``: sums are only
        scattered, not gathered again, as with sharded updates.
        """
        p = checked_ranks(devices)
        factors = {"all_reduce": (1 if halved else 2) * (p - 1) / p, "all_gather": p - 1, "broadcast": (p - 1) / p}
        payloads = self.payload_bytes.sum(axis=0)
        return sum(
            (factors[kind] * nbytes for kind, nbytes in zip(self.kinds, payloads, strict=True)), np.zeros_like(p)
        )


def compressor_of(name: str | Compressor | None) -> Compressor | None:
    """A compressor by its name as it is typed, "topk:density=0.01"; None and "none" for none.

    Raises:
        ValueError: an unknown name or setting, or neither text nor compressor.

    >>> compressor_of("scalecom")
    ScaleCom(chunk=None, beta=1.0, m=1, wire='fp32', small='dense')
    """
    if name is None or name == "none":
        return None
    if not isinstance(name, str | Compressor):
        raise ValueError(f"a compressor is text such as 'topk:density=0.01', or an object, got {name!r}")
    return compression.get(name) if isinstance(name, str) else name


@lru_cache(maxsize=256)
def traffic(workload: Workload, precision: Precision, compressor: Compressor | None = None) -> Traffic:
    """What a device sends for one step.

    Args:
        workload: its layers.
        precision: says how many bits a gradient has on the wire if there is no compressor.
        compressor: from :mod:`lplab.compression`.

    >>> from lplab.hardware import precisions, workloads
    >>> dense = traffic(workloads.get("resnet50"), precisions.get("fp32"))
    >>> int(dense.payload_bytes.sum()) == 4 * 25_557_032
    True
    """
    if compressor is None:
        sizes = np.array([_trained(layer) for layer in workload.layers], np.float64)
        return Traffic(("all_reduce",), sizes[:, None] * precision.gradient_wire_bits / 8, np.zeros(len(sizes)), False)
    known: dict[tuple[Any, ...], tuple[dict[tuple[int, str], int], float]] = {}
    requests: list[dict[tuple[int, str], float]] = []
    states = np.zeros(len(workload.layers))
    for i, (layer, tensors) in enumerate(zip(workload.layers, tensors_of(workload), strict=True)):
        here: dict[tuple[int, str], float] = {}
        for info in tensors:
            alike = (info.shape, info.kind, info.weight_reuse, info.first)
            if alike not in known:
                known[alike] = _plan_and_state(compressor, info)
            plan, state = known[alike]
            for request, nbytes in plan.items():
                here[request] = here.get(request, 0.0) + layer.count * nbytes
            states[i] += layer.count * state
        requests.append(here)
    order = ("broadcast", "all_gather", "all_reduce")  # of the requests that a bucket's layers make at the same time
    columns = sorted({request for here in requests for request in here}, key=lambda r: (r[0], order.index(r[1])))
    columns = columns or [(0, "all_reduce")]  # nothing is trained
    payloads = np.array([[here.get(column, 0.0) for column in columns] for here in requests])
    return Traffic(tuple(kind for _, kind in columns), payloads, states, not isinstance(compressor, compression.Dense))


def tensors_of(workload: Workload) -> list[list[LayerInfo]]:
    """The parameters of each layer as compressors see them, the first layer marked; none where weights are shared.

    A network that was recorded from a module has those that a training compresses. Of a layer that gives its sizes
    alone these are the matrix or kernel, and what is left, as a vector.

    >>> layer = Layer("fc", "linear", m=1, n=10, k=512, weights=5130)
    >>> [[(info.kind, info.shape, info.first) for info in found] for found in tensors_of(Workload("", "", (layer,)))]
    [[('dense', (10, 512), True), ('small', (10,), False)]]
    """
    parameters = [_parameters(layer, workload.tokens) for layer in workload.layers]
    every = [info for infos in parameters for info in infos]
    marked = iter(every if any(info.first for info in every) else mark_first(every))
    return [list(islice(marked, len(infos))) for infos in parameters]


def _parameters(layer: Layer, tokens: int) -> list[LayerInfo]:
    if layer.tensors or layer.shared:
        return [] if layer.shared else list(layer.tensors)
    shapes, rest = [], layer.weights
    shape = _matrix(layer, tokens)
    if shape is not None:
        shapes.append(parameter_info(layer.name, shape, KINDS[layer.kind], layer.m if layer.kind == "conv" else 1))
        rest -= prod(shape)
    return [*shapes, parameter_info(layer.name, (rest,), "dense")] if rest else shapes


def _matrix(layer: Layer, tokens: int) -> tuple[int, int] | None:
    """Rows and columns of the kernel, matrix or embedding; None where there is none."""
    weights = layer.weights
    if layer.kind == "embedding":
        width = max(layer.outputs // tokens, 1)
        return (weights // width, width) if weights and weights % width == 0 else None
    rows = layer.n * layer.groups
    return (rows, layer.k) if layer.kind in KINDS and 0 < rows * layer.k <= weights else None


def _trained(layer: Layer) -> int:
    return 0 if layer.shared else layer.weights * layer.count


def _plan_and_state(compressor: Compressor, info: LayerInfo) -> tuple[dict[tuple[int, str], int], float]:
    """Bytes that the compressor sends for one tensor, by number and kind of the request, and bytes of its state."""
    own = compressor.for_layer(info)
    plan = {(i, transfer.kind): transfer.payload_bytes for i, transfer in enumerate(own.plan(info.shape))}
    return plan, _state_bytes(own, info.shape)


def _state_bytes(compressor: Compressor, shape: tuple[int, ...]) -> float:
    """Bytes of state for a tensor; for a large one extrapolated from two smaller ones, linearly in its rows."""
    rows = max(8, PROBE // prod(shape[1:]))
    if shape[0] <= rows:
        return _array_bytes(compressor, shape)
    one, two = (_array_bytes(compressor, (n, *shape[1:])) for n in (rows // 2, rows // 2 * 2))
    return one + (two - one) * (shape[0] - rows // 2) / (rows // 2)


def _array_bytes(compressor: Compressor, shape: tuple[int, ...]) -> float:
    return float(sum(array.nbytes for array in compressor.init(shape).arrays().values()))
