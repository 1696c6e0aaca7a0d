"""The decoder of the bit panel (static/bits.js) against Python, under node where there is one."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lplab.widgets.bit_panel as module
from lplab import formats as F

NODE = shutil.which("node")
SCRIPT = """
import { readFileSync } from "node:fs";
const jobs = JSON.parse(readFileSync(0, "utf8"));
const name = (value) => (Object.is(value, -0) ? "-0" : String(value));
const explain = ({ spec, values, codes }) => {
  const table = Float64Array.from(values, (value) => value ?? NaN);
  return codes.map((code) => {
    const { below, above } = neighbours(spec, table, code);
    return [name(decode(spec, table, code)), below, above, classOf(spec, table, code), formula(spec, table, code)];
  });
};
console.log(JSON.stringify(jobs.map(explain)));
"""
CUSTOM = {
    "no subnormals": F.FloatFormat(3, 2, subnormals=False),
    "no mantissa": F.FloatFormat(4, 0),
    "radix 4": F.FloatFormat(3, 2, radix=4, bias=3.5, specials="none"),
    "one exponent bit": F.FloatFormat(1, 3, specials="none"),
    "unsigned": F.IntFormat(bits=6, signed=False, scale=0.1, zero_point=10),
    "symmetric": F.IntFormat(bits=5, symmetric=True, scale=0.5),
    "fixed": F.FixedFormat(integer_bits=2, fraction_bits=4),
    "codebook": F.CodebookFormat((-1.0, 0.0, 0.5, float("nan"))),
}


def small_formats():
    catalogue = {name: module.as_format(name) for name in F.names()}
    return {name: fmt for name, fmt in (catalogue | CUSTOM).items() if fmt.bits <= 8}


def ask_node(jobs):
    """Decode, neighbours, class and formula of every (format, codes), as bits.js sees them."""
    source = (module._STATIC / "bits.js").read_text(encoding="utf-8").replace("export default", "const panel =")
    sent = [
        {
            "spec": module.spec_of(fmt),
            "values": [None if v != v else v for v in np.frombuffer(module.table_of(fmt)).tolist()],  # JSON has no NaN
            "codes": [int(code) for code in codes],
        }
        for fmt, codes in jobs
    ]
    run = subprocess.run(
        [NODE, "--input-type=module", "-e", source + SCRIPT],
        input=json.dumps(sent),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def as_float(text):
    return float(text.replace("Infinity", "inf"))


@pytest.fixture(scope="module")
def answers():
    if not NODE:
        pytest.skip("node is not installed; the browser test covers the same")
    formats = small_formats()
    jobs = [(fmt, range(2**fmt.bits)) for fmt in formats.values()]
    return {name: (fmt, rows) for (name, fmt), rows in zip(formats.items(), ask_node(jobs), strict=True)}


@pytest.mark.parametrize("name", small_formats())
def test_every_pattern_decodes_as_in_python(answers, name):
    fmt, rows = answers[name]
    assert len(rows) == 2**fmt.bits
    got = np.array([as_float(row[0]) for row in rows])
    np.testing.assert_array_equal(got, fmt.codebook())
    assert (np.signbit(got) == np.signbit(fmt.codebook()))[got == got].all()


@pytest.mark.parametrize("name", small_formats())
def test_neighbours_are_the_next_values(answers, name):
    fmt, rows = answers[name]
    book = fmt.codebook()
    values = np.unique(book[~np.isnan(book)])
    for code, (_, below, above, *_) in enumerate(rows):
        if np.isnan(book[code]):
            assert below is None
            assert above is None
            continue
        place = np.searchsorted(values, book[code])
        assert (None if below is None else book[below]) == (values[place - 1] if place else None)
        assert (None if above is None else book[above]) == (values[place + 1] if place + 1 < len(values) else None)


@pytest.mark.parametrize("name", small_formats())
def test_classes_agree_with_the_values(answers, name):
    fmt, rows = answers[name]
    for value, (*_, kind, _formula) in zip(fmt.codebook(), rows, strict=True):
        if np.isnan(value):
            assert kind == "NaN"
        elif np.isinf(value):
            assert kind == "infinity"
        elif value == 0:
            assert kind.startswith("zero")
        elif isinstance(fmt, F.FloatFormat):
            assert kind == ("normal" if abs(value) >= fmt.smallest_normal else "subnormal")
        else:
            assert kind == "number"


@pytest.mark.parametrize(
    "name", ["e4m3fn", "posit8_1", "lns8", "int8", "unsigned", "fixed", "radix4_fp4_odd", "hfp8_forward"]
)
def test_formulas_give_the_value(answers, name):
    """Every formula, read as arithmetic, gives the value that it explains."""
    fmt, rows = answers[name]
    for value, row in zip(fmt.codebook(), rows, strict=True):
        formula = row[4]
        if np.isfinite(value) and formula[0] in "(0123456789" and "table" not in formula:
            python = formula.replace("−", "-").replace("×", "*").replace("^{", "**(").replace("}", ")")
            assert np.float32(eval(python)) == np.float32(value), formula


def test_wide_formats_decode_as_in_python():
    if not NODE:
        pytest.skip("node is not installed; the browser test covers the same")
    rng = np.random.default_rng(0)
    formats = [F.get(name) for name in ("fp32", "tf32", "bf16", "fp16", "dlfloat16", "q4.12")]
    jobs = [(fmt, rng.integers(0, 2**fmt.bits, 5000)) for fmt in formats]
    for (fmt, codes), rows in zip(jobs, ask_node(jobs), strict=True):
        np.testing.assert_array_equal([as_float(row[0]) for row in rows], fmt.decode(codes))


def test_static_files_are_beside_the_module():
    assert {path.name for path in Path(module._STATIC).iterdir()} >= {
        "bits.js",
        "keep_hearing.js",
        "keep_keys.js",
        "bits.css",
        "live_figure.js",
        "live_figure.css",
    }
