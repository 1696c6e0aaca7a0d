"""Lab 04: the errors of each clip are those of the activations, each rounded to its level by PACT."""

import numpy as np
import pytest

from lplab import datasets, quantizers
from lplab.widgets.mechanisms import clip


@pytest.mark.parametrize("bits", clip.BITS)
def test_both_errors_together_are_those_of_rounded_activations(bits):
    x = np.float64(datasets.captured()[clip.TENSOR].ravel())
    data = clip.data()
    found = data["errors"][str(bits)]
    for place in (clip.LOWEST, 25, 40, clip.PLACES):
        alpha = data["clips"][place - 1]
        rounded = quantizers.pact_forward(x, alpha, bits)
        squares, beyond = (rounded - x) ** 2, x > alpha
        power = np.mean(x**2)
        assert found["clipping"][place - 1] == pytest.approx(np.sum(squares[beyond]) / x.size / power, abs=1e-9)
        assert found["rounding"][place - 1] == pytest.approx(np.sum(squares[~beyond]) / x.size / power, rel=1e-6)
        assert data["beyond"][place - 1] == pytest.approx(beyond.mean())
        assert set(rounded.round(6)) <= set((np.array(found["levels"]) * alpha).round(6))


def test_the_best_place_is_next_to_the_best_clip():
    data = clip.data()
    for bits in clip.BITS:
        best = clip.activations().best_clip(clip.levels_of(bits))
        assert data["clips"][data["errors"][str(bits)]["best"] - 1] == pytest.approx(
            best, abs=data["largest"] / clip.PLACES
        )


def test_the_histogram_counts_all_but_the_zeros():
    data = clip.data()
    assert sum(data["counts"]) == round(8192 * (1 - data["zeros"])) and 0.5 < data["zeros"] < 0.6
