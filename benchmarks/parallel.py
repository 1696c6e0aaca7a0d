"""What the exchange of gradients adds to a step of two real ranks, against DistributedDataParallel and the model.

``python -m benchmarks parallel`` (``--quick`` for a taste). Two processes exchange gradients over gloo, on the loopback
of the machine, and over links of a known speed between network namespaces (Linux and root; left out elsewhere):

* **the hook's own time**: 25 million parameters and hardly any computing. What compression costs where the network is
  fast, and what it gains at 1 Gb/s.
* **behind the backward pass**: 8 million parameters at 200 Mb/s. Each layer takes a known time in which the host waits,
  as it does for a GPU; so the two ranks do not take the machine's cores from one another. The bar is that of
  :mod:`lplab.hardware`: a dense step may take 10 % more than the computing and what the link still has to do when the
  backward pass has ended.

Steps of all exchanges alternate; the seconds are the shortest, and a ratio is the median of the ratios of neighbouring
steps. The clock is the wall's: the first table is meaningful only on an idle machine. The exit code is 1 if the bar is
missed.
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
from torch import nn

from benchmarks.parallel_rank import BATCH, BUCKET_MB, CHUNK, EXCHANGES, large, on_device
from lplab.hardware import Cluster, Link, simulate, workloads
from lplab.hardware.accelerators import Accelerator
from tests.hardware import capped

RANKS = 2
FAST, SLOW = 1e9, 200e6  # bits per second
MORE_THAN_THE_MODEL = 1.1  # dense, behind the backward pass
PROJECT = Path(__file__).parents[1]
Start = Callable[[int, list[str]], subprocess.Popen[str]]
Times = dict[str, list[float]]


def on_loopback(rank: int, arguments: list[str]) -> subprocess.Popen[str]:
    """Run Python as one rank of this machine."""
    settings = {
        **os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29512",
        "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT),
    }  # fmt: skip
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def measured(network: str, repetitions: int, start: Start) -> Times:
    """Seconds of the steps of each exchange."""
    ranks = [start(rank, ["-m", "benchmarks.parallel_rank", network, str(repetitions)]) for rank in range(RANKS)]
    try:
        outputs = [rank.communicate() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(rank.returncode for rank in ranks):
        raise RuntimeError(f"a rank failed: {''.join(errors for _, errors in outputs)[-2000:]}")
    return json.loads(outputs[0][0])


def over_links(network: str, repetitions: int, bits_per_second: float) -> Times:
    """As :func:`measured`, with a network namespace for each rank."""
    with capped.capped(RANKS, bits_per_second) as links:
        return measured(network, repetitions, partial(links.start, PYTHONPATH=str(PROJECT)))


def by_the_model(exchange: str, alone: float) -> float:
    """Seconds of a step of ``on_device`` by lplab.hardware, where computing takes ``alone``."""
    if exchange == "alone":
        return alone
    compressor = f"scalecom:chunk={CHUNK}" if exchange.startswith("ScaleCom") else None
    overlap = 0.0 if exchange.endswith("waiting") else 1.0
    net = on_device(nn.Linear)
    workload = workloads.from_module(net, torch.zeros(BATCH, net[0].in_features))
    link = Link(1e-4, SLOW / 8 * capped.PAYLOAD_SHARE)
    cluster = Cluster(Accelerator("cpu", "one core", {"fp32": 1e10}), RANKS, link, algorithm="ring")
    step = simulate(
        workload, cluster, precision="fp32", compressor=compressor, batch=BATCH, overlap=overlap,
        bucket_bytes=BUCKET_MB * 2**20, measured_seconds=alone,
    )  # fmt: skip
    return float(step.step_seconds)


def own_time(times: Times, where: str) -> None:
    """Print the steps of the large network."""
    print(f"\n{where:24} {'seconds':>8} {'× DDP':>8}")
    for exchange in EXCHANGES:
        pairs = zip(times[exchange], times["DistributedDataParallel"], strict=True)
        print(
            f"{exchange:24} {min(times[exchange]):8.2f} {statistics.median(a / b for a, b in pairs):8.2f}", flush=True
        )


def behind(times: Times) -> bool:
    """Print the steps with known computing times; whether the bar is kept."""
    print(f"\n{'at 200 Mb/s':24} {'seconds':>8} {'by model':>8} {'× model':>8}")
    ratios = {}
    for exchange in EXCHANGES:
        model, real = by_the_model(exchange, min(times["alone"])), min(times[exchange])
        ratios[exchange] = real / model
        print(f"{exchange:24} {real:8.2f} {model:8.2f} {ratios[exchange]:8.2f}", flush=True)
    kept = ratios["dense, behind"] <= MORE_THAN_THE_MODEL
    verdict = "within" if kept else "MISSED"
    print(f"\ndense, behind: {ratios['dense, behind']:.2f} × computing and the rest that is not hidden  {verdict}")
    return kept


def main() -> int:
    """Print the tables; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks parallel", description="Steps of two ranks with compressed gradients. Example: --quick"
    )
    parser.add_argument("--quick", action="store_true", help="3 repetitions instead of 9")
    repetitions = 3 if parser.parse_args().quick else 9
    reason = capped.why_not()
    print(f"\nThe hook's own time: a step of {sum(p.numel() for p in large().parameters()):,} parameters, 2 ranks")
    own_time(measured("large", repetitions, on_loopback), "over the loopback")
    if reason:
        print(f"\nlinks of a known speed left out: {reason}")
        return 0
    own_time(over_links("large", repetitions, FAST), "at 1 Gb/s")
    print("\nBehind the backward pass: each layer takes a known time")
    return int(not behind(over_links("on_device", repetitions, SLOW)))


if __name__ == "__main__":
    sys.exit(main())
