"""The check without its child process: trusted sources are called in this process, which is faster. And its marks."""

import json
import tempfile
from pathlib import Path
from typing import Any

from lplab.exercises.checks import judge
from lplab.exercises.checks.verdict import Verdict
from lplab.exercises.grading.marks import Class
from lplab.exercises.grading.marks_files import write_marks
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.isolation.in_process import run_in_process
from lplab.exercises.model.exercise import Exercise


def judge_here(exercise: Exercise, answer: Answer) -> Verdict:
    """The verdict on an answer, by the way that browsers take."""
    return judge.judge(exercise, answer, run=run_in_process)


def marks_object(marks: Class) -> dict[str, Any]:
    """What is in the file marks.json of a class."""
    with tempfile.TemporaryDirectory() as folder:
        write_marks(marks, Path(folder))
        return json.loads(Path(folder, "marks.json").read_text("utf-8"))
