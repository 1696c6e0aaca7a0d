"""ScaleCom: masks and sums commute, the residual's formula, messages of constant size, ratios of real layer lists."""

import numpy as np
import pytest

from lplab.compression import Context, Dense, LayerInfo, NotFiniteError, ScaleCom, TopK, TrafficLog, exchange
from lplab.compression.arrays import BLOCK, add_finite, is_finite
from lplab.compression.scalecom import chunk_for, decode_indices, encode_indices, index_count, largest_per_chunk
from lplab.formats.paths import kernel_selection

F = np.float32


def test_two_learners_by_hand():
    """Step 1: learner 1 leads. Chunks of three; p = residual + gradient."""
    compressor = ScaleCom(chunk=3)
    residuals = [np.array([0, 1, 0, 0, 0], F), np.array([2, 0, 0, 0, 1], F)]
    gradients = [np.array([1, 1, 1, 1, 1], F), np.array([1, 0, -4, 5, 0], F)]  # p: 1 2 1 1 1 and 3 0 −4 5 1
    states = [compressor.init((5,)) for _ in range(2)]
    for state, residual in zip(states, residuals, strict=True):
        state.load({"residual": residual})
    leader = compressor.steps(gradients[1], states[1], Context(rank=1, world=2, step=1))
    assert leader.send(None).payload.tolist() == [2, 0]  # |−4| in the first chunk, |5| in the second
    average = exchange(compressor, gradients, states, step=1)
    assert average.tolist() == [0, 0, -1.5, 3, 0]
    for state in states:
        state.commit()
    assert states[0]["residual"].tolist() == [1, 2, 0, 0, 1]
    assert states[1]["residual"].tolist() == [3, 0, 0, 0, 1]


@pytest.mark.parametrize("beta", [1.0, 0.3, 0.1])
def test_the_memory_follows_the_formula_to_the_bit(beta, draw):
    """m ← (1 − β)·m + β·(p − sent): a coordinate that was sent keeps (1 − β)·m."""
    compressor = ScaleCom(chunk=10, beta=beta)
    state, residual = compressor.init((1003,)), draw(1003, seed=1)
    state.load({"residual": residual})
    gradient = draw(1003, seed=2)
    average = exchange(compressor, [gradient], [state])
    state.commit()
    remaining = residual + gradient - average
    expected = remaining if beta == 1 else F(beta) * remaining + F(1 - beta) * residual
    assert (state["residual"] == expected).all()
    if beta < 1:
        sent = average != 0
        assert (state["residual"][sent] == F(1 - beta) * residual[sent]).all()


def test_masking_and_summing_commute(draw):
    """All learners send the leader's elements: the average is the mean of all p, there and nowhere else."""
    compressor, world = ScaleCom(chunk=25), 5
    gradients = [draw(1000, seed=s) for s in range(world)]
    average = exchange(compressor, gradients, [compressor.init((1000,)) for _ in range(world)], step=7)
    selected = largest_per_chunk(gradients[7 % world], 25)
    total = gradients[0].copy()
    for g in gradients[1:]:
        total += g
    expected = np.zeros(1000, F)
    expected[selected] = total[selected] / F(world)
    assert (average == expected).all() and np.count_nonzero(average) == 40


def test_every_learner_leads_in_turn(draw):
    ledger, compressor, world = TrafficLog(), ScaleCom(chunk=25), 3
    states = [compressor.init((1000,)) for _ in range(world)]
    for step in range(6):
        exchange(compressor, [draw(1000, seed=s) for s in range(world)], states, step=step, ledger=ledger)
    leaders = [e.rank for e in ledger.entries if e.kind == "broadcast"]
    assert leaders == [0, 1, 2, 0, 1, 2]


def test_what_a_learner_sends_does_not_grow_with_the_learners_but_the_union_of_top_k_does(draw):
    filled = {}
    for world in (2, 8, 32):
        gradients = [draw(5000, seed=s) for s in range(world)]
        for compressor in (ScaleCom(chunk=50), TopK(0.02)):
            average = exchange(compressor, gradients, [compressor.init((5000,)) for _ in range(world)])
            filled[type(compressor).__name__, world] = np.count_nonzero(average)
    assert filled["ScaleCom", 2] == filled["ScaleCom", 8] == filled["ScaleCom", 32] == 100
    assert filled["TopK", 2] < filled["TopK", 8] < filled["TopK", 32]
    assert filled["TopK", 32] > 10 * filled["ScaleCom", 32]


@pytest.mark.parametrize(
    ("numel", "chunk", "m"), [(1, 10, 1), (9, 10, 3), (10, 10, 2), (101, 10, 3), (1000, 256, 1), (1000, 257, 1)]
)
def test_indices_survive_the_wire(numel, chunk, m, draw):
    indices = largest_per_chunk(draw(numel), chunk, m)
    payload = encode_indices(indices, chunk)
    assert indices.size == index_count(numel, chunk, m)
    assert payload.size == ScaleCom(chunk=chunk, m=m).plan((numel,))[0].payload_bytes
    assert decode_indices(payload, numel, chunk, m).tolist() == indices.tolist()


@pytest.mark.parametrize(("payload", "m"), [([10, 0], 1), ([0, 5], 1), ([3, 3, 0], 2), ([4, 3, 0], 2)])
def test_damaged_indices(payload, m):
    """Outside the chunk, outside the last short chunk, twice the same, in the wrong order."""
    with pytest.raises(ValueError, match="damaged"):
        decode_indices(np.array(payload, np.uint8), 10 + (1 if m == 2 else 5), 10, m)


def test_ties_take_the_first():
    assert largest_per_chunk(np.array([2, -2, 1, 3, 3, 3], F), 3).tolist() == [0, 3]
    assert largest_per_chunk(np.array([1, 2, -2, 2], F), 4, 2).tolist() == [1, 2]


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("chunk", [1, 7, 500, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_blocks_that_fit_the_cache_change_nothing(chunk, m, draw):
    x = np.round(draw(2 * BLOCK + 123))  # with many ties
    indices = largest_per_chunk(x, chunk, m)
    parts = [range(first, min(first + chunk, x.size)) for first in range(0, x.size, chunk)]
    slow = [sorted(sorted(part, key=lambda i: (-abs(x[i]), i))[:m]) for part in parts]
    assert indices.tolist() == [i for part in slow for i in part]


def test_rounding_on_the_wire_stays_in_the_memory(draw):
    compressor = ScaleCom(chunk=10, wire="bf16")
    state, gradient = compressor.init((100,)), draw(100)
    average = exchange(compressor, [gradient], [state])
    state.commit()
    assert (average + state["residual"] == gradient).all()
    assert (state["residual"][average != 0] != 0).any()


@pytest.mark.parametrize("settings", [{"chunk": 0}, {"chunk": 2**16 + 1}, {"beta": 0.0}, {"beta": 1.5}, {"m": 0},
{"m": 9, "chunk": 8},
                                      {"wire": "fp8"}, {"small": "x"}])  # fmt: skip
def test_bad_settings(settings):
    with pytest.raises(ValueError):
        ScaleCom(**settings)


def test_a_layer_is_needed():
    with pytest.raises(ValueError, match="depends on the layer"):
        ScaleCom().plan((100,))


# ---- row T24 ----


def error(x, indices):
    """The share of the squared length that is remaining if these elements are sent."""
    return 1 - (x[indices] ** 2).sum() / (x**2).sum()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("likeness", [0.0, 1.0, 3.0])
def test_the_leaders_choice_contracts(likeness, seed, draw):
    """ρ ≤ d/k + (1 − d/k)·ρ₀: 2d is the Hamming distance of the leader's set and the best one, ρ₀ the best's error."""
    numel, k = 2000, 40
    mean = draw(numel, seed=seed)
    leader = likeness * mean + draw(numel, seed=seed + 100)
    best, selected = (np.argsort(-np.abs(x))[:k] for x in (mean, leader))
    d = k - np.intersect1d(best, selected).size
    bound = d / k + (1 - d / k) * error(mean, best)
    assert error(mean, best) <= error(mean, selected) <= bound + 1e-6
    assert likeness < 1 or d < k


# ---- the paper's rates, from the layer lists of the real networks by rule A8 ----


def conv(name, out, into, kernel, side, first=False):
    return LayerInfo(name, (out, into, kernel, kernel), "convolution", side * side, first)


def norm(name, channels):
    return LayerInfo(name, (2 * channels,), "small")


def resnet18():
    yield from (conv("conv1", 64, 3, 7, 112, first=True), norm("bn1", 64))
    into = 64
    for stage, (out, side) in enumerate(((64, 56), (128, 28), (256, 14), (512, 7))):
        for block in range(2):
            name = f"layer{stage}.{block}"
            yield from (conv(name + ".1", out, into, 3, side), norm(name + ".bn1", out))
            yield from (conv(name + ".2", out, out, 3, side), norm(name + ".bn2", out))
            if into != out:
                yield from (conv(name + ".down", out, into, 1, side), norm(name + ".bn3", out))
            into = out
    yield from (LayerInfo("fc", (1000, 512)), LayerInfo("fc.bias", (1000,), "small"))


def resnet50():
    yield from (conv("conv1", 64, 3, 7, 112, first=True), norm("bn1", 64))
    into, before = 64, 56
    for stage, (width, side, blocks) in enumerate(((64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3))):
        for block in range(blocks):
            name, entry = f"layer{stage}.{block}", before if block == 0 else side
            yield from (conv(name + ".1", width, into, 1, entry), norm(name + ".bn1", width))
            yield from (conv(name + ".2", width, width, 3, side), norm(name + ".bn2", width))
            yield from (conv(name + ".3", 4 * width, width, 1, side), norm(name + ".bn3", 4 * width))
            if block == 0:
                yield from (conv(name + ".down", 4 * width, into, 1, side), norm(name + ".bn4", 4 * width))
            into = 4 * width
        before = side
    yield from (LayerInfo("fc", (1000, 2048)), LayerInfo("fc.bias", (1000,), "small"))


def mobilenet_v2():
    yield from (conv("first", 32, 3, 3, 112, first=True), norm("bn", 32))
    into, side = 32, 112
    for factor, out, blocks, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            name, wide = f"{out}.{block}", into * factor
            if factor != 1:
                yield from (conv(name + ".expand", wide, into, 1, side), norm(name + ".bn1", wide))
            side = side // stride if block == 0 else side
            yield from (conv(name + ".depthwise", wide, 1, 3, side), norm(name + ".bn2", wide))
            yield from (conv(name + ".project", out, wide, 1, side), norm(name + ".bn3", out))
            into = out
    yield from (conv("last", 1280, 320, 1, 7), norm("bn_last", 1280))
    yield from (LayerInfo("fc", (1000, 1280)), LayerInfo("fc.bias", (1000,), "small"))


@pytest.mark.parametrize(("layers", "parameters", "published", "tolerance"), [
    (resnet18, 11_689_512, 112, 0.05), (resnet50, 25_557_032, 96, 0.03), (mobilenet_v2, 3_504_872, 155, 0.03),
])  # fmt: skip
def test_the_papers_rates_from_real_layer_lists(layers, parameters, published, tolerance):
    """Rows T14, T15, T16: elements over elements sent; the first convolution dense, normalization and biases at 25."""
    layers = list(layers())
    assert sum(layer.numel for layer in layers) == parameters
    sent = sum(layer.numel if layer.first else layer.numel / chunk_for(layer) for layer in layers)
    assert abs(parameters / sent / published - 1) < tolerance


def test_the_first_layer_and_small_ones_go_dense():
    first = conv("conv1", 64, 3, 7, 112, first=True)
    assert ScaleCom().for_layer(first) == Dense()
    assert ScaleCom(chunk=77).for_layer(first).chunk == 77
    assert ScaleCom().for_layer(LayerInfo("bias", (2048,), "small")) == Dense()
    assert ScaleCom(small="compressed").for_layer(LayerInfo("bias", (2048,), "small")).chunk == 25
    assert ScaleCom(chunk=77).for_layer(LayerInfo("fc", (64, 64))).chunk == 77


@pytest.mark.parametrize("wire", ["fp32", "bf16"])
def test_compiled_loops_and_arrays_have_the_same_bits(wire, draw, monkeypatch):
    pytest.importorskip("numba")
    compressor, shape = ScaleCom(chunk=50, beta=0.3, wire=wire), (200, 301)  # large enough for compiled loops
    results = []
    for no_numba in ("", "1"):
        monkeypatch.setattr(kernel_selection, "loops_are_on", kernel_selection.available() and no_numba != "1")
        states = [compressor.init(shape) for _ in range(2)]
        for step in range(3):
            gradients = [draw(shape, seed=10 * step + rank) for rank in range(2)]
            average = exchange(compressor, gradients, states, step=step)
            for state in states:
                state.commit()
        results.append([average.tobytes(), *(state["residual"].tobytes() for state in states)])
    assert results[0] == results[1]


@pytest.mark.parametrize("no_numba", ["", "1"])
@pytest.mark.parametrize("shape", [(3, 5), (200, 301)])
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_states_in_the_memory_of_the_gradients_have_the_same_bits(beta, shape, no_numba, draw, monkeypatch):
    monkeypatch.setattr(kernel_selection, "loops_are_on", kernel_selection.available() and no_numba != "1")
    compressor, results = ScaleCom(chunk=5, beta=beta), []
    for overwrite in (False, True):
        states = [compressor.init(shape) for _ in range(3)]
        for step in range(4):
            gradients = [draw(shape, seed=10 * step + rank) for rank in range(3)]
            average = exchange(compressor, gradients, states, step=step, overwrite=overwrite)
            for state in states:
                state.commit()
            kept = [np.shares_memory(g, s["residual"]) for g, s in zip(gradients, states, strict=True)]
            assert kept == [overwrite] * 3
        results.append([average.tobytes(), *(state["residual"].tobytes() for state in states)])
    assert results[0] == results[1]


@pytest.mark.parametrize("no_numba", ["", "1"])
@pytest.mark.parametrize("size", [5, 40_000])
def test_one_value_that_is_not_finite_is_found_wherever_it_is(size, no_numba, monkeypatch):
    monkeypatch.setattr(kernel_selection, "loops_are_on", kernel_selection.available() and no_numba != "1")
    x, total = np.full(size, -3e38, F), np.empty(size, F)
    with np.errstate(over="ignore"):
        assert is_finite(x) and not add_finite(x.copy(), x, total) and np.isinf(total).all(), "the sum overflows"
        assert not add_finite(x.copy(), overflowing := x.copy(), overflowing)
    for at in (0, size // 2, size - 1):
        for bad in (np.nan, -np.nan, np.inf, -np.inf):
            x[at] = bad
            in_place = x.copy()
            assert not is_finite(x) and not add_finite(np.zeros(size, F), x, total)
            assert not add_finite(np.zeros(size, F), in_place, in_place)
        x[at] = 0
    assert is_finite(np.empty(0, F))


@pytest.mark.parametrize("size", [100, 40_000])
def test_a_gradient_that_is_not_finite_leaves_the_residual(size):
    compressor = ScaleCom(chunk=10)
    state = compressor.init((size,))
    exchange(compressor, [np.ones(size, F)], [state])
    state.commit()
    before, bad = state["residual"].copy(), np.ones(size, F)
    bad[-1] = np.nan
    with pytest.raises(NotFiniteError, match="NaN or infinity"):
        exchange(compressor, [bad], [state], step=1)
    state.rollback()
    assert (state["residual"] == before).all() and before.any()
