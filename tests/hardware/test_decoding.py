"""A language model that writes: bytes and seconds by hand, and where four bits help."""

import numpy as np
import pytest

from lplab.hardware import LANGUAGE_MODELS, accelerators, compute, decoding_step, workloads


def test_parameters_are_the_published_ones():
    want = {"smollm2-135m": 134.5e6, "llama-2-7b": 6.738e9, "llama-2-70b": 68.98e9, "llama-3-8b": 8.03e9}
    assert {name: LANGUAGE_MODELS[name].parameters for name in want} == pytest.approx(want, rel=1e-3)


def test_bytes_and_seconds_by_hand():
    """Llama 2 7B: 4 · 4096² + 3 · 4096 · 11008 weights in each of 32 blocks, and a head of 32,000 · 4096."""
    found = decoding_step("llama-2-7b", "a100", weight_bits=4.25, cache_bits=8, batch=3, context=500)
    linear, head = 32 * (4 * 4096**2 + 3 * 4096 * 11008), 32000 * 4096
    weights, cache = linear * 4.25 / 8 + head * 2, 3 * 500 * 2 * 32 * 4096
    chip = accelerators.get("a100")
    assert float(found.weight_bytes) == pytest.approx(weights) and float(found.cache_bytes) == pytest.approx(cache)
    assert float(found.seconds) == pytest.approx((weights + cache) / chip.memory_bytes_per_second)
    attention = 2 * 2 * 500 * 32 * 4096
    assert float(found.operations) == 3 * (2 * (linear + head) + attention)
    assert float(found.compute_seconds) == pytest.approx(float(found.operations) / chip.peaks["fp16"])
    assert found.is_memory_bound and found.fits
    assert float(found.intensity) == pytest.approx(float(found.operations) / (weights + cache))
    assert float(found.stored_bytes) == pytest.approx(weights + cache + head * 2)


def test_four_bits_write_three_times_as_fast_alone_and_hardly_faster_with_64_others():
    batches = np.array([1, 8, 64])
    slow, fast = (decoding_step("llama-2-7b", "a100", weight_bits=bits, batch=batches).seconds for bits in (16, 4.16))
    gain = slow / fast
    assert 3 < gain[0] < 4 and gain[2] < 1.4 and (np.diff(gain) < 0).all()
    with_cache = decoding_step("llama-2-7b", "a100", weight_bits=4.16, cache_bits=4.5, batch=64).seconds
    assert fast[2] / with_cache > 2.5, "there the cache is what bits must be taken from"


@pytest.mark.parametrize("batch", [1, 64])
def test_the_roofline_of_its_products_has_the_same_bytes_operations_and_seconds(batch):
    """The table of products counts what goes in and out of each product besides; that is little."""
    found = decoding_step("llama-2-7b", "h100", batch=batch, context=1024)
    times = compute.layer_times(workloads.get("llama2_7b_writing"), "h100", "bf16", batch, fused=True)
    assert times.flops.sum() == float(found.operations) and not times.flops[1:].any(), "nothing goes backward"
    total = float(found.weight_bytes + found.cache_bytes)
    assert times.nbytes.sum() == pytest.approx(total, rel=0.02)
    assert times.step_seconds == pytest.approx(float(found.seconds), rel=0.05)


def test_a_model_that_does_not_fit_in_16_bits_fits_in_four():
    assert not decoding_step("llama-2-70b", "a100").fits and decoding_step("llama-2-70b", "a100", weight_bits=4.16).fits
    assert decoding_step("llama-2-7b", "h100", batch=[1, 1000]).fits.tolist() == [True, False]


def test_many_sequences_of_short_texts_wait_for_products():
    found = decoding_step("llama-3-8b", "h100", weight_bits=4.16, batch=512, context=16)
    assert not found.is_memory_bound
    assert float(found.tokens_per_second) == pytest.approx(512 / float(found.compute_seconds))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": "llama-2-8b"}, "there is no language model 'llama-2-8b'; did you mean"),
        ({"weight_bits": 0}, "weight_bits must be more than 0"),
        ({"batch": 0}, "batch"),
        ({"chip": "ibm-core-2020"}, "memory bandwidth of .* is unknown"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        decoding_step(**{"model": "llama-2-7b", "chip": "a100"} | arguments)
