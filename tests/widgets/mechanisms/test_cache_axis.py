"""Lab 15: roundings along both axes by hand, and errors of scores and of A·V from a softmax of PyTorch."""

from functools import cache

import numpy as np
import pytest
import torch

from lplab.recordings import language_model_recording
from lplab.widgets.mechanisms import cache_axis

DATA = cache_axis.data()
AXES = ("channel", "token")


def by_hand(x: np.ndarray, axis: str) -> np.ndarray:
    """Groups of 32, rounded to four levels, evenly from the smallest to the largest number."""
    x = x.T if axis == "channel" else x
    found = np.empty_like(x)
    for row, numbers in enumerate(x):
        for start in range(0, len(numbers), 32):
            part = slice(start, start + 32)
            low, step = numbers[part].min(), np.ptp(numbers[part]) / 3
            found[row, part] = low + step * np.rint((numbers[part] - low) / step)
    return found.T if axis == "channel" else found


@cache
def errors_by_hand(name: str, axis: str) -> float:
    """The error of the scores of the rounded keys, or of A·V with the rounded values."""
    keys, values = (torch.from_numpy(cache_axis.cache()[each]) for each in ("keys", "values"))
    queries = torch.from_numpy(np.float64(language_model_recording().queries[:3]))
    past = torch.ones(256, 256, dtype=torch.bool).tril()
    scores = queries @ keys.T / 8
    if name == "keys":
        found = queries @ torch.from_numpy(by_hand(keys.numpy(), axis)).T / 8
        exact, found = scores[:, past], found[:, past]
    else:
        shares = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
        exact, found = shares @ values, shares @ torch.from_numpy(by_hand(values.numpy(), axis))
    return float((found - exact).norm() / exact.norm())


@pytest.mark.parametrize("name", ["keys", "values"])
@pytest.mark.parametrize("axis", AXES)
def test_roundings_and_errors_are_those_by_hand(name, axis):
    part, x = DATA["maps"][name], cache_axis.cache()[name]
    np.testing.assert_allclose(part["rounded"][axis], cache_axis.drawn(by_hand(x, axis)), atol=1e-3)
    assert part["errors"][axis] == pytest.approx(errors_by_hand(name, axis))
    strips = np.array(part["rounded"][axis] if axis == "token" else np.transpose(part["rounded"][axis]))
    for strip, levels in zip(strips, part["levels"][axis], strict=True):
        assert np.abs(strip[:, None] - levels).min(axis=1).max() < 2e-3


def test_keys_have_columns_of_outliers_and_values_have_none():
    tops = {name: np.sort(np.abs(part["numbers"]).max(axis=0)) for name, part in DATA["maps"].items()}
    assert tops["keys"][-1] > 4 * np.median(tops["keys"]) and tops["values"][-1] < 2 * np.median(tops["values"])


def test_keys_are_better_by_channel_and_values_by_token():
    keys, values = (DATA["maps"][name]["errors"] for name in ("keys", "values"))
    assert keys["channel"] < keys["token"] / 3 and values["token"] < values["channel"] / 1.5


def test_the_token_is_a_piece_of_the_text():
    assert len(DATA["pieces"]) == 32 and DATA["pieces"][2] == language_model_recording().pieces[66].strip()
