"""Tables with captions: text, HTML and data frames of the same cells."""

import xml.etree.ElementTree as ElementTree

import pytest

from lplab.figures import DataTable

COLUMNS = {"format": ["e4m3fn", "e5m2"], "lost": [0.7251, 0.0102], "codes": [1256, 3], "step": [-0.125, 1e-7]}


def test_text_has_the_caption_and_aligned_columns():
    lines = repr(DataTable(COLUMNS, caption="Two formats.", formats={"lost": ".1%"})).splitlines()
    assert lines == [
        "Two formats.",
        "format    lost  codes     step",
        "e4m3fn  72.5 %  1,256   −0.125",
        "e5m2     1.0 %      3  1×10^−7",
    ]


def test_a_format_may_be_a_function_and_text_stays_text():
    table = DataTable({"who": ["a", "b"], "x": [1.5, "none"]}, formats={"x": lambda value: f"<{value}>"})
    assert table.rows() == [["a", "<1.5>"], ["b", "<none>"]]
    assert DataTable({"x": [1.5, "none"]}, formats={"x": ".2f"}).rows() == [["1.50"], ["none"]]


def test_what_is_not_finite_or_no_number_is_shown_as_it_is():
    nan, inf = float("nan"), float("inf")
    assert DataTable({"x": [nan, -inf, True]}).rows() == [["NaN"], ["−∞"], ["True"]]
    assert DataTable({"x": [inf]}, formats={"x": ".0%"}).rows() == [["∞"]]


def test_html_is_a_table_with_a_caption_and_scopes_and_escapes_text():
    html = DataTable({"a<b": ["x&y"], "n": [2]}, caption="1 < 2")._repr_html_()
    figure = ElementTree.fromstring(html)
    table = figure.find("div/table")
    assert figure.findtext("figcaption") == table.get("aria-label") == "1 < 2"
    assert [(cell.text, cell.get("scope")) for cell in table.iter("th")] == [
        ("a<b", "col"),
        ("n", "col"),
        ("x&y", "row"),
    ]
    assert [cell.text for cell in table.iter("td")] == ["2"]
    assert (
        "caption" not in DataTable({"n": [1]})._repr_html_() and "aria-label" not in DataTable({"n": [1]})._repr_html_()
    )


def test_the_frame_has_the_values_as_they_are():
    frame = DataTable(COLUMNS, formats={"lost": ".0%"}).to_frame()
    assert list(frame.columns) == list(COLUMNS) and frame["lost"].tolist() == [0.7251, 0.0102]


@pytest.mark.parametrize(
    ("columns", "formats", "message"),
    [
        ({"a": [1], "b": []}, {}, "columns must have the same length, got {'a': 1, 'b': 0}"),
        ({}, {}, "got no column"),
        ({"a": [1]}, {"c": ".1f"}, "formats names c, but the columns are a"),
    ],
)
def test_bad_tables_are_refused(columns, formats, message):
    with pytest.raises(ValueError, match=message):
        DataTable(columns, formats=formats)


@pytest.mark.parametrize(
    ("columns", "wide"),
    [
        ({f"column {k}": [k] for k in range(6)}, True),
        ({"how": ["in pairs"], "what it needs": ["a second register, four operations instead of one"]}, True),
        ({"a first column breaks between words " * 3: ["as all headings do " * 9], "n": [2]}, False),
        ({f"c{k}": [k] for k in range(9)}, False),
        ({"c": []}, False),
    ],
)
def test_a_table_that_may_be_wider_than_a_phone_can_say_to_scroll(columns, wide):
    for caption in ('A "caption"', ""):
        figure = ElementTree.fromstring(DataTable(columns, caption)._repr_html_())
        frame, line = figure.find("div"), figure.find("div/table/caption/div/span")
        assert (frame.get("role"), frame.get("aria-label")) == (("group", caption or "Table") if wide else (None, None))
        assert (line is not None) == wide == (figure.find("style") is not None)
        assert not wide or (line.text, line.get("tabindex")) == ("Scroll sideways to see all columns.", "0")
