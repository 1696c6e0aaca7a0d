"""A process that measures as ``lplab claims run`` does, for tests that compare a stored number bit by bit.

The instructions of a process are chosen when it starts, so the tests' own process cannot measure like that. This one
reads a line of JSON for each measurement, [claim's id, point, seed], and answers with a line of its numbers.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lplab import claims
from lplab.claims.framework import portable
from lplab.claims.framework.results import key

PROJECT = Path(__file__).parents[2]


class MeasuringProcess:
    """The process, started with the first measurement and stopped by :meth:`close`."""

    def __init__(self):
        self._process = None

    def measured_and_stored(self, claim, point, seed):
        """The numbers of one measurement, measured now and as they are stored."""
        if not portable.settings():
            pytest.skip("the stored numbers are those of x86-64 processors")
        if self._process is None:
            environment = os.environ | portable.settings() | {"PYTHONPATH": str(PROJECT)}
            command = [sys.executable, "-m", "tests.claims.measured_again"]
            self._process = subprocess.Popen(
                command, cwd=PROJECT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        self._process.stdin.write(json.dumps([claim.id, point, seed]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the process that measures {claim.id} ended with {self._process.wait()}"
        return json.loads(answer), claims.stored(claim).numbers[key(point, seed)]

    def close(self):
        """End the process and wait for it."""
        if self._process is not None:
            self._process.communicate()


def serve():
    """Answer until the input ends; what a measurement prints goes to the standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        name, point, seed = json.loads(line)
        print(json.dumps(claims.measure(claims.get(name), point, seed)), file=answers, flush=True)


if __name__ == "__main__":
    serve()
