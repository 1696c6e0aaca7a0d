"""Exercise 08.2: gradients on their way behind the backward pass, in buckets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Number
from lplab.exercises.student_figures import read_results, student_figure


def all_sent(backward, sizes, bucket, latency, bandwidth):
    """When computing and sending are done, in seconds from the start of the backward pass."""
    now = free = held = 0.0
    for i in range(len(sizes)):
        now += backward[i]
        held += sizes[i]
        if held > 0 and (held >= bucket or i == len(sizes) - 1):
            begin = max(now, free)
            free = begin + latency + held / bandwidth
            held = 0.0
    return max(now, free)


COST, START, FULL = "latency + held / bandwidth", "begin = max(now, free)", "(held >= bucket or i == len(sizes) - 1)"
SENT = "free = begin + latency + held / bandwidth"


def hiding_cases() -> list[Args]:
    """Links that are slow and fast, buckets from nothing to everything, many layers; numbers that are exact."""
    layers = ([1.0, 2.0, 1.0, 4.0], [8.0, 2.0, 4.0, 2.0])
    uneven = ([0.5, 0.5, 3.0, 0.25, 0.25, 2.0], [16.0, 16.0, 1.0, 1.0, 64.0, 2.0])
    cases = [
        (*table, bucket, latency, bandwidth)
        for table in (layers, uneven)
        for bucket in (0.0, 2.0, 10.0, 16.0, 1000.0)
        for latency in (0.0, 0.5)
        for bandwidth in (1.0, 4.0, 64.0)
    ]
    return [*cases, ([2.0], [3.0], 1.0, 0.25, 2.0), ([1.0, 1.0], [1.0, 0.0], 1.0, 2.0, 1.0), ([1.0] * 40, [4.0] * 40, 16.0, 0.125, 8.0)]


def why_hidden(args: Args, expected: Any) -> str:
    """How long the backward pass is."""
    backward, end = sum(args[0]), float(expected)
    late = end - backward
    return f"The backward pass ends at {backward:g} s; {f'{late:g} s stick out behind it' if late > 0 else 'nothing sticks out'}."


def show_hiding(args: Args) -> str:
    """The layers in short."""
    backward, sizes, bucket, latency, bandwidth = args
    layers = ", ".join(f"{t:g} s: {n:g} B" for t, n in zip(backward[:6], sizes[:6], strict=True))
    more = f", … {len(sizes)} layers" if len(sizes) > 6 else ""
    return f"layers {layers}{more}; bucket {bucket:g} B, latency {latency:g} s, {bandwidth:g} B/s"


HIDE = Exercise(
    id="08.2",
    version=1,
    title="Hide the communication",
    goal="Goal 2: hide what travels",
    minutes=15,
    difficulty=2,
    statement="""
        The backward pass computes gradients layer by layer, from the last layer to the first; `backward[i]` is the time of the i-th of them in **this** order, `sizes[i]` its bytes (0 for a layer without weights). A finished gradient is put into the open bucket. As soon as the bucket holds `bucket` bytes
        **or more** it is closed and sent as one message of `latency` + bytes / `bandwidth` seconds, while the devices go on computing. The network sends one message at a time, in order. What is left after the last layer is sent as well.

        Write `all_sent(backward, sizes, bucket, latency, bandwidth)`: when all is done, computing and sending, in seconds from the start of the backward pass.
    """,
    reference=all_sent,
    form=Number(),
    show=show_hiding,
    why=why_hidden,
    examples=(
        Example(([2.0], [3.0], 1.0, 0.0, 3.0), "One layer: 2 s of computing, then 1 s of sending that nothing can hide."),
        Example(([1.0, 4.0], [4.0, 1.0], 4.0, 0.0, 1.0), "The first message is on its way while the second layer is computed: 5 s instead of 9 and one second more."),
        Example(([1.0, 1.0], [4.0, 4.0], 4.0, 0.0, 1.0), "The network is still busy when the second gradient is there: it waits."),
        Example(([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], 4.0, 0.5, 2.0), "The bucket is full after two layers; the third layer's gradient is sent alone, below the size."),
        Example(([1.0, 1.0, 9.0], [3.0, 3.0, 1.0], 4.0, 0.5, 1.0), "A bucket is closed once it holds 4 bytes or more, and goes as it is: 3 bytes do not fill it; with the next 3 all 6 go as one message, and nothing is kept back."),
        Example(([1.0, 9.0], [6.0, 1.0], 4.0, 1.0, 1.0), "A layer that is larger than the bucket goes as one message with one latency, all 6 bytes of it."),
        Example(([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], 100.0, 0.5, 2.0), "A bucket that never fills: everything is sent at the end, with one latency."),
        Example(([1.0, 1.0, 1.0], [2.0, 2.0, 2.0], 0.0, 2.0, 2.0), "Each layer for itself: three latencies."),
        Example(([1.0, 9.0], [1.0, 0.0], 1.0, 0.0, 1.0), "The last layer has no gradient, and computing ends last."),
    ),
    boundary=hiding_cases,
    mistakes=(
        mistake("nothing is hidden: sending waits for the end of the backward pass, or computing for the end of sending", START, "begin = max(sum(backward), free)"),
        mistake("the network sends several messages at the same time", SENT, "free = max(free, now + latency + held / bandwidth)"),
        mistake("a message begins as soon as the network is free, even before its gradient is there", START, "begin = free"),
        mistake("the network forgets that it is busy", START, "begin = now"),
        mistake("what is left in the last bucket is never sent", FULL, "held >= bucket"),
        mistake("the bucket is sent only when it holds more than its size", "held >= bucket", "held > bucket"),
        mistake("an empty message is sent where nothing is left", "held > 0 and ", ""),
        mistake("a last message is always sent, and pays latency even if it is empty", FULL, "held >= bucket", "return max(now, free)", "return max(now, free) + latency + held / bandwidth"),
        mistake("what is left is sent at once, though the network is still busy", FULL, "held >= bucket", "return max(now, free)", "return now + latency + held / bandwidth if held else max(now, free)"),
        mistake("latency is forgotten", COST, "held / bandwidth"),
        mistake("latency is paid once, for all messages together", COST, "held / bandwidth", "return max(now, free)", "return max(now, free + latency)"),
        mistake("latency is paid for every layer, not for every message", "        held += sizes[i]\n", "        held += sizes[i] + latency * bandwidth * (sizes[i] > 0)\n", COST, "held / bandwidth", "held >= bucket", "held - latency * bandwidth >= bucket"),
        mistake("the bucket is not emptied", "            held = 0.0\n", "            pass\n"),
        mistake("what is beyond the bucket's size is sent, and kept as well", "            held = 0.0\n", "            held = max(held - bucket, 0.0)\n"),
        mistake("sending and computing follow one another: the sum, not the longer", "return max(now, free)", "return now + free"),
        mistake("exactly the bucket's size is sent, and the rest kept", FULL + ":", FULL + ":\n            size = held if i == len(sizes) - 1 else min(held, bucket or held)", COST, "latency + size / bandwidth", "            held = 0.0\n", "            held -= size\n"),
        mistake("a bucket is closed before it would hold more than its size", "        held += sizes[i]\n", "        if 0 < held < bucket < held + sizes[i]:\n            free = max(now, free) + latency + held / bandwidth\n            held = 0.0\n        held += sizes[i]\n"),
        mistake("only what sticks out is returned", "return max(now, free)", "return max(free - now, 0.0)"),
        mistake("only the network is looked at", "return max(now, free)", "return free"),
        mistake("layers are taken from the first of the network to the last", "for i in range(len(sizes)):", "for i in reversed(range(len(sizes))):", "or i == len(sizes) - 1", "or i == 0"),
    ),
    hints=(
        "Follow ([1, 1], [4, 4], bucket 4, latency 0, bandwidth 1): the first message goes from 1 to 5. The second gradient is there at 2, but its message must wait until 5, and ends at 9.",
        "Two clocks: `now`, when the current layer is computed, and `free`, when the network has sent what it was given. A message begins at the later of the two.",
        "When is a bucket sent? It is full, or the layer is the last, and something is in it. A last layer of 0 bytes sends what waited. A message begins when its bucket is full and the network is free: which of the two clocks is the later one? At the end it may be the other.",
    ),
)  # fmt: skip


MEBIBYTES = tuple(0.25 * 2.0 ** (k / 2) for k in range(20))  # of a bucket


def resnet_backward(gigabits: float = 10.0) -> tuple[list[float], list[float], float, float]:
    """Times and gradient bytes of ResNet-50's layers in the order of the backward pass, and of a ring of 64 V100: latency and bytes per second of a bucket's all-reduce."""
    from lplab.hardware import Cluster, simulate

    step = simulate(
        "resnet50", Cluster("v100", 64, f"{gigabits:g}Gb/s, 50us"), precision="fp16_mixed", utilization=0.5
    )
    backward = step.times.layer_backward[::-1, 0].tolist()
    sizes = step.design.traffic.payload_bytes.sum(axis=1)[::-1].tolist()
    return backward, sizes, 2 * 6 * 50e-6, gigabits * 1.25e8 / (2 * 63 / 64)


@student_figure("Here your {name} will be drawn beside the library's")
def draw_buckets(function: Callable[..., float], gigabits: float = 100.0) -> Any:
    """A live figure of the time until all is sent against the size of a bucket, the student's beside the library's.

    Args:
        function: takes backward times, sizes, bucket, latency and bandwidth, and returns seconds.
        gigabits: bandwidth of the link.
    """
    from lplab import figures

    backward, sizes, latency, bandwidth = resnet_backward(gigabits)
    calls = [(backward, sizes, size * 2**20, latency, bandwidth) for size in MEBIBYTES]
    yours = np.array(read_results(function, calls, HIDE.form, float))
    library = np.array([all_sent(*call) for call in calls])
    return figures.bucket_times(MEBIBYTES, library, yours, backward_seconds=sum(backward))
