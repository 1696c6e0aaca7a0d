"""The papers whose statements are claims here: authors, title, venue and year, cited in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lplab.lookup import lookup, refuse_calls


@dataclass(frozen=True)
class Paper:
    """A paper.

    Args:
        authors: initials and names, or the first with "et al.".
        title: in full, or the name it is known by.
        venue: where and when it appeared, with its address if it has one that is short.
        year: of the venue.

    Raises:
        ValueError: the venue does not name the year.
    """

    authors: str
    title: str
    venue: str
    year: int

    def __post_init__(self) -> None:
        if str(self.year) not in self.venue:
            raise ValueError(f"{self.title!r}: the venue {self.venue!r} does not name the year {self.year}")

    @property
    def citation(self) -> str:
        """Authors, title and venue."""
        return f"{self.authors}: {self.title}, {self.venue}"

    @property
    def short_citation(self) -> str:
        """Authors and venue, for a second paper beside another one."""
        return f"{self.authors}, {self.venue}"


PAPERS: dict[str, Paper] = {
    "gupta_2015": Paper(
        "S. Gupta, A. Agrawal, K. Gopalakrishnan, P. Narayanan",
        "Deep learning with limited numerical precision",
        "ICML 2015",
        2015,
    ),
    "mcmahan_2017": Paper(
        "B. McMahan et al.",
        "Communication-efficient learning of deep networks from decentralized data",
        "AISTATS 2017",
        2017,
    ),
    "ddl_2017": Paper("M. Cho et al.", "PowerAI DDL", "arXiv 1708.02188, 2017", 2017),
    "adacomp_2018": Paper(
        "C.-Y. Chen et al.",
        "AdaComp: adaptive residual gradient compression for data-parallel distributed training",
        "AAAI 2018",
        2018,
    ),
    "micikevicius_2018": Paper(
        "P. Micikevicius et al.",
        "Mixed precision training",
        "ICLR 2018 (arXiv 1710.03740)",
        2018,
    ),
    "pact_2018": Paper(
        "J. Choi, Z. Wang, S. Venkataramani, P. Chuang, V. Srinivasan, K. Gopalakrishnan",
        "PACT: parameterized clipping activation for quantized neural networks",
        "2018 (arXiv 1805.06085)",
        2018,
    ),
    "wang_2018": Paper(
        "N. Wang, J. Choi, D. Brand, C.-Y. Chen, K. Gopalakrishnan",
        "Training deep neural networks with 8-bit floating point numbers",
        "NeurIPS 2018",
        2018,
    ),
    "hfp8_2019": Paper(
        "X. Sun et al.",
        "Hybrid 8-bit floating point (HFP8) training and inference for deep neural networks",
        "NeurIPS 2019",
        2019,
    ),
    "karimireddy_2019": Paper(
        "S. P. Karimireddy et al.",
        "Error feedback fixes signSGD and other gradient compression schemes",
        "ICML 2019",
        2019,
    ),
    "sawb_2019": Paper(
        "J. Choi, S. Venkataramani, V. Srinivasan, K. Gopalakrishnan, Z. Wang, P. Chuang",
        "Accurate and efficient 2-bit quantized neural networks",
        "SysML 2019",
        2019,
    ),
    "strubell_2019": Paper(
        "E. Strubell, A. Ganesh, A. McCallum",
        "Energy and policy considerations for deep learning in NLP",
        "ACL 2019",
        2019,
    ),
    "scalecom_2020": Paper("C.-Y. Chen et al.", "ScaleCom", "NeurIPS 2020, arXiv 2104.11125", 2020),
    "sun_2020": Paper(
        "X. Sun et al.",
        "Ultra-low precision 4-bit training of deep neural networks",
        "NeurIPS 2020",
        2020,
    ),
    "patterson_2021": Paper(
        "D. Patterson et al.",
        "Carbon emissions and large neural network training",
        "arXiv 2104.10350, 2021",
        2021,
    ),
    "rapid_2021": Paper("S. Venkataramani et al.", "RaPiD", "ISCA 2021", 2021),
    "llm_int8_2022": Paper(
        "T. Dettmers, M. Lewis, Y. Belkada, L. Zettlemoyer",
        "LLM.int8(): 8-bit matrix multiplication for transformers at scale",
        "NeurIPS 2022 (arXiv 2208.07339)",
        2022,
    ),
    "gptq_2023": Paper(
        "E. Frantar, S. Ashkboos, T. Hoefler, D. Alistarh",
        "GPTQ: accurate post-training quantization for generative pre-trained transformers",
        "ICLR 2023 (arXiv 2210.17323)",
        2023,
    ),
    "smoothquant_2023": Paper(
        "G. Xiao et al.",
        "SmoothQuant: accurate and efficient post-training quantization for large language models",
        "ICML 2023 (arXiv 2211.10438)",
        2023,
    ),
    "luq_2023": Paper(
        "B. Chmiel et al.",
        "Accurate neural training with 4-bit matrix multiplications at standard formats",
        "ICLR 2023",
        2023,
    ),
    "diloco_2023": Paper(
        "A. Douillard et al.",
        "DiLoCo: distributed low-communication training of language models",
        "arXiv 2311.08105, 2023",
        2023,
    ),
    "zeropp_2023": Paper(
        "G. Wang et al.",
        "ZeRO++: extremely efficient collective communication for giant model training",
        "arXiv 2306.10209, 2023",
        2023,
    ),
    "awq_2024": Paper(
        "J. Lin et al.",
        "AWQ: activation-aware weight quantization for on-device LLM compression and acceleration",
        "MLSys 2024 (arXiv 2306.00978)",
        2024,
    ),
    "quarot_2024": Paper(
        "S. Ashkboos et al.",
        "QuaRot: outlier-free 4-bit inference in rotated LLMs",
        "NeurIPS 2024 (arXiv 2404.00456)",
        2024,
    ),
    "kivi_2024": Paper(
        "Z. Liu et al.",
        "KIVI: a tuning-free asymmetric 2bit quantization for KV cache",
        "ICML 2024 (arXiv 2402.02750)",
        2024,
    ),
    "deepseek_2024": Paper("DeepSeek-AI", "DeepSeek-V3 technical report", "arXiv 2412.19437, 2024", 2024),
    "kumar_2025": Paper("T. Kumar et al.", "Scaling laws for precision", "ICLR 2025 (arXiv 2411.04330)", 2025),
    "paretoq_2025": Paper(
        "Z. Liu et al.",
        "ParetoQ: scaling laws in extremely low-bit LLM quantization",
        "arXiv 2502.02631, 2025",
        2025,
    ),
    "tseng_2025": Paper("A. Tseng, T. Yu, Y. Park", "Training LLMs with MXFP4", "arXiv 2502.20586, 2025", 2025),
    "mishra_2025": Paper(
        "A. Mishra, D. Stosic, S. Layton",
        "Recipes for pre-training LLMs with MXFP8",
        "arXiv 2506.08027, 2025",
        2025,
    ),
    "nvidia_2025": Paper("NVIDIA", "Pretraining large language models with NVFP4", "arXiv 2509.25149, 2025", 2025),
    "streaming_diloco_2025": Paper(
        "A. Douillard et al.",
        "Streaming DiLoCo with overlapping communication: towards a distributed free lunch",
        "arXiv 2501.18512, 2025",
        2025,
    ),
    "sparseloco_2025": Paper(
        "A. Sarfi et al.",
        "Communication efficient LLM pre-training with SparseLoCo",
        "arXiv 2508.15706, 2025",
        2025,
    ),
}
"""All papers by key, in the order of their years."""


def cite(key: str, *others: str) -> str:
    """The citation of a paper; after it those of others, without their titles.

    Args:
        key: of :data:`PAPERS`.
        others: further keys.

    Raises:
        ValueError: an unknown key; the message names the closest.

    >>> cite("rapid_2021")
    'S. Venkataramani et al.: RaPiD, ISCA 2021'
    >>> cite("rapid_2021", "sun_2020")
    'S. Venkataramani et al.: RaPiD, ISCA 2021; X. Sun et al., NeurIPS 2020'
    """
    first, *rest = (lookup(PAPERS, name, "paper") for name in (key, *others))
    return "; ".join([first.citation, *(paper.short_citation for paper in rest)])


refuse_calls(__name__, "claims.bibliography.PAPERS[key] is a paper, claims.bibliography.cite(key) its citation")
