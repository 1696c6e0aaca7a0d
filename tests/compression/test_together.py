"""The step of all learners in one call has the bits, the states and the traffic of their generators."""

from dataclasses import dataclass

import numpy as np
import pytest

from lplab.compression import (
    Dense,
    LayerState,
    NotFiniteError,
    ScaleCom,
    TopK,
    TrafficLog,
    computed_gradients,
    exchange,
)
from lplab.compression.compressor import Context
from lplab.compression.computed_gradients import ComputedGradients, learners_in_block
from lplab.compression.lockstep import LayerRuns, results_here, run_in_lockstep, steps_of

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
        [expected] = run_in_lockstep([LayerRuns(contexts[0], runs.__getitem__, learners)], results_here, logs[1])
        assert found.shape == shape and np.array_equal(found.view(np.int32), expected.view(np.int32))
        for state in (*one, *other):
            state.commit()
        for a, b in zip(one, other, strict=True):
            assert all(np.array_equal(a.arrays()[name], array) for name, array in b.arrays().items())
    assert logs[0].entries == logs[1].entries and logs[0].total() == sum(e.payload_bytes for e in logs[1].entries)


def computed(arrays):
    """The same gradients, a block at a time, in memory that the next block overwrites."""
    memory = np.empty((learners_in_block(arrays[0].shape), *arrays[0].shape), np.float32)

    def compute(first, last):
        memory[:] = np.nan
        memory[: last - first] = arrays[first:last]
        return memory[: last - first]

    return ComputedGradients(compute, len(arrays), arrays[0].shape)


FORMS = {
    "list": (list, {}),
    "overwritten": (list, {"overwrite": True}),
    "in place": (list, {"overwrite": True, "in_place": True}),
    "one array": (np.stack, {}),
    "one array, overwritten": (np.stack, {"overwrite": True}),
    "computed": (computed, {"overwrite": True}),  # which nobody may do with the memory of a block
    "computed, in place": (computed, {"overwrite": True, "in_place": True}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(30, 7), (200, 200)], ids=str)
@pytest.mark.parametrize("compressor", [*COMPRESSORS, TopK(0.05)], ids=repr)  # the last has its generators alone
def test_gradients_in_every_form_have_the_bits_of_the_generators(compressor, shape, form, monkeypatch):
    monkeypatch.setattr(computed_gradients, "BLOCK_BYTES", 2 * 4 * 30 * 7)  # two learners, or one
    form_of, options = FORMS[form]
    learners = 5
    one, other = ([compressor.init(shape) for _ in range(learners)] for _ in range(2))
    logs = TrafficLog(), TrafficLog()
    for step in range(7):  # each learner leads
        contexts = [Context(rank, learners, step, "w") for rank in range(learners)]
        found = exchange(
            compressor, form_of(gradients(step, shape, learners)), one, step=step, layer="w", ledger=logs[0], **options
        )
        triples = zip(gradients(step, shape, learners), other, contexts, strict=True)
        runs = [steps_of(compressor, *triple) for triple in triples]
        [expected] = run_in_lockstep([LayerRuns(contexts[0], runs.__getitem__, learners)], results_here, logs[1])
        assert np.array_equal(found.view(np.int32), expected.view(np.int32))
        for state in (*one, *other):
            state.commit()
        for a, b in zip(one, other, strict=True):
            assert all(a.arrays()[name].tobytes() == array.tobytes() for name, array in b.arrays().items())
    assert logs[0].entries == logs[1].entries


@pytest.mark.parametrize("beta", [1.0, 0.1])
def test_residuals_that_change_in_place_stay_where_they_are(beta, monkeypatch):
    monkeypatch.setattr(computed_gradients, "BLOCK_BYTES", 400)
    states = [ScaleCom(chunk=5, beta=beta).init((10, 10)) for _ in range(3)]
    before = [state["residual"] for state in states]
    for step in range(3):
        exchange(ScaleCom(chunk=5, beta=beta), computed(gradients(step, (10, 10), 3)), states, step=step, in_place=True)
        assert not any(state.proposed() for state in states)
    assert all(state["residual"] is array and array.any() for state, array in zip(states, before, strict=True))


@pytest.mark.parametrize("form", [list, np.stack, computed])
@pytest.mark.parametrize("compressor", [Dense(), ScaleCom(chunk=5)], ids=repr)
def test_a_state_of_another_shape_is_refused(compressor, form):
    with pytest.raises(ValueError, match=r"shape \(4, 5\), its state \(20,\)"):
        exchange(compressor, form(gradients(0, (4, 5), 2)), [compressor.init((20,)) for _ in range(2)])


def test_computed_gradients_are_a_sequence():
    arrays = gradients(0, (3,), 4)
    found = computed(arrays)
    assert len(found) == 4 and found[-1].tolist() == arrays[-1].tolist() and len(list(found)) == 4
    with pytest.raises(IndexError):
        found[4]


@pytest.mark.parametrize("form", [list, np.stack, computed])
@pytest.mark.parametrize("compressor", [Dense(), ScaleCom(chunk=5)], ids=repr)
def test_a_gradient_that_is_not_finite_is_refused(compressor, form):
    states, bad = [compressor.init((20,)) for _ in range(3)], gradients(0, (20,), 3)
    bad[1][4] = np.inf
    with pytest.raises(NotFiniteError):
        exchange(compressor, form(bad), states)
    assert not states[1].proposed()


@pytest.mark.parametrize("form", [list, np.stack, computed])
@pytest.mark.parametrize("compressor", [Dense(), ScaleCom(chunk=5), ScaleCom(chunk=5, beta=0.3)], ids=repr)
def test_sums_that_overflow_are_refused_in_each_form(compressor, form):
    """First that of the learners; then, with a residual, that of one learner's gradient and residual."""
    states = [compressor.init((20,)) for _ in range(2)]
    with pytest.raises(NotFiniteError):
        exchange(compressor, form([np.full(20, 3e38, np.float32)] * 2), states)
    large, small = np.full(20, 2e38, np.float32), np.zeros(20, np.float32)
    for _ in range(0 if compressor == Dense() else 1 if compressor.beta == 1 else 3):
        exchange(compressor, form([small, large]), states)
        for state in states:
            state.commit()
    if compressor == Dense():
        assert (exchange(compressor, form([small, large]), states) == np.float32(1e38)).all()
    else:
        with pytest.raises(NotFiniteError, match="the gradient plus the residual holds NaN or infinity"):
            exchange(compressor, form([small, large]), states)


@pytest.mark.parametrize("beta", [0.1, 0.3, 1 / 3, 0.5, 0.7, 0.999])
def test_a_residual_that_is_filtered_never_rounds_to_infinity(beta):
    """β·m + (1 − β)·m of the largest m; so it needs no check."""
    compressor, state = ScaleCom(chunk=2, beta=beta), LayerState((4,), residual=np.full(4, np.finfo(np.float32).max))
    exchange(compressor, [np.zeros(4, np.float32)], [state])
    assert np.isfinite(state.proposed()["residual"]).all()


def test_a_subclass_with_steps_of_its_own_runs_them():
    @dataclass(frozen=True)
    class Halved(Dense):
        def steps(self, gradient, state, context):
            average = yield from super().steps(gradient, state, context)
            return average / 2

    assert Dense.takes_stacks and not Halved.takes_stacks
    found = exchange(Halved(), [np.array([x], np.float32) for x in (2, 4)], [Halved().init((1,)) for _ in range(2)])
    assert found.tolist() == [1.5]
