"""A small JSON file that several kernels may write, safe against crashes.

Every change is: take the lock, read, change, write a new file beside the old one, put it in the old one's place. A
process that is killed at any moment leaves either the old file or the new one.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, 524)  # 524: ENOTSUPP, of the kernel alone
LOCK_TIMEOUT = 10.0  # seconds to wait for another kernel, which needs a few milliseconds


class NotSavedError(Exception):
    """The file cannot be written now; the message says why, in one line."""


class CorruptFileError(ValueError):
    """The file exists but its contents are not valid."""


@dataclass(frozen=True)
class SafeFile:
    """One JSON object with a number ``schema``, stored in a file.

    Args:
        path: where; the folder is made when it is needed.
        schema: the number that this version of lplab writes.
        upgrades: by an older number: a function to the object of the next number.

    >>> import tempfile
    >>> file = SafeFile(Path(tempfile.mkdtemp()) / "some.json", schema=1)
    >>> with file.locked():
    ...     file.write({"guess": 12})
    >>> file.read()
    {'schema': 1, 'guess': 12}
    """

    path: Path
    schema: int
    upgrades: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file against other writers. NotSavedError if the lock cannot be taken.

        The lock ends with the process. Where the file system has none, as a home in a network may, a file beside it
        stands for the lock. A browser has neither: of two notebooks that write within the same milliseconds, the
        second one wins.
        """
        lock = _lock(f"{self.path}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with warnings.catch_warnings(action="ignore"):  # filelock says so where it takes a file itself
                    lock.acquire()
            except (OSError, NotImplementedError) as error:
                if getattr(error, "errno", errno.ENOSYS) not in NO_LOCKS:
                    raise
                lock = _lock(f"{self.path}.soft-lock", soft=True)
                lock.acquire()
            yield
        except TimeoutError:
            raise NotSavedError(f"another program holds {Path(lock.lock_file).name}") from None
        except OSError as error:
            raise NotSavedError(f"{(error.strerror or str(error)).lower()} ({self.path})") from error
        finally:
            lock.release()

    def read(self) -> dict[str, Any]:
        """The object, upgraded to this schema; ``{"schema": …}`` alone where there is no file.

        Raises:
            CorruptFileError: it is not JSON, or no object with a schema. NotSavedError: a newer lplab wrote it, or it
            cannot be read.
        """
        try:
            data = json.loads(self.path.read_bytes().decode("utf-8"), parse_constant=_no_constant)
        except FileNotFoundError:
            return {"schema": self.schema}
        except OSError as error:
            raise NotSavedError(f"{(error.strerror or str(error)).lower()} ({self.path})") from error
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(str(error)) from error
        number = data.get("schema") if isinstance(data, dict) else None
        if type(number) is not int:
            raise CorruptFileError("no schema")
        if number > self.schema:
            raise NotSavedError(f"a newer lplab wrote {self.path} (schema {number}); update lplab to go on with it")
        return self._upgraded(data)

    def _upgraded(self, data: dict[str, Any]) -> dict[str, Any]:
        while data["schema"] < self.schema:
            upgrade = self.upgrades.get(data["schema"])
            if upgrade is None:
                raise CorruptFileError(f"no lplab wrote schema {data['schema']}")
            data = {**upgrade(data), "schema": data["schema"] + 1}
        return data

    def write(self, data: Mapping[str, Any]) -> None:
        """Replace the file by ``data`` atomically; only within `locked`. OSError if it cannot be done."""
        target = Path(os.path.realpath(self.path))  # a link stays one
        if target.exists() and not target.stat().st_mode & 0o222:
            raise NotSavedError(f"{self.path} is read-only")
        for leftover in target.parent.glob(f".{target.name}.*.new"):  # of a writer that was killed
            leftover.unlink(missing_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"schema": self.schema, **data}, file, indent=1, allow_nan=False)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def set_aside(self) -> Path:
        """Rename the corrupt file, so that nothing is lost, and return the new path; only within `locked`."""
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        other = self.path.with_name(f"{self.path.stem}.unreadable-{stamp}{self.path.suffix}")
        os.replace(self.path, other)
        return other


def _lock(path: str, soft: bool = False) -> Any:
    """A lock with ``acquire`` and ``release``; a TimeoutError comes where others hold it for too long."""
    if sys.platform == "emscripten":
        return _NoLock()
    import filelock

    return (filelock.SoftFileLock if soft else filelock.FileLock)(path, timeout=LOCK_TIMEOUT)


class _NoLock:
    def acquire(self) -> None:
        """Nothing is taken."""

    def release(self) -> None:
        """Nothing was taken."""


def _no_constant(name: str) -> Any:
    raise CorruptFileError(f"{name} is not JSON")  # Python would read NaN and Infinity, which it may not write


class MemoryFile:
    """Where no file can be kept safely: holds one JSON object with a number ``schema``, as `SafeFile` does.

    >>> file = MemoryFile(schema=1)
    >>> file.write({"guess": 12})
    >>> file.read()
    {'schema': 1, 'guess': 12}
    """

    def __init__(self, schema: int) -> None:
        self.path = Path("in memory")
        self._text = json.dumps({"schema": schema})
        self._schema = schema

    def locked(self) -> AbstractContextManager[None]:
        """Nobody else writes here."""
        return nullcontext()

    def read(self) -> dict[str, Any]:
        """The object: a copy, as from a file."""
        data: dict[str, Any] = json.loads(self._text)
        return data

    def write(self, data: Mapping[str, Any]) -> None:
        """Replace the object by ``data``; ValueError for what JSON cannot hold."""
        self._text = json.dumps({"schema": self._schema, **data}, allow_nan=False)

    def set_aside(self) -> Path:
        """Begin anew. What is written here is never corrupt, so this is called only where `Progress` refuses it."""
        self._text = json.dumps({"schema": self._schema})
        return self.path
