"""Energy that this machine used, by codecarbon (the extra ``energy``): imported only when it is asked for.

Codecarbon reads counters where there are some: NVIDIA's for GPUs, RAPL for processors (often for root alone). Where
there are none, on virtual machines for example, it estimates from the processor's design power and a table for memory:
then the number is a model's, too, and says little of a short run. Nothing is sent anywhere, no file is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lplab.checks import check_above, check_number
from lplab.hardware.footprint.step_energy import JOULES_PER_KWH


@dataclass
class Measurement:
    """What a block of code used; filled in when it ends.

    Attributes:
        processor, gpu, memory: joules of each; NaN while the block runs.
        seconds: that it took.
        by: name and version of the tool.
    """

    processor: float = float("nan")
    gpu: float = float("nan")
    memory: float = float("nan")
    seconds: float = float("nan")
    by: str = ""

    @property
    def joules(self) -> float:
        """All together.

        >>> Measurement(3.6e6, 0.0, 0.0).joules
        3600000.0
        """
        return self.processor + self.gpu + self.memory

    @property
    def kwh(self) -> float:
        """Kilowatt hours, as `lplab.hardware.footprint.bill_of` takes them.

        >>> Measurement(3.6e6, 0.0, 0.0).kwh
        1.0
        """
        return self.joules / JOULES_PER_KWH


@contextmanager
def measure(every_seconds: float = 1.0) -> Iterator[Measurement]:
    """The energy that a block of code uses, known behind it.

    Example::

        with measure() as used:
            train()
        print(used.kwh)

    Args:
        every_seconds: how often watts are read where energy itself has no counter.

    Raises:
        RuntimeError: codecarbon is not installed, or could not begin.
    """
    check_above(0, every_seconds=check_number("every_seconds", every_seconds))
    tracker, version = _tracker(every_seconds)
    measurement = Measurement(by=f"codecarbon {version}")
    tracker.start()
    try:
        yield measurement
    finally:
        tracker.stop()
        data = getattr(tracker, "final_emissions_data", None)
        if data is not None:
            measurement.processor, measurement.gpu, measurement.memory = (
                float(kwh) * JOULES_PER_KWH for kwh in (data.cpu_energy, data.gpu_energy, data.ram_energy)
            )
            measurement.seconds = float(data.duration)
    if data is None:
        raise RuntimeError("codecarbon gave no result: see what it logged")


def _tracker(every_seconds: float) -> tuple[Any, str]:
    """Codecarbon's tracker without a network, and its version; the country is of no matter, as only energy is read."""
    try:
        import codecarbon
    except ImportError:
        raise RuntimeError(
            'measuring energy needs codecarbon: pip install "lplab[energy]" (in a checkout pip install -e ".[energy]")'
        ) from None
    tracker = codecarbon.OfflineEmissionsTracker(
        country_iso_code="FRA",
        measure_power_secs=every_seconds,
        save_to_file=False,
        log_level="error",
        allow_multiple_runs=True,
    )
    return tracker, str(codecarbon.__version__)
