"""Where SAWB's coefficients come from: the best clip for six distributions, and a straight line through them.

``python -m lplab.quantizers.sawb_fit`` prints the table for all numbers of levels beside the published coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lplab.checks import check_int
from lplab.quantizers.clipping import Magnitudes
from lplab.quantizers.distributions import QUANTILES, magnitudes
from lplab.quantizers.sawb import SAWB_ROWS

LEVELS = (3, 4, 7, 8, 15, 16, 32, 127, 255)
COUNT = 20_000  # magnitudes per sample; a larger sample changes only fits above 100 levels, by a few percent


@dataclass(frozen=True)
class SAWBFit:
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


def fit(levels: int, count: int = COUNT) -> SAWBFit:
    """Fit SAWB's coefficients for a number of levels.

    For each distribution: the clip with the least squared error, to a millionth of max|x|. Then least squares through
    the six points of α/E|w| against √E[w²]/E|w|, which is the form of the published regression.

    Args:
        levels: 2 to 1024.
        count: magnitudes a sample, at least 1000.

    >>> result = fit(4, count=2000)
    >>> round(result.c1, 1), round(result.c2, 1)
    (3.1, 2.1)
    """
    check_int("levels", levels, 2, 1024), check_int("count", count, 1000, 10**8)
    samples = {name: magnitudes(name, count) for name in QUANTILES}
    clips = {name: Magnitudes(x).best_clip(levels, 1e-6, reach=1, refinement=200) for name, x in samples.items()}
    mean = np.array([x.mean() for x in samples.values()])
    rms = np.array([np.sqrt((x**2).mean()) for x in samples.values()])
    alpha = np.array(list(clips.values()))
    slope, offset = np.polyfit(rms / mean, alpha / mean, 1)
    errors = np.abs((slope * rms + offset * mean) / alpha - 1)
    in_sigmas = {name: float(a / r) for (name, a), r in zip(clips.items(), rms, strict=True)}
    return SAWBFit(levels, float(slope), float(-offset), in_sigmas, float(errors.max()))


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
