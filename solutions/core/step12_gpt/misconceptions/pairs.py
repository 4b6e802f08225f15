"""Mistakes that learners make together in step 12."""

from collections.abc import Callable

from torch import Tensor

from grader.checks.catalogue import together
from solutions.core.step12_gpt.misconceptions.generate import (
    always_greedy,
    context_not_cropped,
    first_tokens_kept,
    left_in_eval_mode,
    only_new_tokens_returned,
    predicts_from_the_first_position,
    sampled_in_train_mode,
    temperature_multiplied,
)
from solutions.core.step12_gpt.misconceptions.gpt import (
    embedding_scaled,
    logits_left_flat,
    loss_in_another_order,
    loss_of_the_last_position,
    loss_shifted_again,
    loss_summed,
    no_final_norm,
    only_last_logits,
    positions_not_added,
    positions_off_by_one,
    probabilities_instead_of_logits,
)
from solutions.core.step12_gpt.misconceptions.next_token_batches import (
    Batches,
    last_batch_dropped,
    targets_not_shifted,
    windows_overlap,
)

EMBEDDINGS = (positions_not_added, positions_off_by_one, no_final_norm, embedding_scaled)
LOSSES = (
    only_last_logits, probabilities_instead_of_logits, logits_left_flat, loss_shifted_again, loss_in_another_order,
    loss_summed, loss_of_the_last_position,
)  # fmt: skip
CHOICES = (temperature_multiplied, always_greedy)
MANNERS = (
    context_not_cropped, first_tokens_kept, sampled_in_train_mode, left_in_eval_mode, predicts_from_the_first_position,
    only_new_tokens_returned,
)  # fmt: skip
WINDOWS = {wrong: wrong for wrong in (windows_overlap, last_batch_dropped)}


def _batches(windows: Callable[[Tensor, int, int], Batches]) -> object:
    def next_token_batches(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
        for inputs, _ in windows(token_ids, context_length, batch_size):
            yield inputs, inputs.clone()

    return next_token_batches


PAIRS = [
    *together(LOSSES, EMBEDDINGS),
    *together(CHOICES, MANNERS),
    *together((context_not_cropped,), (sampled_in_train_mode, left_in_eval_mode, only_new_tokens_returned)),
    *together({targets_not_shifted: None}, WINDOWS, lambda _, windows: _batches(windows)),
]
