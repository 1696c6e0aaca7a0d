"""One rank of the benchmark of the hook, which ``benchmarks/parallel.py`` starts; prints seconds as JSON.

Usage: python -m benchmarks.parallel_rank REPETITIONS, with what torch.distributed wants to know.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.parallel import ddp_hook

WIDTH, LAYERS = 2048, 6  # 25 million parameters
BATCH = 96  # on each rank: computing takes about as long as 1 Gb/s needs for the gradients
BUCKET_MB = 10  # each layer is a bucket of its own
CHUNK = 112
HOOKS = {
    "dense, waiting": {"compressor": "dense", "overlap": False, "ordered": False},
    "dense, behind": {"compressor": "dense", "overlap": True, "ordered": False},
    "ScaleCom, waiting": {"compressor": f"scalecom:chunk={CHUNK}", "overlap": False},
    "ScaleCom, behind": {"compressor": f"scalecom:chunk={CHUNK}", "overlap": True},
}
EXCHANGES = ("alone", "DistributedDataParallel", *HOOKS)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))


class Step:
    """A step of training with one exchange; "alone" sends nothing."""

    def __init__(self, exchange: str) -> None:
        self.model = network()
        self.inputs = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))
        if exchange != "alone":
            self.model = DistributedDataParallel(self.model, bucket_cap_mb=BUCKET_MB)
        if exchange in HOOKS:
            ddp_hook(self.model, **HOOKS[exchange], keep_ledger=False)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

    def __call__(self) -> float:
        """Seconds until the slower rank is done."""
        dist.barrier()
        start = time.perf_counter()
        self.optimizer.zero_grad()
        self.model(self.inputs).pow(2).mean().backward()
        self.optimizer.step()
        dist.barrier()
        return time.perf_counter() - start


def main(repetitions: int) -> None:
    """Steps of all exchanges in turn; the first two of each make buckets and memory, and are not counted."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    steps = {exchange: Step(exchange) for exchange in EXCHANGES}
    times: dict[str, list[float]] = {exchange: [] for exchange in steps}
    for _ in range(repetitions + 2):
        for exchange, step in steps.items():
            times[exchange].append(step())
    if dist.get_rank() == 0:
        print(json.dumps({exchange: seconds[2:] for exchange, seconds in times.items()}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]))
