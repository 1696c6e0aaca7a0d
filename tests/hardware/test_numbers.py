"""Every number that a user gives to lplab.hardware: what is none, or out of range, gets one line with its name."""

import math

import numpy as np
import pytest

from lplab.hardware import (
    Cluster,
    Link,
    amdahl,
    compute,
    footprint,
    multiplier,
    network,
    overlap,
    scaling,
    simulate,
    sweep,
    systolic,
    workloads,
)
from lplab.hardware.chip import Accelerator
from lplab.hardware.footprint import Device, Job, Power, Radio, Region
from lplab.hardware.footprint.measured import measure
from lplab.hardware.network import nccl_tuner
from lplab.hardware.network.fabric import Fabric
from lplab.hardware.precisions import Precision
from lplab.hardware.workloads import Layer

pytest.importorskip("pandas")
WORDS, LISTS = ["8", True, None, np.True_, [True, False], 1j], [[1.0, 2.0], np.ones(2)]
NOT_FINITE, NEGATIVE = [math.nan, math.inf], [-1.0]
H100 = Power(300.0, 50.0)
STEP = {"seconds": 2.0, "multiply_seconds": 1.0, "memory_bytes": 1.0, "network_bytes": 1.0, "devices": 1}
COSTS = {"mac_joules": 1e-12, "operand_bits": 8, "result_bits": 8, "memory_joules_per_byte": 1}
PRODUCT = {"m": 8, "n": 8, "k": 8, "tile": 8, **COSTS}
RESNET = {"workload": "resnet18", "cluster": "h100"}
CALLS = {  # a function, its arguments, the arguments that are numbers, and whether they may be arrays
    "bill": (footprint.bill, {"watts": 300, "hours": 1, "devices": 1, "pue": 1.1, "region": 400, "price_per_kwh": 0.1,
                              "price_per_device_hour": 1}, "", True),
    "bill_of": (footprint.bill_of, {"machine_kwh": 1, "pue": 1.1, "region": 400, "price_per_kwh": 1, "rent": 1}, "",
                True),
    "carbon": (footprint.carbon, {"kwh": 1, "region": 400}, "", True),
    "operations": (footprint.training_operations, {"parameters": 1, "tokens": 1}, "", True),
    "hours": (footprint.training_hours, {"operations": 1, "devices": 1, "sustained_ops_per_second": 1}, "", True),
    "message": (footprint.message_bytes, {"parameters": 1, "bits": 8, "share": 1, "index_bits": 1}, "", True),
    "federated": (footprint.federated, {"operations": 1, "down_bytes": 1, "up_bytes": 1}, "", True),
    "energy_of": (lambda **given: footprint.energy_of(H100, **given), STEP, "", True),
    "times": (lambda times: footprint.Energy(1.0, 1.0, 1.0, 1.0) * times, {"times": 2}, "", True),
    "power": (Power, {"arithmetic_watts": 1, "idle_watts": 1, "host_watts": 1, "memory_joules_per_byte": 1,
                      "network_joules_per_byte": 1}, "", False),
    "power of a chip": (lambda **given: Power.of("h100", **given), {
        "busy_share": 0.8, "idle_share": 0.1, "host_watts": 1, "memory_joules_per_byte": 1e-12,
        "network_joules_per_byte": 1e-9}, "", False),
    "region": (Region, {"name": "x", "label": "x", "grams_per_kwh": 1, "year": 2020, "source": "", "grade": "own"},
               "grams_per_kwh", False),
    "device": (Device, {"name": "x", "label": "x", "ops_per_second": 1, "watts": 1}, "ops_per_second watts", False),
    "radio": (Radio, {"name": "x", "label": "x", "down_bytes_per_second": 1, "up_bytes_per_second": 1, "down_watts": 1,
                      "up_watts": 1},
              "down_bytes_per_second up_bytes_per_second down_watts up_watts", False),
    "job": (Job, {"workload": "resnet18", "chip": "h100", "devices": 8, "batch": 32, "examples": 1e6,
                  "utilization": 0.4, "waiting": 0.1, "compression": 2, "host_watts": 1},
            "devices batch examples utilization waiting compression host_watts", False),
    "mix": (lambda coal: footprint.mix({"coal": coal}), {"coal": 1.0}, "", False),
    "gemm_joules": (footprint.gemm_joules, PRODUCT, "", False),
    "measure": (lambda every_seconds: measure(every_seconds).__enter__(), {"every_seconds": 1.0}, "", None),
    "cluster": (lambda **given: Cluster("h100", inner_link="ideal", **given),
                {"devices": 8, "devices_per_node": 4, "straggler": 0.1}, "", False),
    "simulate": (simulate, {**RESNET, "batch": 8, "overlap": 0.5, "utilization": 0.5, "measured_seconds": 0.1},
                 "batch overlap utilization", False),
    "measured step": (simulate, {**RESNET, "measured_seconds": 0.1}, "measured_seconds", False),
    "scaling": (lambda batch: scaling("resnet18", [1, 2], batch=batch, mode="strong"), {"batch": 8}, "", False),
    "sweep": (lambda **given: sweep("resnet18", inner_link="ideal", **given), {
        "devices": 8, "devices_per_node": 4, "batch": 8, "overlap": 0.5, "straggler": 0.1}, "", True),
    "link": (Link, {"latency_seconds": 1e-6, "bytes_per_second": 1e9}, "latency_seconds", True),
    "message on a link": (lambda bytes: Link(1e-6, 1e9).seconds(bytes), {"bytes": 1}, "", True),
    "shared": (lambda ways: Link(1e-6, 1e9).shared(ways), {"ways": 2}, "", True),
    "fabric": (lambda **given: Fabric("ideal").seconds("all_reduce", given["bytes"], given["devices"],
                                                       given["reduce_seconds_per_byte"]),
               {"bytes": 1e6, "devices": 8, "reduce_seconds_per_byte": 0.0}, "", True),
    "scatter": (lambda **given: network.reduce_scatter_seconds(8, 1e6, "ideal", **given),
                {"reduce_seconds_per_byte": 0.0}, "", True),
    "nccl": (lambda devices, bus_bytes_per_second: nccl_tuner.bandwidth("ring", "ll", 1, devices, bus_bytes_per_second),
             {"devices": 8, "bus_bytes_per_second": 1e9}, "devices", True),
    "buckets": (lambda bucket_bytes: overlap.buckets(np.ones(3), bucket_bytes), {"bucket_bytes": 2}, "", None),
    "layer times": (lambda **given: compute.layer_times("resnet18", "h100", "bf16", **given),
                    {"batch": 8, "utilization": 0.5}, "", None),
    "amdahl": (lambda seconds: amdahl.speedup([seconds, 1.0], [2.0, 1.0]), {"seconds": 1.0}, "", None),
    "rest": (amdahl.bound, {"rest": 0.5}, "", True),
    "cycles": (systolic.cycles, {"m": 8, "n": 8, "k": 8, "rows": 8, "columns": 8}, "", True),
    "multiplier": (multiplier.energy_joules, {"significand": 8, "bits": 8}, "bits", True),
    "quadratic law": (multiplier.quadratic_law, {"bits": 8, "reference": 16}, "reference", True),
    "chip": (lambda power_watts: Accelerator("x", "x", {"fp32": 1.0}, power_watts=power_watts), {"power_watts": 1},
             "", None),
    "precision": (lambda weight_bits: Precision("x", "x", weight_bits, 8, 8, ("fp8",)), {"weight_bits": 8}, "", False),
    "layer": (lambda m: Layer("x", "linear", m=m, n=1, k=1), {"m": 1}, "", False),
    "gpt": (lambda width: workloads.gpt(1, width, heads=1), {"width": 64}, "", False),
    "timeline": (lambda device: simulate("resnet18", "h100").timeline(device), {"device": 1}, "", False),
}  # fmt: skip
ALLOWED = {"measured_seconds": None, "power_watts": None, "bucket_bytes": math.inf}  # unknown; a single bucket
BAD = [(name, number) for name, (_, given, numbers, _) in CALLS.items() for number in numbers.split() or given]


@pytest.mark.parametrize(("name", "number"), BAD, ids=lambda word: word)
def test_what_is_no_number_or_out_of_range_gets_one_line_that_names_it(name, number):
    function, given, _, arrays = CALLS[name]
    if name != "measure":
        function(**given)
    word = number.replace("latency_seconds", "latency").replace("_", "[_ ]")
    for bad in [*WORDS, *NOT_FINITE, *NEGATIVE, *(LISTS if arrays is False else [])]:
        if bad is ALLOWED.get(number, ""):
            continue
        with pytest.raises(ValueError, match=word) as problem:
            function(**given | {number: bad})
        assert "\n" not in str(problem.value)


FORMULAS = ("bill", "bill_of", "carbon", "operations", "hours", "message", "federated", "energy_of")


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_of_the_bill_take_lists_and_arrays_number_by_number(name):
    function, given, _, _ = CALLS[name]
    one = function(**given)
    for number in given:
        many = function(**given | {number: [given[number]] * 2})
        flat = [vars(x).values() if hasattr(x, "__dict__") else [x] for x in (one, many)]
        for a, b in zip(*flat, strict=True):
            assert np.array_equal(np.broadcast_to(b, 2), [a, a]), number


NARROW = {  # a function of two small numbers
    "simulate": lambda devices, batch: simulate("resnet18", Cluster("h100", devices), batch=batch).throughput,
    "job": lambda devices, batch: Job("gpt", "v100", devices=devices, batch=batch, waiting=0.1).hours("fp16_mixed"),
    "gemm_joules": lambda m, n: footprint.gemm_joules(**PRODUCT | {"m": m, "n": n}),
    "device": lambda rate, watts: (
        footprint.federated(operations=9, down_bytes=1, up_bytes=1, device=Device("x", "x", rate, watts)).compute_joules
    ),
    "scaling": lambda batch, devices: scaling("resnet18", [1, devices], batch=batch, mode="strong").throughput.tolist(),
}


@pytest.mark.parametrize("name", NARROW)
def test_numbers_of_numpy_count_as_those_of_python(name):
    for dtype in (np.int8, np.uint8, *([] if name == "gemm_joules" else [np.float16, np.float32])):
        assert NARROW[name](dtype(100), dtype(120)) == NARROW[name](100, 120)


def test_the_value_that_is_wrong_is_named():
    with pytest.raises(ValueError, match="latency_seconds of a link must be finite and 0 or more, got inf"):
        Link(np.array([1e-6, math.inf]), 1e9)
    with pytest.raises(ValueError, match=r"bytes_per_second of a link must be positive, got nan"):
        Link(1e-6, np.array([1e9, math.nan]))


def test_a_country_goes_by_its_name_and_by_its_codes():
    assert footprint.region("DE") == footprint.region("deu") == footprint.region("Germany")
    assert footprint.carbon(1000, "FRA") == footprint.carbon(1000, "france") == 56.0
    assert footprint.bill(watts=1000, hours=1, pue=1, region="GB").kilograms == pytest.approx(0.238)
    codes = [code for region in footprint.regions().values() for code in region.codes]
    assert len(codes) == len(set(codes)) == 42 and all(len(code) in (2, 3) for code in codes)
    with pytest.raises(ValueError, match="there is no region 'XX'"):
        footprint.region("XX")
