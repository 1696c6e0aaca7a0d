"""Lab 12, the bill: energy of a product, of a training, of one that was billed wrong, and of a round of phones."""

from __future__ import annotations

from lplab.exercises.lab12.correction import CORRECTION
from lplab.exercises.lab12.federated_round import FEDERATED_ROUND
from lplab.exercises.lab12.gemm_energy import GEMM_ENERGY
from lplab.exercises.lab12.gemm_energy import draw_gemm_energy as draw_gemm_energy
from lplab.exercises.lab12.training_bill import TRAINING_BILL
from lplab.exercises.model.questions import Question


def energy_left() -> float:
    """Percent of the energy of a 16-bit step that a 4-bit one takes, in the widget's first position."""
    from lplab.hardware.footprint import Job

    job = Job("resnet50", "systolic", 64, 32, 90 * 1_281_167, utilization=0.6, waiting=0.56, host_watts=15)
    return round(100 * job.step("int4_fp4_2020").joules / job.step("fp16_mixed").joules)


QUESTIONS = (
    Question(
        "12.a",
        "A chip multiplies 4-bit numbers four times as fast as 16-bit ones, at the same watts. Which share of a training step's energy is left with 4 bits?",
        energy_left,
        unit="%",
        limits=(0, 100),
        because="Arithmetic falls to a third, because a few layers stay at 16 bits; what chips draw while they wait for the network does not shrink at all.",
    ),
)
EXERCISES = (GEMM_ENERGY, TRAINING_BILL, CORRECTION, FEDERATED_ROUND)
