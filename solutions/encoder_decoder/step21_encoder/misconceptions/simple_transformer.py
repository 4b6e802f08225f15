"""What learners get wrong in `SimpleTransformer`, each with the check that catches it."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.encoder_decoder.step21_encoder.misconceptions.pieces import Encoder, whole


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class positions_not_added(Encoder):
    """The position embedding was not added.

    Attention sums values whatever their order. Without positions a sentence is a bag of words.

    How could the encoder know that the same word stands first here and last there?
    """

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.token_embedding(ids))


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class positions_from_one(Encoder):
    """The positions were counted from 1.

    The rows of the table belong to the positions 0 … max_seq_len - 1: the first is then never used, and a full sequence
    asks for one that is not there.

    Which row belongs to the first token?
    """

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.arange(1, ids.shape[1] + 1, device=ids.device))


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class positions_count_the_batch(Encoder):
    """The positions count the sequences of the batch, not the tokens.

    All tokens of a sequence then have one position, another in each sequence.

    Which dimension of the ids counts the tokens?
    """

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.arange(len(ids), device=ids.device) % self.max_seq_len)[:, None]


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class every_position_the_last(Encoder):
    """Every token was given the embedding of one position, the first or the last.

    Then all are alike again. Each position has a row of its own.

    Which function gives the numbers 0, 1, …, T - 1?
    """

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.full_like(ids[0], ids.shape[1] - 1))


@another_form(every_position_the_last)
class every_position_the_first(Encoder):
    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.zeros_like(ids[0]))


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class embeddings_scaled(Encoder):
    """The token embeddings were multiplied by the root of `d_model`.

    The paper does so, because it ties them to the output. Here they are added as they are.

    What does the contract say in brackets behind "token plus position"?
    """

    def embed(self, ids: Tensor) -> Tensor:
        tokens = self.token_embedding(ids) * math.sqrt(self.token_embedding.embedding_dim)
        return self.dropout(tokens + self.positions(ids))


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class sum_of_embeddings_scaled(embeddings_scaled):
    def embed(self, ids: Tensor) -> Tensor:
        return Encoder.embed(self, ids) * math.sqrt(self.token_embedding.embedding_dim)


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class no_final_norm(Encoder):
    """`ln_final` was not applied.

    The blocks end in a norm as well, so it hardly shows at first; but this one has weights of its own.

    Which of the encoder's submodules does your `forward` never call?
    """

    def finish(self, stream: Tensor) -> Tensor:
        return stream


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class norm_before_the_blocks(Encoder):
    """`ln_final` was applied to the embeddings, before the blocks.

    It is there for the output of the last one.

    What does "final" speak of?
    """

    def embed(self, ids: Tensor) -> Tensor:
        return self.ln_final(super().embed(ids))

    def finish(self, stream: Tensor) -> Tensor:
        return stream


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class norm_behind_every_block(Encoder):
    """`ln_final` was applied behind every block.

    The blocks have norms of their own. This one stands once, at the end.

    Is the line with `ln_final` inside your loop?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(x.shape[1])
        stream, all_weights = self.embed(x), []
        for block in self.transformer_blocks:
            stream, weights = block(stream, mask)
            stream = self.ln_final(stream)
            all_weights.append(weights)
        return stream, all_weights


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class only_last_weights(Encoder):
    """Only the weights of the last block were returned.

    Each block looks at the sentence in its own way; the weights of all of them are wanted.

    What is left of the variable after the loop, and what was in it before?
    """

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, weights[-1]


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class only_last_weights_in_a_list(only_last_weights):
    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, weights[-1:]


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class weights_stacked(Encoder):
    """The weights of all blocks were stacked into one tensor.

    The contract wants a list, with the `(B, H, T, T)` of each block.

    What does `torch.stack` make of a list?
    """

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, torch.stack(weights)


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class weights_stacked_behind_the_batch(weights_stacked):
    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, torch.stack(weights, dim=1)


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class weights_concatenated(weights_stacked):
    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, torch.cat(weights)


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class encoder_weights_averaged(Encoder):
    """The encoder averaged each block's weights over the heads.

    The weights of every head are wanted, `(B, H, T, T)`.

    Which dimension is missing in your weights?
    """

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, [of_block.mean(dim=1) for of_block in weights]


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class weights_in_reverse(Encoder):
    """The weights of the last block came first in the list.

    The list follows the blocks, from the first to the last.

    At which end of the list does your loop put each block's weights?
    """

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, weights[::-1]


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class encoder_gives_the_output_alone(Encoder):
    """The encoder returned its output without the weights.

    The pair is (output, weights): pictures of attention are made of the latter.

    How many values does the contract's arrow give?
    """

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output


@misconception(replaces=whole, caught_by="test_mask_reaches_every_block")
class mask_for_first_block_only(Encoder):
    """Only the first block was given the mask.

    From the second block on padding then gets weight like real words.

    With which arguments does your loop call each block?
    """

    def mask_of(self, layer: int, mask: Tensor | None) -> Tensor | None:
        return mask if layer == 0 else None


@misconception(replaces=whole, caught_by="test_mask_reaches_every_block")
class mask_for_last_block_only(Encoder):
    """Only the last block was given the mask.

    In the blocks before it padding gets weight like real words, and what it says is handed on.

    With which arguments does your loop call each block?
    """

    def mask_of(self, layer: int, mask: Tensor | None) -> Tensor | None:
        return mask if layer == len(self.transformer_blocks) - 1 else None


@misconception(replaces=whole, caught_by="test_mask_reaches_every_block")
class encoder_ignores_its_mask(Encoder):
    """The mask was not handed to the blocks.

    Padding then gets weight like real words.

    With which arguments does your loop call each block?
    """

    def mask_of(self, layer: int, mask: Tensor | None) -> Tensor | None:
        return None


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class one_block_many_times(Encoder):
    """One block was made, and the list holds the same one again and again.

    The layers then share their weights. `n_layers` blocks have weights of their own each.

    How many times does your code call the constructor of the block?
    """

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        block = self.made_of(*given)
        return nn.ModuleList([block] * n_layers)


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class first_block_many_times(Encoder):
    """The first block was applied again and again, and the others never.

    Each layer has weights of its own.

    Which block does your loop call in its second turn?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(x.shape[1])
        stream, all_weights = self.embed(x), []
        for _block in self.transformer_blocks:
            stream, weights = self.transformer_blocks[0](stream, mask)
            all_weights.append(weights)
        return self.finish(stream), all_weights


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class last_block_left_out(Encoder):
    """The last block was left out.

    There are `n_layers` blocks, and all of them count.

    Where does your loop end?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(x.shape[1])
        stream, all_weights = self.embed(x), []
        for block in list(self.transformer_blocks)[:-1]:
            stream, weights = block(stream, mask)
            all_weights.append(weights)
        return self.finish(stream), all_weights


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class blocks_read_the_embeddings(Encoder):
    """Every block read the embeddings, and not what the block before it gave.

    Then only the last one counts. Blocks in a row build on each other.

    Which variable does your loop hand to the next block?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(x.shape[1])
        embedded, all_weights = self.embed(x), []
        for block in self.transformer_blocks:
            stream, weights = block(embedded, mask)
            all_weights.append(weights)
        return self.finish(stream), all_weights


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class residual_around_the_blocks(Encoder):
    """What a block gives was added to what it read.

    The residuals are inside of the block, around its branches. What it returns is the stream already.

    What does the line in your loop do with the block's output?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(x.shape[1])
        stream, all_weights = self.embed(x), []
        for block in self.transformer_blocks:
            given, weights = block(stream, mask)
            stream = stream + given
            all_weights.append(weights)
        return self.finish(stream), all_weights


@misconception(replaces=whole, caught_by="test_encoder_agrees_with_fresh_draws")
class blocks_in_a_plain_list(Encoder):
    """The blocks were kept in a plain Python list.

    A module does not look into lists: no optimiser finds their parameters, and no state dict holds them.

    Which container of `torch.nn` is a list whose modules are found?
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        blocks = list(self.transformer_blocks)
        del self.transformer_blocks
        self.transformer_blocks = blocks


@misconception(replaces=whole, caught_by="test_too_long_is_an_error")
class long_sequences_wrap(Encoder):
    """A sequence that is longer than `max_seq_len` was accepted: some of its tokens share a position.

    Two tokens then have one position, and nobody is told.

    What should happen when there are more tokens than rows?
    """

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(
            torch.arange(ids.shape[1], device=ids.device) % self.position_embedding.num_embeddings
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        self.max_seq_len = x.shape[1]
        return super().forward(x, mask)


@misconception(replaces=whole, caught_by="test_too_long_is_an_error")
class long_sequences_cut(Encoder):
    """A sequence that is longer than `max_seq_len` was accepted: its end was cut off.

    The end of the text is then missing, and nobody is told.

    What should happen when there are more tokens than rows?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return super().forward(x[:, : self.max_seq_len], mask)


@misconception(replaces=whole, caught_by="test_dtypes_and_device")
class positions_made_on_the_cpu(Encoder):
    """The positions were made without saying on which device.

    They lie on the CPU, wherever the module and its ids are.

    Which tensor has the right device, so that `torch.arange` can be told?
    """

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.arange(ids.shape[1]))


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_on_embeddings(Encoder):
    """Nothing was dropped of the sum of the embeddings.

    The contract names it: dropout on the sum, then the blocks.

    Where does your `forward` use the encoder's own dropout?
    """

    def embed(self, ids: Tensor) -> Tensor:
        return self.token_embedding(ids) + self.positions(ids)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_tokens_alone(Encoder):
    """The token embeddings were dropped before the positions were added.

    The contract drops from the sum. So a dropped number loses its position, too.

    What does the bracket of your dropout hold?
    """

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.token_embedding(ids)) + self.positions(ids)


@misconception(replaces=whole, caught_by="test_dropout")
class each_embedding_dropped(Encoder):
    """Token and position embeddings were dropped each by itself, and then added.

    The contract drops from the sum. So a dropped number loses its position, too.

    What does the bracket of your dropout hold?
    """

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.token_embedding(ids)) + self.dropout(self.positions(ids))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_the_blocks(Encoder):
    """The rate of dropout was not handed to the blocks.

    They then keep their default of 0.1, whatever was asked for.

    Which arguments does the constructor of `TransformerBlock` take?
    """

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return super().blocks(n_layers, *given[:-1])


@misconception(replaces=whole, caught_by="test_defaults")
class defaults_of_bert(Encoder):
    """The encoder's sizes are others than the contract's where the caller does not give them.

    The defaults are those of the paper of 2017: 512 wide, 8 heads, 6 layers, 2048 in the feed-forward, and 5000
    positions.

    Which numbers stand in the signature of the stub?
    """

    def __init__(self, vocab_size, d_model=768, n_heads=12, n_layers=12, d_ff=3072, max_seq_len=512, dropout=0.1):
        super().__init__(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)


@misconception(replaces=whole, caught_by="test_defaults")
class shorter_by_default(Encoder):
    """The encoder has a table for 512 positions where the caller does not give a length.

    The contract's default is `max_seq_len=5000`.

    Which numbers stand in the signature of the stub?
    """

    def __init__(self, vocab_size, d_model=512, n_heads=8, n_layers=6, d_ff=2048, max_seq_len=512, dropout=0.1):
        super().__init__(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)


@misconception(replaces=whole, caught_by="test_defaults")
class heads_of_another_number(Encoder):
    """The encoder has another number of heads than 8 where the caller does not give one.

    The parameters do not show it, since all heads lie in one matrix; the weights of attention do.

    Which numbers stand in the signature of the stub?
    """

    def __init__(self, vocab_size, d_model=512, n_heads=4, n_layers=6, d_ff=2048, max_seq_len=5000, dropout=0.1):
        super().__init__(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
