"""Exercise 12.4: a federated round: bytes, joules, and the seconds until the last client has answered."""

from __future__ import annotations

import numpy as np

from lplab.exercises.checks.close import TOLERANCE, close_to
from lplab.exercises.model.exercise import Args, Example, Exercise, mistake
from lplab.exercises.model.forms import Numbers


def federated_round(parameters, down_bits, up_bits, share, index_bits, clients, watts):
    """Bytes on all radios, joules of all clients, seconds of the round."""
    down = parameters * down_bits / 8
    index = index_bits if share < 1 else 0
    up = parameters * share * (up_bits + index) / 8
    seconds = np.stack([clients[:, 0], down / clients[:, 1], up / clients[:, 2]], axis=1)
    joules = (seconds * np.array(watts)).sum()
    return len(clients) * (down + up), joules, seconds.sum(axis=1).max()


DOWN, UP = "parameters * down_bits / 8", "parameters * share * (up_bits + index) / 8"
SECONDS = "np.stack([clients[:, 0], down / clients[:, 1], up / clients[:, 2]], axis=1)"
JOULES, RETURN = "(seconds * np.array(watts)).sum()", "return len(clients) * (down + up), joules, seconds.sum(axis=1).max()"
PHONE = (3.0, 2.0, 4.0)  # watts: computing, receiving, sending
ONE = np.array([[10.0, 1000.0, 500.0]])
TWO = np.array([[10.0, 1000.0, 500.0], [1.0, 1000.0, 100.0]])
THREE = np.array([[30.0, 2000.0, 1000.0], [5.0, 250.0, 1000.0], [5.0, 2000.0, 80.0]])


def round_cases() -> list[Args]:
    """Formats and shares with clients that differ in everything; the numbers sent are whole, rounded or not."""
    rng = np.random.default_rng(2017)
    crowds = [np.exp(rng.normal([2, 8, 7], [1, 1, 1], (count, 3))) for count in (1, 4, 25)]
    wires = [(32, 32, 1.0, 0), (16, 16, 1.0, 16), (8, 8, 0.01, 16), (8, 32, 1 / 112, 9), (4, 4, 1.0, 0), (32, 8, 0.5, 1)]
    return [(parameters, *wire, crowd, watts) for parameters in (5600, 112_000) for wire in wires for crowd in crowds for watts in (PHONE, (0.5, 1.0, 9.0))]


def show(args: Args) -> str:
    """The arguments by name; clients in full where they are few."""
    parameters, down, up, share, index, clients, watts = args
    rows = ", ".join("({:g} s, {:g} B/s down, {:g} B/s up)".format(*row) for row in clients[:3])
    more = f", … {len(clients)} clients" if len(clients) > 3 else ""
    return (
        f"{parameters:,} parameters, {down:g} bits down, {up:g} up, share {share:g}, {index:g} index bits, "
        f"clients {rows}{more}, watts {', '.join(f'{w:g}' for w in watts)}"
    )


FEDERATED_ROUND = Exercise(
    id="12.4",
    version=2,
    title="One federated round",
    goal="Goal 4: bill the edge",
    minutes=15,
    difficulty=2,
    statement=r"""
        Write `federated_round(parameters, down_bits, up_bits, share, index_bits, clients, watts)`.

        - A server sends all parameters to every client, with `down_bits` each.
        - A client sends back the share `share` of its update, with `up_bits` for each number that it sends. If it does not send all of them (`share` < 1), each number also takes `index_bits` for its place.
        - Rows of the array `clients` are (seconds of computing, bytes per second down, bytes per second up).
        - `watts` are (computing, receiving, sending). All clients work at the same time. Each one receives, then computes, then sends.

        Return **bytes** on all radios together, **joules** of all clients together, and the **seconds** until the last client has answered.
    """,
    reference=federated_round,
    form=Numbers(count=3),
    accept=close_to(federated_round, ("sum of bytes", "sum of joules", "time of the round in seconds")),
    tolerance=TOLERANCE,
    show=show,
    examples=(
        Example((1000, 8, 8, 1.0, 0, ONE, PHONE), "1,000 bytes each way: 1 s down, 10 s of computing, 2 s up; 2 + 30 + 8 J."),
        Example((1000, 32, 8, 1.0, 0, ONE, PHONE), "32 bits down: four bytes for each parameter."),
        Example((1000, 8, 8, 0.1, 16, ONE, PHONE), "100 of 1,000 numbers, 8 bits and 16 for the index: 300 bytes up."),
        Example((1000, 8, 8, 1.0, 16, ONE, PHONE), "All numbers in their order: no index, whatever index_bits says."),
        Example((1000, 8, 8, 1.0, 0, TWO, PHONE), "13 and 12 seconds: the server waits for the slower one. Bytes and joules add up."),
        Example((1000, 8, 8, 1.0, 0, THREE, PHONE), "One is slow at computing, one at receiving, one at sending: the last one needs 18 s, the first 31.5 s."),
        Example((1000, 4, 4, 1.0, 0, ONE, (0.0, 0.0, 1.0)), "Only sending costs: 500 bytes at 500 a second."),
    ),
    boundary=round_cases,
    mistakes=(
        mistake("bits are taken for bytes", DOWN, "parameters * down_bits", UP, "parameters * share * (up_bits + index)"),
        mistake("indices travel for free", UP, "parameters * share * up_bits / 8"),
        mistake("an index even where all numbers are sent", "index_bits if share < 1 else 0", "index_bits"),
        mistake("the index is sent for every parameter", UP, "parameters * (share * up_bits + index) / 8"),
        mistake("the server, too, sends only a share", DOWN, "parameters * share * down_bits / 8"),
        mistake("share says what is left out", UP, "parameters * (1 - share if share < 1 else 1) * (up_bits + index) / 8"),
        mistake("rates up and down are exchanged", SECONDS, "np.stack([clients[:, 0], down / clients[:, 2], up / clients[:, 1]], axis=1)"),
        mistake("computing and receiving happen together", "seconds.sum(axis=1).max()", "(np.maximum(seconds[:, 0], seconds[:, 1]) + seconds[:, 2]).max()"),
        mistake("the mean of the clients instead of the slowest", "seconds.sum(axis=1).max()", "seconds.sum(axis=1).mean()"),
        mistake("clients take turns: the sum instead of the slowest", "seconds.sum(axis=1).max()", "seconds.sum()"),
        mistake("the slowest computing plus the slowest line, though they are different clients", "seconds.sum(axis=1).max()", "seconds.max(axis=0).sum()"),
        mistake("the server waits for the fastest", "seconds.sum(axis=1).max()", "seconds.sum(axis=1).min()"),
        mistake("the joules of the slowest client", JOULES, "(seconds * np.array(watts)).sum(axis=1).max()"),
        mistake("radio and processor draw the same", JOULES, "(seconds * watts[0]).sum()"),
        mistake("the watts of computing and of receiving are exchanged", JOULES, "(seconds * np.array([watts[1], watts[0], watts[2]])).sum()"),
        mistake("sending costs as much as receiving", JOULES, "(seconds * np.array([watts[0], watts[1], watts[1]])).sum()"),
        mistake("the bytes of one client", "return len(clients) * (down + up)", "return down + up"),
        mistake("the server sends once, for all", "return len(clients) * (down + up)", "return down + len(clients) * up"),
    ),
    hints=(
        "Take two clients that get and send 1,000 bytes, (10, 1000, 500) and (1, 100, 1000). Write down both rows: seconds down, computing, up. Which of the two answers last?",
        "Bytes first, down and up; then an array of seconds with a row for each client and a column for each phase. Joules: times the watts of each column.",
        "The order of columns must be that of watts: computing, receiving, sending. A table of seconds with a row for each client then gives both: all seconds times watts, summed; and the longest sum of a row. index_bits count only where share is below 1.",
    ),
)
