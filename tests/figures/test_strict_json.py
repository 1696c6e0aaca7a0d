"""What a figure sends to the browser is strict JSON: a NaN outside of an array's bytes puts a red box above it."""

import doctest
import importlib
import json
import pkgutil
from pathlib import Path

import numpy as np
import pytest
from plotly.serializers import custom_serializers

from lplab import figures
from lplab.figures import style
from tests.kinds import one_in_three

pytest.importorskip("pandas")
MODULES = [name for _, name, _ in pkgutil.iter_modules(figures.__path__, "lplab.figures.")]


def text_of(value):
    """What stays text on the wire: numpy's vectors travel as bytes beside it."""
    if isinstance(value, dict):
        return {key: text_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [text_of(each) for each in value]
    return None if isinstance(value, memoryview | bytes) else value


def strict(fig):
    """The text of a figure; ValueError for a number that JSON lacks."""
    data, layout = style.as_plain_dicts(fig)
    sent = custom_serializers["to_json"]([data, layout], None)
    return json.dumps(text_of(sent), allow_nan=False)


@pytest.mark.parametrize("module", one_in_three(MODULES))
def test_the_figures_of_every_example_are_strict_json(module, monkeypatch):
    made, apply_style = [], style.apply_style

    def recorded(*args, **named):
        made.append(apply_style(*args, **named))
        return made[-1]

    monkeypatch.setattr(style, "apply_style", recorded)
    result = importlib.import_module(module)
    draws = "style.apply_style(" in Path(result.__file__).read_text(encoding="utf-8")
    doctest.testmod(result, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert not draws or made, f"no example of {module} draws"
    for fig in made:
        assert strict(fig).startswith("[")


def test_a_number_that_json_lacks_is_found():
    for odd in (np.array([[1.0, np.nan]]), [float("inf")], np.array([1.0, float("nan")], dtype=object)):
        with pytest.raises(ValueError, match="not JSON compliant"):
            strict(style.figure([{"type": "heatmap", "z": odd}], {}))


def test_a_format_without_some_scale_is_strict_json():
    nothing = np.full(2, np.nan)
    numbers = {"E8M0": np.array([20.0, 19.0]), "E4M3": nothing}
    fig = figures.sharing_errors(["16", "32"], numbers, at=1, bits={"E8M0": [4.5, 4.25], "E4M3": nothing})
    assert strict(fig)


def test_a_ring_with_gaps_is_strict_json():
    held = np.ones((3, 4, 4), int)
    fig = figures.ring_steps(held, messages=8)
    assert strict(fig) and [*fig.data[0].z[1][3:5]] == [1, None] and [*fig.data[0].text[1][3:5]] == ["1", ""]
