"""Answers the explore tab, which looks inside the learner's GPT. `assets/explore.js` shows it."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from grader.base.language import N_
from grader.web.explore_process import GPTProcess, GPTSilent

MOST_WRITTEN = 400  # tokens of one stream

# English sentences that the modules `explore*.js` say.
TEXTS = (
    N_("Each row is a token that attends, each column a token attended to. Arrow keys move, + and − zoom."),
    N_("Ctrl with the wheel zooms too, and what is enlarged can be dragged."),
    N_("Another model: {name}"),
    N_("Attention's output"),
    N_("Clicking a head shows its path."),
    N_("Computing: {percent}"),
    N_("Context"),
    N_("Each box is a step: its name leads to the lesson, its number to your file. Blue is above 0, orange below."),
    N_("Expected here: {tokens}"),
    N_("Embedding"),
    N_("Heads"),
    N_("Heads merged"),
    N_("Key"),
    N_("Keep as a file"),
    N_("Kept as {file}"),
    N_("Last norm"),
    N_("Layer norm"),
    N_("Layer {layer}, head {head}"),
    N_("Logits"),
    N_("MLP"),
    N_("Mask"),
    N_("Position"),
    N_("Press a cell to see its sum."),
    N_("Press a number of the scores, the weights or the context to see its sum; arrow keys move."),
    N_("Query"),
    N_("Reading the parameters … {seconds} s"),
    N_("Reading your steps 1 to 12 … {seconds} s"),
    N_("Residual stream"),
    N_("Scores"),
    N_("Starting the process in which your GPT runs … {seconds} s"),
    N_("Stream plus attention"),
    N_("Stream after the layer"),
    N_("Texts to try"),
    N_("The model has no token for {lost} of the {typed} characters and leaves them out: {characters}"),
    N_("The parts do not add up to the logit here, so take them as an estimate."),
    N_("The path of {token} through layer {layer}, head {head}"),
    N_("To train one that reads any text, type: make train BYTES=1"),
    N_("Token"),
    N_("Value"),
    N_("Weights"),
    N_("What adds to {token}: its logit is {sum} above the mean of all tokens"),
    N_("What is drawn is about the rest alone."),
    N_(
        "Without positions the model still knows a little about order: under the causal mask the first token sees "
        "one key and the last one all of them."
    ),
    N_("The lab on positions measures how much."),
    N_("biases"),
    N_("first {count} of {all}"),
    N_("head {head}"),
    N_("layer {layer}"),
    N_("Step {number}"),
    N_("the kit's"),
    N_("the reference's"),
    N_("your code"),
    N_("Look inside your GPT"),
    N_("Loss on this text: {before} as it is, {after} with the change. Largest change in this head: {most}."),
    N_("Next token"),
    N_("Not passing yet, and this copy has no reference, so a simple part of the kit's own runs: steps {steps}."),
    N_("Not passing yet, so the reference's code runs: steps {steps}."),
    N_("Outline: the model's own probability. Filled: after temperature, top-k and top-p. Click a token to append it."),
    N_("Point at a token: arcs lead to what it attends to in this head."),
    N_("Silence each head in turn"),
    N_("Step 10 does not pass yet."),
    N_("Stop"),
    N_("The guess after each layer"),
    N_("The model sees the last {count} tokens; the {cut} before them are left out."),
    N_("These weights do not reproduce what step 9's attention returned."),
    N_("Tokens"),
    N_("Type a text"),
    N_("What if"),
    N_("Generate"),
    N_("Your GPT is being loaded … {seconds} s"),
    N_("Your code: steps {steps}."),
    N_("Zoom in"),
    N_("Zoom out"),
    N_("all"),
    N_("as it is"),
    N_("before training"),
    N_("dropout on"),
    N_("flash in place of naive"),
    N_("head {head} silenced"),
    N_("layer {layer}, head {head}"),
    N_("mask off"),
    N_("parameters"),
    N_("positions off"),
    N_("temperature"),
    N_("the kit's, trained on English stories"),
    N_("the kit's, trained on Korean stories"),
    N_("the reference in place of yours"),
    N_("yours, trained for {steps} steps"),
    N_("{count} × {count} of {all} × {all}"),
    N_("{count} of 12 steps are yours; computed on {device}"),
)


def routes(gpt: GPTProcess) -> list[Route]:
    """The routes of the Explore tab. `done` sends the stage and the part done as JSON, `write` a line of JSON for each
    token, and every other question gets bytes: the length of a JSON header in four, the header, numbers."""

    turn = asyncio.Lock()

    async def answer(request: Request) -> Response:
        """The process's answer to the question in the path; 204 if the page no longer waits for it."""
        question = await request.json() | {"ask": request.path_params["what"]}
        async with turn:
            if await request.is_disconnected():  # while it waited, another text was typed
                return Response(status_code=204)
            return Response(await run_in_threadpool(_framed, gpt, question), media_type="application/octet-stream")

    async def done(_request: Request) -> Response:
        return JSONResponse({"stage": gpt.stage, "done": gpt.done})

    async def write(request: Request) -> Response:
        return StreamingResponse(_written(gpt, await request.json()), media_type="application/x-ndjson")

    return [
        Route("/data/explore/done", done),
        Route("/data/explore/write", write, methods=["POST"]),
        Route("/data/explore/{what}", answer, methods=["POST"]),
    ]


async def _written(gpt: GPTProcess, question: dict[str, Any]) -> AsyncIterator[str]:
    """Yields a line of JSON, with `text` or `error`, for each token as it is drawn, `question["count"]` of them;
    Starlette ends it if the page has gone or stopped listening."""
    for _token in range(min(int(question.pop("count")), MOST_WRITTEN)):
        try:
            header, _body = await run_in_threadpool(gpt.ask, question | {"ask": "next"})
        except GPTSilent as error:
            header = {"error": str(error)}
        yield json.dumps({name: header[name] for name in ("text", "error") if name in header}) + "\n"
        if "error" in header:
            return
        question["ids"] = header["ids"]


def _framed(gpt: GPTProcess, question: dict[str, Any]) -> bytes:
    """The process's answer, or its error, as bytes: the length of its JSON header, the header, the numbers."""
    try:
        header, body = gpt.ask(question)
    except GPTSilent as error:
        header, body = {"error": str(error)}, b""
    said = json.dumps(header).encode()
    return struct.pack("<I", len(said)) + said + body
