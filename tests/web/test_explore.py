"""Looking inside a GPT: what is read of a learner's modules, what each change changes, and the process that answers."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from grader.base import paths
from grader.labs import parts
from grader.web import explore
from grader.web.explore_process import GPTProcess, GPTSilent
from grader.web.texts import texts
from solutions.capstone.lab_common import programs
from solutions.capstone.lab_explore import code, flow, weights
from solutions.capstone.lab_explore.engine import Engine, View
from solutions.capstone.lab_gpt2 import gpt2
from solutions.core.lab_maps.lab import attention_maps
from tests.hostile import eventually
from tests.labs.test_labs import solved
from tests.solutions.test_capstone import tiny_gpt2  # noqa: F401  # a fixture

ALL = frozenset(code.core_steps())
PLAIN = View(weights.SAMPLES["kit-en"][0])


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Path("nowhere"), frozenset())


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder in which all twelve steps are solved."""
    return solved(tmp_path / "mine", *range(1, 13))


def numbers(engine: Engine, view: View) -> torch.Tensor:
    return engine.look(view).logits


# --- what is read ---


@pytest.mark.thorough
def test_the_maps_are_those_of_the_lab(engine: Engine) -> None:
    look = engine.look(PLAIN)
    model = engine.model(PLAIN)
    expected = attention_maps(model.eval(), torch.tensor([look.ids]), look.maps.shape[1])
    torch.testing.assert_close(look.maps.float(), expected, atol=1e-3, rtol=0)
    assert look.agrees


def test_the_answer_says_what_the_model_says(engine: Engine) -> None:
    """Logits in falling order, a loss for each token but the first, a guess for each layer, the last the model's."""
    header, body = engine.looked(PLAIN)
    look = engine.look(PLAIN)
    area = look.maps.shape[0] * look.maps.shape[1] * header["side"] ** 2
    logits = torch.frombuffer(bytearray(body[:-area]), dtype=torch.float32)
    torch.testing.assert_close(logits, look.logits[-1].sort(descending=True).values)
    assert "".join(header["tokens"]) == PLAIN.text
    assert len(header["loss"]) == len(header["tokens"]) - 1
    assert header["guesses"][-1][0] == header["next"][0] == " box"
    assert header["expected"][-1][0][0] == " box"
    layer, layer_body = engine.layer(PLAIN, 2)
    assert len(layer_body) == 2 * torch.Size(layer["shape"]).numel()


def test_a_long_text_shows_its_end_and_says_so(engine: Engine) -> None:
    header, _body = engine.looked(View(PLAIN.text * 5 + "€"))
    assert (len(header["tokens"]), header["unknown"]) == (96, ["€"])
    assert header["cut"] > 0


def test_characters_without_a_token_are_counted(engine: Engine) -> None:
    header, _body = engine.looked(View("안녕 Mina 안녕"))
    assert (header["lost"], header["typed"], header["unknown"]) == (4, 10, ["녕", "안"])
    with pytest.raises(parts.Stop, match="no character of this text"):
        engine.looked(View("안녕"))


@pytest.mark.parametrize("name", ["kit-en", "kit-ko"])
def test_positions_matter_for_the_text_shown_first(engine: Engine, name: str) -> None:
    """The ball was in two places: without positions the loss rises, and the later place isn't found."""
    view = View(weights.SAMPLES[name][0], name)
    looks = [engine.looked(replace_in(view, positions=positions))[0] for positions in (True, False)]
    losses = [sum(look["loss"]) / len(look["loss"]) for look in looks]
    assert losses[1] > losses[0] + 0.1
    assert looks[0]["next"][0].strip() in ("box", "상자에") and looks[1]["next"][0] != looks[0]["next"][0]
    assert all(engine.looked(View(sample, name))[0]["lost"] == 0 for sample in weights.SAMPLES[name])


# --- the path of a token ---

VIEWS = [
    PLAIN, View(PLAIN.text, mask=False), View(PLAIN.text, positions=False), View(PLAIN.text, flash=True),
    View(PLAIN.text, silenced=((3, 2),)), View(PLAIN.text, dropout=0.2), View(weights.SAMPLES["kit-ko"][0], "kit-ko"),
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_the_parts_of_a_logit_add_up_to_it(engine: Engine, view: View) -> None:
    look = engine.look(view)
    for index in (0, 7, len(look.ids) - 1):
        found = engine.flow(view, 2, 1, index)[0]
        parts = found["parts"]
        total = parts["embedding"] + parts["last"]
        total += sum(sum(one["heads"]) + one["bias"] + one["mlp"] for one in parts["layers"])
        logit = look.logits[index]
        assert total == pytest.approx(float(logit[found["id"]] - logit.mean()), abs=0.02)
        assert parts["agrees"] and found["id"] == int(logit.argmax())


def test_the_boxes_hold_the_numbers_of_the_look(engine: Engine) -> None:
    look = engine.look(PLAIN)
    index = len(look.ids) - 1
    boxes = {box["name"]: box for box in engine.flow(PLAIN, 3, 2, index)[0]["boxes"]}
    expected = look.maps[3, 2, index].tolist()
    assert boxes["weights"]["values"] == pytest.approx(expected, abs=2e-3)
    stream = torch.tensor(boxes["stream"]["values"])
    both = torch.tensor(boxes["attention"]["values"]), torch.tensor(boxes["MLP"]["values"])
    torch.testing.assert_close(stream + both[0], torch.tensor(boxes["added"]["values"]), atol=2e-3, rtol=0)
    torch.testing.assert_close(stream + both[0] + both[1], torch.tensor(boxes["output"]["values"]), atol=2e-3, rtol=0)
    torch.testing.assert_close(stream, look.streams[3][0, index], atol=1e-3, rtol=0)
    assert {box["step"] for box in boxes.values()} == {1, 2, 3, 4, 7, 9, 11, 12}


@pytest.mark.thorough
def test_each_box_says_whose_code_it_is(written: Path) -> None:
    mixed = Engine(written, ALL - {"step02_softmax"})
    boxes = {box["name"]: box["whose"] for box in mixed.flow(PLAIN, 0, 0, 5)[0]["boxes"]}
    assert (boxes["weights"], boxes["scores"], boxes["logits"]) == ("reference", "yours", "yours")
    with pytest.raises(parts.Stop, match="no such layer"):
        mixed.flow(PLAIN, 9, 0, 5)


# --- what is changed ---


def test_without_the_mask_later_tokens_are_seen(engine: Engine) -> None:
    assert (engine.look(PLAIN).maps.triu(1) == 0).all()
    without = engine.look(replace_in(PLAIN, mask=False)).maps
    assert (without.triu(1) > 0).any()
    torch.testing.assert_close(without.float().sum(-1), torch.ones(without.shape[:-1]), atol=2e-3, rtol=0)


def test_flash_gives_the_naive_numbers(engine: Engine) -> None:
    flash = replace_in(PLAIN, flash=True)
    torch.testing.assert_close(numbers(engine, flash), numbers(engine, PLAIN), atol=1e-4, rtol=1e-4)
    calls: list[int] = []
    own = engine.codes["yours"]
    engine.codes["yours"] = replace(own, flash_attention=counted(own.flash_attention, calls))
    try:
        engine.looked(replace_in(flash, seed=2))
    finally:
        engine.codes["yours"] = own
    assert len(calls) == 4


def counted(function: Callable[..., object] | None, calls: list[int]) -> Callable[..., object]:
    def counting(*arguments: object, **named: object) -> object:
        calls.append(1)
        assert function is not None
        return function(*arguments, **named)

    return counting


def test_a_silenced_head_and_no_positions_leave_the_model_as_it_was(engine: Engine) -> None:
    """A head's columns of `c_proj` say all that it says; its parameters come back."""
    before = numbers(engine, PLAIN).clone()
    kept = {name: value.clone() for name, value in engine.model(PLAIN).named_parameters()}
    silenced = numbers(engine, replace_in(PLAIN, silenced=((3, 2),)))
    unplaced = numbers(engine, replace_in(PLAIN, positions=False))
    for name, value in engine.model(PLAIN).named_parameters():
        assert torch.equal(value, kept[name]), name
    assert (silenced - before).abs().max() > 1
    assert (unplaced - before).abs().max() > 1
    model = engine.model(PLAIN)
    with torch.no_grad():
        model.get_parameter("h.3.attn.c_proj.weight")[:, 32:48] = 0
        expected = model(torch.tensor([engine.look(PLAIN).ids]))[0][0]
        model.get_parameter("h.3.attn.c_proj.weight").copy_(kept["h.3.attn.c_proj.weight"])
    torch.testing.assert_close(silenced, expected, atol=1e-4, rtol=1e-4)


def test_each_head_in_turn_finds_the_one_that_counts(engine: Engine) -> None:
    effects = [effect for layer in range(4) for effect in engine.each(PLAIN, layer)[0]["effects"]]
    assert len(effects) == 16
    assert min(effects) == effects[4 * 3 + 2] < -0.5


def test_dropout_drops_and_the_seed_repeats_it(engine: Engine) -> None:
    dropping = replace_in(PLAIN, dropout=0.5)
    maps = engine.look(dropping).maps
    causal = torch.ones(maps.shape[-2:], dtype=torch.bool).tril()
    assert 0.4 < float((maps[..., causal] == 0).float().mean()) < 0.6
    assert not torch.equal(numbers(engine, dropping), numbers(engine, replace_in(dropping, seed=2)))
    first = numbers(engine, dropping).clone()
    engine._looks.clear()
    assert torch.equal(first, numbers(engine, dropping))


def test_before_training_it_knows_nothing(engine: Engine) -> None:
    knows, guesses = (sum(engine.looked(replace_in(PLAIN, trained=one))[0]["loss"]) for one in (True, False))
    assert guesses > 5 * knows


def test_top_p_cuts_what_generate_draws_from(engine: Engine) -> None:
    """With a small top-p the likeliest token is drawn, however high the temperature."""
    vague = View("Mina")
    likeliest = int(engine.look(vague).logits[-1].argmax())
    drawn = [
        {engine.following(replace_in(vague, seed=seed), [], 5.0, 0, top_p)[0]["ids"][-1] for seed in range(12)}
        for top_p in (1e-6, 1.0)
    ]
    assert drawn[0] == {likeliest}
    assert len(drawn[1]) > 6


def replace_in(view: View, **changes: object) -> View:
    return View(**{name: getattr(view, name) for name in view.__struct_fields__} | changes)


# --- whose code ---


def test_the_learners_steps_answer_and_the_reference_for_the_others(written: Path) -> None:
    wrong = "step04_causal_mask"
    mixed = Engine(written, ALL - {wrong})
    whose = mixed.about()["whose"]
    assert {step for step, whom in whose.items() if whom == "yours"} == ALL - {wrong}
    assert whose[wrong] == "reference"
    assert mixed.codes["yours"].GPT.__module__ == "exercises.step12_gpt"
    assert mixed.look(PLAIN).agrees
    torch.testing.assert_close(numbers(mixed, PLAIN), numbers(mixed, replace_in(PLAIN, code="kit")))


@pytest.mark.thorough
def test_a_step_that_can_not_be_imported_is_said(written: Path) -> None:
    (written / "step10_flash.py").write_text("import nothing_like_it\n", encoding="utf-8")
    about = Engine(written, ALL).about()
    assert about["whose"]["step10_flash"] == "reference"
    assert "nothing_like_it" in about["faults"]["step10_flash"]


@pytest.mark.thorough
def test_a_copy_without_references_has_parts_of_its_own(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """They give the reference's numbers; there is no flash attention among them."""
    monkeypatch.setattr(code, "_reference", lambda step: None)
    bare = Engine(Path("nowhere"), frozenset())
    assert set(bare.about()["whose"].values()) == {"kit"}
    assert not bare.about()["flash"]
    for view in (PLAIN, replace_in(PLAIN, mask=False), replace_in(PLAIN, silenced=((3, 2),))):
        torch.testing.assert_close(numbers(bare, view), numbers(engine, view), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(bare.look(view).maps, engine.look(view).maps, atol=2e-3, rtol=0)


@pytest.mark.thorough
def test_attention_that_does_more_is_not_explained_away(written: Path) -> None:
    """Where the weights do not give what `attn` returned, that is said."""
    file = written / "step09_fused_qkv.py"
    source = file.read_text(encoding="utf-8")
    more = source.replace("output: Tensor = self.resid_dropout(", "output: Tensor = 1.5 * self.resid_dropout(")
    assert more != source
    file.write_text(more, encoding="utf-8")
    assert not Engine(written, ALL).look(PLAIN).agrees


@pytest.mark.thorough
def test_an_error_of_the_learners_names_its_line(written: Path) -> None:
    file = written / "step12_gpt.py"
    file.write_text(
        file.read_text(encoding="utf-8").replace("block_size = model", "block_size = modle"), encoding="utf-8"
    )
    with pytest.raises(parts.Stop, match=r"mine/step12_gpt.py, line \d+, in generate: NameError"):
        Engine(written, ALL).following(PLAIN, [], 1.0, 0, 1.0)


# --- which parameters ---


@pytest.mark.thorough
def test_gpt2s_weights_are_looked_into(
    tiny_gpt2: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A random one of two layers, as Hugging Face's library writes it; its tokens are bytes."""
    monkeypatch.setattr(gpt2, "found", lambda given: tiny_gpt2)
    told = Engine(Path("nowhere"), frozenset()).about()["weights"]
    assert next(one for one in told if one["name"] == "gpt2").items() >= {"block": 32, "layers": 2, "heads": 2}.items()
    view = View("attention", "gpt2")
    header, _body = (reading := Engine(Path("nowhere"), frozenset())).looked(view)
    assert (header["tokens"][0], "".join(header["tokens"])) == ("at", "attention")
    assert reading.look(view).agrees
    assert header["unknown"] == []
    path = reading.flow(view, 1, 1, 2)[0]
    assert len(path["boxes"]) == 19 and path["parts"]["agrees"]
    assert "exp(" in flow.summed(reading, view, (1, 1, 2), "weights", 1)[0]


@pytest.mark.thorough
def test_what_was_trained_comes_first_and_a_damaged_one_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    programs.CHECKPOINT.parent.mkdir(parents=True)
    programs.CHECKPOINT.write_bytes(programs.shipped("en").read_bytes())
    changing = Engine(Path("nowhere"), frozenset())
    assert changing.about()["weights"][0]["name"] == "trained"
    first = numbers(changing, replace_in(PLAIN, weights="trained"))
    torch.testing.assert_close(first, numbers(changing, PLAIN))
    programs.CHECKPOINT.write_bytes(b"damaged")
    about = changing.about()
    assert [one["name"] for one in about["weights"]] == ["kit-en", "kit-ko"]
    assert "make train" in about["faults"]["trained"]


# --- the process ---


def asked(process: GPTProcess, **more: object) -> dict[str, object]:
    return process.ask({"ask": "look", "view": {"text": "Mina had a red ball."} | more})[0]


@pytest.mark.thorough
def test_the_process_answers_and_starts_again_when_a_step_changes(written: Path) -> None:
    """What a learner's file prints is no answer."""
    file = written / "step03_attention.py"
    file.write_text("print('hello', flush=True)\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    process = GPTProcess(written, lambda: ALL)
    try:
        assert asked(process)["start"] == asked(process)["start"] == 1
        assert process.done == 1.0
        assert "error" in asked(process, text="")
        assert "error" in asked(process, weights="../../secret")
        file.write_text(file.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        assert asked(process)["start"] == 2
    finally:
        process.close()


@pytest.mark.thorough
def test_an_endless_loop_at_the_top_of_a_file_is_left_out(written: Path) -> None:
    file = written / "step03_attention.py"
    file.write_text(file.read_text(encoding="utf-8") + "\nwhile True:\n    pass\n", encoding="utf-8")
    assert Engine(written, ALL).about()["whose"]["step03_attention"] == "yours"


@pytest.mark.thorough
def test_an_endless_loop_is_ended(written: Path) -> None:
    file = written / "step11_gpt_block.py"
    right = file.read_text(encoding="utf-8")
    file.write_text(f"{right}\n\ndef gelu(x):\n    while True:\n        pass\n", encoding="utf-8")
    process = GPTProcess(written, lambda: ALL, seconds=6.0)
    try:
        with pytest.raises(GPTSilent, match="didn't answer within 6 s"):
            asked(process)
        file.write_text(right, encoding="utf-8")
        process.seconds = 60.0
        assert asked(process)["start"] == 2
    finally:
        process.close()


def test_to_close_waits_for_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of code that never gives one, too."""
    monkeypatch.setattr(paths, "program", lambda *_: [sys.executable, "-c", "import time; time.sleep(600)"])
    process = GPTProcess(Path(), frozenset)
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(asked, process)
        assert eventually(lambda: process._process is not None)
        process.close()
        with pytest.raises(GPTSilent, match="has ended"):
            answer.result(10)


@pytest.mark.thorough
def test_how_far_it_is_is_told(engine: Engine) -> None:
    told: list[tuple[str, float]] = []
    Engine(Path("nowhere"), frozenset(), tell=lambda *said: told.append(said)).look(PLAIN)
    assert told == [("code", 0.0), ("weights", 0.0), *(("compute", done) for done in (0.25, 0.5, 0.75, 1.0))]


def test_a_question_that_nobody_waits_for_is_not_computed() -> None:
    """While one is answered, a text is typed on: of the questions that wait then, only the last one's page listens."""
    computed: list[str] = []

    class Slow(GPTProcess):
        def ask(self, question: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
            computed.append(question["text"])
            return {}, b""

    class Typed:
        path_params: ClassVar = {"what": "look"}

        def __init__(self, text: str, *, is_gone: bool) -> None:
            self.text, self.is_gone = text, is_gone

        async def json(self) -> dict[str, str]:
            return {"text": self.text}

        async def is_disconnected(self) -> bool:
            return self.is_gone

    route = next(one for one in explore.routes(Slow(Path(), frozenset)) if one.path.endswith("{what}"))

    async def all_of() -> None:
        texts = ("M", True), ("Mi", True), ("Mina", False)
        await asyncio.gather(*(route.endpoint(Typed(text, is_gone=is_gone)) for text, is_gone in texts))

    asyncio.run(all_of())
    assert computed == ["Mina"]


# --- the sum behind a number ---


def test_a_number_says_its_sum(engine: Engine) -> None:
    """A score its products, a weight its share and its score, the context its weighted sum: as they are drawn."""
    view, at = PLAIN, (1, 2, 20)
    boxes = {box["name"]: box["values"] for box in engine.flow(view, *at)[0]["boxes"]}
    ends = {}
    for of, number in (("scores", 7), ("weights", 7), ("context", 3)):
        first = flow.summed(engine, view, at, of, number)[0]
        ends[of] = float(first.rpartition("= ")[2].replace("−", "-")), boxes[of][number]
        assert first.count("·" if of != "weights" else "exp(") > 2
    for said, drawn in ends.values():
        assert said == pytest.approx(drawn, rel=0.01, abs=1e-3)
    assert flow.summed(engine, view, at, "weights", 21)[0] == "exp(−∞) = 0"
    assert flow.summed(engine, view, at, "weights", 7)[1:] == flow.summed(engine, view, at, "scores", 7)


def test_a_dropped_weight_says_so(engine: Engine) -> None:
    view = View(PLAIN.text, dropout=0.5)
    row = engine.look(view).maps[0, 0, 20, :21].tolist()
    lost = next(number for number, weight in enumerate(row) if weight == 0)
    left = next(number for number, weight in enumerate(row) if weight > 0)
    assert flow.summed(engine, view, (0, 0, 20), "weights", lost)[1].endswith("· 0 = 0")
    assert "/ (1 − 0.5) = " in flow.summed(engine, view, (0, 0, 20), "weights", left)[1]


@pytest.mark.parametrize("number", [-1, 10_000])
@pytest.mark.parametrize("of", ["scores", "weights", "context"])
def test_there_is_no_such_number(engine: Engine, of: str, number: int) -> None:
    with pytest.raises(parts.Stop):
        flow.summed(engine, PLAIN, (0, 0, 3), of, number)
    with pytest.raises(parts.Stop):
        flow.summed(engine, PLAIN, (0, 99, 3), of, 0)


# --- what the page says ---


def test_every_sentence_of_the_modules_is_given_to_them() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (paths.ROOT / "grader/web/assets").glob("explore*.js")]
    said = {sentence for source in sources for sentence in re.findall(r'\bt\(\s*"([^"]+)"', source)}
    assert len(said) > 30
    assert said <= set(texts(explore.TEXTS))
    assert set(explore.TEXTS) <= said
    assert sum(source.count("\n") for source in sources) < 940  # of the page's 2,000
