"""Places for the names of dots: beside, above or below a dot, where a name lies on nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Box = tuple[float, float, float, float]  # left, top, right and bottom, in pixels
PLACES = (  # the first that is free
    "middle left", "middle right", "top center", "bottom center",
    "top left", "bottom left", "top right", "bottom right",
)  # fmt: skip
LETTER, LINE = 6.4, 12  # pixels of a letter in the small size, and of a line
DOT, DOT_OF_CHOSEN = 5, 9  # pixels, half the size
BESIDE = DOT_OF_CHOSEN / 0.8 + 1  # pixels from the middle of a mark to its name, as plotly has it
EDGE = 2  # pixels that names keep from lines
CLEAR = 4  # pixels that names keep from other dots and at their sides from other names


def places_beside_dots(
    dots: np.ndarray, names: Sequence[str], taken: Sequence[Box], room: tuple[float, float]
) -> list[str]:
    """Where the name of each dot stands, as plotly says it: the first place that is free, or else the freest.

    A place is free if the name lies on no dot, on no name before it and on nothing that is taken, and is not cut. A
    name that is free in a plot is so in every wider one, in which dots lie further apart and names are as long.

    Args:
        dots: in pixels from the upper left corner of the plot, float64 [dots, 2].
        names: of the dots.
        taken: boxes of other words and lines.
        room: width and height of the plot in pixels.

    >>> places_beside_dots(np.array([[100.0, 50.0], [130.0, 50.0]]), ["left", "right"], [], (300, 100))
    ['middle left', 'middle right']
    >>> places_beside_dots(np.array([[100.0, 50.0]]), ["before a line"], [(90.0, 0.0, 92.0, 100.0)], (300, 100))
    ['middle right']
    """
    half = DOT + CLEAR
    around_dots = [(x - half, y - half, x + half, y + half) for x, y in dots.tolist()]
    obstacles = list(taken)
    places = dict.fromkeys(range(len(names)), PLACES[0])
    for k in np.argsort(dots[:, 0], kind="stable").tolist():  # from the left, where a name cannot stand left of its dot
        x, y = dots[k].tolist()
        boxes = {place: _box_of_name(x, y, names[k], place) for place in PLACES}
        others = [*obstacles, *around_dots[:k], *around_dots[k + 1 :]]
        hits = {  # a name that is cut is not shown at all, which is worse than one that touches another
            place: sum(_overlap(box, other) for other in others) + 2 * (not _is_inside(box, room))
            for place, box in boxes.items()
        }
        places[k] = min(PLACES, key=hits.__getitem__)
        left, top, right, bottom = boxes[places[k]]
        obstacles.append((left - CLEAR, top, right + CLEAR, bottom))
    return list(places.values())


def _box_of_name(x: float, y: float, name: str, place: str) -> Box:
    """What a name covers beside a dot at (x, y), with the gap between them: a line in the gap would part the two."""
    width = LETTER * len(name)
    vertical, horizontal = place.split()
    left, right = {
        "left": (x - BESIDE - width, x - DOT),
        "center": (x - width / 2, x + width / 2),
        "right": (x + DOT, x + BESIDE + width),
    }[horizontal]
    top = {"top": y - BESIDE - LINE, "middle": y - LINE / 2, "bottom": y + BESIDE}[vertical]
    return left, top, right, top + LINE


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _is_inside(box: Box, room: tuple[float, float]) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= room[0] and box[3] <= room[1]
