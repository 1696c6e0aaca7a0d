"""Lab 15: without the model a line says how to get it; its tables and its circle hold."""

import numpy as np

from lplab.labs import lab15
from lplab.quantizers import SAWB_ROWS, WeightGrid


def test_without_the_model_a_line_names_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LPLAB_DATA", str(tmp_path))
    monkeypatch.setattr(lab15, "can_be_imported", lambda package: True)
    lab15.write("w3a16:group=32")
    assert "lplab fetch smollm2" in capsys.readouterr().out  # printed, as the call stands in the body of an if


def test_without_a_package_a_line_names_it(monkeypatch, capsys):
    monkeypatch.setattr(lab15, "can_be_imported", lambda package: package != "gguf")
    lab15.write("w3a16:group=32")
    assert capsys.readouterr().out.startswith("gguf cannot be imported here")


def test_the_grid_without_zero_is_sawbs():
    """Four evenly spread levels of SAWB over −α … α, and those of ParetoQ with α = 3/4 of the largest magnitude."""
    weights = np.append(np.linspace(-0.999, 0.999, 101), 1.0)
    found = np.unique(WeightGrid(2, None, "no_zero").quantize(weights))
    row = SAWB_ROWS["2bit"]
    np.testing.assert_allclose(found, 0.75 * np.linspace(-1, 1, row.levels))
    assert lab15.two_bit_grids().columns["levels"][2] == "−0.75, −0.25, 0.25, 0.75"


def test_the_table_of_what_you_saw_has_the_question_and_first_words():
    table = lab15.what_you_saw()
    assert lab15.QUESTION in table.caption and table.columns["it writes"][0].startswith(
        "The capital of France is Paris"
    )
    assert all(len(text) <= 62 for text in table.columns["it writes"])
