"""The figure of the places of momentum: a row each, all seeds, and dense as the reference."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import style

LOSSES = {"behind the average": [1.0, 1.4, 1.2], "before, cleared": [0.3, 0.5, 0.4]}


def trace(fig, name):
    return next(t for t in fig.data if t.name == name)


def test_every_seed_and_every_median_stands_in_its_row():
    fig = figures.momentum_placement(LOSSES, [0.2, 0.3, 0.4])
    dots, middle, line = (trace(fig, name) for name in ("each seed", "median", "without compression"))
    assert dots.x.tolist() == [1.0, 1.4, 1.2, 0.3, 0.5, 0.4] and dots.y.tolist() == [0, 0, 0, -1, -1, -1]
    assert middle.x.tolist() == [1.2, 0.4] and middle.y.tolist() == [0, -1]
    assert set(line.x) == {0.3} and line.line.color == style.GREEN
    assert fig.layout.yaxis.ticktext[1] == "before, cleared"


def test_title_and_text_have_the_numbers():
    fig = figures.momentum_placement(LOSSES, [0.3], momentum=0.8)
    assert fig.layout.meta["title"] == (
        "Momentum 0.8 before, cleared: 0.40 bits, behind the average: 1.20 bits; without compression 0.30"
    )
    assert "behind the average 1.20; before, cleared 0.40; without compression 0.30." in fig.layout.meta["alt"]
    one = figures.momentum_placement({"behind": [1.0]}, [0.3])
    assert one.layout.meta["title"] == "Momentum 0.9 behind: 1.00 bits; without compression 0.30"


@pytest.mark.parametrize("losses", [{}, {"a": []}, {"a": [np.nan]}, {"a": [[1.0]]}])
def test_wrong_input_is_refused(losses):
    with pytest.raises(ValueError, match="at least one row is needed"):
        figures.momentum_placement(losses, [0.3])
