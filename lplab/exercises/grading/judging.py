"""Judge all answers of a class, several at a time, so that no student's answers delay or end those of the others.

Equal sources are judged once. What one student can make the others wait for is bounded: so many answers to an
exercise, so many seconds of answers that do not end. Which answers are left out depends on the student's own files
alone, not on those of others, and not on how many are judged at the same time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace

from tqdm import tqdm

from lplab.exercises.checks.judge import Judge, judge
from lplab.exercises.checks.verdict import FAILED, NOT_JUDGED, Verdict
from lplab.exercises.grading.journal import Journal, Task
from lplab.exercises.grading.submissions import clean
from lplab.exercises.grading.workers import Workers
from lplab.exercises.model import exercise_catalogue
from lplab.exercises.model.exercise import STAGES, Exercise

MAX_ANSWERS = 10  # of one student to one exercise; the last ones are judged
MAX_RECIPES = 3  # of one student that are scored, the last ones: each takes a training
MAX_SECONDS = 100  # of one student's answers that were stopped after their time: 20 endless loops, 5 that wait
AHEAD = 2  # answers handed out for each that is judged at the same time, so that nobody waits for work
TOO_MANY = "More than {0} answers to this exercise were handed in; the last {0} were run."
TOO_LONG = f"Answers to the exercises before it took more than {MAX_SECONDS} s and did not end."
STOPPED = re.compile(r"Stopped after ([\d.]+) s")  # the second line of a verdict; see isolation/run.py


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
    judging = _Judging(workers, journal, judged_by)
    with tqdm(total=total, initial=min(len(journal), total), desc="judging", disable=None) as bar:
        try:
            for task in judging.unknown(work):
                judging.hand_out(task)
                while len(judging.running) >= AHEAD * workers.count:
                    bar.update(judging.collect())
            while judging.running:
                bar.update(judging.collect())
        except BaseException:  # as of Ctrl-C: what has begun is finished, and what is finished is kept
            judging.stop()
            raise
    for task in judging.failed:
        journal.add(task, _retry(task, workers, judged_by))
        journal.commit()
    return judging.count


class _Judging:
    """What the workers have now.

    Args:
        workers, journal, judged_by: as `judge_all` was told.
    """

    def __init__(self, workers: Workers, journal: Journal, judged_by: Judge) -> None:
        self.workers, self.journal, self.judged_by = workers, journal, judged_by
        self.running: dict[Future[Verdict], Task] = {}
        self.failed: dict[Task, None] = {}
        self.count = 0  # of answers that were handed out
        self._seconds: dict[Task, float] = {}  # of answers that did not end, of the student whose turn it is

    def unknown(self, work: Iterable[Sequence[Task]]) -> Iterator[Task]:
        """The tasks to judge: neither known nor handed out nor left out, as far as that is known by then."""
        for some in work:
            tasks = list(dict.fromkeys(some))
            too_many = _too_many(tasks)
            tasks = [task for task in tasks if task not in too_many]  # their seconds do not count, see verdicts_of
            self._seconds.clear()
            for place, task in enumerate(tasks):
                if task in self.failed or task in self.running.values():
                    continue
                if self._seconds and sum(self._seconds.get(one, 0.0) for one in tasks[:place]) > MAX_SECONDS:
                    break
                known = self.journal.get(task)
                if known is None:
                    yield task
                else:
                    self._note(task, known)

    def hand_out(self, task: Task) -> None:
        """Have a worker judge it."""
        self.running[self.workers.pool_for(task[0]).submit(_judge, self.judged_by, task)] = task
        self.count += 1

    def collect(self) -> int:
        """Wait for the next verdicts and write them down; how many there are."""
        done, _ = wait(self.running, return_when=FIRST_COMPLETED)
        self._write_down(done)
        return len(done)

    def stop(self) -> None:
        """Take back what has not begun, wait for the rest and write it down."""
        begun = [future for future in self.running if not future.cancel()]
        wait(begun)
        self._write_down(begun)

    def _write_down(self, done: Iterable[Future[Verdict]]) -> None:
        """Note and commit all these verdicts; then raise what is no Exception, such as a KeyboardInterrupt."""
        stopped: BaseException | None = None
        for future in done:
            task, problem = self.running.pop(future), future.exception()
            if problem is None:
                self.journal.add(task, future.result())
                self._note(task, future.result())
            elif isinstance(problem, Exception):
                self.failed[task] = None
            else:
                stopped = problem
        self.journal.commit()
        if stopped is not None:
            raise stopped

    def _note(self, task: Task, verdict: Verdict) -> None:
        if stopped := _stopped_after(verdict):
            self._seconds[task] = stopped


def verdicts_of(tasks: Sequence[Task], journal: Journal) -> dict[Task, Verdict]:
    """The verdicts on the answers of one student, all judged or left out since they take too much.

    >>> from lplab.exercises.isolation.answers import Answer
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
            found[task] = _left_out(exercise_catalogue.get(task[0]), TOO_MANY.format(most_answers(task[0])))
        elif seconds > MAX_SECONDS:
            found[task] = _left_out(exercise_catalogue.get(task[0]), TOO_LONG)
        else:
            verdict = journal.get(task)
            assert verdict is not None, "judge_all has judged all that is not left out"
            seconds += _stopped_after(verdict)
            found[task] = verdict
    return found


def _judge(judged_by: Judge, task: Task) -> Verdict:
    """What a worker does; what marks do not need stays there."""
    return replace(judged_by(exercise_catalogue.get(task[0]), task[1]), counterexample=None, printed="", seconds=0.0)


def _retry(task: Task, workers: Workers, judged_by: Judge) -> Verdict:
    """A second try, alone: the machine may have been out of memory or processes."""
    exercise = exercise_catalogue.get(task[0])
    try:
        return workers.pool_for(task[0]).submit(_judge, judged_by, task).result()
    except Exception as error:  # one answer must not stop a class
        line = f"lplab could not judge this answer; please report it: {type(error).__name__}: {clean(str(error))}"
        return Verdict(exercise.id, exercise.version, exercise.title, NOT_JUDGED, "", (line,), 0, exercise.points)


# ---- what one student can make the others wait for -------------------------------------------------------------------


def most_answers(exercise: str) -> int:
    """How many answers of one student to an exercise are judged: the last ones, of all files.

    >>> most_answers("01.2"), most_answers("14.4")
    (10, 3)
    """
    return MAX_RECIPES if exercise in exercise_catalogue.CAPSTONES else MAX_ANSWERS


def _too_many(tasks: Sequence[Task]) -> set[Task]:
    """The answers of one student before the last ones that are judged."""
    by_exercise: Mapping[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_exercise[task[0]].append(task)
    return {task for exercise, some in by_exercise.items() for task in some[: -most_answers(exercise)]}


def _stopped_after(verdict: Verdict) -> float:
    """The seconds after which an answer was stopped: its limit, which does not depend on how busy the machine is."""
    match = STOPPED.match(verdict.lines[1] if len(verdict.lines) > 1 else "")
    return float(match[1]) if match else 0.0


def _left_out(exercise: Exercise, reason: str) -> Verdict:
    lines = (f"Exercise {exercise.id}: this answer was not run.", reason)
    return Verdict(exercise.id, exercise.version, exercise.title, FAILED, STAGES[0], lines, 0, exercise.points)
