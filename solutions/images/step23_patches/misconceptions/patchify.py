"""What learners get wrong in `patchify`, each with the check that catches it."""

import math
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.images.step23_patches import reference
from solutions.images.step23_patches.misconceptions.pieces import Embedding, fits, whole
from solutions.images.step23_patches.misconceptions.unpatchify import unpatchify_only_reshapes

BOTH = ("patchify", "unpatchify", "PatchEmbedding", "VisionTransformer")


def cutting(cut: Callable[..., Tensor], join: Callable[..., Tensor] | None = None) -> dict[str, Any]:
    """These two functions, and all that is made of them."""
    made = whole(type("PatchEmbedding", (Embedding,), {"cut": staticmethod(cut)}))
    return {"patchify": cut} | ({} if join is None else {"unpatchify": join}) | made


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


def alone(wrong: Callable[[], dict[str, Any]], name: str = "patchify", caught_by: str = "") -> Callable[..., Tensor]:
    """The same mistake in one function, beside another one and an embedding (a convolution, say) that are right."""
    made: Callable[..., Tensor] = wrong()[name]
    return another_form(wrong, caught_by=caught_by, replaces=name, in_part=True)(made)


@misconception(replaces=BOTH, caught_by="test_patches_by_hand", misses_the_point=True)
def reshaped_without_moving() -> dict[str, Any]:
    """The image was reshaped to `(B, N, C * P * P)`, without moving any dimension.

    A reshape keeps the numbers in their order, and so each "patch" is a piece of one pixel row after another.

    Which four dimensions does an image have once rows and columns are split, and which of them belong to one patch?
    """

    def cut(images: Tensor, patch_size: int) -> Tensor:
        rows, columns = fits(*images.shape[2:], patch_size)
        return images.reshape(len(images), rows * columns, -1)

    return cutting(cut, unpatchify_only_reshapes)


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


# A function that is wrong by itself, beside the other one and an embedding that are right.
reshaped_without_moving_alone = alone(reshaped_without_moving)
patches_column_by_column_alone = alone(patches_column_by_column)
channel_last_alone = alone(channel_last_in_a_patch)
pixels_transposed_alone = alone(pixels_of_a_patch_transposed)
channel_not_moved_alone = alone(channel_not_moved_behind_the_patches)
height_and_width_exchanged_alone = alone(height_and_width_exchanged)
square_images_to_patches_only = alone(square_images_only)
three_channels_to_patches = alone(three_channels_assumed)
patches_column_by_column_on_the_way_back = alone(
    patches_column_by_column, "unpatchify", "test_unpatchify_is_the_inverse"
)
patches_to_square_images_only = alone(square_images_only, "unpatchify", "test_unpatchify_is_the_inverse")
patches_to_three_channels = alone(three_channels_assumed, "unpatchify", "test_unpatchify_is_the_inverse")
