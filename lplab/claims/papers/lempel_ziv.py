"""Lossless compression of gradients, as a paper on AdaComp dismisses it: how much smaller, and at which cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import join_words, median_and_range
from lplab.compression import AdaComp, Compressor, Context, Dense, LayerInfo, LayerState, Lossless, TopK, Transfer
from lplab.compression.compressor import Steps

FAMILIES = {"fully connected": "mlp", "convolutional": "digits_resnet", "LSTM": "lstm"}
VALUES = 2**21  # values of a measurement: gradients of as many steps as that takes
SKIP = 5  # steps before the first gradient
REPEATS = 3
LARGE = 1024  # elements: smaller tensors go dense
CODECS: dict[str, Compressor] = {
    **{f"{codec}": Lossless(codec, 1, shuffle=False) for codec in ("lz4", "zstd", "zlib")},
    **{f"{codec} shuffled": Lossless(codec, 1, shuffle=True) for codec in ("lz4", "zstd", "zlib")},
    "AdaComp 50": AdaComp(bin=50),
    "AdaComp 500": AdaComp(bin=500),
    "top-k 1 %": TopK(0.01),
}
LOSSLESS = tuple(name for name in CODECS if name.startswith(("lz4", "zstd", "zlib")))

POINTS: tuple[Point, ...] = tuple({"family": family} for family in FAMILIES)

claim = ClaimBuilder(
    id="lempel_ziv",
    title="Lempel-Ziv is too slow and too weak for gradients, AdaComp is cheap",
    paper=cite("adacomp_2018"),
    where="the discussion of other methods",
    statement="General lossless compression costs too much time for what it saves of a gradient; selection inside "
    "short bins costs little and saves much.",
    published="an argument without numbers that we could read; LZ4 and Snappy leave bfloat16 weights as large as they "
    "are (read, from another source)",
    experiment=f"{VALUES:,} gradient values each of three linear layers, a residual net (digits) and an LSTM "
    "(characters), from one step after another, with AdaComp's own residuals; every codec packs and unpacks them in "
    f"turn, on one thread. Cost: processor seconds against those of a copy in memory, the least of {REPEATS}.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=60,
    timed=True,
    limits="Costs are those of one machine with other work on it; only their order is judged. Codecs at their fastest "
    "level. In bins of 50 AdaComp costs about as much as LZ4. The vectors nearly fit the cache, where copies are "
    "cheap. Small networks; larger ones have fewer zeros.",
)


@dataclass(frozen=True)
class _Captured(Compressor):
    """Another compressor; it records the residual and the gradient of every step. For one learner."""

    compressor: Compressor
    kept: list[tuple[np.ndarray, np.ndarray]]

    def for_layer(self, layer: LayerInfo) -> Compressor:
        return _Captured(self.compressor.for_layer(layer), self.kept)

    def init(self, shape: Sequence[int]) -> LayerState:
        return self.compressor.init(shape)

    def steps(self, gradient: np.ndarray, state: LayerState, context: Context) -> Steps:
        flat = gradient.reshape(-1).copy()
        if context.step >= SKIP and flat.size >= LARGE:
            self.kept.append((state["residual"].copy() if "residual" in state else np.zeros_like(flat), flat))
        return (yield from self.compressor.steps(gradient, state, context))

    def plan(self, shape: Sequence[int], activity: Any = None) -> tuple[Transfer, ...]:
        return self.compressor.plan(shape, activity)


def recorded(family: str, compressor: Compressor, seed: int, values: int = VALUES) -> tuple[np.ndarray, np.ndarray]:
    """Residuals and gradients of one learner's large tensors while it trains: float32 [values] each, step after step.

    >>> residuals, gradients = recorded("fully connected", AdaComp(bin=50), seed=0, values=100_000)
    >>> gradients.shape, bool((residuals != 0).any())
    ((100000,), True)
    """
    from lplab.claims.framework.learner_trainings import make
    from lplab.training import tasks

    kept: list[tuple[np.ndarray, np.ndarray]] = []
    run = make(tasks.get(FAMILIES[family]), _Captured(compressor, kept), 1, seed)
    while sum(gradient.size for _, gradient in kept) < values:
        run.one_step()
    residuals, gradients = (np.concatenate([pair[i] for pair in kept])[:values] for i in (0, 1))
    return residuals, gradients


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Size against float32, and the seconds of packing and unpacking against those of a copy, for each codec.

    All of them take turns, so that what else the machine does meets all alike; the least of the repeats counts, in
    seconds of the processor.
    """
    dense = recorded(point["family"], Dense(), seed)
    source, target = dense[1], np.empty_like(dense[1])
    works: dict[str, Callable[[], int]] = {"copy": lambda: _copy(source, target)}
    for name, codec in CODECS.items():
        own = recorded(point["family"], codec, seed) if isinstance(codec, AdaComp) else dense
        works[name] = _work(codec, *own)
    sizes = {name: work() for name, work in works.items()}  # the first call also compiles
    least = dict.fromkeys(works, np.inf)
    for _ in range(REPEATS):
        for name, work in works.items():
            least[name] = min(least[name], _seconds(work, 20 if name == "copy" else 1))
    values = {"zeros": round(float(np.mean(source == 0)), 6)}
    for name in CODECS:
        values[f"{name}: size"] = round(sizes[name] / source.nbytes, 6)
        values[f"{name}: copies"] = round(least[name] / least["copy"], 3)
    return values


def _work(codec: Compressor, residual: np.ndarray, gradient: np.ndarray) -> Callable[[], int]:
    """Pack and unpack once; returns the bytes of the message."""
    state: LayerState = codec.init(gradient.shape)
    if "residual" in state:
        state.load({"residual": residual})

    def work() -> int:
        request: Any = codec.steps(gradient, state, Context()).send(None)
        state.rollback()
        request.finish([request.payload])
        return int(request.payload.size)

    return work


def _copy(source: np.ndarray, target: np.ndarray) -> int:
    np.copyto(target, source)
    return target.nbytes


def _seconds(work: Callable[[], int], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - start) / times


def _of(results: Results, family: str, codec: str, what: str) -> np.ndarray:
    return results.values(f"{codec}: {what}", family=family)


def _all(results: Results, codec: str, what: str) -> np.ndarray:
    """All families and seeds."""
    return np.concatenate([_of(results, family, codec, what) for family in FAMILIES])


@claim.criterion("Too weak")
def too_weak(results: Results) -> CheckResult:
    """No lossless codec comes near AdaComp, on any gradient."""
    best = np.min([_all(results, codec, "size") for codec in LOSSLESS], axis=0)
    adacomp = _all(results, "AdaComp 50", "size")
    return CheckResult(
        bool((best > 5 * adacomp).all()),
        f"The best of six lossless settings leaves {median_and_range(100 * best, 0)} % of the bytes, AdaComp in bins "
        f"of 50 {median_and_range(100 * adacomp, 1)} %.",
    )


@claim.criterion("Slower than AdaComp")
def too_slow(results: Results) -> CheckResult:
    """The fastest lossless codec costs more than AdaComp, on any gradient."""
    fastest = np.min([_all(results, codec, "copies") for codec in LOSSLESS], axis=0)
    adacomp = _all(results, "AdaComp 500", "copies")
    costs = [f"{codec} {median_and_range(_all(results, codec, 'copies'), 0)}" for codec in ("lz4", "zstd", "zlib")]
    return CheckResult(
        bool((fastest > adacomp).all()),
        f"Packing and unpacking, in times of one copy of the gradient in memory: {join_words(costs)}, AdaComp "
        f"{median_and_range(adacomp, 0)} in bins of 500 and "
        f"{median_and_range(_all(results, 'AdaComp 50', 'copies'), 0)} in bins of 50.",
    )


@claim.explanation("What it finds are zeros")
def zeros_are_what_it_finds(results: Results) -> CheckResult:
    """Where few gradients are exactly zero a lossless codec finds little."""
    text, gains = [], []
    for family in FAMILIES:
        zeros, size = results.values("zeros", family=family), _of(results, family, "zstd", "size")
        text.append(f"{100 * np.median(zeros):.0f} % zeros, {100 * np.median(size):.0f} % left ({family})")
        gains.append((float(np.median(zeros)), float(np.median(size))))
    ordered = sorted(gains)
    return CheckResult(
        all(a[1] >= b[1] - 0.02 for a, b in pairwise(ordered)),
        f"zstd, and the gradients that are exactly 0: {'; '.join(text)}.",
    )


@claim.explanation("Shuffling the bytes helps")
def shuffling_helps(results: Results) -> CheckResult:
    """Bytes of the same place together: signs and exponents repeat."""
    pairs = {c: [_all(results, name, "size") for name in (c, f"{c} shuffled")] for c in ("lz4", "zstd", "zlib")}
    text = [f"{codec} {100 * np.median(a):.0f} → {100 * np.median(b):.0f} %" for codec, (a, b) in pairs.items()]
    return CheckResult(
        all(np.median(b) < np.median(a) for a, b in pairs.values()),
        f"With bytes shuffled, left of the bytes: {join_words(text)}.",
    )


@claim.explanation("A global order is dear, too")
def a_global_order_is_dear(results: Results) -> CheckResult:
    """Top-k of the whole vector against the maxima of bins."""
    topk, adacomp = (_all(results, name, "copies") for name in ("top-k 1 %", "AdaComp 500"))
    return CheckResult(
        bool(np.median(topk) > np.median(adacomp)),
        f"Exact top-k of 1 % takes as long as {median_and_range(topk, 0)} copies, AdaComp in bins of 500 "
        f"{median_and_range(adacomp, 0)}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Sizes and costs, medians over families and seeds."""
    names = ("lz4", "zstd", "zstd shuffled", "zlib", "AdaComp 50", "AdaComp 500")
    values = {n: [float(np.median(_all(results, n, what))) for what in ("size", "copies")] for n in names}
    each = [f"{name} {100 * size:.2g} % and {cost:.0f}" for name, (size, cost) in values.items()]
    return f"medians, left of the bytes, and time (one copy in memory is 1): {', '.join(each)}"


SMALLER = ("lz4", "zstd", "zstd shuffled", "zlib", "AdaComp 50", "AdaComp 500")
claim.draw(
    "bytes that are left, %",
    lambda results: {name: 100 * _all(results, name, "size") for name in SMALLER},
    log=True,
    over="gradients",
)
claim.draw(
    "time (one copy in memory is 1)",
    lambda results: {name: _all(results, name, "copies") for name in SMALLER},
    log=True,
    over="gradients",
)

claim.compared(
    theirs_on="an argument, without numbers",
    ours_on="gradients of three networks",
    rows=(
        {"zstd shuffled": "zstd, bytes sorted", "AdaComp 50": "AdaComp, bins of 50"},
        {"zstd shuffled": "zstd, bytes sorted", "AdaComp 50": "AdaComp, bins of 50"},
    ),
)
claim.found(too_weak, holds="far more bytes left than with AdaComp", fails="no more bytes left than with AdaComp")
claim.found(too_slow, holds="and slower", fails="not slower")

LEMPEL_ZIV = claim.build()
