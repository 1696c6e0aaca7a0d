"""McMahan et al. 2017: local steps save rounds; and error feedback needs clients that come back."""

from __future__ import annotations

import numpy as np

from lplab.claims.bibliography import cite
from lplab.claims.framework.builder import ClaimBuilder
from lplab.claims.framework.results import CheckResult, Numbers, Point, Results
from lplab.claims.framework.seed_comparisons import clearly_above, median_and_range, within_noise
from lplab.compression import QSGD, Compressor, Dense, TopK

ROUNDS, STEPS, LEARNING_RATE = 20, 5, 0.1
DENSITY = 0.02
SILOS, PHONES = "10 that all come back", "200 that are asked once"
UPLOADS: dict[str, Compressor] = {
    "dense": Dense(),
    "top-k with memory": TopK(DENSITY),
    "top-k without": TopK(DENSITY, error_feedback=False),
    "QSGD": QSGD(),
}


def _point(clients: str, upload: str, steps: int = STEPS, download: str = "fp32") -> Point:
    return {"clients": clients, "upload": upload, "steps": steps, "download": download}


POINTS: tuple[Point, ...] = (
    *(_point(clients, upload) for clients in (SILOS, PHONES) for upload in UPLOADS),
    _point(SILOS, "dense", steps=1),
    _point(SILOS, "dense", download="hfp8_forward"),
)

claim = ClaimBuilder(
    id="federated_2017",
    title="Local steps save rounds; error feedback needs clients that come back",
    paper=cite("mcmahan_2017"),
    where="section 3, and what follows for compressed updates",
    statement="Clients that train for a while before they answer need 10 to 100 times fewer rounds. What error "
    "feedback does then is our own question.",
    published="10 to 100 times fewer rounds than synchronized SGD (recalled)",
    experiment=f"Ten clients are asked in each of {ROUNDS} rounds and make {STEPS} steps on digits of their own (three "
    "linear layers): either the same ten in all rounds, or each of 200 once. Updates go up dense, as top-k of "
    f"{100 * DENSITY:.0f} % with and without error feedback, or by QSGD; all bytes are counted.",
    points=POINTS,
    seeds=(0, 1, 2),
    budget_seconds=40,
    limits="Few rounds, clients with mixed digits and equally many examples; the two groups differ in examples a "
    "client, too. All clients that are asked answer.",
)


@claim.measurement
def measure(point: Point, seed: int, rounds: int = ROUNDS) -> Numbers:
    """Make the rounds; test loss and error, bytes a client and round, residuals that are lost.

    >>> result = measure(_point(PHONES, "top-k with memory", steps=1), seed=0, rounds=2)
    >>> result["lost"] == result["waiting"] > 0
    True
    """
    import torch

    from lplab.parallel import FedAvg, FederatedSettings, client_batches
    from lplab.parallel.worker import final_report
    from lplab.training import tasks

    task = tasks.get("mlp")
    every = task.data(1400, seed)(0)
    phones = point["clients"] == PHONES
    clients, batch = (200, 7) if phones else (10, 20)
    settings = FederatedSettings(
        clients=clients,
        share=10 / clients,
        local_steps=point["steps"],
        lr=LEARNING_RATE,
        upload=UPLOADS[point["upload"]],
        download=point["download"],
        without_replacement=phones,
    )
    federated = FedAvg(task.model(seed), client_batches(every[0], every[1], clients, batch, seed), settings, seed=seed)
    made = list(federated.rounds(rounds))
    values = final_report(federated.model, *(torch.as_tensor(x) for x in task.test()))
    answers = sum(len(one.responded) for one in made)
    numbers = {
        "loss": values["test_loss"] / np.log(2),
        "error": 100 * values["test_error"],
        "up": sum(one.bytes_up for one in made) / answers,
        "down": sum(one.bytes_down for one in made) / answers,
        "waiting": made[-1].pending_residual_norm,
        "lost": made[-1].lost_residual_norm,
    }
    return {name: round(float(value), 6) for name, value in numbers.items()}


def _of(results: Results, number: str, clients: str, upload: str, steps: int = STEPS, down: str = "fp32") -> np.ndarray:
    return results.values(number, **_point(clients, upload, steps, down))


@claim.criterion("Local steps save rounds")
def local_steps_save_rounds(results: Results) -> CheckResult:
    """More steps in each of as many rounds learn more."""
    one, many = (_of(results, "loss", SILOS, "dense", steps) for steps in (1, STEPS))
    return CheckResult(
        clearly_above(one, many),
        f"After {ROUNDS} rounds {median_and_range(one)} bits with one local step, {median_and_range(many)} with "
        f"{STEPS}.",
    )


@claim.criterion("Memory helps clients that come back")
def feedback_helps_returning_clients(results: Results) -> CheckResult:
    """Error feedback, clients that all come back each round."""
    kept, lost, base = (_of(results, "loss", SILOS, u) for u in ("top-k with memory", "top-k without", "dense"))
    return CheckResult(
        clearly_above(lost, kept),
        f"{SILOS}: top-k of {100 * DENSITY:.0f} % {median_and_range(kept)} bits with error feedback, "
        f"{median_and_range(lost)} without, dense {median_and_range(base)}.",
    )


@claim.criterion("Memory is lost with clients that do not")
def residuals_are_lost_with_the_client(results: Results) -> CheckResult:
    """Error feedback, clients that are asked once: nothing that waits is ever sent."""
    kept, without = (_of(results, "loss", PHONES, u) for u in ("top-k with memory", "top-k without"))
    lost, waiting = (_of(results, n, PHONES, "top-k with memory") for n in ("lost", "waiting"))
    return CheckResult(
        bool((kept == without).all() and (lost == waiting).all() and (lost > 0).all()),
        f"{PHONES}: top-k {median_and_range(kept)} bits with error feedback and {median_and_range(without)} without, "
        "the same to the last digit; all residuals are lost.",
    )


@claim.explanation("Unbiased compressors need no error feedback")
def unbiased_needs_none(results: Results) -> CheckResult:
    """QSGD is unbiased, so clients need no error feedback."""
    values, base = (_of(results, "loss", PHONES, u) for u in ("QSGD", "dense"))
    return CheckResult(
        within_noise(values, base), f"{PHONES}: QSGD {median_and_range(values)} bits, dense {median_and_range(base)}."
    )


@claim.explanation("The way down dominates")
def down_link_dominates(results: Results) -> CheckResult:
    """After compressing the way up, the way down is what is left; 8 bits there cost little."""
    up, down = (float(_of(results, n, SILOS, "top-k with memory")[0]) for n in ("up", "down"))
    eight, base = _of(results, "loss", SILOS, "dense", STEPS, "hfp8_forward"), _of(results, "loss", SILOS, "dense")
    short = float(_of(results, "down", SILOS, "dense", STEPS, "hfp8_forward")[0])
    return CheckResult(
        down > 5 * up and within_noise(eight, base),
        f"A client gets {down:,.0f} bytes and sends {up:,.0f} with top-k. With weights in 8 bits (1-4-3) it gets "
        f"{short:,.0f}: {median_and_range(eight)} bits, in float32 {median_and_range(base)}.",
    )


@claim.summary
def measured(results: Results) -> str:
    """Losses with clients that come back, and with those that do not."""
    parts = []
    for clients in (SILOS, PHONES):
        values = [f"{upload} {np.median(_of(results, 'loss', clients, upload)):.2f}" for upload in UPLOADS]
        parts.append(f"{clients}: {', '.join(values)}")
    return f"test loss in bits after {ROUNDS} rounds; {'; '.join(parts)}"


claim.draw(
    f"test loss after {ROUNDS} rounds, bits",
    lambda results: {
        f"{clients.split()[0]} clients, {upload}": _of(results, "loss", clients, upload)
        for clients in (SILOS, PHONES)
        for upload in UPLOADS
    },
)

claim.compared(
    theirs_on="MNIST and text, several networks",
    ours_on="8 × 8 digits, three linear layers",
    rows=(
        {
            "10 clients, top-k with memory": "10 that come back, memory",
            "10 clients, top-k without": "10 that come back, none",
            "200 clients, top-k with memory": "200 asked once, memory",
            "200 clients, top-k without": "200 asked once, none",
        },
    ),
)
claim.found(
    local_steps_save_rounds,
    holds="local steps learn more in as many rounds",
    fails="local steps learn no more in as many rounds",
)
claim.found(
    feedback_helps_returning_clients,
    residuals_are_lost_with_the_client,
    holds="memory helps clients that come back, no others",
    fails="memory does not help only clients that come back",
)
claim.leaves_out("how many rounds are saved was not measured")

FEDERATED_2017 = claim.build()
