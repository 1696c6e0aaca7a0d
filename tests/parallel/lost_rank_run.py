"""The last job of real ranks (see ranks.py): one rank ends in the middle of a training; what the others say."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from lplab.parallel import ddp_hook
from lplab.training.loop.trainer import default_loss
from tests.parallel.gloo_run import batches, model

STEPS = 2


def results():
    """The messages of two backward passes after the last rank has left; None of that rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    ddp = DistributedDataParallel(model(), bucket_cap_mb=0.2)
    hook = ddp_hook(ddp, "scalecom:chunk=100")
    messages = []
    for step in range(STEPS + 2):
        if step >= STEPS and rank == world - 1:
            return None
        inputs, targets = batches(world)(step, rank)
        ddp.zero_grad()
        try:
            default_loss(ddp(inputs), targets).backward()
        except RuntimeError as error:
            messages.append(str(error))
    return {"messages": messages, "step": hook.step}
