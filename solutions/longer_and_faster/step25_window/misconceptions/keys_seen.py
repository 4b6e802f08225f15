"""What learners get wrong in both the mask and attention: which keys are seen."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step25_window.misconceptions.blocks import Allowed, attended_in_blocks
from solutions.longer_and_faster.step25_window.reference import may_attend


def _(text: str) -> str:
    """Marks a sentence that is to be translated; it is looked up when it is read."""
    return text


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
    return misconception(replaces="window_mask", caught_by=caught_by)(named(window_mask, f"mask_{name}"))


def _of_attention(name: str) -> Callable[..., Tensor]:
    allowed, *said = SEEN[name]

    def window_attention(
        query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
    ) -> Tensor:
        return attended_in_blocks(query, key, value, window, is_causal, num_global, allowed=allowed)

    window_attention.__doc__ = "\n\n".join(said)
    if name in ("global_tokens_see_ahead", "one_global_token_only"):
        caught_by = "test_global_tokens"
    elif name.startswith(("from_the_blocks_start", "whole_neighbouring_blocks", "half_on_each_side")):
        caught_by = "test_any_length"
    else:
        caught_by = "test_context_by_hand"
    return misconception(replaces="window_attention", caught_by=caught_by)(named(window_attention, name))


def named(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
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
