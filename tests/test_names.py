"""Names say one thing: no two modules and no two classes of lplab have one name, and its front is what the site lists.

The front of lplab is the ``__all__`` of its packages. What is not there is internal and may change.
"""

import ast
import pkgutil
import re
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

import lplab

for needed in ("torch", "plotly", "ipywidgets", "numba"):
    pytest.importorskip(needed)

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs/_ext"))

from build_site import PACKAGES, SECTIONS  # noqa: E402

# ---- one name, one meaning -------------------------------------------------------------------------------------------

SAME_MODULES: dict[str, str] = {}  # names, and why they may stand twice
SAME_CLASSES: dict[str, str] = {}
ACRONYMS = "AWQ CNN DDP DGC FSDP GEMM GPT GPTQ KIVI LLM LSQ LSTM LUQ MAC MLP MSE ONNX PACT QSGD RMS RNN SAWB SGD"


def sources() -> list[Path]:
    """The files of lplab, but for the packages' own."""
    return [path for path in sorted((ROOT / "lplab").rglob("*.py")) if path.name != "__init__.py"]


def is_of_a_lab(path: Path) -> bool:
    """Whether a module holds exercises of one lab: it bears the name of the function that students write."""
    return path.parent.parent.name == "exercises" and path.parent.name.startswith("lab")


def twice(named: dict[str, list[str]], reasons: dict[str, str]) -> dict[str, list[str]]:
    """The names that stand in several places, but for those that a reason allows."""
    return {name: at for name, at in named.items() if len(at) > 1 and name not in reasons}


@pytest.mark.parametrize("labs", [False, True], ids=["library", "labs"])
def test_no_two_modules_have_one_name(labs):
    named = defaultdict(list)
    for path in sources():
        if is_of_a_lab(path) == labs:
            named[path.stem].append(str(path.relative_to(ROOT)))
    assert len(named) > 20 and twice(named, SAME_MODULES) == {}
    if not labs:
        assert [name for name in SAME_MODULES if len(named[name]) < 2] == [], "no exception is needed any more"


def test_no_two_classes_have_one_name():
    named = defaultdict(list)
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                named[node.name].append(str(path.relative_to(ROOT)))
    assert len(named) > 300 and twice(named, SAME_CLASSES) == {}


def spelt_as_words(name: str) -> list[str]:
    """The acronyms in a class's name that papers, PyTorch and torchao write in capitals, and the name does not."""
    return [part for part in re.findall(r"[A-Z][a-z]+", name) if part.upper().removesuffix("S") in ACRONYMS.split()]


def test_acronyms_in_names_of_classes_are_in_capitals():
    trees = [ast.parse(path.read_text("utf-8")) for path in sources()]
    names = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    assert len(names) > 300 and [name for name in names if spelt_as_words(name)] == []
    assert [spelt_as_words(name) for name in ("RowLstm", "_SawbRow", "Gemms", "MinMSE", "QSGD")] == [
        ["Lstm"], ["Sawb"], ["Gemms"], [], []
    ]  # fmt: skip


def test_a_second_meaning_is_noticed():
    at = {"verdict": ["lplab/claims/verdict.py", "lplab/exercises/checks/verdict.py"], "close": ["close.py"]}
    assert list(twice(at, {})) == ["verdict"] and twice(at, {"verdict": "a reason"}) == {}


# ---- the front -------------------------------------------------------------------------------------------------------

PROMISED = {  # what notebooks of others use; these names keep their meaning
    "formats": "get names FloatFormat FixedFormat IntFormat BlockFormat",
    "arithmetic": "dot matmul",
    "quantizers": "sawb_clip sawb_scale PACT GradScale two_phase Hadamard",
    "training": "recipes quantize_model recipe_report quantizer_state Trainer Recorder quantize_for_inference",
    "compression": "AdaComp ScaleCom TopK Compressor",
    "parallel": "simulate_learners ddp_hook",
    "hardware": "accelerators workloads simulate Cluster footprint",
    "": "formats arithmetic quantizers training compression parallel hardware figures widgets exercises",
}
OF_A_FORMAT = "bits max smallest_normal smallest_subnormal codebook quantize encode decode"
ROWS = (
    "fp32 bf16 fp16 tf32 dlfloat16 fp8_152 hfp8_forward hfp8_backward radix4_fp4_even radix4_fp4_odd e4m3fn e5m2 "
    "e4m3fnuz e5m2fnuz e4m3b11fnuz e4m3 e3m4 e3m2 e2m3 e2m1 e8m0 q4.12 int2 int4 int8 mxfp8_e4m3 mxfp8_e5m2 mxfp6_e3m2 "
    "mxfp6_e2m3 mxfp4 mxint8 nvfp4 binary8p3 binary8p4 binary8p5 posit8_1 posit16_1 posit8_2 posit16_2 lns8"
)
RECIPES = (
    "hfp8_2019 fixed16_2015 fp8_2018 pact_sawb_2019 int4_fp4_2020 luq_2022 fp32 bf16 deepseek_2024 mxfp8_2025 "
    "mxfp4_2025 nvfp4_2025 quartet_2025"
)


def package(name: str) -> ModuleType:
    """A package of lplab by its name without the prefix; lplab itself for ""."""
    return pkgutil.resolve_name(f"lplab.{name}" if name else "lplab")


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names_are_public(name):
    assert set(PROMISED[name].split()) - set(package(name).__all__) == set()


def test_promised_formats_and_recipes_are_there():
    for row in ROWS.split():
        made = lplab.formats.get(row)
        kept = OF_A_FORMAT.split() if hasattr(made, "codebook") else ("bits", "quantize", "encode", "decode")
        assert [word for word in kept if not hasattr(made, word)] == [], row
    assert [name for name in RECIPES.split() if lplab.training.recipes.get(name).name != name] == []


def public_names(module: ModuleType) -> list[str]:
    """What a page of the reference lists: ``__all__``, or all public names that a single module defines."""
    if hasattr(module, "__path__"):
        return list(module.__all__)
    return list(getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")]))


@pytest.mark.parametrize("name", ["", *PACKAGES])
def test_a_front_names_what_it_has_once_and_nothing_private(name):
    module = package(name)
    public = public_names(module)
    assert len(set(public)) == len(public)
    assert [each for each in public if each.startswith("_") or not hasattr(module, each)] == []


def test_the_reference_lists_each_front():
    """A package that users may rely on has a page, and a page is a package that they can reach by public names."""
    assert set(lplab.__all__) <= set(PACKAGES)
    for page in PACKAGES:
        room, _, name = page.rpartition(".")
        assert name in package(room).__all__, f"lplab.{page} has a page in the reference and is in no __all__"
        for each in getattr(package(page), "__all__", ()):
            if isinstance(getattr(package(page), each), ModuleType):
                assert f"{page}.{each}" in PACKAGES, f"lplab.{page}.{each} is public and has no page in the reference"
    _title, _sentence, pages = SECTIONS["api/index"]
    assert {f"api/{page}" for page in PACKAGES} <= set(pages.split())
