"""Chen et al. 2020: what ScaleCom saves of a step, by the paper's own kind of model, rebuilt."""

from __future__ import annotations

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words
from lplab.claims.papers.scalecom_model import DENSE, LOCAL, SCALECOM, estimate, limit

PUBLISHED = {(100, 8): 2.0, (100, 32): 1.23, (300, 8): 4.1, (300, 32): 1.75}
"""Speedups by TFLOPS of a worker and images in a step of a worker (second-hand; which is which is recalled)."""
SHARES = {8: 0.56, 32: 0.20}
WORKERS = (8, 32, 128)
PLAIN = {"utilization": 1.0, "precision": "fp32"}
TOLERANCE = 0.15

POINTS: tuple[Point, ...] = (
    *(
        {"scheme": scheme, "teras": teras, "batch": batch, "workers": workers}
        for scheme in (DENSE, SCALECOM, LOCAL)
        for teras, batch in PUBLISHED
        for workers in WORKERS
    ),
    *({"scheme": DENSE, "teras": 100, "batch": batch, "workers": 8, "plain": True} for batch in SHARES),
)

claim = ClaimBuilder(
    id="scalecom_2020_speedup",
    title="ScaleCom makes a step up to 4 times as fast, however many workers: by a model",
    paper=cite("scalecom_2020"),
    where="section 5, figure 6",
    statement="With ResNet-50 a step becomes 1.23 to 2 times as fast with workers of 100 TFLOPS, 1.75 to 4.1 times "
    "with 300; the share of sending falls from 56 % to under 3 % at 128 workers.",
    published="2 × and 1.23 × at 100 TFLOPS, 4.1 × and 1.75 × at 300; 56 % to under 3 % (second-hand); batches 8 and "
    "32, 32 GB/s, parameter server (recalled); a model in the paper, too",
    experiment="The same kind of model, the same at every run: ResNet-50 layer by layer, servers at 32 GB/s, workers "
    "at 80 % of their rate, dense gradients in 16 bits, ScaleCom with one value of 112 in 32 bits and its indices.",
    points=POINTS,
    seeds=(0,),
    budget_seconds=10,
    modelled=True,
    limits="Nothing is timed, in the paper neither. Bandwidth alone: no latency of the extra broadcast of indices, "
    "nothing hidden behind the backward pass, no time for choosing.",
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Seconds of a step, and the share of it that is sending."""
    settings = PLAIN if point.get("plain") else {}
    design = {"teras": point["teras"], "batch": point["batch"], "workers": point["workers"]}
    values = estimate(point["scheme"], **design, **settings)
    return {"seconds": round(1e3 * values.seconds, 6), "share": round(values.share, 6)}  # milliseconds


def _number(results: Results, name: str, scheme: str, teras: int, batch: int, workers: int) -> float:
    return float(results.values(name, scheme=scheme, teras=teras, batch=batch, workers=workers)[0])


def _speedup(results: Results, teras: int, batch: int, scheme: str = SCALECOM, workers: int = 8) -> float:
    dense, other = (_number(results, "seconds", s, teras, batch, workers) for s in (DENSE, scheme))
    return dense / other


def _theirs() -> str:
    return join_words([f"{100 * share:.0f}" for share in SHARES.values()])


@claim.criterion("The four speedups within 15 %")
def the_four_speedups(results: Results) -> CheckResult:
    """All four within 15 %."""
    values = {which: _speedup(results, *which) for which in PUBLISHED}
    text = join_words([f"{values[t, b]:.2f} (theirs {PUBLISHED[t, b]}) at {t} TFLOPS, batch {b}" for t, b in PUBLISHED])
    return CheckResult(
        all(abs(values[w] / PUBLISHED[w] - 1) < TOLERANCE for w in PUBLISHED), f"Times as fast as dense: {text}."
    )


@claim.criterion("Sending falls below 3 %")
def sending_all_but_ends(results: Results) -> CheckResult:
    """Sending falls from 56 % to under 3 % of the step, at 128 workers, too."""
    dense, ours_ = (_number(results, "share", s, 100, 8, 128) for s in (DENSE, SCALECOM))
    return CheckResult(
        ours_ < 0.03 and abs(dense - SHARES[8]) < 0.03,
        f"At 128 workers {100 * dense:.0f} % of a dense step are sending, {100 * ours_:.1f} % with ScaleCom.",
    )


@claim.criterion("The number of workers does not matter")
def workers_do_not_matter(results: Results) -> CheckResult:
    """The message does not grow with the workers."""
    values = [_speedup(results, 100, 8, workers=n) for n in WORKERS]
    return CheckResult(
        max(values) / min(values) < 1.02,
        f"With {join_words([str(n) for n in WORKERS])} workers: {join_words([f'{value:.2f}' for value in values])} "
        "times as fast.",
    )


@claim.explanation("Local top-k gains nothing with many workers")
def everyone_for_himself_grows(results: Results) -> CheckResult:
    """Local top-k: the union of the masks fills up."""
    few, many = (_speedup(results, 100, 8, LOCAL, n) for n in (WORKERS[0], WORKERS[-1]))
    return CheckResult(
        few > 1.5 and many < 1.05,
        f"If everybody sends its own largest elements at the same ratio it is {few:.2f} times as fast with "
        f"{WORKERS[0]} workers and {many:.2f} with {WORKERS[-1]}: what comes back is nearly the whole gradient.",
    )


@claim.explanation("What the shares allow at most")
def limits_of_the_shares(results: Results) -> CheckResult:
    """The paper's own shares, with nothing sent at all, bound the speedups, and three of four come close."""
    values = {(t, b): limit(SHARES[b], t / 100) for t, b in PUBLISHED}
    text = join_words([f"{values[w]:.2f} ({PUBLISHED[w]})" for w in PUBLISHED])
    return CheckResult(
        all(values[w] >= 0.99 * PUBLISHED[w] for w in PUBLISHED),
        f"With the shares of the paper, {_theirs()} %, and nothing sent at all it could be {text}.",
    )


@claim.explanation("The two shares do not fit together")
def the_two_shares_do_not_fit(results: Results) -> CheckResult:
    """Four times the batch is four times the computing: 56 % becomes 24, not 20."""
    first, second = (_number(results, "share", DENSE, 100, b, 8) for b in SHARES)
    return CheckResult(
        second > 0.23,
        f"The model has {100 * first:.0f} and {100 * second:.0f} % where the paper has {_theirs()}: with four times "
        "the images a step computes four times as long, so 56 % cannot become 20 by that alone.",
    )


@claim.explanation("The dense run must send 16 bits")
def bits_of_the_dense_run(results: Results) -> CheckResult:
    """Gradients in 32 bits at the full rate give other shares: the comparison must be with 16 bits."""
    plain = [float(results.values("share", scheme=DENSE, teras=100, batch=b, workers=8, plain=True)[0]) for b in SHARES]
    return CheckResult(
        plain[0] > SHARES[8] + 0.1 and plain[1] > SHARES[32] + 0.1,
        f"With gradients in 32 bits and workers at their full rate {100 * plain[0]:.0f} and {100 * plain[1]:.0f} % "
        "would be sending: the dense run of the paper must send 16 bits, or compute more slowly.",
    )


@claim.summary
def measured(results: Results) -> str:
    """The four speedups."""
    parts = [f"{_speedup(results, t, b):.2f} × at {t} TFLOPS and batch {b}" for t, b in PUBLISHED]
    return f"{join_words(parts)} (model)"


claim.draw(
    "times as fast as dense",
    lambda results: {f"{t} TFLOPS, batch {b}": _speedup(results, t, b) for t, b in PUBLISHED},
    {f"{t} TFLOPS, batch {b}": times for (t, b), times in PUBLISHED.items()},
    axis=(0, 5),
)

claim.compared(theirs_on="ResNet-50, by a model", ours_on="ResNet-50, by a model")
claim.found(the_four_speedups, holds="four speedups within 15 %", fails="not all four speedups within 15 %")
claim.found(sending_all_but_ends, holds="sending below 3 %", fails="sending not below 3 %")
claim.found(workers_do_not_matter, holds="the same for 8 to 128 workers", fails="not the same for 8 to 128 workers")

SCALECOM_2020_SPEEDUP = claim.build()
