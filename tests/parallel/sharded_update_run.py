"""A job of real ranks (see ranks.py): some trainings with 8-bit weights, for test_sharded_update.py."""

import torch
import torch.distributed as dist
from torch import nn

from lplab.compression.sharded_weights import ShardedUpdateFormats
from lplab.parallel import ShardedWeightUpdate, shards
from lplab.parallel.learner_gradients import learner_seed
from lplab.training.loop.trainer import default_loss

STEPS, BATCH = 6, 12
SCHEMES = {
    "residual": ShardedUpdateFormats(),
    "no residual": ShardedUpdateFormats(residual=None),
    "float32": ShardedUpdateFormats("fp32", "fp32", "fp32", "fp32"),
}


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 31), nn.ReLU(), nn.Dropout(0.1), nn.Linear(31, 5))


def batches(world):
    def data(step):
        generator = torch.Generator().manual_seed(step)
        return torch.randn(BATCH, 20, generator=generator), torch.randint(0, 5, (BATCH,), generator=generator)

    return shards(data, world)


def train(scheme, poison=None, factor=float("nan"), stop=None, **options):
    """One run; ``poison``: (step, rank) at which the loss has a factor; ``stop``: where another model goes on."""
    rank, world = dist.get_rank(), dist.get_world_size()
    net = model()
    broadcast = ShardedWeightUpdate(net.parameters(), scheme, **options)
    part, made = batches(world), []
    for step in range(STEPS):
        if step == stop:
            saved, net = broadcast.state_dict(), model()
            broadcast = ShardedWeightUpdate(net.parameters(), scheme, **options)
            broadcast.load_state_dict(saved)
        torch.manual_seed(learner_seed(0, step, rank))
        inputs, targets = part(step, rank)
        net.zero_grad()
        loss = default_loss(net(inputs), targets)
        (loss * factor if poison == (step, rank) else loss).backward()
        made.append(broadcast.step())
    return {
        "broadcast weights": torch.cat([p.detach().flatten() for p in net.parameters()]),
        "master": torch.from_numpy(broadcast.master()),
        "residual": torch.from_numpy(broadcast.shard.residual),
        "ledger": [(e.step, e.kind, e.rank, e.payload_bytes) for e in broadcast.ledger.entries],
        "made": made,
    }


def results():
    """What this rank ends with, of each training."""
    results = {name: train(scheme) for name, scheme in SCHEMES.items()}
    results["other learning rate"] = train(ShardedUpdateFormats(), learning_rate=0.1, momentum=0.9)
    last = dist.get_world_size() - 1
    results["poisoned"] = train(ShardedUpdateFormats(), poison=(2, last))
    results["too large for 1-6-9"] = train(ShardedUpdateFormats(), poison=(2, last), factor=1e20)
    results["resumed"] = train(ShardedUpdateFormats(), stop=3)
    return results
