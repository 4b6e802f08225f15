"""Files of a course that no command can read: links that lead out of it, texts that are too large or not in UTF-8."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.base.language import gettext as _
from grader.base.paths import shown

TEXTS = (".py", ".md", ".po")
LARGEST = 2 << 20  # bytes of one text: the catalogues of the course have a tenth


def unfit_files(paths: Iterable[Path], course: Path) -> Iterator[str]:
    """One line for each path that no command reads, as a step of others may have it: a link that leads out of the
    course, what is no regular file, a text that is too large, not in UTF-8 or can't be read."""
    within = os.path.realpath(course)
    for path in paths:
        if not Path(os.path.realpath(path)).is_relative_to(within):
            yield _("{file} leads out of the course: put a copy in its place.").format(file=shown(path))
        elif not path.is_file() and not path.is_dir() or path.is_symlink() and path.is_dir():
            yield _("{file} is not a regular file.").format(file=shown(path))
        elif path.suffix not in TEXTS:
            continue
        elif path.stat().st_size > LARGEST:
            yield _("{file} has more than {size} MB: shorten it.").format(file=shown(path), size=LARGEST >> 20)
        else:
            yield from unread(path)


def unread(file: Path) -> Iterator[str]:
    """Yields one sentence if a file is not in UTF-8, may not be read or is a folder; nothing for others."""
    try:
        file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        yield _("{file} is not in UTF-8: save it again in this encoding.").format(file=shown(file))
    except OSError as error:
        yield _("{file} can't be read ({reason}).").format(file=shown(file), reason=error.strerror)


def folders_named_as_texts(folder: Path) -> list[Path]:
    """The folders in a step's, and one level below, that have the name of a text."""
    named = (path for text in TEXTS for below in ("", "*/") for path in folder.glob(f"{below}*{text}"))
    return [path for path in named if path.is_dir()]
