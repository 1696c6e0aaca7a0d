"""Judge all answers of a class, several at a time, so that no student's answers delay or end those of the others.

Equal sources are judged once. What one student can make the others wait for is bounded: so many answers to an
exercise, so many seconds of answers that do not end. Which answers are left out depends on the files alone, not on
how many are judged at the same time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from tqdm import tqdm

from lplab.exercises.checks.judge import judge
from lplab.exercises.checks.verdict import FAILED, Verdict
from lplab.exercises.grading.journal import Journal
from lplab.exercises.grading.marks import NOT_JUDGED
from lplab.exercises.grading.submissions import clean
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import catalogue
from lplab.exercises.model.exercise import STAGES, Exercise

MAX_ANSWERS = 10  # of one student to one exercise; the last ones are judged
MAX_SECONDS = 100  # of one student's answers that were stopped after their time: 20 endless loops, 5 that wait
STOPPED = re.compile(r"Stopped after ([\d.]+) s")  # the second line of a verdict; see isolation/run.py

Judge = Callable[[Exercise, Answer], Verdict]
Task = tuple[str, Answer]


def judge_all(
    work: Sequence[Sequence[Task]], jobs: int, judged_by: Judge = judge, journal: Journal | None = None
) -> dict[Task, Verdict]:
    """The verdict on each task; one that fails twice has the status `NOT_JUDGED`.

    Args:
        work: for each student the tasks, in the order in which they count against the student's limits.
        jobs: how many are judged at the same time.
        judged_by: judges one answer.
        journal: what an earlier run has judged already; new verdicts are added to it.
    """
    limits = StudentLimits(work)
    journal = journal or Journal(None)

    def judged(task: Task) -> Verdict:
        exercise = catalogue.get(task[0])
        if reason := limits.reason(task):
            return _left_out(exercise, reason)
        verdict = journal.get(task) or judged_by(exercise, task[1])
        limits.add(task, verdict)
        journal.add(task, verdict)
        return verdict

    verdicts: dict[Task, Verdict] = {}
    failed = []
    with ThreadPoolExecutor(jobs) as pool, tqdm(total=len(limits.owners), desc="judging", disable=None) as bar:
        futures = {pool.submit(judged, task): task for task in limits.owners}
        try:
            for future in as_completed(futures):
                bar.update()
                task = futures[future]
                if future.exception() is None:
                    verdicts[task] = future.result()
                else:
                    failed.append(task)
        except BaseException:  # Ctrl-C: those that have not begun need not begin
            pool.shutdown(cancel_futures=True)
            raise
    verdicts |= {task: _retry(task, judged_by) for task in failed}
    # Some may have been judged before it was known that their students' time was up.
    late = {task: reason for task in limits.owners if (reason := limits.reason(task))}
    return verdicts | {task: _left_out(catalogue.get(task[0]), reason) for task, reason in late.items()}


def _retry(task: Task, judged_by: Judge) -> Verdict:
    """A second try, alone: the machine may have been out of memory or processes."""
    exercise = catalogue.get(task[0])
    try:
        return judged_by(exercise, task[1])
    except Exception as error:  # one answer must not stop a class
        line = f"lplab could not judge this answer; please report it: {type(error).__name__}: {clean(str(error))}"
        return Verdict(exercise.id, exercise.version, exercise.title, NOT_JUDGED, "", (line,), 0, exercise.points)


def _left_out(exercise: Exercise, reason: str) -> Verdict:
    lines = (f"Exercise {exercise.id}: this answer was not run.", reason)
    return Verdict(exercise.id, exercise.version, exercise.title, FAILED, STAGES[0], lines, 0, exercise.points)


class StudentLimits:
    """Which answers are not run, since their students' other answers take too much. All owners of one must agree."""

    def __init__(self, work: Sequence[Sequence[Task]]) -> None:
        self.work = [list(dict.fromkeys(tasks)) for tasks in work]
        self.owners: dict[Task, list[int]] = defaultdict(list)
        self._many: list[set[Task]] = []
        self._seconds: dict[Task, float] = {}
        self._slow: set[int] = set()  # students with such answers
        for number, tasks in enumerate(self.work):
            by_exercise: dict[str, list[Task]] = defaultdict(list)
            for task in tasks:
                self.owners[task].append(number)
                by_exercise[task[0]].append(task)
            self._many.append({task for some in by_exercise.values() for task in some[:-MAX_ANSWERS]})

    def add(self, task: Task, verdict: Verdict) -> None:
        """Count what a task took, if it was stopped: its limit, which does not depend on how busy the machine is."""
        if found := STOPPED.match(verdict.lines[1] if len(verdict.lines) > 1 else ""):
            self._seconds[task] = float(found[1])
            self._slow.update(self.owners[task])

    def reason(self, task: Task) -> str:
        """Why no owner of this answer has it run; "" if it is run."""
        if all(task in self._many[number] for number in self.owners[task]):
            return f"More than {MAX_ANSWERS} answers to this exercise were handed in; the last {MAX_ANSWERS} were run."
        if all(task in self._many[number] or self._is_over(number, task) for number in self.owners[task]):
            return f"Answers to the exercises before it took more than {MAX_SECONDS} s and did not end."
        return ""

    def _is_over(self, number: int, task: Task) -> bool:
        if number not in self._slow:
            return False
        tasks = self.work[number]
        return sum(self._seconds.get(one, 0.0) for one in tasks[: tasks.index(task)]) > MAX_SECONDS
