"""What rounding costs on a GPU, as ratios to work of PyTorch's own that is timed in the same run.

``python -m benchmarks gpu`` (``--quick`` for a taste) takes less than six minutes. Rounding, encoding and the choice of
gradients are compared with a copy of as many float32 inside the GPU, products with a float32 ``torch.matmul`` of the
same size, a step of training with the same step in float32. The clock is the GPU's; yardstick and work take turns, and
a ratio is the median over the turns. Results of the first turns are compared with those of the CPU, bit for bit. A bar
is what lplab promises. The exit code is 1 if a bar is missed, and 2 on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from importlib.util import find_spec
from typing import Any

from lplab import formats as F
from lplab.quantizers import NVFP4_SIGNS, Hadamard

ELEMENTS, GRADIENTS, SIZE = 2**28, 2**26, 4096
TURNS, QUICK = 15, 3
SECONDS = 20.0  # after so many seconds a row has had its turns
COMPARED = 2**16  # numbers whose bits are compared with those of the CPU
BATCH, LENGTH, GPT2_SMALL = 4, 512, {"width": 768, "context": 512, "blocks": 12, "heads": 12}
VOCABULARY = 50257
Work = Callable[[], Any]


@dataclass(frozen=True)
class Candidate:
    """Something to time, beside what, what it may cost in units of that, and which part of the yardstick's work."""

    work: str
    yardstick: str
    make: Callable[[], tuple[Work, Work]]  # what is timed, and its yardstick
    bar: float


@dataclass(frozen=True)
class Result:
    """The median of the ratios to the yardstick, its quartiles, the yardstick's milliseconds."""

    work: str
    yardstick: str
    ratio: float
    low: float
    high: float
    yardstick_ms: float
    bar: float

    @property
    def verdict(self) -> str:
        """How the ratio stands to the bar."""
        return "within" if self.ratio <= self.bar else "MISSED"


def rounding() -> Iterator[Candidate]:
    """Rounding of 2^28 numbers, against a copy of them."""
    import torch

    def row(
        work: str, name: str, bar: float, mode: str = "nearest_even", encodes: bool = False, transform: Any = None
    ) -> Candidate:
        fmt = F.get(name)

        def make() -> tuple[Work, Work]:
            generator = torch.Generator("cuda").manual_seed(2015)
            x = torch.randn(ELEMENTS, device="cuda", generator=generator)
            x *= torch.exp2(4 * torch.randn(ELEMENTS, device="cuda", generator=generator))
            out = torch.empty_like(x)
            few = x[:COMPARED]
            if encodes:
                got, want = fmt.encode(few, mode, seed=1), fmt.encode(few.cpu(), mode, seed=1)
                for part, expected in zip(got[:2], want[:2], strict=True) if isinstance(got, tuple) else [(got, want)]:
                    check(work, part, expected)
                return lambda: fmt.encode(x, mode, seed=1), lambda: out.copy_(x)
            if transform is not None:
                check(work, transform.quantize(few, fmt, mode, 1), transform.quantize(few.cpu(), fmt, mode, 1))
                return lambda: transform.quantize(x, fmt, mode, 1), lambda: out.copy_(x)
            check(work, fmt.quantize(few, mode, seed=1), fmt.quantize(few.cpu(), mode, seed=1))
            return lambda: fmt.quantize(x, mode, seed=1, out=out), lambda: out.copy_(x)

        return Candidate(work, "copy", make, bar)

    for name in ("e4m3fn", "bf16", "int8"):
        yield row(f"{name}, nearest", name, 1.15)
    for name in ("e4m3fn", "bf16"):
        yield row(f"{name}, stochastic", name, 1.3, "stochastic")
    for name in ("radix4_fp4_even", "e2m1", "posit8_1", "lns8"):
        yield row(f"{name}, nearest", name, 1.15 if name == "e2m1" else 1.5)
    for name in ("mxfp8_e4m3", "mxfp4"):
        yield row(name, name, 1.3)
    yield row("nvfp4", "nvfp4", 2.0)
    transform = Hadamard(16, NVFP4_SIGNS)
    for name, bar in (("mxfp4", 1.3), ("nvfp4", 2.0)):
        yield row(f"Hadamard of 16, {name}, stochastic", name, bar, "stochastic", transform=transform)
    for name, bar in (("e4m3fn", 1.0), ("mxfp4", 1.0), ("nvfp4", 1.5)):
        yield row(f"{name}, codes", name, bar, encodes=True)


def products() -> Iterator[Candidate]:
    """4096 × 4096 × 4096 with rounded sums, against PyTorch's product in float32."""
    import torch

    from lplab.arithmetic import matmul

    def row(work: str, bar: float, **how: Any) -> Candidate:
        def make() -> tuple[Work, Work]:
            generator = torch.Generator("cuda").manual_seed(2018)
            pair = [torch.randn(SIZE, SIZE, device="cuda", generator=generator) for _ in range(2)]
            a, b = (F.get("hfp8_forward").quantize(x) for x in pair)
            check(work, matmul(a[:16], b[:, :16], **how), matmul(a[:16].cpu(), b[:, :16].cpu(), **how))
            return lambda: matmul(a, b, **how), lambda: torch.matmul(a, b)

        return Candidate(work, "float32 product", make, bar)

    yield row("1-6-9, the sum of each 64 rounded", 4.0, accumulator="fp32", chunk=64, outer="dlfloat16")
    yield row("1-6-9, every addition rounded", 60.0, accumulator="dlfloat16", chunk=64)


def training() -> Iterator[Candidate]:
    """A step of a Transformer of the size of GPT-2 small, against the same step in float32."""
    import torch
    from torch.nn import functional

    from lplab.models import transformer
    from lplab.training import quantize_model

    def step_of(recipe: str) -> Work:
        model = transformer(VOCABULARY, seed=0, **GPT2_SMALL).cuda()
        if recipe:
            model = quantize_model(model, recipe, inplace=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        ids = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), device="cuda")

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizer.step()

        return step

    for recipe, bar in (("hfp8_2019", 1.5), ("nvfp4_2025", 2.0)):
        yield Candidate(f"GPT-2 small, {recipe}", "float32 step", lambda r=recipe: (step_of(r), step_of("")), bar)


def compression() -> Iterator[Candidate]:
    """The choice of 2^26 gradients, against a copy of them."""
    import torch

    from lplab.compression import AdaComp
    from lplab.compression.adacomp import adacomp_select
    from lplab.compression.scalecom import largest_per_chunk

    def made(choose: Callable[[Any, Any], Any]) -> tuple[Work, Work]:
        generator = torch.Generator("cuda").manual_seed(2018)
        residual, gradient = (torch.randn(GRADIENTS, device="cuda", generator=generator) for _ in range(2))
        new = torch.empty_like(gradient)
        check("chosen gradients", choose(residual, gradient), choose(residual.cpu(), gradient.cpu()))
        return lambda: choose(residual, gradient), lambda: new.copy_(gradient)

    def chunks(residual: Any, gradient: Any) -> Any:
        return largest_per_chunk(gradient, 500)

    def bins(residual: Any, gradient: Any) -> Any:
        return adacomp_select(residual * 4, gradient, AdaComp(bin=500), 500).indices

    yield Candidate("AdaComp, bins of 500", "copy", lambda: made(bins), 4.0)
    yield Candidate("top-1 of chunks of 500", "copy", lambda: made(chunks), 2.0)


def check(work: str, got: Any, want: Any) -> None:
    """Raise a RuntimeError if tensors of GPU and CPU differ; any NaN equals any NaN."""
    got = got.cpu()
    same = (got == want) & (got.signbit() == want.signbit()) if got.is_floating_point() else got == want
    if got.shape != want.shape or not (same | ((got != got) & (want != want))).all():
        raise RuntimeError(f"{work}: the GPU gives other bits than the CPU; python3 start.py test -m cuda says where")


def measure(candidate: Candidate, turns: int) -> Result:
    """Time work and yardstick in turn; fewer turns where they take long."""
    import torch

    work, yardstick = candidate.make()
    for _ in range(2):
        work(), yardstick()
    ratios, times, began = [], [], time.perf_counter()
    for _ in range(turns):
        stamps = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        stamps[0].record()
        yardstick()
        stamps[1].record()
        work()
        stamps[2].record()
        yardstick()
        stamps[3].record()
        torch.cuda.synchronize()
        times.append((stamps[0].elapsed_time(stamps[1]) + stamps[2].elapsed_time(stamps[3])) / 2)
        ratios.append(stamps[1].elapsed_time(stamps[2]) / times[-1])
        if time.perf_counter() - began > SECONDS:
            break
    low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    middle, milliseconds = statistics.median(ratios), statistics.median(times)
    return Result(candidate.work, candidate.yardstick, middle, low, high, milliseconds, candidate.bar)


def machine() -> str:
    """The card, its driver, the versions of what computes, and the date."""
    import torch

    card = torch.cuda.get_device_properties(0)
    triton = "none"
    if find_spec("triton"):
        import triton as installed

        triton = installed.__version__
    versions = f"torch {torch.__version__}, Triton {triton}, Python {platform.python_version()}"
    toolkit = f"CUDA {torch.version.cuda}" if torch.version.cuda else f"ROCm {torch.version.hip}"
    memory = f"{card.total_memory / 2**30:.0f} GiB"
    return f"{card.name}, {memory}, driver {driver()}, {toolkit}, {versions}, {date.today():%d %B %Y}"


def driver() -> str:
    """The version of NVIDIA's driver, as the system tells it."""
    try:
        with open("/sys/module/nvidia/version", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def no_gpu() -> str:
    """Why nothing can be measured here; empty where a GPU can be used."""
    if not find_spec("torch"):
        return "benchmarks gpu: PyTorch is not installed; pip install 'lplab[torch,gpu]'"
    import torch

    if not torch.cuda.is_available():
        return f"benchmarks gpu: torch {torch.__version__} reaches no GPU here; run it on a machine with one"
    return ""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Rounding on a GPU, as ratios. Example: python -m benchmarks gpu")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} turns instead of {TURNS}")
    parser.add_argument("--json", metavar="FILE", help="write the results there, too")
    options = parser.parse_args()
    reason = no_gpu()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    print(f"{machine()}\n\n{'work':36} {'×':>16} {'ratio':>8} {'quartiles':>13} {'bar':>6}")
    results = []
    for part in (rounding, products, training, compression):
        for candidate in part():
            result = measure(candidate, QUICK if options.quick else TURNS)
            results.append(result)
            spread = f"{result.low:.2f}–{result.high:.2f}"
            columns = f"{result.work:36} {result.yardstick:>16} {result.ratio:8.2f} {spread:>13} {result.bar:6.2f}"
            print(f"{columns}  {result.verdict}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "ratios": [asdict(result) for result in results]}, file, indent=1)
    return int(any(result.verdict == "MISSED" for result in results))


if __name__ == "__main__":
    sys.exit(main())
