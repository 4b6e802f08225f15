"""What learners get wrong in `SentimentAnalyzer`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step21_encoder.misconceptions.pieces import Classifier, whole


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


@misconception(replaces=whole, caught_by="test_padding_has_no_effect")
class padding_read_from_the_ids(Classifier):
    """The mask given was not used: the tokens whose id is 0 were taken for the padding.

    Which id pads is for the caller to say, and the mask says it. Another vocabulary has a word at 0.

    From which argument does the docstring say that padding is known?
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x, x != 0)

    def pool(self, output: Tensor, mask: Tensor) -> Tensor:
        real = mask.unsqueeze(-1).to(output.dtype)
        return (output * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)


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
    """The classifier read the output of the last token, or of the last real one.

    A causal model is read there, since its last token has seen all others. Here the mean of the real tokens is asked.

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
    """The mask hides queries: it was handed to attention as `(B, 1, T, 1)`, alone or combined with the one for keys.

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
