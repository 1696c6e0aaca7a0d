"""The package keeps its shape: who imports whom, what loads what, that everything public is explained."""

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
    ("formats/rounding_spec.py", "from lplab import figures"),
    ("datasets/synthetic.py", "import plotly"),
    ("figures/style.py", "import ipywidgets"),
    ("widgets/live/live_figure.py", "import torch"),
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
    """In CPU time, which a busy machine stretches too: so compared with that of numpy, which the package needs."""
    script = """
import time
t = time.process_time(); import numpy; numpy_takes = time.process_time() - t
t = time.process_time(); import lplab.formats; formats_take = time.process_time() - t
print(numpy_takes, formats_take)
"""
    runs = [[float(seconds) for seconds in python(script).split()] for _ in range(3)]
    numpy_takes, formats_take = map(min, zip(*runs, strict=True))
    assert formats_take < 2 * numpy_takes


# ---- everything public is explained ----------------------------------------------------------------------------------


def test_everything_public_is_explained():
    trees = {path.relative_to(PROJECT).as_posix(): ast.parse(path.read_text("utf-8")) for path in MODULES}
    assert len(trees) > 100
    assert [name for name, tree in trees.items() if not ast.get_docstring(tree)] == []
    bare = [f"{name}: {node.name}" for name, tree in trees.items() for node in public(tree) if not explained(node)]
    assert bare == []


def explained(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return bool(ast.get_docstring(node))


def public(tree: ast.Module | ast.ClassDef) -> list[ast.FunctionDef | ast.ClassDef]:
    """The public functions and classes of a module, and the public methods of those classes."""
    found = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")]
    return found + [inner for node in found if isinstance(node, ast.ClassDef) for inner in public(node)]
