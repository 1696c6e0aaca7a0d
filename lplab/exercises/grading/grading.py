"""A whole class at once: every answer of every file is judged in a fresh process, several at a time.

Marks depend on nothing but the files: equal sources are judged once, results are assigned by name, and the time limit
counts the computing of each answer alone.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tqdm import tqdm

from lplab.exercises.capstone.exercise import CapstoneJudge, judge_of
from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.grading.journal import Journal
from lplab.exercises.grading.judging import Judge, Task, judge_all
from lplab.exercises.grading.marks import MISSING, Class, Mark, Similar, Student, mark_of
from lplab.exercises.grading.merging import SubmittedFile, by_group
from lplab.exercises.grading.owners import Owners, leads_outside
from lplab.exercises.grading.roster import Roster
from lplab.exercises.grading.similar import alike
from lplab.exercises.grading.submissions import Submission, clean, read_submission
from lplab.exercises.grading.weights import Weights
from lplab.exercises.isolation import fences, why_no_process
from lplab.exercises.model import catalogue
from lplab.exercises.model.exercise import STAGES, Exercise

READ = (".ipynb", ".json")
REFUSED = (".py", ".pdf", ".html", ".htm", ".docx", ".zip", ".gz", ".tgz", ".tar", ".7z", ".rar")  # a row says why
SKIPPED = ("__MACOSX", "__pycache__")


def grade(
    folder: str | os.PathLike[str],
    labs: Sequence[str] = (),
    *,
    jobs: int | None = None,
    all_or_nothing: bool = False,
    each_file: bool = False,
    leave_out: Path | None = None,
    judged_by: Judge = judge,
    roster: Roster | None = None,
    weights: Weights | None = None,
    names: str = "",
    one_student: bool = False,
    similar: bool = False,
    journal: Path | None = None,
    capstone_seeds: Sequence[int] = (),
    capstone_judge: Callable[[Judge, Sequence[int], int], CapstoneJudge | None] = judge_of,
) -> Class:
    """Grade all notebooks and reports in a folder and the folders in it.

    Args:
        folder: of the class.
        labs: such as ["01", "02"]; by default those with an answer in some file.
        jobs: answers judged at the same time; by default one for each processor. Marks do not depend on it.
        all_or_nothing: only a pass gives points.
        each_file: every file is one student; by default the files in a folder below that of the class are one student.
        leave_out: a folder that is not searched, where the marks go.
        judged_by: judges one answer.
        roster: of the class; students without a submission are in the marks, too.
        weights: which exercises count, for how many points, until when.
        names: a pattern for paths: see `Owners`.
        one_student: all files are of one student.
        similar: look for answers that are alike, between students and with the solutions.
        journal: a file that keeps the verdicts while it goes on, and gives those of a grading that was killed.
        capstone_seeds: the seeds that recipes of the capstone are scored with; by default those held back.
        capstone_judge: makes the judge of the capstone; it is called where somebody handed in a recipe. If it makes
            none, ``judged_by`` judges recipes, too.

    Raises:
        OSError: the journal cannot be written.
        RuntimeError: there are no processes here; a class is never graded without a fence.
        ValueError: the folder or a lab does not exist, there is nothing to grade, a file of metadata or a pattern is
            not as it must be.
    """
    if judged_by is judge and (reason := why_no_process()):
        raise RuntimeError(f"grading runs every answer in a process of its own, behind a fence: {reason}")
    folder = Path(folder)
    if roster and each_file:
        raise ValueError("with a roster each student has one row: leave --each-file out")
    weights = weights or Weights()
    wanted = [exercise for lab in dict.fromkeys(labs) for exercise in catalogue.graded(lab)]
    files = list(find_files(folder, leave_out))
    owners = Owners(folder, names)
    read = [_owned(path, folder, owners, roster) for path in tqdm(files, "reading", disable=None)]
    if each_file or one_student:
        read = [replace(one, group=PurePath(folder.name) if one_student else one.file[0]) for one in read]
    grouped = by_group((one.group, one.file) for one in read)
    owned = {one.group: one for one in read}
    submitted = [file for _, file in grouped]
    if not labs and weights.points:
        wanted = [catalogue.get(key) for key in (*catalogue.names(), catalogue.CAPSTONE) if key in weights.points]
    elif not labs:
        seen = {exercise[:2] for _, submission in submitted for exercise in submission.answers}
        wanted = [exercise for lab in sorted(seen) for exercise in catalogue.graded(lab)]
    if weights.points:
        wanted = [exercise for exercise in wanted if exercise.id in weights.points]
        if not wanted:
            raise ValueError(f"no exercise of these labs has points; the weights name {', '.join(weights.points)}")
    ids = {exercise.id for exercise in wanted}
    work = [[(key, answer) for key in sorted(ids & set(one.answers)) for answer in one.answers[key]]
            for _, one in submitted]  # fmt: skip
    capstone = None
    if any(key == catalogue.CAPSTONE for some in work for key, _ in some):
        capstone = capstone_judge(judged_by, capstone_seeds, jobs or os.cpu_count() or 1)
        judged_by = capstone or judged_by
    verdicts = judge_all(work, jobs or os.cpu_count() or 1, judged_by, Journal(journal))
    students = [
        _known(_student(str(path), one, wanted, verdicts, all_or_nothing, weights), owned[group], roster)
        for group, (path, one) in grouped
    ]
    pairs = _alike(wanted, submitted, students) if similar else None
    students += _absent(students, roster, wanted)
    students.sort(key=lambda student: (student.name.casefold(), student.name, student.file))
    return Class(
        tuple(wanted),
        tuple(_distinct(students)),
        all_or_nothing,
        len(files),
        each_file,
        weights,
        roster,
        pairs,
        fences.summary(),
        capstone,
    )


def find_files(folder: Path, leave_out: Path | None = None) -> Iterator[Path]:
    """The files that students may have handed in, sorted; hidden ones and ``leave_out`` apart. ValueError if none."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    away = leave_out.resolve() if leave_out else None
    found = []
    for place, folders, names in os.walk(folder):
        named = [name for name in folders if name.lower().endswith(READ)]  # a folder that looks like a notebook
        folders[:] = [name for name in folders if _is_shown(name) and Path(place, name).resolve() != away]
        found += [Path(place, name) for name in [*names, *named] if _is_shown(name)]
    read = {path for path in found if path.suffix.lower() in READ}
    beside = {path.with_suffix("") for path in read}
    refused = {path for path in found if path.suffix.lower() in REFUSED and path.with_suffix("") not in beside}
    if not read | refused:
        raise ValueError(f"there is no notebook (.ipynb) and no report (.json) in {folder}")
    return iter(sorted(read | refused))


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and name not in SKIPPED


@dataclass(frozen=True)
class _OwnedFile:
    """One file: the group of its student, the name that the system gives, the place in the roster."""

    group: PurePath
    file: SubmittedFile
    name: str = ""
    place: int | None = None


def _owned(path: Path, folder: Path, owners: Owners, roster: Roster | None) -> _OwnedFile:
    """Read one file. What a report says of its name counts for the roster only where no system named the path."""
    found, inside = _read(path, folder), path.relative_to(folder)
    owner = owners.of(inside)
    is_report = not owner.name and found.name != clean(inside.with_suffix("").as_posix())
    place = roster.find((*owner.keys, *[found.name] * is_report)) if roster else None
    time, group = owner.time, owner.group
    if roster and place is not None:
        time, group = time or roster.students[place].submitted, PurePath(f"roster row {place:06}")
    notes = found.notes + ("marked as late; when it was handed in is not known",) * owner.late
    if owner.others:
        notes += (f"handed in together with {', '.join(owner.others)}, who have no marks of their own here",)
    times = {key: (time,) * len(some) for key, some in found.answers.items()} if time else {}
    return _OwnedFile(group, (inside, replace(found, notes=notes, times=times)), owner.name, place)


def _known(student: Student, owned: _OwnedFile, roster: Roster | None) -> Student:
    """The student with the name that the system gives, and with what the roster says."""
    student = replace(student, name=owned.name or student.name)
    if roster is None:
        return student
    if owned.place is None:
        return replace(student, notes=(*student.notes, "not in the roster"))
    known = roster.students[owned.place]
    return replace(student, name=clean(known.name), id=clean(known.id), email=clean(known.email), place=owned.place)


def _alike(
    exercises: Sequence[Exercise], submitted: Sequence[SubmittedFile], students: Sequence[Student]
) -> tuple[Similar, ...]:
    """Answers that are alike, with the names and files of their students."""
    return tuple(
        Similar(one, tuple((students[place].name, students[place].file) for place in one.students))
        for exercise in exercises
        for one in alike(exercise, [submission.answers.get(exercise.id, ()) for _, submission in submitted])
    )


def _absent(students: Sequence[Student], roster: Roster | None, exercises: Sequence[Exercise]) -> list[Student]:
    """Those of the roster of whom there is no submission."""
    there = {student.place for student in students}
    blank = {exercise.id: Mark(exercise.id) for exercise in exercises}
    return [
        Student(clean(known.name), "", blank, id=clean(known.id), email=clean(known.email), place=place, absent=True)
        for place, known in enumerate(roster.students if roster else ())
        if place not in there
    ]


def _read(path: Path, folder: Path) -> Submission:
    if leads_outside(path, folder):
        name = clean(path.relative_to(folder).with_suffix("").as_posix())
        return Submission(name, problem="is a link that leaves the student's own folder")
    found = read_submission(path, folder)
    if path.suffix.lower() in READ or "unpack" in found.problem or not found.problem:
        return found
    return Submission(found.name, problem=f"is a {path.suffix.lower()} file; hand in the notebook or the report")


# ---- from verdicts to marks ------------------------------------------------------------------------------------------


def _student(
    file: str,
    one: Submission,
    exercises: Sequence[Exercise],
    verdicts: Mapping[Task, Verdict],
    all_or_nothing: bool,
    weights: Weights,
) -> Student:
    marks, notes = {}, list(one.notes)
    for exercise in exercises:
        answers = one.answers.get(exercise.id, ())
        marks[exercise.id] = Mark(exercise.id)
        if answers:
            times = one.times.get(exercise.id, (None,) * len(answers))
            kept = [weights.share_left(exercise.id, time) for time in times]
            best = max(range(len(answers)), key=lambda i: _rank(verdicts[exercise.id, answers[i]], kept[i]))
            where = one.places[exercise.id][best]
            mark = mark_of(verdicts[exercise.id, answers[best]], where, all_or_nothing)
            marks[exercise.id] = _weighed(mark, exercise, weights, kept[best])
            if days := weights.days_late(exercise.id, times[best]):
                late = f"{days} day{'s' * (days > 1)} late, {1 - kept[best]:.0%} of its points taken off"
                notes.append(f"{exercise.id}: {late}")
            elif times[best] is None and (exercise.id in weights.deadlines or exercise.lab in weights.deadlines):
                notes.append(f"{exercise.id}: not known when it was handed in; nothing was taken off")
            if len({_rank(verdicts[exercise.id, answer]) for answer in answers}) > 1:  # else it does not matter which
                notes.append(f"{exercise.id}: the best of {len(answers)} answers ({where})")
        checked = one.history.get(exercise.id, {}).get("version")
        if checked and checked != exercise.version:
            notes.append(f"{exercise.id}: checked with version {checked}, graded with version {exercise.version}")
    if not one.problem and exercises and all(mark.status == MISSING for mark in marks.values()):
        notes.append("no answer to an exercise that is graded")
    path = clean(file.replace(os.sep, "/"), 300)
    return Student(one.name, path, marks, tuple(notes), one.problem, one.predictions, one.history)


def _weighed(mark: Mark, exercise: Exercise, weights: Weights, kept: float) -> Mark:
    """The mark with the points of the weights, and what lateness left of them."""
    share = weights.points.get(exercise.id, exercise.points) / exercise.points * kept
    return mark if share == 1 else replace(mark, points=round(mark.points * share, 2))


def _rank(verdict: Verdict, kept: float = 1.0) -> tuple[float, ...]:
    """The better of two answers has more points left, then the later stage, then a larger share right in it."""
    stage = STAGES.index(verdict.ring) if verdict.ring in STAGES else -1
    return kept * verdict.points, verdict.passed, verdict.points, stage, verdict.right / max(verdict.total, 1)


def _distinct(students: Sequence[Student]) -> Iterator[Student]:
    """Append the id, or the file where there is none, to names that occur more than once."""
    count = Counter(student.name.casefold() for student in students)
    for student in students:
        if count[student.name.casefold()] > 1:
            yield replace(student, name=f"{student.name} ({student.id or student.file})")
        else:
            yield student
