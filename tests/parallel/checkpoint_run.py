"""A job of real ranks (see ranks.py): a training whose checkpoints are loaded by more ranks, and by fewer again.

Two ranks train and save; all ranks load, train and save; the two load that. For test_gloo.py.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel

from lplab.parallel import ddp_hook
from lplab.training.loop.trainer import default_loss
from tests.parallel.gloo_run import batches, model, optimizer

STEPS = 3
COMPRESSOR = "scalecom:chunk=100,beta=0.3"


class Run:
    """A training of one rank, in a group of some."""

    def __init__(self, group):
        self.group = group
        self.model = DistributedDataParallel(model(), process_group=group)
        self.hook = ddp_hook(self.model, COMPRESSOR, process_group=group, ordered=True)
        self.optimizer = optimizer(self.model.parameters())

    def train(self, steps):
        part = batches(dist.get_world_size(self.group))
        for _ in range(steps):
            inputs, targets = part(self.hook.step, dist.get_rank(self.group))
            self.optimizer.zero_grad()
            default_loss(self.model(inputs), targets).backward()
            self.optimizer.step()

    def save(self, folder):
        saved = {"model": self.model.module.state_dict(), "hook": self.hook.checkpoint()}
        dcp.save(saved, checkpoint_id=folder, process_group=self.group)

    def load(self, folder):
        saved = {"model": self.model.module.state_dict(), "hook": self.hook.checkpoint(folder)}
        dcp.load(saved, checkpoint_id=folder, process_group=self.group)
        self.model.module.load_state_dict(saved["model"])
        self.hook.load_state_dict(saved["hook"])
        return self

    def outcome(self):
        return {
            "step": self.hook.step,
            "weights": {n: p.detach().clone() for n, p in self.model.module.named_parameters()},
            "residuals": {
                n: torch.tensor(a["residual"]) for n, a in self.hook.states.state_dict()["layers"].items() if a
            },
        }


def results():
    """What this rank had before and after each load; without the two's, on the others."""
    folders = [tempfile.mkdtemp() if dist.get_rank() == 0 else None for _ in range(2)]
    dist.broadcast_object_list(folders)
    two, results = dist.new_group([0, 1]), {}
    if dist.get_rank() < 2:
        run = Run(two)
        run.train(STEPS)
        run.save(folders[0])
        results["two saved"] = run.outcome()
        results["two resumed"] = Run(two).load(folders[0]).outcome()
    dist.barrier()
    run = Run(dist.group.WORLD).load(folders[0])
    results["all loaded"] = run.outcome()
    run.train(STEPS)
    run.save(folders[1])
    results["all saved"] = run.outcome()
    if dist.get_rank() < 2:
        results["two loaded"] = Run(two).load(folders[1]).outcome()
    return results
