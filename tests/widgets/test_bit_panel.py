"""The Python half of the bit panel."""

import math

import pytest
import traitlets

from lplab import formats as F
from lplab.widgets import BitPanel


@pytest.mark.parametrize("name", F.names())
def test_panel_of_every_format(name):
    panel = BitPanel(name)
    widths = [width for _, width in panel.format_spec["fields"]]
    assert sum(widths) == panel.format_spec["bits"] == panel.format.bits <= 32
    for pattern in {0, 1, 2**panel.format.bits - 1}:
        panel.pattern = pattern
        assert panel.value == panel.format.decode(pattern) or math.isnan(panel.value)
    with pytest.raises(traitlets.TraitError, match="pattern must be from 0 to"):
        panel.pattern = 2**panel.format.bits


def test_format_changes_live_and_keeps_the_value():
    panel = BitPanel("fp32")
    panel.type("0.3")
    for name in F.names():
        panel.format = F.get(name)
        assert panel.format_spec["label"] == panel.format.label
    panel.format = "e4m3fn"
    panel.type("0.3")
    panel.format = "e2m1"
    assert panel.value == 0.5
    assert panel.note["text"].startswith("0.3125 is stored as 0.5")


def test_format_without_a_code_for_the_value():
    panel = BitPanel("e4m3fn", pattern=0x7F)
    panel.format = "e2m1"
    assert panel.pattern == 0
    assert "no code" in panel.note["text"]


@pytest.mark.parametrize("bad", ["e4m3fm", 3, None, F.FloatFormat(10, 30)])
def test_bad_formats_have_one_clear_line(bad):
    with pytest.raises(traitlets.TraitError, match="format"):
        BitPanel(bad)


def test_messages_from_the_browser():
    panel = BitPanel("e4m3fn")
    panel._receive(panel, {"kind": "type", "text": "1.5"}, [])
    assert panel.pattern == 0x3C
    for content in ({"kind": "other"}, "text", None, {"kind": "type"}):
        panel._receive(panel, content, [])
    assert panel.pattern == 0x3C


def test_a_typed_code_is_said_to_be_a_value():
    panel = BitPanel("e4m3fn")
    panel.type("0x3C")
    assert panel.value == 60 and panel.note["text"].startswith("60: a value; to set bits, click them.")
