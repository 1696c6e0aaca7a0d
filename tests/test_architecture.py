"""The page on the architecture: its drawings are those of the code, its walks are walked, its examples are added."""

import gc
import importlib
import re

import pytest

from tests import architecture

TEXT = architecture.PAGE.read_text("utf-8")
EXAMPLES = dict(re.findall(r"^### (?:A|An) (\w+)\n[^#]*?^```python\n(.*?)^```$", TEXT, re.M | re.S))
pytest.importorskip("torch")
pytest.importorskip("ipywidgets")


@pytest.fixture(scope="module")
def graph():
    return architecture.imports()


# ---- drawings --------------------------------------------------------------------------------------------------------


def test_the_page_is_as_the_code_is():
    assert architecture.page_with(architecture.parts(), TEXT) == TEXT, "type: python -m tests.architecture"


def test_no_modules_import_each_other_in_a_circle(graph):
    assert architecture.circles_of_modules(graph) == []


def test_a_circle_is_noticed(graph):
    before, after = "lplab.formats.rounding", "lplab.formats.base"
    graph.add_import(importer=before, imported=after)
    try:
        (circle,) = architecture.circles_of_modules(graph)
    finally:
        graph.remove_import(importer=before, imported=after)
    assert {before, after} <= set(circle)


# ---- walks -----------------------------------------------------------------------------------------------------------


def test_a_tensor_enters_few_modules():
    modules = architecture.entered(architecture.walk_of_a_tensor(), depth=3)
    assert len(modules) <= 5 and len(set(modules)) <= 4  # apply once more: the module that knows torch asks it to round


def test_a_gradient_goes_from_the_hook_to_the_compressor_and_back():
    """It comes back for each collective, which the compressor asks for and does not perform."""
    rooms = architecture.entered(architecture.walk_of_a_gradient(), depth=1)
    assert rooms[:3] == ["parallel", "compression", "parallel"] and len(rooms) <= 9


def test_no_model_outlives_its_process_group(monkeypatch):
    """PyTorch can then wait for ever, and the walk stood still on a busy machine."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    before = {id(thing) for thing in gc.get_objects() if issubclass(type(thing), DistributedDataParallel)}
    destroy, alive = dist.destroy_process_group, []

    def watched_destroy():
        models = (thing for thing in gc.get_objects() if issubclass(type(thing), DistributedDataParallel))
        alive.append([model for model in models if id(model) not in before])
        destroy()

    monkeypatch.setattr(dist, "destroy_process_group", watched_destroy)
    architecture.walk_of_a_gradient()
    assert alive == [[]]


def test_an_answer_is_read_judged_and_recorded_in_this_order():
    asked = ("storage_place", "progress_path", "_in_a_browser")  # of progress, to say in a browser where it is kept
    calls = [call for call in architecture.walk_of_an_answer() if call[1] not in asked]
    parts = architecture.entered(calls, depth=2)
    expected = [f"exercises.{part}" for part in ("notebook", "model", "isolation", "checks", "progress")]
    assert [part for part in dict.fromkeys(parts) if part in expected] == expected
    recorded = parts.index("exercises.progress")
    assert not {"exercises.isolation", "exercises.model"} & set(parts[recorded:])


# ---- examples --------------------------------------------------------------------------------------------------------

NEIGHBOURS = """
from dataclasses import dataclass
from math import prod
import numpy as np
from lplab import figures
from lplab import formats as F
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult
from lplab.compression import arrays
from lplab.compression.compressor import AllReduce, Compressor, Transfer, divided
from lplab.exercises.model.exercise import Example, Exercise, mistake
from lplab.exercises.model.forms import Number
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice, ExplorerState, control
from lplab.widgets.mechanisms import Mechanism
"""


@pytest.fixture
def added(request, monkeypatch, tmp_path):
    """What the page's example for the test's own subject defines, as a module with a source file."""
    subject = request.node.name.removeprefix("test_add_")
    (tmp_path / f"{subject}_example.py").write_text(NEIGHBOURS + EXAMPLES[subject], "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module(f"{subject}_example")


def test_every_example_has_at_most_ten_lines_and_a_test():
    subjects = ["format", "recipe", "compressor", "chip", "figure", "explorer", "mechanism", "exercise", "claim"]
    lines = {subject: len([line for line in code.splitlines() if line.strip()]) for subject, code in EXAMPLES.items()}
    assert list(lines) == subjects and max(lines.values()) <= 10, lines
    assert all(f"test_add_{subject}" in globals() for subject in subjects)


def test_add_format(added, monkeypatch):
    from lplab import formats as F
    from lplab.formats import catalogue

    monkeypatch.setitem(catalogue._CATALOGUE, added.FORMAT.name, added.FORMAT)
    codebook = F.get("fp6_bias5").codebook()
    assert F.names()[-1] == "fp6_bias5" and F.get("fp6_bias5").quantize(0.3) in codebook and len(codebook) == 64


def test_add_recipe(added, monkeypatch):
    import torch

    from lplab import formats as F
    from lplab.training import quantize_model
    from lplab.training.recipe import recipes

    monkeypatch.setitem(recipes.RECIPES, "fp6_example", added.fp6_example)
    model = quantize_model(torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False)), "fp6_example")
    x = torch.tensor([[0.3, -1.7]])
    rounded = F.get("e3m2").quantize
    expected = rounded(rounded(x) @ rounded(model[0].weight.detach()).T)
    assert torch.equal(model(x).detach(), expected)


def test_add_compressor(added, monkeypatch):
    import numpy as np
    import torch

    from lplab import compression
    from lplab.compression import compressor_catalogue, tensors
    from lplab.compression.lockstep import exchange

    monkeypatch.setitem(compressor_catalogue.COMPRESSORS, "half", added.HalfOfTheBits)
    compressor = compression.get("half")
    assert compressor.plan((2,))[0].payload_bytes == 4
    gradients = [np.float32([1.0, 2.0]), np.float32([3.0, 2.00001])]
    mean = exchange(compressor, gradients, [compressor.init((2,)) for _ in gradients])
    np.testing.assert_array_equal(mean, np.float32([2.0, 2.0]))
    for shared in (tensors.SHARED, set()):  # tensors as arrays; and with the operations of PyTorch
        monkeypatch.setattr(tensors, "SHARED", shared)
        states = [tensors.tensor_state(compressor, (2,), "cpu") for _ in gradients]
        assert exchange(compressor, [*map(torch.from_numpy, gradients)], states).tolist() == [2.0, 2.0]


def test_add_chip(added):
    from lplab.hardware import accelerators

    assert accelerators.get(added.CHIP) is added.CHIP
    assert (added.CHIP.peaks["bf16"], added.CHIP.memory_bytes_per_second) == (1e14, 1e12)
    assert added.CHIP.grade("bf16") == "own"


def test_add_figure(added):
    import numpy as np

    fig = added.loss_curve(np.arange(3.0), np.array([2.0, 1.5, 1.25]))
    assert fig.layout.meta["alt"] == "The loss falls from 2.00 to 1.25." and len(fig.data[0].x) == 3


def test_add_explorer(added):
    explorer = added.GridExplorer()
    explorer.set(format="e3m2")
    assert explorer.position.format == "e3m2" and "has 63 different values" in explorer.summary.value
    with pytest.raises(ValueError, match="unknown format .e9m9.; allowed: e2m1"):
        added.GridState(format="e9m9")


def test_add_mechanism(added):
    from lplab.widgets.mechanisms import MechanismView

    view = MechanismView(added.MECHANISM)
    assert view.content["data"] == {"numbers": [0, 0.5, 1, 1.5, 2, 3, 4, 6]}
    assert view.content["todo"] == 'Drag the <b class="orange">number</b> to the right.'
    assert "octaves" in view.content["name"] and "class Stage" in view._esm


def test_add_exercise(added):
    from lplab.exercises.checks.judge import judge
    from lplab.exercises.isolation.answers import answer_of

    def halve(x):
        return x * 2

    exercise = added.HALVE
    assert judge(exercise, answer_of(added.halve)).passed
    wrong = judge(exercise, answer_of(halve))
    assert not wrong.passed and wrong.misconception == "doubled"
    assert "raise NotImplementedError" in exercise.cell


def test_add_claim(added):
    claim = added.TOY
    assert claim.id == "toy" and claim.measure({"bits": 8}, 0) == {"error": 2.0}
    assert [check.statement for check in claim.criteria] == ["The error falls"]
