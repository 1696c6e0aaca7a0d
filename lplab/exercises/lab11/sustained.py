"""Exercise 11.3: what a chip sustains over a whole step, beside its peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE, close_to
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import read_results, student_figure


def sustained(operations, nbytes, others, peak, bandwidth):
    """Operations a second over the whole step, and their share of the peak."""
    computing, moving = operations / peak, nbytes / bandwidth
    step = np.maximum(computing, moving).sum() + others
    rate = operations.sum() / step
    return rate, rate / peak


STEP, RATE = "np.maximum(computing, moving).sum() + others", "operations.sum() / step"


def chips() -> list[tuple[float, float]]:
    """Peak and bandwidth: RaPiD's four chips, an H100 in 16 and 8 bits, a small processor."""
    return [(768e12, 1.6e12), (989e12, 3.35e12), (1979e12, 3.35e12), (0.3e12, 20e9)]


def network_cases() -> list[Args]:
    """Networks of a few products on both sides of the ridge, with and without other work."""
    rng = np.random.default_rng(3)
    cases: list[Args] = []
    for peak, bandwidth in chips():
        for count in (1, 2, 6):
            moved = rng.uniform(1e6, 1e9, count)
            work = moved * (peak / bandwidth) * 2.0 ** rng.uniform(-5, 5, count)
            cases += [(work, moved, share * float((moved / bandwidth).sum()), peak, bandwidth) for share in (0.0, 0.3, 3.0)]
    return cases


def halves() -> list[Args]:
    """One network and the same with half the bytes, then with twice the peak as well."""
    work, moved = np.array([8e12, 4e12, 1e11, 2e11]), np.array([4e9, 4e9, 4e9, 6e9])
    return [(work, moved, 0.01, 500e12, 2e12), (work, moved / 2, 0.01, 500e12, 2e12), (work, moved / 2, 0.01, 1000e12, 2e12)]


def faster_but_less_of_it(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether fewer bytes and a higher peak make the step faster, while the share of the peak falls."""
    (plain, _), (lighter, before), (faster, after) = ((float(a), float(b)) for a, b in results)
    if not plain < lighter < faster:
        text = f"Half the bytes, then twice the peak as well: {plain / 1e12:.4g}, {lighter / 1e12:.4g}, {faster / 1e12:.4g}"
        return Finding(f"{text} Tera-operations a second; each must be more than the one before.", calls[1])
    if not after < before:
        return Finding(f"With twice the peak the share of it must fall: {before:.1%} and {after:.1%}.", calls[2])
    return None


def show_network(args: Args) -> str:
    """The products in words."""
    operations, nbytes, others, peak, bandwidth = args
    each = ", ".join(f"{short(o)} on {short(b)} {'byte' if b == 1 else 'bytes'}" for o, b in zip(operations[:3], nbytes[:3], strict=True))
    more = f" and {len(operations) - 3} more" if len(operations) > 3 else ""
    return f"operations: {each}{more}; others = {others:.3g} s, peak = {short(peak)}, bandwidth = {short(bandwidth)}"


def short(value: float) -> str:
    """A number of three digits or, up to a million, a whole one.

    >>> short(1000.0), short(4e9), short(0.25)
    ('1,000', '4e9', '0.25')
    """
    whole = abs(value) < 1e6 and float(value).is_integer()
    return f"{value:,.0f}" if whole else f"{value:.3g}".replace("e+0", "e").replace("e+", "e")


def why_sustained(args: Args, expected: Any) -> str:
    """How many products wait, and how the time is shared."""
    operations, nbytes, others, peak, bandwidth = args
    computing, moving = operations / peak, nbytes / bandwidth
    waiting = int((moving > computing).sum())
    step = float(np.maximum(computing, moving).sum()) + others
    return f"{waiting} of {len(operations)} products wait for memory; multiplying alone would take {computing.sum() / step:.0%} of the step."


SUSTAINED = Exercise(
    id="11.3",
    version=1,
    title="Sustained against peak",
    goal="Goal 3: explain why a chip sustains a fraction of its peak",
    minutes=15,
    difficulty=2,
    statement=r"""
        A step has products, one after the other. Each of them does so many `operations` and moves so many bytes of operands and results (`nbytes`; both are arrays). The step also has `others` seconds of work that is no product. In a second, the chip does at most `peak` operations and moves at most
        `bandwidth` bytes. While a product computes, its own operands stream in, so it takes the **longer** of its two times. But it cannot use the time in which another product waits. Write `sustained(operations, nbytes, others, peak, bandwidth)`. It returns the operations a second over the whole step,
        and their share of the peak.
    """,
    reference=sustained,
    form=Numbers(count=2),
    accept=close_to(sustained, ("sustained rate", "share of the peak")),
    tolerance=TOLERANCE,
    show=show_network,
    examples=(
        Example((np.array([1000.0]), np.array([1.0]), 0.0, 100.0, 10.0), "10 s of computing, 0.1 s of moving: all of the peak."),
        Example((np.array([1000.0]), np.array([400.0]), 0.0, 100.0, 10.0), "40 s of moving decide: a quarter of the peak."),
        Example((np.array([1000.0, 1000.0]), np.array([1.0, 400.0]), 0.0, 100.0, 10.0), "One after the other: 10 s and 40 s. Taken together the products would seem to need 40.1 s only."),
        Example((np.array([1000.0]), np.array([1.0]), 30.0, 100.0, 10.0), "A perfect product, and 30 s of norms and activations: a quarter of the peak."),
        Example((np.array([1000.0]), np.array([100.0]), 0.0, 100.0, 10.0), "Exactly at the ridge: both take 10 s, and all of the peak is reached."),
        Example((np.array([900.0, 100.0]), np.array([1.0, 200.0]), 1.0, 100.0, 10.0), "A tenth of the operations takes two thirds of the time."),
    ),
    boundary=network_cases,
    properties=(Property("fewer bytes and a higher peak help, and the share of the peak falls", halves, faster_but_less_of_it),),
    why=why_sustained,
    mistakes=(
        mistake("all products together compute while all others move, as if their mean intensity decided", "np.maximum(computing, moving).sum()", "max(computing.sum(), moving.sum())"),
        mistake("computing and moving never overlap", "np.maximum(computing, moving).sum()", "(computing + moving).sum()"),
        mistake("the shorter of the two times is taken", "np.maximum", "np.minimum"),
        mistake("memory is infinitely fast", "np.maximum(computing, moving).sum()", "computing.sum()"),
        mistake("what is no product takes no time", " + others", ""),
        mistake("the other work hides behind the products", STEP, "max(np.maximum(computing, moving).sum(), others)"),
        mistake("rates are averaged over the products, not weighted by time", RATE, "(operations / np.maximum(computing, moving)).mean()"),
        mistake("the share is taken of what memory allows, not of the peak", "rate / peak", "rate / min(peak, bandwidth * operations.sum() / nbytes.sum())"),
        mistake("bandwidth is taken to be bits a second", "nbytes / bandwidth", "8 * nbytes / bandwidth"),
        mistake("multiply-adds are counted, not operations", RATE, "operations.sum() / 2 / step"),
        mistake("the share comes in percent", "rate / peak", "100 * rate / peak"),
        mistake("the slowest product decides", "np.maximum(computing, moving).sum()", "np.maximum(computing, moving).max()"),
        mistake("peak and bandwidth are exchanged", "operations / peak, nbytes / bandwidth", "operations / bandwidth, nbytes / peak"),
        mistake("the seconds of the step instead of the rate", "return rate,", "return step,"),
    ),
    hints=(
        "For each product write two times: operations / peak, and nbytes / bandwidth. np.maximum takes the larger of two arrays, element by element.",
        "Add up the products' times and the others; only then divide: all operations over all seconds. The mean of rates is not the rate of the whole.",
        "Two products of 1000 operations on 1 and 400 bytes, with a peak of 100 and a bandwidth of 10: they take 10 and 40 s, so 2000 operations take 50 s. Which two numbers do you return?",
    ),
)


PUBLISHED = (102 / 768, 588 / 768)  # Venkataramani et al. 2021


@student_figure("Here your {name} will be drawn beside the library's")
def draw_sustained(function: Callable[..., Any]) -> Any:
    """A live figure of what RaPiD's training system sustains in the networks of the claim, or a line that says what it waits for.

    The function gets operations as if every one ran in 8 bits on full arrays: one at half the speed, or on half of the
    cells, counts as two. Of the share that it returns, only operations that were asked for are shown.

    Args:
        function: takes operations, bytes, other seconds, peak and bandwidth; returns operations per second and their share of the peak.
    """
    from lplab import figures
    from lplab.claims.papers.rapid_2021 import BATCH, NETWORKS, TRAINING
    from lplab.hardware import accelerators, compute

    chip = accelerators.get(TRAINING)
    peak, bandwidth = chip.peaks["fp8"], chip.memory_bytes_per_second
    networks = [compute.layer_times(name, TRAINING, "hfp8_2019", BATCH, utilization="array") for name in NETWORKS]
    networks.sort(key=lambda times: -times.share_of_peak)
    calls, real = [], []
    for times in networks:
        some = times.flops > 0
        work, others = times.compute_seconds[some] * peak, times.step_seconds - float(times.part("products"))
        calls.append((work, times.nbytes[some], others, peak, bandwidth))
        real.append(float(times.flops.sum() / work.sum()))
    yours = np.array(read_results(function, calls, SUSTAINED.form, second_of_two)) * real
    names, library = [times.workload.label for times in networks], np.array([times.share_of_peak for times in networks])
    return figures.shares(names, library, yours, name=f"RaPiD, batch {BATCH}", what="share of the peak", band=PUBLISHED)


def second_of_two(result: Any) -> float:
    """The share of the peak in a pair; ValueError if it is no pair."""
    _, share = result
    return float(share)
