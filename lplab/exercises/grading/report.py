"""The report that a student submits: a JSON file for the grader and a page to read, from the progress file."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import lplab
from lplab.exercises.capstone import stored_field
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.capstone.points import MAX_POINTS
from lplab.exercises.checks.verdict import PASSED
from lplab.exercises.grading.html_pages import render
from lplab.exercises.grading.marks_files import distinct_names
from lplab.exercises.grading.report_file import SCHEMA, digest
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import STAGES, Exercise
from lplab.exercises.progress.bar import bar_of
from lplab.exercises.progress.records import ExerciseRecord, OwnRecipe, ProgressState

PACKAGES = ("numpy", "torch", "numba")  # beside lplab and Python: what results could depend on
HELD, FAILS, UNREACHED = "held", "fails", "not reached"


def report_of(state: ProgressState, labs: Sequence[str] = (), name: str = "") -> dict[str, Any]:
    """The report as one JSON object, with the SHA-256 of its content.

    Args:
        state: the student's progress.
        labs: such as ["01"]; by default all with a check or a prediction.
        name: of the student, or "".

    Raises:
        ValueError: there is no such lab, or nothing of it has been done.
    """
    for lab in labs:
        exercise_catalogue.of_lab(lab)
    own = {
        each.key: entry
        for each in exercise_catalogue.capstones()
        if (not labs or each.id[:2] in labs) and (entry := own_recipe_of(getattr(state, each.key), each))
    }
    touched = {key[:2] for key in (*state.exercises, *state.predictions)}
    shown = [lab for lab in exercise_catalogue.LABS if lab in touched and (not labs or lab in labs)]
    entries = [
        exercise_catalogue.get(key) for key in exercise_catalogue.names() if key[:2] in shown and key in state.exercises
    ]
    if not shown and not own:
        which = f" of lab {' or '.join(labs)}" if labs else ""
        raise ValueError(f"nothing{which} has been done yet: check an exercise or make a prediction first")
    report = {
        "lplab_report": SCHEMA,
        "name": name,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "platform": f"{platform.system()} {platform.machine()}",
        "labs": [{**vars(bar_of(lab, state)), "text": bar_of(lab, state).text} for lab in shown],
        "exercises": [_entry(exercise, state.exercises[exercise.id]) for exercise in entries],
        "predictions": [
            {"id": key, **asdict(guess)} for key, guess in sorted(state.predictions.items()) if key[:2] in shown
        ],
    }
    report |= own
    return {**report, "sha256": digest(report)}


def own_recipe_of(scored: OwnRecipe, capstone: Capstone = FEW_BITS) -> dict[str, Any]:
    """The recipe of a capstone that was scored last, its costs, and its gaps on the seeds of practice.

    >>> own_recipe_of(OwnRecipe('{"weight": "nvfp4"}', 6.5, 0.6, gaps="0.03 0.05", seeds="0 1"))["gap"]
    0.04
    """
    if not scored.recipe:
        return {}
    found = stored_field.kept_score(scored, capstone)
    gaps, points = list(found.gaps), {}
    if stored_field.has(found.seeds, capstone):
        marking = capstone.marking(stored_field.field(found.seeds, capstone=capstone))
        points = {"points": marking.points(found), "most_points": MAX_POINTS}
    return {
        "recipe": json.loads(scored.recipe),
        **{each.name: getattr(scored, each.name) for each in fields(capstone.costs)},
        "seeds": list(found.seeds),
        "gaps": gaps,
        "gap": sum(gaps) / len(gaps),
        **points,
        "diverged": scored.diverged,
        "scored": scored.scored,
        "time": scored.time,
    }


def versions() -> dict[str, str]:
    """Versions of lplab, Python and what else is installed that results could depend on."""
    installed = {"lplab": lplab.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # as without the extra "torch": then no result depends on it
            continue
    return installed


def _entry(exercise: Exercise, record: ExerciseRecord) -> dict[str, Any]:
    facts = {"id": exercise.id, "title": exercise.title, "lab": exercise.lab}
    stages = stages_of(exercise, PASSED if record.passed else record.status, record.ring)
    return {**facts, **asdict(record), "most_points": exercise.points, "rings": stages}


def stages_of(exercise: Exercise, status: str, failed: str) -> dict[str, str]:
    """The result of each stage that the exercise has: it held, it fails, or it was not reached.

    >>> stages_of(exercise_catalogue.get("01.2"), "failed", "boundary set")
    {'form': 'held', 'named examples': 'held', 'boundary set': 'fails', 'properties': 'not reached'}
    """
    absent = {"boundary set": not exercise.boundary(), "properties": not exercise.properties}
    present = [name for name in STAGES if not absent.get(name)]
    if status == PASSED:
        return dict.fromkeys(present, HELD)
    place = STAGES.index(failed) if failed in STAGES else -1
    return {name: HELD if STAGES.index(name) < place else FAILS if name == failed else UNREACHED for name in present}


def report_page(report: dict[str, Any]) -> str:
    """The page to read: the same content, without the numbers that only a grader needs."""
    return render("report.html", report=report, stages=STAGES, recipes=own_recipes_in(report))


def own_recipes_in(report: dict[str, Any]) -> list[tuple[Capstone, Any, dict[str, Any]]]:
    """The recipes of a report: for each its capstone, its costs, and what the report says of it."""
    return [
        (each, each.costs(**{name.name: entry[name.name] for name in fields(each.costs)}), entry)
        for each in exercise_catalogue.capstones()
        if (entry := report.get(each.key))
    ]


def write_report(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write both files into a folder, which is made if needed, and return them. OSError if that cannot be done."""
    folder.mkdir(parents=True, exist_ok=True)
    (name,) = distinct_names([f"lplab-report {report['name']}"])
    files = [folder / f"{name}.json", folder / f"{name}.html"]
    files[0].write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8", newline="")
    files[1].write_text(report_page(report), encoding="utf-8", newline="")
    return files
