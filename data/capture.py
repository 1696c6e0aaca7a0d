"""Train the two small networks and keep what one meets on the way: weights, activations and gradients, as float32.

    python data/capture.py            (needs PyTorch; some 40 seconds on two cores)

writes data/captured/resnet.npz, transformer.npz and captured.json, and prints the tables of data/README.md. A tensor is
called model/step/layer/role:

- ``weight``           the layer's weight before the update of that step;
- ``activation``       the layer's input: the left operand of its forward product;
- ``gradient``         that of the mean loss with respect to the layer's output: operand of both backward products;
- ``weight_gradient``  that with respect to the weight, as the optimizer gets it.

They come from the very batch of that step, by hooks, untouched. Big activations and gradients are cut to their first
images or sequences (contiguous, at most LIMIT elements); captured.json tells the whole shape. Everything is seeded, in
one thread, with torch's deterministic algorithms. Other processors add in another order: step 0 then agrees up to
rounding errors, later steps only in kind.
"""

import json
import math
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lplab import datasets, models
from lplab.datasets.captured_tensors import ROLES, Captured

LIMIT = 8192  # elements stored of an activation or a gradient: as many as a live figure draws in one frame
HERE = Path(__file__).parent / "captured"
Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Run:
    """One training run: what to train, on what, and what to keep."""

    name: str
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batch: Callable[[], Batch]
    evaluate: Callable[[nn.Module], float]
    measure: str  # what evaluate() measures
    layers: tuple[str, ...]
    steps: tuple[int, ...]  # captured before the update of these steps; training ends at the last
    recipe: str


# ---- the two runs ----------------------------------------------------------------------------------------------------


def resnet_run(seed: int = 0) -> Run:
    """Residual net on the first 1,437 digits; tested on the last 360."""
    images, labels = datasets.digits()
    x, y = torch.from_numpy(images)[:, None], torch.from_numpy(labels)
    train = len(y) - 360
    generator = np.random.default_rng(seed)
    model = models.digits_resnet(seed)

    def batch() -> Batch:
        chosen = torch.from_numpy(generator.choice(train, size=64, replace=False))
        return x[chosen], y[chosen]

    def accuracy(model: nn.Module) -> float:
        return 100 * (model(x[train:]).argmax(dim=1) == y[train:]).double().mean().item()

    return Run(
        name="resnet",
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4),
        batch=batch,
        evaluate=accuracy,
        measure="test accuracy in percent",
        layers=("stem", "layer1.conv1", "layer2.conv1", "layer2.shortcut.0", "layer3.conv2", "head"),
        steps=(0, 30, 200),
        recipe="SGD, learning rate 0.05, momentum 0.9, weight decay 1e-4, 64 images a step",
    )


def transformer_run(seed: int = 0) -> Run:
    """Character Transformer on the first nine tenths of the corpus; tested on 128 passages of the last tenth."""
    ids, vocabulary = datasets.character_ids()
    text = torch.from_numpy(ids.astype(np.int64))
    train = len(text) * 9 // 10
    generator = np.random.default_rng(seed)
    model = models.character_transformer(len(vocabulary), seed)

    def passages(starts: np.ndarray) -> Batch:
        index = torch.from_numpy(starts[:, None] + np.arange(65))
        return text[index[:, :-1]], text[index[:, 1:]]

    def bits_per_character(model: nn.Module) -> float:
        inputs, targets = passages(np.linspace(train, len(text) - 65, 128).astype(np.int64))
        return cross_entropy(model(inputs), targets).item() / math.log(2)

    return Run(
        name="transformer",
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.01),
        batch=lambda: passages(generator.integers(0, train - 65, size=16)),
        evaluate=bits_per_character,
        measure="test bits per character",
        layers=(
            "token_embedding",
            "blocks.0.attention.qkv",
            "blocks.1.attention.probabilities",
            "blocks.1.attention.project",
            "blocks.1.mlp.up",
            "blocks.2.mlp.down",
            "head",
        ),
        steps=(0, 50, 1000),
        recipe="AdamW, learning rate 0.003, betas 0.9 and 0.99, weight decay 0.01, 16 passages of 64 characters a step",
    )


# ---- training and keeping --------------------------------------------------------------------------------------------


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats over all predictions of the batch."""
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


def leading(shape: tuple[int, ...], limit: int = LIMIT) -> tuple[int, ...]:
    """Shape of a leading block of at most ``limit`` elements: fewer items of the first axes, the last one whole."""
    shape = tuple(shape)
    for axis in range(len(shape) - 1):
        if math.prod(shape) > limit:
            shape = (*shape[:axis], max(1, limit // math.prod(shape[axis + 1 :])), *shape[axis + 1 :])
    return shape


def observe(run: Run, keep: dict[str, Tensor]) -> list[torch.utils.hooks.RemovableHandle]:
    """Hook the layers of the run: their inputs and the gradients of their outputs go to ``keep`` as layer/role."""

    def hook(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def on_forward(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if inputs[0].is_floating_point():  # not the ids that enter an embedding
                keep[f"{name}/activation"] = inputs[0].detach().clone()
            output.register_hook(lambda gradient: keep.__setitem__(f"{name}/gradient", gradient.clone()))

        return on_forward

    return [run.model.get_submodule(name).register_forward_hook(hook(name)) for name in run.layers]


def backward(run: Run) -> float:
    """Compute all gradients on the next batch; the loss in nats."""
    run.model.train()
    inputs, targets = run.batch()
    run.optimizer.zero_grad()
    loss = cross_entropy(run.model(inputs), targets)
    loss.backward()
    return loss.item()


def backward_and_keep(run: Run) -> tuple[float, dict[str, Tensor]]:
    """Like :func:`backward`; also the tensors of the run's layers, as layer/role, whole."""
    keep: dict[str, Tensor] = {}
    handles = observe(run, keep)
    loss = backward(run)
    for handle in handles:
        handle.remove()
    for name in run.layers:
        weight = getattr(run.model.get_submodule(name), "weight", None)
        if weight is not None:
            keep[f"{name}/weight"], keep[f"{name}/weight_gradient"] = weight.detach().clone(), weight.grad.clone()
    order = [f"{name}/{role}" for name in run.layers for role in ROLES]
    return loss, {name: keep[name] for name in order if name in keep}


def cut(tensors: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Cut activations and gradients to their leading block; weights and their gradients stay whole."""
    blocks = {}
    for name, tensor in tensors.items():
        shape = tensor.shape if "weight" in name.split("/")[-1] else leading(tuple(tensor.shape))
        blocks[name] = np.ascontiguousarray(tensor[tuple(slice(n) for n in shape)].numpy())
    return blocks


def evaluate(run: Run) -> float:
    """Measure the model on data that it was not trained on."""
    run.model.eval()
    with torch.no_grad():
        return run.evaluate(run.model)


def train(run: Run) -> tuple[dict[str, np.ndarray], dict[str, tuple[int, ...]], dict[str, list[float]]]:
    """Carry out the run: the stored tensors, the whole shapes of the cut ones, and the history of the training."""
    tensors: dict[str, np.ndarray] = {}
    whole: dict[str, tuple[int, ...]] = {}
    history: dict[str, list[float]] = {"step": [], "loss": [], "test_step": [], "test": []}
    for step in range(run.steps[-1] + 1):
        if step in run.steps:
            loss, found = backward_and_keep(run)
            stored = cut(found)
            tensors |= {f"{run.name}/step{step}/{name}": stored[name] for name in stored}
            was_cut = [name for name in stored if stored[name].shape != found[name].shape]
            whole |= {f"{run.name}/step{step}/{name}": tuple(found[name].shape) for name in was_cut}
        else:
            loss = backward(run)
        history["step"].append(step)
        history["loss"].append(round(loss, 4))
        if step % (run.steps[-1] // 20) == 0:
            history["test_step"].append(step)
            history["test"].append(round(evaluate(run), 3))
            print(f"\r{run.name}: step {step}, {run.measure} {history['test'][-1]:.2f}  ", end="", file=sys.stderr)
        if step < run.steps[-1]:
            run.optimizer.step()
    print(file=sys.stderr)
    return tensors, whole, history


def main(folder: Path = HERE) -> None:
    """Make the files of data/captured again."""
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    versions = {"torch": torch.__version__, "numpy": np.__version__, "machine": platform.machine()}
    about: dict[str, dict] = {"made_with": versions}
    for run in (resnet_run(), transformer_run()):
        tensors, whole, history = train(run)
        np.savez_compressed(folder / f"{run.name}.npz", **tensors)
        about[run.name] = {"recipe": run.recipe, "measure": run.measure, "history": history, "whole_shapes": whole}
    (folder / "captured.json").write_bytes(json.dumps(about).encode() + b"\n")
    print(*readme_rows(Captured(folder)), sep="\n")


def readme_rows(captured: Captured) -> list[str]:
    """Lines of the tables in data/README.md: the result of the training, and the octaves of the stored tensors."""
    rows = []
    for model in captured.models:
        history = captured.history(model)
        what = f"{captured.recipe(model)} | {history['step'][-1]:,} | {captured.measure(model)}"
        rows.append(f"| {model} | {what} | {history['test'][0]:.2f} | {history['test'][-1]:.2f} |")
    for model in captured.models:
        for step in captured.steps_of(model):
            octaves = [octave_range(captured, model, step, role) for role in captured.roles]
            rows.append(f"| {model} | {step:,} | " + " | ".join(octaves) + " |")
    return rows


def octave_range(captured: Captured, model: str, step: int, role: str) -> str:
    """Floor of log2 of the smallest, median and largest magnitude, zeros left out."""
    values = np.concatenate([captured[name].ravel() for name in captured.select(model, step, role=role)])
    magnitudes = np.sort(np.abs(values[values != 0]))
    chosen = magnitudes[[0, len(magnitudes) // 2, -1]]
    return " · ".join(str(exponent - 1).replace("-", "−") for exponent in np.frexp(chosen)[1])


if __name__ == "__main__":
    main()
