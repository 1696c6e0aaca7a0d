"""IBM's RaPiD by our model: what seven networks sustain in training, and what they do for a watt in inference.

The paper's own networks are not listed in its abstract, which is what could be read; ours are those of
``lplab.hardware.workloads`` that fit one chip. Two ends are computed: every norm and activation goes to memory and back
in a pass of its own, or all of them are done on the way ("fused").
"""

from __future__ import annotations

from lplab.hardware import accelerators, compute
from lplab.hardware.footprint.step_energy import BUSY_SHARE, IDLE_SHARE

NETWORKS = ("resnet18", "resnet50", "mobilenetv2", "vgg16", "bert_base", "transformer_base", "lstm_lm")
TRAINING, CHIP = "ibm-rapid-training", "ibm-4core-7nm"
BATCH = 512
INT4_PER_WATT = 16.5e12  # at peak, read in the abstract


def sustained_teras(network: str, fused: bool = False) -> float:
    """10¹² operations a second of a training step in hybrid FP8, batch 512, on 4 chips of 32 cores.

    >>> sustained_teras("mobilenetv2") < sustained_teras("resnet50") < sustained_teras("vgg16")
    True
    """
    times = compute.layer_times(network, TRAINING, "hfp8_2019", BATCH, utilization="array", fused=fused)
    return float(times.sustained_ops_per_second) / 1e12


def teras_per_watt(network: str, fused: bool = False) -> float:
    """10¹² operations a joule of inference in INT4, batch 1, on the chip of 4 cores.

    The chip draws what 16.5 TOPS/W at peak says while all multipliers work; of that, the share that H100s draw while
    they wait is drawn all the time.
    """
    chip = accelerators.get(CHIP)
    times = compute.layer_times(network, chip, "int4", 1, utilization="array", fused=fused)
    operations, busy_watts = float(times.flops.sum()), chip.peaks["int4"] / INT4_PER_WATT
    idle_watts = busy_watts * IDLE_SHARE / BUSY_SHARE
    joules = idle_watts * times.step_seconds + (busy_watts - idle_watts) * operations / chip.peaks["int4"]
    return operations / joules / 1e12
