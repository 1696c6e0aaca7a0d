"""Claims that are computed by models: stored numbers are what the models say today, every check holds and can fail."""

from dataclasses import replace

import pytest

from lplab import claims, formats
from lplab.claims.framework.results import key
from lplab.claims.papers import ddl_2017, four_bits_saving, hfp8_2019_broadcast, rapid_2021, scalecom_2020_speedup
from lplab.claims.papers.four_bits_saving import SCALECOM, SLOW
from lplab.claims.papers.hfp8_2019_broadcast import FLOAT, HALF, HYBRID, LINKS, SPARSE_8, WEIGHTS
from lplab.claims.papers.rapid_2021 import APART, FUSED, JOINED
from lplab.claims.papers.scalecom_model import DENSE, LOCAL, estimate, limit, speedup
from lplab.claims.papers.scalecom_model import SCALECOM as CLT
from lplab.claims.papers.throughput_bits import AREA, DENSITY, LAW, MAC, PEAK, STEP
from lplab.compression.sharded_weights import ShardedUpdateFormats
from lplab.hardware import Cluster, compute, simulate, workloads
from tests.claims.changed_numbers import but, holds

MODELS = ("ddl_2017", "scalecom_2020_speedup", "hfp8_2019_broadcast", "throughput_bits", "rapid_2021",
          "four_bits_saving", "strubell_2019", "patterson_2021", "gpt3_energy")  # fmt: skip
VERDICTS = {  # of the criteria, then of the explanations
    "ddl_2017": ([True] * 3, [True] * 3),
    "scalecom_2020_speedup": ([True] * 3, [True] * 4),
    "hfp8_2019_broadcast": ([True], [True] * 4),
    "throughput_bits": ([True] * 3, [True] * 3),
    "rapid_2021": ([True] * 4, [True] * 3),
    "four_bits_saving": ([False], [True] * 5),
    "strubell_2019": ([True] * 2, [True] * 2),
    "patterson_2021": ([True] * 2, [True] * 4),
    "gpt3_energy": ([True] * 2, [True] * 2),
}


def stored(name):
    kept = claims.stored(claims.get(name)).numbers
    return lambda point, seed: dict(kept[key(point, seed)])


@pytest.mark.parametrize("name", MODELS)
def test_the_stored_numbers_are_what_the_model_says_today(name):
    claim = claims.get(name)
    kept = claims.stored(claim).numbers
    for point, seed in claim.measurements():
        assert claims.measure(claim, point, seed) == pytest.approx(kept[key(point, seed)], rel=1e-5, abs=2e-6), (
            f"a model has changed: run lplab claims run {name} --fresh, read the findings, then docs/claims.md"
        )


@pytest.mark.parametrize("name", MODELS)
def test_the_verdict_of_the_stored_numbers(name):
    assert holds(claims.get(name), stored(name)) == VERDICTS[name]


FAILURES = [
    ("ddl_2017", 0, 0, ("efficiency", 80.0, {"what": "resnet50", "gpus": 256, "ports": 2, "overlap": 0.0})),
    ("ddl_2017", 0, 1, ("hours", 9.0, {"what": "hours"})),
    ("ddl_2017", 0, 1, ("efficiency", 90.0, {"what": "resnet101", "overlap": 0.0})),
    ("ddl_2017", 0, 2, ("efficiency", 94.0, {"what": "goyal", "overlap": 0.0})),
    ("ddl_2017", 1, 0, ("efficiency", 95.0, {"what": "resnet50", "ports": 1, "overlap": 0.0})),
    ("ddl_2017", 1, 1, ("efficiency", 90.0, {"what": "goyal", "overlap": 1.0})),
    ("ddl_2017", 1, 2, ("efficiency", 80.0, {"what": "resnet101", "overlap": 1.0})),
    ("scalecom_2020_speedup", 0, 0, ("seconds", 9.0, {"scheme": CLT, "teras": 100, "batch": 8, "workers": 8})),
    ("scalecom_2020_speedup", 0, 1, ("share", 0.05, {"scheme": CLT, "workers": 128})),
    ("scalecom_2020_speedup", 0, 2, ("seconds", 9.0, {"scheme": CLT, "teras": 100, "batch": 8, "workers": 128})),
    ("scalecom_2020_speedup", 1, 0, ("seconds", 1.0, {"scheme": LOCAL, "workers": 128})),
    ("scalecom_2020_speedup", 1, 2, ("share", 0.2, {"scheme": DENSE, "batch": 32, "workers": 8, "teras": 100})),
    ("scalecom_2020_speedup", 1, 3, ("share", 0.5, {"plain": True})),
    ("hfp8_2019_broadcast", 0, 0, ("milliseconds", 2000.0, {"exchange": HYBRID, "link": LINKS[1]})),
    ("hfp8_2019_broadcast", 1, 0, ("milliseconds", 1.0, {"exchange": HYBRID})),
    ("hfp8_2019_broadcast", 1, 1, ("milliseconds", 1.0, {"exchange": WEIGHTS})),
    ("hfp8_2019_broadcast", 1, 2, ("milliseconds", 1e9, {"exchange": SPARSE_8})),
    ("hfp8_2019_broadcast", 1, 3, ("bytes", 2.0, {"exchange": HYBRID})),
    ("throughput_bits", 0, 0, ("times", 9.0, {"what": PEAK, "from": "h100 fp32 fp8"})),
    ("throughput_bits", 0, 1, ("times", 2.0, {"what": PEAK, "from": "ibm fp8 int4"})),
    ("throughput_bits", 0, 2, ("times", 6.9, {"what": AREA, "from": DENSITY})),
    ("throughput_bits", 1, 0, ("times", 4.0, {"what": PEAK, "from": "b200 fp8 fp4"})),
    ("throughput_bits", 1, 1, ("times", 6.0, {"what": MAC, "from": "16 to 8"})),
    ("throughput_bits", 1, 2, ("times", 2.1, {"what": STEP, "wide": "bf16", "fused": True})),
    (
        "rapid_2021",
        0,
        0,
        ("teras", 600.0, {"network": "vgg16", "passes": APART}),
        ("teras", 500.0, {"network": "lstm_lm"}),
    ),
    ("rapid_2021", 0, 1, ("teras", 9.0, {"network": "vgg16"}), ("teras", 1e3, {"network": "lstm_lm", "passes": APART})),
    ("rapid_2021", 0, 2, ("teras", 101.0, {"network": "resnet50", "passes": FUSED})),
    ("rapid_2021", 0, 2, ("teras", 589.0, {"network": "resnet50", "passes": APART})),
    ("rapid_2021", 0, 3, ("per_watt", 1.0, {"passes": FUSED})),
    ("rapid_2021", 1, 0, ("teras", 100.0, {"passes": FUSED})),
    ("rapid_2021", 1, 1, ("teras", 101.0, {"network": "resnet50", "passes": JOINED})),
    ("rapid_2021", 1, 1, ("teras", 102.0, {"network": "resnet50", "passes": APART})),
    ("rapid_2021", 1, 2, ("teras", 90.0, {"network": "mobilenetv2"})),
    ("four_bits_saving", 1, 0, ("joules", 1e9, {"bits": "4", "link": "infiniband_ndr_x8"})),
    ("four_bits_saving", 1, 1, ("milliseconds", 0.01, {"bits": "4", "link": "infiniband_ndr_x8"})),
    ("four_bits_saving", 1, 2, ("products", 1.0, {"bits": "4"})),
    ("four_bits_saving", 1, 3, ("joules", 0.0, {"compressor": SCALECOM})),
    ("four_bits_saving", 1, 4, ("waiting", 0.0, {"bits": "4", "link": SLOW, "compressor": "none"})),
    ("strubell_2019", 0, 0, ("pounds", 27.0, {"run": "transformer_base"})),
    ("strubell_2019", 0, 1, ("published_kwh", 9000.0, {"run": "nas_2021"})),
    ("strubell_2019", 1, 0, ("published_kwh", 90_000.0, {"run": "nas_2021"})),
    ("strubell_2019", 1, 1, ("kwh", 9000.0, {"run": "nas_2021"})),
    ("patterson_2021", 0, 0, ("mwh", 90.0, {"run": "t5"})),
    ("patterson_2021", 0, 1, ("tonnes", 500.0, {"run": "gpt3"})),
    ("patterson_2021", 1, 0, ("tonnes", 50.0, {"run": "t5"})),
    ("patterson_2021", 1, 1, ("tonnes", 10.0, {"run": "gshard_600b"})),
    ("patterson_2021", 1, 2, ("dirty_tonnes", 100.0, {"run": "gpt3"})),
    ("patterson_2021", 1, 3, ("share_of_peak", 0.6, {"run": "t5"})),
    ("gpt3_energy", 0, 0, ("operations", 300.0, {"by": "rule"})),
    ("gpt3_energy", 0, 1, ("mwh", 1300.0, {"by": "rule"})),
    ("gpt3_energy", 1, 0, ("operations", 400.0, {"by": "layers"})),
    ("gpt3_energy", 1, 1, ("days", 20.0, {"by": "layers"})),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: f"{f[0]}-{f[1]}-{f[2]}")
def test_every_check_can_fail(failure):
    name, ring, which, *changes = failure
    numbers = stored(name)
    for what, value, wanted in changes:
        numbers = but(numbers, what, value, **wanted)
    assert not holds(claims.get(name), numbers)[ring][which]


def test_what_did_not_hold_could():
    """The verdict "not shown" is by numbers, not by construction."""
    fast = but(stored("four_bits_saving"), "milliseconds", 0.001, bits="4")
    assert holds(four_bits_saving.FOUR_BITS_SAVING, fast)[0] == [True]


# ---- what is behind them ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", rapid_2021.NETWORKS)
def test_joined_steps_are_those_that_need_no_whole_batch(network):
    """Taking ReLUs and additions out of the list of layers, and roundings out of the recipe, gives the same seconds."""
    apart, fused = (rapid_2021.training_times(network, passes) for passes in (APART, FUSED))
    workload = workloads.get(network)
    kept = tuple(layer for layer in workload.layers if layer.kind not in ("activation", "add"))
    rest = compute.layer_times(
        replace(workload, layers=kept), rapid_2021.TRAINING, "hfp8_2019", rapid_2021.BATCH, utilization="array"
    )
    joined = rapid_2021.step_seconds(apart, JOINED)
    assert joined == pytest.approx(rest.step_seconds - float(rest.part("conversion")), rel=1e-9)
    assert fused.step_seconds <= joined * (1 + 1e-9) < apart.step_seconds


def test_the_shares_of_the_paper_limit_its_speedups():
    assert [round(limit(0.56, c), 2) for c in (1, 3)] == [2.27, 4.82]
    assert limit(0.0) == 1 and limit(0.5) == 2


def test_scalecom_needs_fewer_seconds_wherever_something_is_sent():
    for teras in (100, 300):
        for batch in (8, 32):
            assert speedup(teras=teras, batch=batch) > 1
            full, eighth = (estimate(DENSE, teras=t, batch=batch).compute_seconds for t in (teras, 8 * teras))
            assert full / eighth == pytest.approx(8)


def test_saved_bytes_are_the_limit_of_saved_time():
    """Where all of a step is sending, what is saved is what the real exchange sends less."""
    claim = hfp8_2019_broadcast.HFP8_2019_BROADCAST
    numbers = {name: claim.measure({"exchange": name, "link": "1Mb/s"}, 0) for name in (FLOAT, HALF, HYBRID)}
    count = workloads.get("resnet50").parameters
    real = {name: sum(ShardedUpdateFormats(*formats).sent_bytes(count, 16)) for name, formats in {
        FLOAT: ["fp32"] * 4, HALF: ["fp16"] * 4, HYBRID: ["dlfloat16", "dlfloat16", "hfp8_forward", "dlfloat16"],
    }.items()}  # fmt: skip
    for name in (FLOAT, HALF):
        ratio = numbers[HYBRID]["milliseconds"] / numbers[name]["milliseconds"]
        assert ratio == pytest.approx(real[HYBRID] / real[name], rel=0.01)


def test_owners_hold_what_the_simulator_says():
    """Rest and momentum of a share in the real protocol; master copy and optimizer in the model, both in 16 bits."""
    run = simulate("resnet50", Cluster("h100", 16), precision="hfp8_2019", sharded=True)
    scheme = ShardedUpdateFormats()
    bits = formats.get(scheme.state).bits + formats.get(scheme.residual).bits
    real = workloads.get("resnet50").parameters / 16 * bits / 8
    assert run.memory["master"] + run.memory["optimizer"] == pytest.approx(real)


def test_the_head_of_22_000_classes_is_counted():
    assert pytest.approx((42.5e6 + 2048 * 21841) / 25.557e6, rel=0.01) == ddl_2017.LARGER


def test_law_and_peaks_are_what_is_published():
    numbers = stored("throughput_bits")
    assert numbers({"what": LAW, "from": "32 to 8"}, 0)["times"] == 16
    assert numbers({"what": PEAK, "from": "ibm fp16 fp8"}, 0)["times"] == 2


def test_theirs_stand_in_the_text():
    for which, value in scalecom_2020_speedup.PUBLISHED.items():
        assert f"{value:g}" in claims.get("scalecom_2020_speedup").published, which
