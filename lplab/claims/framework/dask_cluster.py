"""Measurements of claims on the workers of a Dask cluster, through joblib's backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lplab.claims.framework.store import versions

SECONDS_TO_CONNECT = 10


@contextmanager
def dask_cluster(address: str) -> Iterator[int]:
    """Within the block, what joblib runs in parallel, :func:`lplab.claims.run_claim` too, runs on a Dask cluster.

    Workers need one thread each, as a measurement sets PyTorch's threads for its whole process, and the versions of
    this machine, as they are stored with the numbers.

    Args:
        address: of the scheduler, as ``dask scheduler`` prints it: "tcp://192.168.1.5:8786".

    Yields:
        The number of workers.

    Raises:
        ValueError: Dask is not installed; nobody answers; there is no worker, or one with several threads, or with
            other versions.

    >>> with dask_cluster("192.168.1.5"):
    ...     pass
    Traceback (most recent call last):
    ...
    ValueError: the address of a scheduler is protocol://host:port, such as tcp://192.168.1.5:8786; got '192.168.1.5'
    """
    import joblib

    protocol, _, place = address.partition("://")
    if not (protocol and ":" in place):
        raise ValueError(
            f"the address of a scheduler is protocol://host:port, such as tcp://192.168.1.5:8786; got {address!r}"
        )
    try:
        from distributed import Client
    except ModuleNotFoundError:
        raise ValueError("a Dask cluster needs the package distributed: pip install 'lplab[cluster]'") from None
    try:
        client = Client(address, timeout=SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address} ({error})") from None
    with client:
        count = _checked_workers(client, address)
        with joblib.parallel_config(backend="dask", client=client):
            yield count


def _checked_workers(client: Any, address: str) -> int:
    """How many workers the cluster has; ValueError if one cannot measure as this machine would."""
    threads = client.nthreads()
    if not threads:
        raise ValueError(f"the Dask cluster at {address} has no worker: dask worker {address} --nthreads 1")
    several = [worker for worker, count in threads.items() if count > 1]
    if several:
        raise ValueError(f"{several[0]} has {threads[several[0]]} threads; start it with --nthreads 1")
    here = versions()
    for worker, worker_versions in client.run(versions).items():
        other = [
            f"{name} {worker_versions.get(name)} for {here[name]}"
            for name in here
            if worker_versions.get(name) != here[name]
        ]
        if other:
            raise ValueError(f"{worker} has other versions than this machine: {', '.join(other)}")
    return len(threads)
