"""Controls around figures, for notebooks: live figures, a bit panel, a format explorer, predictions.

Nothing here computes: numbers come from `lplab.formats`, pictures from `lplab.figures`.
"""

from .bit_panel import BitPanel
from .live_figure import LiveFigure

__all__ = ["BitPanel", "LiveFigure"]
