"""Published numbers of gradient compression: rows T12 to T27 and T50."""

from __future__ import annotations

import numpy as np

from lplab.claims.papers import scalecom_model
from lplab.claims.published_numbers.published_number import Published
from lplab.compression import ScaleCom, exchange
from lplab.compression.ratios import adacomp_paper_ratio, build_up
from lplab.compression.scalecom import chunk_for
from lplab.hardware import workloads
from lplab.hardware.traffic import tensors_of

ADACOMP = "Chen et al. 2018, abstract; how it is counted is recalled"
SCALECOM = "Chen et al. 2020 (second-hand)"
NO_IMAGENET = "It needs ImageNet, which is not part of this project, and weeks of a GPU"
GUIDE = "chunks of 25, 50 or 400 by how often a weight is used, the first convolution whole, norms at 25"
OURS = "Which layers get which chunk is our reconstruction of the guide."
DRAWS, SIZE = 200, 400


def scalecom_ratio(name: str) -> float:
    """Elements of a network over elements sent: the paper's guide by layer, the first convolution whole."""
    workload = workloads.get(name)
    pairs = zip(workload.layers, tensors_of(workload), strict=True)
    tensors = [(layer, info) for layer, infos in pairs for info in infos]
    sent = sum(layer.count * info.numel / (1 if info.first else chunk_for(info)) for layer, info in tensors)
    return workload.parameters / sent


def random_gradients(learners: int, seed: int, size: int = SIZE) -> np.ndarray:
    """Small whole numbers, so that sums are exact in any order: float32 [learners, size]."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1000, 1000, (learners, size)).astype(np.float32)


def commutation_gap(draws: int = 20, learners: int = 5, chunk: int = 25) -> float:
    """The largest difference between mask(mean) and mean(mask) over random gradients, by the compressor itself."""
    largest = 0.0
    for seed in range(draws):
        gradients, compressor = random_gradients(learners, seed), ScaleCom(chunk=chunk)
        states = [compressor.init((SIZE,)) for _ in gradients]
        average = exchange(compressor, list(gradients), states, step=seed)
        blocks = np.abs(gradients[seed % learners]).reshape(-1, chunk)
        mask = (np.arange(chunk) == blocks.argmax(1)[:, None]).reshape(-1)
        total = gradients.sum(0, dtype=np.float32)
        largest = max(largest, float(np.abs(average - np.where(mask, total / np.float32(learners), 0)).max()))
    return largest


def simulated_union(density: float, learners: int, size: int = 200_000) -> float:
    """The share of a vector that the union of random masks fills, drawn."""
    rng, union = np.random.default_rng(0), np.zeros(size, bool)
    for _ in range(learners):
        union |= rng.random(size) < density
    return float(union.mean())


def excess(vectors: np.ndarray, k: int) -> float:
    """Error of sending what learner 0 has among its k largest, less the bound d/k + (1 − d/k)·ρ₀.

    ρ₀ is the error of the true top-k of the mean, d the number of its indices that learner 0 misses; errors are shares
    of the mean's squared norm.

    Args:
        vectors: of all learners, [learners, n].
        k: how many are sent.

    >>> excess(np.array([[1.0, 3.0, 0.0, 2.0]]), 2)  # alone, the leader has the true top-k, and the bound is reached
    0.0
    >>> round(excess(np.array([[0, 1, 1.0], [9, 1, 0.0]]), 2), 2)  # it misses the one large value: no theorem
    0.44
    """
    mean = vectors.mean(0)
    energy, leader = mean**2, np.argsort(-np.abs(vectors[0]), kind="stable")[:k]
    best = np.argsort(-energy, kind="stable")[:k]
    missed = 1 - np.intersect1d(leader, best).size / k
    error, least = (1 - float(energy[chosen].sum() / energy.sum()) for chosen in (leader, best))
    return error - (missed + (1 - missed) * least)


def contraction_excess(draws: int = DRAWS, learners: int = 4, k: int = 40) -> float:
    """The largest :func:`excess` over random vectors that learners share more or less; not above 0: the bound holds."""
    worst = -np.inf
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        common = rng.standard_normal(SIZE) ** 3
        vectors = common + rng.uniform(0.1, 3) * rng.standard_normal((learners, SIZE))
        worst = max(worst, excess(vectors, k))
    return worst


ROWS: tuple[Published, ...] = (
    Published("T12", "AdaComp's compression ratio on convolutions", "bins of 50, 5 of each sent, 8 bits an element", 40,
              "×", "exact", 0, "B", ADACOMP, lambda: adacomp_paper_ratio(50, 5),
              "As the paper counts: without scales and the ends of bins."),
    Published("T13", "AdaComp's compression ratio on dense and recurrent layers",
              "bins of 500, 5 of each sent, 16 bits an element", 200, "×", "exact", 0, "B", ADACOMP,
              lambda: adacomp_paper_ratio(500, 5)),
    Published("T14", "ScaleCom's compression ratio on ResNet-18", GUIDE, 112, "×", "relative", 5, "B", SCALECOM,
              lambda: scalecom_ratio("resnet18"), OURS),
    Published("T15", "ScaleCom's compression ratio on ResNet-50", GUIDE, 96, "×", "relative", 3, "B", SCALECOM,
              lambda: scalecom_ratio("resnet50")),
    Published("T16", "ScaleCom's compression ratio on MobileNetV2", GUIDE, 155, "×", "relative", 3, "B", SCALECOM,
              lambda: scalecom_ratio("mobilenetv2")),
    *(
        Published(id_, "ScaleCom's speedup on ResNet-50", f"share of sending {share}, {what}, compression ideal",
                  published, "×", "relative", tolerance, "B", SCALECOM,
                  lambda share=share, faster=faster: scalecom_model.limit(share, faster), note)  # type: ignore[misc]
        for id_, share, faster, what, published, tolerance, note in (
            ("T17", 0.56, 1, "100 TFLOPS", 2.0, 15, "The rest is the compressor's work and what is still sent."),
            ("T18", 0.56, 3, "computing 3 times faster", 4.1, 20, "As T17."),
            ("T19", 0.20, 1, "100 TFLOPS", 1.23, 3, ""),
            ("T20", 0.20, 3, "computing 3 times faster", 1.75, 1, ""),
        )
    ),
    Published("T21", "share of sending with ScaleCom", "128 workers, batch 8, 100 TFLOPS, 32 GB/s, servers", 3, "%",
              "at most", 0, "B", SCALECOM,
              lambda: 100 * scalecom_model.estimate(scalecom_model.SCALECOM, workers=128).share),
    Published("T22a", "share of a gradient that 64 random masks fill", "64 masks of density 1/112", 43.7, "%",
              "absolute", 0.05, "A", "1 − (1 − q)ⁿ", lambda: 100 * build_up(1 / 112, 64)),
    Published("T22b", "the same, drawn", "64 masks of density 1/112 over 200,000 elements, seed 0", 43.7, "%",
              "absolute", 1, "A", "1 − (1 − q)ⁿ", lambda: 100 * simulated_union(1 / 112, 64)),
    Published("T23", "mask of the mean less mean of the masks", "5 learners, 20 draws of whole numbers", 0, "",
              "exact", 0, "A", SCALECOM, commutation_gap, "The compressor itself, not a formula: not one bit differs."),
    Published("T24", "error of the leader's top-k less its bound d/k + (1 − d/k)·ρ₀", f"4 learners, {DRAWS} draws", 0,
              "", "at most", 0, "A", SCALECOM, contraction_excess,
              "So it is on random vectors. It is no theorem: if the leader misses the one value that holds almost all, "
              "the error is larger."),
    Published("T25", "ResNet-50 with ScaleCom at 96×, accuracy", "8 workers, batch 256", 75.99, "%", "absolute", 0.4,
              "A", f"{SCALECOM}, table 2; dense 76.44", untestable=f"{NO_IMAGENET}."),
    Published("T26", "ResNet-34 with ScaleCom at 92×, accuracy", "CIFAR-10, 4 workers, batch 128", 93.98, "%",
              "absolute", 0.5, "A", f"{SCALECOM}, table 2; dense 93.78",
              untestable="It needs CIFAR-10, which is fetched from the network, and hours of a GPU; the network's "
              "exact shape is not published."),
    Published("T27", "ResNet-50 with DGC at 0.1 %, accuracy", "8 GPUs, batch 256", 76.6, "%", "absolute", 0.4, "A",
              "Lin et al. 2018, by their code's page; dense 76.2", untestable=f"{NO_IMAGENET}."),
    Published("T50", "ZSTD on weights in BF16", "a public language model", 1.27, "×", "relative", 5, "A",
              "ZipNN's page; LZ4 gives 1.00", untestable="It needs a public model's weights, gigabytes of them."),
)  # fmt: skip
"""Rows of the table; each computes our value when it is asked."""
