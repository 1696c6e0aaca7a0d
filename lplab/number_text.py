"""Numbers as text for titles, captions and messages: short, with real minus signs, small numbers never shown as 0."""

from __future__ import annotations

import math
import re

MINUS = "\N{MINUS SIGN}"
SUPERSCRIPTS = str.maketrans("0123456789-" + MINUS, "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁻")  # for str.translate


def power(exponent: float, *, plain: bool = False) -> str:
    """A power of two with a real minus sign, for tick labels (HTML) or for alt text (``plain``).

    >>> power(-8), power(3, plain=True)
    ('2<sup>−8</sup>', '2^3')
    """
    digits = f"{exponent:.4g}".replace("-", MINUS)
    return f"2^{digits}" if plain else f"2<sup>{digits}</sup>"


def percent(share: float) -> str:
    """A share as text; only exact 0 and 1 are shown as 0 % and 100 %.

    >>> percent(0.023), percent(0), percent(1e-5), percent(0.99999), percent(1)
    ('2.3 %', '0 %', '<0.1 %', '>99.9 %', '100 %')
    """
    if math.isnan(share):
        return "no share"
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    if share < 0.0005:
        return "<0.1 %"
    if share > 0.9995:
        return ">99.9 %"
    return f"{100 * share:.1f} %"


def number(value: float, *, digits: int = 4, plain: bool = False) -> str:
    """A value as short text: powers of two as such where the decimals say nothing, a real minus sign.

    >>> number(448), number(2**-9), number(-0.1015625), number(3.4028e38), number(2**-9, plain=True)
    ('448', '2<sup>−9</sup>', '−0.1016', '3.403×10<sup>38</sup>', '2^−9')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("∞" if value > 0 else MINUS + "∞")
    fraction, exponent = math.frexp(abs(value))
    if fraction == 0.5 and not -6 <= exponent - 1 <= 13:
        return (MINUS if value < 0 else "") + power(exponent - 1, plain=plain)
    text = f"{value:.0f}" if abs(value) < 1e6 and value == int(value) else f"{value:.{digits}g}"
    mantissa, _, tens = text.replace("-", MINUS).partition("e")
    if not tens:
        return mantissa
    shown = str(int(tens.replace(MINUS, "-"))).replace("-", MINUS)
    return f"{mantissa}×10^{shown}" if plain else f"{mantissa}×10<sup>{shown}</sup>"


def decimal(value: float) -> str:
    """A number in full where it is short, else to ten digits.

    >>> decimal(0.001953125), decimal(-448.0), decimal(0.1), decimal(1 + 2**-23), decimal(3.4028234e38)
    ('0.001953125', '−448', '0.1', '1.000000119', '3.4028234×10³⁸')
    """
    if not math.isfinite(value):
        return number(value)
    text = next((t for t in (f"{value:.{d}g}" for d in range(1, 13)) if float(t) == value), f"{value:.10g}")
    if "e" in text and 1e-4 <= abs(value) < 1e9:
        text = f"{value:.0f}" if value == int(value) else text
    mantissa, _, tens = text.replace("-", MINUS).partition("e")
    return mantissa + (raised(f"×10^{int(text.partition('e')[2])}".replace("-", MINUS)) if tens else "")


def decibels(value: float, digits: int = 1) -> str:
    """A ratio in decibels as text.

    >>> decibels(31.53), decibels(31.53, digits=0), decibels(float("inf")), decibels(float("nan"))
    ('31.5 dB', '32 dB', '∞ dB', 'undefined')
    """
    if math.isnan(value):
        return "undefined"
    return f"{value:.{digits}f} dB".replace("-", MINUS).replace("inf", "∞")


def signed_percent(ratio: float, digits: int = 3) -> str:
    """A relative difference as text, with its sign.

    >>> signed_percent(0.0417), signed_percent(-0.5), signed_percent(0.0), signed_percent(1e-9)
    ('+4.17 %', '−50 %', '0 %', 'about 0 %')
    >>> signed_percent(-0.998, 2), signed_percent(12.345)
    ('−100 %', '+1,230 %')
    """
    if math.isnan(ratio):
        return "undefined"
    if 0 < abs(ratio) < 1e-6:
        return "about 0 %"
    text = f"{100 * ratio:.{digits}g}"
    text = f"{float(text):,.0f}" if "e+" in text else text
    return ("+" if ratio > 0 else "") + f"{text} %".replace("-", MINUS)


def raised(text: str) -> str:
    """Powers with raised digits, for text without HTML, or where <sup> would shift the line.

    >>> raised("from 2^−9 to 3×10^8")
    'from 2⁻⁹ to 3×10⁸'
    """
    return re.sub(r"\^(−?\d+)", lambda match: match[1].translate(SUPERSCRIPTS), text)
