"""Exercise 09.3: AdaComp's message, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lplab.compression.wire import adacomp_wire
from lplab.exercises.checks.numbers import count_text, decimal
from lplab.exercises.lab09.residual import rows
from lplab.exercises.lab09.selection import numbers
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers


def scale_bytes(scale):
    """The four bytes of a scale: float32, the lowest byte first."""
    return list(np.array([scale], "<f4").tobytes())


def pack(symbols, scale, bin):
    """The message of one layer as whole numbers from 0 to 255: the scale, then a code for each symbol that is not 0."""
    width, nothing = (1, 254) if bin <= 63 else (2, 65534)
    codes = []
    for start in range(0, len(symbols), bin):
        part = symbols[start : start + bin]
        places = [j for j in range(len(part)) if part[j] != 0]
        for j in places:
            codes.append(4 * j + 2 * (j == places[-1]) + (part[j] < 0))
        if not places:
            codes.append(nothing)
    return scale_bytes(scale) + [int(code) >> 8 * k & 255 for code in codes for k in range(width)]


WIDTH, NOTHING = "(1, 254) if bin <= 63 else (2, 65534)", "        if not places:\n            codes.append(nothing)\n"
CODE, LAST = "4 * j + 2 * (j == places[-1]) + (part[j] < 0)", "2 * (j == places[-1])"
BYTES, BINS = "for k in range(width)]", "range(0, len(symbols), bin)"


def layer(seed: int, size: int, density: float) -> np.ndarray:
    """Symbols of a layer."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(size) < density, rng.choice([-1.0, 1.0], size), 0.0)


def cases() -> list[Args]:
    """Bins around 63, short last bins, empty bins at every place, full bins, positions beyond one byte."""
    sizes = ((1, 1), (6, 2), (7, 3), (63, 63), (64, 64), (130, 63), (130, 64), (200, 50), (700, 500), (900, 300))
    each = [(layer(seed, size, d), 0.5, bin) for seed, (size, bin) in enumerate(sizes) for d in (0.05, 0.3)]
    ends = np.zeros(600)
    ends[[0, 299, 300, 599]] = 1, -1, -1, 1
    full, none = np.ones(12), np.zeros(12)
    return [*each, (ends, 3.25, 300), (full, 1.0, 5), (-full, 1.0, 64), (none, 0.0, 5), (none, 0.0, 100)]


def many() -> list[Args]:
    """Whole layers."""
    return [(layer(seed, 3000, d), 2.0**-seed, bin) for seed, (bin, d) in enumerate(((50, 0.1), (500, 0.01), (3000, 0.5)))]


def can_be_read(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether the library's decoder finds every symbol in the message, and its length is what the library plans."""
    for args, yours in zip(calls, results, strict=True):
        symbols, scale, bin = args
        problem = unreadable(symbols, scale, bin, yours)
        if problem:
            text = f"The message of {count_text(symbols.size)} symbols in bins of {bin:,} ({len(yours):,} bytes)"
            return Finding(f"{text} {problem}.", args, len(yours))
    return None


def unreadable(symbols: np.ndarray, scale: float, bin: int, message: Sequence[float]) -> str:
    """What is wrong with a message, or "".

    >>> unreadable(np.array([0.0, 1.0]), 0.5, 2, [0, 0, 0, 63, 6])
    ''
    """
    values = np.asarray(message, np.float64)
    if not ((values >= 0) & (values <= 255) & (values == np.floor(values))).all():
        return "holds numbers that are no bytes"
    try:
        found = adacomp_wire.decode(values.astype(np.uint8), symbols.size, bin)
    except ValueError as error:
        return f"cannot be read: {error}"
    read = np.zeros(symbols.size)
    read[found.indices] = found.values()
    return "" if np.array_equal(read, scale * symbols) else "is read as other symbols"


def show(args: Args) -> str:
    """Short layers in full."""
    symbols, scale, bin = args
    short = len(symbols) <= 12
    what = f"symbols = {rows(symbols)}" if short else f"{count_text(len(symbols))} symbols, {np.count_nonzero(symbols)} not 0"
    return f"{what}, scale = {decimal(scale)}, bin = {bin}"


def why(args: Args, expected: Any) -> str:
    """How long the message must be."""
    symbols, _, bin = args
    sent = np.add.reduceat(np.asarray(symbols) != 0, np.arange(0, len(symbols), bin), dtype=int)
    width = 1 if bin <= 63 else 2
    codes = f"{sent.sum()} codes for symbols and {(sent == 0).sum()} for empty bins, {width} byte{'s' * (width > 1)} each"
    return f"4 bytes of scale, {codes}: {len(expected)} bytes."


PACK = Exercise(
    id="09.3",
    version=1,
    title="Bytes on the wire",
    goal="Goal 3: count every byte that must be sent",
    minutes=20,
    difficulty=3,
    statement=r"""
        Write `pack(symbols, scale, bin)`: the message of one layer as a list of whole numbers from 0 to 255. First the four bytes of the scale (`scale_bytes` makes them). Then, bin by bin, a **code** for each symbol that is not 0: its position **inside the bin**, from 0, times 4; plus 2 if it is the last one of its bin; plus 1 if it is negative. A bin without symbols has one code, with all bits set but the lowest:
        254, or 65534. Codes are one byte if `bin` is at most 63, else two bytes, the lower one first. So the receiver can tell where a bin ends, and needs no counts.
    """,
    provided=(scale_bytes,),
    reference=pack,
    form=Numbers(),
    show=show,
    why=why,
    examples=(
        Example((numbers(0, 1), 0.5, 2), "0, 0, 0, 63 is 0.5 as float32. Then 6: position 1, the last of its bin, positive."),
        Example((numbers(-1, 1, 0), 1.0, 3), "1: position 0, another one follows, negative. 6: position 1, last, positive."),
        Example((numbers(0, 1, 0, -1), 1.0, 2), "Positions begin anew in every bin: 6 and 7."),
        Example((numbers(0, 0, 0, -1), 1.0, 2), "The first bin sends nothing: 254. Else the receiver would take the second for the first."),
        Example((numbers(0, 0, 0, 0, 1), 0.25, 2), "Two empty bins, and a last one of one element: 254, 254, 2."),
        Example((numbers(1, 0, -1), 2.0, 64), "From 64 elements a bin two bytes a code, the lower one first: 0, 0 and 11, 0."),
        Example((np.where(np.arange(100) == 70, 1.0, 0.0), 1.0, 100), "Position 70: the code is 282, in bytes 26 and 1."),
        Example((np.zeros(64), 0.0, 64), "Nothing at all: 65534, in bytes 254 and 255."),
    ),
    boundary=cases,
    properties=(Property("the library reads the message as it was meant", many, can_be_read),),
    mistakes=(
        mistake("the scale is left out", "return scale_bytes(scale) + ", "return "),
        mistake("the position is that in the layer, not in the bin", CODE, "4 * (start + j) + 2 * (j == places[-1]) + (part[j] < 0)"),
        mistake("positions begin at 1", CODE, "4 * (j + 1) + 2 * (j == places[-1]) + (part[j] < 0)"),
        mistake("bins are not ended: the receiver cannot know where one stops", LAST, "0"),
        mistake("only the last code of the message says last", LAST, "2 * (j == places[-1] and start + bin >= len(symbols))"),
        mistake("first is marked instead of last", LAST, "2 * (j == places[0])"),
        mistake("an empty bin costs nothing: the receiver then takes the next bin for it", NOTHING, ""),
        mistake("an empty bin is a code 0, which is a symbol, too", "codes.append(nothing)", "codes.append(0)"),
        mistake("an empty bin has all bits set", "codes.append(nothing)", "codes.append(nothing + 1)"),
        mistake("the empty code is one byte in bins of two bytes, too", "(2, 65534)", "(2, 254)"),
        mistake("positive is marked, not negative", "(part[j] < 0)", "(part[j] > 0)"),
        mistake("the sign is lost", " + (part[j] < 0)", ""),
        mistake("sign and last are exchanged", CODE, "4 * j + (j == places[-1]) + 2 * (part[j] < 0)"),
        mistake("every element has a code, those that are 0, too", "for j in places:", "for j in range(len(part)) if places else ():"),
        mistake("one byte is always enough", WIDTH, "(1, 254)"),
        mistake("two bytes always: small bins pay as much as large ones", WIDTH, "(2, 65534)"),
        mistake("bins of 63 take two bytes", "bin <= 63", "bin < 63"),
        mistake("bins of 64 fit into one byte: then position 63 looks like an empty bin", "bin <= 63", "bin <= 64"),
        mistake("the higher byte first", BYTES, "for k in reversed(range(width))]"),
        mistake("the last, shorter bin is left out", BINS, "range(0, len(symbols) - bin + 1, bin)"),
    ),
    hints=(
        "Pack 0, 0, 0, −1 in bins of 2 on paper: four bytes of scale, 254 for the empty bin, then position 1 · 4 + 2 (last) + 1 (negative) = 7.",
        "Two loops: over the starts of the bins, and over the positions in the bin whose symbol is not 0; the last of these positions gets the mark. Two bytes of a code: code % 256 and code // 256.",
        "Which position has the mark? The last one of its bin that is not 0, not the last position of the bin; so collect the positions of a bin before you write their codes. Is the message one list, with the scale at its beginning once? How many bytes has each code, the one for an empty bin too?",
    ),
)
