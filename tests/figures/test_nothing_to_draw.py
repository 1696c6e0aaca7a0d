"""What has nothing to draw, or too little, is refused in one sentence that says what is needed."""

import numpy as np
import pytest

from lplab import figures

LENGTH = "must be of one length, at least one"


@pytest.mark.parametrize(("draw", "text"), [
    (lambda: figures.adacomp_bins([], [], [], [], 1.0, bin=2), LENGTH),
    (lambda: figures.tile_energy([], [], []), LENGTH),
    (lambda: figures.tile_energy([1, 2], [1.0, 1.0], [2.0, 1.0], ([1.0], [2.0])), LENGTH),
    (lambda: figures.bucket_times([], [], [], backward_seconds=1.0), LENGTH),
    (lambda: figures.union_growth([], [], [], 0.1), LENGTH),
    (lambda: figures.ring_steps(np.zeros((2, 0, 3)), messages=0), r"held must be .* got shape \(2, 0, 3\)"),
    (lambda: figures.layer_scales({"a": []}), "one sequence for each layer"),
    (lambda: figures.layer_scales({}), "one sequence for each layer"),
    (lambda: figures.grid_errors([], {}, {}, what="error", limits=(0, 1)), "at least one scale is needed"),
    (lambda: figures.time_parts({}), "at least one row is needed"),
    (lambda: figures.energy_parts({}), "at least one row is needed"),
    (lambda: figures.published_runs([]), "at least one"),
    (lambda: figures.carbon_by_place({}, []), "at least one precision"),
    (lambda: figures.scaling([]), "give 1 to 4 curves"),
    (lambda: figures.compare([], []), "at least one format is needed"),
    (lambda: figures.stacked(), "at least one figure is needed"),
])  # fmt: skip
def test_it_is_refused(draw, text):
    with pytest.raises(ValueError, match=text):
        draw()


@pytest.mark.filterwarnings("error")
def test_a_row_without_time_is_told_without_a_division():
    fig = figures.time_parts({"a": {"compute": 1.0}, "b": {}})
    assert fig.layout.meta["title"] == "b takes no time"
