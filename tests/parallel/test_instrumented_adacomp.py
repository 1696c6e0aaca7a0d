"""Instrumented learners: what is recorded is what happens, and recording changes no result."""

import numpy as np
import pytest

from lplab.compression import AdaComp, TopK
from lplab.parallel.instrumented_adacomp import LAYERS, AdaCompRun, make_learners


def test_watching_changes_no_bit():
    instrumented, alone = AdaCompRun(AdaComp()).learners, make_learners(AdaComp())
    for learners in (instrumented, alone):
        list(learners.steps(3))
    for a, b in zip(instrumented.model.parameters(), alone.model.parameters(), strict=True):
        assert (a == b).all()
    assert instrumented.ledger.entries == alone.ledger.entries


def test_what_is_noted_is_what_is_sent():
    run = AdaCompRun(AdaComp())
    moments = list(run.steps(3))
    assert list(moments[0].layers) == list(LAYERS), "exactly these layers are compressed"
    for moment in moments:
        for name, m in moment.layers.items():
            width = 1 if name.startswith("convolution") else 2
            message = 4 + width * (m.sent + m.empty)
            assert run.learners.ledger.total(step=moment.step, layer=name) == pytest.approx(4 * message)
    for name, m in moments[-1].layers.items():
        norms = np.linalg.norm(run.learners.residuals(name), axis=1)
        assert m.residual == pytest.approx(norms.mean(), rel=1e-5)


def test_gradients_are_what_was_sent_and_what_is_left():
    gradients: dict = {}
    sent: dict = {}

    def observe(context, sample):
        if context.rank == 2:
            total = np.zeros(sample.gradient.size)
            total[sample.selection.indices] = np.where(sample.selection.negative, -1.0, 1.0) * sample.selection.scale
            gradients[context.layer] = gradients.get(context.layer, 0) + sample.gradient.astype(np.float64)
            sent[context.layer] = sent.get(context.layer, 0) + total

    run = AdaCompRun(AdaComp(), observer=observe)
    list(run.steps(5))
    for name in LAYERS:
        residual = run.learners.residuals(name)[2]
        np.testing.assert_allclose(sent[name] + residual, gradients[name], atol=1e-6)


def test_other_compressors_show_their_loss_alone():
    run = AdaCompRun(TopK(0.01))
    assert [m.layers for m in run.steps(2)] == [{}, {}]
    assert 0.5 < run.test_error() <= 1
