"""Networks that nobody wrote for lplab, in the manners of other code bases."""

import math

import torch
from torch import nn
from torch.nn import functional


class Conv1D(nn.Module):
    """GPT-2's own linear layer: weight [in, out], addmm."""

    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=0.1)

    def forward(self, x):
        size = (*x.shape[:-1], self.bias.shape[0])
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(size)


class GPT2Style(nn.Module):
    """Another code base's style: Conv1D, split heads by permute, tied output weights, masks as buffers, no biases."""

    def __init__(self, vocabulary=11, width=16, heads=2, context=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.ln_1, self.ln_2, self.ln_f = (nn.LayerNorm(width) for _ in range(3))
        self.c_attn, self.c_proj = Conv1D(3 * width, width), Conv1D(width, width)
        self.c_fc, self.c_out = Conv1D(4 * width, width), Conv1D(width, 4 * width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight
        self.heads = heads
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).bool()[None, None], persistent=False)

    def forward(self, input_ids, labels=None):
        b, t = input_ids.shape
        x = self.wte(input_ids) + self.wpe(torch.arange(t))
        q, k, v = (p.view(b, t, self.heads, -1).permute(0, 2, 1, 3) for p in self.c_attn(self.ln_1(x)).split(16, dim=2))
        w = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
        w = torch.where(self.mask[:, :, :t, :t], w, torch.finfo(w.dtype).min).softmax(-1)
        x = x + self.c_proj(torch.matmul(w, v).permute(0, 2, 1, 3).contiguous().view(b, t, -1))
        x = x + self.c_out(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))
        logits = self.lm_head(self.ln_f(x))
        if labels is None:
            return {"logits": logits}
        return {
            "loss": functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()),
            "logits": logits,
        }


class SpeechStyle(nn.Module):
    """A convolution over time, a bidirectional LSTM of two layers, a GRU, attention by nn.MultiheadAttention."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(6, 8, 3, stride=2, padding=1), nn.BatchNorm1d(8), nn.ReLU())
        self.lstm = nn.LSTM(8, 5, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.gru = nn.GRU(10, 8)
        self.attend = nn.MultiheadAttention(8, 2, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        y = self.front(x).transpose(1, 2)
        packed = nn.utils.rnn.pack_padded_sequence(y, [y.shape[1]] * (y.shape[0] - 1) + [3], True, False)
        y, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        y = self.gru(y.transpose(0, 1))[0].transpose(0, 1)
        y = y + self.attend(y, y, y, need_weights=False)[0]
        return self.out(y.mean(1))


class ResearchStyle(nn.Module):
    """Raw parameters, einsum, bmm, weight norm, grouped and depthwise convolutions, a scaled dot product."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding="same", bias=False)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.grouped = nn.utils.parametrizations.weight_norm(nn.Conv2d(8, 8, 3, padding=1, groups=2))
        self.norm = nn.GroupNorm(2, 8)
        self.excite = nn.Parameter(torch.randn(8, 8) * 0.3)
        self.queries = nn.Parameter(torch.randn(2, 4, 8) * 0.3)
        self.mix = nn.Parameter(torch.randn(8, 5) * 0.3)

    def forward(self, x):
        y = functional.relu(self.norm(self.depthwise(functional.relu(self.stem(x)))))
        y = y * torch.sigmoid(torch.einsum("bc,cd->bd", y.mean((2, 3)), self.excite))[:, :, None, None]
        y = functional.relu(self.grouped(y)).flatten(2).transpose(1, 2)
        heads = functional.scaled_dot_product_attention(self.queries.expand(len(y), -1, -1, -1), y[:, None], y[:, None])
        return torch.bmm(heads.flatten(1, 2), self.mix.expand(len(y), -1, -1)).sum(1)


def classify(model, x, y):
    return functional.cross_entropy(model(x), y)


def gpt2(seed=0):
    torch.manual_seed(seed)
    ids = torch.randint(11, (6, 10))
    return GPT2Style(), lambda model: model(ids, labels=ids)["loss"]


def speech(seed=0):
    torch.manual_seed(seed)
    x, y = torch.randn(6, 6, 16), torch.arange(6) % 4
    return SpeechStyle(), lambda model: classify(model, x, y)


def research(seed=0):
    torch.manual_seed(seed)
    x, y = torch.randn(8, 1, 6, 6), torch.arange(8) % 5
    return ResearchStyle(), lambda model: classify(model, x, y)


FOREIGN = {"gpt2": gpt2, "speech": speech, "research": research}
