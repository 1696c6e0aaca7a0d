"""AdaComp against the paper's steps written out element by element, its bytes by hand, and every switch."""

import numpy as np
import pytest

from lplab.compression import AdaComp, Context, Dense, LayerInfo, exchange
from lplab.compression.adacomp import adacomp_select, adacomp_select_arrays, adacomp_select_compiled
from lplab.compression.ratios import adacomp_paper_ratio
from lplab.compression.wire.adacomp_wire import SentCounts, code_type, decode, encode

F = np.float32


def element_by_element(
    residual, gradient, s=2.0, bin=50, sign_of="G", scale_over="all", always_one=False, zero_bins="nothing"
):
    """Steps 1 to 8 of the paper notes, one float32 at a time: what is sent (a dict) and the new residual."""
    numel = len(gradient)
    bins = [range(first, min(first + bin, numel)) for first in range(0, numel, bin)]
    total = [F(r + g) for r, g in zip(residual, gradient, strict=True)]
    boosted = [F(t + F(F(s - 1) * g)) for t, g in zip(total, gradient, strict=True)]
    maxima = [max(abs(total[j]) for j in b) for b in bins]
    counted = maxima if scale_over == "all" else [m for m in maxima if m > 0]
    scale = F(sum(map(float, counted)) / max(len(counted), 1))
    signs, sent = (total if sign_of == "G" else boosted), {}
    for b, most in zip(bins, maxima, strict=True):
        selected = [j for j in b if most > 0 and abs(boosted[j]) >= most and signs[j] != 0]
        if always_one and not selected and most > 0:
            selected = [next(j for j in b if abs(total[j]) == most)]
        if zero_bins == "all" and most == 0:
            selected = b
        sent |= {j: F(-scale if signs[j] < 0 else scale) for j in selected}
    return sent, [F(t - sent.get(j, F(0))) for j, t in enumerate(total)], scale


SWITCHES = [
    {},
    {"s": 1.0},
    {"s": 3.0},
    {"sign_of": "H"},
    {"scale_over": "nonzero"},
    {"always_one": True},
    {"zero_bins": "all"},
]


@pytest.mark.parametrize("bin", [1, 7, 50, 63, 64, 500, 2000])
@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_whole_arrays_are_the_paper_element_by_element(switch, bin, draw):
    residual, gradient = draw(1003, seed=1), draw(1003, seed=2)
    residual[100:300] = gradient[100:300] = 0  # whole bins of zeros
    settings = AdaComp(bin=bin, **{{"s": "scale_factor"}.get(k, k): v for k, v in switch.items()})
    selection = adacomp_select_arrays(residual, gradient, settings, bin)
    sent, remaining, scale = element_by_element(residual, gradient, bin=bin, **switch)
    assert abs(selection.scale - scale) <= np.spacing(scale)
    assert selection.indices.tolist() == list(sent)
    assert selection.negative.tolist() == [v < 0 for v in sent.values()]
    np.testing.assert_allclose(selection.residual, remaining, rtol=2e-7)


@pytest.mark.parametrize("numel", [2**15, 2**16 + 1, 100_003])
@pytest.mark.parametrize("bin", [50, 500, 40_000 // 3])
@pytest.mark.parametrize("switch", SWITCHES[1:], ids=str)
def test_the_compiled_loops_have_the_same_bits(switch, bin, numel, draw):
    pytest.importorskip("numba")
    residual, gradient = draw(numel, seed=3), draw(numel, seed=4)
    gradient[:5000] = residual[:5000] = 0
    settings = AdaComp(bin=bin, **{{"s": "scale_factor"}.get(k, k): v for k, v in switch.items()})
    slow = adacomp_select_arrays(residual, gradient, settings, bin)
    fast = adacomp_select_compiled(residual, gradient, settings, bin)
    assert fast.scale == slow.scale
    for name in ("indices", "negative", "residual"):
        assert getattr(fast, name).tobytes() == getattr(slow, name).tobytes()


def test_more_than_one_in_eight_is_more_room(draw):
    pytest.importorskip("numba")
    ones = np.ones(2**16, F)  # equal magnitudes: every element reaches the maximum
    selection = adacomp_select(np.zeros_like(ones), ones, AdaComp(bin=500), 500)
    assert selection.indices.size == ones.size and not selection.residual.any()


def test_a_step_by_hand():
    """Two bins of four. G = r + g; H = G + g; S = (3 + 2) / 2."""
    residual = np.array([1, 0, -2, 0, 0, 1, 0, 1], F)
    gradient = np.array([1, 1, -1, 0.5, 0, 1, 1, 0], F)  # G: 2 1 −3 0.5 | 0 2 1 1; H: 3 2 −4 1 | 0 3 2 1
    compressor = AdaComp(bin=4)
    state = compressor.init((8,))
    state.load({"residual": residual})
    run = compressor.steps(gradient, state, Context())
    request = run.send(None)
    # 2.5 as float32; bin 0: position 0 (+), position 2 (−, last); bin 1: position 1 (+), position 2 (+, last)
    assert request.payload.tolist() == [0, 0, 0x20, 0x40, 0b000000_00, 0b000010_11, 0b000001_00, 0b000010_10]
    assert request.finish([request.payload]).tolist() == [2.5, 0, -2.5, 0, 0, 2.5, 2.5, 0]
    state.commit()
    assert state["residual"].tolist() == [-0.5, 1, -0.5, 0.5, 0, -0.5, -1.5, 1]


def test_a1_a_bin_may_send_nothing():
    """The gradient opposes the largest G: its H falls below the maximum."""
    residual, gradient = np.array([4, 0], F), np.array([-1, 0.1], F)  # G: 3 0.1; H: 2 0.2
    silent = adacomp_select_arrays(residual, gradient, AdaComp(bin=2), 2)
    assert silent.indices.size == 0 and silent.residual.tolist() == [3, F(0.1)]
    forced = adacomp_select_arrays(residual, gradient, AdaComp(bin=2, always_one=True), 2)
    assert forced.indices.tolist() == [0] and forced.residual[0] == 0


def test_a2_a_bin_of_zeros_sends_nothing():
    """|0| ≥ 0 holds for the whole bin: implementations without a guard send all of it."""
    gradient = np.array([0, 0, 0, 0, 1, 0, 0, 0], F)
    assert adacomp_select_arrays(np.zeros(8, F), gradient, AdaComp(bin=4), 4).indices.tolist() == [4]
    unguarded = adacomp_select_arrays(np.zeros(8, F), gradient, AdaComp(bin=4, zero_bins="all"), 4)
    assert unguarded.indices.tolist() == [0, 1, 2, 3, 4] and not unguarded.negative.any()
    assert unguarded.residual.tolist() == [-0.5, -0.5, -0.5, -0.5, 0.5, 0, 0, 0]
    opposed = np.array([-1, 2], F), np.array([1, -2], F)  # G is zero, H is not
    signs = [
        adacomp_select_arrays(*opposed, AdaComp(bin=2, zero_bins="all", sign_of=of), 2).negative.tolist() for of in "GH"
    ]
    assert signs == [[False, False], [False, True]]


def test_a3_the_signs_of_g_and_h_can_differ():
    """r = 1, g = −0.9: G = 0.1 and H = −0.8."""
    residual, gradient = np.array([1.0], F), np.array([-0.9], F)
    for sign_of, negative in (("G", False), ("H", True)):
        assert adacomp_select_arrays(residual, gradient, AdaComp(bin=1, sign_of=sign_of), 1).negative.tolist() == [
            negative
        ]


def test_a4_the_scale_with_and_without_bins_of_zeros():
    gradient = np.array([3, 0, 0, 0], F)
    scales = [
        adacomp_select_arrays(np.zeros(4, F), gradient, AdaComp(bin=2, scale_over=o), 2).scale
        for o in ("all", "nonzero")
    ]
    assert scales == [1.5, 3]


def test_a5_a_larger_factor_sends_more(draw):
    residual, gradient = draw(5000, seed=5), draw(5000, seed=6)
    sent = [
        adacomp_select_arrays(residual, gradient, AdaComp(bin=50, scale_factor=s), 50).indices.size
        for s in (1, 1.5, 2, 3)
    ]
    assert sent == sorted(sent) and sent[0] < sent[-1]
    assert sent[0] == 100  # local selection: the maximum of each bin, no more


def test_a6_the_rates_of_the_paper():
    """T12 and T13: five elements a bin."""
    assert adacomp_paper_ratio(50, 5) == 40 and adacomp_paper_ratio(500, 5) == 200


def test_the_paper_counts_one_byte_an_element_up_to_bins_of_63():
    assert adacomp_paper_ratio(63, 4) == 32 * 63 / (4 * 8) == 63
    assert adacomp_paper_ratio(64, 4) == 32 * 64 / (4 * 16) == 32


def test_a7_small_tensors():
    bias = LayerInfo("bias", (512,), "small")
    assert AdaComp().for_layer(bias) == Dense()
    assert AdaComp(small="compressed").for_layer(bias) == AdaComp(bin=500, small="compressed")
    assert AdaComp().for_layer(LayerInfo("fc", (64, 64))).bin == 500
    assert AdaComp(bin=80).for_layer(LayerInfo("fc", (64, 64))).bin == 80


def test_it_needs_a_bin():
    with pytest.raises(ValueError, match="depends on the layer"):
        exchange(AdaComp(), [np.ones(4, F)], [AdaComp().init((4,))])


@pytest.mark.parametrize("settings", [
    {"bin": 0}, {"bin": 2**14}, {"scale_factor": 0.5}, {"scale_factor": np.inf}, {"scale_factor": np.nan},
    {"sign_of": "g"}, {"scale_over": "some"}, {"small": "no"},
])  # fmt: skip
def test_bad_settings(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        AdaComp(**settings)


@pytest.mark.parametrize("bin", [1, 2, 50, 63, 64, 500, 2**14 - 1])
def test_messages_survive_the_wire_and_are_as_long_as_planned(bin, draw):
    rng, numel = np.random.default_rng(bin), 20_001
    for density in (0, 0.001, 0.1, 1):
        indices = np.flatnonzero(rng.random(numel) < density)
        negative = rng.random(indices.size) < 0.5
        payload = encode(0.25, indices, negative, numel, bin)
        message = decode(payload, numel, bin)
        assert message.indices.tolist() == indices.tolist() and message.negative.tolist() == negative.tolist()
        assert message.scale == 0.25
        assert message.empty_bins == np.sum(np.bincount(indices // bin, minlength=-(-numel // bin)) == 0)
        counts = SentCounts(indices.size, message.empty_bins)
        assert payload.size == AdaComp(bin=bin).plan((numel,), counts)[0].payload_bytes


@pytest.mark.parametrize(("codes", "what"), [
    ([0b000010_00, 0b000001_10], "out of order"),  # positions fall
    ([0b000100_10], "outside its bin"),  # position 4 in a bin of 4
    ([0b111111_10, 0b000000_10], "has 2 bins"),
    ([0b000000_00], "has 0 bins"),
    ([0b000000_00, 0b111111_10], "damaged"),  # "nothing" behind something
])  # fmt: skip
def test_damaged_codes(codes, what):
    payload = np.concatenate([np.array([1], "<f4").view(np.uint8), np.array(codes, np.uint8)])
    with pytest.raises(ValueError, match=what):
        decode(payload, 4, 4)


@pytest.mark.parametrize("scale", [-1, -0.0, np.nan, np.inf])
def test_damaged_scales(scale):
    payload = np.concatenate([np.array([scale], "<f4").view(np.uint8), np.array([0b10], np.uint8)])
    with pytest.raises(ValueError, match="scale of an AdaComp message must be finite and 0 or more"):
        decode(payload, 4, 4)


def test_codes_grow_with_the_bin():
    assert [code_type(b).itemsize for b in (1, 63, 64, 16_383)] == [1, 1, 2, 2]
