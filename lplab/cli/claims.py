"""``lplab claims``: published claims, measured in small: list them, run them, theirs beside ours; published numbers."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lplab.cli.command import INTERRUPTED, BadInputError, add_command, bad_values

if TYPE_CHECKING:
    from lplab.claims import Claim


def add_claims(commands: Any) -> None:
    """Add ``lplab claims`` with list, run and table."""
    text = "published claims, measured in small: list, run, table; published numbers of chips, networks and bills"
    group = add_command(commands, None, "claims", text, "lplab claims table")
    group.hint = verdict_command
    actions = group.add_subparsers(metavar="list|run|table|numbers|settings", required=True)
    listed = add_command(actions, run_list, "list", "the claims and their verdicts", "lplab claims list --json")
    run = add_command(
        actions,
        run_run,
        "run",
        "measure what is missing of some claims, of all quick ones, or of all long ones",
        "lplab claims run gupta_2015 --jobs 2",
    )
    where = run.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=int, default=1, help="processes (default: 1; -1 for all cores)")
    where.add_argument("--dask", metavar="ADDRESS", help="measure on the workers of the Dask scheduler at this address")
    text = "the experiments of the long budget, which take hours: of a claim that is named, its larger experiment"
    run.add_argument("--long", action="store_true", help=text)
    run.add_argument("--fresh", action="store_true", help="measure again what is stored")
    text = (
        "with all instructions of this processor: in two thirds of the time, but another processor gives other numbers "
        "(default: with those that every x86-64 processor has)"
    )
    run.add_argument("--native", action="store_true", help=text)
    table = add_command(
        actions, run_table, "table", "theirs, ours, spread and verdict", "lplab claims table --markdown"
    )
    forms = table.add_mutually_exclusive_group()
    forms.add_argument("--markdown", action="store_true", help="print a Markdown table")
    forms.add_argument("--page", action="store_true", help="print a Markdown page with all findings (docs/claims.md)")
    forms.add_argument("--html", action="store_true", help="print a web page of its own with a card for each claim")
    table.add_argument("-o", "--output", type=Path, metavar="FILE", help="write into this file instead of printing")
    _add_numbers(actions)
    text = "the variables with which a process measures the same numbers on every x86-64 processor"
    add_command(
        actions, run_settings, "settings", text, "env $(lplab claims settings) dask worker tcp://192.168.1.5:8786"
    )
    for parser in (run, table):
        default = "all of the quick budget, or of the long one" if parser is run else "all"
        parser.add_argument("id", nargs="*", help=f"claims of the list, or larger experiments (default: {default})")
    for parser in (listed, run, table):
        parser.add_argument("--folder", type=Path, help="of the results (default: data/claims of this checkout)")
    for parser_or_group in (listed, run, forms):
        parser_or_group.add_argument("--json", action="store_true", help="print JSON")


def verdict_command(word: str) -> str:
    """What ``lplab claims WORD`` is answered with, where that is no command.

    >>> verdict_command("scalecom_2020")
    "lplab claims table scalecom_2020 prints the claim's numbers and its verdict"
    """
    from lplab import claims

    which = f"{word} prints the" if word in claims.experiments() else "ID prints a"
    return f"lplab claims table {which} claim's numbers and its verdict"


def _add_numbers(actions: Any) -> None:
    text = "published numbers that our models must give again: inputs, published, ours, difference"
    parser = add_command(actions, run_numbers, "numbers", text, "lplab claims numbers T34a T36")
    parser.add_argument("id", nargs="*", help="rows of the table (default: all)")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print JSON")
    forms.add_argument("--csv", action="store_true", help="print CSV")
    forms.add_argument("--page", action="store_true", help="print a Markdown page (docs/numbers.md)")


def run_numbers(args: argparse.Namespace) -> int:
    """Compute the rows and print them; 1 if a row that must hold does not."""
    from lplab.claims import published_numbers

    with bad_values():
        records = published_numbers.records(args.id)
    if args.json:
        print(json.dumps(records, indent=1, ensure_ascii=False))
    elif args.csv:
        print(published_numbers.as_csv(records), end="")
    else:
        print(published_numbers.as_page(records) if args.page else published_numbers.as_text(records))
    return int(any(record["verdict"] == published_numbers.OUTSIDE for record in records))


def run_settings(args: argparse.Namespace) -> int:
    """Print NAME=VALUE for each variable, in one line; ``run`` sets them itself."""
    from lplab.claims.framework import portable

    print(" ".join(f"{name}={value}" for name, value in portable.settings().items()))
    return 0


def run_list(args: argparse.Namespace) -> int:
    """Print id, budget, verdict and title of every claim, and what was found in a few words."""
    from lplab import claims

    records = rows(selected_claims([]), check_folder(args.folder))
    if args.json:
        print(json.dumps(records, indent=1, ensure_ascii=False))
        return 0
    width, words = max(map(len, claims.names())), max(len(record["verdict"]) for record in records)
    for record in records:
        print(f"{record['claim']:<{width}}  {record['budget']:<5}  {record['verdict']:<{words}}  {record['title']}")
        if record["badge"]:
            print(f"{'':<{width}}  {record['badge']}")
        if more := record["larger"]:
            print(f"{'':<{width}}  at a larger size: {claims.verdict_text(more)}")
    return 0


def run_run(args: argparse.Namespace) -> int:
    """Measure, with a progress bar on stderr; then print as ``table`` does. Ctrl-C keeps what is finished.

    Another process measures, in which all libraries take the instructions that every processor has; with ``--native``
    it is this one.
    """
    from lplab.claims.framework import portable

    if args.jobs == 0 or args.jobs < -1:
        raise BadInputError(f"--jobs must be -1 or at least 1, got {args.jobs}")
    wanted = claims_to_run(args.id, args.long)
    if not args.native and (status := portable.run_again(arguments_of(args))) is not None:
        return status
    command = command_of(args)
    try:
        with bad_values(), workers(args) as jobs:
            for claim in wanted:
                measure(claim, args, jobs, command)
    except KeyboardInterrupt:
        again = command.replace("--dask", f"--dask {args.dask}")
        print(f"\nstopped; what is finished is kept, and the same command goes on: {again}", file=sys.stderr)
        return INTERRUPTED
    records = rows(claims_of(wanted), args.folder)
    print(json.dumps(records, indent=1, ensure_ascii=False) if args.json else text_of(records))
    return 0


def claims_to_run(ids: list[str], long: bool) -> "list[Claim]":
    """The experiments to measure: those that are named, or all of a budget.

    With ``--long`` the id of a claim stands for its experiments of the long budget: the larger one, and the small one
    if that is long, too. A claim that has none is measured as without ``--long``. An experiment of the long budget is
    never measured without ``--long``.
    """
    from lplab import claims

    if not ids:
        every = map(claims.get, claims.experiments())
        return [claim for claim in every if claim.budget == (claims.LONG if long else claims.QUICK)]
    wanted = selected_claims(ids)
    if long:
        each = ([claim, claims.larger(claim)] for claim in wanted)
        of_claims = [[one for one in both if one and one.budget == claims.LONG] or both[:1] for both in each]
        return [one for both in of_claims for one in both if one]
    for claim in wanted:
        if claim.budget == claims.LONG:
            minutes = claim.budget_seconds / 60
            raise BadInputError(f"{claim.id} is of the long budget, up to {minutes:.0f} minutes of a core; add --long")
    return wanted


def claims_of(experiments: "list[Claim]") -> "list[Claim]":
    """The claims that these experiments are of, each once."""
    from lplab import claims

    return [claims.get(name) for name in dict.fromkeys(each.larger_than or each.id for each in experiments)]


def arguments_of(args: argparse.Namespace) -> list[str]:
    """The arguments of ``lplab`` that ask for the same.

    >>> given = {"id": ["wang_2018"], "long": False, "dask": None, "jobs": 2, "fresh": True, "folder": None}
    >>> arguments_of(argparse.Namespace(**given, native=True, json=False))
    ['claims', 'run', 'wang_2018', '--fresh', '--native', '--jobs=2']
    """
    place = f"--dask={args.dask}" if args.dask else f"--jobs={args.jobs}"
    folder = [f"--folder={args.folder}"] * (args.folder is not None)
    flags = [f"--{name}" for name in ("long", "fresh", "native", "json") if getattr(args, name)]
    return ["claims", "run", *args.id, *flags, place, *folder]


def command_of(args: argparse.Namespace) -> str:
    """What was asked for, as it is stored with the numbers; where a cluster is, is nobody's business.

    >>> command_of(argparse.Namespace(id=["wang_2018"], long=False, native=False, dask=None, jobs=2))
    'lplab claims run wang_2018 --jobs 2'
    """
    place = "--dask" if args.dask else f"--jobs {args.jobs}"
    return " ".join(["lplab claims run", *args.id, *["--long"] * args.long, *["--native"] * args.native, place])


@contextmanager
def workers(args: argparse.Namespace) -> Iterator[int]:
    """The number of processes that measure within the block: of this machine, or the workers of a cluster."""
    if args.dask is None:
        yield args.jobs
        return
    from lplab import claims

    with claims.dask_cluster(args.dask) as count:
        yield count


def measure(claim: "Claim", args: argparse.Namespace, jobs: int, command: str) -> None:
    """Measure one claim under a progress bar."""
    from tqdm import tqdm

    from lplab import claims

    with tqdm(desc=claim.id, unit="run", file=sys.stderr) as bar:

        def watch(finished: int, wanted: int) -> None:
            bar.total = wanted
            bar.update(finished - bar.n)

        claims.run_claim(claim, folder=args.folder, jobs=jobs, fresh=args.fresh, command=command, watch=watch)


def run_table(args: argparse.Namespace) -> int:
    """Print theirs, ours and the verdict, from what is stored, or write them into a file."""
    text = table_of(args)
    if args.output is None:
        print(text)
        return 0
    with bad_values():
        args.output.write_text(f"{text}\n", encoding="utf-8")
    print(f"wrote {args.output}", file=sys.stderr)
    return 0


def table_of(args: argparse.Namespace) -> str:
    """The table in the form that the arguments ask for."""
    from lplab import claims

    wanted, folder = claims_of(selected_claims(args.id)), check_folder(args.folder)
    if args.html:
        from lplab import figures

        with bad_values():
            return figures.verdict_page(*(claim.id for claim in wanted), folder=folder)
    records = rows(wanted, folder)
    if args.json:
        return json.dumps(records, indent=1, ensure_ascii=False)
    if args.page:
        return claims.as_page(records)
    return claims.as_markdown(records) if args.markdown else text_of(records)


def text_of(records: list[dict[str, Any]]) -> str:
    """The records for a terminal."""
    from lplab import claims

    return claims.as_text(records)


def rows(wanted: "list[Claim]", folder: Path | None) -> list[dict[str, Any]]:
    """The records of some claims; a file of results that cannot be read is bad input."""
    from lplab import claims

    with bad_values():
        return [claims.row(claim, folder) for claim in wanted]


def check_folder(folder: Path | None) -> Path | None:
    """The folder to read from, None for that of this checkout; one that is not there is bad input."""
    with bad_values():
        if folder is not None and not folder.is_dir():
            raise BadInputError(f"there is no folder {folder}")
    return folder


def selected_claims(ids: list[str]) -> "list[Claim]":
    """The claims with these ids; all where there are none."""
    from lplab import claims

    with bad_values():
        return [claims.get(name) for name in ids or claims.names()]
