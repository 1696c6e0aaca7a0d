"""One rank of a distributed run; torchrun starts this module.

    torchrun --standalone --nproc-per-node 4 -m lplab.parallel.worker '{"compressor": "scalecom:chunk=100"}'
    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m lplab.parallel.worker …

Rank 0 prints one JSON object a line: one for each step, then the results. Set OMP_NUM_THREADS=1 on CPUs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lplab.compression.ratios import total_wire_bytes
from lplab.parallel.hook import HookState, ddp_hook
from lplab.parallel.learner_gradients import learner_seed
from lplab.parallel.run_settings import RunSettings
from lplab.training.loop.trainer import default_error, default_loss

LINE_PREFIX = "lplab "  # starts each line that is a report


def main(arguments: list[str]) -> None:
    """Train and report."""
    settings = RunSettings.from_json(arguments[0])
    torch.set_num_threads(1)
    dist.init_process_group(settings.backend)
    try:
        train(settings)
        # All ranks end together: one whose peers have closed their connections may be aborted.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def train(settings: RunSettings) -> None:
    """The training of one rank."""
    rank, device = dist.get_rank(), _device(settings)
    task, part = settings.task(), settings.batches()
    model = DistributedDataParallel(task.model(settings.seed).to(device))
    example = part(0, 0)[0].to(device)
    state = ddp_hook(model, settings.make_compressor(), ordered=settings.ordered, seed=settings.seed, example=example)
    optimizer = settings.optimizer(model.parameters())
    for step in range(settings.steps):
        torch.manual_seed(learner_seed(settings.seed, step, rank))
        inputs, targets = (x.to(device) for x in part(step, rank))
        optimizer.zero_grad()
        loss = task.loss(model(inputs), targets)
        loss.backward()
        applied = state.apply(optimizer)
        _report_step(state, step, loss, applied)
    if settings.save is not None and rank == 0:
        np.savez(settings.save, **weights_of(model.module))  # type: ignore[arg-type]  # numpy's own stub
    _print_report(final_report(model.module, *(x.to(device) for x in task.test()), task.loss, task.error))


def _report_step(state: HookState, step: int, loss: torch.Tensor, applied: bool) -> None:
    """Rank 0 prints the mean loss and the bytes of this step; all ranks take part in the sum."""
    # train() keeps the log.
    assert state.ledger is not None
    world, sent = dist.get_world_size(), state.ledger.entries
    numbers = [loss.item(), state.ledger.total(step=step), total_wire_bytes(sent, world)]
    own = torch.tensor(numbers, dtype=torch.float64, device=loss.device)
    sent.clear()
    dist.all_reduce(own)
    mean, payload, wire = own.tolist()
    _print_report(step_report(step, mean / world, payload, wire, not applied))


def step_report(step: int, loss: float, payload_bytes: float, sent_bytes: float, skipped: bool) -> dict[str, Any]:
    """The report of a step: mean loss, payload bytes of all learners, and the bytes that their collectives send.

    >>> step_report(0, 2.5, 100.0, 149.99999, False)["sent_bytes"]
    150
    """
    sizes = {"payload_bytes": round(payload_bytes), "sent_bytes": round(sent_bytes)}
    return {"step": step, "loss": loss, **sizes, "skipped": skipped}


@torch.no_grad()
def final_report(
    model: nn.Module,
    inputs: Any,
    targets: Any,
    loss: Callable[[Any, Any], torch.Tensor] = default_loss,
    error: Callable[[Any, Any], float | None] = default_error,
) -> dict[str, Any]:
    """The results of a training: test loss, a fingerprint of the weights, and the error where the task has one.

    >>> final_report(nn.Identity(), torch.eye(2), torch.tensor([0, 0]))["test_error"]
    0.5
    """
    output = model.eval()(inputs)
    report = {"test_loss": float(loss(output, targets)), "weights": fingerprint(model)}
    share = error(output, targets)
    return report if share is None else {**report, "test_error": share}


def weights_of(model: nn.Module) -> dict[str, np.ndarray]:
    """All parameters by name, float32 copies.

    >>> weights_of(nn.Linear(3, 2))["weight"].shape
    (2, 3)
    """
    return {name: p.detach().cpu().numpy().copy() for name, p in model.named_parameters()}


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of the bytes of all parameters: runs with the same fingerprint have the same weights, bit for bit.

    >>> fingerprint(nn.ReLU())[:8]
    'e3b0c442'
    """
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _device(settings: RunSettings) -> torch.device:
    if settings.backend != "nccl":
        return torch.device("cpu")
    device = torch.device("cuda", dist.get_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _print_report(report: dict[str, Any]) -> None:
    """Report to whoever started the run. Its whole line is one write: all ranks and torchrun write to the same pipe."""
    if dist.get_rank() == 0:
        sys.stdout.write(f"{LINE_PREFIX}{json.dumps(report)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
