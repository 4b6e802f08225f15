"""The site: lessons, the catalogue of mistakes, labs, guides and documents, in both languages, by mkdocs-material.

The pages are collected in a folder as Markdown, one folder for each language, and built into one site that opens from
disk: no font, script or count comes from elsewhere, and the search index lies next to the pages.
"""

from __future__ import annotations

import contextlib
import html
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from grader.author import kit
from grader.base import language
from grader.base.language import LANGUAGES
from grader.base.language import gettext as _
from grader.base.paths import ROOT
from grader.course import formulas, lab_log, lessons, steps, tracks
from grader.oracle import pictures
from grader.oracle.live import Solution, solutions
from grader.publish import mistakes_page
from grader.report import lesson_page
from grader.report.page import TEMPLATES as PICTURES
from grader.report.pictures import Picture

DOCUMENTS = ["tour", "instructor", "writing-checks", "design", "security", "torch_in_the_sandbox", "benchmarks", "cuda"]
TEMPLATES = Path(__file__).parent / "templates"
# mkdocs-material would fetch this from another machine, at every page.
SHIM = "https://unpkg.com/iframe-worker/shim"
LINK = re.compile(r"(?<!\!)\[([^\[\]]++)\]\((?!https?:|#|mailto:)([^()\s]++)\)")
IMAGE = re.compile(r"!\[([^\[\]]*+)\]\((?!https?:)([^()\s]++)\)")
LAB = re.compile(r"(?<!\[)`make lab NAME=(\w++)[^`]*+`")
PICTURES_OF = (".png", ".svg", ".jpg", ".jpeg", ".gif", ".webp")
# What of a page comes from a lesson or a document, and what of it would run, load or lead elsewhere in a browser.
ARTICLE = '<article class="md-content__inner'
ACTING = frozenset(
    ("script", "iframe", "frame", "object", "embed", "base", "meta", "link", "style", "form", "animate", "set")
)
COMMENT = re.compile(r"<!--|--!?>|<!\[CDATA\[|<\?")  # a browser may end one elsewhere: what is in it counts
SCHEME = re.compile(r"(?:javascript|vbscript|data):", re.IGNORECASE)
OTHER_LANGUAGE = re.compile(r"(?m)^(# [^·\n]*[^·\s]) · \[[^\[\]\n]++\]\([^()\n]*+\)$")


class NotBuilt(RuntimeError):
    """mkdocs is not installed, or refused; the message is its last line."""


@dataclass
class Pages:
    """The Markdown of one language: files by their path in the site, and the order in which the menu has them."""

    language: str
    folder: Path
    drawn: Mapping[Path, Mapping[str, Picture]]
    menu: list[tuple[str, object]] = field(default_factory=list)

    def add(self, name: str, text: str, source: Path) -> str:
        """Writes one page of Markdown to the path `name` of the site and returns that; pictures come along, links that
        lead out of the site become plain text. `source` is the file that links and pictures in the text are relative
        to."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = OTHER_LANGUAGE.sub(r"\1", text)
        text = IMAGE.sub(lambda match: self._picture(match[1], source.parent / match[2], name), text)
        file.write_text(LINK.sub(lambda match: self._link(match[1], source.parent / match[2], name), text), "utf-8")
        return name

    def _picture(self, words: str, file: Path, page: str) -> str:
        """Markdown for a picture on the page with this name, copied into the site. Raises NotBuilt for a file outside
        of the course."""
        ours = file.resolve().is_relative_to(ROOT.resolve()) and file.suffix.lower() in PICTURES_OF
        if not ours:  # a lesson of others may name any file of this machine, and of a class
            raise NotBuilt(
                _("{page} shows {file}, which is no picture of the course.").format(page=page, file=file.name)
            )
        to = self.folder / "images" / file.name
        to.parent.mkdir(exist_ok=True)
        shutil.copy2(file, to)
        return f"![{words}]({'../' * page.count('/')}images/{file.name})"

    def _link(self, words: str, target: Path, page: str) -> str:
        """Markdown for a link on the page with this name to another document; only its words if the site has no such
        page."""
        stem = target.name.partition("#")[0].removesuffix(".md").removesuffix(".ko")
        if target.parent.resolve() == ROOT / "docs" and stem in DOCUMENTS:
            return f"[{words}]({'../' * page.count('/')}documents/{stem}.md)"
        if target.parent.name == "labs":
            return f"[{words}]({'../' * page.count('/')}labs/{target.name})"
        return words if words.startswith("`") else f"`{words}`" if "/" in words else words


def build(folder: Path) -> Path:
    """Builds the site in `folder`, replacing what is there, and returns its first page. Raises NotBuilt if mkdocs fails
    or a page would run something, OSError."""
    shutil.rmtree(folder, ignore_errors=True)
    sources = folder.with_name(f"{folder.name}-source")
    shutil.rmtree(sources, ignore_errors=True)
    drawn = {step.folder: pictures.pictures(step.folder) for step in steps.steps()}
    every = solutions()
    with contextlib.ExitStack() as stack:
        building = []
        for spoken in LANGUAGES:  # one is built while the next is collected
            source = sources / spoken
            with language.use(spoken):
                collected = collect(spoken, source / "docs", drawn, every)
                (source / "mkdocs.yml").write_text(_configuration(collected), encoding="utf-8")
            building.append(_start_mkdocs(source))
            stack.enter_context(building[-1])
            stack.callback(building[-1].kill)
        for spoken, process in zip(LANGUAGES, building, strict=True):
            to = folder if spoken == LANGUAGES[0] else folder / spoken
            said, complained = process.communicate()
            if process.returncode:
                raise NotBuilt(complained.strip().rpartition("\n")[2] or said.strip())
            shutil.move(sources / spoken / "site", to)
            _require_inert(to)
            _use_own_worker(to)
            (to / "404.html").unlink()  # its links start at the root of a server that we don't know
    return folder / "index.html"


def _start_mkdocs(source: Path) -> subprocess.Popen[str]:
    """Starts the process that builds `source / "site"` from the Markdown and the configuration in `source`."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict"]
    return subprocess.Popen(command, cwd=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def collect(spoken: str, folder: Path, drawn: Mapping[Path, Mapping[str, Picture]], listed: list[Solution]) -> Pages:
    """Writes the pages of one language into `folder`. `drawn` are the pictures of each step's folder, by name; `listed`
    are the steps with mistakes on the page of known mistakes."""
    pages = Pages(spoken, folder, drawn)
    home = ROOT / ("README.md" if spoken == "en" else f"README.{spoken}.md")
    pages.menu.append((_("Home"), pages.add("index.md", home.read_text(encoding="utf-8"), home)))
    for name in ("site.css", "site_worker.js"):
        shutil.copy2(TEMPLATES / name, folder / name)
    for name in ("palette.css", "pictures.css", "pictures.js"):
        shutil.copy2(PICTURES / name, folder / name)
    for track in tracks.tracks():
        own = [step for step in steps.steps() if step.track == track.name]
        lessons = [
            (f"{step.number}. {_(step.title)}", _add_lesson(pages, f"lessons/{step.name}.md", step.folder, spoken))
            for step in own
        ]
        pages.menu.append((track.title, lessons))
    labs = [lab for lab in kit.lab_folders() if (lab / "lesson.en.md").is_file()]
    pages.menu.append((_("Labs"), [_add_lab(pages, lab, spoken) for lab in labs]))
    pages.menu.append(
        (
            _("Known mistakes"),
            pages.add("mistakes.md", _with_breaks(mistakes_page.page(spoken, listed=listed)), ROOT / "README.md"),
        )
    )
    pages.menu.append((_("Documents"), list(_documents(pages, spoken))))
    return pages


def _with_breaks(text: str) -> str:
    """Markdown in which long names in tables may wrap behind an underscore."""
    names = re.compile(r"(?m)(?<=\| )`(\w+)`(?= \|)")
    return names.sub(lambda match: f"<code>{match[1].replace('_', '_<wbr>')}</code>", text)


def _add_lesson(pages: Pages, name: str, folder: Path, spoken: str) -> str:
    """Adds the lesson in `folder` as a page, with its pictures and formulas; returns the page's path."""
    lesson = folder / f"lesson.{spoken}.md"
    drawn = pages.drawn.get(folder, {})
    text = lesson_page.with_formulas(formulas.as_latex(lab_log.CONDITION.sub("", lessons.plain(lesson))))
    text = lesson_page.PLACE.sub(lambda match: _picture_html(match, drawn), text)
    return pages.add(name, _with_links(_with_folded_hints(text)), lesson)


def _with_folded_hints(text: str) -> str:
    """A lesson's Markdown with each of its hints folded on its own, so that one is read at a time; the same text
    without hints."""
    before, *after = lessons.HINTS_HEADING.split(text, maxsplit=1)
    if not after:
        return text
    heading = lessons.HINTS_HEADING.search(text)
    assert heading is not None
    hints = [" ".join(hint.split()) for hint in lessons.NUMBERED.split(after[0])[1:]]
    title = _("Hint {number} of {total}")
    folded = (
        f'??? note "{title.format(number=number, total=len(hints))}"\n\n    {hint}\n'
        for number, hint in enumerate(hints, 1)
    )
    return "\n".join([before.rstrip() + f"\n\n{heading[0]}\n", *folded])


def _with_links(text: str) -> str:
    """Markdown with its commands that run a lab turned into links to the lab's page."""
    labs = {lab.name.removeprefix("lab_") for lab in kit.lab_folders() if (lab / "lesson.en.md").is_file()}

    def linked(match: re.Match[str]) -> str:
        return f"[{match[0]}](../labs/{match[1]}.md)" if match[1] in labs else match[0]

    return LAB.sub(linked, text)


def _picture_html(match: re.Match[str], drawn: Mapping[str, Picture]) -> str:
    """The picture that a lesson names, drawn by the reference: HTML within Markdown, so without an empty line; empty if
    there is no picture of this name, as on the course's page."""
    if match["name"] not in drawn:
        return ""
    shown = lesson_page.figure(drawn[match["name"]], match["caption"])
    return "\n".join(line for line in shown.splitlines() if line.strip()) + "\n"


def _add_lab(pages: Pages, folder: Path, spoken: str) -> tuple[str, str]:
    """Adds the lab's lesson as a page, with a link to the page of its last run if dist/lab/ has one; returns its title
    and path."""
    name = folder.name.removeprefix("lab_")
    page = _add_lesson(pages, f"labs/{name}.md", folder, spoken)
    run = ROOT / "dist" / "lab" / f"{name}.html"
    if run.is_file():
        shutil.copy2(run, pages.folder / "labs" / f"run-{name}.html")
        with (pages.folder / page).open("a", encoding="utf-8") as file:
            file.write("\n\n[" + _("The page of a run") + f"](run-{name}.html)\n")
    heading = (pages.folder / page).read_text(encoding="utf-8").partition("\n")[0]
    return heading.removeprefix("# "), page


def _documents(pages: Pages, spoken: str) -> Iterator[tuple[str, str]]:
    """Adds the pages of the documents in this language, else in English; yields their titles and paths."""
    for name in DOCUMENTS:
        english = ROOT / "docs" / f"{name}.md"
        own = english.with_suffix(f".{spoken}.md")
        source = own if spoken != "en" and own.is_file() else english
        if source.is_file():
            text = source.read_text(encoding="utf-8")
            title = OTHER_LANGUAGE.sub(r"\1", text.partition("\n")[0]).removeprefix("# ")
            yield title, pages.add(f"documents/{name}.md", text, source)


def _configuration(pages: Pages) -> str:
    """The configuration for mkdocs, as JSON: JSON is YAML too, so that no title needs quoting."""
    import json

    home = {"en": "", "ko": "../"}[pages.language]
    korean = "./index.html" if home else "ko/index.html"
    other = [
        {"name": "English", "link": f"{home or './'}index.html", "lang": "en"},
        {"name": "한국어", "link": korean, "lang": "ko"},
    ]
    scheme = [
        {"media": f"(prefers-color-scheme: {name})", "scheme": scheme, "primary": "indigo",
         "toggle": {"icon": f"material/{icon}", "name": label}}
        for name, scheme, icon, label in (
            ("light", "default", "weather-night", _("Dark")), ("dark", "slate", "weather-sunny", _("Light"))
        )
    ]  # fmt: skip
    settings = {
        "site_name": _("Attention from scratch"), "use_directory_urls": False, "docs_dir": "docs", "copyright": "MIT",
        "theme": {"name": "material", "language": pages.language, "font": False, "palette": scheme,
                  "features": ["navigation.indexes", "navigation.footer", "content.code.copy",
                               "search.highlight"]},
        "extra": {"alternate": other, "generator": False},
        "extra_css": ["palette.css", "pictures.css", "site.css"],
        "extra_javascript": ["pictures.js"],  # as a plain script: a page opened from disk may load no module
        "plugins": [{"search": {"lang": [pages.language, "en"] if pages.language != "en" else ["en"]}}, "offline"],
        "markdown_extensions": ["tables", "admonition", "attr_list", "def_list", "pymdownx.superfences",
                                "pymdownx.details"],
        "nav": _nav(pages.menu),
    }  # fmt: skip
    return json.dumps(settings, ensure_ascii=False, indent=1)


def _nav(menu: list[tuple[str, object]]) -> list[object]:
    """The menu for mkdocs: each title to a page's path, or to such a menu."""
    return [{_text(title): _nav(page) if isinstance(page, list) else page} for title, page in menu]


def _text(title: str) -> str:
    """A title as HTML; without a "<", which the theme takes for one again in the head of a page."""
    return html.escape(title.replace("<", "‹"), quote=False)


def _require_inert(folder: Path) -> None:
    """Raises NotBuilt if a page has what a browser would run: a track of others may have written it."""
    for path in sorted(folder.rglob("*.html")):
        _head, _article, rest = path.read_text(encoding="utf-8").partition(ARTICLE)
        reader = _Acting()
        reader.feed(COMMENT.sub(" ", ARTICLE + rest.rpartition("</article>")[0]))
        if reader.found:
            page = path.relative_to(folder)
            raise NotBuilt(_("{page} holds {what}, which a browser would run.").format(page=page, what=reader.found))


class _Acting(HTMLParser):
    """The first tag in a page that a browser would run; empty without one."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes the first tag that a browser would run, or that has an attribute which it would."""
        values = ((name, re.sub(r"[\x00-\x20]", "", value or "")) for name, value in attrs)
        acts = any(name.startswith("on") or name == "srcdoc" or SCHEME.match(value) for name, value in values)
        # Where a browser takes what follows for text, a tag may end in what we take for a value.
        if (acts or tag in ACTING or "<" in (self.get_starttag_text() or "")[1:]) and not self.found:
            self.found = f"<{tag}>"


def _use_own_worker(folder: Path) -> None:
    """Changes the pages in place: they load our own script for a worker, not the one on another machine."""
    for path in folder.rglob("*.html"):
        up = "../" * (len(path.relative_to(folder).parts) - 1)
        path.write_text(path.read_text(encoding="utf-8").replace(SHIM, f"{up}site_worker.js"), encoding="utf-8")


class _Links(HTMLParser):
    """The addresses on a page, and the names that others may point to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes the names and links of a tag."""
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def dead_links(folder: Path) -> Iterator[str]:
    """Yields a line `PAGE: LINK` for every link in the built site to a file that is missing, or to an anchor that its
    page lacks."""
    pages = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            exists = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].names
            if not target.exists() or not exists:
                yield f"{path.relative_to(folder.resolve())}: {link}"


def _read(path: Path) -> _Links:
    """The names and links in a page of HTML."""
    links = _Links()
    with contextlib.suppress(UnicodeDecodeError):
        links.feed(path.read_text(encoding="utf-8"))
    return links
