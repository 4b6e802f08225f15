"""What learners get wrong in `caption_loss`, each with the check that catches it."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from grader.checks.catalogue import misconception


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padding_counted(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Padding was counted in the loss.

    The model would be trained to write padding, and rewarded most where captions are short.

    Which positions have a word that is to be learned?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def divided_by_all_positions(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The sum over the words that are there was divided by the number of all positions.

    The more padding, the smaller the loss, though the model is no better.

    How many positions did you add up?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    return losses.mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def mean_of_each_captions_mean(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The mean of each caption was taken, and then the mean of those.

    A word of a short caption then counts more than one of a long caption. The contract takes one mean, over all words
    of the batch.

    How much does the one word of a caption of length 1 count beside those of a caption of length 10?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    return (losses.sum(dim=1) / (targets != pad_id).sum(dim=1).clamp(min=1).to(losses.dtype)).mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def sum_in_place_of_the_mean(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The losses were added up, not averaged.

    The gradient would grow with the batch and with the length of its captions.

    By what is the sum divided?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="sum")


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def sum_divided_by_the_captions(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The sum was divided by the number of captions.

    The mean is over words. Divided by the captions, the loss grows with their length.

    How many positions did you add up?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="sum") / len(logits)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def shifted_once_more(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The targets were shifted once more.

    They come already shifted: position t of the logits belongs to position t of the targets. Shifted twice, the model
    learns to leave out every other word.

    Who shifts the targets, the caller or you?
    """
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), targets[:, 1:], ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def reshaped_not_transposed(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The logits were reshaped to `(B, V, T)`, not transposed.

    A reshape keeps the numbers in their order: the logits of one word end up in several columns.

    Which dimension of `(B, T, V)` has to move, and which function moves it?
    """
    return F.cross_entropy(logits.reshape(len(logits), logits.shape[2], -1), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def softmax_over_the_words(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The softmax ran over the positions, not over the vocabulary.

    At each position the words compete with each other, not the positions for a word.

    Over which dimension of `(B, T, V)` should probabilities sum to 1?
    """
    chosen = logits.log_softmax(dim=1).gather(2, targets[..., None])[..., 0]
    return -chosen[targets != pad_id].mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padding_id_fixed_at_zero(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The padding's id was taken to be 0.

    0 may be a word. `pad_id` says which id is padding.

    Where is `pad_id` read in your function?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=0)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def cross_entropy_of_probabilities(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The cross-entropy was taken of probabilities: a softmax came first.

    `F.cross_entropy` takes a softmax itself. Taken twice, it can never come near 0.

    What does `F.cross_entropy` expect, logits or probabilities?
    """
    return F.cross_entropy(logits.softmax(dim=-1).transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def log_of_a_softmax(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The logarithm was taken of a softmax that had underflowed.

    With logits of 1000 a probability is 0 and its logarithm minus infinity.

    Which function takes both at once, and stays finite?
    """
    chosen = logits.softmax(dim=-1).log().gather(2, targets[..., None])[..., 0]
    return -chosen[targets != pad_id].mean()


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def guarded_log_of_a_softmax(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A small number was added before the logarithm.

    It keeps infinities away and caps the loss: with logits of 1000 it should be near 1000, not near 20.

    How large can minus the logarithm of your guard get?
    """
    chosen = (logits.softmax(dim=-1) + 1e-9).log().gather(2, targets[..., None])[..., 0]
    return -chosen[targets != pad_id].mean()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def sign_left_out(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The sign is wrong: the mean log-probability was returned.

    A loss is to be made small, and this one would make the right words unlikely.

    Is the logarithm of a probability positive or negative?
    """
    return -F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def bits_in_place_of_nats(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The loss was taken in bits.

    Cross-entropy in torch, and here, is in nats: the natural logarithm.

    Which logarithm makes 2 ln 2 of the lesson's example?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id) / math.log(2)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def one_loss_for_each_position(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A loss for each position was returned.

    The contract asks for a scalar, the mean of them.

    How many dimensions has the result in the contract?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def one_loss_for_each_caption(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A loss for each caption was returned.

    The contract asks for a scalar, the mean of them.

    How many dimensions has the result in the contract?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    return losses.sum(dim=1) / (targets != pad_id).sum(dim=1).clamp(min=1)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def loss_always_float32(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The loss is always float32.

    The result has the dtype of the logits.

    Which dtype do the logits have, and which has the result?
    """
    return F.cross_entropy(logits.float().transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padding_left_out_of_the_vocabulary(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The padding's logit was left out of the softmax.

    `pad_id` is an id of the vocabulary: its probability counts, only its positions do not.

    Over how many ids do the probabilities sum to 1?
    """
    hidden = torch.arange(logits.shape[-1], device=logits.device) == pad_id
    return F.cross_entropy(logits.masked_fill(hidden, -1e9).transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def logits_taken_for_log_probabilities(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Logits were taken for log-probabilities: no softmax was taken.

    The loss could then be lowered without end, by adding to all logits alike.

    What do the exponentials of a word's logits sum to, and what should they?
    """
    return F.nll_loss(logits.transpose(1, 2), targets, ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def padded_logits_set_to_zero(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The logits of padding were set to zero, and the mean taken over all positions.

    Logits of zero are no missing logits: each such position adds ln V to the sum, and counts in the mean.

    What is the cross-entropy of a position whose logits are all 0?
    """
    logits = logits * (targets != pad_id)[..., None].to(logits.dtype)
    return F.cross_entropy(logits.transpose(1, 2), targets)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def smaller_ids_are_words(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """Ids on the wrong side of `pad_id` were left out: it was compared with `<` or `>`.

    Padding is the one id that equals `pad_id`; the ids on both sides of it are words.

    Which comparison keeps every id but one?
    """
    losses = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, reduction="none")
    there = targets > pad_id
    return losses[there].sum() / there.sum().clamp(min=1)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def labels_smoothed(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The targets were smoothed: a tenth of each was spread over the vocabulary.

    The paper of 2017 trains so. This contract asks for the plain cross-entropy.

    What is the loss of a word of probability 1, in the contract and in yours?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id, label_smoothing=0.1)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def perplexity_in_place_of_the_loss(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The perplexity was returned, the exponential of the loss.

    It is a number for people to read. What is trained is the mean cross-entropy itself.

    Which of the two adds up over words?
    """
    return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad_id).exp()


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def first_word_left_out(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The first position of each caption was left out of the loss.

    The targets come already shifted: the first of them is the first word of the caption, and has to be learned.

    Which word does the model write after `bos_id`, and from which position does it learn that?
    """
    return F.cross_entropy(logits[:, 1:].transpose(1, 2), targets[:, 1:], ignore_index=pad_id)


@misconception(replaces="caption_loss", caught_by="test_loss_by_hand")
def targets_changed_in_place(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The caller's targets were overwritten, with -100 where there is padding.

    The next epoch finds ids in them that no embedding knows.

    Which of your lines writes into a tensor that somebody gave you?
    """
    targets[targets == pad_id] = -100
    return F.cross_entropy(logits.transpose(1, 2), targets)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def ids_made_elsewhere(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """A tensor in the loss was made without saying on which device.

    It lies where torch's default is, wherever the logits are.

    Which tensor has the right device, so that a new one can be made like it?
    """
    weight = (torch.arange(logits.shape[-1]) != pad_id).to(logits.dtype)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), weight=weight)


@misconception(replaces="caption_loss", caught_by="test_loss_agrees_with_fresh_draws")
def loss_detached(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    """The loss was cut off from its gradient.

    A loss is there for its gradient: a number alone trains nothing.

    Which call of yours makes a Python number of a tensor, or a tensor without a history?
    """
    return F.cross_entropy(logits.detach().transpose(1, 2), targets, ignore_index=pad_id)
