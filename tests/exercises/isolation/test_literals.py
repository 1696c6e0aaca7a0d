"""Constants of a notebook as text: the text makes an equal value, bit by bit."""

import decimal
import fractions

import numpy
import pytest
from hypothesis import given
from hypothesis.extra import numpy as stnp

from lplab.exercises.isolation.literals import NotPlainError, to_literal

NAMES = {"numpy": numpy, "fractions": fractions, "decimal": decimal}


@given(
    stnp.arrays(
        stnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufcU"), stnp.array_shapes(min_dims=0, min_side=0)
    )
)
def test_arrays(array):
    again = eval(to_literal(array), NAMES)
    assert again.dtype == array.dtype and again.shape == array.shape
    assert numpy.array_equal(again, array, equal_nan=array.dtype.kind in "fc")
    if array.dtype.kind == "f":
        assert numpy.array_equal(numpy.signbit(again), numpy.signbit(array)) or numpy.isnan(array).any()


@pytest.mark.parametrize("value", [
    None, True, -7, 0.1, -0.0, 1e-320, float("inf"), complex(-0.0, float("-inf")), "é\n", b"\0", ..., (), (1,), [[]],
    {"a": {1: (2, 3)}}, set(), {1, 2}, frozenset({3, 4}), frozenset({"ab"}), range(3), slice(1, None, 2),
    fractions.Fraction(1, 3), decimal.Decimal("0.10"), numpy.float16(0.1), numpy.int64(-1), numpy.bool_(True),
    numpy.dtype("float32"),
], ids=repr)  # fmt: skip
def test_plain_values(value):
    again = eval(to_literal(value), NAMES)
    assert type(again) is type(value) and again == value and repr(again) == repr(value)


@pytest.mark.parametrize(("value", "sentence"), [
    (object(), "an object"),
    ([print], "a builtin_function_or_method"),
    (numpy.zeros(4097), "an array of 4,097 numbers"),
    (numpy.array([None]), "a ndarray of dtype object"),
    ("x" * 200_000, "a str of 200,002 characters"),
])  # fmt: skip
def test_other_values_are_named(value, sentence):
    with pytest.raises(NotPlainError) as error:
        to_literal(value)
    assert str(error.value) == sentence
