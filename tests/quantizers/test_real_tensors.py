"""On tensors captured from real training runs: what each method is for shows."""

from functools import cache

import numpy as np
import pytest

from lplab import formats as F
from lplab import quantizers as Q
from lplab.datasets import captured

INT4 = F.IntFormat(4, symmetric=True)
TENSORS = captured()
WEIGHTS = [name for name in TENSORS if name.endswith("/weight") and TENSORS[name].ndim > 1]
# not the last layer: before training p − onehot has hardly more than two magnitudes, and they may lie on a grid
GRADIENTS = [name for name in TENSORS if name.endswith("/gradient") and "/head/" not in name]


def error(x, values):
    """Mean squared error over power."""
    x = x.astype(np.float64)
    return ((values - x) ** 2).sum() / (x**2).sum()


@cache
def errors(name):
    x = TENSORS[name]
    rules = {"amax": Q.Amax(), "percentile": Q.Percentile(99), "best": Q.MinMSE(100)}
    table = {rule: error(x, Q.Quantizer(INT4, scaling).quantize(x)) for rule, scaling in rules.items()}
    table["best per channel"] = error(x, Q.Quantizer(INT4, Q.MinMSE(100), axis=0).quantize(x))
    return table | {"sawb": error(x, Q.SAWB(4).quantize(x))}


@pytest.mark.parametrize("name", WEIGHTS)
def test_four_bit_weights(name):
    """The search is never worse than amax or a percentile (its grid holds amax; 1 % for a percentile between two of its
    candidates); SAWB comes within a factor of 1.5; a scale for each channel is at least as good as one.
    """
    table = errors(name)
    assert table["best"] <= table["amax"] and table["best"] <= 1.01 * table["percentile"]
    assert table["sawb"] <= 1.5 * table["best"]
    assert table["best per channel"] <= 1.01 * table["best"]


@pytest.mark.parametrize("name", GRADIENTS)
def test_four_bit_gradients(name):
    """Radix 4 flushes less to zero than radix 2, and the mean of two phases errs less than one phase."""
    x, layer = TENSORS[name], Q.GradScale()
    even, odd = layer.two_phase(x)
    assert 32 < layer.scale * np.abs(x).max() <= 64
    radix_2 = Q.LUQ(nearest=True).quantize(x)
    assert (even[x != 0] == 0).mean() < (radix_2[x != 0] == 0).mean()
    assert error(x, (even + odd) / 2) < min(error(x, even), error(x, odd))
