"""Detection by one stage: a grid of cells, each of which says what is centred in it, and how large it is.

As in the detectors of one stage (Redmon et al. 2016, arXiv 1506.02640; Liu et al. 2016, arXiv 1512.02325), in small:
one box a cell, no anchors. This module needs PyTorch.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
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

    >>> import torch
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
    """The objects that a network sees: of each image boxes, classes and how sure it is of each.

    Of two boxes of one class that overlap by half or more, the less sure one is left out.

    Args:
        output: as for :func:`loss`; the cells are those of square images.

    Returns:
        For each image float64 [objects, 4] (left, top, right, bottom in pixels), int64 [objects], and float64 [objects]
        from 0.05 to 1, the surest first.

    >>> import torch
    >>> output = torch.zeros(1, 16, 15)
    >>> output[0, :, 10], output[0, 6, 3] = 20.0, 40.0
    >>> boxes, labels, _ = decode(output)[0]
    >>> boxes.tolist(), labels.tolist()
    ([[4.0, 0.0, 12.0, 8.0]], [3])
    """
    classes = output.shape[-1] - BOX - 1
    values = output.detach().double()
    sure, labels = (part.numpy() for part in values[..., : classes + 1].softmax(-1)[..., :classes].max(-1))
    boxes = _in_pixels(values[..., classes + 1 :].numpy())
    kept = [_strongest(*parts) for parts in zip(boxes, labels, sure, strict=True)]
    return [(boxes[i][rows], labels[i][rows], sure[i][rows]) for i, rows in enumerate(kept)]


def _in_pixels(boxes: np.ndarray) -> np.ndarray:
    """Boxes [images, cells, 4] as cells tell them, as left, top, right and bottom edge in pixels."""
    cells = round(boxes.shape[1] ** 0.5)
    row, column = np.divmod(np.arange(cells * cells), cells)
    middle = (np.stack([column, row], axis=-1) + boxes[..., :2]) * STRIDE
    half = UNIT * np.exp2(np.clip(boxes[..., 2:], -10, 10)) / 2
    return np.concatenate([middle - half, middle + half], axis=-1)


def _strongest(boxes: np.ndarray, labels: np.ndarray, sure: np.ndarray) -> list[int]:
    """Indices of the boxes that no surer one of their class overlaps, the surest first."""
    order = np.argsort(-sure, kind="stable")
    order = order[sure[order] >= SURE]
    one = (overlap(boxes[:, None], boxes) >= OVERLAP) & (labels[:, None] == labels)
    kept: list[int] = []
    for index in order.tolist():
        if not one[index, kept].any():
            kept.append(index)
    return kept


def overlap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes [..., 4], each left, top, right and bottom edge; shapes are broadcast.

    >>> overlap(np.array([0.0, 0.0, 2.0, 2.0]), np.array([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0]])).round(3)
    array([0.333, 1.   ])
    """
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    shared = np.maximum(sides, 0).prod(axis=-1)
    area, its_area = ((box[..., 2:] - box[..., :2]).prod(axis=-1) for box in (one, other))
    return shared / (area + its_area - shared)


def mean_average_precision(output: Tensor, target: Tensor) -> float:
    """Mean average precision, 0 to 1: a box is right if it overlaps a true one of its class by half or more.

    Computed by faster-coco-eval, which is the evaluation of COCO (Lin et al. 2014, arXiv 1405.0312), at this one
    overlap; the mean is over the classes that occur.

    Args:
        output, target: as for :func:`loss`.

    Raises:
        ImportError: the library is not installed.

    >>> import torch
    >>> target = torch.from_numpy(encode(np.array([[[4.0, 0.0, 12.0, 8.0]]]), np.array([[3]]), 16, 10))
    >>> seen = torch.cat([functional.one_hot(target[..., 0].long(), 11) * 40.0, target[..., 1:]], dim=-1)
    >>> round(mean_average_precision(seen, target), 6)  # doctest: +SKIP
    1.0
    """
    check_library()
    from faster_coco_eval import COCO, COCOeval_faster

    classes, size = output.shape[-1] - BOX - 1, round(target.shape[1] ** 0.5) * STRIDE
    truth = _in_pixels(target[..., 1:].double().numpy())
    present = np.argwhere(target[..., 0].numpy() != classes)
    true_boxes = [_record(image, target[image, cell, 0], truth[image, cell]) for image, cell in present]
    seen_boxes = [
        {**_record(image, label, box), "score": float(score)}
        for image, objects in enumerate(decode(output))
        for box, label, score in zip(*objects, strict=True)
    ]
    if not seen_boxes or not true_boxes:
        return 0.0
    coco = COCO(
        {
            "images": [{"id": image, "height": size, "width": size} for image in range(len(target))],
            "annotations": [{**box, "id": number} for number, box in enumerate(true_boxes, 1)],
            "categories": [{"id": label, "name": str(label)} for label in range(classes)],
        }
    )
    evaluation = COCOeval_faster(coco, coco.loadRes(seen_boxes), "bbox", print_function=lambda *_: None)
    evaluation.params.iouThrs = np.array([OVERLAP])
    evaluation.evaluate()
    evaluation.accumulate()
    precision = evaluation.eval["precision"][0, :, :, 0, -1]  # [recalls, classes] of objects of every size
    return float(precision[precision > -1].mean())


def _record(image: int, label: Any, box: np.ndarray) -> dict[str, Any]:
    """A box in the words of COCO: left, top, width, height."""
    left, top, right, bottom = box.tolist()
    sides = right - left, bottom - top
    return {
        "image_id": int(image), "category_id": int(label), "bbox": [left, top, *sides],
        "area": sides[0] * sides[1], "iscrowd": 0,
    }  # fmt: skip


def error(output: Tensor, target: Tensor) -> float:
    """1 − mean average precision; as :func:`mean_average_precision`."""
    return 1 - mean_average_precision(output, target)


def check_library() -> None:
    """Say at once that the library of :func:`mean_average_precision` is missing, before anything is trained.

    Raises:
        ImportError: with the command that installs it.
    """
    if find_spec("faster_coco_eval") is None:
        raise ImportError("detection is scored by faster-coco-eval: pip install 'lplab[detection]'")
