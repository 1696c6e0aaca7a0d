"""The recorded language model: its arrays belong together, and show what they are recorded for."""

import numpy as np
import pytest
import torch

from lplab.datasets import data_folder, smollm2_file
from lplab.models import rotate_neighbours
from lplab.quantizers import KIVI, LayerInput, WeightGrid, gptq_round, input_hessian, smoothing_factors
from lplab.recordings import language_model_recording
from tests.datasets.scripts import script

RECORDED = language_model_recording()
ATTENTION, DOWN = RECORDED.layers["blocks.12.attention"], RECORDED.layers["blocks.11.mlp"]


def heads(x):
    return x.reshape(len(x), -1, 64).transpose(1, 0, 2)


def test_queries_keys_and_values_follow_from_the_inputs_and_the_weights():
    products = {name: heads(ATTENTION.inputs @ w.T) for name, w in ATTENTION.weights.items()}
    np.testing.assert_allclose(products["v"], RECORDED.values, atol=5e-3, rtol=5e-3)
    angles = torch.arange(256)[:, None] / 100_000 ** (torch.arange(0, 64, 2) / 64)
    for name, want in (("q", RECORDED.queries), ("k", RECORDED.keys)):
        found = rotate_neighbours(torch.from_numpy(products[name].copy()), angles).numpy()
        np.testing.assert_allclose(found, want, atol=0.05, rtol=5e-3)


def test_one_channel_of_the_first_token_is_massive_from_the_fourth_block_on():
    sizes = RECORDED.first_token
    assert (sizes[4:30].argmax(1) == 507).all() and sizes[12, 507] > 10_000 * RECORDED.medians[12]
    np.testing.assert_allclose(np.abs(RECORDED.stream[0]), sizes[12], rtol=1e-3)
    np.testing.assert_allclose(np.abs(RECORDED.stream[1:]).max(0), RECORDED.other_tokens[12], rtol=1e-3)
    assert len(RECORDED.pieces) == 256 and 4 < RECORDED.bits < 7
    with pytest.raises(ValueError, match="read-only"):
        sizes[0] = 0


def test_a_channel_of_the_down_projections_inputs_stands_out():
    tops = np.abs(DOWN.inputs).max(0)
    assert tops.max() > 1000 * np.median(tops)


def test_gptq_smoothing_and_the_axes_of_the_cache_show_on_it():
    """At 3 bits; the weights lie on 16 levels already, so that 4 bits would say nothing."""
    x, w = ATTENTION.inputs, ATTENTION.weights["q"]
    grid = WeightGrid(3, 64)
    errors = [np.square(x @ (q - w).T).sum() for q in (gptq_round(w, input_hessian(x), grid), grid.quantize(w))]
    assert errors[0] < 0.5 * errors[1]
    s = smoothing_factors(np.abs(x).max(0), np.abs(w).max(0))
    rows = WeightGrid(8, None, "symmetric")
    naive, smooth = LayerInput(8, "tensor"), LayerInput(8, "tensor", factors=s)
    products = naive.quantize(x) @ rows.quantize(w).T, smooth.quantize(x) @ rows.quantize((w * s).astype(np.float32)).T
    errors = [np.square(product - x @ w.T).mean() for product in products]
    assert errors[1] < errors[0] / 2
    k = RECORDED.keys
    by_axis = {axis: np.square(KIVI(2).rounded(k, axis) - k).mean() for axis in ("channel", "token")}
    assert by_axis["channel"] < by_axis["token"] / 2


@pytest.mark.slow
def test_it_can_be_made_again():
    pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    try:
        smollm2_file()
    except (FileNotFoundError, ImportError) as problem:
        pytest.skip(str(problem))
    made = script("record_language_model").record()
    with np.load(data_folder() / "language_model" / "smollm2.npz") as stored:
        for name, array in made.items():
            if array.dtype == np.float16:
                np.testing.assert_allclose(
                    array.astype(np.float32), stored[name].astype(np.float32), rtol=0.02, atol=0.05
                )
            elif array.dtype.kind == "f":
                np.testing.assert_allclose(array, stored[name], rtol=1e-3, atol=1e-3)
            else:
                np.testing.assert_array_equal(array, stored[name])
