"""The commands that run a learner's own code: labs, training, text generation."""

from __future__ import annotations

import importlib
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from grader.base import paths
from grader.base.language import gettext as _
from grader.cli import common
from grader.cli.common import N_
from grader.cli.parser import BadInput, Parser, Subcommand, integer, number, one_of

DAY = 24 * 3600
MOST_TOKENS = 100_000
CAPSTONE = "capstone.lab"


def _common_options(parser: Parser) -> None:
    """Adds the options that all of these commands have."""
    parser.option("--text", metavar="TEXT", help=_("A text of your own: a file, or the words themselves."))
    parser.option("--device", common.device_name, metavar="cpu|cuda|mps|…", default="cpu", help=_("Where it runs."))
    parser.option("--seed", integer(0, 2**31 - 1), metavar="N", default=1, help=_("Repeat a run with the same draws."))
    parser.option(
        "--model",
        one_of("mine", "kit"),
        metavar="mine|kit",
        help=_("The code to run: by default yours if it is written, else the kit's."),
    )
    common.submission_option(parser)
    common.language_option(parser)


def _seconds_option(parser: Parser) -> None:
    parser.option("--seconds", number(0.1, DAY), metavar="N", help=_("How long it may take."))


def _drawing_options(parser: Parser) -> None:
    """Adds the options of how tokens are drawn."""
    parser.option("--tokens", integer(1, MOST_TOKENS), metavar="N", default=80, help=_("How many tokens."))
    parser.option(
        "--temperature", number(0, 1000), metavar="T", default=0.8, help=_("0 takes the likeliest token each time.")
    )
    parser.option("--top-k", integer(0), metavar="K", default=20, help=_("Only the K likeliest tokens; 0 for all."))


def _lab_line(parser: Parser) -> None:
    """Adds the options of `lab`."""
    parser.argument("NAME", help=_("The lab; without it, the list of them."))
    _demo_line(parser)


def _demo_line(parser: Parser) -> None:
    """Adds the options of `demo`, which are those of `lab` too."""
    _common_options(parser)
    _seconds_option(parser)
    predicted = _("Your prediction: a number or words; empty for none.")
    parser.option("--predict", metavar="WORDS", help=predicted, may_be_empty=True)
    parser.option("--out", Path, metavar="FOLDER", default=Path("dist", "lab"), help=_("Where the page goes."))
    parser.option(
        "--log",
        one_of("on", "off"),
        metavar="on|off",
        help=_("Whether your exercises keep a list of the labs that you run, which the class page counts."),
    )


def _train_line(parser: Parser) -> None:
    """Adds the options of `train`."""
    _common_options(parser)
    _seconds_option(parser)
    parser.option("--steps", integer(1), metavar="N", help=_("So many steps, however long they take."))
    parser.flag("--resume", help=_("Go on from the checkpoint."))
    parser.option(
        "--from",
        one_of("kit"),
        metavar="kit",
        into="start",
        help=_("Start from the weights that come with the kit, so that a minute is enough to see it learn a text."),
    )
    parser.flag("--bytes", help=_("Learn bytes in place of characters, so that the model can read any text."))
    parser.option("--out", Path, metavar="FOLDER", default=Path("dist", "train"), help=_("Where everything goes."))


def _generate_line(parser: Parser) -> None:
    """Adds the options of `generate`."""
    _common_options(parser)
    _drawing_options(parser)
    parser.option(
        "--checkpoint", Path, metavar="FILE", help=_("By default the one of `make train`, else the kit's own.")
    )


def _gpt2_line(parser: Parser) -> None:
    """Adds the options of `gpt2`."""
    _common_options(parser)
    _drawing_options(parser)
    parser.option(
        "--folder", Path, metavar="FOLDER", help=_("Where GPT-2's files are, if not in Hugging Face's cache.")
    )


def _runner(command: str, module: str) -> Callable[[Namespace], int]:
    """A function that runs a command: it calls `run(options)` of `module`, a dotted name in `grader`, or in the folder
    of the solutions without its name, and returns the exit code."""

    def run(options: Namespace) -> int:
        """Imports the command's module, which loads torch, and runs it. Returns its exit code; raises BadInput."""
        if "out" in options:
            common.make_folder(options.out, f"{command} --out OTHER")
        import torch

        from grader.labs import parts

        options.device = _one_device(options.device, command)
        torch.set_num_threads(1)  # the models are so small that a second thread costs more than it saves
        name = module if module.startswith("grader.") else f"{paths.SOLUTIONS.name}.{module}"
        try:
            return int(importlib.import_module(name).run(options))
        except parts.Stop as stop:
            raise BadInput(str(stop)) from None

    return run


def _demo(args: Namespace) -> int:
    """Runs the lab `generate`, without a prediction by default. Returns its exit code; raises BadInput."""
    args.name, args.predict = "generate", args.predict or ""
    return _runner("demo", "grader.labs.command")(args)


def _one_device(wanted: str, command: str) -> str:
    """The device to run on: for `all` the accelerator, if there is one. Raises BadInput, with `command` to type on the
    CPU, if it is not here."""
    from grader.calls import devices

    device = devices.single(wanted)
    if not devices.is_there(device):
        sentence = _("There is no {device} device here. Type: python -m grader {command} --device cpu")
        raise BadInput(sentence.format(device=device, command=command))
    return device


COMMANDS = [
    Subcommand(
        "lab", N_("Run a lab, an experiment with your own code; list them."), _lab_line,
        _runner("lab", "grader.labs.command"),
    ),
    Subcommand("train", N_("Train your own GPT on a text."), _train_line, _runner("train", f"{CAPSTONE}_train.train")),
    Subcommand(
        "generate", N_("Have the trained GPT go on with a text."), _generate_line,
        _runner("generate", f"{CAPSTONE}_writing.generate"),
    ),
    Subcommand(
        "demo", N_("Tokenise a text and let a small GPT go on with it."), _demo_line, _demo,
    ),
    Subcommand(
        "gpt2", N_("Load GPT-2's weights into your GPT and go on with a text."), _gpt2_line,
        _runner("gpt2", f"{CAPSTONE}_gpt2.gpt2"),
    ),
]  # fmt: skip
