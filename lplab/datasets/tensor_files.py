"""Tensors of users from ``.npy .npz .pt .pth .safetensors`` files, without trusting the file.

A tensor file from the internet may be huge, damaged or hostile. Sizes are therefore read from headers and summed before
memory is allocated. Pickles are never run: numpy's object arrays are refused, and torch's restricted ``weights_only``
reader builds only tensors and plain containers. Every error is one line that says what is allowed.
"""

import io
import json
import math
import struct
import warnings
import zipfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

__all__ = ["load_tensors"]

MIB = 1 << 20
FLOATS = frozenset({"float16", "float32", "float64"})
INTEGERS = frozenset({"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})
MAX_BYTES = 512 * MIB
MAX_HEADER = MIB  # of a .npy array
MAX_DEPTH, MAX_ITEMS = 32, 1_000_000  # of nested containers: a small pickle can describe 2^60 of them


def load_tensors(path: str | Path, max_bytes: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """Read all real-valued tensors of a file: name → array, in the order of the file.

    ``.npy`` holds one array, named like the file; ``.npz`` several; ``.pt`` and ``.pth`` a tensor or nested dicts and
    lists of tensors, as ``torch.save(model.state_dict(), …)`` writes them (needs PyTorch ≥ 2.6), whose keys are joined
    by dots; ``.safetensors`` several. float16, float32 and float64 stay what they are, in native byte order; bfloat16
    and 8-bit floats become float32, which holds all their values (in numpy's files they have lost their type). All
    other tensors are left out with a warning that names them and says what they are: integers, booleans, complex
    numbers, floats of fewer than 8 bits, quantized, sparse and nested tensors, and Python objects that need code to be
    read. Numbers and strings beside the tensors are left out silently.

    Raises FileNotFoundError, or ValueError when the file is no such file, is damaged, has two tensors of one name or no
    real tensor, or when the file or its tensors in memory are larger than ``max_bytes``.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "mine.npy"), np.float32([1, 2]))
    ...     load_tensors(Path(folder, "mine.npy"))
    {'mine': array([1., 2.], dtype=float32)}
    """
    path = Path(path).expanduser()
    tensors, skipped = read_arrays(path, FLOATS, max_bytes)
    left_out = [f"{name} ({dtype})" for name, dtype in skipped.items()]
    if not tensors:
        raise ValueError(f"{path.name} holds no floating-point tensor" + _listing("; there are", left_out))
    if left_out:
        warnings.warn(f"{path.name}: no floating-point numbers in" + _listing("", left_out), stacklevel=2)
    return tensors


def read_arrays(
    path: Path, dtypes: frozenset[str], max_bytes: int = MAX_BYTES, names: Collection[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays of a file whose dtypes are allowed: name → array; and name → dtype of the others, unread.

    Args:
        path: a file of one of :data:`READERS`.
        dtypes: names of dtypes to read, of :data:`FLOATS` and :data:`INTEGERS`.
        max_bytes: allowed size of the file, and of the arrays in memory.
        names: read only these; None reads all.

    Raises FileNotFoundError and ValueError as :func:`load_tensors` does, but for a file without such an array.
    """
    read = _check_file(path, max_bytes)
    arrays: dict[str, np.ndarray] = {}
    skipped: dict[str, str] = {}
    try:
        for name, found in read(path, _Limits(path.name, max_bytes, dtypes, names)):
            if name in arrays or name in skipped:
                raise _Refusal(f"{path.name} holds two tensors named {name!r}")
            if isinstance(found, str):
                skipped[name] = found
            else:
                arrays[name] = found
    except _Refusal as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # a damaged or hostile file can provoke any error in a parser
        raise ValueError(f"{path.name} is damaged or not a {path.suffix} file: {first_line(error)}") from error
    return arrays, skipped


class _Refusal(Exception):
    """What is wrong with the file, in one line for the user."""


@dataclass
class _Limits:
    """Which arrays may be read, and how many bytes of memory they may still take."""

    file: str
    bytes_left: int
    dtypes: frozenset[str]
    names: Collection[str] | None

    def allows(self, name: str, dtype: str) -> bool:
        """Whether to read an array."""
        return dtype in self.dtypes and (self.names is None or name in self.names)

    def reserve(self, name: str, shape: tuple[int, ...], itemsize: int) -> None:
        if any(n < 0 for n in shape):
            raise _Refusal(f"{self.file}: {name!r} has a negative size, {shape}")
        self.bytes_left -= math.prod(shape) * itemsize
        if self.bytes_left < 0:
            raise _Refusal(f"{self.file}: with {name!r} the tensors need more than the allowed size; raise max_bytes")


def first_line(error: Exception) -> str:
    """What an error says, in a line of at most 120 letters."""
    return (next(iter(str(error).splitlines()), "") or type(error).__name__)[:120]


def _listing(intro: str, names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{intro} {', '.join(names[:5])}{more}" if names else ""


def _check_file(path: Path, max_bytes: int) -> Any:
    """The reader for a file that exists, has an allowed name and an allowed size."""
    if not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or max_bytes <= 0:
        raise ValueError(f"max_bytes must be a positive number of bytes, got {max_bytes!r}")
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"no file {path.name} in {path.absolute().parent}") from None
    except OSError as error:  # a name of 300 letters, a folder that may not be read
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    if not path.is_file():
        raise ValueError(f"{path} is not a file; give one of {' '.join(READERS)}")
    if path.suffix.lower() not in READERS:
        raise ValueError(f"{path.name} cannot be read; allowed are {' '.join(READERS)}")
    size = path.stat().st_size
    if size == 0:
        raise ValueError(f"{path.name} is empty")
    if size > max_bytes:
        raise ValueError(f"{path.name} has {size:,} bytes, allowed are {max_bytes:,}; raise max_bytes")
    return READERS[path.suffix.lower()]


# ---- numpy -----------------------------------------------------------------------------------------------------------


def _fill(stream: IO[bytes], name: str, count: int, dtype: np.dtype, limits: _Limits) -> np.ndarray:
    """Read ``count`` numbers into a new array of native byte order."""
    array = np.empty(count, dtype)
    if stream.readinto(array.view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
        raise _Refusal(f"{limits.file}: {name!r} is cut off, its header promises {array.nbytes:,} bytes of data")
    if dtype.kind == "b":  # any byte but 0 is True
        return array.view(np.uint8) != 0
    return array.astype(dtype.newbyteorder("="), copy=False)


def _read_npy_stream(stream: IO[bytes], name: str, limits: _Limits) -> np.ndarray | str:
    """One .npy array; the name of its dtype where it is no float."""
    version = np.lib.format.read_magic(stream)
    read_header, header = np.lib.format.read_array_header_2_0, stream
    if version == (1, 0):
        read_header = np.lib.format.read_array_header_1_0
    elif version == (3, 0):  # as version 2, but in UTF-8, for names of fields
        (length,) = struct.unpack("<I", stream.read(4))
        if length > MAX_HEADER:
            raise _Refusal(f"{limits.file}: {name!r} has a header of {length:,} bytes; allowed are {MAX_HEADER:,}")
        latin = stream.read(length).decode("utf-8").encode("latin-1", "backslashreplace")
        header = io.BytesIO(struct.pack("<I", len(latin)) + latin)
    try:
        shape, fortran_order, dtype = read_header(header)
    except ValueError as error:
        if "not a valid dtype descriptor" in str(error):  # such as '<f1', which numpy writes for types of ml_dtypes
            return f"unknown type {str(error).rpartition(': ')[2]}"
        raise
    if dtype.hasobject:
        return "Python objects, which are never read"
    if not limits.allows(name, dtype.name):
        return dtype.name
    limits.reserve(name, shape, dtype.itemsize)
    array = _fill(stream, name, math.prod(shape), dtype, limits)
    return array.reshape(shape, order="F" if fortran_order else "C")


def _read_npy(path: Path, limits: _Limits) -> Iterator[tuple[str, np.ndarray | str]]:
    with path.open("rb") as stream:
        yield path.stem, _read_npy_stream(stream, path.stem, limits)


def _read_npz(path: Path, limits: _Limits) -> Iterator[tuple[str, np.ndarray | str]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                raise _Refusal(f"{path.name} holds {info.filename!r}; allowed are .npy arrays alone")
            name = info.filename.removesuffix(".npy")
            if info.file_size > limits.bytes_left + MAX_HEADER:
                raise _Refusal(f"{path.name}: {name!r} unpacks to more than the allowed size; raise max_bytes")
            with archive.open(info) as stream:  # inflates as it is read, never beyond file_size
                yield name, _read_npy_stream(stream, name, limits)


# ---- safetensors -----------------------------------------------------------------------------------------------------

SAFETENSORS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "|b1"}
SAFETENSORS |= {f"{'U' if code == 'u' else 'I'}{8 * size}": f"<{code}{size}" for code in "iu" for size in (1, 2, 4, 8)}
NARROW = {
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
"""Types that numpy lacks, with the names that torch and ml_dtypes have for them: read as codes, returned as float32."""
WIDENED = {kind: "<u2" if kind == "BF16" else "|u1" for kind in NARROW}


def _widen(codes: np.ndarray, kind: str) -> np.ndarray:
    """Codes of bfloat16 or an 8-bit float → float32 values."""
    if kind == "BF16":
        return (codes.astype(np.uint32) << 16).view(np.float32)
    from lplab import formats

    return formats.get(NARROW[kind]).decode(codes).astype(np.float32)


def _whole_numbers(values: Any, what: str) -> tuple[int, ...]:
    """A list of JSON as it must be; true, 4.0 and "4" are no whole numbers there."""
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise _Refusal(f"{what} must be a list of whole numbers, got {values!r:.60}")
    return tuple(values)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose reader would silently take the last of several values of a name."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"its header gives {name!r} twice")
        found[name] = value
    return found


def _read_safetensors(path: Path, limits: _Limits) -> Iterator[tuple[str, np.ndarray | str]]:
    """The format is public and short: 8 bytes of header length, a JSON header, the data."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        start = 8 + length
        size = path.stat().st_size
        if start > size:
            raise _Refusal(f"{path.name} is cut off or not a .safetensors file: no room for its header")
        if length > 100_000_000:  # the format's own limit
            raise _Refusal(f"{path.name}: a header of {length:,} bytes; the format allows 100,000,000")
        header = json.loads(stream.read(length), object_pairs_hook=_each_once)
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            kind = entry["dtype"]
            shape = _whole_numbers(entry["shape"], f"{path.name}: the shape of {name!r}")
            begin, end = _whole_numbers(entry["data_offsets"], f"{path.name}: the data_offsets of {name!r}")
            dtype = np.dtype((SAFETENSORS | WIDENED).get(kind, object))
            if not limits.allows(name, "float32" if kind in WIDENED else dtype.name):
                yield name, str(kind)
                continue
            limits.reserve(name, shape, 4 if kind in WIDENED else dtype.itemsize)
            if begin < 0 or end - begin != math.prod(shape) * dtype.itemsize or start + end > size:
                raise _Refusal(f"{path.name}: the data of {name!r} do not fit its shape or the file; is it cut off?")
            stream.seek(start + begin)
            array = _fill(stream, name, math.prod(shape), dtype, limits).reshape(shape)
            yield name, _widen(array, kind) if kind in WIDENED else array


# ---- torch -----------------------------------------------------------------------------------------------------------


def _read_torch(path: Path, limits: _Limits) -> Iterator[tuple[str, np.ndarray | str]]:
    try:
        import torch
    except ImportError:
        raise _Refusal(f"reading {path.suffix} files needs PyTorch: pip install 'lplab[torch]'") from None
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        raise _Refusal(f"PyTorch {torch.__version__} can be made to run code by a file (CVE-2025-32434); 2.6 is needed")
    if not zipfile.is_zipfile(path):
        raise _Refusal(f"{path.name} is damaged, or saved by PyTorch before 1.6; save it again with torch.save")
    with zipfile.ZipFile(path) as archive:
        if sum(info.file_size for info in archive.infolist()) > limits.bytes_left:
            raise _Refusal(f"{path.name} unpacks to more than the allowed size; raise max_bytes")
    allowed = "allowed are tensors in dicts and lists, such as model.state_dict()"
    unread: dict[str, Any] = {}
    try:
        unread.update(_unread_types(torch, path))
        with torch.serialization.safe_globals([(kind, name) for name, kind in unread.items()]):
            saved = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a hostile file provokes in the restricted reader: refuse the file
        reason = f"it needs code: {', '.join(unread)}"[:120] if unread else first_line(error)
        raise _Refusal(f"{path.name} holds something else or is damaged; {allowed} ({reason})") from error
    names = {kind: name for name, kind in unread.items()}
    if type(saved) in names:
        raise _Refusal(f"{path.name} holds {names[type(saved)]}, which needs code to be read; {allowed}")
    for name, tensor in _flatten(saved, path.stem, torch.Tensor):
        if type(tensor) in names:
            yield name, f"{names[type(tensor)]}, which needs code to be read"
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.").lstrip("_")
        if kind != "strided" or tensor.device.type != "cpu":
            yield name, f"{dtype}, {kind}" if kind != "strided" else f"{dtype} on {tensor.device}"
            continue
        narrow = dtype in NARROW.values()
        if not limits.allows(name, "float32" if narrow else dtype):
            yield name, dtype
            continue
        limits.reserve(name, tuple(tensor.shape), 4 if narrow else tensor.element_size())
        yield name, np.array(tensor_array(tensor))


def _unread_types(torch: Any, path: Path) -> dict[str, Any]:
    """What a .pt file names that the restricted reader does not know → a type that stands for it and does nothing.

    With these the reader goes on, and the other tensors of the file can be read. The type is a tensor, as it may have
    to stand for a subclass of tensors.
    """

    def new(kind: Any, *args: Any, **more: Any) -> Any:
        return torch.Tensor._make_subclass(kind, torch.empty(0))

    def ignore(self: Any, *args: Any, **more: Any) -> None:
        return None

    methods = {"__new__": new, "__init__": ignore, "__setstate__": ignore, "__setitem__": ignore}
    names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    return {name: type("Unread", (torch.Tensor,), methods) for name in sorted(names)}


def tensor_array(tensor: Any) -> np.ndarray:
    """A torch tensor as numpy; bfloat16 and 8-bit floats as float32."""
    tensor = tensor.detach().cpu().resolve_neg()  # views such as z.conj().imag have a sign flag that numpy lacks
    return (tensor.float() if str(tensor.dtype).removeprefix("torch.") in NARROW.values() else tensor).numpy()


def _flatten(saved: Any, stem: str, leaf: type) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dicts and lists under dotted names; a leaf alone is called ``stem``."""
    stack: list[tuple[str, Any, int]] = [("", saved, 0)]
    items = 0
    while stack:
        name, value, depth = stack.pop()
        items += 1
        if depth > MAX_DEPTH or items > MAX_ITEMS:
            raise _Refusal(f"containers are nested deeper than {MAX_DEPTH} or hold more than {MAX_ITEMS:,} items")
        if isinstance(value, leaf):
            yield name or stem, value
        elif isinstance(value, dict | list | tuple):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            below = [(f"{name}.{key}" if name else str(key), item, depth + 1) for key, item in inner]
            stack.extend(reversed(below))


READERS = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".safetensors": _read_safetensors,
}
