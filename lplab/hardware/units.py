"""Amounts with a unit that suits their size: 1.29 GWh, 553 t, 42 mJ."""

from __future__ import annotations

import math

MINUS = "\N{MINUS SIGN}"
_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"), (1e-15, "f"))


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """A value with a prefix of thousands before its unit.

    >>> format_si(1.289e9, "Wh"), format_si(0.0423, "J"), format_si(-350.0, "W"), format_si(0, "J")
    ('1.29 GWh', '42.3 mJ', '−350 W', '0 J')
    """
    if value == 0 or not math.isfinite(value):
        return f"{grouped(value, digits)} {unit}"
    size = abs(value)
    steps = _PREFIXES if size >= 1 else _SMALL
    factor, prefix = next((step for step in steps if size >= step[0] * (1 - 0.5 * 10**-digits)), steps[-1])
    return f"{grouped(value / factor, digits)} {prefix}{unit}"


LONG_TIMES = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"))  # seconds of a unit; used from two of it on


def duration(seconds: float, digits: int = 3) -> str:
    """Seconds as ns, µs, ms or s, then as minutes, hours or days.

    >>> duration(0.0123), duration(45.0), duration(600.0), duration(157_000.0), duration(1e6)
    ('12.3 ms', '45 s', '10 minutes', '43.6 hours', '11.6 days')
    """
    for unit, word in LONG_TIMES:
        if seconds >= 2 * unit:
            return f"{grouped(seconds / unit, digits)} {word}"
    return format_si(seconds, "s", digits)


def mass(kilograms: float, digits: int = 3) -> str:
    """Kilograms as g, kg, t or kt.

    >>> mass(553_142), mass(0.0118), mass(87.09)
    ('553 t', '11.8 g', '87.1 kg')
    """
    for factor, unit in ((1e6, "kt"), (1e3, "t"), (1.0, "kg")):
        if abs(kilograms) >= factor:
            return f"{grouped(kilograms / factor, digits)} {unit}"
    return f"{grouped(kilograms * 1e3, digits)} g"


def money(value: float, sign: str = "$") -> str:
    """An amount of money, shortened beyond a thousand.

    >>> money(4_672_000), money(155.2), money(23_400)
    ('$4.67 million', '$155', '$23.4 thousand')
    """
    for factor, word in ((1e9, " billion"), (1e6, " million"), (1e4, " thousand")):
        if abs(value) >= factor:
            thousands = 1e3 if word == " thousand" else factor
            return f"{sign}{grouped(value / thousands, 3)}{word}"
    return f"{sign}{grouped(value, 3 if abs(value) >= 1 else 2)}"


def grouped(value: float, digits: int) -> str:
    """A number to some digits, never with an exponent, thousands apart.

    >>> grouped(1289.4, 3), grouped(0.01234, 3), grouped(60.0, 3)
    ('1,289', '0.0123', '60')
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return f"{value:g}".replace("inf", "∞").replace("-", MINUS)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", MINUS)
