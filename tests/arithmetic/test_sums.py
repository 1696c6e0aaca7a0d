"""Sums over an axis, pairwise and with Kahan's compensation: numpy, torch, lists; every path."""

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.arithmetic import Accumulator, compiled_sums, kahan_sum, pairwise_sum, reference_sums
from lplab.arithmetic import sum as sum_in
from lplab.formats.rounding import as_rounding

from .operands import KINDS, assert_same, operand

REFERENCES = {pairwise_sum: reference_sums.pairwise_sum, kahan_sum: reference_sums.kahan_sum}
MODES = ("nearest_even", "nearest_away", "toward_zero", "stochastic")


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_axes(axis, kind):
    x = operand("dlfloat", (4, 5, 6), np.random.default_rng(0))
    lines = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1) if axis is not None else x.reshape(-1, 1)
    accumulator = Accumulator("e5m2", chunk=3)
    want = np.array([reference_sums.dot(np.ones(len(line)), line.astype(float), accumulator) for line in lines.T])
    summed = sum_in(x if kind == "numpy" else torch.from_numpy(x), accumulator, axis)
    assert_same(np.asarray(summed).reshape(-1), want)
    assert tuple(summed.shape) == tuple(np.sum(x, axis).shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", REFERENCES, ids=lambda way: way.__name__)
@pytest.mark.parametrize("loops", [True, False])
def test_pairwise_and_kahan_sums_against_the_reference(way, mode, loops, monkeypatch):
    monkeypatch.setattr(compiled_sums, "MIN_OPERATIONS_BEFORE_LOADING", 0)
    monkeypatch.setattr(compiled_sums, "available", lambda: loops)
    rng, rounding = np.random.default_rng(4), as_rounding(mode)
    for kind in KINDS:
        for name in ("dlfloat16", "e4m3fn", "q8.8"):
            for length in (0, 1, 2, 7, 16):
                x = operand(kind, (length, 3), rng)
                more = {"sums": 3} if way is pairwise_sum else {}
                with np.errstate(all="ignore"):
                    want = [
                        REFERENCES[way](x[:, j].astype(float), F.get(name), rounding, 6, element=j, **more)
                        for j in range(3)
                    ]
                assert_same(way(x, name, 0, rounding=mode, seed=6), np.asarray(want, np.float32))


@pytest.mark.parametrize("way", REFERENCES, ids=lambda way: way.__name__)
def test_tables_and_torch(way):
    x = operand("fp8", (9, 2), np.random.default_rng(1))
    want = [REFERENCES[way](x[:, j].astype(float), F.get("posit8_1"), as_rounding("nearest_even")) for j in range(2)]
    assert_same(way(x, "posit8_1", 0), want)
    got = way(torch.from_numpy(x).half(), "posit8_1", 0)
    assert got.dtype == torch.float16
    assert_same(got.double(), want)


@pytest.mark.parametrize("way", [sum_in, pairwise_sum, kahan_sum], ids=lambda way: way.__name__)
def test_kinds(way):
    assert isinstance(way([1.0, 2.0], "dlfloat16"), float)
    assert way([[1.0, 2.0], [3.0, 4.0]], "dlfloat16", axis=0).tolist() == [4.0, 6.0]
    assert way(np.ones(3, np.float16), "dlfloat16").dtype == np.float16
    assert way(np.zeros((0, 2)), "dlfloat16", axis=0).tolist() == [0.0, 0.0]
    assert way(np.zeros(0), "dlfloat16") == 0
    assert way(torch.ones(2, 3), "dlfloat16").shape == ()


def test_a_long_pairwise_sum_is_cut_into_parts():
    x = operand("fp8", (100_000,), np.random.default_rng(2))
    want = reference_sums.pairwise_sum(x.astype(float)[:3000], F.get("dlfloat16"), as_rounding("stochastic"), 3)
    assert pairwise_sum(x[:3000], "dlfloat16", rounding="stochastic", seed=3) == want
    assert abs(pairwise_sum(x, "dlfloat16", rounding="stochastic", seed=3) - x.astype(float).sum()) < 10


def test_gradient_of_a_sum():
    x = torch.ones(3, 4, requires_grad=True)
    (sum_in(x, "dlfloat16", axis=0) * torch.arange(4.0)).sum().backward()
    assert torch.equal(x.grad, torch.arange(4.0).expand(3, 4))
