"""Memory of a device in training: weights, master copy, gradients, optimizer state, activations, residuals."""

from __future__ import annotations

from itertools import compress

import numpy as np

from lplab.hardware.network.all_reduce_algorithms import checked_ranks
from lplab.hardware.network.links import Floats
from lplab.hardware.precisions import Precision
from lplab.hardware.traffic import Traffic
from lplab.hardware.workloads import Workload
from lplab.hardware.workloads.workload import checked_batch

OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}
"""Numbers that an optimizer keeps for each weight."""
PARTS = ("weights", "master", "gradients", "optimizer", "activations", "residuals")  # the last: of error feedback


def memory_bytes(
    workload: Workload,
    precision: Precision,
    traffic: Traffic,
    batch: Floats = 1,
    devices: Floats = 1,
    *,
    optimizer: str = "momentum",
    sharded: bool = False,
) -> dict[str, np.ndarray]:
    """Bytes on one device by part, each of the shape to which ``batch`` and ``devices`` broadcast.

    Work space of kernels, fragments and the runtime itself are left out; frameworks add a gigabyte or two.

    Args:
        workload, precision: what is trained, and how.
        traffic: its ``state_bytes`` are those of the compressor.
        batch: examples on a device.
        devices: how many; matters where the optimizer's state is sharded.
        optimizer: one of :data:`OPTIMIZERS`.
        sharded: master weights and optimizer state of one part on each device instead of all on all.

    Raises:
        ValueError: an unknown optimizer, no devices, or a batch or devices that are no whole numbers.

    >>> from lplab.hardware import precisions, traffic, workloads
    >>> resnet, fp32 = workloads.get("resnet50"), precisions.get("fp32")
    >>> found = memory_bytes(resnet, fp32, traffic.traffic(resnet, fp32), batch=32)
    >>> {part: round(float(nbytes) / 1e6) for part, nbytes in found.items()}
    {'weights': 102, 'master': 0, 'gradients': 102, 'optimizer': 102, 'activations': 2871, 'residuals': 0}
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"unknown optimizer {optimizer!r}; allowed: {', '.join(OPTIMIZERS)}")
    count, ranks = float(workload.parameters), checked_ranks(devices)
    parts = ranks if sharded else np.float64(1)
    state = OPTIMIZERS[optimizer] * precision.optimizer_bits / 8
    everywhere = np.zeros(np.broadcast_shapes(np.shape(batch), np.shape(devices)))
    found = {
        "weights": (count + workload.frozen) * precision.weight_bits / 8,
        "master": count * precision.master_bits / 8 / parts,
        "gradients": count * precision.output_bits / 8,
        "optimizer": count * state / parts,
        "activations": activation_bytes(workload, precision) * checked_batch(batch),
        "residuals": traffic.state_bytes.sum() * (ranks > 1),
    }
    return {part: nbytes + everywhere for part, nbytes in found.items()}


def activation_bytes(workload: Workload, precision: Precision) -> float:
    """Bytes of one example that the backward pass needs.

    The results of products are stored in ``output_bits``, their inputs in ``activation_bits``. ReLU, softmax and
    additions are in place. Frozen layers store nothing, but where a layer behind needs its input.

    >>> from lplab.hardware import precisions, workloads
    >>> round(activation_bytes(workloads.get("resnet50"), precisions.get("fp32")) / 1e6)
    90
    """
    total = 0.0
    backward = np.logical_or(*workload.gradients)
    needed = backward | np.append(backward[1:], False)
    for layer in compress(workload.layers, needed):
        in_place = layer.kind in ("softmax", "add") or (layer.kind == "activation" and layer.name.endswith("relu"))
        if not in_place:
            bits = precision.output_bits if layer.has_product else precision.activation_bits
            total += layer.outputs * layer.count * bits / 8
    return total
