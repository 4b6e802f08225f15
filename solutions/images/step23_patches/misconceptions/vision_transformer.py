"""What learners get wrong in `VisionTransformer`, each with the check that catches it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.images.step23_patches.misconceptions.encoder_block import causal_attention_over_patches
from solutions.images.step23_patches.misconceptions.pieces import Model


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class class_token_last(Model):
    """The class token was put behind the patches.

    It comes first, and so its position is 0.

    In which order does `torch.cat` get the two?
    """

    def join(self, patches: Tensor) -> Tensor:
        return super().join(patches).roll(-1, dims=1)

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x)[:, -1]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class class_token_last_and_a_patch_read(class_token_last):
    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x)[:, 0]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class class_token_without_a_position(Model):
    """The class token got no position.

    The table has N + 1 rows: the first one is the class token's.

    How many rows of `position_embedding` does your code use?
    """

    def locate(self, tokens: Tensor) -> Tensor:
        return torch.cat([tokens[:, :1], tokens[:, 1:] + self.position_embedding[:, 1:]], dim=1)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class patches_take_positions_from_the_first(Model):
    """The patches took the table's rows from 0, and the class token none, or the last.

    Positions are added after the class token was put in front: row 0 is the class token's.

    Which row of `position_embedding` does the first patch get?
    """

    def locate(self, tokens: Tensor) -> Tensor:
        return torch.cat([tokens[:, :1], tokens[:, 1:] + self.position_embedding[:, :-1]], dim=1)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class positions_not_added(Model):
    """Positions were not added.

    Attention does not know order: without positions an image whose patches were shuffled is the same image.

    What tells the model where a patch was?
    """

    def locate(self, tokens: Tensor) -> Tensor:
        return tokens


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class positions_added_in_every_block(Model):
    """Positions were added before every block.

    They are added once; the stream carries them on.

    Does the sum stand in the loop or in front of it?
    """

    def through(self, x: Tensor) -> tuple[Tensor, list[Any]]:
        all_weights = []
        for number, block in enumerate(self.blocks):
            x, weights = block(x + self.position_embedding if number else x)
            all_weights.append(weights)
        return x, all_weights

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x + self.position_embedding)[:, 0] if len(self.blocks) == 1 else super().pool(x)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class mean_in_place_of_the_class_token(Model):
    """The classifier got the mean of the tokens, not the class token.

    That works too, and some models do it. But then the class token would be of no use, and here it is what gathers.

    Which token was added for the classifier to read?
    """

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x).mean(dim=1)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class mean_of_the_tokens_before_the_norm(mean_in_place_of_the_class_token):
    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x.mean(dim=1))


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class mean_of_the_patches(Model):
    """The classifier got the mean of the patches, not the class token.

    That works too, and some models do it. But then the class token would be of no use, and here it is what gathers.

    Which token was added for the classifier to read?
    """

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x)[:, 1:].mean(dim=1)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class mean_of_the_patches_before_the_norm(mean_of_the_patches):
    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x[:, 1:].mean(dim=1))


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class last_token_read(Model):
    """The classifier got the last token.

    The class token is the first.

    Where in the sequence did you put the class token?
    """

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x)[:, -1]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class first_patch_read(Model):
    """The classifier got the first patch.

    The class token is the first.

    Where in the sequence did you put the class token?
    """

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x)[:, 1]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class every_token_classified(Model):
    """`head` was applied to every token, and logits of all of them returned.

    One image has one class: the class token's logits are the answer.

    How many dimensions do the logits have in the contract?
    """

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class image_read_as_class_token(Model):
    """The class token replaced the first patch.

    It is one token more: N + 1 in all.

    How long is the sequence before and after the class token is added?
    """

    def join(self, patches: Tensor) -> Tensor:
        return torch.cat([self.cls_token.expand(len(patches), -1, -1), patches[:, 1:], patches[:, :1] * 0], dim=1)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class no_final_norm(Model):
    """The norm at the end is missing.

    In pre-norm blocks the stream is never normalised: `head` would read numbers of any size.

    Which submodule does your `forward` never call?
    """

    def pool(self, x: Tensor) -> Tensor:
        return x[:, 0]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class final_norm_before_the_blocks(Model):
    """`ln_f` stands in front of the blocks.

    Its place is behind them, where it normalises what `head` reads.

    What does `ln_f` read, and what reads its output?
    """

    def drop(self, x: Tensor) -> Tensor:
        return super().drop(self.ln_f(x))

    def pool(self, x: Tensor) -> Tensor:
        return x[:, 0]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class tanh_in_front_of_the_head(Model):
    """There is a tanh in front of `head`.

    BERT has such a pooler. Here `head` reads what `ln_f` gives.

    What stands between `ln_f` and `head` in the contract?
    """

    def pool(self, x: Tensor) -> Tensor:
        return torch.tanh(super().pool(x))


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class softmax_on_the_logits(Model):
    """A softmax was taken of the logits.

    The cross-entropy takes one itself, and would take it twice.

    What does the contract say that `forward` returns?
    """

    def classify(self, x: Tensor) -> Tensor:
        return super().classify(x).softmax(dim=-1)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class one_block_repeated(Model):
    """One block was used n_layer times.

    Each layer has weights of its own.

    How many times does your constructor make a block?
    """

    def stack(self, n_layer: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList([self.block(*given)] * n_layer)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class only_the_last_weights(Model):
    """Only the last block's weights were returned.

    The contract asks for a list of every block's weights.

    What becomes of a block's weights when the next block has run?
    """

    def give(self, logits: Tensor, weights: list[Any]) -> Any:
        return logits, weights[-1]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class no_weights_at_all(Model):
    """The weights of the blocks were not returned: the list is empty.

    `forward` gives `(logits, weights)`, one map for each block.

    What does each block return beside its tokens, and where do you keep it?
    """

    def give(self, logits: Tensor, weights: list[Any]) -> Any:
        return logits, []


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class weights_stacked(Model):
    """The weights were stacked into one tensor.

    The contract asks for a list of every block's weights.

    Which type has the second part of the result?
    """

    def give(self, logits: Tensor, weights: list[Any]) -> Any:
        return logits, torch.stack(weights)


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class model_without_weights(Model):
    """The model returns its logits without the weights.

    They are what is drawn when one asks where a model looked.

    What does the contract say that `forward` returns?
    """

    def give(self, logits: Tensor, weights: list[Any]) -> Any:
        return logits


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class model_made_of_causal_blocks(Model):
    """The model's blocks are causal.

    A causal mask hides what is yet to be written. An image is there at once; and the class token, being first, would
    see nothing at all.

    Which block did you build for images, and which one for text?
    """

    block = causal_attention_over_patches


@misconception(replaces="VisionTransformer", caught_by="test_another_size_is_an_error")
class another_size_accepted(Model):
    """Images of another size were accepted where they have as many patches.

    A 6 × 4 image has as many patches as a 4 × 6 one, but its patches lie elsewhere, and the positions would be wrong.

    Is the number of patches enough to know that positions fit?
    """

    def check(self, images: Tensor) -> None:
        pass


@misconception(replaces="VisionTransformer", caught_by="test_another_size_is_an_error")
class another_size_resized(Model):
    """Images of another size were resized.

    The caller then gets logits of an image that was never given. The contract asks for an error.

    Who decides how an image is resized, and how would they know that it was?
    """

    def forward(self, images: Tensor) -> Any:
        return super().forward(F.interpolate(images, self.image_size))


@misconception(replaces="VisionTransformer", caught_by="test_another_size_is_an_error")
class smaller_images_accepted(Model):
    """Smaller images were accepted: the table of positions was cut to their length.

    Row by row, the second row of patches begins at another number in a narrower image: the positions would be wrong.

    What does position 3 mean in an image of two columns, and what in one of three?
    """

    def check(self, images: Tensor) -> None:
        pass

    def locate(self, tokens: Tensor) -> Tensor:
        return tokens + self.position_embedding[:, : tokens.shape[1]]


@misconception(replaces="VisionTransformer", caught_by="test_model_agrees_with_fresh_draws")
class image_size_taken_as_width_and_height(Model):
    """`image_size` was taken for (width, height).

    It is (height, width), as in the shape of the images.

    Which number of `image_size` do you compare with which dimension?
    """

    def check(self, images: Tensor) -> None:
        if tuple(images.shape[-2:]) != self.image_size[::-1]:
            raise ValueError(f"images of {tuple(images.shape[-2:])}")


@misconception(replaces="VisionTransformer", caught_by="test_dropout")
class no_dropout_on_the_sum(Model):
    """The sum of tokens and positions has no dropout.

    The contract names it.

    How many of its numbers does the first block see in training?
    """

    def drop(self, x: Tensor) -> Tensor:
        return x


@misconception(replaces="VisionTransformer", caught_by="test_dropout")
class dropout_on_the_patches_only(Model):
    """Dropout acts on the patches before the class token and the positions come in.

    It acts on the sum, of the class token too.

    Which line comes first, the sum or the dropout?
    """

    def join(self, patches: Tensor) -> Tensor:
        return super().join(self.dropout(patches))

    def drop(self, x: Tensor) -> Tensor:
        return x


@misconception(replaces="VisionTransformer", caught_by="test_dropout")
class dropout_before_the_positions(Model):
    """Dropout acts on the tokens before positions are added.

    It acts on the sum: where a patch was can be dropped, too.

    Which line comes first, the sum or the dropout?
    """

    def locate(self, tokens: Tensor) -> Tensor:
        return self.dropout(tokens) + self.position_embedding

    def drop(self, x: Tensor) -> Tensor:
        return x


@misconception(replaces="VisionTransformer", caught_by="test_dropout")
class dropout_not_handed_to_the_blocks(Model):
    """The blocks were made without the dropout rate.

    Then they never drop anything.

    Which arguments does a block get when it is made?
    """

    def stack(self, n_layer: int, *given: Any) -> nn.ModuleList:
        return super().stack(n_layer, *given[:2])


@misconception(replaces="VisionTransformer", caught_by="test_dtypes_and_device")
class class_token_in_float32(Model):
    """Something in `forward` is always float32.

    A model that was moved to float64 or bfloat16 works in that dtype from beginning to end.

    Which dtype has a tensor that `torch.zeros` or `.float()` makes?
    """

    def join(self, patches: Tensor) -> Tensor:
        return super().join(patches.float())

    def drop(self, x: Tensor) -> Tensor:
        return super().drop(x).to(self.head.weight.dtype)


class CroppingModel(Model):
    """Its patches come from a convolution, which leaves a rest out, and nobody looks at the size."""

    def __init__(self, image_size: tuple[int, int], patch_size: int, *given: Any, **named: Any) -> None:
        whole_size = image_size[0] // patch_size * patch_size, image_size[1] // patch_size * patch_size
        super().__init__(whole_size, patch_size, *given, **named)
        self.image_size = tuple(image_size)

    def forward(self, images: Tensor) -> Any:
        self.check(images)
        side = self.patch_embedding.patch_size
        rows, columns = images.shape[2] // side * side, images.shape[3] // side * side
        images = images[:, :, :rows, :columns]
        x, weights = self.through(self.drop(self.locate(self.join(self.patch_embedding(images)))))
        return self.give(self.classify(x), weights)


@misconception(replaces=("VisionTransformer",), caught_by="test_another_size_is_an_error")
def image_size_with_a_rest_accepted() -> dict[str, Any]:
    """An `image_size` that is no multiple of `patch_size` was accepted.

    A convolution leaves the rest out without a word: part of every image would be lost.

    What does `5 // 2` leave out, and who is told?
    """
    return {"VisionTransformer": CroppingModel}
