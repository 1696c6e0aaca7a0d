"""All 2^32 float32 patterns of one format against ml_dtypes, 15 to 25 seconds on one core; of others a part of them.

test_exact.py and test_oracle_ml_dtypes.py try all values of these, with their borders and neighbours.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ml_dtypes")

from tests.formats.exhaustive import differences

PARTS = os.cpu_count() or 1


@pytest.mark.slow
def test_every_float32(name="e4m3fn"):
    """A process for each core, since ml_dtypes holds the interpreter's lock."""
    script = Path(__file__).with_name("exhaustive.py")
    commands = [[sys.executable, str(script), name, f"float8_{name}", str(part), str(PARTS)] for part in range(PARTS)]
    root = str(Path(__file__).parents[2])
    processes = [
        subprocess.Popen(c, cwd=root, env={**os.environ, "PYTHONPATH": root}, stdout=subprocess.PIPE, text=True)
        for c in commands
    ]
    results = [ast.literal_eval(p.communicate(timeout=900)[0]) for p in processes]
    assert sum(compared for compared, _, _ in results) == 2**32
    assert [bad for _, count, bad in results if count] == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parts"), [("e5m2", 5), ("e4m3fnuz", 5), ("e4m3b11fnuz", 17), ("e3m4", 17)])
def test_a_part_of_float32(name, parts):
    """In pieces of an eighth of a power of two, from each power one or two; fewer where a kind of formats repeats."""
    compared, count, bad = differences(name, f"float8_{name}", 0, parts)
    assert compared > 2**32 / parts and (count, bad) == (0, [])
