"""What learners get wrong in `greedy_translate`, each with the check that catches it."""

from typing import Any

import torch
from torch import Tensor, nn

from grader.checks.catalogue import misconception


class Loop:
    """The reference's loop in pieces. An instance is a function."""

    def __call__(self, model, src, bos_id, eos_id, max_new_tokens, src_mask=None) -> Tensor:
        was_training = model.training
        self.begin(model)
        ids = torch.full((len(src), 1), bos_id, dtype=torch.int64, device=src.device)
        ended = self.ended_at_first(ids, eos_id)
        with torch.no_grad():
            for _step in range(max_new_tokens):
                next_ids = self.fill(self.choose(self.logits(model, src, ids, src_mask)), ended, eos_id)
                ended = ended | (next_ids == eos_id)
                ids = torch.cat([ids, next_ids], dim=1)
                if self.is_over(ended):
                    break
        self.end(model, was_training)
        return self.give(ids)

    def begin(self, model: nn.Module) -> None:
        model.eval()

    def end(self, model: nn.Module, was_training: bool) -> None:
        model.train(was_training)

    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return torch.zeros_like(ids, dtype=torch.bool)

    def ask(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids, src_mask=src_mask)

    def logits(self, *given: Any) -> Tensor:
        return self.ask(*given)[:, -1]

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, eos_id)

    def is_over(self, ended: Tensor) -> bool:
        return False

    def give(self, ids: Tensor) -> Tensor:
        return ids


def loop(*parts: type) -> dict[str, Any]:
    """The loop in which these pieces are wrong."""
    return {"greedy_translate": type("Loop", parts, {})()}


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class bos_not_in_the_result(Loop):
    """The result begins with the first word that was written, without `bos_id`.

    It has 1 + max_new_tokens columns, and the first one holds `bos_id`.

    What does the decoder read at the very first step, and where does it stand in the result?
    """

    def give(self, ids: Tensor) -> Tensor:
        return ids[:, 1:]


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class rows_go_on_after_eos(Loop):
    """Rows went on after their first `eos_id`.

    What follows the end of a sentence is no translation.

    How does your loop remember which rows have ended?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_with_the_first_row(Loop):
    """The loop stopped when the first row ended.

    The other rows then end in the middle of their sentence.

    Which of `any` and `all` asks whether every row has ended?
    """

    def is_over(self, ended: Tensor) -> bool:
        return bool(ended.any())


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class one_ended_row_ends_all(Loop):
    """As soon as one row had ended, all rows were filled with `eos_id`.

    The other sentences are not at their end yet. Each row ends by itself.

    How many booleans does your loop keep, one or one per row?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return torch.full_like(next_ids, eos_id) if bool(ended.any()) else next_ids


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class row_0_ends_all(one_ended_row_ends_all):
    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return torch.full_like(next_ids, eos_id) if bool(ended[0]) else next_ids.masked_fill(ended, eos_id)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class stops_when_all_have_ended(Loop):
    """The loop stopped when all rows had ended, and the result is shorter for it.

    Stopping early is fine, but the shape should not depend on the text: the rest is filled with `eos_id`.

    How many columns does the result have in the contract?
    """

    def is_over(self, ended: Tensor) -> bool:
        return bool(ended.all())


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_filled_with_zero(Loop):
    """Rows that had ended were filled with 0.

    Nobody said that 0 is padding; it may be a word. The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, 0)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class ended_rows_repeat_their_beginning(Loop):
    """Rows that had ended were filled with `bos_id`, or with something else than `eos_id`.

    The contract fills with `eos_id`.

    What does an ended row hold behind its first `eos_id`?
    """

    def __call__(self, model: nn.Module, src: Tensor, bos_id: int, eos_id: int, *given: Any, **named: Any) -> Tensor:
        self.bos_id = bos_id
        return super().__call__(model, src, bos_id, eos_id, *given, **named)

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended, self.bos_id)


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class bos_ends_a_row(Loop):
    """A first token that is `eos_id` ended its row.

    Some models begin with the very id that ends them. Only what was written can end a row.

    What does your loop do when `bos_id` equals `eos_id`?
    """

    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return ids == eos_id


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class logits_of_first_position(Loop):
    """The logits of the first position were read.

    They say what follows `bos_id`, at every step the same. What is to be written follows the last word.

    Which position of `(B, t, V)` belongs to the last word?
    """

    def logits(self, *given: Any) -> Tensor:
        return self.ask(*given)[:, 0]


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class only_last_token_fed(Loop):
    """Only the last word was fed to the decoder.

    It then forgets all words before it, and takes each for the first.

    What does the decoder need to know to write word t?
    """

    def ask(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return super().ask(model, src, ids[:, -1:], src_mask)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class target_fed_as_source(Loop):
    """The words written so far were handed over as the source, and the source as the target.

    The model takes the source first.

    In which order does the model's `forward` take source and target?
    """

    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(ids % 7, src % 7)[:, -1]


@misconception(replaces=loop, caught_by="test_translates_in_eval_mode")
class dropout_on_while_translating(Loop):
    """The model was left in training mode while it translated.

    Dropout then changes the logits at random: the same source gets another translation each time.

    Which method of a module switches its dropout off?
    """

    def begin(self, model: nn.Module) -> None:
        pass


@misconception(replaces=loop, caught_by="test_translates_in_eval_mode")
class left_in_eval_mode(Loop):
    """The model was left in eval mode.

    Who trains on afterwards trains without dropout, and is not told.

    Which mode did the model have when it came, and which has it now?
    """

    def end(self, model: nn.Module, was_training: bool) -> None:
        pass


@misconception(replaces=loop, caught_by="test_translates_in_eval_mode")
class always_put_in_training_mode(Loop):
    """The model was put in training mode at the end, whatever mode it had.

    Who evaluates afterwards evaluates with dropout, and is not told.

    Which mode did the model have when it came, and which has it now?
    """

    def end(self, model: nn.Module, was_training: bool) -> None:
        model.train()


@misconception(replaces=loop, caught_by="test_padding_of_the_source")
class src_mask_not_used(Loop):
    """`src_mask` was not handed to the model.

    The padding of the source then has a say in the translation.

    With which arguments do you call the model?
    """

    def ask(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return super().ask(model, src, ids, None)


@misconception(replaces=loop, caught_by="test_padding_of_the_source")
class src_mask_given_as_tgt_mask(Loop):
    """`src_mask` was handed to the model as `tgt_mask`.

    It speaks of the source's positions, not of the words that are written.

    In which order does the model's `forward` take its masks?
    """

    def logits(self, model: nn.Module, src: Tensor, ids: Tensor, src_mask: Tensor | None) -> Tensor:
        return model(src, ids, tgt_mask=src_mask)[:, -1]


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class sampled_not_greedy(Loop):
    """Words were drawn from the softmax, and not taken by their logits.

    Greedy means the arg max: the same source always gets the same translation.

    Which function gives the place of the largest logit?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return torch.multinomial(logits.softmax(dim=-1), num_samples=1)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class smallest_logit_taken(Loop):
    """The word with the smallest logit was taken.

    The larger its logit, the likelier a word.

    Does your search end at the largest or at the smallest?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmin(dim=-1, keepdim=True)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_for_all_rows(Loop):
    """All rows got the word that was chosen for the first, or for all together.

    Each row has logits of its own. With one row the mistake does not show.

    Along which dimension does your arg max run, and what is left of the batch?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)[:1].expand(len(logits), -1)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_few(Loop):
    """One word too few was written: `bos_id` was counted among the new ones.

    The result has 1 + max_new_tokens columns.

    How many times does your loop run?
    """

    def __call__(self, model, src, bos_id, eos_id, max_new_tokens, src_mask=None) -> Tensor:
        return super().__call__(model, src, bos_id, eos_id, max_new_tokens - 1, src_mask)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class one_word_too_many_read(Loop):
    """The decoder read one word more than it had to: the model was called once more at the end.

    With `max_new_tokens = max_seq_len` that is one more than it takes.

    How many words does the decoder have to read to write the last one?
    """

    def __call__(self, model, src, bos_id, eos_id, max_new_tokens, src_mask=None) -> Tensor:
        return super().__call__(model, src, bos_id, eos_id, max_new_tokens + 1, src_mask)[:, :-1]


@misconception(replaces=loop, caught_by="test_rows_end_by_themselves")
class eos_not_written(Loop):
    """The `eos_id` that ends a row was left out, and 0 written from there on.

    The row's first `eos_id` belongs to it, and so do those after it.

    What stands in a row at the step at which it ends?
    """

    def fill(self, next_ids: Tensor, ended: Tensor, eos_id: int) -> Tensor:
        return next_ids.masked_fill(ended | (next_ids == eos_id), 0)


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_as_floats(Loop):
    """The ids came back as float32.

    Ids are whole numbers, int64: an embedding takes nothing else.

    Which dtype do `torch.zeros` and `torch.ones` have unless they are told?
    """

    def give(self, ids: Tensor) -> Tensor:
        return ids.float()


@misconception(replaces=loop, caught_by="test_greedy_takes_the_largest_logit")
class ids_made_on_the_cpu(Loop):
    """A tensor of the loop was made without saying on which device.

    It lies on the CPU, wherever the source and the model are.

    Which tensor has the right device, so that a new one can be made like it?
    """

    def ended_at_first(self, ids: Tensor, eos_id: int) -> Tensor:
        return torch.zeros(len(ids), 1, dtype=torch.bool)
