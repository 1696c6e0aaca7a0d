"""Records of a training as TensorBoard events: ``tensorboard --logdir FOLDER`` draws them.

This module needs PyTorch, and tensorboard when something is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lplab.recordings.magnitudes import LOWEST, NUMBERS

if TYPE_CHECKING:
    from lplab.training.loop.recorder import Record


def open_writer(folder: str | Path) -> Any:
    """A ``SummaryWriter`` of PyTorch that writes a new file of events into a folder, which is made.

    Raises:
        ImportError: tensorboard is missing.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError("TensorBoard events need tensorboard: pip install 'lplab[export]'") from None
    return SummaryWriter(str(folder))


def write_events(writer: Any, records: Iterable[Record]) -> None:
    """Write each number of each record as a scalar, and its histogram over log2 of the magnitude, at its step.

    The tags read ``layer/role/number`` and ``layer/role/log2_magnitude``; the layer of the model itself is "model".

    Args:
        writer: of :func:`open_writer`.
        records: :class:`~lplab.training.Record` objects.
    """
    for record in records:
        tag = f"{record.layer or 'model'}/{record.role}"
        for name in NUMBERS:
            writer.add_scalar(f"{tag}/{name}", getattr(record, name), record.step)
        filled = np.flatnonzero(record.histogram)
        if not filled.size:
            continue  # all zero or not finite: there is no magnitude to draw
        counts = record.histogram[filled[0] : filled[-1] + 1]
        octaves = np.arange(filled[0], filled[-1] + 1) + LOWEST
        middles = octaves + 0.5
        writer.add_histogram_raw(
            f"{tag}/log2_magnitude",
            min=float(octaves[0]),
            max=float(octaves[-1] + 1),
            num=int(counts.sum()),
            sum=float(counts @ middles),  # the sums count every element in the middle of its octave
            sum_squares=float(counts @ middles**2),
            bucket_limits=(octaves + 1.0).tolist(),
            bucket_counts=counts.tolist(),
            global_step=record.step,
        )
    writer.flush()
