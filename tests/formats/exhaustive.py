"""One format against ml_dtypes on a share of all 2^32 float32 patterns: exhaustive.py NAME THEIRS PART PARTS."""

import dataclasses
import sys

import ml_dtypes
import numpy as np

from lplab import formats as F

CHUNK = 2**20  # patterns at a time: they stay in the cache


def first_of_runs(values: np.ndarray) -> np.ndarray:
    """The indices where runs of equal values begin: neighbouring patterns have mostly the same code."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))


def differences(name: str, theirs: str, part: int, parts: int) -> tuple[int, int, list]:
    """How many patterns were compared, how many differ (any NaN equals any NaN), and the first of them."""
    fmt = dataclasses.replace(F.get(name), saturating=False)
    kind = np.dtype(getattr(ml_dtypes, theirs))
    decoded = np.arange(256, dtype=np.uint8).view(kind).astype(np.float32)
    compared, bad = 0, []
    for chunk in range(part, 2**32 // CHUNK, parts):
        x = np.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            codes = x.astype(kind).view(np.uint8)
        got = fmt.quantize(x)
        compared += x.size
        bits, first = got.view(np.uint32), first_of_runs(codes)
        same_runs = np.array_equal(first, first_of_runs(bits))
        if not (same_runs and np.array_equal(bits[first], decoded[codes[first]].view(np.uint32))):  # or NaN
            want = decoded[codes]
            differ = (bits != want.view(np.uint32)) & ~(np.isnan(got) & np.isnan(want))
            bad += zip(x[differ].tolist(), got[differ].tolist(), want[differ].tolist(), strict=True)
    return compared, len(bad), bad[:5]


if __name__ == "__main__":
    print(differences(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
