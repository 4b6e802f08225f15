"""The process that a page asks about a GPT: a line of JSON in, a line of JSON and some bytes out.

The learner's code runs here and not in the page's process, so that neither a loop without an end nor a change of a file
concerns the page: it ends this process and starts another one. What the code prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch

from grader.base import language
from grader.calls import devices
from grader.labs import parts

from . import flow
from .engine import Engine, View


def answer(engine: Engine, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The answer to one question. Raises Stop, msgspec.ValidationError."""
    if asked["ask"] == "about":
        return engine.about(), b""
    view = msgspec.convert(asked["view"], View)
    if asked["ask"] == "look":
        return engine.looked(view)
    if asked["ask"] == "each":
        return engine.each(view, asked["layer"])
    if asked["ask"] == "flow":
        return engine.flow(view, asked["layer"], asked["head"], asked["index"], asked.get("wanted"))
    if asked["ask"] == "sum":
        at = asked["layer"], asked["head"], asked["index"]
        return {"lines": flow.summed(engine, view, at, asked["of"], asked["number"])}, b""
    if asked["ask"] == "layer":
        return engine.layer(view, asked["layer"])
    return engine.following(view, asked["ids"], asked["temperature"], asked["top_k"], asked["top_p"])


def main(folder: str, right: str, spoken: str, device: str) -> None:
    """Answers until its input ends. `right` has the steps of the learner's that are right, with commas between;
    `device` is as torch names it, or `all`."""
    torch.set_num_threads(1)  # most models are so small that a second thread costs more than it saves
    with os.fdopen(os.dup(1), "wb") as out, language.use(spoken):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        engine: Engine | None = None

        def tell(stage: str, done: float) -> None:
            out.write(json.dumps({"stage": stage, "done": done}).encode() + b"\n")
            out.flush()

        for line in sys.stdin.buffer:
            body = b""
            try:
                engine = engine or Engine(Path(folder), frozenset(right.split(",")), devices.single(device), tell)
                header, body = answer(engine, json.loads(line))
            except parts.Stop as stop:
                header = {"error": str(stop)}
            except Exception as error:  # the page says it, and goes on
                header = {"error": f"{type(error).__name__}: {error}"}
            out.write(json.dumps(header | {"bytes": len(body)}).encode() + b"\n" + body)
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
