"""The clients of federated averaging: who takes part, what travels, and which data are whose.

This module needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lplab.compression import Compressor, Dense
from lplab.compression.settings import check_settings
from lplab.compression.weight_shares import check_travels
from lplab.formats.base import whole
from lplab.parallel.gradients import Batch


@dataclass(frozen=True)
class FederatedSettings:
    """Who takes part, and what travels.

    Args:
        clients: how many there are.
        share: of the clients that is asked in a round, at least one.
        local_steps: steps of SGD at a client before it answers.
        lr: of these steps.
        upload: compressor of what the weights moved by; its memory stays at the client.
        download: "fp32", or the name of a format of 8 or 16 bits in which weights go out; vectors go in float32.
        returns: the chance that a client that was asked answers; one that does not has trained for nothing.
        once: whether each client is asked at most once, as phones may be.

    Raises:
        ValueError: a setting of the wrong kind, a number out of range, or a format that does not fill whole bytes.

    >>> FederatedSettings(clients=10, share=0.25).asked
    2
    """

    clients: int = 100
    share: float = 0.1
    local_steps: int = 5
    lr: float = 0.1
    upload: Compressor = field(default_factory=Dense)
    download: str = "fp32"
    returns: float = 1.0
    once: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        whole("clients", self.clients, 1, 2**20)
        whole("local_steps", self.local_steps, 1, 2**20)
        for name, value in (("share", self.share), ("returns", self.returns)):
            if not 0 < value <= 1:
                raise ValueError(f"{name} must be above 0 and at most 1, got {value}")
        if not 0 < self.lr < np.inf:
            raise ValueError(f"lr must be a positive number, got {self.lr}")
        check_travels("download", self.download)

    @property
    def asked(self) -> int:
        """Clients that are asked in a round."""
        return max(1, int(round(self.share * self.clients, 6)))  # 0.29 · 100 is 28.999… in binary


def client_batches(
    inputs: Any, targets: Any, clients: int, batch: int, seed: int = 0, by_label: bool = False
) -> Callable[[int, int], Batch]:
    """Examples divided among clients, evenly; a function of (client, step).

    Args:
        inputs, targets: one example in each row.
        clients: how many; what is left over is not used.
        batch: examples of a step, drawn from the client's own.
        seed: of the division and the drawing.
        by_label: sorted by target first, so that each client sees few of the classes.

    Raises:
        ValueError: fewer examples than clients times batch.

    >>> data = client_batches(torch.arange(8), torch.tensor([0, 1] * 4), clients=2, batch=4, by_label=True)
    >>> data(0, 0)[1].tolist(), data(1, 0)[1].tolist()
    ([0, 0, 0, 0], [1, 1, 1, 1])
    """
    inputs, targets = (torch.as_tensor(x) for x in (inputs, targets))
    each = len(inputs) // whole("clients", clients, 1, 2**20)
    if each < whole("batch", batch, 1, 2**20):
        raise ValueError(
            f"{len(inputs)} examples are {each} for each of {clients} clients, fewer than a batch of {batch}"
        )
    order = np.random.default_rng(seed).permutation(len(inputs))
    if by_label:
        order = order[np.argsort(targets.numpy()[order], kind="stable")]

    def part(client: int, step: int) -> tuple[Tensor, Tensor]:
        own = order[client * each : (client + 1) * each]
        rows = torch.from_numpy(np.random.default_rng([seed, client, step]).choice(own, batch, replace=False))
        return inputs[rows], targets[rows]

    return part
