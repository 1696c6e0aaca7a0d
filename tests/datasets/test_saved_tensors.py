"""save_tensors: what it writes, the safetensors package and load_tensors read, bit for bit."""

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from lplab import formats
from lplab.datasets import captured, load_tensors, save_tensors
from lplab.datasets.saved_tensors import STORED

TORCH_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
TORCH_TYPES |= {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e8m0": torch.float8_e8m0fnu}
TORCH_TYPES |= {"e4m3fnuz": torch.float8_e4m3fnuz, "e5m2fnuz": torch.float8_e5m2fnuz}


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == np.ascontiguousarray(b).tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_the_package_reads_every_type_and_shape(tmp_path, dtype, shape):
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    path = save_tensors({"a": values, "b.ü": values[..., None]}, tmp_path / "mine.safetensors")
    found = safetensors.numpy.load_file(path)
    native = values.astype(values.dtype.newbyteorder("="))
    assert set(found) == {"a", "b.ü"} and same(found["a"], native) and same(found["b.ü"], native[..., None])


def test_torch_tensors_keep_their_types_and_bits(tmp_path):
    x = torch.tensor([0.3, -0.0, 3e38, float("inf"), float("nan")])
    tensors = {str(dtype): x.to(dtype) for dtype in TORCH_TYPES.values()}
    tensors |= {"transposed": torch.arange(6.0).reshape(2, 3).t(), "parameter": torch.nn.Parameter(x), "n": x.long()}
    found = safetensors.torch.load_file(save_tensors(tensors, tmp_path / "mine.safetensors"))
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        assert torch.equal(found[name].view(torch.uint8), tensor.detach().contiguous().view(torch.uint8)), name


def test_arrays_of_ml_dtypes_keep_their_bits(tmp_path):
    x = np.float32([[0.3, 240.0]])
    names = [str(dtype).removeprefix("torch.") for dtype in TORCH_TYPES.values()]
    tensors = {name: x.astype(getattr(ml_dtypes, name)) for name in names if hasattr(ml_dtypes, name)}
    assert len(tensors) == 6
    found = load_tensors(save_tensors(tensors, tmp_path / "mine.safetensors"))
    assert all(same(found[name], tensors[name].astype(np.float32)) for name in tensors)


@pytest.mark.parametrize("format", STORED)
def test_captured_tensors_go_out_in_a_format_and_come_back_rounded(tmp_path, format):
    names = captured().select(model="resnet", layer="head")
    tensors = {name: captured()[name] for name in names}
    path = save_tensors(tensors, tmp_path / "captured.safetensors", format)
    found, theirs = load_tensors(path), safetensors.torch.load_file(path)
    for name, tensor in tensors.items():
        rounded = formats.get(format).quantize(tensor)
        assert theirs[name].dtype == TORCH_TYPES[format]
        np.testing.assert_array_equal(found[name].astype(np.float32), rounded)
        np.testing.assert_array_equal(theirs[name].float().numpy(), rounded)
    size = sum(tensor.size for tensor in tensors.values()) * formats.get(format).bits // 8
    assert path.stat().st_size - size < 200 * len(names)


NUMBERS = {
    "float32": (np.float32(3), 3.0),
    "int64": (np.int64(3), 3),
    "bfloat16": (ml_dtypes.bfloat16(1.5), 1.5),
    "no axis": (np.array(3.0), 3.0),
    "sign flag": (torch.tensor([1 + 2j]).conj().imag, [-2.0]),
    "view": (np.arange(6.0)[::-2], [5.0, 3.0, 1.0]),
}


@pytest.mark.parametrize("what", NUMBERS)
@pytest.mark.parametrize("format", [None, "fp16"])
def test_numbers_and_views_are_stored(tmp_path, what, format):
    x, want = NUMBERS[what]
    found = safetensors.torch.load_file(save_tensors({"a": x}, tmp_path / "mine.safetensors", format))["a"]
    assert found.tolist() == want and found.dtype == (torch.float16 if format and what != "int64" else found.dtype)


def test_weights_of_a_model_come_back(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    path = save_tensors(model.state_dict(), tmp_path / "model.safetensors")
    again = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    again.load_state_dict(safetensors.torch.load_file(path))
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    half = save_tensors(model.state_dict(), tmp_path / "half.safetensors", "bf16")
    found = safetensors.torch.load_file(half)
    assert found["1.num_batches_tracked"].dtype == torch.int64 and found["0.weight"].dtype == torch.bfloat16


def test_what_a_file_cannot_hold_is_refused_in_one_line_before_it_is_written(tmp_path):
    x, path = np.ones(2, np.float32), tmp_path / "mine.safetensors"
    cases = [
        (({"x": x}, tmp_path / "mine.npz"), r"mine.npz must end in .safetensors"),
        (({"x": x}, path, "e2m1"), r"cannot hold 'e2m1'; allowed: fp32, fp16, bf16, e4m3fn, e5m2"),
        (({}, path), "nothing to write"),
        (({3: x}, path), "must be text .* got 3"),
        (({"__metadata__": x}, path), "not __metadata__"),
        (({"x": x.astype(complex)}, path), "'x' is of complex128, which .* allowed: bfloat16, float8_e4m3fn"),
        (({"x": [1.0]}, path), "'x' is of list, which"),
        (({"x": torch.eye(2).to_sparse()}, path), "'x' cannot be stored: cannot save a tensor of sparse_coo layout"),
        (({"x": torch.eye(2).to_sparse()}, path, "fp16"), "'x' cannot be stored: .*; convert it with .to_dense"),
        (({"x": torch.ones(2, device="meta")}, path), "'x' cannot be stored: Cannot copy out of meta tensor"),
        (({"x": np.ma.MaskedArray(x, mask=[True, False])}, path), "'x' cannot be stored: a masked array would lose"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message) as error:
            save_tensors(*arguments)
        assert "\n" not in str(error.value) and not list(tmp_path.iterdir())
