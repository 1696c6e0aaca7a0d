"""The report file, which ``lplab report`` writes and ``lplab grade`` reads, edited or not."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue

SCHEMA = 1
HISTORY = {"attempts": int, "hints": int, "solution_at": str, "passed_at": str, "version": int}  # kept for the marks
MAX_CHARACTERS = 500  # characters of a question or guess
MAX_ENTRIES = 200  # exercises or predictions of one report that are read: a course has fewer


class ReportError(ValueError):
    """The object is no report that this version reads; the message says why."""


@dataclass(frozen=True)
class Report:
    """The contents of a report.

    Args:
        name: as the student gave it, or "".
        answers: by exercise id: the passing answer, then the latest; each with "passing answer" or "latest answer".
        predictions: by question id: question, guess, truth, unit.
        history: by exercise id: what there is of attempts, hints, solution_at, passed_at, version.
        notes: remarks about it.
    """

    name: str
    answers: Mapping[str, Mapping[Answer, str]] = field(default_factory=dict)
    predictions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    history: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256 of a report's content, its own ``sha256`` apart. It shows changes by accident; anyone can make it anew.

    >>> digest({"b": 1, "a": 2.5, "sha256": "…"}) == digest({"a": 2.5, "b": 1})
    True
    """
    content = {key: value for key, value in data.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_report(data: Mapping[str, Any]) -> Report:
    """The report in a JSON object. Entries of another form than ours are left out.

    Raises:
        ReportError: it was made by a newer lplab, or holds no answers.
    """
    schema = data["lplab_report"]
    if type(schema) is not int or schema < 1:
        raise ReportError("is JSON, but neither a notebook nor a report")
    if schema > SCHEMA:
        raise ReportError("is a report of a newer lplab; update lplab to grade it")
    entries = list(_entries(data.get("exercises")))
    unknown = sorted({str(entry["id"]) for entry in entries} - set(exercise_catalogue.names()))
    entries = [entry for entry in entries if entry["id"] not in unknown]
    answers = {entry["id"]: _answers(entry) for entry in entries}
    answers = {key: some for key, some in sorted(answers.items()) if some}
    for capstone in exercise_catalogue.capstones():
        answers |= _own_recipe(capstone, data.get(capstone.key))
    if not answers:
        raise ReportError("is a report without answers")
    notes = [f"there is no exercise {key}" for key in unknown]
    if data.get("sha256") != digest(data):
        notes.append("was changed after it was made: its content does not match its SHA-256")
    return Report(
        name=data["name"] if isinstance(data.get("name"), str) else "",
        answers=answers,
        predictions={guess["id"]: guess for guess in map(_prediction, _entries(data.get("predictions"))) if guess},
        history={entry["id"]: _history(entry) for entry in entries},
        notes=tuple(notes),
    )


def _own_recipe(capstone: Capstone, entry: Any) -> dict[str, dict[Answer, str]]:
    """The recipe of a capstone as the answer to it; empty if there is none."""
    recipe = entry.get("recipe") if isinstance(entry, dict) else None
    return {capstone.id: {capstone.as_answer(recipe): "latest recipe"}} if isinstance(recipe, dict) and recipe else {}


def _entries(value: Any) -> Iterable[dict[str, Any]]:
    some = value[:MAX_ENTRIES] if isinstance(value, list) else []
    return (entry for entry in some if isinstance(entry, dict) and isinstance(entry.get("id"), str))


def _answers(entry: Mapping[str, Any]) -> dict[Answer, str]:
    found: dict[Answer, str] = {}
    for which, name in (("passing", _passing_name(entry)), ("latest", entry.get("function"))):
        source = entry.get(which)
        if not isinstance(source, str) or not source.strip() or not isinstance(name, str):
            continue
        try:
            answer = Answer(source.encode("utf-8", "replace").decode(), name)
        except ValueError:  # no function can have this name: the file was edited
            continue
        found.setdefault(answer, f"{which} answer")
    return found


def _passing_name(entry: Mapping[str, Any]) -> Any:
    """The function that passed. Reports of early versions name the latest one only: it is that, or the exercise's."""
    if entry.get("passing_function"):
        return entry["passing_function"]
    latest = str(entry.get("function"))
    if not latest.isidentifier():  # the file was edited
        return latest
    defined = re.search(rf"^(def {latest}\b|{latest}\s*=)", str(entry.get("passing")), re.MULTILINE)
    return latest if defined else exercise_catalogue.get(entry["id"]).name


def _history(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry[key] for key, kind in HISTORY.items() if type(entry.get(key)) is kind}


def _prediction(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Question, guess, truth and unit; empty if guess or truth is missing."""
    guess, truth = _number_or_text(entry.get("guess")), _number_or_text(entry.get("truth"))
    if guess is None or truth is None:
        return {}
    texts = {key: str(entry.get(key) or "")[:MAX_CHARACTERS] for key in ("id", "question", "unit")}
    return {**texts, "guess": guess, "truth": truth}


def _number_or_text(value: Any) -> float | str | None:
    """A finite number, or text; infinities and numbers beyond all floats as text; None for anything else."""
    if isinstance(value, str):
        return value[:MAX_CHARACTERS]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else str(value)
    except OverflowError:
        return "a number beyond all limits"
