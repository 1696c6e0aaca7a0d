"""Exercise 16.2: what a learner sends in a round of SparseLoCo, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.compression.scalecom import largest_per_chunk
from lplab.compression.sparseloco import into_bins
from lplab.exercises.checks.numbers import count_text, decimal, sequence_text
from lplab.exercises.lab16.aggregate import parts_of_a_gradient
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShapes
from lplab.exercises.student_figures import as_array, read_results, student_figure


def four_values(x):
    """The numbers x on four values: each becomes the mean of those in its bin of 1.5 standard deviations."""
    bins = np.clip(np.round((x - x.mean()) / (1.5 * x.std(ddof=min(1, len(x) - 1)) or 1)), -2, 1)
    return np.array([np.float32(x[bins == number].mean()) for number in bins], float)


def sparse_round(error, delta, k, chunk, decay):
    """What a learner sends of decay * error + delta (0 where nothing is sent), and what it keeps."""
    total = decay * error + delta
    chosen = np.zeros(total.size, bool)
    for first in range(0, total.size, chunk):
        order = np.argsort(-np.abs(total[first : first + chunk]), kind="stable")
        chosen[first + order[:k]] = True
    sent = np.zeros(total.size)
    sent[chosen] = four_values(total[chosen])
    return sent, total - sent


TOTAL, CHUNKS = "total = decay * error + delta", "range(0, total.size, chunk)"
ORDER, CHOSEN = 'np.argsort(-np.abs(total[first : first + chunk]), kind="stable")', "chosen[first + order[:k]] = True"
VALUES, KEPT = "sent[chosen] = four_values(total[chosen])", "return sent, total - sent"
DECAYS = (1.0, 0.5, 0.75, 0.9375)  # of few bits, so that no sum in the cases rounds


def layer(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """An error and a pseudo-gradient: multiples of 1/64, with many equal magnitudes and zeros among them."""
    rng = np.random.default_rng([64, seed])
    return rng.integers(-64, 65, size) / 64, rng.integers(-96, 97, size) / 64 * (rng.random(size) < 0.8)


def cases() -> list[Args]:
    """Chunks that divide the layer and others, a last one shorter than k, all sent; zero chunks, ties, one value that is sent."""
    sizes = ((1, 1, 1), (4, 1, 4), (8, 2, 4), (10, 2, 4), (9, 3, 4), (30, 4, 16), (64, 5, 32), (20, 20, 20), (7, 3, 50), (40, 1, 8))
    found: list[Args] = [(*layer(seed, size), k, chunk, decay) for seed, (size, k, chunk) in enumerate(sizes) for decay in DECAYS]
    error, delta = layer(30, 12)
    quiet = np.where(np.arange(12) < 4, 0.0, 1.0)
    ties = np.tile([0.5, -0.5, 0.25], 4)
    zero = np.zeros(12)
    return [
        *found,
        *[(error * quiet, delta * quiet, 2, 4, decay) for decay in DECAYS],
        (zero, ties, 2, 6, 1.0), (ties, zero, 3, 4, 0.5), (zero, -np.abs(ties), 5, 12, 1.0), (zero, zero, 2, 4, 1.0), (error, delta, 2, 4, 0.0),
    ]  # fmt: skip


def large() -> list[Args]:
    """Layers of several chunks of 4,096, the last one shorter."""
    return [(*layer(50 + seed, 10_000), k, 4096, decay) for seed, (k, decay) in enumerate(((64, 1.0), (32, 0.9375), (1, 0.5)))]


def nothing_is_lost(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether sent + kept is decay · error + delta to the last bit, and as many are sent as the chunks allow."""
    for args, (sent, kept) in zip(calls, map(np.asarray, results), strict=True):
        error, delta, k, chunk, decay = args
        total = decay * error + delta
        wrong = np.flatnonzero(sent + kept != total)
        if wrong.size:
            i = wrong[0]
            text = f"element {i}: {decimal(sent[i])} sent and {decimal(kept[i])} kept, but decay · error + delta is {decimal(total[i])}"
            return Finding(f"In a layer of {count_text(total.size)}, {text}.", args)
        most = sum(min(k, total.size - first) for first in range(0, total.size, chunk))
        if (yours := int(np.count_nonzero(sent))) > most:
            return Finding(f"In a layer of {count_text(total.size)} yours sends {count_text(yours)} elements, and {count_text(most)} are allowed.", args)
    return None


def show(args: Args) -> str:
    """Short layers in full."""
    error, delta, k, chunk, decay = args
    if error.size > 6:
        return f"a layer of {count_text(error.size)} elements, k = {k}, chunk = {chunk:,}, decay = {decimal(decay)}"
    return f"error = {sequence_text(error)}, delta = {sequence_text(delta)}, k = {k}, chunk = {chunk}, decay = {decimal(decay)}"


def why(args: Args, expected: Any) -> str:
    """The sum of a short layer, and how it is cut."""
    error, delta, k, chunk, decay = args
    total = decay * error + delta
    sizes = [min(chunk, total.size - first) for first in range(0, total.size, chunk)]
    cut = f"It is one chunk of {sizes[0]}" if len(sizes) == 1 else f"Its chunks have {', '.join(map(str, sizes[:-1][:3]))}{', …' * (len(sizes) > 4)} and {sizes[-1]} elements"
    what = f"decay · error + delta = {sequence_text(total)}. " if total.size <= 6 else ""
    return f"{what}{cut}, of which at most {k} are sent{' each' * (len(sizes) > 1)}."


def numbers(*values: float) -> np.ndarray:
    """A vector as float64."""
    return np.array(values, np.float64)


NONE = np.zeros(4)

SPARSE_ROUND = Exercise(
    id="16.2",
    version=1,
    title="A round of SparseLoCo",
    goal="Goal 2: choose what to send, and remember the rest",
    minutes=13,
    difficulty=2,
    statement=r"""
        A learner has the residual `error` of a layer and a new pseudo-gradient `delta`, both flat. Write `sparse_round(error, delta, k, chunk, decay)`.

        1. The old error fades by the factor `decay`, and `delta` is added.
        2. The sum is cut into chunks of `chunk` neighbours; the last one may be shorter. Each chunk sends the `k` elements of largest magnitude, or all if it has fewer. Of equal ones, the lower index goes first. A message has k places for each chunk, so zeros are sent where nothing larger is left.
        3. All chosen numbers of the layer **together** become four values, by `four_values`.

        Return two new arrays like `delta`: what is sent, with 0 elsewhere, and what is kept. Nothing is lost: **sent + kept** is the sum of step 1, to the last bit.
    """,
    provided=(four_values,),
    reference=sparse_round,
    form=SameShapes((("sent", 0), ("kept", 1))),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((NONE, numbers(1, -3, 2, 0), 1, 4, 1.0), "The largest magnitude is sent, with its sign. The rest is kept."),
        Example((numbers(2, 0, 0, 0), numbers(1, 2, 0, 0), 1, 4, 1.0), "Element 0 waited: 2 + 1 is larger than 2, so it is sent now."),
        Example((numbers(2, 0, 0, 0), numbers(0.5, 2, 0, 0), 1, 4, 0.5), "The old error fades to 1, so element 0 has 1.5, and element 1 is sent."),
        Example((NONE, numbers(4, 3, 1, 2), 1, 2, 1.0), "Two chunks, one element of each: 4 and 2, although 3 is larger than 2. Both fall into one bin, whose mean is 3, so 1 and −1 are kept of them."),
        Example((NONE, numbers(2, 2, -2, 1), 2, 4, 1.0), "Three are equal in magnitude. The two of the lowest index go."),
        Example((np.zeros(5), numbers(4, 3, 2, 1, 8), 1, 2, 1.0), "The last chunk is shorter: its only element is sent. The three chosen numbers have a bin each, so they stay as they are."),
        Example((NONE, numbers(0, 0, 3, 1), 1, 2, 1.0), "A chunk of zeros sends an element, too: the one of the lowest index. It shares a bin with the 3, so both become 1.5."),
        Example((np.zeros(6), numbers(1, 1.25, 8, 8.5, -7, -7.5), 6, 6, 1.0), "All are sent, on few values. What a value is off by is kept, too."),
    ),
    boundary=cases,
    properties=(Property("sent and kept add up to decay · error + delta, to the last bit", large, nothing_is_lost),),
    mistakes=(
        mistake("what is sent leaves nothing behind: the error of its value is lost", KEPT, "return sent, np.where(chosen, 0.0, total)"),
        mistake("what is not sent is lost", KEPT, "return sent, np.where(chosen, total - sent, 0.0)"),
        mistake("the old error is not used", TOTAL, "total = 1.0 * delta"),
        mistake("the old error does not fade", TOTAL, "total = error + delta"),
        mistake("the new Δ fades, too", TOTAL, "total = decay * (error + delta)"),
        mistake("Δ fades, and not the error", TOTAL, "total = error + decay * delta"),
        mistake("an average: the new Δ enters with 1 − decay", TOTAL, "total = decay * error + (1 - decay) * delta"),
        mistake("what is kept fades now, and once more in the next round", KEPT, "return sent, decay * (total - sent)"),
        mistake("the largest numbers are chosen, not the largest magnitudes", ORDER, 'np.argsort(-total[first : first + chunk], kind="stable")'),
        mistake("elements are chosen by Δ alone, before the error is added", ORDER, 'np.argsort(-np.abs(delta[first : first + chunk]), kind="stable")'),
        mistake("the zeros between the chosen numbers take part in the four values", VALUES, "sent[chosen] = total[chosen]\n    sent = four_values(sent)"),
        mistake("of equal ones, the higher index goes first", CHOSEN, "order = np.argsort(np.abs(total[first : first + chunk]), kind=\"stable\")[::-1]\n        chosen[first + order[:k]] = True"),
        mistake("all that are as large as the last chosen one are sent, too", CHOSEN, "part = np.abs(total[first : first + chunk])\n        chosen[first : first + chunk] = part >= part[order[:k][-1]]"),
        mistake("one choice for the whole layer: as many as the chunks could send, wherever they are", CHUNKS, "range(0, total.size, total.size)", CHOSEN, "chosen[order[: sum(min(k, total.size - i) for i in range(0, total.size, chunk))]] = True", "[first : first + chunk]", ""),
        mistake("the last, shorter chunk sends nothing", CHUNKS, "range(0, total.size - chunk + 1, chunk)"),
        mistake("zeros are not sent, so a chunk of zeros has no place in the message", VALUES, "chosen &= total != 0\n    sent[chosen] = four_values(total[chosen])"),
        mistake("each chunk has four values of its own", VALUES, "for first in range(0, total.size, chunk):\n        own = np.flatnonzero(chosen[first : first + chunk]) + first\n        sent[own] = four_values(total[own])"),
        mistake("the four values are made of the whole layer, not of the chosen numbers", VALUES, "sent[chosen] = four_values(total)[chosen]"),
        mistake("the chosen numbers are sent as they are", VALUES, "sent[chosen] = total[chosen]"),
        mistake("what is kept is Δ less what is sent: the old error is forgotten", KEPT, "return sent, delta - sent"),
    ),
    hints=(
        "Take error = (2, 0, 0, 0), delta = (0.5, 2, 0, 0), decay = 0.5, k = 1 and one chunk of 4. The sum is (1.5, 2, 0, 0). Element 1 is sent, and 1.5 waits in element 0. In the next round it counts half.",
        "np.argsort sorts from small to large and gives indices. With kind=\"stable\", equal numbers stay in the order of their indices, so sort the magnitudes with a minus sign, and not the reversed list. Indices in a chunk begin at 0, so add where the chunk begins.",
        "Mark what is chosen in an array of True and False, chunk by chunk. Then the four values come once, for all that is marked. At last comes what is kept. Which single subtraction gives it for chosen and other elements alike?",
    ),
)


# ---- rounds with real gradients --------------------------------------------------------------------------------------

K, CHUNK = 64, 4096
LIBRARY = 1e-5  # relative: it computes in float32
CURVES = {
    "no memory (decay 0): not arrived": (0.0, "sent"),
    "decay 0.75: not arrived": (0.75, "sent"),
    "decay 0.75: waits with the learner": (0.75, "kept"),
    "decay 1: not arrived": (1.0, "sent"),
}


@student_figure("Here what arrives after several rounds of your {name} will be drawn")
def draw_rounds(function: Callable[..., Any]) -> Any:
    """A live figure of what all pseudo-gradients together wanted and is not sent yet, round by round, and what is kept.

    Args:
        function: takes error, delta, k, chunk and decay, and returns what is sent and what is kept.
    """
    from lplab import figures

    deltas = parts_of_a_gradient()
    runs = {decay: rounds(decay) for decay, _ in CURVES.values()}
    calls = [(error, delta, K, CHUNK, decay) for decay, run in runs.items() for (error, _), delta in zip(run, deltas, strict=True)]
    found = read_results(function, calls, SPARSE_ROUND.form, sent_and_kept)
    own = {decay: found[i * len(deltas) : (i + 1) * len(deltas)] for i, decay in enumerate(runs)}
    return figures.compared_curves(
        [str(number + 1) for number in range(len(deltas))],
        {name: shares(runs[decay], [library_round(error, delta, decay) for (error, _), delta in zip(runs[decay], deltas, strict=True)], what) for name, (decay, what) in CURVES.items()},
        {name: shares(runs[decay], own[decay], what) for name, (decay, what) in CURVES.items()},
        what="share of the sum of all Δ (%)",
        name="One element of 64 in each round",
        along="round",
        tolerance=LIBRARY,
    )


def library_round(error: np.ndarray, delta: np.ndarray, decay: float) -> tuple[np.ndarray, np.ndarray]:
    """What SparseLoCo of the library sends and keeps, in float32."""
    kept = (decay * error + delta).astype(np.float32)
    indices = largest_per_chunk(kept, CHUNK, K)
    table, bins = into_bins(kept[indices], bits=2)
    kept[indices] -= table[bins]
    return (decay * error + delta) - kept, kept.astype(np.float64)


def rounds(decay: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """The error before each round, and what all rounds before it sent together."""
    found, error, arrived = [], np.zeros(parts_of_a_gradient().shape[1]), np.zeros(parts_of_a_gradient().shape[1])
    for delta in parts_of_a_gradient():
        found.append((error, arrived))
        sent, error = library_round(error, delta, decay)
        arrived = arrived + sent
    return found


def shares(run: Sequence[tuple[np.ndarray, np.ndarray]], results: Sequence[tuple[np.ndarray, np.ndarray]], what: str) -> np.ndarray:
    """How long what is "kept" is, or what is not "sent" yet, in percent of the sum of all deltas: float64 [rounds].

    Args:
        run: errors, and what arrived before each round.
        results: what is sent and kept in each round; NaN comes out where one has another shape.
        what: "sent" or "kept".
    """
    found = []
    for (_, arrived), (sent, kept), wanted in zip(run, results, np.cumsum(parts_of_a_gradient(), axis=0), strict=True):
        part = kept if what == "kept" else wanted - arrived - sent if sent.shape == wanted.shape else sent
        found.append(100 * float(np.linalg.norm(part) / np.linalg.norm(wanted)) if part.shape == wanted.shape else np.nan)
    return np.array(found)


def sent_and_kept(result: Any) -> tuple[np.ndarray, np.ndarray]:
    """What is sent and what is kept; ValueError if there are not two arrays."""
    sent, kept = result
    return as_array(sent), as_array(kept)
