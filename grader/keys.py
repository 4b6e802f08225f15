"""Single keys without Enter, from a terminal: read in a thread of their own, the terminal put back whatever happens."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

# Ctrl-L, in terminals for long the key for "draw again": also said when the window changes or the program comes back.
DRAW_AGAIN = "\f"
# The same keys of the Korean keyboard, where the learner has not switched it to Latin letters.
KOREAN = dict(zip("ㅜㅗㅣㄱㅁㅌㅂ", "nhlraxq", strict=True))
END = ("\x04", "")  # Ctrl-D, and a terminal that is gone
WINDOWS_PAUSE = 0.05  # seconds between two looks at the keyboard


@contextlib.contextmanager
def listening(hear: Callable[[str], None]) -> Iterator[bool]:
    """Calls `hear` from another thread with each key until the block ends; gives whether there are keys at all.

    There are none where standard input is not a terminal, or belongs to another job of the shell. Call it from the main
    thread: signals are handled there.
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


def meaning(key: str) -> str:
    """The Latin letter that a key stands for, small; `q` for the end of input."""
    return "q" if key in END else KOREAN.get(key, key.lower())


if sys.platform == "win32":
    import msvcrt

    @contextlib.contextmanager
    def _windows(hear: Callable[[str], None]) -> Iterator[None]:
        over = threading.Event()

        def read() -> None:
            while not over.is_set():
                while msvcrt.kbhit():
                    key = msvcrt.getwch()
                    if key in "\x00\xe0":  # an arrow or a function key: its second half means nothing here
                        msvcrt.getwch()
                    else:
                        hear(key)
                time.sleep(WINDOWS_PAUSE)

        threading.Thread(target=read, daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _in_foreground(terminal: int) -> bool:
        return True

    @contextlib.contextmanager
    def _unix(terminal: int, hear: Callable[[str], None]) -> Iterator[None]:
        yield

else:
    import termios
    import tty

    @contextlib.contextmanager
    def _unix(terminal: int, hear: Callable[[str], None]) -> Iterator[None]:
        before = termios.tcgetattr(terminal)
        over_read, over_write = os.pipe()

        def back(number: int, frame: object) -> None:
            if _in_foreground(terminal):  # after Ctrl-Z and fg the shell has put the terminal back to lines
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
            # From the background, putting the terminal back would stop this process instead.
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
            if data[0] == 0x1B:  # Escape begins what arrows, function keys and pasted text send
                continue
            for key in text.decode(data):
                hear(key)

    def _in_foreground(terminal: int) -> bool:
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:  # not this session's terminal: nothing to be in the background of
            return True
