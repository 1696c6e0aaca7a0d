"""Exercise 08.3: the fewest devices that meet a target time and a target memory, both."""

from __future__ import annotations

from typing import Any

from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers


def cost(devices, batch, bits):
    """Seconds of a step and bytes on a device: ResNet-50, the batch shared, a ring over 25 Gb/s."""
    own = -(-batch // devices)
    compute = 1.5e-3 + 0.72e-3 * own * (0.3 + 0.7 * bits / 16)
    ring = 2 * (devices - 1) * (1e-5 + 25.6e6 * bits / 8 / devices / 3.125e9)
    return compute + max(0.0, ring - 0.6 * compute), 25.6e6 * (2 * bits / 8 + 8) + own * 22.4e6 * bits / 8


def meet(batch, seconds, nbytes):
    """The fewest devices, and the most bits with them, that meet both targets: (devices, bits), or (0, 0)."""
    for devices in range(1, 1025):
        for bits in (32, 16, 8):
            time, held = cost(devices, batch, bits)
            if time <= seconds and held <= nbytes:
                return devices, bits
    return 0, 0


TIME, ROOM = "time <= seconds", "held <= nbytes"
LOOPS = """    for devices in range(1, 1025):
        for bits in (32, 16, 8):
            time, held = cost(devices, batch, bits)
            if time <= seconds and held <= nbytes:
                return devices, bits
"""
HALVING = """    for bits in (32, 16, 8):
        low, high = 1, 1025
        while low < high:
            middle = (low + high) // 2
            time, held = cost(middle, batch, bits)
            if time <= seconds and held <= nbytes:
                high = middle
            else:
                low = middle + 1
        if low < 1025:
            return low, bits
"""


def target_cases() -> list[Args]:
    """Targets that time decides, that memory decides, that only few bits meet, that nothing meets."""
    times = (0.004, 0.01, 0.02, 0.05, 0.2, 2.0)
    rooms = (0.08e9, 0.3e9, 0.6e9, 1.2e9, 4e9, 16e9, 64e9)
    spread = [(batch, t, room) for batch in (64, 1000) for t in times for room in rooms]
    exact = [(64, cost(n, 64, 8)[0], 64e9) for n in (1, 3, 16)]
    short = [(64, cost(n, 64 // n * n, 8)[0], 64e9) for n in (3, 5, 7)]
    tight = [(64, 2.0, cost(n, 64, 8)[1]) for n in (1, 4, 32)]
    all_of_them = (102400, 10.0, cost(1024, 102400, 8)[1])
    return [*spread, *exact, *short, *tight, all_of_them, (1, 1.0, 1e9), (7, 0.005, 0.4e9)]


def why_target(args: Args, expected: Any) -> str:
    """Time and memory of the expected design."""
    batch, devices, bits = args[0], int(expected[0]), int(expected[1])
    if not devices:
        return "No number of devices up to 1,024 meets both targets, in any of the three."
    seconds, held = cost(devices, batch, bits)
    return f"{devices} devices with {bits} bits need {1e3 * seconds:.2f} ms and {held / 1e9:.2f} GB; with fewer, or more bits, one of the targets is missed."


def show_target(args: Args) -> str:
    """The targets in readable units."""
    return f"batch = {args[0]}, seconds = {args[1]:g}, nbytes = {args[2]:g}"


TARGET = Exercise(
    id="08.3",
    version=1,
    title="A target time and a target memory",
    goal="Goal 3: choose a cluster",
    minutes=10,
    difficulty=2,
    statement="""
        A batch of `batch` images is to be trained in at most `seconds` a step, on devices that have `nbytes` of memory. You choose the number of devices, 1 to 1,024, and the bits, 32, 16 or 8. `cost(devices, batch, bits)` stands ready and tells the seconds of a step and the
        bytes on a device: simpler than the simulator above, for ResNet-50 on chips that multiply twice as fast with half the bits.

        Write `meet(batch, seconds, nbytes)`: the fewest devices that meet **both** targets, and with them the most bits that do; `(0, 0)` if nothing does. Both targets may be met exactly. Beware: more devices are not always faster.
    """,
    reference=meet,
    form=Numbers(count=2),
    show=show_target,
    why=why_target,
    provided=(cost,),
    examples=(
        Example((64, 2.0, 64e9), "Everything fits on one device, with all bits."),
        Example((64, 0.02, 64e9), "More devices are not always faster: 1,024 miss these 20 ms, and a search that halves its range goes past those that meet them."),
        Example((64, 0.05, 64e9), "Memory is no problem; time decides."),
        Example((64, cost(3, 64, 8)[0], 64e9), "The time is met exactly, and that is enough."),
        Example((64, 2.0, cost(4, 64, 8)[1]), "The memory is met exactly, and that is enough."),
        Example((64, 2.0, 1.2e9), "Time is no problem; memory decides: activations, not weights."),
        Example((1000, 0.02, 1.2e9), "Both count."),
        Example((64, 0.02, 0.6e9), "With fewer bits fewer devices will do."),
        Example((102400, 10.0, cost(1024, 102400, 8)[1]), "All 1,024 devices are needed, and all are allowed."),
        Example((1000, 0.004, 64e9), "So fast nothing is: the ring takes longer with every device."),
        Example((1000, 2.0, 0.2e9), "Master weights and momentum alone are more than that."),
    ),
    boundary=target_cases,
    mistakes=(
        mistake("only the time is looked at", f"{TIME} and {ROOM}", TIME),
        mistake("only the memory is looked at", f"{TIME} and {ROOM}", ROOM),
        mistake("one of the two targets is enough", f"{TIME} and {ROOM}", f"{TIME} or {ROOM}"),
        mistake("memory is weights: activations are forgotten", ROOM, "25.6e6 * bits / 8 <= nbytes"),
        mistake("weights, gradients and optimizer are counted, activations are not", ROOM, "cost(devices, 0, bits)[1] <= nbytes"),
        mistake("twice the devices take half the time", TIME, "cost(1, batch, bits)[0] / devices <= seconds"),
        mistake("the whole batch is put on every device", ROOM, "cost(1, batch, bits)[1] <= nbytes"),
        mistake("only powers of two are tried", "range(1, 1025)", "[2**k for k in range(11)]"),
        mistake("the first number of bits that fits, from the fewest on", "(32, 16, 8)", "(8, 16, 32)"),
        mistake("the most bits come first, and the fewest devices among them", "    for devices in range(1, 1025):\n        for bits in (32, 16, 8):", "    for bits in (32, 16, 8):\n        for devices in range(1, 1025):"),
        mistake("32 bits are not tried", "(32, 16, 8)", "(16, 8)"),
        mistake("the search ends at 100 devices", "range(1, 1025)", "range(1, 101)"),
        mistake("1,024 devices are not tried", "range(1, 1025)", "range(1, 1024)"),
        mistake("the most devices that meet the targets", "range(1, 1025)", "range(1024, 0, -1)"),
        mistake("the batch is divided and rounded down: some images are left out", TIME, "cost(devices, batch // devices * devices, bits)[0] <= seconds"),
        mistake("the search for devices halves its range, as if more were always faster", LOOPS, HALVING),
        mistake("targets must be beaten, not met", "<= seconds", "< seconds"),
        mistake("memory must be beaten, not met", "<= nbytes", "< nbytes"),
    ),
    hints=(
        "For batch 64 and 50 ms print cost for 1, 2, 4, …, 1024 devices, with 16 bits. Where is the step shortest? Why not at 1,024?",
        "Neither time nor memory tells you the answer alone, and time goes down and up again: try all numbers of devices from 1, and for each the bits from 32 down.",
        "Why can the first pair that meets both targets be returned at once? Because of the order in which pairs are tried: fewer devices come first, and among them more bits. Which of the two loops must be the outer one? And what is left to say after both?",
    ),
)  # fmt: skip
