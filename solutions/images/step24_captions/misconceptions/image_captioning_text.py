"""What learners get wrong in `ImageCaptioning`: what a word may see."""

from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.images.step24_captions.misconceptions.pieces import Model


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next", misses_the_point=True)
class no_causal_mask(Model):
    """The text has no causal mask: a word sees the words that it is to write.

    In training the next word stands in the text that is fed: whoever may look at it copies it, and has learned nothing
    for the day when it is not there.

    Which words does the model know when it writes word t?
    """

    def causal(self, ids: Tensor) -> Tensor | None:
        return None


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next", misses_the_point=True)
class causal_mask_transposed(Model):
    """The causal mask is upside down: a word sees itself and the later words.

    In training the next word stands in the text that is fed: whoever may look at it copies it, and has learned nothing
    for the day when it is not there.

    Which triangle of the matrix holds the pairs (query, earlier key)?
    """

    def causal(self, ids: Tensor) -> Tensor | None:
        return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu()


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next", misses_the_point=True)
class what_is_hidden_shown(Model):
    """The mask shows what it should hide: a word sees the later words only, and the last one sees none, which is NaN.

    `triu(diagonal=1)` marks the pairs to hide. A mask of this course is True where a word may attend.

    Which of the two does a True in your mask mean?
    """

    def causal(self, ids: Tensor) -> Tensor | None:
        return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu(1)


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next", misses_the_point=True)
class one_word_ahead(Model):
    """The causal mask shows one word too many, the next one.

    In training the next word stands in the text that is fed: whoever may look at it copies it, and has learned nothing
    for the day when it is not there.

    On which diagonal does the last visible key of a query lie?
    """

    def causal(self, ids: Tensor) -> Tensor | None:
        return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril(1)


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next")
class own_word_hidden(Model):
    """The causal mask hides a word's own position, too.

    The word itself is known: the model reads it and writes the one after it. And the first word would see nothing at
    all.

    Which word is the newest that the model knows at position t?
    """

    def causal(self, ids: Tensor) -> Tensor | None:
        count = ids.shape[1]
        visible = torch.ones(count, count, dtype=torch.bool, device=ids.device).tril(-1)
        visible[0, 0] = True
        return visible


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next")
class only_its_own_word_seen(Model):
    """A word sees only itself, not the words before it.

    A caption is a sentence: what comes next depends on all of it.

    Which words does the model know when it writes word t?
    """

    def causal(self, ids: Tensor) -> Tensor | None:
        return torch.eye(ids.shape[1], dtype=torch.bool, device=ids.device)


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next", misses_the_point=True)
class causal_in_training_only(Model):
    """The causal mask was used in training mode only.

    The blocks then compute something in eval mode that they were never trained for: words that were written early
    change when later ones are added, and a validation loss measures a model that sees the answers.

    What should the logits of word 1 be when word 2 is written, and what are they in your model?
    """

    def causal(self, ids: Tensor) -> Tensor | None:
        return super().causal(ids) if self.training else None


@misconception(replaces="ImageCaptioning", caught_by="test_regions_are_a_set")
class region_mask_in_the_text(Model):
    """`region_mask` also hid words in the text's self-attention.

    It is a mask of regions. That there are as many words as regions is chance.

    Which attention has regions for keys?
    """

    def forward(self, image_features: Tensor, text_ids: Tensor, region_mask: Tensor | None = None) -> Any:
        self.there = region_mask
        return super().forward(image_features, text_ids, region_mask)

    def causal(self, ids: Tensor) -> Tensor | None:
        causal = super().causal(ids)
        if causal is None or self.there is None or self.there.shape[1] != ids.shape[1]:
            return causal
        return causal & self.there[:, None, None, :]


@misconception(replaces="ImageCaptioning", caught_by="test_no_word_sees_the_next")
class text_decoder_skipped(Model):
    """The words' embeddings went to cross attention, past the blocks of `text_decoder`.

    Then no word knows of the words before it.

    Which class makes a sentence of single words?
    """

    def read(self, ids: Tensor) -> tuple[Tensor, Any]:
        decoder = self.text_decoder
        return decoder.token_embedding(ids) + decoder.position_embedding.weight[: ids.shape[1]], []


@another_form(own_word_hidden)
class first_word_sees_nothing(Model):
    """The first row of the mask is empty, and its weights are NaN."""

    def causal(self, ids: Tensor) -> Tensor | None:
        return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril(-1)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class log_softmax_on_the_logits(Model):
    """A log softmax was taken of the logits.

    The loss and the arg max would be the same, but what is returned are not logits: each row was shifted.

    What does the contract say that `forward` returns?
    """

    def finish(self, joined: Tensor) -> Tensor:
        return super().finish(joined).log_softmax(dim=-1)
