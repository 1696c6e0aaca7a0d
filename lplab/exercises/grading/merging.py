"""Merge the files of a student: those in one folder below that of the class, or those that have one owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath

from lplab.exercises.grading.submissions import Submission, clean
from lplab.exercises.isolation.answers import Answer

SubmittedFile = tuple[PurePath, Submission]  # path from the folder of the class, and the contents


def as_one(student: PurePath, files: Sequence[SubmittedFile]) -> SubmittedFile:
    """The files of one student as one submission, named by the student's path where that is not the file itself.

    >>> files = [(PurePath(f"{name}.ipynb"), Submission(name)) for name in ("ada/00", "ada/01")]
    >>> _, one = as_one(PurePath("ada"), files)
    >>> one.name, one.notes
    ('ada', ('2 files: 00.ipynb, 01.ipynb',))
    >>> as_one(PurePath("bob.ipynb"), [(PurePath("bob.ipynb"), Submission("bob"))])[1].notes
    ()
    """
    return files[0] if len(files) == 1 and files[0][0] == student else merged(student, files)


def merged(folder: PurePath, files: Sequence[SubmittedFile]) -> SubmittedFile:
    """The files of one folder as one submission: all their answers, and notes that say which file they are about."""
    parts = [(clean(path.name), one) for path, one in files]
    broken = [f"{file} {one.problem}" for file, one in parts if one.problem]
    notes = [f"{len(parts)} files: {', '.join(file for file, _ in parts)}"] if len(parts) > 1 else []
    names = sorted({one.name for path, one in files if one.name != clean(path.with_suffix("").as_posix())})
    if len(names) > 1:
        notes.append(f"reports of different names: {', '.join(names)}; --each-file gives each its own row")
    notes += [f"{file}: {note}" if len(parts) > 1 else note for file, one in parts for note in one.notes]
    answers = _answers(parts)
    readable = [one for _, one in parts if not one.problem]
    submission = Submission(
        name=clean(folder.as_posix()),
        answers={key: tuple(some) for key, some in sorted(answers.items())},
        predictions={key: guess for one in reversed(readable) for key, guess in one.predictions.items()},
        notes=tuple(notes + [f"the file {line}" for line in broken] * bool(readable)),
        places={key: tuple(some.values()) for key, some in sorted(answers.items())},
        history={key: past for one in reversed(readable) for key, past in one.history.items()},
        problem="" if readable else parts[0][1].problem if len(parts) == 1 else "; ".join(broken),
        times={key: tuple(_earliest(files, key, answer) for answer in some) for key, some in sorted(answers.items())},
    )
    in_it = all(path.is_relative_to(folder) for path, _ in files)
    return (folder if in_it and len(files) > 1 else files[0][0]), submission


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
                known = found.setdefault(key, {})
                known[answer] = known.pop(answer, f"{file}, {place}" if len(parts) > 1 else place)
    return found
