"""Exercise 09.2: which elements of each bin are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.compression import AdaComp, adacomp, arrays
from lplab.exercises.checks.numbers import count_text
from lplab.exercises.lab09.residual import rows
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import SameShape
from lplab.exercises.student_figures import NotReady, as_array, read_results, student_figure
from lplab.recordings.adacomp_runs import adacomp_recording


def select(residual, gradient, bin):
    """The symbol of each element: the sign of G where |G + gradient| reaches its bin's max|G|, else 0."""
    total = residual + gradient
    boosted = total + gradient
    symbols = np.zeros(total.size)
    for start in range(0, total.size, bin):
        part = slice(start, start + bin)
        limit = np.abs(total[part]).max()
        sent = np.abs(boosted[part]) >= limit
        if limit > 0:
            symbols[part] = np.where(sent, np.sign(total[part]), 0.0)
    return symbols


BOOST, BINS = "boosted = total + gradient", "range(0, total.size, bin)"
PART, LIMIT = "part = slice(start, start + bin)", "limit = np.abs(total[part]).max()"
REACHED, SYMBOL = "sent = np.abs(boosted[part]) >= limit", "np.where(sent, np.sign(total[part]), 0.0)"


def layer(seed: int, size: int, quiet: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Residual and gradient of a layer, multiples of 1/64 so that all is exact; some elements are zero in both."""
    rng = np.random.default_rng(seed)
    residual, gradient = rng.integers(-256, 257, size) / 64, rng.integers(-64, 65, size) / 64
    dead = rng.random(size) < quiet
    return np.where(dead, 0.0, residual), np.where(dead, 0.0, gradient)


def cases() -> list[Args]:
    """Bins that divide the layer and others, longer than the layer, of one element; zero bins; signs that differ."""
    sizes = ((1, 1), (5, 2), (7, 3), (12, 4), (12, 5), (20, 7), (33, 16), (6, 50), (9, 1))
    each = [(*layer(seed, size), bin) for seed, (size, bin) in enumerate(sizes)]
    zero = np.zeros(6)
    dead = np.array([0.0, 0.0, 0.0, 1.0, -2.0, 0.5])
    return [*each, (zero, zero, 3), (dead, zero, 3), (-dead, 0.25 * dead, 2), (zero, dead, 3)]


def many() -> list[Args]:
    """Whole layers."""
    return [(*layer(seed, 2000, 0.4), bin) for seed, bin in ((2018, 50), (2019, 64), (2020, 500), (2021, 1999))]


def agrees_with_the_library(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether exactly those are sent that lplab.compression.AdaComp sends."""
    for args, yours in zip(calls, map(np.asarray, results), strict=True):
        residual, gradient, bin = args
        found = adacomp.adacomp_select_arrays(residual.astype(np.float32), gradient.astype(np.float32), AdaComp(bin), bin)
        expected = np.zeros(residual.size)
        expected[found.indices] = np.where(found.negative, -1.0, 1.0)
        wrong = int((yours != expected).sum())
        if wrong:
            mine, theirs = int(np.count_nonzero(yours)), int(np.count_nonzero(expected))
            text = f"Of {count_text(residual.size)} elements in bins of {bin} yours sends {count_text(mine)}, AdaComp {count_text(theirs)}"
            return Finding(f"{text}; {count_text(wrong)} symbols differ.", args, mine)
    return None


def show(args: Args) -> str:
    """Short layers in full."""
    residual, gradient, bin = args
    if residual.size > 12:
        return f"a layer of {residual.size} elements, bin = {bin}"
    return f"residual = {rows(residual)}, gradient = {rows(gradient)}, bin = {bin}"


def why(args: Args, expected: Any) -> str:
    """G, H and the limits, of short layers."""
    residual, gradient, bin = args
    if residual.size > 12:
        return ""
    total = residual + gradient
    limits = arrays.bin_maxima(total, bin)
    return f"G = {rows(total)}, H = {rows(total + gradient)}; the largest |G| of each bin: {rows(limits)}."


def numbers(*values: float) -> np.ndarray:
    """A vector."""
    return np.array(values, np.float64)


SELECT = Exercise(
    id="09.2",
    version=1,
    title="Each bin decides",
    goal="Goal 2: choose what is worth sending, bin by bin",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `select(residual, gradient, bin)` for a layer that lies flat in two arrays. With $G=\text{residual}+\text{gradient}$ and $H=G+\text{gradient}$, cut the layer into bins of `bin` consecutive elements; the last one may be shorter. In each bin, $m=\max|G|$; an element is sent if $|H|\ge m$ (the threshold of its own bin; equal is enough). Return an array of floats: the **sign of G** of the elements that are sent,
        0 for the others. A bin in which all G are zero sends nothing. A bin in which no |H| reaches m sends nothing, either: that is AdaComp as we read it.
    """,
    reference=select,
    form=SameShape(0),
    signed_zero=False,
    show=show,
    why=why,
    examples=(
        Example((numbers(1, 4, 2, 1), numbers(0, 0, 0, 0), 2), "Without a gradient H is G: each bin sends its largest element."),
        Example((numbers(3, 3.5, 0, 1), numbers(1, 0.5, 0, 1), 4), "G = 4, 4, 0, 2: two elements are the largest, and both pass."),
        Example((numbers(4, 2.5, 1), numbers(0, 1, 0.5), 3), "The soft threshold: G = 3.5 is not the largest, but with the gradient once more it passes 4."),
        Example((numbers(-4, 1, 0, 8), numbers(0, 0, 0, 0), 2), "Magnitudes count, and the sign travels: −1 and +1."),
        Example((numbers(4, 1, 1), numbers(-1, 0, 0), 3), "The largest, G = 3, is on its way down: |H| = 2 does not reach 3, and nothing else does. Nothing is sent."),
        Example((numbers(1, 0), numbers(-0.875, 0.03125), 2), "G = 0.125 and H = −0.75: sent, with the sign of G, +1."),
        Example((numbers(0, 0, 5), numbers(0, 0, 0), 2), "A bin of zeros sends nothing; the last bin has one element."),
        Example((numbers(100, 1, 2, 0.5), numbers(0, 0, 0, 0), 2), "Every bin has its own threshold: 2 is sent, although 100 is in the same layer."),
    ),
    boundary=cases,
    properties=(Property("whole layers agree with the library's AdaComp", many, agrees_with_the_library),),
    mistakes=(
        mistake("one threshold for the whole layer", LIMIT, "limit = np.abs(total).max()"),
        mistake("the threshold is the largest |H|, not |G|: only the maxima of H are sent", LIMIT, "limit = np.abs(boosted[part]).max()"),
        mistake("the hard threshold: |G| is compared, so that only maxima are sent", REACHED, "sent = np.abs(total[part]) >= limit"),
        mistake("more than the threshold, not at least", REACHED, "sent = np.abs(boosted[part]) > limit"),
        mistake("H with its sign is compared: negative elements are never sent", REACHED, "sent = boosted[part] >= limit"),
        mistake("the largest G with its sign is the threshold", LIMIT, "limit = max(total[part].max(), 0.0)"),
        mistake("the threshold is the mean of the bin, not its maximum", LIMIT, "limit = np.abs(total[part]).mean()"),
        mistake("G itself is sent, not its sign", SYMBOL, "np.where(sent, total[part], 0.0)"),
        mistake("a 1 is sent, whatever the sign of G", SYMBOL, "np.where(sent & (total[part] != 0), 1.0, 0.0)"),
        mistake("the threshold is the largest residual, without the gradient", LIMIT, "limit = np.abs(residual[part]).max()"),
        mistake("the sign of H is sent", SYMBOL, "np.where(sent, np.sign(boosted[part]), 0.0)"),
        mistake("the sign of the gradient is sent", SYMBOL, "np.where(sent, np.sign(gradient[part]), 0.0)"),
        mistake("the residual is boosted instead of the gradient", BOOST, "boosted = total + residual"),
        mistake("the gradient is added twice more: s = 3", BOOST, "boosted = total + 2 * gradient"),
        mistake("zero counts as positive, and a bin of zeros is sent whole", SYMBOL, "np.where(sent, np.where(total[part] < 0, -1.0, 1.0), 0.0)", "        if limit > 0:\n    ", "        if limit >= 0:\n    "),
        mistake("every bin sends its largest, whatever H says", REACHED, "sent = (np.abs(boosted[part]) >= limit) | (np.abs(total[part]) == limit)"),
        mistake("one element a bin: the largest |H| alone", REACHED, "sent = (np.abs(boosted[part]) >= limit) & (np.arange(total[part].size) == np.abs(boosted[part]).argmax())"),
        mistake("the last, shorter bin is left out", BINS, "range(0, total.size - bin + 1, bin)"),
        mistake("bin is taken for the number of bins", BINS, "range(0, total.size, -(-total.size // bin))", PART, "part = slice(start, start + -(-total.size // bin))"),
        mistake("the elements of a bin lie apart instead of side by side", BINS, "range(-(-total.size // bin))", PART, "part = slice(start, None, -(-total.size // bin))"),
    ),
    hints=(
        "Write G and H of the missed layer below each other and draw a line between the bins. In each bin: what is the largest |G|? Which |H| reach it?",
        "One loop over the starts of the bins, range(0, size, bin); a slice may go beyond the end of the array. The threshold comes from G, the comparison uses H, the sign is that of G.",
        "Three arrays, and one that is cut at the wrong place or in the wrong role gives a plausible result: of which is the largest taken, which one is compared with it, and whose sign is sent? And a bin of zeros: 0 reaches its largest, 0, so what must be asked beside?",
    ),
)


LAYER, MOMENT = "convolution", 237
SHOWN = 200  # elements: four bins of 50


@student_figure("Here what your {name} sends of a real layer will be drawn")
def draw_selection(function: Callable[..., Any]) -> Any:
    """A live figure of four bins of a real layer, with crosses where a function selects otherwise than the library.

    Args:
        function: takes residual, gradient and the length of a bin, and returns symbols −1, 0 and 1.
    """
    from lplab import figures

    window = adacomp_recording().window(LAYER, MOMENT)
    r, g, sent, limit = (x[:SHOWN] for x in (window.residual, window.gradient, window.sent, window.limit))
    (yours,) = read_results(function, [(r, g, window.bin)], SELECT.form, as_array)
    if np.shape(yours) != r.shape:
        raise NotReady(f"it returns an array of shape {np.shape(yours)}; one of shape {r.shape} is needed")
    return figures.adacomp_bins(r, g, sent, limit, window.scale, bin=window.bin, yours=yours)
