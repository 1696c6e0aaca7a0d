"""Federated averaging: one client is SGD, bytes are counted, clients that do not come back, bad input."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from lplab import formats  # noqa: E402
from lplab.compression import QSGD, AdaComp, Dense, ScaleCom, TopK  # noqa: E402
from lplab.parallel import FedAvg, FederatedSettings, client_batches  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402
from tests.kinds import one_in_three  # noqa: E402

CLIENTS, BATCH = 8, 10


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))


def examples(count=400):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 20, generator=generator)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def federated(seed=0, by_label=False, **settings):
    data = client_batches(*examples(), clients=settings.get("clients", CLIENTS), batch=BATCH, by_label=by_label)
    return FedAvg(net(), data, FederatedSettings(**{"clients": CLIENTS, "share": 0.5, **settings}), seed=seed)


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


def test_one_client_that_always_answers_is_plain_sgd():
    run = federated(clients=1, share=1.0, local_steps=3)
    list(run.rounds(2))
    model, data = net(), run.data
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        inputs, targets = data(0, step)
        optimizer.zero_grad()
        default_loss(model(inputs), targets).backward()
        optimizer.step()
    plain = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.testing.assert_close(weights(run), plain, rtol=0, atol=1e-6)


def test_the_server_adds_the_mean_of_what_clients_moved_by():
    run = federated(share=1.0, clients=3, local_steps=2)
    before = weights(run)
    moved = []
    for client in range(3):
        update, _ = run._train(client, run._download()[0])
        moved.append(np.concatenate([values.ravel() for values in update.values()]))
    assert (weights(run) == before).all(), "clients leave the server's weights alone"
    run.one_round()
    np.testing.assert_allclose((weights(run) - before).numpy(), np.mean(moved, axis=0), atol=1e-7)


@pytest.mark.parametrize(
    "upload", one_in_three([Dense(), TopK(0.05), AdaComp(bin=50), ScaleCom(chunk=20), QSGD()]), ids=repr
)
def test_any_compressor_learns_and_its_bytes_are_those_of_the_ledger(upload):
    run = federated(upload=upload, local_steps=5)
    rounds = list(run.rounds(30))
    assert rounds[-1].loss < 0.8 * rounds[0].loss
    for report in rounds:
        assert report.bytes_up == run.ledger.total(step=report.number) > 0
        senders = {entry.rank for entry in run.ledger.entries if entry.step == report.number}
        assert senders == set(report.responded)


def test_bytes_down_are_those_of_the_codes():
    """Matrices in 8 bits, vectors in float32: (20·64 + 64·4)·1 + (64 + 4)·4 for each of four clients."""
    short, plain = (next(federated(download=name).rounds(1)) for name in ("hfp8_forward", "fp32"))
    assert short.bytes_down == 4 * (1536 + 272) and plain.bytes_down == 4 * 4 * 1604


def test_clients_read_weights_of_the_format_and_the_server_keeps_its_own():
    run = federated(download="hfp8_forward")
    weights_sent, _ = run._download()
    first = dict(run.model.named_parameters())["0.weight"].detach().numpy()
    np.testing.assert_array_equal(weights_sent["0.weight"], formats.get("hfp8_forward").quantize(first))
    np.testing.assert_array_equal(weights_sent["0.bias"], dict(run.model.named_parameters())["0.bias"].detach().numpy())
    assert (weights_sent["0.weight"] != first).any()


def test_who_does_not_answer_sends_nothing_and_remembers_nothing_new():
    run = federated(upload=TopK(0.05), response_probability=0.5)
    rounds = list(run.rounds(6))
    assert any(set(report.responded) < set(report.selected) for report in rounds)
    assert set(run._states) == {client for report in rounds for client in report.responded}
    assert all(len(report.selected) == 4 for report in rounds)


def test_nobody_answers_and_nothing_changes():
    run = federated(response_probability=1e-9)
    before = weights(run)
    report = run.one_round()
    assert not report.responded and report.bytes_up == 0 and np.isnan(report.loss) and report.bytes_down > 0
    assert (weights(run) == before).all()


def test_memories_of_clients_that_never_come_back_are_lost_for_good():
    """Without replacement all residuals are lost; with replacement they are not."""
    once = [*federated(clients=40, share=0.1, without_replacement=True, upload=TopK(0.02)).rounds(10)]
    again = [*federated(clients=40, share=0.1, upload=TopK(0.02)).rounds(10)]
    assert all(report.lost_residual_norm == report.pending_residual_norm > 0 for report in once)
    assert all(report.lost_residual_norm == 0 < report.pending_residual_norm for report in again)
    assert once[-1].lost_residual_norm > once[0].lost_residual_norm
    selected = [client for report in once for client in report.selected]
    assert len(set(selected)) == len(selected) == 40


def test_what_is_applied_and_what_waits_are_all_there_was():
    """With lossless selection of values: what the server added and the residuals are the mean of all updates."""
    run = federated(clients=4, share=1.0, upload=TopK(0.05), local_steps=1)
    before, moved = weights(run).double(), 0.0
    for _ in range(4):
        updates = [run._train(client, run._download()[0])[0] for client in range(4)]
        moved = moved + np.mean([np.concatenate([u.ravel() for u in update.values()]) for update in updates], axis=0)
        run.one_round()
    residuals = [np.concatenate([state["residual"] for state in m.states.values()]) for m in run._states.values()]
    applied = (weights(run).double() - before).numpy()
    np.testing.assert_allclose(applied + np.mean(residuals, axis=0), moved, atol=1e-6)


def test_an_update_that_is_not_finite_counts_as_no_answer():
    run = federated(clients=2, share=1.0)
    good = run.data
    run.data = lambda client, step: (good(client, step)[0] * (float("nan") if client else 1), good(client, step)[1])
    report = run.one_round()
    assert report.responded == (0,) and report.selected == (0, 1) and torch.isfinite(weights(run)).all()


class Product(nn.Module):
    """A parameter times the inputs."""

    def __init__(self, values):
        super().__init__()
        self.weight = nn.Parameter(values)

    def forward(self, factor):
        return (self.weight * factor).sum()


def products(values, size=1.0):
    """Rounds in which the first client's update is ``size`` large; steps with a rate of 1 move it by that."""
    model = Product(values)

    def data(client, step):
        factor = torch.randn(values.shape, generator=torch.Generator().manual_seed(10 * step + client))
        return (torch.full_like(factor, size) if client == 0 else factor), None

    settings = FederatedSettings(clients=4, share=1.0, lr=1.0, local_steps=1, upload=TopK(0.5))
    return FedAvg(model, data, settings, loss=lambda output, _: output.float())


def test_updates_whose_sum_overflows_count_as_no_answer():
    """The first client sends half of its update; what is left and the next update do not fit float32 together."""
    run = products(torch.zeros(20, 30), size=2e38)
    first, second = run.rounds(2)
    assert (len(first.responded), len(second.responded)) == (4, 0) and first.bytes_up > second.bytes_up == 0
    assert 0 < second.pending_residual_norm == first.pending_residual_norm < np.inf
    assert run.model.weight.isfinite().all() and run.model.weight.any()


@pytest.mark.parametrize("values", [
    torch.zeros(30, 20).T, torch.zeros(8, 6, 3, 3).to(memory_format=torch.channels_last), torch.zeros(20, 60)[:, ::2],
    torch.zeros(()),
])  # fmt: skip
def test_weights_are_sent_by_their_indices_however_they_lie_in_memory(values):
    strided, plain = products(values), products(values.contiguous())
    assert [r.bytes_up for r in strided.rounds(3)] == [r.bytes_up for r in plain.rounds(3)]
    assert torch.equal(strided.model.weight, plain.model.weight) and strided.model.weight.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_other_precision_are_sent_as_float32(dtype):
    run = products(torch.zeros(20, 30, dtype=dtype))
    assert [len(one.responded) for one in run.rounds(2)] == [4, 4] and run.model.weight.dtype == dtype
    assert run.model.weight.any()
    with pytest.raises(TypeError, match="complex parameters are not supported: updates are sent as real float32"):
        products(torch.zeros(3, dtype=torch.complex64))


@pytest.mark.parametrize(("clients", "share", "selected"), [(100, 0.29, 29), (10, 0.25, 2), (5, 0.1, 1), (7, 1.0, 7)])
def test_a_share_is_whole_clients_rounded_down(clients, share, selected):
    assert FederatedSettings(clients=clients, share=share).selected_per_round == selected


def test_same_seed_same_bits():
    one, two, other = (federated(seed=s, upload=QSGD(), response_probability=0.8) for s in (0, 0, 1))
    assert list(map(str, one.rounds(3))) == list(map(str, two.rounds(3)))
    assert (weights(one) == weights(two)).all()
    list(other.rounds(3))
    assert (weights(one) != weights(other)).any()


def test_data_by_label_are_few_classes_each():
    inputs, targets = examples()
    mixed, sorted_ = (client_batches(inputs, targets, 8, 20, by_label=x) for x in (False, True))
    counts = [np.mean([len(data(c, 0)[1].unique()) for c in range(8)]) for data in (mixed, sorted_)]
    assert counts[1] < 2.2 < 3.5 < counts[0]


@pytest.mark.parametrize(("settings", "message"), [
    ({"share": 0.0}, "share must be above 0 and at most 1, got 0.0"),
    ({"response_probability": 1.5}, "response_probability must be above 0"),
    ({"clients": 0}, "clients"),
    ({"clients": 2.5}, "clients of FederatedSettings takes a whole number"),
    ({"local_steps": 0}, "local_steps"),
    ({"lr": -1.0}, "lr must be a positive number"),
    ({"share": "x"}, "share of FederatedSettings takes a number, got 'x'"),
    ({"upload": "topk"}, "upload of FederatedSettings takes Compressor, got 'topk'"),
    ({"without_replacement": "no"}, "without_replacement of FederatedSettings takes true or false"),
    ({"download": "int4"}, "download: only codes of 8, 16 or 32 bits can be sent, 'int4' has 4"),
    ({"download": "fp9"}, "fp9"),
])  # fmt: skip
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        FederatedSettings(**settings)


def test_bad_models_and_data():
    with pytest.raises(ValueError, match="BatchNorm"):
        FedAvg(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), lambda client, step: None)
    with pytest.raises(ValueError, match="fewer than a batch of 60"):
        client_batches(*examples(), clients=8, batch=60)
    with pytest.raises(ValueError, match="8 are left|0 of 8 are left"):
        list(federated(without_replacement=True).rounds(3))
