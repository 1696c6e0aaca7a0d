"""Chen et al. 2020: ScaleCom's rates for real networks, from their layer lists by the rule that our notes rebuild."""

from __future__ import annotations

from collections.abc import Iterator

from lplab.claims.claim import Check, Claim, Finding, Numbers, Point, Results
from lplab.claims.compare import listed
from lplab.compression import LayerInfo, ScaleCom
from lplab.compression.rates import rates
from lplab.compression.scalecom import chunk_for

WORKERS = 8
PUBLISHED = {"resnet18": (112, 0.05), "resnet50": (96, 0.03), "mobilenetv2": (155, 0.03)}  # rate, our tolerance
LABELS = {"resnet18": "ResNet-18", "resnet50": "ResNet-50", "mobilenetv2": "MobileNetV2"}
RULE, DENSE_VECTORS, WIDE = "rule", "vectors dense", "196 positions at 25"
VGG_LIKE = 196


def tensors(network: str) -> Iterator[LayerInfo]:
    """All parameters of a network.

    >>> sum(info.numel for info in tensors("resnet18"))
    11689512
    """
    from lplab.hardware import workloads
    from lplab.hardware.traffic import tensors_of

    for layer in workloads.get(network).layers:
        yield from tensors_of(layer)


def elements_sent(info: LayerInfo, reading: str) -> float:
    """Elements that a tensor sends, under one reading of the rule.

    >>> elements_sent(LayerInfo("fc", (1000, 512)), RULE)
    1280.0
    """
    if info.first or (reading == DENSE_VECTORS and info.kind == "small"):
        return float(info.numel)
    if reading == WIDE and info.kind != "small" and info.positions == VGG_LIKE:
        return info.numel / 25
    return info.numel / chunk_for(info)


def measure(point: Point, seed: int) -> Numbers:
    """Elements against elements sent; for the rule also bytes, with indices, whole elements and the collective."""
    infos = list(tensors(point["network"]))
    numel = sum(info.numel for info in infos)
    found = {"parameters": float(numel), "elements": numel / sum(elements_sent(i, point["reading"]) for i in infos)}
    if point["reading"] == RULE:
        compressor = ScaleCom(small="compressed")
        plans = [t for info in infos for t in compressor.for_layer(info).plan(info.shape)]
        in_bytes = rates(plans, numel, WORKERS)
        found |= {"payload": in_bytes.payload, "wire": in_bytes.wire}
    return {name: round(value, 4) for name, value in found.items()}


POINTS: tuple[Point, ...] = tuple(
    {"network": network, "reading": reading} for network in PUBLISHED for reading in (RULE, DENSE_VECTORS, WIDE)
)


def _rate(results: Results, network: str, number: str = "elements", reading: str = RULE) -> float:
    return float(results.values(number, network=network, reading=reading)[0])


def _close(found: float, network: str) -> bool:
    published, tolerance = PUBLISHED[network]
    return abs(found / published - 1) <= tolerance


def the_three_rates(results: Results) -> Finding:
    """Rows T14, T15 and T16."""
    found = {n: _rate(results, n) for n in PUBLISHED}
    said = listed([f"{LABELS[n]} {found[n]:.1f} (theirs {PUBLISHED[n][0]})" for n in PUBLISHED])
    return Finding(all(_close(found[n], n) for n in PUBLISHED), f"Elements for one that is sent: {said}.")


def bytes_are_another_rate(results: Results) -> Finding:
    """With indices, and on the wire."""
    found = {n: [_rate(results, n, k) for k in ("payload", "wire")] for n in PUBLISHED}
    said = [f"{LABELS[n]} {payload:.0f} as payload and {wire:.0f} on the wire" for n, (payload, wire) in found.items()]
    return Finding(
        all(max(found[n]) < _rate(results, n) for n in PUBLISHED),
        f"In bytes against float32, indices of one or two bytes from the leader, {WORKERS} workers: {listed(said)}.",
    )


def other_readings_fail(results: Results) -> Finding:
    """Biases and normalization sent dense, or 14 × 14 outputs in the class of 25."""
    missed, said = [], []
    for reading in (DENSE_VECTORS, WIDE):
        found = {n: _rate(results, n, reading=reading) for n in PUBLISHED}
        missed.append(not all(_close(found[n], n) for n in PUBLISHED))
        said.append(f"{listed([f'{found[n]:.0f}' for n in PUBLISHED])} ({reading})")
    return Finding(
        all(missed), f"Two other readings of the rule give {listed(said)} for {listed([*LABELS.values()])}: not theirs."
    )


def ours(results: Results) -> str:
    """Rates by elements and by bytes."""
    return "; ".join(
        f"{LABELS[n]} {_rate(results, n):.1f} by elements, {_rate(results, n, 'payload'):.0f} by bytes of payload"
        for n in PUBLISHED
    )


SCALECOM_2020_RATES = Claim(
    id="scalecom_2020_rates",
    version=1,
    title="ScaleCom's rates follow from how often a weight is used",
    paper="C.-Y. Chen et al.: ScaleCom, NeurIPS 2020, arXiv 2104.11125",
    where="table 2 and the guide for rates",
    states="One element of 25, 50 or 400 is sent, by the multiplications per gradient value of a layer; whole networks "
    "come to 112, 96 and 155.",
    theirs="ResNet-18 112 times, ResNet-50 96 times, MobileNetV2 155 times (second-hand); the guide (recalled); what "
    "it leaves open (rebuilt by us)",
    experiment="The layer lists of the three networks at 224 × 224: from 197 uses of a weight on one of 25, from 128 "
    "one of 50, else one of 400; the first convolution dense, biases and normalization one of 25. Arithmetic, the same "
    "at every run.",
    points=POINTS,
    seeds=(0, 1, 2),
    measure=measure,
    shape=(Check("The three rates", the_three_rates),),
    ours=ours,
    explained=(
        Check("In bytes the rates are lower", bytes_are_another_rate),
        Check("Other readings of the rule miss them", other_readings_fail),
    ),
    budget_seconds=10,
    limits="That 196 uses belong to the class of 50, and the treatment of the first layer and of vectors, were chosen "
    "by us because the published rates then follow; the paper counts elements, not bytes.",
    modelled=True,
)
