"""A job of real ranks (see ranks.py): awkward trainings with the exchange behind the backward pass and without it.

The last ones have parameters that do not lie in memory as their indices go, and gradients that overflow on the way.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.parallel import ddp_hook

STEPS = 4
VARIANTS = ("accumulated", "unused parameters", "scaled, one infinite", "two models")
SHAPES = {"matrix": (40, 30), "kernels": (8, 6, 3, 3), "vector": (30,)}
COMPRESSORS = ("dense", "topk:density=0.1", "adacomp:bin=10", "scalecom:chunk=10", "onebit", "powersgd:rank=2", "qsgd")
WAYS = {  # options of DistributedDataParallel and of the hook
    "ordered": ({}, {"ordered": True}),
    "ordered, on the device": ({"gradient_as_bucket_view": True}, {"ordered": True, "on_device": True}),
    "reduced, waiting": ({"gradient_as_bucket_view": True}, {"overlap": False}),
}


class TwoPaths(nn.Module):
    """A network of which each rank uses another half in each step."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(60, 60), nn.Linear(60, 60)
        self.paths = nn.ModuleList(nn.Sequential(nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 60)) for _ in range(2))

    def forward(self, x, path=0):
        return self.last(torch.relu(self.paths[path](torch.relu(self.first(x)))))


def train(variant, overlap):
    """Parameters and residuals of this rank at the end; skipped steps."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    count = 2 if variant == "two models" else 1
    ddps = [DistributedDataParallel(TwoPaths(), bucket_cap_mb=0.01, find_unused_parameters=True) for _ in range(count)]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10) if variant.startswith("scaled") else None
    hooks = [ddp_hook(ddp, "scalecom:chunk=20", overlap=overlap, scaler=scaler, ordered=True) for ddp in ddps]
    optimizer = torch.optim.SGD([p for ddp in ddps for p in ddp.parameters()], lr=0.05, momentum=0.9)
    generator, skipped = torch.Generator().manual_seed(rank), []

    def loss():
        x = torch.randn(5, 60, generator=generator)
        path = (step + rank) % 2 if variant == "unused parameters" else 0
        outputs = [ddp(x, path) for ddp in ddps]
        return sum(output.pow(2).mean() for output in outputs)

    for step in range(STEPS):
        optimizer.zero_grad()
        if variant == "accumulated":
            with ddps[0].no_sync():
                loss().backward()
        if scaler is None:
            loss().backward()
            optimizer.step()
        else:
            bad = float("inf") if (step, rank) == (1, 0) else 1
            scaler.scale(loss() * bad).backward()
            scaler.step(optimizer)
            scaler.update()
        skipped.append(hooks[0].skipped)
    return {
        "parameters": [p.detach().clone() for ddp in ddps for p in ddp.parameters()],
        "residuals": [torch.tensor(s["residual"]) for h in hooks for s in h.states.states.values() if "residual" in s],
        "skipped": skipped,
    }


class Products(nn.Module):
    """The sum of all parameters times the inputs, which are their gradients."""

    def __init__(self, strided):
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        if strided:
            self.matrix.data = torch.zeros(SHAPES["matrix"][::-1]).T
            self.kernels.data = self.kernels.data.to(memory_format=torch.channels_last)

    def forward(self, factors):
        return sum((self.get_parameter(name) * factor).sum() for name, factor in factors.items())


def gradients(step, rank, world):
    """In step 2 their sum over the ranks overflows; in step 4 the last rank's sum with the residual of step 3."""
    generator = torch.Generator().manual_seed(100 * step + rank)
    if step == 2:
        return {name: torch.full(shape, 3e38) for name, shape in SHAPES.items()}
    if step in (3, 4) and rank == world - 1:
        return {name: 1e38 + 2e38 * torch.rand(shape, generator=generator) for name, shape in SHAPES.items()}
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def train_products(compressor, way):
    """Parameters and states at the end; in each step whether it was skipped, and whether all gradients are finite."""
    ddp_options, options = WAYS[way]
    ddp = DistributedDataParallel(Products(strided=True), bucket_cap_mb=0.002, **ddp_options)
    hook, optimizer = ddp_hook(ddp, compressor, **options), torch.optim.SGD(ddp.parameters(), lr=0.1)
    skipped, finite = [], []
    for step in range(6):
        optimizer.zero_grad()
        ddp(gradients(step, dist.get_rank(), dist.get_world_size())).backward()
        skipped.append(hook.skipped)
        finite.append(all(p.grad.isfinite().all().item() for p in ddp.parameters() if p.grad is not None))
        optimizer.step()
    hook.close()
    return {
        "parameters": {name: p.detach().clone() for name, p in ddp.module.named_parameters()},
        "states": hook.state_dict()["layers"],
        "skipped": skipped,
        "finite": finite,
    }


def results():
    results = {(variant, overlap): train(variant, overlap) for variant in VARIANTS for overlap in (True, False)}
    return results | {(name, way): train_products(name, way) for name in COMPRESSORS for way in WAYS}
