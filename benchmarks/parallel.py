"""What an exchange of gradients adds to a step of two real ranks, against DistributedDataParallel and the model.

``python -m benchmarks parallel`` (``--quick`` for a taste): a network of 25 million parameters on two processes over
gloo, once over the machine's own loopback, once over links of 1 Gb/s between network namespaces (Linux and root; left
out elsewhere). Steps of all exchanges alternate; the seconds are the shortest, and a ratio is the median of the ratios
of neighbouring steps.

The bar is that of :mod:`lplab.hardware`: behind the backward pass, a dense step may take 10 % more than the computing
plus what the link still has to do when the backward pass ends. The exit code is 1 if it is missed. The clock is the
wall's, so the table is meaningful on an idle machine with two cores or more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from benchmarks.parallel_rank import BATCH, BUCKET_MB, CHUNK, EXCHANGES, WIDTH, network
from lplab.hardware import Cluster, Link, simulate, workloads
from lplab.hardware.accelerators import Accelerator
from tests.hardware import capped

RANKS, BITS_PER_SECOND = 2, 1e9
LINK = Link(1e-4, BITS_PER_SECOND / 8 * capped.PAYLOAD_SHARE)
MORE_THAN_THE_MODEL = 1.1  # dense, behind the backward pass
PROJECT = Path(__file__).parents[1]
Start = Callable[[int, list[str]], subprocess.Popen[str]]


def on_loopback(rank: int, arguments: list[str]) -> subprocess.Popen[str]:
    """Run Python as one rank of this machine."""
    settings = {
        **os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512",
        "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT),
    }  # fmt: skip
    return subprocess.Popen([sys.executable, *arguments], env=settings, stdout=subprocess.PIPE, text=True)


def measured(start: Start, repetitions: int) -> dict[str, list[float]]:
    """Seconds of the steps of each exchange."""
    arguments = ["-m", "benchmarks.parallel_rank", str(repetitions)]
    ranks = [start(rank, arguments) for rank in range(RANKS)]
    try:
        outputs = [rank.communicate() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(rank.returncode for rank in ranks):
        raise RuntimeError(f"a rank failed: {outputs[0][1] or 'its error stands above'}")
    return json.loads(outputs[0][0])


def by_the_model(exchange: str, alone: float) -> float:
    """Seconds of a step by lplab.hardware, of computing that takes ``alone``."""
    if exchange == "alone":
        return alone
    compressor = f"scalecom:chunk={CHUNK}" if exchange.startswith("ScaleCom") else None
    overlap = 0.0 if exchange.endswith("waiting") else 1.0
    workload = workloads.from_module(network(), torch.zeros(BATCH, WIDTH))
    cluster = Cluster(Accelerator("cpu", "one core", {"fp32": 1e10}), RANKS, LINK, algorithm="ring")
    step = simulate(
        workload, cluster, precision="fp32", compressor=compressor, batch=BATCH, overlap=overlap,
        bucket_bytes=BUCKET_MB * 2**20, measured_seconds=alone,
    )  # fmt: skip
    return float(step.step_seconds)


def rows(times: dict[str, list[float]], modelled: bool) -> list[str]:
    """The lines of the table for one link."""
    dense = times["DistributedDataParallel"]
    lines = []
    for exchange in EXCHANGES:
        ratio = statistics.median(a / b for a, b in zip(times[exchange], dense, strict=True))
        of_model = ""
        if modelled:
            model = by_the_model(exchange, min(times["alone"]))
            of_model = f"{model:9.2f} {min(times[exchange]) / model:9.2f}"
        lines.append(f"{exchange:24} {min(times[exchange]):8.2f} {ratio:8.2f} {of_model}")
    return lines


def main() -> int:
    """Print the table; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks parallel", description="Steps of two ranks with compressed gradients. Example: --quick"
    )
    parser.add_argument("--quick", action="store_true", help="3 repetitions instead of 9")
    repetitions = 3 if parser.parse_args().quick else 9
    title = f"{'exchange':24} {'seconds':>8} {'× DDP':>8} {'by model':>9} {'× model':>9}"
    print(f"\nA step of {RANKS} ranks, {sum(p.numel() for p in network().parameters()):,} parameters")
    print(f"\nover the loopback of this machine\n{title}", flush=True)
    print("\n".join(rows(measured(on_loopback, repetitions), modelled=False)), flush=True)
    reason = capped.why_not()
    if reason:
        print(f"\nlinks of a known speed left out: {reason}")
        return 0
    with capped.capped(RANKS, BITS_PER_SECOND) as links:
        times = measured(partial(links.start, PYTHONPATH=str(PROJECT)), repetitions)
    print(f"\nover links of {BITS_PER_SECOND / 1e9:g} Gb/s\n{title}")
    print("\n".join(rows(times, modelled=True)))
    model = by_the_model("dense, behind", min(times["alone"]))
    ratio = min(times["dense, behind"]) / model
    verdict = "MISSED" if ratio > MORE_THAN_THE_MODEL else "within"
    print(f"\ndense, behind the backward pass: {ratio:.2f} × computing and unhidden rest  {verdict}")
    return int(ratio > MORE_THAN_THE_MODEL)


if __name__ == "__main__":
    sys.exit(main())
