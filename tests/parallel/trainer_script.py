"""A training in the shape of PyTorch's example with a Trainer, written from docs/compress_training.md alone.

Usage: torchrun --standalone --nproc-per-node 2 trainer_script.py CHECKPOINTS

The three lines with a number compress. test_compress_training.py runs it, kills a rank, and starts it again.
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from lplab.parallel import ddp_hook  # 1


class Clusters(Dataset):
    """Points around the corners of a simplex: which corner is it?"""

    def __init__(self, size, classes=8, width=32):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.arange(size) % classes
        self.points = 3 * F.one_hot(self.labels, width) + torch.randn(size, width, generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index], self.labels[index]


class Trainer:
    """A model, its data, and what is saved of both."""

    def __init__(self, model, data, optimizer, folder):
        self.rank, self.folder = dist.get_rank(), folder
        self.model, self.data, self.optimizer = DDP(model), data, optimizer
        self.hook = ddp_hook(self.model, "scalecom:chunk=50")  # 2
        self.epochs_run = 0
        self.load_snapshot()

    def snapshot(self, saved_in=None):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {
            "model": model,
            "optimizer": optimizer,
            "epochs_run": torch.tensor(self.epochs_run),
            "hook": self.hook.checkpoint(saved_in),  # 3
        }

    def load_snapshot(self):
        """The newest snapshot that is complete; rank 0 says which."""
        newest = [None]
        if self.rank == 0 and os.path.isdir(self.folder):
            complete = [e.path for e in os.scandir(self.folder) if os.path.exists(os.path.join(e.path, ".metadata"))]
            newest = [max(complete, default=None)]
        dist.broadcast_object_list(newest)
        if newest[0] is None:
            return
        saved = self.snapshot(newest[0])
        dcp.load(saved, checkpoint_id=newest[0])
        set_state_dict(self.model, self.optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
        self.epochs_run = int(saved["epochs_run"])

    def run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def train(self, max_epochs):
        while self.epochs_run < max_epochs:
            self.data.sampler.set_epoch(self.epochs_run)
            losses = [self.run_batch(source, targets) for source, targets in self.data]
            self.epochs_run += 1
            dcp.save(self.snapshot(), checkpoint_id=os.path.join(self.folder, f"{self.epochs_run:04}"))
            if self.rank == 0:
                print(f"epoch {self.epochs_run}: loss {sum(losses) / len(losses):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64, help="of all ranks together")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = Clusters(2048)
    loader = DataLoader(data, batch_size=options.batch // dist.get_world_size(), sampler=DistributedSampler(data))
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    Trainer(model, loader, optimizer, options.folder).train(options.epochs)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
