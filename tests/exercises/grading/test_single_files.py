"""Labs as single files for Colab and Kaggle: they install lplab, lead to the site, and draw their widgets."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lplab import cli
from lplab.exercises.grading.single_files import alone, write_single_files
from lplab.labs import front_end
from lplab.widgets.controls import WIDGET_VIEW

LABS = Path(__file__).parents[3] / "labs"
SITE = "https://example.org/lplab"


def texts(book):
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "markdown"]


@pytest.mark.parametrize("service", ["colab", "kaggle"])
def test_no_word_of_another_front_end_stays(service):
    links = set()
    for path in sorted(LABS.glob("[0-9]*.ipynb")):
        book = alone(json.loads(path.read_text("utf-8")), service, SITE, "lplab[colab]==0.1.0")
        text = "\n".join(texts(book))
        assert "start.py" not in text and "Run All Cells" not in text, path.name
        assert text.count({"colab": "Choose Runtime → Run all", "kaggle": "Choose Run → Run All"}[service]) == 1, (
            path.name
        )
        links |= set(re.findall(r"\]\(([^)#\s]*)", text))
        nbformat.validate(nbformat.from_dict(book))
    assert {link for link in links if not link.startswith("https://")} <= {""}
    assert {f"{SITE}/docs/glossary.html", f"{SITE}/labs/05_why_sums_break_first.html"} <= links
    pages = [link.removeprefix(SITE + "/").removesuffix(".html") for link in links if link.startswith(SITE)]
    made = {"docs/exercises"}  # a page that the site's build makes
    there = [
        any((LABS.parent / f"{page}.{end}").is_file() for end in ("md", "ipynb")) or page in made for page in pages
    ]
    assert all(there), [page for page, is_there in zip(pages, there, strict=True) if not is_there]


def test_the_command_writes_files(tmp_path, capsys):
    wheel = "https://example.org/lplab-0.1.0-py3-none-any.whl"
    words = ["release", "--lab", "00", "--for", "colab", "--site", SITE + "/", "--package", wheel]
    assert cli.main([*words, "--due", "00=2026-10-05", "--instructor", "Ada", "--out", str(tmp_path / "new")]) == 0
    (file,) = (tmp_path / "new").iterdir()
    assert str(file) in capsys.readouterr().out
    book = json.loads(file.read_text("utf-8"))
    assert f'%pip install --quiet "lplab[colab] @ {wheel}"' in "".join(book["cells"][1]["source"])
    assert "**Ada · to be handed in by 2026-10-05**" in texts(book)[0]
    assert "type into a new cell `!lplab report`" in "\n".join(texts(book))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--site must be the address"),
        (("--site", SITE, "--package", "'; rm -rf ~"), "--package must be what pip installs"),
        (("--site", SITE, "--lab", "99"), "99"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.delenv("LPLAB_SITE", raising=False)
    line = ["release", "--lab", "00", "--for", "kaggle", "--out", str(tmp_path / "new"), *words]
    with pytest.raises(SystemExit, match="2"):
        cli.main(line)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_brings_its_own_package(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["release", "--lab", "00", "--package", "lplab", "--out", str(tmp_path / "new")])
    assert "--package is for" in capsys.readouterr().err


def test_an_unknown_service_is_named(tmp_path):
    with pytest.raises(ValueError, match="colab, kaggle"):
        write_single_files(tmp_path / "new", ["00"], "deepnote", SITE, "lplab")


def test_progress_lasts_where_the_service_keeps_files(tmp_path, monkeypatch):
    monkeypatch.setenv("LPLAB_PROGRESS", "elsewhere.json")
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    monkeypatch.setattr(front_end, "KAGGLE", tmp_path)
    assert front_end.prepare() == ""
    monkeypatch.delenv("LPLAB_PROGRESS")
    assert str(tmp_path / "progress.json") in front_end.prepare()


STAND_IN = "import os\n\ndef enable_custom_widget_manager():\n    os.environ['LPLAB_STAND_IN'] = 'on'\n"


@pytest.mark.slow  # a kernel that runs a lab
def test_each_widget_is_display_data_in_colab(tmp_path):
    """Colab gives its manager to display data alone: a widget that is a cell's result would not be drawn."""
    (tmp_path / "google" / "colab").mkdir(parents=True)
    (tmp_path / "google" / "colab" / "__init__.py").write_text("")
    (tmp_path / "google" / "colab" / "output.py").write_text(STAND_IN)
    (file,) = write_single_files(tmp_path / "new", ["00"], "colab", SITE, "lplab[colab]")
    book = nbformat.read(file, as_version=4)
    install = book.cells[1]
    install.source = install.source.replace('%pip install --quiet "lplab[colab]"', "import google.colab, os")
    book.cells.append(nbformat.v4.new_code_cell("assert os.environ['LPLAB_STAND_IN'] == 'on'"))
    nbformat.write(book, file)
    run = (
        "import sys, nbformat, nbclient; book = nbformat.read(sys.argv[1], 4);"
        "nbclient.NotebookClient(book, timeout=300).execute(); nbformat.write(book, sys.argv[1])"
    )
    env = {"PYTHONPATH": f"{tmp_path}:{LABS.parent}", "LPLAB_PROGRESS": str(tmp_path / "progress.json")}
    subprocess.run([sys.executable, "-c", run, str(file)], check=True, timeout=400, env=os.environ | env)
    outputs = [output for cell in nbformat.read(file, as_version=4).cells for output in cell.get("outputs", ())]
    kinds = [output.output_type for output in outputs if WIDGET_VIEW in output.get("data", {})]
    assert kinds and set(kinds) == {"display_data"}
