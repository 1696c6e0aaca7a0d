"""Venkataramani et al. 2021: what RaPiD sustains in training, and what it does for a watt in inference.

Computed by our model. The paper's own networks are not listed in its abstract, which is what could be read; ours are
those of ``lplab.hardware.workloads`` that fit one chip. How much of the work between products is a pass of its own, to
memory and back, is not said either: the model is asked at three ways to do it (:data:`PASSES`), two of them its ends.
"""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import MEAN
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.hardware import accelerators, compute
from lplab.hardware.footprint.step_energy import BUSY_SHARE, IDLE_SHARE
from lplab.hardware.layer_times import LayerTimes

DEPTHWISE = "mobilenetv2"
ORDINARY = ("resnet18", "resnet50", "vgg16", "bert_base", "transformer_base", "lstm_lm")  # none is depthwise
NETWORKS = (*ORDINARY[:2], DEPTHWISE, *ORDINARY[2:])
TRAINING, CHIP = "ibm-rapid-training", "ibm-4core-7nm"
BATCH = 512
APART, JOINED, FUSED = PASSES = ("each in a pass", "joined to the norms", "all on the way")
DRAWN = {"in separate passes": APART, "fused into the norms": JOINED, "all fused": FUSED}  # in the words of lab 11
POINTWISE = ("activation", "add")  # kinds of layers whose outputs depend on one position of their inputs
INT4_PER_WATT = 16.5e12  # at peak, read in the abstract
PEAK_TFLOPS, MIN_TFLOPS, MEAN_TFLOPS, MAX_TFLOPS = 768.0, 102.0, 203.0, 588.0  # TFLOPS
WATT_LEAST, WATT_MEAN, WATT_MOST = 3.0, 7.0, 13.5  # TOPS/W

POINTS: tuple[Point, ...] = tuple({"network": name, "passes": passes} for name in NETWORKS for passes in PASSES)

claim = ClaimBuilder(
    id="rapid_2021",
    version=2,
    title="Training sustains a quarter of the peak, 102 to 588 of 768 TFLOPS",
    paper=cite("rapid_2021"),
    where="abstract",
    statement="Training in hybrid FP8 on 4 chips of 32 cores, batch 512, sustains 102 to 588 of 768 TFLOPS, 203 in the "
    "mean; INT4 inference at batch 1 does 3 to 13.5 TOPS/W, 7 in the mean.",
    published="102–588, mean 203 of 768 TFLOPS; 3–13.5, mean 7 TOPS/W (read)",
    experiment=f"Our model of every layer, the same at every run: {len(ORDINARY)} networks, and MobileNetV2 apart from "
    "them, as the paper does not say whether it has depthwise networks; weight-stationary arrays of 8 × 64 as far as "
    "products fill them. Between the products, every norm, activation, addition and rounding is a pass of its own; or "
    "activations, additions and roundings join the pass of the norm; or all of it is done on the way. Verdicts are of "
    "the first and of what the first and the last enclose.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=10,
    modelled=True,
    limits="The networks of the paper are not listed where we could read: ranges of other networks can overlap with "
    "theirs, not be theirs. Memory bandwidths are recalled, and the power that a waiting chip draws is that of H100s.",
)


def training_times(network: str, passes: str = APART) -> LayerTimes:
    """The layers of a training step in hybrid FP8, batch 512, on 4 chips of 32 cores."""
    fused = passes == FUSED
    return compute.layer_times(network, TRAINING, "hfp8_2019", BATCH, utilization="array", fused=fused)


def step_seconds(times: LayerTimes, passes: str) -> float:
    """Seconds of a step; with :data:`JOINED` activations, additions and roundings cost nothing of their own.

    >>> times = training_times("resnet50")
    >>> step_seconds(times, JOINED) < step_seconds(times, APART) == times.step_seconds
    True
    """
    whole = float(times.step_seconds)
    if passes != JOINED:
        return whole
    return whole - _pointwise_seconds(times) - float(times.part("conversion"))


def _pointwise_seconds(times: LayerTimes) -> float:
    pointwise = np.isin(times.workload.columns["kind"], POINTWISE)
    return float(times.elementwise_seconds[:, pointwise].sum())


def sustained_teras(network: str, passes: str = APART) -> float:
    """10¹² operations a second of a training step in hybrid FP8, batch 512, on 4 chips of 32 cores.

    >>> sustained_teras("mobilenetv2") < sustained_teras("resnet50") < sustained_teras("vgg16")
    True
    """
    times = training_times(network, passes)
    return float(times.flops.sum()) / step_seconds(times, passes) / 1e12


def teras_per_watt(network: str, passes: str = APART) -> float:
    """10¹² operations a joule of inference in INT4, batch 1, on the chip of 4 cores.

    The chip draws what 16.5 TOPS/W at peak says while all multipliers work; of that, the share that H100s draw while
    they wait is drawn all the time.
    """
    chip = accelerators.get(CHIP)
    times = compute.layer_times(network, chip, "int4", 1, utilization="array", fused=passes == FUSED)
    operations, busy_watts = float(times.flops.sum()), chip.peaks["int4"] / INT4_PER_WATT
    idle_watts = busy_watts * IDLE_SHARE / BUSY_SHARE
    joules = idle_watts * step_seconds(times, passes) + (busy_watts - idle_watts) * operations / chip.peaks["int4"]
    return operations / joules / 1e12


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """TFLOPS of training and TOPS/W of inference; shares of the training step, where every pass is its own."""
    network, passes = point["network"], point["passes"]
    rates = {
        "teras": round(sustained_teras(network, passes), 6),
        "per_watt": round(teras_per_watt(network, passes), 6),
    }
    return rates | (shares(training_times(network)) if passes == APART else {})


def shares(times: LayerTimes) -> dict[str, float]:
    """What share of a step goes into products, activations and additions, and roundings.

    >>> parts = shares(training_times("vgg16"))
    >>> 0.4 < parts["products"] < 0.6 and 0 < parts["rounding"] < parts["pointwise"]
    True
    """
    step = float(times.step_seconds)
    seconds = {
        "products": float(times.part("products")),
        "pointwise": _pointwise_seconds(times),
        "rounding": float(times.part("conversion")),
    }
    return {name: round(part / step, 6) for name, part in seconds.items()}


def _all(results: Results, number: str, passes: str = APART, networks: tuple[str, ...] = ORDINARY) -> np.ndarray:
    return np.array([results.values(number, network=name, passes=passes)[0] for name in networks])


@claim.criterion("The mean within a quarter")
def a_quarter_of_the_peak(results: Results) -> CheckResult:
    """The mean over networks is within 25 % of the published mean: about a quarter of the peak."""
    mean = float(_all(results, "teras").mean())
    return CheckResult(
        abs(mean / MEAN_TFLOPS - 1) < 0.25,
        f"Mean over {len(ORDINARY)} networks: {mean:.0f} TFLOPS of {PEAK_TFLOPS:.0f} (published {MEAN_TFLOPS:.0f}): "
        f"{100 * mean / PEAK_TFLOPS:.0f} % of the peak.",
    )


@claim.criterion("Most of our range lies in the published one")
def ranges_overlap(results: Results) -> CheckResult:
    """More than half of the range of our networks lies within 102 to 588 TFLOPS."""
    values = _all(results, "teras")
    low, high = float(values.min()), float(values.max())
    common = max(0.0, min(high, MAX_TFLOPS) - max(low, MIN_TFLOPS))
    inside = common / (high - low) if high > low else float(MIN_TFLOPS <= low <= MAX_TFLOPS)
    out = [f"{n} ({v:.0f})" for n, v in zip(ORDINARY, values, strict=True) if not MIN_TFLOPS <= v <= MAX_TFLOPS]
    text = f"; outside lies {join_words(out)}" if out else ""
    return CheckResult(
        inside > 0.5,
        f"From {low:.0f} to {high:.0f} TFLOPS (published {MIN_TFLOPS:.0f} to {MAX_TFLOPS:.0f}): {100 * inside:.0f} % "
        f"of our range lies in theirs{text}.",
    )


@claim.criterion("No network is out of reach")
def none_is_out_of_reach(results: Results) -> CheckResult:
    """Between its two ends, every pass apart and all on the way, each network has published rates."""
    apart, fused = (_all(results, "teras", passes) for passes in (APART, FUSED))
    out = [n for n, a, f in zip(ORDINARY, apart, fused, strict=True) if a > MAX_TFLOPS or f < MIN_TFLOPS]
    named = f"; not {join_words(out)}" if out else ""
    return CheckResult(
        not out,
        f"With all on the way from {fused.min():.0f} to {fused.max():.0f} TFLOPS: {len(ORDINARY) - len(out)} of "
        f"{len(ORDINARY)} networks have rates of the published range between their two ends{named}.",
    )


@claim.criterion("Inference between our two ends")
def inference_lies_between(results: Results) -> CheckResult:
    """The published mean of inference lies between our two ends."""
    apart, fused = (float(_all(results, "per_watt", way).mean()) for way in (APART, FUSED))
    return CheckResult(
        apart < WATT_MEAN < fused,
        f"INT4 inference at batch 1, mean: {apart:.1f} TOPS/W if every norm and activation goes to memory and back, "
        f"{fused:.1f} if all are done on the way (published {WATT_MEAN:.0f}; {WATT_LEAST:.0f} to {WATT_MOST}).",
    )


@claim.explanation("What is lost is lost between products")
def memory_decides(results: Results) -> CheckResult:
    """The networks with all norms and activations on the way: at least a quarter more, each of them."""
    apart, fused = (_all(results, "teras", way) for way in (APART, FUSED))
    return CheckResult(
        bool((fused > 1.25 * apart).all()),
        f"If norms and activations were done on the way the mean would be {fused.mean():.0f} TFLOPS instead of "
        f"{apart.mean():.0f}: what is lost is lost between the products.",
    )


@claim.explanation("ResNet-50 is below the range only if ReLUs, additions and roundings are passes of their own")
def passes_of_resnet50(results: Results) -> CheckResult:
    """Where ResNet-50's rate goes: below the published least with every pass apart, above it with them joined."""
    apart, joined = (results.median("teras", network="resnet50", passes=passes) for passes in (APART, JOINED))
    products, pointwise, rounding = (
        100 * results.median(name, network="resnet50", passes=APART) for name in ("products", "pointwise", "rounding")
    )
    return CheckResult(
        apart < MIN_TFLOPS <= joined,
        f"ResNet-50 sustains {apart:.0f} TFLOPS with every step in a pass of its own: of its time products take "
        f"{products:.0f} %, ReLUs and additions {pointwise:.0f} %, roundings {rounding:.0f} %, and norms nearly all "
        f"the rest. A norm needs a pass, as it must have seen the whole batch; if ReLUs, additions and roundings are "
        f"done in that pass, it sustains {joined:.0f} (published: {MIN_TFLOPS:.0f} or more).",
    )


@claim.explanation("Depthwise convolutions leave arrays empty")
def depthwise_leaves_arrays_empty(results: Results) -> CheckResult:
    """MobileNetV2 is far below all others, however the work between products is done."""
    others = [float(_all(results, "teras", way).min()) for way in (APART, FUSED)]
    ours = [results.median("teras", network=DEPTHWISE, passes=way) for way in (APART, FUSED)]
    return CheckResult(
        all(value < least / 3 for value, least in zip(ours, others, strict=True)),
        f"MobileNetV2, which the criteria leave out, sustains {ours[0]:.0f} TFLOPS ({ours[1]:.0f} with all on the "
        f"way), the least of the others {others[0]:.0f} ({others[1]:.0f}): depthwise products fill a row or two of an "
        "array, and stay in 16 bits.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Ranges and means."""
    teras, watts = _all(results, "teras"), _all(results, "per_watt")
    fused = _all(results, "per_watt", FUSED)
    return (
        f"{teras.min():.0f}–{teras.max():.0f}, mean {teras.mean():.0f} of {PEAK_TFLOPS:.0f} TFLOPS; "
        f"{watts.min():.1f}–{fused.max():.1f} TOPS/W, means {watts.mean():.1f} and {fused.mean():.1f} (model)"
    )


claim.draw(
    "TFLOPS",
    lambda results: (
        {name: _all(results, "teras", passes) for name, passes in DRAWN.items()}
        | {f"MobileNetV2, {name}": _all(results, "teras", passes, (DEPTHWISE,)) for name, passes in DRAWN.items()}
    ),
    dict.fromkeys(DRAWN, (MIN_TFLOPS, MEAN_TFLOPS, MAX_TFLOPS)),
    axis=(0, PEAK_TFLOPS),
    statistic=MEAN,
    over="networks",
)
claim.draw(
    "TOPS/W of inference, six networks",
    lambda results: {name: _all(results, "per_watt", passes) for name, passes in DRAWN.items()},
    dict.fromkeys(DRAWN, (WATT_LEAST, WATT_MEAN, WATT_MOST)),
    statistic=MEAN,
    over="networks",
)

claim.compared(
    theirs_on="networks that the paper does not name",
    ours_on="a model of seven networks",
    rows=(
        {
            "in separate passes": "six networks, each step a pass of its own",
            "all fused": "six networks, all on the way",
            "MobileNetV2, in separate passes": "MobileNetV2, each step a pass of its own",
            "MobileNetV2, all fused": "MobileNetV2, all on the way",
        },
    ),
)
claim.found(
    a_quarter_of_the_peak,
    ranges_overlap,
    holds="mean and range of six networks near theirs",
    fails="mean or range of six networks not near theirs",
)
claim.found(none_is_out_of_reach, holds="all six within reach", fails="not all six within reach")
claim.found(inference_lies_between, holds="inference, too", fails="not inference")
claim.found(
    depthwise_leaves_arrays_empty,
    holds="MobileNetV2, left out, is far below",
    fails="MobileNetV2, left out, is not far below",
    limits=True,
)

RAPID_2021 = claim.build()
