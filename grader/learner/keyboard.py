"""Reads single keys from a terminal, without Enter, in a thread; always restores the terminal."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import stat
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator

# Ctrl-L, traditionally "redraw": also sent when the window is resized or the program is resumed.
DRAW_AGAIN = "\f"
# The same keys on a Korean keyboard that is not switched to Latin letters.
KOREAN = dict(zip("ㅜㅗㅣㄱㅁㅌㅂㅠ", "nhlraxqb", strict=True)) | {"ㄲ": "r", "ㅃ": "q", "ㅚ": "hl", "ㅟ": "nl"}
END = ("\x04", "")  # Ctrl-D, and a closed terminal
PAGE_DOWN, PAGE_UP = " ", "b"  # what those two keys mean: as in a pager
SEQUENCES = {b"\x1b[6~": PAGE_DOWN, b"\x1b[5~": PAGE_UP}
WINDOWS_SEQUENCES = {"Q": PAGE_DOWN, "I": PAGE_UP}
WINDOWS_PAUSE = 0.05  # seconds between two polls of the keyboard


@contextlib.contextmanager
def listening(hear: Callable[[str], None]) -> Iterator[bool]:
    """Calls `hear` from another thread with each key until the block ends; yields whether keys can be read at all.

    They can't if standard input is not a terminal, or belongs to another job of the shell. Call it from the main
    thread, where signals are handled.
    """
    if not sys.stdin or not sys.stdin.isatty():
        yield False
    elif sys.platform == "win32":
        with _windows(hear):
            yield True
    elif not _in_foreground(sys.stdin.fileno()):
        yield False
    else:
        with _unix(sys.stdin.fileno(), hear):
            yield True


@contextlib.contextmanager
def lines(hear: Callable[[str], None]) -> Iterator[bool]:
    """Calls `hear` from another thread with each letter of the lines that come through a pipe, as from an editor's
    console, until the block ends; yields whether standard input is a pipe. The end of the pipe means nothing."""
    pipe = None
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or in the place of one
        if sys.platform != "win32" and stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):
            pipe = sys.stdin.fileno()
    if pipe is None:
        yield False
        return
    over_read, over_write = os.pipe()
    reading = threading.Thread(
        target=_read, args=(pipe, over_read, lambda key: hear(key) if key else None), daemon=True
    )
    reading.start()
    try:
        yield True
    finally:
        os.close(over_write)
        reading.join(1.0)
        os.close(over_read)


def meaning(key: str) -> str:
    """The lower-case Latin letter of a key, also of a Korean one; `q` for the end of input."""
    return "q" if key in END else KOREAN.get(key, key.lower())


def typed(letter: str) -> str:
    """The Latin letters of the keys behind a Korean letter or syllable (`rh` for `고`); another letter as it is."""
    parts = (unicodedata.name(part, "").rpartition(" ")[2] for part in unicodedata.normalize("NFD", letter))
    if "가" <= letter <= "힣":
        alone = (unicodedata.lookup(f"HANGUL LETTER {part}") for part in parts)
        return "".join(KOREAN.get(part, "") for part in alone)
    return KOREAN.get(letter, letter)


if sys.platform == "win32":
    import msvcrt

    @contextlib.contextmanager
    def _windows(hear: Callable[[str], None]) -> Iterator[None]:
        """Reads keys in a thread until the block ends."""
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                while msvcrt.kbhit():
                    key = msvcrt.getwch()
                    if key in "\x00\xe0":  # an arrow or a function key, which a second letter tells
                        key = WINDOWS_SEQUENCES.get(msvcrt.getwch(), "")
                    for letter in typed(key):
                        hear(letter)
                time.sleep(WINDOWS_PAUSE)

        threading.Thread(target=read, daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _in_foreground(terminal: int) -> bool:
        """Whether this process may read the terminal and change it."""
        return True

    @contextlib.contextmanager
    def _unix(terminal: int, hear: Callable[[str], None]) -> Iterator[None]:
        """Reads keys in a thread, without waiting for Enter; restores the terminal and the signals' handlers at the
        end."""
        yield

else:
    import termios
    import tty

    @contextlib.contextmanager
    def _unix(terminal: int, hear: Callable[[str], None]) -> Iterator[None]:
        """Reads keys from this file descriptor in a thread until the block ends, without waiting for Enter; at the end
        restores the terminal and the handlers of signals."""
        before = termios.tcgetattr(terminal)
        over_read, over_write = os.pipe()

        def back(number: int, frame: object) -> None:
            if _in_foreground(terminal):  # after Ctrl-Z and fg the shell has restored line mode
                tty.setcbreak(terminal, termios.TCSANOW)
            hear(DRAW_AGAIN)

        handlers = {signal.SIGCONT: back, signal.SIGWINCH: lambda number, frame: hear(DRAW_AGAIN)}
        previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        reading = threading.Thread(target=_read, args=(terminal, over_read, hear), daemon=True)
        try:
            tty.setcbreak(terminal, termios.TCSANOW)
            reading.start()
            yield
        finally:
            # In the background, restoring the terminal would stop this process.
            ignored = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(terminal, termios.TCSANOW, before)
            signal.signal(signal.SIGTTOU, ignored)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(over_write)
            if reading.ident:
                reading.join(1.0)
            os.close(over_read)

    def _read(terminal: int, over: int, hear: Callable[[str], None]) -> None:
        """Calls `hear` with each key from the file descriptor `terminal`, until the file descriptor `over` can be read,
        or the terminal ends: then with an empty key."""
        text = codecs.getincrementaldecoder("utf-8")("ignore")
        while True:
            ready, _writing, _error = select.select([terminal, over], [], [])
            if over in ready:
                return
            try:
                data = os.read(terminal, 1024)
            except OSError:
                data = b""
            if not data:
                hear("")
                return
            if data[0] == 0x1B:  # Escape starts the sequences of arrows, function keys and pasted text
                if data in SEQUENCES:
                    hear(SEQUENCES[data])
                continue
            for letter in text.decode(data):
                for key in typed(letter):
                    hear(key)

    def _in_foreground(terminal: int) -> bool:
        """Whether this process may read the terminal and change it."""
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:  # not this session's terminal, so not in its background
            return True
