"""Tensors into ``.safetensors`` files, which PyTorch, JAX, ONNX tools and ``load_tensors`` read. Needs numpy alone."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lplab import formats
from lplab.datasets.tensor_files import FLOATS, NARROW, SAFETENSORS, first_line
from lplab.formats.inputs import check_strided, is_torch, plain_array

STORED = {"fp32": "F32", "fp16": "F16"} | {formats.get(dtype).name: kind for kind, dtype in NARROW.items()}
"""The formats that a file can hold, and the names that safetensors has for them."""
_KINDS = {np.dtype(dtype).name: kind for kind, dtype in SAFETENSORS.items()}
_NARROW = {dtype: (kind, "int16" if kind == "BF16" else "uint8") for kind, dtype in NARROW.items()}


def save_tensors(tensors: Mapping[str, Any], path: str | Path, format: str | None = None) -> Path:
    """Write tensors to a .safetensors file: :func:`lplab.datasets.load_tensors` and every other reader reads it.

    Args:
        tensors: name → numpy array, numpy number or torch tensor, such as ``captured()`` or ``model.state_dict()``.
            Allowed are float16, bfloat16, float32, float64, the 8-bit floats of torch (also as ml_dtypes has them),
            integers and booleans.
        path: ends in .safetensors; a file that exists is replaced.
        format: round floating-point tensors of 16 bits and more to this format and store its codes: "fp32", "fp16",
            "bf16", "e4m3fn", "e5m2", "e8m0", "e4m3fnuz" or "e5m2fnuz". None stores every tensor in the type that it
            has.

    Returns:
        The path.

    Raises:
        ValueError: another suffix or format; nothing to write; a name that is no text; a tensor that a file cannot
            hold.

    >>> import tempfile
    >>> from lplab.datasets import load_tensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_tensors({"w": np.float32([0.3, 500.0])}, Path(folder, "mine.safetensors"), "e4m3fn")
    ...     load_tensors(path)
    {'w': array([3.125e-01, 4.480e+02], dtype=float32)}
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".safetensors":
        raise ValueError(f"{path.name} must end in .safetensors, the only kind of file that is written")
    if format is not None and format not in STORED:
        raise ValueError(f"a .safetensors file cannot hold {format!r}; allowed: {', '.join(STORED)}")
    if not tensors:
        raise ValueError("there is nothing to write: no tensors")
    header: dict[str, Any] = {}
    parts, end = [], 0
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"the name of a tensor must be text (and not __metadata__), got {name!r}")
        kind, shape, data = _stored(name, tensor, format)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end := end + len(data)]}
        parts.append(data)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of 8 bytes
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)
    return path


def _stored(name: str, tensor: Any, format: str | None) -> tuple[str, list[int], bytes]:
    """The type that safetensors calls it, the shape and the bytes of a tensor."""
    own = getattr(tensor, "dtype", type(tensor).__name__)
    dtype = own.name if isinstance(own, np.dtype) else str(own).removeprefix("torch.")
    try:
        if is_torch(tensor):
            check_strided(tensor, "save")
            tensor = tensor.detach().cpu().resolve_neg()
        elif isinstance(own, np.dtype):
            tensor = plain_array(tensor)
    except (TypeError, RuntimeError) as error:  # no numbers in memory, or a mask that a file cannot hold
        raise ValueError(f"{name!r} cannot be stored: {first_line(error)}") from None
    if format is not None and dtype in (*FLOATS, "bfloat16"):
        wanted = formats.get(format)
        codes = wanted.encode(tensor)
        array = np.asarray(codes).astype(f"uint{wanted.bits}")
        kind = STORED[format]
    elif dtype in _NARROW:  # numpy has no such type: the bits are written
        kind, bits = _NARROW[dtype]
        if not isinstance(tensor, np.ndarray):
            import torch

            tensor, bits = tensor.contiguous(), getattr(torch, bits)
        array = np.asarray(tensor.view(bits))
    elif dtype in _KINDS:
        kind, array = _KINDS[dtype], np.asarray(tensor)
    else:
        allowed = ", ".join((*_NARROW, *_KINDS))
        raise ValueError(f"{name!r} is of {dtype}, which a .safetensors file cannot hold; allowed: {allowed}")
    return kind, list(array.shape), array.astype(array.dtype.newbyteorder("<")).tobytes()
