"""The field: published recipes with their costs and gaps, measured by ``lplab capstone --measure-field`` and stored."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lplab.claims.framework.branches import BranchPlan
from lplab.claims.framework.store import Session
from lplab.datasets import data_folder
from lplab.exercises.capstone.costs import Costs
from lplab.exercises.capstone.published_recipes import RECIPES, data_of
from lplab.exercises.capstone.scoring import HELD_BACK_SEEDS, PLAN, PRACTICE_SEEDS, Score, score


def field(seeds: Sequence[int] = PRACTICE_SEEDS, path: str | Path | None = None) -> tuple[Score, ...]:
    """The stored scores of the field on these seeds; nothing is trained.

    Raises:
        ValueError: the file cannot be read, is of another plan, or these seeds were not measured.

    >>> [score.name for score in field()][-1]
    'plain MXFP4'
    """
    file = Path(path or default_path())
    try:
        stored = json.loads(file.read_text("utf-8"))
        if BranchPlan(**stored["plan"]) != PLAN:
            raise ValueError(f"{file.name} holds another plan; measure it anew with lplab capstone --measure-field")
        rows = {row["name"]: row for row in stored["recipes"]}
        return tuple(_score(rows[name], seeds) for name in RECIPES)
    except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        what = f"no seed or recipe {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{file.name} cannot be used ({what}); lplab capstone --measure-field makes it") from None


def has(seeds: Sequence[int]) -> bool:
    """Whether the field is stored for all of these seeds.

    >>> has((0, 1)), has((4711,))
    (True, False)
    """
    return set(seeds) <= {*PRACTICE_SEEDS, *HELD_BACK_SEEDS}


def default_path() -> Path:
    """The file of the stored field."""
    return data_folder() / "capstone" / "field.json"


def measured_field(
    seeds: Sequence[int], plan: BranchPlan = PLAN, folder: str | Path | None = None
) -> tuple[Score, ...]:
    """The scores of the field, trained now: two to three minutes for three seeds."""
    return tuple(replace(score(data_of(name), seeds, plan, folder), name=name) for name in RECIPES)


def write_field(path: str | Path | None = None) -> Path:
    """Measure the field on the seeds of practice and on those held back by default, and store it.

    Raises:
        OSError: the file cannot be written.
    """
    began, cores = time.monotonic(), time.process_time()
    seeds = (*PRACTICE_SEEDS, *HELD_BACK_SEEDS)
    scores = measured_field(seeds)
    took, cores = time.monotonic() - began, time.process_time() - cores
    session = Session.now("lplab capstone --measure-field", len(scores) * len(seeds), took, 1, cores)
    stored = {
        "plan": asdict(PLAN),
        "session": asdict(session),
        "recipes": [
            {
                "name": found.name,
                "bits": round(found.costs.bits, 6),
                "seconds": round(found.costs.seconds, 9),
                "gaps": {str(seed): gap for seed, gap in zip(found.seeds, found.gaps, strict=True)},
                "diverged": found.diverged,
            }
            for found in scores
        ],
    }
    file = Path(path or default_path())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="")
    return file


def _score(row: Mapping[str, Any], seeds: Sequence[int]) -> Score:
    gaps = tuple(float(row["gaps"][str(seed)]) for seed in seeds)
    costs = Costs(float(row["bits"]), float(row["seconds"]))
    return Score(row["name"], costs, tuple(seeds), gaps, int(row["diverged"]), is_published=True)
