"""load_tensors: what it reads, what it refuses, and that no file makes it run code or take memory it may not take."""

import argparse
import collections
import io
import json
import os
import pickle
import re
import struct
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lplab.datasets import load_tensors

MIB = 1 << 20
SUFFIXES = [".npy", ".npz", ".pt", ".pth", ".safetensors"]


class Payload:
    """Unpickling this creates a file: the proof that something was unpickled."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return (os.mkdir, (str(self.target),))


class Stateful:
    """Notes that it was unpickled."""

    woken = False

    def __getstate__(self):
        return {"a": torch.ones(2)}

    def __setstate__(self, state):
        Stateful.woken = True


def write(path: Path, tensors: dict[str, np.ndarray]) -> Path:
    """Write float arrays with the packages that people use; .npy takes the first."""
    match path.suffix:
        case ".npy":
            np.save(path, next(iter(tensors.values())))
        case ".npz":
            np.savez_compressed(path, **tensors)
        case ".safetensors":
            safetensors.numpy.save_file(tensors, path)
        case _:
            torch.save({name: torch.from_numpy(array) for name, array in tensors.items()}, path)
    return path


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == np.ascontiguousarray(b).tobytes()


# ---- what it reads ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_floats_come_back_bit_for_bit(tmp_path, suffix, dtype):
    values = np.array([[1.5, -0.0, np.nan], [np.inf, 6e-8, -3]], dtype=dtype)
    found = load_tensors(write(tmp_path / f"mine{suffix}", {"mine": values}))
    assert list(found) == ["mine"] and same(found["mine"], values)
    assert found["mine"].flags.writeable


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,), (2, 3, 4)])
def test_every_shape(tmp_path, suffix, shape):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert same(load_tensors(write(tmp_path / f"mine{suffix}", {"mine": values}))["mine"], values)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_several_tensors(tmp_path, suffix):
    tensors = {"layer.weight": np.ones((3, 2), np.float32), "layer.bias": np.zeros(3, np.float64)}
    found = load_tensors(str(write(tmp_path / f"mine{suffix}", tensors)))
    assert found.keys() == tensors.keys() and all(same(found[name], tensors[name]) for name in tensors)


def test_fortran_order_and_foreign_byte_order(tmp_path):
    values = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    np.save(tmp_path / "mine.npy", values)
    found = load_tensors(tmp_path / "mine.npy")["mine"]
    assert found.dtype.isnative and np.array_equal(found, values)


def test_nested_state_dicts_get_dotted_names(tmp_path):
    state = {"model": {"a": torch.ones(2), "list": [torch.zeros(1), torch.ones(1)]}, "epoch": 3, "note": "hello"}
    torch.save(state, tmp_path / "mine.pt")
    assert list(load_tensors(tmp_path / "mine.pt")) == ["model.a", "model.list.0", "model.list.1"]


def test_a_tensor_alone_is_named_like_its_file(tmp_path):
    torch.save(torch.nn.Parameter(torch.arange(3.0)), tmp_path / "mine.pth")
    assert load_tensors(tmp_path / "mine.pth")["mine"].tolist() == [0, 1, 2]


def test_strided_views_and_shared_storage(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    torch.save({"whole": base, "transposed": base.T, "column": base[:, 1]}, tmp_path / "mine.pt")
    found = load_tensors(tmp_path / "mine.pt")
    assert np.array_equal(found["transposed"], found["whole"].T) and np.array_equal(found["column"], [1, 5, 9])


def test_state_dict_of_a_real_model(tmp_path):
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    with pytest.warns(UserWarning, match=r"no floating-point numbers in 1.num_batches_tracked \(int64\)"):
        found = load_tensors(tmp_path / "mine.pt")
    assert set(found) == set(model.state_dict()) - {"1.num_batches_tracked"}


FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
BFLOAT16 = torch.tensor([1.0, -2.5, float("inf"), float("nan"), 1e-40, 3.0e38]).to(torch.bfloat16)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_bfloat16_becomes_float32_exactly(tmp_path, suffix):
    path = tmp_path / f"mine{suffix}"
    (torch.save if suffix == ".pt" else safetensors.torch.save_file)({"b": BFLOAT16}, path)
    assert same(load_tensors(path)["b"], BFLOAT16.float().numpy())


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("kind", FLOAT8)
def test_float8_becomes_float32_exactly(tmp_path, suffix, kind):
    codes = torch.arange(256, dtype=torch.uint8)
    path = tmp_path / f"mine{suffix}"
    (torch.save if suffix == ".pt" else safetensors.torch.save_file)({"b": codes.view(kind)}, path)
    expected = codes.numpy().view(getattr(ml_dtypes, str(kind).removeprefix("torch.")))
    np.testing.assert_array_equal(load_tensors(path)["b"], expected.astype(np.float32))


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".safetensors"])
def test_integers_are_left_out_with_a_warning(tmp_path, suffix):
    tensors = {"w": np.ones(2, np.float32), "ids": np.arange(3), "mask": np.array([True])}
    path = write(tmp_path / f"mine{suffix}", tensors)
    with pytest.warns(UserWarning, match=r"ids \((int64|I64)\), mask \((bool|BOOL)\)|mask .*, ids .*"):
        assert list(load_tensors(path)) == ["w"]


def test_only_integers_is_an_error(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(3))
    with pytest.raises(ValueError, match=r"ids.npy holds no floating-point tensor; there are ids \(int64\)"):
        load_tensors(tmp_path / "ids.npy")


class Tagged(torch.Tensor):
    """A subclass, which a file can only name."""


ODD = {
    "float32, sparse_coo": lambda: torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0]), (2,)),
    "float32, sparse_csr": lambda: torch.eye(2).to_sparse_csr(),
    "float32, nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "float32 on meta": lambda: torch.ones(2, device="meta"),
    "complex64": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "float4_e2m1fn_x2": lambda: torch.arange(8, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    "bits8": lambda: torch.arange(8, dtype=torch.uint8).view(torch.bits8),
    "qint8": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    "test_tensor_files.Tagged, which needs code": lambda: torch.ones(2).as_subclass(Tagged),
    "argparse.Namespace, which needs code": lambda: argparse.Namespace(weights=torch.ones(2)),
    "numpy._core.multiarray._reconstruct, which needs code": lambda: np.ones(2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", ODD)
def test_tensors_without_plain_numbers_are_left_out(tmp_path, what):
    """The others are read, and each of these is named with what it is."""
    flagged = torch.tensor([1 + 2j]).conj().imag  # its sign is a flag that numpy lacks
    torch.save({"plain": torch.ones(1), "odd": ODD[what](), "flagged": flagged}, tmp_path / "mine.pt")
    with pytest.warns(UserWarning, match=rf"no floating-point numbers in odd \(.*{what}"):
        found = load_tensors(tmp_path / "mine.pt")
    assert list(found) == ["plain", "flagged"] and found["flagged"].tolist() == [-2]


ODD_ARRAYS = {
    "unknown type '<f1'": lambda: np.array([1.5], ml_dtypes.float8_e5m2),
    "void16": lambda: np.array([1.5], ml_dtypes.bfloat16),
    "void32": lambda: np.zeros(2, [("größe", "f4")]),
    "complex128": lambda: np.array([1j]),
    "datetime64[D]": lambda: np.array(["2026-01-01"], "M8[D]"),
    "str32": lambda: np.array(["a"]),
    "Python objects, which are never read": lambda: np.array([None]),
}


@pytest.mark.parametrize("what", ODD_ARRAYS)
def test_arrays_of_other_types_are_left_out(tmp_path, what):
    np.savez(tmp_path / "mine.npz", plain=np.ones(1), odd=ODD_ARRAYS[what]())
    with pytest.warns(UserWarning, match=rf"no floating-point numbers in odd \({re.escape(what)}\)"):
        assert list(load_tensors(tmp_path / "mine.npz")) == ["plain"]
    np.save(tmp_path / "odd.npy", ODD_ARRAYS[what]())
    with pytest.raises(ValueError, match=rf"odd.npy holds no floating-point tensor; there are odd \({re.escape(what)}"):
        load_tensors(tmp_path / "odd.npy")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_npy(tmp_path, version):
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    with (tmp_path / "mine.npy").open("wb") as file:
        np.lib.format.write_array(file, x, version=version)
    assert same(load_tensors(tmp_path / "mine.npy")["mine"], x)
    if version == (3, 0):
        with (tmp_path / "names.npy").open("wb") as file:
            np.lib.format.write_array(file, np.zeros(2, [("日本", "f4")]), version=version)
        with pytest.raises(ValueError, match=r"names \(void32\)"):
            load_tensors(tmp_path / "names.npy")


def test_narrow_types_of_safetensors_are_left_out(tmp_path):
    for kind, size in (("F4", 1), ("F6_E2M3", 2), ("C64", 16), ("NEW", 2)):
        header = {"odd": {"dtype": kind, "shape": [2], "data_offsets": [4, 4 + size]}}
        header |= {"plain": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
        path = safetensors_file(tmp_path / "mine.safetensors", header, bytes(4 + size))
        with pytest.warns(UserWarning, match=rf"no floating-point numbers in odd \({kind}\)"):
            assert list(load_tensors(path)) == ["plain"]


# ---- nothing is unpickled --------------------------------------------------------------------------------------------


def hostile_npy(target: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Payload(target)], dtype=object), allow_pickle=True)
    return stream.getvalue()


def hostile_file(path: Path, target: Path) -> None:
    if path.suffix == ".npy":
        path.write_bytes(hostile_npy(target))
    elif path.suffix == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("evil.npy", hostile_npy(target))
    elif path.suffix == ".pt":
        torch.save({"evil": Payload(target)}, path)
    else:  # a pickle as older torch wrote it, or under a wrong name
        path.write_bytes(pickle.dumps(Payload(target)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_payload_is_run(tmp_path, suffix):
    target = tmp_path / "made by the payload"
    hostile_file(tmp_path / f"evil{suffix}", target)
    with pytest.raises(ValueError, match="evil"):
        load_tensors(tmp_path / f"evil{suffix}")
    assert not target.exists()


def test_the_payload_would_work(tmp_path):
    """Otherwise the test above proves nothing."""
    target = tmp_path / "made by the payload"
    hostile_file(tmp_path / "evil.pt", target)
    torch.load(tmp_path / "evil.pt", weights_only=False)
    assert target.exists()


def test_a_whole_module_is_refused_with_advice(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "mine.pt")
    with pytest.raises(ValueError, match=r"torch.nn.modules.linear.Linear, which needs code .*model.state_dict\(\)"):
        load_tensors(tmp_path / "mine.pt")
    torch.save({"a": torch.ones(2), "lists": collections.defaultdict(list, b=[1])}, tmp_path / "lists.pt")
    with pytest.raises(ValueError, match=r"lists.pt .* in dicts .* \(it needs code: .*collections.defaultdict\)"):
        load_tensors(tmp_path / "lists.pt")


def test_nothing_of_a_payload_is_run_beside_tensors(tmp_path):
    """Calls, states and items of unknown types are passed over; afterwards torch knows as little as before."""
    before = set(torch.serialization.get_safe_globals())
    torch.save({"a": torch.ones(2), "odd": Stateful()}, tmp_path / "mine.pt")
    with pytest.warns(UserWarning, match="odd .*Stateful, which needs code"):
        assert list(load_tensors(tmp_path / "mine.pt")) == ["a"]
    assert not Stateful.woken and set(torch.serialization.get_safe_globals()) == before


# ---- size limits -----------------------------------------------------------------------------------------------------


def peak_of_refusal(path: Path, limit: int, match: str) -> int:
    """Refuses the file; the bytes that Python and numpy took at the peak."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            load_tensors(path, max_bytes=limit)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_limit_counts_tensors_in_memory(tmp_path, suffix):
    path = write(tmp_path / f"mine{suffix}", {"a": np.zeros(1 << 18, np.float32)})
    room = max(MIB, path.stat().st_size)
    assert load_tensors(path, max_bytes=room)["a" if suffix != ".npy" else "mine"].nbytes == MIB
    with pytest.raises(ValueError, match="raise max_bytes"):
        load_tensors(path, max_bytes=MIB - 1)


def test_zip_bomb(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", **{f"a{i}": np.zeros(8 * MIB, np.float32) for i in range(2)})
    assert (tmp_path / "bomb.npz").stat().st_size < MIB
    assert peak_of_refusal(tmp_path / "bomb.npz", MIB, "unpacks to more than the allowed size") < MIB


def test_many_small_members_add_up(tmp_path):
    np.savez_compressed(tmp_path / "many.npz", **{f"a{i}": np.zeros(MIB // 16, np.float32) for i in range(40)})
    assert peak_of_refusal(tmp_path / "many.npz", 4 * MIB, "raise max_bytes") < 6 * MIB


def test_zip_bomb_in_a_pt_file(tmp_path):
    torch.save({"a": torch.zeros(4 * MIB)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for info in plain.infolist():
            bomb.writestr(info.filename, plain.read(info))
    assert (tmp_path / "bomb.pt").stat().st_size < MIB
    assert peak_of_refusal(tmp_path / "bomb.pt", MIB, "unpacks to more than the allowed size") < MIB


def test_a_header_may_lie_about_the_size(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)})
    (tmp_path / "huge.npy").write_bytes(stream.getvalue())
    assert peak_of_refusal(tmp_path / "huge.npy", MIB, "more than the allowed size") < MIB


def test_a_huge_header_in_a_zip(tmp_path):
    header = b"\x93NUMPY\x02\x00" + struct.pack("<I", 64 * MIB) + b" " * (64 * MIB)
    with zipfile.ZipFile(tmp_path / "header.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", header)
    assert peak_of_refusal(tmp_path / "header.npz", MIB, "unpacks to more") < 4 * MIB


def test_expanded_tensors_count_in_full(tmp_path):
    torch.save({"a": torch.ones(1).expand(1 << 40)}, tmp_path / "stretched.pt")  # 4 bytes on disk
    assert peak_of_refusal(tmp_path / "stretched.pt", MIB, "more than the allowed size") < MIB


def test_containers_that_multiply(tmp_path):
    tree: object = torch.ones(1)
    for _ in range(25):
        tree = [tree, tree]  # 2^25 leaves, a few hundred bytes
    torch.save(tree, tmp_path / "laughs.pt")
    with pytest.raises(ValueError, match="hold more than 1,000,000 items"):
        load_tensors(tmp_path / "laughs.pt")


def test_containers_that_hold_themselves(tmp_path):
    loop: list = []
    loop.append(loop)
    torch.save(loop, tmp_path / "loop.pt")
    with pytest.raises(ValueError, match="nested deeper than 32"):
        load_tensors(tmp_path / "loop.pt")


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1 GB"])
def test_bad_limits(tmp_path, limit):
    with pytest.raises(ValueError, match="max_bytes must be a positive number of bytes"):
        load_tensors(tmp_path / "any.npy", max_bytes=limit)


# ---- files that are something else -----------------------------------------------------------------------------------


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*absent.npy"):
        load_tensors(tmp_path / "absent.npy")


@pytest.mark.skipif(os.name == "nt", reason="Windows calls such a file missing")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_name_of_300_letters(tmp_path, suffix):
    with pytest.raises(ValueError, match="x+.* cannot be read: ") as problem:
        load_tensors(tmp_path / ("x" * 300 + suffix))
    assert "\n" not in str(problem.value)


def test_directory(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match=r"folder.npz is not a file; give one of .npy .npz .pt .pth .safetensors"):
        load_tensors(tmp_path / "folder.npz")


@pytest.mark.parametrize("name", ["weights.bin", "weights", "weights.pkl", "weights.h5"])
def test_unknown_suffix(tmp_path, name):
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(ValueError, match=r"cannot be read; allowed are .npy .npz .pt .pth .safetensors"):
        load_tensors(tmp_path / name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_empty_file(tmp_path, suffix):
    (tmp_path / f"mine{suffix}").touch()
    with pytest.raises(ValueError, match="is empty"):
        load_tensors(tmp_path / f"mine{suffix}")


@pytest.mark.parametrize("real", SUFFIXES)
@pytest.mark.parametrize("named", SUFFIXES)
def test_wrong_suffix(tmp_path, real, named):
    if {real, named} <= {".pt", ".pth"} or real == named:
        named = ".npy" if real != ".npy" else ".npz"
    write(tmp_path / f"mine{real}", {"mine": np.ones(3, np.float32)}).rename(tmp_path / f"mine{named}")
    with pytest.raises(ValueError, match="mine") as caught:
        load_tensors(tmp_path / f"mine{named}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_truncation_is_refused(tmp_path, suffix):
    path = write(tmp_path / f"whole{suffix}", {"a": np.arange(40, dtype=np.float32)})
    whole = path.read_bytes()
    for length in sorted({*range(1, min(len(whole), 200), 7), *range(200, len(whole), 97), len(whole) - 1}):
        (tmp_path / f"cut{suffix}").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="cut") as caught:
            load_tensors(tmp_path / f"cut{suffix}")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_bytes_end_in_a_value_error_or_in_tensors(tmp_path, suffix, data):
    path = write(tmp_path / f"mine{suffix}", {"a": np.arange(8, dtype=np.float32)})
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = load_tensors(path, max_bytes=MIB)
        except ValueError as error:
            assert "\n" not in str(error)
        else:
            assert all(array.dtype.kind == "f" for array in found.values())


def test_foreign_member_in_an_npz(tmp_path):
    with zipfile.ZipFile(tmp_path / "mine.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ValueError, match=r"holds 'readme.txt'; allowed are .npy arrays alone"):
        load_tensors(tmp_path / "mine.npz")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(tmp_path):
    stream = io.BytesIO()
    np.save(stream, np.ones(1, np.float32))
    with zipfile.ZipFile(tmp_path / "mine.npz", "w") as archive:
        for _ in range(2):
            archive.writestr("a.npy", stream.getvalue())
    with pytest.raises(ValueError, match="holds two tensors named 'a'"):
        load_tensors(tmp_path / "mine.npz")


def safetensors_file(path: Path, header: object, data: bytes = b"") -> Path:
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 800]},
        {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]},
        {"dtype": "F32", "shape": [200], "data_offsets": [0, 800]},
        {"dtype": "F32", "shape": [1 << 50], "data_offsets": [0, 1 << 52]},
        {"dtype": "F32", "shape": "2", "data_offsets": [0]},
        {"shape": [2]},
        "nonsense",
        None,
    ],
)
def test_inconsistent_safetensors_headers(tmp_path, entry):
    path = safetensors_file(tmp_path / "mine.safetensors", {"a": entry}, b"12345678")
    with pytest.raises(ValueError, match="mine.safetensors"):
        load_tensors(path, max_bytes=MIB)


@pytest.mark.parametrize("key", ["shape", "data_offsets"])
@pytest.mark.parametrize("wrong", [[0.0, 8.0], [True, 2], ["0", "8"], "08", {"0": 0, "8": 8}, True, None, [[0], 8]])
def test_numbers_of_a_safetensors_header_are_whole(tmp_path, key, wrong):
    right = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    path = safetensors_file(tmp_path / "mine.safetensors", {"a": right | {key: wrong}}, bytes(8))
    with pytest.raises(ValueError, match=f"^mine.safetensors: the {key} of 'a' must be a list of whole numbers, got "):
        load_tensors(path)


def test_a_safetensors_header_gives_each_name_once(tmp_path):
    entry = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [%s]}'
    raw = ("{" + entry % "0, 4" + ", " + entry % "4, 8" + "}").encode()
    (tmp_path / "mine.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(8))
    with pytest.raises(ValueError, match=r"^mine.safetensors is damaged .*: its header gives 'a' twice$"):
        load_tensors(tmp_path / "mine.safetensors")


def test_safetensors_metadata_is_no_tensor(tmp_path):
    safetensors.numpy.save_file({"a": np.ones(1, np.float32)}, tmp_path / "mine.safetensors", metadata={"format": "pt"})
    assert list(load_tensors(tmp_path / "mine.safetensors")) == ["a"]


def test_safetensors_header_nested_too_deep(tmp_path):
    raw = b'{"a":' + b"[" * 200_000
    (tmp_path / "deep.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw)
    with pytest.raises(ValueError, match=r"deep.safetensors is damaged"):
        load_tensors(tmp_path / "deep.safetensors")


def test_a_torch_that_can_be_fooled_is_not_used(tmp_path, monkeypatch):
    path = write(tmp_path / "mine.pt", {"a": np.ones(1, np.float32)})
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    with pytest.raises(ValueError, match=r"PyTorch 2.5.1\+cpu can be made to run code by a file .*; 2.6 is needed"):
        load_tensors(path)


def test_without_torch(tmp_path, monkeypatch):
    path = write(tmp_path / "mine.pt", {"a": np.ones(1, np.float32)})
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"reading .pt files needs PyTorch: pip install 'lplab\[torch\]'"):
        load_tensors(path)


def test_old_torch_format_is_refused(tmp_path):
    torch.save({"a": torch.ones(1)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match="saved by PyTorch before 1.6"):
        load_tensors(tmp_path / "old.pt")


def test_torchscript_is_refused(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
        with pytest.raises(ValueError, match="script.pt"):
            load_tensors(tmp_path / "script.pt")
