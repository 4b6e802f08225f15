"""Many submissions through one interface, `concurrent.futures`: a pool of warm processes here, or a Dask cluster."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING

import msgspec

from grader import language, version
from grader.grading import Grader, GraderError, NotIsolated
from grader.language import gettext as _
from grader.limits import Limits
from grader.results import Report
from grader.submission import Submission

if TYPE_CHECKING:
    from distributed import Client

BEGINNING = 10.0  # seconds to reach a scheduler


class Refused(GraderError):
    """Nobody of a class can be graded so. One line, with what to type next."""


class Unreachable(ConnectionError):
    """No scheduler answers, or its workers can't do this work. One line, with what to type next."""


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


@dataclass(frozen=True)
class Answer:
    """What came of a task: a report and its page, or why there is none. `refused`: no other task would get any."""

    report: bytes = field(default=b"", repr=False)
    page: str = field(default="", repr=False)
    error: str = ""
    refused: bool = False


@dataclass(frozen=True)
class Pool:
    """Where tasks go: how an executor is opened, and how many tasks it works at side by side."""

    opened: Callable[[], AbstractContextManager[Executor]]
    size: int


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processes(size: int, limits: Limits) -> Pool:
    """A pool of processes on this machine, each with a warm grader of its own. They end with it, whatever ends it."""
    return Pool(lambda: _opened_processes(size, limits), size)


def answers(pool: Pool, tasks: Iterable[tuple[str, Task]]) -> Generator[tuple[str, Answer], None, None]:
    """The answer to each named task, as it comes. What fails is tried once more, alone and in a new pool.

    Raises Refused when nobody can be graded so.
    """
    failed: list[tuple[str, Task]] = []
    for named, answer in _once(pool, iter(tasks), pool.size):
        if answer.error:
            failed.append(named)
        else:
            yield named[0], answer
    for named, answer in _once(pool, iter(failed), 1) if failed else ():
        yield named[0], answer


def _once(
    pool: Pool, tasks: Iterator[tuple[str, Task]], side_by_side: int
) -> Iterator[tuple[tuple[str, Task], Answer]]:
    """Answers in the order they come. A pool whose process was killed is opened anew for the tasks that are left."""
    # One more than are worked at: who is done need not wait for the next one to be read.
    most = side_by_side + 1 if side_by_side > 1 else 1
    left = True
    while left:
        running: dict[Future[Answer], tuple[str, Task]] = {}
        broken = False
        with pool.opened() as executor:
            while not broken:
                for named in islice(tasks, most - len(running)):
                    running[_submitted(executor, named[1])] = named
                if not running:
                    left = False
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    answer = _answer(future)
                    broken = broken or _is_broken(future)
                    yield running.pop(future), answer
            for future, named in running.items():
                yield named, _answer(future)


def _submitted(executor: Executor, task: Task) -> Future[Answer]:
    try:
        return executor.submit(grade, task)
    except BrokenExecutor as error:
        future: Future[Answer] = Future()
        future.set_exception(error)
        return future


def _answer(future: Future[Answer]) -> Answer:
    try:
        answer = future.result()
    except BrokenExecutor:
        return Answer(error=_("The process that graded it was killed."))
    except Exception as error:  # of whatever kind a cluster raises: it is one submission's, and stops no other
        return Answer(error=_("The grader failed: {reason}").format(reason=error))
    if answer.refused:
        raise Refused(answer.error)
    return answer


def _is_broken(future: Future[Answer]) -> bool:
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)


# --- in the process that grades ---


def grade(task: Task) -> Answer:
    """Grades one submission in this process, with a grader that is kept warm for the next."""
    with language.use(task.language):
        if task.kit != version.fingerprint():
            return Answer(
                error=_("The kit has changed meanwhile, or is another one on a worker. Type the same command again."),
                refused=True,
            )
        try:
            with _graders().one(task.limits) as grader:
                report = grader.grade(task.submission, task.steps, device=task.device, seed=task.seed)
        except NotIsolated as refused:
            return Answer(error=str(refused), refused=True)
        except (GraderError, OSError) as error:
            return Answer(error=str(error))
        return Answer(msgspec.json.encode(report), _page(report))


def _page(report: Report) -> str:
    from grader import page

    return page.html(report, every_picture=False)


class _Graders:
    """The warm graders of one process: as many as there are calls at the same time."""

    def __init__(self) -> None:
        self._idle: list[tuple[Limits, Grader]] = []
        self._lock = threading.Lock()
        Finalize(None, self.close, exitpriority=10)  # at the end of a process of a pool nothing else would

    @contextmanager
    def one(self, limits: Limits) -> Iterator[Grader]:
        """A grader that nobody else uses. One that has failed is closed and not used again."""
        with self._lock:
            fitting = [kept for kept in self._idle if kept[0] == limits]
            kept = fitting[-1] if fitting else None
            if kept:
                self._idle.remove(kept)
        grader = kept[1] if kept else Grader(judges=1, limits=limits, many=True)
        try:
            yield grader
        except BaseException:
            grader.close()
            raise
        with self._lock:
            self._idle.append((limits, grader))

    def close(self) -> None:
        """Ends every grader that is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _limits, grader in idle:
            with suppress(OSError):
                grader.close()


@functools.cache
def _graders() -> _Graders:
    return _Graders()


def close_graders() -> None:
    """Ends the graders of this process: a worker of a cluster lives on after a class."""
    _graders().close()


def _begin(limits: Limits) -> None:
    """In a new process of a pool: Ctrl-C is its parent's to answer, and it does not outlive that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with suppress(GraderError, OSError), _graders().one(limits):
        pass  # torch loads while the first submission is read


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)  # its grader hears of it when the connection closes


# --- pools ---


@contextmanager
def _opened_processes(size: int, limits: Limits) -> Iterator[Executor]:
    before = multiprocessing.active_children()
    # Spawned, not forked: a process that grades has nothing of this one, no open file and no lock half taken.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(size, context, _begin, (limits,))
    try:
        yield executor
    except BaseException:
        for process in multiprocessing.active_children():
            if process not in before:
                process.terminate()
        # Its thread ends with them, and is waited for: at the end of Python it would be written to while it closes.
        executor.shutdown(cancel_futures=True)
        raise
    executor.shutdown()


@contextmanager
def cluster(scheduler: str) -> Iterator[Pool]:
    """A Dask cluster as a pool: one call a thread of its workers. Raises Unreachable."""
    try:
        from distributed import Client
    except ImportError:
        raise Unreachable(_("Dask is not installed here. Type: .venv/bin/python -m pip install distributed")) from None
    try:
        client = Client(scheduler, timeout=BEGINNING, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise Unreachable(
            _("No Dask scheduler answers at {address}: {reason}. Type: dask scheduler").format(
                address=scheduler, reason=error
            )
        ) from None
    with client:
        _require_this_kit(client, scheduler)
        try:
            yield Pool(lambda: _opened_executor(client), sum(client.nthreads().values()))
        finally:
            with suppress(OSError, TimeoutError):  # a scheduler that is gone
                client.run(close_graders)


@contextmanager
def _opened_executor(client: Client) -> Iterator[Executor]:
    executor: Executor = client.get_executor(pure=False)  # the same submission twice is two calls
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False)
        raise
    executor.shutdown()


def _require_this_kit(client: Client, scheduler: str) -> None:
    """Raises Unreachable when there is no worker, or one has not this version of the kit."""
    try:
        versions = set(client.run(version.fingerprint).values())
    except Exception as error:  # whatever a worker raised, most likely ModuleNotFoundError
        versions = {str(error)}
    if versions == {version.fingerprint()}:
        return
    if not versions:
        problem = _("The scheduler at {address} has no worker. Type: dask worker {address}")
    else:
        problem = _(
            "The workers of {address} have not this version of the kit ({versions}). "
            "In a copy of this folder on their machines, type: PYTHONPATH=. dask worker {address}"
        )
    raise Unreachable(problem.format(address=scheduler, versions=", ".join(sorted(versions))))
