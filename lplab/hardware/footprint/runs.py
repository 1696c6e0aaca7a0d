"""Published training runs: their inputs and results as published, and the result of the formula for the same inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lplab.hardware.csv_tables import number, read
from lplab.hardware.footprint.bills import POUND, Bill, bill
from lplab.lookup import lookup

_NUMBERS = ("devices", "watts", "hours", "pue", "grams_per_kwh", "operations")
_PUBLISHED = ("published_mwh", "published_co2", "co2_unit")
_TEXTS = ("run", "label", "device", "source", "input_grade", "grade", "co2_grade")
_UNITS = {"lb": POUND, "t": 1000.0}


@dataclass(frozen=True)
class TrainingRun:
    """One row of ``data/hardware/training_runs.csv``.

    Attributes:
        name, label, year: its names, and the year of publication.
        device, devices: on what, and how many.
        watts: of one device, mean over the run.
        hours, pue, grams_per_kwh: of the run, the building, the grid.
        operations: of the whole training; 0 where not published.
        published_kwh, published_kilograms: as printed, in our units; None where not published.
        published: CO2e as it was printed, with its unit.
        source: where it is from.
        input_grade, grade, co2_grade: grades of the inputs, the published energy and the published CO2e.
    """

    name: str
    label: str
    year: int
    device: str
    devices: float
    watts: float
    hours: float
    pue: float
    grams_per_kwh: float
    operations: float
    published_kwh: float | None
    published_kilograms: float | None
    published: str
    source: str
    input_grade: str
    grade: str
    co2_grade: str

    @property
    def bill(self) -> Bill:
        """What the formula gives for the inputs.

        >>> f"{get('nas_2019').bill.pounds:,.0f}"
        '626,155'
        """
        return bill(watts=self.watts, hours=self.hours, devices=self.devices, pue=self.pue, region=self.grams_per_kwh)

    @property
    def sustained_ops_per_second(self) -> float:
        """Operations per second that a device reached; NaN where the operations are not known.

        >>> round(get("gpt3").sustained_ops_per_second / 1e12, 1)
        24.6
        """
        return self.operations / (self.devices * self.hours * 3600) if self.operations else float("nan")


@cache
def table() -> dict[str, TrainingRun]:
    """All runs by name.

    >>> list(table())[-3:]
    ['switch', 'gpt3', 'bloom']
    """
    return {row["run"]: _run(row) for row in read("training_runs", (*_TEXTS, "year", *_NUMBERS, *_PUBLISHED))}


def get(name: str) -> TrainingRun:
    """The run of this name; ValueError with the closest names if there is none.

    >>> get("gpt-3").label
    'GPT-3'
    """
    return lookup(table(), name, "training run")


def _run(row: dict[str, str]) -> TrainingRun:
    energy, co2 = row["published_mwh"], row["published_co2"]
    unit = _UNITS[row["co2_unit"]] if co2 else 0.0
    return TrainingRun(
        name=row["run"],
        **{name: row[name] for name in _TEXTS[1:]},  # type: ignore[arg-type]
        year=int(number(row, "year")),
        **{name: number(row, name) for name in _NUMBERS},  # type: ignore[arg-type]
        published_kwh=number(row, "published_mwh") * 1000 if energy else None,
        published_kilograms=number(row, "published_co2") * unit if co2 else None,
        published=f"{number(row, 'published_co2'):,g} {row['co2_unit']}" if co2 else "",
    )
