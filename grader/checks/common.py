"""Shared by the checks of several steps: dropout and its rate, the cost of all pairs, texts written word by word."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.checks.assertions import binomial_bound, holds
from grader.checks.implementation import Answer, Handle

# A right answer breaks the bound less than once in ten million runs; the fifth on top is for rare events: their number
# is not quite normal. Up to ten rates together refuse a right answer less than once in a million.
ROOM = 1.2
# About how large scores are, how far whole numbers spread them, and the `terms` that leave room: a score of 200 is
# rounded to 1e-5, one of 1,000 to 6e-5, and so is a weight that is made as exp(x - logsumexp(x)). What -1,000 hides
# shows next to scores of -997.
LARGE_SCORES = ((200.0, 3, 4096), (996.875, 1, 25 * 4096))


def shapes(module: Handle) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter."""
    return {name: tuple(value.shape) for name, value in module.parameters().items()}


def with_layers(one: dict[str, tuple[int, ...]], layers: int) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter of a model of so many layers, from those of a model of one: it has block 0 alone."""
    return {
        name.replace("blocks.0.", f"blocks.{layer}."): shape
        for name, shape in one.items()
        for layer in range(layers if "blocks.0." in name else 1)
    }


def silent(initial: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters of these names that are 0, except for norms' weights, which are 1."""
    return {
        name: torch.ones_like(value) if ".ln" in f".{name}" and name.endswith("weight") else torch.zeros_like(value)
        for name, value in initial.items()
    }


def without_queries(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters with all query projections at 0: every key that is shown has the same weight then, so that a
    change of it shows."""
    return {name: value * 0 if name.endswith("W_q.weight") else value for name, value in values.items()}


def first_tensor(value: object) -> Tensor | None:
    """The value itself if it is a tensor, or the first value of a tuple; None if that is no tensor."""
    first = value[0] if isinstance(value, tuple) and value else value
    return first if isinstance(first, Tensor) else None


def of_shape(value: object, shape: tuple[int, ...]) -> Tensor:
    """The first tensor of an answer in training mode. Fails unless it has this shape."""
    first = first_tensor(value)
    sentence = _("In training the result has shape {got}, and it should have {expected}.")
    got = () if first is None else tuple(first.shape)
    holds(first is not None and got == shape, sentence.format(got=got, expected=shape))
    assert first is not None
    return first


# --- dropout ---------------------------------------------------------------------------------------------------------


def share_is_near(happened: Tensor, expected: float, sentence: str) -> None:
    """Fails unless the share of True in `happened` is near the expected rate; the sentence's fields are `count`, `rate`
    and `expected`."""
    rate = float(happened.double().mean())
    near = abs(rate - expected) <= ROOM * binomial_bound(happened.numel(), expected)
    holds(near, sentence.format(count=happened.numel(), rate=rate, expected=expected))


def share_is(happened: Tensor, expected: float, rate: float, what: str) -> None:
    """Fails unless the share of True in `happened` (dropped or not) is near the expected one. For the message:
    dropout's `rate`, and in words `what` may be dropped."""
    share = float(happened.double().mean()) if happened.numel() else 0.0
    sentence = _(
        "In training mode with dropout = {rate:.2f} a share of {share:.3f} of {what} looks dropped, expected "
        "{expected:.3f}."
    )
    near = abs(share - expected) <= ROOM * binomial_bound(max(happened.numel(), 1), expected)
    holds(near, sentence.format(rate=rate, share=share, what=what, expected=expected))


def draws_differ(first: Tensor, second: Tensor, what: str) -> None:
    """Fails if the results of two calls in training mode are equal; `what` says, in words, of what they drop."""
    sentence = _("Two calls in training dropped the same of {what}. Each call should draw by itself.")
    holds(not torch.equal(first, second), sentence.format(what=what))


def columns_drop(first: Tensor, second: Tensor, rate: float, what: str, inner: str) -> None:
    """Fails unless the results of two calls (…, width) have dropped numbers, which are below 0, at the rate, in other
    places each, and tokens of an inner dropout, which are all 0. `what` and `inner` say in words what is dropped;
    without an inner dropout the latter is empty."""
    both = torch.cat([first, second])
    lost = (both.abs() < 1e-3).all(dim=-1)
    sentence = _("In training mode with dropout = {rate:.2f} nothing is dropped from {what} in front of the norm.")
    holds(not any(bool(each.all()) for each in lost.chunk(2)), sentence.format(rate=rate, what=what))
    if inner:
        share_is(lost, rate, rate, inner)
    share_is(both[~lost] < -1e-3, rate, rate, what)
    survivors = both.masked_fill(both < -1e-3, torch.nan)[~lost]
    spread = survivors.nan_to_num(nan=-1e9).amax(dim=-1) - survivors.nan_to_num(nan=1e9).amin(dim=-1)
    sentence = _(
        "In training, numbers of {what} that were kept came out in different sizes. Dropout acts once on them."
    )
    holds(bool((spread < 1e-2).all()), sentence.format(what=what))
    draws_differ(first, second, what)


def weights_are_zero_or_scaled(got: Tensor, plain: Tensor, rate: float) -> None:
    """Fails unless every weight in `got` is either 0 or the one in `plain`, without dropout, times 1 / (1 - rate)."""
    scaled = plain / (1 - rate)
    stray = ~((got.abs() <= 1e-5) | ((got - scaled).abs() <= 1e-5))
    if not stray.any():
        return
    index = tuple(stray.nonzero()[0].tolist())
    sentence = _(
        "With dropout {p} a weight of {plain:.4f} came out as {got:.4f}. "
        "A dropped weight is 0, and a kept one is multiplied by 1 / (1 - {p}), which makes {kept:.4f}."
    )
    said = {"plain": float(plain[index]), "got": float(got[index]), "kept": float(scaled[index])}
    holds(False, sentence.format(p=rate, **said))


def weights_fall_alone(dropped: Tensor, rate: float) -> None:
    """Fails unless weights are dropped independently of each other; `dropped` says which were, as booleans of shape
    (B, H, T_q, T_k), or (B, T_q, T_k) of one head."""
    sentences = (
        _("Two sequences lost the same weights: {rate:.3f} of {count} pairs, expected {expected:.3f}."),
        _("Two heads lost the same weights: {rate:.3f} of {count} pairs, expected {expected:.3f}."),
        _("Two queries lost the same keys: {rate:.3f} of {count} pairs, expected {expected:.3f}."),
        _("Two keys were lost together: {rate:.3f} of {count} pairs, expected {expected:.3f}."),
    )
    for dim, sentence in enumerate(sentences if dropped.dim() == 4 else (sentences[0], *sentences[2:])):
        first, second = dropped.chunk(2, dim)  # no weight is in two pairs
        share_is_near(first & second, rate**2, sentence)


# --- all pairs -------------------------------------------------------------------------------------------------------


def no_pieces(got: Answer, allowed: int, matrix: int) -> None:
    """Fails if the tensors that were there at once could hold the matrix of all pairs."""
    live = got.measured("live")
    holds(
        live <= allowed,
        _(
            "The tensors that were there at the same time had {live} elements, and at most {allowed} are allowed; a "
            "matrix of all pairs has {matrix}, also in pieces that are kept in a list."
        ).format(live=live, allowed=allowed, matrix=matrix),
    )


def no_pairs(got: Answer, most: int) -> None:
    """Fails if the matrix products of the call took more than `most` operations (multiplications and additions), which
    the check sets below those of all pairs."""
    products = sum(got.measured("products").values())
    holds(
        products <= most,
        _(
            "The matrix products took {products} operations, and at most {most} are allowed: most pairs must not be "
            "multiplied at all."
        ).format(products=products, most=most),
    )


# --- texts -----------------------------------------------------------------------------------------------------------


def is_at_home(model: Handle, *inputs: Tensor) -> bool:
    """Whether a model can be called with `meta` as the default device: one that makes its mask elsewhere and moves it
    to its input is right, but tells nothing about the loop on `meta`."""
    try:
        model.using(made_on_meta=True)(*inputs)
    except CheckFailed as failure:
        if not failure.by_code:
            raise
        return False
    return True


def written(logits_of: Callable[[Tensor], Tensor], expected: Tensor) -> Tensor:
    """The ids (B, 1 + T) that a model generates greedily from the first of each row if nothing ends a row; `logits_of`
    maps (B, T) ids to (B, T, words) logits. A right model writes the `expected` ones, which one call shows; any other
    is asked word by word. They test the loop and not the model."""
    if torch.equal(logits_of(expected[:, :-1]).argmax(dim=-1), expected[:, 1:]):
        return expected
    ids = expected[:, :1]
    for _word in range(expected.shape[1] - 1):
        ids = torch.cat([ids, logits_of(ids)[:, -1:].argmax(dim=-1)], dim=1)
    return ids


def until(free: Tensor, eos_id: int) -> Tensor:
    """The ids (B, T) that a model generates if this id ends a row and it writes `free` if nothing does: a row's words
    depend on those before, and on no other row."""
    ended = (free[:, 1:] == eos_id).cumsum(dim=1) > 0  # not by the first id, which was given
    return torch.cat([free[:, :1], free[:, 1:].masked_fill(ended, eos_id)], dim=1)


def ends(free: Tensor, eos_id: int) -> int:
    """The number of different positions at which the rows (B, T) of ids, written without an end, would end if this id
    ended them."""
    positions = set()
    for row in free[:, 1:].tolist():
        end = row.index(eos_id) if eos_id in row else len(row)
        if end == len(row) or set(row[end:]) != {eos_id}:
            positions.add(end)
    return len(positions)


def tells(free: Tensor, *unmasked: Tensor, words: int, bos_id: int) -> bool:
    """Whether the loop shows in ids (B, T) that are written without an end, of a vocabulary of so many `words`: rows
    differ, and so do the `unmasked` ids, if given, which are those written without a mask."""
    is_masked = not any(torch.equal(free, other) for other in unmasked)
    return is_masked and ends(free, telling(free, words, bos_id)) > 2


def telling(free: Tensor, words: int, bos_id: int) -> int:
    """The id, of a vocabulary of so many `words`, that would end the rows `free` (B, T) at the most different
    positions. Never `bos_id`, nor 0, which a learner may take for the padding."""
    return max(set(range(1, words)) - {bos_id}, key=lambda eos_id: ends(free, eos_id))


def sooner_end_first(rows: Tensor, free: Tensor, eos_id: int) -> Tensor:
    """The rows in another order: first those of which the ids in `free` (B, T) meet `eos_id` soonest. Code that reads
    row 0 alone then ends the others too early."""
    positions = [row.index(eos_id) if eos_id in row else len(row) for row in free[:, 1:].tolist()]
    return rows[torch.tensor(sorted(range(len(rows)), key=lambda row: (positions[row] > min(positions), row)))]
