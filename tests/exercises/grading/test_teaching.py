"""The page for teachers: its minutes are those of the labs, its commands are taken, its files can be read."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from lplab import cli
from lplab.cli import capstone, grade, school
from lplab.exercises.capstone.costs import BUDGET, Costs, costs_of
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.capstone.points import AT_BEST, FOR_BUDGET, MAX_POINTS, marking_of
from lplab.exercises.capstone.published_recipes import PLAIN, RECIPES
from lplab.exercises.capstone.score_process import LIMIT_SECONDS
from lplab.exercises.capstone.scores import HELD_BACK_SEEDS, MAX_SEEDS, PRACTICE_SEEDS, Score
from lplab.exercises.capstone.scoring import PLAN, checked_recipe
from lplab.exercises.capstone.stored_field import default_path, field
from lplab.exercises.checks.credit import partial_points
from lplab.exercises.grading.judging import MAX_RECIPES
from lplab.exercises.grading.release import OPEN
from lplab.exercises.grading.weights import read_weights
from lplab.formats import ROUNDINGS, SCALE_RULES
from lplab.recordings import ingredient_runs
from lplab.training.recipe.recipe_data import EXCEPTIONS, OPERANDS, RULE_KEYS, parse_json
from lplab.widgets.explorers import ingredient_explorer as board
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
    assert every == [lab for lab in MINUTES if weeks > 6 or lab != "10"]


def test_its_commands_are_taken(monkeypatch):
    seen = []
    for module, name in (
        (grade, "run_grade"),
        (grade, "run_report"),
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


# ---- the capstone ----------------------------------------------------------------------------------------------------

PAGE = (PROJECT / "docs" / "capstone.md").read_text("utf-8")
STUDENTS, MEETING_PAGE = PAGE.split("\n## Lab 16: a way to meet\n")  # what is said of each capstone
JOINED = " ".join(STUDENTS.split())


def test_the_recipe_of_the_students_page_is_one_and_keeps_the_budget():
    (text,) = re.findall(r"```json\n(.*?)```", STUDENTS, re.DOTALL)
    assert BUDGET.allows(costs_of(checked_recipe(parse_json(text))))
    switch = re.search(r'`(\{"at".*?\})`', STUDENTS)[1]
    checked_recipe({**parse_json(text), "switch": parse_json(switch)})
    blocks = re.search(r'`(\{"element".*?\})`', STUDENTS)[1]
    checked_recipe({"weight": {"format": parse_json(blocks)}})


def test_the_students_page_names_every_key():
    rows = re.findall(r"^\| `(\w+)` \|", STUDENTS, re.MULTILINE)
    assert rows == list(RULE_KEYS)
    roundings = STUDENTS.split("| `rounding` |")[1].splitlines()[0]
    assert set(re.findall(r"`(\w+)`", roundings)) == set(ROUNDINGS)
    named = set(re.findall(r"`\"?(\w+)", STUDENTS))
    assert set(EXCEPTIONS) | set(SCALE_RULES) | {"scale", "scale_rule", "tensor_scale", "late_share", "switch"} <= named
    for role in OPERANDS:
        assert role in STUDENTS


def test_budget_and_points_of_both_pages_are_those_of_the_code():
    assert f"| average bits of a number | {BUDGET.bits:g} |" in STUDENTS
    assert f"| modelled milliseconds of a step | {1e3 * BUDGET.seconds:.0f} |" in STUDENTS
    assert re.findall(r"^\| .*? \| (\d+) \|$", STUDENTS.split("| recipe | points |")[1], re.MULTILINE) == [
        "0", str(FOR_BUDGET), str(AT_BEST), str(MAX_POINTS)
    ]  # fmt: skip
    assert f"trains {PLAN.before} steps in float32" in STUDENTS and f"go on for {PLAN.steps} steps" in STUDENTS
    assert "seeds {}, {} and {}".format(*PRACTICE_SEEDS) in STUDENTS
    assert "the seeds are {}, {} and {}".format(*HELD_BACK_SEEDS) in TEXT
    assert f"exercise {FEW_BITS.id}, with {MAX_POINTS} points" in TEXT and f'`"{FEW_BITS.id}" = 30`' in TEXT
    assert f"ends after {LIMIT_SECONDS / 60:.0f} minutes" in TEXT and "the six recipes of the field" in TEXT
    assert len(RECIPES) == 6 and MAX_RECIPES == 3 and MAX_SEEDS == 10


def test_the_students_page_says_how_sure_a_gap_is():
    gaps = {one.name: np.array(one.gaps) for one in field()}
    wide = [np.ptp(gaps[name]) for name in ("Quartet (2025)", "NVFP4 (2025)", PLAIN)]
    assert f"lie {min(wide):.3f} to {max(wide):.3f} bits apart" in JOINED
    better = gaps[PLAIN] - gaps["NVFP4 (2025)"]
    assert f"by {better.min():.3f} to {better.max():.3f} bits" in JOINED and f"lie {np.ptp(better):.3f} apart" in JOINED
    plain, best = (float(np.mean(gaps[name])) for name in (PLAIN, "NVFP4 (2025)"))
    assert (
        f"plain MXFP4 has a gap of {plain:.4f} bits, and the best published recipe that keeps the budget {best:.4f}"
        in (JOINED)
    )
    marking = marking_of(field())
    for gap, points in ((0.0377, 6), (0.0154, 12)):
        mine = Score("mine", Costs(5.2, 0.55), (0,), (gap,), is_published=False)
        assert marking.points(mine) == points and f"{gap:.4f} has {points}" in JOINED.replace(" points", "")
    half_a_point = (plain - best) / (2 * (AT_BEST - FOR_BUDGET))
    assert f"Below {AT_BEST} points half a point is {half_a_point:.4f} bits" in JOINED
    session = json.loads(default_path().read_text("utf-8"))["session"]
    minutes, computed = session["seconds"] / 60, session["core_seconds"] / 60
    clock, core = f"{minutes:.0f} minutes by the clock", f"{computed:.1f} minutes of one core"
    assert f"took {clock} on a machine with other work, and {core}." in JOINED


def test_the_example_of_partial_credit_is_computed_right():
    assert partial_points(6, 0.8, 0.5) == 2
    assert (
        "With 8 of 10 examples and half of the boundary set right, 6 points become 2 × 0.8 + 2 × 0.5 × 0.8 = 2.4"
        in (" ".join(TEXT.split()))
    )


def test_bits_of_the_budget_and_of_an_ordinary_layer_are_told_apart():
    ordinary, whole = board.average_bits(ingredient_runs.PLAIN["mxfp4"]), costs_of(RECIPES[PLAIN]()).bits
    assert (
        f"plain MXFP4 has {ordinary:.2f} bits in an ordinary layer, as lab 14's explorer says, and {whole:.2f} here"
        in (JOINED)
    )


def test_the_commands_of_the_students_page_are_taken(monkeypatch):
    seen = []
    monkeypatch.setattr(capstone, "run_capstone", lambda args: seen.append((args.file, args.start_from)) or 0)
    for line in re.findall(r"^lplab (capstone.*?)(?: > .*)?(?: +#.*)?$", STUDENTS, re.MULTILINE):
        assert cli.main(shlex.split(line.strip())) == 0, line
    assert seen == [(None, None), (None, "plain MXFP4"), (Path("my.json"), None)]
    assert "plain MXFP4" in RECIPES


def test_the_commands_of_the_page_on_lab_16_are_taken(monkeypatch):
    seen = []
    monkeypatch.setattr(capstone, "run_capstone", lambda args: seen.append((args.lab, args.file, args.start_from)) or 0)
    for line in re.findall(r"^lplab (capstone.*?)(?: > .*)?(?: +#.*)?$", MEETING_PAGE, re.MULTILINE):
        assert cli.main(shlex.split(line.strip())) == 0, line
    assert [args[1:] for args in seen] == [(None, None), (None, "SparseLoCo (2025)"), (Path("my.json"), None)]
    assert {str(args[0]) for args in seen} == {"16"}
