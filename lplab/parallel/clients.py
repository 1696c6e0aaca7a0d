"""The clients of federated averaging: participation, message formats, and the division of the data.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.checks import check_int
from lplab.compression import Compressor, Dense
from lplab.compression.settings_check import check_settings
from lplab.compression.sharded_weights import check_whole_bytes
from lplab.parallel.learner_gradients import Batch


@dataclass(frozen=True)
class FederatedSettings:
    """The settings of federated averaging.

    Args:
        clients: number of clients.
        share: fraction of the clients that is selected in a round, at least one client.
        local_steps: steps of SGD at a client in a round.
        lr: learning rate of these steps.
        upload: compressor of the weight updates; its residuals stay at the clients.
        download: "fp32", or the name of a format of 8 or 16 bits for the weights sent; vectors are sent in float32.
        response_probability: of a selected client; the update of one that does not respond is lost.
        without_replacement: whether each client is selected at most once, as with a large population of phones.

    Raises:
        ValueError: a setting of the wrong type, a number out of range, or a format that does not fill whole bytes.

    >>> FederatedSettings(clients=10, share=0.25).selected_per_round
    2
    """

    clients: int = 100
    share: float = 0.1
    local_steps: int = 5
    lr: float = 0.1
    upload: Compressor = field(default_factory=Dense)
    download: str = "fp32"
    response_probability: float = 1.0
    without_replacement: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        check_int("clients", self.clients, 1, 2**20)
        check_int("local_steps", self.local_steps, 1, 2**20)
        for name, value in (("share", self.share), ("response_probability", self.response_probability)):
            if not 0 < value <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, got {value}")
        if not 0 < self.lr < np.inf:
            raise ValueError(f"lr must be a positive number, got {self.lr}")
        check_whole_bytes("download", self.download)

    @property
    def selected_per_round(self) -> int:
        """Clients selected in a round."""
        return max(1, int(round(self.share * self.clients, 6)))  # 0.29 · 100 is 28.999… in binary


def client_batches(
    inputs: Any, targets: Any, clients: int, batch: int, seed: int = 0, by_label: bool = False
) -> Callable[[int, int], Batch]:
    """Divide examples evenly among clients; returns a function of (client, step).

    Args:
        inputs, targets: one example in each row.
        clients: number of clients; examples left over are not used.
        batch: examples in a step, drawn from the client's own.
        seed: of the division and the batches.
        by_label: whether examples are sorted by target first, so that each client has few of the classes.

    Raises:
        ValueError: fewer examples than clients times batch.

    >>> data = client_batches(torch.arange(8), torch.tensor([0, 1] * 4), clients=2, batch=4, by_label=True)
    >>> data(0, 0)[1].tolist(), data(1, 0)[1].tolist()
    ([0, 0, 0, 0], [1, 1, 1, 1])
    """
    inputs, targets = (torch.as_tensor(x) for x in (inputs, targets))
    size = len(inputs) // check_int("clients", clients, 1, 2**20)
    if size < check_int("batch", batch, 1, 2**20):
        raise ValueError(
            f"{len(inputs)} examples are {size} for each of {clients} clients, fewer than a batch of {batch}"
        )
    order = np.random.default_rng(seed).permutation(len(inputs))
    if by_label:
        order = order[np.argsort(targets.numpy()[order], kind="stable")]

    def part(client: int, step: int) -> tuple[Tensor, Tensor]:
        own = order[client * size : (client + 1) * size]
        rows = torch.from_numpy(np.random.default_rng([seed, client, step]).choice(own, batch, replace=False))
        return inputs[rows], targets[rows]

    return part
