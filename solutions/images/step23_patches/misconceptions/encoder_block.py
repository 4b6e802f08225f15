"""What learners get wrong in `EncoderBlock`, each with the check that catches it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.images.step23_patches import reference
from solutions.images.step23_patches.misconceptions.pieces import whole


class Block(reference.EncoderBlock):
    """As `Embedding`."""

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        return self.attn(normed, normed, normed)

    def feed(self, x: Tensor) -> Tensor:
        return self.mlp(self.ln_2(x))

    def give(self, x: Tensor, weights: Tensor) -> Any:
        return x, weights

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        x = x + attended
        return self.give(x + self.feed(x), weights)


@misconception(replaces=whole, caught_by="test_no_patch_comes_first", misses_the_point=True)
class causal_attention_over_patches(Block):
    """The attention is causal: a patch does not see those to the right of it and below.

    A causal mask hides what is yet to be written. An image is there at once, and no patch of it comes before another;
    and the class token, being first, would see nothing at all.

    What would a mask hide here that has to be guessed?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        count = normed.shape[1]
        visible = torch.ones(count, count, dtype=torch.bool, device=normed.device).tril()
        return self.attn(normed, normed, normed, visible)


@misconception(replaces=whole, caught_by="test_no_patch_comes_first")
class earlier_patches_hidden(Block):
    """The earlier patches are hidden from the later ones.

    No part of an image has to be hidden from another.

    What would a mask hide here that has to be guessed?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        count = normed.shape[1]
        visible = torch.ones(count, count, dtype=torch.bool, device=normed.device).triu()
        return self.attn(normed, normed, normed, visible)


@misconception(replaces=whole, caught_by="test_no_patch_comes_first")
class own_token_hidden(Block):
    """Each token is hidden from itself.

    No part of an image has to be hidden from another, nor from itself.

    Which entries on the diagonal of the weights should be 0?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        count = normed.shape[1]
        return self.attn(normed, normed, normed, ~torch.eye(count, dtype=torch.bool, device=normed.device))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class post_norm(Block):
    """The norms stand behind the sums: post-norm.

    The encoder of step 21 has it that way. ViT, like GPT-2, normalises what a branch reads, and leaves the stream
    alone.

    In `x + attn(ln_1(x))`, what does the norm act on?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(x)
        x = self.ln_1(x + attended)
        return self.give(self.ln_2(x + self.mlp(x)), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class keys_and_values_not_normed(Block):
    """Only the queries were normalised; keys and values come from the stream as it is.

    In `attn(ln_1(x))` all three are the normalised tokens.

    Which three tensors does the attention get?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attn(self.ln_1(x), x, x)
        x = x + attended
        return self.give(x + self.feed(x), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_residual_around_attention(Block):
    """What attention gives replaced the stream, and was not added to it.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of attention?
    """

    def forward(self, x: Tensor) -> Any:
        x, weights = self.attend(self.ln_1(x))
        return self.give(x + self.feed(x), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_residual_around_the_mlp(Block):
    """What the MLP gives replaced the stream, and was not added to it.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of the MLP?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        return self.give(self.feed(x + attended), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class residual_from_the_normed(Block):
    """The normalised tokens were added to the branches, not the stream itself.

    The stream has to pass from the first block to the last without a norm in its way.

    In `x + attn(ln_1(x))`, which x is the first one?
    """

    def forward(self, x: Tensor) -> Any:
        x = self.ln_1(x)
        attended, weights = self.attend(x)
        x = self.ln_2(x + attended)
        return self.give(x + self.mlp(x), weights)


@another_form(residual_from_the_normed)
class attention_added_to_the_normed(Block):
    def forward(self, x: Tensor) -> Any:
        normed = self.ln_1(x)
        attended, weights = self.attend(normed)
        x = normed + attended
        return self.give(x + self.feed(x), weights)


@another_form(residual_from_the_normed)
class mlp_added_to_the_normed(Block):
    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        normed = self.ln_2(x + attended)
        return self.give(normed + self.mlp(normed), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class one_norm_for_both(Block):
    """`ln_1` normalises for both branches.

    The contract names two norms, each with weights of its own.

    Which norm does your `forward` never call?
    """

    def feed(self, x: Tensor) -> Tensor:
        return self.mlp(self.ln_1(x))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class mlp_reads_the_block_input(Block):
    """The MLP reads the block's input, from before attention.

    It should work on what attention has just gathered.

    Which x does the second line of the contract speak of?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        return self.give(x + attended + self.feed(x), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class mlp_without_a_norm(Block):
    """The MLP reads the stream without a norm.

    Each branch reads through a norm of its own.

    Which norm does your `forward` never call?
    """

    def feed(self, x: Tensor) -> Tensor:
        return self.mlp(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_mlp(Block):
    """The MLP was left out.

    Attention only mixes tokens; the MLP is where each of them is worked on.

    Which of the block's submodules does your `forward` never call?
    """

    def feed(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class exact_gelu(Block):
    """The MLP uses the exact GELU.

    ViT as it was published does. Here the MLP is step 11's, with GPT-2's tanh form.

    Which form of the GELU does step 11 ask for?
    """

    def feed(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.mlp.c_fc(self.ln_2(x)))
        return F.dropout(self.mlp.c_proj(hidden), self.mlp.dropout, self.training)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class relu_in_the_mlp(Block):
    """The MLP uses ReLU.

    That was step 21's feed-forward. Here the MLP is step 11's, with the tanh form of GELU.

    Which activation does step 11 ask for?
    """

    def feed(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.mlp.c_fc(self.ln_2(x)))
        return F.dropout(self.mlp.c_proj(hidden), self.mlp.dropout, self.training)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class attention_over_the_batch(Block):
    """The first dimension was taken for the tokens: attention ran over the batch.

    Patches of one image then look at the same place of other images.

    Which dimension of `(B, T, n_embd)` counts the tokens?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        attended, weights = super().attend(normed.transpose(0, 1))
        return attended.transpose(0, 1), weights


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class weights_not_returned(Block):
    """The weights were not returned.

    They are what is drawn when one asks where a model looked.

    What does the contract say that `forward` returns?
    """

    def give(self, x: Tensor, weights: Tensor) -> Any:
        return x


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class weights_averaged_over_the_heads(Block):
    """The weights were averaged over the heads.

    Heads look at different things, and the mean shows none of it. The contract asks for `(B, H, T, T)`.

    How many dimensions do the weights have in the contract?
    """

    def give(self, x: Tensor, weights: Tensor) -> Any:
        return x, weights.mean(dim=1)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_branches_too(Block):
    """Dropout also acts on what the branches add.

    Step 21 has it so. Here it acts in the parts only: on the attention weights, and at the MLP's end.

    How many times does one number pass dropout in your block?
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__(n_embd, n_head, dropout)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        x = x + self.drop(attended)
        return self.give(x + self.drop(self.feed(x)), weights)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_handed_to_the_attention(Block):
    """The attention was made without the dropout rate of the block, or with its default.

    Step 20's class takes 0.1 where it is not told otherwise.

    Which arguments does the attention get when it is made?
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__(n_embd, n_head, dropout)
        self.attn = reference.MultiHeadAttention(n_embd, n_head)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_handed_to_the_mlp(Block):
    """The MLP was made without the dropout rate of the block.

    Step 11's class takes 0 where it is not told otherwise: the rate has no effect there.

    Which arguments does the MLP get when it is made?
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__(n_embd, n_head, dropout)
        self.mlp = reference.MLP(n_embd)
