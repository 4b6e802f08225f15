"""GPT, and the text it writes

Everything meets here: token and position embeddings, a stack of step 11's blocks, a final norm and a head that
shares its weight with the token embedding. A loss tells how wrong the next tokens are, and sampling writes on.

Asked everywhere: views with any strides, more than 1,024 tokens, any device, and calls under `torch.no_grad()`. Inputs
stay unmodified, and later calls leave earlier results as they are. A guard of up to 1e-10 beside a denominator is
right. A module has no other parameters than those named. Switched back and forth by `train()` and `eval()`, its own or
those of a parent module, it drops in training mode only, and the same `torch.manual_seed` repeats what is dropped.
Where a ValueError is named, any error will do.

Off limits: nn.Transformer and its kin (nn.TransformerEncoder, nn.TransformerDecoderLayer, ...).
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solutions.core.step11_gpt_block.reference import Block, LayerNorm


class GPT(nn.Module):
    """A language model with GPT-2's layout and parameter names.

    B sequences of T tokens; D is n_embd, the model width. Submodules: wte (vocab_size rows of width D), wpe
    (block_size rows), drop (dropout on the sum of both embeddings), h (an nn.ModuleList of n_layer blocks), ln_f,
    lm_head (nn.Linear without bias), and lm_head.weight is wte.weight: one and the same parameter. dropout and bias go
    to every block; with bias=False, ln_f may have a bias or none.
    """

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
        ### BEGIN SOLUTION
        self.block_size = block_size
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList(Block(n_embd, n_head, block_size, dropout, bias) for _ in range(n_layer))
        self.ln_f = LayerNorm(n_embd, bias)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        # 0.02 is GPT-2's initial standard deviation (Hugging Face's GPT2Config.initializer_range). With the default of
        # nn.Embedding, 1, the tied head would give logits of standard deviation sqrt(D): far too sure of itself.
        nn.init.normal_(self.wte.weight, std=0.02)
        nn.init.normal_(self.wpe.weight, std=0.02)
        self.lm_head.weight = self.wte.weight
        ### END SOLUTION

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return (logits, loss): what follows each token, and how wrong that is.

        idx: (B, T) token ids. targets: (B, T) token ids, already shifted: targets[b, t] is what follows idx[b, t].
        logits: (B, T, vocab_size), one row for every position, in the parameters' dtype.
        loss: the mean cross-entropy over all B * T positions, or None without targets.
        Raises ValueError when T > block_size.
        """
        ### BEGIN SOLUTION
        num_tokens = idx.shape[1]
        if num_tokens > self.block_size:
            raise ValueError(f"{num_tokens} tokens were given, but block_size is {self.block_size}")

        positions = torch.arange(num_tokens, device=idx.device)  # (T,)
        x = self.drop(self.wte(idx) + self.wpe(positions))  # (B, T, D) + (T, D) -> (B, T, D)
        for block in self.h:
            x = block(x)  # (B, T, D)
        logits = self.lm_head(self.ln_f(x))  # (B, T, vocab_size)

        if targets is None:
            return logits, None
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())  # (B * T, vocab_size), (B * T,) -> ()
        return logits, loss
        ### END SOLUTION


def generate(
    model: GPT, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
) -> Tensor:
    """Append max_new_tokens sampled tokens to idx: (B, T) -> (B, T + max_new_tokens).

    The model sees the last block_size tokens at most. The logits are divided by temperature before the softmax;
    temperature = 0 takes the largest logit, and a negative one is not asked for. With top_k, at least 1, only the top_k
    largest logits of each row can be drawn; a top_k larger than the vocabulary means all of it. Each row draws by
    itself. idx is not modified. The model is evaluated in eval mode and gets back the mode it had.
    """
    ### BEGIN SOLUTION
    was_training = model.training
    block_size = model.wpe.weight.shape[0]  # wpe has one row a position
    model.eval()
    with torch.no_grad():
        for _ in range(max_new_tokens):
            context = idx[:, -block_size:]  # (B, at most block_size)
            logits = model(context)[0][:, -1]  # (B, T, vocab_size) -> (B, vocab_size)
            if temperature == 0:
                next_ids = logits.argmax(dim=-1, keepdim=True)  # (B, 1)
            else:
                kept = logits.shape[-1] if top_k is None else min(top_k, logits.shape[-1])
                largest, candidates = logits.float().topk(kept, dim=-1)  # (B, kept) both
                probabilities = F.softmax(largest / temperature, dim=-1)  # (B, kept)
                chosen = torch.multinomial(probabilities, num_samples=1)  # (B, 1)
                next_ids = candidates.gather(dim=-1, index=chosen)  # (B, 1)
            idx = torch.cat((idx, next_ids), dim=1)  # (B, T + 1)
    model.train(was_training)
    return idx
    ### END SOLUTION


def next_token_batches(token_ids: Tensor, context_length: int, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (inputs, targets), both (B, T): T is context_length, B at most batch_size.

    token_ids: (N,). Window i starts at i * T, in order, and there are (N - 1) // T of them: each token of a window
    needs the token that follows it, since targets are the inputs shifted by one. The last batch may be smaller.
    The ids may be read as numbers, into lists say. What is yielded lies on the device of token_ids, in a process whose
    default device is the CPU: torch.as_tensor(token_ids) is right, and a tensor made of numbers has to be told where.
    """
    ### BEGIN SOLUTION
    num_windows = (len(token_ids) - 1) // context_length
    num_inputs = num_windows * context_length
    inputs = token_ids[:num_inputs].reshape(num_windows, context_length)  # (num_windows, T)
    targets = token_ids[1 : num_inputs + 1].reshape(num_windows, context_length)  # (num_windows, T)
    for first in range(0, num_windows, batch_size):
        yield inputs[first : first + batch_size], targets[first : first + batch_size]  # (B, T) both
    ### END SOLUTION
