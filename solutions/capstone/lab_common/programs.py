"""What `make train`, `make generate` and `make gpt2` share: whose GPT runs, and where checkpoints are."""

from __future__ import annotations

import re
from pathlib import Path

from grader.labs.parts import Need

from . import model

GPT_NEEDS = (
    Need("step09_fused_qkv", ("CausalSelfAttention",), model, graded_only=True),
    Need("step11_gpt_block", ("Block",), model, graded_only=True),
    Need("step12_gpt", ("GPT", "generate", "next_token_batches"), model),
)
CHECKPOINT = Path("dist") / "train" / "checkpoint.safetensors"
HANGUL = re.compile("[가-힣]")


def shipped(language: str) -> Path:
    """The small trained checkpoint of a language, `en` or `ko`, which comes with the kit."""
    return Path(__file__).with_name(f"small.{language}.safetensors")


def language_of(text: str, otherwise: str) -> str:
    """`ko` for a text with Hangul in it, `en` for one with Latin letters, else `otherwise`."""
    if HANGUL.search(text):
        return "ko"
    return "en" if re.search("[A-Za-z]", text) else otherwise
