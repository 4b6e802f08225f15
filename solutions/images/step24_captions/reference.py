"""Image captions

A model that says what it sees. Its image is a set of regions, each a vector of features that some other network has
found. Its text is written word by word, so no word sees a later one; every word attends to every region, and the two
together say which word comes next.

Asked everywhere: views with any strides, more than 1,024 words, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or
those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped.

Off limits: `nn.Transformer`, its encoder, decoder and their layers, and `nn.MultiheadAttention`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.encoder_decoder.step21_encoder.reference import SimpleTransformer


class ImageCaptioning(nn.Module):
    """A causal text model that attends to an image: logits of the next word of a caption.

    Submodules: `image_encoder` (`nn.Linear(feature_dim, d_model)`), `text_decoder` (step 21's `SimpleTransformer`),
    `cross_attention` (step 20's `MultiHeadAttention`), `output_projection` (`nn.Linear(d_model, vocab_size)`), both
    linear layers with a bias. `dropout` goes to `text_decoder` and `cross_attention`, and acts nowhere else.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 512,
        n_heads: int = 8,
        n_layers: int = 6,
        d_ff: int = 2048,
        feature_dim: int = 2048,
        max_seq_len: int = 5000,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.max_seq_len = max_seq_len
        self.image_encoder = nn.Linear(feature_dim, d_model)
        self.text_decoder = SimpleTransformer(vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.output_projection = nn.Linear(d_model, vocab_size)
        ### END SOLUTION

    def forward(
        self, image_features: Tensor, text_ids: Tensor, region_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return (logits, weights): the logits of the word after each word, and where each word looked.

        The text passes `text_decoder` under a causal mask that is made inside, always. Every word then attends to every
        projected region, and `logits = output_projection(text + attended)`. The regions are a set: they have no
        positions.

        Shapes: `image_features` is `(B, R, feature_dim)`, `text_ids` `(B, T)`; the logits are `(B, T, vocab_size)`, the
        weights those of cross attention, `(B, H, T, R)`. `region_mask` is boolean, `(B, R)`, True = a region that is
        there; the others get weight exactly 0. Each image has at least one region; without a mask all are there.

        Raises:
            ValueError: when T is larger than `max_seq_len`.
        """
        ### BEGIN SOLUTION
        num_words = text_ids.shape[1]
        if num_words > self.max_seq_len:
            raise ValueError(f"text_ids has {num_words} words, but max_seq_len is {self.max_seq_len}")
        regions = self.image_encoder(image_features)  # (B, R, feature_dim) -> (B, R, D)
        causal = torch.ones(num_words, num_words, dtype=torch.bool, device=text_ids.device).tril()  # (T, T)
        text, _weights = self.text_decoder(text_ids, causal)  # (B, T, D)
        visible = None if region_mask is None else region_mask[:, None, None, :]  # (B, 1, 1, R)
        attended, weights = self.cross_attention(text, regions, regions, visible)  # (B, T, D), (B, H, T, R)
        return self.output_projection(text + attended), weights
        ### END SOLUTION


def caption_loss(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The mean cross-entropy of the words that are there: `(B, T, V)` logits and `(B, T)` ids -> a scalar.

    The mean runs over all positions of the batch whose target is not `pad_id` (one at least), each counting the same.
    The targets come already shifted: position t of the logits belongs to position t of the targets. `pad_id` is an id
    of the vocabulary, any of them. Logits of 1000 or -1000 are ordinary. The result has the dtype of the logits.
    """
    ### BEGIN SOLUTION
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id)  # (B, V, T), (B, T) -> ()
    ### END SOLUTION


def greedy_caption(
    model: ImageCaptioning,
    image_features: Tensor,
    bos_id: int,
    eos_id: int,
    max_new_tokens: int,
    region_mask: Tensor | None = None,
) -> Tensor:
    """Write a caption of each image, word by word: `(B, R, feature_dim)` -> `(B, 1 + max_new_tokens)` ids (int64).

    Each row begins with `bos_id` and goes on with the arg max of the last position's logits, again and again. After its
    first `eos_id` a row holds `eos_id` only, while the others go on; the shape does not depend on when rows end.
    `bos_id` may equal `eos_id`: the first token ends no row. `region_mask` is handed to the model. The model reads at
    most `max_new_tokens` words, so that `max_new_tokens = max_seq_len` works. It is evaluated in eval mode and gets
    back the mode it had; no input is modified. The function may look at the values of its ids, to stop early.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    ids = torch.full((len(image_features), 1), bos_id, dtype=torch.int64, device=image_features.device)  # (B, 1)
    ended = torch.zeros_like(ids, dtype=torch.bool)  # (B, 1)
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits, _weights = model(image_features, ids, region_mask)  # (B, t, V)
            next_ids = logits[:, -1].argmax(dim=-1, keepdim=True).masked_fill(ended, eos_id)  # (B, 1)
            ended = ended | (next_ids == eos_id)  # (B, 1)
            ids = torch.cat([ids, next_ids], dim=1)  # (B, t + 1)
    model.train(was_training)
    return ids
    ### END SOLUTION
