"""Lab 14: the turn ends at a Hadamard matrix, and the roundings are those of MXFP4's rule, written out here."""

import numpy as np
import pytest

from lplab import formats as F
from lplab.quantizers import Hadamard
from lplab.widgets.mechanisms import turned_outlier

PLACES = turned_outlier.data()["places"]


@pytest.mark.parametrize("degrees", [0, 20, 45, 80, 90, 110, 135])
def test_a_turn_keeps_the_product(degrees):
    matrix = turned_outlier.turn(degrees)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(8), atol=1e-12)


def test_each_round_ends_at_a_hadamard_matrix_but_for_signs():
    for rounds, size in ((1, 2), (2, 4), (3, 8)):
        signs = np.kron(np.eye(8 // size), Hadamard(size).matrix())
        np.testing.assert_allclose(np.abs(turned_outlier.turn(45 * rounds)), np.abs(signs), atol=1e-12)
    matrix = turned_outlier.turn(135)
    sign = np.sign(matrix[:, :1])  # a rotation has another sign in some rows and columns
    np.testing.assert_allclose(
        np.sign(matrix * sign)[:, 1:].prod(axis=1), np.full(8, np.sign(matrix * sign)[0, 1:].prod())
    )


@pytest.mark.parametrize("place", range(0, len(PLACES), 5))
def test_nearest_is_that_of_a_power_of_two_and_fp4(place):
    turned = turned_outlier.turn(turned_outlier.STEP * place) @ turned_outlier.NUMBERS
    scale = 2.0 ** (np.floor(np.log2(np.abs(turned).max())) - 2)
    rounded = F.get("e2m1").quantize(turned / scale) * scale
    back = turned_outlier.turn(turned_outlier.STEP * place).T @ rounded
    found = PLACES[place]
    assert found["scale"] == scale
    assert found["turned"] == pytest.approx(turned, abs=1e-3)
    assert found["nearest"]["rounded"] == pytest.approx(rounded, abs=1e-3)
    assert found["nearest"]["back"] == pytest.approx(back, abs=2e-3)
    length = np.linalg.norm(turned_outlier.NUMBERS)
    assert found["nearest"]["error"] == pytest.approx(np.linalg.norm(back - turned_outlier.NUMBERS) / length, abs=1e-3)


@pytest.mark.parametrize("place", range(0, len(PLACES), 2))
def test_a_coin_is_right_on_average_for_what_is_not_clipped(place):
    found = PLACES[place]
    end, turned = 6 * found["scale"], np.array(found["turned"])
    widest = 2 * found["scale"]  # the largest gap between two numbers of FP4
    np.testing.assert_allclose(found["coin"]["rounded"], np.clip(turned, -end, end), atol=widest / 2 / 32**0.5 * 4)


def test_turned_all_the_way_less_is_lost():
    first, last = PLACES[0], PLACES[-1]
    assert last["scale"] < first["scale"]
    for how in ("nearest", "coin"):
        assert last[how]["error"] < first[how]["error"] and abs(last[how]["left"] - 1) < abs(first[how]["left"] - 1)
