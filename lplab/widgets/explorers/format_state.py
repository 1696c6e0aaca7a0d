"""The state of the format explorer, and the format that it describes: data and functions, no display.

Every control of the explorer sets one field of `FormatState` through `changed`. What is shown depends on the state
alone (`lplab.widgets.explorers.format_view`).
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lplab import formats as F
from lplab.formats import floating
from lplab.widgets.fields import Buttons, Checkbox, Choice, ExplorerState, Slider, control

OWN_FORMAT = "(own format)"
EXPONENT_BITS = (1, 8)
MANTISSA_BITS = (0, 23)
BIAS_SHIFT = (-16.0, 16.0)
RANDOM_BITS = (1, 24)
RADICES = (2, 4)
LINES = ("log", "linear")
SPECIALS, ROUNDINGS = list(F.SPECIALS), {name.replace("_", " "): name for name in F.ROUNDINGS}
_FORMAT_FIELDS = ("exponent_bits", "mantissa_bits", "bias_shift", "radix", "subnormals", "specials", "saturating")


@cache
def presets() -> dict[str, Any]:
    """Return every format of the catalogue by name."""
    return {name: F.get(name) for name in F.names()}


@dataclass(frozen=True)
class FormatState(ExplorerState):
    """The value of every control.

    Attributes:
        exponent_bits: 1 to 8.
        mantissa_bits: 0 to 23.
        bias_shift: added to the usual bias of such a format; halves in radix 4.
        radix: 2 or 4.
        subnormals: whether there are subnormal numbers.
        specials: one of ``lplab.formats.SPECIALS``.
        saturating: as in FloatFormat; None is the usual behaviour of the specials.
        preset: the catalogue name chosen last; it distinguishes equal formats, such as hfp8_backward and fp8_152.
        other: a catalogue name when a format without these controls is shown (posit, integers, blocks ...), else "".
        rounding: one of ``lplab.formats.ROUNDINGS``.
        random_bits: for stochastic rounding.
        tensor: name of the tensor, known to the tensor library.
        line: scale of the number line, "log" or "linear".
    """

    exponent_bits: int = control(4, Slider("exponent bits", *EXPONENT_BITS, unit="bits"))
    mantissa_bits: int = control(3, Slider("mantissa bits", *MANTISSA_BITS, unit="bits"))
    bias_shift: float = control(0.0, Slider("", *BIAS_SHIFT, step=1.0, readout_format=None))  # its label is `bias_text`
    radix: int = control(2, Buttons("radix", {str(radix): radix for radix in RADICES}))
    subnormals: bool = control(True, Checkbox("subnormals"))
    specials: str = control("fn", Choice("specials", SPECIALS))
    saturating: bool | str | None = None
    preset: str = control("", Choice("preset", lambda _: [OWN_FORMAT, *presets()], checked=False))
    other: str = ""
    rounding: str = control("nearest_even", Choice("rounding", ROUNDINGS))
    random_bits: int = control(16, Slider("random bits", *RANDOM_BITS, unit="bits"))
    tensor: str = "synthetic/normal"
    line: str = control("log", Buttons("number line", LINES))

    def changed(self, **changes: Any) -> "FormatState":
        """The state after changes of fields, one after the other, as `changed` does it; ``preset`` sets the format."""
        state = self
        for name, value in changes.items():
            state = changed(state, name, value)
        return state

    @property
    def code(self) -> str:
        """Python that makes the format and rounds with it."""
        return code_of(self)


def usual_bias(state: FormatState) -> float:
    """Return the default bias of the controls' format."""
    return floating.usual_bias(state.exponent_bits, state.specials)


def bias(state: FormatState) -> float:
    """Return the exponent bias that the controls give.

    >>> bias(FormatState(exponent_bits=4, bias_shift=4.0))
    11
    """
    value = usual_bias(state) + state.bias_shift
    return int(value) if value == int(value) else value


def bias_text(state: FormatState) -> str:
    """Return the bias in words, with its difference from IEEE's 2^(e−1) − 1 where there is one.

    >>> bias_text(with_preset(FormatState(), "hfp8_forward")), bias_text(FormatState())
    ('bias 11 (+4)', 'bias 7')
    """
    more = bias(state) - (2 ** (state.exponent_bits - 1) - 1)
    text = f"bias {bias(state):g}" + (f" ({more:+g})" if more else "")
    return text.replace("-", "\N{MINUS SIGN}")


def format_of(state: FormatState) -> Any:
    """Return the format that a state describes.

    Raises:
        ValueError: the controls contradict each other; the message has the allowed values.

    >>> format_of(FormatState()).label
    'e4m3fn'
    >>> format_of(FormatState(specials="p3109", subnormals=False))
    Traceback (most recent call last):
    ...
    ValueError: specials='p3109' always has subnormals; allowed without subnormals: ieee, fn, fnuz, none, dlfloat
    """
    if state.other:
        return presets()[state.other]
    own = F.FloatFormat(
        exponent_bits=state.exponent_bits,
        mantissa_bits=state.mantissa_bits,
        bias=bias(state),
        radix=state.radix,
        subnormals=state.subnormals,
        specials=state.specials,
        saturating=state.saturating,
    )
    same = [f for f in presets().values() if isinstance(f, F.FloatFormat) and replace(f, name="") == own]
    return next((f for f in same if f.name == state.preset), same[0] if same else own)


def preset_of(state: FormatState) -> str:
    """Return the catalogue name of the state's format, or OWN where it has none.

    >>> preset_of(FormatState()), preset_of(FormatState(mantissa_bits=5))
    ('e4m3fn', '(own format)')
    """
    try:
        name = format_of(state).name
    except ValueError:
        return OWN_FORMAT
    return name if name in presets() else OWN_FORMAT


def with_preset(state: FormatState, name: str) -> FormatState:
    """Set the controls to a format of the catalogue; OWN_FORMAT only clears ``other``.

    >>> bias(with_preset(FormatState(), "hfp8_forward"))
    11
    """
    if name == OWN_FORMAT:
        return replace(state, other="")
    fmt = presets()[name] if name in presets() else F.get(name)  # an unknown name raises with the closest ones
    if not isinstance(fmt, F.FloatFormat):
        return replace(state, other=fmt.name)
    usual = replace(fmt, bias=None, saturating=None, name="")
    return replace(
        state,
        exponent_bits=fmt.exponent_bits,
        mantissa_bits=fmt.mantissa_bits,
        bias_shift=float((fmt.bias or 0) - (usual.bias or 0)),
        radix=fmt.radix,
        subnormals=fmt.subnormals,
        specials=fmt.specials,
        saturating=None if fmt.saturating == usual.saturating else fmt.saturating,
        preset=name,
        other="",
    )


def changed(state: FormatState, control: str, value: Any) -> FormatState:
    """Return the state after one control has changed; ``control`` is a field, or "preset".

    Radix 2 has no half biases: going back to it rounds the shift. Moving a control of the format leaves ``other``.

    >>> changed(FormatState(radix=4, bias_shift=0.5), "radix", 2).bias_shift
    0.0
    """
    if control == "preset":
        return with_preset(state, value)
    state = replace(state, **{control: value})
    if control in _FORMAT_FIELDS:
        state = replace(state, other="")
    if state.radix == 2 and state.bias_shift % 1:
        state = replace(state, bias_shift=float(round(state.bias_shift)))
    return state


def rounding_of(state: FormatState) -> Any:
    """Return the rounding as `lplab.formats` takes it: a name, or a Rounding where the random bits matter."""
    return F.Rounding("stochastic", state.random_bits) if state.rounding == "stochastic" else state.rounding


def code_of(state: FormatState) -> str:
    """Return Python that makes the state's format and rounds with it, where ``F`` is `lplab.formats`.

    >>> print(code_of(FormatState(mantissa_bits=2, specials="ieee", rounding="stochastic", random_bits=8)))
    fmt = F.FloatFormat(exponent_bits=4, mantissa_bits=2)
    rounded = fmt.quantize(x, rounding="stochastic", random_bits=8, seed=0)
    """
    name = state.other or preset_of(state)
    made = f'F.get("{name}")' if name != OWN_FORMAT else f"F.FloatFormat({_arguments(state)})"
    how = "" if state.rounding == "nearest_even" else f', rounding="{state.rounding}"'
    if state.rounding == "stochastic":
        how += f", random_bits={state.random_bits}, seed=0"
    return f"fmt = {made}\nrounded = fmt.quantize(x{how})"


def _arguments(state: FormatState) -> str:
    """Return the arguments of FloatFormat that differ from their defaults."""
    given = {
        "bias": (bias(state), state.bias_shift != 0),
        "radix": (state.radix, state.radix != 2),
        "subnormals": (state.subnormals, not state.subnormals),
        "specials": (f'"{state.specials}"', state.specials != "ieee"),
        "saturating": (state.saturating, state.saturating is not None),
    }
    unusual = [f"{name}={value}" for name, (value, wanted) in given.items() if wanted]
    return ", ".join([f"exponent_bits={state.exponent_bits}, mantissa_bits={state.mantissa_bits}", *unusual])
