"""Figures: data in, Plotly figure out. No widgets, no state; every figure in the house style, with alt text."""

from lplab.figures import style
from lplab.figures.error_curve import error_curve, error_curve_data
from lplab.figures.live import show, update
from lplab.figures.magnitudes import magnitude_data, magnitude_histogram
from lplab.figures.number_line import number_line, number_line_data
from lplab.figures.statistics import TensorStatistics, tensor_statistics

__all__ = ["TensorStatistics", "error_curve", "error_curve_data", "magnitude_data", "magnitude_histogram", "number_line", "number_line_data", "show", "style", "tensor_statistics", "update"]
