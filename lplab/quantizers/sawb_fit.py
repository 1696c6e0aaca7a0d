"""Where SAWB's coefficients come from: the best clip for six distributions, and a straight line through them.

``python -m lplab.quantizers.sawb_fit`` prints the table for all numbers of levels beside the published coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lplab.checks import check_int
from lplab.quantizers.distributions import QUANTILES, magnitudes
from lplab.quantizers.sawb import SAWB_ROWS

LEVELS = (3, 4, 7, 8, 15, 16, 32, 127, 255)
COUNT = 20_000  # magnitudes per sample; a larger sample changes only fits above 100 levels, by a few percent


@dataclass(frozen=True)
class SawbFit:
    """A regression.

    Args:
        levels: number of levels.
        c1, c2: the fitted coefficients of α = c1·√E[w²] − c2·E|w|.
        clips: the best α of each distribution in standard deviations.
        worst_error: the largest relative error of the line at these points.
    """

    levels: int
    c1: float
    c2: float
    clips: dict[str, float]
    worst_error: float


def fit(levels: int, count: int = COUNT) -> SawbFit:
    """Fit SAWB's coefficients for a number of levels.

    For each distribution: the clip with the least squared error (:func:`best_clip`). Then least squares through the six
    points of α/E|w| against √E[w²]/E|w|, which is the form of the published regression.

    Args:
        levels: 2 to 1024.
        count: magnitudes a sample, at least 1000.

    >>> result = fit(4, count=2000)
    >>> round(result.c1, 1), round(result.c2, 1)
    (3.1, 2.1)
    """
    check_int("levels", levels, 2, 1024), check_int("count", count, 1000, 10**8)
    samples = {name: magnitudes(name, count) for name in QUANTILES}
    clips = {name: best_clip(x, levels) for name, x in samples.items()}
    mean = np.array([x.mean() for x in samples.values()])
    rms = np.array([np.sqrt((x**2).mean()) for x in samples.values()])
    alpha = np.array(list(clips.values()))
    slope, offset = np.polyfit(rms / mean, alpha / mean, 1)
    errors = np.abs((slope * rms + offset * mean) / alpha - 1)
    in_sigmas = {name: float(a / r) for (name, a), r in zip(clips.items(), rms, strict=True)}
    return SawbFit(levels, float(slope), float(-offset), in_sigmas, float(errors.max()))


def best_clip(x: np.ndarray, levels: int, tolerance: float = 1e-6) -> float:
    """The clip with the least squared error for magnitudes in rising order.

    200 clips from 0 to max|x| are tried; then three times 200 between the neighbours of the best, and so on until the
    clip is known to ``tolerance`` · max|x|.

    >>> round(best_clip(magnitudes("uniform", 10_000), 2), 3)  # half of √3
    0.866
    """
    sums = np.concatenate([[0.0], np.cumsum(x)]), np.concatenate([[0.0], np.cumsum(x * x)])
    low, high = 0.0, float(x[-1])
    while True:
        clips = np.linspace(low, high, 201)[1:]
        step = (high - low) / 200
        best = float(clips[np.argmin([squared_error(x, sums, clip, levels) for clip in clips])])
        if step <= tolerance * x[-1]:
            return best
        low, high = max(best - step, 0.0), best + step


def squared_error(x: np.ndarray, sums: tuple[np.ndarray, np.ndarray], clip: float, levels: int) -> float:
    """The mean squared error of magnitudes on ``levels`` even levels over ±clip.

    ``sums`` are the running sums of x and x². Between two thresholds everything goes to one level q, at the cost
    Σx² − 2q·Σx + n·q²: a level costs one search however many numbers there are.

    >>> x = np.array([0.2, 0.9])
    >>> round(squared_error(x, (np.array([0.0, 0.2, 1.1]), np.array([0.0, 0.04, 0.85])), 1.0, 3), 9)
    0.025
    """
    step = 2 * clip / (levels - 1)
    level = clip - step * np.arange((levels + 1) // 2)[::-1]
    cuts = np.searchsorted(x, np.concatenate([[0.0], level[:-1] + step / 2, [np.inf]]))
    total, squares = (np.diff(running[cuts]) for running in sums)
    return float((squares - 2 * level * total + level**2 * np.diff(cuts)).sum() / len(x))


def table(levels: tuple[int, ...] = LEVELS) -> str:
    """The fits as text, with the published coefficients beside them."""
    names = list(QUANTILES)
    lines = [f"{'levels':>6} {'c1':>7} {'c2':>7} {'worst':>6}  published (c1 c2)  | best clip in σ: {', '.join(names)}"]
    for result in map(fit, levels):
        known = "; ".join(f"{r.c1:g} {r.c2:g}" for r in SAWB_ROWS.values() if r.levels == result.levels)
        clips = " ".join(f"{result.clips[name]:.3f}" for name in names)
        worst = f"{100 * result.worst_error:.0f} %"
        lines.append(f"{result.levels:>6} {result.c1:>7.3f} {result.c2:>7.3f} {worst:>6}  {known or '–':<18} | {clips}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
