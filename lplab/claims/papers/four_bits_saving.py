"""What four bits and compression would save of a training's time and energy, and what they would not.

A model, on 64 of a chip that has rates for 16, 8 and 4 bits (B200): products run at the published dense rates as far as
their operands can be fetched, norms and activations are passes over memory in 16 bits or happen on the way, and
gradients travel in 16 bits or by ScaleCom. Energy is multiplying, moving, sending, and the watts that always flow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.drawing import RANGE
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, low_to_high
from lplab.hardware import Cluster, accelerators, compute, multiplier, precisions, simulate
from lplab.hardware.footprint import Power, energy_of

CHIP, DEVICES, UTILIZATION = "b200", 64, 0.4
BATCHES = {"resnet50": 256, "bert_base": 64}
FOUR = replace(precisions.get("int4_fp4_2020"), forward_peaks=("fp4",), dx_peaks=("fp4",))  # B200 has no INT4
BITS = {"16": precisions.get("bf16"), "8": precisions.get("hfp8_2019"), "4": FOUR}
WIRE = 16  # bits of gradients and weights, the same for all: sending is looked at by itself
SLOW, FAST = "ethernet_100g", "infiniband_ndr_x8"
SCALECOM = "scalecom:chunk=112"
PUBLISHED, PEAK = 7.0, 4.0

POINTS: tuple[Point, ...] = tuple(
    {"network": network, "bits": bits, "compressor": compressor, "link": link, "fused": fused}
    for network in BATCHES
    for fused in (False, True)
    for bits in BITS
    for compressor, link in (("none", FAST), ("none", SLOW), (SCALECOM, SLOW))
)

claim = ClaimBuilder(
    id="four_bits_saving",
    title="Four bits make a training over seven times as fast",
    paper=cite("sun_2020"),
    where="abstract, section 6",
    statement="Training in 4 bits promises over seven times the performance of FP16 systems.",
    published="over 7 × (read); 4 products at once on 55 % of the area (recalled): of a unit, not of a training",
    experiment=f"The simulator, the same at every run: {DEVICES} B200 at their published dense rates "
    f"({100 * UTILIZATION:.0f} % reached), ResNet-50 and BERT-base in 16, 8 and 4 bits, two links, with and without "
    "ScaleCom, two ends for the work between products; energy from the chip's design power.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=10,
    modelled=True,
    limits="A model on a chip that is not IBM's; that networks train as well in 4 bits is another question "
    "(sun_2020_ablation). Shares of the design power are those of H100s. The grid and the building, which count more, "
    "are in patterson_2021.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Milliseconds and joules of a step on all devices, the share of waiting, and that of work between products."""
    bits = replace(BITS[point["bits"]], gradient_wire_bits=WIRE, weight_wire_bits=WIRE)
    batch = BATCHES[point["network"]]
    how: dict[str, Any] = {"utilization": UTILIZATION, "fused": point["fused"]}
    cluster = Cluster(CHIP, DEVICES, point["link"])
    run = simulate(point["network"], cluster, precision=bits, compressor=point["compressor"], batch=batch, **how)
    times = compute.layer_times(point["network"], CHIP, bits, batch, **how)
    bandwidth = accelerators.get(CHIP).memory_bytes_per_second or 1.0
    moved = times.nbytes.sum() + bandwidth * sum(times.part(name) for name in ("between", "conversion", "update"))
    spent = energy_of(
        Power.of(CHIP),
        seconds=run.step_seconds,
        multiply_seconds=times.compute_seconds.sum() * UTILIZATION,
        memory_bytes=moved,
        network_bytes=run.sent_bytes,
        devices=DEVICES,
    )
    return {
        "milliseconds": round(1e3 * run.step_seconds, 6),
        "joules": round(float(spent.joules), 6),
        "waiting": round(run.exposed_seconds / run.step_seconds, 6),
        "products": round(float(times.part("products") / times.step_seconds), 6),
    }


def _of(
    results: Results, number: str, network: str, bits: str, fused: bool, link: str = FAST, how: str = "none"
) -> float:
    return float(results.values(number, network=network, bits=bits, compressor=how, link=link, fused=fused)[0])


def _gains(results: Results, number: str, bits: str = "4", fused: bool = True) -> list[float]:
    """16 bits over fewer, by network, over links so fast that they hardly count."""
    return [_of(results, number, n, "16", fused) / _of(results, number, n, bits, fused) for n in BATCHES]


@claim.criterion("A whole step is over seven times as fast")
def seven_times(results: Results) -> CheckResult:
    """Whether a whole step is seven times as fast: at best, with everything between products done on the way."""
    best, plain = (_gains(results, "milliseconds", fused=fused) for fused in (True, False))
    return CheckResult(
        min(best) > PUBLISHED,
        f"A step of ResNet-50 and of BERT-base in 4 bits is {low_to_high(best)} times as fast as in 16 if norms, "
        f"activations and rounding cost nothing, {low_to_high(plain)} times if they are passes of their own; the "
        f"chip's peak is {PEAK:.0f} times, the {PUBLISHED:.0f} are products on an area.",
    )


@claim.explanation("Energy falls, but less")
def energy_follows_less(results: Results) -> CheckResult:
    """Energy by the same comparison."""
    times, joules = (_gains(results, number) for number in ("milliseconds", "joules"))
    return CheckResult(
        all(e > 1.2 for e in joules),
        f"At best the energy of a step falls {low_to_high(joules)} times, where time falls {low_to_high(times)} times.",
    )


@claim.explanation("The second halving brings less")
def half_of_it_comes_with_eight(results: Results) -> CheckResult:
    """What the step from 8 to 4 bits adds."""
    eight, four = (_gains(results, "milliseconds", bits) for bits in ("8", "4"))
    return CheckResult(
        all(f / e < e for e, f in zip(eight, four, strict=True)),
        f"8 bits bring {low_to_high(eight)} times, 4 bits {low_to_high(four)}: the second halving brings less than the "
        "first, as what stays in 16 bits (ends, shortcuts, norms) stays as slow as it was.",
    )


@claim.explanation("Products are not all of a step")
def products_are_not_all(results: Results) -> CheckResult:
    """The share of products in a step."""
    values = {bits: [_of(results, "products", n, bits, False) for n in BATCHES] for bits in ("16", "4")}
    return CheckResult(
        max(values["4"]) < min(1.0, max(values["16"])),
        f"Products are {low_to_high([100 * v for v in values['16']], 0)} % of a step in 16 bits and "
        f"{low_to_high([100 * v for v in values['4']], 0)} % in 4, if all else is passes of its own.",
    )


@claim.explanation("Compression saves waiting")
def compression_saves_waiting(results: Results) -> CheckResult:
    """Over a slow link compression shortens the step more than it saves energy: who waits draws less."""
    pairs = [(_compressed(results, number, n)) for n in BATCHES for number in ("milliseconds", "joules")]
    times, joules = pairs[0::2], pairs[1::2]
    return CheckResult(
        all(j < t for t, j in zip(times, joules, strict=True)),
        f"Over 100 Gb/s a step in 4 bits spends {_waiting(results)} % waiting. ScaleCom saves "
        f"{low_to_high([100 * t for t in times], 0)} % of its time and {low_to_high([100 * j for j in joules], 0)} % "
        "of its energy: what waits draws less than what computes.",
    )


def _compressed(results: Results, number: str, network: str) -> float:
    """The share that compression saves."""
    dense, short = (_of(results, number, network, "4", True, SLOW, how) for how in ("none", SCALECOM))
    return 1 - short / dense


def _waiting(results: Results) -> str:
    return low_to_high([100 * _of(results, "waiting", n, "4", True, SLOW) for n in BATCHES], 0)


@claim.explanation("Faster chips wait more")
def faster_chips_wait_more(results: Results) -> CheckResult:
    """Fewer bits without compression: the same bytes, a shorter step."""
    values = {bits: [100 * _of(results, "waiting", n, bits, True, SLOW) for n in BATCHES] for bits in BITS}
    rising = all(a <= b <= c for a, b, c in zip(values["16"], values["8"], values["4"], strict=True))
    text = join_words([f"{low_to_high(values[bits], 0)} % with {bits} bits" for bits in BITS])
    return CheckResult(
        rising, f"Over 100 Gb/s, gradients in 16 bits, devices wait {text}: the two techniques need each other."
    )


@claim.summary
def measured(results: Results) -> str:
    """Time, energy, and what compression adds."""
    times, joules = (_gains(results, number) for number in ("milliseconds", "joules"))
    faster, less = low_to_high(times), low_to_high(joules)
    return f"4 bits against 16 at best: {faster} × as fast, {less} × less energy for a step (model)"


@claim.of_the_unit("Products on an area, by the parts of the unit")
def unit_does_seven(results: Results) -> CheckResult:
    """What the number is about: products of the 4-bit unit of 2020 on the area of one of FP16."""
    density = multiplier.density_2020()
    return CheckResult(
        density > PUBLISHED,
        f"The 4-bit unit alone does {density:.1f} times the products of FP16 on the same area.",
    )


claim.draw(
    "times as good as 16 bits",
    lambda results: {
        "products on an area, unit": multiplier.density_2020(),
        "speed of a step": _gains(results, "milliseconds"),
        "energy of a step": _gains(results, "joules"),
    },
    {"products on an area, unit": PUBLISHED},
    axis=(0, 8),
    statistic=RANGE,
    over="networks",
)

claim.compared(theirs_on="an abstract, without a network", ours_on="a model of ResNet-50 and BERT-base on 64 GPUs")
claim.found(
    unit_does_seven,
    holds="the 4-bit unit does over seven times the products",
    fails="not even the 4-bit unit does seven times the products",
)
claim.found(
    seven_times,
    holds="a training step is over seven times as fast",
    fails=lambda results: (
        f"a training step is {low_to_high(_gains(results, 'milliseconds', fused=True))} times as fast at best"
    ),
)

FOUR_BITS_SAVING = claim.build()
