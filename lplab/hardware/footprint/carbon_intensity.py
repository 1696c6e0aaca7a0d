"""Carbon per kilowatt hour: by place, with the year and the source, or by a mix of fuels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lplab.checks import check_at_least, check_fields, check_number
from lplab.hardware.csv_tables import number, read
from lplab.hardware.network.links import Floats
from lplab.lookup import lookup

_COLUMNS = ("region", "label", "grams_per_kwh", "year", "source", "grade")
FUELS = {  # g CO2e per kWh over the life of a plant, from CodeCarbon's table
    "coal": 995.0,
    "oil": 816.0,
    "gas": 743.0,
    "geothermal": 38.0,
    "hydro": 26.0,
    "nuclear": 29.0,
    "solar": 48.0,
    "wind": 26.0,
}


@dataclass(frozen=True)
class Region:
    """A place with its electricity.

    Attributes:
        name, label: for code and for people.
        grams_per_kwh: g CO2e per kWh, mean over ``year``.
        year, source, grade: without them such a number says little; two sources differ by up to five times.
        codes: of a country by ISO 3166, of two and three letters.

    >>> region("france").kilograms_per_kwh
    0.056
    """

    name: str
    label: str
    grams_per_kwh: float
    year: int
    source: str
    grade: str
    codes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_at_least(0, **check_fields(self, "grams_per_kwh"))

    @property
    def kilograms_per_kwh(self) -> float:
        """The unit of most papers."""
        return self.grams_per_kwh / 1000


def load(table: str | Path) -> dict[str, Region]:
    """Regions of a file with the columns of ``data/hardware/regions.csv``, by name; ``codes`` may be left out."""
    rows = read(table, _COLUMNS)
    made = [
        Region(
            r["region"],
            r["label"],
            number(r, "grams_per_kwh"),
            int(number(r, "year")),
            r["source"],
            r["grade"],
            tuple(r.get("codes", "").split()),
        )
        for r in rows
    ]
    return {region.name: region for region in made}


@cache
def regions() -> dict[str, Region]:
    """All regions of ours by name.

    >>> {"world", "france", "poland"} <= set(regions())
    True
    """
    return load("regions")


def region(name: str | Region) -> Region:
    """The region of this name, or of this ISO code of a country; a Region as it is. ValueError if there is none.

    >>> region("DE").name, region("fra").name
    ('germany', 'france')
    >>> region("germny")
    Traceback (most recent call last):
    ...
    ValueError: there is no region 'germny'; did you mean germany?
    """
    if isinstance(name, Region):
        return name
    by_code = {code: region for region in regions().values() for code in region.codes}
    return by_code.get(str(name).strip().upper()) or lookup(regions(), name, "region")


def carbon(kwh: Floats, region: str | Region | Floats) -> Any:
    """Kilograms of CO2e for kilowatt hours of electricity.

    Args:
        kwh: drawn from the grid, that is with the PUE already in it; arrays are welcome.
        region: a name, the ISO code of a country, a `Region`, or grams per kWh.

    Raises:
        ValueError: an unknown region, or a number that is negative, not finite, or none.

    >>> carbon(433_196, 57)  # BLOOM's training
    24692.172
    >>> carbon(1000, "france"), carbon(1000, "poland")
    (56.0, 662.0)
    """
    [kwh] = check_at_least(0, kwh=kwh)
    if isinstance(region, str | Region):
        return kwh * _named(region).grams_per_kwh / 1000
    [grams] = check_at_least(0, **{"region (grams_per_kwh)": region})
    return kwh * grams / 1000


def _named(name: str | Region) -> Region:
    return region(name)


def mix(shares: Mapping[str, float]) -> float:
    """Grams of CO2e per kWh of a mix of fuels, given as shares that sum to 1.

    >>> round(mix({"coal": 0.25, "oil": 0.35, "gas": 0.26, "nuclear": 0.14}), 2)  # an example of CodeCarbon's
    731.59
    """
    check_at_least(0, **{str(fuel): check_number(str(fuel), share) for fuel, share in shares.items()})
    total = sum(shares.values())
    if abs(total - 1) > 1e-6:
        raise ValueError(f"the shares of the fuels must sum to 1, they sum to {total:g}")
    return sum(share * lookup(FUELS, fuel, "fuel") for fuel, share in shares.items())
