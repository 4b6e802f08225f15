"""The site: whole in both languages, no dead link, nothing from elsewhere."""

from __future__ import annotations

import html
import re
from pathlib import Path

import nbformat
import pytest

from grader.base.paths import ROOT
from grader.course import steps
from grader.publish import colab, site
from tools.fresh import solution_lines

ELSEWHERE = re.compile(r"""<(?:script|link|img|iframe)[^>]*?(?:src|href)=["'](?:https?:)?//""")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site."""
    return site.build(tmp_path_factory.mktemp("site") / "site").parent


@pytest.mark.thorough
def test_every_lesson_is_there_in_both_languages(built: Path) -> None:
    for step in steps.steps():
        english = (built / "lessons" / f"{step.name}.html").read_text(encoding="utf-8")
        korean = (built / "ko" / "lessons" / f"{step.name}.html").read_text(encoding="utf-8")
        assert 'lang="en"' in english and 'lang="ko"' in korean


@pytest.mark.thorough
def test_hints_are_folded_one_by_one_and_labs_are_links(built: Path) -> None:
    """A lesson has its three hints each by itself, the lesson before it and the one after, and a way to its lab."""
    for folder in (built, built / "ko"):
        page = (folder / "lessons" / "step04_causal_mask.html").read_text(encoding="utf-8")
        assert page.count("<details") == 3
        assert "<details open" not in page
        assert re.search(r'<a href="\.\./labs/mask\.html">\s*<code>make lab NAME=mask</code>', page)
        footer = page.partition("md-footer")[2]
        assert "step03_attention.html" in footer
        assert "step05_dropout.html" in footer
        assert 'type="range"' in page
        assert "<!-- if" not in (folder / "labs" / "mask.html").read_text(encoding="utf-8")


def test_no_link_is_dead(built: Path, tmp_path: Path) -> None:
    assert list(site.dead_links(built)) == []
    (tmp_path / "a.html").write_text('<a href="b.html">b</a><a href="#c">c</a><p id="d"><a href="#d">d</a>')
    assert list(site.dead_links(tmp_path)) == ["a.html: b.html", "a.html: #c"]


def test_nothing_comes_from_elsewhere(built: Path) -> None:
    """No script, font or picture that a reader's browser would ask another machine for."""
    for page in built.rglob("*.html"):
        assert not ELSEWHERE.search(page.read_text(encoding="utf-8")), page


def test_search_works_from_disk(built: Path) -> None:
    """The index is a script, since a page on disk may not read other files."""
    for folder in (built, built / "ko"):
        assert "step08_multi_head" in (folder / "search" / "search_index.js").read_text(encoding="utf-8")


def test_no_line_of_a_solution_is_published(built: Path, tmp_path: Path) -> None:
    """Neither on a page of the site nor in a notebook for Colab."""
    secret = {line for step in steps.steps() for line in solution_lines(step)}
    assert len(secret) > 300
    for page in built.rglob("*.html"):
        text = html.unescape(re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")))
        assert not secret & {line.partition("#")[0].strip() for line in text.splitlines()}, page
    for notebook in colab.write(tmp_path):
        cells = nbformat.read(notebook, as_version=4).cells
        lines = {line.partition("#")[0].strip() for cell in cells for line in cell.source.splitlines()}
        assert not secret & lines, notebook


def test_a_picture_of_another_folder_is_not_published(tmp_path: Path) -> None:
    """A lesson of others may name any file of the machine on which the site is built."""
    (tmp_path / "secret.png").write_bytes(b"s")
    pages = site.Pages("en", tmp_path / "site", {})
    pages.folder.mkdir()
    with pytest.raises(site.NotBuilt, match="shows secret.png, which is no picture of the course"):
        pages._picture("a map", tmp_path / "secret.png", "step.md")
    with pytest.raises(site.NotBuilt, match="shows passwd"):
        pages._picture("a map", ROOT / "docs" / ".." / ".." / ".." / ".." / ".." / "etc" / "passwd", "step.md")
    assert pages._picture("a map", ROOT / "docs" / "images" / "floors.svg", "step.md") == "![a map](images/floors.svg)"
