"""The numbers of ours in tables of parity that only PyTorch's tasks know are those of the tasks."""

import inspect

import pytest

from lplab import claims
from lplab.claims.framework import learner_models, models
from lplab.claims.papers import adacomp_2018, nvfp4_ingredients_2025, pact_2018, scalecom_2020_similarity
from lplab.training import recipes, tasks

nn = pytest.importorskip("torch.nn")


def layers(task):
    """Convolutions and linear layers of a task's network."""
    return sum(isinstance(module, nn.Conv2d | nn.Linear) for module in task.model(0).modules())


def test_of_similarity():
    task = learner_models.fully_connected()
    assert task.batch / scalecom_2020_similarity.LEARNERS == scalecom_2020_similarity.EXAMPLES
    assert layers(task) == scalecom_2020_similarity.LAYERS


def test_of_pact():
    from lplab.models.residual import resnet

    task = tasks.get("resnet")
    assert (task.batch, task.lr, dict(task.options)["momentum"]) == (
        pact_2018.BATCH,
        pact_2018.RATE,
        pact_2018.MOMENTUM,
    )
    assert inspect.signature(resnet).parameters["depth"].default == pact_2018.LAYERS
    row = claims.get("pact_2018").parity[3]
    assert row.paper == pytest.approx(5.22, abs=0.01) and row.small == pytest.approx(1.5)


def test_of_nvfp4():
    task = models.branch_transformer()
    inputs, _ = task.data(task.batch, 0)(0)
    assert inputs.numel() == nvfp4_ingredients_2025.TOKENS
    assert sum(p.numel() for p in task.model(0).parameters()) == pytest.approx(
        nvfp4_ingredients_2025.PARAMETERS, rel=0.01
    )
    assert len(task.model(0).blocks) == nvfp4_ingredients_2025.BLOCKS
    assert recipes.get("nvfp4_2025").late_share == nvfp4_ingredients_2025.LATE_SHARE


def test_of_adacomp():
    made = {family: tasks.get(name) for family, (name, _, _) in adacomp_2018.TASKS.items()}
    batches = {task.batch for task in made.values()}
    assert (min(batches), max(batches)) == adacomp_2018.BATCHES
    assert (layers(made[adacomp_2018.FC]), layers(made[adacomp_2018.CONV])) == adacomp_2018.LAYERS
