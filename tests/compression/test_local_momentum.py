"""Momentum before a compressor: DGC by another way, the optimizer's where nothing is left out, and undone steps."""

import numpy as np
import pytest

from lplab.compression import DGC, AdaComp, Dense, LayerInfo, LocalMomentum, NotFiniteError, ScaleCom, TopK, exchange

SHAPE = (37, 41)


def run(compressor, world=1, steps=12):
    """The averages of some steps, and the states after them."""
    rng = np.random.default_rng(0)
    states, averages = [compressor.init(SHAPE) for _ in range(world)], []
    for step in range(steps):
        gradients = [rng.normal(size=SHAPE).astype(np.float32) for _ in range(world)]
        averages.append(exchange(compressor, gradients, states, step=step))
        for state in states:
            state.commit()
    return np.stack(averages), states


@pytest.mark.parametrize(("clear", "world"), [(True, 1), (False, 1), (False, 4)])
def test_with_the_largest_elements_it_is_dgc_bit_for_bit(clear, world):
    ours, states = run(LocalMomentum(TopK(0.01), clear=clear), world)
    theirs, others = run(DGC(0.01, masking=clear), world)
    assert (ours == theirs).all()
    for ours_, theirs_ in zip(states, others, strict=True):
        assert (ours_["velocity"] == theirs_["velocity"]).all() and (ours_["residual"] == theirs_["residual"]).all()


@pytest.mark.parametrize("inner", [Dense(), TopK(0.01), ScaleCom(chunk=50), AdaComp(bin=50)], ids=repr)
def test_without_momentum_it_is_the_other_compressor(inner):
    assert (run(LocalMomentum(inner, momentum=0.0), 3)[0] == run(inner, 3)[0]).all()


@pytest.mark.parametrize("clear", [True, False])
def test_where_all_is_sent_it_is_the_momentum_of_the_average(clear):
    """Nothing waits, so nothing is cleared; small tensors of a compressed network are such."""
    before, _ = run(LocalMomentum(Dense(), clear=clear), 4)
    plain, _ = run(Dense(), 4)
    u = np.zeros(SHAPE)
    for ours, g in zip(before, plain, strict=True):
        u = 0.9 * u + g
        np.testing.assert_allclose(ours, u, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("inner", [ScaleCom(chunk=50), AdaComp(bin=50), TopK(0.02)], ids=repr)
def test_velocity_is_zero_where_something_was_sent_and_nowhere_else(inner):
    averages, states = run(LocalMomentum(inner), 3)
    for state in states:
        assert ((state["velocity"] == 0) == (averages[-1].ravel() != 0)).all()
    assert all(state["velocity"].all() for state in run(LocalMomentum(inner, clear=False), 3)[1])


@pytest.mark.parametrize("clear", [True, False])
def test_all_of_the_velocity_is_sent_in_the_end(clear):
    """Without clearing: the sum of what arrives and of what waits is the sum of all velocities."""
    compressor = LocalMomentum(ScaleCom(chunk=50), clear=clear)
    averages, (state,) = run(compressor)
    rng, u, total = np.random.default_rng(0), np.zeros(SHAPE), np.zeros(SHAPE)
    for _ in averages:
        u = 0.9 * u + rng.normal(size=SHAPE).astype(np.float32)
        total += u
    arrived = averages.sum(axis=0, dtype=np.float64) + state["residual"].reshape(SHAPE)
    assert np.allclose(arrived, total, atol=1e-4) == (not clear)


def test_a_step_that_is_undone_leaves_the_velocity():
    compressor = LocalMomentum(TopK(0.1))
    states = [compressor.init((8,)) for _ in range(2)]
    g = np.arange(8, dtype=np.float32)
    exchange(compressor, [g, g], states)
    for state in states:
        state.commit()
    before = [state["velocity"].copy() for state in states]
    with pytest.raises(NotFiniteError):
        exchange(compressor, [g, g * np.float32("nan")], states)
    for state, old in zip(states, before, strict=True):
        state.rollback()
        assert (state["velocity"] == old).all() and old.any()


def test_settings():
    layer = LayerInfo("fc", (64, 64))
    made = LocalMomentum(AdaComp()).for_layer(layer)
    assert made.compressor == AdaComp().for_layer(layer) and made.momentum == 0.9
    small = LocalMomentum(ScaleCom()).for_layer(LayerInfo("b", (64,), "small"))
    assert small.compressor == Dense() and set(small.init((64,)).arrays()) == {"velocity"}
    assert made.plan((64, 64)) == made.compressor.plan((64, 64))
    with pytest.raises(ValueError, match="momentum must be from 0 to below 1, got 1"):
        LocalMomentum(Dense(), momentum=1.0)
    with pytest.raises(ValueError, match="has a momentum of its own: DGC"):
        LocalMomentum(DGC()).init((4,))
