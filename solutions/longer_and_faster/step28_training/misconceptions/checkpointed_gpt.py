"""What learners get wrong in `CheckpointedGPT`, each with the check that catches it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from grader.checks.catalogue import another_form, misconception
from solutions.core.step12_gpt.reference import GPT

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
    """Only half of the blocks were checkpointed, as every second one.

    The others keep all that they computed, and the memory still grows with the depth.

    Which of the blocks may keep their numbers?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        if list(self.h).index(block) % 2:
            return block(x)  # type: ignore[no-any-return]
        return super().run_block(block, x)


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_saves_memory")
class OneBlockOnly(_Checkpointed):
    """Only one of the blocks was checkpointed, the first or the last.

    The others keep all that they computed, and the memory still grows with the depth.

    Which of the blocks may keep their numbers?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return super().run_block(block, x) if block is self.h[-1] else block(x)  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_saves_memory")
class LastTwoSpared(_Checkpointed):
    """The last two blocks were not checkpointed.

    Only the last one is needed at once in the backward pass. The one before it keeps its numbers for nothing.

    Which indices has the loop for the blocks that are checkpointed?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return block(x) if block in self.h[-2:] else super().run_block(block, x)  # type: ignore[no-any-return]


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


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class LastBlockRunAgain(_Checkpointed):
    """The second run was that of another block: the function handed to `checkpoint` looked up its block when it ran.

    By then the loop was over, and its variable named the last block. The gradients are those of no network at all.

    When does a lambda in a loop look up the loop's variable?
    """

    def run_block(self, block: Any, x: Tensor) -> Tensor:
        self.__dict__["latest"] = block  # no submodule: it is one already
        return checkpoint(lambda stream: self.latest(stream), x, use_reentrant=False)  # type: ignore[no-any-return]


class _Rewritten(_Checkpointed):
    """The model's forward in parts: some are lost when it is written once more."""

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device)))  # type: ignore[no-any-return]

    def finish(self, x: Tensor) -> Tensor:
        return self.ln_f(x)  # type: ignore[no-any-return]

    def blocks(self) -> list[Any]:
        return list(self.h)

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        if idx.shape[1] > self.block_size:
            raise ValueError("too many tokens")
        x = self.embed(idx)
        for block in self.blocks():
            x = self.run_block(block, x) if self.training and torch.is_grad_enabled() else block(x)
        logits = self.lm_head(self.finish(x))
        return logits, None if targets is None else self.loss_of(logits, targets)


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class NoFinalNorm(_Rewritten):
    """`ln_f` was left out: the head read the stream as the last block left it.

    CheckpointedGPT is GPT in all but its memory, and GPT has a norm before the head.

    Which line of GPT's forward is missing behind the blocks?
    """

    def finish(self, x: Tensor) -> Tensor:
        return x


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class NoPositions(_Rewritten):
    """The positions were not added to the token embeddings.

    CheckpointedGPT is GPT in all but its memory, and GPT adds both embeddings.

    What does GPT's forward add to wte(idx)?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx))  # type: ignore[no-any-return]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class LastBlockLeftOut(_Rewritten):
    """The last block was left out altogether.

    It need not be checkpointed, but it has to run.

    Through which blocks does the stream go when the loop leaves out the last?
    """

    def blocks(self) -> list[Any]:
        return list(self.h)[:-1]


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class LossShiftedAgain(_Rewritten):
    """The targets were shifted once more for the loss.

    targets[b, t] is already what follows idx[b, t].

    Which logits belong to targets[b, 0]?
    """

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())


@misconception(replaces="CheckpointedGPT", caught_by="test_checkpointed_is_the_same_model")
class LossSummed(_Rewritten):
    """The loss was the sum over all positions and not their mean.

    CheckpointedGPT is GPT in all but its memory, and GPT's loss is a mean.

    What does reduction="mean" divide by?
    """

    def loss_of(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


# --- other forms of the same: the last block is run as it is --------------------------------------------------------


class _AllButTheLast(_Checkpointed):
    def run_block(self, block: Any, x: Tensor) -> Tensor:
        return block(x) if block is self.h[-1] else super().run_block(block, x)  # type: ignore[no-any-return]


@another_form(OtherMasks)
class OtherMasksBeforeTheLast(_AllButTheLast, OtherMasks):
    pass


@another_form(OtherMasksByHand)
class OtherMasksByHandBeforeTheLast(_AllButTheLast, OtherMasksByHand):
    pass


@another_form(StreamDetached)
class DetachedBeforeTheLast(_AllButTheLast, StreamDetached):
    pass


@another_form(AddedOnceMore)
class AddedOnceMoreBeforeTheLast(_AllButTheLast, AddedOnceMore):
    pass


@another_form(LastBlockRunAgain)
class LastBlockRunAgainBeforeTheLast(_AllButTheLast, LastBlockRunAgain):
    def run_block(self, block: Any, x: Tensor) -> Tensor:
        self.__dict__["latest"] = block
        return super().run_block(block, x)


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


@another_form(GradientsLost)
class GradientsLostBeforeTheLast(_AllButTheLast, GradientsLost):
    pass
