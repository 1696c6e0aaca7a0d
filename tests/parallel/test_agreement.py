"""How much learners agree: counted by hand, and without a trace in the training."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from lplab.compression import Dense, ScaleCom, TopK  # noqa: E402
from lplab.parallel import Learners, shards  # noqa: E402
from lplab.parallel.agreement import Agreement, InstrumentedLearners, selected_indices, union_size  # noqa: E402
from lplab.parallel.worker import fingerprint  # noqa: E402

WORLD, NUMEL = 4, 2000


def batches(step):
    rng = np.random.default_rng([7, step])
    x = rng.standard_normal((8 * WORLD, 100)).astype(np.float32)
    return torch.from_numpy(x), torch.from_numpy(rng.integers(0, 20, 8 * WORLD))


def learners(kind, compressor, **options):
    torch.manual_seed(0)
    model = nn.Linear(100, 20)
    return kind(model, nn.CrossEntropyLoss(), shards(batches, WORLD), compressor, WORLD, **options)


@pytest.mark.parametrize("compressor", [TopK(0.01), ScaleCom(chunk=100), ScaleCom(chunk=40, beta=0.3, m=2)])
def test_watching_changes_no_bit(compressor):
    instrumented, uninstrumented = learners(InstrumentedLearners, compressor), learners(Learners, compressor)
    for run in (instrumented, uninstrumented):
        list(run.steps(5))
    assert fingerprint(instrumented.model) == fingerprint(uninstrumented.model)
    assert len(instrumented.agreements) == 5


def test_the_leaders_choice_fills_as_much_as_one_learner_sends():
    run = learners(InstrumentedLearners, ScaleCom(chunk=100))
    list(run.steps(6))
    assert [a.union for a in run.agreements] == [a.density for a in run.agreements] == [20 / NUMEL] * 6


def test_own_choices_are_counted_as_they_arrive():
    run = learners(InstrumentedLearners, TopK(0.01))
    run.one_step()
    sent = run.model.weight.grad.numpy()  # the average: not zero where somebody sent
    first = run.agreements[0]
    assert first.union == np.count_nonzero(sent) / NUMEL > first.density == 20 / NUMEL
    assert first.growth == pytest.approx(np.count_nonzero(sent) / 20)
    assert np.isnan(first.cosine), "residuals are zero before the first step"


def test_cosine_and_missed_against_a_direct_count():
    run = learners(InstrumentedLearners, ScaleCom(chunk=100))
    list(run.steps(3))
    residuals = run.residuals("weight").astype(np.float64)
    run.one_step()
    pairs = [(residuals[i], residuals[j]) for i in range(WORLD) for j in range(i)]
    direct = np.mean([1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs])
    assert run.agreements[-1].cosine == pytest.approx(direct, abs=1e-9)
    assert 0 <= run.agreements[-1].hamming_distance <= 1 and (
        run.agreements[-1].hamming_distance * 20
    ) % 1 == pytest.approx(0, abs=1e-9)


def test_the_distance_is_that_of_each_steps_leader():
    class Spy(InstrumentedLearners):
        def _measure(self, gradients):
            rows = self.residuals("weight") + gradients["weight"].numpy().reshape(WORLD, -1)
            size = np.abs(rows).reshape(WORLD, -1, 100)
            best = np.abs(rows.sum(axis=0)).reshape(-1, 100).argmax(axis=1)
            self.expected.append((size.argmax(axis=2)[self.step % WORLD] != best).mean())
            return super()._measure(gradients)

    run = learners(Spy, ScaleCom(chunk=100))
    run.expected = []
    list(run.steps(5))
    assert [a.hamming_distance for a in run.agreements] == pytest.approx(run.expected)
    assert len(set(run.expected)) > 1


def test_what_the_leader_misses_is_nothing_where_all_learners_are_equal():
    x, y = torch.randn(8, 100), torch.arange(8)
    torch.manual_seed(0)
    arguments = (nn.Linear(100, 20), nn.CrossEntropyLoss(), lambda step, rank: (x, y), ScaleCom(chunk=50), 3)
    run = InstrumentedLearners(*arguments)
    list(run.steps(4))
    assert [a.hamming_distance for a in run.agreements] == [0.0] * 4
    assert run.agreements[-1].cosine == pytest.approx(0, abs=1e-9)


def test_every_measures_the_last_step_of_each_group():
    run = learners(InstrumentedLearners, TopK(0.01), every=3)
    list(run.steps(7))
    every = learners(InstrumentedLearners, TopK(0.01))
    list(every.steps(7))
    assert run.agreements == [every.agreements[2], every.agreements[5]]


@pytest.mark.filterwarnings("ignore:invalid value")  # of NaN, which is measured in vain
def test_a_step_that_is_left_out_is_not_measured():
    def poisoned(step, rank):
        x, y = shards(batches, WORLD)(step, rank)
        return (x * float("nan") if (step, rank) == (1, 2) else x), y

    run = InstrumentedLearners(nn.Linear(100, 20), nn.CrossEntropyLoss(), poisoned, TopK(0.01), WORLD)
    assert [step.skipped for step in run.steps(3)] == [False, True, False]
    assert len(run.agreements) == 2


def test_one_learner_has_nobody_to_be_compared_with():
    arguments = (nn.Linear(100, 20), nn.CrossEntropyLoss(), shards(batches, 1), TopK(0.01), 1)
    run = InstrumentedLearners(*arguments)
    list(run.steps(2))
    assert np.isnan(run.agreements[1].cosine) and run.agreements[1].hamming_distance == 0


def test_choices_and_unions():
    x = np.array([0.0, -3.0, 2.0, 1.0], np.float32)
    assert selected_indices(TopK(0.5), x).tolist() == [1, 2] and selected_indices(ScaleCom(chunk=2), x).tolist() == [
        1,
        2,
    ]
    assert union_size([np.array([0]), np.array([0]), np.array([3])]) == 2
    assert Agreement(0.2, 0.1, 0.0, 0.0).growth == 2


def test_what_does_not_choose_is_refused():
    with pytest.raises(ValueError, match="only TopK and ScaleCom select elements, got Dense"):
        learners(InstrumentedLearners, Dense())
    with pytest.raises(ValueError, match="with a chunk"):
        selected_indices(ScaleCom(), np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="compresses no matrix of this model: there is nothing to measure"):
        InstrumentedLearners(nn.Linear(3, 2), nn.CrossEntropyLoss(), shards(batches, WORLD), ScaleCom(chunk=2), WORLD)
    with pytest.raises(ValueError, match="every"):
        learners(InstrumentedLearners, TopK(0.01), every=0)
