"""Many submissions through one interface, `concurrent.futures`: a pool of warm processes here, or a Dask cluster."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, TypeVar

import msgspec

from grader.base import language, syntax
from grader.base.language import gettext as _
from grader.base.limited import OverBudget
from grader.base.limits import Limits
from grader.base.results import Report, failed_steps
from grader.classes import kit_version
from grader.course.submissions import Submission
from grader.judge import launcher
from grader.judge.grader import Grader, NotIsolated
from grader.judge.launcher import GraderError

if TYPE_CHECKING:
    from distributed import Client

BEGINNING = 10.0  # seconds to reach a scheduler
JUDGES_OF_A_SOURCE = 8  # one process forks for so many: each has it fork some 18 times a second, for 2 ms each


class NobodyGraded(GraderError):
    """No student of the class can be graded. One line, with the command to type next."""


class Unreachable(ConnectionError):
    """No scheduler answers, or its workers can't do this work. One line, with the command to type next."""


@dataclass(frozen=True)
class Task:
    """One submission to grade, and how."""

    submission: Submission = field(repr=False)
    steps: list[str]
    device: str
    seed: int
    language: str
    limits: Limits
    kit: str


Answer = Report | str  # a report, or the reason for its absence
Name = TypeVar("Name")  # of a task, whatever that is


@dataclass(frozen=True)
class Pool:
    """A pool for tasks: how an executor is opened, and how many tasks run side by side. `is_remote`: its workers may be
    on machines of others, and answer anything."""

    opened: Callable[[], AbstractContextManager[Executor]]
    size: int
    is_remote: bool = False


def cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes(size: int, limits: Limits) -> Pool:
    """A pool of `size` warm processes on this machine, which start when it is opened. They end with it, whatever ends
    it."""
    return Pool(lambda: _opened_threads(size, limits), size)


def answers(pool: Pool, tasks: Iterable[tuple[Name, Task]]) -> Generator[tuple[Name, Answer], None, None]:
    """The name of each task and its answer, as it comes. What fails is tried once more, alone and in a new pool.

    Raises NobodyGraded if no student can be graded.
    """
    failed: list[tuple[Name, Task]] = []
    for named, answer in _once(pool, iter(tasks), pool.size):
        if grader_failed(answer):
            failed.append(named)
        else:
            yield named[0], answer
    for named, answer in _once(pool, iter(failed), 1) if failed else ():
        yield named[0], answer


def grader_failed(answer: Answer) -> bool:
    """Whether the grader failed, as a whole or in a step, which may be otherwise next time."""
    return isinstance(answer, str) or bool(failed_steps(answer))


def _once(
    pool: Pool, tasks: Iterator[tuple[Name, Task]], side_by_side: int
) -> Iterator[tuple[tuple[Name, Task], Answer]]:
    """Each task with its answer, in the order in which the answers come; so many tasks at a time."""
    # One more than are worked at: who is done need not wait for the next one to be read.
    most = side_by_side + 1 if side_by_side > 1 else 1
    running: dict[Future[Report], tuple[Name, Task]] = {}
    with pool.opened() as executor:
        while True:
            for named in islice(tasks, most - len(running)):
                running[_submitted(executor, named[1])] = named
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), _answer(future, pool.is_remote)


def _submitted(executor: Executor, task: Task) -> Future[Report]:
    """The future of a task; if the machine lets no further thread start, one that has failed."""
    try:
        return executor.submit(grade, task)
    except (OSError, RuntimeError) as error:
        failed: Future[Report] = Future()
        failed.set_exception(error)
        return failed


def _answer(future: Future[Report], is_remote: bool) -> Answer:
    """The report of a finished task, or the sentence that says why it is missing. Raises NobodyGraded."""
    try:
        report = future.result()
        return msgspec.convert(msgspec.to_builtins(report), Report) if is_remote else report
    except NobodyGraded:
        raise
    except (GraderError, OverBudget) as error:
        return str(error)
    except Exception as error:  # of whatever kind a cluster raises: it is one submission's, and stops no other
        return _("The grader failed: {reason}", reason=error)


# --- in the process that grades ---


def grade(task: Task) -> Report:
    """Grades one submission in this process, with a grader that is kept warm for the next. Raises GraderError and
    OverBudget, and NobodyGraded if no other task would get a report."""
    with language.use(task.language):
        if task.kit != kit_version.kit_version():
            raise NobodyGraded(
                _("The kit changed in the meantime, or a worker has a different copy. Type the same command again.")
            )
        try:
            with GRADERS.lend(task.limits) as grader, syntax.budget():
                return grader.grade(task.submission, task.steps, device=task.device, seed=task.seed)
        except NotIsolated as refused:
            raise NobodyGraded(str(refused)) from None
        except OSError as error:
            raise GraderError(str(error)) from error


class _Graders:
    """The warm graders of one process: as many as there are calls at the same time, their judges of few sources.

    A source that is dead, or was there when this was closed, ends with the last of its graders.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[Limits, Grader]] = []
        self._source_of: dict[Grader, launcher.Judges] = {}  # of every grader, idle or in use
        self._sources: list[launcher.Judges] = []  # sources of judges for new graders
        self._stopped = False
        self._lock = threading.Lock()
        Finalize(None, self.close, exitpriority=10)  # at the end of a cluster's process nothing else would

    @contextmanager
    def lend(self, limits: Limits) -> Iterator[Grader]:
        """Lends a grader with these limits to the block, an idle one if there is any. It is closed if the block fails,
        or its source is dead. Raises GraderError."""
        with self._lock:
            unused = self._retire([source for source in self._sources if not source.alive])
        _close(unused)
        with self._lock:
            fitting = [is_alive for is_alive in self._idle if is_alive[0] == limits]
            if fitting:
                self._idle.remove(fitting[-1])
            grader = fitting[-1][1] if fitting else self._new(limits)
        try:
            yield grader
        except BaseException:
            self._done(grader)
            raise
        with self._lock:
            is_alive = self._source_of[grader] in self._sources
            if is_alive:
                self._idle.append((limits, grader))
        if not is_alive:
            self._done(grader)

    def _new(self, limits: Limits) -> Grader:
        """A new grader, with a judge from a source that few others use, or a new one. Raises GraderError if stopped."""
        if self._stopped:
            raise GraderError(_("The judge could not be started: {reason}", reason="stopped"))
        used = Counter(self._source_of.values())
        free = [source for source in self._sources if used[source] < JUDGES_OF_A_SOURCE]
        if not free:
            free.append(launcher.start())
            self._sources.append(free[0])
        grader = Grader(judges=1, limits=limits, source=free[0])
        self._source_of[grader] = free[0]
        return grader

    def _done(self, grader: Grader) -> None:
        """Ends a grader that was in use; also the process that made its judge, if that is retired and no other uses
        it."""
        grader.close()
        with self._lock:
            source = self._source_of.pop(grader)
            unused = source not in self._sources and source not in self._source_of.values()
        _close([source] if unused else [])

    def _retire(self, sources: list[launcher.Judges]) -> list[launcher.Judges]:
        """Keeps new graders from using these sources, and closes their idle ones. Returns the sources that no grader in
        use needs, to be closed without the lock."""
        self._sources = [source for source in self._sources if source not in sources]
        for limits, grader in [idle for idle in self._idle if self._source_of[idle[1]] in sources]:
            self._idle.remove((limits, grader))
            grader.close()
            del self._source_of[grader]
        return [source for source in sources if source not in self._source_of.values()]

    def stop(self) -> None:
        """Fails all gradings at once, running ones and those that start before the next `close`."""
        with self._lock:
            self._stopped = True
            for source in {*self._sources, *self._source_of.values()}:
                source.stop()

    def close(self) -> None:
        """Ends every idle grader and all processes but those of graders in use, which end when these are done."""
        with self._lock:
            unused = self._retire(self._sources)
            self._stopped = False
        _close(unused)


def _close(sources: Iterable[launcher.Judges]) -> None:
    for source in sources:
        source.close()


GRADERS = _Graders()


def close_graders() -> None:
    """Ends the graders of this process: a worker of a cluster lives on after a class."""
    GRADERS.close()


# --- pools ---


@contextmanager
def held() -> Iterator[None]:
    """Defers SIGINT and SIGTERM to the end of the block, which then raises KeyboardInterrupt: a report that is written
    is also counted. Does nothing outside the main thread."""
    late: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}  # none that is ignored
    if threading.current_thread() is not threading.main_thread():
        handlers.clear()
    for number in handlers:
        signal.signal(number, lambda number, _frame: late.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if late:
            raise KeyboardInterrupt(late[0])


def begin(limits: Limits) -> None:
    """Starts loading torch in a separate process, without waiting for it; a failure is left to the grading."""
    with suppress(GraderError, OSError), GRADERS.lend(limits):
        pass


@contextmanager
def _opened_threads(size: int, limits: Limits) -> Iterator[Executor]:
    """An executor of `size` threads that wait for judges, in which the work is done. They end with the block, after an
    error at once."""
    executor = ThreadPoolExecutor(size)
    try:
        kit_version.kit_version.cache_clear()  # the kit may have changed since the last pool
        begin(limits)
        yield executor
        executor.shutdown()
    except BaseException:
        GRADERS.stop()
        executor.shutdown(cancel_futures=True)
        raise
    finally:
        GRADERS.close()


@contextmanager
def cluster(scheduler: str) -> Iterator[Pool]:
    """The Dask cluster of the scheduler at this address as a pool: a task for each thread of its workers. Raises
    Unreachable."""
    try:
        from distributed import Client
        from distributed.comm.addressing import parse_address, parse_host_port
        from distributed.comm.registry import get_backend
    except ImportError:
        raise Unreachable(_("Dask is not installed here. Type: .venv/bin/python -m pip install distributed")) from None
    try:  # what a client would stumble over, and not forget until it has waited for 20 seconds
        kind, place = parse_address(scheduler)
        if get_backend(kind) and kind in ("tcp", "tls"):
            parse_host_port(place)
    except ValueError as error:
        raise Unreachable(
            _(
                "“{address}” is not the address of a Dask scheduler ({reason}). Type: python -m grader class "
                "SUBMISSIONS --scheduler tcp://HOST:8786"
            ).format(address=scheduler, reason=error)
        ) from None
    try:
        client = Client(scheduler, timeout=BEGINNING, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise Unreachable(
            _("No Dask scheduler answers at {address}: {reason}. Type: dask scheduler", address=scheduler, reason=error)
        ) from None
    with client:
        _require_this_kit(client, scheduler)
        try:
            yield Pool(lambda: _opened_executor(client), sum(client.nthreads().values()), is_remote=True)
        finally:
            with suppress(OSError, TimeoutError):  # a scheduler that is gone
                client.run(close_graders)


@contextmanager
def _opened_executor(client: Client) -> Iterator[Executor]:
    """The cluster's executor, which the end of the block waits for; after an error it does not."""
    executor: Executor = client.get_executor(pure=False)  # the same submission twice is two calls
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False)
        raise
    executor.shutdown()


def _require_this_kit(client: Client, scheduler: str) -> None:
    """Raises Unreachable if there is no worker, or the scheduler or a worker has another version of the kit."""
    try:
        version = str(client.run_on_scheduler(kit_version.kit_version))
    except Exception as error:  # whatever the scheduler raised, most likely ModuleNotFoundError
        version = str(error).splitlines()[0] if str(error) else type(error).__name__
    if version != kit_version.kit_version():
        problem = _(
            "The scheduler at {address} does not have this version of the kit ({versions}). In a copy of this "
            "folder on its machine, type: PYTHONPATH=. dask scheduler"
        )
        raise Unreachable(problem.format(address=scheduler, versions=version))
    try:
        versions = set(client.run(kit_version.kit_version).values())
    except Exception as error:  # whatever a worker raised, most likely ModuleNotFoundError
        versions = {str(error)}
    if versions == {kit_version.kit_version()}:
        return
    if not versions:
        problem = _("The scheduler at {address} has no worker. Type: dask worker {address}")
    else:
        problem = _(
            "The workers of {address} do not have this version of the kit ({versions}). In a copy of this "
            "folder on their machines, type: PYTHONPATH=. dask worker {address}"
        )
    raise Unreachable(problem.format(address=scheduler, versions=", ".join(sorted(versions))))
