"""Figures: data in, Plotly figure out. No widgets, no state; every figure in the house style, with alt text.

>>> from lplab import figures
>>> figures.number_line("e2m1").layout.meta["title"]
"Half of e2m1's numbers lie within ±2"

How a figure is made of parts, and what the parts are, is said in :mod:`lplab.figures.traces`.
"""

from lplab.figures import style
from lplab.figures.adacomp_bins import adacomp_bins
from lplab.figures.branched_losses import branched_losses
from lplab.figures.carbon_by_place import carbon_by_place
from lplab.figures.carbon_runs import corrections, published_runs
from lplab.figures.clip_bits import ClipRule, bits_error
from lplab.figures.clip_steps import clip_steps
from lplab.figures.clips import clip_error, clip_histogram, level_shares
from lplab.figures.cluster_scaling import ScalingCurve, scaling
from lplab.figures.compared_curves import compared_curves
from lplab.figures.counterexample import counterexample
from lplab.figures.data_table import DataTable
from lplab.figures.device_timeline import device_timeline
from lplab.figures.domain_gaps import domain_gaps
from lplab.figures.energy_bars import energy_parts, round_energy
from lplab.figures.error_curve import error_curve
from lplab.figures.error_map import error_map
from lplab.figures.figure_display import show, update
from lplab.figures.figure_files import export
from lplab.figures.format_comparison import compare
from lplab.figures.gains import gradient_gains
from lplab.figures.gradient_grids import gradient_grids
from lplab.figures.gradient_range import gradient_range
from lplab.figures.grid_errors import grid_errors
from lplab.figures.guess_and_truth import guess_and_truth
from lplab.figures.layer_scales import layer_scales
from lplab.figures.layer_sensitivity import layer_sensitivity
from lplab.figures.learner_curves import LearnerCurve, learner_runs
from lplab.figures.loss_scale_history import LossScaleHistory, loss_scale_history
from lplab.figures.lost_updates import lost_updates
from lplab.figures.magnitude_histogram import magnitude_data, magnitude_histogram
from lplab.figures.many_learners import LearnerScaling, LearnerSimilarity, many_learners
from lplab.figures.meeting_curves import byte_loss_plane, meeting_losses, meeting_seconds
from lplab.figures.momentum_placement import momentum_placement
from lplab.figures.multiplier_cost import multiplier_cost
from lplab.figures.number_line import number_line, number_line_data
from lplab.figures.output_errors import output_errors
from lplab.figures.phases import phases
from lplab.figures.plane import range_precision
from lplab.figures.precision import TensorRow, tensor_row
from lplab.figures.range_map import range_map
from lplab.figures.recipe_field import RecipePoint, recipe_field
from lplab.figures.relative_error import error_curve_data
from lplab.figures.retuning import retuned_errors
from lplab.figures.ring_steps import bucket_times, ring_steps
from lplab.figures.roofline import Roof, roofline
from lplab.figures.running_sum import chunk_error, running_sum
from lplab.figures.scale_rules import scale_rules
from lplab.figures.scales import delayed_ranges
from lplab.figures.sent_and_kept import SentHistory, sent_and_kept
from lplab.figures.shares import shares
from lplab.figures.sharing_errors import sharing_errors
from lplab.figures.stacked import stacked
from lplab.figures.staircase import staircase
from lplab.figures.statistics import TensorStatistics, tensor_statistics
from lplab.figures.step_losses import LossCurve, loss_curves
from lplab.figures.stream_magnitudes import stream_magnitudes
from lplab.figures.student_selection import two_distances, union_growth
from lplab.figures.sweep_curves import sweep_curves
from lplab.figures.tile_energy import tile_energy
from lplab.figures.time_parts import time_parts
from lplab.figures.training_error import Curve, training_epochs, training_error
from lplab.figures.verdict_card import verdict_card, verdict_page
from lplab.figures.written_text import written_text
from lplab.lookup import refuse_wrong_names

__all__ = [
    "ClipRule",
    "Curve",
    "DataTable",
    "LearnerCurve",
    "LearnerScaling",
    "LearnerSimilarity",
    "LossCurve",
    "LossScaleHistory",
    "RecipePoint",
    "Roof",
    "ScalingCurve",
    "SentHistory",
    "TensorRow",
    "TensorStatistics",
    "adacomp_bins",
    "bits_error",
    "branched_losses",
    "bucket_times",
    "byte_loss_plane",
    "carbon_by_place",
    "chunk_error",
    "clip_error",
    "clip_histogram",
    "clip_steps",
    "compare",
    "compared_curves",
    "corrections",
    "counterexample",
    "delayed_ranges",
    "device_timeline",
    "domain_gaps",
    "energy_parts",
    "error_curve",
    "error_curve_data",
    "error_map",
    "export",
    "gradient_gains",
    "gradient_grids",
    "gradient_range",
    "grid_errors",
    "guess_and_truth",
    "layer_scales",
    "layer_sensitivity",
    "learner_runs",
    "level_shares",
    "loss_curves",
    "loss_scale_history",
    "lost_updates",
    "magnitude_data",
    "magnitude_histogram",
    "many_learners",
    "meeting_losses",
    "meeting_seconds",
    "momentum_placement",
    "multiplier_cost",
    "number_line",
    "number_line_data",
    "output_errors",
    "phases",
    "published_runs",
    "range_map",
    "range_precision",
    "recipe_field",
    "retuned_errors",
    "ring_steps",
    "roofline",
    "round_energy",
    "running_sum",
    "scale_rules",
    "scaling",
    "sent_and_kept",
    "shares",
    "sharing_errors",
    "show",
    "stacked",
    "staircase",
    "stream_magnitudes",
    "style",
    "sweep_curves",
    "tensor_row",
    "tensor_statistics",
    "tile_energy",
    "time_parts",
    "training_epochs",
    "training_error",
    "two_distances",
    "union_growth",
    "update",
    "verdict_card",
    "verdict_page",
    "written_text",
]

refuse_wrong_names(__name__)
