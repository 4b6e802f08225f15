"""What learners get wrong in `ImageCaptioning`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.images.step24_captions.misconceptions.pieces import Model


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
