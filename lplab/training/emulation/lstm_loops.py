"""The backward pass of an LSTM's gates in one call, compiled by numba; PyTorch needs nine for it.

The operations and their order are those of PyTorch's ``mul``, ``add`` and ``sigmoid_backward``, so that the bits are
the same. ``tanh_backward`` stays with PyTorch: it rounds 1 − y² once on some processors and twice on others.
"""

# mypy: ignore-errors
# (numba gives the types in these loops a stricter meaning than Python's)

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import carray, njit

from lplab.formats.paths.numba_compile import compile_loop, pointer, use_wide_vectors

F = np.float32
ONE = F(1)


@njit(nogil=True, inline="always")
def _sigmoid_backward(gradient, y):
    return F(F(gradient * F(ONE - y)) * y)


@cache
def gates_backward_loop() -> Callable:
    """The loop from the gradients of one step's h and c to those of its gates and of the c before.

    It takes the addresses of contiguous float32: dh [batch, size]; dc [batch, size], or 0 for none; the gates
    [batch, 4 · size] in PyTorch's order; tanh(c); the c before; the gradients of the gates; and what h adds to dc,
    where the gradient of the c before is written; then batch and size. The gradient of the cell gate lacks the last
    factor, that of tanh. Only dc and the last address may be the same memory.
    """

    def loop(dh_at, dc_at, gates_at, tanh_at, c_at, d_gates_at, new_dc_at, batch, size):
        use_wide_vectors()
        count = batch * size
        all_dh, all_tanh = carray(pointer(dh_at), count, F), carray(pointer(tanh_at), count, F)
        all_c, all_new = carray(pointer(c_at), count, F), carray(pointer(new_dc_at), count, F)
        all_dc = carray(pointer(dc_at if dc_at else new_dc_at), count, F)
        gates, d_gates = carray(pointer(gates_at), 4 * count, F), carray(pointer(d_gates_at), 4 * count, F)
        for b in range(batch):
            first, gate = b * size, 4 * b * size
            dh, tanh_c = all_dh[first : first + size], all_tanh[first : first + size]
            c, dc, new = all_c[first : first + size], all_dc[first : first + size], all_new[first : first + size]
            i, d_i = gates[gate : gate + size], d_gates[gate : gate + size]
            f, d_f = gates[gate + size : gate + 2 * size], d_gates[gate + size : gate + 2 * size]
            g, d_g = gates[gate + 2 * size : gate + 3 * size], d_gates[gate + 2 * size : gate + 3 * size]
            o, d_o = gates[gate + 3 * size : gate + 4 * size], d_gates[gate + 3 * size : gate + 4 * size]
            # loops that write one array each: so the compiler finds the vector instructions
            for j in range(size if dc_at else 0):
                new[j] = F(new[j] + dc[j])
            for j in range(size):
                d_o[j] = _sigmoid_backward(F(dh[j] * tanh_c[j]), o[j])
            for j in range(size):
                d_i[j] = _sigmoid_backward(F(new[j] * g[j]), i[j])
            for j in range(size):
                d_f[j] = _sigmoid_backward(F(new[j] * c[j]), f[j])
            for j in range(size):
                d_g[j] = F(new[j] * i[j])
            for j in range(size):
                new[j] = F(new[j] * f[j])

    return compile_loop(loop)
