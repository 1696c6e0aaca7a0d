"""A student's choice and similarity: how the sum of messages grows, and how far two learners are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from lplab import number_text
from lplab.figures import axes, style, traces
from lplab.figures.compare_to_library import agreement
from lplab.figures.legend import entry, legend
from lplab.figures.many_learners import curve, formula, learners_axis, learners_word, share_axis


def union_growth(
    learners: Sequence[int], own: Sequence[float], yours: Sequence[float], density: float, *, height: int = 300
) -> go.Figure:
    """Share of the elements in the sum against the number of learners: own choices, the formula, and a function's.

    Args:
        learners: ascending.
        own: share if each learner chooses for itself, [n].
        yours: share in the sum of what a function sends, [n].
        density: share that one learner sends.
        height: in pixels.

    Raises:
        ValueError: lengths that differ.

    >>> union_growth([1, 2], [0.01, 0.018], [0.01, 0.01], 0.01).layout.meta["title"]
    'The sum of yours holds 1.0 % at 2 learners'
    """
    if not len(learners) == len(own) == len(yours) or not len(learners):
        raise ValueError("learners, own and yours must be of one length, at least one number of learners")
    x = np.log2(np.asarray(learners, np.float64))
    n = np.asarray(learners)
    data = [
        curve("own top-k", x, 100 * np.asarray(own, np.float64), n, style.VERMILION, "circle", "%"),
        formula(x, n, density),
        curve("yours", x, 100 * np.asarray(yours, np.float64), n, style.PINK, "diamond", "%"),
    ]
    text = f"The sum of yours holds {number_text.percent(float(yours[-1]))} at {learners_word(int(n[-1]))}"
    layout = {"xaxis": learners_axis(x, n), "yaxis": share_axis()}
    each_its_own, independent, of_yours = data
    entries = [entry(each_its_own, "each its own"), entry(independent, "if independent"), entry(of_yours)]
    told = ", ".join(f"{number_text.percent(float(v))} at {k}" for k, v in zip(learners, yours, strict=True))
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Share of the elements in the sum of your function's messages: {told} learners. {text}.",
        title=text,
        subtitle=legend(*entries),
        height=height,
    )


def two_distances(library: Any, yours: Any, *, height: int = 300) -> go.Figure:
    """Cosine and Hamming distance of two learners over the steps: the library's as lines, a function's as points.

    Args:
        library: [steps, 2]; NaN leaves a gap.
        yours: [steps, 2].
        height: in pixels.

    Raises:
        ValueError: shapes that differ, or no pairs.

    >>> import numpy as np
    >>> two_distances(np.zeros((4, 2)), np.zeros((4, 2))).layout.meta["title"]
    'Yours agrees at 4 of 4 steps'
    """
    expected, own = (np.asarray(values, np.float64) for values in (library, yours))
    if expected.shape != own.shape or expected.ndim != 2 or expected.shape[1] != 2 or not len(expected):
        raise ValueError(f"pairs for each step are needed, [steps, 2] twice, got {expected.shape} and {own.shape}")
    agree = np.all(np.isclose(expected, own, rtol=0, atol=1e-6, equal_nan=True), axis=1)
    x = np.arange(1, len(expected) + 1, dtype=np.float64)
    data, entries = [], []
    for i, (name, colour, dash, symbol) in enumerate(
        (
            ("cosine distance", style.BLUE, "solid", "circle-open"),
            ("Hamming distance", style.PINK, "dot", "square-open"),
        )
    ):
        line = traces.reference(name, x, expected[:, i], colour, dash)
        look, hover = traces.marker(symbol, 7, colour), "{name}<br>step   %{x}<br>value  %{y:.3g}"
        dots = traces.points(f"yours: {name}", x, own[:, i], look, hover)
        data += [line, dots]
        entries += [entry(line, f"{name.removesuffix(' distance')}, library"), entry(dots, "yours")]
    text = agreement(agree, "steps").capitalize()
    layout = {"xaxis": axes.axis(0, len(expected) + 1, "step"), "yaxis": axes.axis(-0.05, 1.3, "distance")}
    last = [f"{value:.2f}" for value in expected[-1]]
    return style.apply_style(
        style.figure(data, layout),
        alt=f"Two learners over {len(expected)} steps: at the last one cosine distance {last[0]}, Hamming distance "
        f"{last[1]}. {text}.",
        title=text,
        subtitle=legend(*entries),
        height=height,
    )
