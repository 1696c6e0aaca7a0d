"""What a forward may compute, as data: 100 and more functions and modules, and what a recipe does with their products.

Each case is (outcome, module, shapes of the inputs). A function is wrapped: its first argument is an input, the others
are parameters of the shapes that follow.
"""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

ATEN = torch.ops.aten
ROUNDED, REFUSED, LISTED, NO_PRODUCT = "rounded", "refused", "listed", "no product"


class Applied(nn.Module):
    """A function of an input and parameters."""

    def __init__(self, function, *shapes):
        super().__init__()
        self.function = function
        self.parameters_of_it = nn.ParameterList(torch.randn(shape) for shape in shapes)

    def forward(self, x):
        return self.function(x, *self.parameters_of_it)


class Wrapped(nn.Module):
    """A module that is called in another way than with one tensor."""

    def __init__(self, module, call):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, x):
        return self.call(self.module, x)


@torch.jit.script
def scripted_product(a: torch.Tensor, b: torch.Tensor):
    return torch.relu(a @ b)


@torch.jit.script
def scripted_convolution(a: torch.Tensor, b: torch.Tensor):
    return torch.conv1d(a, b)


traced_product = torch.jit.trace(lambda a, b: a @ b.t(), (torch.ones(4, 4), torch.ones(4, 4)))


class OwnLinear(torch.autograd.Function):
    """A user's linear layer with a backward pass of its own."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        return dy @ weight.t(), x.t() @ dy


class OwnConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.conv1d(x, weight)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx = torch.nn.grad.conv1d_input(x.shape, weight, dy)
        return dx, torch.nn.grad.conv1d_weight(x, weight.shape, dy)


class OwnSign(torch.autograd.Function):
    """A user's function without a product: nothing to list."""

    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, dy):
        return 2 * dy


def without_gradient(function):
    def computed(x, *others):
        with torch.no_grad():
            return function(x, *others) + 0 * others[0].sum()

    return computed


M, V, B = (4, 4), (4,), (2, 4, 4)
IMAGE, SEQUENCE, VOLUME = (2, 4, 5, 5), (2, 4, 7), (1, 2, 4, 4, 4)
IDS = torch.tensor([[0, 1, 2], [3, 3, 1]])


def aten_attention(x, w):
    return ATEN.scaled_dot_product_attention(x @ w, x, x)


FUNCTIONS = {
    "linear": (ROUNDED, F.linear, M, M),
    "linear with a bias": (ROUNDED, F.linear, B, M, V),
    "linear of a vector": (ROUNDED, F.linear, V, M),
    "x @ w": (ROUNDED, lambda x, w: x @ w, M, M),
    "w @ x": (ROUNDED, lambda x, w: w @ x, M, M),
    "x @ x.T": (ROUNDED, lambda x: x @ x.T, M),
    "rmatmul": (ROUNDED, lambda x, w: torch.Tensor.__rmatmul__(x, w), M, M),
    "matmul, broadcast": (ROUNDED, torch.matmul, (3, 1, 2, 4), B),
    "matmul, vector and matrix": (ROUNDED, torch.matmul, V, M),
    "matmul, matrix and vector": (ROUNDED, torch.matmul, M, V),
    "Tensor.matmul": (ROUNDED, lambda x, w: x.matmul(w), M, M),
    "linalg.matmul": (ROUNDED, torch.linalg.matmul, M, M),
    "mm": (ROUNDED, torch.mm, M, M),
    "Tensor.mm": (ROUNDED, lambda x, w: x.mm(w), M, M),
    "bmm": (ROUNDED, torch.bmm, B, B),
    "Tensor.bmm": (ROUNDED, lambda x, w: x.bmm(w), B, B),
    "mv": (ROUNDED, torch.mv, M, V),
    "Tensor.mv": (ROUNDED, lambda x, w: x.mv(w), M, V),
    "dot": (ROUNDED, torch.dot, V, V),
    "vdot": (ROUNDED, torch.vdot, V, V),
    "Tensor.dot": (ROUNDED, lambda x, w: x.dot(w), V, V),
    "inner": (ROUNDED, torch.inner, B, M),
    "addmm": (ROUNDED, lambda x, w, c: torch.addmm(c, x, w), M, M, V),
    "addmm with factors": (ROUNDED, lambda x, w, c: torch.addmm(c, x, w, beta=0.3, alpha=0.7), M, M, V),
    "Tensor.addmm": (ROUNDED, lambda x, w, c: c.addmm(x, w), M, M, M),
    "addmm_": (REFUSED, lambda x, w: torch.zeros(M).addmm_(x, w), M, M),
    "addmv": (ROUNDED, lambda x, w, c: torch.addmv(c, x, w), M, V, V),
    "baddbmm": (ROUNDED, lambda x, w, c: torch.baddbmm(c, x, w), B, B, B),
    "addbmm": (REFUSED, lambda x, w, c: torch.addbmm(c, x, w), B, B, M),
    "addr": (ROUNDED, lambda x, w, c: torch.addr(c, x, w), V, V, M),
    "addr with factors": (ROUNDED, lambda x, w, c: torch.addr(c, vec1=x, vec2=w, beta=0.3, alpha=0.7), V, V, M),
    "Tensor.addr": (ROUNDED, lambda x, w, c: c.addr(x, w), V, V, M),
    "addr_": (REFUSED, lambda x, w: torch.zeros(M).addr_(x, w), V, V),
    "einsum": (ROUNDED, lambda x, w: torch.einsum("ij,jk->ik", x, w), M, M),
    "einsum in lists": (ROUNDED, lambda x, w: torch.einsum(x, [0, 1], w, [1, 2]), M, M),
    "einsum of three": (REFUSED, lambda x, w, v: torch.einsum("ij,jk,k->i", x, w, v), M, M, V),
    "tensordot": (ROUNDED, torch.tensordot, M, M),
    "tensordot along axes": (ROUNDED, lambda x, w: torch.tensordot(x, w, dims=([1], [0])), B, M),
    "chain_matmul": (REFUSED, torch.chain_matmul, M, M, M),
    "multi_dot": (REFUSED, lambda x, w: torch.linalg.multi_dot([x, w, x]), M, M),
    "vecdot": (REFUSED, torch.linalg.vecdot, M, M),
    "matrix_power 2": (ROUNDED, lambda x: torch.matrix_power(x, 2), M),
    "matrix_power 3": (ROUNDED, lambda x: x.matrix_power(3), B),
    "matrix_power 13": (ROUNDED, lambda x: torch.linalg.matrix_power(x, n=13), M),
    "matrix_power -2": (LISTED, lambda x: torch.linalg.matrix_power(x, -2), M),
    "matrix_power 1": (NO_PRODUCT, lambda x: torch.linalg.matrix_power(x, 1), M),
    "matrix_exp": (LISTED, lambda x: torch.matrix_exp(x), M),
    "householder_product": (LISTED, torch.linalg.householder_product, M, V),
    "linalg.inv": (LISTED, torch.linalg.inv, M),
    "linalg.solve": (LISTED, torch.linalg.solve, M, V),
    "linalg.qr": (LISTED, lambda x: torch.linalg.qr(x)[1], M),
    "linalg.svdvals": (LISTED, torch.linalg.svdvals, M),
    "linalg.cholesky": (LISTED, lambda x: torch.linalg.cholesky(9 * torch.eye(4) + x * x.T), M),
    "linalg.det": (NO_PRODUCT, torch.linalg.det, M),
    "linalg.vector_norm": (NO_PRODUCT, torch.linalg.vector_norm, M),
    "cdist": (REFUSED, torch.cdist, M, M),
    "cdist of many rows": (REFUSED, lambda x, w: torch.cdist(x, w, 2.0), (40, 3), (30, 3)),
    "cdist, p=1": (NO_PRODUCT, lambda x, w: torch.cdist(x, w, p=1), (40, 3), (30, 3)),
    "cdist without products": (
        NO_PRODUCT,
        lambda x, w: torch.cdist(x, w, compute_mode="donot_use_mm_for_euclid_dist"),
        (40, 3),
        (30, 3),
    ),
    "cov": (REFUSED, torch.cov, M),
    "Tensor.cov": (REFUSED, lambda x: x.cov(), M),
    "corrcoef": (REFUSED, torch.corrcoef, M),
    "Tensor.corrcoef": (REFUSED, lambda x: x.corrcoef(), M),
    "functional.bilinear": (REFUSED, F.bilinear, M, M, (3, 4, 4)),
    "_trilinear": (REFUSED, lambda x, w: torch._trilinear(x, w, x, [], [], [], [0]), M, M),
    "embedding_bag": (REFUSED, lambda x, w: F.embedding_bag(IDS, w) + x, (2, 4), M),
    "linear_cross_entropy": (REFUSED, lambda x, w: F.linear_cross_entropy(x, w, torch.arange(4)), M, M),
    "sparse.mm": (REFUSED, lambda x, w: torch.sparse.mm(x.detach().to_sparse(), w), M, M),
    "sparse @": (REFUSED, lambda x, w: x.detach().to_sparse() @ w, M, M),
    "outer": (NO_PRODUCT, torch.outer, V, V),
    "kron": (NO_PRODUCT, torch.kron, M, M),
    "x * w": (NO_PRODUCT, torch.mul, M, M),
    "softmax": (NO_PRODUCT, lambda x: x.softmax(-1), M),
    "cosine_similarity": (NO_PRODUCT, F.cosine_similarity, M, M),
    "pairwise_distance": (NO_PRODUCT, F.pairwise_distance, M, M),
    "linalg.cross": (NO_PRODUCT, torch.linalg.cross, (4, 3), (4, 3)),
    "interpolate": (NO_PRODUCT, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "avg_pool2d": (NO_PRODUCT, lambda x: F.avg_pool2d(x, 2), IMAGE),
    "lp_pool2d": (NO_PRODUCT, lambda x: F.lp_pool2d(x, 2, 2), IMAGE),
    "rfft": (NO_PRODUCT, lambda x: torch.fft.rfft(x).abs(), M),
    "embedding": (NO_PRODUCT, lambda x, w: F.embedding(IDS, w) + x, (3, 4), M),
    "conv1d": (ROUNDED, F.conv1d, SEQUENCE, (3, 4, 3)),
    "conv1d without a batch": (ROUNDED, F.conv1d, (4, 7), (3, 4, 3)),
    "conv1d, padding same": (ROUNDED, lambda x, w: F.conv1d(x, w, padding="same"), SEQUENCE, (3, 4, 3)),
    "conv2d": (ROUNDED, F.conv2d, IMAGE, (3, 4, 3, 3)),
    "conv2d with a bias": (ROUNDED, lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), IMAGE, (4, 4, 3, 3), V),
    "conv2d, grouped": (ROUNDED, lambda x, w: F.conv2d(x, w, groups=2), IMAGE, (4, 2, 3, 3)),
    "conv2d, depthwise": (ROUNDED, lambda x, w: F.conv2d(x, w, groups=4), IMAGE, (4, 1, 3, 3)),
    "conv2d, dilated": (ROUNDED, lambda x, w: F.conv2d(x, w, dilation=2), IMAGE, (3, 4, 2, 2)),
    "conv3d": (ROUNDED, F.conv3d, VOLUME, (2, 2, 2, 2, 2)),
    "conv_transpose1d": (ROUNDED, F.conv_transpose1d, SEQUENCE, (4, 3, 3)),
    "conv_transpose2d": (ROUNDED, F.conv_transpose2d, IMAGE, (4, 3, 3, 3)),
    "conv_transpose3d": (ROUNDED, F.conv_transpose3d, VOLUME, (2, 2, 2, 2, 2)),
    "conv_tbc": (ROUNDED, lambda x, w, b: torch.conv_tbc(x, w, b, 1), (7, 2, 4), (3, 4, 4), V),
    "torch.convolution": (
        REFUSED,
        lambda x, w: torch.convolution(x, w, None, [1], [0], [1], False, [0], 1),
        SEQUENCE,
        (3, 4, 3),
    ),
    "attention": (ROUNDED, lambda x, w: F.scaled_dot_product_attention(x @ w, x, x), B, M),
    "causal attention": (ROUNDED, lambda x, w: F.scaled_dot_product_attention(x @ w, x, x, is_causal=True), B, M),
    "attention with a mask": (
        ROUNDED,
        lambda x, w: F.scaled_dot_product_attention(x @ w, x, x, attn_mask=torch.eye(4).bool()),
        B,
        M,
    ),
    "a native attention layer": (
        LISTED,
        without_gradient(
            lambda x, w, b, p: torch._native_multi_head_attention(x, x, x, 4, 2, w, b, p, b[:4], need_weights=False)[0]
        ),
        B,
        (12, 4),
        (12,),
        M,
    ),
    "aten.mm": (ROUNDED, lambda x, w: ATEN.mm(x, w), M, M),
    "aten.mm.default": (ROUNDED, lambda x, w: ATEN.mm.default(x, w), M, M),
    "aten.mm.out": (LISTED, without_gradient(lambda x, w: ATEN.mm.out(x, w, out=torch.empty(M))), M, M),
    "aten.bmm": (ROUNDED, lambda x, w: ATEN.bmm.default(x, w), B, B),
    "aten.matmul": (ROUNDED, lambda x, w: ATEN.matmul(x, w), B, M),
    "aten.linear": (ROUNDED, lambda x, w, b: ATEN.linear.default(x, w, b), B, M, V),
    "aten.addmm": (ROUNDED, lambda x, w, c: ATEN.addmm(c, x, w), M, M, V),
    "aten.mv": (ROUNDED, lambda x, w: ATEN.mv.default(x, w), M, V),
    "aten.dot": (ROUNDED, lambda x, w: ATEN.dot(x, w), V, V),
    "aten.einsum": (ROUNDED, lambda x, w: ATEN.einsum("ij,jk->ki", [x, w]), M, M),
    "aten.tensordot": (LISTED, lambda x, w: ATEN.tensordot(x, w, [1], [0]), M, M),
    "aten.conv2d": (ROUNDED, lambda x, w: ATEN.conv2d.default(x, w), IMAGE, (3, 4, 3, 3)),
    "aten.conv1d.padding": (ROUNDED, lambda x, w: ATEN.conv1d.padding(x, w, None, [1], "same"), SEQUENCE, (3, 4, 3)),
    "aten.conv_transpose2d": (ROUNDED, lambda x, w: ATEN.conv_transpose2d.input(x, w), IMAGE, (4, 3, 3, 3)),
    "aten.convolution": (
        REFUSED,
        lambda x, w: ATEN.convolution(x, w, None, [1], [0], [1], False, [0], 1),
        SEQUENCE,
        (3, 4, 3),
    ),
    "aten.scaled_dot_product_attention": (ROUNDED, aten_attention, B, M),
    "aten.addmm_": (REFUSED, lambda x, w: ATEN.addmm_(torch.zeros(M), x, w), M, M),
    "aten._addmm_activation": (LISTED, without_gradient(lambda x, w, b: ATEN._addmm_activation(b, x, w)), M, M, V),
    "torch.jit.script": (LISTED, lambda x, w: scripted_product(x, w), M, M),
    "torch.jit.script, convolution": (LISTED, lambda x, w: scripted_convolution(x, w), SEQUENCE, (3, 4, 3)),
    "torch.jit.trace": (LISTED, lambda x, w: traced_product(x, w), M, M),
    "a user's autograd.Function": (LISTED, OwnLinear.apply, M, M),
    "a user's autograd.Function, convolution": (LISTED, OwnConvolution.apply, SEQUENCE, (3, 4, 3)),
    "a user's autograd.Function without products": (NO_PRODUCT, lambda x: OwnSign.apply(x), M),
}


def decode(layer, x):
    return layer(x, x)


MODULES = {
    "Linear": (ROUNDED, lambda: nn.Linear(4, 3), B),
    "Bilinear": (REFUSED, lambda: nn.Bilinear(4, 4, 3), M),
    "Conv1d": (ROUNDED, lambda: nn.Conv1d(4, 3, 3), SEQUENCE),
    "Conv2d, circular": (ROUNDED, lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), IMAGE),
    "Conv3d": (ROUNDED, lambda: nn.Conv3d(2, 2, 2), VOLUME),
    "ConvTranspose2d": (ROUNDED, lambda: nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1), IMAGE),
    "Embedding and Linear": (
        ROUNDED,
        lambda: Wrapped(nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4)), lambda m, x: m(IDS) + x),
        (3, 4),
    ),
    "EmbeddingBag": (REFUSED, lambda: nn.EmbeddingBag(4, 4), M),
    "BatchNorm2d": (NO_PRODUCT, lambda: nn.BatchNorm2d(4), IMAGE),
    "LayerNorm": (NO_PRODUCT, lambda: nn.LayerNorm(4), B),
    "LSTM": (ROUNDED, lambda: nn.LSTM(4, 3), B),
    "LSTM, two layers, both ways": (ROUNDED, lambda: nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True), B),
    "LSTM with a projection": (ROUNDED, lambda: nn.LSTM(4, 5, proj_size=2), B),
    "GRU": (ROUNDED, lambda: nn.GRU(4, 3, bias=False), B),
    "LSTMCell": (ROUNDED, lambda: nn.LSTMCell(4, 3), M),
    "GRUCell": (ROUNDED, lambda: nn.GRUCell(4, 3), M),
    "RNN": (REFUSED, lambda: nn.RNN(4, 3), B),
    "RNNCell": (REFUSED, lambda: nn.RNNCell(4, 3), M),
    "MultiheadAttention": (ROUNDED, lambda: Wrapped(nn.MultiheadAttention(4, 2), lambda m, x: m(x, x, x)), B),
    "MultiheadAttention without weights": (
        ROUNDED,
        lambda: Wrapped(nn.MultiheadAttention(4, 2), lambda m, x: m(x, x, x, need_weights=False)),
        B,
    ),
    "MultiheadAttention, other keys": (
        ROUNDED,
        lambda: Wrapped(nn.MultiheadAttention(4, 2, kdim=4, vdim=4, add_bias_kv=True), lambda m, x: m(x, x + 1, x)),
        B,
    ),
    "TransformerEncoderLayer": (ROUNDED, lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), B),
    "TransformerEncoderLayer, eval": (ROUNDED, lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), B),
    "TransformerDecoderLayer": (
        ROUNDED,
        lambda: Wrapped(nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), decode),
        B,
    ),
    "AdaptiveLogSoftmaxWithLoss": (
        ROUNDED,
        lambda: Wrapped(
            nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4], div_value=2.0),
            lambda m, x: m(x, torch.tensor([0, 2, 3, 5])).loss,
        ),
        M,
    ),
    "weight_norm": (ROUNDED, lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), M),
    "spectral_norm": (ROUNDED, lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), M),
    "orthogonal": (LISTED, lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), M),
    "orthogonal, cayley": (
        LISTED,
        lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley"),
        M,
    ),
    "recomputed function": (
        ROUNDED,
        lambda: Applied(lambda x, w: checkpoint(torch.mm, x, w, use_reentrant=False), M),
        M,
    ),
    "recomputed": (
        ROUNDED,
        lambda: Wrapped(nn.Linear(4, 4), lambda m, x: checkpoint(m, x, use_reentrant=False)),
        M,
    ),
    "recomputed, reentrant": (
        ROUNDED,
        lambda: Wrapped(nn.Linear(4, 4), lambda m, x: checkpoint(m, x, use_reentrant=True)),
        M,
    ),
    "CosineSimilarity": (NO_PRODUCT, lambda: Wrapped(nn.CosineSimilarity(), lambda m, x: m(x, x.flip(0))), M),
    "Unfold": (NO_PRODUCT, lambda: nn.Unfold(2), IMAGE),
}


CASES = {
    name: (outcome, lambda function=function, others=others: Applied(function, *others), shape)
    for name, (outcome, function, shape, *others) in FUNCTIONS.items()
} | MODULES
