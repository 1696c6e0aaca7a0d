"""Number formats: which values exist, how a number is rounded to one of them, which code stands for it.

Start with :func:`get` and :func:`names`, or describe a format of your own with one of the classes. To read the code,
begin with ``reference.py`` (how rounding works), then ``floating.py`` (what a format is), then
``words.py`` (the rules on bit patterns) and ``apply.py`` (from what you pass to memory and back).

>>> from lplab import formats as F
>>> F.get("e4m3fn").quantize(0.3)
0.3125
"""

from lplab.formats.base import Format
from lplab.formats.block_format import SCALE_RULES, BlockCodes, BlockFormat
from lplab.formats.catalogue import get, names
from lplab.formats.codebook import CodebookFormat
from lplab.formats.exchange import TorchaoBlocks, from_torchao, to_ml_dtypes, to_torch, to_torchao
from lplab.formats.fixed import FixedFormat
from lplab.formats.floating import SPECIALS, FloatFormat
from lplab.formats.integer import IntFormat
from lplab.formats.logarithmic import LogFormat
from lplab.formats.posit import PositFormat
from lplab.formats.rounding import ROUNDINGS, VARIANTS, Rounding
from lplab.formats.straight_through import straight_through
from lplab.lookup import refuse_wrong_names

__all__ = [
    "ROUNDINGS",
    "SCALE_RULES",
    "SPECIALS",
    "VARIANTS",
    "BlockCodes",
    "BlockFormat",
    "CodebookFormat",
    "FixedFormat",
    "FloatFormat",
    "Format",
    "IntFormat",
    "LogFormat",
    "PositFormat",
    "Rounding",
    "TorchaoBlocks",
    "from_torchao",
    "get",
    "names",
    "straight_through",
    "to_ml_dtypes",
    "to_torch",
    "to_torchao",
]

refuse_wrong_names(__name__)
