"""The capstone: training that resumes bit for bit and beats the bigram, writing token by token, GPT-2's weights."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file

from grader.base import language
from grader.cli import main as command_line
from grader.labs import parts
from solutions.capstone.lab_common import model, pieces, programs, stories, training
from solutions.capstone.lab_gpt2 import gpt2
from solutions.capstone.lab_train import train
from solutions.capstone.lab_writing import generate

SMALL = {"block_size": 24, "n_layer": 2, "n_head": 2, "n_embd": 32, "batch_size": 8}


@pytest.fixture
def text() -> str:
    return stories.text("en", 150)


def begun(text: str, folder: Path, seed: int = 1) -> train.Training:
    words = pieces.learn(text)
    found = parts.gather(train.NEEDS, folder / "nowhere", "kit", lambda steps: {})
    shape = training.Shape(len(words.tokens), **SMALL)
    return train.prepare(words, text, found, folder, seed, "cpu", shape)


def run(*words: str) -> int:
    return command_line.run(list(words))


# --- text ---


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_stories_are_the_same_every_time_and_pieces_are_whole(spoken: str) -> None:
    told = stories.text(spoken, 50)
    assert told == stories.text(spoken, 50)
    words = pieces.learn(told, 60)
    assert words.decode(words.encode(told)) == told
    assert len(words.tokens) == len(set(words.tokens))
    assert words.encode("뷁" + told[:5]) == words.encode(told[:5])
    assert words.unknown("뷁" + told[:5]) == ["뷁"]


def test_pieces_by_hand() -> None:
    """`ab` comes five times and is learned first; then ` ` with `ab`."""
    words = pieces.learn("ab ab ab ab ab", 2)
    assert words.tokens == [" ", "a", "b", "ab", " ab"]
    assert words.encode("ab abb") == [3, 4, 2]


@pytest.mark.parametrize("spoken", language.LANGUAGES)
def test_bytes_read_any_text(spoken: str) -> None:
    told = stories.text(spoken, 50)
    words = pieces.learn_bytes(told, 60)
    for text in (told, "안녕, Mina 😀\n\t€", "\ud800"):
        assert words.decode(words.encode(text)) == text.encode("utf-8", "replace").decode()
        assert words.unknown(text) == []
    assert len(words.tokens) == 256 + 60
    assert words.spelled(words.encode("é")[0]) == "\ufffdC3"
    again = pieces.read({"pieces": words.tokens, "bytes": True})
    assert again.encode(told) == words.encode(told)


def test_a_character_is_told_when_it_is_whole() -> None:
    words = pieces.learn_bytes("a", 0)
    ids = words.encode("안녕")
    told = list(generate.spelled(words.decode, ids[:2], ids[2:]))
    assert told == ["안", "", "", "녕"]


@pytest.mark.thorough
def test_the_kits_weights_are_gone_on_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text like the stories has a low loss from the first step; what the kit has no token for is named."""
    own = "Ada had a brown shoe. Ada put the shoe in the box. Otto asked Ada: where is the shoe? €\n" * 40
    words = ("train", "--text", own, "--steps", "10", "--out", str(tmp_path), "--model", "kit")
    assert run(*words, "--from", "kit") == 0
    assert "no token for them: €" in capsys.readouterr().out
    _tensors, kept = training.read(tmp_path / "checkpoint.safetensors")
    assert kept["progress"]["curve"][-1][2] < 1.5
    for more in (("--resume", "--from", "kit"), ("--bytes", "--from", "kit"), ("--resume", "--bytes")):
        with pytest.raises(command_line.BadInput, match="Type: make train"):
            run(*words, *more)
    assert run(*words, "--bytes") == 0
    _tensors, kept = training.read(tmp_path / "checkpoint.safetensors")
    assert kept["bytes"] and kept["pieces"][:256] == [chr(byte) for byte in range(256)]
    assert run(*words, "--resume") == 0


def test_korean_particles_fit() -> None:
    told = stories.text("ko", 200)
    assert "공을" in told
    assert "공를" not in told
    assert "열쇠를" in told
    assert "열쇠을" not in told


# --- training ---


def test_bigram_by_hand() -> None:
    """After 0 comes 1, three times of three; the imagined pair is spread as the tokens are."""
    ids = torch.tensor([0, 1, 0, 1, 0, 1])
    alone = torch.tensor([4.0, 4.0]) / 8
    expected = -torch.log((3 + alone[1]) / (3 + 1.0))
    assert training.bigram_loss(ids, torch.tensor([0, 1]), 2) == pytest.approx(float(expected))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_falls_below_the_bigram(seed: int, text: str, tmp_path: Path) -> None:
    """The story is there to be remembered; 250 steps of a tiny model are enough."""
    trained = begun(text, tmp_path, seed)
    for _step in range(250):
        trained.run.advance()
    assert trained.run.validate() < trained.bigram - 0.1


@pytest.mark.thorough
def test_resumed_is_bit_for_bit_what_it_would_have_been(text: str, tmp_path: Path) -> None:
    whole, first = begun(text, tmp_path / "a"), begun(text, tmp_path / "b")
    expected = [whole.run.advance() for _step in range(60)]
    got = [first.run.advance() for _step in range(25)]
    first.save()
    second = begun(text, tmp_path / "b")
    second.run.resume(second.checkpoint)
    got += [second.run.advance() for _step in range(35)]
    assert got == expected
    for one, other in zip(whole.run.model.parameters(), second.run.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_ctrl_c_keeps_everything(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = begun(text, tmp_path)
    advance, steps = trained.run.advance, iter(range(30))

    def interrupted() -> float:
        if next(steps) == 20:
            raise KeyboardInterrupt
        return advance()

    monkeypatch.setattr(trained.run, "advance", interrupted)
    assert not train.train(trained, 1000.0, None, Console(file=io.StringIO()))
    assert training.read(trained.checkpoint)[1]["progress"]["step"] == 20
    page = trained.write_page().read_text(encoding="utf-8")
    assert "bigram" in page
    assert "<script" not in page


def test_a_terminal_shows_the_curve(text: str, tmp_path: Path) -> None:
    trained = begun(text, tmp_path)
    shown = io.StringIO()
    assert train.train(trained, 1000.0, 12, Console(file=shown, force_terminal=True, width=100))
    assert "⣿" in shown.getvalue()
    assert "step 10" in shown.getvalue()


@pytest.mark.thorough
def test_the_command_trains_resumes_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
    assert run("train", "--model", "kit", "--text", "mine.txt", "--steps", "3") == 0
    with monkeypatch.context() as without:  # it goes on with the same text, though it is not said again
        without.delattr(stories, "text")
        assert run("train", "--model", "kit", "--steps", "2", "--resume") == 0
    assert training.read(programs.CHECKPOINT)[1]["progress"]["step"] == 5
    assert "make train RESUME=1" in " ".join(capsys.readouterr().out.split())
    assert run("generate", "--model", "kit", "--tokens", "5") == 0
    assert "which you trained" in capsys.readouterr().out
    with pytest.raises(command_line.BadInput, match="too short to learn from"):
        run("train", "--model", "kit", "--text", "too short")
    assert training.read(programs.CHECKPOINT)[1]["progress"]["step"] == 5  # as it was, after a refusal
    assert run("train", "--model", "kit", "--text", "mine.txt", "--steps", "1") == 0
    before = programs.CHECKPOINT.with_name("before-checkpoint.safetensors")
    assert training.read(before)[1]["progress"]["step"] == 5
    assert str(before) in capsys.readouterr().err
    programs.CHECKPOINT.write_bytes(b"damaged")
    with pytest.raises(command_line.BadInput, match="is not a checkpoint"):
        run("generate", "--model", "kit")
    with pytest.raises(command_line.BadInput, match="can't be gone on from"):
        run("train", "--model", "kit", "--text", "mine.txt", "--resume")


# --- writing ---


@pytest.mark.parametrize(("spoken", "prompt", "wanted"), [
    ("en", "Theo put the red kite in the box. They looked in the", "box"),
    ("ko", "소라는 빨간 연을 상자에 넣었습니다. 두 사람이", "상자"),
])  # fmt: skip
def test_shipped_checkpoints_write_on_day_one(
    spoken: str,
    prompt: str,
    wanted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are small, hold whole syllables, beat the bigram, and remember where the thing was put."""
    monkeypatch.chdir(tmp_path)
    file = programs.shipped(spoken)
    assert file.stat().st_size < 750_000
    kept = training.read(file)[1]
    assert kept["validation"] < kept["bigram"] - 0.5
    with language.use(spoken):
        assert run("generate", "--model", "kit", "--text", prompt, "--tokens", "6", "--temperature", "0") == 0
    written = "".join(capsys.readouterr().out.split("\n")).split(prompt)[-1]
    assert wanted in written
    assert "\ufffd" not in written


def test_unknown_letters_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("generate", "--model", "kit", "--text", "Mina €", "--tokens", "3") == 0
    assert "left out: €" in capsys.readouterr().out
    with pytest.raises(command_line.BadInput, match="It knows no character"):
        run("generate", "--model", "kit", "--text", "€", "--tokens", "3")


# --- GPT-2 ---


@pytest.fixture
def tiny_gpt2(tmp_path: Path) -> Path:
    """A random checkpoint as Hugging Face's library writes it, and a vocabulary of bytes and two merges."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "gpt2"
    torch.manual_seed(5)
    config = transformers.GPT2Config(vocab_size=259, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokens = {character: byte for byte, character in enumerate(gpt2._printable())}
    tokens |= {"at": 256, "ten": 257, "<|endoftext|>": 258}
    (folder / gpt2.TOKENS).write_text(json.dumps(tokens), encoding="utf-8")
    return folder


def test_gpt2s_weights_give_hugging_faces_logits(tiny_gpt2: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tiny_gpt2).eval()
    ids = torch.randint(258, (2, 20))
    for mine in (False, True):
        needs = parts.gather(programs.GPT_NEEDS, Path("nowhere"), "kit", lambda steps: {})
        ours = (model if mine else needs["step12_gpt"]).GPT(*gpt2.read_sizes(tiny_gpt2)).eval()
        gpt2.load(ours, gpt2.read_weights(tiny_gpt2))
        torch.testing.assert_close(ours(ids)[0], theirs(ids).logits, atol=1e-4, rtol=1e-4)


def test_gpt2_goes_on_with_a_text(tiny_gpt2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("gpt2", "--model", "kit", "--folder", str(tiny_gpt2), "--text", "Attention é", "--tokens", "4") == 0
    assert "Attention é" in capsys.readouterr().out


def test_gpt2_in_hugging_faces_cache(tiny_gpt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = tmp_path / "hub" / gpt2.NAMES[0] / "snapshots"
    snapshots.mkdir(parents=True)
    tiny_gpt2.rename(snapshots / "abc")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert gpt2.found(None) == snapshots / "abc"


def test_gpt2_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert run("gpt2") == 2
    assert "hf download openai-community/gpt2" in capsys.readouterr().out
    with pytest.raises(command_line.BadInput, match="There is no model.safetensors"):
        run("gpt2", "--folder", str(tmp_path))


def test_gpt2_that_is_none(tiny_gpt2: Path) -> None:
    (tiny_gpt2 / gpt2.WEIGHTS).write_bytes(b"nothing")
    with pytest.raises(command_line.BadInput, match="does not hold GPT-2"):
        run("gpt2", "--folder", str(tiny_gpt2))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n", "only a pointer of Git LFS"),
        (b"\n<!DOCTYPE html>\n<html></html>", "is a web page"),
        ((500).to_bytes(8, "little") + b'{"wte.weight":{"dtype":"F32"', "is cut off"),
    ],
)
def test_what_is_there_in_place_of_weights_is_said(data: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / gpt2.WEIGHTS).write_bytes(data)
    with pytest.raises(ValueError, match=says):
        gpt2.read_weights(tmp_path)


def test_another_model_is_no_gpt2(tmp_path: Path) -> None:
    """With an output layer of its own, or another activation, it would write nonsense."""
    weights = {"wte.weight": torch.ones(3, 2), "lm_head.weight": torch.ones(3, 2)}
    save_file(weights, tmp_path / gpt2.WEIGHTS)
    assert list(gpt2.read_weights(tmp_path)) == ["wte.weight"]
    save_file(weights | {"lm_head.weight": torch.zeros(3, 2)}, tmp_path / gpt2.WEIGHTS)
    with pytest.raises(ValueError, match="weights of its own"):
        gpt2.read_weights(tmp_path)
    sizes = {"vocab_size": 3, "n_positions": 4, "n_layer": 1, "n_head": 1, "n_embd": 2}
    for activation, known in (("gelu_new", True), ("relu", False)):
        (tmp_path / gpt2.SIZES).write_text(json.dumps(sizes | {"activation_function": activation}))
        if known:
            assert gpt2.read_sizes(tmp_path) == (3, 4, 1, 1, 2)
        else:
            with pytest.raises(ValueError, match="its activation is relu"):
                gpt2.read_sizes(tmp_path)


def test_tokens_are_bytes(tiny_gpt2: Path) -> None:
    encoding = gpt2.read_tokens(tiny_gpt2)
    for text in ("attend 어텐션 é\n", "  two  spaces"):
        assert encoding.decode(encoding.encode(text)) == text
    assert encoding.encode("at") == [256]


def test_options_are_bounded() -> None:
    with pytest.raises(command_line.Misunderstood, match="must be at least 1"):
        run("generate", "--tokens", "0")
