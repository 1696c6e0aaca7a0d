"""Folded numbers: text for tests, tables behind a click for readers."""

import pytest

from lplab.figures import DataTable
from lplab.labs.folded import Folded


def test_text_has_all_parts_and_html_hides_them_behind_a_line():
    folded = Folded(DataTable({"codes": [55]}, caption="Between 0 and 1"), "a < b", line="Numbers & words")
    assert repr(folded) == "Between 0 and 1\ncodes\n   55\n\na < b"
    shown = folded._repr_html_()
    assert shown.startswith("<details><summary>Numbers &amp; words</summary>") and "<table" in shown
    assert "<pre>a &lt; b</pre></details>" in shown


def test_nothing_to_fold_is_refused():
    with pytest.raises(ValueError, match="at least one table or text is needed"):
        Folded()
