"""What learners get wrong in step 21, each with the check that catches it.

A learner's encoder is made of the same learner's blocks. So what is wrong in a class is wrong in all that are made of
it, and each misconception replaces those as well.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import all_made_of, misconception, together
from solutions.encoder_decoder.step21_encoder import reference


class FeedForward(reference.FeedForward):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def activate(self, hidden: Tensor) -> Tensor:
        return torch.relu(hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activate(self.linear1(x))))


class Block(reference.TransformerBlock):
    """As `FeedForward`."""

    made_of: type = reference.FeedForward

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.feed_forward = self.made_of(d_model, d_ff, dropout)

    def attend(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.attention(x, x, x, mask)

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(self.feed_forward(x)))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(x, mask)
        return self.add_fed(self.add_attended(x, attended)), weights


class Encoder(reference.SimpleTransformer):
    """As `FeedForward`."""

    made_of: type = reference.TransformerBlock

    def __init__(self, vocab_size, d_model=512, n_heads=8, n_layers=6, d_ff=2048, max_seq_len=5000, dropout=0.1):
        super().__init__(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.transformer_blocks = self.blocks(n_layers, d_model, n_heads, d_ff, dropout)

    def blocks(self, n_layers: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList(self.made_of(*given) for _ in range(n_layers))

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.arange(ids.shape[1], device=ids.device))

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.token_embedding(ids) + self.positions(ids))

    def mask_of(self, layer: int, mask: Tensor | None) -> Tensor | None:
        return mask

    def finish(self, stream: Tensor) -> Tensor:
        return self.ln_final(stream)

    def give(self, output: Tensor, weights: list[Tensor]) -> Any:
        return output, weights

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        if x.shape[1] > self.max_seq_len:
            raise ValueError(f"x has {x.shape[1]} tokens, but max_seq_len is {self.max_seq_len}")
        stream, all_weights = self.embed(x), []
        for layer, block in enumerate(self.transformer_blocks):
            stream, weights = block(stream, self.mask_of(layer, mask))
            all_weights.append(weights)
        return self.give(self.finish(stream), all_weights)


class Classifier(reference.SentimentAnalyzer):
    """As `FeedForward`."""

    made_of: type = reference.SimpleTransformer
    hidden_width = 128

    def __init__(
        self, vocab_size, d_model=256, n_heads=8, n_layers=4, n_classes=3, d_ff=2048, max_seq_len=5000, dropout=0.1
    ):
        super().__init__(vocab_size, d_model, n_heads, n_layers, n_classes, d_ff, max_seq_len, dropout)
        self.transformer = self.made_of(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.classifier = nn.Sequential(*self.layers(d_model, n_classes, dropout))

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, n_classes)]

    def attention_mask(self, mask: Tensor) -> Tensor | None:
        return mask[:, None, None, :]

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).to(output.dtype)
        return (output * real).sum(dim=1) / real.sum(dim=1)

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        encoded = self.transformer(ids, self.attention_mask(mask))  # a wrong encoder may give its output alone
        return encoded if isinstance(encoded, Tensor) else encoded[0]

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(mean)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            mask = torch.ones_like(x, dtype=torch.bool)
        return self.classify(self.pool(self.encode(x, mask), mask))


whole = all_made_of(
    {
        "FeedForward": FeedForward,
        "TransformerBlock": Block,
        "SimpleTransformer": Encoder,
        "SentimentAnalyzer": Classifier,
    }
)


# --- feed-forward -----------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_feed_forward")
class gelu_instead_of_relu(FeedForward):
    """A GELU was taken where the contract has a ReLU.

    GPT-2 and BERT have a GELU; the encoder of 2017 has a ReLU: what is below 0 becomes exactly 0.

    Which function does the contract put between the two layers?
    """

    def activate(self, hidden: Tensor) -> Tensor:
        return F.gelu(hidden)


@misconception(replaces=whole, caught_by="test_feed_forward")
class gelu_by_tanh_instead_of_relu(gelu_instead_of_relu):
    def activate(self, hidden: Tensor) -> Tensor:
        return F.gelu(hidden, approximate="tanh")


@misconception(replaces=whole, caught_by="test_feed_forward")
class no_activation(FeedForward):
    """Nothing stands between the two linear layers.

    Two linear layers in a row are one linear layer: the wide space in between then adds nothing.

    Which function does the contract put between the two layers?
    """

    def activate(self, hidden: Tensor) -> Tensor:
        return hidden


@misconception(replaces=whole, caught_by="test_feed_forward")
class tanh_instead_of_relu(FeedForward):
    """A tanh was taken where the contract has a ReLU.

    It holds large numbers back and keeps what is below 0; the ReLU does neither.

    Which function does the contract put between the two layers?
    """

    def activate(self, hidden: Tensor) -> Tensor:
        return torch.tanh(hidden)


@misconception(replaces=whole, caught_by="test_feed_forward")
class relu_behind_the_second_layer(FeedForward):
    """The ReLU was taken of the output, behind the second layer.

    A branch that can only add and never take away is half a branch, and between the layers nothing is nonlinear.

    In `linear2(dropout(relu(linear1(x))))`, what does the ReLU act on?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear2(self.dropout(self.linear1(x))))


@misconception(replaces=whole, caught_by="test_feed_forward")
class relu_behind_both_layers(FeedForward):
    """A second ReLU was taken of the output, behind the second layer.

    A branch that can only add and never take away is half a branch.

    How many times does relu stand in the contract's formula?
    """

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(super().forward(x))


@misconception(replaces=whole, caught_by="test_feed_forward")
class residual_inside_feed_forward(FeedForward):
    """The input was added to the feed-forward's output, inside of it.

    The residual belongs to the block. With both of them the stream is added twice.

    What does the contract's formula of `FeedForward` begin with?
    """

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


@misconception(replaces=whole, caught_by="test_feed_forward")
class feed_forward_without_bias(FeedForward):
    """The two linear layers were made without a bias.

    The contract's layers have one: a state dict does not fit otherwise.

    What is the default of `nn.Linear`, and what did you tell it?
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, d_ff, dropout)
        self.linear1 = nn.Linear(d_model, d_ff, bias=False)
        self.linear2 = nn.Linear(d_ff, d_model, bias=False)


@misconception(replaces=whole, caught_by="test_feed_forward")
class feed_forward_as_a_sequential(FeedForward):
    """The layers were kept in an `nn.Sequential`.

    Their parameters are then called after their numbers in it, and no state dict with `linear1` and `linear2` fits.

    Under which names does the contract want the two layers?
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1) -> None:
        nn.Module.__init__(self)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_in_feed_forward(FeedForward):
    """Nothing was dropped inside the feed-forward.

    The contract's formula has a dropout between the ReLU and the second layer.

    Where does your feed-forward use what its constructor was given as `dropout`?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.activate(self.linear1(x)))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_behind_the_second_layer(FeedForward):
    """The dropout of the feed-forward acts on its output, behind the second layer.

    The block drops there already. Inside, hidden numbers are dropped, before the second layer sums them up.

    In `linear2(dropout(relu(linear1(x))))`, what does the dropout act on?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.linear2(self.activate(self.linear1(x))))


@misconception(replaces=whole, caught_by="test_feed_forward")
class feed_forward_drops_in_eval(FeedForward):
    """The feed-forward dropped in eval mode too.

    `F.dropout` is a function: unless it is told the mode, it drops always.

    Which argument of `F.dropout` knows about training, or which module would take care of it by itself?
    """

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(F.dropout(self.activate(self.linear1(x)), self.dropout.p))


# --- block ------------------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_block_by_hand", misses_the_point=True)
class pre_norm(Block):
    """The norms stand in front of the branches, not behind the sums: pre-norm.

    GPT-2 has it that way. The paper of 2017, and this contract, normalise the sum of stream and branch.

    In `ln1(x + dropout(attention))`, what does the norm act on?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(self.ln1(x), mask)
        x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(self.ln2(x))), weights


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws", misses_the_point=True)
class no_residual_around_attention(Block):
    """What attention gives was normalised alone, without the stream.

    Without the residual a token forgets itself: it keeps only what it gathered from others.

    What is added to the attention's output before `ln1`?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(self.dropout(attended))


@misconception(replaces=whole, caught_by="test_block_by_hand")
class no_residual_around_feed_forward(Block):
    """What the feed-forward gives was normalised alone, without the stream.

    Without the residual everything that attention gathered has to pass the feed-forward.

    What is added to the feed-forward's output before `ln2`?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_by_hand", misses_the_point=True)
class no_residuals(Block):
    """Neither branch was added to the stream.

    Residuals let gradients reach the first layer, and let a token keep what it is.

    What is added to a branch's output before its norm?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(x, mask)
        return self.ln2(self.dropout(self.feed_forward(self.ln1(self.dropout(attended))))), weights


@misconception(replaces=whole, caught_by="test_block_by_hand")
class one_norm_for_both(Block):
    """`ln1` was used behind both branches, and `ln2` never.

    Each sum has a norm with weights of its own.

    Which norm stands behind the feed-forward?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class one_norm_under_two_names(one_norm_for_both):
    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.ln2 = self.ln1


@misconception(replaces=whole, caught_by="test_block_by_hand")
class norms_exchanged(Block):
    """`ln2` was used behind attention and `ln1` behind the feed-forward.

    A state dict brings each norm its weights under its name.

    Which number does the norm behind attention have?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln1(x + self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class feed_forward_reads_old_stream(Block):
    """The feed-forward read x from before attention.

    It then knows nothing of what attention gathered in this block.

    Which x does the second line of the contract speak of?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(x, mask)
        fed = self.feed_forward(x)
        return self.ln2(self.add_attended(x, attended) + self.dropout(fed)), weights


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class second_residual_from_block_input(Block):
    """The feed-forward's output was added to the block's input, not to what `ln1` gave.

    What attention gathered then reaches the output through the feed-forward only.

    Which x does the second line of the contract speak of?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(x, mask)
        return self.ln2(x + self.dropout(self.feed_forward(self.add_attended(x, attended)))), weights


@misconception(replaces=whole, caught_by="test_block_by_hand", misses_the_point=True)
class norm_of_the_branch(Block):
    """The branch was normalised and then added to x: `x + ln1(attention)`.

    In post-norm the norm acts on the sum. Behind the sum the stream keeps one size, however many blocks there are.

    In `ln1(x + dropout(attention))`, where does the bracket of `ln1` end?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.ln1(self.dropout(attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return x + self.ln2(self.dropout(self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_block_by_hand")
class norm_of_the_attention_alone(norm_of_the_branch):
    def add_fed(self, x: Tensor) -> Tensor:
        return Block.add_fed(self, x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class norm_only_at_the_end(Block):
    """The sum behind attention was not normalised; only `ln2` was used.

    Each of the two sums has a norm behind it.

    What does the feed-forward read, the sum or its norm?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.dropout(attended)


@misconception(replaces=whole, caught_by="test_block_by_hand", misses_the_point=True)
class no_norms(Block):
    """The sums were not normalised.

    Every block adds to the stream; without the norms its numbers grow from block to block.

    Which of the block's submodules does your `forward` never call?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return x + self.dropout(attended)

    def add_fed(self, x: Tensor) -> Tensor:
        return x + self.dropout(self.feed_forward(x))


@misconception(replaces=whole, caught_by="test_block_by_hand")
class feed_forward_first(Block):
    """The feed-forward came before attention.

    Each token first gathers what it needs from the others, and then works on it.

    Which of the contract's two lines comes first?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x = self.add_fed(x)
        attended, weights = self.attend(x, mask)
        return self.add_attended(x, attended), weights


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws", misses_the_point=True)
class no_feed_forward(Block):
    """The feed-forward was left out: the block is attention and its norm.

    Attention only mixes tokens; the feed-forward is where each of them is worked on.

    Which of the block's submodules does your `forward` never call?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x)


@misconception(replaces=whole, caught_by="test_block_hands_its_mask_on")
class block_ignores_its_mask(Block):
    """The block did not hand its mask to the attention.

    Padding then gets weight like real words, in this block and all that are made of it.

    How many arguments does your call of `self.attention` have?
    """

    def attend(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.attention(x, x, x)


@misconception(replaces=whole, caught_by="test_block_hands_its_mask_on")
class block_inverts_its_mask(Block):
    """The block turned the mask round before it handed it to the attention.

    True means "may attend" on both sides of the call.

    What does step 20 take True for, and what does this step's caller?
    """

    def attend(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.attention(x, x, x, None if mask is None else ~mask)


@misconception(replaces=whole, caught_by="test_block_by_hand")
class block_gives_the_output_alone(Block):
    """The block returned its output without the weights.

    The encoder collects the weights of every block.

    What does step 20's attention return beside its output, and where does it go?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return super().forward(x, mask)[0]


@misconception(replaces=whole, caught_by="test_block_by_hand")
class block_weights_averaged(Block):
    """The block averaged the weights over the heads.

    The weights of every head are wanted, `(B, H, T, T)`.

    Which dimension is missing in your weights?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, weights = super().forward(x, mask)
        return x, weights.mean(dim=1)


@misconception(replaces=whole, caught_by="test_block_by_hand")
class block_pair_in_other_order(Block):
    """The block returned the weights first and its output second.

    The pair is (x, weights), here and in the other steps.

    What does the arrow in the contract give, in which order?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, weights = super().forward(x, mask)
        return weights, x


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class another_epsilon(Block):
    """The norms were made with another eps than 1e-5.

    It hardly shows, but the numbers are not those of a model that was trained with 1e-5.

    What is the default of `nn.LayerNorm`, and what did you tell it?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.ln1.eps = self.ln2.eps = 1e-3


@misconception(replaces=whole, caught_by="test_block_by_hand")
class norms_without_parameters(Block):
    """The norms were made without weight and bias.

    The contract's norms have both: a state dict does not fit otherwise.

    What is the default of `nn.LayerNorm`, and what did you tell it?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.ln1 = nn.LayerNorm(d_model, elementwise_affine=False)
        self.ln2 = nn.LayerNorm(d_model, elementwise_affine=False)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_on_attention_branch(Block):
    """Nothing was dropped of what attention adds.

    The contract drops from both branches before they are added.

    In `ln1(x + dropout(attention))`, where is your dropout?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_on_feed_forward_branch(Block):
    """Nothing was dropped of what the feed-forward adds.

    It has a dropout inside; the contract drops from both branches as well, before they are added.

    In `ln2(x + dropout(feed_forward))`, where is your dropout?
    """

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.feed_forward(x))


@misconception(replaces=whole, caught_by="test_dropout")
class no_dropout_on_the_branches(Block):
    """Nothing was dropped of what the two branches add.

    Attention and feed-forward drop inside; the contract drops from both branches as well, before they are added.

    In `ln1(x + dropout(attention))`, where is your dropout?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(x + attended)

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.feed_forward(x))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_normed_sum(Block):
    """The dropout acts on what the norms give, stream included.

    Only what a branch adds is dropped. The stream itself has to get through whole.

    In `ln1(x + dropout(attention))`, where does the bracket of `dropout` end?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.dropout(self.ln1(x + attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.dropout(self.ln2(x + self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_sum(Block):
    """The dropout acts on the sum of stream and branch.

    Only what a branch adds is dropped. The stream itself has to get through whole.

    In `ln1(x + dropout(attention))`, where does the bracket of `dropout` end?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        return self.ln1(self.dropout(x + attended))

    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(self.dropout(x + self.feed_forward(x)))


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_attention(Block):
    """The rate of dropout was not handed to the attention.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of step 20's class take?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.attention = reference.MultiHeadAttention(d_model, n_heads)


@misconception(replaces=whole, caught_by="test_dropout")
class attention_made_without_dropout(Block):
    """The attention was made with the rate 0.

    `dropout` goes to every part that knows it.

    Which arguments does the constructor of step 20's class take?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.attention = reference.MultiHeadAttention(d_model, n_heads, 0.0)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_feed_forward(Block):
    """The rate of dropout was not handed to the feed-forward.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of `FeedForward` take?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.feed_forward = self.made_of(d_model, d_ff)


# --- encoder ----------------------------------------------------------------------------------------------------------


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
    """Every token was given the embedding of one position, the number of tokens less one.

    Then all are alike again. Each position has a row of its own.

    Which function gives the numbers 0, 1, …, T - 1?
    """

    def positions(self, ids: Tensor) -> Tensor:
        return self.position_embedding(torch.full_like(ids[0], ids.shape[1] - 1))


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
    """A sequence that is longer than `max_seq_len` was accepted: its positions begin again at 0.

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


# --- classifier -------------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class mean_over_padding_too(Classifier):
    """The mean was taken over all tokens, padding included.

    Many tutorials do so. The longer the padding, the more it counts, and one sentence gets other logits in another
    batch.

    How many of the summed rows belong to real tokens?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return output.mean(dim=1)


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class sum_divided_by_length(Classifier):
    """The real tokens' outputs were summed and divided by T, padding counted.

    A sentence with much padding then gets a small mean.

    By how many tokens should the sum of the real ones be divided?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return (output * mask.unsqueeze(-1)).mean(dim=1)


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class sum_divided_by_longest(Classifier):
    """The sum of the real tokens was divided by the length of the longest sentence of the batch.

    One sentence then gets other logits beside another neighbour.

    By how many tokens should each row's sum be divided?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).to(output.dtype)
        return (output * real).sum(dim=1) / real.sum(dim=1).amax(dim=0)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class sum_divided_by_all_real_tokens(Classifier):
    """The sum of each row was divided by the number of real tokens in the whole batch.

    One sentence then gets other logits in a larger batch.

    By how many tokens should each row's sum be divided?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).to(output.dtype)
        return (output * real).sum(dim=1) / real.sum()


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class sum_in_place_of_the_mean(Classifier):
    """The real tokens' outputs were summed, and not divided by their number.

    Long sentences then shout, and the classifier reads the length as a mood.

    What makes a mean of a sum?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return (output * mask.unsqueeze(-1).to(output.dtype)).sum(dim=1)


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class padding_left_out_of_the_mean_only(Classifier):
    """The padding was left out of the mean, and not hidden from attention.

    The real tokens then gather from the padding in every block, and bring it into the mean.

    What does your code hand to the encoder beside the ids?
    """

    def attention_mask(self, mask: Tensor) -> Tensor | None:
        return None


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class mask_of_classifier_ignored(Classifier):
    """The mask was not used at all.

    The padding then counts in attention and in the mean.

    At which two places does padding have to be left out?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class first_token_in_place_of_mean(Classifier):
    """The classifier read the first token's output.

    BERT does so, with a token of its own for it. Here the mean of the real tokens is asked.

    What does the classifier get in the contract?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return output[:, 0]


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class last_token_in_place_of_mean(Classifier):
    """The classifier read the last token's output.

    With padding that is no word at all. Here the mean of the real tokens is asked.

    What does the classifier get in the contract?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return output[:, -1]


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class maximum_in_place_of_mean(Classifier):
    """The classifier read the largest output of each column.

    Other models pool like that. Here the mean of the real tokens is asked.

    What does the classifier get in the contract?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return output.masked_fill(~mask.unsqueeze(-1), -torch.inf).amax(dim=1)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class maximum_over_padding_too(Classifier):
    """The classifier read the largest output of each column, the padding's zeros among them.

    Other models pool like that. Here the mean of the real tokens is asked.

    What does the classifier get in the contract?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return (output * mask.unsqueeze(-1).to(output.dtype)).amax(dim=1)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class mean_over_the_columns(Classifier):
    """The mean was taken over the columns of each token, or over the wrong dimension.

    What the classifier reads is one vector for each sentence, `d_model` wide.

    Which dimension of `(B, T, D)` has to go?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return output.mean(dim=-1)


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class padding_mask_over_queries(Classifier):
    """The mask was handed to attention as `(B, 1, T, 1)`: it hides queries.

    Padding is hidden as a key. A query that sees nothing has no weights: its softmax is NaN.

    Which dimension of `(B, H, T_q, T_k)` should the padding stand in?
    """

    def attention_mask(self, mask: Tensor) -> Tensor | None:
        return mask[:, None, :, None]


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class mask_without_new_dimensions(Classifier):
    """The mask was handed to attention as `(B, T)`.

    Beside scores of `(B, H, T, T)` its B falls on the queries: an error, or silently wrong where B and T are equal.

    Which shape does step 20 want for padding?
    """

    def attention_mask(self, mask: Tensor) -> Tensor | None:
        return mask


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class mask_with_one_new_dimension(Classifier):
    """The mask was handed to attention as `(B, 1, T)`.

    Beside scores of `(B, H, T, T)` its B falls on the heads: an error, or silently wrong where B and H are equal.

    Which shape does step 20 want for padding?
    """

    def attention_mask(self, mask: Tensor) -> Tensor | None:
        return mask.unsqueeze(1)


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class classifier_mask_inverted(Classifier):
    """The mask was read the other way round: the padding was used, and the sentence left out.

    True means a real token in this class.

    Where in your code does a True lead?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, None if mask is None else ~mask)


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class mask_inverted_for_attention(Classifier):
    """The mask was turned round for attention: the padding was attended to, and the sentence hidden.

    True means "may attend" in step 20, and a real token here: the two agree.

    What does step 20 take True for?
    """

    def attention_mask(self, mask: Tensor) -> Tensor | None:
        return ~mask[:, None, None, :]


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class mask_inverted_in_the_mean(Classifier):
    """The mean was taken of the padding, not of the real tokens.

    True marks a real token. Its output should count, and that of the padding should not.

    What does a True in `mask` mean, and what is a True worth when you multiply by it?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return super().pool(output, ~mask)


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class mask_inverted_in_the_mean_where_given(mask_inverted_in_the_mean):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.given = mask is not None
        return super().forward(x, mask)

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return super().pool(output, mask) if self.given else Classifier.pool(self, output, mask)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class softmax_on_the_logits(Classifier):
    """A softmax was applied to the logits.

    The class gives logits; the loss takes its softmax by itself.

    Which function does `F.cross_entropy` apply to its input first?
    """

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(mean).softmax(dim=-1)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class log_softmax_on_the_logits(Classifier):
    """A log-softmax was applied to the logits.

    The class gives logits; the loss takes its softmax by itself.

    Which function does `F.cross_entropy` apply to its input first?
    """

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(mean).log_softmax(dim=-1)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class classifier_without_dropout_layer(Classifier):
    """The classifier has no dropout between its layers.

    The last layer is then number 2 of the Sequential, and no state dict with `classifier.3` fits.

    How many modules does the contract's Sequential have?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, 128), nn.ReLU(), nn.Linear(128, n_classes)]


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class classifier_of_one_layer(Classifier):
    """The classifier is one linear layer.

    The contract has two, 128 wide in between, with a ReLU and a dropout.

    How many modules does the contract's Sequential have?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, n_classes)]


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class classifier_of_another_width(Classifier):
    """The classifier is not 128 wide in between.

    The number is part of the contract: no state dict fits another one.

    Which number does the contract give for the layer in between?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, d_model), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_model, n_classes)]


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class classifier_with_gelu(Classifier):
    """The classifier has a GELU in place of the ReLU.

    The contract's Sequential has `nn.ReLU()`.

    Which module is number 1 of your Sequential?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, 128), nn.GELU(), nn.Dropout(dropout), nn.Linear(128, n_classes)]


@misconception(replaces=whole, caught_by="test_dropout")
class classifier_drops_a_half(Classifier):
    """The classifier's dropout kept the default of `nn.Dropout`, 0.5.

    `dropout` goes to every part that knows it.

    What does `nn.Dropout()` do when it is not told a rate?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, 128), nn.ReLU(), nn.Dropout(), nn.Linear(128, n_classes)]


@misconception(replaces=whole, caught_by="test_dropout")
class classifier_drops_a_tenth(Classifier):
    """The classifier's dropout has a rate of its own, 0.1, whatever was asked for.

    `dropout` goes to every part that knows it.

    With which rate is each `nn.Dropout` of your class made?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return super().layers(d_model, n_classes, 0.1)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_given_to_the_encoder(Classifier):
    """The rate of dropout was not handed to the encoder.

    It then keeps its default of 0.1, whatever was asked for.

    Which arguments does the constructor of `SimpleTransformer` take?
    """

    def __init__(self, vocab_size: int, *given: Any, **named: Any) -> None:
        super().__init__(vocab_size, *given, **named)
        for module in self.transformer.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.1


@misconception(replaces=whole, caught_by="test_dtypes_and_device")
class mask_as_float32(Classifier):
    """The mask was turned into float32 before it multiplied the outputs.

    In a bfloat16 model the mean then is float32, and the classifier's bfloat16 weights do not take it.

    Which dtype should the mask have when it multiplies the outputs?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).float()
        return (output * real).sum(dim=1) / real.sum(dim=1)


@misconception(replaces=whole, caught_by="test_dtypes_and_device")
class shares_in_float32(Classifier):
    """Each token's share of the mean was computed as a quotient of whole numbers or booleans.

    Such a quotient is float32, which a float64 model is finer than, and a bfloat16 one does not take.

    Which dtype does `mask / mask.sum()` have?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        share = mask / mask.sum(dim=1, keepdim=True)
        return (output * share.unsqueeze(-1)).sum(dim=1)


@misconception(replaces=whole, caught_by="test_dtypes_and_device")
class real_mask_made_on_the_cpu(Classifier):
    """Where no mask was given, one was made without saying on which device.

    It lies on the CPU, wherever the module and its ids are.

    Which tensor has the right device, so that a new one can be made like it?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            mask = torch.ones(x.shape, dtype=torch.bool)
        return super().forward(x, mask)


@misconception(replaces=whole, caught_by="test_defaults")
class encoders_defaults(Classifier):
    """The classifier is as large as the encoder by default: 512 wide, with 6 layers.

    Its own defaults are smaller: 256 wide, with 4 layers, and 3 classes.

    Which numbers stand in the signature of the stub?
    """

    def __init__(
        self, vocab_size, d_model=512, n_heads=8, n_layers=6, n_classes=3, d_ff=2048, max_seq_len=5000, dropout=0.1
    ):
        super().__init__(vocab_size, d_model, n_heads, n_layers, n_classes, d_ff, max_seq_len, dropout)


@misconception(replaces=whole, caught_by="test_defaults")
class two_classes_by_default(Classifier):
    """The classifier has two classes where the caller does not give a number.

    The contract's default is three: a sentence may be neither good nor bad.

    Which numbers stand in the signature of the stub?
    """

    def __init__(
        self, vocab_size, d_model=256, n_heads=8, n_layers=4, n_classes=2, d_ff=2048, max_seq_len=5000, dropout=0.1
    ):
        super().__init__(vocab_size, d_model, n_heads, n_layers, n_classes, d_ff, max_seq_len, dropout)


# --- two at once ------------------------------------------------------------------------------------------------------

PAIRS = [
    *together((gelu_instead_of_relu, no_activation), (pre_norm, norm_of_the_branch, no_residual_around_attention)),
    *together((pre_norm, one_norm_for_both), (positions_not_added, no_final_norm, embeddings_scaled)),
    *together((embeddings_scaled, no_final_norm), (mean_over_padding_too, softmax_on_the_logits)),
]
