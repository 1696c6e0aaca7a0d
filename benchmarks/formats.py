"""How fast rounding is, as ratios to a memory copy timed in the same run.

``python -m benchmarks`` (``--quick`` for a taste). Every repetition times copy, candidate, copy on one thread in CPU
seconds, and takes the ratio within the repetition; the table has the median. So a busy machine changes the seconds, not
the ratios. Peers are timed beside lplab where they are installed; a bar is what lplab promises. The exit code is 1 if
one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec

import numpy as np

from lplab import formats as F

ELEMENTS = 2**24
COLD_IMPORT_BAR_SECONDS = 0.3
SMALL_CALL_BAR_MICROSECONDS = 10.0  # what a call on a few numbers may cost above its loop
BLOCKS_BAR = 1.5  # what 65,536 numbers may cost, against their share of ELEMENTS
FEW = 2**16  # a tensor of usual size, which stays in the processor's cache
BLOCK_BARS = {"mxfp8_e4m3": 4.0, "mxfp6_e2m3": 4.0, "mxfp4": 4.0, "mxint8": 4.0, "nvfp4": 5.0}
"""What block formats may cost in copies: of all elements, and of FEW against their share of the copy of all."""


@dataclass(frozen=True)
class Candidate:
    """Something to time: what it does, whose it is, what it may cost in copies (None: no promise, a peer)."""

    work: str
    who: str
    run: Callable[[], object]
    bar: float | None = None
    share: float = 1.0  # of the elements that it works on, for peers too slow for all of them


@dataclass(frozen=True)
class Result:
    """The median ratio to a copy of as many elements, and its quartiles."""

    work: str
    who: str
    ratio: float
    low: float
    high: float
    bar: float | None

    @property
    def verdict(self) -> str:
        """How the ratio stands to the bar."""
        return "" if self.bar is None else ("within" if self.ratio <= self.bar else "MISSED")


def samples(count: int = ELEMENTS) -> np.ndarray:
    """Normal numbers times 2^(4·normal): exponents spread over ±16, subnormals and overflow both occur."""
    rng = np.random.default_rng(2015)
    return (rng.standard_normal(count) * 2.0 ** (4 * rng.standard_normal(count))).astype(np.float32)


def ours(x: np.ndarray, out: np.ndarray) -> Iterator[Candidate]:
    """lplab, with the bars of the project."""

    def row(fmt: F.Format, work: str, bar: float | None, rounding: str = "nearest_even") -> Candidate:
        return Candidate(work, "lplab", lambda: fmt.quantize(x, rounding, seed=1, out=out), bar)

    for name in ("e4m3fn", "e5m2", "hfp8_forward", "e2m1", "fp16", "bf16", "dlfloat16", "q4.12", "int8", "int4"):
        yield row(F.get(name), name, 1.3)
    yield row(F.IntFormat(8, scale=0.013, zero_point=3), "int8, scale 0.013", 1.3)
    for name in ("e4m3fn", "e5m2", "bf16", "dlfloat16", "q4.12", "int8"):
        yield row(F.get(name), f"{name} stochastic", 2.2, "stochastic")
    for rounding in F.ROUNDINGS[1:-1]:
        yield row(F.get("e4m3fn"), f"e4m3fn {rounding}", 2.5, rounding)
        yield row(F.get("bf16"), f"bf16 {rounding}", 2.5, rounding)
    yield row(F.get("radix4_fp4_even"), "radix4_fp4_even", 2.5)
    for name, bar in BLOCK_BARS.items():
        yield row(F.get(name), name, bar)
    for name, bar in BLOCK_BARS.items():
        yield Candidate(f"{name}, {FEW:,} at a time", "lplab", few_at_a_time(name, x, out), bar, share=1 / 16)
    for name in ("posit8_1", "lns8"):
        yield row(F.get(name), name, None)  # tables; no promise


def peers(x: np.ndarray) -> Iterator[Candidate]:
    """Others doing the same work, where they are installed."""
    few = x[: x.size // 16]
    if find_spec("ml_dtypes"):
        import ml_dtypes

        part, dtype = x[: x.size // 4], ml_dtypes.float8_e4m3fn
        yield Candidate("e4m3fn", "ml_dtypes", lambda: part.astype(dtype).astype(np.float32), share=1 / 4)
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
        tensor = torch.from_numpy(x)
        yield Candidate("e4m3fn", "torch", lambda: tensor.to(torch.float8_e4m3fn).to(torch.float32))
        yield Candidate("bf16", "torch", lambda: tensor.to(torch.bfloat16).to(torch.float32))
        fake = torch.fake_quantize_per_tensor_affine
        yield Candidate("int8, scale 0.013", "torch", lambda: fake(tensor, 0.013, 3, -128, 127))
    if find_spec("gfloat"):
        import gfloat.formats

        info = gfloat.formats.format_info_ocp_e4m3
        yield Candidate("e4m3fn", "gfloat", lambda: gfloat.round_ndarray(info, few), share=1 / 16)
    if find_spec("qtorch"):
        import qtorch.quant
        import torch

        quantize, tensor = qtorch.quant.float_quantize, torch.from_numpy(x)
        yield Candidate("hfp8_forward", "qtorch", lambda: quantize(tensor, 4, 3, "nearest"))
        yield Candidate("e4m3fn stochastic", "qtorch", lambda: quantize(tensor, 4, 3, "stochastic"))
    if find_spec("torch") and find_spec("torchao"):
        yield from torchao(few)


def torchao(few: np.ndarray) -> Iterator[Candidate]:
    """PyTorch's MX, a prototype whose names move; left out, with a word, when they have moved again."""
    import torch

    try:
        from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
    except ImportError as reason:
        print(f"torchao left out: {reason}", file=sys.stderr)
        return
    tensor, element = torch.from_numpy(few), torch.float8_e4m3fn

    def round_trip() -> object:
        scale, codes = to_mx(tensor, element, 32)
        return to_dtype(codes, scale, element, 32, torch.float32)

    yield Candidate("mxfp8_e4m3", "torchao", round_trip, share=1 / 16)


def measure(candidate: Candidate, x: np.ndarray, out: np.ndarray, repetitions: int) -> Result:
    """Time copy, candidate, copy; first once without counting, which also loads compiled code."""
    candidate.run()
    ratios = []
    for _ in range(repetitions):
        stamps = [time.process_time()]
        for step in (lambda: np.copyto(out, x), candidate.run, lambda: np.copyto(out, x)):
            step()
            stamps.append(time.process_time())
        before, work, after = np.diff(stamps)
        ratios.append(work / (candidate.share * (before + after) / 2))
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Result(candidate.work, candidate.who, middle, low, high, candidate.bar)


def least_seconds(run: Callable[[], object], calls: int) -> float:
    """CPU seconds of one call: the least of nine times so many calls."""
    return min(timeit.repeat(run, number=calls, repeat=9, timer=time.process_time)) / calls


def small_call(name: str) -> float:
    """Microseconds that ``quantize`` of 32 float32 numbers costs above the compiled loop."""
    fmt, x, out = F.get(name), samples(32), np.empty(32, np.float32)
    fmt.quantize(samples(2**16))  # loads the loop
    prepared = fmt.prepared_roundings.of(F.Rounding(), x.dtype)
    loop, at, to = prepared.loop_for(32), x.ctypes.data, out.ctypes.data
    alone = least_seconds(lambda: loop(at, to, 32 // prepared.block_size), 2000)
    return 1e6 * (least_seconds(lambda: fmt.quantize(x), 2000) - alone)


def few_at_a_time(name: str, x: np.ndarray, out: np.ndarray) -> Callable[[], None]:
    """What rounds FEW numbers again and again, a sixteenth of all in sum.

    The numbers and their results stay in the cache, as in a training. A copy there is three times as fast as one of
    all elements; against that copy no rounding could keep the bars, so they are set against their share of the copy of
    all elements.
    """
    fmt, part, to = F.get(name), x[:FEW].copy(), np.empty(FEW, np.float32)

    def run() -> None:
        for _ in range(x.size // 16 // FEW):
            fmt.quantize(part, out=to)

    return run


def middling_blocks(name: str, x: np.ndarray, out: np.ndarray) -> float:
    """The time of FEW numbers over what the throughput for all of x predicts."""
    fmt, part, to = F.get(name), x[:FEW].copy(), out[:FEW]
    fmt.quantize(x, out=out)
    predicted = least_seconds(lambda: fmt.quantize(x, out=out), 1) * part.size / x.size
    return least_seconds(lambda: fmt.quantize(part, out=to), 50) / predicted


def cold_import() -> float:
    """Seconds that ``import lplab`` and its formats take in a new process: the least of five."""
    code = "import time; t = time.perf_counter(); import lplab; lplab.formats; print(time.perf_counter() - t)"
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5))
    return min(float(run.stdout) for run in runs)


def first_use() -> float:
    """Seconds for the first large tensor of a new process: numba's import and compiled code from disk."""
    code = (
        "import time, numpy as np; from lplab import formats as F; x = np.ones(2**20, np.float32); "
        "t = time.perf_counter(); F.get('e4m3fn').quantize(x); print(time.perf_counter() - t)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout)


def show(result: Result) -> None:
    """One line of the table."""
    spread = f"{result.low:.2f}–{result.high:.2f}"
    bar = "" if result.bar is None else f"{result.bar:.1f}"
    print(f"{result.work:30} {result.who:10} {result.ratio:8.2f} {spread:>13} {bar:>5}  {result.verdict}", flush=True)


def listed(numbers: dict[str, float]) -> str:
    """Names with their numbers in one line."""
    return ", ".join(f"{name} {number:.1f}" for name, number in numbers.items())


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description="Rounding speed as ratios to a memory copy. Example: formats.py --quick"
    )
    parser.add_argument("--quick", action="store_true", help="5 repetitions instead of 15, no peers")
    parser.add_argument("--json", metavar="FILE", help="write the results there, too")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # lplab and PyTorch share large arrays among threads otherwise
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    repetitions = 5 if options.quick else 15
    x = samples()
    out = np.empty_like(x)
    print(f"{ELEMENTS:,} float32, one thread, × a memory copy\n")
    print(f"{'work':30} {'who':10} {'× copy':>8} {'quartiles':>13} {'bar':>5}")
    results = []
    for candidate in (*ours(x, out), *(() if options.quick else peers(x))):
        results.append(measure(candidate, x, out, repetitions if candidate.share > 0.1 else 3))
        show(results[-1])
    small = {name: small_call(name) for name in ("e4m3fn", "int8", "posit8_1", "mxfp4", "nvfp4")}
    blocks = {name: middling_blocks(name, x, out) for name in BLOCK_BARS}
    print(f"\nabove the loop, 32 numbers, µs (bar {SMALL_CALL_BAR_MICROSECONDS}): {listed(small)}")
    print(f"{FEW:,} numbers, × their share of {ELEMENTS:,} (bar {BLOCKS_BAR}): {listed(blocks)}")
    seconds = cold_import()
    slow = seconds > COLD_IMPORT_BAR_SECONDS
    print(f"\ncold import of lplab: {seconds:.2f} s (bar {COLD_IMPORT_BAR_SECONDS}) {'MISSED' if slow else 'within'}")
    print(f"first large tensor of a process: {first_use():.2f} s")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "import_seconds": seconds,
                    "small_calls": small,
                    "blocks": blocks,
                    "ratios": [asdict(r) for r in results],
                },
                file,
                indent=1,
            )
    slow = slow or max(small.values()) > SMALL_CALL_BAR_MICROSECONDS or max(blocks.values()) > BLOCKS_BAR
    return int(slow or any(r.verdict == "MISSED" for r in results))


if __name__ == "__main__":
    sys.exit(main())
