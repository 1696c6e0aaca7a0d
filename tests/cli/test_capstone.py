"""``lplab capstone``: the field, a recipe to start from, the score of a file, and bad input in one line."""

import json

import pytest

from lplab import cli
from lplab.claims.framework.branches import BranchPlan
from lplab.exercises.capstone import scoring, stored_field
from lplab.exercises.capstone.meetings import MEETINGS
from lplab.exercises.capstone.published_recipes import PLAIN, RECIPES
from lplab.exercises.capstone.scores import PRACTICE_SEEDS


@pytest.fixture
def short(monkeypatch):
    """The plan of the scores is a tiny one."""
    monkeypatch.setattr(scoring.score_steps, "__defaults__", (PRACTICE_SEEDS, BranchPlan(2, 2), None, None))


def test_the_field_is_printed(capsys):
    assert cli.main(["capstone"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in RECIPES)
    assert [line.startswith("NVFP4") for line in text.splitlines() if "over the budget" not in line][1:] != []
    over = {line.split("  ")[0] for line in text.splitlines() if "over the budget" in line}
    assert over == {"FP8 tiles (2024)", "MXFP8 (2025)", "MXFP4 backward (2025)"}


def test_the_field_as_json(capsys):
    assert cli.main(["capstone", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(RECIPES) and rows[0]["seeds"] == [0, 1, 2]
    assert rows == [{**row, "gap": pytest.approx(sum(row["gaps"]) / 3)} for row in rows]


def test_a_recipe_to_start_from_can_be_scored(short, capsys, tmp_path):
    assert cli.main(["capstone", "--start-from", PLAIN]) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["weight"] == "mxfp4"
    file = tmp_path / "mine.json"
    file.write_text(text, encoding="utf-8")
    assert cli.main(["capstone", str(file), "--seeds", "4", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["seeds"], row["keeps_budget"]) == (PLAIN, [4], True)
    assert len(row["gaps"]) == 1
    stored = next(one for one in stored_field.field() if one.name == PLAIN)
    assert row["bits"] == pytest.approx(stored.costs.bits, abs=1e-5)


def test_the_field_of_lab_16_is_printed(capsys):
    assert cli.main(["capstone", "--lab", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[-2:] == ["gap (of the gain)", "on each seed"]
    assert [line.split("  ")[0] for line in lines[1:]] == list(MEETINGS.names)
    kept = {line.split("  ")[0] for line in lines[1:] if "over the budget" not in line}
    assert "SparseLoCo (2025)" in kept and "FedAvg (2017)" not in kept


def test_a_way_to_meet_to_start_from_can_be_read(capsys):
    assert cli.main(["capstone", "--lab", "16", "--start-from", "SparseLoCo (2025)"]) == 0
    assert MEETINGS.checked(json.loads(capsys.readouterr().out)).every == 15


@pytest.mark.parametrize(("lab", "name"), [("14", PLAIN), ("16", "SparseLoCo (2025)")])
def test_a_published_recipe_is_not_trained_again(lab, name, capsys, tmp_path, monkeypatch):
    for module in ("scoring", "meeting_scoring"):
        monkeypatch.setattr(f"lplab.exercises.capstone.{module}.scored", lambda *_: pytest.fail("it was trained"))
    assert cli.main(["capstone", "--lab", lab, "--start-from", name]) == 0
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads(capsys.readouterr().out) | {"name": "mine"}), encoding="utf-8")
    assert cli.main(["capstone", "--lab", lab, str(file)]) == 0
    *table, points, nothing = capsys.readouterr().out.splitlines()
    assert points.startswith("0 of 12 points on these seeds. It is a recipe of the field as it is.")
    assert nothing == "Nothing was trained, as its gaps are known."
    mine, stored = (next(row.split()[-3:] for row in table if row.startswith(start)) for start in ("mine", name))
    assert mine == stored


BAD = {
    "no way to meet": (["mine.json", "--lab", "16"], "the recipe: unknown key 'weight'"),
    "of lab 14": (["mine.json", "--lab", "16"], "This is a recipe of lab 14: add --lab 14"),
    "of lab 16": (["meet.json"], "This is a recipe of lab 16: add --lab 16"),
    "a notebook": (
        ["lab.ipynb", "--lab", "16"],
        "lab.ipynb is a notebook: run the cell of own_meetings",
    ),
    "single quotes": (["single.json"], "JSON has double quotes in place of single ones"),
    "True": (["true.json"], "(line 1, column 14); JSON writes true"),
    "no such way": (["--lab", "16", "--start-from", "DiLoC"], "the field has no 'DiLoC'; it has FedAvg (2017)"),
    "no file": (["nowhere.json"], "nowhere.json: No such file or directory"),
    "a folder": (["."], "Is a directory"),
    "no JSON": (["text.json"], "a recipe must be JSON"),
    "no recipe": (["wrong.json"], "weight: format: unknown format 'nvpf4'"),
    "no UTF-8": (["bytes.json"], "bytes.json is not in UTF-8"),
    "too large": (["large.json"], "at most 20,000 characters"),
    "a format without a chip": (["posit.json"], "no chip of the table multiplies posit8_1"),
    "seeds twice": (["mine.json", "--seeds", "1", "1"], "one to 10 different seeds"),
    "a negative seed": (["mine.json", "--seeds", "-1"], "one to 10 different seeds from 0 up"),
    "a field that was not measured": (["--seeds", "77"], "no seed or recipe '77'"),
    "no such recipe": (["--start-from", "NVFP5"], "the field has no 'NVFP5'; it has FP8 tiles (2024)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_ends_with_one_line(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.json").write_text("dear professor")
    (tmp_path / "wrong.json").write_text('{"weight": "nvpf4"}')
    (tmp_path / "posit.json").write_text('{"weight": "posit8_1"}')
    (tmp_path / "mine.json").write_text('{"weight": "nvfp4"}')
    (tmp_path / "meet.json").write_text('{"every": 15}')
    (tmp_path / "single.json").write_text("{'every': 15}")
    (tmp_path / "true.json").write_text('{"nesterov": True}')
    (tmp_path / "lab.ipynb").write_text(" " * 100_000)
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.json").write_text(" " * 100_000)
    arguments, words = BAD[name]
    with pytest.raises(SystemExit) as end:
        cli.main(["capstone", *arguments])
    line = capsys.readouterr().err
    assert end.value.code == 2 and words in line and line.count("\n") == 1
