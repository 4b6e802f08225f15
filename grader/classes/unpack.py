"""Zip files that students hand in: unpacked if nothing of them can do harm, within the limits of any submission."""

from __future__ import annotations

import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.base.files import MAX_DEPTH
from grader.base.language import gettext as _
from grader.base.untrusted import MAX_NOTEBOOK

MAX_PACKED = 1000  # files in an archive
MAX_UNPACKED = 2 * MAX_NOTEBOOK  # bytes of all of them
MAX_NAME = 200  # bytes of a part of a name
PIECE = 1 << 16
UTF_8 = 0x800  # the flag of an entry with a name in UTF-8
ENCRYPTED = 0x1
CODINGS = ("utf-8", "cp949")  # of names without that flag, as macOS and Korean Windows write them


class NotUnpacked(Exception):
    """An archive can't be unpacked. One phrase."""


@contextmanager
def unpacked(archive: Path, shown: str) -> Iterator[Path]:
    """Unpacks an archive into a temporary folder, called as messages call the archive, which is there until the block
    ends. Links and devices are left out. Raises NotUnpacked."""
    with tempfile.TemporaryDirectory(prefix="unpacked-") as name:
        folder = Path(name) / Path(shown).name
        try:
            folder.mkdir()
            if archive.is_symlink() or not archive.is_file():
                raise NotUnpacked(_("it is a link"))
            with zipfile.ZipFile(archive) as packed:
                _unpack(packed, folder)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, OSError, RuntimeError) as error:
            raise NotUnpacked(str(error) or type(error).__name__) from None
        yield folder


def _unpack(packed: zipfile.ZipFile, folder: Path) -> None:
    """Unpacks the regular files into a folder. Raises NotUnpacked for too many, too large or encrypted ones."""
    entries = [entry for entry in packed.infolist() if not entry.is_dir()]
    if len(entries) > MAX_PACKED:
        raise NotUnpacked(_("more than {count} files", count=MAX_PACKED))
    left = MAX_UNPACKED
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if entry.flag_bits & ENCRYPTED:
            raise NotUnpacked(_("it is encrypted"))
        parts = _parts(entry)
        if not parts or kind not in (0, stat.S_IFREG):
            continue
        place = folder.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        with packed.open(entry) as source, place.open("wb") as copy:
            while piece := source.read(PIECE):
                left -= len(piece)
                if left < 0:
                    raise NotUnpacked(_("more than {size} MiB", size=MAX_UNPACKED >> 20))
                copy.write(piece)


def _parts(entry: zipfile.ZipInfo) -> list[str]:
    """The parts of an entry's path without those that lead out of the folder; empty if too many or too long."""
    name = entry.filename
    if not entry.flag_bits & UTF_8:
        for coding in CODINGS:
            try:
                name = entry.filename.encode("cp437").decode(coding)
                break
            except UnicodeError:
                continue
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    fits = len(parts) <= MAX_DEPTH and all(len(part.encode(errors="replace")) <= MAX_NAME for part in parts)
    return parts if fits else []
