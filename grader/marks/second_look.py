"""A second look: students' requests, from a file in the submission or the link on their page, and their answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from grader.base.language import gettext as _
from grader.base.names import look
from grader.base.untrusted import Unusable, source_text
from grader.course import choice
from grader.marks.sheets import Remark

FILES = ("second_look.txt", "second_look.md", "재검토.txt", "재검토.md")
MOST, LONGEST = 20, 2000  # requests of one hand-in, and letters of each


@dataclass(frozen=True)
class Appeal:
    """A student's request for a second look at a step, or at everything if `step` is empty."""

    step: str
    text: str

    @property
    def said(self) -> str:
        """The appeal in one line."""
        return f"{self.step}: {self.text}" if self.step else self.text

    def is_answered(self, remarks: Iterable[Remark]) -> bool:
        """True if a remark on this step quotes the request, or quotes none."""
        about = (remark for remark in remarks if remark.text and remark.step == self.step)
        return any(not remark.request or look(remark.request) == look(self.text) for remark in about)


def is_request(name: str) -> bool:
    """Whether a file of this name asks for a second look."""
    return look(name) in FILES


def read(file: Path) -> tuple[Appeal, ...]:
    """The requests in an untrusted file; if it can't be read, one that says so."""
    try:
        return appeals_in(source_text(file, file.name))
    except Unusable:
        return (Appeal("", _("{file} can't be read.", file=file.name)),)


def appeals_in(text: str) -> tuple[Appeal, ...]:
    """A request for each line `4: why`, at most MOST; lines without a step belong to the one before them."""
    requests: list[Appeal] = []
    for line in filter(None, (" ".join(line.split()) for line in text.splitlines())):
        step, why = _step(line)
        if step or not requests:
            requests.append(Appeal(step, why[:LONGEST]))
        else:
            before = requests[-1]
            requests[-1] = Appeal(before.step, f"{before.text} {why}".strip()[:LONGEST])
    return tuple(requests[:MOST])


def _step(line: str) -> tuple[str, str]:
    """The step named before the colon of a line (empty without one), and the text behind it."""
    head, colon, rest = line.partition(":")
    word = head.strip("#*- ").lower().removeprefix("step ").removesuffix("단계").strip()
    try:
        return (choice.single(word), rest.strip()) if colon and word else ("", line)
    except choice.UnknownChoice:
        return "", line


def link(contact: str, title: str, student: str) -> str:
    """The `mailto:` URL behind “Ask for a second look” on a student's page; empty without the mail address
    `contact`."""
    if not contact:
        return ""
    subject = _("A second look: {title}, {student}", title=title, student=student)
    body = _("Step:\nWhy:\n")
    return f"mailto:{quote(contact, safe='@')}?subject={quote(subject)}&body={quote(body)}"
