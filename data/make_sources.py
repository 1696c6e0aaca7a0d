"""Make data/digits/digits.npz and data/characters/persuasion.txt again from the packages they come from.

Run from the repository root:

    python data/make_sources.py digits                                   (needs scikit-learn)
    apt-get download r-cran-janeaustenr                                  (any Debian or Ubuntu; the file is 1.6 MB)
    python data/make_sources.py characters r-cran-janeaustenr_1.0.0-1_all.deb
"""

import io
import re
import struct
import sys
import tarfile
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def make_digits() -> Path:
    """Write scikit-learn's digits as uint8 images [1797, 8, 8] of 0..16 and uint8 labels [1797]."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    path = HERE / "digits" / "digits.npz"
    np.savez_compressed(path, images=bunch.images.astype(np.uint8), labels=bunch.target.astype(np.uint8))
    return path


def deb_members(path: Path) -> tarfile.TarFile:
    """Open the data archive of a Debian package (an ar file: 60-byte headers, members padded to even length)."""
    raw = path.read_bytes()
    if not raw.startswith(b"!<arch>\n"):
        raise SystemExit(f"{path} is not a Debian package")
    at = 8
    while at < len(raw):
        name, size = raw[at : at + 16].decode().strip(), int(raw[at + 48 : at + 58])
        if name.startswith("data.tar"):
            return tarfile.open(fileobj=io.BytesIO(raw[at + 60 : at + 60 + size]))
        at += 60 + size + size % 2
    raise SystemExit(f"{path} holds no data archive")


def r_strings(serialized: bytes) -> list[str]:
    """Read one character vector from R's XDR serialization (R Internals, section 1.8)."""
    version, *_, native = struct.unpack(">4i", serialized[2:18])
    at = 18 + native if version == 3 else 14  # version 3 names its native encoding
    kind, count = struct.unpack(">2i", serialized[at : at + 8])
    if kind & 255 != 16:
        raise SystemExit(f"expected a character vector (type 16), found type {kind & 255}")
    at, strings = at + 8, []
    for _ in range(count):
        _, length = struct.unpack(">2i", serialized[at : at + 8])
        strings.append(serialized[at + 8 : at + 8 + length].decode("ascii"))
        at += 8 + length
    return strings


def novel_lines(package: Path, first_words: str) -> list[str]:
    """Return the lines of the novel whose first line is ``first_words`` from R's lazy-load database of the package."""
    with deb_members(package) as archive:
        database = archive.extractfile("./usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read()
    at = 0
    while at < len(database):  # length of the inflated object, then a zlib stream, one after the other
        inflate = zlib.decompressobj()
        serialized = inflate.decompress(database[at + 4 :])
        if first_words.encode() in serialized[:200]:
            return r_strings(serialized)
        at = len(database) - len(inflate.unused_data)
    raise SystemExit(f"{package} holds no novel that begins with {first_words!r}")


def make_characters(package: Path) -> Path:
    """Write Jane Austen's Persuasion, one paragraph a line, from its first chapter heading to its last sentence."""
    text = "\n".join(line.rstrip() for line in novel_lines(package, "Persuasion"))
    text = text[text.index("Chapter 1\n") : text.rindex("Finis")]
    text = text.replace("_", "")  # marks of emphasis
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    path = HERE / "characters" / "persuasion.txt"
    path.write_bytes(("\n".join(p for p in paragraphs if p) + "\n").encode("ascii"))
    return path


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["digits"]:
            print("wrote", make_digits())
        case ["characters", package]:
            print("wrote", make_characters(Path(package)))
        case _:
            raise SystemExit(__doc__)
