"""The explorer of sums: every control over its whole range, and the numbers are the library's."""

import numpy as np
import pytest

from lplab import arithmetic
from lplab.claims.papers.wang_2018 import numbers
from lplab.widgets import SumExplorer
from lplab.widgets.explorers.sum_explorer import PRESETS, SumState, summary


@pytest.fixture(scope="module")
def explorer():
    return SumExplorer()


def test_the_first_figure_makes_the_point():
    shown = SumExplorer()
    assert shown.figure.layout.meta["title"] == "Sum 4,096 of 65,565 (93.8 % off)"
    assert "steps of 8; the largest of the numbers is 2.73" in shown.summary.value


@pytest.mark.parametrize(("position", "text"), [
    ({"mean": -1.0}, "the largest magnitude of the numbers is 2.73."),
    ({"chunk": 64}, "the largest sum of a chunk is 89.5. Chunks: 1,024 of 64."),
    ({"chunk": 64, "mean": -1.0}, "the largest magnitude of the sum of a chunk is 90. Chunks: 1,024 of 64."),
    ({"chunk": 65_536}, "the largest of the numbers is 2.73."),
])  # fmt: skip
def test_the_line_names_what_is_largest_and_chunks_where_there_are_some(position, text):
    assert summary(SumState(**position)).endswith(text)


@pytest.mark.parametrize("name", ["chunk", "preset", "mean", "spread"])
def test_every_control_reaches_its_ends(explorer, name):
    explorer.reset()
    control = explorer.controls[name]
    values = [v[1] if isinstance(v, tuple) else v for v in getattr(control, "options", ())] or [
        control.min,
        control.max,
    ]
    seen = set()
    for value in values:
        control.value = value
        assert getattr(explorer.position, name) == value and explorer.error_line.value == ""
        seen.add((explorer.figure.alt, explorer.figure.layout.meta["title"]))
    assert len(seen) > 1, "it changes the figure"
    explorer.reset()
    assert control.value == getattr(SumState(), name)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("chunk", [1, 64])
def test_copied_code_gives_the_sum_of_the_figure(explorer, preset, chunk):
    explorer.set(preset=preset, chunk=chunk)
    names, drawn = {"arithmetic": arithmetic, "numbers": numbers}, float(explorer.figure.data[1].y[-1])
    value = float(eval(explorer.position.code, names))
    if "stochastic" in preset:  # other random bits: a single sum has a standard deviation of 3 %
        mean = np.mean([eval(explorer.position.code, names) for _ in range(9)])
        assert abs(mean - drawn) < 0.1 * drawn
    else:
        assert value == drawn or (np.isinf(value) and np.isnan(drawn))


def test_only_the_register_moves_with_the_chunk(explorer):
    explorer.reset()
    before = [explorer.figure.data[0].y.copy(), explorer.figure.layout.yaxis.range]
    explorer.set(chunk=64)
    assert before[1] == explorer.figure.layout.yaxis.range
    np.testing.assert_array_equal(before[0], explorer.figure.data[0].y)
    assert explorer.controls["chunk"].value == 64


def test_copying_shows_the_code_and_overflow_is_said():
    shown = SumExplorer(preset="fp16 (1-5-10)", chunk=64)
    shown.copy_button.click()
    assert shown._control_group.clipboard["text"] == shown.copied_code(shown.position)
    shown.set(chunk=128)
    assert "chunk=128" in shown.code_line.value
    over = summary(SumState(preset="fp16 (1-5-10)", chunk=64))
    assert over.startswith("The largest number of fp16 is 65,504: the sum has overflowed.")


@pytest.mark.parametrize(("wrong", "message"), [
    ({"preset": "fp4"}, "unknown preset 'fp4'; allowed: 1-6-9"),
    ({"chunk": 3}, "chunk must be a power of two from 1 to 65,536, got 3"),
    ({"mean": 5.0}, "mean must be from -1 to 2, got 5.0"),
    ({"spread": -1.0}, "spread must be from 0 to 2"),
])  # fmt: skip
def test_values_that_are_not_allowed_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        SumExplorer(**wrong)
