"""The edition for students: it checks as the full one does, and holds no solution that it should not hold."""

import inspect
import json
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from lplab import cli
from lplab.exercises.checks import withheld
from lplab.exercises.grading.release import OPEN, write_edition
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here
from tests.labs.notebooks import problems

PROJECT = Path(__file__).parents[3]
CLOSED = [name for name in exercise_catalogue.names() if name not in OPEN]
JUDGE = """
import json, sys
import lplab
from lplab.exercises import get, solution
from lplab.exercises.isolation.answers import Answer
sys.path.append(sys.argv[2])
from tests.exercises.in_process import judge_here

def said(name, source):
    verdict = judge_here(get(name), Answer(source, get(name).name))
    return [verdict.passed, verdict.points, verdict.ring, verdict.convention, [verdict.lines[0], *verdict.lines[1:2]]]

cases = json.loads(open(sys.argv[1], encoding="utf-8").read())
verdicts = {name: [said(name, source) for source in sources] for name, sources in cases.items()}
counts = [get(name).known_mistakes for name in cases]
print(json.dumps([lplab.__file__, verdicts, counts, str(solution("00.1", anyway=True)), get("00.1").mistakes]))
"""


@pytest.fixture(scope="module")
def edition(tmp_path_factory):
    """An edition of two labs."""
    folder = tmp_path_factory.mktemp("students") / "edition"
    stays = write_edition(folder, ["01", "00"], "Ada Lovelace", {"01": date(2026, 10, 5)})
    assert stays == ["01.2"]
    return folder


def sources_of(name):
    """The solution, each legal way, and the last known mistake."""
    exercise = exercise_catalogue.get(name)
    mistake = [mistake for mistake in exercise.mistakes if not mistake.equivalent][-1]
    ways = [way.apply(exercise.solution) for way in exercise.conventions]
    return [
        "import math\nimport numpy as np\n" + text
        for text in (exercise.solution, *ways, mistake.apply(exercise.solution))
    ]


def here(name, source):
    verdict = judge_here(exercise_catalogue.get(name), Answer(source, exercise_catalogue.get(name).name))
    return [verdict.passed, verdict.points, verdict.ring, verdict.convention, [verdict.lines[0], *verdict.lines[1:2]]]


some = ["00.1", "01.1", "02.2", "04.3", "12.1"]


@pytest.mark.parametrize(
    "names", [some, pytest.param(exercise_catalogue.names(), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_checks_say_what_those_of_the_full_edition_say(names, edition, tmp_path):
    cases = {name: sources_of(name) for name in names}
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    command = [sys.executable, "-c", JUDGE, str(tmp_path / "cases.json"), str(PROJECT)]
    environment = {**os.environ, "PYTHONPATH": str(edition)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    place, verdicts, counts, told, mistakes = json.loads(done.stdout)
    assert Path(place).is_relative_to(edition), "it is the edition that was asked"
    assert verdicts == {name: [here(name, source) for source in sources] for name, sources in cases.items()}
    assert counts == [exercise_catalogue.get(name).known_mistakes for name in names] and mistakes == []
    assert told == "The solution of exercise 00.1 is with your instructor."


def links_of(path):
    """The files that a page or a notebook leads to."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    targets = (target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target)
    return {(path.parent / target).resolve() for target in targets}


def test_its_links_lead_to_files_and_so_do_those_of_all_labs(edition):
    """But for the labs that are not in it: these come with a later edition."""
    pages = [*edition.glob("*.md"), *edition.glob("docs/*.md"), *edition.glob("labs/*.ipynb")]
    assert len(pages) >= 10
    led_to = set().union(*map(links_of, pages))
    later = {path.name for path in (PROJECT / "labs").glob("*.ipynb")}
    assert [path for path in led_to if not path.exists() and path.name not in later] == []
    of_all = set().union(*map(links_of, (PROJECT / "labs").glob("*.ipynb")))
    names = {path.relative_to(PROJECT) for path in of_all if path.suffix == ".md"}
    assert names and all((edition / name).exists() for name in names)


def test_no_solution_and_no_known_mistake_is_in_it(edition):
    folder = edition / "lplab" / "exercises"
    texts = {path: path.read_text("utf-8") for path in folder.rglob("*.py")}
    assert len(texts) > 60
    for name in CLOSED:
        exercise = exercise_catalogue.get(name)
        body = exercise.solution.rpartition('"""')[2].strip()
        own = "\n".join(text for path, text in texts.items() if path.parent.name == f"lab{exercise.lab}")
        module = texts[edition / Path(inspect.getsourcefile(exercise.reference)).relative_to(PROJECT)]
        hints = " ".join(exercise.hints)  # these stay; the last one is often the skeleton of a solution
        assert body not in own or body in hints, name
        for mistake in exercise.mistakes:
            assert f'("{mistake.name}"' not in module, f"{name}: {mistake.name}"
            assert not [old for old, _ in mistake.edits if len(old) > 20 and f'"{old}"' in own], (
                f"{name}: {mistake.name}"
            )


def test_it_holds_the_labs_that_were_chosen_with_name_and_day(edition):
    assert [path.name[:2] for path in sorted((edition / "labs").iterdir())] == ["00", "01"]
    for path in (edition / "labs").iterdir():
        notebook = json.loads(path.read_text("utf-8"))
        assert problems(notebook, path.name) == [] and notebook["metadata"]["kernelspec"]["name"] == "python3"
        first = notebook["cells"][0]["source"]
        assert "**Ada Lovelace" in first and ("to be handed in by 2026-10-05" in first) == path.name.startswith("01")
    readme = (edition / "README.md").read_text("utf-8")
    assert "Ada Lovelace" in readme and "](labs/01_" in readme and "2026-10-05" in readme and "](labs/02_" not in readme
    for name in ("start.py", "pyproject.toml", "docs/glossary.md", "data/digits/digits.npz", "lplab/py.typed"):
        assert (edition / name).is_file(), name
    assert not (edition / "tests").exists() and not (edition / "docs" / "exercises.md").exists()


def test_results_are_kept_bit_by_bit_and_other_calls_are_refused(tmp_path, monkeypatch):
    pairs = [((1, -0.0), float("nan")), ((1, 0.0), (1.5, 2))]
    withheld.write_results(tmp_path, "99.9", {"": pairs, "another way": [((3,), 4)]})
    monkeypatch.setattr(withheld, "FOLDER", tmp_path)
    assert str(withheld.result("99.9", (1, -0.0))) == "nan" and withheld.result("99.9", (1, 0.0)) == (1.5, 2)
    assert withheld.result("99.9", (3,), "another way") == 4
    with pytest.raises(ValueError, match=r"the solution of exercise 99.9 is with your instructor"):
        withheld.result("99.9", (2, 0.0))


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--lab", "77"], "lab '77' has no exercises"),
        (["--lab", "00", "--due", "00=soon"], "--due needs a lab and a day, such as 01=2026-10-05, not '00=soon'"),
        (["--lab", "00", "--due", "00=2026-10-05", "00=2026-10-06"], "--due gives 00 twice"),
        (["--lab", "00", "--due", "99=2026-10-05"], "lab '99' has no exercises"),
        (["--lab", "00", "--out", "."], "is there already; name a new folder"),
    ],
)
def test_bad_input_gets_one_line(argv, told, capsys):
    with pytest.raises(SystemExit):
        cli.main(["release", *argv])
    assert told in (said := capsys.readouterr().err) and said.count("\n") == 1
