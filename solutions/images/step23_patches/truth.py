"""The reference of step 23 is right: a convolution, `F.unfold` and Hugging Face's ViT with the same weights agree."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from solutions.core.step11_gpt_block.reference import LayerNorm
from solutions.encoder_decoder.step21_encoder.truth import load_attention
from solutions.images.step23_patches.reference import (
    EncoderBlock,
    PatchEmbedding,
    VisionTransformer,
    patchify,
    unpatchify,
)

B, C, P, D, H, LAYERS, CLASSES = 2, 3, 2, 8, 2, 3, 5
HEIGHT, WIDTH = 4, 6


def images(*shape: int) -> Tensor:
    """Drawn in float64."""
    return torch.randn(shape or (B, C, HEIGHT, WIDTH), dtype=torch.float64)


def spread(module: nn.Module) -> None:
    """Every vector random: norms' weights of 1, biases of 0 and a class token of 0 would hide mistakes."""
    for name, parameter in module.named_parameters():
        if parameter.dim() == 1 or name == "cls_token":
            nn.init.uniform_(parameter, 0.5, 1.5)


@pytest.mark.parametrize("size", ((4, 6), (6, 4), (4, 4), (2, 2)))
@pytest.mark.parametrize("channels", (1, 3))
def test_patches_are_those_of_unfold(size: tuple[int, int], channels: int) -> None:
    """`F.unfold` gives the patches as columns, and `F.fold` takes them back."""
    torch.manual_seed(0)
    given = images(B, channels, *size)
    patches = patchify(given, P)
    assert_close(patches, F.unfold(given, P, stride=P).mT, rtol=0, atol=0)
    assert_close(unpatchify(patches, P, *size), F.fold(patches.mT, size, P, stride=P), rtol=0, atol=0)
    assert_close(unpatchify(patches, P, *size), given, rtol=0, atol=0)


def test_pixel_unshuffle_has_the_same_numbers() -> None:
    """Another built-in moves the same numbers: its channels are channel, row, column, too."""
    torch.manual_seed(0)
    given = images()
    assert_close(patchify(given, P), F.pixel_unshuffle(given, P).flatten(2).mT, rtol=0, atol=0)


def test_embedding_is_a_convolution() -> None:
    """Kernel = stride = patch, and the same weight in another shape."""
    torch.manual_seed(0)
    ours, theirs = PatchEmbedding(P, C, D).double(), nn.Conv2d(C, D, P, stride=P).double()
    theirs.load_state_dict(
        {"weight": ours.projection.weight.view(D, C, P, P).detach(), "bias": ours.projection.bias.detach()}
    )
    given = images()
    assert_close(ours(given), theirs(given).flatten(2).mT)


def test_block_is_torchs_but_for_the_gelu() -> None:
    """`nn.MultiheadAttention` inside of the block, torch's norm, and its tanh GELU."""
    torch.manual_seed(0)
    ours = EncoderBlock(D, H).double()
    spread(ours)
    theirs = nn.MultiheadAttention(D, H, batch_first=True).double()
    load_attention(theirs, ours.attn)
    x = images(B, 5, D)

    def normed(norm: LayerNorm, stream: Tensor) -> Tensor:
        return F.layer_norm(stream, (D,), norm.weight, norm.bias, 1e-5)

    asked = normed(ours.ln_1, x)
    attended, expected_weights = theirs(asked, asked, asked, average_attn_weights=False)
    stream = x + attended
    hidden = F.gelu(ours.mlp.c_fc(normed(ours.ln_2, stream)), approximate="tanh")
    output, weights = ours(x)
    assert_close(output, stream + ours.mlp.c_proj(hidden))
    assert_close(weights, expected_weights)


@pytest.mark.parametrize("implementation", ("sdpa", "eager"))
def test_model_is_hugging_faces(implementation: str) -> None:
    """`ViTForImageClassification`, a tiny one with drawn weights: logits, and the weights of every block."""
    from transformers import ViTConfig, ViTForImageClassification  # here, as it takes seconds that others save

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=H, intermediate_size=4 * D,
        hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-5, image_size=(HEIGHT, WIDTH), patch_size=P, num_channels=C,
        qkv_bias=False, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=CLASSES,
        attn_implementation=implementation,
    )  # fmt: skip
    theirs = ViTForImageClassification(config).double().eval()
    ours = VisionTransformer((HEIGHT, WIDTH), P, C, CLASSES, LAYERS, H, D).double().eval()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.5)
    missing = theirs.load_state_dict(_as_they_call_it(ours, theirs), strict=True)
    assert not missing.missing_keys
    given = images()
    logits, weights = ours(given)
    eager = implementation == "eager"  # it takes its softmax in float32
    got = theirs(given, output_attentions=eager)
    assert_close(logits, got.logits, **({"rtol": 1e-5, "atol": 1e-5} if eager else {}))
    if eager:
        for mine, other in zip(weights, got.attentions, strict=True):
            assert_close(mine, other.double(), rtol=1e-5, atol=1e-6)


def _as_they_call_it(ours: VisionTransformer, theirs: nn.Module) -> dict[str, Tensor]:
    # Our parameters under Hugging Face's names, which are looked up by what they end in.
    mine = dict(ours.state_dict())
    found = {}
    for name, wanted in theirs.state_dict().items():
        found[name] = _of(name, mine, wanted)
    return found


def _of(name: str, mine: dict[str, Tensor], wanted: Tensor) -> Tensor:
    if name.endswith("output.dense.bias") and "attention" in name or name.endswith("o_proj.bias"):
        return torch.zeros_like(wanted)  # theirs has a bias behind the heads, ours none
    whole = {
        "embeddings.cls_token": "cls_token", "embeddings.position_embeddings": "position_embedding",
        "patch_embeddings.projection.weight": "patch_embedding.projection.weight",
        "patch_embeddings.projection.bias": "patch_embedding.projection.bias",
        "vit.layernorm.weight": "ln_f.weight", "vit.layernorm.bias": "ln_f.bias",
        "classifier.weight": "head.weight", "classifier.bias": "head.bias",
    }  # fmt: skip
    parts = {
        "attention.query": "attn.W_q", "attention.key": "attn.W_k", "attention.value": "attn.W_v",
        "attention.q_proj": "attn.W_q", "attention.k_proj": "attn.W_k", "attention.v_proj": "attn.W_v",
        "attention.output.dense": "attn.W_o", "attention.o_proj": "attn.W_o",
        "layernorm_before": "ln_1", "layernorm_after": "ln_2",
        "intermediate.dense": "mlp.c_fc", "output.dense": "mlp.c_proj", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj",
    }  # fmt: skip
    for theirs, own in whole.items():
        if name.endswith(theirs):
            return mine[own].view_as(wanted)
    layer = next(part for part in name.split(".") if part.isdigit())
    module, _dot, kind = name.rpartition(".")
    own = next(own for theirs, own in parts.items() if module.endswith(theirs))
    return mine[f"blocks.{layer}.{own}.{kind}"]


@pytest.mark.parametrize(
    "call",
    (
        lambda: patchify(torch.zeros(1, 1, 5, 4), 2),
        lambda: patchify(torch.zeros(1, 1, 4, 5), 2),
        lambda: unpatchify(torch.zeros(1, 4, 4), 2, 5, 4),
        lambda: unpatchify(torch.zeros(1, 4, 4), 2, 4, 6),
        lambda: VisionTransformer((5, 4), 2, 1, 2, 1, 1, 4),
        lambda: VisionTransformer((4, 6), 2, 1, 2, 1, 1, 4)(torch.zeros(1, 1, 6, 4)),
    ),
)
def test_errors(call: object) -> None:
    """What does not fit is a ValueError."""
    with pytest.raises(ValueError, match=r"\d"):
        call()  # type: ignore[operator]
