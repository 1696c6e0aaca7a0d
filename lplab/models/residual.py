"""Residual networks with batch norm: for 8 × 8 digits, and of any depth."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from lplab.models.initialization import build


class ResidualBlock(nn.Module):
    """Two 3 × 3 convolutions with batch norm and a shortcut around them (He et al. 2015, arXiv:1512.03385)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:  # a 1 × 1 convolution where the shapes differ ("option B")
            convolution = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels_in, h, w] → [batch, channels_out, h / stride, w / stride]."""
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class DigitsResNet(nn.Module):
    """A residual network for 8 × 8 images: stem, one block per width, global average, linear head.

    ``widths`` are the channels of the blocks; every block after the first halves height and width. The layers are named
    ``stem``, ``layer1.conv1`` … ``layer3.conv2``, ``head``. The default has 31 thousand parameters.

    >>> model = DigitsResNet()
    >>> sum(p.numel() for p in model.parameters())
    31434
    """

    def __init__(self, widths: tuple[int, ...] = (16, 24, 32), classes: int = 10):
        super().__init__()
        self.stem = nn.Conv2d(1, widths[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        self.depth = len(widths)
        for i, (before, width) in enumerate(zip((widths[0], *widths), widths, strict=False)):
            self.add_module(f"layer{i + 1}", ResidualBlock(before, width, stride=1 if i == 0 else 2))
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, 1, 8, 8] in 0..1 → logits [batch, classes]."""
        x = functional.relu(self.norm(self.stem(x)))
        for i in range(self.depth):
            x = self.get_submodule(f"layer{i + 1}")(x)
        return self.head(x.mean(dim=(2, 3)))


def digits_resnet(seed: int = 0) -> DigitsResNet:
    """The residual network of the labs, initialised from ``seed``; torch's global random state is unchanged.

    >>> digits_resnet(seed=3).layer2.conv1.weight.shape
    torch.Size([24, 16, 3, 3])
    """
    return build(DigitsResNet, seed)


class ResNet(nn.Module):
    """The residual network for CIFAR (He et al. 2015, section 4.2), depth 6n + 2: n blocks per width.

    Args:
        depth: 8, 14, 20, 26, … convolutions and one linear layer; ``bottleneck`` blocks count three and give 9n + 2.
        width: channels of the first third; the others have twice and four times as many.
        channels, classes: image channels and number of classes.
        bottleneck: blocks of a reducing 1 × 1, a 3 × 3 and an expanding 1 × 1 convolution, as in ResNet-50.

    Raises:
        ValueError: a depth that is none of these.

    >>> sum(p.numel() for p in ResNet(depth=20, width=16).parameters())
    272474
    """

    def __init__(
        self, depth: int = 8, width: int = 8, channels: int = 3, classes: int = 10, bottleneck: bool = False
    ) -> None:
        super().__init__()
        layers = 9 if bottleneck else 6
        if depth < layers + 2 or (depth - 2) % layers:
            raise ValueError(f"depth must be {layers}n + 2 with n from 1 on, got {depth}")
        self.stem = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks: list[nn.Module] = []
        before = width
        for stage in range(3):
            for i in range((depth - 2) // layers):
                make = Bottleneck if bottleneck else ResidualBlock
                blocks.append(make(before, width << stage, 2 if stage and not i else 1))
                before = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, channels, h, w] → logits [batch, classes]."""
        x = functional.relu(self.norm(self.stem(x)))
        return self.head(self.blocks(x).mean(dim=(2, 3)))


class Bottleneck(nn.Module):
    """1 × 1 down to a quarter, 3 × 3, 1 × 1 up again, with batch norms and a shortcut around them."""

    def __init__(self, channels_in: int, channels_out: int, stride: int):
        super().__init__()
        inner = max(channels_out // 4, 1)
        self.reduce = nn.Conv2d(channels_in, inner, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(inner)
        self.conv = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.expand = nn.Conv2d(inner, channels_out, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            convolution = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(convolution, nn.BatchNorm2d(channels_out))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, channels_in, h, w] → [batch, channels_out, h / stride, w / stride]."""
        y = functional.relu(self.norm1(self.reduce(x)))
        y = functional.relu(self.norm2(self.conv(y)))
        return functional.relu(self.norm3(self.expand(y)) + self.shortcut(x))


def resnet(depth: int = 8, width: int = 8, channels: int = 3, classes: int = 10, seed: int = 0, **more: bool) -> ResNet:
    """A :class:`ResNet`, initialised from ``seed``.

    >>> import torch
    >>> resnet(depth=8)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 10])
    """
    return build(ResNet, seed, depth, width, channels, classes, **more)


class Detector(nn.Module):
    """A detector of one stage: stem, three residual blocks of which two halve height and width, a 1 × 1 head.

    Each output cell stands for 4 × 4 pixels and says what is centred in it (:mod:`lplab.training.loop.detection`).

    Args:
        widths: channels of the three blocks.
        channels, classes: image channels and number of classes.

    Raises:
        ValueError: not three widths.
    """

    def __init__(self, widths: tuple[int, ...] = (16, 24, 32), channels: int = 3, classes: int = 10) -> None:
        super().__init__()
        if len(widths) != 3:
            raise ValueError(f"widths must be those of three blocks, got {widths!r}")
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(widths[0])
        self.layer1 = ResidualBlock(widths[0], widths[1], 2)
        self.layer2 = ResidualBlock(widths[1], widths[2], 2)
        self.layer3 = ResidualBlock(widths[2], widths[2], 1)
        self.head = nn.Conv2d(widths[2], classes + 1 + 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Images [batch, channels, h, w] → [batch, h / 4 · w / 4, classes + 1 + 4]: scores and box of each cell."""
        x = functional.relu(self.norm(self.stem(x)))
        return self.head(self.layer3(self.layer2(self.layer1(x)))).flatten(2).transpose(1, 2)


def detector(widths: tuple[int, ...] = (16, 24, 32), channels: int = 3, classes: int = 10, seed: int = 0) -> Detector:
    """A :class:`Detector`, initialised from ``seed``.

    >>> import torch
    >>> detector()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64, 15])
    """
    return build(Detector, seed, widths, channels, classes)
