"""The field: published recipes with their costs and gaps, measured by ``lplab capstone --measure-field`` and stored.

Each function takes the capstone whose field it is; by default that of lab 14.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lplab.claims.framework.branches import BranchPlan
from lplab.claims.framework.store import Session
from lplab.datasets import data_folder
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.capstone.scores import HELD_BACK_SEEDS, PRACTICE_SEEDS, Score

if TYPE_CHECKING:
    from lplab.exercises.progress.records import OwnRecipe

DIGITS = 9  # behind the point, of the costs in a file


def field(
    seeds: Sequence[int] = PRACTICE_SEEDS, path: str | Path | None = None, capstone: Capstone = FEW_BITS
) -> tuple[Score, ...]:
    """The stored scores of the field on these seeds; nothing is trained.

    Raises:
        ValueError: the file cannot be read, is of another plan, or these seeds were not measured.

    >>> [score.name for score in field()][-1]
    'plain MXFP4'
    """
    file, again = Path(path or default_path(capstone)), f"{capstone.command} --measure-field"
    try:
        stored = json.loads(file.read_text("utf-8"))
        if BranchPlan(**stored["plan"]) != capstone.plan:
            raise ValueError(f"{file.name} holds another plan; measure it anew with {again}")
        rows = {row["name"]: row for row in stored["recipes"]}
        return tuple(_score(rows[name], seeds, capstone) for name in capstone.names)
    except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        what = f"no seed or recipe {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{file.name} cannot be used ({what}); {again} makes it") from None


def has(seeds: Sequence[int], capstone: Capstone = FEW_BITS) -> bool:
    """Whether the field is stored for all of these seeds.

    >>> has((0, 1)), has((4711,))
    (True, False)
    """
    try:
        rows = json.loads(default_path(capstone).read_text("utf-8"))["recipes"]
    except OSError:
        return False
    return all(str(seed) in row["gaps"] for row in rows for seed in seeds)


def known_score(data: Any, seeds: Sequence[int], capstone: Capstone = FEW_BITS) -> Score | None:
    """The score of a recipe that does what one of the field does, without a training; None where it is not known.

    >>> known_score({"name": "mine"} | FEW_BITS.data_of("plain MXFP4"), (0, 1)).name
    'plain MXFP4'
    """
    same = capstone.published(data)
    if not same or not has(seeds, capstone):
        return None
    found = next(each for each in field(seeds, capstone=capstone) if each.name == same)
    return replace(found, name=data.get("name") or same)


def kept_score(kept: OwnRecipe, capstone: Capstone = FEW_BITS) -> Score:
    """The score of a recipe as the progress file keeps it: without the losses."""
    costs = capstone.costs(**{each.name: getattr(kept, each.name) for each in fields(capstone.costs)})
    seeds, gaps = tuple(map(int, kept.seeds.split())), tuple(map(float, kept.gaps.split()))
    return Score(json.loads(kept.recipe).get("name") or "own recipe", costs, seeds, gaps, kept.diverged)


def default_path(capstone: Capstone = FEW_BITS) -> Path:
    """The file of the stored field."""
    return data_folder() / capstone.key / "field.json"


def measured_field(
    seeds: Sequence[int],
    plan: BranchPlan | None = None,
    folder: str | Path | None = None,
    capstone: Capstone = FEW_BITS,
) -> tuple[Score, ...]:
    """The scores of the field, trained now: some minutes for three seeds."""
    plan = plan or capstone.plan
    return tuple(
        replace(capstone.score(capstone.data_of(name), seeds, plan, folder), name=name) for name in capstone.names
    )


def write_field(path: str | Path | None = None, capstone: Capstone = FEW_BITS) -> Path:
    """Measure the field on the seeds of practice and on those held back by default, and store it.

    Raises:
        OSError: the file cannot be written.
    """
    began, cores = time.monotonic(), time.process_time()  # of all threads: no training runs in another process
    seeds = (*PRACTICE_SEEDS, *HELD_BACK_SEEDS)
    scores = measured_field(seeds, capstone=capstone)
    took, cores = time.monotonic() - began, time.process_time() - cores
    session = Session.now(f"{capstone.command} --measure-field", len(scores) * len(seeds), took, 1, cores)
    stored = {
        "plan": asdict(capstone.plan),
        "session": asdict(session),
        "recipes": [
            {
                "name": found.name,
                **{name: round(value, DIGITS) for name, value in asdict(found.costs).items()},
                "gaps": _by_seed(found.seeds, found.gaps),
                **({"losses": _by_seed(found.seeds, found.losses)} if found.losses else {}),
                "diverged": found.diverged,
            }
            for found in scores
        ],
    }
    file = Path(path or default_path(capstone))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="")
    return file


def _by_seed(seeds: Sequence[int], values: Sequence[float]) -> dict[str, float]:
    return {str(seed): value for seed, value in zip(seeds, values, strict=True)}


def _score(row: Mapping[str, Any], seeds: Sequence[int], capstone: Capstone) -> Score:
    gaps, losses = (
        tuple(float(row[key][str(seed)]) for seed in seeds) if key in row else () for key in ("gaps", "losses")
    )
    costs = capstone.costs(**{each.name: float(row[each.name]) for each in fields(capstone.costs)})
    return Score(row["name"], costs, tuple(seeds), gaps, int(row["diverged"]), is_published=True, losses=losses)
