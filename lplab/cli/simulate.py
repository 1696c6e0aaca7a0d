"""``lplab simulate``: a training step on simulated chips and links, or a sweep over many designs."""

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from lplab.cli.command import BadInputError, add_command, bad_values
from lplab.cli.simulate_report import notes, report

CHIP = "default: h100; a name of --list, NAME of --chips FILE, or mine: as `lplab doctor --measure` measured it"
RANGE = re.compile(r"([^:]+):([^:]+):(\d+)")
MOST_POINTS = 100_000


def add_simulate(commands: Any) -> None:
    """Add ``lplab simulate``."""
    text = "simulate a training step on a cluster: seconds, bytes, memory"
    example = "lplab simulate resnet50 --chip a100 --devices 64 --link ethernet_10g --compressor scalecom"
    parser = add_command(commands, run_simulate, "simulate", text, example)
    parser.add_argument("workload", nargs="?", default="", help="a network; --list shows all")
    parser.add_argument("--chip", default="h100", help=CHIP)
    parser.add_argument("--chips", type=Path, metavar="FILE", help="chips of your own: CSV or JSON")
    recipe_help = "bits of weights, activations, gradients (default: bf16); Python's precision="
    parser.add_argument("--recipe", "--precision", default="bf16", metavar="RECIPE", help=recipe_help)
    parser.add_argument("--devices", type=int, default=1, help="default: 1")
    parser.add_argument("--link", default="infiniband_edr", help='a name, or "100Gb/s, 2us" (default: infiniband_edr)')
    parser.add_argument("--per-node", type=int, default=1, metavar="N", help="devices that share a link (default: 1)")
    parser.add_argument("--inner-link", help="between the devices of a node, with --per-node")
    parser.add_argument("--algorithm", default="auto", help="of all-reduce (default: auto, the fastest)")
    parser.add_argument("--compressor", default="none", help="of gradients, such as topk:density=0.01")
    parser.add_argument("--batch", type=int, default=32, help="examples on each device (default: 32)")
    overlap_help = "speed of transfers while devices compute, 0 to 1 (default: 1, undisturbed)"
    parser.add_argument("--overlap", type=float, default=1.0, help=overlap_help)
    parser.add_argument(
        "--bucket", type=float, default=25.0, metavar="MIB", help="gradient sent together (default: 25)"
    )
    parser.add_argument("--sharded", action="store_true", help="each device updates one part of the weights")
    parser.add_argument("--optimizer", default="momentum", help="sgd, momentum or adam (default: momentum)")
    share_help = "share of its peak that a chip reaches, above 0 and up to 1 (default: 1, all of it)"
    parser.add_argument("--utilization", type=float, default=1.0, help=share_help)
    straggler_help = "by how much the slowest device is slower, 0.1 for 10%% (default: 0)"
    parser.add_argument("--straggler", type=float, default=0.0, help=straggler_help)
    sweep_help = "several values of a setting: devices=1,8,64 or bytes_per_second=1e9:1e11:20; can be given again"
    parser.add_argument("--sweep", metavar="SETTING=VALUES", action="append", default=[], help=sweep_help)
    add_outputs(parser)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """What is printed or written."""
    parser.add_argument("--list", action="store_true", help="list workloads, chips, recipes, links and the rest")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--csv", action="store_true", help="print CSV")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the figure: timeline, or efficiency curves")


def run_simulate(args: argparse.Namespace) -> int:
    """Simulate, print, and write the figure if one is wanted."""
    if args.list:
        return print_list(args.json)
    if not args.workload:
        raise BadInputError("name a workload, such as resnet50; --list shows all")
    if args.json and args.csv:
        raise BadInputError("choose one of --json and --csv")
    if args.html and not args.html.resolve().parent.is_dir():
        raise BadInputError(f"there is no folder {args.html.resolve().parent}")
    nodes = args.per_node > 1 or any(re.match("per.node=|devices.per.node=", text) for text in args.sweep)
    if args.inner_link and not nodes:
        raise BadInputError("--inner-link joins the devices of a node: say how many with --per-node, 2 or more")
    with bad_values():
        return print_sweep(args) if args.sweep else print_step(args)


def chip_of(args: argparse.Namespace) -> Any:
    """The chip: of the user's file if there is one, else of the table."""
    from lplab.hardware import accelerators
    from lplab.hardware.choices import chosen

    if args.chips is None:
        return accelerators.get(args.chip)
    if not args.chips.is_file():
        raise ValueError(f"there is no file {args.chips}")
    return chosen(accelerators.load(args.chips), args.chip, f"chip in {args.chips.name}")


def design_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that one step and a sweep share."""
    return {
        "precision": args.recipe,
        "compressor": args.compressor,
        "batch": args.batch,
        "overlap": args.overlap,
        "bucket_bytes": args.bucket * 2**20,
        "sharded": args.sharded,
        "optimizer": args.optimizer,
        "utilization": args.utilization,
    }


def print_step(args: argparse.Namespace) -> int:
    """One simulated step."""
    from lplab.hardware import Cluster, simulate

    cluster = Cluster(
        chip_of(args), args.devices, args.link, args.algorithm, args.per_node, args.inner_link, args.straggler
    )
    found = simulate(args.workload, cluster, **design_of(args))
    row = found.to_dict() | {"compressor": args.compressor}  # as typed, and as a sweep has it
    if args.html:
        from lplab import figures

        write_figure(figures.device_timeline(found, detail="layers"), args.html)
    say(notes([found.design.chip], [found.design.precision]))
    if args.json:
        print(json.dumps(row))
    elif args.csv:
        print(table([row]))
    else:
        print(report(found, args.compressor))
    return 0


def print_sweep(args: argparse.Namespace) -> int:
    """Every combination of the values of --sweep."""
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise BadInputError("a sweep needs pandas: pip install 'lplab[lab]'") from None
    from lplab.hardware import sweep

    cluster = {"chip": chip_of(args), "devices": args.devices, "link": args.link, "algorithm": args.algorithm}
    cluster |= {"devices_per_node": args.per_node, "inner_link": args.inner_link, "straggler": args.straggler}
    axes = design_of(args) | cluster | dict(map(axis, args.sweep))
    points = math.prod(len(values) for values in axes.values() if isinstance(values, list))
    if points > MOST_POINTS:
        raise BadInputError(f"this sweep has {points:,} points; up to {MOST_POINTS:,} are simulated in one call")
    frame = sweep(args.workload, **axes)
    if args.html:
        from lplab import figures

        write_figure(figures.sweep_curves(frame), args.html)
    say_of_sweep(axes)
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


def axis(text: str) -> tuple[str, list[Any]]:
    """A setting and its values as they are typed: a list, or first, last and how many, spread by equal factors.

    >>> axis("devices=1,8"), axis("compressor=none,topk"), axis("bytes_per_second=1e9:1e11:3")[1]
    (('devices', [1.0, 8.0]), ('compressor', ['none', 'topk']), [1000000000.0, 10000000000.0, 100000000000.0])
    """
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise ValueError(f"--sweep takes SETTING=VALUES, got {text!r}")
    name = {"recipe": "precision", "per_node": "devices_per_node"}.get(name.replace("-", "_"), name.replace("-", "_"))
    spread = RANGE.fullmatch(values)
    if spread is None or name == "compressor":
        parts = re.split(r",(?=\s*(?:none|[a-z]+(?::|,|$)))" if name == "compressor" else ",", values)
        return name, [value(part.strip()) for part in parts]
    try:
        first, last, count = float(spread[1]), float(spread[2]), int(spread[3])
    except ValueError:
        raise ValueError(f"--sweep {name}: a range is FIRST:LAST:COUNT, got {values!r}") from None
    if not (first > 0 and last > 0 and 1 < count <= MOST_POINTS):
        allowed = f"two numbers above 0 and a count from 2 to {MOST_POINTS:,}"
        raise ValueError(f"--sweep {name}: a range needs {allowed}, got {values!r}")
    spaced = (first * (last / first) ** (i / (count - 1)) for i in range(count))
    return name, [float(f"{number:.12g}") for number in spaced]  # 8, not 7.999999999999998


def value(text: str) -> Any:
    """A number, true or false where it reads as one, else the word.

    >>> value("64"), value("true"), value("topk:density=0.01")
    (64.0, True, 'topk:density=0.01')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


def say(lines: list[str]) -> None:
    """What stands beside the result: on stderr, so that JSON and CSV stay what they are."""
    for line in lines:
        print(f"lplab simulate: {line}", file=sys.stderr)


def say_of_sweep(axes: dict[str, Any]) -> None:
    """The notes on all chips and recipes of a sweep."""
    from lplab.hardware import accelerators, precisions

    chips, recipes = (values if isinstance(values := axes[name], list) else [values] for name in ("chip", "precision"))
    say(notes(map(accelerators.get, chips), [precisions.get(recipe) for recipe in recipes]))


def whole_numbers(frame: Any) -> Any:
    """The table with counts as whole numbers, as a single step prints them."""
    counts = [name for name in ("devices", "devices_per_node", "batch") if (frame[name] % 1 == 0).all()]
    return frame.astype(dict.fromkeys(counts, int))


def write_figure(figure: Any, path: Path) -> None:
    """Write the file, and say so."""
    from lplab import figures

    figures.export(figure, html_path(path))
    say([f"figure written to {path} ({path.stat().st_size / 1e6:.1f} MB)"])


def html_path(path: Path) -> Path:
    """The path of a figure; ValueError unless it ends in .html."""
    if path.suffix.lower() != ".html":
        raise ValueError(f"--html writes a file that ends in .html, got {path.name!r}")
    return path


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def print_list(as_json: bool) -> int:
    """Print what can be combined."""
    from lplab import compression
    from lplab.hardware import accelerators, links, network, precisions, workloads

    lists = {
        "workloads": workloads.names(),
        "chips": [*accelerators.names(), "mine"],
        "recipes": precisions.names(),
        "links": list(links.names()),
        "algorithms": [*network.names(), "nccl"],
        "compressors": ["none", *compression.names()],
    }
    if as_json:
        print(json.dumps(lists, indent=1))
        return 0
    for name, values in lists.items():
        print(f"{name:<12}{', '.join(values)}")
    return 0
