"""Real runs that several files share: each is started once."""

from functools import cache

import pytest


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """What the ranks of a job ended with: ``ranks(module, world)``. One start for each world does all jobs."""
    from tests.parallel.ranks import job_results, started

    @cache
    def of(world):
        folder = tmp_path_factory.mktemp("ranks")
        return folder, started(world, folder)

    @cache
    def results(job, world):
        return job_results(job.__name__.rpartition(".")[2], world, *of(world))

    return results


@pytest.fixture(scope="session")
def real_run(tmp_path_factory):
    """A run by two processes, started by torchrun as a user does it, and what it reported."""
    from lplab.parallel.launch import DistributedRun
    from lplab.parallel.run_settings import RunSettings

    file = tmp_path_factory.mktemp("run") / "weights.npz"
    run = DistributedRun(RunSettings("mlp", "scalecom:chunk=112,beta=0.3", learners=2, steps=4, save=str(file)))
    return run, list(run)
