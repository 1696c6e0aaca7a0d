"""The figure of branches: what is drawn are differences of the same batch, and its words say how many seeds agree."""

import numpy as np
import pytest

from lplab import figures
from lplab.figures import style


def losses(gap=0.1, seeds=3, steps=40):
    rng = np.random.default_rng(0)
    base = rng.normal(3, 0.3, (seeds, steps))
    return {"float32": base, "one": base + gap, "two": base + gap / 2}


def trace(fig, name):
    return next(t for t in fig.data if t.name == name)


def test_batches_cancel_and_only_the_difference_is_drawn():
    fig = figures.branched_losses(losses(), before=500)
    assert np.allclose(trace(fig, "one").y, 0.1) and np.allclose(trace(fig, "two").y, 0.05)
    assert trace(fig, "one").x[0] == 501 and trace(fig, "one").x[-1] == 540
    assert not np.any(trace(fig, "float32").y) and trace(fig, "float32").line.color == style.GREEN


def test_every_seed_has_a_line_of_its_own():
    made = losses()
    made["one"][1] += 1.0
    fig = figures.branched_losses(made)
    parts = np.split(trace(fig, "one, each seed").y, 3)
    assert [round(float(np.nanmean(part)), 6) for part in parts] == [0.1, 1.1, 0.1]
    assert np.allclose(trace(fig, "one").y, 1.3 / 3)


def test_lines_are_means_of_the_steps_before():
    made = {"float32": np.zeros((1, 40)), "one": np.arange(40.0)[None]}
    y = trace(figures.branched_losses(made), "one").y
    assert y[:6].tolist() == [0, 0.5, 1, 1.5, 2.5, 3.5]


def test_the_title_counts_the_seeds_that_agree():
    made = losses()
    made["two"][0] -= 1.0
    fig = figures.branched_losses(made)
    assert fig.layout.meta["title"] == "two: −0.283 bits against float32, on 2 of 3 seeds above it"
    assert "one +0.100 bits against float32, on 3 of 3 seeds" in fig.layout.meta["alt"]


def test_a_branch_that_diverged_is_told_and_ends_its_line():
    made = losses()
    made["two"][2, 10:] = np.nan
    fig = figures.branched_losses(made)
    assert fig.layout.meta["title"].endswith("on 2 of 3 seeds above it, 1 diverged")
    assert np.isfinite(trace(fig, "two").y[:10]).all() and np.isnan(trace(fig, "two").y[10:]).all()
    made["two"][:] = np.nan
    assert "two diverged on all 3 seeds" in figures.branched_losses(made).layout.meta["alt"]


def test_a_branch_that_was_not_measured_has_no_line_and_says_so():
    fig = figures.branched_losses(losses() | {"two": None}, title="one of two")
    assert np.isnan(trace(fig, "two").y).all() and "two was not measured" in fig.layout.meta["alt"]
    assert [t.name for t in fig.data] == [t.name for t in figures.branched_losses(losses()).data], "one figure's states"


def test_a_branch_that_has_just_begun_has_the_axes_of_the_whole():
    made = {name: each[:, :5] for name, each in losses().items()}
    fig = figures.branched_losses(made, before=500, steps=40, limits=(-0.1, 0.3))
    assert fig.layout.xaxis.range == (500, 540.5) and fig.layout.yaxis.range == (-0.1, 0.3)
    assert trace(fig, "one").x.tolist() == [501, 502, 503, 504, 505]
    empty = figures.branched_losses({name: each[:, :0] for name, each in made.items()}, before=500, steps=40)
    assert "one has no step yet" in empty.layout.meta["alt"] and len(empty.data) == len(fig.data)
    with pytest.raises(ValueError, match="a branch of 4 steps cannot have 5 losses"):
        figures.branched_losses(made, steps=4)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ({}, "got none"),
        ({"one": [[1.0]]}, "'float32' and one to 4 other names are needed, got one"),
        ({"float32": [[1.0]]}, "got float32"),
        ({name: [[1.0]] for name in ("float32", *"abcde")}, "got float32, a, b, c, d, e"),
        ({"float32": [1.0], "one": [1.0]}, "at least one of each; got"),
        ({"float32": [[1.0]], "one": [[1.0, 2.0]]}, r"\(1, 1\), \(1, 2\)"),
        ({"float32": np.empty((0, 3)), "one": np.empty((0, 3))}, "at least one"),
    ],
)
def test_wrong_input_is_refused(made, text):
    with pytest.raises(ValueError, match=text):
        figures.branched_losses(made)
