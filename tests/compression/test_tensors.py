"""The steps with the operations of PyTorch against those with numpy's: messages, averages, states, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from lplab import compression as C  # noqa: E402
from lplab.compression import arrays  # noqa: E402
from lplab.compression import tensors as of_tensors  # noqa: E402
from lplab.compression.lockstep import collective_result, payload_bytes, steps_of  # noqa: E402
from lplab.compression.tensors import operations, tensor_state, tensor_steps  # noqa: E402
from tests.compression.test_every_compressor import ALL, SHAPE, SIZES, overflowing  # noqa: E402

CUDA = pytest.param("cuda", marks=pytest.mark.cuda)
PRODUCTS = ("powersgd", "demo")  # no product of matrices promises its bits on CUDA
EXACT_ON_CUDA = tuple(name for name in ALL if name not in PRODUCTS)


@pytest.fixture(autouse=True)
def shared(monkeypatch):
    """The devices whose tensors are taken for arrays: none, so that operations of PyTorch run on the CPU, too."""
    devices = set()
    monkeypatch.setattr(of_tensors, "SHARED", devices)
    return devices


def bits(array):
    """The bytes of an array or a tensor."""
    return (array if isinstance(array, np.ndarray) else array.cpu().numpy()).tobytes()


def content(request):
    """What a request sends, as bytes."""
    sent = request.values if isinstance(request, C.AllReduce) else request.payload
    return None if sent is None else bits(sent)


def in_lockstep(runs, twins):
    """Run generators with arrays and their twins with tensors; compare all requests; return both averages."""
    result = other = None
    while True:
        requests, counterparts, averages = [], [], []
        for run, twin in zip(runs, twins, strict=True):
            try:
                requests.append(run.send(result))
            except StopIteration as stop:
                with pytest.raises(StopIteration) as twin_stop:
                    twin.send(other)
                averages.append((stop.value, twin_stop.value.value))
            else:
                counterparts.append(twin.send(other))
        if averages:
            return averages[0]
        for request, counterpart in zip(requests, counterparts, strict=True):
            assert type(request) is type(counterpart)
            assert content(request) == content(counterpart)
            assert payload_bytes(request) == payload_bytes(counterpart)
        result, other = collective_result(requests), collective_result(counterparts)


def compare(compressor, gradients, device):
    """Some steps on both paths; ``gradients``: float32 [steps, world, *shape]."""
    world, shape = gradients.shape[1], gradients.shape[2:]
    states = [compressor.init(shape) for _ in range(world)]
    twins = [tensor_state(compressor, shape, device) for _ in range(world)]
    for step, of_ranks in enumerate(gradients):
        contexts = [C.Context(rank, world, step, "w") for rank in range(world)]
        tensors = [torch.from_numpy(g.copy()).to(device) for g in of_ranks]
        average, twin = in_lockstep(
            [compressor.steps(g, s, c) for g, s, c in zip(of_ranks, states, contexts, strict=True)],
            [tensor_steps(compressor, g, s, c) for g, s, c in zip(tensors, twins, contexts, strict=True)],
        )
        assert twin.shape == shape and twin.device.type == device and twin.dtype == torch.float32
        assert bits(average) == bits(twin)
        assert all(bits(t) == bits(g) for t, g in zip(tensors, of_ranks, strict=True)), "the gradient has changed"
        for state, tensor in zip(states, twins, strict=True):
            state.commit()
            tensor.commit()
            assert {n: bits(a) for n, a in state.arrays().items()} == {n: bits(a) for n, a in tensor.arrays().items()}


# ---- the compressors of the other tests ------------------------------------------------------------------------------


def several(draw, shape, world, steps=3):
    return np.stack([[draw(shape, seed=10 * step + rank) for rank in range(world)] for step in range(steps)])


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("name", ALL)
def test_tensors_have_the_bits_of_arrays(name, world, draw):
    compare(ALL[name], several(draw, SHAPE, world), "cpu")


@pytest.mark.parametrize("name", ALL)
def test_tensors_that_are_taken_for_arrays_have_their_bits(name, draw, shared):
    shared.add("cpu")
    compare(ALL[name], several(draw, SHAPE, world=3), "cpu")


@pytest.mark.parametrize("name", [name for name, compressor in ALL.items() if compressor.takes_tensors])
def test_no_gradient_passes_through_the_host(name, draw, monkeypatch):
    """Except the small factor that PowerSGD makes orthonormal there, and sums that could round either way."""
    sizes, shape = [], (3, 4000)

    def recorded(to_host):
        return lambda x, *options: (sizes.append(x.numel()), to_host(x, *options))[1]

    for call in ("cpu", "numpy", "tolist"):
        monkeypatch.setattr(torch.Tensor, call, recorded(getattr(torch.Tensor, call)))
    states = [tensor_state(ALL[name], shape, "cpu") for _ in range(2)]
    monkeypatch.setattr(operations, "product", torch.matmul)  # on a CPU it is numpy's
    for step in range(2):
        C.exchange(ALL[name], [torch.from_numpy(draw(shape, seed=rank)) for rank in range(2)], states, step=step)
        for state in states:
            state.commit()
    assert max(sizes, default=0) <= (2 * 3 if name == "powersgd" else 0)


@pytest.mark.parametrize("name", ALL)
def test_any_shape(name, draw):
    for shape in [(1,), (7,), (51,), (3, 17), (2, 3, 5, 5), (1000,)]:
        compare(ALL[name], several(draw, shape, world=2, steps=2), "cpu")


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("name", EXACT_ON_CUDA)
def test_the_same_steps_overflow(name, device, draw):
    compressor, outcomes = ALL[name], []
    for tensors in (False, True):
        states = [tensor_state(compressor, SHAPE, device) if tensors else compressor.init(SHAPE) for _ in range(2)]
        for step in range(len(SIZES)):
            gradients = [overflowing(SHAPE, step, rank, draw) for rank in (0, 1)]
            if tensors:
                gradients = [torch.from_numpy(gradient).to(device) for gradient in gradients]
            try:
                outcomes.append(bits(C.exchange(compressor, gradients, states, step=step)))
            except C.NotFiniteError:
                outcomes.append(None)
            for state in states:
                state.commit() if outcomes[-1] else state.rollback()
    assert outcomes[: len(SIZES)] == outcomes[len(SIZES) :]


@pytest.mark.cuda
@pytest.mark.parametrize("name", EXACT_ON_CUDA)
def test_cuda_has_the_bits_of_arrays(name, draw):
    for shape in (SHAPE, (300, 1000)):
        compare(ALL[name], several(draw, shape, world=3), "cuda")


@pytest.mark.cuda
def test_powersgd_on_cuda_is_near(draw):
    compressor, gradients = C.PowerSGD(2), several(draw, SHAPE, world=2, steps=1)[0]
    average = C.exchange(compressor, list(gradients), [compressor.init(SHAPE) for _ in range(2)])
    tensors = [torch.from_numpy(g).to("cuda") for g in gradients]
    twin = C.exchange(compressor, tensors, [tensor_state(compressor, SHAPE, "cuda") for _ in range(2)])
    np.testing.assert_allclose(twin.cpu().numpy(), average, rtol=1e-3, atol=1e-4 * np.abs(average).max())


# ---- every setting ---------------------------------------------------------------------------------------------------

WIRE = st.sampled_from(["fp32", "fp16", "bf16"])
DENSITY = st.floats(0.001, 1)
SETTINGS = st.one_of(
    st.builds(C.Dense, WIRE),
    st.builds(
        C.AdaComp,
        bin=st.sampled_from([1, 2, 7, 50, 63, 64, 500]),
        scale_factor=st.floats(1, 5),
        sign_of=st.sampled_from("GH"),
        scale_over=st.sampled_from(["all", "nonzero"]),
        always_one=st.booleans(),
        zero_bins=st.sampled_from(["nothing", "all"]),
    ),
    st.builds(
        C.ScaleCom, chunk=st.sampled_from([4, 50, 256, 257]), beta=st.floats(0.01, 1), m=st.integers(1, 4), wire=WIRE
    ),
    st.builds(C.TopK, DENSITY, st.booleans(), WIRE),
    st.builds(C.RandomK, DENSITY, st.booleans(), WIRE),
    st.builds(
        C.DGC,
        DENSITY,
        momentum=st.floats(0, 0.99),
        warm_up=st.sampled_from([(), (0.25,)]),
        masking=st.booleans(),
        nesterov=st.booleans(),
        clip=st.sampled_from([None, 1e-3, 1.0, 100.0]),
        wire=WIRE,
    ),
    st.builds(C.OneBit),
    st.builds(C.EFSign, st.booleans()),
    st.builds(C.SignSGD, st.floats(0, 0.99), st.sampled_from(["zero", "positive"])),
    st.builds(C.TernGrad, st.sampled_from([None, 0.5, 2.5])),
    st.builds(C.QSGD, st.integers(1, 255), st.integers(1, 600)),
    st.builds(C.PowerSGD, st.integers(1, 3), st.booleans(), st.booleans()),
    st.builds(C.Lossless, st.just("zlib")),
    st.builds(
        C.SparseLoCo,
        chunk=st.sampled_from([4, 25, 64, 4096]),
        k=st.integers(1, 4),
        bits=st.integers(1, 4),
        decay=st.floats(0, 1),
        mean=st.sampled_from(["senders", "learners"]),
    ),
    st.builds(C.DeMo, chunk=st.sampled_from([4, 25, 64]), k=st.integers(1, 4), decay=st.floats(0, 0.999), wire=WIRE),
    st.builds(C.LowBit, st.sampled_from(["e3m0", "e2m1", "int4", "e4m3fn", "e5m2", "int8"])),
)
WRAPPED = st.one_of(
    SETTINGS, st.builds(C.WarmUp, SETTINGS, dense_steps=st.integers(0, 1)), st.builds(C.DenseIfSmall, SETTINGS)
)
SPECIAL = np.array([0, -0.0, 1, -1, 2, 1e-45, -1e-40, 65504, 7e4, 1e18, 2**-14], np.float32)


@st.composite
def drawn_gradients(draw):
    """float32 [steps, world, *shape]: noise of some range of magnitudes, ties, zeros of both signs, subnormals."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.sampled_from([(1,), (5,), (64,), (201,), (13, 40), (20, 60), (4, 3, 3, 3)]))
    shape = (2, draw(st.integers(1, 3)), *shape)
    noise = rng.standard_normal(shape) * np.exp(draw(st.floats(0, 6)) * rng.standard_normal(shape))
    levels = draw(st.sampled_from([0, 1, 8]))  # few levels: many equal magnitudes
    noise = np.rint(noise * levels) / levels if levels else noise
    special = rng.random(shape) < draw(st.sampled_from([0, 0.1, 0.9, 1]))
    return np.where(special, rng.choice(SPECIAL, shape), noise).astype(np.float32)


@settings(max_examples=300)
@given(WRAPPED, drawn_gradients())
def test_every_setting_has_the_bits_of_arrays(compressor, gradients):
    compare(compressor, gradients, "cpu")


@pytest.mark.cuda
@settings(max_examples=300)
@given(SETTINGS.filter(lambda compressor: not isinstance(compressor, C.PowerSGD | C.DeMo)), drawn_gradients())
def test_every_setting_has_the_bits_of_arrays_on_cuda(compressor, gradients):
    compare(compressor, gradients, "cuda")


# ---- operations ------------------------------------------------------------------------------------------------------


def test_both_modules_have_the_same_operations():
    """What a compressor may call through ``arrays.of`` is there for arrays and for tensors."""
    here, there = (
        {name for name, value in vars(module).items() if callable(value) and name.islower() and name[0] != "_"}
        for module in (arrays, operations)
    )
    assert here - {"of", "single"} == there - {"pad"}


@pytest.mark.parametrize("width", [1, 2, 4])
def test_operations_on_tensors_have_the_results_of_those_on_arrays(width, draw):
    """Those that are not in the steps of every compressor, and what their empty results are."""
    x, counts = draw((101,)), np.array([3, 0, 1, 0, 0, 2, 255])
    places = np.array([0, 0, 3, 7])
    for call in (
        lambda xp, x, counts, places: xp.insert(counts, places, 9),
        lambda xp, x, counts, places: xp.insert(counts, places[:0], 9),
        lambda xp, x, counts, places: xp.bincount(counts[:6], 5),
        lambda xp, x, counts, places: xp.unsigned_bytes(counts, width),
        lambda xp, x, counts, places: xp.unsigned(xp.unsigned_bytes(counts, width), width),
        lambda xp, x, counts, places: xp.rows(x, 10, -1),
        lambda xp, x, counts, places: xp.bin_maxima(x, 7),
        lambda xp, x, counts, places: xp.pack_bits(x > 0),
        lambda xp, x, counts, places: xp.unpack_bits(xp.pack_bits(x > 0)),
        lambda xp, x, counts, places: xp.take_sent(x, places[1:]) + x[places[1:]],
        lambda xp, x, counts, places: xp.rounded_bucket_sums(xp.cast(x, "float64") ** 2, 9, xp.sqrt)[:0],
    ):
        found = call(arrays, x.copy(), counts, places)
        twin = call(operations, *(torch.from_numpy(array.copy()) for array in (x, counts, places)))
        assert bits(found) == bits(twin) and arrays.dtype_name(found) == operations.dtype_name(twin)


# ---- sums ------------------------------------------------------------------------------------------------------------


def test_a_sum_that_could_round_either_way_is_the_references():
    """The sum lies within 2⁻⁵³ of the middle between two float32 numbers: no order of additions may decide."""
    x = torch.tensor([1.0, 2.0**-24])
    asked = []

    def add(rows, numbers):
        asked.append(rows.tolist())
        return np.full(len(numbers), 7.0)

    assert operations._certain(x, torch.Tensor.float, add) == 7 and len(asked) == 1
    assert operations._certain(x * 2, torch.Tensor.float, add) == 7 and len(asked) == 2
    assert operations._certain(torch.ones(1000), torch.Tensor.float, add) == 1000 and len(asked) == 2
    rows = torch.stack([torch.ones(2), x, torch.zeros(2)])
    assert operations._certain(rows, torch.Tensor.float, add).tolist() == [2, 7, 0]
    assert asked[2] == [x.tolist()], "only the uncertain sum is added on the host"


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("name", ["adacomp_50", "one_bit", "ef_sign", "qsgd"])
def test_the_reference_gives_the_same_when_it_is_asked(name, device, draw, monkeypatch):
    """As if every sum were uncertain."""
    monkeypatch.setattr(operations.torch, "equal", lambda low, high: False)
    monkeypatch.setattr(operations.Tensor, "ne", lambda low, high: torch.ones_like(low, dtype=torch.bool))
    compare(ALL[name], several(draw, SHAPE, world=2, steps=2), device)


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("name", ALL)
def test_bad_gradients_are_refused_before_anything_is_sent(name, device):
    bad = [
        (torch.full(SHAPE, np.nan), "NaN or infinity"),
        (torch.full(SHAPE, -np.inf), "NaN or infinity"),
        (torch.zeros(SHAPE, dtype=torch.float64), "float32, got float64"),
        (torch.zeros(3, 3), r"shape \(3, 3\), its state \(37, 41\)"),
    ]
    for gradient, message in bad:
        state = tensor_state(ALL[name], SHAPE, device)
        with pytest.raises(ValueError, match=message):
            C.exchange(ALL[name], [gradient.to(device)], [state], step=3)


MESSAGES = [n for n in ALL if n not in ("dense", "fp16", "bf16", "randomk", "powersgd", "zlib", "zstd", "lz4")]


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("name", MESSAGES)
def test_damaged_messages_are_refused_in_the_words_of_the_reference(name, device, draw):
    """Cut, lengthened and with bytes of noise: both decoders refuse the same messages, or read the same values."""
    compressor, rng, refused = ALL[name], np.random.default_rng(0), 0
    for trial in range(40):
        gradient, context = draw(SHAPE, seed=trial), C.Context(step=3)
        runs = [
            steps_of(compressor, gradient, compressor.init(SHAPE), context),
            steps_of(
                compressor, torch.from_numpy(gradient).to(device), tensor_state(compressor, SHAPE, device), context
            ),
        ]
        requests = [run.send(None) for run in runs]
        noise = requests[0].payload.copy()
        hit = rng.integers(0, noise.size, rng.integers(0, 3))
        noise[hit] = rng.integers(0, 256, hit.size)
        cuts = [noise[:-1], noise[: len(noise) // 2], noise[:0], np.append(noise, np.uint8(0))]
        noise = cuts[trial] if trial < len(cuts) else noise
        outcomes = []
        for request, payload in zip(requests, (noise, torch.from_numpy(noise.copy()).to(device)), strict=True):
            try:
                outcomes.append(bits(collective_result([replace(request, payload=payload)])))
            except ValueError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        refused += isinstance(outcomes[0], str)
    assert refused >= 4


def test_a_class_derived_from_a_compressor_runs_on_the_host(draw):
    """It may override a part of the steps by one that takes arrays alone."""

    class Doubled(C.AdaComp):
        def _select(self, gradient, state, context):
            return super()._select(2 * gradient, state, context)

    assert C.AdaComp.takes_tensors and not Doubled.takes_tensors
    compare(Doubled(bin=50), several(draw, SHAPE, world=2), "cpu")


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_a_state_of_tensors_keeps_its_promises(device):
    """As LayerState: proposals, a blank for the next one, arrays of a checkpoint."""
    state = tensor_state(C.EFSign(), (2,), device)
    one, two = (torch.full((2,), value, device=device) for value in (1.0, 2.0))
    state.propose(residual=one)
    assert state["residual"].tolist() == [0, 0]
    state.commit()
    state.propose(residual=two)
    state.commit()
    assert state.blank("residual").data_ptr() == one.data_ptr()
    state.load({"residual": np.array([3, 4], np.float32)})
    assert state["residual"].tolist() == [3, 4] and state["residual"].device.type == device
    with pytest.raises(ValueError, match=r"float64 \(2,\), this state float32"):
        state.load({"residual": np.zeros(2)})
