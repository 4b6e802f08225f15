"""Image patches and a Vision Transformer

A Transformer reads tokens, and an image has none. So it is cut into square patches, a linear layer makes a vector of
each, and from there on it is an encoder like any other: no mask, since no part of an image comes before another. One
token more, the class token, gathers what the classifier reads.

Asked everywhere: views with any strides, more than 1,024 patches, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A module has no other parameters than those named.
Switched back and forth by `train()` and `eval()`, its own or those of a parent module, it drops in training mode only,
and the same `torch.manual_seed` repeats what is dropped.

Off limits: in `patchify` and `unpatchify` F.unfold, F.fold, F.pixel_shuffle and F.pixel_unshuffle (Tensor.unfold is
allowed); everywhere `nn.Transformer`, its encoder, decoder and their layers, and `nn.MultiheadAttention`.
"""

import torch
from torch import Tensor, nn

from solutions.core.step11_gpt_block.reference import MLP, LayerNorm
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images into square patches, one row of numbers each: `(B, C, height, width)` -> `(B, N, C * P * P)`.

    P is `patch_size` and N = (height / P) * (width / P). Patches run row by row, as one reads; inside a patch come
    channel, then row, then column. Images need not be square; any dtype (uint8 too) and any memory layout.

    Raises:
        ValueError: when height or width is not divisible by `patch_size`.
    """
    ### BEGIN SOLUTION
    batch, channels, height, width = images.shape
    if height % patch_size != 0 or width % patch_size != 0:
        raise ValueError(f"an image of {height} x {width} can't be cut into patches of side {patch_size}")
    rows, columns = height // patch_size, width // patch_size
    cells = images.reshape(batch, channels, rows, patch_size, columns, patch_size)  # (B, C, rows, P, columns, P)
    patches = cells.permute(0, 2, 4, 1, 3, 5)  # (B, rows, columns, C, P, P)
    return patches.reshape(batch, rows * columns, channels * patch_size * patch_size)  # (B, N, C * P * P)
    ### END SOLUTION


def unpatchify(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
    """The inverse of `patchify`: `(B, N, C * P * P)` -> `(B, C, height, width)`, with C from the last dimension.

    Any dtype and any memory layout.

    Raises:
        ValueError: when height or width is not divisible by `patch_size`, or N patches do not fill the image.
    """
    ### BEGIN SOLUTION
    batch, num_patches, numbers = patches.shape
    rows, columns = height // patch_size, width // patch_size
    if (rows * patch_size, columns * patch_size, rows * columns) != (height, width, num_patches):
        raise ValueError(f"{num_patches} patches of side {patch_size} do not fill an image of {height} x {width}")
    channels = numbers // patch_size**2
    cells = patches.reshape(batch, rows, columns, channels, patch_size, patch_size)  # (B, rows, columns, C, P, P)
    return cells.permute(0, 3, 1, 4, 2, 5).reshape(batch, channels, height, width)  # (B, C, height, width)
    ### END SOLUTION


class PatchEmbedding(nn.Module):
    """A vector for each patch: one linear layer, the same for all of them.

    Parameter: `projection`, `nn.Linear(in_channels * patch_size * patch_size, d_model)` with a bias. The result equals
    that of an `nn.Conv2d` with kernel = stride = `patch_size`, whose weight is `projection.weight` seen as
    `(d_model, C, P, P)`; a convolution is allowed here. `patch_size` divides the height and the width of
    images.
    """

    def __init__(self, patch_size: int, in_channels: int, d_model: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.patch_size = patch_size
        self.projection = nn.Linear(in_channels * patch_size * patch_size, d_model)
        ### END SOLUTION

    def forward(self, images: Tensor) -> Tensor:
        """`(B, C, height, width)` -> `(B, N, d_model)`, in the order of `patchify`."""
        ### BEGIN SOLUTION
        embedded: Tensor = self.projection(patchify(images, self.patch_size))  # (B, N, C * P * P) -> (B, N, d_model)
        return embedded
        ### END SOLUTION


class EncoderBlock(nn.Module):
    """One pre-norm block without a mask: every token attends to every token.

    Submodules: `ln_1`, `ln_2` and `mlp` (step 11's `LayerNorm` and `MLP`), `attn` (step 20's `MultiHeadAttention`).
    `dropout` goes to the parts and acts nowhere else: on the attention weights, and at the MLP's end.
    """

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.ln_1 = LayerNorm(n_embd)
        self.attn = MultiHeadAttention(n_embd, n_head, dropout)
        self.ln_2 = LayerNorm(n_embd)
        self.mlp = MLP(n_embd, dropout)
        ### END SOLUTION

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return (x, weights): `x + attn(ln_1(x))`, then `x + mlp(ln_2(x))`.

        `(B, T, n_embd)` -> the same shape, and the attention's weights `(B, H, T, T)`.
        """
        ### BEGIN SOLUTION
        normed = self.ln_1(x)  # (B, T, n_embd)
        attended, weights = self.attn(normed, normed, normed)  # (B, T, n_embd), (B, H, T, T)
        x = x + attended  # (B, T, n_embd)
        return x + self.mlp(self.ln_2(x)), weights
        ### END SOLUTION


class VisionTransformer(nn.Module):
    """An image classifier: patches, a class token, positions, `n_layer` blocks, and a linear layer on the class token.

    Submodules and parameters: `patch_embedding` (`PatchEmbedding`); `cls_token`, an `nn.Parameter` of shape
    `(1, 1, n_embd)`; `position_embedding`, an `nn.Parameter` of shape `(1, N + 1, n_embd)`; `blocks` (`nn.ModuleList`
    of `EncoderBlock`); `ln_f` (step 11's `LayerNorm`); `head`, `nn.Linear(n_embd, n_classes)`. `image_size` is
    `(height, width)`. `dropout` acts on the sum of tokens and positions, and goes to every block.

    Raises:
        ValueError: when height or width is not divisible by `patch_size`.
    """

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
        super().__init__()
        ### BEGIN SOLUTION
        height, width = image_size
        if height % patch_size != 0 or width % patch_size != 0:
            raise ValueError(f"image_size {height} x {width} is no multiple of patch_size = {patch_size}")
        self.image_size = (height, width)
        num_patches = (height // patch_size) * (width // patch_size)
        self.patch_embedding = PatchEmbedding(patch_size, in_channels, n_embd)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, n_embd))
        self.position_embedding = nn.Parameter(0.02 * torch.randn(1, num_patches + 1, n_embd))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(EncoderBlock(n_embd, n_head, dropout) for _ in range(n_layer))
        self.ln_f = LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, n_classes)
        ### END SOLUTION

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return (logits, weights): `(B, C, height, width)` -> `(B, n_classes)`, and a list of every block's weights.

        The class token comes before the patches. All of them get their positions, then dropout; then the blocks,
        `ln_f`, and `head` of the class token alone. The weights are `(B, H, N + 1, N + 1)` each, in order.

        Raises:
            ValueError: when the images' height and width are not `image_size`.
        """
        ### BEGIN SOLUTION
        if tuple(images.shape[-2:]) != self.image_size:
            raise ValueError(f"images of {tuple(images.shape[-2:])}, but image_size is {self.image_size}")
        patches = self.patch_embedding(images)  # (B, N, n_embd)
        tokens = torch.cat([self.cls_token.expand(len(images), -1, -1), patches], dim=1)  # (B, N + 1, n_embd)
        x = self.dropout(tokens + self.position_embedding)  # (B, N + 1, n_embd)
        all_weights = []
        for block in self.blocks:
            x, weights = block(x)  # (B, N + 1, n_embd), (B, H, N + 1, N + 1)
            all_weights.append(weights)
        return self.head(self.ln_f(x)[:, 0]), all_weights  # (B, n_embd) -> (B, n_classes)
        ### END SOLUTION
