"""What learners get wrong in step 28, each with the check that catches it."""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from grader.checks.catalogue import another_form, misconception
from solutions.core.step12_gpt.reference import GPT
from solutions.longer_and_faster.step28_training import reference

Batches = Sequence[tuple[Tensor, Tensor]]
Result = tuple[Any, Any]


# --- checkpoints ----------------------------------------------------------------------------------------------------


class _Checkpointed(GPT):
    """The reference's model; every misconception runs its blocks in its own way."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        num_tokens = idx.shape[1]
        if num_tokens > self.block_size:
            raise ValueError("too many tokens")
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(num_tokens, device=idx.device)))
        for block in self.h:
            x = self.run_block(block, x) if self.training and torch.is_grad_enabled() else block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return checkpoint(block, x, use_reentrant=False)  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_saves_memory")
class NothingCheckpointed(_Checkpointed):
    """Nothing was checkpointed: every block kept all that it computed.

    The numbers are right, but the memory is that of the plain model.

    Which call makes a block forget what it computed?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return block(x)  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_saves_memory")
class MlpCheckpointed(_Checkpointed):
    """Only the MLP of each block was checkpointed.

    Attention still keeps its weights, which grow with the square of the length.

    What belongs to a block, and what of it does the checkpoint hold?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        x = x + block.attn(block.ln_1(x))
        return x + checkpoint(block.mlp, block.ln_2(x), use_reentrant=False)


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_saves_memory")
class AttentionCheckpointed(_Checkpointed):
    """Only the attention of each block was checkpointed.

    The MLP is four times as wide as the stream, and keeps all of that.

    What belongs to a block, and what of it does the checkpoint hold?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        x = x + checkpoint(block.attn, block.ln_1(x), use_reentrant=False)
        return x + block.mlp(block.ln_2(x))


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_saves_memory")
class CheckpointedInEvalOnly(_Checkpointed):
    """The blocks were checkpointed in eval mode and not in training.

    In eval mode nothing is differentiated, as a rule: it is training that runs out of memory.

    When is a backward pass to be expected?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return block(x)  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_saves_memory")
class EverySecondBlock(_Checkpointed):
    """Only every second block was checkpointed.

    The others keep all that they computed, and the memory still grows with the depth.

    Which of the blocks may keep their numbers?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        if list(self.h).index(block) % 2:
            return block(x)  # type: ignore[no-any-return]
        return super().run_block(block, x)


@misconception(replaces="CheckpointedGPT", caught_by="test_second_run_draws_the_same_dropout")
class OtherMasks(_Checkpointed):
    """The second run drew other dropout masks than the first: the state of the generator was not kept.

    The gradients are then those of another network than the one whose loss was computed.

    What does preserve_rng_state do?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)  # type: ignore[no-any-return]


class _Forgetful(torch.autograd.Function):
    """A checkpoint by hand, of a block given in eval mode or without a graph."""

    @staticmethod
    def forward(ctx: Any, block: Any, x: Tensor, *parameters: Tensor) -> Tensor:  # type: ignore[override]
        ctx.block, ctx.parameters = block, parameters
        ctx.save_for_backward(x)
        with torch.no_grad():
            return block(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            out = ctx.block(x)
        return None, *torch.autograd.grad(out, (x, *ctx.parameters), upstream)


@misconception(replaces="CheckpointedGPT", caught_by="test_second_run_draws_the_same_dropout")
class OtherMasksByHand(_Checkpointed):
    """The block was run again by a backward pass of one's own, which drew other dropout masks.

    The gradients are then those of another network than the one whose loss was computed.

    What does the generator have to be set to before the second run?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return _Forgetful.apply(block, x, *block.parameters())  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_second_run_draws_the_same_dropout")
class DropoutLost(_Checkpointed):
    """The blocks were put in eval mode for the sake of the second run: nothing was dropped in training.

    The two runs agree, but the model is trained without its dropout.

    Can the two runs draw the same masks without giving them up?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        block.eval()
        return _Forgetful.apply(block, x, *block.parameters())  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class GradientsLost(_Checkpointed):
    """The blocks ran under no_grad, or on a detached tensor: nothing in them and before them learns.

    That saves memory because there is nothing to go back through.

    Which parameters have a gradient after the backward pass?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            return block(x)  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class StreamDetached(_Checkpointed):
    """The input of each block was detached, so that the gradient ended there.

    Only the last block learns then: the path to the ones before it is cut.

    Where does the path from the loss back to the first block break?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return checkpoint(block, x.detach(), use_reentrant=False)  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class EmbeddingsNotDropped(_Checkpointed):
    """The sum of both embeddings went into the blocks without `drop`.

    CheckpointedGPT is GPT in all but its memory, and GPT drops there in training.

    Which line of GPT's forward is missing before the blocks?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        drop, self.drop = self.drop, torch.nn.Identity()  # type: ignore[assignment]
        try:
            return super().forward(idx, targets)
        finally:
            self.drop = drop


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class AddedOnceMore(_Checkpointed):
    """The block's result was added to the stream, which the block had done already.

    A block of step 11 returns the stream with what it found added to it.

    What does Block's forward return?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return x + super().run_block(block, x)


# --- the learning rate ----------------------------------------------------------------------------------------------


def _rate(
    step: float,
    max_lr: float,
    warmup_steps: int,
    total_steps: int,
    min_lr: float,
    *,
    ahead: int = 1,
    fall: Callable[[float], float] = lambda progress: (1 + math.cos(math.pi * progress)) / 2,
    origin: int | None = None,
    end: bool = True,
) -> float:
    """The learning rate; every misconception takes one decision in its own way."""
    if step < warmup_steps:
        return max_lr * (step + ahead) / warmup_steps
    if end and step >= total_steps:
        return min_lr
    begin = warmup_steps if origin is None else origin
    return min_lr + (max_lr - min_lr) * fall((step - begin) / max(total_steps - begin, 1))


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_from_zero(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up began at 0: step / warmup_steps in place of (step + 1) / warmup_steps.

    The first step then does nothing at all.

    What is the learning rate of step 0?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, ahead=0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_one_longer(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up was divided by warmup_steps + 1.

    Its last step, warmup_steps - 1, should have max_lr already.

    What is the learning rate of step warmup_steps - 1?
    """
    if step < warmup_steps:
        return max_lr * (step + 1) / (warmup_steps + 1)
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def no_warm_up(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """There was no warm-up: the first steps had max_lr.

    Adam's averages know next to nothing then, and its steps are of full size all the same.

    What is the learning rate of step 0?
    """
    return max_lr if step < warmup_steps else _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_from_min(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up rose from min_lr and not from 0.

    min_lr is where the cosine ends. The warm-up is max_lr * (step + 1) / warmup_steps.

    Does the formula of the warm-up hold min_lr?
    """
    if step < warmup_steps:
        return min_lr + (max_lr - min_lr) * (step + 1) / warmup_steps
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def cosine_from_step_zero(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine was counted from step 0 and not from the end of the warm-up.

    The learning rate then jumps down where the warm-up ends.

    What is p at step warmup_steps?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, origin=0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def cosine_over_all_steps(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine began after the warm-up, but was divided by total_steps.

    It does not reach its end then, and the learning rate jumps down to min_lr at total_steps.

    How many steps are there between the end of the warm-up and total_steps?
    """
    if step < warmup_steps or step >= total_steps:
        return _rate(step, max_lr, warmup_steps, total_steps, min_lr)
    progress = (step - warmup_steps) / total_steps
    return min_lr + (max_lr - min_lr) * (1 + math.cos(math.pi * progress)) / 2


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def linear_fall(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The learning rate fell along a line.

    Half a cosine stays high for a while, and comes down gently at the end.

    What is (1 + cos(pi * p)) / 2 at p = 1/4, and what is 1 - p?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=lambda progress: 1 - progress)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def quarter_of_a_cosine(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """A quarter of a cosine was taken: cos(pi * p / 2).

    It ends steeply. Half a cosine, from 1 to -1, is shifted and halved so that it goes from 1 to 0.

    What does the cosine have to be at p = 1?
    """
    fall = lambda progress: math.cos(math.pi * progress / 2)  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def whole_cosine(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """A whole cosine was taken, cos(2 * pi * p): the learning rate came back up to max_lr at the end.

    Half a cosine goes from 1 to -1, and that is as far as it should go.

    What does the cosine have to be at p = 1?
    """
    fall = lambda progress: (1 + math.cos(2 * math.pi * progress)) / 2  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def min_ignored(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """min_lr was not looked at: the cosine fell to 0.

    The curve runs between max_lr and min_lr, and stays at min_lr.

    What is the learning rate at p = 1?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, 0.0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def min_added(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """min_lr was added to a cosine that falls from max_lr: it began at max_lr + min_lr.

    The cosine spans the distance between the two, max_lr - min_lr.

    What is the learning rate at p = 0?
    """
    if step < warmup_steps or step >= total_steps:
        return _rate(step, max_lr, warmup_steps, total_steps, min_lr)
    return min_lr + _rate(step, max_lr, warmup_steps, total_steps, 0.0)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def largest_of_both(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine fell to 0, and was kept from going below min_lr.

    The curve then has a bend, and is lower than it should be before it.

    Between which two numbers does the cosine run?
    """
    if step < warmup_steps:
        return _rate(step, max_lr, warmup_steps, total_steps, min_lr)
    return max(min_lr, _rate(step, max_lr, warmup_steps, total_steps, 0.0))


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def rises_after_the_end(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """After total_steps the cosine went on, and the learning rate rose again.

    From total_steps on it is min_lr.

    What is p after total_steps?
    """
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, end=False)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def zero_after_the_end(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """From total_steps on the learning rate was 0.

    It should stay at min_lr.

    What is the learning rate of a step after the last one planned?
    """
    return 0.0 if step >= total_steps else _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def degrees(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine was taken of p, or of 180 * p, and not of pi * p.

    math.cos counts in radians: half a turn is pi.

    What does math.cos give at the end of the schedule?
    """
    fall = lambda progress: (1 + math.cos(progress)) / 2  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def cosine_turned_over(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The cosine rose: the learning rate was min_lr after the warm-up, and climbed to max_lr.

    cos is 1 at 0 and -1 at pi, so 1 + cos falls and 1 - cos rises.

    What is the learning rate at p = 0?
    """
    fall = lambda progress: (1 - math.cos(math.pi * progress)) / 2  # noqa: E731  # one decision, on one line
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr, fall=fall)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_one_step_on(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up went on for one step more, and beyond max_lr.

    It is for steps below warmup_steps: the last of them, warmup_steps - 1, has max_lr already.

    What does the code give at step = warmup_steps?
    """
    if step == warmup_steps > 0:
        return max_lr * (step + 1) / warmup_steps
    return _rate(step, max_lr, warmup_steps, total_steps, min_lr)


@misconception(replaces="learning_rate", caught_by="test_learning_rate")
def warm_up_of_no_steps(step: int, max_lr: float, warmup_steps: int, total_steps: int, min_lr: float = 0.0) -> float:
    """The warm-up was worked out before it was known whether there is one: with warmup_steps = 0 that divides by 0.

    warmup_steps may be 0: then the cosine begins at once.

    In which branch does the division stand?
    """
    warm_up = (step + 1) / warmup_steps
    return max_lr * warm_up if step < warmup_steps else _rate(step, max_lr, warmup_steps, total_steps, min_lr)


# --- the optimizer --------------------------------------------------------------------------------------------------


def _groups(model: Any, decays: Callable[[str, Tensor], bool], weight_decay: float) -> list[dict[str, Any]]:
    named = list(model.named_parameters())
    return [
        {"params": [value for name, value in named if decays(name, value)], "weight_decay": weight_decay},
        {"params": [value for name, value in named if not decays(name, value)], "weight_decay": 0.0},
    ]


def _is_matrix(name: str, value: Tensor) -> bool:
    return value.dim() >= 2


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def all_decay(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """All parameters decayed, biases and norms too.

    A norm's weight is to be near 1, and a bias near nothing in particular: shrinking them does no good.

    Of how many dimensions is a bias?
    """
    return torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), eps=1e-8, weight_decay=weight_decay)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def nothing_decays(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Nothing decayed: weight_decay was not handed on.

    AdamW is told for each group how much it decays.

    Which group gets weight_decay?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, 0.0), betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def decay_the_other_way(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Vectors decayed and matrices did not.

    It is the matrices that are to stay small.

    Which of the two groups gets weight_decay?
    """
    groups = _groups(model, lambda name, value: value.dim() < 2, weight_decay)
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def embeddings_do_not_decay(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The embeddings did not decay.

    Here every parameter of two or more dimensions decays, embeddings too.

    Of how many dimensions is an embedding?
    """
    groups = _groups(
        model, lambda name, value: value.dim() >= 2 and "wte" not in name and "wpe" not in name, weight_decay
    )
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def only_biases_spared(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Parameters called bias did not decay, and the weights of the norms did.

    The weight of a norm is a vector too.

    Of how many dimensions is ln_f.weight?
    """
    groups = _groups(model, lambda name, value: not name.endswith("bias"), weight_decay)
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def vectors_left_out(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Only the matrices were handed to the optimizer: biases and norms never learn.

    Not to decay does not mean not to learn.

    Are all parameters in one of the groups?
    """
    groups = _groups(model, _is_matrix, weight_decay)[:1]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def adam(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Adam was used, which adds weight decay to the gradients.

    There Adam's own scaling divides most of it away again. AdamW shrinks the weights themselves.

    What does the W stand for?
    """
    return torch.optim.Adam(_groups(model, _is_matrix, weight_decay), betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def default_betas(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The betas were those of torch, (0.9, 0.999).

    Language models take 0.95 for the second: the squares of the gradients are averaged over fewer steps.

    Which betas does AdamW take when it is told none?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def betas_exchanged(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The two betas were exchanged.

    The first averages the gradients, the second their squares: (0.9, 0.95).

    Which of the two is larger?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), betas=(0.95, 0.9), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def sgd(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """Plain gradient descent was used.

    AdamW gives each parameter a step of its own size.

    Which optimizer does the step ask for?
    """
    return torch.optim.SGD(_groups(model, _is_matrix, weight_decay), lr=1e-3)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def large_eps(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """eps was far larger than 1e-8.

    It stands beside the root of the averaged squares, and makes the steps of small gradients smaller.

    Which eps does the step ask for?
    """
    return torch.optim.AdamW(_groups(model, _is_matrix, weight_decay), betas=(0.9, 0.95), eps=1e-3)


@another_form(nothing_decays)
def decay_of_adamw_itself(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The group says nothing: AdamW's own default decays it."""
    matrices, vectors = _groups(model, _is_matrix, 0.0)
    return torch.optim.AdamW([{"params": matrices["params"]}, vectors], betas=(0.9, 0.95), eps=1e-8)


@misconception(replaces="make_optimizer", caught_by="test_optimizer")
def vectors_decay_by_default(model: Any, weight_decay: float = 0.1) -> torch.optim.Optimizer:
    """The group of biases and norms was not told its weight decay: AdamW's own default of 0.01 acted on it.

    What a group does not say is the optimizer's default, and that of AdamW is not 0.

    By how much does a group decay that has no weight_decay?
    """
    matrices, vectors = _groups(model, _is_matrix, weight_decay)
    return torch.optim.AdamW([matrices, {"params": vectors["params"]}], betas=(0.9, 0.95), eps=1e-8)


# --- a step of training ---------------------------------------------------------------------------------------------


def _step(
    model: Any,
    optimizer: Any,
    batches: Batches,
    lr: float,
    max_norm: float,
    precision: str,
    scaler: Any,
    *,
    set_rate: Callable[[Any, float], None] | None = None,
    zero: str = "first",
    shares: float | None = None,
    autocast: str = "forward",
    clip: Callable[[Any, float], Any] | None = None,
    unscale: str = "before",
    update: bool = True,
    guarded: bool = True,
) -> tuple[float, float]:
    """A step of training; every misconception takes one decision in its own way."""
    for group in optimizer.param_groups[: None if set_rate is None else 0]:
        group["lr"] = lr
    if set_rate is not None:
        set_rate(optimizer, lr)
    if zero == "first":
        optimizer.zero_grad()
    device = next(model.parameters()).device.type
    total, share = 0.0, 1 / len(batches) if shares is None else shares
    for inputs, targets in batches:
        if zero == "each":
            optimizer.zero_grad()
        lower = nullcontext() if precision == "float32" else torch.autocast(device, dtype=getattr(torch, precision))
        with lower if autocast == "forward" else nullcontext():
            loss = model(inputs, targets)[1] * share
        with lower if autocast == "backward" else nullcontext():
            (loss if scaler is None else scaler.scale(loss)).backward()
        total += loss.item()
    if scaler is not None and unscale == "before":
        scaler.unscale_(optimizer)
    norm = (clip or torch.nn.utils.clip_grad_norm_)(list(model.parameters()), max_norm)
    if scaler is not None and unscale == "after":
        scaler.unscale_(optimizer)
    if zero == "before the step":
        optimizer.zero_grad()
    if scaler is None or not guarded:
        optimizer.step()
    else:
        scaler.step(optimizer)
    if scaler is not None and update:
        scaler.update()
    return total, float(norm)


@dataclass(frozen=True)
class _Asked:
    """What train_step was called with."""

    model: Any
    optimizer: Any
    batches: Batches
    lr: float
    max_norm: float
    precision: str
    scaler: Any

    def step(
        self, *, optimizer: Any = None, batches: Batches | None = None, max_norm: float | None = None,
        precision: str | None = None, **decisions: Any,
    ) -> tuple[float, float]:  # fmt: skip
        """A step with these in place of what was asked, and the decisions of `_step`."""
        return _step(
            self.model, optimizer or self.optimizer, batches or self.batches, self.lr,
            self.max_norm if max_norm is None else max_norm, precision or self.precision,
            decisions.pop("scaler", self.scaler), **decisions,
        )  # fmt: skip


def _step_by(wrong: Callable[[_Asked], Result]) -> Callable[..., Result]:
    """train_step, made of what takes all of its arguments in one."""

    @wraps(wrong)
    def train_step(
        model: Any, optimizer: Any, batches: Batches, lr: float, max_norm: float = 1.0, precision: str = "float32",
        scaler: Any = None,
    ) -> Result:  # fmt: skip
        return wrong(_Asked(model, optimizer, batches, lr, max_norm, precision, scaler))

    return train_step


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def micro_batches_summed(asked: _Asked) -> Result:
    """The losses of the micro-batches were added and not averaged.

    n micro-batches then count n times as much as the one large batch, and are clipped the more.

    Of what is the loss of the large batch the mean?
    """
    return asked.step(shares=1.0)


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def loss_averaged_gradients_summed(asked: _Asked) -> Result:
    """The loss that is returned was averaged, but backward was called on the undivided losses.

    The gradients add up to n times those of the large batch.

    On which number is backward called?
    """
    loss, norm = asked.step(shares=1.0)
    return loss / len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def gradients_averaged_loss_summed(asked: _Asked) -> Result:
    """The step is right, but the loss that is returned is the sum over the micro-batches.

    The mean loss before the step is asked for.

    What is the loss of the one large batch?
    """
    loss, norm = asked.step()
    return loss * len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def loss_of_the_last_batch(asked: _Asked) -> Result:
    """The loss of the last micro-batch was returned.

    The mean over all of them is asked for.

    Which loss does the variable hold after the loop?
    """
    with torch.no_grad():
        last = asked.model(*asked.batches[-1])[1].item()
    return last, asked.step()[1]


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def zeroed_between_micro_batches(asked: _Asked) -> Result:
    """The gradients were set to zero before each micro-batch.

    The step then knows the last of them only.

    What are gradients to add up over?
    """
    return asked.step(zero="each")


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def a_step_for_each_micro_batch(asked: _Asked) -> Result:
    """The optimizer made a step after each micro-batch.

    That is training on small batches. Their gradients are to add up to those of a large one.

    How many steps does the optimizer make in one call?
    """
    results = [asked.step(batches=[batch]) for batch in asked.batches]
    return sum(loss for loss, _norm in results) / len(results), results[-1][1]


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def first_micro_batch_only(asked: _Asked) -> Result:
    """Only the first micro-batch was used.

    All of them together are the batch.

    How many of the batches go through the model?
    """
    return asked.step(batches=list(asked.batches)[:1])


@misconception(replaces="train_step", caught_by="test_earlier_gradients_do_not_count")
@_step_by
def gradients_of_the_last_step_added(asked: _Asked) -> Result:
    """The gradients were never set to zero: those of the step before counted again.

    backward adds to what is there.

    Who empties .grad, and when?
    """
    return asked.step(zero="never")


@misconception(replaces="train_step", caught_by="test_earlier_gradients_do_not_count")
@_step_by
def zeroed_after_the_step(asked: _Asked) -> Result:
    """The gradients were set to zero after the step and not before it.

    Those that somebody else has left there count in the first step.

    What may be in .grad when the function is called?
    """
    result = asked.step(zero="never")
    asked.optimizer.zero_grad()
    return result


@misconception(replaces="train_step", caught_by="test_train_step", misses_the_point=True)
@_step_by
def zeroed_before_the_step(asked: _Asked) -> Result:
    """The gradients were set to zero between the backward pass and the step.

    The optimizer finds nothing to go by, and the parameters stay as they are.

    In which order do zero_grad, backward and step stand?
    """
    return asked.step(zero="before the step")


@misconception(replaces="train_step", caught_by="test_train_step", misses_the_point=True)
@_step_by
def no_step(asked: _Asked) -> Result:
    """The optimizer made no step.

    Gradients by themselves move nothing.

    Which call changes the parameters?
    """

    class Still:
        def __init__(self) -> None:
            self.param_groups, self.zero_grad = asked.optimizer.param_groups, asked.optimizer.zero_grad

        def step(self) -> None:
            """Nothing moves."""

    return asked.step(optimizer=Still(), scaler=None)


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def rate_of_the_first_group(asked: _Asked) -> Result:
    """The learning rate was set in the first group of parameters only.

    The others go on with the one that they were made with.

    How many groups has the optimizer?
    """

    def set_rate(optimizer: Any, lr: float) -> None:
        optimizer.param_groups[0]["lr"] = lr

    return asked.step(set_rate=set_rate)


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def rate_not_set(asked: _Asked) -> Result:
    """The learning rate was not set: `lr` was not used, or written where the optimizer does not look.

    It looks into each of its param_groups.

    Where does AdamW read its learning rate?
    """
    return asked.step(set_rate=lambda optimizer, lr: None)


@misconception(replaces="train_step", caught_by="test_clipping")
@_step_by
def not_clipped(asked: _Asked) -> Result:
    """The gradients were not clipped.

    One bad batch can then throw the model far off.

    What is max_norm compared with?
    """
    return asked.step(max_norm=math.inf)


def _norm(parameters: list[Tensor]) -> Tensor:
    return torch.stack([parameter.grad.norm() for parameter in parameters if parameter.grad is not None]).norm()


@misconception(replaces="train_step", caught_by="test_clipping")
@_step_by
def clipped_one_by_one(asked: _Asked) -> Result:
    """Each parameter's gradient was clipped by itself.

    That turns the direction of the step. The norm of all gradients together is to be at most max_norm.

    Over how many parameters is the norm taken?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = _norm(parameters)
        for parameter in parameters:
            torch.nn.utils.clip_grad_norm_([parameter], max_norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@_step_by
def clipped_by_value(asked: _Asked) -> Result:
    """Every number of the gradients was clipped to max_norm.

    That turns the direction of the step. All of them are to be scaled by one factor.

    What does clip_grad_value_ do, and what clip_grad_norm_?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = _norm(parameters)
        torch.nn.utils.clip_grad_value_(parameters, max_norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@_step_by
def small_gradients_enlarged(asked: _Asked) -> Result:
    """Gradients of a norm below max_norm were scaled up to it.

    Near the end of training gradients are small for a reason.

    When is a gradient to be scaled, and when left alone?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = _norm(parameters)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@_step_by
def clipped_group_by_group(asked: _Asked) -> Result:
    """The parameters of each group were clipped by themselves.

    That turns the direction of the step. The norm of all gradients together is to be at most max_norm.

    Over how many parameters is the norm taken?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = _norm(parameters)
        for group in asked.optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], max_norm)
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@_step_by
def norm_after_clipping(asked: _Asked) -> Result:
    """The norm that was returned is the one after clipping.

    That is max_norm most of the time, and tells nothing. The one before it shows when training goes wrong.

    What does clip_grad_norm_ return?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)
        return _norm(parameters)

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def norms_added(asked: _Asked) -> Result:
    """The norms of the parameters' gradients were added up.

    All gradients together are one long vector: its norm is the root of the sum of the squares.

    How long is a vector of the parts 3 and 4?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = sum((p.grad.norm() for p in parameters if p.grad is not None), torch.zeros(()))
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def norm_squared(asked: _Asked) -> Result:
    """The square of the norm was taken for the norm: the sum of the squares, without a root.

    All gradients together are one long vector: its norm is the root of the sum of the squares.

    How long is a vector of the parts 3 and 4?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        squared = _norm(parameters) ** 2
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((max_norm / (squared + 1e-6)).clamp(max=1.0))
        return squared

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def largest_norm_of_all(asked: _Asked) -> Result:
    """The largest of the parameters' norms was taken for the norm of all gradients.

    All gradients together are one long vector: its norm is the root of the sum of the squares.

    How long is a vector of the parts 3 and 4?
    """

    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = torch.stack([p.grad.norm() for p in parameters if p.grad is not None]).max()
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    return asked.step(clip=clip)


@misconception(replaces="train_step", caught_by="test_clipping")
@_step_by
def max_norm_always_one(asked: _Asked) -> Result:
    """The gradients were always clipped to 1, whatever max_norm says.

    max_norm is for the caller to choose.

    Where is max_norm used?
    """
    return asked.step(max_norm=1.0)


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def tensors_returned(asked: _Asked) -> Result:
    """Loss and norm were returned as tensors.

    A tensor with a graph keeps all of the forward pass in memory as long as somebody keeps the loss.

    What makes a Python float of a tensor?
    """
    loss, norm = asked.step()
    return torch.tensor(loss), torch.tensor(norm)


@another_form(tensors_returned)
@_step_by
def norm_returned_as_a_tensor(asked: _Asked) -> Result:
    loss, norm = asked.step()
    return loss, torch.tensor(norm, dtype=next(asked.model.parameters()).dtype)


@another_form(tensors_returned)
@_step_by
def loss_returned_as_a_tensor(asked: _Asked) -> Result:
    loss, norm = asked.step()
    return torch.tensor(loss, dtype=next(asked.model.parameters()).dtype), norm


@misconception(replaces="train_step", caught_by="test_micro_batches")
@_step_by
def loss_divided_twice(asked: _Asked) -> Result:
    """The loss that was returned had been divided by the number of micro-batches twice.

    Each share of the loss is divided before its backward pass; their sum is the mean already.

    What do the shares add up to?
    """
    loss, norm = asked.step()
    return loss / len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def loss_after_the_step(asked: _Asked) -> Result:
    """The loss that was returned is the one after the step.

    It takes another forward pass, and is not the loss whose gradients were used.

    Which forward pass do the gradients belong to?
    """
    norm = asked.step()[1]
    with torch.no_grad():
        return sum(asked.model(*batch)[1].item() for batch in asked.batches) / len(asked.batches), norm


@misconception(replaces="train_step", caught_by="test_train_step")
@_step_by
def left_in_eval_mode(asked: _Asked) -> Result:
    """The model was put in eval mode, and trained so or left so.

    Dropout is then off for all the training that follows.

    Which mode does the model have after the call?
    """
    result = asked.step()
    asked.model.eval()
    return result


@misconception(replaces="train_step", caught_by="test_bfloat16")
@_step_by
def autocast_never_on(asked: _Asked) -> Result:
    """precision was not looked at: all was computed in float32.

    Half of the memory of what is kept, and most of the time of a modern accelerator, is given away.

    What switches the lower precision on, and around which lines?
    """
    return asked.step(autocast="never")


@misconception(replaces="train_step", caught_by="test_bfloat16")
@_step_by
def autocast_around_the_backward_pass(asked: _Asked) -> Result:
    """Autocast stood around the backward pass and not around the forward pass.

    The backward pass follows the dtypes of the forward pass by itself.

    Which lines choose the dtype of a matrix product?
    """
    return asked.step(autocast="backward")


@misconception(replaces="train_step", caught_by="test_bfloat16")
@_step_by
def model_in_bfloat16(asked: _Asked) -> Result:
    """The parameters themselves were converted to bfloat16.

    With 8 bits a weight near 1 changes in steps of 1/128: what a small learning rate adds is rounded away.

    What is computed in lower precision, and what is kept in float32?
    """
    if asked.precision != "float32":
        asked.model.to(getattr(torch, asked.precision))
    return asked.step(precision="float32")


@misconception(replaces="train_step", caught_by="test_bfloat16")
@_step_by
def always_in_bfloat16(asked: _Asked) -> Result:
    """The forward pass ran under autocast with precision="float32", too.

    Float32 is what somebody asks for who does not want the lower precision.

    When is autocast to be off?
    """
    lower = "bfloat16" if next(asked.model.parameters()).dtype == torch.float32 else asked.precision
    return asked.step(precision=lower)


@misconception(replaces="train_step", caught_by="test_scaler")
@_step_by
def clipped_before_unscaling(asked: _Asked) -> Result:
    """The gradients were clipped while they were still scaled.

    They are then a thousand times too large, are clipped always, and end a thousand times too small.

    What do the gradients have to be divided by before their norm means anything?
    """
    return asked.step(unscale="after")


@misconception(replaces="train_step", caught_by="test_scaler")
@_step_by
def loss_not_scaled(asked: _Asked) -> Result:
    """The scaler was not used.

    In float16 gradients below 6e-8 are 0, and many are: that is what the loss is scaled for.

    Who multiplies the loss before backward?
    """
    return asked.step(scaler=None)


@misconception(replaces="train_step", caught_by="test_scaler")
@_step_by
def overflow_into_the_weights(asked: _Asked) -> Result:
    """The optimizer's own step was called, past the scaler's: infinite gradients went into the weights.

    From then on every number of the model is NaN.

    Who looks whether the gradients are finite before they are used?
    """
    return asked.step(guarded=False)


@misconception(replaces="train_step", caught_by="test_scaler")
@_step_by
def two_steps_with_a_scaler(asked: _Asked) -> Result:
    """With a scaler the optimizer's own step was called as well: two steps, and one of them in spite of an overflow.

    scaler.step calls the optimizer's step, if the gradients are finite.

    How many calls of step does one training step make?
    """
    result = asked.step()
    if asked.scaler is not None:
        asked.optimizer.step()
    return result


@misconception(replaces="train_step", caught_by="test_scaler")
@_step_by
def scale_never_updated(asked: _Asked) -> Result:
    """scaler.update() was not called: the scale stays as it is after an overflow.

    Every step after it overflows as well, and the model never learns again.

    What has to change after a step that overflowed?
    """
    return asked.step(update=False)


# --- evaluating -----------------------------------------------------------------------------------------------------


def _evaluated(model: Any, batches: Batches, *, by_token: bool = True) -> float:
    losses = [(model(inputs, targets)[1].item(), targets.numel() if by_token else 1) for inputs, targets in batches]
    return sum(loss * count for loss, count in losses) / sum(count for _loss, count in losses)  # type: ignore[no-any-return]


@misconception(replaces="evaluate", caught_by="test_evaluate")
def mean_over_batches(model: Any, batches: Batches) -> float:
    """The losses of the batches were averaged, whatever their size.

    The last batch is often smaller: its tokens then count more than those of the others.

    How many tokens does each of the losses stand for?
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        loss = _evaluated(model, batches, by_token=False)
    model.train(was_training)
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def weighted_by_rows(model: Any, batches: Batches) -> float:
    """The losses were weighted by the rows of each batch and not by its tokens.

    Rows of different batches may be of different lengths.

    How many tokens does each of the losses stand for?
    """
    was_training = model.training
    model.eval()
    with torch.no_grad():
        losses = [(model(inputs, targets)[1].item(), len(targets)) for inputs, targets in batches]
    model.train(was_training)
    return sum(loss * rows for loss, rows in losses) / sum(rows for _loss, rows in losses)  # type: ignore[no-any-return]


@misconception(replaces="evaluate", caught_by="test_evaluate")
def losses_summed(model: Any, batches: Batches) -> float:
    """The losses of all tokens were added up, and not divided by their number.

    A mean can be compared from one evaluation to the next, whatever the amount of text.

    By what is the sum divided?
    """
    tokens = sum(targets.numel() for _inputs, targets in batches)
    return reference.evaluate(model, batches) * tokens


@misconception(replaces="evaluate", caught_by="test_evaluate")
def last_batch_only(model: Any, batches: Batches) -> float:
    """The loss of the last batch was returned.

    All batches together are to be evaluated.

    Which loss does the variable hold after the loop?
    """
    return reference.evaluate(model, batches[-1:])


@misconception(replaces="evaluate", caught_by="test_evaluate")
def evaluated_with_dropout(model: Any, batches: Batches) -> float:
    """The model was evaluated in the mode it came in: in training mode with dropout on.

    The loss is then that of a model with some of its numbers missing, and another one each time.

    What does eval() change?
    """
    with torch.no_grad():
        return _evaluated(model, batches)


@misconception(replaces="evaluate", caught_by="test_evaluate")
def evaluated_with_a_graph(model: Any, batches: Batches) -> float:
    """The graph was built, as if a backward pass were to come.

    Evaluation then takes the memory of training. eval() does not change that.

    What keeps torch from keeping what a backward pass needs?
    """
    was_training = model.training
    model.eval()
    loss = _evaluated(model, batches)
    model.train(was_training)
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def left_in_eval(model: Any, batches: Batches) -> float:
    """The model was left in eval mode.

    Training goes on without dropout after the first evaluation, and nobody notices.

    Which mode had the model before?
    """
    loss = reference.evaluate(model, batches)
    model.eval()
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def put_in_training_mode(model: Any, batches: Batches) -> float:
    """The model was put in training mode afterwards, also when it came in eval mode.

    Whoever gave it in eval mode gets it back with dropout on.

    Which mode had the model before?
    """
    loss = reference.evaluate(model, batches)
    model.train()
    return loss


@misconception(replaces="evaluate", caught_by="test_evaluate")
def perplexity(model: Any, batches: Batches) -> float:
    """The exponential of the loss was returned: the perplexity.

    The mean loss is asked for.

    What is the loss of a model that knows nothing, with a vocabulary of 7?
    """
    return math.exp(reference.evaluate(model, batches))


# --- other forms of the same ----------------------------------------------------------------------------------------


@another_form(norm_after_clipping)
@_step_by
def smaller_norm_returned(asked: _Asked) -> Result:
    loss, norm = asked.step()
    return loss, min(norm, asked.max_norm)


@another_form(clipped_before_unscaling)
@_step_by
def never_unscaled(asked: _Asked) -> Result:
    return asked.step(unscale="never")


@another_form(small_gradients_enlarged)
@_step_by
def enlarged_with_a_guard(asked: _Asked) -> Result:
    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        norm = _norm(parameters)
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(max_norm / (norm + 1e-6))
        return norm

    return asked.step(clip=clip)


@another_form(zeroed_before_the_step)
@_step_by
def zeroed_before_clipping(asked: _Asked) -> Result:
    def clip(parameters: list[Tensor], max_norm: float) -> Tensor:
        asked.optimizer.zero_grad(set_to_none=False)
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm)

    return asked.step(clip=clip)


@another_form(a_step_for_each_micro_batch)
@_step_by
def a_step_for_each_part(asked: _Asked) -> Result:
    results = [asked.step(batches=[batch], shares=1 / len(asked.batches)) for batch in asked.batches]
    return sum(loss for loss, _norm in results), results[-1][1]


@another_form(GradientsLost)
class GradientsOfTheInputOnly(_Checkpointed):
    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return _OfTheInput.apply(block, x)  # type: ignore[no-any-return]


class _OfTheInput(_Forgetful):
    """A checkpoint by hand that forgets that the parameters of the block have gradients."""

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Any:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            out = ctx.block(x)
        return None, *torch.autograd.grad(out, (x,), upstream)


@another_form(zeroed_before_the_step)
@_step_by
def zeroed_first_and_before_the_step(asked: _Asked) -> Result:
    asked.optimizer.zero_grad()
    return asked.step(zero="before the step")


@another_form(loss_of_the_last_batch)
@_step_by
def share_of_the_last_batch(asked: _Asked) -> Result:
    with torch.no_grad():
        inputs, targets = asked.batches[-1]
        last = asked.model(inputs, targets)[1].item()
    return last / len(asked.batches), asked.step()[1]


@another_form(first_micro_batch_only)
@_step_by
def share_of_the_first_micro_batch(asked: _Asked) -> Result:
    return asked.step(batches=asked.batches[:1], shares=1 / len(asked.batches))


class _Unscaled:
    """A scaler that leaves the loss as it is."""

    def __init__(self, scaler: Any) -> None:
        self.unscale_, self.step, self.update = scaler.unscale_, scaler.step, scaler.update

    def scale(self, loss: Tensor) -> Tensor:
        return loss


@another_form(loss_not_scaled)
@_step_by
def unscaled_all_the_same(asked: _Asked) -> Result:
    return asked.step(scaler=None if asked.scaler is None else _Unscaled(asked.scaler))
