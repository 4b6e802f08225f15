"""Runs a check in few messages: calls and comparisons are deferred until the check looks at an answer.

A message costs more than most calls. So a student's calls wait until the check looks at one of their answers, or at one
of the reference's: an input of the next calls may be made from it, which must not be there before the answers are. Only
a check that passes in this way has a verdict. After anything else all checks of the step are asked again, call by call,
in a new process.

Under a seed seen before, the messages of a check are known (`Script`), and so are the answers that have passed: only
their digests are kept.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from grader.calls.call import Call, Outcome
from grader.calls.codec import decode_call, decode_outcome, encode_call, encode_outcome
from grader.calls.framing import BadMessage, unframed
from grader.calls.values import HandleId
from grader.checks.backends import Backend, Exchange, Oracle
from grader.checks.bounded import BoundedArithmetic, lifted
from grader.checks.implementation import Answer, Handle, Implementation
from grader.checks.trial import Trial, Verdict

GIVE_OBJECTS = ("optimizer", "noting_model", "scaler")  # our operations on a module that give another object

Message = tuple[bytes, bytes]  # header and payload


class Odd(Exception):
    """The check has to be asked call by call."""


class Transport(Protocol):
    """Carries calls to a student's code."""

    def send_all(self, frames: list[bytes]) -> list[Message]:
        """The answers to several calls, sent at once. Raises Odd if one has none."""

    def heard(self, outcome: Outcome) -> Outcome:
        """The same outcome, after what it says besides its value was noted."""


class Here:
    """Answers a check's calls in this process, by a reference in the student's place."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def send_all(self, frames: list[bytes]) -> list[Message]:
        """The answers to the calls in `frames`, as bytes."""
        return [unframed(encode_outcome(self._backend.ask(decode_call(*unframed(frame))))) for frame in frames]

    def heard(self, outcome: Outcome) -> Outcome:
        """The same outcome: there is nothing to note of a reference's answer."""
        return outcome


@dataclass(frozen=True)
class PassRecord:
    """The record of a check that passed: all that its verdict says besides the answers."""

    called: frozenset[str]
    asked: tuple[str, ...]  # the public names, in the order of the calls
    drawn: bool
    imported: frozenset[str]

    def verdict(self) -> Verdict:
        """The passing verdict; its exchanges have names, and no answers."""
        exchanges = [Exchange(Call(name)) for name in self.asked]
        return Verdict("pass", "", self.called, exchanges=exchanges, drawn=self.drawn)


@dataclass
class Script:
    """The messages of a check under one seed, in the groups that were sent at once, and what is known of answers to all
    of them that have passed, by their digest. `reached` are the digests of such answers up to each group."""

    groups: list[list[bytes]]
    passed: dict[bytes, PassRecord] = field(default_factory=dict)
    reached: set[bytes] = field(default_factory=set)

    def reach(self, queue: Queue) -> None:
        """Adds to `reached` the digests of a queue's answers, up to the group after which its messages are others than
        these."""
        for index, value in enumerate(queue.reached):
            if queue.groups[: index + 2] != self.groups[: index + 2]:
                return
            self.reached.add(value)

    def played(self, transport: Transport) -> tuple[list[tuple[bytes, Message]], PassRecord | None]:
        """Sends the messages again, group by group. Returns each that was sent with its answer, and the record of these
        answers if they are known to pass, else None. It stops after a group with unknown answers: a check may make the
        next messages from them."""
        pairs: list[tuple[bytes, Message]] = []
        answers = Digest()
        for group in self.groups:
            pairs += zip(group, answers.add(transport.send_all(group)), strict=True)
            if answers.value not in self.reached:
                return pairs, None
        return pairs, self.passed.get(answers.value)


class Digest:
    """Identifies answers, bit for bit, each time that some have come."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=32)

    def add(self, answers: list[Message]) -> list[Message]:
        """Adds answers to the digest, and returns them unchanged."""
        for header, payload in answers:
            self._hash.update(len(header).to_bytes(8, "little") + len(payload).to_bytes(8, "little"))
            self._hash.update(header)
            self._hash.update(payload)
        return answers

    @property
    def value(self) -> bytes:
        """The digest of all answers so far."""
        return self._hash.digest()


class Pending(Answer):
    """An answer that is requested when it is first read."""

    def __init__(self, implementation: Implementation, exchange: Exchange, queue: Queue) -> None:
        self._implementation, self.exchange, self.queue = implementation, exchange, queue

    def __getattr__(self, name: str) -> Any:
        """Has `outcome` sent for when it is first read."""
        if name != "outcome":
            return super().__getattr__(name)
        self.queue.flush()
        self.queue.bound_arithmetic()
        return self.__dict__["outcome"]

    @property
    def waits(self) -> bool:
        """Whether the answer's call has not been sent yet."""
        return "outcome" not in self.__dict__


@dataclass
class _Waiting:
    implementation: Implementation
    exchange: Exchange
    first: list[Exchange]
    answer: Answer
    frame: bytes


class Queue:
    """A student's calls that wait, and the comparisons of their answers. It is the student's backend in one check.

    `makes` tells whether a public name is a class: a call of it is taken to give a module.
    """

    active: ClassVar[Queue | None] = None

    def __init__(
        self, transport: Transport, makes: Callable[[str], bool], played: Iterable[tuple[bytes, Message]] = ()
    ) -> None:
        """Sends over `transport`, but for the calls that the check is expected to make first: `played` are these, as
        bytes, with their answers."""
        self._transport, self._makes, self._played = transport, makes, deque(played)
        self._begin: int | None = None
        self._calls: list[_Waiting] = []
        self._later: list[Callable[[], None]] = []
        self._waits = True
        self._is_bounded = self.is_odd = False
        self.bounds = ExitStack()  # entered while the check runs
        self.groups: list[list[bytes]] = []
        self.digest, self.reached = Digest(), list[bytes]()
        self.imported: set[str] = set()

    def begin_check(self, seed: int) -> None:
        """Drops the modules made so far and seeds the random stream, with the next call."""
        self._begin = seed

    def ask(self, call: Call) -> Outcome:
        """The outcome of one call, made now."""
        call.begin, self._begin = self._begin, None
        return self._sent([encode_call(call)])[0]

    def asked(self, implementation: Implementation, exchange: Exchange, first: list[Exchange]) -> Answer:
        """The answer to a call, which may still wait; `first`: the exchanges of the calls in its `first`."""
        if not self._waits:
            self.bound_arithmetic()
            with lifted():
                outcome = exchange.outcome = self.ask(exchange.call)
            return implementation._answered(exchange, outcome, first)
        call = exchange.call
        is_made = call.options.keep or (call.handle is None and self._makes(call.name)) or call.name in GIVE_OBJECTS
        answer: Answer = Pending(implementation, exchange, self)
        if is_made:
            answer = Handle(implementation, exchange, Outcome(HandleId(call.new_handle)), call.options.device)
        call.begin, self._begin = self._begin, None
        with lifted():
            frame = encode_call(call)  # as it is now: a check may go on to change a tensor
        self._calls.append(_Waiting(implementation, exchange, first, answer, frame))
        return answer

    def compare_later(self, compare: Callable[[], None]) -> None:
        """Has a comparison made by the next `flush`, once its answer is there."""
        self._later.append(compare)

    def flush(self) -> None:
        """Makes the calls that wait, then the comparisons. Raises Odd unless all is as a right answer's is."""
        calls, self._calls = self._calls, []
        later, self._later = self._later, []
        try:
            with lifted():
                outcomes = self._sent([call.frame for call in calls])
            for waiting, outcome in zip(calls, outcomes, strict=True):
                waiting.exchange.outcome = outcome
                answer = waiting.implementation._answered(waiting.exchange, outcome, waiting.first)
                if isinstance(answer, Handle) != isinstance(waiting.answer, Handle):
                    raise Odd
                waiting.answer.__dict__["outcome"] = outcome
            for compare in later:
                compare()
        except Exception as error:
            self.is_odd = True
            raise Odd from error

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Sends the calls that wait, then each call inside the block at once: an error may be expected there."""
        self.flush()
        before, self._waits = self._waits, False
        try:
            yield
        finally:
            self._waits = before

    def bound_arithmetic(self) -> None:
        """Bounds what the check computes from here on: it reads an answer, of any shape. Bounding all arithmetic takes
        a tenth of a judge's time."""
        if not self._is_bounded:
            self._is_bounded = True
            self.bounds.enter_context(BoundedArithmetic())

    @property
    def is_over(self) -> bool:
        """True if the check has made all calls that it was expected to make first."""
        return not self._played

    def _sent(self, frames: list[bytes]) -> list[Outcome]:
        """The outcomes of a group of calls, given as bytes: sent at once, or known from before; an error that the code
        raised is one too. Raises Odd if an answer can't be read, tells of a line left out at the top level, or if other
        calls were expected."""
        if not frames:
            return []
        self.groups.append(frames)
        answers = self.digest.add(self._known(frames) if self._played else self._transport.send_all(frames))
        self.reached.append(self.digest.value)
        try:
            outcomes = [self._transport.heard(decode_outcome(*answer)) for answer in answers]
        except BadMessage as nonsense:
            raise Odd from nonsense
        if any(outcome.left_out for outcome in outcomes):
            raise Odd
        self.imported.update(name for outcome in outcomes for name in outcome.imported)
        return outcomes

    def _known(self, frames: list[bytes]) -> list[Message]:
        """The answers that are known for these messages. Raises Odd if other messages were expected."""
        pairs = [self._played.popleft() for _frame in frames[: len(self._played)]]
        if [frame for frame, _answer in pairs] != frames:
            self.is_odd = True
            raise Odd
        return [answer for _frame, answer in pairs]


@contextmanager
def at_once() -> Iterator[None]:
    """Sends each call of the student's inside the block at once, if calls wait in this check: for one that goes on
    after an error."""
    queue = Queue.active
    if queue is None:
        yield
        return
    with queue.at_once():
        yield


def waits(answer: Answer, compare: Callable[[], None]) -> bool:
    """True if an answer's call was not sent yet: then `compare` is called once it was, and the caller returns."""
    if isinstance(answer, Pending) and answer.waits:
        answer.queue.compare_later(compare)
        return True
    return False


def passed(
    function: Callable[..., None], transport: Transport, makes: Callable[[str], bool], reference: Oracle, *, seed: int,
    scripts: dict[str, Script],
) -> tuple[Verdict, frozenset[str]] | None:  # fmt: skip
    """The verdict of a check that passes when its calls are sent together, and the names of the steps that imports
    asked for meanwhile. None: it has to be run again, call by call. `makes` tells whether a public name is a class;
    `scripts`, by check, are those of its step under this seed, to which its own is added."""
    name = function.__name__
    script = scripts.get(name)
    try:
        played, memo = script.played(transport) if script else ([], None)
        if memo is not None:
            return memo.verdict(), memo.imported
        queue = Queue(transport, makes, played)
        verdict = _run(function, queue, reference, seed)
    except Exception:  # whatever it is, the check is asked again
        return None
    found = PassRecord(
        verdict.called,
        tuple(exchange.name for exchange in verdict.exchanges if exchange.is_asked),
        verdict.drawn,
        frozenset(queue.imported),
    )
    script = scripts.setdefault(name, Script(queue.groups))
    script.passed[queue.digest.value] = found
    script.reach(queue)
    return verdict, found.imported


def _run(function: Callable[..., None], queue: Queue, reference: Oracle, seed: int) -> Verdict:
    """Runs a check with its calls queued. Returns the passing verdict; raises Odd, or what the check raises, if it does
    not pass so."""
    trial = Trial(function.__name__, queue, reference, seed=seed)
    trial.student._queue, trial.reference._before_reading = queue, queue.flush
    before, Queue.active = Queue.active, queue
    try:
        with queue.bounds:
            function(student=trial.student, reference=trial.reference, draw=trial.draw)
            trial.student._finish()
            queue.flush()
    finally:
        Queue.active = before
    if queue.is_odd or not queue.is_over:
        raise Odd
    exchanges = trial.student._exchanges
    called = frozenset(exchange.name for exchange in exchanges)
    return Verdict("pass", "", called, exchanges=exchanges, drawn=trial.draw.taken)
