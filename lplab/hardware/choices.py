"""One line of error for a name that is not there, with the names that come closest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def chosen(table: Mapping[str, T], name: object, what: str) -> T:
    """The entry of this name, capitals, spaces and underscores aside.

    Raises:
        ValueError: there is none; the message names the closest, or all.

    >>> chosen({"h100": 1, "a100": 2}, "H100", "chip")
    1
    >>> chosen({"h100": 1, "a100": 2}, "h10", "chip")
    Traceback (most recent call last):
    ...
    ValueError: there is no chip 'h10'; did you mean h100 or a100?
    """
    if name in table:
        return table[name]  # type: ignore[index]
    plain = {_plain(key): key for key in table}
    wanted = _plain(str(name))
    if wanted in plain:
        return table[plain[wanted]]
    close = [plain[key] for key in difflib.get_close_matches(wanted, list(plain), n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(table)}"
    raise ValueError(f"there is no {what} {name!r}; {hint}")


def spelled(names: Iterable[str], name: object, what: str) -> str:
    """A name as it is spelled among ``names``, capitals, spaces and underscores aside; errors as :func:`chosen`'s.

    >>> spelled(["parameter_server"], "Parameter-Server", "algorithm")
    'parameter_server'
    """
    return chosen({own: own for own in names}, name, what)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
