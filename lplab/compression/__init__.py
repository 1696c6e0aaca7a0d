"""Gradient compression: what learners send each other instead of 32 bits a value.

Each algorithm stands once, as a generator over one layer that asks for collectives (``protocol.py``). Begin to read
with ``dense.py``, the shortest, then ``scalecom.py`` and ``adacomp.py``; ``exchange.py`` runs many learners in one
process.
"""

from lplab.compression.adacomp import AdaComp
from lplab.compression.catalogue import get, names
from lplab.compression.dense import Dense
from lplab.compression.dgc import DGC
from lplab.compression.exchange import Entry, Ledger, exchange
from lplab.compression.large_only import LargeOnly
from lplab.compression.layer import LayerInfo
from lplab.compression.lossless import Lossless
from lplab.compression.lowrank import PowerSGD
from lplab.compression.protocol import Broadcast, Compressor, Context, Gather, NotFiniteError, Sum, Transfer
from lplab.compression.scalecom import ScaleCom
from lplab.compression.signs import EFSign, OneBit
from lplab.compression.sparse import RandomK, TopK
from lplab.compression.state import LayerState
from lplab.compression.unbiased import QSGD, TernGrad
from lplab.compression.warmup import WarmUp

__all__ = [
    "DGC",
    "QSGD",
    "AdaComp",
    "Broadcast",
    "Compressor",
    "Context",
    "Dense",
    "EFSign",
    "Entry",
    "Gather",
    "LargeOnly",
    "LayerInfo",
    "LayerState",
    "Ledger",
    "Lossless",
    "NotFiniteError",
    "OneBit",
    "PowerSGD",
    "RandomK",
    "ScaleCom",
    "Sum",
    "TernGrad",
    "TopK",
    "Transfer",
    "WarmUp",
    "exchange",
    "get",
    "names",
]
