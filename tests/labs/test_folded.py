"""Folded tables: a reader sees one line, a test compares every number."""

import pytest

from lplab.figures import Table
from lplab.labs.folded import Folded


def test_tables_are_behind_a_line_in_a_notebook_and_in_full_as_text():
    tables = Table({"bits": [8]}, caption="One"), Table({"bits": [4]}, caption="Two")
    shown = Folded(*tables)
    page = shown._repr_html_()
    assert page.startswith("<details><summary>2 tables</summary>") and page.endswith("</details>")
    assert all(table._repr_html_() in page for table in tables)
    assert repr(shown) == f"{tables[0]!r}\n\n{tables[1]!r}"
    assert "<summary>1 table</summary>" in Folded(tables[0])._repr_html_()


def test_nothing_to_fold_is_refused():
    with pytest.raises(ValueError, match="at least one table is needed"):
        Folded()
