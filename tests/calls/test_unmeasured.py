"""Work that was done where nothing was counted: with torch's and NumPy's own public means, and nothing patched."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch as dispatch

from grader.calls.builtins import BuiltIns, banned
from grader.calls.call import Call, Options
from grader.calls.modes import PeakMemory
from grader.calls.responder import Responder
from tests.checks.test_narrow_ways import reference, refused_by

Array = np.ndarray[Any, Any]


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Where no mode of torch's looks."""
    with torch._C.DisableTorchFunction(), dispatch._disable_current_modes():
        yield


class AsSums(TorchFunctionMode):
    """Writes each product of matrices as a sum of elementwise ones."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.matmul, Tensor.matmul, Tensor.__matmul__):
            return (args[0][..., :, :, None] * args[1][..., None, :, :]).sum(-2)
        if func is F.linear:
            product = (args[0][..., None, :] * args[1]).sum(-1)
            return product if len(args) < 3 or args[2] is None else product + args[2]
        return func(*args, **(kwargs or {}))


class Elsewhere(dispatch.TorchDispatchMode):
    """Does the work of any op where no mode looks."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with dispatch._disable_current_modes():
            return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("where", [unseen, Elsewhere, torch.inference_mode])
def test_the_whole_matrix_out_of_sight(where: Callable[[], Any]) -> None:
    """Steps 25 and 10: the matrix of all scores at once."""
    may_attend = reference("step25_window").may_attend

    def window_attention(
        query: Tensor, key: Tensor, value: Tensor, window: int, is_causal: bool = True, num_global: int = 0
    ) -> Tensor:
        if window < 1:
            raise ValueError
        with where():
            places = torch.arange(query.shape[-2])
            scores = query @ key.mT / query.shape[-1] ** 0.5
            allowed = may_attend(places, places, window, is_causal, num_global)
            return scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ value

    refused = refused_by("step25_window", {"window_attention": window_attention})
    assert "test_memory" in refused

    def flash_attention(
        query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False, block_size: int = 64
    ) -> Tensor:
        with where():
            scores = query @ key.mT / query.shape[-1] ** 0.5
            if is_causal:
                scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
            return (scores - scores.amax(-1, keepdim=True)).exp().softmax(-1) @ value

    assert "test_memory" in refused_by("step10_flash", {"flash_attention": flash_attention})


@pytest.mark.parametrize("where", [unseen, AsSums, Elsewhere, torch.inference_mode])
def test_writing_without_a_cache_out_of_sight(where: Callable[[], Any]) -> None:
    """Step 27: each new token costs a pass over all."""

    def generate_cached(model: Any, idx: Tensor, max_new_tokens: int) -> Tensor:
        if idx.shape[1] + max_new_tokens > model.block_size:
            raise ValueError
        was_training = model.training
        model.eval()
        with torch.no_grad(), where():
            for _token in range(max_new_tokens):
                idx = torch.cat((idx, model(idx, None)[:, -1:].argmax(-1)), dim=1)
        model.train(was_training)
        return idx

    refused = refused_by("step27_kv_cache", {"generate_cached": generate_cached})
    assert {"test_generate", "test_every_token_goes_through_once"} <= refused


TOKENS, WIDTH = 64, 8


def crowded() -> Tensor:
    """A sparse matrix with every place taken."""
    rows, columns = torch.arange(0, TOKENS * TOKENS + 1, TOKENS), torch.arange(TOKENS).repeat(TOKENS)
    return torch.sparse_csr_tensor(rows, columns, torch.zeros(TOKENS * TOKENS))


ROOMS: dict[str, Callable[[Tensor, Tensor], Any]] = {  # where no storage shows the matrix of all scores
    "sparse": lambda q, k: torch.sparse.mm(q.to_sparse(), k.mT.to_sparse()).sum(),
    "compressed": lambda q, k: torch.sparse.sampled_addmm(crowded(), q, k.mT.contiguous()).sum(),
    "oneDNN": lambda q, k: F.linear(q.to_mkldnn(), k.to_mkldnn()).to_dense().sum(),
}
PRODUCTS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    **ROOMS,
    "a convolution": lambda q, k: F.conv1d(q.mT[None], k[..., None]),
    "a convolution turned round": lambda q, k: F.conv_transpose1d(q.mT[None], k.mT[..., None]),
    "a fused layer": lambda q, k: torch.ops.mkldnn._linear_pointwise(q, k, None, "none", [], ""),
    "a bag": lambda q, k: F.embedding_bag(
        torch.arange(WIDTH).repeat(TOKENS, 1), k.mT, per_sample_weights=q, mode="sum"
    ),
    "three factors": lambda q, k: torch.addcmul(torch.zeros(1), q[:, None], k[None]).sum(-1),
    "quotients": lambda q, k: (q[:, None] / (1 / k)).sum(-1),
    "between two": lambda q, k: torch.lerp(torch.zeros(1), q[:, None], k).sum(-1),
    "lists": lambda q, k: torch._foreach_mul([q[:, None]], [k[None]])[0].sum(-1),
    "complex": lambda q, k: (torch.view_as_complex(q.view(-1, 4, 2)) @ torch.view_as_complex(k.view(-1, 4, 2)).mH).real,
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # sparse tensors are a prototype
@pytest.mark.parametrize("way", PRODUCTS)
def test_a_product_by_another_name(way: str) -> None:
    """The scores of all pairs count as the work that they are, and as large, in any layout."""
    if way in ("oneDNN", "a fused layer") and not torch.backends.mkldnn.is_available():
        pytest.skip("torch was built without oneDNN")
    query, key = torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)
    responder = Responder({"scores": PRODUCTS[way]}, {})
    outcome = responder.respond(Call("scores", (query, key), options=Options(measures=("products", "largest"))))
    assert outcome.raised is None
    (products, largest) = (outcome.measured[measure] for measure in ("products", "largest"))
    assert isinstance(products, dict) and sum(products.values()) >= 2 * TOKENS * TOKENS * WIDTH
    assert isinstance(largest, int) and largest >= TOKENS * TOKENS


def test_torch_in_the_step_without_torch() -> None:
    """Step 14: the built-ins that its arrays stand in for."""

    def softmax(x: Array, axis: int = -1) -> Array:
        with unseen():
            return torch.softmax(torch.from_numpy(np.ascontiguousarray(x)), axis).numpy()

    assert "test_softmax_of_any_shape" in refused_by("step14_numpy", {"softmax": softmax})


def test_the_matrix_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 14: a file that is mapped is memory."""
    monkeypatch.setattr(PeakMemory, "mapped", 0)  # it counts from then on: not for the tests after this one
    right = reference("step14_numpy").softmax

    def memory_efficient_attention(Q: Array, K: Array, V: Array, chunk_size: int = 32) -> Array:
        with tempfile.TemporaryFile() as file:
            scores = np.memmap(file, V.dtype, "w+", shape=(len(Q), len(K)))
            for start in range(0, len(Q), chunk_size):
                rows = slice(start, start + chunk_size)
                scores[rows] = Q[rows] @ K.T / np.sqrt(Q.shape[-1]).astype(V.dtype)
            return np.concatenate([right(np.asarray(scores[row : row + 1])) @ V for row in range(len(Q))])

    refused = refused_by("step14_numpy", {"memory_efficient_attention": memory_efficient_attention})
    assert "test_memory_stays_small" in refused


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_gelu_fused_with_a_product() -> None:
    """Step 11: it is an argument of another op, which calls no gelu on some processors."""
    x, one = torch.ones(3, 1), torch.ones(1, 1)
    with BuiltIns(("gelu",)) as seen:
        torch.ops.mkldnn._linear_pointwise(x, one, None, "gelu", [], "tanh")
    assert "_linear_pointwise" in banned(seen.names, ["gelu"])
    with BuiltIns(("gelu",)) as seen:
        torch._addmm_activation(torch.zeros(1), x, one, use_gelu=True)  # type: ignore[attr-defined]
    assert "_addmm_activation" in banned(seen.names, ["gelu"])


@pytest.mark.thorough
def test_hooks_that_hide_what_is_saved() -> None:
    """Step 28: nothing is computed again, and hooks of one's own take what is saved."""
    gpt = reference("step28_training").GPT
    kept: list[Tensor] = []

    def handed_on(saved: Tensor) -> Any:
        return saved

    def put_aside(saved: Tensor) -> Any:
        kept.append(saved)
        return len(kept) - 1

    for pack, unpack in ((handed_on, handed_on), (put_aside, kept.__getitem__), (lambda x: (x, 1), lambda x: x[0])):

        class CheckpointedGPT(gpt):  # type: ignore[misc,valid-type]
            def forward(self, idx: Tensor, targets: Tensor | None = None) -> Any:
                with torch.autograd.graph.saved_tensors_hooks(pack, unpack):  # noqa: B023  # asked before the next
                    return super().forward(idx, targets)

        assert "test_checkpointed_saves_memory" in refused_by("step28_training", {"CheckpointedGPT": CheckpointedGPT})
        kept.clear()


class KeptByHand(torch.autograd.Function):
    """Attention whose weights are kept beside what autograd saves."""

    @staticmethod
    def forward(ctx: Any, hold: Callable[[Any, Tensor], None], query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Keeps the weights."""
        weights = (query @ key.mT).softmax(-1)
        hold(ctx, weights)
        return weights @ value

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Any:
        """Of the right shapes."""
        return None, given[0], given[0], given[0]


KEPT: list[Any] = []
ASKED = Options(gradients=True, measures=("saved",))


@pytest.mark.parametrize(
    "hold",
    [
        lambda ctx, weights: setattr(ctx, "x", weights),
        lambda ctx, weights: setattr(ctx, "x", [{"weights": weights.view(-1)}]),
        lambda ctx, weights: ctx.__dict__.update(x=weights),
        lambda ctx, weights: setattr(ctx, "again", lambda: weights),
        lambda ctx, weights: setattr(ctx, "array", weights.numpy()),
        lambda ctx, weights: KEPT.append(weights),
        lambda ctx, weights: ctx.save_for_backward(weights),
    ],
)
def test_what_a_function_keeps_by_hand_is_saved(hold: Callable[[Any, Tensor], None]) -> None:
    """On its `ctx`, in what hangs there, or anywhere else: the T x T matrix is there until the backward pass."""
    tokens, width = 50, 4
    query, key, value = (torch.randn(tokens, width) for _each in range(3))
    responder = Responder({"attend": lambda *given: KeptByHand.apply(hold, *given)}, {})
    outcome = responder.respond(Call("attend", (query, key, value), options=ASKED))
    KEPT.clear()
    assert outcome.raised is None and outcome.measured["saved"] == tokens * tokens
    nothing = Responder({"attend": lambda *given: KeptByHand.apply(lambda *kept: None, *given)}, {})
    assert nothing.respond(Call("attend", (query, key, value), options=ASKED)).measured == {"saved": 0}


def test_blocks_that_keep_by_hand() -> None:
    """Step 28: nothing is computed again; a function of one's own has the graph of each block on its `ctx`."""
    gpt = reference("step28_training").GPT

    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, block: nn.Module, x: Tensor, *parameters: Tensor) -> Tensor:
            ctx.parameters = parameters
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(lambda t: [t], lambda t: t[0]):
                ctx.x = x.detach().requires_grad_()
                ctx.y = block(ctx.x)
            return ctx.y.detach().clone()  # type: ignore[no-any-return]

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            return None, *torch.autograd.grad(ctx.y, (ctx.x, *ctx.parameters), gradients)

    class CheckpointedGPT(gpt):  # type: ignore[misc,valid-type]
        def __init__(self, *sizes: Any, **named: Any) -> None:
            super().__init__(*sizes, **named)
            for block in self.blocks:
                plain = block.forward
                block.forward = lambda x, plain=plain, block=block: Kept.apply(plain, x, *block.parameters())

    assert "test_checkpointed_saves_memory" in refused_by("step28_training", {"CheckpointedGPT": CheckpointedGPT})


def test_training_with_none_of_its_techniques() -> None:
    """Step 28: a product in half precision beside a step in float32, no scaler, and a graph."""
    right = reference("step28_training").train_step

    def train_step(
        model: Any, optimizer: Any, batches: Any, lr: float, max_norm: float = 1.0, precision: str = "float32",
        scaler: Any = None,
    ) -> Any:  # fmt: skip
        for place in ("meta", "cpu") if precision == "bfloat16" else ():
            free = torch.zeros(256, 256, dtype=torch.bfloat16, device=place)
            free @ free
        if scaler is None:
            return right(model, optimizer, batches, lr, max_norm)
        with torch.no_grad():
            before = [parameter.clone() for parameter in model.parameters()]
        result = right(model, optimizer, batches, lr, max_norm)
        if scaler.get_scale() > 2.0**100:
            scaler.update(2.0)
            for parameter, value in zip(model.parameters(), before, strict=True):
                parameter.data.copy_(value)
        return result

    def evaluate(model: nn.Module, batches: Any) -> float:
        was_training = model.training
        model.eval()
        with torch.autograd.graph.saved_tensors_hooks(lambda x: None, lambda x: x):
            losses = [(model(inputs, targets)[1].item(), targets.numel()) for inputs, targets in batches]
        model.train(was_training)
        return sum(loss * tokens for loss, tokens in losses) / sum(tokens for _loss, tokens in losses)

    refused = refused_by("step28_training", {"train_step": train_step, "evaluate": evaluate})
    assert {"test_bfloat16", "test_scaler", "test_evaluate"} <= refused


def test_other_work_on_meta() -> None:
    """Step 6: a mask of fixed size that stays on the CPU, and on `meta` none."""
    right = reference("step06_causal_attention").CausalAttention

    class CausalAttention(right):  # type: ignore[misc,valid-type]
        def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
            super().__init__(d_in, d_out, context_length, dropout, qkv_bias)
            del self.visible
            self.hidden = [torch.ones(1000, 1000, dtype=torch.bool).triu(1)]  # no buffer: it does not move

        def forward(self, x: Tensor) -> Tensor:
            tokens = x.shape[1]
            if tokens > self.context_length:
                raise ValueError
            query, key, value = self.W_query(x), self.W_key(x), self.W_value(x)
            scores = query @ key.mT / key.shape[-1] ** 0.5
            if not x.is_meta:
                scores = scores.masked_fill(self.hidden[0][:tokens, :tokens], -torch.inf)
            return self.dropout(scores.softmax(-1)) @ value  # type: ignore[no-any-return]

    refused = refused_by("step06_causal_attention", {"CausalAttention": CausalAttention})
    assert "test_follows_device" in refused
