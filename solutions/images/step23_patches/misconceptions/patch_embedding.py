"""What learners get wrong in `PatchEmbedding`, each with the check that catches it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.images.step23_patches.misconceptions.pieces import Embedding, whole


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
