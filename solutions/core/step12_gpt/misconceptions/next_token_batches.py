"""What learners get wrong in `next_token_batches`, each with the check that catches it."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step12_gpt import reference

Batches = Iterator[tuple[Tensor, Tensor]]


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_not_shifted(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The targets were the inputs themselves.

    A model that sees a token can repeat it without learning anything. The target of each token is the one after it.

    If the inputs are tokens 0 to 3, which tokens are the targets?
    """
    for inputs, _ in reference.next_token_batches(token_ids, context_length, batch_size):
        yield inputs, inputs.clone()


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def only_the_first_batch(token_ids: Tensor, context_length: int, batch_size: int) -> Any:
    """The first batch was returned, and the loop never came to the others.

    `return` ends the function. A generator hands out one batch after the other and goes on after each.

    Which keyword hands out a value and lets the loop go on?
    """
    return next(iter(reference.next_token_batches(token_ids, context_length, batch_size)))


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_shifted_back(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The shift went the wrong way: each target was the token before its input.

    The model would learn to say what it has just read. It should say what comes next.

    Is token i + 1 the input of token i, or its target?
    """
    for inputs, targets in reference.next_token_batches(token_ids, context_length, batch_size):
        yield targets, inputs


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def windows_overlap(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """A window was started at every token.

    The windows overlap, so each token is used up to T times. The contract starts them at 0, T, 2T, ….

    By how much does the start grow from one window to the next?
    """
    starts = range(len(token_ids) - context_length)
    inputs = torch.stack([token_ids[start : start + context_length] for start in starts])
    targets = torch.stack([token_ids[start + 1 : start + context_length + 1] for start in starts])
    yield from zip(inputs.split(batch_size), targets.split(batch_size), strict=True)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def last_batch_dropped(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The last batch was left out because it was smaller than the others.

    Its windows are as good as any. The last batch may be smaller.

    What happens to 3 windows with a batch size of 2?
    """
    for inputs, targets in reference.next_token_batches(token_ids, context_length, batch_size):
        if len(inputs) == batch_size:
            yield inputs, targets


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def rows_continue_in_the_next_batch(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The text was cut into batch_size long strips, and each batch took the next piece of every strip.

    That is the order for recurrent networks, which carry a state from batch to batch. Here window i starts at i * T,
    and the windows come in that order.

    At which token does the second row of the first batch start?
    """
    num_windows = (len(token_ids) - 1) // context_length
    per_strip = -(-num_windows // batch_size)
    order = [strip * per_strip + step for step in range(per_strip) for strip in range(batch_size)]
    starts = [window * context_length for window in order if window < num_windows]
    inputs = torch.stack([token_ids[start : start + context_length] for start in starts])
    targets = torch.stack([token_ids[start + 1 : start + context_length + 1] for start in starts])
    yield from zip(inputs.split(batch_size), targets.split(batch_size), strict=True)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def last_window_dropped(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The last window was lost although its targets were all there.

    With N = 2T + 1 tokens there are two windows: the second one's last target is the very last token. The range of
    starts ended one too early.

    What is the largest start for which token start + T still exists?
    """
    kept = len(token_ids) - 1 if (len(token_ids) - 1) % context_length == 0 else len(token_ids)
    return reference.next_token_batches(token_ids[:kept], context_length, batch_size)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def last_target_missing(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """A window was begun wherever T inputs are left, although the last of them has no target.

    With N = 2T tokens the second window lacks its last target. There are ⌊(N - 1) / T⌋ windows, and not ⌊N / T⌋.

    How many tokens does one window need, inputs and targets together?
    """
    starts = range(0, len(token_ids) - context_length + 1, context_length)
    for first in range(0, len(starts), batch_size):
        chosen = starts[first : first + batch_size]
        inputs = torch.stack([token_ids[start : start + context_length] for start in chosen])
        yield inputs, torch.stack([token_ids[start + 1 : start + context_length + 1] for start in chosen])


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def batches_made_on_the_cpu(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The batches were made on the CPU, wherever token_ids was: from a list of numbers, or in a new tensor, say.

    When token_ids is on a GPU, the batches should be there as well.

    What does token_ids[2:5] give, and on which device is it?
    """
    ids = token_ids.tolist()
    starts = range(0, len(ids) - context_length, context_length)
    for first in range(0, len(starts), batch_size):
        chosen = starts[first : first + batch_size]
        inputs = torch.tensor([ids[start : start + context_length] for start in chosen])
        yield inputs, torch.tensor([ids[start + 1 : start + context_length + 1] for start in chosen])


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_wrap_around(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The last target was taken from the beginning of the text.

    torch.roll and the like bring the first token to the end, where nothing follows. A window whose last target does
    not exist is left out: there are ⌊(N - 1) / T⌋ of them.

    Which token follows the last one?
    """
    once_more = torch.cat((token_ids, token_ids[:1]))
    return reference.next_token_batches(once_more, context_length, batch_size)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def windows_shuffled(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The windows came in random order.

    Shuffling is useful in training, but here the contract asks for the windows in order: 0, T, 2T, ….

    Which line changes the order?
    """
    num_windows = (len(token_ids) - 1) // context_length
    starts = (torch.randperm(num_windows - 1) + 1).tolist() + [0]  # never in order
    inputs = torch.stack([token_ids[start * context_length :][:context_length] for start in starts])
    targets = torch.stack([token_ids[start * context_length + 1 :][:context_length] for start in starts])
    yield from zip(inputs.split(batch_size), targets.split(batch_size), strict=True)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def one_target_a_window(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """Each window had one target, the token after its end.

    The model predicts a next token at every position, so a window of T tokens has T targets.

    What shape do the targets have in the contract?
    """
    for inputs, targets in reference.next_token_batches(token_ids, context_length, batch_size):
        yield inputs, targets[:, -1]


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_wrap_around_in_their_window(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The last target of each window was the window's own first token.

    `roll` brings what it pushes out at one end back in at the other. What follows the last input stands in the
    text, right after the window.

    Which token of the text follows the last input of a window?
    """
    for inputs, _ in reference.next_token_batches(token_ids, context_length, batch_size):
        yield inputs, inputs.roll(-1, dims=1)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def targets_of_the_next_window(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The targets of each window were the inputs of the window after it.

    They lie T tokens further on. The target of each token is the one right after it.

    By how many tokens are targets[b, 0] and inputs[b, 0] apart in the text?
    """
    windows = token_ids[: len(token_ids) // context_length * context_length].unflatten(0, (-1, context_length))
    yield from zip(windows[:-1].split(batch_size), windows[1:].split(batch_size), strict=True)


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def one_token_skipped_between_windows(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """The windows started at 0, T + 1, 2 (T + 1), …: the last target of a window was no input of the next.

    A window takes T + 1 tokens, but two neighbours share one of them: the last target of one is the first input of the
    other. The contract starts them at 0, T, 2T, ….

    At which token does the second window start?
    """
    step = context_length + 1
    windows = token_ids[: len(token_ids) // step * step].unflatten(0, (-1, step))
    for chosen in windows.split(batch_size):
        yield chosen[:, :-1], chosen[:, 1:]


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def last_target_made_up(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    """A window whose last target does not exist was kept, and the target was filled in with a number, such as 0.

    0 is a token like any other, and the model would learn that it follows. There are ⌊(N - 1) / T⌋ windows.

    Which token follows the last one?
    """
    once_more = torch.cat((token_ids, token_ids.new_zeros(1)))
    return reference.next_token_batches(once_more, context_length, batch_size)


@another_form(last_window_dropped)
def last_window_always_dropped(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    num_windows = (len(token_ids) - 1) // context_length - 1
    return reference.next_token_batches(token_ids[: num_windows * context_length + 1], context_length, batch_size)


def _at_random_places(token_ids: Tensor, context_length: int, batch_size: int) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(token_ids) - context_length, (batch_size,)).tolist()
    inputs = torch.stack([token_ids[start : start + context_length] for start in starts])
    return inputs, torch.stack([token_ids[start + 1 : start + 1 + context_length] for start in starts])


@misconception(replaces="next_token_batches", caught_by="test_batches_are_windows_in_order")
def windows_at_random_places(token_ids: Tensor, context_length: int, batch_size: int) -> Any:
    """The windows started at random tokens, as nanoGPT draws a batch for training.

    Some tokens are then used twice and others not at all. Here the contract starts the windows at 0, T, 2T, …, each of
    them once.

    At which token does your first window start, and at which the second?
    """
    return _at_random_places(token_ids, context_length, batch_size)


@another_form(windows_at_random_places)
def one_batch_at_random_places(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    yield _at_random_places(token_ids, context_length, batch_size)


@another_form(windows_at_random_places)
def every_batch_at_random_places(token_ids: Tensor, context_length: int, batch_size: int) -> Batches:
    for inputs, _ in reference.next_token_batches(token_ids, context_length, batch_size):
        yield _at_random_places(token_ids, context_length, len(inputs))
