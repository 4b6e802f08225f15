"""What learners get wrong in `unpatchify`, each with the check that catches it."""

import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import misconception
from solutions.images.step23_patches import reference
from solutions.images.step23_patches.misconceptions.pieces import fits


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
