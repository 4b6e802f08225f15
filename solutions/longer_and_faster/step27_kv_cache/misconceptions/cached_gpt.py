"""What learners get wrong in `CachedGPT`, each with the check that catches it."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step27_kv_cache import reference
from solutions.longer_and_faster.step27_kv_cache.misconceptions.forms import Cache
from solutions.longer_and_faster.step27_kv_cache.reference import split


def attend_onwards(layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
    """Step 9's attention with its keys and values in a cache: (B, t, D)."""
    heads = (split(part, layer.n_head) for part in layer.c_attn(x).chunk(3, dim=-1))
    output: Tensor = layer.c_proj(reference.attend(*heads, cache))
    return output


class _Model(reference.CachedGPT):
    """The reference's model, cut into the decisions that go wrong."""

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, block.ln_1(x), self.cache_of(caches, layer))
            x = x + block.mlp(block.ln_2(x))
        return self.given(self.lm_head(self.ln_f(x)))

    def require_room(self, past: int, tokens: int) -> None:
        if past + tokens > self.block_size:
            raise ValueError("too many tokens")

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return torch.arange(past, past + idx.shape[1], device=idx.device)

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return caches[layer] if caches else None

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return attend_onwards(layer, x, cache)

    def given(self, logits: Tensor) -> Any:
        return logits

    def attend_by(self, layer: Any, x: Tensor, cache: Cache | None, is_causal: bool | None) -> Tensor:
        """Attention by torch's built-in; `is_causal` None: where there is no past."""
        parts = layer.c_attn(x).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (layer.n_head, -1)).transpose(1, 2) for part in parts)
        past = cache.length if cache is not None else 0
        if cache is not None:
            key, value = cache.update(key, value)
        context = F.scaled_dot_product_attention(
            query, key, value, is_causal=not past if is_causal is None else is_causal
        )
        output: Tensor = layer.c_proj(context.transpose(1, 2).flatten(2))
        return output


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class PositionsFromZero(_Model):
    """The positions of new tokens began at 0 again.

    The model then takes the new token for the first one of the text.

    Which position has the next token when the cache holds 7?
    """

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return torch.arange(idx.shape[1], device=idx.device)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class PositionsOffByOne(_Model):
    """With caches the positions of new tokens were off by one.

    Positions count from 0: after 7 tokens, 0 to 6, the next one is 7.

    Which position has the next token when the cache holds 7?
    """

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return super().positions(past - 1 if past else 0, idx)


@another_form(PositionsOffByOne)
class PositionsOneAhead(_Model):
    def positions(self, past: int, idx: Tensor) -> Tensor:
        return super().positions(past + 1 if past else 0, idx)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class OnePositionForAll(_Model):
    """All tokens that came at once had the position of the first of them.

    Every token has a position of its own.

    Three tokens come, and the cache holds 7. Which positions have they?
    """

    def positions(self, past: int, idx: Tensor) -> Tensor:
        positions = super().positions(past, idx)
        return torch.full_like(positions, past) if past else positions


@another_form(OnePositionForAll, caught_by="test_gpt_without_caches")
class OnePositionForTheWholeText(_Model):
    def positions(self, past: int, idx: Tensor) -> Tensor:
        return torch.full_like(super().positions(past, idx), past)


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class KeysAndValuesCutInOtherOrder(_Model):
    """What `c_attn` makes was taken for query, value and key, in this order.

    Its output holds query, key and value side by side: step 9's order, and GPT-2's.

    Which third of the output of `c_attn` belongs to the keys?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        query, value, key = (split(part, layer.n_head) for part in layer.c_attn(x).chunk(3, dim=-1))
        output: Tensor = layer.c_proj(reference.attend(query, key, value, cache))
        return output


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class QueriesAndKeysCutInOtherOrder(_Model):
    """What `c_attn` makes was taken for key, query and value, in this order.

    Its output holds query, key and value side by side: step 9's order, and GPT-2's.

    Which third of the output of `c_attn` belongs to the queries?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        key, query, value = (split(part, layer.n_head) for part in layer.c_attn(x).chunk(3, dim=-1))
        output: Tensor = layer.c_proj(reference.attend(query, key, value, cache))
        return output


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class OneCacheForAllLayers(_Model):
    """All layers used the first cache.

    The keys of one layer mean nothing to the queries of another, and the cache holds each token once for each layer.

    Which of the caches belongs to layer 1?
    """

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return caches[0] if caches else None


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class CachesIgnored(_Model):
    """The caches were not used: the tokens given were taken for the whole text.

    What came before is in the caches alone.

    Who hands its cache to each layer?
    """

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return None


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class OnlyTheFirstLayerCached(_Model):
    """Only the first layer used its cache.

    Every layer attends, and every layer needs its past.

    How many of the caches are updated at each call?
    """

    def cache_of(self, caches: Sequence[Cache] | None, layer: int) -> Cache | None:
        return caches[0] if caches and layer == 0 else None


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class GptAlignedToTheFirstKey(_Model):
    """With caches the causal mask was aligned to the first key, as is_causal=True does it.

    A new token then sees the first key only: its mask is the first row, and not the last one.

    The cache holds 5 tokens and one more comes. How many keys may it see?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, True)


@another_form(GptAlignedToTheFirstKey)
class GptAlignedWhereManyCome(_Model):
    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, x.shape[1] > 1)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class GptCachesNotRead(_Model):
    """The tokens went into the caches, but attention used the new keys and values only.

    update gives back all keys and values. They are what the queries have to be compared with.

    What becomes of the pair that update returns?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        if cache is not None:
            attend_onwards(layer, x, cache)
        return attend_onwards(layer, x, None)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class GptWithoutAMaskAfterTheFirst(_Model):
    """After the first piece there was no mask.

    That is right for one new token, which may see all there is. Of several new tokens the earlier ones saw the later.

    Three tokens come at once. What may the first of them see?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, None)


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class GptWithoutAMask(_Model):
    """There was no causal mask.

    A model that is to predict the next token must not see it.

    Which keys may the first token see?
    """

    def attended(self, layer: Any, x: Tensor, cache: Cache | None) -> Tensor:
        return self.attend_by(layer, x, cache, False)


@misconception(replaces="CachedGPT", caught_by="test_gpt_in_pieces")
class NewTokensAloneCounted(_Model):
    """Only the new tokens were compared with block_size, and not those in the caches.

    There are block_size positions, and the tokens of the caches have taken some of them.

    How many tokens are there in all?
    """

    def require_room(self, past: int, tokens: int) -> None:
        if tokens > self.block_size:
            raise ValueError("too many tokens")

    def positions(self, past: int, idx: Tensor) -> Tensor:
        return super().positions(past, idx).clamp(max=self.block_size - 1)


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class PairReturned(_Model):
    """forward returned a pair, as step 12's does.

    Here the logits alone are asked for.

    What does the docstring say that forward returns?
    """

    def given(self, logits: Tensor) -> Any:
        return logits, None


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class LastTokenOnly(_Model):
    """Only the logits of the last token were returned.

    That is all that generating needs. Here the logits of all tokens given are asked for, (B, t, vocab_size).

    How many rows have the logits of three tokens?
    """

    def given(self, logits: Tensor) -> Any:
        return logits[:, -1:]


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class LogitsOfTheLastToken(_Model):
    """Only the logits of the last token were returned, without the axis of the tokens.

    That is all that generating needs. Here the logits of all tokens given are asked for, (B, t, vocab_size).

    How many axes have the logits of three tokens?
    """

    def given(self, logits: Tensor) -> Any:
        return logits[:, -1]


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class NoFinalNorm(_Model):
    """The logits were taken without the final norm, ln_f.

    It is part of step 12's model, and comes before lm_head.

    What stands between the last block and lm_head?
    """

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, block.ln_1(x), self.cache_of(caches, layer))
            x = x + block.mlp(block.ln_2(x))
        return self.lm_head(x)


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class NoNormInTheBlock(_Model):
    """Attention was given the stream itself and not what ln_1 makes of it.

    A block is x + attn(ln_1(x)), then x + mlp(ln_2(x)): whoever goes past the block's forward has to keep to that.

    What does step 11's Block do with x before attention sees it?
    """

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, x, self.cache_of(caches, layer))
            x = x + block.mlp(block.ln_2(x))
        return self.lm_head(self.ln_f(x))


@misconception(replaces="CachedGPT", caught_by="test_gpt_without_caches")
class NoMlp(_Model):
    """The blocks did attention only: their MLP was left out.

    A block is x + attn(ln_1(x)), then x + mlp(ln_2(x)): whoever goes past the block's forward has to keep to that.

    What does step 11's Block do after attention?
    """

    def forward(self, idx: Tensor, caches: Sequence[Cache] | None = None) -> Any:
        past = caches[0].length if caches else 0
        self.require_room(past, idx.shape[1])
        x = self.drop(self.wte(idx) + self.wpe(self.positions(past, idx)))
        for layer, block in enumerate(self.h):
            x = x + self.attended(block.attn, block.ln_1(x), self.cache_of(caches, layer))
        return self.lm_head(self.ln_f(x))
