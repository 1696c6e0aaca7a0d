"""Compiled loops of batch norm over groups of examples: few passes over memory, and a fixed order of all sums."""

# mypy: ignore-errors
# (numba gives the types in these loops a stricter meaning than Python's)

from __future__ import annotations

import numpy as np

from lplab.formats.paths.numba_compile import compile_loop


@compile_loop
def normalize(x, weight, bias, eps, examples, y, means, variances, factors):
    """Write the normalized ``x`` to ``y``, and of each group and channel mean, variance and 1 / √(variance + ε).

    Arrays are float32: x and y [batch, channels, positions], weight and bias [channels], the others [groups, channels].
    """
    groups, channels = means.shape
    positions = x.shape[2]
    # Sums run over the examples of each position first, so that the compiler finds the vector instructions.
    sums = np.empty(positions, np.float32)
    count = np.float64(examples * positions)
    for group in range(groups):
        first = group * examples
        for channel in range(channels):
            sums[:] = np.float32(0)
            for row in range(first, first + examples):
                values = x[row, channel]
                for i in range(positions):
                    sums[i] = np.float32(sums[i] + values[i])
            total = 0.0
            for i in range(positions):
                total += np.float64(sums[i])
            mean = np.float32(total / count)
            sums[:] = np.float32(0)
            for row in range(first, first + examples):
                values = x[row, channel]
                for i in range(positions):
                    apart = np.float32(values[i] - mean)
                    sums[i] = np.float32(sums[i] + np.float32(apart * apart))
            total = 0.0
            for i in range(positions):
                total += np.float64(sums[i])
            factor = np.float32(1.0 / np.sqrt(total / count + eps))
            means[group, channel], variances[group, channel], factors[group, channel] = mean, total / count, factor
            slope = np.float32(factor * weight[channel])
            start = np.float32(bias[channel] - np.float32(mean * slope))
            for row in range(first, first + examples):
                values, out = x[row, channel], y[row, channel]
                for i in range(positions):
                    out[i] = np.float32(np.float32(values[i] * slope) + start)


@compile_loop
def gradients(gradient, x, weight, means, factors, examples, of_x, of_weight, of_bias):
    """Write the gradients of ``x``, and those of weight and bias of each group [groups, channels]; as ``normalize``."""
    groups, channels = means.shape
    positions = x.shape[2]
    plain, scaled = np.empty(positions, np.float32), np.empty(positions, np.float32)
    count = np.float64(examples * positions)
    for group in range(groups):
        first = group * examples
        for channel in range(channels):
            mean, factor = means[group, channel], factors[group, channel]
            plain[:] = np.float32(0)
            scaled[:] = np.float32(0)
            for row in range(first, first + examples):
                values, g = x[row, channel], gradient[row, channel]
                for i in range(positions):
                    plain[i] = np.float32(plain[i] + g[i])
                    scaled[i] = np.float32(scaled[i] + np.float32(g[i] * np.float32(values[i] - mean)))
            total, moment = 0.0, 0.0
            for i in range(positions):
                total += np.float64(plain[i])
                moment += np.float64(scaled[i])
            of_bias[group, channel] = total
            of_weight[group, channel] = moment * np.float64(factor)
            slope = np.float32(weight[channel] * factor)
            lift = np.float32(total / count)
            tilt = np.float32(moment * np.float64(factor) * np.float64(factor) / count)
            for row in range(first, first + examples):
                values, g, out = x[row, channel], gradient[row, channel], of_x[row, channel]
                for i in range(positions):
                    straight = np.float32(np.float32(g[i] - lift) - np.float32(np.float32(values[i] - mean) * tilt))
                    out[i] = np.float32(slope * straight)
