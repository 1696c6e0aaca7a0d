"""Answers that are alike: what is the same in another dress is found, what differs in deed is not."""

import csv
import json

import pytest

from lplab import cli
from lplab.exercises.grading.grading import grade
from lplab.exercises.grading.marks_files import write_marks
from lplab.exercises.grading.similar import alike, normal_form
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from tests.exercises.grading.test_school import notebook, put
from tests.exercises.in_process import judge_here, marks_object

DECODE = exercise_catalogue.get("01.1")
OWN = """import math

def decode(code, exponent_bits, mantissa_bits, bias):
    top = 2**exponent_bits - 1
    field = (code >> mantissa_bits) & top
    rest = code & (2**mantissa_bits - 1)
    share = rest / 2**mantissa_bits
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    if field == top and rest > 0:
        return math.nan
    total = 0.0
    total += share * sign
    return total
"""


def form(source, name="decode"):
    return normal_form(DECODE, Answer(source, name))


def in_another_dress(*changes):
    text = OWN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    "changes",
    [
        [("top", "highest"), ("share", "x"), ("bias", "b"), ("code", "n")],
        [("def decode(", "def mine(")],
        [("share * sign", "sign * share"), ("exponent_bits + mantissa_bits", "mantissa_bits + exponent_bits")],
        [("field == top and rest > 0", "rest > 0 and top == field"), ("rest > 0", "0 < rest")],
        [("total += share * sign", "total = total + share * sign")],
        [("total += share * sign", "total: float = share * sign + total  # at last")],
        [("import math\n", "from math import nan\n"), ("math.nan", "nan")],
        [("import math\n", "import math as m\n"), ("math.nan", "m.nan")],
        [("0.0", "1e-9"), ("- 1", "- 2"), ("-1.0", "7")],
        [("    top =", '    "Mine."\n    top ='), ("bias):", "bias: int) -> float:")],
    ],
)
def test_another_dress_changes_nothing(changes):
    text = in_another_dress(*changes)
    assert form(text, "mine" if "def mine" in text else "decode") == form(OWN) != ""


@pytest.mark.parametrize(
    "changes",
    [
        [("rest / 2**mantissa_bits", "2**mantissa_bits / rest")],
        [(">> mantissa_bits", "<< mantissa_bits")],
        [("rest > 0", "rest < 0")],
        [("share * sign", "share * share")],
        [(" and rest > 0", "")],
        [("math.nan", "math.inf")],
        [("return total", "return share")],
    ],
)
def test_another_deed_is_another_answer(changes):
    assert form(in_another_dress(*changes)) not in (form(OWN), "")


def test_short_and_unreadable_answers_are_like_nothing():
    midpoint = exercise_catalogue.get("00.1")
    assert normal_form(midpoint, Answer(midpoint.solution, midpoint.name)) == ""
    for source in ("def decode(", "def decode(x):\n    return " + "-" * 20_000 + "1", "x = 1\n" * 20_000):
        assert form(source) == ""


def test_helpers_that_stand_in_the_stub_make_nobody_alike():
    exercise = exercise_catalogue.get("03.3")
    assert exercise.provided and normal_form(exercise, Answer(exercise.solution, exercise.name)) != ""
    short = exercise.stub_source.replace("raise NotImplementedError", "return w, w, 0")
    assert normal_form(exercise, Answer(short, exercise.name)) == ""


def test_groups_name_students_and_the_solution():
    answer, other = Answer(OWN, "decode"), Answer(in_another_dress(("share", "x")), "decode")
    solution = Answer(DECODE.solution.replace("field", "f"), "decode")
    stub = Answer(DECODE.stub_source, "decode")
    groups = alike(DECODE, enumerate([[answer], [other, stub], [solution], [stub], []]))
    assert [(one.students, one.is_solution, one.same_text) for one in groups] == [
        ((0, 1), False, False),
        ((2,), True, False),
    ]
    assert alike(DECODE, enumerate([[answer], [answer]]))[0].same_text
    assert alike(DECODE, enumerate([[answer, other], [stub], [stub]])) == [], (
        "one student may try twice; a stub is everybody's"
    )


def test_the_list_is_a_hint_and_changes_no_mark(tmp_path, capsys):
    cell = f"{OWN}\ncheck('01.1', decode)"
    folder = tmp_path / "class"
    put(folder, **{"ada.ipynb": notebook(cell), "=bob.ipynb": notebook(cell.replace("share", "x")),
                   "cid.ipynb": notebook(f"{DECODE.solution}\ncheck('01.1', decode)")})  # fmt: skip
    plain = grade(folder, jobs=1, judged_by=judge_here)
    marks = grade(folder, jobs=1, judged_by=judge_here, similar=True)
    assert plain.similar is None and marks_object(plain) == marks_object(marks)
    write_marks(marks, tmp_path / "out")
    with (tmp_path / "out" / "similar.csv").open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["exercise", "students", "equals the solution", "same text", "names", "files"]
    assert rows == [
        ["01.1", "2", "no", "no", "'=bob; ada", "'=bob.ipynb; ada.ipynb"],
        ["01.1", "1", "yes", "yes", "cid", "cid.ipynb"],
    ]
    for file in (tmp_path / "out" / "gradescope").iterdir():
        assert "similar" not in json.dumps(json.loads(file.read_text()))
    assert cli.main(["grade", str(folder), "--lab", "01", "--similar", "--out", str(tmp_path / "again")]) == 0
    assert "similar.csv" in capsys.readouterr().out and not (tmp_path / "out" / "moodle.csv").exists()
