"""docs/fp8_training.py, which a reader can take away, computes what the library computes, bit for bit."""

import copy
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lplab import formats

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from lplab.training import Trainer, quantize_model, recipes  # noqa: E402

FILE = Path(__file__).parents[1] / "docs/fp8_training.py"
RECIPE = recipes.get("hfp8_2019", accumulator="chunked")


@pytest.fixture(scope="module")
def file() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(FILE)))


def network(seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(70, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 5))


def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(66, 70, generator=generator) / 4, torch.randint(5, (66,), generator=generator)


def bits(x: torch.Tensor) -> list[int]:
    return x.detach().contiguous().view(torch.int32).flatten().tolist()


def numbers() -> torch.Tensor:
    """float32 of every exponent, halfway cases of the narrow formats, and what is special."""
    words = np.random.default_rng(0).integers(0, 2**32, 40_000, dtype=np.uint64).astype(np.uint32)
    halfway = words[:20_000] & np.uint32(0xFFF00000) | np.uint32(0x00002000)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-31, -(2.0**-32), 30.5, 31, 61440, 2.0**33])
    both = np.concatenate([words.view(np.float32), halfway.view(np.float32), special.astype(np.float32)])
    return torch.from_numpy(both)


def are_equal(found: torch.Tensor, expected: torch.Tensor) -> None:
    """NaN where NaN is expected, else every bit."""
    known = ~expected.isnan()
    assert bits(found[known]) == bits(expected[known]) and bool(found[~known].isnan().all())


@pytest.mark.parametrize(("constant", "name"), [
    ("FP8_143", "hfp8_forward"), ("FP8_152", "hfp8_backward"), ("FP16_169", "dlfloat16"),
])  # fmt: skip
@pytest.mark.parametrize("ties", ["even", "away"])
def test_rounding_is_that_of_the_library(file, constant, name, ties):
    x = numbers()
    are_equal(file.round_to(x, getattr(file, constant), ties), formats.get(name).quantize(x, f"nearest_{ties}"))


def test_stochastic_rounding_is_that_of_the_library(file):
    x, rounding = numbers(), formats.Rounding("stochastic", random_bits=14)
    expected = formats.get("dlfloat16").quantize(x, rounding, seed=3**25)
    are_equal(file.round_to(x, file.FP16_169, seed=3**25), expected)


def test_outputs_and_gradients_are_those_of_the_library(file):
    ours, theirs = file.convert(network()), quantize_model(network(), RECIPE)
    for number in range(2):
        x, target = batch(number)
        outputs = [model(x) for model in (ours, theirs)]
        assert bits(outputs[0]) == bits(outputs[1])
        for y in outputs:
            (nn.functional.cross_entropy(y, target) * 2.0**10).backward()
        for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert bits(p.grad) == bits(q.grad) and p.grad.any(), name


def test_a_gradient_goes_through_to_the_layer_below(file):
    """The gradient of the input, too, where somebody asks for that of the first layer."""
    gradients = []
    for model in (file.convert(network()), quantize_model(network(), RECIPE)):
        x = batch(0)[0].requires_grad_()
        model(x).square().sum().backward()
        gradients.append(x.grad)
    assert bits(gradients[0]) == bits(gradients[1]) and gradients[0].any()


def test_weights_after_each_step_are_those_of_the_trainer(file):
    """Stochastic rounding takes the same bits; a step whose gradients overflow is skipped, the loss scale halved."""
    ours = file.Training(network(), lr=0.1, seed=4)
    theirs = Trainer(network(), batch, RECIPE, optimizer="sgd", lr=0.1, momentum=0.9, seed=4)
    start = copy.deepcopy(list(ours.model.parameters()))
    skipped = []
    for number in range(6):
        if number == 3:
            ours.loss_scale = theirs.scaler.scale = 2.0**41
        loss, step = ours.step(*batch(number)), theirs.one_step()
        skipped.append(step.skipped)
        assert loss == step.loss and ours.loss_scale == theirs.scaler.scale
        for (name, p), q in zip(ours.model.named_parameters(), theirs.model.parameters(), strict=True):
            assert bits(p) == bits(q), (number, name)
    assert skipped == [False] * 3 + [True] * 3
    assert all((p != q).any() for p, q in zip(start, ours.model.parameters(), strict=True))


def test_it_is_one_file_of_the_length_that_its_page_states():
    """It needs nothing but PyTorch, so that a reader can take it away."""
    source = FILE.read_text("utf-8")
    assert {line for line in source.splitlines() if line.startswith(("import ", "from "))} == {
        "import torch", "from torch import nn", "from torch.nn import functional as F",
    }  # fmt: skip
    code = source.split('"""', 2)[2].strip().splitlines()
    assert len(code) <= 150
