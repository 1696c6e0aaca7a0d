"""4-bit training: the checks of its six claims hold and fail as they should; a cheap measurement of each."""

import numpy as np
import pytest

from lplab import claims
from lplab.claims.framework.branches import BranchPlan
from lplab.claims.framework.results import key
from lplab.claims.papers import sun_2020_ablation, sun_2020_gradscale, sun_2020_radix4, sun_2020_two_phase
from lplab.claims.papers.sun_2020_ablation import ALL, EIGHT, FORWARD, ORDER, PICTURES, SUN_2020_ABLATION
from lplab.claims.papers.sun_2020_ablation import TEXT as CHARACTERS
from lplab.claims.papers.sun_2020_gradscale import DEEP, SUN_2020_GRADSCALE, TEXT
from lplab.claims.papers.sun_2020_gradscale import SCALES as SCALES_OF
from lplab.claims.papers.sun_2020_hardware import FOUR_BITS, MIXES, PUBLISHED, SUN_2020_HARDWARE, products, speed
from lplab.claims.papers.sun_2020_radix4 import FLOAT, ONE_SCALE, PER_LAYER, SCALES, SUN_2020_RADIX4
from lplab.claims.papers.sun_2020_threshold import (
    DRAWN,
    GRADIENTS,
    MULTIPLIERS,
    SMALL,
    SUN_2020_THRESHOLD,
    error,
    samples,
)
from lplab.claims.papers.sun_2020_two_phase import SINGLE, SUN_2020_TWO_PHASE, TWO
from lplab.quantizers.radix4 import reference_radix4
from tests.claims.changed_numbers import but, holds

# ---- the threshold ---------------------------------------------------------------------------------------------------


def thresholds(point, seed):
    name = point["distribution"]
    result = {f"error_{m:.2f}": 1 + abs(m - 1.6) for m in MULTIPLIERS}
    bias = {"uniform": 0.0}.get(name, -0.15)
    return result | {"best": 2.0 if name == SMALL else 1.6, "bias": bias, "unbiased": 1.9}


def test_the_threshold_holds():
    assert holds(SUN_2020_THRESHOLD, thresholds) == ([True, True], [True, True, True])


@pytest.mark.parametrize(("name", "value", "wanted", "ring", "which"), [
    ("best", 1.7, {"distribution": "uniform", "seed": 1}, 0, 0),
    ("error_1.00", 1.0, {}, 0, 1),
    ("error_2.20", 1.0, {}, 0, 1),
    ("best", 1.6, {"distribution": SMALL}, 1, 0),
    ("bias", 0.0, {}, 1, 1),
    ("best", 1.8, {"distribution": GRADIENTS}, 1, 2),
])  # fmt: skip
def test_the_threshold_can_fail(name, value, wanted, ring, which):
    assert not holds(SUN_2020_THRESHOLD, but(thresholds, name, value, **wanted))[ring][which]


def test_errors_of_a_multiplier_are_those_of_the_procedure():
    x = samples("gaussian", 0)[:50]
    squared, bias = error(x, 1.3)
    wrong = reference_radix4(x, 1.3) - x
    assert squared == pytest.approx((wrong @ wrong) / (x @ x))
    assert bias == pytest.approx((np.abs(reference_radix4(x, 1.3)).sum() - np.abs(x).sum()) / np.abs(x).sum())


@pytest.mark.parametrize("name", [*DRAWN, SMALL, GRADIENTS])
def test_samples_fit_the_grid(name):
    largest = np.abs(samples(name, 2)).max()
    assert (largest < 1 / 32) if name == SMALL else (32 < largest < 100)


# ---- the area model --------------------------------------------------------------------------------------------------


def test_the_model_is_exact_and_can_fail():
    kept = claims.stored(SUN_2020_HARDWARE).numbers

    def stored(point, seed):
        return kept[key(point, seed)]

    assert holds(SUN_2020_HARDWARE, stored) == ([True] * 3, [True] * 2)
    assert not holds(SUN_2020_HARDWARE, but(stored, "speed", 6.9, mix=FOUR_BITS))[0][0]
    assert not holds(SUN_2020_HARDWARE, but(stored, "speed", 3.0, mix="INT4/FP8"))[0][1]
    assert not holds(SUN_2020_HARDWARE, but(stored, "speed", 2.5, mix="INT4/FP16"))[0][2]
    assert not holds(SUN_2020_HARDWARE, but(stored, "speed", 5.2, mix="expanding FP8", stride="1 × 1"))[1][0]
    assert not holds(SUN_2020_HARDWARE, but(stored, "speed", 5.0, mix="all 1 × 1 FP8"))[1][1]


def test_speeds_by_hand():
    assert speed(("fp16",) * 3) == 1 and speed(("fp8",) * 3) == 2
    assert speed(("fp4", "fp4", "fp4"), eights=1.0) == pytest.approx(3 / (0.55 / 4 + 1))
    assert set(MIXES) < set(PUBLISHED)


def test_products_of_resnet_50_by_torch_s_own_shapes():
    """The first and last bottleneck block counted by hand."""
    kinds = products("3 × 3")
    assert kinds["reducing"] == (
        56**2 * 64 * (64 + 2 * 256)
        + 56**2 * 256 * 128 + 3 * 28**2 * 512 * 128
        + 28**2 * 512 * 256 + 5 * 14**2 * 1024 * 256
        + 14**2 * 1024 * 512 + 2 * 7**2 * 2048 * 512
    )  # fmt: skip
    assert kinds["3 × 3"] == 9 * (3 * 56**2 * 64**2 + 4 * 28**2 * 128**2 + 6 * 14**2 * 256**2 + 3 * 7**2 * 512**2)


# ---- radix 4 ---------------------------------------------------------------------------------------------------------


def radices(point, seed):
    """A window of 8 octaves for radix 4 and of 2 for radix 2."""
    if point["gradients"] == FLOAT:
        return {"loss": 0.8 + 0.1 * seed, "error": 10.0, "lost": 0.0}
    if point["gradients"] == PER_LAYER:
        return {"loss": 0.9 if point["radix"] == 4 else 0.8, "error": 10.0, "lost": 0.0}
    low = {4: 6, 2: 12}[point["radix"]]
    good = low <= point["scale"] <= 14
    lost = 0.1 if point["scale"] >= low else 0.9
    loss = {4: 0.92, 2: 0.85}[point["radix"]] if good else 3.0
    return {"loss": loss + 0.1 * seed, "error": 12.0 if good else 80.0, "lost": lost}


def test_radix_4_holds():
    assert holds(SUN_2020_RADIX4, radices) == ([True] * 3, [True] * 3)


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "loss", "value": 3.0, "radix": 4, "scale": 10}, 0, 0),
    ({"name": "error", "value": 15.0, "radix": 2}, 0, 1),
    ({"name": "loss", "value": 1.2, "radix": 4}, 0, 2),
    ({"name": "lost", "value": 0.0, "radix": 2}, 1, 0),
    ({"name": "loss", "value": 1.0, "radix": 2, "gradients": PER_LAYER}, 1, 1),
    ({"name": "loss", "value": 0.7, "radix": 4, "scale": 10}, 1, 2),
], ids=["narrow", "no more errors", "far from float32", "nothing lost", "per layer worse", "finer"])  # fmt: skip
def test_radix_4_can_fail(change, ring, which):
    assert not holds(SUN_2020_RADIX4, but(radices, **change))[ring][which]


def test_one_training_with_one_scale_in_short(monkeypatch):
    monkeypatch.setattr(sun_2020_radix4, "STEPS", 3)
    four, two = (
        claims.measure(SUN_2020_RADIX4, {"gradients": ONE_SCALE, "radix": radix, "scale": SCALES[4]}, 0)
        for radix in (4, 2)
    )
    assert four["steps"] == 3 and four["most_lost"] < two["most_lost"]
    assert claims.measure(SUN_2020_RADIX4, {"gradients": FLOAT}, 0)["lost"] == 0


# ---- a scale for each layer ------------------------------------------------------------------------------------------


def scales(point, seed):
    """A scale for each layer loses a third of what a single one does; layers 6 octaves apart, 10 at first."""
    if point["gradients"] == FLOAT:
        layers = {f"layer_{number}": -8.0 + number for number in range(7)}
        return {"loss": 2.8 + 0.1 * seed, "train_loss": 2.8 + 0.1 * seed, "spread": 6.0, "first_spread": 10.0, **layers}
    lost = 0.01 if point["gradients"] == PER_LAYER else 0.03
    loss = 2.8 + 0.1 * seed + lost * (1 + 0.01 * seed)
    lowest = point.get("scale") == SCALES_OF[point["network"]][0]
    own = point["gradients"] == PER_LAYER
    numbers = {"octaves": 6.0 if own else 0.0, "zeros": 0.05 if own else 0.9 if lowest else 0.2, "saturated": 0.0}
    return {"loss": loss, "train_loss": loss, **numbers}


DEEP_FLOAT = {"network": DEEP, "gradients": FLOAT}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "octaves", "value": 2.0, "network": DEEP, "gradients": PER_LAYER, "seed": 1}, 0, 0),
    ({"name": "octaves", "value": 4.0, "network": TEXT, "gradients": PER_LAYER}, 0, 0),
    ({"name": "loss", "value": 2.8, "network": DEEP, "gradients": ONE_SCALE, "seed": 0}, 0, 1),
    ({"name": "train_loss", "value": 2.84, "network": TEXT, "gradients": PER_LAYER, "seed": 0}, 0, 2),
    ({"name": "spread", "value": 12.5, **DEEP_FLOAT, "seed": 2}, 1, 0),
    ({"name": "first_spread", "value": 7.0, **DEEP_FLOAT}, 1, 1),
    ({"name": "zeros", "value": 0.4, "network": TEXT, "gradients": ONE_SCALE}, 1, 2),
    ({"name": "train_loss", "value": 3.9, "network": DEEP, "scale": 16}, 1, 3),
], ids=[
    "close together", "in the other, too", "one scale is as good", "little back", "beyond the grid", "always close",
    "no layer suffers", "scales matter",
])  # fmt: skip
def test_gradscale_holds_and_can_fail(change, ring, which):
    assert holds(SUN_2020_GRADSCALE, scales) == ([True] * 3, [True] * 4)
    assert not holds(SUN_2020_GRADSCALE, but(scales, **change))[ring][which]


def test_one_branch_of_eleven_layers_in_short(monkeypatch, tmp_path):
    monkeypatch.setenv("LPLAB_CHECKPOINTS", str(tmp_path))
    monkeypatch.setitem(sun_2020_gradscale.PLANS, DEEP, BranchPlan(before=20, steps=2))
    plain, own, one = (
        claims.measure(SUN_2020_GRADSCALE, {"network": DEEP, **way}, 0)
        for way in ({"gradients": FLOAT}, {"gradients": PER_LAYER}, {"gradients": ONE_SCALE, "scale": 4})
    )
    layers = [plain[f"layer_{number}"] for number in range(9)]
    assert plain["spread"] == pytest.approx(max(layers) - min(layers), abs=1e-3) and plain["first_spread"] > 5
    assert own["steps"] == one["steps"] == 2 and own["octaves"] >= 1 and own["saturated"] == 0
    assert one["zeros"] > own["zeros"] and one["octaves"] == 0


# ---- two phases ------------------------------------------------------------------------------------------------------


def phases(point, seed):
    name = point["recipe"]
    loss = {SINGLE: 1.0, TWO: 0.5}.get(name, 0.2) + 0.01 * seed
    return {
        "loss": loss,
        "retuned": 0.52 + 0.01 * seed if name == SINGLE else loss,
        "mean": 2000.0 + seed if name == SINGLE else 2.0,
        "shrink_dx": 0.13 if name in (SINGLE, TWO) else 0.0,
        "shrink_dw": 0.14 if name == TWO else 0.0,
    }


def test_the_paper_s_drift_would_be_shown():
    assert holds(SUN_2020_TWO_PHASE, phases) == ([True] * 4, [True, False])


@pytest.mark.parametrize(("change", "which"), [
    ({"name": "mean", "value": 2.0, "recipe": SINGLE, "seed": 3}, 0),
    ({"name": "mean", "value": 2100.0, "recipe": TWO, "seed": 0}, 0),
    ({"name": "mean", "value": 4.1, "recipe": TWO, "seed": 4}, 1),
    ({"name": "loss", "value": 0.5, "recipe": SINGLE, "seed": 1}, 2),
    ({"name": "retuned", "value": 0.9, "recipe": SINGLE}, 3),
], ids=["no drift on a seed", "both drift", "two drift on a seed", "no worse on a seed", "not recovered"])  # fmt: skip
def test_two_phases_can_fail(change, which):
    assert not holds(SUN_2020_TWO_PHASE, but(phases, **change))[0][which]


def test_reasons_of_two_phases():
    assert not holds(SUN_2020_TWO_PHASE, but(phases, "shrink_dw", 0.0, recipe=TWO))[1][0]
    near = but(phases, "loss", 0.55, recipe=SINGLE)
    assert holds(SUN_2020_TWO_PHASE, near)[1][1]


def test_one_training_in_two_phases_in_short(monkeypatch):
    monkeypatch.setattr(sun_2020_two_phase, "STEPS", 2)
    monkeypatch.setattr(sun_2020_two_phase, "TUNING", 2)
    monkeypatch.setattr(sun_2020_two_phase, "DEPTH", 8)
    result = claims.measure(SUN_2020_TWO_PHASE, {"recipe": TWO}, 0)
    assert result["steps"] == 2 and result["shrink_dw"] > 0 and result["mean"] > 0
    assert claims.measure(SUN_2020_TWO_PHASE, {"recipe": "float32"}, 0)["shrink_dx"] == 0


# ---- the steps away from four bits everywhere ------------------------------------------------------------------------


def steps_away(point, seed):
    order = ORDER[point["network"]] + ((SINGLE,) if point["network"] == CHARACTERS else ())
    place = order.index(point["recipe"]) if point["recipe"] in order else 2
    loss = 1 + (0.0, 0.2, 0.25, 0.3, 0.35)[place] + 0.3 * seed
    result = {"loss": loss, "train_loss": loss}
    return result if point["network"] == CHARACTERS else result | {"gradient_error": 0.1 * place}


@pytest.mark.parametrize(("change", "ring", "which"), [
    ({"name": "loss", "value": 1.0, "network": CHARACTERS, "recipe": TWO, "seed": 1}, 0, 0),
    ({"name": "train_loss", "value": 3.0, "network": CHARACTERS, "recipe": TWO, "seed": 1}, 0, 0),
    ({"name": "loss", "value": 5.0, "network": PICTURES, "recipe": ALL}, 0, 1),
    ({"name": "gradient_error", "value": 0.9, "recipe": ALL, "seed": 0}, 1, 0),
    ({"name": "gradient_error", "value": 0.9, "recipe": EIGHT}, 1, 1),
    ({"name": "loss", "value": 1.0, "network": CHARACTERS, "recipe": SINGLE, "seed": 0}, 1, 2),
    ({"name": "train_loss", "value": 1.0, "network": CHARACTERS, "recipe": FORWARD}, 1, 3),
    ({"name": "loss", "value": 1.0, "network": CHARACTERS, "recipe": FLOAT}, 1, 4),
], ids=[
    "text out of order on a seed", "one seed far off", "pictures too", "gradients too", "dW worse", "one phase",
    "gradients cost most", "seeds alike",
])  # fmt: skip
def test_the_ablation_holds_and_can_fail(change, ring, which):
    assert holds(SUN_2020_ABLATION, steps_away) == ([True] * 2, [True] * 5)
    assert not holds(SUN_2020_ABLATION, but(steps_away, **change))[ring][which]


def test_one_step_away_in_short(monkeypatch):
    monkeypatch.setitem(sun_2020_ablation.PLANS, PICTURES, BranchPlan(before=2, steps=2))
    monkeypatch.setattr(sun_2020_ablation, "BATCHES", 1)
    result = claims.measure(SUN_2020_ABLATION, {"network": PICTURES, "recipe": ALL}, 0)
    assert result["steps"] == 2 and 0 < result["gradient_error"] < sun_2020_ablation.gradient_error(TWO, 0)
