"""All 2^32 float32 patterns of a format of each kind against ml_dtypes: slow, 15 to 25 seconds a format on one core.

The other formats of a kind take the same branches (tests/test_kinds.py); test_exact.py tries their values.
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
@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz"])
def test_every_float32(name):
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
@pytest.mark.parametrize("name", ["e4m3b11fnuz", "e3m4"])
def test_a_seventeenth_of_float32(name):
    """Of the formats that share a kind: in parts of an eighth of a power of two, from each power and each eighth."""
    compared, count, bad = differences(name, f"float8_{name}", 0, 17)
    assert compared > 2**32 / 17 and (count, bad) == (0, [])
