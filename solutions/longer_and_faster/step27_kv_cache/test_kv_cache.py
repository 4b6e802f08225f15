"""The checks of step 27: the cache, attention and a model that go on from it, and what generating with it costs."""

import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.checks.assertions import (
    GUARDED,
    Answer,
    Draw,
    Handle,
    Implementation,
    _,
    agree,
    exactly,
    holds,
    must_raise,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.common import LARGE_SCORES
from grader.checks.regimes import (
    LONG,
    NO_DROPOUT,
    NUMBERS,
    OF_A_MODEL,
    AskedFunction,
    AskedModule,
    every_regime,
    not_asked,
)

OFF_LIMITS: dict[str, tuple[str, ...]] = {}
VOCABULARY, BLOCK, LAYERS, HEADS, WIDTH = 11, 12, 2, 2, 16
# Larger token embeddings: what follows depends on every token, and one logit is well above the others.
TOKEN_WEIGHT = 4.0
MOST = 1.5  # times the matrix products of one pass over all tokens
LEAST = 0.86  # of these: the last token goes through no layer, and a query meets no key behind it


def ids(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, ...]:
    """A text."""
    return (draw.integers(0, VOCABULARY, *leading, tokens),)


CALLS = {
    "KVCache": not_asked("no module, and it lives on: what applies is asked in checks of its own"),
    "kv_cache_bytes": NUMBERS,
    "repeat_kv": AskedFunction(lambda draw, leading, tokens: (draw.normal(2, 3, tokens, 4), 2), axes=()),
    "GroupedQueryAttention": AskedModule(
        lambda tokens: (8, 4, 2), lambda draw, leading, tokens: (draw.normal(*leading, tokens, 8),), {"bias": False},
        terms=64, without=NO_DROPOUT,
    ),
    "CachedGPT": AskedModule(
        lambda tokens: (VOCABULARY, tokens, 1, 2, 8, 0.0), ids, terms=64,
        without=dict.fromkeys(("modes", "seed"), "asked for in eval mode alone")
        | {"bias": "whether ln_f keeps one is left open"}
    ),
    "generate_cached": AskedFunction(
        lambda draw, leading, tokens: (draw.integers(0, VOCABULARY, 2, 9), 3), axes=(), without=OF_A_MODEL,
        model=("CachedGPT", VOCABULARY, 12, 1, 2, 8, 0.5),
    ),
}  # fmt: skip


def kept(implementation: Implementation, max_length: int, device: str | None = None) -> Handle:
    """An empty cache, on the device of the run unless another is said."""
    cache = implementation.using(keep=True, device=device).KVCache(max_length)
    holds(isinstance(cache, Handle), _("KVCache(…) should make an object with update, reset and length."))
    return cache  # type: ignore[return-value]  # seen to be one


def require_length(cache: Handle, expected: int) -> None:
    """Fails unless the cache says that it holds this many tokens."""
    got = cache.attribute("length").value
    holds(
        type(got) is int and got == expected,
        _("`length` should be {expected} here, and it is {got}.").format(expected=expected, got=got),
    )


@points(0.5)
def test_cache_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A cache gives back all that it was given so far, in order, and says how many tokens it holds."""
    cache = kept(student, 4)
    require_length(cache, 0)
    key, value = torch.tensor([1.0, 2.0]).view(1, 1, 2, 1), torch.tensor([10.0, 20.0]).view(1, 1, 2, 1)
    exactly(cache.method("update", key, value), (key, value))
    require_length(cache, 2)
    got = cache.method("update", torch.full((1, 1, 1, 1), 3.0), torch.full((1, 1, 1, 1), 30.0))
    exactly(got, (torch.tensor([1.0, 2.0, 3.0]).view(1, 1, 3, 1), torch.tensor([10.0, 20.0, 30.0]).view(1, 1, 3, 1)))
    require_length(cache, 3)


@points(0.25)
def test_cache_keeps_every_bit(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Any shape, dtype, strides and device, bit for bit, without a gradient, and two caches share nothing."""
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        first, second = kept(student, 9), kept(student, 9)
        keys, values = draw.normal(2, 9, 3, 4, dtype=dtype).transpose(1, 2), draw.normal(2, 3, 9, 5, dtype=dtype)
        other = draw.normal(1, 2, 2, 3, dtype=torch.float32)
        start = 0
        for tokens in (3, 1, 5):
            stop = start + tokens
            got = first.using(gradients=True, strided=tokens > 1).method(
                "update", keys[:, :, start:stop], values[:, :, start:stop]
            )
            exactly(got, (keys[:, :, :stop], values[:, :, :stop]))
            unmodified(got)
            holds(
                all(gradient is None for gradient in got.gradients.values()),
                _("A gradient flows through what the cache gives back. What it holds should be detached."),
            )
            start = stop
        exactly(second.method("update", other, other), (other, other))
        require_length(first, 9)
        require_length(second, 2)
    long = other[:, :, :1].expand(1, 2, LONG, 3)
    on_meta, on_reference = kept(student, LONG + 2, "meta"), kept(reference, LONG + 2, "meta")
    for given in (other, long):
        exactly(on_meta.method("update", given, given), on_reference.method("update", given, given))


@points(0.25)
def test_cache_is_full(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A cache takes max_length tokens and no more; one that refuses stays as it was."""
    cache, small = kept(student, 4), kept(student, 1)
    key, value = draw.normal(5, 2, 8, 3), draw.normal(5, 2, 8, 3)  # more rows than tokens: only tokens count
    too_many = _("{count} tokens in a cache of {max_length}")
    exactly(cache.method("update", key[:, :, :3], value[:, :, :3]), (key[:, :, :3], value[:, :, :3]))
    for tokens in (2, 5):
        must_raise(
            lambda tokens=tokens: cache.method("update", key[:, :, :tokens], value[:, :, :tokens]),
            too_many.format(count=3 + tokens, max_length=4),
        )
        require_length(cache, 3)
    exactly(cache.method("update", key[:, :, 3:4], value[:, :, 3:4]), (key[:, :, :4], value[:, :, :4]))
    # Into the empty place behind the last one a single token fits, as torch takes it: 1 broadcasts to 0.
    must_raise(lambda: cache.method("update", key[:, :, 4:5], value[:, :, 4:5]), too_many.format(count=5, max_length=4))
    require_length(cache, 4)
    must_raise(lambda: small.method("update", key, value), too_many.format(count=8, max_length=1))
    require_length(small, 0)
    # What was refused left nothing behind: still the first update says what fits.
    key, value = draw.normal(2, 1, 1, 3, dtype=torch.float64), draw.normal(2, 1, 1, 5, dtype=torch.float64)
    exactly(small.method("update", key, value), (key, value))


@points(0.25)
def test_cache_is_reset(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """After reset the cache is empty, and takes another batch size, width or dtype."""
    cache = kept(student, 3)
    for shape, dtype in (((2, 2, 3, 4), torch.float32), ((2, 2, 2, 4), torch.float32), ((3, 1, 3, 5), torch.float64)):
        key, value = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        exactly(cache.method("update", key[:, :, :1], value[:, :, :1]), (key[:, :, :1], value[:, :, :1]))
        exactly(cache.method("update", key[:, :, 1:], value[:, :, 1:]), (key, value))
        cache.method("reset")
        require_length(cache, 0)


@points(0.25)
def test_repeat_kv(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Each head is repeated in place: 0, 0, 1, 1."""
    x = torch.arange(4.0).view(1, 2, 1, 2)
    by_hand = torch.tensor([[0.0, 1.0], [0.0, 1.0], [2.0, 3.0], [2.0, 3.0]]).view(1, 4, 1, 2)
    # Two rows first: in one row, repeated heads and repeated rows of the batch look alike.
    exactly(student.repeat_kv(torch.cat((x, -x)), 2), torch.cat((by_hand, -by_hand)))
    exactly(student.repeat_kv(x, 2), by_hand)
    for shape, n_rep in (((2, 3, 4, 2), 2), ((3, 2, 2, 5), 3), ((2, 2, 3, 4), 1), ((2, 1, 3, 3), 4)):
        x = draw.normal(*shape)
        expected = reference.using(gradients=True).repeat_kv(x, n_rep)
        got = student.using(gradients=True).repeat_kv(x, n_rep)
        agree(got, expected, terms=n_rep)
        unmodified(got)


@points(0.5)
def test_grouped_attention(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Query heads share heads of keys and values; n_head of them is multi-head, one is multi-query attention."""
    for n_embd, n_head, n_kv_heads, bias in ((8, 4, 2, False), (12, 6, 2, True), (8, 2, 2, False), (12, 3, 1, False)):
        theirs, ours = twins(student, reference, draw, "GroupedQueryAttention", n_embd, n_head, n_kv_heads, bias)
        for batch, tokens in ((1, 1), (2, 5), (n_head, n_head)):
            x = draw.normal(batch, tokens, n_embd)
            got = theirs.using(gradients=True)(x)
            agree(got, ours.using(gradients=True)(x), terms=8 * n_embd)
            unmodified(got)
    for sizes in ((10, 4, 2), (12, 4, 3)):
        n_embd, n_head, n_kv_heads = sizes
        reason = _("n_embd = {n_embd}, n_head = {n_head}, n_kv_heads = {n_kv_heads}")
        must_raise(
            lambda sizes=sizes: student.GroupedQueryAttention(*sizes),
            reason.format(n_embd=n_embd, n_head=n_head, n_kv_heads=n_kv_heads),
        )
    # Scores near 1,000 in one row and near -1,000 in the next: what is hidden has no weight there either.
    signs = torch.tensor([[-1.0, 1.0, -1.0, 1.0, -1.0], [1.0, -1.0, 1.0, -1.0, 1.0]])
    for size, spread, terms in LARGE_SCORES:
        large = 20.0 * torch.stack([signs, torch.ones(2, 5)], -1)
        x = torch.cat([large, draw.integers(-spread, spread + 1, 2, 5, 2)], -1).repeat(1, 1, 2)  # (2, 5, 8)
        key = torch.eye(4, 8)[[1, 0, 2, 3]] * torch.tensor([[size / 200], [0.0], [1.0], [1.0]])
        values = {
            "q_proj.weight": torch.eye(8), "k_proj.weight": key, "v_proj.weight": draw.normal(4, 8),
            "o_proj.weight": torch.eye(8),
        }  # fmt: skip
        theirs, ours = (with_values(side, values, "GroupedQueryAttention", 8, 2, 1) for side in (student, reference))
        agree(theirs(x), ours(x), terms=terms)


@points(1)
def test_grouped_attention_in_pieces(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fed in pieces, with a cache, a text gives what it gives at once; the cache holds n_kv_heads heads."""
    for n_kv_heads, pieces in ((2, (1, 1, 1)), (2, (3, 1, 1)), (1, (2, 3, 2)), (4, (1, 4, 2))):
        theirs, ours = twins(student, reference, draw, "GroupedQueryAttention", 16, 4, n_kv_heads)
        x = draw.normal(2, sum(pieces), 16)
        whole = ours(x).tensor()
        cache, start = kept(student, 12), 0
        for tokens in pieces:
            stop = start + tokens
            got = theirs(x[:, start:stop], cache)
            agree(got, whole[:, start:stop], terms=128, note=_the_pieces(pieces, start))
            require_length(cache, stop)
            start = stop
        # Repeated before they went in, n_head heads are there: which error a cache gives of others is its own.
        shapes = (_held_with_one_more(cache, torch.zeros(2, heads, 1, 4)) for heads in (n_kv_heads, 4))
        shape = next(filter(None, shapes), None)
        expected = (2, n_kv_heads, start + 1, 4)
        holds(
            shape is not None,
            _("The cache holds other heads: it takes no further token of {n_kv_heads} heads.").format(
                n_kv_heads=n_kv_heads
            ),
            about=got,
        )
        holds(
            shape == expected,
            _("The cache holds tensors of shape {got}, and they should have shape {expected}.").format(
                got=shape, expected=expected
            ),
            about=None if shape and shape[1] == n_kv_heads else got,  # how many tokens it holds is the cache's own
        )


def _held_with_one_more(cache: Handle, token: Tensor) -> tuple[int, ...] | None:
    """The shape of what a cache holds after one more token; None where it does not fit to the others, whatever error
    a cache gives then."""
    try:
        keys, values = cache.method("update", token, token).tensors(2)
    except CheckFailed as failure:
        if failure.by_code:
            return None
        raise
    return tuple(keys.shape if keys.shape != token.shape else values.shape)


def _the_pieces(pieces: tuple[int, ...], start: int) -> str:
    sentence = _("The text came in pieces of {pieces} tokens; this one begins at token {start}.")
    return sentence.format(pieces=", ".join(map(str, pieces)), start=start)


def models(student: Implementation, reference: Implementation, draw: Draw, dropout: float = 0.0) -> list[Handle]:
    """The learner's model and the reference's, with the same weights, in float64 and eval mode."""
    sizes = (VOCABULARY, BLOCK, LAYERS, HEADS, WIDTH, dropout)
    pair = twins(student, reference, draw, "CachedGPT", *sizes)
    values = draw.parameters(pair[1].outline())
    values["wte.weight"] = values["lm_head.weight"] = TOKEN_WEIGHT * values["wte.weight"]
    for model in pair:
        model.load_parameters(values, evaluating=True)
        model.to(dtype=torch.float64)
    return list(pair)


@points(0.25)
def test_gpt_without_caches(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Without caches CachedGPT is step 12's GPT, and gives the logits alone."""
    theirs, ours = models(student, reference, draw)
    for batch, tokens in ((1, 1), (2, 5), (3, BLOCK)):
        idx = draw.integers(0, VOCABULARY, batch, tokens)
        agree(theirs(idx), ours(idx), terms=GUARDED)
    idx = draw.integers(0, VOCABULARY, 1, BLOCK + 1)
    must_raise(
        lambda: theirs(idx),
        _("{count} tokens, and block_size = {block_size}").format(count=BLOCK + 1, block_size=BLOCK),
    )


@points(1.5)
def test_gpt_in_pieces(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Fed in pieces, with a cache for each layer, a text has the logits that it has at once."""
    theirs, ours = models(student, reference, draw)
    # After a piece of one token alone, positions that are wrong in different ways are the same.
    for pieces in ((4, 1, 1), (1, 1, 1), (2, 3, 4)):
        idx = draw.integers(0, VOCABULARY, 2, sum(pieces))
        whole = ours(idx).tensor()
        caches, start = tuple(kept(student, BLOCK) for _layer in range(LAYERS)), 0
        for tokens in pieces:
            stop = start + tokens
            agree(
                theirs(idx[:, start:stop], caches), whole[:, start:stop], terms=GUARDED, note=_the_pieces(pieces, start)
            )
            start = stop
        for cache in caches:
            require_length(cache, start)
    # Positions cut to those there are: of one too many, a single one left or none broadcasts to all the tokens.
    idx = draw.integers(0, VOCABULARY, 1, BLOCK)
    for held in (7, BLOCK - 1, BLOCK):
        caches = tuple(kept(student, 2 * BLOCK) for _layer in range(LAYERS))
        agree(theirs(idx[:, -held:], caches), ours(idx[:, -held:]), terms=GUARDED)
        must_raise(
            lambda caches=caches, rest=BLOCK + 1 - held: theirs(idx[:, :rest], caches),
            _("{count} tokens, and block_size = {block_size}").format(count=BLOCK + 1, block_size=BLOCK),
        )


@points(2)
def test_generate(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """generate_cached appends, token by token, the one with the largest logit, at the price of one pass."""
    theirs, ours = models(student, reference, draw)
    for batch, tokens, count in ((1, 1, 3), (3, 4, 6), (2, 5, 1), (8, 3, BLOCK - 3)):
        idx = draw.integers(0, VOCABULARY, batch, tokens)
        many = count > tokens > 3  # of few tokens any way costs little, and measuring takes long
        got = student.using(measures=("products",) if many else ()).generate_cached(theirs, idx, count)
        expected = reference.generate_cached(ours, idx, count)
        exactly(got, expected)
        unmodified(got)
        if many:
            at_the_price_of_one_pass(got, expected, ours, tokens)
    reason = _("{count} tokens, and block_size = {block_size}").format(count=BLOCK + 1, block_size=BLOCK)
    must_raise(lambda: student.generate_cached(theirs, idx, BLOCK - 2), reason)


@points(4)
def test_every_token_goes_through_once(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """All matrix products take at most 1.5 times those of one pass over all tokens."""
    theirs, ours = models(student, reference, draw)
    idx = draw.integers(0, VOCABULARY, 2, 4)
    got = student.using(measures=("products",)).generate_cached(theirs, idx, BLOCK - 4)
    expected = reference.generate_cached(ours, idx, BLOCK - 4)
    exactly(got, expected)
    at_the_price_of_one_pass(got, expected, ours, 4)


def at_the_price_of_one_pass(got: Answer, expected: Answer, model: Handle, tokens: int) -> None:
    """Fails unless writing the text after its first `tokens` took little more than one pass of the `model` over it."""
    text = expected.tensor()
    total = text.shape[1]
    one_pass = _operations(model.using(measures=("products",))(text))
    ratio = got.not_below(_operations(got), LEAST * one_pass) / one_pass
    holds(
        ratio <= MOST,
        _(
            "{count} tokens after {tokens} took {ratio:.1f} times the matrix products of one pass over all {total}. "
            "At most {most} times are allowed: every token goes through the model once."
        ).format(count=total - tokens, tokens=tokens, ratio=ratio, total=total, most=MOST),
    )


def _operations(answer: Answer) -> int:
    return sum(answer.measured("products").values())


@points(0.5)
def test_mode_is_restored(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """generate_cached evaluates in eval mode and restores the mode it found."""
    theirs, ours = models(student, reference, draw, dropout=0.5)
    idx = draw.integers(0, VOCABULARY, 8, 3)
    expected = reference.generate_cached(ours, idx, 5)
    theirs.train()
    note = _("The model was made with dropout = 0.5 and given in training mode.")
    exactly(student.generate_cached(theirs, idx, 5), expected, note=note)
    holds(
        theirs.is_training(),
        _("The model was given in training mode, and generate_cached did not leave all of it in training mode."),
    )
    theirs.eval()
    exactly(student.generate_cached(theirs, idx, 5), expected)
    holds(
        theirs.is_evaluating(),
        _("The model was given in eval mode, and generate_cached did not leave all of it in eval mode."),
    )


@points(0.25)
def test_cache_bytes(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The bytes of the keys and values of all layers."""
    # Odd numbers: no factor that is left out or too many looks like another one.
    agree(student.kv_cache_bytes(3, 5, 7, 9, 11, bytes_per_element=1), 20790.0)
    agree(student.kv_cache_bytes(3, 5, 7, 9, 11), 41580.0)
    sizes = [draw.integer(2, 9) for _size in range(5)]
    agree(student.kv_cache_bytes(*sizes, 1), float(reference.kv_cache_bytes(*sizes, 1).value))
    agree(student.kv_cache_bytes(*sizes), float(reference.kv_cache_bytes(*sizes).value))


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, long inputs, a parent module and `no_grad` change nothing, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
