"""MNIST, Fashion-MNIST and CIFAR-10: downloaded once, checked, stored in a folder, read with numpy.

`pooch` fetches (``pip install 'lplab[data]'``): it compares every file with its published checksum and keeps it, so
that the second call needs no network. Files that were put there by hand are used as well. Fashion-MNIST, which larger
runs of claims train with, is never downloaded by reading it: :func:`fetch_fashion_mnist` does that, or Debian's package
dataset-fashion-mnist brings it.
"""

import os
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from lplab.datasets.user_data import Split

IDX = {0x08: np.dtype("u1")}  # the only type of number that these files use
CIFAR_ROW = 1 + 3 * 32 * 32  # a label, then red, green and blue, row by row
Examples = tuple[np.ndarray, np.ndarray]
DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts its files."""
FASHION_SHA256 = {
    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
"""SHA-256 sums of what the gzip files hold; Debian's files have other gzip headers than the published ones."""
FETCH_FASHION = "lplab fetch fashion-mnist"


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


def read_idx(path: Path, sha256: str = "") -> np.ndarray:
    """An array in the IDX format of MNIST: two zeros, type, number of axes, sizes (big-endian int32), bytes; gzipped.

    Args:
        path: the gzip file.
        sha256: what the SHA-256 sum of its content must be; "": any.

    Raises:
        ValueError: the file is something else, or cut short.
    """
    import gzip
    import hashlib
    import zlib

    try:
        raw = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise ValueError(f"{path} is damaged or cut short ({problem}): delete it and get it again") from None
    if sha256 and (found := hashlib.sha256(raw).hexdigest()) != sha256:
        raise ValueError(
            f"{path} is not the published file: the SHA-256 sum of its content is {found}; delete it and get it again"
        )
    kind, axes = raw[2:3], raw[3] if len(raw) > 3 else 0
    sizes = tuple(np.frombuffer(raw[4 : 4 + 4 * axes], ">i4").tolist())
    if raw[:2] != b"\0\0" or kind not in (bytes([code]) for code in IDX) or len(raw) != 4 + 4 * axes + np.prod(sizes):
        raise ValueError(f"{path.name} is no IDX file of bytes")
    return np.frombuffer(raw, IDX[kind[0]], offset=4 + 4 * axes).reshape(sizes)


def read_mnist(folder: Path, part: str, sha256: Mapping[str, str] | None = None) -> Examples:
    """Images [n, 1, 28, 28] and labels [n] from the four files of MNIST and its successors.

    Args:
        folder: with the files.
        part: "train" or "test".
        sha256: of each file's content by the file's name, to be compared; None: nothing is compared.

    Raises:
        ValueError: as :func:`read_idx`.
    """
    prefix = {"train": "train", "test": "t10k"}[part]
    names = (f"{prefix}-images-idx3-ubyte.gz", f"{prefix}-labels-idx1-ubyte.gz")
    images, labels = (read_idx(folder / name, sha256[name] if sha256 else "") for name in names)
    return images[:, None], labels


def read_fashion_mnist(folder: Path, part: str) -> Examples:
    """As :func:`read_mnist`, and the content of each file is compared with :data:`FASHION_SHA256`."""
    return read_mnist(folder, part, FASHION_SHA256)


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
    read_fashion_mnist,
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
    _check_counts(train, test)
    place = Path(folder).expanduser() if folder is not None else default_folder(images.title)
    for name, md5 in images.files:
        _fetch(images, name, md5, place)
    return _read(images, place, train, test)


def _check_counts(train: int | None, test: int | None) -> None:
    for name, value in (("train", train), ("test", test)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise ValueError(f"{name} must be None or an integer of at least 1, got {value!r}")


def _read(images: ImageSet, place: Path, train: int | None, test: int | None) -> Split:
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
    """Clothes of ten kinds in grey, 28 × 28: 60,000 to train with and 10,000 to test with, read from this computer.

    Nothing is downloaded. The content of each file that is read is compared with its SHA-256 sum.

    Args:
        folder: where the four files lie; by default :data:`DEBIAN_FOLDER`, or, where Debian's package is not installed,
            the folder into which :func:`fetch_fashion_mnist` puts them.
        train, test: only so many examples, the first ones; all by default.

    Returns:
        Images float32 [n, 1, 28, 28] in 0..1 and labels int64 [n].

    Raises:
        FileNotFoundError: the files are not here; the message says how to get them.
        ValueError: a file is damaged or another one than published, or a number of examples is below 1.

    >>> FASHION_MNIST.source[:28]
    'Xiao, Rasul and Vollgraf 201'
    """
    _check_counts(train, test)
    try:
        place = _fashion_place(folder)
    except ImportError:  # without pooch nobody knows the cache; nothing was fetched then
        place = None
    if place is None or not _holds(place):
        raise FileNotFoundError(
            "Fashion-MNIST is not here: install Debian's package dataset-fashion-mnist, or fetch it once (31 MB) with "
            f"{FETCH_FASHION}, which needs pip install 'lplab[data]'"
        )
    return _read(FASHION_MNIST, place, train, test)


def fetch_fashion_mnist(folder: str | Path | None = None) -> Path:
    """Fetch the four files of Fashion-MNIST unless they are there, and check them.

    Args:
        folder: where they are to be put; by default a folder of ``LPLAB_DATA`` or, without that variable, of the user's
            cache. Without a folder nothing is fetched where Debian's package is installed.

    Returns:
        The folder that holds them.

    Raises:
        ImportError, ConnectionError: as :func:`load`.
        ValueError: a file is damaged or another one than published.
    """
    place = _fashion_place(folder)
    if place == DEBIAN_FOLDER:
        for part in ("train", "test"):
            FASHION_MNIST.read(place, part)
    else:
        load(FASHION_MNIST, place, train=1, test=1)
    return place


def _fashion_place(folder: str | Path | None) -> Path:
    """The folder given, or Debian's where it holds all files, or that of the user."""
    if folder is not None:
        return Path(folder).expanduser()
    return DEBIAN_FOLDER if _holds(DEBIAN_FOLDER) else default_folder(FASHION_MNIST.title)


def _holds(place: Path) -> bool:
    return all((place / name).is_file() for name, _ in FASHION_MNIST.files)


def cifar10(folder: str | Path | None = None, train: int | None = None, test: int | None = None) -> Split:
    """Ten kinds of things in colour, 32 × 32: 50,000 and 10,000; 162 MB to fetch. Arguments and errors: `load`.

    >>> [name for name, _ in CIFAR10.files]
    ['cifar-10-binary.tar.gz']
    """
    return load(CIFAR10, folder, train, test)
