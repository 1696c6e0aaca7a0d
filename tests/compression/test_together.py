"""The step of all learners in one call has the bits, the states and the traffic of their generators."""

from dataclasses import dataclass

import numpy as np
import pytest

from lplab.compression import Dense, NotFiniteError, ScaleCom, TrafficLog, exchange
from lplab.compression.compressor import Compressor, Context
from lplab.compression.exchange import run_in_lockstep, steps_of

COMPRESSORS = [
    Dense(),
    Dense("fp16"),
    ScaleCom(chunk=50),
    ScaleCom(chunk=7, m=3, beta=0.1),
    ScaleCom(chunk=16, wire="bf16", small="compressed"),
]


def gradients(step, shape, learners):
    rng = np.random.default_rng(step)
    return [rng.standard_normal(shape).astype(np.float32) for _ in range(learners)]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("shape", [(1,), (30, 7), (200, 200)], ids=str)  # the last is served by compiled loops
@pytest.mark.parametrize("compressor", COMPRESSORS, ids=repr)
def test_one_call_is_the_generators(compressor, shape, overwrite):
    if isinstance(compressor, ScaleCom) and compressor.m > np.prod(shape):
        compressor = ScaleCom(chunk=1)
    learners = 5
    one, other = ([compressor.init(shape) for _ in range(learners)] for _ in range(2))
    logs = TrafficLog(), TrafficLog()
    for step in range(7):  # each learner leads
        contexts = [Context(rank, learners, step, "w", 0, overwrite) for rank in range(learners)]
        options = {"step": step, "layer": "w", "ledger": logs[0], "overwrite": overwrite}
        found = exchange(compressor, gradients(step, shape, learners), one, **options)
        triples = zip(gradients(step, shape, learners), other, contexts, strict=True)
        runs = [steps_of(compressor, gradient, state, context) for gradient, state, context in triples]
        expected = run_in_lockstep(runs, contexts[0], logs[1])
        assert found.shape == shape and np.array_equal(found.view(np.int32), expected.view(np.int32))
        for state in (*one, *other):
            state.commit()
        for a, b in zip(one, other, strict=True):
            assert all(np.array_equal(a.arrays()[name], array) for name, array in b.arrays().items())
    assert logs[0].entries == logs[1].entries and logs[0].total() == sum(e.payload_bytes for e in logs[1].entries)


@pytest.mark.parametrize("compressor", [Dense(), ScaleCom(chunk=5)], ids=repr)
def test_a_gradient_that_is_not_finite_is_refused(compressor):
    states, bad = [compressor.init((20,)) for _ in range(3)], gradients(0, (20,), 3)
    bad[1][4] = np.inf
    with pytest.raises(NotFiniteError):
        exchange(compressor, bad, states)


def test_a_subclass_with_steps_of_its_own_runs_them():
    @dataclass(frozen=True)
    class Halved(Dense):
        def steps(self, gradient, state, context):
            average = yield from super().steps(gradient, state, context)
            return average / 2

    assert Halved.together is Compressor.together
    found = exchange(Halved(), [np.array([x], np.float32) for x in (2, 4)], [Halved().init((1,)) for _ in range(2)])
    assert found.tolist() == [1.5]
