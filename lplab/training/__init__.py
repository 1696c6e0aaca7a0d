"""Training with few bits. So far: Gupta's fixed point of 2015, numpy alone.

>>> from lplab.training import FixedPointRun, finish
>>> trained = finish(FixedPointRun(fraction_bits=8, rounding="stochastic", epochs=2))
>>> len(trained.epochs), trained.test_error < 50
(2, True)
"""

from lplab.training.convert import LABELS, ROUNDINGS, Converter, Tally
from lplab.training.fixed_point import digits_split, train
from lplab.training.runs import Epoch, FixedPointRun, Trained, finish, side_by_side

__all__ = [
    "LABELS",
    "ROUNDINGS",
    "Converter",
    "Epoch",
    "FixedPointRun",
    "Tally",
    "Trained",
    "digits_split",
    "finish",
    "side_by_side",
    "train",
]
