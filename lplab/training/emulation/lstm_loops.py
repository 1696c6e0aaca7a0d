"""The gates of an LSTM's step, compiled by numba: PyTorch needs twelve calls for the backward pass of one step.

The operations and their order are those of PyTorch's ``mul``, ``add``, ``sigmoid_backward`` and ``tanh_backward``, so
that the bits are the same. PyTorch computes the factor 1 − y² of ``tanh_backward``, for all steps at once: it rounds
once on some processors and twice on others. The functions themselves, sigmoid and tanh, stay with PyTorch, too.
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
def add_loop() -> Callable:
    """The loop that adds two arrays of contiguous float32 [batch, 4 · size], gates in PyTorch's order, into a third.

    That is [4, batch, rows], of which [4, batch, size] is written: i, f, o, g. It takes three addresses, batch, size
    and rows.
    """

    def loop(a_at, b_at, work_at, batch, size, rows):
        use_wide_vectors()
        count = 4 * batch * size
        all_a, all_b = carray(pointer(a_at), count, F), carray(pointer(b_at), count, F)
        work = carray(pointer(work_at), 4 * batch * rows, F)
        for b in range(batch):
            for gate in range(4):
                first = (4 * b + gate) * size
                place = gate if gate < 2 else 5 - gate
                to = (place * batch + b) * rows
                x, y, total = all_a[first : first + size], all_b[first : first + size], work[to : to + size]
                for j in range(size):
                    total[j] = F(x[j] + y[j])

    return compile_loop(loop)


@cache
def cell_loop() -> Callable:
    """The loop from the gates of one step to its c, f · c + i · g.

    It takes the addresses of float32: the gates, as ``add_loop`` lays them; the c before [batch, size]; where the gates
    are copied to, in PyTorch's order [batch, 4 · size]; and two for the new c; then batch, size and rows.
    """

    def loop(work_at, c_at, copy_at, new_c_at, again_at, batch, size, rows):
        use_wide_vectors()
        count = batch * size
        work, copy = carray(pointer(work_at), 4 * batch * rows, F), carray(pointer(copy_at), 4 * count, F)
        all_c, all_new = carray(pointer(c_at), count, F), carray(pointer(new_c_at), count, F)
        again = carray(pointer(again_at), count, F)
        for b in range(batch):
            first, row, each = b * size, b * rows, batch * rows
            for gate in range(4):
                place = gate if gate < 2 else 5 - gate
                start, to = place * each + row, (4 * b + gate) * size
                source, target = work[start : start + size], copy[to : to + size]
                for j in range(size):
                    target[j] = source[j]
            i, f = work[row : row + size], work[each + row : each + row + size]
            g = work[3 * each + row : 3 * each + row + size]
            c, new = all_c[first : first + size], all_new[first : first + size]
            for j in range(size):
                new[j] = F(F(f[j] * c[j]) + F(i[j] * g[j]))
        for j in range(count):
            again[j] = all_new[j]

    return compile_loop(loop)


@cache
def output_loop() -> Callable:
    """The loop from the gates and tanh(c) of one step to its h, o · tanh(c).

    It takes the addresses of float32: the gates, as ``add_loop`` lays them; tanh(c) [batch, size]; where that is copied
    to; and h; then batch, size and rows.
    """

    def loop(work_at, tanh_at, copy_at, h_at, batch, size, rows):
        use_wide_vectors()
        count = batch * size
        work, all_tanh = carray(pointer(work_at), 4 * batch * rows, F), carray(pointer(tanh_at), count, F)
        copy, all_h = carray(pointer(copy_at), count, F), carray(pointer(h_at), count, F)
        for j in range(count):
            copy[j] = all_tanh[j]
        for b in range(batch):
            start = (2 * batch + b) * rows
            o, tanh_c = work[start : start + size], all_tanh[b * size : b * size + size]
            h = all_h[b * size : b * size + size]
            for j in range(size):
                h[j] = F(o[j] * tanh_c[j])

    return compile_loop(loop)


@cache
def gates_backward_loop() -> Callable:
    """The loop from the gradients of one step's h and c to those of its gates and of the c before.

    It takes the addresses of contiguous float32: two parts of dh [batch, size], each 0 for none, but not both; dc
    [batch, size], or 0 for none; the gates [batch, 4 · size] in PyTorch's order; tanh(c); 1 − tanh(c)²; 1 − g²; the c
    before; the gradients of the gates; and the gradient of the c before, both of which are written; then batch and
    size. What is written overlaps nothing else.
    """

    def loop(row_at, dh_at, dc_at, gates_at, tanh_at, slope_at, g_slope_at, c_at, d_gates_at, new_at, batch, size):
        use_wide_vectors()
        count = batch * size
        all_rows = carray(pointer(row_at if row_at else dh_at), count, F)
        all_dh = carray(pointer(dh_at if dh_at else row_at), count, F)
        all_tanh, all_slopes = carray(pointer(tanh_at), count, F), carray(pointer(slope_at), count, F)
        all_c, all_new = carray(pointer(c_at), count, F), carray(pointer(new_at), count, F)
        all_dc = carray(pointer(dc_at if dc_at else c_at), count, F)
        all_g_slopes = carray(pointer(g_slope_at), count, F)
        gates, d_gates = carray(pointer(gates_at), 4 * count, F), carray(pointer(d_gates_at), 4 * count, F)
        both, sum_of_row = row_at != 0 and dh_at != 0, np.empty(size, F)
        for b in range(batch):
            first, gate = b * size, 4 * b * size
            last = first + size
            row, dh = all_rows[first:last], all_dh[first:last]
            tanh_c, slope = all_tanh[first:last], all_slopes[first:last]
            c, dc, new, g_slope = all_c[first:last], all_dc[first:last], all_new[first:last], all_g_slopes[first:last]
            i, d_i = gates[gate : gate + size], d_gates[gate : gate + size]
            f, d_f = gates[gate + size : gate + 2 * size], d_gates[gate + size : gate + 2 * size]
            g, d_g = gates[gate + 2 * size : gate + 3 * size], d_gates[gate + 2 * size : gate + 3 * size]
            o, d_o = gates[gate + 3 * size : gate + 4 * size], d_gates[gate + 3 * size : gate + 4 * size]
            # loops that write one array each: so the compiler finds the vector instructions
            for j in range(size):
                sum_of_row[j] = F(dh[j] + row[j]) if both else dh[j]
            for j in range(size):
                d_o[j] = _sigmoid_backward(F(sum_of_row[j] * tanh_c[j]), o[j])
            for j in range(size):
                new[j] = F(F(sum_of_row[j] * o[j]) * slope[j])
            for j in range(size if dc_at else 0):
                new[j] = F(new[j] + dc[j])
            for j in range(size):
                d_i[j] = _sigmoid_backward(F(new[j] * g[j]), i[j])
            for j in range(size):
                d_f[j] = _sigmoid_backward(F(new[j] * c[j]), f[j])
            for j in range(size):
                d_g[j] = F(F(new[j] * i[j]) * g_slope[j])
            for j in range(size):
                new[j] = F(new[j] * f[j])

    return compile_loop(loop)
