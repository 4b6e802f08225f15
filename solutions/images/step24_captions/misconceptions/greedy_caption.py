"""What learners get wrong in `greedy_caption`, each with the check that catches it."""

from typing import Any

from torch import Tensor, nn

from grader.checks.catalogue import misconception
from solutions.encoder_decoder.step22_decoder.misconceptions import greedy_translate as translation


class Loop(translation.Loop):
    """The loop of step 22, in the same pieces: captions end as translations do."""

    def __call__(self, model, image_features, bos_id, eos_id, max_new_tokens, region_mask=None) -> Tensor:
        return super().__call__(model, image_features, bos_id, eos_id, max_new_tokens, region_mask)

    def ask(self, model: nn.Module, features: Tensor, ids: Tensor, region_mask: Tensor | None) -> Tensor:
        return model(features, ids, region_mask)[0]


def loop(*parts: type) -> dict[str, Any]:
    """The loop in which these pieces are wrong."""
    return {"greedy_caption": type("Loop", parts, {})()}


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class bos_not_in_the_result(Loop, translation.bos_not_in_the_result):
    """The result begins with the first word that was written, without `bos_id`.

    It has 1 + max_new_tokens columns, and the first one holds `bos_id`.

    What does the model read at the very first step, and where does it stand in the result?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class rows_go_on_after_eos(Loop, translation.rows_go_on_after_eos):
    """Rows went on after their first `eos_id`.

    What follows the end of a sentence is no caption.

    How does your loop remember which rows have ended?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_with_the_first_row(Loop, translation.stops_with_the_first_row):
    """The loop stopped when the first row ended.

    The other rows then end in the middle of their sentence.

    Which of `any` and `all` asks whether every row has ended?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_when_all_have_ended(Loop, translation.stops_when_all_have_ended):
    """The loop stopped when all rows had ended, and the result is shorter for it.

    Stopping early is fine, but the shape should not depend on the text: the rest is filled with `eos_id`.

    How many columns does the result have in the contract?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_filled_with_zero(Loop, translation.ended_rows_filled_with_zero):
    """Rows that had ended were filled with 0.

    Nobody said that 0 is padding; it may be a word. The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_repeat_their_beginning(Loop, translation.ended_rows_repeat_their_beginning):
    """Rows that had ended were filled with `bos_id`, or with something else than `eos_id`.

    The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class bos_ends_a_row(Loop, translation.bos_ends_a_row):
    """A first token that is `eos_id` ended its row.

    Some models begin with the very id that ends them. Only what was written can end a row.

    What does your loop do when `bos_id` equals `eos_id`?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class logits_of_first_position(Loop, translation.logits_of_first_position):
    """The logits of the first position were read.

    They say what follows `bos_id`, at every step the same. What is to be written follows the last word.

    Which position of `(B, t, V)` belongs to the last word?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class begins_with_zero(Loop):
    """Every row begins with 0: `bos_id` was not used.

    What marks the beginning is the caller's to say.

    Where is `bos_id` read in your function?
    """

    def __call__(
        self, model: nn.Module, image_features: Tensor, bos_id: int, eos_id: int, *given: Any, **named: Any
    ) -> Tensor:
        return super().__call__(model, image_features, 0, eos_id, *given, **named)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class one_ended_row_ends_all(Loop, translation.one_ended_row_ends_all):
    """As soon as one row had ended, all rows were filled with `eos_id`.

    The other images are not described yet. Each row ends by itself.

    How many booleans does your loop keep, one or one per row?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class row_0_ends_all(one_ended_row_ends_all):
    fill = translation.row_0_ends_all.fill


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class only_last_token_fed(translation.only_last_token_fed, Loop):
    """Only the last word was fed to the model.

    It then forgets all words before it, and takes each for the first.

    What does the model need to know to write word t?
    """


@misconception(replaces=loop, caught_by="test_captions_in_eval_mode")
class dropout_on_while_captioning(Loop, translation.dropout_on_while_translating):
    """The model was left in training mode while it captioned.

    Dropout then changes the logits at random: the same image gets another caption each time.

    Which method of a module switches its dropout off?
    """


@misconception(replaces=loop, caught_by="test_captions_in_eval_mode")
class left_in_eval_mode(Loop, translation.left_in_eval_mode):
    """The model was left in eval mode.

    Who trains on afterwards trains without dropout, and is not told.

    Which mode did the model have when it was given, and which has it now?
    """


@misconception(replaces=loop, caught_by="test_captions_in_eval_mode")
class always_put_in_training_mode(Loop, translation.always_put_in_training_mode):
    """The model was put in training mode at the end, whatever mode it had.

    Who evaluates afterwards evaluates with dropout, and is not told.

    Which mode did the model have when it was given, and which has it now?
    """


@misconception(replaces=loop, caught_by="test_regions_that_are_not_there")
class region_mask_not_used(translation.src_mask_not_used, Loop):
    """`region_mask` was not handed to the model.

    Regions that are not there then have a say in the caption.

    With which arguments do you call the model?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class sampled_not_greedy(Loop, translation.sampled_not_greedy):
    """Words were drawn from the softmax, and not taken by their logits.

    Greedy means the arg max: the same image always gets the same caption.

    Which function gives the place of the largest logit?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class smallest_logit_taken(Loop, translation.smallest_logit_taken):
    """The word with the smallest logit was taken.

    The larger its logit, the likelier a word.

    Does your search end at the largest or at the smallest?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_for_all_rows(Loop, translation.one_word_for_all_rows):
    """All rows got the word that was chosen for the first, or for all together.

    Each row has logits of its own. With one row the mistake does not show.

    Along which dimension does your arg max run, and what is left of the batch?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_few(Loop, translation.one_word_too_few):
    """One word too few was written: `bos_id` was counted among the new ones.

    The result has 1 + max_new_tokens columns.

    How many times does your loop run?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_many_read(Loop, translation.one_word_too_many_read):
    """The model read one word more than it had to: the model was called once more at the end.

    With `max_new_tokens = max_seq_len` that is one more than it takes.

    How many words does the model have to read to write the last one?
    """


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class eos_not_written(Loop, translation.eos_not_written):
    """The `eos_id` that ends a row was left out, and 0 written from there on.

    The row's first `eos_id` belongs to it, and so do those after it.

    What stands in a row at the step at which it ends?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_as_floats(Loop, translation.ids_as_floats):
    """The ids returned are float32.

    Ids are whole numbers, int64: an embedding takes nothing else.

    Which dtype do `torch.zeros` and `torch.ones` have unless they are told?
    """


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_made_on_the_cpu(Loop, translation.ids_made_on_the_cpu):
    """A tensor of the loop was made without saying on which device.

    It lies on the CPU, wherever the image and the model are.

    Which tensor has the right device, so that a new one can be made like it?
    """
