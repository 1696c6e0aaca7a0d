"""FP8 training in one file: hybrid FP8 (Sun et al. 2019), emulated in plain PyTorch.

A linear layer y = x Wᵀ is trained with three matrix products. With x [batch, in], W [out, in] and the gradient of the
loss dy [batch, out] they are

    forward                      y  = x Wᵀ      sums over the inputs
    gradient of the input        dx = dy W      sums over the outputs, and goes on to the layer below
    gradient of the weight       dW = dyᵀ x     sums over the batch, and goes to the optimizer

Almost all time of a training is spent in these three, so their factors are what must get fewer bits. Hybrid FP8 gives
each factor the format that it needs:

    x and W     1-4-3: one sign bit, 4 of exponent, 3 of fraction. They spread over few powers of two.
    dy          1-5-2: gradients spread over many powers of two, so a bit goes from fraction to exponent.

Each factor is rounded once: y is computed from rounded x and W, and dx and dW use the same rounded x and W again, with
a dy that is rounded once for both. Five more things make it train:

    sums        The adder of the chip is narrow, too: 1-6-9 (16 bits, called DLFloat). A long sum in 9 bits of fraction
                stops growing, because what is added is soon smaller than half a step. So 64 products are added in one
                register, and the sums of such chunks in another one (Wang et al. 2018).
    ends        The first and the last layer have factors in 1-6-9.
    the rest    Biases are added, and the loss and the gradients of biases computed, in float32.
    update      Weights and momentum are kept in 1-6-9. An update is often smaller than half a step of the weight and
                nearest rounding would lose it each time; stochastic rounding keeps it on average.
    loss scale  The loss is multiplied by a power of two before the backward pass and the gradients are divided by it,
                so that small gradients do not become 0. The power is found by trial: halve it when a gradient is not
                finite, double it after 2000 good steps.

The formats are emulated: a tensor keeps its dtype, float32, and holds numbers that the small format has. A chip would
store the codes. The results are those of ``lplab.training`` with the recipe "hfp8_2019" and its switch
``accumulator="chunked"``, bit for bit.
"""

import torch
from torch import nn
from torch.nn import functional as F

# ---- rounding --------------------------------------------------------------------------------------------------------
# name: bits of fraction, exponent of the smallest normal number, smallest and largest magnitude, what is beyond it
FP8_143 = (3, -10, 2.0**-13, 30.0, 30.0)
FP8_152 = (2, -14, 2.0**-16, 57344.0, 57344.0)
FP16_169 = (9, -31, 2.0**-31 * (1 + 2.0**-9), 2.0**33 * (1 - 2.0**-9), float("inf"))


def round_to(x, fmt, ties="even", seed=None):
    """The nearest numbers of a format; with a seed one of the two nearest ones by chance, the closer one more often.

    A tie goes to the even neighbour (FP8) or away from 0 (1-6-9).
    """
    fraction_bits, lowest, smallest, largest, beyond = fmt
    size = x.abs().double()  # in float64 each of the following steps is exact
    exponent = torch.frexp(size).exponent.clamp(min=lowest + 1) - 1  # 2^exponent <= size < 2^(exponent + 1)
    steps = torch.ldexp(size, fraction_bits - exponent)  # how many steps of the format's grid
    if seed is not None:
        whole = steps.floor()
        steps = whole + ((steps - whole) * 2**14 >= 2**14 - random_bits(seed, x.numel()).view(x.shape))
    else:
        steps = torch.round(steps) if ties == "even" else torch.floor(steps + 0.5)
    size = torch.ldexp(steps, exponent - fraction_bits)
    size = torch.where(size > largest, beyond, torch.where(size < smallest, 0.0, size))
    size = torch.where(x.isnan(), x.double(), torch.where(x.isinf(), beyond, size))
    return (torch.copysign(size, x) + (0.0 if fmt == FP8_143 else -0.0)).float()  # its code of -0 stands for NaN


def random_bits(seed, count):
    """14 random bits for each element, a hash of seed and place: they do not depend on who computes them, and when."""

    def mix(value):  # SplitMix64
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    key = mix(mix(seed))
    h = (torch.arange(count) + key % 2**32) % 2**32
    h = (h ^ h >> 16) * 0x7FEB352D % 2**32
    h = ((h ^ h >> 15) + (key >> 32)) % 2**32 * 0x846CA68B % 2**32
    return (h ^ h >> 16) >> 18


# ---- the three products ----------------------------------------------------------------------------------------------


def matmul(a, b, chunk=64):
    """a [rows, n] times b [n, columns], with every addition rounded to 1-6-9."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], chunk):
        part = torch.zeros_like(total)
        for k in range(start, min(start + chunk, a.shape[1])):
            exact = part.double() + a[:, k, None].double() * b[k].double()  # a product of two such numbers is exact
            part = round_to(exact, FP16_169, "away")
        total = round_to(total.double() + part.double(), FP16_169, "away")
    return total


class ThreeProducts(torch.autograd.Function):
    """y = x Wᵀ + b, whose forward and backward products have rounded factors."""

    @staticmethod
    def forward(ctx, x, weight, bias, is_end):
        """The forward product; what the backward pass uses is saved in its rounded form."""
        ctx.is_end = is_end
        x, weight = (round_to(t, FP16_169, "away") if is_end else round_to(t, FP8_143) for t in (x, weight))
        ctx.save_for_backward(x, weight)
        return matmul(x, weight.t()) + bias

    @staticmethod
    def backward(ctx, dy):
        """The gradients of the input, the weight and the bias."""
        x, weight = ctx.saved_tensors
        rounded = round_to(dy, FP16_169, "away") if ctx.is_end else round_to(dy, FP8_152)
        dx = matmul(rounded, weight) if ctx.needs_input_grad[0] else None
        return dx, matmul(rounded.t(), x), dy.sum(0), None


class Linear(nn.Linear):
    """nn.Linear in hybrid FP8; the first and the last layer of a network are its ends."""

    is_end = False

    def forward(self, x):
        """[batch, in] → [batch, out]."""
        return ThreeProducts.apply(x, self.weight, self.bias, self.is_end)


def convert(model):
    """Every nn.Linear of the model becomes a Linear of this file, in place."""
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    for layer in layers:
        layer.__class__, layer.is_end = Linear, layer in (layers[0], layers[-1])
    return model


# ---- the training ----------------------------------------------------------------------------------------------------


class Training:
    """SGD with momentum and a loss scale; weights and momentum are stored in 1-6-9."""

    def __init__(self, model, lr=0.05, momentum=0.9, seed=0):
        self.model, self.lr, self.momentum, self.seed = convert(model), lr, momentum, seed
        self.count, self.loss_scale, self.good_steps, self.velocity = 0, 2.0**16, 0, {}
        with torch.no_grad():
            for index, p in enumerate(model.parameters()):
                p.copy_(round_to(p, FP16_169, seed=self.seed_of(index, 5)))

    def seed_of(self, index, number):
        """A seed of its own for each parameter, step and tensor."""
        return ((self.seed << 40 | index << 4 | number) * 0x9E3779B97F4A7C15 + self.count * 0xD1B54A32D192ED03) % 2**63

    def step(self, x, target):
        """Forward, backward and update for one batch; the loss before the update."""
        self.model.zero_grad()
        loss = F.cross_entropy(self.model(x), target)
        (loss * self.loss_scale).backward()
        gradients = [p.grad / self.loss_scale for p in self.model.parameters()]
        if not all(g.isfinite().all() for g in gradients):
            self.loss_scale, self.good_steps = self.loss_scale / 2, 0
            return loss.item()  # and the weights stay as they are
        self.good_steps += 1
        if self.good_steps == 2000:
            self.loss_scale, self.good_steps = self.loss_scale * 2, 0
        self.count += 1
        with torch.no_grad():
            for index, (p, g) in enumerate(zip(self.model.parameters(), gradients, strict=True), 1):
                v = self.velocity[p] * self.momentum + g if p in self.velocity else g
                self.velocity[p] = v = round_to(v, FP16_169, seed=self.seed_of(index, 2))
                p.copy_(round_to(p.sub(v, alpha=self.lr), FP16_169, seed=self.seed_of(index, 4)))
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(256, 20)
    target = (x[:, :10].sum(1) > x[:, 10:].sum(1)).long()
    training = Training(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)))
    for number in range(60):
        loss = training.step(x[number % 4 :: 4], target[number % 4 :: 4])
        if number % 10 == 9:
            print(f"step {number + 1}: loss {loss:.3f}")
