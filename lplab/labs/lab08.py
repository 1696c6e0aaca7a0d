"""Lab 08, scaling out: its tables, its figures and its guided questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lplab import claims, compression, figures
from lplab.claims.papers.ddl_model import ddl_step
from lplab.figures import DataTable
from lplab.figures.device_timeline import milliseconds
from lplab.hardware import Cluster, Simulation, network, simulate, sweep, workloads
from lplab.labs.folded import Folded
from lplab.labs.guided import GuidedQuestion
from lplab.widgets import ClusterExplorer

if TYPE_CHECKING:
    import pandas as pd

SLOW, FAST = "10Gb/s, 50us", "100Gb/s, 50us"
HOW: dict[str, Any] = {"precision": "fp16_mixed", "batch": 32, "utilization": 0.5}
LONGEST = 0.1  # seconds: the end of the axis of both steps
GRADIENT = 2 * workloads.get("resnet50").parameters  # bytes of ResNet-50's gradient in 16 bits
DDL = "DDL 2017 (4 × 64 P100)"
SENDS = {  # what each compressor of the library sends, in a line
    "adacomp": "in each bin the elements near its largest, 2018",
    "scalecom": "the elements that one device, the leader, chooses for all, 2020",
    "topk": "its own largest elements, 1 %",
    "randomk": "elements that a shared coin chooses, 1 %",
    "dgc": "its own largest elements, 0.1 % (deep gradient compression, 2018)",
    "onebit": "one bit an element, and two means for each column, 2014",
    "signsgd": "the sign of each element, 2018",
    "efsign": "the sign of each element, and one size, with error feedback, 2019",
    "terngrad": "−1, 0 or 1 for each element, by chance, 2017",
    "qsgd": "one of a few levels for each element, by chance, 2017",
    "powersgd": "two thin matrices whose product is close to the gradient, 2019",
}


def _slow(devices: int = 64, link: str = SLOW, **settings: Any) -> Simulation:
    """A step of ResNet-50 on V100, 32 images each in 16 bits, with other settings where they are given."""
    return simulate("resnet50", Cluster("v100", devices, link), **{**HOW, **settings})


# ---- the ring --------------------------------------------------------------------------------------------------------


def ring_costs() -> DataTable:
    """What a ring costs on 10 Gb/s with 50 µs of latency, and what it costs to send everything to one device."""
    devices = (2, 8, 64, 1024)
    every = [network.sent_bytes("ring", n, GRADIENT) / 1e6 for n in devices]
    steps = [int(network.steps("ring", n)) for n in devices]
    return DataTable(
        {
            "devices": devices,
            "each sends (MB)": every,
            "sending that (ms)": [1e3 * sent * 1e6 / 1.25e9 for sent in every],
            "messages in a row": steps,
            "latency of all (ms)": [50e-3 * count for count in steps],
            "all to one device (ms)": [2e3 * (n - 1) * GRADIENT / 1.25e9 for n in devices],
        },
        caption="51 MB of gradient around a ring of 10 Gb/s and 50 µs, and through one device",
        formats=dict.fromkeys(("each sends (MB)", "sending that (ms)", "latency of all (ms)"), ".1f")
        | {"all to one device (ms)": ",.0f"},
    )


# ---- one step --------------------------------------------------------------------------------------------------------


def slow_step() -> Any:
    """The step of the prediction: two of 64 devices, and the network."""
    return figures.device_timeline(_slow(), until_seconds=LONGEST)


def fast_step() -> Any:
    """The step over a link that is ten times as fast, on the same axis."""
    return figures.device_timeline(_slow(link=FAST), until_seconds=LONGEST)


def ddl_events() -> pd.DataFrame:
    """The events of the step behind DDL's claim, on two devices: starts and ends in seconds."""
    import pandas

    return pandas.DataFrame(ddl_step().timeline(2))


def ddl_timeline() -> Any:
    """The step behind DDL's claim, layer by layer."""
    return figures.device_timeline(ddl_step(), detail="layers")


# ---- what was seen ---------------------------------------------------------------------------------------------------


def links_table() -> DataTable:
    """Three links and three sizes of cluster."""
    links = {"10 Gb/s, 50 µs": SLOW, "100 Gb/s, 50 µs": FAST, "100 Gb/s, 1,000 µs": "100Gb/s, 1000us"}
    found = [(name, n, _slow(n, link)) for name, link in links.items() for n in (8, 64, 1024)]
    return DataTable(
        {
            "link": [name for name, _, _ in found],
            "devices": [n for _, n, _ in found],
            "efficiency": [step.efficiency for _, _, step in found],
            "times as fast as one": [n * step.efficiency for _, n, step in found],
            "sending (ms)": [1e3 * step.communication_seconds for _, _, step in found],
            "of that not hidden (ms)": [1e3 * step.exposed_seconds for _, _, step in found],
        },
        caption="V100 with 32 images each, 16 bits. One device alone needs 24.2 ms for a step. All modelled.",
        formats={"efficiency": ".0%"}
        | dict.fromkeys(("times as fast as one", "sending (ms)", "of that not hidden (ms)"), ".1f"),
    )


def bits_table() -> DataTable:
    """Fewer bits on 64 H100: the step, its sending, efficiency and throughput."""
    recipes = {"32 bits": "fp32", "16 bits": "bf16", "8 bits (2019)": "hfp8_2019"}
    cluster = Cluster("h100", 64, "100Gb/s, 10us")
    found = [simulate("resnet50", cluster, precision=name, batch=32, utilization=0.5) for name in recipes.values()]
    return DataTable(
        {
            "numbers": list(recipes),
            "step (ms)": [1e3 * step.step_seconds for step in found],
            "sending (ms)": [1e3 * step.communication_seconds for step in found],
            "efficiency": [step.efficiency for step in found],
            "images a second": [round(step.throughput) for step in found],
        },
        caption="64 H100 over 100 Gb/s, 10 µs (modelled)",
        formats={"step (ms)": ".1f", "sending (ms)": ".1f", "efficiency": ".0%"},
    )


# ---- going deeper ----------------------------------------------------------------------------------------------------


def compressors_table() -> DataTable:
    """Every compressor of the library: what it sends, how messages meet, and its efficiency on V100."""
    names = [name for name in compression.names() if name in SENDS]
    found = {n: [_slow(n, compressor=name) for name in names] for n in (16, 64, 1024)}
    kinds = ["gathered" if "all_gather" in step.design.traffic.kinds else "summed" for step in found[16]]
    order = sorted(range(len(names)), key=lambda i: (kinds[i] != "summed", -found[1024][i].efficiency))
    columns: dict[str, Any] = {
        "compressor": [names[i] for i in order],
        **{f"on {n:,}": [steps[i].efficiency for i in order] for n, steps in found.items()},
        "messages are": [kinds[i] for i in order],
        "each device sends": [SENDS[names[i]] for i in order],
    }
    return DataTable(
        columns,
        caption="Efficiency with compressed gradients over 10 Gb/s. Without a compressor it is 25 % on 1,024 devices.",
        formats=dict.fromkeys((f"on {n:,}" for n in found), ".1%"),
    )


def compressor_curves() -> Any:
    """Efficiency against devices for three compressors and none."""
    chosen = {
        "none": "no compressor",
        "randomk:density=0.01": "random-k, 1 %",
        "scalecom": "ScaleCom",
        "topk:density=0.01": "top-k, 1 %",
    }
    devices = [2**k for k in range(11)]
    frame = sweep("resnet50", chip="v100", devices=devices, link=SLOW, compressor=[*chosen], **HOW)
    frame["compressor"] = frame["compressor"].map(chosen)
    return figures.sweep_curves(frame, title="Messages that are gathered do not scale (modelled)")


def memory_table() -> DataTable:
    """What one device of 64 holds, in MB, for some settings."""
    settings: dict[str, dict[str, Any]] = {
        "16 bits, batch 32": {},
        "with ScaleCom": {"compressor": "scalecom"},
        "with a shared update": {"sharded": True},
        "32 bits": {"precision": "fp32"},
        "batch 128": {"batch": 128},
    }
    held = [_slow(**each).memory for each in settings.values()]
    parts = ("weights", "master", "gradients", "optimizer", "activations", "residuals")
    columns: dict[str, Any] = {"each device has": list(settings)}
    columns |= {part: [memory.get(part, 0.0) / 1e6 for memory in held] for part in parts}
    columns["all"] = [_slow(**each).memory_bytes / 1e6 for each in settings.values()]
    return DataTable(
        columns,
        caption="Memory of one of 64 devices, in MB (each number is rounded on its own)",
        formats=dict.fromkeys([*parts, "all"], ",.0f"),
    )


def shared_table() -> DataTable:
    """A shared update with weights in 8 and in 16 bits: bytes and seconds."""
    rows = [(name, shared) for name in ("hfp8_2019", "fp16_mixed") for shared in (False, True)]
    cluster = Cluster("h100", 16, "25Gb/s, 10us")
    found = [simulate("resnet50", cluster, precision=name, batch=32, sharded=shared) for name, shared in rows]
    return DataTable(
        {
            "weights travel in": ["8 bits" if name == "hfp8_2019" and shared else "16 bits" for name, shared in rows],
            "recipe": [{"hfp8_2019": "8 bits (2019)", "fp16_mixed": "16 bits"}[name] for name, _ in rows],
            "shared update": ["yes" if shared else "no" for _, shared in rows],
            "each sends (MB)": [step.sent_bytes / 1e6 for step in found],
            "step (ms)": [1e3 * step.step_seconds for step in found],
        },
        caption="16 H100 over 25 Gb/s (modelled)",
        formats={"each sends (MB)": ".1f", "step (ms)": ".1f"},
    )


# ---- the explorer and its questions ----------------------------------------------------------------------------------


def explorer() -> ClusterExplorer:
    """The explorer where the prediction asks: 64 devices and a link of 10 Gb/s."""
    return ClusterExplorer(devices=64, gigabits=10.0)


def _waits(state: Any) -> str:
    step = state.simulation
    hidden = step.communication_seconds - step.exposed_seconds
    return (
        f"The transfers take {milliseconds(step.communication_seconds)}. The backward pass hides "
        f"{milliseconds(hidden)} of them. For the other {milliseconds(step.exposed_seconds)} of a step of "
        f"{milliseconds(step.step_seconds)}, all devices wait for the network. The last bucket is never hidden: it begins "
        "when the backward pass has ended."
    )


def _waits_is_true(state: Any) -> bool:
    step = state.simulation
    return 0 < step.exposed_seconds < step.communication_seconds and step.exposed_seconds > 0.5 * step.step_seconds


def _latency(state: Any) -> str:
    quick, slow = state.changed(microseconds=50.0), state.changed(microseconds=50.0, gigabits=10.0)
    return (
        f"Worse. With 50 µs the 1,024 devices do the work of {_work(quick)}. With 1,000 µs they do that of {_work(state)}, "
        f"even less than over 10 Gb/s with 50 µs ({_work(slow)}). So more bandwidth does not help "
        "against a long latency. Each message has to wait for the one before it, and the latencies add up."
    )


def _work(state: Any) -> str:
    return f"{state.devices * state.simulation.efficiency:,.1f}"


def _latency_is_true(state: Any) -> bool:
    slow = state.changed(microseconds=50.0, gigabits=10.0)
    quick = state.changed(microseconds=50.0)
    return state.simulation.efficiency < slow.simulation.efficiency < quick.simulation.efficiency


def _bits(state: Any) -> list[Any]:
    return [state.changed(recipe=name).simulation for name in ("32 bits", "16 bits", "8 bits (2019)")]


def _fewer(state: Any) -> str:
    wide, half, eight = _bits(state)
    return (
        f"With 32, 16 and 8 bits the efficiency is {_percent(wide)}, {_percent(half)} and {_percent(eight)}. The "
        f"images a second are {wide.throughput:,.0f}, {half.throughput:,.0f} and {eight.throughput:,.0f}. With 16 "
        "bits computing gets faster by more than sending does. So the efficiency falls, and yet more images are "
        "processed. Eight bits add nothing on a V100, because it stores them but multiplies in 16 bits. "
        "Computing even takes a little longer, and hides a little more, so the efficiency rises."
    )


def _percent(step: Simulation) -> str:
    return f"{100 * step.efficiency:.0f} %"


def _fewer_is_true(state: Any) -> bool:
    wide, half, eight = _bits(state)
    faster = half.throughput > 2 * wide.throughput and abs(eight.throughput / half.throughput - 1) < 0.02
    return half.efficiency < wide.efficiency and faster


def _star(state: Any) -> str:
    model, hidden = state.simulation.efficiency, state.changed(overlap=1.0).simulation.efficiency
    return (
        f"With nothing hidden, the 256 devices do the work of {_work(state)}. This is an efficiency of "
        f"{100 * model:.1f} %, one point below the star at 95 %. With an overlap of 100 % it is {100 * hidden:.1f} %, "
        "nearly four points above the star. So they probably hid little or nothing. This is not certain, because we "
        "only assume that four GPUs share two network ports (places for cables). (The card below gives a little "
        "less, because it takes a ring, and slower links inside a machine.)"
    )


def _star_is_true(state: Any) -> bool:
    model, hidden = state.simulation.efficiency, state.changed(overlap=1.0).simulation.efficiency
    return 0.005 < 0.95 - model < 0.015 and 0.035 < hidden - 0.95 < 0.045


QUESTIONS = (
    GuidedQuestion(
        "This is the step of your guess: 64 devices and a link of 10 Gb/s. The backward pass hides a part of "
        "the transfers. For how many milliseconds do computing and sending go on at once?",
        position={},
        answer=_waits,
        true=_waits_is_true,
        controls=("devices", "gigabits"),
        figure="timeline",
        guess="ms",
    ),
    GuidedQuestion(
        "Choose 32 bits and 8 bits in turn, and 16 bits again in the end. Where is the efficiency highest?",
        position={"recipe": "8 bits (2019)"},
        answer=_fewer,
        true=_fewer_is_true,
        controls=("recipe",),
        figure="scaling",
        guess=("32 bits", "16 bits", "8 bits"),
    ),
    GuidedQuestion(
        "Choose 1,024 devices and 100 Gb/s. Then move *latency* to 1,000 µs. Is this better or worse than 10 "
        "Gb/s with 50 µs?",
        position={"devices": 1024, "gigabits": 100.0, "microseconds": 1000.0},
        answer=_latency,
        true=_latency_is_true,
        controls=("devices", "gigabits", "microseconds"),
        figure="scaling",
        guess=("better", "worse"),
    ),
    GuidedQuestion(
        "Choose the preset *DDL 2017*. Its *overlap* is 0, so nothing is sent before the backward pass has "
        "ended. Compare the circle of the model with the star, which is published. Then move *overlap* to 100 "
        "%. Which of the two did they run?",
        position={"preset": DDL},
        answer=_star,
        true=_star_is_true,
        controls=("preset", "overlap"),
        figure="scaling",
        guess=("hidden", "not hidden"),
    ),
)
GUIDED = ((explorer, QUESTIONS),)


# ---- the facts of the text -------------------------------------------------------------------------------------------


def facts() -> dict[str, Any]:
    """The numbers that the lab's text states and that no table of it shows."""
    slow, recipes = _slow(), ("fp32", "fp16_mixed", "hfp8_2019")
    bits = [_slow(precision=name, fall_back=True) for name in recipes]
    cluster = Cluster("h100", 64, "100Gb/s, 10us")
    wide, half = (simulate("resnet50", cluster, precision=n, batch=32, utilization=0.5) for n in ("fp32", "bf16"))
    ddl = ddl_step()
    return {
        "numbers in the gradient, millions": round(GRADIENT / 2e6, 1),
        "its bytes in 16 bits, MB": round(GRADIENT / 1e6),
        "ms to send them over 10 Gb/s": round(1e3 * GRADIENT / 1.25e9),
        "ms of a step alone": round(1e3 * slow.single_seconds, 1),
        "ms of the backward pass": round(1e3 * slow.times.backward.item()),
        "64 devices are as fast as": round(64 * slow.efficiency, 1),
        "efficiency with 32, 16 and 8 bits, %": [round(100 * each.efficiency) for each in bits],
        "images a second with them": [round(each.throughput, -2) for each in bits],
        "H100, from 32 to 16 bits: times the images": round(half.throughput / wide.throughput, 1),
        "of the computing left": round(half.compute_seconds / wide.compute_seconds, 2),
        "ms that DDL's step waits, of": [round(1e3 * ddl.exposed_seconds, 1), round(1e3 * ddl.step_seconds)],
        "DDL by the claim and by the explorer's preset, %": [
            round(100 * ddl.efficiency, 1),
            round(100 * explorer().state_at(preset=DDL).simulation.efficiency, 1),
        ],
        "MB that each of 1,024 sends with top-k": round(_slow(1024, compressor="topk").sent_bytes / 1e6),
        "share of weights in the memory, %": round(100 * slow.memory["weights"] / slow.memory_bytes),
    }


def claim_again() -> str:
    """How many points of DDL's claim come out as they are stored, when they are computed again."""
    claim = claims.get("ddl_2017")
    stored = claims.stored(claim).results(claim)
    again = [(point, claims.measure(claim, point, seed=0)) for point in claim.points]
    same = sum(all(stored.values(n, **at)[0] == new[n] for n in new) for at, new in again)
    return f"{same} of {len(again)} points computed again: as stored"


def checked_numbers() -> Folded:
    """The numbers that answer the prediction or stand in the text, for the tests."""
    return Folded(links_table(), "\n".join(f"{name}: {value}" for name, value in facts().items()), claim_again())
