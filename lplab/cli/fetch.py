"""``lplab fetch``: what is too large for the repository, fetched once and kept for work without a network."""

import argparse
import json
from typing import Any

from lplab.cli.command import BadInputError, add_command

FETCHED = {
    "fashion-mnist": "Fashion-MNIST, 70,000 pictures of clothes: 31 MB, MIT licence",
    "smollm2": "SmolLM2-135M-Instruct, a language model of 134.5 million weights: 93 MB, Apache License 2.0",
}


def add_fetch(commands: Any) -> None:
    """Add ``lplab fetch``."""
    text = "fetch a language model once, for lab 15, or pictures for larger runs of claims; kept for work offline"
    parser = add_command(commands, run_fetch, "fetch", text, "lplab fetch smollm2")
    parser.add_argument("name", choices=sorted(FETCHED), help="; ".join(f"{n}: {what}" for n, what in FETCHED.items()))
    parser.add_argument("--json", action="store_true", help="print JSON")


def run_fetch(args: argparse.Namespace) -> int:
    """Fetch what is named unless it is there, check it, and say where it lies."""
    from lplab.datasets import fetch_fashion_mnist, fetch_smollm2

    fetch = {"fashion-mnist": fetch_fashion_mnist, "smollm2": fetch_smollm2}[args.name]
    try:
        path = fetch()
    except (ImportError, ConnectionError, ValueError) as problem:
        raise BadInputError(str(problem)) from None
    print(json.dumps({args.name: str(path)}) if args.json else f"{FETCHED[args.name]}\n  {path}")
    return 0
