"""Learners in one process: engines against each other, checkpoints, NaN, layers, similarity."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from lplab import models  # noqa: E402
from lplab.compression import (  # noqa: E402
    AdaComp,
    Dense,
    DenseIfSmall,
    EFSign,
    LayerInfo,
    PowerSGD,
    ScaleCom,
    SignSGD,
    TopK,
)
from lplab.parallel import (  # noqa: E402
    CompressorStates,
    Learners,
    cosine_distance,
    hamming_distance,
    layer_infos,
    merge_ranks,
    shards,
    simulate_learners,
)
from lplab.parallel.learner_gradients import batched_gradients, sequential_gradients  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402
from tests.kinds import one_in_three, slow  # noqa: E402


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def data(step, size=24):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(size, 20, generator=generator)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def learners(compressor, world=4, seed=0, **options):
    return Learners(net(), default_loss, shards(data, world), compressor, world, seed=seed, **options)


COMPRESSORS = [
    Dense(),
    AdaComp(bin=50),
    ScaleCom(chunk=20),
    ScaleCom(chunk=20, beta=0.3),
    TopK(0.05),
    EFSign(),
    PowerSGD(2),
]


def test_dense_learners_are_one_learner_with_the_whole_batch():
    many, model = learners(Dense(), 4), net()
    update = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, _ in enumerate(many.steps(5)):
        update.zero_grad()
        default_loss(model(data(step)[0]), data(step)[1]).backward()
        update.step()
    for ours, theirs in zip(many.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("compressor", one_in_three(COMPRESSORS), ids=repr)
def test_all_of_them_learn(compressor):
    run = learners(compressor, 4)
    losses = [step.loss for step in run.steps(150)]
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


@pytest.mark.parametrize("compressor", [SignSGD(), SignSGD(momentum=0.9)], ids=repr)
@pytest.mark.parametrize("world", [3, slow(4)])
def test_learners_that_vote_learn(compressor, world):
    run = learners(compressor, world, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.002))
    losses = [step.loss for step in run.steps(150)]
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


@pytest.mark.parametrize("compressor", [*COMPRESSORS, SignSGD(), SignSGD(momentum=0.9)], ids=repr)
def test_a_checkpoint_goes_on_bit_for_bit(compressor, tmp_path):
    through, first = learners(compressor), learners(compressor)
    list(through.steps(6))
    list(first.steps(3))
    torch.save(first.state_dict(), tmp_path / "run.pt")
    second = learners(compressor, seed=0)
    second.load_state_dict(torch.load(tmp_path / "run.pt", weights_only=True))
    list(second.steps(3))
    assert all(torch.equal(a, b) for a, b in zip(through.model.parameters(), second.model.parameters(), strict=True))
    assert (through.residuals("2.weight") == second.residuals("2.weight")).all()
    for ours, theirs in zip(through.states, second.states, strict=True):
        for name, state in ours.states.items():
            assert all((theirs.states[name][key] == array).all() for key, array in state.arrays().items())


@pytest.mark.parametrize("world", [2, 8])
def test_four_learners_go_on_as_two_or_eight_with_the_mean_of_what_is_owed(world):
    four, other = learners(ScaleCom(chunk=20), 4), learners(ScaleCom(chunk=20), world)
    list(four.steps(3))
    other.load_state_dict(four.state_dict())
    mean = four.residuals("2.weight").mean(axis=0, dtype=np.float64)
    np.testing.assert_allclose(other.residuals("2.weight").mean(axis=0), mean, rtol=1e-5, atol=1e-9)
    assert len(list(other.steps(2))) == 2 and other.step == 5


def test_nan_in_one_learner_changes_nothing_and_training_goes_on():
    def poisoned(step, rank):
        x, y = shards(data, 4)(step, rank)
        return (x * float("nan") if (step, rank) == (1, 2) else x), y

    run = Learners(net(), default_loss, poisoned, AdaComp(bin=50), 4)
    run.one_step()
    before = [p.clone() for p in run.model.parameters()], run.residuals("2.weight").copy()
    step = run.one_step()
    assert step.skipped and step.payload_bytes == 0
    assert all(torch.equal(a, b) for a, b in zip(before[0], run.model.parameters(), strict=True))
    assert (run.residuals("2.weight") == before[1]).all()
    after = run.one_step()
    assert not after.skipped and np.isfinite(after.loss)


def test_nan_in_the_last_layer_alone_undoes_what_the_layers_before_it_proposed():
    run = learners(AdaComp(bin=50))
    run.one_step()
    before = [p.clone() for p in run.model.parameters()], run.residuals("0.weight").copy(), len(run.ledger.entries)
    hook = run.model[2].weight.register_hook(lambda gradient: gradient * float("inf"))
    step = run.one_step()
    hook.remove()
    assert step.skipped and step.payload_bytes == 0 and np.isfinite(step.loss)
    assert all(torch.equal(a, b) for a, b in zip(before[0], run.model.parameters(), strict=True))
    assert (run.residuals("0.weight") == before[1]).all() and len(run.ledger.entries) == before[2]
    other = learners(AdaComp(bin=50))
    other.one_step()
    other.step = run.step
    assert run.one_step() == other.one_step() and torch.equal(run.model[0].weight, other.model[0].weight)


class Scaled(nn.Module):
    """A layer with a scalar parameter, and one without elements."""

    def __init__(self):
        super().__init__()
        self.layer, self.scale = nn.Linear(20, 4), nn.Parameter(torch.ones(()))
        self.nothing = nn.Parameter(torch.zeros(0, 3))

    def forward(self, x):
        return self.layer(x) * self.scale + self.nothing.sum()


def test_scalars_and_parameters_without_elements_are_trained_as_elsewhere():
    torch.manual_seed(0)
    run = Learners(Scaled(), default_loss, lambda step, rank: data(10 * step + rank), TopK(1.0), 3)
    assert list(layer_infos(run.model)) == ["scale", "layer.weight", "layer.bias"]
    before = {name: p.detach().clone() for name, p in run.model.named_parameters()}
    assert not any(step.skipped for step in run.steps(2))
    unchanged = [name for name, p in run.model.named_parameters() if torch.equal(p, before[name])]
    assert unchanged == ["nothing"]


def test_small_tensors_go_dense_where_that_is_wanted():
    run = learners(DenseIfSmall(TopK(0.05)))
    run.one_step()
    sent = {name: run.ledger.total(layer=name, rank=0) for name in ("0.weight", "0.bias", "2.weight", "4.weight")}
    assert sent["0.bias"] == 4 * 64 and sent["4.weight"] == 4 * 256, "as they are"
    assert sent["0.weight"] < 4 * 1280 / 5 and sent["2.weight"] < 4 * 4096 / 5
    assert not run.residuals("0.bias").any() and run.residuals("2.weight").any()


def test_one_learner_and_no_learners():
    assert len(list(learners(ScaleCom(chunk=20), 1).steps(2))) == 2
    with pytest.raises(ValueError, match="learners"):
        learners(Dense(), 0)
    with pytest.raises(ValueError, match="unknown engine 'vmap'; allowed: loop, stacked"):
        learners(Dense(), 2, engine="vmap")
    with pytest.raises(ValueError, match="cannot be divided"):
        learners(Dense(), 5).one_step()
    with pytest.raises(TypeError, match="batches"):
        simulate_learners(net())


@pytest.mark.parametrize(("model", "kinds"), [
    (net().double(), "float64"), (net().bfloat16(), "bfloat16"), (net().requires_grad_(False), "none"),
])  # fmt: skip
def test_learners_train_float32(model, kinds):
    with pytest.raises(TypeError, match=f"float32 parameters; those of this model: {kinds}"):
        Learners(model, default_loss, shards(data, 2), Dense(), 2)


def test_a_name_is_no_compressor():
    with pytest.raises(TypeError, match="a compressor is needed, .*, got 'topk'"):
        learners("topk")


def test_the_number_of_torchs_threads_is_put_back():
    before = torch.get_num_threads()
    learners(Dense()).one_step()
    assert torch.get_num_threads() == before


# ---- engines ----


class Attention(nn.Module):
    """Layers of every kind that can be batched, with images, symbols and norms."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.head = nn.Embedding(11, 8), nn.LayerNorm(8), nn.Linear(8, 3, bias=False)

    def forward(self, x):
        x = self.norm(self.table(x))
        return self.head((x + torch.softmax(x @ x.mT, -1) @ x).mean(1))


def images(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 3, 9, 9, generator=generator), torch.randint(0, 5, (size,), generator=generator)


MODELS = {
    "mlp": (net, lambda: [data(r, 6) for r in range(5)]),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 2, bias=False), nn.Flatten(),
            nn.Linear(64, 5)),
        lambda: [images(6, r) for r in range(5)],
    ),
    "attention": (Attention, lambda: [(torch.randint(0, 11, (6, 7)), torch.randint(0, 3, (6,))) for _ in range(5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_stacked_gradients_are_those_of_the_loop(name):
    torch.manual_seed(0)
    make, batches = MODELS[name]
    model, batches = make(), batches()
    one, other = (
        engine(model, default_loss, batches, range(5)) for engine in (sequential_gradients, batched_gradients)
    )
    assert one.losses == pytest.approx(other.losses, rel=1e-5)
    assert list(one.gradients) == list(other.gradients) == [n for n, _ in model.named_parameters()]
    for parameter, gradient in one.gradients.items():
        torch.testing.assert_close(other.gradients[parameter], gradient, rtol=1e-4, atol=1e-6)
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


@pytest.mark.parametrize(("model", "message"), [
    (nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8)), "1: BatchNorm would mix"),
    (nn.Sequential(nn.Linear(20, 8), nn.PReLU()), "1: PReLU cannot be stacked, only Conv2d, "),
])  # fmt: skip
def test_layers_that_cannot_be_stacked_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        Learners(model, default_loss, shards(data, 2), Dense(), 2, engine="stacked").one_step()
    assert all(p.requires_grad for p in model.parameters())


def test_a_layer_that_is_used_twice_is_named():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(20, 20)

        def forward(self, x):
            return self.layer(self.layer(x))

    with pytest.raises(ValueError, match="'layer' is used twice"):
        batched_gradients(Twice(), default_loss, [data(0, 4), data(1, 4)], [0, 1])


@pytest.mark.parametrize("examples, learners", [(2, 4), (2, 2), (4, 1), (4, 3)])
def test_a_layer_whose_rows_are_not_examples_is_named(examples, learners):
    """Positions are looked up once for all: their gradient is a sum, which cannot be separated by learner.

    That is seen where there are as many positions as examples of all learners, or of one, too.
    """
    from lplab.models.transformer import CharacterTransformer

    model = CharacterTransformer(10, width=8, context=4, blocks=1, heads=2)
    ids = (torch.arange(4 * examples) % 10).view(examples, 4)
    batches = [(ids, ids)] * learners
    with pytest.raises(ValueError, match="'position_embedding' is not given one row for each example"):
        batched_gradients(model, lambda output, target: output.mean(), batches, range(learners))


class Tied(nn.Module):
    """The way out of a language model: with the weights of the way in."""

    def __init__(self):
        super().__init__()
        self.way_in = nn.Linear(20, 4, bias=False)

    def forward(self, x):
        return self.way_in(x.to(self.way_in.weight.dtype)) @ self.way_in.weight @ self.way_in.weight.T


class Centred(nn.Module):
    """A mean over the batch, without any layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(20, 4)

    def forward(self, x):
        return self.layer(x - x.mean(0))


class TimeFirst(Centred):
    """Examples in the second dimension of the output."""

    def forward(self, x):
        return self.layer(x)[None].expand(4, -1, -1)


@pytest.mark.parametrize("examples", [1, 6])
@pytest.mark.parametrize(("model", "message"), [
    (TimeFirst(), "the output's rows are not those of its examples"),
    (Tied(), "the weights of layer 'way_in' are also used outside of it"),
    (Centred(), "depends on the others of its batch"),
])  # fmt: skip
def test_what_would_give_other_gradients_without_a_word_is_refused(model, message, examples):
    batches = [data(r, examples) for r in range(3)]
    with pytest.raises(ValueError, match=message):
        batched_gradients(model.train(), lambda output, target: output.pow(2).mean(), batches, range(3))
    assert model.training and all(p.requires_grad for p in model.parameters())
    assert len(sequential_gradients(model, lambda output, target: output.pow(2).mean(), batches, range(3)).losses) == 3


def test_dropout_can_be_stacked():
    model = nn.Sequential(nn.Linear(20, 64), nn.Dropout(0.5), nn.Linear(64, 4))
    run = Learners(model, default_loss, shards(data, 4), Dense(), 4, engine="stacked")
    assert len(list(run.steps(2))) == 2 and model.training


def test_running_means_are_those_of_rank_zero():
    model = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    alone = nn.Sequential(nn.Linear(20, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    alone.load_state_dict(model.state_dict())
    parts = [shards(data, 3)(0, r) for r in range(3)]
    sequential_gradients(model, default_loss, parts, [0, 1, 2])
    alone(parts[0][0])
    assert torch.equal(model[1].running_mean, alone[1].running_mean)
    assert model[1].num_batches_tracked == 1


# ---- layers, state, similarity ----


def test_layers_of_a_residual_net():
    infos = layer_infos(models.digits_resnet(0), torch.zeros(2, 1, 8, 8))
    first = next(iter(infos.values()))
    assert first.first and first.kind == "convolution" and first.weight_reuse == 64
    assert sum(info.first for info in infos.values()) == 1
    assert {info.kind for info in infos.values()} == {"convolution", "small", "dense"}


def test_layers_of_an_lstm_and_frozen_parameters():
    model = models.lstm(30, seed=0)
    kinds = {info.kind for info in layer_infos(model).values()}
    assert {"recurrent", "embedding"} <= kinds
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    assert layer_infos(model) == {}


def test_what_is_frozen_in_the_middle_stays_as_it_is():
    run = learners(ScaleCom(chunk=20))
    list(run.steps(2))
    first = run.model[0].requires_grad_(False)
    before = first.weight.clone()
    *_, step = run.steps(2)
    assert torch.equal(first.weight, before) and first.weight.grad is None
    assert not run.ledger.total(step=step.number, layer="0.weight") and run.ledger.total(step=1, layer="0.weight")


def test_what_had_no_gradient_at_the_beginning_is_named():
    run = simulate_learners(
        nn.Sequential(nn.Linear(20, 8).requires_grad_(False), nn.Linear(8, 4)),
        default_loss,
        shards(data, 2),
        Dense(),
        2,
    )
    run.model.requires_grad_(True)
    with pytest.raises(ValueError, match=r"^0\.bias, 0\.weight had no requires_grad when"):
        run.one_step()


def test_a_batch_is_divided_among_one_learner_or_more():
    with pytest.raises(ValueError, match="learners must be an integer from 1"):
        shards(data, 0)


def test_memories_check_checkpoints():
    infos = {"w": LayerInfo("w", (40, 40))}
    saved = CompressorStates(ScaleCom(chunk=20), infos).state_dict()
    with pytest.raises(ValueError, match="compresses by"):
        CompressorStates(ScaleCom(chunk=25), infos).load_state_dict(saved)
    with pytest.raises(ValueError, match="the layers"):
        CompressorStates(ScaleCom(chunk=20), {"v": LayerInfo("v", (40, 40))}).load_state_dict(saved)


def test_the_mean_of_the_residuals():
    infos = {"w": LayerInfo("w", (40, 40))}
    states = [CompressorStates(ScaleCom(chunk=20), infos) for _ in range(3)]
    for i, state in enumerate(states):
        state.states["w"].load({"residual": np.full(1600, i, np.float32)})
    assert (merge_ranks([m.state_dict() for m in states])["layers"]["w"]["residual"] == 1).all()


def test_similarity_against_all_pairs():
    rng = np.random.default_rng(0)
    residuals = rng.standard_normal((5, 100)) + 1
    pairs = [(a, b) for i, a in enumerate(residuals) for b in residuals[:i]]
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]
    assert cosine_distance(residuals) == pytest.approx(1 - np.mean(cosines))
    assert cosine_distance(np.ones((3, 4))) == pytest.approx(0)
    assert np.isnan(cosine_distance(np.zeros((3, 4))))
    assert hamming_distance(np.array([[2, 1, 0, 0], [0, 0, 1, 2.0]]), 2) == 1


def test_residues_of_learners_grow_alike_with_the_batch():
    """The larger the batch of each learner, the more alike are their gradients and residuals."""
    distances = []
    for size in (2, 64):
        run = Learners(net(), default_loss, shards(lambda step, n=size: data(step, 4 * n), 4), ScaleCom(chunk=20), 4)
        list(run.steps(30))
        distances.append(cosine_distance(run.residuals("2.weight")))
    assert distances[1] < distances[0]


@pytest.mark.parametrize("bad", [np.zeros((1, 4)), np.zeros(4)])
def test_similarity_needs_two(bad):
    with pytest.raises(ValueError, match="two learners"):
        cosine_distance(bad)
    with pytest.raises(ValueError, match="two learners"):
        hamming_distance(bad, 1)
    with pytest.raises(ValueError, match="k must be"):
        hamming_distance(np.zeros((2, 4)), 5)


def test_the_check_of_a_model_runs_once_for_each_shape():
    passes, passed = [], set()
    model = torch.nn.Linear(20, 4)
    model.register_forward_pre_hook(lambda *_: passes.append(1))
    counts = []
    for examples in (4, 4, 8, 8, 4):
        passes.clear()
        batched_gradients(model, default_loss, [data(0, examples), data(1, examples)], [0, 1], passed)
        counts.append(len(passes))
    assert counts == [3, 1, 3, 1, 1], "two passes of the check, the first time alone"


def test_learners_check_their_model_in_the_first_step_and_other_learners_check_it_again():
    passes, model = [], torch.nn.Linear(20, 4)
    model.register_forward_pre_hook(lambda *_: passes.append(1))
    counts = []
    for steps in (3, 2):
        run = Learners(model, default_loss, shards(data, 4), Dense(), 4, engine="stacked")
        for _ in range(steps):
            passes.clear()
            run.one_step()
            counts.append(len(passes))
    assert counts == [3, 1, 1, 3, 1]


def test_a_layer_that_is_replaced_is_checked():
    model = nn.Sequential(nn.Linear(20, 4))
    run = Learners(model, default_loss, shards(data, 4), Dense(), 4, engine="stacked")
    run.one_step()
    model[0] = Centred()
    with pytest.raises(ValueError, match="depends on the others of its batch"):
        run.one_step()
