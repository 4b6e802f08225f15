"""The families of mistakes that operators make, each with its three lines: what was done, why it is wrong, a nudge.

The order is that in which a diagnosis prefers them: of two that give the same answers, the first says more.
"""

from __future__ import annotations

from typing import NamedTuple

from grader.base.language import N_


class Family(NamedTuple):
    """The texts for every mistake of a family; `what` has placeholders for words."""

    what: str
    why: str
    nudge: str


WORDS = ("function", "argument", "used", "due", "part", "number", "call", "factor")  # that a line may have places for

NOT_ALL = N_("What comes last is left out.")
INDICES = N_("Write out the indices that are reached for a sequence of three. Which one is missing, or too many?")
HAND = N_("Work one small case by hand, line by line, next to what your code gives. At which line do they part?")
SHAPES = N_("Print the shape after each line. Which dimension is which?")

FAMILIES = {
    "error_not_raised": Family(
        N_("In `{function}`, an argument that the step names as wrong is accepted."),
        N_("It gives a wrong answer without a word, in place of an error."),
        N_("Which arguments does the docstring name as errors?"),
    ),
    "argument_not_handed_on": Family(
        N_("In `{function}`, `{argument}` is not handed on to a part that needs it."),
        N_("That part works with a value of its own, whatever the caller asks for."),
        N_("Follow the argument from the first line to the last place that needs it."),
    ),
    "argument_not_used": Family(
        N_("In `{function}`, `{argument}` is not used in one of the places that depend on it."),
        N_("There the answer is that of the default, whatever the caller asks for."),
        N_("Call it with two values of this argument. Where do the answers have to differ?"),
    ),
    "bias_too_few": Family(
        N_("In `{function}`, one of the linear layers has no bias, but it should have one."),
        N_("Its parameters then do not fit, and its output can't be shifted."),
        N_("For each layer, what does the docstring say about its bias?"),
    ),
    "bias_too_many": Family(
        N_("In `{function}`, one of the linear layers has a bias that it should not have, or always has it."),
        N_("Its parameters then do not fit, and they shift the output."),
        N_("For each layer, what does the docstring say about its bias?"),
    ),
    "argument_another": Family(
        N_("In `{function}`, `{argument}` has the opposite value in one call."),
        N_("The call then does something else than the step asks for."),
        N_("Look up what this option does, and what happens without it."),
    ),
    "part_for_another": Family(
        N_("In `{function}`, `{used}` is used where `{due}` belongs."),
        N_("Both fit in shape, so that no error shows it, but each has its own numbers."),
        N_("Read the formula again: which of the two stands at this place?"),
    ),
    "one_part_for_all": Family(
        N_("In `{function}`, one and the same part was put into the list many times."),
        N_("All of them share their parameters, and learn only one thing."),
        N_("How many different parameters does the list have?"),
    ),
    "same_part_every_round": Family(
        N_("In `{function}`, the same part is used in every round of a loop."),
        N_("The others are never asked, and their parameters have no effect."),
        N_("Change a parameter of the last part. Does the output change?"),
    ),
    "input_for_another": Family(
        N_("In `{function}`, argument {number} of `{part}` is another tensor than it should be."),
        N_("Both fit in shape, so that no error shows it, but each has its own numbers."),
        N_("Which tensor goes into each part? Draw the way of the data."),
    ),
    "applied_to_one_term": Family(
        N_("In `{function}`, `{part}` is applied to one term of a sum, and not to the sum."),
        N_("The other term goes past it."), N_("Draw the way of the data: what comes first, the sum or the part?"),
    ),
    "scores_scaled": Family(
        N_("In `{function}`, the scores are {factor} times what they should be."),
        N_("The softmax then is too even, or too much a choice of one."),
        N_("By what are the scores divided, and which width is meant by it?"),
    ),
    "mask_turned_round": Family(
        N_("In `{function}`, the mask is turned round: what should be seen is hidden, and the other way round."),
        N_("True means \"may attend\"; only the others are hidden."),
        N_("For the first token, which entries of the mask are True?"),
    ),
    "mask_left_out": Family(
        N_("In `{function}`, the mask is not applied in one of the places that need it."),
        N_("Hidden positions then take part."),
        N_("Follow the mask: where does it change a score?"),
    ),
    "mask_of_the_first": Family(
        N_("In `{function}`, the mask of the first sequence is used for the whole batch."),
        N_("Each sequence has a mask of its own."),
        N_("What happens with two sequences of different lengths?"),
    ),
    "mask_of_the_other_side": Family(
        N_("In `{function}`, the mask is transposed: it hides queries in place of keys."),
        N_("Rows are queries and columns are keys."),
        N_("Write the mask of two queries and three keys. What is its shape?"),
    ),
    "masked_with_zero": Family(
        N_("In `{function}`, hidden scores are set to 0."),
        N_("A score of 0 still gets weight: the softmax of 0 is not 0."),
        N_("Which score gives a weight of exactly 0?"),
    ),
    "masked_by_product": Family(
        N_("In `{function}`, the scores are multiplied by the mask."),
        N_("Hidden scores become 0, and a score of 0 still gets weight."),
        N_("Which score gives a weight of exactly 0?"),
    ),
    "masked_with_little": Family(
        N_("In `{function}`, hidden scores are set to a number that is not low enough."),
        N_("Hidden positions keep a little weight, more than that when all scores are low."),
        N_("Which score gives a weight of exactly 0, whatever the others are?"),
    ),
    "mask_added": Family(
        N_("In `{function}`, the mask is added to the scores as ones and zeros."),
        N_("It moves scores by 1, and hides nothing."),
        N_("What does a hidden score have to become?"),
    ),
    "masks_joined_otherwise": Family(
        N_("In `{function}`, conditions are joined by \"or\" in place of \"and\", or the other way round."),
        N_("Then one that holds is enough, or all of them are needed, where it should be otherwise."),
        N_("Make a table: for each pair of tokens, which conditions hold, and is it seen?"),
    ),
    "one_mask_left_out": Family(
        N_("In `{function}`, one of the conditions that decide what is seen is missing."),
        N_("What only this condition hides or shows is wrong."),
        N_("List the conditions that the docstring names, and look for each."),
    ),
    "diagonal_one_too_high": Family(
        N_("In `{function}`, the diagonal of a triangle lies one place too high."),
        N_("Each token then sees one more, or one less, than it should."),
        N_("Write the triangle for three tokens: is the diagonal itself in it?"),
    ),
    "diagonal_one_too_low": Family(
        N_("In `{function}`, the diagonal of a triangle lies one place too low."),
        N_("Each token then sees one less, or one more, than it should."),
        N_("Write the triangle for three tokens: is the diagonal itself in it?"),
    ),
    "last_block_left_out": Family(
        N_("In `{function}`, the last block of a loop is left out where it is not a whole one."),
        N_("Lengths that are no multiple of the block lose their rest."),
        N_("Try a length of one block and a half."),
    ),
    "first_block_left_out": Family(
        N_("In `{function}`, a loop starts one block too late."), N_("What comes first is left out."), INDICES
    ),
    "last_round_left_out": Family(N_("In `{function}`, a loop ends one round too early."), NOT_ALL, INDICES),
    "first_round_left_out": Family(
        N_("In `{function}`, a loop starts one round too late."), N_("What comes first is left out."), INDICES
    ),
    "one_round_too_many": Family(
        N_("In `{function}`, a loop runs one round too many."), N_("Something is done once more than it should."),
        INDICES,
    ),
    "rounds_reversed": Family(
        N_("In `{function}`, a loop runs through its parts from the last to the first."),
        N_("Each part expects what the one before it gives."), N_("In which order are the parts asked?"),
    ),
    "ends_one_early": Family(N_("In `{function}`, a slice ends one place too early."), NOT_ALL, INDICES),
    "ends_one_late": Family(
        N_("In `{function}`, a slice ends one place too late."), N_("One place too many is taken in."), INDICES
    ),
    "starts_one_late": Family(
        N_("In `{function}`, a slice starts one place too late."), N_("What comes first is left out."), INDICES
    ),
    "starts_one_early": Family(
        N_("In `{function}`, a slice starts one place too early."), N_("One place too many is taken in."), INDICES
    ),
    "start_left_out": Family(
        N_("In `{function}`, a slice starts at the beginning, and not where it should."),
        N_("Places are taken in that should be left out."), INDICES,
    ),
    "boundary_counted_in": Family(
        N_("In `{function}`, a comparison counts its boundary in."),
        N_("The boundary itself belongs to the other side."), INDICES,
    ),
    "boundary_left_out": Family(
        N_("In `{function}`, a comparison leaves its boundary out."),
        N_("The boundary itself belongs to this side."), INDICES,
    ),
    "compared_one_off": Family(
        N_("In `{function}`, a comparison is off by one."), N_("It is one place too wide, or one too narrow."), INDICES
    ),
    "one_side_narrower": Family(
        N_("In `{function}`, a window is one place narrower on one side."), N_("Both sides reach equally far."), INDICES
    ),
    "one_side_only": Family(
        N_("In `{function}`, a window is limited on one side only."), N_("Both sides reach equally far."), INDICES
    ),
    "difference_one_off": Family(
        N_("In `{function}`, a difference is one too large, or one too small."),
        N_("Both ends, or neither of them, are counted."), INDICES,
    ),
    "counted_from_one": Family(
        N_("In `{function}`, positions are counted from 1."), N_("The first position is 0."), INDICES
    ),
    "counted_backwards": Family(
        N_("In `{function}`, positions are counted from the last to the first."),
        N_("The first token has position 0."), INDICES,
    ),
    "reshaped_not_exchanged": Family(
        N_("In `{function}`, a tensor is reshaped to the right shape, but its dimensions are not exchanged."),
        N_("The shape fits, but the numbers end up in wrong places: `view` and `reshape` keep their order."),
        N_("Number the entries 0, 1, 2, … and look at where each ends up."),
    ),
    "not_exchanged": Family(
        N_("In `{function}`, two dimensions that should be exchanged are left as they are."),
        N_("Rows and columns, or heads and tokens, are mixed up from there on."), SHAPES,
    ),
    "product_transposed": Family(
        N_("In `{function}`, a factor of a matrix product is transposed."),
        N_("The shapes fit where it is square, but rows are taken for columns."), SHAPES,
    ),
    "product_exchanged": Family(
        N_("In `{function}`, the factors of a matrix product are in the other order."),
        N_("The order of a matrix product matters."), SHAPES,
    ),
    "another_dimension": Family(
        N_("In `{function}`, `{call}` works along another dimension than it should."),
        N_("Numbers that do not belong together are then put together."),
        N_("Along which dimension should it work? Give it a name: batch, head, query, key, width."),
    ),
    "another_order": Family(
        N_("In `{function}`, two things that go together are in the other order."),
        N_("Each is then taken for the other one."), N_("Which comes first in the docstring?"),
    ),
    "another_entry": Family(
        N_("In `{function}`, another entry is read than the one that is meant."),
        N_("It belongs to another place."), INDICES,
    ),
    "function_exchanged": Family(
        N_("In `{function}`, `{used}` is used where `{due}` belongs."),
        N_("It gives numbers of the same shape, but others."), N_("Read the formula again: which function is it?"),
    ),
    "size_for_another": Family(
        N_("In `{function}`, one size is used where another belongs."),
        N_("The two are equal in some calls, and differ in others."),
        N_("Which sizes are in play here, and which of them does the formula name?"),
    ),
    "part_left_out": Family(
        N_("In `{function}`, `{part}` is missing in one of the places that need it."),
        N_("What it does is not done there."), HAND,
    ),
    "division_left_out": Family(
        N_("In `{function}`, a division is missing."), N_("The numbers come out at another scale."), HAND
    ),
    "multiplied_not_divided": Family(
        N_("In `{function}`, something is multiplied where it should be divided."),
        N_("The numbers come out at another scale."), HAND,
    ),
    "divided_twice": Family(
        N_("In `{function}`, something is divided twice by the same number."),
        N_("The numbers come out at another scale."), HAND,
    ),
    "divided_not_multiplied": Family(
        N_("In `{function}`, something is divided where it should be multiplied."),
        N_("The numbers come out at another scale."), HAND,
    ),
    "factor_left_out": Family(
        N_("In `{function}`, a factor of a product is missing."), N_("The product is of something else."), HAND
    ),
    "factor_doubled": Family(
        N_("In `{function}`, a factor of a product is there twice."), N_("The product is of something else."), HAND
    ),
    "term_left_out": Family(
        N_("In `{function}`, a term of a sum is missing."), N_("What it stands for has no effect."), HAND
    ),
    "terms_left_out": Family(
        N_("In `{function}`, more than one term of a sum is missing."), N_("What they stand for has no effect."), HAND
    ),
    "term_doubled": Family(
        N_("In `{function}`, a term of a sum is counted twice."), N_("It weighs twice as much as it should."), HAND
    ),
    "sign_turned": Family(
        N_("In `{function}`, a term has the other sign."), N_("It counts in the other direction."), HAND
    ),
    "power_left_out": Family(
        N_("In `{function}`, a power or a root is missing."), N_("The numbers come out at another scale."), HAND
    ),
    "power_turned": Family(
        N_("In `{function}`, the exponent of a power has the other sign."),
        N_("It divides where it should multiply, or the other way round."), HAND,
    ),
    "rounded_up": Family(
        N_("In `{function}`, a division is rounded up."), N_("A rest counts as a whole one."), INDICES
    ),
    "gradient_cut": Family(
        N_("In `{function}`, the result is cut off from its gradient."), N_("Nothing before it can learn."),
        N_("Which of your calls give a tensor without a gradient?"),
    ),
    "condition_turned_round": Family(
        N_("In `{function}`, a condition is turned round."),
        N_("What should happen if it holds happens if it does not."), HAND,
    ),
    "case_left_out": Family(
        N_("In `{function}`, one of two cases is treated like the other one."),
        N_("The step asks for something else in this case."), N_("Which cases does the docstring name?"),
    ),
    "step_left_out": Family(
        N_("In `{function}`, one line of the work is missing."), N_("What it does is not done."), HAND
    ),
}  # fmt: skip
