"""``lplab train --learners N``: learners that compress their gradients, simulated or each a process."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from lplab.cli.command import DIVERGED, INTERRUPTED, BadInputError, bad_values, check_output
from lplab.cli.training_run import deferred_sigint, reading_checkpoint

ALONE = ("set", "record")  # arguments of a training by one learner under a recipe


IN_A_STEP = "stopped by Ctrl-C in the middle of a step"  # then no checkpoint is written


def add_learners(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to ``lplab train``."""
    group = parser.add_argument_group("many learners, in float32")
    group.add_argument("--learners", type=int, metavar="N", help="share the batch among N learners")
    group.add_argument(
        "--compressor",
        metavar="NAME[:SETTING=VALUE,…]",
        help="how gradients travel, as in scalecom:chunk=100 (default: dense)",
    )
    group.add_argument(
        "--distributed", action="store_true", help="a process for each learner (torch.distributed, gloo)"
    )


def wants_learners(args: argparse.Namespace) -> bool:
    """Whether any of these arguments was given."""
    return args.learners is not None or args.compressor is not None or args.distributed


def train_learners(args: argparse.Namespace) -> int:
    """Train with a progress bar on stderr, then print loss, error and bytes; a diverged training ends with code 1.

    Raises:
        BadInputError: an unknown model or compressor, a number out of range, or an argument that does not fit.
    """
    from lplab.parallel import RunSettings

    unfit = [f"--{name}" for name in ALONE if getattr(args, name)] + (["--recipe"] if args.recipe else [])
    if unfit:
        raise BadInputError(f"several learners train in float32 and record nothing: leave out {', '.join(unfit)}")
    if args.distributed and (args.save or args.resume):
        raise BadInputError("--save and --resume need simulated learners, whose bits are the same: no --distributed")
    if args.save:
        check_output(args.save)
    learners = 2 if args.learners is None else args.learners
    if args.batch is not None and learners >= 1 and args.batch < learners:
        raise BadInputError(f"--batch {args.batch} is less than an example for each of {learners} learners")
    batch = None if args.batch is None else args.batch // max(learners, 1)
    with bad_values():
        settings = RunSettings(args.model, args.compressor or "dense", learners, args.steps, batch, args.lr, args.seed)
        settings.batches()  # what the task needs is asked for before anything is trained
    if args.distributed and (warning := oversubscription_warning(learners, processors())):
        print(f"lplab train: {warning}", file=sys.stderr)
    started = time.perf_counter()
    with bad_values():
        run = _run(settings, args)
    steps, end, stopped = _reports(run, settings, simulated=not args.distributed)
    wrong = next((number for number, step in enumerate(steps, 1) if not math.isfinite(step["loss"])), None)
    is_whole = wrong is None and stopped != IN_A_STEP
    if args.save and is_whole:
        from lplab.training.loop.trainer import write_checkpoint

        with bad_values():
            write_checkpoint(run.state_dict(), args.save)
    _report(args, settings, steps, {**end, "seconds": time.perf_counter() - started, "stopped": stopped or None})
    if wrong is not None:
        print(f"lplab train: diverged: the loss is no number from step {wrong} on; try a smaller --lr", file=sys.stderr)
        return DIVERGED
    return INTERRUPTED if stopped else 0


def processors() -> int:
    """Number of processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def oversubscription_warning(learners: int, cores: int) -> str | None:
    """A warning where several processes share a processor, else None.

    >>> oversubscription_warning(100, 2)[:67]
    '100 processes share 2 processors, and each loads PyTorch for itself'
    >>> oversubscription_warning(2, 2) is None
    True
    """
    if learners <= cores:
        return None
    share = f"share {cores} processors" if cores > 1 else "share a single processor"
    return (
        f"{learners} processes {share}, and each loads PyTorch for itself: minutes may pass before the first step, and "
        "memory may run out; without --distributed one process simulates the same learners, with the same result"
    )


def _run(settings: Any, args: argparse.Namespace) -> Any:
    """The run, which gives reports when it is iterated over."""
    from lplab.parallel.simulated import SimulatedRun

    if args.distributed:
        return _distributed_reports(settings)
    return SimulatedRun(settings, state=_saved(args.resume) if args.resume else None)


def _saved(path: Path) -> dict[str, Any]:
    """The state in a checkpoint; only tensors and plain values are read from the file."""
    import torch

    with reading_checkpoint(path, "several learners"):
        saved: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        return {name: saved[name] for name in ("signature", "learners")}


def _reports(run: Any, settings: Any, simulated: bool) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
    """The reports of all steps, the final report, and what has stopped the run before its end, if anything."""
    from tqdm import tqdm

    steps: list[dict[str, Any]] = []
    with tqdm(total=settings.steps, unit="step", file=sys.stderr, desc=settings.compressor) as bar:
        try:
            # Ranks get Ctrl-C from the terminal themselves, and torchrun ends them.
            with deferred_sigint() if simulated else nullcontext(threading.Event()) as interrupted:
                for report in run:
                    if "step" not in report:
                        return steps, report, ""
                    steps.append(report)
                    bar.set_postfix_str(f"loss {report['loss']:.4f}", refresh=False)
                    bar.update()
                    if interrupted.is_set():
                        break
        except KeyboardInterrupt:
            if not simulated:
                raise
            return steps, {}, IN_A_STEP
    return steps, {}, "stopped by Ctrl-C"


def _distributed_reports(settings: Any) -> Iterator[dict[str, Any]]:
    from lplab.parallel.launch import DistributedError, DistributedRun

    try:
        yield from DistributedRun(settings)
    except DistributedError as problem:
        raise BadInputError(str(problem)) from None


def _report(args: argparse.Namespace, settings: Any, steps: list[dict[str, Any]], end: dict[str, Any]) -> None:
    """Print the result: a few lines, or JSON."""
    losses = [s["loss"] for s in steps]
    payload, sent = (sum(s[kind] for s in steps) for kind in ("payload_bytes", "sent_bytes"))
    if args.json:
        about = {"model": settings.model, "compressor": settings.compressor, "learners": settings.learners}
        end = {name: _finite(value) for name, value in end.items()}
        print(
            json.dumps(
                about | {"losses": list(map(_finite, losses)), "payload_bytes": payload, "sent_bytes": sent} | end
            )
        )
        return
    if end["stopped"]:
        print(end["stopped"])
    if not steps:
        return
    one, several = ("process", "processes") if args.distributed else ("simulated learner", "simulated learners")
    where = one if settings.learners == 1 else several
    who = f"{settings.model}, {settings.learners} {where}, {settings.compressor}"
    print(f"{who}: {len(steps)} steps, {end['seconds']:.1f} s")
    tail = losses[-max(1, len(losses) // 10) :]
    print(f"training loss  {losses[0]:.4f} → {sum(tail) / len(tail):.4f} nats (mean of the last tenth)")
    if "test_loss" in end:
        print(f"test loss      {end['test_loss']:.4f} nats")
    if "test_error" in end:
        print(f"test error     {end['test_error']:.1%}")
    from lplab.compression.ratios import wire_bytes

    batch = len(steps) * settings.learners
    dense = 4 * sum(parameter.numel() for parameter in settings.task().model(settings.seed).parameters())
    print(f"payload        {_against(dense, payload / batch)}")
    print(f"on the wire    {_against(wire_bytes('all_reduce', dense, settings.learners), sent / batch)}")


def _against(dense: float, sent: float) -> str:
    """Bytes beside those of dense float32 gradients.

    >>> _against(4000, 80), _against(0, 0)
    ('80 bytes a learner and step (dense float32: 4,000, 50 ×)', '0 bytes a learner and step')
    """
    beside = f" (dense float32: {dense:,.0f}, {dense / sent:.3g} ×)" if sent else ""
    return f"{sent:,.0f} bytes a learner and step{beside}"


def _finite(value: Any) -> Any:
    """None instead of NaN and infinity, which JSON does not know."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
