"""What learners get wrong in `generate_cached`, each with the check that catches it."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.longer_and_faster.step27_kv_cache import reference
from solutions.longer_and_faster.step27_kv_cache.misconceptions.forms import Cache


def _require_positions(model: Any, idx: Tensor, max_new_tokens: int) -> None:
    if idx.shape[1] + max_new_tokens > model.block_size:
        raise ValueError("too many tokens")


def _caches(model: Any) -> list[Cache]:
    return [reference.KVCache(4 * model.block_size) for _layer in model.h]


Logits = Callable[[Tensor, Tensor], Tensor]  # of the text so far and of its newest tokens


@torch.no_grad()
def _written(
    model: Any, idx: Tensor, max_new_tokens: int, logits_of: Logits,
    chosen: Callable[[Tensor], Tensor] = lambda logits: logits[:, -1:].argmax(dim=-1), mode: bool = False,
) -> Tensor:  # fmt: skip
    """The text and max_new_tokens more, each `chosen` from what `logits_of` gives, in the mode `mode`."""
    _require_positions(model, idx, max_new_tokens)
    was_training = model.training
    model.train(mode)
    new = idx
    for _token in range(max_new_tokens):
        new = chosen(logits_of(idx, new))
        idx = torch.cat((idx, new), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate_cached", caught_by="test_every_token_goes_through_once", misses_the_point=True)
def no_cache(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The whole text went through the model for each new token, without caches or with new ones.

    The tokens are right, and 24 of them cost 24 passes over a growing text. A cache has to outlive a token.

    What of the last pass is still true when one token more is there?
    """
    return _written(model, idx, max_new_tokens, lambda text, new: model(text))


@misconception(replaces="generate_cached", caught_by="test_generate", misses_the_point=True)
def text_fed_again(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The whole text was fed at each new token, although the caches held it already.

    The caches then hold the text twice, three times, …, at positions that go on and on.

    Which tokens do the caches not hold yet?
    """
    caches = _caches(model)
    return _written(model, idx, max_new_tokens, lambda text, new: model(text, caches))


@misconception(replaces="generate_cached", caught_by="test_generate")
def token_fed_twice(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The last token of the prompt went through the model twice: with the prompt, and then by itself.

    The caches then hold it twice, and every position after it is one too large.

    Of which token are the first new token's logits, and has it been fed already?
    """
    caches = _caches(model)

    def logits_of(text: Tensor, new: Tensor) -> Tensor:
        if not caches[0].length:
            model(text, caches)
        return model(new[:, -1:], caches)

    return _written(model, idx, max_new_tokens, logits_of)


@misconception(replaces="generate_cached", caught_by="test_generate")
def prompt_not_fed(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """Only the last token of the prompt went through the model.

    The caches know nothing of the rest, so that the text goes on from one token alone.

    What do the caches have to hold before the first new token is made?
    """
    caches = _caches(model)
    return _written(model, idx, max_new_tokens, lambda text, new: model(new[:, -1:], caches))


@misconception(replaces="generate_cached", caught_by="test_generate")
def one_cache_for_all_layers(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """One cache was made, and given to every layer: [KVCache(n)] * n_layer holds the same object n_layer times.

    The keys of one layer mean nothing to the queries of another, and the cache holds each token once for each layer.

    How often is KVCache called when the list is made?
    """
    caches = [reference.KVCache(4 * model.block_size)] * len(model.h)
    return _written(model, idx, max_new_tokens, lambda text, new: model(new, caches))


@misconception(replaces="generate_cached", caught_by="test_generate")
def new_tokens_alone(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """Only the new tokens were returned, without the prompt.

    The result is the whole text, (B, T + max_new_tokens).

    How many columns has the result?
    """
    return reference.generate_cached(model, idx, max_new_tokens)[:, idx.shape[1] :]


@misconception(replaces="generate_cached", caught_by="test_generate")
def one_token_too_few(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """One token too few was made: the one that the prompt's own pass gives was not counted, or was lost.

    The pass over the prompt gives the first new token already.

    How many times does the loop run, and how many tokens does each turn add?
    """
    return reference.generate_cached(model, idx, max(max_new_tokens - 1, 0))


@misconception(replaces="generate_cached", caught_by="test_generate")
def one_token_too_many(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """One token too many was made: the pass over the prompt gave one, and the loop max_new_tokens more.

    The pass over the prompt gives the first new token already.

    How many times does the loop run, and how many tokens does each turn add?
    """
    _require_positions(model, idx, max_new_tokens)
    return reference.generate_cached(model, idx, min(max_new_tokens + 1, model.block_size - idx.shape[1]))


@misconception(replaces="generate_cached", caught_by="test_generate")
def sampled(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The tokens were drawn by their probabilities.

    What step 12's generate gives at temperature=0 is asked for: always the token with the largest logit.

    Which function gives the place of the largest number?
    """
    caches = _caches(model)
    return _written(
        model, idx, max_new_tokens, lambda text, new: model(new, caches),
        lambda logits: torch.multinomial(logits[:, -1].softmax(dim=-1), 1),
    )  # fmt: skip


@misconception(replaces="generate_cached", caught_by="test_generate")
def logits_of_the_first_token(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The logits of the first token given were used, and not of the last.

    With one new token at a time that is the same. After the prompt it is not.

    Which row of the logits says what follows the whole text?
    """
    caches = _caches(model)
    return _written(
        model, idx, max_new_tokens, lambda text, new: model(new, caches), lambda logits: logits[:, :1].argmax(dim=-1)
    )


@misconception(replaces="generate_cached", caught_by="test_generate")
@torch.no_grad()
def too_long_accepted(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """A text that ends beyond block_size was accepted, and cut off or made without its past.

    The model has no positions beyond block_size: it can't go on.

    What is compared with block_size before anything is made?
    """
    return reference.generate_cached(model, idx, min(max_new_tokens, model.block_size - idx.shape[1]))


@misconception(replaces="generate_cached", caught_by="test_generate")
def full_length_refused(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """A text that ends exactly at block_size was refused.

    There are block_size positions, so that a text of block_size tokens fits.

    Is the comparison with block_size > or >=?
    """
    _require_positions(model, idx, max_new_tokens + 1)
    return reference.generate_cached(model, idx, max_new_tokens)


@misconception(replaces="generate_cached", caught_by="test_mode_is_restored")
@torch.no_grad()
def mode_not_restored(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The model was left in eval mode.

    Whoever generates between two steps of training goes on without dropout, and does not know it.

    Which mode had the model before?
    """
    idx = reference.generate_cached(model, idx, max_new_tokens)
    model.eval()
    return idx


@misconception(replaces="generate_cached", caught_by="test_mode_is_restored")
def always_trains_afterwards(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The model was put in training mode afterwards, also when it came in eval mode.

    Whoever gave it in eval mode gets it back with dropout on.

    Which mode had the model before?
    """
    idx = reference.generate_cached(model, idx, max_new_tokens)
    model.train()
    return idx


@misconception(replaces="generate_cached", caught_by="test_mode_is_restored")
def dropout_on(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
    """The model was evaluated in the mode it came in: in training mode with dropout on.

    The largest logit is then that of a model with half of its numbers missing.

    What does eval() change?
    """
    caches = _caches(model)
    return _written(model, idx, max_new_tokens, lambda text, new: model(new, caches), mode=model.training)
