"""Builds what is published: the release (kit, wheel, notebooks, the instructor's bundle) and the site."""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial
from pathlib import Path

from grader.base.language import gettext as _
from grader.cli import common
from grader.cli.common import N_
from grader.cli.parser import BadInput, Parser, Subcommand


def _folder_option(default: str, parser: Parser) -> None:
    parser.option("--folder", Path, metavar="FOLDER", default=Path(default), help=_("Where the files go."))


def _release_kit(args: Namespace) -> None:
    """Builds the files of a release, and prints the size of each part. Raises BadInput."""
    common.require_solutions()
    common.require_place(args.folder, "release-kit --folder OTHER")
    from grader.publish import wheel

    begun = time.monotonic()

    def tell(part: object, size: int) -> None:
        print(f"{time.monotonic() - begun:6.1f} s  {size / 1e6:6.2f} MB  {part}", flush=True)

    try:
        with common.recording(args.folder, "release-kit"):
            for file in wheel.release(args.folder, on_step=tell):
                tell(file, file.stat().st_size)
    except wheel.NoBuilder as problem:
        raise BadInput(_("The wheel could not be built ({reason}). Type: make release-kit", reason=problem)) from None


def _site(args: Namespace) -> None:
    """Builds the site, and prints its first page. Raises BadInput."""
    common.require_solutions()
    common.require_place(args.folder, "site --folder OTHER")
    from grader.publish import site

    try:
        print(_("The site starts at {file}", file=site.build(args.folder)))
    except OSError as error:
        raise common.unwritable(args.folder, error, "site --folder OTHER") from None
    except site.NotBuilt as problem:
        raise BadInput(_("The site could not be built ({reason}). Type: make site", reason=problem)) from None
    if dead := list(site.dead_links(args.folder)):
        raise BadInput("\n".join([_("Links that lead nowhere:"), *dead]))


COMMANDS = [
    Subcommand(
        "release-kit", N_("Build what is released: the kit as a zip file and as a wheel, and the instructor's bundle."),
        partial(_folder_option, "dist/release"), _release_kit,
    ),
    Subcommand(
        "site", N_("Build the site: lessons, mistakes, labs and documents, in English and Korean."),
        partial(_folder_option, "dist/site"), _site,
    ),
]  # fmt: skip
