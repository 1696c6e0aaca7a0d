"""A job of real ranks (see ranks.py): awkward trainings with the exchange behind the backward pass and without it."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.parallel import ddp_hook

STEPS = 4
VARIANTS = ("accumulated", "unused parameters", "scaled, one infinite", "two models")


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


def results():
    return {(variant, overlap): train(variant, overlap) for variant in VARIANTS for overlap in (True, False)}
