"""The sentences of the page's modules, in the language in use: they look an English sentence up."""

from __future__ import annotations

from collections.abc import Iterable

from grader.base.language import N_
from grader.base.language import gettext as _

TEXTS = (
    N_("Another lab is running. Wait until it is done."),
    N_("Attention from scratch"),
    N_("Start: {track}"),
    N_("Cancel"),
    N_("Colours: as the system"),
    N_("Colours: dark"),
    N_("Colours: light"),
    N_("Copied: {text}"),
    N_("Course"),
    N_("Difficulty: {number} of 3"),
    N_("Every step passes. Well done."),
    N_("Explore"),
    N_("Hint {number} of {total}"),
    N_("Hints"),
    N_("In your own words"),
    N_("It uses: "),
    N_("Lab"),
    N_("Lab: {lab}"),
    N_("Lesson"),
    N_("Loading torch, once …"),
    N_("Loading …"),
    N_("Look inside your GPT"),
    N_("Looking at every step …"),
    N_("Next"),
    N_("Next: {step}"),
    N_("No lesson has these words."),
    N_("Predict first, then run it: what was measured is shown here."),
    N_("Progress"),
    N_("Put the stub back"),
    N_("Put the stub back? Your work is kept next to it, dated."),
    N_("Result"),
    N_("Run again"),
    N_("Run the lab"),
    N_("Search the lessons"),
    N_("Seconds"),
    N_("Show hint {number} of {total}"),
    N_("Start over"),
    N_("Step {number}"),
    N_("Steps"),
    N_("Stop"),
    N_("Stopped. Save the file or run it again."),
    N_("What is measured is shown here."),
    N_("The question"),
    N_("The session has ended. To continue, type: make course"),
    N_("There is no lesson for this step."),
    N_("These are all the hints; the lesson explains the most."),
    N_("To start, its files are written into your exercises; what is there stays."),
    N_("Verdict"),
    N_("What do you expect?"),
    N_("What was measured"),
    N_("You saved {step}"),
    N_("blocked"),
    N_("done"),
    N_("fail"),
    N_("grader error"),
    N_("grading"),
    N_("not graded yet"),
    N_("not started"),
    N_("not valid Python yet"),
    N_("pass"),
    N_("timed out"),
    N_("to do"),
    N_("{passed} of {total}"),
    N_("{seconds} s"),
)


def texts(further: Iterable[str] = ()) -> dict[str, str]:
    """The sentences of the page's scripts and `further` ones, English to the language in use."""
    return {english: _(english) for english in (*TEXTS, *further)}
