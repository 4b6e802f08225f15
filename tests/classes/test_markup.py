"""What a student writes into a notebook's Markdown is shown in the feedback and does nothing, in a browser too."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbgrader")

from nbconvert.exporters import HTMLExporter
from traitlets.config import Config

from grader.classes import markup, nbgrader
from grader.classes.markup import cleaned

ACT = "document.title='acted'"
ACTING = {
    "an autolink in a block of HTML": f"<p>\n<https://x/onfocus={ACT}/autofocus/tabindex=1>\n</p>",
    "a link that opens": f"<details open>\n<https://x/ontoggle={ACT}>\n</details>",
    "an animation": f"<b>\n<https://x/onmouseover={ACT}>\n</b>",
    "a script": f"<script>{ACT}</script>",
    "a picture that is missing": f"<img src=x onerror={ACT}>",
    "a drawing": f"<svg onload={ACT}>",
    "a link to code": f"[press](javascript:{ACT})",
    "a link to code in other letters": f"[press](&#106;avascript:{ACT})",
    "a link to code, as it is": f"<javascript:{ACT}>",
    "a page in a link": f"[press](data:text/html,<script>{ACT}</script>)",
    "a drawing as a picture": f"![press](data:image/svg+xml,<svg onload={ACT}>)",
    "a formula": rf"$\href{{javascript:{ACT}}}{{press}}$",
    "a frame": "<iframe srcdoc='<script>parent." + ACT + "</script>'></iframe>",
    "a form": f"<form action=javascript:{ACT}><button autofocus>",
}


def exported(cell_type: str = "markdown") -> str:
    """A page with all of them, made as nbgrader makes its feedback."""
    config = Config()
    nbgrader.configure(config)
    notebook = nbformat.v4.new_notebook()
    for source in ACTING.values():
        cell = nbformat.v4.new_markdown_cell(source) if cell_type == "markdown" else nbformat.v4.new_raw_cell(source)
        cell.metadata["raw_mimetype"] = "text/html"
        notebook.cells.append(cell)
    markup.make_showable(notebook, set())
    page, _resources = HTMLExporter(config=config).from_notebook_node(notebook)
    return str(page)


@pytest.mark.parametrize("way", ACTING)
def test_nothing_acts(way: str) -> None:
    """No handler, no script, no link but to the web."""
    page = cleaned(ACTING[way]).lower()
    for tag in ("<script", "<svg", "<iframe", "<form", "<button", "<https:", "<img src=x", "<javascript"):
        assert tag not in page
    assert "\\href" not in page


def test_what_shows_stays() -> None:
    """What lessons and notes are made of."""
    shown = '<h2 id="a">x</h2><details><summary>y</summary><pre><code class="language-python">z</code></pre></details>'
    link = '<a href="https://example.org">there</a><img alt="a" src="data:image/png;base64,AAAA">'
    assert cleaned(shown) == shown
    assert cleaned(link) == link
    assert 'href="javascript' not in cleaned('<a href="javascript:x">y</a>')


def test_a_verdict_keeps_its_pictures_where_outputs_are_cleaned() -> None:
    """With `sanitize_html`, nbconvert's own cleaning would leave no picture, and the style sheet as text."""
    config = Config()
    nbgrader.configure(config)
    config.HTMLExporter.sanitize_html = True
    drawing = '<img src="data:image/svg+xml;base64,PHN2Zz4=" alt="a">'
    html = f"<style>.x {{}}</style><article><figure>{drawing}</figure></article>{''.join(ACTING.values())}"
    output = nbformat.v4.new_output("display_data", data={"text/html": html})
    written = nbformat.v4.new_markdown_cell(drawing)  # of a student
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output]), written])
    page, _resources = HTMLExporter(config=config).from_notebook_node(notebook)
    body = str(page)[str(page).index("<main") :]
    assert body.count("data:image/svg+xml;base64,PHN2Zz4=") == 1
    assert ".x {}" not in body
    assert not [tag for tag in ("<script>document", "<svg", "<iframe", "<form", "<img onerror") if tag in body]


def test_a_lesson_keeps_its_drawings() -> None:
    """Those that were released, as attachments; a student's own is named by its alternative text."""
    config = Config()
    nbgrader.configure(config)
    ours, theirs = ({"image/svg+xml": base64.b64encode(text).decode()} for text in (b"<svg>1</svg>", b"<svg>2</svg>"))
    source = "![ours](attachment:a.svg) ![theirs](attachment:b.svg) ![typed](data:image/svg+xml;base64,PHN2Zz4=)"
    cell = nbformat.v4.new_markdown_cell(source, attachments={"a.svg": ours, "b.svg": theirs})
    released = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("", attachments={"a.svg": ours})])
    notebook = nbformat.v4.new_notebook(cells=[cell])
    markup.make_showable(notebook, set(), markup.drawings(released))
    page, _resources = HTMLExporter(config=config).from_notebook_node(notebook)
    body = str(page)[str(page).index("<main") :]
    assert re.findall(r'src="data:image/svg[^,]*,([^"]*)"', body) == [ours["image/svg+xml"]]
    assert all(name in body for name in ("ours", "theirs", "typed"))


@pytest.mark.parametrize("cell_type", ["markdown", "raw"])
def test_in_a_browser(cell_type: str, tmp_path: Path) -> None:
    """Opened in one, nothing has run."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser")
    page = tmp_path / "page.html"
    page.write_text(exported(cell_type).replace("<head>", "<head><title>quiet</title>"), encoding="utf-8")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    options = ["--headless", "--disable-gpu", "--virtual-time-budget=2000", "--host-resolver-rules=MAP * ~NOTFOUND"]
    ran = subprocess.run(
        [browser, *as_root, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "</html>" in ran.stdout, ran.stderr[-2000:]
    assert "<title>acted" not in ran.stdout
    assert "<title>quiet" in ran.stdout
    assert 'href="javascript' not in ran.stdout and 'href="data' not in ran.stdout
