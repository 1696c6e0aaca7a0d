"""ResNet-18 and -50, MobileNetV2 and VGG16 on images of 224 × 224 in 1000 classes."""

from __future__ import annotations

from lplab.hardware.workloads.blocks import conv, elementwise, linear
from lplab.hardware.workloads.workload import Layer, Workload

PICTURE = "image of 224 × 224"


def resnet18() -> Workload:
    """ResNet-18 (He et al. 2016).

    >>> resnet18().parameters
    11689512
    """
    return _resnet("resnet18", "ResNet-18", (2, 2, 2, 2), bottleneck=False)


def resnet50() -> Workload:
    """ResNet-50 (He et al. 2016), the stride in the 3 × 3 convolutions, as in torchvision.

    >>> resnet50().parameters
    25557032
    """
    return _resnet("resnet50", "ResNet-50", (3, 4, 6, 3), bottleneck=True)


def vgg16() -> Workload:
    """VGG16 (Simonyan and Zisserman 2015), without batch norm.

    >>> vgg16().parameters
    138357544
    """
    layers: list[Layer] = []
    channels, size = 3, 224
    for stage, (filters, depth) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], 1):
        for number in range(1, depth + 1):
            name = f"conv{stage}_{number}"
            first = "first" if not layers else ""
            layers += [conv(name, channels, filters, 3, size, bias=True, exception=first)]
            layers += [elementwise(f"{name}.relu", "activation", filters * size * size)]
            channels = filters
        size //= 2
        layers += [Layer(f"pool{stage}", "pool", inputs=4 * channels * size**2, outputs=channels * size**2)]
    for name, width, out in (("fc6", 25088, 4096), ("fc7", 4096, 4096)):
        layers += [linear(name, width, out), elementwise(f"{name}.relu", "activation", out)]
    layers += [linear("fc8", 4096, 1000, exception="last")]
    return Workload("vgg16", "VGG16", tuple(layers), PICTURE)


def mobilenetv2() -> Workload:
    """MobileNetV2 of width 1 (Sandler et al. 2018).

    >>> mobilenetv2().parameters
    3504872
    """
    layers = _normed(conv("conv1", 3, 32, 3, 224, stride=2, exception="first"))
    channels, size = 32, 112
    settings = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for stage, (expansion, filters, depth, first_stride) in enumerate(settings, 1):
        for number in range(depth):
            stride = first_stride if number == 0 else 1
            name = f"block{stage}_{number + 1}"
            layers += _inverted(name, channels, filters, size, stride, expansion)
            channels, size = filters, size // stride
    layers += _normed(conv("conv2", channels, 1280, 1, size))
    layers += [_mean("pool", 1280, size), linear("fc", 1280, 1000, exception="last")]
    return Workload("mobilenetv2", "MobileNetV2", tuple(layers), PICTURE)


def _inverted(name: str, channels: int, filters: int, size: int, stride: int, expansion: int) -> list[Layer]:
    inner = channels * expansion
    layers = _normed(conv(f"{name}.expand", channels, inner, 1, size)) if expansion > 1 else []
    layers += _normed(conv(f"{name}.depthwise", inner, inner, 3, size, stride=stride, groups=inner))
    size //= stride
    layers += _normed(conv(f"{name}.project", inner, filters, 1, size), active=False)
    if stride == 1 and channels == filters:
        layers += [elementwise(f"{name}.add", "add", filters * size**2, reads=2)]
    return layers


def _resnet(name: str, label: str, depths: tuple[int, ...], bottleneck: bool) -> Workload:
    layers = _normed(conv("conv1", 3, 64, 7, 224, stride=2, exception="first"))
    layers += [Layer("pool1", "pool", inputs=64 * 112**2, outputs=64 * 56**2)]
    channels, size = 64, 56
    for stage, depth in enumerate(depths, 1):
        width = 64 * 2 ** (stage - 1)
        for number in range(1, depth + 1):
            stride = 2 if number == 1 and stage > 1 else 1
            layers += _residual(f"layer{stage}_{number}", channels, width, size, stride, bottleneck)
            channels, size = width * (4 if bottleneck else 1), size // stride
    layers += [_mean("pool", channels, size), linear("fc", channels, 1000, exception="last")]
    return Workload(name, label, tuple(layers), PICTURE)


def _residual(name: str, channels: int, width: int, size: int, stride: int, bottleneck: bool) -> list[Layer]:
    small = size // stride
    if bottleneck:
        out = 4 * width
        convs = [
            *_normed(conv(f"{name}.conv1", channels, width, 1, size)),
            *_normed(conv(f"{name}.conv2", width, width, 3, size, stride=stride)),
            *_normed(conv(f"{name}.conv3", width, out, 1, small), active=False),
        ]
    else:
        out = width
        convs = [
            *_normed(conv(f"{name}.conv1", channels, width, 3, size, stride=stride)),
            *_normed(conv(f"{name}.conv2", width, width, 3, small), active=False),
        ]
    if channels != out or stride > 1:
        shortcut = conv(f"{name}.shortcut", channels, out, 1, size, stride=stride, exception="shortcut")
        convs += _normed(shortcut, active=False)
    elements = out * small**2
    return [
        *convs,
        elementwise(f"{name}.add", "add", elements, reads=2),
        elementwise(f"{name}.relu", "activation", elements),
    ]


def _normed(layer: Layer, *, active: bool = True) -> list[Layer]:
    """A convolution with its batch norm and, by default, a ReLU."""
    filters = layer.n * layer.groups
    layers = [layer, elementwise(f"{layer.name}.norm", "norm", layer.outputs, weights=2 * filters)]
    return [*layers, elementwise(f"{layer.name}.relu", "activation", layer.outputs)] if active else layers


def _mean(name: str, channels: int, size: int) -> Layer:
    return Layer(name, "pool", inputs=channels * size**2, outputs=channels)
