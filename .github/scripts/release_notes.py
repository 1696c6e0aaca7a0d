"""The part of CHANGELOG.md of one version, for the notes of its release; or a draft of the next part from commits.

python .github/scripts/release_notes.py v0.1.0     the part; fails while it says "not yet released"
python .github/scripts/release_notes.py --draft    a line for each commit since the last tag, which a person edits
"""

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def notes(changelog: str, tag: str, version: str) -> str:
    """The part of a version.

    Raises:
        ValueError: the tag is not that of the package's version, or the changelog has no dated part for it.
    """
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, but pyproject.toml has version {version}: the tag must be v{version}")
    part = re.search(rf"^## {re.escape(version)} \((.*?)\)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if part is None:
        raise ValueError(f"CHANGELOG.md has no part '## {version} (date)'")
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", part[1]):
        raise ValueError(f"the part of {version} in CHANGELOG.md says ({part[1]}): give it the date of today")
    return part[2].strip()


def draft() -> str:
    """A line for each commit since the last tag, or for all of them."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=PROJECT, capture_output=True, text=True, check=False).stdout.strip()

    last = git("describe", "--tags", "--abbrev=0", "--match", "v*")
    return git("log", "--no-merges", "--reverse", "--format=- %s", *([f"{last}.."] if last else []))


def main() -> int:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tag", nargs="?", help="such as v0.1.0")
    parser.add_argument("--draft", action="store_true", help="lines for the next part, from commits")
    args = parser.parse_args()
    if args.draft:
        print(draft())
        return 0
    version = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    try:
        print(notes((PROJECT / "CHANGELOG.md").read_text("utf-8"), args.tag or "", version))
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
