"""Record trainings of learners that meet seldom, for lab 16.

    python data/record_meetings.py          (a quarter of an hour on one core)

writes data/meetings/transformer.json after each training. Trainings that the file has are left as they are, so a run
that was cut off goes on. Those of the claims on slow links are the same trainings, so that their stored numbers are
taken where they are. A word as argument takes the trainings with that word in their name alone; a second argument is
another folder of claims.
"""

from __future__ import annotations

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import torch

from lplab.claims.framework.local_trainings import ARMS, Arm, train
from lplab.claims.framework.portable import portable_arithmetic, run_again
from lplab.recordings.recorded_meetings import (
    ALONE,
    DENSE,
    FEW,
    MEAN,
    NESTEROV,
    RECORDED,
    SMALL,
    SYNCHRONOUS,
    MeetingSetting,
)

FOLDER = Path(__file__).parent
SEED = 3  # the first one of the claims
FILE = FOLDER / "meetings" / "transformer.json"
CLAIMS = ("diloco_2023", "streaming_diloco_2025", "sparseloco_2025")
OF_CLAIMS = {  # names in the recording by the names of the claims' arms
    ALONE: ALONE,
    SYNCHRONOUS: SYNCHRONOUS,
    "mean": MeetingSetting().name,
    "nesterov": MeetingSetting(4, 12, *NESTEROV).name,
    "mean, every 60": MeetingSetting(every=60).name,
    "nesterov, every 60": MeetingSetting(4, 60, *NESTEROV).name,
    "nesterov, 2 learners": MeetingSetting(2, 12, *NESTEROV).name,
    "nesterov, 8 learners": MeetingSetting(8, 12, *NESTEROV).name,
    "e3m0": MeetingSetting(4, 12, *NESTEROV, sends=SMALL).name,
    "sparse": MeetingSetting(sends=FEW).name,
    "sparse, no memory": MeetingSetting(sends=FEW, memory=False).name,
    "sparse, nesterov": MeetingSetting(4, 12, *NESTEROV, sends=FEW).name,
}


def arm_of(meeting: MeetingSetting) -> Arm:
    """The training of a way to meet."""
    outer = {MEAN: "mean", NESTEROV: "nesterov"}.get(
        (meeting.rate, meeting.momentum),
        partial(torch.optim.SGD, lr=meeting.rate, momentum=meeting.momentum, nesterov=meeting.momentum > 0),
    )
    return Arm(meeting.learners, meeting.every, outer, meeting.compressor if meeting.sends != DENSE else DENSE)


def read(path: Path) -> dict[str, dict[str, float]]:
    """A file of runs; none where it does not exist."""
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def write(more: dict[str, dict[str, float]]) -> None:
    """Put runs into the file, in the order in which they are declared; a run of the same name goes out."""
    found = read(FILE) | more
    names = [ALONE, SYNCHRONOUS, *(meeting.name for meeting in RECORDED)]
    lines = [f"{json.dumps(name)}: {json.dumps(found[name])}" for name in names if name in found]
    part = FILE.with_suffix(f".{os.getpid()}")
    part.write_text("{\n " + ",\n ".join(lines) + "\n}\n", "utf-8")
    part.replace(FILE)


def from_claims(folder: Path) -> dict[str, dict[str, float]]:
    """The runs that the claims have measured with the recording's seed."""
    made: dict[str, dict[str, float]] = {}
    for name in CLAIMS:
        path = folder / f"{name}.json"
        stored = json.loads(path.read_text("utf-8"))["measurements"] if path.exists() else []
        for each in stored:
            if each["seed"] == SEED and each["point"]["arm"] in OF_CLAIMS:
                numbers = {key: value for key, value in each["numbers"].items() if key != "loss"}
                made[OF_CLAIMS[each["point"]["arm"]]] = numbers
    return made


if __name__ == "__main__":
    status = run_again(sys.argv[1:], (__file__,))  # so that every processor records the same numbers, as in the claims
    if status is not None:
        sys.exit(status)
    FILE.parent.mkdir(exist_ok=True)
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    claims = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER / "claims"
    wanted = {ALONE: ARMS["alone"], SYNCHRONOUS: ARMS["synchronous"]}
    wanted |= {meeting.name: arm_of(meeting) for meeting in RECORDED}
    for name, arm in wanted.items():
        write(from_claims(claims))
        if name in read(FILE) or word not in name:
            continue
        start = time.process_time()
        with portable_arithmetic():
            numbers = train(arm, SEED)
        write({name: {key: value for key, value in numbers.items() if key != "loss"}})
        print(f"{name}: {numbers['loss']:.4f} bits, {time.process_time() - start:.0f} s", flush=True)
