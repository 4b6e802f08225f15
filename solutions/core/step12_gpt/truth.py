"""Step 12 held against Hugging Face's GPT-2, its own `generate`, and `Tensor.unfold`."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from solutions.core.step12_gpt.reference import GPT, generate, next_token_batches
from tests.truths import (
    DOUBLE,
    NUM_DRAWS,
    Case,
    Refused,
    close,
    drawer,
    drawn,
    gradients,
    moves,
    refusals,
    same_distribution,
    with_and_without_bias,
)


def test_next_token_batches() -> None:
    """The windows that `Tensor.unfold` cuts, of the ids and of the ids shifted by one."""
    for num_ids in (5, 8, 9, 10, 30):
        token_ids = torch.randint(100, (num_ids,))
        inputs, targets = zip(*next_token_batches(token_ids, 4, 3), strict=True)
        assert torch.equal(torch.cat(inputs), token_ids[:-1].unfold(0, 4, 4))
        assert torch.equal(torch.cat(targets), token_ids[1:].unfold(0, 4, 4))
        assert all(len(batch) == 3 for batch in inputs[:-1])
    assert list(next_token_batches(torch.arange(4), 4, 3)) == []  # the fourth token has no successor


# Hugging Face's GPT-2, which proves steps 9, 11 and 12 together.

VOCABULARY, POSITIONS = 23, 8


def hugging_face(rate: float = 0.0, bias: bool = True) -> Any:
    """A small GPT-2 with random weights, built from a configuration: nothing is downloaded. bias=False: they are 0."""
    from transformers import GPT2Config, GPT2LMHeadModel  # here, as it takes seconds that most runs of one test save

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=POSITIONS,
        n_embd=12,
        n_layer=2,
        n_head=3,
        attn_pdrop=rate,
        embd_pdrop=rate,
        resid_pdrop=rate,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    model = drawn(GPT2LMHeadModel(config)).train(rate > 0)
    for name, parameter in model.named_parameters():
        if name.endswith(".bias") and not bias:
            nn.init.zeros_(parameter)
    return model


def by_our_names(theirs: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their tensors under our names. A Conv1D holds (in, out), where an nn.Linear holds (out, in)."""
    from transformers.pytorch_utils import Conv1D

    turned = {f"{name}.weight" for name, module in theirs.named_modules() if isinstance(module, Conv1D)}
    return {name.removeprefix("transformer."): t.T if name in turned else t for name, t in tensors.items()}


def loaded(theirs: Any, rate: float = 0.0, bias: bool = True) -> GPT:
    """Our GPT with all of their weights; strict, so that every name must be known to both."""
    ours = GPT(VOCABULARY, POSITIONS, 2, 3, 12, rate, bias).to(DOUBLE).train(rate > 0)
    state = by_our_names(theirs, theirs.state_dict())
    ours.load_state_dict({name: t for name, t in state.items() if bias or not name.endswith(".bias")})
    return ours


@with_and_without_bias
def test_gpt_logits_and_gradients(bias: bool) -> None:
    """GPT-2's logits, and its gradient in every parameter; both heads are tied. Without biases theirs are all 0."""
    theirs = hugging_face(bias=bias)
    ours = loaded(theirs, bias=bias)
    assert theirs.lm_head.weight is theirs.transformer.wte.weight
    assert ours.lm_head.weight is ours.wte.weight

    for num_tokens in (1, 5, POSITIONS):
        idx = torch.randint(VOCABULARY, (3, num_tokens))
        got, expected = ours(idx)[0], theirs(idx).logits
        close(got, expected)
        direction = torch.randn_like(expected)
        ours.zero_grad()
        theirs.zero_grad()
        got.backward(direction)
        expected.backward(direction)
        gradients = by_our_names(theirs, {name: p.grad for name, p in theirs.named_parameters()})
        for name, parameter in ours.named_parameters():
            close(parameter.grad, gradients[name])


def test_gpt_loss() -> None:
    """Their loss shifts the labels, ours takes shifted targets; theirs is counted in float32."""
    theirs = hugging_face()
    ours = loaded(theirs)
    idx = torch.randint(VOCABULARY, (3, POSITIONS))
    logits, loss = ours(idx[:, :-1], idx[:, 1:])
    assert_close(loss, theirs(idx, labels=idx).loss.double(), rtol=1e-6, atol=0.0)
    close(loss, F.cross_entropy(logits.transpose(1, 2), idx[:, 1:]))
    assert ours(idx)[1] is None


def test_gpt_dropout() -> None:
    """In training our logits scatter as theirs do: dropout sits in the same places. In eval there is none."""
    theirs = hugging_face(rate=0.1)
    ours = loaded(theirs, rate=0.1)
    idx = torch.randint(VOCABULARY, (1, 3))
    with torch.no_grad():
        draws = idx.expand(NUM_DRAWS, -1)
        same_distribution(ours(draws)[0], theirs(draws).logits)
        close(ours.eval()(idx)[0], theirs.eval()(idx).logits)


def test_greedy_generation() -> None:
    """The tokens that their own `generate` appends."""
    theirs = hugging_face(bias=False)  # biases would prefer some tokens after any text
    ours = loaded(theirs)
    for num_tokens in (1, 2, 5):
        idx = torch.randint(VOCABULARY, (32, num_tokens))
        new = POSITIONS - num_tokens
        options = {"attention_mask": torch.ones_like(idx), "pad_token_id": 0}
        expected = theirs.generate(idx, max_new_tokens=new, do_sample=False, **options)
        assert torch.equal(generate(ours, idx, new, temperature=0), expected)
        assert expected[:, num_tokens:].unique().numel() > 3  # a model that repeats one token would prove little


def test_greedy_generation_beyond_the_last_position() -> None:
    """The largest of their logits for the last tokens of a text that is too long. Dropout stays out of it."""
    theirs = hugging_face(bias=False)  # biases would prefer some tokens after any text
    ours = loaded(theirs, rate=0.5)
    for num_tokens in (POSITIONS - 1, POSITIONS, POSITIONS + 5):
        idx = torch.randint(VOCABULARY, (32, num_tokens))
        expected = idx
        for _ in range(3):
            logits = theirs(expected[:, -POSITIONS:]).logits[:, -1:]
            expected = torch.cat((expected, logits.argmax(dim=-1)), dim=1)
        for training in (True, False):
            assert torch.equal(generate(ours.train(training), idx, 3, temperature=0), expected)
            assert ours.training == training
        assert expected[:, num_tokens:].unique().numel() > 3


@pytest.mark.parametrize(
    ("temperature", "top_k"), [(1.0, None), (0.5, None), (0.5, 4), (2.0, 4), (1.0, 1), (2.0, 1000)]
)
def test_sampled_generation(temperature: float, top_k: int | None) -> None:
    """Tokens come as often as Hugging Face's own warpers of the logits say, and never where these say never."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper

    theirs = hugging_face(bias=False)  # biases would prefer some tokens after any text
    idx = torch.randint(VOCABULARY, (2, 4))
    logits = TemperatureLogitsWarper(temperature)(idx, theirs(idx).logits[:, -1].detach())
    if top_k is not None:
        logits = TopKLogitsWarper(min(top_k, VOCABULARY))(idx, logits)
    probabilities = torch.softmax(logits, dim=-1)

    ours, draws = loaded(theirs), idx.repeat(NUM_DRAWS, 1)  # the two texts take turns
    out = generate(ours, draws, 1, temperature=temperature, top_k=top_k)
    assert torch.equal(out[:, :-1], draws)
    for text in range(2):
        rates = torch.bincount(out[text::2, -1], minlength=VOCABULARY) / NUM_DRAWS
        spread = torch.sqrt(probabilities[text] * (1 - probabilities[text]) / NUM_DRAWS)
        assert ((rates - probabilities[text]).abs() <= 5 * spread + 1e-9).all()
    if top_k != 1:
        assert not torch.equal(out, generate(ours, draws, 1, temperature=temperature, top_k=top_k))


REFUSED: dict[str, Refused] = {
    "GPT": (lambda: GPT(6, 4, 1, 1, 2)(torch.zeros(1, 5, dtype=torch.long)), (5, 4)),
}

test_wrong_arguments = refusals(REFUSED)


class Generating(nn.Module):
    """`generate` as a module, so that it moves with its model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = GPT(7, 3, 1, 2, 4)

    def forward(self, idx: Tensor) -> Tensor:
        return generate(self.model, idx, 3, top_k=4)


x = drawer()
idx = torch.tensor([[1, 0, 6], [3, 3, 2]])
CASES = {
    "GPT": Case(lambda: GPT(7, 3, 1, 2, 4, 0.1), (idx[:, 1:], idx[:, :2])),
    "generate": Case(Generating, (idx,), 0),
    "next_token_batches": Case(
        lambda: lambda ids: tuple(chain.from_iterable(next_token_batches(ids, 3, 2))), (torch.arange(12),), 0
    ),
}

test_gradients = gradients(CASES)
test_meta_device_and_bfloat16 = moves(CASES)
