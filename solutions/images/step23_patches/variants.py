"""Right ways of step 23 that are written differently; each gets full marks."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.core.step11_gpt_block.reference import MLP
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.images.step23_patches.reference import EncoderBlock, PatchEmbedding, VisionTransformer

BOTH = ("patchify", "unpatchify")


@variant(
    replaces=BOTH,
    trades="The patches are views, and nothing is copied before the last reshape; the dimensions still need an order.",
)
def views_by_unfold() -> dict[str, Any]:
    """`Tensor.unfold` along the height, then along the width; back by an einsum that only moves dimensions."""

    def patchify(images: Tensor, patch_size: int) -> Tensor:
        if images.size(2) % patch_size or images.size(3) % patch_size:
            raise ValueError(images.shape)
        windows = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
        return windows.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)

    def unpatchify(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        if height % patch_size or width % patch_size:
            raise ValueError((height, width))
        grid = patches.unflatten(1, (height // patch_size, width // patch_size))
        cells = grid.unflatten(3, (-1, patch_size, patch_size))
        return torch.einsum("nhwcpq->nchpwq", cells).flatten(4).flatten(2, 3)

    return {"patchify": patchify, "unpatchify": unpatchify}


@variant(
    replaces=BOTH,
    trades="Each line says which pixels are taken; Python runs the loop once for every patch.",
)
def patch_by_patch() -> dict[str, Any]:
    """Two loops over the patches and slices of the image; back into an empty image."""

    def patchify(images: Tensor, patch_size: int) -> Tensor:
        _batch, _channels, height, width = images.shape
        assert height % patch_size == 0, height
        assert width % patch_size == 0, width
        patches = []
        for top in range(0, height, patch_size):
            for left in range(0, width, patch_size):
                patch = images[:, :, top : top + patch_size, left : left + patch_size]
                patches.append(patch.flatten(1))
        return torch.stack(patches, dim=1)

    def unpatchify(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        batch, num_patches, numbers = patches.shape
        per_row = width // patch_size
        assert num_patches * patch_size**2 == height * width, num_patches
        assert height % patch_size == 0, height
        assert width % patch_size == 0, width
        image = patches.new_empty(batch, numbers // patch_size**2, height, width)
        for n in range(num_patches):
            top, left = n // per_row * patch_size, n % per_row * patch_size
            patch = patches[:, n].reshape(batch, -1, patch_size, patch_size)
            image[:, :, top : top + patch_size, left : left + patch_size] = patch
        return image

    return {"patchify": patchify, "unpatchify": unpatchify}


@variant(replaces=BOTH)
def split_and_joined() -> dict[str, Any]:
    """`split` into rows and columns of patches, and `cat` back."""

    def patchify(images: Tensor, patch_size: int) -> Tensor:
        if (images.shape[2] % patch_size, images.shape[3] % patch_size) != (0, 0):
            raise RuntimeError("does not fit")
        rows = images.split(patch_size, dim=2)
        patches = [patch for row in rows for patch in row.split(patch_size, dim=3)]
        return torch.stack([patch.reshape(len(images), -1) for patch in patches], 1)

    def unpatchify(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        rows, over = divmod(height, patch_size)
        columns, beside = divmod(width, patch_size)
        if over or beside or rows * columns != patches.shape[1]:
            raise RuntimeError("does not fit")
        small = patches.reshape(*patches.shape[:2], -1, patch_size, patch_size).unbind(1)
        lines = [torch.cat(small[row * columns : (row + 1) * columns], dim=-1) for row in range(rows)]
        return torch.cat(lines, dim=-2)

    return {"patchify": patchify, "unpatchify": unpatchify}


@variant(replaces=BOTH)
def looked_up_by_index() -> dict[str, Any]:
    """The place of each number in the flat image, computed from divisions and remainders; back by its inverse."""

    def places(channels: int, side: int, height: int, width: int, device: torch.device) -> Tensor:
        number = torch.arange(channels * height * width, device=device)
        patch, inside = number // (channels * side * side), number % (channels * side * side)
        channel, pixel = inside // (side * side), inside % (side * side)
        y = patch // (width // side) * side + pixel // side
        x = patch % (width // side) * side + pixel % side
        return (channel * height + y) * width + x

    def patchify(images: Tensor, patch_size: int) -> Tensor:
        batch, channels, height, width = images.shape
        if height % patch_size + width % patch_size:
            raise ValueError("no multiple")
        index = places(channels, patch_size, height, width, images.device)
        return images.reshape(batch, -1)[:, index].reshape(batch, -1, channels * patch_size**2)

    def unpatchify(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        channels = patches.shape[2] // patch_size**2
        if height % patch_size or width % patch_size or patches[0].numel() != channels * height * width:
            raise ValueError("does not fill")
        index = places(channels, patch_size, height, width, patches.device)
        return patches.flatten(1)[:, index.argsort()].reshape(-1, channels, height, width)

    return {"patchify": patchify, "unpatchify": unpatchify}


@variant(replaces=BOTH)
def one_dimension_at_a_time() -> dict[str, Any]:
    """Two transposes in place of one permute."""

    def patchify(images: Tensor, patch_size: int) -> Tensor:
        B, C, H, W = images.shape
        if H % patch_size != 0 or W % patch_size != 0:
            raise ValueError("Image dimensions must be divisible by the patch size")
        x = images.reshape(B, C, H // patch_size, patch_size, W // patch_size, patch_size)
        x = x.transpose(3, 4)  # (B, C, H/P, W/P, P, P)
        x = x.reshape(B, C, -1, patch_size * patch_size)  # (B, C, N, P * P)
        return x.transpose(1, 2).reshape(B, x.shape[2], -1)

    def unpatchify(patches: Tensor, patch_size: int, height: int, width: int) -> Tensor:
        if height % patch_size != 0 or width % patch_size != 0:
            raise ValueError("no multiple")
        B, N, _ = patches.shape
        x = patches.reshape(B, N, -1, patch_size * patch_size).transpose(1, 2)
        x = x.reshape(B, x.shape[1], height // patch_size, width // patch_size, patch_size, patch_size)
        return x.transpose(3, 4).reshape(B, x.shape[1], height, width)

    return {"patchify": patchify, "unpatchify": unpatchify}


@variant(
    replaces="PatchEmbedding",
    trades="One call cuts and multiplies, as published models do; the order inside a patch stays hidden in it.",
)
class by_convolution(nn.Module):
    """The linear layer's weight as the kernel of a convolution with kernel = stride."""

    def __init__(self, patch_size: int, in_channels: int, d_model: int) -> None:
        super().__init__()
        self.projection = nn.Linear(in_channels * patch_size**2, d_model)
        self.kernel = d_model, in_channels, patch_size, patch_size

    def forward(self, images: Tensor) -> Tensor:
        weight = self.projection.weight.view(self.kernel)
        return F.conv2d(images, weight, self.projection.bias, stride=self.kernel[-1]).flatten(2).transpose(1, 2)


@variant(replaces="PatchEmbedding")
class by_im2col(PatchEmbedding):
    """`F.unfold`, which is off limits in the two functions only."""

    def forward(self, images: Tensor) -> Tensor:
        side = self.patch_size
        return self.projection(F.unfold(images, side, stride=side).mT)


@variant(replaces="EncoderBlock")
class torchs_norm_and_gelu(nn.Module):
    """`nn.LayerNorm`, a feed-forward of its own with `F.gelu`, and attention written out."""

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int, dropout: float) -> None:
            super().__init__()
            self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.heads, self.drop = heads, nn.Dropout(dropout)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            q, k, v = (W(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
            weights = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=-1)
            weights = self.drop(weights)
            return self.W_o((weights @ v).transpose(1, 2).flatten(2)), weights

    class Wide(nn.Module):
        def __init__(self, width: int, dropout: float) -> None:
            super().__init__()
            self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.drop = nn.Dropout(dropout)

        def forward(self, x: Tensor) -> Tensor:
            return self.drop(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = torchs_norm_and_gelu.Attention(n_embd, n_head, dropout)
        self.mlp = torchs_norm_and_gelu.Wide(n_embd, dropout)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        attended, weights = self.attn(self.ln_1(x))
        x = attended + x
        x = self.mlp(self.ln_2(x)) + x
        return x, weights


@variant(replaces="EncoderBlock")
class a_mask_of_ones(nn.Module):
    """A mask under which everything is visible changes nothing; the pair as a list."""

    def __init__(self, n_embd: int, n_head: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.mlp = MLP(n_embd, dropout=dropout)
        self.attn = MultiHeadAttention(n_embd, n_head, dropout=dropout)
        self.ln_2, self.ln_1 = nn.LayerNorm(n_embd, eps=1e-5), nn.LayerNorm(n_embd, eps=1e-5)

    def forward(self, x: Tensor) -> Any:
        h = self.ln_1(x)
        everything = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device)
        gathered, weights = self.attn(h, h, h, everything)
        x = x + gathered
        return x + self.mlp(self.ln_2(x)), weights


@variant(replaces="VisionTransformer")
class as_the_tutorials_write_it(nn.Module):
    """Class token by `repeat`, positions added to what was joined, an assert on the size, a tuple of weights."""

    def __init__(
        self, image_size: tuple[int, int], patch_size: int, in_channels: int, n_classes: int, n_layer: int,
        n_head: int, n_embd: int, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        assert image_size[0] % patch_size == 0, "height"
        assert image_size[1] % patch_size == 0, "width"
        self.image_size = image_size
        self.patch_embedding = PatchEmbedding(patch_size, in_channels, n_embd)
        n_patches = image_size[0] * image_size[1] // patch_size**2
        self.cls_token = nn.Parameter(torch.randn(1, 1, n_embd))
        self.position_embedding = nn.Parameter(torch.randn(1, n_patches + 1, n_embd))
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList([EncoderBlock(n_embd, n_head, dropout) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, n_classes)

    def forward(self, images: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        B, _C, H, W = images.shape
        assert self.image_size[0] == H, "another height"
        assert self.image_size[1] == W, "another width"
        x = self.patch_embedding(images)
        x = torch.cat((self.cls_token.repeat(B, 1, 1), x), dim=1)
        x = self.drop(x + self.position_embedding)
        maps: tuple[Tensor, ...] = ()
        for block in self.blocks:
            x, weights = block(x)
            maps += (weights,)
        x = self.ln_f(x)
        return self.head(x[:, 0, :]), maps


@variant(replaces="VisionTransformer")
class positions_before_the_class_token(VisionTransformer):
    """Positions added to patches and class token apart, then joined; the norm on the class token alone."""

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        if images.shape[2:] != torch.Size(self.image_size):
            raise ValueError(images.shape)
        first = (self.cls_token + self.position_embedding[:, :1]).expand(images.shape[0], 1, -1)
        others = self.patch_embedding(images) + self.position_embedding[:, 1:]
        x = F.dropout(torch.cat([first, others], dim=-2), self.dropout.p, self.training)
        maps = [torch.empty(0)] * len(self.blocks)
        for i, block in enumerate(self.blocks):
            x, maps[i] = block(x)
        return F.linear(self.ln_f(x.select(1, 0)), self.head.weight, self.head.bias), maps
