"""Lab 12, the bill: its tables and figures, and its guided questions on two explorers."""

from __future__ import annotations

from dataclasses import replace

from lplab import figures, widgets
from lplab.exercises.lab12.training_bill import GPT3, training_bill
from lplab.figures import DataTable
from lplab.hardware import footprint, multiplier, operation_costs, workloads
from lplab.hardware.footprint import gemm_joules, runs
from lplab.hardware.footprint.step_energy import IDLE_SHARE
from lplab.hardware.units import grouped
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedExplorer, GuidedQuestion, guided
from lplab.widgets.explorers import bill_explorer as bills
from lplab.widgets.explorers import edge_explorer as edge
from lplab.widgets.explorers.bill_explorer import BillState
from lplab.widgets.explorers.edge_explorer import EdgeState

ARRAYS = replace(bills.JOBS["ResNet-50, 64 chips"], waiting=0.56)
PACKED = replace(ARRAYS, compression=100)
LARGE, SMALL = "ResNet-18, 500 images", "FedAvg's CNN, 600 digits"
PLAIN, FP8, SPARSE = "32 bits", "FP8", "FP8, 1 % up"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# ---- the bill: explorer and questions --------------------------------------------------------------------------------


def explorer() -> widgets.BillExplorer:
    """The bill where the prediction asks: the 4-bit step of ResNet-50."""
    return widgets.BillExplorer(**bills.PRESETS["4 bits (2020)"])


def left(state: BillState) -> tuple[float, float]:
    """Shares of the energy and of the time of a plain 16-bit step that are left."""
    step, plain = state.training.step(bills.PRECISIONS[state.precision]), bills.reference(state)
    return float(step.joules / plain.joules), float(step.seconds / plain.seconds)


def _parts(state: BillState) -> tuple[dict[str, float], dict[str, float]]:
    """Joules by part of a plain 16-bit step, and of the step of the state."""
    return bills.reference(state).parts(), state.training.step(bills.PRECISIONS[state.precision]).parts()


def _four_bits(state: BillState) -> str:
    (plain, step), (energy, time) = _parts(state), left(state)
    return (
        f"Arithmetic shrinks most, from {plain['arithmetic']:.0f} to {step['arithmetic']:.0f} J. It does not fall to a "
        f"quarter, because a few layers stay at 16 bits. Static flows all the time. The step takes {_percent(time)} of the time that it took with 16 bits, because the waiting does not get shorter. In all, "
        f"{_percent(energy)} of the energy is left."
    )


def _compression(state: BillState) -> str:
    (plain, step), (energy, time) = _parts(state), left(state)
    return (
        f"The step takes {_percent(time)} of its time, but {_percent(energy)} of its energy. What is gone is waiting, "
        f"and a waiting chip draws less than one that multiplies. Static falls from {plain['static']:.0f} to {step['static']:.0f} J, and "
        f"arithmetic stays at {step['arithmetic']:.0f} J."
    )


def _both(state: BillState) -> str:
    (energy, _), alone = left(state), _each_alone(state)
    return (
        f"{_percent(energy)} of the energy is left. Alone, 4 bits leave {_percent(alone[0])} and compression leaves "
        f"{_percent(alone[1])}. You would expect {_percent(alone[0])} of {_percent(alone[1])}, which is "
        f"{_percent(alone[0] * alone[1])}, and less is left. Without compression, chips with 4 bits finish earlier and then wait. "
        "With compression there is next to nothing to wait for."
    )


def _each_alone(state: BillState) -> tuple[float, float]:
    """Shares of the energy that are left with the precision alone, and with the compression alone."""
    return left(state.changed(compression=1))[0], left(state.changed(precision="16 bits"))[0]


def _diamond(state: BillState) -> str:
    published = runs.get("gpt3").published_kilograms or 0.0
    modelled = state.bill.kilograms
    return (
        f"The model gives {modelled / 1000:.0f} t, and {published / 1000:.0f} t were published, "
        f"{_percent(abs(modelled / published - 1))} apart. The place matters far more than the precision: "
        f"{_place_and_precision(state)[0]:.3g} times between the first and the last of these countries."
    )


def _place_and_precision(state: BillState) -> tuple[float, float]:
    """By what factor the emission differs between the listed places, and between the precisions."""
    grams = [footprint.region(name).grams_per_kwh for name in bills.PLACES]
    joules = [step.joules for step in bills.steps(state).values()]
    return max(grams) / min(grams), float(max(joules) / min(joules))


QUESTIONS = (
    GuidedQuestion(
        "This is the step of your guess. Compare the bar of 4 bits with that of 16 bits. Which part shrinks most?",
        bills.PRESETS["4 bits (2020)"],
        _four_bits,
        lambda state: (
            _parts(state)[1]["arithmetic"] / _parts(state)[0]["arithmetic"]
            < min(_parts(state)[1][name] / _parts(state)[0][name] for name in ("memory", "network", "static"))
        ),
        controls=("presets", "precision"),
        figure="parts",
        guess=("arithmetic", "memory", "network", "static"),
    ),
    GuidedQuestion(
        "Press *ScaleCom (2020)*. Numbers have 16 bits again, but only 1 byte in 100 travels. Which share of "
        "the energy is left?",
        bills.PRESETS["ScaleCom (2020)"],
        _compression,
        lambda state: left(state)[1] < 0.5 < left(state)[0] and bills.waiting_share(state) < 0.05,
        controls=("presets", "precision", "compression"),
        figure="parts",
        guess="%",
    ),
    GuidedQuestion(
        "Stay there and choose *4 bits* as well. Which share of the energy is left?",
        {**bills.PRESETS["ScaleCom (2020)"], "precision": "4 bits"},
        _both,
        lambda state: (
            left(state)[0] < _each_alone(state)[0] * _each_alone(state)[1] and bills.waiting_share(state) < 0.05
        ),
        controls=("presets", "precision", "compression"),
        figure="parts",
        guess="%",
    ),
    GuidedQuestion(
        "Press *GPT-3 (2020)*: this figure is the whole training, and the diamond is published. What matters "
        "more, the place or the precision?",
        bills.PRESETS["GPT-3 (2020)"],
        _diamond,
        lambda state: _place_and_precision(state)[0] > 10 * _place_and_precision(state)[1],
        controls=("presets", "precision", "place"),
        figure="places",
        guess=("the place", "the precision"),
    ),
)


def guided_explorer() -> GuidedExplorer:
    """The bill below its questions."""
    return guided(explorer(), QUESTIONS)


# ---- phones: explorer and questions ----------------------------------------------------------------------------------


def edge_explorer() -> widgets.EdgeExplorer:
    """A client of FedAvg, 2017, in its first position."""
    return widgets.EdgeExplorer()


def computing(state: EdgeState, wire: str = PLAIN) -> float:
    """The share of a client's energy that computing takes."""
    found = edge.rounds(state)[wire]
    return float(found.compute_joules / found.joules)


def _left_with(state: EdgeState, wire: str) -> float:
    found = edge.rounds(state)
    return float(found[wire].joules / found[PLAIN].joules)


def _radio_costs_most(state: EdgeState) -> str:
    sparse = edge.rounds(state)[SPARSE]
    return (
        f"The radio takes {_percent(1 - computing(state))} at 32 bits. FP8 and a sparse update leave "
        f"{_percent(_left_with(state, SPARSE))} of the energy. What is left of the radio is mostly *receiving*, "
        f"{sparse.down_bytes / 1e6:.2f} MB, because the server sends every client all weights."
    )


def _computing_costs_most(state: EdgeState) -> str:
    return (
        f"Computing takes {_percent(computing(state))} now. So no compressor can save more than the radio's "
        f"{_percent(1 - computing(state))}, and FP8 with 1 % up leaves {_percent(_left_with(state, SPARSE))} of all."
    )


EDGE_QUESTIONS = (
    GuidedQuestion(
        "Press *FedAvg (2017)*. What costs most with 32 bits?",
        edge.PRESETS["FedAvg (2017)"],
        _radio_costs_most,
        lambda state: edge.rounds(state)[SPARSE].down_joules > 5 * edge.rounds(state)[SPARSE].up_joules,
        controls=("presets", "epochs"),
        figure="figure",
        guess=("computing", "the radio"),
    ),
    GuidedQuestion(
        "Press *ResNet-18*, a larger network with larger images. Which share of the energy can compression "
        "save at most?",
        edge.PRESETS["ResNet-18"],
        _computing_costs_most,
        lambda state: computing(state) > 0.5 and _left_with(state, SPARSE) > computing(state),
        controls=("presets", "epochs"),
        figure="figure",
        guess="%",
    ),
)
GUIDED = ((explorer, QUESTIONS), (edge_explorer, EDGE_QUESTIONS))


def guided_phones() -> GuidedExplorer:
    """A client of a federated round, below its questions."""
    return guided(edge_explorer(), EDGE_QUESTIONS)


# ---- tables ----------------------------------------------------------------------------------------------------------


def what_you_saw() -> DataTable:
    """Energy and time of a step at three precisions, with all bytes sent and with one in a hundred."""
    rows = [
        (bytes_sent, label, job.step(name))
        for job, bytes_sent in ((ARRAYS, "all"), (PACKED, "1 in 100"))
        for label, name in bills.CLASSIC.items()
    ]
    plain = rows[0][2]
    return DataTable(
        {
            "numbers": [label for _, label, _ in rows],
            "bytes sent": [bytes_sent for bytes_sent, _, _ in rows],
            **{f"{part} (J)": [step.parts()[part] for _, _, step in rows] for part in footprint.PARTS},
            "energy left": [step.joules / plain.joules for _, _, step in rows],
            "time left": [step.seconds / plain.seconds for _, _, step in rows],
        },
        caption="One step of ResNet-50 on 64 chips, all of them together.",
        formats={**{f"{part} (J)": ".0f" for part in footprint.PARTS}, "energy left": ".0%", "time left": ".0%"},
    )


def gpt3() -> DataTable:
    """GPT-3's bill as published, from the published inputs, and from the layers of the network."""
    run, layers = runs.get("gpt3"), bills.JOBS["GPT-3, 10,000 V100"]
    modelled = footprint.bill_of(layers.total("fp16_mixed").kwh, pue=1.1, region="gpt3_site")
    days = footprint.training_hours(footprint.training_operations(175e9, 300e9), 10_000, 24.6e12) / 24
    published = (run.published_kwh or 0.0, run.published_kilograms or 0.0, 14.8)
    each = {
        "published": published,
        "from published watts and days": (run.bill.kwh, run.bill.kilograms, days),
        "from the layers": (modelled.kwh, modelled.kilograms, layers.hours("fp16_mixed") / 24),
    }
    return DataTable(
        {
            "GPT-3": list(each),
            "days": [row[2] for row in each.values()],
            "MWh": [row[0] / 1000 for row in each.values()],
            "t of CO₂e": [row[1] / 1000 for row in each.values()],
        },
        caption="The bill of GPT-3, three times.",
        formats={"days": ".1f", "MWh": ",.0f", "t of CO₂e": ".0f"},
    )


def published() -> dict[str, runs.TrainingRun]:
    """The published bills of the figure, without the corrected search, which exercise 12.3 finds."""
    return {name: run for name, run in runs.table().items() if name != "nas_2021"}


def published_trainings() -> widgets.LiveFigure:
    """Ten published trainings and the search as claimed, ours beside theirs."""
    return widgets.LiveFigure(figures.published_runs(list(published().values())))


SEARCH = {  # hours for 300,000 steps, watts, PUE, grams of CO2e for a kWh
    "as claimed in 2019": (84, 1515.43, 1.58, 432.727),
    "small networks: 10 of 84 hours": (10, 1515.43, 1.58, 432.727),
    "on a TPU v2: 208 of 1,515 W": (10, 208, 1.58, 432.727),
    "in a better place: PUE 1.1": (10, 208, 1.1, 431),
}


def search_kilograms() -> dict[str, float]:
    """CO2e of the architecture search, with one assumption after the other put right."""
    return {
        name: footprint.bill(watts=watts, hours=979e6 / 300e3 * hours, pue=pue, region=grams).kilograms
        for name, (hours, watts, pue, grams) in SEARCH.items()
    }


def search_corrected() -> widgets.LiveFigure:
    """The corrections of a published number, as bars."""
    published = [runs.get(name).published_kilograms or 0.0 for name in ("nas_2019", "nas_2021")]
    return widgets.LiveFigure(figures.corrections(list(search_kilograms().items()), published))


def multiply_adds() -> DataTable:
    """What a multiply-add costs, and how much of it is the adder."""
    macs = list(multiplier.macs().values())
    wide = multiplier.macs()["fp16+fp32"].joules
    return DataTable(
        {
            "product + sum": [mac.label for mac in macs],
            "energy (pJ)": [mac.joules * 1e12 for mac in macs],
            "of which the adder": [mac.add_joules / mac.joules for mac in macs],
            "of FP16 + FP32": [mac.joules / wide for mac in macs],
        },
        caption="One multiply-add in 45 nm, by the formats of the product and of the sum.",
        formats={"energy (pJ)": ".2f", "of which the adder": ".0%", "of FP16 + FP32": ".0%"},
    )


def phones() -> DataTable:
    """One client's round for two networks: bytes, joules, and the share of computing."""
    rows = [
        (network, wire, found)
        for network in (SMALL, LARGE)
        for wire, found in edge.rounds(EdgeState(network=network)).items()
    ]
    return DataTable(
        {
            "network": [network.partition(",")[0] for network, _, _ in rows],
            "messages": [wire for _, wire, _ in rows],
            "down (MB)": [found.down_bytes / 1e6 for _, _, found in rows],
            "up (MB)": [found.up_bytes / 1e6 for _, _, found in rows],
            "joules": [float(found.joules) for _, _, found in rows],
            "computing": [float(found.compute_joules / found.joules) for _, _, found in rows],
        },
        caption="One client in one round, over LTE, 5 epochs.",
        formats={"down (MB)": ".2f", "up (MB)": ".2f", "joules": ",.1f", "computing": ".0%"},
    )


def facts() -> DataTable:
    """The other numbers that the text of the lab gives, each computed."""
    macs, dram, tonnes = (
        multiplier.macs(),
        operation_costs.get("dram"),
        [kg / 1000 for kg in search_kilograms().values()],
    )
    size = {"m": 1024, "n": 1024, "k": 1024, "operand_bits": 16, "result_bits": 16}
    prices = {"mac_joules": macs["fp16+fp32"].joules, "memory_joules_per_byte": dram.joules / (dram.bits / 8)}
    once, whole = (gemm_joules(**size, **prices, tile=tile) for tile in (1, 1024))  # type: ignore[arg-type]
    multiplication, job = operation_costs.get("fp32_multiply").joules, bills.JOBS["GPT-3, 10,000 V100"]
    by_layers, by_rule = workloads.get("gpt3").training_flops * job.examples, 6 * GPT3[0] * GPT3[1]
    known = {
        "one second at 200 W and two at 40 W (J)": f"{200 * 1 + 40 * 2}",
        "a quarter of the first second (J)": f"{200 * 0.25:g} + {40 * 1.25:g}",
        "of 280 J": _percent((200 * 0.25 + 40 * 1.25) / 280),
        "memory / arithmetic, tiles of 1": f"{once[1] / once[0]:.0f}",
        "memory / arithmetic, one tile": f"{whole[1] / whole[0]:.2f}",
        "published trainings, besides the search": f"{len(published().keys() - {'nas_2019'})}",
        "smallest and largest of them (kg)": " ".join(
            grouped(pick(run.bill.kilograms for run in published().values()), 2) for pick in (min, max)
        ),
        "largest distance from the published": _percent(
            max(abs(run.bill.kilograms / (run.published_kilograms or 1.0) - 1) for run in published().values())
        ),
        "GPT-3's chips, from the layers and published (W)": f"{job.total('fp16_mixed').watts / 10_000:.0f} {runs.get('gpt3').watts:g}",
        "GPT-3 by exercise 12.2 (days, MWh, t)": " ".join(grouped(value, 3) for value in training_bill(*GPT3)),
        "operations of GPT-3 from the layers, beyond 6 a parameter and token": _percent(by_layers / by_rule - 1),
        "the search in tonnes": ", ".join(f"{value:.1f}" for value in tonnes),
        "claimed / corrected": f"{tonnes[0] / tonnes[-1]:.0f}",
        "Transformer big (kg)": f"{runs.get('transformer_big').bill.kilograms:.0f}",
        "1,000 kWh, PUE 1.1, 429 g (kg)": f"{footprint.bill_of(1000, pue=1.1, region=429).kilograms:.0f}",
        "power of a waiting chip, of its design power": f"1 / {1 / IDLE_SHARE:g}",
        "places, India / Iceland": f"{_place_and_precision(BillState())[0]:.1f}",
        "FP8 with a 32-bit adder, of FP16": _percent(macs["fp8_143+fp32"].joules / macs["fp16+fp32"].joules),
        "32 bits from DRAM, in multiplications of 32 bits": f"{dram.joules / 2 / multiplication:.0f}",
        "V100 / phone for the same arithmetic": _percent(
            float(
                edge.rounds(EdgeState(network=LARGE))[edge.CENTRE].compute_joules
                / edge.rounds(EdgeState(network=LARGE))[PLAIN].compute_joules
            )
        ),
    }
    return DataTable({"what": list(known), "value": list(known.values())}, caption="Numbers of the text.")


def checked_numbers() -> Folded:
    """The numbers that answer the prediction or stand in the text, for the tests."""
    return Folded(what_you_saw(), facts())
