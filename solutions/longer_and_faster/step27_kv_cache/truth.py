"""What proves the reference of step 27: Hugging Face's GPT-2 and Llama, with the same weights."""

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.llama.modeling_llama import repeat_kv as llamas_repeat_kv

from solutions.longer_and_faster.step27_kv_cache.reference import (
    CachedGPT,
    GroupedQueryAttention,
    KVCache,
    generate_cached,
    kv_cache_bytes,
    repeat_kv,
)

SIZES = {"vocab_size": 23, "block_size": 24, "n_layer": 3, "n_head": 2, "n_embd": 16}


def gpt2() -> tuple[CachedGPT, GPT2LMHeadModel]:
    """A randomly initialised GPT-2 of Hugging Face's, and ours with its weights, in float64."""
    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=23, n_positions=24, n_layer=3, n_head=2, n_embd=16, initializer_range=0.4, bos_token_id=0,
        eos_token_id=None, pad_token_id=0, attn_implementation="sdpa",
    )  # fmt: skip
    theirs = GPT2LMHeadModel(config).eval().double()
    ours = CachedGPT(**SIZES).eval().double()
    weights = {name.removeprefix("transformer."): value for name, value in theirs.state_dict().items()}
    transposed = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # Hugging Face's Conv1D has them the other way
    ours.load_state_dict(
        {
            name: weights[name].T if name.endswith(transposed) else weights[name]
            for name in dict(ours.named_parameters(remove_duplicate=False))
        }
    )
    return ours, theirs


@pytest.mark.parametrize("pieces", [(12,), (1,) * 6, (5, 1, 1, 4)])
def test_logits_are_gpt2s(pieces: tuple[int, ...]) -> None:
    """In pieces, with a cache, the logits are those of GPT-2 over the whole text."""
    ours, theirs = gpt2()
    idx = torch.randint(0, 23, (2, sum(pieces)))
    caches = [KVCache(24) for _layer in range(3)]
    with torch.no_grad():
        got = torch.cat([ours(piece, caches) for piece in idx.split(list(pieces), dim=1)], dim=1)
        torch.testing.assert_close(got, theirs(idx).logits)
        torch.testing.assert_close(ours(idx), theirs(idx).logits)


def test_text_is_gpt2s() -> None:
    """Greedy generation with Hugging Face's own cache gives the same tokens."""
    ours, theirs = gpt2()
    idx = torch.randint(1, 23, (2, 4))
    expected = theirs.generate(idx, attention_mask=torch.ones_like(idx), max_new_tokens=15, do_sample=False)
    assert torch.equal(generate_cached(ours, idx, 15), expected)


def test_cache_holds_what_hugging_faces_does() -> None:
    """update gives what DynamicCache's gives, and the bytes are those of the tensors in it."""
    ours, theirs = KVCache(9), DynamicCache()
    parts = [torch.randn(2, 3, tokens, 4) for tokens in (3, 1, 5)]
    for part in parts:
        got, expected = ours.update(part, -part), theirs.update(part, -part, 0)
        assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))
        assert ours.length == theirs.get_seq_length()
    taken = sum(tensor.numel() * tensor.element_size() for tensor in expected)
    assert kv_cache_bytes(1, 2, 9, 3, 4, bytes_per_element=4) == taken


def test_heads_are_repeated_as_llama_does() -> None:
    """Llama's repeat_kv gives the same, bit for bit."""
    x = torch.randn(2, 3, 5, 4)
    assert all(torch.equal(repeat_kv(x, n_rep), llamas_repeat_kv(x, n_rep)) for n_rep in (1, 2, 4))


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_attention_is_llamas(n_kv_heads: int) -> None:
    """Llama's attention, its rotation switched off, gives the same, at once and in pieces."""
    torch.manual_seed(4)
    config = LlamaConfig(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=n_kv_heads, attn_implementation="sdpa"
    )
    theirs = LlamaAttention(config, 0).eval()
    ours = GroupedQueryAttention(16, 4, n_kv_heads)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 7, 16)
    unturned: tuple[Tensor, Tensor] = torch.ones(1, 7, 4), torch.zeros(1, 7, 4)
    expected = theirs(x, position_embeddings=unturned, attention_mask=None)[0]
    torch.testing.assert_close(ours(x), expected)
    cache = KVCache(7)
    torch.testing.assert_close(torch.cat([ours(piece, cache) for piece in x.split([3, 1, 3], dim=1)], dim=1), expected)
