"""The page that quantizes a language model: its code runs in order, and its numbers are those that come out."""

import importlib
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lplab import datasets, models

PAGE = (Path(__file__).parents[1] / "docs" / "quantize_language_model.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
OUTSIDE, OURS = BLOCKS[:3], BLOCKS[3:]


def numbers_behind(code):
    """The numbers in the comment behind a line of the page."""
    (line,) = [line for block in BLOCKS for line in block.splitlines() if line.startswith(code)]
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", line.split("# ")[1])]


@pytest.mark.slow
def test_a_model_of_another_library_is_rounded_and_gptq_costs_less(monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    try:
        importlib.import_module("transformers")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"needs transformers (the page says how to install it): {error}")
    found = {}
    for block in OUTSIDE:
        exec(block, found)
    costs = found["costs"]
    assert 2 < found["before"] < 4, "it has learned more than how frequent each character is"
    assert max(costs["w4a16:group=32"], costs["w4a16_gptq:group=32"]) < 0.01, "less than a hundredth of a bit"
    assert costs["w2a16_gptq:group=32"] < 0.5 * costs["w2a16:group=32"], "less than half"
    shown = capsys.readouterr().out
    assert "w4a16_gptq:group=32  4.62 bits per rounded weight" in shown
    assert "106,496 numbers in   14 tensors   2.562 bits" in shown, "all linear layers but the last"


def test_a_file_its_cache_and_its_speed(monkeypatch, capsys):
    """A small Llama of characters stands in for SmolLM2."""
    shape = models.LlamaShape(vocabulary=75, width=64, blocks=1, heads=2, kv_heads=1, hidden=64)
    symbols = {symbol: number for number, symbol in enumerate(datasets.character_ids()[1])}
    tokenizer = SimpleNamespace(encode=lambda text: SimpleNamespace(ids=[symbols[symbol] for symbol in text]))
    monkeypatch.setattr(models, "smollm2", lambda: (models.llama(shape).eval(), tokenizer))
    found = {}
    for imports in (line for line in "".join(OUTSIDE).splitlines() if line.startswith(("import", "from lplab"))):
        exec(imports, found)
    for block in OURS:
        exec(block, found)
    assert found["passages"].shape == (40_000 // 129, 129) and len(found["held_out"]) == 8
    assert found["before"] == pytest.approx(math.log2(75), rel=0.1), "a model that knows nothing"
    assert found["cache"].length == 128
    assert "int3 asymmetric, a scale for groups of 32" in capsys.readouterr().out
    wide, few = found["wide"], found["few"]
    np.testing.assert_allclose(wide.seconds / few.seconds, numbers_behind("wide.seconds / few.seconds"), rtol=0.01)
    assert few.tokens_per_second.round().tolist() == numbers_behind("few.tokens_per_second.round()")
    assert few.is_memory_bound.all()
