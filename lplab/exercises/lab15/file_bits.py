"""Exercise 15.5: what a weight takes in a file, with scales, zeros and all that stays as it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lplab.exercises.checks.close import TOLERANCE
from lplab.exercises.model.exercise import Args, Example, Exercise, Finding, Property, mistake
from lplab.exercises.model.forms import Numbers
from lplab.exercises.student_figures import read_results, student_figure
from lplab.quantizers import bits_per_weight


def file_bits(tensors, bits, group, scale_bits, zero_bits):
    """Bits per weight of the rounded matrices alone and of the whole file; tensors are (rows, columns, is_rounded)."""
    own = weights = stays = 0
    for rows, columns, is_rounded in tensors:
        if is_rounded:
            groups = rows * math.ceil(columns / group)
            own += rows * columns * bits + groups * (scale_bits + zero_bits)
            weights += rows * columns
        else:
            stays += rows * columns
    return own / weights, (own + 16 * stays) / (weights + stays)


GROUPS, OWN = "rows * math.ceil(columns / group)", "rows * columns * bits + groups * (scale_bits + zero_bits)"
RESULT = "own / weights, (own + 16 * stays) / (weights + stays)"
Tensors = tuple[tuple[int, int, bool], ...]
KINDS = ((4, 128, 16, 4), (3, 32, 16, 3), (2, 64, 16, 0), (8, 32, 16, 0), (4, 7, 32, 4))


def cases() -> list[Args]:
    """One matrix and several, with and without tensors that stay, groups that divide a row and others, one row."""
    files: tuple[Tensors, ...] = (
        ((64, 256, True),),
        ((64, 256, True), (256, 64, True)),
        ((10, 100, True), (3, 7, True), (1, 100, False)),
        ((1, 5, True),),
        ((50, 64, False), (64, 64, True), (1, 64, False), (64, 192, True)),
        ((200, 32, False), (4, 130, True)),
    )
    return [(tensors, *kind) for tensors in files for kind in KINDS]


def whole_groups() -> list[Args]:
    """Matrices whose rows are whole groups, as those of language models."""
    return [(SMOLLM2, bits, group, 16, zero) for bits in (2, 3, 4) for group in (32, 64) for zero in (0, bits)]


def is_the_librarys(calls: Sequence[Args], results: Sequence[Any]) -> Finding | None:
    """Whether rounded matrices take what ``bits_per_weight`` says, and the file as much as its parts."""
    for args, (rounded, whole) in zip(calls, results, strict=True):
        tensors, *kind = args
        expected = bits_per_weight(*kind)
        counts = {rounds: sum(rows * columns for rows, columns, is_rounded in tensors if is_rounded == rounds) for rounds in (True, False)}
        in_all = (expected * counts[True] + 16 * counts[False]) / sum(counts.values())
        for what, yours, right in (("rounded matrices", rounded, expected), ("whole file", whole, in_all)):
            if not abs(float(yours) - right) <= TOLERANCE * right:
                return Finding(f"The library counts {right:.8g} bits per weight for the {what}, yours {float(yours):.8g}.", args, (rounded, whole))
    return None


def show(args: Args) -> str:
    """The arguments in the order of the call, with few tensors in full."""
    tensors, bits, group, scale, zero = args
    told = ", ".join(f"({rows}, {columns}, {is_rounded})" for rows, columns, is_rounded in tensors) if len(tensors) < 5 else f"{len(tensors)} tensors"
    return f"tensors = [{told}], bits = {bits}, group = {group}, scale_bits = {scale}, zero_bits = {zero}"


def why(args: Args, expected: Any) -> str:
    """How many groups there are, and how many numbers stay."""
    tensors, _, group, scale, zero = args
    groups = sum(rows * math.ceil(columns / group) for rows, columns, is_rounded in tensors if is_rounded)
    stays = sum(rows * columns for rows, columns, is_rounded in tensors if not is_rounded)
    rest = f" {stays:,} numbers stay in 16 bits." if stays else ""
    return f"{groups:,} groups store {scale + zero} bits each, beside the bits of their weights.{rest}"


# SmolLM2-135M: the embedding, which is the head, too, and the seven matrices and two norms of each of its 30 blocks.
BLOCK: Tensors = ((576, 576, True), (192, 576, True), (192, 576, True), (576, 576, True), (1536, 576, True), (1536, 576, True), (576, 1536, True), (1, 576, False), (1, 576, False))
SMOLLM2: Tensors = ((49152, 576, False), *30 * BLOCK, (1, 576, False))

FILE_BITS = Exercise(
    id="15.5",
    version=1,
    title="The bits of a file",
    goal="Goal 4: count the bits of a file",
    minutes=10,
    difficulty=1,
    statement=r"""
        A model is a list `tensors` of triples `(rows, columns, is_rounded)`. In a rounded matrix, each weight has `bits`. In each row, `group` neighbours share a scale of `scale_bits` and a zero of `zero_bits`. Where a group does not divide a row, the last group of the row is smaller. It stores a scale and a zero, too. What is not rounded has 16 bits a number.

        Write `file_bits(tensors, bits, group, scale_bits, zero_bits)` that returns two numbers:

        1. the bits per weight of the rounded matrices alone, which papers state;
        2. the bits per number of the whole file.
    """,
    reference=file_bits,
    form=Numbers(count=2),
    tolerance=TOLERANCE,
    show=show,
    why=why,
    examples=(
        Example((((8, 128, True),), 4, 128, 16, 4), "A group of 128 shares 16 + 4 bits, which are 0.15625 for each weight. The file has nothing else."),
        Example((((8, 128, True),), 3, 32, 16, 4), "3 bits in groups of 32: with 20 bits a group, a weight takes 3.625 bits."),
        Example((((8, 128, True),), 2, 64, 16, 0), "A grid around zero stores no zero."),
        Example((((8, 128, True), (2, 128, False)), 4, 128, 16, 0), "256 of 1,280 numbers stay in 16 bits, so the file has (1,024 · 4.125 + 256 · 16) / 1,280 = 6.5 bits."),
        Example((((4, 40, True),), 4, 32, 16, 0), "A row of 40 is a group of 32 and one of 8, so it stores two scales."),
        Example((((1, 8, True),), 4, 32, 16, 0), "A row that is shorter than a group still has a scale, which is 2 bits for each of its 8 weights."),
        Example((((1, 64, True), (3, 16, True)), 4, 64, 16, 0), "Two matrices: 4 scales for 112 weights. The larger matrix counts more."),
    ),
    boundary=cases,
    properties=(Property("the matrices of a language model take what the library counts", whole_groups, is_the_librarys),),
    mistakes=(
        mistake("scales and zeros are not counted", OWN, "rows * columns * bits"),
        mistake("the zeros are not counted", "groups * (scale_bits + zero_bits)", "groups * scale_bits"),
        mistake("every weight has a scale and a zero", OWN, "rows * columns * (bits + scale_bits + zero_bits)"),
        mistake("one scale for each row", GROUPS, "rows"),
        mistake("one scale for each matrix", GROUPS, "1"),
        mistake("smaller groups at the end of a row store no scale", GROUPS, "rows * (columns // group)"),
        mistake("a part of a group costs a part of a scale", GROUPS, "rows * columns / group"),
        mistake("groups go on from one row into the next", GROUPS, "math.ceil(rows * columns / group)"),
        mistake("groups lie down the columns", GROUPS, "columns * math.ceil(rows / group)"),
        mistake("groups go on from one matrix into the next", OWN, "rows * columns * bits", RESULT, "(own := own + math.ceil(weights / group) * (scale_bits + zero_bits)) / weights, (own + 16 * stays) / (weights + stays)"),
        mistake("smaller groups are filled up with weights, which are stored, too", OWN, "groups * (group * bits + scale_bits + zero_bits)"),
        mistake("what is not rounded is left out of the file", RESULT, "own / weights, own / weights"),
        mistake("what is not rounded costs nothing, but is counted as numbers of the file", RESULT, "own / weights, own / (weights + stays)"),
        mistake("what is not rounded is counted in 32 bits", "16 * stays", "32 * stays"),
        mistake("all tensors are counted as rounded", "if is_rounded", "if True"),
        mistake("the file's bits are divided by the rounded weights alone", "(weights + stays)", "weights"),
        mistake("the whole file is given first", RESULT, "(own + 16 * stays) / (weights + stays), own / weights"),
        mistake("bits of all weights together, not of one", RESULT, "own, own + 16 * stays"),
        mistake("each tensor counts the same, whatever its size", "own += rows * columns * bits + groups * (scale_bits + zero_bits)\n            weights += rows * columns", "own += bits + groups * (scale_bits + zero_bits) / (rows * columns)\n            weights += 1", "stays += rows * columns", "stays += 1"),
        mistake("bytes per weight, not bits", RESULT, "own / weights / 8, (own + 16 * stays) / (weights + stays) / 8"),
    ),
    hints=(
        "Take 4 rows of 40 weights in 4 bits, in groups of 32. Each row has two groups, so there are 8 scales of 16 bits for 160 weights, 0.8 bits for each of them.",
        "Count all bits first, and divide once at the end. In Python, math.ceil(columns / group) is the number of groups in a row, with the smaller one at its end.",
        "Three sums are enough, over the list: the bits of the rounded matrices, the number of their weights, and the number of all that stays. Which of them does each of the two results need, above the line and below it?",
    ),
)


# ---- a language model's file -----------------------------------------------------------------------------------------

SIZES = (16, 32, 64, 96, 192)  # of a group; they divide 576 and 1,536
CURVES = {"4 bits, whole file": (4, 1), "4 bits, matrices alone": (4, 0), "3 bits, matrices alone": (3, 0)}


@student_figure("Here the bits per weight of a language model's file, as your {name} counts them, will be drawn")
def draw_file_bits(function: Callable[..., Any]) -> Any:
    """A live figure of the bits per weight of SmolLM2 in 4 and 3 bits against the size of a group, with scales of 16 bits.

    Args:
        function: takes tensors, bits, group and the bits of scales and zeros; returns two numbers.
    """
    from lplab import figures

    calls = [(SMOLLM2, bits, size, 16, bits) for bits, _ in CURVES.values() for size in SIZES]
    pairs = iter(read_results(function, calls, FILE_BITS.form, two_numbers))
    return figures.compared_curves(
        list(map(str, SIZES)),
        library_bits(),
        {name: np.array([next(pairs)[place] for _ in SIZES]) for name, (_, place) in CURVES.items()},
        what="bits per weight",
        name="SmolLM2",
        along="weights that share a scale and a zero",
    )


def two_numbers(result: Any) -> tuple[float, float]:
    """The two numbers of a result; ValueError if there are not two."""
    rounded, whole = result
    return float(rounded), float(whole)


def library_bits() -> dict[str, np.ndarray]:
    """What the library counts: float64 [sizes], by the names of the curves."""
    stays, rounded = (sum(rows * columns for rows, columns, is_rounded in SMOLLM2 if is_rounded == which) for which in (False, True))
    found = {}
    for name, (bits, whole) in CURVES.items():
        alone = np.array([bits_per_weight(bits, size, zero_bits=bits) for size in SIZES])
        found[name] = (alone * rounded + 16 * stays) / (rounded + stays) if whole else alone
    return found
