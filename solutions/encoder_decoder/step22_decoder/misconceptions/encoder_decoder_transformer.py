"""What learners get wrong in `EncoderDecoderTransformer`, each with the check that catches it."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step22_decoder.misconceptions.pieces import Model, whole

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
