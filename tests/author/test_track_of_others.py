"""A track of others: its code is trusted, as docs/security.md says; its texts, names and files are not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grader.base import paths
from grader.base.mistakes import Unreadable
from grader.course import formulas, lessons
from grader.oracle.live import Solution
from grader.publish import site
from grader.report import lesson_page
from grader.report.pictures import Bars
from tests.author import test_authoring
from tests.author.test_authoring import MODEL, STEP, copy, put
from tests.command import run

step = test_authoring.step  # the fixture: a course of one step

RUNS = "alert(1)"  # what no browser may run
SCRIPT = f"<script>{RUNS}</script>"
# Texts of a lesson. The first are HTML, which a page shows as text, and with which no site is built.
IN_HTML = [
    SCRIPT,
    f"<img src=x onerror={RUNS}>",
    f"<svg/onload={RUNS}></svg>",
    f'<a href="jav&#x09;ascript:{RUNS}">x</a>',
    f"<iframe srcdoc='{SCRIPT}'></iframe>",
    f"<!-->{SCRIPT}-->",
    f'<textarea><a title="</textarea>{SCRIPT}"></a></textarea>',
    f"# x\n\n| {SCRIPT} |\n|---|\n| x |",
    f"## x {{: onclick={RUNS} }}",
    f'<form action="javascript:{RUNS}"><button>x</button></form>',
]
IN_MARKDOWN = [
    f"[x](javascript:{RUNS})",
    f"[x](JaVaScRiPt:{RUNS})",
    f"<javascript:{RUNS}>",
    f"![x](javascript:{RUNS})",
    f"[x][y]\n\n[y]: javascript:{RUNS}",
    f'```js" onclick="{RUNS}\nx\n```',
    f"## &lt;img src=x onerror={RUNS}&gt;",
    f"![<img src=x onerror={RUNS}>](picture:bars)\n",
    f"<!-- $$ \\text{{<svg/onload={RUNS}>}} $$ -->",
    f"<!-- $$ \\href{{javascript:{RUNS}}}{{x}} $$ -->",
    "![x](picture:../../secret)\n",
]
PICTURE = {"bars": Bars(panels=[(SCRIPT, [[1.0]])], labels=[SCRIPT], names=[SCRIPT, SCRIPT])}


class Running(HTMLParser):
    """What a browser would run of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.is_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes an attribute that runs."""
        self.is_script = tag == "script"
        for name, value in attrs:
            plain = "".join((value or "").split()).lower()
            if RUNS in plain and (name.startswith("on") or name == "srcdoc" or plain.startswith("javascript:")):
                self.found.append(f"<{tag} {name}={value}>")

    def handle_data(self, data: str) -> None:
        """Notes what a script holds."""
        if self.is_script and RUNS in data:
            self.found.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Ends a script."""
        self.is_script = False


# --- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*IN_HTML, *IN_MARKDOWN])
def test_a_lesson_runs_nothing_on_the_page(text: str) -> None:
    """Nor does a caption, a label of a picture or a formula."""
    page = str(lesson_page.fragment(formulas.as_latex(text) + "\n", PICTURE))
    assert Running(page).found == []


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A site of one page for each text, as mkdocs makes it, and the names of the pages; empty for a text that was
    refused before."""
    source = tmp_path_factory.mktemp("site")
    made = site.Pages("en", source / "docs", {})
    made.menu.append(("Home", made.add("index.md", "# Home\n", paths.ROOT / "README.md")))
    names, listed = {}, []
    for number, text in enumerate(["Nothing but words.", *IN_HTML, *IN_MARKDOWN]):
        folder = source / f"step{number:02d}"
        folder.mkdir()
        (folder / "lesson.en.md").write_text(f"# Lesson {number}\n\n{text}\n", encoding="utf-8")
        try:
            listed.append((f"{number} {SCRIPT}", site._add_lesson(made, f"lessons/{number}.md", folder, "en")))
            names[text] = f"lessons/{number}.html"
        except site.NotBuilt:
            names[text] = ""
    made.menu.append((SCRIPT, listed))
    (source / "mkdocs.yml").write_text(site._configuration(made), encoding="utf-8")
    process = site._start_mkdocs(source)
    _said, complained = process.communicate()
    assert process.returncode == 0, complained
    return source / "site", names


@pytest.mark.parametrize("text", [*IN_HTML, *IN_MARKDOWN])
def test_a_lesson_runs_nothing_on_the_site(pages: tuple[Path, dict[str, str]], tmp_path: Path, text: str) -> None:
    """It is shown as text, or its page is refused by its name."""
    folder, names = pages
    if not names[text]:
        return
    shutil.copy2(folder / names[text], tmp_path / "page.html")
    refused = ""
    try:
        site._require_inert(tmp_path)
    except site.NotBuilt as said:
        refused = str(said)
    assert refused.startswith("page.html holds <") if text in IN_HTML else not refused or RUNS in text
    assert refused or Running((folder / names[text]).read_text(encoding="utf-8")).found == []


def test_words_and_titles_are_not_refused(pages: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """A title is in the menu of every page: there it is text."""
    folder, names = pages
    for number, page in enumerate(("index.html", names["Nothing but words."])):
        text = (folder / page).read_text(encoding="utf-8")
        assert RUNS in text and Running(text).found == []
        (tmp_path / f"{number}.html").write_text(text, encoding="utf-8")
    site._require_inert(tmp_path)
    with pytest.raises(site.NotBuilt, match="which a browser would run"):
        site._require_inert(folder)


@pytest.mark.parametrize("front", ["minutes: 5\ndifficulty: 99999999999", "minutes: 5\ndifficulty: hard", "minutes:"])
def test_a_lessons_effort_is_small(tmp_path: Path, front: str) -> None:
    """The page of the course shows that of every step: one that makes no sense has no dots."""
    folder = tmp_path / "others" / STEP
    folder.mkdir(parents=True)
    (folder / "lesson.en.md").write_text(f"---\n{front}\n---\n# x\n", encoding="utf-8")
    assert lessons.effort(STEP, tmp_path).difficulty == 0
    assert len(str(lessons.effort(STEP, tmp_path))) < 20


# --- names and files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["../../.git/config", "../../pyproject.toml", "/etc/passwd", "../../../../etc/passwd"])
def test_a_lesson_publishes_pictures_of_the_course_alone(tmp_path: Path, file: str) -> None:
    """Not what lies next to them, as the results of a class do."""
    made = site.Pages("en", tmp_path, {})
    with pytest.raises(site.NotBuilt, match="which is no picture of the course"):
        made.add("page.md", f"![x]({file})\n", paths.SOLUTIONS / "core" / "lesson.en.md")
    assert list(tmp_path.rglob("*.*")) == []


def test_a_catalogue_runs_nothing_when_it_is_read(step: Path, tmp_path: Path) -> None:
    """Its Python runs when a mistake is asked for an answer, as the reference's does."""
    ran = tmp_path / "ran"
    fence = f"```python\nimport pathlib\npathlib.Path({str(ran)!r}).touch()\n```\n\n## "
    put("mistakes.md", "## ", fence)(step)
    wrong = Solution(step).misconceptions
    assert wrong and all(each.what and each.caught_by for each in wrong)
    assert not ran.exists()
    put("mistakes.md", "```python\n", "```sh\n")(step)
    with pytest.raises(Unreadable, match="```diff or ```python"):
        dict(Solution(step).misconceptions[0].replaced)


# --- the commands ----------------------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path) -> Iterator[Path]:
    """A course of step 1, answered rightly, and of a step of others in a track of its own."""
    shutil.copytree(paths.ROOT / "grader", tmp_path / "grader", ignore=shutil.ignore_patterns("__pycache__"))
    copy(tmp_path, MODEL)
    others = tmp_path / "solutions" / "others" / STEP
    others.parent.mkdir()
    copy(tmp_path).rename(others)
    for file in others.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(f"solutions.core.{STEP}", f"solutions.others.{STEP}"), encoding="utf-8")
    (tmp_path / "exercises").mkdir()
    solved = Solution(paths.SOLUTIONS / "core" / MODEL).solved()
    (tmp_path / "exercises" / f"{MODEL}.py").write_text(solved, encoding="utf-8")
    yield others


def at_the_root(others: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command, and what must hold of each: no traceback."""
    done = run(others.parents[2], *words)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def step_1(others: Path) -> str:
    """The status of step 1."""
    done = at_the_root(others, "grade", "--step", "1", "--device", "cpu", "--json", "-")
    (result,) = json.loads(done.stdout)["steps"]
    return str(result["status"])


@pytest.mark.thorough
def test_nothing_out_of_the_course_is_packed_or_published(course: Path, tmp_path: Path) -> None:
    """One line names the file, and nothing is written; the rest of the course is graded."""
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_text("# my secret\n\n## 힌트\n\n1. x\n", encoding="utf-8")
    (course / "lesson.ko.md").unlink()
    (course / "lesson.ko.md").symlink_to(secret)
    for words in (("kit",), ("site",), ("record",), ("release-kit",)):
        done = at_the_root(course, *words)
        said, instead = done.stderr.splitlines()
        assert done.returncode == 2 and said.startswith(f"solutions/others/{STEP}/lesson.ko.md leads out of the course")
        assert instead.startswith("This is for the author")
    assert at_the_root(course, "lint").returncode == 1
    assert not (tmp_path / "dist").exists()
    assert step_1(course) == "pass"


BROKEN = {
    "a reference of bytes": ("reference.py", b"\xff\xfe"),
    "a reference nested too deep": ("reference.py", b"x = " + b"-" * 100_000 + b"1\n"),
    "checks that end the program": (f"test_{STEP.partition('_')[2]}.py", b"raise SystemExit(0)\n"),
    "a title of bytes": ("../track.en.md", b"\xff\xfe"),
    "a catalogue of bytes": ("mistakes.md", b"\xff\xfe"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_track_is_one_line_and_the_others_are_graded(course: Path, fault: str) -> None:
    """`lint` says which file it is."""
    name, content = BROKEN[fault]
    (course / name).write_bytes(content)
    linted = at_the_root(course, "lint")
    (line,) = linted.stderr.splitlines()
    assert linted.returncode == 1 and line.startswith("solutions/others/")
    assert Path(name).name in line
    assert step_1(course) == "pass"


@pytest.mark.thorough
def test_the_code_of_a_track_runs_when_the_track_is_asked_for(course: Path, tmp_path: Path) -> None:
    """Its references and checks are the author's code, and no sandbox is around them; grading another step runs
    none."""
    ran = tmp_path / "ran"
    for name in ("reference.py", f"test_{STEP.partition('_')[2]}.py", "pictures.py"):
        code = f"__import__('os').open({str(ran)!r}, {os.O_CREAT | os.O_WRONLY})\n"
        put(name, "\nimport ", f"\n{code}import ")(course)
    assert step_1(course) == "pass" and not ran.exists()
    at_the_root(course, "lint", "13")
    assert ran.exists()
