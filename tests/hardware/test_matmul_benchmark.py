"""The measured table says on what, how and when; the stored one has the same shape."""

import json
from pathlib import Path

import pytest
import torch

from lplab.hardware import matmul_benchmark

STORED = sorted((Path(__file__).parents[2] / "data" / "measured").glob("*.json"))


def check_shape(table):
    assert {"device", "processor", "extensions", "threads", "torch", "python", "date", "load_before", "method"} <= {
        *table
    }
    memory = table["memory"]
    assert 0 < memory["low"] <= memory["bytes_per_second"] <= memory["high"] and "12 bytes" in memory["method"]
    assert table["processor"] and table["threads"] >= 1 and "torch.matmul" in table["method"]
    for speed in table["rates"]:
        assert set(speed) == {"format", "size", "repeats", "tera", "low", "high"}
        assert speed["format"] in matmul_benchmark.PRODUCTS[table["device"]]
        assert 0 < speed["low"] <= speed["tera"] <= speed["high"] and speed["repeats"] >= 3
    known = {speed["format"] for speed in table["rates"]} | set(table["left_out"])
    assert known == set(matmul_benchmark.PRODUCTS[table["device"]])


def test_everything_that_the_cpu_knows_is_measured(tmp_path, capsys):
    before = torch.get_num_threads()
    file = tmp_path / "measured" / "here.json"
    assert matmul_benchmark.main(["--sizes", "64", "96", "--repeats", "3", "--threads", "1", "--out", str(file)]) == 0
    table = json.loads(file.read_text("utf-8"))
    check_shape(table)
    assert table["device"] == "cpu" and table["threads"] == 1 and torch.get_num_threads() == before
    assert [speed["size"] for speed in table["rates"] if speed["format"] == "fp32"] == [64, 96]
    assert "fp32" in capsys.readouterr().err


def test_the_product_is_the_one_that_is_meant():
    torch.manual_seed(0)
    product = matmul_benchmark.PRODUCTS["cpu"]["int8"](64, "cpu")()
    assert product.dtype == torch.int32 and product.shape == (64, 64)
    assert matmul_benchmark.PRODUCTS["cpu"]["bf16"](64, "cpu")().dtype == torch.bfloat16


@pytest.mark.parametrize(("arguments", "sentence"), [
    ({"device": "tpu"}, "device must be cpu or cuda"),
    ({"formats": ("fp7",)}, "unknown format 'fp7' on cpu; allowed: fp32, bf16, int8"),
    ({"sizes": (8,)}, "size must be"),
    ({"repeats": 2}, "repeats must be"),
    ({"threads": 0}, "threads must be"),
])  # fmt: skip
def test_bad_arguments_are_answered_by_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        matmul_benchmark.measure(**arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_command_says_so(capsys):
    with pytest.raises(SystemExit):
        matmul_benchmark.main(["--device", "cuda"])
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_everything_that_the_gpu_knows_is_measured():
    check_shape(matmul_benchmark.measure("cuda", sizes=(256,), repeats=3))


def test_a_format_that_cannot_be_multiplied_is_left_out(monkeypatch):
    def refuses(size, device):
        def multiply():
            raise RuntimeError("not on this processor\nand a trace")

        return multiply

    monkeypatch.setitem(matmul_benchmark.PRODUCTS["cpu"], "int8", refuses)
    table = matmul_benchmark.measure("cpu", sizes=(64,), repeats=3)
    assert table["left_out"] == {"int8": "not on this processor"}
    check_shape(table)


@pytest.mark.parametrize("file", STORED, ids=[file.stem for file in STORED])
def test_stored_tables_have_this_shape(file):
    check_shape(json.loads(file.read_text("utf-8")))


def test_the_cpu_was_measured():
    assert "cpu" in [file.stem for file in STORED]
