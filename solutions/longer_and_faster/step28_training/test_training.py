"""The checks of step 28: checkpoints, the learning rate, the optimizer, a step of training, and evaluation."""

import math

import torch
from torch import Tensor

from grader.calls.responder import cotangents
from grader.checks.assertions import (
    GUARDED,
    Answer,
    Draw,
    Handle,
    Implementation,
    _,
    agree,
    holds,
    must_raise,
    points,
    twins,
    unmodified,
    with_values,
)
from grader.checks.regimes import NUMBERS, AskedModule, every_regime, inputs_were_views, not_asked

OFF_LIMITS: dict[str, tuple[str, ...]] = {}
VOCABULARY, BLOCK, WIDTH = 7, 6, 8
# A clipping of one's own may go without clip_grad_norm_'s guard of 1e-6: the room is then 1e-6 of a parameter's size.
STEPS = 10**17
# A loss that was kept in float32 is off by up to 1e-6 of its size.
KEPT_IN_FLOAT32 = 8 * 10**16
RATE = 0.01
LAYERS_NOTED = 3  # of a model of the grader's own
Batches = tuple[tuple[Tensor, Tensor], ...]


def ids_and_targets(draw: Draw, leading: tuple[int, ...], tokens: int) -> tuple[Tensor, Tensor]:
    """A text, and what follows each of its tokens."""
    return draw.integers(0, VOCABULARY, *leading, tokens), draw.integers(0, VOCABULARY, *leading, tokens)


CALLS = {
    **dict.fromkeys(("train_step", "evaluate"), not_asked("it is given models and batches: views are asked beside it")),
    "make_optimizer": not_asked("it takes no tensor"),
    "learning_rate": NUMBERS,
    "CheckpointedGPT": AskedModule(
        lambda tokens: (VOCABULARY, tokens, 2, 2, WIDTH, 0.5), ids_and_targets, terms=64,
        without={"bias": "whether ln_f keeps one is left open"}
    ),
}  # fmt: skip


def models(
    student: Implementation, reference: Implementation, draw: Draw, *, dtype: str = "float64"
) -> tuple[Handle, Handle]:
    """The learner's GPT and the reference's, with the same weights, in training mode and without dropout."""
    pair = twins(student, reference, draw, "GPT", VOCABULARY, BLOCK, 1, 2, WIDTH)
    for model in pair:
        model.to(dtype=getattr(torch, dtype))
        model.train()
    return pair


def copy_of(student: Implementation, theirs: Handle) -> Handle:
    """One more of the learner's models, with the same weights, in float32 and training mode."""
    return with_values(student, theirs.parameters(), "GPT", VOCABULARY, BLOCK, 1, 2, WIDTH).train()


def two_numbers(answer: Answer) -> tuple[float, float]:
    """The loss and the norm that train_step returned, as tensors too: that they should be floats is asked once."""
    value = answer.value if isinstance(answer.value, tuple) else ()
    numbers = [float(one) for one in value if isinstance(one, float) or isinstance(one, Tensor) and one.numel() == 1]
    holds(len(numbers) == len(value) == 2, _("train_step should return two Python floats, (loss, norm)."))
    return numbers[0], numbers[1]


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> list[str]:
    """The names of the parameters that a step has changed."""
    return [name for name in after if not torch.equal(after[name], before[name])]


def texts(draw: Draw, *sizes: tuple[int, int]) -> Batches:
    """Batches of inputs and targets."""
    return tuple((draw.integers(0, VOCABULARY, *size), draw.integers(0, VOCABULARY, *size)) for size in sizes)


def same_model(theirs: Handle, ours: Handle, *, shows: Answer, note: str) -> None:
    """Fails unless both models give the same logits: their parameters are the same, after the same steps."""
    idx = torch.arange(2 * BLOCK).view(2, BLOCK) % VOCABULARY
    agree(theirs(idx), ours(idx), terms=STEPS, note=note, shows=shows)


@points(0.5)
def test_checkpointed_is_the_same_model(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Logits, loss, gradients and errors of CheckpointedGPT are those of GPT, in training and in eval mode."""
    pair = twins(student, reference, draw, "CheckpointedGPT", VOCABULARY, BLOCK, 2, 2, WIDTH)
    theirs, ours = (model.to(dtype=torch.float64) for model in pair)
    (inputs, targets), (short, _targets) = texts(draw, (2, BLOCK), (3, 2))
    for mode in ("train", "eval"):
        for model in (theirs, ours):
            getattr(model, mode)()
        agree(theirs.using(gradients=True)(inputs, targets), ours.using(gradients=True)(inputs, targets), terms=GUARDED)
        agree(theirs(short), ours(short), terms=GUARDED)
    too_long = draw.integers(0, VOCABULARY, 1, BLOCK + 1)
    for model in (theirs.train(), theirs.eval()):
        must_raise(
            lambda model=model: model(too_long),
            _("{count} tokens, and block_size = {block_size}").format(count=BLOCK + 1, block_size=BLOCK),
        )
    pair = twins(student, reference, draw, "CheckpointedGPT", VOCABULARY, BLOCK, 1, 2, WIDTH, dropout=1.0)
    theirs, ours = (model.train() for model in pair)
    note = _("With dropout = 1 all is dropped in training, the sum of both embeddings too.")
    agree(theirs(inputs), ours(inputs), terms=64, note=note)


@points(1)
def test_checkpointed_saves_memory(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """In training each further block saves at most one tensor of its input's size."""
    # From one block on, so that sparing the last two shows. Of 6 blocks each wrong choice keeps another amount.
    few, many, batch, tokens = 1, 6, 2, 6
    ((inputs, targets),) = texts(draw, (batch, tokens))
    saved, plain = [], []
    for layers in (few, many):
        sizes = VOCABULARY, tokens, layers, 2, WIDTH
        usual = reference.GPT(*sizes)
        values = draw.parameters(usual.outline())
        usual.load_parameters(values)
        theirs = with_values(student, values, "CheckpointedGPT", *sizes).train()
        got, expected = (model.using(gradients=True, measures=("saved",))(inputs, targets) for model in (theirs, usual))
        agree(got, expected, terms=1000)
        saved.append(got.measured("saved"))
        plain.append(expected.measured("saved"))
    growth, usual_growth = ((counts[1] - counts[0]) / (many - few) for counts in (saved, plain))
    allowed = batch * tokens * WIDTH
    holds(
        growth <= allowed,
        _(
            "Each further block saved {growth:.0f} numbers for its backward pass. Its input has {allowed}, and no more "
            "than that is allowed; a block of GPT without checkpoints saves {usual:.0f}."
        ).format(growth=growth, allowed=allowed, usual=usual_growth),
    )


@points(1)
def test_second_run_draws_the_same_dropout(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """With dropout the gradients are the slopes of the loss under the same masks."""
    model, ours = twins(student, reference, draw, "CheckpointedGPT", VOCABULARY, BLOCK, 2, 2, WIDTH, dropout=0.3)
    for one in (model, ours):
        one.to(dtype=torch.float64)
    ((inputs, targets),) = texts(draw, (2, BLOCK))
    values = {name: value.double() for name, value in model.parameters().items()}
    names = sorted(values)
    directions = {name: draw.normal(*values[name].shape, dtype=torch.float64) for name in names}
    directions["lm_head.weight"] = directions["wte.weight"]
    # A token of whose embedding dropout leaves next to nothing makes the norms steep: along 1e-5 a slope was off by
    # more than the room in one of 1500 draws. Along 1e-7 it was off by 5e-8 at most, in 1200.
    seed, step = draw.seed(), 1e-7

    def at(shift: float, gradients: bool) -> Answer:
        model.load_parameters({name: value + shift * directions[name] for name, value in values.items()})
        model.train()
        return model.using(seed=seed, gradients=gradients)(inputs, targets)

    ahead, behind, here = (_back_propagated(at(shift, not shift)) for shift in (step, -step, 0.0))
    slope = (ahead[0] - behind[0]) / (2 * step)
    along = sum(
        float((gradient * directions[name]).sum())
        for name, gradient in here[1].items()
        if name in directions and name != "lm_head.weight" and gradient is not None
    )
    holds(
        abs(along - slope) <= 1e-5 * max(abs(slope), 1.0),
        _(
            "With dropout = 0.3 and one seed what is differentiated rises by {slope:.6f} along a direction, and the "
            "gradients say {along:.6f}. Did the second run draw other masks than the first?"
        ).format(slope=slope, along=along),
    )
    holds(model.is_training(), _("The model was in training mode, and forward left a part of it in eval mode."))
    unlike = _back_propagated(model.using(seed=seed + 1)(inputs, targets))[0]
    holds(unlike != here[0], _("In training with dropout = 0.3 another seed gave the same loss: nothing was dropped."))
    for one in (model, ours):
        one.load_parameters(values, evaluating=True)
    agree(model(inputs, targets), ours(inputs, targets), terms=GUARDED)


def _back_propagated(answer: Answer) -> tuple[float, dict[str, Tensor | None]]:
    """The number whose gradients an answer holds, and these."""
    outputs = list(answer.tensors(2))
    number = sum(float((output * pattern).sum()) for output, pattern in zip(outputs, cotangents(outputs), strict=True))
    return number, answer.gradients


@points(0.5)
def test_learning_rate(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The learning rate warms up, falls along half a cosine, and stays at min_lr."""
    # A diagnosis sees no more than the first wrong answer: these are asked before the first is compared.
    curve = [(step, student.learning_rate(step, 1.0, 4, 8, 0.2)) for step in (7, 5, 6, 2)]
    for (_step, got), expected in zip(curve, (1 - math.sqrt(0.5), 1 + math.sqrt(0.5), 1.0, 0.6875 * 2), strict=True):
        agree(got, 0.2 + 0.8 * expected / 2, terms=100)
    for step, expected in ((0, 0.25), (1, 0.5), (3, 1.0), (4, 1.0), (6, 0.55), (8, 0.1), (9, 0.1), (100, 0.1)):
        agree(student.learning_rate(step, 1.0, 4, 8, 0.1), expected, terms=100)
    agree(student.learning_rate(5, 1.0, 4, 8), (1 + math.sqrt(0.5)) / 2, terms=100)
    warmup, total = draw.integer(1, 9), draw.integer(20, 60)
    for options in ((3e-4, warmup, total, 1e-5), (0.1, 0, total, 0.02), (0.5, warmup, total)):
        for step in (0, 1, warmup - 1, warmup, warmup + 1, total // 2, total - 1, total, total + 1, 3 * total):
            expected = reference.learning_rate(step, *options)
            agree(student.learning_rate(step, *options), expected, terms=100)


@points(1)
def test_optimizer(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """AdamW with betas (0.9, 0.95) moves all parameters, and only those of two or more dimensions decay."""
    batches = texts(draw, (2, BLOCK))
    for decay in (0.1, 2.0, 0.0):
        theirs, ours = models(student, reference, draw)
        options = {} if decay == 0.1 else {"weight_decay": decay}
        made = student.using(keep=True).make_optimizer(theirs, **options)
        holds(isinstance(made, Handle), _("make_optimizer should return an optimizer."))
        right = reference.using(keep=True).make_optimizer(ours, **options)
        assert isinstance(right, Handle)
        for _step in range(2):
            for model, optimizer in ((theirs, made), (ours, right)):
                model.using(gradients=True)(*batches[0])  # leaves gradients
                optimizer.step_by(0.05)
        note = _("After two steps with learning rate {rate} and weight_decay = {decay}.").format(rate=0.05, decay=decay)
        same_model(theirs, ours, shows=made, note=note)


@points(1)
def test_train_step(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A step returns the loss before it and the norm of the gradients, and moves the parameters by lr."""
    for rate, views in ((RATE, False), (0.1, False), (0.0, True)):
        theirs, ours = models(student, reference, draw)  # each with no step, and no gradient, before
        made, right = theirs.optimizer(), ours.optimizer()
        batches = texts(draw, (3, BLOCK))
        expected = reference.train_step(ours, right, batches, rate, 1e9)
        got = student.using(strided=views).train_step(theirs, made, batches, rate, 1e9)
        unmodified(got)
        agree(got, expected, terms=KEPT_IN_FLOAT32, note=inputs_were_views() if views else "")
        same_model(theirs, ours, shows=got, note=_("After a step with learning rate {rate}.").format(rate=rate))
    holds(theirs.is_training(), _("The model was in training mode, and train_step did not leave all of it there."))
    dropping = twins(student, reference, draw, "GPT", VOCABULARY, BLOCK, 1, 2, WIDTH, dropout=0.5)[0].train()
    made = dropping.optimizer()
    losses = [student.using(seed=seed).train_step(dropping, made, batches, 0.0, 1e9).value for seed in (1, 2)]
    holds(
        losses[0] != losses[1],
        _("With dropout = 0.5 two steps with other seeds have the same loss: nothing is dropped."),
    )


@points(1)
def test_micro_batches(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """n micro-batches give the step of the one large batch."""
    whole = texts(draw, (4, BLOCK))
    # Adam does not see a factor that both steps share: the norm shows it where nothing is clipped, and a sum in place
    # of a mean is clipped more. The norm itself is asked where nothing is.
    for count, norm, part in ((2, 1e9, None), (4, 0.5, 0)):
        theirs, ours = models(student, reference, draw)
        made, right = theirs.optimizer(RATE), ours.optimizer(RATE)
        inputs, targets = (tensor.chunk(count) for tensor in whole[0])
        parts = tuple(zip(inputs, targets, strict=True))
        for _step in range(2):
            expected = reference.using(part=part).train_step(ours, right, whole, RATE, norm)
            got = student.using(part=part).train_step(theirs, made, parts, RATE, norm)
            agree(got, expected, terms=KEPT_IN_FLOAT32)
        same_model(
            theirs, ours, shows=got, note=_("After two steps, each on {count} micro-batches.").format(count=count)
        )


@points(0.5)
def test_clipping(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Gradients of a norm above max_norm, all together, are scaled down to it, and smaller ones stay."""
    theirs, ours = models(student, reference, draw)
    made, right = theirs.optimizer(RATE), ours.optimizer(RATE)
    # Adam does not see a factor that all steps share: the second step's norm is another part of max_norm.
    for norm, batches in ((0.01, texts(draw, (2, 3))), (1e9, texts(draw, (2, BLOCK))), (0.3, texts(draw, (1, 2)))):
        expected = reference.train_step(ours, right, batches, RATE, norm)
        got = student.train_step(theirs, made, batches, RATE, norm)
        agree(got, expected, terms=STEPS)
        same_model(theirs, ours, shows=got, note=_("max_norm = {norm}").format(norm=norm))
    batches = texts(draw, (1, 1))  # the norm of one token is above 1
    expected = reference.train_step(ours, right, batches, RATE)
    got = student.train_step(theirs, made, batches, RATE)
    agree(got, expected, terms=STEPS)
    same_model(theirs, ours, shows=got, note=_("max_norm is left to its default."))


@points(0.5)
def test_earlier_gradients_do_not_count(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Gradients that are there before the step do not count."""
    theirs, ours = models(student, reference, draw)
    made, right = theirs.optimizer(RATE), ours.optimizer(RATE)
    batches = texts(draw, (2, BLOCK))
    theirs.using(gradients=True)(batches[0][0])  # a backward pass, whose gradients stay
    expected = reference.train_step(ours, right, batches, RATE, 1e9)
    got = student.train_step(theirs, made, batches, RATE, 1e9)
    agree(got, expected, terms=KEPT_IN_FLOAT32)
    same_model(theirs, ours, shows=got, note=_("After a step, with gradients left from before."))


@points(1)
def test_bfloat16(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """With precision="bfloat16" most matrix products are in bfloat16, and the parameters stay in float32."""
    theirs, ours = models(student, reference, draw, dtype="float32")
    made, right = theirs.optimizer(RATE), ours.optimizer(RATE)
    before = theirs.parameters()
    batches = texts(draw, (2, BLOCK))  # one, and nothing is clipped: both are asked elsewhere
    expected = two_numbers(reference.train_step(ours, right, batches, RATE, 1e9, "bfloat16"))
    got = student.using(measures=("products",)).train_step(theirs, made, batches, RATE, 1e9, "bfloat16")
    value = two_numbers(got)
    share = got.measured("products").get("bfloat16", 0) / max(sum(got.measured("products").values()), 1)
    holds(
        share > 0.8,
        _("{share:.0%} of the work of matrix products was done in bfloat16, and it should be nearly all.").format(
            share=share
        ),
    )
    for what, number, right_one in zip((_("loss"), _("norm")), value, expected, strict=True):
        holds(
            abs(number - right_one) <= 0.05 * abs(right_one),
            _("In bfloat16 the {what} is {got:.4f}, and it should be within 5 % of {expected:.4f}.").format(
                what=what, got=number, expected=right_one
            ),
        )
    after = theirs.parameters()
    kinds = {str(value.dtype).removeprefix("torch.") for value in after.values()}
    holds(
        kinds == {"float32"},
        _("The parameters were float32, and after the step they are {got}.").format(got=", ".join(sorted(kinds))),
    )
    holds(bool(moved(before, after)), _("The step in bfloat16 left all parameters as they were."))
    plain = student.using(measures=("products",)).train_step(theirs, made, batches, RATE)
    holds("bfloat16" not in plain.measured("products"), _("Without a precision some matrix products were in bfloat16."))
    batches = texts(draw, (2, BLOCK), (2, BLOCK))
    for precision in ("bfloat16", "float32"):
        given, _ours = noting_models(theirs, ours, draw)
        student.train_step(given, given.optimizer(), batches, RATE, 1.0, precision)
        kinds = _noted(given, len(batches))[0]
        holds(
            kinds == {precision},
            _("With precision {precision} the layers of the model computed in {got}.").format(
                precision=precision, got=", ".join(sorted(kinds))
            ),
        )


def noting_models(theirs: Handle, ours: Handle, draw: Draw) -> tuple[Handle, Handle]:
    """Two models of the grader's own with the same weights, in training mode, whose layers note what they compute."""
    given, right = (model.noting_model(VOCABULARY, WIDTH) for model in (theirs, ours))
    values = draw.parameters(right.outline())
    for model in (given, right):
        model.load_parameters(values)
        model.train()
    return given, right


def _noted(given: Handle, calls: int) -> tuple[set[str], set[bool]]:
    """What dtypes the layers of a model of the grader's own have computed, and whether they have built a graph."""
    noted = given.attribute("noted").value
    holds(
        len(noted) >= LAYERS_NOTED * calls,
        _("The model was called {got} times for {calls} batches.").format(got=len(noted) // LAYERS_NOTED, calls=calls),
    )
    return {kind for kind, _graph in noted}, {graph for _kind, graph in noted}


@points(1)
def test_scaler(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """With a scaler the step is the same, and one that overflows changes nothing but the scale."""
    # What is wrong of micro-batches and clipping is asked elsewhere: there the learner's own step without a scaler says
    # what is expected.
    for norm, sizes in ((1e9, ((2, BLOCK),)), (0.02, ((2, BLOCK), (2, BLOCK)))):
        theirs, ours = models(student, reference, draw, dtype="float32")
        judge, plain = (reference, ours) if norm > 1 else (student, copy_of(student, theirs))
        made, right = theirs.optimizer(RATE), plain.optimizer(RATE)
        scaler, before = theirs.scaler(1024.0), theirs.parameters()
        batches = texts(draw, *sizes)
        expected = two_numbers(judge.train_step(plain, right, batches, RATE, norm))
        got = two_numbers(student.train_step(theirs, made, batches, RATE, norm, "float32", scaler))
        for what, number, right_one in zip((_("loss"), _("norm")), got, expected, strict=True):
            holds(
                abs(number - right_one) <= 1e-3 * abs(right_one),
                _("With a scaler the {what} is {got:.4g}, and it should be {expected:.4g}, as without one.").format(
                    what=what, got=number, expected=right_one
                ),
            )
        holds(bool(moved(before, theirs.parameters())), _("The step with a scaler left all parameters as they were."))
    _overflow(student, reference, draw)
    given, _right = noting_models(theirs, ours, draw)
    student.train_step(given, given.optimizer(), batches, RATE, 1.0, "float32", given.scaler(1024.0))
    arrived = given.attribute("arrived").value
    holds(
        2 * arrived * len(batches) >= 1024.0,
        _(
            "With a scaler of {scale} the largest gradient of a loss was {arrived:.4g}: the loss was not scaled before "
            "the backward pass."
        ).format(scale=1024, arrived=arrived),
    )


def _overflow(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """A loss scaled by 2 ** 127 has infinite gradients where they are above 2."""
    theirs, ours = models(student, reference, draw, dtype="float32")
    values = ours.parameters()
    values["ln_f.weight"] = 100 * values["ln_f.weight"]
    theirs.load_parameters(values)
    theirs.train()
    made = theirs.optimizer()
    scaler = theirs.scaler(2.0**127)
    batches = texts(draw, (2, BLOCK))
    student.train_step(theirs, made, batches, RATE, 1.0, "float32", scaler)
    after = theirs.parameters()
    changed = [name for name in values if not torch.equal(after[name], values[name])]
    holds(
        not changed,
        _("The gradients overflowed, and the step changed {name} all the same.").format(name=", ".join(changed[:1])),
    )
    scale = scaler.method("get_scale").value
    holds(
        isinstance(scale, float) and scale < 2.0**127,
        _(
            "The gradients overflowed, and the scale stayed as it was. It should become lower, so that the next step "
            "fits."
        ),
    )


@points(0.5)
def test_evaluate(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """The mean loss over all tokens of batches of any size, in eval mode, without a graph."""
    pair = twins(student, reference, draw, "GPT", VOCABULARY, BLOCK, 1, 2, WIDTH, dropout=0.5)
    theirs, ours = (model.to(dtype=torch.float64) for model in pair)
    before = theirs.parameters()
    for sizes in (((2, BLOCK),), ((3, BLOCK), (2, 2), (2, BLOCK))):
        batches = texts(draw, *sizes)
        expected = reference.evaluate(ours, batches)
        theirs.train()
        got = student.using(measures=("saved",), strided=True).evaluate(theirs, batches)
        unmodified(got)
        note = _("The model was made with dropout = 0.5 and given in training mode.")
        agree(got, expected, terms=KEPT_IN_FLOAT32, note=note)
        holds(
            got.measured("saved") == 0,
            _("evaluate kept {count} numbers for a backward pass.").format(count=got.measured("saved")),
        )
        holds(
            theirs.is_training(),
            _("The model was given in training mode, and evaluate did not leave all of it in training mode."),
        )
        theirs.eval()
        agree(student.evaluate(theirs, batches), expected, terms=KEPT_IN_FLOAT32)
        holds(
            theirs.is_evaluating(),
            _("The model was given in eval mode, and evaluate did not leave all of it in eval mode."),
        )
    after = theirs.parameters()
    holds(all(torch.equal(after[name], before[name]) for name in before), _("evaluate changed the model's parameters."))
    given, right = noting_models(theirs, ours, draw)
    agree(student.evaluate(given, batches), reference.evaluate(right, batches), terms=KEPT_IN_FLOAT32)
    holds(_noted(given, len(batches))[1] == {False}, _("evaluate built a graph: its model's layers kept gradients on."))
    theirs, ours = (model.using(gradients=True) for model in pair)
    note = _("After evaluate: what it turns off for itself must be on again.")
    agree(theirs(*batches[0]), ours(*batches[0]), terms=GUARDED, note=note)


@points(0.5)
def test_any_regime(student: Implementation, reference: Implementation, draw: Draw) -> None:
    """Views, modes, long inputs and `no_grad` change nothing else, and results stay as they are."""
    every_regime(student, reference, draw, CALLS)
