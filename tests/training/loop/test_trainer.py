"""The trainer: resuming is bit for bit, divergence is explained, and nothing outside is touched."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from lplab import formats
from lplab.formats import FloatFormat
from lplab.training import Batches, DivergedError, Recorder, SequenceBatches, Trainer, quantize_model, recipes
from lplab.training.loop import trainer as trainer_module
from lplab.training.recipe.quant_spec import QuantSpec
from lplab.training.recipe.recipe import Recipe


def data(batch=16):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(64, 8)).astype(np.float32)
    return Batches(x, (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0), batch=batch)


def net(dropout=0.2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 16),
                         nn.ReLU(), nn.Linear(16, 3))  # fmt: skip


def trainer(recipe="hfp8_2019", **options):
    settings = {"lr": 0.05, "momentum": 0.9} | options
    return Trainer(net(), data(), recipe, **settings)


def losses(steps):
    return [step.loss for step in steps]


@pytest.mark.parametrize("recipe", recipes.names())
def test_resuming_is_bit_for_bit_an_uninterrupted_run(recipe, tmp_path):
    whole = trainer(recipe)
    expected = losses(whole.steps(10))
    first = trainer(recipe)
    got = losses(first.steps(4))
    path = first.save(tmp_path / "checkpoint.pt")
    second = trainer(recipe)
    second.load(path)
    got += losses(second.steps(6))
    assert got == expected and second.step == 10
    for a, b in zip(whole.model.state_dict().values(), second.model.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_resuming_with_adam(kind):
    options = {"optimizer": kind, "lr": 0.01, "momentum": None}
    make = lambda: Trainer(net(), data(), "fp8_2018", optimizer=options["optimizer"], lr=0.01)  # noqa: E731
    whole, first, second = make(), make(), make()
    expected = losses(whole.steps(8))
    got = losses(first.steps(3))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert got + losses(second.steps(5)) == expected


@pytest.mark.parametrize(("other", "message"), [
    (lambda: trainer(recipes.get("luq_2022", samples=2)), r"switches of the recipe are .*LUQ\(samples=1"),
    (lambda: trainer("luq_2022", seed=1), "is of seed 0, this trainer's is 1"),
    (lambda: Trainer(net(), data(), "luq_2022", optimizer="adam"), "is of optimizer 'SGD', this trainer's is 'Adam'"),
])  # fmt: skip
def test_a_checkpoint_of_another_training_is_refused(other, message):
    first = trainer("luq_2022")
    list(first.steps(2))
    with pytest.raises(ValueError, match=message):
        other().load_state_dict(first.state_dict())


class Halved:
    """A quantizer of a user's own, as plain as can be."""

    def quantize(self, x):
        return x / 2


def test_a_recipe_with_a_quantizer_of_ones_own_goes_on_in_another_process():
    """There the object lies elsewhere, and so its repr differs."""
    first, second = (trainer(Recipe(weight=QuantSpec(quantizer=Halved()))) for _ in range(2))
    list(first.steps(1))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert losses(first.steps(2)) == losses(second.steps(2))


def test_recipe_fp32_is_a_plain_loop_bit_for_bit():
    model, batches = net(dropout=0.0), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    expected = []
    for number in range(8):
        x, y = batches(number)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert losses(Trainer(net(dropout=0.0), data(), "fp32", lr=0.05, momentum=0.9).steps(8)) == expected


@pytest.mark.parametrize("recipe", recipes.names())
def test_every_recipe_learns_with_its_own_loss_scale_and_update(recipe):
    run = Trainer(net(dropout=0.0), data(), recipe, lr=0.05, momentum=0.9)
    found = losses(run.run(80, progress=False))
    assert np.mean(found[-5:]) < 0.75 * np.mean(found[:5])


def test_the_random_state_of_torch_is_left_alone():
    run = trainer()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    list(run.steps(2))
    assert torch.equal(before, torch.get_rng_state())
    a, b, c = (losses(trainer(seed=seed).steps(3)) for seed in (1, 1, 2))
    assert a == b != c


def test_stopping_and_going_on():
    run = trainer()
    for step in run.steps(100):
        if step.number == 3:
            break
    assert run.step == 4 and next(run.steps(1)).number == 4


def test_a_loader_of_anybody_works_and_resumes():
    pairs = list(zip(data().inputs, data().targets, strict=True))
    loader = torch.utils.data.DataLoader(pairs, batch_size=16)
    make = lambda: Trainer(net(), loader, "fp8_2018", lr=0.05)  # noqa: E731
    expected = losses(make().steps(7))
    first, second = make(), make()
    got = losses(first.steps(5))
    second.load_state_dict(first.state_dict())
    assert got + losses(second.steps(2)) == expected


def test_overflow_in_float16_is_found_and_named():
    model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 3))
    with torch.no_grad():
        model[1].weight.fill_(7e4)
    with pytest.raises(DivergedError, match="the loss is nan; 100.0% of the weights of 1 overflowed") as caught:
        next(Trainer(model, data(), "fp16_mixed", lr=0.1).steps(1))
    found = caught.value.diagnosis
    assert (found.layer, found.role, found.not_finite, found.step) == ("1", "weight", 1.0, 0)


def test_weights_that_are_not_numbers_are_found():
    model = net()
    with torch.no_grad():
        model[4].weight[0, 0] = math.nan
    with pytest.raises(DivergedError, match="weight of 4 holds numbers that are not finite: 0.4% of it"):
        next(Trainer(model, data(), "hfp8_2019").steps(1))


def test_inputs_that_are_not_numbers_are_found():
    bad = lambda step: (torch.full((4, 8), math.inf), torch.zeros(4, dtype=torch.long))  # noqa: E731
    with pytest.raises(DivergedError, match="the input of 0 came in with 100.0% of its numbers not finite"):
        next(Trainer(nn.Sequential(nn.Linear(8, 3)), bad, "bf16").steps(1))


def test_a_runaway_is_stopped_and_saturation_named():
    run = Trainer(net(dropout=0.0), data(), "hfp8_2019", lr=300.0)
    with pytest.raises(DivergedError, match=r"times the first one; most saturated: .* of the .* of \d"):
        run.run(50, progress=False)
    before = copy.deepcopy(run.model.state_dict())
    assert all(torch.isfinite(v.float()).all() for v in before.values())


def test_a_dynamic_loss_scale_skips_and_recovers():
    run = Trainer(net(dropout=0.0), data(), "fp16_mixed", lr=0.05)
    run.scaler.scale = 2.0**32
    steps = run.run(40, progress=False)
    assert steps[0].skipped and not steps[-1].skipped
    assert steps[-1].loss_scale < 2.0**30 and steps[-1].loss < steps[0].loss


def test_skipped_steps_count_in_a_row_and_not_over_the_whole_training(monkeypatch):
    monkeypatch.setattr(trainer_module, "MAX_SKIPPED_STEPS", 3)
    run = Trainer(net(dropout=0.0), data(), "fp16_mixed", lr=0.05)
    skipped = []
    for _ in range(4):
        run.scaler.scale = 2.0**60
        skipped.append(next(run.steps(1)).skipped)
        run.scaler.scale = 1.0
        skipped.append(next(run.steps(1)).skipped)
    assert skipped == [True, False] * 4


def test_gradients_are_clipped_after_unscaling():
    run = Trainer(net(dropout=0.0), data(), recipes.get("fp8_2018"), lr=1.0, clip_norm=1e-6)
    before = run.model[0].weight.detach().clone()
    list(run.steps(1))
    assert (run.model[0].weight - before).abs().max() < 0.005


def test_the_schedule_scales_the_learning_rate():
    run = Trainer(net(), data(), "fp32", lr=0.5, schedule=lambda step: 0.0)
    before = run.model[0].weight.detach().clone()
    list(run.steps(2))
    assert torch.equal(run.model[0].weight, before)


def test_the_largest_value_of_a_format_is_not_saturated():
    recorder, largest = Recorder(every=1), formats.get("hfp8_forward").max
    model = quantize_model(nn.Linear(4, 2), Recipe(activation="hfp8_forward"), first=None, last=None)
    for step, x in enumerate((largest, 1.1 * largest)):
        with recorder.watching(model, step):
            model(torch.full((1, 4), x))
    assert list(recorder.series("", "activation")["saturated"]) == [0, 1]


def test_every_epoch_has_an_order_of_its_own():
    batches = Batches(np.arange(100), np.arange(100), batch=100, seed=3)
    orders = [batches(epoch)[1].tolist() for epoch in range(3)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_a_schedule_multiplies_the_first_rate_and_not_the_last_one():
    scheduled = Trainer(net(), data(), "fp32", lr=0.5, schedule=lambda step: 0.5)
    constant = Trainer(net(), data(), "fp32", lr=0.25)
    assert [step.loss for step in scheduled.steps(4)] == [step.loss for step in constant.steps(4)]


def test_windows_and_regression():
    data = SequenceBatches(np.arange(100) % 10, 8, 4)
    run = Trainer(nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10)), data, "bf16", optimizer="adam", lr=0.05)
    assert losses(run.run(40, progress=False))[-1] < 0.3
    x = torch.randn(32, 8)
    fit = Trainer(nn.Linear(8, 1), Batches(x, x[:, :1]), "bf16", lr=0.1)
    assert fit.run(60, progress=False)[-1].loss < 0.02 and set(fit.evaluate(x, x[:, :1])) == {"loss"}


def test_windows_begin_where_they_may():
    data = SequenceBatches(np.arange(100), 8, batch=50, starts=[3, 91])
    assert {tuple(window.tolist()) for window in data(0)[0]} == {tuple(range(3, 11)), tuple(range(91, 99))}
    assert not torch.equal(data(0)[0], data(1)[0]) and torch.equal(data(1)[0], data(1)[0])
    for starts in ([], [-1], [92]):
        with pytest.raises(ValueError, match="places from 0 to 91, where a window has 8 targets"):
            SequenceBatches(np.arange(100), 8, starts=starts)


@pytest.mark.parametrize("recipe", ["fixed16_2015", "luq_2022"])
def test_evaluation_changes_nothing_of_the_training(recipe):
    """Nor the random bits that fixed point draws in the forward pass."""
    quiet, watched, found = trainer(recipe), trainer(recipe), []
    expected = losses(quiet.steps(6))
    for step in watched.steps(6):
        found.append(step.loss)
        assert watched.evaluate(*data(64)(0)) == watched.evaluate(*data(64)(0))
    assert found == expected


def test_a_model_of_which_a_part_is_quantized_trains_and_is_evaluated():
    model = nn.Sequential(nn.Linear(8, 8), quantize_model(nn.Linear(8, 3), "fp8_2018", last=None))
    run = Trainer(model, data(), lr=0.1)
    assert losses(run.steps(20))[-1] < 1.2 and run.evaluate(*data(64)(0))["loss"] < 1.2


def test_evaluation_leaves_the_mode_alone():
    run = trainer()
    run.model.eval()
    result = run.evaluate(*data(64)(0))
    assert not run.model.training and 0 <= result["error"] <= 1


def test_a_frozen_layer_stays_frozen():
    """Neither a step nor an evaluation unfreezes a single layer in evaluation mode."""
    run = trainer()
    norm = run.model[1].eval()
    before = norm.running_mean.clone()
    list(run.steps(2))
    run.evaluate(*data(64)(0))
    list(run.steps(1))
    assert run.model.training and not norm.training
    assert torch.equal(norm.running_mean, before)


def test_bad_arguments_are_explained():
    with pytest.raises(ValueError, match="already quantized; pass recipe=None to keep its recipe"):
        Trainer(quantize_model(net(), "fp32"), data(), "bf16")
    with pytest.raises(ValueError, match="options are for an optimizer given by name, got momentum"):
        Trainer(net(), data(), "fp32", optimizer=torch.optim.SGD(net().parameters(), 0.1), momentum=0.9)
    with pytest.raises(ValueError, match="checkpoint is of recipe 'hfp8_2019', this trainer's is 'fp32'"):
        trainer("fp32").load_state_dict(trainer().state_dict())
    with pytest.raises(ValueError, match=r"targets \[4\] must have the shape of outputs \[4, 1\]"):
        next(Trainer(nn.Linear(8, 1), [(torch.ones(4, 8), torch.ones(4))], "fp32").steps(1))
    with pytest.raises(TypeError, match="expected a torch.nn.Module and a recipe, got function"):
        Trainer(lambda x: x, data(), "fp32")
    with pytest.raises(ValueError, match="the data are empty"):
        next(Trainer(net(), [], "fp32").steps(1))
    with pytest.raises(ValueError, match="no parameter has a gradient"):
        next(Trainer(net(), data(), "fp32", loss=lambda o, t: torch.ones((), requires_grad=True)).steps(1))


# ---- recorder --------------------------------------------------------------------------------------------------------


def test_the_recorder_sees_every_role_of_every_layer(tmp_path):
    recorder = Recorder(every=2)
    run = trainer("fp8_2018", recorder=recorder)
    list(run.steps(5))
    roles = {role for name, role in recorder.names() if name == "4"}
    assert roles >= {"weight", "activation", "output_gradient_dx", "weight_gradient"}
    series = recorder.series("4", "weight")
    assert series["step"].tolist() == [0, 2, 4] and series["histogram"].shape == (3, 160)
    assert (series["histogram"].sum(1) == 256).all() and (series["relative_error"] > 0.01).all()
    assert len(recorder.series("1", "running_mean")["step"]) == 3
    loaded = Recorder.load(recorder.save(tmp_path / "record.npz"))
    assert loaded.names() == recorder.names()
    for key, values in loaded.series("4", "output_gradient_dx").items():
        assert np.array_equal(values, recorder.series("4", "output_gradient_dx")[key]), key


@pytest.mark.parametrize("recipe", recipes.names())
def test_recording_changes_nothing(recipe):
    assert losses(trainer(recipe).steps(4)) == losses(trainer(recipe, recorder=Recorder(every=1)).steps(4))


def test_shares_and_errors_are_those_of_the_definition():
    recorder, seen = Recorder(every=1), {}
    model = quantize_model(nn.Linear(50, 4), Recipe(activation="hfp8_forward"), first=None, last=None)
    x = torch.cat([torch.full((10,), 100.0), torch.full((10,), 1e-6), torch.zeros(5), torch.full((25,), 0.3)])
    with recorder.watching(model, 0):
        model(x)
    seen = recorder.series("", "activation")
    assert seen["saturated"] == 0.2 and seen["zeros"] == 0.1 and seen["underflowed"] == pytest.approx(10 / 45)
    error = torch.tensor([-70.0] * 10 + [0.0125] * 25)
    assert seen["relative_error"] == pytest.approx(float(error.norm() / x.norm()), rel=1e-5)
    assert seen["bias"] == pytest.approx(float(error.sum() / x.sum()), rel=1e-4) and seen["largest"] == 100


def test_the_recorder_filters_and_refuses():
    recorder = Recorder(every=1, roles=("weight",), layers="[04]")
    list(trainer(recorder=recorder).steps(1))
    assert recorder.names() == [("0", "weight"), ("4", "weight")]
    with pytest.raises(ValueError, match="unknown role 'wait'; allowed: weight, activation"):
        Recorder(roles=("wait",))
    with pytest.raises(KeyError, match="nothing was recorded of '9', 'weight'"):
        recorder.series("9", "weight")


def test_gradient_scales_are_recorded():
    recorder = Recorder(every=1)
    list(trainer("int4_fp4_2020", recorder=recorder).steps(3))
    scales = recorder.series("4", "output_gradient_dw")["scale"]
    assert (scales > 0).all() and (np.log2(scales) % 1 == 0).all() and (scales < 1).all()


class Recurrent(nn.Module):
    """Two layers, both directions, dropout between them, cells behind: everything recurrent that PyTorch fuses."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, bidirectional=True, dropout=0.3, batch_first=True)
        self.gru = nn.GRU(8, 5)
        self.cells = nn.ModuleList([nn.LSTMCell(5, 6), nn.GRUCell(6, 5, bias=False)])
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        y, _ = self.lstm(x)
        y, last = self.gru(y.transpose(0, 1))
        h, _ = self.cells[0](y[-1], (y.new_zeros(len(x), 6), y.new_zeros(len(x), 6)))
        return self.head(self.cells[1](h, last[0]))


def test_the_recorder_sees_inside_recurrent_layers_and_changes_no_bit():
    """What PyTorch computes in one piece under fp32 is shown step by step, as where a recipe makes us compute it so."""
    x, y = torch.randn(8, 6, 3, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 2
    found, fine = {}, Recipe(weight=FloatFormat(8, 20))
    for recipe, recorder in (("fp32", None), ("fp32", Recorder(every=1)), (fine, Recorder(every=1))):
        torch.manual_seed(0)
        run = Trainer(Recurrent(), lambda step: (x, y), recipe, lr=0.5, recorder=recorder)
        found[recipe == "fp32", recorder is None] = losses(run.steps(3)), recorder
    assert found[True, True][0] == found[True, False][0]
    plain, rounded = found[True, False][1], found[False, False][1]
    assert set(plain.names()) == set(rounded.names())
    gates = [n for n, _ in plain.names() if n.startswith("lstm/")]
    assert {"lstm/input_l1_reverse", "lstm/recurrent_l0"} <= set(gates)
    for name, role in plain.names():
        mine, other = plain.series(name, role), rounded.series(name, role)
        assert np.array_equal(mine["step"], other["step"]), (name, role)
        assert (mine["relative_error"] == 0).all()
        np.testing.assert_allclose(mine["largest"], other["largest"], rtol=1e-3, err_msg=f"{name} {role}")
    dy = plain.series("lstm/recurrent_l0", "output_gradient_dx")
    assert dy["step"].tolist() == [0, 1, 2] and (dy["largest"] > 0).all()


def test_a_layer_used_twice_has_one_record_of_both():
    layer = nn.Linear(2, 2, bias=False)
    model = quantize_model(nn.Sequential(layer, layer), "hfp8_2019", first=None, last=None)
    nn.init.constant_(model[0].weight, 1.0)
    recorder = Recorder(every=1)
    with recorder.watching(model, 0):
        model(torch.tensor([[1.0, 1.0]])).sum().backward()
    seen = recorder.series("0", "activation")
    assert seen["step"].tolist() == [0] and seen["largest"].tolist() == [2.0] and seen["histogram"].sum() == 4


def test_a_recorder_watches_evaluation_too():
    model, recorder = quantize_model(Recurrent().eval(), "fp32"), Recorder(every=1)
    with recorder.watching(model, 0), torch.no_grad():
        seen = model(torch.randn(2, 3, 3))
    assert not seen.requires_grad and ("gru/recurrent_l0", "activation") in recorder.names()
