"""Record what the networks of the larger experiments reach in float32.

    lplab fetch fashion-mnist            (or Debian's package dataset-fashion-mnist)
    env $(lplab claims settings) python data/record_baselines.py      (twenty minutes of a core)

writes data/baselines/float32.json and the tables of docs/baselines.md after each training: first all networks with seed
0, then the next seed. Trainings that the file has are left as they are, so a run that was cut off goes on. A word as
argument takes the trainings with that word in their name alone; with the word "page" only the page is written. The
settings make every processor give the same bits.
"""

from __future__ import annotations

import json
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from lplab.claims.framework import larger_models
from lplab.claims.framework.portable import portable_arithmetic
from lplab.claims.framework.store import versions
from lplab.claims.framework.trainings import cosine, train
from lplab.claims.larger_ends import larger_runs_table
from lplab.recordings.float32_baselines import (
    PLANS,
    SEEDS,
    BaselinePlan,
    baselines_table,
    gaps_to_others,
)

FILE = Path(__file__).parent / "baselines" / "float32.json"
PAGE = Path(__file__).parents[1] / "docs" / "baselines.md"


def recorded() -> dict[str, object]:
    """What the file has; nothing where it does not exist."""
    return dict(json.loads(FILE.read_text("utf-8"))) if FILE.exists() else {}


def record(plan: BaselinePlan, seed: int) -> None:
    """Train a plan with a seed, and put its numbers into the file."""
    start = time.process_time()
    with portable_arithmetic():
        done = train(getattr(larger_models, plan.task)(), "fp32", plan.steps, seed, schedule=cosine(plan.steps))
        numbers = done.numbers()
    numbers["core_seconds"] = round(time.process_time() - start, 1)
    print(f"{plan.task}, seed {seed}: {numbers}", flush=True)
    found = recorded() | {f"{plan.task}, seed {seed}": numbers}
    found["provenance"] = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "command": "python data/record_baselines.py",
        "versions": versions(),
    }
    names = ["provenance", *(f"{each.task}, seed {number}" for each in PLANS for number in SEEDS)]
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in names if name in found]
    part = FILE.with_suffix(".partial")
    part.write_text("{\n " + ",\n ".join(lines) + "\n}\n", "utf-8")
    part.replace(FILE)


def write_page() -> None:
    """Put what is recorded into the page: the table, how far others are, and where the larger experiments end."""
    page = PAGE.read_text("utf-8")
    for name, made in (("table", baselines_table), ("others", gaps_to_others), ("larger", larger_runs_table)):
        text = f"<!-- {name} -->\n{made()}\n<!-- end -->"
        page = re.sub(f"<!-- {name} -->.*?<!-- end -->", text.replace("\\", r"\\"), page, flags=re.S)
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    for seed in SEEDS:
        for plan in PLANS:
            if word in f"{plan.task}, seed {seed}" and f"{plan.task}, seed {seed}" not in recorded():
                record(plan, seed)
                write_page()
    write_page()  # of what was recorded elsewhere
