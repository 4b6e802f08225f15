"""Builds what is released: the learner's kit as one file, the same as a wheel with the command `attention`, notebooks
that install it, and the instructor's bundle.

The wheel is a small console module and the kit's zip file; it installs what the kit needs, so that a course folder made
by it needs no environment of its own.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from grader.author import kit, recorder
from grader.base.files import pack
from grader.base.paths import ROOT
from grader.publish import colab

PACKAGE = "attention_from_scratch"
# In the wheel's kit the pages say `attention grade` for `make grade`.
TYPED = re.compile(rf"\bmake (?=(?:{'|'.join(name for name in kit.TARGETS if name.isalpha() or '2' in name)})\b)")


class NoBuilder(RuntimeError):
    """The package that builds wheels is not installed, or refused; the message says which."""


def release(folder: Path, on_step: Callable[[str, int], None] = lambda name, size: None) -> Iterator[Path]:
    """Writes the learner's kit, the wheel, the instructor's bundle and the notebooks into `folder`; yields the path of
    each as it is written. `on_step` is called with each recorded step's name and its size in bytes.

    Raises NotOverwritten, NotRecorded (see kit.build) and NoBuilder."""
    version = metadata()["version"]
    folder.mkdir(parents=True, exist_ok=True)
    built = kit.build(folder / "kit", on_step=on_step)
    learners = folder / f"{kit.TOP}-{version}.zip"
    shutil.copy2(built, learners)
    yield learners
    yield wheel(built, folder)
    yield instructors_bundle(folder / f"{kit.TOP}-instructor-{version}.zip")
    yield from colab.write(folder / "notebooks")


def metadata() -> dict[str, Any]:
    """The [project] table of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def wheel(kit_zip: Path, folder: Path) -> Path:
    """Builds the wheel that `pip install .` builds in a clone, with the kit's zip file in it, into `folder`; returns
    its path. Raises NoBuilder."""
    source = folder / "wheel"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / PACKAGE, source / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    pack(source / PACKAGE / "kit.zip", _for_the_wheel(kit_zip))
    shutil.copy2(ROOT / "LICENSE", source)
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (source / "pyproject.toml").write_text(pyproject + urls(), encoding="utf-8")
    code = f"from flit_core import buildapi; print(buildapi.build_wheel({str(folder.resolve())!r}))"
    built = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    if built.returncode:
        raise NoBuilder(built.stderr.strip().rpartition("\n")[2])
    shutil.rmtree(source)
    return folder / built.stdout.strip()


def urls() -> str:
    """The [project.urls] table for pyproject.toml, as package indexes link it; empty if the repository's address is not
    known."""
    address = colab.repository()
    if not address:
        return ""
    urls = {"Repository": address, "Issues": f"{address}/issues", "Changelog": f"{address}/blob/main/CHANGELOG.md"}
    return "\n".join(["", "[project.urls]", *(f'{name} = "{url}"' for name, url in urls.items()), ""])


def _for_the_wheel(kit_zip: Path) -> Iterator[tuple[str, bytes, int]]:
    """The kit's files as (name, content, mode), with the commands as they are typed in an installed wheel."""
    with zipfile.ZipFile(kit_zip) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".md"):
                content = TYPED.sub("attention ", content.decode()).encode()
            yield name, content, 0o644


def instructors_bundle(archive: Path) -> Path:
    """Writes the repository as a zip file to `archive`, and returns that: engine, references, documents and tests,
    without what is generated or ignored; but with the tapes that are recorded, so that `make kit` takes seconds."""
    names = [*tracked(), *(str(tape.relative_to(ROOT)) for tape in recorder.cached_tapes())]
    pack(archive, ((f"{kit.TOP}-instructor/{name}", ROOT / name, 0o644) for name in names))
    return archive


def tracked() -> list[str]:
    """The files that git tracks and that are there, as paths below the root. Raises NoBuilder without git, or outside a
    checkout."""
    with contextlib.suppress(OSError):
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
        if listed.returncode == 0:
            return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    raise NoBuilder("git ls-files")
