"""How fast sums in a format are, as ratios to a float32 ``torch.matmul`` of the same size timed in the same run.

``python -m benchmarks arithmetic`` (``--quick`` for a taste). Every repetition times torch, candidate, torch; the
table has the median of the ratios. On one thread the clock counts CPU seconds, so a busy machine changes the seconds
more than the ratios; on two threads it is the wall clock, which means something on a quiet machine alone. A bar is what
lplab promises on two threads. The exit code is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import torch
from torch.nn import functional

from lplab import formats as F
from lplab.arithmetic import Accumulator, matmul
from lplab.arithmetic.im2col import im2col
from lplab.formats.paths import kernel_selection

SIZE = 512
BAR, CONVOLUTION_BAR = 8.0, 10.0
Work = Callable[[], object]


@dataclass(frozen=True)
class Candidate:
    """Something to time, beside what, and what it may cost in units of that (None: no promise)."""

    work: str
    run: Work
    yardstick: Work
    bar: float | None = None
    share: float = 1.0  # of the yardstick's work, for what is too slow for all of it
    without_loops: bool = False


@dataclass(frozen=True)
class Result:
    """The median ratio to the yardstick, and its quartiles."""

    work: str
    threads: int
    ratio: float
    low: float
    high: float
    bar: float | None

    @property
    def verdict(self) -> str:
        """How the ratio stands to the bar."""
        return "" if self.bar is None else ("within" if self.ratio <= self.bar else "MISSED")


def operands(name: str | None = None, size: int = SIZE) -> tuple[torch.Tensor, torch.Tensor]:
    """Two matrices of normal numbers, rounded to a format."""
    generator = torch.Generator().manual_seed(2018)
    pair = (torch.randn(size, size, generator=generator) for _ in range(2))
    left, right = (x if name is None else F.get(name).quantize(x) for x in pair)
    return left, right


def products() -> Iterator[Candidate]:
    """512 × 512 × 512 with every addition rounded."""

    def row(work: str, pair: tuple, accumulator: Accumulator, bar: float | None = None, **more: object) -> Candidate:
        a, b = pair
        seed = 1 if accumulator.rounding.is_stochastic else None
        return Candidate(work, lambda: matmul(a, b, accumulator, seed=seed), lambda: torch.matmul(a, b), bar, **more)

    fp8, sixteen, single = operands("hfp8_forward"), operands("dlfloat16"), operands()
    yield row("1-4-3 operands, 1-6-9 sums", fp8, Accumulator("dlfloat16"), BAR)
    yield row("… chunks of 64", fp8, Accumulator("dlfloat16", chunk=64), BAR)
    yield row("… chunks of 64, ties away", fp8, Accumulator("dlfloat16", chunk=64, rounding="nearest_away"), BAR)
    yield row("… bfloat16 sums", fp8, Accumulator("bf16"))
    yield row("… float16 sums", fp8, Accumulator("fp16"))
    yield row("… products rounded, too", fp8, Accumulator("dlfloat16", fma=False))
    yield row("… toward zero", fp8, Accumulator("dlfloat16", rounding="toward_zero"))
    yield row("… stochastic", fp8, Accumulator("dlfloat16", rounding="stochastic"))
    yield row("1-6-9 operands, 1-6-9 sums", sixteen, Accumulator("dlfloat16"))
    yield row("float32 operands, 1-6-9 sums", single, Accumulator("dlfloat16"))
    yield row("float32 operands, q16.16 sums", single, Accumulator("q16.16"))
    few = fp8[0][:64], fp8[1]
    without = row("the first without numba", few, Accumulator("dlfloat16"), without_loops=True)
    yield Candidate(without.work, without.run, lambda: torch.matmul(*fp8), None, 64 / SIZE, True)


def convolution() -> Candidate:
    """Forward and both backward products of a convolution, 32 to 64 channels, on patches, against torch's own."""
    generator = torch.Generator().manual_seed(0)
    quantize = F.get("hfp8_forward").quantize
    x = quantize(torch.randn(64, 32, 14, 14, generator=generator))
    weight = quantize(torch.randn(64, 32, 3, 3, generator=generator))
    dy = F.get("hfp8_backward").quantize(torch.randn(64, 64, 14, 14, generator=generator))
    how = Accumulator("dlfloat16", chunk=64)

    def plain() -> None:
        functional.conv2d(x, weight, padding=1)
        torch.ops.aten.convolution_backward(dy, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True] * 3)

    def emulated() -> None:
        columns = im2col(x, (3, 3), padding=(1, 1))
        matmul(weight.flatten(1), columns, how)
        matmul(dy.transpose(0, 1).flatten(1), columns.T, how)
        turned = weight.flip(2, 3).transpose(0, 1).flatten(1)
        matmul(turned, im2col(dy, (3, 3), padding=(1, 1)), how)

    return Candidate("a convolution's three products", emulated, plain, CONVOLUTION_BAR)


def peers() -> Iterator[Candidate]:
    """The first row with peers, on fewer rows to save time; peers that are missing are named."""
    known = {"apytypes": with_apytypes, "qtorch": with_qtorch}
    a, b = operands("hfp8_forward")
    for module, make in known.items():
        if find_spec(module) is None:
            print(f"{module} left out: no such module (it is timed where it can be imported)", file=sys.stderr)
            continue
        few = a[: SIZE // 64]
        yield Candidate(f"the first by {module}", make(few, b), lambda: torch.matmul(a, b), None, len(few) / SIZE)


def with_apytypes(a: torch.Tensor, b: torch.Tensor) -> Work:
    """apytypes' accumulator context."""
    import apytypes

    left, right = (apytypes.APyFloatArray.from_array(x.numpy(), exp_bits=8, man_bits=23) for x in (a, b))

    def work() -> None:
        with apytypes.APyFloatAccumulatorContext(exp_bits=6, man_bits=9):
            left @ right

    return work


def with_qtorch(a: torch.Tensor, b: torch.Tensor) -> Work:
    """QPyTorch has no such product: the loop that its user writes, a column times a row at a time."""
    from qtorch.quant import float_quantize

    def work() -> None:
        total = torch.zeros(len(a), b.shape[1])
        for k in range(b.shape[0]):
            total = float_quantize(total + a[:, k : k + 1] * b[k], exp=6, man=9, rounding="nearest")

    return work


def measure(candidate: Candidate, threads: int, repetitions: int) -> Result:
    """Time yardstick, candidate, yardstick; first once without counting, which also compiles the loops."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    ratios = []
    with kernel_selection.without_compiled_loops(candidate.without_loops):
        candidate.run()
        for _ in range(4):
            candidate.yardstick()
        for _ in range(repetitions):
            stamps = [clock()]
            for step in (candidate.yardstick, candidate.run, candidate.yardstick):
                for _ in range(1 if step is candidate.run else 3):
                    step()
                stamps.append(clock())
            before, work, after = (later - sooner for sooner, later in pairwise(stamps))
            ratios.append(work / (candidate.share * (before + after) / 6))
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Result(candidate.work, threads, middle, low, high, candidate.bar if threads == 2 else None)


def show(result: Result) -> None:
    """One line of the table."""
    spread = f"{result.low:.1f}–{result.high:.1f}"
    bar = "" if result.bar is None else f"{result.bar:.0f}"
    print(
        f"{result.work:34} {result.threads:7} {result.ratio:8.1f} {spread:>13} {bar:>5}  {result.verdict}", flush=True
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks arithmetic", description="Sums in a format as ratios to torch. Example: --quick"
    )
    parser.add_argument("--quick", action="store_true", help="5 repetitions instead of 15")
    parser.add_argument("--json", metavar="FILE", help="write the results there, too, beside what it already holds")
    options = parser.parse_args()
    print(f"\n{SIZE}³ multiplications and additions, × a float32 torch.matmul (the convolution: × torch's own)\n")
    print(f"{'work':34} {'threads':>7} {'ratio':>8} {'quartiles':>13} {'bar':>5}")
    results = []
    for candidate in (*products(), convolution(), *(() if options.quick else peers())):
        for threads in (1, 2):
            few = candidate.share < 1 or options.quick
            results.append(measure(candidate, threads, 5 if few else 15))
            show(results[-1])
    if options.json:
        file = Path(options.json)
        known = json.loads(file.read_text("utf-8")) if file.exists() else {}
        file.write_text(json.dumps({**known, "arithmetic": [asdict(r) for r in results]}, indent=1), "utf-8")
    return int(any(r.verdict == "MISSED" for r in results))


if __name__ == "__main__":
    sys.exit(main())
