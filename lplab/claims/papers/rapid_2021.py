"""Venkataramani et al. 2021: what RaPiD sustains in training, and what it does for a watt in inference.

Computed by our model. The paper's own networks are not listed in its abstract, which is what could be read; ours are
those of ``lplab.hardware.workloads`` that fit one chip. Two ends are computed: every norm and activation goes to memory
and back in a pass of its own, or all of them are done on the way ("fused").
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.claim import CheckResult, Numbers, Point, Results
from lplab.claims.framework.compare import join_words
from lplab.hardware import accelerators, compute
from lplab.hardware.footprint.step_energy import BUSY_SHARE, IDLE_SHARE

NETWORKS = ("resnet18", "resnet50", "mobilenetv2", "vgg16", "bert_base", "transformer_base", "lstm_lm")
TRAINING, CHIP = "ibm-rapid-training", "ibm-4core-7nm"
BATCH = 512
INT4_PER_WATT = 16.5e12  # at peak, read in the abstract
PEAK_TFLOPS, MIN_TFLOPS, MEAN_TFLOPS, MAX_TFLOPS = 768.0, 102.0, 203.0, 588.0  # TFLOPS
WATT_LEAST, WATT_MEAN, WATT_MOST = 3.0, 7.0, 13.5  # TOPS/W

POINTS: tuple[Point, ...] = tuple({"network": name, "fused": fused} for name in NETWORKS for fused in (False, True))

claim = ClaimBuilder(
    id="rapid_2021",
    title="Training sustains a quarter of the peak, 102 to 588 of 768 TFLOPS",
    paper=cite("rapid_2021"),
    where="abstract",
    statement="Training in hybrid FP8 on 4 chips of 32 cores, batch 512, sustains 102 to 588 of 768 TFLOPS, 203 in the "
    "mean; INT4 inference at batch 1 does 3 to 13.5 TOPS/W, 7 in the mean.",
    published="102–588, mean 203 of 768 TFLOPS; 3–13.5, mean 7 TOPS/W (read)",
    experiment=f"Our model of every layer, the same at every run: {len(NETWORKS)} networks, weight-stationary arrays "
    "of 8 × 64 as far as products fill them, and two ends: norms and activations each in a pass of their own, or all "
    "on the way. Verdicts are of the first.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=10,
    modelled=True,
    limits="The networks of the paper are not listed where we could read, memory bandwidths are recalled, and the "
    "power that a waiting chip draws is that of H100s.",
)


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


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """TFLOPS of training and TOPS/W of inference."""
    network, fused = point["network"], point["fused"]
    return {
        "teras": round(sustained_teras(network, fused), 6),
        "per_watt": round(teras_per_watt(network, fused), 6),
    }


def _all(results: Results, number: str, fused: bool = False) -> np.ndarray:
    return np.array([results.values(number, network=name, fused=fused)[0] for name in NETWORKS])


@claim.criterion("The mean within a quarter")
def a_quarter_of_the_peak(results: Results) -> CheckResult:
    """The mean over networks is within 25 % of the published mean: about a quarter of the peak."""
    mean = float(_all(results, "teras").mean())
    return CheckResult(
        abs(mean / MEAN_TFLOPS - 1) < 0.25,
        f"Mean over {len(NETWORKS)} networks: {mean:.0f} TFLOPS of {PEAK_TFLOPS:.0f} (published {MEAN_TFLOPS:.0f}): "
        f"{100 * mean / PEAK_TFLOPS:.0f} % of the peak.",
    )


@claim.criterion("All within the published range")
def inside_the_range(results: Results) -> CheckResult:
    """Every network sustains between 102 and 588 TFLOPS."""
    values = _all(results, "teras")
    below = [f"{name} ({value:.0f})" for name, value in zip(NETWORKS, values, strict=True) if value < MIN_TFLOPS]
    text = f"; below are {join_words(below)}" if below else ""
    return CheckResult(
        bool(values.min() >= MIN_TFLOPS and values.max() <= MAX_TFLOPS),
        f"From {values.min():.0f} to {values.max():.0f} TFLOPS (published {MIN_TFLOPS:.0f} to {MAX_TFLOPS:.0f}){text}.",
    )


@claim.criterion("Inference between our two ends")
def inference_lies_between(results: Results) -> CheckResult:
    """The published mean of inference lies between our two ends."""
    apart, fused = (float(_all(results, "per_watt", way).mean()) for way in (False, True))
    return CheckResult(
        apart < WATT_MEAN < fused,
        f"INT4 inference at batch 1, mean: {apart:.1f} TOPS/W if every norm and activation goes to memory and back, "
        f"{fused:.1f} if all are done on the way (published {WATT_MEAN:.0f}; {WATT_LEAST:.0f} to {WATT_MOST}).",
    )


@claim.explanation("What is lost is lost between products")
def memory_decides(results: Results) -> CheckResult:
    """The same networks with all norms and activations on the way: twice as much."""
    apart, fused = (_all(results, "teras", way) for way in (False, True))
    return CheckResult(
        bool((fused > 1.25 * apart).all()),
        f"If norms and activations were done on the way the mean would be {fused.mean():.0f} TFLOPS instead of "
        f"{apart.mean():.0f}: what is lost is lost between the products.",
    )


@claim.explanation("Depthwise convolutions leave arrays empty")
def depthwise_leaves_arrays_empty(results: Results) -> CheckResult:
    """MobileNetV2 is far below all others, in training and in inference, however it is done."""
    place = NETWORKS.index("mobilenetv2")
    numbers = [_all(results, "teras", way) for way in (False, True)]
    others = [np.delete(values, place).min() for values in numbers]
    return CheckResult(
        all(values[place] < least / 3 for values, least in zip(numbers, others, strict=True)),
        f"MobileNetV2 sustains {numbers[0][place]:.0f} TFLOPS ({numbers[1][place]:.0f} with all on the way), the least "
        f"of the others {others[0]:.0f} ({others[1]:.0f}): depthwise products fill a row or two of an array, and stay "
        "in 16 bits.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Ranges and means."""
    teras, watts = _all(results, "teras"), _all(results, "per_watt")
    fused = _all(results, "per_watt", fused=True)
    return (
        f"{teras.min():.0f}–{teras.max():.0f}, mean {teras.mean():.0f} of {PEAK_TFLOPS:.0f} TFLOPS; "
        f"{watts.min():.1f}–{fused.max():.1f} TOPS/W, means {watts.mean():.1f} and {fused.mean():.1f} (model)"
    )


claim.draw(
    "TFLOPS, seven networks",
    lambda results: {"training": _all(results, "teras")},
    {"training": (MIN_TFLOPS, MEAN_TFLOPS, MAX_TFLOPS)},
    axis=(0, PEAK_TFLOPS),
)
claim.draw(
    "TOPS/W of inference, seven networks",
    lambda results: {
        "norms through memory": _all(results, "per_watt"),
        "norms on the way": _all(results, "per_watt", fused=True),
    },
    dict.fromkeys(("norms through memory", "norms on the way"), (WATT_LEAST, WATT_MEAN, WATT_MOST)),
)

RAPID_2021 = claim.build()
