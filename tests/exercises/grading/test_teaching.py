"""The page for teachers: its minutes are those of the labs, its commands are taken, its files can be read."""

import re
import shlex
from pathlib import Path

import pytest

from lplab import cli
from lplab.cli import course, school
from lplab.exercises.grading.release import OPEN
from lplab.exercises.grading.weights import read_weights
from tests.exercises.test_every_exercise import NOTHING_BETWEEN

PROJECT = Path(__file__).parents[3]
TEXT = (PROJECT / "docs" / "teaching.md").read_text("utf-8")
MAP = (PROJECT / "labs" / "README.md").read_text("utf-8")
MINUTES = {lab: int(minutes) for lab, minutes in re.findall(r"^\| (\d\d) \|.*?\| (\d+) \|", MAP, re.MULTILINE)}


@pytest.mark.parametrize("weeks", [6, 10, 14])
def test_a_syllabus_has_its_weeks_and_the_minutes_of_its_labs(weeks):
    (table,) = re.findall(rf"^\| {weeks} weeks \|.*?\n\n", TEXT, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (\d+) \| (.*?) \| (\d+) \|$", table, re.MULTILINE)
    assert [int(week) for week, *_ in rows] == list(range(1, weeks + 1))
    labs = [re.findall(r"\b\d\d\b", names) for _, names, _ in rows]
    assert [int(minutes) for *_, minutes in rows] == [sum(MINUTES[lab] for lab in some) for some in labs]
    every = sorted(lab for some in labs for lab in some)
    assert every == [lab for lab in MINUTES if weeks > 6 or lab != "09"]


def test_its_commands_are_taken(monkeypatch):
    seen = []
    for module, name in (
        (course, "run_grade"),
        (course, "run_report"),
        (school, "run_release"),
        (school, "run_autograder"),
    ):
        monkeypatch.setattr(module, name, lambda args, name=name: seen.append(name) or 0)
    for line in re.findall(r"python3 start.py (?:lplab )?((?:grade|report|release|autograder) [^`\n]*)", TEXT):
        assert cli.main(shlex.split(line)) == 0, line
    assert set(seen) == {"run_grade", "run_report", "run_release", "run_autograder"} and len(seen) >= 5


def test_the_weights_that_it_shows_can_be_read(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "weights.toml").write_text(block, encoding="utf-8")
    weights = read_weights(tmp_path / "weights.toml")
    assert weights.points == {"01.1": 10, "01.2": 20} and weights.closed_after_days == 7 and weights.title == "Lab 01"


def test_the_exercises_that_it_names_are_those_of_the_code():
    assert f"call them: {', '.join(OPEN)}." in TEXT
    assert f"as a whole: {', '.join(NOTHING_BETWEEN)}." in TEXT
