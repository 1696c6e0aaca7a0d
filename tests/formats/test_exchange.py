"""Tensors in other libraries' types: the bits are those of encode, the values those of quantize."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from lplab import formats as F
from lplab.formats.exchange import dtype_name

torch = pytest.importorskip("torch")

NAMES = ["bf16", "fp16", "fp32", "hfp8_forward", "hfp8_backward", "fp8_152", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz"]
NAMES += ["e4m3b11fnuz", "e4m3", "e3m4", "e3m2", "e2m3", "e2m1", "e8m0", "int2", "int4", "int8"]
TORCH = ["bf16", "fp16", "fp32", "hfp8_backward", "e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0", "int8"]
MX = ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4"]
ELEMENTS = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2, "mxfp6_e3m2": "fp6_e3m2"}
ELEMENTS |= {"mxfp6_e2m3": "fp6_e2m3", "mxfp4": torch.float4_e2m1fn_x2}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32}


def numbers(shape, seed=0):
    """Numbers over many octaves, with zeros of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape)
    x.flat[:2] = 0.0, -0.0
    return x.astype(np.float32)


def for_format(name, x):
    return np.abs(x) + np.float32(2**-20) if name == "e8m0" else x


def same_values(a, b):
    """Equal numbers with equal signs, NaN where there is NaN."""
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[b == b]), np.signbit(b[b == b]))


@pytest.mark.parametrize("name", NAMES)
def test_ml_dtypes_reads_our_codes_as_our_values(name):
    x, format = for_format(name, numbers((7, 30))), F.get(name)
    array = F.to_ml_dtypes(x, name)
    expected = getattr(ml_dtypes, dtype_name(name), None) or dtype_name(name)
    assert array.dtype == np.dtype(expected) and array.shape == x.shape
    values = format.quantize(x)
    if name.startswith("int"):
        values = values + 0.0  # an integer has one zero
    assert same_values(array.astype(np.float32), values)
    if not name.startswith("int"):
        np.testing.assert_array_equal(array.view(UNSIGNED[max(format.bits, 8)]), format.encode(x))


@pytest.mark.parametrize("name", [name for name in NAMES if F.get(name).bits <= 8 and not name.startswith("int")])
def test_every_code_of_ml_dtypes_means_what_it_means_here(name):
    format = F.get(name)
    codes = np.arange(2**format.bits, dtype=np.uint8)
    assert same_values(codes.view(getattr(ml_dtypes, dtype_name(name))).astype(np.float64), format.decode(codes))


@pytest.mark.parametrize("name", TORCH)
def test_torch_reads_our_codes_as_our_values(name):
    x, format = for_format(name, numbers((7, 30))), F.get(name)
    tensor = F.to_torch(torch.from_numpy(x), name)
    assert str(tensor.dtype) == f"torch.{dtype_name(name)}" and tensor.shape == x.shape
    values = format.quantize(x) + (0.0 if name == "int8" else -0.0)
    assert same_values(tensor.float().numpy(), values)
    assert torch.equal(F.to_torch(x, name).view(torch.uint8), tensor.view(torch.uint8))  # numpy in, the same bits


def test_four_bits_are_packed_with_the_even_index_low():
    tensor = F.to_torch(np.float32([[0.5, 1.0, -6.0, 0.0]]), "e2m1")
    assert tensor.dtype == torch.float4_e2m1fn_x2
    assert tensor.view(torch.uint8).tolist() == [[0b0010_0001, 0b0000_1111]]


def test_special_values_and_rounding_are_those_of_encode():
    x = np.float32([np.nan, np.inf, -np.inf, 500.0])
    assert F.to_torch(x, "e5m2").float().tolist()[1:] == [np.inf, -np.inf, 512.0]
    assert F.to_torch(x, "hfp8_backward").float().tolist()[1:] == [57344.0, -57344.0, 512.0]
    assert np.isnan(F.to_ml_dtypes(x, "e4m3fn").astype(np.float32)[0])
    down = F.to_ml_dtypes([1.99], "e4m3fn", "toward_zero")
    assert down.astype(float).tolist() == [1.875]
    one, two = (F.to_ml_dtypes(numbers(99), "e4m3fn", "stochastic", seed=3).tobytes() for _ in range(2))
    assert one == two


@pytest.mark.parametrize("convert", [F.to_ml_dtypes, F.to_torch])
def test_formats_without_a_type_are_refused_with_those_that_have_one(convert):
    for format in ("posit8_1", "dlfloat16", "mxfp4", F.IntFormat(8, scale=0.5), F.FloatFormat(4, 3, bias=9)):
        with pytest.raises(ValueError, match=r"has no type for .*; it has: fp32, bf16, fp16, .*e4m3fn") as error:
            convert(np.ones(4, np.float32), format)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="no code for NaN"):
        convert(np.float32([np.nan, 1.0]), "int8")
    with pytest.raises(ValueError, match="last axis must be even"):
        F.to_torch(np.ones(3, np.float32), "e2m1")


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("name", [*MX, "nvfp4"])
def test_block_formats_go_to_the_layout_of_torchao_and_back(name, swizzled):
    format = F.get(name)
    for shape in ((5, 96), (130, 288), (2, 128, 64)):
        x = numbers(shape)
        blocks = F.to_torchao(torch.from_numpy(x), name, swizzled=swizzled)
        codes = F.from_torchao(blocks, name)
        own = format.encode(x)
        np.testing.assert_array_equal(codes.elements.numpy(), own.elements)
        np.testing.assert_array_equal(codes.scales.numpy(), own.scales)
        assert codes.tensor_scale == own.tensor_scale
        assert same_values(format.decode(codes).numpy().astype(np.float32), format.quantize(x))


@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("name", [*MX, "nvfp4"])
def test_torchao_reads_the_values_that_we_round_to(name, swizzled):
    mx_tensor = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    nvfp4_tensor = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    kernel = pytest.importorskip("torchao.quantization.quantize_.common.kernel_preference").KernelPreference.EMULATED
    for shape in ((5, 96), (130, 288), (2, 128, 64)):
        x = numbers(shape)
        blocks = F.to_torchao(x, name, swizzled=swizzled)
        if name == "nvfp4":
            theirs = nvfp4_tensor.NVFP4Tensor(
                blocks.qdata, blocks.scale, 16, torch.float32, blocks.per_tensor_scale, is_swizzled_scales=swizzled
            )
        else:
            theirs = mx_tensor.MXTensor(
                blocks.qdata, blocks.scale, ELEMENTS[name], 32, torch.float32, kernel, None, swizzled
            )
            own = mx_tensor.MXTensor.to_mx(torch.from_numpy(x), ELEMENTS[name], 32, is_swizzled_scales=swizzled)
            assert torch.equal(own.qdata.view(torch.uint8), blocks.qdata.view(torch.uint8))
            assert torch.equal(own.scale.view(torch.uint8), blocks.scale.view(torch.uint8))
        values = F.get(name).quantize(x)
        if name == "nvfp4":  # torchao multiplies both scales first, we the element and its block's: one rounding apart
            np.testing.assert_allclose(theirs.dequantize().numpy(), values, rtol=2.0**-23)
        else:
            assert same_values(theirs.dequantize().numpy(), values)


def test_what_torchao_cannot_hold_is_refused():
    x = np.ones((4, 32), np.float32)
    for format in ("mxint8", "e4m3fn", F.BlockFormat(F.get("e2m1"), block_size=16)):
        with pytest.raises(ValueError, match=r"torchao has no block format like .*; it has: mxfp8_e4m3, .*nvfp4"):
            F.to_torchao(x, format)
    with pytest.raises(ValueError, match=r"a multiple of 32, got the shape \(4, 31\)"):
        F.to_torchao(x[:, :31], "mxfp4")
    with pytest.raises(ValueError, match=r"two axes or more"):
        F.to_torchao(x[0], "mxfp4", swizzled=True)
    with pytest.raises(ValueError, match="multiple of 128 rows, got 4"):
        F.to_torchao(np.ones((2, 4, 32), np.float32), "mxfp4", swizzled=True)
    blocks = F.to_torchao(x, "mxfp4")
    with pytest.raises(ValueError, match="do not belong together in mxfp4"):
        F.from_torchao(blocks._replace(scale=blocks.scale[:2]), "mxfp4")
    blocks = F.to_torchao(x, "mxfp4", swizzled=True)
    with pytest.raises(ValueError, match=r"swizzled scales of \(4, 1\) have the shape \(32, 16\)"):
        F.from_torchao(blocks._replace(scale=blocks.scale[:2]), "mxfp4")


def test_numpy_alone_is_enough_to_import_and_a_missing_library_is_one_line():
    code = """if 1:
        import sys
        sys.modules["torch"] = sys.modules["ml_dtypes"] = None
        from lplab import formats
        for convert in (formats.to_torch, formats.to_ml_dtypes, formats.to_torchao):
            try:
                convert([1.0], "e4m3fn")
            except ImportError as error:
                print(error)
    """
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "this needs torch",
        "this needs ml_dtypes",
        "this needs torch",
    ]
