"""Local steps between ranks: the simulator's bits, whoever is late, lost or not finite; a message that is missing."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

from lplab.compression import AllGather, LowBit  # noqa: E402
from lplab.parallel import LocalSteps, local_steps  # noqa: E402
from lplab.parallel.store_meeting import KEPT_ROUNDS, packed, unpacked  # noqa: E402
from tests.parallel import local_steps_run  # noqa: E402
from tests.parallel.local_steps_run import ADAMW, EVERY, GONE, HERE, LATE, ROUNDS, batches, net, train  # noqa: E402

WORLD = 3
PROJECT = Path(__file__).parents[2]


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def simulated(how=None, world=WORLD, rounds=ROUNDS, data=batches, **settings):
    """The run in one process, and who took part."""
    lost = {rank: number for (number, rank), what in (how or {}).items() if what == GONE}

    def attendance(number, rank):
        return GONE if number >= lost.get(rank, rounds) else (how or {}).get((number, rank), HERE)

    settings = {"learners": world, "every": EVERY, "inner": ADAMW, "attendance": attendance} | settings
    run = LocalSteps(net(), data, **settings)
    return run, [report.took_part for report in run.rounds(rounds)]


def in_threads(how=None, world=WORLD, patience=60.0, **settings):
    """The models of ranks that are threads of this process, and what :func:`train` returns of each."""
    store, models = dist.HashStore(), [net() for _ in range(world)]

    def rank(number):
        own = {at: what for (at, other), what in (how or {}).items() if other == number}
        return train(models[number], store, number, world, own, patience=patience, **settings)

    with ThreadPoolExecutor(world) as pool:
        return models, list(pool.map(rank, range(world)))


@pytest.mark.parametrize("compressor", ["dense", "sparseloco", "lowbit", "scalecom:chunk=20", "powersgd", "randomk"])
def test_ranks_have_the_bits_of_the_simulator(compressor):
    """With collectives of each kind, and with two in a row."""
    run, _ = simulated(compressor=compressor)
    models, ranks = in_threads(compressor=compressor)
    assert all(torch.equal(weights(model), weights(run.model)) for model in models)
    for rank, (real, took_part) in enumerate(ranks):
        assert took_part == [(0, 1, 2)] * ROUNDS
        assert (
            real.ledger.total() == run.ledger.total(rank=rank) and real.ledger.total(rank=rank) == real.ledger.total()
        )


STREAMING = {"every": 6, "fragments": 2, "delay": 1, "alpha": 0.25, "rounds": 5}


@pytest.mark.parametrize("changes", [{}, {"delay": 0}, {"delay": 2, "alpha": 0}, {"pattern": "consecutive"}])
def test_ranks_have_the_bits_of_the_simulator_with_fragments_that_arrive_later(changes):
    settings = STREAMING | changes | {"compressor": "lowbit"}
    run, _ = simulated(**settings)
    _, ranks = in_threads(**settings)
    for rank, (real, took_part) in enumerate(ranks):
        assert took_part == [(0, 1, 2)] * 5
        shared = torch.cat([w.detach().flatten() for w in real.shared.weights.values()])
        assert torch.equal(shared, weights(run.model))
        assert real.ledger.entries == [entry for entry in run.ledger.entries if entry.rank == rank]
        own = run.state_dict()["own"][rank]
        assert all(torch.equal(p, own[name]) for name, p in real.shared.parameters.items())


def test_who_is_late_for_a_fragment_goes_on_with_its_own_weights_of_the_others():
    how = {(1, 0): LATE, (3, 2): GONE}
    run, took_part = simulated(how, compressor="sparseloco", **STREAMING)
    assert took_part == [(0, 1, 2), (1, 2), (0, 1, 2), (0, 1), (0, 1)]
    _, ranks = in_threads(how, compressor="sparseloco", patience=4.0, **STREAMING)
    for rank in (0, 1):
        real = ranks[rank][0]
        assert ranks[rank][1] == took_part
        own = run.state_dict()["own"][rank]
        assert all(torch.equal(p, own[name]) for name, p in real.shared.parameters.items())


@pytest.mark.parametrize("world", [3, 5])
@pytest.mark.parametrize("streaming", [{}, STREAMING], ids=["whole", "fragments"])
def test_a_run_of_four_ranks_resumes_with_three_or_five(world, streaming):
    """With the bits of the simulator that resumes in the same way."""
    settings = {"every": EVERY, "compressor": "sparseloco"} | streaming
    rounds = settings.pop("rounds", ROUNDS) - 1
    steps = settings["every"] // settings.get("fragments", 1)
    before, _ = simulated(world=4, rounds=rounds, **settings)
    after = LocalSteps(net(), batches, learners=world, inner=ADAMW, **settings)
    after.load_state_dict(before.state_dict())
    list(after.rounds(2))
    _, ranks = in_threads(world=4, rounds=rounds, **settings)
    states = [real.state_dict() for real, _ in ranks]
    store, others = dist.HashStore(), [net() for _ in range(world)]

    def go_on(rank):
        optimizer = ADAMW(others[rank].parameters())
        run = local_steps(others[rank], optimizer, store=store, rank=rank, world=world, **settings)
        # Optimizers keep the tensors that they load.
        optimizer.load_state_dict(deepcopy(ranks[rank % 4][0].optimizer.state_dict()))
        run.load_state_dict(states)
        for step in range(rounds * steps, (rounds + 2) * steps):
            local_steps_run.one_step(others[rank], optimizer, step, rank)
        return run

    with ThreadPoolExecutor(world) as pool:
        for run in pool.map(go_on, range(world)):
            assert run.took_part == tuple(range(world)) and run.meetings.number == rounds + 2
            shared = torch.cat([w.detach().flatten() for w in run.shared.weights.values()])
            assert torch.equal(shared, weights(after.model))


def test_states_of_different_rounds_are_refused():
    model = net()
    run = local_steps(model, ADAMW(model.parameters()), store=dist.HashStore(), rank=0, world=1)
    for states in ([], [run.state_dict(), run.state_dict() | {"round": 3}]):
        with pytest.raises(ValueError, match="the states of all ranks must be of one round"):
            run.load_state_dict(states)


def test_no_checkpoint_while_a_fragment_is_on_its_way():
    model = net()
    optimizer = ADAMW(model.parameters())
    run = local_steps(model, optimizer, every=3, delay=1, store=dist.HashStore(), rank=0, world=1)
    for step in range(2):
        local_steps_run.one_step(model, optimizer, step, 0)
    with pytest.raises(RuntimeError, match="a fragment is on its way"):
        run.state_dict()
    local_steps_run.one_step(model, optimizer, 2, 0)
    assert run.state_dict()["round"] == 1


def test_who_is_late_or_lost_is_left_out_and_who_is_late_joins_the_next_round():
    how = {(1, 0): LATE, (2, 2): GONE}
    run, took_part = simulated(how, compressor="sparseloco", rounds=5)
    assert took_part == [(0, 1, 2), (1, 2), (0, 1), (0, 1), (0, 1)]
    models, ranks = in_threads(how, compressor="sparseloco", rounds=5, patience=4.0)
    for rank in (0, 1):
        assert ranks[rank][1] == took_part and torch.equal(weights(models[rank]), weights(run.model))
    assert ranks[2][1] == took_part[:2]


def poisoned(step, rank):
    inputs, targets = batches(step, rank)
    return inputs * (float("nan") if (step, rank) == (EVERY, 1) else 1), targets


def test_nan_of_one_rank_spoils_no_other():
    run, took_part = simulated(data=poisoned)
    models, ranks = in_threads(data=poisoned)
    assert took_part == [(0, 1, 2), (0, 2), (0, 1, 2), (0, 1, 2)]
    for model, (_, real) in zip(models, ranks, strict=True):
        assert real == took_part and torch.equal(weights(model), weights(run.model))


@pytest.mark.parametrize("dies", [False, True], ids=["all send", "another one dies"])
def test_what_overflows_leaves_out_all(dies):
    """Rank 1's residual overflows with what it adds: all go on from the weights of before."""
    store, models = dist.HashStore(), [net() for _ in range(3)]
    settings = {"store": store, "world": 3, "compressor": "topk", "every": 1, "patience": 1.0 if dies else 60.0}
    runs = [local_steps(model, ADAMW(model.parameters()), rank=rank, **settings) for rank, model in enumerate(models)]
    for state in runs[1].states.states.values():
        state.load({"residual": np.full(state.arrays()["residual"].shape, 3e38, np.float32)})
    before = weights(models[0]).clone()
    with torch.no_grad():
        for p in models[1].parameters():
            p.sub_(3e38)
    if dies:
        runs[2].meetings._exchange = lambda *_: sys.exit()

    def meet(run):
        try:
            run._after_step()
        except SystemExit:
            return None
        return run.took_part

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(meet, runs)) == [(), (), None if dies else ()]
    for run, model in zip(runs[:2], models, strict=False):
        assert torch.equal(weights(model), before)
        assert run.meetings.number == 1 and run.ledger.total() == 0


def test_a_rank_that_dies_while_it_meets_is_left_out_in_a_second_try(monkeypatch):
    """It says that it takes part, and sends nothing."""
    run, took_part = simulated({(1, 2): GONE}, compressor="sparseloco")
    store, models = dist.HashStore(), [net() for _ in range(WORLD)]
    monkeypatch.setattr(local_steps_run, "die", lambda *_: sys.exit())  # of the thread alone

    def rank(number):
        how = {1: local_steps_run.DIES} if number == 2 else None
        try:
            return train(models[number], store, number, WORLD, how, compressor="sparseloco", patience=1.0)[1]
        except SystemExit:
            return None

    with ThreadPoolExecutor(WORLD) as pool:
        found = list(pool.map(rank, range(WORLD)))
    assert found == [took_part, took_part, None]
    assert all(torch.equal(weights(model), weights(run.model)) for model in models[:2])


def test_a_rank_that_begins_later_reads_along_and_a_checkpoint_is_for_one_that_is_too_late():
    store, first, second = dist.HashStore(), net(), net()
    run, _ = train(first, store, 0, 2, rounds=KEPT_ROUNDS + 1, patience=0.05)
    optimizer = ADAMW(second.parameters())
    other = local_steps(second, optimizer, every=1, store=store, rank=1, world=2, patience=0.05)
    with pytest.raises(RuntimeError, match="rank 1 comes too late to round 0, whose messages are deleted"):
        local_steps_run.one_step(second, optimizer, 0, 1)
    other.load_state_dict(run.state_dict())
    assert torch.equal(weights(second), weights(first)) and other.meetings.number == KEPT_ROUNDS + 1
    run.meetings.patience = other.meetings.patience = 60.0
    train_on = threading.Thread(target=lambda: run.meetings.meet(run.states, run.shared.pseudo_gradients(), 0))
    train_on.start()
    local_steps_run.one_step(second, optimizer, 0, 1)
    train_on.join()
    assert other.took_part == (0, 1)


def test_messages_of_old_rounds_are_deleted():
    class Counted(dist.HashStore):
        """A store that knows its keys."""

        def __init__(self):
            super().__init__()
            self.keys = set()

        def set(self, key, value):
            self.keys.add(key)
            super().set(key, value)

        def delete_key(self, key):
            self.keys.discard(key)
            return super().delete_key(key)

    store = Counted()
    train(net(), store, 0, 1, rounds=KEPT_ROUNDS + 5)
    assert len([key for key in store.keys if "message" in key]) == KEPT_ROUNDS


@pytest.mark.slow
def test_four_processes_of_which_one_is_killed_and_one_is_late(tmp_path):
    command = [sys.executable, "-m", "tests.parallel.local_steps_run", str(tmp_path), "4"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.stdout == "0 0 0 1", done.stderr
    run, took_part = simulated(local_steps_run.HOW, world=4, compressor="sparseloco")
    assert took_part == [(0, 1, 2, 3), (1, 2, 3), (0, 1, 2), (0, 1, 2)]
    for rank in range(3):
        saved = torch.load(tmp_path / f"{rank}.pt")
        assert saved["took_part"] == took_part and saved["sent"] == run.ledger.total(rank=rank)
        assert torch.equal(torch.cat([w.flatten() for w in saved["weights"]]), weights(run.model))


# ---- messages and refusals -------------------------------------------------------------------------------------------


def test_messages_are_packed_and_damaged_ones_refused():
    requests = [AllGather(np.arange(n, dtype=np.uint8), len) for n in (3, 0, 5)]
    message = packed(requests)
    assert [part.tolist() for part in unpacked(message, 3)] == [[0, 1, 2], [], [0, 1, 2, 3, 4]]
    for damaged in (message[:-1], message + b"\0", message[:5], b""):
        with pytest.raises(ValueError, match="a message for 3 layers is damaged"):
            unpacked(damaged, 3)


@pytest.mark.parametrize(("settings", "error", "message"), [
    ({"rank": 2}, ValueError, "rank must be"),
    ({"every": 0}, ValueError, "every must be"),
    ({"patience": 0}, ValueError, "patience must be a positive number of seconds, got 0"),
    ({"outer": "average"}, ValueError, "unknown outer optimizer 'average'"),
    ({"compressor": "sparselocal"}, ValueError, "did you mean sparseloco"),
])  # fmt: skip
def test_what_cannot_be_is_refused(settings, error, message):
    model = net()
    given = {"store": dist.HashStore(), "rank": 0, "world": 2} | settings
    with pytest.raises(error, match=message):
        local_steps(model, ADAMW(model.parameters()), **given)


def test_ranks_that_begin_with_other_weights_are_told():
    store, models = dist.HashStore(), [net(), net()]
    with torch.no_grad():
        models[1][0].weight[0, 0] += 1
    local_steps(models[0], ADAMW(models[0].parameters()), store=store, rank=0, world=2)
    with pytest.raises(ValueError, match="rank 1 begins with other weights than the first rank"):
        local_steps(models[1], ADAMW(models[1].parameters()), store=store, rank=1, world=2, compressor=LowBit())
