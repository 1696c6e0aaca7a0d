"""Claims measured on a Dask cluster of this machine: two workers, processes of their own."""

import dataclasses
import os
import socket
from pathlib import Path

import pytest

from lplab import claims, cli
from lplab.claims import claim_catalogue
from lplab.claims.framework import dask_cluster as lplab_cluster
from tests.claims.framework.test_budgets import LONG

PROJECT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("already_portable"),
]  # four processes begin, and each imports PyTorch's neighbours


def measure(point, seed):
    return {"process": float(os.getpid()), "twice": 2.0 * seed}


MANY = dataclasses.replace(LONG, points=({"bits": 4},), seeds=tuple(range(12)), measure=measure)


@pytest.fixture
def start(monkeypatch):
    """Starts a cluster; its scheduler's address."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))  # of the workers
    running = []

    def start(threads=1):
        made = distributed.LocalCluster(2, threads_per_worker=threads, processes=True, dashboard_address=":0")
        running.append(made)
        return made.scheduler_address

    yield start
    for made in running:
        made.close()


def test_two_workers_share_the_measurements(start, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(claim_catalogue, "CLAIMS", (MANY,))
    address = start()
    assert cli.main(["claims", "run", "--long", "--dask", address, "--folder", str(tmp_path), "--json"]) == 0
    numbers = [row[2] for row in claims.stored(MANY, tmp_path).results(MANY).rows]
    assert [row["twice"] for row in numbers] == [2.0 * seed for seed in MANY.seeds]
    processes = {row["process"] for row in numbers}
    assert len(processes) == 2 and os.getpid() not in processes
    (session,) = claims.stored(MANY, tmp_path).sessions
    assert (session.jobs, session.points) == (2, 12)
    assert session.command == "lplab claims run --long --dask", "where the cluster is, is not stored"


def test_the_numbers_are_those_of_this_machine(start, tmp_path):
    claim = claims.get("rapid_2021")
    with claims.dask_cluster(start()) as count:
        assert count == 2
        there = claims.run_claim(claim, folder=tmp_path, jobs=count)
    assert there.numbers == {
        key: claims.measure(claim, point, seed)
        for key, (point, seed) in zip(claim.keys(), claim.measurements(), strict=True)
    }


def test_costs_are_measured_here(start, tmp_path):
    with claims.dask_cluster(start()) as count:
        here = claims.run_claim(dataclasses.replace(MANY, timed=True), folder=tmp_path, jobs=count)
    assert {numbers["process"] for numbers in here.numbers.values()} == {os.getpid()}
    assert here.sessions[-1].jobs == 1


def test_workers_with_threads_and_other_versions_are_refused(start, monkeypatch):
    with pytest.raises(ValueError, match=r"has 2 threads; start it with --nthreads 1"), claims.dask_cluster(start(2)):
        pass
    newer = {**lplab_cluster.versions(), "lplab": "99.0"}
    address = start()
    asked = lplab_cluster.versions
    monkeypatch.setattr(lplab_cluster, "versions", lambda: newer)
    with pytest.raises(ValueError, match=r"has other versions than this machine: lplab .* for 99\.0"):
        lplab_cluster._checked_workers(WithVersions(address, asked), address)


class WithVersions:
    """A client whose workers tell their own versions, whatever this process takes for its own."""

    def __init__(self, address, versions):
        from distributed import Client

        self.client, self.versions = Client(address, set_as_default=False), versions

    def nthreads(self):
        return self.client.nthreads()

    def run(self, _):
        with self.client:
            return self.client.run(self.versions)


def test_a_scheduler_that_is_not_there_is_told(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(lplab_cluster, "SECONDS_TO_CONNECT", 1)
    with socket.socket() as probe:  # a port that nobody listens on
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(ValueError, match=f"no Dask scheduler answers at {address}"), claims.dask_cluster(address):
        pass
