"""Examples of users, from arrays or a file, split into training and test examples. Needs numpy alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lplab.datasets.tensor_files import FLOATS, INTEGERS, MAX_BYTES, NARROW, first_line, read_arrays, tensor_array
from lplab.formats.inputs import check_strided, is_torch, plain_array


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Examples to train with and others to test with: numpy arrays with an example in each row."""

    train_inputs: np.ndarray
    train_targets: np.ndarray
    test_inputs: np.ndarray
    test_targets: np.ndarray

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.train_inputs.shape[1:])) or "one number"
        return f"Split({len(self.train_inputs)} to train with, {len(self.test_inputs)} to test with, each {shape})"


def from_arrays(inputs: Any, targets: Any, test_share: float = 0.2, seed: int | None = 0) -> Split:
    """Your own examples, shuffled and split.

    Args:
        inputs: array-like or torch tensor, an example in each row; floats become float32, integers int64.
        targets: array-like or torch tensor, as many rows: integers for classes, floats for regression.
        test_share: share of the examples to test with, above 0 and below 1.
        seed: of the shuffling; None keeps the order, so that the last examples are those to test with.

    Raises:
        ValueError: no rows, different numbers of rows, no numbers, or numbers that are not finite or too large for
            float32 or int64.

    >>> from_arrays(np.zeros((10, 3)), np.arange(10))
    Split(8 to train with, 2 to test with, each 3)
    """
    x, y = _numbers("inputs", inputs), _numbers("targets", targets)
    if len(x) != len(y):
        raise ValueError(f"inputs have {len(x)} rows and targets {len(y)}; there must be a target for each input")
    if not 0 < test_share < 1:
        raise ValueError(f"test_share must be above 0 and below 1, got {test_share!r}")
    held = round(len(x) * test_share)
    if not 0 < held < len(x):
        raise ValueError(f"{len(x)} examples cannot be split with test_share={test_share!r}: one side would be empty")
    order = np.arange(len(x)) if seed is None else np.random.default_rng(seed).permutation(len(x))
    train, test = order[: len(x) - held], order[len(x) - held :]
    return Split(x[train], y[train], x[test], y[test])


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        if is_torch(values):
            check_strided(values, "read")
            values = tensor_array(values)
        array = plain_array(values) if isinstance(values, np.ndarray) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, masked arrays, tensors without numbers
        reason = first_line(error)
        raise ValueError(f"{name} must be an array of numbers, an example in each row: {reason}") from None
    real = array.dtype.kind == "f" or array.dtype.name in NARROW.values()
    if not (real or array.dtype.kind in "iub") or array.ndim == 0:
        raise ValueError(f"{name} must be numbers, an example in each row; got {array.dtype} of shape {array.shape}")
    if not real:
        if array.size and array.max() > np.iinfo(np.int64).max:
            raise ValueError(f"{name} hold integers beyond int64, such as {array.max()}; number your classes from 0")
        return array.astype(np.int64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} hold numbers that are not finite")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise ValueError(f"{name} hold numbers beyond float32, whose largest is {np.finfo(np.float32).max:.3g}")
    return narrow


def from_files(
    path: str | Path,
    inputs: str = "inputs",
    targets: str = "targets",
    test_share: float = 0.2,
    seed: int | None = 0,
    max_bytes: int = MAX_BYTES,
) -> Split:
    """Your own examples from one file with two arrays.

    The file is not trusted: it is read as :func:`lplab.datasets.load_tensors` reads it, integers and booleans included.

    Args:
        path: an .npz, .safetensors, .pt or .pth file; files that hold Python objects are refused.
        inputs, targets: names of the two arrays in it; no other array is read.
        test_share, seed: as in :func:`from_arrays`.
        max_bytes: allowed size of the file, and of the two arrays in memory.

    Raises FileNotFoundError, or ValueError for another kind of file, one that is damaged or too large, or a name that
    is not in it or names no array of numbers.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "mine.npz"), inputs=np.zeros((10, 3)), targets=np.arange(10))
    ...     from_files(Path(folder, "mine.npz"))
    Split(8 to train with, 2 to test with, each 3)
    """
    path = Path(path).expanduser()
    arrays, others = read_arrays(path, FLOATS | INTEGERS, max_bytes, names=(inputs, targets))
    for name in (inputs, targets):
        if name in others:
            raise ValueError(f"{path.name}: {name!r} must hold numbers, got {others[name]}")
        if name not in arrays:
            there = ", ".join(sorted([*arrays, *others])) or "nothing"
            raise ValueError(f"{path.name} has no array {name!r}; it has: {there}")
    return from_arrays(arrays[inputs], arrays[targets], test_share, seed)
