"""Controls around figures, for notebooks: live figures, a bit panel, a format explorer, predictions, trainings.

Nothing here computes: numbers come from `lplab.formats`, figures from `lplab.figures`. `live` holds figures that change
in place and trainings that draw while they run; `explorers` holds one module for each explorer: its state, whose fields
declare their controls (`fields`), its figures, its sentence, and the widget (`explorer_base`). `mechanisms` holds one
idea of each lab that moves under the hand and needs no kernel.
"""

from lplab.lookup import refuse_wrong_names

from .bit_panel import BitPanel
from .explorers.bill_explorer import BillExplorer
from .explorers.clip_explorer import ClipExplorer
from .explorers.cluster_explorer import ClusterExplorer
from .explorers.edge_explorer import EdgeExplorer
from .explorers.few_bits_explorer import FewBitsExplorer
from .explorers.format_explorer import FormatExplorer
from .explorers.format_state import FormatState
from .explorers.four_bit_explorer import FourBitExplorer
from .explorers.ingredient_explorer import IngredientExplorer
from .explorers.learners_explorer import LearnersExplorer
from .explorers.meeting_explorer import MeetingExplorer
from .explorers.plane_explorer import PlaneExplorer
from .explorers.range_explorer import RangeExplorer
from .explorers.residual_explorer import ResidualExplorer
from .explorers.roofline_explorer import RooflineExplorer
from .explorers.scale_explorer import ScaleExplorer
from .explorers.sum_explorer import SumExplorer
from .explorers.training_explorer import TrainingExplorer
from .glossary_words import GlossaryWords
from .live.clip_training import live_clips
from .live.fixed_point_training import live_training, train_with
from .live.live_adacomp import live_adacomp
from .live.live_branch import LiveBranch, live_branch
from .live.live_figure import LiveFigure
from .live.live_learners import LiveLearners, live_learners
from .live.live_meetings import LiveMeetings, live_meetings
from .live.live_run import LiveRun
from .live.live_trainers import LiveTrainers, live_trainers
from .live.loss_scale_training import train_with_scale
from .mechanisms import Mechanism, MechanismView, mechanism
from .prediction import GuessOutcome, Prediction
from .veil import Veil

__all__ = [
    "BillExplorer",
    "BitPanel",
    "ClipExplorer",
    "ClusterExplorer",
    "EdgeExplorer",
    "FewBitsExplorer",
    "FormatExplorer",
    "FormatState",
    "FourBitExplorer",
    "GlossaryWords",
    "GuessOutcome",
    "IngredientExplorer",
    "LearnersExplorer",
    "LiveBranch",
    "LiveFigure",
    "LiveLearners",
    "LiveMeetings",
    "LiveRun",
    "LiveTrainers",
    "Mechanism",
    "MechanismView",
    "MeetingExplorer",
    "PlaneExplorer",
    "Prediction",
    "RangeExplorer",
    "ResidualExplorer",
    "RooflineExplorer",
    "ScaleExplorer",
    "SumExplorer",
    "TrainingExplorer",
    "Veil",
    "live_adacomp",
    "live_branch",
    "live_clips",
    "live_learners",
    "live_meetings",
    "live_trainers",
    "live_training",
    "mechanism",
    "train_with",
    "train_with_scale",
]

refuse_wrong_names(__name__)
