"""A job of real ranks (see ranks.py): some trainings of a few steps through DDP's hook, for test_gloo.py."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.compression import AdaComp, Dense, ScaleCom, SignSGD
from lplab.parallel import ddp_hook, shards
from lplab.parallel.learner_gradients import learner_seed
from lplab.training.loop.trainer import default_loss

STEPS, BATCH = 5, 12
COMPRESSORS = {
    "dense": Dense(),
    "adacomp": AdaComp(bin=50),
    "scalecom": ScaleCom(chunk=100),
    "scalecom_beta": ScaleCom(chunk=100, beta=0.3),
    "signum": SignSGD(momentum=0.9),
}


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 10))


def batches(world):
    def data(step):
        generator = torch.Generator().manual_seed(step)
        return torch.randn(BATCH, 64, generator=generator), torch.randint(0, 10, (BATCH,), generator=generator)

    return shards(data, world)


def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def train(compressor, cap, ordered, poison=None, plainly=False, **options):
    """One run; ``poison``: (step, rank) at which a gradient becomes NaN; ``plainly``: steps by the optimizer itself."""
    rank, world = dist.get_rank(), dist.get_world_size()
    ddp = DistributedDataParallel(model(), bucket_cap_mb=cap)
    state = ddp_hook(ddp, compressor, ordered=ordered, **options)
    part, update, made = batches(world), optimizer(ddp.parameters()), []
    for step in range(STEPS):
        torch.manual_seed(learner_seed(0, step, rank))
        inputs, targets = part(step, rank)
        update.zero_grad()
        loss = default_loss(ddp(inputs), targets)
        (loss * float("nan") if poison == (step, rank) else loss).backward()
        if plainly:
            update.step()
            made.append(not state.skipped)
        else:
            made.append(state.apply(update))
    return {
        "parameters": {n: p.detach().clone() for n, p in ddp.module.named_parameters()},
        "residuals": {n: torch.as_tensor(s["residual"]) for n, s in state.states.states.items() if "residual" in s},
        "ledger": sorted((e.step, e.layer, e.kind, e.rank, e.payload_bytes) for e in state.ledger.entries),
        "made": made,
    }


def results():
    """What this rank ends with, of each training."""
    results = {}
    for name, compressor in COMPRESSORS.items():
        for cap in (0.2, 25):
            results[name, cap] = train(compressor, cap, ordered=True)
        results["tensors", name] = train(compressor, 0.2, ordered=True, on_device=True)
        results["waiting", name] = train(compressor, 0.2, ordered=True, overlap=False)
    results["reduced"] = train(COMPRESSORS["scalecom"], 25, ordered=False)
    poison = (2, dist.get_world_size() - 1)
    results["poisoned"] = train(COMPRESSORS["adacomp"], 0.2, ordered=True, poison=poison)
    results["poisoned, waiting"] = train(COMPRESSORS["adacomp"], 0.2, ordered=True, poison=poison, overlap=False)
    results["poisoned, plainly"] = train(COMPRESSORS["adacomp"], 0.2, ordered=True, poison=poison, plainly=True)
    return results
