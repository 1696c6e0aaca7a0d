"""Real ranks of a script in this folder: started by torchrun, and ended together."""

import os
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist

PROJECT = Path(__file__).parents[2]


def started(script, world, folder):
    """Run the script on ``world`` ranks of this machine; what each of them passed to :func:`ended`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}",
               script.__file__, str(folder)]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(world)]


def begun():
    """What each rank's script begins with."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def ended(results):
    """What it ends with."""
    torch.save(results, Path(sys.argv[1]) / f"rank{dist.get_rank()}.pt")
    dist.barrier()  # leave together: a rank whose peers have closed their connections may be aborted
    dist.destroy_process_group()
