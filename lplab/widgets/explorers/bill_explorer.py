"""The bill of a training, live: energy of a step by part, and carbon by place and precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

from lplab import figures
from lplab.hardware import footprint
from lplab.hardware.footprint import Bill, Energy, Job, runs
from lplab.hardware.units import format_si, grouped, mass, money
from lplab.number_text import percent
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Choice, ExplorerState, Slider, Steps, control

CLASSIC = {"16 bits": "fp16_mixed", "8 bits": "hfp8_2019", "4 bits": "int4_fp4_2020"}
_EIGHT = {"FP8 tiles": "deepseek_2024", "MXFP8": "mxfp8_2025"}
_FOUR = {"MXFP4 backward": "mxfp4_2025", "Quartet": "quartet_2025", "NVFP4": "nvfp4_2025"}
PRECISIONS = {**CLASSIC, **_EIGHT, **_FOUR}
LABELLED = {name: name for name in CLASSIC} | {  # where the course explains the others
    f"{name} (lab {lab})": name for lab, names in ((13, _EIGHT), (14, _FOUR)) for name in names
}
# in the figures, by a recipe since 2024 that was chosen
REPLACED = dict.fromkeys(_EIGHT, "8 bits") | dict.fromkeys(_FOUR, "4 bits")
_IMAGES, _SEQUENCES = 90 * 1_281_167, 300e9 / 2048  # 90 epochs of ImageNet; GPT-3's 300 billion tokens
JOBS: dict[str, Job] = {
    "ResNet-50, 64 chips": Job("resnet50", "systolic", 64, 32, _IMAGES, utilization=0.6, host_watts=15),
    "ResNet-50, 256 V100": Job("resnet50", "v100", 256, 32, _IMAGES, utilization=0.4, host_watts=75),
    "GPT-3, 10,000 V100": Job("gpt3", "v100", 10_000, 1, _SEQUENCES, utilization=0.2, host_watts=75),
    "GPT-3, 1,024 H100": Job("gpt3", "h100", 1024, 16, _SEQUENCES, utilization=0.4, host_watts=150),
}
OWN_WAITING = {"ResNet-50, 64 chips": 0.56}  # ScaleCom's figure for this chip and batch; the others: 0
PUBLISHED = {"GPT-3, 10,000 V100": ("gpt3_site", "gpt3")}  # the place, and the run of the table
PLACES = ("iceland", "france", "brazil", "uk", "usa", "germany", "china", "poland", "india")
COMPRESSIONS = (1, 2, 4, 10, 40, 100, 400)
PUES = (1.0, 2.2)
PRICES = (0.02, 0.5)
WAITING = (0.0, 0.8)
WAITING_SLIDER = Slider(
    "waiting, plain", *WAITING, step=0.04, readout_format=".0%", unit="of the time",
    tooltip="share of a plain step, 16 bits without compression, that waits for the network",
)  # fmt: skip

_USA: dict[str, Any] = {"place": "usa", "pue": 1.1}
_ARRAYS: dict[str, Any] = {"job": "ResNet-50, 64 chips", "waiting": 0.56, **_USA}
PRESETS: dict[str, dict[str, Any]] = {
    "4 bits (2020)": {**_ARRAYS, "precision": "4 bits", "compression": 1},
    "ScaleCom (2020)": {**_ARRAYS, "precision": "16 bits", "compression": 100},
    "GPT-3 (2020)": {
        "job": "GPT-3, 10,000 V100",
        "precision": "16 bits",
        "waiting": 0.0,
        "compression": 1,
        "place": "gpt3_site",
        "pue": 1.1,
    },
    "GPT-3, FP8": {"job": "GPT-3, 1,024 H100", "precision": "8 bits", "waiting": 0.0, "compression": 1, **_USA},
}


@dataclass(frozen=True)
class BillState(ExplorerState):
    """The value of every control.

    Attributes:
        job: a name of `JOBS`.
        precision: a name of `PRECISIONS`.
        waiting: share of the 16-bit step without compression that waits for the network.
        compression: by how much fewer bytes of gradients travel, one of `COMPRESSIONS`.
        place: name of a region.
        pue: what the building draws for each watt of its machines.
        price: of a kWh, in dollars.

    >>> BillState(waiting=0.9)
    Traceback (most recent call last):
    ...
    ValueError: waiting must be from 0 to 0.8, got 0.9
    """

    job: str = control("ResNet-50, 64 chips", Choice("training", list(JOBS)))
    precision: str = control("4 bits", Choice("numbers", LABELLED))
    waiting: float = control(0.56, WAITING_SLIDER)
    compression: int = control(
        1,
        Steps("fewer bytes", {f"{c} ×": c for c in COMPRESSIONS}, css="lp-wide-readout", unit="fewer bytes"),
    )
    place: str = control("usa", Choice("place", lambda _: _regions(), checked=False))
    pue: float = control(1.1, Slider("PUE", *PUES, step=0.02, readout_format=".2f"))
    price: float = control(
        0.1,
        Slider(
            "$ per kWh",
            *PRICES,
            step=0.01,
            readout_format=".2f",
            unit="dollars per kWh",
            tooltip="changes the cost in the sentence below the figure, and no figure",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        footprint.region(self.place)  # raises for an unknown one

    @property
    def training(self) -> Job:
        """The job with the network fields of the state."""
        return replace(JOBS[self.job], waiting=self.waiting, compression=float(self.compression))

    @property
    def bill(self) -> Bill:
        """The bill of the whole training, at the chosen precision and place."""
        kwh = self.training.total(PRECISIONS[self.precision]).kwh
        return footprint.bill_of(kwh, pue=self.pue, region=self.place, price_per_kwh=self.price)

    @property
    def code(self) -> str:
        """Python that gives the numbers."""
        job = self.training
        given = "".join(
            f", {name}={getattr(job, name):g}" for name in ("utilization", "waiting", "compression", "host_watts")
        )
        return (
            f"job = footprint.Job({job.workload!r}, {job.chip!r}, {job.devices}, {job.batch}, "
            f"{job.examples:.10g}{given})\n"
            f"total = job.total({PRECISIONS[self.precision]!r})\n"
            f"footprint.bill_of(total.kwh, pue={self.pue:g}, region={self.place!r}, price_per_kwh={self.price:g})"
        )


def _regions() -> dict[str, str]:
    """The places by label, short enough for the number to be seen in a narrow list."""
    return {
        f"{p.label.replace(' data centre', ' centre')}, {p.grams_per_kwh:.0f} g": p.name
        for p in footprint.regions().values()
    }


def shown(state: BillState) -> dict[str, str]:
    """The precisions of the figures: 16, 8 and 4 bits; a chosen recipe since 2024 stands in for that of as many bits.

    >>> list(shown(BillState(precision="NVFP4")))
    ['16 bits', '8 bits', 'NVFP4']
    """
    labels = (state.precision if REPLACED.get(state.precision) == label else label for label in CLASSIC)
    return {label: PRECISIONS[label] for label in labels}


def steps(state: BillState) -> dict[str, Energy]:
    """Energy of a step at each precision of the figures."""
    return {label: state.training.step(name) for label, name in shown(state).items()}


def default_network(job: str) -> dict[str, Any]:
    """The fields of the network that a training begins with: how long its devices wait, no compression.

    >>> default_network("GPT-3, 10,000 V100")
    {'waiting': 0.0, 'compression': 1}
    """
    return {"waiting": OWN_WAITING.get(job, 0.0), "compression": 1}


def reference(state: BillState) -> Energy:
    """A step at 16 bits without compression."""
    return replace(state.training, compression=1.0).step("fp16_mixed")


def parts_figure(state: BillState) -> Any:
    """Energy of a step by part."""
    plain = reference(state).joules
    most = max(step.joules for step in steps(replace(state, compression=1)).values())
    left = 100 * state.training.step(PRECISIONS[state.precision]).joules / plain
    how = f", {state.compression} × fewer bytes" if state.compression > 1 else ""
    title = f"{state.precision}{how}: {left:.0f} % of the energy of plain 16 bits"
    return figures.energy_parts(
        steps(state), state.precision, reference=("plain 16 bits: all bytes sent", plain), most=most, title=title
    )


def carbon_figure(state: BillState) -> Any:
    """CO2e of the whole training by place."""
    job = state.training
    kwh = {label: job.total(name).kwh * state.pue for label, name in shown(state).items()}
    site, run = PUBLISHED.get(state.job, ("", ""))
    record = runs.get(run) if run else None
    extra = [name for name in dict.fromkeys((site, state.place)) if name and name not in PLACES]
    places = sorted((footprint.region(name) for name in (*PLACES, *extra)), key=lambda p: p.grams_per_kwh)
    published = (site, float(record.published_kilograms or 0), f"{record.source}") if record else None
    return figures.carbon_by_place(
        kwh, places, state.precision, state.place, published=published, limits=_limits(state.job)
    )


@lru_cache(maxsize=16)
def _limits(job: str) -> tuple[float, float]:
    """The limits of the axis, the same in every state: the smallest and the largest emission of a job."""
    smallest = replace(JOBS[job], waiting=0.0)
    largest = replace(JOBS[job], waiting=WAITING[1])
    low = min(smallest.total(name).kwh for name in PRECISIONS.values())
    grams = [footprint.region(name).kilograms_per_kwh for name in (*PLACES, "gpt3_site")]
    return 0.8 * low * min(grams), 1.2 * largest.total("fp16_mixed").kwh * PUES[1] * max(grams)


def waiting_share(state: BillState) -> float:
    """The share of a step at the chosen precision and compression that waits for the network.

    >>> round(waiting_share(BillState(precision="16 bits", compression=100)), 3)
    0.013
    """
    busy, whole = (job.step(PRECISIONS[state.precision]).seconds for job in
                   (replace(state.training, waiting=0.0), state.training))  # fmt: skip
    return 1 - float(busy / whole)


def summary(state: BillState) -> str:
    """The bill in one line.

    >>> summary(BillState(job="GPT-3, 10,000 V100", precision="16 bits", waiting=0, place="gpt3_site"))[:72]
    'The whole training: 15.5 days, 1.26 GWh from the grid, 541 t of CO₂e, $1'
    >>> summary(BillState(precision="16 bits", compression=100)).partition(",")[0]
    'The whole training: 40 minutes (45 % of plain 16 bits)'
    >>> summary(BillState(precision="16 bits", compression=100)).rpartition(". ")[2]
    'Its devices wait for 1.3 % of each step.'
    """
    bill, hours = state.bill, state.training.hours(PRECISIONS[state.precision])
    unit, length = ("days", 24.0) if hours >= 48 else ("hours", 1.0) if hours >= 2 else ("minutes", 1 / 60)
    time = f"{grouped(hours / length, 3)} {unit}"
    left = hours / replace(state.training, compression=1.0).hours("fp16_mixed")
    if left != 1:
        time += f" ({100 * left:.0f} % of plain 16 bits)"
    energy = format_si(bill.kwh * 1000, "Wh")
    return (
        f"The whole training: {time}, {energy} from the grid, {mass(bill.kilograms)} of CO₂e, "
        f"{money(bill.electricity)} for electricity. Its devices wait for {percent(waiting_share(state))} of each step."
    )


class BillExplorer(Explorer):
    """A training's energy and carbon behind seven controls: job, precision, network, place.

    Args:
        **position: fields of `BillState`: ``job``, ``precision``, ``waiting``, ``compression``, ``place``, ``pue``,
            ``price``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> explorer = BillExplorer(precision="16 bits", compression=100)
    >>> explorer.figures["parts"].layout.meta["title"]
    '16 bits, 100 × fewer bytes: 66 % of the energy of plain 16 bits'
    """

    imports = ("from lplab.hardware import footprint",)
    state_class, preset_fields = BillState, PRESETS
    side: ClassVar = {
        "The training": ("presets", "job", "precision"),
        "The network": ("waiting", "compression"),
        "The place": ("place", "pue", "price"),
    }

    def _on_control_change(self, **position: Any) -> None:
        """Choosing another training also sets the network fields to that training's defaults."""
        super()._on_control_change(**position, **(default_network(position["job"]) if "job" in position else {}))

    figure_names: ClassVar = {
        "parts": "The energy of a step by its parts",
        "places": "The carbon of the whole training by place",
    }

    def _figures(self, state: BillState) -> dict[str, Any]:
        return {"parts": parts_figure(state), "places": carbon_figure(state)}

    def _summary(self, state: BillState) -> str:
        return summary(state)
