"""Gradients like those of a network: of many sizes, some exactly zero."""

import numpy as np
import pytest


@pytest.fixture
def draw():
    """A function of shape and seed: float32, heavy tails, an eighth of the values exactly zero."""

    def gradient(shape, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(shape) * np.exp(1.5 * rng.standard_normal(shape))
        return np.where(rng.random(shape) < 0.125, 0, x).astype(np.float32)

    return gradient
