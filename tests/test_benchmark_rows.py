"""What ``python -m benchmarks compression parallel --write`` puts into docs/exactness.md and the README."""

import re

import pytest

from benchmarks import rows


@pytest.mark.parametrize("name", ["compression", "parallel"])
def test_a_benchmark_finds_its_place_and_leaves_the_rest_alone(name, tmp_path):
    page = tmp_path / "exactness.md"
    before = rows.SPEEDS.read_text("utf-8")
    page.write_text(before, "utf-8")
    for ratio in ("1.50", "0.75"):  # the second run replaces the first
        rows.write(name, "Steps", ["exchange", "× DDP"], [["ScaleCom", ratio]], page)
    after = page.read_text("utf-8")
    assert "| ScaleCom | 0.75 |" in after and "1.50 |" not in after.replace(before, "")
    assert re.search(rf"^Steps \(`python -m benchmarks {name}`, \d+ \w+ \d{{4}}, .+, \d+ processors\):$", after, re.M)
    assert rows.replaced(after, name, "") == rows.replaced(before, name, "")


def test_a_page_without_a_place_is_refused():
    with pytest.raises(ValueError, match="has no marks <!-- measured: parallel --> and <!-- end: parallel -->"):
        rows.replaced("nothing", "parallel", "rows")


def test_the_rows_of_both_benchmarks_are_complete(monkeypatch):
    pytest.importorskip("torch")
    from benchmarks import compression, parallel
    from benchmarks.formats import Result

    written = {}
    monkeypatch.setattr(rows, "write", lambda name, caption, header, lines: written.update({name: (header, lines)}))
    names = [("chunk top-1 of 500", 3.0), ("AdaComp 500", 6.0)]
    results = [Result(work, who, 2.0, 1.0, 3.0, bar) for work, bar in names for who in ("lplab", "tensors")]
    compression.write_rows(results, (0.5, 0.9))
    said = {}
    monkeypatch.setattr(rows, "say", lambda name, sentence: said.update({name: sentence}))
    ratios = dict.fromkeys(parallel.EXCHANGES, 1.25)
    parallel.write_rows(ratios, ratios, ratios)
    assert (
        "1.2 times as long with ScaleCom as without compression over a network of 1 Gb/s, and 1.2 times as long inside"
        in said["parallel"]
    )
    assert rows.replaced(rows.README.read_text("utf-8"), "parallel", said["parallel"]).count(said["parallel"]) == 1
    assert [line[1] for line in written["compression"][1]] == ["2.0"] * 4 + ["0.50", "0.90"]
    assert [line[0] for line in written["parallel"][1]] == list(parallel.EXCHANGES)
    assert all(len(line) == len(header) for header, lines in written.values() for line in lines)
