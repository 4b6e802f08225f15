"""What learners get wrong in `DecoderBlock`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step22_decoder.misconceptions.pieces import Block, Masks, whole

# --- block: who asks whom ---------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_block_by_hand", misses_the_point=True)
class cross_attention_reads_the_target(Block):
    """Cross attention took keys and values from the target's stream.

    That is self-attention a second time: the source never enters.

    Which argument of `forward` holds what the encoder gave?
    """

    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, x, x, mask)[0]


@misconception(replaces=whole, caught_by="test_block_by_hand", misses_the_point=True)
class cross_attention_is_self_attention(cross_attention_reads_the_target):
    def masks(self, tgt_mask: Tensor | None, src_mask: Tensor | None) -> Masks:
        return tgt_mask, tgt_mask


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class cross_attention_asks_from_the_source(Block):
    """Cross attention took its queries from the source, and keys and values from the target.

    Then every source position asks. It is the target that wants to know where to look.

    How many rows should the result of cross attention have, T or S?
    """

    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(source, x, x, mask)[0]


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class cross_values_from_the_target(Block):
    """Cross attention took its values from the target, and only its keys from the source.

    The weights then belong to source positions, and what they gather to the target.

    Which tensor should be gathered from where the weights point?
    """

    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, source, x, mask)[0]


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class cross_keys_from_the_target(Block):
    """Cross attention took its keys from the target, and only its values from the source.

    The weights then belong to target positions, and what they gather to the source.

    Which tensor should be compared with the queries?
    """

    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, x, source, mask)[0]


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class cross_attention_asks_with_the_block_input(Block):
    """Cross attention was asked by the block's input, and not by the stream behind `ln1`.

    What self-attention found out then plays no part in where the source is looked at.

    Which x does the second line of the contract speak of?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(x, self.ask_source(tgt, encoder_output, src_mask))
        return self.add_fed(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class self_attention_reads_the_source(Block):
    """Self-attention took keys and values from the source.

    That is cross attention twice: the target's words never see each other.

    Which three arguments does self-attention get?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        attended = self.self_attention(tgt, encoder_output, encoder_output, src_mask)[0]
        x = self.add_own(tgt, attended)
        x = self.add_crossed(x, self.ask_source(x, encoder_output, src_mask))
        return self.add_fed(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class cross_attention_first(Block):
    """Cross attention came before self-attention.

    The target first makes sense of itself, and then asks the source.

    Which of the contract's three lines comes first?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_crossed(tgt, self.ask_source(tgt, encoder_output, src_mask))
        x = self.add_own(x, self.ask_itself(x, tgt_mask))
        return self.add_fed(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class cross_attention_first_with_the_first_norm(cross_attention_first):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_source(tgt, encoder_output, src_mask))
        x = self.add_crossed(x, self.ask_itself(x, tgt_mask))
        return self.add_fed(x)


@misconception(replaces=whole, caught_by="test_block_by_hand", misses_the_point=True)
class no_cross_attention(Block):
    """Cross attention was left out.

    The decoder then writes without ever looking at the source.

    Which of the block's submodules does your `forward` never call?
    """

    def crossed(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.ln2(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_self_attention(Block):
    """Self-attention was left out.

    Each word is then written without a look at the words before it.

    Which of the block's submodules does your `forward` never call?
    """

    def own(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.ln1(x)


@misconception(replaces=whole, caught_by="test_block_by_hand")
class no_feed_forward(Block):
    """The feed-forward was left out.

    Attention only mixes tokens; the feed-forward is where each of them is worked on.

    Which of the block's submodules does your `forward` never call?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class both_attentions_share_weights(Block):
    """One attention module was made, and given both names.

    The two ask different questions and have weights of their own.

    How many times does your constructor call step 20's class?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.cross_attention = self.self_attention


# --- block: residuals and norms ---------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_block_by_hand")
class pre_norm(Block):
    """The norms stand in front of the branches, not behind the sums: pre-norm.

    GPT-2 has it that way. The paper of 2017, and this contract, normalise the sum of stream and branch.

    In `ln1(x + dropout(self-attention))`, what does the norm act on?
    """

    def own(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return x + self.dropout(self.ask_itself(self.ln1(x), mask))

    def crossed(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return x + self.dropout(self.ask_source(self.ln2(x), source, mask))

    def add_fed(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.feed_forward(self.ln3(x)))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_residual_around_self_attention(Block):
    """What self-attention gives was normalised alone, without the stream.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of self-attention before `ln1`?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(self.dropout(attended))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_residual_around_cross_attention(Block):
    """What cross attention gives was normalised alone, without the stream.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of cross attention before `ln2`?
    """

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(self.dropout(attended))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_residual_around_feed_forward(Block):
    """What the feed-forward gives was normalised alone, without the stream.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of the feed-forward before `ln3`?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class cross_residual_from_block_input(Block):
    """What cross attention gives was added to the block's input, not to what `ln1` gave.

    What self-attention gathered is then lost from the stream.

    Which x does the second line of the contract speak of?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(tgt, self.ask_source(x, encoder_output, src_mask))
        return self.add_fed(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class fed_residual_from_block_input(Block):
    """What the feed-forward gives was added to the block's input, not to what `ln2` gave.

    What the two attentions gathered is then lost from the stream.

    Which x does the third line of the contract speak of?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(x, self.ask_source(x, encoder_output, src_mask))
        return self.ln3(tgt + self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class every_residual_from_block_input(Block):
    """Every branch was added to the block's input, not to the stream before it.

    What the branch before gathered is then lost from the stream.

    Which x does each line of the contract speak of?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(tgt, self.ask_source(x, encoder_output, src_mask))
        return self.ln3(tgt + self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class one_norm_for_both_attentions(Block):
    """`ln1` was used behind both attentions.

    Each of the three sums has a norm with weights of its own.

    Which norm stands behind cross attention?
    """

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))


@misconception(replaces=whole, caught_by="test_block_by_hand")
class one_norm_for_the_last_two(Block):
    """`ln2` was used behind cross attention and behind the feed-forward, and `ln3` never.

    Each of the three sums has a norm with weights of its own.

    Which norm stands behind the feed-forward?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_by_hand")
class last_norms_exchanged(Block):
    """`ln3` was used behind cross attention and `ln2` behind the feed-forward.

    A state dict brings each norm its weights under its name.

    Which norm stands behind cross attention?
    """

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln3(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_by_hand")
class one_norm_for_all(Block):
    """`ln1` was used behind all three branches.

    Each of the three sums has a norm with weights of its own.

    Which of the block's submodules does your `forward` never call?
    """

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_by_hand")
class norm_of_the_branches(Block):
    """Each branch was normalised and then added: `x + ln1(attention)`.

    In post-norm the norm acts on the sum. Behind the sum the stream keeps one size, however many blocks there are.

    In `ln1(x + dropout(self-attention))`, where does the bracket of `ln1` end?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.ln1(self.dropout(attended))

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.ln2(self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return x + self.ln3(self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class norm_only_at_the_end(Block):
    """Only the last sum was normalised.

    Each of the three sums has a norm behind it.

    How many norms does your `forward` call?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.dropout(attended)

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.dropout(attended)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class source_normalised_again(Block):
    """What the encoder gave was normalised once more before cross attention read it.

    The encoder ends in a norm of its own. Here `encoder_output` is read as it is.

    What happens to `encoder_output` before cross attention in the contract?
    """

    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return super().ask_source(x, self.ln2(source), mask)


@misconception(replaces=whole, caught_by="test_block_by_hand")
class block_gives_weights_too(Block):
    """The block returned its weights beside the output.

    Unlike step 21's, this block gives its output alone.

    How many values does the contract's arrow give?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        weights = self.cross_attention(tgt, encoder_output, encoder_output, src_mask)[1]
        return super().forward(tgt, encoder_output, tgt_mask, src_mask), weights


# --- block: masks -----------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_block_hands_its_masks_on")
class masks_exchanged(Block):
    """The masks were exchanged: `src_mask` went to self-attention, and `tgt_mask` to cross attention.

    `tgt_mask` speaks of target positions, which are self-attention's keys, `src_mask` of the source's.

    Whose positions are the keys in each of the two attentions?
    """

    def masks(self, tgt_mask: Tensor | None, src_mask: Tensor | None) -> Masks:
        return src_mask, tgt_mask


@misconception(replaces=whole, caught_by="test_block_hands_its_masks_on")
class block_ignores_tgt_mask(Block):
    """The block did not use `tgt_mask`.

    Self-attention then sees the words that are still to be written.

    How many arguments does your call of `self.self_attention` have?
    """

    def masks(self, tgt_mask: Tensor | None, src_mask: Tensor | None) -> Masks:
        return None, src_mask


@misconception(replaces=whole, caught_by="test_block_hands_its_masks_on")
class block_ignores_src_mask(Block):
    """The block did not use `src_mask`.

    Cross attention then gathers from the padding of the source.

    How many arguments does your call of `self.cross_attention` have?
    """

    def masks(self, tgt_mask: Tensor | None, src_mask: Tensor | None) -> Masks:
        return tgt_mask, None


@misconception(replaces=whole, caught_by="test_block_hands_its_masks_on")
class tgt_mask_in_both_attentions(Block):
    """`tgt_mask` was used in both attentions.

    The keys of cross attention are source positions, of which `tgt_mask` knows nothing.

    Whose positions are the keys in cross attention?
    """

    def masks(self, tgt_mask: Tensor | None, src_mask: Tensor | None) -> Masks:
        return tgt_mask, tgt_mask


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class block_makes_a_causal_mask(Block):
    """The block made a causal mask of its own.

    The model makes it, once for all blocks. The block obeys the masks it is given.

    What does the contract's last sentence on `DecoderBlock` say?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()
        return super().forward(tgt, encoder_output, causal if tgt_mask is None else tgt_mask & causal, src_mask)
