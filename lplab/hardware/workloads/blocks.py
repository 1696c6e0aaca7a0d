"""Building blocks of workloads: convolutions, dense layers, attention, and elementwise layers."""

from __future__ import annotations

from lplab.compression.layer_info import parameter_info
from lplab.hardware.workloads.workload import Layer


def conv(
    name: str,
    channels: int,
    filters: int,
    kernel: int,
    size: int,
    *,
    stride: int = 1,
    groups: int = 1,
    bias: bool = False,
    exception: str = "",
) -> Layer:
    """A convolution of a square image, padded so that only the stride makes it smaller.

    Args:
        name: of the layer.
        channels, filters: channels in and out.
        kernel, stride, groups: of the convolution.
        size: side of its input.
        bias: whether it has one.
        exception: see :class:`Layer`.

    >>> conv("conv1", 3, 64, 7, 224, stride=2).multiplications
    118013952
    """
    out = -(-size // stride)
    inner = channels // groups * kernel * kernel
    shapes = ((filters, channels // groups, kernel, kernel), *[(filters,)] * bias)
    return Layer(
        name,
        "conv",
        m=out * out,
        n=filters // groups,
        k=inner,
        groups=groups,
        weights=filters * inner + bias * filters,
        inputs=channels * size * size,
        outputs=filters * out * out,
        exception=exception or ("depthwise" if groups > 1 and groups == channels else ""),
        tensors=tuple(parameter_info(name, shape, "convolution", out * out) for shape in shapes),
    )


def linear(
    name: str, width: int, out: int, rows: int = 1, *, bias: bool = True, shared: bool = False, exception: str = ""
) -> Layer:
    """A dense layer that is applied to each of ``rows`` vectors of an example.

    >>> linear("fc", 2048, 1000).weights
    2049000
    """
    return Layer(
        name,
        "linear",
        m=rows,
        n=out,
        k=width,
        weights=width * out + bias * out,
        shared=shared,
        inputs=rows * width,
        outputs=rows * out,
        exception=exception,
        tensors=tuple(parameter_info(name, shape, "dense") for shape in ((out, width), *[(out,)] * bias)),
    )


def elementwise(name: str, kind: str, elements: int, *, weights: int = 0, reads: int = 1) -> Layer:
    """A layer without a product ("norm", "activation", "add"): reads ``reads`` tensors of ``elements``, writes one.

    ``weights`` of a norm are as many scales as shifts.
    """
    halves = (weights // 2, weights - weights // 2) if weights else ()
    tensors = tuple(parameter_info(name, (half,), "dense") for half in halves)
    return Layer(name, kind, weights=weights, inputs=reads * elements, outputs=elements, tensors=tensors)


def embedding(name: str, words: int, width: int, rows: int, *, reads_rows: bool = True) -> Layer:
    """A table of which ``rows`` vectors are looked up: no product, many parameters."""
    return Layer(
        name,
        "embedding",
        weights=words * width,
        inputs=rows * width if reads_rows else 0,
        outputs=rows * width,
        exception="embedding",
        tensors=(parameter_info(name, (words, width), "embedding"),),
    )


def attention(name: str, width: int, heads: int, queries: int, keys: int) -> list[Layer]:
    """Scores, softmax and mixing of multi-head attention: products of activations by activations.

    >>> [layer.name for layer in attention("a", 768, 12, 128, 128)]
    ['a.scores', 'a.softmax', 'a.mix']
    """
    if width % heads:
        raise ValueError(f"the width {width} cannot be shared among {heads} heads")
    own = width // heads
    scores = heads * queries * keys
    return [
        Layer(
            f"{name}.scores",
            "attention",
            m=queries,
            n=keys,
            k=own,
            groups=heads,
            inputs=width * (queries + keys),
            outputs=scores,
        ),
        elementwise(f"{name}.softmax", "softmax", scores),
        Layer(
            f"{name}.mix",
            "attention",
            m=queries,
            n=own,
            k=keys,
            groups=heads,
            inputs=scores + width * keys,
            outputs=width * queries,
        ),
    ]


def block(
    name: str, width: int, heads: int, rows: int, inner: int, *, keys: int | None = None, biased: bool = True
) -> list[Layer]:
    """A Transformer block: attention and two dense layers, each with its norm and its shortcut.

    Args:
        name: prefix of its layers.
        width, heads, rows: of its vectors.
        inner: width between the two dense layers.
        keys: vectors of the encoder; a decoder block attends to them, too.
        biased: whether dense layers have a bias.
    """
    layers = attend(f"{name}.attention", width, heads, rows, rows, biased=biased)
    if keys is not None:
        layers += attend(f"{name}.cross", width, heads, rows, keys, biased=biased)
    return [
        *layers,
        linear(f"{name}.up", width, inner, rows, bias=biased),
        elementwise(f"{name}.gelu", "activation", rows * inner),
        linear(f"{name}.down", inner, width, rows, bias=biased),
        elementwise(f"{name}.add", "add", rows * width, reads=2),
        elementwise(f"{name}.norm", "norm", rows * width, weights=2 * width),
    ]


def attend(name: str, width: int, heads: int, queries: int, keys: int, *, biased: bool = True) -> list[Layer]:
    """Attention with its four dense layers, the addition and the norm."""
    return [
        linear(f"{name}.query", width, width, queries, bias=biased),
        linear(f"{name}.key", width, width, keys, bias=biased),
        linear(f"{name}.value", width, width, keys, bias=biased),
        *attention(name, width, heads, queries, keys),
        linear(f"{name}.out", width, width, queries, bias=biased),
        elementwise(f"{name}.add", "add", queries * width, reads=2),
        elementwise(f"{name}.norm", "norm", queries * width, weights=2 * width),
    ]
