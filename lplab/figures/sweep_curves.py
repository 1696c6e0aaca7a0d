"""Efficiency against devices from the table of a sweep: a curve for each design, families by how gradients are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from lplab.figures import style
from lplab.figures.cluster_scaling import ScalingCurve, scaling

if TYPE_CHECKING:
    import pandas as pd

RESULTS = ("_seconds", "_bytes", "efficiency", "throughput", "speedup", "devices", "learners", "fits", "workload")
FAMILIES = ("dense", "values are summed on the way", "messages are gathered")


def sweep_curves(frame: pd.DataFrame, *, title: str = "", height: int = 0) -> go.Figure:
    """Efficiency against devices, one curve for each combination of what else the sweep varies.

    Args:
        frame: from :func:`lplab.hardware.sweep` or :func:`lplab.hardware.scaling`, over two numbers of devices or more;
            or rows of learners that meet, as their ``to_dict`` makes them.
        title: the point that it makes.
        height: in pixels; by default enough for the names.

    Raises:
        ValueError: a table without at least two numbers of devices.

    >>> from lplab.hardware import sweep
    >>> frame = sweep("resnet50", devices=[1, 8, 64], compressor=["none", "topk", "scalecom"])
    >>> [trace.name for trace in sweep_curves(frame).data[:3]]
    ['none', 'topk', 'scalecom']
    """
    if frame["devices"].nunique() < 2:
        raise ValueError("curves need two numbers of devices or more; sweep over devices=[1, 8, 64], say")
    axes = [column for column in frame.columns if _varies(frame, column)]
    groups = frame.groupby(axes, sort=False, dropna=False) if axes else [((), frame)]
    curves = []
    for key, part in groups:
        part = part.sort_values("devices")
        name = ", ".join(_text(axis, value) for axis, value in zip(axes, key, strict=True)) or "this design"
        trace_style = _family(str(part["compressor"].iloc[0])) if len(groups) > len(style.SERIES_BESIDE_GREEN) else None
        curves.append(ScalingCurve(name, part["devices"], part["efficiency"], trace_style))
    many = len(curves) > len(style.SERIES_BESIDE_GREEN)
    return scaling(
        curves,
        families=FAMILIES if many else (),
        title=title or f"Efficiency against devices, {frame['workload'].iloc[0]} (modelled)",
        height=height or (max(320, 130 + 19 * len(curves)) if many else 320),
    )


def _varies(frame: pd.DataFrame, column: str) -> bool:
    own = column in ("latency_seconds", "measured_seconds", "bucket_bytes")  # axes that end like results
    return (own or not column.endswith(RESULTS)) and frame[column].nunique(dropna=False) > 1


def _text(axis: str, value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{axis.replace('_', ' ')} {value:g}"


def _family(compressor: str) -> int:
    """Which of :data:`FAMILIES`: what its plan asks for."""
    from lplab.hardware.precisions import get as precision
    from lplab.hardware.traffic import compressor_of, traffic
    from lplab.hardware.workloads import get as workload

    made = compressor_of(compressor)
    if made is None:
        return 0
    result = traffic(workload("resnet50"), precision("fp32"), made)
    return 2 if "all_gather" in result.kinds else 1 if result.compressed else 0
