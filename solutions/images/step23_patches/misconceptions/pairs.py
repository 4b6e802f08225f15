"""Mistakes that learners make together in step 23."""

from collections.abc import Callable
from typing import Any

from grader.checks.catalogue import Pair, together
from solutions.images.step23_patches.misconceptions.encoder_block import causal_attention_over_patches, post_norm
from solutions.images.step23_patches.misconceptions.patchify import patches_column_by_column, reshaped_without_moving
from solutions.images.step23_patches.misconceptions.pieces import whole
from solutions.images.step23_patches.misconceptions.vision_transformer import (
    class_token_last,
    class_token_without_a_position,
    mean_in_place_of_the_class_token,
    no_final_norm,
    only_the_last_weights,
    positions_not_added,
    softmax_on_the_logits,
)


def _both(first: Callable[..., Any], second: type) -> Pair:
    """A wrong part in a model that is wrong itself."""
    part = whole(first) if isinstance(first, type) else first()
    made = {name: getattr(part["VisionTransformer"], name) for name in ("embedding", "block")}
    return Pair(first, second, part | {"VisionTransformer": type("VisionTransformer", (second,), made)})


PAIRS = [
    *(
        _both(first, second)
        for first in (patches_column_by_column, reshaped_without_moving, causal_attention_over_patches, post_norm)
        for second in (positions_not_added, class_token_last, no_final_norm, mean_in_place_of_the_class_token)
    ),
    *together(
        (positions_not_added, class_token_without_a_position),
        (no_final_norm, softmax_on_the_logits, only_the_last_weights),
    ),
]
