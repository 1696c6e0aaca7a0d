"""MNIST, Fashion-MNIST and CIFAR-10: downloaded once, checked, stored in a folder, read with numpy.

`pooch` fetches (``pip install 'lplab[data]'``): it compares every file with its published checksum and keeps it, so
that the second call needs no network. Files that were put there by hand are used as well.
"""

import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from lplab.datasets.user_data import Split

IDX = {0x08: np.dtype("u1")}  # the only type of number that these files use
CIFAR_ROW = 1 + 3 * 32 * 32  # a label, then red, green and blue, row by row
Examples = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ImageSet:
    """A published set of small images.

    Args:
        title: its name.
        source: paper, and licence where there is one.
        files: names of the files with their MD5 sums, as published.
        mirrors: addresses to fetch from, tried in this order.
        read: function of (folder, part), part "train" or "test", that returns images uint8 [n, channels, height, width]
            and labels uint8 [n].
    """

    title: str
    source: str
    files: tuple[tuple[str, str], ...]
    mirrors: tuple[str, ...]
    read: Callable[[Path, str], Examples]


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_idx(path: Path) -> np.ndarray:
    """An array in the IDX format of MNIST: two zeros, type, number of axes, sizes (big-endian int32), bytes; gzipped.

    Raises:
        ValueError: the file is something else, or cut short.
    """
    import gzip

    raw = gzip.decompress(path.read_bytes())
    kind, axes = raw[2:3], raw[3] if len(raw) > 3 else 0
    sizes = tuple(np.frombuffer(raw[4 : 4 + 4 * axes], ">i4").tolist())
    if raw[:2] != b"\0\0" or kind not in (bytes([code]) for code in IDX) or len(raw) != 4 + 4 * axes + np.prod(sizes):
        raise ValueError(f"{path.name} is no IDX file of bytes")
    return np.frombuffer(raw, IDX[kind[0]], offset=4 + 4 * axes).reshape(sizes)


def read_mnist(folder: Path, part: str) -> Examples:
    """Images [n, 1, 28, 28] and labels [n] from the four files of MNIST and its successors."""
    name = {"train": "train", "test": "t10k"}[part]
    images = read_idx(folder / f"{name}-images-idx3-ubyte.gz")
    return images[:, None], read_idx(folder / f"{name}-labels-idx1-ubyte.gz")


def read_cifar10(folder: Path, part: str) -> Examples:
    """Images [n, 3, 32, 32] and labels [n] from the archive of CIFAR-10's binary version."""
    numbers = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}[part]
    with tarfile.open(folder / "cifar-10-binary.tar.gz") as archive:
        found = [archive.extractfile(f"cifar-10-batches-bin/{name}.bin") for name in numbers]
        raw = b"".join(member.read() for member in found if member is not None)
    rows = np.frombuffer(raw, np.uint8).reshape(-1, CIFAR_ROW)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


MNIST = ImageSet(
    "MNIST",
    "LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document recognition; CC BY-SA 3.0",
    (
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ),
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
    read_mnist,
)
FASHION_MNIST = ImageSet(
    "Fashion-MNIST",
    "Xiao, Rasul and Vollgraf 2017, Fashion-MNIST (arXiv:1708.07747); MIT licence",
    (
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ),
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    read_mnist,
)
CIFAR10 = ImageSet(
    "CIFAR-10",
    "Krizhevsky 2009, Learning multiple layers of features from tiny images; no licence given",
    (("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
    ("https://www.cs.toronto.edu/~kriz/",),
    read_cifar10,
)


# ---- fetching --------------------------------------------------------------------------------------------------------


def load(
    images: ImageSet, folder: str | Path | None = None, train: int | None = None, test: int | None = None
) -> Split:
    """An image set in its published division, fetched if it is not there yet.

    Args:
        images: such as `MNIST`.
        folder: where its files lie or are to be put; by default a folder of the set in ``LPLAB_DATA`` or, without that
            variable, in the user's cache.
        train, test: only so many examples, the first ones; all by default.

    Returns:
        Images float32 [n, channels, height, width] in 0..1 and labels int64 [n].

    Raises:
        ImportError: pooch is missing and so are the files.
        ConnectionError: no address answers.
        ValueError: a file has another checksum than the published one, or a number of examples is below 1.
    """
    for name, value in (("train", train), ("test", test)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise ValueError(f"{name} must be None or an integer of at least 1, got {value!r}")
    place = Path(folder).expanduser() if folder is not None else default_folder(images.title)
    for name, md5 in images.files:
        _fetch(images, name, md5, place)
    parts: list[np.ndarray] = []
    for part, count in (("train", train), ("test", test)):
        pixels, labels = images.read(place, part)
        parts += [pixels[:count].astype(np.float32) / np.float32(255), labels[:count].astype(np.int64)]
    return Split(*parts)


def default_folder(title: str) -> Path:
    """Where the files of a title are kept: in ``LPLAB_DATA`` or, without that variable, in the user's cache.

    Raises:
        ImportError: the cache is asked for, and pooch, which knows its place, is missing.
    """
    if "LPLAB_DATA" in os.environ:
        return Path(os.environ["LPLAB_DATA"]).expanduser() / title
    return Path(str(_pooch(title).os_cache("lplab"))) / title


def _pooch(title: str, by_hand: str = "") -> ModuleType:
    try:
        import pooch
    except ImportError:
        raise ImportError(f"{title} is fetched with pooch: pip install 'lplab[data]'{by_hand}") from None
    return pooch


def _fetch(images: ImageSet, name: str, md5: str, place: Path) -> None:
    """Fetch a file unless it is there with the published checksum."""
    if (place / name).is_file() and _md5(place / name) == md5:
        return
    pooch = _pooch(images.title, f", or put {', '.join(each for each, _ in images.files)} into {place}")
    pooch.get_logger().setLevel("WARNING")
    problem: Exception | None = None
    for mirror in images.mirrors:
        try:
            pooch.retrieve(mirror + name, f"md5:{md5}", fname=name, path=place, progressbar=True)
            return
        except OSError as error:  # all errors of requests are OSErrors
            problem = error
        except ValueError:
            raise ValueError(f"{mirror}{name} is not the published file: its MD5 sum is not {md5}") from None
    raise ConnectionError(
        f"{images.title} could not be fetched, it seems that there is no network: put {name} into {place} yourself, or "
        f"use lplab.datasets.digits(), which needs none ({type(problem).__name__} at {images.mirrors[-1]})"
    ) from problem


def _md5(path: Path) -> str:
    import hashlib

    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def mnist(folder: str | Path | None = None, train: int | None = None, test: int | None = None) -> Split:
    """Handwritten digits, 28 × 28: 60,000 to train with and 10,000 to test with. Arguments and errors: `load`.

    >>> mnist(train=0)
    Traceback (most recent call last):
    ...
    ValueError: train must be None or an integer of at least 1, got 0
    """
    return load(MNIST, folder, train, test)


def fashion_mnist(folder: str | Path | None = None, train: int | None = None, test: int | None = None) -> Split:
    """Clothes of ten kinds in grey, 28 × 28: 60,000 and 10,000, in MNIST's format. Arguments and errors: `load`.

    >>> FASHION_MNIST.source[:28]
    'Xiao, Rasul and Vollgraf 201'
    """
    return load(FASHION_MNIST, folder, train, test)


def cifar10(folder: str | Path | None = None, train: int | None = None, test: int | None = None) -> Split:
    """Ten kinds of things in colour, 32 × 32: 50,000 and 10,000; 162 MB to fetch. Arguments and errors: `load`.

    >>> [name for name, _ in CIFAR10.files]
    ['cifar-10-binary.tar.gz']
    """
    return load(CIFAR10, folder, train, test)
