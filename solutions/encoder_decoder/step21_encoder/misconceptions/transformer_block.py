"""What learners get wrong in `TransformerBlock`, each with the check that catches it."""

from typing import Any

from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.encoder_decoder.step21_encoder import reference
from solutions.encoder_decoder.step21_encoder.misconceptions.pieces import Block, whole


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


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class block_input_added_again(Block):
    """The block's input was added a second time, beside what `ln1` gave.

    What `ln1` gives holds the input already. The second residual goes around the feed-forward alone.

    How many summands stand inside `ln2` in the contract?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(x, mask)
        normed = self.add_attended(x, attended)
        return self.ln2(x + normed + self.dropout(self.feed_forward(normed))), weights


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class second_residual_from_attention(Block):
    """The feed-forward's output was added to what attention gave, not to what `ln1` gave.

    The token itself is then lost on its way through the block.

    Which x does the second line of the contract speak of?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        attended, weights = self.attend(x, mask)
        attended = self.dropout(attended)
        return self.ln2(attended + self.dropout(self.feed_forward(self.ln1(x + attended)))), weights


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class block_changes_its_input(Block):
    """What attention gives was added to x in place.

    The caller's tensor has changed then, behind the caller's back, and autograd may refuse what it needed unchanged.

    What does `x += …` do that `x = x + …` does not?
    """

    def add_attended(self, x: Tensor, attended: Tensor) -> Tensor:
        x += self.dropout(attended)
        return self.ln1(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class norms_in_front_too(Block):
    """The norms stand behind the sums, and in front of the branches as well.

    Pre-norm has them in front, post-norm behind. Each norm is applied once.

    What does attention read in the contract, x or its norm?
    """

    def attend(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        return super().attend(self.ln1(x), mask)


@another_form(norms_in_front_too)
class both_norms_in_front_too(norms_in_front_too):
    def add_fed(self, x: Tensor) -> Tensor:
        return self.ln2(x + self.dropout(self.feed_forward(self.ln2(x))))


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


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class block_weights_detached(Block):
    """The block detached the weights that it returns.

    They have no gradient then: a loss on the weights, which some models have, would train nothing.

    Which method takes a tensor out of the graph, and where do you call it?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, weights = super().forward(x, mask)
        return x, weights.detach()


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

    eps = 1e-3

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.ln1.eps = self.ln2.eps = self.eps


@another_form(another_epsilon, caught_by="test_dtypes_and_device")
class epsilon_of_bert(another_epsilon):
    eps = 1e-12


@another_form(another_epsilon, caught_by="test_dtypes_and_device")
class epsilon_of_the_annotated_transformer(another_epsilon):
    eps = 1e-6


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
class branches_drop_at_another_rate(Block):
    """What the branches add was dropped at a fixed rate, whatever was asked for.

    `dropout` goes to every part that knows it, the block's own dropout too.

    With which rate is each `nn.Dropout` of your block made?
    """

    rate = 0.1

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, d_ff, dropout)
        self.dropout = nn.Dropout(self.rate)


@another_form(branches_drop_at_another_rate)
class branches_drop_a_half(branches_drop_at_another_rate):
    rate = 0.5


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class four_times_the_width(Block):
    """The feed-forward was made four times as wide as a token, whatever `d_ff` said.

    GPT-2 fixes that number; here `d_ff` tells it.

    What is `FeedForward` given as its second argument?
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__(d_model, n_heads, 4 * d_model, dropout)


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
