"""A rank that trains nothing: it reports steps as lplab.parallel.worker does, without the seconds that torch needs.

For tests of how a run is shown and ends; torchrun starts it. Usage: light_rank.py SETTINGS
"""

import json
import os
import sys
import time

import numpy as np


def main(settings):
    first = os.environ["RANK"] == "0"
    for step in range(settings["steps"]):
        time.sleep(0.02)
        if first:
            say(step=step, loss=1 / (step + 1), payload_bytes=8, sent_bytes=16, skipped=False)
    if first:
        np.savez(settings["save"], w=np.zeros(3, np.float32))
        say(test_loss=0.5, weights="none")


def say(**what):
    sys.stdout.write(f"lplab {json.dumps(what)}\n")  # one write, as other processes write to the same pipe
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
