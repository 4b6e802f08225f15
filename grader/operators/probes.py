"""The texts about the kinds of wrong answers that probes recognise."""

from __future__ import annotations

from typing import NamedTuple

from grader.base.language import N_

TRY_IT = N_("Work one small case by hand, line by line, next to what your code gives. At which line do they part?")
TERM = N_("List what the sum counts, one thing a line. Which of them has this size?")
WHICH = N_("Number the entries 0, 1, 2, … and look at where each ends up.")


class Probe(NamedTuple):
    """A kind of wrong answer, with its texts."""

    what: str
    why: str
    nudge: str


PROBES = {
    "random_answer": Probe(
        N_("Called twice with the same input, `{function}` gives two different answers."),
        N_("Nothing in this call may be random."),
        N_("Is there a dropout with a rate of its own, or one that does not look at the mode?"),
    ),
    "answer_depends_on_earlier_calls": Probe(
        N_("Called twice with the same input and the same random seed, `{function}` gives two different answers."),
        N_("The first call leaves something behind that the second one uses."),
        N_("What does your code write into `self`, or into a list or tensor that outlives the call?"),
    ),
    "rows_short": Probe(
        N_("The answer of `{function}` is right as far as it goes, but its last entries are missing."),
        N_("A loop, a slice or a division that rounds down leaves out the rest."),
        N_("Try a length that is no multiple of the block."),
    ),
    "rows_left_zero": Probe(
        N_("The answer of `{function}` is right as far as it goes, but its last entries along dimension {dim} are 0."),
        N_("They are never written: a loop, a slice or a division that rounds down leaves out the rest."),
        N_("Try a length that is no multiple of the block."),
    ),
    "digits_lost": Probe(
        N_("The answer of `{function}` is right to a few digits only: about as many as float32 has."),
        N_("What comes in float64 keeps its fifteen digits: nothing may be float32 on the way, or added to it."),
        N_("Which tensor is not of the input's dtype, and which number is added that the formula does not have?"),
    ),
    "one_answer_for_all": Probe(
        N_("In the answer of `{function}`, one True or one False decides for many entries."),
        N_("Each entry has an answer of its own."), N_("Over which dimensions do `any` and `all` go?"),
    ),
    "answer_averaged": Probe(
        N_("In the answer of `{function}`, every entry along dimension {dim} is the mean of all of them."),
        N_("Each entry has an answer of its own."), N_("What is averaged, and was it asked for?"),
    ),
    "sign_of_the_answer": Probe(
        N_("The answer of `{function}` is right but for its sign."), N_("Something is subtracted the wrong way round."),
        TRY_IT,
    ),
    "answer_scaled": Probe(
        N_("The answer of `{function}` is {factor} times the right one."),
        N_("A division or a factor is missing, or there is one too many."), TRY_IT,
    ),
    "term_missing": Probe(
        N_("The answer of `{function}` is too small by {term}."),
        N_("A term of the sum is missing, or counted too seldom."), TERM,
    ),
    "term_too_many": Probe(
        N_("The answer of `{function}` is too large by {term}."),
        N_("A term of the sum does not belong there, or is counted too often."), TERM,
    ),
    "rows_scaled": Probe(
        N_("Each row of the answer of `{function}` is the right one times a factor of its own."),
        N_("The rows are divided by something else than their own sum, or not at all."), TRY_IT,
    ),
    "answer_shifted": Probe(
        N_("The answer of `{function}` is the right one, moved by one place along dimension {dim}."),
        N_("An index is off by one."), WHICH,
    ),
    "answer_reversed": Probe(
        N_("The answer of `{function}` is the right one, reversed along dimension {dim}."),
        N_("It is counted from the other end."), WHICH,
    ),
    "answer_transposed": Probe(
        N_("The answer of `{function}` is the right one with dimensions {dim} and {other} exchanged."),
        N_("Rows are taken for columns, or one dimension for another."), WHICH,
    ),
    "answer_of_the_first": Probe(
        N_("In the answer of `{function}`, everything along dimension {dim} has the values of the first entry."),
        N_("Each entry has an answer of its own."), WHICH,
    ),
}  # fmt: skip
