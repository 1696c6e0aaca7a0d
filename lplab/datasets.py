"""Everything that can be learned from: digits, a novel, tensors of real training runs, your own files; all offline.

Sources, licences and how each file was made: ``data/README.md``. Needs numpy alone. MNIST, Fashion-MNIST and CIFAR-10
come from the network when they are asked for the first time (:mod:`lplab.image_sets`).

>>> images, labels = digits()
>>> images.shape, images.dtype.name, labels[:5].tolist()
((1797, 8, 8), 'float32', [0, 1, 2, 3, 4])
"""

import math
from functools import cache
from pathlib import Path

import numpy as np

from lplab.captured import Captured
from lplab.image_sets import cifar10, fashion_mnist, mnist
from lplab.own_examples import Split, from_arrays, from_files
from lplab.tensor_files import load_tensors

__all__ = [
    "Captured",
    "Split",
    "captured",
    "character_ids",
    "characters",
    "cifar10",
    "cluttered_digits",
    "data_folder",
    "digits",
    "fashion_mnist",
    "from_arrays",
    "from_files",
    "load_tensors",
    "mnist",
    "recall_sequences",
]
IGNORED = -100  # the target that PyTorch's cross-entropy leaves out


@cache
def data_folder() -> Path:
    """Folder of the data files: ``lplab/data`` in an installed package, ``data`` beside ``lplab`` in a checkout.

    >>> sorted(path.name for path in data_folder().iterdir() if path.suffix == ".md")
    ['README.md']
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "data", package.parent / "data"):
        if (folder / "digits" / "digits.npz").is_file():
            return folder
    raise FileNotFoundError(f"lplab's data files are in neither {package / 'data'} nor {package.parent / 'data'}")


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits: images float32 [1797, 8, 8] in 0..1 (multiples of 1/16) and labels int64 [1797].

    The test set of UCI's "Optical Recognition of Handwritten Digits" (Alpaydin and Kaynak 1998). Every call returns
    fresh arrays, in the order of the source: its last part is harder than a random choice, it seems by other hands.

    >>> float(digits()[0].max())
    1.0
    """
    with np.load(data_folder() / "digits" / "digits.npz", allow_pickle=False) as stored:
        return stored["images"].astype(np.float32) / 16, stored["labels"].astype(np.int64)


@cache
def characters() -> str:
    """Jane Austen's novel *Persuasion* (1818): 463,277 characters, one paragraph a line, 75 different symbols.

    >>> characters()[10:45]
    'Sir Walter Elliot, of Kellynch Hall'
    """
    return (data_folder() / "characters" / "persuasion.txt").read_bytes().decode("ascii")


def character_ids() -> tuple[np.ndarray, str]:
    """The novel as numbers: uint8 ids [463277] and the vocabulary, so that ``vocabulary[id]`` is the character.

    >>> ids, vocabulary = character_ids()
    >>> "".join(vocabulary[i] for i in ids[:9]), len(vocabulary)
    ('Chapter 1', 75)
    """
    codes = np.frombuffer(characters().encode("ascii"), dtype=np.uint8)
    symbols, ids = np.unique(codes, return_inverse=True)
    return ids.astype(np.uint8), symbols.tobytes().decode("ascii")


@cache
def captured() -> Captured:
    """Weights, activations and gradients of a residual net and a Transformer, caught while they trained.

    Made by ``data/capture.py``, which says what each role is. A tensor is read from disk when it is asked for.

    >>> captured()["resnet/step0/head/weight"].shape
    (10, 32)
    >>> captured().models
    ('resnet', 'transformer')
    """
    return Captured(data_folder() / "captured")


# ---- harder tasks, as many examples as you like ----------------------------------------------------------------------


def cluttered_digits(
    count: int, size: int = 16, clutter: int = 4, noise: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """A digit somewhere in a picture of noise and pieces of other digits: harder than the digits themselves.

    The digit lies at a random place with a random contrast and colour; ``clutter`` pieces of 4 × 4 of other digits lie
    around and upon it. Labels are drawn evenly.

    Args:
        count: how many.
        size: height and width, from 8 on.
        clutter: pieces a picture; 0 for none.
        noise: standard deviation of the noise; pixels are about 0 to 1.
        seed: same seed, same pictures.

    Returns:
        Images float32 [count, 3, size, size] and labels int64 [count].

    >>> images, labels = cluttered_digits(100, seed=1)
    >>> images.shape, images.dtype.name, sorted(set(labels.tolist())) == list(range(10))
    ((100, 3, 16, 16), 'float32', True)
    """
    for argument in (("count", count, 1), ("size", size, 8), ("clutter", clutter, 0)):
        _at_least(*argument)
    if not 0 <= noise < math.inf:
        raise ValueError(f"noise must be a number from 0 on, got {noise!r}")
    generator = np.random.default_rng(seed)
    pictures, labels = digits()
    chosen = generator.integers(0, len(pictures), count)
    images = generator.normal(0.0, noise, (count, 3, size, size)).astype(np.float32)
    _place(images, pictures[chosen], generator, contrast=(0.5, 1.0))
    for _ in range(clutter):
        others = pictures[generator.integers(0, len(pictures), count)]
        corner = generator.integers(0, 5, 2)
        piece = others[:, corner[0] : corner[0] + 4, corner[1] : corner[1] + 4]
        _place(images, piece, generator, contrast=(0.3, 0.8))
    return images, labels[chosen]


def _place(
    images: np.ndarray, pieces: np.ndarray, generator: np.random.Generator, contrast: tuple[float, float]
) -> None:
    """Add pieces [n, h, w] to images [n, 3, size, size], each at a place and in a colour of its own."""
    count, height, width = pieces.shape
    size = images.shape[-1]
    rows = generator.integers(0, size - height + 1, count)[:, None] + np.arange(height)
    columns = generator.integers(0, size - width + 1, count)[:, None] + np.arange(width)
    colours = generator.uniform(*contrast, (count, 3)).astype(np.float32)
    where = np.arange(count)[:, None, None, None], np.arange(3)[:, None, None]
    images[*where, rows[:, None, :, None], columns[:, None, None, :]] += colours[:, :, None, None] * pieces[:, None]


def recall_sequences(
    count: int, pairs: int = 8, keys: int = 16, values: int = 16, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of key and value, then a key: which value went with it? A task that needs attention or a long memory.

    Args:
        count: how many sequences.
        pairs: pairs in a sequence; all keys of a sequence differ.
        keys, values: numbers of different symbols; the symbols of keys come first.
        seed: same seed, same sequences.

    Returns:
        Symbols int64 [count, 2·pairs + 1] below keys + values, and targets int64 of the same shape: the value in the
        last place, and −100, which PyTorch's cross-entropy leaves out, everywhere else.

    >>> symbols, targets = recall_sequences(3, pairs=2)
    >>> symbols.shape, [int(t) in row for row, t in zip(symbols, targets[:, -1])]
    ((3, 5), [True, True, True])
    """
    for name, value in (("count", count), ("pairs", pairs), ("values", values)):
        _at_least(name, value, 1)
    if keys < pairs:
        raise ValueError(f"keys must be at least pairs = {pairs}, so that all keys of a sequence differ; got {keys}")
    generator = np.random.default_rng(seed)
    chosen = generator.random((count, keys)).argsort(axis=1)[:, :pairs]
    answers = keys + generator.integers(0, values, (count, pairs))
    asked = generator.integers(0, pairs, count)
    every = np.arange(count)
    symbols = np.empty((count, 2 * pairs + 1), np.int64)
    symbols[:, 0:-1:2], symbols[:, 1::2], symbols[:, -1] = chosen, answers, chosen[every, asked]
    targets = np.full_like(symbols, IGNORED)
    targets[:, -1] = answers[every, asked]
    return symbols, targets


def _at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
