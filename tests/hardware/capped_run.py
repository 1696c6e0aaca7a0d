"""One rank of a real run over capped links, started by test_real_network.py; prints seconds and bytes as JSON.

Usage: capped_run.py, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME in the environment.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.compression import Dense, ScaleCom
from lplab.compression.sharded_weights import ShardedUpdateFormats
from lplab.parallel import ShardedWeightUpdate, ddp_hook
from lplab.parallel.worker import fingerprint
from lplab.training.loop.trainer import default_loss

SIZES = (200_000, 2_000_000)  # bytes
REPEATS, STEPS = 3, 3
SETTLE = 0.05  # seconds until what waits in the token bucket has left and is counted
BATCH, WIDTH = 8, 500
EXCHANGES = ("dense", "scalecom", "weights in 8 bits")
COMPRESSORS = {"dense": Dense(), "scalecom": ScaleCom(chunk=100)}
ORDERED = tuple(f"{name}, ordered" for name in COMPRESSORS)  # summed in the order of ranks, as the simulator does it


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))


def sent():
    """Bytes that have left this rank's interface, headers included."""
    name = os.environ["GLOO_SOCKET_IFNAME"]
    return int(Path(f"/sys/class/net/{name}/statistics/tx_bytes").read_text())


def timed(work, times):
    """Of each call, all ranks starting together: [seconds, bytes sent]."""
    found = []
    for _ in range(times):
        dist.barrier()
        start, before = time.perf_counter(), sent()
        work()
        seconds = time.perf_counter() - start
        dist.barrier()  # a rank that has all it needs may still be sending
        time.sleep(SETTLE)
        found.append([seconds, sent() - before])
    return found


def all_reduce(nbytes):
    buffer = torch.ones(nbytes // 4)
    return timed(lambda: dist.all_reduce(buffer), REPEATS)


def step_of(exchange):
    """A function that does one step of training; "alone" sends nothing."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    inputs = torch.randn(BATCH, WIDTH, generator=generator)
    targets = torch.randint(0, 10, (BATCH,), generator=generator)
    net = model()
    if exchange == "weights in 8 bits":
        broadcast = ShardedWeightUpdate(net.parameters(), ShardedUpdateFormats("fp16", "fp32", "hfp8_forward", "fp32"))
        update = broadcast.step
    else:
        net = net if exchange == "alone" else DistributedDataParallel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        if exchange != "alone":
            ddp_hook(net, COMPRESSORS[exchange.removesuffix(", ordered")], ordered=exchange in ORDERED)
        update = optimizer.step

    def work():
        net.zero_grad()
        default_loss(net(inputs), targets).backward()
        update()

    work()  # memory is there from here on
    return work


def trained(overlap):
    """A fingerprint of the weights after some steps: three buckets on a link that is slower than the computing."""
    net = DistributedDataParallel(model(), bucket_cap_mb=0.5)
    ddp_hook(net, ScaleCom(chunk=10), overlap=overlap, ordered=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(torch.randn(BATCH, WIDTH, generator=generator)).pow(2).mean().backward()
        optimizer.step()
    return fingerprint(net)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {"all_reduce": {nbytes: all_reduce(nbytes) for nbytes in SIZES}}
    found["step"] = {exchange: timed(step_of(exchange), STEPS) for exchange in ("alone", *EXCHANGES, *ORDERED)}
    found["weights"] = [trained(overlap) for overlap in (True, False)]
    print(json.dumps(found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
