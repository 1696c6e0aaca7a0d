"""What AdaComp sent of a small net and what stayed: readable, consistent, and made again in its first steps."""

import numpy as np
import pytest

from lplab.compression import AdaComp, adacomp
from lplab.compression.ratios import adacomp_paper_ratio
from lplab.compression.wire import adacomp_wire
from lplab.parallel.instrumented_adacomp import LayerSample
from lplab.recordings.adacomp_runs import adacomp_recording, bin_size
from tests.datasets.scripts import script

R = adacomp_recording()


def test_every_setting_is_there():
    assert len(R.runs) == 20 and {factor for _, factor in R.runs} == {1.0, 2.0}
    assert sum(R.sizes) + 144 + 960 < R.total < 39_000
    assert R.steps.tolist() == list(range(0, 240, 3)) and set(R.moments) <= set(R.steps.tolist())


@pytest.mark.parametrize(("bin", "factor"), R.runs)
def test_numbers_fit_together(bin, factor):
    for layer, size in zip(R.layers, R.sizes, strict=True):
        c = R.history(layer, bin, factor)
        bins = -(-size // c.bin)
        assert c.bin == bin_size(layer, bin) and c.size == size
        assert (c.sent >= 0).all() and (c.share <= 1).all() and (c.empty <= bins).all()
        assert (c.sent + c.empty >= bins - 1e-3).all(), "a bin sends something, or counts as empty"
        assert (c.residual > 0).all() and (c.gradient > 0).all() and (c.scale > 0).all()
        if factor == 1.0:
            assert c.sent.mean() < 1.3 * bins, "maxima only: about one a bin"
    assert R.losses(bin, factor).shape == (240,) and 0 <= R.error(bin, factor) < 0.5


@pytest.mark.parametrize(("bin", "factor"), R.runs)
def test_windows_agree_with_the_algorithm_but_for_half_precision(bin, factor):
    for layer in R.layers:
        for moment in R.moments:
            w = R.window(layer, moment, bin, factor)
            boosted = w.total + (factor - 1) * w.gradient
            expected = (np.abs(boosted) >= w.limit) & (w.limit > 0)
            assert np.mean(expected != w.sent) < 0.03, (layer, moment)
            assert (np.abs(w.total) <= w.limit * 1.001).all() and w.residual.shape == (500,)


def test_rates_are_the_librarys():
    c = R.history("dense", 50)
    found, at = c.compression_ratios(10), 10
    message = adacomp_wire.size_of(adacomp_wire.SentCounts(1000, 0), 50)
    assert message == 1004, "a header of four bytes, and a byte each"
    assert found.paper == pytest.approx(adacomp_paper_ratio(50, c.sent[at] * 50 / c.size))
    assert found.payload == pytest.approx(4 * c.size / (4 + c.sent[at] + c.empty[at]))
    assert found.wire == pytest.approx(found.payload / 2) and found.bound > found.paper > found.payload
    assert c.compression_ratios(10, learners=64).wire == pytest.approx(found.payload / 32)


def test_the_first_steps_can_be_made_again():
    found = script("record_adacomp").record(None, 2.0, steps=4)
    for i, layer in enumerate(R.layers):
        c = R.history(layer)
        np.testing.assert_allclose(found["points"][0, i, 2:5], [c.residual[0], c.gradient[0], c.scale[0]], rtol=1e-3)
        np.testing.assert_allclose(found["points"][:2, i, 0], c.sent[:2], rtol=0.05)
    np.testing.assert_allclose(found["losses"], R.losses()[:4], rtol=1e-3)


def test_what_is_sent_is_what_the_compressor_sends():
    rng = np.random.default_rng(8)
    residue, gradient = rng.normal(size=(2, 700)).astype(np.float32)
    found = adacomp.adacomp_select_arrays(residue, gradient, AdaComp(50), 50)
    window = script("record_adacomp").window(LayerSample(residue, gradient, found, empty_bins=0), 50)
    sent = np.unpackbits(window["sent"], count=500).astype(bool)
    assert np.flatnonzero(sent).tolist() == [i for i in found.indices.tolist() if i < 500]


@pytest.mark.parametrize(("ask", "message"), [
    (lambda: R.history("stem"), "no layer 'stem'; there are: convolution"),
    (lambda: R.history("dense", 51), "no run with bin 51 and factor 2.0; bins: None, 1"),
    (lambda: R.window("dense", 4), "no moment 4; there are: 3, 30"),
    (lambda: R.losses(50, 3.0), "no run with bin 50 and factor 3.0"),
    (lambda: R.other("topk"), "no run 'topk'; there are: dense"),
])  # fmt: skip
def test_what_is_not_there_is_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
