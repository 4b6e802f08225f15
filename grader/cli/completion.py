"""`attention completion bash`: a script that completes commands and their NAME=value, from the table of commands."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from grader.base.language import gettext as _
from grader.cli.common import N_
from grader.cli.parser import BadInput, Parser, Subcommand

# `eval "$(attention completion bash)"` in ~/.bashrc. Bash takes the = of STEP=4 for the end of a word, hence `typed`.
BASH = """\
_attention() {{
    local typed=${{COMP_LINE:0:COMP_POINT}} choices=""
    local word=${{typed##* }}
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
    case $word in
{values}
    esac
    [ "$COMP_CWORD" -le 1 ] && choices="{commands}"
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
    [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
    [[ $word == *=* ]] && COMPREPLY=("${{COMPREPLY[@]#*=}}")
    return 0
}}
complete -o default -F _attention attention
"""
# `eval "$(attention completion zsh)"` in ~/.zshrc, after compinit.
ZSH = """\
_attention() {{
    local choices=""
    case $words[2] in
{cases}
    esac
    case $PREFIX in
{values}
    *=*) compset -P '*='; _files; return ;;
    esac
    (( CURRENT == 2 )) && choices="{commands}"
    local all=(${{=choices}})
    [[ -n $choices ]] || _files
    compadd -S '' -- ${{(M)all:#*=}}
    compadd -- ${{all:#*=}}
}}
compdef _attention attention
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH}


def _line(parser: Parser) -> None:
    parser.argument("SHELL", required=True, help=_("bash or zsh."))


def _complete(args: Namespace) -> None:
    """Prints the script for a shell. Raises BadInput for an unknown one."""
    if args.shell not in SCRIPTS:
        sentence = _("There is no completion for {shell}, only for bash and zsh. Type: attention completion bash")
        raise BadInput(sentence.format(shell=args.shell))
    from grader.cli import main
    from grader.course import choice

    table = {command.name: " ".join(_words(main.parser_of(command))) for command in main.every_command()}
    by_name = {"STEP": [str(int(name[4:6])) for name in choice.step_names()], "TRACK": choice.track_names()}
    values = {f"{name}=*": " ".join(f"{name}={value}" for value in among) for name, among in by_name.items()}
    script = SCRIPTS[args.shell]
    print(script.format(cases=_cases(table), values=_cases(values), commands=" ".join(["start", *table])), end="")


def _words(parser: Parser) -> Iterator[str]:
    """The words that may follow a command: `RESUME=1` for a flag, `STEP=` if a value has to be typed."""
    for name in dict.fromkeys([*(argument.name for argument in parser.arguments), *parser.options]):
        yield f"{name}=1" if parser.options.get(name) in parser.flags else f"{name}="


def _cases(choices: dict[str, str]) -> str:
    """The branches of a shell's `case`, from patterns to the words that complete what matches, a line for each."""
    return "\n".join(f'    {pattern}) choices="{words}" ;;' for pattern, words in choices.items())


COMMANDS = [Subcommand("completion", N_("Print a script that completes commands in bash or zsh."), _line, _complete)]
