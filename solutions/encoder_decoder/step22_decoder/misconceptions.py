"""What learners get wrong in step 22, each with the check that catches it.

A learner's model is made of the same learner's blocks. So what is wrong in `DecoderBlock` is wrong in the model, and
each misconception of the block replaces both.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import all_made_of, misconception, together
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.encoder_decoder.step21_encoder.reference import FeedForward
from solutions.encoder_decoder.step22_decoder import reference


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
        src_vocab_size,
        tgt_vocab_size,
        d_model=512,
        n_heads=8,
        n_layers=6,
        d_ff=2048,
        max_seq_len=5000,
        dropout=0.1,
    ):
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


whole = all_made_of({"DecoderBlock": Block, "EncoderDecoderTransformer": Model})


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
    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, tgt_mask, tgt_mask)


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

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.add_own(tgt, self.ask_itself(tgt, tgt_mask))
        return self.add_fed(self.ln2(x))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_self_attention(Block):
    """Self-attention was left out.

    Each word is then written without a look at the words before it.

    Which of the block's submodules does your `forward` never call?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = self.ln1(tgt)
        x = self.add_crossed(x, self.ask_source(x, encoder_output, src_mask))
        return self.add_fed(x)


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

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        x = tgt + self.dropout(self.ask_itself(self.ln1(tgt), tgt_mask))
        x = x + self.dropout(self.ask_source(self.ln2(x), encoder_output, src_mask))
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

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, src_mask, tgt_mask)


@misconception(replaces=whole, caught_by="test_block_hands_its_masks_on")
class block_ignores_tgt_mask(Block):
    """The block did not use `tgt_mask`.

    Self-attention then sees the words that are still to be written.

    How many arguments does your call of `self.self_attention` have?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, None, src_mask)


@misconception(replaces=whole, caught_by="test_block_hands_its_masks_on")
class block_ignores_src_mask(Block):
    """The block did not use `src_mask`.

    Cross attention then gathers from the padding of the source.

    How many arguments does your call of `self.cross_attention` have?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, tgt_mask, None)


@misconception(replaces=whole, caught_by="test_block_hands_its_masks_on")
class tgt_mask_in_both_attentions(Block):
    """`tgt_mask` was used in both attentions.

    The keys of cross attention are source positions, of which `tgt_mask` knows nothing.

    Whose positions are the keys in cross attention?
    """

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Any:
        return super().forward(tgt, encoder_output, tgt_mask, tgt_mask)


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


# --- block: dropout ---------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_behind_self_attention(Block):
    """Nothing was dropped of what self-attention adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln1`, where is the dropout?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_behind_cross_attention(Block):
    """Nothing was dropped of what cross attention adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln2`, where is the dropout?
    """

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + attended)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_behind_feed_forward(Block):
    """Nothing was dropped of what the feed-forward adds.

    Each of the three branches is dropped before it is added, whatever is dropped inside of it.

    In the contract's line with `ln3`, where is the dropout?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.feed_forward(x))


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_on_the_branches(Block):
    """Nothing was dropped of what the three branches add.

    Each of them is dropped before it is added, whatever is dropped inside of it.

    Where does your `forward` use the block's own dropout?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + attended)

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(x + self.feed_forward(x))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class block_drops_in_eval(Block):
    """The branches were dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + F.dropout(attended, self.dropout.p))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_sums(Block):
    """The dropout acts on the sums of stream and branch.

    Only what a branch adds is dropped. The stream itself has to get through whole.

    In `ln1(x + dropout(self-attention))`, where does the bracket of `dropout` end?
    """

    def add_own(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(self.dropout(x + attended))

    def add_crossed(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(self.dropout(x + attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln3(self.dropout(x + self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_the_attentions(Block):
    """The rate of dropout was not handed to the two attentions.

    They then keep their default of 0.1, whatever was asked for.

    Which arguments does the constructor of step 20's class take?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_feed_forward(Block):
    """The rate of dropout was not handed to the feed-forward.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of `FeedForward` take?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)


# --- model: the causal mask -------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class no_causal_mask(Model):
    """No causal mask was made: the target's words see each other freely.

    In training a word then reads off the next one instead of learning to predict it, and when it translates there is
    nothing to read off.

    When the word at position 3 is predicted, which words of the target may be seen?
    """

    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return mask


@misconception(replaces=whole, caught_by="test_causal_mask_is_made_inside")
class tgt_mask_replaces_the_causal_mask(Model):
    """A `tgt_mask` took the place of the causal mask, which was made only where none was given.

    Who hides the target's padding then opens the future.

    What should hold when the caller gives a mask: one of the two, or both?
    """

    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal if mask is None else mask


@misconception(replaces=whole, caught_by="test_causal_mask_is_made_inside")
class masks_joined_by_or(Model):
    """The causal mask and `tgt_mask` were joined by "or".

    What either of them shows is then seen. It should be seen only where both show it.

    When True means "may attend", which of `&` and `|` hides more?
    """

    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal if mask is None else causal | mask


@misconception(replaces=whole, caught_by="test_masks_reach_every_block")
class tgt_mask_ignored(Model):
    """`tgt_mask` was not used.

    The padding of the target then gets weight like real words.

    What does your code do when `tgt_mask` is not None?
    """

    def join(self, causal: Tensor, mask: Tensor | None) -> Tensor | None:
        return causal


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class causal_mask_turned(Model):
    """The causal mask is upside down: each word sees itself and the later ones.

    A word may look back, not ahead: in row i the columns up to i are True.

    In `(T_q, T_k)`, which triangle holds the earlier keys?
    """

    def causal(self, tgt: Tensor) -> Tensor:
        return super().causal(tgt).T


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class own_word_hidden(Model):
    """The causal mask hides a word from itself too.

    The first word then sees nothing, and its weights are NaN. The word that is read is known; it is the next one that
    is predicted.

    Which number stands behind the comma in your `tril` or `triu`, and what does it move?
    """

    def causal(self, tgt: Tensor) -> Tensor:
        return super().causal(tgt).tril(-1)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class one_word_ahead(Model):
    """The causal mask also shows the next word.

    That is the very word that is to be predicted.

    Which number stands behind the comma in your `tril` or `triu`, and what does it move?
    """

    def causal(self, tgt: Tensor) -> Tensor:
        return torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril(1)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class causal_mask_for_first_block_only(Model):
    """Only the first decoder block got the causal mask.

    From the second block on words see their future.

    With which arguments does your loop call each block?
    """

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for layer, block in enumerate(self.decoder_blocks):
            x = block(x, encoded, visible if layer == 0 else None, src_mask)
        return x


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class causal_mask_in_the_encoder(Model):
    """The encoder was given a causal mask, too.

    The source is there as a whole from the beginning: each of its words may see all the others.

    Which of the two sequences is still to be written?
    """

    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        causal = self.causal(src)
        return super().encode(src, causal if mask is None else causal & mask)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class causal_mask_in_cross_attention(Model):
    """Cross attention was given a causal mask, too: word i of the target sees the source only up to position i.

    The source is there as a whole from the beginning, and its order need not be the target's.

    Which of the two sequences is still to be written?
    """

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        causal = torch.ones(x.shape[1], encoded.shape[1], dtype=torch.bool, device=x.device).tril()
        return super().decode(x, encoded, visible, causal if src_mask is None else causal & src_mask)


@misconception(replaces=whole, caught_by="test_dtypes_and_device")
class causal_mask_on_the_cpu(Model):
    """The causal mask was made without saying on which device.

    It lies on the CPU, wherever the module and its ids are.

    Which tensor has the right device, so that a new one can be made like it?
    """

    def causal(self, tgt: Tensor) -> Tensor:
        return torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()


# --- model: the source ------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_masks_reach_every_block")
class src_mask_does_not_reach_cross_attention(Model):
    """`src_mask` was not handed to the decoder's blocks.

    The encoder keeps padding out, and then cross attention gathers from the padding's outputs.

    With which arguments does your loop call each decoder block?
    """

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        return super().decode(x, encoded, visible, None)


@misconception(replaces=whole, caught_by="test_masks_reach_every_block")
class src_mask_does_not_reach_the_encoder(Model):
    """`src_mask` was not handed to the encoder.

    Real words then gather from padding in the encoder, and bring it along.

    With which arguments do you call the encoder?
    """

    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return super().encode(src, None)


@misconception(replaces=whole, caught_by="test_masks_reach_every_block")
class src_mask_for_first_block_only(Model):
    """Only the first decoder block got `src_mask`.

    From the second block on cross attention gathers from padding.

    With which arguments does your loop call each block?
    """

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for layer, block in enumerate(self.decoder_blocks):
            x = block(x, encoded, visible, src_mask if layer == 0 else None)
        return x


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class masks_of_the_model_exchanged(Model):
    """The model exchanged the masks: the decoder's blocks got `src_mask` for the target and the target's for the
    source.

    Each attention needs the mask of the positions that are its keys.

    In which order does `DecoderBlock` take its masks?
    """

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        return super().decode(x, encoded, src_mask, visible)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class decoder_reads_the_embeddings(Model):
    """Cross attention read the source's embeddings, and not what the encoder gave.

    The encoder's blocks then do nothing at all.

    Which of the encoder's two results goes to the decoder?
    """

    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return self.encoder.token_embedding(src)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class encoder_normed_once_more(Model):
    """What the encoder gave passed `ln_final` once more.

    The encoder has a final norm of its own; the model's belongs to the decoder.

    Whose output does the model's `ln_final` act on?
    """

    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return self.ln_final(super().encode(src, mask))


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class target_through_the_encoders_embedding(Model):
    """The target was embedded with the encoder's token embedding.

    The two languages have vocabularies of their own: id 5 is another word in each.

    Which embedding has `tgt_vocab_size` rows?
    """

    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.encoder.token_embedding(tgt) + self.positions(tgt))


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class positions_of_the_encoder(Model):
    """The target's positions were taken from the encoder's table.

    The decoder has a table of its own, with weights of its own.

    Which table belongs to the target?
    """

    def positions(self, tgt: Tensor) -> Tensor:
        return self.encoder.position_embedding(torch.arange(tgt.shape[1], device=tgt.device))


# --- model: the target and the logits ---------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class target_positions_not_added(Model):
    """The target's position embedding was not added.

    The causal mask tells a little about the order, but not where a word stands.

    How could the decoder know that the same word stands first here and last there?
    """

    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.decoder_embedding(tgt))


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class target_positions_from_one(Model):
    """The target's positions were counted from 1.

    The rows of the table belong to the positions 0 … max_seq_len - 1: a full target asks for one that is not there.

    Which row belongs to the first word?
    """

    def positions(self, tgt: Tensor) -> Tensor:
        return self.decoder_pos_embedding(torch.arange(1, tgt.shape[1] + 1, device=tgt.device))


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class target_embeddings_scaled(Model):
    """The target's embeddings were multiplied by the root of `d_model`.

    The paper does so, because it ties them to the output. Here they are added as they are.

    What does the contract say of the decoder's input?
    """

    def embed(self, tgt: Tensor) -> Tensor:
        scaled = self.decoder_embedding(tgt) * math.sqrt(self.decoder_embedding.embedding_dim)
        return self.dropout(scaled + self.positions(tgt))


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class no_final_norm(Model):
    """`ln_final` was not applied.

    The blocks end in a norm as well, so it hardly shows at first; but this one has weights of its own.

    Which of the model's submodules does your `forward` never call?
    """

    def finish(self, x: Tensor) -> Tensor:
        return self.output_projection(x)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class softmax_on_the_logits(Model):
    """A softmax was applied to the logits.

    The class gives logits; the loss takes its softmax by itself.

    Which function does `F.cross_entropy` apply to its input first?
    """

    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x).softmax(dim=-1)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class log_softmax_on_the_logits(Model):
    """A log-softmax was applied to the logits.

    The class gives logits; the loss takes its softmax by itself.

    Which function does `F.cross_entropy` apply to its input first?
    """

    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x).log_softmax(dim=-1)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class last_logits_only(Model):
    """Only the logits of the last position were returned.

    In training every position is a question of its own; it is for the greedy loop to pick the last.

    Which shape does the contract give the logits?
    """

    def finish(self, x: Tensor) -> Tensor:
        return super().finish(x[:, -1:])


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class target_shifted_inside(Model):
    """The model shifted the target: it put a first word of its own in front and left the last one out.

    The caller has done that already. `tgt` is what the decoder reads.

    In the contract, which logits belong to the word at position t?
    """

    def embed(self, tgt: Tensor) -> Tensor:
        return super().embed(torch.cat([torch.zeros_like(tgt[:, :1]), tgt[:, :-1]], dim=1))


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class output_without_bias(Model):
    """`output_projection` was made without a bias.

    The contract's has one: a state dict does not fit otherwise.

    What is the default of `nn.Linear`, and what did you tell it?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        layer = self.output_projection
        self.output_projection = nn.Linear(layer.in_features, layer.out_features, bias=False)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class output_tied_to_the_embedding(Model):
    """`output_projection` shares its weight with the decoder's embedding.

    Some models tie them. In this contract parameters of two names are two parameters.

    What does the contract say of parameters that carry two names?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.output_projection.weight = self.decoder_embedding.weight


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class one_block_many_times(Model):
    """One decoder block was made, and the list holds the same one again and again.

    The layers then share their weights. `n_layers` blocks have weights of their own each.

    How many times does your code call the constructor of the block?
    """

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList([self.made_of(*given)] * n_layers)


@misconception(replaces=whole, caught_by="test_model_agrees_with_fresh_draws")
class last_block_left_out(Model):
    """The last decoder block was left out.

    There are `n_layers` blocks, and all of them count.

    Where does your loop end?
    """

    def decode(self, x: Tensor, encoded: Tensor, visible: Tensor | None, src_mask: Tensor | None) -> Tensor:
        for block in list(self.decoder_blocks)[:-1]:
            x = block(x, encoded, visible, src_mask)
        return x


@misconception(replaces=whole, caught_by="test_too_long_is_an_error")
class long_targets_wrap(Model):
    """A target that is longer than `max_seq_len` was accepted: its positions begin again at 0.

    Two words then have one position, and nobody is told.

    What should happen when there are more words than rows?
    """

    def positions(self, tgt: Tensor) -> Tensor:
        table = self.decoder_pos_embedding
        return table(torch.arange(tgt.shape[1], device=tgt.device) % table.num_embeddings)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        self.max_seq_len = tgt.shape[1]
        return super().forward(src, tgt, src_mask, tgt_mask)


@misconception(replaces=whole, caught_by="test_too_long_is_an_error")
class long_sources_cut(Model):
    """A source that is longer than `max_seq_len` was accepted: its end was cut off.

    The end of the text is then missing in the translation, and nobody is told.

    What should happen when there are more words than rows?
    """

    def encode(self, src: Tensor, mask: Tensor | None) -> Tensor:
        return super().encode(src[:, : self.max_seq_len], mask)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_on_target_embeddings(Model):
    """Nothing was dropped of the sum of the target's embeddings.

    The contract names it: dropout on the sum, then the blocks.

    Where does your `forward` use the model's own dropout?
    """

    def embed(self, tgt: Tensor) -> Tensor:
        return self.decoder_embedding(tgt) + self.positions(tgt)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_target_tokens_alone(Model):
    """The target's token embeddings were dropped before the positions were added.

    The contract drops from the sum. So a dropped number loses its position, too.

    What does the bracket of your dropout hold?
    """

    def embed(self, tgt: Tensor) -> Tensor:
        return self.dropout(self.decoder_embedding(tgt)) + self.positions(tgt)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_the_decoder_blocks(Model):
    """The rate of dropout was not handed to the decoder's blocks.

    They then keep their default of 0.1, whatever was asked for.

    Which arguments does the constructor of `DecoderBlock` take?
    """

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return super().blocks(n_layers, *given[:-1])


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_the_encoder(Model):
    """The rate of dropout was not handed to the encoder.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of `SimpleTransformer` take?
    """

    def __init__(self, src_vocab_size: int, *given: Any, **named: Any) -> None:
        super().__init__(src_vocab_size, *given, **named)
        for part in self.encoder.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.1


@misconception(replaces=whole, caught_by="test_defaults")
class defaults_of_the_classifier(Model):
    """The model's sizes are others than the contract's where the caller does not give them.

    The defaults are those of the paper of 2017: 512 wide, 8 heads, 6 layers, 2048 in the feed-forward, and 5000
    positions.

    Which numbers stand in the signature of the stub?
    """

    def __init__(
        self,
        src_vocab_size,
        tgt_vocab_size,
        d_model=256,
        n_heads=8,
        n_layers=4,
        d_ff=2048,
        max_seq_len=5000,
        dropout=0.1,
    ):
        super().__init__(src_vocab_size, tgt_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)


@misconception(replaces=whole, caught_by="test_defaults")
class shorter_by_default(Model):
    """The model has tables for fewer than 5000 positions where the caller does not give a length.

    The contract's default is `max_seq_len=5000`.

    Which numbers stand in the signature of the stub?
    """

    def __init__(
        self,
        src_vocab_size,
        tgt_vocab_size,
        d_model=512,
        n_heads=8,
        n_layers=6,
        d_ff=2048,
        max_seq_len=100,
        dropout=0.1,
    ):
        super().__init__(src_vocab_size, tgt_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)


# --- greedy_translate -------------------------------------------------------------------------------------------------


class Loop:
    """The reference's loop in pieces. An instance is a function."""

    def __call__(self, model, src, bos_id, eos_id, max_new_tokens, src_mask=None) -> Tensor:
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

    def ask(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids, src_mask=src_mask)

    def logits(self, *given: Any) -> Tensor:
        return self.ask(*given)[:, -1]

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, eos_id)

    def is_over(self, ended: Tensor) -> bool:
        return False

    def give(self, ids: Tensor) -> Tensor:
        return ids


def loop(*parts: type) -> dict[str, Any]:
    """The loop in which these pieces are wrong."""
    return {"greedy_translate": type("Loop", parts, {})()}


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class bos_not_in_the_result(Loop):
    """The result begins with the first word that was written, without `bos_id`.

    It has 1 + max_new_tokens columns, and the first one holds `bos_id`.

    What does the decoder read at the very first step, and where does it stand in the result?
    """

    def give(self, ids: Tensor) -> Tensor:
        return ids[:, 1:]


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class rows_go_on_after_eos(Loop):
    """Rows went on after their first `eos_id`.

    What follows the end of a sentence is no translation.

    How does your loop remember which rows have ended?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_with_the_first_row(Loop):
    """The loop stopped when the first row ended.

    The other rows then end in the middle of their sentence.

    Which of `any` and `all` asks whether every row has ended?
    """

    def is_over(self, ended: Tensor) -> bool:
        return bool(ended.any())


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class one_ended_row_ends_all(Loop):
    """As soon as one row had ended, all rows were filled with `eos_id`.

    The other sentences are not at their end yet. Each row ends by itself.

    How many booleans does your loop keep, one or one per row?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return torch.full_like(next_ids, eos_id) if bool(ended.any()) else next_ids


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class row_0_ends_all(one_ended_row_ends_all):
    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return torch.full_like(next_ids, eos_id) if bool(ended[0]) else next_ids.masked_fill(ended, eos_id)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_when_all_have_ended(Loop):
    """The loop stopped when all rows had ended, and the result is shorter for it.

    Stopping early is fine, but the shape should not depend on the text: the rest is filled with `eos_id`.

    How many columns does the result have in the contract?
    """

    def is_over(self, ended: Tensor) -> bool:
        return bool(ended.all())


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_filled_with_zero(Loop):
    """Rows that had ended were filled with 0.

    Nobody said that 0 is padding; it may be a word. The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, 0)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_repeat_their_beginning(Loop):
    """Rows that had ended were filled with `bos_id`, or with something else than `eos_id`.

    The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """

    def __call__(self, model: nn.Module, src: Tensor, bos_id: int, eos_id: int, *given: Any, **named: Any) -> Tensor:
        self.bos_id = bos_id
        return super().__call__(model, src, bos_id, eos_id, *given, **named)

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, self.bos_id)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class bos_ends_a_row(Loop):
    """A first token that is `eos_id` ended its row.

    Some models begin with the very id that ends them. Only what was written can end a row.

    What does your loop do when `bos_id` equals `eos_id`?
    """

    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return ids == eos_id


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class logits_of_first_position(Loop):
    """The logits of the first position were read.

    They say what follows `bos_id`, at every step the same. What is to be written follows the last word.

    Which position of `(B, t, V)` belongs to the last word?
    """

    def logits(self, *given: Any) -> Tensor:
        return self.ask(*given)[:, 0]


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class only_last_token_fed(Loop):
    """Only the last word was fed to the decoder.

    It then forgets all words before it, and takes each for the first.

    What does the decoder need to know to write word t?
    """

    def ask(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return super().ask(model, src, ids[:, -1:], src_mask)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class target_fed_as_source(Loop):
    """The words written so far were handed over as the source, and the source as the target.

    The model takes the source first.

    In which order does the model's `forward` take source and target?
    """

    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(ids % 7, src % 7)[:, -1]


@misconception(replaces=loop, caught_by="test_translates_in_eval_mode")
class dropout_on_while_translating(Loop):
    """The model was left in training mode while it translated.

    Dropout then changes the logits at random: the same source gets another translation each time.

    Which method of a module switches its dropout off?
    """

    def begin(self, model: nn.Module) -> None:
        pass


@misconception(replaces=loop, caught_by="test_translates_in_eval_mode")
class left_in_eval_mode(Loop):
    """The model was left in eval mode.

    Who trains on afterwards trains without dropout, and is not told.

    Which mode did the model have when it came, and which has it now?
    """

    def end(self, model: nn.Module, was_training: bool) -> None:
        pass


@misconception(replaces=loop, caught_by="test_translates_in_eval_mode")
class always_put_in_training_mode(Loop):
    """The model was put in training mode at the end, whatever mode it had.

    Who evaluates afterwards evaluates with dropout, and is not told.

    Which mode did the model have when it came, and which has it now?
    """

    def end(self, model: nn.Module, was_training: bool) -> None:
        model.train()


@misconception(replaces=loop, caught_by="test_padding_of_the_source")
class src_mask_not_used(Loop):
    """`src_mask` was not handed to the model.

    The padding of the source then has a say in the translation.

    With which arguments do you call the model?
    """

    def ask(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return super().ask(model, src, ids, None)


@misconception(replaces=loop, caught_by="test_padding_of_the_source")
class src_mask_given_as_tgt_mask(Loop):
    """`src_mask` was handed to the model as `tgt_mask`.

    It speaks of the source's positions, not of the words that are written.

    In which order does the model's `forward` take its masks?
    """

    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids, tgt_mask=src_mask)[:, -1]


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class sampled_not_greedy(Loop):
    """Words were drawn from the softmax, and not taken by their logits.

    Greedy means the arg max: the same source always gets the same translation.

    Which function gives the place of the largest logit?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return torch.multinomial(logits.softmax(dim=-1), num_samples=1)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class smallest_logit_taken(Loop):
    """The word with the smallest logit was taken.

    The larger its logit, the likelier a word.

    Does your search end at the largest or at the smallest?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmin(dim=-1, keepdim=True)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_for_all_rows(Loop):
    """All rows got the word that was chosen for the first, or for all together.

    Each row has logits of its own. With one row the mistake does not show.

    Along which dimension does your arg max run, and what is left of the batch?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)[:1].expand(len(logits), -1)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_few(Loop):
    """One word too few was written: `bos_id` was counted among the new ones.

    The result has 1 + max_new_tokens columns.

    How many times does your loop run?
    """

    def __call__(self, model, src, bos_id, eos_id, max_new_tokens, src_mask=None) -> Tensor:
        return super().__call__(model, src, bos_id, eos_id, max_new_tokens - 1, src_mask)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_many_read(Loop):
    """The decoder read one word more than it had to: the model was called once more at the end.

    With `max_new_tokens = max_seq_len` that is one more than it takes.

    How many words does the decoder have to read to write the last one?
    """

    def __call__(self, model, src, bos_id, eos_id, max_new_tokens, src_mask=None) -> Tensor:
        return super().__call__(model, src, bos_id, eos_id, max_new_tokens + 1, src_mask)[:, :-1]


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class eos_not_written(Loop):
    """The `eos_id` that ends a row was left out, and 0 written from there on.

    The row's first `eos_id` belongs to it, and so do those after it.

    What stands in a row at the step at which it ends?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended | (next_ids == eos_id), 0)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_as_floats(Loop):
    """The ids came back as float32.

    Ids are whole numbers, int64: an embedding takes nothing else.

    Which dtype do `torch.zeros` and `torch.ones` have unless they are told?
    """

    def give(self, ids: Tensor) -> Tensor:
        return ids.float()


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_made_on_the_cpu(Loop):
    """A tensor of the loop was made without saying on which device.

    It lies on the CPU, wherever the source and the model are.

    Which tensor has the right device, so that a new one can be made like it?
    """

    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return torch.zeros(len(ids), 1, dtype=torch.bool)


# --- two at once ------------------------------------------------------------------------------------------------------

PAIRS = [
    *together(
        (pre_norm, cross_attention_reads_the_target), (no_causal_mask, target_positions_not_added, no_final_norm)
    ),
    *together(
        (no_causal_mask,),
        (target_positions_not_added, no_final_norm, softmax_on_the_logits, src_mask_does_not_reach_cross_attention),
    ),
    *together((rows_go_on_after_eos,), (dropout_on_while_translating, left_in_eval_mode, src_mask_not_used)),
    *together((bos_not_in_the_result,), (dropout_on_while_translating, src_mask_not_used)),
]
