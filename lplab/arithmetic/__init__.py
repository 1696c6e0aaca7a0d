"""Sums and products carried out in a number format: every addition is rounded, as in a narrow accumulator.

To read the code, begin with ``reference_sums.py`` (one operation: add exactly, round once). Then ``accumulation.py``
(the same operation for every compiler), ``array_sums.py`` (whole arrays), ``exactness.py`` (when the machine's own
addition suffices) and ``sum_loops.py`` (numba's loops).

>>> from lplab import arithmetic
>>> arithmetic.sum([1.0] * 5000, "dlfloat16"), arithmetic.sum([1.0] * 5000, "dlfloat16", chunk=64)
(1024.0, 5000.0)
"""

from lplab.arithmetic.accumulator import Accumulator
from lplab.arithmetic.products import dot, matmul
from lplab.arithmetic.sums import kahan_sum, pairwise_sum, sum
from lplab.lookup import refuse_wrong_names

__all__ = ["Accumulator", "dot", "kahan_sum", "matmul", "pairwise_sum", "sum"]

refuse_wrong_names(__name__)
