"""The house keeps its shape: who imports whom, what loads what, how long a module is, that everything is explained."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PACKAGE = PROJECT / "lplab"
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("torch", "numba", "plotly", "ipywidgets", "anywidget", "IPython", "pandas", "scipy")


def python(script: str, folder: Path = PROJECT) -> str:
    """Output of a fresh Python that finds the package in ``folder``."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


# ---- who imports whom ------------------------------------------------------------------------------------------------


def lint_imports(folder: Path) -> tuple[bool, str]:
    """Whether the package in ``folder`` keeps the contracts of pyproject.toml, and import-linter's report."""
    script = (
        "from importlinter.cli import lint_imports\n"
        f"print(lint_imports({str(PROJECT / 'pyproject.toml')!r}, no_cache=True))"
    )
    report, _, code = python(script, folder).strip().rpartition("\n")
    return code == "0", report


def test_every_floor_imports_only_from_below():
    kept, report = lint_imports(PROJECT)
    assert kept, report


@pytest.mark.parametrize(("module", "line"), [
    ("formats/plan.py", "from lplab import figures"),
    ("datasets.py", "import plotly"),
    ("figures/style.py", "import ipywidgets"),
    ("widgets/live_figure.py", "import torch"),
])  # fmt: skip
def test_a_wrong_import_is_noticed(tmp_path, module, line):
    shutil.copytree(PACKAGE, tmp_path / "lplab")
    with (tmp_path / "lplab" / module).open("a") as file:
        file.write(f"\n\ndef spoiled():\n    {line}\n")
    kept, report = lint_imports(tmp_path)
    assert not kept and "BROKEN" in report


# ---- what loads what -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["lplab", "lplab.formats", "lplab.datasets", "lplab.cli"])
def test_importing_stays_light(module):
    assert python(f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])") == "[]\n"


def test_figures_load_no_widgets():
    assert python("import sys, lplab.figures; print('ipywidgets' in sys.modules, 'IPython' in sys.modules)") == (
        "False False\n"
    )


def test_formats_need_numpy_alone():
    absent = "".join(f"sys.modules[{name!r}] = None\n" for name in HEAVY)
    script = f"import sys\n{absent}from lplab import formats\nprint(formats.get('e4m3fn').quantize(0.3))"
    assert python(script) == "0.3125\n"


def test_importing_is_fast():
    script = "import time; t = time.process_time(); import lplab.formats; print(time.process_time() - t)"
    assert min(float(python(script)) for _ in range(5)) < 0.3, "CPU seconds to import lplab.formats, best of five"


# ---- size and style --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*MODULES, PROJECT / "start.py"], ids=name_of)
def test_no_module_is_longer_than_300_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= 300


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_everything_public_is_explained(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    bare = [node.name for node in public(tree) if not ast.get_docstring(node)]
    assert bare == []


def public(tree: ast.Module | ast.ClassDef) -> list[ast.FunctionDef | ast.ClassDef]:
    """The public functions and classes of a module, and the public methods of those classes."""
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")]
    return found + [inner for node in found if isinstance(node, ast.ClassDef) for inner in public(node)]


def test_nine_functions_in_ten_fit_on_a_screen():
    functions = [
        (length(node), f"{name_of(path)}: {node.name}")
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    long = sorted((lines, name) for lines, name in functions if lines > 25)
    assert len(long) <= len(functions) / 10, long


def length(function: ast.FunctionDef) -> int:
    """Lines from ``def`` to the end, without the docstring."""
    docstring = function.body[0] if ast.get_docstring(function) else None
    return function.end_lineno - function.lineno + 1 - (docstring.end_lineno - docstring.lineno + 1 if docstring else 0)
