"""The three products of a linear layer under the recipes of 2024 and 2025, written from the papers' text alone.

Plain numpy in float64, number by number and block by block; nothing of lplab is used. Rounding is to nearest, with the
codes of E2M1 from the thresholds that NVIDIA prints, and those of E4M3 from a list of all its values. Each function
takes x [tokens, in], w [out, in] and dy [tokens, out] and returns (y, dx, dw).
"""

import numpy as np

THRESHOLDS = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
_E4M3 = sorted({m * 2.0**-9 for m in range(8)} | {(1 + m / 8) * 2.0**e for e in range(-6, 9) for m in range(8)})
E4M3 = np.array([v for v in _E4M3 if v <= 448])
SIGNS = np.array([1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1])


def to_e2m1(v):
    """|v| ≤ .25 → 0; (.25, .75) → .5; [.75, 1.25] → 1; (1.25, 1.75) → 1.5; [1.75, 2.5] → 2; ...; > 5 → 6."""
    magnitude = np.abs(v)
    index = sum(
        (magnitude > t) if i % 2 == 0 else (magnitude >= t) for i, t in enumerate(THRESHOLDS)
    )  # ties go to the even code
    return np.sign(v) * E2M1[index]


def to_e4m3(v):
    """The nearest of all values; none of the numbers of a test lies in the middle."""
    magnitude = np.minimum(np.abs(v), 448)
    upper = np.clip(np.searchsorted(E4M3, magnitude), 1, len(E4M3) - 1)
    low, high = E4M3[upper - 1], E4M3[upper]
    return np.sign(v) * np.where(magnitude - low < high - magnitude, low, high)


def hadamard(size):
    h = np.ones((1, 1))
    while len(h) < size:
        h = np.block([[h, h], [h, -h]])
    return h / np.sqrt(size)


def transformed(x, size, signs):
    """Along the rows, ``size`` at a time; the last ones are filled with zeros."""
    x = np.pad(x, [(0, 0), (0, -x.shape[1] % size)])
    return np.concatenate([(x[:, i : i + size] * signs) @ hadamard(size) for i in range(0, x.shape[1], size)], 1)


def along_rows(x, size, rounded):
    """Each ``size`` neighbours of each row rounded together."""
    out = np.empty(x.shape)
    for i in range(x.shape[0]):
        for j in range(0, x.shape[1], size):
            out[i, j : j + size] = rounded(x[i, j : j + size])
    return out


def in_tiles(x, size, rounded):
    out = np.empty(x.shape)
    for i in range(0, x.shape[0], size):
        for j in range(0, x.shape[1], size):
            out[i : i + size, j : j + size] = rounded(x[i : i + size, j : j + size])
    return out


# ---- DeepSeek-V3: the largest magnitude of a tile becomes 448 ------------------------------------------------------


def _scaled_to_448(block):
    amax = np.abs(block).max()
    return to_e4m3(block * 448 / amax) * amax / 448 if amax else block


def deepseek(x, w, dy):
    """1 × 128 along each product's sum; weights in 128 × 128, the same for y and dx."""
    rows = lambda t: along_rows(t, 128, _scaled_to_448)  # noqa: E731
    weight = in_tiles(w, 128, _scaled_to_448)
    return rows(x) @ weight.T, rows(dy) @ weight, rows(dy.T) @ rows(x.T).T


# ---- MXFP8: blocks of 32, the scale rounded up ---------------------------------------------------------------------


def _mxfp8(block):
    amax = np.abs(block).max()
    scale = 2.0 ** np.ceil(np.log2(amax / 448)) if amax else 1.0
    return to_e4m3(block / scale) * scale


def mxfp8(x, w, dy):
    q = lambda t: along_rows(t, 32, _mxfp8)  # noqa: E731
    return q(x) @ q(w).T, q(dy) @ q(w.T).T, q(dy.T) @ q(x.T).T


# ---- MXFP4 in the backward pass ------------------------------------------------------------------------------------


def _mxfp4_of_three_quarters(block):
    """The shared exponent of the block as it is; then 3/4 of the block is rounded."""
    amax = np.abs(block).max()
    scale = 2.0 ** (np.floor(np.log2(amax)) - 2) if amax else 1.0
    return to_e2m1(0.75 * block / scale) * scale


def to_bf16(x):
    bits = np.float32(x).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def mxfp4_backward(x, w, dy, signs, size=64):
    """The forward pass in BF16; both operands of dx and dW transformed, rounded to MXFP4; products times 16/9."""
    q = lambda t: along_rows(transformed(t, size, signs), 32, _mxfp4_of_three_quarters)  # noqa: E731
    return to_bf16(x) @ to_bf16(w).T, q(dy) @ q(w.T).T * 16 / 9, q(dy.T) @ q(x.T).T * 16 / 9


# ---- Quartet: MXFP4 everywhere, a fixed transform forward, a random one backward -----------------------------------


def _mxfp4_nearest_scale(block):
    amax = np.abs(block).max()
    if not amax:
        return block
    powers = 2.0 ** np.arange(-60, 60)
    scale = powers[np.argmin(np.abs(powers - amax / 6))]
    return to_e2m1(block / scale) * scale


def quartet(x, w, dy, signs, size=32):
    forward = lambda t: along_rows(transformed(t, size, np.ones(size)), 32, _mxfp4_nearest_scale)  # noqa: E731
    _, dx, dw = mxfp4_backward(x, w, dy, signs, size)
    return forward(x) @ forward(w).T, dx, dw


# ---- NVFP4 ---------------------------------------------------------------------------------------------------------


def _nvfp4(t):
    """The function that rounds a block of the tensor t: a float32 scale of the tensor, an E4M3 scale of the block."""
    encode = 6 * 448 / np.abs(t).max()

    def rounded(block):
        scale = to_e4m3(np.array([np.abs(block).max() / 6 * encode]))[0]
        return to_e2m1(block * encode / scale) * scale / encode if scale else np.zeros(block.shape)

    return rounded


def nvfp4(x, w, dy):
    """1 × 16 blocks, weights in 16 × 16; for dW both operands transformed along the tokens."""
    rows = lambda t: along_rows(t, 16, _nvfp4(t))  # noqa: E731
    weight = in_tiles(w, 16, _nvfp4(w))
    dy_t, x_t = transformed(dy.T, 16, SIGNS), transformed(x.T, 16, SIGNS)
    return rows(x) @ weight.T, rows(dy) @ weight, rows(dy_t) @ rows(x_t).T
