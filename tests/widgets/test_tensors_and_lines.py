"""The tensor library, lines of text, guarded callbacks."""

import ipywidgets
import numpy as np
import pytest

from lplab.widgets.controls import ControlGroup, line, set_text, show_errors
from lplab.widgets.tensor_library import MAX_ELEMENTS, TensorLibrary, choices, nearest_name, subsample


@pytest.mark.parametrize("size", [1, MAX_ELEMENTS, MAX_ELEMENTS + 1, 10**6])
def test_thinning_is_even_and_repeatable(size):
    array = np.arange(size, dtype=np.float32)
    thin = subsample(array)
    assert 0.95 * min(size, MAX_ELEMENTS) <= thin.size <= MAX_ELEMENTS
    assert thin[0] == 0
    assert thin[-1] == size - 1
    np.testing.assert_array_equal(thin, subsample(array))


def test_every_name_has_its_choices_and_elements():
    library = TensorLibrary()
    names = library.names()
    for name in names[::7] + names[-3:]:
        assert library[name].size
        for position, options in enumerate(choices(names, name), start=1):
            for option in options:
                parts = name.split("/")
                wanted = "/".join([*parts[:position], option, *parts[position + 1 :]]) if len(parts) == 4 else name
                assert nearest_name(names, wanted, fixed=min(position, len(parts) - 1)) in names


def test_lines_hold_text_not_markup():
    widget = line("<b>")
    assert widget.value == "&lt;b&gt;"
    set_text(widget, "")
    assert widget.layout.display == "none"
    set_text(widget, "x")
    assert widget.layout.display is None


def test_guard_clears_the_line_when_all_is_well_again():
    error_line = line("")
    slider = ipywidgets.IntSlider(1)
    slider.observe(show_errors(error_line, lambda change: 1 / change["new"]), "value")
    with pytest.raises(ZeroDivisionError):
        slider.value = 0
    assert error_line.value
    slider.value = 2
    assert not error_line.value


def test_same_text_can_be_copied_twice():
    helper = ControlGroup()
    helper.copy("a")
    first = helper.clipboard
    helper.copy("a")
    assert helper.clipboard != first
