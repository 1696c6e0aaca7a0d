"""More networks in other people's manners: what a user may bring. Nothing here was written with lplab in mind."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class DoubleConv(nn.Sequential):
    """The block of a thousand U-Nets, in-place activations included."""

    def __init__(self, i, o):
        super().__init__(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.InstanceNorm2d(o, affine=True), nn.SiLU(inplace=True),
            nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        )  # fmt: skip


class UNet(nn.Module):
    """Segmentation: strided and transposed convolutions, skips by concatenation, one stage recomputed, raw kernels."""

    def __init__(self, width=4, classes=3):
        super().__init__()
        self.inc, self.mid, self.dec = DoubleConv(1, width), DoubleConv(width, 2 * width), DoubleConv(2 * width, width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.sharpen = nn.Parameter(torch.randn(width, 1, 3, 3) / 3)
        self.outc = nn.Conv2d(width, classes, kernel_size=1)

    def forward(self, x):
        a = self.inc(x)
        b = checkpoint(self.mid, F.max_pool2d(a, 2), use_reentrant=False)
        u = self.up(F.dropout2d(b, 0.1, self.training))
        u = F.conv2d(u, self.sharpen, padding=1, groups=u.size(1))
        return self.outc(self.dec(torch.cat([a, F.interpolate(u, size=a.shape[-2:])], dim=1)))


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def apply_rotary_emb(x: Tensor, freqs_cis: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs_cis[:, None]).flatten(3).type_as(x)


class Llama(nn.Module):
    """Decoder-only, one block: rotary embedding by complex numbers, grouped queries, SwiGLU, tied output."""

    def __init__(self, vocab=13, dim=16, n_heads=4, n_kv_heads=2, max_seq_len=16):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.hd, self.nh, self.nkv = dim // n_heads, n_heads, n_kv_heads
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wkv = nn.Linear(dim, 2 * n_kv_heads * self.hd, bias=False)
        self.ffn = nn.ModuleDict(
            {n: nn.Linear(*s, bias=False) for n, s in dict(w1=(dim, 24), w2=(24, dim), w3=(dim, 24)).items()}
        )
        self.norms = nn.ModuleList(RMSNorm(dim) for _ in range(3))
        angles = torch.outer(torch.arange(max_seq_len), 1e4 ** -(torch.arange(0, self.hd, 2) / self.hd))
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, tokens: torch.LongTensor):
        bsz, seqlen = tokens.shape
        h = self.tok_embeddings(tokens)
        x = self.norms[0](h)
        q = self.wq(x).view(bsz, seqlen, self.nh, self.hd)
        k, v = self.wkv(x).view(bsz, seqlen, 2, self.nkv, self.hd).unbind(2)
        q, k = apply_rotary_emb(q, self.freqs_cis[:seqlen]), apply_rotary_emb(k, self.freqs_cis[:seqlen])
        o = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True, enable_gqa=True)
        h = h + self.wo(o.transpose(1, 2).reshape(bsz, seqlen, -1))
        x = self.norms[1](h)
        h = h + self.ffn["w2"](F.silu(self.ffn["w1"](x)) * self.ffn["w3"](x))
        return F.linear(self.norms[2](h), self.tok_embeddings.weight) / math.sqrt(h.size(-1))


class Expert(nn.Module):
    def __init__(self, d, rank=3):
        super().__init__()
        self.base = nn.Linear(d, d)
        self.base.weight.requires_grad_(False)
        self.lora_A, self.lora_B = nn.Parameter(torch.randn(rank, d) * 0.3), nn.Parameter(torch.zeros(d, rank))

    def forward(self, x):
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T


class Mixture(nn.Module):
    """Keras-like call(), PyTorch's encoder layer, a GRU cell unrolled by hand, experts by top-k routing with LoRA."""

    def __init__(self, d=8, experts=3, classes=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(5, d), nn.LayerNorm(d), nn.ReLU(inplace=True))
        self.encoder = nn.TransformerEncoderLayer(d, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
        self.cell, self.gate = nn.GRUCell(d, d), nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList(Expert(d) for _ in range(experts))
        self.norm, self.never_used = nn.GroupNorm(2, d), nn.Linear(2, 2)
        self.top = nn.Linear(d, classes)

    def call(self, inputs):
        x = self.encoder(torch.tanh(self.stem(inputs)))
        h = x.new_zeros(x.size(0), x.size(-1))
        for t in range(x.size(1)):
            h = self.cell(x[:, t], h)
        weights, chosen = self.gate(h).softmax(-1).topk(2)
        out = torch.zeros_like(h)
        for index, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == index)
            out = out.index_add(0, rows, expert(h[rows]) * weights[rows, slot, None])
        return self.top(self.norm(out))

    def forward(self, *args, **kwargs):
        return self.call(*args, **kwargs)


def pixels(output, target):
    return F.cross_entropy(output, target)


def unet(seed=0):
    torch.manual_seed(seed)
    x = torch.randn(4, 1, 8, 8)
    return UNet(), (x, (x[:, 0] > 0).long() + (x[:, 0] > 1).long()), pixels


def llama(seed=0):
    torch.manual_seed(seed)
    ids = torch.randint(13, (4, 9))
    return Llama(), (ids[:, :-1], ids[:, 1:]), lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten())


def mixture(seed=0):
    torch.manual_seed(seed)
    return Mixture(), (torch.randn(8, 4, 5), torch.arange(8) % 4), F.cross_entropy


STRANGERS = {"unet": unet, "llama": llama, "mixture": mixture}
