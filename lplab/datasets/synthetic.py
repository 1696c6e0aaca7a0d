"""Generated examples, as many as needed: cluttered digits, and scenes of several digits."""

import math

import numpy as np

from lplab.datasets.bundled import digits


def cluttered_digits(
    count: int, size: int = 16, clutter: int = 4, noise: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """A digit somewhere in an image of noise and pieces of other digits: harder than the digits themselves.

    The digit lies at a random place with a random contrast and colour; ``clutter`` pieces of 4 × 4 of other digits lie
    around and upon it. Labels are drawn evenly.

    Args:
        count: how many.
        size: height and width, from 8 on.
        clutter: pieces in an image; 0 for none.
        noise: standard deviation of the noise; pixels are about 0 to 1.
        seed: same seed, same images.

    Returns:
        Images float32 [count, 3, size, size] and labels int64 [count].

    >>> images, labels = cluttered_digits(100, seed=1)
    >>> images.shape, images.dtype.name, sorted(set(labels.tolist())) == list(range(10))
    ((100, 3, 16, 16), 'float32', True)
    """
    for argument in (("count", count, 1), ("size", size, 8), ("clutter", clutter, 0)):
        _check_int(*argument)
    if not 0 <= noise < math.inf:
        raise ValueError(f"noise must be a number from 0 on, got {noise!r}")
    generator = np.random.default_rng(seed)
    digit_images, labels = digits()
    chosen = generator.integers(0, len(digit_images), count)
    images = generator.normal(0.0, noise, (count, 3, size, size)).astype(np.float32)
    _add_pieces(images, digit_images[chosen], generator, contrast=(0.5, 1.0))
    for _ in range(clutter):
        others = digit_images[generator.integers(0, len(digit_images), count)]
        corner = generator.integers(0, 5, 2)
        piece = others[:, corner[0] : corner[0] + 4, corner[1] : corner[1] + 4]
        _add_pieces(images, piece, generator, contrast=(0.3, 0.8))
    return images, labels[chosen]


def _add_pieces(
    images: np.ndarray, pieces: np.ndarray, generator: np.random.Generator, contrast: tuple[float, float]
) -> None:
    """Add pieces [n, h, w] to images [n, 3, size, size], each at a random place and in a random colour."""
    count, height, width = pieces.shape
    size = images.shape[-1]
    rows = generator.integers(0, size - height + 1, count)[:, None] + np.arange(height)
    columns = generator.integers(0, size - width + 1, count)[:, None] + np.arange(width)
    colours = generator.uniform(*contrast, (count, 3)).astype(np.float32)
    where = np.arange(count)[:, None, None, None], np.arange(3)[:, None, None]
    images[*where, rows[:, None, :, None], columns[:, None, None, :]] += colours[:, :, None, None] * pieces[:, None]


def digit_scenes(
    count: int, size: int = 32, most: int = 3, clutter: int = 4, noise: float = 0.1, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Several digits of different sizes in an image of noise and pieces of others, with a box around each.

    A digit is drawn once, one and a half times or twice as large as it is stored, in a random place, contrast and
    colour. ``most`` digits are tried, and one whose box would touch an earlier one is left out.

    Args:
        count: how many images.
        size: height and width, from 16 on.
        most: digits in an image, from 1 on.
        clutter: pieces of 4 × 4 of other digits in an image; 0 for none.
        noise: standard deviation of the noise; pixels are about 0 to 1.
        seed: same seed, same images.

    Returns:
        Images float32 [count, 3, size, size]; boxes float32 [count, most, 4], left, top, right and bottom edge of the
        ink in pixels; labels int64 [count, most], −1 where there is no digit.

    Raises:
        ValueError: a number out of range.

    >>> images, boxes, labels = digit_scenes(100, seed=1)
    >>> images.shape, boxes.shape, sorted(set(labels[:, 0].tolist())) == list(range(10))
    ((100, 3, 32, 32), (100, 3, 4), True)
    """
    for argument in (("count", count, 1), ("size", size, 16), ("most", most, 1), ("clutter", clutter, 0)):
        _check_int(*argument)
    if not 0 <= noise < math.inf:
        raise ValueError(f"noise must be a number from 0 on, got {noise!r}")
    generator = np.random.default_rng(seed)
    digit_images, digit_labels = digits()
    images = generator.normal(0.0, noise, (count, 3, size, size)).astype(np.float32)
    for _ in range(clutter):
        others = digit_images[generator.integers(0, len(digit_images), count)]
        _add_pieces(images, others[:, 2:6, 2:6], generator, contrast=(0.2, 0.5))
    boxes, labels = np.zeros((count, most, 4), np.float32), np.full((count, most), -1, np.int64)
    for image, its_boxes, its_labels in zip(images, boxes, labels, strict=True):
        for place in range(most):
            chosen = generator.integers(0, len(digit_images))
            side = generator.choice((8, 12, 16))
            rows = np.arange(side) * 8 // side
            digit = digit_images[chosen][np.ix_(rows, rows)]
            top, left = generator.integers(0, size - side + 1, 2)
            colour = generator.uniform(0.5, 1.0, 3).astype(np.float32)
            ink = [np.flatnonzero(digit.max(axis=axis) > 0.25) for axis in (0, 1)]
            box = [left + ink[0][0], top + ink[1][0], left + ink[0][-1] + 1, top + ink[1][-1] + 1]
            earlier = its_boxes[its_labels >= 0]
            if not (np.minimum(box[2:], earlier[:, 2:]) >= np.maximum(box[:2], earlier[:, :2])).all(axis=1).any():
                image[:, top : top + side, left : left + side] += colour[:, None, None] * digit
                its_boxes[place], its_labels[place] = box, digit_labels[chosen]
    return images, boxes, labels


def _check_int(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
