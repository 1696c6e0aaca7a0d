"""What an exercise's solution returns, where the solution itself was left out: in an edition for students.

``lplab release`` writes a file for each such exercise: the results of the solution, and of each legal way, in all
calls that the check compares. A check needs nothing else of it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from lplab.exercises.isolation.wire import decode, encode, encode_argument

FOLDER = Path(__file__).parents[1] / "withheld"


def key_of(args: tuple[Any, ...]) -> str:
    """A key for the arguments of a call: equal bits, equal key."""
    return hashlib.sha256(json.dumps([encode_argument(argument) for argument in args]).encode()).hexdigest()[:24]


def write_results(folder: Path, exercise_id: str, results: dict[str, list[tuple[tuple[Any, ...], Any]]]) -> None:
    """Write the calls of an exercise with their results, by the name of the legal way ("" for the solution)."""
    table = {way: {key_of(args): encode(value) for args, value in pairs} for way, pairs in results.items()}
    text = json.dumps(table, sort_keys=True).encode("ascii")
    (folder / f"{exercise_id}.json.gz").write_bytes(gzip.compress(text, mtime=0))


@cache
def _table(exercise_id: str) -> dict[str, dict[str, Any]]:
    return json.loads(gzip.decompress((FOLDER / f"{exercise_id}.json.gz").read_bytes()))


def result(exercise_id: str, args: tuple[Any, ...], way: str = "") -> Any:
    """What the solution returns in one of the calls of the check.

    Raises:
        ValueError: it is a call that no check makes.
    """
    found = _table(exercise_id)[way]
    key = key_of(args)
    if key not in found:
        raise ValueError(
            f"the solution of exercise {exercise_id} is with your instructor; only checks can compare with it"
        )
    return decode(found[key])
