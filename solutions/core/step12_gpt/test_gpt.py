"""Checks of step 12: the model, its loss, the text it writes, and the batches it learns from."""

from collections.abc import Callable

import torch
from torch import Tensor

from grader.base.errors import CheckFailed
from grader.checks.assertions import (
    Answer,
    Draw,
    Handle,
    Implementation,
    _,
    agree,
    binomial_bound,
    exactly,
    holds,
    must_raise,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.regimes import OF_A_MODEL, AskedFunction, AskedModule, every_regime

OFF_LIMITS = {"GPT": ("transformer",)}

TOKEN_WEIGHT = 3.0
ROWS_APART = 128  # rows with logits of their own: a quarter of them would draw a token below its k-th largest logit
NEAR = 1e-4  # logits that are this near may change places when they are rounded to float32
# As in step 11, gelu's constant is right when it was rounded to float32 as well: in float64 that leaves 1e-8.
ROUNDED_CONSTANT = 9 * 10**12
ROWS = 600  # rows drawn from one prompt: a rate may then be off by 0.12 at most, see binomial_bound


def silent_blocks(vocab_size: int, block_size: int, width: int) -> dict[str, Tensor]:
    """Parameters of one block that adds nothing: all zeros, so that embeddings, norm and head are left to be set."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (vocab_size, width), "wpe.weight": (block_size, width)}
    shapes["lm_head.weight"] = shapes["wte.weight"]
    for norm in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        shapes |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
    for layer, wide, narrow in (("attn.c_attn", 3, 1), ("attn.c_proj", 1, 1), ("mlp.c_fc", 4, 1), ("mlp.c_proj", 1, 4)):
        shapes |= {f"h.0.{layer}.weight": (wide * width, narrow * width), f"h.0.{layer}.bias": (wide * width,)}
    return {name: torch.zeros(shape) for name, shape in shapes.items()}


def two_wide(implementation: Implementation) -> Handle:
    """A model that can be worked out by hand: three tokens of width 2, blocks that add nothing."""
    values = silent_blocks(3, 3, 2)
    values["wte.weight"] = values["lm_head.weight"] = torch.tensor([[10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    values["wpe.weight"] = torch.tensor([[0.0, 0.0], [0.0, 20.0], [20.0, 0.0]])
    values["ln_f.weight"] = torch.tensor([0.1, 0.1])
    return with_values(implementation, values, "GPT", 3, 3, 1, 1, 2)


def counting(implementation: Implementation, block_size: int) -> Handle:
    """A model that says the number of the next position, up to 3: position 0 says 1, position 1 says 2, ...."""
    values = silent_blocks(4, block_size, 4)
    values["wte.weight"] = values["lm_head.weight"] = 10 * torch.eye(4)
    values["wpe.weight"] = 40 * torch.eye(4)[(torch.arange(block_size) + 1).clamp(max=3)]
    values["ln_f.weight"] = torch.ones(4)
    return with_values(implementation, values, "GPT", 4, block_size, 1, 1, 4)


def following(implementation: Implementation, block_size: int) -> Handle:
    """A model that says the token after the last one: 1 after 0, 2 after 1, 3 after 2. Its MLP looks it up."""
    values = silent_blocks(4, block_size, 4)
    values["wte.weight"] = values["lm_head.weight"] = 10 * torch.eye(4)
    values["h.0.ln_2.weight"] = values["ln_f.weight"] = torch.ones(4)
    values["h.0.mlp.c_fc.weight"][:4] = 10 * torch.eye(4)
    values["h.0.mlp.c_proj.weight"][:, :4] = 100 * torch.eye(4).roll(1, 0)
    return with_values(implementation, values, "GPT", 4, block_size, 1, 1, 4)


def exact_twins(
    student: Implementation, reference: Implementation, draw: Draw, block_size: int
) -> tuple[Handle, Handle]:
    """Twins in float64, where two right ways agree on the largest logit, with dropout to be left out."""
    theirs, ours = twins(student, reference, draw, "GPT", 16, block_size, 1, 2, 8, 0.5)
    return theirs.to(dtype=torch.float64), ours.to(dtype=torch.float64)


def ids_and_targets(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, Tensor]:
    return draw.integers(0, 11, *leading, tokens), draw.integers(0, 11, *leading, tokens)


CALLS = {
    "GPT": AskedModule(
        lambda tokens: (11, tokens, 1, 2, 8, 0.5), ids_and_targets, terms=64,
        without={"bias": "whether ln_f keeps one is left open"}
    ),
    # The prompts are longer than block_size, which is 3.
    "generate": AskedFunction(
        lambda draw, leading, tokens: (draw.integers(0, 16, 2, 9), 2, 0.0), axes=(),
        without=OF_A_MODEL | {"device": "asked of temperature 0 in a check of its own"},
        model=("GPT", 16, 3, 1, 2, 8, 0.5),
    ),
    "next_token_batches": AskedFunction(
        lambda draw, leading, tokens: (draw.integers(0, 1000, 1100), 250, 2), axes=(),
        without={"length": "long ids are asked here, with values", "device": "it may read its ids"},
    ),
}  # fmt: skip


@points(0.5)
def test_logits_and_loss_by_hand(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Two tokens of width 2 give the logits and the loss worked out by hand."""
    theirs = two_wide(student)
    idx = torch.tensor([[0, 0]])
    logits = torch.tensor([[[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]]])
    agree(theirs(idx), (logits, None), terms=4)
    agree(theirs(idx, targets=torch.tensor([[0, 2]])), (logits, torch.tensor(0.9076060)), terms=4)


@points(0.75)
def test_logits_at_every_position(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Embeddings, every block in turn, norm and head give the logits."""
    theirs, ours = twins(student, reference, draw, "GPT", 11, 6, 2, 2, 8)
    for shape, gradients in (((1, 1), False), ((3, 6), True)):  # in eval mode: gradients flow there, too
        idx = draw.integers(0, 11, *shape)
        got = theirs.using(gradients=gradients)(idx)
        agree(got, ours.using(gradients=gradients)(idx), terms=64)
        unmodified(got)
    # With bias=False the blocks have no bias; whether ln_f keeps one is left open, so both are loaded.
    ours = reference.GPT(11, 6, 1, 2, 8, bias=False)
    values = draw.parameters(ours.outline())
    ours.load_parameters(values)
    theirs = student.GPT(11, 6, 1, 2, 8, bias=False)
    spare = {name: torch.zeros(8) for name in theirs.parameters() if name == "ln_f.bias"}
    theirs.load_parameters(values | spare)
    idx = draw.integers(0, 11, 2, 4)
    agree(theirs.eval()(idx), ours.eval()(idx), terms=64)


@points(1)
def test_loss_and_its_gradient(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The loss is the mean over every position, and reaches every parameter."""
    theirs, ours = twins(student, reference, draw, "GPT", 7, 5, 1, 2, 4)
    idx, targets = draw.integers(0, 7, 3, 4), draw.integers(0, 7, 3, 4)
    # In training mode, with the rate 0 that is the default: nothing is dropped.
    theirs.train()
    ours.train()
    got = theirs.using(gradients=True)(idx, targets)
    agree(got, ours.using(gradients=True)(idx, targets), terms=256)
    unmodified(got)


@points(0.5)
def test_head_is_tied(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The head and the token embedding share one weight."""
    theirs, ours = twins(student, reference, draw, "GPT", 5, 4, 1, 2, 4)
    idx = draw.integers(0, 5, 1, 2)
    holds(
        theirs.shares("lm_head.weight", "wte.weight"),
        _("lm_head.weight and wte.weight are two tensors, and they should be one: lm_head.weight is wte.weight."),
    )
    agree(theirs(idx), ours(idx), terms=32)


@points(0.5)
def test_too_many_tokens_are_refused(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """More tokens than block_size are an error."""
    theirs, ours = twins(student, reference, draw, "GPT", 5, 4, 1, 2, 4)
    idx = draw.integers(0, 5, 6, 5)  # more rows than block_size, too: only T is compared with it
    agree(theirs(idx[:, :4]), ours(idx[:, :4]), terms=32)
    reason = _("T = {num_tokens} is larger than block_size = {block_size}")
    must_raise(lambda: theirs(idx), reason.format(num_tokens=5, block_size=4))


@points(0.5)
def test_dtype_and_device_follow_the_module(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The logits have the parameters' dtype and follow the module's device."""
    # A head's width is 4, so that a root taken in float32 is exact and passes in float64 too.
    theirs, ours = twins(student, reference, draw, "GPT", 5, 4, 1, 1, 4)
    idx = draw.integers(0, 5, 2, 3)
    for dtype in (torch.float64, torch.bfloat16):
        # Eight times what the constant alone is off by: the norm and the head behind the block stretch it.
        terms = 8 * ROUNDED_CONSTANT if dtype == torch.float64 else 32
        agree(theirs.to(dtype=dtype)(idx), ours.to(dtype=dtype)(idx), terms=terms)
        got = logits_of(theirs(idx, idx)).dtype
        holds(
            got == dtype,
            _("With targets the logits have dtype {got}, and they should have that of the parameters, {due}.").format(
                got=str(got).removeprefix("torch."), due=str(dtype).removeprefix("torch.")
            ),
        )
    theirs.to(device="meta")
    for answer in (theirs(idx), theirs(idx, idx)):
        logits = logits_of(answer)
        holds(
            logits.device.type == "meta" and logits.shape == (2, 3, 5),
            _("After .to(device) the logits are on {got}, and they should be on {due}.").format(
                got=logits.device.type, due="meta"
            ),
        )


@points(0.5)
def test_dropout_acts_in_training_only(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training the embeddings and the blocks drop; in eval mode nothing does."""
    theirs, ours = twins(student, reference, draw, "GPT", 5, 6, 1, 2, 8, 0.5)
    idx = torch.zeros(2, 6, dtype=torch.int64)
    agree(theirs(idx), ours(idx), terms=64, note=_("The model is in eval mode and was made with dropout = 0.5."))
    _a_share_is_dropped(student, reference, draw.integer(25, 35) / 100)


# All positions hold the same vector of ones, from the embeddings or from a branch of the block. Dropout leaves zeros in
# it, ln_f puts these below 0 and the others above it, and the head shows each of them. A vector of which all was
# dropped (once in 10 ** 3 at most) comes out as zeros, like one that is kept whole, and counts as that. Of the
# embeddings it is the sum that is a one: whoever drops from one of them, or from each, leaves no zero there.
def _a_share_is_dropped(student: Implementation, reference: Implementation, rate: float) -> None:
    width, rows, num_tokens = 8, 128, 6
    model, ours = (side.GPT(width + 1, num_tokens, 1, 1, width, dropout=rate) for side in (student, reference))
    values = silent_blocks(width + 1, num_tokens, width) | {"ln_f.weight": torch.ones(width)}
    units = torch.cat([torch.zeros(1, width), torch.eye(width)])
    idx = torch.zeros(rows, num_tokens, dtype=torch.int64)
    summands = {
        "wte.weight": torch.cat([torch.full((1, width), -10.0), torch.eye(width)]),
        "wpe.weight": torch.full((num_tokens, width), 11.0),
    }
    for held, what in (
        (summands, _("the sum of the embeddings")),
        ({"h.0.attn.c_proj.bias": torch.ones(width)}, _("what attention adds")),
        ({"h.0.mlp.c_proj.bias": torch.ones(width)}, _("what the MLP adds")),
    ):
        given = values | {"wte.weight": units} | held
        for side in (model, ours):
            side.load_parameters(given | {"lm_head.weight": given["wte.weight"]}, evaluating=True)
        agree(model(idx), ours(idx), terms=64)  # where this is wrong, no rate says anything
        model.train()
        first, second = logits_of(model(idx)), logits_of(model(idx))
        for logits in (first, second):
            holds(
                logits.shape == (rows, num_tokens, width + 1),
                _("In training the logits have shape {got}, and they should have {expected}.").format(
                    got=tuple(logits.shape), expected=(rows, num_tokens, width + 1)
                ),
            )
        holds(
            not torch.equal(first, second),
            _(
                "In training mode with dropout = {rate:.2f} two calls gave the same logits, and each should drop anew "
                "from {what}."
            ).format(rate=rate, what=what),
        )
        dropped = torch.cat([first, second])[..., 1:] < -0.01
        share = float(dropped.double().mean())
        room = binomial_bound(dropped.numel(), rate)
        sentence = _(
            "In training mode with dropout = {rate:.2f} a share of {share:.3f} of {what} looks dropped in the "
            "logits, and it should be within {room:.3f} of {rate:.2f}."
        )
        holds(abs(share - rate) <= room, sentence.format(rate=rate, share=share, what=what, room=room))
        sentence = _("Of {what} the same numbers were dropped in every row or at every position.")
        once = dropped[:rows]
        shared = any(bool((once == once.narrow(dim, 0, 1)).all()) for dim in (0, 1))
        holds(not shared, sentence.format(what=what))


@points(0.5)
def test_greedy_takes_the_largest_logit(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Temperature 0 appends the token with the largest logit."""
    counted = student.generate(counting(student, 5), torch.tensor([[0]]), 3, 0.0)
    exactly(counted, torch.tensor([[0, 1, 2, 3]]), note=_("At each position the next number has the largest logit."))
    theirs, ours = exact_twins(student, reference, draw, 8)
    idx = draw.integers(0, 16, 3, 2)
    expected = reference.generate(ours, idx, 3, 0.0)
    got = student.generate(theirs, idx, 3, 0.0)
    exactly(got, expected)
    unmodified(got)
    exactly(student.generate(theirs, idx, 1, 0, 3), reference.generate(ours, idx, 1, 0, 3))
    on_meta = student.using(device="meta").generate(theirs.to(device="meta"), idx, 2, 0.0)
    agree(on_meta, reference.using(device="meta").generate(ours.to(device="meta"), idx, 2, 0.0))


@points(0.5)
def test_context_is_cropped(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A text longer than block_size goes on from its last block_size tokens."""
    counted = student.generate(counting(student, 2), torch.tensor([[0]]), 3, 0.0)
    exactly(counted, torch.tensor([[0, 1, 2, 2]]), note=_("block_size is {count} here.").format(count=2))
    theirs, ours = exact_twins(student, reference, draw, 3)
    # Each token has its say in what follows it: no token comes whatever went before.
    values = draw.parameters(ours.outline())
    values["wte.weight"] = values["lm_head.weight"] = TOKEN_WEIGHT * values["wte.weight"]
    for model in (theirs, ours):
        model.load_parameters(values)
    idx = draw.integers(0, 16, 12, 4)
    expected = reference.generate(ours, idx, 2, 0.0)
    got = student.generate(theirs, idx, 2, 0.0)
    exactly(got, expected, note=_("block_size is {count} here.").format(count=3))


@points(0.5)
def test_model_is_evaluated_in_eval_mode(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """generate evaluates in eval mode and restores the mode it found."""
    theirs, ours = exact_twins(student, reference, draw, 6)
    idx = draw.integers(0, 16, 16, 2)
    expected = reference.generate(ours, idx, 2, 0.0)
    theirs.train()
    note = _("The model was made with dropout = 0.5 and given in training mode.")
    exactly(student.generate(theirs, idx, 2, 0.0), expected, note=note)
    holds(
        theirs.is_training(),
        _("The model was given in training mode, and generate did not leave all of it in training mode."),
    )
    theirs.eval()
    student.generate(theirs, idx, 1, 0.0)
    holds(
        theirs.is_evaluating(),
        _("The model was given in eval mode, and generate did not leave all of it in eval mode."),
    )


@points(0.5)
def test_sampling_follows_the_temperature(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Tokens come as often as softmax(logits / temperature) says, row by row."""
    theirs, idx = two_wide(student), two_prompts()
    # The logits are (1, -1, 0) after token 0 and (-1, 1, 0) after token 1.
    # Both are asked before the first is judged, so that luck that all rows share is seldom taken for the largest logit.
    first, again = (
        student.generate(theirs, idx, 1, 2.0),
        student.using(going_on=True).generate(theirs, idx, 1, temperature=2.0),
    )
    require_rates(first, 2.0, {0: 0.5065, 1: 0.1863, 2: 0.3072}, {1: 0.5065, 0: 0.1863, 2: 0.3072})
    holds(
        not torch.equal(first.tensor(), again.tensor()),
        _("Two calls in a row drew the same {count} tokens: the seed must be left to the caller.").format(
            count=2 * ROWS
        ),
    )
    require_rates(student.generate(theirs, idx, 1, 0.5), 0.5, {0: 0.8668, 2: 0.1173}, {1: 0.8668, 2: 0.1173})
    # The largest logit lies 22 above the others here: another token is drawn less than once in 10 ** 8 runs.
    counted = student.generate(following(student, 2), torch.tensor([[0]]), 3)
    sentence = _(
        "block_size is 2 here. After each token the next number has nearly all of the probability, so that drawing "
        "goes on from what was drawn last."
    )
    exactly(counted, torch.tensor([[0, 1, 2, 3]]), note=sentence)


@points(0.5)
def test_top_k_keeps_the_k_largest(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Only the top_k largest logits of each row can be drawn."""
    # Each row has its own k-th largest logit here, and the temperature is high, so that a logit below it would be drawn
    # in some of them. One token too many is not yet the whole vocabulary.
    theirs, ours = exact_twins(student, reference, draw, 6)
    idx = draw.integers(0, 16, ROWS_APART, 2)
    logits = ours(idx, idx).tensors(2)[0][:, -1]
    # As drawn, then with the lowest of them first, then last: whoever takes one row's bound for all keeps too many.
    order = logits.topk(3).values[:, -1].argsort()
    for rows in (torch.arange(ROWS_APART), order, order.flip(0)):
        require_large_logits(student.generate(theirs, idx[rows], 1, 4.0, 3), idx[rows], logits[rows], 3)
    theirs, idx = two_wide(student), two_prompts()
    # The logits are (1, -1, 0) after token 0 and (-1, 1, 0) after token 1. The temperature counts beside top_k, too.
    first = _("top_k is {top_k}.").format(top_k=2)
    require_rates(student.generate(theirs, idx, 1, 0.5, 2), 0.5, {0: 0.8808, 1: 0.0}, {1: 0.8808, 0: 0.0}, first)
    second = _("top_k is {top_k}.").format(top_k=1)
    require_rates(student.generate(theirs, idx, 1, 1.0, 1), 1.0, {0: 1.0}, {1: 1.0}, second)
    third = _("top_k is {top_k}, and the vocabulary has 3 tokens.").format(top_k=10)
    # The temperature is left to its default here.
    got = student.generate(theirs, idx, 1, top_k=10)
    require_rates(got, 1.0, {0: 0.6652, 2: 0.2447}, {1: 0.6652, 2: 0.2447}, third)


@points(0.75)
def test_batches_are_windows_in_order(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Batches hold the windows 0, T, 2T, … in order, and the token after each."""
    expected = (
        (torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([[1, 2, 3], [4, 5, 6]])),
        (torch.tensor([[6, 7, 8]]), torch.tensor([[7, 8, 9]])),
    )
    # The long one is asked first and judged last: the small one does not tell the ways of losing windows apart.
    longest = draw.integers(0, 1000, 17)
    got = student.next_token_batches(longest, 2, 3)
    exactly(student.next_token_batches(torch.arange(10), 3, 2), expected)
    for num_ids, context_length, batch_size in ((12, 4, 1), (15, 4, 5), (8, 1, 2)):
        token_ids = draw.integers(0, 1000, num_ids)
        shorter = student.next_token_batches(token_ids, context_length, batch_size)
        exactly(shorter, reference.next_token_batches(token_ids, context_length, batch_size))
        unmodified(shorter)
    exactly(got, reference.next_token_batches(longest, 2, 3))
    unmodified(got)
    _batches_stay_on_the_device(student, reference, longest)


def _batches_stay_on_the_device(student: Implementation, reference: Implementation, token_ids: Tensor) -> None:
    # The ids may be read into Python lists, so they can't be on `meta`. It is torch's default device here, where a new
    # tensor lands that was told no other. What can't run so, as a DataLoader, which draws a number, may run with ids on
    # `meta`. What can do neither has read the ids, and used a tensor of its own beside them: only CUDA could tell.
    note = _("Here torch's default device is another one than that of token_ids.")
    expected = reference.next_token_batches(token_ids, 2, 3)
    on_meta = reference.using(device="meta").next_token_batches(token_ids, 2, 3)
    got = _unless_it_raises(lambda: student.using(made_on_meta=True).next_token_batches(token_ids, 2, 3))
    if got is not None:
        exactly(got, expected, note=note)
        return
    got = _unless_it_raises(lambda: student.using(device="meta").next_token_batches(token_ids, 2, 3))
    if got is not None:
        agree(got, on_meta)


def _unless_it_raises(call: Callable[[], Answer]) -> Answer | None:
    try:
        return call()
    except CheckFailed as failure:
        if not failure.by_code:
            raise
    return None


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, lengths, parents and a change of mode do no harm."""
    every_regime(student, reference, draw, CALLS)


def logits_of(answer: Answer) -> Tensor:
    """The first of the two values that forward returns."""
    value = answer.value
    holds(
        isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], Tensor),
        _("forward should return two values, (logits, loss), and it did not."),
    )
    return value[0]


def two_prompts() -> Tensor:
    """ROWS times the prompt (0), then ROWS times the prompt (1)."""
    return torch.arange(2).repeat_interleave(ROWS)[:, None]


def require_large_logits(answer: Answer, idx: Tensor, logits: Tensor, top_k: int) -> None:
    """Fails unless each row of idx (B, T) got one of the tokens with its `top_k` largest logits (B, vocab_size)."""
    drawn = answer.tensor()
    holds(
        drawn.shape == (len(logits), idx.shape[1] + 1),
        _("generate returned shape {got} for {rows} rows.").format(got=tuple(drawn.shape), rows=len(logits)),
    )
    got = logits.gather(1, drawn[:, -1:])
    smallest = logits.topk(top_k).values[:, -1:]
    for row in (got < smallest - NEAR).nonzero()[:1, 0].tolist():
        sentence = _(
            "top_k is {top_k}. In row {row} token {token} was drawn, whose logit is {got:.3f}, and the {top_k} "
            "largest of this row are {smallest:.3f} or more. Each row has its own."
        )
        said = {"top_k": top_k, "row": row, "token": int(drawn[row, -1])}
        holds(False, sentence.format(got=float(got[row]), smallest=float(smallest[row]), **said))


def require_rates(
    answer: Answer, temperature: float, after_0: dict[int, float], after_1: dict[int, float], note: str = ""
) -> None:
    """Fails unless the tokens that were appended to `two_prompts` came as often as stated."""
    drawn = answer.tensor()
    holds(
        drawn.shape == (2 * ROWS, 2),
        _("generate returned shape {got} for idx of shape {given} and one new token.").format(
            got=tuple(drawn.shape), given=(2 * ROWS, 1)
        ),
    )
    for prompt, rates in ((0, after_0), (1, after_1)):
        appended = drawn[prompt * ROWS : (prompt + 1) * ROWS, 1]
        for token, rate in rates.items():
            got = float((appended == token).double().mean())
            room = binomial_bound(ROWS, rate) if 0 < rate < 1 else 0.0
            sentence = _(
                "At temperature {temperature} token {token} should follow token {prompt} in a share of {rate:.3f} of "
                "{rows} rows (give or take {room:.3f}), and it did in {got:.3f}."
            )
            said = {"temperature": temperature, "token": token, "prompt": prompt, "rows": ROWS}
            sentence = sentence.format(rate=rate, room=room, got=got, **said)
            holds(abs(got - rate) <= room, f"{sentence}\n{note}".rstrip())
