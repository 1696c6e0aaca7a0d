"""Gradient compression: the messages that learners exchange instead of 32 bits a value.

Each algorithm is written once, as a generator over one layer that requests collectives (``compressor.py``), for arrays
of numpy and for tensors on any device (``arrays.py``). Read :class:`Dense` first, the shortest, then ``scalecom.py``
and ``adacomp.py``. ``lockstep.py`` runs many learners in one process; ``wire/`` holds the message formats.
"""

from lplab.compression.adacomp import AdaComp
from lplab.compression.block_codes import BlockCode
from lplab.compression.compressor import (
    AllGather,
    AllReduce,
    Broadcast,
    Compressor,
    Context,
    Dense,
    NotFiniteError,
    Transfer,
)
from lplab.compression.compressor_catalogue import get, names
from lplab.compression.demo import DeMo
from lplab.compression.dgc import DGC
from lplab.compression.layer_info import LayerInfo
from lplab.compression.layer_state import LayerState
from lplab.compression.lockstep import Entry, TrafficLog, exchange
from lplab.compression.lossless import Lossless
from lplab.compression.low_bit import LowBit
from lplab.compression.lowrank import PowerSGD
from lplab.compression.ratios import CompressionRatios, compression_ratios
from lplab.compression.scalecom import ScaleCom
from lplab.compression.signs import EFSign, OneBit, SignSGD
from lplab.compression.sparse import RandomK, TopK
from lplab.compression.sparseloco import SparseLoCo
from lplab.compression.two_all_to_alls import ring_reduce_scatter, two_all_to_alls
from lplab.compression.unbiased import QSGD, TernGrad
from lplab.compression.wrappers import DenseIfSmall, LocalMomentum, WarmUp
from lplab.lookup import refuse_wrong_names

__all__ = [
    "DGC",
    "QSGD",
    "AdaComp",
    "AllGather",
    "AllReduce",
    "BlockCode",
    "Broadcast",
    "CompressionRatios",
    "Compressor",
    "Context",
    "DeMo",
    "Dense",
    "DenseIfSmall",
    "EFSign",
    "Entry",
    "LayerInfo",
    "LayerState",
    "LocalMomentum",
    "Lossless",
    "LowBit",
    "NotFiniteError",
    "OneBit",
    "PowerSGD",
    "RandomK",
    "ScaleCom",
    "SignSGD",
    "SparseLoCo",
    "TernGrad",
    "TopK",
    "TrafficLog",
    "Transfer",
    "WarmUp",
    "compression_ratios",
    "exchange",
    "get",
    "names",
    "ring_reduce_scatter",
    "two_all_to_alls",
]

refuse_wrong_names(__name__)
