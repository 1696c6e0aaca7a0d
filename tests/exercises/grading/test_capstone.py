"""Recipes of a class: collected from notebooks and reports, scored again on other seeds, drawn with the front."""

import csv
import dataclasses
import html.parser
import json
import math
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lplab import cli
from lplab.claims.framework.branches import BranchPlan
from lplab.exercises import check, own_meetings, own_recipe, progress
from lplab.exercises.capstone import capstone_exercise as module
from lplab.exercises.capstone import score_process
from lplab.exercises.capstone.capstone_exercise import CapstoneJudge, as_answer, judge_of, score_in, verdict_of
from lplab.exercises.capstone.costs import Costs, costs_of
from lplab.exercises.capstone.few_bits_capstone import FEW_BITS
from lplab.exercises.capstone.meeting_costs import MeetingTraffic
from lplab.exercises.capstone.meetings import MEETINGS
from lplab.exercises.capstone.points import FOR_BUDGET, MAX_POINTS, Marking
from lplab.exercises.capstone.published_meetings import RECIPES as MEETINGS_RECIPES
from lplab.exercises.capstone.published_recipes import PLAIN, data_of, is_published, plain_mxfp4
from lplab.exercises.capstone.score_process import NotScoredError
from lplab.exercises.capstone.scores import Score
from lplab.exercises.capstone.scoring import checked_recipe, float32_loss, score, steps_of
from lplab.exercises.checks.verdict import NOT_JUDGED
from lplab.exercises.grading.capstone_view import _ticks, capstone_view
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.journal import Journal
from lplab.exercises.grading.judging import MAX_RECIPES
from lplab.exercises.grading.marks import MISSING
from lplab.exercises.grading.marks_files import write_marks
from lplab.exercises.grading.report import report_of, write_report
from lplab.exercises.grading.report_file import digest
from lplab.exercises.grading.submissions import read_submission
from lplab.exercises.grading.weights import read_weights
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from lplab.training.recipe.recipe_data import recipe_from_data
from tests.exercises.in_process import judge_here, marks_object

CAPSTONE = FEW_BITS.id
MIDPOINT = exercise_catalogue.get("00.1")
TINY = BranchPlan(before=2, steps=2)
SEEDS = (31, 32)
MINE = {"name": "mine", **data_of(PLAIN), "weight": "nvfp4", "activation": "nvfp4"}
OTHER = {**data_of(PLAIN), "name": "other", "output_gradient_dw": "nvfp4"}
WIDE = {"name": "wide", "weight": "bf16", "activation": "bf16"}


def notebook(*cells):
    made = [{"cell_type": "code", "source": cell} for cell in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})


def handed(recipe):
    return f"from lplab.exercises import own_recipe\nmine = {recipe!r}\n", "own_recipe(mine)"


def a_report(name, recipe):
    data = {"lplab_report": 1, "name": name, "exercises": [], "capstone": {"recipe": recipe, "gap": -1.0}}
    return json.dumps({**data, "sha256": digest(data)})


CLASS = {
    "ada.ipynb": notebook(*handed(MINE), f"{MIDPOINT.solution}\ncheck('00.1', midpoint)"),
    "bob.json": a_report("Bob", OTHER),
    "cyd.ipynb": notebook(*handed(WIDE)),
    "dan.json": a_report("Dan", {"weight": "nvpf4"}),
    "eve.ipynb": notebook(*handed(data_of("NVFP4 (2025)") | {"name": "eve's"})),
    "fay.ipynb": notebook(f"{MIDPOINT.solution}\ncheck('00.1', midpoint)"),
}


def published(name, gap, bits=5.2, seconds=0.55):
    return Score(name, Costs(bits, seconds), SEEDS, (gap, gap), is_published=True)


def unpublished(gap):
    return dataclasses.replace(published("mine", gap), is_published=False)


FIELD = (published("MXFP8", 0.001, 8.9, 0.69), published("NVFP4", 0.02, 6.9, 0.61), published(PLAIN, 0.05))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The class of six, and the checkpoints of a tiny plan."""
    folder = tmp_path_factory.mktemp("class")
    for name, text in CLASS.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Checkpoints of a tiny plan."""
    return str(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="module")
def judge_in_process(checkpoints):
    """What makes the judge of a class: a tiny plan, a fixed field, no process for each recipe; and the calls of it."""
    asked = []

    def apart(data, float32, plan, folder, capstone):
        asked.append(data)
        return score(data, tuple(float32), plan, folder, float32)

    def made(others, seeds, jobs, capstone):
        assert capstone == FEW_BITS
        asked.append(seeds)
        float32 = {seed: float32_loss(seed, TINY, checkpoints) for seed in seeds}
        return CapstoneJudge(others, float32, FIELD, TINY, checkpoints)

    patch = pytest.MonkeyPatch()
    patch.setattr(module, "score_apart", apart)
    yield made, asked
    patch.undo()


@pytest.fixture(scope="module")
def graded(folder, judge_in_process):
    made, _ = judge_in_process
    return grade(folder, jobs=2, judged_by=judge_here, capstone_seeds=SEEDS, capstone_judge=made)


def marks_of(graded):
    return {student.name: student.marks[CAPSTONE] for student in graded.students}


def test_each_recipe_is_scored_on_the_seeds_of_the_grader(graded, checkpoints):
    marks = marks_of(graded)
    costs, gaps = score_in(marks["ada"].lines)
    wanted = score(MINE, SEEDS, TINY, checkpoints)
    assert gaps == wanted.gaps and len(gaps) == 2
    assert costs.bits == pytest.approx(wanted.costs.bits, abs=1e-4)
    assert costs.seconds == pytest.approx(wanted.costs.seconds, abs=1e-6)
    assert marks["ada"].points == Marking(0.05, 0.02, "NVFP4").points(wanted) >= FOR_BUDGET
    assert score_in(marks["Bob"].lines)[1] != gaps, "another recipe has other gaps"


def test_what_a_report_says_of_its_gap_does_not_count(graded):
    assert score_in(marks_of(graded)["Bob"].lines)[1] != (-1.0, -1.0)


def test_recipes_that_earn_nothing_say_why(graded):
    marks = marks_of(graded)
    assert [marks[name].points for name in ("cyd", "Dan", "eve", "fay")] == [0, 0, 0, 0]
    assert "costs more than the budget" in marks["cyd"].complaint
    assert "unknown format 'nvpf4'" in marks["Dan"].complaint and marks["Dan"].ring == "form"
    assert "a recipe of the field as it is" in marks["eve"].complaint
    assert marks["fay"].status == MISSING


def test_other_exercises_are_judged_as_ever(graded):
    ids = [exercise.id for exercise in graded.exercises]
    assert "00.1" in ids and CAPSTONE in ids
    ada = next(student for student in graded.students if student.name == "ada")
    assert ada.marks["00.1"].passed and ada.total == MIDPOINT.points + ada.marks[CAPSTONE].points


def test_the_files_have_the_recipes(graded, tmp_path):
    write_marks(graded, tmp_path)
    rows = list(csv.DictReader((tmp_path / "marks.csv").open(encoding="utf-8-sig", newline="")))
    by_name = {row["student"]: row for row in rows}
    assert float(by_name["ada"][CAPSTONE]) == marks_of(graded)["ada"].points and by_name["fay"][CAPSTONE] == ""
    details = list(csv.DictReader((tmp_path / "details.csv").open(encoding="utf-8-sig", newline="")))
    messages = [row["message"] for row in details if row["exercise"] == CAPSTONE and row["student"] == "ada"]
    assert "gaps on the seeds in bits" in messages[0]
    form = json.loads((tmp_path / "gradescope" / "ada.json").read_text("utf-8"))
    assert [test["max_score"] for test in form["tests"] if test["number"] == CAPSTONE] == [MAX_POINTS]


class Drawn(html.parser.HTMLParser):
    """What the page draws: tags with their attributes, titles, texts."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def test_the_overview_draws_the_class_with_its_front(graded, tmp_path):
    write_marks(graded, tmp_path)
    text = (tmp_path / "overview.html").read_text("utf-8")
    page = Drawn()
    page.feed(text)
    classes = [attributes.get("class") for _, attributes in page.tags]
    assert classes.count("scatter") == 2
    assert classes.count("own") == 2 * 4 and classes.count("published") == 2 * 3  # Dan's is no recipe
    assert classes.count("front") == 2 and "<script" not in text
    assert "seeds 31, 32" in text and "eve" in page.texts


def test_the_front_is_that_of_class_and_field(graded):
    view = capstone_view(*graded.capstones, graded.students)
    everyone = {one.name: one for one in view.recipes}
    assert set(everyone) == {"ada", "Bob", "cyd", "eve", "MXFP8", "NVFP4", PLAIN}
    for one in view.recipes:
        beaten = [
            all(
                other.gap <= one.gap and cost(other) <= cost(one) and (other.gap, cost(other)) != (one.gap, cost(one))
                for _ in (0,)
            )
            for cost in (lambda r: r.costs[0], lambda r: r.costs[1])
            for other in view.recipes
        ]
        count = len(view.recipes)
        free = not any(beaten[:count]) or not any(beaten[count:])
        assert (one.name in view.front) == free, one.name
    assert all(0 <= dot.x <= 560 and 0 <= dot.y <= 260 for panel in view.panels for dot in panel.dots)


def test_equal_recipes_are_scored_once_and_only_where_there_are_some(folder, judge_in_process, tmp_path):
    made, asked = judge_in_process
    for name, recipe in (("a.json", MINE), ("b.json", dict(reversed(MINE.items())))):
        (tmp_path / name).write_text(a_report(name, recipe))
    asked.clear()
    grade(tmp_path, judged_by=judge_here, capstone_seeds=SEEDS, capstone_judge=made)
    assert asked == [SEEDS, dict(sorted(MINE.items()))]
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "fay.ipynb").write_text(CLASS["fay.ipynb"])
    asked.clear()
    marks = grade(tmp_path / "none", ["00", "14"], judged_by=judge_here, capstone_judge=made)
    assert asked == [] and marks.students[0].marks[CAPSTONE].status == MISSING and marks.capstones == ()


def test_points_are_weighed_and_lateness_takes_its_part(graded, judge_in_process, tmp_path):
    made, _ = judge_in_process
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "ada.json").write_text(a_report("ada", MINE))
    path = tmp_path / "weights.toml"
    rules = ["[points]", f'"{CAPSTONE}" = 36', "[deadlines]", '"14" = 2026-10-05T00:00:00Z', "[late]", "most_lost = 0"]
    path.write_text("\n".join(rules))
    weights = read_weights(path)
    marks = grade(tmp_path / "class", judged_by=judge_here, weights=weights, capstone_seeds=SEEDS, capstone_judge=made)
    assert [exercise.id for exercise in marks.exercises] == [CAPSTONE] and marks.most_points == 36
    assert marks_of(marks)["ada"].points == 3 * marks_of(graded)["ada"].points > 0
    assert f"{CAPSTONE}: not known when it was handed in" in marks.students[0].remarks
    assert weights.days_late(CAPSTONE, datetime(2026, 10, 7, tzinfo=UTC)) == 2


# ---- where no recipe can be scored -----------------------------------------------------------------------------------


def test_a_machine_that_cannot_train_judges_all_else(folder, monkeypatch):
    def broken(seeds, **_):
        raise NotScoredError("its process failed: ModuleNotFoundError: No module named 'torch'")

    monkeypatch.setattr(module, "baselines", broken)
    marks = grade(folder, judged_by=judge_here)
    ada = next(student for student in marks.students if student.name == "ada")
    assert ada.marks["00.1"].passed
    assert ada.marks[CAPSTONE].status == NOT_JUDGED and "No module named 'torch'" in ada.marks[CAPSTONE].message
    assert next(s for s in marks.students if s.name == "Dan").marks[CAPSTONE].ring == "form"


def test_a_recipe_that_takes_too_long_is_not_judged(monkeypatch):
    def slow(*_, **__):
        raise NotScoredError("its training took more than 900 s")

    monkeypatch.setattr(module, "score_apart", slow)
    verdict = CapstoneJudge(judge_here, {0: 1.0}, FIELD)(FEW_BITS.exercise, as_answer(MINE))
    assert verdict.status == NOT_JUDGED and verdict.points == 0 and "more than 900 s" in verdict.text


def test_bad_seeds_end_the_command_before_anything_is_trained(folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        cli.main(["grade", str(folder), "--out", str(tmp_path / "marks"), "--capstone-seeds", "1", "1"])
    assert "one to 10 different seeds from 0 up" in capsys.readouterr().err


def test_a_journal_knows_a_recipe_for_its_seeds_fence_and_pytorch_alone(tmp_path, monkeypatch):
    recipe, function = (CAPSTONE, as_answer(MINE)), (MIDPOINT.id, Answer(MIDPOINT.solution, MIDPOINT.name))
    verdict = verdict_of(unpublished(0.03), Marking(0.05, 0.02, "NVFP4"))
    journal = Journal(tmp_path / "journal")
    journal.begin("a fence", (5, 6))
    for task in (recipe, function):
        journal.add(task, verdict)
    journal.close()

    def known(fence, seeds):
        journal = Journal(tmp_path / "journal")
        journal.begin(fence, seeds)
        found = [journal.get(task) == verdict for task in (recipe, function)]
        journal.close()
        return found

    assert known("a fence", (5, 6)) == [True, True]
    journal = Journal(None)
    for fence in ("of the cluster", "of this machine, where the marks so far are written"):
        journal.begin(fence, (5, 6))
    assert journal.fence == "of the cluster"
    assert known("a fence", (5, 7)) == [False, True], "an answer that is no recipe has no seeds"
    assert known("no fence", (5, 6)) == [False, False]
    monkeypatch.setattr("lplab.exercises.grading.journal._version_of_torch", lambda: "another")
    assert known("a fence", (5, 6)) == [False, True]


def test_the_marks_say_the_seeds(graded, tmp_path):
    assert marks_object(graded)["capstone_seeds"] == list(SEEDS)


# ---- what was handed in ----------------------------------------------------------------------------------------------


def answers_in(tmp_path, *cells):
    path = tmp_path / "one.ipynb"
    path.write_text(notebook(*cells), encoding="utf-8")
    return read_submission(path)


WAYS = {
    "a name": ("mine = {'weight': 'nvfp4'}", "own_recipe(mine)"),
    "written out": ("own_recipe({'weight': 'nvfp4'})",),
    "of a module": ("from lplab import exercises\nexercises.own_recipe({'weight': 'nvfp4'})",),
    "the value of that time": ("mine = {'weight': 'nvfp4'}\nown_recipe(mine)\nmine = 3",),
    "shown": ("run = own_recipe({'weight': 'nvfp4'})\nrun",),
}


def called(capstone, *cells):
    """Cells with the function of this capstone in place of that of lab 14."""
    return [cell.replace("own_recipe", capstone.call) for cell in cells]


@pytest.mark.parametrize("capstone", exercise_catalogue.capstones(), ids=list(exercise_catalogue.CAPSTONES))
@pytest.mark.parametrize("way", WAYS)
def test_a_recipe_in_a_notebook_is_found(way, capstone, tmp_path):
    found = answers_in(tmp_path, *called(capstone, *WAYS[way]))
    assert list(found.answers[capstone.id]) == [capstone.as_answer({"weight": "nvfp4"})] and not found.problem


NOT_WRITTEN_OUT = {
    "made by code": "own_recipe(dict(weight='nvfp4'))",
    "unknown name": "own_recipe(mine)",
    "a text": "own_recipe('nvfp4')",
    "a set": "own_recipe({'weight': {'nvfp4'}})",
    "bytes": "own_recipe({'weight': b'nvfp4'})",
    "a call": "own_recipe({'weight': __import__('os').system('true')})",
    "two": "own_recipe({}, {})",
}


@pytest.mark.parametrize("capstone", exercise_catalogue.capstones(), ids=list(exercise_catalogue.CAPSTONES))
@pytest.mark.parametrize("way", NOT_WRITTEN_OUT)
def test_a_recipe_that_is_not_written_out_gets_a_note(way, capstone, tmp_path):
    found = answers_in(tmp_path, *called(capstone, NOT_WRITTEN_OUT[way]))
    assert not found.answers
    assert f"{capstone.call}(…) is not given a dictionary that is written out" in found.problem


def own(number):
    return f"own_recipe({{'name': '{number}', 'weight': 'nvfp4'}})"


def judged_recipes(folder):
    """The names of the recipes that are judged, and the students."""
    asked = []

    def judge(exercise, answer):
        asked.append(json.loads(answer.source)["name"])
        return verdict_of(unpublished(0.03 + 0.001 * len(asked)), Marking(0.05, 0.02, "NVFP4"))

    marks = grade(folder, ["14"], jobs=1, judged_by=judge, capstone_judge=lambda *_: None)
    return asked, marks.students


def test_the_last_three_recipes_count(tmp_path):
    (tmp_path / "one.ipynb").write_text(notebook(*map(own, range(6))))
    asked, (one,) = judged_recipes(tmp_path)
    assert asked == ["3", "4", "5"] and len(asked) == MAX_RECIPES
    assert f"{CAPSTONE}: 6 answers were handed in; the last 3 count" in one.notes


def test_three_recipes_of_a_student_count_however_many_notebooks_there_are(tmp_path):
    (tmp_path / "ada").mkdir()
    for file, some in {"1": "ab", "2": "cd", "3": "ea"}.items():
        (tmp_path / "ada" / f"{file}.ipynb").write_text(notebook(*map(own, some)))
    (tmp_path / "bob.ipynb").write_text(notebook(*map(own, "xy")))
    asked, students = judged_recipes(tmp_path)
    assert asked == ["d", "e", "a", "x", "y"], "a recipe that comes again is the newest"
    ada, bob = students
    assert f"{CAPSTONE}: 5 answers were handed in; the last 3 count" in ada.notes and bob.notes == ()


def test_a_recipe_that_comes_again_is_the_newest(tmp_path):
    found = answers_in(tmp_path, *map(own, "ABCDA"))
    assert [json.loads(answer.source)["name"] for answer in found.answers[CAPSTONE]] == ["B", "C", "D", "A"]
    assert found.places[CAPSTONE][-1] == "code cell 1", "where it was found first"


def test_an_answer_that_comes_again_is_the_newest(tmp_path):
    cells = [f"def midpoint(low, high):\n    return {number}\ncheck('00.1', midpoint)" for number in (1, 2, 3, 1)]
    found = answers_in(tmp_path, *cells)
    assert [answer.source.split()[-1] for answer in found.answers["00.1"]] == ["2", "3", "1"]


CHANGED = {
    "a key": "mine['weight'] = 'bf16'",
    "in a dictionary in it": "mine['exceptions']['last'] = 'bf16'",
    "by a method": "mine.update({'weight': 'bf16'})",
    "with words": "mine.update(weight='bf16')",
    "by an operator": "mine |= {'weight': 'bf16'}",
    "a new dictionary of it": "mine = {**mine, 'weight': 'bf16'}",
    "two together": "mine = mine | {'weight': 'bf16'}",
    "under another name": "other = mine\nother['weight'] = 'bf16'",
    "a copy": "theirs = mine\nmine = dict(mine)\nmine['weight'] = 'bf16'",
    "a copy of all": "import copy\nmine = copy.deepcopy(mine)\nmine['exceptions']['last'] = 'bf16'",
    "a key less": "del mine['name']",
    "a key taken out": "mine.pop('name')",
}
BASE = {"name": "mine", "weight": "nvfp4", "exceptions": {"last": "fp32"}}


@pytest.mark.parametrize("way", CHANGED)
@pytest.mark.parametrize("again", [True, False])
def test_a_recipe_counts_as_it_stands_after_changes(way, again, tmp_path):
    """With the call below the change, or with the first call run again."""
    names = {"mine": json.loads(json.dumps(BASE))}
    exec(CHANGED[way], names)
    cells = [f"mine = {BASE!r}", "own_recipe(mine)", CHANGED[way], *["own_recipe(mine)"] * again]
    found = answers_in(tmp_path, *cells)
    assert list(found.answers[CAPSTONE]) == [as_answer(BASE), as_answer(names["mine"])] and found.notes == ()


NOT_FOLLOWED = {
    "a loop": "for role in ('weight', 'activation'):\n    mine[role] = 'bf16'",
    "a condition": "if True:\n    mine['weight'] = 'bf16'",
    "a value by code": "mine['weight'] = ''.join(['bf', '16'])",
    "an unknown key": "mine[role] = 'bf16'",
}


@pytest.mark.parametrize("way", NOT_FOLLOWED)
def test_a_change_that_is_not_followed_gets_a_note(way, tmp_path):
    found = answers_in(tmp_path, f"mine = {BASE!r}", NOT_FOLLOWED[way], "own_recipe(mine)")
    assert list(found.answers[CAPSTONE]) == [as_answer(BASE)]
    assert "own_recipe uses mine, which code cell 2 changes in a way that grading does not follow" in found.notes[0]
    found = answers_in(tmp_path, f"mine = {BASE!r}", NOT_FOLLOWED[way], "mine = {'weight': 'bf16'}", "own_recipe(mine)")
    assert found.notes == () and list(found.answers[CAPSTONE]) == [as_answer({"weight": "bf16"})]


def test_a_name_that_gets_a_value_of_code_is_no_recipe_any_more(tmp_path):
    found = answers_in(tmp_path, f"mine = {BASE!r}\nmine = make()\nown_recipe(mine)")
    assert CAPSTONE not in found.answers


def test_dictionaries_that_grow_without_end_take_no_time(tmp_path):
    doubled = "\n".join("mine = {'a': mine, 'b': mine}" for _ in range(60))
    begun = time.process_time()
    found = answers_in(tmp_path, "mine = {'weight': 'nvfp4'}", doubled, "own_recipe(mine)\n" * 5000)
    assert CAPSTONE not in found.answers and "not given a dictionary that is written out" in found.problem
    found = answers_in(tmp_path, "mine = {}\nmine['a'] = mine\nown_recipe(mine)")
    assert CAPSTONE not in found.answers and time.process_time() - begun < 5


def test_two_students_with_one_start_are_not_listed_as_alike(tmp_path):
    for name, rounding in (("ada", "stochastic"), ("bob", "up")):
        recipe = {**data_of(PLAIN), "weight": {"format": "mxfp4", "rounding": rounding}}
        (tmp_path / f"{name}.ipynb").write_text(notebook(*handed(recipe)))
    verdict = verdict_of(unpublished(0.03), Marking(0.05, 0.02, "NVFP4"))
    marks = grade(tmp_path, ["14"], judged_by=lambda *_: verdict, capstone_judge=lambda *_: None, similar=True)
    assert [student.marks[CAPSTONE].points > 0 for student in marks.students] == [True, True] and marks.similar == ()


@pytest.mark.parametrize("width", [0.3, 3e-5, 2.9999999999999996, 1.0, 7.0, 250.0])
def test_an_axis_has_ticks_however_its_ends_round(width):
    ticks = _ticks(4.8, 4.8 + width) if width != 0.3 else _ticks(0.0, width)
    assert 2 <= len(ticks) <= 8 and ticks == sorted(set(ticks))


@pytest.mark.parametrize("key", ["capstone", "meetings"])
@pytest.mark.parametrize("entry", [None, 3, [], {}, {"recipe": 3}, {"recipe": {}}, {"recipe": [{}]}])
def test_a_report_without_a_recipe_has_none(entry, key, tmp_path):
    data = {"lplab_report": 1, "name": "Ada", "exercises": [], key: entry}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**data, "sha256": digest(data)}))
    assert read_submission(path).problem == "is a report without answers"


def test_a_recipe_of_a_hundred_thousand_characters_is_refused():
    huge = {"name": "x" * 100_000}
    verdict = CapstoneJudge(judge_here, {}, FIELD)(FEW_BITS.exercise, as_answer(huge))
    assert verdict.ring == "form" and "at most 20,000 characters" in verdict.text and len(verdict.text) < 500


# ---- both capstones in one class -------------------------------------------------------------------------------------

OWN_MEETINGS = {"name": "mine", "every": 24, "compressor": "sparseloco"}


@pytest.fixture
def both_graded(tmp_path, monkeypatch):
    """A class that handed in recipes of both capstones; scores are made up."""
    scores = {
        FEW_BITS.key: unpublished(0.03),
        MEETINGS.key: Score("mine", MeetingTraffic(80_000.0, 50_000.0, 10), SEEDS, (0.5, 0.6), losses=(2.3, 2.4)),
    }
    asked = []

    def apart(data, known, plan, folder, capstone):
        asked.append((capstone.key, data["name"], tuple(known)))
        return scores[capstone.key]

    def made(others, seeds, jobs, capstone):
        field = FIELD if capstone == FEW_BITS else MEETINGS_FIELD
        return CapstoneJudge(others, dict.fromkeys(seeds), field, capstone=capstone)

    monkeypatch.setattr(module, "score_apart", apart)
    (tmp_path / "ada.ipynb").write_text(notebook(*handed(MINE), f"own_meetings({OWN_MEETINGS!r})"))
    report = {"lplab_report": 1, "name": "Bob", "exercises": [], "meetings": {"recipe": OWN_MEETINGS, "gap": -9.0}}
    (tmp_path / "bob.json").write_text(json.dumps({**report, "sha256": digest(report)}))
    (tmp_path / "cyd.ipynb").write_text(notebook("own_meetings({'every': 24, 'seed': 9001})"))
    return grade(tmp_path, jobs=1, judged_by=judge_here, capstone_seeds=SEEDS, capstone_judge=made), asked


MEETINGS_FIELD = (
    Score("FedAvg", MeetingTraffic(1.8e6, 0.0, 4), SEEDS, (0.7, 0.7), is_published=True, losses=(2.4, 2.4)),
    Score("SparseLoCo", MeetingTraffic(92e3, 69e3, 16), SEEDS, (0.75, 0.75), is_published=True, losses=(2.41, 2.41)),
)


def test_a_class_may_hand_in_recipes_of_both_capstones(both_graded, tmp_path):
    graded, asked = both_graded
    assert sorted(asked) == [("capstone", MINE["name"], SEEDS), ("meetings", "mine", SEEDS)], (
        "equal recipes are scored once"
    )
    marks = {student.name: student.marks for student in graded.students}
    assert marks["ada"][MEETINGS.id].points == marks["Bob"][MEETINGS.id].points > 9
    assert marks["ada"][CAPSTONE].points > 0 and marks["Bob"][CAPSTONE].status == MISSING
    assert marks["cyd"][MEETINGS.id].ring == "form" and "unknown key 'seed'" in marks["cyd"][MEETINGS.id].complaint
    assert [judge.capstone for judge in graded.capstones] == [FEW_BITS, MEETINGS]
    write_marks(graded, tmp_path / "marks")
    page = Drawn()
    page.feed((tmp_path / "marks" / "overview.html").read_text("utf-8"))
    text = " ".join(page.texts)
    assert "Ways to meet of one's own" in text and "80,000" in text.replace("80000", "80,000")
    assert [attributes.get("class") for _, attributes in page.tags].count("scatter") == 3


def test_the_panel_of_bytes_is_logarithmic(both_graded):
    graded, _ = both_graded
    view = capstone_view(graded.capstones[1], graded.students)
    (panel,) = view.panels
    assert [text for _, text in panel.x_ticks] == ["100,000", "1e+06"]
    places = {dot.label: dot.x for dot in panel.dots}
    assert places["ada"] < panel.budget < places["FedAvg"] <= 560
    each_decade = panel.x_ticks[1][0] - panel.x_ticks[0][0]
    assert places["FedAvg"] - places["SparseLoCo"] == pytest.approx(each_decade * math.log10(1.8e6 / 92e3), abs=0.2)


def test_the_report_carries_a_way_to_meet(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    costs = MeetingTraffic(80_000.0, 50_000.0, 10)
    progress.record_capstone("meetings", json.dumps(OWN_MEETINGS), vars(costs), (0.4, 0.5), (0, 1), 0)
    report = report_of(progress.default_progress().state, name="Ada")
    assert report["meetings"]["sent"] == 80_000 and report["meetings"]["gap"] == pytest.approx(0.45)
    assert "bits" not in report["meetings"] and "capstone" not in report
    files = write_report(report, tmp_path)
    assert list(read_submission(files[0]).answers[MEETINGS.id]) == [MEETINGS.as_answer(OWN_MEETINGS)]
    page = files[1].read_text("utf-8")
    assert "A way to meet of one's own" in page and "80,000 bytes a learner in 10 meetings" in page
    assert cli.main(["report", "--out", str(tmp_path / "out")]) == 0
    assert "A way to meet of your own: 80,000 bytes" in capsys.readouterr().out


def test_own_meetings_says_what_is_wrong_and_shows_a_button(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    assert str(own_meetings({"evry": 3})).startswith("Not a recipe yet: the recipe: unknown key 'evry'")
    veil = own_meetings(OWN_MEETINGS)
    assert not veil.is_lifted, "the field answers question 16.a"
    veil.lift()
    (run,) = veil.children
    assert run.run_button.description == "Score my recipe" and "Yours: not measured yet" in run.figure.layout.title.text


def test_the_way_to_meet_that_lab_16_begins_with_is_found_and_is_over_the_budget_by_a_little():
    (lab,) = (Path(__file__).parents[3] / "labs").glob("16_*.ipynb")
    (answer,) = read_submission(lab).answers[MEETINGS.id]
    recipe = MEETINGS.checked(json.loads(answer.source))
    sparse = next(one for one in MEETINGS_RECIPES.values() if one.compressor == recipe.compressor)
    assert (
        sparse.every > recipe.every == 12 and dataclasses.replace(recipe, every=sparse.every).what_it_does() == sparse
    )


# ---- the student's side ----------------------------------------------------------------------------------------------


@pytest.fixture
def practised(monkeypatch, tmp_path):
    """A student who scored a recipe: its score is in the progress file."""
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    for recipe in (OTHER, MINE, MINE):
        costs = costs_of(recipe_from_data(recipe))
        progress.record_capstone("capstone", json.dumps(recipe), vars(costs), (0.03, 0.05), (0, 1), 0)
    return tmp_path


def test_the_report_carries_recipe_score_and_seeds(practised):
    report = report_of(progress.default_progress().state, name="Ada")
    own = report["capstone"]
    assert own["recipe"] == MINE and own["seeds"] == [0, 1] and own["gaps"] == [0.03, 0.05]
    assert own["gap"] == pytest.approx(0.04) and own["scored"] == 2 and own["diverged"] == 0
    assert report["sha256"] == digest(report)
    files = write_report(report, practised)
    found = read_submission(files[0])
    assert list(found.answers[CAPSTONE]) == [as_answer(MINE)] and found.name == "Ada"
    page = files[1].read_text("utf-8")
    assert "A recipe of one's own" in page and "0.04 bits" in page and "nvfp4" in page
    assert "capstone" not in report_of_lab(practised)


def report_of_lab(practised):
    progress.record_prediction("02.a", "Which one wins?", "the coin", "the coin")
    return report_of(progress.default_progress().state, ["02"])


def test_a_page_without_a_recipe_has_no_such_part(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    progress.record_prediction("02.a", "Which one wins?", "the coin", "the coin")
    files = write_report(report_of(progress.default_progress().state), tmp_path)
    assert "recipe of one's own" not in files[1].read_text("utf-8")


def test_the_command_says_what_it_hands_in(practised, capsys):
    assert cli.main(["report", "--out", str(practised / "out")]) == 0
    assert "A recipe of your own: 5." in (text := capsys.readouterr().out) and "a gap of +0.0400 bits" in text


def test_a_recipe_is_no_function_to_be_checked():
    with pytest.raises(ValueError, match="own_recipe"):
        check(CAPSTONE, lambda: 0)


def test_own_recipe_says_what_is_wrong_and_shows_a_button(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))  # nobody has guessed yet
    assert str(own_recipe({"weight": "nvpf4"})).startswith("Not a recipe yet: weight: format: unknown format")
    veil = own_recipe(MINE)
    assert not veil.is_lifted, "the field answers question 14.a"
    veil.lift()
    (run,) = veil.children
    assert (
        run.state == "ready"
        and run.run_button.description == "Score my recipe"
        and run.progress.max == steps_of((0, 1, 2))
    )
    assert "The field" in run.figure.layout.title.text


def test_the_button_scores_and_keeps_the_score(monkeypatch, tmp_path, checkpoints):
    from lplab.exercises.capstone.live_score import CapstoneRun

    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    run = CapstoneRun(MINE, SEEDS, TINY, checkpoints)
    run.start()
    run.wait(120)
    assert run.state == "finished", run.error_line.value
    found = run.result()[-1]
    assert found.is_done and found.gaps == score(MINE, SEEDS, TINY, checkpoints).gaps
    kept = progress.default_progress().state.capstone
    assert json.loads(kept.recipe) == MINE and kept.seeds == "31 32" and kept.scored == 1
    assert "Finished: 2 of 2 seeds, with 100 steps on each." in run.status.value
    assert "of 12 points" in run.result_line.value and not run.remark_line.value
    wide = CapstoneRun(WIDE, SEEDS, TINY, checkpoints)
    wide.start()
    wide.wait(120)
    assert "Over the budget" in wide.remark_line.value and "on seed 31 alone" in wide.result_line.value
    assert progress.default_progress().state.capstone == kept, "a recipe over the budget is not handed in"


def test_a_published_recipe_is_told_so_before_the_button(monkeypatch, tmp_path):
    from lplab.exercises.capstone.live_score import CapstoneRun

    monkeypatch.setenv("LPLAB_PROGRESS", str(tmp_path / "progress.json"))
    run = CapstoneRun(data_of(PLAIN))
    assert f"This is {PLAIN} as it is, which has no points." in run.remark_line.value
    run.start()
    run.wait(20)
    assert "Finished: nothing was trained" in run.status.value and "0 of 12 points" in run.result_line.value
    assert progress.default_progress().state.capstone.recipe == ""


def test_a_recipe_that_was_scored_is_shown_again_with_its_score(practised):
    from lplab.exercises.capstone.live_score import CapstoneRun

    recipe = json.loads(progress.default_progress().state.capstone.recipe)
    costs, gaps = {"bits": 5.0, "seconds": 0.6}, (0.02, 0.03, 0.04)
    progress.record_capstone("capstone", json.dumps(recipe), costs, gaps, (0, 1, 2), 0)
    assert "Scored before: 9 of 12 points" in (run := CapstoneRun(recipe)).result_line.value
    assert "0.0300" in run.figure.layout.meta["alt"] or "0.03" in run.figure.layout.title.text
    assert not CapstoneRun(recipe | {"weight": "nvfp4", "name": "another"}).result_line.value


def test_the_time_that_is_left_counts_the_steps_of_the_recipe_alone():
    """Ten seconds for each of the three meetings of a seed; what is known already passes at once."""
    from lplab.exercises.capstone.live_score import CapstoneRun

    run = CapstoneRun(MINE, SEEDS, BranchPlan(4, 6))
    empty = Score("mine", Costs(5.0, 0.6), SEEDS)
    left = []
    for seed, gaps in enumerate(((), (0.1,))):
        now = dataclasses.replace(empty, gaps=gaps)
        run._results += [now] * (10 + (seed == 0))
        for meeting in range(1, 4):
            run._results += [now]
            left.append(run.seconds_left(10.0 * meeting + 30 * seed))
            run._results += [now]
        run._results += [dataclasses.replace(now, gaps=(*gaps, 0.1))]
    assert math.isnan(left[0]) and math.isnan(left[3]) and left[1:3] == [pytest.approx(40), pytest.approx(30)]
    assert left[4:] == [pytest.approx(10), pytest.approx(0)]


def test_a_verdict_says_the_points_and_how_they_come_about():
    found = Score("mine", Costs(6.0, 0.6), SEEDS, (0.01, 0.01))
    verdict = verdict_of(found, Marking(0.05, 0.02, "NVFP4"))
    assert verdict.passed and verdict.points == 12 and "9 at +0.0200 (NVFP4)" in verdict.text
    assert score_in(verdict.lines) == (Costs(6.0, 0.6), (0.01, 0.01))


@pytest.mark.slow
def test_a_class_is_graded_with_the_command(folder, tmp_path, capsys, monkeypatch):
    """At full length, on one held-back seed: float32 and the recipes in processes of their own."""
    monkeypatch.setattr(module, "score_apart", score_process.score_apart)  # not what other tests put there
    out = tmp_path / "marks"
    assert cli.main(["grade", str(folder), "--lab", "14", "--out", str(out), "--capstone-seeds", "9001"]) == 0
    text = capsys.readouterr().out
    assert f"{CAPSTONE} A recipe of your own" in text
    marks = json.loads((out / "marks.json").read_text("utf-8"))
    got = {student["name"]: student["marks"][-1] for student in marks["students"]}
    assert score_in(got["ada"]["lines"]), got["ada"]
    _, gaps = score_in(got["ada"]["lines"])
    assert len(gaps) == 1 and 0 < gaps[0] < 0.2 and got["ada"]["points"] >= FOR_BUDGET
    assert "seeds 9001" in (out / "overview.html").read_text("utf-8")


@pytest.mark.slow
def test_the_field_is_measured_in_processes(checkpoints):
    """In short: the first and the last of it, as this process finds them."""
    fewer = ("FP8 tiles (2024)", PLAIN)
    float32 = {31: float32_loss(31, TINY, checkpoints)}
    field = score_process.field_apart(float32, 2, TINY, checkpoints, dataclasses.replace(FEW_BITS, names=fewer))
    assert tuple(one.name for one in field) == fewer
    for one in field:
        assert one.gaps == score(data_of(one.name), (31,), TINY, checkpoints, float32).gaps != (0.0,)


def test_on_seeds_of_the_graders_own_the_field_is_measured(monkeypatch):
    asked = []
    monkeypatch.setattr(module, "baselines", lambda seeds, **_: dict.fromkeys(seeds, 2.9))
    monkeypatch.setattr(module, "field_apart", lambda float32, jobs, **_: asked.append((float32, jobs)) or FIELD)
    judge = judge_of(judge_here, SEEDS, jobs=2)
    assert asked == [({31: 2.9, 32: 2.9}, 2)] and judge.field == FIELD and not judge.problem
    judge_of(judge_here, (9001,))
    assert len(asked) == 1, "the field is stored for this seed"


@pytest.mark.slow
def test_the_judge_of_a_class_takes_the_stored_field_for_the_default_seeds(monkeypatch):
    monkeypatch.setattr(module, "baselines", lambda seeds, **_: dict.fromkeys(seeds, 2.9))
    judge = judge_of(judge_here)
    assert tuple(judge.known) == (9001, 9002, 9003) and len(judge.field) == 6 and not judge.problem


def test_the_recipe_that_the_lab_begins_with_is_found_and_is_mxfp4_with_one_change():
    (lab,) = (Path(__file__).parents[3] / "labs").glob("14_*.ipynb")
    (answer,) = read_submission(lab).answers[CAPSTONE]
    recipe = checked_recipe(json.loads(answer.source))
    before, now = vars(plain_mxfp4().layers), vars(recipe.layers)
    assert [role for role in now if now[role] != before[role]] == ["output_gradient_dx"]
    assert not is_published(recipe)


def test_a_published_recipe_earns_nothing():
    assert Marking(0.05, 0.02, "NVFP4").points(published("mine", 0.01)) == 0
