"""`make bench-explore`: from a typed text to what is seen of it, as a ratio to a plain forward pass of the same run.

64 tokens with the checkpoint of the kit, and 512 with one of the same size that has so many places. Each round times
the plain pass and the answers in turn, so that a slow minute of the machine slows both.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from starlette.responses import HTMLResponse
from starlette.routing import Route

from grader.report import page as report_page
from grader.web import explore
from grader.web.explore_process import GPTProcess
from grader.web.server import TEMPLATES, PageServer
from solutions.capstone.lab_common import model, pieces, programs, stories, training
from tests import browser

ROUNDS = 21
TYPED = """(async () => {
  const [root, text] = ['#explore', '#look-text'].map((one) => document.querySelector(one));
  delete root.dataset.milliseconds;
  text.value = TEXT;
  text.dispatchEvent(new Event('input'));
  while (!root.dataset.milliseconds) await new Promise((then) => setTimeout(then, 5));
  return Number(root.dataset.milliseconds);
})()"""
# Another head is chosen, from the click to the flow through it.
CLICKED = """(async () => {
  const said = () => document.querySelector('.look-flow h2').textContent;
  const [before, started] = [said(), performance.now()];
  [...document.querySelectorAll('.look-heads button')].find((one) => one.ariaPressed === 'false').click();
  while (said() === before) await new Promise((then) => setTimeout(then, 1));
  return performance.now() - started;
})()"""


def milliseconds(once: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    once()
    return 1000 * (time.perf_counter() - start)


def long_checkpoint() -> None:
    """A checkpoint of the kit's size with 512 places, as `make train` writes it."""
    about = training.read(programs.shipped("en"))[1]
    words = pieces.Pieces(about["pieces"])
    shape = training.Shape(len(words.tokens), block_size=512)
    run = training.Run(shape, training.ids_of(words, stories.text("en", 200)))
    run.save(programs.CHECKPOINT, {"pieces": words.tokens, "seed": 1, "start": "Mina"})


def measure(gpt: GPTProcess, tab: browser.Tab | None, name: str, count: int) -> None:
    """Prints the medians of one length."""
    tensors, about = training.read(programs.CHECKPOINT if name == "trained" else programs.shipped("en"))
    words, shape = pieces.Pieces(about["pieces"]), training.Shape(**about["shape"])
    plain = model.GPT(*shape.sizes).eval()
    training.load_parameters(plain, tensors)
    ids = words.encode(stories.text("en", 40))
    passes, answers, seen, clicks = [], [], [], []
    for place in range(ROUNDS):
        part = ids[place : place + count]
        view = {"text": words.decode(part), "weights": name}
        with torch.no_grad():
            passes.append(milliseconds(lambda part=part: plain(torch.tensor([part]))))  # type: ignore[misc]
        answers.append(milliseconds(lambda view=view: answered(gpt, view)))  # type: ignore[misc]
        if tab:
            seen.append(tab.value(TYPED.replace("TEXT", json.dumps(view["text"] + " "))))
            tab.until("!!document.querySelector('.look-flow h2')")
            clicks.append(tab.value(CLICKED))
    passed, asked, drawn = (statistics.median(times) for times in (passes[1:], answers[1:], seen[1:] or [0.0]))
    print(
        f"{count} tokens: a plain pass {passed:.1f} ms; all that is asked {asked:.1f} ms, {asked / passed:.1f} passes"
    )
    if tab:
        clicked = statistics.median(clicks[1:])
        print(f"{count} tokens: in the browser, until it is drawn {drawn:.0f} ms; after a click {clicked:.0f} ms")


def answered(gpt: GPTProcess, view: dict[str, object]) -> None:
    """What the page asks after a key."""
    assert gpt.ask({"ask": "look", "view": view})[1]
    assert gpt.ask({"ask": "layer", "view": view, "layer": 3})[1]


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        long_checkpoint()
        gpt = GPTProcess(Path(folder), frozenset)
        shell = report_page.environment(TEMPLATES).get_template("shell.html.j2")
        made = shell.render(language="en", data='{"language": "en", "texts": {}}')
        server = PageServer([Route("/explore", lambda _request: HTMLResponse(made)), *explore.routes(gpt)], 0)
        server.events.tell("state", {"score": "0", "most": "0", "tracks": []}, stays=True)
        try:
            for name, count in (("kit-en", 64), ("trained", 512)):
                if browser.BROWSER is None:
                    measure(gpt, None, name, count)
                    continue
                place = f"{server.address('/explore')}%3Fweights={name}"
                with browser.Tab(place, Path(folder, name)) as tab:
                    tab.until("!!document.querySelector('#explore')?.dataset.milliseconds")
                    measure(gpt, tab, name, count)
        finally:
            gpt.close()
            server.close()


if __name__ == "__main__":
    main()
