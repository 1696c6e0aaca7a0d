"""The regression that yields SAWB's coefficients: the table of the paper notes (5.2) and the published numbers."""

import numpy as np
import pytest

from lplab.quantizers import SAWB_ROWS, MinMSE, Quantizer
from lplab.quantizers.clipping import Magnitudes
from lplab.quantizers.distributions import QUANTILES, magnitudes
from lplab.quantizers.sawb_fit import fit, table

TABLE = {  # levels: c1, c2, worst error in percent, clips of Gaussian, uniform, Laplace, logistic, triangle
    3: (2.533, 1.613, 3, 1.224, 1.155, 1.414, 1.262, 1.225),
    4: (3.116, 2.051, 3, 1.494, 1.299, 1.631, 1.577, 1.431),
    7: (6.944, 6.307, 3, 1.952, 1.485, 2.465, 2.181, 1.759),
    8: (7.369, 6.741, 5, 2.051, 1.516, 2.558, 2.320, 1.817),
    15: (11.822, 11.857, 11, 2.474, 1.617, 3.407, 2.961, 2.039),
    16: (12.094, 12.160, 12, 2.514, 1.624, 3.456, 3.026, 2.056),
    32: (17.070, 17.974, 22, 2.915, 1.678, 4.335, 3.714, 2.203),
    127: (27.339, 30.118, 46, 3.595, 1.719, 6.057, 5.067, 2.352),
    255: (31.723, 35.314, 56, 3.895, 1.725, 6.775, 5.657, 2.388),
}


@pytest.mark.parametrize(("levels", "row"), TABLE.items())
def test_the_table_of_the_notes(levels, row):
    """To its last digit; at 255 levels the error is so flat that two searches find clips 1 % apart."""
    result = fit(levels)
    tolerance = {"abs": 0.0016} if levels < 255 else {"rel": 0.01}
    assert (result.c1, result.c2) == (pytest.approx(row[0], **tolerance), pytest.approx(row[1], **tolerance))
    assert 100 * result.worst_error == pytest.approx(row[2], abs=1)
    for name, clip in zip(("gaussian", "uniform", "laplace", "logistic", "triangle"), row[3:], strict=True):
        assert result.clips[name] == pytest.approx(clip, **({"abs": 0.0016} if levels < 255 else {"rel": 0.01}))


@pytest.mark.parametrize(("row", "tolerance"), [("2bit", 0.01), ("luq", 0.05), ("4bit", 0.06), ("403", 0.05),
                                                ("3bit", 0.05), ("5bit", 0.05), ("703", 0.05),
                                                ("803", 0.05)])  # fmt: skip
def test_the_published_coefficients_come_out(row, tolerance):
    """Section 9, row 19: within 1 % at 2 bits and 5 % at 4 bits; 12.68/12.80 for 16 levels lie 5.3 % off."""
    known = SAWB_ROWS[row]
    result = fit(16 if row == "luq" else known.levels)  # 12.1/12.2 is the fit of 16 levels (5.2)
    assert result.c1 == pytest.approx(known.c1, rel=tolerance)
    assert result.c2 == pytest.approx(known.c2, rel=tolerance)


@pytest.mark.parametrize("levels", [2, 3, 4, 15, 16])
@pytest.mark.parametrize("name", QUANTILES)
def test_the_error_by_running_sums_is_the_error(levels, name):
    """Against sending every number, both signs, to the nearest of all levels."""
    x = magnitudes(name, 500)
    for clip in (0.3, 1.1, 2.7):
        grid = np.linspace(-clip, clip, levels)
        brute = np.mean([(np.abs(v - grid) ** 2).min() for v in np.concatenate([x, -x])])
        assert Magnitudes(x).errors([clip], levels).total[0] == pytest.approx(brute, rel=1e-9)


@pytest.mark.parametrize("levels", [3, 4, 15])
@pytest.mark.parametrize("name", ["gaussian", "laplace", "von Mises"])
def test_no_clip_is_better(levels, name):
    """Exhaustively: 5,000 clips over the whole range."""
    x = Magnitudes(magnitudes(name, 1000))
    least = x.errors(np.linspace(0, x.largest, 5001)[1:], levels).total.min()
    assert x.errors(x.best_clip(levels, 1e-6), levels).total[0] <= least * (1 + 1e-9)


def test_the_search_over_scales_finds_the_same_clip():
    from lplab import formats as F

    x = magnitudes("laplace", 5000)
    rule = MinMSE(1000)
    scale = Quantizer(F.IntFormat(4, symmetric=True), rule).scale(np.concatenate([x, -x]))
    assert 7 * scale == pytest.approx(Magnitudes(x).best_clip(15), abs=x[-1] / 1000)


@pytest.mark.parametrize(("levels", "step"), [(4, 0.9957), (8, 0.586), (16, 0.335)])
def test_gaussian_clips_are_those_of_the_classical_uniform_quantizer(levels, step):
    """The table of steps in σ that the notes recall (5.2), to its digits but for the sample's tail."""
    clip = Magnitudes(magnitudes("gaussian", 100_000)).best_clip(levels, 1e-6)
    assert 2 * clip / (levels - 1) == pytest.approx(step, abs=6e-4)


@pytest.mark.parametrize(("name", "second", "first"), [
    ("gaussian", 1.0, (2 / np.pi) ** 0.5), ("uniform", 1.0, 3**0.5 / 2), ("laplace", 1.0, 0.5**0.5),
    ("logistic", 1.0, 2 * np.log(2) * 3**0.5 / np.pi), ("triangle", 1.0, 6**0.5 / 3),
])  # fmt: skip
def test_moments_of_the_distributions(name, second, first):
    """The samples have the moments of the textbook, but for the tail beyond their last quantile."""
    x = magnitudes(name, 100_000)
    assert (np.diff(x) > 0).all() and x[0] > 0
    assert (x**2).mean() == pytest.approx(second, rel=1e-3)
    assert x.mean() == pytest.approx(first, rel=1e-4)


def test_von_mises():
    """E[cos θ] = I1(κ)/I0(κ) at κ = 1 is 0.446398 (Bessel functions by their series)."""
    from math import factorial

    bessel = [sum(0.25**k / (factorial(k) * factorial(k + order)) for k in range(20)) / 2**order for order in (0, 1)]
    assert np.cos(magnitudes("von Mises", 100_000)).mean() == pytest.approx(bessel[1] / bessel[0], abs=1e-8)


def test_the_table_can_be_printed():
    lines = table((3, 4)).splitlines()
    assert len(lines) == 3 and "3.12 2.064" in lines[2] and "1.494" in lines[2]


@pytest.mark.parametrize(("call", "message"), [
    (lambda: fit(1), "levels must be an integer from 2 to 1024, got 1"),
    (lambda: fit(4, 10), "count must be an integer from 1000 to 100000000, got 10"),
    (lambda: magnitudes("cauchy", 3), "unknown distribution 'cauchy'; allowed: gaussian, uniform"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()
