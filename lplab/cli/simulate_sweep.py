"""``lplab simulate --sweep``: many designs in one call, as they are typed and as they are printed."""

import argparse
import math
import re
from pathlib import Path
from typing import Any

from lplab.cli.command import BadInputError, once
from lplab.cli.simulate_report import notes, print_notes, write_figure

RANGE = re.compile(r"([^:]+):([^:]+):(\d+)")
MAX_POINTS = 100_000


def print_sweep(args: argparse.Namespace, settings: dict[str, Any]) -> int:
    """Every combination of the values of --sweep, with ``settings`` for what is not swept."""
    need_pandas("a sweep")
    from lplab.hardware import sweep

    axes = settings | once("--sweep", map(parse_axis, args.sweep))
    points = math.prod(len(values) for values in axes.values() if isinstance(values, list))
    if points > MAX_POINTS:
        raise BadInputError(f"this sweep has {points:,} points; up to {MAX_POINTS:,} are simulated in one call")
    frame = sweep(args.workload, **axes)
    if args.html:
        write_curves(frame, args.html)
    print_sweep_notes(axes)
    frame = whole_numbers(frame)
    if args.json:
        print(frame.to_json(orient="records"))
    elif args.csv:
        print(frame.to_csv(index=False), end="")
    else:
        names = [name for name, values in axes.items() if isinstance(values, list)]
        seconds = ["step_seconds", "exposed_seconds"]
        shown = frame[[*names, *seconds, "efficiency", "throughput", "memory_bytes", "fits"]]
        print(shown.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    return 0


def need_pandas(what: str) -> None:
    """Say what needs pandas, and how to install it, where it is missing."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise BadInputError(f"{what} needs pandas: pip install 'lplab[lab]'") from None


def write_curves(rows: Any, path: Path) -> None:
    """Write the figure of a sweep: efficiency against devices. ``rows`` are its table, or what one is made of."""
    need_pandas("the figure of a sweep")
    import pandas as pd

    from lplab import figures

    write_figure(figures.sweep_curves(pd.DataFrame(rows)), path)


def parse_axis(text: str) -> tuple[str, list[Any]]:
    """A setting and its values as they are typed: a list, or first, last and how many, spread by equal factors.

    >>> parse_axis("devices=1,8"), parse_axis("compressor=none,topk"), parse_axis("bytes_per_second=1e9:1e11:3")[1]
    (('devices', [1.0, 8.0]), ('compressor', ['none', 'topk']), [1000000000.0, 10000000000.0, 100000000000.0])
    """
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise ValueError(f"--sweep takes SETTING=VALUES, got {text!r}")
    name = {"recipe": "precision", "per_node": "devices_per_node"}.get(name.replace("-", "_"), name.replace("-", "_"))
    spread = RANGE.fullmatch(values)
    if spread is None or name == "compressor":
        parts = re.split(r",(?=\s*(?:none|[a-z]+(?::|,|$)))" if name == "compressor" else ",", values)
        return name, [parse_value(part.strip()) for part in parts]
    try:
        first, last, count = float(spread[1]), float(spread[2]), int(spread[3])
    except ValueError:
        raise ValueError(f"--sweep {name}: a range is FIRST:LAST:COUNT, got {values!r}") from None
    if not (first > 0 and last > 0 and math.isfinite(last / first) and 1 < count <= MAX_POINTS):
        allowed = f"two numbers above 0 and a count from 2 to {MAX_POINTS:,}"
        raise ValueError(f"--sweep {name}: a range needs {allowed}, got {values!r}")
    spaced = (first * (last / first) ** (i / (count - 1)) for i in range(count))
    return name, [float(f"{number:.12g}") for number in spaced]  # 8, not 7.999999999999998


def parse_value(text: str) -> Any:
    """A number, true or false where it reads as one, else the word.

    >>> parse_value("64"), parse_value("true"), parse_value("topk:density=0.01")
    (64.0, True, 'topk:density=0.01')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


def print_sweep_notes(axes: dict[str, Any]) -> None:
    """The notes on all chips and recipes of a sweep."""
    from lplab.hardware import accelerators, precisions

    chips, recipes = (values if isinstance(values := axes[name], list) else [values] for name in ("chip", "precision"))
    print_notes(notes(map(accelerators.get, chips), [precisions.get(recipe) for recipe in recipes]))


def whole_numbers(frame: Any) -> Any:
    """The table with counts as whole numbers, as a single step prints them."""
    counts = [name for name in ("devices", "devices_per_node", "batch") if (frame[name] % 1 == 0).all()]
    return frame.astype(dict.fromkeys(counts, int))
