"""Who shares a scale, live: real tensors in blocks and tiles, an error map, and the bits that a scale costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np

from lplab import datasets, figures
from lplab import formats as F
from lplab.figures.error_map import signal_to_noise
from lplab.number_text import decibels, percent
from lplab.quantizers import Hadamard
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Checkbox, Choice, ExplorerState, Steps, control

NETWORK = "transformer/step1000"
ROW, COLUMN = "row", "column"
FLOAT32, E4M3, DOWN, UP, NEAREST = "float32", "E4M3", "E8M0 down", "E8M0 up", "E8M0 nearest"
RULES = {DOWN: "floor", UP: "rceil", NEAREST: "nearest"}
SCALES = (*RULES, E4M3, FLOAT32)
WHOLE = "tensor"
SHARED: dict[str, Any] = {  # labels, and the block or tile; None is the whole tensor
    "1×16": 16,
    "1×32": 32,
    "1×128": 128,
    "16×16": (16, 16),
    "128×128": (128, 128),
    WHOLE: None,
}
ELEMENTS = {  # labels, and the code that makes the format
    "E4M3": 'F.get("mxfp8_e4m3").element',
    "E5M2": 'F.get("mxfp8_e5m2").element',
    "E2M1": 'F.get("e2m1")',
    "INT8": 'F.get("mxint8").element',
    "INT4": "F.IntFormat(4, symmetric=True, scale=0.25)",
}
FORMATS = {
    "E4M3": F.get("mxfp8_e4m3").element,
    "E5M2": F.get("mxfp8_e5m2").element,
    "E2M1": F.get("e2m1"),
    "INT8": F.get("mxint8").element,
    "INT4": F.IntFormat(4, symmetric=True, scale=0.25),
}
TRANSFORM = Hadamard(16)
CLIPPED = 1 - 2.0**-12  # what is below this share of itself was clipped; float32 scales miss their number by less


@dataclass(frozen=True)
class Shown:
    """A tensor that the explorer offers.

    Attributes:
        layer, role: its name in ``datasets.captured()``.
        rows, columns: what a row and a column of its matrix stand for.
        sums: the products that sum along a row and down a column.
    """

    layer: str
    role: str
    rows: str
    columns: str
    sums: tuple[str, str]

    @property
    def name(self) -> str:
        """The whole name of the tensor.

        >>> TENSORS["gradient"].name
        'transformer/step1000/blocks.1.mlp.up/gradient'
        """
        return f"{NETWORK}/{self.layer}/{self.role}"


# The rows and columns with outliers were measured: the largest column of this activation has seven times the size of
# the median one, and the gradient's largest row and column six times; those of the weight 1.3 and 1.5 times.
TENSORS = {
    "weight": Shown("blocks.2.mlp.down", "weight", "output", "input", ("y", "dx")),
    "activation": Shown("blocks.2.mlp.down", "activation", "token", "input", ("y", "dW")),
    "gradient": Shown("blocks.1.mlp.up", "gradient", "token", "output", ("dx", "dW")),
}


def _scales_of(element: str) -> tuple[str, ...]:
    """The formats of a scale that an element can have: integers have no float32 scale."""
    return SCALES[:-1] if element.startswith("INT") else SCALES


@dataclass(frozen=True)
class ScaleState(ExplorerState):
    """The value of every control.

    Attributes:
        tensor: "weight", "activation" or "gradient", each a matrix of a trained Transformer.
        element: the format of the scaled numbers: "E4M3", "E5M2", "E2M1", "INT8" or "INT4".
        shared: which numbers share a scale, a key of `SHARED`.
        scale: the format of the scale: "E8M0 down", "E8M0 up" or "E8M0 nearest" are powers of two, rounded from
            amax / largest number as OCP's rule does, or up, or to the nearest; "E4M3" scales have one more float32
            scale for the tensor; "float32" is not there for integers.
        axis: whether blocks lie along a "row" or a "column" of the matrix.
        hadamard: whether 16 neighbours along that axis are transformed before rounding, and back after it.

    >>> ScaleState(**PRESETS["NVFP4"]).bits
    4.5
    """

    tensor: str = control("weight", Choice("tensor", list(TENSORS)))
    element: str = control("E2M1", Choice("element", list(ELEMENTS)))
    shared: str = control(
        WHOLE,
        Steps("shared by", lambda state: {_as_it_lies(s, state.axis): s for s in SHARED}, css="lp-wide-readout"),
    )
    scale: str = control(FLOAT32, Choice("scale", lambda state: _scales_of(state.element)))
    axis: str = control(ROW, Buttons("blocks along a", [ROW, COLUMN]))
    hadamard: bool = control(False, Checkbox("Hadamard of 16 first"))

    def changed(self, **changes: Any) -> ScaleState:
        """The state after changes. A scale that another element cannot have becomes E8M0, rounded up."""
        element = changes.get("element", self.element)
        if "scale" not in changes and element in ELEMENTS and self.scale not in _scales_of(element):
            changes["scale"] = UP
        return replace(self, **changes)

    @property
    def number_format(self) -> F.BlockFormat:
        """The block format."""
        return format_of(self)

    @property
    def bits(self) -> float:
        """Bits a value: the element's, and its share of a scale."""
        return float(self.number_format.bits)

    @property
    def code(self) -> str:
        """Python that rounds the tensor and gives its signal to noise."""
        size, axis = self.number_format.block_size, -1 if self.axis == ROW else 0
        scale = {E4M3: ', scale=F.get("e4m3fn"), tensor_scale=True', FLOAT32: ', scale=F.get("fp32")'}
        more = scale.get(self.scale, f', scale_rule="{RULES.get(self.scale)}"')
        rounded = f"blocks.quantize(x, axis={axis})"
        if self.hadamard:
            rounded = f"h.invert(blocks.quantize(h.apply(x, axis={axis}), axis={axis}), axis={axis})"
        lines = [
            f'x = datasets.captured()["{TENSORS[self.tensor].name}"]',
            "x = x.reshape(-1, x.shape[-1])",
            f"blocks = F.BlockFormat({ELEMENTS[self.element]}, block_size={size}{more})",
            *(["h = Hadamard(16)"] if self.hadamard else []),
            f"q = {rounded}",
            "print(10 * np.log10((x**2.0).sum() / ((q - x)**2.0).sum()))",
        ]
        return "\n".join(lines)


PRESETS: dict[str, dict[str, Any]] = {  # names, and fields of ScaleState; the tensor and the axis stay
    "MXFP8": {"element": "E4M3", "shared": "1×32", "scale": DOWN, "hadamard": False},
    "MXFP4": {"element": "E2M1", "shared": "1×32", "scale": DOWN, "hadamard": False},
    "NVFP4": {"element": "E2M1", "shared": "1×16", "scale": E4M3, "hadamard": False},
    "DeepSeek": {"element": "E4M3", "shared": "1×128", "scale": FLOAT32, "hadamard": False},
}


def format_of(state: ScaleState) -> F.BlockFormat:
    """The block format of a state; the whole tensor is one tile.

    >>> format_of(ScaleState(**PRESETS["MXFP4"])) == replace(F.get("mxfp4"), name="")
    True
    """
    return _format(state.element, state.shared, state.scale, _tile(state))


def _tile(state: ScaleState) -> tuple[int, int]:
    """Rows and columns of the whole tensor; columns lie along the blocks."""
    rows, columns = matrix(state.tensor).shape
    return (rows, columns) if state.axis == ROW else (columns, rows)


@cache
def _format(element: str, shared: str, scale: str, whole: tuple[int, int]) -> F.BlockFormat:
    size = SHARED[shared] or whole
    if scale in RULES:
        return F.BlockFormat(FORMATS[element], block_size=size, scale_rule=RULES[scale])
    if scale == E4M3:
        return F.BlockFormat(FORMATS[element], scale=F.get("e4m3fn"), block_size=size, tensor_scale=True)
    return F.BlockFormat(FORMATS[element], scale=F.get("fp32"), block_size=size)


@cache
def matrix(tensor: str) -> np.ndarray:
    """A tensor as a matrix, float32 [rows, columns], read-only.

    >>> matrix("weight").shape, matrix("activation").shape, matrix("gradient").shape
    ((64, 256), (32, 256), (32, 256))
    """
    stored = datasets.captured()[TENSORS[tensor].name]
    x = stored.reshape(-1, stored.shape[-1])
    x.flags.writeable = False
    return x


@cache
def _transformed(tensor: str, axis: int) -> np.ndarray:
    return np.asarray(TRANSFORM.apply(matrix(tensor), axis))


@dataclass(frozen=True)
class Result:
    """What a state makes of its tensor.

    Attributes:
        q: what the tensor's numbers became, float32, shaped as the tensor.
        before: what was rounded: the tensor, or its transform.
        rounded: what that became.
        clipped: which of these numbers lay beyond the largest one of their block.
        zeroed: the share of these numbers that becomes zero.
        decibels: signal to noise.
    """

    q: np.ndarray
    before: np.ndarray
    rounded: np.ndarray
    clipped: np.ndarray
    zeroed: float
    decibels: float


@lru_cache(maxsize=128)
def result(state: ScaleState) -> Result:
    """Round the tensor of a state.

    >>> round(result(ScaleState(tensor="gradient", **PRESETS["NVFP4"])).decibels, 1)
    21.3
    """
    x, axis = matrix(state.tensor), -1 if state.axis == ROW else 0
    before = _transformed(state.tensor, axis) if state.hadamard else x
    rounded = state.number_format.quantize(before, axis=axis)
    size = np.abs(before)
    clipped = state.number_format.quantize(size, "up", axis=axis) < size * np.float32(CLIPPED)
    zeroed = float(np.mean((rounded == 0) & (before != 0)))
    q = TRANSFORM.invert(rounded, axis=axis) if state.hadamard else rounded
    return Result(q, before, rounded, clipped, zeroed, signal_to_noise(x, q))


def what(state: ScaleState) -> str:
    """The format of a state in a few words.

    >>> what(ScaleState()), what(ScaleState(shared="1×32", scale="E8M0 up", hadamard=True))
    ('E2M1, a float32 scale for the tensor', 'E2M1 after Hadamard, an E8M0 scale (up) for 1×32')
    >>> what(ScaleState(shared="1×32", axis="column"))
    'E2M1, a float32 scale for 32×1'
    """
    name, _, rule = state.scale.partition(" ")
    article = "a" if name == FLOAT32 else "an"
    many = "the tensor" if state.shared == WHOLE else _as_it_lies(state.shared, state.axis)
    transform = " after Hadamard" if state.hadamard else ""
    return f"{state.element}{transform}, {article} {name} scale{f' ({rule})' * bool(rule)} for {many}"


def _as_it_lies(shared: str, axis: str) -> str:
    """Rows and columns of the matrix that share a scale.

    >>> _as_it_lies("1×32", "column"), _as_it_lies("1×32", "row"), _as_it_lies("tensor", "column")
    ('32×1', '1×32', 'tensor')
    """
    return "×".join(shared.split("×")[:: 1 if axis == ROW else -1])


def map_figure(state: ScaleState) -> Any:
    """The error map of a state: of the numbers that are rounded, which are transforms after a Hadamard transform."""
    quantized, tensor = result(state), TENSORS[state.tensor]
    rows, columns = state.number_format.tile
    tile = (rows, columns) if state.axis == ROW else (columns, rows)
    title = f"{what(state)}: {decibels(quantized.decibels)}, {percent(quantized.zeroed)} become zero"
    return figures.error_map(
        quantized.before,
        quantized.rounded,
        tile,
        quantized.clipped,
        rows=tensor.rows,
        columns=tensor.columns,
        title=title,
    )


def curves_figure(state: ScaleState) -> Any:
    """Signal to noise against the numbers that share a scale, for three formats of the scale."""
    power = state.scale if state.scale in RULES else DOWN
    names = {f"{power[:4]} ({power[5:]})": power, E4M3: E4M3, FLOAT32: FLOAT32}
    states = {
        label: [state.changed(scale=scale, shared=shared) for shared in SHARED]
        for label, scale in names.items()
        if scale in _scales_of(state.element)
    }
    nothing = np.full(len(SHARED), np.nan)
    products = {
        name: np.array([result(each).decibels for each in states[name]]) if name in states else nothing
        for name in names
    }
    bits = {name: [each.bits for each in states[name]] if name in states else nothing + 1 for name in names}
    labels = [_as_it_lies(shared, state.axis) for shared in SHARED]
    return figures.sharing_errors(labels, products, at=list(SHARED).index(state.shared), bits=bits)


def summary(state: ScaleState) -> str:
    """What a state costs and keeps, in two or three sentences.

    >>> summary(ScaleState(tensor="gradient", **PRESETS["MXFP4"]))  # doctest: +ELLIPSIS
    'Gradient, 32 × 256: 4.25 bits a value. Signal to noise 16.4 dB, 48.5 % become zero, 1.6 % are clipped. ...'
    """
    quantized, tensor = result(state), TENSORS[state.tensor]
    rows, columns = matrix(state.tensor).shape
    cost = f"{round(state.bits, 2):g} bits a value"
    numbers = "of the transformed numbers " if state.hadamard else ""
    shares = f"{percent(quantized.zeroed)} {numbers}become zero, {percent(float(quantized.clipped.mean()))} are clipped"
    along, down = tensor.sums
    sums = f"The product for {along} sums along a row, the one for {down} down a column."
    kept = f"Signal to noise {decibels(quantized.decibels)}, {shares}"
    return f"{state.tensor.capitalize()}, {rows} × {columns}: {cost}. {kept}. {sums}"


class ScaleExplorer(Explorer):
    """Real tensors in blocks and tiles behind six controls: tensor, element, who shares a scale, scale, axis, Hadamard.

    Args:
        **position: fields of `ScaleState`: ``tensor``, ``element``, ``shared``, ``scale``, ``axis``, ``hadamard``.
            Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> ScaleExplorer().figures["map"].layout.meta["title"]
    'E2M1, a float32 scale for the tensor: 16.9 dB, 17.7 % become zero'
    """

    imports = (
        "import numpy as np",
        "from lplab import datasets",
        "from lplab import formats as F",
        "from lplab.quantizers import Hadamard",
    )
    state_class, preset_fields = ScaleState, PRESETS
    side: ClassVar = {
        "Numbers": ("presets", "tensor", "element"),
        "Their scale": ("shared", "scale", "axis", "hadamard"),
    }

    figure_names: ClassVar = {"map": "The tensor, number by number", "curves": "Signal to noise against the sharing"}

    def _figures(self, state: ScaleState) -> dict[str, Any]:
        return {"map": map_figure(state), "curves": curves_figure(state)}

    def _summary(self, state: ScaleState) -> str:
        return summary(state)
