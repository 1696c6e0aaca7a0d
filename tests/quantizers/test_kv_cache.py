"""Keys and values in few bits: each axis by hand, positions that are ready, and the table of bits a weight."""

import numpy as np
import pytest
import torch

from lplab.quantizers import KIVI, STORED_WEIGHTS, bits_per_weight
from lplab.quantizers.kv_cache import AXES

X = np.random.default_rng(0).standard_normal((2, 3, 64, 32)).astype(np.float32)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_groups_lie_along_the_other_axis(axis, bits):
    found = KIVI(bits, 16).rounded(X, axis)
    for at in ((0, 0, 16, 5), (1, 2, 63, 31), (0, 1, 0, 0)):
        batch, head, token, channel = at
        begin = 16 * ((token if axis == "channel" else channel) // 16)
        line = X[batch, head, :, channel] if axis == "channel" else X[batch, head, token]
        group = line[begin : begin + 16].astype(np.float64)
        step = (group.max() - group.min()) / (2**bits - 1)
        want = np.rint((X[at] - group.min()) / step) * step + group.min()
        assert found[at] == pytest.approx(want, rel=1e-5, abs=1e-6)
    assert torch.equal(KIVI(bits, 16).rounded(torch.from_numpy(X), axis), torch.from_numpy(found))


def test_a_channel_that_is_always_large_ruins_a_token_and_not_its_own_channel():
    keys = X.copy()
    keys[..., 7] += 50
    errors = {axis: np.square(KIVI(2, 32).rounded(keys, axis) - keys).mean() for axis in AXES}
    assert errors["channel"] < errors["token"] / 20


@pytest.mark.parametrize(
    ("rule", "axis", "counts"),
    [
        (KIVI(window=128), "channel", {127: 0, 128: 128, 300: 256}),
        (KIVI(window=128), "token", {127: 0, 128: 0, 130: 2}),
        (KIVI(window=0), "channel", {31: 0, 64: 64, 70: 64}),
        (KIVI(window=0), "token", {3: 3}),
        (KIVI(window=40), "channel", {63: 0, 64: 64}),
    ],
)
def test_positions_are_rounded_when_they_have_left_the_window(rule, axis, counts):
    assert {tokens: rule.ready(axis, tokens) for tokens in counts} == counts


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: KIVI(keys="head"), "keys must be 'channel' or 'token', got 'head'"),
        (lambda: KIVI(bits=9), "bits must be an integer from 1 to 8"),
        (lambda: KIVI(group=10).rounded(X, "token"), "group=10 does not divide the 32 channels"),
        (lambda: KIVI(group=48).rounded(X, "channel"), "group=48 does not divide the 64 positions"),
        (lambda: bits_per_weight(4, 0), "group must be finite and at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_the_table_of_bits_is_that_of_the_files_and_papers():
    want = {"Q4_0": 4.5, "Q4_1": 5.0, "Q8_0": 8.5, "IQ2_XXS": 2.0625, "IQ3_XXS": 3.0625, "mxfp4": 4.25, "nvfp4": 4.5}
    want |= {"nf4": 4.5, "Q2_K": 2.625, "Q3_K": 3.4375, "Q6_K": 6.5625, "int4 g128": 4.15625, "ternary, packed": 1.6}
    assert {name: STORED_WEIGHTS[name].bits_per_weight for name in want} == want
    assert STORED_WEIGHTS["nf4, double"].bits_per_weight == pytest.approx(4.127, abs=5e-4)
    ordered = [row.bits_per_weight for row in STORED_WEIGHTS.values()]
    assert ordered == sorted(ordered, reverse=True)


def test_the_bits_of_gguf_are_those_of_its_own_package():
    gguf = pytest.importorskip("gguf")
    for name, row in STORED_WEIGHTS.items():
        if name in gguf.GGMLQuantizationType.__members__:
            weights, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
            assert (row.weights, row.bits) == (weights, 8 * size), name
