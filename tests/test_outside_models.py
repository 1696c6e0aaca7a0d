"""Models of other libraries under recipes: the page that shows it, and nets of torchvision and timm where they work."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from lplab.training import Trainer, default_loss, quantize_model, recipe_report
from lplab.training.emulation.conversion import emulation_of

PAGE = (Path(__file__).parents[1] / "docs" / "outside_models.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
RECIPES = ("hfp8_2019", "int4_fp4_2020")
pytestmark = pytest.mark.slow


def outside(name):
    """A library that is not ours. One that fails to import, as torchvision for CUDA may, counts as missing."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"needs {name} (docs/outside_models.md says how to install it): {error}")


@pytest.fixture(scope="module")
def page():
    """What the blocks of the page leave behind, run one after the other as a reader would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        outside("transformers")
        found = {}
        for block in BLOCKS:
            exec(block, found)
        yield found


def value_of(page, code):
    """What the line of the page that begins so gives; it stands alone, as in a notebook."""
    (line,) = [line for block in BLOCKS for line in block.splitlines() if line.startswith(code)]
    return eval(line, page)


def test_models_of_the_page_learn_under_both_recipes(page):
    assert set(page["losses"]) == {*RECIPES, *(f"resnet, {recipe}" for recipe in RECIPES)}
    for name, losses in page["losses"].items():
        assert losses[-1] < 0.7 * losses[0], (name, losses)
        assert len(emulation_of(page["models"][name]).ops) >= 5


def test_the_reports_of_the_page_say_what_it_says(page):
    layers = ["c_attn", "c_proj", "/mix", "/scores"]
    shown = value_of(page, "sorted({row.layer for row in attention})")
    assert {layer.removeprefix("transformer.h.0.attn").lstrip(".") for layer in shown} == set(layers)
    scores = [row for row in page["attention"] if row.layer.endswith("/scores") and row.product == "forward"]
    assert [row.because == "" for row in scores if row.role == "activation"] == [True]
    assert value_of(page, "[row.because for row in report.rows if row.layer") == [
        "int4_fp4_2020 rounds no output of the kind 'last'"
    ]
    assert value_of(page, "[row.format for row in recipe_report(model)") == ["dlfloat16"] * 2


def test_saved_models_of_the_page_compute_the_same_bits(page):
    assert page["same"] and page["same_again"]
    assert value_of(page, "left_out.missing_keys") == ["lm_head.weight"] and not page["left_out"].unexpected_keys
    fresh = page["quantize_model"](page["GPT2LMHeadModel"](page["config"]), "int4_fp4_2020").eval()
    assert not torch.equal(fresh(page["lines"]).logits, page["trained"](page["lines"]).logits)


def test_autocast_does_not_act_as_the_page_says(page):
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        inside = page["trained"](page["lines"]).logits
    with torch.no_grad():
        assert torch.equal(page["trained"](page["lines"]).logits, inside)


@pytest.mark.parametrize("recipe", RECIPES)
def test_llama_learns(recipe, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = outside("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = transformers.LlamaConfig(vocab_size=32, num_key_value_heads=2, **sizes)
    lines = (torch.arange(8)[:, None] * 3 + torch.arange(13)) % 11
    check(transformers.LlamaForCausalLM(config), recipe, lambda step: (lines[:, :-1], lines[:, 1:]), adam=True)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("library", "make"),
    [
        ("torchvision", lambda module: module.models.resnet18(num_classes=4)),
        ("timm", lambda module: module.create_model("mobilenetv3_small_050", num_classes=4)),
    ],
    ids=["torchvision", "timm"],
)
def test_nets_of_torchvision_and_timm_learn(library, make, recipe):
    torch.manual_seed(0)
    net = make(outside(library))
    classes = torch.arange(16) % 4
    images = 0.3 * torch.randn(16, 3, 32, 32)
    images[torch.arange(16), :, 8 * classes] += 1.0
    check(net, recipe, lambda step: (images, classes), adam=False)


def check(plain, recipe, data, adam):
    """The model learns, most of its layers are rounded, and a saved one computes the same bits."""
    model = quantize_model(plain, recipe)
    optimizer = {"optimizer": "adam", "lr": 3e-3} if adam else {"lr": 0.02, "momentum": 0.9}
    trainer = Trainer(model, data, loss=lambda y, t: default_loss(getattr(y, "logits", y), t), **optimizer)
    losses = [step.loss for step in trainer.steps(20)]
    assert losses[-1] < 0.8 * losses[0], losses
    rows = recipe_report(model).rows
    weights = [row for row in rows if row.role == "weight" and row.product == "forward"]
    assert len(weights) > 5 and not any(row.because for row in weights)
    again = quantize_model(plain, recipe)
    again.load_state_dict(model.state_dict())
    outputs = [each.eval()(data(0)[0]) for each in (model, again)]
    assert torch.equal(*(getattr(y, "logits", y) for y in outputs))
