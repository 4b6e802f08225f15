"""Other right ways of step 12: each must have full marks."""

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from grader.checks.catalogue import variant
from solutions.core.step09_fused_qkv.reference import CausalSelfAttention
from solutions.core.step11_gpt_block.reference import MLP, Block, LayerNorm
from solutions.core.step12_gpt import reference

# --- the model ---


@variant(replaces="GPT")
class head_made_first(nn.Module):
    """The head made first and its weight given to wte; positions in a buffer; the norm after a plain list of blocks."""

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.ln_f = LayerNorm(n_embd, bias)
        blocks = []
        for _ in range(n_layer):
            blocks.append(Block(n_embd, n_head, block_size, dropout, bias))
        self.h = nn.ModuleList(blocks)
        self.drop = nn.Dropout(dropout)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wte.weight = self.lm_head.weight
        self.register_buffer("positions", torch.arange(block_size)[None])

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        _batch, num_tokens = idx.size()
        assert num_tokens <= self.positions.shape[1]
        x = self.wpe(self.positions[:, :num_tokens]) + self.wte(idx)
        x = self.drop(x)
        for layer in range(len(self.h)):
            x = self.h[layer](x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
        return logits, loss


@variant(replaces="GPT")
class loss_by_hand(reference.GPT):
    """Rows of wte and wpe taken by indexing, the head through F.linear, the loss from logsumexp; a list is returned.

    Too many tokens are left to torch: the embedding of the positions and the sum have no such shape.
    """

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.drop(self.wte.weight[idx] + self.wpe.weight[: idx.shape[-1]])
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        if targets is None:
            return [logits, None]  # type: ignore[return-value]
        right = logits.gather(-1, targets[..., None]).squeeze(-1)
        return [logits, (logits.logsumexp(dim=-1) - right).mean()]  # type: ignore[return-value]


@variant(
    replaces="GPT",
    trades="What a block makes on its way is not kept for the gradient: much less memory, and each block runs twice.",
)
class blocks_run_again(reference.GPT):
    """What the blocks make on their way is not kept but made again for the gradient, in both of torch's ways."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.drop(self.wte(idx) + self.wpe.weight[: idx.shape[1]])
        for number, block in enumerate(self.h):
            x = checkpoint(block, x, use_reentrant=number % 2 == 0) if x.requires_grad else block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class RootOfATensor(CausalSelfAttention):
    """Attention that takes the root of the head's width from a tensor."""

    def forward(self, x: Tensor) -> Tensor:
        (B, T, D), H = x.shape, self.n_head
        if self.block_size < T:
            raise ValueError(f"{T} tokens")
        query, key, value = (part.view(B, T, H, D // H).transpose(1, 2) for part in self.c_attn(x).split(D, dim=-1))
        scores = query @ key.mT / torch.sqrt(torch.tensor(D // H, dtype=torch.float32))
        weights = self.attn_dropout(scores.masked_fill(~self.visible[:T, :T], -torch.inf).softmax(dim=-1))
        output: Tensor = self.resid_dropout(self.c_proj((weights @ value).transpose(1, 2).reshape(B, T, D)))
        return output


class FactorInATensor(MLP):
    """An MLP whose gelu is that of LLMs-from-scratch."""

    def forward(self, x: Tensor) -> Tensor:
        wide = self.c_fc(x)
        inner = torch.sqrt(torch.tensor(2.0 / torch.pi)) * (wide + 0.044715 * torch.pow(wide, 3))
        return F.dropout(self.c_proj(0.5 * wide * (1 + torch.tanh(inner))), self.dropout, self.training)


@variant(replaces="GPT")
class constants_in_tensors(reference.GPT):
    """Blocks whose root and whose factor of gelu are tensors, which are float32 whatever the model is."""

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        for block in self.h:
            block.attn = RootOfATensor(n_embd, n_head, block_size, dropout, bias)
            block.mlp = FactorInATensor(n_embd, dropout, bias)


@variant(replaces="GPT")
class loss_a_sequence_at_a_time(reference.GPT):
    """Logits as class dimension first, log-softmax and nll_loss; initial weights of another size."""

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        self.apply(self._start)

    @staticmethod
    def _start(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.xavier_uniform_(module.weight)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        logits, _ = super().forward(idx)
        if targets is None:
            return logits, None
        return logits, F.nll_loss(logits.transpose(1, 2).log_softmax(dim=1), targets)


@variant(replaces="GPT")
class norm_keeps_its_bias(reference.GPT):
    """nn.LayerNorm as the final norm, with its bias also when bias=False; embeddings by one-hot matrices."""

    def __init__(
        self,
        vocab_size: int,
        block_size: int,
        n_layer: int,
        n_head: int,
        n_embd: int,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(vocab_size, block_size, n_layer, n_head, n_embd, dropout, bias)
        self.ln_f = nn.LayerNorm(n_embd)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        if idx.shape[1] > self.block_size:
            raise IndexError("too long")
        one_hot = F.one_hot(idx, self.wte.num_embeddings).to(self.wte.weight.dtype)
        position_hot = torch.eye(self.block_size, dtype=one_hot.dtype, device=idx.device)[: idx.shape[1]]
        x = self.drop(one_hot @ self.wte.weight + position_hot @ self.wpe.weight)
        for block in self.h:
            x = block(x)
        logits = self.ln_f(x) @ self.lm_head.weight.T
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


# --- generate ---


@variant(replaces="generate")
@torch.no_grad()
def small_logits_hidden(
    model: reference.GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """The way of most tutorials: the logits below the k-th largest become -inf, then softmax and multinomial."""
    mode = model.training
    model.eval()
    for _ in range(max_new_tokens):
        context = idx if idx.size(1) <= model.block_size else idx[:, -model.block_size :]
        logits, _loss = model(context)
        logits = logits[:, -1, :]
        if temperature == 0.0:
            idx_next = torch.argmax(logits, dim=-1, keepdim=True)
        else:
            logits = logits / temperature
            if top_k is not None:
                v, _index = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("inf")
            idx_next = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
        idx = torch.cat((idx, idx_next), dim=1)
    model.train(mode)
    return idx


@variant(
    replaces="generate",
    trades="Sampling becomes an argmax, without softmax or sum; every logit needs a random number of its own.",
)
@torch.inference_mode()
def gumbel_noise(
    model: reference.GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """Sampling as the largest of logits plus Gumbel noise, into a tensor made beforehand."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    given = idx.shape[1]
    text = torch.empty(idx.shape[0], given + max_new_tokens, dtype=idx.dtype, device=idx.device)
    text[:, :given] = idx
    for end in range(given, given + max_new_tokens):
        logits = model(text[:, max(0, end - model.block_size) : end])[0][:, -1]
        if top_k is not None:
            order = logits.argsort(dim=-1, descending=True)
            logits = logits.scatter(-1, order[:, top_k:], float("-inf"))
        noise = -torch.empty_like(logits).exponential_().log()
        text[:, end] = (logits + temperature * noise).argmax(dim=-1)
    for module, mode in modes.items():
        module.training = mode
    return text


@variant(replaces="generate")
def categorical_a_row(
    model: reference.GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """torch.distributions, told not to look at values; the mode is restored whatever happens."""
    mode = model.training
    try:
        model.eval()
        for _ in range(max_new_tokens):
            with torch.no_grad():
                logits = model(idx[:, -model.wpe.num_embeddings :])[0].select(1, -1)
            if not temperature:
                drawn = logits.max(dim=-1).indices
            else:
                if top_k and top_k < logits.shape[-1]:
                    threshold = logits.kthvalue(logits.shape[-1] - top_k + 1, dim=-1, keepdim=True).values
                    logits = torch.where(logits >= threshold, logits, -1e9)
                drawn = torch.distributions.Categorical(logits=logits / temperature, validate_args=False).sample()
            idx = torch.hstack((idx, drawn.unsqueeze(1)))
    finally:
        model.train(mode)
    return idx


@variant(replaces="generate")
def inverse_of_the_cumulative_sum(
    model: reference.GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """A uniform number a row, looked up in the cumulative probabilities; a temperature of 0 becomes a tiny one."""
    mode, block_size = model.training, model.wpe.weight.shape[0]
    model.eval()
    for _ in range(max_new_tokens):
        logits = model(idx[:, -block_size:])[0][:, -1].detach().double()
        logits = logits - logits.max(dim=-1, keepdim=True).values
        odds = torch.exp(logits / max(temperature, 1e-300))
        if top_k is not None:
            kept = torch.zeros_like(odds, dtype=torch.bool)
            kept = kept.scatter(-1, odds.sort(dim=-1, descending=True).indices[:, :top_k], True)
            odds = odds * kept
        cumulative = odds.cumsum(dim=-1)
        luck = torch.rand(idx.shape[0], 1, dtype=torch.float64, device=idx.device) * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, luck, right=True).clamp(max=odds.shape[-1] - 1)
        idx = torch.cat([idx, drawn], dim=-1)
    model.train(mode)
    return idx


# --- next_token_batches ---


@variant(replaces="next_token_batches")
def windows_in_a_list(token_ids: Tensor, context_length: int, batch_size: int) -> list[list[Tensor]]:
    """A loop over the starts, windows stacked; a list of lists is returned instead of a generator."""
    starts = list(range(0, len(token_ids) - context_length, context_length))
    batches = []
    for first in range(0, len(starts), batch_size):
        chosen = starts[first : first + batch_size]
        inputs = torch.stack([token_ids[start : start + context_length] for start in chosen])
        targets = torch.stack([token_ids[start + 1 : start + 1 + context_length] for start in chosen])
        batches.append([inputs, targets])
    return batches


@variant(
    replaces="next_token_batches",
    trades="Windows are views of one tensor, so the text is not copied; they are not contiguous.",
)
def windows_by_unfold(token_ids: Tensor, context_length: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Windows of T + 1 tokens, T apart, as views that are not contiguous."""
    windows = token_ids.unfold(0, context_length + 1, context_length)
    for batch in range(math.ceil(len(windows) / batch_size)):
        rows = windows[batch * batch_size : (batch + 1) * batch_size]
        yield rows[:, :-1], rows[:, 1:]


@variant(replaces="next_token_batches")
def windows_of_a_python_list(
    token_ids: Tensor, context_length: int, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The ids are read into a list, and each batch becomes a tensor on their device."""
    ids = token_ids.tolist()
    starts = range(0, len(ids) - context_length, context_length)
    for first in range(0, len(starts), batch_size):
        chosen = starts[first : first + batch_size]
        inputs, targets = ([ids[at + shift : at + shift + context_length] for at in chosen] for shift in (0, 1))
        yield torch.tensor(inputs, device=token_ids.device), torch.tensor(targets, device=token_ids.device)


class _Windows(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, token_ids: Tensor, context_length: int) -> None:
        self.token_ids, self.context_length = token_ids, context_length

    def __len__(self) -> int:
        return (len(self.token_ids) - 1) // self.context_length

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        start = number * self.context_length
        window = self.token_ids[start : start + self.context_length + 1]
        return window[:-1], window[1:]


@variant(replaces="next_token_batches")
def windows_of_a_data_loader(
    token_ids: Tensor, context_length: int, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """A Dataset of windows, and torch's own DataLoader, which stacks them."""
    for batch in DataLoader(_Windows(token_ids, context_length), batch_size=batch_size):
        yield tuple(batch)


@variant(replaces="next_token_batches")
def windows_by_index(token_ids: Tensor, context_length: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """A table of indices, a batch of starts at a time."""
    count = (token_ids.numel() - 1) // context_length
    starts = torch.arange(count, device=token_ids.device) * context_length
    for chosen in starts.split(batch_size):
        table = chosen[:, None] + torch.arange(context_length, device=token_ids.device)
        yield token_ids[table], token_ids[table + 1]


@variant(replaces="next_token_batches")
class windows_by_number:
    """A class whose batches are asked for by their number, as a `for` loop does it where there is no `__iter__`."""

    def __init__(self, token_ids: Tensor, context_length: int, batch_size: int) -> None:
        self.windows = token_ids.unfold(0, context_length + 1, context_length)
        self.batch_size = batch_size

    def __len__(self) -> int:
        return -(-len(self.windows) // self.batch_size)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        if number >= len(self):
            raise IndexError(number)
        rows = self.windows[number * self.batch_size : (number + 1) * self.batch_size]
        return rows[:, :-1], rows[:, 1:]


@variant(replaces="next_token_batches")
def ids_as_a_tensor(token_ids: Tensor, context_length: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """What is given is made a tensor first, in case that it is a list."""
    token_ids = torch.as_tensor(token_ids, dtype=torch.long)
    count = (len(token_ids) - 1) // context_length
    for first in range(0, count, batch_size):
        rows = range(first, min(first + batch_size, count))
        starts = [row * context_length for row in rows]
        x = torch.stack([token_ids[start : start + context_length] for start in starts])
        y = torch.stack([token_ids[start + 1 : start + context_length + 1] for start in starts])
        yield x, y


@variant(replaces="next_token_batches")
def ids_read_beside_a_tensor(
    token_ids: Tensor, context_length: int, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The ids are read into a list, and the places come from a tensor: neither runs on `meta`."""
    ids, kind = token_ids.tolist(), {"device": token_ids.device}
    starts = torch.arange(0, len(ids) - context_length, context_length)
    for some in starts.split(batch_size):
        rows = [ids[start : start + context_length + 1] for start in some.tolist()]
        yield torch.tensor([row[:-1] for row in rows], **kind), torch.tensor([row[1:] for row in rows], **kind)
