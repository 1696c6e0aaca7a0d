"""Tiles, scales in float32 and the nearest power of two: by definition, tile by tile and block by block."""

import itertools

import numpy as np
import pytest
import torch

from lplab import formats as F
from lplab.formats import reference, tiles
from lplab.formats.exchange import to_torchao
from lplab.formats.paths import block_rounding, kernel_selection
from lplab.formats.rounding import Rounding

pytestmark = pytest.mark.filterwarnings("error")
E2M1, E4M3, FP32 = F.get("e2m1"), F.get("e4m3fn"), F.get("fp32")
NVFP4_TILES = F.BlockFormat(E2M1, scale=E4M3, block_size=(16, 16), tensor_scale=True)
SHAPES = [(32, 48), (33, 50), (5, 7), (1, 200), (200, 1), (2, 3, 40, 20)]


def wild(shape, seed=0):
    """Numbers over forty octaves, tile by tile, with zeros among them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 2.0 ** np.round(20 * np.sin(np.arange(np.prod(shape)) / 37.0)).reshape(shape)
    return np.where(rng.random(shape) < 0.05, 0, x).astype(np.float32)


def tile_by_tile(x, fmt):
    """MX tiles by definition: each tile has the scale of its largest magnitude."""
    (high, wide), out = fmt.tile, np.empty_like(x)
    for where in np.ndindex(x.shape[:-2]):
        for i, j in itertools.product(range(0, x.shape[-2], high), range(0, x.shape[-1], wide)):
            at = (*where, slice(i, i + high), slice(j, j + wide))
            amax = float(np.abs(x[at]).max())
            scale = 2.0 ** (np.frexp(amax)[1] - 1 - (np.frexp(fmt.element.max)[1] - 1)) if amax else 1.0
            out[at] = fmt.element.quantize(x[at].astype(np.float64) / scale) * scale
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tile", [(16, 16), (2, 5), (128, 128), (4, 32)])
def test_tiles_by_definition(shape, tile):
    fmt, x = F.BlockFormat(E2M1, block_size=tile), wild(shape)
    np.testing.assert_array_equal(fmt.quantize(x), tile_by_tile(x, fmt))
    np.testing.assert_array_equal(fmt.quantize(torch.tensor(x)).numpy(), tile_by_tile(x, fmt))
    np.testing.assert_array_equal(tiles.from_tiles(tiles.in_tiles(np, x, tile), x.shape, tile), x)


def test_columns_lie_along_the_axis():
    fmt, x = F.BlockFormat(E2M1, block_size=(4, 32)), wild((70, 90))
    np.testing.assert_array_equal(fmt.quantize(x, axis=0), tile_by_tile(x.T, fmt).T)
    np.testing.assert_array_equal(fmt.quantize(torch.tensor(x), axis=0).numpy(), tile_by_tile(x.T, fmt).T)
    both_passes = [NVFP4_TILES.quantize(x, axis=axis) for axis in (0, 1)]  # a square tile gives them one weight
    np.testing.assert_array_equal(*both_passes)


def test_one_row_is_a_block_and_costs_as_much():
    assert F.BlockFormat(E2M1, block_size=(1, 32)) == F.BlockFormat(E2M1, block_size=32)
    assert F.BlockFormat(E4M3, scale=FP32, block_size=128).bits == 8.25
    assert F.BlockFormat(E4M3, scale=FP32, block_size=(128, 128)).bits == 8 + 32 / 2**14
    assert NVFP4_TILES.bits == 4 + 8 / 256


@pytest.mark.parametrize("rounding", ["nearest_even", "stochastic", "toward_zero"])
def test_tiles_are_blocks_in_another_order(rounding):
    """NVFP4 tiles: the same loops, the same scale of the tensor and the same random bits as blocks of 256 in a row."""
    x = wild((64, 64))
    row = F.BlockFormat(E2M1, scale=E4M3, block_size=256, tensor_scale=True)
    blocks = row.quantize(tiles.in_tiles(np, x, (16, 16)), rounding, seed=3)
    found = NVFP4_TILES.quantize(x, rounding, seed=3)
    np.testing.assert_array_equal(found, tiles.from_tiles(blocks, x.shape, (16, 16)))
    assert not np.array_equal(found, x)


@pytest.mark.parametrize("fmt", [F.BlockFormat(E2M1, block_size=(4, 32)), NVFP4_TILES], ids=repr)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_codes_of_tiles_have_their_values(fmt, axis):
    x = wild((3, 40, 50))
    codes, of_tensor = (fmt.encode(array, "stochastic", 5, axis=axis) for array in (x, torch.tensor(x)))
    np.testing.assert_array_equal(fmt.decode(codes, axis=axis), fmt.quantize(x, "stochastic", 5, axis=axis))
    shape = np.moveaxis(np.empty(codes.scales.shape), axis, -1).shape
    moved = np.moveaxis(x, axis, -1).shape
    assert shape == (*moved[:-2], -(-moved[-2] // fmt.tile[0]), -(-moved[-1] // fmt.tile[1]))
    for of_array, other in zip(codes, of_tensor, strict=True):
        np.testing.assert_array_equal(of_array, np.asarray(other))
    np.testing.assert_array_equal(fmt.decode(of_tensor, axis=axis).numpy(), fmt.decode(codes, axis=axis))


def test_out_lists_half_precision_and_gradients():
    fmt, x = F.BlockFormat(E2M1, block_size=(16, 16)), wild((20, 20))
    want, out = fmt.quantize(x), np.empty_like(x)
    assert fmt.quantize(x, out=out) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(fmt.quantize([[7.9, 0.4], [-1.2, 0.0]]), [[6, 0.5], [-1, 0]])
    half = torch.randn(20, 20).half()
    assert fmt.quantize(half).dtype == torch.half
    with_gradient = torch.tensor(x, requires_grad=True)
    fmt.quantize(with_gradient).sum().backward()
    assert torch.equal(with_gradient.grad, torch.ones(20, 20))
    assert fmt.quantize(np.empty((0, 4), np.float32)).shape == (0, 4)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: F.BlockFormat(E2M1, block_size=(16, 16, 16)), r"block_size must be an integer or \(rows, columns\)"),
    (lambda: F.BlockFormat(E2M1, block_size=(0, 16)), "block_size.0. must be an integer from 1"),
    (lambda: NVFP4_TILES.quantize(np.ones(4)), "tiles of 16 × 16 need at least two axes, got 1"),
    (lambda: NVFP4_TILES.quantize(np.ones((4, 4)), axis=2), "axis must be from -2 to 1"),
    (lambda: NVFP4_TILES.encode(np.ones(4)), "tiles of 16 × 16 need at least two axes, got 1"),
    (lambda: NVFP4_TILES.quantize(np.ones((4, 4)), out=np.ones((4, 5))), "out must be like x"),
    (lambda: F.BlockFormat(F.get("int8"), scale=FP32), "blocks of integers need a power of two"),
])  # fmt: skip
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- scales in float32 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loops", [True, False])
def test_scales_in_float32_make_the_largest_number_the_largest_element(loops, monkeypatch):
    monkeypatch.setattr(kernel_selection, "MIN_COMPILED_SIZE", 0 if loops else 2**40)
    monkeypatch.setattr(kernel_selection, "MIN_ELEMENTS_BEFORE_LOADING", 0 if loops else 2**40)
    fmt, x = F.BlockFormat(E4M3, scale=FP32, block_size=128), wild((6, 300))
    found = fmt.quantize(x)
    for row, got in zip(x, found, strict=True):
        for first in range(0, 300, 128):
            block = row[first : first + 128].astype(np.float64)
            scale = np.abs(block).max() / 448
            want = reference.quantize(block / scale, E4M3.rounding_spec, Rounding()) * scale
            np.testing.assert_allclose(got[first : first + 128], want, rtol=3e-7)
    np.testing.assert_array_equal(found, block_rounding.quantize(np, x, fmt.rounding_spec, Rounding()))
    np.testing.assert_array_equal(fmt.quantize(torch.tensor(x)).numpy(), found)


def test_scales_in_float32_keep_specials_in_their_block():
    fmt = F.BlockFormat(E4M3, scale=FP32, block_size=4)
    x = np.float32([np.nan, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 448, np.inf, 0, 1, 1])
    np.testing.assert_array_equal(fmt.quantize(x), [*[np.nan] * 4, 0, 0, 0, 0, 1, 2, 3, 448, *[np.nan] * 4])


def test_scales_in_float32_have_codes_and_are_no_format_of_torchao():
    fmt, x = F.BlockFormat(E4M3, scale=FP32, block_size=32), wild((6, 70))
    np.testing.assert_array_equal(fmt.decode(fmt.encode(x)), fmt.quantize(x))
    for other in (fmt, NVFP4_TILES):
        with pytest.raises(ValueError, match="torchao has no block format like"):
            to_torchao(np.ones((32, 32), np.float32), other)


# ---- the nearest power of two ------------------------------------------------------------------------------------


@pytest.mark.parametrize("element", ["e2m1", "e4m3fn", "e3m2", "e2m3", "int8"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nearest_takes_the_power_of_two_next_to_the_quotient(element, dtype):
    grid = F.get(element)
    fmt = F.BlockFormat(grid, block_size=32, scale_rule="nearest")
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2**12, 32)).astype(dtype)
    edges = np.array([1, 1.5, 1.25, 1.75]) * grid.max  # the middle between two powers, and both sides of it
    edges = np.concatenate([edges, np.nextafter(edges.astype(dtype), 0), np.nextafter(edges.astype(dtype), 1e9)])
    x[:, 7] = np.resize(edges, 2**12) * 2.0 ** rng.integers(-20, 20, 2**12)
    candidates = 2.0 ** np.arange(-40, 60)
    quotients = np.abs(x).max(1).astype(np.float64) / grid.max
    distances = np.abs(candidates - quotients[:, None])
    scales = candidates[distances.shape[1] - 1 - np.argmin(distances[:, ::-1], 1)]  # of two, the larger one
    want = grid.quantize(x.astype(np.float64) / scales[:, None]) * scales[:, None]
    np.testing.assert_array_equal(fmt.quantize(x), want.astype(dtype))
    np.testing.assert_array_equal(fmt.quantize(torch.tensor(x)).numpy(), want.astype(dtype))
