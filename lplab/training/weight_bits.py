"""What the weights of a model take in bits, with scales, zeros, and all that stays as it is."""

from __future__ import annotations

from dataclasses import dataclass

STAYS = "not rounded"


@dataclass(frozen=True)
class BitsRow:
    """What one parameter takes.

    Attributes:
        name: of the parameter; shared weights have the first of their names.
        numbers: how many it holds.
        bits: of all of it, with scales and zeros.
        how: in words.
    """

    name: str
    numbers: int
    bits: float
    how: str


@dataclass(frozen=True)
class BitsReport:
    """What the weights of a model take, with scales, zeros, and all that stays as it is.

    Attributes:
        name: of the method.
        rows: one for each parameter.

    Numbers that are not rounded count 16 bits each, though they are float32 here.
    """

    name: str
    rows: tuple[BitsRow, ...]

    @property
    def rounded(self) -> float:
        """Bits per weight of the rounded matrices alone: what papers state."""
        rows = [row for row in self.rows if row.how != STAYS]
        return sum(row.bits for row in rows) / max(sum(row.numbers for row in rows), 1)

    @property
    def whole(self) -> float:
        """Bits per weight of the whole model: what a file has."""
        return sum(row.bits for row in self.rows) / max(sum(row.numbers for row in self.rows), 1)

    @property
    def megabytes(self) -> float:
        """The size of a file with these weights, in 10^6 bytes."""
        return sum(row.bits for row in self.rows) / 8e6

    def __str__(self) -> str:
        """Two totals and a line for each kind of parameter."""
        kinds: dict[str, list[BitsRow]] = {}
        for row in self.rows:
            kinds.setdefault(row.how, []).append(row)
        lines = [
            f"{self.name}: {self.rounded:.2f} bits per rounded weight, {self.whole:.2f} of the whole model, "
            f"{self.megabytes:,.2f} MB"
        ]
        for how, rows in kinds.items():
            numbers = sum(row.numbers for row in rows)
            bits = sum(row.bits for row in rows) / numbers
            lines.append(f"  {numbers:>13,} numbers in {len(rows):>4} tensors  {bits:6.3f} bits  {how}")
        return "\n".join(lines)
