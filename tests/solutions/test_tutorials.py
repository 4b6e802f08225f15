"""The Transformer as tutorials write it, typed in: with its flaws it gets the marks it deserves and each flaw is named;
with them fixed, all points. Steps 19 to 24; the flaws are those that thousands copy."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import pytest

from grader.checks.backends import LocalBackend
from grader.oracle.live import Solution, solutions
from tests.clinic import Clinic

STEPS = {step.number: step for step in solutions()}
HEAD = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclass(frozen=True)
class Tutorial:
    """One class or function as a tutorial has it. `flaws` are the right lines, the tutorial's lines in their place, and
    the name of the misconception that they are."""

    step: int
    name: str
    source: str
    flaws: tuple[tuple[str, str, str], ...]
    imports: str = ""


TUTORIALS = (
    Tutorial(19, "AdditiveAttention", """
        class AdditiveAttention(nn.Module):
            def __init__(self, query_dim, key_dim, hidden_dim):
                super().__init__()
                self.W_a = nn.Linear(query_dim, hidden_dim, bias=False)
                self.U_a = nn.Linear(key_dim, hidden_dim, bias=False)
                self.v_a = nn.Linear(hidden_dim, 1, bias=False)

            def forward(self, query, keys, mask=None):
                energy = torch.tanh(self.W_a(query).unsqueeze(1) + self.U_a(keys))
                scores = self.v_a(energy).squeeze(-1)
                if mask is not None:
                    scores = scores.masked_fill(mask == 0, float("-inf"))
                weights = F.softmax(scores, dim=-1)
                context = torch.bmm(weights.unsqueeze(1), keys).squeeze(1)
                return context, weights
        """, (
            ("weights = F.softmax(scores, dim=-1)", "weights = F.softmax(scores, dim=0)",
             "softmax_over_first_dimension"),
        )),
    Tutorial(20, "MultiHeadAttention", """
        class MultiHeadAttention(nn.Module):
            def __init__(self, d_model, n_heads, dropout=0.1):
                super().__init__()
                assert d_model % n_heads == 0
                self.d_model, self.n_heads, self.d_k = d_model, n_heads, d_model // n_heads
                self.W_q = nn.Linear(d_model, d_model, bias=False)
                self.W_k = nn.Linear(d_model, d_model, bias=False)
                self.W_v = nn.Linear(d_model, d_model, bias=False)
                self.W_o = nn.Linear(d_model, d_model, bias=False)
                self.dropout = nn.Dropout(dropout)

            def forward(self, query, key, value, mask=None):
                batch_size, seq_len = query.size(0), query.size(1)
                key_len = key.size(1)
                Q = self.W_q(query).view(batch_size, seq_len, self.n_heads, self.d_k).transpose(1, 2)
                K = self.W_k(key).view(batch_size, key_len, self.n_heads, self.d_k).transpose(1, 2)
                V = self.W_v(value).view(batch_size, key_len, self.n_heads, self.d_k).transpose(1, 2)
                scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_k)
                if mask is not None:
                    scores = scores.masked_fill(mask == 0, float("-inf"))
                weights = self.dropout(F.softmax(scores, dim=-1))
                output = torch.matmul(weights, V).transpose(1, 2).contiguous()
                return self.W_o(output.view(batch_size, seq_len, self.d_model)), weights
        """, (
            ("key_len = key.size(1)", "key_len = seq_len", "key_reshaped_with_query_length"),
        )),
    Tutorial(21, "SentimentAnalyzer", """
        class SentimentAnalyzer(nn.Module):
            def __init__(self, vocab_size, d_model=256, n_heads=8, n_layers=4, n_classes=3, d_ff=2048,
                         max_seq_len=5000, dropout=0.1):
                super().__init__()
                self.transformer = SimpleTransformer(
                    vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
                self.classifier = nn.Sequential(
                    nn.Linear(d_model, 128), nn.ReLU(), nn.Dropout(dropout), nn.Linear(128, n_classes))

            def forward(self, x, mask=None):
                if mask is None:
                    mask = torch.ones_like(x, dtype=torch.bool)
                output, _ = self.transformer(x, mask.unsqueeze(1).unsqueeze(2))
                real = mask.unsqueeze(-1).to(output.dtype)
                pooled = (output * real).sum(dim=1) / real.sum(dim=1)
                return self.classifier(pooled)
        """, (
            ("pooled = (output * real).sum(dim=1) / real.sum(dim=1)", "pooled = output.mean(dim=1)",
             "mean_over_padding_too"),
        ), "from solutions.encoder_decoder.step21_encoder.reference import SimpleTransformer\n"),
    Tutorial(22, "EncoderDecoderTransformer", """
        class EncoderDecoderTransformer(nn.Module):
            def __init__(self, src_vocab_size, tgt_vocab_size, d_model=512, n_heads=8, n_layers=6, d_ff=2048,
                         max_seq_len=5000, dropout=0.1):
                super().__init__()
                self.encoder = SimpleTransformer(
                    src_vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
                self.decoder_embedding = nn.Embedding(tgt_vocab_size, d_model)
                self.decoder_pos_embedding = nn.Embedding(max_seq_len, d_model)
                self.decoder_blocks = nn.ModuleList(
                    [DecoderBlock(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)])
                self.ln_final = nn.LayerNorm(d_model)
                self.output_projection = nn.Linear(d_model, tgt_vocab_size)
                self.dropout = nn.Dropout(dropout)

            def forward(self, src, tgt, src_mask=None, tgt_mask=None):
                encoder_output, _ = self.encoder(src, src_mask)
                seq_len = tgt.size(1)
                positions = torch.arange(seq_len, device=tgt.device).unsqueeze(0)
                x = self.dropout(self.decoder_embedding(tgt) + self.decoder_pos_embedding(positions))
                causal = torch.tril(torch.ones(seq_len, seq_len, device=tgt.device)).bool()
                tgt_mask = causal if tgt_mask is None else causal & tgt_mask
                for block in self.decoder_blocks:
                    x = block(x, encoder_output, tgt_mask, src_mask)
                return self.output_projection(self.ln_final(x))
        """, (
            ("tgt_mask = causal if tgt_mask is None else causal & tgt_mask", "pass", "no_causal_mask"),
        ), "from solutions.encoder_decoder.step21_encoder.reference import SimpleTransformer\n"
           "from solutions.encoder_decoder.step22_decoder.reference import DecoderBlock\n"),
    Tutorial(23, "patchify", """
        def patchify(images, patch_size):
            b, c, h, w = images.shape
            p = patch_size
            assert h % p == 0 and w % p == 0
            x = images.reshape(b, c, h // p, p, w // p, p)
            x = x.permute(0, 2, 4, 1, 3, 5)
            return x.reshape(b, (h // p) * (w // p), c * p * p)
        """, (
            ("x = x.permute(0, 2, 4, 1, 3, 5)", "pass", "reshaped_without_moving"),
            ("x = x.permute(0, 2, 4, 1, 3, 5)", "x = x.permute(0, 2, 4, 3, 5, 1)", "channel_last_in_a_patch"),
        )),
    Tutorial(24, "ImageCaptioning", """
        class ImageCaptioning(nn.Module):
            def __init__(self, vocab_size, d_model=512, n_heads=8, n_layers=6, d_ff=2048, feature_dim=2048,
                         max_seq_len=5000, dropout=0.1):
                super().__init__()
                self.image_encoder = nn.Linear(feature_dim, d_model)
                self.text_decoder = SimpleTransformer(
                    vocab_size, d_model, n_heads, n_layers, d_ff, max_seq_len, dropout)
                self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
                self.output_projection = nn.Linear(d_model, vocab_size)

            def forward(self, image_features, text_ids, region_mask=None):
                image_encoded = self.image_encoder(image_features)
                seq_len = text_ids.size(1)
                causal = torch.tril(torch.ones(seq_len, seq_len, device=text_ids.device)).bool()
                text_encoded, _ = self.text_decoder(text_ids, causal)
                mask = None if region_mask is None else region_mask.unsqueeze(1).unsqueeze(1)
                attended, weights = self.cross_attention(text_encoded, image_encoded, image_encoded, mask)
                return self.output_projection(text_encoded + attended), weights
        """, (
            ("self.text_decoder(text_ids, causal)", "self.text_decoder(text_ids)", "no_causal_mask"),
            ("mask = None if region_mask is None else region_mask.unsqueeze(1).unsqueeze(1)", "mask = None",
             "region_mask_ignored"),
        ), "from solutions.encoder_decoder.step20_cross_attention.reference import MultiHeadAttention\n"
           "from solutions.encoder_decoder.step21_encoder.reference import SimpleTransformer\n"),
)  # fmt: skip
FLAWS = [(tutorial, *flaw) for tutorial in TUTORIALS for flaw in tutorial.flaws]


def typed(tutorial: Tutorial, right: str = "", wrong: str = "") -> dict[str, object]:
    """What the file defines, with one line as the tutorial has it."""
    source = textwrap.dedent(tutorial.source)
    assert not right or source.count(right) == 1
    names: dict[str, object] = {"__name__": "typed"}
    exec(HEAD + tutorial.imports + source.replace(right, wrong) if right else HEAD + tutorial.imports + source, names)
    return {tutorial.name: names[tutorial.name]}


def points(step: Solution, clinic: Clinic, replaced: dict[str, object]) -> float:
    """The points that a submission gets."""
    verdicts = clinic.verdicts(LocalBackend(step.responder(replaced, watched=True)), 1)
    return sum(check.points for check in step.checks if verdicts[check.name].status == "pass")


@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda tutorial: f"{tutorial.step}")
def test_with_its_flaws_fixed_it_has_all_points(tutorial: Tutorial) -> None:
    step = STEPS[tutorial.step]
    assert points(step, Clinic(step), typed(tutorial)) == step.points


@pytest.mark.thorough
@pytest.mark.parametrize(("tutorial", "right", "wrong", "name"), FLAWS, ids=[f"{f[0].step}-{f[3]}" for f in FLAWS])
def test_each_flaw_costs_points_and_is_named(tutorial: Tutorial, right: str, wrong: str, name: str) -> None:
    step = STEPS[tutorial.step]
    clinic, replaced = Clinic(step), typed(tutorial, right, wrong)
    assert points(step, clinic, replaced) < step.points
    ways = [way for each in clinic.diagnosis(replaced, 1, generated=True).values() for way in each]
    named = {way.form_of or way.name for way in ways}
    assert name in named
