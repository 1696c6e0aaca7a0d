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

import numpy as np
import pytest

from lplab import datasets
from lplab.datasets import downloads
from lplab.datasets.downloads import CIFAR10, FASHION_MNIST, MNIST, load, read_idx

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


@pytest.mark.parametrize("kind", [MNIST, FASHION_MNIST])
def test_mnist_files_are_read_as_they_are(kind, tmp_path):
    files = mnist_files()
    split = load(fake(kind, files), written(files, tmp_path))
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


def test_the_published_sums_are_md5_and_all_different():
    sums = [md5 for each in (MNIST, FASHION_MNIST, CIFAR10) for _, md5 in each.files]
    assert len(set(sums)) == 9 and all(len(md5) == 32 and int(md5, 16) for md5 in sums)


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
