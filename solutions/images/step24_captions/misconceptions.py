"""What learners get wrong in step 24, each with the check that catches it."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception, together
from solutions.encoder_decoder.step22_decoder import misconceptions as translation
from solutions.images.step24_captions import reference


class Model(reference.ImageCaptioning):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    def look(self, features: Tensor) -> Tensor:
        return self.image_encoder(features)

    def causal(self, ids: Tensor) -> Tensor | None:
        return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()

    def read(self, ids: Tensor) -> tuple[Tensor, Any]:
        return self.text_decoder(ids, self.causal(ids))

    def visible(self, mask: Tensor | None, words: int) -> Tensor | None:
        return None if mask is None else mask[:, None, None, :]

    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.cross_attention(text, regions, regions, visible)

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return text + attended

    def finish(self, joined: Tensor) -> Tensor:
        return self.output_projection(joined)

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits, weights

    def forward(self, image_features: Tensor, text_ids: Tensor, region_mask: Tensor | None = None) -> Any:
        regions = self.look(image_features)
        text, own = self.read(text_ids)
        attended, weights = self.attend(text, regions, self.visible(region_mask, text_ids.shape[1]))
        return self.give(self.finish(self.join(text, attended)), weights, own)


# --- text: what a word may see --------------------------------------------------------------------------------------


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


# --- image: who looks at what -----------------------------------------------------------------------------------------


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class image_attends_to_text(Model):
    """The regions asked, and the words answered.

    It is the word that wants to know where to look: each word is a query, the regions are keys and values.

    How many rows should the result of cross attention have, T or R?
    """

    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        attended, weights = self.cross_attention(regions, text, text)
        return attended.mean(dim=1, keepdim=True), weights.mT


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class image_attends_to_text_without_turning_the_weights(image_attends_to_text):
    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        attended, weights = self.cross_attention(regions, text, text)
        return attended.mean(dim=1, keepdim=True), weights


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class logits_for_each_region(image_attends_to_text):
    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.cross_attention(regions, text, text)

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return attended


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class cross_attention_reads_the_text(Model):
    """Cross attention took keys and values from the text.

    That is self-attention once more: the image never enters.

    Which tensor should a word look at?
    """

    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.cross_attention(text, text, text)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class only_the_keys_come_from_the_image(Model):
    """Only the keys come from the image; the values come from the text.

    The weights then belong to regions, and what they gather to words.

    Which tensor should be gathered from where the weights point?
    """

    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.cross_attention(text, regions, text, visible)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class only_the_values_come_from_the_image(Model):
    """Only the values come from the image; the keys come from the text.

    The weights then belong to words, and what they gather to regions.

    Which tensor should be compared with the queries?
    """

    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        return self.cross_attention(text, text, regions, visible)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class text_not_added(Model):
    """The logits are made of what cross attention gives, without the text.

    What was written so far then only decides where to look, and is lost on the way to the next word.

    Which two tensors does `output_projection` get the sum of?
    """

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return attended


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class embeddings_added_in_place_of_the_text(Model):
    """What cross attention gives was added to the words' embeddings, not to the text decoder's output.

    The words before it then only decide where a word looks, and are lost on the way to the next word.

    Which tensor asked the question, and which one is the answer added to?
    """

    def read(self, ids: Tensor) -> tuple[Tensor, Any]:
        decoder = self.text_decoder
        self.embedded = decoder.token_embedding(ids) + decoder.position_embedding.weight[: ids.shape[1]]
        return super().read(ids)

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return self.embedded + attended


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class text_and_image_multiplied(Model):
    """Text and image were multiplied, not added.

    Where either is near 0 the other is lost, and its gradient too. A sum passes both on.

    What does a residual connection do with the two tensors it joins?
    """

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return text * attended


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class cross_attention_not_used(Model):
    """What cross attention gives was not used: the logits are made of the text alone.

    That is a language model, which writes the same caption under every image.

    Which two tensors does `output_projection` get the sum of?
    """

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return text


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class regions_averaged_before_attention(Model):
    """The regions were averaged before attention.

    With one vector for the whole image there is nothing to choose from, and every weight is 1.

    How many keys does a word choose from, and how many weights should it have?
    """

    def look(self, features: Tensor) -> Tensor:
        return super().look(features).mean(dim=1, keepdim=True)

    def visible(self, mask: Tensor | None, words: int) -> Tensor | None:
        return None


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws", misses_the_point=True)
class every_region_the_mean(regions_averaged_before_attention):
    def look(self, features: Tensor) -> Tensor:
        return super().look(features).expand(-1, features.shape[1], -1)

    def visible(self, mask: Tensor | None, words: int) -> Tensor | None:
        return Model.visible(self, mask, words)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class activation_behind_image_encoder(Model):
    """There is an activation behind `image_encoder`.

    The contract has a linear layer there and nothing else.

    What is a projected region, in the contract?
    """

    def look(self, features: Tensor) -> Tensor:
        return torch.relu(super().look(features))


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class regions_have_positions(Model):
    """Positions were added to the regions.

    Regions are a set: a detector lists them in any order, and none of them is the first.

    What would the third position mean here?
    """

    def look(self, features: Tensor) -> Tensor:
        regions = super().look(features)
        return regions + self.text_decoder.position_embedding.weight[: regions.shape[1]]


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class sum_normalised_once_more(Model):
    """What cross attention gives was normalised with the text before the projection.

    `text` is normalised already, and the sum goes into `output_projection` as it is.

    What stands between the sum and `output_projection` in the contract?
    """

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return self.text_decoder.ln_final(text + attended)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class causal_mask_over_the_regions(Model):
    """The causal mask was used on the regions, too: word t sees regions 0 to t.

    The image is there at once: nothing in it is yet to be written.

    What would a mask hide here that has to be guessed?
    """

    def visible(self, mask: Tensor | None, words: int) -> Tensor | None:
        count = self.seen
        causal = torch.ones(words, count, dtype=torch.bool, device=self.output_projection.weight.device).tril()
        return causal if mask is None else causal & mask[:, None, None, :]

    def look(self, features: Tensor) -> Tensor:
        self.seen = features.shape[1]
        return super().look(features)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class softmax_on_the_logits(Model):
    """A softmax was taken of the logits.

    The cross-entropy takes one itself, and would take it twice.

    What does the contract say that `forward` returns?
    """

    def finish(self, joined: Tensor) -> Tensor:
        return super().finish(joined).softmax(dim=-1)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class weights_of_the_text_returned(Model):
    """The text's own weights were returned.

    They say which word looked at which word. The contract asks which word looked at which region.

    Which attention has R columns?
    """

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits, own


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class weights_of_the_last_text_block_returned(Model):
    """The weights of the text's last block were returned.

    They say which word looked at which word. The contract asks which word looked at which region.

    Which attention has R columns?
    """

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits, own[-1]


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class weights_not_returned(Model):
    """The weights were not returned.

    They are what is drawn when one asks where a model looked.

    What does the contract say that `forward` returns?
    """

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class weights_averaged_over_the_heads(Model):
    """The weights were averaged over the heads.

    Heads look at different things, and the mean shows none of it. The contract asks for `(B, H, T, R)`.

    How many dimensions do the weights have in the contract?
    """

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits, weights.mean(dim=1)


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class weights_of_one_head(Model):
    """The weights of the first head alone were returned.

    Heads look at different things. The contract asks for all of them, `(B, H, T, R)`.

    How many dimensions do the weights have in the contract?
    """

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits, weights[:, 0]


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class weights_transposed(Model):
    """The weights were returned with words and regions exchanged, `(B, H, R, T)`.

    A row should belong to a word and sum to 1: it says where that word looked.

    What does one row of your weights sum to?
    """

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits, weights.mT


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class logits_of_the_last_word_only(Model):
    """Only the last word's logits were returned.

    In training every position is a question of its own. Only the greedy loop has no use for the others.

    How many dimensions do the logits have in the contract?
    """

    def give(self, logits: Tensor, weights: Tensor, own: Any) -> Any:
        return logits[:, -1], weights


@misconception(replaces="ImageCaptioning", caught_by="test_regions_are_a_set")
class region_mask_ignored(Model):
    """`region_mask` was not used.

    Regions that are not there then take part of every word's attention.

    Where in your `forward` is the mask read?
    """

    def visible(self, mask: Tensor | None, words: int) -> Tensor | None:
        return None


@misconception(replaces="ImageCaptioning", caught_by="test_regions_are_a_set")
class region_mask_inverted(Model):
    """`region_mask` was used upside down: regions that are there are hidden.

    In this course True means "may attend", and here a region that is there.

    What does a True in `region_mask` mean, and what does one mean in step 20's mask?
    """

    def visible(self, mask: Tensor | None, words: int) -> Tensor | None:
        return None if mask is None else ~mask[:, None, None, :]


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class every_region_hidden_without_a_mask(region_mask_inverted):
    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        hidden = torch.zeros(1, dtype=torch.bool, device=text.device)
        return super().attend(text, regions, hidden if visible is None else visible)


@misconception(replaces="ImageCaptioning", caught_by="test_regions_are_a_set")
class hidden_regions_set_to_zero(Model):
    """Hidden regions were set to zero, and not masked.

    A vector of zeros is still a key: its score is 0 and its weight is not.

    Which weight should a region that is not there get, exactly?
    """

    def forward(self, image_features: Tensor, text_ids: Tensor, region_mask: Tensor | None = None) -> Any:
        if region_mask is not None:
            image_features = image_features * region_mask[..., None].to(image_features.dtype)
        return super().forward(image_features, text_ids)


@misconception(replaces="ImageCaptioning", caught_by="test_regions_are_a_set")
class region_mask_not_unsqueezed(Model):
    """`region_mask` was handed to the attention as `(B, R)`, or with its dimensions in the wrong places.

    Aligned from the right, its rows would belong to queries. It is a mask of keys, the same for all heads and words:
    `(B, 1, 1, R)`.

    Which two dimensions of `(B, H, T, R)` does the mask not have?
    """

    def visible(self, mask: Tensor | None, words: int) -> Tensor | None:
        return mask


@misconception(replaces="ImageCaptioning", caught_by="test_regions_are_a_set")
class region_mask_after_the_softmax(Model):
    """Hidden regions lost their weights after the softmax, and the others were not raised.

    The weights of a word then no longer sum to 1.

    What do the weights of a word sum to, with and without a mask?
    """

    def attend(self, text: Tensor, regions: Tensor, visible: Tensor | None) -> tuple[Tensor, Tensor]:
        attended, weights = self.cross_attention(text, regions, regions)
        return attended, weights if visible is None else weights * visible


@misconception(replaces="ImageCaptioning", caught_by="test_sizes")
class other_default_sizes(Model):
    """The default sizes are not the contract's.

    Whoever makes the model without naming sizes expects those of the contract.

    Which default does the contract give for each argument?
    """

    def __init__(
        self, vocab_size: int, d_model: int = 256, n_heads: int = 8, n_layers: int = 4, *given: Any, **named: Any
    ) -> None:
        super().__init__(vocab_size, d_model, n_heads, n_layers, *given, **named)


@misconception(replaces="ImageCaptioning", caught_by="test_sizes")
class too_long_a_text_is_cut(Model):
    """A text longer than `max_seq_len` was cut.

    Then logits are missing that the caller asked for. The contract asks for an error.

    How many logits does a text of T words get?
    """

    def read(self, ids: Tensor) -> tuple[Tensor, Any]:
        return super().read(ids[:, : self.max_seq_len])


@misconception(replaces="ImageCaptioning", caught_by="test_model_agrees_with_fresh_draws")
class image_encoder_without_a_bias(Model):
    """`image_encoder` was made without a bias.

    The four projections of an attention have none in this track; the linear layers around it have one.

    Which parameters does the contract name for `image_encoder`?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.image_encoder = nn.Linear(self.image_encoder.in_features, self.image_encoder.out_features, bias=False)


@misconception(replaces="ImageCaptioning", caught_by="test_dropout")
class dropout_not_handed_to_the_text(Model):
    """`text_decoder` was made without the dropout rate, or with its default.

    Step 21's class takes 0.1 where it is not told otherwise.

    Which arguments does `text_decoder` get when it is made?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for part in self.text_decoder.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.1


@misconception(replaces="ImageCaptioning", caught_by="test_dropout")
class dropout_not_handed_to_cross_attention(Model):
    """`cross_attention` was made without the dropout rate, or with its default.

    Step 20's class takes 0.1 where it is not told otherwise.

    Which arguments does `cross_attention` get when it is made?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.cross_attention.dropout.p = 0.1


@misconception(replaces="ImageCaptioning", caught_by="test_dropout")
class dropout_at_other_places(Model):
    """Dropout also acts on what cross attention adds, on the regions, or on the sum.

    The contract hands it to `text_decoder` and `cross_attention`, and names no other place.

    How many times does one number pass dropout in your model?
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.drop = nn.Dropout(self.cross_attention.dropout.p)

    def join(self, text: Tensor, attended: Tensor) -> Tensor:
        return text + self.drop(attended)


@misconception(replaces="ImageCaptioning", caught_by="test_dtypes_and_device")
class something_always_float32(Model):
    """Something in `forward` is always float32.

    A model that was moved to float64 or bfloat16 works in that dtype from beginning to end.

    Which dtype has a tensor that `torch.zeros` or `.float()` makes?
    """

    def look(self, features: Tensor) -> Tensor:
        return super().look(features.float())


@misconception(replaces="ImageCaptioning", caught_by="test_dtypes_and_device")
class mask_made_on_the_cpu(Model):
    """A tensor of the loop was made without saying on which device.

    It lies on the CPU, wherever the image and the model are.

    Which tensor has the right device, so that a new one can be made like it?
    """

    def read(self, ids: Tensor) -> tuple[Tensor, Any]:
        text, own = super().read(ids)
        return text * torch.ones(ids.shape[1], 1, dtype=text.dtype), own


# --- caption_loss -----------------------------------------------------------------------------------------------------


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padding_counted(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Padding was counted in the loss.

    The model would be trained to write padding, and rewarded most where captions are short.

    Which positions have a word that is to be learned?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def divided_by_all_positions(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The sum over the words that are there was divided by the number of all positions.

    The more padding, the smaller the loss, though the model is no better.

    How many positions did you add up?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    return losses.mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def mean_of_each_captions_mean(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The mean of each caption was taken, and then the mean of those.

    A word of a short caption then counts more than one of a long caption. The contract takes one mean, over all words
    of the batch.

    How much does the one word of a caption of length 1 count beside those of a caption of length 10?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    return (losses.sum(dim=1) / (targets != pad_id).sum(dim=1).clamp(min=1).to(losses.dtype)).mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def sum_in_place_of_the_mean(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The losses were added up, not averaged.

    The gradient would grow with the batch and with the length of its captions.

    By what is the sum divided?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="sum")


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def sum_divided_by_the_captions(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The sum was divided by the number of captions.

    The mean is over words. Divided by the captions, the loss grows with their length.

    How many positions did you add up?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="sum") / len(logits)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def shifted_once_more(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The targets were shifted once more.

    They come already shifted: position t of the logits belongs to position t of the targets. Shifted twice, the model
    learns to leave out every other word.

    Who shifts the targets, the caller or you?
    """
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), targets[:, 1:], ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def reshaped_not_transposed(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The logits were reshaped to `(B, V, T)`, not transposed.

    A reshape keeps the numbers in their order: the logits of one word end up in several columns.

    Which dimension of `(B, T, V)` has to move, and which function moves it?
    """
    return F.cross_entropy(logits.reshape(len(logits), logits.shape[2], -1), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def softmax_over_the_words(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The softmax ran over the positions, not over the vocabulary.

    At each position the words compete with each other, not the positions for a word.

    Over which dimension of `(B, T, V)` should probabilities sum to 1?
    """
    chosen = logits.log_softmax(dim=1).gather(2, targets[..., None])[..., 0]
    return -chosen[targets != pad_id].mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padding_id_fixed_at_zero(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The padding's id was taken to be 0.

    0 may be a word. `pad_id` says which id is padding.

    Where is `pad_id` read in your function?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=0)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def cross_entropy_of_probabilities(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The cross-entropy was taken of probabilities: a softmax came first.

    `F.cross_entropy` takes a softmax itself. Taken twice, it can never come near 0.

    What does `F.cross_entropy` expect, logits or probabilities?
    """
    return F.cross_entropy(logits.softmax(dim=-1).transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def log_of_a_softmax(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The logarithm was taken of a softmax that had underflowed.

    With logits of 1000 a probability is 0 and its logarithm minus infinity.

    Which function takes both at once, and stays finite?
    """
    chosen = logits.softmax(dim=-1).log().gather(2, targets[..., None])[..., 0]
    return -chosen[targets != pad_id].mean()


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def guarded_log_of_a_softmax(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A small number was added before the logarithm.

    It keeps infinities away and caps the loss: with logits of 1000 it should be near 1000, not near 20.

    How large can minus the logarithm of your guard get?
    """
    chosen = (logits.softmax(dim=-1) + 1e-9).log().gather(2, targets[..., None])[..., 0]
    return -chosen[targets != pad_id].mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def sign_left_out(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The sign is wrong: the mean log-probability was returned.

    A loss is to be made small, and this one would make the right words unlikely.

    Is the logarithm of a probability positive or negative?
    """
    return -F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def bits_in_place_of_nats(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The loss was taken in bits.

    Cross-entropy in torch, and here, is in nats: the natural logarithm.

    Which logarithm makes 2 ln 2 of the lesson's example?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id) / math.log(2)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def one_loss_for_each_position(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A loss for each position was returned.

    The contract asks for a scalar, the mean of them.

    How many dimensions has the result in the contract?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def one_loss_for_each_caption(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A loss for each caption was returned.

    The contract asks for a scalar, the mean of them.

    How many dimensions has the result in the contract?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    return losses.sum(dim=1) / (targets != pad_id).sum(dim=1).clamp(min=1)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def loss_always_float32(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The loss is always float32.

    The result has the dtype of the logits.

    Which dtype do the logits have, and which has the result?
    """
    return F.cross_entropy(logits.float().transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padding_left_out_of_the_vocabulary(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The padding's logit was left out of the softmax.

    `pad_id` is an id of the vocabulary: its probability counts, only its positions do not.

    Over how many ids do the probabilities sum to 1?
    """
    hidden = torch.arange(logits.shape[-1], device=logits.device) == pad_id
    return F.cross_entropy(logits.masked_fill(hidden, -1e9).transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def logits_taken_for_log_probabilities(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Logits were taken for log-probabilities: no softmax was taken.

    The loss could then be lowered without end, by adding to all logits alike.

    What do the exponentials of a word's logits sum to, and what should they?
    """
    return F.nll_loss(logits.transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padded_logits_set_to_zero(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The logits of padding were set to zero, and the mean taken over all positions.

    Logits of zero are no missing logits: each such position adds ln V to the sum, and counts in the mean.

    What is the cross-entropy of a position whose logits are all 0?
    """
    logits = logits * (targets != pad_id)[..., None].to(logits.dtype)
    return F.cross_entropy(logits.transpose(1, 2), targets)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def smaller_ids_are_words(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Ids on the wrong side of `pad_id` were left out: it was compared with `<` or `>`.

    Padding is the one id that equals `pad_id`; the ids on both sides of it are words.

    Which comparison keeps every id but one?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    there = targets > pad_id
    return losses[there].sum() / there.sum().clamp(min=1)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def labels_smoothed(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The targets were smoothed: a tenth of each was spread over the vocabulary.

    The paper of 2017 trains so. This contract asks for the plain cross-entropy.

    What is the loss of a word of probability 1, in the contract and in yours?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, label_smoothing=0.1)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def perplexity_in_place_of_the_loss(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The perplexity was returned, the exponential of the loss.

    It is a number for people to read. What is trained is the mean cross-entropy itself.

    Which of the two adds up over words?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id).exp()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def first_word_left_out(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The first position of each caption was left out of the loss.

    The targets come already shifted: the first of them is the first word of the caption, and has to be learned.

    Which word does the model write after `bos_id`, and from which position does it learn that?
    """
    return F.cross_entropy(logits[:, 1:].transpose(1, 2), targets[:, 1:], ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def targets_changed_in_place(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The caller's targets were overwritten, with -100 where there is padding.

    The next epoch finds ids in them that no embedding knows.

    Which of your lines writes into a tensor that somebody gave you?
    """
    targets[targets == pad_id] = -100
    return F.cross_entropy(logits.transpose(1, 2), targets)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def ids_made_elsewhere(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A tensor in the loss was made without saying on which device.

    It lies where torch's default is, wherever the logits are.

    Which tensor has the right device, so that a new one can be made like it?
    """
    weight = (torch.arange(logits.shape[-1]) != pad_id).to(logits.dtype)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), weight=weight)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def loss_detached(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The loss was cut off from its gradient.

    A loss is there for its gradient: a number alone trains nothing.

    Which call of yours makes a Python number of a tensor, or a tensor without a history?
    """
    return F.cross_entropy(logits.detach().transpose(1, 2), targets, ignore_index=pad_id)


# --- greedy_caption -------------------------------------------------------------------------------------------------


class Loop(translation.Loop):
    """The loop of step 22, in the same pieces: captions end as translations do."""

    def __call__(self, model, image_features, bos_id, eos_id, max_new_tokens, region_mask=None) -> Tensor:
        return super().__call__(model, image_features, bos_id, eos_id, max_new_tokens, region_mask)

    def ask(self, model: nn.Module, features: Tensor, ids: Tensor, region_mask: Tensor | None) -> Tensor:
        return model(features, ids, region_mask)[0]


def loop(*parts: type) -> dict[str, Any]:
    """The loop in which these pieces are wrong."""
    return {"greedy_caption": type("Loop", parts, {})()}


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class bos_not_in_the_result(Loop, translation.bos_not_in_the_result):
    """The result begins with the first word that was written, without `bos_id`.

    It has 1 + max_new_tokens columns, and the first one holds `bos_id`.

    What does the model read at the very first step, and where does it stand in the result?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class rows_go_on_after_eos(Loop, translation.rows_go_on_after_eos):
    """Rows went on after their first `eos_id`.

    What follows the end of a sentence is no caption.

    How does your loop remember which rows have ended?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_with_the_first_row(Loop, translation.stops_with_the_first_row):
    """The loop stopped when the first row ended.

    The other rows then end in the middle of their sentence.

    Which of `any` and `all` asks whether every row has ended?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_when_all_have_ended(Loop, translation.stops_when_all_have_ended):
    """The loop stopped when all rows had ended, and the result is shorter for it.

    Stopping early is fine, but the shape should not depend on the text: the rest is filled with `eos_id`.

    How many columns does the result have in the contract?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_filled_with_zero(Loop, translation.ended_rows_filled_with_zero):
    """Rows that had ended were filled with 0.

    Nobody said that 0 is padding; it may be a word. The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_repeat_their_beginning(Loop, translation.ended_rows_repeat_their_beginning):
    """Rows that had ended were filled with `bos_id`, or with something else than `eos_id`.

    The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class bos_ends_a_row(Loop, translation.bos_ends_a_row):
    """A first token that is `eos_id` ended its row.

    Some models begin with the very id that ends them. Only what was written can end a row.

    What does your loop do when `bos_id` equals `eos_id`?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class logits_of_first_position(Loop, translation.logits_of_first_position):
    """The logits of the first position were read.

    They say what follows `bos_id`, at every step the same. What is to be written follows the last word.

    Which position of `(B, t, V)` belongs to the last word?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class begins_with_zero(Loop):
    """Every row begins with 0: `bos_id` was not used.

    What marks the beginning is the caller's to say.

    Where is `bos_id` read in your function?
    """

    def __call__(
        self, model: nn.Module, image_features: Tensor, bos_id: int, eos_id: int, *given: Any, **named: Any
    ) -> Tensor:
        return super().__call__(model, image_features, 0, eos_id, *given, **named)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class one_ended_row_ends_all(Loop, translation.one_ended_row_ends_all):
    """As soon as one row had ended, all rows were filled with `eos_id`.

    The other images are not described yet. Each row ends by itself.

    How many booleans does your loop keep, one or one per row?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class row_0_ends_all(one_ended_row_ends_all):
    fill = translation.row_0_ends_all.fill


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class only_last_token_fed(translation.only_last_token_fed, Loop):
    """Only the last word was fed to the model.

    It then forgets all words before it, and takes each for the first.

    What does the model need to know to write word t?
    """


@misconception(replaces=loop, caught_by="test_captions_in_eval_mode")
class dropout_on_while_captioning(Loop, translation.dropout_on_while_translating):
    """The model was left in training mode while it captioned.

    Dropout then changes the logits at random: the same image gets another caption each time.

    Which method of a module switches its dropout off?
    """


@misconception(replaces=loop, caught_by="test_captions_in_eval_mode")
class left_in_eval_mode(Loop, translation.left_in_eval_mode):
    """The model was left in eval mode.

    Who trains on afterwards trains without dropout, and is not told.

    Which mode did the model have when it was given, and which has it now?
    """


@misconception(replaces=loop, caught_by="test_captions_in_eval_mode")
class always_put_in_training_mode(Loop, translation.always_put_in_training_mode):
    """The model was put in training mode at the end, whatever mode it had.

    Who evaluates afterwards evaluates with dropout, and is not told.

    Which mode did the model have when it was given, and which has it now?
    """


@misconception(replaces=loop, caught_by="test_regions_that_are_not_there")
class region_mask_not_used(translation.src_mask_not_used, Loop):
    """`region_mask` was not handed to the model.

    Regions that are not there then have a say in the caption.

    With which arguments do you call the model?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class sampled_not_greedy(Loop, translation.sampled_not_greedy):
    """Words were drawn from the softmax, and not taken by their logits.

    Greedy means the arg max: the same image always gets the same caption.

    Which function gives the place of the largest logit?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class smallest_logit_taken(Loop, translation.smallest_logit_taken):
    """The word with the smallest logit was taken.

    The larger its logit, the likelier a word.

    Does your search end at the largest or at the smallest?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_for_all_rows(Loop, translation.one_word_for_all_rows):
    """All rows got the word that was chosen for the first, or for all together.

    Each row has logits of its own. With one row the mistake does not show.

    Along which dimension does your arg max run, and what is left of the batch?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_few(Loop, translation.one_word_too_few):
    """One word too few was written: `bos_id` was counted among the new ones.

    The result has 1 + max_new_tokens columns.

    How many times does your loop run?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_many_read(Loop, translation.one_word_too_many_read):
    """The model read one word more than it had to: the model was called once more at the end.

    With `max_new_tokens = max_seq_len` that is one more than it takes.

    How many words does the model have to read to write the last one?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class eos_not_written(Loop, translation.eos_not_written):
    """The `eos_id` that ends a row was left out, and 0 written from there on.

    The row's first `eos_id` belongs to it, and so do those after it.

    What stands in a row at the step at which it ends?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_as_floats(Loop, translation.ids_as_floats):
    """The ids returned are float32.

    Ids are whole numbers, int64: an embedding takes nothing else.

    Which dtype do `torch.zeros` and `torch.ones` have unless they are told?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_made_on_the_cpu(Loop, translation.ids_made_on_the_cpu):
    """A tensor of the loop was made without saying on which device.

    It lies on the CPU, wherever the image and the model are.

    Which tensor has the right device, so that a new one can be made like it?
    """


# --- two at once ----------------------------------------------------------------------------------------------------

PAIRS = [
    *together(
        (no_causal_mask, causal_mask_transposed),
        (text_not_added, softmax_on_the_logits, cross_attention_reads_the_text),
    ),
    *together((rows_go_on_after_eos, bos_not_in_the_result), (dropout_on_while_captioning, region_mask_not_used)),
]
