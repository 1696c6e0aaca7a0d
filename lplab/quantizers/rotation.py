"""Rotations of the residual stream: outliers are spread over all channels, and the model computes what it did before.

A norm by the root of the mean square does not see a rotation: it commutes with an orthogonal matrix, once its weight
is in the layers that read from it. So x → x Q can be merged into the weights: into the embedding and the layers that
write to the stream by Q on their output side, into the layers that read from it by Q on their input side. It costs
nothing at run time (SliceGPT and QuaRot, Ashkboos et al. 2024, arXiv:2404.00456). A layer norm also subtracts the mean,
which a rotation changes: first the mean is taken out of everything that is written (:func:`without_mean`), after which
the layer norm is one by the root of the mean square.

Three other ways to few bits are not here. QuIP# (arXiv:2402.04396) and AQLM (arXiv:2401.06118) round groups of weights
to learned or lattice codebooks, whose search takes hours for a model of a useful size. AutoRound (arXiv:2309.05516)
learns for each weight which way it is rounded, block by block, by hundreds of gradient steps: a training, while these
methods need none. BitNet b1.58 (arXiv:2402.17764) trains with three levels from the start, and claims to lose nothing
from 3 billion weights on, which is beyond what can be trained here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lplab.checks import check_int
from lplab.quantizers import array_inputs
from lplab.quantizers.hadamard import Hadamard


def random_rotation(size: int, seed: int = 0) -> np.ndarray:
    """An orthogonal matrix that spreads each channel over all: float64 [size, size].

    A Hadamard matrix with random signs where ``size`` is a power of two. For another size, as 576 = 9 · 64, our choice
    is the Kronecker product of a random orthogonal matrix of the odd factor with that Hadamard matrix; QuaRot's code
    has tables of Hadamard matrices for some sizes.

    >>> q = random_rotation(12, seed=1)
    >>> bool(np.allclose(q @ q.T, np.eye(12)))
    True
    """
    check_int("size", size, 1, 2**15)
    rng = np.random.default_rng(check_int("seed", seed, 0, 2**63 - 1))
    even = min(size & -size, 1024)  # the largest power of two in it, up to the largest transform
    odd = np.linalg.qr(rng.standard_normal((size // even, size // even)))[0] if even < size else np.ones((1, 1))
    spread = Hadamard(even).matrix() if even > 1 else np.ones((1, 1))
    return rng.choice([-1.0, 1.0], size)[:, None] * np.kron(odd, spread)


def rotate_reader(w: Any, q: np.ndarray) -> Any:
    """The weights [outputs, stream] of a layer that reads x Q instead of x: W Q, computed in float64.

    An embedding [vocabulary, stream], whose rows are written to the stream, is rotated in the same way.

    >>> rotate_reader(np.array([[1.0, 2.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[2., 1.]])
    """
    return _product(w, lambda wide: wide @ q)


def rotate_writer(w: Any, q: np.ndarray) -> Any:
    """The weights [stream, inputs] of a layer that writes y Q instead of y: Qᵀ W, computed in float64.

    >>> rotate_writer(np.array([[1.0], [2.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[2.],
           [1.]])
    """
    return _product(w, lambda wide: q.T @ wide)


def without_mean(w: Any) -> Any:
    """The weights [stream, inputs] of a layer whose output has its mean over the stream subtracted.

    For an embedding [vocabulary, stream] pass its transpose; for a bias pass it as [stream, 1].

    >>> without_mean(np.array([[1.0], [3.0]]))
    array([[-1.],
           [ 1.]])
    """
    return _product(w, lambda wide: wide - wide.mean(0, keepdims=True))


def _product(w: Any, change: Any) -> Any:
    """A change of a matrix in float64 by numpy, in the kind, dtype and device of the matrix."""
    _, array, close = array_inputs.to_working_array(w)
    result = change(array_inputs.to_numpy(array).astype(np.float64))
    return close(result.astype(array.dtype) if isinstance(array, np.ndarray) else array.new_tensor(result))
