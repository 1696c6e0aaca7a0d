"""Published image sets: read bit by bit from files like the real ones, one clear sentence where they cannot be had."""

import dataclasses
import gzip
import hashlib
import http.server
import io
import os
import struct
import sys
import tarfile
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from lplab import datasets
from lplab.cli import main
from lplab.datasets import downloads
from lplab.datasets.downloads import CIFAR10, DEBIAN_FOLDER, FASHION_MNIST, MNIST, load, read_idx

RNG = np.random.default_rng(0)
GREY = {
    part: (RNG.integers(0, 256, (n, 28, 28), np.uint8), RNG.integers(0, 10, n, np.uint8))
    for part, n in (("train", 6), ("t10k", 3))
}
COLOUR = {
    part: (RNG.integers(0, 256, (n, 3, 32, 32), np.uint8), RNG.integers(0, 10, n, np.uint8))
    for part, n in (("train", 10), ("test", 2))
}
NOWHERE = "http://127.0.0.1:9/"  # the port of "discard": nobody answers


def idx(array):
    return gzip.compress(struct.pack(f">HBB{array.ndim}i", 0, 8, array.ndim, *array.shape) + array.tobytes())


def mnist_files():
    return {
        f"{part}-{what}-idx{array.ndim}-ubyte.gz": idx(array)
        for part, pair in GREY.items()
        for what, array in zip(("images", "labels"), pair, strict=True)
    }


def cifar_files():
    rows = {part: np.concatenate([y[:, None], x.reshape(len(x), -1)], 1) for part, (x, y) in COLOUR.items()}
    members = {f"data_batch_{k + 1}": rows["train"][2 * k : 2 * k + 2] for k in range(5)} | {"test_batch": rows["test"]}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            entry.size = data.nbytes
            archive.addfile(entry, io.BytesIO(data.tobytes()))
    return {"cifar-10-binary.tar.gz": out.getvalue()}


def fake(images, files, *mirrors):
    sums = tuple((name, hashlib.md5(content).hexdigest()) for name, content in files.items())
    return dataclasses.replace(images, files=sums, mirrors=mirrors or (NOWHERE,))


def written(files, folder):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def server(tmp_path):
    """The address of a folder's web server, and what was asked of it."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *a, **k):
            super().__init__(*a, directory=tmp_path / "served", **k)

        def log_message(self, *args):
            asked.append(self.path)

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}/", asked
    served.shutdown()
    served.server_close()


@pytest.fixture
def fashion(monkeypatch, tmp_path):
    """Small files for Fashion-MNIST: ``debian`` and ``user`` are the two folders, both empty."""
    files = mnist_files()
    sums = {name: hashlib.sha256(gzip.decompress(content)).hexdigest() for name, content in files.items()}
    monkeypatch.setattr(downloads, "FASHION_SHA256", sums)
    monkeypatch.setattr(downloads, "FASHION_MNIST", fake(FASHION_MNIST, files))
    monkeypatch.setattr(downloads, "DEBIAN_FOLDER", tmp_path / "debian")
    monkeypatch.setenv("LPLAB_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return SimpleNamespace(files=files, debian=tmp_path / "debian", user=tmp_path / "data" / "Fashion-MNIST")


def test_mnist_files_are_read_as_they_are(tmp_path):
    files = mnist_files()
    split = load(fake(MNIST, files), written(files, tmp_path))
    assert split.train_inputs.shape == (6, 1, 28, 28) and split.train_inputs.dtype == np.float32
    assert np.array_equal(split.train_inputs[:, 0], GREY["train"][0] / np.float32(255))
    assert np.array_equal(split.test_targets, GREY["t10k"][1]) and split.test_targets.dtype == np.int64
    assert repr(split) == "Split(6 to train with, 3 to test with, each 1×28×28)"


def test_cifar_is_read_as_it_is(tmp_path):
    files = cifar_files()
    split = load(fake(CIFAR10, files), written(files, tmp_path), train=7)
    assert np.array_equal(split.train_inputs, COLOUR["train"][0][:7] / np.float32(255))
    assert np.array_equal(split.train_targets, COLOUR["train"][1][:7])
    assert np.array_equal(split.test_inputs, COLOUR["test"][0] / np.float32(255)) and len(split.test_inputs) == 2


def test_what_is_missing_is_fetched_once_from_the_first_mirror_that_answers(server, tmp_path):
    address, asked = server
    files = mnist_files()
    written(files, tmp_path / "served")
    published, folder = fake(MNIST, files, NOWHERE, address), tmp_path / "mine"
    first = load(published, folder)
    assert sorted(asked) == sorted(f"/{name}" for name in files)
    assert {path.name for path in folder.iterdir()} == set(files)
    assert np.array_equal(load(published, folder).train_inputs, first.train_inputs) and len(asked) == 4


def test_another_file_under_the_same_name_is_refused(server, tmp_path):
    files = mnist_files()
    published = fake(MNIST, files, server[0])
    written(files | {"t10k-labels-idx1-ubyte.gz": b"a page that says: please log in"}, tmp_path / "served")
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte.gz is not the published file: its MD5 sum is not"):
        load(published, tmp_path / "mine")
    assert not (tmp_path / "mine" / "t10k-labels-idx1-ubyte.gz").exists()


def test_without_a_network_one_sentence_says_what_to_do(tmp_path):
    with pytest.raises(ConnectionError) as caught:
        load(dataclasses.replace(MNIST, mirrors=(NOWHERE,)), tmp_path / "mine")
    message = str(caught.value)
    assert message.startswith(
        "MNIST could not be fetched, it seems that there is no network: put train-images-idx3-ubyte.gz"
    )
    assert str(tmp_path / "mine") in message and "lplab.datasets.digits(), which needs none" in message
    assert "\n" not in message


def test_without_pooch_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.setenv("LPLAB_DATA", str(tmp_path))
    with pytest.raises(
        ImportError, match=r"CIFAR-10 is fetched with pooch: pip install 'lplab\[data\]', or put cifar-10"
    ):
        datasets.cifar10()
    files = mnist_files()
    written(files, tmp_path / "MNIST")
    assert len(load(fake(MNIST, files)).train_inputs) == 6, "files that are there need no pooch"


def test_the_default_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_DATA", str(tmp_path))
    assert downloads.default_folder(FASHION_MNIST.title) == tmp_path / "Fashion-MNIST"
    monkeypatch.delenv("LPLAB_DATA")
    found = downloads.default_folder(MNIST.title)
    assert found.parts[-1] == "MNIST" and "lplab" in str(found)


@pytest.mark.parametrize("content", [b"", b"\0\0\x0d\x01\0\0\0\x01" + bytes(4), b"\0\0\x08\x01\0\0\0\x05abc"])
def test_no_idx_file_is_named(content, tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match="x.gz is no IDX file of bytes"):
        read_idx(tmp_path / "x.gz")


@pytest.mark.parametrize(
    "damage",
    [lambda raw: b"no gzip", lambda raw: raw[:-3], lambda raw: raw[:-9] + bytes(9)],
    ids=["other", "cut", "sum"],
)
def test_a_damaged_file_is_one_line(damage, tmp_path):
    whole = idx(GREY["train"][1])
    (tmp_path / "x.gz").write_bytes(damage(whole))
    with pytest.raises(ValueError, match=r"x\.gz is damaged or cut short .*get it again") as caught:
        read_idx(tmp_path / "x.gz")
    assert "\n" not in str(caught.value)


def test_the_published_sums_are_md5_and_all_different():
    sums = [md5 for each in (MNIST, FASHION_MNIST, CIFAR10) for _, md5 in each.files]
    assert len(set(sums)) == 9 and all(len(md5) == 32 and int(md5, 16) for md5 in sums)


# ---- Fashion-MNIST: Debian's package or the command, never a download by reading -------------------------------------


def renamed(files):
    """The same content in gzip files with other headers, as Debian's are."""
    return {name: gzip.compress(gzip.decompress(content), 1, mtime=5) for name, content in files.items()}


def test_debians_files_are_read_first_whatever_their_gzip_headers_are(fashion):
    written(renamed(fashion.files), fashion.debian)
    split = datasets.fashion_mnist(train=5)
    assert split.train_inputs.shape == (5, 1, 28, 28) and split.train_inputs.dtype == np.float32
    assert np.array_equal(split.train_inputs[:, 0], GREY["train"][0][:5] / np.float32(255))
    assert np.array_equal(split.test_targets, GREY["t10k"][1]) and split.test_targets.dtype == np.int64
    assert not fashion.user.exists()


def test_without_debians_package_the_users_copy_is_read(fashion):
    written({"train-labels-idx1-ubyte.gz": b""}, fashion.debian)  # a part of the package is none
    written(fashion.files, fashion.user)
    assert np.array_equal(datasets.fashion_mnist().test_inputs[:, 0], GREY["t10k"][0] / np.float32(255))


@pytest.mark.parametrize("pooch", [True, False])
def test_where_it_is_missing_nothing_is_fetched_and_one_line_says_both_ways(pooch, fashion, monkeypatch):
    monkeypatch.setattr(downloads, "_fetch", lambda *_: pytest.fail("reading fetches"))
    if not pooch:
        monkeypatch.setitem(sys.modules, "pooch", None)
        monkeypatch.delenv("LPLAB_DATA")
    elif "pooch" not in sys.modules:
        pytest.importorskip("pooch")
    monkeypatch.setattr(downloads, "default_folder", downloads.default_folder if not pooch else lambda _: fashion.user)
    with pytest.raises(FileNotFoundError) as caught:
        datasets.fashion_mnist()
    message = str(caught.value)
    assert "dataset-fashion-mnist" in message and "lplab fetch fashion-mnist" in message and "\n" not in message
    with pytest.raises(ValueError, match="train must be"):
        datasets.fashion_mnist(train=0)


@pytest.mark.parametrize("place", ["debian", "user", "given"])
def test_another_content_is_refused_wherever_it_lies(place, fashion, tmp_path):
    folder = {"debian": fashion.debian, "user": fashion.user, "given": tmp_path / "mine"}[place]
    other = idx(GREY["t10k"][1] ^ 1)  # a right IDX file with other labels
    written(fashion.files | {"t10k-labels-idx1-ubyte.gz": other}, folder)
    with pytest.raises(
        ValueError, match=r"t10k-labels-idx1-ubyte.gz is not the published file: the SHA-256 sum of its"
    ):
        datasets.fashion_mnist(folder if place == "given" else None)


def test_the_command_fetches_once_and_nothing_where_the_package_is(fashion, server, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pooch")
    address, asked = server
    written(fashion.files, tmp_path / "served")
    monkeypatch.setattr(downloads, "FASHION_MNIST", fake(FASHION_MNIST, fashion.files, address))
    for _ in range(2):
        assert main(["fetch", "fashion-mnist"]) == 0
        assert str(fashion.user) in capsys.readouterr().out
    assert len(asked) == 4 and len(datasets.fashion_mnist().train_inputs) == 6
    written(renamed(fashion.files), fashion.debian)
    assert main(["fetch", "fashion-mnist"]) == 0 and len(asked) == 4
    assert str(fashion.debian) in capsys.readouterr().out
    (fashion.debian / "t10k-labels-idx1-ubyte.gz").write_bytes(b"")
    with pytest.raises(SystemExit):
        main(["fetch", "fashion-mnist"])
    assert "t10k-labels-idx1-ubyte.gz is not the published file" in capsys.readouterr().err


@pytest.mark.skipif(not DEBIAN_FOLDER.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_debians_package_is_the_published_set():
    split = datasets.fashion_mnist()
    assert len(split.train_inputs) == 60_000 and len(split.test_inputs) == 10_000
    assert np.bincount(split.train_targets).tolist() == [6000] * 10
    assert np.bincount(split.test_targets).tolist() == [1000] * 10


@pytest.mark.skipif("LPLAB_DATA" not in os.environ, reason="LPLAB_DATA holds no real files")
@pytest.mark.parametrize(
    ("name", "shape"), [("mnist", (1, 28, 28)), ("fashion_mnist", (1, 28, 28)), ("cifar10", (3, 32, 32))]
)
def test_the_real_sets_where_they_are(name, shape):
    split = getattr(datasets, name)(train=1000, test=1000)
    assert split.train_inputs.shape == (1000, *shape) and set(split.test_targets) == set(range(10))


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "10"])
def test_a_number_of_examples_that_is_none_is_refused_before_anything_is_fetched(count):
    with pytest.raises(ValueError, match="test must be None or an integer of at least 1, got"):
        downloads.mnist(test=count)
