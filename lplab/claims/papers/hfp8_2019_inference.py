"""Sun et al. 2019: a trained network answers in 8 bits at once, if its batch norms are measured anew."""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import (
    counting_noise,
    join_words,
    median_and_range,
    median_and_range_signed,
)
from lplab.claims.framework.trainings import cosine, evaluate, one_thread, train

STEPS, BATCH = 480, 50
PICTURES = 1000  # of the test
TUNING = 40  # batches of training images that batch norms are measured on
FINE, WIDE, FOUR = "hfp8_forward", "fp8_152", "int4"
LABELS = {FINE: "1-4-3", WIDE: "1-5-2", FOUR: "INT4"}
MIN_RECOVERED = 0.5  # a share: what counts as "most of it"

DEPTHWISE, RESIDUAL = "depthwise", "resnet"  # the paper's kind of network, which is judged, and another one
NETWORKS = (DEPTHWISE, RESIDUAL)

POINTS: tuple[Point, ...] = tuple({"network": network} for network in NETWORKS)

claim = ClaimBuilder(
    id="hfp8_2019_inference",
    title="Batch norms measured anew bring 8-bit inference back without training",
    paper=cite("hfp8_2019"),
    where="abstract; inference",
    statement="A network that was trained in float32 can be used in 8 bits (1-4-3) if nothing but the statistics of "
    "its batch norms is measured again.",
    published="about 52 % right as it is in 1-5-2, 66 % in 1-4-3, 71.4 % re-tuned, float32 71.8 % (recalled, low "
    "confidence; the idea read in the abstract)",
    experiment=f"A small MobileNetV2 for images of 16 × 16, {STEPS} steps in float32; then weights and activations of "
    f"all layers in 1-4-3, 1-5-2 and INT4, before and after its batch norms are measured on {TUNING} batches of "
    "training images. float32 is re-tuned first, too. A residual network beside it.",
    points=POINTS,
    seeds=(0, 1, 2, 3, 4),
    budget_seconds=395,
    limits="A small network on pictures of digits; the paper's MobileNetV2 is far deeper and tells a thousand classes "
    "apart. The loss in bits tells what 1,000 images cannot tell in wrong answers.",
    version=2,
)


@claim.measurement
def measure(point: Point, seed: int) -> Numbers:
    """Train in float32, then answer in each format, before and after its batch norms are measured anew.

    Returns:
        Test loss (bits) and error (%): of float32 as trained (``float_…``) and with batch norms re-tuned
        (``float_retuned_…``); of each format ``FORMAT_direct_…`` and ``FORMAT_retuned_…``; ``FORMAT_shift``, how far
        the statistics move: the median over all channels of |mean after − mean before| / standard deviation.
    """
    from lplab.training import dequantize_model, quantize_for_inference, retune_batchnorm

    with one_thread():
        done = train(point["network"], "fp32", STEPS, seed, batch=BATCH, schedule=cosine(STEPS))
        model, test, data = dequantize_model(done.trainer.model), done.task.test(), done.task.data(BATCH, seed)
        inputs = [data(step)[0] for step in range(TUNING)]
        values = _quality("float", model, *test)
        retune_batchnorm(model, inputs)  # running means lag behind the weights: not the format's fault
        values |= _quality("float_retuned", model, *test)
        for name in LABELS:
            rounded = quantize_for_inference(model, name)
            values |= _quality(f"{name}_direct", rounded, *test)
            retune_batchnorm(rounded, inputs)
            values |= _quality(f"{name}_retuned", rounded, *test) | {f"{name}_shift": _shift(model, rounded)}
    return values


def _quality(name: str, model: Any, inputs: Any, targets: Any) -> dict[str, float]:
    return {f"{name}_{number}": value for number, value in evaluate(model, inputs, targets).items()}


def _shift(before: Any, after: Any) -> float:
    import torch

    norms = [
        ((b.running_mean - a.running_mean).abs() / b.running_var.sqrt())
        for a, b in zip(after.modules(), before.modules(), strict=True)
        if hasattr(b, "running_mean")
    ]
    return round(float(torch.cat(norms).median()), 6)


def _numbers(results: Results, number: str, network: str = DEPTHWISE) -> np.ndarray:
    return results.values(number, network=network)


def _lost(results: Results, name: str, when: str, network: str = DEPTHWISE) -> np.ndarray:
    """How much the test loss is above that of the re-tuned float32 network, bits, one a seed."""
    return _numbers(results, f"{name}_{when}_loss", network) - _numbers(results, "float_retuned_loss", network)


@claim.criterion("As it is, the network in 1-4-3 is worse")
def direct_loses(results: Results) -> CheckResult:
    """Rounded to 1-4-3 as it is, the network is worse on every seed."""
    lost = _lost(results, FINE, "direct")
    return CheckResult(bool(lost.min() > 0), f"1-4-3 as it is: {median_and_range_signed(lost)} bits against float32.")


@claim.criterion("Re-tuned batch norms take back most of it")
def retuning_takes_back_most(results: Results) -> CheckResult:
    """Re-tuning takes back more than half of the loss: of 1-4-3, in the median over the seeds."""
    direct, retuned = _lost(results, FINE, "direct"), _lost(results, FINE, "retuned")
    share = 1 - float(np.median(retuned)) / max(float(np.median(direct)), 1e-12)
    return CheckResult(
        share > MIN_RECOVERED,
        f"With batch norms measured anew: {median_and_range_signed(retuned)} bits: {100 * share:.0f} % of the loss is "
        "taken back.",
    )


@claim.criterion("1-5-2 loses more")
def one_bit_less_loses_more(results: Results) -> CheckResult:
    """1-5-2 loses more than 1-4-3 on every seed, before and after."""
    pairs = [(_lost(results, WIDE, when), _lost(results, FINE, when)) for when in ("direct", "retuned")]
    text = [
        f"{median_and_range_signed(wide)} bits {word}"
        for (wide, _), word in zip(pairs, ("as it is", "re-tuned"), strict=True)
    ]
    return CheckResult(all(bool((wide > fine).all()) for wide, fine in pairs), f"1-5-2: {join_words(text)}.")


@claim.explanation("The coarser the grid, the further statistics move")
def more_is_lost_more_is_won(results: Results) -> CheckResult:
    """Where rounding is coarser, statistics move further, and re-tuning wins more: INT4 shows it best."""
    shift = {name: float(np.median(_numbers(results, f"{name}_shift"))) for name in LABELS}
    won = {n: float(np.median(_lost(results, n, "direct") - _lost(results, n, "retuned"))) for n in LABELS}
    text = [f"{LABELS[n]} {shift[n]:.3f} standard deviations, {won[n]:.3f} bits won" for n in LABELS]
    return CheckResult(
        shift[FINE] < shift[WIDE] < shift[FOUR] and won[FINE] < won[WIDE] < won[FOUR],
        f"How far the means of a channel move, and what measuring them anew wins: {'; '.join(text)}.",
    )


@claim.explanation("Wrong answers hardly show it")
def errors_are_too_coarse(results: Results) -> CheckResult:
    """In wrong answers the loss of 1-4-3 is hardly visible: within two standard deviations of the test set."""
    float32, direct = (_numbers(results, f"{name}_error") for name in ("float_retuned", f"{FINE}_direct"))
    noise = counting_noise(float(np.median(float32)), PICTURES)
    return CheckResult(
        bool(np.abs(direct - float32).max() < noise),
        f"In wrong answers: float32 {median_and_range(float32, 1)} %, 1-4-3 as it is {median_and_range(direct, 1)} %, "
        f"and {PICTURES:,} test images tell {noise:.1f} points apart.",
    )


@claim.explanation("A residual network loses less, so there is less to take back")
def a_residual_network_loses_less(results: Results) -> CheckResult:
    """Why the network is a depthwise one: in the median, 1-4-3 costs a residual network less of its loss."""
    lost = {network: _lost(results, FINE, "direct", network) for network in NETWORKS}
    back = _lost(results, FINE, "retuned", RESIDUAL)
    return CheckResult(
        bool(np.median(lost[RESIDUAL]) < np.median(lost[DEPTHWISE])),
        f"A residual network in 1-4-3: {median_and_range_signed(lost[RESIDUAL])} bits as it is, "
        f"{median_and_range_signed(back)} re-tuned.",
    )


@claim.summary
def measured(results: Results) -> str:
    """What each format loses, as it is and re-tuned."""
    parts = [
        f"{LABELS[n]} {median_and_range_signed(_lost(results, n, 'direct'))} as it is, "
        f"{median_and_range_signed(_lost(results, n, 'retuned'))} re-tuned"
        for n in (FINE, WIDE)
    ]
    return "; ".join(parts) + f" bits (float32 {median_and_range(_numbers(results, 'float_retuned_loss'))})"


claim.draw(
    "test loss, bits above float32",
    lambda results: {
        f"{LABELS[name]} {word}": _lost(results, name, when)
        for name in (FINE, WIDE)
        for when, word in (("direct", "as it is"), ("retuned", "re-tuned"))
    },
    differences=True,
)


def in_their_unit(results: Results) -> str:
    """Right answers in percent, in the order of the published ones."""
    names = (f"{WIDE}_direct", f"{FINE}_direct", f"{FINE}_retuned", "float_retuned")
    right = [100 - float(np.median(_numbers(results, f"{name}_error"))) for name in names]
    return "{:.1f} % right as it is in 1-5-2, {:.1f} % in 1-4-3, {:.1f} % re-tuned, float32 {:.1f} %".format(*right)


claim.compared(theirs_on="ImageNet, MobileNetV2", ours_on="cluttered digits, a small MobileNetV2", ours=in_their_unit)
claim.found(direct_loses, holds="1-4-3 costs a little", fails="1-4-3 costs nothing")
claim.found(
    retuning_takes_back_most,
    holds="batch norms measured anew take most of it back",
    fails="batch norms measured anew do not take most of it back",
)
claim.found(
    errors_are_too_coarse, holds="right answers hardly show it", fails="right answers show it, too", limits=True
)
claim.found(one_bit_less_loses_more, holds="1-5-2 loses more", fails="1-5-2 does not lose more")

HFP8_2019_INFERENCE = claim.build()
