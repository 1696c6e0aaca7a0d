"""A collection of tensors from training runs, named model/step/layer/role and read from disk one by one."""

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np

from lplab.datasets.bundled import data_folder
from lplab.lookup import closest_names

ROLES = ("weight", "activation", "gradient", "weight_gradient")


@dataclass(frozen=True, repr=False)
class Captured:
    """The tensors in ``folder``: float32 arrays by name, read-only. See :func:`lplab.datasets.captured`.

    A name reads ``model/step/layer/role``. The roles are those of the three products of a layer in training:
    ``weight``; ``activation``, its input; ``gradient``, that of the loss with respect to its output;
    ``weight_gradient``. An unknown name raises a KeyError that names the closest ones.

    >>> from lplab.datasets import captured
    >>> captured()  # doctest: +ELLIPSIS
    Captured(... tensors of 2 models: resnet (steps 0, 30, 200), transformer (steps 0, 50, 1000); roles: weight, ...)
    """

    folder: Path

    @cached_property
    def _files(self) -> dict[str, Path]:
        """The .npz file that holds each name; only the tables of contents are read."""
        found: dict[str, Path] = {}
        for path in sorted(self.folder.glob("*.npz")):
            with zipfile.ZipFile(path) as archive:
                found.update((member.removesuffix(".npy"), path) for member in archive.namelist())
        if not found:
            raise FileNotFoundError(f"no captured tensors in {self.folder}")
        return found

    @cached_property
    def _about(self) -> dict:
        return json.loads((self.folder / "captured.json").read_text(encoding="utf-8"))

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._files:
            close = closest_names(name, self._files)
            raise KeyError(
                f"no captured tensor {name!r}; closest: {', '.join(close) or 'none'}; captured().names() lists all"
            )
        with np.load(self._files[name], allow_pickle=False) as stored:
            return stored[name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        runs = ", ".join(f"{m} (steps {', '.join(map(str, self.steps_of(m)))})" for m in self.models)
        return f"Captured({len(self)} tensors of {len(self.models)} models: {runs}; roles: {', '.join(self.roles)})"

    def names(self) -> list[str]:
        """All names, model by model and step by step."""
        return list(self._files)

    def _parts(self, position: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name.split("/")[position] for name in self._files))

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the networks."""
        return self._parts(0)

    @property
    def steps(self) -> tuple[int, ...]:
        """Training steps whose tensors are stored, of all models, ascending."""
        return tuple(sorted(int(step.removeprefix("step")) for step in self._parts(1)))

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers, of all models."""
        return self._parts(2)

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of tensors in their layer: weight, activation, gradient or weight_gradient."""
        return tuple(role for role in ROLES if role in self._parts(3))

    def steps_of(self, model: str) -> tuple[int, ...]:
        """Training steps whose tensors of ``model`` are stored, ascending.

        >>> from lplab.datasets import captured
        >>> captured().steps_of("transformer")
        (0, 50, 1000)
        """
        return tuple(sorted({int(name.split("/")[1].removeprefix("step")) for name in self.select(model=model)}))

    def select(
        self,
        model: str | None = None,
        step: int | None = None,
        layer: str | None = None,
        role: str | None = None,
    ) -> list[str]:
        """Names of the tensors that fit every given part; an unknown part raises a ValueError with the known ones.

        >>> from lplab.datasets import captured
        >>> captured().select(model="resnet", step=0, layer="head", role="weight")
        ['resnet/step0/head/weight']
        """
        wanted = {"model": model, "step": step, "layer": layer, "role": role}
        known = {"model": self.models, "step": self.steps, "layer": self.layers, "role": self.roles}
        for part, value in wanted.items():
            if value is not None and value not in known[part]:
                raise ValueError(f"no {part} {value!r}; there are: {', '.join(map(str, known[part]))}")
        pattern = [model, None if step is None else f"step{step}", layer, role]

        def fits(name: str) -> bool:
            return all(part in (None, own) for part, own in zip(pattern, name.split("/"), strict=True))

        return [name for name in self._files if fits(name)]

    def whole_shape(self, name: str) -> tuple[int, ...]:
        """Shape of the tensor before it was cut to its leading block.

        >>> from lplab.datasets import captured
        >>> name = "resnet/step0/layer1.conv1/activation"
        >>> captured()[name].shape, captured().whole_shape(name)
        ((8, 16, 8, 8), (64, 16, 8, 8))
        """
        model = name.split("/")[0]
        whole = self._about.get(model, {}).get("whole_shapes", {}).get(name)
        return self[name].shape if whole is None else tuple(whole)

    def history(self, model: str) -> Mapping[str, np.ndarray]:
        """History of the training: ``step`` and ``loss`` (nats), ``test_step`` and ``test`` (see :meth:`measure`).

        >>> from lplab.datasets import captured
        >>> bool(captured().history("resnet")["test"][-1] > 95)
        True
        """
        self.select(model=model)  # raises for an unknown model
        return MappingProxyType({key: np.array(values) for key, values in self._about[model]["history"].items()})

    def recipe(self, model: str) -> str:
        """How the network was trained.

        >>> from lplab.datasets import captured
        >>> captured().recipe("resnet").split(",")[0]
        'SGD'
        """
        self.select(model=model)
        return self._about[model]["recipe"]

    def measure(self, model: str) -> str:
        """What ``history(model)["test"]`` measures.

        >>> from lplab.datasets import captured
        >>> captured().measure("transformer")
        'test bits per character'
        """
        self.select(model=model)
        return self._about[model]["measure"]


@cache
def captured() -> Captured:
    """Weights, activations and gradients of a residual net and a Transformer, captured during training.

    Made by ``data/capture.py``, which says what each role is. A tensor is read from disk when it is asked for.

    >>> captured()["resnet/step0/head/weight"].shape
    (10, 32)
    >>> captured().models
    ('resnet', 'transformer')
    """
    return Captured(data_folder() / "captured")
