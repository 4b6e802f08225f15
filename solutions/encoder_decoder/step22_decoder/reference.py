"""The decoder, and a model that translates

A decoder block attends twice: to the target as far as it is written, then to the encoder's outputs. Blocks of both
kinds make the encoder-decoder model of 2017. It knows the next word from the source and the words before, and a greedy
loop makes a translation of that.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or
those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped.

Off limits: `nn.Transformer`, its encoder, decoder and their layers, and `nn.MultiheadAttention`.
"""

import torch
from torch import Tensor, nn

from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention
from solutions.encoder_decoder.step21_encoder.reference import FeedForward, SimpleTransformer


class DecoderBlock(nn.Module):
    """One post-norm decoder block: self-attention, cross attention to the encoder's outputs, feed-forward.

    Submodules: `self_attention` and `cross_attention` (step 20's `MultiHeadAttention`), `feed_forward` (step 21's
    `FeedForward`), `ln1`, `ln2`, `ln3` (layer norms with weight and bias, eps 1e-5). `dropout` acts on what each of the
    three branches adds, and goes to the two attentions and the feed-forward.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.self_attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.ln3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(
        self, tgt: Tensor, encoder_output: Tensor, tgt_mask: Tensor | None = None, src_mask: Tensor | None = None
    ) -> Tensor:
        """`ln1(x + dropout(self-attention))`, `ln2(x + dropout(cross attention))`, `ln3(x + dropout(feed-forward))`.

        Each line reads the stream x that the line before it gave. In cross attention the stream asks, and
        `encoder_output` has the keys and the values.

        Shapes: `tgt` is `(B, T, D)`, `encoder_output` `(B, S, D)`, the result `(B, T, D)`. `tgt_mask` broadcasts to
        `(B, H, T, T)` and `src_mask` to `(B, H, T, S)`, True means "may attend". The block makes no mask of its own.
        """
        ### BEGIN SOLUTION
        attended, _weights = self.self_attention(tgt, tgt, tgt, tgt_mask)  # (B, T, D)
        x = self.ln1(tgt + self.dropout(attended))  # (B, T, D)
        attended, _weights = self.cross_attention(x, encoder_output, encoder_output, src_mask)  # (B, T, D)
        x = self.ln2(x + self.dropout(attended))  # (B, T, D)
        return self.ln3(x + self.dropout(self.feed_forward(x)))  # (B, T, D)
        ### END SOLUTION


class EncoderDecoderTransformer(nn.Module):
    """The model of 2017: an encoder for the source, a decoder for the target, and logits of the next word.

    Submodules: `encoder` (step 21's `SimpleTransformer`), `decoder_embedding` and `decoder_pos_embedding`
    (`nn.Embedding`, of `tgt_vocab_size` and `max_seq_len` rows), `decoder_blocks` (`nn.ModuleList` of `n_layers`
    `DecoderBlock`), `ln_final` (as the blocks' norms), `output_projection` (`nn.Linear(d_model, tgt_vocab_size)`, with
    a bias). `n_layers` (0 or more) and `max_seq_len` hold for both sides. `dropout` acts on the sum of the decoder's
    embeddings, and goes to the encoder and to every block.
    """

    def __init__(
        self, src_vocab_size: int, tgt_vocab_size: int, d_model: int = 512, n_heads: int = 8, n_layers: int = 6,
        d_ff: int = 2048, max_seq_len: int = 5000, dropout: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        ### BEGIN SOLUTION
        self.max_seq_len = max_seq_len
        self.encoder = SimpleTransformer(src_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
        self.decoder_embedding = nn.Embedding(tgt_vocab_size, d_model)
        self.decoder_pos_embedding = nn.Embedding(max_seq_len, d_model)
        self.dropout = nn.Dropout(dropout)
        self.decoder_blocks = nn.ModuleList(DecoderBlock(d_model, n_heads, d_ff, dropout) for _ in range(n_layers))
        self.ln_final = nn.LayerNorm(d_model)
        self.output_projection = nn.Linear(d_model, tgt_vocab_size)
        ### END SOLUTION

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """The logits of the word after each target word: `(B, S)` and `(B, T)` ids -> `(B, T, tgt_vocab_size)`.

        The decoder's input is target token plus position (0, 1, ...; not scaled), with dropout on the sum. The causal
        mask is made inside, always. `tgt_mask`, `(B, 1, 1, T)` or what broadcasts with `(T, T)`, hides more: the two
        are joined by "and". `src_mask` is `(B, 1, 1, S)`, as step 20's `padding_mask` makes it: it reaches every block
        of the encoder and every cross attention.

        Raises:
            ValueError: when S or T is larger than `max_seq_len`.
        """
        ### BEGIN SOLUTION
        num_tokens = tgt.shape[1]
        if num_tokens > self.max_seq_len:
            raise ValueError(f"tgt has {num_tokens} tokens, but max_seq_len is {self.max_seq_len}")
        encoded, _weights = self.encoder(src, src_mask)  # (B, S, D)
        visible = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=tgt.device).tril()  # (T, T)
        if tgt_mask is not None:
            visible = visible & tgt_mask  # (B, 1, T, T)
        positions = torch.arange(num_tokens, device=tgt.device)  # (T,)
        x = self.dropout(self.decoder_embedding(tgt) + self.decoder_pos_embedding(positions))  # (B, T, D)
        for block in self.decoder_blocks:
            x = block(x, encoded, visible, src_mask)  # (B, T, D)
        return self.output_projection(self.ln_final(x))  # (B, T, tgt_vocab_size)
        ### END SOLUTION


def greedy_translate(
    model: EncoderDecoderTransformer, src: Tensor, bos_id: int, eos_id: int, max_new_tokens: int,
    src_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Write a translation of `src`, word by word: `(B, S)` ids -> `(B, 1 + max_new_tokens)` ids (int64).

    Each row begins with `bos_id` and goes on with the arg max of the last position's logits, again and again. After its
    first `eos_id` a row holds `eos_id` only, while the others go on; the shape does not depend on when rows end.
    `bos_id` may equal `eos_id`: the first token ends no row. `src_mask` is handed to the model. The decoder reads at
    most `max_new_tokens` tokens, so that `max_new_tokens = max_seq_len` works. The model is evaluated in eval mode and
    gets back the mode it had; no input is modified. The function may look at the values of its ids, to stop early.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    model.eval()
    ids = torch.full((len(src), 1), bos_id, dtype=torch.int64, device=src.device)  # (B, 1)
    ended = torch.zeros_like(ids, dtype=torch.bool)  # (B, 1)
    with torch.no_grad():
        for _ in range(max_new_tokens):
            logits = model(src, ids, src_mask=src_mask)[:, -1]  # (B, t, V) -> (B, V)
            next_ids = logits.argmax(dim=-1, keepdim=True).masked_fill(ended, eos_id)  # (B, 1)
            ended = ended | (next_ids == eos_id)  # (B, 1)
            ids = torch.cat([ids, next_ids], dim=1)  # (B, t + 1)
    model.train(was_training)
    return ids
    ### END SOLUTION
