"""Networks that read: BERT, the Transformer, GPT of any shape, a recurrent language model."""

from __future__ import annotations

from dataclasses import replace

from lplab.compression.layer_info import parameter_info
from lplab.hardware.language_models import LANGUAGE_MODELS
from lplab.hardware.workloads.blocks import attention, block, elementwise, embedding, linear
from lplab.hardware.workloads.workload import Layer, Workload


def gpt(
    layers: int = 12,
    width: int = 768,
    *,
    heads: int | None = None,
    sequence: int = 1024,
    vocabulary: int = 50257,
    inner: int | None = None,
    name: str = "gpt",
    label: str | None = None,
) -> Workload:
    """A decoder of any shape, its output layer tied to the embedding, as GPT-2 and GPT-3 have it.

    Args:
        layers, width: blocks, and the length of their vectors.
        heads: of attention; by default one for 64 numbers of the width.
        sequence, vocabulary: tokens of an example, and words that there are.
        inner: width between the dense layers of a block; by default 4 · width.
        name, label: what it is called.

    Raises:
        ValueError: a size that is not a whole number from 1, or a width that the heads cannot share.

    >>> gpt().parameters  # GPT-2 small
    124439808
    """
    sizes = {"layers": layers, "width": width, "heads": heads, "sequence": sequence, "vocabulary": vocabulary}
    for key, value in {**sizes, "inner": inner}.items():
        if value is None and key in ("heads", "inner"):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"gpt: {key} must be a whole number from 1, got {value!r}")
    heads = max(1, width // 64) if heads is None else heads
    body = [
        embedding("tokens", vocabulary, width, sequence),
        embedding("positions", sequence, width, sequence),
        *(layer for i in range(layers) for layer in block(f"block{i + 1}", width, heads, sequence, inner or 4 * width)),
        elementwise("norm", "norm", sequence * width, weights=2 * width),
        linear("output", width, vocabulary, sequence, bias=False, shared=True, exception="last"),
    ]
    label = label or f"GPT, {layers} layers of {width}"
    return Workload(name, label, tuple(body), f"sequence of {sequence:,} tokens", sequence)


def gpt3() -> Workload:
    """The shape of GPT-3 (Brown et al. 2020): 96 layers of 12,288.

    >>> round(gpt3().parameters / 1e9, 1)
    174.6
    """
    return gpt(96, 12288, heads=96, sequence=2048, name="gpt3", label="GPT-3")


def llama2_7b_writing(context: int = 1024) -> Workload:
    """Llama 2 7B (Touvron et al. 2023) writes one token after ``context`` others; nothing is trained.

    An example is one sequence. A batch shares the weights, and each sequence has its own keys and values.

    >>> workload = llama2_7b_writing()
    >>> workload.parameters, round(workload.frozen / 1e9, 2), bool(workload.gradients.any())
    (0, 6.74, False)
    """
    sizes = LANGUAGE_MODELS["llama-2-7b"]  # all heads have keys and values of their own
    width, inner, vocabulary = sizes.width, sizes.hidden, sizes.vocabulary
    body = [embedding("tokens", vocabulary, width, 1)]
    for i in range(sizes.blocks):
        name = f"block{i + 1}"
        body += [linear(f"{name}.attention.{part}", width, width, bias=False) for part in ("query", "key", "value")]
        body += attention(f"{name}.attention", width, sizes.heads, 1, context)
        body += [linear(f"{name}.attention.out", width, width, bias=False)]
        body += [linear(f"{name}.{part}", width, inner, bias=False) for part in ("gate", "up")]
        body += [linear(f"{name}.down", inner, width, bias=False)]
    body += [linear("output", width, vocabulary, bias=False, exception="last")]
    layers = tuple(replace(layer, weights=0, frozen=layer.weights, tensors=(), gradients=()) for layer in body)
    return Workload("llama2_7b_writing", "Llama 2 7B, writing", layers, f"token after {context:,} others", 1)


def bert_base(sequence: int = 128) -> Workload:
    """BERT-base (Devlin et al. 2019) with its pooling layer, without a head, on 128 tokens.

    >>> bert_base().parameters
    109482240
    """
    width = 768
    layers = [
        embedding("tokens", 30522, width, sequence),
        embedding("positions", 512, width, sequence),
        embedding("segments", 2, width, sequence),
        elementwise("norm", "norm", sequence * width, weights=2 * width),
        *(layer for i in range(12) for layer in block(f"block{i + 1}", width, 12, sequence, 4 * width)),
        linear("pool", width, width, exception="last"),
    ]
    return Workload("bert_base", "BERT-base", tuple(layers), f"sequence of {sequence} tokens", sequence)


def transformer_base(sequence: int = 64, vocabulary: int = 37000) -> Workload:
    """The base model of Vaswani et al. 2017, one embedding for both languages and the output, 64 tokens each way.

    >>> transformer_base().parameters
    63082496
    """
    width, heads, inner = 512, 8, 2048
    layers = [embedding("tokens", vocabulary, width, 2 * sequence)]
    for i in range(6):
        layers += block(f"encoder{i + 1}", width, heads, sequence, inner)
    for i in range(6):
        layers += block(f"decoder{i + 1}", width, heads, sequence, inner, keys=sequence)
    output = linear("output", width, vocabulary, sequence, bias=False, shared=True, exception="last")
    return Workload(
        "transformer_base", "Transformer-base", (*layers, output), f"pair of sequences of {sequence} tokens", sequence
    )


def lstm_lm(width: int = 650, layers: int = 2, vocabulary: int = 10000, sequence: int = 35) -> Workload:
    """A recurrent language model, by default the medium one of Zaremba et al. 2014 for Penn Treebank.

    The products with the input of a layer can be done for all time steps at once, those with the state cannot.

    >>> round(lstm_lm().parameters / 1e6, 1)
    19.8
    """
    body = [embedding("tokens", vocabulary, width, sequence)]
    weights = tuple(parameter_info("lstm", shape, "recurrent") for shape in ((4 * width, width), (4 * width,)))
    for i in range(layers):
        body += [
            replace(linear(f"lstm{i + 1}.input", width, 4 * width, sequence), tensors=weights),
            Layer(
                f"lstm{i + 1}.state",
                "linear",
                m=1,
                n=4 * width,
                k=width,
                steps=sequence,
                weights=4 * width * (width + 1),
                inputs=sequence * width,
                outputs=sequence * 4 * width,
                tensors=weights,
            ),
            elementwise(f"lstm{i + 1}.gates", "activation", sequence * width, reads=5),
        ]
    body += [linear("output", width, vocabulary, sequence, exception="last")]
    return Workload("lstm_lm", "LSTM language model", tuple(body), f"sequence of {sequence} words", sequence)
