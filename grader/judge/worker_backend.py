"""The student's side of a check: a backend that gets its answers from a sandboxed worker."""

from __future__ import annotations

import contextlib
import signal
import time

import msgspec

from grader.base.errors import CheckFailed
from grader.base.language import gettext as _
from grader.base.limits import Limits
from grader.calls.call import MAX_LEFT_OUT, Call, LeftOut, Load, Outcome
from grader.calls.codec import decode_outcome, encode_call, encode_load
from grader.calls.framing import BadMessage, batch
from grader.checks.lazy import Message, Odd
from grader.checks.learner_errors import NOT_PERMITTED, learners_error
from grader.checks.trial import ours_failed
from grader.judge.shared_worker import SharedWorker
from grader.sandbox.process import Launcher, NoAnswer, Worker

# The signals that end a process with corrupted memory: at once, or at the next allocation.
BY_WRONG_POINTERS = (signal.SIGSEGV, signal.SIGABRT, getattr(signal, "SIGBUS", signal.SIGSEGV))
QUICK_SECONDS = 2.0
MAX_WORKERS = 4  # per step: a file that keeps killing its process is given up


class WorkerBackend:
    """Answers from a learner's step. The worker is started lazily, at the first call, and again after a call that
    killed it.

    After a call that hung or died, its public name is not called again: further checks fail at once, for that reason.
    """

    def __init__(
        self, launcher: Launcher, load: Load, limits: Limits, *, runs_kernels: bool = False,
        shared: SharedWorker | None = None, quick: bool = False,
    ) -> None:  # fmt: skip
        """Imports the step that `load` says; starts nothing yet. `runs_kernels`: its code is in Triton; `quick`:
        answers are given up after QUICK_SECONDS; `shared` may hold a worker to go on with."""
        self._launcher, self._limits, self._runs_kernels = launcher, limits, runs_kernels
        self._load = msgspec.structs.replace(load, quick=quick)
        self._shared = shared or SharedWorker()
        self._worker: Worker | None = None
        self._started = 0
        self._seconds = 0.0
        self._answered = 0  # bytes
        self._call_seconds = limits.call_seconds
        self._begin: int | None = None
        self._makers: dict[int, str] = {}
        self._lost: dict[str, CheckFailed] = {}
        self._printed: list[str] = []
        self.imported: set[str] = set()  # steps that its imports asked for, as its process says
        self.left_out: dict[tuple[str, int], LeftOut] = {}  # lines at the top level that raised, by file and line
        self.odd = False  # its process ended by itself, sent what is no answer, or met what is forbidden

    def allow(self, seconds: float | None) -> None:
        """Sets the time limit in seconds of calls from here on; None: the one in the limits."""
        self._call_seconds = self._limits.call_seconds if seconds is None else seconds * self._limits.patience

    def begin_check(self, seed: int) -> None:
        """Drops the modules made so far and seeds the random stream, with the next call."""
        self._begin = seed
        self._makers.clear()

    def ask(self, call: Call) -> Outcome:
        """The outcome of one call. Raises CheckFailed if the worker timed out, crashed, or sent no valid answer, also
        if an earlier call of the same name has."""
        self._makers |= {earlier.new_handle: earlier.name for earlier in call.first if earlier.handle is None}
        name = call.name if call.handle is None else self._makers.get(call.handle, call.name)
        self._makers[call.new_handle] = name
        if name in self._lost:
            raise self._lost[name]
        worker = self._worker or self._start()
        call.begin, self._begin = self._begin, None
        try:
            return self.heard(self._exchange(worker, encode_call(call), name))
        except CheckFailed as failure:
            self._lost[name] = failure
            raise

    def send_all(self, frames: list[bytes]) -> list[Message]:
        """The answers to several encoded calls, sent at once. Raises Odd if one has none, or takes long."""
        try:
            worker = self._worker or self._start()
            if self.left_out:
                raise Odd
            start = time.monotonic()
            answers = worker.exchange_all(batch(frames), len(frames), self._seconds_left())
        except (CheckFailed, NoAnswer, BadMessage, MemoryError, OSError) as failure:
            self._end()
            raise Odd from failure
        self._seconds += time.monotonic() - start
        self._answered += sum(len(header) + len(payload) for header, payload in answers)
        if self._answered > self._limits.answers:
            raise Odd
        return answers

    @property
    def could_not_start(self) -> bool:
        """Whether the file can't be imported, so that none of its names was ever asked."""
        return "" in self._lost

    def printed(self) -> str:
        """The output of the learner's code, truncated."""
        current = self._worker.process.printed() if self._worker else ""
        return "".join([*self._printed, current])[: self._limits.output]

    def lines_left_out(self) -> list[LeftOut]:
        """The lines at the top level that raised, in order."""
        return [line for _place, line in sorted(self.left_out.items())]

    def close(self) -> None:
        """Ends the worker and drops the stored failure: its traceback would keep the answer alive."""
        if self._worker is not None:
            self._end()
        self._lost.clear()

    def hand_on(self) -> None:
        """Leaves the worker to the next step of the submission, if it can take that: every check has passed."""
        clean = self._worker is not None and self._started == 1 and not self._lost and not self.odd
        if clean and self._worker and self._shared.keep(self._worker, self._launcher, self._load, self._limits):
            self._worker = None

    def _start(self) -> Worker:
        """Starts a worker, or takes the one that waits, and imports the step in it. Raises CheckFailed if that fails,
        or has been tried too often."""
        if "" in self._lost:  # the file itself can't be imported
            raise self._lost[""]
        if self._started >= MAX_WORKERS:
            raise CheckFailed(
                _("The code ended its own process {count} times and is not run again.", count=MAX_WORKERS)
            )
        try:
            shared = self._shared.take(self._launcher, self._load, self._limits) if not self._started else None
            worker = self._worker = shared or Worker(self._launcher.launch(self._limits))
        except Exception as error:  # no learner's code has run yet
            raise CheckFailed(
                _("The grader could not start a process for the code: {error}", error=error), "error"
            ) from error
        self._started += 1
        try:
            loaded = self.heard(self._exchange(worker, encode_load(self._load), self._load.module))
            if loaded.raised is not None:
                raise learners_error(
                    loaded.raised, _("importing {file}", file=self._load.sources[self._load.module][0])
                )
        except CheckFailed as failure:
            failure.by_code = False
            self._lost[""] = failure
            if self._worker is not None:  # it would go on to report each name as undefined
                self._end()
            raise
        return worker

    def heard(self, outcome: Outcome) -> Outcome:
        """Returns the outcome; notes its imports, the lines left out, and whether it is odd, in this object."""
        self.imported.update(outcome.imported)
        self.odd |= bool(outcome.odd)
        for line in outcome.left_out if len(self.left_out) < MAX_LEFT_OUT else ():
            self.left_out.setdefault((line.file, line.line), line)
        if raised := outcome.raised:
            self.odd |= any(word in raised.message for word in NOT_PERMITTED)
        return outcome

    def _seconds_left(self) -> float:
        """The seconds left for a call, or for several sent at once. Quick answers have little time: a late one is asked
        for again."""
        left = min(self._call_seconds, self._limits.step_seconds - self._seconds)
        return min(left, QUICK_SECONDS) if self._load.quick else left

    def _exchange(self, worker: Worker, frame: bytes, name: str) -> Outcome:
        """Sends a call to the worker and decodes its answer. Raises CheckFailed if none comes."""
        seconds = self._seconds_left()
        start = time.monotonic()
        try:
            header, payload = worker.exchange(frame, seconds)
        except NoAnswer as ending:
            self._end()
            self.odd |= ending.why != "late"
            if ending.place and ending.place[0] not in {filename for filename, _source in self._load.sources.values()}:
                ending.place = None  # reported by its process, and not to be trusted
            raise _no_answer(ending, name, seconds, self._runs_kernels) from None
        except (BadMessage, MemoryError) as nonsense:
            self._end()
            self.odd = True
            raise self._nonsense(name, nonsense) from None
        except Exception as error:  # a fault of the transport, and not of the message
            self._end()
            raise CheckFailed(ours_failed(), "error") from error
        finally:
            self._seconds += time.monotonic() - start
        self._answered += len(header) + len(payload)
        if self._answered > self._limits.answers:
            self._end()
            raise CheckFailed(
                _("{name}: the answers of this step exceed {limit} MiB in total.").format(
                    name=name, limit=self._limits.answers >> 20
                )
            )
        try:
            outcome = decode_outcome(header, payload)
            if outcome.is_last:  # what is asked next is asked of a new process
                self._end()
            return outcome
        except BadMessage as nonsense:
            self._end()
            self.odd = True
            raise self._nonsense(name, nonsense) from None

    @staticmethod
    def _nonsense(name: str, what: Exception) -> CheckFailed:
        """The failure of a call that got something other than an answer."""
        return CheckFailed(
            _("{name}: the process sent something that is not an answer ({what}).").format(
                name=name, what=str(what) or type(what).__name__
            )
        )

    def _end(self) -> None:
        """Ends the worker, if there is one, and keeps its output."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
            with contextlib.suppress(OSError):
                self._printed.append(worker.process.printed())


def _no_answer(ending: NoAnswer, name: str, seconds: float, runs_kernels: bool) -> CheckFailed:
    """The failure of a call of `name` without an answer: too late (after `seconds`), out of disk, or its process has
    ended."""
    place = ""
    if ending.place:
        file, line, function = ending.place
        place = "\n" + _(
            "the code was at line {line} of {file}, in {function}", line=line, file=file, function=function
        )
    if ending.why == "late":
        sentence = _("{name}: no answer within {seconds} s", name=name, seconds=f"{max(seconds, 0):.0f}")
        return CheckFailed(sentence + place, "timeout")
    if ending.why == "full":
        return CheckFailed(_("{name}: the code wrote more to files than allowed", name=name))
    status = ending.status
    if status is None:
        sentence = _("{name}: the code's process ended without an answer", name=name)
    elif status & 0x7F:
        sentence = _("{name}: the code's process was killed by {signal}", name=name, signal=_signal_name(status & 0x7F))
        if runs_kernels and status & 0x7F in BY_WRONG_POINTERS:
            place += "\n" + _(
                "A kernel reads and writes wherever its pointers lead. Is there a `tl.load` or `tl.store` without a "
                "mask, or an offset that leads out of the tensor?"
            )
    else:
        sentence = _("{name}: the code ended its own process (exit status {status})", name=name, status=status >> 8)
    return CheckFailed(sentence + place)


def _signal_name(number: int) -> str:
    """The name of a signal, as SIGKILL, or its number if it has none."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
