"""What learners get wrong in step 22, each with the check that catches it.

A learner's model is made of the same learner's blocks. So what is wrong in `DecoderBlock` is wrong in the model, and
each misconception of the block replaces both.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import Pair, misconception
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.encoder_decoder.step21_encoder.reference import FeedForward
from solutions.encoder_decoder.step22_decoder import reference

MODEL = ("EncoderDecoderTransformer",)
BLOCK = ("DecoderBlock", *MODEL)


class Block(reference.DecoderBlock):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def ask_itself(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.self_attention(x, x, x, mask)[0]

    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, source, source, mask)[0]

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.dropout(self.feed_forward(x)))

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(x, self.ask_source(x, encoder_output, src_mask))
        return self.add_fed(x)


class Model(reference.EncoderDecoderTransformer):
    """As `Block`."""

    made_of: type = reference.DecoderBlock

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        d_model: int = 512,
        n_heads: int = 8,
        n_layers: int = 6,
        d_ff: int = 2048,
        max_seq_len: int = 5000,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(src_vocab_size, tgt_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.decoder_blocks = self.blocks(n_layers, d_model, n_heads, d_ff, dropout)

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList(self.made_of(*given) for _ in range(n_layers))

    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return self.encoder(src, mask)[0]

    def causal(self, tgt: Tensor) -> Tensor:
        return torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()

    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal if mask is None else causal & mask

    def positions(self, tgt: Tensor) -> Tensor:
        return self.decoder_pos_embedding(torch.arange(tgt.shape[1], device=tgt.device))

    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.decoder_embedding(tgt) + self.positions(tgt))

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for block in self.decoder_blocks:
            x = block(x, encoded, visible, src_mask)
            x = x[0] if isinstance(x, tuple) else x  # a wrong block may give more than its output
        return x

    def finish(self, x: Tensor) -> Tensor:
        return self.output_projection(self.ln_final(x))

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        if tgt.shape[1] > self.max_seq_len:
            raise ValueError(f"tgt has {tgt.shape[1]} tokens, but max_seq_len is {self.max_seq_len}")
        encoded = self.encode(src, src_mask)
        return self.finish(self.decode(self.embed(tgt), encoded, self.join(self.causal(tgt), tgt_mask), src_mask))


def whole(block: type | None = None, model: type | None = None) -> dict[str, Any]:
    """These classes, and all that are made of them."""
    if block is None:
        return {"EncoderDecoderTransformer": model}
    made = type("EncoderDecoderTransformer", (model or Model,), {"made_of": block})
    return {"DecoderBlock": block, "EncoderDecoderTransformer": made}


# --- block: who asks whom ---------------------------------------------------------------------------------------------


class CrossAttentionReadsTheTarget(Block):
    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, x, x, mask)[0]


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def cross_attention_reads_the_target() -> dict[str, Any]:
    """Cross attention took keys and values from the target's stream.

    That is self-attention a second time: the source never enters.

    Which argument of `forward` holds what the encoder gave?
    """
    return whole(block=CrossAttentionReadsTheTarget)


class CrossAttentionAsksFromTheSource(Block):
    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(source, x, x, mask)[0]


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def cross_attention_asks_from_the_source() -> dict[str, Any]:
    """Cross attention took its queries from the source, and keys and values from the target.

    Then every source position asks. It is the target that wants to know where to look.

    How many rows should the result of cross attention have, T or S?
    """
    return whole(block=CrossAttentionAsksFromTheSource)


class CrossValuesFromTheTarget(Block):
    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, source, x, mask)[0]


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def cross_values_from_the_target() -> dict[str, Any]:
    """Cross attention took its values from the target, and only its keys from the source.

    The weights then belong to source positions, and what they gather to the target.

    Which tensor should be gathered from where the weights point?
    """
    return whole(block=CrossValuesFromTheTarget)


class CrossKeysFromTheTarget(Block):
    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return self.cross_attention(x, x, source, mask)[0]


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def cross_keys_from_the_target() -> dict[str, Any]:
    """Cross attention took its keys from the target, and only its values from the source.

    The weights then belong to target positions, and what they gather to the source.

    Which tensor should be compared with the queries?
    """
    return whole(block=CrossKeysFromTheTarget)


class CrossAttentionAsksWithTheBlockInput(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(x, self.ask_source(tgt, encoder_output, src_mask))
        return self.add_fed(x)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def cross_attention_asks_with_the_block_input() -> dict[str, Any]:
    """Cross attention was asked by the block's input, and not by the stream behind `ln1`.

    What self-attention found out then plays no part in where the source is looked at.

    Which x does the second line of the contract speak of?
    """
    return whole(block=CrossAttentionAsksWithTheBlockInput)


class SelfAttentionReadsTheSource(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        attended = self.self_attention(tgt, encoder_output, encoder_output, src_mask)[0]
        x = self.add_own(tgt, attended)
        x = self.add_crossed(x, self.ask_source(x, encoder_output, src_mask))
        return self.add_fed(x)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def self_attention_reads_the_source() -> dict[str, Any]:
    """Self-attention took keys and values from the source.

    That is cross attention twice: the target's words never see each other.

    Which three arguments does self-attention get?
    """
    return whole(block=SelfAttentionReadsTheSource)


class CrossAttentionFirst(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_crossed(tgt, self.ask_source(tgt, encoder_output, src_mask))
        x = self.add_own(x, self.ask_itself(x, tgt_mask))
        return self.add_fed(x)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def cross_attention_first() -> dict[str, Any]:
    """Cross attention came before self-attention.

    The target first makes sense of itself, and then asks the source.

    Which of the contract's three lines comes first?
    """
    return whole(block=CrossAttentionFirst)


class NoCrossAttention(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        return self.add_fed(self.ln2(x))


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def no_cross_attention() -> dict[str, Any]:
    """Cross attention was left out.

    The decoder then writes without ever looking at the source.

    Which of the block's submodules does your `forward` never call?
    """
    return whole(block=NoCrossAttention)


class NoSelfAttention(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.ln1(tgt)
        x = self.add_crossed(x, self.ask_source(x, encoder_output, src_mask))
        return self.add_fed(x)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def no_self_attention() -> dict[str, Any]:
    """Self-attention was left out.

    Each word is then written without a look at the words before it.

    Which of the block's submodules does your `forward` never call?
    """
    return whole(block=NoSelfAttention)


class NoFeedForward(Block):
    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x)


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def no_feed_forward() -> dict[str, Any]:
    """The feed-forward was left out.

    Attention only mixes tokens; the feed-forward is where each of them is worked on.

    Which of the block's submodules does your `forward` never call?
    """
    return whole(block=NoFeedForward)


class BothAttentionsShareWeights(Block):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.cross_attention = self.self_attention


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def both_attentions_share_weights() -> dict[str, Any]:
    """One attention module was made, and given both names.

    The two ask different questions and have weights of their own.

    How many times does your constructor call step 20's class?
    """
    return whole(block=BothAttentionsShareWeights)


# --- block: residuals and norms ---------------------------------------------------------------------------------------


class PreNorm(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = tgt + self.dropout(self.ask_itself(self.ln1(tgt), tgt_mask))
        x = x + self.dropout(self.ask_source(self.ln2(x), encoder_output, src_mask))
        return x + self.dropout(self.feed_forward(self.ln3(x)))


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def pre_norm() -> dict[str, Any]:
    """The norms stand in front of the branches, not behind the sums: pre-norm.

    GPT-2 has it that way. The paper of 2017, and this contract, normalise the sum of stream and branch.

    In `ln1(x + dropout(self-attention))`, what does the norm act on?
    """
    return whole(block=PreNorm)


class NoResidualAroundSelfAttention(Block):
    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(self.dropout(attended))


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def no_residual_around_self_attention() -> dict[str, Any]:
    """What self-attention gives was normalised alone, without the stream.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of self-attention before `ln1`?
    """
    return whole(block=NoResidualAroundSelfAttention)


class NoResidualAroundCrossAttention(Block):
    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(self.dropout(attended))


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def no_residual_around_cross_attention() -> dict[str, Any]:
    """What cross attention gives was normalised alone, without the stream.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of cross attention before `ln2`?
    """
    return whole(block=NoResidualAroundCrossAttention)


class NoResidualAroundFeedForward(Block):
    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(self.dropout(self.feed_forward(x)))


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def no_residual_around_feed_forward() -> dict[str, Any]:
    """What the feed-forward gives was normalised alone, without the stream.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of the feed-forward before `ln3`?
    """
    return whole(block=NoResidualAroundFeedForward)


class CrossResidualFromBlockInput(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(tgt, self.ask_source(x, encoder_output, src_mask))
        return self.add_fed(x)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def cross_residual_from_block_input() -> dict[str, Any]:
    """What cross attention gives was added to the block's input, not to what `ln1` gave.

    What self-attention gathered is then lost from the stream.

    Which x does the second line of the contract speak of?
    """
    return whole(block=CrossResidualFromBlockInput)


class EveryResidualFromBlockInput(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        x = self.add_crossed(tgt, self.ask_source(x, encoder_output, src_mask))
        return self.ln3(tgt + self.dropout(self.feed_forward(x)))


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def every_residual_from_block_input() -> dict[str, Any]:
    """Every branch was added to the block's input, not to the stream before it.

    What the branch before gathered is then lost from the stream.

    Which x does each line of the contract speak of?
    """
    return whole(block=EveryResidualFromBlockInput)


class OneNormForBothAttentions(Block):
    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def one_norm_for_both_attentions() -> dict[str, Any]:
    """`ln1` was used behind both attentions.

    Each of the three sums has a norm with weights of its own.

    Which norm stands behind cross attention?
    """
    return whole(block=OneNormForBothAttentions)


class OneNormForTheLastTwo(Block):
    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def one_norm_for_the_last_two() -> dict[str, Any]:
    """`ln2` was used behind cross attention and behind the feed-forward, and `ln3` never.

    Each of the three sums has a norm with weights of its own.

    Which norm stands behind the feed-forward?
    """
    return whole(block=OneNormForTheLastTwo)


class LastNormsExchanged(Block):
    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln3(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def last_norms_exchanged() -> dict[str, Any]:
    """`ln3` was used behind cross attention and `ln2` behind the feed-forward.

    A state dict brings each norm its weights under its name.

    Which norm stands behind cross attention?
    """
    return whole(block=LastNormsExchanged)


class OneNormForAll(Block):
    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def one_norm_for_all() -> dict[str, Any]:
    """`ln1` was used behind all three branches.

    Each of the three sums has a norm with weights of its own.

    Which of the block's submodules does your `forward` never call?
    """
    return whole(block=OneNormForAll)


class NormOfTheBranches(Block):
    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.ln1(self.dropout(attended))

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.ln2(self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return x + self.ln3(self.dropout(self.feed_forward(x)))


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def norm_of_the_branches() -> dict[str, Any]:
    """Each branch was normalised and then added: `x + ln1(attention)`.

    In post-norm the norm acts on the sum. Behind the sum the stream keeps one size, however many blocks there are.

    In `ln1(x + dropout(self-attention))`, where does the bracket of `ln1` end?
    """
    return whole(block=NormOfTheBranches)


class NormOnlyAtTheEnd(Block):
    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.dropout(attended)

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.dropout(attended)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def norm_only_at_the_end() -> dict[str, Any]:
    """Only the last sum was normalised.

    Each of the three sums has a norm behind it.

    How many norms does your `forward` call?
    """
    return whole(block=NormOnlyAtTheEnd)


class SourceNormalisedAgain(Block):
    def ask_source(self, x: Tensor, source: Tensor, mask: Tensor | None) -> Tensor:
        return super().ask_source(x, self.ln2(source), mask)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def source_normalised_again() -> dict[str, Any]:
    """What the encoder gave was normalised once more before cross attention read it.

    The encoder ends in a norm of its own. Here `encoder_output` is read as it is.

    What happens to `encoder_output` before cross attention in the contract?
    """
    return whole(block=SourceNormalisedAgain)


class BlockGivesWeightsToo(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        weights = self.cross_attention(tgt, encoder_output, encoder_output, src_mask)[1]
        return super().forward(tgt, encoder_output, tgt_mask, src_mask), weights


@misconception(replaces=BLOCK, caught_by="test_block_by_hand")
def block_gives_weights_too() -> dict[str, Any]:
    """The block returned its weights beside the output.

    Unlike step 21's, this block gives its output alone.

    How many values does the contract's arrow give?
    """
    return whole(block=BlockGivesWeightsToo)


# --- block: masks -----------------------------------------------------------------------------------------------------


class MasksExchanged(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, src_mask, tgt_mask)


@misconception(replaces=BLOCK, caught_by="test_block_hands_its_masks_on")
def masks_exchanged() -> dict[str, Any]:
    """The masks were exchanged: `src_mask` went to self-attention, and `tgt_mask` to cross attention.

    `tgt_mask` speaks of target positions, which are self-attention's keys, `src_mask` of the source's.

    Whose positions are the keys in each of the two attentions?
    """
    return whole(block=MasksExchanged)


class BlockIgnoresTgtMask(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, None, src_mask)


@misconception(replaces=BLOCK, caught_by="test_block_hands_its_masks_on")
def block_ignores_tgt_mask() -> dict[str, Any]:
    """The block did not use `tgt_mask`.

    Self-attention then sees the words that are still to be written.

    How many arguments does your call of `self.self_attention` have?
    """
    return whole(block=BlockIgnoresTgtMask)


class BlockIgnoresSrcMask(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, tgt_mask, None)


@misconception(replaces=BLOCK, caught_by="test_block_hands_its_masks_on")
def block_ignores_src_mask() -> dict[str, Any]:
    """The block did not use `src_mask`.

    Cross attention then gathers from the padding of the source.

    How many arguments does your call of `self.cross_attention` have?
    """
    return whole(block=BlockIgnoresSrcMask)


class TgtMaskInBothAttentions(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, tgt_mask, tgt_mask)


@misconception(replaces=BLOCK, caught_by="test_block_hands_its_masks_on")
def tgt_mask_in_both_attentions() -> dict[str, Any]:
    """`tgt_mask` was used in both attentions.

    The keys of cross attention are source positions, of which `tgt_mask` knows nothing.

    Whose positions are the keys in cross attention?
    """
    return whole(block=TgtMaskInBothAttentions)


class BlockMakesACausalMask(Block):
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()
        return super().forward(tgt, encoder_output, causal if tgt_mask is None else tgt_mask & causal, src_mask)


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def block_makes_a_causal_mask() -> dict[str, Any]:
    """The block made a causal mask of its own.

    The model makes it, once for all blocks. The block obeys the masks it is given.

    What does the contract's last sentence on `DecoderBlock` say?
    """
    return whole(block=BlockMakesACausalMask)


# --- block: dropout ---------------------------------------------------------------------------------------------------


class NoDropoutBehindSelfAttention(Block):
    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)


@misconception(replaces=BLOCK, caught_by="test_dropout")
def no_dropout_behind_self_attention() -> dict[str, Any]:
    """Nothing was dropped of what self-attention adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln1`, where is the dropout?
    """
    return whole(block=NoDropoutBehindSelfAttention)


class NoDropoutBehindCrossAttention(Block):
    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + attended)


@misconception(replaces=BLOCK, caught_by="test_dropout")
def no_dropout_behind_cross_attention() -> dict[str, Any]:
    """Nothing was dropped of what cross attention adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln2`, where is the dropout?
    """
    return whole(block=NoDropoutBehindCrossAttention)


class NoDropoutBehindFeedForward(Block):
    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.feed_forward(x))


@misconception(replaces=BLOCK, caught_by="test_dropout")
def no_dropout_behind_feed_forward() -> dict[str, Any]:
    """Nothing was dropped of what the feed-forward adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln3`, where is the dropout?
    """
    return whole(block=NoDropoutBehindFeedForward)


class NoDropoutOnTheBranches(Block):
    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + attended)

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.feed_forward(x))


@misconception(replaces=BLOCK, caught_by="test_dropout")
def no_dropout_on_the_branches() -> dict[str, Any]:
    """Nothing was dropped of what the three branches add.

    Each of them is dropped before it is added, whatever is dropped inside of it.

    Where does your `forward` use the block's own dropout?
    """
    return whole(block=NoDropoutOnTheBranches)


class BlockDropsInEval(Block):
    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + F.dropout(attended, self.dropout.p))


@misconception(replaces=BLOCK, caught_by="test_block_agrees_with_fresh_draws")
def block_drops_in_eval() -> dict[str, Any]:
    """The branches were dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """
    return whole(block=BlockDropsInEval)


class DropoutOnTheSums(Block):
    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(self.dropout(x + attended))

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(self.dropout(x + attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(self.dropout(x + self.feed_forward(x)))


@misconception(replaces=BLOCK, caught_by="test_dropout")
def dropout_on_the_sums() -> dict[str, Any]:
    """The dropout acts on the sums of stream and branch.

    Only what a branch adds is dropped. The stream itself has to get through whole.

    In `ln1(x + dropout(self-attention))`, where does the bracket of `dropout` end?
    """
    return whole(block=DropoutOnTheSums)


class DropoutNotGivenToTheAttentions(Block):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)


@misconception(replaces=BLOCK, caught_by="test_dropout")
def dropout_not_given_to_the_attentions() -> dict[str, Any]:
    """The rate of dropout was not handed to the two attentions.

    They then keep their default of 0.1, whatever was asked for.

    Which arguments does the constructor of step 20's class take?
    """
    return whole(block=DropoutNotGivenToTheAttentions)


class DropoutNotGivenToFeedForward(Block):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)


@misconception(replaces=BLOCK, caught_by="test_dropout")
def dropout_not_given_to_feed_forward() -> dict[str, Any]:
    """The rate of dropout was not handed to the feed-forward.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of `FeedForward` take?
    """
    return whole(block=DropoutNotGivenToFeedForward)


# --- model: the causal mask -------------------------------------------------------------------------------------------


class NoCausalMask(Model):
    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return mask


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def no_causal_mask() -> dict[str, Any]:
    """No causal mask was made: the target's words see each other freely.

    In training a word then reads off the next one instead of learning to predict it, and when it translates there is
    nothing to read off.

    When the word at position 3 is predicted, which words of the target may be seen?
    """
    return whole(model=NoCausalMask)


class TgtMaskReplacesTheCausalMask(Model):
    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal if mask is None else mask


@misconception(replaces=MODEL, caught_by="test_causal_mask_is_made_inside")
def tgt_mask_replaces_the_causal_mask() -> dict[str, Any]:
    """A `tgt_mask` took the place of the causal mask, which was made only where none was given.

    Who hides the target's padding then opens the future.

    What should hold when the caller gives a mask: one of the two, or both?
    """
    return whole(model=TgtMaskReplacesTheCausalMask)


class MasksJoinedByOr(Model):
    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal if mask is None else causal | mask


@misconception(replaces=MODEL, caught_by="test_causal_mask_is_made_inside")
def masks_joined_by_or() -> dict[str, Any]:
    """The causal mask and `tgt_mask` were joined by "or".

    What either of them shows is then seen. It should be seen only where both show it.

    When True means "may attend", which of `&` and `|` hides more?
    """
    return whole(model=MasksJoinedByOr)


class TgtMaskIgnored(Model):
    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal


@misconception(replaces=MODEL, caught_by="test_masks_reach_every_block")
def tgt_mask_ignored() -> dict[str, Any]:
    """`tgt_mask` was not used.

    The padding of the target then gets weight like real words.

    What does your code do when `tgt_mask` is not None?
    """
    return whole(model=TgtMaskIgnored)


class CausalMaskTurned(Model):
    def causal(self, tgt: Tensor) -> Tensor:
        return super().causal(tgt).T


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def causal_mask_turned() -> dict[str, Any]:
    """The causal mask is upside down: each word sees itself and the later ones.

    A word may look back, not ahead: in row i the columns up to i are True.

    In `(T_q, T_k)`, which triangle holds the earlier keys?
    """
    return whole(model=CausalMaskTurned)


class OwnWordHidden(Model):
    def causal(self, tgt: Tensor) -> Tensor:
        return super().causal(tgt).tril(-1)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def own_word_hidden() -> dict[str, Any]:
    """The causal mask hides a word from itself too.

    The first word then sees nothing, and its weights are NaN. The word that is read is known; it is the next one that
    is predicted.

    Which number stands behind the comma in your `tril` or `triu`, and what does it move?
    """
    return whole(model=OwnWordHidden)


class OneWordAhead(Model):
    def causal(self, tgt: Tensor) -> Tensor:
        return torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril(1)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def one_word_ahead() -> dict[str, Any]:
    """The causal mask also shows the next word.

    That is the very word that is to be predicted.

    Which number stands behind the comma in your `tril` or `triu`, and what does it move?
    """
    return whole(model=OneWordAhead)


class CausalMaskForFirstBlockOnly(Model):
    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for layer, block in enumerate(self.decoder_blocks):
            x = block(x, encoded, visible if layer == 0 else None, src_mask)
        return x


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def causal_mask_for_first_block_only() -> dict[str, Any]:
    """Only the first decoder block got the causal mask.

    From the second block on words see their future.

    With which arguments does your loop call each block?
    """
    return whole(model=CausalMaskForFirstBlockOnly)


class CausalMaskInTheEncoder(Model):
    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        causal = self.causal(src)
        return super().encode(src, causal if mask is None else causal & mask)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def causal_mask_in_the_encoder() -> dict[str, Any]:
    """The encoder was given a causal mask, too.

    The source is there as a whole from the beginning: each of its words may see all the others.

    Which of the two sequences is still to be written?
    """
    return whole(model=CausalMaskInTheEncoder)


class CausalMaskInCrossAttention(Model):
    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        causal = torch.ones(x.shape[1], encoded.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().decode(x, encoded, visible, causal if src_mask is None else causal & src_mask)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def causal_mask_in_cross_attention() -> dict[str, Any]:
    """Cross attention was given a causal mask, too: word i of the target sees the source only up to position i.

    The source is there as a whole from the beginning, and its order need not be the target's.

    Which of the two sequences is still to be written?
    """
    return whole(model=CausalMaskInCrossAttention)


class CausalMaskOnTheCpu(Model):
    def causal(self, tgt: Tensor) -> Tensor:
        return torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()


@misconception(replaces=MODEL, caught_by="test_dtypes_and_device")
def causal_mask_on_the_cpu() -> dict[str, Any]:
    """The causal mask was made without saying on which device.

    It lies on the CPU, wherever the module and its ids are.

    Which tensor has the right device, so that a new one can be made like it?
    """
    return whole(model=CausalMaskOnTheCpu)


# --- model: the source ------------------------------------------------------------------------------------------------


class SrcMaskDoesNotReachCrossAttention(Model):
    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        return super().decode(x, encoded, visible, None)


@misconception(replaces=MODEL, caught_by="test_masks_reach_every_block")
def src_mask_does_not_reach_cross_attention() -> dict[str, Any]:
    """`src_mask` was not handed to the decoder's blocks.

    The encoder keeps padding out, and then cross attention gathers from the padding's outputs.

    With which arguments does your loop call each decoder block?
    """
    return whole(model=SrcMaskDoesNotReachCrossAttention)


class SrcMaskDoesNotReachTheEncoder(Model):
    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return super().encode(src, None)


@misconception(replaces=MODEL, caught_by="test_masks_reach_every_block")
def src_mask_does_not_reach_the_encoder() -> dict[str, Any]:
    """`src_mask` was not handed to the encoder.

    Real words then gather from padding in the encoder, and bring it along.

    With which arguments do you call the encoder?
    """
    return whole(model=SrcMaskDoesNotReachTheEncoder)


class SrcMaskForFirstBlockOnly(Model):
    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for layer, block in enumerate(self.decoder_blocks):
            x = block(x, encoded, visible, src_mask if layer == 0 else None)
        return x


@misconception(replaces=MODEL, caught_by="test_masks_reach_every_block")
def src_mask_for_first_block_only() -> dict[str, Any]:
    """Only the first decoder block got `src_mask`.

    From the second block on cross attention gathers from padding.

    With which arguments does your loop call each block?
    """
    return whole(model=SrcMaskForFirstBlockOnly)


class MasksOfTheModelExchanged(Model):
    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        return super().decode(x, encoded, src_mask, visible)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def masks_of_the_model_exchanged() -> dict[str, Any]:
    """The model exchanged the masks: the decoder's blocks got `src_mask` for the target and the target's for the
    source.

    Each attention needs the mask of the positions that are its keys.

    In which order does `DecoderBlock` take its masks?
    """
    return whole(model=MasksOfTheModelExchanged)


class DecoderReadsTheEmbeddings(Model):
    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return self.encoder.token_embedding(src)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def decoder_reads_the_embeddings() -> dict[str, Any]:
    """Cross attention read the source's embeddings, and not what the encoder gave.

    The encoder's blocks then do nothing at all.

    Which of the encoder's two results goes to the decoder?
    """
    return whole(model=DecoderReadsTheEmbeddings)


class EncoderNormedOnceMore(Model):
    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return self.ln_final(super().encode(src, mask))


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def encoder_normed_once_more() -> dict[str, Any]:
    """What the encoder gave passed `ln_final` once more.

    The encoder has a final norm of its own; the model's belongs to the decoder.

    Whose output does the model's `ln_final` act on?
    """
    return whole(model=EncoderNormedOnceMore)


class TargetThroughTheEncodersEmbedding(Model):
    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.encoder.token_embedding(tgt) + self.positions(tgt))


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def target_through_the_encoders_embedding() -> dict[str, Any]:
    """The target was embedded with the encoder's token embedding.

    The two languages have vocabularies of their own: id 5 is another word in each.

    Which embedding has `tgt_vocab_size` rows?
    """
    return whole(model=TargetThroughTheEncodersEmbedding)


class PositionsOfTheEncoder(Model):
    def positions(self, tgt: Tensor) -> Tensor:
        return self.encoder.position_embedding(torch.arange(tgt.shape[1], device=tgt.device))


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def positions_of_the_encoder() -> dict[str, Any]:
    """The target's positions were taken from the encoder's table.

    The decoder has a table of its own, with weights of its own.

    Which table belongs to the target?
    """
    return whole(model=PositionsOfTheEncoder)


# --- model: the target and the logits ---------------------------------------------------------------------------------


class TargetPositionsNotAdded(Model):
    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.decoder_embedding(tgt))


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def target_positions_not_added() -> dict[str, Any]:
    """The target's position embedding was not added.

    The causal mask tells a little about the order, but not where a word stands.

    How could the decoder know that the same word stands first here and last there?
    """
    return whole(model=TargetPositionsNotAdded)


class TargetPositionsFromOne(Model):
    def positions(self, tgt: Tensor) -> Tensor:
        return self.decoder_pos_embedding(torch.arange(1, tgt.shape[1] + 1, device=tgt.device))


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def target_positions_from_one() -> dict[str, Any]:
    """The target's positions were counted from 1.

    The rows of the table belong to the positions 0 … max_seq_len - 1: a full target asks for one that is not there.

    Which row belongs to the first word?
    """
    return whole(model=TargetPositionsFromOne)


class TargetEmbeddingsScaled(Model):
    def embed(self, tgt: Tensor) -> Tensor:
        scaled = self.decoder_embedding(tgt) * math.sqrt(self.decoder_embedding.embedding_dim)
        return self.dropout(scaled + self.positions(tgt))


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def target_embeddings_scaled() -> dict[str, Any]:
    """The target's embeddings were multiplied by the root of `d_model`.

    The paper does so, because it ties them to the output. Here they are added as they are.

    What does the contract say of the decoder's input?
    """
    return whole(model=TargetEmbeddingsScaled)


class NoFinalNorm(Model):
    def finish(self, x: Tensor) -> Tensor:
        return self.output_projection(x)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def no_final_norm() -> dict[str, Any]:
    """`ln_final` was not applied.

    The blocks end in a norm as well, so it hardly shows at first; but this one has weights of its own.

    Which of the model's submodules does your `forward` never call?
    """
    return whole(model=NoFinalNorm)


class SoftmaxOnTheLogits(Model):
    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x).softmax(dim=-1)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def softmax_on_the_logits() -> dict[str, Any]:
    """A softmax was applied to the logits.

    The class gives logits; the loss takes its softmax by itself.

    Which function does `F.cross_entropy` apply to its input first?
    """
    return whole(model=SoftmaxOnTheLogits)


class LogSoftmaxOnTheLogits(Model):
    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x).log_softmax(dim=-1)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def log_softmax_on_the_logits() -> dict[str, Any]:
    """A log-softmax was applied to the logits.

    The class gives logits; the loss takes its softmax by itself.

    Which function does `F.cross_entropy` apply to its input first?
    """
    return whole(model=LogSoftmaxOnTheLogits)


class LastLogitsOnly(Model):
    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x[:, -1:])


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def last_logits_only() -> dict[str, Any]:
    """Only the logits of the last position were returned.

    In training every position is a question of its own; it is for the greedy loop to pick the last.

    Which shape does the contract give the logits?
    """
    return whole(model=LastLogitsOnly)


class TargetShiftedInside(Model):
    def embed(self, tgt: Tensor) -> Tensor:
        return super().embed(torch.cat([torch.zeros_like(tgt[:, :1]), tgt[:, :-1]], dim=1))


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def target_shifted_inside() -> dict[str, Any]:
    """The model shifted the target: it put a first word of its own in front and left the last one out.

    The caller has done that already. `tgt` is what the decoder reads.

    In the contract, which logits belong to the word at position t?
    """
    return whole(model=TargetShiftedInside)


class OutputWithoutBias(Model):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        layer = self.output_projection
        self.output_projection = nn.Linear(layer.in_features, layer.out_features, bias=False)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def output_without_bias() -> dict[str, Any]:
    """`output_projection` was made without a bias.

    The contract's has one: a state dict does not fit otherwise.

    What is the default of `nn.Linear`, and what did you tell it?
    """
    return whole(model=OutputWithoutBias)


class OutputTiedToTheEmbedding(Model):
    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.output_projection.weight = self.decoder_embedding.weight


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def output_tied_to_the_embedding() -> dict[str, Any]:
    """`output_projection` shares its weight with the decoder's embedding.

    Some models tie them. In this contract parameters of two names are two parameters.

    What does the contract say of parameters that carry two names?
    """
    return whole(model=OutputTiedToTheEmbedding)


class OneBlockManyTimes(Model):
    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList([self.made_of(*given)] * n_layers)


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def one_block_many_times() -> dict[str, Any]:
    """One decoder block was made, and the list holds the same one again and again.

    The layers then share their weights. `n_layers` blocks have weights of their own each.

    How many times does your code call the constructor of the block?
    """
    return whole(model=OneBlockManyTimes)


class LastBlockLeftOut(Model):
    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for block in list(self.decoder_blocks)[:-1]:
            x = block(x, encoded, visible, src_mask)
        return x


@misconception(replaces=MODEL, caught_by="test_model_agrees_with_fresh_draws")
def last_block_left_out() -> dict[str, Any]:
    """The last decoder block was left out.

    There are `n_layers` blocks, and all of them count.

    Where does your loop end?
    """
    return whole(model=LastBlockLeftOut)


class LongTargetsWrap(Model):
    def positions(self, tgt: Tensor) -> Tensor:
        table = self.decoder_pos_embedding
        return table(torch.arange(tgt.shape[1], device=tgt.device) % table.num_embeddings)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        self.max_seq_len = tgt.shape[1]
        return super().forward(src, tgt, src_mask, tgt_mask)


@misconception(replaces=MODEL, caught_by="test_too_long_is_an_error")
def long_targets_wrap() -> dict[str, Any]:
    """A target that is longer than `max_seq_len` was accepted: its positions begin again at 0.

    Two words then have one position, and nobody is told.

    What should happen when there are more words than rows?
    """
    return whole(model=LongTargetsWrap)


class LongSourcesCut(Model):
    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return super().encode(src[:, : self.max_seq_len], mask)


@misconception(replaces=MODEL, caught_by="test_too_long_is_an_error")
def long_sources_cut() -> dict[str, Any]:
    """A source that is longer than `max_seq_len` was accepted: its end was cut off.

    The end of the text is then missing in the translation, and nobody is told.

    What should happen when there are more words than rows?
    """
    return whole(model=LongSourcesCut)


class NoDropoutOnTargetEmbeddings(Model):
    def embed(self, tgt: Tensor) -> Tensor:
        return self.decoder_embedding(tgt) + self.positions(tgt)


@misconception(replaces=MODEL, caught_by="test_dropout")
def no_dropout_on_target_embeddings() -> dict[str, Any]:
    """Nothing was dropped of the sum of the target's embeddings.

    The contract names it: dropout on the sum, then the blocks.

    Where does your `forward` use the model's own dropout?
    """
    return whole(model=NoDropoutOnTargetEmbeddings)


class DropoutOnTargetTokensAlone(Model):
    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.decoder_embedding(tgt)) + self.positions(tgt)


@misconception(replaces=MODEL, caught_by="test_dropout")
def dropout_on_target_tokens_alone() -> dict[str, Any]:
    """The target's token embeddings were dropped before the positions were added.

    The contract drops from the sum. So a dropped number loses its position, too.

    What does the bracket of your dropout hold?
    """
    return whole(model=DropoutOnTargetTokensAlone)


class DropoutNotGivenToTheDecoderBlocks(Model):
    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return super().blocks(n_layers, *given[:-1])


@misconception(replaces=MODEL, caught_by="test_dropout")
def dropout_not_given_to_the_decoder_blocks() -> dict[str, Any]:
    """The rate of dropout was not handed to the decoder's blocks.

    They then keep their default of 0.1, whatever was asked for.

    Which arguments does the constructor of `DecoderBlock` take?
    """
    return whole(model=DropoutNotGivenToTheDecoderBlocks)


class DropoutNotGivenToTheEncoder(Model):
    def __init__(self, src_vocab_size: int, *given: Any, **named: Any) -> None:
        super().__init__(src_vocab_size, *given, **named)
        for part in self.encoder.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.1


@misconception(replaces=MODEL, caught_by="test_dropout")
def dropout_not_given_to_the_encoder() -> dict[str, Any]:
    """The rate of dropout was not handed to the encoder.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of `SimpleTransformer` take?
    """
    return whole(model=DropoutNotGivenToTheEncoder)


class DefaultsOfTheClassifier(Model):
    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        d_model: int = 256,
        n_heads: int = 8,
        n_layers: int = 4,
        d_ff: int = 2048,
        max_seq_len: int = 5000,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(src_vocab_size, tgt_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)


@misconception(replaces=MODEL, caught_by="test_defaults")
def defaults_of_the_classifier() -> dict[str, Any]:
    """The model's sizes are others than the contract's where the caller does not give them.

    The defaults are those of the paper of 2017: 512 wide, 8 heads, 6 layers, 2048 in the feed-forward, and 5000
    positions.

    Which numbers stand in the signature of the stub?
    """
    return whole(model=DefaultsOfTheClassifier)


class ShorterByDefault(Model):
    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        d_model: int = 512,
        n_heads: int = 8,
        n_layers: int = 6,
        d_ff: int = 2048,
        max_seq_len: int = 100,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(src_vocab_size, tgt_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)


@misconception(replaces=MODEL, caught_by="test_defaults")
def shorter_by_default() -> dict[str, Any]:
    """The model has tables for fewer than 5000 positions where the caller does not give a length.

    The contract's default is `max_seq_len=5000`.

    Which numbers stand in the signature of the stub?
    """
    return whole(model=ShorterByDefault)


# --- greedy_translate -------------------------------------------------------------------------------------------------


class Loop:
    """The reference's loop in pieces. An instance is a function."""

    def __call__(
        self,
        model: nn.Module,
        src: Tensor,
        bos_id: int,
        eos_id: int,
        max_new_tokens: int,
        src_mask: Tensor | None = None,
    ) -> Tensor:
        was_training = model.training
        self.begin(model)
        ids = torch.full((len(src), 1), bos_id, dtype=torch.int64, device=src.device)
        ended = self.ended_at_first(ids, eos_id)
        with torch.no_grad():
            for _step in range(max_new_tokens):
                next_ids = self.fill(self.choose(self.logits(model, src, ids, src_mask)), ended, eos_id)
                ended = ended | (next_ids == eos_id)
                ids = torch.cat([ids, next_ids], dim=1)
                if self.is_over(ended):
                    break
        self.end(model, was_training)
        return self.give(ids)

    def begin(self, model: nn.Module) -> None:
        model.eval()

    def end(self, model: nn.Module, was_training: bool) -> None:
        model.train(was_training)

    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return torch.zeros_like(ids, dtype=torch.bool)

    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids, src_mask=src_mask)[:, -1]

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, eos_id)

    def is_over(self, ended: Tensor) -> bool:
        return False

    def give(self, ids: Tensor) -> Tensor:
        return ids


class BosNotInTheResult(Loop):
    def give(self, ids: Tensor) -> Tensor:
        return ids[:, 1:]


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def bos_not_in_the_result() -> dict[str, Any]:
    """The result begins with the first word that was written, without `bos_id`.

    It has 1 + max_new_tokens columns, and the first one holds `bos_id`.

    What does the decoder read at the very first step, and where does it stand in the result?
    """
    return {"greedy_translate": BosNotInTheResult()}


class RowsGoOnAfterEos(Loop):
    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids


@misconception(replaces=("greedy_translate",), caught_by="test_rows_end_by_themselves")
def rows_go_on_after_eos() -> dict[str, Any]:
    """Rows went on after their first `eos_id`.

    What follows the end of a sentence is no translation.

    How does your loop remember which rows have ended?
    """
    return {"greedy_translate": RowsGoOnAfterEos()}


class StopsWithTheFirstRow(Loop):
    def is_over(self, ended: Tensor) -> bool:
        return bool(ended.any())


@misconception(replaces=("greedy_translate",), caught_by="test_rows_end_by_themselves")
def stops_with_the_first_row() -> dict[str, Any]:
    """The loop stopped when the first row ended.

    The other rows then end in the middle of their sentence.

    Which of `any` and `all` asks whether every row has ended?
    """
    return {"greedy_translate": StopsWithTheFirstRow()}


class StopsWhenAllHaveEnded(Loop):
    def is_over(self, ended: Tensor) -> bool:
        return bool(ended.all())


@misconception(replaces=("greedy_translate",), caught_by="test_rows_end_by_themselves")
def stops_when_all_have_ended() -> dict[str, Any]:
    """The loop stopped when all rows had ended, and the result is shorter for it.

    Stopping early is fine, but the shape should not depend on the text: the rest is filled with `eos_id`.

    How many columns does the result have in the contract?
    """
    return {"greedy_translate": StopsWhenAllHaveEnded()}


class EndedRowsFilledWithZero(Loop):
    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, 0)


@misconception(replaces=("greedy_translate",), caught_by="test_rows_end_by_themselves")
def ended_rows_filled_with_zero() -> dict[str, Any]:
    """Rows that had ended were filled with 0.

    Nobody said that 0 is padding; it may be a word. The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """
    return {"greedy_translate": EndedRowsFilledWithZero()}


class EndedRowsRepeatTheirBeginning(Loop):
    def __call__(self, model: nn.Module, src: Tensor, bos_id: int, eos_id: int, *given: Any, **named: Any) -> Tensor:
        self.bos_id = bos_id
        return super().__call__(model, src, bos_id, eos_id, *given, **named)

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, self.bos_id)


@misconception(replaces=("greedy_translate",), caught_by="test_rows_end_by_themselves")
def ended_rows_repeat_their_beginning() -> dict[str, Any]:
    """Rows that had ended were filled with `bos_id`, or with something else than `eos_id`.

    The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """
    return {"greedy_translate": EndedRowsRepeatTheirBeginning()}


class BosEndsARow(Loop):
    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return ids == eos_id


@misconception(replaces=("greedy_translate",), caught_by="test_rows_end_by_themselves")
def bos_ends_a_row() -> dict[str, Any]:
    """A first token that is `eos_id` ended its row.

    Some models begin with the very id that ends them. Only what was written can end a row.

    What does your loop do when `bos_id` equals `eos_id`?
    """
    return {"greedy_translate": BosEndsARow()}


class LogitsOfFirstPosition(Loop):
    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids, src_mask=src_mask)[:, 0]


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def logits_of_first_position() -> dict[str, Any]:
    """The logits of the first position were read.

    They say what follows `bos_id`, at every step the same. What is to be written follows the last word.

    Which position of `(B, t, V)` belongs to the last word?
    """
    return {"greedy_translate": LogitsOfFirstPosition()}


class OnlyLastTokenFed(Loop):
    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids[:, -1:], src_mask=src_mask)[:, -1]


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def only_last_token_fed() -> dict[str, Any]:
    """Only the last word was fed to the decoder.

    It then forgets all words before it, and takes each for the first.

    What does the decoder need to know to write word t?
    """
    return {"greedy_translate": OnlyLastTokenFed()}


class TargetFedAsSource(Loop):
    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(ids % 7, src % 7)[:, -1]


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def target_fed_as_source() -> dict[str, Any]:
    """The words written so far were handed over as the source, and the source as the target.

    The model takes the source first.

    In which order does the model's `forward` take source and target?
    """
    return {"greedy_translate": TargetFedAsSource()}


class DropoutOnWhileTranslating(Loop):
    def begin(self, model: nn.Module) -> None:
        pass


@misconception(replaces=("greedy_translate",), caught_by="test_translates_in_eval_mode")
def dropout_on_while_translating() -> dict[str, Any]:
    """The model was left in training mode while it translated.

    Dropout then changes the logits at random: the same source gets another translation each time.

    Which method of a module switches its dropout off?
    """
    return {"greedy_translate": DropoutOnWhileTranslating()}


class LeftInEvalMode(Loop):
    def end(self, model: nn.Module, was_training: bool) -> None:
        pass


@misconception(replaces=("greedy_translate",), caught_by="test_translates_in_eval_mode")
def left_in_eval_mode() -> dict[str, Any]:
    """The model was left in eval mode.

    Who trains on afterwards trains without dropout, and is not told.

    Which mode did the model have when it came, and which has it now?
    """
    return {"greedy_translate": LeftInEvalMode()}


class AlwaysPutInTrainingMode(Loop):
    def end(self, model: nn.Module, was_training: bool) -> None:
        model.train()


@misconception(replaces=("greedy_translate",), caught_by="test_translates_in_eval_mode")
def always_put_in_training_mode() -> dict[str, Any]:
    """The model was put in training mode at the end, whatever mode it had.

    Who evaluates afterwards evaluates with dropout, and is not told.

    Which mode did the model have when it came, and which has it now?
    """
    return {"greedy_translate": AlwaysPutInTrainingMode()}


class SrcMaskNotUsed(Loop):
    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids)[:, -1]


@misconception(replaces=("greedy_translate",), caught_by="test_padding_of_the_source")
def src_mask_not_used() -> dict[str, Any]:
    """`src_mask` was not handed to the model.

    The padding of the source then has a say in the translation.

    With which arguments do you call the model?
    """
    return {"greedy_translate": SrcMaskNotUsed()}


class SrcMaskGivenAsTgtMask(Loop):
    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids, tgt_mask=src_mask)[:, -1]


@misconception(replaces=("greedy_translate",), caught_by="test_padding_of_the_source")
def src_mask_given_as_tgt_mask() -> dict[str, Any]:
    """`src_mask` was handed to the model as `tgt_mask`.

    It speaks of the source's positions, not of the words that are written.

    In which order does the model's `forward` take its masks?
    """
    return {"greedy_translate": SrcMaskGivenAsTgtMask()}


class SampledNotGreedy(Loop):
    def choose(self, logits: Tensor) -> Tensor:
        return torch.multinomial(logits.softmax(dim=-1), num_samples=1)


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def sampled_not_greedy() -> dict[str, Any]:
    """Words were drawn from the softmax, and not taken by their logits.

    Greedy means the arg max: the same source always gets the same translation.

    Which function gives the place of the largest logit?
    """
    return {"greedy_translate": SampledNotGreedy()}


class SmallestLogitTaken(Loop):
    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmin(dim=-1, keepdim=True)


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def smallest_logit_taken() -> dict[str, Any]:
    """The word with the smallest logit was taken.

    The larger its logit, the likelier a word.

    Does your search end at the largest or at the smallest?
    """
    return {"greedy_translate": SmallestLogitTaken()}


class OneWordForAllRows(Loop):
    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)[:1].expand(len(logits), -1)


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def one_word_for_all_rows() -> dict[str, Any]:
    """All rows got the word that was chosen for the first, or for all together.

    Each row has logits of its own. With one row the mistake does not show.

    Along which dimension does your arg max run, and what is left of the batch?
    """
    return {"greedy_translate": OneWordForAllRows()}


class OneWordTooFew(Loop):
    def __call__(
        self,
        model: nn.Module,
        src: Tensor,
        bos_id: int,
        eos_id: int,
        max_new_tokens: int,
        src_mask: Tensor | None = None,
    ) -> Tensor:
        return super().__call__(model, src, bos_id, eos_id, max_new_tokens - 1, src_mask)


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def one_word_too_few() -> dict[str, Any]:
    """One word too few was written: `bos_id` was counted among the new ones.

    The result has 1 + max_new_tokens columns.

    How many times does your loop run?
    """
    return {"greedy_translate": OneWordTooFew()}


class OneWordTooManyRead(Loop):
    def __call__(
        self,
        model: nn.Module,
        src: Tensor,
        bos_id: int,
        eos_id: int,
        max_new_tokens: int,
        src_mask: Tensor | None = None,
    ) -> Tensor:
        return super().__call__(model, src, bos_id, eos_id, max_new_tokens + 1, src_mask)[:, :-1]


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def one_word_too_many_read() -> dict[str, Any]:
    """The decoder read one word more than it had to: the model was called once more at the end.

    With `max_new_tokens = max_seq_len` that is one more than it takes.

    How many words does the decoder have to read to write the last one?
    """
    return {"greedy_translate": OneWordTooManyRead()}


class EosNotWritten(Loop):
    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended | (next_ids == eos_id), 0)


@misconception(replaces=("greedy_translate",), caught_by="test_rows_end_by_themselves")
def eos_not_written() -> dict[str, Any]:
    """The `eos_id` that ends a row was left out, and 0 written from there on.

    The row's first `eos_id` belongs to it, and so do those after it.

    What stands in a row at the step at which it ends?
    """
    return {"greedy_translate": EosNotWritten()}


class IdsAsFloats(Loop):
    def give(self, ids: Tensor) -> Tensor:
        return ids.float()


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def ids_as_floats() -> dict[str, Any]:
    """The ids came back as float32.

    Ids are whole numbers, int64: an embedding takes nothing else.

    Which dtype do `torch.zeros` and `torch.ones` have unless they are told?
    """
    return {"greedy_translate": IdsAsFloats()}


class IdsMadeOnTheCpu(Loop):
    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return torch.zeros(len(ids), 1, dtype=torch.bool)


@misconception(replaces=("greedy_translate",), caught_by="test_greedy_takes_the_largest_logit")
def ids_made_on_the_cpu() -> dict[str, Any]:
    """A tensor of the loop was made without saying on which device.

    It lies on the CPU, wherever the source and the model are.

    Which tensor has the right device, so that a new one can be made like it?
    """
    return {"greedy_translate": IdsMadeOnTheCpu()}


# --- two at once ------------------------------------------------------------------------------------------------------

PAIRS = [
    *(
        Pair(first, second, whole(block=block, model=model))
        for first, block in ((pre_norm, PreNorm), (cross_attention_reads_the_target, CrossAttentionReadsTheTarget))
        for second, model in (
            (no_causal_mask, NoCausalMask),
            (target_positions_not_added, TargetPositionsNotAdded),
            (no_final_norm, NoFinalNorm),
        )
    ),
    *(
        Pair(first, second, whole(model=type("EncoderDecoderTransformer", (one, other), {})))
        for first, one in ((no_causal_mask, NoCausalMask),)
        for second, other in (
            (target_positions_not_added, TargetPositionsNotAdded),
            (no_final_norm, NoFinalNorm),
            (softmax_on_the_logits, SoftmaxOnTheLogits),
            (src_mask_does_not_reach_cross_attention, SrcMaskDoesNotReachCrossAttention),
        )
    ),
    *(
        Pair(first, second, {"greedy_translate": type("Both", (one, other), {})()})
        for first, one in ((rows_go_on_after_eos, RowsGoOnAfterEos), (bos_not_in_the_result, BosNotInTheResult))
        for second, other in (
            (dropout_on_while_translating, DropoutOnWhileTranslating),
            (left_in_eval_mode, LeftInEvalMode),
            (src_mask_not_used, SrcMaskNotUsed),
        )
        if (first, second) != (bos_not_in_the_result, left_in_eval_mode)  # the ids are refused before the mode is asked
    ),
]
