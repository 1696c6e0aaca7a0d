"""Learners that are watched: what is noted is what happens, and watching changes nothing."""

import numpy as np
import pytest

from lplab.compression import AdaComp, TopK
from lplab.parallel.residues import LAYERS, ResidueRun, learners_of


def test_watching_changes_no_bit():
    watched, alone = ResidueRun(AdaComp()).learners, learners_of(AdaComp())
    for learners in (watched, alone):
        list(learners.steps(3))
    for a, b in zip(watched.model.parameters(), alone.model.parameters(), strict=True):
        assert (a == b).all()
    assert watched.ledger.entries == alone.ledger.entries


def test_what_is_noted_is_what_is_sent():
    run = ResidueRun(AdaComp())
    moments = list(run.steps(3))
    assert list(moments[0].layers) == list(LAYERS), "exactly these layers are compressed"
    for moment in moments:
        for name, m in moment.layers.items():
            width = 1 if name.startswith("convolution") else 2
            message = 4 + width * (m.sent + m.empty)
            assert run.learners.ledger.total(step=moment.step, layer=name) == pytest.approx(4 * message)
    for name, m in moments[-1].layers.items():
        norms = np.linalg.norm(run.learners.residues(name), axis=1)
        assert m.residue == pytest.approx(norms.mean(), rel=1e-5)


def test_gradients_are_what_was_sent_and_what_is_left():
    said: dict = {}
    sent: dict = {}

    def watch(context, look):
        if context.rank == 2:
            total = np.zeros(look.gradient.size)
            total[look.found.indices] = np.where(look.found.negative, -1.0, 1.0) * look.found.scale
            said[context.layer] = said.get(context.layer, 0) + look.gradient.astype(np.float64)
            sent[context.layer] = sent.get(context.layer, 0) + total

    run = ResidueRun(AdaComp(), watch=watch)
    list(run.steps(5))
    for name in LAYERS:
        left = run.learners.residues(name)[2]
        np.testing.assert_allclose(sent[name] + left, said[name], atol=1e-6)


def test_other_compressors_show_their_loss_alone():
    run = ResidueRun(TopK(0.01))
    assert [m.layers for m in run.steps(2)] == [{}, {}]
    assert 0.5 < run.test_error() <= 1
