"""A round of federated learning, live: what a phone computes, receives and sends, and the same in a data centre."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lplab import figures
from lplab.hardware import footprint
from lplab.hardware.footprint import ClientRound
from lplab.hardware.footprint import federated_rounds as energy
from lplab.hardware.units import format_si, grouped
from lplab.widgets.explorer_base import Explorer
from lplab.widgets.fields import Buttons, Choice, ExplorerState, Slider, control

NETWORKS: dict[str, tuple[int, float, int]] = {  # parameters, multiply-adds of an example, examples of a client
    "FedAvg's CNN, 600 digits": (1_663_370, 12e6, 600),
    "ResNet-18, 500 images": (11_689_512, 1.81e9, 500),
}
WIRES: dict[str, tuple[float, float, float, float]] = {  # bits down, bits up, share of the update sent, index bits
    "32 bits": (32, 32, 1.0, 0),
    "FP8": (8, 8, 1.0, 0),
    "FP8, 1 % up": (8, 8, 0.01, 16),
}
CENTRE = "in a data centre"
DEVICES, RADIOS = ("phone", "laptop", "board"), ("lte", "wifi")
EPOCHS = (1, 20)
PRESETS: dict[str, dict[str, Any]] = {
    "FedAvg (2017)": {"network": "FedAvg's CNN, 600 digits", "device": "phone", "radio": "lte", "epochs": 5},
    "ResNet-18": {"network": "ResNet-18, 500 images", "device": "phone", "radio": "lte", "epochs": 5},
}


@dataclass(frozen=True)
class EdgeState(ExplorerState):
    """The value of every control.

    Attributes:
        network: a name of `NETWORKS`.
        device, radio: of the client: names of `DEVICES` and `RADIOS`.
        epochs: over the client's own data before it answers.

    >>> EdgeState(epochs=0)
    Traceback (most recent call last):
    ...
    ValueError: epochs must be a whole number from 1 to 20, got 0
    """

    network: str = control("FedAvg's CNN, 600 digits", Choice("network", list(NETWORKS)))
    device: str = control("phone", Choice("device", {energy.device(name).label: name for name in DEVICES}))
    radio: str = control("lte", Buttons("way", {energy.radio(name).label: name for name in RADIOS}))
    epochs: int = control(5, Slider("epochs", *EPOCHS, unit="epochs"))

    @property
    def operations(self) -> float:
        """Operations of the local training: forward pass, two backward products, two operations a multiply-add."""
        _, multiply_adds, examples = NETWORKS[self.network]
        return 3 * 2 * multiply_adds * examples * self.epochs

    @property
    def code(self) -> str:
        """Python that gives the round with 32 bits both ways."""
        count = NETWORKS[self.network][0]
        return (
            f"sent = footprint.message_bytes({count}, bits=32)\n"
            f"footprint.federated(operations={self.operations:.10g}, down_bytes=sent, up_bytes=sent, "
            f"device={self.device!r}, radio={self.radio!r})"
        )


def rounds(state: EdgeState) -> dict[str, ClientRound]:
    """One client's round for each number format of the messages, and its arithmetic alone on a V100."""
    count = NETWORKS[state.network][0]
    by_format = {}
    for name, (down, up, share, index) in WIRES.items():
        sent = footprint.message_bytes(count, down), footprint.message_bytes(count, up, share, index)
        by_format[name] = footprint.federated(
            operations=state.operations, down_bytes=sent[0], up_bytes=sent[1], device=state.device, radio=state.radio
        )
    by_format[CENTRE] = footprint.federated(
        operations=state.operations, down_bytes=0, up_bytes=0, device="v100", radio="cable"
    )
    return by_format


def figure(state: EdgeState) -> Any:
    """Joules of a client: arithmetic and radio."""
    by_format = rounds(state)
    plain, small = (by_format[name] for name in ("32 bits", "FP8, 1 % up"))
    radio = 1 - plain.compute_joules / plain.joules
    left = small.joules / plain.joules
    title = f"The radio takes {100 * radio:.0f} % at 32 bits; FP8 and 1 % up leave {100 * left:.0f} % of all"
    longest = rounds(state.changed(epochs=EPOCHS[1], radio="lte"))["32 bits"]  # one axis for all epochs and radios
    return figures.round_energy(by_format, most=longest.joules, title=title, height=310)


def summary(state: EdgeState) -> str:
    """Bytes and seconds with the first and the last number format, in one line.

    >>> summary(EdgeState())
    'Down 6.65 MB, up 6.65 MB, 15.1 s at 32 bits; down 1.66 MB, up 49.9 kB, 3.25 s with FP8 and 1 % up.'
    """
    by_format = rounds(state)
    texts = []
    for name, word in (("32 bits", "at 32 bits"), ("FP8, 1 % up", "with FP8 and 1 % up")):
        r = by_format[name]
        sent = f"own {format_si(float(r.down_bytes), 'B')}, up {format_si(float(r.up_bytes), 'B')}"
        texts.append(f"{sent}, {grouped(float(r.seconds), 3)} s {word}")
    return f"D{texts[0]}; d{texts[1]}."


class EdgeExplorer(Explorer):
    """One client of a federated round behind four controls: network, device, radio, local epochs.

    Args:
        **position: fields of `EdgeState`: ``network``, ``device``, ``radio``, ``epochs``. Reset returns to them.

    Raises:
        ValueError: a value that is not allowed.

    >>> EdgeExplorer().figure.layout.meta["title"]
    'The radio takes 87 % at 32 bits; FP8 and 1 % up leave 18 % of all'
    """

    imports = ("from lplab.hardware import footprint",)
    state_class, preset_fields = EdgeState, PRESETS
    side: ClassVar = {"A client": ("presets", "network", "epochs", "device", "radio")}

    figure_names: ClassVar = {"figure": "The energy of one round of a client"}

    def _figures(self, state: EdgeState) -> dict[str, Any]:
        return {"figure": figure(state)}

    def _summary(self, state: EdgeState) -> str:
        return summary(state)
