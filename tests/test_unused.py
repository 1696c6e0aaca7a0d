"""Everything in lplab is used by more than tests (vulture looks for names), or says here why not."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

vulture = pytest.importorskip("vulture")

ROOT = Path(__file__).parents[1]
PROGRAMS = ("lplab", "benchmarks", "docs", ".github", "binder", "start.py", "hatch_build.py")
TEXTS = ("lplab/**/*.html", "lplab/**/*.js", "data/hardware/*.csv")  # these name fields and columns
PAGES = ("README.md", "docs/*.md")

# Functions that these decorators keep are called by what keeps them.
CALLED = ["@claim.*", "@*.validate", "@*.observe", "@*.default"]
# Names that nothing in the repository calls, and who does.
CALLERS = {
    "Python": "__getattr__ __dir__ __class__ visit_AnnAssign formatwarning showwarning external_attr compress_type",
    "argparse, which tells numbers from options": "_negative_number_matcher",
    "IPython, which shows objects": "_repr_mimebundle_ include exclude _ipython_display_",
    "PyTorch": "setup_context allocate async_op incompatible_keys output_gradients supports_higher_order_operators",
    "ipywidgets and Plotly's widget": "bar_style flex flex_flow _validate _config _trait_values",
    "onnx and faster-coco-eval": "ir_version iouThrs",
    "Triton's kernels, which are asked for by name": "rounded_number two_roundings encoded power_of_two_blocks "
    "largest_of_blocks rounded_scale_blocks encoded_power_of_two_blocks encoded_rounded_scale_blocks decoded_blocks",
    "the kernels of blocks, by the name of their rule": "nearest_in_block evenly_spaced_in_block general_in_block",
    "Fabric.seconds, by the kind of collective": "_all_reduce _broadcast _gather_shards",
    "the tuner of NCCL, by the name of a link": "pci",
    "the emulation, by the name of a role": "input_gradient",
    "claims and labs, by the name of a measured number": "outputs_saturated errors_saturated updates_saturated "
    "weights_saturated",
    "readers of a link, who ask where its numbers are from": "latency_grade bandwidth_grade",
    "users, who ask an object": "is_shown dynamic_range_db whole_shape recovered",
    "users whose model has layer norms, before they rotate it": "without_mean",
    "tokenizers, which reads what is set": "pre_tokenizer",
    "users of the name that SAWB's authors gave": "sawb_scale",
}


class Search(vulture.Vulture):
    """Vulture, for which a name is not used because ``__all__`` lists it."""

    def visit_Assign(self, node: Any) -> None:
        """Leave ``__all__`` alone."""


def cells() -> Iterator[tuple[Path, str]]:
    """The code of each lab, without IPython's own commands."""
    for path in sorted((ROOT / "labs").glob("*.ipynb")):
        code = [
            "".join(cell["source"])
            for cell in json.loads(path.read_text("utf-8"))["cells"]
            if cell["cell_type"] == "code"
        ]
        yield path, "\n".join(line for line in "\n".join(code).splitlines() if not line.lstrip().startswith(("%", "!")))


def words(patterns: tuple[str, ...]) -> set[str]:
    """All names in texts that programs read; of a page only those in code."""
    texts = (path.read_text("utf-8") for pattern in patterns for path in ROOT.glob(pattern))
    code = r"```.*?```|`[^`]+`" if patterns == PAGES else r".+"
    return {
        word for text in texts for part in re.findall(code, text, re.S) for word in re.findall(r"[A-Za-z_]\w+", part)
    }


def test_nothing_in_lplab_is_used_by_tests_alone():
    """A function that is planted beside the others is found, and every exception has a name that needs it."""
    search = Search(ignore_decorators=CALLED)
    search.scavenge([ROOT / program for program in PROGRAMS])
    for path, code in [*cells(), ("lplab/formats/planted.py", "def half_that_nobody_needs(x):\n    return x / 2\n")]:
        search.scan(code, path)
    search.used_names |= words(TEXTS) | words(PAGES)
    unused = [item for item in search.get_unused_code(60) if item.typ != "import"]  # ruff finds unused imports
    # The folder of the clone may be called lplab, too.
    found = {
        item.name: f"{item.filename}:{item.first_lineno}"
        for item in unused
        if (ROOT / item.filename).is_relative_to(ROOT / "lplab")
    }
    assert found.pop("half_that_nobody_needs") == "lplab/formats/planted.py:1"
    allowed = {name for names in CALLERS.values() for name in names.split()}
    lonely = [f"{at}: {name}" for name, at in found.items() if name not in allowed]
    assert lonely == [], "use it, or take it out"
    # Vulture knows a name and not whose it is: one that somebody else bears, too, counts as used.
    over = [who for who, names in CALLERS.items() if not found.keys() & set(names.split())]
    assert over == [], "these exceptions are not needed any more"
