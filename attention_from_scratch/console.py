"""The command `attention`: makes a course folder with `start`, and runs the kit of the folder you are in.

It is all that the installed package brings besides the course itself (`kit.zip`, which only a released wheel has), so
that a course folder stays what it was when the package is updated.
"""

from __future__ import annotations

import os
import runpy
import sys
import zipfile
from importlib import metadata
from pathlib import Path

KIT = Path(__file__).with_name("kit.zip")
TOP = "attention-from-scratch/"  # the folder in kit.zip
WORK = "exercises/"  # the learner's own files, which are never written over
LANGUAGES = ("en", "ko")

SAID = {
    "en": {
        "usage": "attention start FOLDER makes a course there. In that folder:\n"
        "  attention course   attention grade   attention watch   attention lesson STEP=4   attention --help",
        "made": "The course is in {folder}. Type:\n  cd {folder}\n  attention grade",
        "kept": "{file} was there and was left alone.",
        "other": "{folder} holds something other than a course. Type: attention start OTHER",
        "unwritable": "{folder} can't be written ({reason}). Type: attention start OTHER",
        "empty": "This package was installed from a clone and brings no course; in the clone itself, `attention grade` "
        "works. For a course, type there: make release-kit, and install the wheel in dist/release/.",
        "nowhere": "There is no course in this folder. Type: attention start my-course",
        "language": "The languages are en and ko, not {word}. Type: attention start FOLDER --lang ko",
    },
    "ko": {
        "usage": "attention start 폴더: 그 폴더에 강의를 만듭니다. 그 폴더 안에서는 다음과 같이 입력합니다.\n"
        "  attention course   attention grade   attention watch   attention lesson STEP=4   attention --help",
        "made": "강의를 {folder}에 만들었습니다. 다음을 입력하세요.\n  cd {folder}\n  attention grade",
        "kept": "{file}: 이미 있는 파일이라 그대로 두었습니다.",
        "other": "{folder}에는 강의가 아닌 다른 것이 있습니다. 다음을 입력하세요: attention start 다른_폴더",
        "unwritable": "{folder}에 쓸 수 없습니다({reason}). 다음을 입력하세요: attention start 다른_폴더",
        "empty": "클론에서 설치한 패키지라 강의가 들어 있지 않습니다. 클론 안에서는 "
        "`attention grade`를 바로 쓸 수 있습니다. 강의를 만들려면 클론에서 다음을 입력하고 dist/release/의 휠을 "
        "설치하세요: make release-kit",
        "nowhere": "이 폴더에는 강의가 없습니다. 다음을 입력하세요: attention start my-course",
        "language": "언어는 en과 ko이며 {word}는 없습니다. 다음을 입력하세요: attention start 폴더 --lang ko",
    },
}  # fmt: skip


class NotPossible(Exception):
    """What was typed can't be done; the message says what to type instead."""


def main() -> int:
    """Runs one command line. Returns its exit code: 2 where it can't be done."""
    words = sys.argv[1:]
    try:
        if not words:
            print(said("usage"))
            return 0
        if words == ["--version"]:
            print("attention-from-scratch", metadata.version("attention-from-scratch"))
            return 0
        if words[0] == "start":
            start(words[1:])
            return 0
        root = course()
        if root is None:
            if words[0] == "--help":
                print(said("usage"))
                return 0
            raise NotPossible(said("nowhere"))
        return run(root, words)
    except NotPossible as refusal:
        print(refusal, file=sys.stderr)
        return 2


def said(sentence: str, **values: object) -> str:
    """A sentence in the language of KIT_LANG, or of the system."""
    named = os.environ.get("KIT_LANG") or os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return SAID["ko" if named.lower().startswith("ko") else "en"][sentence].format(**values)


def start(words: list[str]) -> None:
    """Makes a course folder, or updates one: what the learner wrote stays. Raises NotPossible."""
    if "--lang" in words:
        at = words.index("--lang")
        language = (words[at + 1 :] or [""])[0]
        if language not in LANGUAGES:
            raise NotPossible(said("language", word=language))
        os.environ["KIT_LANG"] = language
        del words[at : at + 2]
    if len(words) != 1 or words[0].startswith("-"):
        raise NotPossible(said("usage"))
    folder = Path(words[0])
    if not KIT.is_file():
        raise NotPossible(said("empty"))
    try:
        if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not is_course(folder))):
            raise NotPossible(said("other", folder=folder))
        unpack(folder)
    except OSError as error:
        raise NotPossible(said("unwritable", folder=folder, reason=error.strerror)) from None
    print(said("made", folder=folder))


def unpack(folder: Path) -> None:
    """Writes the course; the stubs in the learner's language. A file of theirs stays. Raises OSError."""
    korean = os.environ.get("KIT_LANG", "").lower().startswith("ko") or said("usage") == SAID["ko"]["usage"]
    with zipfile.ZipFile(KIT) as kit:
        stubs = {Path(name).parent.name: name for name in kit.namelist() if name.endswith("/stub.ko.py")}
        for name in kit.namelist():
            to = folder / name.removeprefix(TOP)
            mine = name.removeprefix(TOP).startswith(WORK)
            if mine and to.exists():
                if to.read_bytes() not in (kit.read(name), kit.read(stubs.get(to.stem, name))):
                    print(said("kept", file=to))
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(kit.read(stubs.get(to.stem, name) if mine and korean else name))


def is_course(folder: Path, steps: str = "steps") -> bool:
    """Whether a course lies in this folder."""
    return (folder / steps).is_dir() and (folder / "grader" / "__main__.py").is_file()


def course() -> Path | None:
    """The course, or the clone, that holds the current folder."""
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if is_course(each) or is_course(each, "solutions")), None)


def run(root: Path, words: list[str]) -> int:
    """Runs the course's own command line in its folder. Returns its exit code."""
    os.chdir(root)
    os.environ["KIT_TYPED"] = "attention"  # its messages say so, where they would say `make`
    sys.path.insert(0, str(root))
    sys.argv = ["attention", *words]
    try:
        runpy.run_module("grader", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
