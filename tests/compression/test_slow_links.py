"""SparseLoCo, DeMo and outer gradients of few bits, against emulations that take one element at a time."""

import math

import numpy as np
import pytest

from lplab import compression as C
from lplab.compression.demo import cosines, from_coefficients, to_coefficients
from lplab.compression.low_bit import E3M0, FORMATS
from lplab.compression.sparseloco import into_bins
from lplab.compression.square_chunks import ChunkGrid

F = np.float32


def blocks(matrix, side):
    """The chunks of a matrix as slices, left to right and then down, by trial division."""
    height, width = (max(d for d in range(1, min(n, side) + 1) if n % d == 0) for n in matrix.shape)
    for top in range(0, matrix.shape[0], height):
        for left in range(0, matrix.shape[1], width):
            yield slice(top, top + height), slice(left, left + width)


def chosen(block, k):
    """The places of the k largest magnitudes of a block, in the order of rows; of equal ones the first."""
    order = sorted(np.ndindex(block.shape), key=lambda place: (-abs(block[place]), place))
    return sorted(order[:k])


# ---- SparseLoCo ------------------------------------------------------------------------------------------------------


def rounded(values, bits):
    """What is sent for some values: float64, from the formulas of the table."""
    bins, mean = 2**bits, math.fsum(values) / len(values)
    variance = math.fsum((v - mean) ** 2 for v in values) / max(len(values) - 1, 1)
    step = 6 * math.sqrt(variance) / bins or 1.0
    codes = [min(max(round((v - mean) / step + bins / 2), 0), bins - 1) for v in values]
    return [math.fsum(w for w, c in zip(values, codes, strict=True) if c == code) / codes.count(code) for code in codes]


class OneLearner:
    """A learner of SparseLoCo in float64."""

    def __init__(self, shape):
        self.error = np.zeros(shape)

    def send(self, delta, side=64, k=64, bits=2, decay=0.95):
        self.error = decay * self.error + delta
        places = []
        for rows, columns in blocks(self.error, side):
            inside = chosen(self.error[rows, columns], k)
            places += [(rows.start + row, columns.start + column) for row, column in inside]
        values = rounded([self.error[place] for place in places], bits)
        sent = dict(zip(places, values, strict=True))
        for place, value in sent.items():
            self.error[place] -= value
        return sent


@pytest.mark.parametrize(
    ("shape", "settings"),
    [((128, 64), {}), ((48, 100), {"k": 9, "decay": 1.0}), ((40, 67), {"k": 5, "bits": 3}), ((12, 30), {"decay": 0.0})],
)
def test_sparseloco_is_that_of_the_paper(shape, settings, draw):
    """Three learners and three rounds: what is applied and what stays behind."""
    compressor, learners = C.SparseLoCo(**settings), [OneLearner(shape) for _ in range(3)]
    states = [compressor.init(shape) for _ in learners]
    for number in range(3):
        deltas = [draw(shape, seed=10 * number + rank) for rank in range(3)]
        messages = [learner.send(delta, **settings) for learner, delta in zip(learners, deltas, strict=True)]
        expected = np.zeros(shape)
        for place in np.ndindex(shape):
            values = [message[place] for message in messages if place in message]
            expected[place] = np.mean(values) if values else 0
        average = C.exchange(compressor, deltas, states, step=number)
        np.testing.assert_allclose(average, expected, rtol=1e-5, atol=1e-6)
        for state, learner in zip(states, learners, strict=True):
            state.commit()
            np.testing.assert_allclose(state["residual"].reshape(shape), learner.error, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("decay", [1.0, 0.95, 0.0])
def test_sent_and_kept_are_the_decayed_residual_and_the_new_part_to_the_last_bit(decay, draw):
    compressor, shape = C.SparseLoCo(k=16, decay=decay), (128, 96)
    state, old = compressor.init(shape), draw(128 * 96, seed=1)
    state.load({"residual": old})
    delta = draw(shape, seed=2)
    average = C.exchange(compressor, [delta], [state])
    state.commit()
    together = F(decay) * old + delta.reshape(-1)
    assert np.count_nonzero(average) == 2 * 2 * 16  # chunks of 64 × 48
    assert (state["residual"] == together - average.reshape(-1)).all()


def test_the_table_of_two_bits_by_hand():
    """Mean 0.4, σ 5.941, step 8.911: the bins are 2 − 1, 2 − 1, 2, 2 + 1, 2 + 1; the lowest one stays empty."""
    values = np.array([-6, -5, 1, 5, 7], F)
    table, bins = into_bins(values, 2)
    assert table.tolist() == [0, -5.5, 1, 6] and bins.tolist() == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0], [0.0, 0.0, 0.0], [-1e-45], [3e38, 3e38]])
def test_one_value_and_equal_values_have_no_deviation_and_are_sent_as_they_are(values):
    table, bins = into_bins(np.array(values, F), 2)
    assert np.isfinite(table).all() and (table[bins] == np.array(values, F)).all()


def test_of_equal_magnitudes_the_first_are_sent():
    compressor = C.SparseLoCo(chunk=4, k=2)
    average = C.exchange(compressor, [np.ones((2, 2), F)], [compressor.init((2, 2))])
    assert average.tolist() == [[1, 1], [0, 0]]


def test_senders_and_learners_are_other_means():
    deltas = [np.array([[4, 0], [0, 1]], F), np.array([[2, 0], [3, 0]], F)]
    averages = []
    for mean in ("senders", "learners"):
        compressor = C.SparseLoCo(chunk=4, k=1, mean=mean)
        averages.append(C.exchange(compressor, deltas, [compressor.init((2, 2)) for _ in deltas]).tolist())
    assert averages == [[[4, 0], [3, 0]], [[2, 0], [1.5, 0]]]


def test_a_message_is_146_times_as_short_as_float32_and_73_times_as_bfloat16():
    """64 of 4,096 elements, 12 + 2 bits each, and a table of 16 bytes for the layer."""
    shape = (1024, 1024)
    (transfer,) = C.SparseLoCo().plan(shape)
    payload = transfer.payload_bytes - 16
    assert payload == 256 * 64 * 14 // 8
    assert round(4 * 1024**2 / payload, 1) == 146.3 and round(2 * 1024**2 / payload, 1) == 73.1


# ---- DeMo ------------------------------------------------------------------------------------------------------------


def cosine_sum(block):
    """The orthonormal DCT-II of a block, from its definition as a sum."""
    height, width = block.shape
    found = np.empty(block.shape)
    for u, v in np.ndindex(block.shape):
        factors = [math.sqrt((1 if f == 0 else 2) / n) for f, n in ((u, height), (v, width))]
        down, right = math.pi * u / (2 * height), math.pi * v / (2 * width)
        found[u, v] = math.prod(factors) * math.fsum(
            block[i, j] * math.cos((2 * i + 1) * down) * math.cos((2 * j + 1) * right)
            for i, j in np.ndindex(block.shape)
        )
    return found


def test_the_transform_is_the_cosine_sum_of_each_chunk_and_has_an_inverse(draw):
    shape = (12, 10)
    x, grid = draw(shape), ChunkGrid.of(shape, side=6, k=1)
    coefficients = to_coefficients(x.reshape(-1), grid)
    expected = np.concatenate([cosine_sum(x[place].astype(float)).reshape(-1) for place in blocks(x, 6)])
    np.testing.assert_allclose(coefficients, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(from_coefficients(coefficients, grid), x.reshape(-1), rtol=1e-5, atol=1e-5)
    for size in (1, 2, 7, 64):
        np.testing.assert_allclose(cosines(size) @ cosines(size).T, np.eye(size), atol=1e-14)


def test_demo_is_that_of_the_paper(draw):
    """Two learners and three steps on blocks of 6 × 5: momentum, largest coefficients, mean of the senders, sign."""
    shape, k, decay = (12, 10), 4, 0.9
    compressor, momenta = C.DeMo(chunk=36, k=k, decay=decay), [np.zeros(shape) for _ in range(2)]
    states = [compressor.init(shape) for _ in momenta]
    for step in range(3):
        gradients = [draw(shape, seed=10 * step + rank) for rank in range(2)]
        sums, senders = np.zeros(shape), np.zeros(shape)
        for momentum, gradient in zip(momenta, gradients, strict=True):
            momentum *= decay
            momentum += gradient
            for place in blocks(momentum, 6):
                coefficients = cosine_sum(momentum[place])
                sent = np.zeros(coefficients.shape)
                for inside in chosen(coefficients, k):
                    sent[inside] = coefficients[inside]
                    senders[place][inside] += 1
                height, width = sent.shape
                momentum[place] -= cosines(height).T @ sent @ cosines(width)
                sums[place] += sent
        mean = sums / np.maximum(senders, 1)
        update = np.zeros(shape)
        for place in blocks(mean, 6):
            height, width = mean[place].shape
            update[place] = cosines(height).T @ mean[place] @ cosines(width)
        average = C.exchange(compressor, gradients, states, step=step)
        clear = np.abs(update) > 1e-5
        assert (
            clear.mean() > 0.9 and (average == np.sign(update))[clear].all() and set(np.unique(average)) <= {-1, 0, 1}
        )
        for state, momentum in zip(states, momenta, strict=True):
            state.commit()
            np.testing.assert_allclose(state["residual"].reshape(shape), momentum, rtol=1e-4, atol=1e-4)


def test_a_vector_has_chunks_of_64_of_which_half_is_sent():
    assert C.DeMo().plan((128,))[0].payload_bytes == 2 * 32 * (6 / 8 + 4)


# ---- few bits --------------------------------------------------------------------------------------------------------


def test_three_exponent_bits_are_zero_and_seven_powers_of_two():
    assert np.unique(np.abs(E3M0.codebook())).tolist() == [0, 0.25, 0.5, 1, 2, 4, 8, 16] and E3M0.bits == 4


@pytest.mark.parametrize("name", ["e3m0", "e2m1", "int4", "e4m3fn", "e5m2", "int8"])
def test_few_bits_are_the_nearest_numbers_of_the_format(name, draw):
    """Means of what each learner's values become alone, with its own scale."""
    compressor, gradients = C.LowBit(name), [draw((40, 30), seed=seed) for seed in range(2)]
    numbers = np.unique(FORMATS[name].codebook())
    numbers, sent = numbers[np.isfinite(numbers)], []
    for gradient in gradients:
        scale = np.abs(gradient).max() / F(FORMATS[name].max)
        ratios = (gradient / scale).astype(np.float64)
        distances = np.abs(ratios[..., None] - numbers)
        own = C.exchange(compressor, [gradient], [compressor.init((40, 30))])
        found = np.abs(own / np.float64(scale) - ratios)
        np.testing.assert_allclose(found, distances.min(axis=-1), rtol=1e-4, atol=1e-5 * numbers.max())
        sent.append(own)
    average = C.exchange(compressor, gradients, [compressor.init((40, 30)) for _ in gradients])
    assert (average == (sent[0] + sent[1]) / F(2)).all()
    assert np.abs(average).max() <= max(np.abs(gradient).max() for gradient in gradients)


# ---- what is not allowed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "message"), [
    ("sparseloco:chunk=4000", "chunk must be a square from 1 to 16,384 such as 4096"),
    ("sparseloco:chunk=0", "chunk must be a square"),
    ("sparseloco:k=0", "k must be from 1 to the chunk's 4,096 elements, got 0"),
    ("sparseloco:chunk=64,k=65", "k must be from 1 to the chunk's 64"),
    ("sparseloco:bits=9", "bits must be from 1 to 8, got 9"),
    ("sparseloco:decay=1.1", "decay must be from 0 to 1, got 1.1"),
    ("sparseloco:mean=all", "mean must be 'senders' or 'learners', got 'all'"),
    ("demo:decay=1.0", "decay must be from 0 to below 1, got 1.0"),
    ("demo:wire=fp8", "unknown format 'fp8' for values on the wire"),
    ("lowbit:format=fp4", "unknown format 'fp4'; allowed: e3m0, e2m1"),
])  # fmt: skip
def test_settings_that_cannot_be_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        C.get(text)


def test_the_text_form_is_the_papers_setting():
    assert C.get("sparseloco:chunk=4096,k=64") == C.SparseLoCo()
