"""One vocabulary: `make grade STEP=4`, `attention grade STEP=4` and `python -m grader grade --step 4` are the same."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.base.paths import ROOT
from grader.base.results import Report, as_json
from grader.cli import main
from grader.cli.parser import Misunderstood, Parser, Subcommand, capitals

COMMANDS = {command.name: command for command in main.every_command()}
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
PAGES = [
    *ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md"), *ROOT.glob(".github/*.md"),
    *ROOT.glob("solutions/*/*/lesson.*.md"), *ROOT.glob("grader/author/templates/*.md"),
]  # fmt: skip
TYPED = re.compile(r"^(make|attention|python -m grader) ([a-z][a-z0-9-]*)((?: +[^\s`]+|=\"[^\"`]*\")*)")


def read(command: Subcommand, *words: str) -> dict[str, object]:
    """What a line means, or the sentence that refuses it."""
    try:
        return vars(main.parser_of(command).understand(words))
    except Misunderstood as problem:
        return {"refused": str(problem)}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_each_option_has_two_spellings(command: Subcommand) -> None:
    """`STEP=1` is `--step 1`; a flag is on with 1 and off with 0; an empty value leaves the word out."""
    parser: Parser = main.parser_of(command)
    required = [f"{argument.name}=a" for argument in parser.arguments if argument.required]
    assert read(command, *required) == read(command, *("a" for _argument in required))
    by_position = {argument.name for argument in parser.arguments}
    for name, option in parser.options.items():
        if option in parser.flags:
            assert read(command, *required, f"{name}=1") == read(command, *required, option)
            assert read(command, *required, f"{name}=0") == read(command, *required)
        elif name not in by_position:
            for value in ("1", "cpu", "on", "mine", "moodle", "otter"):
                dashed, named = read(command, *required, option, value), read(command, *required, f"{name}={value}")
                assert str(dashed).replace(option, name) == str(named).replace(option, name)
            if option not in parser.may_be_empty:
                assert read(command, *required, f"{name}=") == read(command, *required)


def test_what_looks_like_a_word_may_be_a_value() -> None:
    """The value of an option, and what follows `--`; a name that the command lacks is refused."""
    lab = COMMANDS["lab"]
    assert read(lab, "--text", "SEED=4")["text"] == "SEED=4" and read(lab, "PREDICT=")["predict"] == ""
    assert read(lab, "--", "SEED=4")["name"] == "SEED=4"
    assert read(lab, "TRACK=core") == {"refused": "There is no option TRACK."}
    assert read(COMMANDS["grade"], "STEP=1", "--step", "2", "STEP=3")["step"] == ["1", "2", "3"]


@pytest.mark.parametrize("words", ["lesson STEP=4 PAGE=1", "lesson 4 --page", "course STEP=4"])
def test_a_lesson_on_the_page(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """The page opens at the step, whoever is asked."""
    shown: list[tuple[object, ...]] = []
    monkeypatch.setattr("grader.cli.watch._show_course", lambda *given, **how: shown.append(given))
    assert main.run(words.split()) == 0 and [given[1] for given in shown] == ["step04_causal_mask"]


@pytest.mark.parametrize(
    ("words", "says"), [("grade SEED=x KIT_LANG=ko", "SEED"), ("grade --seed x", "--seed"), ("grade nix", "nix")]
)
def test_an_error_names_what_was_typed(words: str, says: str) -> None:
    """The option in its own spelling, and the command to type next, which is one for all, in either language."""
    typed = [sys.executable, "-m", "grader", *words.split()]
    told = subprocess.run(typed, cwd=ROOT, capture_output=True, text=True)
    next_one = "python -m grader grade HELP=1"
    assert told.returncode == 2 and says in told.stderr and told.stderr.strip().endswith(next_one)
    assert ("입력할 명령" in told.stderr) == ("KIT_LANG=ko" in words)


def test_make_hands_on_what_was_typed(tmp_path: Path) -> None:
    """Quotes, spaces and characters of the shell arrive as they were; make's own variables are not handed on."""
    text = 'Mina\'s "red"  ball; (a, b) `x` *'
    words = ["make", "-n", "-s", "-o", ".venv/ready", "generate", f"TEXT={text}", "TOP_K=3", "PYTHON=x", "KIT_LANG=ko"]
    line = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    handed = shlex.split(line.partition(" grader/__main__.py ")[2])
    assert handed[0] == "generate" and sorted(handed[1:]) == sorted([f"TEXT={text}", "TOP_K=3"])


def test_each_command_has_its_line_in_the_makefile() -> None:
    """But for those of other programs: an editor, a shell, `make prove`."""
    lines = set(re.findall(r"^([a-z0-9-]+):.*##> ", MAKEFILE, re.MULTILINE))
    assert lines <= set(COMMANDS) and set(COMMANDS) - lines == {"lint", "completion"}


def documented() -> list[tuple[str, str, str, str]]:
    """Every command that a page tells to type: the page, the program, the command and its words."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        lines = [re.split(r"\s#", line)[0] for block in blocks for line in block.splitlines()]
        spans = re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        for line in [*lines, *(" ".join(span.split()) for span in spans)]:
            found += [(page.name, *words) for words in TYPED.findall(re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line))]
    return found


def test_documented_commands_are_understood() -> None:
    """Every command in README, docs and lessons, with its words."""
    wrong, count = [], 0
    for page, program, name, rest in documented():
        words = [word.strip("…") for word in shlex.split(rest) if word.strip("…")]
        if name in COMMANDS and not (program == "make" and name == "lint"):
            words = [re.sub(r"=$", "=x", word) for word in words if not word.startswith("KIT_LANG=")]
            told = read(COMMANDS[name], *words)
            refused = str(told.get("refused", ""))
            if refused and "missing" not in refused and "Invalid value" not in refused:
                wrong.append((page, program, name, rest, refused))
        elif name not in TARGETS | {"start"}:
            wrong.append((page, program, name, rest, "no command"))
        count += 1
    assert not wrong and count > 300


# Documented commands that take a moment; tests of their own rooms run the others.
LIGHT = ("begin", "convert", "exercises", "hint", "lab LOG", "lesson", "reset", "tracks")


def test_light_documented_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are typed, for a folder of one's own."""
    report = Report(submission="ada", seed=1, devices={}, isolation=[], steps=[], score=0.0, max_score=0.0)
    (tmp_path / "report.json").write_text(as_json(report), encoding="utf-8")
    (tmp_path / "exercises").mkdir()
    monkeypatch.chdir(tmp_path)
    every = {(name, rest.strip()) for _page, _program, name, rest in documented()}
    lines = [(name, rest) for name, rest in sorted(every) if f"{name} {rest}".startswith(LIGHT)]
    for name, rest in lines:
        options = main.parser_of(COMMANDS[name]).options
        own = [f"{option}=exercises" for option in ("SUBMISSION", "FOLDER") if option in options]
        assert main.run([name, *shlex.split(rest), *own]) in (0, None), (name, rest)
    assert {name for name, _rest in lines} == {command.split()[0] for command in LIGHT}


def test_completion_knows_the_table() -> None:
    """Bash completes commands, names and known values."""
    script = _script("bash")
    asks = """
        ask() { COMP_LINE="$1" COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$2; _attention; echo "${COMPREPLY[*]}"; }
        ask "attention gra" 1; ask "attention grade SE" 2; ask "attention begin TRACK=p" 2
    """
    told = subprocess.run(["bash", "-c", script + asks], capture_output=True, text=True, check=True).stdout.splitlines()
    assert told == ["grade gradescope", "SEED=", "positions"]
    for name, command in COMMANDS.items():
        for option in main.parser_of(command).options.values():
            assert re.search(rf"    {name}\) choices=.*\b{capitals(option)}=", script)


# In a terminal of zsh's own: Tab completes a line, and Ctrl-T writes down what it has become.
TAB_IN_ZSH = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'autoload -Uz compinit; compinit -u -D; source ./script'
zpty -w shell 'note() { print -r -- $BUFFER >> told; BUFFER= }; zle -N note; bindkey "^T" note; print READY=$?'
zpty -r shell out '*READY=0*'
for line in "$@"; do zpty -w -n shell "attention $line"$'\t\x14'; done
zpty -w shell 'exit'
while zpty -r shell out; do :; done
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not here")
def test_zsh_completes_too(tmp_path: Path) -> None:
    """Commands, names, known values, and files behind other names."""
    (tmp_path / "script").write_text(_script("zsh"), encoding="utf-8")
    asked = ["doct", "grade SEE", "begin TRACK=pos", "grade HTML=scr"]
    subprocess.run(["zsh", "-f", "-c", TAB_IN_ZSH, "zsh", *asked], cwd=tmp_path, check=False, timeout=300)
    told = [line.removeprefix("attention ") for line in (tmp_path / "told").read_text(encoding="utf-8").splitlines()]
    assert told == ["doctor ", "grade SEED=", "begin TRACK=positions ", "grade HTML=script "]


def _script(shell: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main.run(["completion", shell])
    return out.getvalue()
