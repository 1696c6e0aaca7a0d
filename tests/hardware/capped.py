"""Links of a known speed on one machine: a network namespace for each rank, joined by a bridge (Linux, root).

Each rank's packets leave through a token bucket (tc tbf), so no rank can send faster than the cap; Ethernet's frames
and TCP's headers count against it, as on a real line. Delays are those of the kernel, some ten microseconds.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

PAYLOAD_SHARE = 1448 / 1514  # of a full Ethernet frame: TCP's payload; the rest is headers, which the cap counts, too


@dataclass(frozen=True)
class Capped:
    """The namespaces of the ranks, the interface in each, and the address of rank 0."""

    namespaces: tuple[str, ...]
    interfaces: tuple[str, ...]
    address: str

    def start(self, rank: int, arguments: list[str], **environment: str) -> subprocess.Popen[str]:
        """Run Python in a rank's namespace, with what torch.distributed wants to know."""
        settings = {
            **os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(self.namespaces)), "MASTER_ADDR": self.address,
            "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": self.interfaces[rank], "OMP_NUM_THREADS": "1", **environment,
        }  # fmt: skip
        command = ["ip", "netns", "exec", self.namespaces[rank], sys.executable, *arguments]
        return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def why_not() -> str:
    """Why there can be no such network here; empty if there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} (iproute2) missing"
    try:
        with capped(2, 1e9):
            return ""
    except subprocess.CalledProcessError as problem:
        return f"no namespaces with capped links here: {problem.stderr.strip()}"


@contextmanager
def capped(ranks: int, bits_per_second: float) -> Iterator[Capped]:
    """The network, as long as the block runs; whatever happens it is taken away again."""
    mark = f"lp{secrets.token_hex(4)}"  # no two runs of the tests meet; an interface's name has 15 letters
    bridge, names = f"{mark}b", tuple(f"{mark}r{rank}" for rank in range(ranks))
    ends = tuple(f"{mark}e{rank}" for rank in range(ranks))
    try:
        _ip("netns", "add", bridge)
        _ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        _ip("-n", bridge, "link", "set", "br0", "up")
        for rank, (name, end) in enumerate(zip(names, ends, strict=True)):
            _ip("netns", "add", name)
            _ip("link", "add", end, "netns", name, "type", "veth", "peer", "name", f"port{rank}", "netns", bridge)
            _ip("-n", name, "addr", "add", f"10.77.0.{rank + 1}/24", "dev", end)
            for interface in (end, "lo"):
                _ip("-n", name, "link", "set", interface, "up")
            _ip("-n", bridge, "link", "set", f"port{rank}", "master", "br0", "up")
            bucket = ["tbf", "rate", f"{bits_per_second:.0f}bit", "burst", "64kb", "latency", "400ms"]
            _run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", end, "root", *bucket)
        yield Capped(names, ends, "10.77.0.1")
    finally:
        for name in (*names, bridge):
            with suppress(subprocess.CalledProcessError):  # what was never made cannot be taken away
                _ip("netns", "del", name)


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
