"""Progress where no file can be kept safely: in memory, until Python ends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any


class MemoryFile:
    """Holds one JSON object with a number ``schema``, as :class:`~lplab.exercises.progress.safe_file.SafeFile` does.

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
