"""The data that ship with lplab: the folder that holds them, handwritten digits, a novel and spoken words."""

from functools import cache
from pathlib import Path

import numpy as np

from lplab.datasets.user_data import Split

LEVEL, EIGHT_DB = 28, 4  # spoken words are stored in steps of 2 dB: 24 dB below the loudest value, and 8 dB


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


def spoken_words() -> Split:
    """Ten words said by a speech synthesiser, as log-mel frames; the voices of the test are not heard in training.

    Inputs are float32 [n, 20, 40], twenty bands and forty frames of 20 ms, in units of 8 dB around 24 dB below the
    loudest value; targets are int64 [n], places in :func:`words`. 1,600 utterances by twenty voices to train with, 640
    by eight other voices to test with. How they were made: ``data/make_speech.py``.

    >>> spoken_words()
    Split(1600 to train with, 640 to test with, each 20×40)
    """
    with np.load(data_folder() / "speech" / "words.npz", allow_pickle=False) as stored:
        frames = [(stored[f"{part}_frames"].astype(np.float32) - LEVEL) / EIGHT_DB for part in ("train", "test")]
        labels = [stored[f"{part}_words"].astype(np.int64) for part in ("train", "test")]
    return Split(frames[0], labels[0], frames[1], labels[1])


def words() -> tuple[str, ...]:
    """The words of :func:`spoken_words`, in the order of their numbers.

    >>> words()[:4]
    ('yes', 'no', 'up', 'down')
    """
    with np.load(data_folder() / "speech" / "words.npz", allow_pickle=False) as stored:
        return tuple(stored["words"].tolist())
