"""Exercise 16.3: the bits of a sparse message, and the fewest bits that its positions could take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.compression import SparseLoCo
from lplab.compression.square_chunks import ChunkGrid
from lplab.exercises.checks.close import TOLERANCE
from lplab.exercises.checks.numbers import count_text
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake, wrong
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import read_results, student_figure


def message_bits(n, k, chunk, value_bits, plain_bits):
    """Bits of a message, the positions' share, fewest bits for the positions, times shorter than n plain numbers."""
    width = (chunk - 1).bit_length()
    positions, values, least = 0, 0, 0.0
    for first in range(0, n, chunk):
        size = min(chunk, n - first)
        sent = min(k, size)
        positions += sent * width
        values += sent * value_bits
        least += math.log2(math.comb(size, sent))
    message = positions + values
    return message, positions / message, least, n * plain_bits / message


WIDTH, CHUNKS, SIZE, SENT = "(chunk - 1).bit_length()", "range(0, n, chunk)", "min(chunk, n - first)", "min(k, size)"
POSITIONS, VALUES, LEAST = "sent * width", "sent * value_bits", "math.log2(math.comb(size, sent))"
MESSAGE, RESULT = "message = positions + values", "message, positions / message, least, n * plain_bits / message"


def cases() -> list[Args]:
    """Whole chunks and a shorter last one, also one with fewer than k elements; chunks of any size; one and all sent."""
    sizes = ((16, 2, 16), (32, 3, 8), (100, 5, 32), (33, 4, 32), (70, 8, 64), (10, 4, 100), (60, 7, 20), (45, 3, 9), (16, 16, 16), (12, 1, 4), (24, 8, 8), (5000, 64, 4096), (130, 1, 128))
    return [(*size, *bits) for size in sizes for bits in ((2, 32), (8, 16))]


LAYERS = ((64, 64), (128, 192), (1024, 1024))


def layers() -> list[Args]:
    """Matrices that are whole chunks of 64 × 64."""
    return [(rows * columns, k, 4096, bits, 32) for rows, columns in LAYERS for k, bits in ((64, 2), (32, 8))]


def is_the_librarys(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether a message is as long as SparseLoCo's, which has the table of its values, too."""
    shapes = [shape for shape in LAYERS for _ in range(2)]
    for args, shape, result in zip(calls, shapes, results, strict=True):
        _, k, chunk, bits, _ = args
        (message,) = SparseLoCo(chunk=chunk, k=k, bits=bits).plan(shape)
        expected = 8 * message.payload_bytes - 32 * 2**bits
        if float(result[0]) != expected:
            size = f"{shape[0]:,} × {shape[1]:,}"
            return Finding(f"For a matrix of {size} the library sends {count_text(expected)} bits beside its table of values, yours counts {float(result[0]):,.8g}.", args, result)
    return None


def show(args: Args) -> str:
    """The arguments in the order of the call."""
    return ", ".join(f"{name} = {value:,}" for name, value in zip(("n", "k", "chunk", "value_bits", "plain_bits"), args, strict=True))


def why(args: Args, expected: Any) -> str:
    """How many elements are sent, and of which chunks."""
    n, k, chunk, _, _ = args
    whole, rest = divmod(n, chunk)
    each = [f"{whole} chunk{'s' * (whole != 1)} of {chunk:,} send{'s' * (whole == 1)} {min(k, chunk):,} elements" + " each" * (whole != 1)] * (whole > 0)
    last = [f"the last one of {rest:,} sends {min(k, rest):,}"] * (rest > 0)
    text = ", and ".join([*each, *last])
    return f"{text[0].upper()}{text[1:]}."


MESSAGE_BITS = Exercise(
    id="16.3",
    version=1,
    title="The bits of a message",
    goal="Goal 3: count the bits of a message",
    minutes=10,
    difficulty=2,
    statement=r"""
        A layer of `n` elements is cut into chunks of `chunk`; the last one may be shorter. Each chunk sends `k` elements, or all if it has fewer. Each element that is sent has a value of `value_bits` bits and its position in the chunk, from 0. All positions have the same whole number of bits, just enough for a whole chunk. Write `message_bits(n, k, chunk, value_bits, plain_bits)` that returns four numbers:

        1. the bits of the message;
        2. the share of them that positions take, from 0 to 1;
        3. the fewest bits in which **any** code could tell the positions. To tell apart N equally likely cases takes $\log_2 N$ bits, not always a whole number. `math.comb(m, j)` counts the ways to choose j of m;
        4. how many times shorter the message is than n numbers of `plain_bits` bits.
    """,
    reference=message_bits,
    form=Numbers(count=4),
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((4, 1, 4, 2, 32), "One element of four: a position of 2 bits and a value of 2 bits, against 128 bits. Four ways to choose one are 2 bits, too."),
        Example((8, 2, 8, 1, 16), "Two of eight: 2 · (3 + 1) bits. There are 28 ways to choose them, which 4.8 bits could tell, because their order says nothing."),
        Example((16, 1, 8, 1, 16), "Two chunks that send one element each. Each has 8 ways to choose it, so 3 bits for each chunk are the fewest, too."),
        Example((4096, 64, 4096, 2, 32), "SparseLoCo's chunk: 64 · (12 + 2) = 896 bits, 146.3 times shorter than 4,096 numbers of 32 bits. Nearly 86 % of them are positions, for which 471 bits would do."),
        Example((4096, 64, 4096, 2, 16), "The same message against numbers of 16 bits: 73.1 times."),
        Example((10, 2, 8, 2, 32), "The last chunk has two elements, and sends both. There is one way to choose 2 of 2, which takes 0 bits. The message has positions of 3 bits all the same."),
        Example((9, 2, 8, 2, 32), "The last chunk has a single element, which is fewer than k: three elements are sent in all."),
        Example((100, 3, 100, 2, 32), "Positions go up to 99, so they have 7 bits."),
    ),
    boundary=cases,
    properties=(Property("a message is as long as SparseLoCo's of the library", layers, is_the_librarys),),
    mistakes=(
        mistake("positions cost nothing: only values are counted", MESSAGE, "message = values"),
        mistake("positions count through the whole layer, not through the chunk", WIDTH, "(n - 1).bit_length()"),
        mistake("positions are counted in 32 bits", WIDTH, "32"),
        mistake("one bit for each element of the chunk, a mask, instead of positions", POSITIONS, "size"),
        mistake("a bit too many where chunk is a power of two", WIDTH, "chunk.bit_length()"),
        mistake("a part of a bit: log₂ of the chunk is not rounded up", WIDTH, "math.log2(chunk)"),
        mistake("log₂ of the chunk is rounded down, so that the last positions cannot be told", WIDTH, "int(math.log2(chunk))"),
        mistake("the last, shorter chunk is left out", CHUNKS, "range(0, n - chunk + 1, chunk)", MESSAGE, "message = positions + values or 1"),
        mistake("the last chunk is counted as a whole one", SIZE, "chunk"),
        wrong("n / chunk chunks: a shorter one is counted as a part of a chunk", """
            def message_bits(n, k, chunk, value_bits, plain_bits):
                chunks, sent, width = n / chunk, min(k, chunk), (chunk - 1).bit_length()
                message = chunks * sent * (width + value_bits)
                return message, width / (width + value_bits), chunks * math.log2(math.comb(chunk, sent)), n * plain_bits / message
        """),
        mistake("k elements of each chunk are sent, even where there are fewer", SENT, "k", LEAST, "math.log2(math.comb(size, min(k, size)))"),
        mistake("the fewest bits count the order of the positions, too", LEAST, "math.log2(math.perm(size, sent))"),
        mistake("the fewest bits are log₂ of the chunk's size for each position", LEAST, "sent * math.log2(size)"),
        mistake("the fewest bits are those of an entropy with shares k / chunk, which is a little too much", LEAST, "-sum(p * math.log2(p) * size for p in (sent / size, 1 - sent / size) if p)"),
        mistake("natural logarithms instead of base 2", LEAST, "math.log(math.comb(size, sent))"),
        mistake("the fewest bits are rounded up for each chunk", LEAST, "math.ceil(math.log2(math.comb(size, sent)))"),
        mistake("the fewest bits choose from the whole layer, not from each chunk", MESSAGE, "least = math.log2(math.comb(n, positions // width))\n    message = positions + values"),
        mistake("the share is in percent", "positions / message", "100 * positions / message"),
        mistake("the share is positions against values, not against the message", "positions / message", "positions / values"),
        mistake("shorter than the elements that are sent, not than all n", "n * plain_bits / message", "positions // width * plain_bits / message"),
    ),
    hints=(
        "Take 10 elements in chunks of 8, k = 2 and values of 2 bits. Each chunk sends 2 elements. A position from 0 to 7 has 3 bits, so an element has 5 bits, and the message has 20. The first chunk has 28 choices.",
        "Go through the chunks one by one: how many elements has this one, and how many of them are sent? In Python, (7).bit_length() is 3. The choices of one chunk do not depend on the others, so their bits add up.",
        "Keep three sums over the chunks: bits of positions, bits of values, and the logarithm of the number of choices. The message is two of them. Which of the four results needs n, and where does n stand, above the line or below it?",
    ),
)  # fmt: skip


# ---- which share of a chunk to send ----------------------------------------------------------------------------------

KS = (8, 16, 32, 64, 128, 256, 512)
CHUNK = 4096
CURVES = ("the message", "its positions", "fewest bits for the positions")


@student_figure("Here the bits of a chunk's message, as your {name} counts them, will be drawn")
def draw_message_bits(function: Callable[..., Any]) -> Any:
    """A live figure of the bits of a chunk of 4,096 elements against how many are sent, an element, with values of two bits.

    Args:
        function: takes n, k, chunk and the bits of values and plain numbers; returns four numbers.
    """
    from lplab import figures

    calls = [(CHUNK, k, CHUNK, 2, 32) for k in KS]
    found = read_results(function, calls, MESSAGE_BITS.form, three_numbers)
    return figures.compared_curves(
        list(map(str, KS)),
        an_element([library_bits(k) for k in KS]),
        an_element(found),
        what="bits for each element that is sent",
        name="A chunk of 4,096 elements",
        along="elements that are sent",
    )


def three_numbers(result: Any) -> tuple[float, float, float]:
    """The bits of a message, of its positions, and the fewest bits for them; ValueError if there are not four numbers."""
    bits, share, least, _ = result
    return float(bits), float(bits) * float(share), float(least)


def library_bits(k: int) -> tuple[float, float, float]:
    """What the library's message about a chunk has, without the table of four values, and the fewest bits for its positions."""
    side = math.isqrt(CHUNK)
    (message,) = SparseLoCo(chunk=CHUNK, k=k).plan((side, side))
    grid = ChunkGrid.of((side, side), side, k)
    return 8.0 * message.payload_bytes - 4 * 32, float(grid.sent * grid.position_bits), math.log2(math.comb(CHUNK, k))


def an_element(found: Sequence[tuple[float, float, float]]) -> dict[str, np.ndarray]:
    """Bits for each element that is sent, by the names of the curves: float64 [KS]."""
    return dict(zip(CURVES, np.array(found).T / KS, strict=True))
