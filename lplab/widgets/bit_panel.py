"""The bit panel: set the bits of a code and see its value; type a value and see its bits."""

from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from lplab import formats as F

from .controls import script
from .typed_value import describe_rounding, format_value, parse_number

_STATIC = Path(__file__).parent / "static"
MAX_BITS = 32  # fits in one row of switches, and JavaScript's numbers decode it exactly
_SPEC_FIELDS: dict[Any, tuple[str, tuple[str, ...]]] = {
    F.FloatFormat: ("float", ("exponent_bits", "mantissa_bits", "bias", "radix", "subnormals", "specials")),
    F.FixedFormat: ("fixed", ("integer_bits", "fraction_bits")),
    F.IntFormat: ("integer", ("signed", "scale", "zero_point")),
    F.PositFormat: ("posit", ("exponent_size",)),
    F.LogFormat: ("log", ("fraction_bits",)),
}


def as_format(fmt: Any) -> Any:
    """Return the format to show: a catalogue name is looked up, a block format is shown by its element.

    Raises:
        ValueError: unknown name, or more than 32 bits.

    >>> as_format("mxfp4").label
    'e2m1'
    """
    fmt = F.get(fmt) if isinstance(fmt, str) else fmt
    if isinstance(fmt, F.BlockFormat):
        fmt = fmt.element
    if not hasattr(fmt, "bit_fields"):
        raise ValueError(f"format must be a name of the catalogue or a format, got {fmt!r}")
    if fmt.bits > MAX_BITS:
        raise ValueError(f"the bit panel shows formats of up to {MAX_BITS} bits, {fmt.label} has {fmt.bits}")
    return fmt


def spec_of(fmt: Any) -> dict[str, Any]:
    """Return a format as the browser needs it: kind, label, width, fields, and the numbers of its kind.

    >>> spec_of(F.get("e4m3fn"))["fields"]
    [['sign', 1], ['exponent', 4], ['mantissa', 3]]
    """
    kind, names = _SPEC_FIELDS.get(type(fmt), ("table", ()))
    spec = {"kind": kind, "label": fmt.label, "bits": fmt.bits, "fields": [list(field) for field in fmt.bit_fields()]}
    spec |= {name: getattr(fmt, name) for name in names}
    if kind == "integer":
        spec["lowest"] = fmt.range[0]
    return spec | ({"signed": True} if kind == "fixed" else {})


def table_of(fmt: Any) -> bytes:
    """Return the value of every code as little-endian float64, for kinds that the browser decodes by table.

    >>> len(table_of(F.get("posit8_1"))), len(table_of(F.get("fp32")))
    (2048, 0)
    """
    computed = isinstance(fmt, F.FloatFormat | F.FixedFormat | F.IntFormat)
    return b"" if computed else np.ascontiguousarray(fmt.codebook(), dtype="<f8").tobytes()


class BitPanel(anywidget.AnyWidget):
    """One row of bit switches with their value, its neighbours and its formula.

    Args:
        format: a name of the catalogue or a format of up to 32 bits; block formats are shown by their element.
        pattern: the code to begin with.

    The trait `pattern` is the whole state: observe it to link the panel with a figure. `format` can be set at any time;
    the value is then rounded to the new format. `note` is the line under the box for typed values.

    >>> panel = BitPanel("e4m3fn", pattern=0x38)
    >>> panel.value
    1.0
    >>> panel.type("0.3")
    >>> panel.pattern, panel.value, panel.note["text"]
    (42, 0.3125, '0.3 is stored as 0.3125, error +4.2 %')
    """

    _esm = script("bits.js")
    _css = _STATIC / "bits.css"
    pattern = traitlets.Int(0, help="The code, as an integer.").tag(sync=True)
    format_spec = traitlets.Dict(help="The format as the browser needs it; made from `format`.").tag(sync=True)
    table = traitlets.Bytes(help="Values of all codes, where the browser decodes by table.").tag(sync=True)
    note = traitlets.Dict(help="What the typed value is rounded to: text, and tone 'info' or 'error'.").tag(sync=True)
    format = traitlets.Any(help="The format shown.")

    def __init__(self, format: Any = "e4m3fn", pattern: int = 0, **kwargs: Any) -> None:
        super().__init__(format=format, **kwargs)
        self.pattern = pattern
        self.on_msg(self._receive)

    @property
    def value(self) -> float:
        """The value of the pattern."""
        return float(self.format.decode(self.pattern))

    def type(self, text: str) -> None:
        """Encode a number given as text, as if it was typed into the panel; unreadable text only changes the note."""
        try:
            typed = parse_number(text)
            code = int(self.format.encode(typed))
            message = describe_rounding(typed, float(self.format.decode(code)), self.format)
            if text.strip().lower().lstrip("+-−").startswith("0x"):  # the panel also shows codes in hexadecimal
                message = f"{format_value(typed)}: a value; to set bits, click them. {message}"
            self.note = {"text": message, "tone": "info"}
        except ValueError as error:
            self.note = {"text": str(error), "tone": "error"}
        else:
            self.pattern = code

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict) and content.get("kind") == "type":
            self.type(str(content.get("text", "")))

    @traitlets.validate("format")
    def _valid_format(self, proposal: Any) -> Any:
        try:
            return as_format(proposal["value"])
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None

    @traitlets.validate("pattern")
    def _valid_pattern(self, proposal: Any) -> int:
        code = proposal["value"]
        if not 0 <= code < 2**self.format.bits:
            allowed = f"0 to {2**self.format.bits - 1}"
            raise traitlets.TraitError(f"pattern must be from {allowed} for {self.format.label}, got {code}")
        return code

    @traitlets.observe("format")
    def _show_format(self, change: Any) -> None:
        first = not hasattr(change["old"], "decode")
        code, note = (0, {}) if first else convert_code(float(change["old"].decode(self.pattern)), change["new"])
        with self.hold_sync():  # one message, so that the browser never sees the pattern of one format in another
            self.format_spec, self.table = spec_of(change["new"]), table_of(change["new"])
            self.pattern, self.note = code, note


def convert_code(value: float, fmt: Any) -> tuple[int, dict[str, str]]:
    """Return the code of a value in another format, and a note where it had to be rounded.

    >>> convert_code(0.3125, F.get("e2m1"))
    (1, {'text': '0.3125 is stored as 0.5, error +60 %', 'tone': 'info'})
    """
    try:
        code = int(fmt.encode(value))
    except ValueError:
        return 0, {"text": f"{format_value(value)} has no code in {fmt.label}", "tone": "info"}
    stored = float(fmt.decode(code))
    same = stored == value or value != value
    return code, {} if same else {"text": describe_rounding(value, stored, fmt), "tone": "info"}
