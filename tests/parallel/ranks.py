"""Real ranks for the tests: processes joined by gloo that do the jobs below, one after the other.

Usage: python -m tests.parallel.ranks FOLDER WORLD

Each rank writes to the folder what came of each job. A job has a process group of its own, so that one that fails
spoils no other. Runs of DistributedRun, which are torchrun's, are in conftest.py; their light ranks begin here, too.
"""

import multiprocessing
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist

PROJECT = Path(__file__).parents[2]
LAST = "lost_rank_run"  # a rank leaves in the middle of it
JOBS = (  # modules of this folder; each has a function results()
    "gloo_run", "overlap_run", "sharded_update_run", "checkpoint_run", "fsdp_run", LAST,
)  # fmt: skip
PATIENCE = 300  # seconds with a loaded machine


def started(world, folder):
    """Run all jobs on ``world`` ranks of this machine; what they output, for the case that results are missing."""
    command = [sys.executable, "-m", "tests.parallel.ranks", str(folder), str(world)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, encoding="utf-8", errors="replace")
    return done.stderr[-3000:]


def job_results(job, world, folder, output):
    """The results of a job, of each rank; the traceback of one that failed."""
    files = [folder / f"{job} {rank}.pt" for rank in range(world)]
    results = [torch.load(file, weights_only=True) for file in files if file.exists()]
    errors = "\n".join(result["error"] for result in results if "error" in result)
    assert not errors, errors
    assert len(results) == world, f"only {len(results)} of {world} ranks came to an end. {output}"
    return [result["results"] for result in results]


def rank(number, world, folder):
    """All that one rank does."""
    torch.set_num_threads(1)
    for job in JOBS:
        try:
            store = dist.FileStore(str(folder / job), world)
            wait = timedelta(seconds=PATIENCE / 5)
            dist.init_process_group("gloo", store=store, rank=number, world_size=world, timeout=wait)
            outcome = {"results": import_module(f"tests.parallel.{job}").results()}
            if job != LAST:
                dist.barrier()  # leave together: a rank whose peers have closed their connections may be aborted
        except Exception:
            outcome = {"error": f"rank {number}: {traceback.format_exc()}"}
        if dist.is_initialized():
            dist.destroy_process_group()
        torch.save(outcome, folder / f"{job} {number}.pt")


def main(folder, world):
    """Start the ranks; on Linux they are forked when torch is loaded, which takes longer than all jobs."""
    fork = sys.platform == "linux"
    if fork:
        import torch._dynamo  # noqa: F401 - the first optimizer would import it in each rank

        for job in JOBS:
            with suppress(Exception):  # the ranks tell of it
                import_module(f"tests.parallel.{job}")
    context = multiprocessing.get_context("fork" if fork else "spawn")
    ranks = [context.Process(target=rank, args=(number, world, folder)) for number in range(world)]
    for process in ranks:
        process.start()
    end = time.monotonic() + PATIENCE
    for process in ranks:
        process.join(max(0, end - time.monotonic()))
        process.kill()


def light_command(settings):
    """What DistributedRun starts instead of its worker: torchrun, and ranks that train nothing and need no torch."""
    script = str(PROJECT / "tests/parallel/light_rank.py")
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={settings.learners}"]
    return [sys.executable, *torchrun, script, settings.to_json()]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
