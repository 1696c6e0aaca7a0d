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
from lplab.exercises.capstone.costs import Costs
from lplab.exercises.capstone.published_recipes import RECIPES, data_of
from lplab.exercises.capstone.scoring import PLAN, Score, check_seeds, float32_loss, score

LIMIT_SECONDS = 900.0  # of one recipe on all its seeds; the slowest ones that were found take two minutes of a core
SHOWN = 200  # characters of what a failed process wrote that are shown


class NotScoredError(Exception):
    """A fault of the machine or of lplab, not of the recipe; the message is one line."""


def float32_losses(seeds: Sequence[int], plan: BranchPlan = PLAN, folder: str | Path | None = None) -> dict[int, float]:
    """The losses of float32 by seed. It trains the checkpoints that all recipes of these seeds begin with.

    Raises:
        ValueError: the seeds make no sense.
        NotScoredError: the process failed.
    """
    check_seeds(seeds)
    answer = _asked(_request(seeds, plan, folder), LIMIT_SECONDS)
    return {int(seed): loss for seed, loss in answer["float32"].items()}


def score_apart(
    data: Any,
    float32: Mapping[int, float],
    plan: BranchPlan = PLAN,
    folder: str | Path | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> Score:
    """The score of a recipe, computed in a process of its own.

    Args:
        data: of a recipe that :func:`~lplab.exercises.capstone.scoring.checked_recipe` takes.
        float32: the losses of float32 by seed; these are the seeds.
        plan, folder: as for :func:`~lplab.exercises.capstone.scoring.score`.
        limit_seconds: that all seeds together may take.

    Raises:
        NotScoredError: it took longer, or the process failed twice.
    """
    request = _request(tuple(float32), plan, folder)
    known = {str(seed): loss for seed, loss in float32.items()}
    values = _asked({**request, "recipe": data, "float32": known}, limit_seconds)["score"]
    lists = {name: tuple(values[name]) for name in ("seeds", "gaps")}
    return Score(**{**values, **lists, "costs": Costs(**values["costs"])})


def field_apart(
    float32: Mapping[int, float], jobs: int, plan: BranchPlan = PLAN, folder: str | Path | None = None
) -> tuple[Score, ...]:
    """The scores of the field on these seeds, ``jobs`` of them at a time; errors as in :func:`score_apart`."""
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        scores = list(pool.map(lambda name: score_apart(data_of(name), float32, plan, folder), RECIPES))
    return tuple(replace(found, name=name) for name, found in zip(RECIPES, scores, strict=True))


def _request(seeds: Sequence[int], plan: BranchPlan, folder: str | Path | None) -> dict[str, Any]:
    return {"seeds": list(seeds), "plan": asdict(plan), "folder": None if folder is None else str(folder)}


def _asked(request: Mapping[str, Any], limit_seconds: float) -> dict[str, Any]:
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
    """Answer the request on stdin: the losses of float32, or the score of a recipe."""
    request = json.loads(sys.stdin.read())
    seeds, plan, folder = request["seeds"], BranchPlan(**request["plan"]), request["folder"]
    if "recipe" in request:
        known = {int(seed): loss for seed, loss in request["float32"].items()}
        answer: dict[str, Any] = {"score": asdict(score(request["recipe"], seeds, plan, folder, known))}
    else:
        answer = {"float32": {str(seed): float32_loss(seed, plan, folder) for seed in seeds}}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
