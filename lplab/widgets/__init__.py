"""Controls around figures, for notebooks: live figures, a bit panel, a format explorer, predictions, trainings.

Nothing here computes: numbers come from `lplab.formats`, pictures from `lplab.figures`.
"""

from .bill_explorer import BillExplorer
from .bit_panel import BitPanel
from .clip_explorer import ClipExplorer
from .clip_trainings import live_clips
from .cluster_explorer import ClusterExplorer
from .edge_explorer import EdgeExplorer
from .explorer import FormatExplorer
from .explorer_state import ExplorerState
from .four_bit_explorer import FourBitExplorer
from .learners_explorer import LearnersExplorer
from .live_figure import LiveFigure
from .live_learners import LiveLearners, live_learners
from .live_residues import live_residues
from .live_run import LiveRun
from .live_trainers import LiveTrainers, live_trainers
from .plane_explorer import PlaneExplorer
from .prediction import Outcome, Prediction
from .range_explorer import RangeExplorer
from .residue_explorer import ResidueExplorer
from .roofline_explorer import RooflineExplorer
from .scaler_training import train_with_scale
from .sum_explorer import SumExplorer
from .training import live_training, train_with
from .training_explorer import TrainingExplorer

__all__ = [
    "BillExplorer",
    "BitPanel",
    "ClipExplorer",
    "ClusterExplorer",
    "EdgeExplorer",
    "ExplorerState",
    "FormatExplorer",
    "FourBitExplorer",
    "LearnersExplorer",
    "LiveFigure",
    "LiveLearners",
    "LiveRun",
    "LiveTrainers",
    "Outcome",
    "PlaneExplorer",
    "Prediction",
    "RangeExplorer",
    "ResidueExplorer",
    "RooflineExplorer",
    "SumExplorer",
    "TrainingExplorer",
    "live_clips",
    "live_learners",
    "live_residues",
    "live_trainers",
    "live_training",
    "train_with",
    "train_with_scale",
]
