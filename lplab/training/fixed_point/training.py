"""Gupta's training in fixed point (ICML 2015, sections 3 and 4), as far as the paper specifies it.

Weights, biases, layer outputs, back-propagated errors and updates are fixed point. A dot product is exact, in a wide
accumulator, and converted once, at its end. There is no copy of the weights with more bits.

Where the paper is silent, this reading is taken:

- The softmax is computed in floating point from the fixed-point outputs of the last layer; the first error that is
  converted is p − onehot.
- The mean over the batch is taken after the product that gives the gradient, together with the learning rate, and the
  result is converted once: ΔW = Convert(−(lr/B)·aᵀδ). Dividing δ by B first would round most of it to zero.
- With momentum, the velocity is a fixed-point tensor: v = Convert(μv + ΔW before its Convert), W = Convert(W + v).
- The first weights are rounded to nearest even under every rule, so that all rules start at the same point.
- Testing uses the arithmetic of the training, random rounding included.
- N(0, 0.01) of the paper is a parameter, the standard deviation (0.1 by default).

Products and sums are float64 and **exact**: two words of 16 bits multiply to 32, and 129 of those add up to less than
2^40 units, far from the 2^53 to which float64 counts (:attr:`FixedPointConfig.sum_bits` is checked for every run). Only
softmax and the factor lr/B round, in the 53rd bit, before a Convert keeps 16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from lplab.datasets import digits
from lplab.training.fixed_point.config import Epoch, FixedPointConfig, FixedPointResult
from lplab.training.fixed_point.convert import Converter
from lplab.training.thread_counts import one_blas_thread

TEST_IMAGES = 397  # of 1,797; the other 1,400 make fourteen batches of 100
CLASSES = 10


@cache
def digits_split() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The digits, in a fixed shuffled order: training images [1400, 64] in 0..1, labels, test images [397, 64], labels.

    Every run uses the same training and test images; the arrays are read-only.

    >>> [part.shape for part in digits_split()]
    [(1400, 64), (1400,), (397, 64), (397,)]
    """
    images, labels = digits()
    order = np.random.default_rng(0).permutation(len(images))
    x, y = images.reshape(len(images), -1)[order].astype(np.float64), labels[order]
    parts = x[:-TEST_IMAGES], y[:-TEST_IMAGES], x[-TEST_IMAGES:], y[-TEST_IMAGES:]
    for part in parts:
        part.setflags(write=False)
    return parts


def train_epochs(run: FixedPointConfig) -> Iterator[Epoch]:
    """Train, and yield after every epoch, so that the caller can draw or stop.

    Same run, same bits, for any number of threads and any order of additions (see the head of this module). Another
    machine may differ only where its exp differs in the last bit and a Convert decides on just that bit, which is
    very rare; float64 runs are as reproducible as the BLAS library is.

    Raises:
        ValueError: a user's rounding function returned an unusable result.

    >>> next(train_epochs(FixedPointConfig(fraction_bits=8, rounding="nearest_down"))).counts.updates_lost > 0
    True
    """
    x, y, test_x, test_y = digits_split()
    net = _Network(run)
    x, test_x = net.stored(x), net.stored(test_x)
    order = np.random.default_rng([run.seed, 1])
    targets = np.eye(CLASSES)
    for number in range(1, run.epochs + 1):
        if run.widen_after is not None and number == run.widen_after + 1:
            net.run = run.widened  # the longer words hold every number of the shorter ones exactly
        with one_blas_thread():
            shuffled, losses = order.permutation(len(x)), []
            for first in range(0, len(x) - run.batch + 1, run.batch):
                batch = shuffled[first : first + run.batch]
                losses.append(net.step(x[batch], targets[y[batch]], count_ties=first == 0))
            wrong = net.outputs(test_x, net.test_convert, "")[-1].argmax(axis=1) != test_y
        yield Epoch(number, 100 * float(wrong.mean()), float(np.mean(losses)), net.convert.collect())


def train_fixed_point(run: FixedPointConfig, watch: Callable[[Epoch], Any] | None = None) -> FixedPointResult:
    """Train to the end; ``watch`` is called with every epoch.

    >>> train_fixed_point(FixedPointConfig(fraction_bits=None, epochs=3)).test_error < 20
    True
    """
    epochs = []
    for epoch in train_epochs(run):
        epochs.append(epoch)
        if watch:
            watch(epoch)
    return FixedPointResult(run, tuple(epochs))


def train_in_lockstep(runs: Sequence[FixedPointConfig]) -> Iterator[tuple[Epoch, ...]]:
    """Train several runs together, epoch by epoch, so that their curves can be compared while they train.

    >>> runs = [FixedPointConfig(rounding=rule, epochs=2) for rule in ("stochastic", "nearest_down")]
    >>> [len(epochs) for epochs in train_in_lockstep(runs)]
    [2, 2]
    """
    yield from zip(*map(train_epochs, runs), strict=False)  # the shortest run ends it


class _Network:
    """Weights, and one step of training. All parameters lie in one vector, so that one Convert serves all updates."""

    def __init__(self, run: FixedPointConfig) -> None:
        self.run = run
        self.convert = Converter(run.rounding, [run.seed, 2])
        self.test_convert = Converter(run.rounding, [run.seed, 3])
        sizes = (digits_split()[0].shape[1], *run.hidden, CLASSES)
        self.shapes = [(inputs + 1, outputs) for inputs, outputs in pairwise(sizes)]
        total = sum(rows * columns for rows, columns in self.shapes)
        self.parameters, self.gradient, self.velocity = np.zeros(total), np.zeros(total), np.zeros(total)
        self.layers, self.gradients = self._views(self.parameters), self._views(self.gradient)
        rng = np.random.default_rng([run.seed, 0])
        for layer in self.layers:  # [inputs + 1, outputs]: the last row is the bias, which starts at 0
            layer[:-1] = rng.normal(0, run.initial_std, layer[:-1].shape)
        if run.weight_format is not None:
            run.weight_format.quantize(self.parameters, "nearest_even", out=self.parameters)

    def _views(self, vector: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])
        return [part.reshape(s) for part, s in zip(np.split(vector, ends[:-1]), self.shapes, strict=True)]

    def stored(self, images: np.ndarray) -> np.ndarray:
        """The images in the format of layer outputs; their sixteenths are exact with four fraction bits or more."""
        fmt = self.run.output_format
        return images if fmt is None else fmt.quantize(images, "nearest_even")

    def outputs(self, x: np.ndarray, convert: Converter, role: str = "outputs") -> list[np.ndarray]:
        """The images, and the outputs of all layers: one Convert at the end of each dot product, then ReLU."""
        outputs = [x]
        for layer in self.layers:
            z = convert(outputs[-1] @ layer[:-1] + layer[-1], self.run.output_format, role)
            outputs.append(np.maximum(z, 0, out=z) if layer is not self.layers[-1] else z)
        return outputs

    def step(self, x: np.ndarray, target: np.ndarray, count_ties: bool) -> float:
        """One batch: forward, backward, update; returns the mean cross-entropy."""
        outputs = self.outputs(x, self.convert)
        shifted = outputs[-1] - outputs[-1].max(axis=1, keepdims=True)
        p = np.exp(shifted)
        total = p.sum(axis=1, keepdims=True)
        loss = float((np.log(total[:, 0]) - (shifted * target).sum(axis=1)).mean())
        delta = self.convert(p / total - target, self.run.output_format, "errors")
        for k in range(len(self.layers) - 1, -1, -1):
            np.matmul(outputs[k].T, delta, out=self.gradients[k][:-1])
            np.sum(delta, axis=0, out=self.gradients[k][-1])
            if k:
                delta = self.convert(delta @ self.layers[k][:-1].T, self.run.output_format, "errors")
                delta *= outputs[k] > 0
        self._update(len(x), count_ties)
        return loss

    def _update(self, batch: int, count_ties: bool) -> None:
        run, fmt, update = self.run, self.run.weight_format, self.gradient
        if run.convert_gradient:
            update /= batch
            self.convert(update, fmt)
            update *= -run.learning_rate
        else:
            update *= -run.learning_rate / batch
        if run.momentum:
            update += run.momentum * self.velocity
        self.convert(update, fmt, "updates", count_ties=count_ties)
        self.velocity[:] = update
        self.parameters += update
        self.convert(self.parameters, fmt, "weights")
