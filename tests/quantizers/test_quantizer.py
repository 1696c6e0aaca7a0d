"""A format, a rule, a rounding and an axis joined: against torch's fake quantization, across kinds, with gradients."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from lplab import formats as F
from lplab.quantizers import Amax, MinMSE, Percentile, Quantizer

torch = pytest.importorskip("torch")

RULES = [Amax(), Percentile(95), MinMSE(10), Amax(True)]
NAMES = ["int4", "int8", "e4m3fn", "radix4_fp4_even", "lns8"]


def sample(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_t(3, shape).astype(dtype)


# ---- oracles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_fake_quantize_per_tensor(bits):
    """torch multiplies by the reciprocal of the scale: with a power of two that is the same."""
    x, half = sample(1000), 2 ** (bits - 1)
    quantizer = Quantizer(F.IntFormat(bits), Percentile(90, power_of_two=True))
    want = torch.fake_quantize_per_tensor_affine(torch.from_numpy(x), quantizer.scale(x), 0, -half, half - 1)
    np.testing.assert_array_equal(quantizer.quantize(x), want.numpy())


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_fake_quantize_per_channel(axis):
    x = sample(5, 7, 11)
    quantizer = Quantizer("int4", Amax(power_of_two=True), axis=axis)
    scale = torch.from_numpy(quantizer.scale(x))
    zeros = torch.zeros(len(scale), dtype=torch.int32)
    want = torch.fake_quantize_per_channel_affine(torch.from_numpy(x), scale, zeros, axis % 3, -8, 7)
    np.testing.assert_array_equal(quantizer.quantize(x), want.numpy())


def test_float8_of_torch_under_a_power_of_two():
    x = sample(1000)
    quantizer = Quantizer("e4m3fn", Amax(power_of_two=True))
    scale = quantizer.scale(x)
    want = (torch.from_numpy(x) / scale).to(torch.float8_e4m3fn).float() * scale
    np.testing.assert_array_equal(quantizer.quantize(x), want.numpy())


# ---- what it does ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_channel_is_quantized_as_if_alone(rule, name):
    x = sample(4, 6, 5) * np.float32([1, 10, 0.01, 1e5])[:, None, None]
    whole = Quantizer(name, rule, axis=1)
    alone = Quantizer(name, rule)
    values, scales = whole.quantize_with_scale(x)
    for channel in range(6):
        assert scales[channel] == alone.scale(x[:, channel])
        np.testing.assert_array_equal(values[:, channel], alone.quantize(x[:, channel]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [None, 0])
def test_values_are_the_formats_values_times_the_scale(name, axis):
    x = sample(3, 50)
    values, scale = Quantizer(name, Amax(), axis=axis).quantize_with_scale(x)
    column = np.float32(scale) if axis is None else scale[:, None]
    np.testing.assert_array_equal(values, F.get(name).quantize(x / column) * column)


@pytest.mark.parametrize("name", [*NAMES, "mxfp4", "nvfp4"])
@pytest.mark.parametrize("rounding", ["nearest_even", "toward_zero", "stochastic"])
def test_without_a_rule_it_is_the_format_itself(name, rounding):
    x = sample(4, 40)
    np.testing.assert_array_equal(
        Quantizer(name, rounding=rounding).quantize(x, seed=3), F.get(name).quantize(x, rounding, 3)
    )


def test_the_axis_of_a_block_format_is_that_of_its_blocks():
    x = sample(64, 6)
    np.testing.assert_array_equal(Quantizer("mxfp8_e4m3", axis=0).quantize(x), F.get("mxfp8_e4m3").quantize(x, axis=0))
    assert Quantizer("nvfp4").quantize_with_scale(x)[1] == 1.0


def test_a_scale_of_ones_own():
    quantizer = Quantizer("int4", Amax())
    np.testing.assert_array_equal(quantizer.quantize([0.4, 0.6, 100.0], scale=0.5), [0.5, 0.5, 3.5])
    per_channel = Quantizer("int4", Amax(), axis=0)
    got = per_channel.quantize(np.array([[1.2], [1.2]]), scale=[1.0, 0.5])
    np.testing.assert_array_equal(got, [[1.0], [1.0]])
    assert Quantizer("e4m3fn").quantize(3.3, scale=2.0) == 2 * F.get("e4m3fn").quantize(1.65)


def test_with_a_scale_the_format_saturates():
    """amax / scale may come out just above 57344: rounded up it must not become infinity."""
    x = np.float32([1.0, np.inf]) * np.float32(1.0 + np.arange(100) / 100)[:, None]
    for rounding in ("nearest_even", "up", "stochastic"):
        values, scale = Quantizer("e5m2", Amax(), rounding, axis=0).quantize_with_scale(x, seed=1)
        np.testing.assert_array_equal(values[:, 1], np.float32(57344) * scale)
        assert (values[:, 0] <= values[:, 1]).all()
    over = x[:, 0] / scale > 57344
    assert over.any() and (values[over, 0] == values[over, 1]).all()


ODD_FORMATS = {
    "e5m2 that keeps infinity": dataclasses.replace(F.get("e5m2"), saturating="propagate"),
    "e4m3fn that overflows to NaN": dataclasses.replace(F.get("e4m3fn"), saturating=False),
    "e8m0 with NaN beyond its range": dataclasses.replace(F.get("e8m0"), beyond=2.0**128),
    "binary8p4ue": F.get("binary8p4ue"),
    "uint8": F.IntFormat(8, signed=False),
    "codebook": F.CodebookFormat((-1.0, 0.0, 1.0, 4.0)),
}
ELEMENTWISE = {name: F.get(name) for name in F.names() if isinstance(F.get(name), F.Format)} | ODD_FORMATS


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_infinity_saturates_under_every_scale(name):
    """Posits and formats that overflow to NaN or infinity too; NaN stays NaN."""
    fmt, x = ELEMENTWISE[name], np.float32([1.0, 0.5, np.inf, -np.inf, np.nan])
    for rule in (*RULES, None):
        for values in (x, torch.from_numpy(x), x.astype(np.float64), x.tolist()):
            quantizer = Quantizer(fmt, rule)
            scale = 0.25 if rule is None else quantizer.scale(values)
            got = np.asarray(quantizer.quantize(values, scale=scale), np.float64)
            lowest = np.nan if fmt.min > 0 else fmt.min * scale
            np.testing.assert_allclose(got[2:], np.array([fmt.max * scale, lowest, np.nan]).astype(x.dtype), rtol=1e-6)


def test_stochastic_rounding_of_a_scaled_tensor_is_unbiased():
    """10,000 copies of x = 0.3 on the grid of step 1: the mean is within 4 standard errors."""
    x = np.full(10_000, 0.3, np.float32)
    mean = Quantizer("int4", Amax(), "stochastic").quantize(x, seed=9, scale=1.0).mean(dtype=np.float64)
    assert abs(mean - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 10_000) + 2.0**-17
    per_channel = Quantizer("int4", Amax(), "stochastic", axis=0)
    mean = per_channel.quantize(x.reshape(2, -1), seed=9, scale=[1.0, 1.0]).mean(dtype=np.float64)
    assert abs(mean - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 10_000) + 2.0**-17


# ---- kinds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("rounding", ["nearest_even", "stochastic"])
def test_numpy_and_torch_agree_bit_for_bit(rule, name, axis, rounding):
    x = sample(6, 31)
    quantizer = Quantizer(name, rule, rounding, axis)
    values, scale = quantizer.quantize_with_scale(x, seed=5)
    tensor, tensor_scale = quantizer.quantize_with_scale(torch.from_numpy(x), seed=5)
    assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32
    np.testing.assert_array_equal(values, tensor.numpy())
    np.testing.assert_array_equal(scale, tensor_scale)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4"])
def test_dtype_and_layout_of_numpy(dtype):
    x = sample(8, 6).astype(dtype)
    quantizer = Quantizer("int4", Amax(), axis=0)
    got = quantizer.quantize(x[::2, ::-1])
    assert got.dtype == np.dtype(dtype).newbyteorder("=") and got.shape == (4, 6)
    want = quantizer.quantize(np.ascontiguousarray(x[::2, ::-1]).astype(got.dtype))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtype_and_layout_of_torch(dtype):
    x = torch.from_numpy(sample(8, 6)).to(getattr(torch, dtype))
    quantizer = Quantizer("int4", Amax(), axis=1)
    got = quantizer.quantize(x.T[::2])
    assert got.dtype == x.dtype
    assert torch.equal(got, quantizer.quantize(x.T[::2].contiguous()))


def test_numbers_lists_and_scalars():
    quantizer = Quantizer("int4", Amax())
    assert quantizer.quantize(3.0) == 3.0 and isinstance(quantizer.quantize(3.0), float)
    assert quantizer.quantize([[1.0, 7.0]]).tolist() == [[1.0, 7.0]]
    assert isinstance(quantizer.quantize(np.float32(2)), np.float32)
    assert quantizer.quantize(np.array(2.0)).shape == () and quantizer.quantize(torch.tensor(2.0)).shape == ()
    assert quantizer.quantize([]).shape == (0,)


def test_the_input_is_left_alone():
    x = sample(40)
    kept, tensor = x.copy(), torch.from_numpy(sample(40))
    Quantizer("int8", Amax()).quantize(x), Quantizer("e4m3fn", Amax()).quantize(x)
    Quantizer("e4m3fn", Amax()).quantize(tensor)
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(tensor.numpy(), kept)


# ---- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantizer", [Quantizer("int4", Amax()), Quantizer("e4m3fn"), Quantizer("mxfp4"),
                                       Quantizer("e2m1", Percentile(50), axis=0)], ids=repr)  # fmt: skip
def test_gradients_pass_straight_through(quantizer):
    x = torch.from_numpy(sample(4, 8)).requires_grad_()
    values = quantizer.quantize(x)
    values.backward(torch.arange(32.0).reshape(4, 8))
    assert torch.equal(x.grad, torch.arange(32.0).reshape(4, 8))
    assert torch.equal(values.detach(), quantizer.quantize(x.detach()))


def test_clipped_values_can_block_the_gradient():
    x = torch.tensor([[0.5, -3.0, 4.0], [70.0, -3.0, 4.0]], requires_grad=True)
    quantizer = Quantizer("int4", Percentile(60), axis=0, clip_gradient=True)
    quantizer.quantize(x).sum().backward()
    assert x.grad.tolist() == [[1, 1, 0], [0, 1, 1]]
    x.grad = None
    Quantizer("e2m1", clip_gradient=True).quantize(x).sum().backward()
    assert x.grad.tolist() == [[1, 1, 1], [0, 1, 1]]


def test_without_gradients_nothing_is_recorded():
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not Quantizer("int4", Amax()).quantize(x).requires_grad


# ---- errors and imports ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: Quantizer("int5"), ValueError, "unknown format 'int5'"),
    (lambda: Quantizer(4), TypeError, "format must be a format of lplab.formats or its name, got int"),
    (lambda: Quantizer("int4", "amax"), TypeError, "scaling must be a rule such as Amax"),
    (lambda: Quantizer("mxfp4", Amax()), ValueError, "mxfp4 brings scales of its own; scaling must be None"),
    (lambda: Quantizer("int4", axis=0), ValueError, "axis needs a scaling rule"),
    (lambda: Quantizer("int4", Amax(), "neerest"), ValueError, "unknown rounding 'neerest'"),
    (lambda: Quantizer("int4").scale([1.0]), ValueError, "no scaling rule: int4 is taken as it is"),
    (lambda: Quantizer("mxfp4").quantize([1.0], scale=2.0), ValueError, "scale must be None"),
    (lambda: Quantizer("int4", Amax(), axis=2).quantize([1.0]), ValueError, "axis must be from -1 to 0"),
    (lambda: Quantizer("int4", Amax(), axis=0).quantize(1.0), ValueError, "axis must be None for a tensor of 0"),
    (lambda: Quantizer("int4", Amax()).quantize(np.arange(3)), TypeError, "convert integers with"),
    (lambda: Quantizer("int4", Amax()).quantize("1"), TypeError, "cannot quantize str"),
    (lambda: Quantizer("int4", Amax()).quantize([1.0], scale=0), ValueError, "a scale must be positive and finite"),
    (lambda: Quantizer("int4", Amax()).quantize([1.0], scale=[1, 2]), ValueError, "scale must be one number"),
    (lambda: Quantizer("int4", Amax(), axis=0).quantize([1.0], scale=[1, 2]), ValueError, "1 numbers, one for each"),
])  # fmt: skip
def test_errors_say_what_is_allowed(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_numpy_alone_is_enough():
    absent = "".join(f"sys.modules[{name!r}] = None\n" for name in ("torch", "numba", "scipy", "pandas", "plotly"))
    script = (
        f"import sys\n{absent}from lplab import quantizers as Q\nprint(Q.Quantizer('int8', Q.Amax()).quantize(2.0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "2.0\n"


def test_importing_loads_nothing_heavy():
    script = "import sys, lplab.quantizers; print([m for m in ('torch', 'numba', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
