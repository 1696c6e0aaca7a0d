"""Merge the files of a student: those in one folder below that of the class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath

from lplab.exercises.grading.submissions import Submission, clean
from lplab.exercises.isolation.answers import Answer

SubmittedFile = tuple[PurePath, Submission]  # path from the folder of the class, and the contents


def by_folder(files: Iterable[SubmittedFile]) -> list[SubmittedFile]:
    """One submission for each folder below that of the class, named by it; files beside those folders stay as they are.

    >>> files = [(PurePath(f"{name}.ipynb"), Submission(name)) for name in ("bob", "ada/00", "ada/01")]
    >>> [(one.name, one.notes) for _, one in by_folder(files)]
    [('ada', ('2 files: 00.ipynb, 01.ipynb',)), ('bob', ())]
    """
    merged_files: list[SubmittedFile] = []
    ordered = sorted(files, key=lambda pair: (pair[0].parent.parts, pair[0].name))
    for folder, group in groupby(ordered, key=lambda pair: pair[0].parent):
        members = list(group)
        merged_files += [merged(folder, members)] if folder.parts else members
    return sorted(merged_files, key=lambda pair: pair[0].parts)


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
    )
    return (files[0][0] if len(files) == 1 else folder), submission


def _answers(parts: Sequence[tuple[str, Submission]]) -> Mapping[str, dict[Answer, str]]:
    """All different answers by exercise, each with the file and the place in it where it was found first."""
    found: dict[str, dict[Answer, str]] = {}
    for file, one in parts:
        for key, some in one.answers.items():
            for answer, place in zip(some, one.places[key], strict=True):
                found.setdefault(key, {}).setdefault(answer, f"{file}, {place}" if len(parts) > 1 else place)
    return found
