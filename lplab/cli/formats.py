"""``lplab formats``: the catalogue, and one format with all that is known of it."""

import argparse
import json
import math
from collections.abc import Sequence
from typing import Any

from lplab.cli.command import add_command, bad_values

COLUMNS = {  # of `lplab formats`: heading, key of Format.describe()
    "format": "name",
    "bits": "bits",
    "max": "max",
    "min normal": "smallest_normal",
    "min subnormal": "smallest_subnormal",
    "eps": "eps",
    "octaves": "dynamic_range_octaves",
    "wasted codes": "wasted_codes",
}


def add_formats(commands: Any) -> None:
    """Add ``lplab formats``."""
    text = "list the number formats, or show the figures of one"
    parser = add_command(commands, run_formats, "formats", text, "lplab formats e4m3fn --json")
    parser.add_argument("name", nargs="?", help="a name of the list, or q4.12 and the like for any fixed point")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_formats(args: argparse.Namespace) -> int:
    """Print the catalogue as a table, or one format with all that is known of it."""
    from lplab import formats

    if args.name is None:
        everything = [numbers(formats.get(name)) for name in formats.names()]
        print(json.dumps(everything, indent=1) if args.json else table(everything))
        return 0
    with bad_values():
        number_format = formats.get(args.name)
    if args.json:
        print(json.dumps(numbers(number_format), indent=1))
        return 0
    print(number_format)
    for key, value in numbers(number_format).items():
        print(f"  {key.replace('_', ' '):<22}{format_value(value)}")
    for name, number in (("4 times max becomes", 4 * number_format.max), ("infinity becomes", math.inf)):
        print(f"  {name:<22}{format_value(number_format.quantize(number))}")
    print(f"  {'in Python':<22}formats.get({number_format.name!r})")
    return 0


def numbers(fmt: Any) -> dict[str, Any]:
    """``fmt.describe()`` with None instead of NaN, which JSON does not know."""
    return {key: None if value != value else value for key, value in fmt.describe().items()}


def format_value(value: Any) -> str:
    """A number as text, and a dash for what does not apply.

    >>> format_value(0.001953125), format_value(448.0), format_value(None)
    ('0.00195312', '448', '-')
    """
    return "-" if value is None else f"{value:.6g}" if isinstance(value, int | float) else str(value)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows under the headings of ``COLUMNS``: the name to the left, numbers to the right."""
    cells = [list(COLUMNS), *([format_value(row.get(key)) for key in COLUMNS.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    return "\n".join(lines)
