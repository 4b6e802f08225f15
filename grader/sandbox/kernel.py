"""Confines a worker on Linux beyond resource limits: no privileges, Landlock (files, TCP, signals), a seccomp filter.

It calls the kernel directly: the libraries on the index are young or need a system package, and a few calls are all
that is needed. No process can undo any of it. Every function returns whether the restriction is in force.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import starmap
from pathlib import Path

EPERM, ENOSYS = 1, 38

LAYERS = ("process", "limits", "namespaces", "landlock", "seccomp")  # by the names that a report gives them

# prctl(2), capabilities(7)
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP = 1, 4, 39, 21
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER = 23, 24, 28, 22, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA = 3, 15, 16, 0x53564D41
SECURE_ALL_LOCKED = 0xEF  # uid 0 grants no capability, and this can't be reverted
CAPABILITY_VERSION_3 = 0x20080522

# sigaction(2): the C library's structure on x86-64 and aarch64, a pointer, a set of 1024 signals, flags, a pointer
SIGACTION_SIZE, SIGACTION_FLAGS, SA_NOCLDSTOP = 152, 136, 1

# landlock(7)
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_RULE_PATH_BENEATH = 1
LANDLOCK_LOG_SAME_EXEC_OFF = 1  # a refused open belongs in the report, not in the system log
READ_FILE, READ_DIR, WRITE_FILE, TRUNCATE = 1 << 2, 1 << 3, 1 << 1, 1 << 14
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG, REFER = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 13
# All access rights to files, by the ABI version that added the last of them.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
NET_RIGHTS, NET_ABI = 0b11, 4  # bind and connect, TCP
SCOPES, SCOPE_ABI = 0b11, 6  # abstract unix sockets, signals
LOG_ABI = 7

# seccomp(2)
SECCOMP_SET_MODE_FILTER, SECCOMP_GET_ACTION_AVAIL = 1, 2
SECCOMP_ALLOW, SECCOMP_ERRNO = 0x7FFF0000, 0x00050000
LOAD_WORD, JUMP_EQUAL, JUMP_GREATER_EQUAL, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
Instruction = tuple[int, int, int, int]  # of BPF: code, jump if true, jump if false, value
ALLOW, REFUSE, UNKNOWN = (
    (RETURN, 0, 0, value) for value in (SECCOMP_ALLOW, SECCOMP_ERRNO | EPERM, SECCOMP_ERRNO | ENOSYS)
)
# From here on numbers are the same on all architectures, and newer than this list. Those of x32 are larger still.
FIRST_UNKNOWN = 448

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column in the tables, audit architecture

# Every call that Python and torch make on one thread, and no other: name, x86-64, aarch64 (None: that one has no such).
ALLOWED: tuple[tuple[str, int | None, int | None], ...] = (
    # files that Landlock lets it open
    ("read", 0, 63), ("write", 1, 64), ("pread64", 17, 67), ("pwrite64", 18, 68), ("readv", 19, 65), ("writev", 20, 66),
    ("preadv", 295, 69), ("pwritev", 296, 70), ("open", 2, None),
    ("openat", 257, 56), ("creat", 85, None), ("close", 3, 57), ("close_range", 436, 436), ("lseek", 8, 62),
    ("dup", 32, 23), ("dup2", 33, None), ("dup3", 292, 24), ("ftruncate", 77, 46), ("truncate", 76, 45),
    ("fsync", 74, 82), ("fdatasync", 75, 83),
    ("sendfile", 40, 71), ("copy_file_range", 326, 285),
    ("stat", 4, None), ("lstat", 6, None), ("fstat", 5, 80), ("newfstatat", 262, 79), ("statx", 332, 291),
    ("statfs", 137, 43), ("fstatfs", 138, 44), ("access", 21, None), ("faccessat", 269, 48), ("faccessat2", 439, 439),
    ("readlink", 89, None), ("readlinkat", 267, 78), ("getdents64", 217, 61), ("getcwd", 79, 17), ("chdir", 80, 49),
    ("fchdir", 81, 50), ("mkdir", 83, None), ("mkdirat", 258, 34), ("rmdir", 84, None), ("unlink", 87, None),
    ("unlinkat", 263, 35), ("rename", 82, None), ("renameat", 264, 38), ("renameat2", 316, 276), ("umask", 95, 166),
    # the channel, a socket that is open already; none can be made
    ("sendto", 44, 206), ("recvfrom", 45, 207), ("getsockname", 51, 204), ("getsockopt", 55, 209), ("poll", 7, None),
    ("ppoll", 271, 73), ("select", 23, None), ("pselect6", 270, 72),
    # its own memory
    ("mmap", 9, 222), ("munmap", 11, 215), ("mremap", 25, 216), ("mprotect", 10, 226), ("madvise", 28, 233),
    ("msync", 26, 227), ("brk", 12, 214),
    # time
    ("nanosleep", 35, 101), ("clock_nanosleep", 230, 115), ("clock_gettime", 228, 113), ("clock_getres", 229, 114),
    ("gettimeofday", 96, 169), ("time", 201, None), ("times", 100, 153), ("getrusage", 98, 165), ("alarm", 37, None),
    ("setitimer", 38, 103), ("getitimer", 36, 102), ("pause", 34, None),
    # signals that it receives
    ("rt_sigaction", 13, 134), ("rt_sigprocmask", 14, 135), ("rt_sigreturn", 15, 139), ("rt_sigpending", 127, 136),
    ("rt_sigtimedwait", 128, 137), ("rt_sigsuspend", 130, 133), ("sigaltstack", 131, 132),
    ("restart_syscall", 219, 128),
    # itself
    ("getpid", 39, 172), ("gettid", 186, 178), ("getppid", 110, 173), ("getuid", 102, 174), ("geteuid", 107, 175),
    ("getgid", 104, 176), ("getegid", 108, 177), ("getresuid", 118, 148), ("getresgid", 120, 150),
    ("getgroups", 115, 158), ("getpgid", 121, 155), ("getpgrp", 111, None), ("getsid", 124, 156), ("capget", 125, 90),
    ("getrlimit", 97, 163), ("setrlimit", 160, 164), ("uname", 63, 160), ("sysinfo", 99, 179), ("getcpu", 309, 168),
    ("getrandom", 318, 278), ("sched_yield", 24, 124), ("sched_getaffinity", 204, 123), ("wait4", 61, 260),
    ("waitid", 247, 95), ("arch_prctl", 158, None), ("rseq", 334, 293), ("futex", 202, 98),
    ("set_robust_list", 273, 99), ("set_tid_address", 218, 96), ("exit", 60, 93), ("exit_group", 231, 94),
)  # fmt: skip
CLONE3 = 435  # refused as unknown: the C library then falls back to `clone`, which is refused with a reason
# Allowed with one of these values of one argument (by position): no owner of signals, no other process, no lease, no
# lock. Locks on the libraries that all workers read would carry bits from one submission to another, as would the page
# cache (fadvise64, preadv2).
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)  # duplicate, flags
IOCTL_REQUESTS = (0x5401, 0x5413, 0x5421, 0x541B, 0x5450, 0x5451)  # is it a terminal, non-blocking, close on exec
PRCTL_OPTIONS = (
    PR_GET_DUMPABLE,
    PR_SET_NAME,
    PR_GET_NAME,
    PR_GET_SECCOMP,
    PR_CAPBSET_READ,
    PR_GET_NO_NEW_PRIVS,
    PR_SET_VMA,
)
CALLS = {  # the calls made in this module
    "capset": (126, 91), "seccomp": (317, 277), "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445), "landlock_restrict_self": (446, 446), "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
}  # fmt: skip


class LayerNotInForce(RuntimeError):
    """An isolation layer that must be in force is not: the process must not see a learner's code."""


def prctl(option: int, value: int = 0) -> int:
    """prctl(2); -1 when the kernel refuses."""
    return int(_prctl()(option, value, 0, 0, 0))


def hide() -> None:
    """Protects this process and its forks from other processes of the same user: no ptrace, no /proc/…/mem."""
    prctl(PR_SET_DUMPABLE, 0)


def confine(folder: str, readable: Sequence[str], without: Sequence[str] = ()) -> tuple[str, ...]:
    """Confines this process for good and returns the layers in force. Those in `without` are left out, to measure them.

    It can then read below `readable` and `folder`, write below `folder`, and reach no other process and no network.
    """
    prctl(PR_SET_DUMPABLE, 0)
    if prctl(PR_SET_NO_NEW_PRIVS, 1) != 0 or not drop_privileges():
        return ()
    layers = {"landlock": lambda: restrict_files(folder, readable), "seccomp": filter_calls}
    return tuple(name for name, bind in layers.items() if name not in without and bind())


# --- privileges ------------------------------------------------------------------------------------------------------


def drop_privileges() -> bool:
    """Drops every capability for good: root is then an ordinary user. Returns whether none is left."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    capability = 0
    while prctl(PR_CAPBSET_DROP, capability) == 0:  # an ordinary user may not drop any, and has none
        capability += 1
    prctl(PR_SET_SECUREBITS, SECURE_ALL_LOCKED)
    header = ctypes.create_string_buffer(struct.pack("=II", CAPABILITY_VERSION_3, 0))
    nothing = ctypes.create_string_buffer(24)  # effective, permitted and inheritable, twice 32 bits each
    return system_call("capset", header, nothing) == 0


# --- Landlock --------------------------------------------------------------------------------------------------------


def landlock_abi() -> int:
    """The version of Landlock in this kernel; 0 without it."""
    return max(0, system_call("landlock_create_ruleset", None, 0, LANDLOCK_CREATE_RULESET_VERSION))


def restrict_files(folder: str, readable: Sequence[str], abi: int | None = None) -> bool:
    """Landlock: read access below `readable`, full access but links and devices below `folder`, nothing else. No TCP.

    Requires no_new_privs. Rights that this kernel does not know yet are left out.
    """
    abi = landlock_abi() if abi is None else abi
    if abi < 1:
        return False
    handled = FILE_RIGHTS[max(version for version in FILE_RIGHTS if version <= abi)]
    attributes = struct.pack("=QQQ", handled, NET_RIGHTS if abi >= NET_ABI else 0, SCOPES if abi >= SCOPE_ABI else 0)
    size = 24 if abi >= SCOPE_ABI else 16 if abi >= NET_ABI else 8
    ruleset = system_call("landlock_create_ruleset", ctypes.create_string_buffer(attributes), size, 0)
    if ruleset < 0:
        return False
    try:
        read = READ_FILE | READ_DIR
        own = read | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER
        rules = [(path, read) for path in readable] + [(folder, own)] + [(os.devnull, READ_FILE | WRITE_FILE)]
        added = [_allow_beneath(ruleset, path, rights & handled) for path, rights in rules]
        flags = LANDLOCK_LOG_SAME_EXEC_OFF if abi >= LOG_ABI else 0
        return all(added) and system_call("landlock_restrict_self", ruleset, flags) == 0
    finally:
        os.close(ruleset)


def readable_paths(root: str) -> list[str]:
    """The paths that Python and torch may read later: the standard library, the installed packages, shared
    libraries."""
    folders = [Path(root).resolve(), Path(os.path.expanduser("~"))]  # a user without an entry has no home: "~" then
    paths = dict.fromkeys(Path(place).resolve() for place in library_places())
    allowed = [path for path in paths if not any(own.is_relative_to(path) for own in folders)]
    return [str(path) for path in allowed if not any(other in path.parents for other in allowed)]


def library_places() -> list[str]:
    """The folders of Python's, torch's and the system's libraries, as this system spells the paths, symbolic links
    included."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    places = [sysconfig.get_path(name) for name in names] + [sysconfig.get_config_var("LIBDIR")]
    places += [
        str(Path(module.__file__).parent)
        for name in ("torch", "numpy")
        if (module := sys.modules.get(name)) and module.__file__
    ]
    places += ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime"]
    places += [
        "/usr/share/zoneinfo",
        "/usr/share/locale",
        "/dev/urandom",
        "/dev/random",
        "/dev/zero",
        "/sys/devices/system/cpu",
    ]
    return [place for place in places if place and os.path.exists(place)]


def _allow_beneath(ruleset: int, path: str, rights: int) -> bool:
    """Adds a Landlock rule: these rights on a file, or on a folder and all in it. False if the kernel refuses."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return True  # a missing path needs no rule
    try:
        if not os.path.isdir(path):
            rights &= READ_FILE | WRITE_FILE | TRUNCATE  # the kernel refuses rights of folders on a file
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, descriptor))
        return system_call("landlock_add_rule", ruleset, LANDLOCK_RULE_PATH_BENEATH, rule, 0) == 0
    finally:
        os.close(descriptor)


def ignore_stopped_children() -> None:
    """Restricts SIGCHLD to children that end, without those that stop or go on: workers do, at every call.

    Call it after a handler was set. Python's `signal` has no flags.
    """
    action = ctypes.create_string_buffer(SIGACTION_SIZE)
    if libc().sigaction(signal.SIGCHLD, None, action) == 0:
        (flags,) = struct.unpack_from("=i", action, SIGACTION_FLAGS)
        struct.pack_into("=i", action, SIGACTION_FLAGS, flags | SA_NOCLDSTOP)
        libc().sigaction(signal.SIGCHLD, action, None)


# --- seccomp ---------------------------------------------------------------------------------------------------------


def can_filter() -> bool:
    """Whether this kernel filters system calls, and the tables have those of this machine."""
    action = ctypes.create_string_buffer(struct.pack("=I", SECCOMP_ERRNO))
    return (
        platform.machine() in MACHINES
        and struct.calcsize("P") == 8
        and system_call("seccomp", SECCOMP_GET_ACTION_AVAIL, 0, action) == 0
    )


def filter_calls() -> bool:
    """seccomp: from now on, a call that is not in the table fails with PermissionError; the process is not killed."""
    if not can_filter():
        return False
    program = allowed_calls() + _packed([*_own_calls(os.getpid()), REFUSE])
    code = ctypes.create_string_buffer(program)
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    return system_call("seccomp", SECCOMP_SET_MODE_FILTER, 0, described) == 0


@cache
def allowed_calls() -> bytes:
    """The seccomp filter, as bytes, up to the calls with arguments to check; the same for every worker, built once by
    the zygote."""
    column, architecture = MACHINES[platform.machine()]
    # Another architecture has other numbers: 32-bit calls are made from a 64-bit process by one instruction.
    program: list[Instruction] = [
        (LOAD_WORD, 0, 0, ARCHITECTURE_AT),
        (JUMP_EQUAL, 1, 0, architecture),
        REFUSE,
        (LOAD_WORD, 0, 0, NUMBER_AT),
    ]
    program += [(JUMP_GREATER_EQUAL, 0, 1, FIRST_UNKNOWN), UNKNOWN, (JUMP_EQUAL, 0, 1, CLONE3), UNKNOWN]
    for entry in ALLOWED:
        number = entry[1 + column]
        if isinstance(number, int):
            program += [(JUMP_EQUAL, 0, 1, number), ALLOW]
    return _packed(program)


def _own_calls(own: int) -> Iterator[Instruction]:
    """The filter's instructions for calls that are allowed with some arguments only, in the process with pid `own`."""
    column, _architecture = MACHINES[platform.machine()]
    for calls, position, values in (
        ((72, 25), 1, FCNTL_COMMANDS),
        ((16, 29), 1, IOCTL_REQUESTS),
        ((157, 167), 0, PRCTL_OPTIONS),
        ((302, 261), 0, (0, own)),  # prlimit64
        ((62, 129), 0, (own,)),  # kill
        ((234, 131), 0, (own,)),  # tgkill
    ):
        # The kernel reads the lower half of these arguments, and so does the filter (both machines store it first).
        body = [(LOAD_WORD, 0, 0, ARGUMENTS_AT + 8 * position)]
        for value in values:
            body += [(JUMP_EQUAL, 0, 1, value), ALLOW]
        yield from ((JUMP_EQUAL, 0, len(body) + 1, calls[column]), *body, REFUSE)


def _packed(program: Iterable[Instruction]) -> bytes:
    """The instructions as the kernel takes them."""
    return b"".join(starmap(struct.Struct("=HBBI").pack, program))


@cache
def libc() -> ctypes.CDLL:
    """The C library, cached: looking its functions up again takes a tenth of a millisecond."""
    return ctypes.CDLL(None, use_errno=True)


@cache
def _prctl() -> Callable[..., int]:
    """The C library's prctl, with the types of its arguments set."""
    function = libc().prctl
    function.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return function


def system_call(name: str, *arguments: object) -> int:
    """Makes one of `CALLS`; -1 when it fails, or when this machine is not in the tables."""
    if not sys.platform.startswith("linux") or platform.machine() not in MACHINES:
        return -1
    number = CALLS[name][MACHINES[platform.machine()][0]]
    words = [ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments]
    return int(libc().syscall(ctypes.c_long(number), *words, ctypes.c_long(0)))
