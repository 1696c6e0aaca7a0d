"""Values as JSON and back, exactly: the bits of floats, the sign of zero, dtypes and shapes.

Both sides of :mod:`lplab.exercises.isolation` use this module; ``child.py`` loads it by its path. So it needs the
standard library and numpy only. Nothing is unpickled: what comes from student code can only be numbers and text.
"""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_BYTES = 16_000_000  # bytes of one value
MAX_PARTS = 1_000_000  # parts of one list, tuple or dict
MAX_DEPTH = 50  # lists in lists
DTYPE_KINDS = "biufU"  # bool, int, unsigned, float, text. Never objects: their bytes are addresses
ADVICE = {  # for a type that cannot be sent: what it is, and what to return instead
    "generator": "a generator: use return in place of yield",
    "coroutine": "a coroutine: write def in place of async def",
    "async_generator": "a generator: use return in place of yield",
    "function": "a function: call it, with round brackets, to get its value",
    "builtin_function_or_method": "a function: call it, with round brackets, to get its value",
    "method": "a method: call it, with round brackets, to get its value",
    "ufunc": "a function: call it, with round brackets, to get its value",
    "complex": "a complex number: return real numbers",
    "ellipsis": "three dots: put the value in their place",
    "type": "a type: call it, with round brackets, to get a value",
    "map": "a map: write list(map(...))",
    "filter": "a filter: write list(filter(...))",
    "zip": "a zip: write list(zip(...))",
    "range": "a range: write list(range(...)) or numpy.arange(...)",
    "MaskedArray": "a masked array: return a plain numpy array",
    "matrix": "a numpy matrix: return a plain numpy array",
}


class UnserializableError(ValueError):
    """The value has no exact form in JSON; the message names its type and says what to return instead."""


@dataclass(frozen=True)
class Seeded:
    """An argument that reaches the function as ``numpy.random.default_rng(seed)``; it cannot stand inside a list.

    A seed that is no integer from 0 up raises a ValueError.

    >>> decode(encode_argument(Seeded(7))).random() == np.random.default_rng(7).random()
    True
    """

    seed: int

    def __post_init__(self) -> None:
        if type(self.seed) is not int or self.seed < 0:
            raise ValueError(f"the seed must be an integer from 0 up, not {self.seed!r}")


def encode_argument(value: Any) -> Any:
    """An argument as :func:`encode` gives it; :class:`Seeded` may be one, too."""
    return {"seeded": value.seed} if isinstance(value, Seeded) else encode(value)


def encode(value: Any, depth: int = MAX_DEPTH) -> Any:
    """``value`` as what ``json`` writes and reads back without a change; :func:`decode` turns it back.

    None, bool, int, float, str, list, tuple, dict, numpy scalars and arrays are encoded; everything else raises
    :class:`UnserializableError`, and so do an array
    of more than 16 MB, a list of more than a million parts, and nesting deeper than ``depth``.

    >>> encode((1, -0.0, np.float16(0.1)))
    {'tuple': [1, -0.0, {'scalar': '<f2', 'data': 'Zi4='}]}
    """
    if not depth:
        raise UnserializableError(f"a value that contains itself, or is nested more than {MAX_DEPTH} deep")
    if value is None or type(value) in (bool, float, str):
        return value
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        return _encode_numbers(value)
    if isinstance(value, np.ndarray):  # a subclass: its extras would be lost
        raise UnserializableError(_unserializable(value))
    return _encode_plain(value, depth - 1)


def _encode_plain(value: Any, depth: int) -> Any:
    if isinstance(value, int):  # hexadecimal has no limit of digits
        return int(value) if value.bit_length() < 1000 else {"int": hex(value)}
    if isinstance(value, list | tuple | dict) and len(value) > MAX_PARTS:
        raise UnserializableError(f"a {type(value).__name__} of {len(value):,} parts: at most {MAX_PARTS:,} are read")
    if isinstance(value, list):
        return [encode(part, depth) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(part, depth) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[encode(key, depth), encode(part, depth)] for key, part in value.items()]}
    if isinstance(value, float | str):
        return float(value) if isinstance(value, float) else str(value)
    raise UnserializableError(_unserializable(value))


def _encode_numbers(value: np.ndarray | np.generic) -> dict:
    if value.dtype.kind == "c":
        raise UnserializableError(ADVICE["complex"])
    if value.dtype.kind not in DTYPE_KINDS or value.dtype.str[1] == "V":
        raise UnserializableError(f"{_what(value)} of dtype {value.dtype}: use a number type of numpy, such as float32")
    if value.nbytes > MAX_BYTES:
        size = f"{value.nbytes / 1e6:,.0f} MB"
        raise UnserializableError(f"{_what(value)} of {size}: at most {MAX_BYTES // 10**6} MB are read")
    data = base64.b64encode(value.tobytes()).decode("ascii")
    if isinstance(value, np.generic):
        return {"scalar": value.dtype.str, "data": data}
    return {"array": value.dtype.str, "shape": list(value.shape), "data": data}


def _what(value: np.ndarray | np.generic) -> str:
    return "a value" if isinstance(value, np.generic) else "an array"


def _unserializable(value: Any) -> str:
    name = type(value).__name__
    article = "an" if name[:1].lower() in "aeiou" else "a"
    allowed = "use numbers, strings, lists, tuples, dicts or numpy arrays"
    return ADVICE.get(name) or f"{article} {name}: {allowed}"


def decode(form: Any) -> Any:
    """The value that :func:`encode` was given; arrays are writable. A form that it never makes raises ValueError.

    >>> decode(encode(np.array([-0.0, np.inf], dtype=np.float32)))
    array([-0., inf], dtype=float32)
    """
    if isinstance(form, list):
        return [decode(part) for part in form]
    if not isinstance(form, dict):
        return form
    match form:
        case {"array": str(dtype), "shape": list(shape), "data": str(data)}:
            return _decode_numbers(dtype, data, tuple(shape))
        case {"scalar": str(dtype), "data": str(data)}:
            return _decode_numbers(dtype, data, ())[()]
        case {"tuple": list(parts)}:
            return tuple(decode(part) for part in parts)
        case {"dict": list(pairs)}:
            return {decode(key): decode(part) for key, part in pairs}
        case {"int": str(digits)}:
            return int(digits, 16)
        case {"seeded": int(seed)}:
            return np.random.default_rng(seed)
    raise ValueError(f"no value has the keys {', '.join(map(str, form))}")


def _decode_numbers(dtype: str, data: str, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind not in DTYPE_KINDS or min(shape, default=0) < 0:
        raise ValueError(f"no array has dtype {dtype} and shape {shape}")
    if len(data) > 2 * MAX_BYTES or (min(shape, default=1) > 0 and not kind.itemsize):  # never made by encode
        raise ValueError(f"no array has dtype {dtype}, shape {shape} and so much data")
    return np.ndarray(shape, kind, base64.b64decode(data)).copy()
