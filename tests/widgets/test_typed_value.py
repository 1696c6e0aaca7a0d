"""What people type becomes a number, and a sentence says what a format made of it."""

import math

import pytest

from lplab import formats as F
from lplab.widgets import BitPanel
from lplab.widgets.typed_value import describe_rounding, format_value, parse_number
from tests.kinds import by_kind


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.3", 0.3),
        (" .5 ", 0.5),
        ("-1e-3", -0.001),
        ("−2", -2.0),
        ("1/3", 1 / 3),
        ("-7/4", -1.75),
        ("2^-7", 2**-7),
        ("2**10", 1024.0),
        ("-2^3", -8.0),
        ("1.5*2^4", 24.0),
        ("3 × 2^(−2)", 0.75),
        ("inf", math.inf),
        ("-∞", -math.inf),
        ("0x1.8p3", 12.0),
        ("-0", -0.0),
        ("1,104", 1104.0),
        ("12,345", 12345.0),
        ("−1,000,000", -1e6),
        ("1,104.5", 1104.5),
        ("1,024/2", 512.0),
        ("3 * 2^10", 3072.0),
        ("1\u202f104", 1104.0),
        ("1\xa0000\xa0000", 1e6),
        ("65'536", 65536.0),
        ("1_104", 1104.0),
        ("\ufeff2\u200b", 2.0),
    ],
)
def test_numbers_as_people_write_them(text, value):
    assert parse_number(text) == value
    assert math.copysign(1, parse_number(text)) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "type a number"),
        ("abc", "'abc' is no number"),
        ("0,3", "a decimal point"),
        ("1,5", "a decimal point, please: 1.5"),
        ("0,375", "a decimal point, please: 0.375"),
        ("1104,25", "a decimal point, please: 1104.25"),
        ("1.104,5", "a decimal point, please: 1104.5"),
        ("1,104,5", "is no number"),
        ("1,104 000", "is no number"),
        ("1/0", "denominator"),
        ("1e999", "too large"),
        ("2^9999", "too large"),
        ("__import__('os')", "is no number"),
        ("9" * 5000, "too large"),
    ],
)
def test_bad_text_has_one_clear_line(text, message):
    with pytest.raises(ValueError, match=message) as error:
        parse_number(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", by_kind(F.names()))
def test_every_format_says_what_it_stored(name):
    for typed in (0.0, -0.0, 1e-300, 0.3, 448.0, -1e9, math.inf, -math.inf, math.nan):
        panel = BitPanel(name)
        panel.type(repr(typed))
        assert panel.note["text"], typed
        assert panel.note["tone"] in ("info", "error"), typed
        if panel.note["tone"] == "info":
            fmt = panel.format
            assert panel.note["text"] == describe_rounding(typed, float(fmt.decode(panel.pattern)), fmt)


def test_shown_numbers():
    assert [format_value(v) for v in (0.0, -0.0, 1e10, -1e-9, math.nan)] == ["0", "−0", "1 × 10¹⁰", "−1 × 10⁻⁹", "NaN"]
