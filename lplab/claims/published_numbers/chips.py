"""Published rates, efficiencies and energies of chips: rows T38 to T51."""

from __future__ import annotations

import numpy as np

from lplab.claims.papers import rapid_2021
from lplab.claims.papers.sun_2020_hardware import MIXES, speed
from lplab.claims.published_numbers.published_number import Published
from lplab.hardware import accelerators, compute, multiplier, operation_costs, systolic

JSSC, RAPID = "Lee et al. 2022, abstract", "Venkataramani et al. 2021, abstract"
IBM = "4 cores of 2 corelets of 8 × 8 elements with 8 lanes, 1.6 GHz"
TRAINED = "seven networks of ours, hybrid FP8, 512 examples a step, arrays filled as they fit, 768 TFLOPS at peak"
INFERRED = "the same networks, INT4, batch 1, 16.5 TOPS/W at peak"


def array_teras(chip: str, lanes: float = 1) -> float:
    """10¹² operations a second from a chip's arrays and clock: rows × columns × arrays × 2 × clock × lanes."""
    accelerator = accelerators.get(chip)
    parts = (accelerator.array_rows, accelerator.array_columns, accelerator.arrays, accelerator.clock_hertz)
    total = 2.0 * lanes
    for part in parts:
        if part is None:
            raise ValueError(f"the table does not say how {chip} is built")
        total *= part
    return total / 1e12


def per_watt(chip: str, peak: str) -> float:
    """10¹² operations a joule at peak and design power."""
    accelerator = accelerators.get(chip)
    if accelerator.power_watts is None:
        raise ValueError(f"the table does not say what {chip} draws")
    return accelerator.peaks[peak] / accelerator.power_watts / 1e12


def sustained(passes: str = rapid_2021.APART) -> np.ndarray:
    """TFLOPS of training, by network: float64 [networks]."""
    return np.array([rapid_2021.sustained_teras(name, passes) for name in rapid_2021.NETWORKS])


def inference(passes: str = rapid_2021.APART) -> np.ndarray:
    """TOPS/W of inference, by network: float64 [networks]."""
    return np.array([rapid_2021.teras_per_watt(name, passes) for name in rapid_2021.NETWORKS])


def _mac_picojoules(teras_per_watt: float) -> float:
    return 2 / teras_per_watt


ROWS: tuple[Published, ...] = (
    Published("T38", "HFP8 peak of IBM's 4-core chip", f"{IBM}; HFP8 twice FP16", 26.2, "TFLOPS", "relative", 0.5, "B",
              JSSC, lambda: array_teras("ibm-4core-7nm", 2), "The structure is recalled; the count agrees with it."),
    Published("T39", "INT4 peak of the same chip", f"{IBM}; INT4 eight times FP16", 104.9, "TOPS", "relative", 0.5, "B",
              JSSC, lambda: array_teras("ibm-4core-7nm", 8)),
    Published("T40", "FP16 peak of IBM's core of 2018", "512 multipliers at 1.5 GHz", 1.5, "TFLOPS", "relative", 3, "B",
              "Fleischer et al. 2018, abstract", lambda: array_teras("ibm-core-2018")),
    Published("T41a", "mean that RaPiD sustains in training", TRAINED, 203, "TFLOPS", "relative", 25, "B", RAPID,
              lambda: float(sustained().mean()), "The paper's networks are not listed where we could read.",
              more=lambda: "With norms and activations done on the way it is "
              f"{sustained(rapid_2021.FUSED).mean():.0f} TFLOPS."),
    Published("T41b", "the least that a network sustains", TRAINED, 102, "TFLOPS", "at least", 0, "B", RAPID,
              lambda: float(sustained().min()), cannot_hold="Ours has MobileNetV2 in it, whose depthwise convolutions "
              "stay in 16 bits and leave most of an array empty. Which networks the paper took is not said where we "
              "could read.",
              more=lambda: f"The least of the others is {np.sort(sustained())[1]:.0f}, ResNet-50, if every norm, ReLU, "
              "addition and rounding goes to memory and back on its own; with all but the norms joined to them it is "
              f"{rapid_2021.sustained_teras('resnet50', rapid_2021.JOINED):.0f}."),
    Published("T41c", "the most that a network sustains", TRAINED, 588, "TFLOPS", "at most", 0, "B", RAPID,
              lambda: float(sustained().max())),
    Published("T42a", "mean efficiency of INT4 inference on RaPiD", INFERRED, 7, "TOPS/W", "relative", 30, "B", RAPID,
              lambda: float(inference().mean()), cannot_hold="Ours is one end: every norm and activation is a pass to "
              "memory and back, at a recalled 200 GB/s. The networks are not the same.",
              more=lambda: "At the other end, all done on the way, it is "
              f"{inference(rapid_2021.FUSED).mean():.1f} TOPS/W: the published mean lies between."),
    Published("T42b", "the least efficient network", INFERRED, 3, "TOPS/W", "at least", 0, "B", RAPID,
              lambda: float(inference().min()), cannot_hold="MobileNetV2 and the LSTM wait for memory at batch 1, with "
              "the multipliers idle; whether the paper has networks like these is not said where we could read."),
    Published("T42c", "the most efficient network", INFERRED, 13.5, "TOPS/W", "at most", 0, "B", RAPID,
              lambda: float(inference().max())),
    Published("T43a", "energy of a multiply-add, HFP8", "3.5 TFLOPS/W", 0.57, "pJ", "relative", 2, "A", RAPID,
              lambda: _mac_picojoules(3.5), "A change of units, used to calibrate, not a prediction."),
    Published("T43b", "energy of a multiply-add, INT4", "16.5 TOPS/W", 0.12, "pJ", "relative", 2, "A", RAPID,
              lambda: _mac_picojoules(16.5), "A change of units, used to calibrate, not a prediction."),
    Published("T44", "peak of TPU v1", "256 × 256 multipliers at 0.7 GHz", 92, "TOPS", "relative", 0.5, "C",
              "Jouppi et al. 2017 (recalled)", lambda: array_teras("tpu-v1")),
    Published("T45", "BF16 peak of H100", "528 tensor cores of 512 multiply-adds, 1.83 GHz", 989, "TFLOPS", "relative",
              0.1, "A", "Lockwood's notes on peak rates", lambda: 528 * 512 * 2 * 1.83e9 / 1e12),
    Published("T46a", "A100 at peak, FP16", "312 TFLOPS, 400 W", 0.78, "TFLOPS/W", "relative", 0.5, "A",
              "ISSCC 2021, comparison", lambda: per_watt("a100", "fp16")),
    Published("T46b", "A100 at peak, INT4", "1,248 TOPS, 400 W", 3.12, "TOPS/W", "relative", 0.5, "A",
              "ISSCC 2021, comparison", lambda: per_watt("a100", "int4")),
    Published("T47", "ridge of H100's roofline, BF16", "989 TFLOPS, 3.35 TB/s", 295, "FLOP/B", "relative", 1, "A",
              "Austin et al. 2025, GPUs", lambda: compute.ridge("h100", "bf16")),
    Published("T48", "cycles of a product on a systolic array", "4 × 4 × 4 on 4 × 4 cells, output stationary", 10, "",
              "exact", 0, "A", "SCALE-Sim, issue 125", lambda: float(systolic.cycles(4, 4, 4, rows=4, columns=4)),
              "SCALE-Sim prints 9: it counts from 0."),
    Published("T49a", "energy of an 8-bit integer product", "quadratic law through 32 bits", 0.2, "pJ", "relative", 5,
              "A", "Horowitz 2014 (second-hand)", lambda: operation_costs.get("int32_multiply").joules / 16 * 1e12),
    Published("T49b", "energy of a 32-bit integer product", "quadratic law through 8 bits", 3.1, "pJ", "relative", 5,
              "A", "Horowitz 2014 (second-hand)", lambda: multiplier.energy_joules(32, 32, "int") * 1e12),
    Published("T51", "density of the 4-bit unit of 2020", "4 products at once on 55 % of the area", 7.3, "×",
              "relative", 5, "C", "Sun et al. 2020: “over 7×”; the parts are recalled",
              lambda: speed(MIXES["INT4/FP4"]), "Products in a given area, not the speed of a training."),
)  # fmt: skip
"""Rows of the table; each computes our value when it is asked."""
