"""The small models: shapes, the same bits from the same seed, causality, and that they learn."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from lplab import models
from lplab.models import model_catalogue


def parameters(model: nn.Module) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


MAKERS = {"resnet": models.digits_resnet, "transformer": lambda seed=0: models.character_transformer(75, seed)}


@pytest.mark.parametrize("name", MAKERS)
def test_the_seed_decides_every_bit(name):
    a, b, c = (parameters(MAKERS[name](seed=seed)) for seed in (5, 5, 6))
    assert a.tobytes() == b.tobytes() and a.tobytes() != c.tobytes()


def test_a_model_by_its_name_is_that_of_the_function():
    assert all(getattr(models, name) is model_catalogue.MODELS[name] for name in models.names())
    by_name, made = models.get("MLP", sizes=(4, 3), seed=2), models.mlp((4, 3), seed=2)
    assert parameters(by_name).tobytes() == parameters(made).tobytes()
    with pytest.raises(ValueError, match="there is no model 'resent'; did you mean resnet"):
        models.get("resent")
    with pytest.raises(TypeError, match="vocabulary"):
        models.get("lstm")


@pytest.mark.parametrize("name", MAKERS)
def test_torchs_random_state_is_unchanged(name):
    before = torch.get_rng_state()
    MAKERS[name]()
    assert torch.equal(before, torch.get_rng_state())


def test_first_weights_are_the_same_on_every_machine():
    """Multiples of 2^-23 times a bound, here 1/4: the numbers of numpy's PCG64 for seed 0, written down."""
    weight = models.initialize(nn.Linear(16, 1), seed=0).weight.detach().numpy().ravel()
    assert [float(w).hex() for w in weight[:3]] == [
        "0x1.670a080000000p-3",
        "0x1.187f580000000p-4",
        "0x1.6ceb800000000p-8",
    ]


@pytest.mark.parametrize("name", MAKERS)
def test_initialize_fills_every_parameter_as_documented(name):
    for key, parameter in MAKERS[name](seed=1).named_parameters():
        values = parameter.detach()
        if parameter.ndim >= 2:
            bound = 1 / np.sqrt(np.prod(parameter.shape[1:]))
            assert 0.8 * bound < values.abs().max() <= bound * (1 + 2**-23), key
            assert abs(values.mean()) < 4 * bound / np.sqrt(3 * values.numel()), key  # four standard errors
        else:
            assert bool((values == (1 if key.endswith("weight") else 0)).all()), key


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("widths", [(4,), (8, 8), (16, 24, 32)])
def test_resnet_shapes(batch, widths):
    model = models.DigitsResNet(widths=widths, classes=7).eval()
    assert model(torch.rand(batch, 1, 8, 8)).shape == (batch, 7)


def test_resnet_shortcut_carries_the_input():
    """With both convolutions at zero a block is ReLU of its input (normed, in evaluation mode, by 1/√(1 + ε))."""
    block = models.ResidualBlock(4, 4, stride=1).eval()
    nn.init.zeros_(block.conv1.weight)
    nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(block(x), x.relu())


def test_transformer_sees_no_future():
    model = models.character_transformer(10).eval()
    ids = torch.arange(64).remainder(10)[None]
    changed = ids.clone()
    changed[0, 40:] = 0
    with torch.no_grad():
        before, after = model(ids)[0], model(changed)[0]
    assert torch.allclose(before[:40], after[:40], atol=1e-6) and not torch.allclose(before[40:], after[40:], atol=1e-3)


def test_attention_is_torchs_own():
    """The written-out attention against torch's scaled_dot_product_attention; sums of at most 64 terms."""
    attention = models.Attention(width=64, heads=4)
    models.initialize(attention, seed=2)
    x = torch.randn(2, 50, 64, generator=torch.Generator().manual_seed(0))
    q, k, v = attention.qkv(x).view(2, 50, 3, 4, 16).permute(2, 0, 3, 1, 4)
    mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    expected = attention.project(mixed.transpose(1, 2).reshape(2, 50, 64))
    assert (attention(x) - expected).abs().max() < 64 * 2**-23 * expected.abs().max()


@pytest.mark.parametrize("time", [1, 10, 64])
def test_transformer_takes_sequences_up_to_its_context(time):
    assert models.character_transformer(75)(torch.zeros(2, time, dtype=torch.long)).shape == (2, time, 75)


def test_transformer_refuses_longer_sequences():
    with pytest.raises(ValueError, match="sequences may hold up to 64 characters, got 65"):
        models.character_transformer(75)(torch.zeros(1, 65, dtype=torch.long))


def test_width_must_fit_the_heads():
    with pytest.raises(ValueError, match="width must be a multiple of heads, got width=30 and heads=4"):
        models.CharacterTransformer(vocabulary=5, width=30)


def test_parameter_counts_of_the_docstrings():
    assert len(parameters(models.digits_resnet())) == 31_434
    assert round(len(parameters(models.character_transformer(75))) / 1000) == 164


@pytest.mark.parametrize("name", MAKERS)
def test_they_learn_a_batch_by_heart(name):
    model = MAKERS[name]()
    generator = torch.Generator().manual_seed(0)
    if name == "resnet":
        x, y = torch.rand(8, 1, 8, 8, generator=generator), torch.arange(8)
    else:
        x = torch.randint(75, (2, 16), generator=generator)
        y = torch.randint(75, (2, 16), generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.3


def test_without_torch_the_error_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import lplab.models"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1 and "lplab.models needs PyTorch: pip install 'lplab[torch]'" in run.stderr


@pytest.mark.parametrize(("make", "message"), [
    (lambda: models.transformer(75, blocks=-1), "blocks must be an integer from 1 "),
    (lambda: models.transformer(0), "vocabulary must be an integer from 1 "),
    (lambda: models.transformer(75, width=2.5), "width must be an integer from 1 "),
    (lambda: models.transformer(75, heads=0), "heads must be an integer from 1 "),
    (lambda: models.lstm(75, layers=True), "layers must be an integer from 1 "),
    (lambda: models.mlp((64, 0, 10)), "each of sizes must be an integer from 1 "),
    (lambda: models.mlp(64), "sizes must be several whole numbers, got 64"),
    (lambda: models.cnn(()), r"widths must be several whole numbers, got \(\)"),
    (lambda: models.cnn(channels=0), "channels must be an integer from 1 "),
    (lambda: models.resnet(width=0), "width must be an integer from 1 "),
])  # fmt: skip
def test_an_invalid_size_is_one_clear_sentence(make, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make()
