"""``lplab capstone``: the score of a recipe of one's own, and the published recipes that it is compared with."""

import argparse
import json
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lplab.cli.command import BadInputError, add_command, bad_values
from lplab.cli.grade import needed_packages

if TYPE_CHECKING:
    from lplab.exercises.capstone.capstone_value import Capstone
    from lplab.exercises.capstone.scores import Score

NEEDS_TORCH = "torch is not installed: pip install 'lplab[torch]'"


def add_capstone(commands: Any) -> None:
    """Add ``lplab capstone``."""
    text = (
        "score a recipe of your own, which is a JSON file: what it costs, and its gap to float32 (lab 14) or to "
        "a gradient in each step (lab 16)"
    )
    example = "lplab capstone mine.json --seeds 0 1 2\n  lplab capstone --lab 16 mine.json"
    parser = add_command(commands, run_capstone, "capstone", text, example)
    parser.add_argument("file", nargs="?", type=Path, help="JSON (default: print the field of published recipes)")
    parser.add_argument(
        "--lab", choices=("14", "16"), default="14", help="14: training with few bits; 16: meeting over slow links"
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        metavar="N",
        help="default: 0 1 2, those of the lab; other seeds than these have no field",
    )
    parser.add_argument("--start-from", metavar="NAME", help="print a recipe of the field as JSON, to change it")
    text = "measure the field anew and store it: 4 minutes of a core in lab 14, 12 in lab 16"
    parser.add_argument("--measure-field", action="store_true", help=text)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_capstone(args: argparse.Namespace) -> int:
    """Score the file, with a bar on stderr, or print the field."""
    with needed_packages():
        from lplab.exercises.capstone import stored_field
        from lplab.exercises.capstone.scores import PRACTICE_SEEDS, check_seeds
        from lplab.exercises.model import exercise_catalogue
    capstone = next(each for each in exercise_catalogue.capstones() if each.id[:2] == args.lab)
    if args.start_from is not None:
        with bad_values():
            print(json.dumps(capstone.data_of(args.start_from), indent=1, ensure_ascii=False))
        return 0
    seeds = PRACTICE_SEEDS if args.seeds is None else tuple(args.seeds)
    with bad_values():
        check_seeds(seeds)
        if args.measure_field:
            check_torch()
            print(stored_field.write_field(capstone=capstone))
            return 0
        if args.file is None:
            return print_scores(stored_field.field(seeds, capstone=capstone), capstone, args.json)
        check_torch()
        return score_file(args.file, seeds, capstone, args.json)


def check_torch() -> None:
    """Say in one line where PyTorch is missing."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        raise BadInputError(NEEDS_TORCH) from None


def score_file(file: Path, seeds: tuple[int, ...], capstone: "Capstone", as_json: bool) -> int:
    """Score the recipe in a file and print what came out, beside the field where that is known for these seeds."""
    from tqdm import tqdm

    from lplab.exercises.capstone import stored_field
    from lplab.exercises.capstone.points import MAX_POINTS
    from lplab.training.recipe.recipe_data import MAX_TEXT, parse_json

    if file.suffix == ".ipynb":
        raise BadInputError(
            f"{file} is a notebook: run the cell of {capstone.call} in it, or copy its dictionary into a .json file, "
            "with double quotes, and with true, false and null in place of True, False and None"
        )
    if file.stat().st_size > 4 * MAX_TEXT:  # characters may take up to four bytes
        raise BadInputError(f"{file} is too large: a recipe has at most {MAX_TEXT:,} characters")
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInputError(f"{file} is not in UTF-8") from None
    data = parse_json(text)
    check_lab(data, capstone)
    known = stored_field.known_score(data, seeds, capstone)
    if known is None:
        if name := capstone.published(data):
            print(
                f"This is {name} as it is, which has no points. Its gaps on these seeds are not known.", file=sys.stderr
            )
        steps, total = capstone.score_steps(data, seeds), capstone.steps_of(seeds, capstone.plan)
        *_, score = tqdm(steps, "scoring", total, file=sys.stderr, disable=not sys.stderr.isatty())
    else:
        score = known
    over = capstone.over(data, score.costs)
    if not stored_field.has(seeds, capstone):
        print_scores((score,), capstone, as_json)
    else:
        published = stored_field.field(seeds, capstone=capstone)
        print_scores((*published, score), capstone, as_json)
        if not as_json:
            marking = capstone.marking(published)
            print(f"{marking.points(score):g} of {MAX_POINTS} points on these seeds. {marking.reason(score)}")
            if known is not None:
                print("Nothing was trained, as its gaps are known.")
    if over and not as_json:
        print(over)
    return 0


def check_lab(data: Any, capstone: "Capstone") -> None:
    """Say what is wrong with a recipe, and where it is one of the other lab, how to score it."""
    from lplab.exercises.model import exercise_catalogue

    try:
        capstone.checked(data)
    except ValueError as problem:
        for other in exercise_catalogue.capstones():
            with suppress(ValueError):
                other.checked(data)
                raise BadInputError(
                    f"{problem}. This is a recipe of lab {other.id[:2]}: add --lab {other.id[:2]}"
                ) from None
        raise


def print_scores(scores: "tuple[Score, ...]", capstone: "Capstone", as_json: bool) -> int:
    """Print scores as a table, or as JSON."""
    if as_json:
        print(json.dumps([as_object(score) for score in scores], indent=1, ensure_ascii=False))
        return 0
    width = max(len(score.name) for score in scores)
    axes, gap = capstone.costs.AXES, f"gap ({capstone.unit})"
    print(f"{'recipe':<{width}}  {'  '.join(axis.unit for axis in axes)}  {gap}  on each seed")
    for one in scores:
        gaps = " ".join(f"{gap:+.4f}" for gap in one.gaps)
        over = "" if one.keeps_budget else "  over the budget"
        costs = [f"{cost:{len(axis.unit)},.{axis.digits}f}" for cost, axis in zip(one.costs.on_axes, axes, strict=True)]
        numbers = "  ".join([*costs, f"{one.gap:+{len(gap)}.4f}"])
        print(f"{one.name:<{width}}  {numbers}  {gaps}{over}")
    return 0


def as_object(score: "Score") -> dict[str, Any]:
    """A score as JSON has it."""
    return {
        "name": score.name,
        **asdict(score.costs),
        "keeps_budget": score.keeps_budget,
        "seeds": list(score.seeds),
        "gaps": list(score.gaps),
        "gap": score.gap,
        "diverged": score.diverged,
    }
