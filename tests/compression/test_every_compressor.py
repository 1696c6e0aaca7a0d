"""Properties of all compressors: the protocol, the bytes, the residual, damaged messages."""

from dataclasses import replace

import numpy as np
import pytest

from lplab import compression as C
from lplab.compression.lockstep import LayerRuns, collective_result, payload_bytes, results_here, run_in_lockstep

ALL = {
    "dense": C.Dense(),
    "fp16": C.Dense("fp16"),
    "bf16": C.Dense("bf16"),
    "adacomp_50": C.AdaComp(bin=50),
    "adacomp_500": C.AdaComp(bin=500),
    "adacomp_variants": C.AdaComp(bin=64, sign_of="H", scale_over="nonzero", always_one=True, scale_factor=1.5),
    "adacomp_unguarded": C.AdaComp(bin=50, zero_bins="all"),
    "scalecom": C.ScaleCom(chunk=100),
    "scalecom_beta": C.ScaleCom(chunk=100, beta=0.3),
    "scalecom_m2_fp16": C.ScaleCom(chunk=300, m=2, wire="fp16"),
    "topk": C.TopK(0.01),
    "topk_without": C.TopK(0.01, error_feedback=False),
    "randomk": C.RandomK(0.05),
    "dgc": C.DGC(0.01, warm_up=(0.25, 0.0625), clip=5.0),
    "one_bit": C.OneBit(),
    "ef_sign": C.EFSign(),
    "signsgd": C.SignSGD(),
    "signum": C.SignSGD(momentum=0.9, ties="positive"),
    "terngrad": C.TernGrad(),
    "qsgd": C.QSGD(levels=7, bucket=128),
    "powersgd": C.PowerSGD(rank=2),
    "zlib": C.Lossless("zlib"),
    "zstd": C.Lossless("zstd"),
    "lz4": C.Lossless("lz4", shuffle=False),
    "sparseloco": C.SparseLoCo(k=40, decay=1.0),
    "sparseloco_learners": C.SparseLoCo(chunk=1681, k=25, bits=3, decay=1.0, mean="learners"),
    "demo": C.DeMo(k=40),
    "e3m0": C.LowBit("e3m0"),
    "int8": C.LowBit("int8"),
    "large_only": C.DenseIfSmall(C.TopK(0.01)),
    "warm_up": C.WarmUp(C.ScaleCom(chunk=100), dense_steps=1),
    "momentum": C.LocalMomentum(C.ScaleCom(chunk=100)),
}
FORGETS = (
    *("fp16", "bf16", "scalecom_beta", "topk_without", "dgc", "terngrad", "qsgd", "signsgd", "signum", "momentum"),
    *("sparseloco", "demo", "e3m0", "int8"),  # the first two average over senders, so that n times it is not their sum
)
LOSES_NOTHING = tuple(name for name in ALL if name not in FORGETS)
SHAPE = (37, 41)


def learners(compressor, shape, draw, world, steps=3, ledger=None):
    """Run some steps; yields (gradients, average, states) after each commit."""
    states = [compressor.init(shape) for _ in range(world)]
    for step in range(steps):
        gradients = [draw(shape, seed=100 * step + rank) for rank in range(world)]
        average = C.exchange(compressor, gradients, states, step=step, layer="w", ledger=ledger)
        for state in states:
            state.commit()
        yield gradients, average, states


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("name", ALL)
def test_an_average_has_the_shape_of_the_gradient(name, world, draw):
    for _, average, _ in learners(ALL[name], SHAPE, draw, world):
        assert average.shape == SHAPE and average.dtype == np.float32 and np.isfinite(average).all()


@pytest.mark.parametrize("name", ALL)
def test_the_gradient_is_not_changed(name, draw):
    compressor, gradient = ALL[name], draw(SHAPE)
    before = gradient.copy()
    C.exchange(compressor, [gradient, gradient], [compressor.init(SHAPE) for _ in range(2)])
    assert (gradient == before).all()


@pytest.mark.parametrize("name", LOSES_NOTHING)
def test_what_is_sent_and_what_stays_behind_are_all_there_was(name, draw):
    """Sum of averages · n + residuals = sum of gradients, up to the rounding of float32."""
    sent, given, world = np.zeros(SHAPE), np.zeros(SHAPE), 3
    for gradients, average, states in learners(ALL[name], SHAPE, draw, world, steps=5):  # noqa: B007
        sent += world * average.astype(np.float64)
        given += sum(g.astype(np.float64) for g in gradients)
    remaining = sum(s["residual"].astype(np.float64) for s in states if "residual" in s)
    missing = sent + np.reshape(remaining, SHAPE if np.ndim(remaining) else ()) - given
    assert np.abs(missing).max() < 1e-4 * np.abs(given).max()


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_remembered_before_commit(name, draw):
    compressor = ALL[name]
    state = compressor.init(SHAPE)
    before = {key: array.copy() for key, array in state.arrays().items()}
    C.exchange(compressor, [draw(SHAPE)], [state], step=5)
    state.rollback()
    state.commit()
    assert all((state[key] == array).all() for key, array in before.items())


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_bits_in_a_second_run(name, draw):
    runs = [[a.tobytes() for _, a, _ in learners(ALL[name], SHAPE, draw, 2)] for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("name", ALL)
def test_any_shape(name, draw):
    for shape in [(1,), (7,), (50,), (51,), (3, 17), (2, 3, 5, 5), (1000,)]:
        for _, average, _ in learners(ALL[name], shape, draw, 2, steps=2):
            assert average.shape == shape


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("signsgd", "signum")])  # their bit has no third value
def test_zeros_stay_zeros(name):
    zeros = np.zeros(SHAPE, np.float32)
    states = [ALL[name].init(SHAPE) for _ in range(2)]
    average = C.exchange(ALL[name], [zeros, zeros], states, step=3)
    assert not average.any()


SIZES = (1.0, 3e38, 2e38, 3e38, 1.0)  # of the gradients in five steps; two learners' sums of the large ones overflow


def overflowing(shape, step, rank, draw):
    """Gradients that are finite, and whose sums with residuals or other learners' may not be."""
    signs = np.sign(draw(shape, seed=step)) if rank else np.ones(shape, np.float32)
    return np.float32(SIZES[step]) * signs


@pytest.mark.parametrize("name", ALL)
def test_what_overflows_on_the_way_is_refused_and_leaves_no_trace(name, draw):
    compressor = ALL[name]
    states, refused = [compressor.init(SHAPE) for _ in range(2)], []
    for step in range(len(SIZES)):
        before = [state.arrays() for state in states]
        try:
            average = C.exchange(compressor, [overflowing(SHAPE, step, r, draw) for r in (0, 1)], states, step=step)
        except C.NotFiniteError:
            refused.append(step)
            for state in states:
                state.rollback()
        else:
            assert np.isfinite(average).all()
            for state in states:
                state.commit()
        for state, arrays in zip(states, before, strict=True):
            assert all(np.isfinite(array).all() for array in state.arrays().values())
            assert step not in refused or all((state[key] == array).all() for key, array in arrays.items())
    assert refused or name in ("fp16", "dgc", "signsgd", "signum")  # which clip what they send, or send signs
    assert len(refused) < len(SIZES) and 0 not in refused


BAD = [
    (np.full(SHAPE, np.nan, np.float32), "NaN or infinity"),
    (np.zeros(SHAPE), "float32"),
    (np.zeros((3, 3), np.float32), "shape"),
]


@pytest.mark.parametrize("name", ALL)
def test_bad_gradients_are_refused_before_anything_is_sent(name):
    for bad, message in BAD:
        with pytest.raises(ValueError, match=message):
            C.exchange(ALL[name], [bad], [ALL[name].init(SHAPE)], step=3)


@pytest.mark.parametrize("name", [n for n in ALL if "adacomp" not in n and n not in ("zlib", "zstd", "lz4")])
def test_the_plan_is_the_ledger(name, draw):
    ledger = C.TrafficLog()
    world, steps = 3, 3
    list(learners(ALL[name], SHAPE, draw, world, steps, ledger))
    last = [e for e in ledger.entries if e.step == steps - 1]
    plan = ALL[name].plan(SHAPE)
    assert {e.kind for e in last} == {t.kind for t in plan}
    by_hand = sum(t.payload_bytes * (1 if t.kind == "broadcast" else world) for t in plan)
    assert sum(e.payload_bytes for e in last) == by_hand


@pytest.mark.parametrize(
    "name", [n for n, c in ALL.items() if n not in ("dense", "fp16", "bf16", "randomk", "powersgd")]
)
def test_truncated_and_damaged_messages_are_refused(name, draw):
    compressor = ALL[name]
    run = compressor.steps(draw(SHAPE), compressor.init(SHAPE), C.Context(step=3))
    request = run.send(None)
    payload = request.payload
    assert payload.size == payload_bytes(request)
    for damaged in (payload[:-1], payload[: len(payload) // 2], payload[:0], np.append(payload, np.uint8(0))):
        with pytest.raises(ValueError):
            collective_result([replace(request, payload=damaged)])


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("dense", "fp16", "bf16", "randomk", "powersgd")])
def test_noise_is_refused_or_read_but_never_a_crash(name):
    compressor, rng = ALL[name], np.random.default_rng(0)
    gradient = np.ones(SHAPE, np.float32)
    for _ in range(50):
        run = compressor.steps(gradient, compressor.init(SHAPE), C.Context(step=3))
        request = run.send(None)
        noise = request.payload.copy()
        hit = rng.integers(0, noise.size, 5)
        noise[hit] = rng.integers(0, 256, 5)
        try:
            result = collective_result([replace(request, payload=noise)])
        except ValueError:
            continue
        assert isinstance(result, np.ndarray) and result.size


def test_learners_that_disagree_are_told():
    runs = [C.Dense().steps(np.ones(3, np.float32), C.Dense().init((3,)), C.Context(0, 2)),
            C.EFSign().steps(np.ones(3, np.float32), C.EFSign().init((3,)), C.Context(1, 2))]  # fmt: skip
    with pytest.raises(RuntimeError, match="different collectives: AllGather, AllReduce"):
        run_in_lockstep([LayerRuns(C.Context(0, 2), runs.__getitem__, 2)], results_here)


def test_learners_that_disagree_with_the_leaders_broadcast_are_told():
    shape, ones = (1000,), np.ones(1000, np.float32)
    leading = C.ScaleCom(chunk=100)
    for other, message in ((C.Dense(), "AllReduce, Broadcast"), (C.ScaleCom(chunk=100), None)):
        runs = [c.steps(ones, c.init(shape), C.Context(rank, 2)) for rank, c in enumerate((leading, other))]
        layer = LayerRuns(C.Context(0, 2), runs.__getitem__, 2, leading=range(1))
        if message is None:
            assert (run_in_lockstep([layer], results_here)[0][::100] == 1).all()
        else:
            with pytest.raises(RuntimeError, match=f"different collectives: {message}"):
                run_in_lockstep([layer], results_here)


def test_one_state_for_each_gradient():
    with pytest.raises(ValueError, match="one state for each gradient"):
        C.exchange(C.Dense(), [np.ones(3, np.float32)], [])
