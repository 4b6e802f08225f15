"""The reference's classes cut into pieces, the model made of its parts."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from solutions.images.step23_patches import reference


class Embedding(reference.PatchEmbedding):
    """The reference cut into pieces, so that each misconception replaces one of them."""

    cut: Callable[[Tensor, int], Tensor] = staticmethod(reference.patchify)

    def forward(self, images: Tensor) -> Tensor:
        return self.projection(self.cut(images, self.patch_size))


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
            got = block(x)
            x, weights = got if isinstance(got, tuple) else (got, None)  # a wrong block may give its output alone
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


def fits(height: int, width: int, side: int, count: int | None = None) -> tuple[int, int]:
    """Rows and columns of patches; an error where there is a rest, or another number of patches."""
    if height % side or width % side:
        raise ValueError(f"{height} x {width} can't be cut into patches of side {side}")
    if count is not None and height * width != count * side * side:
        raise ValueError(f"{count} patches of side {side} do not fill {height} x {width}")
    return height // side, width // side
