"""The baselines by hand and by their laws; each defect that was measured in other implementations, looked for here."""

import numpy as np
import pytest

from lplab import compression as C
from lplab.compression import lossless
from lplab.compression.arrays import float_bytes, round_to_wire
from lplab.compression.lowrank import orthonormal
from lplab.compression.ratios import build_up, compression_ratios, entropy_bound, wire_bytes
from lplab.compression.sparse import top_k_indices
from lplab.compression.wire import adacomp_wire
from lplab.compression.wire.bits import pack_fields, pack_signs, pack_trits, unpack_fields, unpack_signs, unpack_trits
from lplab.compression.wire.values import from_bytes

F = np.float32


def once(compressor, gradient, **context):
    """One learner, one step: what arrives, and the state after it."""
    state = compressor.init(gradient.shape)
    average = C.exchange(compressor, [gradient], [state], **context)
    state.commit()
    return average, state


def test_top_k_by_hand():
    average, state = once(C.TopK(0.5), np.array([1, -4, 2, 3], F))
    assert average.tolist() == [0, -4, 0, 3] and state["residual"].tolist() == [1, 0, 2, 0]


def test_top_k_of_ties_sends_exactly_k_the_first_ones():
    assert top_k_indices(np.array([0, 1, 1, 1, 2], F), 3).tolist() == [1, 2, 4]
    assert top_k_indices(np.zeros(4, F), 2).tolist() == [0, 1]


def test_an_all_negative_tensor_sends_k_values_too(draw):
    """Elsewhere a threshold on signed values sent the whole tensor."""
    ledger, gradient = C.TrafficLog(), -np.abs(draw(1000)) - F(1)
    C.exchange(C.TopK(0.1), [gradient], [C.TopK(0.1).init((1000,))], ledger=ledger)
    assert ledger.total() == 100 * 8


def test_random_k_leaves_numpys_own_random_numbers_alone_and_draws_without_replacement(draw):
    """Elsewhere the caller's generator was seeded anew in each call, and 10 % gave 9.5 % distinct elements."""
    before = np.random.get_state()[1].copy()
    average, _ = once(C.RandomK(0.1), np.ones(1000, F))
    assert (np.random.get_state()[1] == before).all() and np.count_nonzero(average) == 100


def test_random_k_without_memory_is_right_on_average():
    gradient = np.array([1, -2, 3, 0], F)
    compressor = C.RandomK(0.5, error_feedback=False)
    mean = np.mean([once(compressor, gradient, step=s)[0] for s in range(2000)], axis=0)
    assert np.abs(mean - gradient).max() < 4 * 3 / np.sqrt(2000)  # four standard deviations of the largest element


def test_random_k_without_memory_scales_by_the_share_that_is_sent():
    """0.3 · 5 = 1.5 elements are two: each counts 5 / 2 times, not 1 / 0.3 times."""
    average, _ = once(C.RandomK(0.3, error_feedback=False), np.ones(5, F))
    assert sorted(average.tolist()) == [0, 0, 0, 2.5, 2.5]


def test_dgc_by_hand():
    """μ = 0.5: u = 0.5·u + g, v = v + u; the sent element loses both."""
    compressor = C.DGC(0.5, momentum=0.5)
    state, g = compressor.init((2,)), np.array([2, 1], F)
    assert C.exchange(compressor, [g], [state]).tolist() == [2, 0]
    state.commit()
    assert (state["velocity"].tolist(), state["residual"].tolist()) == ([0, 1], [0, 1])
    assert C.exchange(compressor, [g], [state], step=1).tolist() == [0, 2.5]  # v: 2 against 1 + (0.5 + 1)
    state.commit()
    assert (state["velocity"].tolist(), state["residual"].tolist()) == ([2, 0], [2, 0])


def test_dgc_with_everything_sent_is_momentum(draw):
    """Density 1 and no masking: what arrives is the velocity of ordinary momentum, step by step."""
    compressor, velocity = C.DGC(1.0, masking=False), np.zeros(50, F)
    state = compressor.init((50,))
    for step in range(5):
        g = draw(50, seed=step)
        velocity = F(0.9) * velocity + g
        assert (C.exchange(compressor, [g], [state], step=step) == velocity).all()
        state.commit()


def test_dgc_with_nesterov_and_everything_sent_is_nesterovs_momentum(draw):
    """The update torch makes: g + μ·u with u ← μ·u + g."""
    compressor, velocity = C.DGC(1.0, masking=False, nesterov=True), np.zeros(50)
    state = compressor.init((50,))
    for step in range(5):
        g = draw(50, seed=step)
        velocity = 0.9 * velocity + g
        np.testing.assert_allclose(
            C.exchange(compressor, [g], [state], step=step), g + 0.9 * velocity, rtol=1e-5, atol=1e-6
        )
        state.commit()


def test_dgc_clips_and_warms_up():
    g = np.array([3, 4], F)
    average, _ = once(C.DGC(1.0, clip=1.0), g)
    np.testing.assert_allclose(average, g / 5, rtol=1e-6)
    halves = C.DGC(1.0, clip=1.0)
    both = C.exchange(halves, [g, g], [halves.init((2,)) for _ in range(2)])
    np.testing.assert_allclose(both, g / 5 / np.sqrt(2), rtol=1e-6)
    assert [C.DGC(0.001, warm_up=(0.25, 0.0625)).density_at(s) for s in (0, 1, 2)] == [0.25, 0.0625, 0.001]


def test_one_bit_by_hand():
    """Two columns of three: the mean of each side of each column; zero counts as positive."""
    gradient = np.array([[1, 3, -2], [0, -1, -3]], F)
    average, state = once(C.OneBit(), gradient)
    assert average.tolist() == [[2, 2, -2], [0, -2, -2]]
    assert state["residual"].tolist() == [-1, 1, 0, 0, 1, -1]


def test_ef_sign_by_hand():
    """The scale is the mean of |gradient + residual|: (3 + 1) / 2, then that of (−1 + 1) and (1 − 1)."""
    compressor = C.EFSign()
    average, state = once(compressor, np.array([3, 1], F))
    assert average.tolist() == [2, 2] and state["residual"].tolist() == [1, -1]
    assert C.exchange(compressor, [np.array([-1, 1], F)], [state], step=1).tolist() == [0, 0]
    state.commit()
    assert state["residual"].tolist() == [0, 0]


def test_signsgd_by_hand():
    """Three learners vote on five elements; zero of either sign counts as positive."""
    gradients = [np.array(g, F) for g in ([3, -1, 0, -2, 1e-30], [-9, -1, -0.0, -5, 0], [1, 1, 0, -1, -7])]
    compressor, ledger = C.SignSGD(), C.TrafficLog()
    vote = C.exchange(compressor, gradients, [compressor.init((5,)) for _ in range(3)], ledger=ledger)
    assert vote.tolist() == [1, -1, 1, -1, 1]
    assert [entry.payload_bytes for entry in ledger.entries] == [1, 1, 1]
    run = compressor.steps(gradients[1], compressor.init((5,)), C.Context())
    assert run.send(None).payload.tolist() == [0b01011], "negative elements, the first in the lowest bit"


@pytest.mark.parametrize(("ties", "vote"), [("zero", [0, 1, 0, -1]), ("positive", [1, 1, 1, -1])])
def test_a_tie_of_the_vote(ties, vote):
    gradients = [np.array([1, 2, -3, -4], F), np.array([-5, 6, 7, -8], F)]
    compressor = C.SignSGD(ties=ties)
    assert C.exchange(compressor, gradients, [compressor.init((4,)) for _ in range(2)]).tolist() == vote


def test_elements_without_a_gradient_are_updated_by_signsgd():
    assert once(C.SignSGD(), np.zeros(3, F))[0].tolist() == [1, 1, 1]


def test_signum_by_hand():
    """v: 2, −1 after the first step; then 0.5 · 2 − 0.5 · 1 = 0.5 and 0.5 · (−1) + 0.5 · 0.5 = −0.25."""
    compressor = C.SignSGD(momentum=0.5)
    vote, state = once(compressor, np.array([4, -2], F))
    assert vote.tolist() == [1, -1] and state["velocity"].tolist() == [2, -1]
    assert C.exchange(compressor, [np.array([-1, 0.5], F)], [state], step=1).tolist() == [1, -1]
    state.commit()
    assert state["velocity"].tolist() == [0.5, -0.25]
    assert C.SignSGD().init((2,)).arrays() == {}, "without momentum there is nothing to keep"


@pytest.mark.parametrize("world", [1, 2, 5, 8])
@pytest.mark.parametrize(("momentum", "ties"), [(0.0, "zero"), (0.9, "positive"), (0.9, "zero")])
def test_signsgd_against_votes_counted_one_by_one(momentum, ties, world, draw):
    compressor = C.SignSGD(momentum, ties)
    states = [compressor.init((7, 11)) for _ in range(world)]
    velocities = [[F(0)] * 77 for _ in range(world)]
    for step in range(4):
        gradients = [draw((7, 11), seed=50 * step + rank) for rank in range(world)]
        vote = C.exchange(compressor, gradients, states, step=step)
        expected = []
        for element in range(77):
            balance = 0
            for velocity, gradient in zip(velocities, gradients, strict=True):
                g = gradient[element // 11, element % 11]
                velocity[element] = F(momentum) * velocity[element] + F(1 - momentum) * g
                balance += -1 if velocity[element] < 0 else 1
            tie = 1 if ties == "positive" else 0
            expected.append(1 if balance > 0 else -1 if balance < 0 else tie)
        assert vote.reshape(-1).tolist() == expected
        for state in states:
            state.commit()


@pytest.mark.parametrize(("settings", "message"), [
    ({"momentum": 1.0}, "momentum must be from 0 to below 1, got 1.0"), ({"momentum": -0.1}, "got -0.1"),
    ({"momentum": float("nan")}, "got nan"), ({"ties": "random"}, "ties must be 'zero' or 'positive', got 'random'"),
])  # fmt: skip
def test_bad_settings_of_signsgd(settings, message):
    with pytest.raises(ValueError, match=message):
        C.SignSGD(**settings)


@pytest.mark.parametrize("compressor", [C.OneBit(), C.EFSign()])
def test_a_sign_code_decodes_to_the_right_size(compressor, draw):
    """Elsewhere an inverted byte mask made the result 203 times too large; a sign code misses about 0.6 to 1."""
    gradient = draw((100, 100))
    average, _ = once(compressor, gradient)
    assert 0.3 < np.linalg.norm(average - gradient) / np.linalg.norm(gradient) < 1


@pytest.mark.parametrize(
    ("compressor", "bits"),
    [(C.OneBit(), 1), (C.SignSGD(), 1), (C.EFSign(), 1), (C.TernGrad(), 1.6), (C.QSGD(1, 4096), 2)],
)
def test_a_bit_is_a_bit_on_the_wire(compressor, bits, draw):
    """Elsewhere "one bit" and "ternary" took a whole byte for each value."""
    ledger = C.TrafficLog()
    C.exchange(compressor, [draw((4, 16_384))], [compressor.init((4, 16_384))], ledger=ledger)
    assert 8 * ledger.total() == pytest.approx(bits * 65_536, rel=0.01)


@pytest.mark.parametrize("compressor", [C.TernGrad(), C.QSGD(levels=3, bucket=4)])
def test_coins_are_right_on_average(compressor):
    gradient = np.array([1, -0.5, 0.25, 0, 2, 0.1, -2, 1e-3], F)
    each = np.array([once(compressor, gradient, step=s)[0] for s in range(4000)])
    deviation = each.std(axis=0) / np.sqrt(len(each))
    assert (np.abs(each.mean(axis=0) - gradient) <= 4.5 * deviation + 1e-6).all()


def test_learners_throw_their_own_coins(draw):
    runs = [C.TernGrad().steps(draw(1000), C.TernGrad().init((1000,)), C.Context(rank, 2)) for rank in range(2)]
    assert (runs[0].send(None).payload != runs[1].send(None).payload).any()


def test_terngrad_clips_at_standard_deviations():
    gradient = np.zeros(1000, F)
    gradient[0], gradient[1:] = 1000, 1
    state = C.TernGrad(2.5).init((1000,))
    payload = C.TernGrad(2.5).steps(gradient, state, C.Context()).send(None).payload
    assert payload[:4].view("<f4")[0] == pytest.approx(2.5 * np.sqrt(np.mean(gradient.astype(float) ** 2)), rel=1e-6)


@pytest.mark.parametrize("clip", [0, -1])
def test_terngrads_bad_clips(clip):
    with pytest.raises(ValueError, match="clip"):
        C.TernGrad(clip)


def test_a_bucket_of_zeros_has_no_norm_to_divide_by():
    gradient = np.zeros(8, F)
    gradient[5] = 1
    with np.errstate(all="raise"):
        average, _ = once(C.QSGD(levels=3, bucket=4), gradient)
    assert average.tolist() == gradient.tolist()


def test_powersgd_is_exact_for_a_matrix_of_its_rank(draw):
    rng = np.random.default_rng(0)
    matrix = (rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))).astype(F)
    average, state = once(C.PowerSGD(rank=2), matrix)
    np.testing.assert_allclose(average, matrix, atol=1e-5)
    assert np.abs(state["residual"]).max() < 1e-5


def test_powersgd_keeps_nothing_of_what_it_sends_whole(draw):
    """Elsewhere the residual held the difference to the average, also of tensors that were never compressed."""
    assert C.PowerSGD(4).for_layer(C.LayerInfo("bias", (1000,))) == C.Dense()
    assert C.PowerSGD(4).for_layer(C.LayerInfo("tiny", (4, 4))) == C.Dense()
    gradients = [draw((20, 20), seed) for seed in (0, 1)]
    compressor = C.PowerSGD(rank=20)
    states = [compressor.init((20, 20)) for _ in range(2)]
    C.exchange(compressor, gradients, states)  # full rank: each sends all it has, far from the average as it is
    for state, gradient in zip(states, gradients, strict=True):
        state.commit()
        assert np.abs(state["residual"]).max() < 1e-4 * np.abs(gradient).max()


def test_powersgds_warm_start_comes_closer(draw):
    """Power iteration on the same matrix: the error without feedback falls to that of the best rank-1 matrix."""
    matrix, compressor = draw((40, 30)), C.PowerSGD(rank=1, error_feedback=False)
    state, errors = compressor.init((40, 30)), []
    for step in range(30):
        average = C.exchange(compressor, [matrix], [state], step=step)
        state.commit()
        errors.append(np.linalg.norm(matrix - average))
    best = np.sqrt((np.linalg.svd(matrix.astype(float), compute_uv=False)[1:] ** 2).sum())
    assert errors[-1] == pytest.approx(best, rel=1e-3) and errors[0] > 1.01 * best


@pytest.mark.parametrize("poor", [0, 1])
def test_powersgd_comes_back_after_a_gradient_of_low_rank(poor, draw):
    """Zeros, or a batch of one example: what Q lost then is drawn anew, or the layer would never be trained again."""
    compressor, gradient = C.PowerSGD(rank=3), np.outer(draw(30, 1), draw(20, 2)) * F(poor)
    states = [compressor.init((30, 20)) for _ in range(2)]
    for step, gradients in enumerate([[gradient] * 2, *([draw((30, 20), s), draw((30, 20), s + 9)] for s in (3, 4))]):
        average = C.exchange(compressor, gradients, states, step=step, layer="w")
        for state in states:
            state.commit()
    assert np.linalg.matrix_rank(average.astype(float), tol=1e-3) == 3
    assert (states[0]["q"] == states[1]["q"]).all(), "all learners drew the same"


def test_orthonormal_columns(draw):
    p = orthonormal(draw((50, 4)))
    np.testing.assert_allclose(p.T @ p, np.eye(4), atol=1e-6)
    assert not orthonormal(np.ones((5, 3), F))[:, 1:].any()


@pytest.mark.parametrize("codec", ["zlib", "zstd", "lz4"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_lossless_loses_nothing(codec, shuffle, draw):
    gradient = draw((100, 37))
    gradient[0, 0] = np.float32(-0.0)
    average, _ = once(C.Lossless(codec, shuffle=shuffle), gradient)
    assert (average == gradient).all()


@pytest.mark.parametrize(("codec", "levels"), lossless.LEVELS.items())
def test_every_level_that_is_allowed_runs(codec, levels):
    gradient = np.arange(100, dtype=F)
    for level in levels:
        assert (once(C.Lossless(codec, level=level), gradient)[0] == gradient).all()


def test_numpys_whole_numbers_are_settings_too(draw):
    gradient = draw((30, 20))
    assert (once(C.QSGD(np.int64(7), np.int32(64)), gradient)[0] == once(C.QSGD(7, 64), gradient)[0]).all()


def test_a_missing_package_is_named(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(lossless, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r"needs zstandard: pip install 'lplab\[compression\]'"):
        C.Lossless("zstd").encode(np.ones(3, F))


def test_unknown_names():
    for make in (
        lambda: C.Lossless("rar"),
        lambda: C.Dense("fp8"),
        lambda: wire_bytes("scatter", 1, 2),
        lambda: C.LayerInfo("w", (2,), "conv"),
    ):
        with pytest.raises(ValueError, match="allowed: "):
            make()


BAD = {
    "no density": lambda: C.TopK(0),
    "density above 1": lambda: C.TopK(1.1),
    "no random elements": lambda: C.RandomK(0),
    "momentum 1": lambda: C.DGC(momentum=1),
    "clip 0": lambda: C.DGC(clip=0),
    "no levels": lambda: C.QSGD(0),
    "too many levels": lambda: C.QSGD(256),
    "empty bucket": lambda: C.QSGD(bucket=0),
    "rank 0": lambda: C.PowerSGD(0),
    "level 10 of zlib": lambda: C.Lossless("zlib", level=10),
    "level 0 of zstd": lambda: C.Lossless("zstd", level=0),
    "negative warm-up": lambda: C.WarmUp(C.Dense(), -1),
    "rank outside the world": lambda: C.Context(2, 2),
    "negative step": lambda: C.Context(step=-1),
    "empty layer": lambda: C.LayerInfo("w", (0,)),
    "no positions": lambda: C.LayerInfo("w", (2,), weight_reuse=0),
    "nobody": lambda: wire_bytes("all_reduce", 1, 0),
    "more than all": lambda: entropy_bound(1.5),
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
def test_bad_settings(make):
    with pytest.raises(ValueError, match="must be|no elements"):
        make()


# ---- bits and values ----


@pytest.mark.parametrize("count", [0, 1, 5, 7, 8, 9, 1000])
def test_packed_symbols(count):
    rng = np.random.default_rng(count)
    signs, trits, fields = rng.random(count) < 0.5, rng.integers(-1, 2, count), rng.integers(0, 32, count)
    assert unpack_signs(pack_signs(signs), count).tolist() == signs.tolist()
    assert unpack_trits(pack_trits(trits), count).tolist() == trits.tolist()
    assert unpack_fields(pack_fields(fields, 5), 5, count).tolist() == fields.tolist()
    assert pack_trits(trits).size == -(-count // 5)


def test_padding_must_be_empty():
    with pytest.raises(ValueError, match="after the last"):
        unpack_signs(np.array([0b1000], np.uint8), 3)
    with pytest.raises(ValueError, match="after the last"):
        unpack_trits(pack_trits(np.array([0, 0, 0, 0, 1])), 4)
    with pytest.raises(ValueError, match="not 243"):
        unpack_trits(np.array([243], np.uint8), 5)


@pytest.mark.parametrize("wire", ["fp32", "fp16", "bf16"])
def test_values_on_the_wire(wire, draw):
    values = np.append(draw(1000), np.array([0, -0.0, 1e-40, 65_504, 1e30], F))
    rounded = round_to_wire(values, wire)
    payload = float_bytes(rounded, wire)
    assert (from_bytes(payload, wire, values.size).view(np.int32) == rounded.view(np.int32)).all()
    with pytest.raises(ValueError, match="arrived"):
        from_bytes(payload[:-1], wire, values.size)


def test_bf16_rounds_as_torch_does(draw):
    torch = pytest.importorskip("torch")
    values = draw(10_000)
    assert (round_to_wire(values, "bf16") == torch.from_numpy(values).bfloat16().float().numpy()).all()


# ---- rates ----


def test_the_union_of_random_masks_is_the_formula():
    rng, density = np.random.default_rng(0), 1 / 112
    for learners in (8, 64):
        union = np.zeros(200_000, bool)
        for _ in range(learners):
            union |= rng.random(union.size) < density
        assert union.mean() == pytest.approx(build_up(density, learners), abs=0.005)  # row T22 asks for one point


def test_the_entropy_bound_of_the_notes():
    assert entropy_bound(0.01) == pytest.approx(0.0908, abs=5e-5)
    assert entropy_bound(0.1) == pytest.approx(0.569, abs=5e-4)
    assert entropy_bound(0) == 0 and entropy_bound(1) == 1


def test_no_message_beats_the_entropy_of_its_mask(draw):
    """AdaComp's code of one or two bytes lies above the bound, within a factor of two and a half."""
    gradient, compressor = draw(50_000), C.AdaComp(bin=50)
    state, ledger = compressor.init((50_000,)), C.TrafficLog()
    average = C.exchange(compressor, [gradient], [state], ledger=ledger)
    bound = 50_000 * entropy_bound(np.count_nonzero(average) / 50_000) / 8
    assert bound < ledger.total() < 2.5 * bound


def test_paper_payload_and_wire_are_three_rates():
    plan = C.ScaleCom(chunk=100).plan((10_000,))
    assert compression_ratios(plan, 10_000, world=4).paper == 100, "the paper counts values, not their places"
    activity = adacomp_wire.SentCounts(sent=1000, empty_bins=30)
    adacomp = compression_ratios(C.AdaComp(bin=50).plan((10_000,), activity), 10_000, world=4)
    assert adacomp.paper == 40 > adacomp.payload == pytest.approx(40_000 / (1030 + adacomp_wire.HEADER))
    dense = compression_ratios(C.Dense().plan((10_000,)), 10_000, world=4)
    assert dense.paper == dense.payload == dense.wire == 1
    assert (
        np.isnan(compression_ratios(plan, 10_000, world=1).wire) and compression_ratios([], 10, world=2).paper == np.inf
    )
    assert compression_ratios(plan, 10_000, world=4).payload == pytest.approx(40_000 / (400 + 25))
    assert compression_ratios(plan, 10_000, world=4).wire == pytest.approx(1.5 * 40_000 / (1.5 * 400 + 0.75 * 100))
    assert (
        compression_ratios(C.TopK(0.01).plan((10_000,)), 10_000, 64).wire
        < 1.6
        < compression_ratios(plan, 10_000, 64).wire
    )


def test_layer_states_check_checkpoints():
    state = C.TopK().init((3,))
    with pytest.raises(ValueError, match="the checkpoint holds"):
        state.load({"velocity": np.zeros(3, F)})
    with pytest.raises(ValueError, match="float64"):
        state.load({"residual": np.zeros(3)})
    with pytest.raises(KeyError, match="no velocity"):
        state.propose(velocity=np.zeros(3, F))
    other = np.ones(3, F)
    state.load({"residual": other})
    other[:] = 5
    assert state["residual"].tolist() == [1, 1, 1]
