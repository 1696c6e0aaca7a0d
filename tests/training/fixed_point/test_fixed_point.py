"""Gupta's scheme against a slow one in exact integers, and what a run promises: same bits, honest counts."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from lplab.formats import FixedFormat
from lplab.training import Converter, FixedPointConfig, digits_split, thread_counts, train_epochs, train_fixed_point
from lplab.training.fixed_point import training
from lplab.training.thread_counts import one_blas_thread

SMALL = {"hidden": (7, 5), "batch": 20, "epochs": 2}


def fresh(rounding="nearest_down", **more):
    return FixedPointConfig(rounding=rounding, **{**SMALL, **more})


# ---- exact arithmetic ------------------------------------------------------------------------------------------------


def convert_exactly(value: Fraction, fmt: FixedFormat, rule: str) -> int:
    """Convert of the paper for one exact number: the code, in units of 2^-FL."""
    steps = value * 2**fmt.fraction_bits
    floor = steps.numerator // steps.denominator
    fraction = steps - floor
    up = fraction > Fraction(1, 2) or (
        fraction == Fraction(1, 2) and (rule == "nearest_up" or (rule[8:] == "even" and floor % 2))
    )
    return max(-(2 ** (fmt.bits - 1)), min(2 ** (fmt.bits - 1) - 1, floor + up))


def slow_step(run, parameters, x, target):
    """One training step of the scheme in integers and fractions; only the softmax is in floating point."""
    wf, of, rule = run.weight_format, run.output_format, run.rounding
    w_unit, o_unit = Fraction(1, 2**wf.fraction_bits), Fraction(1, 2**of.fraction_bits)

    def converted(array, unit, fmt):
        return np.array([convert_exactly(int(v) * unit, fmt, rule) for v in array.flat], dtype=object).reshape(
            array.shape
        )

    def codes(array, fmt):
        return np.array([int(v * 2**fmt.fraction_bits) for v in array.flat], dtype=object).reshape(array.shape)

    layers = [codes(layer, wf) for layer in parameters]
    outputs = [codes(x, of)]
    for k, layer in enumerate(layers):
        z = outputs[-1].dot(layer[:-1]) + layer[-1] * 2**of.fraction_bits
        z = converted(z, w_unit * o_unit, of)
        outputs.append(np.maximum(z, 0) if k < len(layers) - 1 else z)
    logits = outputs[-1].astype(np.float64) / 2**of.fraction_bits
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = p / p.sum(axis=1, keepdims=True) - target
    delta = np.array([convert_exactly(Fraction(float(v)), of, rule) for v in p.flat], dtype=object).reshape(p.shape)
    factor = -Fraction(run.learning_rate) / len(x)
    new = [None] * len(layers)
    for k in range(len(layers) - 1, -1, -1):
        gradient = np.vstack([outputs[k].T.dot(delta), delta.sum(axis=0) * 2**of.fraction_bits])
        update = converted(gradient, o_unit * o_unit * factor, wf)
        if k:
            delta = converted(delta.dot(layers[k][:-1].T), w_unit * o_unit, of) * (outputs[k] > 0)
        new[k] = np.clip(layers[k] + update, -(2 ** (wf.bits - 1)), 2 ** (wf.bits - 1) - 1)
    return new


@pytest.mark.parametrize("rule", ["nearest_down", "nearest_even", "nearest_up"])
@pytest.mark.parametrize("outputs", ["same", "q6.10"])
def test_three_steps_equal_the_scheme_in_exact_integers(rule, outputs):
    """A learning rate over the batch that is a power of two: then even ties and the mean are exact in float64."""
    run = fresh(rule, outputs=outputs, hidden=(6,), batch=16, fraction_bits=9, learning_rate=0.5)
    net = training._Network(run)
    x, y, *_ = digits_split()
    for first in (0, 16, 32):
        batch, target = x[first : first + 16], np.eye(10)[y[first : first + 16]]
        expected = slow_step(run, [layer.copy() for layer in net.layers], batch, target)
        net.step(batch, target, count_ties=False)
        for layer, codes in zip(net.layers, expected, strict=True):
            assert (layer * 2**9 == codes.astype(np.float64)).all()


def test_float64_sums_of_sixteen_bit_words_are_exact():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-(2**15), 2**15, shape) for shape in ((100, 129), (129, 50)))
    a[0], b[:, 0] = -(2**15), -(2**15)  # the largest sum there can be
    in_units = (a * 2.0**-12) @ (b * 2.0**-9) * 2.0**21
    assert (in_units.astype(np.int64) == a @ b).all() and (in_units == np.rint(in_units)).all()
    order = rng.permutation(129)
    assert ((a[:, order] * 2.0**-12) @ (b[order] * 2.0**-9) * 2.0**21 == in_units).all()


def test_sums_that_float64_cannot_hold_are_refused():
    assert FixedPointConfig(word_length=22, fraction_bits=10).sum_bits <= 53
    with pytest.raises(ValueError, match="up to 56 bits, and float64 is exact to 53"):
        FixedPointConfig(word_length=24, fraction_bits=10)


# ---- Convert ---------------------------------------------------------------------------------------------------------

Q4_12 = FixedFormat(4, 12)
STEP = 2.0**-12
VECTORS = [  # the paper's rule, ties towards minus infinity: value, code
    (0.3, 1229), (-0.3, -1229), (0.5 * STEP, 0), (-0.5 * STEP, -1), (1.5 * STEP, 1), (-1.5 * STEP, -2),
    (7.9999, 32767), (8.0, 32767), (-8.0, -32768), (-9.0, -32768),
]  # fmt: skip


def test_the_papers_nearest():
    x = np.array([value for value, _ in VECTORS])
    convert = Converter("nearest_down", 0)
    assert (convert(x, Q4_12, "outputs") / STEP).tolist() == [code for _, code in VECTORS]
    counts = convert.collect()
    assert (counts.outputs, counts.outputs_saturated) == (10, 3)  # 7.9999, 8 and -9; -8 is a value of the format


def test_floor_of_x_and_a_half_rounds_ties_up():
    x = np.array([0.5, -0.5, 1.5, -1.5, 0.4, -0.6, 1e6]) * STEP
    assert (Converter("nearest_up", 0)(x, Q4_12) / STEP).tolist() == [1, 0, 2, -1, 0, -1, 32767]


def test_stochastic_is_right_on_average_and_every_element_has_its_own_coin():
    convert = Converter("stochastic", 5)
    first, second = (convert(np.full(40_000, 0.3 * STEP), Q4_12) / STEP for _ in range(2))
    assert set(np.unique(first)) == {0, 1}
    for codes in (first, second):
        assert abs(codes.mean() - 0.3) < 5 * np.sqrt(0.21 / 40_000)  # five standard deviations
    # within a tensor and between two conversions: independent random bits agree in 0.3² + 0.7² = 58 % of cases
    for one, other in ((first[1:], first[:-1]), (first, second)):
        assert abs((one == other).mean() - 0.58) < 5 * np.sqrt(0.58 * 0.42 / 40_000)


def test_values_of_the_format_stay_under_every_rule():
    x = np.arange(-40, 40) * STEP
    for rule in ("stochastic", "nearest_down", "nearest_even", "nearest_up"):
        assert (Converter(rule, 1)(x.copy(), Q4_12) == x).all()


def test_counts_of_updates():
    convert = Converter("nearest_even", 0)
    x = np.array([0.0, 0.2, 0.5, 1.5, -3.2, -0.4]) * STEP
    convert(x, Q4_12, "updates", count_ties=True)
    counts = convert.collect()
    assert (counts.updates, counts.updates_wanted, counts.updates_lost, counts.updates_made) == (6, 5, 3, 2)
    assert (counts.sampled, counts.ties) == (6, 2)
    assert counts.drift == pytest.approx((0 - 0.2) + (0 - 0.5) + (2 - 1.5) + (-3 + 3.2) + 0.4)
    assert convert.collect().updates == 0, "collect() starts anew"


# ---- a rounding function of one's own --------------------------------------------------------------------------------


def nearest_down_by_hand(x, fraction_bits, rng):
    scaled = x * 2.0**fraction_bits
    return np.ceil(scaled - 0.5) / 2.0**fraction_bits


def a_coin_by_hand(x, fraction_bits, rng):
    scaled = x * 2.0**fraction_bits
    return (np.floor(scaled) + (rng.random(x.shape) < scaled - np.floor(scaled))) / 2.0**fraction_bits


def test_ones_own_function_trains_with_the_same_bits_as_the_librarys():
    own, named = (train_fixed_point(fresh(rule)) for rule in (nearest_down_by_hand, "nearest_down"))
    assert own.epochs == named.epochs
    assert own.run.label == "⟨8, 8⟩, nearest down by hand"


def test_ones_own_coin_is_reproducible_and_learns():
    run = FixedPointConfig(rounding=a_coin_by_hand, fraction_bits=6, epochs=6, hidden=(32,), learning_rate=0.5)
    once, again = train_fixed_point(run), train_fixed_point(run)
    assert once.epochs == again.epochs and once.test_error < 20


@pytest.mark.parametrize(("function", "message"), [
    (lambda x, bits, rng: None, "returned None"),
    (lambda x, bits, rng: x, "which is no multiple of 2\\^-10"),
    (lambda x, bits, rng: x * np.nan, "nan, which is no multiple"),
    (lambda x, bits, rng: x[0], "of shape \\(128,\\); it must return numbers of shape"),
    (lambda x, bits, rng: x > 0, "returned bool"),
])  # fmt: skip
def test_a_bad_rounding_function_gets_one_line(function, message):
    with pytest.raises(ValueError, match=message) as problem:
        next(train_epochs(FixedPointConfig(rounding=function, outputs="q6.10")))
    assert "\n" not in str(problem.value)


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_same_run_same_bits_and_another_seed_another_run():
    once, again, other = (train_fixed_point(fresh("stochastic", seed=seed)) for seed in (3, 3, 4))
    assert once.epochs == again.epochs != other.epochs


def test_rules_start_from_the_same_weights():
    starts = [training._Network(fresh(rule)).parameters for rule in ("stochastic", "nearest_up", "nearest_down")]
    assert all((start == starts[0]).all() for start in starts)


def test_floating_point_runs_through_the_same_code_and_loses_nothing():
    trained = train_fixed_point(fresh(fraction_bits=None, epochs=15, hidden=(32,)))
    shares = trained.counts.shares()
    assert trained.test_error < 8
    assert shares["updates_lost"] == shares["drift"] == shares["outputs_saturated"] == 0
    assert trained.counts.outputs > 0


def test_nearest_stalls_where_the_coin_trains():
    nearest, coin = (
        train_fixed_point(FixedPointConfig(fraction_bits=6, rounding=r, epochs=15))
        for r in ("nearest_down", "stochastic")
    )
    assert nearest.test_error > 50 > 10 > coin.test_error
    assert nearest.counts.shares()["updates_lost"] > 0.99


def test_too_few_integer_bits_saturate():
    trained = train_fixed_point(FixedPointConfig(fraction_bits=14, epochs=5))
    assert trained.counts.outputs_saturated > 0 and trained.test_error > 40
    wide = train_fixed_point(FixedPointConfig(fraction_bits=14, outputs="q6.10", epochs=5))
    assert wide.counts.outputs_saturated == 0 and wide.test_error < 15


def test_momentum_keeps_its_velocity_on_the_grid():
    net = training._Network(fresh("stochastic", momentum=0.9, fraction_bits=8))
    x, y, *_ = digits_split()
    for _ in range(3):
        net.step(x[:20], np.eye(10)[y[:20]], count_ties=False)
    assert np.any(net.velocity) and (net.velocity * 256 == np.rint(net.velocity * 256)).all()


def test_training_can_be_stopped_after_any_epoch():
    epochs = train_epochs(fresh())
    assert next(epochs).number == 1
    epochs.close()
    with pytest.raises(StopIteration):
        next(epochs)


def test_words_that_get_longer_late_train_as_the_short_ones_did_and_then_lose_fewer_updates():
    short = FixedPointConfig(fraction_bits=6, rounding="nearest_down", outputs="q6.10", epochs=4)
    longer = replace(short, widen_after=2)
    plain, widened = list(train_epochs(short)), list(train_epochs(longer))
    assert plain[:2] == widened[:2]
    shares = [epoch.counts.shares()["updates_made"] for epoch in widened]
    assert max(shares[:2]) < 0.001 < 0.1 < min(shares[2:])
    assert longer.label == "⟨10, 6⟩, nearest down, 4 bits more after epoch 2"
    assert longer.parameters()["widen_after"] == 2 and short.widened is short


@pytest.mark.parametrize(("wrong", "message"), [
    ({"fraction_bits": None, "widen_after": 2}, "widen_after needs fixed point"),
    ({"widen_after": 60}, "from 1 to epochs − 1, got 60"),
    ({"widen_after": 3, "widen_by": 0}, "widen_by must be an integer from 1 to 16, got 0"),
    ({"widen_after": 3, "widen_by": 16}, "a sum of products needs up to 72 bits"),
])  # fmt: skip
def test_words_that_cannot_get_longer_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        FixedPointConfig(**wrong)


@pytest.mark.parametrize(("wrong", "message"), [
    ({"rounding": "coin"}, "unknown rounding 'coin'; allowed: nearest_even"),
    ({"fraction_bits": 16}, "must be below word_length = 16"),
    ({"outputs": "e4m3fn"}, "outputs must be 'same' or a fixed-point name"),
    ({"hidden": ()}, "hidden must be sizes"),
    ({"batch": 0}, "batch must be an integer from 1 to 1400"),
    ({"epochs": True}, "epochs must be an integer"),
    ({"learning_rate": -1}, "learning_rate must be at least 0"),
    ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
])  # fmt: skip
def test_bad_runs_are_refused_when_made(wrong, message):
    with pytest.raises(ValueError, match=message):
        FixedPointConfig(**wrong)


def test_the_split_is_the_same_for_all_and_cannot_be_changed():
    x, y, test_x, test_y = digits_split()
    assert digits_split()[0] is x and len(np.unique(y)) == len(np.unique(test_y)) == 10
    assert not {row.tobytes() for row in x} & {row.tobytes() for row in test_x}
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 0


# ---- threads ---------------------------------------------------------------------------------------------------------


def blas_threads():
    pytest.importorskip("threadpoolctl")
    return {library["num_threads"] for library in thread_counts._controller().info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_while_it_trains_and_its_own_number_after():
    before = blas_threads()
    with one_blas_thread(), one_blas_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before
    next(train_epochs(fresh()))
    assert blas_threads() == before


def test_without_threadpoolctl_it_trains_too(monkeypatch):
    monkeypatch.setattr("lplab.training.thread_counts._controller", lambda: None)
    assert next(train_epochs(fresh())).number == 1
