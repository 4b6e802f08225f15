"""Right ways of step 24 that are written differently; each gets full marks."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.checks.catalogue import variant
from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.encoder_decoder.step21_encoder.reference import SimpleTransformer
from solutions.images.step24_captions.reference import ImageCaptioning


@variant(replaces="ImageCaptioning")
class as_the_tutorials_write_it(nn.Module):
    """A causal mask by triu with four dimensions, the region mask handed on as a full one."""

    def __init__(
        self, vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6, d_ff: int = 2048,
        feature_dim: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.image_encoder = nn.Linear(feature_dim, d_model)
        self.text_decoder = SimpleTransformer(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.output_projection = nn.Linear(d_model, vocab_size)

    def forward(
        self, image_features: Tensor, text_ids: Tensor, region_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        batch_size, seq_len = text_ids.shape
        image_encoded = self.image_encoder(image_features)
        causal = torch.triu(torch.ones(seq_len, seq_len, device=text_ids.device), diagonal=1) == 0
        text_encoded, _ = self.text_decoder(text_ids, mask=causal.unsqueeze(0).unsqueeze(0))
        mask = None
        if region_mask is not None:
            mask = region_mask.view(batch_size, 1, 1, -1).expand(-1, -1, seq_len, -1)
        attended, weights = self.cross_attention(query=text_encoded, key=image_encoded, value=image_encoded, mask=mask)
        return self.output_projection(text_encoded + attended), weights


@variant(replaces="ImageCaptioning")
class a_mask_of_ones(ImageCaptioning):
    """No region mask is a mask of ones; positions compared; the sum projected as two products."""

    def forward(self, image_features: Tensor, text_ids: Tensor, region_mask: Tensor | None = None) -> Any:
        if region_mask is None:
            region_mask = image_features.new_ones(image_features.shape[:2], dtype=torch.bool)
        place = torch.arange(text_ids.size(1), device=text_ids.device)
        hidden_states, *_rest = self.text_decoder(text_ids, place[:, None] >= place)
        image = F.linear(image_features, self.image_encoder.weight, self.image_encoder.bias)
        looked, maps = self.cross_attention(hidden_states, image, image, region_mask[:, None, None])
        project = self.output_projection
        return project(hidden_states) + F.linear(looked, project.weight), maps


@variant(
    replaces="ImageCaptioning",
    trades="The mask is made once, and moves with the module; for 5,000 words it takes 25 MB, always.",
)
class causal_mask_in_a_buffer(nn.Module):
    """The causal mask in a buffer, as long as the longest text, and cut."""

    def __init__(
        self, vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6, d_ff: int = 2048,
        feature_dim: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.output_projection = nn.Linear(d_model, vocab_size, bias=True)
        self.cross_attention = MultiHeadAttention(d_model, n_heads=n_heads, dropout=dropout)
        self.text_decoder = SimpleTransformer(
            vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len=max_seq_len, dropout=dropout
        )
        self.image_encoder = nn.Linear(feature_dim, d_model, bias=True)
        self.register_buffer("causal", torch.ones(max_seq_len, max_seq_len).tril().bool(), persistent=False)

    def forward(
        self, image_features: Tensor, text_ids: Tensor, region_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        length = text_ids.shape[-1]
        assert length <= len(self.causal), "too long"
        text, _own = self.text_decoder(text_ids, self.causal[:length, :length])
        regions = self.image_encoder(image_features)
        shown = region_mask if region_mask is None else region_mask.unsqueeze(1).unsqueeze(1)
        attended, weights = self.cross_attention(text, regions, regions, shown)
        return self.output_projection(attended.add(text)), weights


@variant(replaces="caption_loss")
def flattened(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Batch and positions in one dimension, as GPT-2's code has it."""
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1), ignore_index=pad_id)


@variant(
    replaces="caption_loss",
    trades="The loss of every word is at hand, to be looked at or weighted; positions of padding are computed, too.",
)
def log_softmax_and_gather(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Log-probabilities, those of the targets, weighted by a mask of ones and zeros."""
    chosen = logits.log_softmax(dim=-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    real = (targets != pad_id).to(logits.dtype)
    return -(chosen * real).sum() / real.sum()


@variant(replaces="caption_loss")
def by_logsumexp(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The logarithm of the sum of exponentials minus the target's logit, in float32 at least."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    one_hot = F.one_hot(targets, logits.shape[-1]).to(wide.dtype)
    losses = wide.logsumexp(dim=2) - (wide * one_hot).sum(dim=2)
    real = targets.ne(pad_id)
    return (losses.masked_fill(~real, 0).sum() / real.sum()).to(logits.dtype)


@variant(replaces="caption_loss")
def weights_of_the_classes(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The padding's class gets the weight 0: torch divides by the sum of the weights."""
    weight = (torch.arange(logits.shape[-1], device=logits.device) != pad_id).to(logits.dtype)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), weight=weight)


@variant(
    replaces="greedy_caption",
    trades="Captions that are short cost less; asking whether all rows have ended makes a GPU wait.",
)
def stops_early_and_is_filled(
    model: nn.Module, image_features: Tensor, bos_id: int, eos_id: int, max_new_tokens: int,
    region_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A list of columns that stops when all rows have ended, and is filled up."""
    mode = model.training
    model.eval()
    columns = [torch.full((image_features.shape[0],), bos_id, device=image_features.device)]
    going = torch.ones_like(columns[0], dtype=torch.bool)
    with torch.no_grad():
        while len(columns) <= max_new_tokens and bool(going.any()):
            logits = model(image_features, torch.stack(columns, dim=1), region_mask=region_mask)[0]
            columns.append(torch.where(going, logits[:, -1].argmax(-1), eos_id))
            going = going & (columns[-1] != eos_id)
    model.train(mode)
    return F.pad(torch.stack(columns, dim=1), (0, 1 + max_new_tokens - len(columns)), value=eos_id)


@variant(replaces="greedy_caption")
def image_by_image(
    model: nn.Module, image_features: Tensor, bos_id: int, eos_id: int, max_new_tokens: int,
    region_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Each image by itself, as Python lists."""
    was_training, rows = model.training, []
    model.eval()
    for b in range(len(image_features)):
        written = [bos_id]
        while len(written) <= max_new_tokens:
            if len(written) > 1 and written[-1] == eos_id:
                written.append(eos_id)
                continue
            mask = None if region_mask is None else region_mask[b : b + 1]
            with torch.no_grad():
                ids = torch.tensor([written], device=image_features.device)
                logits, _maps = model(image_features[b : b + 1], ids, mask)
            written.append(int(logits[0, -1].argmax()))
        rows.append(written)
    if was_training:
        model.train()
    return torch.tensor(rows, device=image_features.device)


@variant(replaces="greedy_caption")
def padded_and_read_again(
    model: nn.Module, image_features: Tensor, bos_id: int, eos_id: int, max_new_tokens: int,
    region_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The whole caption is there from the first step on, padded with eos_id, which the model reads too."""
    mode = model.training
    model.eval()
    ids = torch.full((len(image_features), 1 + max_new_tokens), eos_id, device=image_features.device)
    ids[:, 0] = bos_id
    ended = torch.zeros_like(ids[:, 0], dtype=torch.bool)
    with torch.no_grad():
        for step in range(max_new_tokens):
            logits, _maps = model(image_features, ids[:, :-1], region_mask)
            ids[:, step + 1] = logits[:, step].argmax(-1).masked_fill(ended, eos_id)
            ended |= ids[:, step + 1] == eos_id
    model.train(mode)
    return ids
