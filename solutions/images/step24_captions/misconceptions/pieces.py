"""`ImageCaptioning` cut into pieces, so that each misconception replaces one of them."""

from typing import Any

import torch
from torch import Tensor

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
