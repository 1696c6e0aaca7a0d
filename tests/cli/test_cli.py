"""The lplab command, driven as a user drives it."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lplab import cli, formats
from lplab.formats.paths import kernel_selection


def test_the_list_has_every_format_with_aligned_columns(capsys):
    assert cli.main(["formats"]) == 0
    heading, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in rows] == list(formats.names())
    assert len({len(row) for row in [heading, *rows]}) == 1
    row = next(row for row in rows if row.startswith("e4m3fn "))
    assert row.split() == ["e4m3fn", "8", "448", "0.015625", "0.00195312", "0.125", "17.8074", "3"]


def test_the_list_as_json_is_strict_and_complete(capsys):
    assert cli.main(["formats", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert [row["name"] for row in rows] == list(formats.names())


@pytest.mark.parametrize("name", [*formats.names(), "q3.5"])
def test_every_format_can_be_looked_up(name, capsys):
    assert cli.main(["formats", name]) == 0
    text = capsys.readouterr().out
    assert text.startswith(name) and f"formats.get({name!r})" in text
    assert cli.main(["formats", name, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["name"] == name and math.isclose(answer["max"], formats.get(name).max)


@pytest.mark.parametrize(("argv", "message"), [
    (["formats", "e4m4fn"], "e4m3fn"),
    (["formats", ""], "unknown format"),
    (["formats", "e4m3fn", "--jsonn"], "--jsonn"),
    (["quantize", "e4m3nf", "0.1"], "unknown format 'e4m3nf'; closest: e4m3fn"),
    (["quantize", "e4m3fn", "0.1", "--rounding", "neerest"], "unknown rounding 'neerest'; allowed: nearest_even"),
    (["quantize", "e4m3fn", "-x"], "NUMBER"),
    (["quantize", "e4m3fn", "one"], "'one'"),
    (["quantize", "e4m3fn"], "NUMBER"),
    (["lab", "/no/such/folder"], "there is no folder"),
    (["lab", "--port", "high"], "--port"),
    (["lab", "--port", "99999"], "--port must be from 0 (any free one) to 65535, got 99999"),
    (["lab", "--port", "-1"], "--port must be from 0 (any free one) to 65535, got -1"),
    (["lab", "x" * 300], "xxx"),
    (["exercises", ""], "there is no exercise ''"),
    (["claims", "table", "--folder", "x" * 300], "xxx"),
    (["claims", "table", "--html", "--page"], "not allowed with argument"),
    (["claims", "table", "wang_2018", "--html", "-o", "no/such/folder/page.html"], "no/such/folder/page.html"),
    (["quantize", "fp8", "0.1"], "closest: e4m3fn, e5m2; the command `lplab formats` lists all"),
    (["quantize", "double", "0.1"], "unknown format 'double'; the command"),
    (["quantize", "int8", "0.1", "--scale", "2"], "lplab quantize: unrecognized arguments: --scale 2"),
    (["quantize", "0.1", "e4m3fn"], "not a number: 'e4m3fn'; write the format first"),
    (["quantize", "e2m1", "0.7", "--seed", "3"], "--seed is the seed of --rounding stochastic"),
    (["quantize", "e2m1", "0.7", "--rounding"], "expected one argument (lplab quantize --help)"),
    (["claims", "table", "xyz"], "unknown claim 'xyz'; `lplab claims list` shows all"),
    (["simulate", "resnet50", "--link", "10 Gbit"], '. Or type a bandwidth and a latency: "100Gb/s, 2us"'),
    (["formulas"], "'claims', 'exercises', 'capstone', 'report', 'grade', 'doctor'"),
    ([], "COMMAND"),
    (["claims"], "list|run|table"),
    (["claims", "scalecom_2020"], "lplab claims table scalecom_2020 prints"),
    (["claims", "verdict", "X"], "lplab claims table ID prints"),
    (["claims", "run", "gupta_2051"], "did you mean gupta_2015"),
    (["claims", "run", "--jobs", "0", "--folder", "nowhere"], "--jobs must be -1 or at least 1"),
])  # fmt: skip
def test_bad_input_gets_one_line_and_code_2(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    output = capsys.readouterr()
    assert stop.value.code == 2 and output.out == ""
    assert message in output.err and output.err.startswith("lplab") and output.err.count("\n") == 1


def quantized(capsys, *argv):
    """What ``lplab quantize --json`` prints, which must be strict JSON."""
    assert cli.main(["quantize", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_a_number_is_printed_with_its_value_code_and_errors(capsys):
    assert cli.main(["quantize", "e4m3fn", "0.1"]) == 0
    heading, rounding, *rows = capsys.readouterr().out.splitlines()
    assert heading == str(formats.get("e4m3fn")) and rounding.split() == ["rounding", "nearest_even"]
    assert [row[24:] for row in rows] == [
        "",
        "0.1",
        "0.1015625",
        "0 0011 101  (sign, exponent, mantissa)",
        "0.0015625",
        "0.015625",
    ]


@pytest.mark.parametrize("name", [*formats.names(), "q3.5"])
def test_numbers_of_every_format_are_those_of_the_library(name, capsys):
    fmt, numbers = formats.get(name), [0.1, -3.0, -1e-3, 0.0, 1e3]
    for rounding in ("nearest_even", "up", "stochastic"):
        seed = ("--seed", "7") if rounding == "stochastic" else ()
        found = quantized(capsys, name, *map(str, numbers), "--rounding", rounding, *seed)
        values = fmt.quantize(numbers, rounding, 7)
        assert [each["number"] for each in found["numbers"]] == numbers
        np.testing.assert_array_equal([float(each["result"]) for each in found["numbers"]], values)
        codes = np.array([int(each["code"].replace(" ", ""), 2) for each in found["numbers"]])
        if isinstance(fmt, formats.BlockFormat):
            scales = np.array([int(each["code"].replace(" ", ""), 2) for each in found["scales"]])
            assert [each["scale"] for each in found["scales"]] == fmt.scale.decode(scales).tolist()
            codes = formats.BlockCodes(codes, scales, found["tensor_scale"])
        np.testing.assert_array_equal(fmt.decode(codes), values)
        assert ("scales" in found) is isinstance(fmt, formats.BlockFormat)


@pytest.mark.parametrize(
    "text", ["-3", "1e-3", "-1e-3", "-.5", "-1E3", "inf", "-inf", "-Infinity", "nan", "-nan", "-0"]
)
@pytest.mark.parametrize("before", [[], ["--rounding", "down"]])
def test_numbers_are_read_as_python_writes_them(text, before, capsys):
    (found,) = quantized(capsys, *before, "e5m2", text)["numbers"]
    number = float(text)
    np.testing.assert_equal([float(found["number"])], [number])
    np.testing.assert_equal([float(found["result"])], [formats.get("e5m2").quantize(number, *before[1:])])
    assert (found["relative_error"] is None) == (number == 0 or not math.isfinite(number))


def test_what_has_no_code_or_error_is_a_dash(capsys):
    assert cli.main(["quantize", "int8", "nan"]) == 0
    rows = [line[24:] for line in capsys.readouterr().out.splitlines()[3:]]
    assert rows == ["nan", "nan", "-  (the format has no code for it)", "-", "-"]
    found = quantized(capsys, "nvfp4", *["1"] * 16, "inf", "1e40")
    healthy, lost = found["scales"]
    assert healthy == quantized(capsys, "nvfp4", *["1"] * 16)["scales"][0] and lost == {"scale": "nan", "code": None}
    assert [each["code"] is None for each in found["numbers"]] == [False] * 16 + [True] * 2
    assert found["numbers"][0]["code"] == "0 11 1" and found["tensor_scale"] > 0
    assert quantized(capsys, "e4m3fn", "inf")["numbers"][0]["error"] == "-inf"


def test_numbers_of_a_block_format_share_a_scale(capsys):
    assert cli.main(["quantize", "mxfp4", "0.1", "-0.5", "3"]) == 0
    text = capsys.readouterr().out
    assert (
        "  block                 3 numbers make one short block; " in text
        and "  scale                 0.5 (01111110)" in text
    )
    assert cli.main(["quantize", "nvfp4", *["1"] * 20]) == 0
    text = capsys.readouterr().out
    assert "20 numbers, more than the 16 of a block: 2 blocks" in text and "tensor scale" in text
    assert len(re.search(r"^  scale .*", text, re.MULTILINE)[0].split(", ")) == 2


def test_a_seed_that_was_drawn_is_told_and_gives_the_same_again(capsys):
    numbers = ["0.3"] * 20
    first = quantized(capsys, "mxfp4", *numbers, "--rounding", "stochastic")
    assert first == quantized(capsys, "mxfp4", *numbers, "--rounding", "stochastic", "--seed", str(first["seed"]))
    assert quantized(capsys, "mxfp4", *numbers)["seed"] is None


def test_fields_of_a_negative_integer_or_posit_are_said_to_be_in_twos_complement(capsys):
    for name, number, is_said in (
        ("int8", "-3", True),
        ("posit8_2", "-3", True),
        ("int8", "3", False),
        ("e5m2", "-3", False),
    ):
        assert cli.main(["quantize", name, number]) == 0
        assert ("two's complement" in capsys.readouterr().out) is is_said


@pytest.mark.skipif(os.name == "nt", reason="Windows calls such a folder missing")
def test_a_folder_that_cannot_be_is_refused_before_anything_is_graded(capsys, monkeypatch):
    monkeypatch.setattr("lplab.exercises.grading.grading.grade", lambda *_, **__: pytest.fail("graded"))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["grade", ".", "--out", "x" * 300])
    assert "xxx" in (told := capsys.readouterr().err) and told.count("\n") == 1


def test_the_claims_as_a_page_of_cards(capsys, tmp_path):
    assert cli.main(["claims", "table", "--html", "wang_2018", "pact_2018"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>") and page.count("<section") == 2
    assert cli.main(["claims", "table", "wang_2018", "pact_2018", "--html", "-o", str(tmp_path / "page.html")]) == 0
    output = capsys.readouterr()
    assert output.out == "" and "wrote" in output.err
    assert (tmp_path / "page.html").read_text("utf-8") == page


def test_every_form_of_the_table_can_be_a_file(capsys, tmp_path):
    for form in ([], ["--json"], ["--markdown"], ["--page"]):
        assert cli.main(["claims", "table", "wang_2018", *form]) == 0
        printed = capsys.readouterr().out
        assert cli.main(["claims", "table", "wang_2018", *form, "-o", str(tmp_path / "table")]) == 0
        assert (tmp_path / "table").read_text("utf-8") == printed != ""


@pytest.mark.parametrize("command", ["lab", "formats", "quantize", "train", "simulate", "claims", "doctor"])
def test_every_help_has_an_example_that_can_be_parsed(command, capsys, monkeypatch):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    example = re.search(r"example:\n  lplab (.*)", capsys.readouterr().out)
    assert example
    monkeypatch.setattr(subprocess, "call", lambda command: 0)
    assert cli.main(example[1].split()) == 0


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    assert capsys.readouterr().out.split()[1] == re.search(r'^version = "(.*)"', pyproject, re.MULTILINE)[1]


RECORD = """
import os, sys
from numba.core import caching
os.cpu_count = lambda: 1  # so that joblib stays in this process
asked, load = set(), caching.Cache.load_overload
def recorded(cache, signature, target):
    asked.add((cache._impl.filename_base, cache._index_key(signature, target.codegen())))
    return load(cache, signature, target)
caching.Cache.load_overload = recorded
"""


def loops_of(code):
    """The compiled loops that a fresh interpreter loads, or compiles, when it runs ``code``."""
    script = RECORD + code + "\nprint(*(repr(loop) for loop in asked), sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", script], check=True, timeout=900, capture_output=True, text=True)
    return {line for line in done.stdout.splitlines() if line.startswith("(")}


@pytest.mark.slow
def test_what_is_compiled_beforehand_is_not_compiled_again():
    before = loops_of("from lplab.cli import main; assert main(['compile']) == 0")
    use = "import numpy as np; from lplab import arithmetic, formats; x = np.linspace(-1, 1, 2**16, dtype=np.float32)\n"
    use += "for name in ('e4m3fn', 'int8', 'nvfp4', 'mxfp4'): formats.get(name).quantize(x, rounding='stochastic')\n"
    use += "arithmetic.matmul(x.reshape(64, 1024), x.reshape(1024, 64), 'dlfloat16', chunk=16)\n"
    use += "from lplab import widgets; widgets.ScaleExplorer().set(shared='1×128')\n"
    use += "sums = widgets.SumExplorer(); sums.set(chunk=64, preset=sums.controls['preset'].options[-1])"
    needed = loops_of(use)
    assert len(before) > 50 and len(needed) > 5 and needed <= before


def test_nothing_is_compiled_without_numba(capsys):
    with kernel_selection.without_compiled_loops(), pytest.raises(SystemExit):
        cli.main(["compile"])
    assert "nothing to compile without numba: pip install 'lplab[fast]'" in capsys.readouterr().err


def test_doctor_tells_versions_and_what_is_missing(capsys, monkeypatch):
    monkeypatch.setenv("LPLAB_BROWSER", "/opt/browser")
    monkeypatch.setitem(cli.doctor.PURPOSES, "no-such-package", "nothing; pip install it")
    assert cli.main(["doctor"]) == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert (
        lines["no-such-package"] == "missing, needed for nothing; pip install it" and lines["browser"] == "/opt/browser"
    )
    assert lines["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert Path(lines["data"]).is_dir()


def test_doctor_fails_without_the_data(capsys, monkeypatch, tmp_path):
    def nowhere():
        raise FileNotFoundError

    monkeypatch.setattr("lplab.datasets.data_folder", nowhere)
    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["data"] is None


def test_the_lab_is_started_in_its_folder(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(subprocess, "call", lambda command: seen.append(command) or 3)
    assert cli.main(["lab", str(tmp_path), "--no-browser", "--port", "9000"]) == 3
    assert seen[0][:4] == [sys.executable, "-m", "jupyterlab", str(tmp_path)]
    assert {"--no-browser", "--port=9000"} <= set(seen[0])


def test_in_a_checkout_the_lab_reaches_the_glossary_beside_it(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(subprocess, "call", lambda command: seen.append(command) or 0)
    for folder in ("docs", "my labs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs" / "glossary.md").touch()
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lab", "my labs"]) == 0
    assert seen[0][3:5] == [str(tmp_path.resolve()), "--LabApp.default_url=/lab/tree/my%20labs"]
    assert cli.main(["lab"]) == 0  # this checkout's own
    assert seen[1][4] == "--LabApp.default_url=/lab/tree/labs" and (Path(seen[1][3]) / "docs/glossary.md").is_file()


def test_without_jupyterlab_the_lab_says_how_to_get_it(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        cli.main(["lab", str(tmp_path)])
    assert "pip install 'lplab[lab]'" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="a shell pipe")
def test_a_reader_may_stop_early():
    script = f"'{sys.executable}' -c 'from lplab.cli import main; main([\"formats\", \"--json\"])' | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True)
    assert done.stdout == "[\n" and done.stderr == ""
