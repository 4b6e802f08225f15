"""What learners get wrong in step 25, each with the check that catches it."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step25_window.reference import attend, may_attend, window_attention


def _(text: str) -> str:
    """Marks a sentence that is to be translated; it is looked up when it is read."""
    return text


Allowed = Callable[[Tensor, Tensor, int, bool, int], Tensor]
Weigh = Callable[[Tensor, Tensor], Tensor]


def _softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The weights of scores of which the mask shows some."""
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), dim=-1)


def _require(query: Tensor, key: Tensor, window: int) -> None:
    """What the contract refuses."""
    if query.shape[-2] != key.shape[-2] or window < 1:
        raise ValueError("unequal lengths, or no window")


def _attended(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    is_causal: bool,
    num_global: int,
    *,
    allowed: Allowed = may_attend,
    weigh: Weigh = _softmax,
    scale: float | None = None,
) -> Tensor:
    """Attention of `window` queries at a time to all keys; every misconception takes one decision in its own way."""
    _require(query, key, window)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    positions = torch.arange(query.shape[-2], device=query.device)
    contexts = []
    for rows in positions.split(window):
        scores = query[..., rows, :] * scale @ key.transpose(-2, -1)
        contexts.append(weigh(scores, allowed(rows, positions, window, is_causal, num_global)) @ value)
    return torch.cat(contexts, dim=-2)


# --- which keys are seen: the same mistakes are made in the mask and in attention -----------------------------------


def _with_globals(near: Tensor, queries: Tensor, keys: Tensor, is_causal: bool, num_global: int) -> Tensor:
    """A neighbourhood, global tokens and the causal rule put together."""
    allowed = near | (queries[:, None] < num_global) | (keys < num_global)
    return allowed & (keys <= queries[:, None]) if is_causal else allowed


def _too_wide(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window + 1, is_causal, num_global)


def _too_narrow(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window - 1, is_causal, num_global)


def _both_sides(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    near = (queries[:, None] - keys).abs() <= window // 2
    return _with_globals(near, queries, keys, is_causal, num_global)


def _future_seen(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window, False, num_global)


def _always_causal(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window, True, num_global)


def _past_only(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    apart = queries[:, None] - keys
    return _with_globals((apart >= 0) & (apart < window), queries, keys, is_causal, num_global)


def _no_window(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, len(keys) + window, is_causal, num_global)


def _no_lower_end(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return _with_globals(queries[:, None] - keys > -window, queries, keys, is_causal, num_global)


def _own_token_hidden(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    allowed = may_attend(queries, keys, window + 1, is_causal, num_global) & (queries[:, None] != keys)
    return allowed | ((queries == 0)[:, None] & (keys == 0))


def _ahead(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    if not is_causal:
        return may_attend(queries, keys, window, is_causal, num_global)
    return may_attend(queries, keys, window, False, num_global) & (keys >= queries[:, None])


def _within_blocks(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return _with_globals((queries // window)[:, None] == keys // window, queries, keys, is_causal, num_global)


def _behind_globals(allowed: Allowed) -> Allowed:
    """The same with blocks that begin behind the global tokens, and not at the first one."""

    def shifted(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
        near = allowed(queries - num_global, keys - num_global, window, is_causal, 0)
        return _with_globals(near, queries, keys, is_causal, num_global)

    return shifted


def _future_of_the_block(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    near = ((queries[:, None] - keys).abs() < window) & (keys < (queries // window + 1)[:, None] * window)
    return _with_globals(near, queries, keys, is_causal, num_global)


def _from_the_blocks_start(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    begin = (queries // window * window)[:, None]
    near = (keys > begin - window) & (keys < begin + (window if is_causal else 2 * window))
    return _with_globals(near, queries, keys, is_causal, num_global)


def _neighbouring_blocks(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    near = ((queries // window)[:, None] - keys // window).abs() <= 1
    return _with_globals(near, queries, keys, is_causal, num_global)


def _wrapped(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    apart = (queries[:, None] - keys) % len(keys)
    near = (apart < window) | (not is_causal) & (len(keys) - apart < window)
    allowed = _with_globals(near, queries, keys, is_causal, num_global)
    return allowed | near  # the causal rule is what the modulus was taken for


def _blind_globals(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    near = ((queries[:, None] - keys).abs() < window) | (keys < num_global)
    return _with_globals(near, queries, keys, is_causal, 0)


def _unseen_globals(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    near = ((queries[:, None] - keys).abs() < window) | (queries < num_global)[:, None]
    return _with_globals(near, queries, keys, is_causal, 0)


def _globals_see_ahead(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window, is_causal, num_global) | (queries < num_global)[:, None]


def _one_global_more(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window, is_causal, num_global + 1 if num_global else 0)


def _one_global_only(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window, is_causal, min(num_global, 1))


def _last_tokens_global(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    first = len(keys) - num_global
    allowed = may_attend(queries, keys, window, False, 0) | (queries >= first)[:, None] | (keys >= first)
    return allowed & (keys <= queries[:, None]) if is_causal else allowed


def _no_globals(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    return may_attend(queries, keys, window, is_causal, 0)


def _globals_among_themselves(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    near = (queries[:, None] - keys).abs() < window
    return _with_globals(near | ((queries < num_global)[:, None] & (keys < num_global)), queries, keys, is_causal, 0)


def _future_of_own_block(behind: bool) -> Allowed:
    """Later keys up to the end of the block are seen, with is_causal too; global rows are right. Blocks begin at the
    first token, or behind the global ones."""

    def allowed(queries: Tensor, keys: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
        right = may_attend(queries, keys, window, is_causal, num_global)
        first = num_global if behind else 0
        end = ((queries - first) // window + 1)[:, None] * window + first
        near = (keys < num_global) | ((queries[:, None] - keys).abs() < window) & (keys < end)
        return right | near & is_causal & (queries >= num_global)[:, None]

    return allowed


# Of each: the decision, then what was done, why it is wrong, and the nudge, as a learner reads them for both names.
SEEN: dict[str, tuple[Allowed, str, str, str]] = {
    "one_too_wide": (
        _too_wide,
        _("The window reached one token too far: a distance of `window` was let through."),
        _("A window of 1 is the token itself, at distance 0; the token at distance `window` lies outside."),
        _("How far away is the last of `window` tokens when the first is the token itself? Is it < or <=?"),
    ),
    "one_too_narrow": (
        _too_narrow,
        _("The window was one token short: only distances below window - 1 were let through."),
        _(
            "The token itself counts as one of the `window` tokens, but its distance is 0, so distances up to "
            "window - 1 belong to it. With window = 1 nothing would be left."
        ),
        _("How many tokens does a query see with window = 2, and which ones?"),
    ),
    "half_on_each_side": (
        _both_sides,
        _("The window was taken for the width of both sides together: half of it lay before the token, half behind."),
        _("That is how Longformer counts its attention_window. Here |i - j| < window holds on either side."),
        _("Into how many parts does |i - j| < window divide the window?"),
    ),
    "future_seen": (
        _future_seen,
        _("is_causal was not looked at: tokens saw the later tokens of their window."),
        _("A model that is to predict the next token must not see it, and the window does not change that."),
        _("Which of the keys inside the window come after the query?"),
    ),
    "always_causal": (
        _always_causal,
        _("The later tokens were hidden with is_causal=False, too."),
        _("Without is_causal the window lies on both sides of the token."),
        _("Under which condition are later keys to be hidden, and does the code ask for it?"),
    ),
    "window_only_behind": (
        _past_only,
        _("The window held earlier tokens only, also without is_causal, where global tokens alone looked ahead."),
        _("The distance |i - j| has no sign: without is_causal the later neighbours belong to the window."),
        _("What is i - j for a key that comes after the query, and is it below `window`?"),
    ),
    "no_window": (
        _no_window,
        _("No window was applied: every query saw all the tokens that the causal rule left to it."),
        _("The distance between query and key decides, and without it this is ordinary attention."),
        _("Which key is the farthest that the last query may see?"),
    ),
    "open_to_the_past": (
        _no_lower_end,
        _("The window ended ahead of the token only: all of the past stayed visible."),
        _("Both conditions are needed: a key must not be too far ahead, nor too far behind."),
        _("tril and triu cut on one side each. Which side of the band was cut?"),
    ),
    "own_token_hidden": (
        _own_token_hidden,
        _("The token itself was hidden, and the window began at its neighbour."),
        _("A causal token sees itself and the window - 1 tokens before it."),
        _("Which distance has a token from itself, and is it below `window`?"),
    ),
    "later_tokens_instead": (
        _ahead,
        _("With is_causal the later tokens were seen and the earlier ones hidden: the mask was turned round."),
        _("Row i belongs to query i, and its past are the columns j <= i, left of the diagonal."),
        _("Write down row 3 of the mask. On which side of the diagonal are its Trues?"),
    ),
    "blocks_cut_off": (
        _within_blocks,
        _("Tokens saw their own block only: the first token of a block did not see the token just before it."),
        _(
            "The window slides from token to token. Cut into blocks, neighbours on both sides of a border are "
            "strangers."
        ),
        _("Which keys does the first query of a block need, and in which block do they lie?"),
    ),
    "future_ends_with_the_block": (
        _future_of_the_block,
        _("Of the later tokens in the window only those of the own block were seen: the keys ended with the block."),
        _("Without is_causal the window of the block's last query reaches as far ahead as behind: into the next."),
        _("Up to which key may the last query of a block look, with is_causal=False?"),
    ),
    "from_the_blocks_start": (
        _from_the_blocks_start,
        _("The window was measured from the start of the block and not from each query."),
        _("Every query of the block then sees the same keys, too many of them for most."),
        _("The window of the block's last query begins later than that of its first. How much later?"),
    ),
    "whole_neighbouring_blocks": (
        _neighbouring_blocks,
        _("Each block saw all of the blocks beside it, without a mask inside them."),
        _("Two blocks hold up to twice the window: queries then see keys that are farther away than the window."),
        _("The keys of the neighbouring block are needed, but by which of the queries?"),
    ),
    "wraps_around": (
        _wrapped,
        _(
            "The window wrapped around: the first tokens saw the last ones, as torch.roll or an index below 0 "
            "gives them."
        ),
        _("A text is no ring. Before its first token there is nothing to see."),
        _("What does index -1 mean in Python, and what should the first token see there?"),
    ),
    "global_tokens_are_blind": (
        _blind_globals,
        _("Global tokens were seen by all, but saw their own window only."),
        _("A global token gathers what the whole text says, so its row has to be open as well as its column."),
        _("Which rows of the mask does num_global open, and which columns?"),
    ),
    "global_tokens_are_unseen": (
        _unseen_globals,
        _("Global tokens saw all, but were seen from within their window only."),
        _(
            "What a global token has gathered is of use to the others only if they can read it: its column has to"
            " be open as well as its row."
        ),
        _("Which rows of the mask does num_global open, and which columns?"),
    ),
    "global_tokens_see_ahead": (
        _globals_see_ahead,
        _("With is_causal the global tokens saw later tokens all the same."),
        _(
            "is_causal hides every later key, of global queries too: else the first token knows the end of the "
            "text, and tells all the others."
        ),
        _("In which order are the two rules applied, and which has the last word?"),
    ),
    "one_global_token_more": (
        _one_global_more,
        _("One token too many was global: the positions up to num_global, and not those below it."),
        _("Positions count from 0, so the first num_global tokens are 0 to num_global - 1."),
        _("Which positions have the first two tokens?"),
    ),
    "one_global_token_only": (
        _one_global_only,
        _("Only the first token was global, whatever num_global says."),
        _("num_global is a number of tokens, counted from the start of the text."),
        _("Which tokens are global when num_global is 3?"),
    ),
    "last_tokens_are_global": (
        _last_tokens_global,
        _("The last num_global tokens were taken for the global ones."),
        _("The first ones are global: that is where a token like [CLS] stands, and a causal text can use no others."),
        _("What does a slice with a negative start take?"),
    ),
    "no_global_tokens": (
        _no_globals,
        _("num_global was not looked at: no token was global."),
        _("The first num_global tokens see all and are seen by all."),
        _("Which rows and columns of the mask change when num_global goes from 0 to 1?"),
    ),
    "global_among_themselves": (
        _globals_among_themselves,
        _("Global tokens saw each other, and were otherwise like all the rest: `and` where `or` was meant."),
        _("A pair is open where the query is global or the key is, and not only where both are."),
        _("Is the pair of a global query and an ordinary key open?"),
    ),
}


def _of_mask(name: str) -> Callable[..., Tensor]:
    allowed, *said = SEEN[name]

    def window_mask(
        num_tokens: int,
        window: int,
        is_causal: bool = True,
        num_global: int = 0,
        device: torch.device | str | None = None,
    ) -> Tensor:
        positions = torch.arange(num_tokens, device=device)
        return allowed(positions, positions, window, is_causal, num_global)

    window_mask.__doc__ = "\n\n".join(said)
    caught_by = "test_mask_of_any_size" if name in LATE_IN_A_MASK else "test_mask_by_hand"
    return misconception(replaces="window_mask", caught_by=caught_by)(_named(window_mask, f"mask_{name}"))


def _of_attention(name: str) -> Callable[..., Tensor]:
    allowed, *said = SEEN[name]

    def window_attention(
        query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
    ) -> Tensor:
        return _attended(query, key, value, window, is_causal, num_global, allowed=allowed)

    window_attention.__doc__ = "\n\n".join(said)
    if name in ("global_tokens_see_ahead", "one_global_token_only"):
        caught_by = "test_global_tokens"
    elif name.startswith(("from_the_blocks_start", "whole_neighbouring_blocks", "half_on_each_side")):
        caught_by = "test_any_length"
    else:
        caught_by = "test_context_by_hand"
    return misconception(replaces="window_attention", caught_by=caught_by)(_named(window_attention, name))


def _named(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    return function


IN_BLOCKS_ONLY = ("blocks_cut_off", "future_ends_with_the_block", "from_the_blocks_start", "whole_neighbouring_blocks")
LATE_IN_A_MASK = ("one_global_token_only", "half_on_each_side")
# Of each public name in turn, so that the catalogue finds them as if they were written out.
globals().update({f"mask_{name}": _of_mask(name) for name in SEEN if name not in IN_BLOCKS_ONLY})
globals().update({name: _of_attention(name) for name in SEEN})
# Blocks may as well begin behind the global tokens.
for _name in ("blocks_cut_off", "from_the_blocks_start", "future_ends_with_the_block"):
    SEEN[f"{_name}_behind_globals"] = (_behind_globals(SEEN[_name][0]), *SEEN[_name][1:])
    globals()[f"{_name}_behind_globals"] = _of_attention(f"{_name}_behind_globals")


for _name, _behind in (("future_of_own_block_seen", False), ("future_of_own_block_seen_behind_globals", True)):
    SEEN[_name] = (_future_of_own_block(_behind), *SEEN["future_seen"][1:])
    globals()[_name] = another_form(globals()["future_seen"])(_of_attention(_name))


# --- the mask -------------------------------------------------------------------------------------------------------


@misconception(replaces="window_mask", caught_by="test_mask_by_hand")
def mask_hides_where_true(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The mask was True where a key is hidden.

    In this course, and in scaled_dot_product_attention, True means that a query may attend.

    What should the diagonal of the mask hold, since every token sees itself?
    """
    positions = torch.arange(num_tokens, device=device)
    return ~may_attend(positions, positions, window, is_causal, num_global)


@misconception(replaces="window_mask", caught_by="test_mask_by_hand")
def mask_of_numbers(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The mask held numbers, 0 and 1, and not True and False.

    A mask of numbers is added to the scores by scaled_dot_product_attention, and ~ does something else to them.

    Which dtype does a comparison give, and what became of it?
    """
    positions = torch.arange(num_tokens, device=device)
    return may_attend(positions, positions, window, is_causal, num_global).float()


@misconception(replaces="window_mask", caught_by="test_mask_of_any_size")
def mask_on_the_cpu(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The mask was made on the CPU, and `device` was not used.

    A model on an accelerator would mix tensors of two devices.

    Which of the calls makes a new tensor, and what does it have to be told?
    """
    positions = torch.arange(num_tokens)
    return may_attend(positions, positions, window, is_causal, num_global)


# --- attention: numbers ---------------------------------------------------------------------------------------------


@misconception(replaces="window_attention", caught_by="test_any_length")
def not_scaled(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were not scaled.

    The wider the heads, the larger their dot products: without a division by the root of d the softmax saturates.

    By what did `attention` divide the scores, in step 3?
    """
    return _attended(query, key, value, window, is_causal, num_global, scale=1.0)


@misconception(replaces="window_attention", caught_by="test_any_length")
def scaled_by_the_window(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were divided by the root of the window.

    A score is a dot product of d numbers, however many keys the window holds.

    How many products are summed up in one score?
    """
    return _attended(query, key, value, window, is_causal, num_global, scale=max(window, 1) ** -0.5)


@misconception(replaces="window_attention", caught_by="test_any_length")
def scaled_by_d(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were divided by d and not by its root.

    A sum of d products of ordinary size is of the size of the root of d, so d is too much.

    Is the scaling done twice, or is a root missing?
    """
    return _attended(query, key, value, window, is_causal, num_global, scale=1 / query.shape[-1])


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def no_maximum_subtracted(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The exponentials were taken of the scores as they are, without their maximum subtracted.

    exp(1000) is infinite, and a row of infinities divided by its sum is NaN.

    What may be subtracted from all scores of a row without changing its softmax?
    """

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        exponentials = scores.exp() * mask
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return _attended(query, key, value, window, is_causal, num_global, weigh=weigh)


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def one_maximum_for_all(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """One maximum was subtracted from the scores of all rows.

    A row whose own scores all lie far below it has nothing but zeros left, and 0 / 0 is NaN.

    Over which dimension is the maximum of a softmax taken?
    """

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        exponentials = (scores - scores.amax()).exp() * mask
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return _attended(query, key, value, window, is_causal, num_global, weigh=weigh)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def hidden_after_the_softmax(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The weights outside the window were set to 0 after the softmax, and not divided by what was left.

    The softmax had shared out some of the weight to hidden keys, so that the rows no longer sum to 1.

    What does each row of weights sum to?
    """
    return _attended(
        query, key, value, window, is_causal, num_global, weigh=lambda scores, mask: scores.softmax(-1) * mask
    )


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def scores_times_the_mask(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores were multiplied by the mask, so that hidden keys had a score of 0.

    exp(0) is 1: a hidden key then weighs as much as any key with a score of 0.

    Which score has a weight of exactly 0?
    """
    return _attended(
        query, key, value, window, is_causal, num_global, weigh=lambda scores, mask: (scores * mask).softmax(-1)
    )


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def hidden_by_a_small_number(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Hidden scores were set to a number like -100 that real scores can fall below.

    Where all visible scores of a row are near -1000, the hidden ones win.

    Which number lies below every score there can be?
    """
    return _attended(
        query, key, value, window, is_causal, num_global,
        weigh=lambda scores, mask: scores.masked_fill(~mask, -100.0).softmax(-1),
    )  # fmt: skip


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def empty_places_attended(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The keys were padded with zeros at the ends, and the padding was attended to.

    A key of zeros has the score 0, and its weight is not 0: the first tokens lose weight to places that do not exist.

    What has to happen to the scores of places before the first token?
    """
    _require(query, key, window)
    tokens, ahead = query.shape[-2], 0 if is_causal else window - 1
    keys, values = (F.pad(tensor, (0, 0, window - 1, ahead)) for tensor in (key, value))
    positions = torch.arange(tokens, device=query.device)
    contexts = []
    for rows in positions.split(window):
        places = torch.arange(1 - window, tokens + ahead, device=query.device)
        near = may_attend(rows, places, window, is_causal, 0)
        allowed = near | (places >= 0) & may_attend(rows, places, window, is_causal, num_global)
        scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ keys.transpose(-2, -1)
        contexts.append(_softmax(scores, allowed) @ values)
    return torch.cat(contexts, dim=-2)


@misconception(replaces="window_attention", caught_by="test_large_scores_and_gradients")
def nan_in_the_padding(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Rows of padding, which see no key at all, went through the softmax and were cut off afterwards.

    A softmax over nothing but -inf is NaN. Cutting it off hides it in the result, but NaN times 0 is NaN: the
    gradients of all the real tokens are lost.

    What should a row of padding attend to, so that its numbers stay finite?
    """
    _require(query, key, window)
    tokens = query.shape[-2]
    padded = F.pad(query, (0, 0, 0, window))
    positions = torch.arange(tokens, device=query.device)
    contexts = []
    for rows in torch.arange(tokens + window, device=query.device).split(window):
        scores = padded[..., rows, :] * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
        allowed = may_attend(rows, positions, window, is_causal, num_global) & (rows < tokens)[:, None]
        contexts.append(_softmax(scores, allowed) @ value)
    return torch.cat(contexts, dim=-2)[..., :tokens, :]


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def global_keys_twice(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Global keys were put beside the keys of the window, and those inside the window counted twice.

    The softmax takes the copy for another key, so that a global token near by gets twice its weight.

    Which of the global keys lie inside the window of the query already?
    """
    _require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    contexts = []
    for rows in positions.split(window):
        first = positions[:num_global]
        seen = torch.cat((first, positions))
        near = may_attend(rows, positions, window, is_causal, 0) | (
            (rows < num_global)[:, None] & may_attend(rows, positions, window, is_causal, num_global)
        )
        allowed = torch.cat((may_attend(rows, first, window, is_causal, num_global), near), dim=-1)
        scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ key[..., seen, :].transpose(-2, -1)
        contexts.append(_softmax(scores, allowed) @ value[..., seen, :])
    return torch.cat(contexts, dim=-2)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def two_softmaxes(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The window and the global keys each had a softmax of their own, and the two contexts were averaged.

    Each softmax shares out a whole weight of 1, however small its scores are beside those of the other.

    Over which keys together do the weights of one query have to sum to 1?
    """
    _require(query, key, window)
    tokens = query.shape[-2]
    positions = torch.arange(tokens, device=query.device)
    contexts = []
    for rows in positions.split(window):
        scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
        near = may_attend(rows, positions, window, is_causal, 0)
        both = may_attend(rows, positions, window, is_causal, num_global)
        rest = both & ~near
        apart = torch.softmax(scores.masked_fill(~rest, torch.finfo(scores.dtype).min), dim=-1) @ value
        local = _softmax(scores, near) @ value
        contexts.append(torch.where(rest.any(-1, keepdim=True), (local + apart) / 2, local))
    return torch.cat(contexts, dim=-2)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def first_key_aligned(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """scaled_dot_product_attention was given a block of queries, more keys than that, and is_causal=True.

    It aligns its causal mask to the first key: query 0 of the block then sees key 0 alone, the one farthest back, and
    not its own.

    Which position has the first query of the block, and which the first key that it is given?
    """
    _require(query, key, window)
    if not is_causal or num_global:
        return window_attention(query, key, value, window, is_causal, num_global)
    contexts = []
    for first in range(0, query.shape[-2], window):
        rows, seen = slice(first, first + window), slice(max(0, first - window + 1), first + window)
        contexts.append(
            F.scaled_dot_product_attention(query[..., rows, :], key[..., seen, :], value[..., seen, :], is_causal=True)
        )
    return torch.cat(contexts, dim=-2)


# --- attention: blocks, memory, arguments ---------------------------------------------------------------------------


@misconception(replaces="window_attention", caught_by="test_any_length")
def last_block_dropped(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The last block, which the window does not fill, was left out: its contexts stayed 0.

    The number of blocks was rounded down, so that the tokens after the last full one had no turn.

    How many blocks does a text of 7 tokens have, in blocks of 3?
    """
    context = _attended(query, key, value, window, is_causal, num_global)
    tokens = query.shape[-2]
    full = tokens // window * window or tokens
    return torch.cat((context[..., :full, :], torch.zeros_like(context[..., full:, :])), dim=-2)


@misconception(replaces="window_attention", caught_by="test_any_length")
def last_block_missing(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The last block, which the window does not fill, was left out: the result has fewer rows than there are queries.

    The number of blocks was rounded down, so that the tokens after the last full one had no turn.

    How many blocks does a text of 7 tokens have, in blocks of 3?
    """
    tokens = query.shape[-2]
    return _attended(query, key, value, window, is_causal, num_global)[..., : tokens // window * window or tokens, :]


@misconception(replaces="window_attention", caught_by="test_any_length")
def padding_kept(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The text was padded to a multiple of the window, and the rows of the padding were returned too.

    Whoever asked for T contexts gets more of them.

    How many queries came in, and how many contexts go out?
    """
    context = _attended(query, key, value, window, is_causal, num_global)
    return F.pad(context, (0, 0, 0, -query.shape[-2] % window))


@misconception(replaces="window_attention", caught_by="test_any_length")
def multiples_only(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The tokens were laid out in blocks by a reshape that needs a multiple of the window.

    Texts have any length, so that the last block is seldom full.

    What can be put behind the last token, so that the blocks come out even, and how is it kept from being seen?
    """
    _require(query, key, window)
    blocks = query.reshape(*query.shape[:-2], query.shape[-2] // window, window, query.shape[-1])
    return _attended(blocks.flatten(-3, -2), key, value, window, is_causal, num_global)


@misconception(replaces="window_attention", caught_by="test_memory", misses_the_point=True)
def mask_of_all_pairs(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores came in blocks, but the mask that they were cut from was made for all pairs of tokens.

    A mask is a tensor too: T x T of them take as many places as the matrix that was to be avoided.

    Which part of the mask does one block need, and from which positions is it made?
    """
    _require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    mask = may_attend(positions, positions, window, is_causal, num_global)
    return _attended(
        query, key, value, window, is_causal, num_global, allowed=lambda queries, keys, *_rest: mask[queries]
    )


@misconception(replaces="window_attention", caught_by="test_memory", misses_the_point=True)
def whole_matrix(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The scores of all pairs of tokens were computed, and all but the window was masked away.

    The context is right, but nothing was saved: time and memory still grow with the square of the length.

    Which keys can a block of queries see at all? Can the others be left out before the product?
    """
    _require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    mask = may_attend(positions, positions, window, is_causal, num_global)
    return _softmax(query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5, mask) @ value


@misconception(replaces="window_attention", caught_by="test_memory", misses_the_point=True)
def built_in_with_a_mask(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """scaled_dot_product_attention was given the whole mask, of all pairs of tokens.

    The context is right, but the mask alone is as large as the matrix, and the built-in computes all of the scores.

    The built-in may be used on blocks. Which queries and keys belong together?
    """
    _require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    mask = may_attend(positions, positions, window, is_causal, num_global)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@misconception(replaces="window_attention", caught_by="test_memory")
def window_copied_for_each_token(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Every token got a copy of all the keys in its window: T x window x d numbers.

    Neighbours have nearly the same window, so that each key was copied `window` times.

    How many different keys do the queries of one block see together? Do they need a copy each?
    """
    _require(query, key, window)
    if num_global:
        return window_attention(query, key, value, window, is_causal, num_global)
    tokens, ahead = query.shape[-2], 0 if is_causal else window - 1
    keys, values = (F.pad(tensor, (0, 0, window - 1, ahead)) for tensor in (key, value))
    span = window + ahead
    places = torch.arange(span, device=query.device) + torch.arange(tokens, device=query.device)[:, None]
    exists = (places >= window - 1) & (places < window - 1 + tokens)
    scores = torch.einsum("...td,...tsd->...ts", query * query.shape[-1] ** -0.5, keys[..., places, :])
    return torch.einsum("...ts,...tsd->...td", _softmax(scores, exists), values[..., places, :])


@misconception(replaces="window_attention", caught_by="test_memory_with_global_tokens")
def whole_matrix_for_global_tokens(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """With global tokens the scores of all pairs of tokens were computed.

    Global tokens add num_global rows and num_global columns. All other pairs outside the window stay unseen.

    How many scores do the global rows have, and how many the global columns?
    """
    if not num_global:
        return window_attention(query, key, value, window, is_causal, num_global)
    return whole_matrix(query, key, value, window, is_causal, num_global)


@misconception(replaces="window_attention", caught_by="test_wrong_arguments_are_refused")
def unequal_lengths_accepted(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Queries and keys of different lengths were accepted.

    Query i and key i are then no longer the same token, and the window means nothing.

    Is the length of the keys compared with that of the queries?
    """
    tokens = min(query.shape[-2], key.shape[-2])
    return window_attention(
        query[..., :tokens, :], key[..., :tokens, :], value[..., :tokens, :], window, is_causal, num_global
    )


@misconception(replaces="window_attention", caught_by="test_wrong_arguments_are_refused")
def empty_window_accepted(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """A window of 0 was accepted.

    No token would see anything then, not even itself, and a softmax over nothing is NaN.

    What does the code do with window = 0, and what should it say?
    """
    return window_attention(query, key, value, max(window, 1), is_causal, num_global)


@misconception(replaces="window_attention", caught_by="test_halves_meta_and_inputs")
def query_scaled_in_place(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The query was scaled in place: the caller's tensor holds other numbers afterwards.

    `*=` and `mul_` write into the tensor they are given, and that one is not yours.

    Which line makes a new tensor, and which writes into the old one?
    """
    _require(query, key, window)
    query *= query.shape[-1] ** -0.5
    return _attended(query, key, value, window, is_causal, num_global, scale=1.0)


@misconception(replaces="window_attention", caught_by="test_any_length")
def float32_inside(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The work was done in float32, whatever the dtype of the input.

    A float64 input loses half of its digits on the way.

    Which tensors are made with a dtype, or converted to one?
    """
    wide = (tensor.float() for tensor in (query, key, value))
    return window_attention(*wide, window, is_causal, num_global).to(query.dtype)


@misconception(replaces="window_attention", caught_by="test_halves_meta_and_inputs")
def filled_a_float32_result(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The contexts were written into a tensor that was made without the dtype of the input.

    torch.zeros makes float32 on the CPU unless it is told otherwise, so that a half comes back as float32.

    What does torch.zeros have to be told, or which function makes a tensor like another one?
    """
    context = window_attention(query, key, value, window, is_causal, num_global)
    return context if context.dtype == torch.float64 else context.float()


@misconception(replaces="window_attention", caught_by="test_any_length")
def key_and_value_exchanged(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Keys and values were exchanged: the scores were taken with the values, and the keys were averaged.

    Keys say where to look, values what is found there.

    Which of the two is multiplied by the query, and which by the weights?
    """
    if key.shape[-1] != value.shape[-1]:
        key = F.pad(key, (0, value.shape[-1] - key.shape[-1]))
        query = F.pad(query, (0, value.shape[-1] - query.shape[-1]))
    return _attended(query, value, key, window, is_causal, num_global, scale=query.shape[-1] ** -0.5)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def averaged_over_the_window(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The sum of the exponentials was divided by the window and not by itself.

    The weights of a row have to sum to 1, and at the start of the text fewer keys are there than the window holds.

    By what are the exponentials of a softmax divided?
    """

    def weigh(scores: Tensor, mask: Tensor) -> Tensor:
        scores = scores.masked_fill(~mask, -torch.inf)
        return (scores - scores.amax(dim=-1, keepdim=True)).exp() / window

    return _attended(query, key, value, window, is_causal, num_global, weigh=weigh)


# --- other forms of the same ----------------------------------------------------------------------------------------


@another_form(last_block_missing)
def text_cut_to_whole_blocks(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    _require(query, key, window)
    tokens = query.shape[-2]
    full = tokens // window * window or tokens
    parts = (tensor[..., :full, :] for tensor in (query, key, value))
    return window_attention(*parts, window, is_causal, min(num_global, full))


@another_form(last_block_dropped)
def last_block_behind_globals_dropped(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Blocks begin behind the global tokens."""
    context = window_attention(query, key, value, window, is_causal, num_global)
    full = num_global + (query.shape[-2] - num_global) // window * window
    return torch.cat((context[..., :full, :], torch.zeros_like(context[..., full:, :])), dim=-2)


@another_form(window_copied_for_each_token)
def window_unfolded_for_each_token(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Views of the keys, which the product copies where there are several heads."""
    _require(query, key, window)
    tokens, ahead = query.shape[-2], 0 if is_causal else window - 1
    keys, values = (F.pad(x, (0, 0, window - 1, ahead)).unfold(-2, window + ahead, 1) for x in (key, value))
    positions = torch.arange(tokens, device=query.device)
    places = positions[:, None] + torch.arange(1 - window, ahead + 1, device=query.device)
    scores = torch.einsum("...td,...tds->...ts", query * query.shape[-1] ** -0.5, keys)
    scores = scores.masked_fill((places < num_global) | (places >= tokens), -torch.inf)
    allowed = may_attend(positions, positions[:num_global], window, is_causal, num_global)
    first = query * query.shape[-1] ** -0.5 @ key[..., :num_global, :].transpose(-2, -1)
    weights = torch.softmax(torch.cat((scores, first.masked_fill(~allowed, -torch.inf)), dim=-1), dim=-1)
    near, of_globals = weights.split((window + ahead, num_global), dim=-1)
    context = torch.einsum("...ts,...tds->...td", near, values) + of_globals @ value[..., :num_global, :]
    if not num_global:
        return context
    rows = window_attention(query, key, value, window, is_causal, num_global)[..., :num_global, :]
    return torch.cat((rows, context[..., num_global:, :]), dim=-2)


@another_form(global_keys_twice)
def global_keys_twice_for_others(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The global queries are right, as where they are worked out apart."""
    context = window_attention(query, key, value, window, is_causal, num_global)
    twice = global_keys_twice(query, key, value, window, is_causal, num_global)
    return torch.cat((context[..., :num_global, :], twice[..., num_global:, :]), dim=-2)


def _at_one_end(front: bool) -> Callable[..., Tensor]:
    """Zeros before the first token, or behind the last one, are attended to."""

    def attended(
        query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
    ) -> Tensor:
        _require(query, key, window)
        tokens = query.shape[-2]
        ends = (0, 0, window - 1, 0) if front else (0, 0, 0, window - 1)
        keys, values = F.pad(key, ends), F.pad(value, ends)
        positions = torch.arange(tokens, device=query.device)
        places = torch.arange(-ends[2], tokens + ends[3], device=query.device)
        contexts = []
        for rows in positions.split(window):
            near = may_attend(rows, places, window, is_causal, 0)
            real = (places >= 0) & (places < tokens)
            allowed = near | real & may_attend(rows, places, window, is_causal, num_global)
            scores = query[..., rows, :] * query.shape[-1] ** -0.5 @ keys.transpose(-2, -1)
            contexts.append(_softmax(scores, allowed) @ values)
        return torch.cat(contexts, dim=-2)

    return attended


places_before_the_text_attended = another_form(empty_places_attended)(
    _named(_at_one_end(front=True), "places_before_the_text_attended")
)


@misconception(replaces="window_attention", caught_by="test_context_by_hand")
def two_softmaxes_added(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The window and the global keys each had a softmax of their own, and the two contexts were added.

    The weights of a query then sum to 2, and each softmax shares out a whole weight of 1, however small its scores are.

    Over which keys together do the weights of one query have to sum to 1?
    """
    _require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    near = may_attend(positions, positions, window, is_causal, 0)
    both = may_attend(positions, positions, window, is_causal, num_global)
    ordinary = (positions >= num_global)[:, None]
    scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
    first = both & (positions < num_global)
    apart = torch.where(first.any(-1, keepdim=True), _softmax(scores, first | ~first.any(-1, keepdim=True)), 0.0)
    local = _softmax(scores, (near & ~first) | ~ordinary & both)
    return (local + torch.where(ordinary, apart, 0.0)) @ value


@another_form(mask_on_the_cpu)
def mask_written_on_the_cpu(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Rows and columns are written into it, which shows where `meta` is the default device."""
    mask = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril(window - 1).triu(1 - window)
    mask[:num_global] = True
    mask[:, :num_global] = True
    return mask.tril() if is_causal else mask


def _dropped(query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool, num_global: int) -> Tensor:
    """Zeros where the window does not fill a block, also in a text shorter than the window; global rows are right."""
    context = _attended(query, key, value, window, is_causal, num_global)
    positions = torch.arange(query.shape[-2], device=query.device)
    written = (positions < query.shape[-2] // window * window) | (positions < num_global)
    return context.masked_fill(~written[:, None], 0.0)


@another_form(last_block_dropped)
def last_block_of_short_texts_dropped(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    _require(query, key, window)
    return _dropped(query, key, value, window, is_causal, num_global)


@another_form(last_block_missing, caught_by="test_any_length")
def whole_blocks_put_together(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Behind the rows of the global tokens; of a text shorter than the window there is nothing to put together."""
    _require(query, key, window)
    context = _attended(query, key, value, window, is_causal, num_global)
    parts = [context[..., :num_global, :]] if num_global else []
    parts += [part for part in context[..., num_global:, :].split(window, dim=-2) if part.shape[-2] == window]
    return torch.cat(parts, dim=-2)


@another_form(window_copied_for_each_token)
def window_and_globals_copied_for_each_token(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """The global keys stand in front of each token's window."""
    _require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    ahead = 0 if is_causal else window - 1
    near = positions[:, None] + torch.arange(1 - window, ahead + 1, device=query.device)
    first = positions[:num_global].expand(len(positions), num_global)
    seen = torch.cat((first, near.clamp(0, len(positions) - 1)), dim=1)
    there = torch.cat((first <= (positions[:, None] if is_causal else len(positions)), near == seen[:, num_global:]), 1)
    there[:, num_global:] &= near >= num_global
    scores = torch.einsum("...td,...tsd->...ts", query * query.shape[-1] ** -0.5, key[..., seen, :])
    context = torch.einsum("...ts,...tsd->...td", _softmax(scores, there), value[..., seen, :])
    if not num_global:
        return context
    rows = window_attention(query, key, value, window, is_causal, num_global)[..., :num_global, :]
    return torch.cat((rows, context[..., num_global:, :]), dim=-2)


@another_form(global_keys_twice)
def global_keys_of_the_block_twice(
    query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
) -> Tensor:
    """Twice for all queries of a block whose keys begin among the global ones."""
    _require(query, key, window)
    positions = torch.arange(query.shape[-2], device=query.device)
    rows = positions[:num_global]
    contexts = [attend(query, key, value, rows, positions, window, is_causal, num_global)] if num_global else []
    for rows in positions.split(window):
        stop = int(rows[-1]) + (1 if is_causal else window)
        near = positions[max(0, int(rows[0]) - window + 1) : stop]
        seen, own = torch.cat((positions[:num_global], near)), rows[rows >= num_global]
        contexts.append(attend(query, key, value, own, seen, window, is_causal, num_global))
    return torch.cat(contexts, dim=-2)
