"""from_arrays and from_files: what they read, what they refuse, and that files are read within limits."""

import io
import os
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from lplab import datasets

SUFFIXES = [".npz", ".safetensors", ".pt", ".pth"]
MIB = 1 << 20


def write(path: Path, **arrays: np.ndarray) -> Path:
    if path.suffix == ".npz":
        np.savez_compressed(path, **arrays)
    elif path.suffix == ".safetensors":
        save_file(arrays, path)
    else:
        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    return path


@pytest.mark.parametrize(("call", "message"), [
    (lambda: datasets.from_arrays([[1.0]], [1, 2]), "inputs have 1 rows and targets 2"),
    (lambda: datasets.from_arrays([1.0, np.nan], [1, 2]), "inputs hold numbers that are not finite"),
    (lambda: datasets.from_arrays(["a"], [1]), "inputs must be numbers"),
    (lambda: datasets.from_arrays([1e300, 2.0], [1, 2]), "inputs hold numbers beyond float32, whose largest is 3.4e"),
    (lambda: datasets.from_arrays(np.ones(2, np.longdouble) * 1e39, [1, 2]), "inputs hold numbers beyond float32"),
    (lambda: datasets.from_arrays([1.0, 2.0], np.uint64([2**63, 1])), "targets hold integers beyond int64, such as 92"),
    (lambda: datasets.from_arrays([1.0, 2.0], [2**70, 1]), "targets must be numbers, .* got object"),
    (lambda: datasets.from_arrays([[1.0], [2.0, 3.0]], [1, 2]), "inputs must be an array of numbers"),
    (lambda: datasets.from_arrays(np.ma.MaskedArray([1.0, 2.0]), [1, 2]), "inputs .* a masked array would lose its"),
    (lambda: datasets.from_arrays(torch.eye(2).to_sparse(), [1, 2]), "inputs .* cannot read a tensor of sparse_coo"),
    (lambda: datasets.from_arrays(torch.ones(2, device="meta"), [1, 2]), "inputs .* meta tensor"),
    (lambda: datasets.from_arrays([1.0, 2.0], [1, 2], test_share=1), "test_share must be above 0"),
    (lambda: datasets.from_arrays([1.0, 2.0], [1, 2], test_share=0.1), "one side would be empty"),
])  # fmt: skip
def test_bad_arrays_are_explained(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(5).bfloat16(),
        torch.ones(5).to(torch.float8_e4m3fn),
        torch.ones(5, requires_grad=True),
        torch.complex(torch.ones(5), -torch.ones(5)).conj().imag,
        np.ones(5, ml_dtypes.bfloat16),
        np.ones(5, np.longdouble),
        np.ones(5, ">f8"),
    ],
    ids=lambda x: str(x.dtype),
)
def test_every_kind_of_array(x):
    split = datasets.from_arrays(x, torch.arange(5))
    assert split.train_inputs.dtype == np.float32 and split.train_inputs.tolist() == [1] * 4
    assert split.train_targets.dtype == np.int64


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_of_a_file(tmp_path, suffix):
    x, y = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32), np.arange(10)
    path = write(tmp_path / f"mine{suffix}", a=x, b=y)
    split = datasets.from_files(path, "a", "b", seed=None)
    assert np.array_equal(np.concatenate([split.train_inputs, split.test_inputs]), x)
    assert split.train_targets.dtype == np.int64 and len(split.test_targets) == 2
    with pytest.raises(ValueError, match=r"has no array 'inputs'; it has: a, b"):
        datasets.from_files(path)
    with pytest.raises(FileNotFoundError, match=f"no file other{suffix} in"):
        datasets.from_files(tmp_path / f"other{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_every_dtype_of_numbers(tmp_path, suffix, dtype):
    x, y = np.array([0, 1, 1, 0, 1], dtype), np.arange(5)
    split = datasets.from_files(write(tmp_path / f"mine{suffix}", inputs=x, targets=y), seed=None)
    found = np.concatenate([split.train_inputs, split.test_inputs])
    assert found.tolist() == x.tolist() and found.dtype == (np.float32 if "float" in dtype else np.int64)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"x.csv cannot be read; allowed are .npy .npz .pt .pth .safetensors"):
        datasets.from_files(tmp_path / "x.csv")
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ValueError, match=r"one.npy has no array 'inputs'; it has: one"):
        datasets.from_files(tmp_path / "one.npy")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_too_large(tmp_path, suffix):
    path = write(tmp_path / f"mine{suffix}", inputs=np.zeros((1 << 16, 8), np.float32), targets=np.zeros(1 << 16, int))
    assert len(datasets.from_files(path, max_bytes=4 * MIB).train_inputs) == round(0.8 * (1 << 16))
    with pytest.raises(ValueError, match="raise max_bytes"):
        datasets.from_files(path, max_bytes=2 * MIB)


def test_a_zip_bomb(tmp_path):
    path = write(tmp_path / "bomb.npz", inputs=np.zeros((MIB, 8), np.float32), targets=np.zeros(MIB, int))
    assert path.stat().st_size < MIB
    with pytest.raises(ValueError, match="unpacks to more than the allowed size; raise max_bytes"):
        datasets.from_files(path, max_bytes=4 * MIB)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_cut_off(tmp_path, suffix):
    rng = np.random.default_rng(0)
    whole = write(tmp_path / f"whole{suffix}", inputs=rng.normal(size=(40, 3)), targets=np.arange(40)).read_bytes()
    for length in (0, 1, 7, len(whole) // 2, len(whole) - 1):
        (tmp_path / f"cut{suffix}").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cut") as caught:
            datasets.from_files(tmp_path / f"cut{suffix}")
        assert "\n" not in str(caught.value)


class Payload:
    """Unpickling this creates a folder: the proof that something was unpickled."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_objects_are_refused_and_never_unpickled(tmp_path, suffix):
    target, path = tmp_path / "made by the payload", tmp_path / f"evil{suffix}"
    if suffix == ".npz":
        stream = io.BytesIO()
        np.save(stream, np.array([Payload(target)], dtype=object), allow_pickle=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inputs.npy", stream.getvalue())
    elif suffix == ".safetensors":
        path.write_bytes(pickle.dumps(Payload(target)))
    else:
        torch.save({"inputs": torch.ones(5), "targets": Payload(target)}, path)
    with pytest.raises(ValueError, match="evil"):
        datasets.from_files(path)
    assert not target.exists()


def test_text_is_named_where_numbers_are_needed(tmp_path):
    np.savez(tmp_path / "mine.npz", inputs=np.array(["a", "b"]), targets=np.arange(2))
    with pytest.raises(ValueError, match=r"mine.npz: 'inputs' must hold numbers, got str"):
        datasets.from_files(tmp_path / "mine.npz")


def test_other_arrays_are_not_read(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, inputs=np.zeros((10, 3)), targets=np.arange(10), note=np.array("text"), more=np.zeros(99))
    assert len(datasets.from_files(path, max_bytes=path.stat().st_size).test_inputs) == 2
