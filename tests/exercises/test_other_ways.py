"""Answers as students write them: right ones in unusual algebra pass, wrong ones are told the smallest case and why."""

import textwrap

import pytest

from lplab.exercises.isolation.answers import Answer
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here

RIGHT = {
    ("03.1", "clipped afterwards"): """
        def next_scale(scale, good_steps, finite, interval):
            full = finite and (good_steps + 1) % interval == 0
            factor = 0.5 if not finite else 2.0 if full else 1.0
            return np.clip(scale * factor, 1, 2**24), (good_steps + 1) * (finite and not full)
    """,
    ("03.2", "loops in float64"): """
        def training_step(w, gradients, scale, lr, max_norm, decay):
            g = [sum(float(row[i]) for row in gradients) / scale for i in range(len(w))]
            if not all(map(math.isfinite, g)):
                return w
            shrink = min(1.0, max_norm / (math.hypot(*g) or 1.0))
            return np.array([(1 - lr * decay) * a - lr * shrink * b for a, b in zip(w, g)])
    """,
    ("03.4", "one minus the share that is kept"): """
        def largest_scale(counts, lowest, zero_below, overflow_from):
            k = overflow_from - (lowest + max(i for i, c in enumerate(counts) if c) + 1)
            kept = sum(int(c) for i, c in enumerate(counts) if lowest + i + k >= zero_below)
            return k, 1 - kept / int(counts.sum())
    """,
    ("03.4", "a sum of shares"): """
        def largest_scale(counts, lowest, zero_below, overflow_from):
            k = overflow_from - lowest - np.nonzero(counts)[0].max() - 1
            p = counts / counts.sum()
            return k, p[np.arange(len(p)) + lowest + k < zero_below].sum()
    """,
    ("04.3", "normal equations"): """
        def fit_sawb(samples, clips):
            mean = abs(samples).mean(1)
            u, v, n = (samples**2).mean(1) ** 0.5 / mean, clips / mean, len(clips)
            slope = (n * (u * v).sum() - u.sum() * v.sum()) / (n * (u * u).sum() - u.sum() ** 2)
            return [slope, (slope * u.sum() - v.sum()) / n]
    """,
    ("05.3", "magnitudes with a coin"): """
        def unbiased_update(w, delta, mantissa_bits, rng):
            m, e = np.frexp(np.abs(w + delta))
            q = m * 2 ** (mantissa_bits + 1)
            up = rng.random(w.shape) < q - np.floor(q)
            return np.copysign(np.ldexp(np.floor(q) + up, e - mantissa_bits - 1), w + delta)
    """,
    ("06.1", "a search, and one minus the share that survives"): """
        def best_bias(x, exponent_bits, mantissa_bits):
            size, bias = np.abs(x[x != 0]).astype(float), 200
            while size.max() > 2.0 ** (2**exponent_bits - 1 - bias) * (2 - 2.0**-mantissa_bits):
                bias -= 1
            return bias, 1 - (size > 2.0 ** -(bias + mantissa_bits)).mean()
    """,
    ("06.2", "one factor for all steps"): """
        def delayed_scales(amax, length, largest, margin):
            factor = 2.0**margin / largest
            scales = [amax[0] * factor]
            for t in range(1, len(amax)):
                most = max(amax[max(0, t - length) : t])
                scales.append(most * factor if most else scales[-1])
            return scales
    """,
    ("09.1", "a cumulative sum"): """
        def residuals(gradients, symbols, scales):
            return np.cumsum(gradients - scales[:, None] * symbols, axis=0)
    """,
    ("10.3", "without loops"): """
        def similarity(a, b, k):
            with np.errstate(all="ignore"):
                far = 1 - (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
            own, other = (np.argsort(-abs(m), axis=1)[:, :k] for m in (a, b))
            missing = 1 - (own[:, :, None] == other[:, None, :]).any(2).mean(1)
            return np.stack([far, np.where(np.isnan(far), np.nan, missing)], 1)
    """,
    ("11.2", "Amdahl's law with shares"): """
        def step_speedup(seconds, narrow, factor, rounding):
            p, r = sum(s for s, n in zip(seconds, narrow) if n) / sum(seconds), rounding / sum(seconds)
            return 1 / (1 - p + p / factor + r), 1 / (1 - p + r)
    """,
    ("12.4", "whole numbers are sent"): """
        def federated_round(parameters, down_bits, up_bits, share, index_bits, clients, watts):
            down, sent = parameters * down_bits / 8, math.ceil(parameters * share)
            up = sent * (up_bits + (index_bits if share != 1 else 0)) / 8
            phases = [(c, down / fast, up / slow) for c, fast, slow in clients]
            joules = sum(w * t for phase in phases for w, t in zip(watts, phase))
            return (down + up) * len(clients), joules, max(map(sum, phases))
    """,
}
WRONG = {
    ("03.1", "half of the scale is rounded down to a whole number"): """
        def next_scale(scale, good_steps, finite, interval):
            if not finite:
                return max(1, scale // 2), 0
            full = good_steps + 1 == interval
            return (min(scale * 2, 2**24), 0) if full else (scale, good_steps + 1)
    """,
    (
        "05.4",
        "y is added in the correction instead of subtracted: what is taken off grows, to infinity in long sums",
    ): """
        def to_169(x):
            m, e = math.frexp(x)
            return math.ldexp(round(m * 1024), e - 10)

        def kahan_sum(x):
            s = c = 0.0
            for value in x:
                y = to_169(value - c)
                t = to_169(y + s)
                c = to_169(y + to_169(t - s))
                s = t
            return s
    """,
    ("06.3", "all values in one pool: large batches count more, and the variance contains that of the means"): """
        def retune(batches):
            pool = [np.concatenate([x[:, c].ravel() for x in batches]) for c in range(batches[0].shape[1])]
            return np.array([p.mean() for p in pool]), np.array([p.var(ddof=1) if p.size > 1 else p[0] for p in pool])
    """,
    ("07.1", "a logarithm, which rounds the last step to a threshold away"): """
        def radix4(x):
            with np.errstate(divide="ignore"):
                k = np.floor(np.log(1.6 * np.abs(x)) / np.log(4))
            return np.where(k < -3, 0, np.sign(x) * 4.0 ** np.clip(k, -3, 3))
    """,
    ("10.3", "the cosine itself, not the distance"): """
        def similarity(a, b, k):
            rows = []
            for x, y in zip(a, b):
                sizes = math.sqrt(sum(x * x)) * math.sqrt(sum(y * y))
                own, other = (set(np.argpartition(-abs(v), k - 1)[:k]) for v in (x, y))
                rows.append([sum(x * y) / sizes, len(own - other) / k] if sizes else [math.nan] * 2)
            return rows
    """,
    ("10.3", "the largest values, not the largest magnitudes"): """
        def similarity(a, b, k):
            rows = []
            for x, y in zip(a, b):
                sizes = math.sqrt(sum(x * x)) * math.sqrt(sum(y * y))
                missing = np.mean(~np.isin(np.argsort(x)[-k:], np.argsort(y)[-k:]))
                rows.append([1 - sum(x * y) / sizes, missing] if sizes else [math.nan] * 2)
            return np.array(rows)
    """,
    ("12.2", "the forward pass alone: 2 operations"): """
        def training_bill(parameters, tokens, devices, peak, utilization, watts, pue, grams_per_kwh):
            hours = 2 / 3600 * tokens * parameters / peak / devices / utilization
            mwh = pue * watts * hours * devices / 1e6
            return hours / 24, mwh, grams_per_kwh * mwh / 1000
    """,
}
IN_SINGLE = {
    "04.3": """
        def fit_sawb(samples, clips):
            samples, clips = samples.astype(np.float32), clips.astype(np.float32)
            mean = abs(samples).mean(1)
            slope, offset = np.polyfit((samples**2).mean(1) ** 0.5 / mean, clips / mean, 1)
            return slope, -offset
    """,
    "06.3": """
        def retune(batches):
            means = [x.astype(np.float32).mean((0, 2, 3)) for x in batches]
            return np.mean(means, 0), np.mean([x.astype(np.float32).var((0, 2, 3), ddof=1) for x in batches], 0)
    """,
    "11.2": """
        def step_speedup(seconds, narrow, factor, rounding):
            s = seconds.astype(np.float32)
            rest = s[~narrow].sum() + np.float32(rounding)
            return s.sum() / (s[narrow].sum() / np.float32(factor) + rest), s.sum() / rest
    """,
}


def verdict_on(name, source):
    answer = Answer("import math\nimport numpy as np\n\n" + textwrap.dedent(source), exercise_catalogue.get(name).name)
    return judge_here(exercise_catalogue.get(name), answer)


@pytest.mark.parametrize("which", RIGHT, ids=": ".join)
def test_right_answers_in_other_algebra_pass(which):
    verdict = verdict_on(which[0], RIGHT[which])
    assert verdict.passed, verdict.text


@pytest.mark.parametrize("which", WRONG, ids=": ".join)
def test_known_mistakes_in_other_algebra_are_named(which):
    verdict = verdict_on(which[0], WRONG[which])
    assert not verdict.passed and verdict.misconception == which[1], verdict.text


@pytest.mark.parametrize("name", IN_SINGLE)
def test_a_miss_by_float32_shows_numbers_that_differ_and_says_so(name):
    verdict = verdict_on(name, IN_SINGLE[name])
    assert not verdict.passed and "compute in float64" in verdict.text
    yours, expected = (part.strip(" ;.") for part in verdict.lines[1].split(" is ", 1)[1].split(";")[0].split(","))
    assert yours.split()[-1] != expected.split()[-1], verdict.text


def test_the_smallest_case_comes_with_its_reason_where_many_results_are_right():
    waits = """
        def similarity(a, b, k):
            rows = []
            for x, y in zip(a, b):
                sizes = np.linalg.norm(x) * np.linalg.norm(y)
                own, other = (np.argsort(-abs(v))[: min(k, 2)] for v in (x, y))
                missing = np.mean(~np.isin(own, other))
                rows.append([1 - x @ y / sizes, missing] if sizes else [math.nan] * 2)
            return rows
    """
    verdict = verdict_on("10.3", waits)
    assert verdict.ring == "boundary set" and "Step 0: a · b =" in verdict.text and "k = 5" in verdict.text
    assert (verdict.right, verdict.total) == (39, 48), "all that hold, not those before the first that does not"


def test_a_miss_comes_before_an_exception_in_a_later_case():
    halves = """
        def to_169(x):
            m, e = math.frexp(x)
            return math.ldexp(round(m * 1024), e - 10)

        def chunked_dot(x, y, chunk):
            total = 0.0
            for part in np.array_split(x * y, -(-len(x) // chunk)):
                register = 0.0
                for value in part:
                    register = to_169(register + value)
                total = to_169(total + register)
            return total
    """
    verdict = verdict_on("05.1", halves)
    assert verdict.ring == "boundary set" and "ValueError" not in verdict.text, verdict.text
    assert "chunk = 3" in verdict.text and "The chunks sum to" in verdict.text


def test_a_tie_of_a_weight_is_called_one():
    away = """
        def to_fp8(x):
            m, e = np.frexp(x)
            return np.ldexp(np.sign(m) * np.floor(np.abs(m) * 16 + 0.5), e - 4)

        def update_share(sent, residual, update):
            exact = sent + residual - update
            return to_fp8(exact), exact - to_fp8(exact)
    """
    verdict = verdict_on("08.4", away)
    assert "Yours [1.125; −0.0625], expected [1; 0.0625]" in verdict.text
    assert "exactly 1 + 0.03125 + 0.03125 = 1.0625; that is halfway between 1 and 1.125: the even one" in verdict.text
