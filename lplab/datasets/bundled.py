"""The data that ship with lplab: the folder that holds them, handwritten digits and a novel."""

from functools import cache
from pathlib import Path

import numpy as np


@cache
def data_folder() -> Path:
    """Folder of the data files: ``lplab/data`` in an installed package, ``data`` beside ``lplab`` in a checkout.

    >>> sorted(path.name for path in data_folder().iterdir() if path.suffix == ".md")
    ['README.md']
    """
    package = Path(__file__).resolve().parents[1]
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
