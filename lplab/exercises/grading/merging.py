"""Merge the files of a student: those in one folder below that of the class, or those that have one owner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import PurePath

from lplab.exercises.grading.submissions import Submission, clean
from lplab.exercises.isolation.answers import Answer

SubmittedFile = tuple[PurePath, Submission]  # path from the folder of the class, and the contents


def by_group(files: Iterable[tuple[PurePath, SubmittedFile]]) -> list[tuple[PurePath, SubmittedFile]]:
    """One submission for each group of files, named by the group where that is not the file itself.

    >>> files = [(PurePath(f"{name}.ipynb"), Submission(name)) for name in ("bob", "ada/00", "ada/01")]
    >>> groups = [PurePath("bob.ipynb"), PurePath("ada"), PurePath("ada")]
    >>> [(one.name, one.notes) for _, (_, one) in by_group(zip(groups, files, strict=True))]
    [('ada', ('2 files: 00.ipynb, 01.ipynb',)), ('bob', ())]
    """
    ordered = sorted(files, key=lambda entry: (entry[0].parts, entry[1][0].parts))
    groups: list[tuple[PurePath, SubmittedFile]] = []
    for group, entries in groupby(ordered, key=lambda entry: entry[0]):
        members = [pair for _, pair in entries]
        alone = len(members) == 1 and members[0][0] == group
        groups.append((group, members[0] if alone else merged(group, members)))
    return groups


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
    """All different answers by exercise, each with the file and the place in it where it was found first."""
    found: dict[str, dict[Answer, str]] = {}
    for file, one in parts:
        for key, some in one.answers.items():
            for answer, place in zip(some, one.places[key], strict=True):
                found.setdefault(key, {}).setdefault(answer, f"{file}, {place}" if len(parts) > 1 else place)
    return found
