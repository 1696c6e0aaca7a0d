"""The Llama: against formulas written anew, its cache, files of GGUF, rotation, and a second implementation."""

import math
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from lplab.datasets import characters, smollm2_file
from lplab.models import (
    KeyValueCache,
    LlamaShape,
    RoundedCache,
    bits_a_token,
    llama,
    read_gguf,
    rotated,
    smollm2,
)
from lplab.models.chat import answer, chat_prompt
from lplab.models.gguf_file import BLOCK_NAMES
from lplab.quantizers import KIVI

SHAPE = LlamaShape(
    vocabulary=40, width=24, blocks=2, heads=6, kv_heads=2, hidden=32, context=64, rope_base=100.0, epsilon=2**-17
)
IDS = torch.from_numpy(np.random.default_rng(0).integers(0, 40, (2, 20)))


@pytest.fixture(scope="module")
def model():
    """A small Llama whose norms have weights of their own."""
    made = llama(SHAPE, seed=1).eval()
    with torch.no_grad():
        for norm in (module for module in made.modules() if isinstance(module, nn.RMSNorm)):
            norm.weight.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(0))
    return made


def by_hand(state, ids):
    """Logits of one sequence in float64, one position and one head at a time."""
    state = {name: value.double().numpy() for name, value in state.items()}

    def norm(x, name):
        return x / np.sqrt((x**2).mean() + SHAPE.epsilon) * state[name + ".weight"]

    def turned(head, position):
        pairs = head.reshape(-1, 2) @ np.array([1, 1j])  # neighbours as a complex number
        angles = position / SHAPE.rope_base ** (np.arange(0, SHAPE.head_size, 2) / SHAPE.head_size)
        found = pairs[:, 0] if pairs.ndim > 1 else pairs
        found = found * np.exp(1j * angles)
        return np.stack([found.real, found.imag], 1).ravel()

    stream = [state["embedding.weight"][token] for token in ids]
    for b in range(SHAPE.blocks):
        at = f"blocks.{b}."
        q, k, v = ([state[f"{at}attention.{n}.weight"] @ norm(x, at + "norm1") for x in stream] for n in "qkv")
        split = [np.array([row.reshape(-1, SHAPE.head_size) for row in each]) for each in (q, k, v)]
        for t in range(len(stream)):
            heads = []
            for h in range(SHAPE.heads):
                shared = h // (SHAPE.heads // SHAPE.kv_heads)
                query = turned(split[0][t, h], t)
                scores = [query @ turned(split[1][s, shared], s) / math.sqrt(SHAPE.head_size) for s in range(t + 1)]
                weights = np.exp(scores) / np.exp(scores).sum()
                heads.append(weights @ split[2][: t + 1, shared])
            stream[t] = stream[t] + state[at + "attention.o.weight"] @ np.concatenate(heads)
        for t, x in enumerate(stream):
            y = norm(x, at + "norm2")
            gate, up = (state[f"{at}mlp.{name}.weight"] @ y for name in ("gate", "up"))
            stream[t] = x + state[at + "mlp.down.weight"] @ (gate / (1 + np.exp(-gate)) * up)
    return np.array([state["head.weight"] @ norm(x, "norm") for x in stream])


@torch.no_grad()
def test_it_is_the_formula_position_by_position(model):
    np.testing.assert_allclose(model(IDS[:1])[0].numpy(), by_hand(model.state_dict(), IDS[0].tolist()), atol=2e-5)


@torch.no_grad()
def test_with_a_cache_one_token_at_a_time_it_gives_the_same(model):
    cache, whole = KeyValueCache(), model(IDS)
    parts = [model(IDS[:, begin:end], cache) for begin, end in ((0, 7), (7, 8), (8, 20))]
    assert cache.length == 20
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_it_writes_the_likeliest_token_again_and_again(model):
    text = IDS[0, :5].tolist()
    found = list(islice(model.write(torch.tensor(text)), 6))
    for token in found:
        assert token == int(model(torch.tensor([text]))[0, -1].argmax())
        text.append(token)
    with pytest.raises(ValueError, match="at least one token"):
        next(model.write(torch.zeros(0, dtype=torch.long)))
    with pytest.raises(ValueError, match="up to 64 tokens, got 65"):
        model(torch.zeros(1, 65, dtype=torch.long))


def test_bits_a_token_are_those_of_the_probabilities(model):
    with torch.no_grad():
        p = model(IDS).softmax(-1)
    want = -np.mean([math.log2(p[b, t, IDS[b, t + 1]]) for b in range(2) for t in range(19)])
    assert bits_a_token(model, IDS) == pytest.approx(want, rel=1e-5)
    assert bits_a_token(lambda ids: SimpleNamespace(logits=model(ids)), IDS) == bits_a_token(model, IDS)


@torch.no_grad()
def test_rotated_and_without_weights_of_norms_it_gives_the_same(model):
    turned = rotated(model, seed=2)
    torch.testing.assert_close(turned(IDS), model(IDS), atol=1e-4, rtol=1e-4)
    assert all((m.weight == 1).all() for m in turned.modules() if isinstance(m, nn.RMSNorm))
    assert turned.head.weight is not turned.embedding.weight
    with pytest.raises(TypeError, match="only a Llama"):
        rotated(nn.Linear(2, 2))


@torch.no_grad()
def test_a_rounded_cache_keeps_its_window_and_rounds_each_position_once():
    shape = LlamaShape(vocabulary=16, width=16, blocks=1, heads=2, kv_heads=2, hidden=8)
    net, ids = llama(shape, seed=3).eval(), torch.arange(16).repeat(2)[None]
    rule = KIVI(bits=2, group=4, window=8)
    exact, cache = KeyValueCache(), RoundedCache(rule)
    net(ids, exact)
    for begin in range(0, 32, 2):  # two tokens at a time
        before = {half: done for half, done in cache.done.items()}
        old = [each.clone() for each in cache.stored[0]] if cache.stored else None
        net(ids[:, begin : begin + 2], cache)
        for place, half in enumerate(("keys", "values") if old else ()):
            done = before.get((0, half), 0)
            assert torch.equal(cache.stored[0][place][..., :done, :], old[place][..., :done, :])
    assert cache.done == {(0, "keys"): 32, (0, "values"): 24}
    assert torch.unique(cache.stored[0][0][0, 0, :4, 0]).numel() <= 4
    whole = RoundedCache(KIVI(2, 4, 0), exact_new=False)
    assert torch.equal(net(ids, RoundedCache(rule)), net(ids)), "a prompt sees its own keys unrounded"
    assert not torch.allclose(net(ids, whole), net(ids))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"kv_heads": 4}, "heads must be a multiple of kv_heads, got 6 and 4"),
        ({"width": 18}, "each head needs an even width"),
        ({"blocks": 0}, "blocks must be an integer from 1"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes, words):
    from dataclasses import replace

    with pytest.raises(ValueError, match=words):
        replace(SHAPE, **sizes)


# ---- files -----------------------------------------------------------------------------------------------------------


def write_gguf(path, model, **changes):
    """A GGUF file of a model, by the package's own writer, with a tokenizer of single bytes and two merges."""
    gguf = pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    shape = model.shape
    tokens = ["<|end|>", *[chr(c) for c in range(ord("a"), ord("z") + 1)], "Ġ", "ab", "abc", *map(str, range(10))]
    writer = gguf.GGUFWriter(path, changes.pop("architecture", "llama"))
    for name, value in {"context_length": shape.context, "embedding_length": shape.width}.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_block_count(shape.blocks)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_tokenizer_model(changes.pop("tokenizer", "gpt2"))
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["a b", "ab c"])
    names = {ours: theirs for theirs, ours in BLOCK_NAMES.items()}
    state = model.state_dict() | changes.pop("tensors", {})
    for name, value in state.items():
        if value is None or (name == "head.weight" and model.head.weight is model.embedding.weight):
            continue
        parts = name.split(".")
        if parts[0] == "blocks":
            name = f"blk.{parts[1]}.{names['.'.join(parts[2:-1])]}.weight"
        else:
            name = {"embedding": "token_embd", "norm": "output_norm", "head": "output"}.get(parts[0], name) + ".weight"
        kind = gguf.GGMLQuantizationType.F32
        if value.ndim == 2 and value.shape[1] % 32 == 0:  # mlp.down: the only rows of whole blocks
            kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quantize(value.numpy(), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_comes_back_from_a_gguf_file_with_its_tokenizer(tied, tmp_path):
    made = llama(SHAPE, seed=1, tied=tied)
    found, tokenizer = read_gguf(write_gguf(tmp_path / "small.gguf", made))
    assert found.shape == SHAPE and not found.training
    assert (found.head.weight is found.embedding.weight) == tied
    for name, value in made.state_dict().items():
        step = value.abs().max() / 127
        exact = value.shape[-1] % 32 or value.ndim == 1
        torch.testing.assert_close(found.state_dict()[name], value, atol=0 if exact else step, rtol=0)
    ids = tokenizer.encode("abc ab 42<|end|>").ids
    assert [tokenizer.id_to_token(i) for i in ids] == ["abc", "Ġ", "ab", "Ġ", "4", "2", "<|end|>"]
    assert tokenizer.decode(ids) == "abc ab 42"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architecture": "gemma"}, "only the architecture 'llama' is read, this file has 'gemma'"),
        ({"tokenizer": "llama"}, "tokenizers of GPT-2 are read"),
        ({"tensors": {"norm.weight": None}}, "has no norm.weight for its 2 blocks: it is incomplete"),
        ({"tensors": {"rope_freqs": torch.ones(2)}}, "has a tensor 'rope_freqs.weight'"),
        (
            {"tensors": {"norm.weight": torch.ones(3)}},
            r"norm.weight must be \[24\] by the sizes in the file",
        ),
    ],
)
def test_files_of_other_models_are_refused(changes, words, tmp_path):
    path = write_gguf(tmp_path / "other.gguf", llama(SHAPE), **changes)
    with pytest.raises(ValueError, match=words):
        read_gguf(path)


def test_what_is_no_file_of_gguf_is_refused(tmp_path):
    pytest.importorskip("gguf")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_gguf(tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_bytes(b"once upon a time " * 10)
    with pytest.raises(ValueError, match=r"text\.gguf is no GGUF file"):
        read_gguf(tmp_path / "text.gguf")


# ---- SmolLM2, where it has been fetched ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smol():
    """The model and its tokenizer."""
    pytest.importorskip("gguf")
    pytest.importorskip("tokenizers")
    try:
        smollm2_file()
    except (FileNotFoundError, ImportError) as problem:
        pytest.skip(str(problem))
    return smollm2()


@pytest.mark.slow
def test_smollm2_writes_english_and_has_its_massive_activation(smol):
    model, tokenizer = smol
    text = tokenizer.decode(
        list(islice(model.write(torch.tensor(tokenizer.encode("The capital of France is").ids)), 2))
    )
    assert text == " Paris."
    ids = torch.tensor([tokenizer.encode(characters()[200_000:201_000]).ids[:64]])
    caught = {}
    hook = model.blocks[12].register_forward_pre_hook(lambda _, inputs: caught.update(stream=inputs[0][0]))
    bits = bits_a_token(model, ids)
    hook.remove()
    sizes = caught["stream"].abs()
    assert divmod(int(sizes.argmax()), 576) == (0, 507)
    assert sizes.max() > 5000 * sizes.median() and 3 < bits < 7


@pytest.mark.slow
@torch.no_grad()
def test_smollm2_writes_what_another_implementation_writes(smol):
    transformers = pytest.importorskip("transformers")
    model, tokenizer = smol
    shape = model.shape
    config = transformers.LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.blocks,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context,
        rms_norm_eps=shape.epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        rope_theta=shape.rope_base,
        tie_word_embeddings=True,
    )
    other = transformers.LlamaForCausalLM(config).eval()
    names = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head", "norm1": "input_layernorm"}
    names |= {"blocks": "model.layers", "attention": "self_attn", "norm2": "post_attention_layernorm"}
    names |= {name: f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down")}
    state = {}
    for name, value in model.state_dict().items():
        if name.endswith(("attention.q.weight", "attention.k.weight")):  # halves instead of neighbours
            value = value.view(-1, shape.head_size // 2, 2, shape.width).transpose(1, 2).reshape(value.shape)
        state[".".join(names.get(part, part) for part in name.split("."))] = value
    other.load_state_dict(state)
    ids = torch.tensor(tokenizer.encode(characters()[100_000:100_300]).ids[:48])
    torch.testing.assert_close(other(ids[None]).logits, model(ids[None]), atol=1e-3, rtol=1e-4)
    theirs = other.generate(ids[None, :16], max_new_tokens=20, do_sample=False)[0, 16:].tolist()
    assert list(islice(model.write(ids[:16]), 20)) == theirs


class Letters:
    """A tokenizer whose tokens are the numbers from 0 to 39; 39 ends an answer."""

    def encode(self, text):
        return SimpleNamespace(ids=[ord(letter) % 40 for letter in text[-20:]])

    def decode(self, ids):
        return " ".join(map(str, ids))

    def token_to_id(self, token):
        return 39


def test_an_answer_is_the_likeliest_tokens_with_and_without_a_cache(model):
    said = list(answer(model, Letters(), "Why?", tokens=5))
    assert said == list(answer(model, Letters(), "Why?", tokens=5, cache=KeyValueCache()))
    prompt = torch.tensor(Letters().encode(chat_prompt("Why?")).ids)
    assert said[-1] == " ".join(map(str, islice(model.write(prompt), 5)))
    assert [len(text.split()) for text in said] == [1, 2, 3, 4, 5]


def test_an_answer_ends_where_the_model_ends_it(model):
    first = int(next(iter(answer(model, Letters(), "Why?", tokens=1))))

    class EndsAtOnce(Letters):
        def token_to_id(self, token):
            return first

    assert list(answer(model, EndsAtOnce(), "Why?")) == []
