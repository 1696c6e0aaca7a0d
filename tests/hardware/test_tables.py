"""Tables of published numbers: what is wrong with a file is said in one line."""

import pytest

from lplab.hardware import csv_tables

GOOD = "# a comment\nregion, grams_per_kwh, grade\nhere, 12, read\n"


def test_a_users_file(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(GOOD, encoding="utf-8")
    assert csv_tables.read(path, ["region"]) == [{"region": "here", "grams_per_kwh": "12", "grade": "read"}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("region", "place"), "lacks the column 'region'"),
        (GOOD.replace("12, read", "12"), "does not have 3 values"),
        (GOOD.replace("read\n", "read, more\n"), "does not have 3 values"),
        (GOOD.replace("read", "sure"), "unknown grade 'sure'"),
        ("region\n", "has no rows"),
    ],
)
def test_bad_files(tmp_path, text, words):
    path = tmp_path / "own.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        csv_tables.read(path, ["region"])


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="own.csv is no text in UTF-8"):
        csv_tables.read(path, ["region"])


def test_numbers():
    with pytest.raises(ValueError, match="hours must be a number of at least 0"):
        csv_tables.number({"hours": "-1"}, "hours")
    with pytest.raises(ValueError, match="hours must be a number"):
        csv_tables.number({"hours": "inf"}, "hours")
