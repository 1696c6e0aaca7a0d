"""Values are encoded bit by bit; the error for those that cannot be is one sentence."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stnp

from lplab.exercises.isolation.wire import Seeded, UnserializableError, decode, encode, encode_argument


def there_and_back(value):
    return decode(json.loads(json.dumps(encode(value))))


def same(one, other) -> bool:
    """Equal in type and in every bit; NaN equals NaN."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes() or (one != one and other != other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return one == other


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))


def type_name(value) -> str:
    return type(value).__name__


KEYS = PLAIN.filter(lambda key: key == key)  # a dictionary may hold NaN several times: as several keys, or as one


@given(st.recursive(PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(KEYS, inner)))
def test_plain_values_come_back(value):
    assert same(there_and_back(value), value)


@given(
    stnp.arrays(
        stnp.scalar_dtypes().filter(lambda dtype: dtype.kind in "biufU"), stnp.array_shapes(min_dims=0, min_side=0)
    )
)
def test_arrays_come_back(array):
    assert same(there_and_back(array), array)


@pytest.mark.parametrize("value", [
    -0.0, float("nan"), float("-inf"), 5e-324, 10**5000, -(2**64), True,
    "\ud800", "", {1: (2, [3]), None: -0.0}, (), {"dict": []},
    np.float16(-0.0), np.float32("nan"), np.uint8(255), np.bool_(True), np.str_("e4m3"), np.longdouble(1) / 3,
    np.arange(6, dtype=">i2").reshape(2, 3)[:, ::-1], np.asfortranarray(np.eye(3)), np.empty((0, 3), "f2"), np.array(7),
], ids=type_name)  # fmt: skip
def test_awkward_values_come_back(value):
    assert same(there_and_back(value), value)


def test_an_array_that_came_back_can_be_written_to():
    back = there_and_back(np.zeros(3))
    back[0] = 1
    assert back.tolist() == [1, 0, 0]


def test_a_seed_comes_as_a_generator():
    assert decode(encode_argument(Seeded(7))).random() == np.random.default_rng(7).random()


@pytest.mark.parametrize("seed", [-1, 1.0, True, None])
def test_a_seed_is_an_integer_from_0_up(seed):
    with pytest.raises(ValueError, match="integer from 0 up"):
        Seeded(seed)


async def waits():
    return 1


ITSELF: list = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(("value", "sentence"), [
    (1j, "a complex number: return real numbers"),
    (np.complex64(1), "a complex number: return real numbers"),
    (np.ones(2, complex), "a complex number: return real numbers"),
    ((x for x in ()), "a generator: use return in place of yield"),
    (len, "a function: call it, with round brackets, to get its value"),
    (np.rint, "a function: call it, with round brackets, to get its value"),
    (float, "a type: call it, with round brackets, to get a value"),
    (..., "three dots: put the value in their place"),
    ({1, 2}, "a set: use numbers, strings, lists, tuples, dicts or numpy arrays"),
    ([object()], "an object: use numbers, strings, lists, tuples, dicts or numpy arrays"),
    (np.array([None]), "an array of dtype object: use a number type of numpy, such as float32"),
    (np.ma.array([1.0]), "a masked array: return a plain numpy array"),
    (np.zeros(100_000_000, np.int8), "an array of 100 MB: at most 16 MB are read"),
    (Seeded(1), "a Seeded: use numbers, strings, lists, tuples, dicts or numpy arrays"),
    (ITSELF, "a value that contains itself, or is nested more than 50 deep"),
])  # fmt: skip
def test_what_cannot_travel_says_what_to_do(value, sentence):
    with pytest.raises(UnserializableError) as error:
        encode(value)
    assert str(error.value) == sentence


@pytest.mark.parametrize("form", [
    {"array": "|O", "shape": [1], "data": "AAAAAAAAAAA="},  # an address: reading it would crash
    {"array": "<f4,|O", "shape": [1], "data": "AAAAAAAAAAAAAAAA"},
    {"array": "<f4", "shape": [1000], "data": "AAAA"},
    {"array": "<f4", "shape": [-1], "data": "AAAA"},
    {"array": "nonsense", "shape": [1], "data": ""},
    {"module": "os"},
    {"int": "seven"},
    {"dict": [[[1], 2]]},
])  # fmt: skip
def test_forged_forms_are_refused(form):
    with pytest.raises((ValueError, TypeError)):
        decode(form)
