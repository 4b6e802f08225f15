"""What the track "Longer and faster" is for, with the references: long texts in flat memory, and one pass in all."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from grader.calls.counters import LargestStorage, MatrixProducts
from solutions.core.step12_gpt.reference import GPT
from solutions.longer_and_faster.step25_window.reference import window_attention
from solutions.longer_and_faster.step26_linear.reference import linear_attention_step
from solutions.longer_and_faster.step27_kv_cache.reference import CachedGPT, generate_cached
from solutions.longer_and_faster.step28_training.reference import make_optimizer, train_step

TOKENS, WINDOW, PIECE = 16_384, 64, 1024


class WindowedReader(nn.Module):
    """Step 12's GPT with step 25's attention, which reads a text piece by piece: of what it has read, each layer keeps
    what the last window - 1 tokens brought to it."""

    def __init__(self, model: GPT) -> None:
        super().__init__()
        self.model = model
        self.kept: list[Tensor | None] = [None] * len(model.h)
        self.length = 0

    def forward(self, idx: Tensor) -> Tensor:
        """(B, t) -> the logits of these tokens, (B, t, vocab_size)."""
        model = self.model
        positions = torch.arange(self.length, self.length + idx.shape[1], device=idx.device)
        self.length += idx.shape[1]
        x = model.wte(idx) + model.wpe(positions)
        for layer, block in enumerate(model.h):
            before = self.kept[layer]
            seen = x if before is None else torch.cat((before, x), dim=1)
            self.kept[layer] = seen[:, -(WINDOW - 1) :].clone()
            heads = (
                block.attn.c_attn(block.ln_1(seen)).unflatten(-1, (3, model_heads(block), -1)).permute(2, 0, 3, 1, 4)
            )
            context = window_attention(*heads, WINDOW).transpose(1, 2).flatten(2)
            x = x + block.attn.c_proj(context[:, -x.shape[1] :])
            x = x + block.mlp(block.ln_2(x))
        return model.lm_head(model.ln_f(x))


def model_heads(block: nn.Module) -> int:
    return block.attn.n_head


@pytest.mark.thorough
@torch.no_grad()
def test_windowed_gpt_reads_16384_tokens_in_flat_memory() -> None:
    """Every piece takes what the second took; nothing grows with the length but the table of positions."""
    torch.manual_seed(0)
    reader = WindowedReader(GPT(50, TOKENS, n_layer=2, n_head=2, n_embd=16).eval())
    text = torch.randint(50, (1, TOKENS))
    largest = []
    for piece in text.split(PIECE, dim=1):
        with LargestStorage() as made:
            reader(piece)
        largest.append(made.measured)
    # The table itself is a storage that already was; an op that gives back a view of it is none of the reader's.
    assert reader.length == TOKENS
    assert len(set(largest[1:])) == 1
    assert largest[-1] < 4 * PIECE * 50


@torch.no_grad()
def test_pieces_give_what_the_whole_gives() -> None:
    """What the reader says of a text does not depend on how it is cut."""
    torch.manual_seed(1)
    model = GPT(50, 300, n_layer=2, n_head=2, n_embd=16).eval()
    text = torch.randint(50, (2, 300))
    whole = WindowedReader(model)(text)
    reader = WindowedReader(model)
    pieces = torch.cat([reader(piece) for piece in text.split(70, dim=1)], dim=1)
    torch.testing.assert_close(pieces, whole, rtol=1e-4, atol=1e-5)


def test_linear_attention_remembers_as_much_after_any_length() -> None:
    """The state after 1,000 tokens has the size of that after one."""
    state = None
    sizes = set()
    for _token in range(1000):
        query, key, value = torch.randn(3, 1, 2, 4).unbind()
        _output, state = linear_attention_step(query, key, value, state)
        sizes.add(tuple(part.numel() for part in state))
    assert len(sizes) == 1


@torch.no_grad()
def test_cached_gpt_writes_at_the_price_of_one_pass() -> None:
    """All products of writing 56 tokens after 8 take at most 1.5 times those of reading the 64; without a cache it
    would be some twenty times as many."""
    torch.manual_seed(2)
    model = CachedGPT(50, 64, n_layer=2, n_head=2, n_embd=32).eval()
    with MatrixProducts() as reading:
        model(torch.randint(50, (1, 64)))
    with MatrixProducts() as writing:
        generate_cached(model, torch.randint(50, (1, 8)), 56)
    assert sum(writing.measured.values()) <= 1.5 * sum(reading.measured.values())


def test_training_survives_an_overflow() -> None:
    """A scale far too large costs a few steps, in which nothing moves; then the model learns."""
    torch.manual_seed(3)
    model = GPT(7, 6, n_layer=1, n_head=2, n_embd=8)
    # Gradients above 2 are infinite when the loss is multiplied by the largest power of two in float32.
    torch.nn.init.constant_(model.ln_f.weight, 100.0)
    optimizer, scaler = make_optimizer(model), torch.amp.GradScaler("cpu", init_scale=2.0**127)
    idx = torch.arange(12).view(2, 6) % 7
    kept, losses, scales = 0, [], [scaler.get_scale()]
    for _step in range(40):
        before = [parameter.clone() for parameter in model.parameters()]
        losses.append(train_step(model, optimizer, [(idx, (idx + 1) % 7)], 0.01, precision="float32", scaler=scaler)[0])
        scales.append(scaler.get_scale())
        if scales[-1] < scales[-2]:
            kept += 1
            assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    assert 1 <= kept < 20, scales
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert losses[-1] < 0.5 * losses[0]
