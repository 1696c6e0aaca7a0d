"""Chen et al. 2020: ScaleCom's compression ratios for real networks, from their layer lists by a rebuilt rule."""

from __future__ import annotations

from collections.abc import Iterator

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.compression import LayerInfo, ScaleCom, compression_ratios
from lplab.compression.scalecom import chunk_for

WORKERS = 8
PUBLISHED = {"resnet18": (112, 0.05), "resnet50": (96, 0.03), "mobilenetv2": (155, 0.03)}  # ratio, our tolerance
LABELS = {"resnet18": "ResNet-18", "resnet50": "ResNet-50", "mobilenetv2": "MobileNetV2"}
RULE, DENSE_VECTORS, WIDE = "rule", "vectors dense", "196 positions at 25"
VGG_LIKE = 196

POINTS: tuple[Point, ...] = tuple(
    {"network": network, "reading": reading} for network in PUBLISHED for reading in (RULE, DENSE_VECTORS, WIDE)
)

claim = ClaimBuilder(
    id="scalecom_2020_rates",
    title="ScaleCom's compression ratios follow from how often a weight is used",
    paper=cite("scalecom_2020"),
    where="table 2 and the guide for compression ratios",
    statement="One element of 25, 50 or 400 is sent, by the multiplications per gradient value of a layer; whole "
    "networks come to 112, 96 and 155.",
    published="ResNet-18 112 times, ResNet-50 96 times, MobileNetV2 155 times (second-hand); the guide for the "
    "ratio of a layer (recalled), rebuilt by us where it leaves something open",
    experiment="The layer lists of the three networks at 224 × 224: from 197 uses of a weight on one of 25, from 128 "
    "one of 50, else one of 400; the first convolution dense, biases and normalization one of 25. Arithmetic, the same "
    "at every run.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=10,
    limits="That 196 uses belong to the class of 50, and the treatment of the first layer and of vectors, were chosen "
    "by us because the published ratios then follow; the paper counts elements, not bytes.",
    modelled=True,
)


def tensors(network: str) -> Iterator[LayerInfo]:
    """All parameters of a network.

    >>> sum(info.numel for info in tensors("resnet18"))
    11689512
    """
    from lplab.hardware import workloads
    from lplab.hardware.traffic import tensors_of

    for infos in tensors_of(workloads.get(network)):
        yield from infos


def elements_sent(info: LayerInfo, reading: str) -> float:
    """Elements that a tensor sends, under one reading of the rule.

    >>> elements_sent(LayerInfo("fc", (1000, 512)), RULE)
    1280.0
    """
    if info.first or (reading == DENSE_VECTORS and info.kind == "small"):
        return float(info.numel)
    if reading == WIDE and info.kind != "small" and info.weight_reuse == VGG_LIKE:
        return info.numel / 25
    return info.numel / chunk_for(info)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Elements against elements sent; for the rule also bytes, with indices, whole elements and the collective."""
    infos = list(tensors(point["network"]))
    numel = sum(info.numel for info in infos)
    values = {"parameters": float(numel), "elements": numel / sum(elements_sent(i, point["reading"]) for i in infos)}
    if point["reading"] == RULE:
        compressor = ScaleCom(small="compressed")
        plans = [t for info in infos for t in compressor.for_layer(info).plan(info.shape)]
        in_bytes = compression_ratios(plans, numel, WORKERS)
        values |= {"payload": in_bytes.payload, "wire": in_bytes.wire}
    return {name: round(value, 4) for name, value in values.items()}


def _ratio(results: Results, network: str, number: str = "elements", reading: str = RULE) -> float:
    return float(results.values(number, network=network, reading=reading)[0])


def _close(numbers: float, network: str) -> bool:
    published, tolerance = PUBLISHED[network]
    return abs(numbers / published - 1) <= tolerance


@claim.criterion("The three ratios")
def the_three_ratios(results: Results) -> CheckResult:
    """Rows T14, T15 and T16."""
    values = {n: _ratio(results, n) for n in PUBLISHED}
    text = join_words([f"{LABELS[n]} {values[n]:.1f} (theirs {PUBLISHED[n][0]})" for n in PUBLISHED])
    return CheckResult(all(_close(values[n], n) for n in PUBLISHED), f"Elements for one that is sent: {text}.")


@claim.explanation("In bytes the ratios are lower")
def bytes_give_another_ratio(results: Results) -> CheckResult:
    """The ratio of bytes differs from the paper's: with indices, and on the wire."""
    values = {n: [_ratio(results, n, k) for k in ("payload", "wire")] for n in PUBLISHED}
    text = [f"{LABELS[n]} {payload:.0f} as payload and {wire:.0f} on the wire" for n, (payload, wire) in values.items()]
    return CheckResult(
        all(max(values[n]) < _ratio(results, n) for n in PUBLISHED),
        f"In bytes against float32, indices of one or two bytes from the leader, {WORKERS} workers: "
        f"{join_words(text)}.",
    )


@claim.explanation("Other readings of the rule miss them")
def other_readings_fail(results: Results) -> CheckResult:
    """Biases and normalization sent dense, or 14 × 14 outputs in the class of 25."""
    missed, text = [], []
    for reading in (DENSE_VECTORS, WIDE):
        values = {n: _ratio(results, n, reading=reading) for n in PUBLISHED}
        missed.append(not all(_close(values[n], n) for n in PUBLISHED))
        text.append(f"{join_words([f'{values[n]:.0f}' for n in PUBLISHED])} ({reading})")
    return CheckResult(
        all(missed),
        f"Two other readings of the rule give {join_words(text)} for {join_words([*LABELS.values()])}: not theirs.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Rates by elements and by bytes."""
    return "; ".join(
        f"{LABELS[n]} {_ratio(results, n):.1f} by elements, {_ratio(results, n, 'payload'):.0f} by bytes of payload"
        for n in PUBLISHED
    )


claim.draw(
    "elements for one that is sent",
    lambda results: {LABELS[n]: _ratio(results, n) for n in PUBLISHED},
    {LABELS[n]: ratio for n, (ratio, _) in PUBLISHED.items()},
    axis=(0, 200),
)

claim.compared(theirs_on="ImageNet, three networks", ours_on="the layers of the same networks")
claim.found(the_three_ratios, holds="the three ratios follow", fails="the three ratios do not follow")
claim.found(
    other_readings_fail,
    holds="by one reading of the rule, two others miss them",
    fails="by other readings of the rule, too",
    limits=True,
)

SCALECOM_2020_RATES = claim.build()
