"""The score of a recipe in a process of its own, with a limit of time.

A recipe is data, so nothing of a student runs. The process is for the limit, and so that one recipe cannot take down
the grading of the others.

``python -m lplab.exercises.capstone.score_process`` is such a process: a request as JSON comes in, the answer goes out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import lplab
from lplab.claims.framework.branches import BranchPlan
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.capstone.scores import Score, check_seeds
from lplab.exercises.model import exercise_catalogue

LIMIT_SECONDS = 900.0  # of one recipe on all its seeds; the slowest ones that were found take two minutes of a core
SHOWN = 200  # characters of what a failed process wrote that are shown


class NotScoredError(Exception):
    """A fault of the machine or of lplab, not of the recipe; the message is one line."""


def baselines(
    seeds: Sequence[int],
    plan: BranchPlan | None = None,
    folder: str | Path | None = None,
    capstone: Capstone = FEW_BITS,
) -> dict[int, Any]:
    """What recipes are compared with, by seed. It trains the checkpoints that all recipes of these seeds begin with.

    Raises:
        ValueError: the seeds make no sense.
        NotScoredError: the process failed.
    """
    check_seeds(seeds)
    answer = _answer_from_process(_request(capstone, seeds, plan, folder), LIMIT_SECONDS)
    return {int(seed): known for seed, known in answer["baselines"].items()}


def score_apart(
    data: Any,
    known: Mapping[int, Any],
    plan: BranchPlan | None = None,
    folder: str | Path | None = None,
    limit_seconds: float = LIMIT_SECONDS,
    capstone: Capstone = FEW_BITS,
) -> Score:
    """The score of a recipe, computed in a process of its own.

    Args:
        data: of a recipe that the capstone takes.
        known: what :func:`baselines` found by seed; these are the seeds.
        plan: of the trainings; by default the capstone's.
        folder: where checkpoints are kept; by default that of the branch protocol.
        limit_seconds: that all seeds together may take.
        capstone: whose recipe it is.

    Raises:
        NotScoredError: it took longer, or the process failed twice.
    """
    request = _request(capstone, tuple(known), plan, folder)
    by_text = {str(seed): found for seed, found in known.items()}
    values = _answer_from_process({**request, "recipe": data, "baselines": by_text}, limit_seconds)["score"]
    lists = {name: tuple(values[name]) for name in ("seeds", "gaps", "losses")}
    return Score(**{**values, **lists, "costs": capstone.costs(**values["costs"])})


def field_apart(
    known: Mapping[int, Any],
    jobs: int,
    plan: BranchPlan | None = None,
    folder: str | Path | None = None,
    capstone: Capstone = FEW_BITS,
) -> tuple[Score, ...]:
    """The scores of the field on these seeds, ``jobs`` of them at a time; errors as in :func:`score_apart`."""

    def scored(name: str) -> Score:
        return replace(score_apart(capstone.data_of(name), known, plan, folder, capstone=capstone), name=name)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return tuple(pool.map(scored, capstone.names))


def _request(
    capstone: Capstone, seeds: Sequence[int], plan: BranchPlan | None, folder: str | Path | None
) -> dict[str, Any]:
    where = None if folder is None else str(folder)
    return {"capstone": capstone.id, "seeds": list(seeds), "plan": asdict(plan or capstone.plan), "folder": where}


def _answer_from_process(request: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
    """The answer of a process to a request."""
    paths = [str(Path(lplab.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    last = ""
    for _ in range(2):  # the machine may have been out of memory
        try:
            done = subprocess.run(
                # -P: nothing of the working folder, where students' files may lie
                [sys.executable, "-P", "-m", "lplab.exercises.capstone.score_process"],
                input=json.dumps(request),
                capture_output=True,
                encoding="utf-8",
                timeout=limit_seconds,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NotScoredError(f"its training took more than {limit_seconds:g} s") from None
        if done.returncode == 0:
            return dict(json.loads(done.stdout.splitlines()[-1]))
        if done.returncode == -signal.SIGINT:
            raise NotScoredError("it was interrupted")  # Ctrl-C reaches this process, too
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:SHOWN]
    raise NotScoredError(f"its process failed: {last}")


def main() -> int:
    """Answer the request on stdin: what recipes are compared with, or the score of a recipe."""
    request = json.loads(sys.stdin.read())
    capstone, seeds = exercise_catalogue.capstone(request["capstone"]), request["seeds"]
    plan, folder = BranchPlan(**request["plan"]), request["folder"]
    if "recipe" in request:
        known = {int(seed): found for seed, found in request["baselines"].items()}
        answer: dict[str, Any] = {"score": asdict(capstone.score(request["recipe"], seeds, plan, folder, known))}
    else:
        answer = {"baselines": {str(seed): capstone.baseline(seed, plan, folder) for seed in seeds}}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
