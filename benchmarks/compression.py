"""How fast gradient compression is, as ratios to a memory copy timed in the same run, on real gradients.

``python -m benchmarks compression`` (``--write`` puts the rows of AdaComp, ScaleCom and top-k into docs/exactness.md).
The values are those of captured trainings, repeated until there are as many as ResNet-50 has. Each candidate packs its
message; AdaComp also updates its residual.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import rows
from benchmarks.formats import Candidate, Result, measure, show
from lplab import compression, datasets
from lplab.compression.adacomp import adacomp_select
from lplab.compression.scalecom import encode_indices, largest_per_chunk
from lplab.compression.sparse import top_k_indices
from lplab.compression.wire import adacomp_wire

ELEMENTS = 25_557_032  # the parameters of ResNet-50
TIMES_GRADIENTS = 1.5  # a ScaleCom step of 64 learners over their gradients alone
SHORT_STEPS = 61  # repetitions of that step, which takes ten milliseconds
AS_FAST_AS_TORCH = 1.0  # exact top-k: its time over that of torch.topk in the same repetition


def gradients(count: int = ELEMENTS) -> np.ndarray:
    """Captured gradients, end to end: float32."""
    tensors = datasets.captured()
    parts = [tensors[name].ravel() for name in tensors.select(role="weight_gradient")]
    return np.resize(np.concatenate(parts), count)


def ours(x: np.ndarray) -> Iterator[Candidate]:
    """lplab, with the bars of the project."""
    for chunk, bar in ((500, 3.0), (50, None)):

        def chunk_top(chunk: int = chunk) -> np.ndarray:
            return encode_indices(largest_per_chunk(x, chunk), chunk)

        yield Candidate(f"chunk top-1 of {chunk}", "lplab", chunk_top, bar)
    for size, bar in ((500, 6.0), (50, 12.0)):
        settings, residual, new = compression.AdaComp(bin=size), steady_residual(x, size), np.empty_like(x)

        def adacomp(
            settings: compression.AdaComp = settings,
            residual: np.ndarray = residual,
            size: int = size,
            new: np.ndarray = new,  # as a layer's state reuses the memory of the previous residual
        ) -> np.ndarray:
            found = adacomp_select(residual, x, settings, size, out=new)
            return adacomp_wire.encode(found.scale, found.indices, found.negative, x.size, size)

        yield Candidate(f"AdaComp {size}", "lplab", adacomp, bar)
    few = x[: x.size // 16]
    yield Candidate("top-k 1 %, exact", "numpy", lambda: top_k_indices(few, few.size // 100), share=1 / 16)
    for codec in ("lz4", "zstd", "zlib"):
        encode = partial(compression.Lossless(codec).encode, few)
        yield Candidate(f"lossless {codec}", "package", encode, share=1 / 16)


def on_tensors(x: np.ndarray) -> Iterator[Candidate]:
    """The same of tensors on the CPU, which are arrays without a copy, with results as tensors."""
    import torch

    torch.set_num_threads(1)
    tensor = torch.from_numpy(x)

    def chunk_top() -> torch.Tensor:
        return torch.from_numpy(encode_indices(largest_per_chunk(tensor.numpy(), 500), 500))

    yield Candidate("chunk top-1 of 500", "tensors", chunk_top, 3.0)
    settings, residual = compression.AdaComp(bin=500), torch.from_numpy(steady_residual(x, 500))
    new = torch.empty_like(tensor)

    def adacomp() -> torch.Tensor:
        found = adacomp_select(residual.numpy(), tensor.numpy(), settings, 500, new.numpy())
        return torch.from_numpy(adacomp_wire.encode(found.scale, found.indices, found.negative, x.size, 500))

    yield Candidate("AdaComp 500", "tensors", adacomp, 10.0)
    few = tensor[: x.size // 16]
    yield Candidate("top-k 1 %, exact", "tensors", partial(_top_k, few, few.numel() // 100), share=1 / 16)


def _top_k(tensor: Any, k: int) -> Any:
    import torch

    return torch.from_numpy(top_k_indices(tensor.numpy(), k))


def top_k_against_torch(x: np.ndarray, repetitions: int) -> tuple[float, float]:
    """The time of our exact top-k of 1 % over that of ``torch.topk``, timed in turn: the medians of the ratios.

    The first is of numpy's path, the second of that for tensors.
    """
    import torch

    torch.set_num_threads(1)
    few = x[: x.size // 16]
    tensor, k = torch.from_numpy(few), few.size // 100
    ratios = []
    for _ in range(repetitions):
        stamps = [time.process_time()]
        for work in (
            lambda: torch.topk(tensor.abs(), k),
            lambda: top_k_indices(few, k),
            lambda: _top_k(tensor, k),
        ):
            work()
            stamps.append(time.process_time())
        theirs, *own = np.diff(stamps)
        ratios.append([seconds / theirs for seconds in own])
    numpy_path, tensor_path = np.median(ratios, axis=0)
    return float(numpy_path), float(tensor_path)


def steady_residual(x: np.ndarray, size: int, steps: int = 10) -> np.ndarray:
    """The residual after some steps with this gradient: then as much is sent as in a training."""
    residual = np.zeros_like(x)
    for _ in range(steps):
        residual = adacomp_select(residual, x, compression.AdaComp(bin=size), size).residual
    return residual


def peers(x: np.ndarray) -> Iterator[Candidate]:
    """torch's exact selection."""
    import torch

    torch.set_num_threads(1)
    tensor = torch.from_numpy(x)
    yield Candidate("top-k 1 %, exact", "torch", lambda: torch.topk(tensor.abs(), x.size // 100))
    rows = tensor[: x.size // 500 * 500].view(-1, 500)
    yield Candidate("chunk top-1 of 500", "torch", lambda: rows.abs().argmax(1))


def many_learners(repetitions: int) -> tuple[float, float]:
    """A ScaleCom step of 64 learners on a net of a hundred thousand parameters: milliseconds, and × the gradients."""
    import torch
    from torch import nn

    from lplab.parallel import Learners, shards
    from lplab.parallel.learner_gradients import batched_gradients
    from lplab.training.loop.trainer import default_loss

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    x, y = torch.randn(512, 784), torch.randint(0, 10, (512,))
    batches = shards(lambda step: (x, y), 64)
    run = Learners(
        model, default_loss, batches, compression.ScaleCom(chunk=50), 64, engine="stacked", keep_ledger=False
    )
    parts = [batches(0, rank) for rank in range(64)]
    passed: set = set()  # the check of the model runs once, as in a training
    for _ in range(3):  # until every residual has its two buffers
        run.one_step()
    seconds = []
    for _ in range(repetitions):
        stamps = [time.perf_counter()]
        for work in (lambda: batched_gradients(model, default_loss, parts, range(64), passed), run.one_step):
            work()
            stamps.append(time.perf_counter())
        seconds.append(np.diff(stamps))
    return 1e3 * statistics.median(b for _, b in seconds), statistics.median(b / a for a, b in seconds)


def main() -> int:
    """Print the table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description="Speed of gradient compression as ratios to a memory copy.")
    parser.add_argument("--quick", action="store_true", help="5 repetitions instead of 15, no peers")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/exactness.md")
    options = parser.parse_args()
    repetitions = 5 if options.quick else 15
    milliseconds, times = many_learners(SHORT_STEPS)  # first: later the large arrays stand in the caches' way
    x = gradients()
    out = np.empty_like(x)
    print(f"{ELEMENTS:,} gradient values, one thread, × a memory copy\n")
    print(f"{'work':30} {'who':10} {'× copy':>8} {'quartiles':>13} {'bar':>5}")
    results = []
    for candidate in (*ours(x), *on_tensors(x), *(() if options.quick else peers(x))):
        results.append(measure(candidate, x, out, repetitions if candidate.share > 0.1 else 3))
        show(results[-1])
    slow = times > TIMES_GRADIENTS
    verdict = "MISSED" if slow else "within"
    print(f"\nScaleCom, 64 learners: {milliseconds:.1f} ms a step, {times:.2f} × the gradients  {verdict}")
    top_k = top_k_against_torch(x, repetitions)
    slower = max(top_k) > AS_FAST_AS_TORCH
    verdict = "MISSED" if slower else "within"
    print(f"top-k 1 %, exact: {top_k[0]:.2f} × torch.topk, of tensors {top_k[1]:.2f}  {verdict}")
    if options.write:
        write_rows(results, top_k)
    return int(slow or slower or any(result.verdict == "MISSED" for result in results))


def write_rows(results: list[Result], top_k: tuple[float, float]) -> None:
    """The table of docs/exactness.md: the steps of a compressor, by numpy and on tensors, with their aims."""
    found = {(result.work, result.who): result for result in results}
    lines = []
    for work, name in (
        ("chunk top-1 of 500", "ScaleCom's selection, chunks of 500"),
        ("AdaComp 500", "AdaComp, bins of 500"),
    ):
        for who, path in (("lplab", "numpy"), ("tensors", "tensors")):
            result = found[work, who]
            lines.append([f"{name}, {path}: × a copy", f"{result.ratio:.1f}", f"{result.bar:.0f}"])
    for ratio, path in zip(top_k, ("numpy", "tensors"), strict=True):
        lines.append([f"exact top-k of 1 %, {path}: × `torch.topk`", f"{ratio:.2f}", f"{AS_FAST_AS_TORCH:.0f}"])
    caption = f"Compressing {ELEMENTS / 1e6:.0f} million gradients on one thread"
    rows.write("compression", caption, ["work", "measured", "at most"], lines)


if __name__ == "__main__":
    sys.exit(main())
