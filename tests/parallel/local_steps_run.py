"""Ranks that take steps of their own and meet through a store: threads of the tests, or processes of their own.

Usage: python -m tests.parallel.local_steps_run FOLDER WORLD
"""

import multiprocessing
import os
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from lplab.parallel import local_steps
from lplab.training.loop.trainer import default_loss

EVERY, ROUNDS = 2, 4
ADAMW = partial(torch.optim.AdamW, lr=0.01)
HERE, LATE, GONE, DIES = "here", "late", "gone", "dies"


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))


def batches(step, learner):
    generator = torch.Generator().manual_seed(100 * step + learner)
    x = torch.randn(10, 20, generator=generator)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def one_step(model, optimizer, step, rank, data=batches):
    inputs, targets = data(step, rank)
    optimizer.zero_grad()
    default_loss(model(inputs), targets).backward()
    optimizer.step()


def die(*_):
    """The end of a process in the middle of a meeting."""
    os._exit(1)


def train(model, store, rank, world, how=None, rounds=ROUNDS, data=batches, every=EVERY, fragments=1, delay=0, **more):
    """A rank's rounds; ``how``: what it is in a round, by its number: late, gone for good, or killed while it meets."""
    optimizer, took_part, steps = ADAMW(model.parameters()), [], every // fragments
    settings = {"every": every, "fragments": fragments, "delay": delay} | more
    run = local_steps(model, optimizer, store=store, rank=rank, world=world, **settings)
    while run.meetings.number < rounds:
        number = run.meetings.number
        what = (how or {}).get(number, HERE)
        if what == GONE:
            break
        if what == DIES:
            run.meetings._exchange = die
        for step in range(steps * number, steps * (number + 1)):
            while what == LATE and (step + 1 + delay) % steps == 0 and not run.meetings.decided:
                time.sleep(0.01)
            one_step(model, optimizer, step, rank, data)
        took_part.append(run.took_part)
    return run, took_part


HOW = {(1, 0): LATE, (2, 3): GONE}  # of the processes, by round and rank


def rank(number, world, folder):
    """All that one process does."""
    torch.set_num_threads(1)
    store, model = dist.FileStore(str(folder / "store"), world), net()
    how = {at: DIES if what == GONE else what for (at, other), what in HOW.items() if other == number}
    run, took_part = train(model, store, number, world, how, compressor="sparseloco", patience=3.0)
    weights = [p.detach() for p in model.parameters()]
    torch.save({"weights": weights, "took_part": took_part, "sent": run.ledger.total()}, folder / f"{number}.pt")


def main(folder, world):
    """Start the processes; on Linux they are forked when torch is loaded, which takes longer than all rounds."""
    if sys.platform == "linux":
        import torch._dynamo  # noqa: F401 - the first optimizer would import it in each process

    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    processes = [context.Process(target=rank, args=(number, world, folder)) for number in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.stdout.write(" ".join(str(process.exitcode) for process in processes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
