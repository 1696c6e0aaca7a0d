"""The table of published numbers: every graded row holds with its tolerance, and the forms in which it is shown."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lplab.claims import published_numbers
from lplab.claims.papers.ddl_model import ddl_efficiency
from lplab.claims.published_numbers import compression, numbers_page
from lplab.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "numbers.md"
BY_ID = {row.id: row for row in published_numbers.ROWS}
TOY = published_numbers.Published("T99", "toys", "two", 4.0, "t", "relative", 1.0, "A", "us", lambda: 4.0)


def ids_where(condition):
    return [row.id for row in published_numbers.ROWS if condition(row)]


@pytest.mark.parametrize("id_", ids_where(lambda row: row.grade != "C" and not row.untestable and not row.cannot_hold))
def test_a_graded_row_holds(id_):
    row = BY_ID[id_]
    ours = row.ours()
    assert row.holds(ours), f"{row.what}: published {row.published}, ours {ours}, allowed {row.allowed}"


@pytest.mark.parametrize("id_", ids_where(lambda row: row.cannot_hold))
def test_a_row_that_cannot_hold_is_outside_and_says_why(id_):
    row = BY_ID[id_]
    assert not row.holds(row.ours()), "it holds after all: take the explanation away"
    assert len(row.cannot_hold) > 40 and row.record()["verdict"] == "not held (explained)"


@pytest.mark.parametrize("id_", ids_where(lambda row: row.untestable))
def test_a_row_without_a_value_says_why(id_):
    record = BY_ID[id_].record()
    assert record["ours"] is None and record["verdict"] == "not testable here" and len(record["note"]) > 30


@pytest.mark.parametrize("id_", ids_where(lambda row: row.grade == "C"))
def test_what_is_recalled_is_printed_and_gates_nothing(id_):
    assert BY_ID[id_].record()["verdict"].startswith("printed")


def test_all_rows_of_the_dossier_are_there_once():
    assert {row.number for row in published_numbers.ROWS} == set(range(1, 58))
    assert len(BY_ID) == len(published_numbers.ROWS)
    assert {row.number for row in published_numbers.ROWS if row.untestable} == {25, 26, 27, 50, 56}


# ---- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "inside", "outside"), [
    ({}, 4.04, 4.05),
    ({"bound": "absolute", "tolerance": 0.5}, 3.5, 3.4),
    ({"bound": "exact", "tolerance": 0}, 4.0 + 1e-12, 4.0001),
    ({"bound": "at most", "tolerance": 0}, -7.0, 4.1),
    ({"bound": "at least", "tolerance": 0}, 9.0, 3.9),
])  # fmt: skip
def test_bounds(changes, inside, outside):
    row = replace(TOY, **changes)
    assert row.holds(inside) and not row.holds(outside) and not row.holds(float("nan"))
    assert (row.verdict(inside), row.verdict(outside)) == ("held", "not held")
    recalled = replace(row, grade="C")
    assert (recalled.verdict(inside), recalled.verdict(outside)) == ("printed: inside", "printed: outside")
    assert replace(row, cannot_hold="because").verdict(outside) == "not held (explained)"


@pytest.mark.parametrize("changes", [{"id": "t1"}, {"grade": "D"}, {"bound": "near"}, {"tolerance": 0},
                                     {"bound": "exact"}, {"ours": None}, {"untestable": "no"}])  # fmt: skip
def test_rows_that_contradict_themselves_are_refused(changes):
    with pytest.raises(ValueError, match="T99|id of a published number"):
        replace(TOY, **changes)


@pytest.mark.parametrize(("row", "ours", "text"), [
    (TOY, 4.02, "+0.50 %"), (TOY, 3.0, "−25.0 %"), (TOY, 4.0 + 1e-9, "0 %"), (TOY, None, "–"),
    (replace(TOY, bound="absolute", unit="%"), 3.5, "−0.5 points"), (replace(TOY, published=0.0), 0.25, "+0.25 t"),
])  # fmt: skip
def test_differences(row, ours, text):
    assert row.difference(ours) == text


# ---- what is behind rows ---------------------------------------------------------------------------------------------


def test_one_port_alone_does_not_reach_95_per_cent():
    assert ddl_efficiency(ports=1) < 92 < ddl_efficiency(ports=2)


def test_the_bound_of_top_k_is_no_theorem():
    assert compression.excess(np.array([[0, 1, 1.0], [9, 1, 0.0]]), 2) > 0.4
    assert compression.contraction_excess(draws=20) <= 1e-12


def test_masks_of_different_learners_do_not_commute(monkeypatch):
    """The check can fail: with masks of its own for each learner the gap is large."""
    monkeypatch.setattr(compression, "ScaleCom", lambda chunk: compression_of(chunk))
    assert compression.commutation_gap(draws=2) > 1


def compression_of(chunk):
    from lplab.compression import TopK

    return TopK(density=1 / chunk)


# ---- forms -----------------------------------------------------------------------------------------------------------


def test_the_documentation_is_what_the_models_say(capsys):
    assert main(["claims", "numbers", "--page"]) == 0
    assert capsys.readouterr().out == PAGE.read_text("utf-8"), f"run: {numbers_page.COMMAND}"


def test_json_and_csv_carry_all_digits(capsys):
    assert main(["claims", "numbers", "t02", "T25", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["ours"] == BY_ID["T02"].ours() and second["ours"] is None
    assert main(["claims", "numbers", "T02", "T25", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert float(rows[0]["ours"]) == first["ours"] and rows[1]["ours"] == "" and list(rows[0]) == list(first)


def test_text_names_inputs_published_ours_difference_grade_and_verdict(capsys):
    assert main(["claims", "numbers", "T36"]) == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    for part in ("T36", "HELD", "grade B", "29 h on 8 GPUs", "published 90 %, ours 8", "points", "Of 1 row: 1 held"):
        assert part in text


def test_a_row_that_breaks_is_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(published_numbers, "ROWS", (replace(TOY, ours=lambda: 9.0),))
    assert main(["claims", "numbers"]) == 1
    assert "NOT HELD" in capsys.readouterr().out


def test_one_row_that_breaks_among_good_ones_is_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(published_numbers, "ROWS", (TOY, replace(TOY, id="T98", ours=lambda: 9.0)))
    assert main(["claims", "numbers"]) == 1
    assert "Of 2 rows: 1 held, 1 not held" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_an_unknown_row_is_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["claims", "numbers", "T77"])
    assert "there is no published number 'T77'" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "text"), [
    (1286.98, "1,287"), (0.000123456, "0.00012346"), (-0.5, "−0.5"), (3.1536e23, "3.15·10²³"), (1e5, "100,000"),
])  # fmt: skip
def test_digits(value, text):
    assert numbers_page.digits(value) == text
