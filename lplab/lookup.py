"""Names that users type: the entry meant, or an error that lists the closest names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


def lookup(table: Mapping[str, T], name: object, what: str) -> T:
    """The entry of this name; capitals, hyphens, spaces and underscores make no difference.

    Raises:
        ValueError: there is none; the message names the closest, or all.

    >>> lookup({"h100": 1, "a100": 2}, "H100", "chip")
    1
    >>> lookup({"h100": 1, "a100": 2}, "h10", "chip")
    Traceback (most recent call last):
    ...
    ValueError: there is no chip 'h10'; did you mean h100 or a100?
    """
    if name in table:
        return table[name]  # type: ignore[index]
    wanted = _normalized(str(name))
    for key in table:
        if _normalized(key) == wanted:
            return table[key]
    close = closest_names(name, table, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(table)}"
    raise ValueError(f"there is no {what} {name!r}; {hint}")


def canonical_name(names: Iterable[str], name: object, what: str) -> str:
    """A name as ``names`` has it; capitals, hyphens, spaces and underscores make no difference.

    Raises:
        ValueError: as :func:`lookup`.

    >>> canonical_name(["parameter_server"], "Parameter-Server", "algorithm")
    'parameter_server'
    """
    return lookup({own: own for own in names}, name, what)


def closest_names(name: object, names: Iterable[str], limit: int = 3, cutoff: float = 0.4) -> list[str]:
    """The names most similar to ``name``, best first.

    Args:
        name: what was asked for.
        names: the allowed names.
        limit: how many to return at most.
        cutoff: the least similarity (``difflib.SequenceMatcher.ratio``), from 0 to 1.

    >>> closest_names("E4M3-fn", ["e4m3", "e4m3fn", "posit8_1"])
    ['e4m3fn', 'e4m3']
    """
    by_key = {_normalized(own): own for own in names}
    return [by_key[key] for key in get_close_matches(_normalized(str(name)), by_key, limit, cutoff)]


def _normalized(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
