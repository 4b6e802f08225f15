"""What learners get wrong in step 23, each with the check that catches it.

A learner's `PatchEmbedding` is made of the same learner's `patchify`, and the model of both. So what is wrong in a
part is wrong in the whole, and each misconception of a part replaces what is made of it, too.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import Pair, misconception, together
from solutions.images.step23_patches import reference

BOTH = ("patchify", "unpatchify", "PatchEmbedding", "VisionTransformer")


class Embedding(reference.PatchEmbedding):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    cut: Callable[[Tensor, int], Tensor] = staticmethod(reference.patchify)

    def forward(self, images: Tensor) -> Tensor:
        return self.projection(self.cut(images, self.patch_size))


class Block(reference.EncoderBlock):
    """As `Embedding`."""

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        return self.attn(normed, normed, normed)

    def feed(self, x: Tensor) -> Tensor:
        return self.mlp(self.ln_2(x))

    def give(self, x: Tensor, weights: Tensor) -> Any:
        return x, weights

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        x = x + attended
        return self.give(x + self.feed(x), weights)


class Model(reference.VisionTransformer):
    """As `Embedding`."""

    embedding: type = reference.PatchEmbedding
    block: type = reference.EncoderBlock

    def __init__(
        self,
        image_size: tuple[int, int],
        patch_size: int,
        in_channels: int,
        n_classes: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(image_size, patch_size, in_channels, n_classes, n_layer, n_head, n_embd, dropout)
        self.patch_embedding = self.embedding(patch_size, in_channels, n_embd)
        self.blocks = self.stack(n_layer, n_embd, n_head, dropout)

    def stack(self, n_layer: int, *given: Any) -> nn.ModuleList:
        return nn.ModuleList(self.block(*given) for _ in range(n_layer))

    def check(self, images: Tensor) -> None:
        if tuple(images.shape[-2:]) != self.image_size:
            raise ValueError(f"images of {tuple(images.shape[-2:])}, but image_size is {self.image_size}")

    def join(self, patches: Tensor) -> Tensor:
        return torch.cat([self.cls_token.expand(len(patches), -1, -1), patches], dim=1)

    def locate(self, tokens: Tensor) -> Tensor:
        return tokens + self.position_embedding

    def drop(self, x: Tensor) -> Tensor:
        return self.dropout(x)

    def pool(self, x: Tensor) -> Tensor:
        return self.ln_f(x)[:, 0]

    def classify(self, x: Tensor) -> Tensor:
        return self.head(self.pool(x))

    def give(self, logits: Tensor, weights: list[Any]) -> Any:
        return logits, weights

    def through(self, x: Tensor) -> tuple[Tensor, list[Any]]:
        all_weights = []
        for block in self.blocks:
            came = block(x)
            x, weights = came if isinstance(came, tuple) else (came, None)  # a wrong block may give its output alone
            all_weights.append(weights)
        return x, all_weights

    def forward(self, images: Tensor) -> Any:
        self.check(images)
        x, weights = self.through(self.drop(self.locate(self.join(self.patch_embedding(images)))))
        return self.give(self.classify(x), weights)


def whole(part: type) -> dict[str, Any]:
    """This part, and the model that is made of it."""
    name, place = ("PatchEmbedding", "embedding") if issubclass(part, Embedding) else ("EncoderBlock", "block")
    return {name: part, "VisionTransformer": type("VisionTransformer", (Model,), {place: part})}


def cutting(cut: Callable[..., Tensor], join: Callable[..., Tensor] | None = None) -> dict[str, Any]:
    """These two functions, and all that is made of them."""
    made = whole(type("PatchEmbedding", (Embedding,), {"cut": staticmethod(cut)}))
    return {"patchify": cut} | ({} if join is None else {"unpatchify": join}) | made


def fits(height: int, width: int, side: int, count: int | None = None) -> tuple[int, int]:
    """Rows and columns of patches; an error where there is a rest, or another number of patches."""
    if height % side or width % side:
        raise ValueError(f"{height} x {width} can't be cut into patches of side {side}")
    if count is not None and height * width != count * side * side:
        raise ValueError(f"{count} patches of side {side} do not fill {height} x {width}")
    return height // side, width // side


def in_order(*order: int) -> dict[str, Any]:
    """Both functions with another order of (B, C, rows, P, columns, P), and what is made of them."""

    def cut(images: Tensor, patch_size: int) -> Tensor:
        batch, channels, height, width = images.shape
        rows, columns = fits(height, width, patch_size)
        cells = images.reshape(batch, channels, rows, patch_size, columns, patch_size)
        return cells.permute(order).reshape(batch, rows * columns, channels * patch_size**2)

    def join(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        rows, columns = fits(height, width, patch_size, patches.shape[1])
        channels = patches.shape[2] // patch_size**2
        sizes = len(patches), channels, rows, patch_size, columns, patch_size
        cells = patches.reshape([sizes[place] for place in order])
        back = [order.index(place) for place in range(6)]
        return cells.permute(back).reshape(len(patches), channels, height, width)

    return cutting(cut, join)


# --- patches ----------------------------------------------------------------------------------------------------------


@misconception(replaces=BOTH, caught_by="test_patches_by_hand", misses_the_point=True)
def reshaped_without_moving() -> dict[str, Any]:
    """The image was reshaped to `(B, N, C * P * P)`, without moving any dimension.

    A reshape keeps the numbers in their order, and so each "patch" is a piece of one pixel row after another.

    Which four dimensions does an image have once rows and columns are split, and which of them belong to one patch?
    """

    def cut(images: Tensor, patch_size: int) -> Tensor:
        rows, columns = fits(*images.shape[2:], patch_size)
        return images.reshape(len(images), rows * columns, -1)

    def join(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        fits(height, width, patch_size, patches.shape[1])
        return patches.reshape(len(patches), -1, height, width)

    return cutting(cut, join)


@misconception(replaces=BOTH, caught_by="test_patchify_agrees_with_fresh_draws")
def patches_column_by_column() -> dict[str, Any]:
    """The patches run column by column.

    They should run row by row, as one reads: the second patch is to the right of the first.

    Which of the two dimensions that count patches has to come first?
    """
    return in_order(0, 4, 2, 1, 3, 5)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand")
def channel_last_in_a_patch() -> dict[str, Any]:
    """Inside a patch the channel comes last: all channels of one pixel stand together.

    That is how image files have it. Here a patch holds its first channel whole, then the second.

    In `(C, P, P)`, which dimension changes slowest?
    """
    return in_order(0, 2, 4, 3, 5, 1)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand")
def pixels_of_a_patch_transposed() -> dict[str, Any]:
    """Inside a patch rows and columns are exchanged.

    Every patch is then mirrored along its diagonal. With patches of one colour it does not show.

    After the split, which of the two dimensions of size P comes from the height?
    """
    return in_order(0, 2, 4, 1, 5, 3)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand")
def channel_not_moved_behind_the_patches() -> dict[str, Any]:
    """The patches were formed, but the channel was left in front of them.

    Then a "patch" holds numbers of several patches, all of one channel. With one channel it does not show.

    Where does C stand in `(B, N, C * P * P)`, before or behind N?
    """
    return in_order(0, 1, 2, 4, 3, 5)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand", misses_the_point=True)
def strips_in_place_of_patches() -> dict[str, Any]:
    """Only the height was cut: the pixel rows of neighbouring patches stayed together.

    The image has to be cut along its width, too, before numbers are put in rows.

    Which dimension counts the patches within one row of patches, and where did you put it?
    """
    return in_order(0, 2, 1, 3, 4, 5)


@misconception(replaces=BOTH, caught_by="test_patchify_agrees_with_fresh_draws")
def only_the_inner_dimensions_moved() -> dict[str, Any]:
    """Patches run column by column, and inside them the channel comes last.

    Patches run row by row; inside a patch come channel, then row, then column.

    Can you write the six dimensions down by name, before and after the permutation?
    """
    return in_order(0, 4, 2, 3, 5, 1)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand")
def height_and_width_exchanged() -> dict[str, Any]:
    """Height and width were exchanged.

    The shape is `(B, C, height, width)`: the number of pixel rows comes first. With square images it does not show.

    What is the third number of an image's shape?
    """

    def cut(images: Tensor, patch_size: int) -> Tensor:
        batch, channels, width, height = images.shape
        rows, columns = fits(height, width, patch_size)
        cells = images.reshape(batch, channels, rows, patch_size, columns, patch_size)
        return cells.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, -1)

    def join(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        return reference.unpatchify(patches, patch_size, width, height)

    return cutting(cut, join)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand")
def square_images_only() -> dict[str, Any]:
    """As many rows as columns of patches were assumed.

    Photographs are rarely square. The numbers of rows and columns follow from height and width, one each.

    How many patches side by side does an image of 2 × 4 have with P = 2, and how many above each other?
    """

    def cut(images: Tensor, patch_size: int) -> Tensor:
        fits(*images.shape[2:], patch_size)
        batch, channels, height, _width = images.shape
        count = height // patch_size
        cells = images.reshape(batch, channels, count, patch_size, count, patch_size)
        return cells.permute(0, 2, 4, 1, 3, 5).reshape(batch, count * count, -1)

    def join(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        fits(height, width, patch_size, patches.shape[1])
        count = math.isqrt(patches.shape[1])
        return reference.unpatchify(patches, patch_size, count * patch_size, count * patch_size)

    return cutting(cut, join)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand")
def three_channels_assumed() -> dict[str, Any]:
    """Three channels were assumed.

    Grey images have one, satellite images a dozen. C is in the shape.

    Where does the number of channels come from in your code?
    """

    def cut(images: Tensor, patch_size: int) -> Tensor:
        rows, columns = fits(*images.shape[2:], patch_size)
        cells = images.reshape(len(images), 3, rows, patch_size, columns, patch_size)
        return cells.permute(0, 2, 4, 1, 3, 5).reshape(len(images), rows * columns, -1)

    def join(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        rows, columns = fits(height, width, patch_size, patches.shape[1])
        cells = patches.reshape(len(patches), rows, columns, 3, patch_size, patch_size)
        return cells.permute(0, 3, 1, 4, 2, 5).reshape(len(patches), 3, height, width)

    return cutting(cut, join)


@misconception(replaces=cutting, caught_by="test_patches_by_hand")
def patches_as_columns(images: Tensor, patch_size: int) -> Tensor:
    """The patches are the columns of the result, not its rows: `(B, C * P * P, N)`.

    That is how `F.unfold` has them. A linear layer acts on the last dimension, which holds one patch's numbers.

    Which of N and C · P · P comes last in the contract?
    """
    return reference.patchify(images, patch_size).mT


@misconception(replaces=cutting, caught_by="test_patches_by_hand")
def patches_before_the_batch(images: Tensor, patch_size: int) -> Tensor:
    """The result is `(N, B, C * P * P)`: the patches come before the batch.

    A sequence of tokens is `(B, N, ...)` throughout this course.

    Which dimension of the result counts the images?
    """
    return reference.patchify(images, patch_size).transpose(0, 1)


@misconception(replaces=cutting, caught_by="test_patches_by_hand")
def patches_left_in_a_grid(images: Tensor, patch_size: int) -> Tensor:
    """The patches were left in a grid: rows and columns of patches are two dimensions.

    A Transformer reads a sequence: N = rows · columns in one dimension.

    How many dimensions has the result in the contract?
    """
    rows, columns = fits(*images.shape[2:], patch_size)
    return reference.patchify(images, patch_size).unflatten(1, (rows, columns))


@misconception(replaces=cutting, caught_by="test_patches_by_hand")
def batch_lost(images: Tensor, patch_size: int) -> Tensor:
    """The patches of all images were put in one sequence.

    Images of a batch have nothing to do with each other. With one image only the shape shows it.

    What is the first dimension of the result?
    """
    return reference.patchify(images, patch_size).flatten(0, 1)


@misconception(replaces=cutting, caught_by="test_patches_by_hand")
def numbers_left_in_a_square(images: Tensor, patch_size: int) -> Tensor:
    """Each patch was left as `(C, P, P)`, not laid out as one row of numbers.

    A linear layer needs one vector a patch.

    How many dimensions has the result in the contract?
    """
    return reference.patchify(images, patch_size).unflatten(2, (images.shape[1], patch_size, patch_size))


@misconception(replaces=cutting, caught_by="test_patches_by_hand")
def made_floating_point(images: Tensor, patch_size: int) -> Tensor:
    """The numbers were turned into floating-point ones.

    To cut an image is to move numbers: the dtype stays, uint8 too.

    Which dtype did the image have, and which has the result?
    """
    return reference.patchify(images.float(), patch_size)


@misconception(replaces=cutting, caught_by="test_patchify_agrees_with_fresh_draws")
def scaled_to_one(images: Tensor, patch_size: int) -> Tensor:
    """The pixels were divided by 255.

    Whether and how pixels are scaled is for the caller to decide, who knows their range.

    Should a pixel's number change when the image is cut?
    """
    return reference.patchify(images / 255, patch_size)


@misconception(replaces=cutting, caught_by="test_patchify_agrees_with_fresh_draws")
def patch_size_taken_for_their_number(images: Tensor, patch_size: int) -> Tensor:
    """`patch_size` was taken for the number of patches along each side.

    P is the side of a patch, in pixels. How many patches that makes follows from the image.

    How many numbers has one patch of C channels, in terms of P?
    """
    return reference.patchify(images, fits(*images.shape[2:], patch_size)[0])


@misconception(replaces=cutting, caught_by="test_patches_by_hand")
def overlapping_patches(images: Tensor, patch_size: int) -> Tensor:
    """The patches overlap: the window moved by one pixel.

    Patches tile the image: the window moves by a whole patch, and each pixel is in one patch.

    By how many pixels does the window move from one patch to the next?
    """
    fits(*images.shape[2:], patch_size)
    windows = images.unfold(2, patch_size, 1).unfold(3, patch_size, 1)
    return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


@misconception(replaces=cutting, caught_by="test_what_does_not_fit_is_an_error")
def a_rest_is_cropped(images: Tensor, patch_size: int) -> Tensor:
    """What fills no whole patch was cut off.

    Part of the image would be lost, and nobody told. The contract asks for an error.

    What is `5 // 2 * 2`, and what becomes of the fifth pixel row?
    """
    _batch, _channels, height, width = images.shape
    whole_rows, whole_columns = height // patch_size * patch_size, width // patch_size * patch_size
    return reference.patchify(images[:, :, :whole_rows, :whole_columns], patch_size)


@misconception(replaces=cutting, caught_by="test_what_does_not_fit_is_an_error")
def a_rest_is_padded(images: Tensor, patch_size: int) -> Tensor:
    """What fills no whole patch was filled up with zeros.

    The model would see pixels that nobody took, and a number of patches that nobody expects. The contract asks for an
    error.

    What does the contract say about a height that is not divisible by `patch_size`?
    """
    right, below = -images.shape[3] % patch_size, -images.shape[2] % patch_size
    return reference.patchify(F.pad(images, (0, right, 0, below)), patch_size)


@misconception(replaces=cutting, caught_by="test_what_does_not_fit_is_an_error")
def only_the_height_is_checked(images: Tensor, patch_size: int) -> Tensor:
    """Only the height was checked; a rest of the width was cut off.

    Part of the image would be lost, and nobody told. The contract asks for an error.

    Which of the two sides does your condition look at?
    """
    columns = images.shape[3] // patch_size * patch_size
    return reference.patchify(images[..., :columns], patch_size)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def unpatchify_only_reshapes(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` only reshapes to `(B, C, height, width)`.

    The pixel rows of a patch then lie one behind the other, where they should lie one below the other.

    Which dimensions did `patchify` move, and which way do they have to move back?
    """
    fits(height, width, patch_size, patches.shape[1])
    return patches.reshape(len(patches), -1, height, width)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def unpatchify_permutes_as_patchify(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` uses the permutation of `patchify`, not its inverse.

    A permutation done twice is rarely the identity.

    Where does each of the six dimensions stand before the permutation, and where should it stand after it?
    """
    rows, columns = fits(height, width, patch_size, patches.shape[1])
    cells = patches.reshape(len(patches), rows, columns, -1, patch_size, patch_size)
    return cells.permute(0, 2, 4, 1, 3, 5).reshape(len(patches), -1, height, width)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def rows_and_columns_exchanged_on_the_way_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """On the way back, patches were laid out column by column.

    Patches run row by row, there and back. With one patch a side it does not show.

    In `patches.reshape(B, ?, ?, C, P, P)`, which number comes first?
    """
    rows, columns = fits(height, width, patch_size, patches.shape[1])
    cells = patches.reshape(len(patches), columns, rows, -1, patch_size, patch_size)
    return cells.permute(0, 3, 2, 4, 1, 5).reshape(len(patches), -1, height, width)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def grid_of_patches_exchanged_on_the_way_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """On the way back, `height / P` was taken for the number of columns of patches, and `width / P` for the rows.

    As many rows as the height has patches: where the image is not square, every row of patches is cut elsewhere.

    How many patches lie side by side in a row, and which side of the image says so?
    """
    columns, rows = fits(height, width, patch_size, patches.shape[1])
    cells = patches.reshape(len(patches), rows, columns, -1, patch_size, patch_size)
    return cells.permute(0, 3, 1, 4, 2, 5).reshape(len(patches), -1, rows * patch_size, columns * patch_size)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def patch_rows_behind_the_grid_on_the_way_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """On the way back, the rows of a patch did not get to their row of patches.

    A row of the image counts row of patches, then row inside the patch; a column likewise.

    In `(B, C, rows, P, columns, P)`, which P belongs to which side of the image?
    """
    rows, columns = fits(height, width, patch_size, patches.shape[1])
    cells = patches.reshape(len(patches), rows, columns, -1, patch_size, patch_size)
    return cells.permute(0, 3, 1, 2, 4, 5).reshape(len(patches), -1, height, width)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def channel_taken_last_on_the_way_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """On the way back, a patch was read as if its channels came last.

    Inside a patch come channel, then row, then column, there and back.

    In `patches.reshape(B, rows, columns, ?, ?, ?)`, which of the three is C?
    """
    rows, columns = fits(height, width, patch_size, patches.shape[1])
    cells = patches.reshape(len(patches), rows, columns, patch_size, patch_size, -1)
    return cells.permute(0, 5, 1, 3, 2, 4).reshape(len(patches), -1, height, width)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def patches_transposed_on_the_way_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """On the way back, rows and columns inside a patch were exchanged.

    Every patch is then mirrored along its diagonal. With patches of one colour it does not show.

    Which of the last two dimensions of `(B, N, C, P, P)` belongs to the height?
    """
    images = reference.unpatchify(patches, patch_size, height, width)
    cells = reference.patchify(images, patch_size).unflatten(2, (-1, patch_size, patch_size)).mT
    return reference.unpatchify(cells.flatten(2), patch_size, height, width)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def channel_last_image(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` gives images with the channel last: `(B, height, width, C)`.

    That is how image files and plots have it. The model's images are `(B, C, height, width)`.

    Which dimension of the result counts the channels?
    """
    return reference.unpatchify(patches, patch_size, height, width).permute(0, 2, 3, 1)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def one_channel_given_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` gives back one channel only.

    C is the last dimension divided by P · P.

    How many channels has a patch of 12 numbers with P = 2?
    """
    return reference.unpatchify(patches, patch_size, height, width)[:, :1]


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def three_channels_given_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` takes every image for one of three channels.

    C is the last dimension divided by P · P: a grey image has one, and a satellite's a dozen.

    How many channels has a patch of 12 numbers with P = 2, and one of 4?
    """
    rows, columns = fits(height, width, patch_size, patches.shape[1])
    cells = patches.reshape(len(patches), rows, columns, 3, patch_size, patch_size)
    return cells.permute(0, 3, 1, 4, 2, 5).reshape(len(patches), 3, height, width)


@misconception(replaces="unpatchify", caught_by="test_unpatchify_is_the_inverse")
def square_images_on_the_way_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` takes every image for a square one: as many rows of patches as the root of their number.

    Height and width are given, and they may differ.

    How many rows of patches has an image of 2 × 4 with P = 1?
    """
    side = int(patches.shape[1] ** 0.5)
    fits(height, width, patch_size, patches.shape[1])
    cells = patches.reshape(len(patches), side, side, -1, patch_size, patch_size)
    return cells.permute(0, 3, 1, 4, 2, 5).reshape(len(patches), -1, side * patch_size, side * patch_size)


@misconception(replaces="unpatchify", caught_by="test_what_does_not_fit_is_an_error")
def any_number_of_patches_accepted(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` takes any number of patches: what is too much is left out, or spread over other channels.

    N patches of side P make an image of N · P · P pixels, and of no other size. The contract asks for an error.

    What would tell you that six patches can't fill this image?
    """
    rows, columns = fits(height, width, patch_size)
    missing = max(rows * columns - patches.shape[1], 0)
    fitted = F.pad(patches, (0, 0, 0, missing))[:, : rows * columns]
    return reference.unpatchify(fitted, patch_size, height, width)


@misconception(replaces="unpatchify", caught_by="test_what_does_not_fit_is_an_error")
def channels_from_what_is_left(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """The number of channels was left to `-1`, and the number of patches never looked at.

    Then patches that do not fill the image become channels that it does not have. The contract asks for an error.

    Which two numbers have to agree before you reshape?
    """
    rows, columns = fits(height, width, patch_size)
    cells = patches.reshape(len(patches), rows, columns, -1, patch_size, patch_size)
    return cells.permute(0, 3, 1, 4, 2, 5).reshape(len(patches), -1, height, width)


@misconception(replaces="unpatchify", caught_by="test_what_does_not_fit_is_an_error")
def a_rest_is_left_out_on_the_way_back(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """`unpatchify` accepts a height or width with a rest, and gives a smaller image.

    The caller asked for an image of this size. The contract asks for an error.

    What does `height // patch_size` do with a rest?
    """
    rows, columns = height // patch_size, width // patch_size
    if rows * columns != patches.shape[1]:
        raise ValueError(f"{patches.shape[1]} patches")
    return reference.unpatchify(patches, patch_size, rows * patch_size, columns * patch_size)


# --- PatchEmbedding ---------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_patch_embedding")
class no_bias_in_the_projection(Embedding):
    """The projection has no bias.

    The contract names one, and convolutions and ViT have one.

    Which argument of `nn.Linear` decides about the bias?
    """

    def __init__(self, patch_size: int, in_channels: int, d_model: int) -> None:
        super().__init__(patch_size, in_channels, d_model)
        self.projection = nn.Linear(in_channels * patch_size**2, d_model, bias=False)


@misconception(replaces=whole, caught_by="test_patch_embedding")
class bias_not_added(Embedding):
    """The projection's bias was not added.

    It is a parameter of `projection` like its weight. A convolution adds one only where it is given one.

    Which of the projection's two parameters does your code use?
    """

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) - self.projection.bias


@misconception(replaces=whole, caught_by="test_patch_embedding")
class convolution_of_stride_one(Embedding):
    """The convolution has stride 1.

    Then there is a vector for each place where the kernel fits, and not for each patch.

    By how many pixels does the kernel have to move?
    """

    def forward(self, images: Tensor) -> Tensor:
        kernel = self.projection.weight.unflatten(1, (-1, self.patch_size, self.patch_size))
        return F.conv2d(images, kernel, self.projection.bias).flatten(2).mT


@misconception(replaces=whole, caught_by="test_patch_embedding")
class projection_is_a_convolution(Embedding):
    """`projection` is an `nn.Conv2d`.

    It computes the same, but its weight has another shape, and parameters could not be loaded. The contract names
    `nn.Linear`.

    How could a linear layer's weight be seen as a kernel when the convolution is called?
    """

    def __init__(self, patch_size: int, in_channels: int, d_model: int) -> None:
        super().__init__(patch_size, in_channels, d_model)
        self.projection = nn.Conv2d(in_channels, d_model, patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        return self.projection(images).flatten(2).mT


@misconception(replaces=whole, caught_by="test_patch_embedding")
class embedding_not_transposed(Embedding):
    """The result is `(B, d_model, N)`.

    That is how a convolution has it. Tokens are rows: `(B, N, d_model)`.

    Which dimension does a convolution put its channels in, and where do blocks expect them?
    """

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).mT


@misconception(replaces=whole, caught_by="test_patch_embedding")
class activation_behind_the_projection(Embedding):
    """There is an activation behind the projection.

    The embedding is linear. A ReLU would throw half of what it says about a patch away.

    What does the contract say that the result equals?
    """

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(super().forward(images))


@misconception(replaces=whole, caught_by="test_patch_embedding")
class kernel_transposed(Embedding):
    """In the convolution's kernel rows and columns are exchanged, or its channels come last.

    The weight's columns are in the order of a patch: channel, row, column.

    Which shape does the weight have to be seen in, and which dimension of it changes slowest?
    """

    def forward(self, images: Tensor) -> Tensor:
        kernel = self.projection.weight.unflatten(1, (-1, self.patch_size, self.patch_size)).mT
        return F.conv2d(images, kernel, self.projection.bias, stride=self.patch_size).flatten(2).mT


@misconception(replaces=whole, caught_by="test_patch_embedding")
class layer_made_in_forward(Embedding):
    """The linear layer was made in `forward`.

    Then each call has new random weights, and there is nothing to train.

    Which method is called once, and which one for each batch?
    """

    def forward(self, images: Tensor) -> Tensor:
        patches = self.cut(images, self.patch_size)
        return nn.Linear(patches.shape[-1], len(self.projection.weight), device=images.device)(patches.float())


# --- EncoderBlock -----------------------------------------------------------------------------------------------------


@misconception(replaces=whole, caught_by="test_no_patch_comes_first", misses_the_point=True)
class causal_attention_over_patches(Block):
    """The attention is causal: a patch does not see those to the right of it and below.

    A causal mask hides what is yet to be written. An image is there at once, and no patch of it comes before another;
    and the class token, being first, would see nothing at all.

    What would a mask hide here that has to be guessed?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        count = normed.shape[1]
        visible = torch.ones(count, count, dtype=torch.bool, device=normed.device).tril()
        return self.attn(normed, normed, normed, visible)


@misconception(replaces=whole, caught_by="test_no_patch_comes_first")
class earlier_patches_hidden(Block):
    """The earlier patches are hidden from the later ones.

    No part of an image has to be hidden from another.

    What would a mask hide here that has to be guessed?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        count = normed.shape[1]
        visible = torch.ones(count, count, dtype=torch.bool, device=normed.device).triu()
        return self.attn(normed, normed, normed, visible)


@misconception(replaces=whole, caught_by="test_no_patch_comes_first")
class own_token_hidden(Block):
    """Each token is hidden from itself.

    No part of an image has to be hidden from another, nor from itself.

    Which entries on the diagonal of the weights should be 0?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        count = normed.shape[1]
        return self.attn(normed, normed, normed, ~torch.eye(count, dtype=torch.bool, device=normed.device))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class post_norm(Block):
    """The norms stand behind the sums: post-norm.

    The encoder of step 21 has it that way. ViT, like GPT-2, normalises what a branch reads, and leaves the stream
    alone.

    In `x + attn(ln_1(x))`, what does the norm act on?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(x)
        x = self.ln_1(x + attended)
        return self.give(self.ln_2(x + self.mlp(x)), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class keys_and_values_not_normed(Block):
    """Only the queries were normalised; keys and values come from the stream as it is.

    In `attn(ln_1(x))` all three are the normalised tokens.

    Which three tensors does the attention get?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attn(self.ln_1(x), x, x)
        x = x + attended
        return self.give(x + self.feed(x), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_residual_around_attention(Block):
    """What attention gives replaced the stream, and was not added to it.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of attention?
    """

    def forward(self, x: Tensor) -> Any:
        x, weights = self.attend(self.ln_1(x))
        return self.give(x + self.feed(x), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_residual_around_the_mlp(Block):
    """What the MLP gives replaced the stream, and was not added to it.

    Without the residual a token forgets what it was before this branch.

    What is added to the output of the MLP?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        return self.give(self.feed(x + attended), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class residual_from_the_normed(Block):
    """The normalised tokens were added to the branches, not the stream itself.

    The stream has to pass from the first block to the last without a norm in its way.

    In `x + attn(ln_1(x))`, which x is the first one?
    """

    def forward(self, x: Tensor) -> Any:
        x = self.ln_1(x)
        attended, weights = self.attend(x)
        x = self.ln_2(x + attended)
        return self.give(x + self.mlp(x), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class one_norm_for_both(Block):
    """`ln_1` normalises for both branches.

    The contract names two norms, each with weights of its own.

    Which norm does your `forward` never call?
    """

    def feed(self, x: Tensor) -> Tensor:
        return self.mlp(self.ln_1(x))


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class mlp_reads_the_block_input(Block):
    """The MLP reads the block's input, from before attention.

    It should work on what attention has just gathered.

    Which x does the second line of the contract speak of?
    """

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        return self.give(x + attended + self.feed(x), weights)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class mlp_without_a_norm(Block):
    """The MLP reads the stream without a norm.

    Each branch reads through a norm of its own.

    Which norm does your `forward` never call?
    """

    def feed(self, x: Tensor) -> Tensor:
        return self.mlp(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class no_mlp(Block):
    """The MLP was left out.

    Attention only mixes tokens; the MLP is where each of them is worked on.

    Which of the block's submodules does your `forward` never call?
    """

    def feed(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class exact_gelu(Block):
    """The MLP uses the exact GELU.

    ViT as it was published does. Here the MLP is step 11's, with GPT-2's tanh form.

    Which form of the GELU does step 11 ask for?
    """

    def feed(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.mlp.c_fc(self.ln_2(x)))
        return F.dropout(self.mlp.c_proj(hidden), self.mlp.dropout, self.training)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class relu_in_the_mlp(Block):
    """The MLP uses ReLU.

    That was step 21's feed-forward. Here the MLP is step 11's, with the tanh form of GELU.

    Which activation does step 11 ask for?
    """

    def feed(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.mlp.c_fc(self.ln_2(x)))
        return F.dropout(self.mlp.c_proj(hidden), self.mlp.dropout, self.training)


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class attention_over_the_batch(Block):
    """The first dimension was taken for the tokens: attention ran over the batch.

    Patches of one image then look at the same place of other images.

    Which dimension of `(B, T, n_embd)` counts the tokens?
    """

    def attend(self, normed: Tensor) -> tuple[Tensor, Tensor]:
        attended, weights = super().attend(normed.transpose(0, 1))
        return attended.transpose(0, 1), weights


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class weights_not_returned(Block):
    """The weights were not returned.

    They are what is drawn when one asks where a model looked.

    What does the contract say that `forward` returns?
    """

    def give(self, x: Tensor, weights: Tensor) -> Any:
        return x


@misconception(replaces=whole, caught_by="test_block_agrees_with_fresh_draws")
class weights_averaged_over_the_heads(Block):
    """The weights were averaged over the heads.

    Heads look at different things, and the mean shows none of it. The contract asks for `(B, H, T, T)`.

    How many dimensions do the weights have in the contract?
    """

    def give(self, x: Tensor, weights: Tensor) -> Any:
        return x, weights.mean(dim=1)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_on_the_branches_too(Block):
    """Dropout also acts on what the branches add.

    Step 21 has it so. Here it acts in the parts only: on the attention weights, and at the MLP's end.

    How many times does one number pass dropout in your block?
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__(n_embd, n_head, dropout)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Any:
        attended, weights = self.attend(self.ln_1(x))
        x = x + self.drop(attended)
        return self.give(x + self.drop(self.feed(x)), weights)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_handed_to_the_attention(Block):
    """The attention was made without the dropout rate of the block, or with its default.

    Step 20's class takes 0.1 where it is not told otherwise.

    Which arguments does the attention get when it is made?
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__(n_embd, n_head, dropout)
        self.attn = reference.MultiHeadAttention(n_embd, n_head)


@misconception(replaces=whole, caught_by="test_dropout")
class dropout_not_handed_to_the_mlp(Block):
    """The MLP was made without the dropout rate of the block.

    Step 11's class takes 0 where it is not told otherwise: the rate has no effect there.

    Which arguments does the MLP get when it is made?
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__(n_embd, n_head, dropout)
        self.mlp = reference.MLP(n_embd)


# --- VisionTransformer ------------------------------------------------------------------------------------------------


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


# --- two at once ------------------------------------------------------------------------------------------------------


def _both(first: Callable[..., Any], second: type) -> Pair:
    """A wrong part in a model that is wrong itself."""
    part = whole(first) if isinstance(first, type) else first()
    made = {name: getattr(part["VisionTransformer"], name) for name in ("embedding", "block")}
    return Pair(first, second, part | {"VisionTransformer": type("VisionTransformer", (second,), made)})


PAIRS = [
    *(
        _both(first, second)
        for first in (patches_column_by_column, reshaped_without_moving, causal_attention_over_patches, post_norm)
        for second in (positions_not_added, class_token_last, no_final_norm, mean_in_place_of_the_class_token)
    ),
    *together(
        (positions_not_added, class_token_without_a_position),
        (no_final_norm, softmax_on_the_logits, only_the_last_weights),
    ),
]
