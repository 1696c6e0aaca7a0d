"""Lab 16: the solutions are the library's; other right ways pass; messages; students' functions in the figures."""

import linecache
import textwrap
from itertools import pairwise

import numpy as np
import pytest

from lplab import widgets
from lplab.compression import SparseLoCo
from lplab.compression.scalecom import largest_per_chunk
from lplab.compression.sparseloco import into_bins
from lplab.compression.square_chunks import mean_of_senders
from lplab.exercises import lab16
from lplab.exercises.checks.variants import function_of
from lplab.exercises.isolation.answers import Answer
from lplab.exercises.lab16 import EXERCISES, aggregate, outer_step, sparse_round
from lplab.exercises.model import exercise_catalogue
from tests.exercises.in_process import judge_here


def solution(number):
    return function_of(EXERCISES[number - 1])


def verdict_on(name, source):
    exercise = exercise_catalogue.get(name)
    return judge_here(exercise, Answer("import math\nimport numpy as np\n" + textwrap.dedent(source), exercise.name))


def unfinished(*args):
    raise NotImplementedError


# ---- the solutions are the library's ---------------------------------------------------------------------------------


def test_outer_steps_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(16)
    weights, momentum = rng.normal(size=5), np.zeros(5)
    parameter = torch.nn.Parameter(torch.tensor(weights))
    optimizer = torch.optim.SGD([parameter], lr=0.7, momentum=0.9, nesterov=True)
    for _ in range(4):
        ends = weights + rng.normal(size=(3, 5))
        parameter.grad = torch.tensor(weights - ends.mean(0))
        weights, momentum = solution(1)(weights, ends, momentum, 0.7, 0.9)
        optimizer.step()
        np.testing.assert_allclose(parameter.detach().numpy(), weights, rtol=1e-12)


def test_what_is_sent_is_what_sparseloco_sends():
    error, delta = sparse_round.layer(3, 7 * 256)
    sent, kept = solution(2)(error, delta, 16, 256, 0.75)
    total = np.float32(0.75 * error + delta)
    indices = largest_per_chunk(total, 256, 16)
    table, bins = into_bins(total[indices], 2)
    np.testing.assert_array_equal(sent[indices], table[bins])
    assert np.count_nonzero(sent) == np.count_nonzero(table[bins]) and (kept == total - sent).all()


def test_a_message_of_sparseloco_has_146_times_fewer_bits_and_most_are_positions():
    for plain, times in ((32, 146.3), (16, 73.1)):
        bits, share, least, shorter = solution(3)(2**20, 64, 4096, 2, plain)
        assert (round(shorter, 1), round(100 * share)) == (times, 86) and round(least / 256) == 471
        (message,) = SparseLoCo().plan((1024, 1024))
        assert 8 * message.payload_bytes == bits + 4 * 32


def test_the_mean_over_senders_is_the_librarys():
    positions, values = aggregate.messages(7, 5, 6, 30)
    payloads = [np.float32(np.concatenate(pair)) for pair in zip(positions, values, strict=True)]
    expected = mean_of_senders(30, lambda payload: (payload[:6].astype(int), payload[6:]))(payloads)
    np.testing.assert_allclose(solution(4)(positions, values, 30)[0], expected, rtol=1e-6)


def test_both_means_agree_where_all_or_none_sent():
    positions, values = np.array([[0, 2], [0, 3], [0, 2]]), np.ones((3, 2))
    senders, every = solution(4)(positions, values, 5)
    assert np.flatnonzero(senders == every).tolist() == [0, 1, 4]


def test_solutions_need_no_library():
    for exercise in EXERCISES:
        assert "lplab" not in exercise.solution and exercise.goal.startswith("Goal ")


# ---- other right ways, and what is said of wrong ones ----------------------------------------------------------------

OTHER_WAYS = {
    ("16.1", "weight by weight, and the mean of the differences"): """
        def outer_step(start, ends, momentum, rate, beta):
            weights, b = start.copy(), momentum.copy()
            for j in range(len(start)):
                d = sum(start[j] - row[j] for row in ends) / len(ends)
                b[j] = b[j] * beta + d
                weights[j] -= rate * d + rate * beta * b[j]
            return [weights, b]
    """,
    ("16.2", "sorted pairs"): """
        def four_values(x):
            bins = np.clip(np.round((x - x.mean()) / (1.5 * x.std(ddof=min(1, len(x) - 1)) or 1)), -2, 1)
            return np.array([np.float32(x[bins == number].mean()) for number in bins], float)

        def sparse_round(error, delta, k, chunk, decay):
            kept, where = delta + error * decay, []
            for first in range(0, len(kept), chunk):
                places = range(first, min(first + chunk, len(kept)))
                where += sorted(places, key=lambda i: (-abs(kept[i]), i))[:k]
            sent = np.zeros_like(kept)
            sent[where] = four_values(kept[where])
            kept[where] -= sent[where]
            return sent, kept
    """,
    ("16.3", "logarithms of factorials"): """
        def message_bits(n, k, chunk, value_bits, plain_bits):
            sizes = [chunk] * (n // chunk) + [n % chunk] * (n % chunk > 0)
            sent = [min(k, size) for size in sizes]
            place = math.ceil(math.log2(chunk))
            log = lambda m: math.lgamma(m + 1) / math.log(2)
            least = sum(log(m) - log(j) - log(m - j) for m, j in zip(sizes, sent))
            bits = sum(sent) * (place + value_bits)
            return [bits, place / (place + value_bits), least, n * plain_bits / bits]
    """,
    ("16.4", "np.add.at on all rows"): """
        def two_means(positions, values, n):
            total = np.bincount(positions.ravel(), values.ravel(), n)
            count = np.zeros(n)
            np.add.at(count, positions, 1)
            return np.divide(total, count, out=np.zeros(n), where=count > 0), total / positions.shape[0]
    """,
}


@pytest.mark.parametrize("way", OTHER_WAYS, ids=": ".join)
def test_other_right_ways_pass(way):
    verdict = verdict_on(way[0], OTHER_WAYS[way])
    assert verdict.passed, verdict.text


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        (
            "16.1",
            "def outer_step(start, ends, momentum, rate, beta):\n    return start - rate * (start - ends.mean(0))\n",
            "return weights of shape (2,) and momentum of shape (2,)",
        ),
        (
            "16.1",
            "def outer_step(start, ends, momentum, rate, beta):\n    d = ends.mean(0) - start\n"
            "    b = beta * momentum + d\n    return start + rate * (d + beta * b), b\n",
            "a known mistake: Δ is end − start, and the step is added: the weights are right",
        ),
        (
            "16.2",
            "def sparse_round(error, delta, k, chunk, decay):\n    return 0 * delta, decay * error + delta\n",
            "The largest magnitude is sent, with its sign.",
        ),
        (
            "16.3",
            "def message_bits(n, k, chunk, value_bits, plain_bits):\n    return k * (12 + value_bits)\n",
            "return 4 numbers",
        ),
        (
            "16.4",
            "def two_means(positions, values, n):\n    return values.mean(0), values.mean(0)\n",
            "return two arrays of 4 numbers each, the mean over senders and the mean over all",
        ),
    ],
)
def test_a_wrong_answer_is_told_in_its_own_words(name, source, said):
    verdict = verdict_on(name, source)
    assert verdict.status == "failed" and said in verdict.text, verdict.text


def test_whatever_is_sent_must_be_kept_to_the_last_bit():
    args = sparse_round.large()[0]
    sent, kept = solution(2)(*args)
    assert sparse_round.nothing_is_lost([args], [(sent, kept)]) is None
    finding = sparse_round.nothing_is_lost([args], [(sent, kept + 2.0**-40)])
    assert finding and "sent and" in finding.sentence and "decay · error + delta is" in finding.sentence
    finding = sparse_round.nothing_is_lost([args], [(sent + kept, 0 * kept)])
    assert finding and "192 are allowed" in finding.sentence


# ---- figures of a student's function ---------------------------------------------------------------------------------

FIGURES = ("meetings", "rounds", "message_bits", "means")


@pytest.mark.parametrize("number", range(1, 5))
def test_students_functions_are_drawn_once_they_work(number):
    exercise, draw = EXERCISES[number - 1], getattr(lab16, f"draw_{FIGURES[number - 1]}")
    assert "it is not written yet" in str(draw(unfinished))
    drawn = draw(_named(exercise.solution, exercise.name))
    assert isinstance(drawn, widgets.LiveFigure)
    agrees, of = drawn.layout.meta["title"].rpartition("yours agrees at ")[2].split(" of ")
    assert agrees == of and int(of) >= 10


@pytest.mark.parametrize(("number", "agrees"), [(1, "0 of 36"), (2, "48 of 64")])
def test_a_wrong_sign_and_a_lost_error_are_drawn_as_crosses(number, agrees):
    exercise, draw = EXERCISES[number - 1], getattr(lab16, f"draw_{FIGURES[number - 1]}")
    drawn = draw(_named(exercise.mistakes[0].apply(exercise.solution), exercise.name))
    assert drawn.layout.meta["title"].endswith(f"yours agrees at {agrees}")


def _named(source, name):
    """A function whose source can be read, as a notebook's can."""
    file = f"<lab16 {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {}
    exec(compile(source, file, "exec"), space)
    return space[name]


# ---- what the lab says of the figures --------------------------------------------------------------------------------


def test_the_walk_is_that_of_the_solution():
    for rule in outer_step.OUTER.values():
        states = outer_step.walk(*rule)
        for (start, momentum), after in pairwise(states):
            ends = outer_step.end_of_steps(start)
            np.testing.assert_allclose(solution(1)(start, ends, momentum, *rule), after, atol=1e-12)


def test_the_step_that_overshoots_is_down_the_valley_first():
    ends = {name: outer_step.walk(*rule)[10][0] for name, rule in outer_step.OUTER.items()}
    plain, slower, overshoots = map(outer_step.distance, ends.values())
    assert overshoots < 0.1 * plain < plain < slower


def test_without_memory_what_is_not_sent_is_lost():
    deltas, missing = aggregate.parts_of_a_gradient(), {}
    for decay in (0.0, 0.75, 1.0):
        run = sparse_round.rounds(decay)
        results = [
            solution(2)(error, delta, sparse_round.K, sparse_round.CHUNK, decay)
            for (error, _), delta in zip(run, deltas, strict=True)
        ]
        missing[decay] = sparse_round.shares(run, results, "sent")
    np.testing.assert_allclose(missing[1.0], sparse_round.shares(run, results, "kept"), rtol=1e-5)
    assert missing[0.0][-1] > missing[0.75][-1] > missing[1.0][-1]


def test_the_mean_over_all_makes_the_step_shorter_with_each_learner():
    lengths = np.array(
        [aggregate.length(args, solution(4)(*args)) for args in map(aggregate.sparse_messages, (1, 4, 16))]
    )
    assert (np.diff(lengths[:, 1]) < 0).all() and (np.diff(lengths[:, 0]) > 0).all()
    positions, _, n = aggregate.sparse_messages(16)
    assert (np.bincount(positions.ravel(), minlength=n)[np.unique(positions)] == 1).mean() > 0.5
