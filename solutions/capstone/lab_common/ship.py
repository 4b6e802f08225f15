"""Makes the two small checkpoints that come with the kit: `python -m solutions.capstone.lab_common.ship` (15 minutes).

They are trained on the stories alone, on one thread, and hold half-precision weights and no optimiser.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from . import pieces, stories, training

STEPS, STEPS_OF_DECAY = 2500, 1000


def make(language: str) -> None:
    """Trains one and writes `small.LANGUAGE.safetensors` beside this file."""
    text = stories.text(language)
    words = pieces.learn(text)
    ids = training.ids_of(words, text)
    run = training.Run(training.Shape(len(words.tokens)), ids)
    base = run.optimizer.param_groups[0]["lr"]
    for step in range(STEPS):
        run.shape = run.shape.__class__(**asdict(run.shape) | {"learning_rate": base * decay(step)})
        loss = run.advance()
        if step % 250 == 0:
            print(language, step, f"{loss:.3f}", f"{run.validate():.3f}", flush=True)
    kept = {
        "shape": asdict(training.Shape(len(words.tokens))), "pieces": words.tokens, "steps": STEPS,
        "validation": run.validate(), "bigram": training.bigram_loss(run.training, run.validation, len(words.tokens)),
    }  # fmt: skip
    tensors = {f"model.{name}": value.detach().half().contiguous() for name, value in run.model.named_parameters()}
    save_file(tensors, file_of(language), {"run": json.dumps(kept, ensure_ascii=False)})


def file_of(language: str) -> Path:
    """Where the checkpoint of a language stands."""
    return Path(__file__).with_name(f"small.{language}.safetensors")


def decay(step: int) -> float:
    """The learning rate falls to a tenth in the last steps."""
    return max(0.1, min(1.0, (STEPS - step) / STEPS_OF_DECAY))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for wanted in sys.argv[1:] or ("en", "ko"):
        make(wanted)
