"""Throughput against bits: the quadratic law, over 10 times from 32 to 8 bits, 4 times from 8 to 4, density over 7.

The same words are used for three quantities: what a chip does at its peak, what fits on an area, and how much faster a
whole network gets. Each is computed here for itself. Nothing is timed.
"""

from __future__ import annotations

from lplab.claims.bibliography import PAPERS
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import RANGE
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, low_to_high
from lplab.hardware import accelerators, compute, multiplier

AREA, MAC, LAW, PEAK, STEP = "multiplier", "multiplier and adder", "quadratic law", "peak", "whole network"
PEAKS = {  # chip: peaks to compare, wide and narrow
    "h100 fp32 fp8": ("h100", "fp32", "fp8"),
    "h100 fp16 fp8": ("h100", "fp16", "fp8"),
    "b200 fp8 fp4": ("b200", "fp8", "fp4"),
    "ibm fp16 fp8": ("ibm-4core-7nm", "fp16", "fp8"),
    "ibm fp8 int4": ("ibm-4core-7nm", "fp8", "int4"),
}
WIDTHS = {"32 to 8": ("fp32", "hfp8_forward"), "16 to 8": ("fp16", "hfp8_forward"), "8 to 4": ("int8", "int4")}
SUM = "fp32"  # what the products are added up in
BITS = {"32 to 8": (32, 8), "16 to 8": (16, 8), "8 to 4": (8, 4)}
NETWORKS, BATCH = ("resnet50", "bert_base"), 256
DENSITY = "4-bit unit of 2020"

POINTS: tuple[Point, ...] = (
    *({"what": what, "from": which} for what in (LAW, AREA) for which in BITS),
    *({"what": MAC, "from": which} for which in ("32 to 8", "16 to 8")),
    {"what": AREA, "from": DENSITY},
    *({"what": PEAK, "from": which} for which in PEAKS),
    *(
        {"what": STEP, "from": name, "wide": wide, "fused": fused}
        for name in NETWORKS
        for wide in ("fp32", "bf16")
        for fused in (False, True)
    ),
)

claim = ClaimBuilder(
    id="throughput_bits",
    title="Throughput grows with the square of the bits: as an area, partly as a peak, not for a network",
    paper="IBM Research: precision scaling (2018–2021); " + PAPERS["sun_2020"].short_citation,
    where="abstracts and blog",
    statement="Fewer bits bring quadratically more: over 10 times from 32 to 8 bits, 4 times from 8 to 4, and a 4-bit "
    "unit has over 7 times the compute density of FP16.",
    published="over 10 × from 32 to 8 bits, 4 × from 8 to 4 bits, over 7 × density of the 4-bit unit (read as "
    "abstracts; the parts of the 7 are recalled)",
    experiment="Arithmetic, the same at every run: published dense peaks of chips, areas of multipliers in 45 nm, and "
    "the time of every layer of two networks on an H100.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=5,
    modelled=True,
    limits="Peak and area, not training time. Areas are of 45 nm, with two points for two coefficients. Nothing is "
    "timed.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """How many times as much the narrow numbers give."""
    return {"times": round(float(_times(point)), 6)}


def _times(point: Point) -> float:
    what, which = point["what"], point["from"]
    if what == LAW:
        many, few = BITS[which]
        return float(multiplier.quadratic_law(few, many))
    if what == PEAK:
        chip, slow, fast = PEAKS[which]
        peaks = accelerators.get(chip).peaks
        return peaks[fast] / peaks[slow]
    if what == STEP:
        fused, names = point["fused"], (point["wide"], "hfp8_2019")
        wide, narrow = (compute.layer_times(which, "h100", name, BATCH, fused=fused).step_seconds for name in names)
        return float(wide / narrow)
    if which == DENSITY:
        return multiplier.density_2020()
    return _of_circuits(what, which)


def _of_circuits(what: str, which: str) -> float:
    """Area of a multiplier, or of a multiplier with its adder, wide over narrow."""
    wide, narrow = (multiplier.mac(name, SUM) for name in WIDTHS[which])
    if what == AREA:
        return wide.multiply_um2 / narrow.multiply_um2
    return wide.um2 / narrow.um2


def _value(results: Results, what: str, which: str, **more: object) -> float:
    return float(results.values("times", what=what, **{"from": which}, **more)[0])


def _steps(results: Results, wide: str, fused: bool) -> list[float]:
    return [_value(results, STEP, name, wide=wide, fused=fused) for name in NETWORKS]


@claim.criterion("Over 10 times from 32 to 8 bits")
def ten_from_32_to_8(results: Results) -> CheckResult:
    """8 bits give more than ten times what 32 bits give, as a peak and as an area."""
    peak, area = _value(results, PEAK, "h100 fp32 fp8"), _value(results, AREA, "32 to 8")
    return CheckResult(
        peak > 10 and area > 10,
        f"From FP32 to FP8: the peak of an H100 grows {peak:.0f} times (its FP32 has no tensor cores), and {area:.0f} "
        "multipliers of 1-4-3 fit in the place of one of FP32.",
    )


@claim.criterion("4 times from 8 to 4 bits")
def four_from_8_to_4(results: Results) -> CheckResult:
    """IBM's chip does four times as many products in INT4 as in FP8, and the law says four."""
    law, peak = _value(results, LAW, "8 to 4"), _value(results, PEAK, "ibm fp8 int4")
    return CheckResult(
        abs(peak / law - 1) < 0.02,
        f"From 8 to 4 bits the law says {law:.0f}; the peak of IBM's 4-core chip grows {peak:.2f} times.",
    )


@claim.criterion("Over 7 times the density")
def seven_times_the_density(results: Results) -> CheckResult:
    """Four products at once on 55 % of the area."""
    density = _value(results, AREA, DENSITY)
    return CheckResult(density > 7, f"The 4-bit unit of 2020 does {density:.1f} times the products of FP16 on an area.")


@claim.explanation("Peaks of GPUs grow with the bits, not with their square")
def peaks_of_gpus_are_linear(results: Results) -> CheckResult:
    """GPUs double where the law says four."""
    values = {name: _value(results, PEAK, name) for name in ("h100 fp16 fp8", "b200 fp8 fp4", "ibm fp16 fp8")}
    return CheckResult(
        all(abs(value - 2) < 0.01 for value in values.values()),
        "From 16 to 8 bits H100 and IBM's chip double, and so does B200 from 8 to 4: rates go with the bits that can "
        f"be fetched ({join_words([f'{value:.2f}' for value in values.values()])}), where the law says 4.",
    )


@claim.explanation("The square ends at the adder")
def the_sum_stays(results: Results) -> CheckResult:
    """A multiplier shrinks by the square, but the adder behind it does not."""
    alone, both = (_value(results, what, "16 to 8") for what in (AREA, MAC))
    return CheckResult(
        both < alone / 2,
        f"From FP16 to 1-4-3 a multiplier shrinks {alone:.1f} times, with the FP32 adder behind it {both:.2f} times: "
        "the sum stays as wide as it was.",
    )


@claim.explanation("A whole network gains less")
def networks_gain_less(results: Results) -> CheckResult:
    """Norms, activations and conversions go to memory in 16 bits, whatever the products do."""
    peaks = {"fp32": _value(results, PEAK, "h100 fp32 fp8"), "bf16": _value(results, PEAK, "h100 fp16 fp8")}
    numbers = {(w, fused): _steps(results, w, fused) for w in peaks for fused in (False, True)}
    parts = [
        f"against {wide.upper()} {low_to_high(numbers[wide, False])} times as fast ({low_to_high(numbers[wide, True])} "
        f"if all of this is done on the way; the peak grows {peaks[wide]:.0f} times)"
        for wide in peaks
    ]
    return CheckResult(
        all(max(values) < peaks[wide] for (wide, _), values in numbers.items()),
        "Norms, activations and conversions go to memory in 16 bits. A training step of ResNet-50 and BERT-base in "
        f"hybrid FP8 on an H100, by our model: {join_words(parts)}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Law, area, peak and whole network from 32 to 8 bits."""
    law, area = (_value(results, what, "32 to 8") for what in (LAW, AREA))
    networks = low_to_high(_steps(results, "fp32", False) + _steps(results, "fp32", True))
    return (
        f"32 → 8 bits: law {law:.0f} ×, multipliers on an area {area:.0f} ×, peak of H100 "
        f"{_value(results, PEAK, 'h100 fp32 fp8'):.0f} × (FP32 has no tensor cores there, from 16 to 8 bits it is "
        f"{_value(results, PEAK, 'h100 fp16 fp8'):.0f} ×), whole networks {networks} ×; 8 → 4 bits: peak of IBM's chip "
        f"{_value(results, PEAK, 'ibm fp8 int4'):.1f} ×; density {_value(results, AREA, DENSITY):.1f} × (model)"
    )


claim.draw(
    "times as much",
    lambda results: {
        "32 to 8 bits, law": _value(results, LAW, "32 to 8"),
        "32 to 8 bits, multipliers": _value(results, AREA, "32 to 8"),
        "32 to 8 bits, peak of H100": _value(results, PEAK, "h100 fp32 fp8"),
        "32 to 8 bits, networks": _steps(results, "fp32", False) + _steps(results, "fp32", True),
        "8 to 4 bits, peak of IBM": _value(results, PEAK, "ibm fp8 int4"),
        "16 to 4 bits, density": _value(results, AREA, DENSITY),
    },
    {
        "32 to 8 bits, multipliers": 10,
        "32 to 8 bits, peak of H100": 10,
        "8 to 4 bits, peak of IBM": 4,
        "16 to 4 bits, density": 7,
    },
    axis=(0, 40),
    statistic=RANGE,
    over="runs of two networks",
)

claim.compared(
    theirs_on="peaks and areas of chips",
    ours_on="peaks and areas of chips; a model of two networks",
    rows=(
        {
            "32 to 8 bits, multipliers": "32 to 8 bits, multipliers on an area",
            "32 to 8 bits, peak of H100": "32 to 8 bits, peak of an H100 (FP32 without tensor cores)",
            "32 to 8 bits, networks": "32 to 8 bits, a step of two networks on an H100",
            "8 to 4 bits, peak of IBM": "8 to 4 bits, peak of IBM's chip",
        },
    ),
)
claim.found(
    ten_from_32_to_8,
    seven_times_the_density,
    holds="true of an area",
    fails="not true of an area",
)
claim.found(four_from_8_to_4, holds="of one chip's peak from 8 to 4 bits", fails="of no chip's peak from 8 to 4 bits")
claim.found(
    peaks_of_gpus_are_linear, holds="peaks of GPUs double", fails="peaks of GPUs do not just double", limits=True
)
claim.found(
    networks_gain_less,
    holds=lambda results: (
        f"networks {low_to_high(_steps(results, 'fp32', False) + _steps(results, 'fp32', True))} times"
    ),
    fails="networks gain as much",
    limits=True,
)

THROUGHPUT_BITS = claim.build()
