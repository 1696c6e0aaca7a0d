"""What lplab uses of plotly's internals is there; where a new version lacks it, the failure says what to do."""

import pytest

from lplab.widgets.live import plotly_internals

WHAT_TO_DO = """
This plotly ({version}) lacks {missing}, which lplab/widgets/live uses. With it, figures of the labs are plain: without
the width of their place and without JupyterLab's dark theme. Find what plotly has instead:
  1. plotly_internals.py: where widgetbundle.js lies now, what its default export is, and how the methods of its
     FigureView and the traits of BaseFigureWidget are called now; change the names there.
  2. lplab/widgets/static/live_figure.js and figure_parts.js, and live_figure.py: change the names that they use.
  3. LPLAB_BROWSER=... python3 start.py test tests/browser/test_live_figure.py: what a browser shows is as before.
If nothing of the kind is left, set an upper bound for plotly in pyproject.toml and constraints.txt.
"""


def test_plotly_still_has_what_is_used():
    missing = plotly_internals.missing_internals()
    version = plotly_internals.plotly.__version__
    assert not missing, WHAT_TO_DO.format(version=version, missing=", ".join(missing))


def test_a_missing_bundle_and_another_export_are_noticed(monkeypatch, tmp_path):
    monkeypatch.setattr(plotly_internals, "BUNDLE", tmp_path / "gone.js")
    assert "package_data/widgetbundle.js" in plotly_internals.missing_internals()
    (tmp_path / "gone.js").write_text("export {f as default}")
    assert "widgetbundle.js: default export is a factory" in plotly_internals.missing_internals()


@pytest.mark.parametrize("name", plotly_internals.WIDGET_ATTRIBUTES)
def test_a_renamed_attribute_is_noticed(monkeypatch, name):
    class Renamed(plotly_internals.anywidget.AnyWidget):
        _config = plotly_internals.BaseFigureWidget._config

    monkeypatch.setattr(plotly_internals, "BaseFigureWidget", Renamed)
    assert f"BaseFigureWidget.{name}" in plotly_internals.missing_internals()


def test_no_other_module_reads_the_bundle():
    """The site has plotly's script for pages, which is another file."""
    root = plotly_internals.Path(plotly_internals.__file__).parents[2]
    using = [path.name for path in root.rglob("*.py") if "widgetbundle" in path.read_text("utf-8")]
    assert using == ["plotly_internals.py"]
