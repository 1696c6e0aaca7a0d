"""Merge the files of a student: those in one folder below that of the class, or those that have one owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath

from lplab.exercises.grading.submissions import ADVICE, Submission, clean
from lplab.exercises.isolation.answers import Answer

SubmittedFile = tuple[PurePath, Submission]  # path from the folder of the class, and the contents
MOST_NAMES = 20  # of files in a note; files.csv names all
NOTHING = "holds nothing that can be graded"


def as_one(student: PurePath, files: Sequence[SubmittedFile]) -> SubmittedFile:
    """The files of one student as one submission, named by the student's path where that is not the file itself.

    >>> files = [(PurePath(f"{name}.ipynb"), Submission(name)) for name in ("ada/00", "ada/01")]
    >>> _, one = as_one(PurePath("ada"), files)
    >>> one.name, one.notes
    ('ada', ('2 files: 00.ipynb, 01.ipynb',))
    >>> as_one(PurePath("bob.ipynb"), [(PurePath("bob.ipynb"), Submission("bob"))])[1].notes
    ()
    """
    counted = [file for file in files if not file[1].aside] or files
    return counted[0] if len(counted) == 1 and counted[0][0] == student else merged(student, counted)


def merged(folder: PurePath, files: Sequence[SubmittedFile]) -> SubmittedFile:
    """The files of one folder as one submission: all their answers, and notes that say which file they are about."""
    in_one_folder = len({path.parts[0] for path, _ in files}) == 1 and all(len(path.parts) > 1 for path, _ in files)
    parts = [(clean(PurePath(*path.parts[in_one_folder:]).as_posix()), one) for path, one in files]
    readable = [one for _, one in parts if not one.problem]
    broken = _not_read(parts, ADVICE if readable else "")
    count = f"{len(parts)} file{'s' * (len(parts) > 1)}"
    read_first = sorted(parts, key=lambda part: bool(part[1].problem))
    notes = [f"{count}: {listed([file for file, _ in read_first])}"] if len(parts) > 1 or broken else []
    names = sorted({one.name for _, one in files if one.is_claimed})
    if len(names) > 1:
        notes.append(f"reports of different names: {', '.join(names)}; --each-file gives each its own row")
    notes += [f"{file}: {note}" if len(parts) > 1 else note for file, one in parts for note in one.notes]
    answers = _answers(parts)
    submission = Submission(
        name=clean(folder.as_posix()),
        answers={key: tuple(some) for key, some in sorted(answers.items())},
        predictions={key: guess for one in reversed(readable) for key, guess in one.predictions.items()},
        notes=tuple(notes + broken * bool(readable)),
        places={key: tuple(some.values()) for key, some in sorted(answers.items())},
        history={key: past for one in reversed(readable) for key, past in one.history.items()},
        problem="" if readable else parts[0][1].problem if len(parts) == 1 else f"{NOTHING}: {'; '.join(broken)}",
        times={key: tuple(_earliest(files, key, answer) for answer in some) for key, some in sorted(answers.items())},
    )
    in_it = all(path.is_relative_to(folder) for path, _ in files)
    return (folder if in_it and len(files) > 1 else files[0][0]), submission


def _not_read(parts: Sequence[tuple[str, Submission]], needless: str) -> list[str]:
    """Which files were not read and why, without a needless end; files of which the same is to be said share a line."""
    told: dict[str, list[str]] = {}
    for file, one in parts:
        if one.problem:
            told.setdefault(one.problem.removesuffix(needless), []).append(file)
    lines = [
        f"the file {files[0]} {problem}"
        if len(files) == 1
        else f"{len(files)} files were not read, as each of them {problem}: {listed(files)}"
        for problem, files in told.items()
    ]
    more = sum(map(len, list(told.values())[MOST_NAMES:]))
    return lines[:MOST_NAMES] + [f"{more} more files were not read (see files.csv)"] * bool(more)


def listed(names: Sequence[str]) -> str:
    """Names of files; of many the first ones.

    >>> listed(["a", "b"]), listed(["a"] * 30)[-32:]
    ('a, b', 'a, a and 10 more (see files.csv)')
    """
    more = f" and {len(names) - MOST_NAMES} more (see files.csv)" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _earliest(files: Sequence[SubmittedFile], key: str, answer: Answer) -> datetime | None:
    """When this answer was handed in first, as far as that is known."""
    times = [
        time
        for _, one in files
        if key in one.times
        for other, time in zip(one.answers[key], one.times[key], strict=True)
        if other == answer and time is not None
    ]
    return min(times, default=None)


def _answers(parts: Sequence[tuple[str, Submission]]) -> Mapping[str, dict[Answer, str]]:
    """All different answers by exercise, the newest last, each with the file and the place where it was found first."""
    found: dict[str, dict[Answer, str]] = {}
    for file, one in parts:
        for key, some in one.answers.items():
            for answer, place in zip(some, one.places[key], strict=True):
                entry = found.setdefault(key, {})
                entry[answer] = entry.pop(answer, f"{file}, {place}" if len(parts) > 1 else place)
    return found
