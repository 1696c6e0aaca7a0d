"""Each command that a page tells to type runs with nothing but what the page tells to install."""

import ast
import doctest
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests import only

PROJECT = Path(__file__).parents[1]
LPLAB = ("-m", "lplab")
LABS = sorted((PROJECT / "labs").glob("[0-9]*.ipynb"))


def blocks(page: str) -> list[str]:
    """The Python of a page."""
    found = re.findall(r"^```python\n(.*?)^```$", (PROJECT / page).read_text("utf-8"), re.M | re.S)
    return [doctest.script_from_examples(block) if block.startswith(">>>") else block for block in found]


def imports(*sources: str) -> str:
    """All import statements of some Python."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    return "\n".join(ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))


def code_of(lab: Path) -> str:
    """The code of a lab, without IPython's own commands."""
    cells = [cell.source for cell in nbformat.read(lab, as_version=4).cells if cell.cell_type == "code"]
    return "\n".join(re.sub(r"^\s*[%!].*$", "", cell, flags=re.M) for cell in cells)


REFERENCE = f"""
import sys
sys.path.insert(0, {str(PROJECT / "docs/_ext")!r})
from build_site import PACKAGES, reference
assert all("automodule" in reference(name) for name in PACKAGES)
"""
COMPILE = """
import joblib
from lplab.cli import main
joblib.Parallel.__call__ = lambda *_: None  # a minute of compiling
main(["compile"])
"""
SIMULATE = "simulate resnet50 --chip v100 --recipe fp16_mixed --devices 64 --link ethernet_10g --compressor scalecom"
TIMELINE = "simulate gpt --devices 256 --per-node 8 --inner-link nvlink4 --sharded --html step.html"
SWEEP = "simulate resnet50 --sweep devices=1:1024:11 --sweep compressor=none,topk,scalecom --csv"
FOR_COLAB = "release --lab 00 --for colab --site https://example.org/lplab --package lplab --out colab"
TRAIN = "train --model mlp --learners 4 --compressor scalecom:chunk=50 --steps 1"
COMMANDS = {  # what a page tells to install, and what it tells to do then
    "README, numpy": ("", ["-c", blocks("README.md")[0]]),
    "README, formats": ("", [*LPLAB, "formats", "e4m3fn"]),
    "README, simulate": ("", [*LPLAB, *SIMULATE.split()]),
    "README, torch": ("torch", ["-c", blocks("README.md")[1]]),
    "README, train": ("torch", [*LPLAB, *TRAIN.split()]),
    "README, train --distributed": ("torch", ["-c", "import lplab.parallel.launch"]),
    "README, fast": ("fast", ["-c", COMPILE]),
    "README, lab": ("lab", ["-m", "jupyterlab", "--version"]),
    "README, the labs": ("lab", ["-c", imports(*map(code_of, LABS))]),
    "README, report": ("lab", ["-Pm", "lplab", "report", "--help"]),
    "README, grade": ("lab", ["-Pm", "lplab", "grade", ".", "--out", "marks"]),
    "README, site": ("lab,site", ["-c", REFERENCE]),
    "gpu": ("torch", ["-c", imports(*blocks("docs/gpu.md"))]),
    "quantize": ("", ["-c", "\n".join(blocks("docs/quantize.md"))]),
    "own_network": ("lab,export", ["-c", imports(*blocks("docs/own_network.md"))]),
    "own_network, data": ("data", ["-c", "import pooch, tqdm, lplab.datasets.downloads"]),
    "own_network, a language model": ("llm", ["-c", "import gguf, tokenizers, pooch, lplab.models, lplab.cli.fetch"]),
    "learners": ("torch", ["-c", imports(*blocks("docs/learners.md"))]),
    "compress_training": ("torch", ["-c", imports(*blocks("docs/compress_training.md"))]),
    "clusters": ("lab", ["-c", "\n".join(blocks("docs/clusters.md"))]),
    "clusters, a timeline": ("lab", [*LPLAB, *TIMELINE.split()]),
    "clusters, a sweep": ("lab", [*LPLAB, *SWEEP.split()]),
    "front_ends, release": ("lab", [*LPLAB, *FOR_COLAB.split()]),
    "teaching, autograder": ("course", [*LPLAB, "autograder", "--lab", "01", "--out", "autograder.zip"]),
    "measure_claims, cards": ("lab", [*LPLAB, "claims", "table", "--html", "-o", "claims.html"]),
    "clusters, energy": ("energy", ["-c", "import codecarbon"]),
    "measure_claims, a cluster": ("cluster,lab", ["-c", "import distributed, lplab.claims.framework.dask_cluster"]),
    "outside_models": ("torch,outside", ["-c", imports(*blocks("docs/outside_models.md"))]),
    "quantize_language_model": ("llm,outside", ["-c", imports(*blocks("docs/quantize_language_model.md"))]),
    "teaching, a container": ("course", [*LPLAB, "grade", ".", "--out", "marks"]),
    "teaching, a cluster": ("cluster,course", ["-c", "import distributed, lplab.exercises.isolation.processes"]),
    "teaching, capstone": ("course,torch", [*LPLAB, "capstone", "--help"]),
}
NEEDED = {  # few have these
    "clusters, energy": "codecarbon",
    "outside_models": "transformers",
    "quantize_language_model": "transformers",
    "own_network, a language model": "gguf",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_needs_no_more_than_its_page_installs(name, tmp_path):
    """In a folder with a space and a letter beyond ASCII, without programs on the PATH."""
    extras, command = COMMANDS[name]
    if name in NEEDED and not importlib.util.find_spec(NEEDED[name]):
        pytest.skip(f"{NEEDED[name]} is not installed here")
    folder = tmp_path / "söme folder"
    folder.mkdir()
    env = only.environment(folder, *filter(None, extras.split(",")))
    done = subprocess.run([sys.executable, *command], cwd=folder, env=env, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_an_extra_does_not_bring_is_not_found(tmp_path):
    env = only.environment(tmp_path)
    script = "import importlib.util as u, importlib.metadata as m; print(u.find_spec('nbformat'), u.find_spec('numpy'))"
    script += "; print(sorted(each.name for each in m.distributions() if each.name in ('nbformat', 'numpy')))"
    script += "; import lplab.formats; import nbformat"
    done = subprocess.run([sys.executable, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("None ModuleSpec") and "['numpy']" in done.stdout
    assert done.stderr.endswith("No module named 'nbformat'\n")


def test_tests_and_labs_import_what_their_extras_bring():
    """At the top level of a file; what a test imports after `pytest.importorskip` is of another extra."""
    there = only.required("lab", "test") | {"lplab"}
    missing = []
    for path in [*(PROJECT / "tests").rglob("*.py"), *LABS]:
        source = path.read_text("utf-8") if path.suffix == ".py" else code_of(path)
        allowed = set(re.findall(r'importorskip\("(\w+)', source))
        for node in ast.parse(source).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in {name.partition(".")[0] for name in names} - allowed - sys.stdlib_module_names:
                if only.modules().get(name, there).isdisjoint(there):
                    missing.append(f"{path.name} imports {name}")
    assert not missing
