"""The table of chips: every number graded and sourced, files of users read or refused in one line."""

import json
import pickle
import sys

import pytest

from lplab.hardware import accelerators, local_machine, matmul_benchmark, precisions
from lplab.hardware.csv_tables import folder
from lplab.hardware.sourced_value import GRADES, SourcedValue, sources

ASKED = {
    *("ibm-core-2018", "ibm-core-2020", "ibm-4core-7nm", "ibm-rapid-training", "ibm-4bit-2020"),
    *("p100", "v100", "a100", "h100", "h200", "b200", "systolic"),
    *(f"tpu-{version}" for version in ("v1", "v2", "v3", "v4", "v5e", "v5p", "v6e")),
}


def test_every_number_has_a_grade_and_a_source_that_is_listed():
    assert set(accelerators.names()) >= ASKED
    for name in accelerators.names():
        chip = accelerators.get(name)
        for quantity, number in chip.numbers.items():
            assert number.grade in GRADES and number.grade != "own", (name, quantity)
            assert number.source in sources(), (name, quantity, number.source)
        assert set(chip.peaks) <= set(chip.numbers) and chip.label and chip.year


def test_every_listed_source_is_used():
    tables = ("accelerators", "links", "nccl_tuner")
    cells = " ".join((folder() / f"{name}.csv").read_text("utf-8") for name in tables)
    assert [name for name in sources() if name not in cells] == []


@pytest.mark.parametrize(
    ("chip", "peak"), [("ibm-core-2018", "fp16"), ("tpu-v1", "int8"), ("tpu-v2", "bf16"), ("tpu-v3", "bf16")]
)
def test_peaks_are_what_the_arrays_make(chip, peak):
    chip = accelerators.get(chip)
    made = 2 * chip.array_rows * chip.array_columns * chip.arrays * chip.clock_hertz
    assert made == pytest.approx(chip.peaks[peak], rel=0.03)


def test_rates_are_dense():
    h100, b200 = accelerators.get("h100"), accelerators.get("b200")
    assert h100.peaks["fp8"] == 1979e12 and b200.peaks["fp4"] == 9000e12  # sheets also print twice as much


def test_names_are_found_and_unknown_ones_get_the_closest():
    assert accelerators.get("H100") is accelerators.get("h100") and accelerators.get("TPU v4").name == "tpu-v4"
    with pytest.raises(ValueError, match="there is no chip 'a10'; did you mean a100"):
        accelerators.get("a10")
    with pytest.raises(ValueError, match="there is no chip 'zzzz'; there are: ibm-core-2018"):
        accelerators.get("zzzz")


def test_a_chip_of_ones_own_from_csv_and_json(tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("name,label,fp16,memory_bytes_per_second\nmy-chip,My chip,10e12,200e9 read my-sheet\n", "utf-8")
    chip = accelerators.load(table)["my-chip"]
    assert chip.peaks == {"fp16": 10e12} and chip.grade("fp16") == "own"
    assert chip.grade("memory_bytes_per_second") == "read" and chip.source("memory_bytes_per_second") == "my-sheet"
    entries = tmp_path / "mine.json"
    entries.write_text(json.dumps([{"name": "a", "int8": 4e12, "devices": 2}]), "utf-8")
    assert accelerators.load(entries)["a"].devices == 2
    assert pickle.loads(pickle.dumps(chip)) == chip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,fp17\na,1e12", r"mine.csv, row 1: there is no column 'fp17'; did you mean fp16"),
        ("name,fp16\na,-1e12", "row 1: a: fp16 must be a number above 0, got -1"),
        ("name,fp16\na,fast", "row 1: column fp16: 'fast' is no number"),
        ("name,fp16\na,1e12 guessed", "row 1: column fp16: unknown grade 'guessed'; allowed: "),
        ("name,fp16,power_watts\na,1e12,0", "row 1: a: power_watts must be a number above 0"),
        ("name,fp16\na,1e12\na,2e12", "row 2: duplicate chip a"),
        ("name,power_watts\na,100", "row 1: a: a chip needs at least one rate"),
        ("label,fp16\na,1e12", "mine.csv lacks the column 'name'"),
        ("name,fp16,devices\na,1e12,two", "row 1: column devices must be a whole number, got 'two'"),
        ("name,fp16,devices\na,1e12,0", "row 1: a: devices must be a whole number from 1"),
        ("name,fp16\n,1e12", "row 1: a chip needs a name"),
        ("name,fp16\na,inf", "fp16 must be a number above 0, got inf"),
    ],
)
def test_a_bad_file_gets_one_line(text, message, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text(text + "\n", "utf-8")
    with pytest.raises(ValueError, match=message) as problem:
        accelerators.load(path)
    assert "\n" not in str(problem.value)


def test_columns_may_be_spelled_with_capitals_and_blanks():
    """Read, not skipped: a column that was skipped would be a number less."""
    chip = accelerators.from_row({"name": "a", "FP16": "1e12", "Memory bytes per second": "1e9"})
    assert chip.peaks == {"fp16": 1e12} and chip.memory_bytes_per_second == 1e9


def test_bad_json_gets_one_line(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text("{", "utf-8")
    with pytest.raises(ValueError, match="mine.json is no JSON"):
        accelerators.load(path)
    path.write_text("[3]", "utf-8")
    with pytest.raises(ValueError, match="entry 1: a chip is a row of columns and cells, got int"):
        accelerators.load(path)
    with pytest.raises(FileNotFoundError):
        accelerators.load(tmp_path / "nothing.csv")


def test_a_number_without_a_grade_is_the_users():
    assert SourcedValue.parse("3e9").grade == "own" and SourcedValue.parse("3e9 read a b").source == "a b"


def test_my_machine_is_the_measured_one_and_says_whose(tmp_path, monkeypatch):
    monkeypatch.setenv("LPLAB_MACHINE", str(tmp_path / "machine.json"))
    assert accelerators.mine is accelerators.local_machine
    shipped = accelerators.local_machine()
    assert shipped.label.startswith("the machine lplab was made on") and shipped.grade("fp32") == "measured"
    assert shipped.memory_bytes_per_second > 1e9 and accelerators.get("mine") == shipped
    rates = [{"format": "fp32", "size": n, "tera": n / 1000} for n in (100, 300, 200)]
    table = {"processor": "P", "threads": 4, "date": "2026-01-01", "rates": rates, "memory": {"bytes_per_second": 2e10}}
    local_machine.measurement_path().write_text(json.dumps(table), "utf-8")
    mine = accelerators.local_machine()
    assert mine.peaks["fp32"] == 0.3e12 and mine.memory_bytes_per_second == 2e10
    assert mine.label == "your machine (P)" and "4 threads" in mine.source("fp32")
    for damaged in ("{}", "[", '{"rates": [{"format": "fp7", "size": 8, "tera": 1}]}'):
        local_machine.measurement_path().write_text(damaged, "utf-8")
        for ask in (accelerators.local_machine, local_machine.measured_products):
            with pytest.raises(ValueError, match="measure again with `lplab doctor --measure`"):
                ask()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each user has a folder")
def test_a_user_without_a_home_folder_has_the_shipped_machine(monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for name in ("HOME", "XDG_DATA_HOME", "LPLAB_MACHINE"):
        monkeypatch.delenv(name, raising=False)
    assert local_machine.measurement_path().is_absolute()
    assert accelerators.local_machine().name == "mine"


def test_measured_products_have_the_bytes_that_they_move(tmp_path, monkeypatch):
    """Of n × n matrices, in operations per byte: 2·n³ over the bytes of two operands and of the result."""
    monkeypatch.setenv("LPLAB_MACHINE", str(tmp_path / "machine.json"))
    rates = [{"format": name, "size": 12, "tera": 1} for name in local_machine.PRODUCT_BYTES]
    local_machine.measurement_path().write_text(json.dumps({"rates": rates}), "utf-8")
    found = {name.split(",")[0]: intensity for name, intensity, _ in local_machine.measured_products()}
    assert found == {"fp32": 2, "tf32": 2, "fp16": 4, "bf16": 4, "fp8": 6, "int8": 4}
    measured = {name for products in matmul_benchmark.PRODUCTS.values() for name in products}
    assert measured == set(local_machine.PRODUCT_BYTES)


def test_precisions_say_what_their_recipes_do():
    from lplab.training import recipes

    for name in ("fp8_2018", "hfp8_2019", "int4_fp4_2020"):
        kept, wide = set(precisions.get(name).keep), set(recipes.get(name).exceptions)
        assert kept == wide, name
    roles = {"weight_bits": "weight", "activation_bits": "activation", "gradient_bits": "output_gradient_dw"}
    for name in ("deepseek_2024", "mxfp4_2025", "quartet_2025", "mxfp8_2025", "nvfp4_2025"):
        found, recipe = precisions.get(name), recipes.get(name)
        assert set(found.keep) == set(recipe.exceptions) - {"late"}, name
        for bits, role in roles.items():  # the part of a shared scale is counted
            rule = getattr(recipe, role)
            assert getattr(found, bits) == (rule.quantizer or rule).format.bits, (name, role)
    four = precisions.get("int4_fp4_2020")
    assert (four.weight_bits, four.gradient_bits, four.dx_peaks) == (4, 4, ("fp4",))
    assert not precisions.get("int4").trains and precisions.get("fp32").master_bits == 0
    with pytest.raises(ValueError, match="there is no precision 'int44'; did you mean int4"):
        precisions.get("int44")
    with pytest.raises(ValueError, match="weight_bits must be from 1 to 64, got 0"):
        precisions.Precision("x", "x", 0, 8, 8, ("fp8",))
    with pytest.raises(ValueError, match="x: its products need a rate"):
        precisions.Precision("x", "x", 8, 8, 8, ())
