"""What learners get wrong in `generate`: the k largest logits."""

from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step12_gpt.misconceptions.generation import Generation, generation, sample
from solutions.core.step12_gpt.reference import GPT


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class temperature_ignored_beside_top_k(Generation):
    """Where top_k was given, the temperature had no effect on the probabilities.

    The two belong together: top_k says which tokens can be drawn, the temperature how often each of them is.

    Which way through your code does a call with both arguments take?
    """

    def draw(self, logits: Tensor) -> Tensor:
        return sample(logits / self.temperature if self.top_k is None else logits)


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class greedy_by_default(Generation):
    """The default of temperature was 0.

    Then whoever names no temperature gets the largest logit each time. The step asks for 1, which draws as the model
    says.

    Where in the line of `def` does the default stand?
    """

    def __init__(
        self, model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 0.0, top_k: int | None = None
    ) -> None:
        super().__init__(model, idx, max_new_tokens, temperature, top_k)

    def text(self) -> Tensor:
        return self.right_text()


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_keeps_one_less(Generation):
    """One token too few was kept: top_k - 1 instead of top_k.

    The k-th largest logit still belongs to the k largest. Comparing with > instead of >= loses it.

    With top_k = 2, how many different tokens can be drawn?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return super().threshold(logits, max(1, k - 1))


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class place_among_the_largest_as_token(Generation):
    """What was drawn was a place among the k largest logits, and it was appended as if it were a token.

    topk sorts: place 0 is the largest logit, whichever token it belongs to. Only tokens below k can come out that way.

    torch.topk returns two tensors. What is the second one for?
    """

    def kept(self, logits: Tensor) -> Tensor:
        drawn = self.top_k is not None and self.temperature != 0
        return logits.topk(min(self.top_k, logits.shape[-1])).values if drawn else logits


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_ignored(Generation):
    """top_k had no effect.

    Every token of the vocabulary could still be drawn, also the unlikeliest one.

    Where does your code remove the tokens that are not among the k largest?
    """

    def kept(self, logits: Tensor) -> Tensor:
        return logits


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_keeps_one_more(Generation):
    """One token too many was kept: top_k + 1 instead of top_k.

    Counted from 0, the k-th largest logit has the number k - 1. Who compares with number k keeps one more.

    With top_k = 1, how many different tokens can be drawn?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return super().threshold(logits, min(k + 1, logits.shape[-1]))


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class small_logits_set_to_zero(Generation):
    """The logits outside the k largest were set to 0.

    A logit of 0 is not a probability of 0: the softmax gives it a weight of e⁰ = 1 against the others.

    Which logit gets probability 0 from the softmax?
    """

    fill = 0.0


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_of_the_first_row(Generation):
    """The k tokens of the first row were kept for every row.

    Each row has its own k largest logits. Here the other rows could only draw what suited the first one.

    Over which dimension are the k largest looked for, and how many rows does that give?
    """

    def kept(self, logits: Tensor) -> Tensor:
        return logits.masked_fill(super().kept(logits[:1]).isinf(), self.fill)


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_threshold_of_the_batch(Generation):
    """One smallest logit was kept in mind for the whole batch: the least of all rows' k largest.

    Each row has its own k largest logits. A row with larger logits than the others could draw tokens beyond its k.

    Which shape does the smallest kept logit need, so that each row is compared with its own?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.topk(k).values.min()


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_threshold_without_its_dimension(Generation):
    """The smallest of the k largest logits was taken from each row in the shape (B,), without a dimension of its own.

    Compared with logits of shape (B, vocab_size), the B thresholds are lined up with the tokens and not with the rows.
    With one row in the batch that goes well; with more it is an error, or the wrong comparison.

    Which shape must the thresholds have, so that each row is compared with its own?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.topk(k).values[:, -1]


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_too_large_refused(Generation):
    """A top_k larger than the vocabulary was an error.

    The contract says that it means the whole vocabulary, so that one setting suits every model.

    What is the largest k that torch.topk accepts here?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.topk(self.top_k).values[:, -1:]


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@another_form(top_k_threshold_without_its_dimension)
class top_k_threshold_without_its_dimension_where_drawn(top_k_threshold_without_its_dimension):
    def kept(self, logits: Tensor) -> Tensor:
        return logits if self.temperature == 0 else super().kept(logits)


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_threshold_of_the_last_row(Generation):
    """The smallest of the last row's k largest logits was the threshold for every row.

    Each row has its own k largest logits. In the other rows more than k tokens could be drawn, or fewer.

    Which shape must the thresholds have, so that each row is compared with its own?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.topk(k).values[-1, -1]


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class threshold_of_the_first_row(Generation):
    """The smallest of the k largest logits was taken from the first row, and every row was compared with it.

    Each row has its own k largest logits. The other rows keep more than k or fewer, and some keep none at all.

    Which row does your threshold belong to, and what is each row of logits compared with?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.topk(k).values[0, -1]


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class top_k_of_all_rows_together(Generation):
    """The k largest logits were looked for in all rows together, so that most rows kept none of their own.

    Each row draws by itself, from its own k largest logits.

    Over which dimension does `topk` look, and what is left of it after `flatten`?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.flatten().topk(k).values[-1]


@misconception(replaces=generation, caught_by="test_top_k_keeps_the_k_largest")
class largest_logit_as_the_threshold(Generation):
    """The largest of the k largest logits was the threshold, so that only one token could be drawn.

    `topk` gives the largest first. Kept is whatever is at least as large as the last one that it gives.

    Which of the k values is the smallest that may still be drawn?
    """

    def threshold(self, logits: Tensor, k: int) -> Tensor:
        return logits.topk(k).values[:, :1]
