"""Where the text of a command goes: streams of any encoding, pipes that nobody reads, disks that are full."""

import codecs
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper

FAILED_OUTPUT = 74  # exit code where the machine fails: EX_IOERR of sysexits.h
MACHINE = frozenset(  # errors that no other input would change
    getattr(errno, name)
    for name in ("EPIPE", "ENOSPC", "EDQUOT", "EFBIG", "EIO", "ENOMEM", "EMFILE", "ENFILE", "ESTALE", "ENXIO", "EBADF")
    if hasattr(errno, name)
)
PLAIN = str.maketrans({  # what stands for a character that an encoding lacks
    "→": "->", "←": "<-", "×": "x", "·": "*", "−": "-", "–": "-", "—": "-", "…": "...", "“": '"', "”": '"', "„": '"',
    "‘": "'", "’": "'", "≤": "<=", "≥": ">=", "≈": "~", "±": "+-", "∞": "inf", "µ": "u", "μ": "u", "²": "^2", "³": "^3",
    "●": "*", "○": "o", "✓": "yes", "\xa0": " ", "\u202f": " ", "\u2009": " ",
})  # fmt: skip
AS_TEXT, AS_JSON = "lplab.text", "lplab.json"  # handlers of characters that an encoding lacks


def _encodable(text: str, encoding: str) -> str:
    return text.encode(encoding, "replace").decode(encoding)


def _as_text(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return _encodable(lacking.translate(PLAIN), error.encoding), error.end


def _as_json(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2)), error.end


codecs.register_error(AS_TEXT, _as_text)
codecs.register_error(AS_JSON, _as_json)


@contextmanager
def usable_streams() -> Iterator[None]:
    """Standard output and error that take every text: where there is none, nothing is written.

    A character that the encoding of a stream lacks is written in other words, as → becomes ->.
    """
    with ExitStack() as at_the_end:
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None:  # closed before Python began
                setattr(sys, name, at_the_end.enter_context(open(os.devnull, "w", encoding="utf-8")))
                at_the_end.callback(setattr, sys, name, None)
            elif isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
                at_the_end.callback(_reconfigure, stream, stream.errors)
                stream.reconfigure(errors=AS_TEXT)
        yield


def _reconfigure(stream: TextIOWrapper, errors: str) -> None:
    with suppress(OSError, ValueError):  # full, or closed by now
        stream.reconfigure(errors=errors)


def print_json() -> None:
    """From now on characters that standard output lacks are written as JSON writes them, by their numbers."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == AS_TEXT:
        sys.stdout.reconfigure(errors=AS_JSON)


def drop_output() -> None:
    """Give up what is not yet written to standard output, so that the end of Python does not try again."""
    with suppress(OSError, ValueError, AttributeError):
        number = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        sys.stdout.flush()
