"""Published steps, bytes, times and efficiencies of networks: rows T28 to T37 and T52."""

from __future__ import annotations

from lplab.claims.papers.ddl_model import IMAGES, ddl_efficiency, goyal_efficiency
from lplab.claims.published_numbers.published_number import Published
from lplab.hardware import network
from lplab.hardware.network import links, nccl_tuner
from lplab.hardware.network.links import Link

GRADIENT_BYTES = 4 * 25_557_032  # of ResNet-50 in FP32
DDL, GOYAL = "Cho et al. 2017, abstract", "Goyal et al. 2017, abstract"
BOOK, TUNER = "Austin et al. 2025, GPUs", "NCCL 2.8, src/graph/tuning.cc"
GTOPK_ADD = 160 / 64e9  # seconds a byte added, γ of gTop-k's script; α and β are those of the link gtopk_10g


def h100_all_gather_milliseconds() -> float:
    """537 MB over 8 H100s: the whole array, of which each holds one part."""
    link = Link(0.0, links.get("nvlink4").bytes_per_second)
    return 1e3 * float(network.all_gather_seconds(8, 537e6 / 8, link))


def h100_bus_bandwidth(nbytes: float = 16e9) -> float:
    """GB/s of bus bandwidth of a large all-reduce on 8 H100s, where links give 82 % of 450 GB/s."""
    nvlink = links.get("nvlink4")
    link = Link(nvlink.latency_seconds, 0.82 * nvlink.bytes_per_second)
    return 2 * 7 / 8 * nbytes / float(network.all_reduce_seconds("ring", 8, nbytes, link)) / 1e9


def gtopk_seconds(ranks: int) -> float:
    """Seconds of the paper's ring all-reduce of ResNet-50's gradient."""
    return float(network.all_reduce_seconds("ring", ranks, GRADIENT_BYTES, "gtopk_10g", GTOPK_ADD))


ROWS: tuple[Published, ...] = (
    Published("T28a", "steps of a ring all-reduce", "7 ranks: 2(P − 1)", 12, "", "exact", 0, "A",
              "nccl-tests, ASTRA-sim", lambda: network.steps("ring", 7)),
    Published("T28b", "bytes that a rank of a ring sends", "7 ranks, 700 bytes: 2(P − 1)/P·n", 1200, "B", "exact", 0,
              "A", "nccl-tests, ASTRA-sim", lambda: network.sent_bytes("ring", 7, 700)),
    Published("T29a", "steps of halving-doubling", "64 ranks: 2 log₂ P", 12, "", "exact", 0, "A",
              "Gloo, docs/algorithms.md", lambda: network.steps("halving_doubling", 64)),
    Published("T29b", "bytes that a rank sends", "64 ranks, 640 bytes: 2(P − 1)/P·n", 1260, "B", "exact", 0, "A",
              "Thakur et al. 2005; Gloo's page says 2n", lambda: network.sent_bytes("halving_doubling", 64, 640)),
    Published("T30", "NCCL's latency of a ring, Simple", "2 nodes of 8 GPUs: 8.4 + 28·3.4 + 2·9.6", 122.8, "µs",
              "exact", 0, "A", TUNER, lambda: 1e6 * nccl_tuner.latency_seconds("ring", "simple", 2, 8),
              "Before NCCL's factor of 1.9 for large messages."),
    Published("T31", "NCCL's latency of a tree, LL", "2 nodes of 8 GPUs: 4.4 + 2(7·0.52·1.8 + 5.0)", 27.504, "µs",
              "exact", 0, "A", TUNER, lambda: 1e6 * nccl_tuner.latency_seconds("tree", "ll", 2, 8)),
    Published("T32a", "all-gather on 8 H100s, model", "537 MB, 450 GB/s", 1.04, "ms", "relative", 1, "A", BOOK,
              h100_all_gather_milliseconds),
    Published("T32b", "all-gather on 8 H100s, measured", "537 MB, 450 GB/s", 1.5, "ms", "relative", 50, "A", BOOK,
              h100_all_gather_milliseconds, "A model of bandwidth alone is a third too fast."),
    Published("T33", "bus bandwidth of a large all-reduce", "8 H100s, 16 GB, 82 % of 450 GB/s", 370, "GB/s", "relative",
              10, "A", BOOK, h100_bus_bandwidth, "The 82 % are fitted to this very number: a calibration."),
    Published("T34a", "scaling efficiency of ResNet-50 on 256 P100", "64 nodes of 4, 200 ms compute, two EDR ports", 95,
              "%", "absolute", 3, "B", DDL, lambda: ddl_efficiency(ports=2),
              "How many ports a node had could not be found out.",
              more=lambda: f"With one port and nothing hidden it is {ddl_efficiency(ports=1):.1f} %."),
    Published("T34b", "the same, half speed behind the backward pass", "64 nodes of 4, 200 ms compute, one port", 95,
              "%", "absolute", 3, "B", DDL, lambda: ddl_efficiency(ports=1, overlap=0.5)),
    Published("T35", "step of ResNet-50 on 256 P100", "90 epochs of ImageNet in 50 minutes, batch 8,192", 213, "ms",
              "relative", 1, "A", DDL, lambda: 1e3 * 3000 * 8192 / (90 * IMAGES)),
    Published("T36", "scaling efficiency from 8 to 256 GPUs", "29 h on 8 GPUs; 50 Gb/s a server, nothing hidden", 90,
              "%", "absolute", 3, "B", GOYAL, goyal_efficiency),
    Published("T37", "ResNet-101 on ImageNet-22K on 256 GPUs", "16 days on 4 GPUs, 88 % efficiency", 7, "h", "relative",
              5, "B", DDL, lambda: 16 * 24 / (256 / 4) / 0.88),
    *(
        Published(f"T52{letter}", "gTop-k's model of a dense all-reduce",
                  f"{ranks} ranks, ResNet-50, α = 45.25 µs, β = 1.2/(9·2³⁰ bit/s), γ = 2.5 ns/B", value, "ms",
                  "relative", 0.001, "A", "gTop-k, scripts/icdcs2019/communication.py",
                  lambda ranks=ranks: 1e3 * gtopk_seconds(ranks))  # type: ignore[misc]
        for letter, ranks, value in (("a", 2, 229.43018092), ("b", 8, 401.97794162), ("c", 32, 447.15113179))
    ),
)  # fmt: skip
"""Rows of the table; each computes our value when it is asked."""
