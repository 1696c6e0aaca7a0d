"""One rank of the benchmark of the hook, which ``benchmarks/parallel.py`` starts; prints seconds as JSON.

Usage: python -m benchmarks.parallel_rank NETWORK REPETITIONS, with what torch.distributed wants to know.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lplab.parallel import ddp_hook

BATCH, CHUNK = 4, 112
LAYER_SECONDS = 0.15  # that the layer of a device takes, a third of it in the forward pass
BUCKET_MB = 1  # each layer is a bucket of its own
HOOKS: dict[str, dict[str, Any]] = {
    "dense, waiting": {"compressor": "dense", "overlap": False},
    "dense, behind": {"compressor": "dense", "overlap": True},
    "ScaleCom, waiting": {"compressor": f"scalecom:chunk={CHUNK}", "overlap": False},
    "ScaleCom, behind": {"compressor": f"scalecom:chunk={CHUNK}", "overlap": True},
}
EXCHANGES = ("alone", "DistributedDataParallel", *HOOKS)


class Wait(torch.autograd.Function):
    """The host's part in a layer that a device computes: it waits, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """The input, after a third of the time."""
        time.sleep(LAYER_SECONDS / 3)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        """The gradient, after the rest of the time."""
        time.sleep(LAYER_SECONDS * 2 / 3)
        return gradient


class DeviceLayer(nn.Linear):
    """A layer that takes LAYER_SECONDS; its gradient is there when the wait of the backward pass is over."""

    def forward(self, x: Tensor) -> Tensor:
        """The layer's output, and a wait."""
        return Wait.apply(super().forward(x))


def large() -> nn.Sequential:
    """25 million parameters."""
    return nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(6)))


def on_device(layer: type[nn.Linear] = DeviceLayer) -> nn.Sequential:
    """8 million parameters, in layers of which each takes a known time."""
    return nn.Sequential(*(layer(1000, 1000, bias=False) for _ in range(8)))


NETWORKS: dict[str, Callable[[], nn.Sequential]] = {"large": large, "on_device": on_device}


class Step:
    """A step of training with one exchange; "alone" sends nothing."""

    def __init__(self, network: nn.Sequential, exchange: str) -> None:
        generator = torch.Generator().manual_seed(dist.get_rank())
        self.inputs = torch.randn(BATCH, network[0].in_features, generator=generator)
        self.model: nn.Module = network
        if exchange != "alone":
            self.model = ddp = DistributedDataParallel(network, bucket_cap_mb=BUCKET_MB)
            if exchange in HOOKS:
                ddp_hook(ddp, **HOOKS[exchange], keep_ledger=False)
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


def main(network: str, repetitions: int) -> None:
    """Steps of all exchanges in turn; the first two of each make buckets and memory, and are not counted."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    steps = {exchange: Step(NETWORKS[network](), exchange) for exchange in EXCHANGES}
    times: dict[str, list[float]] = {exchange: [] for exchange in steps}
    for _ in range(repetitions + 2):
        for exchange, step in steps.items():
            times[exchange].append(step())
    if dist.get_rank() == 0:
        print(json.dumps({exchange: seconds[2:] for exchange, seconds in times.items()}), flush=True)
    dist.barrier()
    del step
    steps.clear()  # PyTorch can wait for ever where a model outlives its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
