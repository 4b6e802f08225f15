"""The process in which a learner's code is graded. It holds no expected value, and no reference but of an earlier step
that is wrong or missing.

It gets the learner's files as text from the judge, imports the step from memory, and answers calls until the channel is
closed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import io
import linecache
import os
import re
import signal
import sys
import traceback
import warnings
from functools import partial
from typing import BinaryIO

import msgspec
import torch
from torch import nn

from grader import holds_a_kit
from grader.base.limits import Limits
from grader.calls import builtins
from grader.calls.call import MAX_LEFT_OUT, MAX_SOURCE, Call, LeftOut, Load, Options, Outcome, Raised
from grader.calls.codec import decode_call_later, decode_load, decode_outcome, encode_call, encode_outcome
from grader.calls.framing import NEXT_STEP, PREFIX, batch_size, frame
from grader.calls.leftovers import Surroundings, settings_taken_back
from grader.calls.responder import Responder
from grader.calls.transfer import described
from grader.calls.values import MAX_NAME, MAX_TEXT
from grader.sandbox.conceal import collected, conceal, own_builtins, suspicions, wipe_freed
from grader.sandbox.environment import NO_TERMINAL
from grader.sandbox.importer import PACKAGE, BesideImporter, SubmissionImporter
from grader.sandbox.top_level import FailedStatement

setprofile, settrace = sys.setprofile, sys.settrace
INTERNALS = re.compile(r"(?<!\s)\s*+\(Triggered internally at [^()\n]{0,300}\)")  # what torch says about its own source


def serve(requests: BinaryIO, answers: BinaryIO, faults: int) -> None:
    """Loads a step of the submission and answers calls, then the next step, until the judge closes the channel. Stack
    dumps go to the descriptor `faults`."""
    faulthandler.enable(file=faults, all_threads=False)
    if hasattr(faulthandler, "register"):
        # With this signal the judge asks where a call that timed out is, and reads the stack from `faults`.
        faulthandler.register(signal.SIGUSR1, file=faults, all_threads=False, chain=False)
    surroundings = Surroundings(collected)
    conceal()
    surroundings.settle()
    finders, showwarning = list(sys.meta_path), warnings.showwarning
    while _serve_step(requests, answers):
        sys.meta_path[:], warnings.showwarning = finders, showwarning
        gc.collect()  # what the step made may have finalisers, or hold a mode open
        _send(answers, frame(msgspec.msgpack.encode(surroundings.restored()), b""))


def _serve_step(requests: BinaryIO, answers: BinaryIO) -> bool:
    """Loads a step and answers calls to it. Returns True if another step of the same submission follows."""
    first = _read_frame(requests)
    if first is None:
        return False
    load = decode_load(first[0])
    if load.public:  # the text of a reference is freed here, and what it was compiled from
        wipe_freed(True)
    del first
    importer = SubmissionImporter(load.sources, load.public, load.seconds, load.packages)
    if load.public:
        wipe_freed(True)
    responder, outcome = _loaded(importer, load)
    _send(answers, _encoded(outcome))
    follows = _answer(requests, answers, responder, importer)
    importer.forget()
    return follows


def rehearse() -> None:
    """Answers some calls and decodes the answers, so that processes forked from this one start warm.

    Python specialises a function's bytecode after a few runs. No gradients: torch can't be forked after a backward
    pass.
    """
    x, options = torch.ones(2, 3, 4), Options(measures=("largest",), functions=True)
    responder = Responder({"function": torch.matmul, "Module": nn.Linear}, {"function": ("softmax",)})
    module = Call("Module", (4, 4), {"bias": False}, new_handle=1, options=Options(seed=1))
    load = Call("load_parameters", ({"weight": x[0].mT @ x[0]}, True), handle=1)
    calls = (
        Call("function", (x, x.mT), begin=1),
        Call("function", (x, x.mT), options=Options(device="meta")),
        Call("__call__", (x,), handle=1, first=(module, load)),
        Call("parameters", handle=1),
        Call("function"),
    )
    measured = Call("function", (x,), {"other": x.mT}, options=options)
    for several in (calls * 10, (measured,) * 8):  # together: to exchange torch's fallback between them takes longest
        answers = io.BytesIO()
        _answer(io.BytesIO(b"".join(map(encode_call, several))), answers, responder)
        answers.seek(0)
        while message := _read_frame(answers):
            decode_outcome(*message)


def _answer(
    requests: BinaryIO, answers: BinaryIO, responder: Responder, importer: SubmissionImporter | None = None
) -> bool:
    """Answers calls. Returns True at the message that asks to take another step, False once the channel is closed."""
    held = 0  # answers that are sent together with later ones
    with responder.watching():
        while (message := _read_frame(requests)) is not None:
            if message == NEXT_STEP:
                return True
            if count := batch_size(message):
                held = count - 1
                continue
            responder.quiet()  # what follows is none of the learner's business
            call, due = decode_call_later(*message)
            outcome = responder.respond(call, due=due)
            if importer:
                _report(outcome, importer, responder)
            data = _encoded(outcome)
            if late := responder.used_late():
                outcome.off_limits = sorted({*outcome.off_limits, *late})
                data = _encoded(outcome)
            if held:
                answers.write(data)
            else:
                _send(answers, data)
            held = max(0, held - 1)
    return False


def _loaded(importer: SubmissionImporter, load: Load) -> tuple[Responder, Outcome]:
    """Imports the step from memory: its responder, and an outcome with the lines that were left out."""
    sys.meta_path[:] = [importer, *sys.meta_path, BesideImporter(importer)]
    filenames = {filename for filename, _source in importer.sources.values()}
    _warn_of_lines_in(filenames)
    sys.breakpointhook = _Breakpoint()
    names: dict[str, object] = {}
    builtins.look_for({family for families in load.off_limits.values() for family in families})

    def quiet() -> None:
        """Ends what the learner's code has set to watch this process."""
        if not importer.references:  # with references in the process none can be set
            setprofile(None)
            settrace(None)

    left_out = partial(_left_out, importer)
    responder = Responder(names, load.off_limits, filenames.__contains__, left_out, quiet, is_quick=load.quick)
    outcome = Outcome()
    with responder.loading():
        try:
            try:
                with settings_taken_back():
                    imported = importlib.import_module(f"{PACKAGE}.{load.module}")
            finally:
                quiet()
            names.update(vars(imported))
        except BaseException as error:  # a learner's module may raise anything
            outcome.raised = responder.describe(error)
    _report(outcome, importer, responder)
    return responder, outcome


def _report(outcome: Outcome, importer: SubmissionImporter, responder: Responder) -> None:
    """Adds to an outcome the steps imported, the suspicious attempts and the lines left out since the last answer,
    and marks these lines as reported."""
    outcome.imported, outcome.odd = importer.newly_asked(), suspicions()
    failed = importer.top_level.failed
    outcome.left_out = [_described(each) for each in failed[:MAX_LEFT_OUT] if not each.reported]
    for each in failed:
        each.reported = True


def _left_out(importer: SubmissionImporter, name: str) -> LeftOut | None:
    """The line left out that would have bound a name, or may have by `import *`; None without one."""
    failed = importer.top_level.failed
    binding = [each for each in failed if name in each.names] or [each for each in failed if "*" in each.names]
    return _described(binding[0]) if binding else None


def _described(failed: FailedStatement) -> LeftOut:
    """A statement that was left out as it is sent: the error with its place, each text cut."""
    raised = described(failed.error, lambda _name: False, None)
    message = str(failed.error.msg) if isinstance(failed.error, SyntaxError) else raised.message  # without the place
    source = linecache.getline(failed.file, failed.line).strip()
    return LeftOut(raised.type[:MAX_NAME], message[:MAX_TEXT], failed.file, failed.line, source[:MAX_SOURCE])


def _warn_of_lines_in(filenames: set[str]) -> None:
    """Has warnings printed with the innermost line in one of these files, the learner's, even if torch warns."""

    def show(message: object, category: type[Warning], *place: object, **more: object) -> None:
        frames = (frame for frame, _line in traceback.walk_stack(None))
        own = next((frame for frame in frames if frame.f_code.co_filename in filenames), None)
        where = f"{own.f_code.co_filename}:{own.f_lineno}: " if own else ""
        sys.stderr.write(f"{where}{category.__name__}: {INTERNALS.sub('', str(message))}\n")

    warnings.showwarning = show


class _Breakpoint:
    """`breakpoint()` without a terminal: it says so once, and the code goes on."""

    said = False

    def __call__(self, *args: object, **kwargs: object) -> None:
        if not self.said:
            print(NO_TERMINAL)
        self.said = True


def _read_frame(stream: BinaryIO) -> tuple[bytes, bytes] | None:
    """The header and payload of the next request; None once the channel is closed."""
    prefix = stream.read(PREFIX.size)
    if len(prefix) < PREFIX.size:
        return None
    header, payload = PREFIX.unpack(prefix)
    return stream.read(header), stream.read(payload)


def _encoded(outcome: Outcome) -> bytes:
    """The outcome as bytes; for one that can't be encoded, an outcome that raised."""
    try:
        return encode_outcome(outcome)
    except Exception as error:  # a learner's object that fakes its class
        return encode_outcome(Outcome(raised=Raised(type(error).__name__, "this answer can't be sent")))


def _send(answers: BinaryIO, data: bytes) -> None:
    """Sends an answer. It is encoded before any of the learner's code runs again, as a stream of their own may here."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a learner may have closed or replaced them
            stream.flush()  # output is lost if the process is killed before
    answers.write(data)
    answers.flush()


def main(root: str, folder: str, limits: str) -> None:
    """Confines this process, a spawned worker, and serves over standard input and output. `folder`: a path for its
    files; `limits`: as JSON.

    This package is imported from `root`; afterwards a learner's code must find neither the package nor its folder.
    """
    from grader.sandbox import bounds, kernel, namespaces, preload, process

    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    preload.load_torch()
    preload.warm_up()  # some of it reads files that the sandbox hides
    own_builtins()
    readable = kernel.readable_paths(root)
    sys.path[:] = [entry for entry in sys.path if not holds_a_kit(entry)]
    sys.argv[:] = sys.orig_argv[:] = [""]
    allowed = msgspec.json.decode(limits, type=Limits)
    spaces = None if allowed.accelerator else namespaces.make(folder, readable, kernel.library_places())
    answers.write(process.report_set_up(bounds.restrict(allowed, folder, readable, (), spaces)))
    answers.flush()
    serve(requests, answers, 2)
