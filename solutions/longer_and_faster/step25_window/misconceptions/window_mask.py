"""What learners get wrong in `window_mask`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.longer_and_faster.step25_window.reference import may_attend

# --- the mask -------------------------------------------------------------------------------------------------------


@misconception(replaces="window_mask", caught_by="test_mask_by_hand")
def mask_hides_where_true(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The mask was True where a key is hidden.

    In this course, and in scaled_dot_product_attention, True means that a query may attend.

    What should the diagonal of the mask hold, since every token sees itself?
    """
    positions = torch.arange(num_tokens, device=device)
    return ~may_attend(positions, positions, window, is_causal, num_global)


@misconception(replaces="window_mask", caught_by="test_mask_by_hand")
def mask_of_numbers(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The mask held numbers, 0 and 1, and not True and False.

    A mask of numbers is added to the scores by scaled_dot_product_attention, and ~ does something else to them.

    Which dtype does a comparison give, and what became of it?
    """
    positions = torch.arange(num_tokens, device=device)
    return may_attend(positions, positions, window, is_causal, num_global).float()


@misconception(replaces="window_mask", caught_by="test_mask_of_any_size")
def mask_on_the_cpu(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """The mask was made on the CPU, and `device` was not used.

    A model on an accelerator would mix tensors of two devices.

    Which of the calls makes a new tensor, and what does it have to be told?
    """
    positions = torch.arange(num_tokens)
    return may_attend(positions, positions, window, is_causal, num_global)


@another_form(mask_on_the_cpu)
def mask_written_on_the_cpu(
    num_tokens: int,
    window: int,
    is_causal: bool = True,
    num_global: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Rows and columns are written into it, which shows where `meta` is the default device."""
    mask = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril(window - 1).triu(1 - window)
    mask[:num_global] = True
    mask[:, :num_global] = True
    return mask.tril() if is_causal else mask
