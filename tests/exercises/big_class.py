"""A class of any size, made from the known mistakes: to try a grading, and to measure it.

    python -m tests.exercises.big_class FOLDER --students 1000             one notebook a student, with all exercises
    python -m tests.exercises.big_class FOLDER --students 30 --whole-labs  a folder a student, with all labs
    python -m tests.exercises.big_class FOLDER --students 100 --own 1      every answer in words of its own

Each student has an ability, drawn from the seed. It is the chance that an answer is the solution. Any other answer is a
known mistake, the empty stub, noise (a constant, an exception, half of a solution …), or is not handed in. The same
seed gives the same class, and its first students are those of a smaller class. Two students with the same mistake have
the same text, unless ``--own`` says otherwise: a real class has more different texts, and takes longer to grade.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import Exercise
from lplab.exercises.model.exercise_catalogue import LABS
from tests.labs.notebooks import exercise_part

FOLDER = Path(__file__).parents[2] / "labs"
SOLVED, MISTAKE, BLANK, NOISE, MISSING = "solved", "known mistake", "blank", "noise", "not handed in"
OTHERWISE = {MISTAKE: 55, BLANK: 20, NOISE: 15, MISSING: 10}  # of the answers that are not the solution, in percent
NOISES = (
    "    return 0.0",
    "    return []",
    '    return "no idea"',
    "    raise ValueError('?')",
    "    x = (",
    "    pass",
)


@dataclass(frozen=True)
class Given:
    """What a student gives to one exercise: the kind, and the source, which is "" if nothing is handed in."""

    kind: str
    source: str


def answers_of(student: int, seed: int, own: float = 0.0, labs: Sequence[str] = LABS) -> dict[str, Given]:
    """The answers of one student to all exercises of some labs.

    Args:
        student: the number.
        seed: of the class.
        own: the share of answers in words of their own: they have a comment that no other answer has.
        labs: such as ["00", "01"].

    >>> given = answers_of(7, seed=1)
    >>> len(given) == len(exercise_catalogue.names()), given == answers_of(7, seed=1), given == answers_of(8, seed=1)
    (True, True, False)
    """
    chance = random.Random(f"{seed} {student}")
    ability = chance.betavariate(5, 3)
    given = {}
    for key in (exercise.id for lab in labs for exercise in exercise_catalogue.of_lab(lab)):
        kind = SOLVED if chance.random() < ability else chance.choices(list(OTHERWISE), list(OTHERWISE.values()))[0]
        source = _source(kind, exercise_catalogue.get(key), chance)
        if source and chance.random() < own:
            source += f"# in the words of student {student}\n"
        given[key] = Given(kind, source)
    return given


def _source(kind: str, exercise: Exercise, chance: random.Random) -> str:
    if kind == SOLVED:
        return exercise.solution
    if kind == MISTAKE:
        wrong = [mistake for mistake in exercise.mistakes if not mistake.equivalent]
        return chance.choice(wrong).apply(exercise.solution)
    if kind == NOISE:
        head = next(line for line in exercise.solution.splitlines() if line.startswith(f"def {exercise.name}("))
        half = exercise.solution[: len(exercise.solution) // 2]
        return chance.choice([half, *(f"{head}\n{body}\n" for body in NOISES)])
    return exercise.stub_source if kind == BLANK else ""


def notebooks_of(given: dict[str, Given], whole_labs: bool) -> Iterator[tuple[str, str]]:
    """The notebooks of one student, each with its name: one with all answers, or all labs with the answers in them."""
    cells = {
        key: f'{one.source}\n\ncheck("{key}", {exercise_catalogue.get(key).name})'
        for key, one in given.items()
        if one.source
    }
    if not whole_labs:
        first = "import math\nimport numpy as np\nfrom lplab.exercises import check"
        yield "all", _notebook([{"cell_type": "code", "source": cell} for cell in (first, *cells.values())])
        return
    for path in sorted(FOLDER.glob("*.ipynb")):
        if path.stem[:2] not in {key[:2] for key in given}:
            continue
        lab = json.loads(path.read_text("utf-8"))
        for cell in lab["cells"]:
            part, key = exercise_part(cell) or ("", "")
            if part == "exercise":
                cell["source"] = cells.get(key, "")
        yield path.stem, _notebook(lab["cells"])


def _notebook(cells: list[dict]) -> str:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def write_class(
    folder: Path, students: int, seed: int, own: float = 0.0, whole_labs: bool = False, labs: Sequence[str] = LABS
) -> None:
    """Write the files of a class into a new folder.

    Raises:
        ValueError: there is something in the folder, or a number makes no sense.
        OSError: it cannot be written.
    """
    if students < 1 or not 0 <= own <= 1:
        raise ValueError(f"a class has one student or more and a share from 0 to 1, not {students} and {own}")
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty")
    folder.mkdir(parents=True, exist_ok=True)
    for student in tqdm(range(students), "students", disable=None):
        for name, text in notebooks_of(answers_of(student, seed, own, labs), whole_labs):
            path = folder / f"s{student:06}" / f"{name}.ipynb" if whole_labs else folder / f"s{student:06}.ipynb"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


def main() -> int:
    """Write a class."""
    parser = argparse.ArgumentParser("python -m tests.exercises.big_class", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--students", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--own", type=float, default=0.0, help="share of answers in words of their own, from 0 to 1")
    parser.add_argument("--whole-labs", action="store_true", help="a notebook a lab, with all that it holds")
    parser.add_argument("--lab", nargs="+", default=LABS, help="such as 00 01 (default: all)")
    args = parser.parse_args()
    try:
        write_class(args.folder, args.students, args.seed, args.own, args.whole_labs, args.lab)
    except (ValueError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
