"""Lab 09's bin, step by step: the slider moves the figure, and the residual of a step is the next one's."""

import itertools

import numpy as np

from lplab.compression import AdaComp, exchange
from lplab.labs import lab09


def test_the_residual_that_is_left_is_where_the_next_step_begins():
    steps = lab09.bin_story()
    for (residual, gradient, message), (following, *_) in itertools.pairwise(steps):
        np.testing.assert_array_equal(residual + gradient - message, following)


def test_the_messages_are_those_that_a_learner_would_send():
    bin = AdaComp(8)
    state = bin.init((8,))
    for _, gradient, message in lab09.bin_story():
        np.testing.assert_array_equal(exchange(bin, [gradient], [state]), message)
        state.commit()


def test_the_slider_moves_the_figure():
    box = lab09.one_bin()
    slider, figure = box.children[:2]
    slider.value = 3
    assert figure.layout.meta["title"] == "Step 3. Nothing is sent: no |H| reaches 0.75"
    assert not figure.data[4].y.any() and (slider.min, slider.max) == (1, 4)


def test_tables_speak_of_the_same_layers():
    rates, threshold = lab09.rates().columns, lab09.one_threshold().columns
    assert rates["layer"][-1] == "dense" and round(100 * rates["sent"][-1], 1) == 1.4
    sent = sum(share * size for share, size in zip(threshold["sent"], threshold["elements"], strict=True))
    assert abs(sent / sum(threshold["elements"]) - 0.01) < 1e-4, "the largest 1 % of all"
