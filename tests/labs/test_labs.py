"""Labs: what each shows, whose code it runs, what becomes of Ctrl-C, and a page that needs nothing else."""

from __future__ import annotations

import base64
import importlib
import math
import os
import re
from functools import partial
from pathlib import Path

import nbformat
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.base import files, language, paths
from grader.base.results import Graded
from grader.classes import class_list, release, roster
from grader.cli import main as command_line
from grader.course import lab_log
from grader.feedback import class_page
from grader.feedback.standings import standing
from grader.labs import command as lab_command
from grader.labs import judged, lab, parts, shown_lab
from grader.labs import page as lab_page
from grader.labs import plot as lab_plot
from grader.oracle.live import solutions
from grader.report import heat_map
from grader.report.page import formatted
from tests.whole import WHOLE, sample

LABS = {one.name: one for one in lab.labs()}
SEEDS = (1, 2, 3, 4, 5)
SOME = SEEDS if WHOLE else SEEDS[:1]  # where one takes seconds
each_seed = pytest.mark.parametrize("seed", SEEDS)
some_seeds = pytest.mark.parametrize("seed", SOME)


def bench(name: str, seconds: float, seed: int = 1, text: str | None = None, own: bool = False) -> lab.Bench:
    """A bench with the references, or with the labs' own simple parts."""
    needs = LABS[name].module.NEEDS
    if own:
        found = {
            need.step: parts.StepCode(need.step, "kit", {each: getattr(need.own, each) for each in need.names})
            for need in needs
            if need.own is not None and not need.graded_only
        }
    else:
        found = parts.gather(needs, Path("nowhere"), "kit", lambda steps: {})
    return lab.Bench(found, seconds, seed, text=text)


def solved(folder: Path, *numbers: int) -> Path:
    """A folder of exercises where these steps are solved and all others are stubs."""
    folder.mkdir()
    for step in solutions():
        if step.track == "core":
            source = step.solved() if step.number in numbers else step.stub()
            (folder / f"{step.name}.py").write_text(source, encoding="utf-8")
    return folder


# --- what each shows ---


@some_seeds
def test_flash_memory_grows_with_the_square_or_with_the_length(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = LABS["flash"].module
    monkeypatch.setattr(module, "LENGTHS", (256, 512, 1024))
    monkeypatch.setattr(module, "REPEATS", 1)
    held = bench("flash", 100.0, seed)
    module.measure(held)
    slopes = {name: module.slope(held.results, name, "MiB") for name in held.results.distinct("name")}
    assert slopes["naive"] == pytest.approx(2.0, abs=0.1)
    assert slopes["step 10, blocks of 64"] < 1.2
    assert slopes["PyTorch's built-in"] < 1.3
    peaks = {row["name"]: row["MiB"] for row in held.results.where(T=1024)}
    assert peaks["naive"] > 5 * peaks["step 10, blocks of 256"] > 5 * peaks["PyTorch's built-in"]


def test_a_kernel_is_asked_for_where_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 29 is a part of the lab on CUDA with Triton, and nowhere else; there it has a line of its own."""
    module = LABS["flash"].module
    kernel = next(need for need in module.NEEDS if need.step == "step29_triton")
    assert not kernel.is_for("cpu")
    monkeypatch.setattr(parts.importlib.util, "find_spec", lambda name: None)
    assert not kernel.is_for("cuda")
    monkeypatch.setattr(parts.importlib.util, "find_spec", lambda name: name)
    assert kernel.is_for("cuda")

    def flash_forward(query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> tuple[Tensor, None]:
        return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal), None

    held = bench("flash", 1.0)
    held.parts["step29_triton"] = parts.StepCode("step29_triton", "yours", {"flash_forward": flash_forward})
    contestants = module._contestants(held)
    inputs = torch.randn(3, 1, 2, 9, module.WIDTH)
    torch.testing.assert_close(contestants["step 29, a Triton kernel"](*inputs), contestants["naive"](*inputs))


@each_seed
def test_scale_saturates_without_it(seed: int) -> None:
    held = bench("scale", 1.0, seed)
    LABS["scale"].module.measure(held)
    with_it, without = held.results.where(scaled=True), held.results.where(scaled=False)
    assert [row["entropy"] for row in without] == sorted((row["entropy"] for row in without), reverse=True)
    assert without[-1]["entropy"] < 1 < 4 < with_it[-1]["entropy"]
    assert without[-1]["gradient"] < 0.1 * with_it[-1]["gradient"]
    assert with_it[0]["gradient"] == pytest.approx(with_it[-1]["gradient"], rel=0.4)


@some_seeds
def test_two_heads_name_two_tokens_and_one_does_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = LABS["heads"].module
    monkeypatch.setattr(module, "HEADS", (1, 2))
    held = bench("heads", 100.0, seed, text="some words to learn from, " * 40)
    module.measure(held, steps=150, text_steps=2)
    made = module.last(held.results, module.MADE)
    assert made[1]["right"] < 0.5
    assert made[2]["right"] > 0.9
    assert held.results.extra[2].shape == (2, module.LENGTH, module.LENGTH)
    # Each of the two heads has an offset of its own.
    maps = held.results.extra[2]
    looked_at = {offset for one in maps for offset in module.OFFSETS if one.diagonal(-offset).mean() > 0.5}
    assert looked_at >= set(module.OFFSETS)


@pytest.mark.thorough
@some_seeds
def test_without_the_mask_training_is_easy_and_writing_is_not(seed: int) -> None:
    module = LABS["mask"].module
    held = bench("mask", 1000.0, seed, own=True)
    module.measure(held, most_steps=150)
    masked, open_ = (held.results.where(name=name)[-1] for name in ("with the mask", "without the mask"))
    assert open_["loss"] < 0.5 * masked["loss"]
    assert open_["writing"] > masked["writing"] + 0.5
    assert abs(masked["writing"] - masked["loss"]) < 0.6


@some_seeds
def test_costs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = LABS["costs"].module
    monkeypatch.setattr(module, "LENGTHS", (128, 256, 512))
    held = bench("costs", 100.0, seed)
    module.measure(held)
    last = {row["name"]: row for row in held.results.where(T=512)}
    assert (last["recurrent"]["reach"], last["convolution"]["reach"], last["attention"]["reach"]) == (512, 3, 512)
    assert (last["recurrent"]["steps"], last["attention"]["steps"]) == (512, 1)
    assert module.slope(held.results, "attention", "MiB") > 1.6
    assert module.slope(held.results, "recurrent", "MiB") < 1.2


@pytest.mark.parametrize(("text", "spoken"), [(None, "en"), (None, "ko"), ("Jun put the red hat in the box.", "en")])
def test_maps_are_causal_and_look_back(
    text: str | None, spoken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the shipped checkpoints some heads look far back, at one token."""
    monkeypatch.chdir(tmp_path)
    module = LABS["maps"].module
    with language.use(spoken):
        held = bench("maps", 10.0, text=text)
        module.measure(held)
        maps = held.results.extra["maps"]
        assert torch.equal(maps, maps.tril())
        torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1]))
        assert max(row["look"] for row in held.results.rows) > 0.8
        assert all(row["query"] - row["key"] >= module.FAR for row in held.results.rows)
        assert all("<svg" in picture.svg for picture in module.pictures(held.results))


@pytest.mark.thorough
@some_seeds
def test_positions_count_beyond_what_was_trained(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinusoidal ones fail there at once, rotary ones further out, and ALiBi hardly at all."""
    module = LABS["positions"].module
    monkeypatch.setattr(module, "TEXTS", 12)
    held = bench("positions", 1000.0, seed)
    module.measure(held, steps=100)
    near, far = (
        {kind: module.loss(held.results, kind, place) for kind in module.KINDS} for place in (0, len(module.RANGES) - 1)
    )
    assert near[module.NONE] > max(near[kind] for kind in module.KINDS[1:]) + 0.1
    assert far[module.SINUSOIDAL] > near[module.SINUSOIDAL] + 1
    assert far[module.ROTARY] > near[module.ROTARY] + 0.7
    assert far[module.ALIBI] < near[module.ALIBI] + 0.6
    assert min(far, key=far.get) == module.ALIBI
    assert module.loss(held.results, module.SINUSOIDAL, 1) > module.loss(held.results, module.ROTARY, 1) + 0.5


@some_seeds
@pytest.mark.parametrize("own", [False, True])
def test_a_cache_keeps_tokens_cheap(seed: int, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one a token costs more and more; both say the same."""
    module = LABS["cache"].module
    monkeypatch.setattr(module, "LENGTHS", (64, 512))
    held = bench("cache", 100.0, seed, own=own)
    module.measure(held)
    assert module.growth(held.results, module.WITHOUT) > 2 * module.growth(held.results, module.WITH)
    last = {way: held.results.where(way=way, T=512)[0]["ms"] for way in (module.WITH, module.WITHOUT)}
    assert last[module.WITHOUT] > 3 * last[module.WITH]
    assert max(row["apart"] for row in held.results.where(way=module.WITH)) < 1e-3
    sizes = [held.results.where(heads=heads, T=512)[0]["MiB"] for heads in module.FEWER_HEADS]
    assert sizes == [sizes[0], sizes[0] / 2, sizes[0] / 4]


@some_seeds
@pytest.mark.parametrize(("text", "first"), [("The model looks at", "The"), ("모델은 모든 토큰을", "모")])
def test_generate_learns_and_goes_on_with_whole_syllables(
    text: str, first: str, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    module = LABS["generate"].module
    held = bench("generate", 100.0, seed, text=text, own=True)
    module.measure(held, most_steps=60)
    tokens, likely = module.tables(held.results)
    assert tokens.rows[0][1].startswith(first)
    assert not any(row[1].startswith("bytes") for row in tokens.rows)
    assert len(likely.rows) == module.SHOWN
    losses = [row["loss"] for row in held.results.rows]
    assert losses[-1] < losses[0] - 1
    assert text in module.findings(held.results)[-1]


# --- the labs' own simple parts are right ---


def test_own_parts_give_the_references_numbers() -> None:
    query, key, value = torch.randn(3, 2, 4, 70, 16)
    for step, name in (("flash", "flash_attention"),):
        reference = bench(step, 1.0).part("step10_flash")
        own = bench(step, 1.0, own=True).part("step10_flash")
        for is_causal in (True, False):
            expected = getattr(reference, name)(query, key, value, is_causal=is_causal)
            torch.testing.assert_close(getattr(own, name)(query, key, value, is_causal=is_causal), expected)
    reference, own = (bench("scale", 1.0, own=one).part("step03_attention") for one in (False, True))
    one_head = (*query[:, 0][None], *key[:, 0][None], *value[:, 0][None])
    torch.testing.assert_close(own.attention(*one_head)[1], reference.attention(*one_head)[1])
    reference, own = (bench("heads", 1.0, own=one).part("step08_multi_head") for one in (False, True))
    layers = [one.MultiHeadAttention(16, 16, 70, 0.0, 4) for one in (reference, own)]
    layers[1].load_state_dict(layers[0].state_dict())
    torch.testing.assert_close(layers[1](query[:, 0]), layers[0](query[:, 0]))


def test_own_positions_give_the_references_numbers() -> None:
    reference, own = (bench("positions", 1.0, own=one).parts for one in (False, True))
    x = torch.randn(2, 3, 30, 8)
    for step, name, given in (
        ("step16_sinusoidal", "sinusoidal_encoding", (40, 12)),
        ("step17_relative", "alibi_bias", (4, 9)),
        ("step18_rotary", "apply_rotary", (x,)),
    ):
        expected = getattr(reference[step], name)(*given)
        torch.testing.assert_close(getattr(own[step], name)(*given), expected, atol=1e-5, rtol=1e-5)


def test_own_gpt_gives_the_references_numbers() -> None:
    reference, own = (bench("maps", 1.0, own=one).part("step12_gpt") for one in (False, True))
    models = [one.GPT(30, 12, 2, 2, 16) for one in (reference, own)]
    models[1].load_state_dict(models[0].state_dict())
    ids = torch.randint(30, (2, 12))
    for expected, got in zip(models[0](ids, ids), models[1](ids, ids), strict=True):
        torch.testing.assert_close(got, expected)
    for drawn in ((0.0, None), (0.7, 1)):  # without a draw: the two draw from tables of other shapes
        assert torch.equal(own.generate(models[1], ids, 8, *drawn), reference.generate(models[0], ids, 8, *drawn))
    batches = [list(one.next_token_batches(torch.arange(50), 12, 3)) for one in (reference, own)]
    assert all(
        torch.equal(a, b) for first, second in zip(*batches, strict=True) for a, b in zip(first, second, strict=True)
    )


# --- whose code runs ---


def test_what_is_written_runs_and_what_is_not_is_the_kits(tmp_path: Path) -> None:
    folder = solved(tmp_path / "mine", 3)
    asked: list[list[str]] = []

    def grade(steps: list[str]) -> parts.Statuses:
        asked.append(steps)
        return dict.fromkeys(steps, ("pass", 8.0, 8.0))

    needs = (*LABS["scale"].module.NEEDS, *LABS["flash"].module.NEEDS)
    found = parts.gather(needs, folder, None, grade)
    assert asked == [["step03_attention"]]
    assert {step: part.whose for step, part in found.items()}.items() >= {
        ("step03_attention", "yours"),
        ("step10_flash", "reference"),
    }
    assert found["step03_attention"].attention.__module__ == "exercises.step03_attention"


@pytest.mark.thorough
def test_a_step_that_is_wrong_is_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make lab NAME=flash` where step 10 fails a check: it says so, and no page is written."""
    folder = solved(tmp_path / "mine", 10)
    file = folder / "step10_flash.py"
    source = file.read_text(encoding="utf-8")
    wrong = source.replace("num_tokens * num_tokens", "num_tokens")
    assert wrong != source
    file.write_text(wrong, encoding="utf-8")
    monkeypatch.setattr(
        "sys.argv",
        ["grader", "lab", "flash", "--submission", str(folder), "--out", str(tmp_path / "out"), "--lang", "en"],
    )
    assert command_line.main() == 2
    said = capsys.readouterr().err
    assert re.search(
        r"mine/step10_flash.py does not pass yet \([\d.]+ of [\d.]+ points\), so nothing is measured", said
    )
    assert said.rstrip().endswith("python -m grader grade --step step10_flash")
    assert list(tmp_path.glob("out/*")) == []


def test_an_error_of_the_learners_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "step03_attention.py").write_text("def attention(query, key, value, mask=None):\n    return query @ 3\n")
    found = parts.gather(LABS["scale"].module.NEEDS, folder, None, lambda steps: {})
    held = lab.Bench(found, 1.0)
    with pytest.raises(parts.Stop) as stop:
        lab.run(LABS["scale"], held, guard=parts.blamed_on(folder))
    assert str(stop.value).startswith("mine/step03_attention.py, line 2, in attention: TypeError")
    assert str(stop.value).endswith("python -m grader grade --step step03_attention")


def test_mine_asks_for_what_is_not_written(tmp_path: Path) -> None:
    folder = solved(tmp_path / "mine")
    with pytest.raises(parts.Stop, match="step03_attention.py is not written yet"):
        parts.gather(LABS["scale"].module.NEEDS, folder, "mine", lambda steps: {})


# --- the runner ---


def test_every_lab_has_a_lesson_in_both_languages() -> None:
    for one in LABS.values():
        cut = []
        for spoken in language.LANGUAGES:
            with language.use(spoken):
                cut.append(one.lesson)
        assert len(cut[0].answers) == len(cut[1].answers) >= 2, one.name
        assert all(part.title and part.about and part.question and part.to_see for part in cut), one.name


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_a_lesson_points_to_every_lab(spoken: str) -> None:
    lessons = "".join(path.read_text("utf-8") for path in paths.SOLUTIONS.glob(f"*/step*/lesson.{spoken}.md"))
    typed = {name: f"make lab NAME={name}`" for name in LABS} | {"generate": "make demo "}
    assert [name for name, command in typed.items() if command not in lessons] == []


@pytest.mark.thorough
def test_ctrl_c_keeps_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = bench("scale", 10.0)
    monkeypatch.setattr(held, "tell", lambda what, done=None: _interrupt_at(done))
    outcome = lab.run(LABS["scale"], held, "it vanishes")
    assert outcome.stopped
    assert held.results.distinct("d") == [4, 16]
    page = lab_page.write(outcome, tmp_path).read_text(encoding="utf-8")
    assert "It was stopped early" in page
    assert "it vanishes" in page


def _interrupt_at(done: float | None) -> None:
    if done is not None and done >= 0.4:
        raise KeyboardInterrupt


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_a_page_needs_nothing_else(spoken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with language.use(spoken):
        outcome = lab.run(LABS["scale"], bench("scale", 0.5), "<b>3</b>")
        page = lab_page.write(outcome, tmp_path).read_text(encoding="utf-8")
        assert outcome.lesson.title in page
        assert f'<html lang="{spoken}">' in page
    assert "<script" not in page
    assert "<b>3</b>" not in page
    assert not re.search(r'(src|href)="(?!#|https://arxiv|https://transformer)', page.replace("xlink:", ""))
    assert "light-dark(" in page
    assert "var(--series-1)" in page
    assert not re.search("#0[01][01]1", page), "a colour that does not follow the page"
    assert (tmp_path / "scale.json").is_file()


def test_runs_are_noted_where_a_learner_wants_that(tmp_path: Path) -> None:
    """And nowhere else; what somebody else wrote there counts as nothing."""
    assert not lab_log.add(tmp_path, "scale", predicted=True, stopped=False)
    assert not list(tmp_path.iterdir())
    lab_log.begin(tmp_path)
    assert lab_log.add(tmp_path, "scale", predicted=True, stopped=False)
    assert lab_log.add(tmp_path, "flash", predicted=False, stopped=True)
    assert lab_log.add(tmp_path, "scale", predicted=False, stopped=False)
    assert [(run.lab, run.predicted, run.stopped) for run in lab_log.read(tmp_path)] == [
        ("scale", True, False),
        ("flash", False, True),
        ("scale", False, False),
    ]
    assert lab_log.names(tmp_path) == ("flash", "scale")
    file = tmp_path / lab_log.FILE
    for damaged in (b"", b"{}", b'[{"lab": 3}]', b"\xff", b"[" * 300_000):
        file.write_bytes(damaged)
        assert lab_log.names(tmp_path) == ()
    file.write_text('[{"lab": "../../etc", "when": ""}, {"lab": "maps", "when": ""}]')
    assert lab_log.names(tmp_path) == ("maps",)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert lab_log.names(tmp_path) == ()
    file.unlink()
    os.mkfifo(file)
    assert lab_log.names(tmp_path) == ()
    lab_log.end(tmp_path)
    assert not lab_log.is_kept(tmp_path)


def test_the_list_is_begun_and_ended_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for switch, said in (("on", "hand in"), ("off", "is gone")):
        arguments = ["lab", "--log", switch, "--submission", str(tmp_path), "--lang", "en"]
        monkeypatch.setattr("sys.argv", ["grader", *arguments])
        assert command_line.main() == 0
        assert said in " ".join(capsys.readouterr().out.split())
        assert lab_log.is_kept(tmp_path) is (switch == "on")


def test_a_lab_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the answers of the assignment beside it, and shows its figures, tables and pictures."""
    (tmp_path / "labs").mkdir()
    solved(tmp_path / "attention", 3)
    monkeypatch.chdir(tmp_path / "labs")
    monkeypatch.setattr(parts, "grading", lambda folder: lambda steps: dict.fromkeys(steps, ("pass", 10.0, 10.0)))
    shown = shown_lab.lab("scale", "2", seconds=0.5)
    html = shown._repr_html_()
    assert "step03_attention: yours." in repr(shown)
    assert shown.outcome.lesson.answers[1] in repr(shown)
    assert html.count("<img src='data:image/svg+xml;base64,") == 2
    assert "<table>" in html
    drawn = base64.b64decode(html.partition("base64,")[2].partition("'")[0]).decode()
    assert "var(--" not in drawn
    with pytest.raises(shown_lab.Refusal, match="There is no lab nothing"):
        shown_lab.lab("nothing")
    with pytest.raises(shown_lab.Refusal, match="There is no folder"):
        shown_lab.lab("scale", folder="nowhere")


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_the_class_page_counts_who_ran_which(spoken: str, tmp_path: Path) -> None:
    """As the students' own lists say; a page of a class without lists says nothing of labs."""
    for name, ran in (("ada", ["flash", "maps"]), ("bo", ["flash", "flash"]), ("cy", [])):
        folder = solved(tmp_path / name, 1)
        if ran:
            lab_log.begin(folder)
        for lab_name in ran:
            lab_log.add(folder, lab_name, predicted=True, stopped=False)
    standings = [
        standing(Graded(student=one.name, file=one.file, key="", labs=one.labs))
        for one in roster.students(tmp_path, class_list.read(tmp_path), "attention")
    ]
    assert [one.labs for one in standings] == [("flash", "maps"), ("flash",), ()]
    assert class_page.labs(standings) == [("flash", 2), ("maps", 1)]
    with language.use(spoken):
        page = class_page.html(standings, seed=1, submissions="class")
        assert 'id="labs"' in page
        assert page.index("flash") < page.index("maps")
        assert 'id="labs"' not in class_page.html(standings[2:], seed=1, submissions="class")


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_labs_are_released_as_notebooks_without_a_mark(spoken: str, tmp_path: Path) -> None:
    """From their own lessons; one that was edited is not overwritten."""
    with language.use(spoken):
        written = release.build_labs(tmp_path, {"core", "positions"})
        assert {path.stem.removeprefix("lab_") for path in written} >= {"flash", "positions"}
        made = nbformat.read(written[0], as_version=4)
        assert not any("nbgrader" in cell.metadata for cell in made.cells)
        assert LABS["costs"].lesson.title in made.cells[0].source
        assert [cell.id for cell in made.cells][-2:] == ["run", "to-see"]
        release.build_labs(tmp_path, {"core"})
        assert not (tmp_path / "source" / "labs" / "lab_positions.ipynb").exists()
        made.cells[0].source += "\nMore."
        nbformat.write(made, written[0])
        with pytest.raises(files.NotOverwritten):
            release.build_labs(tmp_path, {"core"})


def test_predictions() -> None:
    lesson = LABS["scale"].lesson
    assert lab.predicted(" 3 ", lesson) == lesson.answers[2]
    assert lab.predicted("no idea", lesson) == "no idea"
    assert lab.predicted("", lesson) == ""
    for number in ("9", "0", "4"):
        with pytest.raises(parts.Stop, match=f"There is no answer {number}"):
            lab.predicted(number, lesson)


def judged_run(name: str, prediction: str, figures: lab.Results) -> lab.LabRun:
    """A lab whose figures are given."""
    held = lab.Bench({}, 1.0)
    held.results = figures
    return lab.LabRun(LABS[name], LABS[name].lesson, held, lab.predicted(prediction, LABS[name].lesson))


def mask_figures(masked: float, bare: float, writing: float) -> lab.Results:
    """Of the lab that takes the mask away."""
    figures = lab.Results()
    figures.add(name="with the mask", step=100, loss=masked, writing=masked)
    figures.add(name="without the mask", step=100, loss=bare, writing=writing)
    return figures


@pytest.mark.parametrize(("prediction", "said"), [
    ("1", "It was otherwise. Measured: The one without."), ("2", "Your prediction was right."),
    ("none", "Measured: The one without."), ("", "Measured: The one without."),
])  # fmt: skip
def test_a_prediction_is_answered_from_the_figures(prediction: str, said: str) -> None:
    """Right or not, and the figures that say so."""
    outcome = judged_run("mask", prediction, mask_figures(2.0, 0.4, 4.0))
    assert outcome.answered() == [said, "In training, at step 100: 2.00 with the mask, 0.40 without."]
    assert outcome.to_see()[1] == ""
    page = lab_page.html(outcome)
    assert said in page
    assert "far below" in page


def test_a_text_does_not_contradict_its_figures() -> None:
    """A run that was too short says so, with a command that is long enough, and nothing that it did not measure."""
    outcome = judged_run("mask", "2", mask_figures(1.22, 1.41, 2.5))
    assert outcome.answered() == [
        "This run does not tell which answer is right. Long enough: make lab NAME=mask SECONDS=150"
    ]
    text, more = outcome.to_see()
    assert "far below" not in text
    assert "both losses of a model are nearly the same" in text
    assert more.endswith("A longer run: make lab NAME=mask SECONDS=150")
    assert "far below" not in lab_page.html(outcome)


RIGHT = {
    "cache": 1, "captions": 2, "costs": 2, "flash": 2, "generate": 2, "heads": 3, "maps": 3, "mask": 2, "positions": 3,
    "scale": 3, "sentiment": 2, "translate": 2,
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample([*RIGHT], 3))
def test_a_tenth_of_the_time_is_never_wrong(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It bears out the right answer, or none."""
    monkeypatch.chdir(tmp_path)
    assert RIGHT.keys() == LABS.keys()
    outcome = lab.run(LABS[name], bench(name, 0.1 * LABS[name].module.SECONDS))
    assert outcome.judged.answer in (0, RIGHT[name])
    assert len(outcome.answered()) in (1, 2)


@pytest.mark.parametrize("name", LABS)
def test_points_are_conditional_on_what_a_lab_shows(name: str) -> None:
    """Each condition is one that the lab judges, and the same in both languages."""
    source = (LABS[name].folder / "lab.py").read_text(encoding="utf-8")
    found = []
    for spoken in language.LANGUAGES:
        with language.use(spoken):
            to_see = LABS[name].lesson.to_see
        found.append(lab_log.CONDITION.findall(to_see))
        assert "<!--" not in judged.points(to_see)[0]
    assert found[0] == found[1] != []
    assert [condition for condition in found[0] if f'"{condition}": ' not in source] == []


@pytest.mark.thorough
def test_the_page_of_a_running_lab_has_what_is_measured_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And loads itself again, until the last one."""
    monkeypatch.setattr(lab, "SHOWN_EVERY", 0.3)  # seconds
    seen: list[str] = []

    def tell(done: float, what: str) -> None:
        page = tmp_path / "scale.html"
        seen.append(page.read_text(encoding="utf-8") if page.is_file() else "")

    held = bench("scale", 0.5)
    held._tell = tell
    outcome = lab.run(LABS["scale"], held, watch=partial(lab_page.write_so_far, folder=tmp_path))
    assert any('http-equiv="refresh"' in page and "<svg" in page for page in seen)
    assert 'http-equiv="refresh"' not in lab_page.write(outcome, tmp_path).read_text(encoding="utf-8")


def test_a_long_table_is_folded_and_pictures_are_drawn_for_a_phone_too() -> None:
    outcome = judged_run("mask", "", mask_figures(2.0, 0.4, 4.0))
    outcome.bench.results.extra["samples"] = {f"{number}": "text" for number in range(12)}
    page = lab_page.fragment(outcome)
    assert page.count("<details>") == 1
    widths = [float(width) for width in re.findall(r'<svg[^>]* width="([\d.]+)pt"', page)]
    assert len(widths) == 2
    assert widths[1] <= 350 < widths[0]
    assert "<html" not in page


def test_the_list_says_what_each_needs_and_which_were_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scale.json").write_text("{}")
    monkeypatch.setattr("sys.argv", ["grader", "lab", "--out", str(tmp_path), "--lang", "en"])
    assert command_line.main() == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    assert re.search(r" 3 +20 s +✓ done", lines["scale"])
    assert re.search(r" 16, 17, 18 +60 s\s*$", lines["positions"])


def test_texts(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("어떤 글", encoding="utf-8")
    assert lab_command.text_of(str(file)) == "어떤 글"
    assert lab_command.text_of("some words") == "some words"
    assert lab_command.text_of(None) is None
    file.write_bytes(b"\xff\xfe\x00")
    for words in ("he or she", "and/or", "1/2"):
        assert lab_command.text_of(words) == words
    for wrong in (str(file), str(tmp_path / "b.txt"), str(tmp_path / "nothing"), str(tmp_path), "", " "):
        with pytest.raises(parts.Stop, match="Type: TEXT="):
            lab_command.text_of(wrong)


def test_lessons_markdown_is_no_html() -> None:
    assert "<script>" not in formatted("a <script>alert(1)</script> **b**")


def test_a_heat_map_has_the_colours_of_weights() -> None:
    """Those that lessons and reports have: so much of the same colour, and nothing for 0."""
    with lab_plot.drawing(lab_plot.NARROW) as drawing:
        lab_plot.shade(drawing.axes, [[1.0, 0.0], [0.5, math.e / 1000]], largest=1.0)
    assert lab_plot.SERIES[0] not in drawing.svg
    assert drawing.svg.count("var(--series-1)") == 2  # 0, and what is as little, have none
    assert {float(part) for part in re.findall(r"opacity: ([\d.]+)", drawing.svg)} >= {round(0.5**heat_map.GAMMA, 6)}


# --- encoder, decoder and images ---


@pytest.mark.thorough
@pytest.mark.parametrize("own", [False, True])
def test_translate_learns_what_words_in_place_cannot(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the learner's steps and with the lab's own parts; the trial's days are in no date that is trained on."""
    module = LABS["translate"].module
    monkeypatch.setattr(module, "TRIALS", 2)
    held = bench("translate", 1000.0, own=own)
    module.measure(held, most_steps=12)
    losses = [row["loss"] for row in held.results.rows]
    assert losses[-1] < losses[0]
    assert held.results.extra["in_place"] == {module.TO_KOREAN: 0.0, module.TO_ENGLISH: 0.0}
    for way in (module.TO_KOREAN, module.TO_ENGLISH):
        source, target, weights = held.results.extra[f"alignment {way}"]
        assert weights.shape == (len(target), len(source))
        torch.testing.assert_close(weights.sum(1), torch.ones(len(target)))
    days = module.Days(1)
    assert not set(days.apart) & {(date.month, date.day) for date in days.draw(500)}
    assert all("<svg" in picture.svg for picture in module.pictures(held.results))


def test_dates_are_written_as_people_write_them() -> None:
    module = LABS["translate"].module
    assert " ".join(module.Date(1987, 10, 21).english) == "the twenty first of October 1 9 8 7"
    assert " ".join(module.Date(1987, 10, 30).english) == "the thirtieth of October 1 9 8 7"
    assert " ".join(module.Date(1904, 3, 9).korean) == "1 9 0 4 년 3 월 9 일"


@pytest.mark.thorough
@pytest.mark.parametrize(("spoken", "own"), [("en", False), ("ko", True)])
def test_sentiment_learns_and_counting_words_cannot(spoken: str, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = LABS["sentiment"].module
    monkeypatch.setattr(module, "TRIALS", 2)
    with language.use(spoken):
        held = bench("sentiment", 1000.0, own=own)
        module.measure(held, most_steps=20)
        (first, bad, *_model), (second, good, *_rest) = held.results.extra["twins"]
        assert sorted(first) == sorted(second) or spoken == "ko"
        assert (bad, good) == (0, 2)
        assert {row["kind"] for row in held.results.rows} == {module.NONE, module.ONE, module.TWO, module.APART}
        assert all(row["counting"] < 0.75 for row in held.results.where(kind=module.ONE))
        assert held.results.extra["map"][1].sum(-1).allclose(torch.ones(1))
        assert all("<svg" in picture.svg for picture in module.pictures(held.results))


@pytest.mark.thorough
@pytest.mark.parametrize(("spoken", "own"), [("en", False), ("ko", True)])
def test_captions_learns_and_copying_cannot(spoken: str, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = LABS["captions"].module
    monkeypatch.setattr(module, "TRIALS", 2)
    with language.use(spoken):
        held = bench("captions", 1000.0, own=own)
        module.measure(held, most_steps=20)
        losses = [row["loss"] for row in held.results.rows]
        assert losses[-1] < losses[0]
        assert held.results.extra["nearest"][module.APART] == 0.0
        _shown, caption, weights = held.results.extra["looks"]
        assert weights.shape == (len(caption), 4, 4)
        assert all("<svg" in picture.svg for picture in module.pictures(held.results))
    assert not any(shape.is_apart for one in module.Drawings(1).draw(300) for shape in one.shapes)


def test_a_learners_file_is_imported_as_where_it_is_graded(tmp_path: Path) -> None:
    """By its bare name too, without the lines that raise, with the files next to it, and what it sets for all code is
    taken back."""
    (tmp_path / "step01_scores.py").write_text(
        "import torch\ntorch.set_default_dtype(torch.float64)\none = 1\n", "utf-8"
    )
    text = (
        "import nothing_like_it\nfrom step01_scores import one\nimport exercises.step01_scores as same\n"
        "from helpers import more\ntwo = one + more\n"
    )
    (tmp_path / "helpers.py").write_text("more = 1\n", encoding="utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit\n", encoding="utf-8")
    (tmp_path / "step02_softmax.py").write_text(text + "raise SystemExit\n", encoding="utf-8")
    module = parts.learners(tmp_path, "step02_softmax", ("two",))
    assert (module.two, module.same.one, torch.get_default_dtype()) == (2, 1, torch.float32)
    with pytest.raises(parts.Stop, match=r"line 1, in <module>: ModuleNotFoundError: .*nothing_like_it"):
        parts.learners(tmp_path, "step02_softmax", ("three",))
    other = tmp_path / "other"
    (other / "step03_attention.py").mkdir(parents=True)  # a folder, which is no step
    (other / "step02_softmax.py").write_text("two = 3\n", encoding="utf-8")
    assert parts.learners(other, "step02_softmax").two == 3
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("helpers")
