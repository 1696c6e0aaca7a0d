"""Times of layers, roofline, arrays, Amdahl, multipliers: against sums by hand and published numbers."""

import dataclasses

import numpy as np
import pytest

from lplab.hardware import accelerators, amdahl, compute, multiplier, precisions, systolic, workloads
from lplab.hardware.layer_times import PARTS
from lplab.hardware.workloads.workload import Layer, Workload

DENSE = Layer("fc", "linear", m=1, n=1000, k=2000, weights=2_000_000, inputs=2000, outputs=1000)
ONE = Workload("one", "one layer", (DENSE,))
CHIP = accelerators.from_row({"name": "c", "fp16": 1e12, "fp8": 2e12, "memory_bytes_per_second": 1e9})


def test_one_layer_by_hand():
    times = compute.layer_times(ONE, CHIP, "fp16_mixed", batch=100, fused=True)
    operations = 2 * 100 * 1000 * 2000
    assert times.compute_seconds.tolist() == [[operations / 1e12]] * 3
    tensors = 2 * (100 * 2000 + 1000 * 2000 + 100 * 1000)
    assert times.memory_seconds[:, 0] == pytest.approx([tensors / 1e9] * 3)
    assert not times.compute_bound.any()  # 4.6 MB at 1 GB/s against 0.4 ms of multiplying
    update = 2_000_000 * (2 * 4 + 2 + 2 * 4) / 1e9
    assert times.step_seconds == pytest.approx(3 * tensors / 1e9 + update)
    assert times.part("memory") == pytest.approx(3 * tensors / 1e9) and times.part("update") == pytest.approx(update)


def test_parts_sum_to_the_step_for_every_workload():
    for name in workloads.names():
        times = compute.layer_times(name, "h100", "hfp8_2019", batch=8)
        assert sum(times.parts().values()) == pytest.approx(times.step_seconds), name
        assert sum(times.parts_by_layer()[part].sum() for part in PARTS) == pytest.approx(times.step_seconds), name
        assert np.isfinite(times.seconds).all() and (times.seconds >= 0).all()
        assert 0 < times.share_of_peak <= 1


def test_a_sweep_of_batches_is_one_call_and_gives_the_same():
    batches = np.arange(1, 2001)
    swept = compute.layer_times("resnet18", "a100", "bf16", batch=batches)
    assert swept.step_seconds.shape == (2000,)
    assert swept.step_seconds[255] == compute.layer_times("resnet18", "a100", "bf16", batch=256).step_seconds
    per_image = swept.step_seconds / batches
    assert np.all(np.diff(per_image) <= 1e-18)  # the weights are read once for all


def test_half_the_bits_are_half_the_time_only_where_products_are_all_there_is():
    def ratio(workload, **more):
        wide, narrow = (compute.layer_times(workload, "h100", p, batch=256, **more) for p in ("bf16", "hfp8_2019"))
        return wide.step_seconds / narrow.step_seconds

    assert 1.9 < ratio("gpt3", fused=True) <= 2
    assert ratio("resnet50") < 1.1  # norms and activations are what is left, and conversion comes on top


def test_a_chip_without_the_rate_says_so_or_falls_back():
    with pytest.raises(ValueError, match="NVIDIA A100 SXM 80 GB has no rate for fp8 products; it has fp32, tf32, fp16"):
        compute.layer_times("resnet50", "a100", "hfp8_2019")
    times = compute.layer_times("resnet50", "a100", "hfp8_2019", fall_back=True)
    assert set(times.peak_names.ravel()) == {"fp16"}
    four = compute.layer_times("resnet50", "b200", "int4_fp4_2020", fall_back=True)
    assert set(four.peak_names.ravel()) == {"int8", "fp4", "fp16"}  # INT8 holds every INT4, FP4 is there
    assert compute.peak_ops_per_second("h100", ("fp4",), fall_back=True) == ("fp8", 1979e12)
    assert compute.peak_ops_per_second("v100", ("int4",), fall_back=True) == ("fp16", 125e12)  # INT8 is slower
    with pytest.raises(ValueError, match="has no rate for fp32"):
        compute.layer_times("resnet50", "tpu-v4", "fp32", fall_back=True)


def test_inference_has_a_forward_pass_alone():
    times = compute.layer_times("resnet50", "a100", "int8", batch=1)
    assert times.dx_seconds.sum() == times.dw_seconds.sum() == times.part("update") == 0
    assert times.flops.sum() == 2 * workloads.get("resnet50").multiplications
    with pytest.raises(ValueError, match="has no backward pass; pass training=False"):
        compute.layer_times("resnet50", "a100", "int8", training=True)
    assert compute.layer_times("resnet50", "tpu-v1", "int8").step_seconds > 0


def test_layers_that_stay_in_16_bits_run_at_its_rate():
    resnet, four = workloads.get("resnet50"), precisions.get("int4_fp4_2020")
    times = compute.layer_times(resnet, "ibm-4bit-2020", four, batch=32)
    wide = compute.is_16_bit_layer(resnet, four)
    assert set(times.peak_names[:, wide].ravel()) == {"fp16"} and set(times.peak_names[0, ~wide]) == {"int4"}
    assert set(times.peak_names[1:, ~wide].ravel()) == {"fp4"}


def test_products_of_attention_stay_in_16_bits_where_the_recipe_says_so():
    gpt, chip = workloads.get("gpt3"), accelerators.get("b200")
    times = compute.layer_times(gpt, chip, "nvfp4_2025")
    attention = gpt.columns["kind"] == "attention"
    edges = np.isin(gpt.columns["exception"], ["last", "embedding"])
    assert attention.any() and set(times.peak_names[:, attention | edges].ravel()) == {"fp16"}
    assert set(times.peak_names[:, ~(attention | edges)].ravel()) == {"fp4"}
    mxfp4 = compute.layer_times(gpt, chip, "mxfp4_2025").peak_names[:, ~(attention | edges)]
    assert set(mxfp4[0]) == {"bf16"} and set(mxfp4[1:].ravel()) == {"fp4"}


def test_the_scales_of_blocks_are_bytes():
    """A linear layer of one example: x, W and y forward; the bits of W and x are those with their share of a scale."""
    gpt = workloads.get("gpt3")
    plain = precisions.Precision("plain", "plain", 4, 4, 4, ("fp4",))
    scaled = dataclasses.replace(plain, weight_bits=4.25, activation_bits=4.25, gradient_bits=4.25)
    few, many = (compute.layer_times(gpt, "b200", each).nbytes[0] for each in (plain, scaled))
    c = gpt.columns
    is_linear = (c["m"] > 0) & (c["kind"] != "attention")
    numbers = (c["inputs"] + c["groups"] * c["n"] * c["k"] * c["steps"]) * c["count"]
    np.testing.assert_allclose((many - few)[is_linear], (numbers * 0.25 / 8)[is_linear])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"utilization": 0}, "utilization must be above 0 and at most 1"),
        ({"utilization": "best"}, "utilization must be a number up to 1 or 'array'"),
        ({"utilization": "array"}, "NVIDIA H100 SXM has no systolic array in the table"),
        ({"batch": 0}, "batch must be a whole number from 1"),
    ],
)
def test_bad_settings_get_one_line(more, message):
    with pytest.raises(ValueError, match=message):
        compute.layer_times("resnet18", "h100", "bf16", **more)


def test_the_table_of_one_step():
    frame = compute.layer_times("resnet18", "h100", "bf16", batch=4).to_frame()
    assert len(frame) == 3 * len(workloads.get("resnet18"))
    assert set(frame.bound) <= {"", "compute", "memory"}
    with pytest.raises(ValueError, match="one batch"):
        compute.layer_times("resnet18", "h100", "bf16", batch=[1, 2]).to_frame()


# ---- roofline --------------------------------------------------------------------------------------------------------


def test_ridges_of_h100_and_b200():
    assert compute.ridge("h100", "bf16") == pytest.approx(295, rel=0.01)  # T47
    assert compute.ridge("b200", "bf16") == pytest.approx(281, rel=0.01)
    assert compute.ridge("h100", "fp8") == pytest.approx(2 * 295, rel=0.01)
    edge = compute.ridge("h100", "bf16")
    at = compute.roofline("h100", "bf16", [0, edge / 2, edge, 10 * edge])
    assert at == pytest.approx([0, 989e12 / 2, 989e12, 989e12])
    with pytest.raises(ValueError, match="intensity must be 0 operations per byte or more"):
        compute.roofline("h100", "bf16", -1)
    with pytest.raises(ValueError, match="the memory bandwidth of .* is unknown; a roofline needs it"):
        compute.ridge("ibm-core-2018", "fp16")


def test_no_product_is_above_its_roof():
    times = compute.layer_times("vgg16", "h100", "bf16", batch=64)
    some = times.flops > 0
    reached = times.flops[some] / times.product_seconds[some]
    roof = compute.roofline("h100", "bf16", times.intensity[some])
    assert reached == pytest.approx(roof)


# ---- arrays ----------------------------------------------------------------------------------------------------------


def multiplied(a, b, rows, columns):
    """The product on an output-stationary array, cycle by cycle: operands enter skewed and move one cell a cycle."""
    (m, k), n = a.shape, b.shape[1]
    out, cycles = np.zeros((m, n)), 0
    for top in range(0, m, rows):
        for left in range(0, n, columns):
            tile = (slice(top, top + rows), slice(left, left + columns))
            part_a, part_b = np.zeros((rows, k)), np.zeros((k, columns))
            part_a[: len(a[tile[0]])], part_b[:, : b[:, tile[1]].shape[1]] = a[tile[0]], b[:, tile[1]]
            sums, right, down = np.zeros((rows, columns)), np.zeros((rows, columns)), np.zeros((rows, columns))
            r, c = np.arange(rows), np.arange(columns)
            for t in range(k + rows + columns - 2):  # the last cell gets its last pair then, and not before
                right, down = np.roll(right, 1, axis=1), np.roll(down, 1, axis=0)
                right[:, 0] = [part_a[i, t - i] if 0 <= t - i < k else 0 for i in r]
                down[0] = [part_b[t - i, i] if 0 <= t - i < k else 0 for i in c]
                before = sums.copy()
                sums = sums + right * down
                cycles += 1
            assert sums[-1, -1] != before[-1, -1] or part_a[-1, -1] * part_b[-1, -1] == 0
            out[tile] = sums[: len(a[tile[0]]), : b[:, tile[1]].shape[1]]
    return out, cycles


@pytest.mark.parametrize("sizes", [(4, 4, 4, 4, 4), (5, 4, 4, 4, 4), (9, 9, 7, 4, 2), (1, 1, 1, 1, 1), (3, 8, 1, 8, 3)])
def test_output_stationary_cycles_are_those_of_the_cells(sizes):
    m, n, k, rows, columns = sizes
    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 9, (m, k)), rng.integers(1, 9, (k, n))
    product, taken = multiplied(a, b, rows, columns)
    assert np.array_equal(product, a @ b)
    assert systolic.cycles(m, n, k, rows=rows, columns=columns) == taken


def test_weight_and_input_stationary_load_first():
    assert systolic.cycles(100, 8, 16, 8, 8, "ws") == 2 * 1 * (100 + 8 + 8 + 8 - 2)
    assert systolic.cycles(100, 8, 16, 8, 8, "is") == 2 * 13 * (8 + 8 + 8 + 8 - 2)
    assert systolic.cycles(100, 8, 16, 8, 8, "WS") == systolic.cycles(100, 8, 16, 8, 8, "ws")
    assert systolic.utilization(10**6, 128, 128, 128, 128, "ws") == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match="there is no dataflow 'oss'; did you mean os"):
        systolic.cycles(1, 1, 1, 1, 1, "oss")
    with pytest.raises(ValueError, match="k must be a number from 1, got 0"):
        systolic.cycles(1, 1, 0, 1, 1)
    with pytest.raises(ValueError, match="rows must be a number from 1"):
        systolic.cycles(1, 1, 1, 0, 1)
    with pytest.raises(ValueError, match=r"m must be a whole number, got 1\.5"):
        systolic.cycles(1.5, 1, 1, 1, 1)
    with pytest.raises(ValueError, match="columns must be a whole number, got inf"):
        systolic.utilization(1, 1, 1, 1, np.inf)


def test_depthwise_convolutions_leave_arrays_empty():
    times = compute.layer_times("mobilenetv2", "ibm-rapid-training", "hfp8_2019", batch=512, utilization="array")
    full = compute.layer_times("mobilenetv2", "ibm-rapid-training", "hfp8_2019", batch=512)
    share = full.compute_seconds / np.where(times.compute_seconds > 0, times.compute_seconds, 1)
    deep = workloads.get("mobilenetv2").columns["exception"] == "depthwise"
    some = full.compute_seconds[0] > 0
    assert share[0, deep].max() < 0.02 < 0.5 < np.median(share[0, some & ~deep])
    assert share[full.compute_seconds > 0].max() <= 1


# ---- Amdahl ----------------------------------------------------------------------------------------------------------


def test_amdahl():
    assert amdahl.speedup([0.5, 0.5], [np.inf, 1]) == 2 == amdahl.bound(0.5)
    assert amdahl.speedup([3, 1], [1, 1]) == 1 and amdahl.bound(0) == np.inf
    with pytest.raises(ValueError, match="seconds must be 0 or more"):
        amdahl.speedup([-1, 2], [1, 1])
    with pytest.raises(ValueError, match="factors must be above 0"):
        amdahl.speedup([1, 2], [0, 1])
    with pytest.raises(ValueError, match="rest must be a share"):
        amdahl.bound(1.5)


# ---- multipliers -----------------------------------------------------------------------------------------------------


def test_one_coefficient_for_integers_and_two_for_floats():
    for bits, joules in ((8, 0.2e-12), (32, 3.1e-12)):  # T49
        assert multiplier.energy_joules(bits, bits, "int") == pytest.approx(joules, rel=0.05)
    table = multiplier.operations()
    for name, significand, bits in (("fp16", 11, 16), ("fp32", 24, 32)):
        joules, area = table[f"{name}_multiply"]
        assert multiplier.energy_joules(significand, bits) == pytest.approx(joules)
        assert multiplier.area_um2(significand, bits) == pytest.approx(area)


def test_the_law_stops_at_the_accumulator():
    fp16, fp8, int8 = multiplier.mac("fp16"), multiplier.mac("hfp8_forward"), multiplier.mac("int8", "fp32")
    assert 1 - fp8.joules / fp16.joules == pytest.approx(0.37, abs=0.01)
    assert fp8.add_joules > fp8.multiply_joules and fp8.add_um2 > fp8.multiply_um2
    narrow = multiplier.mac("hfp8_forward", "dlfloat16")
    assert narrow.joules == pytest.approx(0.75e-12, rel=0.01) and int8.add_joules == fp8.add_joules
    bits = multiplier.significand_bits
    assert [bits(f) ** 2 for f in ("fp32", "fp16", "bf16", "dlfloat16", "e4m3fn", "e5m2", "e2m1", "int8", "int4")] == [
        *(576, 121, 64, 100, 16, 9, 4, 64, 16)
    ]
    with pytest.raises(ValueError, match="is neither a float nor an integer"):
        multiplier.mac("posit8_1")
    with pytest.raises(ValueError, match="a significand has from 1 to all bits"):
        multiplier.energy_joules(9, 8)
    with pytest.raises(ValueError, match="an adder has 1 bit or more, got 0"):
        multiplier.add_energy_joules(0)
    with pytest.raises(ValueError, match="a multiplier has 1 bit or more, got 0"):
        multiplier.quadratic_law(0)
    with pytest.raises(ValueError, match="kind must be float or int"):
        multiplier.energy_joules(8, 8, "posit")


def test_density_of_the_4_bit_unit_is_a_statement_about_area():
    assert multiplier.density_2020() == pytest.approx(7.3, rel=0.01)  # T51, grade C
    assert multiplier.quadratic_law(8) == 16 and multiplier.quadratic_law(4, reference=8) == 4
