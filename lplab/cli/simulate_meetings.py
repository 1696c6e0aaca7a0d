"""``lplab simulate --every``: learners that take steps of their own and meet, beside the published methods."""

import argparse
import json
import math
from itertools import product
from math import inf
from typing import Any

from lplab.cli.command import BadInputError, once
from lplab.cli.simulate_report import does_not_fit, memory_line, notes, print_notes, size, table
from lplab.cli.simulate_sweep import parse_axis, write_curves
from lplab.hardware.units import duration, grouped

MAX_POINTS = 10_000
OF_CLUSTER = ("chip", "devices", "link", "algorithm", "devices_per_node", "inner_link", "straggler")
WHOLE = ("devices", "devices_per_node", "every", "fragments", "delay", "batch")


def print_meetings(args: argparse.Namespace, design: dict[str, Any], cluster: dict[str, Any]) -> int:
    """One row for each combination of the values of --sweep, or a report."""
    if args.html and not args.sweep:
        raise BadInputError("with --every, --html draws a sweep: add --sweep devices=4,16,64, or leave out --every")
    if args.bucket != 25:
        raise BadInputError("learners that meet once in --every steps send a fragment at once: leave out --bucket")
    del design["bucket_bytes"]
    given = cluster | design | {name: getattr(args, name) for name in ("every", "fragments", "delay", "outer")}
    if not args.sweep:
        return print_one(args, given)
    axes = once("--sweep", map(parse_axis, args.sweep))
    unknown = [name for name in axes if name not in given]
    if unknown:
        raise BadInputError(f"with --every, --sweep takes {', '.join(given)}, got {unknown[0]!r}")
    if (points := math.prod(map(len, axes.values()))) > MAX_POINTS:
        raise BadInputError(f"this sweep has {points:,} points; up to {MAX_POINTS:,} are simulated in one call")
    rows = []
    for values in product(*axes.values()):
        point = given | dict(zip(axes, values, strict=True))
        rows.append(simulated(args.workload, point).to_dict() | {"compressor": point["compressor"]})
    if args.html:
        write_curves(rows, args.html)
    if args.json:
        print(json.dumps(rows))
    elif args.csv:
        print(table(rows))
    else:
        print(columns([{name: row[name] for name in axes} | numbers(row) for row in rows]))
    return 0


def simulated(workload: str, point: dict[str, Any]) -> Any:
    """The learners of one combination of settings."""
    from lplab.hardware import Cluster, simulate_local_steps

    numbers: dict[str, Any] = {
        name: int(value) if name in WHOLE and value == int(value) else value for name, value in point.items()
    }
    cluster = Cluster(numbers.pop("chip"), **{name: numbers.pop(name) for name in OF_CLUSTER[1:]})
    return simulate_local_steps(workload, cluster, **numbers)


def print_one(args: argparse.Namespace, given: dict[str, Any]) -> int:
    """One choice of learners."""
    found = simulated(args.workload, given)
    row = found.to_dict() | {"compressor": args.compressor}
    print_notes(notes([found.design.chip], [found.design.precision]))
    if args.json:
        print(json.dumps({name: None if value == inf else value for name, value in row.items()}))
    elif args.csv:
        print(table([row]))
    else:
        print(report(found, args.compressor))
        print(f"\nThe published methods, {args.every} steps from meeting to meeting but for data parallelism:\n")
        print(methods_table(args.workload, found))
    return 0


def report(found: Any, compressor: str) -> str:
    """Learners that meet, as a few lines; ``compressor`` as it was typed."""
    d, c, s = found.design, found.cluster, found.schedule
    each = f"{c.devices // found.learners:,} × {d.chip.label}" if c.devices > found.learners else d.chip.label
    waiting, transfers = (duration(t, 4) for t in (found.exposed_seconds, found.communication_seconds))
    about = "the whole model" if s.fragments == 1 else f"one of {s.fragments} fragments"
    lines = {
        "modelled steps": f"{d.workload.label}, {found.learners:,} learners of {each}",
        "recipe": f"{d.precision.label}, batch {found.batch} on each device",
        "link": f"{c.link.label or c.link.name}, compressor {compressor}",
        "meetings": f"about {about} once in {s.steps} steps, sent {s.delay} steps before; outer {found.outer}",
        "step": f"{duration(found.step_seconds, 4)}, with its share of the meetings",
        "  computing": duration(found.compute_seconds, 4),
        "  waiting": f"{waiting} of {transfers} of transfers",
        "efficiency": f"{found.efficiency:.1%} of what as many learners do that never meet",
        "throughput": f"{grouped(found.throughput, 3)} examples/s",
        "sent": f"{size(found.sent_bytes)} by each learner a step, {size(found.peak_bytes)} in the largest meeting",
        "memory": f"{size(found.memory_bytes)}{memory_line(found)}",
        **{f"  {part}": size(nbytes) for part, nbytes in found.memory.items() if nbytes},
    }
    text = "\n".join(f"{name:<16}{words}" for name, words in lines.items())
    return text if found.fits is not False else f"{does_not_fit(found)}\n{text}"


def methods_table(workload: str, found: Any) -> str:
    """The methods with the settings of a simulation."""
    from lplab.hardware import METHODS, compare_methods

    d, every = found.design, found.schedule.every
    same = ("precision", "sharded", "optimizer", "utilization", "fused", "fall_back", "measured_seconds")
    settings = {name: getattr(d, name) for name in same} | {"batch": found.batch, "overlap": found.overlap}
    # Streaming DiLoCo's fragments must share the steps evenly.
    fitting = [
        name for name, m in METHODS.items() if every % m.fragments == 0 and m.delay < max(every // m.fragments, 1)
    ]
    rows = compare_methods(workload, found.cluster, every=every, methods=fitting, **settings)
    return columns([{"method": row["label"]} | numbers(row) for row in rows])


def numbers(row: dict[str, Any]) -> dict[str, str]:
    """The numbers of a row, as text."""
    return {
        "step": duration(row["step_seconds"], 3),
        "waiting": duration(row["exposed_seconds"], 3),
        "efficiency": f"{row['efficiency']:.1%}",
        "sent a step": size(row["sent_bytes"]),
        "largest meeting": size(row["peak_bytes"]),
    }


def columns(rows: list[dict[str, Any]]) -> str:
    """Rows under each other, the first column to the left.

    >>> print(columns([{"link": "wan_1g", "step": "2 s"}, {"link": "ideal", "step": "10 ms"}]))
    link     step
    wan_1g    2 s
    ideal   10 ms
    """
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(pairs)
        ).rstrip()
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    )
