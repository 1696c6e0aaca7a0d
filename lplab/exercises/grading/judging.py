"""Judge all answers of a class, several at a time, so that no student's answers delay or end those of the others.

Equal sources are judged once. What one student can make the others wait for is bounded: so many answers to an
exercise, so many seconds of answers that do not end. Which answers are left out depends on the student's own files
alone, not on those of others, and not on how many are judged at the same time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace

from tqdm import tqdm

from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import FAILED, Verdict
from lplab.exercises.grading.journal import Journal, Task
from lplab.exercises.grading.marks import NOT_JUDGED
from lplab.exercises.grading.submissions import clean
from lplab.exercises.grading.workers import Workers
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import catalogue
from lplab.exercises.model.exercise import STAGES, Exercise

MAX_ANSWERS = 10  # of one student to one exercise; the last ones are judged
MAX_SECONDS = 100  # of one student's answers that were stopped after their time: 20 endless loops, 5 that wait
AHEAD = 2  # answers handed out for each that is judged at the same time, so that nobody waits for work
TOO_MANY = f"More than {MAX_ANSWERS} answers to this exercise were handed in; the last {MAX_ANSWERS} were run."
TOO_LONG = f"Answers to the exercises before it took more than {MAX_SECONDS} s and did not end."
STOPPED = re.compile(r"Stopped after ([\d.]+) s")  # the second line of a verdict; see isolation/run.py

Judge = Callable[[Exercise, Answer], Verdict]


def judge_all(
    work: Iterable[Sequence[Task]], workers: Workers, journal: Journal, judged_by: Judge = judge, total: int = 0
) -> int:
    """Judge what the journal does not know, and write it there; how many answers were judged.

    An answer that fails twice gets the status `NOT_JUDGED`. No more of the work is held at a time than is judged.

    Args:
        work: for each student the tasks, in the order in which they count against the student's limits.
        workers: judge them.
        journal: what an earlier run has judged already; new verdicts are added to it.
        judged_by: judges one answer.
        total: how many different answers there are, for the bar.
    """
    running: dict[Future[Verdict], Task] = {}
    failed: dict[Task, None] = {}
    seconds: dict[Task, float] = {}  # of answers that were stopped, of the students whose answers are handed out
    judged = 0
    with tqdm(total=total, initial=min(len(journal), total), desc="judging", disable=None) as bar:

        def collect() -> None:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                task, problem = running.pop(future), future.exception()
                if isinstance(problem, Exception):
                    failed[task] = None
                    continue
                journal.add(task, future.result())
                if stopped := _stopped_after(future.result()):
                    seconds[task] = stopped
                bar.update()

        try:
            for task in _unknown(work, journal, seconds, lambda task: task in running.values() or task in failed):
                running[workers.pool.submit(_judge, judged_by, task)] = task
                judged += 1
                while len(running) >= AHEAD * workers.count:
                    collect()
            while running:
                collect()
        finally:
            journal.commit()
    for task in failed:
        journal.add(task, _retry(task, workers, judged_by))
    journal.commit()
    return judged


def _unknown(
    work: Iterable[Sequence[Task]], journal: Journal, seconds: dict[Task, float], is_taken: Callable[[Task], bool]
) -> Iterator[Task]:
    """The tasks to judge: neither known nor taken nor left out, as far as that is known by then."""
    for some in work:
        tasks = list(dict.fromkeys(some))
        too_many = _too_many(tasks)
        seconds.clear()
        for place, task in enumerate(tasks):
            if task in too_many or is_taken(task):
                continue
            if seconds and sum(seconds.get(one, 0.0) for one in tasks[:place]) > MAX_SECONDS:
                break
            known = journal.get(task)
            if known is None:
                yield task
            elif stopped := _stopped_after(known):
                seconds[task] = stopped


def verdicts_of(tasks: Sequence[Task], journal: Journal) -> dict[Task, Verdict]:
    """The verdicts on the answers of one student, all judged or left out since they take too much.

    >>> task = ("01.2", Answer("def f(x): pass", "f"))
    >>> journal = Journal(None)
    >>> journal.add(task, Verdict("01.2", 1, "Title", "failed", "form", ("It is wrong.",), 0, 6))
    >>> verdicts_of([task], journal)[task].status
    'failed'
    """
    tasks = list(dict.fromkeys(tasks))
    too_many, seconds, found = _too_many(tasks), 0.0, {}
    for task in tasks:
        if task in too_many:
            reason = (
                f"More than {MAX_ANSWERS} answers to this exercise were handed in; the last {MAX_ANSWERS} were run."
            )
            found[task] = _left_out(catalogue.get(task[0]), reason)
        elif seconds > MAX_SECONDS:
            reason = f"Answers to the exercises before it took more than {MAX_SECONDS} s and did not end."
            found[task] = _left_out(catalogue.get(task[0]), reason)
        else:
            verdict = journal.get(task)
            assert verdict is not None, "judge_all has judged all that is not left out"
            seconds += _stopped_after(verdict)
            found[task] = verdict
    return found


def _judge(judged_by: Judge, task: Task) -> Verdict:
    """What a worker does; the counterexample, which marks do not need, stays there."""
    return replace(judged_by(catalogue.get(task[0]), task[1]), counterexample=None)


def _retry(task: Task, workers: Workers, judged_by: Judge) -> Verdict:
    """A second try, alone: the machine may have been out of memory or processes."""
    exercise = catalogue.get(task[0])
    try:
        return workers.pool.submit(_judge, judged_by, task).result()
    except Exception as error:  # one answer must not stop a class
        line = f"lplab could not judge this answer; please report it: {type(error).__name__}: {clean(str(error))}"
        return Verdict(exercise.id, exercise.version, exercise.title, NOT_JUDGED, "", (line,), 0, exercise.points)


# ---- what one student can make the others wait for -------------------------------------------------------------------


def _too_many(tasks: Sequence[Task]) -> set[Task]:
    """The answers of one student before the last ten to an exercise."""
    by_exercise: Mapping[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_exercise[task[0]].append(task)
    return {task for some in by_exercise.values() for task in some[:-MAX_ANSWERS]}


def _stopped_after(verdict: Verdict) -> float:
    """The seconds after which an answer was stopped: its limit, which does not depend on how busy the machine is."""
    found = STOPPED.match(verdict.lines[1] if len(verdict.lines) > 1 else "")
    return float(found[1]) if found else 0.0


def _left_out(exercise: Exercise, reason: str) -> Verdict:
    lines = (f"Exercise {exercise.id}: this answer was not run.", reason)
    return Verdict(exercise.id, exercise.version, exercise.title, FAILED, STAGES[0], lines, 0, exercise.points)
