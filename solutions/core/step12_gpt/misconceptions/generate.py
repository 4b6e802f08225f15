"""What learners get wrong in `generate`, each with the check that catches it."""

import torch
from torch import Tensor

from grader.checks.catalogue import another_form, misconception
from solutions.core.step12_gpt import reference
from solutions.core.step12_gpt.misconceptions.generation import Generation, generation, sample


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class temperature_multiplied(Generation):
    """The logits were multiplied by the temperature.

    That turns its meaning around: a low temperature should sharpen the choice, and here it flattened it.

    What should a temperature near 0 do to the difference between two logits: make it larger or smaller?
    """

    def draw(self, logits: Tensor) -> Tensor:
        return sample(logits * self.temperature)


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class temperature_ignored(Generation):
    """The temperature had no effect on the probabilities, except at 0.

    Every temperature gave the distribution of temperature 1.

    At which point, before or after the softmax, can a temperature still change the probabilities?
    """

    def draw(self, logits: Tensor) -> Tensor:
        return sample(logits)


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class probabilities_divided(Generation):
    """The probabilities were divided by the temperature and sent through the softmax again.

    Probabilities lie between 0 and 1, so a second softmax makes them nearly equal. The temperature belongs to the
    logits, and one softmax is enough.

    How many times does your code call softmax between the logits and the draw?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return super().choose(logits.float().softmax(dim=-1))


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class always_greedy(Generation):
    """The largest logit was always taken, whatever the temperature.

    Only temperature 0 is greedy. At any other one each token is drawn with its probability, so that two calls may
    differ.

    Which function of torch draws an index with given probabilities?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1, keepdim=True)


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class one_draw_for_all_rows(Generation):
    """One token was drawn from the first row and appended to every row.

    Each row is a text of its own, with its own logits and its own luck.

    What is the shape of the drawn tokens for a batch of B rows?
    """

    def draw(self, logits: Tensor) -> Tensor:
        return super().draw(logits[:1]).expand(len(logits), 1)


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class same_luck_for_all_rows(Generation):
    """One random number decided for all the rows of a batch.

    The tokens follow each row's probabilities, but rows with equal logits always got the same token: they did not draw
    by themselves.

    How many random numbers does a batch of B rows need for one new token?
    """

    def draw(self, logits: Tensor) -> Tensor:
        cumulative = (logits.float() / self.temperature).softmax(dim=-1).cumsum(dim=-1)
        luck = torch.rand((), device=logits.device)
        return (cumulative < luck).sum(dim=-1, keepdim=True).clamp(max=logits.shape[-1] - 1)


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class seed_fixed_inside(Generation):
    """A fixed seed was set inside the function.

    Every call then draws the same tokens, and the caller's random state is lost. The seed belongs to the caller.

    What would two calls in a row give?
    """

    def text(self) -> Tensor:
        torch.manual_seed(1337)
        return self.right_text()


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class all_tokens_from_one_distribution(Generation):
    """All new tokens were drawn from the distribution of the first one.

    What was drawn has to be read before the next token is drawn: the model is asked once for each new token.

    How often does your code call the model where it draws?
    """

    def context(self, text: Tensor) -> Tensor:
        return super().context(text if self.temperature == 0 else self.prompt)


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class first_tokens_kept_where_drawn(Generation):
    """Where a token is drawn, the context was cropped to its first tokens.

    The next token follows the last ones. Once the text is longer than block_size, the first say nothing new.

    Which end of the text does the slice keep on the way through your code that draws?
    """

    def context(self, text: Tensor) -> Tensor:
        return super().context(text) if self.temperature == 0 else text[:, : self.model.block_size]


@misconception(replaces=generation, caught_by="test_sampling_follows_the_temperature")
class cropped_only_when_greedy(Generation):
    """The context was cropped where the largest logit is taken, and not where a token is drawn.

    A drawn text gets longer than block_size as well, and the model refuses it then.

    Do both ways through your code ask the model for the same tokens?
    """

    def context(self, text: Tensor) -> Tensor:
        return super().context(text) if self.temperature == 0 else text


@misconception(replaces=generation, caught_by="test_greedy_takes_the_largest_logit")
class temperature_zero_divides(Generation):
    """The logits were divided by the temperature even when it was 0.

    Dividing by 0 makes the logits infinite or NaN, and no token can be drawn from that. Temperature 0 is the limit:
    the largest logit wins.

    Which token would an ever smaller temperature choose in the end?
    """

    def choose(self, logits: Tensor) -> Tensor:
        return self.draw(logits)


@misconception(replaces=generation, caught_by="test_greedy_takes_the_largest_logit")
class predicts_from_the_first_position(Generation):
    """The next token was taken from the logits of the first position.

    Row t of the logits says what follows token t. What follows the whole text stands in the last row.

    Which position has seen all the tokens?
    """

    def following(self, logits: Tensor) -> Tensor:
        return logits[:, 0]


@misconception(replaces=generation, caught_by="test_greedy_takes_the_largest_logit")
class only_new_tokens_returned(Generation):
    """Only the new tokens were returned, without the ones that were given.

    The result should be the whole text: idx first, then max_new_tokens more.

    How many columns does (B, T + max_new_tokens) have?
    """

    def given_back(self, text: Tensor) -> Tensor:
        return text[:, self.prompt.shape[1] :]


@misconception(replaces=generation, caught_by="test_greedy_takes_the_largest_logit")
class text_written_on_the_cpu(Generation):
    """The text was written into a tensor that was made on the CPU.

    When the model and idx are on a GPU, the model is given tokens that are somewhere else.

    From what can the new tensor take the device?
    """

    def text(self) -> Tensor:
        length = self.prompt.shape[1]
        text = torch.empty(len(self.prompt), length + self.max_new_tokens, dtype=self.prompt.dtype)
        text[:, :length] = self.prompt
        for written in range(length, text.shape[1]):
            text[:, : written + 1] = reference.generate(self.model, text[:, :written], 1, self.temperature, self.top_k)
        return text


@misconception(replaces=generation, caught_by="test_context_is_cropped")
class context_not_cropped(Generation):
    """The model was given all the tokens, also when there were more than block_size.

    The model has no position for them and refuses. It can look at the last block_size tokens only.

    Which tokens should the model see when the text has grown too long?
    """

    def context(self, text: Tensor) -> Tensor:
        return text


@misconception(replaces=generation, caught_by="test_context_is_cropped")
class first_tokens_kept(Generation):
    """The context was cropped to the first block_size tokens.

    Once the text is longer than block_size, the model looks at its beginning for ever and never at what it just wrote.

    Which end of the text does the next token continue?
    """

    def context(self, text: Tensor) -> Tensor:
        return text[:, : self.model.block_size]


@misconception(replaces=generation, caught_by="test_context_is_cropped")
class one_token_less_seen(Generation):
    """The context was cropped to block_size - 1 tokens.

    The model has a position for block_size tokens, so one token that it could have used was hidden from it.

    How long may the context be at most?
    """

    def context(self, text: Tensor) -> Tensor:
        return text[:, -(self.model.block_size - 1) :]


@misconception(replaces=generation, caught_by="test_context_is_cropped")
class cropped_tokens_lost(Generation):
    """The cropped context took the place of the text, so its first tokens were lost.

    The crop is for the model's eyes only. The result should still begin with all of idx.

    What does your variable idx hold after the crop, and what is appended to?
    """

    def joined(self, text: Tensor, chosen: Tensor) -> Tensor:
        return super().joined(self.context(text), chosen)


@misconception(replaces=generation, caught_by="test_model_is_evaluated_in_eval_mode")
class sampled_in_train_mode(Generation):
    """The model stayed in train mode while it generated.

    Dropout was still at work, so the logits were noisy and even greedy text came out differently every time.

    Which mode switches dropout off?
    """

    def begin(self) -> None:
        pass

    def end(self, was_training: bool) -> None:
        pass


@misconception(replaces=generation, caught_by="test_model_is_evaluated_in_eval_mode")
class left_in_eval_mode(Generation):
    """The model was put into eval mode and left there.

    A training loop that generates a sample now and then would go on without dropout and never notice.

    How does a function leave the model's mode as it found it?
    """

    def end(self, was_training: bool) -> None:
        pass


@misconception(replaces=generation, caught_by="test_model_is_evaluated_in_eval_mode")
class always_left_in_train_mode(Generation):
    """The model was put into train mode at the end, also when it came in eval mode.

    Whoever evaluates a finished model and generates twice gets dropout in between.

    What must be remembered before model.eval() is called?
    """

    def end(self, was_training: bool) -> None:
        self.model.train()


# --- views, lengths and modes -----------------------------------------------------------------------------------------


@misconception(replaces=generation, caught_by="test_any_regime")
class window_slid_in_place(Generation):
    """From a prompt longer than block_size a window was cut, and the window was shifted in place.

    A slice is a view: what is written into it is written into the caller's prompt.

    Do `idx` and `idx[:, -block_size:]` have memory of their own, and what would give the window some?
    """

    def text(self) -> Tensor:
        block_size = self.model.block_size
        if self.prompt.shape[1] <= block_size:
            return self.right_text()
        before, window, added = self.prompt.clone(), self.prompt[:, -block_size:], []
        for _ in range(self.max_new_tokens):
            next_ids = reference.generate(self.model, window.clone(), 1, self.temperature, self.top_k)[:, -1:]
            window[:] = torch.cat((window[:, 1:], next_ids), dim=1)
            added.append(next_ids)
        return torch.cat((before, *added), dim=1)


# --- the same mistakes in other words ---------------------------------------------------------------------------------


@another_form(only_new_tokens_returned)
class as_many_tokens_returned_as_were_asked_for(Generation):
    def given_back(self, text: Tensor) -> Tensor:
        return text[:, -self.max_new_tokens :]


@another_form(one_token_less_seen)
class one_token_less_seen_once_cropped(Generation):
    def context(self, text: Tensor) -> Tensor:
        most = self.model.block_size
        return text if text.shape[1] <= most else text[:, text.shape[1] - most + 1 :]


@misconception(replaces=generation, caught_by="test_greedy_takes_the_largest_logit")
class new_token_put_in_front(Generation):
    """Each new token was put in front of the text.

    A text goes on at its end: the logits of the last position say what follows it.

    In which order does torch.cat get the text and the new token?
    """

    def joined(self, text: Tensor, chosen: Tensor) -> Tensor:
        return torch.cat((chosen, text), dim=1)
