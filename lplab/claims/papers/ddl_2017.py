"""Cho et al. 2017: 95 % of perfect scaling on 256 GPUs, and 16 days that become 7 hours at 88 %."""

from __future__ import annotations

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.papers.ddl_model import ddl_efficiency, goyal_efficiency

PUBLISHED, GOYAL, LARGE = 95.0, 90.0, 88.0  # per cent
GPUS = (4, 16, 64, 256)
DAYS, BASE_GPUS = 16, 4  # on so many GPUs
SLOWER, LARGER = 7.8 / 4.1, (42.5 + 2.048 * 21.841) / 25.56  # ResNet-101 with 21,841 classes against ResNet-50
STEP_101 = 20 * 213.14e-3 / 32 * SLOWER  # seconds, 20 images a GPU

POINTS: tuple[Point, ...] = (
    *({"what": "resnet50", "gpus": n, "ports": p, "overlap": 0.0} for p in (1, 2) for n in GPUS),
    *({"what": "resnet50", "gpus": 256, "ports": p, "overlap": 1.0} for p in (1, 2)),
    *({"what": "resnet101", "gpus": 256, "ports": 2, "overlap": overlap} for overlap in (0.0, 1.0)),
    *({"what": "goyal", "overlap": overlap} for overlap in (0.0, 1.0)),
    {"what": "hours"},
)

claim = ClaimBuilder(
    id="ddl_2017",
    title="256 GPUs at 95 % of perfect scaling: with two network ports a node, or with overlap",
    paper=cite("ddl_2017"),
    where="abstract; IBM's announcement",
    statement="ResNet-50 scales to 256 GPUs at 95 %, where the best before was 89 %; ResNet-101 on ImageNet-22K takes "
    "7 hours on 256 GPUs where one server of 4 needs 16 days.",
    published="95 % (read), 16 days to 7 hours (read), 88 % for ResNet-101 (recalled); Goyal et al. about 90 % (read)",
    experiment="The simulator, the same at every run: 64 nodes of 4 P100, NVLink inside, InfiniBand EDR between, "
    "rings; 200 ms of computing in a step as measured by them, 102 MB of gradients in FP32.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=10,
    modelled=True,
    limits="The number of ports, overlap and NVLink's 80 % are assumptions; stragglers and reading of data are left "
    "out.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Efficiency by the simulator, or hours by arithmetic."""
    what = point["what"]
    if what == "hours":
        hours = DAYS * 24 / (256 / BASE_GPUS)
        return {"perfect": hours, "hours": round(hours / (LARGE / 100), 6), "needed": round(100 * hours / 7, 6)}
    if what == "goyal":
        return {"efficiency": round(goyal_efficiency(point["overlap"]), 6)}
    seconds = {"seconds": STEP_101 / LARGER} if what == "resnet101" else {}  # as if the gradient were ResNet-50's
    return {"efficiency": round(ddl_efficiency(point["gpus"], point["ports"], point["overlap"], **seconds), 6)}


def _of(results: Results, number: str = "efficiency", **point: object) -> float:
    return float(results.values(number, **point)[0])


def _on_256(results: Results, ports: int, overlap: float = 0.0, what: str = "resnet50") -> float:
    return _of(results, what=what, gpus=256, ports=ports, overlap=overlap)


@claim.criterion("95 % within three points")
def within_three_points(results: Results) -> CheckResult:
    """Two ports and nothing hidden come within three points of 95 %."""
    values = _on_256(results, 2)
    return CheckResult(
        abs(values - PUBLISHED) < 3,
        f"ResNet-50 on 64 nodes of 4 with two InfiniBand ports, gradients sent after the backward pass: {values:.1f} % "
        f"(published {PUBLISHED:.0f}).",
    )


def _modelled_hours(results: Results) -> tuple[float, float]:
    """Hours of the larger network on 256 GPUs by the model: all transfers hidden, and none."""
    perfect = _of(results, "perfect", what="hours")
    low, high = (perfect / _on_256(results, 2, overlap, "resnet101") * 100 for overlap in (1.0, 0.0))
    return low, high


@claim.criterion("16 days become 7 hours")
def sixteen_days_become_seven_hours(results: Results) -> CheckResult:
    """The 7 hours lie in the model's range, from all hidden to nothing hidden; with their own 88 % it is 6.8."""
    hours, needed = _of(results, "hours", what="hours"), _of(results, "needed", what="hours")
    low, high = _modelled_hours(results)
    return CheckResult(
        low <= 7 <= high and abs(hours / 7 - 1) < 0.05,
        f"{DAYS} days on {BASE_GPUS} GPUs are {_of(results, 'perfect', what='hours'):.0f} hours on 256 if nothing is "
        f"lost. The model says {low:.1f} with all transfers hidden and {high:.1f} with none. With their efficiency of "
        f"{LARGE:.0f} % it is {hours:.1f}; the 7 hours that are stated are {needed:.1f} %.",
    )


@claim.criterion("More than halving-doubling over slower Ethernet")
def better_than_halving_doubling(results: Results) -> CheckResult:
    """Facebook's cluster with a slower network, in the same model, is where it said to be, and below IBM's."""
    goyal, ddl = _of(results, what="goyal", overlap=0.0), _on_256(results, 2)
    return CheckResult(
        abs(goyal - GOYAL) < 3 and goyal < ddl,
        f"Facebook's 32 servers of 8 with 50 Gb/s and halving-doubling: {goyal:.1f} % of 8 GPUs (published about "
        f"{GOYAL:.0f}), less than IBM's {ddl:.1f} %.",
    )


@claim.explanation("One port alone would not do")
def ports_decide(results: Results) -> CheckResult:
    """With one port and nothing hidden it is not 95 %: the port, or overlap, is what the number hangs on."""
    one, hidden = _on_256(results, 1), _on_256(results, 1, 1.0)
    return CheckResult(
        one < PUBLISHED - 3 < hidden,
        f"With one port a node it is {one:.1f} %, and {hidden:.1f} % with gradients on their way behind the backward "
        "pass. How many ports there were, and how much was hidden, could not be found out.",
    )


@claim.explanation("If all were hidden it would be more")
def hiding_would_do_better(results: Results) -> CheckResult:
    """The model with everything hidden is above what both measured: they waited for more than the model's network."""
    values = {"IBM": _on_256(results, 2, 1.0), "Facebook": _of(results, what="goyal", overlap=1.0)}
    return CheckResult(
        values["IBM"] > PUBLISHED + 2 and values["Facebook"] > GOYAL + 2,
        f"With gradients sent behind the backward pass the model gives {values['IBM']:.1f} and "
        f"{values['Facebook']:.1f} %, more than either measured: in both, transfers were exposed or slower than the "
        "line, or machines waited for each other.",
    )


@claim.explanation("Why 88 % with more classes")
def classes_cost(results: Results) -> CheckResult:
    """Why 88 % for ResNet-101 on 22,000 classes: its gradient is 3.4 times as large, its step not even 20 % longer."""
    exposed, hidden = (_on_256(results, 2, overlap, "resnet101") for overlap in (0.0, 1.0))
    return CheckResult(
        exposed < LARGE < hidden,
        f"The 88 % are of ResNet-101 with 21,841 classes: by bytes its gradient is {LARGER:.1f} times that of "
        f"ResNet-50, and 20 images a GPU compute {1e3 * STEP_101:.0f} ms. Two ports give {exposed:.1f} % with nothing "
        f"hidden and {hidden:.1f} % with all hidden: the 88 % lie between.",
    )


@claim.summary
def measured(results: Results) -> str:
    """The efficiency on each number of GPUs, and the hours of the training, as text."""
    each = [f"{_of(results, what='resnet50', gpus=n, ports=2, overlap=0.0):.1f} % on {n}" for n in GPUS]
    low, high = _modelled_hours(results)
    return f"{', '.join(each)} GPUs (two network ports a node); {low:.1f} to {high:.1f} hours (model)"


claim.draw(
    "efficiency, %, two ports and nothing hidden",
    lambda results: {f"{n} GPUs": _of(results, what="resnet50", gpus=n, ports=2, overlap=0.0) for n in GPUS},
    {"256 GPUs": PUBLISHED},
    axis=(80, 100),
)
claim.draw(
    "hours on 256 GPUs (16 days on 4), by the model",
    lambda results: dict(zip(("all hidden", "nothing hidden"), _modelled_hours(results), strict=True)),
    {"all hidden": 7, "nothing hidden": 7},
    axis=(0, 8),
)

claim.compared(
    theirs_on="ImageNet, ResNet-50, 256 GPUs",
    ours_on="a model of ResNet-50 on 256 GPUs",
    rows=({"4 GPUs": "4 GPUs", "64 GPUs": "64 GPUs", "256 GPUs": "256 GPUs"},),
)
claim.found(
    within_three_points,
    holds=lambda results: f"{_on_256(results, 2):.1f} %, within three points of their 95",
    fails=lambda results: f"{_on_256(results, 2):.1f} %, not within three points of their 95",
)
claim.found(sixteen_days_become_seven_hours, holds="16 days become 7 hours", fails="16 days do not become 7 hours")
claim.found(better_than_halving_doubling, holds="more than Facebook's", fails="not more than Facebook's")
claim.found(
    ports_decide,
    holds="if a node has two network ports, which is assumed",
    fails="with one network port, too",
    limits=True,
)

DDL_2017 = claim.build()
