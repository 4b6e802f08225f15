"""What learners get wrong in step 12, each with the check that catches it."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception, together
from solutions.core.step12_gpt import reference
from solutions.core.step12_gpt.reference import GPT

# --- the model ---


def positions_of(idx: Tensor) -> Tensor:
    return torch.arange(idx.shape[1], device=idx.device)


def logits_and_loss(model: GPT, x: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Blocks, norm, head and loss as they should be, for embeddings that are not."""
    for block in model.h:
        x = block(x)
    logits = model.lm_head(model.ln_f(x))
    return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def refuse_too_many(model: GPT, idx: Tensor) -> None:
    if idx.shape[1] > model.block_size:
        raise ValueError(f"{idx.shape[1]} tokens were given, but block_size is {model.block_size}")


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand", misses_the_point=True)
class positions_not_added(GPT):
    """The position embedding was not added to the token embedding.

    Attention adds up values whatever their order, so without wpe the model can hardly tell where a token stands.

    How could the model know that the same token stands at position 0 here and at position 5 there?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        return logits_and_loss(self, self.drop(self.wte(idx)), targets)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand", misses_the_point=True)
class positions_off_by_one(GPT):
    """The positions were counted from 1.

    The rows of wpe belong to the positions 0 to block_size - 1. Counted from 1, the first row is never used and a
    full context asks for a row that does not exist.

    Which row of wpe belongs to the first token?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        return logits_and_loss(self, self.drop(self.wte(idx) + self.wpe(positions_of(idx) + 1)), targets)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand", misses_the_point=True)
class no_final_norm(GPT):
    """The head was given the last block's output without ln_f.

    Every block adds to the stream, so what leaves the last one has no fixed size. GPT-2 normalises it once more.

    What stands between the last block and lm_head in the list of submodules?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        x = self.drop(self.wte(idx) + self.wpe(positions_of(idx)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(x)
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class norm_before_the_blocks(GPT):
    """ln_f was applied to the embeddings, before the blocks.

    Each block normalises what it reads by itself. The final norm is there for the head, which reads what the last
    block leaves behind.

    Whose output does the f in ln_f, final, speak of?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        x = self.ln_f(self.drop(self.wte(idx) + self.wpe(positions_of(idx))))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(x)
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class only_last_logits(GPT):
    """Only the logits of the last position were returned when no targets were given.

    The contract asks for the logits of every position, with and without targets. Some codebases save work here, but
    then the shape of the answer depends on whether a loss was wanted.

    Who should pick the last position: the model, or the function that generates?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return (logits[:, -1:], None) if targets is None else (logits, loss)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class probabilities_instead_of_logits(GPT):
    """A softmax was applied to the logits before they were returned and before the loss.

    Cross-entropy takes the logits and does the softmax by itself, so here it was done twice, and generate divides
    probabilities by the temperature.

    What does F.cross_entropy expect: logits or probabilities?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        probabilities = super().forward(idx)[0].softmax(dim=-1)
        if targets is None:
            return probabilities, None
        return probabilities, F.cross_entropy(probabilities.flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class logits_left_flat(GPT):
    """The logits were flattened for the loss and returned in that shape.

    With targets they came as (B * T, vocab_size), without as (B, T, vocab_size). The shape of the logits should not
    depend on whether a loss was wanted.

    Does the variable that you return still hold what it held before F.cross_entropy?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return (logits, None) if targets is None else (logits.flatten(0, 1), loss)


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class embedding_scaled(GPT):
    """The token embedding was multiplied by √D before the positions were added.

    The first Transformer did so (Attention Is All You Need, section 3.4), GPT-2 does not, and its weights give other
    logits that way.

    What does GPT-2 do with the two embeddings before the first block, besides adding them?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        tokens = self.wte(idx) * self.wte.embedding_dim**0.5
        return logits_and_loss(self, self.drop(tokens + self.wpe(positions_of(idx))), targets)


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class blocks_side_by_side(GPT):
    """The last block was given the embeddings, and not what the blocks before it had written.

    The blocks form a chain: each one reads what the one before it has written. Here all but the last had no effect.

    What should the second block be given?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        embedded = x = self.drop(self.wte(idx) + self.wpe(positions_of(idx)))
        for block in self.h:
            x = block(embedded)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class one_block_many_times(GPT):
    """One block was made and put into the list n_layer times.

    The list holds the same block again and again, so all layers share their weights, and training one trains them all.

    How many blocks are made by [Block(...)] * n_layer?
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        self.h = nn.ModuleList([self.h[0]] * n_layer)


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class bias_not_passed_on(GPT):
    """The argument bias was not handed to the blocks.

    With bias=False the linear layers and norms of each block should have no bias; here they still had theirs.

    Which of GPT's arguments does a Block want as well?
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout)


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class blocks_in_a_plain_list(GPT):
    """torch found no blocks in the model: h was a plain Python list, or not there.

    torch does not look into a list: the parameters in it are not found, not trained, not saved and not moved.

    Which container of torch.nn tells the model of the modules in it?
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        blocks = list(self.h)
        del self.h
        self.h = blocks  # type: ignore[assignment]  # what is wrong with it


@misconception(replaces="GPT", caught_by="test_head_is_tied")
class untied_head(GPT):
    """lm_head had a weight of its own.

    GPT-2 uses one matrix for both ends: row i of wte is what token i looks like on the way in, and what the output is
    compared with on the way out. Two matrices are a different model with many more parameters.

    How can two modules hold one and the same nn.Parameter?
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        self.lm_head.weight = nn.Parameter(torch.randn(vocab_size, n_embd) * 0.02)


@misconception(replaces="GPT", caught_by="test_head_is_tied")
class tied_in_forward(GPT):
    """lm_head was given wte's weight in forward, and not when the model was made.

    Until the first call there are two matrices: a state dict that is saved then holds both, and an optimizer that is
    made then keeps one that no gradient ever reaches.

    What has been run when GPT(...) returns: `__init__` or `forward`?
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        self.lm_head.weight = self.wte.weight
        return super().forward(idx, targets)


@misconception(replaces="GPT", caught_by="test_loss_and_its_gradient")
class head_detached(GPT):
    """The head used a detached copy of wte's weight.

    The numbers are right, but the gradient of the head never reaches the weight: it learns only from its use as an
    embedding.

    Through how many uses does the gradient flow into a tied weight?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        x = self.drop(self.wte(idx) + self.wpe(positions_of(idx)))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.lm_head.weight.detach())
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_loss_and_its_gradient")
class loss_shifted_again(GPT):
    """The targets were shifted once more inside forward.

    The targets come already shifted: targets[b, t] is the token that follows idx[b, t]. Shifted again, the model
    learns to guess the token after the next one.

    Which position's logits belong to targets[:, 0]?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())


@misconception(replaces="GPT", caught_by="test_loss_and_its_gradient")
class loss_in_another_order(GPT):
    """The logits were flattened position by position, and the targets sequence by sequence.

    Both become one long list, but in a different order, so most logits are compared with the target of another
    sequence and position.

    In which order does targets.flatten() list its elements, and do the logits follow the same order?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.transpose(0, 1).flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class softmax_before_the_loss(GPT):
    """The loss was given probabilities: a softmax was applied to the logits before the cross-entropy.

    F.cross_entropy takes logits and applies the softmax itself. Applied twice, the loss can hardly tell right tokens
    from wrong ones.

    What does F.cross_entropy expect as its first argument?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.softmax(dim=-1).flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class loss_summed(GPT):
    """The losses of the positions were added up, and the sum was not divided by their number.

    A sum grows with the batch and with the length, so the same learning rate would do more in a larger batch.

    What must happen to a sum over B * T positions to make it a mean?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return logits, None if loss is None or targets is None else loss * targets.numel()


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class loss_of_the_last_position(GPT):
    """Only the last position of each sequence took part in the loss.

    A causal model predicts a next token at every position, so each sequence of T tokens teaches T times. Here it
    taught once.

    How many next tokens are there to be guessed in targets?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        return logits, None if targets is None else F.cross_entropy(logits[:, -1], targets[:, -1])


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class token_0_left_out_of_the_loss(GPT):
    """The positions whose target is token 0 took no part in the loss.

    Where texts are filled up with a padding token, its positions are left out. Here there is no padding, and 0 is a
    token like any other.

    What does ignore_index do, and which positions does the contract count?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


@misconception(replaces="GPT", caught_by="test_too_many_tokens_are_refused")
class too_many_tokens_cropped(GPT):
    """More tokens than block_size were cropped silently instead of being refused.

    The caller gets fewer logits than tokens and is never told. Cropping is a decision for generate, which says so.

    Where does the contract crop, and where does it raise?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        idx = idx[:, -self.block_size :]
        return super().forward(idx, None if targets is None else targets[:, -self.block_size :])


@misconception(replaces="GPT", caught_by="test_too_many_tokens_are_refused")
class rows_taken_for_tokens(GPT):
    """The number of rows was compared with block_size, and not the number of tokens in a row.

    Then a large batch of short texts is refused.

    idx is (B, T). Which entry of its shape is T?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        if len(idx) > self.block_size:
            raise ValueError(f"{len(idx)} tokens were given, but block_size is {self.block_size}")
        return super().forward(idx, targets)


@misconception(replaces="GPT", caught_by="test_too_many_tokens_are_refused")
class positions_start_over(GPT):
    """The positions after block_size started again at 0.

    Then two tokens of one sequence share a position, which never happened in training. More tokens than block_size
    are an error.

    What should forward do before anything else when T is larger than block_size?
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        self.h = nn.ModuleList(reference.Block(n_embd, n_head, 8 * block_size, dropout, bias) for _ in range(n_layer))

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        positions = positions_of(idx) % self.block_size
        return logits_and_loss(self, self.drop(self.wte(idx) + self.wpe(positions)), targets)


@misconception(replaces="GPT", caught_by="test_dtype_and_device_follow_the_module")
class logits_in_float32(GPT):
    """The logits were turned into float32, whatever dtype the parameters had.

    The contract asks for the parameters' dtype: a model in float64 should answer in float64, one in bfloat16 in
    bfloat16.

    Which conversion in forward could be left out?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return logits.float(), loss


@misconception(replaces="GPT", caught_by="test_dtype_and_device_follow_the_module")
class logits_in_float32_with_targets(GPT):
    """With targets the logits were turned into float32 for the loss, and came back so.

    The loss may be computed in float32. The logits have the parameters' dtype, with targets as without.

    Which of the two tensors should `forward` return: the one from before the conversion or the one from after it?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return logits if targets is None else logits.float(), loss


@misconception(replaces="GPT", caught_by="test_dtype_and_device_follow_the_module")
class positions_on_the_cpu(GPT):
    """The positions were on the CPU, wherever the tokens were.

    torch.arange makes its tensor on the CPU unless it is told otherwise, and a tensor kept as a plain attribute stays
    where it was made. On a GPU the model then breaks.

    Which tensor in forward knows the device on which the positions are needed?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        positions = self.wpe(torch.arange(idx.shape[1]))
        return logits_and_loss(self, self.drop(self.wte(idx) + positions), targets)


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class embeddings_not_dropped(GPT):
    """drop was not applied to the sum of the embeddings.

    GPT-2 drops elements of the sum of both embeddings in training, before the first block reads them.

    Where does drop stand in the list of submodules, and what has been computed by then?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        return logits_and_loss(self, self.wte(idx) + self.wpe(positions_of(idx)), targets)


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class only_tokens_dropped(GPT):
    """drop was applied to the token embedding alone, before the positions were added.

    GPT-2 drops from the sum. Here a number that was dropped is not 0: what its position adds is still there.

    What does the stream hold when drop comes, in the picture of the lesson?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        return logits_and_loss(self, self.drop(self.wte(idx)) + self.wpe(positions_of(idx)), targets)


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class each_embedding_dropped(GPT):
    """drop was applied to the token embedding and to the position embedding, and their sum was taken then.

    A number is lost from the sum only where both were dropped. GPT-2 adds first and drops from what the sum is.

    How many times is drop called, and on what?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        positions = self.wpe(positions_of(idx).expand_as(idx))
        return logits_and_loss(self, self.drop(self.wte(idx)) + self.drop(positions), targets)


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class dropout_not_passed_on(GPT):
    """The argument dropout was not handed to the blocks.

    Attention and MLP inside each block want the same rate. Here only the embeddings were dropped.

    Which of GPT's arguments does a Block want as well?
    """

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, 0.0, bias)
        self.drop = nn.Dropout(dropout)


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class dropped_twice(GPT):
    """The embeddings were dropped twice, one dropout after the other.

    What two of them keep is less than what was asked for: with 0.3 a share of 0.51 is lost, and not 0.3.

    How many times is drop called on the way from the embeddings to the blocks?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        tokens = self.drop(self.wte(idx) + self.wpe(positions_of(idx)))
        return logits_and_loss(self, self.drop(tokens), targets)


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class dropped_before_the_head(GPT):
    """What ln_f gave was dropped on its way to the head.

    In GPT-2 the embeddings are dropped, and what each branch of a block adds. The head reads all of the stream.

    Between which two lines of your forward does each dropout stand?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        x = self.drop(self.wte(idx) + self.wpe(positions_of(idx)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.drop(self.ln_f(x)))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class one_draw_for_all_sequences(GPT):
    """The embeddings of every sequence of the batch were dropped in the same places.

    Then the batch tells as little as one sequence does: each number should have its own chance.

    Which shape does the tensor have that your dropout is given?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        x = self.wte(idx) + self.wpe(positions_of(idx))
        return logits_and_loss(self, x * self.drop(torch.ones_like(x[:1])), targets)


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class dropped_in_eval_too(GPT):
    """The embeddings were dropped in eval mode as well.

    F.dropout drops unless it is told otherwise. A model in eval mode should give the same logits every time.

    How does F.dropout learn that the model is not training, and what does nn.Dropout do about it by itself?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        refuse_too_many(self, idx)
        x = F.dropout(self.wte(idx) + self.wpe(positions_of(idx)), self.drop.p)
        return logits_and_loss(self, x, targets)


# --- generate ---


def next_logits(model: GPT, idx: Tensor) -> Tensor:
    """The logits of the last position, as they should be: (B, vocab_size)."""
    return model(idx[:, -model.block_size :])[0][:, -1].detach()


def sample(logits: Tensor) -> Tensor:
    return torch.multinomial(logits.float().softmax(dim=-1), num_samples=1)


def pick(logits: Tensor, temperature: float) -> Tensor:
    """The next tokens from logits (B, vocab_size), as it should be."""
    return logits.argmax(dim=-1, keepdim=True) if temperature == 0 else sample(logits / temperature)


def hide_small(logits: Tensor, top_k: int | None, fill: float = float("-inf")) -> Tensor:
    if top_k is None:
        return logits
    smallest_kept = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
    return logits.masked_fill(logits < smallest_kept, fill)


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def temperature_multiplied(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The logits were multiplied by the temperature.

    That turns its meaning around: a low temperature should sharpen the choice, and here it flattened it.

    What should a temperature near 0 do to the difference between two logits: make it larger or smaller?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(next_logits(model, idx), top_k)
        chosen = logits.argmax(dim=-1, keepdim=True) if temperature == 0 else sample(logits * temperature)
        idx = torch.cat((idx, chosen), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def temperature_ignored(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The temperature had no effect on the probabilities, except at 0.

    Every temperature gave the distribution of temperature 1.

    At which point, before or after the softmax, can a temperature still change the probabilities?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(next_logits(model, idx), top_k)
        chosen = logits.argmax(dim=-1, keepdim=True) if temperature == 0 else sample(logits)
        idx = torch.cat((idx, chosen), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def temperature_ignored_beside_top_k(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """Where top_k was given, the temperature had no effect on the probabilities.

    The two belong together: top_k says which tokens can be drawn, the temperature how often each of them is.

    Which way through your code does a call with both arguments take?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(next_logits(model, idx), top_k)
        idx = torch.cat((idx, pick(logits, temperature if top_k is None or temperature == 0 else 1.0)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def probabilities_divided(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The probabilities were divided by the temperature and sent through the softmax again.

    Probabilities lie between 0 and 1, so a second softmax makes them nearly equal. The temperature belongs to the
    logits, and one softmax is enough.

    How many times does your code call softmax between the logits and the draw?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        probabilities = hide_small(next_logits(model, idx), top_k).float().softmax(dim=-1)
        chosen = pick(probabilities, temperature)
        idx = torch.cat((idx, chosen), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def always_greedy(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The largest logit was always taken, whatever the temperature.

    Only temperature 0 is greedy. At any other one each token is drawn with its probability, so that two calls may
    differ.

    Which function of torch draws an index with given probabilities?
    """
    return reference.generate(model, idx, max_new_tokens, 0.0, top_k)


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def one_draw_for_all_rows(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """One token was drawn from the first row and appended to every row.

    Each row is a text of its own, with its own logits and its own luck.

    What is the shape of the drawn tokens for a batch of B rows?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(next_logits(model, idx), top_k)
        chosen = pick(logits if temperature == 0 else logits[:1], temperature)
        idx = torch.cat((idx, chosen.expand(idx.shape[0], 1)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def same_luck_for_all_rows(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """One random number decided for all the rows of a batch.

    The tokens follow each row's probabilities, but rows with equal logits always got the same token: they did not draw
    by themselves.

    How many random numbers does a batch of B rows need for one new token?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(next_logits(model, idx), top_k)
        if temperature == 0:
            chosen = logits.argmax(dim=-1, keepdim=True)
        else:
            cumulative = (logits.float() / temperature).softmax(dim=-1).cumsum(dim=-1)
            luck = torch.rand((), device=idx.device)
            chosen = (cumulative < luck).sum(dim=-1, keepdim=True).clamp(max=logits.shape[-1] - 1)
        idx = torch.cat((idx, chosen), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def seed_fixed_inside(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """A fixed seed was set inside the function.

    Every call then draws the same tokens, and the caller's random state is lost. The seed belongs to the caller.

    What would two calls in a row give?
    """
    torch.manual_seed(1337)
    return reference.generate(model, idx, max_new_tokens, temperature, top_k)


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def all_tokens_from_one_distribution(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """All new tokens were drawn from the distribution of the first one.

    What was drawn has to be read before the next token is drawn: the model is asked once for each new token.

    How often does your code call the model where it draws?
    """
    if temperature == 0:
        return reference.generate(model, idx, max_new_tokens, temperature, top_k)
    was_training, prompt = model.training, idx
    model.eval()
    for _ in range(max_new_tokens):
        chosen = pick(hide_small(next_logits(model, prompt), top_k), temperature)
        idx = torch.cat((idx, chosen), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def first_tokens_kept_where_drawn(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """Where a token is drawn, the context was cropped to its first tokens.

    The next token follows the last ones. Once the text is longer than block_size, the first say nothing new.

    Which end of the text does the slice keep on the way through your code that draws?
    """
    if temperature == 0:
        return reference.generate(model, idx, max_new_tokens, temperature, top_k)
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(model(idx[:, : model.block_size])[0][:, -1].detach(), top_k)
        idx = torch.cat((idx, pick(logits, temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_sampling_follows_the_temperature")
def cropped_only_when_greedy(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The context was cropped where the largest logit is taken, and not where a token is drawn.

    A drawn text gets longer than block_size as well, and the model refuses it then.

    Do both ways through your code ask the model for the same tokens?
    """
    if temperature == 0:
        return reference.generate(model, idx, max_new_tokens, temperature, top_k)
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(model(idx)[0][:, -1].detach(), top_k)
        idx = torch.cat((idx, pick(logits, temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_greedy_takes_the_largest_logit")
def temperature_zero_divides(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The logits were divided by the temperature even when it was 0.

    Dividing by 0 makes the logits infinite or NaN, and no token can be drawn from that. Temperature 0 is the limit:
    the largest logit wins.

    Which token would an ever smaller temperature choose in the end?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        chosen = sample(hide_small(next_logits(model, idx), top_k) / temperature)
        idx = torch.cat((idx, chosen), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_greedy_takes_the_largest_logit")
def predicts_from_the_first_position(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The next token was taken from the logits of the first position.

    Row t of the logits says what follows token t. What follows the whole text stands in the last row.

    Which position has seen all the tokens?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(idx[:, -model.block_size :])[0][:, 0].detach()
        idx = torch.cat((idx, pick(hide_small(logits, top_k), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_greedy_takes_the_largest_logit")
def only_new_tokens_returned(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """Only the new tokens were returned, without the ones that were given.

    The result should be the whole text: idx first, then max_new_tokens more.

    How many columns does (B, T + max_new_tokens) have?
    """
    return reference.generate(model, idx, max_new_tokens, temperature, top_k)[:, idx.shape[1] :]


@misconception(replaces="generate", caught_by="test_greedy_takes_the_largest_logit")
def text_written_on_the_cpu(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The text was written into a tensor that was made on the CPU.

    When the model and idx are on a GPU, the model is given tokens that are somewhere else.

    From what can the new tensor take the device?
    """
    text = torch.empty(len(idx), idx.shape[1] + max_new_tokens, dtype=idx.dtype)
    text[:, : idx.shape[1]] = idx
    for length in range(idx.shape[1], text.shape[1]):
        text[:, : length + 1] = reference.generate(model, text[:, :length], 1, temperature, top_k)
    return text


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def greedy_by_default(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 0.0, top_k: int | None = None
) -> Tensor:
    """The default of temperature was 0.

    Then whoever names no temperature gets the largest logit each time. The step asks for 1, which draws as the model
    says.

    Where in the line of `def` does the default stand?
    """
    return reference.generate(model, idx, max_new_tokens, temperature, top_k)


@misconception(replaces="generate", caught_by="test_context_is_cropped")
def context_not_cropped(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The model was given all the tokens, also when there were more than block_size.

    The model has no position for them and refuses. It can look at the last block_size tokens only.

    Which tokens should the model see when the text has grown too long?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(idx)[0][:, -1].detach()
        idx = torch.cat((idx, pick(hide_small(logits, top_k), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_context_is_cropped")
def first_tokens_kept(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The context was cropped to the first block_size tokens.

    Once the text is longer than block_size, the model looks at its beginning for ever and never at what it just wrote.

    Which end of the text does the next token continue?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(idx[:, : model.block_size])[0][:, -1].detach()
        idx = torch.cat((idx, pick(hide_small(logits, top_k), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_context_is_cropped")
def one_token_less_seen(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The context was cropped to block_size - 1 tokens.

    The model has a position for block_size tokens, so one token that it could have used was hidden from it.

    How long may the context be at most?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(idx[:, -(model.block_size - 1) :])[0][:, -1].detach()
        idx = torch.cat((idx, pick(hide_small(logits, top_k), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_context_is_cropped")
def cropped_tokens_lost(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The cropped context took the place of the text, so its first tokens were lost.

    The crop is for the model's eyes only. The result should still begin with all of idx.

    What does your variable idx hold after the crop, and what is appended to?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        idx = idx[:, -model.block_size :]
        idx = torch.cat((idx, pick(hide_small(next_logits(model, idx), top_k), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_model_is_evaluated_in_eval_mode")
def sampled_in_train_mode(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The model stayed in train mode while it generated.

    Dropout was still at work, so the logits were noisy and even greedy text came out differently every time.

    Which mode switches dropout off?
    """
    for _ in range(max_new_tokens):
        chosen = pick(hide_small(next_logits(model, idx), top_k), temperature)
        idx = torch.cat((idx, chosen), dim=1)
    return idx


@misconception(replaces="generate", caught_by="test_model_is_evaluated_in_eval_mode")
def left_in_eval_mode(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The model was put into eval mode and left there.

    A training loop that generates a sample now and then would go on without dropout and never notice.

    How does a function leave the model's mode as it found it?
    """
    model.eval()
    for _ in range(max_new_tokens):
        chosen = pick(hide_small(next_logits(model, idx), top_k), temperature)
        idx = torch.cat((idx, chosen), dim=1)
    return idx


@misconception(replaces="generate", caught_by="test_model_is_evaluated_in_eval_mode")
def always_left_in_train_mode(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The model was put into train mode at the end, also when it came in eval mode.

    Whoever evaluates a finished model and generates twice gets dropout in between.

    What must be remembered before model.eval() is called?
    """
    result = reference.generate(model, idx, max_new_tokens, temperature, top_k)
    model.train()
    return result


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_keeps_one_less(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """One token too few was kept: top_k - 1 instead of top_k.

    The k-th largest logit still belongs to the k largest. Comparing with > instead of >= loses it.

    With top_k = 2, how many different tokens can be drawn?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = next_logits(model, idx)
        kept = logits.shape[-1] if top_k is None else max(1, min(top_k, logits.shape[-1]) - 1)
        chosen = pick(hide_small(logits, kept), temperature)
        idx = torch.cat((idx, chosen), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def place_among_the_largest_as_token(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """What was drawn was a place among the k largest logits, and it was appended as if it were a token.

    topk sorts: place 0 is the largest logit, whichever token it belongs to. Only tokens below k can come out that way.

    torch.topk returns two tensors. What is the second one for?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = next_logits(model, idx)
        if top_k is not None and temperature != 0:
            logits = logits.topk(min(top_k, logits.shape[-1])).values
        idx = torch.cat((idx, pick(logits, temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_ignored(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """top_k had no effect.

    Every token of the vocabulary could still be drawn, also the unlikeliest one.

    Where does your code remove the tokens that are not among the k largest?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        idx = torch.cat((idx, pick(next_logits(model, idx), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_keeps_one_more(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """One token too many was kept: top_k + 1 instead of top_k.

    Counted from 0, the k-th largest logit has the number k - 1. Who compares with number k keeps one more.

    With top_k = 1, how many different tokens can be drawn?
    """
    kept = None if top_k is None else top_k + 1
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        idx = torch.cat((idx, pick(hide_small(next_logits(model, idx), kept), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def small_logits_set_to_zero(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The logits outside the k largest were set to 0.

    A logit of 0 is not a probability of 0: the softmax gives it a weight of e⁰ = 1 against the others.

    Which logit gets probability 0 from the softmax?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = hide_small(next_logits(model, idx), top_k, fill=0.0)
        idx = torch.cat((idx, pick(logits, temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_of_the_first_row(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The k tokens of the first row were kept for every row.

    Each row has its own k largest logits. Here the other rows could only draw what suited the first one.

    Over which dimension are the k largest looked for, and how many rows does that give?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = next_logits(model, idx)
        hidden = hide_small(logits[:1], top_k).isinf()
        idx = torch.cat((idx, pick(logits.masked_fill(hidden, float("-inf")), temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_threshold_of_the_batch(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """One smallest logit was kept in mind for the whole batch: the least of all rows' k largest.

    Each row has its own k largest logits. A row with larger logits than the others could draw tokens beyond its k.

    Which shape does the smallest kept logit need, so that each row is compared with its own?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = next_logits(model, idx)
        if top_k is not None:
            smallest_kept = logits.topk(min(top_k, logits.shape[-1])).values.min()
            logits = logits.masked_fill(logits < smallest_kept, float("-inf"))
        idx = torch.cat((idx, pick(logits, temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_threshold_without_its_dimension(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The smallest of the k largest logits was taken from each row in the shape (B,), without a dimension of its own.

    Compared with logits of shape (B, vocab_size), the B thresholds are lined up with the tokens and not with the rows.
    With one row in the batch that goes well; with more it is an error, or the wrong comparison.

    Which shape must the thresholds have, so that each row is compared with its own?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = next_logits(model, idx)
        if top_k is not None:
            smallest_kept = logits.topk(min(top_k, logits.shape[-1])).values[:, -1]
            logits = logits.masked_fill(logits < smallest_kept, float("-inf"))
        idx = torch.cat((idx, pick(logits, temperature)), dim=1)
    model.train(was_training)
    return idx


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_too_large_refused(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """A top_k larger than the vocabulary was an error.

    The contract says that it means the whole vocabulary, so that one setting suits every model.

    What is the largest k that torch.topk accepts here?
    """
    was_training = model.training
    model.eval()
    for _ in range(max_new_tokens):
        logits = next_logits(model, idx)
        if top_k is not None:
            logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], float("-inf"))
        idx = torch.cat((idx, pick(logits, temperature)), dim=1)
    model.train(was_training)
    return idx


# --- next_token_batches ---

Batches = Iterator[tuple[Tensor, Tensor]]


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_not_shifted(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The targets were the inputs themselves.

    A model that sees a token can repeat it without learning anything. The target of each token is the one after it.

    If the inputs are tokens 0 to 3, which tokens are the targets?
    """
    for inputs, _ in reference.next_token_batches(token_ids, context_length, batch_size):
        yield inputs, inputs.clone()


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def only_the_first_batch(token_ids: Tensor, context_length: int, batch_size: int) -> Any:
    """The first batch was returned, and the loop never came to the others.

    `return` ends the function. A generator hands out one batch after the other and goes on after each.

    Which keyword hands out a value and lets the loop go on?
    """
    return next(iter(reference.next_token_batches(token_ids, context_length, batch_size)))


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_shifted_back(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The shift went the wrong way: each target was the token before its input.

    The model would learn to say what it has just read. It should say what comes next.

    Is token i + 1 the input of token i, or its target?
    """
    for inputs, targets in reference.next_token_batches(token_ids, context_length, batch_size):
        yield targets, inputs


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def windows_overlap(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """A window was started at every token.

    The windows overlap, so each token is used up to T times. The contract starts them at 0, T, 2T, ….

    By how much does the start grow from one window to the next?
    """
    starts = range(len(token_ids) - context_length)
    inputs = torch.stack([token_ids[start : start + context_length] for start in starts])
    targets = torch.stack([token_ids[start + 1 : start + context_length + 1] for start in starts])
    yield from zip(inputs.split(batch_size), targets.split(batch_size), strict=True)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def last_batch_dropped(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The last batch was left out because it was smaller than the others.

    Its windows are as good as any. The last batch may be smaller.

    What happens to 3 windows with a batch size of 2?
    """
    for inputs, targets in reference.next_token_batches(token_ids, context_length, batch_size):
        if len(inputs) == batch_size:
            yield inputs, targets


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def rows_continue_in_the_next_batch(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The text was cut into batch_size long strips, and each batch took the next piece of every strip.

    That is the order for recurrent networks, which carry a state from batch to batch. Here window i starts at i * T,
    and the windows come in that order.

    At which token does the second row of the first batch start?
    """
    num_windows = (len(token_ids) - 1) // context_length
    per_strip = -(-num_windows // batch_size)
    order = [strip * per_strip + step for step in range(per_strip) for strip in range(batch_size)]
    starts = [window * context_length for window in order if window < num_windows]
    inputs = torch.stack([token_ids[start : start + context_length] for start in starts])
    targets = torch.stack([token_ids[start + 1 : start + context_length + 1] for start in starts])
    yield from zip(inputs.split(batch_size), targets.split(batch_size), strict=True)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def last_window_dropped(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The last window was lost although its targets were all there.

    With N = 2T + 1 tokens there are two windows: the second one's last target is the very last token. The range of
    starts ended one too early.

    What is the largest start for which token start + T still exists?
    """
    kept = len(token_ids) - 1 if (len(token_ids) - 1) % context_length == 0 else len(token_ids)
    return reference.next_token_batches(token_ids[:kept], context_length, batch_size)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def last_target_missing(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """A window was begun wherever T inputs are left, although the last of them has no target.

    With N = 2T tokens the second window lacks its last target. There are ⌊(N - 1) / T⌋ windows, and not ⌊N / T⌋.

    How many tokens does one window need, inputs and targets together?
    """
    starts = range(0, len(token_ids) - context_length + 1, context_length)
    for first in range(0, len(starts), batch_size):
        chosen = starts[first : first + batch_size]
        inputs = torch.stack([token_ids[start : start + context_length] for start in chosen])
        yield inputs, torch.stack([token_ids[start + 1 : start + context_length + 1] for start in chosen])


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def batches_made_on_the_cpu(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The batches were made on the CPU, wherever token_ids was: from a list of numbers, or in a new tensor, say.

    When token_ids is on a GPU, the batches should be there as well.

    What does token_ids[2:5] give, and on which device is it?
    """
    ids = token_ids.tolist()
    starts = range(0, len(ids) - context_length, context_length)
    for first in range(0, len(starts), batch_size):
        chosen = starts[first : first + batch_size]
        inputs = torch.tensor([ids[start : start + context_length] for start in chosen])
        yield inputs, torch.tensor([ids[start + 1 : start + context_length + 1] for start in chosen])


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_wrap_around(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The last target was taken from the beginning of the text.

    torch.roll and the like bring the first token to the end, where nothing follows. A window whose last target does
    not exist is left out: there are ⌊(N - 1) / T⌋ of them.

    Which token follows the last one?
    """
    once_more = torch.cat((token_ids, token_ids[:1]))
    return reference.next_token_batches(once_more, context_length, batch_size)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def windows_shuffled(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The windows came in random order.

    Shuffling is useful in training, but here the contract asks for the windows in order: 0, T, 2T, ….

    Which line changes the order?
    """
    num_windows = (len(token_ids) - 1) // context_length
    starts = (torch.randperm(num_windows - 1) + 1).tolist() + [0]  # never in order
    inputs = torch.stack([token_ids[start * context_length :][:context_length] for start in starts])
    targets = torch.stack([token_ids[start * context_length + 1 :][:context_length] for start in starts])
    yield from zip(inputs.split(batch_size), targets.split(batch_size), strict=True)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def one_target_a_window(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """Each window had one target, the token after its end.

    The model predicts a next token at every position, so a window of T tokens has T targets.

    What shape do the targets have in the contract?
    """
    for inputs, targets in reference.next_token_batches(token_ids, context_length, batch_size):
        yield inputs, targets[:, -1]


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="GPT", caught_by="test_any_regime")
class targets_viewed_flat(GPT):
    """The targets were flattened by `view(-1)`.

    `view` never copies, and raises where the numbers do not lie in memory in one piece. Targets are a slice of the
    tokens, often of a larger tensor: then their rows lie apart.

    Which function flattens a tensor and copies it only where a view is not possible?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _none = super().forward(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


@misconception(replaces="generate", caught_by="test_any_regime")
def window_slid_in_place(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """From a prompt longer than block_size a window was cut, and the window was shifted in place.

    A slice is a view: what is written into it is written into the caller's prompt.

    Do `idx` and `idx[:, -block_size:]` have memory of their own, and what would give the window some?
    """
    block_size = model.wpe.weight.shape[0]
    if idx.shape[1] <= block_size:
        return reference.generate(model, idx, max_new_tokens, temperature, top_k)
    before, window, added = idx.clone(), idx[:, -block_size:], []
    for _ in range(max_new_tokens):
        next_ids = reference.generate(model, window.clone(), 1, temperature, top_k)[:, -1:]
        window[:] = torch.cat((window[:, 1:], next_ids), dim=1)
        added.append(next_ids)
    return torch.cat((before, *added), dim=1)


# --- the same mistakes in other words ---------------------------------------------------------------------------------


def _with_threshold(threshold: Callable[[Tensor, int], Tensor], *, greedy_first: bool = False) -> Callable[..., Tensor]:
    """Generation that hides the logits below `threshold(logits, k)`, by default also where it is greedy."""

    def generate(
        model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
    ) -> Tensor:
        was_training = model.training
        model.eval()
        for _ in range(max_new_tokens):
            logits = next_logits(model, idx)
            if top_k is not None and not (greedy_first and temperature == 0):
                least = threshold(logits, min(top_k, logits.shape[-1]))
                logits = logits.masked_fill(logits < least, float("-inf"))
            idx = torch.cat((idx, pick(logits, temperature)), dim=1)
        model.train(was_training)
        return idx

    return generate


@another_form(top_k_threshold_without_its_dimension)
def top_k_threshold_without_its_dimension_where_drawn(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    generate = _with_threshold(lambda logits, k: logits.topk(k).values[:, -1], greedy_first=True)
    return generate(model, idx, max_new_tokens, temperature, top_k)


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_threshold_of_the_last_row(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The smallest of the last row's k largest logits was the threshold for every row.

    Each row has its own k largest logits. In the other rows more than k tokens could be drawn, or fewer.

    Which shape must the thresholds have, so that each row is compared with its own?
    """
    generate = _with_threshold(lambda logits, k: logits.topk(k).values[-1, -1])
    return generate(model, idx, max_new_tokens, temperature, top_k)


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def top_k_of_all_rows_together(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The k largest logits were looked for in all rows together, so that most rows kept none of their own.

    Each row draws by itself, from its own k largest logits.

    Over which dimension does `topk` look, and what is left of it after `flatten`?
    """
    generate = _with_threshold(lambda logits, k: logits.flatten().topk(k).values[-1])
    return generate(model, idx, max_new_tokens, temperature, top_k)


@misconception(replaces="generate", caught_by="test_top_k_keeps_the_k_largest")
def largest_logit_as_the_threshold(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The largest of the k largest logits was the threshold, so that only one token could be drawn.

    `topk` gives the largest first. Kept is whatever is at least as large as the last one that it gives.

    Which of the k values is the smallest that may still be drawn?
    """
    generate = _with_threshold(lambda logits, k: logits.topk(k).values[:, :1])
    return generate(model, idx, max_new_tokens, temperature, top_k)


@another_form(only_new_tokens_returned)
def as_many_tokens_returned_as_were_asked_for(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    return reference.generate(model, idx, max_new_tokens, temperature, top_k)[:, -max_new_tokens:]


# --- two at once ------------------------------------------------------------------------------------------------------

EMBEDDINGS = (positions_not_added, positions_off_by_one, no_final_norm, embedding_scaled)
LOSSES = (
    only_last_logits, probabilities_instead_of_logits, logits_left_flat, loss_shifted_again, loss_in_another_order,
    loss_summed, loss_of_the_last_position,
)  # fmt: skip


def _generate(
    choose: Callable[[Tensor, float], Tensor] = pick,
    *,
    first_of: Callable[[GPT, Tensor], Tensor] = lambda model, idx: idx[:, -model.block_size :],
    position: int = -1,
    end: Callable[[GPT, bool], object] = lambda model, was_training: model.train(was_training),
    start: Callable[[GPT], object] = lambda model: model.eval(),
    kept: Callable[[Tensor, Tensor], Tensor] = lambda idx, result: result,
) -> object:
    """Generation of which each keyword is one decision that a misconception above takes in its own way."""

    def generate(
        model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
    ) -> Tensor:
        given, was_training = idx, model.training
        start(model)
        for _ in range(max_new_tokens):
            logits = model(first_of(model, idx))[0][:, position].detach()
            idx = torch.cat((idx, choose(hide_small(logits, top_k), temperature)), dim=1)
        end(model, was_training)
        return kept(given, idx)

    return generate


CHOICES: dict[Callable[..., object], Callable[[Tensor, float], Tensor]] = {
    temperature_multiplied: lambda logits, temperature: (
        pick(logits, 0.0) if temperature == 0 else sample(logits * temperature)
    ),
    always_greedy: lambda logits, temperature: pick(logits, 0.0),
}
MANNERS: dict[Callable[..., object], dict[str, Any]] = {
    context_not_cropped: {"first_of": lambda model, idx: idx},
    first_tokens_kept: {"first_of": lambda model, idx: idx[:, : model.block_size]},
    sampled_in_train_mode: {"start": lambda model: None, "end": lambda model, was_training: None},
    left_in_eval_mode: {"end": lambda model, was_training: None},
    predicts_from_the_first_position: {"position": 0},
    only_new_tokens_returned: {"kept": lambda idx, result: result[:, idx.shape[1] :]},
}
WINDOWS = {wrong: wrong for wrong in (windows_overlap, last_batch_dropped)}


def _batches(windows: Callable[[Tensor, int, int], Batches]) -> object:
    def next_token_batches(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
        for inputs, _ in windows(token_ids, context_length, batch_size):
            yield inputs, inputs.clone()

    return next_token_batches


PAIRS = [
    *together(LOSSES, EMBEDDINGS),
    *together(CHOICES, MANNERS, lambda choose, manner: _generate(choose, **manner)),
    *together(
        {context_not_cropped: MANNERS[context_not_cropped]},
        {wrong: MANNERS[wrong] for wrong in (sampled_in_train_mode, left_in_eval_mode, only_new_tokens_returned)},
        lambda first, second: _generate(**first, **second),
    ),
    *together({targets_not_shifted: None}, WINDOWS, lambda _, windows: _batches(windows)),
]
