"""The tensors that the explorer can show: captured in training, synthetic, or a person's own."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from lplab import datasets

MAX_ELEMENTS = 20_000  # elements that a live figure computes on
_RUN = 512  # neighbouring elements that subsampling keeps together, so that blocks of block formats stay blocks
SHORT_NAMES = {
    "weights": "resnet/step200/layer2.conv1/weight",
    "activations": "resnet/step200/layer2.conv1/activation",
    "gradients": "resnet/step200/layer2.conv1/gradient",
}


def _normal(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(10_000)


def _heavy_tailed(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(2, 10_000) * 0.01


def _wide(rng: np.random.Generator) -> np.ndarray:
    return rng.choice([-1.0, 1.0], 10_000) * np.exp2(rng.uniform(-30, 10, 10_000))


SYNTHETIC: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "synthetic/normal": _normal,
    "synthetic/heavy-tailed": _heavy_tailed,
    "synthetic/all magnitudes": _wide,
}


def subsample(array: np.ndarray, max_elements: int = MAX_ELEMENTS) -> np.ndarray:
    """Return at most `max_elements` elements in C order, always the same: runs of neighbours, evenly spread.

    >>> subsample(np.arange(10.0), max_elements=4).tolist(), len(subsample(np.zeros(10**6)))
    ([0.0, 3.0, 6.0, 9.0], 19968)
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size <= max_elements:
        return flat
    run = min(_RUN, max(1, max_elements // 16))
    starts = np.linspace(0, flat.size - run, max_elements // run).astype(np.int64)
    return flat[(starts[:, None] + np.arange(run)).reshape(-1)]


class TensorLibrary:
    """Tensors by name; files and arrays of one's own can be added.

    >>> library = TensorLibrary()
    >>> library.add("mine", np.array([1.0, 2.0], np.float32))
    'own/mine'
    >>> library["own/mine"].tolist(), "own/mine" in library.names()
    ([1.0, 2.0], True)
    """

    def __init__(self) -> None:
        self._own: dict[str, np.ndarray] = {}
        self._sample = lru_cache(maxsize=16)(lambda name: subsample(self[name]))

    def names(self) -> list[str]:
        """Return all names: captured as model/step/layer/role, then synthetic, then own."""
        return [*datasets.captured().names(), *SYNTHETIC, *self._own]

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self._own:
            return self._own[name]
        if name in SYNTHETIC:
            return SYNTHETIC[name](np.random.default_rng(2015)).astype(np.float32)
        return datasets.captured()[name]  # the message of a KeyError has the closest names

    def sample(self, name: str) -> np.ndarray:
        """Return the elements that live figures show: all, or an even sample of a large tensor."""
        return self._sample(name)

    def note(self, name: str) -> str:
        """Return a sentence where only a sample is shown, else "".

        >>> TensorLibrary().note("synthetic/normal")
        ''
        """
        whole, shown = self[name].size, self.sample(name).size
        return f"An even sample of {shown:,} of {whole:,} elements is shown." if shown < whole else ""

    def add(self, name: str, tensor: Any) -> str:
        """Add a real-valued array or torch tensor, and return its name in the library.

        Raises:
            ValueError: the tensor is empty or not real-valued.
        """
        tensor = tensor.detach().cpu().float().numpy() if hasattr(tensor, "detach") else tensor
        array = np.asarray(tensor)
        if array.dtype.kind not in "fiu" or not array.size:
            raise ValueError(f"{name}: real numbers are needed, got {array.size} elements of dtype {array.dtype}")
        key = f"own/{name}"
        self._own[key] = array.astype(np.float64 if array.dtype == np.float64 else np.float32, copy=False)
        self._sample.cache_clear()
        return key

    def add_file(self, path: str) -> list[str]:
        """Add all tensors of a .npy, .npz, .pt or .safetensors file, and return their names.

        Raises:
            ValueError, FileNotFoundError: as `lplab.datasets.load_tensors`, with a message of one line.
        """
        tensors = {name: array for name, array in datasets.load_tensors(path.strip()).items() if array.size}
        if not tensors:
            raise ValueError(f"{path}: no tensor with elements in it")
        return [self.add(name, array) for name, array in tensors.items()]

    def resolve(self, tensor: Any) -> str:
        """Return the name of a tensor given by name, by a short name such as "gradients", or as an array.

        Raises:
            ValueError: an unknown name; the message has the closest ones.

        >>> TensorLibrary().resolve("gradients")
        'resnet/step200/layer2.conv1/gradient'
        """
        if not isinstance(tensor, str):
            return self.add("array", tensor)
        name = SHORT_NAMES.get(tensor, tensor)
        try:
            self[name]
        except KeyError as error:
            raise ValueError(str(error.args[0])) from None
        return name


def group_of(name: str) -> str:
    """Return the first part of a name: a model, "synthetic" or "own"."""
    return name.split("/", 1)[0]


def choices(names: list[str], name: str) -> list[list[str]]:
    """Return the possible values of every part of a name after the first.

    >>> names = ["net/step0/a/weight", "net/step9/a/weight", "net/step0/b/gradient", "own/x"]
    >>> choices(names, "net/step0/a/weight")
    [['step0', 'step9'], ['a', 'b'], ['weight']]
    """
    group = [other.split("/", 1)[1] for other in names if group_of(other) == group_of(name)]
    if name.count("/") != 3:
        return [group]
    parts = name.split("/")[1:]
    split = [other.split("/") for other in group]
    roles = [other[2] for other in split if other[1] == parts[1]]  # not every layer has every role
    columns = [[other[0] for other in split], [other[1] for other in split], roles]
    return [list(dict.fromkeys(column)) for column in columns]


def nearest_name(names: list[str], wanted: str, fixed: int) -> str:
    """Return the name that has the wanted part number `fixed` and shares most other parts with the wanted name.

    >>> names = ["net/step0/a/weight", "net/step0/b/gradient", "net/step9/b/gradient"]
    >>> nearest_name(names, "net/step9/b/weight", fixed=2)
    'net/step9/b/gradient'
    """
    parts = wanted.split("/")
    same = [name for name in names if name.split("/")[: fixed + 1][-1] == parts[fixed] and group_of(name) == parts[0]]
    return max(same, key=lambda name: sum(a == b for a, b in zip(name.split("/"), parts, strict=False)))
