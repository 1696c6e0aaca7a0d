"""Controls around figures, for notebooks: live figures, a bit panel, a format explorer, predictions.

Nothing here computes: numbers come from `lplab.formats`, pictures from `lplab.figures`.
"""

from .bit_panel import BitPanel
from .explorer import FormatExplorer
from .explorer_state import ExplorerState
from .live_figure import LiveFigure
from .prediction import Outcome, Prediction

__all__ = ["BitPanel", "ExplorerState", "FormatExplorer", "LiveFigure", "Outcome", "Prediction"]
