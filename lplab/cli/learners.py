"""``lplab train --learners N``: learners that compress their gradients, simulated or each a process."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from lplab.cli.command import DIVERGED, BadInputError, bad_values

ALONE = ("set", "record", "save", "resume")  # arguments of a training by one learner under a recipe


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
        raise BadInputError(f"several learners train in float32 and keep no checkpoint: leave out {', '.join(unfit)}")
    learners = 2 if args.learners is None else args.learners
    if args.batch is not None and learners >= 1 and args.batch < learners:
        raise BadInputError(f"--batch {args.batch} is less than an example for each of {learners} learners")
    each = None if args.batch is None else args.batch // max(learners, 1)
    with bad_values():
        settings = RunSettings(args.model, args.compressor or "dense", learners, args.steps, each, args.lr, args.seed)
    if args.distributed and (warning := oversubscription_warning(learners, processors())):
        print(f"lplab train: {warning}", file=sys.stderr)
    started = time.perf_counter()
    steps, end = _run(settings, args.distributed)
    _report(args, settings, steps, {**end, "seconds": time.perf_counter() - started})
    wrong = next((number for number, step in enumerate(steps, 1) if not math.isfinite(step["loss"])), None)
    if wrong is not None:
        print(f"lplab train: diverged: the loss is no number from step {wrong} on; try a smaller --lr", file=sys.stderr)
    return 0 if wrong is None else DIVERGED


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


def _run(settings: Any, distributed: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The reports of all steps, and the final report."""
    from tqdm import tqdm

    from lplab.parallel.simulated import SimulatedRun

    reports, steps, end = (_distributed_reports(settings) if distributed else SimulatedRun(settings)), [], {}
    with tqdm(total=settings.steps, unit="step", file=sys.stderr, desc=settings.compressor) as bar:
        for report in reports:
            if "step" not in report:
                end = report
                continue
            steps.append(report)
            bar.set_postfix_str(f"loss {report['loss']:.4f}", refresh=False)
            bar.update()
    return steps, end


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
    one, several = ("process", "processes") if args.distributed else ("simulated learner", "simulated learners")
    where = one if settings.learners == 1 else several
    who = f"{settings.model}, {settings.learners} {where}, {settings.compressor}"
    print(f"{who}: {len(steps)} steps, {end['seconds']:.1f} s")
    tail = losses[-max(1, len(losses) // 10) :]
    print(f"training loss  {losses[0]:.4f} → {sum(tail) / len(tail):.4f} nats (mean of the last tenth)")
    print(f"test loss      {end['test_loss']:.4f} nats")
    if "test_error" in end:
        print(f"test error     {end['test_error']:.1%}")
    from lplab.compression.compression_ratio import wire_bytes

    each = len(steps) * settings.learners
    dense = 4 * sum(parameter.numel() for parameter in settings.task().model(settings.seed).parameters())
    print(f"payload        {_against(dense, payload / each)}")
    print(f"on the wire    {_against(wire_bytes('sum', dense, settings.learners), sent / each)}")


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
