"""What learners get wrong in `GPT`, each with the check that catches it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.core.step12_gpt import reference
from solutions.core.step12_gpt.reference import GPT


class Pieces(GPT):
    """`GPT` cut into pieces, so that each misconception replaces one of them."""

    def refuse(self, idx: Tensor) -> None:
        if idx.shape[1] > self.block_size:
            raise ValueError(f"{idx.shape[1]} tokens were given, but block_size is {self.block_size}")

    def positions(self, idx: Tensor) -> Tensor:
        return torch.arange(idx.shape[1], device=idx.device)

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx) + self.wpe(self.positions(idx)))

    def through(self, x: Tensor) -> Tensor:
        for block in self.h:
            x = block(x)
        return x

    def finish(self, x: Tensor) -> Tensor:
        return self.lm_head(self.ln_f(x))

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        self.refuse(idx)
        logits = self.finish(self.through(self.embed(idx)))
        return logits, None if targets is None else self.loss(logits, targets)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand", misses_the_point=True)
class positions_not_added(Pieces):
    """The position embedding was not added to the token embedding.

    Attention adds up values whatever their order, so without wpe the model can hardly tell where a token stands.

    How could the model know that the same token stands at position 0 here and at position 5 there?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx))


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand", misses_the_point=True)
class positions_off_by_one(Pieces):
    """The positions were counted from 1.

    The rows of wpe belong to the positions 0 to block_size - 1. Counted from 1, the first row is never used and a
    full context asks for a row that does not exist.

    Which row of wpe belongs to the first token?
    """

    def positions(self, idx: Tensor) -> Tensor:
        return super().positions(idx) + 1


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand", misses_the_point=True)
class no_final_norm(Pieces):
    """The head was given the last block's output without ln_f.

    Every block adds to the stream, so what leaves the last one has no fixed size. GPT-2 normalises it once more.

    What stands between the last block and lm_head in the list of submodules?
    """

    def finish(self, x: Tensor) -> Tensor:
        return self.lm_head(x)


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class norm_before_the_blocks(Pieces):
    """ln_f was applied to the embeddings, before the blocks.

    Each block normalises what it reads by itself. The final norm is there for the head, which reads what the last
    block leaves behind.

    Whose output does the f in ln_f, final, speak of?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.ln_f(super().embed(idx))

    def finish(self, x: Tensor) -> Tensor:
        return self.lm_head(x)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class only_last_logits(Pieces):
    """Only the logits of the last position were returned when no targets were given.

    The contract asks for the logits of every position, with and without targets. Some codebases save work here, but
    then the shape of the answer depends on whether a loss was wanted.

    Who should pick the last position: the model, or the function that generates?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return (logits[:, -1:], None) if targets is None else (logits, loss)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class probabilities_instead_of_logits(Pieces):
    """A softmax was applied to the logits before they were returned and before the loss.

    Cross-entropy takes the logits and does the softmax by itself, so here it was done twice, and generate divides
    probabilities by the temperature.

    What does F.cross_entropy expect: logits or probabilities?
    """

    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x).softmax(dim=-1)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class logits_left_flat(Pieces):
    """The logits were flattened for the loss and returned in that shape.

    With targets they came as (B * T, vocab_size), without as (B, T, vocab_size). The shape of the logits should not
    depend on whether a loss was wanted.

    Does the variable that you return still hold what it held before F.cross_entropy?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return (logits, None) if targets is None else (logits.flatten(0, 1), loss)


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class embedding_scaled(Pieces):
    """The token embedding was multiplied by √D before the positions were added.

    The first Transformer did so (Attention Is All You Need, section 3.4), GPT-2 does not, and its weights give other
    logits that way.

    What does GPT-2 do with the two embeddings before the first block, besides adding them?
    """

    def embed(self, idx: Tensor) -> Tensor:
        tokens = self.wte(idx) * self.wte.embedding_dim**0.5
        return self.drop(tokens + self.wpe(self.positions(idx)))


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class blocks_side_by_side(Pieces):
    """The last block was given the embeddings, and not what the blocks before it had written.

    The blocks form a chain: each one reads what the one before it has written. Here all but the last had no effect.

    What should the second block be given?
    """

    def through(self, x: Tensor) -> Tensor:
        embedded = x
        for block in self.h:
            x = block(embedded)
        return x


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class one_block_many_times(Pieces):
    """One block was made and put into the list n_layer times.

    The list holds the same block again and again, so all layers share their weights, and training one trains them all.

    How many blocks are made by [Block(...)] * n_layer?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.h = nn.ModuleList([self.h[0]] * len(self.h))


@misconception(replaces="GPT", caught_by="test_logits_at_every_position")
class bias_not_passed_on(Pieces):
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
class blocks_in_a_plain_list(Pieces):
    """torch found no blocks in the model: h was a plain Python list, or not there.

    torch does not look into a list: the parameters in it are not found, not trained, not saved and not moved.

    Which container of torch.nn tells the model of the modules in it?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        blocks = list(self.h)
        del self.h
        self.h = blocks  # type: ignore[assignment]  # what is wrong with it


@misconception(replaces="GPT", caught_by="test_head_is_tied")
class untied_head(Pieces):
    """lm_head had a weight of its own.

    GPT-2 uses one matrix for both ends: row i of wte is what token i looks like on the way in, and what the output is
    compared with on the way out. Two matrices are a different model with many more parameters.

    How can two modules hold one and the same nn.Parameter?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.lm_head.weight = nn.Parameter(torch.randn(self.wte.weight.shape) * 0.02)


@misconception(replaces="GPT", caught_by="test_head_is_tied")
class tied_in_forward(Pieces):
    """lm_head was given wte's weight in forward, and not when the model was made.

    Until the first call there are two matrices: a state dict that is saved then holds both, and an optimizer that is
    made then keeps one that no gradient ever reaches.

    What has been run when GPT(...) returns: `__init__` or `forward`?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.lm_head = nn.Linear(self.wte.embedding_dim, self.wte.num_embeddings, bias=False)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        self.lm_head.weight = self.wte.weight
        return super().forward(idx, targets)


@misconception(replaces="GPT", caught_by="test_loss_and_its_gradient")
class head_detached(Pieces):
    """The head used a detached copy of wte's weight.

    The numbers are right, but the gradient of the head never reaches the weight: it learns only from its use as an
    embedding.

    Through how many uses does the gradient flow into a tied weight?
    """

    def finish(self, x: Tensor) -> Tensor:
        return F.linear(self.ln_f(x), self.lm_head.weight.detach())


@misconception(replaces="GPT", caught_by="test_loss_and_its_gradient")
class loss_shifted_again(Pieces):
    """The targets were shifted once more inside forward.

    The targets come already shifted: targets[b, t] is the token that follows idx[b, t]. Shifted again, the model
    learns to guess the token after the next one.

    Which position's logits belong to targets[:, 0]?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), targets[:, 1:].flatten())


@misconception(replaces="GPT", caught_by="test_loss_and_its_gradient")
class loss_in_another_order(Pieces):
    """The logits were flattened position by position, and the targets sequence by sequence.

    Both become one long list, but in a different order, so most logits are compared with the target of another
    sequence and position.

    In which order does targets.flatten() list its elements, and do the logits follow the same order?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.transpose(0, 1).flatten(0, 1), targets.flatten())


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class softmax_before_the_loss(Pieces):
    """The loss was given probabilities: a softmax was applied to the logits before the cross-entropy.

    F.cross_entropy takes logits and applies the softmax itself. Applied twice, the loss can hardly tell right tokens
    from wrong ones.

    What does F.cross_entropy expect as its first argument?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return super().loss(logits.softmax(dim=-1), targets)


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class loss_summed(Pieces):
    """The losses of the positions were added up, and the sum was not divided by their number.

    A sum grows with the batch and with the length, so the same learning rate would do more in a larger batch.

    What must happen to a sum over B * T positions to make it a mean?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return super().loss(logits, targets) * targets.numel()


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class loss_of_the_last_position(Pieces):
    """Only the last position of each sequence took part in the loss.

    A causal model predicts a next token at every position, so each sequence of T tokens teaches T times. Here it
    taught once.

    How many next tokens are there to be guessed in targets?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits[:, -1], targets[:, -1])


@misconception(replaces="GPT", caught_by="test_logits_and_loss_by_hand")
class token_0_left_out_of_the_loss(Pieces):
    """The positions whose target is token 0 took no part in the loss.

    Where texts are filled up with a padding token, its positions are left out. Here there is no padding, and 0 is a
    token like any other.

    What does ignore_index do, and which positions does the contract count?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


@misconception(replaces="GPT", caught_by="test_too_many_tokens_are_refused")
class too_many_tokens_cropped(Pieces):
    """More tokens than block_size were cropped silently instead of being refused.

    The caller gets fewer logits than tokens and is never told. Cropping is a decision for generate, which says so.

    Where does the contract crop, and where does it raise?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        idx = idx[:, -self.block_size :]
        return super().forward(idx, None if targets is None else targets[:, -self.block_size :])


@misconception(replaces="GPT", caught_by="test_too_many_tokens_are_refused")
class rows_taken_for_tokens(Pieces):
    """The number of rows was compared with block_size, and not the number of tokens in a row.

    Then a large batch of short texts is refused.

    idx is (B, T). Which entry of its shape is T?
    """

    def refuse(self, idx: Tensor) -> None:
        if len(idx) > self.block_size:
            raise ValueError(f"{len(idx)} tokens were given, but block_size is {self.block_size}")
        super().refuse(idx)


@misconception(replaces="GPT", caught_by="test_too_many_tokens_are_refused")
class positions_start_over(Pieces):
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

    def refuse(self, idx: Tensor) -> None:
        pass

    def positions(self, idx: Tensor) -> Tensor:
        return super().positions(idx) % self.block_size


@misconception(replaces="GPT", caught_by="test_dtype_and_device_follow_the_module")
class logits_in_float32(Pieces):
    """The logits were turned into float32, whatever dtype the parameters had.

    The contract asks for the parameters' dtype: a model in float64 should answer in float64, one in bfloat16 in
    bfloat16.

    Which conversion in forward could be left out?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return logits.float(), loss


@misconception(replaces="GPT", caught_by="test_dtype_and_device_follow_the_module")
class logits_in_float32_with_targets(Pieces):
    """With targets the logits were turned into float32 for the loss, and came back so.

    The loss may be computed in float32. The logits have the parameters' dtype, with targets as without.

    Which of the two tensors should `forward` return: the one from before the conversion or the one from after it?
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, loss = super().forward(idx, targets)
        return logits if targets is None else logits.float(), loss


@misconception(replaces="GPT", caught_by="test_dtype_and_device_follow_the_module")
class positions_on_the_cpu(Pieces):
    """The positions were on the CPU, wherever the tokens were.

    torch.arange makes its tensor on the CPU unless it is told otherwise, and a tensor kept as a plain attribute stays
    where it was made. On a GPU the model then breaks.

    Which tensor in forward knows the device on which the positions are needed?
    """

    def positions(self, idx: Tensor) -> Tensor:
        return torch.arange(idx.shape[1])


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class embeddings_not_dropped(Pieces):
    """drop was not applied to the sum of the embeddings.

    GPT-2 drops elements of the sum of both embeddings in training, before the first block reads them.

    Where does drop stand in the list of submodules, and what has been computed by then?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.wte(idx) + self.wpe(self.positions(idx))


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class only_tokens_dropped(Pieces):
    """drop was applied to the token embedding alone, before the positions were added.

    GPT-2 drops from the sum. Here a number that was dropped is not 0: what its position adds is still there.

    What does the stream hold when drop comes, in the picture of the lesson?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx)) + self.wpe(self.positions(idx))


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class each_embedding_dropped(Pieces):
    """drop was applied to the token embedding and to the position embedding, and their sum was taken then.

    A number is lost from the sum only where both were dropped. GPT-2 adds first and drops from what the sum is.

    How many times is drop called, and on what?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(self.wte(idx)) + self.drop(self.wpe(self.positions(idx).expand_as(idx)))


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class dropout_not_passed_on(Pieces):
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
class dropped_twice(Pieces):
    """The embeddings were dropped twice, one dropout after the other.

    What two of them keep is less than what was asked for: with 0.3 a share of 0.51 is lost, and not 0.3.

    How many times is drop called on the way from the embeddings to the blocks?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return self.drop(super().embed(idx))


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class dropped_before_the_head(Pieces):
    """What ln_f gave was dropped on its way to the head.

    In GPT-2 the embeddings are dropped, and what each branch of a block adds. The head reads all of the stream.

    Between which two lines of your forward does each dropout stand?
    """

    def finish(self, x: Tensor) -> Tensor:
        return self.lm_head(self.drop(self.ln_f(x)))


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class one_draw_for_all_sequences(Pieces):
    """The embeddings of every sequence of the batch were dropped in the same places.

    Then the batch tells as little as one sequence does: each number should have its own chance.

    Which shape does the tensor have that your dropout is given?
    """

    def embed(self, idx: Tensor) -> Tensor:
        x = self.wte(idx) + self.wpe(self.positions(idx))
        return x * self.drop(torch.ones_like(x[:1]))


@misconception(replaces="GPT", caught_by="test_dropout_acts_in_training_only")
class dropped_in_eval_too(Pieces):
    """The embeddings were dropped in eval mode as well.

    F.dropout drops unless it is told otherwise. A model in eval mode should give the same logits every time.

    How does F.dropout learn that the model is not training, and what does nn.Dropout do about it by itself?
    """

    def embed(self, idx: Tensor) -> Tensor:
        return F.dropout(self.wte(idx) + self.wpe(self.positions(idx)), self.drop.p)


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces="GPT", caught_by="test_any_regime")
class targets_viewed_flat(Pieces):
    """The targets were flattened by `view(-1)`.

    `view` never copies, and raises where the numbers do not lie in memory in one piece. Targets are a slice of the
    tokens, often of a larger tensor: then their rows lie apart.

    Which function flattens a tensor and copies it only where a view is not possible?
    """

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
