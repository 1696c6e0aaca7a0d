"""Learners that take steps of their own and meet: the outer step by hand, FedAvg as a special case, who is left out."""

import copy
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from lplab.compression import Dense, LowBit, SparseLoCo  # noqa: E402
from lplab.parallel import FedAvg, FederatedSettings, Learners, LocalSteps  # noqa: E402
from lplab.parallel.compressor_states import layer_infos  # noqa: E402
from lplab.training.loop.trainer import default_loss  # noqa: E402

EVERY, LEARNERS = 3, 3
SGD, ADAMW = partial(torch.optim.SGD, lr=0.1), partial(torch.optim.AdamW, lr=0.01)


def net(dropout=0.0):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 4))


def batches(step, learner):
    generator = torch.Generator().manual_seed(100 * step + learner)
    x = torch.randn(10, 20, generator=generator)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()


def local(model=None, data=batches, **settings):
    return LocalSteps(model or net(), data, **{"learners": LEARNERS, "every": EVERY, "inner": ADAMW, **settings})


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).double()


# ---- the outer step --------------------------------------------------------------------------------------------------


def nesterov(delta, memory):
    memory["b"] = 0.9 * memory.get("b", 0) + delta
    return 0.7 * (delta + 0.9 * memory["b"])


def adam(delta, memory):
    memory["t"] = memory.get("t", 0) + 1
    memory["m"] = 0.9 * memory.get("m", 0) + 0.1 * delta
    memory["v"] = 0.999 * memory.get("v", 0) + 0.001 * delta**2
    first, second = memory["m"] / (1 - 0.9 ** memory["t"]), memory["v"] / (1 - 0.999 ** memory["t"])
    return 0.1 * first / (np.sqrt(second) + 0.1)


OUTER_STEPS = {
    "mean": lambda delta, memory: delta,
    "sgd": lambda delta, memory: 0.7 * delta,
    "nesterov": nesterov,
    "adam": adam,
}


@pytest.mark.parametrize("outer", OUTER_STEPS)
def test_rounds_are_those_of_the_algorithm(outer):
    """One model and one inner optimizer for each learner, and the outer step in float64."""
    run, models, memory = local(outer=outer), [net() for _ in range(LEARNERS)], {}
    optimizers, shared = [ADAMW(model.parameters()) for model in models], flat(net()).numpy()
    for number in range(3):
        for learner, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            nn.utils.vector_to_parameters(torch.from_numpy(shared).float(), model.parameters())
            for step in range(EVERY * number, EVERY * (number + 1)):
                inputs, targets = batches(step, learner)
                optimizer.zero_grad()
                default_loss(model(inputs), targets).backward()
                optimizer.step()
        ends = np.mean([flat(model).numpy() for model in models], axis=0)
        shared = shared - OUTER_STEPS[outer](shared - ends, memory)
        run.one_round()
        np.testing.assert_allclose(flat(run.model).numpy(), shared, atol=3e-6)


def test_the_first_step_of_nesterov_goes_133_percent_of_the_way():
    start = flat(net())
    plain, far = local(outer="mean"), local(outer="nesterov")
    plain.one_round()
    far.one_round()
    torch.testing.assert_close(flat(far.model) - start, 1.33 * (flat(plain.model) - start), rtol=1e-3, atol=1e-6)


def test_plain_sgd_inside_and_the_mean_outside_are_federated_averaging_to_the_bit():
    run = local(inner=SGD, outer="mean")
    settings = FederatedSettings(clients=LEARNERS, share=1.0, local_steps=EVERY, lr=0.1)
    federated = FedAvg(net(), lambda client, step: batches(step, client), settings)
    for ours, theirs in zip(run.rounds(4), federated.rounds(4), strict=True):
        assert torch.equal(flat(run.model), flat(federated.model))
        assert ours.loss == theirs.loss and ours.payload_bytes == theirs.bytes_up


def test_a_meeting_after_each_step_is_data_parallelism():
    run = local(inner=SGD, outer="mean", every=1)
    together = Learners(net(), default_loss, batches, Dense(), LEARNERS, optimizer=SGD)
    list(run.rounds(5))
    list(together.steps(5))
    torch.testing.assert_close(flat(run.model), flat(together.model), rtol=0, atol=1e-6)


def test_inner_optimizers_are_kept_and_never_averaged():
    run = local()
    list(run.rounds(2))
    moments = [run.inner[learner].state[run.model[0].weight]["exp_avg"] for learner in range(LEARNERS)]
    assert not torch.equal(moments[0], moments[1])
    assert {float(o.state[run.model[0].weight]["step"]) for o in run.inner} == {2 * EVERY}


def test_a_schedule_counts_the_steps_of_its_learner():
    run = local(schedule=lambda inner: torch.optim.lr_scheduler.StepLR(inner, EVERY, gamma=0.5))
    list(run.rounds(2))
    assert [inner.param_groups[0]["lr"] for inner in run.inner] == [0.0025] * LEARNERS


def test_gradients_are_clipped_in_inner_steps():
    start, run = flat(net()), local(inner=partial(torch.optim.SGD, lr=1.0), outer="mean", learners=1, clip=1e-3)
    run.one_round()
    assert 0 < (flat(run.model) - start).norm() <= EVERY * 1e-3 * 1.001


# ---- fragments -------------------------------------------------------------------------------------------------------

LAYERS = [("0.weight", "0.bias"), ("3.weight", "3.bias")]  # of the two blocks of the net


@pytest.mark.parametrize("outer", ["nesterov", "adam"])
@pytest.mark.parametrize(
    ("fragments", "delay", "alpha"), [(1, 0, 0.0), (1, 2, 0.0), (2, 0, 0.0), (2, 1, 0.25), (2, 2, 1)]
)
def test_fragments_meet_in_turn_and_late(outer, fragments, delay, alpha):
    """One model for each learner: what is sent ``delay`` steps ago moves the shared weights, and is mixed in."""
    steps, every = 3, 3 * fragments
    settings = {"every": every, "fragments": fragments, "delay": delay, "alpha": alpha, "outer": outer}
    run, models = local(**settings), [net() for _ in range(LEARNERS)]
    optimizers = [ADAMW(model.parameters()) for model in models]
    shared = {name: p.detach().double().numpy() for name, p in net().named_parameters()}
    memories = {name: {} for name in shared}
    for number in range(5):
        names = [name for layer in LAYERS[number % fragments :: fragments] for name in layer]
        sent = []
        for learner, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            own = dict(model.named_parameters())
            for step in range(steps * number, steps * (number + 1)):
                if step == steps * (number + 1) - delay:
                    sent.append({name: shared[name] - own[name].detach().double().numpy() for name in names})
                inputs, targets = batches(step, learner)
                optimizer.zero_grad()
                default_loss(model(inputs), targets).backward()
                optimizer.step()
            if not delay:
                sent.append({name: shared[name] - own[name].detach().double().numpy() for name in names})
        for name in names:
            mean = np.mean([delta[name] for delta in sent], axis=0)
            shared[name] = shared[name] - OUTER_STEPS[outer](mean, memories[name])
            for model in models:
                own = dict(model.named_parameters())[name].data
                own.copy_(alpha * own + (1 - alpha) * torch.from_numpy(shared[name]).float())
        report = run.one_round()
        assert report.fragment == number % fragments
        expected = np.concatenate([shared[name].ravel() for name in shared])
        np.testing.assert_allclose(flat(run.model).numpy(), expected, atol=6e-6)


def test_one_fragment_without_a_delay_is_plain_diloco_to_the_bit():
    plain, streaming = local(), local(fragments=1, delay=0, alpha=0.0, pattern="consecutive")
    for ours, theirs in zip(streaming.rounds(3), plain.rounds(3), strict=True):
        assert ours == theirs and torch.equal(flat(streaming.model), flat(plain.model))


def test_the_shared_weights_alone_are_taken_where_alpha_is_0_and_the_own_ones_where_it_is_1():
    """With alpha 1 a learner alone trains as if it met nobody, to the bit."""
    alone, free = local(learners=1, alpha=1.0), net()
    optimizer = ADAMW(free.parameters())
    list(alone.rounds(2))
    for step in range(2 * EVERY):
        inputs, targets = batches(step, 0)
        optimizer.zero_grad()
        default_loss(free(inputs), targets).backward()
        optimizer.step()
    own = torch.cat([weights.flatten() for weights in alone.state_dict()["own"][0].values()])
    assert torch.equal(own.double(), flat(free)) and not torch.equal(flat(alone.model), flat(free))
    assert local(learners=1).state_dict()["own"] == [None]


def test_fragments_send_as_many_bytes_in_smaller_messages():
    whole, parts = local(compressor="lowbit", every=4), local(compressor="lowbit", every=4, fragments=2)
    first = next(whole.rounds(1)).payload_bytes
    sent = [report.payload_bytes for report in parts.rounds(4)]
    assert sent[0] + sent[1] == sent[2] + sent[3] == first and max(sent) < first
    assert [parts.ledger.total(step=number) for number in range(4)] == sent
    assert {entry.layer for entry in parts.ledger.entries if entry.step == 1} == set(LAYERS[1])


def test_the_simulated_bytes_are_those_of_the_ledger():
    from lplab.hardware import Cluster, simulate_local_steps, workloads

    workload = workloads.from_module(net(), torch.zeros(10, 20))
    run = local(compressor="lowbit", every=4, fragments=2)
    list(run.rounds(2))
    found = simulate_local_steps(workload, Cluster("h100", LEARNERS), compressor="lowbit", every=4, fragments=2)
    # Around a ring each learner sends on what it has received, but for the last.
    expected = [(LEARNERS - 1) * run.ledger.total(step=number, rank=0) for number in range(2)]
    assert found.meeting_bytes.tolist() == expected


def test_a_leader_of_each_fragment_is_every_learner_in_turn():
    """Of two learners and two fragments, one would always lead one fragment if meetings were counted."""
    run = local(learners=2, every=2, fragments=2, compressor="scalecom:chunk=16")
    list(run.rounds(4))
    leaders = [
        {entry.rank for entry in run.ledger.entries if entry.step == number and entry.kind == "broadcast"}
        for number in (0, 2)
    ]
    assert leaders == [{0}, {1}]


@pytest.mark.parametrize("delay", [0, 1])
def test_nan_under_fragments_spoils_no_other_and_restarts_the_learner(delay):
    run = local(data=poisoned, every=2 * EVERY, fragments=2, delay=delay, alpha=0.5)
    assert [r.took_part for r in run.rounds(4)] == [(0, 1, 2), (0, 2), (0, 1, 2), (0, 1, 2)]
    assert torch.isfinite(flat(run.model)).all()
    assert all(torch.isfinite(w).all() for own in run.state_dict()["own"] for w in own.values())


# ---- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["sparseloco", "lowbit", "lowbit:format=int8", "topk:density=0.05", "powersgd"])
def test_any_compressor_learns_and_its_bytes_are_those_of_the_plan(text):
    run = local(net(dropout=0.1), compressor=text, outer="mean", every=10)
    rounds = list(run.rounds(12))
    assert rounds[-1].loss < 0.8 * rounds[0].loss
    infos, states = layer_infos(run.model), run.states[0]
    planned = sum(sum(t.payload_bytes for t in states.compressors[n].plan(i.shape)) for n, i in infos.items())
    for report in rounds:
        assert report.payload_bytes == run.ledger.total(step=report.number) == LEARNERS * planned


def test_four_bits_are_an_eighth_of_float32():
    dense, few = (next(local(compressor=text).rounds(1)).payload_bytes for text in ("dense", "lowbit"))
    assert few == dense / 8 + LEARNERS * 4 * 4  # a scale for each of four layers


def test_the_residual_stays_at_its_learner():
    run = local(compressor=SparseLoCo(chunk=64, k=4))
    run.one_round()
    residuals = [state.states["0.weight"]["residual"] for state in run.states]
    assert residuals[0].any() and not np.array_equal(residuals[0], residuals[1])


# ---- who takes part --------------------------------------------------------------------------------------------------


def test_who_is_late_or_gone_is_left_out_and_joins_the_next_round():
    how = {(1, 0): "late", (1, 2): "gone"}
    run = local(attendance=lambda number, learner: how.get((number, learner), "here"), compressor="sparseloco")
    reports = []
    for report in run.rounds(3):
        reports.append(report.took_part)
        if report.number == 0:
            before = [state.states["0.weight"]["residual"].copy() for state in run.states]
        elif report.number == 1:
            same = [
                np.array_equal(b, s.states["0.weight"]["residual"]) for b, s in zip(before, run.states, strict=True)
            ]
            assert same == [True, False, True], "who sent nothing keeps its residual"
            assert {e.rank for e in run.ledger.entries if e.step == 1} == {1}
    assert reports == [(0, 1, 2), (1,), (0, 1, 2)]
    steps = [float(inner.state[run.model[0].weight]["step"]) for inner in run.inner]
    assert steps == [3 * EVERY, 3 * EVERY, 2 * EVERY], "a late learner has taken its steps"


def test_a_round_of_two_is_the_mean_of_two():
    """A learner that is gone is not counted, as one that did not move would be."""
    two, three = local(learners=2), local(attendance=lambda number, learner: "here" if learner < 2 else "gone")
    list(two.rounds(2))
    list(three.rounds(2))
    assert torch.equal(flat(two.model), flat(three.model))


def test_nobody_comes_and_nothing_changes():
    run = local(attendance=lambda number, learner: "late" if number else "here")
    run.one_round()
    before, memory = flat(run.model), copy.deepcopy(run.shared.optimizer.state_dict())
    report = run.one_round()
    assert report.took_part == () and report.payload_bytes == 0 and np.isnan(report.loss)
    assert torch.equal(flat(run.model), before)
    for name, values in memory["state"].items():
        assert torch.equal(
            values["momentum_buffer"], run.shared.optimizer.state_dict()["state"][name]["momentum_buffer"]
        )


def poisoned(step, learner):
    """NaN for learner 1 in the second round."""
    inputs, targets = batches(step, learner)
    return inputs * (float("nan") if learner == 1 and step == EVERY + 1 else 1), targets


def test_nan_of_one_learner_spoils_no_other():
    """To the bit as if the learner had been late; its optimizer begins anew, and the next round has it again."""
    late = local(inner=SGD, attendance=lambda number, learner: "late" if (number, learner) == (1, 1) else "here")
    bad = local(inner=SGD, data=poisoned)
    assert (
        [r.took_part for r in bad.rounds(3)] == [r.took_part for r in late.rounds(3)] == [(0, 1, 2), (0, 2), (0, 1, 2)]
    )
    assert torch.equal(flat(bad.model), flat(late.model))
    adam = local(data=poisoned, schedule=lambda inner: torch.optim.lr_scheduler.StepLR(inner, EVERY, gamma=0.5))
    assert [r.took_part for r in adam.rounds(3)] == [(0, 1, 2), (0, 2), (0, 1, 2)]
    assert torch.isfinite(flat(adam.model)).all()
    assert {inner.param_groups[0]["lr"] for inner in adam.inner} == {0.00125}, "the schedule has gone on"


def test_an_average_that_overflows_leaves_all_out():
    class Far(torch.optim.SGD):
        """An optimizer that moves weights by almost the largest number."""

        def step(self):
            for parameter in self.param_groups[0]["params"]:
                parameter.data.fill_(-3e38)

    run = local(inner=partial(Far, lr=1.0), every=1)
    before = flat(run.model)
    report = run.one_round()
    assert report.took_part == () and report.payload_bytes == 0 and torch.equal(flat(run.model), before)
    assert run.ledger.entries == []


def test_after_ctrl_c_the_model_has_the_shared_weights_and_the_round_is_made_again():
    def interrupted(step, learner):
        if (step, learner) == (EVERY + 1, 1) and not done:
            done.append(True)
            raise KeyboardInterrupt
        return batches(step, learner)

    done, run = [], local(inner=SGD, data=interrupted)
    run.one_round()
    before = flat(run.model)
    with pytest.raises(KeyboardInterrupt):
        run.one_round()
    assert torch.equal(flat(run.model), before)
    whole = local(inner=SGD)
    list(whole.rounds(2))
    assert run.one_round().number == 1 and torch.equal(flat(run.model), flat(whole.model))


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "streaming", [{}, {"every": 6, "fragments": 2, "delay": 1, "alpha": 0.5}], ids=["whole", "parts"]
)
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(streaming):
    settings = {"compressor": "sparseloco", "schedule": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.99)}
    settings |= streaming
    whole = local(**settings)
    list(whole.rounds(2))
    saved = copy.deepcopy(whole.state_dict())
    list(whole.rounds(2))
    resumed = local(**settings)
    resumed.load_state_dict(saved)
    assert [report.number for report in resumed.rounds(2)] == [2, 3]
    assert torch.equal(flat(resumed.model), flat(whole.model))


@pytest.mark.parametrize("learners", [2, 5])
def test_another_number_of_learners_goes_on_with_the_mean_residual(learners):
    run = local(compressor=SparseLoCo(chunk=64, k=4))
    list(run.rounds(2))
    other = local(compressor=SparseLoCo(chunk=64, k=4), learners=learners)
    other.load_state_dict(run.state_dict())
    mean = np.mean([state.states["0.weight"]["residual"] for state in run.states], axis=0)
    for state in other.states:
        np.testing.assert_allclose(state.states["0.weight"]["residual"], mean, atol=1e-7)
    weight, mine = run.model[0].weight, other.model[0].weight
    assert torch.equal(other.inner[-1].state[mine]["exp_avg"], run.inner[(learners - 1) % 3].state[weight]["exp_avg"])
    before = run.inner[0].state[weight]["exp_avg"].clone()
    assert next(other.rounds(1)).took_part == tuple(range(learners))
    assert torch.equal(run.inner[0].state[weight]["exp_avg"], before), "the checkpoint is copied"


def test_a_checkpoint_of_another_compressor_is_refused():
    run = local(compressor=LowBit())
    with pytest.raises(ValueError, match="the checkpoint is of Dense"):
        run.load_state_dict(local().state_dict())


# ---- what is not allowed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("settings", "error", "message"), [
    ({"outer": "momentum"}, ValueError, "unknown outer optimizer 'momentum'; allowed: mean, sgd, nesterov, adam"),
    ({"every": 0}, ValueError, "every must be"),
    ({"every": 30, "fragments": 4}, ValueError, "every must be a multiple of the number of fragments"),
    ({"every": 4, "fragments": 2, "delay": 2}, ValueError, "delay must be less than every / fragments = 2 steps"),
    ({"every": 3, "fragments": 3}, ValueError, "a model of 2 blocks cannot be cut into 3 fragments"),
    ({"alpha": 1.5}, ValueError, "alpha must be from 0, the shared weights, to 1, the learner's own, got 1.5"),
    ({"pattern": "random"}, ValueError, "must be one of strided, consecutive"),
    ({"learners": 0}, ValueError, "learners must be"),
    ({"compressor": "sparselocal"}, ValueError, "did you mean sparseloco"),
    ({"compressor": 3}, TypeError, "a compressor is needed"),
    ({"model": nn.Sequential(nn.Linear(20, 4), nn.BatchNorm1d(4))}, ValueError, "BatchNorm has running means"),
    ({"model": nn.Linear(20, 4, dtype=torch.float64)}, TypeError, "learners train float32 parameters"),
])  # fmt: skip
def test_what_cannot_be_is_refused(settings, error, message):
    with pytest.raises(error, match=message):
        local(**settings)


def test_an_attendance_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="attendance must be one of here, late, gone, got 'ill'"):
        local(attendance=lambda number, learner: "ill").one_round()
