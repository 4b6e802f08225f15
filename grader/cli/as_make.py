"""A command as `make` takes it: what is typed next is named by the target and its NAME=value where `make` was typed."""

from __future__ import annotations

import os
import re

IS_MAKE = bool(os.environ.get("KIT_MAKE"))  # the Makefile sets it
NAMES = {
    f"--{name.lower().replace('_', '-')}": name
    for name in (
        "STEP", "TRACK", "ASSIGNMENT", "TEXT", "DEVICE", "SEED", "SECONDS", "MODEL", "PREDICT", "TOKENS", "TEMPERATURE",
        "TOP_K", "FOLDER", "LOG", "KNOWN", "RESULTS", "TO", "DRAFT",
    )
}  # fmt: skip
FIRST = {
    "begin": "TRACK", "lab": "NAME", "class": "SUBMISSIONS", "similar": "SUBMISSIONS", "project": "RESULTS",
    "items": "RESULTS", "feedback": "RESULTS",
} | dict.fromkeys(("watch", "hint", "repro", "lesson", "reset", "solution", "lint", "messages"), "STEP")  # fmt: skip
COMMAND = re.compile(r"python -m grader ([a-z][a-z0-9-]*)((?: (?!python -m grader)(?:'[^']*+'|[^\s']++))*+)(?=$|\n)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def as_make(sentence: str) -> str:
    """The sentence with its last command and its options as `make` has them; a command that `make` lacks stays."""
    if not IS_MAKE:
        return sentence
    text, command = sentence, COMMAND.search(sentence)
    if command is not None:
        text = sentence[: command.start()]
    text = OPTION.sub(lambda option: NAMES.get(option[0], option[0]), text)
    return text if command is None else text + _target(command) + sentence[command.end() :]


def _target(command: re.Match[str]) -> str:
    """`make grade STEP=4` for `python -m grader grade --step 4`."""
    name, words = command[1], re.findall(r"'[^']*'|\S+", command[2])
    if words == ["--help"]:
        return "make help"
    given: list[str] = []
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            if word not in NAMES or not words:
                return command[0]
            given.append(f"{NAMES[word]}={words.pop(0)}")
        elif name in FIRST and not given:
            given.append(f"{FIRST[name]}={word}")
        else:
            return command[0]
    return " ".join(["make", name, *given])
