"""The networks of the list of workloads as modules, written from their definitions, to run on the meta device.

Layers stand in the order in which workloads have them; attention is written out, with four dense layers.
"""

import torch
from torch import nn
from torch.nn import functional


def resnet(depths, bottleneck):
    """ResNet for images in 1000 classes, the stride in the 3 × 3 convolutions."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels, out = 64, 64
    for stage, depth in enumerate(depths):
        for number in range(depth):
            width, stride = 64 * 2**stage, 2 if number == 0 and stage else 1
            out = width * (4 if bottleneck else 1)
            layers.append(Residual(channels, width, out, stride, bottleneck))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(out, 1000))


class Residual(nn.Module):
    def __init__(self, channels, width, out, stride, bottleneck):
        super().__init__()
        kernels = ((1, 1), (3, stride), (1, 1)) if bottleneck else ((3, stride), (3, 1))
        sizes = [channels, *[width] * (len(kernels) - 1), out]
        body = []
        for i, (kernel, step) in enumerate(kernels):
            body += [nn.Conv2d(sizes[i], sizes[i + 1], kernel, step, kernel // 2, bias=False)]
            body += [nn.BatchNorm2d(sizes[i + 1]), nn.ReLU()]
        self.body = nn.Sequential(*body[:-1])
        same = channels == out and stride == 1
        norm = nn.BatchNorm2d(out)
        self.shortcut = None if same else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), norm)

    def forward(self, x):
        return functional.relu(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


def vgg16():
    layers, channels = [], 3
    for filters, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
            channels = filters
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(25088, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


class Inverted(nn.Module):
    def __init__(self, channels, filters, stride, expansion):
        super().__init__()
        inner, self.adds = channels * expansion, stride == 1 and channels == filters
        first = [*normed(channels, inner, 1), nn.ReLU6()] if expansion > 1 else []
        middle = [*normed(inner, inner, 3, stride, inner), nn.ReLU6()]
        self.body = nn.Sequential(*first, *middle, *normed(inner, filters, 1))

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def normed(channels, filters, kernel, stride=1, groups=1):
    convolution = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(filters)]


def mobilenetv2():
    layers, channels = [*normed(3, 32, 3, 2), nn.ReLU6()], 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expansion, filters, depth, stride in stages:
        for number in range(depth):
            layers.append(Inverted(channels, filters, stride if number == 0 else 1, expansion))
            channels = filters
    layers += [*normed(320, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers)


class Attention(nn.Module):
    def __init__(self, width, heads, biased=True):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, biased) for _ in range(4))

    def forward(self, x, memory):
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for f, y in ((self.query, x), (self.key, memory), (self.value, memory)))  # fmt: skip
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width, heads, inner, cross=False):
        super().__init__()
        self.attention, self.norm = Attention(width, heads), nn.LayerNorm(width)
        if cross:
            self.cross, self.cross_norm = Attention(width, heads), nn.LayerNorm(width)
        self.up, self.down, self.last = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)

    def forward(self, x, memory=None):
        x = self.norm(x + self.attention(x, x))
        x = x if memory is None else self.cross_norm(x + self.cross(x, memory))
        return self.last(x + self.down(functional.gelu(self.up(x))))


class Reader(nn.Module):
    """A Transformer that reads words: GPT (the output tied to the table) or BERT (with segments and a pool)."""

    def __init__(self, layers, width, heads, words, positions, segments=0):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.segments = nn.Embedding(segments, width) if segments else None
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, 4 * width) for _ in range(layers))
        self.pool = nn.Linear(width, width) if segments else None

    def forward(self, words):
        x = self.tokens(words) + self.positions(torch.arange(words.shape[1], device=words.device))
        if self.segments is not None:
            x = self.norm(x + self.segments(torch.zeros_like(words)))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight) if self.pool is None else self.pool(x[:, 0])


class Translator(nn.Module):
    """The Transformer of 2017, with one table for both languages and the output."""

    def __init__(self, words=37000, width=512, heads=8, inner=2048, layers=6):
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.encoder = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, heads, inner, cross=True) for _ in range(layers))

    def forward(self, pair):
        x, y = self.table(pair).chunk(2, dim=1)
        for block in self.encoder:
            x = block(x)
        for block in self.decoder:
            y = block(y, x)
        return functional.linear(y, self.table.weight)


class LSTM(nn.Module):
    """The medium language model of 2014, each layer with one bias for both products and one more, as PyTorch has it."""

    def __init__(self, words=10000, width=650, layers=2):
        super().__init__()
        self.table, self.lstm = nn.Embedding(words, width), nn.LSTM(width, width, layers, batch_first=True)
        self.output = nn.Linear(width, words)

    def forward(self, words):
        return self.output(self.lstm(self.table(words))[0])


PICTURE, WORDS = (2, 3, 224, 224), torch.long
NETWORKS = {  # what makes it, the shape of a batch of two, and its type
    "resnet18": (lambda: resnet((2, 2, 2, 2), False), PICTURE, None),
    "resnet50": (lambda: resnet((3, 4, 6, 3), True), PICTURE, None),
    "mobilenetv2": (mobilenetv2, PICTURE, None),
    "vgg16": (vgg16, PICTURE, None),
    "bert_base": (lambda: Reader(12, 768, 12, 30522, 512, 2), (2, 128), WORDS),
    "transformer_base": (Translator, (2, 128), WORDS),
    "lstm_lm": (LSTM, (2, 35), WORDS),
    "gpt": (lambda: Reader(12, 768, 12, 50257, 1024), (2, 1024), WORDS),
    "gpt3": (lambda: Reader(96, 12288, 96, 50257, 2048), (2, 2048), WORDS),
}


def on_meta(name):
    """The module of a workload and a batch of two examples, both without memory."""
    make, shape, dtype = NETWORKS[name]
    with torch.device("meta"):
        return make(), torch.zeros(shape, dtype=dtype)
