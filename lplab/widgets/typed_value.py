"""Numbers that a user types: parsed, formatted, and a sentence about what a format rounds them to."""

import math
import re
from fractions import Fraction
from typing import Any

from lplab.number_text import SUPERSCRIPTS

_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u2060\ufeff"))  # zero-width characters, which come with copied text
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_POWER = re.compile(rf"^(?:({_NUMBER})\s*[*×·]\s*)?([+-]?)2\s*(?:\^|\*\*)\s*\(?([+-]?\d{{1,4}})\)?$")
_THOUSANDS = re.compile(r"(?<![\w.,'])([1-9]\d{0,2})([,' ])(\d{3}(?:\2\d{3})*)(?![\w,'])")
_DECIMAL_COMMA = re.compile(r"^[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+),\d+$")
_FRACTION = re.compile(rf"^({_NUMBER})\s*/\s*({_NUMBER})$")


def parse_number(text: str) -> float:
    """Parse a number in usual notation: 0.3, -1e-3, 1/3, 2^-7, 1.5 * 2^4, inf, nan, 0x1.8p3, 1,104.

    As in the labs, a comma between groups of three digits separates thousands; so does a blank or an apostrophe. Any
    other comma may stand for a decimal point, and is asked about.

    Raises:
        ValueError: the text is none of these; the message has examples.

    >>> parse_number("1/3"), parse_number("1.5 × 2^−4"), parse_number(" -inf ")
    (0.3333333333333333, 0.09375, -inf)
    >>> parse_number("1,104"), parse_number("-1 000 000.5")
    (1104.0, -1000000.5)
    >>> parse_number("0,3")
    Traceback (most recent call last):
    ...
    ValueError: a decimal point, please: 0.3
    """
    clean = " ".join(text.translate(_INVISIBLE).split()).replace("−", "-").replace("∞", "inf").replace("’", "'")
    if not clean:
        raise ValueError("type a number, such as 0.3, 1/3, 2^-7 or inf")
    try:
        return _read(_THOUSANDS.sub(lambda found: found[1] + found[3].replace(found[2], ""), clean))
    except OverflowError:
        raise ValueError(f"{text.strip()} is too large, even for a 64-bit float") from None
    except ZeroDivisionError:
        raise ValueError("a fraction needs a denominator other than 0") from None
    except ValueError:
        if _DECIMAL_COMMA.match(clean):
            raise ValueError(f"a decimal point, please: {clean.replace('.', '').replace(',', '.')}") from None
        raise ValueError(f"{text.strip()[:40]!r} is no number; try 0.3, 1/3, 2^-7 or inf") from None


def _read(clean: str) -> float:
    if power := _POWER.match(clean):
        factor, sign, exponent = power.groups()
        return math.ldexp(float(factor or 1), int(exponent)) * (-1 if sign == "-" else 1)
    if fraction := _FRACTION.match(clean):
        return float(Fraction(fraction[1]) / Fraction(fraction[2]))
    if clean.lower().startswith(("0x", "-0x", "+0x")):
        return float.fromhex(clean)
    value = float(clean)
    if math.isinf(value) and "inf" not in clean.lower():
        raise OverflowError
    return value


def format_value(value: float) -> str:
    """Return a value as text, up to nine digits, with a real minus sign.

    >>> format_value(-0.3125), format_value(float("inf")), format_value(2**-24)
    ('−0.3125', '∞', '5.96046448 × 10⁻⁸')
    """
    text = f"{value:.9g}".replace("inf", "∞").replace("nan", "NaN").replace("-", "−")
    mantissa, _, exponent = text.partition("e")
    return (
        f"{mantissa} × 10{exponent.lstrip('+').replace('−0', '−').lstrip('0').translate(SUPERSCRIPTS)}"
        if exponent
        else text
    )


def describe_rounding(typed: float, stored: float, fmt: Any) -> str:
    """Describe what a format rounds a number to.

    >>> from lplab.formats import get
    >>> describe_rounding(0.3, 0.3125, get("e4m3fn"))
    '0.3 is stored as 0.3125, error +4.2 %'
    >>> describe_rounding(1000.0, 448.0, get("e4m3fn"))
    '1000 is stored as 448, the largest value: saturated'
    """
    if typed == stored or (math.isnan(typed) and math.isnan(stored)):
        return f"{format_value(typed)} is stored exactly"
    start = f"{format_value(typed)} is stored as {format_value(stored)}"
    if not math.isfinite(stored):
        return f"{start}: " + ("overflow" if math.isfinite(typed) else "the format has nothing closer")
    if typed > fmt.max or typed < fmt.min:
        return f"{start}, the {'largest' if stored > 0 else 'lowest'} value: saturated"
    if stored == 0:
        return f"{start}: too small, flushed to zero"
    if typed == 0:
        return f"{start}: the format has no zero"
    return f"{start}, error {100 * (stored - typed) / typed:+.2g} %".replace("-", "−")
