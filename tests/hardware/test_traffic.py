"""Bytes of the simulator against those of a training's hook: every workload that has a module, every compressor."""

import pytest
import torch
from torch import nn

from lplab import compression
from lplab.hardware import precisions, workloads
from lplab.hardware.traffic import tensors_of, traffic
from lplab.hardware.workloads import Layer, Workload
from lplab.parallel.compressor_states import layer_infos
from tests.hardware import networks

COMPRESSORS = (*compression.names(), "powersgd:rank=4", "scalecom:chunk=112", "scalecom:small=compressed")


def bytes_by_kind(workload, compressor):
    """What a learner sends in a step, by kind of request, as the simulator has it."""
    found = traffic(workload, precisions.get("fp32"), compressor)
    sums = {}
    for kind, payload in zip(found.kinds, found.payload_bytes.sum(axis=0), strict=True):
        sums[kind] = sums.get(kind, 0) + payload
    return sums


def bytes_of_hook(infos, compressor):
    """The same as a hook sends it: the plan of each parameter."""
    sums = {}
    for info in infos.values():
        for transfer in compressor.for_layer(info).plan(info.shape):
            sums[transfer.kind] = sums.get(transfer.kind, 0) + transfer.payload_bytes
    return sums


def test_every_workload_has_a_module_here():
    assert list(networks.NETWORKS) == workloads.names()


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_a_workload_of_the_list_sends_what_the_hook_of_its_module_sends(name):
    model, example = networks.on_meta(name)
    workload = workloads.get(name)
    assert workload.parameters == sum(p.numel() for p in model.parameters())
    infos = layer_infos(model, example)
    for text in COMPRESSORS:
        compressor = compression.get(text)
        assert bytes_by_kind(workload, compressor) == bytes_of_hook(infos, compressor), text


@pytest.mark.parametrize("name", [name for name in networks.NETWORKS if name != "gpt3"])
def test_a_recorded_module_has_the_products_and_bytes_of_the_workload_of_the_list(name):
    model, example = networks.on_meta(name)
    found, listed = workloads.from_module(model, example), workloads.get(name)
    assert (found.parameters, found.multiplications) == (listed.parameters, listed.multiplications)
    assert found.training_flops == listed.training_flops and found.uncounted == ()
    for compressor in map(compression.get, ("scalecom", "onebit")):
        assert bytes_by_kind(found, compressor) == bytes_by_kind(listed, compressor)


class Language(nn.Module):
    """Registered in another order than it runs, with a matrix of its own."""

    def __init__(self):
        super().__init__()
        self.head, self.lstm, self.table = (
            nn.Linear(96, 50),
            nn.LSTM(64, 48, 2, bidirectional=True),
            nn.Embedding(50, 64),
        )
        self.mix = nn.Parameter(torch.zeros(64, 64))

    def forward(self, words):
        return self.head(self.lstm((self.table(words) @ self.mix).transpose(0, 1))[0])


def lora():
    """Frozen layers, of which one is trained by a product of two small matrices."""
    model = nn.Sequential(nn.Linear(64, 64), nn.utils.parametrizations.weight_norm(nn.Linear(64, 64)), nn.Linear(64, 8))
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


DECODER = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.ConvTranspose2d(64, 32, 3, 2), nn.ConvTranspose2d(32, 3, 1))
OTHERS = {
    "registered in another order": (Language(), torch.zeros(4, 9, dtype=torch.long)),
    "transposed convolutions": (DECODER, torch.zeros(2, 3, 18, 18)),
    "partly frozen": (lora(), torch.zeros(2, 64)),
    "cells": (nn.Sequential(nn.Linear(40, 40), nn.GRUCell(40, 40)), torch.zeros(2, 40)),
    "norm first": (nn.Sequential(nn.LayerNorm(2048), nn.Linear(2048, 8), nn.Linear(8, 8)), torch.zeros(2, 2048)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_module_sends_what_its_hook_sends(name):
    model, example = OTHERS[name]
    workload, infos = workloads.from_module(model, example), layer_infos(model, example)
    for text in COMPRESSORS:
        compressor = compression.get(text)
        assert bytes_by_kind(workload, compressor) == bytes_of_hook(infos, compressor), text
    marked = [info.name for found in tensors_of(workload) for info in found if info.first]
    assert marked == [info.name for info in infos.values() if info.first]


def test_the_kernels_of_transposed_convolutions_are_used_once_for_each_element_of_their_input():
    infos = list(layer_infos(*OTHERS["transposed convolutions"]).values())
    assert [(info.kind, info.weight_reuse) for info in infos[::2]] == [
        ("convolution", 256), ("convolution", 256), ("convolution", 33 * 33)
    ]  # fmt: skip


def test_of_layers_without_tensors_the_first_is_the_first_that_is_not_small():
    """A table, too: it is what ScaleCom sends whole."""
    layers = (
        Layer("norm", "norm", weights=128, inputs=64, outputs=64),
        Layer("table", "embedding", weights=64 * 1000, outputs=64),
        Layer("fc", "linear", m=1, n=64, k=64, weights=64 * 65),
    )
    workload = Workload("own", "", layers)
    marks = [(info.kind, info.shape, info.first) for found in tensors_of(workload) for info in found]
    assert marks == [
        ("small", (128,), False), ("embedding", (1000, 64), True), ("dense", (64, 64), False), ("small", (64,), False)
    ]  # fmt: skip
    sent = bytes_by_kind(workload, compression.get("scalecom"))
    assert 4 * 64 * 1000 < sent["all_reduce"] < 4 * 64 * 1010


def test_where_nothing_is_trained_nothing_is_sent():
    model = nn.Linear(64, 64).requires_grad_(False)
    workload = workloads.from_module(model, torch.zeros(2, 64))
    for text in (None, "topk", "scalecom", "powersgd"):
        compressor = None if text is None else compression.get(text)
        assert set(bytes_by_kind(workload, compressor).values()) <= {0}
    assert workload.frozen == 64 * 65 and workload.parameters == 0
