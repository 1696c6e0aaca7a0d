"""The output of ``lplab simulate``: a step as a few lines of text, notes on its chips, CSV, the file of a figure."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lplab.hardware.units import duration, format_si, grouped

MAGNITUDES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def per_second(operations: float) -> str:
    """Operations per second as text.

    >>> per_second(989e12), per_second(2.5e9)
    ('989 trillion operations/s', '2.5 billion operations/s')
    """
    factor, word = next((row for row in MAGNITUDES if operations >= row[0]), MAGNITUDES[-1])
    return f"{grouped(operations / factor, 3)} {word} operations/s"


def size(nbytes: float) -> str:
    """Bytes in the unit that they fill.

    >>> size(7.054e12), size(0)
    ('7.054 TB', '0 bytes')
    """
    return format_si(nbytes, "B", 4) if nbytes >= 1000 else f"{grouped(nbytes, 4)} bytes"


def peak_text(chip: Any, precision: Any, utilization: float | str, *, fall_back: bool = False) -> str:
    """The peaks that products run at, by pass.

    >>> from lplab.hardware import accelerators, precisions
    >>> peak_text(accelerators.get("h100"), precisions.get("bf16"), 0.5)
    "at the chip's bf16 rate, 989 trillion operations/s, of which it reaches 50%"
    """
    from lplab.hardware.compute import peak_ops_per_second

    forward = peak_ops_per_second(chip, precision.forward_peaks, fall_back=fall_back)
    backward = peak_ops_per_second(chip, precision.dx_peaks, fall_back=fall_back)
    rates = {name: f"{name} rate, {per_second(operations)}" for name, operations in (forward, backward)}
    share = f", of which it reaches {utilization:.0%}" if isinstance(utilization, float) else ""
    return f"at the chip's {' and '.join(rates.values())}{share}"


def fallback_note(chip: Any, precision: Any) -> str | None:
    """One sentence if the chip lacks the recipe's own rate and its products run at another one; else None.

    >>> from lplab.hardware import accelerators, precisions
    >>> fallback_note(accelerators.get("v100"), precisions.get("bf16"))
    'NVIDIA V100 SXM2 has no bf16 rate: products of the recipe BF16 run at its fp16 rate (--recipe fp16_mixed)'
    >>> fallback_note(accelerators.get("v100"), precisions.get("fp16_mixed")) is None
    True
    """
    from lplab.hardware import precisions

    wanted = precision.forward_peaks[0]
    used = next((peak for peak in precision.forward_peaks if peak in chip.peaks), wanted)
    if used == wanted:
        return None
    own = [p.name for p in precisions.PRECISIONS.values() if p.forward_peaks[0] == used and p.trains]
    hint = f" (--recipe {own[0]})" if own else ""
    return f"{chip.label} has no {wanted} rate: products of the recipe {precision.label} run at its {used} rate{hint}"


def notes(chips: Iterable[Any], recipes: Iterable[Any]) -> list[str]:
    """What the numbers do not say by themselves: another 16-bit rate, or a machine that is not the user's."""
    from lplab.hardware import local_machine

    chips = list(chips)
    lines = [fallback_note(chip, recipe) for chip in chips for recipe in recipes]
    if any(chip.name == "mine" for chip in chips) and not local_machine.measurement_path().is_file():
        lines.append("'mine' is still the machine lplab was made on: `lplab doctor --measure` makes it yours")
    return [line for line in lines if line]


def report(found: Any, compressor: str) -> str:
    """One simulated step as a few lines; ``compressor`` as it was typed."""
    d, c = found.design, found.cluster
    devices = f"{c.devices:,} × {d.chip.label}" if c.devices > 1 else d.chip.label
    waiting, transfers = (duration(s, 4) for s in (found.exposed_seconds, found.communication_seconds))
    lines = {
        "modelled step": f"{d.workload.label}, {devices}",
        "recipe": f"{d.precision.label}, batch {found.batch} on each device",
        "products": peak_text(d.chip, d.precision, d.utilization, fall_back=d.fall_back),
        "link": f"{c.link.label or c.link.name}, compressor {compressor}",
        "step": duration(found.step_seconds, 4),
        "  computing": duration(found.compute_seconds, 4),
        "  waiting": f"{waiting} of {transfers} of transfers",
        "efficiency": f"{found.efficiency:.1%} of what as many devices do that send nothing",
        "throughput": f"{grouped(found.throughput, 3)} examples/s",
        "sent": f"{size(found.sent_bytes)} by each device in a step",
        "memory": f"{size(found.memory_bytes)}{memory_line(found)}",
        **{f"  {part}": size(nbytes) for part, nbytes in found.memory.items() if nbytes},
    }
    text = "\n".join(f"{name:<16}{words}" for name, words in lines.items())
    return text if found.fits is not False else f"{does_not_fit(found)}\n{text}"


def memory_line(found: Any) -> str:
    """How much memory the chip has, behind what is needed."""
    capacity = found.design.chip.memory_bytes
    return "" if capacity is None else f" of the {size(capacity)} that each device has"


def does_not_fit(found: Any) -> str:
    """The warning above a step that no such device can run."""
    needed, capacity = (size(n) for n in (found.memory_bytes, found.design.chip.memory_bytes))
    return f"DOES NOT FIT: a device would need {needed} and has {capacity}. The times are of one with room for it."


def print_notes(lines: list[str]) -> None:
    """Print notes on stderr, so that JSON and CSV on stdout stay valid."""
    for line in lines:
        print(f"lplab simulate: {line}", file=sys.stderr)


def write_figure(figure: Any, path: Path) -> None:
    """Write the file, and say so."""
    from lplab import figures

    figures.export(figure, html_path(path))
    print_notes([f"figure written to {path} ({path.stat().st_size / 1e6:.1f} MB)"])


def html_path(path: Path) -> Path:
    """The path of a figure; ValueError unless it ends in .html."""
    if path.suffix.lower() != ".html":
        raise ValueError(f"--html writes a file that ends in .html, got {path.name!r}")
    return path


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")
