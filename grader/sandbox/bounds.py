"""Confines a worker for good: limits on CPU time, memory, files and processes, then the kernel's isolation layers."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence

from grader.base.limits import Limits
from grader.sandbox import kernel, namespaces
from grader.sandbox.process import LAYERS_EVERYWHERE, SLACK_SECONDS


def restrict(
    limits: Limits,
    folder: str,
    readable: Sequence[str] = (),
    proven: Sequence[str] = (),
    spaces: namespaces.Namespaces | None = None,
) -> tuple[str, ...]:
    """Confines the calling process for good: the last thing a worker does before it reads a learner's code. It works in
    `folder`, or in the file system that it gets with the namespaces `spaces`, and may read what is `readable`.

    Returns the layers in force beyond process and limits. Raises LayerNotInForce if a layer that was `proven` on this
    machine, or that the limits require, is not. With an accelerator there are none: its driver needs device files,
    threads and system calls that they refuse.
    """
    _be_killed_first()
    if "limits" not in limits.without:
        _limit_resources(limits)
    confined = sys.platform == "linux" and not limits.accelerator
    layers: tuple[str, ...] = ()
    if spaces is not None and confined and "namespaces" not in limits.without:
        folder = spaces.join(limits.disk)
        layers = ("namespaces",)
    elif spaces is not None:
        spaces.close()
    os.chdir(folder)
    for name, value in (("HOME", folder), ("TMPDIR", folder), ("USER", "learner")):
        os.environ[name] = value
    tempfile.tempdir = folder
    if limits.accelerator:
        os.environ.pop("TRITON_INTERPRET", None)  # there a kernel is compiled, into a cache below HOME
    else:  # a backward pass starts a thread for each device that it sees, and no thread is allowed here
        os.environ |= {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    if confined:
        layers += kernel.confine(folder, readable, limits.without)
    needed = {*limits.required} | ({*proven} - {*limits.without} if confined else set())
    if missing := needed.difference(layers, LAYERS_EVERYWHERE):
        raise kernel.LayerNotInForce(", ".join(sorted(missing)))
    return layers


def _be_killed_first() -> None:
    """Has the kernel kill this process before any other when memory runs out; hides it from other processes again."""
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else root owns the file
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "wb", buffering=0) as score:
            score.write(b"1000")
        kernel.hide()


def _limit_resources(limits: Limits) -> None:
    """Sets this process's limits of CPU seconds, file size, open files, processes and bytes of address space."""
    try:
        import resource
    except ImportError:  # Windows has none; deadlines still hold
        return
    bounds = {
        resource.RLIMIT_CPU: int(limits.step_seconds) + SLACK_SECONDS,
        resource.RLIMIT_FSIZE: limits.file_size,
        resource.RLIMIT_NOFILE: 1024 if limits.accelerator else limits.open_files,  # a GPU driver opens many
        resource.RLIMIT_CORE: 0,
    }
    if not limits.accelerator:
        bounds[resource.RLIMIT_NPROC] = 0  # no new process or thread; root is exempt
        if sys.platform == "linux":
            with open("/proc/self/statm", "rb", buffering=0) as sizes:
                pages = int(sizes.read().split()[0])
            bounds[resource.RLIMIT_AS] = pages * resource.getpagesize() + limits.memory
    for kind, bound in bounds.items():
        _soft, hard = resource.getrlimit(kind)
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        with contextlib.suppress(ValueError, OSError):  # not every system has every limit
            resource.setrlimit(kind, (bound, bound))
