"""nbval turns red in every lab when the library is wrong.

A kernel imports lplab with one wrong line, and nbval's own code runs the cells until one is red.
"""

import json
import re
from pathlib import Path

import pytest

from tests.labs import warm
from tests.labs.small_notebook import small_notebook

LABS = sorted((warm.PROJECT / "labs").glob("*.ipynb"))
BY_DEFAULT = ("09", "12")

# For each lab a constant of the library on which its facts stand: file, text, and what a mistake would make of it.
BIAS = (
    "formats/catalogue.py",
    '_float("e4m3fn", 4, 3, specials="fn")',
    '_float("e4m3fn", 4, 3, bias=8, specials="fn")',
)
MEAN = (
    "training/fixed_point/training.py",
    "update *= -run.learning_rate / batch",
    "update *= -run.learning_rate / (batch + 1)",
)
FLUSH = (
    "figures/range_outcomes.py",
    "zero = _log2(window.flush)",
    "zero = _log2(window.smallest)",
)
DLFLOAT = (
    "formats/catalogue.py",
    '_float("dlfloat16", 6, 9,',
    '_float("dlfloat16", 7, 8,',  # still 16 bits: other numbers, no error
)
PHASES = (
    "quantizers/radix4.py",
    '_BIASES = {"even": 4, "odd": 4.5}',
    '_BIASES = {"even": 3, "odd": 3.5}',
)
FORWARD = (
    "formats/catalogue.py",
    '_float("hfp8_forward", 4, 3, bias=11, specials="fnuz")',
    '_float("hfp8_forward", 4, 3, bias=8, specials="fnuz")',
)
LEVELS = (
    "quantizers/clipping.py",
    "return numerators / (levels - 1)",
    "return numerators / levels",
)
CODES = (
    "compression/wire/adacomp_wire.py",
    "ONE_BYTE_BIN = 63",
    "ONE_BYTE_BIN = 40",
)
UNION = (
    "compression/ratios.py",
    "return 1 - (1 - density) ** learners",
    "return density * learners",
)
IDLE = (
    "hardware/footprint/step_energy.py",
    "IDLE_SHARE = 1 / 7 ",
    "IDLE_SHARE = 1 / 6 ",
)
ROOF = (
    "hardware/layer_times.py",
    "np.maximum(self.compute_seconds",
    "np.minimum(self.compute_seconds",
)
HIDING = (
    "hardware/overlap.py",
    "late = remaining - share * (",
    "late = remaining - 0.9 * share * (",
)
SHARED = (
    "formats/block_format.py",
    "self._scale.bits / math.prod(self.tile)",
    "self._scale.bits / sum(self.tile)",
)
GAP = (
    "recordings/ingredient_runs.py",
    "return self.test[chosen].astype(np.float64) - self.test[other]",
    "return self.test[chosen].astype(np.float64) - self.test[other] + 0.01",
)
INTEGERS = (
    "quantizers/layer_inputs.py",
    "half = 2 ** (self.bits - 1) - 1",
    "half = 2 ** (self.bits - 1)",
)
MEETING = (
    "hardware/local_steps.py",
    "return self.step_alone_seconds / self.step_seconds",
    "return self.step_alone_seconds / self.step_seconds / 2",
)
MUTATIONS = {
    "00": BIAS,
    "01": BIAS,
    "02": MEAN,
    "03": FLUSH,
    "04": LEVELS,
    "05": DLFLOAT,
    "06": FORWARD,
    "07": PHASES,
    "08": HIDING,
    "09": CODES,
    "10": UNION,
    "11": ROOF,
    "12": IDLE,
    "13": SHARED,
    "14": GAP,
    "15": INTEGERS,
    "16": MEETING,
}


@pytest.fixture(scope="module")
def kernels():
    with warm.kernel_server() as server:
        yield server


def cells_with_a_fault(path: Path, folder: Path, kernels: warm.KernelServer, session: pytest.Session):
    """The tests of a notebook's cells, in a kernel whose lplab is wrong."""
    file, right, _ = fault = MUTATIONS[path.name[:2]]
    found = (warm.PROJECT / "lplab" / file).read_text("utf-8").count(right)
    assert found == 1, f"{right} is not in {file}: the mutation needs to be written anew"
    return warm.cells_of(path, kernels.start(folder, fault), session)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.name[:2] in BY_DEFAULT else pytest.mark.slow, id=path.stem) for path in LABS],
)
def test_a_lab_turns_red(path, tmp_path, kernels, request):
    messages = []
    for cell in cells_with_a_fault(path, tmp_path, kernels, request.session):
        messages.append(warm.failure_message(cell))
        if re.search("mismatch|AssertionError", messages[-1]):
            return
    pytest.fail("no cell notices: " + "\n".join(filter(None, messages)))


def test_only_wrong_numbers_are_red(tmp_path, kernels, request):
    path = tmp_path / "01_small.ipynb"
    path.write_text(json.dumps(small_notebook()))
    messages = [warm.failure_message(cell) for cell in cells_with_a_fault(path, tmp_path, kernels, request.session)]
    assert ["mismatch" in text for text in messages] == [False, True, True, *[False] * 5], messages
    assert list(map(bool, messages)) == [False, True, True, *[False] * 5], messages  # 0.3125 is a value of both formats


def test_a_right_library_is_green(tmp_path, kernels, request):
    path = tmp_path / "01_small.ipynb"
    path.write_text(json.dumps(small_notebook()))
    cells = warm.cells_of(path, kernels.start(tmp_path), request.session)
    assert len(cells) == 8 and not any(map(warm.failure_message, cells))
