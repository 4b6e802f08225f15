"""What learners get wrong in `SentimentAnalyzer`: a mask that is given, what is pooled, and the classifier's head."""

import torch
from torch import Tensor, nn

from grader.checks.catalogue import another_form, misconception
from solutions.encoder_decoder.step21_encoder.misconceptions import sentiment_analyzer as always
from solutions.encoder_decoder.step21_encoder.misconceptions.pieces import Classifier, whole


def where_given(wrong: type[Classifier], caught_by: str = "test_padding_has_no_effect") -> type[Classifier]:
    """The same mistake in the branch for a mask that was given; without one the mean is a plain one."""

    class Form(wrong):  # type: ignore[valid-type,misc]  # a class made of a misconception
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            self.given = mask is not None
            return super().forward(x, mask)

        def attention_mask(self, mask: Tensor) -> Tensor | None:
            return super().attention_mask(mask) if self.given else None

        def pool(self, output: Tensor, mask: Tensor) -> Tensor:
            return super().pool(output, mask) if self.given else output.mean(dim=1)

    return another_form(wrong, caught_by=caught_by)(Form)


mask_inverted_in_the_mean_where_given = where_given(always.mask_inverted_in_the_mean)
mask_inverted_for_attention_where_given = where_given(always.mask_inverted_for_attention)
sum_where_given = where_given(always.sum_in_place_of_the_mean)
all_real_tokens_where_given = where_given(always.sum_divided_by_all_real_tokens)
float32_where_given = where_given(always.mask_as_float32, "test_dtypes_and_device")
shares_where_given = where_given(always.shares_in_float32, "test_dtypes_and_device")


@another_form(always.last_token_in_place_of_mean)
class last_real_token_in_place_of_mean(Classifier):
    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        row = torch.arange(len(output), device=output.device)
        return output[row, mask.sum(dim=1) - 1]


@another_form(always.mean_over_the_columns)
class mean_over_the_batch(Classifier):
    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return output.mean(dim=0)


@another_form(always.mean_over_the_columns)
class mean_over_the_batch_without_a_mask(Classifier):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        self.given = mask is not None
        return super().forward(x, mask)

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        return super().pool(output, mask) if self.given else output.mean(dim=0)


@misconception(replaces=whole, caught_by="test_dtypes_and_device")
class guard_too_large(Classifier):
    """The number of real tokens had something added to it against a division by 0, more than the 1e-10 allowed.

    Each sentence has a real token. In float64 the guard shows: the mean is off by as much.

    Can the number of real tokens be 0, and what would `clamp(min=1)` change?
    """

    guard = 1e-6

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).to(output.dtype)
        return (output * real).sum(dim=1) / (real.sum(dim=1) + self.guard)


@another_form(guard_too_large)
class guard_of_1e_8(guard_too_large):
    guard = 1e-8


guard_where_given = where_given(guard_too_large, "test_dtypes_and_device")
smaller_guard_where_given = where_given(guard_of_1e_8, "test_dtypes_and_device")


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class mean_of_the_logits(Classifier):
    """Each token was classified by itself, and the mean taken of their logits.

    The classifier has a ReLU: the logits of a mean are not the mean of the logits.

    What does the classifier get in the contract, all tokens or one vector for each sentence?
    """

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        self.mask = mask
        return output

    def classify(self, mean: Tensor) -> Tensor:
        return super().pool(self.classifier(mean), self.mask)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class classes_in_place_of_logits(Classifier):
    """The number of the likeliest class was returned.

    The class gives logits, one for each class: the loss needs them, and a class number has no gradient.

    Which shape does the contract give for the result?
    """

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(mean).argmax(dim=-1)


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class sigmoid_on_the_logits(Classifier):
    """A sigmoid was applied to the logits.

    The class gives logits; the loss makes probabilities of them by itself.

    What does `F.cross_entropy` take, probabilities or logits?
    """

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(mean).sigmoid()


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class batch_of_one_squeezed(Classifier):
    """A dimension of size 1 was squeezed out of the result.

    With one sentence the batch is such a dimension: `(1, n_classes)` becomes `(n_classes,)`.

    What does `squeeze` remove when the batch holds one sentence?
    """

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(mean).squeeze()


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class classifier_with_tanh(Classifier):
    """The classifier has a tanh in place of the ReLU.

    BERT's pooler has one; the contract's Sequential has `nn.ReLU()`.

    Which module is number 1 of your Sequential?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return [nn.Linear(d_model, 128), nn.Tanh(), nn.Dropout(dropout), nn.Linear(128, n_classes)]


@misconception(replaces=whole, caught_by="test_dropout")
class classifier_drops_nothing(Classifier):
    """The classifier's hidden numbers were never dropped.

    A module without effect stands where the contract has `nn.Dropout(dropout)`: the names fit, and nothing falls.

    Which module is number 2 of your Sequential, and at which rate does it drop?
    """

    def layers(self, d_model: int, n_classes: int, dropout: float) -> list[nn.Module]:
        return super().layers(d_model, n_classes, 0.0)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_mean(Classifier):
    """The mean was dropped before the classifier, which BERT does.

    The contract has one dropout behind the encoder, inside of the classifier.

    How many times does your class drop something by itself?
    """

    def classify(self, mean: Tensor) -> Tensor:
        return self.classifier(self.classifier[2](mean))


@misconception(replaces=whole, caught_by="test_classifier_agrees_with_fresh_draws")
class encoder_made_with_other_arguments(Classifier):
    """The encoder was given its numbers in another order than it takes them.

    Two numbers of one type change places without an error, and the sizes are wrong.

    In which order does the constructor of `SimpleTransformer` take its arguments?
    """

    def __init__(
        self, vocab_size, d_model=256, n_heads=8, n_layers=4, n_classes=3, d_ff=2048, max_seq_len=5000, dropout=0.1
    ):
        super().__init__(vocab_size, d_model, n_heads, n_layers, n_classes, max_seq_len, d_ff, dropout)
