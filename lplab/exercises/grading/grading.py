"""A whole class at once: every answer of every file is judged in a fresh process, several at a time.

Marks depend on nothing but the files: equal sources are judged once, results are assigned by name, and the time limit
counts the computing of each answer alone.
"""

from __future__ import annotations

import ast
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from tqdm import tqdm

from lplab.exercises.capstone.capstone_exercise import CapstoneJudge, judge_of
from lplab.exercises.capstone.capstone_value import Capstone
from lplab.exercises.capstone.scores import HELD_BACK_SEEDS
from lplab.exercises.checks.judge import Judge, judge
from lplab.exercises.checks.verdict import NOT_JUDGED, NOT_YET, Verdict
from lplab.exercises.grading.class_on_disk import ClassOnDisk, OwnedFile, Students
from lplab.exercises.grading.handed_in import HandedIn, find_files
from lplab.exercises.grading.journal import Journal, Task
from lplab.exercises.grading.judging import judge_all, most_answers, verdicts_of
from lplab.exercises.grading.marks import MISSING, Class, Mark, Similar, Student, mark_of
from lplab.exercises.grading.merging import as_one, listed
from lplab.exercises.grading.owners import NOT_CANVAS, Owners, group_of, leads_outside
from lplab.exercises.grading.roster import Roster
from lplab.exercises.grading.similar import alike
from lplab.exercises.grading.submissions import Submission, clean, name_of, read_submission
from lplab.exercises.grading.weights import Weights
from lplab.exercises.grading.workers import dask_workers, threads
from lplab.exercises.isolation import why_no_process
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import STAGES, Exercise


def grade(
    folder: str | os.PathLike[str],
    labs: Sequence[str] = (),
    *,
    jobs: int | None = None,
    scheduler: str = "",
    all_or_nothing: bool = False,
    each_file: bool = False,
    leave_out: Path | Sequence[Path] | None = None,
    judged_by: Judge = judge,
    roster: Roster | None = None,
    weights: Weights | None = None,
    names: str = "",
    one_student: bool = False,
    similar: bool = False,
    journal: Journal | None = None,
    capstone_seeds: Sequence[int] = (),
    capstone_judge: Callable[[Judge, Sequence[int], int, Capstone], CapstoneJudge | None] = judge_of,
) -> Class:
    """Grade all notebooks and reports in a folder and the folders in it.

    Files, answers and marks are kept on disk. What grows with the class in memory is some 2 kB a student for names and
    paths, besides a roster, the guesses in reports, and what ``similar`` finds.

    Args:
        folder: of the class.
        labs: such as ["01", "02"]; by default those with an answer in some file.
        jobs: answers judged at the same time; by default one for each processor. Marks do not depend on it.
        scheduler: of a Dask cluster whose workers judge the answers, recipes apart; "" for this machine.
        all_or_nothing: only a pass gives points.
        each_file: every file is one student; by default the files in a folder below that of the class are one student.
        leave_out: a folder that is not searched, where the marks go, or several such folders and files.
        judged_by: judges one answer.
        roster: of the class; students without a submission are in the marks, too.
        weights: which exercises count, for how many points, until when.
        names: a pattern for paths: see `Owners`.
        one_student: all files are of one student.
        similar: look for answers that are alike, between students and with the solutions.
        journal: keeps the verdicts while it goes on, and gives those of a grading that was killed.
        capstone_seeds: the seeds that recipes of the capstones are scored with; by default those held back.
        capstone_judge: makes the judge of a capstone; it is called where somebody handed in a recipe. If it makes
            none, ``judged_by`` judges recipes, too.

    Raises:
        OSError: the journal cannot be written.
        RuntimeError: there are no processes here; a class is never graded without a fence.
        ValueError: the folder or a lab does not exist, there is nothing to grade, a file of metadata or a pattern is
            not as it must be, no cluster answers.
    """
    if judged_by is judge and (reason := why_no_process()):
        raise RuntimeError(f"grading runs every answer in a process of its own, behind a fence: {reason}")
    if roster and each_file:
        raise ValueError("with a roster each student has one row: leave --each-file out")
    for lab in labs:
        exercise_catalogue.graded(lab)
    folder, weights, jobs = Path(folder), weights or Weights(), jobs or os.cpu_count() or 1
    journal = Journal(None) if journal is None else journal
    with dask_workers(scheduler) if scheduler else threads(jobs) as workers:
        away = [leave_out] if isinstance(leave_out, Path) else leave_out or ()
        on_disk = _read_class(folder, away, Owners(folder, names), roster, each_file, one_student)
        exercises = _exercises(labs, weights, on_disk)
        ids = [exercise.id for exercise in exercises]
        handed_in = {*ids} & {*on_disk.exercises()}
        recipes = [each for each in exercise_catalogue.CAPSTONES if each in handed_in]
        seeds = tuple(capstone_seeds) or HELD_BACK_SEEDS
        capstones: list[CapstoneJudge] = []
        for each in recipes:
            others = capstones[-1] if capstones else judged_by
            made = capstone_judge(others, seeds, jobs, exercise_catalogue.capstone(each))
            capstones += [made] if made else []
        journal.begin(workers.fence, seeds)
        work = (_tasks(one, ids) for *_, one in _submitted(on_disk))
        begun = time.monotonic()
        judged = judge_all(
            work, workers, journal, capstones[-1] if capstones else judged_by, on_disk.different_answers(ids)
        )
        seconds = time.monotonic() - begun
    _mark_class(on_disk, exercises, journal, all_or_nothing, weights, roster, similar)
    return Class(
        tuple(exercises), Students(on_disk, ids), Students(on_disk, ids, only_broken=True), on_disk.marks_of,
        all_or_nothing, on_disk.file_count(), each_file, weights, roster,
        _alike(exercises, on_disk) if similar else None, journal.fence, tuple(capstones), judged, seconds,
        journal.seeds if recipes else (), on_disk.handed_in,
    )  # fmt: skip


def _read_class(
    folder: Path,
    away: Sequence[Path],
    owners: Owners,
    roster: Roster | None,
    each_file: bool,
    one_student: bool,
) -> ClassOnDisk:
    """All files of the class, each with its student; ValueError if there is none."""
    on_disk, count = ClassOnDisk(), sum(1 for _ in find_files(folder, away))
    for found in tqdm(find_files(folder, away), "reading", count, disable=None):
        inside = found.path.relative_to(folder)
        if owners.wrote(inside) or (each_file and found.aside):
            continue
        try:
            file = _owned(found, folder, owners, roster)
        except Exception as error:  # one file must not stop a class
            told = f"cannot be read; please report it: {type(error).__name__}: {clean(str(error))}"
            file = OwnedFile(PurePath(inside.parts[0]), inside, Submission(clean(inside.as_posix()), problem=told))
        if each_file or one_student:
            file = replace(file, student=PurePath(folder.name) if one_student else file.path)
        on_disk.add_file(file)
    return on_disk


def _exercises(labs: Sequence[str], weights: Weights, on_disk: ClassOnDisk) -> list[Exercise]:
    """The exercises that are graded: of these labs, else those with points, else all of the labs that occur."""
    if labs:
        wanted = [exercise for lab in dict.fromkeys(labs) for exercise in exercise_catalogue.graded(lab)]
    elif weights.points:
        wanted = [exercise_catalogue.get(key) for key in (*exercise_catalogue.names(), *exercise_catalogue.CAPSTONES)]
    else:
        seen = {exercise[:2] for exercise in on_disk.exercises()}
        wanted = [exercise for lab in sorted(seen) for exercise in exercise_catalogue.graded(lab)]
    if weights.points:
        wanted = [exercise for exercise in wanted if exercise.id in weights.points]
        if not wanted:
            raise ValueError(f"no exercise of these labs has points; the weights name {', '.join(weights.points)}")
    return wanted


def _submitted(on_disk: ClassOnDisk) -> Iterator[tuple[OwnedFile, PurePath, Submission]]:
    """For each student the last file, which says who it is, and path and contents of all files together."""
    for student, files in on_disk.files():
        path, one = as_one(student, [(file.path, file.submission) for file in files])
        folders = {file.path.parent for file in files if not file.submission.problem}
        outer = PurePath(os.path.commonpath(folders)) if len(folders) > 1 else PurePath()
        if outer not in folders and outer.is_relative_to(student) and not files[-1].name:
            named = listed(sorted({clean(folder.relative_to(outer).parts[0]) for folder in folders}))
            hint = f"if the folders in {clean(outer.as_posix())} are students ({named}), grade that folder itself"
            one = replace(one, notes=(*one.notes, hint))
        yield files[-1], path, one


def _tasks(one: Submission, ids: Sequence[str]) -> list[Task]:
    return [(key, answer) for key in sorted(set(ids) & set(one.answers)) for answer in one.answers[key]]


def _owned(found: HandedIn, folder: Path, owners: Owners, roster: Roster | None) -> OwnedFile:
    """Read one file. Its path alone says whose it is: what a report says of its name, anyone may have written."""
    one, inside = _read(found, folder), found.path.relative_to(folder)
    owner = owners.of(found.owner.relative_to(folder))
    notes = one.notes + ("marked as late; when it was handed in is not known",) * owner.late
    if owner.others:
        notes += (f"handed in together with {', '.join(owner.others)}, who have no marks of their own here",)
    time, group, place = owner.time, owner.group, None
    if roster:
        place, contradiction = roster.place_of(owner)
        if place is None:
            notes += (contradiction,) * bool(contradiction)
            notes += roster.remarks(owner.keys, one.name if one.is_claimed else "")
        else:
            time, group = time or roster.students[place].submitted, group_of("roster", f"{place:06}")
    notes = tuple(note for note in owner.notes if place is None or note != NOT_CANVAS) + notes
    times = {key: (time,) * len(some) for key, some in one.answers.items()} if time else {}
    return OwnedFile(group, inside, replace(one, notes=notes, times=times), owner.name, place)


def _known(student: Student, owned: OwnedFile, roster: Roster | None) -> Student:
    """The student with the name that the system gives, and with what the roster says."""
    student = replace(student, name=owned.name or student.name)
    if roster is None:
        return student
    if owned.place is None:
        return replace(student, notes=(*student.notes, "not in the roster"))
    known = roster.students[owned.place]
    notes = (*student.notes, *map(clean, known.notes))
    return replace(
        student, name=clean(known.name), id=clean(known.id), email=clean(known.email), place=owned.place, notes=notes
    )


def _alike(exercises: Sequence[Exercise], on_disk: ClassOnDisk) -> tuple[Similar, ...]:
    """Answers that are alike, with the names and files of their students.

    Recipes are left out: they are short, and begin with the same published ones.
    """
    return tuple(
        Similar(one, tuple(map(on_disk.who, one.students)))
        for exercise in exercises
        if exercise.id not in exercise_catalogue.CAPSTONES
        for one in alike(exercise, on_disk.answers_to(exercise.id))
    )


def _absent(on_disk: ClassOnDisk, roster: Roster | None, exercises: Sequence[Exercise]) -> list[Student]:
    """Students of the roster of whom there is no submission, and its rows that could not be read."""
    places = on_disk.submitted_places()
    blank = {exercise.id: Mark(exercise.id) for exercise in exercises}
    if roster is None:
        return []
    return [
        Student(
            clean(known.name), "", blank, tuple(map(clean, known.notes)), id=clean(known.id), email=clean(known.email),
            place=place, absent=True,
        )
        for place, known in enumerate(roster.students)
        if place not in places
    ] + [Student(clean(text), "", blank, (clean(note),), absent=True) for text, note in roster.odd]  # fmt: skip


def _read(found: HandedIn, folder: Path) -> Submission:
    name = name_of(found.path.relative_to(folder))
    if found.problem:
        return Submission(name, problem=found.problem, aside=found.aside)
    if leads_outside(found.path, folder):
        return Submission(name, problem="is a link that leaves the student's own folder")
    return read_submission(found.path, folder)


# ---- from verdicts to marks ------------------------------------------------------------------------------------------


def _mark_class(
    on_disk: ClassOnDisk,
    exercises: Sequence[Exercise],
    journal: Journal,
    all_or_nothing: bool,
    weights: Weights,
    roster: Roster | None,
    similar: bool,
) -> None:
    """Keep each student with the marks, then those of the roster who handed in nothing."""
    ids = [exercise.id for exercise in exercises]
    for owned, path, one in _submitted(on_disk):
        verdicts = verdicts_of(_tasks(one, ids), journal)
        student = _student(str(path), one, exercises, verdicts, all_or_nothing, weights)
        is_claimed = one.is_claimed and not owned.name and owned.place is None
        known = _known(student, owned, roster)
        on_disk.add_student(known, one.answers if similar else {}, owned.student, is_claimed)
    for student in _absent(on_disk, roster, exercises):
        on_disk.add_student(student, {})


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
            found = [verdicts[exercise.id, answer] for answer in answers]
            if exercise.is_repair:  # its stub is judged as any answer, and may be better than what a student tried
                found = [
                    replace(verdict, status=NOT_YET, ring="", points=0) if _is_untouched(answer, exercise) else verdict
                    for answer, verdict in zip(answers, found, strict=True)
                ]
            best = max(range(len(answers)), key=lambda i: _rank(found[i], kept[i]))
            where = one.places[exercise.id][best]
            marks[exercise.id] = _weighed(mark_of(found[best], where, all_or_nothing), exercise, weights, kept[best])
            if skipped := found[best].skipped:
                notes.append(f"{exercise.id}: {clean(skipped, 300)}; grading does not run that")
            if days := weights.days_late(exercise.id, times[best]):
                late = f"{days} day{'s' * (days > 1)} late, {1 - kept[best]:.0%} of its points taken off"
                notes.append(f"{exercise.id}: {late}")
            elif times[best] is None and (exercise.id in weights.deadlines or exercise.lab in weights.deadlines):
                notes.append(f"{exercise.id}: not known when it was handed in; nothing was taken off")
            if len(answers) > (most := most_answers(exercise.id)):
                notes.append(f"{exercise.id}: {len(answers)} answers were handed in; the last {most} count")
            if len(set(map(_rank, found))) > 1:  # else it does not matter which
                notes.append(f"{exercise.id}: the best of {len(answers)} answers ({where})")
        checked = one.history.get(exercise.id, {}).get("version")
        if checked and checked != exercise.version:
            notes.append(f"{exercise.id}: checked with version {checked}, graded with version {exercise.version}")
    if unjudged := [key for key, mark in marks.items() if mark.status == NOT_JUDGED]:
        notes.append(f"not judged: {', '.join(unjudged)}")
    if not one.problem and exercises and all(mark.status == MISSING for mark in marks.values()):
        notes.append("no answer to an exercise that is graded")
    path = clean(file.replace(os.sep, "/"), 300)
    return Student(one.name, path, marks, tuple(notes), one.problem, one.predictions, one.history)


def _is_untouched(answer: Answer, exercise: Exercise) -> bool:
    """Whether this is the function to be repaired as the lab gives it, which is no answer."""
    try:
        return ast.dump(ast.parse(answer.source)) == ast.dump(ast.parse(exercise.stub_source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _weighed(mark: Mark, exercise: Exercise, weights: Weights, kept: float) -> Mark:
    """The mark with the points of the weights, and what lateness left of them."""
    share = weights.points.get(exercise.id, exercise.points) / exercise.points * kept
    return mark if share == 1 else replace(mark, points=round(mark.points * share, 2))


def _rank(verdict: Verdict, kept: float = 1.0) -> tuple[float, ...]:
    """The better of two answers has more points left, then the later stage, then a larger share right in it."""
    stage = STAGES.index(verdict.ring) if verdict.ring in STAGES else -1
    return kept * verdict.points, verdict.passed, verdict.points, stage, verdict.right / max(verdict.total, 1)
