"""``lplab simulate``: a training step on simulated chips and links, or a sweep over many designs."""

import argparse
import json
import re
from math import inf
from pathlib import Path
from typing import Any

from lplab.cli.command import BadInputError, add_command, bad_values, check_output
from lplab.cli.simulate_meetings import print_meetings
from lplab.cli.simulate_report import notes, print_notes, report, table, write_figure
from lplab.cli.simulate_sweep import print_sweep

CHIP = "default: h100; a name of --list, NAME of --chips FILE, or mine: as `lplab doctor --measure` measured it"


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
    bucket_help = "gradient sent together (default: 25; 0: each layer by itself, inf: all together)"
    parser.add_argument("--bucket", type=float, default=25.0, metavar="MIB", help=bucket_help)
    parser.add_argument("--sharded", action="store_true", help="each device updates one part of the weights")
    parser.add_argument("--optimizer", default="momentum", help="sgd, momentum or adam (default: momentum)")
    share_help = "share of its peak that a chip reaches, above 0 and up to 1 (default: 1, all of it)"
    parser.add_argument("--utilization", type=float, default=1.0, help=share_help)
    straggler_help = "by how much the slowest device is slower, 0.1 for 10%% (default: 0)"
    parser.add_argument("--straggler", type=float, default=0.0, help=straggler_help)
    sweep_help = "several values of a setting: devices=1,8,64 or bytes_per_second=1e9:1e11:20; can be given again"
    parser.add_argument("--sweep", metavar="SETTING=VALUES", action="append", default=[], help=sweep_help)
    add_meetings(parser)
    add_outputs(parser)


def add_meetings(parser: argparse.ArgumentParser) -> None:
    """Learners that take steps of their own."""
    every_help = "learners meet once in N steps, as in DiLoCo, instead of in each; a node is a learner"
    parser.add_argument("--every", type=int, metavar="N", help=every_help)
    fragments_help = "with --every: parts of the model that meet in turn (default: 1)"
    parser.add_argument("--fragments", type=int, default=1, metavar="F", help=fragments_help)
    delay_help = "with --every: steps that go on while a message is on its way (default: 0)"
    parser.add_argument("--delay", type=int, default=0, metavar="STEPS", help=delay_help)
    outer_help = "with --every: mean, sgd, nesterov or adam (default: nesterov)"
    parser.add_argument("--outer", default="nesterov", help=outer_help)


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
    if args.html:
        check_output(args.html)
    nodes = args.per_node > 1 or any(re.match("per.node=|devices.per.node=", text) for text in args.sweep)
    if args.inner_link and not nodes:
        raise BadInputError("--inner-link joins the devices of a node: say how many with --per-node, 2 or more")
    if args.every is None and (args.fragments, args.delay, args.outer) != (1, 0, "nesterov"):
        raise BadInputError("--fragments, --delay and --outer are about learners that meet once in --every steps")
    with bad_values():
        if args.every is not None:
            return print_meetings(args, design_of(args), cluster_of(args))
        return print_sweep(args, design_of(args) | cluster_of(args)) if args.sweep else print_step(args)


def chip_of(args: argparse.Namespace) -> Any:
    """The chip: of the user's file if there is one, else of the table."""
    from lplab.hardware import accelerators
    from lplab.lookup import lookup

    if args.chips is None:
        return accelerators.get(args.chip)
    if not args.chips.is_file():
        raise ValueError(f"there is no file {args.chips}")
    return lookup(accelerators.load(args.chips), args.chip, f"chip in {args.chips.name}")


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


def cluster_of(args: argparse.Namespace) -> dict[str, Any]:
    """The chips and the network between them, in the words of a sweep."""
    return {
        "chip": chip_of(args),
        "devices": args.devices,
        "link": args.link,
        "algorithm": args.algorithm,
        "devices_per_node": args.per_node,
        "inner_link": args.inner_link,
        "straggler": args.straggler,
    }


def print_step(args: argparse.Namespace) -> int:
    """One simulated step."""
    from lplab.hardware import Cluster, simulate

    settings = cluster_of(args)
    cluster = Cluster(settings.pop("chip"), **settings)
    result = simulate(args.workload, cluster, **design_of(args))
    row = result.to_dict() | {"compressor": args.compressor}  # as typed, and as a sweep has it
    if args.html:
        from lplab import figures

        write_figure(figures.device_timeline(result, detail="layers"), args.html)
    print_notes(notes([result.design.chip], [result.design.precision]))
    if args.json:
        print(json.dumps({name: None if value == inf else value for name, value in row.items()}))  # as in a sweep
    elif args.csv:
        print(table([row]))
    else:
        print(report(result, args.compressor))
    return 0


def print_list(as_json: bool) -> int:
    """Print what can be combined."""
    from lplab import compression
    from lplab.hardware import accelerators, network, precisions, workloads
    from lplab.hardware.network import links

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
