"""``lplab exercises``: the exercises of the course, and the proof that their checks catch what they must."""

import argparse
import json
import sys
from typing import Any

from lplab.cli.command import add_command, bad_values


def add_exercises(commands: Any) -> None:
    """Add ``lplab exercises``."""
    text = "list the exercises, show one, or prove their checks with all known mistakes"
    parser = add_command(commands, run_exercises, "exercises", text, "lplab exercises 01.2")
    parser.add_argument("id", nargs="?", help="lab and number, such as 01.2")
    parser.add_argument("--kills", action="store_true", help="try all known mistakes: how many each stage catches")
    parser.add_argument("--all", action="store_true", help="all pages as Markdown, as the site has them")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_exercises(args: argparse.Namespace) -> int:
    """Print the list, one page, the kill table or all pages; exit code 1 if a known mistake survives its check."""
    from lplab.exercises import pages
    from lplab.exercises.model import exercise_catalogue

    with bad_values():
        chosen = [
            exercise_catalogue.get(name) for name in (exercise_catalogue.names() if args.id is None else [args.id])
        ]
    if args.id is None and not (args.kills or args.all):
        rows = [{"id": e.id, "title": e.title, "minutes": e.minutes, "points": e.points} for e in chosen]
        text = "\n".join(f"{row['id']}  {row['title']} ({row['minutes']} min, {row['points']} points)" for row in rows)
        print(json.dumps(rows, indent=1) if args.json else text)
        return 0
    found = catching_stages(chosen)
    if args.json:
        print(json.dumps(found, indent=1))
    elif args.kills:
        print(pages.kill_table(found))
    else:
        head = pages.HEAD.format(table=pages.kill_table(found)) if args.all else ""
        print("\n\n".join([head.strip(), *[pages.page(e, found[e.id]).strip() for e in chosen]]).strip())
    return int(any(pages.SURVIVES in stages for stages in found.values()))


def catching_stages(chosen: list) -> dict[str, list[str]]:
    """For each exercise the stages that catch its mistakes, in order; the bar goes to stderr."""
    from tqdm import tqdm

    from lplab.exercises import pages

    mistakes = [(exercise, mistake) for exercise in chosen for mistake in exercise.mistakes]
    found: dict[str, list[str]] = {exercise.id: [] for exercise in chosen}
    for exercise, mistake in tqdm(mistakes, desc="known mistakes", file=sys.stderr, disable=not sys.stderr.isatty()):
        found[exercise.id].append(pages.caught_by(exercise, mistake))
    return found
