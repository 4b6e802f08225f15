"""The wheel: built around a kit, installed without an index, and used in an empty folder as a learner would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
import yaml

from attention_from_scratch import console
from grader import __version__
from grader.author import kit
from grader.base.language import use
from grader.base.paths import ROOT
from grader.oracle.live import solutions
from grader.publish import colab, wheel
from tools.fresh import solution_lines

CHOSEN = ("step01_scores",)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of packages that pip made of a wheel with one step."""
    folder = tmp_path_factory.mktemp("release")
    built = wheel.wheel(kit.build(folder / "kit", CHOSEN), folder)
    to = folder / "packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(to)]
    subprocess.run([*pip, str(built)], check=True)
    return to


def attention(installed: Path, here: Path, *words: str, lang: str = "en") -> subprocess.CompletedProcess[str]:
    """One command as it is typed in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "KIT_LANG": lang, "COLUMNS": "100"}
    program = [sys.executable, str(installed / "bin" / "attention"), *words]
    return subprocess.run(program, cwd=here, env=environment, capture_output=True, text=True)


@pytest.mark.thorough
def test_a_course_is_started_and_graded(installed: Path, tmp_path: Path) -> None:
    """Two commands; what the second says is typed as `attention …`, in Korean too."""
    begun = attention(installed, tmp_path, "start", "my-course")
    assert begun.returncode == 0 and "cd my-course" in begun.stdout
    course = tmp_path / "my-course"
    graded = attention(installed, course / "exercises", "grade", "STEP=1")  # from a folder inside it as well
    assert graded.returncode == 0, graded.stderr
    assert "attention grade" in graded.stdout and "make grade" not in graded.stdout
    korean = attention(installed, course, "grade", "STEP=1", lang="ko")
    assert "attention grade" in korean.stdout and "make grade" not in korean.stdout


@pytest.mark.thorough
def test_what_was_written_stays(installed: Path, tmp_path: Path) -> None:
    """`start` again is how a course gets the kit of a newer package."""
    attention(installed, tmp_path, "start", "here", "--lang", "ko")
    file = tmp_path / "here" / "exercises" / "step01_scores.py"
    assert "어텐션" in file.read_text(encoding="utf-8")  # the stub speaks Korean
    file.write_text("mine = 1\n", encoding="utf-8")
    again = attention(installed, tmp_path, "start", "here")
    assert again.returncode == 0 and "left alone" in again.stdout and "step02" not in again.stdout
    assert file.read_text(encoding="utf-8") == "mine = 1\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["grade"], "attention start my-course"),
        (["start"], "attention start FOLDER"),
        (["start", "full"], "attention start OTHER"),
        (["start", "a", "--lang", "fr"], "--lang ko"),
    ],
)
def test_bad_input_is_one_line(installed: Path, tmp_path: Path, words: list[str], says: str) -> None:
    """And it ends in what to type."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine", encoding="utf-8")
    ended = attention(installed, tmp_path, *words)
    assert ended.returncode == 2 and says in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize("spoken", ["en", "ko"])
@pytest.mark.parametrize("words", [("grade", "--step", "99"), ("begin", "x"), ("grade", "--submission", "nowhere")])
def test_what_to_type_next_is_typed_as_attention(words: tuple[str, ...], spoken: str) -> None:
    """Also where the command was put into the sentence."""
    ended = subprocess.run(
        [sys.executable, "-m", "grader", *words], capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"KIT_TYPED": "attention", "KIT_LANG": spoken},
    )  # fmt: skip
    assert ended.returncode == 2 and f"attention {words[0]} " in ended.stderr and "python -m" not in ended.stderr


def test_words_are_handed_on_as_they_were_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The course's own command line reads them: the package may be newer than the course."""
    ran: list[list[str]] = []
    monkeypatch.chdir(ROOT / "docs")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("KIT_TYPED", "")
    monkeypatch.setattr(sys, "argv", ["attention", "generate", "TEXT=a=b", "TOP_K=5", "KIT_LANG=ko"])
    monkeypatch.setattr(console.runpy, "run_module", lambda *_name, **_how: ran.append(sys.argv[1:]))
    assert console.main() == 0 and ran == [["generate", "TEXT=a=b", "TOP_K=5", "KIT_LANG=ko"]]


def test_no_line_of_a_solution_is_in_it(installed: Path) -> None:
    """As the kit's own test asks of the kit."""
    telling = {line for step in solutions() for line in solution_lines(step)}
    with zipfile.ZipFile(installed / wheel.PACKAGE / "kit.zip") as archive:
        names = archive.namelist()
        assert any(name.endswith("tape.safetensors") for name in names)
        assert not [
            name
            for name in names
            if "reference" in name
            or "misconceptions" in name
            or "mistakes.md" in name
            or "/mistakes/" in name
            or "/author/" in name
        ]
        for name in names:
            lines = archive.read(name).decode("utf-8", "replace").splitlines()
            found = {line.partition("#")[0].strip() for line in lines} & telling
            assert not found, (name, found)


def test_what_a_package_index_shows(installed: Path) -> None:
    """Who made it, what it needs, for which Python; the same for a clone, whose pyproject.toml it is."""
    (folder,) = installed.glob("*.dist-info")
    shown = message_from_string((folder / "METADATA").read_text(encoding="utf-8"))
    assert shown["Author"] and shown["Keywords"] and shown["License-Expression"] == "MIT"
    assert "Programming Language :: Python :: 3.13" in shown.get_all("Classifier", [])
    assert "attention start my-course" in str(shown.get_payload())
    needed = [range for range in shown.get_all("Requires-Dist", []) if "extra ==" not in range]
    assert any(range.startswith("matplotlib") for range in needed) and any(
        range.startswith("torch") for range in needed
    )


def test_a_release_knows_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workflow's: for the index's links, and for the notebooks, which else take the wheel beside them."""
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert wheel.urls() == "" and "or []" in colab.notebook("reading").cells[1].source
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/attention")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example.org")
    assert 'Issues = "https://git.example.org/someone/attention/issues"' in wheel.urls()
    source = colab.notebook("reading").cells[1].source
    version = wheel.metadata()["version"]
    name = f"attention_from_scratch-{version}-py3-none-any.whl"
    assert f"'https://git.example.org/someone/attention/releases/download/v{version}/{name}'" in source


@pytest.mark.parametrize("how", [["."], ["-e", "."]], ids=["copied", "editable"])
def test_a_clone_installs(tmp_path: Path, how: list[str]) -> None:
    """As the wheel does, but for the course: the same commands, in every folder of a clone."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    get = ("import sysconfig; print(sysconfig.get_path('purelib'))",)
    of_tests, of_venv = (
        subprocess.run([program, "-c", *get], check=True, capture_output=True, text=True).stdout.strip()
        for program in (sys.executable, str(python))
    )
    Path(of_venv, "packages.pth").write_text(of_tests, encoding="utf-8")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", *how]
    subprocess.run(pip, cwd=ROOT, check=True)
    attention = python.with_name("attention")

    def typed(*words: str, here: Path) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"KIT_LANG": "en"}
        return subprocess.run([attention, *words], cwd=here, env=environment, capture_output=True, text=True)

    version = f"attention-from-scratch {wheel.metadata()['version']}\n"
    assert typed("--version", here=tmp_path).stdout == version
    refused = typed("start", "course", here=tmp_path)
    assert refused.returncode == 2 and "make release-kit" in refused.stderr and not (tmp_path / "course").exists()
    told = typed("grade", "STEP=99", here=ROOT / "solutions")
    assert told.returncode == 2 and "attention grade" in told.stderr


def test_the_versions_agree() -> None:
    """Of the package, of the engine, as it says itself, and of the citation."""
    version = wheel.metadata()["version"]
    said = subprocess.run([sys.executable, "-m", "grader", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert said.stdout == f"attention-from-scratch {version}\n" and __version__ == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_notes_of_a_release_are_its_section_of_the_changelog(tmp_path: Path) -> None:
    """The workflow's own command."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    (notes,) = [step["run"] for step in workflow["jobs"]["release"]["steps"] if step.get("name") == "Notes"]
    (tmp_path / "dist").mkdir()
    sections = "# Changelog\n\n## Next\n\n- Later.\n\n## 1.10.0\n\n- Ten.\n\n## 1.1.0\n\n- One.\n\n## 1.0.0\n\n- Old.\n"
    (tmp_path / "CHANGELOG.md").write_text(sections, encoding="utf-8")
    subprocess.run(["bash", "-c", notes], cwd=tmp_path, env=os.environ | {"GITHUB_REF_NAME": "v1.1.0"}, check=True)
    assert (tmp_path / "dist" / "notes.md").read_text(encoding="utf-8").split() == ["-", "One."]


def test_workflows_say_what_they_run() -> None:
    """Actions by their commit, since a tag can move; and each Python that the package names, and no other."""
    workflows = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
    actions = [line for text in workflows.values() for line in re.findall(r"uses: (.*)", text)]
    assert actions and [line for line in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}  # v[\d.]+", line)] == []
    tested = yaml.safe_load(workflows["check"])["jobs"]["check"]["strategy"]["matrix"]["python"]
    named = [word for word in wheel.metadata()["classifiers"] if re.search(r"Python :: 3\.\d+$", word)]
    assert [word.rpartition(" ")[2] for word in named] == tested


def test_instructors_bundle_is_the_repository(tmp_path: Path) -> None:
    """With the references, without what is generated or ignored."""
    with zipfile.ZipFile(wheel.instructors_bundle(tmp_path / "bundle.zip")) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    assert {"Makefile", "solutions/core/step01_scores/reference.py", "docs/instructor.md"} <= names
    generated = [name for name in names if name.startswith((".venv", "dist", ".kit"))]
    assert all(name.startswith("dist/tapes/") for name in generated)  # a release brings them ready


@pytest.mark.thorough
def test_a_notebook_installs_the_wheel_and_grades(installed: Path, tmp_path: Path) -> None:
    """In a real kernel: its first cell as it stands, a reference in an answer cell, and the verdict below it."""
    nbclient = pytest.importorskip("nbclient")
    shutil.copy2(next(installed.parent.glob("*.whl")), tmp_path)
    with use("ko"):
        notebook = colab.notebook("core")
    step = next(step for step in solutions() if step.name == CHOSEN[0])
    wanted = [cell for cell in notebook.cells if not cell.id.startswith("step") or cell.id.startswith(step.name)]
    answer = next(cell for cell in wanted if cell.id == f"{step.name}-answer")
    assert "NotImplementedError" in answer.source and not solution_lines(step) & set(answer.source.split("\n"))
    answer.source = f"# {step.name}\n{step.solved()}"
    notebook.cells = wanted
    # The packages that the wheel needs are here already; pip must not put the wheel among them.
    there = {"PIP_TARGET": str(tmp_path / "packages"), "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    settings = os.environ | there | {"PYTHONPATH": str(tmp_path / "packages")}
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.create_kernel_manager()
    client.start_new_kernel(env=settings)
    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
    said = str(next(cell for cell in wanted if cell.id == f"{step.name}-check").outputs)
    assert f"{step.points:g}" in said and "NotImplementedError" not in said and "Traceback" not in said
