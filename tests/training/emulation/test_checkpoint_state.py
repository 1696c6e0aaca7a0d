"""Checkpoints keep what was trained: quantizer state travels with ``state_dict`` and ``load_state_dict``."""

import copy
import io
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional

from lplab.training import Trainer, load_quantizer_state, quantize_model, quantizer_state, recipes, tasks
from lplab.training.emulation.checkpoint_state import KEY, MissingQuantizerState
from lplab.training.emulation.conversion import dequantize_model, emulation_of

RECIPES = ("int4_fp4_2020", "pact_sawb_2019", "luq_2022", "fixed16_2015")
X, Y = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.ReLU(),
        nn.Linear(8, 3),
    )  # fmt: skip


def step(model, x=X):
    loss = functional.cross_entropy(model(x), Y)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
    return loss.item()


def trained(recipe, **options):
    model = quantize_model(net(), recipe, **options)
    for _ in range(3):
        step(model)
    return model


def through_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def loaded_without_warning(model, state):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.load_state_dict(state)
    return model


def assert_goes_on_alike(first, second):
    assert quantizer_state(first) == quantizer_state(second)
    with torch.no_grad():
        assert torch.equal(copy.deepcopy(first)(X), copy.deepcopy(second)(X))
    assert [step(first) for _ in range(3)] == [step(second) for _ in range(3)]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("carry", [copy.deepcopy, through_file], ids=["deepcopy", "file"])
def test_a_loaded_model_goes_on_bit_for_bit(recipe, carry):
    model = trained(recipe)
    state = carry(model.state_dict())
    assert list(state) == list(net().state_dict()), "the keys are those of the plain model"
    assert_goes_on_alike(model, loaded_without_warning(quantize_model(net(1), recipe), state))


@pytest.mark.parametrize("recipe", RECIPES)
def test_state_in_tensors_survives_dicts_that_are_built_anew_and_casts(recipe):
    model = trained(recipe, tensor_state=True)
    state = {name: value.double() for name, value in model.state_dict().items()}
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    assert any(name.endswith("." + KEY) for name in state)
    for options in ({"tensor_state": True}, {}):
        assert_goes_on_alike(
            copy.deepcopy(model), loaded_without_warning(quantize_model(net(1), recipe, **options), state)
        )


def test_state_in_tensors_survives_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = trained("int4_fp4_2020", tensor_state=True)
    safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")
    other = quantize_model(net(1), "int4_fp4_2020", tensor_state=True)
    assert_goes_on_alike(model, loaded_without_warning(other, safetensors.load_file(tmp_path / "model.safetensors")))
    plain = net(1)
    with pytest.raises(RuntimeError, match=KEY):
        plain.load_state_dict(safetensors.load_file(tmp_path / "model.safetensors"))
    plain.load_state_dict(safetensors.load_file(tmp_path / "model.safetensors"), strict=False)
    assert torch.equal(plain[0].weight, other[0].weight) or step(model)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_quantized_model_inside_another_model_keeps_its_state(recipe):
    for carry, options in ((through_file, {}), (dict, {"tensor_state": True})):
        outer = nn.Sequential(nn.Identity(), trained(recipe, **options))
        other = nn.Sequential(nn.Identity(), quantize_model(net(1), recipe))
        assert_goes_on_alike(outer, loaded_without_warning(other, carry(outer.state_dict())))


def test_a_single_layer_keeps_its_state():
    for carry, options in ((through_file, {}), (dict, {"tensor_state": True})):
        model, other = (
            quantize_model(nn.Linear(3, 2), "int4_fp4_2020", first=None, last=None, **options) for _ in range(2)
        )
        model(torch.rand(4, 3)).sum().backward()
        loaded_without_warning(other, carry(model.state_dict()))
        assert quantizer_state(other) == quantizer_state(model) and quantizer_state(model)["sites"][""]["scale"]


def test_products_of_a_modules_own_keep_their_state():
    model = tasks.get("transformer").model(0)
    x = torch.arange(6)[None]
    model, other = (quantize_model(model, "luq_2022", tensor_state=flag) for flag in (True, False))
    model(x).sum().backward()
    assert any(name.endswith("/matmul2") for name in quantizer_state(model)["sites"])
    loaded_without_warning(other, dict(model.state_dict()))
    assert quantizer_state(other) == quantizer_state(model) and torch.equal(other(x), model(x))


def test_a_part_of_a_quantized_model_keeps_its_state():
    model, other = trained("int4_fp4_2020"), quantize_model(net(1), "int4_fp4_2020")
    for (name, part), to in zip(model.named_children(), other.children(), strict=True):
        loaded_without_warning(to, through_file(part.state_dict())), name
    assert_goes_on_alike(model, other)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_state_before_the_first_step_resets_a_trained_model(recipe):
    fresh, used = quantize_model(net(), recipe), trained(recipe)
    loaded_without_warning(used, through_file(fresh.state_dict()))
    assert_goes_on_alike(fresh, used)


def test_the_state_of_a_plain_model_loads_with_one_warning():
    model = trained("int4_fp4_2020")
    before = quantizer_state(model)
    with pytest.warns(MissingQuantizerState) as caught:
        model.load_state_dict(net(3).state_dict())
    (warning,) = caught
    message = str(warning.message)
    assert "2 layers (2, 5)" in message and KEY in message and "tensor_state=True" in message and "\n" not in message
    assert warning.filename == __file__
    assert torch.equal(model[0].weight, net(3)[0].weight) and quantizer_state(model) == before


def test_metadata_that_was_lost_is_noticed():
    model, other = trained("pact_sawb_2019"), quantize_model(net(1), "pact_sawb_2019")
    with pytest.warns(MissingQuantizerState, match="2 layers"):
        other.load_state_dict(dict(model.state_dict().items()))
    load_quantizer_state(other, quantizer_state(model))
    assert_goes_on_alike(model, other)


@pytest.mark.parametrize("recipe", ["fp32", "hfp8_2019", "luq_2022"])
def test_recipes_without_trained_state_load_plain_states_silently(recipe):
    loaded_without_warning(trained(recipe), net(3).state_dict())


def test_the_state_of_another_recipe_lacks_the_clips():
    with pytest.warns(MissingQuantizerState, match="2 layers"):
        quantize_model(net(), "int4_fp4_2020").load_state_dict(trained("hfp8_2019").state_dict())
    loaded_without_warning(quantize_model(net(), "hfp8_2019"), trained("int4_fp4_2020").state_dict())


def test_a_failed_load_does_not_silence_the_next_warning():
    model, broken = quantize_model(net(), "pact_sawb_2019"), net().state_dict()
    del broken["0.weight"]
    for state in (broken, net().state_dict()):
        with pytest.warns(MissingQuantizerState, match="2 layers"):
            try:
                model.load_state_dict(state)
            except RuntimeError as error:
                assert "0.weight" in str(error)


def test_loading_with_assign_keeps_clips_trainable():
    model, other = trained("pact_sawb_2019"), quantize_model(net(1), "pact_sawb_2019")
    other.load_state_dict(through_file(model.state_dict()), assign=True)
    assert other[2].pact_alpha.requires_grad and isinstance(other[2].pact_alpha, nn.Parameter)
    assert_goes_on_alike(model, other)


@pytest.mark.parametrize("options", [{}, {"tensor_state": True}], ids=["metadata", "tensors"])
@pytest.mark.parametrize("recipe", ["pact_sawb_2019", "int4_fp4_2020", "luq_2022"])
def test_a_model_made_on_the_meta_device_takes_the_state_by_assignment_or_into_memory(recipe, options):
    for assign in (True, False):
        model = trained(recipe, **options)
        with torch.device("meta"):
            other = quantize_model(net(), recipe, **options)
        if not assign:
            other.to_empty(device="cpu")
        other.load_state_dict(through_file(model.state_dict()), assign=assign)
        assert not any(p.is_meta for p in other.parameters())
        assert_goes_on_alike(model, other)


def clips(model):
    return [p.item() for name, p in model.named_parameters() if name.endswith("pact_alpha")]


@pytest.mark.filterwarnings("ignore::lplab.training.emulation.checkpoint_state.MissingQuantizerState")
def test_clips_that_no_state_holds_begin_anew_after_memory_was_lost():
    used, fresh = trained("pact_sawb_2019"), quantize_model(net(3), "pact_sawb_2019")
    on_meta = copy.deepcopy(used).to("meta")
    with torch.device("meta"):
        made_there = quantize_model(net(), "pact_sawb_2019")
    for model, assign in ((on_meta, True), (made_there, True), (used.to_empty(device="cpu"), False)):
        model.load_state_dict(net(3).state_dict(), assign=assign)
        assert clips(model) == clips(fresh) == [10.0, 10.0]
        with torch.no_grad():
            assert torch.equal(model(X), copy.deepcopy(fresh)(X))
        assert 10.0 not in clips(model)


def test_a_quantizer_state_is_not_lost_on_the_meta_device():
    with torch.device("meta"):
        model = quantize_model(net(), "pact_sawb_2019")
    with pytest.raises(ValueError, match=r"2.pact_alpha is on the meta device, .* load the weights before the state"):
        load_quantizer_state(model, quantizer_state(trained("pact_sawb_2019")))


def test_a_clip_that_was_set_before_the_first_input_stays():
    model = quantize_model(net(), "pact_sawb_2019")
    with torch.no_grad():
        model[2].pact_alpha.fill_(0.5)
    model(X)
    assert clips(model)[0] == 0.5 and clips(model)[1] != 10.0


def test_the_state_does_not_follow_later_training():
    model = trained("int4_fp4_2020")
    state, before = model.state_dict(), quantizer_state(model)
    with torch.no_grad():
        model[2].pact_alpha.fill_(7.0)
    for op in emulation_of(model).ops.values():
        op.calls, op.clip_signed = {}, None
    loaded_without_warning(model, state)
    assert quantizer_state(model) == before and model[2].pact_alpha.item() != 7


def test_a_quantized_state_goes_into_a_plain_model_and_dequantizing_removes_all_of_it():
    for options in ({}, {"tensor_state": True}):
        plain = dequantize_model(trained("int4_fp4_2020", **options))
        assert list(plain.state_dict()) == list(net().state_dict())
        assert not any(KEY in entry for entry in plain.state_dict()._metadata.values())
    plain = loaded_without_warning(net(1), trained("int4_fp4_2020").state_dict())
    assert torch.equal(plain[0].weight, trained("int4_fp4_2020")[0].weight)


def test_quantizer_state_of_a_model_with_quantized_parts():
    outer = nn.ModuleDict({"a": trained("int4_fp4_2020"), "b": nn.Linear(2, 2)})
    state = quantizer_state(outer)
    assert set(state["clips"]) == {"a.2.pact_alpha", "a.5.pact_alpha"} and {"a.2", "a.5"} <= set(state["sites"])
    other = nn.ModuleDict({"a": quantize_model(net(), "int4_fp4_2020"), "b": nn.Linear(2, 2)})
    load_quantizer_state(other, through_file(state))
    assert quantizer_state(other) == state


def test_bad_states_are_refused():
    with pytest.raises(ValueError, match="not quantized; call quantize_model"):
        quantizer_state(net())
    with pytest.raises(ValueError, match="it has 2.pact_alpha, the model has not"):
        load_quantizer_state(quantize_model(net(), "fp32"), quantizer_state(trained("int4_fp4_2020")))
    with pytest.raises(ValueError, match="it has the layer 2, the model has not"):
        load_quantizer_state(quantize_model(nn.Linear(2, 2), "fixed16_2015"), quantizer_state(trained("luq_2022")))
    with pytest.raises(ValueError, match="a quantizer state has 'sites' and 'clips'"):
        load_quantizer_state(quantize_model(net(), "fp32"), {"model": {}})
    model = trained("int4_fp4_2020", tensor_state=True)
    for numbers, message in (([1, 2], "holds no quantizer state"), (list(b"[1]"), "has 'sites' and 'clips', got")):
        with pytest.raises(RuntimeError, match=f"2.{KEY} .*{message}"):
            model.load_state_dict(model.state_dict() | {f"2.{KEY}": torch.tensor(numbers)})
    with pytest.raises(TypeError, match="tensor_state must be True or False, got 'yes'"):
        quantize_model(net(), "fp32", tensor_state="yes")


@pytest.mark.parametrize("recipe", ["int4_fp4_2020", "fixed16_2015"])
def test_the_trainers_checkpoints_hold_it_once(recipe):
    def run():
        return tasks.get("mlp").trainer(recipes.get(recipe), 0, batch=16)

    first, second = run(), run()
    first.run(3, progress=False)
    state = through_file(first.state_dict())
    assert "quantizers" not in state
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second.load_state_dict(state)
        loaded_without_warning(quantize_model(tasks.get("mlp").model(1), recipe), state["model"])
    losses = [[each.loss for each in trainer.steps(3)] for trainer in (first, second)]
    assert losses[0] == losses[1] and isinstance(first, Trainer)
