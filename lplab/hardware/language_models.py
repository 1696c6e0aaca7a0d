"""Language models by their sizes, as far as bytes and products of writing depend on them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from lplab.checks import check_int


@dataclass(frozen=True)
class LanguageModel:
    """The sizes of a Llama, as far as bytes depend on them.

    Attributes:
        name, label: in code and in figures.
        vocabulary, width, blocks: tokens, channels of the residual stream, blocks.
        heads, kv_heads: heads of queries, and of keys and values.
        hidden: width of the gated feed-forward part.
        tied: whether head and embedding are one table.
        source: where the sizes are written.

    >>> round(LANGUAGE_MODELS["llama-2-7b"].parameters / 1e9, 2)
    6.74
    """

    name: str
    label: str
    vocabulary: int
    width: int
    blocks: int
    heads: int
    kv_heads: int
    hidden: int
    tied: bool = False
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "blocks", "heads", "kv_heads", "hidden"):
            check_int(name, getattr(self, name), 1, 2**40)

    @property
    def kv_width(self) -> int:
        """Keys of one position in one block; as many values."""
        return self.width // self.heads * self.kv_heads

    @property
    def linear(self) -> int:
        """Weights of the linear layers in the blocks: those that are rounded."""
        return self.blocks * self.width * (2 * self.width + 2 * self.kv_width + 3 * self.hidden)

    @property
    def table(self) -> int:
        """Weights of the head."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All weights, without the norms'."""
        return self.linear + self.table * (1 if self.tied else 2)


_LLAMA_2 = "Touvron et al. 2023, arXiv:2307.09288, and the model's configuration, as remembered"
_LLAMA_3 = "Grattafiori et al. 2024, arXiv:2407.21783, and the model's configuration, as remembered"
LANGUAGE_MODELS = MappingProxyType(
    {
        model.name: model
        for model in (
            LanguageModel("smollm2-135m", "SmolLM2 135M", 49152, 576, 30, 9, 3, 1536, True, "read in its GGUF file"),
            LanguageModel("llama-2-7b", "Llama 2 7B", 32000, 4096, 32, 32, 32, 11008, source=_LLAMA_2),
            LanguageModel("llama-2-70b", "Llama 2 70B", 32000, 8192, 80, 64, 8, 28672, source=_LLAMA_2),
            LanguageModel("llama-3-8b", "Llama 3 8B", 128256, 4096, 32, 32, 8, 14336, source=_LLAMA_3),
        )
    }
)
"""Language models by name."""
