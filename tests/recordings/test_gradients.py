"""What was recorded of whole trainings: readable, read-only, and made again in its first step."""

import numpy as np
import pytest

from lplab.datasets import captured
from lplab.recordings import gradient_maxima, gradients_at
from tests.datasets.scripts import script


def test_maxima_are_positive_numbers_of_every_layer():
    recorded = gradient_maxima()
    assert recorded.largest.dtype == np.float32 and recorded.largest.shape == (400, 21)
    assert (recorded.largest > 0).all() and recorded.layers[0] == "token_embedding"
    with pytest.raises(ValueError, match="read-only"):
        recorded.largest[0, 0] = 1
    with pytest.raises(ValueError, match="no layer 'stem'; there are: token_embedding"):
        recorded.of("stem")


def test_the_first_step_can_be_made_again():
    layers, largest = script("record_maxima").record(1)
    recorded = gradient_maxima()
    assert tuple(layers) == recorded.layers
    np.testing.assert_allclose(largest[0], recorded.largest[0], rtol=1e-3)


def test_gradients_are_evenly_spread_and_hold_the_largest():
    layers = gradients_at("resnet", 30, elements=100)
    for layer, x in layers.items():
        whole = captured()[f"resnet/step30/{layer}/gradient"]
        assert len(x) <= 100 and x[0] == whole.ravel()[np.argmax(np.abs(whole))] and np.isin(x, whole).all()
    with pytest.raises(ValueError, match="no step 31"):
        gradients_at("resnet", 31)
