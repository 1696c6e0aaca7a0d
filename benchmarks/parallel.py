"""What the exchange of gradients adds to a step of two real ranks, against DistributedDataParallel and the model.

``python -m benchmarks parallel`` (``--quick`` for a taste; ``--write`` puts the rows into docs/exactness.md and a
sentence into the README). Two processes exchange gradients over gloo, on the loopback of the machine, and over links of
a known speed between network namespaces (Linux and root; left out elsewhere):

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

from benchmarks import rows
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


def own_time(times: Times, where: str) -> dict[str, float]:
    """Print the steps of the large network; how long each takes, over one of DistributedDataParallel."""
    print(f"\n{where:24} {'seconds':>8} {'× DDP':>8}")
    ratios = {}
    for exchange in EXCHANGES:
        pairs = zip(times[exchange], times["DistributedDataParallel"], strict=True)
        ratios[exchange] = statistics.median(a / b for a, b in pairs)
        print(f"{exchange:24} {min(times[exchange]):8.2f} {ratios[exchange]:8.2f}", flush=True)
    return ratios


def behind(times: Times) -> dict[str, float]:
    """Print the steps with known computing times; how long each takes, over the model's."""
    print(f"\n{'at 200 Mb/s':24} {'seconds':>8} {'by model':>8} {'× model':>8}")
    ratios = {}
    for exchange in EXCHANGES:
        model, real = by_the_model(exchange, min(times["alone"])), min(times[exchange])
        ratios[exchange] = real / model
        print(f"{exchange:24} {real:8.2f} {model:8.2f} {ratios[exchange]:8.2f}", flush=True)
    kept = ratios["dense, behind"] <= MORE_THAN_THE_MODEL
    verdict = "within" if kept else "MISSED"
    print(f"\ndense, behind: {ratios['dense, behind']:.2f} × computing and the rest that is not hidden  {verdict}")
    return ratios


def write_rows(loopback: dict[str, float], at_1_gigabit: dict[str, float], over_the_model: dict[str, float]) -> None:
    """The table of docs/exactness.md, and the README's sentence."""
    lines = [
        [exchange, f"{loopback[exchange]:.2f}", f"{at_1_gigabit[exchange]:.2f}", f"{over_the_model[exchange]:.2f}"]
        for exchange in EXCHANGES
    ]
    caption = (
        f"A step of {RANKS} gloo ranks with 25 million parameters, over one of PyTorch's `DistributedDataParallel`; "
    )
    caption += "and with a known computing time at 200 Mb/s, over the model of `lplab simulate`"
    header = ["exchange", "loopback: × DDP", "1 Gb/s: × DDP", "200 Mb/s: × the model"]
    rows.write("parallel", caption, header, lines)
    slow, fast = (f"{ratios['ScaleCom, behind']:.1f}" for ratios in (at_1_gigabit, loopback))
    rows.say(
        "parallel",
        f"A step of two processes with 25 million parameters takes {slow} times as long with ScaleCom as without "
        f"compression over a network of 1 Gb/s, and {fast} times as long inside one machine "
        "([all rows](docs/exactness.md)). ",
    )


def main() -> int:
    """Print the tables; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(
        prog="benchmarks parallel", description="Steps of two ranks with compressed gradients. Example: --quick"
    )
    parser.add_argument("--quick", action="store_true", help="3 repetitions instead of 9")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/exactness.md and README.md")
    options = parser.parse_args()
    repetitions = 3 if options.quick else 9
    reason = capped.why_not()
    print(f"\nThe hook's own time: a step of {sum(p.numel() for p in large().parameters()):,} parameters, 2 ranks")
    loopback = own_time(measured("large", repetitions, on_loopback), "over the loopback")
    if reason:
        print(f"\nlinks of a known speed left out{', and no rows written' if options.write else ''}: {reason}")
        return int(options.write)
    at_1_gigabit = own_time(over_links("large", repetitions, FAST), "at 1 Gb/s")
    print("\nBehind the backward pass: each layer takes a known time")
    over_the_model = behind(over_links("on_device", repetitions, SLOW))
    if options.write:
        write_rows(loopback, at_1_gigabit, over_the_model)
    return int(over_the_model["dense, behind"] > MORE_THAN_THE_MODEL)


if __name__ == "__main__":
    sys.exit(main())
